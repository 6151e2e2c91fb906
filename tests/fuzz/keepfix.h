/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keepfix.h - a sink that keeps what a timeline hands on, and aborts where it breaks a promise of
 * sink.h. For fuzz_timeline.c.
 */
#ifndef GT_KEEPFIX_H
#define GT_KEEPFIX_H

#include "must.h"
#include "sink.h"

struct list {
	struct gt_span *v;
	size_t n;
};

#define KEEP_ROWS  256
#define KEEP_PAIRS 1024

struct keeper {
	struct gt_sink sink;
	struct list spans;
	struct gt_sink_thread threads[KEEP_ROWS];
	struct gt_pair pairs[KEEP_PAIRS];
	size_t npairs;
	uint64_t unconfirmed, marks;
	uint64_t start_ns, end_ns; /* of the recording */
	uint8_t named[KEEP_ROWS], marked[KEEP_ROWS];
};

static void append(struct list *l, const struct gt_span *span)
{
	if (!(l->n & (l->n - 1))) {
		l->v = reallocarray(l->v, l->n ? l->n * 2 : 1, sizeof(*l->v));
		MUST(l->v);
	}
	l->v[l->n++] = *span;
}

/* Rows whose id is not known have great numbers; what is known is below 128 here. */
static uint32_t fold(uint32_t tid)
{
	return tid < GT_SINK_TID_UNKNOWN ? tid : tid - GT_SINK_TID_UNKNOWN + 128;
}

/* ---- the sink ---- */

static int keep_span(struct gt_sink *sink, const struct gt_span *span)
{
	struct keeper *k = (struct keeper *)sink;
	struct gt_span folded = *span;

	MUST(!k->npairs);
	folded.tid = fold(span->tid);
	MUST(folded.tid < KEEP_ROWS);
	append(&k->spans, &folded);
	return 0;
}

static int keep_gap(struct gt_sink *sink, const struct gt_gap *gap)
{
	(void)sink;
	MUST(gap->begin_ns > 0 && gap->begin_ns <= gap->end_ns);
	MUST(!(gap->late || gap->paused) || !gap->count);
	MUST(!gap->late || !gap->paused);
	return 0;
}

static int keep_mark(struct gt_sink *sink, const struct gt_mark *mark)
{
	struct keeper *k = (struct keeper *)sink;

	MUST(!k->npairs && mark->name && *mark->name);
	MUST(mark->at_ns >= k->start_ns && mark->at_ns <= k->end_ns);
	MUST(fold(mark->tid) < KEEP_ROWS);
	k->marked[fold(mark->tid)] |= mark->tid != 0;
	k->marks++;
	return 0;
}

static int keep_thread(struct gt_sink *sink, const struct gt_sink_thread *t)
{
	struct keeper *k = (struct keeper *)sink;

	MUST(!k->npairs);
	MUST(fold(t->tid) < KEEP_ROWS && !k->named[fold(t->tid)]);
	MUST(t->label[0] && strlen(t->label) < 128 && strlen(t->name) < 128);
	MUST(t->first_ns || !t->observed_ns);
	k->named[fold(t->tid)] = 1;
	k->threads[fold(t->tid)] = *t;
	return 0;
}

static int keep_pair(struct gt_sink *sink, const struct gt_pair *pair)
{
	struct keeper *k = (struct keeper *)sink;
	const struct gt_pair *before = k->npairs ? &k->pairs[k->npairs - 1] : NULL;

	MUST(pair->ns && pair->waits && pair->waits <= pair->ns);
	MUST(pair->victim != pair->blocker || !pair->victim);
	MUST(!before || before->victim < pair->victim ||
	     (before->victim == pair->victim && before->blocker < pair->blocker));
	MUST(k->npairs < KEEP_PAIRS);
	k->pairs[k->npairs++] = *pair;
	return 0;
}

static const struct gt_sink_ops keeper_ops = {
	.span = keep_span,
	.gap = keep_gap,
	.mark = keep_mark,
	.thread = keep_thread,
	.pair = keep_pair,
};

static void keep_free(struct keeper *k)
{
	free(k->spans.v);
}

/* All 0: there is none. */
static struct gt_pair keep_find(const struct keeper *k, uint32_t victim, uint32_t blocker)
{
	for (size_t i = 0; i < k->npairs; i++)
		if (fold(k->pairs[i].victim) == victim && k->pairs[i].blocker == blocker)
			return k->pairs[i];
	return (struct gt_pair){0};
}

/* ---- promises ---- */

static int by_start(const void *a, const void *b)
{
	const struct gt_span *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

static void check_span(const struct gt_span *p)
{
	MUST(p->kind < GT_SPAN_KINDS && !(p->open & GT_OPEN_CLIPPED));
	MUST(p->start_ns > 0 && p->start_ns <= p->end_ns);
	MUST(!(p->open & GT_OPEN_UNKNOWN) || p->start_ns == p->end_ns);
	MUST(!(p->open & GT_OPEN_FINALIZING) || p->kind == GT_SPAN_TAKE);
	MUST(p->forced < GT_FORCED_KINDS);
	MUST(!p->forced || p->kind != GT_SPAN_TAKE);
	MUST(!p->acquired || (p->kind == GT_SPAN_TAKE && !(p->open & ~GT_OPEN_START)));
}

static void check_wait(const struct gt_span *p)
{
	static const struct gt_wait none;
	const struct gt_wait *w = &p->wait;

	if (p->kind != GT_SPAN_TAKE) {
		MUST(!memcmp(w, &none, sizeof(none)));
		return;
	}
	MUST(w->held_ns <= p->end_ns - p->start_ns && w->nobody_ns <= p->end_ns - p->start_ns);
	MUST(w->held_ns + w->nobody_ns + w->unknown_ns == p->end_ns - p->start_ns);
	MUST(w->blocker_ns <= w->held_ns && !w->blocker == !w->held_ns);
	MUST(!w->blocker == !w->blocker_ns && (!w->blocker || fold(w->blocker) != p->tid));
	MUST(!w->from_tid || p->acquired);
	MUST(!w->from_tid == !w->from_ns && !w->from_tid == !w->from_start_ns);
	MUST(!w->from_tid || (w->from_start_ns <= w->from_ns && w->from_ns >= p->start_ns &&
			      w->from_ns <= p->end_ns));
	MUST(p->gil != GIL_INDEX_OTHER || (!w->held_ns && !w->nobody_ns && !w->from_tid));
}

static void check_rows(const struct keeper *k)
{
	struct {
		uint64_t end_ns, start_ns[GT_SPAN_KINDS], sum_ns;
	} rows[KEEP_ROWS] = {0};

	for (size_t i = 0; i < k->spans.n; i++) {
		const struct gt_span *p = &k->spans.v[i];

		check_span(p);
		check_wait(p);
		MUST(k->named[p->tid]);
		MUST(p->start_ns >= rows[p->tid].end_ns);
		MUST(p->start_ns > rows[p->tid].start_ns[p->kind]);
		MUST(p->start_ns >= k->threads[p->tid].first_ns);
		rows[p->tid].end_ns = p->end_ns;
		rows[p->tid].start_ns[p->kind] = p->start_ns;
		rows[p->tid].sum_ns += p->end_ns - p->start_ns;
	}
	for (size_t i = 0; i < KEEP_ROWS; i++)
		MUST(rows[i].sum_ns + k->threads[i].unknown_ns <= k->threads[i].observed_ns);
}

/* A hold that ends with a release is followed by its drop_gil, which knows the same of it. */
static void check_releases(const struct keeper *k)
{
	const struct gt_span *hold[KEEP_ROWS] = {NULL};

	for (size_t i = 0; i < k->spans.n; i++) {
		const struct gt_span *p = &k->spans.v[i];

		MUST(!hold[p->tid] ||
		     (p->kind == GT_SPAN_DROP && p->forced == hold[p->tid]->forced &&
		      p->gil == hold[p->tid]->gil && p->start_ns >= hold[p->tid]->end_ns));
		hold[p->tid] = p->kind == GT_SPAN_HOLD && p->forced ? p : NULL;
	}
	for (size_t i = 0; i < GT_ARRAY_SIZE(hold); i++)
		MUST(!hold[i]);
}

static int is_hold(const struct keeper *k, const struct gt_span *p)
{
	for (size_t i = 0; i < k->spans.n; i++) {
		const struct gt_span *h = &k->spans.v[i];

		if (h->kind == GT_SPAN_HOLD && h->tid == fold(p->wait.from_tid) &&
		    h->gil == p->gil && h->start_ns == p->wait.from_start_ns &&
		    h->end_ns == p->wait.from_ns)
			return 1;
	}
	return 0;
}

/* The pairs are the sums of the waits that were for somebody. */
static void check_pairs(const struct keeper *k)
{
	struct {
		uint64_t held_ns, nobody_ns, unknown_ns, waits[2];
	} sums[KEEP_ROWS] = {0};

	for (size_t i = 0; i < k->spans.n; i++) {
		const struct gt_span *p = &k->spans.v[i];

		MUST(!p->wait.from_tid || is_hold(k, p));
		if (p->open & GT_OPEN_FINALIZING)
			continue; /* for nobody */
		sums[p->tid].held_ns += p->wait.held_ns;
		sums[p->tid].nobody_ns += p->wait.nobody_ns;
		sums[p->tid].unknown_ns += p->wait.unknown_ns;
		sums[p->tid].waits[0] += p->wait.nobody_ns != 0;
		sums[p->tid].waits[1] += p->wait.unknown_ns != 0;
	}
	for (size_t i = 0; i < k->npairs; i++) {
		const struct gt_pair *p = &k->pairs[i];

		MUST(p->blocker != GT_BLOCKER_OTHERS); /* there are not so many */
		if (p->blocker == GT_BLOCKER_NOBODY || p->blocker == GT_BLOCKER_UNKNOWN)
			continue;
		MUST(sums[fold(p->victim)].held_ns >= p->ns);
		sums[fold(p->victim)].held_ns -= p->ns;
	}
	for (uint32_t i = 0; i < KEEP_ROWS; i++) {
		MUST(!sums[i].held_ns);
		if (!k->named[i])
			continue;
		MUST(keep_find(k, i, GT_BLOCKER_NOBODY).ns == sums[i].nobody_ns);
		MUST(keep_find(k, i, GT_BLOCKER_NOBODY).waits == sums[i].waits[0]);
		MUST(keep_find(k, i, GT_BLOCKER_UNKNOWN).ns == sums[i].unknown_ns);
		MUST(keep_find(k, i, GT_BLOCKER_UNKNOWN).waits == sums[i].waits[1]);
	}
}

/* Sorts the slices by time. */
static void check_holders(struct keeper *k)
{
	uint64_t end_ns[256] = {0};

	qsort(k->spans.v, k->spans.n, sizeof(*k->spans.v), by_start);
	for (size_t i = 0; i < k->spans.n; i++) {
		const struct gt_span *p = &k->spans.v[i];

		if (p->kind != GT_SPAN_HOLD || p->gil == GIL_INDEX_OTHER)
			continue;
		MUST(p->start_ns >= end_ns[p->gil]);
		end_ns[p->gil] = p->end_ns;
	}
}

/* Sorts the slices by time. */
static void keep_check(struct keeper *k)
{
	for (size_t i = 0; i < KEEP_ROWS; i++)
		MUST(k->named[i] || !k->marked[i]);
	if (!k->spans.n) {
		MUST(!k->npairs);
		return;
	}
	check_rows(k);
	check_releases(k);
	check_pairs(k);
	check_holders(k);
}

#endif
