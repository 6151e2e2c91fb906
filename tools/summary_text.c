// SPDX-License-Identifier: Apache-2.0
/*
 * A summary as text for people: the processes line by line, then each of them. No line is wider
 * than WIDTH columns, names are cut for that; what there is no room for is summed up. The few lines
 * at the end of a recording are summary_lines.c's.
 */
#include <inttypes.h>
#include <time.h>

#include "summary_lines.h"

#define PROCESSES 64 /* at most so many lines of them .. */
#define DETAILED  16 /* .. so many in detail .. */
#define THREADS   20 /* .. lines of threads .. */
#define PAIRS     15
#define BLOCKERS  10
#define LABEL     26 /* columns of a thread's name at most */

/* One process on its way out. */
struct page {
	FILE *out;
	const struct gt_summary_process *p;
	const struct gt_summary_thread **threads; /* by their waits */
	size_t shown;                             /* so many of them */
	unsigned int label;                       /* columns of a name */
	int utf8;
};

/* ---- the head of one ---- */

static void put_where(const struct page *g)
{
	const struct gt_sink_process *p = &g->p->p;
	time_t s = (time_t)(p->start_ns / 1000000000);
	gt_autofree char *text = NULL;
	char when[64] = "";
	struct tm tm;

	/* Other axes than that of Unix time have small numbers. */
	if (p->start_ns / 1000000000 > 100000000 && gmtime_r(&s, &tm)) {
		size_t n = strftime(when, sizeof(when), "; began %Y-%m-%d %H:%M:%S", &tm);

		snprintf(when + n, sizeof(when) - n, ".%06" PRIu64 " UTC",
			 p->start_ns / 1000 % 1000000);
	}
	gt_line_process(g->out, g->p, 1, GT_LINE_WIDTH, g->utf8);
	fputc('\n', g->out);
	if (asprintf(&text, "%s%s%s%s", p->path ? p->path : "", p->tags && *p->tags ? "; " : "",
		     p->tags ? p->tags : "", when) < 0)
		text = NULL;
	if (text)
		gt_cells_wrap(g->out, text, 2, GT_LINE_WIDTH - 2, g->utf8);
}

static void put_gil(const struct page *g, const struct gt_summary_gil *gil, int alone)
{
	const uint64_t known = g->p->known_ns;
	char held[GT_CELLS_NUMBER], is_free[GT_CELLS_NUMBER], unknown[GT_CELLS_NUMBER];

	if (alone)
		fprintf(g->out, "  GIL held ");
	else if (gil->gil == GIL_INDEX_OTHER)
		fprintf(g->out, "  GILs beyond those told apart, together: held ");
	else
		fprintf(g->out, "  GIL %u held ", gil->gil);
	fprintf(g->out, "%s of the time, free %s", gt_cells_percent(held, gil->held_ns, known),
		gt_cells_percent(is_free, gil->free_ns, known));
	if (gil->unknown_ns)
		fprintf(g->out, ", not known %s",
			gt_cells_percent(unknown, gil->unknown_ns, known));
	fprintf(g->out, "\n");
}

/* What was left out of the numbers, and what they cannot be trusted for. */
static void put_remarks(const struct page *g)
{
	const struct gt_summary_process *p = g->p;
	char ns[GT_CELLS_NUMBER], text[2 * GT_LINE_TEXT];
	uint64_t missed[GT_WHATS] = {0};

	gt_line_paused(text, p);
	if (*text)
		fprintf(g->out, "  %s\n", text);
	gt_line_loss(text, p);
	if (*text)
		gt_cells_wrap(g->out, text, 2, GT_LINE_WIDTH - 2, g->utf8);
	for (size_t i = 0; i < p->nthreads; i++)
		for (size_t k = 0; k < GT_WHATS; k++)
			missed[k] += p->threads[i]->missed[k];
	if (missed[GT_WAITS] || missed[GT_HOLDS])
		fprintf(g->out,
			"  without length, as an end of theirs was missed: waits %" PRIu64
			", holds %" PRIu64 "\n",
			missed[GT_WAITS], missed[GT_HOLDS]);
	if (p->finalizing)
		fprintf(g->out,
			"  not counted as waiting: threads that hung while the interpreter was "
			"ending: %" PRIu64 " (%s)\n",
			p->finalizing, gt_cells_ns(ns, p->finalizing_ns));
	if (p->end.odd)
		fprintf(g->out, "  sequences of events that should not be: %" PRIu64 "\n",
			p->end.odd);
	if (p->end.killed)
		fprintf(g->out, "  the recorder was killed: what it had not written is missing\n");
	if (!p->complete || p->end.problem) {
		snprintf(text, sizeof(text), "left out: %s",
			 p->end.problem ? p->end.problem : "the rest, as converting it failed");
		gt_cells_wrap(g->out, text, 2, GT_LINE_WIDTH - 2, g->utf8);
	}
	if (p->end.doubt) {
		snprintf(text, sizeof(text), "DO NOT TRUST THIS: GIL sites are missing: %s",
			 p->end.doubt);
		gt_cells_wrap(g->out, text, 2, GT_LINE_WIDTH - 2, g->utf8);
	}
}

static void put_head(const struct page *g)
{
	const struct gt_summary_process *p = g->p;
	char ns[GT_CELLS_NUMBER], waiters[GT_CELLS_NUMBER];
	size_t ngils = gt_summary_gils(p);

	put_where(g);
	fprintf(g->out, "  %s recorded: %" PRIu64 " events, %zu thread%s, ",
		gt_cells_ns(ns, p->p.end_ns - p->p.start_ns - p->paused_ns), p->end.events,
		p->nthreads, p->nthreads == 1 ? "" : "s");
	if (p->end.lost_unknown && !p->end.lost)
		fprintf(g->out, "losses not counted\n");
	else
		fprintf(g->out, "%" PRIu64 " lost\n", p->end.lost);
	for (size_t i = 0; i < GT_ARRAY_SIZE(p->gils); i++)
		if (p->gils[i])
			put_gil(g, p->gils[i], ngils == 1);
	gt_line_average(waiters, p);
	if (gt_summary_silent(p))
		fprintf(g->out, "  %s\n", gt_line_silent(p));
	else
		fprintf(g->out, "%s  %s threads waiting on average\n",
			ngils ? "" : "  GIL held: not known, as no hold was seen\n", waiters);
	put_remarks(g);
}

/* ---- over time ---- */

/* A value from 0 to `max` as one column; what is not 0 shows. */
static void put_cell(const struct page *g, uint64_t v, uint64_t max)
{
	static const char *const blocks[] = {" ",
					     "\xe2\x96\x81",
					     "\xe2\x96\x82",
					     "\xe2\x96\x83",
					     "\xe2\x96\x84",
					     "\xe2\x96\x85",
					     "\xe2\x96\x86",
					     "\xe2\x96\x87",
					     "\xe2\x96\x88"};
	const uint64_t top = g->utf8 ? 8 : 9;
	/* Rounded up. */
	unsigned __int128 q = max ? ((unsigned __int128)v * top + max - 1) / max : 0;
	unsigned int level = q > top ? (unsigned int)top : (unsigned int)q;

	if (g->utf8)
		fputs(blocks[level], g->out);
	else
		fputc(level ? (int)('0' + level) : '.', g->out);
}

/* Of a bucket, the part in which it is known what happened. */
static uint64_t known_of(const struct gt_summary_process *p, size_t i)
{
	return p->bound_ns[i + 1] - p->bound_ns[i] - p->bucket_gap_ns[i];
}

/* scale: of which share, in thousandths, a full column stands. */
static void put_bar(const struct page *g, const char *title, const uint64_t values[],
		    uint64_t scale)
{
	fprintf(g->out, "  %-9s|", title);
	for (size_t i = 0; i < GT_SUMMARY_BUCKETS; i++) {
		uint64_t known = known_of(g->p, i);

		if (known)
			put_cell(g, gt_summary_ratio(values[i], known, 1000000), scale * 1000);
		else
			fputc(g->p->bound_ns[i + 1] > g->p->bound_ns[i] ? '?' : ' ', g->out);
	}
	fprintf(g->out, "|\n");
}

/* The most threads that waited in a bucket, on average, in thousandths; 1 thread at least. */
static uint64_t peak(const struct gt_summary_process *p)
{
	uint64_t most = 1000;

	for (size_t i = 0; i < GT_SUMMARY_BUCKETS; i++) {
		uint64_t v = gt_summary_ratio(p->bucket_wait_ns[i], known_of(p, i), 1000);

		if (v > most)
			most = v;
	}
	return most;
}

/* The columns of which something is missing; returns whether there are any. */
static int put_marks(const struct page *g, const char *title, const uint8_t marks[])
{
	if (!memchr(marks, 1, GT_SUMMARY_BUCKETS))
		return 0;
	fprintf(g->out, "  %-9s|", title);
	for (size_t i = 0; i < GT_SUMMARY_BUCKETS; i++)
		fputc(marks[i] ? '!' : ' ', g->out);
	fprintf(g->out, "|\n");
	return 1;
}

static void put_bars(const struct page *g)
{
	const struct gt_summary_process *p = g->p;
	const uint64_t most = peak(p);
	char title[GT_CELLS_NUMBER], ns[GT_CELLS_NUMBER];
	size_t ngils = gt_summary_gils(p), shown = 0;
	int missing;

	if (p->p.end_ns == p->p.start_ns)
		return;
	fprintf(g->out, "\n");
	for (size_t i = 0; i < GT_ARRAY_SIZE(p->gils) && shown < 4; i++) {
		if (!p->gils[i])
			continue;
		snprintf(title, sizeof(title),
			 ngils == 1             ? "held"
			 : i == GIL_INDEX_OTHER ? "held rest"
						: "held %zu",
			 i);
		put_bar(g, title, p->gils[i]->bucket_held_ns, 1000);
		shown++;
	}
	if (shown < ngils)
		fprintf(g->out, "  ... and of %zu more GILs: --summary=json\n", ngils - shown);
	put_bar(g, "waiting", p->bucket_wait_ns, most);
	missing = put_marks(g, "lost", p->bucket_lost);
	missing |= put_marks(g, "no record", p->bucket_unseen);
	missing |= put_marks(g, "paused", p->bucket_paused);
	gt_cells_ns(ns, (p->p.end_ns - p->p.start_ns) / GT_SUMMARY_BUCKETS);
	fprintf(g->out,
		"  a column is %s; %s: held all the time, %" PRIu64 ".%02" PRIu64
		" threads waiting; %s: never\n",
		ns, g->utf8 ? "\xe2\x96\x88" : "9", most / 1000, most % 1000 / 10,
		g->utf8 ? "blank" : ".");
	if (missing)
		fprintf(g->out, "  !: events of that column were lost, or there is no record of a "
				"part of it; ?: of all\n");
}

/* ---- threads ---- */

static void put_label(const struct page *g, const struct gt_summary_thread *t)
{
	char text[GT_LINE_TEXT];

	fprintf(g->out, "  ");
	gt_cells_pad(g->out, gt_line_thread(text, g->p, t->tid), g->label, g->utf8);
}

static void put_time(const struct page *g, uint64_t ns, uint64_t of)
{
	char a[GT_CELLS_NUMBER], b[GT_CELLS_NUMBER];

	fprintf(g->out, " %8s %6s", gt_cells_ns(a, ns), gt_cells_percent(b, ns, of));
}

static void put_times(const struct page *g)
{
	uint64_t wait = 0, hold = 0;
	char a[GT_CELLS_NUMBER], b[GT_CELLS_NUMBER];

	fprintf(g->out, "\n  %-*s %15s %15s %15s %7s %8s\n", (int)g->label, "thread", "waiting",
		"holding", "idle", "drop", "seen");
	for (size_t i = 0; i < g->shown; i++) {
		const struct gt_summary_thread *t = g->threads[i];

		put_label(g, t);
		put_time(g, t->hist[GT_WAITS].sum, t->observed_ns);
		put_time(g, t->hist[GT_HOLDS].sum, t->observed_ns);
		put_time(g, gt_summary_idle_ns(t), t->observed_ns);
		fprintf(g->out, " %7s %8s\n", gt_cells_percent(a, t->drop_ns, t->observed_ns),
			gt_cells_ns(b, t->observed_ns));
		if (t->unknown_ns)
			fprintf(g->out, "  %*s    and %s (%s) in which what it did is not known\n",
				(int)g->label, "", gt_cells_ns(a, t->unknown_ns),
				gt_cells_percent(b, t->unknown_ns, t->observed_ns));
	}
	for (size_t i = g->shown; i < g->p->nthreads; i++) {
		wait = gt_sat_add(wait, g->threads[i]->hist[GT_WAITS].sum);
		hold = gt_sat_add(hold, g->threads[i]->hist[GT_HOLDS].sum);
	}
	if (g->shown < g->p->nthreads)
		fprintf(g->out, "  ... and %zu more threads, together: waiting %s, holding %s\n",
			g->p->nthreads - g->shown, gt_cells_ns(a, wait), gt_cells_ns(b, hold));
	fprintf(g->out, "  idle: does not need the GIL; drop: has given it up, and waits until "
			"another has it\n");
}

static void put_counts(const struct page *g)
{
	uint64_t takes = 0, contended = 0;

	fprintf(g->out, "\n  %-*s %9s %10s %18s %10s %10s\n", (int)g->label, "thread", "takes",
		"contended", "released: forced", "voluntary", "not told");
	for (size_t i = 0; i < g->shown; i++) {
		const struct gt_summary_thread *t = g->threads[i];

		put_label(g, t);
		fprintf(g->out,
			" %9" PRIu64 " %10" PRIu64 " %18" PRIu64 " %10" PRIu64 " %10" PRIu64 "\n",
			t->takes, t->contended, t->releases[GT_FORCED_YES],
			t->releases[GT_FORCED_NO], t->releases[GT_FORCED_UNKNOWN]);
	}
	for (size_t i = g->shown; i < g->p->nthreads; i++) {
		takes += g->threads[i]->takes;
		contended += g->threads[i]->contended;
	}
	if (g->shown < g->p->nthreads)
		fprintf(g->out,
			"  ... and %zu more threads, together: %" PRIu64 " takes, %" PRIu64
			" contended\n",
			g->p->nthreads - g->shown, takes, contended);
}

static void put_percentiles(const struct page *g, const struct gt_hist *h)
{
	static const unsigned int at[] = {500, 900, 990, 1000};
	char ns[GT_CELLS_NUMBER];

	for (size_t i = 0; i < GT_ARRAY_SIZE(at); i++)
		fprintf(g->out, " %8s", h->n ? gt_cells_ns(ns, gt_hist_at(h, at[i])) : "-");
}

static void put_lengths(const struct page *g)
{
	fprintf(g->out, "\n  %-*s %21s %14s %21s\n", (int)g->label, "", "one wait", "", "one hold");
	fprintf(g->out, "  %-*s", (int)g->label, "thread");
	for (int i = 0; i < GT_WHATS; i++)
		fprintf(g->out, " %8s %8s %8s %8s", "median", "90%", "99%", "longest");
	fprintf(g->out, "\n");
	for (size_t i = 0; i < g->shown; i++) {
		put_label(g, g->threads[i]);
		put_percentiles(g, &g->threads[i]->hist[GT_WAITS]);
		put_percentiles(g, &g->threads[i]->hist[GT_HOLDS]);
		fprintf(g->out, "\n");
	}
	if (g->shown < g->p->nthreads)
		fprintf(g->out, "  ... and %zu more threads\n", g->p->nthreads - g->shown);
}

/* Where there are too many pairs to show, those of many victims would not be seen. */
static int put_blockers(const struct page *g)
{
	char text[GT_LINE_TEXT], ns[GT_CELLS_NUMBER], share[GT_CELLS_NUMBER];
	gt_autofree struct gt_summary_blocker *list = NULL;
	size_t n;

	if (g->p->npairs <= PAIRS)
		return 0;
	list = gt_summary_blockers(g->p, &n);
	if (!list)
		return -ENOMEM;
	fprintf(g->out, "\n  %-*s %8s %12s %9s\n", (int)g->label, "for whom: all", "time",
		"of all waits", "threads");
	for (size_t i = 0; i < n && i < BLOCKERS; i++) {
		fprintf(g->out, "  ");
		gt_cells_pad(g->out, gt_line_blocker(text, g->p, list[i].tid), g->label, g->utf8);
		fprintf(g->out, " %8s %12s %9" PRIu32 "\n", gt_cells_ns(ns, list[i].ns),
			gt_cells_percent(share, list[i].ns, g->p->wait_ns), list[i].victims);
	}
	if (n > BLOCKERS)
		fprintf(g->out, "  ... and %zu more\n", n - BLOCKERS);
	return 0;
}

static void put_pairs(const struct page *g)
{
	char victim[GT_LINE_TEXT], blocker[GT_LINE_TEXT], ns[GT_CELLS_NUMBER];
	char share[GT_CELLS_NUMBER];
	uint64_t rest = 0;
	size_t i;

	if (!g->p->npairs)
		return;
	fprintf(g->out, "\n  %-*s    %-*s %8s %11s %9s\n", (int)g->label, "who waited",
		(int)g->label, "for whom", "time", "of its wait", "waits");
	for (i = 0; i < g->p->npairs && i < PAIRS; i++) {
		const struct gt_pair *pair = &g->p->pairs[i];
		const struct gt_summary_thread *t = gt_summary_thread(g->p, pair->victim);

		fprintf(g->out, "  ");
		gt_cells_pad(g->out, gt_line_thread(victim, g->p, pair->victim), g->label, g->utf8);
		fprintf(g->out, " %s ", g->utf8 ? "\xe2\x86\x90" : "<");
		gt_cells_pad(g->out, gt_line_blocker(blocker, g->p, pair->blocker), g->label,
			     g->utf8);
		fprintf(g->out, " %8s %11s %9" PRIu64 "\n", gt_cells_ns(ns, pair->ns),
			gt_cells_percent(share, pair->ns, t ? t->hist[GT_WAITS].sum : 0),
			pair->waits);
	}
	for (size_t k = i; k < g->p->npairs; k++)
		rest = gt_sat_add(rest, g->p->pairs[k].ns);
	if (i < g->p->npairs)
		fprintf(g->out, "  ... and %zu more pairs, together %s\n", g->p->npairs - i,
			gt_cells_ns(ns, rest));
}

/* ---- the longest ---- */

/* What is not known of its ends, in words; `taken` of `width` columns have others before them. */
static void put_open(const struct page *g, const struct gt_summary_slice *s, unsigned int taken,
		     unsigned int width)
{
	static const struct {
		uint8_t bit;
		const char *text;
	} ends[] = {
		{GT_OPEN_START, "began before the recording"},
		{GT_OPEN_LOST, "cut where events were lost"},
		{GT_OPEN_PAUSED, "cut by a pause"},
		{GT_OPEN_END, "lasted to the end"},
		{GT_OPEN_EXIT, "the thread ended in it"},
	};

	char text[128] = "";
	size_t n = 0;

	for (size_t i = 0; i < GT_ARRAY_SIZE(ends); i++)
		if (s->open & ends[i].bit)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n ? ", " : "",
					      ends[i].text);
	if (!n)
		return;
	if (taken + 2 + n <= width)
		fprintf(g->out, "%s%s", taken ? ", " : "", text);
	else
		fprintf(g->out, "\n  %*s    %s", (int)g->label, "", text);
}

static void put_longest(const struct page *g, enum gt_summary_what what)
{
	static const char *const forced[] = {"", "given up by itself", "forced to give it up"};
	const struct gt_summary_longest *l = &g->p->longest[what];
	const unsigned int width = GT_LINE_WIDTH - 31 - g->label; /* of what is said of it */
	char text[GT_LINE_TEXT], a[GT_CELLS_NUMBER];

	if (!l->n)
		return;
	fprintf(g->out, "\n  %-*s %8s %15s\n", (int)g->label,
		what == GT_WAITS ? "longest waits" : "longest holds", "time", "from");
	for (size_t i = 0; i < l->n; i++) {
		const struct gt_summary_slice *s = &l->list[i];
		uint64_t at = s->start_ns > g->p->p.start_ns ? s->start_ns - g->p->p.start_ns : 0;
		unsigned int taken = 0;

		fprintf(g->out, "  ");
		gt_cells_pad(g->out, gt_line_thread(text, g->p, s->tid), g->label, g->utf8);
		fprintf(g->out, " %8s %6" PRIu64 ".%06" PRIu64 " s  ", gt_cells_ns(a, s->ns),
			at / 1000000000, at / 1000 % 1000000);
		if (what == GT_WAITS)
			taken = gt_line_wait_for(g->out, g->p, s, width, g->utf8);
		else if (s->forced < GT_FORCED_KINDS)
			taken = (unsigned int)fprintf(g->out, "%s", forced[s->forced]);
		put_open(g, s, taken, width);
		fprintf(g->out, "\n");
	}
}

/* ---- marks ---- */

static void put_instants(const struct page *g)
{
	const struct gt_summary_process *p = g->p;
	char text[GT_LINE_TEXT];

	if (!p->marks_total)
		return;
	fprintf(g->out, "\n  %-*s %15s  mark\n", (int)g->label, "set by", "at");
	for (size_t i = 0; i < p->nmarks; i++) {
		const struct gt_summary_mark *m = &p->marks[i];
		uint64_t at = m->at_ns > p->p.start_ns ? m->at_ns - p->p.start_ns : 0;
		const char *by = m->tid ? gt_line_thread(text, p, m->tid) : "(the process)";

		fprintf(g->out, "  ");
		gt_cells_pad(g->out, by, g->label, g->utf8);
		fprintf(g->out, " %6" PRIu64 ".%06" PRIu64 " s  ", at / 1000000000,
			at / 1000 % 1000000);
		gt_cells_put(g->out, m->name, GT_LINE_WIDTH - 20 - g->label, g->utf8);
		fprintf(g->out, "\n");
	}
	if (p->marks_total > p->nmarks)
		fprintf(g->out, "  ... and %" PRIu64 " more marks\n", p->marks_total - p->nmarks);
}

/* ---- the whole ---- */

static int put_process(FILE *out, const struct gt_summary_process *p, int utf8)
{
	gt_autofree const struct gt_summary_thread **threads = gt_summary_by_wait(p);
	struct page g = {.out = out, .p = p, .threads = threads, .utf8 = utf8};
	char text[GT_LINE_TEXT];
	int err;

	if (!threads)
		return -ENOMEM;
	g.shown = p->nthreads < THREADS + 2 ? p->nthreads : THREADS;
	g.label = (unsigned int)strlen("longest waits");
	for (size_t i = 0; i < g.shown; i++) {
		unsigned int w = gt_cells_width(gt_line_thread(text, p, threads[i]->tid), utf8);

		if (w > g.label)
			g.label = w < LABEL ? w : LABEL;
	}
	put_head(&g);
	if (gt_summary_silent(p)) {
		put_instants(&g);
		fputc('\n', out);
		return 0;
	}
	put_bars(&g);
	put_times(&g);
	put_counts(&g);
	put_lengths(&g);
	put_pairs(&g);
	err = put_blockers(&g);
	put_longest(&g, GT_WAITS);
	put_longest(&g, GT_HOLDS);
	put_instants(&g);
	fprintf(out, "\n");
	return err;
}

int gt_summary_text(const struct gt_summary *s, FILE *out, int brief)
{
	gt_autofree const struct gt_summary_process **list = gt_summary_slowest(s);
	const int utf8 = gt_cells_utf8();
	int err = 0;

	if (!list)
		return -ENOMEM;
	if (brief)
		return gt_summary_brief(s, list, out, utf8);
	if (!s->n)
		fprintf(out, "there is no process to tell of\n");
	if (s->n > 1) {
		gt_line_overview(out, s, list, PROCESSES, utf8);
		fputc('\n', out);
	}
	for (size_t i = 0; i < s->n && i < DETAILED && !err; i++)
		err = put_process(out, list[i], utf8);
	if (s->n > DETAILED && !err)
		fprintf(out, "... and %zu more processes in detail: --summary=json\n",
			s->n - DETAILED);
	return err ? err : ferror(out) ? -EIO : 0;
}
