// SPDX-License-Identifier: Apache-2.0
#include "command.h"
#include "holder.h"
#include "identity.h"
#include "log.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct gt_command {
	pid_t pid, holder;
	int sock;           /* to the holder; -1: nothing is traced any more */
	int pidfd, news_fd; /* an epoll of sock, then of pidfd */
	int for_good, status;
	char name[64];
};

/* ---- in the command, until it is executed: system calls only ---- */

/* What the command says if it cannot be executed. */
struct failure {
	int32_t err;
	enum { FAILED_TO_EXECUTE, FAILED_TO_BECOME, FAILED_TO_PREPARE } what;
};

struct start {
	const struct gt_command_opts *opts;
	struct gt_identity id;
	const char *path;
	sigset_t sigmask;   /* for it */
	int ignore_sigchld; /* as it was */
	int failure_wr;     /* close-on-exec: struct failure, or nothing */
};

/* No handler of ours must run in it, and what others had ignored stays ignored. */
static void restore_signals(const struct start *s)
{
	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction sa;

		if (sigaction(sig, NULL, &sa))
			continue;
		if (sa.sa_handler != SIG_IGN ||
		    (s->opts->sigdefault && sigismember(s->opts->sigdefault, sig) == 1))
			signal(sig, sig == SIGCHLD && s->ignore_sigchld ? SIG_IGN : SIG_DFL);
	}
	sigprocmask(SIG_SETMASK, &s->sigmask, NULL);
}

static int restore_limits(uint64_t soft, const struct rlimit *locked_memory)
{
	struct rlimit lim;

	if (locked_memory && setrlimit(RLIMIT_MEMLOCK, locked_memory))
		return -1;
	if (!soft)
		return 0;
	if (getrlimit(RLIMIT_NOFILE, &lim))
		return -1;
	lim.rlim_cur = soft < lim.rlim_max ? soft : lim.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &lim);
}

/* Like execvpe(3), but without its shell for what the kernel cannot execute. Returns errno. */
static int execute(char *const *argv, char *const *env, const char *path)
{
	const char *name = argv[0];
	int err = ENOENT;

	if (strchr(name, '/')) {
		execve(name, argv, env);
		return errno;
	}
	for (const char *dir = path; *name && dir; dir = *dir ? dir + 1 : NULL) {
		size_t len = strcspn(dir, ":");
		char file[PATH_MAX];
		int n = snprintf(file, sizeof(file), "%.*s%s%s", (int)len, dir, len ? "/" : "./",
				 name);

		dir += len;
		if (n < 0 || (size_t)n >= sizeof(file))
			continue;
		execve(file, argv, env);
		if (errno == EACCES)
			err = EACCES;
		else if (errno != ENOENT && errno != ENOTDIR && errno != ENODEV &&
			 errno != ESTALE && errno != ETIMEDOUT)
			return errno;
	}
	return err;
}

static void command(void *ctx)
{
	const struct start *s = ctx;
	struct failure f = {0};

	if (restore_limits(s->opts->open_files, s->opts->locked_memory)) {
		f = (struct failure){errno, FAILED_TO_PREPARE};
	} else if (gt_identity_become(&s->id)) {
		f = (struct failure){errno, FAILED_TO_BECOME};
	} else {
		restore_signals(s);
		f = (struct failure){execute(s->opts->argv, s->id.environment, s->path),
				     FAILED_TO_EXECUTE};
	}
	(void)!write(s->failure_wr, &f, sizeof(f));
}

/* ---- our side ---- */

static void reap(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* All signals are blocked in the holder: those of the terminal reach it as well. */
static pid_t fork_holder(struct start *s, int our_sock, int holder_sock)
{
	sigset_t all, keep;
	struct sigaction chld;
	pid_t pid;

	if (!sigaction(SIGCHLD, NULL, &chld) && chld.sa_handler == SIG_IGN) {
		s->ignore_sigchld = 1;
		signal(SIGCHLD, SIG_DFL);
	}
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &keep);
	s->sigmask = s->opts->sigmask ? *s->opts->sigmask : keep;
	pid = fork();
	if (!pid) {
		close(our_sock);
		gt_holder_run(holder_sock, command, s);
	}
	sigprocmask(SIG_SETMASK, &keep, NULL);
	return pid < 0 ? -errno : pid;
}

static void explain_failure(const struct start *s, const struct failure *f)
{
	const char *name = s->opts->argv[0], *why = strerror(f->err);

	if (f->what == FAILED_TO_BECOME)
		gt_error("cannot start '%s' as user %u: %s", name, s->id.uid, why);
	else if (f->what == FAILED_TO_PREPARE)
		gt_error("cannot start '%s': %s", name, why);
	else if (f->err == ENOENT && !strchr(name, '/'))
		gt_error("cannot execute '%s': it is not in PATH (%s)", name, s->path);
	else
		gt_error("cannot execute '%s': %s", name, why);
}

/* Returns when the command is executed, or has been killed before. */
static int await_execution(struct gt_command *c, const struct start *s, int failure_rd)
{
	struct failure f;
	struct gt_holder_word w;
	ssize_t n;

	do
		n = recv(c->sock, &w, sizeof(w), 0);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(w) || w.kind != GT_HOLDER_STARTED || w.value <= 0) {
		int err = n == (ssize_t)sizeof(w) && w.value < 0 ? w.value : -EIO;

		gt_error("cannot start '%s': %s", s->opts->argv[0], strerror(-err));
		return err;
	}
	c->pid = w.value;
	do
		n = read(failure_rd, &f, sizeof(f));
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)sizeof(f)) {
		explain_failure(s, &f);
		return -f.err;
	}
	return 0;
}

static int watch(const struct gt_command *c, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(c->news_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int start(struct gt_command *c, struct start *s)
{
	gt_autoclose int failure_rd = -1, failure_wr = -1, holder_sock = -1;
	int socks[2], pipefd[2], err;

	c->news_fd = epoll_create1(EPOLL_CLOEXEC);
	if (c->news_fd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks))
		goto failed;
	c->sock = socks[0];
	holder_sock = socks[1];
	if (watch(c, c->sock) || pipe2(pipefd, O_CLOEXEC))
		goto failed;
	failure_rd = pipefd[0];
	s->failure_wr = failure_wr = pipefd[1];
	c->holder = fork_holder(s, c->sock, holder_sock);
	if (c->holder < 0) {
		errno = -c->holder;
		goto failed;
	}
	close(gt_steal_fd(&failure_wr));
	close(gt_steal_fd(&holder_sock));
	err = await_execution(c, s, failure_rd);
	if (err)
		return err;
	c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	if (c->pidfd >= 0)
		return 0;
failed:
	err = -errno;
	gt_error("cannot start '%s': %s", c->name, strerror(-err));
	return err;
}

/* The holder has ended, or will: the command lives on, and only its end is awaited. */
static void part_from_holder(struct gt_command *c, int wait_for_it)
{
	close(gt_steal_fd(&c->sock));
	if (c->holder <= 0)
		return;
	if (wait_for_it)
		reap(c->holder);
	else
		(void)waitpid(c->holder, NULL, WNOHANG); /* else it is init's when we end */
}

static void give_up(struct gt_command *c)
{
	if (c->pid > 0) {
		kill(c->pid, SIGKILL);
		reap(c->pid);
		c->pid = 0;
	}
	if (c->sock >= 0)
		part_from_holder(c, 1);
}

int gt_command_start(const struct gt_command_opts *opts, struct gt_command **out)
{
	struct gt_command *c = calloc(1, sizeof(*c));
	struct start s = {.opts = opts, .path = getenv("PATH")};
	char default_path[64] = "";
	int err = -ENOMEM;

	if (!s.path) {
		(void)confstr(_CS_PATH, default_path, sizeof(default_path));
		s.path = default_path;
	}
	if (c) {
		c->sock = c->pidfd = c->news_fd = -1;
		snprintf(c->name, sizeof(c->name), "%s", opts->argv[0]);
		err = gt_identity_find(opts->user, &s.id);
	}
	if (err == -ENOMEM)
		gt_error("out of memory");
	if (!err) {
		err = start(c, &s);
		if (err)
			give_up(c);
		else if (s.id.changes)
			gt_info("'%s' runs as user %u (%s)", c->name, s.id.uid,
				s.id.name ? s.id.name : "who has no name here");
	}
	gt_identity_drop(&s.id);
	if (err)
		gt_command_free(c);
	else
		*out = c;
	return err;
}

pid_t gt_command_pid(const struct gt_command *c)
{
	return c->pid;
}

int gt_command_fd(const struct gt_command *c)
{
	return c->news_fd;
}

/* Not reaped, so that its pid stays its own. */
static int has_ended(struct gt_command *c)
{
	siginfo_t si = {0};

	if (c->pidfd < 0)
		return 0;
	if (!waitid(P_PID, (id_t)c->pid, &si, WEXITED | WNOWAIT | WNOHANG)) {
		if (!si.si_pid)
			return 0;
		c->status = si.si_code == CLD_EXITED ? si.si_status : 128 + si.si_status;
	} else if (errno == ECHILD) {
		gt_warn("how '%s' has ended is not known: it is no child any more", c->name);
		c->status = 1;
	} else {
		return 0;
	}
	close(gt_steal_fd(&c->pidfd));
	return 1;
}

/* While it is traced, the holder sees its end before we do. */
static enum gt_command_news on_holders_end(struct gt_command *c)
{
	part_from_holder(c, 1);
	if (has_ended(c))
		return GT_COMMAND_ENDED;
	if (watch(c, c->pidfd))
		gt_error("the end of '%s' will not be seen: %s", c->name, strerror(errno));
	if (c->for_good)
		return GT_COMMAND_NOTHING;
	gt_warn("'%s' is held no more: the process that did it has ended", c->name);
	return GT_COMMAND_UNHELD;
}

enum gt_command_news gt_command_news(struct gt_command *c)
{
	struct gt_holder_word w;
	ssize_t n;

	if (c->sock < 0)
		return has_ended(c) ? GT_COMMAND_ENDED : GT_COMMAND_NOTHING;
	n = recv(c->sock, &w, sizeof(w), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return GT_COMMAND_NOTHING;
	if (n != (ssize_t)sizeof(w))
		return on_holders_end(c);
	if (w.kind == GT_HOLDER_AT_ENTRY)
		return GT_COMMAND_AT_ENTRY;
	c->for_good |= w.value;
	gt_warn("'%s': a program runs that could not be held where it begins: %s", c->name, w.why);
	return GT_COMMAND_UNHELD;
}

void gt_command_continue(struct gt_command *c, int for_good)
{
	int32_t order = !!for_good;

	c->for_good |= order;
	/* If it cannot be told, it sees the end of the socket, and leaves the command for good. */
	if (c->sock >= 0 &&
	    send(c->sock, &order, sizeof(order), MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(order))
		(void)shutdown(c->sock, SHUT_WR);
}

void gt_command_signal(const struct gt_command *c, const struct signalfd_siginfo *info)
{
	if (info->ssi_code != SI_KERNEL)
		(void)kill(c->pid, (int)info->ssi_signo);
}

int gt_command_status(const struct gt_command *c)
{
	return c->status;
}

void gt_command_free(struct gt_command *c)
{
	if (!c)
		return;
	if (c->sock >= 0)
		part_from_holder(c, 0);
	if (c->pid > 0)
		(void)waitpid(c->pid, NULL, WNOHANG);
	if (c->pidfd >= 0)
		close(c->pidfd);
	if (c->news_fd >= 0)
		close(c->news_fd);
	free(c);
}
