// SPDX-License-Identifier: Apache-2.0
#include "attach.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "log.h"
#include "rights.h"

/* Values of enum bpf_attach_type and flags that Debian 12's kernel headers (6.1) do not have. */
#define GT_BPF_PERF_EVENT         41 /* Linux 5.15 */
#define GT_BPF_TRACE_UPROBE_MULTI 48 /* Linux 6.6 */
#define GT_UPROBE_MULTI_RETURN    1

/* bpf(BPF_LINK_CREATE)'s part of union bpf_attr, for the two kinds of link used here. */
struct link_create_attr {
	__u32 prog_fd;
	__u32 target_fd;
	__u32 attach_type;
	__u32 flags;
	union {
		struct {
			__u64 path;
			__u64 offsets;
			__u64 ref_ctr_offsets;
			__u64 cookies;
			__u32 cnt;
			__u32 flags;
			__u32 pid;
		} uprobe_multi;
		struct {
			__u64 bpf_cookie;
		} perf_event;
	};
};

struct site_set {
	const char *path;
	pid_t pid;
	int retprobe;
	size_t n;
	uint64_t offsets[GT_SITES_MAX];
	uint64_t cookies[GT_SITES_MAX];
};

struct gt_attach_ops {
	const char *name;
	uint32_t attach_type;
	enum gt_step step; /* what was refused where the kernel does not let us */
	/* Does it work here? 0 or -errno; tries it on a function of our own. */
	int (*try)(const struct gt_attach_ops *ops);
	int (*attach)(int prog_fd, const struct site_set *set, struct gt_links *out);
};

/*
 * The kernel refuses what is not zero behind the members that it knows, and padding as well as the
 * rest of the union may hold anything: it is given only what lies before `end`.
 */
static int link_create(const struct link_create_attr *attr, const void *end)
{
	size_t size = (size_t)((const char *)end - (const char *)attr);
	long fd = syscall(__NR_bpf, BPF_LINK_CREATE, attr, size);

	return fd < 0 ? -errno : (int)fd;
}

static int multi_attach(int prog_fd, const struct site_set *set, struct gt_links *out)
{
	struct link_create_attr attr = {
		.prog_fd = (__u32)prog_fd,
		.attach_type = GT_BPF_TRACE_UPROBE_MULTI,
		.uprobe_multi =
			{
				.path = (uintptr_t)set->path,
				.offsets = (uintptr_t)set->offsets,
				.cookies = (uintptr_t)set->cookies,
				.cnt = (__u32)set->n,
				.flags = set->retprobe ? GT_UPROBE_MULTI_RETURN : 0,
				.pid = (__u32)set->pid,
			},
	};
	int fd = out->n < GT_ARRAY_SIZE(out->fds) ? link_create(&attr, &attr.uprobe_multi.pid + 1)
						  : -ENOSPC;

	if (fd < 0)
		return fd;
	out->fds[out->n++] = fd;
	return 0;
}

/* A small number in a file of /sys, e.g. "8" or "config:0"; -errno. */
static int sysfs_number(const char *path)
{
	char buf[64], *digits;
	gt_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		return -errno;
	len = read(fd, buf, sizeof(buf) - 1);
	if (len <= 0)
		return len < 0 ? -errno : -EIO;
	buf[len] = '\0';
	digits = strpbrk(buf, "0123456789");
	return digits ? (int)strtol(digits, NULL, 10) : -EINVAL;
}

static int perf_attach(int prog_fd, const struct site_set *set, struct gt_links *out)
{
	int type = sysfs_number("/sys/bus/event_source/devices/uprobe/type");
	int bit = sysfs_number("/sys/bus/event_source/devices/uprobe/format/retprobe");

	if (type < 0 || bit < 0 || bit > 63)
		return type < 0 ? type : bit < 0 ? bit : -EINVAL;
	for (size_t i = 0; i < set->n; i++) {
		struct perf_event_attr event = {
			.size = sizeof(event),
			.type = (__u32)type,
			.config = set->retprobe ? 1ULL << bit : 0,
			.uprobe_path = (uintptr_t)set->path,
			.probe_offset = set->offsets[i],
		};
		struct link_create_attr attr = {
			.prog_fd = (__u32)prog_fd,
			.attach_type = GT_BPF_PERF_EVENT,
			.perf_event = {.bpf_cookie = set->cookies[i]},
		};
		/* The link keeps the event; its own descriptor is not needed any longer. */
		gt_autoclose int event_fd = (int)syscall(__NR_perf_event_open, &event, set->pid, -1,
							 -1, PERF_FLAG_FD_CLOEXEC);
		int fd;

		if (event_fd < 0)
			return -errno;
		if (out->n == GT_ARRAY_SIZE(out->fds))
			return -ENOSPC;
		attr.target_fd = (__u32)event_fd;
		fd = link_create(&attr, &attr.perf_event + 1);
		if (fd < 0)
			return fd;
		out->fds[out->n++] = fd;
	}
	return 0;
}

/* What the back ends are tried on. Not inlined, and never called. */
__attribute__((noinline, used)) static int try_here(int x)
{
	__asm__ volatile("" ::: "memory");
	return x + 1;
}

static int offset_of_try_here(struct dl_phdr_info *info, size_t size, void *out)
{
	uint64_t addr = (uintptr_t)try_here - info->dlpi_addr;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD && addr - ph->p_vaddr < ph->p_filesz)
			*(uint64_t *)out = addr - ph->p_vaddr + ph->p_offset;
	}
	return 1; /* the first object is the program itself */
}

/* Loads an empty program of the kind; returns its descriptor. */
static int load_empty(uint32_t attach_type)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = attach_type);

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "gt_try", "Dual BSD/GPL", insns,
			     GT_ARRAY_SIZE(insns), &opts);
}

static int try_attach(const struct gt_attach_ops *ops)
{
	gt_autoclose int prog_fd = load_empty(ops->attach_type);
	struct site_set set = {.path = "/proc/self/exe", .pid = getpid(), .n = 1};
	struct gt_links links = {.n = 0};
	struct gt_links *all[] = {&links};
	int err;

	if (prog_fd < 0)
		return prog_fd;
	dl_iterate_phdr(offset_of_try_here, set.offsets);
	err = ops->attach(prog_fd, &set, &links);
	gt_detach(all, 1, NULL, NULL);
	return err;
}

static int multi_try(const struct gt_attach_ops *ops)
{
	gt_autoclose int prog_fd = -1;
	struct site_set set = {.path = "/proc/self/exe", .pid = -1, .n = 1};
	struct gt_links links = {.n = 0};
	struct gt_links *all[] = {&links};
	int err = try_attach(ops);

	if (err)
		return err;
	/*
	 * 6.6 .. 6.9 filter by thread instead of process and would miss all other threads. The
	 * change that mends it (46ba0e49b642, also in stable trees) is told by the refusal of a
	 * negative pid.
	 */
	prog_fd = load_empty(ops->attach_type);
	if (prog_fd < 0)
		return prog_fd;
	dl_iterate_phdr(offset_of_try_here, set.offsets);
	err = multi_attach(prog_fd, &set, &links);
	gt_detach(all, 1, NULL, NULL);
	return err == -EINVAL ? 0 : -EOPNOTSUPP;
}

/* In the order of preference. */
static const struct gt_attach_ops backends[] = {
	{"uprobe_multi", GT_BPF_TRACE_UPROBE_MULTI, GT_STEP_MULTI, multi_try, multi_attach},
	{"perf_event", 0, GT_STEP_PERF, try_attach, perf_attach},
};

const struct gt_attach_ops *gt_attach_choose(enum gt_backend wanted, int *err)
{
	char why[GT_RIGHTS_TEXT];

	*err = -ENOTSUP;
	for (size_t i = 0; i < GT_ARRAY_SIZE(backends); i++) {
		int ret;

		if (wanted != GT_BACKEND_AUTO && i != (size_t)wanted - GT_BACKEND_MULTI)
			continue;
		ret = backends[i].try(&backends[i]);
		if (!ret)
			return &backends[i];
		if (ret == -EMFILE || ret == -ENFILE) {
			gt_error("cannot attach probes (%s): %s; ulimit -n gives more",
				 backends[i].name, strerror(-ret));
			*err = ret;
			return NULL;
		}
		gt_rights_why(backends[i].step, ret, 0, why);
		if (ret == -EPERM || ret == -EACCES) {
			gt_error("cannot attach probes (%s): %s%s", backends[i].name,
				 strerror(-ret), why);
			*err = -EPERM;
			return NULL;
		}
		gt_log(wanted == GT_BACKEND_AUTO ? GT_LOG_DEBUG : GT_LOG_ERROR,
		       "the %s back end does not work on this kernel: %s%s", backends[i].name,
		       strerror(-ret), why);
	}
	if (wanted == GT_BACKEND_AUTO)
		gt_error("this kernel can attach neither uprobe_multi links (Linux 6.6) nor "
			 "perf_event uprobes with a cookie (Linux 5.15); -v tells why");
	return NULL;
}

const char *gt_attach_name(const struct gt_attach_ops *ops)
{
	return ops->name;
}

uint32_t gt_attach_type(const struct gt_attach_ops *ops)
{
	return ops->attach_type;
}

int gt_attach(const struct gt_attach_ops *ops, int prog_fd, const char *path, pid_t pid,
	      uint32_t slot, uint32_t code, uint32_t first, const struct gt_sites *sites,
	      struct gt_links *out)
{
	struct gt_links links = {.n = 0};
	struct gt_links *all[] = {&links};

	for (int retprobe = 0; retprobe < 2; retprobe++) {
		struct site_set set = {.path = path, .pid = pid, .retprobe = retprobe};
		int err;

		for (uint32_t i = 0; i < sites->n; i++) {
			const struct gt_site *s = &sites->site[i];

			if (!(s->flags & GT_SITE_RETURN) != !retprobe)
				continue;
			set.offsets[set.n] = s->offset;
			set.cookies[set.n++] = GT_COOKIE(slot, code, s->kind, first + i, s->flags);
		}
		err = set.n ? ops->attach(prog_fd, &set, &links) : 0;
		if (!err && out->n + links.n > GT_ARRAY_SIZE(out->fds))
			err = -ENOSPC;
		if (err) {
			char why[GT_RIGHTS_TEXT];

			gt_rights_why(ops->step, err, pid, why);
			gt_error("cannot attach %zu %sprobes to process %d (%s) by %s: %s%s", set.n,
				 retprobe ? "return " : "", pid, path, ops->name, strerror(-err),
				 why);
			gt_detach(all, 1, NULL, NULL);
			return err;
		}
	}
	memcpy(out->fds + out->n, links.fds, links.n * sizeof(int));
	out->n += links.n;
	return 0;
}

#define CLOSE_AT_ONCE 64
#define MEANWHILE_MS  20

struct closing {
	pthread_t thread;
	int fd;
	int done; /* an eventfd */
};

static void *close_one(void *arg)
{
	const struct closing *c = arg;

	close(c->fd);
	(void)eventfd_write(c->done, 1);
	return NULL;
}

static void finish_closing(struct closing *c, size_t n, void (*meanwhile)(void *ctx), void *ctx)
{
	struct pollfd done = {.fd = n ? c[0].done : -1, .events = POLLIN};

	for (eventfd_t closed = 0, more; meanwhile && done.fd >= 0 && closed < n;) {
		if (poll(&done, 1, MEANWHILE_MS) > 0 && !eventfd_read(done.fd, &more))
			closed += more;
		meanwhile(ctx);
	}
	while (n)
		pthread_join(c[--n].thread, NULL);
}

void gt_detach(struct gt_links *const *links, size_t n, void (*meanwhile)(void *ctx), void *ctx)
{
	/* Without one, this only waits. */
	gt_autoclose int done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct closing closing[CLOSE_AT_ONCE];
	size_t running = 0;

	for (size_t i = 0; i < n; i++) {
		while (links[i]->n) {
			struct closing *c = &closing[running];

			*c = (struct closing){.fd = links[i]->fds[--links[i]->n], .done = done};
			if (pthread_create(&c->thread, NULL, close_one, c))
				close(c->fd);
			else
				running++;
			if (running == CLOSE_AT_ONCE) {
				finish_closing(closing, running, meanwhile, ctx);
				running = 0;
			}
		}
	}
	finish_closing(closing, running, meanwhile, ctx);
}
