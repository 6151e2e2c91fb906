// SPDX-License-Identifier: Apache-2.0
/* The list of processes: what is known of one is kept as long as it is the same process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "proclist.h"

static pid_t start(int dies_with_us)
{
	pid_t pid = fork();

	if (!pid) {
		if (dies_with_us)
			prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void knows_what_was_found_out(void **state)
{
	struct gt_proclist l = {.n = 0};
	pid_t pid = start(1);
	struct gt_known *k;

	(void)state;
	assert_null(gt_proclist_find(&l, pid));
	gt_proclist_refresh(&l, 1000);
	assert_non_null(gt_proclist_find(&l, 1));
	k = gt_proclist_find(&l, pid);
	assert_non_null(k);
	assert_int_equal(k->pid, pid);
	assert_int_equal(k->parent, getpid());
	assert_int_equal(k->first_ns, 1000);
	assert_false(k->taken || k->followed || k->next_ns);
	k->taken = k->followed = 1;
	k->next_ns = 7000;
	gt_proclist_refresh(&l, 2000);
	k = gt_proclist_find(&l, pid);
	assert_non_null(k);
	assert_int_equal(k->first_ns, 1000);
	assert_int_equal(k->next_ns, 7000);
	assert_true(k->taken && k->followed);
	k->start_ticks++; /* as if the pid had been another's */
	gt_proclist_refresh(&l, 3000);
	k = gt_proclist_find(&l, pid);
	assert_non_null(k);
	assert_int_equal(k->first_ns, 3000);
	assert_false(k->taken || k->followed || k->next_ns);
	end(pid);
	gt_proclist_refresh(&l, 4000);
	assert_null(gt_proclist_find(&l, pid));
	free(l.list);
}

/* Another parent takes over the children of one that ends. */
static void parents_change(void **state)
{
	struct gt_proclist l = {.n = 0};
	int fd[2];
	pid_t parent, child = 0;

	(void)state;
	assert_int_equal(pipe(fd), 0);
	parent = fork();
	if (!parent) {
		child = start(0);
		_exit(write(fd[1], &child, sizeof(child)) != sizeof(child));
	}
	assert_int_equal(read(fd[0], &child, sizeof(child)), sizeof(child));
	gt_proclist_refresh(&l,
			    1000); /* the parent may have ended, but is there until waited for */
	assert_non_null(gt_proclist_find(&l, parent));
	assert_non_null(gt_proclist_find(&l, child));
	gt_proclist_find(&l, child)->taken = 1;
	assert_int_equal(waitpid(parent, NULL, 0), parent);
	gt_proclist_refresh(&l, 2000);
	assert_null(gt_proclist_find(&l, parent));
	assert_non_null(gt_proclist_find(&l, child));
	assert_int_not_equal(gt_proclist_find(&l, child)->parent, parent);
	assert_true(gt_proclist_find(&l, child)->taken);
	kill(child, SIGKILL);
	close(fd[0]);
	close(fd[1]);
	free(l.list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(knows_what_was_found_out),
		cmocka_unit_test(parents_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
