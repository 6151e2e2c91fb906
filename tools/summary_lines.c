// SPDX-License-Identifier: Apache-2.0
/* The words of a summary's text, the list of processes, and the few lines for giltrace's end. */
#include <inttypes.h>

#include "summary_lines.h"

#define FULLY     3  /* so many processes get several lines each .. */
#define PROCESSES 20 /* .. more of them one each, up to so many */
#define THREADS   3
#define WORST     2 /* of the slowest of those, the thread that waited longest */

/* ---- words ---- */

void gt_line_process(FILE *out, const struct gt_summary_process *p, int with_ids,
		     unsigned int width, int utf8)
{
	static const char prefix[] = "GIL Trace: "; /* for viewers with lanes of other kinds */
	const char *name = p->p.name && *p->p.name ? p->p.name : "process", *ids = NULL;
	gt_autofree char *head = NULL;
	char tail[GT_LINE_TEXT] = "";
	unsigned int tail_width;

	if (!strncmp(name, prefix, strlen(prefix)))
		name += strlen(prefix);
	for (const char *s = name; (s = strstr(s, " (rank ")); s++)
		ids = s;
	if (!ids)
		ids = strstr(name, ", pid ");
	head = strndup(name, ids ? (size_t)(ids - name) : strlen(name));
	/* Where two have one pid, the name tells it, and the number is none. */
	if (ids && (with_ids || strstr(ids, ", pid ")))
		snprintf(tail, sizeof(tail), "%.300s", ids);
	if (with_ids && !strstr(tail, ", pid "))
		snprintf(tail + strlen(tail), sizeof(tail) - strlen(tail), ", pid %" PRIu64,
			 p->p.pid);
	tail_width = gt_cells_width(tail, utf8);
	if (!head || tail_width > width / 2) {
		gt_cells_put(out, name, width, utf8);
		return;
	}
	gt_cells_put(out, head, width - tail_width, utf8);
	gt_cells_put(out, tail, tail_width, utf8);
}

const char *gt_line_thread(char buf[GT_LINE_TEXT], const struct gt_summary_process *p, uint32_t tid)
{
	const struct gt_summary_thread *t = gt_summary_thread(p, tid);

	if (t && t->label && *t->label)
		snprintf(buf, GT_LINE_TEXT, "%s", t->label);
	else
		snprintf(buf, GT_LINE_TEXT, "thread %" PRIu32, tid);
	return buf;
}

const char *gt_line_blocker(char buf[GT_LINE_TEXT], const struct gt_summary_process *p,
			    uint32_t tid)
{
	const char *text = tid == GT_BLOCKER_NOBODY    ? "(nobody)"
			   : tid == GT_BLOCKER_UNKNOWN ? "(not known)"
			   : tid == GT_BLOCKER_OTHERS  ? "(others)"
						       : NULL;

	if (!text)
		return gt_line_thread(buf, p, tid);
	snprintf(buf, GT_LINE_TEXT, "%s", text);
	return buf;
}

unsigned int gt_line_wait_for(FILE *out, const struct gt_summary_process *p,
			      const struct gt_summary_slice *wait, unsigned int width, int utf8)
{
	uint32_t who = wait->wait.blocker;
	uint64_t ns = wait->wait.blocker_ns;
	char text[GT_LINE_TEXT], share[GT_CELLS_NUMBER];
	unsigned int n;

	if (!wait->ns)
		return 0;
	if (!who || wait->wait.nobody_ns > ns) {
		who = GT_BLOCKER_NOBODY;
		ns = wait->wait.nobody_ns;
	}
	if (wait->wait.unknown_ns > ns) {
		who = GT_BLOCKER_UNKNOWN;
		ns = wait->wait.unknown_ns;
	}
	gt_cells_percent(share, ns, wait->ns);
	n = (unsigned int)fprintf(out, "%s for ", share);
	if (width > n)
		n += gt_cells_put(out, gt_line_blocker(text, p, who), width - n, utf8);
	return n;
}

void gt_line_average(char buf[GT_CELLS_NUMBER], const struct gt_summary_process *p)
{
	uint64_t v = gt_summary_ratio(p->wait_ns, p->known_ns, 100);

	if (gt_summary_silent(p) || !p->known_ns)
		snprintf(buf, GT_CELLS_NUMBER, "-");
	else
		snprintf(buf, GT_CELLS_NUMBER, "%" PRIu64 ".%02" PRIu64, v / 100, v % 100);
}

const char *gt_line_held(char buf[GT_CELLS_NUMBER], const struct gt_summary_process *p)
{
	uint64_t most = 0;

	for (size_t i = 0; i < GT_ARRAY_SIZE(p->gils); i++)
		if (p->gils[i] && p->gils[i]->held_ns > most)
			most = p->gils[i]->held_ns;
	return gt_cells_percent(buf, most, gt_summary_gils(p) ? p->known_ns : 0);
}

const char *gt_line_silent(const struct gt_summary_process *p)
{
	if (p->pauses && p->known_ns <= p->paused_ns / 100)
		return "the recording was paused (almost) all the time";
	return "no take or release was seen: a thread that has the GIL all the time does not show";
}

void gt_line_paused(char buf[GT_LINE_TEXT], const struct gt_summary_process *p)
{
	char ns[GT_CELLS_NUMBER], share[GT_CELLS_NUMBER];

	*buf = '\0';
	if (p->pauses)
		snprintf(buf, GT_LINE_TEXT,
			 "paused for %s (%s), in %" PRIu64 " pause%s, which count%s for nothing",
			 gt_cells_ns(ns, p->paused_ns),
			 gt_cells_percent(share, p->paused_ns, p->p.end_ns - p->p.start_ns),
			 p->pauses, p->pauses == 1 ? "" : "s", p->pauses == 1 ? "s" : "");
}

void gt_line_loss(char buf[GT_LINE_TEXT], const struct gt_summary_process *p)
{
	char ns[GT_CELLS_NUMBER], share[GT_CELLS_NUMBER];
	uint64_t span = p->p.end_ns - p->p.start_ns;
	size_t n = 0;

	*buf = '\0';
	if (p->end.lost || p->gap_ns)
		n = (size_t)snprintf(buf, GT_LINE_TEXT,
				     "LOST: %" PRIu64 " events in %" PRIu64
				     " gap%s; %s (%s) of which nothing is known count for nothing",
				     p->end.lost, p->end.gaps, p->end.gaps == 1 ? "" : "s",
				     gt_cells_ns(ns, p->gap_ns),
				     gt_cells_percent(share, p->gap_ns, span));
	if (p->end.late_ns)
		n += (size_t)snprintf(buf + n, GT_LINE_TEXT - n, "%sits recording began %s late",
				      n ? "; " : "", gt_cells_ns(ns, p->end.late_ns));
	if (p->unread_ns)
		snprintf(buf + n, GT_LINE_TEXT - n, "%sthe last %s could not be read",
			 n ? "; " : "", gt_cells_ns(ns, p->unread_ns));
}

/* ---- all processes ---- */

#define HOST 18 /* columns of its name at most */

static const char *host_of(const struct gt_summary_process *p)
{
	return p->p.host && *p->p.host ? p->p.host : "-";
}

/* Of several hosts each process says on which one it ran. */
static int hosts_differ(const struct gt_summary *s)
{
	for (size_t i = 1; i < s->n; i++)
		if (strcmp(host_of(s->list[i]), host_of(s->list[0])))
			return 1;
	return 0;
}

static void put_row(FILE *out, const struct gt_summary_process *p, int with_host, int utf8)
{
	unsigned int width = GT_LINE_WIDTH - 65;
	const struct gt_summary_thread *m = gt_summary_thread(p, p->p.main_tid);
	char rank[GT_CELLS_NUMBER] = "-", share[GT_CELLS_NUMBER], own[GT_CELLS_NUMBER];
	char average[GT_CELLS_NUMBER], held[GT_CELLS_NUMBER], lost[GT_CELLS_NUMBER] = "not known";

	if (!p->end.lost_unknown || p->end.lost)
		snprintf(lost, sizeof(lost), "%" PRIu64, p->end.lost);
	if (p->p.rank >= 0)
		snprintf(rank, sizeof(rank), "%" PRId64, p->p.rank);
	gt_line_average(average, p);
	fprintf(out, "%6s %8" PRIu64 " %8s %8s %8s %8s %9s  ", rank, p->p.pid,
		gt_cells_percent(share, p->wait_ns, p->observed_ns),
		m ? gt_cells_percent(own, m->hist[GT_WAITS].sum, m->observed_ns) : "-", average,
		gt_line_held(held, p), lost);
	if (with_host) {
		width -= gt_cells_put(out, host_of(p), HOST, utf8) + 2;
		fputs(": ", out);
	}
	gt_line_process(out, p, 0, width, utf8);
	fprintf(out, "%s\n", p->end.doubt ? " !" : "");
}

void gt_line_overview(FILE *out, const struct gt_summary *s,
		      const struct gt_summary_process **slowest, size_t max, int utf8)
{
	const int with_host = hosts_differ(s);
	int doubt = 0;

	fprintf(out,
		"%zu processes, slowest first: by the share of its threads' time that was spent "
		"waiting\n%6s %8s %8s %8s %8s %8s %9s\n%6s %8s %8s %8s %8s %8s %9s  process\n",
		s->n, "", "", "its", "main", "threads", "GIL", "events", "rank", "pid", "threads",
		"thread", "waiting", "held", "lost");
	for (size_t i = 0; i < s->n && i < max; i++) {
		put_row(out, slowest[i], with_host, utf8);
		doubt |= slowest[i]->end.doubt != NULL;
	}
	if (s->n > max)
		fprintf(out, "  ... and %zu more processes\n", s->n - max);
	if (doubt)
		fprintf(out, "  !: do not trust its numbers, as GIL sites are missing\n");
}

/* ---- the lines ---- */

/* Of those that held up a thread, the one that did so longest; NULL: there is none. */
static const struct gt_pair *worst(const struct gt_summary_process *p, uint32_t victim)
{
	for (size_t i = 0; i < p->npairs; i++)
		if (p->pairs[i].victim == victim)
			return &p->pairs[i];
	return NULL;
}

static unsigned int left_of(unsigned int width, int taken)
{
	return taken < (int)width ? width - (unsigned int)taken : 0;
}

/* With a process's name before it, it has no room for the time. */
static void put_thread(FILE *out, const struct gt_summary_process *p,
		       const struct gt_summary_thread *t, const char *before, int utf8)
{
	const struct gt_pair *pair = worst(p, t->tid);
	char text[GT_LINE_TEXT], ns[GT_CELLS_NUMBER], share[GT_CELLS_NUMBER];
	uint64_t wait_ns = t->hist[GT_WAITS].sum;
	int n;

	n = fprintf(out, "  %s", before);
	n += (int)gt_cells_put(out, gt_line_thread(text, p, t->tid), *before ? 26 : 34, utf8);
	n += fprintf(out, ": waited %s of its time",
		     gt_cells_percent(share, wait_ns, t->observed_ns));
	if (!*before)
		n += fprintf(out, " (%s)", gt_cells_ns(ns, wait_ns));
	if (pair) {
		n += fprintf(out, ", %s of it for ", gt_cells_percent(share, pair->ns, wait_ns));
		gt_cells_put(out, gt_line_blocker(text, p, pair->blocker),
			     left_of(GT_LINE_WIDTH, n), utf8);
	}
	fputc('\n', out);
}

/* In one line if the name needs not be cut for that. */
static void put_head(FILE *out, const struct gt_summary_process *p, int utf8)
{
	char held[GT_CELLS_NUMBER], ns[GT_CELLS_NUMBER], average[GT_CELLS_NUMBER];
	char tail[GT_LINE_TEXT];
	gt_autofree char *name = NULL;
	size_t len;
	FILE *f = open_memstream(&name, &len);

	gt_line_average(average, p);
	if (gt_summary_silent(p))
		snprintf(tail, sizeof(tail), "%s", gt_line_silent(p));
	else
		snprintf(tail, sizeof(tail), "GIL held %s of %s, %s threads waiting on average",
			 gt_line_held(held, p), gt_cells_ns(ns, p->known_ns), average);
	if (!f)
		return;
	gt_line_process(f, p, 1, GT_LINE_WIDTH, utf8);
	if (fclose(f))
		return;
	fputs(name, out);
	fputs(gt_cells_width(name, utf8) + strlen(tail) + 2 > GT_LINE_WIDTH ? "\n  " : ": ", out);
	fprintf(out, "%s\n", tail);
}

static int put_fully(FILE *out, const struct gt_summary_process *p, int utf8)
{
	gt_autofree const struct gt_summary_thread **threads = gt_summary_by_wait(p);
	char text[GT_LINE_TEXT], ns[GT_CELLS_NUMBER];
	uint64_t rest = 0;
	size_t waited = 0;

	if (!threads)
		return -ENOMEM;
	put_head(out, p, utf8);
	while (waited < p->nthreads && threads[waited]->hist[GT_WAITS].sum)
		waited++;
	for (size_t i = 0; i < waited && i < THREADS; i++)
		put_thread(out, p, threads[i], "", utf8);
	for (size_t i = THREADS; i < waited; i++)
		rest = gt_sat_add(rest, threads[i]->hist[GT_WAITS].sum);
	if (waited > THREADS)
		fprintf(out, "  ... and %zu more thread%s, together %s\n", waited - THREADS,
			waited == THREADS + 1 ? "" : "s", gt_cells_ns(ns, rest));
	gt_line_paused(text, p);
	if (*text)
		fprintf(out, "  %s\n", text);
	gt_line_loss(text, p);
	if (p->end.doubt)
		fprintf(out, "  DO NOT TRUST THIS: GIL sites are missing%s\n",
			*text ? "; events were lost, too" : "");
	else if (*text)
		gt_cells_wrap(out, text, 2, GT_LINE_WIDTH - 2, utf8);
	return 0;
}

/* "rank 3: ", as it is found in the list; the pid where several have that rank, or none is known.
 */
static void name_in_list(char buf[GT_CELLS_NUMBER], const struct gt_summary *s,
			 const struct gt_summary_process *p)
{
	size_t same = 0;

	for (size_t i = 0; i < s->n; i++)
		same += s->list[i]->p.rank == p->p.rank;
	if (p->p.rank >= 0 && same == 1)
		snprintf(buf, GT_CELLS_NUMBER, "rank %" PRId64 ": ", p->p.rank);
	else
		snprintf(buf, GT_CELLS_NUMBER, "pid %" PRIu64 ": ", p->p.pid);
}

/* Of the slowest, each in one line: who waited longest, and for whom. */
static int put_worst(const struct gt_summary *s, const struct gt_summary_process **slowest,
		     FILE *out, int utf8)
{
	size_t told = 0;

	for (size_t i = 0; i < s->n && i < PROCESSES && told < WORST; i++) {
		gt_autofree const struct gt_summary_thread **threads = NULL;
		char name[GT_CELLS_NUMBER];

		if (!slowest[i]->wait_ns || slowest[i]->end.doubt)
			continue;
		threads = gt_summary_by_wait(slowest[i]);
		if (!threads)
			return -ENOMEM;
		name_in_list(name, s, slowest[i]);
		put_thread(out, slowest[i], threads[0], name, utf8);
		told++;
	}
	return 0;
}

int gt_summary_brief(const struct gt_summary *s, const struct gt_summary_process **slowest,
		     FILE *out, int utf8)
{
	int err = 0;

	for (size_t i = 0; i < s->n && s->n <= FULLY && !err; i++)
		err = put_fully(out, slowest[i], utf8);
	if (s->n > FULLY) {
		gt_line_overview(out, s, slowest, PROCESSES, utf8);
		err = put_worst(s, slowest, out, utf8);
	}
	return err ? err : ferror(out) ? -EIO : 0;
}
