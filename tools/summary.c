// SPDX-License-Identifier: Apache-2.0
/* The collecting sink. Slices of a thread come before the thread itself: it is made by its id. */
#include "summary_private.h"

#define GAP (GT_OPEN_LOST | GT_OPEN_PAUSED) /* an end of a slice lies at a gap */

struct summary_sink {
	struct gt_sink sink;
	struct gt_summary *s;
	struct gt_summary_process *now; /* NULL: before the first */
	int err;
};

/* ---- threads ---- */

/* -ENOMEM */
static int new_thread(struct gt_summary_process *p, uint32_t tid)
{
	if (p->nthreads == p->size) {
		size_t size = p->size ? p->size * 2 : 64;
		struct gt_summary_thread **list = reallocarray(p->threads, size, sizeof(*list));

		if (!list)
			return -ENOMEM;
		p->threads = list;
		p->size = size;
	}
	p->threads[p->nthreads] = calloc(1, sizeof(**p->threads));
	if (!p->threads[p->nthreads])
		return -ENOMEM;
	p->threads[p->nthreads++]->tid = tid;
	return 0;
}

/* NULL: out of memory. */
static struct gt_summary_thread *thread_of(struct gt_summary_process *p, uint32_t tid)
{
	uint32_t number;

	if (gt_tidmap_add(&p->map, tid, &number) || (number == p->nthreads && new_thread(p, tid)))
		return NULL;
	return p->threads[number];
}

/* ---- time ---- */

static void set_bounds(struct gt_summary_process *p)
{
	const uint64_t span = p->p.end_ns - p->p.start_ns;

	for (unsigned int i = 0; i <= GT_SUMMARY_BUCKETS; i++)
		p->bound_ns[i] = p->p.start_ns +
				 (uint64_t)((unsigned __int128)span * i / GT_SUMMARY_BUCKETS);
}

/* Goes to the bucket that a time within the recording lies in. */
static size_t bucket_at(struct gt_summary_process *p, uint64_t ns)
{
	while (ns < p->bound_ns[p->bucket])
		p->bucket--;
	while (p->bucket < GT_SUMMARY_BUCKETS - 1 && ns >= p->bound_ns[p->bucket + 1])
		p->bucket++;
	return p->bucket;
}

/*
 * Adds what lies within the recording to its buckets, each its part, and returns how long that is.
 */
static uint64_t spread(struct gt_summary_process *p, uint64_t buckets[], uint64_t begin_ns,
		       uint64_t end_ns)
{
	uint64_t from;

	if (begin_ns < p->p.start_ns)
		begin_ns = p->p.start_ns;
	if (end_ns > p->p.end_ns)
		end_ns = p->p.end_ns;
	if (begin_ns >= end_ns)
		return 0;
	from = begin_ns;
	for (size_t i = bucket_at(p, from); from < end_ns; i++) {
		uint64_t to = end_ns < p->bound_ns[i + 1] ? end_ns : p->bound_ns[i + 1];

		if (to > from) {
			buckets[i] = gt_sat_add(buckets[i], to - from);
			from = to;
		}
	}
	return end_ns - begin_ns;
}

/* From begin_ns to end_ns, which may be the same time, events are missing: marks their buckets. */
static uint64_t spread_gap(struct gt_summary_process *p, uint8_t marks[], uint64_t begin_ns,
			   uint64_t end_ns)
{
	if (end_ns < begin_ns || begin_ns > p->p.end_ns || end_ns < p->p.start_ns)
		return 0;
	if (begin_ns < p->p.start_ns)
		begin_ns = p->p.start_ns;
	for (size_t i = bucket_at(p, begin_ns);
	     i < GT_SUMMARY_BUCKETS && (p->bound_ns[i] < end_ns || i == p->bucket); i++)
		marks[i] = 1;
	return spread(p, p->bucket_gap_ns, begin_ns, end_ns);
}

static void see(struct gt_summary_process *p, uint64_t ns)
{
	if (ns > p->seen_ns)
		p->seen_ns = ns;
}

/* ---- GILs ---- */

/* Who had this GIL was not known since a hold of which the end was missed; now it is. */
static void known_again(struct gt_summary_process *p, struct gt_summary_gil *g, uint64_t ns)
{
	uint64_t since = g->unknown_since_ns;

	g->unknown_since_ns = 0;
	if (ns > p->p.end_ns)
		ns = p->p.end_ns;
	if (since && since < p->p.start_ns)
		since = p->p.start_ns;
	if (since && ns > since)
		g->unknown_ns = gt_sat_add(g->unknown_ns, ns - since);
}

/*
 * A GIL of which nothing is told between two gaps may have been held all the time, or never. (Where
 * something is, it was free before the first hold that did not reach back to the gap: a release
 * would have been seen.)
 */
static struct gt_summary_gil *gil_of(struct gt_summary_process *p, uint8_t gil)
{
	struct gt_summary_gil *g = p->gils[gil];

	if (!g) {
		g = p->gils[gil] = calloc(1, sizeof(*g));
		if (!g)
			return NULL;
		g->gil = gil;
		g->unknown_ns = p->epochs_ns;
	}
	g->epoch = p->epoch;
	return g;
}

static void end_epoch(struct gt_summary_process *p, uint64_t end_ns, uint64_t next_ns)
{
	uint64_t start_ns = p->epoch_start_ns, ns;

	if (start_ns < p->p.start_ns)
		start_ns = p->p.start_ns;
	if (end_ns > p->p.end_ns)
		end_ns = p->p.end_ns;
	ns = end_ns > start_ns ? end_ns - start_ns : 0;
	for (size_t i = 0; i < GT_ARRAY_SIZE(p->gils); i++) {
		if (!p->gils[i])
			continue;
		known_again(p, p->gils[i], end_ns);
		if (p->gils[i]->epoch != p->epoch)
			p->gils[i]->unknown_ns = gt_sat_add(p->gils[i]->unknown_ns, ns);
	}
	p->epochs_ns += ns;
	p->epoch++;
	if (next_ns > p->epoch_start_ns)
		p->epoch_start_ns = next_ns;
}

/* ---- slices ---- */

static int is_longer(const struct gt_summary_slice *a, const struct gt_summary_slice *b)
{
	if (a->ns != b->ns)
		return a->ns > b->ns;
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns;
	return a->tid < b->tid;
}

static void keep_longest(struct gt_summary_longest *l, const struct gt_span *span)
{
	const struct gt_summary_slice slice = {
		.start_ns = span->start_ns,
		.ns = span->end_ns - span->start_ns,
		.wait = span->wait,
		.tid = span->tid,
		.open = span->open,
		.gil = span->gil,
		.forced = span->forced,
	};
	size_t i = l->n;

	if (i == GT_SUMMARY_LONGEST && !is_longer(&slice, &l->list[--i]))
		return;
	for (; i && is_longer(&slice, &l->list[i - 1]); i--)
		l->list[i] = l->list[i - 1];
	l->list[i] = slice;
	l->n += l->n < GT_SUMMARY_LONGEST;
}

/* Counts a wait or a hold; one of which an end was missed has no length that could be counted. */
static int count(struct gt_summary_process *p, struct gt_summary_thread *t,
		 enum gt_summary_what what, const struct gt_span *span)
{
	const uint8_t cut = GT_OPEN_START | GAP | GT_OPEN_END | GT_OPEN_EXIT;

	if (span->open & GT_OPEN_UNKNOWN) {
		t->missed[what]++;
		return 0;
	}
	t->cut[what] += !!(span->open & cut);
	keep_longest(&p->longest[what], span);
	return gt_hist_add(&t->hist[what], span->end_ns - span->start_ns);
}

static int take(struct gt_summary_process *p, struct gt_summary_thread *t,
		const struct gt_span *span)
{
	const uint64_t ns = span->end_ns - span->start_ns;

	if (span->open & GT_OPEN_FINALIZING) {
		t->finalizing++;
		t->finalizing_ns = gt_sat_add(t->finalizing_ns, ns);
		return 0;
	}
	t->contended += span->acquired;
	(void)spread(p, p->bucket_wait_ns, span->start_ns, span->end_ns);
	return count(p, t, GT_WAITS, span);
}

static int hold(struct gt_summary_process *p, struct gt_summary_thread *t,
		const struct gt_span *span)
{
	struct gt_summary_gil *g = gil_of(p, span->gil);

	if (!g)
		return -ENOMEM;
	known_again(p, g, span->start_ns);
	if (span->open & GT_OPEN_UNKNOWN)
		g->unknown_since_ns = span->start_ns;
	g->held_ns =
		gt_sat_add(g->held_ns, spread(p, g->bucket_held_ns, span->start_ns, span->end_ns));
	/*
	 * One that is cut at a gap did not begin there if it ends there. If it has ended with a
	 * release, which drop() will tell, or with something else that shows that one was missed,
	 * it is its beginning that is not known.
	 */
	t->lost_hold_ns = 0;
	if (span->open & GT_OPEN_START)
		return count(p, t, GT_HOLDS, span);
	if (!(span->open & GAP) || !(span->open & GT_OPEN_UNKNOWN))
		t->takes++;
	if (span->open & GAP && !(span->open & GT_OPEN_UNKNOWN))
		t->lost_hold_ns = span->end_ns;
	return count(p, t, GT_HOLDS, span);
}

static void drop(struct gt_summary_thread *t, const struct gt_span *span)
{
	if (t->lost_hold_ns && t->lost_hold_ns == span->start_ns)
		t->takes--;
	t->lost_hold_ns = 0;
	t->drop_ns = gt_sat_add(t->drop_ns, span->end_ns - span->start_ns);
	t->releases[span->forced < GT_FORCED_KINDS ? span->forced : GT_FORCED_UNKNOWN]++;
}

/* ---- the end of a process ---- */

static int by_tid(const void *a, const void *b)
{
	const struct gt_summary_thread *x = *(struct gt_summary_thread *const *)a;
	const struct gt_summary_thread *y = *(struct gt_summary_thread *const *)b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

static int by_blame(const void *a, const void *b)
{
	const struct gt_pair *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	if (x->victim != y->victim)
		return x->victim < y->victim ? -1 : 1;
	return (x->blocker > y->blocker) - (x->blocker < y->blocker);
}

/* Where the file is damaged, nothing is known of what lies behind the last that was told. */
static void settle_time(struct gt_summary_process *p)
{
	uint64_t unknown;

	for (size_t i = 0; i < p->nthreads; i++)
		see(p, gt_sat_add(p->threads[i]->first_ns, p->threads[i]->observed_ns));
	if (p->seen_ns < p->p.start_ns)
		p->seen_ns = p->p.start_ns;
	if ((p->end.problem || !p->complete) && p->seen_ns < p->p.end_ns)
		p->unread_ns = spread_gap(p, p->bucket_unseen, p->seen_ns, p->p.end_ns);
	unknown = p->gap_ns + p->late_ns + p->paused_ns + p->unread_ns;
	p->known_ns = p->p.end_ns - p->p.start_ns - unknown;
	end_epoch(p, p->p.end_ns - p->unread_ns, p->p.end_ns);
	for (size_t i = 0; i < GT_ARRAY_SIZE(p->gils); i++) {
		struct gt_summary_gil *g = p->gils[i];
		uint64_t rest;

		if (!g)
			continue;
		/* Where time runs backwards, slices may reach into gaps. */
		rest = p->known_ns > g->held_ns ? p->known_ns - g->held_ns : 0;
		if (g->unknown_ns > rest)
			g->unknown_ns = rest;
		g->free_ns = rest - g->unknown_ns;
	}
}

static void conclude(struct gt_summary_process *p)
{
	gt_tidmap_fini(&p->map);
	p->map = (struct gt_tidmap){0};
	if (p->nthreads)
		qsort(p->threads, p->nthreads, sizeof(*p->threads), by_tid);
	if (p->npairs)
		qsort(p->pairs, p->npairs, sizeof(*p->pairs), by_blame);
	settle_time(p);
	for (size_t i = 0; i < p->nthreads; i++) {
		const struct gt_summary_thread *t = p->threads[i];

		p->wait_ns = gt_sat_add(p->wait_ns, t->hist[GT_WAITS].sum);
		p->observed_ns = gt_sat_add(p->observed_ns, t->observed_ns);
		p->finalizing += t->finalizing;
		p->finalizing_ns = gt_sat_add(p->finalizing_ns, t->finalizing_ns);
	}
}

/* ---- the sink ---- */

static void free_process(struct gt_summary_process *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->nthreads; i++) {
		struct gt_summary_thread *t = p->threads[i];

		for (size_t k = 0; k < GT_WHATS; k++)
			gt_hist_free(&t->hist[k]);
		free(t->label);
		free(t->name);
		free(t);
	}
	for (size_t i = 0; i < GT_ARRAY_SIZE(p->gils); i++)
		free(p->gils[i]);
	free(p->threads);
	gt_tidmap_fini(&p->map);
	gt_summary_free_marks(p);
	free(p->pairs);
	free((char *)p->p.name);
	free((char *)p->p.tags);
	free((char *)p->p.path);
	free((char *)p->p.host);
	free((char *)p->end.doubt);
	free((char *)p->end.problem);
	free(p);
}

/* NULL stays NULL. -ENOMEM. */
static int copy_text(const char **out, const char *text)
{
	*out = text ? strdup(text) : NULL;
	return text && !*out ? -ENOMEM : 0;
}

static int fail(struct summary_sink *k, int err)
{
	if (!k->err)
		k->err = err;
	return err;
}

static int new_process(struct summary_sink *k, const struct gt_sink_process *from)
{
	struct gt_summary *s = k->s;
	struct gt_summary_process *p;

	if (s->n == s->size) {
		size_t size = s->size ? s->size * 2 : 16;
		struct gt_summary_process **list = reallocarray(s->list, size, sizeof(*list));

		if (!list)
			return -ENOMEM;
		s->list = list;
		s->size = size;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	s->list[s->n++] = k->now = p;
	p->p = *from;
	p->p.name = p->p.tags = p->p.path = p->p.host = NULL;
	if (p->p.end_ns < p->p.start_ns)
		p->p.end_ns = p->p.start_ns;
	set_bounds(p);
	return copy_text(&p->p.name, from->name) || copy_text(&p->p.tags, from->tags) ||
			       copy_text(&p->p.path, from->path) ||
			       copy_text(&p->p.host, from->host)
		       ? -ENOMEM
		       : 0;
}

static int on_process(struct gt_sink *sink, const struct gt_sink_process *p)
{
	struct summary_sink *k = (struct summary_sink *)sink;
	int err;

	if (k->now && !k->now->complete)
		conclude(k->now);
	k->now = NULL;
	err = new_process(k, p);
	return err ? fail(k, err) : 0;
}

static int on_span(struct gt_sink *sink, const struct gt_span *span)
{
	struct summary_sink *k = (struct summary_sink *)sink;
	struct gt_summary_process *p = k->now;
	struct gt_summary_thread *t = thread_of(p, span->tid);
	int err = 0;

	if (!t)
		return fail(k, -ENOMEM);
	see(p, span->end_ns);
	if (span->kind == GT_SPAN_TAKE)
		err = take(p, t, span);
	else if (span->kind == GT_SPAN_HOLD)
		err = hold(p, t, span);
	else if (span->kind == GT_SPAN_DROP)
		drop(t, span);
	return err ? fail(k, err) : 0;
}

static int on_gap(struct gt_sink *sink, const struct gt_gap *gap)
{
	struct gt_summary_process *p = ((struct summary_sink *)sink)->now;
	uint8_t *where = gap->late     ? p->bucket_unseen
			 : gap->paused ? p->bucket_paused
				       : p->bucket_lost;
	uint64_t *sum = gap->late ? &p->late_ns : gap->paused ? &p->paused_ns : &p->gap_ns;
	uint64_t begin_ns = gap->begin_ns;

	end_epoch(p, begin_ns, gap->end_ns);
	see(p, gap->end_ns);
	/* No time counts twice. */
	if (begin_ns < p->gaps_until_ns)
		begin_ns = p->gaps_until_ns;
	*sum += spread_gap(p, where, begin_ns, gap->end_ns);
	p->pauses += gap->paused;
	if (gap->end_ns > p->gaps_until_ns)
		p->gaps_until_ns = gap->end_ns;
	return 0;
}

static int on_mark(struct gt_sink *sink, const struct gt_mark *mark)
{
	struct summary_sink *k = (struct summary_sink *)sink;
	int err = gt_summary_keep_mark(k->now, mark);

	return err ? fail(k, err) : 0;
}

static int on_thread(struct gt_sink *sink, const struct gt_sink_thread *from)
{
	struct summary_sink *k = (struct summary_sink *)sink;
	struct gt_summary_thread *t = thread_of(k->now, from->tid);

	if (!t)
		return fail(k, -ENOMEM);
	free(t->label);
	free(t->name);
	t->label = strdup(from->label);
	t->name = strdup(from->name);
	t->first_ns = from->first_ns;
	t->observed_ns = from->observed_ns;
	t->unknown_ns = from->unknown_ns;
	return t->label && t->name ? 0 : fail(k, -ENOMEM);
}

static int on_pair(struct gt_sink *sink, const struct gt_pair *pair)
{
	struct summary_sink *k = (struct summary_sink *)sink;
	struct gt_summary_process *p = k->now;
	struct gt_summary_thread *t = thread_of(p, pair->victim);

	if (!t)
		return fail(k, -ENOMEM);
	if (p->npairs == p->pairs_size) {
		size_t size = p->pairs_size ? p->pairs_size * 2 : 64;
		struct gt_pair *pairs = reallocarray(p->pairs, size, sizeof(*pairs));

		if (!pairs)
			return fail(k, -ENOMEM);
		p->pairs = pairs;
		p->pairs_size = size;
	}
	p->pairs[p->npairs++] = *pair;
	t->blamed_ns = gt_sat_add(t->blamed_ns, pair->ns);
	return 0;
}

static int on_end(struct gt_sink *sink, const struct gt_sink_end *end)
{
	struct summary_sink *k = (struct summary_sink *)sink;
	struct gt_summary_process *p = k->now;

	p->end = *end;
	p->end.doubt = p->end.problem = NULL;
	if (copy_text(&p->end.doubt, end->doubt) || copy_text(&p->end.problem, end->problem))
		return fail(k, -ENOMEM);
	p->complete = 1;
	conclude(p);
	return 0;
}

static int on_finish(struct gt_sink *sink)
{
	struct summary_sink *k = (struct summary_sink *)sink;
	int err = k->err;

	if (k->now && !k->now->complete)
		conclude(k->now);
	free(k);
	return err;
}

static const struct gt_sink_ops ops = {
	.process = on_process,
	.span = on_span,
	.gap = on_gap,
	.mark = on_mark,
	.thread = on_thread,
	.pair = on_pair,
	.end = on_end,
	.finish = on_finish,
};

int gt_summary_sink(struct gt_summary *s, struct gt_sink **out)
{
	struct summary_sink *k = calloc(1, sizeof(*k));

	if (!k)
		return -ENOMEM;
	k->sink.ops = &ops;
	k->s = s;
	*out = &k->sink;
	return 0;
}

int gt_summary_create(struct gt_summary **out)
{
	struct gt_summary *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	*out = s;
	return 0;
}

void gt_summary_free(struct gt_summary *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		free_process(s->list[i]);
	free(s->list);
	free(s);
}
