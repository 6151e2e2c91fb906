/* SPDX-License-Identifier: Apache-2.0 */
/*
 * procfile.h - the small files that /proc has of a process, read through its procfd, so that a
 * process with a reused pid is never read. For the modules that build on proc.h; in proc.c. Errors
 * are -errno: -ESRCH and -ENOENT where the process has ended. Logs nothing. No state.
 */
#ifndef GT_PROCFILE_H
#define GT_PROCFILE_H

#include "proc.h"

/* Up to size - 1 bytes from the start of a file, and a NUL. Returns the number of bytes. */
ssize_t gt_procfile_read(const struct gt_proc *p, const char *name, char *buf, size_t size);

/*
 * The value of "key:\t..." in a file like status, of lines up to 511 bytes. -ENOENT: no such line;
 * -ERANGE: longer than size - 1.
 */
int gt_procfile_status(const struct gt_proc *p, const char *file, const char *key, char *buf,
		       size_t size);

struct gt_procstat {
	char state;           /* R, S, D, ...; Z: a zombie, or its main thread has ended */
	pid_t parent;         /* in our PID namespace; 0: outside of it */
	uint32_t flags;       /* PF_* of the kernel's include/linux/sched.h */
	uint32_t threads;     /* 0: it is ending */
	uint64_t start_ticks; /* clock ticks on our CLOCK_BOOTTIME */
};

/* What its stat says. */
int gt_procfile_stat(const struct gt_proc *p, struct gt_procstat *out);

#endif
