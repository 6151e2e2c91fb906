// SPDX-License-Identifier: Apache-2.0
//
// Ground truth for the attach tests: functions that hold, release and wait for the GIL at known
// times and measure themselves, and threads, interpreters and ends that Python alone cannot make.
// Loaded by target.py with ctypes: all are called through PyDLL (the caller has the GIL), but those
// marked so through CDLL (ctypes has released it). CPython's functions come from the process
// itself, so no headers are needed and one object serves every version.

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void *PyEval_SaveThread(void);
void PyEval_RestoreThread(void *tstate);
int PyGILState_Ensure(void);
void PyGILState_Release(int state);
void *PyThreadState_Get(void);
void *PyThreadState_Swap(void *tstate);
void *PyThreadState_New(void *interpreter);
void *PyThreadState_GetInterpreter(void *tstate) __attribute__((weak)); // 3.9
void *Py_NewInterpreter(void);
void Py_EndInterpreter(void *tstate);
int PyRun_SimpleString(const char *code);
void *PyModule_Create2(void *def, int api) __attribute__((weak)); // 3.0

// 3.12
struct status {
	int type;
	const char *func, *text;
	int exitcode;
};

struct interpreter_config {
	int use_main_obmalloc, allow_fork, allow_exec, allow_threads, allow_daemon_threads;
	int check_multi_interp_extensions, gil;
};

struct status Py_NewInterpreterFromConfig(void **tstate, const struct interpreter_config *config)
	__attribute__((weak));

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

// Says 'x'.
int gh_say(int say)
{
	char c = 'x';

	return write(say, &c, 1) == 1 ? 0 : -1;
}

struct gh_end {
	int64_t mono_ns;
	int32_t tid;
	int32_t pad;
};

// Ends the calling thread at once, without a word to Python; tells on `say` who ends, and when.
// Through PyDLL the GIL stays locked for ever; also for CDLL.
void gh_end_thread(int say)
{
	struct gh_end end = {.tid = (int32_t)syscall(SYS_gettid)};

	end.mono_ns = now_ns(CLOCK_MONOTONIC);
	if (write(say, &end, sizeof(end)) != sizeof(end))
		abort();
	syscall(SYS_exit, 0);
}

static void end_by_signal(int number)
{
	(void)number;
	syscall(SYS_exit, 0);
}

// Also through CDLL: a thread that gets SIGUSR1 ends like one that calls pthread_exit().
void gh_end_by_signal(void)
{
	struct sigaction sa = {.sa_handler = end_by_signal};

	sigaction(SIGUSR1, &sa, NULL);
}

struct foreign {
	pthread_t thread;
	pthread_barrier_t *all;
	int rounds, tid;
};

static void *foreign(void *arg)
{
	struct foreign *f = arg;

	prctl(PR_SET_NAME, "foreign");
	f->tid = (int)syscall(SYS_gettid);
	pthread_barrier_wait(f->all);
	for (int i = 0; i < f->rounds; i++)
		PyGILState_Release(PyGILState_Ensure());
	return NULL;
}

// Through CDLL: n threads of which Python knows nothing take and release the GIL `rounds` times
// each, and nothing else.
int gh_foreign(int n, int rounds, int *tids)
{
	struct foreign *f = calloc((size_t)n, sizeof(*f));
	pthread_barrier_t all;

	if (!f || pthread_barrier_init(&all, NULL, (unsigned int)n))
		return -1;
	for (int i = 0; i < n; i++) {
		f[i].all = &all;
		f[i].rounds = rounds;
		if (pthread_create(&f[i].thread, NULL, foreign, &f[i]))
			return -1; // the others wait for ever; the test is over
	}
	for (int i = 0; i < n; i++) {
		pthread_join(f[i].thread, NULL);
		tids[i] = f[i].tid;
	}
	pthread_barrier_destroy(&all);
	free(f);
	return 0;
}

// Goes to a new interpreter with a GIL of its own, which the caller then holds.
static void *interpreter_apart(void)
{
	struct interpreter_config config = {.allow_threads = 1,
					    .check_multi_interp_extensions = 1,
					    .gil = 2 /* PyInterpreterConfig_OWN_GIL */};
	void *there = NULL;

	if (!Py_NewInterpreterFromConfig || Py_NewInterpreterFromConfig(&there, &config).type)
		return NULL;
	return there;
}

// n times to an interpreter with a GIL of its own and back: each way releases one GIL and takes
// the other. The span is that of these 2n ways.
int gh_swap(int n, struct gh_span *out)
{
	void *here = PyThreadState_Get(), *there = interpreter_apart();

	if (!there)
		return -1;
	PyThreadState_Swap(here);
	out->begin_mono_ns = now_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < n; i++) {
		PyThreadState_Swap(there);
		PyThreadState_Swap(here);
	}
	out->end_mono_ns = now_ns(CLOCK_MONOTONIC);
	PyThreadState_Swap(there);
	Py_EndInterpreter(there);
	PyThreadState_Swap(here);
	return 0;
}

static void *apart;

// Holds the GIL of an interpreter of its own until the process ends; says 'h'.
void gh_hold_apart(int say)
{
	apart = PyThreadState_GetInterpreter(interpreter_apart());
	if (write(say, "h", 1) != 1)
		abort();
	for (;;)
		pause();
}

// Waits for that GIL, for ever.
void gh_wait_apart(void)
{
	PyThreadState_Swap(PyThreadState_New(apart));
}

// Runs code in a new interpreter that shares the GIL of the main one.
int gh_legacy(const char *code)
{
	void *here = PyThreadState_Get(), *there = Py_NewInterpreter();
	int ret = -1;

	if (there) {
		ret = PyRun_SimpleString(code);
		Py_EndInterpreter(there);
	}
	PyThreadState_Swap(here);
	return ret;
}

// What a free-threaded build (3.13 on) wants to see of a module: it says nothing of the GIL, so
// the import switches it on.
static struct {
	uint64_t tid;
	uint16_t flags;
	uint8_t mutex, gc_bits;
	uint32_t refs_local;
	int64_t refs_shared;
	void *type, *init;
	int64_t index;
	void *copy;
	const char *name, *doc;
	int64_t size;
	void *methods, *slots, *traverse, *clear, *release;
} module = {.refs_local = UINT32_MAX, .name = "gilhold", .size = -1};

void *PyInit_gilhold(void)
{
	return PyModule_Create2 ? PyModule_Create2(&module, 1013) : NULL;
}
