/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oldheap.h - binary heaps for oldorder.c: the smallest (key, tie) is v[0]. All 0 is an empty one,
 * which grows; gt_oldheap_by_thread() makes it one with at most one entry for each thread, which
 * can be found and taken out. Owned by the caller, used by one thread.
 */
#ifndef GT_OLDHEAP_H
#define GT_OLDHEAP_H

#include "base.h"

struct gt_oldheap_entry {
	uint64_t key, tie;
	uint32_t thread;
	uint32_t what; /* of the user; does not count */
};

struct gt_oldheap {
	struct gt_oldheap_entry *v;
	size_t n, size;
	uint32_t *place; /* of each thread's entry: index + 1; NULL: not kept */
};

static inline void gt_oldheap_free(struct gt_oldheap *h)
{
	free(h->v);
	free(h->place);
}

/* To begin with. -ENOMEM; gt_oldheap_free() is right in any case. */
static inline int gt_oldheap_by_thread(struct gt_oldheap *h, uint32_t threads)
{
	h->size = threads;
	h->v = calloc((size_t)threads + 1, sizeof(*h->v));
	h->place = calloc((size_t)threads + 1, sizeof(*h->place));
	return h->v && h->place ? 0 : -ENOMEM;
}

static inline int gt_oldheap_has(const struct gt_oldheap *h, uint32_t thread)
{
	return h->place[thread] != 0;
}

static inline int gt_oldheap_less(const struct gt_oldheap_entry *a,
				  const struct gt_oldheap_entry *b)
{
	return a->key < b->key || (a->key == b->key && a->tie < b->tie);
}

static inline void gt_oldheap_put(struct gt_oldheap *h, size_t i, const struct gt_oldheap_entry *e)
{
	h->v[i] = *e;
	if (h->place)
		h->place[e->thread] = (uint32_t)i + 1;
}

static inline void gt_oldheap_up(struct gt_oldheap *h, size_t i, struct gt_oldheap_entry e)
{
	for (; i && gt_oldheap_less(&e, &h->v[(i - 1) / 2]); i = (i - 1) / 2)
		gt_oldheap_put(h, i, &h->v[(i - 1) / 2]);
	gt_oldheap_put(h, i, &e);
}

static inline void gt_oldheap_down(struct gt_oldheap *h, size_t i, struct gt_oldheap_entry e)
{
	for (size_t kid; (kid = 2 * i + 1) < h->n; i = kid) {
		if (kid + 1 < h->n && gt_oldheap_less(&h->v[kid + 1], &h->v[kid]))
			kid++;
		if (!gt_oldheap_less(&h->v[kid], &e))
			break;
		gt_oldheap_put(h, i, &h->v[kid]);
	}
	gt_oldheap_put(h, i, &e);
}

/* -ENOMEM, which cannot be where there is room for each thread. */
static inline int gt_oldheap_push(struct gt_oldheap *h, const struct gt_oldheap_entry *e)
{
	if (h->n == h->size) {
		size_t size = h->size ? h->size * 2 : 64;
		struct gt_oldheap_entry *v = reallocarray(h->v, size, sizeof(*v));

		if (!v)
			return -ENOMEM;
		h->v = v;
		h->size = size;
	}
	gt_oldheap_up(h, h->n++, *e);
	return 0;
}

static inline void gt_oldheap_take(struct gt_oldheap *h, size_t i)
{
	struct gt_oldheap_entry last = h->v[--h->n];

	if (h->place)
		h->place[h->v[i].thread] = 0;
	if (i == h->n)
		return;
	if (i && gt_oldheap_less(&last, &h->v[(i - 1) / 2]))
		gt_oldheap_up(h, i, last);
	else
		gt_oldheap_down(h, i, last);
}

/* The smallest. There must be one. */
static inline void gt_oldheap_pop(struct gt_oldheap *h)
{
	gt_oldheap_take(h, 0);
}

/* Gives the smallest, which must be there, another key. */
static inline void gt_oldheap_rekey(struct gt_oldheap *h, uint64_t key)
{
	struct gt_oldheap_entry e = h->v[0];

	e.key = key;
	gt_oldheap_down(h, 0, e);
}

/* The thread's entry, which must be there. */
static inline void gt_oldheap_remove(struct gt_oldheap *h, uint32_t thread)
{
	gt_oldheap_take(h, h->place[thread] - 1);
}

#endif
