// SPDX-License-Identifier: Apache-2.0
#include "threadnames.h"

#include "tidmap.h"

struct process {
	struct gt_tidmap map;
	char **labels; /* by the number of a thread */
	uint32_t size;
	uint32_t order;
	char *doubt;
};

struct gt_threadnames {
	struct process *list; /* by .order, ascending, as they come */
	size_t n, size;
};

struct names_sink {
	struct gt_sink sink;
	struct gt_threadnames *names;
};

static struct process *find(struct gt_threadnames *t, uint32_t order)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (t->list[mid].order < order)
			low = mid + 1;
		else
			high = mid;
	}
	return low < t->n && t->list[low].order == order ? &t->list[low] : NULL;
}

static int names_process(struct gt_sink *s, const struct gt_sink_process *p)
{
	struct gt_threadnames *t = ((struct names_sink *)s)->names;

	if (t->n && t->list[t->n - 1].order >= p->order)
		return -EINVAL;
	if (t->n == t->size) {
		size_t size = t->size ? t->size * 2 : 16;
		struct process *list = reallocarray(t->list, size, sizeof(*list));

		if (!list)
			return -ENOMEM;
		t->list = list;
		t->size = size;
	}
	t->list[t->n++] = (struct process){.order = p->order};
	return 0;
}

static int names_span(struct gt_sink *s, const struct gt_span *span)
{
	(void)s;
	(void)span;
	return 0;
}

static int names_gap(struct gt_sink *s, const struct gt_gap *gap)
{
	(void)s;
	(void)gap;
	return 0;
}

static int grow_labels(struct process *p)
{
	uint32_t size = p->size ? p->size * 2 : 16;
	char **labels = reallocarray(p->labels, size, sizeof(*labels));

	if (!labels)
		return -ENOMEM;
	p->labels = labels;
	p->size = size;
	return 0;
}

static int names_thread(struct gt_sink *s, const struct gt_sink_thread *thread)
{
	struct gt_threadnames *t = ((struct names_sink *)s)->names;
	struct process *p = &t->list[t->n - 1];
	uint32_t number, n = p->map.n;
	int err = n == p->size ? grow_labels(p) : 0;

	if (!err)
		err = gt_tidmap_add(&p->map, thread->tid, &number);
	if (err || p->map.n == n) /* it comes once */
		return err;
	p->labels[n] = strdup(thread->label);
	return p->labels[n] ? 0 : -ENOMEM;
}

static int names_end(struct gt_sink *s, const struct gt_sink_end *end)
{
	struct gt_threadnames *t = ((struct names_sink *)s)->names;
	struct process *p = &t->list[t->n - 1];

	if (!end->doubt)
		return 0;
	p->doubt = strdup(end->doubt);
	return p->doubt ? 0 : -ENOMEM;
}

static int names_finish(struct gt_sink *s)
{
	free(s);
	return 0;
}

int gt_threadnames_sink(struct gt_threadnames *t, struct gt_sink **out)
{
	static const struct gt_sink_ops ops = {
		.process = names_process,
		.span = names_span,
		.gap = names_gap,
		.thread = names_thread,
		.end = names_end,
		.finish = names_finish,
	};
	struct names_sink *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->sink.ops = &ops;
	s->names = t;
	*out = &s->sink;
	return 0;
}

const char *gt_threadnames_label(struct gt_threadnames *t, uint32_t order, uint32_t tid)
{
	struct process *p = find(t, order);
	uint32_t number = p ? gt_tidmap_find(&p->map, tid) : GT_TIDMAP_NONE;

	return number == GT_TIDMAP_NONE ? NULL : p->labels[number];
}

const char *gt_threadnames_doubt(struct gt_threadnames *t, uint32_t order)
{
	const struct process *p = find(t, order);

	return p ? p->doubt : NULL;
}

int gt_threadnames_create(struct gt_threadnames **out)
{
	struct gt_threadnames *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	*out = t;
	return 0;
}

void gt_threadnames_free(struct gt_threadnames *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++) {
		struct process *p = &t->list[i];

		for (uint32_t k = 0; k < p->map.n; k++)
			free(p->labels[k]);
		free(p->labels);
		free(p->doubt);
		gt_tidmap_fini(&p->map);
	}
	free(t->list);
	free(t);
}
