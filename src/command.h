/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.h - starts the program that is to be recorded, and holds it where recording must begin:
 * at its entry point, when all that it is linked with is mapped and none of it has run but
 * constructors of libraries. Then it is let go, and what became of it is told.
 *
 * It is our child, in our process group, on our terminal and in our working directory. A process
 * of ours, the holder, traces it by ptrace(2) until it is let go for good, and ends then; no other
 * process is touched. Where ptrace is refused, the program runs without being held, and that is
 * said. If we are killed, the holder lets go, and the program lives on. Used by one thread.
 */
#ifndef GT_COMMAND_H
#define GT_COMMAND_H

#include "base.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/types.h>

struct gt_command;

struct gt_command_opts {
	/*
	 * Ends with NULL. argv[0] is looked for with the user's rights in our PATH, which under
	 * sudo(8) is its secure_path, as for any command run by sudo. A script without "#!" is
	 * -ENOEXEC: no shell is tried.
	 */
	char *const *argv;
	/*
	 * Whose rights it gets: a name or number in the password database; NULL: the user who ran
	 * sudo(8), if we are root and SUDO_UID says so, else our own. With it go the groups, HOME,
	 * USER, LOGNAME and SHELL where the user changes; SUDO_* variables are removed in any case.
	 * The rest of the environment is ours.
	 */
	const char *user;
	/* As it was before we blocked signals; NULL: as it is. */
	const sigset_t *sigmask;
	/* Signals that we ignore, but did not when we were started: default again. NULL: none. */
	const sigset_t *sigdefault;
	uint64_t open_files; /* RLIMIT_NOFILE, the soft one, as it was; 0: as it is */
	const struct rlimit *locked_memory; /* RLIMIT_MEMLOCK as it was; NULL: as it is */
};

enum gt_command_news {
	GT_COMMAND_NOTHING,
	/*
	 * A program was executed and stands at its entry point: gt_command_continue() must follow.
	 * Signals wait until then, save SIGKILL. Comes again for each further program that it
	 * executes, until it is let go for good.
	 */
	GT_COMMAND_AT_ENTRY,
	/*
	 * It runs, but could not be held (logged why): what was executed is a 32-bit program, or
	 * may not be read by us, or ptrace was refused. What it executes next may be held again.
	 */
	GT_COMMAND_UNHELD,
	GT_COMMAND_ENDED, /* the last news; gt_command_status() is there */
};

/*
 * Starts it; returns when it has been executed. Descriptors that are not close-on-exec, which ours
 * are, go with it. SIGCHLD must not be ignored for its status to be told: it is made default.
 * Nobody else may wait for any child (waitpid(-1)).
 *
 * -errno, logged. -ESRCH: there is no such user. -EPERM, before anything was tried: another user
 * is wanted and we are not root. Else what execve(2) said (-ENOENT, -EACCES, -ENOEXEC, ...; what a
 * shell answers with 127 and 126), or there are no resources.
 */
int gt_command_start(const struct gt_command_opts *opts, struct gt_command **out);

/* It stays its own, and no other process gets it, until gt_command_free(). */
pid_t gt_command_pid(const struct gt_command *c);

/* Readable when there is news, which is to be asked for once each time. */
int gt_command_fd(const struct gt_command *c);
enum gt_command_news gt_command_news(struct gt_command *c);

/*
 * Lets it run on after GT_COMMAND_AT_ENTRY. for_good: it is not held again, and ptrace lets go of
 * it. Until then, and unless we are root, programs with the set-user-ID bit run without it, as the
 * kernel wants it for what is traced.
 */
void gt_command_continue(struct gt_command *c, int for_good);

/*
 * Passes a signal on that we got, unless the terminal has sent it to the whole process group, and
 * so to the program as well. What another process sends to the group (kill -- -PGID) cannot be told
 * from what it sends to us; the program gets that twice.
 */
void gt_command_signal(const struct gt_command *c, const struct signalfd_siginfo *info);

/* After GT_COMMAND_ENDED: its exit status, or 128 + the signal that ended it. */
int gt_command_status(const struct gt_command *c);

/* A program that still runs goes on, let go for good. NULL is allowed. */
void gt_command_free(struct gt_command *c);

#endif
