// SPDX-License-Identifier: Apache-2.0
/* libgiltrace.so with a giltrace that does what it should: the interface, call by call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grp.h>
#include <sys/auxv.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "clientfix.h"

#define SERVED READY "serve;end"

static void whole_recording(void **state)
{
	struct giltrace_stats stats = GILTRACE_STATS_INIT;
	struct giltrace *g = started("say=giltrace: early;" READY "serve;end;exit=0", LONG);

	(void)state;
	assert_int_equal(giltrace_stats(g, &stats), 0);
	assert_int_equal(stats.size, sizeof(stats));
	assert_int_equal(stats.state, GILTRACE_RECORDING);
	assert_int_equal(stats.events, 4711);
	assert_int_equal(stats.lost, 5);
	assert_int_equal(stats.bytes, 6);
	assert_true(stats.elapsed_ns == UINT64_MAX);
	assert_int_equal(stats.paused_ns, 3);
	assert_int_equal(stats.processes, 2);
	assert_int_equal(stats.marks, 0);
	assert_int_equal(giltrace_pause(g), 0);
	assert_int_equal(state_of(g), GILTRACE_PAUSED_NOW);
	assert_int_equal(giltrace_resume(g), 0);
	assert_int_equal(state_of(g), GILTRACE_RECORDING);
	assert_int_equal(giltrace_mark(g, "step 10"), 0);
	assert_int_equal(giltrace_stats(g, &stats), 0);
	assert_int_equal(stats.marks, 1);
	assert_string_equal(giltrace_file(g, 0), "/data/GIL_1_rank_0.gil");
	assert_null(giltrace_file(g, 1));
	assert_string_equal(giltrace_messages(g), "");

	assert_int_equal(giltrace_stop(g, &stats), 0);
	assert_int_equal(stats.state, GILTRACE_ENDED);
	assert_int_equal(stats.events, 30);
	assert_int_equal(stats.lost, 5);
	assert_int_equal(stats.bytes, 600);
	assert_int_equal(stats.elapsed_ns, 7000);
	assert_int_equal(stats.paused_ns, 9);
	assert_int_equal(stats.processes, 2);
	assert_int_equal(stats.status, 0);
	assert_string_equal(giltrace_file(g, 1), "/data/a b/GIL_2_rank_0.gil");
	assert_null(giltrace_file(g, 2));
	assert_non_null(strstr(giltrace_messages(g), "giltrace: early\n"));
	giltrace_free(g);
}

/* Nothing of a recording is left but what it was; not even before it is freed. */
static void after_the_end(void **state)
{
	struct giltrace_stats stats = GILTRACE_STATS_INIT;
	struct giltrace *g = started("say=giltrace: disk full;status=7;" SERVED, LONG);

	(void)state;
	for (int i = 0; i < 2; i++) {
		stats.events = 0;
		assert_int_equal(giltrace_stop(g, i ? NULL : &stats), -EIO);
		assert_says("a file could not be written");
	}
	(void)nothing_left(state);
	assert_int_equal(giltrace_mark(g, "late"), -EPIPE);
	assert_int_equal(giltrace_pause(g), -EPIPE);
	assert_says("the recording has ended: a file could not be written");
	assert_int_equal(giltrace_resume(g), -EPIPE);
	assert_int_equal(giltrace_stats(g, &stats), 0);
	assert_int_equal(stats.state, GILTRACE_ENDED);
	assert_int_equal(stats.status, 7);
	assert_int_equal(stats.events, 30);
	giltrace_free(g);
}

static void two_at_once(void **state)
{
	struct giltrace *a = started(SERVED, LONG), *b = started(SERVED, LONG);

	(void)state;
	assert_int_equal(giltrace_pause(a), 0);
	assert_int_equal(state_of(a), GILTRACE_PAUSED_NOW);
	assert_int_equal(state_of(b), GILTRACE_RECORDING);
	assert_int_equal(giltrace_stop(a, NULL), 0);
	assert_int_equal(state_of(b), GILTRACE_RECORDING);
	assert_int_equal(giltrace_stop(b, NULL), 0);
	giltrace_free(a);
	giltrace_free(b);
}

static void free_stops(void **state)
{
	const char *path = new_path();
	char script[PATH_MAX + 100];

	(void)state;
	print(script, sizeof(script), READY "serve;end;touch=%s", path);
	giltrace_free(started(script, LONG));
	assert_int_equal(access(path, F_OK), 0);
	giltrace_free(NULL);
}

static void many_in_a_row(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++) {
		struct giltrace *g = started(SERVED, LONG);

		assert_int_equal(giltrace_stop(g, NULL), 0);
		giltrace_free(g);
	}
}

/* ---- marks ---- */

static void marks(void **state)
{
	char word[128], longest[300], line[400];
	struct giltrace *g = started(READY "serve=tell;end", LONG);

	(void)state;
	/* "\u00e9" at the bytes 127 and 128 is not cut into halves. */
	memset(word, 'a', 126);
	word[126] = '\0';
	print(longest, sizeof(longest), "%s\u00e9 and more", word);
	assert_int_equal(giltrace_mark(g, longest), 0);
	assert_int_equal(giltrace_mark(g, "two\nlines\n\n"), 0);
	assert_int_equal(giltrace_mark(g, "%s %n"), 0);
	assert_int_equal(giltrace_mark(g, ""), -EINVAL);
	assert_int_equal(giltrace_mark(g, "\n"), -EINVAL);
	assert_int_equal(giltrace_mark(g, NULL), -EINVAL);
	assert_says("needs a name");
	assert_int_equal(giltrace_stop(g, NULL), 0);
	print(line, sizeof(line), "mark of %d: %s\nmark of %d: two\nlines\nmark of %d: %%s %%n\n",
	      gettid(), word, gettid(), gettid());
	assert_string_equal(giltrace_messages(g), line);
	giltrace_free(g);
}

/* ---- what giltrace gets ---- */

static void assert_told(struct giltrace *g, const char *line)
{
	char whole[PATH_MAX + 100];

	print(whole, sizeof(whole), "%s\n", line);
	if (!strstr(giltrace_messages(g), whole))
		fail_msg("\"%s\" is not in:\n%s", line, giltrace_messages(g));
}

static void world_of_giltrace(void **state)
{
	sigset_t blocked, mask;
	struct giltrace *g;

	(void)state;
	setenv("LD_PRELOAD", "", 1);
	setenv("LD_LIBRARY_PATH", "/nowhere", 1);
	setenv("LD_AUDIT", "", 1);
	setenv("GT_TEST_KEEPS", "this", 1);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGUSR1);
	sigprocmask(SIG_BLOCK, &blocked, &mask);
	g = started("look;" SERVED, LONG);
	signal(SIGINT, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	unsetenv("LD_PRELOAD");
	unsetenv("LD_LIBRARY_PATH");
	unsetenv("LD_AUDIT");
	assert_int_equal(giltrace_stop(g, NULL), 0);
	assert_told(g, "out null 1");
	assert_told(g, "err pipe 1 nonblocking 1");
	assert_told(g, "in seqpacket 1 blocked 0 ignored 0 leader 1");
	assert_told(g, "env keeps this");
	assert_null(strstr(giltrace_messages(g), "has "));
	assert_null(strstr(giltrace_messages(g), "inherits "));
	giltrace_free(g);
}

/* The options of giltrace, one a line, behind what every giltrace gets. */
static void assert_args(struct giltrace_opts *opts, const char *dir, const char *rest)
{
	char want[PATH_MAX + 1000], *got;
	struct giltrace *g;

	if (start_with(opts, "look;" SERVED, &g))
		fail_msg("not started: %s", giltrace_error());
	assert_int_equal(giltrace_stop(g, NULL), 0);
	got = strstr(giltrace_messages(g), "arg ");
	assert_non_null(got);
	print(want, sizeof(want), "arg --control-fd=0\narg --no-summary\narg --output-dir=%s\n%s",
	      dir, rest);
	assert_string_equal(got, want);
	giltrace_free(g);
}

static void command_line(void **state)
{
	static const pid_t pids[] = {1, 4711};
	struct giltrace_opts none = GILTRACE_OPTS_INIT, opts = none;
	char here[PATH_MAX], below[PATH_MAX + 10], self[100];

	(void)state;
	assert_non_null(getcwd(here, sizeof(here)));
	print(below, sizeof(below), "%s/a b", here);
	print(self, sizeof(self), "arg --pid=%d\n", getpid());
	assert_args(&opts, here, self);
	setenv("GILTRACE_DATA_DIR", "a b", 1);
	opts = none;
	assert_args(&opts, below, self);
	opts = none;
	opts.output_dir = "/data";
	opts.pids = pids;
	opts.n_pids = 2;
	opts.duration_ns = 1000000007;
	opts.flags = GILTRACE_FOLLOW | GILTRACE_PAUSED;
	assert_args(&opts, "/data",
		    "arg --pid=1\narg --pid=4711\narg --follow\narg --duration=1.000000007\n"
		    "arg --paused\n");
	unsetenv("GILTRACE_DATA_DIR");
	opts = none;
	opts.flags = GILTRACE_ALL_NPU | GILTRACE_ALL_PYTHON;
	assert_args(&opts, here, "arg --all-npu\narg --all-python\n");
}

/* A command of several words; the variable. */
static void command(void **state)
{
	struct giltrace_opts opts = GILTRACE_OPTS_INIT;
	char words[PATH_MAX + 100], link[PATH_MAX + 20];
	struct giltrace *g;

	(void)state;
	print(words, sizeof(words), "  env \tGT_TEST_KEEPS=more  %s ", fake);
	opts.command = words;
	assert_int_equal(start_with(&opts, "look;" SERVED, &g), 0);
	assert_int_equal(giltrace_stop(g, NULL), 0);
	assert_told(g, "env keeps more");
	giltrace_free(g);

	/* A file may have blanks in its name. */
	print(link, sizeof(link), "%s/a b", scratch);
	assert_int_equal(symlink(fake, link), 0);
	opts.command = link;
	assert_int_equal(start_with(&opts, SERVED, &g), 0);
	giltrace_free(g);
	assert_int_equal(unlink(link), 0);

	setenv("GILTRACE_COMMAND", "/no/such", 1);
	assert_int_equal(giltrace_start(NULL, &g), -ENOENT);
	assert_says("/no/such");
	setenv("GILTRACE_COMMAND", "", 1);
	setenv("PATH", scratch, 1);
	assert_int_equal(giltrace_start(NULL, &g), -ENOENT);
	assert_says("no program giltrace in $PATH");
	print(link, sizeof(link), "%s/giltrace", scratch);
	assert_int_equal(symlink(fake, link), 0);
	assert_int_equal(giltrace_start(NULL, &g), -EINVAL);
	assert_says("giltrace is no giltrace: it ended, status 0");
	assert_int_equal(unlink(link), 0);
	unsetenv("GILTRACE_COMMAND");
}

/* ---- a program with more rights than its user ---- */

#define NOBODYS 54321 /* neither a user's id nor a group's */
#define SKIPPED 77

/* What a set-user-ID copy of this program does, when it is run with --secure and its fake. */
static int secure_host(const char *path)
{
	static const char *const refused[] = {NULL, "giltrace", "env giltrace", "./giltrace"};
	static const char variable[] = "variable ";
	struct giltrace_opts opts = GILTRACE_OPTS_INIT;
	const char *messages, *one;
	struct giltrace *g;

	if (!getauxval(AT_SECURE))
		return SKIPPED;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		opts.command = refused[i];
		need(giltrace_start(&opts, &g) == -EACCES);
		need(strstr(giltrace_error(), "must name an absolute path"));
	}
	opts.command = path;
	need(!start_with(&opts, "environment;" SERVED, &g));
	need(!giltrace_stop(g, NULL));
	messages = giltrace_messages(g);
	one = strstr(messages, "variable PATH=/usr/sbin:/usr/bin:/sbin:/bin\n");
	need(one && strstr(messages, variable) == one);
	need(!strstr(one + 1, variable));
	giltrace_free(g);
	return 0;
}

/* Only who has that group gets to it: a set-user-ID program that runs what it is told. */
static void copy_with_rights(const char *path)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	struct stat st;

	assert_true(from >= 0 && to >= 0);
	assert_int_equal(fstat(from, &st), 0);
	assert_int_equal(chown(scratch, 0, NOBODYS), 0);
	assert_int_equal(chmod(scratch, 0710), 0);
	for (off_t left = st.st_size; left > 0;) {
		ssize_t n = sendfile(to, from, NULL, (size_t)left);

		assert_true(n > 0);
		left -= n;
	}
	assert_int_equal(fchown(to, 0, NOBODYS), 0);
	assert_int_equal(fchmod(to, 04710), 0);
	close(from);
	close(to);
}

/* As the user that is nobody, whose $PATH and folder have a giltrace of his own. */
static void run_as_nobody(const char *host)
{
	char path[PATH_MAX + 20], command[PATH_MAX + 40];
	char *argv[] = {(char *)host, "--secure", fake, NULL};
	char *env[] = {path, command, "GT_TEST_KEEPS=1", NULL};

	print(path, sizeof(path), "PATH=%s:/usr/bin:/bin", scratch);
	print(command, sizeof(command), "GILTRACE_COMMAND=%s/giltrace", scratch);
	if (chdir(scratch) || setgroups(0, NULL) || setresgid(NOBODYS, NOBODYS, NOBODYS) ||
	    setresuid(NOBODYS, NOBODYS, NOBODYS))
		_exit(SKIPPED);
	execve(host, argv, env);
	_exit(1);
}

static void more_rights_than_the_user(void **state)
{
	char host[PATH_MAX + 20], other[PATH_MAX + 20];
	struct statvfs fs;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(statvfs(scratch, &fs), 0);
	if (geteuid() || fs.f_flag & ST_NOSUID || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)) {
		print_message("needs root, a %s without nosuid, and no no_new_privs\n", P_tmpdir);
		skip();
	}
	print(host, sizeof(host), "%s/host", scratch);
	print(other, sizeof(other), "%s/giltrace", scratch);
	copy_with_rights(host);
	assert_int_equal(symlink(fake, other), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		run_as_nobody(host);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(unlink(host), 0);
	assert_int_equal(unlink(other), 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
		print_message("a set-user-ID program gets no rights here\n");
		skip();
	}
	assert_int_equal(status, 0);
}

/* ---- structs of other versions ---- */

static void older_and_newer_programs(void **state)
{
	struct {
		struct giltrace_opts opts;
		uint64_t later;
	} newer = {GILTRACE_OPTS_INIT, 0};
	struct {
		struct giltrace_stats stats;
		uint64_t later;
	} numbers = {GILTRACE_STATS_INIT, 0};
	struct giltrace_opts older = {.size = offsetof(struct giltrace_opts, command)};
	struct giltrace *g;

	(void)state;
	newer.opts.size = sizeof(newer);
	assert_int_equal(start_with(&newer.opts, SERVED, &g), 0);
	numbers.stats.size = sizeof(numbers);
	numbers.later = 0x5555555555555555;
	assert_int_equal(giltrace_stats(g, &numbers.stats), 0);
	assert_int_equal(numbers.stats.size, sizeof(numbers));
	assert_true(numbers.later == 0x5555555555555555);
	numbers.stats.size = offsetof(struct giltrace_stats, marks);
	numbers.stats.marks = numbers.stats.bytes = 77;
	assert_int_equal(giltrace_stop(g, &numbers.stats), 0);
	assert_int_equal(numbers.stats.bytes, 600);
	assert_int_equal(numbers.stats.marks, 77);
	giltrace_free(g);
	newer.later = 1;
	assert_int_equal(giltrace_start(&newer.opts, &g), -EINVAL);
	assert_says("older than the program");

	/* What an old program does not know is as if it were not set: the field is not even looked
	 * at. */
	older.command = fake;
	setenv("GILTRACE_COMMAND", "/no/such", 1);
	assert_int_equal(giltrace_start(&older, &g), -ENOENT);
	unsetenv("GILTRACE_COMMAND");
}

static void wrong_options(void **state)
{
	static const pid_t bad = -1;
	struct giltrace_opts none = GILTRACE_OPTS_INIT, opts = none;
	struct giltrace_stats stats = GILTRACE_STATS_INIT;
	struct giltrace *g;

	(void)state;
	assert_int_equal(giltrace_start(NULL, NULL), -EINVAL);
	opts.size = 0;
	assert_int_equal(giltrace_start(&opts, &g), -EINVAL);
	assert_says("GILTRACE_OPTS_INIT");
	opts.size = 1 << 20;
	assert_int_equal(giltrace_start(&opts, &g), -EINVAL);
	opts = none;
	opts.flags = 1u << 31;
	assert_int_equal(giltrace_start(&opts, &g), -EINVAL);
	assert_says("0x80000000");
	opts = none;
	opts.pids = &bad;
	assert_int_equal(giltrace_start(&opts, &g), -EINVAL);
	assert_says("no process");
	opts.n_pids = 1;
	assert_int_equal(giltrace_start(&opts, &g), -EINVAL);
	assert_says("-1 is no process id");
	opts.pids = NULL;
	assert_int_equal(giltrace_start(&opts, &g), -EINVAL);
	opts = none;
	opts.command = " ";
	assert_int_equal(giltrace_start(&opts, &g), -EINVAL);
	assert_says("blank");

	assert_int_equal(giltrace_mark(NULL, "x"), -EINVAL);
	assert_int_equal(giltrace_pause(NULL), -EINVAL);
	assert_int_equal(giltrace_resume(NULL), -EINVAL);
	assert_int_equal(giltrace_stats(NULL, &stats), -EINVAL);
	assert_int_equal(giltrace_stop(NULL, &stats), -EINVAL);
	assert_says("the handle is NULL");
	assert_null(giltrace_file(NULL, 0));
	assert_string_equal(giltrace_messages(NULL), "");
	g = started(SERVED, LONG);
	assert_int_equal(giltrace_stats(g, NULL), -EINVAL);
	stats.size = 7;
	assert_int_equal(giltrace_stats(g, &stats), -EINVAL);
	assert_int_equal(giltrace_stop(g, &stats), -EINVAL);
	assert_says("GILTRACE_STATS_INIT");
	assert_int_equal(state_of(g), GILTRACE_RECORDING);
	giltrace_free(g);
}

static void errno_is_the_programs(void **state)
{
	struct giltrace *g;

	(void)state;
	errno = 4711;
	assert_int_equal(start("exit=5", LONG, &g), -EINVAL);
	g = started(SERVED, LONG);
	(void)giltrace_mark(g, "x");
	(void)state_of(g);
	(void)giltrace_stop(g, NULL);
	(void)giltrace_mark(g, "x");
	giltrace_free(g);
	assert_int_equal(errno, 4711);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		client_test(whole_recording),
		client_test(after_the_end),
		client_test(two_at_once),
		client_test(free_stops),
		client_test(many_in_a_row),
		client_test(marks),
		client_test(world_of_giltrace),
		client_test(command_line),
		client_test(older_and_newer_programs),
		client_test(wrong_options),
		client_test(errno_is_the_programs),
		client_test(more_rights_than_the_user),
		client_test(command), /* the last: it changes $PATH */
	};
	int failed;

	if (argc == 3 && !strcmp(argv[1], "--secure"))
		return secure_host(argv[2]);
	failed = find_fake();

	failed = failed ? failed : cmocka_run_group_tests(tests, NULL, NULL);
	remove_scratch();
	return failed;
}
