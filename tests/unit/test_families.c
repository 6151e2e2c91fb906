// SPDX-License-Identifier: Apache-2.0
/* What a forked child has from its parent, and other processes have not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "families.h"

static struct gt_sites sites = {.n = 1};

/* The first file that is mapped in this process stands for a CPython. */
static struct gt_pytarget a_target(const struct gt_proc *p)
{
	struct gt_pytarget py = {.n = 1, .python[0].sites = &sites};
	gt_autofree struct gt_map *maps = NULL;
	size_t n;

	assert_int_equal(gt_proc_exec_maps(p, &maps, &n), 0);
	assert_true(n > 0);
	py.python[0].map = maps[0];
	py.python[0].runtime = 4711;
	return py;
}

/* A child that waits, as it is or as another program, in which it says so. */
static pid_t start(int executes)
{
	int fd[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe(fd), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fd[1], STDOUT_FILENO);
		if (executes)
			execl("/bin/sh", "sh", "-c", "echo; exec sleep 100", NULL);
		(void)!write(STDOUT_FILENO, "\n", 1);
		for (;;)
			pause();
	}
	assert_int_equal(read(fd[0], &c, 1), 1);
	close(fd[0]);
	close(fd[1]);
	return pid;
}

static const struct gt_pytarget *ask(const struct gt_families *f, pid_t pid, pid_t parent)
{
	const struct gt_pytarget *py;
	struct gt_proc p;

	assert_int_equal(gt_proc_try_open(pid, &p), 0);
	py = gt_families_inherited(f, &p, parent);
	gt_proc_close(&p);
	return py;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void forked_children_inherit(void **state)
{
	struct gt_families *f = gt_families_new();
	const struct gt_pytarget *py;
	struct gt_pytarget mine;
	struct gt_proc self;
	pid_t child = start(0), other = start(1);

	(void)state;
	assert_non_null(f);
	assert_int_equal(gt_proc_open(getpid(), &self), 0);
	mine = a_target(&self);
	assert_null(ask(f, child, getpid())); /* nothing is known yet */
	gt_families_remember(f, &self, &mine);
	py = ask(f, child, getpid());
	assert_non_null(py);
	assert_int_equal(py->python[0].runtime, 4711);
	assert_int_equal(py->python[0].map.start, mine.python[0].map.start);
	assert_null(ask(f, child, child)); /* of another parent */
	assert_null(ask(f, child, 0));
	assert_null(ask(f, other, getpid())); /* it has executed something else */
	assert_null(ask(NULL, child, getpid()));
	end(child);
	end(other);
	gt_proc_close(&self);
	gt_families_free(f);
}

/* The oldest are forgotten; and where a mapping has gone meanwhile, nothing is remembered. */
static void only_the_latest_are_known(void **state)
{
	struct gt_families *f = gt_families_new();
	struct gt_pytarget mine, gone;
	struct gt_proc self;
	pid_t child = start(0);

	(void)state;
	assert_int_equal(gt_proc_open(getpid(), &self), 0);
	mine = gone = a_target(&self);
	gone.python[0].map.end += 4096;
	gt_families_remember(f, &self, &gone);
	assert_null(ask(f, child, getpid()));
	gt_families_remember(f, &self, &mine);
	self.pid++; /* as if of others */
	for (int i = 0; i < 255; i++)
		gt_families_remember(f, &self, &mine);
	assert_non_null(ask(f, child, getpid()));
	gt_families_remember(f, &self, &mine);
	assert_null(ask(f, child, getpid()));
	end(child);
	gt_proc_close(&self);
	gt_families_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forked_children_inherit),
		cmocka_unit_test(only_the_latest_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
