// SPDX-License-Identifier: Apache-2.0
/* The owner's descriptor, and those that we were not meant to have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base.h"
#include "inherited.h"

static int is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void refuses_what_is_no_such_socket(void **state)
{
	int stream[2], dgram[2], ip = socket(AF_INET, SOCK_STREAM, 0), pipes[2];
	int lone = socket(AF_UNIX, SOCK_SEQPACKET, 0), good[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, stream), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, dgram), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, good), 0);
	assert_int_equal(pipe(pipes), 0);
	assert_non_null(gt_inherited_check(-1));
	assert_non_null(gt_inherited_check(4711));
	assert_non_null(gt_inherited_check(stream[0]));
	assert_non_null(gt_inherited_check(dgram[0]));
	assert_non_null(gt_inherited_check(ip));
	assert_non_null(gt_inherited_check(lone));
	assert_non_null(gt_inherited_check(pipes[0]));
	assert_null(gt_inherited_check(good[0]));
	for (int i = 0; i < 2; i++) {
		close(stream[i]);
		close(dgram[i]);
		close(good[i]);
		close(pipes[i]);
	}
	close(ip);
	close(lone);
}

/*
 * What a child finds when its end of a socket is `at` and others are open around it: 0, or the
 * line of what is wrong. The descriptors 0, 1 and 2 of the test are its own again afterwards.
 */
static int take_in_child(int at)
{
	int sv[2], status, fd;
	struct stat null, st;
	pid_t pid;
	char byte;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv))
		return __LINE__;
	pid = fork();
	if (!pid) {
		if (dup2(sv[1], 50) < 0 || dup2(50, at) < 0)
			_exit(101);
		for (int other = 3; other < 20; other++)
			if (other != at && dup2(50, other) < 0)
				_exit(102);
		if (dup2(50, 900) < 0)
			_exit(103);
		fd = gt_inherited_take(at);
		if (fd < 3 || fcntl(fd, F_GETFD) != FD_CLOEXEC)
			_exit(104);
		for (int other = 3; other < 1000; other++)
			if (other != fd && is_open(other))
				_exit(105);
		for (int other = 0; other < 3; other++)
			if (!is_open(other))
				_exit(106);
		if (at < 3 && (stat("/dev/null", &null) || fstat(at, &st) ||
			       st.st_rdev != null.st_rdev || fcntl(at, F_GETFD)))
			_exit(107);
		_exit(send(fd, "x", 1, 0) == 1 ? 0 : 108);
	}
	close(sv[1]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return __LINE__;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return WIFEXITED(status) ? WEXITSTATUS(status) : __LINE__;
	if (recv(sv[0], &byte, 1, 0) != 1 || recv(sv[0], &byte, 1, 0))
		return __LINE__;
	close(sv[0]);
	return 0;
}

static void closes_all_others(void **state)
{
	(void)state;
	assert_int_equal(take_in_child(0), 0);
	assert_int_equal(take_in_child(1), 0);
	assert_int_equal(take_in_child(3), 0);
	assert_int_equal(take_in_child(11), 0);
	assert_int_equal(take_in_child(900), 0);
}

/* A kernel without close_range(2) (5.9). */
/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): names of ld's --wrap */
long __wrap_syscall(long number, ...);
static int no_close_range;
extern long __real_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
	va_list ap;
	unsigned int first, last, flags;

	va_start(ap, number);
	first = va_arg(ap, unsigned int);
	last = va_arg(ap, unsigned int);
	flags = va_arg(ap, unsigned int);
	va_end(ap);
	if (no_close_range) {
		errno = ENOSYS;
		return -1;
	}
	return __real_syscall(number, first, last, flags);
}

/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static void closes_them_one_by_one(void **state)
{
	(void)state;
	no_close_range = 1;
	assert_int_equal(take_in_child(0), 0);
	assert_int_equal(take_in_child(11), 0);
	no_close_range = 0;
}

/* What a job has blocked and ignored is none of ours, nor is its Ctrl-C. */
static void begins_anew(void **state)
{
	int sv[2], status;
	struct sigaction chld;
	sigset_t set;
	pid_t pid;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	pid = fork();
	if (!pid) {
		sigfillset(&set);
		if (sigprocmask(SIG_SETMASK, &set, NULL) || signal(SIGCHLD, SIG_IGN) == SIG_ERR)
			_exit(101);
		if (getpgrp() == getpid())
			_exit(102);
		gt_inherited_reset(sv[1]);
		if (sigprocmask(SIG_SETMASK, NULL, &set) || !sigisemptyset(&set))
			_exit(103);
		if (sigaction(SIGCHLD, NULL, &chld) || chld.sa_handler != SIG_DFL)
			_exit(104);
		_exit(getpgrp() == getpid() ? 0 : 105);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* A group that was made for us is kept. */
	pid = fork();
	if (!pid) {
		pid_t group;

		if (setpgid(0, 0))
			_exit(101);
		group = getpgrp();
		pid = fork();
		if (!pid) {
			gt_inherited_reset(sv[1]);
			_exit(getpgrp() == group ? 0 : 102);
		}
		_exit(waitpid(pid, &status, 0) == pid && !status ? 0 : 103);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(sv[0]);
	close(sv[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses_what_is_no_such_socket),
		cmocka_unit_test(closes_all_others),
		cmocka_unit_test(closes_them_one_by_one),
		cmocka_unit_test(begins_anew),
	};

	return cmocka_run_group_tests_name("inherited", tests, NULL, NULL);
}
