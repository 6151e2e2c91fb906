/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profiler.h - finds what a Profiler has left: its trace, the files that tell its clock, its pid
 * and rank, in the folder layouts of torch_npu, MindSpore, msprof, and plain traces of these and of
 * PyTorch (docs/profiler.md). Names and contents are not trusted; no link is followed out of what
 * was named. Used by one thread.
 */
#ifndef GT_PROFILER_H
#define GT_PROFILER_H

#include "base.h"
#include "proftrace.h"

struct gt_profslice {
	char *path;
	struct gt_proftrace facts;
};

struct gt_profiler {
	char *trace;                 /* path of the trace's JSON */
	struct gt_profslice *slices; /* its other parts, where msprof has cut it up */
	size_t nslices;
	char *dir;      /* <name>_ascend_pt or the like; NULL: a trace alone */
	char *name;     /* of the folder, or the trace's stem: what its output is called; unique,
			   also without its suffix */
	char *host_dir; /* PROF_<..>/host or device_<N>, with start_info; NULL: none */
	char *info;     /* profiler_info[_<N>].json; NULL: none */
	char *database; /* ascend_pytorch_profiler*.db or the like; NULL: none */
	int64_t pid,
		rank; /* by the names of folders and files, or what stands in them; -1: unknown */
	const char *pid_how, *rank_how; /* in words, static; NULL: unknown */
	struct gt_proftrace facts;      /* with the range and pids of all parts */
};

/* What it is called in messages. */
static inline const char *gt_profiler_path(const struct gt_profiler *p)
{
	return p->dir ? p->dir : p->trace;
}

struct gt_profilers {
	struct gt_profiler *list;
	size_t n;
	size_t unusable; /* traces, and Profilers' folders, that were found and are no use */
};

/*
 * Of each path: a trace file, one Profiler's folder, or a folder with several of them (searched a
 * few levels deep). A trace file in its Profiler's folder has what lies there. Returns how many
 * Profilers or arguments were no use (logged), or -ENOMEM.
 */
int gt_profilers_find(struct gt_profilers *p, const char *const *paths, size_t n);
void gt_profilers_free(struct gt_profilers *p);

#endif
