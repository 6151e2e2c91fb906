/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profident.h - for profiler.c: which files of a Profiler's folder are what, and whose its trace
 * is. Fills in a struct gt_profiler. Logs where one of several is chosen, and where they contradict
 * each other. 0 or -errno, and -ENOMEM alone where nothing else is said.
 */
#ifndef GT_PROFIDENT_H
#define GT_PROFIDENT_H

#include "proffiles.h"
#include "profiler.h"

/*
 * Paths. `fd` is the folder's descriptor and `dir` its path. What is not there is left NULL; links
 * are.
 */

/* profiler_info[_<rank>].json in p->dir. -ENOMEM. */
int gt_prof_take_info(struct gt_profiler *p, int fd, const struct gt_names *names);

/* PROF_... in p->dir, a folder of torch_npu or MindSpore; several: the last one. -ENOMEM. */
int gt_prof_take_prof(struct gt_profiler *p, int fd, const struct gt_names *names);

/* In a PROF_..., the folder with what tells the clock. -ENOMEM. */
int gt_prof_take_host(struct gt_profiler *p, int fd, const char *dir);

/* A database, if none is known yet. -ENOMEM. */
int gt_prof_take_database(struct gt_profiler *p, int fd, const char *dir);

/* The parts of the trace of msprof's latest export, if there is one. -errno. */
int gt_prof_take_msprof(struct gt_profiler *p, int fd, const char *dir);

/* Sets pid and rank, and how they are known; the rest of *p is there. -ENOMEM. */
int gt_ident(struct gt_profiler *p);

#endif
