/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hist.h - how often a number of nanoseconds came: below GT_HIST_EXACT each number by itself, above
 * in 64 equal steps for each power of two, so that a step is never wider than 1/64 of what is in
 * it. Any uint64_t fits. Sum and greatest are exact (a sum beyond 2^64 - 1 stays there).
 *
 * Memory comes with the powers of two that are met, 512 bytes each, but none for the first
 * GT_HIST_FEW numbers: there may be millions of threads of which each does little. A histogram of
 * zeros is an empty one. Used by one thread.
 */
#ifndef GT_HIST_H
#define GT_HIST_H

#include "sat.h"

#define GT_HIST_STEP_BITS 6
#define GT_HIST_STEPS     (1u << GT_HIST_STEP_BITS) /* for each power of two */
#define GT_HIST_EXACT     (2u * GT_HIST_STEPS)
#define GT_HIST_FEW       8u
#define GT_HIST_GROUPS    (64 - GT_HIST_STEP_BITS + 1) /* the first: all below GT_HIST_STEPS */

struct gt_hist {
	uint64_t n, sum, max;
	uint64_t few[GT_HIST_FEW];  /* all there are, until there are more; then they are counted */
	uint64_t *counts;           /* of the groups that were met, in the order of meeting */
	uint8_t at[GT_HIST_GROUPS]; /* where a group stands in counts, from 1 on; 0: not met */
	uint8_t groups;             /* met so far */
};

/* Private: makes room for a group; counts the few. -ENOMEM. */
int gt_hist_meet(struct gt_hist *h, unsigned int group);
int gt_hist_count_few(struct gt_hist *h);

static inline unsigned int gt_hist_group(uint64_t v)
{
	return v < GT_HIST_STEPS ? 0 : 64 - GT_HIST_STEP_BITS - (unsigned int)__builtin_clzll(v);
}

/* Private. -ENOMEM */
static inline int gt_hist_count(struct gt_hist *h, uint64_t v)
{
	unsigned int group = gt_hist_group(v);
	size_t step = (v >> (group ? group - 1 : 0)) & (GT_HIST_STEPS - 1);

	if (!h->at[group]) {
		int err = gt_hist_meet(h, group);

		if (err)
			return err;
	}
	h->counts[((size_t)h->at[group] - 1) * GT_HIST_STEPS + step]++;
	return 0;
}

/* -ENOMEM */
static inline int gt_hist_add(struct gt_hist *h, uint64_t v)
{
	int err = 0;

	if (h->n < GT_HIST_FEW) {
		h->few[h->n] = v;
	} else {
		if (h->n == GT_HIST_FEW)
			err = gt_hist_count_few(h);
		if (!err)
			err = gt_hist_count(h, v);
		if (err)
			return err;
	}
	h->n++;
	h->sum = gt_sat_add(h->sum, v);
	if (v > h->max)
		h->max = v;
	return 0;
}

/*
 * The number below or at which `permille` thousandths of all lie: of the n in order the one at
 * n * permille / 1000, rounded up. Of more than a few, above GT_HIST_EXACT, it is the upper end of
 * that one's step: too great by less than 1/64, and never above the greatest. 0: there is none.
 */
uint64_t gt_hist_at(const struct gt_hist *h, unsigned int permille);

void gt_hist_free(struct gt_hist *h);

#endif
