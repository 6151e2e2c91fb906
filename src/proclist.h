/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proclist.h - all processes of the host, as /proc shows them, with what whoever looks at them
 * again and again has found out. Owned and used by one thread.
 */
#ifndef GT_PROCLIST_H
#define GT_PROCLIST_H

#include "proc.h"

struct gt_known {
	pid_t pid;
	pid_t parent;
	uint64_t start_ticks; /* another one: another process has the pid */
	/* The user's, all 0 for a process that is new: */
	uint64_t first_ns; /* when it was first seen; set by gt_proclist_refresh() */
	uint64_t next_ns;  /* not to be looked at before that */
	uint8_t taken;     /* found; or it can never be what is looked for */
	uint8_t followed;  /* its children count */
};

struct gt_proclist {
	struct gt_known *list; /* by pid; to be freed */
	size_t n;
};

/* Lists those that there are now; keeps what is known of those that were there before. Logs. */
void gt_proclist_refresh(struct gt_proclist *l, uint64_t now_ns);

/* NULL: it was not there. Valid until the next refresh. */
struct gt_known *gt_proclist_find(const struct gt_proclist *l, pid_t pid);

#endif
