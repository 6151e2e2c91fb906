/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rights.h - what giltrace may do here, and what is missing where the kernel has refused something:
 * a capability, a sysctl, a mount, the initial user namespace. docs/rights.md tells how it was
 * found out what each step needs. Nothing is cached: rights are looked at when something was
 * refused. Logs nothing. No state.
 */
#ifndef GT_RIGHTS_H
#define GT_RIGHTS_H

#include "base.h"
#include <sys/types.h>

/* What was refused. */
enum gt_step {
	GT_STEP_BPF,     /* a map, a program, or a program on a tracepoint */
	GT_STEP_MULTI,   /* to try or to attach probes by a uprobe_multi link */
	GT_STEP_PERF,    /* the same by perf_event_open(2) */
	GT_STEP_PROCESS, /* to open /proc/PID and what lies in it */
	GT_STEP_FILES,   /* the same for /proc/PID/map_files, environ and fd */
	GT_STEP_MEMORY,  /* process_vm_readv(2), /proc/PID/task/TID/syscall */
	GT_STEP_USER,    /* to become another user */
};

enum gt_proc_mount {
	GT_PROC_MOUNT_OURS,
	GT_PROC_MOUNT_NONE,
	GT_PROC_MOUNT_FOREIGN, /* of another PID namespace */
};

enum gt_file_caps { GT_FILE_CAPS_FINE, GT_FILE_CAPS_NNP, GT_FILE_CAPS_NOSUID };

struct gt_rights {
	uint64_t effective; /* bit n: capability n */
	uid_t uid;          /* the effective one */
	int user_ns;        /* 1: in a user namespace that is not the initial one */
	int seccomp;        /* 1: a filter is in force */
	char label[64];     /* by which a security module confines us; "": none does */
	char lockdown[24];  /* of the kernel, such as "integrity"; "": none */
	int ptrace_scope;   /* kernel.yama.ptrace_scope; -1: there is none */
	int no_sysfs;       /* 1: no sysfs on /sys */
	enum gt_proc_mount proc;
	char hidepid[16];            /* of /proc, as the kernel writes it; "": off */
	enum gt_file_caps file_caps; /* why capabilities of our own file do not count */
	/* Of the target, where one was given: */
	pid_t target;
	int exists;      /* 1: kill(2) knows it */
	int hidden;      /* 1: /proc does not show it */
	uid_t owner;     /* of /proc/PID; root also where the process is not dumpable */
	int other_user;  /* 1: that is not our user, or it cannot be told */
	int other_group; /* the same of the group */
};

/* target: a process, or 0. What cannot be found out stays 0 or "". */
void gt_rights_read(struct gt_rights *out, pid_t target);

int gt_rights_have(const struct gt_rights *r, int capability);

#define GT_RIGHTS_TEXT 480

/*
 * What is missing for a step that was refused with -errno `err`, as the rest of a line that has
 * told what failed: "; missing: CAP_BPF, ...". It names capabilities that are not effective (and
 * those that the next steps will want), the sysctl with its value, the mount. "" where nothing is
 * known to be missing; what is only a guess says so. Returns buf.
 */
const char *gt_rights_explain(const struct gt_rights *r, enum gt_step step, int err,
			      char buf[GT_RIGHTS_TEXT]);

/* The two in one. */
const char *gt_rights_why(enum gt_step step, int err, pid_t target, char buf[GT_RIGHTS_TEXT]);

#endif
