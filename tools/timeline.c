// SPDX-License-Identifier: Apache-2.0
#include "timeline.h"

#define TIME_MAX (UINT64_MAX >> 2) /* later is no time; leaves room for additions */

enum state {
	UNKNOWN, /* no event yet in this epoch */
	IDLE,
	WAITING,
	HOLDING,
	DROPPING, /* has released; the slice is drawn when its end is known */
};

struct thread {
	uint64_t epoch; /* in which `state` was valid; an earlier one: UNKNOWN */
	uint64_t since_ns;
	uint64_t last_ns;    /* of its latest event */
	uint64_t row_end_ns; /* end of its latest slice */
	uint64_t last_start_ns[GT_SPAN_KINDS];
	uint32_t tid;
	uint8_t state; /* enum state */
	uint8_t gil;   /* of the state */
	uint8_t forced;
	uint8_t open; /* enum gt_span_open of the state's beginning */
	char comm[GIL_COMM_LEN];
};

/* A release on a GIL that is not confirmed. */
struct pending {
	struct thread *thread; /* NULL: none */
	uint64_t ns, yield_ns; /* 0: no yield followed */
	uint64_t epoch, start_ns;
	uint8_t open;
};

struct gil {
	struct thread *holder;
	struct thread *yielder; /* waits in drop_gil until another thread acquires; one at most */
	uint64_t free_since_ns; /* a hold cannot have begun earlier */
	struct pending pending;
	uint8_t confirmed;
};

struct gt_timeline {
	const struct gt_sink_ops *ops;
	struct gt_sink *sink;
	uint64_t (*unix_ns)(const void *ctx, uint64_t mono_ns);
	const void *ctx;
	int err;

	/* An epoch is a stretch without loss; what came before it is not known. */
	uint64_t epoch, epoch_start_ns;
	uint8_t epoch_open;
	uint8_t drop_returns; /* function mode: each drop_gil ends with a DROPPED */

	struct thread *latest; /* the thread of the latest event */
	struct thread **table; /* open addressing by tid, table_size a power of two */
	uint32_t table_size;
	struct thread **threads; /* in the order of appearance */
	struct thread **active;  /* those with an event in this epoch; as large as threads */
	uint32_t nthreads, nactive, threads_size;

	struct gil gils[256];
	struct gt_timeline_stats stats;
};

const char *gt_odd_text(enum gt_odd odd)
{
	static const char *const text[GT_ODD_KINDS] = {
		[GT_ODD_ACQUIRE_HOLDING] = "acquired while already holding",
		[GT_ODD_ACQUIRE_HELD] = "acquired while another thread held",
		[GT_ODD_WAIT_HOLDING] = "waited while holding",
		[GT_ODD_WAIT_ENDLESS] = "waited without acquiring",
		[GT_ODD_RELEASE_IDLE] = "released without holding",
		[GT_ODD_YIELD_IDLE] = "yielded without releasing",
		[GT_ODD_ORDER] = "time went back",
		[GT_ODD_KIND] = "of an unknown kind",
	};

	return text[odd];
}

static uint64_t max_ns(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t place(const struct gt_timeline *tl, uint64_t mono_ns)
{
	uint64_t ns = tl->unix_ns ? tl->unix_ns(tl->ctx, mono_ns) : mono_ns;

	if (ns > TIME_MAX)
		ns = TIME_MAX;
	return ns ? ns : 1;
}

/* ---- threads ---- */

static uint32_t slot_of(const struct gt_timeline *tl, uint32_t tid)
{
	/* The address keeps a crafted file from choosing colliding ids. */
	uint64_t h = (tid ^ (uintptr_t)tl) * 0x9e3779b97f4a7c15u;

	h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
	return (uint32_t)(h >> 32) & (tl->table_size - 1);
}

static struct thread **find_slot(const struct gt_timeline *tl, uint32_t tid)
{
	uint32_t i = slot_of(tl, tid);

	while (tl->table[i] && tl->table[i]->tid != tid)
		i = (i + 1) & (tl->table_size - 1);
	return &tl->table[i];
}

static int grow(struct gt_timeline *tl)
{
	uint32_t size = tl->threads_size ? tl->threads_size * 2 : 64;
	struct thread **list, **active, **table;

	if (size > GT_TIMELINE_THREADS_MAX)
		return -E2BIG;
	list = realloc(tl->threads, size * sizeof(*list));
	if (!list)
		return -ENOMEM;
	tl->threads = list;
	active = realloc(tl->active, size * sizeof(*active));
	if (!active)
		return -ENOMEM;
	tl->active = active;
	table = calloc(size, 2 * sizeof(*table));
	if (!table)
		return -ENOMEM;
	free(tl->table);
	tl->table = table;
	tl->table_size = size * 2;
	tl->threads_size = size;
	for (uint32_t i = 0; i < tl->nthreads; i++)
		*find_slot(tl, list[i]->tid) = list[i];
	return 0;
}

static int get_thread(struct gt_timeline *tl, uint32_t tid, struct thread **out)
{
	struct thread **slot, *t;
	int err;

	if (tl->latest && tl->latest->tid == tid) {
		*out = tl->latest;
		return 0;
	}
	slot = find_slot(tl, tid);
	if (!*slot) {
		if (tl->nthreads == tl->threads_size) {
			err = grow(tl);
			if (err)
				return err;
			slot = find_slot(tl, tid);
		}
		t = calloc(1, sizeof(*t));
		if (!t)
			return -ENOMEM;
		t->tid = tid;
		*slot = t;
		tl->threads[tl->nthreads++] = t;
		tl->stats.threads++;
	}
	tl->latest = *slot;
	*out = *slot;
	return 0;
}

/* Forgets what was known of a thread before the last gap. */
static void join_epoch(struct gt_timeline *tl, struct thread *t)
{
	if (t->epoch == tl->epoch)
		return;
	t->epoch = tl->epoch;
	t->state = UNKNOWN;
	tl->active[tl->nactive++] = t;
}

/* ---- slices ---- */

/*
 * All slices come through here, and here the promises of sink.h are kept: with events in order
 * nothing is moved; a sequence that cannot be true may move a slice to a later time.
 */
static void emit(struct gt_timeline *tl, struct thread *t, enum gt_span_kind kind, uint8_t gil,
		 uint64_t start_ns, uint64_t end_ns, uint8_t open)
{
	struct gil *g = &tl->gils[gil];
	struct gt_span span = {.tid = t->tid, .kind = kind, .gil = gil, .open = open};

	start_ns = max_ns(start_ns, max_ns(t->row_end_ns, t->last_start_ns[kind] + 1));
	if (kind == GT_SPAN_HOLD && gil != GIL_INDEX_OTHER)
		start_ns = max_ns(start_ns, g->free_since_ns);
	span.start_ns = start_ns;
	span.end_ns = max_ns(start_ns, end_ns);
	if (kind == GT_SPAN_HOLD && gil != GIL_INDEX_OTHER)
		g->free_since_ns = span.end_ns;
	if (kind == GT_SPAN_DROP)
		span.forced = t->forced;
	t->row_end_ns = span.end_ns;
	t->last_start_ns[kind] = span.start_ns;
	tl->stats.spans[kind]++;
	if (!tl->err)
		tl->err = tl->ops->span(tl->sink, &span);
}

static void enter(struct thread *t, enum state state, uint8_t gil, uint64_t ns, uint8_t open)
{
	t->state = state;
	t->gil = gil;
	t->since_ns = ns;
	t->open = open;
	t->forced = 0;
}

/* Draws what the thread is in, up to `ns`, and leaves it idle. open: GT_OPEN_NO or why it ends. */
static void close_state(struct gt_timeline *tl, struct thread *t, uint64_t ns, uint8_t open)
{
	static const uint8_t kinds[] = {
		[WAITING] = GT_SPAN_TAKE, [HOLDING] = GT_SPAN_HOLD, [DROPPING] = GT_SPAN_DROP};
	struct gil *g = &tl->gils[t->gil];

	if (t->state >= WAITING)
		emit(tl, t, kinds[t->state], t->gil, t->since_ns, ns, open ? open : t->open);
	if (g->holder == t)
		g->holder = NULL;
	if (g->yielder == t)
		g->yielder = NULL;
	t->state = IDLE;
	t->forced = 0;
}

/* The end of the state was missed; it lies at no known time. */
static void close_unknown(struct gt_timeline *tl, struct thread *t)
{
	close_state(tl, t, t->since_ns, GT_OPEN_UNKNOWN);
}

/* The thread went on at `ns`: with DROPPING this is the end of a yield, if there was one. */
static void close_drop(struct gt_timeline *tl, struct thread *t, uint64_t ns)
{
	if (t->forced)
		close_state(tl, t, ns, GT_OPEN_NO);
	else if (tl->drop_returns)
		close_unknown(tl, t);
	else
		close_state(tl, t, t->since_ns, GT_OPEN_NO);
}

/* The thread does something at `ns` that it can only do with all else behind it. */
static void settle(struct gt_timeline *tl, struct thread *t, uint64_t ns)
{
	if (t->state == DROPPING)
		close_drop(tl, t, ns);
	else
		close_unknown(tl, t);
}

/* Loss or the end of the recording at `ns`: what is open was open until then. */
static void cut(struct gt_timeline *tl, struct thread *t, uint64_t ns, uint8_t open)
{
	if (t->state == DROPPING && !t->forced && !tl->drop_returns)
		close_state(tl, t, t->since_ns, GT_OPEN_NO);
	else
		close_state(tl, t, ns, open);
}

/* ---- events ---- */

static void on_wait(struct gt_timeline *tl, struct thread *t, uint8_t gil, uint64_t ns, int take)
{
	if (t->state == WAITING) {
		/* take_gil is not re-entered: a second TAKE means that the first one gave up. */
		if (t->gil == gil && !take)
			return;
		tl->stats.odd[GT_ODD_WAIT_ENDLESS]++;
	} else if (t->state == HOLDING) {
		tl->stats.odd[GT_ODD_WAIT_HOLDING]++;
	}
	settle(tl, t, ns);
	enter(t, WAITING, gil, ns, GT_OPEN_NO);
}

static void on_acquire(struct gt_timeline *tl, struct thread *t, uint8_t gil, uint64_t ns)
{
	struct gil *g = &tl->gils[gil];

	if (t->state == WAITING && t->gil == gil) {
		close_state(tl, t, ns, GT_OPEN_NO);
	} else {
		if (t->state == WAITING)
			tl->stats.odd[GT_ODD_WAIT_ENDLESS]++;
		else if (t->state == HOLDING)
			tl->stats.odd[GT_ODD_ACQUIRE_HOLDING]++;
		settle(tl, t, ns);
	}
	enter(t, HOLDING, gil, ns, GT_OPEN_NO);
	if (gil == GIL_INDEX_OTHER)
		return;
	if (g->holder) {
		tl->stats.odd[GT_ODD_ACQUIRE_HELD]++;
		close_unknown(tl, g->holder);
	}
	if (g->yielder)
		close_drop(tl, g->yielder, ns);
	g->holder = t;
}

/* The first event of the thread in this epoch is a release: it held since before it. */
static void release_unknown(struct gt_timeline *tl, struct thread *t, uint8_t gil, uint64_t ns)
{
	const struct gil *g = &tl->gils[gil];
	uint64_t start_ns = max_ns(tl->epoch_start_ns, g->free_since_ns);

	if (start_ns > ns || g->holder)
		tl->stats.odd[GT_ODD_RELEASE_IDLE]++;
	else if (start_ns < ns || tl->epoch_open == GT_OPEN_START) /* a gap often ends with it */
		emit(tl, t, GT_SPAN_HOLD, gil, start_ns, ns, tl->epoch_open);
}

static void on_release(struct gt_timeline *tl, struct thread *t, uint8_t gil, uint64_t ns)
{
	struct gil *g = &tl->gils[gil];

	if (t->state == UNKNOWN) {
		release_unknown(tl, t, gil, ns);
	} else if (t->state == HOLDING && t->gil == gil) {
		close_state(tl, t, ns, GT_OPEN_NO);
	} else {
		tl->stats.odd[GT_ODD_RELEASE_IDLE]++;
		if (t->state == HOLDING)
			return; /* another GIL, which it holds still */
		settle(tl, t, ns);
	}
	if (!g->holder)
		g->free_since_ns = max_ns(g->free_since_ns, ns);
	enter(t, DROPPING, gil, ns, GT_OPEN_NO);
}

static void on_yield(struct gt_timeline *tl, struct thread *t, uint8_t gil, uint64_t ns)
{
	struct gil *g = &tl->gils[gil];

	if (t->state == UNKNOWN) {
		enter(t, DROPPING, gil, ns, tl->epoch_open);
	} else if (t->state != DROPPING || t->gil != gil) {
		tl->stats.odd[GT_ODD_YIELD_IDLE]++;
		if (t->state == HOLDING && t->gil != gil)
			return;
		/* drop_gil releases right before it yields, so that is when a hold ended. */
		if (t->state == HOLDING)
			close_state(tl, t, ns, GT_OPEN_NO);
		else
			settle(tl, t, ns);
		enter(t, DROPPING, gil, ns, GT_OPEN_NO);
	}
	t->forced = 1;
	if (gil == GIL_INDEX_OTHER)
		return;
	if (g->yielder && g->yielder != t)
		close_drop(tl, g->yielder, ns);
	g->yielder = t;
	if (g->holder)
		close_drop(tl, t, ns); /* has switched already */
}

static void on_dropped(struct gt_timeline *tl, struct thread *t, uint8_t gil, uint64_t ns)
{
	tl->drop_returns = 1;
	if (t->state == DROPPING && t->gil == gil) {
		close_state(tl, t, ns, GT_OPEN_NO);
	} else if (t->state == UNKNOWN) {
		emit(tl, t, GT_SPAN_DROP, gil, tl->epoch_start_ns, ns, tl->epoch_open);
		t->state = IDLE;
	} else {
		tl->stats.odd[GT_ODD_YIELD_IDLE]++;
		if (t->state == HOLDING && t->gil == gil)
			close_unknown(tl, t);
	}
}

/* ---- GILs that are not confirmed ---- */

/* Draws a release that was kept aside, where other events of its thread or a gap have followed. */
static void draw_late(struct gt_timeline *tl, uint8_t gil, const struct pending *p)
{
	struct thread *t = p->thread;
	uint64_t start_ns = max_ns(p->start_ns, max_ns(t->row_end_ns, tl->gils[gil].free_since_ns));
	int busy = t->epoch == tl->epoch && t->state >= WAITING && t->since_ns < p->ns;
	uint8_t forced = t->forced;

	if (busy || start_ns > p->ns) {
		tl->stats.unconfirmed++;
		return;
	}
	t->forced = 0;
	emit(tl, t, GT_SPAN_HOLD, gil, start_ns, p->ns, p->open);
	emit(tl, t, GT_SPAN_DROP, gil, p->ns, p->ns, GT_OPEN_NO);
	t->forced = forced;
}

static void confirm(struct gt_timeline *tl, uint8_t gil)
{
	struct gil *g = &tl->gils[gil];
	struct pending p;

	if (g->confirmed)
		return;
	p = g->pending;
	g->pending.thread = NULL;
	g->confirmed = 1;
	tl->stats.gils++;
	if (!p.thread)
		return;
	if (p.epoch != tl->epoch || p.thread->state != UNKNOWN) {
		draw_late(tl, gil, &p);
		return;
	}
	on_release(tl, p.thread, gil, p.ns);
	if (p.yield_ns)
		on_yield(tl, p.thread, gil, p.yield_ns);
}

static void keep_aside(struct gt_timeline *tl, struct thread *t, const struct gil_event *ev,
		       uint64_t ns)
{
	struct pending *p = &tl->gils[ev->gil].pending;

	if (ev->kind == GIL_YIELD && p->thread == t && p->epoch == tl->epoch && !p->yield_ns)
		p->yield_ns = ns;
	else if (ev->kind == GIL_RELEASE && !p->thread)
		*p = (struct pending){.thread = t,
				      .ns = ns,
				      .epoch = tl->epoch,
				      .start_ns = tl->epoch_start_ns,
				      .open = tl->epoch_open};
	else
		tl->stats.unconfirmed++;
}

/* ---- loss, names ---- */

static void on_lost(struct gt_timeline *tl, const struct gil_event *ev)
{
	struct gt_gap gap = {.begin_ns = place(tl, ev->lost.begin_mono_ns),
			     .end_ns = place(tl, ev->mono_ns),
			     .count = ev->lost.count};

	if (gap.begin_ns > gap.end_ns)
		gap.begin_ns = gap.end_ns;
	/* By disorder between threads a state may have begun inside the gap: it gets no length. */
	for (uint32_t i = 0; i < tl->nactive; i++)
		cut(tl, tl->active[i], gap.begin_ns, GT_OPEN_LOST);
	tl->nactive = 0;
	tl->epoch++;
	tl->epoch_start_ns = max_ns(tl->epoch_start_ns, gap.end_ns);
	tl->epoch_open = GT_OPEN_LOST;
	tl->stats.gaps++;
	if (__builtin_add_overflow(tl->stats.lost, gap.count, &tl->stats.lost))
		tl->stats.lost = UINT64_MAX;
	if (!tl->err)
		tl->err = tl->ops->gap(tl->sink, &gap);
}

static void on_transition(struct gt_timeline *tl, struct thread *t, const struct gil_event *ev)
{
	uint64_t ns = place(tl, ev->mono_ns);

	tl->stats.events++;
	if (ns < t->last_ns) {
		tl->stats.odd[GT_ODD_ORDER]++;
		ns = t->last_ns;
	}
	t->last_ns = ns;
	join_epoch(tl, t);
	if (ev->kind == GIL_RELEASE || ev->kind == GIL_YIELD) {
		/* Which condition variable of many the last index stands for will never be known.
		 */
		if (ev->gil == GIL_INDEX_OTHER && t->state == UNKNOWN) {
			tl->stats.unconfirmed++;
			return;
		}
		if (!tl->gils[ev->gil].confirmed) {
			keep_aside(tl, t, ev, ns);
			return;
		}
	}
	confirm(tl, ev->gil);
	switch (ev->kind) {
	case GIL_WAIT:
	case GIL_TAKE:
		on_wait(tl, t, ev->gil, ns, ev->kind == GIL_TAKE);
		break;
	case GIL_ACQUIRE:
		on_acquire(tl, t, ev->gil, ns);
		break;
	case GIL_RELEASE:
		on_release(tl, t, ev->gil, ns);
		break;
	case GIL_YIELD:
		on_yield(tl, t, ev->gil, ns);
		break;
	case GIL_DROPPED:
		on_dropped(tl, t, ev->gil, ns);
		break;
	}
}

int gt_timeline_event(struct gt_timeline *tl, const struct gil_event *ev)
{
	struct thread *t;
	int err;

	switch (ev->kind) {
	case GIL_WAIT:
	case GIL_ACQUIRE:
	case GIL_RELEASE:
	case GIL_YIELD:
	case GIL_TAKE:
	case GIL_DROPPED:
	case GIL_THREAD:
		err = get_thread(tl, ev->tid, &t);
		if (err)
			return err;
		if (ev->kind == GIL_THREAD)
			memcpy(t->comm, ev->thread.comm, sizeof(t->comm));
		else
			on_transition(tl, t, ev);
		break;
	case GIL_GIL:
		if (!ev->unconfirmed)
			confirm(tl, ev->gil);
		break;
	case GIL_LOST:
		on_lost(tl, ev);
		break;
	default:
		tl->stats.odd[GT_ODD_KIND]++;
	}
	return tl->err;
}

static int by_tid(const void *a, const void *b)
{
	const struct thread *x = *(struct thread *const *)a, *y = *(struct thread *const *)b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

int gt_timeline_finish(struct gt_timeline *tl, uint64_t end_mono_ns)
{
	uint64_t end_ns = place(tl, end_mono_ns);

	for (uint32_t i = 0; i < tl->nactive; i++)
		cut(tl, tl->active[i], end_ns, GT_OPEN_END);
	tl->nactive = 0;
	for (size_t i = 0; i < GT_ARRAY_SIZE(tl->gils); i++)
		tl->stats.unconfirmed += tl->gils[i].pending.thread != NULL;
	if (tl->nthreads)
		qsort(tl->threads, tl->nthreads, sizeof(*tl->threads), by_tid);
	for (uint32_t i = 0; i < tl->nthreads && !tl->err; i++) {
		char comm[GIL_COMM_LEN + 1] = "";

		memcpy(comm, tl->threads[i]->comm, GIL_COMM_LEN);
		tl->err = tl->ops->thread(
			tl->sink,
			&(struct gt_sink_thread){.tid = tl->threads[i]->tid, .comm = comm});
	}
	return tl->err;
}

const struct gt_timeline_stats *gt_timeline_stats(const struct gt_timeline *tl)
{
	return &tl->stats;
}

int gt_timeline_create(const struct gt_sink_ops *ops, struct gt_sink *sink,
		       uint64_t (*unix_ns)(const void *ctx, uint64_t mono_ns), const void *ctx,
		       uint64_t start_mono_ns, struct gt_timeline **out)
{
	struct gt_timeline *tl = calloc(1, sizeof(*tl));
	int err;

	if (!tl)
		return -ENOMEM;
	tl->ops = ops;
	tl->sink = sink;
	tl->unix_ns = unix_ns;
	tl->ctx = ctx;
	tl->epoch = 1; /* threads start with 0 */
	tl->epoch_open = GT_OPEN_START;
	tl->epoch_start_ns = place(tl, start_mono_ns);
	err = grow(tl);
	if (err) {
		gt_timeline_free(tl);
		return err;
	}
	*out = tl;
	return 0;
}

void gt_timeline_free(struct gt_timeline *tl)
{
	if (!tl)
		return;
	for (uint32_t i = 0; i < tl->nthreads; i++)
		free(tl->threads[i]);
	free(tl->threads);
	free(tl->active);
	free(tl->table);
	free(tl);
}
