// SPDX-License-Identifier: Apache-2.0
#include "collect.h"

#include "clock.h"

_Static_assert(GT_WAIT == (int)GIL_WAIT && GT_ACQUIRE == (int)GIL_ACQUIRE &&
		       GT_RELEASE == (int)GIL_RELEASE && GT_YIELD == (int)GIL_YIELD &&
		       GT_TAKE == (int)GIL_TAKE && GT_DROPPED == (int)GIL_DROPPED &&
		       GT_THREAD == (int)GIL_THREAD && GT_GIL == (int)GIL_GIL &&
		       GT_LOST == (int)GIL_LOST && GT_GIL_OTHER == GIL_INDEX_OTHER &&
		       GT_COMM_LEN == GIL_COMM_LEN,
	       "the ring and the file use the same numbers");

#define SEAL_AFTER_NS 1000000000ull

struct thread {
	uint32_t tid;
	uint32_t ns_tid;
	char comm[GIL_COMM_LEN];
};

struct gt_collector {
	struct gt_gilfile *file;
	const struct gt_proc *proc;
	uint64_t lost_told; /* of the GT_LOST records so far */
	uint32_t malformed;
	/*
	 * All threads seen, grown between readings only. The callback appends the new ones to
	 * `fresh`; what does not fit there keeps the name that BPF has seen.
	 */
	struct thread *threads;
	size_t n_threads, room;
	size_t n_fresh;
	uint32_t unnamed; /* new threads since the last tick beyond those in `fresh` */
	struct thread fresh[256];
};

struct gt_collector *gt_collect_new(struct gt_gilfile *file, const struct gt_proc *p)
{
	struct gt_collector *c = calloc(1, sizeof(*c));

	if (!c) {
		gt_gilfile_finish(file, GIL_END_ERROR, gt_mono_ns(), 0, NULL);
		return NULL;
	}
	c->file = file;
	c->proc = p;
	return c;
}

static void add_event(struct gt_collector *c, const struct gil_event *ev)
{
	/* A failed write is remembered by the file, and asked for at the next tick. */
	(void)gt_gilfile_add(c->file, ev, c->lost_told);
}

static int compare_tids(const void *a, const void *b)
{
	uint32_t x = ((const struct thread *)a)->tid, y = ((const struct thread *)b)->tid;

	return x < y ? -1 : x > y;
}

static struct thread *find_thread(struct gt_collector *c, uint32_t tid)
{
	const struct thread key = {.tid = tid};

	for (size_t i = c->n_fresh; i--;)
		if (c->fresh[i].tid == tid)
			return &c->fresh[i];
	if (!c->n_threads)
		return NULL;
	return bsearch(&key, c->threads, c->n_threads, sizeof(key), compare_tids);
}

static void on_thread(struct gt_collector *c, const struct gt_rec_thread *rec, struct gil_event *ev)
{
	/* BPF tells of a thread again when others have had its place in the table meanwhile. */
	struct thread *t = find_thread(c, ev->tid);

	ev->thread.ns_tid = rec->ns_tid;
	memcpy(ev->thread.comm, rec->comm, GIL_COMM_LEN);
	ev->thread.comm[GIL_COMM_LEN - 1] = '\0';
	if (!t && c->n_fresh < GT_ARRAY_SIZE(c->fresh))
		t = &c->fresh[c->n_fresh++];
	if (!t) {
		c->unnamed++;
		return;
	}
	t->tid = ev->tid;
	t->ns_tid = rec->ns_tid;
	memcpy(t->comm, ev->thread.comm, GIL_COMM_LEN);
}

void gt_collect_record(void *ctx, const struct gt_rec *rec, size_t size)
{
	static const uint8_t sizes[] = {
		[GT_WAIT] = sizeof(struct gt_rec),          [GT_ACQUIRE] = sizeof(struct gt_rec),
		[GT_RELEASE] = sizeof(struct gt_rec),       [GT_YIELD] = sizeof(struct gt_rec),
		[GT_TAKE] = sizeof(struct gt_rec),          [GT_DROPPED] = sizeof(struct gt_rec),
		[GT_THREAD] = sizeof(struct gt_rec_thread), [GT_GIL] = sizeof(struct gt_rec_gil),
		[GT_LOST] = sizeof(struct gt_rec_lost),
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
		on_thread(c, (const struct gt_rec_thread *)rec, &ev);
	} else if (rec->kind == GT_GIL) {
		ev.gil_ident.addr = ((const struct gt_rec_gil *)rec)->addr;
		ev.unconfirmed = rec->flags & GT_REC_UNCONFIRMED;
	} else if (rec->kind == GT_LOST) {
		const struct gt_rec_lost *lost = (const struct gt_rec_lost *)rec;

		/* Two threads (of two GILs) may tell of one gap; the totals do not lie. */
		if (lost->total <= c->lost_told)
			return;
		ev.lost.begin_mono_ns = lost->begin_ns < rec->ts_ns ? lost->begin_ns : rec->ts_ns;
		ev.lost.count = lost->total - c->lost_told;
		c->lost_told = lost->total;
	}
	add_event(c, &ev);
}

/* Records the thread's name where it differs from what is known. */
static void rename_thread(struct gt_collector *c, struct thread *t, uint64_t mono_ns)
{
	struct gil_event ev = {.mono_ns = mono_ns, .tid = t->tid, .kind = GIL_THREAD};
	char comm[GT_PROC_COMM];
	pid_t ns_tid;

	if (gt_proc_thread(c->proc, (pid_t)t->tid, comm, &ns_tid))
		return; /* it has ended */
	if (!strcmp(comm, t->comm) && (uint32_t)ns_tid == t->ns_tid)
		return;
	memcpy(t->comm, comm, GIL_COMM_LEN);
	t->ns_tid = (uint32_t)ns_tid;
	ev.thread.ns_tid = t->ns_tid;
	memcpy(ev.thread.comm, comm, GIL_COMM_LEN);
	add_event(c, &ev);
}

/*
 * Moves the new threads to the table of all. CPython sets no names before 3.14, and programs that
 * do (setproctitle, prctl) do it shortly after the thread's first event: look again now.
 */
static void absorb_fresh(struct gt_collector *c, uint64_t mono_ns)
{
	size_t known = c->n_threads;

	if (known + c->n_fresh > c->room) {
		size_t room = 2 * (known + c->n_fresh);
		struct thread *grown = reallocarray(c->threads, room, sizeof(*grown));

		if (!grown) {
			c->unnamed += (uint32_t)c->n_fresh;
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

int gt_collect_tick(struct gt_collector *c, uint64_t mono_ns)
{
	uint64_t since = gt_gilfile_pending_since(c->file);

	if (c->n_fresh)
		absorb_fresh(c, mono_ns);
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
	out->events = gt_gilfile_events(c->file);
	out->lost = lost_total;
	out->unwritten = gt_gilfile_unwritten(c->file);
	out->bytes = gt_gilfile_bytes(c->file);
	out->threads = (uint32_t)(c->n_threads + c->n_fresh) + c->unnamed;
	out->malformed = c->malformed;
}

int gt_collect_finish(struct gt_collector *c, enum gil_end_reason reason, uint64_t stop_mono_ns,
		      uint64_t lost_total, uint64_t gap_begin_ns, struct gt_collect_stats *stats)
{
	struct gil_event lost = {.mono_ns = stop_mono_ns, .kind = GIL_LOST};
	int err;

	absorb_fresh(c, stop_mono_ns);
	for (size_t i = 0; i < c->n_threads; i++)
		rename_thread(c, &c->threads[i], stop_mono_ns);
	if (lost_total > c->lost_told) {
		lost.lost.count = lost_total - c->lost_told;
		lost.lost.begin_mono_ns =
			gap_begin_ns && gap_begin_ns < stop_mono_ns ? gap_begin_ns : stop_mono_ns;
		c->lost_told = lost_total;
		add_event(c, &lost);
	}
	(void)gt_gilfile_flush(c->file, lost_total);
	gt_collect_stats(c, lost_total, stats);
	err = gt_gilfile_finish(c->file, reason, stop_mono_ns, lost_total, &stats->bytes);
	free(c->threads);
	free(c);
	return err;
}
