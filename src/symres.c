// SPDX-License-Identifier: Apache-2.0
#include "symres.h"
#include "callsites.h"
#include "gilscan.h"
#include "symsrc_dwfl.h"

#include <elf.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define NOBODY      65534
#define CPU_SECONDS 10
#define WALL_MS     20000
#define MEMORY_MAX  (2ull << 30)
#define FILE_MAX    (1ull << 30)
#define SYMBOLS_MAX 64

#if defined(__SANITIZE_ADDRESS__)
#define GT_ASAN 1
#elif defined(__has_feature)
#define GT_ASAN __has_feature(address_sanitizer)
#else
#define GT_ASAN 0
#endif

/* What the child hands back, whole or not at all. */
struct answer {
	int32_t err; /* 0 or -errno, as gt_symres_file() returns */
	struct gt_sites sites;
};

/* ---- function mode ---- */

/*
 * Where to put a probe on a function's entry. The kernel (x86) emulates push but runs endbr64 out
 * of line; neither endbr64 nor bti changes the stack or the return address, so a return probe may
 * sit behind them, too. paciasp signs the return address: never behind that.
 */
static uint64_t probe_point(const struct gt_image *img, uint64_t entry)
{
	const uint8_t *p = gt_image_at(img, entry, 8);

	if (!p)
		return entry;
	if (img->machine == EM_AARCH64)
		return (gt_get_le32(p) & 0xffffff3f) == 0xd503241f ? entry + 4 : entry; /* bti */
	if (memcmp(p, "\xf3\x0f\x1e\xfa", 4))
		return entry;
	if ((p[4] & 0xf8) == 0x50 || (p[4] == 0x41 && (p[5] & 0xf8) == 0x50))
		return entry + 4;
	return entry;
}

/*
 * Of two functions of which one calls the other, one only may be probed, or an event counts twice:
 * of f and f.part.0 the part (callers that inlined the head go there directly), of drop_gil and
 * drop_gil_impl (3.13+) drop_gil, whose return comes after the wait of a forced switch.
 */
static int is_nested(const struct gt_image *img, const struct gt_symbol *sym, size_t n, size_t i)
{
	int drop = sym[i].fn != GT_FN_TAKE;

	for (size_t k = 0; k < n; k++) {
		struct gt_range from;

		if (k == i || drop != (sym[k].fn != GT_FN_TAKE))
			continue;
		if (strstr(sym[k].name, ".part.") && !strstr(sym[i].name, ".part.") &&
		    !gt_image_function(img, sym[i].vaddr, &from) &&
		    gt_code_calls(img, &from, sym[k].vaddr))
			return 1;
		if (sym[i].fn == GT_FN_DROP_IMPL && sym[k].fn == GT_FN_DROP &&
		    !gt_image_function(img, sym[k].vaddr, &from) &&
		    gt_code_calls(img, &from, sym[i].vaddr))
			return 1;
	}
	return 0;
}

static int add_function(const struct gt_image *img, const struct gt_symbol *sym,
			struct gt_sites *out)
{
	static const unsigned int noarg = GT_SITE_NOARG;
	uint64_t at = probe_point(img, sym->vaddr);
	int take = sym->fn == GT_FN_TAKE, err;

	err = gt_gilscan_add(img, out, at, take ? GT_TAKE : GT_RELEASE, noarg,
			     "symbol: entry of %s%s", sym->name,
			     at == sym->vaddr ? "" : ", behind its landing pad");
	if (err)
		return err;
	return gt_gilscan_add(img, out, at, take ? GT_ACQUIRE : GT_DROPPED, noarg | GT_SITE_RETURN,
			      "symbol: return of %s", sym->name);
}

/* Is there a probe at the entry of the function that holds this address? */
static int is_covered(const struct gt_image *img, const struct gt_sites *fns, uint64_t vaddr)
{
	struct gt_range r, entry;

	for (uint32_t i = 0; i < fns->n; i++)
		if (!gt_image_function(img, fns->site[i].vaddr, &entry) &&
		    !gt_image_function(img, vaddr, &r) && r.start == entry.start)
			return 1;
	return 0;
}

/* The scan tells what the symbols do not: copies of drop_gil inlined into other functions. */
static void remark_on_inlined(const struct gt_image *img, const char *name, struct gt_sites *fns)
{
	struct gt_sites *scan = malloc(sizeof(*scan));
	unsigned int inlined = 0;

	if (scan && !gt_gilscan_identify(img, name, scan) && !gt_gilscan_sites(img, scan))
		for (uint32_t i = 0; i < scan->n; i++)
			inlined += scan->site[i].kind == GT_RELEASE &&
				   !(scan->site[i].flags & GT_SITE_MATCH) &&
				   !is_covered(img, fns, scan->site[i].vaddr);
	if (inlined)
		snprintf(fns->why, sizeof(fns->why),
			 "drop_gil is also inlined in %u place(s), whose releases function probes "
			 "miss; --probe=sites sees them",
			 inlined);
	free(scan);
}

static int find_functions(int fd, const struct gt_image *img, const char *name,
			  struct gt_sites *out)
{
	struct gt_symbol sym[SYMBOLS_MAX];
	int n = gt_symsrc_find(fd, name, sym, SYMBOLS_MAX), takes = 0, drops = 0;

	for (int i = 0; i < n; i++) {
		int err;

		if (is_nested(img, sym, (size_t)n, (size_t)i))
			continue;
		err = add_function(img, &sym[i], out);
		if (err)
			return err;
		takes += sym[i].fn == GT_FN_TAKE;
		drops += sym[i].fn != GT_FN_TAKE;
	}
	if (takes && drops) {
		remark_on_inlined(img, name, out);
		return 0;
	}
	out->n = 0;
	snprintf(out->why, sizeof(out->why),
		 "no symbol %s in the file or in debug files installed for it; use --probe=sites, "
		 "which needs none",
		 takes ? "drop_gil (it is inlined)" : "take_gil");
	return -ENOENT;
}

/* ---- in the child ---- */

static int resolve(int fd, const char *name, enum gt_probe_mode mode, struct gt_sites *out)
{
	struct gt_image img;
	const char *why;
	struct stat st;
	void *p;
	int err;

	memset(out, 0, sizeof(*out));
	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 || (uint64_t)st.st_size > FILE_MAX) {
		snprintf(out->why, sizeof(out->why), "not a regular file of 1 byte to 1 GiB");
		return -ENOENT;
	}
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	if (gt_image_open(&img, p, (size_t)st.st_size, &why)) {
		snprintf(out->why, sizeof(out->why), "%s", why);
		return -ENOENT;
	}
	err = gt_gilscan_identify(&img, name, out);
	if (err)
		return err;
	if (mode == GT_PROBE_FUNCTIONS)
		return find_functions(fd, &img, name, out);
	return gt_gilscan_sites(&img, out);
}

static int limit(int what, uint64_t max)
{
	struct rlimit r = {max, max};

	return setrlimit((__rlimit_resource_t)what, &r);
}

/* From here on the process can read what everybody can read, for a while, and nothing more. */
static int drop_privileges(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0};

	if (geteuid() == 0 && (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
			       setresuid(NOBODY, NOBODY, NOBODY)))
		return -1;
	if (syscall(SYS_capset, &head, none) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
#if !GT_ASAN /* AddressSanitizer reserves terabytes */
	if (limit(RLIMIT_AS, MEMORY_MAX))
		return -1;
#endif
	return limit(RLIMIT_CPU, CPU_SECONDS) || limit(RLIMIT_FSIZE, 0) || limit(RLIMIT_CORE, 0) ||
	       limit(RLIMIT_NPROC, 0) || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

/* Keeps `fd` as 3 and `out` as 4, /dev/null as 0 - 2, and closes all else. */
static int keep_only(int fd, int out)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int high[3] = {fcntl(fd, F_DUPFD_CLOEXEC, 5), fcntl(out, F_DUPFD_CLOEXEC, 5),
		       fcntl(null, F_DUPFD_CLOEXEC, 5)};

	if (high[0] < 0 || high[1] < 0 || high[2] < 0)
		return -1;
	for (int i = 0; i < 3; i++)
		if (dup2(high[2], i) < 0)
			return -1;
	if (dup2(high[0], 3) < 0 || dup2(high[1], 4) < 0)
		return -1;
	if (!syscall(SYS_close_range, 5u, ~0u, 0u))
		return 0;
	for (int i = 5; i < 65536; i++) /* close_range is in 5.9+ */
		close(i);
	return 0;
}

static void child(int fd, int out, pid_t parent, const char *name, enum gt_probe_mode mode)
{
	static const int defaults[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGALRM, SIGBUS, SIGSEGV};
	struct answer a = {0};
	sigset_t set;

	for (size_t i = 0; i < GT_ARRAY_SIZE(defaults); i++)
		signal(defaults[i], SIG_DFL);
	signal(SIGINT, SIG_IGN); /* Ctrl-C is for the parent, which decides */
	sigemptyset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	unsetenv("DEBUGINFOD_URLS"); /* or libdwfl may ask the network */
	if (keep_only(fd, out) || drop_privileges() || getppid() != parent)
		_exit(1);
	a.err = resolve(3, name, mode, &a.sites);
	/* The answer is shorter than a pipe's buffer (64 KiB): one write. */
	_exit(write(4, &a, sizeof(a)) == (ssize_t)sizeof(a) ? 0 : 1);
}

/* ---- in the parent: trust nothing of the answer ---- */

static int is_text(const char *s, size_t size)
{
	size_t len = strnlen(s, size);

	if (len == size)
		return 0;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)s[i] < 0x20 || (unsigned char)s[i] > 0x7e)
			return 0;
	return 1;
}

static int is_site(const struct gt_site *s, uint64_t file_size)
{
	return s->kind >= GT_WAIT && s->kind <= GT_DROPPED &&
	       !(s->flags & ~(GT_SITE_RETURN | GT_SITE_NOARG | GT_SITE_MATCH)) &&
	       s->offset < file_size && is_text(s->how, sizeof(s->how));
}

static int is_valid(const struct answer *a, uint64_t file_size)
{
	const struct gt_sites *s = &a->sites;

	if (a->err > 0 || a->err < -4095 || s->n > GT_SITES_MAX ||
	    s->build_id_len > GT_BUILDID_MAX || s->switch_cond > 4096 ||
	    !is_text(s->why, sizeof(s->why)))
		return 0;
	for (uint32_t i = 0; i < s->n; i++)
		if (!is_site(&s->site[i], file_size))
			return 0;
	return 1;
}

static int64_t mono_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Reads exactly one answer until the time is over. */
static int read_answer(int fd, struct answer *a)
{
	int64_t end = mono_ms() + WALL_MS;
	size_t got = 0;

	while (got < sizeof(*a)) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int64_t left = end - mono_ms();
		ssize_t n;

		if (left <= 0)
			return -EIO;
		if (poll(&p, 1, (int)left) <= 0)
			continue; /* time over, or a signal */
		n = read(fd, (char *)a + got, sizeof(*a) - got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EIO;
		got += (size_t)n;
	}
	return 0;
}

/* *status: of the child, as waitpid(2) gives it; valid where an -EIO is returned. */
static int run_child(int fd, const char *name, enum gt_probe_mode mode, struct answer *a,
		     int *status)
{
	gt_autoclose int rd = -1, wr = -1;
	pid_t parent = getpid(), pid;
	int pipefd[2], err;

	if (pipe2(pipefd, O_CLOEXEC))
		return -errno;
	rd = pipefd[0];
	wr = pipefd[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid)
		child(fd, wr, parent, name, mode);
	close(gt_steal_fd(&wr));
	err = read_answer(rd, a);
	kill(pid, SIGKILL); /* it has nothing left to do; changes nothing where it has died */
	while (waitpid(pid, status, 0) < 0 && errno == EINTR)
		;
	return err;
}

static void explain(struct gt_sites *out, int status)
{
	snprintf(out->why, sizeof(out->why),
		 "the process that reads it ended early (%s %d%s%s%s); it may take %d s of CPU "
		 "time, "
		 "%d s in all, and 2 GiB of memory",
		 WIFSIGNALED(status) ? "signal" : "status",
		 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
		 WIFSIGNALED(status) ? " (" : "",
		 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "",
		 WIFSIGNALED(status) ? ")" : "", CPU_SECONDS, WALL_MS / 1000);
}

int gt_symres_file(int fd, const char *name, enum gt_probe_mode mode, struct gt_sites *out)
{
	struct answer a = {0};
	struct stat st;
	int err, status = 0;

	memset(out, 0, sizeof(*out));
	if (fstat(fd, &st))
		return -errno;
	err = run_child(fd, name, mode, &a, &status);
	if (!err && !is_valid(&a, (uint64_t)st.st_size))
		err = -EIO;
	if (err) {
		explain(out, status);
		return err;
	}
	*out = a.sites;
	if (a.err)
		return a.err;
	return out->n ? 0 : -EIO;
}
