// SPDX-License-Identifier: Apache-2.0
/*
 * The summary inside the page: as it is, but for pairs. There may be a million of them for each
 * process, and the page shows a table of those who waited longest and those who were waited for
 * longest. So where there are too many, the greatest stay, and all between these threads; what is
 * missing of a victim is told by its sum.
 */
#include "html_private.h"
#include "summary_private.h"

/* Threads of each sort; the page shows a few less, as it may order equal ones anew. */
#define TOP 24
/* Pairs of these, and of these with those that are no thread. */
#define TOP_PAIRS ((size_t)TOP * (TOP + 3))

struct top {
	uint32_t tid[TOP];
	uint64_t ns[TOP]; /* greatest first */
	size_t n;
};

static void top_add(struct top *t, uint32_t tid, uint64_t ns)
{
	size_t at = t->n < TOP ? t->n++ : TOP;

	if (at == TOP) {
		if (ns <= t->ns[TOP - 1])
			return;
		at = TOP - 1;
	}
	for (; at && t->ns[at - 1] < ns; at--) {
		t->ns[at] = t->ns[at - 1];
		t->tid[at] = t->tid[at - 1];
	}
	t->ns[at] = ns;
	t->tid[at] = tid;
}

static int top_has(const struct top *t, uint32_t tid)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->tid[i] == tid)
			return 1;
	return 0;
}

/* Replaces the pairs by a selection of their own, to be freed. */
static int select_pairs(struct gt_summary_process *s, size_t most, const struct gt_html_row *rows,
			size_t n_rows)
{
	struct top victims = {.n = 0}, blockers = {.n = 0};
	struct gt_pair *pairs = calloc(most + TOP_PAIRS, sizeof(*pairs));
	size_t n = 0;

	if (!pairs)
		return -ENOMEM;
	for (size_t i = 0; i < s->nthreads; i++)
		top_add(&victims, s->threads[i]->tid, s->threads[i]->blamed_ns);
	for (size_t i = 0; i < n_rows; i++)
		top_add(&blockers, rows[i].tid, rows[i].blocks_ns);
	for (size_t i = 0; i < s->npairs; i++) {
		const struct gt_pair *p = &s->pairs[i];
		int thread = p->blocker != GT_BLOCKER_NOBODY && p->blocker < GT_BLOCKER_OTHERS;

		if (i < most || (n < most + TOP_PAIRS && top_has(&victims, p->victim) &&
				 (!thread || top_has(&blockers, p->blocker))))
			pairs[n++] = *p;
	}
	s->pairs = pairs;
	s->npairs = n;
	return 0;
}

int gt_html_put_summary(const struct gt_html *h)
{
	size_t n = h->summary ? h->summary->n : 0;
	gt_autofree struct gt_summary_process *procs = calloc(n + 1, sizeof(*procs));
	gt_autofree struct gt_summary_process **list = calloc(n + 1, sizeof(*list));
	const struct gt_summary shown = {.list = list, .n = n, .size = n};
	int err = procs && list ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && !err; i++) {
		size_t most = (size_t)GT_HTML_PAIRS_MAX / n;

		procs[i] = *h->summary->list[i];
		list[i] = &procs[i];
		if (i < h->n_procs && procs[i].npairs > most)
			err = select_pairs(&procs[i], most, h->rows + h->procs[i].first_row,
					   h->procs[i].n_rows);
	}
	if (!err && h->summary)
		gt_summary_json(&shown, h->w);
	for (size_t i = 0; i < n && procs && list; i++)
		if (list[i] && procs[i].pairs != h->summary->list[i]->pairs)
			free(procs[i].pairs);
	return err;
}
