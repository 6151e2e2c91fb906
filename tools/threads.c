// SPDX-License-Identifier: Apache-2.0
#include "threads.h"

#include "sat.h"
#include "timeline.h"

/* Also to begin with. -ENOMEM, -E2BIG. */
static int grow(struct gt_threads *s)
{
	uint32_t size = s->size ? s->size * 2 : 64;
	struct thread **list, **table;

	if (size > GT_TIMELINE_THREADS_MAX)
		return -E2BIG;
	list = realloc(s->list, size * sizeof(*list));
	if (!list)
		return -ENOMEM;
	s->list = list;
	table = calloc(size, 2 * sizeof(*table));
	if (!table)
		return -ENOMEM;
	free(s->table);
	s->table = table;
	s->size = size;
	for (uint32_t i = 0; i < s->n; i++)
		*gt_threads_find(s, list[i]->tid) = list[i];
	return 0;
}

int gt_threads_init(struct gt_threads *s)
{
	return grow(s);
}

int gt_threads_add(struct gt_threads *s, uint32_t tid, struct thread **out)
{
	struct thread *t;
	int err;

	if (s->n == s->size) {
		err = grow(s);
		if (err)
			return err;
	}
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->tid = t->waiter.tid = tid;
	s->list[s->n++] = *gt_threads_find(s, tid) = t;
	*out = s->latest = t;
	return 0;
}

static int by_tid(const void *a, const void *b)
{
	const struct thread *x = *(struct thread *const *)a, *y = *(struct thread *const *)b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

void gt_threads_sort(struct gt_threads *s)
{
	if (s->n)
		qsort(s->list, s->n, sizeof(*s->list), by_tid);
}

int gt_thread_keep_names(struct thread *t, const struct gil_event *ev)
{
	const char *name = ev->thread.name;

	memcpy(t->comm, ev->thread.comm, sizeof(t->comm));
	if (name || t->ended) {
		free(t->name);
		t->name = name ? strndup(name, GIL_NAME_MAX) : NULL;
	}
	t->ended = 0;
	return name && !t->name ? -ENOMEM : 0;
}

/* Lives may overlap where time runs backwards, so that their sum has no bound. */
static void add_life(struct thread *t, uint64_t start_ns, uint64_t end_ns)
{
	t->observed_ns = gt_sat_add(t->observed_ns, end_ns - start_ns);
	if (!t->first_ns || start_ns < t->first_ns)
		t->first_ns = start_ns;
}

void gt_thread_lived(struct thread *t, uint64_t ns)
{
	if (!t->seen_ns)
		return;
	/* Where time runs backwards, it has events and slices behind this. */
	if (ns < t->last_ns)
		ns = t->last_ns;
	if (ns < t->row_end_ns)
		ns = t->row_end_ns;
	add_life(t, t->seen_ns, ns > t->seen_ns ? ns : t->seen_ns);
	t->seen_ns = t->own_ns = 0;
	t->life++;
}

void gt_thread_lived_before(struct thread *t, uint64_t ns, uint64_t own_ns)
{
	if (ns < own_ns)
		add_life(t, ns, own_ns);
}

void gt_threads_free(struct gt_threads *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		free(s->list[i]->name);
		free(s->list[i]);
	}
	free(s->list);
	free(s->table);
}
