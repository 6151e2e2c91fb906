// SPDX-License-Identifier: Apache-2.0
#include "collect.h"

#include <inttypes.h>
#include <stdio.h>

#include "before.h"
#include "clock.h"

_Static_assert(GT_WAIT == (int)GIL_WAIT && GT_ACQUIRE == (int)GIL_ACQUIRE &&
		       GT_RELEASE == (int)GIL_RELEASE && GT_YIELD == (int)GIL_YIELD &&
		       GT_TAKE == (int)GIL_TAKE && GT_DROPPED == (int)GIL_DROPPED &&
		       GT_THREAD == (int)GIL_THREAD && GT_GIL == (int)GIL_GIL &&
		       GT_LOST == (int)GIL_LOST && GT_EXIT == (int)GIL_EXIT &&
		       GT_LEFT == (int)GIL_LEFT && GT_GIL_OTHER == GIL_INDEX_OTHER &&
		       GT_COMM_LEN == GIL_COMM_LEN,
	       "the ring and the file use the same numbers");
_Static_assert(GT_MAX_GILS <= GT_SELFCHECK_GILS, "all GILs are checked");

#define SEAL_AFTER_NS 1000000000ull
/*
 * A thread that waits for a GIL comes round every switch interval (5 ms, if nobody has changed it),
 * which tells where that GIL is. So after this time all GILs with waiters are known.
 */
#define GILS_KNOWN_AFTER_NS 1000000000ull

/*
 * A thread takes the GIL before threading knows it by its id (CPython up to 3.15: it enters itself
 * into threading._active), so it may have no name at first. Others never have one.
 */
#define ASKS 5

struct thread {
	uint32_t tid;
	uint32_t ns_tid;
	uint32_t host_tid;
	uint8_t ended;    /* the id may belong to another thread by now */
	uint8_t asked_py; /* for its name in the interpreter: how often in vain; enough: ASKS */
	char comm[GIL_COMM_LEN];
	char *name; /* in the interpreter; NULL: not known */
};

struct gt_collector {
	struct gt_gilfile *file;
	const struct gt_proc *proc;
	struct gt_selfcheck *check;
	uint64_t lost_told; /* of the GT_LOST records so far */
	uint32_t malformed;
	uint32_t n_seen; /* threads, those that have ended included */

	uint64_t cond[GT_MAX_GILS]; /* address of each GIL; 0: not known, or may be none */
	uint32_t gils_seen;         /* bit i: it was acquired or released */
	struct gt_before before;
	uint64_t start_ns; /* mono_ns of the GIL_BEFORE records */

	/*
	 * All threads seen, grown between readings only. The callback appends the new ones to
	 * `fresh`; what does not fit there keeps the name that BPF has seen.
	 */
	struct thread *threads;
	size_t n_threads, room;
	size_t n_fresh;
	uint8_t missed; /* there were more new ones */
	uint8_t gone;   /* what /proc shows is not what was recorded any more */
	struct thread fresh[256];
};

struct gt_collector *gt_collect_new(struct gt_gilfile *file, const struct gt_proc *p)
{
	struct gt_collector *c = calloc(1, sizeof(*c));

	if (c)
		c->check = gt_selfcheck_new();
	if (!c || !c->check) {
		free(c);
		gt_gilfile_finish(file, GIL_END_ERROR, gt_mono_ns(), 0, NULL);
		return NULL;
	}
	c->file = file;
	c->proc = p;
	return c;
}

static void add_event(struct gt_collector *c, const struct gil_event *ev)
{
	gt_selfcheck_event(c->check, ev);
	/* A failed write is remembered by the file, and asked for at the next tick. */
	(void)gt_gilfile_add(c->file, ev, c->lost_told);
}

static int compare_tids(const void *a, const void *b)
{
	uint32_t x = ((const struct thread *)a)->tid, y = ((const struct thread *)b)->tid;

	return x < y ? -1 : x > y;
}

static struct thread *find_fresh(struct gt_collector *c, uint32_t tid)
{
	for (size_t i = c->n_fresh; i--;)
		if (c->fresh[i].tid == tid)
			return &c->fresh[i];
	return NULL;
}

static struct thread *find_old(struct gt_collector *c, uint32_t tid)
{
	const struct thread key = {.tid = tid};

	if (!c->n_threads)
		return NULL;
	return bsearch(&key, c->threads, c->n_threads, sizeof(key), compare_tids);
}

static struct thread *find_thread(struct gt_collector *c, uint32_t tid)
{
	struct thread *t = find_fresh(c, tid);

	return t ? t : find_old(c, tid);
}

/*
 * Remembers who a thread is, to see later whether it has another name; drops it if there is no
 * room. Returns 0 where that was known.
 */
static int know_thread(struct gt_collector *c, struct gil_event *ev)
{
	struct thread *t = find_thread(c, ev->tid);

	if (t && t->ended) /* the id is another's now, whose name is to be asked for */
		t = NULL;
	if (t && !ev->thread.ns_tid)
		ev->thread.ns_tid = t->ns_tid;
	/* BPF tells of a thread again when others have had its place in the table, and at its end.
	 */
	if (t && t->ns_tid == ev->thread.ns_tid && !strcmp(t->comm, ev->thread.comm))
		return 0;
	if (!t) {
		c->n_seen++;
		if (c->n_fresh == GT_ARRAY_SIZE(c->fresh)) {
			c->missed = 1;
			return 1;
		}
		t = &c->fresh[c->n_fresh++];
		*t = (struct thread){.tid = ev->tid, .host_tid = ev->thread.host_tid};
	}
	t->ns_tid = ev->thread.ns_tid;
	memcpy(t->comm, ev->thread.comm, GIL_COMM_LEN);
	ev->thread.name = t->name;
	return 1;
}

static int on_thread(struct gt_collector *c, const struct gt_rec_thread *rec, struct gil_event *ev)
{
	ev->thread.ns_tid = rec->ns_tid;
	ev->thread.host_tid = rec->host_tid == ev->tid ? 0 : rec->host_tid;
	memcpy(ev->thread.comm, rec->comm, GIL_COMM_LEN);
	ev->thread.comm[GIL_COMM_LEN - 1] = '\0';
	return know_thread(c, ev);
}

static void on_exit_of(struct gt_collector *c, uint32_t tid)
{
	struct thread *fresh = find_fresh(c, tid);
	struct thread *old = fresh ? NULL : find_old(c, tid);

	(void)gt_before_take(&c->before, tid);
	if (fresh) {
		free(fresh->name);
		*fresh = c->fresh[--c->n_fresh];
	}
	if (old)
		old->ended = 1;
}

static void on_gil(struct gt_collector *c, const struct gil_event *ev)
{
	if (ev->gil < GT_MAX_GILS && !ev->unconfirmed)
		c->cond[ev->gil] = ev->gil_ident.addr;
}

static void add_before(struct gt_collector *c, uint32_t tid, uint8_t gil, enum gil_before state)
{
	struct gil_event ev = {.mono_ns = c->start_ns, .tid = tid, .kind = GIL_BEFORE, .gil = gil};

	ev.before.state = (uint8_t)state;
	add_event(c, &ev);
}

/* The first event of a thread that was blocked at the start, perhaps for this very GIL. */
static void settle_blocked(struct gt_collector *c, const struct gil_event *ev)
{
	uint64_t futex = gt_before_take(&c->before, ev->tid);

	if (!futex || ev->gil >= GT_MAX_GILS)
		return;
	if ((ev->kind == GIL_WAIT || ev->kind == GIL_ACQUIRE) &&
	    gt_before_is_at(futex, c->cond[ev->gil]))
		add_before(c, ev->tid, ev->gil, GIL_BEFORE_WAITING);
}

/* Returns 0 where the loss has been told already. */
static int on_lost(struct gt_collector *c, const struct gt_rec_lost *rec, struct gil_event *ev)
{
	/* Two threads (of two GILs) may tell of one gap; the totals do not lie. */
	if (rec->total <= c->lost_told)
		return 0;
	ev->lost.begin_mono_ns = rec->begin_ns < ev->mono_ns ? rec->begin_ns : ev->mono_ns;
	ev->lost.count = rec->total - c->lost_told;
	c->lost_told = rec->total;
	/* The next event of a thread may not be its first. */
	gt_before_clear(&c->before);
	return 1;
}

void gt_collect_record(void *ctx, const struct gt_rec *rec, size_t size)
{
	static const uint8_t sizes[] = {
		[GT_WAIT] = sizeof(struct gt_rec),          [GT_ACQUIRE] = sizeof(struct gt_rec),
		[GT_RELEASE] = sizeof(struct gt_rec),       [GT_YIELD] = sizeof(struct gt_rec),
		[GT_TAKE] = sizeof(struct gt_rec),          [GT_DROPPED] = sizeof(struct gt_rec),
		[GT_THREAD] = sizeof(struct gt_rec_thread), [GT_GIL] = sizeof(struct gt_rec_gil),
		[GT_LOST] = sizeof(struct gt_rec_lost),     [GT_EXIT] = sizeof(struct gt_rec),
		[GT_LEFT] = sizeof(struct gt_rec),
	};
	struct gt_collector *c = ctx;
	struct gil_event ev = {0};

	if (size < sizeof(*rec) || rec->kind >= GT_ARRAY_SIZE(sizes) || size != sizes[rec->kind]) {
		c->malformed++;
		return;
	}
	ev.mono_ns = rec->ts_ns;
	ev.tid = rec->tid;
	ev.kind = rec->kind;
	ev.gil = rec->gil;
	ev.site = rec->site;
	if (rec->kind == GT_THREAD) {
		if (!on_thread(c, (const struct gt_rec_thread *)rec, &ev))
			return;
	} else if (rec->kind == GT_GIL) {
		ev.gil_ident.addr = ((const struct gt_rec_gil *)rec)->addr;
		ev.unconfirmed = rec->flags & GT_REC_UNCONFIRMED;
		on_gil(c, &ev);
	} else if (rec->kind == GT_LOST) {
		if (!on_lost(c, (const struct gt_rec_lost *)rec, &ev))
			return;
	} else if (rec->kind == GT_EXIT) {
		on_exit_of(c, ev.tid);
	} else {
		ev.forced = rec->kind == GT_RELEASE && rec->flags & GT_REC_FORCED;
		if (c->before.left)
			settle_blocked(c, &ev);
		/* A wait changes nothing in who holds. */
		if (ev.gil < GT_MAX_GILS && ev.kind != GIL_WAIT)
			c->gils_seen |= 1u << ev.gil;
	}
	add_event(c, &ev);
}

/* Writes what is known of a thread. */
static void tell_thread(struct gt_collector *c, const struct thread *t, uint64_t mono_ns)
{
	struct gil_event ev = {.mono_ns = mono_ns, .tid = t->tid, .kind = GIL_THREAD};

	ev.thread.ns_tid = t->ns_tid;
	ev.thread.host_tid = t->host_tid;
	ev.thread.name = t->name;
	memcpy(ev.thread.comm, t->comm, GIL_COMM_LEN);
	add_event(c, &ev);
}

/* Records the thread's name where it differs from what is known. */
static void rename_thread(struct gt_collector *c, struct thread *t, uint64_t mono_ns)
{
	char comm[GT_PROC_COMM];
	pid_t ns_tid;

	if (c->gone || gt_proc_thread(c->proc, (pid_t)t->tid, comm, &ns_tid))
		return; /* it has ended */
	if (!strcmp(comm, t->comm) && (uint32_t)ns_tid == t->ns_tid)
		return;
	memcpy(t->comm, comm, GIL_COMM_LEN);
	t->ns_tid = (uint32_t)ns_tid;
	tell_thread(c, t, mono_ns);
}

/*
 * Moves the new threads to the table of all. CPython sets no names before 3.14, and programs that
 * do (setproctitle, prctl) do it shortly after the thread's first event: look again now.
 */
static void absorb_fresh(struct gt_collector *c, uint64_t mono_ns)
{
	size_t known = 0;

	for (size_t i = 0; i < c->n_threads; i++) {
		if (c->threads[i].ended)
			free(c->threads[i].name);
		else
			c->threads[known++] = c->threads[i];
	}
	c->n_threads = known;
	if (known + c->n_fresh > c->room) {
		size_t room = 2 * (known + c->n_fresh);
		struct thread *grown = reallocarray(c->threads, room, sizeof(*grown));

		if (!grown) { /* they keep the names that BPF has seen */
			c->n_fresh = 0;
			return;
		}
		c->threads = grown;
		c->room = room;
	}
	for (size_t i = 0; i < c->n_fresh; i++) {
		c->threads[known + i] = c->fresh[i];
		rename_thread(c, &c->threads[known + i], mono_ns);
	}
	c->n_threads += c->n_fresh;
	if (c->n_fresh)
		qsort(c->threads, c->n_threads, sizeof(*c->threads), compare_tids);
	c->n_fresh = 0;
}

/* Who a thread is that may have had no event so far. -ESRCH or -ENOENT: it has ended. */
static int introduce(struct gt_collector *c, uint32_t tid, uint64_t mono_ns)
{
	struct gil_event ev = {.mono_ns = mono_ns, .tid = tid, .kind = GIL_THREAD};
	const struct thread *t = find_thread(c, tid);
	pid_t ns_tid;
	int err;

	if (t && !t->ended)
		return 0;
	err = gt_proc_thread(c->proc, (pid_t)tid, ev.thread.comm, &ns_tid);
	if (err)
		return err;
	ev.thread.ns_tid = (uint32_t)ns_tid;
	know_thread(c, &ev);
	add_event(c, &ev);
	return 0;
}

/* Very many threads were new at once: those that are not known yet are looked for in /proc. */
static void find_missed(struct gt_collector *c, uint64_t mono_ns)
{
	gt_autofree struct gt_snapshot_thread *all = NULL;
	uint32_t n_seen = c->n_seen;
	size_t n;

	if (!c->missed || c->gone || gt_snapshot_threads(c->proc, &all, &n))
		return;
	c->missed = 0;
	for (size_t i = 0; i < n; i++) {
		if (c->n_fresh == GT_ARRAY_SIZE(c->fresh))
			absorb_fresh(c, mono_ns);
		(void)introduce(c, all[i].tid, mono_ns);
	}
	absorb_fresh(c, mono_ns);
	c->n_seen = n_seen; /* those that had an event have been counted */
}

int gt_collect_wants_names(const struct gt_collector *c)
{
	if (c->n_fresh)
		return 1;
	for (size_t i = 0; i < c->n_threads; i++)
		if (c->threads[i].asked_py < ASKS && !c->threads[i].ended)
			return 1;
	return 0;
}

static const char *name_of(const struct gt_pyname *names, size_t n, uint32_t ns_tid)
{
	size_t low = 0;

	while (n > low) {
		size_t mid = low + (n - low) / 2;

		if (names[mid].ns_tid == ns_tid) /* "Dummy-1" tells nothing of a foreign thread */
			return names[mid].dummy ? NULL : names[mid].name;
		if (names[mid].ns_tid < ns_tid)
			low = mid + 1;
		else
			n = mid;
	}
	return NULL;
}

/*
 * In a child of os.fork(), CPython's only thread there may still have the id that it had in the
 * parent, and so be the one name that is no thread's here. NULL: that is not so, or cannot be told.
 */
static const char *name_of_forked(const struct gt_collector *c, const struct gt_pyname *names,
				  size_t n)
{
	char comm[GT_PROC_COMM];
	pid_t ns_tid;

	if (n != 1 || names[0].dummy || c->proc->pid != c->proc->ns_pid ||
	    gt_proc_thread(c->proc, (pid_t)names[0].ns_tid, comm, &ns_tid) != -ENOENT)
		return NULL;
	return names[0].name;
}

uint32_t gt_collect_names(struct gt_collector *c, const struct gt_pyname *names, size_t n,
			  uint64_t mono_ns)
{
	uint32_t named = 0;

	absorb_fresh(c, mono_ns);
	find_missed(c, mono_ns);
	for (size_t i = 0; i < c->n_threads; i++) {
		struct thread *t = &c->threads[i];
		const char *name = t->ns_tid ? name_of(names, n, t->ns_tid) : NULL;
		char *copy;

		if (t->ended)
			continue;
		if (!name && t->tid == (uint32_t)c->proc->pid)
			name = name_of_forked(c, names, n);
		t->asked_py = name || t->asked_py >= ASKS ? ASKS : (uint8_t)(t->asked_py + 1);
		named += name || t->name;
		if (!name || (t->name && !strcmp(name, t->name)))
			continue;
		copy = strdup(name);
		if (!copy)
			continue;
		free(t->name);
		t->name = copy;
		tell_thread(c, t, mono_ns);
	}
	return named;
}

int gt_collect_tick(struct gt_collector *c, uint64_t mono_ns)
{
	uint64_t since = gt_gilfile_pending_since(c->file);

	if (c->n_fresh)
		absorb_fresh(c, mono_ns);
	find_missed(c, mono_ns);
	if (c->before.left && mono_ns - c->start_ns >= GILS_KNOWN_AFTER_NS)
		gt_before_keep(&c->before, c->cond, GT_MAX_GILS);
	gt_selfcheck_tick(c->check);
	if (since && mono_ns > since && mono_ns - since >= SEAL_AFTER_NS)
		return gt_gilfile_flush(c->file, c->lost_told);
	return gt_gilfile_error(c->file);
}

int gt_collect_clock(struct gt_collector *c, const struct gil_clock *sample)
{
	return gt_gilfile_clock(c->file, sample);
}

void gt_collect_stats(const struct gt_collector *c, uint64_t lost_total,
		      struct gt_collect_stats *out)
{
	*out = (struct gt_collect_stats){
		.events = gt_gilfile_events(c->file),
		.lost = lost_total,
		.unwritten = gt_gilfile_unwritten(c->file),
		.bytes = gt_gilfile_bytes(c->file),
		.threads = c->n_seen,
		.malformed = c->malformed,
	};
}

/* ---- what was before ---- */

void gt_collect_late(struct gt_collector *c, uint64_t begin_mono_ns, uint64_t mono_ns)
{
	struct gil_event ev = {.mono_ns = mono_ns, .kind = GIL_LATE};

	ev.late.begin_mono_ns = begin_mono_ns;
	add_event(c, &ev);
}

void gt_collect_gil(struct gt_collector *c, uint8_t index, uint64_t cond, uint64_t mono_ns)
{
	struct gil_event ev = {.mono_ns = mono_ns, .kind = GIL_GIL, .gil = index};

	ev.gil_ident.addr = cond;
	on_gil(c, &ev);
	add_event(c, &ev);
}

/* Index of the GIL for which a thread waits that is blocked at this futex; -1: none. */
static int gil_at(const struct gt_collector *c, uint64_t futex)
{
	for (int i = 0; i < GT_MAX_GILS; i++)
		if (gt_before_is_at(futex, c->cond[i]))
			return i;
	return -1;
}

int gt_collect_before(struct gt_collector *c, uint64_t start_mono_ns,
		      const struct gt_snapshot_gils *gils, const struct gt_snapshot_thread *threads,
		      size_t n)
{
	int err = gt_before_init(&c->before, gils, threads, n);

	if (err)
		return err;
	c->start_ns = start_mono_ns;
	for (size_t i = 0; i < c->before.n; i++)
		if (find_thread(c, c->before.thread[i].tid)) /* its own events tell */
			(void)gt_before_take(&c->before, c->before.thread[i].tid);
	if (c->lost_told)
		gt_before_clear(&c->before);
	for (uint32_t i = 0; i < gils->n; i++) {
		const struct gt_snapshot_gil *g = &gils->gil[i];
		int index = gil_at(c, g->cond);

		/* Nothing has happened to it, so what the snapshot says was so from the start. */
		if (index < 0 || c->gils_seen >> index & 1 || !g->enabled || !g->locked ||
		    !g->holder || c->lost_told || introduce(c, g->holder, start_mono_ns))
			continue;
		add_before(c, g->holder, (uint8_t)index, GIL_BEFORE_HOLDING);
	}
	return 0;
}

/* Those that were blocked from the start to the end. */
static void settle_all(struct gt_collector *c, uint64_t mono_ns)
{
	for (size_t i = 0; i < c->before.n; i++) {
		const struct gt_blocked *b = &c->before.thread[i];
		int gil = gil_at(c, b->futex);

		if (gil < 0)
			continue;
		/* Ended alone, when is not known; or with the process, and then it waited till
		 * then. */
		if (introduce(c, b->tid, mono_ns) && !gt_proc_ended(c->proc))
			continue;
		add_before(c, b->tid, (uint8_t)gil, GIL_BEFORE_WAITING);
	}
	gt_before_clear(&c->before);
}

/* ---- the end ---- */

int gt_collect_meta(struct gt_collector *c, const char *const (*pairs)[2], size_t n)
{
	return gt_gilfile_meta(c->file, pairs, n);
}

static void write_check(struct gt_collector *c, struct gt_collect_stats *stats)
{
	struct gt_selfcheck_gil *sum = &stats->check;
	uint64_t misses;
	char number[5][24], key[32], text[512];

	*sum = gt_selfcheck_sum(c->check);
	misses = gt_selfcheck_misses(sum);
	stats->unchecked = gt_selfcheck_unchecked(c->check);

	const uint64_t value[] = {sum->acquires, sum->releases, misses, sum->excused,
				  stats->unchecked};

	for (size_t i = 0; i < GT_ARRAY_SIZE(value); i++)
		snprintf(number[i], sizeof(number[i]), "%" PRIu64, value[i]);
	gt_selfcheck_text(sum, text, sizeof(text));

	const char *const all[][2] = {
		{"check.result", misses                           ? "sites missing"
				 : sum->acquires || sum->releases ? "consistent"
								  : "not checked"},
		{"check.acquires", number[0]},
		{"check.releases", number[1]},
		{"check.mismatches", number[2]},
		{"check.excused", number[3]},
		{"check.unchecked", number[4]},
		{"check.text", misses ? text : NULL},
	};

	(void)gt_gilfile_meta(c->file, all, GT_ARRAY_SIZE(all));
	for (unsigned int i = 0; i < GT_SELFCHECK_GILS; i++) {
		const struct gt_selfcheck_gil *g = gt_selfcheck_gil(c->check, i);
		const char *const one[][2] = {{key, text}};

		if (!g->acquires && !g->releases && !gt_selfcheck_misses(g))
			continue;
		snprintf(key, sizeof(key), "check.gil.%u", i);
		gt_selfcheck_text(g, text, sizeof(text));
		(void)gt_gilfile_meta(c->file, one, 1);
	}
}

int gt_collect_finish(struct gt_collector *c, enum gil_end_reason reason, uint64_t stop_mono_ns,
		      uint64_t lost_total, uint64_t gap_begin_ns, struct gt_collect_stats *stats)
{
	struct gil_event lost = {.mono_ns = stop_mono_ns, .kind = GIL_LOST};
	int err;

	c->gone = reason == GIL_END_EXEC || reason == GIL_END_TARGET_EXIT;
	absorb_fresh(c, stop_mono_ns);
	find_missed(c, stop_mono_ns);
	for (size_t i = 0; i < c->n_threads; i++)
		rename_thread(c, &c->threads[i], stop_mono_ns);
	if (lost_total == c->lost_told)
		settle_all(c, stop_mono_ns);
	if (lost_total > c->lost_told) {
		lost.lost.count = lost_total - c->lost_told;
		lost.lost.begin_mono_ns =
			gap_begin_ns && gap_begin_ns < stop_mono_ns ? gap_begin_ns : stop_mono_ns;
		c->lost_told = lost_total;
		add_event(c, &lost);
	}
	(void)gt_gilfile_flush(c->file, lost_total);
	gt_collect_stats(c, lost_total, stats);
	write_check(c, stats);
	err = gt_gilfile_finish(c->file, reason, stop_mono_ns, lost_total, &stats->bytes);
	gt_selfcheck_free(c->check);
	gt_before_free(&c->before);
	for (size_t i = 0; i < c->n_threads; i++)
		free(c->threads[i].name);
	free(c->threads);
	free(c);
	return err;
}
