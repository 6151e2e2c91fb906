// SPDX-License-Identifier: Apache-2.0
#include "tracer.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "giltrace.skel.h"
#include "log.h"
#include "pylayout.h"

struct slot {
	int used;
	struct ring_buffer *rb;
	struct gt_links links;
	gt_record_fn fn;
	void *ctx;
};

struct gt_tracer {
	const struct gt_attach_ops *ops;
	struct giltrace_bpf *skel;
	struct gt_target *targets; /* the map's memory, shared with BPF */
	size_t targets_bytes;
	uint32_t ring_bytes;
	uint32_t n_slots;
	int epoll_fd;
	struct gt_links **detaching; /* room for one call of gt_tracer_detach() */
	struct slot slots[];
};

GT_PRINTF(2, 0)
static int print_libbpf(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	gt_autofree char *text = NULL;
	char *rest, *line;

	(void)level; /* what matters is reported by who called libbpf, with its object */
	if (gt_log_max() < GT_LOG_DEBUG)
		return 0;
	if (vasprintf(&text, fmt, ap) < 0) {
		text = NULL;
		return 0;
	}
	/* The verifier's log comes in one piece, and why it refuses stands in its last lines. */
	rest = text;
	while ((line = strsep(&rest, "\n")))
		if (*line)
			gt_debug("%s", line);
	return 0;
}

static int load(struct gt_tracer *t)
{
	int err;

	t->skel = giltrace_bpf__open();
	if (!t->skel) {
		err = -errno;
		gt_error("cannot open the BPF object: %s", strerror(-err));
		return err;
	}
	bpf_map__set_max_entries(t->skel->maps.targets, t->n_slots);
	bpf_map__set_max_entries(t->skel->maps.rings, t->n_slots);
	bpf_map__set_max_entries(t->skel->maps.slots, t->n_slots);
	bpf_program__set_expected_attach_type(t->skel->progs.gt_hit, gt_attach_type(t->ops));
	err = giltrace_bpf__load(t->skel);
	if (err) {
		gt_error("the kernel does not load the BPF program: %s%s", strerror(-err),
			 err == -EPERM ? "; run as root" : "; -v shows the verifier's words");
		return err == -EPERM ? err : -ENOTSUP;
	}
	t->targets_bytes = (size_t)t->n_slots * sizeof(struct gt_target);
	t->targets = mmap(NULL, t->targets_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			  bpf_map__fd(t->skel->maps.targets), 0);
	if (t->targets == MAP_FAILED) {
		err = -errno;
		t->targets = NULL;
		gt_error("cannot map the BPF map of targets: %s", strerror(-err));
		return err;
	}
	return 0;
}

/*
 * Ends of threads and of programs, from tracepoints. Without them, what a thread was in when it
 * ended stays open, and an exec is noticed a little late.
 */
static void watch_ends(struct gt_tracer *t)
{
	t->skel->links.gt_exit = bpf_program__attach(t->skel->progs.gt_exit);
	if (t->skel->links.gt_exit)
		t->skel->links.gt_exec = bpf_program__attach(t->skel->progs.gt_exec);
	if (!t->skel->links.gt_exec)
		gt_warn("ends of threads or programs are not recorded, as the tracepoints "
			"sched_process_exit and sched_process_exec cannot be used: %s",
			strerror(errno));
}

/*
 * BPF sees process ids of the root PID namespace, and what is here called a pid must be the same
 * number. The root namespace's inode is PROC_PID_INIT_INO in every kernel since 3.8.
 */
static int check_pid_namespace(void)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) || st.st_ino == 0xEFFFFFFCu)
		return 0;
	gt_error("this is a PID namespace of its own (a container), where processes have other ids "
		 "than the kernel tells; run giltrace on the host, with the host's pid");
	return -ENOTSUP;
}

int gt_tracer_open(const struct gt_tracer_opts *opts, struct gt_tracer **out)
{
	struct gt_tracer *t =
		calloc(1, sizeof(*t) + (size_t)opts->max_targets * sizeof(struct slot));
	int err;

	if (t)
		t->detaching = calloc(opts->max_targets, sizeof(struct gt_links *));
	if (!t || !t->detaching) {
		gt_error("out of memory");
		free(t);
		return -ENOMEM;
	}
	t->epoll_fd = -1;
	t->ring_bytes = opts->ring_bytes;
	t->n_slots = opts->max_targets;
	libbpf_set_print(print_libbpf);
	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (t->epoll_fd < 0) {
		err = -errno;
		gt_error("cannot create an epoll descriptor: %s", strerror(-err));
		goto fail;
	}
	err = check_pid_namespace();
	if (err)
		goto fail;
	t->ops = gt_attach_choose(opts->backend, &err);
	if (!t->ops)
		goto fail;
	err = load(t);
	if (err)
		goto fail;
	watch_ends(t);
	*out = t;
	return 0;
fail:
	gt_tracer_close(t);
	return err;
}

void gt_tracer_close(struct gt_tracer *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < t->n_slots; i++) {
		if (!t->slots[i].used)
			continue;
		gt_tracer_detach(t, &i, 1, NULL, NULL);
		gt_tracer_drop(t, i);
	}
	if (t->targets)
		munmap(t->targets, t->targets_bytes);
	giltrace_bpf__destroy(t->skel);
	if (t->epoll_fd >= 0)
		close(t->epoll_fd);
	free(t->detaching);
	free(t);
}

const char *gt_tracer_backend(const struct gt_tracer *t)
{
	return gt_attach_name(t->ops);
}

static int on_record(void *ctx, void *data, size_t size)
{
	struct slot *s = ctx;

	s->fn(s->ctx, data, size);
	return 0;
}

static int add_ring(struct gt_tracer *t, uint32_t slot)
{
	struct slot *s = &t->slots[slot];
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = slot};
	/* The map of rings and the ring_buffer's mapping keep it alive. */
	gt_autoclose int fd =
		bpf_map_create(BPF_MAP_TYPE_RINGBUF, "gt_ring", 0, 0, t->ring_bytes, NULL);

	if (fd < 0)
		return fd;
	s->rb = ring_buffer__new(fd, on_record, s, NULL);
	if (!s->rb)
		return -errno;
	if (bpf_map_update_elem(bpf_map__fd(t->skel->maps.rings), &slot, &fd, BPF_ANY) ||
	    epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, ring_buffer__epoll_fd(s->rb), &event))
		return -errno;
	return 0;
}

/*
 * Up to a recent kernel an emulated `call` pushes its return address to the normal stack only; a
 * thread with a user shadow stack (x86, Linux 6.6) then dies at the matching return.
 */
static int check_shadow_stack(const struct gt_proc *p)
{
	int shadow = gt_proc_shadow_stack(p);

	if (shadow < 0) {
		gt_error("process %d: cannot look at its threads: %s", p->pid, strerror(-shadow));
		return shadow == -ENOENT ? -ESRCH : shadow;
	}
	if (shadow) {
		gt_error("process %d runs with a user shadow stack; a probe on a call could kill "
			 "it, so it is left alone",
			 p->pid);
		return -ENOTSUP;
	}
	return 0;
}

static void describe(struct gt_target *target, const struct gt_pytarget *py)
{
	target->ncodes = py->n;
	for (uint32_t i = 0; i < py->n; i++) {
		const struct gt_python *p = &py->python[i];
		struct gt_pylayout layout =
			gt_pylayout_of(p->sites->py_major, p->sites->py_minor, p->sites->machine);

		target->codes[i] = (struct gt_code){
			/* libc's functions count for those that have no sites of their own. */
			.start = p->map.start,
			.size = p->sites->n ? 0 : p->map.code_end - p->map.start,
			.switch_cond = p->sites->n ? p->sites->switch_cond : py->libc->switch_cond,
			.drop_how = layout.drop_how,
			.drop_off = {layout.drop_off[0], layout.drop_off[1]},
		};
	}
}

/*
 * The sites of a part without GT_SITE_NOARG know their GIL by the address. Those with it are all of
 * one GIL, which has index 0, and beside another part that index must be theirs alone.
 */
static void reserve_index(struct gt_target *target, const struct gt_pytarget *py)
{
	struct gt_part parts[GT_PARTS_MAX];
	size_t n = gt_pytarget_parts(py, parts);

	for (size_t i = 0; i < n && n > 1; i++) {
		if (!parts[i].sites->n || !(parts[i].sites->site[0].flags & GT_SITE_NOARG))
			continue;
		target->gils[0] = (struct gt_gil){.confirmed = 1};
		target->ngils = 1;
	}
}

static int attach_parts(struct gt_tracer *t, const struct gt_proc *p, const struct gt_pytarget *py,
			uint32_t slot)
{
	struct gt_part parts[GT_PARTS_MAX];
	size_t n = gt_pytarget_parts(py, parts);
	uint32_t first = 0;

	for (size_t i = 0; i < n; i++) {
		char path[64];
		int err;

		gt_proc_map_file(p, parts[i].map, path, sizeof(path));
		err = gt_attach(t->ops, bpf_program__fd(t->skel->progs.gt_hit), path, p->pid, slot,
				parts[i].code, first, parts[i].sites, &t->slots[slot].links);
		if (err && gt_proc_memory_gone(p)) {
			gt_error("process %d has ended or executed another program meanwhile",
				 p->pid);
			return -ESRCH;
		}
		if (err)
			return err;
		first += parts[i].sites->n;
	}
	return 0;
}

int gt_tracer_add(struct gt_tracer *t, const struct gt_proc *p, const struct gt_pytarget *py,
		  gt_record_fn fn, void *ctx)
{
	/* A record takes 8 bytes more in the ring; the reader is woken at an eighth of it. */
	const uint32_t wake_every = t->ring_bytes / (sizeof(struct gt_rec) + 8) / 8;
	struct gt_target *target;
	uint32_t slot = 0, tgid = (uint32_t)p->pid;
	int err;

	while (slot < t->n_slots && t->slots[slot].used)
		slot++;
	if (slot == t->n_slots) {
		gt_error("process %d: more than %u targets at one time", p->pid, t->n_slots);
		return -ENOSPC;
	}
	err = check_shadow_stack(p);
	if (err)
		return err;
	target = &t->targets[slot];
	memset(target, 0, sizeof(*target));
	target->tgid = tgid;
	target->wake_every = wake_every ? wake_every : 1;
	target->pidns_dev = p->pidns_dev;
	target->pidns_ino = p->pidns_ino;
	describe(target, py);
	reserve_index(target, py);
	t->slots[slot] = (struct slot){.used = 1, .fn = fn, .ctx = ctx};
	err = add_ring(t, slot);
	if (!err && bpf_map_update_elem(bpf_map__fd(t->skel->maps.slots), &tgid, &slot, BPF_ANY))
		err = -errno;
	if (err)
		gt_error("process %d: cannot make a ring of %u KiB: %s", p->pid,
			 t->ring_bytes / 1024, strerror(-err));
	if (!err)
		err = attach_parts(t, p, py, slot);
	if (!err)
		return (int)slot;
	gt_tracer_detach(t, &slot, 1, NULL, NULL);
	gt_tracer_drop(t, slot);
	return err;
}

int gt_tracer_know_gil(struct gt_tracer *t, uint32_t slot, uint64_t cond)
{
	struct gt_target *target = &t->targets[slot];
	uint32_t n = target->ngils;

	if (n == GT_MAX_GILS)
		return -ENOSPC;
	/* A waiter from before the recording may have set the drop request. */
	target->gils[n] = (struct gt_gil){.addr = cond, .confirmed = 1, .pressed = 1};
	target->ngils = n + 1;
	return (int)n;
}

void gt_tracer_gate(struct gt_tracer *t, uint32_t slot, int open)
{
	__atomic_store_n(&t->targets[slot].on, open ? 1 : 0, __ATOMIC_RELEASE);
}

/* maybe_wait_bpf_programs() in the kernel's syscall.c, since 4.15, for programs that do not sleep.
 */
int gt_tracer_settle(struct gt_tracer *t, uint32_t slot)
{
	return bpf_map_delete_elem(bpf_map__fd(t->skel->maps.rings), &slot) ? -errno : 0;
}

void gt_tracer_detach(struct gt_tracer *t, const uint32_t *slots, size_t n,
		      void (*meanwhile)(void *ctx), void *ctx)
{
	for (size_t i = 0; i < n; i++) {
		gt_tracer_gate(t, slots[i], 0);
		t->detaching[i] = &t->slots[slots[i]].links;
	}
	gt_detach(t->detaching, n, meanwhile, ctx);
}

void gt_tracer_drop(struct gt_tracer *t, uint32_t slot)
{
	struct slot *s = &t->slots[slot];

	if (s->rb) {
		/* Fails where the ring was not added yet. */
		(void)epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, ring_buffer__epoll_fd(s->rb), NULL);
		ring_buffer__free(s->rb);
		(void)bpf_map_delete_elem(bpf_map__fd(t->skel->maps.rings), &slot);
	}
	(void)bpf_map_delete_elem(bpf_map__fd(t->skel->maps.slots), &t->targets[slot].tgid);
	t->targets[slot].tgid = 0;
	*s = (struct slot){.used = 0};
}

int gt_tracer_epoll_fd(const struct gt_tracer *t)
{
	return t->epoll_fd;
}

int gt_tracer_consume(struct gt_tracer *t, uint32_t slot)
{
	int n = ring_buffer__consume(t->slots[slot].rb);

	return n < 0 ? n : 0;
}

uint64_t gt_tracer_lost(const struct gt_tracer *t, uint32_t slot, uint64_t *gap_begin_ns)
{
	const struct gt_target *target = &t->targets[slot];

	*gap_begin_ns = __atomic_load_n(&target->gap_begin_ns, __ATOMIC_RELAXED);
	return __atomic_load_n(&target->lost, __ATOMIC_ACQUIRE);
}

uint64_t gt_tracer_foreign(const struct gt_tracer *t, uint32_t slot)
{
	return __atomic_load_n(&t->targets[slot].foreign, __ATOMIC_RELAXED);
}

uint32_t gt_tracer_gils(const struct gt_tracer *t, uint32_t slot)
{
	return __atomic_load_n(&t->targets[slot].ngils, __ATOMIC_RELAXED);
}
