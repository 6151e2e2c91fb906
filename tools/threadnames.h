/* SPDX-License-Identifier: Apache-2.0 */
/*
 * threadnames.h - a sink that only remembers what comes last in each process: the names of its
 * threads, and whether it can be trusted. A trace that is cut into parts needs them in each. Memory
 * grows with threads. The collection belongs to the caller and outlives its sink.
 */
#ifndef GT_THREADNAMES_H
#define GT_THREADNAMES_H

#include "sink.h"

struct gt_threadnames;

int gt_threadnames_create(struct gt_threadnames **out); /* -ENOMEM */
void gt_threadnames_free(struct gt_threadnames *t);

/* Its finish() frees only itself. -ENOMEM. */
int gt_threadnames_sink(struct gt_threadnames *t, struct gt_sink **out);

/* Of the process that came with this .order; NULL: not known. */
const char *gt_threadnames_label(struct gt_threadnames *t, uint32_t order, uint32_t tid);
const char *gt_threadnames_doubt(struct gt_threadnames *t, uint32_t order);

#endif
