/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kid.h - for tests of about.c: children that do something odd to themselves and then wait to be
 * let go. main() sets `arguments`. cmocka.h comes before.
 */
#ifndef GT_TEST_KID_H
#define GT_TEST_KID_H

#include "about.h"
#include "spawn.h"

static char **arguments; /* of main() */
static char *const no_env[] = {NULL};

struct kid {
	pid_t pid;
	int in, out; /* closing `in` lets it end */
	int answer;  /* of what it did; 0: all went well */
};

static inline int did(const struct kid *k)
{
	return k->answer;
}

static inline struct kid kid_start(int (*prepare)(void))
{
	int in[2], out[2];
	struct kid k;
	char c;

	assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
	k.pid = fork();
	assert_true(k.pid >= 0);
	if (!k.pid) {
		int answer;

		prctl(PR_SET_PDEATHSIG, SIGKILL); /* also where an assertion fails */
		close(in[1]);
		close(out[0]);
		answer = prepare ? prepare() : 0;
		if (write(out[1], &answer, sizeof(answer)) != sizeof(answer))
			_exit(1);
		_exit(read(in[0], &c, 1) == 0 ? 0 : 1);
	}
	close(in[0]);
	close(out[1]);
	k.in = in[1];
	k.out = out[0];
	assert_int_equal(read(k.out, &k.answer, sizeof(k.answer)), sizeof(k.answer));
	return k;
}

static inline void kid_end(struct kid *k)
{
	close(k->in);
	close(k->out);
	assert_int_equal(waitpid(k->pid, NULL, 0), k->pid);
}

static inline void about_kid(const struct kid *k, struct gt_about *a)
{
	struct gt_proc p;

	assert_int_equal(gt_proc_open(k->pid, &p), 0);
	assert_int_equal(gt_about(&p, a), 0);
	gt_proc_close(&p);
}

/* What setproctitle does: over arguments and environment, which lie one behind the other. */
static inline int set_title(const char *title)
{
	char *start = arguments[0], *end = start;

	if (!start)
		return 1;
	for (char **a = arguments; *a; a++)
		end = *a + strlen(*a) + 1;
	for (char **e = environ; *e; e++)
		if (*e == end)
			end = *e + strlen(*e) + 1;
	memset(start, 0, (size_t)(end - start));
	if (strlen(title) >= (size_t)(end - start))
		return 1;
	strcpy(start, title);
	return 0;
}

static inline int set_short_title(void)
{
	return set_title("VLLM::W"); /* shorter than the program's name */
}

static inline int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), ok;

	ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0)
		close(fd);
	return ok ? 0 : -1;
}

static inline void *wait_forever(void *arg)
{
	for (;;) /* setuid() wakes all threads */
		pause();
	return arg;
}

#endif
