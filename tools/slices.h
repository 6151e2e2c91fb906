/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slices.h - what a timeline knows, and how it draws: a thread enters a state, and when it leaves
 * that, the state becomes a slice. Here the promises of sink.h are kept, and all is told to
 * blame.h. Private to timeline.c, which knows what events mean.
 */
#ifndef GT_SLICES_H
#define GT_SLICES_H

#include "threads.h"
#include "timeline.h"

/* A release on a GIL that is not confirmed. */
struct pending {
	struct thread *thread; /* NULL: none */
	uint64_t ns, yield_ns; /* 0: no yield followed */
	uint64_t epoch, start_ns;
	uint64_t own_ns; /* of the thread's life in which it came */
	uint32_t life;
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
	struct gt_sink *sink;
	struct gt_blame *blame;
	struct gt_timeline_opts opts;
	int err;

	/* An epoch is a stretch without loss; what came before it is not known. The first is 1. */
	uint64_t epoch, epoch_start_ns;
	uint64_t start_ns, first_gap_ns; /* of the first epoch; 0: it lasts */
	uint64_t end_ns;                 /* of the recording; 0: not known */
	uint8_t epoch_open;              /* why its beginning is not known: enum gt_span_open .. */
	uint8_t first_gap_open;          /* .. and the end of the first one */
	uint8_t drop_returns;            /* function mode: each drop_gil ends with a DROPPED */

	struct gt_threads threads;
	struct thread *active, **active_end; /* those with an event in this epoch, in that order */
	struct thread *leavers; /* ended in a take, which is held back: what follows tells why */

	struct gt_span take, other; /* on their way to the sink; .wait of `other` stays 0 */
	struct gil gils[256];
	struct gt_timeline_stats stats;
};

static inline uint64_t max_ns(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

#define GT_TIME_MAX (UINT64_MAX >> 2) /* later is no time; leaves room for additions */

/* A time of the sink's axis. */
static inline uint64_t gt_place(const struct gt_timeline *tl, uint64_t mono_ns)
{
	uint64_t ns = tl->opts.unix_ns ? tl->opts.unix_ns(tl->opts.ctx, mono_ns) : mono_ns;

	if (ns > GT_TIME_MAX)
		ns = GT_TIME_MAX;
	return ns ? ns : 1;
}

/* ---- states; ns is when they begin or end ---- */

void gt_enter_wait(struct gt_timeline *tl, struct thread *t, uint8_t gil, uint64_t ns,
		   uint8_t open);
/* The caller sets gil.holder. */
void gt_enter_hold(struct gt_timeline *tl, struct thread *t, uint8_t gil, uint64_t ns,
		   uint8_t open);
void gt_enter_drop(struct thread *t, uint8_t gil, uint64_t ns, uint8_t open);

/* Leaves what the thread is in, idle, without a slice. */
static inline void gt_leave(struct gt_timeline *tl, struct thread *t)
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

/* It was not in what it was thought to be in, and nothing is known of it now. */
void gt_forget(struct gt_timeline *tl, struct thread *t);

/* Draws what the thread is in, and leaves it idle. open: GT_OPEN_NO or why it ends. */
void gt_close(struct gt_timeline *tl, struct thread *t, uint64_t ns, uint8_t open);

/* The wait ends with the GIL. */
void gt_close_acquired(struct gt_timeline *tl, struct thread *t, uint64_t ns);

/* The thread went on: with DROPPING this is the end of a yield, if there was one. */
void gt_close_drop(struct gt_timeline *tl, struct thread *t, uint64_t ns);

/* The end of the state was missed; it lies at no known time before ns. */
void gt_close_unknown(struct gt_timeline *tl, struct thread *t, uint64_t ns);

/* The thread does something that it can only do with all else behind it. */
static inline void gt_settle(struct gt_timeline *tl, struct thread *t, uint64_t ns)
{
	if (t->state == DROPPING)
		gt_close_drop(tl, t, ns);
	else if (t->state != IDLE)
		gt_close_unknown(tl, t, ns);
}

/* The thread ends: what is open was open until then. */
void gt_cut(struct gt_timeline *tl, struct thread *t, uint64_t ns, uint8_t open);

/* So do all, with a loss or the recording; nothing is known of them then. */
void gt_cut_all(struct gt_timeline *tl, uint64_t ns, uint8_t open);

/* ---- slices of threads that are not in such a state ---- */

/* The thread releases at `ns`; the slice is held back, as a yield may tell that it was forced. */
void gt_end_hold(struct gt_timeline *tl, struct thread *t, uint8_t gil, uint64_t start_ns,
		 uint64_t ns, uint8_t open);

void gt_emit(struct gt_timeline *tl, struct thread *t, enum gt_span_kind kind, uint8_t gil,
	     uint64_t start_ns, uint64_t end_ns, uint8_t open);

/* The thread ends while it waits; the slice is held back until it is known why. */
void gt_hold_back_wait(struct gt_timeline *tl, struct thread *t, uint64_t ns);
void gt_hand_on_leavers(struct gt_timeline *tl, uint8_t open);

static inline void gt_settle_leavers(struct gt_timeline *tl, uint8_t open)
{
	if (tl->leavers)
		gt_hand_on_leavers(tl, open);
}

/* ---- stretches of which nothing is known ---- */

/* LOST, LATE, PAUSED: cuts what is open, tells the sink, and begins an epoch behind it. */
void gt_on_gap(struct gt_timeline *tl, const struct gil_event *ev);

/* ---- the end ---- */

/* All threads to the sink, by id, then all pairs. */
void gt_tell_threads(struct gt_timeline *tl);

#endif
