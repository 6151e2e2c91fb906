// SPDX-License-Identifier: Apache-2.0
#include "collect_private.h"

#include "checkmeta.h"
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
	c->begin_ns = gt_mono_ns();
	return c;
}

void gt_collect_add(struct gt_collector *c, const struct gil_event *ev)
{
	gt_selfcheck_event(c->check, ev);
	/* A failed write is remembered by the file, and asked for at the next tick. */
	(void)gt_gilfile_add(c->file, ev, c->lost_told + c->strays);
}

static int on_thread(struct gt_collector *c, const struct gt_rec_thread *rec, struct gil_event *ev)
{
	ev->thread.ns_tid = rec->ns_tid;
	ev->thread.host_tid = rec->host_tid == ev->tid ? 0 : rec->host_tid;
	memcpy(ev->thread.comm, rec->comm, GIL_COMM_LEN);
	ev->thread.comm[GIL_COMM_LEN - 1] = '\0';
	return gt_collect_know(c, ev);
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
	gt_collect_add(c, &ev);
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
	if (rec->total < c->lost_told ||
	    (rec->total == c->lost_told && !(rec->rec.flags & GT_REC_ENDS)))
		return 0;
	ev->lost.begin_mono_ns = rec->begin_ns < ev->mono_ns ? rec->begin_ns : ev->mono_ns;
	ev->lost.count = rec->total - c->lost_told;
	c->lost_told = rec->total;
	/* The next event of a thread may not be its first. */
	gt_before_clear(&c->before);
	return 1;
}

/*
 * A hit that came through the gate before it was shut, and to the ring after that had been read.
 * What it did to its GIL is before the pause, in which nothing is known: so it counts as lost.
 */
static void on_stray(struct gt_collector *c, uint8_t kind)
{
	struct gil_event ev = {.mono_ns = c->resumed_ns, .kind = GIL_LOST};

	ev.lost.begin_mono_ns = c->resumed_ns;
	ev.lost.count = kind != GIL_LEFT; /* no event that counts, as in BPF's lose_end() */
	c->strays += ev.lost.count;
	gt_before_clear(&c->before);
	gt_collect_add(c, &ev);
}

/* Returns 0 where it is not to be in the file. */
static int on_event(struct gt_collector *c, const struct gt_rec *rec, struct gil_event *ev)
{
	if (ev->mono_ns < c->resumed_ns) {
		on_stray(c, ev->kind);
		return 0;
	}
	ev->forced = rec->kind == GT_RELEASE && rec->flags & GT_REC_FORCED;
	if (c->before.left)
		settle_blocked(c, ev);
	/* A wait changes nothing in who holds. */
	if (ev->gil < GT_MAX_GILS && ev->kind != GIL_WAIT)
		c->gils_seen |= 1u << ev->gil;
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
	if (rec->flags & GT_REC_PERHAPS && !gt_collect_is_known(c, ev.tid))
		return;
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
		(void)gt_before_take(&c->before, ev.tid);
		gt_collect_forget(c, ev.tid);
	} else if (!on_event(c, rec, &ev)) {
		return;
	}
	if (ev.mono_ns > c->latest_ns)
		c->latest_ns = ev.mono_ns;
	gt_collect_add(c, &ev);
}

int gt_collect_tick(struct gt_collector *c, uint64_t mono_ns)
{
	uint64_t since = gt_gilfile_pending_since(c->file);

	if (c->n_fresh || c->missed)
		gt_collect_refresh(c, mono_ns);
	if (c->before.left && mono_ns - c->start_ns >= GILS_KNOWN_AFTER_NS)
		gt_before_keep(&c->before, c->cond, GT_MAX_GILS);
	gt_selfcheck_tick(c->check);
	if (since && mono_ns > since && mono_ns - since >= SEAL_AFTER_NS)
		return gt_gilfile_flush(c->file, c->lost_told + c->strays);
	return gt_gilfile_error(c->file);
}

int gt_collect_seal(struct gt_collector *c)
{
	return gt_gilfile_flush(c->file, c->lost_told + c->strays);
}

uint64_t gt_collect_untold(const struct gt_collector *c, uint64_t lost_total)
{
	return lost_total > c->lost_told ? lost_total - c->lost_told : 0;
}

int gt_collect_clock(struct gt_collector *c, const struct gil_clock *sample)
{
	/* The session takes one right before it opens the gate. */
	if (!c->has_clock)
		c->begin_ns = sample->mono_ns;
	c->has_clock = 1;
	return gt_gilfile_clock(c->file, sample);
}

void gt_collect_stats(const struct gt_collector *c, uint64_t lost_total,
		      struct gt_collect_stats *out)
{
	*out = (struct gt_collect_stats){
		.events = gt_gilfile_events(c->file),
		.lost = lost_total + c->strays,
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
	gt_collect_add(c, &ev);
}

void gt_collect_gil(struct gt_collector *c, uint8_t index, uint64_t cond, uint64_t mono_ns)
{
	struct gil_event ev = {.mono_ns = mono_ns, .kind = GIL_GIL, .gil = index};

	ev.gil_ident.addr = cond;
	on_gil(c, &ev);
	gt_collect_add(c, &ev);
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
		if (gt_collect_is_known(c, c->before.thread[i].tid)) /* its own events tell */
			(void)gt_before_take(&c->before, c->before.thread[i].tid);
	if (c->lost_told)
		gt_before_clear(&c->before);
	for (uint32_t i = 0; i < gils->n; i++) {
		const struct gt_snapshot_gil *g = &gils->gil[i];
		int index = gil_at(c, g->cond);

		/* Nothing has happened to it, so what the snapshot says was so from the start. */
		if (index < 0 || c->gils_seen >> index & 1 || !g->enabled || !g->locked ||
		    !g->holder || c->lost_told || gt_collect_introduce(c, g->holder, start_mono_ns))
			continue;
		add_before(c, g->holder, (uint8_t)index, GIL_BEFORE_HOLDING);
	}
	return 0;
}

/* Those that were blocked from the start till now: to the end, or to a pause. */
static void settle_all(struct gt_collector *c, uint64_t mono_ns)
{
	for (size_t i = 0; i < c->before.n; i++) {
		const struct gt_blocked *b = &c->before.thread[i];
		int gil = gil_at(c, b->futex);

		if (gil < 0)
			continue;
		/* Ended alone, when is not known; or with the process, and then it waited till
		 * then. */
		if (gt_collect_introduce(c, b->tid, mono_ns) && !gt_proc_ended(c->proc))
			continue;
		add_before(c, b->tid, (uint8_t)gil, GIL_BEFORE_WAITING);
	}
	gt_before_clear(&c->before);
}

/* ---- marks and pauses ---- */

void gt_collect_mark(struct gt_collector *c, uint64_t mono_ns, uint32_t ns_tid, const char *name)
{
	struct gil_event ev = {.kind = GIL_MARK, .mono_ns = gt_mono_ns()};

	if (!name[0])
		return;
	if (mono_ns < ev.mono_ns)
		ev.mono_ns = mono_ns > c->begin_ns ? mono_ns : c->begin_ns;
	ev.tid = ns_tid ? gt_collect_tid_of(c, ns_tid, ev.mono_ns) : 0;
	ev.mark.name = name;
	gt_collect_add(c, &ev);
}

void gt_collect_paused(struct gt_collector *c, uint64_t begin_mono_ns, uint64_t end_mono_ns)
{
	struct gil_event ev = {.kind = GIL_PAUSED};
	uint64_t begin_ns = begin_mono_ns > c->latest_ns ? begin_mono_ns : c->latest_ns;

	gt_collect_refresh(c, begin_ns);
	settle_all(c, begin_ns);
	ev.mono_ns = end_mono_ns > begin_ns ? end_mono_ns : begin_ns;
	ev.paused.begin_mono_ns = begin_ns;
	gt_collect_add(c, &ev);
	c->resumed_ns = ev.mono_ns;
	gt_collect_end_gone(c, ev.mono_ns);
}

/* ---- the end ---- */

int gt_collect_meta(struct gt_collector *c, const char *const (*pairs)[2], size_t n)
{
	return gt_gilfile_meta(c->file, pairs, n);
}

int gt_collect_finish(struct gt_collector *c, enum gil_end_reason reason, uint64_t stop_mono_ns,
		      uint64_t lost_total, uint64_t gap_begin_ns, struct gt_collect_stats *stats)
{
	struct gil_event lost = {.mono_ns = stop_mono_ns, .kind = GIL_LOST};
	int err;

	c->gone = reason == GIL_END_EXEC || reason == GIL_END_TARGET_EXIT;
	gt_collect_rename(c, stop_mono_ns);
	if (lost_total == c->lost_told)
		settle_all(c, stop_mono_ns);
	if (lost_total > c->lost_told || gap_begin_ns) { /* perhaps none but ends of threads */
		lost.lost.count = lost_total - c->lost_told;
		lost.lost.begin_mono_ns =
			gap_begin_ns && gap_begin_ns < stop_mono_ns ? gap_begin_ns : stop_mono_ns;
		c->lost_told = lost_total;
		gt_collect_add(c, &lost);
	}
	(void)gt_gilfile_flush(c->file, lost_total + c->strays);
	gt_collect_stats(c, lost_total, stats);
	stats->check = gt_selfcheck_sum(c->check);
	stats->unchecked = gt_selfcheck_unchecked(c->check);
	/* Of what is kept, each window has a check of its own. */
	if (!gt_gilfile_is_kept(c->file))
		(void)gt_checkmeta_write(c->check, c->file);
	err = gt_gilfile_finish(c->file, reason, stop_mono_ns, stats->lost, &stats->bytes);
	gt_selfcheck_free(c->check);
	gt_before_free(&c->before);
	gt_collect_free_threads(c);
	free(c);
	return err;
}
