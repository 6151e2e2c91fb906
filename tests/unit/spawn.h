/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn.h - for tests: a child process with a given environment, alive until spawn_end().
 * It is a `cat` that reads from a pipe held by the test, so it also ends with the test.
 */
#ifndef GT_TEST_SPAWN_H
#define GT_TEST_SPAWN_H

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct spawned {
	pid_t pid;
	int fd; /* closing it lets cat end */
};

/* Returns when the child runs `cat` with that environment (exec closes the ready pipe). */
static inline struct spawned spawn(char *const env[])
{
	char *const argv[] = {(char *)"cat", NULL};
	struct spawned s;
	int in[2], ready[2];
	char c;

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	s.pid = fork();
	assert_true(s.pid >= 0);
	if (s.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* also where an assertion fails */
		dup2(in[0], 0);
		execve("/bin/cat", argv, env);
		_exit(write(ready[1], "x", 1) == 1 ? 127 : 126);
	}
	close(ready[1]);
	close(in[0]);
	assert_int_equal(read(ready[0], &c, 1), 0); /* a byte: exec failed */
	close(ready[0]);
	s.fd = in[1];
	return s;
}

static inline void spawn_end(struct spawned *s)
{
	close(s->fd);
	assert_int_equal(waitpid(s->pid, NULL, 0), s->pid);
}

#endif
