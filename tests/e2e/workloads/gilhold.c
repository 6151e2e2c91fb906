// SPDX-License-Identifier: Apache-2.0
//
// Ground truth for the attach tests: functions that hold, release and wait for the GIL at known
// times and measure themselves. Compiled by the tests, loaded by target.py with ctypes: all are
// called through PyDLL (the caller has the GIL), but gh_free through CDLL (ctypes has released
// it). The two CPython functions come from the process itself, so no headers are needed and one
// object serves every version.

#include <semaphore.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

void *PyEval_SaveThread(void);
void PyEval_RestoreThread(void *tstate);

// What a function measured: CLOCK_MONOTONIC at its two ends, CLOCK_REALTIME at the first.
struct gh_span {
	int64_t begin_mono_ns;
	int64_t end_mono_ns;
	int64_t begin_unix_ns;
};

static sem_t waiter_ready, holder_holds;

static int64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static void busy(int64_t ns, struct gh_span *out)
{
	out->begin_unix_ns = now_ns(CLOCK_REALTIME);
	out->begin_mono_ns = now_ns(CLOCK_MONOTONIC);
	do
		out->end_mono_ns = now_ns(CLOCK_MONOTONIC);
	while (out->end_mono_ns - out->begin_mono_ns < ns);
}

void gh_init(void)
{
	sem_init(&waiter_ready, 0, 0);
	sem_init(&holder_holds, 0, 0);
}

// Takes the GIL anew, lets gh_wait start to wait, holds the GIL for `ns`, releases it.
void gh_hold(int64_t ns, struct gh_span *out)
{
	void *ts = PyEval_SaveThread();

	while (sem_wait(&waiter_ready))
		;
	PyEval_RestoreThread(ts);
	sem_post(&holder_holds);
	busy(ns, out);
	ts = PyEval_SaveThread();
	PyEval_RestoreThread(ts);
}

// Waits for the GIL that gh_hold holds; the span is the wait.
void gh_wait(struct gh_span *out)
{
	void *ts = PyEval_SaveThread();

	sem_post(&waiter_ready);
	while (sem_wait(&holder_holds))
		;
	out->begin_unix_ns = now_ns(CLOCK_REALTIME);
	out->begin_mono_ns = now_ns(CLOCK_MONOTONIC);
	PyEval_RestoreThread(ts);
	out->end_mono_ns = now_ns(CLOCK_MONOTONIC);
}

// Through CDLL: busy for `ns` without the GIL.
void gh_free(int64_t ns, struct gh_span *out)
{
	busy(ns, out);
}

// Holds the GIL until a byte comes: says so on `say`, then reads from `hear`.
int gh_hold_until(int say, int hear)
{
	char c = 'h';

	return write(say, &c, 1) == 1 && read(hear, &c, 1) == 1 ? 0 : -1;
}

// Without the GIL until a byte comes; then takes it. Says 'w' before the first.
int gh_wait_from(int say, int hear)
{
	void *ts = PyEval_SaveThread();
	char c = 'w';
	int ret = write(say, &c, 1) == 1 && read(hear, &c, 1) == 1 ? 0 : -1;

	PyEval_RestoreThread(ts);
	return ret;
}
