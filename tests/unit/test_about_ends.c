// SPDX-License-Identifier: Apache-2.0
/* Real processes that end, or become something else, while we look; and those never to look at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kid.h"
#include "log.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>

/* ---- while it ends, and after ---- */

static void assert_gone(const struct gt_proc *p)
{
	struct gt_about a = {.uid = 77};
	char buf[64] = "before";

	assert_int_equal(gt_about(p, &a), -ESRCH);
	assert_int_equal(a.uid, 77); /* untouched */
	assert_int_equal(gt_about_cmdline(p, buf, sizeof(buf)), -ESRCH);
	assert_int_equal(gt_about_is_excluded(p), -ESRCH);
}

static void ended(void **state)
{
	struct spawned s = spawn(no_env);
	char buf[64] = "before";
	struct gt_about a;
	struct gt_proc p;
	siginfo_t info;

	(void)state;
	assert_int_equal(gt_proc_open(s.pid, &p), 0);
	assert_int_equal(gt_about(&p, &a), 0);
	assert_string_equal(a.cmdline, "cat");
	close(s.fd);
	assert_int_equal(waitid(P_PID, (id_t)s.pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(gt_about(&p, &a), -ESRCH); /* a zombie */
	assert_int_equal(gt_about_is_excluded(&p), 1);
	assert_int_equal(gt_about_cmdline(&p, buf, sizeof(buf)), 0);
	assert_string_equal(buf, "");
	assert_int_equal(waitpid(s.pid, NULL, 0), s.pid);
	assert_gone(&p);
	gt_proc_close(&p);
}

/* It ends between any two reads. */
static void ends_meanwhile(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++) {
		struct kid k = kid_start(NULL);
		struct gt_about a;
		struct gt_proc p;
		int r, looks = 0;

		assert_int_equal(gt_proc_open(k.pid, &p), 0);
		if (i % 2)
			kill(k.pid, SIGKILL);
		else
			close(k.in);
		do {
			r = gt_about(&p, &a);
			assert_true(r == 0 || r == -ESRCH);
			assert_true(r || a.parent == getpid());
			looks++;
		} while (!r && looks < 1000000);
		assert_int_equal(r, -ESRCH);
		assert_int_equal(waitpid(k.pid, NULL, 0), k.pid);
		assert_gone(&p);
		gt_proc_close(&p);
		if (i % 2)
			close(k.in);
		close(k.out);
	}
}

static void executes_meanwhile(void **state)
{
	char *const argv[] = {(char *)"another name", NULL};
	int go[2], in[2], ready[2];
	struct gt_about a;
	struct gt_proc p;
	char c;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(go, O_CLOEXEC) | pipe2(in, O_CLOEXEC) | pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ready[0]);
		close(in[1]);
		dup2(in[0], 0);
		if (read(go[0], &c, 1) == 1)
			execve("/bin/cat", argv, no_env);
		_exit(127);
	}
	close(ready[1]);
	assert_int_equal(gt_proc_open(pid, &p), 0);
	assert_int_equal(gt_about(&p, &a), 0);
	assert_memory_equal(a.cmdline, arguments[0], strlen(arguments[0]));
	assert_int_equal(gt_about_is_excluded(&p), 1); /* a child that still is what we are */
	assert_int_equal(write(go[1], "x", 1), 1);
	assert_int_equal(read(ready[0], &c, 1), 0);
	assert_int_equal(gt_about(&p, &a), 0);
	assert_string_equal(a.cmdline, "another name");
	assert_int_equal(gt_about_is_excluded(&p), 0);
	gt_proc_close(&p);
	close(in[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(in[0]);
	close(go[0]);
	close(go[1]);
	close(ready[0]);
}

/*
 * In a PID namespace of its own, where the next pid can be chosen: another process gets the pid of
 * one that is still held.
 */
static int reuse_a_pid(void)
{
	struct kid k = kid_start(NULL), again;
	struct gt_about a;
	struct gt_proc old, new;
	char last[16];

	if (gt_proc_open(k.pid, &old))
		return 2;
	kid_end(&k);
	snprintf(last, sizeof(last), "%d", (int)k.pid - 1);
	if (write_file("/proc/sys/kernel/ns_last_pid", last))
		return 77;
	again = kid_start(set_short_title);
	if (again.pid != k.pid)
		return 3;
	assert_gone(&old);
	assert_int_equal(gt_proc_open(again.pid, &new), 0);
	assert_int_equal(gt_about(&new, &a), 0);
	assert_string_equal(a.cmdline, "VLLM::W");
	assert_gone(&old);
	gt_proc_close(&old);
	gt_proc_close(&new);
	kid_end(&again);
	return 0;
}

static void reused_pid(void **state)
{
	int status;
	pid_t outer = fork();

	(void)state;
	assert_true(outer >= 0);
	if (!outer) {
		pid_t first = unshare(CLONE_NEWPID | CLONE_NEWNS) ||
					      mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL)
				      ? -1
				      : fork();

		if (first < 0)
			_exit(77);
		if (!first) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			_exit(mount("proc", "/proc", "proc", 0, NULL) ? 77 : reuse_a_pid());
		}
		if (waitpid(first, &status, 0) != first)
			_exit(1);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	assert_int_equal(waitpid(outer, &status, 0), outer);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("skipped: a PID namespace with its own /proc takes CAP_SYS_ADMIN\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- what is never a target ---- */

static int is_excluded(pid_t pid)
{
	struct gt_proc p;
	int r;

	assert_int_equal(gt_proc_open(pid, &p), 0);
	r = gt_about_is_excluded(&p);
	gt_proc_close(&p);
	return r;
}

/* Makes a process whose main thread ends while another goes on: /proc shows a zombie. */
static int without_main_thread(void)
{
	pid_t pid = fork();
	pthread_t t;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pthread_create(&t, NULL, wait_forever, NULL))
		_exit(1);
	pthread_exit(NULL);
}

static void main_thread_ended(void **state)
{
	struct kid k = kid_start(without_main_thread);
	struct gt_proc p;

	(void)state;
	assert_int_equal(gt_proc_open(did(&k), &p), 0);
	for (int i = 0; i < 10000000 && gt_about_is_excluded(&p) == 0; i++)
		;
	assert_int_equal(gt_proc_ended(&p), 0);
	assert_int_equal(gt_about_is_excluded(&p), 1); /* though it is no child of ours */
	kill(did(&k), SIGKILL);
	gt_proc_close(&p);
	kid_end(&k);
}

static void excluded(void **state)
{
	struct spawned s = spawn(no_env);
	struct kid k = kid_start(NULL);
	char comm[32] = "";
	FILE *f;

	(void)state;
	assert_int_equal(is_excluded(getpid()), 1);
	assert_int_equal(is_excluded(k.pid), 1);
	assert_int_equal(is_excluded(s.pid), 0); /* a child, but another program */
	assert_int_equal(is_excluded(getppid()), 0);
	kid_end(&k); /* first: it has a copy of s.fd */
	spawn_end(&s);

	f = fopen("/proc/2/comm", "r");
	if (f && fgets(comm, sizeof(comm), f) && !strcmp(comm, "kthreadd\n"))
		assert_int_equal(is_excluded(2), 1);
	else
		print_message("not tried: no kernel threads in this PID namespace\n");
	if (f)
		fclose(f);
}

static int quiet(void **state)
{
	(void)state;
	gt_log_setup("test", GT_LOG_ERROR);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ended),
		cmocka_unit_test(ends_meanwhile),
		cmocka_unit_test(executes_meanwhile),
		cmocka_unit_test(reused_pid),
		cmocka_unit_test(main_thread_ended),
		cmocka_unit_test(excluded),
	};

	(void)argc;
	arguments = argv;
	return cmocka_run_group_tests_name("about_ends", tests, quiet, NULL);
}
