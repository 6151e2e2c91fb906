/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h - whoever steers a recording while it runs (docs/control.md): the program that owns it,
 * over a descriptor that we were started with, and others, over a socket in the file system. Takes
 * their requests, tells them answers and news; what a request does is the session's. Owns its
 * descriptors and the socket's name. Does not wait, but where it says so; memory and work per call
 * are bounded, whatever is sent. Used by one thread.
 */
#ifndef GT_CONTROL_H
#define GT_CONTROL_H

#include "request.h"

struct gt_control;

/* How a recording goes, or went. */
struct gt_progress {
	uint64_t elapsed_ns, paused_ns;
	uint64_t events, lost, bytes, marks;
	size_t files;     /* that are complete */
	size_t processes; /* that are being recorded */
	uint8_t paused;
	/* With --ring: what is in memory, and how many files a GT_REQUEST_DUMP has made, or not. */
	uint8_t ring;
	uint64_t kept_ns, kept_events, kept_bytes;
	size_t dumped, failed;
};

/* Does what is asked. *out is to be filled for GT_REQUEST_STATUS. */
typedef void (*gt_control_act_fn)(void *ctx, const struct gt_request *rq, struct gt_progress *out);

/*
 * owner_fd: a connected socket (gt_inherited_take()), which is taken over, also on failure; -1:
 * nobody owns the recording. -errno, logged.
 */
int gt_control_open(int owner_fd, struct gt_control **out);

/* Listens, too: at that path, or where everybody looks for it (NULL). -errno, logged. */
int gt_control_listen(struct gt_control *c, const char *path);

/* Removes the socket's name. NULL is allowed. */
void gt_control_close(struct gt_control *c);

/* Readable when gt_control_serve() has something to do. */
int gt_control_fd(const struct gt_control *c);

/*
 * Reads what has come, acts, answers. That the owner has ended, or closed its end, is a
 * GT_REQUEST_STOP, once. The times of marks are the host's then.
 */
void gt_control_serve(struct gt_control *c, gt_control_act_fn act, void *ctx);

/*
 * News for the owner; without one, or where it does not read, they are left out. The first and the
 * last may wait for it, for a second in all.
 */
void gt_control_file(struct gt_control *c, pid_t pid, const char *path);
void gt_control_ready(struct gt_control *c, size_t processes, const char *backend);
void gt_control_done(struct gt_control *c, pid_t pid, uint64_t events, uint64_t lost,
		     const char *path, int is_last);

/* The end is near, but takes long: told once a second, where there is room. */
void gt_control_busy(struct gt_control *c);

/* The last word, to everybody who is connected; waits for a second at most. */
void gt_control_ended(struct gt_control *c, int status, const struct gt_progress *all);

#endif
