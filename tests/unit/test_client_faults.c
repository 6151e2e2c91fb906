// SPDX-License-Identifier: Apache-2.0
/* libgiltrace.so where what it has started is no giltrace, fails, hangs, dies or talks nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/resource.h>
#include <sys/stat.h>

#include "clientfix.h"

/* ---- before the probes are live ---- */

static void fails_to_begin(void **state)
{
	static const struct {
		const char *script;
		int err;
		const char *words;
	} cases[] = {
		/* By its last packet, whatever else it says and does; by its exit status alone. */
		{"send=ended status=5 files=0;exit=1", -EACCES, "privileges or a kernel feature"},
		{"say=giltrace: cannot attach: no CAP_BPF\nsee docs/rights.md;exit=5", -EACCES,
		 "cannot attach: no CAP_BPF\nsee docs/rights.md"},
		{"say=giltrace: warning: slow;say=giltrace: no such process: 7;exit=3", -ESRCH,
		 "no such process: 7"},
		{"say=giltrace: warning: slow;exit=4", -ENOTSUP, "slow"},
		{"send=ended status=4", -ENOTSUP, "no CPython"},
		{"send=ended status=7", -EIO, "could not be written"},
		{"send=ended status=1", -ECHILD, "does not say why"},
		{"send=ended status=0", -ECHILD, "before it had begun"},
		{"send=ended status=200", -ECHILD, "does not say why"},
		{"send=ended", -ECHILD, "before it had begun"},
		{"say=giltrace: unrecognized option '--frob'\n"
		 "Try `giltrace --help' or `giltrace --usage' for more information.;exit=2",
		 -EINVAL, "unrecognized option '--frob'"},
		{"say=giltrace: unrecognized option '--control-fd=0';exit=2", -EINVAL,
		 "too old for this library"},
		{"kill=9", -ECHILD, "killed by signal 9"},
		{"send=file 1 /x;kill=15", -ECHILD, "killed by signal 15"},
		{"exit=0", -EINVAL, "is no giltrace: it ended, status 0"},
		{"say=usage: frob;exit=9", -EINVAL, "status 9, and said: usage: frob"},
		{"send=ready protocol=2;serve", -EINVAL, "protocol 2"},
		{"send=ready;serve", -EINVAL, "protocol 0"},
	};
	struct giltrace *g;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int err = start(cases[i].script, LONG, &g);

		if (err != cases[i].err)
			fail_msg("%s: %d: %s", cases[i].script, err, giltrace_error());
		assert_says(cases[i].words);
		assert_null(strstr(giltrace_error(), "Try `"));
		assert_true(strncmp(giltrace_error(), "giltrace: ", 10) != 0);
	}
}

static void write_file(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void wrong_programs(void **state)
{
	char text[PATH_MAX], plain[PATH_MAX], script[PATH_MAX];
	const struct {
		const char *command;
		int err;
		const char *words;
	} cases[] = {
		{"/bin/true", -EINVAL, "/bin/true is no giltrace: it ended, status 0"},
		{"/bin/cat", -EINVAL, "unrecognized option '--control-fd=0'"},
		{"sleep", -EINVAL, "sleep is no giltrace"},
		{"/", -EACCES, "cannot start /: "},
		{"/no/such/giltrace", -ENOENT, "there is no /no/such/giltrace"},
		{"no-such-giltrace", -ENOENT, "no program no-such-giltrace in $PATH"},
		{"no-such-sudo -n giltrace", -ENOENT, "no program no-such-sudo in $PATH"},
		{text, -EINVAL, "no program that can run here"},
		{plain, -EACCES, "cannot start "},
		{script, -ENOENT, "what it needs to run is missing"},
		/* What sudo does without a password: its status is 1, and giltrace never began. */
		{"env -i sh -c false giltrace", -EACCES, "env did not start giltrace, status 1"},
		{"env --no-such-option giltrace", -EACCES, "unrecognized option"},
	};
	struct giltrace_opts opts = GILTRACE_OPTS_INIT;
	struct giltrace *g;

	(void)state;
	print(text, sizeof(text), "%s", new_path());
	write_file(text, "I am no program.\n", 0755);
	print(plain, sizeof(plain), "%s", new_path());
	write_file(plain, "#!/bin/sh\n", 0644);
	print(script, sizeof(script), "%s", new_path());
	write_file(script, "#!/no/such/shell\n", 0755);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int err;

		opts.command = cases[i].command;
		err = giltrace_start(&opts, &g);
		if (err != cases[i].err)
			fail_msg("%s: %d: %s", cases[i].command, err, giltrace_error());
		assert_null(g);
		assert_says(cases[i].words);
	}
}

/* Is that process gone? One that nobody has waited for yet is. */
static int gone(pid_t pid)
{
	char path[64], line[256] = "";
	FILE *f;

	print(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 1;
	if (!fgets(line, sizeof(line), f))
		line[0] = '\0';
	fclose(f);
	return !*line || strstr(line, ") Z ") || strstr(line, ") X ");
}

/* Whatever hangs is ended, with its children, in bounded time. */
static void hangs_before_it_begins(void **state)
{
	static const char *const scripts[] = {
		"hang",
		"say=giltrace: hm;deaf;hang",
		"flood=100;deaf;split;hang",
		"send=file 1 /x;hang",
		"fill=nonsense;hang",
	};
	struct giltrace *g;

	(void)state;
	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		double begin = seconds();
		const char *child;

		assert_int_equal(start(scripts[i], QUICK, &g), -ETIMEDOUT);
		assert_says("was not ready within 0.100 s and was ended");
		assert_true(seconds() - begin < 3);
		child = strstr(giltrace_error(), ": child ");
		assert_int_equal(child != NULL, strstr(scripts[i], "split") != NULL);
		/* SIGKILL was sent, and takes its time. */
		while (child && !gone(atoi(child + 8))) {
			assert_true(seconds() - begin < 10);
			(void)poll(NULL, 0, 1);
		}
	}
	assert_int_equal(start("say=giltrace: hm;deaf;hang", QUICK, &g), -ETIMEDOUT);
	assert_says("ended: hm");
}

/* Nonsense without end does not keep it from its deadline. */
static void endless_nonsense(void **state)
{
	double begin = seconds();
	struct giltrace *g;

	(void)state;
	assert_int_equal(start("flood=1000000000", QUICK, &g), -ETIMEDOUT);
	assert_true(seconds() - begin < 3);
}

static void nonsense_is_skipped(void **state)
{
	struct giltrace_stats stats = GILTRACE_STATS_INIT;
	struct giltrace *g = started("send=readyish protocol=1;send=file;send=file x /y;"
				     "send=file 1;send=done 1 2 /z;send=ok;send=error;flood=100;"
				     "huge;send= ;send=ok state=paused events=9;" READY
				     "huge;serve;flood=100;huge;"
				     "send=ended status=6 events=x files= bytes=-1 later=1 lost",
				     LONG);

	(void)state;
	assert_null(giltrace_file(g, 1));
	assert_int_equal(giltrace_stats(g, &stats), 0);
	assert_int_equal(stats.state, GILTRACE_RECORDING);
	assert_int_equal(stats.events, 4711);
	assert_int_equal(giltrace_stop(g, &stats), 0);
	assert_int_equal(stats.status, 6);
	assert_int_equal(stats.events, 0);
	assert_int_equal(stats.processes, 0);
	giltrace_free(g);
}

/* ---- while it records, and at its end ---- */

static void fails_while_it_records(void **state)
{
	static const struct {
		const char *script;
		int err, status;
		const char *words;
	} cases[] = {
		{"serve;status=0;end", 0, 0, ""},
		{"serve;status=6;end", 0, 6, ""},
		{"serve;status=7;say=giltrace: /data/x: No space left;end", -EIO, 7,
		 "/data/x: No space left"},
		{"serve;status=8;say=giltrace: warning: sites missing;end", -EREMOTEIO, 8,
		 "sites missing"},
		{"serve;status=1;end", -EREMOTEIO, 1, "does not say why"},
		{"serve;status=3;end", -EREMOTEIO, 3, "no such process"},
		{"serve;status=0;end;exit=99", 0, 0, ""},
		{"serve;status=8;end;kill=9", -EREMOTEIO, 8, "does not add up"},
		/* Without its last packet. */
		{"kill=9", -EIO, -1, "killed by signal 9: what was recorded until then"},
		{"serve;kill=11", -EIO, -1, "killed by signal 11"},
		{"serve;exit=0", 0, 0, ""},
		{"peek;say=giltrace: dear me;exit=7", -EIO, 7, "dear me"},
		{"exit=42", -EREMOTEIO, 42, "does not say why"},
		/* With marks that it has not read: its end resets the connection. */
		{"peek;status=6;end", 0, 6, ""},
		{"peek;kill=9", -EIO, -1, "signal 9"},
		/* What it said before it was ready is not why it failed then. */
		{"serve;status=7;end", -EIO, 7, "a file could not be written"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct giltrace_stats stats = GILTRACE_STATS_INIT;
		char script[1000];
		struct giltrace *g;
		int err;

		print(script, sizeof(script), "say=giltrace: recording 1 process;" READY "%s",
		      cases[i].script);
		g = started(script, LONG);
		err = giltrace_mark(g, "a mark");
		assert_true(!err || err == -EPIPE);
		err = giltrace_stop(g, &stats);
		if (err != cases[i].err || stats.status != cases[i].status)
			fail_msg("%s: %d, status %d: %s", cases[i].script, err, stats.status,
				 giltrace_error());
		if (err)
			assert_says(cases[i].words);
		assert_int_equal(stats.state, GILTRACE_ENDED);
		giltrace_free(g);
	}
}

/* What it sends before it ends reaches a program that asks much later. */
static void ended_long_ago(void **state)
{
	struct giltrace_stats stats = GILTRACE_STATS_INIT;
	struct giltrace *g = started(READY "say=giltrace: warning: late;status=6;end", LONG);
	siginfo_t info;

	(void)state;
	assert_int_equal(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(giltrace_mark(g, "x"), -EPIPE);
	assert_says("the recording has ended");
	assert_int_equal(giltrace_pause(g), -EPIPE);
	assert_says("the recording has ended");
	assert_int_equal(giltrace_stats(g, &stats), 0);
	assert_int_equal(stats.state, GILTRACE_ENDED);
	assert_int_equal(stats.status, 6);
	assert_int_equal(stats.events, 30);
	assert_string_equal(giltrace_messages(g), "giltrace: warning: late\n");
	assert_int_equal(giltrace_stop(g, NULL), 0);
	giltrace_free(g);
}

/* The same where it has ended with a mark unread, which resets the connection. */
static void ended_without_reading(void **state)
{
	struct giltrace_stats stats = GILTRACE_STATS_INIT;
	struct giltrace *g = started(READY "peek;status=6;end", LONG);
	siginfo_t info;

	(void)state;
	assert_int_equal(giltrace_mark(g, "x"), 0);
	assert_int_equal(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(giltrace_stats(g, &stats), 0);
	assert_int_equal(stats.state, GILTRACE_ENDED);
	assert_int_equal(stats.status, 6);
	giltrace_free(g);
}

static void refuses(void **state)
{
	struct giltrace *g = started(READY "serve=refuse;end", LONG);

	(void)state;
	assert_int_equal(giltrace_pause(g), -EREMOTEIO);
	assert_says("giltrace refuses: not today");
	assert_int_equal(giltrace_stop(g, NULL), 0);
	giltrace_free(g);
}

static void does_not_answer(void **state)
{
	struct giltrace *g = started(READY "serve=mute;end", QUICK);
	double begin = seconds();

	(void)state;
	assert_int_equal(giltrace_pause(g), -ETIMEDOUT);
	assert_says("did not answer within 0.100 s");
	assert_true(seconds() - begin >= 0.1);
	assert_int_equal(giltrace_stop(g, NULL), 0);
	giltrace_free(g);
}

/* An answer that comes too late is not taken for that to the next request. */
static void answers_too_late(void **state)
{
	struct giltrace_stats stats = GILTRACE_STATS_INIT;
	struct giltrace *g = started(READY "serve=late;end", QUICK);

	(void)state;
	assert_int_equal(giltrace_pause(g), -ETIMEDOUT);
	assert_int_equal(giltrace_stats(g, &stats), 0); /* behind the pause's plain "ok" */
	assert_int_equal(stats.state, GILTRACE_PAUSED_NOW);
	assert_int_equal(stats.events, 4711);
	assert_int_equal(giltrace_stats(g, &stats), -ETIMEDOUT);
	assert_int_equal(giltrace_resume(g), 0);
	assert_int_equal(giltrace_stop(g, NULL), 0);
	giltrace_free(g);
}

/* A full socket: marks are dropped at once, and the end comes all the same. */
static void does_not_read(void **state)
{
	struct giltrace *g = started(READY "hang", QUICK);
	double begin = seconds();
	long sent = 0;
	int err;

	(void)state;
	while (!(err = giltrace_mark(g, "a mark")))
		sent++;
	assert_int_equal(err, -EAGAIN);
	assert_says("does not keep up");
	assert_true(sent >= 100);
	assert_true(seconds() - begin < 3);
	assert_int_equal(giltrace_stop(g, NULL), -ETIMEDOUT);
	assert_says("did not answer for 0.100 s and was ended: what was recorded");
	assert_int_equal(giltrace_stop(g, NULL), -ETIMEDOUT);
	assert_says("did not answer for 0.100 s and was ended: what was recorded");
	assert_true(seconds() - begin < 3);
	giltrace_free(g);
}

/* The other direction is full when it is asked: its answer must find room. */
static void has_said_much(void **state)
{
	struct giltrace *g =
		started(READY "fill=done 1 2 3 /data/x;serve;fill=done 1 2 3 /data/y;", LONG);

	(void)state;
	assert_int_equal(state_of(g), GILTRACE_RECORDING);
	assert_int_equal(giltrace_stop(g, NULL), 0);
	assert_string_equal(giltrace_file(g, 2), "/data/y");
	assert_null(giltrace_file(g, 3));
	giltrace_free(g);
}

/* A stop takes its time, as long as one file after the other becomes complete. */
static void many_files(void **state)
{
	struct giltrace *g = started(READY "serve;work=250;send=done 1 2 0 /data/a;work=250;"
					   "send=done 1 2 0 /data/b;work=250;end",
				     600);
	double begin = seconds();

	(void)state;
	assert_int_equal(giltrace_stop(g, NULL), 0);
	assert_true(seconds() - begin > 0.7);
	assert_string_equal(giltrace_file(g, 2), "/data/b");
	giltrace_free(g);
}

/* More than a pipe holds is said, and 16 KiB are kept; nobody waits for anybody. */
static void says_much(void **state)
{
	char script[PATH_MAX];
	struct giltrace *g;
	size_t len;

	(void)state;
	print(script, sizeof(script), READY "serve;");
	len = strlen(script);
	for (int i = 0; i < 100; i++)
		len += (size_t)snprintf(script + len, sizeof(script) - len, "babble=1000;");
	print(script + len, sizeof(script) - len, "end");
	g = started(script, LONG);
	assert_int_equal(giltrace_stop(g, NULL), 0);
	len = strlen(giltrace_messages(g));
	assert_true(len > 16000 && len < 16384);
	for (size_t i = 0; i < len; i++)
		assert_true((unsigned char)giltrace_messages(g)[i] >= ' ' ||
			    giltrace_messages(g)[i] == '\n');
	giltrace_free(g);
}

/* Stops, but does not end: its result stands, and it is ended. */
static void lingers(void **state)
{
	struct giltrace *g = started(READY "serve;status=6;end;hang", QUICK);

	(void)state;
	assert_int_equal(giltrace_stop(g, NULL), 0);
	giltrace_free(g);
	g = started(READY "serve;shut;hang", QUICK);
	assert_int_equal(giltrace_stop(g, NULL), -ETIMEDOUT);
	giltrace_free(g);
}

/* ---- a program that has no descriptor left ---- */

static void no_descriptors(void **state)
{
	struct rlimit all, few;
	struct giltrace *g = NULL;
	rlim_t first = (rlim_t)dup(0);
	int err = -1;

	(void)state;
	close((int)first);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
	few = all;
	for (rlim_t more = 0; err; more++) {
		few.rlim_cur = first + more;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		err = start(READY "serve;end", LONG, &g);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
		if (err) {
			assert_int_equal(err, -EMFILE);
			assert_says("cannot open a socket");
			(void)nothing_left(state);
		}
		assert_true(more < 16);
	}
	giltrace_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		client_test(fails_to_begin),
		client_test(wrong_programs),
		client_test(hangs_before_it_begins),
		client_test(endless_nonsense),
		client_test(nonsense_is_skipped),
		client_test(fails_while_it_records),
		client_test(ended_long_ago),
		client_test(ended_without_reading),
		client_test(refuses),
		client_test(does_not_answer),
		client_test(answers_too_late),
		client_test(does_not_read),
		client_test(has_said_much),
		client_test(many_files),
		client_test(says_much),
		client_test(lingers),
		client_test(no_descriptors),
	};
	int failed = find_fake();

	failed = failed ? failed : cmocka_run_group_tests(tests, NULL, NULL);
	remove_scratch();
	return failed;
}
