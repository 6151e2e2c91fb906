/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gilhistory.h - for tests: random histories of threads and GILs, as CPython lets them happen, and
 * what the probes see of them.
 */
#ifndef GT_TEST_GILHISTORY_H
#define GT_TEST_GILHISTORY_H

#include <string.h>

#include "gilrandom.h"

#define HISTORY_THREADS 12
#define HISTORY_GILS    3
#define HISTORY_SITES   3 /* of each kind */
#define HISTORY_LONG    3000

enum doing { AWAY, IN_TAKE, BLOCKED, INSIDE };

/* Threads and GILs as CPython has them; what the probes see is put down in `event`. */
struct history {
	uint64_t seed;
	int functions;
	int n_threads, n_gils;
	int holder[HISTORY_GILS]; /* index of a thread; -1: free */
	struct {
		enum doing doing;
		int gil;
		uint32_t tid;
	} thread[HISTORY_THREADS];
	uint32_t next_tid;
	struct gil_event event[HISTORY_LONG + 1]; /* a step has two at most */
	size_t n;
};

static inline void history_put(struct history *w, int thread, uint8_t kind)
{
	struct gil_event *ev = &w->event[w->n++];

	*ev = (struct gil_event){.mono_ns = 1000 + w->n, .kind = kind};
	ev->tid = w->thread[thread].tid;
	ev->gil = w->functions ? 0 : (uint8_t)w->thread[thread].gil;
	ev->site = (uint8_t)make_below(&w->seed, HISTORY_SITES);
}

static inline void history_be_born(struct history *w, int i)
{
	w->thread[i].doing = AWAY;
	/* sometimes the id of one that has ended */
	w->thread[i].tid =
		w->thread[i].tid && !make_below(&w->seed, 3) ? w->thread[i].tid : w->next_tid++;
}

static inline void history_try_to_acquire(struct history *w, int i)
{
	int gil = w->thread[i].gil;

	if (w->holder[gil] >= 0) {
		if (w->thread[i].doing != BLOCKED && !w->functions)
			history_put(w, i, GIL_WAIT);
		w->thread[i].doing = BLOCKED;
		return;
	}
	w->holder[gil] = i;
	w->thread[i].doing = INSIDE;
	if (w->functions && !make_below(&w->seed, 50)) { /* ending: take_gil itself releases */
		history_put(w, i, GIL_RELEASE);
		w->holder[gil] = -1;
		if (make_below(&w->seed, 2))
			history_put(w, i, GIL_EXIT);
		else
			w->thread[i].tid = 0; /* hangs; another takes its place here */
		history_be_born(w, i);
		return;
	}
	history_put(w, i, GIL_ACQUIRE);
}

static inline void history_step(struct history *w)
{
	int i = (int)make_below(&w->seed, (uint32_t)w->n_threads);
	int dies = !make_below(&w->seed, 40);

	switch (w->thread[i].doing) {
	case AWAY:
		if (dies) {
			history_put(w, i, GIL_EXIT);
			history_be_born(w, i);
			return;
		}
		if (!make_below(&w->seed, 4)) /* PyThreadState_Swap() */
			w->thread[i].gil = (int)make_below(&w->seed, (uint32_t)w->n_gils);
		if (w->functions)
			history_put(w, i, GIL_TAKE);
		w->thread[i].doing = IN_TAKE;
		return;
	case IN_TAKE:
		history_try_to_acquire(w, i);
		return;
	case BLOCKED:
		if (dies) {
			history_put(w, i, GIL_EXIT);
			history_be_born(w, i);
			return;
		}
		history_try_to_acquire(w, i);
		return;
	default:
		history_put(w, i, GIL_RELEASE);
		w->holder[w->thread[i].gil] = -1;
		w->thread[i].doing = AWAY;
		if (w->functions)
			history_put(w, i, GIL_DROPPED);
		else if (!make_below(&w->seed, 4))
			history_put(w, i, GIL_YIELD);
	}
}

/* For history_step(). */
static inline void history_begin(struct history *w, uint64_t seed, int functions)
{
	memset(w, 0, sizeof(*w));
	w->seed = seed;
	w->functions = functions;
	w->next_tid = 4000000;
	w->n_threads = 1 + (int)make_below(&w->seed, HISTORY_THREADS);
	w->n_gils = functions ? 1 : 1 + (int)make_below(&w->seed, HISTORY_GILS);
	for (int i = 0; i < HISTORY_GILS; i++)
		w->holder[i] = -1;
	for (int i = 0; i < w->n_threads; i++) {
		w->thread[i].gil = i % w->n_gils;
		history_be_born(w, i);
	}
}

static inline void history_make(struct history *w, uint64_t seed, int functions)
{
	history_begin(w, seed, functions);
	while (w->n < HISTORY_LONG)
		history_step(w);
}

#endif
