/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank.h - the rank of a process in its distributed job, by its environment, and where the
 * number came from.
 */
#ifndef GT_RANK_H
#define GT_RANK_H

#include "proc.h"

struct gt_rank {
	uint32_t rank;
	const char *source; /* name of the variable, or "default"; static */
};

/* Never fails: 0 from "default" where no variable holds a plain number below 2^31. */
struct gt_rank gt_rank_of(const struct gt_proc *p);

#endif
