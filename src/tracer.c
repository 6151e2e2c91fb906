// SPDX-License-Identifier: Apache-2.0
#include "tracer.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "bpfload.h"
#include "bpftarget.h"
#include "caps.h"
#include "clock.h"
#include "giltrace.skel.h"
#include "log.h"

enum slot_state { SLOT_FREE, SLOT_USED, SLOT_DROPPED };

struct slot {
	enum slot_state state;
	int ring_fd; /* 0: none */
	struct ring_buffer *rb;
	struct gt_links links;
	gt_record_fn fn;
	void *ctx;
};

/* The thread that removes probes of targets which were dropped; all of it under the lock. */
struct closer {
	pthread_mutex_t lock;
	pthread_cond_t work;
	pthread_t thread;
	int running, stop;
};

struct gt_tracer {
	struct gt_features *features;
	const struct gt_attach_ops *ops;
	uint32_t ring_bytes;
	struct giltrace_bpf *skel;
	struct gt_target *targets; /* the map's memory, shared with BPF */
	size_t targets_bytes;
	uint32_t n_slots;
	int epoll_fd;
	struct ring_buffer *news; /* NULL: this kernel cannot tell */
	void (*news_fn)(void *ctx, const struct gt_news *news);
	void *news_ctx;
	uint32_t pidns_ino; /* of ours; 0: the root's */
	uint64_t pidns_dev;
	struct closer closer;
	struct slot slots[]; /* the state is the closer's, under its lock */
};

static int map_targets(struct gt_tracer *t)
{
	int err;

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

static int on_news(void *ctx, void *data, size_t size)
{
	struct gt_tracer *t = ctx;

	if (size == sizeof(struct gt_news))
		t->news_fn(t->news_ctx, data);
	return 0;
}

/* Attaches a program if it was loaded. */
static int watch(struct bpf_program *prog, struct bpf_link **link)
{
	if (bpf_program__fd(prog) < 0)
		return -ENOENT;
	*link = bpf_program__attach(prog);
	return *link ? 0 : -errno;
}

/*
 * Ends of threads and of programs, from tracepoints. Without them, what a thread was in when it
 * ended stays open, and an exec is noticed a little late.
 */
static void watch_ends(struct gt_tracer *t)
{
	int err = watch(t->skel->progs.gt_exit, &t->skel->links.gt_exit);

	if (!err)
		err = watch(t->skel->progs.gt_exec, &t->skel->links.gt_exec);
	if (err)
		gt_warn("ends of threads or programs are not recorded, as the tracepoints "
			"sched_process_exit and sched_process_exec cannot be used: %s",
			strerror(-err));
	(void)watch(t->skel->progs.gt_rename, &t->skel->links.gt_rename);
}

/* The processes that are followed, for which gt_exec must come before gt_executed. */
static void watch_followed(struct gt_tracer *t, const struct gt_tracer_opts *opts)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = GT_TRACER_NEWS};
	struct giltrace_bpf *skel = t->skel;

	if (watch(skel->progs.gt_executed, &skel->links.gt_executed))
		return;
	if (opts->follow && (watch(skel->progs.gt_born, &skel->links.gt_born) ||
			     watch(skel->progs.gt_gone, &skel->links.gt_gone)))
		return;
	t->news = ring_buffer__new(bpf_map__fd(skel->maps.news), on_news, t, NULL);
	if (t->news &&
	    epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, ring_buffer__epoll_fd(t->news), &event)) {
		ring_buffer__free(t->news);
		t->news = NULL;
	}
}

/*
 * BPF sees process ids of the root PID namespace. In another one, they are translated. The root
 * namespace's inode is PROC_PID_INIT_INO in every kernel since 3.8.
 */
static void look_at_own_namespace(struct gt_tracer *t)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) || st.st_ino == 0xEFFFFFFCu)
		return;
	t->pidns_ino = (uint32_t)st.st_ino;
	t->pidns_dev = (uint64_t)major(st.st_dev) << 20 | minor(st.st_dev);
}

/* ---- dropped targets ---- */

/* Gives the slots that were dropped back; the lock is held, but not while the kernel works. */
static void close_dropped(struct gt_tracer *t)
{
	struct gt_links *links[64];
	uint32_t slots[GT_ARRAY_SIZE(links)];
	size_t n = 0;

	for (uint32_t i = 0; i < t->n_slots && n < GT_ARRAY_SIZE(links); i++) {
		if (t->slots[i].state != SLOT_DROPPED)
			continue;
		slots[n] = i;
		links[n++] = &t->slots[i].links;
	}
	pthread_mutex_unlock(&t->closer.lock);
	gt_detach(links, n, NULL, NULL);
	for (size_t i = 0; i < n; i++) {
		struct slot *s = &t->slots[slots[i]];

		(void)bpf_map_delete_elem(bpf_map__fd(t->skel->maps.rings), &slots[i]);
		ring_buffer__free(s->rb);
		if (s->ring_fd)
			close(s->ring_fd);
	}
	pthread_mutex_lock(&t->closer.lock);
	for (size_t i = 0; i < n; i++)
		t->slots[slots[i]] = (struct slot){.state = SLOT_FREE};
}

static int has_dropped(const struct gt_tracer *t)
{
	for (uint32_t i = 0; i < t->n_slots; i++)
		if (t->slots[i].state == SLOT_DROPPED)
			return 1;
	return 0;
}

static void *close_all(void *tracer)
{
	struct gt_tracer *t = tracer;

	(void)gt_caps_keep(GT_CAPS_MAPS);
	pthread_mutex_lock(&t->closer.lock);
	for (;;) {
		if (has_dropped(t))
			close_dropped(t);
		else if (t->closer.stop)
			break;
		else
			pthread_cond_wait(&t->closer.work, &t->closer.lock);
	}
	pthread_mutex_unlock(&t->closer.lock);
	return NULL;
}

/* ---- */

int gt_tracer_open(const struct gt_tracer_opts *opts, struct gt_tracer **out)
{
	struct gt_tracer *t =
		calloc(1, sizeof(*t) + (size_t)opts->max_targets * sizeof(struct slot));
	int err;

	if (!t) {
		gt_error("out of memory");
		return -ENOMEM;
	}
	pthread_mutex_init(&t->closer.lock, NULL);
	pthread_cond_init(&t->closer.work, NULL);
	t->n_slots = opts->max_targets;
	look_at_own_namespace(t);
	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (t->epoll_fd < 0) {
		err = -errno;
		gt_error("cannot create an epoll descriptor: %s", strerror(-err));
		goto fail;
	}
	t->features = opts->features;
	t->ring_bytes = opts->ring_bytes;
	err = gt_bpfload(&(struct gt_bpfload_opts){.features = t->features,
						   .backend = opts->backend,
						   .max_targets = t->n_slots,
						   .ring_bytes = t->ring_bytes,
						   .pidns_ino = t->pidns_ino,
						   .follow = opts->follow,
						   .all_execs = opts->all_execs},
			 &t->ops, &t->skel);
	if (!err)
		err = map_targets(t);
	if (err)
		goto fail;
	gt_features_say(t->features);
	watch_ends(t);
	watch_followed(t, opts);
	err = -pthread_create(&t->closer.thread, NULL, close_all, t);
	if (err) {
		gt_error("cannot start a thread: %s", strerror(-err));
		goto fail;
	}
	t->closer.running = 1;
	*out = t;
	return 0;
fail:
	gt_tracer_close(t);
	return err;
}

static int is_used(struct gt_tracer *t, uint32_t slot)
{
	int used;

	pthread_mutex_lock(&t->closer.lock);
	used = t->slots[slot].state == SLOT_USED;
	pthread_mutex_unlock(&t->closer.lock);
	return used;
}

void gt_tracer_close(struct gt_tracer *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; i < t->n_slots; i++)
		if (is_used(t, i))
			gt_tracer_drop(t, i);
	if (t->closer.running) {
		pthread_mutex_lock(&t->closer.lock);
		t->closer.stop = 1;
		pthread_cond_signal(&t->closer.work);
		pthread_mutex_unlock(&t->closer.lock);
		pthread_join(t->closer.thread, NULL);
	}
	pthread_cond_destroy(&t->closer.work);
	pthread_mutex_destroy(&t->closer.lock);
	ring_buffer__free(t->news);
	if (t->targets)
		munmap(t->targets, t->targets_bytes);
	giltrace_bpf__destroy(t->skel);
	if (t->epoll_fd >= 0)
		close(t->epoll_fd);
	free(t);
}

const char *gt_tracer_backend(const struct gt_tracer *t)
{
	return gt_attach_name(t->ops);
}

int gt_tracer_needs_perf(const struct gt_tracer *t)
{
	return gt_attach_step(t->ops) == GT_STEP_PERF;
}

const struct gt_features *gt_tracer_features(const struct gt_tracer *t)
{
	return t->features;
}

uint32_t gt_tracer_ring_bytes(const struct gt_tracer *t, uint32_t wanted)
{
	return wanted == t->ring_bytes || gt_features_have(t->features, GT_FEATURE_RING_SIZES)
		       ? wanted
		       : t->ring_bytes;
}

static int on_record(void *ctx, void *data, size_t size)
{
	struct slot *s = ctx;

	s->fn(s->ctx, data, size);
	return 0;
}

int gt_tracer_has_news(const struct gt_tracer *t)
{
	return t->news != NULL;
}

void gt_tracer_follow(struct gt_tracer *t, pid_t pid)
{
	uint32_t key = (uint32_t)pid;
	uint8_t one = 1;

	if (t->news && bpf_map_update_elem(bpf_map__fd(t->skel->maps.family), &key, &one, BPF_ANY))
		gt_warn("process %d: its children cannot be followed: %s", pid, strerror(errno));
}

void gt_tracer_unfollow(struct gt_tracer *t, pid_t pid)
{
	uint32_t key = (uint32_t)pid;

	if (t->news)
		(void)bpf_map_delete_elem(bpf_map__fd(t->skel->maps.family), &key);
}

uint64_t gt_tracer_news(struct gt_tracer *t, void (*fn)(void *ctx, const struct gt_news *news),
			void *ctx)
{
	if (!t->news)
		return 0;
	t->news_fn = fn;
	t->news_ctx = ctx;
	(void)ring_buffer__consume(t->news);
	return __atomic_load_n(&t->skel->bss->news_lost, __ATOMIC_RELAXED);
}

static int add_ring(struct gt_tracer *t, uint32_t slot, uint32_t ring_bytes)
{
	struct slot *s = &t->slots[slot];
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = slot};
	int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "gt_ring", 0, 0, ring_bytes, NULL);

	if (fd < 0)
		return fd;
	s->ring_fd = fd;
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

static int attach_parts(struct gt_tracer *t, const struct gt_proc *p, const struct gt_pytarget *py,
			uint32_t slot)
{
	const struct bpf_program *hit = t->skel->progs.gt_hit;
	const struct gt_probe_program prog = {bpf_program__fd(hit), bpf_program__insns(hit),
					      bpf_program__insn_cnt(hit)};
	struct gt_part parts[GT_PARTS_MAX];
	size_t n = gt_pytarget_parts(py, parts);
	const uint64_t begin_ns = gt_mono_ns();
	uint32_t first = 0;

	for (size_t i = 0; i < n; i++) {
		char path[64];
		int err;

		gt_proc_map_file(p, parts[i].map, path, sizeof(path));
		err = gt_attach(t->ops, &prog, path, p->pid, slot, parts[i].code, first,
				parts[i].sites, &t->slots[slot].links);
		if (err && gt_proc_memory_gone(p)) {
			gt_error("process %d has ended or executed another program meanwhile",
				 p->pid);
			return -ESRCH;
		}
		if (err)
			return err;
		first += parts[i].sites->n;
	}
	gt_debug("process %d: %u probes attached in %.1f ms", p->pid, first,
		 (double)(gt_mono_ns() - begin_ns) / 1e6);
	return 0;
}

static int take_slot(struct gt_tracer *t, gt_record_fn fn, void *ctx)
{
	int slot = -ENOSPC;

	pthread_mutex_lock(&t->closer.lock);
	for (uint32_t i = 0; i < t->n_slots && slot < 0; i++) {
		if (t->slots[i].state != SLOT_FREE)
			continue;
		t->slots[i] = (struct slot){.state = SLOT_USED, .fn = fn, .ctx = ctx};
		slot = (int)i;
	}
	pthread_mutex_unlock(&t->closer.lock);
	return slot;
}

/* By which ids BPF knows the target. */
static int identify(const struct gt_tracer *t, const struct gt_proc *p, struct gt_target *target)
{
	target->pidns_dev = p->pidns_dev;
	target->pidns_ino = p->pidns_ino;
	if (!t->pidns_ino) {
		target->tgid = (uint32_t)p->pid;
		return 0;
	}
	if (p->pidns_ino != t->pidns_ino || p->pidns_dev != t->pidns_dev) {
		gt_error(
			"process %d is in another PID namespace than giltrace, which is not in the "
			"host's; run giltrace on the host, or beside the process",
			p->pid);
		return -ENOTSUP;
	}
	target->ns_tgid = (uint32_t)p->pid;
	return 0;
}

static int prepare(struct gt_tracer *t, const struct gt_proc *p, const struct gt_pytarget *py,
		   uint32_t slot, uint32_t ring_bytes)
{
	/* A record takes 8 bytes more in the ring; the reader is woken at an eighth of it. */
	const uint32_t wake_every = ring_bytes / (sizeof(struct gt_rec) + 8) / 8;
	struct gt_target *target = &t->targets[slot];
	int err;

	memset(target, 0, sizeof(*target));
	target->wake_every = wake_every ? wake_every : 1;
	gt_bpftarget_describe(target, py);
	err = identify(t, p, target);
	if (err)
		return err;
	err = add_ring(t, slot, ring_bytes);
	if (!err && target->tgid &&
	    bpf_map_update_elem(bpf_map__fd(t->skel->maps.slots), &target->tgid, &slot, BPF_ANY))
		err = -errno;
	if (err)
		gt_error("process %d: cannot make a ring of %u KiB: %s", p->pid, ring_bytes / 1024,
			 strerror(-err));
	return err;
}

int gt_tracer_add(struct gt_tracer *t, const struct gt_proc *p, const struct gt_pytarget *py,
		  uint32_t ring_bytes, gt_record_fn fn, void *ctx)
{
	int err = check_shadow_stack(p), slot;

	if (err)
		return err;
	slot = take_slot(t, fn, ctx);
	if (slot < 0) {
		gt_error("process %d: more than %u targets at one time", p->pid, t->n_slots);
		return slot;
	}
	err = prepare(t, p, py, (uint32_t)slot, ring_bytes);
	if (!err)
		err = attach_parts(t, p, py, (uint32_t)slot);
	if (!err)
		return slot;
	gt_tracer_drop(t, (uint32_t)slot);
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
int gt_tracer_wait(struct gt_tracer *t, uint32_t slot)
{
	return bpf_map_update_elem(bpf_map__fd(t->skel->maps.rings), &slot, &t->slots[slot].ring_fd,
				   BPF_ANY)
		       ? -errno
		       : 0;
}

int gt_tracer_settle(struct gt_tracer *t, uint32_t slot)
{
	return bpf_map_delete_elem(bpf_map__fd(t->skel->maps.rings), &slot) ? -errno : 0;
}

void gt_tracer_cut(struct gt_tracer *t, uint32_t slot, uint64_t mono_ns)
{
	struct gt_target *target = &t->targets[slot];
	const struct slot *s = &t->slots[slot];

	if (target->lost != target->lost_told) {
		const struct gt_rec_lost lost = {
			.rec = {.ts_ns = mono_ns,
				.kind = GT_LOST,
				.flags = target->lost_told == GT_TELL_ENDS ? GT_REC_ENDS : 0},
			.begin_ns = target->gap_begin_ns ? target->gap_begin_ns : mono_ns,
			.total = target->lost,
		};

		s->fn(s->ctx, &lost.rec, sizeof(lost));
		target->lost_told = target->lost;
		target->gap_begin_ns = 0;
	}
	gt_bpftarget_forget(target);
}

void gt_tracer_detach(struct gt_tracer *t, const uint32_t *slots, size_t n,
		      void (*meanwhile)(void *ctx), void *ctx)
{
	gt_autofree struct gt_links **links = calloc(n, sizeof(*links));

	for (size_t i = 0; i < n; i++) {
		struct gt_links *one = &t->slots[slots[i]].links;

		gt_tracer_gate(t, slots[i], 0);
		if (links)
			links[i] = one;
		else
			gt_detach(&one, 1, meanwhile, ctx);
	}
	if (links)
		gt_detach(links, n, meanwhile, ctx);
}

void gt_tracer_drop(struct gt_tracer *t, uint32_t slot)
{
	struct slot *s = &t->slots[slot];

	gt_tracer_gate(t, slot, 0);
	/* Fails where the ring was not added yet. */
	if (s->rb)
		(void)epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, ring_buffer__epoll_fd(s->rb), NULL);
	/* At once: the process may become a target again, after an exec. */
	if (t->targets[slot].tgid)
		(void)bpf_map_delete_elem(bpf_map__fd(t->skel->maps.slots), &t->targets[slot].tgid);
	pthread_mutex_lock(&t->closer.lock);
	s->state = SLOT_DROPPED;
	pthread_cond_signal(&t->closer.work);
	pthread_mutex_unlock(&t->closer.lock);
}

size_t gt_tracer_ready(const struct gt_tracer *t, uint32_t *slots, size_t n)
{
	struct epoll_event ready[64];
	int found = epoll_wait(t->epoll_fd, ready,
			       n < GT_ARRAY_SIZE(ready) ? (int)n : (int)GT_ARRAY_SIZE(ready), 0);

	for (int i = 0; i < found; i++)
		slots[i] = ready[i].data.u32;
	return found > 0 ? (size_t)found : 0;
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

uint32_t gt_tracer_host_pid(const struct gt_tracer *t, uint32_t slot)
{
	return __atomic_load_n(&t->targets[slot].tgid, __ATOMIC_RELAXED);
}

uint64_t gt_tracer_foreign(const struct gt_tracer *t, uint32_t slot)
{
	return __atomic_load_n(&t->targets[slot].foreign, __ATOMIC_RELAXED);
}

uint32_t gt_tracer_gils(const struct gt_tracer *t, uint32_t slot)
{
	return __atomic_load_n(&t->targets[slot].ngils, __ATOMIC_RELAXED);
}
