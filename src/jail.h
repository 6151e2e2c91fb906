/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jail.h - a forked child that reads what somebody else has written, while we are root: it gives up
 * all that it might do harm with. No state, no threads, no log.
 */
#ifndef GT_JAIL_H
#define GT_JAIL_H

#include "base.h"
#include <sys/types.h>

struct gt_jail_limits {
	uint64_t memory; /* bytes of address space */
	unsigned int cpu_seconds;
};

/*
 * To be called by a child right after fork(2). From then on it can read what everybody can read,
 * for a while, and nothing more: n descriptors, which become 3, 4, ... in this order, and nothing
 * else is open but /dev/null as 0, 1 and 2; signals are as for a new program, but Ctrl-C is for the
 * parent, with whose end it ends, too. It is nobody where we were root. Where we are not root, but
 * have capabilities, it stays the user who started us: to become somebody else would take
 * CAP_SETUID, which is worth more than what it would guard.
 *
 * 0; -EPERM where the privileges could not be given up; others. It must end then.
 */
int gt_jail_enter(const int *fds, size_t n, const struct gt_jail_limits *limits, pid_t parent);

/* What it does with descriptors, alone: for a child that keeps its rights. 0 or -errno. */
int gt_jail_keep_only(const int *fds, size_t n);

#endif
