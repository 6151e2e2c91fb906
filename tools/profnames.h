/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profnames.h - what the names of a Profiler's folders and files tell. Pure functions; -1: nothing.
 *
 *   <host>_<pid>_<time>_ascend_pt        torch_npu; _ascend_ms: MindSpore. A worker's name that
 *                                        somebody has chosen may stand in place of <host>_<pid>
 *   profiler_info_<rank>.json            both
 *   ascend_pytorch_profiler_<rank>.db    torch_npu; ascend_mindspore_profiler_<rank>.db
 *   PROF_<number>_<time>_<letters>       msprof
 *   msprof_<time>.json, msprof_slice_<n>_<time>.json and others with up to four numbers
 *   <host>_<pid>.<time>.pt.trace.json    PyTorch; .gz
 */
#ifndef GT_PROFNAMES_H
#define GT_PROFNAMES_H

#include "base.h"

static inline const char *gt_name_last(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

int gt_name_ends(const char *name, const char *suffix);

/* Of a folder or a PyTorch trace. */
int64_t gt_name_pid(const char *name);

int64_t gt_name_rank(const char *name); /* of profiler_info_<rank>.json or a database */

/* "_ascend_pt" or the like, or the end of the name. */
const char *gt_name_suffix(const char *name);

/* Is it a folder of torch_npu or MindSpore, one of msprof? */
int gt_name_is_ascend(const char *name);
int gt_name_is_prof(const char *name);

/* A database that MindStudio Insight prefers to a JSON. */
int gt_name_is_database(const char *name);

/* Of a part of msprof's trace: the number at its end, which is that of the export. */
int64_t gt_name_msprof(const char *name);

/* PyTorch's. */
int gt_name_is_kineto(const char *name);

/*
 * A name for what is written: `name` without the endings of files, with "_" for characters that do
 * not belong into a file's name, 200 bytes at most. Never empty, no "." in front.
 */
#define GT_NAME_MAX 200
void gt_name_clean(char buf[GT_NAME_MAX + 1], const char *name);

#endif
