// SPDX-License-Identifier: Apache-2.0
#include "rights.h"
#include "log.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

/* include/linux/proc_ns.h: the same in every kernel since 3.8. */
#define USER_NS_INIT_INO 0xEFFFFFFDu

#define CAP(name) (UINT64_C(1) << CAP_##name)

/* ---- what there is ---- */

static uint64_t effective_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

	if (syscall(SYS_capget, &head, data))
		return 0;
	return data[0].effective | (uint64_t)data[1].effective << 32;
}

/* Up to size - 1 bytes, and a NUL; "" where it cannot be read. */
static void read_text(const char *path, char *buf, size_t size)
{
	gt_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

	buf[n > 0 ? n : 0] = 0;
	buf[strcspn(buf, "\n")] = 0;
}

/* "none [integrity] confidentiality" */
static void read_lockdown(char *buf, size_t size)
{
	char text[64], *s, *end;

	read_text("/sys/kernel/security/lockdown", text, sizeof(text));
	s = strchr(text, '[');
	end = s ? strchr(s, ']') : NULL;
	if (!end || !strncmp(s, "[none]", 6))
		return;
	*end = 0;
	snprintf(buf, size, "%s", s + 1);
}

/*
 * SELinux's context or AppArmor's profile, unless it confines nothing. What an AppArmor profile
 * does not enforce stands as "(complain)", and what SELinux does not confine as "unconfined_t".
 */
static void read_label(char *buf, size_t size)
{
	char text[64];

	read_text("/proc/self/attr/current", text, sizeof(text));
	if (!strstr(text, "unconfined") && !strstr(text, "(complain)") && strcmp(text, "kernel"))
		snprintf(buf, size, "%s", text);
	gt_defuse(buf);
}

static int is_on(const char *path, long magic)
{
	struct statfs st;

	return !statfs(path, &st) && st.f_type == magic;
}

/* The word behind "hidepid=" among the options of the uppermost mount on /proc. */
static void read_hidepid(char *buf, size_t size)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	gt_autofree char *line = NULL;
	size_t room = 0;

	while (f && getline(&line, &room, f) > 0) {
		const char *proc = strstr(line, " - proc "), *s;

		/* "36 35 98:0 / /proc rw - proc proc rw,hidepid=invisible"; later ones lie above.
		 */
		if (!proc || !strstr(line, " / /proc "))
			continue;
		s = strstr(proc, "hidepid=");
		s = s ? s + strlen("hidepid=") : "";
		snprintf(buf, size, "%.*s", (int)strcspn(s, ",\n"), s);
		if (!strcmp(buf, "0") || !strcmp(buf, "off"))
			*buf = 0;
	}
	if (f)
		fclose(f);
}

static enum gt_proc_mount proc_mount(void)
{
	char self[16] = "";

	if (!is_on("/proc", PROC_SUPER_MAGIC))
		return GT_PROC_MOUNT_NONE;
	if (readlink("/proc/self", self, sizeof(self) - 1) < 0 ||
	    strtol(self, NULL, 10) != getpid())
		return GT_PROC_MOUNT_FOREIGN;
	return GT_PROC_MOUNT_OURS;
}

static int is_filtered(void)
{
	/* 0 where there is none: with one of the strict kind nobody gets here. */
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) > 0;
}

static enum gt_file_caps file_caps(void)
{
	struct statvfs st;

	if (getxattr("/proc/self/exe", "security.capability", NULL, 0) <= 0)
		return GT_FILE_CAPS_FINE;
	if (!statvfs("/proc/self/exe", &st) && st.f_flag & ST_NOSUID)
		return GT_FILE_CAPS_NOSUID;
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? GT_FILE_CAPS_NNP : GT_FILE_CAPS_FINE;
}

static void read_target(struct gt_rights *r, pid_t pid)
{
	char path[32];
	struct stat st;

	r->target = pid;
	r->exists = !kill(pid, 0) || errno == EPERM;
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (lstat(path, &st)) {
		r->hidden = errno == ENOENT;
		return;
	}
	r->owner = st.st_uid;
	r->other_user = st.st_uid != geteuid();
	r->other_group = st.st_gid != getegid();
}

void gt_rights_read(struct gt_rights *out, pid_t target)
{
	char scope[16];
	struct stat st;

	*out = (struct gt_rights){
		.effective = effective_capabilities(),
		.uid = geteuid(),
		.user_ns = !stat("/proc/self/ns/user", &st) && st.st_ino != USER_NS_INIT_INO,
		.seccomp = is_filtered(),
		.no_sysfs = !is_on("/sys", SYSFS_MAGIC),
		.proc = proc_mount(),
		.file_caps = file_caps(),
		.other_user = 1,
		.other_group = 1,
	};
	read_text("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof(scope));
	out->ptrace_scope = *scope ? (int)strtol(scope, NULL, 10) : -1;
	read_lockdown(out->lockdown, sizeof(out->lockdown));
	read_label(out->label, sizeof(out->label));
	read_hidepid(out->hidepid, sizeof(out->hidepid));
	if (target > 0)
		read_target(out, target);
}

int gt_rights_have(const struct gt_rights *r, int capability)
{
	return !!(r->effective & UINT64_C(1) << capability);
}

/* ---- what is missing ---- */

/* Every capability that a step may want, what else has it in it, and its name; in order of telling.
 */
static const struct need {
	uint64_t cap, instead;
	const char *name;
} needs[] = {
	{CAP(SYS_PTRACE), 0, "CAP_SYS_PTRACE"},
	{CAP(DAC_READ_SEARCH), CAP(DAC_OVERRIDE), "CAP_DAC_READ_SEARCH"},
	{CAP(CHECKPOINT_RESTORE), CAP(SYS_ADMIN), "CAP_CHECKPOINT_RESTORE"},
	{CAP(BPF), CAP(SYS_ADMIN), "CAP_BPF"},
	{CAP(PERFMON), CAP(SYS_ADMIN), "CAP_PERFMON"},
	{CAP(SYS_ADMIN), 0, "CAP_SYS_ADMIN"},
	{CAP(SETUID), 0, "CAP_SETUID"},
	{CAP(SETGID), 0, "CAP_SETGID"},
};

#define TO_LOOK      CAP(CHECKPOINT_RESTORE)
#define TO_RECORD    (CAP(BPF) | CAP(PERFMON))
#define TO_BE_NOBODY (CAP(SETUID) | CAP(SETGID)) /* what root reads files as: jail.c */

struct text {
	char *buf;
	size_t len;
};

static void say(struct text *t, const char *fmt, ...) GT_PRINTF(2, 3);

static void say(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->buf + t->len, GT_RIGHTS_TEXT - t->len, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->len += (size_t)n;
	if (t->len >= GT_RIGHTS_TEXT)
		t->len = GT_RIGHTS_TEXT - 1;
}

static uint64_t missing(const struct gt_rights *r, uint64_t wanted)
{
	uint64_t none = 0;

	for (size_t i = 0; i < GT_ARRAY_SIZE(needs); i++)
		if (wanted & needs[i].cap && !(r->effective & (needs[i].cap | needs[i].instead)))
			none |= needs[i].cap;
	return none;
}

static void say_names(struct text *t, uint64_t caps)
{
	const char *between = "";

	for (size_t i = 0; i < GT_ARRAY_SIZE(needs); i++) {
		if (!(caps & needs[i].cap))
			continue;
		say(t, "%s%s", between, needs[i].name);
		between = ", ";
	}
}

/* What it takes to look into the target, for which ptrace_may_access() in the kernel is asked. */
static uint64_t wanted_for_target(const struct gt_rights *r)
{
	return (r->other_user ? CAP(SYS_PTRACE) | CAP(DAC_READ_SEARCH) : 0) |
	       (r->other_group ? CAP(SYS_PTRACE) : 0);
}

/* What a step wants, by trying (docs/rights.md). */
static uint64_t wanted_by(const struct gt_rights *r, enum gt_step step, int err)
{
	switch (step) {
	case GT_STEP_BPF:
	case GT_STEP_MULTI:
		return TO_RECORD;
	case GT_STEP_PERF:
		return CAP(SYS_ADMIN);
	case GT_STEP_PROCESS:
		/* Also one's own process, where it may do what we may not. */
		return CAP(SYS_PTRACE) | wanted_for_target(r) | TO_LOOK;
	case GT_STEP_FILES:
		/* To follow a link in map_files is refused by EPERM, all else by EACCES. */
		return (err == -EACCES ? CAP(SYS_PTRACE) : 0) | wanted_for_target(r) | TO_LOOK |
		       (r->uid ? 0 : TO_BE_NOBODY);
	case GT_STEP_MEMORY:
		return CAP(SYS_PTRACE);
	case GT_STEP_USER:
		return TO_BE_NOBODY;
	}
	return 0;
}

static void say_missing(struct text *t, const struct gt_rights *r, enum gt_step step, uint64_t none)
{
	uint64_t later = 0;

	say(t, "; missing: ");
	say_names(t, none);
	if (r->other_user && !r->hidden && none & wanted_for_target(r))
		say(t, " (/proc/%d belongs to user %u)", (int)r->target, r->owner);
	if (step == GT_STEP_PERF && missing(r, TO_RECORD))
		say(t, " (or, where the kernel is content with them, CAP_BPF, CAP_PERFMON)");
	if (step == GT_STEP_MEMORY && !r->other_user && r->ptrace_scope > 0)
		say(t, ", as kernel.yama.ptrace_scope is %d", r->ptrace_scope);
	if (*r->hidepid && r->other_user && none & CAP(SYS_PTRACE))
		say(t, "; /proc is mounted with hidepid=%s", r->hidepid);
	if (step == GT_STEP_PROCESS || step == GT_STEP_FILES)
		later = missing(r, TO_RECORD);
	if (later) {
		say(t, "; to record also ");
		say_names(t, later);
	}
	if (r->file_caps != GT_FILE_CAPS_FINE)
		say(t, "; the program's file has capabilities, but they do not count, as %s",
		    r->file_caps == GT_FILE_CAPS_NNP ? "no_new_privs is set"
						     : "it lies on a nosuid mount");
	if (r->uid)
		say(t, "; run as root or with these");
}

/* All capabilities are there: what else may forbid it can be seen, but not asked. */
static void say_other_cause(struct text *t, const struct gt_rights *r)
{
	if (!r->seccomp && !*r->label)
		return;
	say(t, "; no capability is missing: perhaps ");
	if (r->seccomp)
		say(t, "the seccomp filter that is in force here%s", *r->label ? ", or " : "");
	if (*r->label)
		say(t, "the security module (%s)", r->label);
}

/* It is there, but /proc shows no sign of it. */
static int is_hidden(const struct gt_rights *r, enum gt_step step, int err)
{
	return step == GT_STEP_PROCESS && (err == -ENOENT || err == -ESRCH) && r->exists &&
	       r->hidden && *r->hidepid;
}

/* Something that is not mounted, or not as it should be. 1: it was told. */
static int say_mount(struct text *t, const struct gt_rights *r, enum gt_step step, int err)
{
	if (step == GT_STEP_PERF && err == -ENOENT) {
		say(t, "; %s",
		    r->no_sysfs ? "no sysfs is mounted on /sys"
				: "/sys/bus/event_source/devices/uprobe is missing: this kernel "
				  "has no uprobes for perf_event_open");
		return 1;
	}
	if (step != GT_STEP_PROCESS && step != GT_STEP_FILES)
		return 0;
	if (r->proc == GT_PROC_MOUNT_NONE)
		say(t, "; no proc filesystem is mounted on /proc");
	else if (r->proc == GT_PROC_MOUNT_FOREIGN)
		say(t, "; /proc is that of another PID namespace than giltrace's own");
	else
		return 0;
	return 1;
}

const char *gt_rights_explain(const struct gt_rights *r, enum gt_step step, int err,
			      char buf[GT_RIGHTS_TEXT])
{
	struct text t = {.buf = buf};
	int refused = err == -EPERM || err == -EACCES;
	uint64_t none;

	*buf = 0;
	if (say_mount(&t, r, step, err))
		return buf;
	/* libbpf takes this kernel for an old one and replaces bpf_probe_read_user(). */
	if (step == GT_STEP_BPF && err == -EINVAL && !strcmp(r->lockdown, "confidentiality"))
		say(&t, "; the kernel is locked down (confidentiality), under which libbpf does "
			"not get the program loaded");
	if (!refused && !is_hidden(r, step, err))
		return buf;
	if (r->user_ns && step != GT_STEP_USER) {
		say(&t, "; giltrace runs in a user namespace of its own (a rootless container, "
			"unshare), where capabilities do not count for this: run it outside");
		return buf;
	}
	if (step == GT_STEP_MEMORY && r->ptrace_scope == 3) {
		say(&t, "; kernel.yama.ptrace_scope is 3, which forbids it to everybody");
		return buf;
	}
	none = missing(r, wanted_by(r, step, err));
	if (none)
		say_missing(&t, r, step, none);
	else if (refused)
		say_other_cause(&t, r);
	return buf;
}

const char *gt_rights_why(enum gt_step step, int err, pid_t target, char buf[GT_RIGHTS_TEXT])
{
	struct gt_rights r;

	gt_rights_read(&r, target);
	return gt_rights_explain(&r, step, err, buf);
}
