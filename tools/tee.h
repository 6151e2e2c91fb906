/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tee.h - a sink that hands everything on to several sinks, in their order. It owns them:
 * gt_tee_create() takes them over, finish() finishes them all, also where gt_tee_create() fails.
 * After an error of one of them the others go on without it; once all have failed, every call
 * fails.
 */
#ifndef GT_TEE_H
#define GT_TEE_H

#include "sink.h"

/*
 * errors, where not NULL: n of them, that of each sink, set by finish(), which returns the first.
 * -ENOMEM.
 */
int gt_tee_create(struct gt_sink *const *sinks, size_t n, int *errors, struct gt_sink **out);

#endif
