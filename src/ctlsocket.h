/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctlsocket.h - the control socket's place in the file system: one that nobody but its user and
 * root can have prepared, and a name that appears when somebody listens there, and goes with him.
 * Without control.h's protocol. No state of its own.
 */
#ifndef GT_CTLSOCKET_H
#define GT_CTLSOCKET_H

#include "base.h"
#include <sys/types.h>

#define GT_CTLSOCKET_NAME_MAX 80 /* of a socket in its folder; bind(2) takes 108 bytes in all */

struct gt_ctlsocket {
	int fd;     /* that listens (SOCK_SEQPACKET), not blocking; -1: none */
	int dir_fd; /* the folder with its name */
	char name[GT_CTLSOCKET_NAME_MAX];
	dev_t dev; /* of the name, which may be another's when it is to be removed */
	ino_t ino;
};

#define GT_CTLSOCKET_NONE                                                                          \
	(struct gt_ctlsocket)                                                                      \
	{                                                                                          \
		.fd = -1, .dir_fd = -1                                                             \
	}

/*
 * Listens at path; NULL: where gt_ctlsocket_place() says, where sockets of those that were killed
 * are removed. The socket is ours alone, by its mode. -errno, logged: the folder is another user's,
 * or others may write in it; there is something at the path; somebody listens there.
 */
int gt_ctlsocket_listen(const char *path, struct gt_ctlsocket *out);

/* Removes the name, and closes. */
void gt_ctlsocket_close(struct gt_ctlsocket *s);

/*
 * Connects to a listener, and waits so long for that and for each send: its descriptor, or -errno
 * (-EAGAIN: it accepts nobody).
 */
int gt_ctlsocket_connect(const char *path, unsigned int seconds);

/* Where the process pid of this user listens. -errno, logged: $XDG_RUNTIME_DIR is missing. */
int gt_ctlsocket_place(pid_t pid, char *path, size_t size);

#endif
