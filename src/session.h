/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - one recording from beginning to end: open the targets and find their probe sites,
 * attach, record, finish. Owns its targets, their files and the tracer; one thread, one loop.
 */
#ifndef GT_SESSION_H
#define GT_SESSION_H

#include "collect.h"
#include "pytarget.h"
#include "rank.h"
#include "tracer.h"

/* How a run ended; also giltrace's exit status. The worst one counts, in this order of values. */
enum gt_status {
	GT_OK = 0,
	GT_FAILED = 1,
	GT_USAGE = 2,
	GT_NO_TARGET = 3,  /* a process that was named does not exist */
	GT_NOT_PYTHON = 4, /* a process that was named is no CPython that can be traced */
	GT_NO_KERNEL = 5,  /* privileges or a kernel feature are missing */
	GT_LOSSES = 6,     /* finished; events were lost */
	GT_NO_OUTPUT = 7,  /* a file could not be written */
};

struct gt_session_opts {
	const pid_t *pids;
	size_t n_pids;
	uint64_t duration_ns; /* 0: until stopped */
	const char *output_dir;
	enum gt_probe_mode probe_mode;
	struct gt_tracer_opts tracer; /* max_targets is set by the session */
	int stop_fd;                  /* readable: stop and finish */
	int ready_fd; /* gets one newline once recording has begun; -1: nobody waits */
};

#define GT_FILE_NAME_MAX 64

struct gt_session_target {
	struct gt_proc proc;
	struct gt_pytarget py;
	struct gt_rank rank;
	char file[GT_FILE_NAME_MAX]; /* in the output folder; empty: none was made */
	enum gil_end_reason end;     /* 0: not recorded */
	struct gt_collect_stats stats;
	uint64_t foreign; /* hits on condition variables that are no GIL's */
	/* the session's own */
	struct gt_collector *collector;
	uint32_t slot;
};

struct gt_session;

/*
 * Opens the processes and finds their sites. Processes that cannot be traced are logged, left out
 * and change gt_session_status(). -errno: nothing is left to trace, or out of memory; *out is set
 * then, too, if there was memory for it, so that the status can be asked for.
 * The options must outlive the session.
 */
int gt_session_open(const struct gt_session_opts *opts, struct gt_session **out);

/* Attaches, records until the time is up, stop_fd is readable or all targets ended; finishes. */
int gt_session_record(struct gt_session *s);

size_t gt_session_targets(const struct gt_session *s);
const struct gt_session_target *gt_session_target(const struct gt_session *s, size_t i);
enum gt_status gt_session_status(const struct gt_session *s);

void gt_session_close(struct gt_session *s);

#endif
