/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proftrace.h - what is to be known of a Profiler's trace (Chrome JSON: an array, or an object with
 * traceEvents; of torch_npu, msprof, MindSpore or Kineto) before something is laid beside it: one
 * pass, streaming, memory for processes and threads only. Nothing in it is trusted.
 */
#ifndef GT_PROFTRACE_H
#define GT_PROFTRACE_H

#include "proffiles.h"

#define GT_PROFTRACE_TIME_MAX    ((INT64_C(1) << 62) - 1) /* of begin_ns and end_ns */
#define GT_PROFTRACE_PIDS_MAX    65536
#define GT_PROFTRACE_THREADS_MAX (1u << 20) /* named or sorted, each time anew */

struct gt_proftrace_thread {
	uint64_t pid;
	uint64_t tid;
	int64_t sort_index; /* -1: none */
};

/* A process by its number alone, with slices that are not a device's. */
struct gt_proftrace_process {
	uint64_t pid;
	uint64_t slices;
	uint64_t cpu; /* of these, of a category that only a process has (cpu_op and the like) */
};

struct gt_proftrace {
	uint8_t object;        /* {"traceEvents": [...]}; else a top-level array */
	uint8_t kineto;        /* made by PyTorch's own profiler */
	uint8_t gzip;          /* the file is compressed */
	uint8_t cut;           /* the text ends too early, within the array or behind it */
	uint8_t in_array;      /* .cut: within the array */
	uint8_t any;           /* the array is not empty (.cut: something in it is whole) */
	uint8_t relative;      /* begin_ns is before the year 2000: no Unix times */
	uint8_t has_gil;       /* rows of ours are in it already */
	uint64_t size;         /* of the text, in bytes */
	uint64_t whole;        /* .cut: so much of it consists of whole events or members */
	uint64_t array_offset; /* of the byte behind the array's "[" */
	uint64_t events;
	uint64_t untimed; /* of these, those not in begin_ns .. end_ns: see proftrace.c */
	uint64_t odd;     /* elements of the array that are no events */
	/* What JSON does not know and viewers may refuse: NaN and the like; broken UTF-8. */
	uint64_t words, bad_utf8;
	int64_t base_ns;          /* baseTimeNanoseconds: is to be added to every ts; 0: none */
	int64_t begin_ns, end_ns; /* Unix time of the first and last event with a ts; 0, 0: none */
	int64_t rank;             /* distributedInfo.rank; -1: not known */
	int64_t msprof_pid;     /* the process's pid by the ids of msprof's lanes; -1: not known */
	int64_t mindspore_lane; /* a pid that is none, but its threads are real ones; -1: none */
	uint64_t *pids;         /* all that occur, as numbers, sorted */
	size_t npids;
	uint64_t *python; /* pids of processes that are real ones: see proftrace.c */
	size_t npython;
	struct gt_proftrace_process *processes; /* by pid; of .python, if there are any */
	size_t nprocesses;
	struct gt_file_id file;
	struct gt_proftrace_thread *threads; /* of those and mindspore_lane, by pid, then tid */
	size_t nthreads;
};

/*
 * Reads all of it. 0, or -errno with words in `why`: what is no such trace is -EBADMSG, what has
 * more processes or threads than the maximum -E2BIG. One that is cut is fine (.cut). After a
 * failure there is nothing to free in *out.
 */
int gt_proftrace_read(const char *path, struct gt_proftrace *out, char *why, size_t why_size);
void gt_proftrace_fini(struct gt_proftrace *t);

/* Those of another part of the trace, so that none of them is taken for free. -ENOMEM. */
int gt_proftrace_add_pids(struct gt_proftrace *t, const struct gt_proftrace *other);

/* A pid above PID_MAX_LIMIT that is not in it; `nth` 0, 1, 2 ... for several. */
uint64_t gt_proftrace_free_pid(const struct gt_proftrace *t, unsigned int nth);

/*
 * A number from which on rows can be put beside a process's threads: tids are below it, and
 * GT_PROFTRACE_TIDS from it on are not in use for what is named there.
 */
#define GT_PROFTRACE_TIDS 8388608u
uint32_t gt_proftrace_free_tids(const struct gt_proftrace *t, uint64_t pid);

/* -1: none. */
int64_t gt_proftrace_sort_index(const struct gt_proftrace *t, uint64_t pid, uint64_t tid);

#endif
