/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reading.h - what is read from a process's memory: its GILs, the names of its threads, its command
 * line and environment. Made with copies of all that is needed, by a thread: one that hangs,
 * because nobody serves a page of that memory, is left behind.
 */
#ifndef GT_READING_H
#define GT_READING_H

#include "recording.h"

enum gt_reading_what {
	GT_READ_GILS,
	GT_READ_NAMES,
	GT_READ_ABOUT, /* with the rank */
	GT_READ_TITLE, /* about.cmdline alone */
};

struct gt_reading {
	int err;         /* of what was read: 0 or -errno */
	const char *why; /* it failed, where that is known; static */
	struct gt_snapshot_gils gils;
	struct gt_pyname *names; /* to be freed, too */
	size_t n_names;
	struct gt_about about;
	struct gt_rank rank;
	/* private: the copies */
	struct gt_proc proc;
	struct gt_python py;
	struct gt_npus npus;
};

/*
 * Reads about one CPython of a process, by its index. rec: whose rings are to be read meanwhile;
 * NULL: none. NULL: it cannot be made, or hangs: the memory of this process is not read any more
 * then, which is logged. Else to be freed.
 */
struct gt_reading *gt_reading_make(struct gt_recording *r, uint32_t python,
				   enum gt_reading_what what, const struct gt_recorder *rec);

#endif
