/* SPDX-License-Identifier: Apache-2.0 */
/*
 * standing.h - how things stand after the events so far: what the GILs are, who holds one and who
 * waits for one, since when, and who the threads are. Needs memory for the threads that live, not
 * for events. Used by one thread.
 */
#ifndef GT_STANDING_H
#define GT_STANDING_H

#include "base.h"
#include "giltrace/gilfile.h"

#define GT_STANDING_GILS 16

struct gt_standing_thread {
	uint64_t since_ns; /* of its wait */
	uint64_t mark;     /* the user's, 0 at first */
	uint32_t tid;
	uint32_t ns_tid, host_tid; /* 0: not told */
	uint8_t waits;             /* for .gil */
	uint8_t gil;
	uint8_t exceeded; /* this wait was found to be too long */
	uint8_t told;     /* by a GIL_THREAD */
	char comm[GIL_COMM_LEN];
	char name[GIL_NAME_MAX + 1]; /* empty: not told */
};

struct gt_standing_gil {
	uint64_t addr;
	uint64_t since_ns; /* of its hold */
	uint32_t holder;   /* 0: nobody, or not known */
	uint8_t told;      /* by a GIL_GIL */
	uint8_t unconfirmed;
	uint8_t exceeded; /* this hold was found to be too long */
};

/* Begins all 0. */
struct gt_standing {
	struct gt_standing_gil gil[GT_STANDING_GILS];
	struct gt_standing_thread *thread; /* by tid */
	size_t n, room;
	size_t latest; /* place of the one that was asked for last */
	size_t n_waiting;
};

/* A hold or a wait. */
struct gt_stretch {
	uint64_t begin_ns, end_ns; /* so far, if it is not over */
	uint32_t tid;
	uint8_t gil;
	uint8_t is_wait;
	uint8_t exceeded; /* it was found to be too long while it lasted */
};

/*
 * The next event, in the order of the file. Returns 1 and fills *over where it ends a hold or a
 * wait whose begin is known. Where there is no memory for a thread, nothing is known of it.
 */
int gt_standing_event(struct gt_standing *s, const struct gil_event *ev, struct gt_stretch *over);

/* NULL: not known. Valid until the next event. */
struct gt_standing_thread *gt_standing_find(struct gt_standing *s, uint32_t tid);

/*
 * One that lasts and is, at now_ns, as long as that, of those for which that was not returned
 * before; a limit of 0 is none. Returns 1, or 0: there is none (more).
 */
int gt_standing_exceeds(struct gt_standing *s, uint64_t now_ns, uint64_t hold_ns, uint64_t wait_ns,
			struct gt_stretch *out);

void gt_standing_free(struct gt_standing *s);

#endif
