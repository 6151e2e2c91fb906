// SPDX-License-Identifier: Apache-2.0
/* A summary as one JSON object: docs/summary.md is its description, and changes with it. */
#include "summary_private.h"

#define SHARE_DIGITS 6
#define SHARE_SCALE  1000000

/* ---- values ---- */

static void put_key(struct gt_jsonw *w, const char *key)
{
	gt_jsonw_lit(w, "\"");
	gt_jsonw_raw(w, key, strlen(key));
	gt_jsonw_lit(w, "\":");
}

/* Each of these is a member with a comma behind it, but where it says that it is the last. */
static void put_u64(struct gt_jsonw *w, const char *key, uint64_t v)
{
	put_key(w, key);
	gt_jsonw_u64(w, v);
	gt_jsonw_lit(w, ",");
}

static void put_last_u64(struct gt_jsonw *w, const char *key, uint64_t v)
{
	put_key(w, key);
	gt_jsonw_u64(w, v);
}

static void put_bool(struct gt_jsonw *w, const char *key, int v)
{
	put_key(w, key);
	gt_jsonw_raw(w, v ? "true," : "false,", v ? 5 : 6);
}

/* NULL: null. */
static void put_text(struct gt_jsonw *w, const char *key, const char *text)
{
	put_key(w, key);
	if (!text) {
		gt_jsonw_lit(w, "null,");
		return;
	}
	gt_jsonw_lit(w, "\"");
	gt_jsonw_chars(w, text, strlen(text));
	gt_jsonw_lit(w, "\",");
}

/* a / b with SHARE_DIGITS decimals; null where b is 0. */
static void put_share(struct gt_jsonw *w, const char *key, uint64_t a, uint64_t b)
{
	uint64_t v = gt_summary_ratio(a, b, SHARE_SCALE), frac = v % SHARE_SCALE;
	char digits[SHARE_DIGITS];

	put_key(w, key);
	if (!b) {
		gt_jsonw_lit(w, "null,");
		return;
	}
	for (int i = SHARE_DIGITS; i--; frac /= 10)
		digits[i] = (char)('0' + frac % 10);
	gt_jsonw_u64(w, v / SHARE_SCALE);
	gt_jsonw_lit(w, ".");
	gt_jsonw_raw(w, digits, SHARE_DIGITS);
	gt_jsonw_lit(w, ",");
}

/* "other" for the GILs that are not told apart. */
static void put_gil(struct gt_jsonw *w, uint8_t gil)
{
	put_key(w, "gil");
	if (gil == GIL_INDEX_OTHER)
		gt_jsonw_lit(w, "\"other\"");
	else
		gt_jsonw_u64(w, gil);
	gt_jsonw_lit(w, ",");
}

/* Separates the items of a list. */
static void put_comma(struct gt_jsonw *w, int *first)
{
	if (!*first)
		gt_jsonw_lit(w, ",");
	*first = 0;
	gt_jsonw_lit(w, "\n");
}

/* ---- threads ---- */

static void put_hist(struct gt_jsonw *w, const char *key, const struct gt_summary_thread *t,
		     enum gt_summary_what what)
{
	const struct gt_hist *h = &t->hist[what];

	put_key(w, key);
	gt_jsonw_lit(w, "{");
	put_u64(w, "count", h->n);
	put_u64(w, "cut", t->cut[what]);
	put_u64(w, "missed", t->missed[what]);
	put_u64(w, "sum_ns", h->sum);
	put_u64(w, "median_ns", gt_hist_at(h, 500));
	put_u64(w, "p90_ns", gt_hist_at(h, 900));
	put_u64(w, "p99_ns", gt_hist_at(h, 990));
	put_last_u64(w, "max_ns", h->max);
	gt_jsonw_lit(w, "},");
}

static void put_thread(struct gt_jsonw *w, const struct gt_summary_process *p,
		       const struct gt_summary_thread *t)
{
	gt_jsonw_lit(w, "{");
	put_u64(w, "tid", t->tid);
	put_text(w, "name", t->name && *t->name ? t->name : NULL);
	put_text(w, "label", t->label);
	put_bool(w, "main", t->tid == p->p.main_tid);
	put_u64(w, "first_ns", t->first_ns);
	put_u64(w, "observed_ns", t->observed_ns);
	put_u64(w, "wait_ns", t->hist[GT_WAITS].sum);
	put_u64(w, "hold_ns", t->hist[GT_HOLDS].sum);
	put_u64(w, "drop_ns", t->drop_ns);
	put_u64(w, "idle_ns", gt_summary_idle_ns(t));
	put_u64(w, "unknown_ns", t->unknown_ns);
	put_u64(w, "finalizing_ns", t->finalizing_ns);
	put_share(w, "wait_share", t->hist[GT_WAITS].sum, t->observed_ns);
	put_share(w, "hold_share", t->hist[GT_HOLDS].sum, t->observed_ns);
	put_share(w, "idle_share", gt_summary_idle_ns(t), t->observed_ns);
	put_u64(w, "takes", t->takes);
	put_u64(w, "contended", t->contended);
	put_u64(w, "finalizing", t->finalizing);
	put_key(w, "releases");
	gt_jsonw_lit(w, "{");
	put_u64(w, "forced", t->releases[GT_FORCED_YES]);
	put_u64(w, "voluntary", t->releases[GT_FORCED_NO]);
	put_last_u64(w, "unknown", t->releases[GT_FORCED_UNKNOWN]);
	gt_jsonw_lit(w, "},");
	put_hist(w, "waits", t, GT_WAITS);
	put_hist(w, "holds", t, GT_HOLDS);
	put_last_u64(w, "blamed_ns", t->blamed_ns);
	gt_jsonw_lit(w, "}");
}

static void put_threads(struct gt_jsonw *w, const struct gt_summary_process *p)
{
	int first = 1;

	put_key(w, "threads");
	gt_jsonw_lit(w, "[");
	for (size_t i = 0; i < p->nthreads; i++) {
		put_comma(w, &first);
		put_thread(w, p, p->threads[i]);
	}
	gt_jsonw_lit(w, "],\n");
}

/* ---- pairs and the longest ---- */

static const char *blocker_kind(uint32_t tid)
{
	return tid == GT_BLOCKER_NOBODY    ? "nobody"
	       : tid == GT_BLOCKER_UNKNOWN ? "unknown"
	       : tid == GT_BLOCKER_OTHERS  ? "others"
					   : "thread";
}

/* null where it is no thread, or not known. */
static void put_tid(struct gt_jsonw *w, const char *key, uint32_t tid)
{
	put_key(w, key);
	if (tid == GT_BLOCKER_NOBODY || tid >= GT_BLOCKER_OTHERS)
		gt_jsonw_lit(w, "null");
	else
		gt_jsonw_u64(w, tid);
	gt_jsonw_lit(w, ",");
}

static void put_pairs(struct gt_jsonw *w, const struct gt_summary_process *p)
{
	int first = 1;

	put_key(w, "pairs");
	gt_jsonw_lit(w, "[");
	for (size_t i = 0; i < p->npairs; i++) {
		const struct gt_pair *pair = &p->pairs[i];
		const struct gt_summary_thread *t = gt_summary_thread(p, pair->victim);

		put_comma(w, &first);
		gt_jsonw_lit(w, "{");
		put_u64(w, "victim", pair->victim);
		put_tid(w, "blocker", pair->blocker);
		put_text(w, "kind", blocker_kind(pair->blocker));
		put_u64(w, "ns", pair->ns);
		put_share(w, "share", pair->ns, t ? t->hist[GT_WAITS].sum : 0);
		put_last_u64(w, "waits", pair->waits);
		gt_jsonw_lit(w, "}");
	}
	gt_jsonw_lit(w, "],\n");
}

/* The same words as in the trace: docs/trace.md. */
static void put_open(struct gt_jsonw *w, uint8_t open)
{
	static const struct {
		uint8_t bit;
		const char *word;
	} ends[] = {
		{GT_OPEN_START, "start"}, {GT_OPEN_LOST, "lost"}, {GT_OPEN_PAUSED, "paused"},
		{GT_OPEN_END, "end"},     {GT_OPEN_EXIT, "exit"},
	};
	int first = 1;

	put_key(w, "open");
	gt_jsonw_lit(w, "[");
	for (size_t i = 0; i < GT_ARRAY_SIZE(ends); i++) {
		if (!(open & ends[i].bit))
			continue;
		if (!first)
			gt_jsonw_lit(w, ",");
		first = 0;
		gt_jsonw_lit(w, "\"");
		gt_jsonw_raw(w, ends[i].word, strlen(ends[i].word));
		gt_jsonw_lit(w, "\"");
	}
	gt_jsonw_lit(w, "],");
}

static void put_wait(struct gt_jsonw *w, const struct gt_wait *wait)
{
	put_tid(w, "blocker", wait->blocker);
	put_u64(w, "blocker_ns", wait->blocker_ns);
	put_u64(w, "held_ns", wait->held_ns);
	put_u64(w, "nobody_ns", wait->nobody_ns);
	put_u64(w, "unknown_ns", wait->unknown_ns);
}

static void put_forced(struct gt_jsonw *w, uint8_t forced)
{
	put_key(w, "forced");
	if (forced == GT_FORCED_YES)
		gt_jsonw_lit(w, "true,");
	else if (forced == GT_FORCED_NO)
		gt_jsonw_lit(w, "false,");
	else
		gt_jsonw_lit(w, "null,");
}

static void put_longest(struct gt_jsonw *w, const char *key, const struct gt_summary_process *p,
			enum gt_summary_what what)
{
	const struct gt_summary_longest *l = &p->longest[what];
	int first = 1;

	put_key(w, key);
	gt_jsonw_lit(w, "[");
	for (size_t i = 0; i < l->n; i++) {
		const struct gt_summary_slice *s = &l->list[i];

		put_comma(w, &first);
		gt_jsonw_lit(w, "{");
		put_u64(w, "tid", s->tid);
		put_u64(w, "start_ns", s->start_ns);
		put_u64(w, "offset_ns",
			s->start_ns > p->p.start_ns ? s->start_ns - p->p.start_ns : 0);
		put_gil(w, s->gil);
		put_open(w, s->open);
		if (what == GT_WAITS)
			put_wait(w, &s->wait);
		else
			put_forced(w, s->forced);
		put_last_u64(w, "ns", s->ns);
		gt_jsonw_lit(w, "}");
	}
	gt_jsonw_lit(w, "],\n");
}

/* ---- marks ---- */

static void put_marks(struct gt_jsonw *w, const struct gt_summary_process *p)
{
	int first = 1;

	put_u64(w, "marks_total", p->marks_total);
	put_key(w, "marks");
	gt_jsonw_lit(w, "[");
	for (size_t i = 0; i < p->nmarks; i++) {
		const struct gt_summary_mark *m = &p->marks[i];

		put_comma(w, &first);
		gt_jsonw_lit(w, "{");
		put_text(w, "name", m->name);
		put_tid(w, "tid", m->tid);
		put_u64(w, "at_ns", m->at_ns);
		put_last_u64(w, "offset_ns",
			     m->at_ns > p->p.start_ns ? m->at_ns - p->p.start_ns : 0);
		gt_jsonw_lit(w, "}");
	}
	gt_jsonw_lit(w, "],\n");
}

/* ---- over time ---- */

static void put_gils(struct gt_jsonw *w, const struct gt_summary_process *p)
{
	int first = 1;

	put_key(w, "gils");
	gt_jsonw_lit(w, "[");
	for (size_t i = 0; i < GT_ARRAY_SIZE(p->gils); i++) {
		const struct gt_summary_gil *g = p->gils[i];

		if (!g)
			continue;
		put_comma(w, &first);
		gt_jsonw_lit(w, "{");
		put_gil(w, g->gil);
		put_u64(w, "held_ns", g->held_ns);
		put_u64(w, "free_ns", g->free_ns);
		put_u64(w, "unknown_ns", g->unknown_ns);
		put_share(w, "utilisation", g->held_ns, p->known_ns);
		put_key(w, "bucket_held_ns");
		gt_jsonw_lit(w, "[");
		for (size_t k = 0; k < GT_SUMMARY_BUCKETS; k++) {
			if (k)
				gt_jsonw_lit(w, ",");
			gt_jsonw_u64(w, g->bucket_held_ns[k]);
		}
		gt_jsonw_lit(w, "]}");
	}
	gt_jsonw_lit(w, "],\n");
}

static void put_buckets(struct gt_jsonw *w, const struct gt_summary_process *p)
{
	int first = 1;

	put_key(w, "buckets");
	gt_jsonw_lit(w, "[");
	for (size_t i = 0; i < GT_SUMMARY_BUCKETS; i++) {
		put_comma(w, &first);
		gt_jsonw_lit(w, "{");
		put_u64(w, "start_ns", p->bound_ns[i]);
		put_u64(w, "end_ns", p->bound_ns[i + 1]);
		put_u64(w, "wait_ns", p->bucket_wait_ns[i]);
		put_bool(w, "lost", p->bucket_lost[i] || p->bucket_unseen[i]);
		put_bool(w, "paused", p->bucket_paused[i]);
		put_last_u64(w, "gap_ns", p->bucket_gap_ns[i]);
		gt_jsonw_lit(w, "}");
	}
	gt_jsonw_lit(w, "],\n");
}

/* ---- the whole ---- */

static void put_about(struct gt_jsonw *w, const struct gt_summary_process *p)
{
	put_u64(w, "order", p->p.order);
	put_text(w, "name", p->p.name);
	put_text(w, "tags", p->p.tags);
	put_text(w, "path", p->p.path);
	put_text(w, "host", p->p.host && *p->p.host ? p->p.host : NULL);
	put_u64(w, "pid", p->p.pid);
	put_key(w, "rank");
	if (p->p.rank < 0)
		gt_jsonw_lit(w, "null,");
	else {
		gt_jsonw_u64(w, (uint64_t)p->p.rank);
		gt_jsonw_lit(w, ",");
	}
	put_u64(w, "start_ns", p->p.start_ns);
	put_u64(w, "end_ns", p->p.end_ns);
	put_u64(w, "span_ns", p->p.end_ns - p->p.start_ns);
	put_u64(w, "known_ns", p->known_ns);
	gt_jsonw_lit(w, "\n");
	put_u64(w, "events", p->end.events);
	put_u64(w, "lost", p->end.lost);
	put_bool(w, "lost_known", !p->end.lost_unknown);
	put_u64(w, "gaps", p->end.gaps);
	put_u64(w, "gap_ns", p->gap_ns);
	put_u64(w, "late_ns", p->end.late_ns);
	put_u64(w, "pauses", p->pauses);
	put_u64(w, "paused_ns", p->paused_ns);
	put_u64(w, "unread_ns", p->unread_ns);
	put_u64(w, "odd", p->end.odd);
	put_bool(w, "killed", p->end.killed);
	put_bool(w, "complete", p->complete);
	put_text(w, "doubt", p->end.doubt);
	put_text(w, "problem", p->end.problem);
	gt_jsonw_lit(w, "\n");
}

static void put_process(struct gt_jsonw *w, const struct gt_summary_process *p)
{
	gt_jsonw_lit(w, "{");
	put_about(w, p);
	put_u64(w, "wait_ns", p->wait_ns);
	put_u64(w, "observed_ns", p->observed_ns);
	put_share(w, "wait_share", p->wait_ns, p->observed_ns);
	put_share(w, "contention", p->wait_ns, gt_summary_silent(p) ? 0 : p->known_ns);
	put_u64(w, "finalizing", p->finalizing);
	put_u64(w, "finalizing_ns", p->finalizing_ns);
	put_gils(w, p);
	put_buckets(w, p);
	put_threads(w, p);
	put_pairs(w, p);
	put_longest(w, "longest_waits", p, GT_WAITS);
	put_longest(w, "longest_holds", p, GT_HOLDS);
	put_marks(w, p);
	put_last_u64(w, "threads_total", p->nthreads);
	gt_jsonw_lit(w, "}");
}

void gt_summary_json(const struct gt_summary *s, struct gt_jsonw *w)
{
	gt_autofree const struct gt_summary_process **list = gt_summary_slowest(s);
	int first = 1;

	gt_jsonw_lit(w, "{\"version\":1,");
	put_key(w, "slowest_first");
	gt_jsonw_lit(w, "[");
	for (size_t i = 0; list && i < s->n; i++) {
		if (i)
			gt_jsonw_lit(w, ",");
		gt_jsonw_u64(w, list[i]->p.order);
	}
	gt_jsonw_lit(w, "],\n");
	put_key(w, "processes");
	gt_jsonw_lit(w, "[");
	for (size_t i = 0; i < s->n; i++) {
		put_comma(w, &first);
		put_process(w, s->list[i]);
	}
	gt_jsonw_lit(w, "]}\n");
}
