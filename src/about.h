/* SPDX-License-Identifier: Apache-2.0 */
/*
 * about.h - what tells a person, or another tool, which process it is: command line or title,
 * container, namespaces, owner, parent, threads. All of it comes from somebody else: lengths are
 * bounded, nothing is used as a path, and text is harmless and valid UTF-8. Logs nothing. No state.
 */
#ifndef GT_ABOUT_H
#define GT_ABOUT_H

#include "proc.h"

#define GT_CMDLINE_MAX   1024
#define GT_CONTAINER_MAX 80

struct gt_about {
	/*
	 * The arguments, separated by blanks, as they are in memory now: a program that sets its
	 * title (setproctitle) has overwritten them. Cut, without blanks at the end; "": none.
	 */
	char cmdline[GT_CMDLINE_MAX];
	/*
	 * Id of its container by its cgroup (docker, podman, containerd, cri-o, kubepods, lxc), in
	 * full; "": none, or hidden by a cgroup namespace that we are in.
	 */
	char container[GT_CONTAINER_MAX];
	uint64_t pidns, mntns, userns; /* inode numbers of its namespaces; 0: not known */
	uint8_t other_pidns, other_mntns, other_userns; /* known, and not the ones that we are in */
	/*
	 * Its clocks minus those of the host, from its time namespace: CLOCK_MONOTONIC (and
	 * CLOCK_MONOTONIC_RAW) and CLOCK_BOOTTIME as the process reads them. Exact; of the host's
	 * first time namespace, also where we are in another. 0 where it has none of its own, or
	 * made one for its children only; and where it cannot be told, since the kernel shows those
	 * of the children: it has done so within one of its own.
	 */
	int64_t timens_mono_ns, timens_boot_ns;
	/*
	 * When it was made, on the host's CLOCK_MONOTONIC: up to a clock tick (10 ms) too early,
	 * and by the time that the machine has been suspended since. 0: not known.
	 */
	uint64_t born_mono_ns;
	pid_t parent;     /* in our PID namespace; 0: outside of it */
	uid_t uid;        /* real, in our user namespace; (uid_t)-1: not known */
	uint32_t threads; /* 0: not known */
};

/* 0; -ESRCH: it has ended. What else cannot be read is left empty. */
int gt_about(const struct gt_proc *p, struct gt_about *out);

/* born_mono_ns alone. */
uint64_t gt_about_born(const struct gt_proc *p);

/*
 * The command line or title alone, as above: it may change. 0 or -errno; -ESRCH: it has ended. Of a
 * zombie, and for a moment while it executes another program, it is "".
 */
int gt_about_cmdline(const struct gt_proc *p, char *buf, size_t size);

/*
 * Is it a process that is never a target: a kernel thread, a zombie (also where only its main
 * thread has ended: nothing can be read of it), or one of ours: this process, and its children as
 * long as they run our program? 1, 0; -errno: it has ended.
 */
int gt_about_is_excluded(const struct gt_proc *p);

/* The container in the text of a cgroup file: the innermost name that looks like one, else "". */
void gt_about_parse_container(const char *text, char out[GT_CONTAINER_MAX]);

/*
 * Makes text of a target fit for a terminal and for JSON: of what is no valid UTF-8, and of
 * characters that control a terminal, the direction of text or lines, each byte becomes '?'.
 */
void gt_about_clean(char *text);

#endif
