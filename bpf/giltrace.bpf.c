// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The probe: one program behind every probe site; the site's cookie says whose it is and what a
 * hit means (and two more for the end of threads and programs). Kernels before 5.15 know no
 * cookies: there each site has a copy of the program. It runs in the traced thread, so
 * its cost is the target's: gate, target, GIL index, 16 bytes into the ring of the process. No BTF
 * of the kernel is needed for that; the programs at the end, which follow children and names, read
 * the kernel's structs and are left out where there is none.
 *
 * Hits of one GIL are serialised by gil->mutex and switch_mutex (CPython 3.6 .. 3.16: both signals
 * and both waits are made with one of them held). Two GILs of one process (3.12+) can meet in here:
 * losses are counted atomically, and a thread or a gap may be told twice. Two GILs whose very first
 * hits meet may get one index: the file then has two GIL records for it, and the one event between
 * them counts for the wrong GIL (an atomic claim needs instructions of Linux 5.12, on arm64 5.18).
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "gt_abi.h"
#include "gt_core_types.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before load */
	__type(key, __u32);
	__type(value, struct gt_target);
} targets SEC(".maps");

/* The ring of each target, at the target's index. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS); /* their pattern is set before load, too */
	__uint(max_entries, 1);                   /* set before load */
	__type(key, __u32);
	__type(value, __u32);
} rings SEC(".maps");

/* Slot of a process; for what is not hit through a probe of its own. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set before load */
	__type(key, __u32);     /* tgid */
	__type(value, __u32);
} slots SEC(".maps");

/*
 * Always empty. Linux 6.13 and newer (seen on x86-64, 6.18 and 7.3; AArch64 has it from 6.17 on)
 * give a tracing program with 64 bytes of stack or more a stack per CPU instead of the thread's.
 * They count on a check against recursion that programs behind uprobes, which can be preempted, do
 * not have: another thread then runs the program on the same CPU, over the first one's variables,
 * and the kernel dies of a bad pointer. A program with a tail call keeps to the thread's stack.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} nowhere SEC(".maps");

/* Whether the running process is a target whose tgid was not known, and is from now on. */
static __always_inline int meet(struct gt_target *t, __u32 slot, __u32 tgid)
{
	struct bpf_pidns_info ns = {};

	if (!t->ns_tgid || t->tgid ||
	    bpf_get_ns_current_pid_tgid(t->pidns_dev, t->pidns_ino, &ns, sizeof(ns)) ||
	    ns.tgid != t->ns_tgid)
		return 0;
	t->tgid = tgid;
	bpf_map_update_elem(&slots, &tgid, &slot, BPF_ANY);
	return 1;
}

/* Something did not fit: count it, and remember when the gap began. */
static __always_inline void lose(struct gt_target *t, __u64 ts_ns)
{
	__sync_fetch_and_add(&t->lost, 1);
	if (!t->gap_begin_ns)
		t->gap_begin_ns = ts_ns;
}

/*
 * The end of a thread, or of its wait, did not fit. These are no events that count, but the reader
 * must not believe that the thread is still there: a gap, in which perhaps nothing else was lost.
 */
static __always_inline void lose_end(struct gt_target *t, __u64 ts_ns)
{
	if (!t->gap_begin_ns)
		t->gap_begin_ns = ts_ns;
	t->lost_told = GT_TELL_ENDS;
}

static __always_inline void fill(struct gt_rec *rec, __u64 ts_ns, __u32 tid, __u8 kind, __u8 gil)
{
	rec->ts_ns = ts_ns;
	rec->tid = tid;
	rec->kind = kind;
	rec->gil = gil;
	rec->site = 0;
	rec->flags = 0;
}

static __always_inline int tell_gil(void *ring, struct gt_rec *of, __u8 index, __u64 addr,
				    __u8 flags)
{
	struct gt_rec_gil *rec = bpf_ringbuf_reserve(ring, sizeof(*rec), 0);

	if (!rec)
		return -1;
	fill(&rec->rec, of->ts_ns, of->tid, GT_GIL, index);
	rec->rec.flags = flags;
	rec->addr = addr;
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * The thread's place in the table: one of a few beside each other, so that threads seldom share
 * one. Ids that follow each other have places of their own.
 */
static __always_inline struct gt_seen *seen_of(struct gt_target *t, __u32 tid)
{
	struct gt_seen *unused = 0;
	__u32 i;

	for (i = 0; i < GT_SEEN_WAYS; i++) {
		struct gt_seen *s = &t->seen[(tid * GT_SEEN_WAYS + i) & (GT_SEEN - 1)];

		if (s->named == tid)
			return s;
		if (!unused && !s->named)
			unused = s;
	}
	return unused ? unused : &t->seen[(tid * GT_SEEN_WAYS) & (GT_SEEN - 1)];
}

/* Makes room for a GIL at index t->ngils; the caller knows that there is some. */
static __always_inline __u32 add_gil(struct gt_target *t, __u64 addr, int confirmed)
{
	__u32 n = t->ngils;

	/* clang drops a mask that changes nothing; verifiers up to 6.1 (clang 18: all) miss it. */
	barrier_var(n);
	n &= GT_MAX_GILS - 1;
	t->gils[n].addr = addr;
	t->gils[n].confirmed = confirmed;
	t->gils[n].pressed = 1; /* by a waiter from before the recording */
	t->ngils = n + 1;
	return n;
}

/*
 * Which GIL a hit is about, by the condition variable it was made with; tells the reader of a new
 * one. Returns the index, -1 for a hit that concerns no GIL, or -2 when the ring is full.
 */
static __always_inline int gil_index(struct gt_target *t, void *ring, struct gt_rec *of,
				     __u32 switch_cond, __u8 site_flags, __u64 arg)
{
	/* take_gil signals switch_cond, drop_gil waits for it; the two others are made with cond.
	 */
	int at_switch = of->kind == GT_ACQUIRE || of->kind == GT_YIELD;
	int sure = of->kind == GT_ACQUIRE || of->kind == GT_WAIT;
	__u64 addr = at_switch ? arg - switch_cond : arg;
	__u32 n = t->ngils, i;

	for (i = 0; i < GT_MAX_GILS; i++) {
		struct gt_gil *g = &t->gils[i];

		if (i >= n)
			break;
		if (g->addr != addr)
			continue;
		if (g->confirmed)
			return i;
		/* A second release with no acquire between: not a GIL's condition variable. */
		if (!sure || (site_flags & GT_SITE_MATCH))
			return -1;
		if (tell_gil(ring, of, i, addr, 0))
			return -2;
		g->confirmed = 1;
		return i;
	}
	if (site_flags & GT_SITE_MATCH || of->kind == GT_YIELD)
		return -1;
	/* Releases, too: those of the GILs without an index. Foreign ones among them do no harm, as
	 * the converter counts a release only where the thread has acquired. */
	if (n >= GT_MAX_GILS)
		return GT_GIL_OTHER;
	/*
	 * A release may be the end of a hold that began before the recording, or foreign code that
	 * signals a condition variable of its own; the next acquire decides. Half of the table is
	 * kept for those that are sure.
	 */
	if (!sure && n >= GT_MAX_GILS / 2)
		return -1;
	if (tell_gil(ring, of, n, addr, sure ? 0 : GT_REC_UNCONFIRMED))
		return -2;
	return add_gil(t, addr, sure);
}

/* ---- libc mode: functions that everybody calls ---- */

/*
 * Index in t->codes of the CPython whose code has called the function that was just entered, or
 * -1. x86-64 has the return address on the stack (the probe sits before the function moves it),
 * AArch64 in x30; a tail call shows the caller's caller, which is CPython's code as well.
 */
static __always_inline int calling_code(const struct gt_target *t, struct pt_regs *ctx)
{
	__u64 from = 0;
	__u32 i;

#if defined(__TARGET_ARCH_x86)
	if (bpf_probe_read_user(&from, sizeof(from), (void *)PT_REGS_SP(ctx)))
		return -1;
#else
	from = PT_REGS_RET(ctx);
#endif
	for (i = 0; i < GT_CODES; i++)
		if (i < t->ncodes && from - t->codes[i].start < t->codes[i].size)
			return i;
	return -1;
}

/*
 * What a call means whose condition variable is a GIL's cond or switch_cond. 0: CPython (3.7 ..
 * 3.16) makes no such call.
 */
static __always_inline __u8 meaning(__u8 kind, int at_switch)
{
	if (!at_switch)
		return kind == GT_YIELD ? 0 : kind;
	return kind == GT_RELEASE ? GT_ACQUIRE : kind == GT_YIELD ? GT_YIELD : 0;
}

static __always_inline void keep_aside(const struct gt_target *t, struct gt_cand *c,
				       const struct gt_rec *of, __u64 addr, __u8 site)
{
	struct bpf_pidns_info ns = {};

	if (t->ns_tgid)
		bpf_get_ns_current_pid_tgid(t->pidns_dev, t->pidns_ino, &ns, sizeof(ns));
	c->shown = t->ns_tgid ? ns.pid : of->tid;
	c->addr = addr;
	c->ts_ns = of->ts_ns;
	c->tid = of->tid;
	c->kind = of->kind;
	c->site = site;
}

/*
 * The hit that was kept aside turns out to be a GIL's: told now, with its own time. Not a release
 * by another thread that has had events, which may have been of another GIL and later; after an
 * acquire or a wait there can be none but of this one. Who the thread is, its next event tells.
 */
static __always_inline int tell_cand(struct gt_target *t, void *ring, const struct gt_cand *c,
				     const struct gt_rec *of, __u8 gil, int at_switch)
{
	__u8 kind = meaning(c->kind, at_switch);
	struct gt_rec *rec;

	if (!kind ||
	    (kind == GT_RELEASE && c->tid != of->tid && seen_of(t, c->tid)->named == c->tid))
		return 0;
	rec = bpf_ringbuf_reserve(ring, sizeof(*rec), 0);
	if (!rec)
		return -1;
	fill(rec, c->ts_ns, c->shown, kind, gil);
	rec->site = c->site;
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * As gil_index(), for a function of libc: also decides what the hit means, by its argument. Code of
 * CPython's file that is linked in with it (OpenSSL, Tcl) may use condition variables of its own,
 * so a GIL is known only when two have been used that lie as far apart as cond and switch_cond.
 */
static __always_inline int libc_gil_index(struct gt_target *t, void *ring, struct gt_rec *of,
					  __u32 switch_cond, __u64 arg, __u8 site)
{
	__u32 n = t->ngils, i, next;
	struct gt_cand *c;

	for (i = 0; i < GT_MAX_GILS; i++) {
		__u64 addr = t->gils[i].addr;

		if (i >= n)
			break;
		if (addr != arg && addr + switch_cond != arg)
			continue;
		of->kind = meaning(of->kind, addr != arg);
		return of->kind ? i : -1;
	}
	if (n >= GT_MAX_GILS)
		return -1;
	for (i = 0; i < GT_CANDS; i++) {
		int at_switch; /* is it the candidate that is the switch_cond? */

		c = &t->cands[i];
		if (!c->addr)
			continue;
		if (c->addr == arg) {
			/* A wait is repeated soon, a release is not. */
			if (c->kind == GT_WAIT && of->kind == GT_RELEASE)
				keep_aside(t, c, of, arg, site);
			return -1;
		}
		at_switch = c->addr == arg + switch_cond;
		if (!at_switch && c->addr != arg - switch_cond)
			continue;
		of->kind = meaning(of->kind, !at_switch);
		if (!of->kind)
			return -1;
		if (tell_gil(ring, of, n, at_switch ? arg : c->addr, 0) ||
		    tell_cand(t, ring, c, of, n, at_switch))
			return -2;
		n = add_gil(t, at_switch ? arg : c->addr, 1);
		c->addr = 0;
		return n;
	}
	next = t->ncands++;
	barrier_var(next);
	keep_aside(t, &t->cands[next & (GT_CANDS - 1)], of, arg, site);
	return -1;
}

/* ---- forced or voluntary ---- */

/*
 * Has another thread asked for the GIL that is being released? The interpreter's own word for it
 * is read where its place is known. Only called where a waiter may have asked: reading costs.
 */
static __always_inline int drop_requested(const struct gt_gil *g, const struct gt_code *code)
{
	__u64 at = g->addr + code->drop_off[0], word = 0;
	__u32 flag = 0;

	if (code->drop_how == GT_DROP_UNKNOWN || !g->addr)
		return g->requested;
	if (code->drop_how != GT_DROP_RUNTIME) {
		if (bpf_probe_read_user(&at, sizeof(at), (void *)(g->addr - GT_LAST_HOLDER)))
			return g->requested;
		at += code->drop_off[0];
	}
	if (code->drop_how == GT_DROP_TSTATE) {
		if (bpf_probe_read_user(&word, sizeof(word), (void *)at))
			return g->requested;
		return word & 1;
	}
	if (code->drop_how == GT_DROP_INTERP) {
		if (bpf_probe_read_user(&at, sizeof(at), (void *)at))
			return g->requested;
		at += code->drop_off[1];
	}
	if (bpf_probe_read_user(&flag, sizeof(flag), (void *)at))
		return g->requested;
	return flag != 0;
}

/*
 * Follows waiters and acquires, as CPython does: a waiter sets the drop request when its interval
 * has passed and nobody has acquired meanwhile, and then waits again, all with gil->mutex held; an
 * acquire resets it. Returns the flags of the record.
 */
static __always_inline __u8 press(struct gt_gil *g, struct gt_seen *seen, const struct gt_rec *ev,
				  const struct gt_code *code)
{
	switch (ev->kind) {
	case GT_WAIT:
		if (seen->waiting == ev->tid && seen->acquires == g->acquires)
			g->requested = 1;
		/* A thread that is new to us may have waited for long. */
		if (seen->waiting == ev->tid || seen->named != ev->tid)
			g->pressed = 1;
		seen->acquires = g->acquires;
		return 0;
	case GT_ACQUIRE:
		g->holder = ev->tid;
		g->acquires++;
		g->pressed = 0;
		g->requested = 0;
		return 0;
	case GT_RELEASE:
		g->holder = 0;
		return g->pressed && drop_requested(g, code) ? GT_REC_FORCED : 0;
	}
	return 0;
}

/*
 * take_gil signals cond in two cases: the interpreter is ending and the thread, which has just got
 * the GIL, gives it back; or (free-threaded, 3.13+) the GIL was switched off while the thread
 * waited, and it wakes the next one. libc mode cannot tell the places apart.
 */
static __always_inline int has_left(const struct gt_gil *g, const struct gt_seen *seen,
				    const struct gt_rec *ev, __u8 site_flags)
{
	if (ev->kind != GT_RELEASE || g->holder == ev->tid)
		return 0;
	return site_flags & GT_SITE_TAKE || (site_flags & GT_SITE_LIBC && seen->waiting == ev->tid);
}

/* ---- */

/*
 * The running thread, whose id in the root PID namespace is of->tid. *shown: its id in the
 * recorder's.
 */
static __always_inline int tell_thread(struct gt_target *t, void *ring, const struct gt_rec *of,
				       __u32 *shown)
{
	struct gt_rec_thread *rec = bpf_ringbuf_reserve(ring, sizeof(*rec), 0);
	struct bpf_pidns_info ns = {};

	if (!rec)
		return -1;
	if (bpf_get_ns_current_pid_tgid(t->pidns_dev, t->pidns_ino, &ns, sizeof(ns)))
		ns.pid = 0;
	*shown = t->ns_tgid ? ns.pid : of->tid;
	fill(&rec->rec, of->ts_ns, *shown, GT_THREAD, 0);
	rec->rec.flags = of->flags & GT_REC_PERHAPS;
	rec->ns_tid = ns.pid;
	rec->host_tid = of->tid;
	bpf_get_current_comm(rec->comm, sizeof(rec->comm));
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline int tell_lost(struct gt_target *t, void *ring, struct gt_rec *of)
{
	/* Read before there is room: what another GIL loses meanwhile is for the next record. */
	__u64 lost = t->lost, begin_ns = t->gap_begin_ns, told = t->lost_told;
	struct gt_rec_lost *rec = bpf_ringbuf_reserve(ring, sizeof(*rec), 0);

	if (!rec)
		return -1;
	fill(&rec->rec, of->ts_ns, 0, GT_LOST, 0);
	rec->rec.flags = told == GT_TELL_ENDS ? GT_REC_ENDS : 0;
	/* 0: another thread has just told of this gap and begun no new one. */
	rec->begin_ns = begin_ns ? begin_ns : of->ts_ns;
	rec->total = lost;
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	t->gap_begin_ns = 0;
	t->lost_told = lost;
	return 0;
}

/* A wake-up costs more than all the rest of a hit. */
static __always_inline __u64 wakeup(struct gt_target *t)
{
	if (++t->unwoken < t->wake_every)
		return BPF_RB_NO_WAKEUP;
	t->unwoken = 0;
	return BPF_RB_FORCE_WAKEUP;
}

/* The cookie is a constant of the program; see attach.h. Verifiers drop the branch not taken. */
const volatile __u8 cookie_in_program = 0;

static __always_inline __u64 cookie_of(void *ctx)
{
	__u64 cookie;

	if (!cookie_in_program)
		return bpf_get_attach_cookie(ctx);
	asm volatile("%0 = %1 ll" : "=r"(cookie) : "i"(GT_COOKIE_PLACE));
	return cookie;
}

SEC("uprobe")
int gt_hit(struct pt_regs *ctx)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid(), cookie = cookie_of(ctx);
	__u32 slot = GT_COOKIE_SLOT(cookie);
	__u8 flags = GT_COOKIE_FLAGS(cookie);
	struct gt_target *t = bpf_map_lookup_elem(&targets, &slot);
	int code_index = GT_COOKIE_CODE(cookie), gil = 0;
	const struct gt_code *code;
	__u32 shown = pid_tgid;
	struct gt_seen *seen;
	struct gt_rec ev, *rec;
	void *ring;

	/* Kernels run the program for other processes, too: those of a second tracer, forks. */
	if (!t || !t->on || (t->tgid != pid_tgid >> 32 && !meet(t, slot, pid_tgid >> 32)))
		return 0;
	if (flags & GT_SITE_LIBC) {
		code_index = calling_code(t, ctx);
		if (code_index < 0)
			goto foreign;
	}
	barrier_var(code_index);
	code = &t->codes[code_index & (GT_CODES - 1)];
	fill(&ev, bpf_ktime_get_ns(), (__u32)pid_tgid, GT_COOKIE_KIND(cookie), 0);
	ring = bpf_map_lookup_elem(&rings, &slot);
	if (!ring) {
		bpf_tail_call(ctx, &nowhere, 0); /* leads nowhere: see there */
		return 0;
	}
	seen = seen_of(t, ev.tid);
	if (flags & GT_SITE_LIBC)
		gil = libc_gil_index(t, ring, &ev, code->switch_cond, PT_REGS_PARM1(ctx),
				     GT_COOKIE_SITE(cookie));
	else if (!(flags & GT_SITE_NOARG))
		gil = gil_index(t, ring, &ev, code->switch_cond, flags, PT_REGS_PARM1(ctx));
	if (gil == -1)
		goto foreign;
	if (gil < 0)
		goto full;
	if (gil < GT_MAX_GILS) {
		if (has_left(&t->gils[gil], seen, &ev, flags))
			ev.kind = GT_LEFT;
		ev.flags = press(&t->gils[gil], seen, &ev, code);
	}
	if (seen->waiting == ev.tid) {
		if (ev.kind == GT_WAIT)
			return 0; /* the time-outs of one wait are one wait */
		seen->waiting = 0;
	}
	if (t->lost != t->lost_told && tell_lost(t, ring, &ev))
		goto full;
	if (seen->named != ev.tid) {
		if (tell_thread(t, ring, &ev, &shown))
			goto full;
		if (seen->named)
			t->crowded = 1;
		seen->shown = shown;
		seen->named = ev.tid;
	} else if (t->ns_tgid) {
		shown = seen->shown;
	}
	rec = bpf_ringbuf_reserve(ring, sizeof(*rec), 0);
	if (!rec)
		goto full;
	*rec = ev;
	rec->tid = shown;
	rec->gil = gil;
	rec->site = GT_COOKIE_SITE(cookie);
	if (ev.kind == GT_WAIT)
		seen->waiting = ev.tid;
	bpf_ringbuf_submit(rec, wakeup(t));
	return 0;
full:
	if (ev.kind == GT_WAIT)
		seen->waiting = ev.tid;
	else if (seen->waiting == ev.tid)
		seen->waiting = 0;
	if (ev.kind == GT_LEFT)
		lose_end(t, ev.ts_ns);
	else
		lose(t, ev.ts_ns);
	return 0;
foreign:
	__sync_fetch_and_add(&t->foreign, 1);
	return 0;
}

/*
 * A thread ends, maybe inside take_gil, and its id becomes free for another. Runs for every thread
 * of the host that ends.
 */
SEC("raw_tp/sched_process_exit")
int gt_exit(void *ctx)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	__u32 tgid = pid_tgid >> 32, *slot = bpf_map_lookup_elem(&slots, &tgid);
	struct gt_target *t = slot ? bpf_map_lookup_elem(&targets, slot) : 0;
	struct gt_seen *seen;
	struct gt_rec ev, *rec;
	void *ring;
	__u32 shown, i;

	(void)ctx;
	if (!t || !t->on || t->tgid != tgid)
		return 0;
	for (i = 0; i < GT_CANDS; i++)
		if (t->cands[i].tid == (__u32)pid_tgid)
			t->cands[i].addr = 0;
	fill(&ev, bpf_ktime_get_ns(), (__u32)pid_tgid, GT_EXIT, 0);
	seen = seen_of(t, ev.tid);
	if (seen->named == ev.tid) {
		seen->named = 0;
		seen->waiting = 0;
	} else if (t->crowded) { /* another thread may have its place */
		ev.flags = GT_REC_PERHAPS;
	} else {
		return 0;
	}
	ring = bpf_map_lookup_elem(&rings, slot);
	if (!ring)
		return 0;
	if (t->lost != t->lost_told && tell_lost(t, ring, &ev))
		goto full;
	/* Its last name. */
	if (tell_thread(t, ring, &ev, &shown))
		goto full;
	rec = bpf_ringbuf_reserve(ring, sizeof(*rec), 0);
	if (!rec)
		goto full;
	*rec = ev;
	rec->tid = shown;
	bpf_ringbuf_submit(rec, wakeup(t));
	return 0;
full:
	lose_end(t, ev.ts_ns);
	return 0;
}

/* Another program: its memory is none that the probes were made for. Ends what a recording sees. */
SEC("raw_tp/sched_process_exec")
int gt_exec(void *ctx)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32, *slot = bpf_map_lookup_elem(&slots, &tgid);
	struct gt_target *t = slot ? bpf_map_lookup_elem(&targets, slot) : 0;

	(void)ctx;
	if (t && t->tgid == tgid)
		t->on = 0;
	return 0;
}

#include "gt_follow.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
