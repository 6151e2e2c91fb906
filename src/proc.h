/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc.h - what /proc says about a process. A process is (pid, start time) plus a pidfd, so a
 * reused pid is never taken for it. All text in /proc comes from somebody else: lengths are
 * bounded, nothing in it is trusted as a path. Errors are -errno; only gt_proc_open() logs.
 */
#ifndef GT_PROC_H
#define GT_PROC_H

#include "base.h"
#include <sys/types.h>

#define GT_PROC_COMM 16

struct gt_proc {
	pid_t pid;            /* thread group id in our PID namespace */
	pid_t ns_pid;         /* in its own, innermost PID namespace */
	int pidfd;            /* readable when the process has ended */
	int procfd;           /* directory /proc/PID */
	int mapsfd;           /* its maps; empty once that memory is gone */
	uint64_t start_ticks; /* field 22 of /proc/PID/stat */
	/* Of /proc/PID/ns/pid; the device as bpf_get_ns_current_pid_tgid() wants it, in the
	 * kernel's own encoding: major << 20 | minor. */
	uint64_t pidns_dev, pidns_ino;
	char comm[GT_PROC_COMM];
};

/*
 * Opens process `pid` (a thread's id is refused, naming its process). -ESRCH: none such.
 * Close with gt_proc_close().
 */
int gt_proc_open(pid_t pid, struct gt_proc *out);

/* The same of a process that nobody has named: it may be gone, and a failure is not logged. */
int gt_proc_try_open(pid_t pid, struct gt_proc *out);
void gt_proc_close(struct gt_proc *p);

/* 1 if it has ended (a zombie has). */
int gt_proc_ended(const struct gt_proc *p);

/* Has the memory that it had at gt_proc_open() gone, by an exec or an exit? */
int gt_proc_memory_gone(const struct gt_proc *p);

/* Has it executed another program since gt_proc_open()? 0 while it exits. */
int gt_proc_executed(const struct gt_proc *p);

/* An executable mapping of a file. */
struct gt_map {
	uint64_t start, end; /* names /proc/PID/map_files/START-END */
	uint64_t offset;
	/* Where the file's code ends: that of its last executable mapping (BOLT makes two). */
	uint64_t code_end;
	uint64_t last_offset; /* of that mapping */
	uint64_t dev_major, dev_minor, ino;
	char path[512]; /* as /proc/PID/maps shows it, cut; a label, never opened */
};

/*
 * The first executable mapping of each file (dev, ino), in address order: *out to be freed (NULL
 * where *n is 0). -E2BIG: more than 4096 files or a million mappings; no program is like that.
 */
int gt_proc_exec_maps(const struct gt_proc *p, struct gt_map **out, size_t *n);

/*
 * The absolute path through which the mapped file itself is reached, whatever its name became; by
 * way of procfd, so that a process with a reused pid is not reached. Valid in this process only.
 */
void gt_proc_map_file(const struct gt_proc *p, const struct gt_map *m, char *buf, size_t size);

/* Is it (still) mapped there? */
int gt_proc_has_map(const struct gt_proc *p, const struct gt_map *m);

/*
 * Value of a variable in the environment the process was started with, from its first 1 MiB.
 * -ENOENT: not there (setproctitle may have overwritten it); -ERANGE: longer than size - 1.
 */
int gt_proc_getenv(const struct gt_proc *p, const char *name, char *buf, size_t size);

/* Several of them in one read. 0, and an `err` as above for each of them; or -errno. */
struct gt_proc_var {
	const char *name;
	char *buf;
	size_t size;
	int err;
};

int gt_proc_getenvs(const struct gt_proc *p, struct gt_proc_var *vars, size_t n);

/* Thread's name and id in the process's PID namespace; -ENOENT / -ESRCH: it has ended. */
int gt_proc_thread(const struct gt_proc *p, pid_t tid, char comm[GT_PROC_COMM], pid_t *ns_tid);

/*
 * 1 if any thread runs with an x86 user shadow stack: the kernel's emulation of a probed call
 * writes the return address to the normal stack only, so the return would fault. 0 if none does,
 * -errno if it cannot be told (so "not 0" is the careful test).
 */
int gt_proc_shadow_stack(const struct gt_proc *p);

#endif
