/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jointsink.h - a sink in front of another that gives processes their places beside a Profiler's:
 * another pid and position, and a tag that tells how its times were placed. Which process is meant
 * is known by its .order, the number of its recording. It owns the sink behind it.
 */
#ifndef GT_JOINTSINK_H
#define GT_JOINTSINK_H

#include "sink.h"

struct gt_joint_lane {
	uint32_t input; /* .order of the process that it is for */
	uint32_t order; /* .. and what it becomes */
	uint64_t pid;
	const char *tag;
};

/* lanes must live as long as the sink. -ENOMEM: `behind` is the caller's still. */
int gt_jointsink_create(const struct gt_joint_lane *lanes, size_t n, struct gt_sink *behind,
			struct gt_sink **out);

#endif
