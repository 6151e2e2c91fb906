// SPDX-License-Identifier: Apache-2.0
#include "symres.h"
#include "gilscan.h"
#include "jail.h"
#include "libcsites.h"
#include "symanswer.h"
#include "symcheck.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define CPU_SECONDS  10
#define WALL_MS      20000
#define MEMORY_MAX   (2ull << 30)
#define FILE_MAX     (1ull << 30)
#define NEWEST_MINOR 16 /* of CPython 3, whose source has been read */

/* The child's status where it could not give up its privileges; or could not begin: + errno. */
#define EXIT_PRIVILEGED 2
#define EXIT_ERRNO      100

/* Adds to a text of GT_WHY_MAX bytes, behind what is there. */
static void append(char *text, const char *fmt, ...) GT_PRINTF(2, 3);

static void append(char *text, const char *fmt, ...)
{
	size_t len = strlen(text);
	va_list ap;

	if (len)
		len += (size_t)snprintf(text + len, GT_WHY_MAX - len, "; ");
	if (len >= GT_WHY_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(text + len, GT_WHY_MAX - len, fmt, ap);
	va_end(ap);
}

/* ---- in the child: which way, and its sites ---- */

struct job {
	const char *name;
	enum gt_probe_mode mode;
	unsigned int flags; /* GT_SYMRES_* */
	int fd, out;
};

static int tell(const struct job *j, int err, int more, const struct gt_sites *sites)
{
	struct gt_symanswer a = {.err = err, .more = more, .sites = *sites};

	return write(j->out, &a, sizeof(a)) == (ssize_t)sizeof(a) ? 0 : -EIO;
}

/* Function probes, where `scan` says why the scan's sites will not do (GT_PROBE_AUTO). */
static int fall_back(const struct gt_image *img, struct gt_symsrc *src, const char *scan,
		     struct gt_sites *out)
{
	char why[GT_WHY_MAX];
	int err;

	snprintf(why, sizeof(why), "%s", scan);
	err = gt_symcheck_functions(src, img, 1, out);
	if (err) {
		out->mode = GT_PROBE_LIBC;
		append(why, "%s", out->why);
		memcpy(out->why, why, sizeof(why));
		return err;
	}
	out->mode = GT_PROBE_FUNCTIONS;
	snprintf(out->why, sizeof(out->why), "function probes are used: %.200s", why);
	return 0;
}

/* Symbols can be as wrong as the scan: libc needs neither, save in 3.6, where it does not work. */
static int believe_neither(const struct gt_image *img, struct gt_symsrc *src, struct gt_sites *out)
{
	static const char contradiction[] = "symbols contradict the scan";

	if (!out->switch_cond)
		return fall_back(img, src, contradiction, out);
	out->mode = GT_PROBE_LIBC;
	out->n = 0;
	snprintf(out->why, sizeof(out->why), "%s", contradiction);
	return -ENOENT;
}

static int only_functions(const struct gt_image *img, struct gt_symsrc *src, struct gt_sites *out)
{
	int scanned = out->n > 0, err = gt_symcheck_functions(src, img, 0, out);

	out->mode = GT_PROBE_FUNCTIONS;
	if (err && scanned)
		append(out->why, "use --probe=sites, which needs none");
	else if (out->why[0] && scanned)
		append(out->why, "--probe=sites sees all");
	return err;
}

/* Nothing in this file is to be probed; what libc's functions are compared with is in *out. */
static int only_libc(struct gt_sites *out)
{
	out->mode = GT_PROBE_LIBC;
	out->n = 0;
	snprintf(out->why, sizeof(out->why), "%s",
		 out->switch_cond ? "libc's functions are to be probed, not this file"
				  : "the condition variables of CPython 3.6 lie at no fixed "
				    "distance, by which --probe=libc would know them");
	return -ENOENT;
}

static int find_name(void *ctx, const char *name, uint64_t *vaddr)
{
	return gt_symsrc_value(ctx, name, vaddr);
}

/* `src` is there already where the symbols alone tell that it is a CPython. */
static int resolve_python(const struct job *j, const struct gt_image *img, struct gt_symsrc *src,
			  struct gt_sites *out)
{
	const struct gt_gilnames names = {.find = find_name, .ctx = src};
	int err = gt_gilscan_sites_named(img, src ? &names : NULL, out);

	if (err && err != -ENOENT)
		return err;
	out->mode = GT_PROBE_SITES;
	if (j->mode == GT_PROBE_LIBC)
		return only_libc(out);
	if (!err && j->mode != GT_PROBE_FUNCTIONS && tell(j, 0, 1, out))
		return -EIO;
	if (!src && gt_symsrc_open(j->fd, j->name, &src))
		src = NULL;
	gt_symcheck_compare(src, img, !!(j->flags & GT_SYMRES_DEEP), out);
	if (j->mode == GT_PROBE_FUNCTIONS)
		err = only_functions(img, src, out);
	else if (j->mode == GT_PROBE_AUTO && err)
		err = fall_back(img, src, out->why, out);
	else if (j->mode == GT_PROBE_AUTO && out->verdict == GT_VERDICT_DISAGREES)
		err = believe_neither(img, src, out);
	if (out->py_major == 3 && out->py_minor > NEWEST_MINOR)
		append(out->why,
		       "CPython 3.%u is newer than this giltrace knows; the self-check "
		       "tells whether it is right",
		       out->py_minor);
	gt_symsrc_close(src);
	return err;
}

static int resolve_image(const struct job *j, const struct gt_image *img, struct gt_sites *out)
{
	int err = gt_gilscan_identify(img, j->name, out);
	struct gt_gilnames names = {.find = find_name};
	struct gt_symsrc *src = NULL;

	if (err == -ENOENT && !out->is_python && (j->flags & GT_SYMRES_EXE) &&
	    !gt_symsrc_open(j->fd, j->name, &src)) {
		names.ctx = src;
		err = gt_gilscan_identify_named(img, &names, j->name, out);
	}
	if (!err)
		return resolve_python(j, img, src, out);
	gt_symsrc_close(src);
	return j->mode == GT_PROBE_LIBC && !out->is_python ? gt_libcsites_find(img, out) : err;
}

/*
 * Shared, though it is only read: of each private mapping from which code may be run, executed or
 * not, the kernel (uprobe_mmap(), all versions so far) takes a copy with the breakpoints of those
 * who probe the file in every process, such as bpftrace and perf. A file system may know private
 * mappings only (FUSE with direct_io).
 */
static void *map(int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);

	return p != MAP_FAILED ? p : mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
}

static int resolve(const struct job *j, struct gt_sites *out)
{
	struct gt_image img;
	const char *why;
	struct stat st;
	void *p;

	memset(out, 0, sizeof(*out));
	if (fstat(j->fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 || (uint64_t)st.st_size > FILE_MAX) {
		snprintf(out->why, sizeof(out->why), "not a regular file of 1 byte to 1 GiB");
		return -ENOENT;
	}
	p = map(j->fd, (size_t)st.st_size);
	if (p == MAP_FAILED)
		return -errno;
	if (gt_image_open(&img, p, (size_t)st.st_size, &why)) {
		snprintf(out->why, sizeof(out->why), "%s", why);
		return -ENOENT;
	}
	return resolve_image(j, &img, out);
}

/* ---- the child itself ---- */

static void child(struct job *j, pid_t parent)
{
	static const struct gt_jail_limits limits = {.memory = MEMORY_MAX,
						     .cpu_seconds = CPU_SECONDS};
	const int fds[] = {j->fd, j->out};
	struct gt_sites sites;
	int err;

	unsetenv("DEBUGINFOD_URLS"); /* or libdwfl may ask the network */
	err = gt_jail_enter(fds, GT_ARRAY_SIZE(fds), &limits, parent);
	if (err)
		_exit(err == -EPERM ? EXIT_PRIVILEGED : EXIT_ERRNO - err);
	j->fd = 3;
	j->out = 4;
	err = resolve(j, &sites);
	_exit(tell(j, err, 0, &sites) ? 1 : 0);
}

/* ---- in the parent: trust nothing of the answer ---- */

static int64_t mono_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Reads exactly one answer. -ETIMEDOUT, -EIO */
static int read_answer(int fd, int64_t end, struct gt_symanswer *a)
{
	size_t got = 0;

	while (got < sizeof(*a)) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int64_t left = end - mono_ms();
		ssize_t n;

		if (left <= 0)
			return -ETIMEDOUT;
		n = poll(&p, 1, (int)left);
		if (n > 0)
			n = read(fd, (char *)a + got, sizeof(*a) - got);
		else if (!n)
			continue;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return -EIO;
		got += (size_t)n;
	}
	return 0;
}

/* *a: the last whole answer, if any. *status: of the child, as waitpid(2) gives it. */
static int run_child(struct job *j, struct gt_symanswer *a, int *status)
{
	gt_autoclose int rd = -1, wr = -1;
	int64_t end = mono_ms() + WALL_MS;
	pid_t parent = getpid(), pid;
	struct gt_symanswer next;
	int pipefd[2], err;

	if (pipe2(pipefd, O_CLOEXEC))
		return -errno;
	rd = pipefd[0];
	wr = j->out = pipefd[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid)
		child(j, parent);
	close(gt_steal_fd(&wr));
	next.more = 0;
	do {
		err = read_answer(rd, end, &next);
		if (!err)
			*a = next;
	} while (!err && next.more == 1);
	kill(pid, SIGKILL); /* it has nothing left to do; changes nothing where it has died */
	while (waitpid(pid, status, 0) < 0 && errno == EINTR)
		;
	return err;
}

/* Why the child did not do what it should; adds to out->why. */
static void explain(struct gt_sites *out, const char *what, int err, int status)
{
	if (err == -ETIMEDOUT)
		append(out->why, "the process that reads %s had not ended after %d s", what,
		       WALL_MS / 1000);
	else if (err && WIFSIGNALED(status))
		append(out->why,
		       "the process that reads %s was ended by signal %d (%s); it may take %d s of "
		       "CPU time and 2 GiB of memory",
		       what, WTERMSIG(status), strsignal(WTERMSIG(status)), CPU_SECONDS);
	else
		append(out->why, "the process that reads %s gave no sane answer (status %d)", what,
		       WIFEXITED(status) ? WEXITSTATUS(status) : 0);
}

int gt_symres_file(int fd, const char *name, enum gt_probe_mode mode, unsigned int flags,
		   struct gt_sites *out)
{
	struct job j = {.name = name, .mode = mode, .flags = flags, .fd = fd};
	struct gt_symanswer a = {0};
	int err, status = 0;
	struct stat st;

	memset(out, 0, sizeof(*out));
	if (fstat(fd, &st))
		return -errno;
	err = run_child(&j, &a, &status);
	if (err && err != -EIO && err != -ETIMEDOUT && !a.more)
		return err;
	if (err == -EIO && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_PRIVILEGED)
		return -EPERM;
	if (err == -EIO && !a.more && WIFEXITED(status) && WEXITSTATUS(status) > EXIT_ERRNO)
		return EXIT_ERRNO - WEXITSTATUS(status);
	if ((err && !a.more) || !gt_symanswer_is_valid(&a, mode, (uint64_t)st.st_size)) {
		explain(out, "it", err, status);
		return -EIO;
	}
	*out = a.sites;
	if (err)
		explain(out, "its symbols", err, status);
	return a.err;
}
