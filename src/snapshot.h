/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.h - what a process was doing at an instant, read from outside: which GILs there are and
 * who holds them (CPython 3.13+ publishes where that lies: _Py_DebugOffsets in _PyRuntime), which
 * threads are blocked in a futex and on which address (so: in take_gil), and what its threads have
 * run so far.
 *
 * The target's memory is hostile and changes while it is read: every read is bounded, lists are cut
 * at a maximum, and a version or an offset that is not known to be right means "not told". Reads by
 * process_vm_readv(2) and /proc; needs the right to ptrace. Logs nothing. Used by one thread.
 */
#ifndef GT_SNAPSHOT_H
#define GT_SNAPSHOT_H

#include "pymem.h"

#define GT_SNAPSHOT_GILS 16

struct gt_snapshot_gil {
	uint64_t cond;   /* address of gil->cond */
	uint8_t enabled; /* 0: a free-threaded build that runs without it */
	uint8_t locked;
	uint32_t holder;   /* tid in our PID namespace; 0: nobody, or not known */
	uint64_t switches; /* how often it has passed from one thread to another; wraps */
};

struct gt_snapshot_gils {
	uint8_t told;          /* 0: this Python does not publish it; all else is 0 then */
	uint8_t free_threaded; /* a build that can run without the GIL */
	uint8_t finalizing;    /* the interpreter is ending */
	uint32_t n;
	struct gt_snapshot_gil gil[GT_SNAPSHOT_GILS];
};

/*
 * runtime: address of _PyRuntime in the process; 0: none. out->told is 0 where this Python is older
 * than 3.13, or what stands there is not understood; why (static text) says which. -errno: its
 * memory could not be read.
 */
int gt_snapshot_gils(const struct gt_proc *p, uint64_t runtime, struct gt_snapshot_gils *out,
		     const char **why);

/*
 * The same on any memory: for tests and fuzzing. Holders are left as the interpreter tells them:
 * ids in the target's own PID namespace.
 */
int gt_snapshot_parse(gt_memory_fn *read, void *ctx, uint64_t runtime, struct gt_snapshot_gils *out,
		      const char **why);

/* A thread that is blocked in futex(2), and what it has run. */
struct gt_snapshot_thread {
	uint32_t tid;
	uint64_t futex;  /* the address it waits at; 0: it is not blocked in futex(2) */
	uint64_t run_ns; /* CPU time so far */
	uint64_t sleeps; /* voluntary context switches so far */
};

#define GT_SNAPSHOT_THREADS_MAX 65536

/* The ids of all threads, in order; else as gt_snapshot_threads(). */
int gt_snapshot_tids(const struct gt_proc *p, uint32_t **out, size_t *n);

/* All threads, by tid; *out to be freed. Those that come or go meanwhile may be missing. */
int gt_snapshot_threads(const struct gt_proc *p, struct gt_snapshot_thread **out, size_t *n);

/* What has run between two looks at one process. */
struct gt_activity {
	uint32_t ran;    /* threads that ran for a millisecond or more */
	uint32_t slept;  /* of these, those that also went to sleep by themselves, ten times or more
			  */
	uint64_t run_ns; /* of all threads */
};

struct gt_activity gt_snapshot_activity(const struct gt_snapshot_thread *before, size_t n_before,
					const struct gt_snapshot_thread *after, size_t n_after);

#endif
