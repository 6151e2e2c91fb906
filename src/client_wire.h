/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_wire.h - the conversation with giltrace over its socket: docs/control.md. What it tells
 * unasked (files, how it ended) is kept here, whenever it comes.
 *
 * One thread at a time calls these, but gt_wire_mark(), which any may call at any time between
 * gt_wire_open() and gt_wire_free(). Nothing here sets giltrace_error(). Deadlines: client_time.h.
 */
#ifndef GT_CLIENT_WIRE_H
#define GT_CLIENT_WIRE_H

#include "base.h"

#include <pthread.h>

#include "client_ends.h"
#include "client_said.h"
#include "giltrace/giltrace.h"

#define GT_PACKET_MAX 8192
#define GT_FILES_MAX  16384 /* later ones are not told to the program */

struct gt_wire {
	struct gt_ends ends;
	pthread_mutex_t sending; /* a mark is being sent, or the socket closed: for moments only */
	struct gt_said said;
	unsigned owed; /* answers that will come, but nobody waits for them any more */
	int talks;     /* it has sent a packet that only giltrace would */
	unsigned long protocol;
	struct giltrace_stats stats; /* the latest that were told */
	int ended;                   /* and these are final, .status too */
	char **files;
	size_t n_files, files_room;
	char packet[GT_PACKET_MAX + 1]; /* the latest; an answer: gt_wire_ask() */
};

/* -errno: what could not be opened. Also after a failure, gt_wire_free() is to be called. */
int gt_wire_open(struct gt_wire *w);
void gt_wire_free(struct gt_wire *w);

/*
 * Waits until the probes are live. -EPIPE: giltrace has ended, or is about to, and has said all;
 * -ETIMEDOUT; -EPROTO: it speaks .protocol.
 */
int gt_wire_await_ready(struct gt_wire *w, int64_t deadline);

/*
 * Sends a request and waits for its answer; that of "status" goes to .stats. -EREMOTEIO: it is
 * refused, the reason is in .packet; -EPIPE, -ETIMEDOUT: as above.
 */
int gt_wire_ask(struct gt_wire *w, const char *request, int64_t deadline);

/* Ends the recording: 0 when giltrace has said all. -ETIMEDOUT: nothing has come for that long. */
int gt_wire_stop(struct gt_wire *w, uint32_t timeout_ms);

/* Waits for nobody. -EAGAIN: there is no room; -EPIPE. */
int gt_wire_mark(struct gt_wire *w, uint64_t mono_ns, pid_t tid, const char *name, size_t len);

/* To giltrace, the end of the socket is the end of this program. */
void gt_wire_close_socket(struct gt_wire *w);

#endif
