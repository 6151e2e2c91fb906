// SPDX-License-Identifier: Apache-2.0
/*
 * Why a process and not a thread of ours: when a tracer dies, the kernel lets its tracees run on,
 * and one that has a breakpoint before it would die of SIGTRAP. A holder lives through a kill -9 of
 * its parent, sees the socket end, and takes the breakpoint away first. And it has its own signal
 * mask and SIGCHLD, of which it makes a descriptor; in a thread, any other could take it. The
 * command is made by clone(2) with CLONE_PARENT, so the holder is not its parent and may end.
 *
 * Why a breakpoint instruction at AT_ENTRY and not a debug register: a debug register that is hit
 * after the tracer has died kills as well (seen with Linux 6.18), may be taken by somebody else
 * (perf), does not exist in some machines, and does nothing, silently, in others (SEV-ES guests).
 * Its one advantage, that what a library's constructor forks does not inherit it, is made up for:
 * until the entry is reached forks are traced as well, and the breakpoint is taken out of the new
 * process before it runs.
 */
#include "holder.h"
#include "caps.h"
#include "jail.h"

#include <elf.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#if defined(__x86_64__)
#define BREAKPOINT       0xccul
#define BREAKPOINT_BYTES 1
#define BREAKPOINT_MASK  0xfful
#define BREAKPOINT_SKIP  1 /* how far behind it the program counter stands when it is hit */
#define PROGRAM_COUNTER  rip
#elif defined(__aarch64__)
#define BREAKPOINT       0xd4200000ul
#define BREAKPOINT_BYTES 4
#define BREAKPOINT_MASK  0xfffffffful
#define BREAKPOINT_SKIP  0
#define PROGRAM_COUNTER  pc
#endif

#define TRAP_BIT (1ull << (SIGTRAP - 1)) /* in the kernel's signal masks */

struct holder {
	pid_t pid; /* of the command */
	int sock, sigchld_fd;
	/* The breakpoint, while it is in the command's memory. */
	int planted;
	uint64_t entry, original;
	int trap_blocked; /* SIGTRAP, in the command */
	int held;
	int leaving; /* as soon as there is no breakpoint */
};

static void tell(const struct holder *h, int kind, int value, const char *what, int err)
{
	struct gt_holder_word w = {.kind = kind, .value = value};

	if (what)
		snprintf(w.why, sizeof(w.why), "%s%s%s", what, err ? ": " : "",
			 err ? strerror(-err) : "");
	/* Nobody reads: seen where it is read from. */
	(void)send(h->sock, &w, sizeof(w), MSG_NOSIGNAL);
}

static long trace(int request, pid_t tid, uint64_t addr, uint64_t data)
{
	return ptrace((enum __ptrace_request)request, tid, (void *)addr, (void *)data);
}

/* Replaces an instruction. What was there goes to *before, unless that is NULL. */
static int put_code(pid_t tid, uint64_t at, uint64_t code, uint64_t *before)
{
	const uint64_t shift = at % 8 * 8, mask = BREAKPOINT_MASK << shift;
	uint64_t word;

	if (at % BREAKPOINT_BYTES)
		return -EINVAL;
	errno = 0;
	word = (uint64_t)trace(PTRACE_PEEKTEXT, tid, at - at % 8, 0);
	if (errno)
		return -errno;
	if (trace(PTRACE_POKETEXT, tid, at - at % 8, (word & ~mask) | code << shift))
		return -errno;
	if (before)
		*before = (word & mask) >> shift;
	return 0;
}

/* -ENOEXEC: a 32-bit program, whose registers are others. */
static int get_registers(pid_t tid, struct user_regs_struct *regs)
{
	struct iovec iov = {regs, sizeof(*regs)};

	if (trace(PTRACE_GETREGSET, tid, NT_PRSTATUS, (uintptr_t)&iov))
		return -errno;
	return iov.iov_len == sizeof(*regs) ? 0 : -ENOEXEC;
}

/* Where the kernel tells the dynamic loader to go when all is mapped. */
static int read_entry(pid_t pid, uint64_t *entry)
{
	uint64_t auxv[512];
	gt_autoclose int fd = -1;
	char path[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, auxv, sizeof(auxv));
	if (n < 0)
		return -errno;
	for (size_t i = 0; i + 1 < (size_t)n / sizeof(*auxv); i += 2) {
		if (auxv[i] == AT_ENTRY) {
			*entry = auxv[i + 1];
			return 0;
		}
	}
	return -ENOENT;
}

/* Puts the breakpoint into what was just executed. NULL, or why it cannot be held (and *err). */
static const char *plant(struct holder *h, int *err)
{
	struct user_regs_struct regs = {0};
	uint64_t mask = 0;

	*err = get_registers(h->pid, &regs);
	if (*err == -ENOEXEC) {
		*err = 0;
		return "it is a 32-bit program";
	}
	if (*err)
		return "its registers cannot be read";
	*err = read_entry(h->pid, &h->entry);
	if (*err)
		return "its auxiliary vector cannot be read";
	(void)trace(PTRACE_GETSIGMASK, h->pid, sizeof(mask), (uintptr_t)&mask);
	h->trap_blocked = (mask & TRAP_BIT) != 0;
	*err = put_code(h->pid, h->entry, BREAKPOINT, &h->original);
	if (*err)
		return "no breakpoint can be put at its entry";
	h->planted = 1;
	return NULL;
}

/* Threads are traced because they, too, may execute a program. */
#define OPTIONS (PTRACE_O_TRACEEXEC | PTRACE_O_TRACECLONE)

/*
 * The breakpoint went with the old memory, if there was one (a library's constructor has executed
 * something). Until the entry is reached, such a constructor may also fork, and both run on.
 */
static void on_exec(struct holder *h)
{
	const char *why;
	int err;

	h->planted = 0;
	if (h->leaving)
		return;
	why = plant(h, &err);
	if (why)
		tell(h, GT_HOLDER_UNHELD, 0, why, err);
	(void)trace(PTRACE_SETOPTIONS, h->pid, 0,
		    why ? OPTIONS : OPTIONS | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK);
	(void)trace(PTRACE_CONT, h->pid, 0, 0);
}

/*
 * If this SIGTRAP is our breakpoint, takes it away at once, and the command is where it would be
 * without it. From here on it runs on by itself if we die: that this stop has been waited for means
 * that its signal is gone.
 */
static int on_breakpoint(struct holder *h)
{
	struct user_regs_struct regs = {0};
	struct iovec iov = {&regs, sizeof(regs)};
	uint64_t mask;

	if (!h->planted || get_registers(h->pid, &regs) ||
	    regs.PROGRAM_COUNTER != h->entry + BREAKPOINT_SKIP)
		return 0;
	/* Failures mean that it is being killed. */
	(void)put_code(h->pid, h->entry, h->original, NULL);
	regs.PROGRAM_COUNTER = h->entry;
	(void)trace(PTRACE_SETREGSET, h->pid, NT_PRSTATUS, (uintptr_t)&iov);
	/* The kernel has unblocked it, to be able to deliver it (and un-ignored it, for good). */
	if (h->trap_blocked && !trace(PTRACE_GETSIGMASK, h->pid, sizeof(mask), (uintptr_t)&mask)) {
		mask |= TRAP_BIT;
		(void)trace(PTRACE_SETSIGMASK, h->pid, sizeof(mask), (uintptr_t)&mask);
	}
	h->planted = 0;
	h->held = 1;
	tell(h, GT_HOLDER_AT_ENTRY, 0, NULL, 0);
	return 1;
}

/* Another process, at its first stop. Unless it shares the memory, it got a copy of the breakpoint.
 */
static void let_stranger_go(const struct holder *h, pid_t pid)
{
	if (h->planted && syscall(SYS_kcmp, h->pid, pid, KCMP_VM, 0, 0))
		(void)put_code(pid, h->entry, h->original, NULL);
	(void)trace(PTRACE_DETACH, pid, 0, 0);
}

static int is_stranger(const struct holder *h, pid_t tid)
{
	return tid != h->pid && syscall(SYS_tgkill, h->pid, tid, 0);
}

/* A new thread, or SIGCONT has come (SIGTRAP), or all threads are to stop by the signal. */
static void on_event_stop(const struct holder *h, pid_t tid, int sig)
{
	if (is_stranger(h, tid))
		let_stranger_go(h, tid);
	else
		(void)trace(sig == SIGTRAP ? PTRACE_CONT : PTRACE_LISTEN, tid, 0, 0);
}

/*
 * A new process is done with before its parent runs on, which might reach the entry, and we then
 * leave. If its stop was seen earlier, it is nothing of ours any more.
 */
static void on_new(const struct holder *h, pid_t parent)
{
	unsigned long tid = 0;
	siginfo_t si = {0};

	if (!trace(PTRACE_GETEVENTMSG, parent, 0, (uintptr_t)&tid) && is_stranger(h, (pid_t)tid) &&
	    !waitid(P_PID, (id_t)tid, &si, WSTOPPED | WEXITED | __WALL) &&
	    si.si_code == CLD_TRAPPED)
		let_stranger_go(h, (pid_t)tid);
	(void)trace(PTRACE_CONT, parent, 0, 0);
}

/* `status`: a signal, and above it the event, as ptrace(2) has it. */
static void on_stop(struct holder *h, pid_t tid, int status)
{
	int sig = status & 0xff;

	switch (status >> 8) {
	case 0:
		if (sig != SIGTRAP || tid != h->pid || !on_breakpoint(h))
			(void)trace(PTRACE_CONT, tid, 0, (uint64_t)sig);
		break;
	case PTRACE_EVENT_EXEC:
		on_exec(h);
		break;
	case PTRACE_EVENT_STOP:
		on_event_stop(h, tid, sig);
		break;
	default: /* PTRACE_EVENT_FORK, _VFORK, _CLONE */
		on_new(h, tid);
		break;
	}
}

/* Handles what is there to be waited for; 0: nothing is traced any more. */
static int wait_for_all(struct holder *h)
{
	siginfo_t si;

	for (;;) {
		memset(&si, 0, sizeof(si));
		if (waitid(P_ALL, 0, &si, WSTOPPED | WEXITED | WNOHANG | __WALL))
			return errno == EINTR;
		if (!si.si_pid)
			return 1;
		if (si.si_code == CLD_TRAPPED || si.si_code == CLD_STOPPED)
			on_stop(h, si.si_pid, si.si_status);
		else if (si.si_pid == h->pid)
			return 0;
		if (h->leaving && !h->planted)
			return 1;
	}
}

static void obey(struct holder *h)
{
	int32_t for_good = 1; /* if we are gone */

	if (recv(h->sock, &for_good, sizeof(for_good), MSG_DONTWAIT) < 0 && errno == EAGAIN)
		return;
	if (for_good) {
		h->leaving = 1;
	} else if (h->held) {
		h->held = 0;
		(void)trace(PTRACE_SETOPTIONS, h->pid, 0, OPTIONS);
		(void)trace(PTRACE_CONT, h->pid, 0, 0);
	}
}

/* When the holder ends, the kernel lets go of all that it traces. */
static void hold(struct holder *h)
{
	struct pollfd fds[] = {{.fd = h->sigchld_fd, .events = POLLIN},
			       {.fd = h->sock, .events = POLLIN}};
	struct signalfd_siginfo info;

	while (wait_for_all(h) && !(h->leaving && !h->planted)) {
		/* The end of the socket is readable for ever. */
		if (poll(fds, h->leaving ? 1 : 2, -1) < 0)
			continue;
		if (fds[0].revents)
			(void)!read(h->sigchld_fd, &info, sizeof(info));
		if (!h->leaving && fds[1].revents)
			obey(h);
	}
}

/* Keeps the socket, as 3. What others have handed down to us is the command's. */
static int keep_only_socket(struct holder *h)
{
	int err = gt_jail_keep_only(&h->sock, 1);

	h->sock = 3;
	return err;
}

/* In the command: waits until it is traced, or will not be. */
static void await_tracer(int go, pid_t holder_pid)
{
	char c;

	/* For Yama: the holder is no ancestor of it. */
	(void)prctl(PR_SET_PTRACER, holder_pid, 0, 0, 0);
	/*
	 * Capabilities of our file make us undumpable, and that untraceable by ourselves. They
	 * still guard the command from other processes of the user, and it is traced when it loses
	 * them.
	 */
	if (geteuid())
		(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	if (write(go, "", 1) == 1)
		(void)!read(go, &c, 1);
}

/* `go` ends when this returns. */
static int seize(const struct holder *h, int go)
{
	char c;

	if (read(go, &c, 1) != 1)
		return -1; /* it has been killed */
	if (!trace(PTRACE_SEIZE, h->pid, 0, OPTIONS))
		return 0;
	tell(h, GT_HOLDER_UNHELD, 1,
	     "ptrace is refused (kernel.yama.ptrace_scope, or a container's seccomp filter)",
	     -errno);
	return -1;
}

void gt_holder_run(int sock, void (*command)(void *ctx), void *ctx)
{
	struct holder h = {.sock = sock};
	pid_t self = getpid();
	sigset_t sigchld;
	int go[2];

	signal(SIGCHLD, SIG_DFL);
	/* So that pkill -9 by our name does not end the holder, too, before it has let go. */
	(void)prctl(PR_SET_NAME, "gt-command", 0, 0, 0);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, go)) {
		tell(&h, GT_HOLDER_STARTED, -errno, NULL, 0);
		_exit(1);
	}
	h.pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
	if (!h.pid) {
		close(go[0]);
		await_tracer(go[1], self);
		command(ctx);
		_exit(127);
	}
	tell(&h, GT_HOLDER_STARTED, h.pid < 0 ? -errno : h.pid, NULL, 0);
	close(go[1]);
	if (h.pid < 0 || seize(&h, go[0]) || gt_caps_keep(GT_CAPS_LOOK) || keep_only_socket(&h) ||
	    chdir("/"))
		_exit(1); /* and `go` ends */
	sigemptyset(&sigchld);
	sigaddset(&sigchld, SIGCHLD);
	h.sigchld_fd = signalfd(-1, &sigchld, SFD_CLOEXEC | SFD_NONBLOCK);
	if (h.sigchld_fd >= 0)
		hold(&h);
	_exit(0);
}
