/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tidmap.h - numbers threads by their ids: 0, 1, 2 .. in the order in which they were added, so
 * that an array beside it can hold what is known of each. Nothing is removed but by
 * gt_tidmap_clear(). An empty one is all 0. Used by one thread.
 */
#ifndef GT_TIDMAP_H
#define GT_TIDMAP_H

#include "base.h"

#define GT_TIDMAP_NONE UINT32_MAX

struct gt_tidmap {
	uint32_t *tids;   /* by number */
	uint32_t *slots;  /* open addressing: number + 1; twice as many as there is room for tids */
	uint32_t n, size; /* a power of two */
	uint32_t latest;  /* number that was asked for */
};

static inline uint32_t *gt_tidmap_slot(const struct gt_tidmap *m, uint32_t tid)
{
	/* The address keeps a crafted file from choosing colliding ids. */
	uint64_t h = (tid ^ (uintptr_t)m) * 0x9e3779b97f4a7c15u;
	uint32_t mask = 2 * m->size - 1, i;

	h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
	for (i = (uint32_t)(h >> 32) & mask; m->slots[i]; i = (i + 1) & mask)
		if (m->tids[m->slots[i] - 1] == tid)
			break;
	return &m->slots[i];
}

static inline int gt_tidmap_grow(struct gt_tidmap *m)
{
	uint32_t size = m->size ? m->size * 2 : 64;
	uint32_t *tids, *slots;

	if (size > 1u << 30)
		return -E2BIG;
	tids = reallocarray(m->tids, size, sizeof(*tids));
	if (!tids)
		return -ENOMEM;
	m->tids = tids;
	slots = calloc(size, 2 * sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(m->slots);
	m->slots = slots;
	m->size = size;
	for (uint32_t i = 0; i < m->n; i++)
		*gt_tidmap_slot(m, tids[i]) = i + 1;
	return 0;
}

/* The thread's number; GT_TIDMAP_NONE: it was never added. */
static inline uint32_t gt_tidmap_find(struct gt_tidmap *m, uint32_t tid)
{
	uint32_t slot;

	if (m->latest < m->n && m->tids[m->latest] == tid)
		return m->latest;
	slot = m->n ? *gt_tidmap_slot(m, tid) : 0;
	if (!slot)
		return GT_TIDMAP_NONE;
	m->latest = slot - 1;
	return m->latest;
}

/* The same of one that is added where it is missing. -ENOMEM, -E2BIG. */
static inline int gt_tidmap_add(struct gt_tidmap *m, uint32_t tid, uint32_t *number)
{
	uint32_t found = gt_tidmap_find(m, tid);

	if (found == GT_TIDMAP_NONE) {
		int err = m->n == m->size ? gt_tidmap_grow(m) : 0;

		if (err)
			return err;
		m->tids[m->n] = tid;
		*gt_tidmap_slot(m, tid) = m->n + 1;
		found = m->latest = m->n++;
	}
	*number = found;
	return 0;
}

static inline void gt_tidmap_clear(struct gt_tidmap *m)
{
	if (m->n)
		memset(m->slots, 0, (size_t)m->size * 2 * sizeof(*m->slots));
	m->n = 0;
}

static inline void gt_tidmap_fini(struct gt_tidmap *m)
{
	free(m->tids);
	free(m->slots);
}

#endif
