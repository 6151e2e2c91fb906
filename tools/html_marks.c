// SPDX-License-Identifier: Apache-2.0
/* Which marks the page keeps. How many a program sets is its own affair: the page has a bound. */
#include "html_private.h"

static size_t share(const struct gt_html *h)
{
	return GT_HTML_MARKS_MAX / h->n_procs;
}

/* Processes come one after the other: the earlier give back what is more than their share. */
static void give_back(struct gt_html *h)
{
	size_t from = 0, kept = 0;

	for (size_t i = 0; i < h->n_procs; i++) {
		struct gt_html_process *p = &h->procs[i];
		size_t had = p->n_marks;

		if (p->n_marks > share(h))
			p->n_marks = share(h);
		memmove(&h->marks[kept], &h->marks[from], p->n_marks * sizeof(*h->marks));
		from += had;
		kept += p->n_marks;
	}
	h->n_marks = kept;
}

static int grow(struct gt_html *h)
{
	size_t want = h->max_marks + h->max_marks / 2 + 16;
	struct gt_html_mark *bigger;

	if (want > GT_HTML_MARKS_MAX)
		want = GT_HTML_MARKS_MAX;
	bigger = reallocarray(h->marks, want, sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	h->marks = bigger;
	h->max_marks = want;
	return 0;
}

int gt_html_add_mark(struct gt_html *h, const struct gt_mark *mark)
{
	struct gt_html_process *p = &h->procs[h->n_procs - 1];
	struct gt_html_mark *to;

	p->marks++;
	if (h->n_marks == GT_HTML_MARKS_MAX) {
		if (p->n_marks >= share(h))
			return 0;
		give_back(h);
	}
	if (h->n_marks == h->max_marks && grow(h))
		return -ENOMEM;
	to = &h->marks[h->n_marks++];
	*to = (struct gt_html_mark){
		.at_ns = mark->at_ns,
		.tid = mark->tid,
		.order = (uint32_t)p->n_marks++,
	};
	memcpy(to->name, mark->name, strnlen(mark->name, GT_HTML_MARK_ROOM - 1));
	return 0;
}

static int earlier(const void *a, const void *b)
{
	const struct gt_html_mark *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

void gt_html_sort_marks(struct gt_html *h)
{
	size_t first = 0;

	for (size_t i = 0; i < h->n_procs; i++) {
		size_t n = h->procs[i].n_marks;

		if (n)
			qsort(&h->marks[first], n, sizeof(*h->marks), earlier);
		first += n;
	}
}
