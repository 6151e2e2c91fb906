// SPDX-License-Identifier: Apache-2.0
/* With whose rights commands run, and what they find around them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "commandfix.h"

#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* What this program finds around it when it is started as a command. */
static void report(void)
{
	struct rlimit lim;
	sigset_t mask;

	dprintf(OUT, "ids %d %d %d %d groups", getuid(), geteuid(), getgid(), getegid());
	for (gid_t groups[64], *g = groups, *end = g + getgroups(64, groups); g < end; g++)
		dprintf(OUT, " %d", *g);
	sigprocmask(SIG_BLOCK, NULL, &mask);
	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction sa;

		if (sigismember(&mask, sig) == 1)
			dprintf(OUT, "\nblocked %d", sig);
		if (!sigaction(sig, NULL, &sa) && sa.sa_handler == SIG_IGN)
			dprintf(OUT, "\nignored %d", sig);
	}
	getrlimit(RLIMIT_NOFILE, &lim);
	dprintf(OUT, "\nfiles %llu parent %d group %d\n", (unsigned long long)lim.rlim_cur,
		getppid(), getpgrp());
	for (int fd = 0; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			dprintf(OUT, "fd %d\n", fd);
	for (char **e = environ; *e; e++)
		dprintf(OUT, "%s\n", *e);
}

static void on_usr2(int sig)
{
	(void)sig;
}

static int has_line(const struct run *r, const char *fmt, ...) GT_PRINTF(2, 3);

static int has_line(const struct run *r, const char *fmt, ...)
{
	char line[1024] = "\n";
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line + 1, sizeof(line) - 2, fmt, ap);
	va_end(ap);
	strcat(line, "\n");
	return strstr(r->out, line) || !strncmp(r->out, line + 1, strlen(line + 1));
}

static void look_around(void)
{
	const struct rlimit lim = {512, 512};
	struct gt_command_opts opts = {.open_files = 100};
	sigset_t mask, unignore;
	struct run r;
	int leak;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	signal(SIGUSR2, on_usr2);
	sigemptyset(&unignore);
	sigaddset(&unignore, SIGPIPE);
	sigaddset(&unignore, SIGXFSZ);
	opts.sigdefault = &unignore;
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	sigaddset(&mask, SIGTRAP);
	opts.sigmask = &mask;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &lim), 0);
	assert_int_equal(dup2(2, 77), 77); /* handed down */
	leak = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_true(leak >= 0);
	setenv("SUDO_COMMAND", "x", 1);
	setenv("SUDO_UIDX", "kept", 1);
	setenv("GT_TEST_VARIABLE", "kept, too", 1);

	assert_int_equal(run_start(&r, opts, ARGV(self, (char *)"report")), 0);
	assert_int_equal(held_then_end(&r, 1), 0);
	for (int sig = 1; sig < NSIG; sig++) {
		char line[32];

		snprintf(line, sizeof(line), "blocked %d", sig);
		assert_int_equal(has_line(&r, "%s", line), sig == SIGUSR1 || sig == SIGTRAP);
		snprintf(line, sizeof(line), "ignored %d", sig);
		assert_int_equal(has_line(&r, "%s", line), sig == SIGHUP || sig == SIGCHLD);
	}
	assert_true(has_line(&r, "files 100 parent %d group %d", getpid(), getpgrp()));
	for (int fd = 0; fd < 512; fd++) {
		int flags = fcntl(fd, F_GETFD);

		assert_int_equal(has_line(&r, "fd %d", fd),
				 fd == OUT || (flags >= 0 && !(flags & FD_CLOEXEC)));
	}
	assert_true(has_line(&r, "SUDO_UIDX=kept"));
	assert_true(has_line(&r, "GT_TEST_VARIABLE=kept, too"));
	assert_null(strstr(r.out, "SUDO_COMMAND"));
}

static void test_surroundings(void **state)
{
	(void)state;
	assert_int_equal(in_process(look_around), 0);
}

/* The report's first line, for a user with these groups. */
static void expect_ids(const struct run *r, uid_t uid, gid_t gid, const char *name)
{
	char line[1024];
	gid_t groups[64];
	int n = 64, len;

	groups[0] = gid;
	if (name)
		assert_true(getgrouplist(name, gid, groups, &n) > 0);
	else
		n = 1;
	len = snprintf(line, sizeof(line), "ids %d %d %d %d groups", uid, uid, gid, gid);
	for (int i = 0; i < n; i++)
		len += snprintf(line + len, sizeof(line) - (size_t)len, " %d", groups[i]);
	assert_memory_equal(r->out, line, (size_t)len);
}

static void sudo(const char *uid, const char *gid)
{
	setenv("SUDO_UID", uid, 1);
	setenv("SUDO_GID", gid, 1);
	setenv("SUDO_USER", "root", 1); /* a name is not what is believed */
}

static void other_users(void)
{
	const struct passwd *entry = getpwnam("nobody");
	char uid[16], gid[16], home[PATH_MAX], shell[PATH_MAX];
	struct passwd pw;
	struct run r;

	assert_non_null(entry);
	pw = *entry; /* the next call changes what it points to */
	snprintf(home, sizeof(home), "%s", pw.pw_dir);
	snprintf(shell, sizeof(shell), "%s", pw.pw_shell);
	setenv("HOME", "/root", 1);
	setenv("USER", "root", 1);
	snprintf(uid, sizeof(uid), "%u", pw.pw_uid);
	snprintf(gid, sizeof(gid), "%u", pw.pw_gid);
	for (int way = 0; way < 3; way++) {
		struct gt_command_opts opts = {.user = way == 1 ? "nobody" : way == 2 ? uid : NULL};

		if (way == 0)
			sudo(uid, gid);
		else
			sudo("1", "1"); /* --user says otherwise */
		assert_int_equal(run_start(&r, opts, ARGV(self, (char *)"report")), 0);
		assert_int_equal(held_then_end(&r, 1), 0);
		expect_ids(&r, pw.pw_uid, pw.pw_gid, "nobody");
		assert_true(has_line(&r, "HOME=%s", home));
		assert_true(has_line(&r, "USER=nobody") && has_line(&r, "LOGNAME=nobody"));
		assert_true(has_line(&r, "SHELL=%s", shell));
		assert_null(strstr(r.out, "SUDO_"));
		assert_null(strstr(r.out, "root\n"));
	}
	/* Nobody knows this one. */
	sudo("54321", "54322");
	START(&r, self, (char *)"report");
	assert_int_equal(held_then_end(&r, 1), 0);
	expect_ids(&r, 54321, 54322, NULL);
	assert_true(has_line(&r, "HOME=/"));
	assert_null(strstr(r.out, "USER="));
	/* It is root who ran sudo, or is wanted. */
	for (int way = 0; way < 2; way++) {
		sudo(way ? uid : "0", way ? gid : "0");
		assert_int_equal(run_start(&r,
					   (struct gt_command_opts){.user = way ? "root" : NULL},
					   ARGV(self, (char *)"report")),
				 0);
		assert_int_equal(held_then_end(&r, 1), 0);
		assert_memory_equal(r.out, "ids 0 0 0 0 ", 12);
	}
	static const char *const no_ids[] = {"", "-1", "4294967295", "1x", " 1", "99999999999999"};
	for (size_t i = 0; i < GT_ARRAY_SIZE(no_ids); i++) {
		sudo(no_ids[i], gid);
		assert_int_equal(
			run_start(&r, (struct gt_command_opts){0}, ARGV(self, (char *)"report")),
			-ESRCH);
	}
	/* The search is made with the rights of the user. */
	sudo(uid, gid);
	assert_int_equal(run_start(&r, (struct gt_command_opts){0},
				   ARGV(copy_program("/bin/true", "ours", 0700))),
			 -EACCES);
}

static void need_root_and_nobody(void)
{
	if (getuid() || !getpwnam("nobody")) {
		print_message("SKIP: not root, or there is no user nobody to start commands as\n");
		skip();
	}
}

static void test_other_users(void **state)
{
	(void)state;
	need_root_and_nobody();
	assert_int_equal(in_process(other_users), 0);
}

static char *unreadable, *set_user_id;

static void become_nobody(void)
{
	const struct passwd *pw = getpwnam("nobody");

	assert_non_null(pw);
	assert_int_equal(setgroups(0, NULL) | setgid(pw->pw_gid) | setuid(pw->pw_uid), 0);
}

static void id_of_set_user_id(struct run *r, int for_good)
{
	START(r, (char *)"/bin/sh", (char *)"-c", (char *)"exec \"$0\" -u >&9", set_user_id);
	EXPECT(r, GT_COMMAND_AT_ENTRY);
	gt_command_continue(r->c, for_good);
	if (!for_good) {
		EXPECT(r, GT_COMMAND_AT_ENTRY);
		gt_command_continue(r->c, 0);
	}
	assert_int_equal(run_end(r), 0);
}

/* We cannot be dumped, as if our file had capabilities: setuid(2) has seen to that. */
static void without_root(void)
{
	struct run r;

	become_nobody();
	assert_int_equal(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), 0);
	sudo("1", "1"); /* not believed: anybody can set that */
	START(&r, self, (char *)"report");
	assert_int_equal(held_then_end(&r, 1), 0);
	assert_true(has_line(&r, "ids %1$d %1$d %2$d %2$d groups", getuid(), getgid()));
	assert_int_equal(run_start(&r, (struct gt_command_opts){.user = "root"}, ARGV(self)),
			 -EPERM);
	assert_int_equal(run_start(&r, (struct gt_command_opts){.user = "nobody"},
				   ARGV(self, (char *)"report")),
			 0);
	assert_int_equal(held_then_end(&r, 1), 0);
	START(&r, unreadable);
	EXPECT(&r, GT_COMMAND_UNHELD);
	assert_int_equal(run_end(&r), 0);
	id_of_set_user_id(&r, 0);
	assert_string_not_equal(r.out, "0\n");
	id_of_set_user_id(&r, 1);
	assert_string_equal(r.out, "0\n");
}

static void test_without_root(void **state)
{
	struct run r;

	(void)state;
	need_root_and_nobody();
	unreadable = copy_program("/bin/true", "unreadable", 0111);
	set_user_id = copy_program("/usr/bin/id", "id", 04755);
	assert_int_equal(in_process(without_root), 0);
	/* Root can hold these. */
	START(&r, unreadable);
	assert_int_equal(held_then_end(&r, 1), 0);
	assert_int_equal(run_start(&r, (struct gt_command_opts){.user = "nobody"},
				   ARGV((char *)"/bin/sh", (char *)"-c",
					(char *)"exec \"$0\" -u >&9", set_user_id)),
			 0);
	EXPECT(&r, GT_COMMAND_AT_ENTRY);
	gt_command_continue(r.c, 0);
	assert_int_equal(held_then_end(&r, 0), 0);
	assert_string_equal(r.out, "0\n");
}

/* As a container's filter may have it. */
static void without_ptrace(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = {GT_ARRAY_SIZE(code), code};
	struct run r;

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
	START_SH(&r, "exec sh -c 'exit 5'");
	EXPECT(&r, GT_COMMAND_UNHELD);
	assert_int_equal(run_end(&r), 5);
	expect_failure(-ENOENT, (char *)"/no/such/program");
}

static void test_without_ptrace(void **state)
{
	(void)state;
	assert_int_equal(in_process(without_ptrace), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_surroundings),
		cmocka_unit_test(test_other_users),
		cmocka_unit_test(test_without_root),
		cmocka_unit_test(test_without_ptrace),
	};

	(void)argv;
	if (argc > 1) {
		report();
		return 0;
	}
	return cmocka_run_group_tests(tests, run_setup, fix_teardown);
}
