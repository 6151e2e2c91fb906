/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * gt_core_types.h - those members of the kernel's structs that the optional programs read. Where
 * they lie is filled in when the programs are loaded, from the running kernel's BTF.
 */
#ifndef GT_CORE_TYPES_H
#define GT_CORE_TYPES_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* level + 1 of them */
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live; /* threads that have not ended */
};

struct task_struct {
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct pid *thread_pid; /* Linux 5.0 */
	struct signal_struct *signal;
	void *mm;
	unsigned int in_execve : 1;
};

#pragma clang attribute pop

#endif
