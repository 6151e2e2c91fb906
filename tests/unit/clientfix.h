/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clientfix.h - for tests of libgiltrace.so through its interface, against fake_giltrace: start one
 * with a script, and look at what is left of it in this process. cmocka.h comes before.
 */
#ifndef GT_TEST_CLIENTFIX_H
#define GT_TEST_CLIENTFIX_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "giltrace/giltrace.h"

#define READY                                                                                      \
	"send=file 1 /data/GIL_1_rank_0.gil;send=ready protocol=1 version=9.9.9 processes=2 "      \
	"backend=x;"
#define QUICK 100   /* ms; where the time is to pass */
#define LONG  20000 /* where it is not */

static char fake[PATH_MAX], scratch[PATH_MAX];

static struct left {
	int descriptors, threads;
} left_before;

/* Into a buffer that has room for it. */
__attribute__((format(printf, 3, 4))) static inline void print(char *to, size_t size,
							       const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(to, size, fmt, ap);
	va_end(ap);
	assert_true(n >= 0 && (size_t)n < size);
}

static inline int entries(const char *folder)
{
	DIR *d = opendir(folder);
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static inline struct left look_around(void)
{
	return (struct left){entries("/proc/self/fd"), entries("/proc/self/task")};
}

/* Before and after each test: neither descriptors nor threads nor children may be left. */
static inline int nothing_yet(void **state)
{
	(void)state;
	left_before = look_around();
	return 0;
}

static inline int nothing_left(void **state)
{
	struct left now = look_around();

	(void)state;
	/* A thread that was joined is there for a moment more. */
	for (int i = 0; i < 1000 && now.threads > left_before.threads; i++) {
		(void)poll(NULL, 0, 1);
		now = look_around();
	}
	assert_int_equal(now.descriptors, left_before.descriptors);
	assert_int_equal(now.threads, left_before.threads);
	assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	assert_int_equal(errno, ECHILD);
	return 0;
}

#define client_test(f) cmocka_unit_test_setup_teardown(f, nothing_yet, nothing_left)

static inline int start_with(struct giltrace_opts *opts, const char *script, struct giltrace **g)
{
	char text[PATH_MAX + 1000];
	const char *args[] = {text, NULL};
	int err;

	print(text, sizeof(text), "--script=%s", script);
	if (!opts->command)
		opts->command = fake;
	opts->args = args;
	err = giltrace_start(opts, g);
	opts->args = NULL; /* they are ours */
	assert_int_equal(!err, *g != NULL);
	return err;
}

static inline int start(const char *script, uint32_t timeout_ms, struct giltrace **g)
{
	struct giltrace_opts opts = GILTRACE_OPTS_INIT;

	opts.timeout_ms = timeout_ms;
	return start_with(&opts, script, g);
}

static inline struct giltrace *started(const char *script, uint32_t timeout_ms)
{
	struct giltrace *g;
	int err = start(script, timeout_ms, &g);

	if (err)
		fail_msg("not started: %s", giltrace_error());
	return g;
}

static inline void assert_says(const char *words)
{
	if (!strstr(giltrace_error(), words))
		fail_msg("giltrace_error() is \"%s\", without \"%s\"", giltrace_error(), words);
}

static inline uint32_t state_of(struct giltrace *g)
{
	struct giltrace_stats stats = GILTRACE_STATS_INIT;

	assert_int_equal(giltrace_stats(g, &stats), 0);
	return stats.state;
}

static inline double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A path in the scratch folder that is new. */
static inline const char *new_path(void)
{
	static char path[PATH_MAX + 16];
	static int n;

	print(path, sizeof(path), "%s/%d", scratch, ++n);
	return path;
}

/* In a child, where cmocka's assertions would go on with the other tests. */
#define need(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			dprintf(2, "%s:%d: not so in the child: %s; %s\n", __FILE__, __LINE__,     \
				#condition, giltrace_error());                                     \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* Runs a test's part in a child of its own, which says what it does not find by need(). */
static inline void in_child(void (*part)(struct giltrace *g), struct giltrace *g)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		part(g);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* What main() does before the tests, and after them. */
static inline int find_fake(void)
{
	const char *build = getenv("GT_BUILD_DIR");

	print(fake, sizeof(fake), "%s/tests/fake_giltrace", build ? build : ".");
	print(scratch, sizeof(scratch), "%s/gt-client-XXXXXX", P_tmpdir);
	if (access(fake, X_OK) || !mkdtemp(scratch)) {
		fprintf(stderr, "%s is not there, or no scratch folder\n", fake);
		return 1;
	}
	unsetenv("GILTRACE_COMMAND");
	unsetenv("GILTRACE_DATA_DIR");
	return 0;
}

static inline void remove_scratch(void)
{
	DIR *d = opendir(scratch);
	struct dirent *e;

	while (d && (e = readdir(d)))
		(void)unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	(void)rmdir(scratch);
}

#endif
