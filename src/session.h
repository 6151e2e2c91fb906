/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - one recording from beginning to end: open the targets and find their probe sites,
 * attach, record, finish. Owns its targets, their files and the tracer; one thread, one loop.
 */
#ifndef GT_SESSION_H
#define GT_SESSION_H

#include "recording.h"

struct gt_session_opts {
	const pid_t *pids;
	size_t n_pids;
	uint64_t duration_ns; /* 0: until stopped */
	const char *output_dir;
	enum gt_probe_mode probe_mode;
	int deep; /* look at debug information, too: for people, not to record */
	struct gt_tracer_opts tracer; /* max_targets is set by the session */
	int stop_fd;                  /* readable: stop and finish */
	int ready_fd; /* gets one newline once recording has begun; -1: nobody waits */
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
const struct gt_recording *gt_session_recording(const struct gt_session *s, size_t i);
enum gt_status gt_session_status(const struct gt_session *s);

void gt_session_close(struct gt_session *s);

#endif
