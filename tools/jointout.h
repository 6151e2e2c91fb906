/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jointout.h - where joint views go: folders as MindStudio Insight imports them, and merged files.
 * Nothing of a Profiler's, and nothing that is not gil2trace's, is ever replaced. Files are
 * complete or absent. Logs its errors.
 */
#ifndef GT_JOINTOUT_H
#define GT_JOINTOUT_H

#include "jsonw.h"
#include "outfile.h"
#include "profiler.h"

/*
 * Writes the events as a part of an array: no comma before or behind. *any: whether there was one.
 * 0 or -errno.
 */
typedef int (*gt_joint_events)(void *ctx, struct gt_jsonw *w, int *any);

struct gt_jointout {
	struct gt_outset *outs;
	const struct gt_profilers *all;
	const struct gt_profiler *p;
	int64_t rank; /* to be shown; -1: none */
	gt_joint_events events;
	void *ctx;
};

/* May OUT be there, a file or a folder? Not in a Profiler's. -EEXIST. */
int gt_jointout_check(const char *out, const struct gt_profilers *all);

/* OUT for folders: made, or looked through. -errno; -EEXIST: something else is in it. */
int gt_jointout_prepare(const char *out, const struct gt_profilers *all);

/* OUT/<name>, or OUT/<name>_ascend_pt. 0, -errno, or 1: the events are none, and nothing is
 * written. */
int gt_jointout_folder(const struct gt_jointout *o, const char *out);

/* The same into one file. */
int gt_jointout_merge(const struct gt_jointout *o, const char *path, int gzip);

#endif
