/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sinkfix.h - a sink that writes down in words what it is told, and short hand for telling a sink
 * something, for tests.
 *
 * Slices: "take 1 10-20", of GIL 0, to which ".acquired", ".from 2 3-9" and ".forced" are added.
 */
#ifndef GT_SINKFIX_H
#define GT_SINKFIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>

#include "sink.h"

struct notes {
	struct gt_sink sink;
	char text[4096]; /* one line for each call */
	size_t len;
	int fail_at; /* the how many'th call fails with -ENOSPC; 0: none */
	int finished;
};

__attribute__((format(printf, 2, 3))) static inline int note(struct notes *n, const char *format,
							     ...)
{
	va_list args;

	assert_false(n->finished);
	if (n->fail_at && !--n->fail_at) {
		n->fail_at = 1;
		return -ENOSPC;
	}
	va_start(args, format);
	n->len += (size_t)vsnprintf(n->text + n->len, sizeof(n->text) - n->len, format, args);
	va_end(args);
	assert_true(n->len < sizeof(n->text));
	return 0;
}

static inline int notes_process(struct gt_sink *s, const struct gt_sink_process *p)
{
	return note((struct notes *)s, "process %" PRIu64 " %" PRIu64 "-%" PRIu64 "\n", p->pid,
		    p->start_ns, p->end_ns);
}

static inline int notes_span(struct gt_sink *s, const struct gt_span *span)
{
	static const char *const names[] = {"take", "hold", "drop"};
	char from[64] = "";

	if (span->wait.from_tid)
		snprintf(from, sizeof(from), ".from %u %" PRIu64 "-%" PRIu64, span->wait.from_tid,
			 span->wait.from_start_ns, span->wait.from_ns);
	return note((struct notes *)s, "%s %u %" PRIu64 "-%" PRIu64 "%s%s%s%s\n", names[span->kind],
		    span->tid, span->start_ns, span->end_ns, span->acquired ? ".acquired" : "",
		    from, span->forced == GT_FORCED_YES ? ".forced" : "",
		    span->open & GT_OPEN_CLIPPED ? ".clipped" : "");
}

static inline int notes_gap(struct gt_sink *s, const struct gt_gap *gap)
{
	return note((struct notes *)s, "%s %" PRIu64 "-%" PRIu64 "\n",
		    gap->late     ? "late"
		    : gap->paused ? "paused"
				  : "lost",
		    gap->begin_ns, gap->end_ns);
}

static inline int notes_mark(struct gt_sink *s, const struct gt_mark *mark)
{
	return note((struct notes *)s, "mark %u %" PRIu64 " %s\n", mark->tid, mark->at_ns,
		    mark->name);
}

static inline int notes_thread(struct gt_sink *s, const struct gt_sink_thread *t)
{
	return note((struct notes *)s, "thread %u %s\n", t->tid, t->label);
}

static inline int notes_pair(struct gt_sink *s, const struct gt_pair *p)
{
	return note((struct notes *)s, "pair %u %u %" PRIu64 "\n", p->victim, p->blocker, p->ns);
}

static inline int notes_end(struct gt_sink *s, const struct gt_sink_end *e)
{
	return note((struct notes *)s, "end %" PRIu64 "\n", e->events);
}

static inline int notes_finish(struct gt_sink *s)
{
	struct notes *n = (struct notes *)s;
	int err = note(n, "finish\n");

	n->finished = 1;
	return err;
}

static const struct gt_sink_ops notes_ops = {
	.process = notes_process,
	.span = notes_span,
	.gap = notes_gap,
	.mark = notes_mark,
	.thread = notes_thread,
	.pair = notes_pair,
	.end = notes_end,
	.finish = notes_finish,
};

static inline struct gt_sink *notes_init(struct notes *n)
{
	*n = (struct notes){.sink.ops = &notes_ops};
	return &n->sink;
}

/* ---- telling a sink ---- */

static inline int tell_process_at(struct gt_sink *s, uint64_t pid, uint64_t start_ns,
				  uint64_t end_ns)
{
	return s->ops->process(s, &(struct gt_sink_process){.pid = pid,
							    .rank = -1,
							    .name = "name",
							    .tags = "CPU",
							    .path = "file.gil",
							    .start_ns = start_ns,
							    .end_ns = end_ns});
}

static inline struct gt_span make_span(const char *text)
{
	struct gt_span span = {.forced = GT_FORCED_UNKNOWN};
	const char *from = strstr(text, ".from ");
	char kind[8];

	assert_int_equal(sscanf(text, "%7s %u %" SCNu64 "-%" SCNu64, kind, &span.tid,
				&span.start_ns, &span.end_ns),
			 4);
	span.kind = kind[0] == 't' ? GT_SPAN_TAKE : kind[0] == 'h' ? GT_SPAN_HOLD : GT_SPAN_DROP;
	span.acquired = strstr(text, ".acquired") != NULL;
	if (strstr(text, ".forced"))
		span.forced = GT_FORCED_YES;
	if (from)
		assert_int_equal(sscanf(from, ".from %u %" SCNu64 "-%" SCNu64, &span.wait.from_tid,
					&span.wait.from_start_ns, &span.wait.from_ns),
				 3);
	return span;
}

static inline int tell_span(struct gt_sink *s, const char *text)
{
	struct gt_span span = make_span(text);

	return s->ops->span(s, &span);
}

static inline int tell_gap(struct gt_sink *s, uint64_t begin_ns, uint64_t end_ns)
{
	return s->ops->gap(s, &(struct gt_gap){.begin_ns = begin_ns, .end_ns = end_ns, .count = 3});
}

static inline int tell_pause(struct gt_sink *s, uint64_t begin_ns, uint64_t end_ns)
{
	return s->ops->gap(s,
			   &(struct gt_gap){.begin_ns = begin_ns, .end_ns = end_ns, .paused = 1});
}

static inline int tell_mark(struct gt_sink *s, uint32_t tid, uint64_t at_ns, const char *name)
{
	return s->ops->mark(s, &(struct gt_mark){.tid = tid, .at_ns = at_ns, .name = name});
}

static inline int tell_thread(struct gt_sink *s, uint32_t tid, const char *label)
{
	return s->ops->thread(s,
			      &(struct gt_sink_thread){.tid = tid, .label = label, .name = label});
}

static inline int tell_pair(struct gt_sink *s, uint32_t victim, uint32_t blocker, uint64_t ns)
{
	return s->ops->pair(
		s, &(struct gt_pair){.victim = victim, .blocker = blocker, .ns = ns, .waits = 1});
}

static inline int tell_end(struct gt_sink *s, const char *doubt)
{
	return s->ops->end(s, &(struct gt_sink_end){.events = 7, .doubt = doubt});
}

#endif
