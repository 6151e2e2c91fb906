/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simfix.h - a process that is simulated from a seed: threads that wait for GILs, hold them, yield
 * and end; what they truly were in, and the events that a recorder writes. For fuzz_timeline.c.
 */
#ifndef GT_SIMFIX_H
#define GT_SIMFIX_H

#include "giltrace/gilfile.h"
#include "keepfix.h"

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

#define SIM_THREADS 6
#define SIM_GILS    2
#define SIM_FOREIGN 5 /* a condition variable that is no GIL */

enum sim_state { OUT, WAITS, HOLDS, YIELDS };

struct sim {
	uint64_t rnd, now;
	struct {
		enum sim_state state;
		uint8_t gil;
		uint8_t forced; /* HOLDS: how it ends; YIELDS: 1 */
		uint64_t since_ns;
		enum sim_state before; /* what memory told of the start, until that is handed on */
		uint8_t before_gil;
	} threads[SIM_THREADS];
	int holder[SIM_GILS];          /* -1: free */
	uint8_t told[SIM_FOREIGN + 1]; /* GIL record: 1 unconfirmed, 2 confirmed */
	struct list truth;
	struct gil_event *events;
	size_t n, size;
	uint64_t record_from_ns;
	uint8_t begun;
	uint8_t reads_memory; /* as of 3.13: who waited or held at the start is told */
	uint8_t forced_told;  /* format 1.1 */
};

static uint64_t roll(struct sim *s, uint64_t sides)
{
	return next_random(&s->rnd) % sides;
}

static struct gil_event *push(struct sim *s, uint8_t kind, int tid, uint8_t gil)
{
	MUST(s->n < s->size);
	s->events[s->n] = (struct gil_event){
		.kind = kind, .mono_ns = s->now, .tid = (uint32_t)tid, .gil = gil};
	return &s->events[s->n++];
}

static void push_gil(struct sim *s, int tid, uint8_t gil, uint8_t confirmed)
{
	s->told[gil] = (uint8_t)(1 + confirmed);
	push(s, GIL_GIL, tid, gil)->unconfirmed = !confirmed;
}

/* An event, and before it what the recorder tells of its GIL. */
static void event(struct sim *s, uint8_t kind, int tid, uint8_t gil)
{
	struct gil_event *ev;

	if (!s->begun)
		return;
	if (kind == GIL_RELEASE && !s->told[gil])
		push_gil(s, tid, gil, 0);
	else if ((kind == GIL_ACQUIRE || kind == GIL_WAIT) && s->told[gil] < 2)
		push_gil(s, tid, gil, 1);
	ev = push(s, kind, tid, gil);
	if (kind == GIL_RELEASE && gil < SIM_GILS)
		ev->forced = s->forced_told && s->threads[tid].forced;
}

/* The gate is opened: what memory tells of this moment. */
static void begin_recording(struct sim *s)
{
	s->begun = 1;
	if (!s->reads_memory)
		return;
	for (uint8_t gil = 0; gil < SIM_GILS; gil++)
		push_gil(s, 0, gil, 1);
	for (int i = 0; i < SIM_THREADS; i++) {
		s->threads[i].before = s->threads[i].state;
		s->threads[i].before_gil = s->threads[i].gil;
	}
}

static void change(struct sim *s, int tid, enum sim_state state)
{
	static const uint8_t kinds[] = {
		[WAITS] = GT_SPAN_TAKE, [HOLDS] = GT_SPAN_HOLD, [YIELDS] = GT_SPAN_DROP};
	struct gt_span span = {.tid = (uint32_t)tid,
			       .gil = s->threads[tid].gil,
			       .kind = kinds[s->threads[tid].state],
			       .forced = s->threads[tid].forced,
			       .start_ns = s->threads[tid].since_ns,
			       .end_ns = s->now};

	if (s->threads[tid].state != OUT)
		append(&s->truth, &span);
	s->threads[tid].state = state;
	s->threads[tid].forced = state == YIELDS;
	s->threads[tid].since_ns = s->now;
}

static void acquire(struct sim *s, int tid)
{
	uint8_t gil = s->threads[tid].gil;

	event(s, GIL_ACQUIRE, tid, gil);
	change(s, tid, HOLDS);
	s->holder[gil] = tid;
	for (int i = 0; i < SIM_THREADS; i++)
		if (i != tid && s->threads[i].state == YIELDS && s->threads[i].gil == gil)
			change(s, i, OUT);
}

static void release(struct sim *s, int tid)
{
	uint8_t gil = s->threads[tid].gil;
	int wanted = 0, forced, yields;

	for (int i = 0; i < SIM_THREADS; i++)
		wanted |= s->threads[i].state == WAITS && s->threads[i].gil == gil;
	forced = wanted && roll(s, 2);
	yields = forced && roll(s, 4); /* or another was quicker */
	/* Format 1.0 tells of those that yield only. */
	s->threads[tid].forced = yields || (forced && s->forced_told);
	event(s, GIL_RELEASE, tid, gil);
	s->holder[gil] = -1;
	if (!yields) {
		change(s, tid, OUT);
		return;
	}
	change(s, tid, YIELDS);
	s->now += roll(s, 3);
	event(s, GIL_YIELD, tid, gil);
}

/* Its id is used again. */
static void end_thread(struct sim *s, int tid)
{
	if (s->begun)
		push(s, GIL_EXIT, tid, 0);
	change(s, tid, OUT);
}

static void step(struct sim *s)
{
	int tid = (int)roll(s, SIM_THREADS);

	s->now += 1 + roll(s, 20);
	if (!s->begun && s->now >= s->record_from_ns)
		begin_recording(s);
	if (s->threads[tid].state < HOLDS && !roll(s, 30)) {
		end_thread(s, tid);
		return;
	}
	switch (s->threads[tid].state) {
	case OUT:
		s->threads[tid].gil = roll(s, 4) == 0;
		if (s->holder[s->threads[tid].gil] < 0) {
			acquire(s, tid);
		} else {
			event(s, GIL_WAIT, tid, s->threads[tid].gil);
			change(s, tid, WAITS);
		}
		break;
	case WAITS:
		if (s->holder[s->threads[tid].gil] < 0)
			acquire(s, tid);
		else if (!roll(s, 4))
			event(s, GIL_WAIT, tid, s->threads[tid].gil);
		break;
	case HOLDS:
		if (!roll(s, 8) && !s->told[SIM_FOREIGN])
			event(s, GIL_RELEASE, tid, SIM_FOREIGN);
		else
			release(s, tid);
		break;
	case YIELDS:
		break;
	}
}

#endif
