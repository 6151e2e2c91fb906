/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - one recording from beginning to end: find the targets, attach, record, take in those
 * that come later, finish. Owns its targets, their files and the tracer; one thread, one loop.
 */
#ifndef GT_SESSION_H
#define GT_SESSION_H

#include "command.h"
#include "finder.h"
#include "targets.h"

enum gt_follow { GT_FOLLOW_NO, GT_FOLLOW_AUTO, GT_FOLLOW_BPF, GT_FOLLOW_PROC };

struct gt_session_opts {
	struct gt_finder_opts find;
	enum gt_follow follow; /* children of targets, and programs that they execute */
	uint64_t duration_ns;  /* 0: until stopped */
	const char *output_dir;
	uint32_t ring_bytes;          /* of each target; 0: what ring_memory allows, up to 4 MiB */
	uint64_t ring_memory;         /* bytes, of all rings together */
	uint8_t no_names;             /* do not ask interpreters for the names of their threads */
	uint8_t keep_files;           /* gt_recording has a descriptor of its file */
	struct gt_tracer_opts tracer; /* features, back end; the rest is set by the session */
	/* A program that is to be started and recorded; argv NULL: none. */
	struct gt_command_opts command;
	int stop_fd;  /* a signalfd: stop and finish, or passed on to the command */
	int ready_fd; /* gets one newline once recording has begun; -1: nobody waits */
	struct gt_control *control;   /* who may steer it, and is told of it; NULL: nobody */
	uint8_t owned;                /* by a program, which stops it */
	uint8_t paused;               /* begin with a pause */
	struct gt_window_opts window; /* .flight.window_ns 0: all is written to files */
	/* Called for each recording that has ended, or was not made, before it is freed. */
	void (*ended)(void *ctx, const struct gt_recording *r);
	void *ctx;
};

struct gt_session;

/*
 * Finds the processes and their probe sites. Those that were named and cannot be traced are logged,
 * left out and change gt_session_status(). -errno: nothing is there to trace, and nothing can come,
 * or out of memory; *out is set then, too, if there was memory for it, so that the status can be
 * asked for. The options must outlive the session.
 */
int gt_session_open(const struct gt_session_opts *opts, struct gt_session **out);

/*
 * Attaches, records until the time is up, stop_fd is readable or all targets ended; finishes. With
 * a command, returns when that has ended.
 */
int gt_session_record(struct gt_session *s);

/* What was found at first; until gt_session_record() is called. */
size_t gt_session_targets(const struct gt_session *s);
const struct gt_recording *gt_session_recording(const struct gt_session *s, size_t i);

enum gt_status gt_session_status(const struct gt_session *s);

/* How it goes, or went. */
void gt_session_progress(const struct gt_session *s, struct gt_progress *out);

/* Exit status of the command, or what a shell says of one that cannot be run; -1: there is none, or
 * it runs on. */
int gt_session_command_status(const struct gt_session *s);

void gt_session_close(struct gt_session *s);

#endif
