/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_spawn.h - the process that is giltrace, or that runs it: begun without anything that is
 * special about this process, and ended without anything left of it.
 *
 * This process may be one that waits for every child, or that ignores SIGCHLD: then somebody else
 * takes the status of ours, and it is not known. A process id is only used for a signal while it is
 * surely our child's.
 */
#ifndef GT_CLIENT_SPAWN_H
#define GT_CLIENT_SPAWN_H

#include "base.h"

#include <sys/types.h>

/*
 * Starts argv, found in $PATH where it is a name, in a process group of its own, with fds as its
 * descriptors 0, 1 and 2, no signal blocked or ignored, and without the variables that would have
 * it load this program's libraries. Where this program has more rights than its user, its only
 * variable is a $PATH of the system's folders. -errno.
 */
int gt_spawn(char *const argv[], const int fds[3], pid_t *pid);

/*
 * Waits until the deadline (client_time.h) for the child to end by itself; after that, it and its
 * group are made to, which takes 4 s at most. *status: as waitpid() has it, -1: not known. 0;
 * -ETIMEDOUT: it had to be made to.
 */
int gt_spawn_end(pid_t pid, int64_t deadline, int *status);

#endif
