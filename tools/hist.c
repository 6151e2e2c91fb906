// SPDX-License-Identifier: Apache-2.0
#include "hist.h"

int gt_hist_meet(struct gt_hist *h, unsigned int group)
{
	const size_t size = GT_HIST_STEPS * sizeof(*h->counts);
	uint64_t *grown = realloc(h->counts, (h->groups + 1u) * size);

	if (!grown)
		return -ENOMEM;
	h->counts = grown;
	memset(grown + (size_t)h->groups * GT_HIST_STEPS, 0, size);
	h->at[group] = ++h->groups;
	return 0;
}

int gt_hist_count_few(struct gt_hist *h)
{
	int err = 0;

	for (size_t i = 0; i < GT_HIST_FEW && !err; i++)
		err = gt_hist_count(h, h->few[i]);
	return err;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The nth, from 1 on. */
static uint64_t nth_of_few(const struct gt_hist *h, uint64_t nth)
{
	uint64_t sorted[GT_HIST_FEW];

	memcpy(sorted, h->few, sizeof(sorted));
	qsort(sorted, h->n, sizeof(*sorted), by_size);
	return sorted[nth - 1];
}

/* The greatest number that falls into a step. */
static uint64_t upper(unsigned int group, unsigned int step)
{
	unsigned int shift = group ? group - 1 : 0;
	uint64_t low = (uint64_t)(group ? GT_HIST_STEPS + step : step) << shift;

	return low + ((UINT64_C(1) << shift) - 1);
}

uint64_t gt_hist_at(const struct gt_hist *h, unsigned int permille)
{
	/* n / 1000 first: the product may not fit. */
	uint64_t nth = h->n / 1000 * permille + (h->n % 1000 * permille + 999) / 1000, seen = 0;

	if (!nth)
		nth = 1;
	if (!h->n)
		return 0;
	if (h->n <= GT_HIST_FEW)
		return nth_of_few(h, nth);
	for (unsigned int group = 0; group < GT_HIST_GROUPS; group++) {
		const uint64_t *counts;

		if (!h->at[group])
			continue;
		counts = h->counts + ((size_t)h->at[group] - 1) * GT_HIST_STEPS;
		for (unsigned int step = 0; step < GT_HIST_STEPS; step++) {
			seen += counts[step];
			if (seen >= nth)
				return upper(group, step) < h->max ? upper(group, step) : h->max;
		}
	}
	return h->max;
}

void gt_hist_free(struct gt_hist *h)
{
	free(h->counts);
	*h = (struct gt_hist){0};
}
