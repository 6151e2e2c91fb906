/* SPDX-License-Identifier: Apache-2.0 */
/*
 * selfcheck.h - does what was recorded add up? Follows every event of a process and counts what a
 * lock cannot do: a second acquire without a release, a release by a thread that does not hold. If
 * probes sit at all the places where the GIL changes hands, there is none; if a place was missed,
 * or a Python does something that giltrace does not know, there soon are some.
 *
 * What comes from the attach, from a loss or a pause, or from the end of a thread or of the process
 * is told apart and is no mismatch: a thread is not known until its first event, and again after a
 * gap.
 * Called for each event from a ring's callback: no allocation there, some nanoseconds. One thread.
 */
#ifndef GT_SELFCHECK_H
#define GT_SELFCHECK_H

#include "base.h"
#include "giltrace/gilfile.h"

enum gt_mismatch {
	GT_MISS_ACQUIRE_HOLDING, /* acquires what it holds: a release was missed */
	GT_MISS_ACQUIRE_HELD,    /* acquires what another thread holds: a release was missed */
	GT_MISS_RELEASE_IDLE,    /* releases what it does not hold: an acquire was missed */
	GT_MISS_TAKE_IDLE,       /* waits for it while it holds it, or goes on without an acquire */
	GT_MISS_KINDS,
};

struct gt_selfcheck_gil {
	uint64_t acquires, releases;
	uint64_t miss[GT_MISS_KINDS];
	uint64_t excused; /* would be mismatches, but come from the start, a gap or an end */
};

struct gt_selfcheck;

struct gt_selfcheck *gt_selfcheck_new(void); /* NULL: out of memory */
void gt_selfcheck_free(struct gt_selfcheck *c);

/* Any record, in the order of the file. GIL_INDEX_OTHER and GILs never confirmed do not count. */
void gt_selfcheck_event(struct gt_selfcheck *c, const struct gil_event *ev);

/* Between readings of the ring: makes room for more threads. What found none is .unchecked. */
void gt_selfcheck_tick(struct gt_selfcheck *c);

/* Sum over all GILs, and of one GIL; index below GT_SELFCHECK_GILS. Owned by the check. */
#define GT_SELFCHECK_GILS 16
const struct gt_selfcheck_gil *gt_selfcheck_gil(const struct gt_selfcheck *c, unsigned int index);
struct gt_selfcheck_gil gt_selfcheck_sum(const struct gt_selfcheck *c);

/* Events of threads, acquires and releases of GILs beyond those that can be followed. */
uint64_t gt_selfcheck_unchecked(const struct gt_selfcheck *c);

/* The number of mismatches in a sum. */
uint64_t gt_selfcheck_misses(const struct gt_selfcheck_gil *g);

/*
 * "120 acquires, 80 releases; 40 acquires of a GIL held by another thread" and the like, for a
 * message and for the file. Cut to size.
 */
void gt_selfcheck_text(const struct gt_selfcheck_gil *g, char *buf, size_t size);

#endif
