/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_ends.h - the descriptors of a recording: a socket, and a pipe for what giltrace says; our
 * ends, and giltrace's until it has been started. They are close-on-exec from their birth, and none
 * is a standard descriptor.
 *
 * A child made by fork() closes its copies before fork() returns there: a copy of ours would keep
 * giltrace from noticing that this process is gone, one of theirs would keep us from noticing that
 * giltrace is. For that, descriptors are born and die under a lock that fork() takes as well; it is
 * held for moments only. Who uses one that another thread may close has to see to that himself.
 */
#ifndef GT_CLIENT_ENDS_H
#define GT_CLIENT_ENDS_H

#include "base.h"

#include <sys/types.h>

struct gt_ends {
	int socket, said; /* ours; -1: closed */
	int theirs[3];    /* to become giltrace's standard descriptors; -1: closed */
	pid_t owner;      /* the process that has made them */
	int forked;       /* this is the copy in a child: all are closed */
	struct gt_ends *prev, *next;
};

/* Makes all of them. -errno: none is open. Also after a failure, gt_ends_forget() comes at last. */
int gt_ends_open(struct gt_ends *e);

/* Giltrace has its ends. */
void gt_ends_handed_over(struct gt_ends *e);

void gt_ends_close_socket(struct gt_ends *e);
void gt_ends_close(struct gt_ends *e);

/* Closes what is open; *e may be freed now. Not to be called where it was inherited by a clone().
 */
void gt_ends_forget(struct gt_ends *e);

/* How this process came to *e: */
enum gt_origin {
	GT_ENDS_OWN,    /* it has made it */
	GT_ENDS_FORKED, /* by fork() */
	GT_ENDS_CLONED, /* by a clone() that nobody was told of: locks may be held by nobody */
};
enum gt_origin gt_ends_origin(const struct gt_ends *e);

#endif
