// SPDX-License-Identifier: Apache-2.0
/* Collects what the page shows; levels.c keeps the slices within bounds. */
#include "sink_html.h"

#include "html_private.h"
#include "log.h"

static struct gt_html *html(struct gt_sink *s)
{
	return (struct gt_html *)s;
}

static struct gt_html_process *latest(struct gt_html *h)
{
	return h->n_procs ? &h->procs[h->n_procs - 1] : NULL;
}

/* A copy of at most `max` bytes; NULL stays NULL. */
static int copy(char **to, const char *text, size_t max)
{
	char *s = text ? strndup(text, max) : NULL;

	if (text && !s)
		return -ENOMEM;
	free(*to);
	*to = s;
	return 0;
}

static void seen(struct gt_html *h, uint64_t start_ns, uint64_t end_ns)
{
	if (start_ns < h->base_ns)
		h->base_ns = start_ns;
	if (end_ns > h->end_ns)
		h->end_ns = end_ns;
}

static int grow(void *array, size_t *max, size_t size)
{
	size_t want = *max ? *max + *max / 2 : 16;
	void *bigger = reallocarray(*(void **)array, want, size);

	if (!bigger)
		return -ENOMEM;
	*(void **)array = bigger;
	*max = want;
	return 0;
}

static int add_process(struct gt_sink *s, const struct gt_sink_process *p)
{
	struct gt_html *h = html(s);
	struct gt_html_process *to;
	char *name = NULL, *tags = NULL, *path = NULL;

	if (h->n_procs == h->max_procs && grow(&h->procs, &h->max_procs, sizeof(*h->procs)))
		return -ENOMEM;
	if (copy(&name, p->name, GT_HTML_TEXT_MAX) || copy(&tags, p->tags, GT_HTML_TEXT_MAX) ||
	    copy(&path, p->path, GT_HTML_TEXT_MAX)) {
		free(name);
		free(tags);
		return -ENOMEM;
	}
	to = &h->procs[h->n_procs++];
	*to = (struct gt_html_process){.p = *p, .first_row = h->levels.n_rows};
	to->p.name = name;
	to->p.tags = tags;
	to->p.path = path;
	to->p.host = NULL; /* the tags tell it */
	seen(h, p->start_ns, p->end_ns);
	gt_tidmap_clear(&h->map);
	return 0;
}

/* The thread's row, made if need be and there is room; -1: there is none. */
static int find_row(struct gt_html *h, uint32_t tid, int64_t *row)
{
	struct gt_html_process *p = latest(h);
	uint32_t number = gt_tidmap_find(&h->map, tid);
	int err;

	*row = -1;
	if (number == GT_TIDMAP_NONE) {
		if (h->levels.n_rows >= GT_HTML_ROWS_MAX)
			return 0;
		if (h->levels.n_rows == h->max_rows &&
		    grow(&h->rows, &h->max_rows, sizeof(*h->rows)))
			return -ENOMEM;
		h->rows[h->levels.n_rows] = (struct gt_html_row){.tid = tid};
		err = gt_levels_add_row(&h->levels);
		if (!err)
			err = gt_tidmap_add(&h->map, tid, &number);
		if (err)
			return err;
		p->n_rows++;
	}
	*row = (int64_t)p->first_row + number;
	return 0;
}

static int add_span(struct gt_sink *s, const struct gt_span *span)
{
	struct gt_html *h = html(s);
	struct gt_html_process *p = latest(h);
	int64_t row;
	int err;

	if (!p || span->kind >= GT_SPAN_KINDS)
		return -EINVAL;
	err = find_row(h, span->tid, &row);
	if (err)
		return err;
	seen(h, span->start_ns, span->end_ns);
	if (row >= 0)
		return gt_levels_add(&h->levels, (size_t)row, span);
	p->rest_n[span->kind]++;
	p->rest_ns[span->kind] += span->end_ns - span->start_ns;
	return 0;
}

/* ---- gaps ---- */

static int close_by(const struct gt_html_gap *a, const struct gt_html_gap *b, uint32_t width)
{
	return a->process == b->process && a->begin_ns >> width == b->begin_ns >> width;
}

/* Those of a kind that begin within a cell of this width become one. */
static void merge_closer(struct gt_html *h, uint32_t width)
{
	struct gt_html_gap *latest_of[2] = {NULL, NULL}; /* lost, paused */
	size_t kept = 0;

	for (size_t i = 0; i < h->n_gaps; i++) {
		const struct gt_html_gap *g = &h->gaps[i];
		struct gt_html_gap *last = latest_of[!!g->paused];

		if (g->late || !last || !close_by(last, g, width)) {
			h->gaps[kept] = *g;
			if (!g->late)
				latest_of[!!g->paused] = &h->gaps[kept];
			kept++;
			continue;
		}
		last->end_ns = g->end_ns > last->end_ns ? g->end_ns : last->end_ns;
		last->count += g->count;
		last->missing_ns += g->missing_ns;
		last->merged += g->merged;
	}
	h->n_gaps = kept;
}

static void make_room(struct gt_html *h)
{
	while (h->n_gaps > GT_HTML_GAPS_MAX / 2 && h->gap_width < GT_LEVELS_WIDTH_MAX) {
		h->gap_width = h->gap_width ? h->gap_width + 1 : GT_LEVELS_WIDTH_MIN;
		merge_closer(h, h->gap_width);
	}
}

static int add_gap(struct gt_sink *s, const struct gt_gap *gap)
{
	struct gt_html *h = html(s);
	struct gt_html_process *p = latest(h);
	struct gt_html_gap one = {
		.begin_ns = gap->begin_ns,
		.end_ns = gap->end_ns,
		.count = gap->late ? 0 : gap->count,
		.missing_ns = gap->end_ns - gap->begin_ns,
		.merged = 1,
		.late = gap->late,
		.paused = gap->paused,
	};

	if (!p)
		return -EINVAL;
	one.process = (uint32_t)(h->n_procs - 1);
	if (gap->late && gap->why && copy(&p->late_why, gap->why, GT_HTML_NAME_MAX))
		return -ENOMEM;
	seen(h, gap->begin_ns, gap->end_ns);
	if (h->n_gaps >= GT_HTML_GAPS_MAX)
		make_room(h);
	if (h->n_gaps == h->max_gaps && grow(&h->gaps, &h->max_gaps, sizeof(*h->gaps)))
		return -ENOMEM;
	h->gaps[h->n_gaps++] = one;
	return 0;
}

static int add_mark(struct gt_sink *s, const struct gt_mark *mark)
{
	struct gt_html *h = html(s);

	if (!latest(h))
		return -EINVAL;
	seen(h, mark->at_ns, mark->at_ns);
	return gt_html_add_mark(h, mark);
}

/* ---- what comes last ---- */

static int add_thread(struct gt_sink *s, const struct gt_sink_thread *t)
{
	struct gt_html *h = html(s);
	struct gt_html_row *r;
	int64_t row;
	int err;

	if (!latest(h))
		return -EINVAL;
	err = find_row(h, t->tid, &row);
	if (err)
		return err;
	if (row < 0) {
		latest(h)->rest_threads++;
		return 0;
	}
	r = &h->rows[row];
	r->first_ns = t->first_ns;
	r->observed_ns = t->observed_ns;
	r->unknown_ns = t->unknown_ns;
	err = copy(&r->label, t->label, GT_HTML_NAME_MAX);
	return err ? err : copy(&r->name, t->name, GT_HTML_NAME_MAX);
}

static int add_pair(struct gt_sink *s, const struct gt_pair *pair)
{
	struct gt_html *h = html(s);
	uint32_t number;

	if (!latest(h))
		return -EINVAL;
	if (pair->blocker == GT_BLOCKER_NOBODY || pair->blocker >= GT_BLOCKER_OTHERS)
		return 0;
	number = gt_tidmap_find(&h->map, pair->blocker);
	if (number != GT_TIDMAP_NONE)
		h->rows[latest(h)->first_row + number].blocks_ns += pair->ns;
	return 0;
}

static int add_end(struct gt_sink *s, const struct gt_sink_end *end)
{
	struct gt_html_process *p = latest(html(s));
	char *doubt = NULL, *problem = NULL;

	if (!p || p->complete)
		return -EINVAL;
	if (copy(&doubt, end->doubt, GT_HTML_TEXT_MAX) ||
	    copy(&problem, end->problem, GT_HTML_TEXT_MAX)) {
		free(doubt);
		return -ENOMEM;
	}
	p->end = *end;
	p->end.doubt = doubt;
	p->end.problem = problem;
	p->complete = 1;
	return 0;
}

static void free_all(struct gt_html *h)
{
	for (size_t i = 0; i < h->levels.n_rows; i++) {
		free(h->rows[i].label);
		free(h->rows[i].name);
	}
	for (size_t i = 0; i < h->n_procs; i++) {
		struct gt_html_process *p = &h->procs[i];

		free((void *)p->p.name);
		free((void *)p->p.tags);
		free((void *)p->p.path);
		free((void *)p->end.doubt);
		free((void *)p->end.problem);
		free(p->late_why);
	}
	free(h->procs);
	free(h->rows);
	free(h->gaps);
	free(h->marks);
	gt_tidmap_fini(&h->map);
	gt_levels_fini(&h->levels);
	free(h);
}

/* After an error there is no page, only its beginning. */
static int finish(struct gt_sink *s)
{
	struct gt_html *h = html(s);
	int err = h->err, flushed;

	if (!err)
		err = gt_html_write(h);
	flushed = gt_jsonw_flush(h->w);
	free_all(h);
	return err ? err : flushed;
}

/* Remembers the first error: finish() returns it. */
#define KEEP(name, type)                                                                           \
	static int name(struct gt_sink *s, const type *what)                                       \
	{                                                                                          \
		int err = add_##name(s, what);                                                     \
                                                                                                   \
		if (err && !html(s)->err)                                                          \
			html(s)->err = err;                                                        \
		return err;                                                                        \
	}

KEEP(process, struct gt_sink_process)
KEEP(span, struct gt_span)
KEEP(gap, struct gt_gap)
KEEP(mark, struct gt_mark)
KEEP(thread, struct gt_sink_thread)
KEEP(pair, struct gt_pair)
KEEP(end, struct gt_sink_end)

int gt_html_create(struct gt_jsonw *w, const struct gt_summary *summary, struct gt_sink **out)
{
	static const struct gt_sink_ops ops = {
		.process = process,
		.span = span,
		.gap = gap,
		.mark = mark,
		.thread = thread,
		.pair = pair,
		.end = end,
		.finish = finish,
	};
	struct gt_html *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	h->sink.ops = &ops;
	h->w = w;
	h->summary = summary;
	h->base_ns = UINT64_MAX;
	gt_levels_init(&h->levels, GT_HTML_ITEMS_MAX);
	*out = &h->sink;
	return 0;
}
