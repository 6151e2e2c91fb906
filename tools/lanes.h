/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes.h - for proftrace.c: the processes and threads of a trace while it is read. Which of them
 * are what is known only at its end.
 */
#ifndef GT_LANES_H
#define GT_LANES_H

#include "proftrace.h"

/* What is told of a process: what its latest name says, and its label. */
enum gt_lane_mark {
	GT_LANE_PYTHON = 1,    /* torch_npu: its pid is getpid() */
	GT_LANE_MINDSPORE = 2, /* its pid is a constant */
	GT_LANE_MSPROF = 4,    /* its pid is (getpid() << 10) | something */
	GT_LANE_NAME = 7,      /* the three above, of which one may be set */
	GT_LANE_CPU = 8,       /* the label "CPU" */
	GT_LANE_DEVICE = 16,   /* another label */
	GT_LANE_LABEL = 24,    /* the two above, of which one may be set */
};

struct gt_lane;
struct gt_lane_thread;

struct gt_lanes {
	struct gt_lane *slots; /* hash by pid */
	size_t nslots;         /* a power of two */
	size_t n;
	struct gt_lane_thread *threads; /* as they came */
	size_t nthreads, threads_size;
	uint64_t seed; /* so that nobody can choose pids that fall on one slot */
	size_t last;   /* the slot of .last_pid */
	uint64_t last_pid;
	uint8_t any;
};

int gt_lanes_init(struct gt_lanes *l); /* -ENOMEM */
void gt_lanes_fini(struct gt_lanes *l);

/* -E2BIG: too many, -ENOMEM. */
int gt_lanes_add(struct gt_lanes *l, uint64_t pid);
int gt_lanes_mark(struct gt_lanes *l, uint64_t pid, unsigned int clear, unsigned int set);
void gt_lanes_slice(struct gt_lanes *l, int cpu); /* of the pid that was added last */
int gt_lanes_thread(struct gt_lanes *l, uint64_t pid, uint64_t tid, int64_t sort_index);

/* Fills in pids, python, processes, threads, msprof_pid and mindspore_lane of *t. -ENOMEM. */
int gt_lanes_tell(struct gt_lanes *l, struct gt_proftrace *t);

#endif
