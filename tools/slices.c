// SPDX-License-Identifier: Apache-2.0
#include "slices.h"

#include "labels.h"

/* But .wait, which is not written where it need not be: there are many slices. */
static void set(struct gt_span *span, enum gt_span_kind kind, uint8_t gil, uint64_t start_ns,
		uint64_t end_ns, uint8_t open)
{
	span->start_ns = start_ns;
	span->end_ns = end_ns;
	span->kind = (uint8_t)kind;
	span->open = open;
	span->gil = gil;
	span->acquired = 0;
}

/*
 * All slices come through here, and here the promises of sink.h are kept: with events in order
 * nothing is moved; a sequence that cannot be true may move a slice to a later time.
 */
static void fit(struct gt_timeline *tl, struct thread *t, struct gt_span *span)
{
	struct gil *g = span->kind == GT_SPAN_HOLD && span->gil != GIL_INDEX_OTHER
				? &tl->gils[span->gil]
				: NULL;
	uint64_t *last_start_ns = &t->last_start_ns[span->kind];

	span->tid = t->tid;
	span->start_ns = max_ns(span->start_ns, max_ns(t->row_end_ns, *last_start_ns + 1));
	if (g)
		span->start_ns = max_ns(span->start_ns, g->free_since_ns);
	span->end_ns = max_ns(span->start_ns, span->end_ns);
	if (g)
		g->free_since_ns = span->end_ns;
	t->row_end_ns = span->end_ns;
	*last_start_ns = span->start_ns;
	gt_thread_seen(t, span->start_ns);
}

static void hand_on(struct gt_timeline *tl, struct gt_span *span, uint8_t forced)
{
	span->forced = forced;
	tl->stats.spans[span->kind]++;
	if (span->kind == GT_SPAN_DROP)
		tl->stats.releases[forced]++;
	if (!tl->err)
		tl->err = tl->sink->ops->span(tl->sink, span);
}

static void hand_on_held(struct gt_timeline *tl, struct thread *t, uint8_t open)
{
	if (!t->held.end_ns)
		return;
	t->held.open |= open;
	hand_on(tl, &t->held, t->forced);
	t->held.end_ns = 0;
	if (t->held.kind == GT_SPAN_TAKE)
		t->held.wait = (struct gt_wait){0};
}

/* Of one that is not over by a release. */
static void tell_hold(struct gt_timeline *tl, const struct gt_span *hold)
{
	if (hold->gil == GIL_INDEX_OTHER)
		return;
	if (hold->open & GT_OPEN_UNKNOWN)
		gt_blame_missed(tl->blame, hold->gil);
	else
		gt_blame_held(tl->blame, hold, 0);
}

/* Draws one of a time in which nothing is open any more. */
static void emit_take(struct gt_timeline *tl, struct thread *t)
{
	gt_blame_wait(tl->blame, &t->waiter, tl->take.gil, tl->take.start_ns);
	fit(tl, t, &tl->take);
	if (gt_blame_waited(tl->blame, &t->waiter, &tl->take) && !tl->err)
		tl->err = -ENOMEM;
	gt_blame_count(tl->blame, &t->waiter, &tl->take);
	hand_on_held(tl, t, GT_OPEN_NO);
	hand_on(tl, &tl->take, t->forced);
}

void gt_emit(struct gt_timeline *tl, struct thread *t, enum gt_span_kind kind, uint8_t gil,
	     uint64_t start_ns, uint64_t end_ns, uint8_t open)
{
	struct gt_span *span = kind == GT_SPAN_TAKE ? &tl->take : &tl->other;

	set(span, kind, gil, start_ns, end_ns, open);
	if (kind == GT_SPAN_TAKE) {
		emit_take(tl, t);
		return;
	}
	fit(tl, t, span);
	if (kind == GT_SPAN_HOLD)
		tell_hold(tl, span);
	hand_on_held(tl, t, GT_OPEN_NO);
	hand_on(tl, span, t->forced);
}

void gt_end_hold(struct gt_timeline *tl, struct thread *t, uint8_t gil, uint64_t start_ns,
		 uint64_t ns, uint8_t open)
{
	set(&t->held, GT_SPAN_HOLD, gil, start_ns, ns, open);
	fit(tl, t, &t->held);
	if (gil != GIL_INDEX_OTHER)
		gt_blame_held(tl->blame, &t->held, 1);
}

/* ---- states ---- */

static void enter(struct thread *t, enum thread_state state, uint8_t gil, uint64_t ns, uint8_t open)
{
	t->state = state;
	t->gil = gil;
	t->since_ns = ns;
	t->open = open;
	gt_thread_seen(t, ns);
}

void gt_enter_wait(struct gt_timeline *tl, struct thread *t, uint8_t gil, uint64_t ns, uint8_t open)
{
	/* Where the slice will begin: what happens from now on is shared out to it. */
	ns = max_ns(ns, max_ns(t->row_end_ns, t->last_start_ns[GT_SPAN_TAKE] + 1));
	enter(t, WAITING, gil, ns, open);
	gt_blame_wait(tl->blame, &t->waiter, gil, ns);
}

void gt_enter_hold(struct gt_timeline *tl, struct thread *t, uint8_t gil, uint64_t ns, uint8_t open)
{
	/* As with a wait: one that is cut before this hold knows who has the GIL, and since when.
	 */
	ns = max_ns(ns, max_ns(t->row_end_ns, t->last_start_ns[GT_SPAN_HOLD] + 1));
	if (gil != GIL_INDEX_OTHER)
		ns = max_ns(ns, tl->gils[gil].free_since_ns);
	enter(t, HOLDING, gil, ns, open);
	if (gil != GIL_INDEX_OTHER)
		gt_blame_acquired(tl->blame, gil, t->tid, ns);
}

void gt_enter_drop(struct thread *t, uint8_t gil, uint64_t ns, uint8_t open)
{
	enter(t, DROPPING, gil, ns, open);
}

void gt_forget(struct gt_timeline *tl, struct thread *t)
{
	if (t->state == WAITING)
		gt_blame_forget(tl->blame, &t->waiter);
	else if (t->gil != GIL_INDEX_OTHER)
		gt_blame_missed(tl->blame, t->gil);
	gt_leave(tl, t);
	gt_thread_unseen(t);
	t->state = UNKNOWN;
}

/* To tl->take. 0: by a BEFORE, on what is no GIL, so it was no wait. */
static int end_wait(struct gt_timeline *tl, struct thread *t, uint64_t ns, uint8_t open,
		    uint8_t acquired)
{
	if (!tl->gils[t->gil].confirmed) {
		tl->stats.unconfirmed++;
		gt_blame_forget(tl->blame, &t->waiter);
		gt_thread_unseen(t);
		return 0;
	}
	if (!(open & GT_OPEN_UNKNOWN))
		ns = max_ns(ns, t->waiter.told_ns);
	set(&tl->take, GT_SPAN_TAKE, t->gil, t->since_ns, ns, t->open | open);
	tl->take.acquired = acquired;
	fit(tl, t, &tl->take);
	if (gt_blame_waited(tl->blame, &t->waiter, &tl->take) && !tl->err)
		tl->err = -ENOMEM;
	return 1;
}

static void close_wait(struct gt_timeline *tl, struct thread *t, uint64_t ns, uint8_t open,
		       uint8_t acquired)
{
	if (end_wait(tl, t, ns, open, acquired)) {
		gt_blame_count(tl->blame, &t->waiter, &tl->take);
		hand_on_held(tl, t, GT_OPEN_NO);
		hand_on(tl, &tl->take, GT_FORCED_UNKNOWN);
	}
	gt_leave(tl, t);
}

void gt_close_acquired(struct gt_timeline *tl, struct thread *t, uint64_t ns)
{
	close_wait(tl, t, ns, GT_OPEN_NO, 1);
}

void gt_close(struct gt_timeline *tl, struct thread *t, uint64_t ns, uint8_t open)
{
	static const uint8_t kinds[] = {[HOLDING] = GT_SPAN_HOLD, [DROPPING] = GT_SPAN_DROP};

	if (t->state == WAITING) {
		close_wait(tl, t, ns, open, 0);
		return;
	}
	if (t->state > WAITING)
		gt_emit(tl, t, kinds[t->state], t->gil, t->since_ns, ns, t->open | open);
	gt_leave(tl, t);
}

void gt_close_unknown(struct gt_timeline *tl, struct thread *t, uint64_t ns)
{
	struct gil *g = &tl->gils[t->gil];
	int drawn = t->state > WAITING || (t->state == WAITING && g->confirmed);
	int held = t->state == HOLDING && t->gil != GIL_INDEX_OTHER;

	gt_close(tl, t, t->since_ns, GT_OPEN_UNKNOWN);
	if (held) /* until then it may have had it */
		g->free_since_ns = max_ns(g->free_since_ns, ns);
	if (drawn && ns > t->row_end_ns) {
		t->unknown_ns += ns - t->row_end_ns;
		t->row_end_ns = ns; /* nothing else is drawn there */
	}
}

void gt_close_drop(struct gt_timeline *tl, struct thread *t, uint64_t ns)
{
	if (t->yields)
		gt_close(tl, t, ns, GT_OPEN_NO);
	else if (tl->drop_returns)
		gt_close_unknown(tl, t, ns);
	else
		gt_close(tl, t, t->since_ns, GT_OPEN_NO);
}

void gt_cut(struct gt_timeline *tl, struct thread *t, uint64_t ns, uint8_t open)
{
	if (t->state == DROPPING && !t->yields && !tl->drop_returns)
		gt_close(tl, t, t->since_ns, GT_OPEN_NO);
	else
		gt_close(tl, t, ns, open);
}

void gt_cut_all(struct gt_timeline *tl, uint64_t ns, uint8_t open)
{
	gt_settle_leavers(tl, GT_OPEN_EXIT);
	for (struct thread *t = tl->active; t; t = t->next_active) {
		gt_cut(tl, t, ns, open);
		gt_thread_lived(t, ns);
	}
	tl->active = NULL;
	tl->active_end = &tl->active;
}

void gt_hold_back_wait(struct gt_timeline *tl, struct thread *t, uint64_t ns)
{
	if (end_wait(tl, t, ns, GT_OPEN_NO, 0)) {
		t->held = tl->take;
		t->next_leaver = tl->leavers;
		tl->leavers = t;
	}
	gt_leave(tl, t);
}

void gt_hand_on_leavers(struct gt_timeline *tl, uint8_t open)
{
	for (struct thread *t = tl->leavers; t; t = t->next_leaver) {
		t->held.open |= open;
		gt_blame_count(tl->blame, &t->waiter, &t->held);
		hand_on_held(tl, t, open);
	}
	tl->leavers = NULL;
}

/* ---- the end ---- */

static int tell_thread(struct gt_timeline *tl, const struct thread *t, const struct thread *main)
{
	char label[GT_LABEL_THREAD_MAX], comm[GIL_COMM_LEN + 1] = "";
	struct gt_label_thread l = {.name = t->name,
				    .comm = t->comm,
				    .id = t->tid,
				    .process_comm = tl->opts.comm,
				    .main_comm = main && main != t ? main->comm : NULL};
	struct gt_sink_thread told = {.tid = t->tid,
				      .label = label,
				      .name = t->name && t->name[0] ? t->name : comm,
				      .first_ns = t->first_ns,
				      .observed_ns = t->observed_ns,
				      .unknown_ns = t->unknown_ns};

	memcpy(comm, t->comm, GIL_COMM_LEN);
	if (tl->opts.rows && t->tid >= GT_SINK_TID_UNKNOWN)
		l.id = gt_rows_recorded(tl->opts.rows, t->tid, &l.where);
	gt_label_thread(label, &l);
	return tl->sink->ops->thread(tl->sink, &told);
}

void gt_tell_threads(struct gt_timeline *tl)
{
	const struct gt_sink_ops *ops = tl->sink->ops;
	const struct thread *main = NULL;

	gt_threads_sort(&tl->threads);
	if (tl->opts.main_tid)
		main = *gt_threads_find(&tl->threads, tl->opts.main_tid);
	for (uint32_t i = 0; ops->thread && i < tl->threads.n && !tl->err; i++)
		tl->err = tell_thread(tl, tl->threads.list[i], main);
	if (!ops->pair)
		return;
	gt_blame_settle(tl->blame);
	for (uint32_t i = 0; i < tl->threads.n && !tl->err; i++)
		tl->err = gt_blame_tell(tl->blame, &tl->threads.list[i]->waiter, tl->sink);
}
