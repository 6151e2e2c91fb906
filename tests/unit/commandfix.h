/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commandfix.h - for tests of command.h: starts commands whose output and input are pipes of the
 * test, awaits news of them, and looks at them from outside. cmocka.h comes before.
 */
#ifndef GT_TEST_COMMANDFIX_H
#define GT_TEST_COMMANDFIX_H

#include "command.h"
#include "gilfix.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define OUT        9 /* what commands write to; handed down, as a shell does with 9>file */
#define TIMEOUT_MS 60000

static char self[PATH_MAX]; /* this program */

struct run {
	struct gt_command *c;
	int rd, in; /* what it writes to OUT; what it reads from ends when this is closed */
	char out[8192];
};

static inline void open_pipes(struct run *r)
{
	int out[2], in[2];

	assert_int_equal(pipe2(out, O_CLOEXEC) | pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(dup2(out[1], OUT), OUT);
	assert_int_equal(dup2(in[0], 0), 0);
	close(out[1]);
	close(in[0]);
	*r = (struct run){.rd = out[0], .in = in[1]};
}

static inline int run_start_piped(struct run *r, struct gt_command_opts opts, char *const *argv)
{
	int err;

	opts.argv = argv;
	err = gt_command_start(&opts, &r->c);
	close(OUT);
	return err;
}

static inline int run_start(struct run *r, struct gt_command_opts opts, char *const *argv)
{
	int err;

	open_pipes(r);
	err = run_start_piped(r, opts, argv);
	if (err) {
		close(r->rd);
		close(r->in);
	}
	return err;
}

#define ARGV(...) ((char *const[]){__VA_ARGS__, NULL})
#define START(r, ...)                                                                              \
	assert_int_equal(run_start(r, (struct gt_command_opts){0}, ARGV(__VA_ARGS__)), 0)
#define START_SH(r, script) START(r, (char *)"/bin/sh", (char *)"-c", (char *)(script))

static inline enum gt_command_news next(struct run *r)
{
	enum gt_command_news news = GT_COMMAND_NOTHING;

	while (news == GT_COMMAND_NOTHING) {
		struct pollfd p = {.fd = gt_command_fd(r->c), .events = POLLIN};
		int n = poll(&p, 1, TIMEOUT_MS);

		if (!n)
			fail_msg("no news for %d s", TIMEOUT_MS / 1000);
		if (n > 0)
			news = gt_command_news(r->c);
	}
	return news;
}

#define EXPECT(r, news) assert_int_equal(next(r), news)

/* It reads a line, if it does. */
static inline void let_read(struct run *r)
{
	assert_int_equal(write(r->in, "\n", 1), 1);
}

/* A byte that it has written. */
static inline char get(struct run *r)
{
	char c;

	assert_int_equal(read(r->rd, &c, 1), 1);
	return c;
}

/* Its output, when the last process that could write there has ended. */
static inline void read_out(struct run *r)
{
	size_t len = 0;
	ssize_t n;

	close(r->in);
	while ((n = read(r->rd, r->out + len, sizeof(r->out) - 1 - len)) > 0)
		len += (size_t)n;
	r->out[len] = '\0';
	close(r->rd);
}

/* Awaits its end: nothing is left of it then but this status and what it has written. */
static inline int run_end(struct run *r)
{
	int status;

	EXPECT(r, GT_COMMAND_ENDED);
	status = gt_command_status(r->c);
	assert_int_equal(gt_command_news(r->c), GT_COMMAND_NOTHING);
	gt_command_free(r->c);
	read_out(r);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	return status;
}

static inline int held_then_end(struct run *r, int for_good)
{
	EXPECT(r, GT_COMMAND_AT_ENTRY);
	gt_command_continue(r->c, for_good);
	return run_end(r);
}

static inline char *read_proc(pid_t pid, const char *what)
{
	static char text[1 << 18];
	char path[64];
	size_t len = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && (n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	if (fd >= 0)
		close(fd);
	text[len] = '\0';
	return text;
}

static inline int state_of(pid_t pid)
{
	const char *paren = strrchr(read_proc(pid, "stat"), ')');

	return paren ? paren[2] : '?';
}

static inline pid_t tracer_of(pid_t pid)
{
	const char *tracer = strstr(read_proc(pid, "status"), "\nTracerPid:\t");

	assert_non_null(tracer);
	return (pid_t)strtol(tracer + 12, NULL, 10);
}

static inline const char *exe_of(pid_t pid)
{
	static char exe[PATH_MAX];
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	n = readlink(path, exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = '\0';
	return strrchr(exe, '/') ? strrchr(exe, '/') + 1 : exe;
}

/* A file in our folder, executable by all. */
static inline char *make_file(const char *name, const void *content, size_t size, mode_t mode)
{
	static char paths[4][PATH_MAX];
	static unsigned int turn;
	char *path = paths[turn++ % 4];
	int fd;

	fix_path(path, name);
	fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, size), size);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

static inline char *copy_program(const char *from, const char *name, mode_t mode)
{
	char *path = make_file(name, "", 0, 0700);

	assert_int_equal(fix_tool("cp", from, path, NULL, NULL), 0);
	assert_int_equal(chmod(path, mode), 0);
	return path;
}

/*
 * Runs `what` in a process of its own, which may change itself for good, start a command there, and
 * be killed. Its failed assertions end it with a status that is not 0.
 */
static inline int in_process(void (*what)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		setenv("CMOCKA_TEST_ABORT", "1", 1); /* not on to the next test, here */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		what();
		fflush(stdout);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline void expect_failure(int err, char *name)
{
	struct run r;

	assert_int_equal(run_start(&r, (struct gt_command_opts){0}, ARGV(name)), err);
	assert_null(r.c);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static inline int run_setup(void **state)
{
	char path[PATH_MAX] = "";

	(void)state;
	unsetenv("SUDO_UID"); /* the tests may run under sudo */
	assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
	snprintf(self, sizeof(self), "%s", copy_program(path, "self", 0755));
	return 0;
}

#endif
