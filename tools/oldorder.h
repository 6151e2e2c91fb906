/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oldorder.h - one order for the events of a process's threads, of which the times are known to
 * within a microsecond only: one that its GIL can have had.
 *
 * An event that is handed in with `ns` happened from ns to ns + slack. Within that, events move
 * where they must: those of a thread stay in the order in which they came, and a thread that
 * releases the GIL does so before the next one acquires it. So what could have been in order comes
 * out in order, at times that could have been the true ones. What could not keeps its time, and is
 * for the timeline to judge. A thread whose events came out of order by more than the slack is
 * sorted by time, which is counted.
 *
 * All events are in memory, about 12 bytes each. Owned by the caller, used by one thread.
 */
#ifndef GT_OLDORDER_H
#define GT_OLDORDER_H

#include "base.h"
#include "giltrace/gilfile.h"

#define GT_OLDORDER_EVENTS_MAX (1u << 28)
#define GT_OLDORDER_TID_END    4194304u /* no thread has an id from here on (PID_MAX_LIMIT) */
#define GT_OLDORDER_SLACK_MAX  999u     /* what is cut off when a time is cut to microseconds */

struct gt_oldorder_stats {
	uint64_t events;
	uint64_t unsorted;          /* units that came behind a later one of the same thread */
	uint64_t moved;             /* events that got another time .. */
	uint64_t moved_max_ns;      /* .. and by how much at most, never more than the slack */
	uint64_t first_ns, last_ns; /* of what was handed in and out, respectively; 0: no events */
	uint32_t threads;
};

struct gt_oldorder;

/* unit: 1, or 2 where two events of a thread always come together, the earlier one first. */
int gt_oldorder_create(unsigned int unit, struct gt_oldorder **out); /* -ENOMEM */
void gt_oldorder_free(struct gt_oldorder *o);

/*
 * A unit of thread tid (1 .. GT_OLDORDER_TID_END - 1): kinds are GIL_TAKE, GIL_ACQUIRE, GIL_RELEASE
 * or GIL_DROPPED, times from 1 to below GIL_TIME_MAX - GT_OLDORDER_SLACK_MAX. Nothing is kept of
 * what does not succeed: -ENOMEM; -E2BIG: more than GT_OLDORDER_EVENTS_MAX.
 */
int gt_oldorder_add(struct gt_oldorder *o, uint32_t tid, const uint8_t kinds[],
		    const uint64_t ns[]);

int gt_oldorder_has_thread(const struct gt_oldorder *o, uint32_t tid);

/*
 * Hands all of them on, once, in the order of time; .tid, .kind and .mono_ns are set. -ENOMEM or
 * what `emit` has returned.
 */
int gt_oldorder_run(struct gt_oldorder *o, unsigned int slack_ns,
		    int (*emit)(void *ctx, const struct gil_event *ev), void *ctx);

const struct gt_oldorder_stats *gt_oldorder_stats(const struct gt_oldorder *o);

#endif
