// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The probe: one program behind every probe site; the site's cookie says whose it is and what a
 * hit means. It runs in the traced thread, so its cost is the target's: gate, target, GIL index,
 * 16 bytes into the ring of the process. No BTF of the kernel is needed.
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
#include <bpf/bpf_tracing.h>

#include "gt_abi.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before load */
	__type(key, __u32);
	__type(value, struct gt_target);
} targets SEC(".maps");

/* The ring of each target, at the target's index. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1); /* set before load */
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_RINGBUF);
			__uint(max_entries, 4096); /* a pattern only; each ring has its own size */
		});
} rings SEC(".maps");

/* Something did not fit: count it, and remember when the gap began. */
static __always_inline void lose(struct gt_target *t, __u64 ts_ns)
{
	__sync_fetch_and_add(&t->lost, 1);
	if (!t->gap_begin_ns)
		t->gap_begin_ns = ts_ns;
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
 * Which GIL a hit is about, by the condition variable it was made with; tells the reader of a new
 * one. Returns the index, -1 for a hit that concerns no GIL, or -2 when the ring is full.
 */
static __always_inline int gil_index(struct gt_target *t, void *ring, struct gt_rec *of,
				     __u8 site_flags, __u64 arg)
{
	/* take_gil signals switch_cond, drop_gil waits for it; the two others are made with cond.
	 */
	int at_switch = of->kind == GT_ACQUIRE || of->kind == GT_YIELD;
	int sure = of->kind == GT_ACQUIRE || of->kind == GT_WAIT;
	__u64 addr = at_switch ? arg - t->switch_cond : arg;
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
			goto foreign;
		if (tell_gil(ring, of, i, addr, 0))
			return -2;
		g->confirmed = 1;
		return i;
	}
	if (site_flags & GT_SITE_MATCH || of->kind == GT_YIELD)
		goto foreign;
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
		goto foreign;
	if (tell_gil(ring, of, n, addr, sure ? 0 : GT_REC_UNCONFIRMED))
		return -2;
	/* clang drops a mask that changes nothing; verifiers up to 6.1 (clang 18: all) miss it. */
	barrier_var(n);
	n &= GT_MAX_GILS - 1;
	t->gils[n].addr = addr;
	t->gils[n].confirmed = sure;
	t->ngils = n + 1;
	return n;
foreign:
	__sync_fetch_and_add(&t->foreign, 1);
	return -1;
}

static __always_inline int tell_thread(struct gt_target *t, void *ring, struct gt_rec *of)
{
	struct gt_rec_thread *rec = bpf_ringbuf_reserve(ring, sizeof(*rec), 0);
	struct bpf_pidns_info ns = {};

	if (!rec)
		return -1;
	fill(&rec->rec, of->ts_ns, of->tid, GT_THREAD, 0);
	rec->pad = 0;
	if (bpf_get_ns_current_pid_tgid(t->pidns_dev, t->pidns_ino, &ns, sizeof(ns)))
		ns.pid = 0;
	rec->ns_tid = ns.pid;
	bpf_get_current_comm(rec->comm, sizeof(rec->comm));
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline int tell_lost(struct gt_target *t, void *ring, struct gt_rec *of)
{
	struct gt_rec_lost *rec = bpf_ringbuf_reserve(ring, sizeof(*rec), 0);
	__u64 lost = t->lost, begin_ns = t->gap_begin_ns;

	if (!rec)
		return -1;
	fill(&rec->rec, of->ts_ns, 0, GT_LOST, 0);
	/* 0: another thread has just told of this gap and begun no new one. */
	rec->begin_ns = begin_ns ? begin_ns : of->ts_ns;
	rec->total = lost;
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	t->gap_begin_ns = 0;
	t->lost_told = lost;
	return 0;
}

/* The thread's place in the table: one of four, so that threads seldom share one. */
static __always_inline struct gt_seen *seen_of(struct gt_target *t, __u32 tid)
{
	struct gt_seen *unused = 0;
	__u32 i;

	for (i = 0; i < GT_SEEN_WAYS; i++) {
		struct gt_seen *s = &t->seen[(tid & (GT_SEEN - 1)) ^ i];

		if (s->named == tid)
			return s;
		if (!unused && !s->named)
			unused = s;
	}
	return unused ? unused : &t->seen[tid & (GT_SEEN - 1)];
}

SEC("uprobe")
int gt_hit(struct pt_regs *ctx)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid(), cookie = bpf_get_attach_cookie(ctx);
	__u32 slot = GT_COOKIE_SLOT(cookie);
	__u8 flags = GT_COOKIE_FLAGS(cookie);
	struct gt_target *t = bpf_map_lookup_elem(&targets, &slot);
	struct gt_seen *seen;
	struct gt_rec ev, *rec;
	__u64 wakeup = BPF_RB_NO_WAKEUP;
	void *ring;
	int gil = 0;

	/* Kernels run the program for other processes, too: those of a second tracer, forks. */
	if (!t || !t->on || t->tgid != pid_tgid >> 32)
		return 0;
	fill(&ev, bpf_ktime_get_ns(), (__u32)pid_tgid, GT_COOKIE_KIND(cookie), 0);
	seen = seen_of(t, ev.tid);
	if (seen->waiting == ev.tid) {
		if (ev.kind == GT_WAIT)
			return 0; /* the time-outs of one wait are one wait */
		seen->waiting = 0;
	}
	ring = bpf_map_lookup_elem(&rings, &slot);
	if (!ring)
		return 0;
	if (!(flags & GT_SITE_NOARG)) {
		gil = gil_index(t, ring, &ev, flags, PT_REGS_PARM1(ctx));
		if (gil == -1)
			return 0;
		if (gil < 0)
			goto full;
	}
	if (t->lost != t->lost_told && tell_lost(t, ring, &ev))
		goto full;
	if (seen->named != ev.tid) {
		if (tell_thread(t, ring, &ev))
			goto full;
		seen->named = ev.tid;
	}
	rec = bpf_ringbuf_reserve(ring, sizeof(*rec), 0);
	if (!rec)
		goto full;
	*rec = ev;
	rec->gil = gil;
	rec->site = GT_COOKIE_SITE(cookie);
	if (ev.kind == GT_WAIT)
		seen->waiting = ev.tid;
	/* A wake-up costs more than all the rest of a hit. */
	if (++t->unwoken >= t->wake_every) {
		t->unwoken = 0;
		wakeup = BPF_RB_FORCE_WAKEUP;
	}
	bpf_ringbuf_submit(rec, wakeup);
	return 0;
full:
	if (ev.kind == GT_WAIT)
		seen->waiting = ev.tid;
	lose(t, ev.ts_ns);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
