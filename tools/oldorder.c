// SPDX-License-Identifier: Apache-2.0
/*
 * Each event has a window, from `earliest` to `latest`: its time and the slack behind it, made
 * narrower by its thread's other events, so that both ends only grow along a thread. An event may
 * be handed on before another if its earliest does not lie behind the other's latest. Of those
 * that may be next the state of the GIL chooses; where it is free and several threads acquire, the
 * one with the smallest sum of its release's earliest and its acquire's latest. If one of two must
 * come first by their windows, its sum is the smaller one: with A, B the acquires and a, b the
 * releases, A must come first if b.earliest > A.latest, and B need not if a.earliest <= B.latest;
 * added, b.earliest + B.latest > a.earliest + A.latest. So wherever there is an order in which all
 * windows are kept, this is one.
 */
#include "oldorder.h"

#include "oldheap.h"

#define NOBODY UINT32_MAX

/* In an event's word; its time is above. */
#define KIND_BITS 2
#define KIND_MASK 3u
enum old_kind { OLD_TAKE, OLD_ACQUIRE, OLD_RELEASE, OLD_DROPPED };

struct thread {
	uint64_t *events;
	uint16_t *early; /* by how much its `latest` is before its time and the slack */
	size_t n, size;
	size_t at;                 /* the head: the next event to be handed on */
	uint64_t earliest, latest; /* of the head */
	uint32_t tid;
};

struct gt_oldorder {
	struct thread *threads;
	uint32_t *by_tid; /* index of a thread + 1 */
	uint32_t size;    /* of threads */
	unsigned int unit;
	struct gt_oldorder_stats stats;

	unsigned int slack_ns;
	int (*emit)(void *ctx, const struct gil_event *ev);
	void *ctx;
	uint32_t holder; /* whose next event is the release */
	uint64_t gil_ns; /* of the latest acquire or release */
	uint64_t handed; /* events */
	/* A thread is in `coming` or, where its head may be next and the GIL decides, in both
	 * others. */
	struct gt_oldheap coming;          /* by earliest */
	struct gt_oldheap pressing, ready; /* by latest; by the sum, see above */
	struct gt_oldheap out;             /* by time */
};

int gt_oldorder_create(unsigned int unit, struct gt_oldorder **out)
{
	struct gt_oldorder *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	o->unit = unit;
	o->holder = NOBODY;
	o->by_tid = calloc(GT_OLDORDER_TID_END, sizeof(*o->by_tid));
	if (!o->by_tid) {
		gt_oldorder_free(o);
		return -ENOMEM;
	}
	*out = o;
	return 0;
}

void gt_oldorder_free(struct gt_oldorder *o)
{
	if (!o)
		return;
	for (uint32_t i = 0; i < o->stats.threads; i++) {
		free(o->threads[i].events);
		free(o->threads[i].early);
	}
	free(o->threads);
	free(o->by_tid);
	gt_oldheap_free(&o->coming);
	gt_oldheap_free(&o->pressing);
	gt_oldheap_free(&o->ready);
	gt_oldheap_free(&o->out);
	free(o);
}

const struct gt_oldorder_stats *gt_oldorder_stats(const struct gt_oldorder *o)
{
	return &o->stats;
}

int gt_oldorder_has_thread(const struct gt_oldorder *o, uint32_t tid)
{
	return tid < GT_OLDORDER_TID_END && o->by_tid[tid];
}

/* ---- what is handed in ---- */

static int get_thread(struct gt_oldorder *o, uint32_t tid, struct thread **out)
{
	if (!o->by_tid[tid]) {
		if (o->stats.threads == o->size) {
			uint32_t size = o->size ? o->size * 2 : 16;
			struct thread *t = reallocarray(o->threads, size, sizeof(*t));

			if (!t)
				return -ENOMEM;
			o->threads = t;
			o->size = size;
		}
		o->threads[o->stats.threads] = (struct thread){.tid = tid};
		o->by_tid[tid] = ++o->stats.threads;
	}
	*out = &o->threads[o->by_tid[tid] - 1];
	return 0;
}

static int make_room(struct thread *t, unsigned int unit)
{
	size_t size = t->size ? t->size * 2 : 8;
	uint64_t *events;

	if (t->size - t->n >= unit)
		return 0;
	events = reallocarray(t->events, size, sizeof(*events));
	if (!events)
		return -ENOMEM;
	t->events = events;
	t->size = size;
	return 0;
}

static enum old_kind old_kind(uint8_t kind)
{
	return kind == GIL_TAKE      ? OLD_TAKE
	       : kind == GIL_ACQUIRE ? OLD_ACQUIRE
	       : kind == GIL_RELEASE ? OLD_RELEASE
				     : OLD_DROPPED;
}

int gt_oldorder_add(struct gt_oldorder *o, uint32_t tid, const uint8_t kinds[], const uint64_t ns[])
{
	struct thread *t;
	int err;

	if (o->stats.events > GT_OLDORDER_EVENTS_MAX - o->unit)
		return -E2BIG;
	err = get_thread(o, tid, &t);
	if (!err)
		err = make_room(t, o->unit);
	if (err)
		return err;
	for (unsigned int i = 0; i < o->unit; i++) {
		t->events[t->n++] = ns[i] << KIND_BITS | old_kind(kinds[i]);
		if (!o->stats.first_ns || ns[i] < o->stats.first_ns)
			o->stats.first_ns = ns[i];
	}
	o->stats.events += o->unit;
	return 0;
}

static void count_move(struct gt_oldorder *o, uint64_t by_ns)
{
	o->stats.moved++;
	if (by_ns > o->stats.moved_max_ns)
		o->stats.moved_max_ns = by_ns;
}

/* ---- the windows of a thread's events ---- */

static uint64_t event_ns(const struct thread *t, size_t i)
{
	return t->events[i] >> KIND_BITS;
}

static enum old_kind event_kind(const struct thread *t, size_t i)
{
	return (enum old_kind)(t->events[i] & KIND_MASK);
}

static void set_ns(struct thread *t, size_t i, uint64_t ns)
{
	t->events[i] = ns << KIND_BITS | event_kind(t, i);
}

/* How many units lie more than the slack before one that came earlier. */
static uint64_t count_unsorted(const struct thread *t, unsigned int unit, unsigned int slack_ns)
{
	uint64_t last_ns = 0, n = 0;

	for (size_t i = 0; i < t->n; i += unit) {
		if (event_ns(t, i) + slack_ns < last_ns)
			n++;
		for (size_t k = i; k < i + unit; k++)
			if (event_ns(t, k) > last_ns)
				last_ns = event_ns(t, k);
	}
	return n;
}

/* Two neighbouring runs of units in `from`, each sorted, into one in `to`. */
static void merge_runs(const uint64_t *from, uint64_t *to, size_t mid, size_t end, size_t unit)
{
	size_t a = 0, b = mid;

	for (size_t i = 0; i < end; i += unit) {
		size_t *next = b == end || (a < mid && from[a] >> KIND_BITS <= from[b] >> KIND_BITS)
				       ? &a
				       : &b;

		memcpy(to + i, from + *next, unit * sizeof(*to));
		*next += unit;
	}
}

/* By the time of each unit's first event; units of one time stay as they came. */
static int sort(struct thread *t, size_t unit)
{
	uint64_t *to = calloc(t->n, sizeof(*to));

	if (!to)
		return -ENOMEM;
	for (size_t run = unit; run < t->n; run *= 2) {
		uint64_t *from = t->events;

		for (size_t i = 0; i < t->n; i += 2 * run) {
			size_t left = t->n - i;

			merge_runs(from + i, to + i, run < left ? run : left,
				   2 * run < left ? 2 * run : left, unit);
		}
		t->events = to;
		to = from;
	}
	free(to);
	t->size = t->n;
	return 0;
}

/* What is out of order by no more than the slack is not to be sorted: it gets the same time. */
static void move_near(struct gt_oldorder *o, struct thread *t)
{
	for (size_t i = 1; i < t->n; i++) {
		uint64_t last_ns = event_ns(t, i - 1), ns = event_ns(t, i);

		if (ns < last_ns && ns + o->slack_ns >= last_ns) {
			set_ns(t, i, last_ns);
			count_move(o, last_ns - ns);
		}
	}
}

/*
 * Into the order of time, as far as it is not, with respect to the slack: first whole units, as a
 * file may have been put together in any order. If they overlap then, which cannot be, by events.
 */
static int straighten(struct gt_oldorder *o, struct thread *t)
{
	uint64_t unsorted = count_unsorted(t, o->unit, o->slack_ns);
	int err = 0;

	o->stats.unsorted += unsorted;
	if (unsorted)
		err = sort(t, o->unit);
	if (err || o->unit == 1 || !count_unsorted(t, o->unit, o->slack_ns))
		return err;
	if (!unsorted)
		o->stats.unsorted += count_unsorted(t, o->unit, o->slack_ns);
	move_near(o, t);
	return sort(t, 1);
}

/* By how much the windows are narrower because of later events. */
static int narrow(const struct gt_oldorder *o, struct thread *t)
{
	uint64_t latest = UINT64_MAX;

	t->early = calloc(t->n, sizeof(*t->early));
	if (!t->early)
		return -ENOMEM;
	for (size_t i = t->n; i--;) {
		uint64_t end_ns = event_ns(t, i) + o->slack_ns;

		if (latest > end_ns)
			latest = end_ns;
		t->early[i] = (uint16_t)(end_ns - latest);
	}
	return 0;
}

/* Of the head; t->earliest is still that of the event before it. */
static void set_window(const struct gt_oldorder *o, struct thread *t)
{
	uint64_t ns = event_ns(t, t->at);

	if (ns > t->earliest)
		t->earliest = ns;
	t->latest = ns + o->slack_ns - t->early[t->at];
}

/* Is the head an acquire with the release right behind it? *ns: the earliest that can be. */
static int is_whole_hold(const struct thread *t, uint64_t *ns)
{
	size_t next = t->at + 1;

	if (event_kind(t, t->at) != OLD_ACQUIRE || next == t->n ||
	    event_kind(t, next) != OLD_RELEASE)
		return 0;
	*ns = event_ns(t, next) > t->earliest ? event_ns(t, next) : t->earliest;
	return 1;
}

/* ---- handing on ---- */

/* Until the head of a thread is known, which may be earlier, it waits in o->out. */
static int hand_on(struct gt_oldorder *o, uint32_t thread, uint64_t ns)
{
	struct thread *t = &o->threads[thread];
	struct gt_oldheap_entry e = {.key = ns,
				     .tie = o->handed++,
				     .thread = thread,
				     .what = (uint32_t)event_kind(t, t->at)};

	if (ns != event_ns(t, t->at))
		count_move(o, ns - event_ns(t, t->at));
	if (ns > t->earliest)
		t->earliest = ns;
	t->at++;
	return gt_oldheap_push(&o->out, &e);
}

static int write_out(struct gt_oldorder *o, uint64_t until_ns)
{
	static const uint8_t kinds[] = {[OLD_TAKE] = GIL_TAKE,
					[OLD_ACQUIRE] = GIL_ACQUIRE,
					[OLD_RELEASE] = GIL_RELEASE,
					[OLD_DROPPED] = GIL_DROPPED};

	while (o->out.n && o->out.v[0].key <= until_ns) {
		const struct gt_oldheap_entry *e = &o->out.v[0];
		const struct gil_event ev = {.mono_ns = e->key,
					     .tid = o->threads[e->thread].tid,
					     .kind = kinds[e->what]};
		int err = o->emit(o->ctx, &ev);

		if (err)
			return err;
		if (ev.mono_ns > o->stats.last_ns)
			o->stats.last_ns = ev.mono_ns;
		gt_oldheap_pop(&o->out);
	}
	return 0;
}

static int await(struct gt_oldorder *o, uint32_t thread)
{
	struct thread *t = &o->threads[thread];
	struct gt_oldheap_entry e = {.thread = thread};

	if (t->at == t->n)
		return 0;
	set_window(o, t);
	e.key = t->earliest;
	return gt_oldheap_push(&o->coming, &e);
}

/* An acquire or release is the head of the thread, and may be next. */
static int get_ready(struct gt_oldorder *o, uint32_t thread)
{
	const struct thread *t = &o->threads[thread];
	struct gt_oldheap_entry e = {.thread = thread};
	uint64_t release_ns;
	int err;

	/* At one time: releases, holds, and what is held from then on. */
	if (event_kind(t, t->at) == OLD_RELEASE) {
		e.key = 2 * t->earliest;
	} else if (is_whole_hold(t, &release_ns)) {
		e.key = release_ns + t->latest;
		e.tie = 1;
	} else {
		e.key = 2 * t->latest;
		e.tie = 2;
	}
	err = gt_oldheap_push(&o->ready, &e);
	e.tie = e.key;
	e.key = t->latest;
	return err ? err : gt_oldheap_push(&o->pressing, &e);
}

/* What the GIL has no say in: the thread that comes first goes on to its next event. */
static int pass(struct gt_oldorder *o, uint32_t thread)
{
	struct thread *t = &o->threads[thread];
	int err = hand_on(o, thread, t->earliest);

	if (err)
		return err;
	if (t->at == t->n) {
		gt_oldheap_pop(&o->coming);
	} else {
		set_window(o, t);
		gt_oldheap_rekey(&o->coming, t->earliest);
	}
	return 0;
}

/* All acquires and releases that may be next. */
static int gather(struct gt_oldorder *o)
{
	int err = 0;

	while (!err && o->coming.n &&
	       (!o->pressing.n || o->coming.v[0].key <= o->pressing.v[0].key)) {
		uint32_t thread = o->coming.v[0].thread;
		const struct thread *t = &o->threads[thread];
		enum old_kind kind = event_kind(t, t->at);

		/* Or much would wait where no thread acquires or releases. */
		if (!o->pressing.n)
			err = write_out(o, o->coming.v[0].key);
		if (err)
			return err;
		if (kind == OLD_ACQUIRE || kind == OLD_RELEASE) {
			gt_oldheap_pop(&o->coming);
			err = get_ready(o, thread);
		} else {
			err = pass(o, thread);
		}
	}
	return err;
}

static uint32_t choose(const struct gt_oldorder *o)
{
	const struct gt_oldheap_entry *pressing = &o->pressing.v[0], *best = &o->ready.v[0];
	uint64_t release_ns;

	if (o->holder != NOBODY)
		return gt_oldheap_has(&o->pressing, o->holder) ? o->holder : pressing->thread;
	/* Another cannot wait for the end of this hold, nor this one for the other: so, by time. */
	if (best->thread != pressing->thread &&
	    is_whole_hold(&o->threads[best->thread], &release_ns) && release_ns > pressing->key)
		return pressing->thread;
	return best->thread;
}

static int switch_gil(struct gt_oldorder *o, uint32_t thread)
{
	struct thread *t = &o->threads[thread];
	uint64_t ns = o->gil_ns > t->earliest ? o->gil_ns : t->earliest, release_ns;
	int err;

	if (ns > t->latest)
		ns = t->earliest; /* no order can be right */
	if (ns > o->gil_ns)
		o->gil_ns = ns;
	if (is_whole_hold(t, &release_ns))
		o->holder = thread;
	else if (event_kind(t, t->at) == OLD_ACQUIRE || thread == o->holder)
		o->holder = NOBODY;
	gt_oldheap_remove(&o->ready, thread);
	gt_oldheap_remove(&o->pressing, thread);
	err = hand_on(o, thread, ns);
	return err ? err : await(o, thread);
}

static int start(struct gt_oldorder *o)
{
	uint32_t n = o->stats.threads;
	int err = 0;

	if (gt_oldheap_by_thread(&o->coming, n) || gt_oldheap_by_thread(&o->ready, n) ||
	    gt_oldheap_by_thread(&o->pressing, n))
		return -ENOMEM;
	for (uint32_t i = 0; i < n && !err; i++) {
		struct thread *t = &o->threads[i];

		err = straighten(o, t);
		if (!err)
			err = narrow(o, t);
		if (!err)
			err = await(o, i);
	}
	return err;
}

int gt_oldorder_run(struct gt_oldorder *o, unsigned int slack_ns,
		    int (*emit)(void *ctx, const struct gil_event *ev), void *ctx)
{
	int err;

	o->slack_ns = slack_ns;
	o->emit = emit;
	o->ctx = ctx;
	err = start(o);
	while (!err) {
		err = gather(o);
		if (err || !o->pressing.n)
			break;
		/* Nothing earlier can come. */
		err = write_out(o, o->pressing.v[0].key - slack_ns);
		if (!err)
			err = switch_gil(o, choose(o));
	}
	return err ? err : write_out(o, UINT64_MAX);
}
