// SPDX-License-Identifier: Apache-2.0
#include "before.h"

/* sizeof(pthread_cond_t) in glibc and musl on 64 bits; which word of it is the futex varies. */
#define COND_SIZE 48

int gt_before_is_at(uint64_t futex, uint64_t cond)
{
	return cond && futex - cond < COND_SIZE;
}

static int may_wait(const struct gt_snapshot_gils *gils, uint64_t futex)
{
	if (!futex || !gils->told)
		return futex != 0;
	for (uint32_t i = 0; i < gils->n; i++)
		if (gt_before_is_at(futex, gils->gil[i].cond))
			return 1;
	return 0;
}

int gt_before_init(struct gt_before *b, const struct gt_snapshot_gils *gils,
		   const struct gt_snapshot_thread *threads, size_t n)
{
	struct gt_blocked *kept = calloc(n ? n : 1, sizeof(*kept));

	if (!kept)
		return -ENOMEM;
	gt_before_free(b);
	b->thread = kept;
	for (size_t i = 0; i < n; i++) {
		if (!may_wait(gils, threads[i].futex))
			continue;
		kept[b->n].tid = threads[i].tid;
		kept[b->n++].futex = threads[i].futex;
	}
	b->left = b->n;
	return 0;
}

void gt_before_free(struct gt_before *b)
{
	free(b->thread);
	*b = (struct gt_before){0};
}

uint64_t gt_before_take(struct gt_before *b, uint32_t tid)
{
	size_t low = 0, high = b->n;
	uint64_t futex;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (b->thread[mid].tid < tid)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == b->n || b->thread[low].tid != tid)
		return 0;
	futex = b->thread[low].futex;
	b->thread[low].futex = 0;
	b->left -= futex != 0;
	return futex;
}

void gt_before_keep(struct gt_before *b, const uint64_t *conds, size_t n_conds)
{
	size_t kept = 0;

	for (size_t i = 0; i < b->n; i++) {
		int waits = 0;

		for (size_t k = 0; k < n_conds; k++)
			waits |= gt_before_is_at(b->thread[i].futex, conds[k]);
		if (waits)
			b->thread[kept++] = b->thread[i];
	}
	b->n = b->left = kept;
}

void gt_before_clear(struct gt_before *b)
{
	b->n = b->left = 0;
}
