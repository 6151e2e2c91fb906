/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slices.h - what a timeline knows, and how it draws: a thread enters a state, and when it leaves
 * that, the state becomes a slice. Private to timeline.c, which knows what events mean.
 */
#ifndef GT_SLICES_H
#define GT_SLICES_H

#include "threads.h"

/* A release on a GIL that is not confirmed. */
struct pending {
	struct thread *thread; /* NULL: none */
	uint64_t ns, yield_ns; /* 0: no yield followed */
	uint64_t epoch, start_ns;
	uint8_t open, forced;
};

struct gil {
	struct thread *holder;
	struct thread *yielder; /* waits in drop_gil until another thread acquires; one at most */
	uint64_t free_since_ns; /* a hold cannot have begun earlier */
	uint64_t last_epoch;    /* in which the last to have it was seen; 0: none was */
	uint32_t last_tid;
	struct pending pending;
	uint8_t confirmed;
};

struct gt_timeline {
	const struct gt_sink_ops *ops;
	struct gt_sink *sink;
	struct gt_timeline_opts opts;
	int err;

	/* An epoch is a stretch without loss; what came before it is not known. The first is 1. */
	uint64_t epoch, epoch_start_ns;
	uint64_t start_ns, first_gap_ns; /* of the first epoch; 0: it lasts */
	uint8_t epoch_open;
	uint8_t drop_returns; /* function mode: each drop_gil ends with a DROPPED */

	struct gt_threads threads;
	struct thread *active, **active_end; /* those with an event in this epoch, in that order */
	struct thread *leavers; /* ended in a take, which is held back: what follows tells why */

	struct gil gils[256];
	struct gt_timeline_stats stats;
};

static inline uint64_t max_ns(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * All slices come through here, and here the promises of sink.h are kept: with events in order
 * nothing is moved; a sequence that cannot be true may move a slice to a later time.
 */
static inline struct gt_span fit(struct gt_timeline *tl, struct thread *t, enum gt_span_kind kind,
				 uint8_t gil, uint64_t start_ns, uint64_t end_ns, uint8_t open)
{
	struct gil *g = &tl->gils[gil];
	struct gt_span span = {.tid = t->tid, .kind = kind, .gil = gil, .open = open};

	start_ns = max_ns(start_ns, max_ns(t->row_end_ns, t->last_start_ns[kind] + 1));
	if (kind == GT_SPAN_HOLD && gil != GIL_INDEX_OTHER)
		start_ns = max_ns(start_ns, g->free_since_ns);
	span.start_ns = start_ns;
	span.end_ns = max_ns(start_ns, end_ns);
	if (kind == GT_SPAN_HOLD && gil != GIL_INDEX_OTHER)
		g->free_since_ns = span.end_ns;
	t->row_end_ns = span.end_ns;
	t->last_start_ns[kind] = span.start_ns;
	return span;
}

static inline void hand_on(struct gt_timeline *tl, struct gt_span *span, uint8_t forced)
{
	span->forced = forced;
	tl->stats.spans[span->kind]++;
	if (span->kind == GT_SPAN_DROP)
		tl->stats.releases[forced]++;
	if (!tl->err)
		tl->err = tl->ops->span(tl->sink, span);
}

static inline void hand_on_held(struct gt_timeline *tl, struct thread *t, uint8_t open)
{
	if (!t->held.end_ns)
		return;
	t->held.open |= open;
	hand_on(tl, &t->held, t->forced);
	t->held.end_ns = 0;
}

static inline void emit(struct gt_timeline *tl, struct thread *t, enum gt_span_kind kind,
			uint8_t gil, uint64_t start_ns, uint64_t end_ns, uint8_t open)
{
	struct gt_span span = fit(tl, t, kind, gil, start_ns, end_ns, open);

	hand_on_held(tl, t, GT_OPEN_NO);
	hand_on(tl, &span, t->forced);
}

/* The thread releases at `ns`; the slice is held back, as a yield may tell that it was forced. */
static inline void end_hold(struct gt_timeline *tl, struct thread *t, uint8_t gil,
			    uint64_t start_ns, uint64_t ns, uint8_t open)
{
	t->held = fit(tl, t, GT_SPAN_HOLD, gil, start_ns, ns, open);
}

static inline void enter(struct thread *t, enum thread_state state, uint8_t gil, uint64_t ns,
			 uint8_t open)
{
	t->state = state;
	t->gil = gil;
	t->since_ns = ns;
	t->open = open;
}

static inline void leave(struct gt_timeline *tl, struct thread *t)
{
	struct gil *g = &tl->gils[t->gil];

	if (g->holder == t)
		g->holder = NULL;
	if (g->yielder == t)
		g->yielder = NULL;
	t->state = IDLE;
	t->yields = 0;
	t->forced = GT_FORCED_UNKNOWN;
}

/* Draws what the thread is in, up to `ns`, and leaves it idle. open: GT_OPEN_NO or why it ends. */
static inline void close_state(struct gt_timeline *tl, struct thread *t, uint64_t ns, uint8_t open)
{
	static const uint8_t kinds[] = {
		[WAITING] = GT_SPAN_TAKE, [HOLDING] = GT_SPAN_HOLD, [DROPPING] = GT_SPAN_DROP};

	if (t->state == WAITING && !tl->gils[t->gil].confirmed)
		tl->stats.unconfirmed++; /* by a BEFORE, on what is no GIL */
	else if (t->state >= WAITING)
		emit(tl, t, kinds[t->state], t->gil, t->since_ns, ns, t->open | open);
	leave(tl, t);
}

/* The end of the state was missed; it lies at no known time. */
static inline void close_unknown(struct gt_timeline *tl, struct thread *t)
{
	close_state(tl, t, t->since_ns, GT_OPEN_UNKNOWN);
}

/* The thread went on at `ns`: with DROPPING this is the end of a yield, if there was one. */
static inline void close_drop(struct gt_timeline *tl, struct thread *t, uint64_t ns)
{
	if (t->yields)
		close_state(tl, t, ns, GT_OPEN_NO);
	else if (tl->drop_returns)
		close_unknown(tl, t);
	else
		close_state(tl, t, t->since_ns, GT_OPEN_NO);
}

/* The thread does something at `ns` that it can only do with all else behind it. */
static inline void settle(struct gt_timeline *tl, struct thread *t, uint64_t ns)
{
	if (t->state == DROPPING)
		close_drop(tl, t, ns);
	else
		close_unknown(tl, t);
}

/* Loss or the end of the recording at `ns`: what is open was open until then. */
static inline void cut(struct gt_timeline *tl, struct thread *t, uint64_t ns, uint8_t open)
{
	if (t->state == DROPPING && !t->yields && !tl->drop_returns)
		close_state(tl, t, t->since_ns, GT_OPEN_NO);
	else
		close_state(tl, t, ns, open);
}

#endif
