// SPDX-License-Identifier: Apache-2.0
/* What the outputs of a summary ask of it: other orders, a thread by its id. */
#include "summary_private.h"

/* a / b against c / d; what has no denominator comes last. */
static int greater_share(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	unsigned __int128 x = (unsigned __int128)a * d, y = (unsigned __int128)c * b;

	if (!b || !d)
		return !b - !d;
	return (x < y) - (x > y);
}

static int by_slowness(const void *a, const void *b)
{
	const struct gt_summary_process *x = *(const struct gt_summary_process *const *)a;
	const struct gt_summary_process *y = *(const struct gt_summary_process *const *)b;
	int order = greater_share(x->wait_ns, x->observed_ns, y->wait_ns, y->observed_ns);

	if (order)
		return order;
	return (x->p.order > y->p.order) - (x->p.order < y->p.order);
}

const struct gt_summary_process **gt_summary_slowest(const struct gt_summary *s)
{
	const struct gt_summary_process **list = calloc(s->n + 1, sizeof(*list));

	if (!list)
		return NULL;
	for (size_t i = 0; i < s->n; i++)
		list[i] = s->list[i];
	qsort(list, s->n, sizeof(*list), by_slowness);
	return list;
}

static int by_wait(const void *a, const void *b)
{
	const struct gt_summary_thread *x = *(const struct gt_summary_thread *const *)a;
	const struct gt_summary_thread *y = *(const struct gt_summary_thread *const *)b;

	for (int i = 0; i < GT_WHATS; i++)
		if (x->hist[i].sum != y->hist[i].sum)
			return x->hist[i].sum < y->hist[i].sum ? 1 : -1;
	return (x->tid > y->tid) - (x->tid < y->tid);
}

const struct gt_summary_thread **gt_summary_by_wait(const struct gt_summary_process *p)
{
	const struct gt_summary_thread **list = calloc(p->nthreads + 1, sizeof(*list));

	if (!list)
		return NULL;
	for (size_t i = 0; i < p->nthreads; i++)
		list[i] = p->threads[i];
	qsort(list, p->nthreads, sizeof(*list), by_wait);
	return list;
}

static int by_ns(const void *a, const void *b)
{
	const struct gt_summary_blocker *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	return (x->tid > y->tid) - (x->tid < y->tid);
}

/* -ENOMEM */
static int add_up(const struct gt_summary_process *p, struct gt_tidmap *map,
		  struct gt_summary_blocker list[])
{
	for (size_t i = 0; i < p->npairs; i++) {
		const struct gt_pair *pair = &p->pairs[i];
		uint32_t number;
		int err = gt_tidmap_add(map, pair->blocker, &number);

		if (err)
			return err;
		list[number].tid = pair->blocker;
		list[number].ns = gt_sat_add(list[number].ns, pair->ns);
		list[number].victims++;
	}
	return 0;
}

struct gt_summary_blocker *gt_summary_blockers(const struct gt_summary_process *p, size_t *n)
{
	struct gt_summary_blocker *list = calloc(p->npairs + 1, sizeof(*list));
	struct gt_tidmap map = {0};

	if (!list)
		return NULL;
	if (add_up(p, &map, list)) {
		free(list);
		list = NULL;
	} else {
		*n = map.n;
		qsort(list, map.n, sizeof(*list), by_ns);
	}
	gt_tidmap_fini(&map);
	return list;
}

size_t gt_summary_gils(const struct gt_summary_process *p)
{
	size_t n = 0;

	for (size_t i = 0; i < GT_ARRAY_SIZE(p->gils); i++)
		n += p->gils[i] != NULL;
	return n;
}

int gt_summary_silent(const struct gt_summary_process *p)
{
	if (gt_summary_gils(p))
		return 0;
	for (size_t i = 0; i < p->nthreads; i++) {
		const struct gt_summary_thread *t = p->threads[i];

		if (t->hist[GT_WAITS].n || t->missed[GT_WAITS] || t->finalizing)
			return 0;
	}
	return 1;
}

static int against_tid(const void *key, const void *b)
{
	const uint32_t tid = *(const uint32_t *)key;
	const struct gt_summary_thread *t = *(const struct gt_summary_thread *const *)b;

	return (tid > t->tid) - (tid < t->tid);
}

const struct gt_summary_thread *gt_summary_thread(const struct gt_summary_process *p, uint32_t tid)
{
	struct gt_summary_thread *const *found = NULL;

	if (p->nthreads)
		found = bsearch(&tid, p->threads, p->nthreads, sizeof(*p->threads), against_tid);
	return found ? *found : NULL;
}
