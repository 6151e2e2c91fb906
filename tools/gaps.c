// SPDX-License-Identifier: Apache-2.0
/* Stretches of which nothing is known: events were lost, or nothing was recorded. */
#include "sat.h"
#include "slices.h"

/* What memory told of the start tells nothing where the gap begins right there. */
static void forget_start(struct gt_timeline *tl, uint64_t begin_ns)
{
	for (struct thread *t = tl->active; t; t = t->next_active)
		if ((t->state == WAITING || t->state == HOLDING) && t->open & GT_OPEN_START &&
		    t->since_ns >= begin_ns)
			gt_forget(tl, t);
}

/* open: why what it cuts ends. */
static void skip(struct gt_timeline *tl, struct gt_gap *gap, uint8_t open)
{
	if (gap->begin_ns > gap->end_ns)
		gap->begin_ns = gap->end_ns;
	if (gap->begin_ns <= tl->start_ns)
		forget_start(tl, gap->begin_ns);
	/* By disorder between threads a state may have begun inside the gap: it gets no length. */
	gt_cut_all(tl, gap->begin_ns, open);
	tl->epoch_start_ns = max_ns(tl->epoch_start_ns, gap->end_ns);
	gt_blame_gap(tl->blame, gap->begin_ns, tl->epoch_start_ns);
	if (!tl->err)
		tl->err = tl->sink->ops->gap(tl->sink, gap);
}

/* open: why what reaches back to it begins there. */
static void begin_epoch(struct gt_timeline *tl, const struct gt_gap *gap, uint8_t open)
{
	if (tl->epoch++ == 1) {
		tl->first_gap_ns = gap->begin_ns;
		tl->first_gap_open = open;
	}
	tl->epoch_open = open;
}

static void on_lost(struct gt_timeline *tl, const struct gil_event *ev)
{
	struct gt_gap gap = {.begin_ns = gt_place(tl, ev->lost.begin_mono_ns),
			     .end_ns = gt_place(tl, ev->mono_ns),
			     .count = ev->lost.count};

	skip(tl, &gap, GT_OPEN_LOST);
	begin_epoch(tl, &gap, GT_OPEN_LOST);
	tl->stats.gaps++;
	tl->stats.lost = gt_sat_add(tl->stats.lost, gap.count);
}

static void on_late(struct gt_timeline *tl, const struct gil_event *ev)
{
	struct gt_gap gap = {.begin_ns = gt_place(tl, ev->late.begin_mono_ns),
			     .end_ns = gt_place(tl, ev->mono_ns),
			     .late = 1,
			     .why = tl->opts.late_why};
	int first = tl->epoch == 1 && !tl->active;

	skip(tl, &gap, GT_OPEN_LOST);
	if (first) /* as it ought to be: the recording begins here */
		tl->start_ns = tl->epoch_start_ns;
	else
		begin_epoch(tl, &gap, GT_OPEN_LOST);
	tl->stats.late_ns = gt_sat_add(tl->stats.late_ns, gap.end_ns - gap.begin_ns);
}

static void on_paused(struct gt_timeline *tl, const struct gil_event *ev)
{
	struct gt_gap gap = {.begin_ns = gt_place(tl, ev->paused.begin_mono_ns),
			     .end_ns = gt_place(tl, ev->mono_ns),
			     .paused = 1};

	skip(tl, &gap, GT_OPEN_PAUSED);
	begin_epoch(tl, &gap, GT_OPEN_PAUSED);
	tl->stats.pauses++;
	tl->stats.paused_ns = gt_sat_add(tl->stats.paused_ns, gap.end_ns - gap.begin_ns);
}

void gt_on_gap(struct gt_timeline *tl, const struct gil_event *ev)
{
	if (ev->kind == GIL_LOST)
		on_lost(tl, ev);
	else if (ev->kind == GIL_LATE)
		on_late(tl, ev);
	else
		on_paused(tl, ev);
}
