/* SPDX-License-Identifier: Apache-2.0 */
/*
 * playfix.h - plays events in short hand to a timeline and writes down what comes out, for tests.
 *
 * Events: W wait, A acquire, R release, F forced release, Y yield, T take, D dropped, l left, E the
 * thread has ended, then the thread, ".GIL" unless it is 0, "@time"; w1, h1 waited or held before;
 * G0@9 a GIL, g0@9 one that is not confirmed, L40-50 events lost in between, Z40-50 not recorded
 * yet, P40-50 paused, M1@9 a mark of a thread, M0@9 of the process. A recording lasts from 100 to
 * 1000.
 *
 * What comes out: slices, take1 10-20, then ".GIL", "+flag"; waits, take1 20: held 12 (5: 10) free
 * 8 unknown 0, "<5 7-17" where it is known whose hold let it go; pairs, 1<5 12/1; threads, 1: seen
 * from 10 for 90, unknown 5.
 */
#ifndef GT_PLAYFIX_H
#define GT_PLAYFIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>

#include "timeline.h"

#define START_NS 100
#define END_NS   1000

struct text {
	char s[4096];
	size_t len;
};

struct recorder {
	struct gt_sink sink;
	struct text slices, waits, pairs, seen, labels;
	int fail_at; /* the how many'th slice fails; 0: none */
};

__attribute__((format(printf, 2, 3))) static inline void add_text(struct text *t,
								  const char *format, ...)
{
	va_list args;

	va_start(args, format);
	t->len += (size_t)vsnprintf(t->s + t->len, sizeof(t->s) - t->len, format, args);
	va_end(args);
	assert_true(t->len < sizeof(t->s));
}

static inline const char *comma(const struct text *t)
{
	return t->len ? ", " : "";
}

static inline void add_wait(struct text *t, const struct gt_span *span)
{
	const struct gt_wait *w = &span->wait;

	add_text(t, "%stake%u", comma(t), span->tid);
	if (span->gil)
		add_text(t, ".%u", span->gil);
	add_text(t, " %" PRIu64 ":", span->end_ns - span->start_ns);
	if (w->held_ns)
		add_text(t, " held %" PRIu64 " (%u: %" PRIu64 ")", w->held_ns, w->blocker,
			 w->blocker_ns);
	if (w->nobody_ns)
		add_text(t, " free %" PRIu64, w->nobody_ns);
	if (w->unknown_ns)
		add_text(t, " unknown %" PRIu64, w->unknown_ns);
	if (w->from_tid)
		add_text(t, " <%u %" PRIu64 "-%" PRIu64, w->from_tid, w->from_start_ns, w->from_ns);
	if (!span->acquired)
		add_text(t, " in vain");
}

static inline int rec_span(struct gt_sink *sink, const struct gt_span *span)
{
	struct recorder *r = (struct recorder *)sink;
	static const struct gt_wait none;
	static const char *const names[] = {"take", "hold", "drop"};
	static const char *const forced[] = {"", "+voluntary", "+forced"};
	static const char *const open[] = {"+start", "+lost",       "+end", "+unknown",
					   "+exit",  "+finalizing", "",     "+paused"};

	if (r->fail_at && !--r->fail_at)
		return -ENOSPC;
	add_text(&r->slices, "%s%s%u", comma(&r->slices), names[span->kind], span->tid);
	if (span->gil)
		add_text(&r->slices, ".%u", span->gil);
	add_text(&r->slices, " %" PRIu64 "-%" PRIu64 "%s", span->start_ns, span->end_ns,
		 forced[span->forced]);
	for (size_t i = 0; i < GT_ARRAY_SIZE(open); i++)
		if (span->open >> i & 1)
			add_text(&r->slices, "%s", open[i]);
	if (span->kind == GT_SPAN_TAKE)
		add_wait(&r->waits, span);
	else
		assert_true(!memcmp(&span->wait, &none, sizeof(none)) && !span->acquired);
	return 0;
}

static inline int rec_gap(struct gt_sink *sink, const struct gt_gap *gap)
{
	struct recorder *r = (struct recorder *)sink;

	add_text(&r->slices, "%s%s %" PRIu64 "-%" PRIu64 "%s", comma(&r->slices),
		 gap->late     ? "late"
		 : gap->paused ? "paused"
			       : "lost",
		 gap->begin_ns, gap->end_ns, gap->why ? gap->why : "");
	assert_true(!gap->paused || !gap->count);
	return 0;
}

static inline int rec_mark(struct gt_sink *sink, const struct gt_mark *mark)
{
	struct recorder *r = (struct recorder *)sink;

	add_text(&r->slices, "%smark%u %" PRIu64, comma(&r->slices), mark->tid, mark->at_ns);
	assert_string_equal(mark->name, "name");
	return 0;
}

static inline int rec_thread(struct gt_sink *sink, const struct gt_sink_thread *t)
{
	struct recorder *r = (struct recorder *)sink;

	assert_int_equal(r->pairs.len, 0);
	add_text(&r->labels, "%s%u=%s=%s", comma(&r->labels), t->tid, t->label, t->name);
	add_text(&r->seen, "%s%u: ", comma(&r->seen), t->tid);
	if (!t->first_ns)
		add_text(&r->seen, "not seen");
	else
		add_text(&r->seen, "from %" PRIu64 " for %" PRIu64, t->first_ns, t->observed_ns);
	if (t->unknown_ns)
		add_text(&r->seen, " unknown %" PRIu64, t->unknown_ns);
	return 0;
}

static inline int rec_pair(struct gt_sink *sink, const struct gt_pair *pair)
{
	struct recorder *r = (struct recorder *)sink;

	add_text(&r->pairs, "%s%u<", comma(&r->pairs), pair->victim);
	if (pair->blocker == GT_BLOCKER_NOBODY)
		add_text(&r->pairs, "free");
	else if (pair->blocker == GT_BLOCKER_UNKNOWN)
		add_text(&r->pairs, "unknown");
	else if (pair->blocker == GT_BLOCKER_OTHERS)
		add_text(&r->pairs, "others");
	else
		add_text(&r->pairs, "%u", pair->blocker);
	add_text(&r->pairs, " %" PRIu64 "/%" PRIu64, pair->ns, pair->waits);
	return 0;
}

static const struct gt_sink_ops recorder_ops = {
	.span = rec_span,
	.gap = rec_gap,
	.mark = rec_mark,
	.thread = rec_thread,
	.pair = rec_pair,
};

static inline struct gil_event parse_event(const char *p)
{
	static const struct {
		char letter;
		uint8_t kind, forced, before;
	} letters[] = {
		{'W', GIL_WAIT, 0, 0},
		{'A', GIL_ACQUIRE, 0, 0},
		{'R', GIL_RELEASE, 0, 0},
		{'F', GIL_RELEASE, 1, 0},
		{'Y', GIL_YIELD, 0, 0},
		{'T', GIL_TAKE, 0, 0},
		{'D', GIL_DROPPED, 0, 0},
		{'E', GIL_EXIT, 0, 0},
		{'l', GIL_LEFT, 0, 0},
		{'w', GIL_BEFORE, 0, GIL_BEFORE_WAITING},
		{'h', GIL_BEFORE, 0, GIL_BEFORE_HOLDING},
		{'M', GIL_MARK, 0, 0},
	};
	struct gil_event ev = {0};
	char *end;

	if (*p == 'L') {
		ev.kind = GIL_LOST;
		ev.lost.begin_mono_ns = strtoull(p + 1, &end, 10);
		ev.mono_ns = strtoull(end + 1, &end, 10);
		ev.lost.count = 1;
	} else if (*p == 'Z') {
		ev.kind = GIL_LATE;
		ev.late.begin_mono_ns = strtoull(p + 1, &end, 10);
		ev.mono_ns = strtoull(end + 1, &end, 10);
	} else if (*p == 'P') {
		ev.kind = GIL_PAUSED;
		ev.paused.begin_mono_ns = strtoull(p + 1, &end, 10);
		ev.mono_ns = strtoull(end + 1, &end, 10);
	} else if (*p == 'G' || *p == 'g') {
		ev.kind = GIL_GIL;
		ev.unconfirmed = *p == 'g';
		ev.gil = (uint8_t)strtoul(p + 1, &end, 10);
		ev.mono_ns = strtoull(end + 1, &end, 10);
	} else {
		for (size_t i = 0; i < GT_ARRAY_SIZE(letters); i++) {
			if (letters[i].letter != *p)
				continue;
			ev.kind = letters[i].kind;
			ev.forced = letters[i].forced;
			ev.before.state = letters[i].before;
			if (ev.kind == GIL_MARK)
				ev.mark.name = "name";
		}
		assert_true(ev.kind);
		ev.tid = (uint32_t)strtoul(p + 1, &end, 10);
		if (*end == '.')
			ev.gil = (uint8_t)strtoul(end + 1, &end, 10);
		assert_int_equal(*end, '@');
		ev.mono_ns = strtoull(end + 1, &end, 10);
	}
	assert_true(*end == ' ' || !*end);
	return ev;
}

/* For play(); each test begins with it all 0. */
static struct gt_timeline_opts opts;

static inline int setup(void **state)
{
	(void)state;
	opts = (struct gt_timeline_opts){.start_mono_ns = START_NS};
	return 0;
}

/* Returns what the timeline counted. */
static inline struct gt_timeline_stats play(const char *events, struct recorder *r)
{
	struct gt_timeline_stats stats;
	struct gt_timeline *tl;
	struct gil_event ev;

	*r = (struct recorder){.sink = {&recorder_ops}};
	assert_int_equal(gt_timeline_create(&r->sink, &opts, &tl), 0);
	for (const char *p = events; p && *p; p = strchr(p, ' ') ? strchr(p, ' ') + 1 : NULL) {
		ev = parse_event(p);
		assert_int_equal(gt_timeline_event(tl, &ev), 0);
	}
	assert_int_equal(gt_timeline_finish(tl, END_NS), 0);
	stats = *gt_timeline_stats(tl);
	gt_timeline_free(tl);
	return stats;
}

/* The slices. */
static inline struct gt_timeline_stats expect(const char *events, const char *want)
{
	struct recorder r;
	struct gt_timeline_stats stats = play(events, &r);

	assert_string_equal(r.slices.s, want);
	return stats;
}

static inline void expect_odd(const char *events, const char *want, enum gt_odd odd, uint64_t n)
{
	struct gt_timeline_stats stats = expect(events, want);

	for (int i = 0; i < GT_ODD_KINDS; i++)
		assert_int_equal(stats.odd[i], i == (int)odd ? n : 0);
}
#define expect_even(events, want) expect_odd(events, want, GT_ODD_KINDS, 0)

#endif
