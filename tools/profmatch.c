// SPDX-License-Identifier: Apache-2.0
#include "profmatch.h"

#include <inttypes.h>
#include <stdio.h>

#include "log.h"
#include "meta.h"

/* How far apart the Profiler's axis and Unix time may be, as a rule. */
#define SLACK_NS 5000000000u

const char *gt_match_text(enum gt_match m)
{
	static const char *const text[] = {
		[GT_MATCH_NONE] = "not at all",
		[GT_MATCH_PID] = "by its pid",
		[GT_MATCH_INSIDE] = "by a pid in it",
		[GT_MATCH_RANK] = "by its rank",
		[GT_MATCH_ONLY] = "as the only one",
		[GT_MATCH_CHILD] = "as a child of its process",
	};

	return text[m];
}

void gt_match_who(const gil_reader *r, const char *path, struct gt_match_who *out)
{
	*out = (struct gt_match_who){
		.path = path,
		.ns_pid = gt_meta_pid(r, "process.ns_pid"),
		.pid = gt_meta_pid(r, "process.pid"),
		.host_pid = gt_meta_pid(r, "process.host_pid"),
		.parent = gt_meta_pid(r, "process.parent_pid"),
		.rank = gt_meta_number(r, "rank"),
		.rank_guessed = gt_meta_is(r, "rank.source", "default"),
		.begin_ns = gil_reader_unix_ns(r, gil_reader_first_mono_ns(r)),
		.end_ns = gil_reader_unix_ns(r, gil_reader_last_mono_ns(r)),
		.usable = 1,
	};
	snprintf(out->host, sizeof(out->host), "%.63s", gt_meta_text(r, "host.name"));
	/* A pid is given anew after a while, and is one of its host and its PID namespace. */
	if (out->pid)
		snprintf(out->process, sizeof(out->process),
			 "%.64s %.32s %" PRIu32 " %" PRIu32 " %.32s %" PRId64, out->host,
			 gt_meta_text(r, "process.pidns"), out->pid, out->ns_pid,
			 gt_meta_text(r, "process.start_ticks"), out->rank);
	else
		snprintf(out->process, sizeof(out->process), "%s", path);
}

/* All that the rounds of one call share. */
struct match {
	const struct gt_match_who *who;
	size_t n;
	const struct gt_profilers *p;
	enum gt_match *pairs;
	uint8_t *taken;  /* recordings that have a Profiler */
	uint8_t *chosen; /* recordings that come into question for one Profiler */
	uint8_t *other;  /* for as long as a function needs it */
};

/* How sure it is that the Profiler means this process: 3 by its own pid; 0 not at all. */
static int pid_fits(const struct gt_match_who *w, int64_t pid)
{
	if (pid <= 0)
		return 0;
	if (w->ns_pid ? w->ns_pid == pid : w->pid == pid)
		return 3;
	return w->pid == pid ? 2 : w->host_pid == pid;
}

static int is_child(const struct gt_match_who *w, const struct gt_match_who *parent)
{
	return w->parent && w->parent == parent->pid && !strcmp(w->host, parent->host);
}

/*
 * Children have the rank of their parent, and are not who is meant. Those of a launcher, which has
 * none or another one, are.
 */
static int is_helper(const struct gt_match_who *w, const struct gt_match_who *parent)
{
	return parent->usable && is_child(w, parent) && w->rank == parent->rank &&
	       (w->rank_guessed || !parent->rank_guessed);
}

/* Where a process is, its children are, and theirs. */
static void add_children(struct match *m)
{
	int found;

	do {
		found = 0;
		for (size_t i = 0; i < m->n; i++) {
			for (size_t k = 0; k < m->n && m->who[i].usable && !m->taken[i]; k++) {
				if (!m->taken[k] || !is_child(&m->who[i], &m->who[k]))
					continue;
				for (size_t q = 0; q < m->p->n; q++)
					if (m->pairs[k * m->p->n + q])
						m->pairs[i * m->p->n + q] = GT_MATCH_CHILD;
				m->taken[i] = 1;
				found = 1;
			}
		}
	} while (found);
}

/* The number of different processes among the chosen ones. */
static size_t processes(const struct match *m)
{
	size_t count = 0;

	for (size_t i = 0; i < m->n; i++) {
		size_t k = 0;

		if (!m->chosen[i])
			continue;
		while (k < i && !(m->chosen[k] && !strcmp(m->who[k].process, m->who[i].process)))
			k++;
		count += k == i;
	}
	return count;
}

static void choose_by_pid(struct match *m, int64_t pid)
{
	int best = 1;

	for (size_t i = 0; i < m->n; i++)
		if (m->who[i].usable && pid_fits(&m->who[i], pid) > best)
			best = pid_fits(&m->who[i], pid);
	for (size_t i = 0; i < m->n; i++)
		m->chosen[i] = m->who[i].usable && pid_fits(&m->who[i], pid) >= best;
}

/* Two containers have a process with this pid, say. */
static void narrow_by_rank(struct match *m, const struct gt_profiler *p)
{
	size_t fit = 0;

	for (size_t i = 0; i < m->n; i++)
		fit += m->chosen[i] && m->who[i].rank == p->rank;
	if (p->rank < 0 || !fit)
		return;
	for (size_t i = 0; i < m->n; i++)
		m->chosen[i] &= m->who[i].rank == p->rank;
}

/*
 * In a container a process has the same pid each time that it is started: the trace's time tells
 * which of them it was.
 */
static void narrow_by_time(struct match *m, const struct gt_profiler *p)
{
	uint64_t begin = (uint64_t)p->facts.begin_ns, end = (uint64_t)p->facts.end_ns + SLACK_NS;
	size_t fit = 0;

	begin = begin > SLACK_NS ? begin - SLACK_NS : 0;
	if (p->facts.relative || !p->facts.begin_ns)
		return;
	for (size_t i = 0; i < m->n; i++)
		fit += m->chosen[i] && m->who[i].begin_ns <= end && m->who[i].end_ns >= begin;
	for (size_t i = 0; fit && i < m->n; i++)
		m->chosen[i] &= m->who[i].begin_ns <= end && m->who[i].end_ns >= begin;
}

/* Those that are left; a rank that was only guessed counts where no other is the one. */
static void choose_by_rank(struct match *m, const struct gt_profiler *p)
{
	size_t told = 0;

	for (size_t i = 0; i < m->n; i++) {
		m->chosen[i] = m->who[i].usable && !m->taken[i] && p->rank >= 0 &&
			       m->who[i].rank == p->rank;
		told += m->chosen[i] && !m->who[i].rank_guessed;
	}
	for (size_t i = 0; told && i < m->n; i++)
		m->chosen[i] &= !m->who[i].rank_guessed;
	for (size_t i = 0; i < m->n; i++)
		for (size_t k = 0; m->chosen[i] && k < m->n; k++)
			m->chosen[i] = !(k != i && is_helper(&m->who[i], &m->who[k]));
}

struct id_text {
	char text[96];
};

static struct id_text id_text(const char *what, int64_t id, const char *how)
{
	struct id_text t;

	if (id < 0)
		snprintf(t.text, sizeof(t.text), "%s not known", what);
	else
		snprintf(t.text, sizeof(t.text), "%s %" PRId64 "%s%s%s", what, id, how ? " (" : "",
			 how ? how : "", how ? ")" : "");
	return t;
}

/* The pid that its trace tells, if it has but one. */
static int64_t trace_pid(const struct gt_profiler *p, const char **how)
{
	if (p->pid > 0 || p->facts.nprocesses != 1 || !p->facts.processes[0].cpu) {
		*how = p->pid_how;
		return p->pid;
	}
	*how = "its events";
	return (int64_t)p->facts.processes[0].pid;
}

/* As its Profiler would have it. */
static int64_t shown_pid(const struct gt_match_who *w)
{
	if (w->ns_pid)
		return w->ns_pid;
	return w->pid ? (int64_t)w->pid : -1;
}

/* What speaks against a pair. */
static void say_contradiction(const struct gt_match_who *w, const struct gt_profiler *p,
			      enum gt_match how)
{
	const char *pid_how = p->pid_how;
	int64_t pid = how == GT_MATCH_INSIDE ? p->pid : trace_pid(p, &pid_how);

	if (how != GT_MATCH_PID && pid > 0 && shown_pid(w) > 0)
		gt_warn("%s: is taken for %s %s, though its pid is %" PRId64 " and not %" PRId64
			" (%s)",
			w->path, gt_profiler_path(p), gt_match_text(how), shown_pid(w), pid,
			pid_how);
	if (how != GT_MATCH_RANK && p->rank >= 0 && w->rank >= 0 && p->rank != w->rank &&
	    !w->rank_guessed)
		gt_warn("%s: is taken for %s %s, though its rank is %" PRId64 " and not %" PRId64
			" (%s)",
			w->path, gt_profiler_path(p), gt_match_text(how), w->rank, p->rank,
			p->rank_how);
}

/* 1: the chosen ones are those of the Profiler. */
static int settle(struct match *m, size_t k, enum gt_match how)
{
	const struct gt_profiler *p = &m->p->list[k];
	size_t count = processes(m);

	if (count > 1) {
		for (size_t i = 0; i < m->n; i++)
			if (m->chosen[i])
				gt_error("%s: may belong to %s %s, but so may others; give it with "
					 "this one alone",
					 m->who[i].path, gt_profiler_path(p), gt_match_text(how));
		return 0;
	}
	for (size_t i = 0; i < m->n; i++) {
		if (!m->chosen[i])
			continue;
		m->pairs[i * m->p->n + k] = how;
		say_contradiction(&m->who[i], p, how);
	}
	return count == 1;
}

/* Is it the pid of a recording? */
static int is_recorded(const struct match *m, uint64_t pid)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->who[i].usable && pid_fits(&m->who[i], (int64_t)pid))
			return 1;
	return 0;
}

/*
 * Its trace has events with the pid of a recording. Several such processes are all meant if they
 * have what only a process does; else the numbers may be anything, and the busiest is taken.
 */
static int settle_inside(struct match *m, size_t k)
{
	const struct gt_profiler *p = &m->p->list[k];
	const struct gt_proftrace_process *busiest = NULL;
	int real = 0, done = 0;

	for (size_t i = 0; i < p->facts.nprocesses; i++) {
		const struct gt_proftrace_process *proc = &p->facts.processes[i];

		if (!is_recorded(m, proc->pid))
			continue;
		real |= proc->cpu > 0;
		if (!busiest || proc->slices > busiest->slices)
			busiest = proc;
	}
	for (size_t i = 0; busiest && i < p->facts.nprocesses; i++) {
		const struct gt_proftrace_process *proc = &p->facts.processes[i];

		if (real ? !proc->cpu : proc != busiest)
			continue;
		choose_by_pid(m, (int64_t)proc->pid);
		if (processes(m) > 1)
			narrow_by_rank(m, p);
		if (processes(m) > 1)
			narrow_by_time(m, p);
		done |= settle(m, k, GT_MATCH_INSIDE) || processes(m) > 1;
	}
	return done;
}

/*
 * The chosen one is the only one, or the others were started by it. Where they have ranks of their
 * own, it is but their launcher; and what the trace tells has fitted none of them.
 */
static int is_only(struct match *m, const struct gt_profiler *p)
{
	const struct gt_match_who *root = NULL;
	const char *how;
	size_t all;

	for (size_t i = 0; i < m->n; i++)
		m->chosen[i] = m->who[i].usable;
	all = processes(m);
	for (size_t i = 0; i < m->n; i++)
		for (size_t k = 0; m->chosen[i] && k < m->n; k++)
			m->chosen[i] =
				!(k != i && m->who[k].usable && is_child(&m->who[i], &m->who[k]));
	if (m->p->n != 1 || processes(m) != 1)
		return 0;
	if (all == 1)
		return 1;
	for (size_t i = 0; i < m->n; i++)
		if (m->chosen[i])
			root = &m->who[i];
	if (!root)
		return 0;
	for (size_t i = 0; i < m->n; i++)
		if (m->who[i].usable && !m->who[i].rank_guessed && m->who[i].rank >= 0 &&
		    (m->who[i].rank != root->rank || root->rank_guessed))
			return 0;
	return trace_pid(p, &how) <= 0 && (p->rank < 0 || root->rank < 0 || p->rank == root->rank);
}

/* One way for all Profilers that have nothing yet. */
static void round_of(struct match *m, enum gt_match how, uint8_t *done)
{
	for (size_t k = 0; k < m->p->n; k++) {
		const struct gt_profiler *p = &m->p->list[k];

		if (done[k])
			continue;
		if (how == GT_MATCH_PID) {
			choose_by_pid(m, p->pid);
			if (processes(m) > 1)
				narrow_by_rank(m, p);
		} else if (how == GT_MATCH_INSIDE) {
			done[k] = (uint8_t)settle_inside(m, k);
			continue;
		} else if (how == GT_MATCH_RANK) {
			choose_by_rank(m, p);
		} else if (!is_only(m, p)) {
			continue;
		}
		if (processes(m) > 1)
			narrow_by_time(m, p);
		/* What cannot be decided now, is not guessed later. */
		done[k] = settle(m, k, how) || processes(m) > 1;
	}
	for (size_t i = 0; i < m->n; i++)
		for (size_t k = 0; k < m->p->n; k++)
			m->taken[i] |= m->pairs[i * m->p->n + k] != GT_MATCH_NONE;
}

/* Of a recording that has a Profiler, the processes above it that have none. */
static void find_launchers(struct match *m, size_t *started)
{
	int found;

	memcpy(m->other, m->taken, m->n); /* and the launchers */
	do {
		found = 0;
		for (size_t i = 0; i < m->n; i++) {
			for (size_t k = 0; m->other[i] && k < m->n; k++) {
				if (!m->who[k].usable || m->other[k] ||
				    !is_child(&m->who[i], &m->who[k]))
					continue;
				m->other[k] = 1;
				started[k] = i;
				found = 1;
			}
		}
	} while (found);
}

static size_t say_left_out(struct match *m, size_t *started)
{
	size_t left_out = 0;

	find_launchers(m, started);
	for (size_t i = 0; i < m->n; i++) {
		if (!m->who[i].usable || m->taken[i])
			continue;
		if (m->other[i]) {
			gt_info("%s: is the launcher of %s; no Profiler's trace belongs to it, so "
				"it is left out",
				m->who[i].path, m->who[started[i]].path);
			continue;
		}
		left_out++;
		gt_error("%s: belongs to no Profiler's trace that was given: %s, %s",
			 m->who[i].path, id_text("pid", shown_pid(&m->who[i]), NULL).text,
			 id_text("rank", m->who[i].rank, m->who[i].rank_guessed ? "a guess" : NULL)
				 .text);
	}
	for (size_t k = 0; k < m->p->n; k++) {
		const struct gt_profiler *p = &m->p->list[k];
		const char *how;
		int64_t pid = trace_pid(p, &how);
		size_t i = 0;

		while (i < m->n && !m->pairs[i * m->p->n + k])
			i++;
		if (i < m->n)
			continue;
		left_out++;
		gt_error("%s: no recording belongs to it: %s, %s", gt_profiler_path(p),
			 id_text("pid", pid, how).text, id_text("rank", p->rank, p->rank_how).text);
	}
	return left_out;
}

size_t gt_match(const struct gt_match_who *who, size_t n, const struct gt_profilers *p,
		enum gt_match *pairs)
{
	gt_autofree uint8_t *flags = calloc(3 * n + p->n + 1, 1);
	gt_autofree size_t *started = calloc(n + 1, sizeof(*started));
	struct match m = {.who = who, .n = n, .p = p, .pairs = pairs};

	memset(pairs, 0, n * p->n * sizeof(*pairs));
	if (!flags || !started) {
		gt_error("out of memory");
		return n + p->n;
	}
	m.taken = flags;
	m.chosen = flags + n;
	m.other = flags + 2 * n;
	for (enum gt_match how = GT_MATCH_PID; how <= GT_MATCH_ONLY; how++)
		round_of(&m, how, flags + 3 * n);
	add_children(&m);
	return say_left_out(&m, started);
}
