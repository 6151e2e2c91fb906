// SPDX-License-Identifier: Apache-2.0
//
// A second truth, from the first instruction of a program on: LD_PRELOADed, it counts the calls by
// which CPython hands the GIL over, in the file that $GT_SIGNALS names, for tests/e2e/calls.py to
// look at while they are made. CPython calls pthread_cond_signal() whenever it has taken the GIL
// and whenever it has released it (since 3.2, with the forced switches that all builds have),
// pthread_cond_timedwait() to wait for it, and pthread_cond_wait() after a forced release. On Linux
// it has no other use for condition variables in a program without interpreters or events of its
// own. A file that has room behind the counters gets a line for each call. Forked children do not
// count.

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum call { SIGNAL = 1, TIMEDWAIT, COND_WAIT };

struct line {
	uint64_t ns;
	uint32_t tid;
	uint32_t call; // 0: not written yet
};

struct told {
	atomic_ulong signals;
	uint64_t first_ns;   // of the first signal
	atomic_ulong waits;  // timed waits, those that repeat one aside
	atomic_ulong yields; // waits without a time
	atomic_ulong lines;  // ever; those beyond the room are not there
	uint64_t room;
	uint64_t pad[2];
	struct line line[];
};

static struct told nobodys;
static struct told *told = &nobodys;
static __thread int is_waiting;
static __thread uint32_t tid;

static void forget(void)
{
	told = &nobodys;
}

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("GT_SIGNALS");
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
	struct stat st;
	void *p;

	if (fd < 0)
		return;
	if (fstat(fd, &st) ||
	    (st.st_size < (off_t)sizeof(*told) && ftruncate(fd, st.st_size = sizeof(*told))))
		_exit(99);
	p = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED || pthread_atfork(NULL, NULL, forget))
		_exit(99);
	told = p;
	told->room = (st.st_size - sizeof(*told)) / sizeof(told->line[0]);
}

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static void note(struct told *t, enum call call)
{
	unsigned long i;

	is_waiting = call == TIMEDWAIT;
	if (!t->room)
		return;
	i = atomic_fetch_add(&t->lines, 1);
	if (i >= t->room)
		return;
	if (!tid)
		tid = syscall(SYS_gettid);
	t->line[i].ns = now();
	t->line[i].tid = tid;
	t->line[i].call = call;
}

// On x86-64 older programs ask for another version of them than dlsym() would find first.
static void *real(const char *name)
{
	void *f = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");

	return f ? f : dlsym(RTLD_NEXT, name);
}

int pthread_cond_signal(pthread_cond_t *cond)
{
	static int (*next)(pthread_cond_t *);

	if (!atomic_fetch_add(&told->signals, 1))
		told->first_ns = now();
	note(told, SIGNAL);
	if (!next)
		next = (int (*)(pthread_cond_t *))real("pthread_cond_signal");
	return next(cond);
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *at)
{
	static int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

	if (!is_waiting)
		atomic_fetch_add(&told->waits, 1);
	note(told, TIMEDWAIT);
	if (!next)
		next = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))real(
			"pthread_cond_timedwait");
	return next(cond, mutex, at);
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	static int (*next)(pthread_cond_t *, pthread_mutex_t *);

	atomic_fetch_add(&told->yields, 1);
	note(told, COND_WAIT);
	if (!next)
		next = (int (*)(pthread_cond_t *, pthread_mutex_t *))real("pthread_cond_wait");
	return next(cond, mutex);
}
