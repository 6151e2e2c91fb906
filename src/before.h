/* SPDX-License-Identifier: Apache-2.0 */
/*
 * before.h - threads that were blocked in a futex when the recording began. Which of them waited
 * for a GIL is known when the address of that GIL is: from a snapshot, or from its first event.
 * Part of the collector, used by its thread.
 */
#ifndef GT_BEFORE_H
#define GT_BEFORE_H

#include "snapshot.h"

struct gt_blocked {
	uint64_t futex; /* the address it waits at; 0: settled */
	uint32_t tid;
};

struct gt_before {
	struct gt_blocked *thread; /* by tid */
	size_t n;
	size_t left; /* of these, not settled */
};

/*
 * Keeps those threads that may wait for a GIL: all that are blocked, or where the GILs are known
 * (gils->told) those that wait for one. May follow on an earlier one. 0 or -ENOMEM.
 */
int gt_before_init(struct gt_before *b, const struct gt_snapshot_gils *gils,
		   const struct gt_snapshot_thread *threads, size_t n);
void gt_before_free(struct gt_before *b);

/* Settles a thread: where it was blocked, or 0 if it was not or is settled already. */
uint64_t gt_before_take(struct gt_before *b, uint32_t tid);

/* Settles those that wait for none of these GILs; conds[i] is 0 where there is none. */
void gt_before_keep(struct gt_before *b, const uint64_t *conds, size_t n_conds);

/* Settles all. */
void gt_before_clear(struct gt_before *b);

/* Does a thread that waits at this futex wait for the condition variable at cond? 0 is none. */
int gt_before_is_at(uint64_t futex, uint64_t cond);

#endif
