/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h - what a packet asks for, by the protocol of docs/control.md. The packet comes from
 * another process: nothing in it is believed, and a request points into it. No state, no log.
 */
#ifndef GT_REQUEST_H
#define GT_REQUEST_H

#include "pynames.h"

#define GT_PACKET_MAX 8192 /* bytes, in both directions */

enum gt_request_kind {
	GT_REQUEST_MARK,
	GT_REQUEST_THREADS,
	GT_REQUEST_PAUSE,
	GT_REQUEST_RESUME,
	GT_REQUEST_STATUS,
	GT_REQUEST_DUMP,
	GT_REQUEST_STOP,
};

struct gt_request {
	enum gt_request_kind kind;
	pid_t from;        /* the process that asks, in our PID namespace; 0: not known */
	uint64_t mono_ns;  /* MARK: CLOCK_MONOTONIC; 0: now */
	uint32_t ns_tid;   /* MARK: in the PID namespace of who asks; 0: none */
	const char *name;  /* MARK: not empty */
	const char *lines; /* THREADS: for gt_request_thread() */
};

/*
 * packet: size bytes and a NUL behind them, which the caller has put there. 0, and out->from is 0;
 * -EINVAL, and *why is a static text.
 */
int gt_request_parse(const char *packet, size_t size, struct gt_request *out, const char **why);

/*
 * The next thread that a THREADS tells of: 1, or 0 and nothing. Lines that are not understood are
 * passed over.
 */
int gt_request_thread(struct gt_request *rq, struct gt_pyname *out);

#endif
