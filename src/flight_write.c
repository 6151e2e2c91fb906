// SPDX-License-Identifier: Apache-2.0
#include "flight_private.h"

#include <inttypes.h>
#include <stdio.h>

#include "checkmeta.h"

/*
 * A window is written as any recording: it begins by what was known when it began (GIL, THREAD,
 * BEFORE), and its events are encoded anew, so nothing in the file is older than its begin.
 */

struct writing {
	struct gt_flight *f;
	struct gt_gilfile *out;
	struct gt_selfcheck *check;
	uint64_t begin_ns; /* 0: all that was recorded is here */
	uint64_t last_ns;  /* of the events so far */
	uint64_t lost;
};

/* ---- where it begins ---- */

struct edge {
	uint64_t first_ns; /* 0: there is nothing */
	uint64_t gap_ns;   /* what comes first is a gap, and begins there; 0: it is none */
	uint8_t has_state;
};

static int is_gap(const struct gil_event *ev)
{
	return ev->kind == GIL_LOST || ev->kind == GIL_PAUSED;
}

static int look_at_edge(void *ctx, const struct gil_event *ev)
{
	struct edge *e = ctx;

	if (ev->kind == GIL_MARK || ev->kind == GIL_BEFORE) /* of any time */
		return 0;
	if (!e->first_ns || ev->mono_ns < e->first_ns)
		e->first_ns = ev->mono_ns;
	if (e->has_state || !(is_gap(ev) || GT_KINDS_EVENTS >> ev->kind & 1))
		return 0;
	e->has_state = 1;
	if (is_gap(ev))
		e->gap_ns =
			ev->kind == GIL_LOST ? ev->lost.begin_mono_ns : ev->paused.begin_mono_ns;
	return 0;
}

/*
 * From the last event that was dropped on, all is known: by what is in memory, or because nothing
 * has happened.
 */
static uint64_t find_begin(const struct gt_flight *f, uint64_t end_ns, struct edge *edge)
{
	uint64_t begin_ns = end_ns > f->opts.window_ns ? end_ns - f->opts.window_ns : 1;

	*edge = (struct edge){0};
	if (!f->folded_ns)
		return 0;
	for (const struct gt_kept *k = f->blocks.first; k && !edge->first_ns; k = k->next)
		(void)gt_kept_events(k, look_at_edge, edge);
	if (begin_ns < f->folded_ns)
		begin_ns = f->folded_ns;
	return edge->first_ns && edge->first_ns < begin_ns ? edge->first_ns : begin_ns;
}

/* ---- events ---- */

static int put(struct writing *w, const struct gil_event *ev)
{
	if (ev->kind == GIL_LOST)
		w->lost += ev->lost.count;
	gt_selfcheck_event(w->check, ev);
	return gt_gilfile_add(w->out, ev, w->lost);
}

/* Who a thread is, where that was told before the window. */
static int introduce(struct writing *w, uint32_t tid, uint64_t mono_ns)
{
	struct gt_standing_thread *t = gt_standing_find(&w->f->front, tid);
	struct gil_event ev = {.mono_ns = mono_ns, .tid = tid, .kind = GIL_THREAD};

	if (!t || t->mark == w->f->window)
		return 0;
	t->mark = w->f->window;
	if (!t->told)
		return 0;
	ev.thread.ns_tid = t->ns_tid;
	ev.thread.host_tid = t->host_tid;
	ev.thread.name = t->name[0] ? t->name : NULL;
	memcpy(ev.thread.comm, t->comm, sizeof(t->comm));
	return put(w, &ev);
}

static uint64_t not_before(uint64_t ns, uint64_t begin_ns)
{
	return ns < begin_ns ? begin_ns : ns;
}

/* Nothing is older than the window; what was told late of its begin (BEFORE) is moved there. */
static int put_event(void *ctx, const struct gil_event *ev)
{
	struct writing *w = ctx;
	struct gil_event e = *ev;
	int err = 0;

	if (e.kind == GIL_MARK && e.mono_ns < w->begin_ns)
		return 0;
	e.mono_ns = not_before(e.mono_ns, w->begin_ns);
	if (e.kind == GIL_LOST)
		e.lost.begin_mono_ns = not_before(e.lost.begin_mono_ns, w->begin_ns);
	if (e.kind == GIL_PAUSED)
		e.paused.begin_mono_ns = not_before(e.paused.begin_mono_ns, w->begin_ns);
	if (e.tid)
		err = introduce(w, e.tid, e.mono_ns);
	if (e.kind != GIL_MARK && e.mono_ns > w->last_ns)
		w->last_ns = e.mono_ns;
	return err ? err : put(w, &e);
}

static int put_before(struct writing *w, uint32_t tid, uint8_t gil, enum gil_before state)
{
	struct gil_event ev = {.mono_ns = w->begin_ns, .tid = tid, .kind = GIL_BEFORE, .gil = gil};
	int err = introduce(w, tid, w->begin_ns);

	ev.before.state = (uint8_t)state;
	return err ? err : put(w, &ev);
}

/* How things stood when the window began. */
static int put_front(struct writing *w, int states_known)
{
	const struct gt_standing *s = &w->f->front;
	int err = 0;

	for (uint8_t i = 0; i < GT_STANDING_GILS && !err; i++) {
		struct gil_event ev = {.mono_ns = w->begin_ns, .kind = GIL_GIL, .gil = i};

		ev.gil_ident.addr = s->gil[i].addr;
		ev.unconfirmed = s->gil[i].unconfirmed;
		if (s->gil[i].told)
			err = put(w, &ev);
	}
	for (uint8_t i = 0; i < GT_STANDING_GILS && states_known && !err; i++)
		if (s->gil[i].holder)
			err = put_before(w, s->gil[i].holder, i, GIL_BEFORE_HOLDING);
	for (size_t i = 0; i < s->n && states_known && !err; i++)
		if (s->thread[i].waits)
			err = put_before(w, s->thread[i].tid, s->thread[i].gil, GIL_BEFORE_WAITING);
	return err;
}

/* What is not told by any record in memory. */
static int put_end(struct writing *w, const struct gt_flight_cut *cut)
{
	struct gil_event lost = {.mono_ns = cut->end_ns, .kind = GIL_LOST};
	struct gil_event paused = {.mono_ns = cut->end_ns, .kind = GIL_PAUSED};
	int err = 0;

	lost.lost.count = cut->untold;
	lost.lost.begin_mono_ns = not_before(cut->gap_begin_ns, w->last_ns);
	if (lost.lost.begin_mono_ns > cut->end_ns)
		lost.lost.begin_mono_ns = cut->end_ns;
	if (cut->untold)
		err = put(w, &lost);
	paused.paused.begin_mono_ns =
		not_before(not_before(cut->paused_ns, w->begin_ns), w->last_ns);
	if (cut->paused_ns && paused.paused.begin_mono_ns < cut->end_ns && !err)
		err = put(w, &paused);
	return err;
}

/* So that it is seen in the picture. */
static int put_mark(struct writing *w, const struct gt_stretch *s)
{
	struct gil_event ev = {.kind = GIL_MARK};
	uint64_t ns = s->end_ns - s->begin_ns;
	char name[64];
	int err;

	ev.mono_ns = not_before(s->end_ns, w->begin_ns);
	ev.tid = s->tid;
	snprintf(name, sizeof(name), "giltrace: a %s of %" PRIu64 ".%" PRIu64 " ms",
		 s->is_wait ? "wait" : "hold", ns / 1000000, ns / 100000 % 10);
	ev.mark.name = name;
	err = introduce(w, s->tid, ev.mono_ns);
	return err ? err : put(w, &ev);
}

/* ---- blocks ---- */

static int put_kept(struct writing *w, const struct gt_kept *k)
{
	struct gil_clock sample;

	if (k->b.type == GIL_BLOCK_EVENTS)
		return gt_kept_events(k, put_event, w);
	if (k->b.first_ns < w->begin_ns)
		return 0;
	gt_clock_get(k->payload, &sample);
	return gt_gilfile_clock(w->out, &sample);
}

/* All that there is now; meanwhile more may come, and what is written be dropped. */
static int put_blocks(struct writing *w, const struct gt_flight_cut *cut)
{
	const struct gt_kept *last = w->f->blocks.last;
	struct gt_flight *f = w->f;
	int err = 0;

	for (f->cursor = f->blocks.first; f->cursor && !err;) {
		int is_last = f->cursor == last;

		err = put_kept(w, f->cursor);
		f->cursor = is_last ? NULL : f->cursor->next;
		gt_selfcheck_tick(w->check);
		if (f->cursor && cut->meanwhile)
			cut->meanwhile(cut->ctx);
	}
	f->cursor = NULL;
	return err;
}

/* ---- META ---- */

struct text {
	char s[24];
};

static struct text number(uint64_t n)
{
	struct text t;

	snprintf(t.s, sizeof(t.s), "%" PRIu64, n);
	return t;
}

static int put_meta(struct writing *w, const struct gt_flight_cut *cut,
		    const struct gt_flight_written *now)
{
	const struct gt_stretch none = {0}, *s = cut->exceeded ? cut->exceeded : &none;
	const uint64_t ring_ns = w->f->opts.window_ns;
	const struct text mono = number(cut->exceeded ? s->end_ns : cut->end_ns),
			  tid = number(s->tid), gil = number(s->gil),
			  ns = number(s->end_ns - s->begin_ns), span = number(now->span_ns),
			  suppressed = number(cut->suppressed);
	char seconds[40];

	snprintf(seconds, sizeof(seconds), "%" PRIu64 ".%09" PRIu64, ring_ns / 1000000000,
		 ring_ns % 1000000000);

	const char *const meta[][2] = {
		{"recording.ring_seconds", seconds},
		{"recording.trigger", cut->trigger},
		{"recording.trigger_mono_ns", mono.s},
		{"recording.trigger_tid", cut->exceeded ? tid.s : NULL},
		{"recording.trigger_gil", cut->exceeded ? gil.s : NULL},
		{"recording.trigger_ns", cut->exceeded ? ns.s : NULL},
		{"recording.window_ns", span.s},
		{"recording.window_cut", now->squeezed ? "memory" : NULL},
		{"recording.suppressed", cut->suppressed ? suppressed.s : NULL},
	};

	return gt_gilfile_meta(w->out, meta, GT_ARRAY_SIZE(meta));
}

static int put_about(struct writing *w)
{
	int err = 0;

	for (const struct gt_kept *k = w->f->about.first; k && !err; k = k->next)
		err = gt_gilfile_put(w->out, &k->b, k->payload);
	return err;
}

/* ---- the whole ---- */

static void measure(const struct writing *w, const struct gt_flight_cut *cut,
		    struct gt_flight_written *now)
{
	const struct gt_kept *first = w->f->blocks.first;
	uint64_t begin_ns = w->begin_ns ? w->begin_ns : first ? first->b.first_ns : cut->end_ns;

	now->span_ns = cut->end_ns > begin_ns ? cut->end_ns - begin_ns : 0;
	now->squeezed = w->f->squeezed_ns && now->span_ns < w->f->opts.window_ns &&
			cut->end_ns - w->f->squeezed_ns < w->f->opts.window_ns;
}

static int write_all(struct writing *w, const struct gt_flight_cut *cut,
		     struct gt_flight_written *now)
{
	struct edge edge;
	int err, states_known;

	w->begin_ns = find_begin(w->f, cut->end_ns, &edge);
	states_known = !(edge.gap_ns && edge.gap_ns <= w->begin_ns) &&
		       !(cut->paused_ns && cut->paused_ns <= w->begin_ns);
	measure(w, cut, now);
	err = put_about(w);
	if (!err)
		err = put_meta(w, cut, now);
	if (!err && w->begin_ns)
		err = put_front(w, states_known);
	if (!err)
		err = put_blocks(w, cut);
	if (!err)
		err = put_end(w, cut);
	if (!err && cut->exceeded)
		err = put_mark(w, cut->exceeded);
	if (!err)
		err = gt_gilfile_flush(w->out, w->lost);
	if (!err && cut->clock)
		err = gt_gilfile_clock(w->out, cut->clock);
	return err ? err : gt_checkmeta_write(w->check, w->out);
}

int gt_flight_write(struct gt_flight *f, struct gt_gilfile *out, const struct gt_flight_cut *cut,
		    struct gt_flight_written *written)
{
	struct writing w = {.f = f, .out = out, .check = gt_selfcheck_new()};
	int err = w.check ? 0 : -ENOMEM, end;

	*written = (struct gt_flight_written){0};
	f->window++;
	if (!err)
		err = write_all(&w, cut, written);
	written->events = gt_gilfile_events(out);
	written->lost = w.lost;
	end = gt_gilfile_finish(out, err ? GIL_END_ERROR : cut->reason, cut->end_ns, w.lost,
				&written->bytes);
	gt_selfcheck_free(w.check);
	return err ? err : end;
}
