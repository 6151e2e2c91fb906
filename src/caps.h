/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caps.h - gives capabilities up: for good, when all that needs them is done, and for a moment,
 * where they must not count. Only those of the calling thread, which threads and processes inherit
 * that it makes later. No state of its own, no log.
 */
#ifndef GT_CAPS_H
#define GT_CAPS_H

#include "base.h"

/* What is still to be done, and so what is kept for it, where it is there; caps.c has the table. */
enum {
	GT_CAPS_LOOK = 1 << 0,   /* at processes of others: memory, /proc */
	GT_CAPS_MAPS = 1 << 1,   /* read and change BPF maps */
	GT_CAPS_JAIL = 1 << 2,   /* gt_jail_enter() */
	GT_CAPS_ATTACH = 1 << 3, /* find the sites of a process, place probes by uprobe_multi */
	GT_CAPS_PERF = 1 << 4,   /* the same by perf_event_open(2) */
	GT_CAPS_FILES = 1 << 5,  /* make files in the output folder */
	GT_CAPS_SIGNAL = 1 << 6, /* send signals to a command of another user */
	GT_CAPS_START = 1 << 7,  /* a command, as whom and with what it would be without us */
};

/*
 * For good. Without GT_CAPS_START, no_new_privs is set as well, so that a root without capabilities
 * gets none by executing something. 0 or -errno.
 */
int gt_caps_keep(unsigned int what);

/*
 * For files that our caller has named: until gt_caps_raise() gets what this returned, capabilities
 * that reach over our user's rights to files do not count, unless we are root.
 */
uint64_t gt_caps_lower(void);
void gt_caps_raise(uint64_t effective);

/* Is the program set-user-ID or set-group-ID, and was that of use? */
int gt_caps_set_id(void);

/* Has it rights that its user has not, by its mode, its capabilities or its parent? */
int gt_caps_gained(void);

#endif
