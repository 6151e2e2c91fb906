// SPDX-License-Identifier: Apache-2.0
/*
 * What is missing: the text for every kind of lack, from rights made up here, and what
 * gt_rights_read() finds in processes that have really been deprived of something.
 */
#include "rights.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#define NOBODY 65534
#define ALL    (~UINT64_C(0))
#define BIT(c) (UINT64_C(1) << (c))

static const struct gt_rights root = {.effective = ALL, .ptrace_scope = -1};

static const char *explain(const struct gt_rights *r, enum gt_step step, int err)
{
	static char buf[GT_RIGHTS_TEXT];

	assert_ptr_equal(gt_rights_explain(r, step, err, buf), buf);
	return buf;
}

/* ---- texts ---- */

/* One's own process (1234) of user 1000, with these capabilities. */
static struct gt_rights user(uint64_t effective)
{
	return (struct gt_rights){
		.effective = effective,
		.uid = 1000,
		.ptrace_scope = -1,
		.target = 1234,
		.exists = 1,
		.owner = 1000,
	};
}

static struct gt_rights at_others(uint64_t effective)
{
	struct gt_rights r = user(effective);

	r.owner = 1001;
	r.other_user = r.other_group = 1;
	return r;
}

static void nothing_is_missing(void **state)
{
	static const int errs[] = {-EPERM, -EACCES, -ENOENT, -ESRCH, -EINVAL, -EIO, -ENOMEM};

	(void)state;
	for (enum gt_step step = GT_STEP_BPF; step <= GT_STEP_USER; step++)
		for (size_t i = 0; i < GT_ARRAY_SIZE(errs); i++)
			if (step != GT_STEP_PERF || errs[i] != -ENOENT)
				assert_string_equal(explain(&root, step, errs[i]), "");
}

static void errors_that_are_no_lack_of_rights(void **state)
{
	static const int errs[] = {-EINVAL, -EIO, -ENOMEM, -EMFILE, -ENOENT, -ESRCH};
	struct gt_rights r = user(0);

	(void)state;
	for (enum gt_step step = GT_STEP_BPF; step <= GT_STEP_USER; step++)
		for (size_t i = 0; i < GT_ARRAY_SIZE(errs); i++)
			if (step != GT_STEP_PERF || errs[i] != -ENOENT)
				assert_string_equal(explain(&r, step, errs[i]), "");
}

static void no_capability_at_all(void **state)
{
	struct gt_rights own = user(0), other = at_others(0);

	(void)state;
	assert_string_equal(explain(&own, GT_STEP_BPF, -EPERM),
			    "; missing: CAP_BPF, CAP_PERFMON; run as root or with these");
	assert_string_equal(explain(&own, GT_STEP_FILES, -EPERM),
			    "; missing: CAP_CHECKPOINT_RESTORE; to record also CAP_BPF, "
			    "CAP_PERFMON; run as root or with these");
	assert_string_equal(explain(&other, GT_STEP_PROCESS, -EACCES),
			    "; missing: CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, "
			    "CAP_CHECKPOINT_RESTORE (/proc/1234 belongs to user 1001); to record "
			    "also CAP_BPF, CAP_PERFMON; run as root or with these");
	assert_string_equal(explain(&own, GT_STEP_PERF, -EPERM),
			    "; missing: CAP_SYS_ADMIN (or, where the kernel is content with them, "
			    "CAP_BPF, CAP_PERFMON); run as root or with these");
	assert_string_equal(explain(&own, GT_STEP_USER, -EPERM),
			    "; missing: CAP_SETUID, CAP_SETGID; run as root or with these");
}

/* All that a recording of another user's process needs, without one: exactly that one is named. */
static void one_is_left_out(void **state)
{
	static const struct {
		int cap;
		enum gt_step step;
		int err;
		const char *name;
	} cases[] = {
		{CAP_BPF, GT_STEP_BPF, -EPERM, "CAP_BPF"},
		{CAP_PERFMON, GT_STEP_MULTI, -EPERM, "CAP_PERFMON"},
		{CAP_SYS_PTRACE, GT_STEP_PROCESS, -EACCES, "CAP_SYS_PTRACE"},
		{CAP_SYS_PTRACE, GT_STEP_MEMORY, -EPERM, "CAP_SYS_PTRACE"},
		{CAP_DAC_READ_SEARCH, GT_STEP_FILES, -EACCES, "CAP_DAC_READ_SEARCH"},
		{CAP_CHECKPOINT_RESTORE, GT_STEP_FILES, -EPERM, "CAP_CHECKPOINT_RESTORE"},
	};
	const uint64_t set = BIT(CAP_BPF) | BIT(CAP_PERFMON) | BIT(CAP_SYS_PTRACE) |
			     BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_CHECKPOINT_RESTORE);

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(cases); i++) {
		struct gt_rights r = at_others(set & ~BIT(cases[i].cap));
		const char *text = explain(&r, cases[i].step, cases[i].err);
		const char *name = strstr(text, "CAP_");

		assert_non_null(name);
		assert_int_equal(strncmp(name, cases[i].name, strlen(cases[i].name)), 0);
		assert_null(strstr(name + 1, "CAP_"));
		r.effective = set;
		assert_string_equal(explain(&r, cases[i].step, cases[i].err), "");
	}
}

static void what_else_has_it_in_it(void **state)
{
	struct gt_rights r = at_others(BIT(CAP_SYS_ADMIN) | BIT(CAP_SYS_PTRACE));

	(void)state;
	assert_string_equal(explain(&r, GT_STEP_BPF, -EPERM), "");
	assert_string_equal(explain(&r, GT_STEP_PERF, -EACCES), "");
	assert_string_equal(explain(&r, GT_STEP_FILES, -EACCES),
			    "; missing: CAP_DAC_READ_SEARCH (/proc/1234 belongs to user 1001); run "
			    "as root or with these");
	r.effective |= BIT(CAP_DAC_OVERRIDE);
	assert_string_equal(explain(&r, GT_STEP_FILES, -EACCES), "");
	r.effective = BIT(CAP_BPF) | BIT(CAP_PERFMON);
	assert_string_equal(explain(&r, GT_STEP_PERF, -EACCES),
			    "; missing: CAP_SYS_ADMIN; run as root or with these");
}

static void root_without_some(void **state)
{
	struct gt_rights r = root;

	(void)state;
	r.effective = ALL & ~(BIT(CAP_SYS_ADMIN) | BIT(CAP_BPF));
	assert_string_equal(explain(&r, GT_STEP_BPF, -EPERM), "; missing: CAP_BPF");
	r.effective = ALL & ~(BIT(CAP_SETUID) | BIT(CAP_SETGID));
	assert_string_equal(explain(&r, GT_STEP_FILES, -EPERM),
			    "; missing: CAP_SETUID, CAP_SETGID");
}

/* The user is the same, the group is not (newgrp, setgid): /proc's files are ours to read. */
static void another_group(void **state)
{
	struct gt_rights r = user(
		ALL & ~(BIT(CAP_SYS_PTRACE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_DAC_OVERRIDE)));

	(void)state;
	r.other_group = 1;
	assert_string_equal(explain(&r, GT_STEP_FILES, -EACCES),
			    "; missing: CAP_SYS_PTRACE; run as root or with these");
}

static void sysctl_of_yama(void **state)
{
	struct gt_rights r = user(0);

	(void)state;
	r.ptrace_scope = 1;
	assert_string_equal(explain(&r, GT_STEP_MEMORY, -EPERM),
			    "; missing: CAP_SYS_PTRACE, as kernel.yama.ptrace_scope is 1; run as "
			    "root or with these");
	r = root;
	r.ptrace_scope = 2;
	assert_string_equal(explain(&r, GT_STEP_MEMORY, -EPERM), "");
	r.ptrace_scope = 3;
	assert_string_equal(explain(&r, GT_STEP_MEMORY, -EPERM),
			    "; kernel.yama.ptrace_scope is 3, which forbids it to everybody");
	assert_string_equal(explain(&r, GT_STEP_BPF, -EPERM), "");
}

static void mounts(void **state)
{
	struct gt_rights r = at_others(0);

	(void)state;
	snprintf(r.hidepid, sizeof(r.hidepid), "invisible");
	r.hidden = 1;
	assert_string_equal(explain(&r, GT_STEP_PROCESS, -ESRCH),
			    "; missing: CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, "
			    "CAP_CHECKPOINT_RESTORE; /proc is mounted with hidepid=invisible; to "
			    "record also CAP_BPF, CAP_PERFMON; run as root or with these");
	r.exists = 0;
	assert_string_equal(explain(&r, GT_STEP_PROCESS, -ESRCH), "");
	r.exists = 1;
	r.hidepid[0] = 0; /* gone and come again meanwhile */
	assert_string_equal(explain(&r, GT_STEP_PROCESS, -ESRCH), "");

	r = root;
	r.proc = GT_PROC_MOUNT_NONE;
	assert_string_equal(explain(&r, GT_STEP_PROCESS, -ESRCH),
			    "; no proc filesystem is mounted on /proc");
	r.proc = GT_PROC_MOUNT_FOREIGN;
	assert_string_equal(explain(&r, GT_STEP_PROCESS, -ESRCH),
			    "; /proc is that of another PID namespace than giltrace's own");
	assert_string_equal(explain(&r, GT_STEP_BPF, -EPERM), "");

	r = root;
	assert_non_null(strstr(explain(&r, GT_STEP_PERF, -ENOENT), "/sys/bus/event_source"));
	r.no_sysfs = 1;
	assert_string_equal(explain(&r, GT_STEP_PERF, -ENOENT), "; no sysfs is mounted on /sys");
}

static void namespace_of_users(void **state)
{
	struct gt_rights r = root;

	(void)state;
	r.user_ns = 1;
	assert_non_null(strstr(explain(&r, GT_STEP_BPF, -EPERM), "user namespace"));
	assert_non_null(strstr(explain(&r, GT_STEP_FILES, -EPERM), "user namespace"));
	assert_string_equal(explain(&r, GT_STEP_BPF, -EINVAL), "");
}

static void guesses_say_that_they_are(void **state)
{
	struct gt_rights r = root;

	(void)state;
	r.seccomp = 1;
	assert_string_equal(explain(&r, GT_STEP_BPF, -EPERM),
			    "; no capability is missing: perhaps the seccomp filter that is in "
			    "force here");
	snprintf(r.label, sizeof(r.label), "docker-default (enforce)");
	assert_string_equal(explain(&r, GT_STEP_BPF, -EPERM),
			    "; no capability is missing: perhaps the seccomp filter that is in "
			    "force here, or the security module (docker-default (enforce))");
	r.seccomp = 0;
	assert_string_equal(explain(&r, GT_STEP_BPF, -EPERM),
			    "; no capability is missing: perhaps the security module "
			    "(docker-default (enforce))");
}

static void lockdown(void **state)
{
	struct gt_rights r = root;

	(void)state;
	snprintf(r.lockdown, sizeof(r.lockdown), "integrity");
	assert_string_equal(explain(&r, GT_STEP_BPF, -EINVAL), "");
	snprintf(r.lockdown, sizeof(r.lockdown), "confidentiality");
	assert_non_null(strstr(explain(&r, GT_STEP_BPF, -EINVAL), "locked down"));
}

/* The longest of all still has its end. */
static void it_fits(void **state)
{
	struct gt_rights r = at_others(0);

	(void)state;
	r.target = INT32_MAX;
	r.owner = UINT32_MAX;
	r.file_caps = GT_FILE_CAPS_NOSUID;
	memset(r.hidepid, 'x', sizeof(r.hidepid) - 1);
	assert_non_null(strstr(explain(&r, GT_STEP_PROCESS, -EPERM), "run as root or with these"));
	assert_true(strlen(explain(&r, GT_STEP_PROCESS, -EPERM)) < GT_RIGHTS_TEXT - 1);
}

/* ---- real ones ---- */

/* What a process says after `prepare` (0: done), of a step that was refused by that. */
static void ask(int (*prepare)(void), enum gt_step step, int err, pid_t target, char *buf)
{
	int p[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(p), 0);
	pid = fork();
	if (!pid) {
		if (prepare())
			_exit(77);
		gt_rights_why(step, err, target, buf);
		_exit(write(p[1], buf, strlen(buf)) != (ssize_t)strlen(buf));
	}
	close(p[1]);
	n = read(p[0], buf, GT_RIGHTS_TEXT - 1);
	close(p[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	buf[n > 0 ? n : 0] = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

static int become_nobody(void)
{
	return setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY);
}

static int create_map(void)
{
	union bpf_attr attr = {.map_type = BPF_MAP_TYPE_RINGBUF,
			       .max_entries = (uint32_t)sysconf(_SC_PAGESIZE)};
	long fd = syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));

	if (fd < 0)
		return -errno;
	close((int)fd);
	return 0;
}

/* Of the kernel's own refusal. */
static int nobody_is_refused(void)
{
	return become_nobody() || create_map() != -EPERM;
}

static void capabilities_as_proc_shows_them(void **state)
{
	char line[128];
	unsigned long long shown = 0;
	FILE *f = fopen("/proc/self/status", "re");
	struct gt_rights r;

	(void)state;
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, "CapEff:", 7))
			shown = strtoull(line + 7, NULL, 16);
	fclose(f);
	gt_rights_read(&r, 0);
	assert_int_equal(r.effective, shown);
	assert_int_equal(gt_rights_have(&r, CAP_BPF), shown >> CAP_BPF & 1);
	assert_int_equal(gt_rights_have(&r, CAP_CHOWN), shown >> CAP_CHOWN & 1);
	assert_int_equal(r.uid, geteuid());
	assert_int_equal(r.proc, GT_PROC_MOUNT_OURS);
}

static void without_capabilities(void **state)
{
	char text[GT_RIGHTS_TEXT];

	(void)state;
	ask(nobody_is_refused, GT_STEP_BPF, -EPERM, 0, text);
	assert_string_equal(text, "; missing: CAP_BPF, CAP_PERFMON; run as root or with these");
}

static void process_of_another(void **state)
{
	char text[GT_RIGHTS_TEXT], owner[64];

	(void)state;
	ask(become_nobody, GT_STEP_PROCESS, -EACCES, getpid(), text);
	snprintf(owner, sizeof(owner), "(/proc/%d belongs to user 0)", (int)getpid());
	assert_non_null(strstr(text, "CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH"));
	assert_non_null(strstr(text, owner));
}

static void process_that_has_ended(void **state)
{
	char text[GT_RIGHTS_TEXT];
	pid_t pid = fork();

	(void)state;
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	ask(become_nobody, GT_STEP_PROCESS, -ESRCH, pid, text);
	assert_string_equal(text, "");
}

static int hide_processes(void)
{
	return unshare(CLONE_NEWNS) || mount("/", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	       mount("proc", "/proc", "proc", 0, "hidepid=2") || become_nobody() ||
	       access("/proc/1", F_OK) == 0;
}

static void process_that_proc_hides(void **state)
{
	char text[GT_RIGHTS_TEXT];

	(void)state;
	ask(hide_processes, GT_STEP_PROCESS, -ESRCH, getpid(), text);
	/* By number before Linux 5.8. */
	assert_true(strstr(text, "; /proc is mounted with hidepid=invisible;") ||
		    strstr(text, "; /proc is mounted with hidepid=2;"));
	assert_non_null(strstr(text, "CAP_SYS_PTRACE"));
}

static int without_proc(void)
{
	return unshare(CLONE_NEWNS) || mount("/", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	       mount("tmpfs", "/proc", "tmpfs", 0, NULL) ||
	       mount("tmpfs", "/sys", "tmpfs", 0, NULL);
}

static void nothing_is_mounted(void **state)
{
	char text[GT_RIGHTS_TEXT];

	(void)state;
	ask(without_proc, GT_STEP_PROCESS, -ESRCH, getpid(), text);
	assert_string_equal(text, "; no proc filesystem is mounted on /proc");
	ask(without_proc, GT_STEP_PERF, -ENOENT, 0, text);
	assert_string_equal(text, "; no sysfs is mounted on /sys");
}

static int own_user_namespace(void)
{
	return unshare(CLONE_NEWUSER) || create_map() != -EPERM;
}

static void in_a_user_namespace(void **state)
{
	char text[GT_RIGHTS_TEXT];

	(void)state;
	ask(own_user_namespace, GT_STEP_BPF, -EPERM, 0, text);
	assert_non_null(strstr(text, "user namespace of its own"));
}

static int filter_bpf(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {GT_ARRAY_SIZE(code), code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) || create_map() != -EPERM;
}

static void under_a_filter(void **state)
{
	char text[GT_RIGHTS_TEXT];
	struct gt_rights r;

	(void)state;
	gt_rights_read(&r, 0);
	if (!gt_rights_have(&r, CAP_SYS_ADMIN))
		skip();
	ask(filter_bpf, GT_STEP_BPF, -EPERM, 0, text);
	assert_non_null(strstr(text, "perhaps the seccomp filter"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_missing),
		cmocka_unit_test(errors_that_are_no_lack_of_rights),
		cmocka_unit_test(no_capability_at_all),
		cmocka_unit_test(one_is_left_out),
		cmocka_unit_test(what_else_has_it_in_it),
		cmocka_unit_test(root_without_some),
		cmocka_unit_test(another_group),
		cmocka_unit_test(sysctl_of_yama),
		cmocka_unit_test(mounts),
		cmocka_unit_test(namespace_of_users),
		cmocka_unit_test(guesses_say_that_they_are),
		cmocka_unit_test(lockdown),
		cmocka_unit_test(it_fits),
		cmocka_unit_test(capabilities_as_proc_shows_them),
		cmocka_unit_test(without_capabilities),
		cmocka_unit_test(process_of_another),
		cmocka_unit_test(process_that_has_ended),
		cmocka_unit_test(process_that_proc_hides),
		cmocka_unit_test(nothing_is_mounted),
		cmocka_unit_test(in_a_user_namespace),
		cmocka_unit_test(under_a_filter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
