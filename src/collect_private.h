/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect_private.h - what collect.c (records, gaps, the end) and collect_threads.c (who the
 * threads are) share.
 */
#ifndef GT_COLLECT_PRIVATE_H
#define GT_COLLECT_PRIVATE_H

#include "before.h"
#include "collect.h"

struct gt_known_thread {
	uint32_t tid;
	uint32_t ns_tid;
	uint32_t host_tid;
	uint8_t ended;    /* the id may belong to another thread by now */
	uint8_t asked_py; /* for its name in the interpreter: how often in vain; enough: ASKS */
	char comm[GIL_COMM_LEN];
	char *name; /* in the interpreter; NULL: not known */
};

/* A thread that has ended, and may have set a mark before that. */
struct gt_ended_thread {
	uint32_t tid, ns_tid;
};

#define GT_ENDED_THREADS 256u /* of which that is remembered, the latest */

struct gt_collector {
	struct gt_gilfile *file;
	const struct gt_proc *proc;
	struct gt_selfcheck *check;
	uint64_t lost_told; /* of the ring's losses, by records so far */
	uint64_t strays;    /* events that came too late, and so are lost, too */
	uint32_t malformed;
	uint32_t n_seen; /* threads, those that have ended included */

	uint64_t cond[GT_MAX_GILS]; /* address of each GIL; 0: not known, or may be none */
	uint32_t gils_seen;         /* bit i: it was acquired or released */
	struct gt_before before;
	uint8_t has_clock;
	uint64_t begin_ns;    /* of the recording: no mark is earlier */
	uint64_t start_ns;    /* mono_ns of the GIL_BEFORE records */
	uint64_t latest_ns;   /* of what the ring has told */
	uint64_t resumed_ns;  /* the end of the latest pause; 0: there was none */
	uint64_t searched_ns; /* when all threads were last looked at in vain for an id of theirs */

	/*
	 * All threads seen, grown between readings only. The callback appends the new ones to
	 * `fresh`; what does not fit there keeps the name that BPF has seen.
	 */
	struct gt_known_thread *threads; /* by tid */
	size_t n_threads, room;
	size_t n_fresh;
	uint8_t missed; /* there were more new ones */
	uint8_t gone;   /* what /proc shows is not what was recorded any more */
	struct gt_known_thread fresh[256];
	struct gt_ended_thread ended[GT_ENDED_THREADS]; /* a ring */
	uint32_t n_ended;                               /* ever; wraps */
};

/* ---- collect.c ---- */

void gt_collect_add(struct gt_collector *c, const struct gil_event *ev);

/* ---- collect_threads.c; those without a time are called for records of the ring ---- */

/*
 * Remembers who a thread is, to see later whether it has another name; drops it if there is no
 * room. Returns 0 where that was known; else *ev, a GIL_THREAD, is complete.
 */
int gt_collect_know(struct gt_collector *c, struct gil_event *ev);

int gt_collect_is_known(struct gt_collector *c, uint32_t tid);

/* The thread has ended: its id may be another's from now on. */
void gt_collect_forget(struct gt_collector *c, uint32_t tid);

/* Names of new threads are looked up. */
void gt_collect_refresh(struct gt_collector *c, uint64_t mono_ns);

/* And of all again. */
void gt_collect_rename(struct gt_collector *c, uint64_t mono_ns);

/* Who a thread is that may have had no event so far. -ESRCH or -ENOENT: it has ended. */
int gt_collect_introduce(struct gt_collector *c, uint32_t tid, uint64_t mono_ns);

/* The thread with that id in the process's PID namespace, introduced; 0: there is none. */
uint32_t gt_collect_tid_of(struct gt_collector *c, uint32_t ns_tid, uint64_t mono_ns);

/* Threads that have ended while nobody told of it get their GIL_EXIT. */
void gt_collect_end_gone(struct gt_collector *c, uint64_t mono_ns);

void gt_collect_free_threads(struct gt_collector *c);

#endif
