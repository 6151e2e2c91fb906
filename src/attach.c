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
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "gt_abi.h"
#include "log.h"

/* Values of enum bpf_attach_type and flags that Debian 12's kernel headers (6.1) do not have. */
#define GT_BPF_PERF_EVENT         41 /* Linux 5.15 */
#define GT_BPF_TRACE_UPROBE_MULTI 48 /* Linux 6.6 */
#define GT_UPROBE_MULTI_RETURN    1

#define GT_BPF_FUNC_get_attach_cookie 174 /* Linux 5.15 */

#define GT_LD_IMM64 (BPF_LD | BPF_DW) /* and BPF_IMM, which is 0 */

#define UPROBE_PMU "/sys/bus/event_source/devices/uprobe"

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
	const char *what; /* is tried */
};

struct gt_attach_ops {
	const char *name;
	uint32_t attach_type;
	int copies;
	enum gt_step step; /* what was refused where the kernel does not let us */
	int (*attach)(const struct gt_probe_program *prog, struct site_set *set,
		      struct gt_links *out);
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

static int multi_attach(const struct gt_probe_program *prog, struct site_set *set,
			struct gt_links *out)
{
	struct link_create_attr attr = {
		.prog_fd = (__u32)prog->fd,
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

	set->what = "bpf(BPF_LINK_CREATE)";
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

/* Opens a uprobe at site i. */
static int open_event(struct site_set *set, size_t i)
{
	static const char type_path[] = UPROBE_PMU "/type",
			  bit_path[] = UPROBE_PMU "/format/retprobe";
	int type = sysfs_number(type_path), bit = sysfs_number(bit_path);
	struct perf_event_attr event = {
		.size = sizeof(event),
		.type = (__u32)type,
		.uprobe_path = (uintptr_t)set->path,
		.probe_offset = set->offsets[i],
	};
	int fd;

	set->what = type < 0 ? type_path : bit_path;
	if (type < 0 || bit < 0 || bit > 63)
		return type < 0 ? type : bit < 0 ? bit : -EINVAL;
	event.config = set->retprobe ? 1ULL << bit : 0;
	set->what = "perf_event_open()";
	fd = (int)syscall(__NR_perf_event_open, &event, set->pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int perf_attach(const struct gt_probe_program *prog, struct site_set *set,
		       struct gt_links *out)
{
	for (size_t i = 0; i < set->n; i++) {
		struct link_create_attr attr = {
			.prog_fd = (__u32)prog->fd,
			.attach_type = GT_BPF_PERF_EVENT,
			.perf_event = {.bpf_cookie = set->cookies[i]},
		};
		/* The link keeps the event; its own descriptor is not needed any longer. */
		gt_autoclose int event_fd = open_event(set, i);
		int fd;

		if (event_fd < 0)
			return event_fd;
		if (out->n == GT_ARRAY_SIZE(out->fds))
			return -ENOSPC;
		set->what = "bpf(BPF_LINK_CREATE)";
		attr.target_fd = (__u32)event_fd;
		fd = link_create(&attr, &attr.perf_event + 1);
		if (fd < 0)
			return fd;
		out->fds[out->n++] = fd;
	}
	return 0;
}

/* Loads a program, for probes. */
static int load(const struct bpf_insn *insns, size_t n, uint32_t attach_type)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = attach_type);

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "gt_hit", "Dual BSD/GPL", insns, n, &opts);
}

/* With another cookie in its place: a constant in two halves, those of a 64-bit load. */
static int load_copy(const struct gt_probe_program *prog, uint64_t cookie)
{
	gt_autofree struct bpf_insn *copy = calloc(prog->n, sizeof(*copy));
	size_t found = 0;

	if (!copy)
		return -ENOMEM;
	memcpy(copy, prog->insns, prog->n * sizeof(*copy));
	for (size_t i = 0; i + 1 < prog->n; i++) {
		if (copy[i].code != GT_LD_IMM64)
			continue;
		if (!copy[i].src_reg && copy[i].imm == (__s32)GT_COOKIE_PLACE &&
		    copy[i + 1].imm == (__s32)(GT_COOKIE_PLACE >> 32)) {
			copy[i].imm = (__s32)cookie;
			copy[i + 1].imm = (__s32)(cookie >> 32);
			found++;
		}
		i++;
	}
	return found ? load(copy, prog->n, 0) : -EINVAL;
}

static int ioctl_attach(const struct gt_probe_program *prog, struct site_set *set,
			struct gt_links *out)
{
	for (size_t i = 0; i < set->n; i++) {
		gt_autoclose int event_fd = open_event(set, i), copy_fd = -1;

		if (event_fd < 0)
			return event_fd;
		if (out->n == GT_ARRAY_SIZE(out->fds))
			return -ENOSPC;
		set->what = "bpf(BPF_PROG_LOAD)";
		copy_fd = load_copy(prog, set->cookies[i]);
		if (copy_fd < 0)
			return copy_fd;
		set->what = "ioctl(PERF_EVENT_IOC_SET_BPF)";
		if (ioctl(event_fd, PERF_EVENT_IOC_SET_BPF, copy_fd))
			return -errno;
		/* The event keeps the program, and ends with its descriptor. */
		out->fds[out->n++] = gt_steal_fd(&event_fd);
	}
	return 0;
}

/* In the order of preference. */
static const struct gt_attach_ops backends[] = {
	{"uprobe_multi", GT_BPF_TRACE_UPROBE_MULTI, 0, GT_STEP_MULTI, multi_attach},
	{"perf_event", 0, 0, GT_STEP_PERF, perf_attach},
	{"perf_ioctl", 0, 1, GT_STEP_PERF, ioctl_attach},
};

const struct gt_attach_ops *gt_attach_backend(enum gt_backend which)
{
	return &backends[which - GT_BACKEND_MULTI];
}

/* ---- trying ---- */

/* What the back ends are tried on. */
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

static void *call_try_here(void *arg)
{
	(void)arg;
	try_here(0);
	return NULL;
}

/* Has a second thread call it; the first one is what a wrong filter lets through. */
static int call_elsewhere(void)
{
	pthread_t thread;
	int err = pthread_create(&thread, NULL, call_try_here, NULL);

	if (!err)
		pthread_join(thread, NULL);
	return -err;
}

#define TRY_INSNS 8

/*
 * A program that stores its cookie in the only element of an array. Loading it tells whether there
 * are cookies at all. *prog: with its instructions, in insns.
 */
static int load_try(const struct gt_attach_ops *ops, int map_fd, struct bpf_insn insns[TRY_INSNS],
		    struct gt_probe_program *prog)
{
	size_t n = 0;

	if (ops->copies) {
		insns[n++] = (struct bpf_insn){.code = GT_LD_IMM64, .imm = (__s32)GT_COOKIE_PLACE};
		insns[n++] = (struct bpf_insn){.imm = (__s32)(GT_COOKIE_PLACE >> 32)};
	} else {
		insns[n++] = (struct bpf_insn){.code = BPF_JMP | BPF_CALL,
					       .imm = GT_BPF_FUNC_get_attach_cookie};
	}
	insns[n++] = (struct bpf_insn){.code = GT_LD_IMM64,
				       .dst_reg = BPF_REG_1,
				       .src_reg = BPF_PSEUDO_MAP_VALUE,
				       .imm = map_fd};
	insns[n++] = (struct bpf_insn){0};
	insns[n++] = (struct bpf_insn){.code = BPF_STX | BPF_DW | BPF_MEM, .dst_reg = BPF_REG_1};
	insns[n++] = (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0};
	insns[n++] = (struct bpf_insn){.code = BPF_JMP | BPF_EXIT};
	*prog = (struct gt_probe_program){load(insns, n, ops->attach_type), insns, n};
	return prog->fd < 0 ? prog->fd : 0;
}

int gt_attach_try(const struct gt_attach_ops *ops, const char **what)
{
	const uint64_t cookie = GT_COOKIE(getpid(), 0, GT_RELEASE, 1, 0);
	struct site_set set = {.path = "/proc/self/exe", .pid = getpid(), .n = 1};
	gt_autoclose int map_fd = -1, prog_fd = -1;
	struct gt_links links = {.n = 0};
	struct gt_links *all[] = {&links};
	struct bpf_insn insns[TRY_INSNS];
	struct gt_probe_program prog;
	uint64_t seen = 0;
	int err;

	dl_iterate_phdr(offset_of_try_here, set.offsets);
	set.cookies[0] = cookie;
	*what = "bpf(BPF_MAP_CREATE)";
	map_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "gt_try", sizeof(uint32_t), sizeof(seen), 1,
				NULL);
	if (map_fd < 0)
		return map_fd;
	*what = "bpf(BPF_PROG_LOAD)";
	err = load_try(ops, map_fd, insns, &prog);
	if (err)
		return err;
	prog_fd = prog.fd;
	err = ops->attach(&prog, &set, &links);
	*what = set.what;
	if (!err) {
		*what = "a probe on a function that a second thread calls";
		err = call_elsewhere();
	}
	gt_detach(all, 1, NULL, NULL);
	if (!err && bpf_map_lookup_elem(map_fd, &(uint32_t){0}, &seen))
		err = -errno;
	return err ? err : seen != cookie;
}

/* ---- */

const char *gt_attach_name(const struct gt_attach_ops *ops)
{
	return ops->name;
}

enum gt_step gt_attach_step(const struct gt_attach_ops *ops)
{
	return ops->step;
}

uint32_t gt_attach_type(const struct gt_attach_ops *ops)
{
	return ops->attach_type;
}

int gt_attach_copies(const struct gt_attach_ops *ops)
{
	return ops->copies;
}

int gt_attach(const struct gt_attach_ops *ops, const struct gt_probe_program *prog,
	      const char *path, pid_t pid, uint32_t slot, uint32_t code, uint32_t first,
	      const struct gt_sites *sites, struct gt_links *out)
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
		err = set.n ? ops->attach(prog, &set, &links) : 0;
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
		(void)poll(&done, 1, MEANWHILE_MS);
		if (!eventfd_read(done.fd, &more))
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
