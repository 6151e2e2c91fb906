// SPDX-License-Identifier: Apache-2.0
#include "client_spawn.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/wait.h>

#include "client_time.h"

#define TERM_MS      500  /* sudo hands SIGTERM on, and giltrace finishes */
#define KILL_MS      3000 /* even a killed giltrace takes its probes away before it is gone */
#define MAX_DELAY_MS 16

/* Children that we may not kill (sudo is root's) and that have not ended in time; 0: free. */
static _Atomic pid_t left_over[16];

/* ---- begin ---- */

/* For a child of a program with more rights than its user, whose variables are the user's. */
static char **minimal_environment(void)
{
	static char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
	char **env = calloc(2, sizeof(*env));

	if (env)
		env[0] = path;
	return env;
}

/* This environment, without what makes a program load this one's libraries. NULL: no memory. */
static char **environment(void)
{
	static const char *const not_ours[] = {"LD_PRELOAD=", "LD_AUDIT=", "LD_LIBRARY_PATH="};
	size_t n = 0, kept = 0;
	char **env;

	while (environ && environ[n])
		n++;
	env = calloc(n + 1, sizeof(*env));
	for (size_t i = 0; env && i < n; i++) {
		int skip = 0;

		for (size_t j = 0; j < GT_ARRAY_SIZE(not_ours); j++)
			skip |= !strncmp(environ[i], not_ours[j], strlen(not_ours[j]));
		if (!skip)
			env[kept++] = environ[i];
	}
	return env;
}

static int set_up(posix_spawnattr_t *attr, posix_spawn_file_actions_t *files, const int fds[3])
{
	sigset_t none, every;
	int err = 0;

	sigemptyset(&none);
	sigfillset(&every);
	err = err ? err : posix_spawnattr_setsigmask(attr, &none);
	err = err ? err : posix_spawnattr_setsigdefault(attr, &every);
	err = err ? err : posix_spawnattr_setpgroup(attr, 0);
	err = err ? err
		  : posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
							   POSIX_SPAWN_SETPGROUP);
	for (int i = 0; i < 3; i++)
		err = err ? err : posix_spawn_file_actions_adddup2(files, fds[i], i);
	return err;
}

static int spawn(char *const argv[], char *const env[], const int fds[3], pid_t *pid)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int err;

	err = posix_spawnattr_init(&attr);
	if (err)
		return -err;
	err = posix_spawn_file_actions_init(&files);
	if (!err) {
		err = set_up(&attr, &files, fds);
		if (!err)
			err = posix_spawnp(pid, argv[0], &files, &attr, argv, env);
		posix_spawn_file_actions_destroy(&files);
	}
	posix_spawnattr_destroy(&attr);
	return -err;
}

/* Takes the statuses of those that have ended since. Threads may do so at the same time. */
static void reap_left_over(void)
{
	for (size_t i = 0; i < GT_ARRAY_SIZE(left_over); i++) {
		pid_t pid = atomic_exchange(&left_over[i], 0);

		if (pid && !waitpid(pid, NULL, WNOHANG))
			atomic_store(&left_over[i], pid);
	}
}

int gt_spawn(char *const argv[], const int fds[3], pid_t *pid)
{
	gt_autofree char **env = getauxval(AT_SECURE) ? minimal_environment() : environment();

	reap_left_over();
	return env ? spawn(argv, env, fds, pid) : -ENOMEM;
}

/* ---- end ---- */

/*
 * Has the child ended until then? -ETIMEDOUT; 0: its status has not been taken, so its id is still
 * its own; -ECHILD: somebody else has taken it. It is looked at again and again: a pidfd would be
 * one more descriptor in forked children, and where it is forbidden (seccomp), this would be needed
 * all the same.
 */
static int await(pid_t pid, int64_t deadline)
{
	for (int delay = 1;; delay = delay < MAX_DELAY_MS ? delay * 2 : delay) {
		siginfo_t info = {.si_pid = 0};
		int left = gt_left(deadline);

		if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT))
			return -ECHILD;
		if (info.si_pid)
			return 0;
		if (!left)
			return -ETIMEDOUT;
		(void)poll(NULL, 0, left < delay ? left : delay);
	}
}

static void give_up(pid_t pid)
{
	for (size_t i = 0; i < GT_ARRAY_SIZE(left_over); i++) {
		pid_t none = 0;

		if (atomic_compare_exchange_strong(&left_over[i], &none, pid))
			return;
	}
}

/* Ends a child that does not do so by itself. As await(). */
static int stop(pid_t pid)
{
	int err;

	(void)kill(-pid, SIGTERM);
	err = await(pid, gt_deadline(TERM_MS));
	if (err == -ECHILD)
		return err;
	(void)kill(-pid, SIGKILL); /* even if it has ended: others of its group need not have */
	return err ? await(pid, gt_deadline(KILL_MS)) : 0;
}

int gt_spawn_end(pid_t pid, int64_t deadline, int *status)
{
	int late = await(pid, deadline), err = late;

	if (err == -ETIMEDOUT)
		err = stop(pid);
	if (err == -ETIMEDOUT)
		give_up(pid);
	if (err || waitpid(pid, status, WNOHANG) != pid)
		*status = -1;
	return late == -ETIMEDOUT ? late : 0;
}
