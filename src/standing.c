// SPDX-License-Identifier: Apache-2.0
#include "standing.h"

/*
 * A thread goes when its end is told, and that may be lost. So a process that makes threads for
 * days would fill the table: those that neither wait nor hold are forgotten then.
 */
#define THREADS_MAX 65536u

/* ---- threads ---- */

/* Where it is, or would be. */
static size_t place_of(struct gt_standing *s, uint32_t tid)
{
	size_t low = 0, high = s->n;

	if (s->latest < s->n && s->thread[s->latest].tid == tid)
		return s->latest;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->thread[mid].tid < tid)
			low = mid + 1;
		else
			high = mid;
	}
	s->latest = low;
	return low;
}

struct gt_standing_thread *gt_standing_find(struct gt_standing *s, uint32_t tid)
{
	size_t i = place_of(s, tid);

	return i < s->n && s->thread[i].tid == tid ? &s->thread[i] : NULL;
}

static int holds(const struct gt_standing *s, uint32_t tid)
{
	for (size_t i = 0; i < GT_STANDING_GILS; i++)
		if (s->gil[i].holder == tid)
			return 1;
	return 0;
}

static void forget_idle(struct gt_standing *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->n; i++)
		if (s->thread[i].waits || holds(s, s->thread[i].tid))
			s->thread[kept++] = s->thread[i];
	s->n = kept;
}

static int make_room(struct gt_standing *s)
{
	struct gt_standing_thread *grown;
	size_t room = s->room ? 2 * s->room : 16;

	if (s->n == THREADS_MAX)
		forget_idle(s);
	if (s->n < s->room)
		return 0;
	if (s->n == THREADS_MAX)
		return -ENOSPC;
	grown = reallocarray(s->thread, room, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	s->thread = grown;
	s->room = room;
	return 0;
}

/* NULL: there is no room. */
static struct gt_standing_thread *get(struct gt_standing *s, uint32_t tid)
{
	struct gt_standing_thread *t = gt_standing_find(s, tid);
	size_t i;

	if (t || !tid || make_room(s))
		return t;
	i = place_of(s, tid);
	memmove(&s->thread[i + 1], &s->thread[i], (s->n - i) * sizeof(*t));
	s->n++;
	s->thread[i] = (struct gt_standing_thread){.tid = tid};
	return &s->thread[i];
}

static void stop_waiting(struct gt_standing *s, struct gt_standing_thread *t)
{
	s->n_waiting -= t->waits;
	t->waits = 0;
}

/* Its id may be another's from now on. */
static void forget(struct gt_standing *s, uint32_t tid)
{
	struct gt_standing_thread *t = gt_standing_find(s, tid);

	for (size_t i = 0; i < GT_STANDING_GILS; i++)
		if (s->gil[i].holder == tid)
			s->gil[i].holder = 0;
	if (!t)
		return;
	stop_waiting(s, t);
	s->n--;
	memmove(t, t + 1, (size_t)(&s->thread[s->n] - t) * sizeof(*t));
}

/* As a reader takes it: what is not told leaves what was. */
static void introduce(struct gt_standing *s, const struct gil_event *ev)
{
	struct gt_standing_thread *t = get(s, ev->tid);
	size_t len;

	if (!t)
		return;
	t->told = 1;
	if (ev->thread.ns_tid)
		t->ns_tid = ev->thread.ns_tid;
	if (ev->thread.host_tid)
		t->host_tid = ev->thread.host_tid;
	memcpy(t->comm, ev->thread.comm, sizeof(t->comm));
	if (!ev->thread.name)
		return;
	len = strnlen(ev->thread.name, sizeof(t->name) - 1);
	memcpy(t->name, ev->thread.name, len);
	t->name[len] = '\0';
}

/* ---- GILs ---- */

/* After a gap nothing is known. */
static void forget_states(struct gt_standing *s)
{
	for (size_t i = 0; i < GT_STANDING_GILS; i++)
		s->gil[i].holder = 0;
	for (size_t i = 0; i < s->n && s->n_waiting; i++)
		stop_waiting(s, &s->thread[i]);
}

static void begin_wait(struct gt_standing *s, const struct gil_event *ev)
{
	struct gt_standing_thread *t = get(s, ev->tid);

	/* A wait may be told repeatedly. */
	if (!t || (t->waits && t->gil == ev->gil))
		return;
	s->n_waiting += !t->waits;
	t->waits = 1;
	t->gil = ev->gil;
	t->since_ns = ev->mono_ns;
	t->exceeded = 0;
}

static int end_wait(struct gt_standing *s, const struct gil_event *ev, struct gt_stretch *over)
{
	struct gt_standing_thread *t = s->n_waiting ? gt_standing_find(s, ev->tid) : NULL;

	if (!t || !t->waits)
		return 0;
	*over = (struct gt_stretch){.begin_ns = t->since_ns,
				    .end_ns = ev->mono_ns,
				    .tid = t->tid,
				    .gil = t->gil,
				    .is_wait = 1,
				    .exceeded = t->exceeded};
	stop_waiting(s, t);
	return over->gil == ev->gil;
}

static void begin_hold(struct gt_standing_gil *g, const struct gil_event *ev)
{
	g->holder = ev->tid;
	g->since_ns = ev->mono_ns;
	g->exceeded = 0;
}

static int end_hold(struct gt_standing *s, const struct gil_event *ev, struct gt_stretch *over)
{
	struct gt_standing_gil *g = &s->gil[ev->gil];

	*over = (struct gt_stretch){.begin_ns = g->since_ns,
				    .end_ns = ev->mono_ns,
				    .tid = ev->tid,
				    .gil = ev->gil,
				    .exceeded = g->exceeded};
	if (g->holder && g->holder == ev->tid) {
		g->holder = 0;
		return 1;
	}
	/* Function mode: where the interpreter is ending, take_gil itself releases. */
	(void)end_wait(s, ev, over);
	g->holder = 0;
	return 0;
}

static void on_gil(struct gt_standing_gil *g, const struct gil_event *ev)
{
	if (g->addr != ev->gil_ident.addr)
		g->holder = 0;
	g->told = 1;
	g->addr = ev->gil_ident.addr;
	g->unconfirmed = ev->unconfirmed;
}

/* An event tells more. */
static void on_before(struct gt_standing *s, const struct gil_event *ev)
{
	if (ev->before.state == GIL_BEFORE_WAITING)
		begin_wait(s, ev);
	else if (!s->gil[ev->gil].holder)
		begin_hold(&s->gil[ev->gil], ev);
}

int gt_standing_event(struct gt_standing *s, const struct gil_event *ev, struct gt_stretch *over)
{
	int known;

	switch (ev->kind) {
	case GIL_THREAD:
		introduce(s, ev);
		return 0;
	case GIL_EXIT:
		forget(s, ev->tid);
		return 0;
	case GIL_LOST:
	case GIL_PAUSED:
		forget_states(s);
		return 0;
	}
	if (ev->gil >= GT_STANDING_GILS)
		return 0;
	switch (ev->kind) {
	case GIL_WAIT:
	case GIL_TAKE: /* function mode: a take without contention is a wait, too, of no length */
		begin_wait(s, ev);
		return 0;
	case GIL_ACQUIRE:
		known = end_wait(s, ev, over);
		begin_hold(&s->gil[ev->gil], ev);
		return known;
	case GIL_LEFT:
		return end_wait(s, ev, over);
	case GIL_RELEASE:
		return end_hold(s, ev, over);
	case GIL_GIL:
		on_gil(&s->gil[ev->gil], ev);
		return 0;
	case GIL_BEFORE:
		on_before(s, ev);
		return 0;
	}
	return 0;
}

/* ---- limits ---- */

static int is_as_long(uint64_t since_ns, uint64_t now_ns, uint64_t limit_ns)
{
	return now_ns > since_ns && now_ns - since_ns >= limit_ns;
}

static int wait_exceeds(struct gt_standing *s, uint64_t now_ns, uint64_t wait_ns,
			struct gt_stretch *out)
{
	size_t left = s->n_waiting;

	for (size_t i = 0; i < s->n && left; i++) {
		struct gt_standing_thread *t = &s->thread[i];

		left -= t->waits;
		if (!t->waits || t->exceeded || !is_as_long(t->since_ns, now_ns, wait_ns))
			continue;
		t->exceeded = 1;
		*out = (struct gt_stretch){t->since_ns, now_ns, t->tid, t->gil, 1, 0};
		return 1;
	}
	return 0;
}

int gt_standing_exceeds(struct gt_standing *s, uint64_t now_ns, uint64_t hold_ns, uint64_t wait_ns,
			struct gt_stretch *out)
{
	for (uint8_t i = 0; i < GT_STANDING_GILS && hold_ns; i++) {
		struct gt_standing_gil *g = &s->gil[i];

		if (!g->holder || g->exceeded || !is_as_long(g->since_ns, now_ns, hold_ns))
			continue;
		g->exceeded = 1;
		*out = (struct gt_stretch){g->since_ns, now_ns, g->holder, i, 0, 0};
		return 1;
	}
	return wait_ns && wait_exceeds(s, now_ns, wait_ns, out);
}

void gt_standing_free(struct gt_standing *s)
{
	free(s->thread);
	*s = (struct gt_standing){0};
}
