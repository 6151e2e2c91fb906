// SPDX-License-Identifier: Apache-2.0
/* Clock samples against the clocks themselves, read before and after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static uint64_t now(clockid_t id)
{
	struct timespec ts;

	assert_int_equal(clock_gettime(id, &ts), 0);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void mono_is_the_monotonic_clock(void **state)
{
	uint64_t before = now(CLOCK_MONOTONIC), t = gt_mono_ns();

	(void)state;
	assert_in_range(t, before, now(CLOCK_MONOTONIC));
}

/* However long we are preempted, each reading lies between those before and after it. */
static void sample_lies_between_readings(void **state)
{
	static const clockid_t id[4] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME,
					CLOCK_BOOTTIME};

	(void)state;
	for (int round = 0; round < 100; round++) {
		uint64_t before[4], after[4], got[4];
		struct gil_clock c;

		for (int i = 0; i < 4; i++)
			before[i] = now(id[i]);
		gt_clock_sample(&c);
		for (int i = 0; i < 4; i++)
			after[i] = now(id[i]);
		got[0] = c.mono_ns;
		got[1] = c.raw_ns;
		got[2] = c.unix_ns;
		got[3] = c.boot_ns;
		for (int i = 0; i < 4; i++)
			assert_in_range(got[i], before[i] - c.error_ns, after[i] + c.error_ns);
	}
}

/* The distance of two clocks is the same in every sample, within what the samples admit. */
static void distances_agree_within_the_error(void **state)
{
	struct gil_clock a, b;

	(void)state;
	gt_clock_sample(&a);
	for (int round = 0; round < 100; round++) {
		int64_t slack, boot, raw;

		gt_clock_sample(&b);
		slack = (int64_t)(a.error_ns + b.error_ns) + 2;
		boot = (int64_t)((b.boot_ns - b.mono_ns) - (a.boot_ns - a.mono_ns));
		assert_true(boot <= slack && boot >= -slack);
		/* RAW is not slewed: MONOTONIC runs up to 500 ppm off it. */
		raw = (int64_t)((b.raw_ns - b.mono_ns) - (a.raw_ns - a.mono_ns));
		slack += (int64_t)((b.mono_ns - a.mono_ns) / 2000);
		assert_true(raw <= slack && raw >= -slack);
		assert_true(b.mono_ns > a.mono_ns);
	}
}

/* A process that waits to be killed; again: its own children would get yet another namespace. */
static pid_t wait_in_child(int again)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (again && unshare(CLONE_NEWTIME))
		_exit(1);
	raise(SIGSTOP); /* tells the parent that it is so far */
	_exit(0);
}

/* From here on, children of this process get a time namespace that is 1000 s ahead. */
static int shift_children(void)
{
	static const char text[] = "monotonic 1000 5\n";
	const ssize_t n = sizeof(text) - 1;
	int fd, err;

	if (unshare(CLONE_NEWTIME))
		return -1;
	fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
	err = fd < 0 || write(fd, text, (size_t)n) != n;
	if (fd >= 0)
		close(fd);
	return err;
}

static int ahead_of(pid_t pid, int64_t *ahead)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
		return -ECHILD;
	return gt_clock_ahead(pid, ahead);
}

/* In a process of its own, which is in our namespace and whose children are not. */
static int look_at_children(void)
{
	pid_t plain, again;
	int64_t ahead = 1;

	if (shift_children())
		return 77;
	if (gt_clock_ahead(getpid(), &ahead) || ahead)
		return 1;
	plain = wait_in_child(0);
	again = wait_in_child(1);
	if (ahead_of(plain, &ahead) || ahead != 1000000000005)
		return 2;
	/* What its timens_offsets tells is not of itself. */
	if (ahead_of(again, &ahead) != -ENOTSUP)
		return 3;
	return 0;
}

static void clocks_of_other_processes(void **state)
{
	int64_t ahead = 1;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(gt_clock_ahead(getppid(), &ahead), 0);
	assert_true(ahead == 0);
	ahead = 1;
	assert_int_equal(gt_clock_ahead(0, &ahead), 0); /* nobody that we could see */
	assert_true(ahead == 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(look_at_children());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) /* no time namespaces, or no right to make one */
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mono_is_the_monotonic_clock),
		cmocka_unit_test(sample_lies_between_readings),
		cmocka_unit_test(distances_agree_within_the_error),
		cmocka_unit_test(clocks_of_other_processes),
	};

	return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
