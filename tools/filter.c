// SPDX-License-Identifier: Apache-2.0
#include "filter.h"

#include <inttypes.h>
#include <stdio.h>

#include "log.h"
#include "sat.h"
#include "tidmap.h"

struct filter {
	struct gt_sink sink;
	struct gt_sink *behind;
	struct gt_filter_opts o;
	struct gt_filter_stats *stats;
	struct gt_filter_stats own; /* where nobody asks */
	struct gt_tidmap drawn;     /* threads of this process of which something was let through */
	uint8_t process_out;
};

static int is_in(const uint32_t *list, size_t n, uint64_t id)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == id)
			return 1;
	return n == 0;
}

/* Does it reach into the range? What has no length lies at its start. */
static int reaches(const struct gt_filter_opts *o, uint64_t start_ns, uint64_t end_ns)
{
	if (o->to_ns && start_ns >= o->to_ns)
		return 0;
	return end_ns > o->from_ns || start_ns >= o->from_ns;
}

static int lets_through(const struct gt_filter_opts *o, uint32_t tid, uint64_t start_ns,
			uint64_t end_ns)
{
	return end_ns - start_ns >= o->min_ns && reaches(o, start_ns, end_ns) &&
	       is_in(o->tids, o->ntids, tid);
}

/* Returns whether something was cut off. */
static int clip(const struct gt_filter_opts *o, uint64_t *start_ns, uint64_t *end_ns)
{
	uint64_t start = *start_ns, end = *end_ns;

	if (start < o->from_ns)
		*start_ns = o->from_ns;
	if (o->to_ns && end > o->to_ns)
		*end_ns = o->to_ns;
	return *start_ns != start || *end_ns != end;
}

static uint64_t into_range(const struct gt_filter_opts *o, uint64_t ns)
{
	if (ns < o->from_ns)
		return o->from_ns;
	return o->to_ns && ns > o->to_ns ? o->to_ns : ns;
}

static int filter_process(struct gt_sink *s, const struct gt_sink_process *p)
{
	struct filter *f = (struct filter *)s;
	struct gt_sink_process in_range = *p;

	gt_tidmap_clear(&f->drawn);
	f->process_out = !is_in(f->o.pids, f->o.npids, p->pid);
	f->stats->processes += f->process_out;
	if (f->process_out)
		return 0;
	in_range.start_ns = into_range(&f->o, p->start_ns);
	in_range.end_ns = into_range(&f->o, p->end_ns);
	return f->behind->ops->process(f->behind, &in_range);
}

static void count_left_out(const struct filter *f, uint8_t kind, uint64_t ns)
{
	f->stats->ns[kind] = gt_sat_add(f->stats->ns[kind], ns);
}

/* Of a slice that is let through: as it is handed on. */
static void adapt(const struct filter *f, struct gt_span *span)
{
	struct gt_wait *w = &span->wait;
	uint64_t length = span->end_ns - span->start_ns;

	if (w->from_tid && !lets_through(&f->o, w->from_tid, w->from_start_ns, w->from_ns))
		w->from_tid = 0;
	if (!f->o.clip)
		return;
	if (w->from_tid)
		clip(&f->o, &w->from_start_ns, &w->from_ns);
	if (f->o.to_ns && span->end_ns > f->o.to_ns) {
		span->acquired = 0;
		w->from_tid = 0;
	}
	if (clip(&f->o, &span->start_ns, &span->end_ns)) {
		span->open |= GT_OPEN_CLIPPED;
		count_left_out(f, span->kind, length - (span->end_ns - span->start_ns));
	}
}

static int filter_span(struct gt_sink *s, const struct gt_span *span)
{
	struct filter *f = (struct filter *)s;
	struct gt_span adapted;
	uint32_t number;
	int err;

	if (f->process_out || !lets_through(&f->o, span->tid, span->start_ns, span->end_ns)) {
		f->stats->spans[span->kind]++;
		count_left_out(f, span->kind, span->end_ns - span->start_ns);
		return 0;
	}
	err = gt_tidmap_add(&f->drawn, span->tid, &number);
	if (err)
		return err;
	f->stats->let_through++;
	adapted = *span;
	adapt(f, &adapted);
	return f->behind->ops->span(f->behind, &adapted);
}

static int filter_gap(struct gt_sink *s, const struct gt_gap *gap)
{
	struct filter *f = (struct filter *)s;
	struct gt_gap adapted = *gap;

	if (f->process_out || !reaches(&f->o, gap->begin_ns, gap->end_ns)) {
		f->stats->gaps++;
		return 0;
	}
	if (f->o.clip)
		clip(&f->o, &adapted.begin_ns, &adapted.end_ns);
	return f->behind->ops->gap(f->behind, &adapted);
}

/* One that is let through gives its thread a row, if nothing else does. */
static int filter_mark(struct gt_sink *s, const struct gt_mark *mark)
{
	struct filter *f = (struct filter *)s;
	uint32_t number;
	int err;

	if (f->process_out || !reaches(&f->o, mark->at_ns, mark->at_ns) ||
	    (mark->tid && !is_in(f->o.tids, f->o.ntids, mark->tid))) {
		f->stats->marks++;
		return 0;
	}
	err = mark->tid ? gt_tidmap_add(&f->drawn, mark->tid, &number) : 0;
	if (err || !f->behind->ops->mark)
		return err;
	return f->behind->ops->mark(f->behind, mark);
}

static int filter_thread(struct gt_sink *s, const struct gt_sink_thread *t)
{
	struct filter *f = (struct filter *)s;

	if (f->process_out || gt_tidmap_find(&f->drawn, t->tid) == GT_TIDMAP_NONE) {
		f->stats->threads++;
		return 0;
	}
	return f->behind->ops->thread ? f->behind->ops->thread(f->behind, t) : 0;
}

static int filter_pair(struct gt_sink *s, const struct gt_pair *pair)
{
	const struct filter *f = (struct filter *)s;

	return f->process_out || !f->behind->ops->pair ? 0 : f->behind->ops->pair(f->behind, pair);
}

static int filter_end(struct gt_sink *s, const struct gt_sink_end *end)
{
	const struct filter *f = (struct filter *)s;

	return f->process_out || !f->behind->ops->end ? 0 : f->behind->ops->end(f->behind, end);
}

static int filter_finish(struct gt_sink *s)
{
	struct filter *f = (struct filter *)s;
	int err = f->behind->ops->finish(f->behind);

	gt_tidmap_fini(&f->drawn);
	free(f);
	return err;
}

int gt_filter_create(const struct gt_filter_opts *opts, struct gt_sink *behind,
		     struct gt_filter_stats *stats, struct gt_sink **out)
{
	static const struct gt_sink_ops ops = {
		.process = filter_process,
		.span = filter_span,
		.gap = filter_gap,
		.mark = filter_mark,
		.thread = filter_thread,
		.pair = filter_pair,
		.end = filter_end,
		.finish = filter_finish,
	};
	struct filter *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->sink.ops = &ops;
	f->behind = behind;
	f->o = *opts;
	f->stats = stats ? stats : &f->own;
	*out = &f->sink;
	return 0;
}

void gt_filter_report(const struct gt_filter_stats *st, const char *of)
{
	static const char *const names[GT_SPAN_KINDS] = {"take_gil", "hold_gil", "drop_gil"};
	char text[512], marks[32] = "";
	size_t n = 0;

	if (st->marks)
		snprintf(marks, sizeof(marks), ", %" PRIu64 " mark(s)", st->marks);
	for (int i = 0; i < GT_SPAN_KINDS; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "%s%" PRIu64 " %s (%" PRIu64 ".%03" PRIu64 " ms)",
				      i ? ", " : "", st->spans[i], names[i], st->ns[i] / 1000000,
				      st->ns[i] / 1000 % 1000);
	gt_info("%s%sleft out by the filters: %s; %" PRIu64 " thread(s), %" PRIu64
		" process(es), %" PRIu64 " gap(s)%s",
		of ? of : "", of ? ": " : "", text, st->threads, st->processes, st->gaps, marks);
	if (!st->let_through)
		gt_warn("%s%sthe filters leave no slice", of ? of : "", of ? ": " : "");
}
