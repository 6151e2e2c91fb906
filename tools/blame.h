/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blame.h - who had the GIL while others waited for it: an exact sweep. For each wait the time is
 * shared out to the threads that held that GIL meanwhile, to nobody (it was free), and to unknown;
 * the parts add up to the wait. Totals are kept for each pair of victim and blocker.
 *
 * The caller, a timeline, tells what happens to each GIL, in the order in which it learns of it,
 * and the slices that it draws; those of one GIL are thought to follow each other (what does not is
 * cut, so that time is never given to two). A GIL whose state is not known, at the start and behind
 * a gap, is so until the first acquire or release. Of GIL_INDEX_OTHER nothing is ever known, and
 * nothing but waits may be told. What is learned of a time after a wait is over does not change it:
 * one that ended without the GIL, before anything was known of that, has waited for unknown.
 *
 * Memory grows with the pairs of threads that met, up to a maximum; further blockers of a victim
 * are summed up as GT_BLOCKER_OTHERS. It does not grow with the length of a wait: the latest holds
 * of a GIL are remembered, and given to those that wait when they must be forgotten. A hold costs
 * time by the number of those that wait for that GIL, up to a maximum: for those that come when so
 * many wait already, it is unknown who had it but for the latest holds. Used by one thread.
 */
#ifndef GT_BLAME_H
#define GT_BLAME_H

#include "sink.h"

#define GT_BLAME_PAIRS_MAX   (1u << 20)
#define GT_BLAME_WAITERS_MAX 1024 /* for one GIL that each hold is given to */

/* A time, and in how many waits. */
struct gt_blame_share {
	uint64_t ns, waits;
};

#define GT_BLAME_LATEST 8 /* a power of two */

/*
 * Of one row of threads, for as long as gt_blame lives; all 0 but the tid to begin with. Private to
 * blame.c but for .told_ns: a wait can not end before this, as what happened until then has been
 * shared out to it already. It only matters where time runs backwards.
 */
struct gt_waiter {
	uint64_t told_ns;
	uint64_t start_ns, blank_ns; /* of the wait; until when what came before is forgotten */
	uint64_t held_ns, unknown_ns, others_ns;       /* of it, so far */
	struct gt_waiter *next, **link;                /* those that wait for the same GIL */
	struct gt_blame_share nobody, unknown, others; /* of all waits */
	uint32_t tid;
	uint32_t pairs; /* those that have a part in the wait: index of the first + 1 */
	uint32_t latest[GT_BLAME_LATEST]; /* by the last bits of the blocker: index + 1 */
	uint8_t gil;
	uint8_t aside; /* too many wait already: it gets only what is remembered at its end */
};

struct gt_blame;

/* Nothing is known of any GIL from start_ns on. -ENOMEM. */
int gt_blame_create(uint32_t pairs_max, uint64_t start_ns, struct gt_blame **out);
void gt_blame_free(struct gt_blame *b);

/* ---- what happens to a GIL ---- */

void gt_blame_acquired(struct gt_blame *b, uint8_t gil, uint32_t tid, uint64_t ns);

/* A hold_gil slice, and whether a release ended it. The GIL is free then. */
void gt_blame_held(struct gt_blame *b, const struct gt_span *hold, int released);

/* A release at `ns`; that of the slice told last, or of a hold of which nothing else is known. */
void gt_blame_released(struct gt_blame *b, uint8_t gil, uint64_t ns);

/* That the thread that was told last had it may be wrong, or since when it has it no more is not
 * known. */
void gt_blame_missed(struct gt_blame *b, uint8_t gil);

/* Of all GILs, when all holds have been told and all waits are over. */
void gt_blame_gap(struct gt_blame *b, uint64_t begin_ns, uint64_t end_ns);

/* ---- waits, one at a time for each waiter ---- */

void gt_blame_wait(struct gt_blame *b, struct gt_waiter *w, uint8_t gil, uint64_t start_ns);

/* It is over: fills in .wait of its slice. One whose end was missed has no length, so no parts.
 * -ENOMEM, of any call until now. */
int gt_blame_waited(struct gt_blame *b, struct gt_waiter *w, struct gt_span *take);

/* Adds that wait to the pairs, unless it was for nobody: GT_OPEN_FINALIZING. */
void gt_blame_count(struct gt_blame *b, struct gt_waiter *w, const struct gt_span *take);

/* It was none. */
void gt_blame_forget(struct gt_blame *b, struct gt_waiter *w);

/* ---- the end ---- */

/* Nothing but gt_blame_tell() is called after this. */
void gt_blame_settle(struct gt_blame *b);

/* Hands the pairs of one victim to the sink, by blocker. The sink's error. */
int gt_blame_tell(const struct gt_blame *b, const struct gt_waiter *w, struct gt_sink *sink);

#endif
