// SPDX-License-Identifier: Apache-2.0
#include "timeline.h"

#include "slices.h"

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

/* Forgets what was known of a thread before the last gap. */
static void join_epoch(struct gt_timeline *tl, struct thread *t)
{
	if (t->epoch == tl->epoch)
		return;
	t->epoch = tl->epoch;
	t->state = UNKNOWN;
	t->next_active = NULL;
	*tl->active_end = t;
	tl->active_end = &t->next_active;
}

/* ---- what was read from memory ---- */

static void note_holder(const struct gt_timeline *tl, struct gil *g, const struct thread *t)
{
	g->last_epoch = tl->epoch;
	g->last_tid = t->tid;
}

static int holds_by_before(const struct thread *t)
{
	return t->state == HOLDING && t->open & GT_OPEN_START;
}

/* Was memory read in the middle of a switch, or was the wait for no GIL? The event is right. */
static void reconsider(struct gt_timeline *tl, struct thread *t, const struct gil_event *ev)
{
	if (holds_by_before(t) && (ev->kind != GIL_RELEASE || ev->gil != t->gil)) {
		gt_forget(tl, t);
	} else if (t->state == WAITING && !tl->gils[t->gil].confirmed && ev->gil != t->gil) {
		tl->stats.unconfirmed++;
		gt_forget(tl, t);
	}
}

/* The same of a hold by another thread. */
static void reconsider_holder(struct gt_timeline *tl, const struct gil *g)
{
	if (g->holder && holds_by_before(g->holder))
		gt_forget(tl, g->holder);
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
	gt_settle(tl, t, ns);
	gt_enter_wait(tl, t, gil, ns, GT_OPEN_NO);
}

/* Nobody else has it when a thread acquires it. */
static void dispossess(struct gt_timeline *tl, struct gil *g, const struct thread *t, uint64_t ns)
{
	if (g->holder == t)
		return;
	reconsider_holder(tl, g);
	if (g->holder) {
		tl->stats.odd[GT_ODD_ACQUIRE_HELD]++;
		gt_close_unknown(tl, g->holder, ns);
	}
}

static void on_acquire(struct gt_timeline *tl, struct thread *t, uint8_t gil, uint64_t ns)
{
	struct gil *g = &tl->gils[gil];

	if (gil != GIL_INDEX_OTHER)
		dispossess(tl, g, t, ns);
	if (t->state == WAITING && t->gil == gil) {
		gt_close_acquired(tl, t, ns);
	} else {
		if (t->state == WAITING)
			tl->stats.odd[GT_ODD_WAIT_ENDLESS]++;
		else if (t->state == HOLDING)
			tl->stats.odd[GT_ODD_ACQUIRE_HOLDING]++;
		gt_settle(tl, t, ns);
	}
	gt_enter_hold(tl, t, gil, ns, GT_OPEN_NO);
	if (gil == GIL_INDEX_OTHER)
		return;
	note_holder(tl, g, t);
	if (g->yielder)
		gt_close_drop(tl, g->yielder, ns);
	g->holder = t;
}

/* The first event of the thread in this epoch is a release: it held since before it. */
static void release_unknown(struct gt_timeline *tl, struct thread *t, uint8_t gil, uint64_t ns)
{
	const struct gil *g = &tl->gils[gil];
	uint64_t start_ns = max_ns(tl->epoch_start_ns, g->free_since_ns);

	reconsider_holder(tl, g);
	if (start_ns > ns || g->holder)
		tl->stats.odd[GT_ODD_RELEASE_IDLE]++;
	else if (start_ns < ns || tl->epoch_open == GT_OPEN_START) /* a gap often ends with it */
		gt_end_hold(tl, t, gil, start_ns, ns, tl->epoch_open);
}

/* It was blocked in take_gil when function mode began: its acquire has not been seen. */
static int acquired_unseen(const struct gt_timeline *tl, const struct thread *t, uint8_t gil)
{
	const struct gil *g = &tl->gils[gil];

	return tl->opts.functions && t->state == WAITING && t->open & GT_OPEN_START &&
	       t->gil == gil && !g->holder && g->free_since_ns > t->since_ns;
}

static void on_release(struct gt_timeline *tl, struct thread *t, uint8_t gil, uint64_t ns,
		       uint8_t forced)
{
	struct gil *g = &tl->gils[gil];

	if (t->state == UNKNOWN) {
		release_unknown(tl, t, gil, ns);
	} else if (t->state == HOLDING && t->gil == gil) {
		gt_end_hold(tl, t, gil, t->since_ns, ns, t->open);
		gt_leave(tl, t);
	} else if (acquired_unseen(tl, t, gil)) {
		gt_close_acquired(tl, t, g->free_since_ns);
		release_unknown(tl, t, gil, ns);
	} else {
		tl->stats.odd[GT_ODD_RELEASE_IDLE]++;
		if (t->state == HOLDING)
			return; /* another GIL, which it holds still */
		gt_settle(tl, t, ns);
	}
	if (!g->holder) {
		g->free_since_ns = max_ns(g->free_since_ns, ns);
		if (gil != GIL_INDEX_OTHER)
			gt_blame_released(tl->blame, gil, ns);
	}
	note_holder(tl, g, t);
	gt_enter_drop(t, gil, ns, GT_OPEN_NO);
	t->forced = forced;
}

static void on_yield(struct gt_timeline *tl, struct thread *t, uint8_t gil, uint64_t ns)
{
	struct gil *g = &tl->gils[gil];

	if (t->state == UNKNOWN) {
		gt_enter_drop(t, gil, ns, tl->epoch_open);
	} else if (t->state != DROPPING || t->gil != gil) {
		tl->stats.odd[GT_ODD_YIELD_IDLE]++;
		if (t->state == HOLDING && t->gil != gil)
			return;
		/* drop_gil releases right before it yields, so that is when a hold ended. */
		if (t->state == HOLDING) {
			gt_end_hold(tl, t, gil, t->since_ns, ns, t->open);
			gt_leave(tl, t);
		} else {
			gt_settle(tl, t, ns);
		}
		gt_enter_drop(t, gil, ns, GT_OPEN_NO);
	}
	t->yields = 1;
	t->forced = GT_FORCED_YES;
	if (gil == GIL_INDEX_OTHER)
		return;
	if (g->yielder && g->yielder != t)
		gt_close_drop(tl, g->yielder, ns);
	g->yielder = t;
	if (g->holder)
		gt_close_drop(tl, t, ns); /* has switched already */
}

static void on_dropped(struct gt_timeline *tl, struct thread *t, uint8_t gil, uint64_t ns)
{
	tl->drop_returns = 1;
	if (t->state == DROPPING && t->gil == gil) {
		gt_close(tl, t, ns, GT_OPEN_NO);
	} else if (t->state == UNKNOWN) {
		gt_emit(tl, t, GT_SPAN_DROP, gil, tl->epoch_start_ns, ns, tl->epoch_open);
		t->state = IDLE;
	} else {
		tl->stats.odd[GT_ODD_YIELD_IDLE]++;
		if (t->state == HOLDING && t->gil == gil)
			gt_close_unknown(tl, t, ns);
	}
}

/* The GIL was switched off: the wait is over, and the thread goes on without it. */
static void on_left(struct gt_timeline *tl, struct thread *t, uint8_t gil, uint64_t ns)
{
	if (t->state == WAITING && t->gil == gil)
		gt_close(tl, t, ns, GT_OPEN_NO);
	else if (t->state == UNKNOWN)
		t->state = IDLE;
}

/* ---- GILs that are not confirmed ---- */

/* Draws a release that was kept aside, where other events of its thread or a gap have followed. */
static void draw_late(struct gt_timeline *tl, uint8_t gil, const struct pending *p)
{
	struct thread *t = p->thread;
	uint64_t start_ns = max_ns(p->start_ns, max_ns(t->row_end_ns, tl->gils[gil].free_since_ns));
	/* Where slices at one time are told apart, it may end later. */
	uint64_t end_ns = max_ns(
		p->ns, max_ns(t->last_start_ns[GT_SPAN_HOLD], t->last_start_ns[GT_SPAN_DROP]) + 1);
	int busy = t->epoch == tl->epoch && t->state >= WAITING && t->since_ns < end_ns;
	uint64_t seen_ns = t->seen_ns, own_ns = t->own_ns;
	int over = p->life != t->life;
	uint8_t forced = t->forced;

	if (busy || t->held.end_ns || start_ns > p->ns) {
		tl->stats.unconfirmed++;
		return;
	}
	if (over)
		t->seen_ns = p->own_ns;
	t->forced = p->forced;
	gt_end_hold(tl, t, gil, start_ns, p->ns, p->open);
	gt_emit(tl, t, GT_SPAN_DROP, gil, p->ns, p->ns, GT_OPEN_NO);
	t->forced = forced;
	if (over) {
		gt_thread_lived_before(t, t->seen_ns, p->own_ns);
		t->seen_ns = seen_ns;
		t->own_ns = own_ns;
	}
}

static void confirm_first(struct gt_timeline *tl, uint8_t gil)
{
	struct gil *g = &tl->gils[gil];
	struct pending p = g->pending;

	g->pending.thread = NULL;
	g->confirmed = 1;
	tl->stats.gils++;
	if (!p.thread)
		return;
	if (p.epoch != tl->epoch || p.thread->state != UNKNOWN) {
		draw_late(tl, gil, &p);
		return;
	}
	on_release(tl, p.thread, gil, p.ns, p.forced);
	if (p.yield_ns)
		on_yield(tl, p.thread, gil, p.yield_ns);
}

static inline void confirm(struct gt_timeline *tl, uint8_t gil)
{
	if (!tl->gils[gil].confirmed)
		confirm_first(tl, gil);
}

static uint8_t forced_of(const struct gt_timeline *tl, const struct gil_event *ev)
{
	if (ev->forced)
		return GT_FORCED_YES;
	return tl->opts.forced_told ? GT_FORCED_NO : GT_FORCED_UNKNOWN;
}

static void keep_aside(struct gt_timeline *tl, struct thread *t, const struct gil_event *ev,
		       uint64_t ns)
{
	struct pending *p = &tl->gils[ev->gil].pending;

	if (ev->kind == GIL_YIELD && p->thread == t && p->epoch == tl->epoch && !p->yield_ns) {
		p->yield_ns = ns;
		p->forced = GT_FORCED_YES;
	} else if (ev->kind == GIL_RELEASE && !p->thread) {
		*p = (struct pending){.thread = t,
				      .ns = ns,
				      .epoch = tl->epoch,
				      .start_ns = tl->epoch_start_ns,
				      .own_ns = t->own_ns,
				      .life = t->life,
				      .open = tl->epoch_open,
				      .forced = forced_of(tl, ev)};
	} else {
		tl->stats.unconfirmed++;
	}
}

/* ---- the beginning and the end ---- */

static void on_before(struct gt_timeline *tl, struct thread *t, const struct gil_event *ev)
{
	struct gil *g = &tl->gils[ev->gil];
	int holds = ev->before.state == GIL_BEFORE_HOLDING;

	if (holds)
		confirm(tl, ev->gil);
	if (t->last_ns || (holds && g->last_epoch))
		return;
	if (tl->epoch > 1 && tl->first_gap_ns <= tl->start_ns)
		return; /* the gap begins right there: no time is left for it */
	t->last_ns = tl->start_ns;
	if (holds)
		note_holder(tl, g, t);
	if (tl->epoch == 1) {
		join_epoch(tl, t);
		if (holds)
			gt_enter_hold(tl, t, ev->gil, tl->start_ns, GT_OPEN_START);
		else
			gt_enter_wait(tl, t, ev->gil, tl->start_ns, GT_OPEN_START);
		if (holds && ev->gil != GIL_INDEX_OTHER)
			g->holder = t;
	} else if (g->confirmed) {
		gt_emit(tl, t, holds ? GT_SPAN_HOLD : GT_SPAN_TAKE, ev->gil, tl->start_ns,
			tl->first_gap_ns, GT_OPEN_START | tl->first_gap_open);
		gt_thread_lived(t, tl->first_gap_ns);
	} else {
		tl->stats.unconfirmed++;
	}
}

static void on_thread_end(struct gt_timeline *tl, struct thread *t, uint64_t ns)
{
	const struct gil *g = &tl->gils[t->gil];

	t->ended = 1;
	if (t->state != WAITING || !g->confirmed) {
		gt_cut(tl, t, ns, GT_OPEN_EXIT);
	} else if (tl->opts.main_tid && t->tid != tl->opts.main_tid &&
		   g->last_tid == tl->opts.main_tid && g->last_epoch == tl->epoch) {
		gt_close(tl, t, ns, GT_OPEN_FINALIZING);
	} else {
		gt_hold_back_wait(tl, t, ns);
	}
	gt_thread_lived(t, ns);
}

/* Its time, in the order of the thread's events. */
static inline uint64_t arrive(struct gt_timeline *tl, struct thread *t, const struct gil_event *ev)
{
	uint64_t ns = gt_place(tl, ev->mono_ns);

	if (ns < t->last_ns) {
		tl->stats.odd[GT_ODD_ORDER]++;
		ns = t->last_ns;
	}
	t->last_ns = ns;
	if (!t->own_ns)
		t->own_ns = ns;
	gt_thread_seen(t, ns);
	join_epoch(tl, t);
	return ns;
}

static void on_transition(struct gt_timeline *tl, struct thread *t, const struct gil_event *ev)
{
	uint64_t ns;

	/* Others go on, so it was not the process that ended. */
	gt_settle_leavers(tl, GT_OPEN_FINALIZING);
	ns = arrive(tl, t, ev);
	tl->stats.events += ev->kind != GIL_LEFT;
	if (ev->kind == GIL_TAKE || ev->kind == GIL_DROPPED)
		tl->opts.forced_told = 0; /* function mode */
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
	reconsider(tl, t, ev);
	switch (ev->kind) {
	case GIL_WAIT:
	case GIL_TAKE:
		on_wait(tl, t, ev->gil, ns, ev->kind == GIL_TAKE);
		break;
	case GIL_ACQUIRE:
		on_acquire(tl, t, ev->gil, ns);
		break;
	case GIL_RELEASE:
		on_release(tl, t, ev->gil, ns, forced_of(tl, ev));
		break;
	case GIL_YIELD:
		on_yield(tl, t, ev->gil, ns);
		break;
	case GIL_DROPPED:
		on_dropped(tl, t, ev->gil, ns);
		break;
	case GIL_LEFT:
		on_left(tl, t, ev->gil, ns);
		break;
	}
}

static void on_thread(struct gt_timeline *tl, struct thread *t, const struct gil_event *ev)
{
	if (ev->kind == GIL_THREAD && !tl->err)
		tl->err = gt_thread_keep_names(t, ev);
	else if (ev->kind == GIL_BEFORE)
		on_before(tl, t, ev);
	else if (ev->kind == GIL_EXIT)
		on_thread_end(tl, t, arrive(tl, t, ev));
	else
		on_transition(tl, t, ev);
}

/* The thread of an event, as it is shown. */
static inline int find_thread(struct gt_timeline *tl, const struct gil_event *ev, struct thread **t)
{
	uint32_t tid = ev->tid;
	int err = tl->opts.rows ? gt_rows_find(tl->opts.rows, ev, &tid) : 0;

	if (!err)
		err = gt_threads_get(&tl->threads, tid, t);
	if (!err)
		tl->stats.threads = tl->threads.n;
	return err;
}

/* It tells nothing of what threads are in, and may stand anywhere among the events around it. */
static int on_mark(struct gt_timeline *tl, const struct gil_event *ev)
{
	struct gt_mark mark = {.at_ns = max_ns(gt_place(tl, ev->mono_ns), tl->start_ns),
			       .name = ev->mark.name};
	struct thread *t;
	int err = ev->tid ? find_thread(tl, ev, &t) : 0;

	if (err)
		return err;
	if (ev->tid)
		mark.tid = t->tid;
	if (tl->end_ns && mark.at_ns > tl->end_ns)
		mark.at_ns = tl->end_ns;
	tl->stats.marks++;
	if (!tl->err && tl->sink->ops->mark)
		tl->err = tl->sink->ops->mark(tl->sink, &mark);
	return 0;
}

int gt_timeline_event(struct gt_timeline *tl, const struct gil_event *ev)
{
	struct thread *t;
	int err = 0;

	switch (ev->kind) {
	case GIL_WAIT:
	case GIL_ACQUIRE:
	case GIL_RELEASE:
	case GIL_YIELD:
	case GIL_TAKE:
	case GIL_DROPPED:
	case GIL_THREAD:
	case GIL_BEFORE:
	case GIL_EXIT:
	case GIL_LEFT:
		err = find_thread(tl, ev, &t);
		if (!err)
			on_thread(tl, t, ev);
		break;
	case GIL_GIL:
		if (!ev->unconfirmed)
			confirm(tl, ev->gil);
		break;
	case GIL_LOST:
	case GIL_LATE:
	case GIL_PAUSED:
		gt_on_gap(tl, ev);
		break;
	case GIL_MARK:
		err = on_mark(tl, ev);
		break;
	default:
		tl->stats.odd[GT_ODD_KIND]++;
	}
	return err ? err : tl->err;
}

int gt_timeline_finish(struct gt_timeline *tl, uint64_t end_mono_ns)
{
	uint64_t end_ns = gt_place(tl, end_mono_ns);

	gt_cut_all(tl, end_ns, GT_OPEN_END);
	for (size_t i = 0; i < GT_ARRAY_SIZE(tl->gils); i++)
		tl->stats.unconfirmed += tl->gils[i].pending.thread != NULL;
	gt_tell_threads(tl);
	return tl->err;
}

const struct gt_timeline_stats *gt_timeline_stats(const struct gt_timeline *tl)
{
	return &tl->stats;
}

int gt_timeline_create(struct gt_sink *sink, const struct gt_timeline_opts *opts,
		       struct gt_timeline **out)
{
	struct gt_timeline *tl = calloc(1, sizeof(*tl));
	int err;

	if (!tl)
		return -ENOMEM;
	tl->sink = sink;
	tl->opts = *opts;
	tl->epoch = 1; /* threads start with 0 */
	tl->epoch_open = GT_OPEN_START;
	tl->start_ns = tl->epoch_start_ns = gt_place(tl, opts->start_mono_ns);
	if (opts->end_mono_ns)
		tl->end_ns = max_ns(gt_place(tl, opts->end_mono_ns), tl->start_ns);
	tl->active_end = &tl->active;
	err = gt_threads_init(&tl->threads);
	if (!err)
		err = gt_blame_create(GT_BLAME_PAIRS_MAX, tl->start_ns, &tl->blame);
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
	gt_threads_free(&tl->threads);
	gt_blame_free(tl->blame);
	free(tl);
}
