/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracer.h - the BPF side of a recording: the program, and for each target process its probes, its
 * ring and its counters. With bpfload.c the only user of the skeleton. Used by one thread, but that
 * gt_tracer_add() and gt_tracer_drop() may be called by several.
 *
 * Life of a target: add (probes attached, gate shut) -> gate open -> gate shut -> settle -> consume
 * once more -> drop. For a pause: gate shut -> wait -> consume -> cut -> gate open. Records come
 * through the target's callback, in the order of the ring, from inside gt_tracer_consume().
 */
#ifndef GT_TRACER_H
#define GT_TRACER_H

#include "kfeatures.h"
#include "proc.h"
#include "pytarget.h"

struct gt_tracer;

struct gt_tracer_opts {
	struct gt_features *features; /* tried on the way; must outlive the tracer */
	enum gt_backend backend;
	uint32_t max_targets; /* at one time */
	uint32_t ring_bytes;  /* of most rings */
	uint8_t follow;       /* births and executions of followed processes are wanted as news */
	uint8_t all_execs;    /* executions of all processes are */
};

#define GT_TRACER_SLOTS_MAX 4096

/* Called for each record; must neither block nor allocate. */
typedef void (*gt_record_fn)(void *ctx, const struct gt_rec *rec, size_t size);

/* Logs failures. -EPERM: privileges are missing; -ENOTSUP: the kernel lacks a feature. */
int gt_tracer_open(const struct gt_tracer_opts *opts, struct gt_tracer **out);
void gt_tracer_close(struct gt_tracer *t);

const char *gt_tracer_backend(const struct gt_tracer *t);
int gt_tracer_needs_perf(const struct gt_tracer *t); /* its probes are perf_event_open(2)'s */
const struct gt_features *gt_tracer_features(const struct gt_tracer *t);

/* What the ring of a target may have: `wanted` bytes, unless the kernel wants all rings alike. */
uint32_t gt_tracer_ring_bytes(const struct gt_tracer *t, uint32_t wanted);

/* 1: gt_tracer_news() works; 0: this kernel has no BTF, or refuses the programs (told by -v). */
int gt_tracer_has_news(const struct gt_tracer *t);

/* Follows a process: its births and executions, and its children's, become news. */
void gt_tracer_follow(struct gt_tracer *t, pid_t pid);
void gt_tracer_unfollow(struct gt_tracer *t, pid_t pid);

/* Hands on what has happened to followed processes. Returns how many news found no room, ever. */
uint64_t gt_tracer_news(struct gt_tracer *t, void (*fn)(void *ctx, const struct gt_news *news),
			void *ctx);

/*
 * Attaches to a process; nothing is recorded until the gate is opened. Returns the target's slot
 * (small, reused some time after gt_tracer_drop()) or -errno, logged. ring_bytes: a power of two,
 * at least a page. -ENOTSUP: a probe could kill this process (x86 user shadow stack), or it is in
 * another PID namespace than we, who are not in the root's.
 */
int gt_tracer_add(struct gt_tracer *t, const struct gt_proc *p, const struct gt_pytarget *py,
		  uint32_t ring_bytes, gt_record_fn fn, void *ctx);

/*
 * Before the gate is opened: a GIL whose cond lies at that address in the target. Returns its
 * index, or -ENOSPC.
 */
int gt_tracer_know_gil(struct gt_tracer *t, uint32_t slot, uint64_t cond);

void gt_tracer_gate(struct gt_tracer *t, uint32_t slot, int open);

/*
 * Returns when no hit is under way any more that found a gate open which is shut now, in some
 * milliseconds: the kernel waits for running programs when a map of maps loses an element, here
 * the ring of `slot`, whose gate must be shut. Not needed for a process that has ended or executed
 * another program. -errno: only gt_tracer_detach() makes sure.
 */
int gt_tracer_settle(struct gt_tracer *t, uint32_t slot);

/*
 * The same, and the ring stays, for the gate is to be opened again; `slot` may be any target's, and
 * one call does for all whose gates were shut before.
 */
int gt_tracer_wait(struct gt_tracer *t, uint32_t slot);

/*
 * Between gt_tracer_wait() and the opening of the gate: what comes has nothing to do with what was.
 * Waits and holds that were under way are forgotten: a wait that has gone on would be taken for one
 * that was told. A loss that no record has told of is told by one, as of mono_ns.
 */
void gt_tracer_cut(struct gt_tracer *t, uint32_t slot, uint64_t mono_ns);

/*
 * Removes the probes of n targets: some tenths of a second in all by uprobe_multi; by perf_event
 * the kernel takes about 80 ms for each probe, one after the other. No hit runs afterwards. Until
 * then meanwhile(ctx), if not NULL, is called again and again: to read the other targets' rings.
 */
void gt_tracer_detach(struct gt_tracer *t, const uint32_t *slots, size_t n,
		      void (*meanwhile)(void *ctx), void *ctx);

/*
 * Gives up a target, whose unread records are gone: probes that are left are removed by a thread
 * of ours, which takes the kernel some tenths of a second; the slot is used again after that.
 */
void gt_tracer_drop(struct gt_tracer *t, uint32_t slot);

/* Readable when a ring has filled enough to be worth a look, or there is news. */
int gt_tracer_epoll_fd(const struct gt_tracer *t);

/*
 * Which targets are worth a look: their slots, at most n; GT_TRACER_NEWS stands for news. Returns
 * how many.
 */
#define GT_TRACER_NEWS UINT32_MAX
size_t gt_tracer_ready(const struct gt_tracer *t, uint32_t *slots, size_t n);

/* Hands on what is in the ring of a target. -errno: the ring is damaged. */
int gt_tracer_consume(struct gt_tracer *t, uint32_t slot);

/* Events that found no room in the ring, and the time of the first of those not yet told by a
 * GT_LOST record (0: none). Exact after gt_tracer_settle(). */
uint64_t gt_tracer_lost(const struct gt_tracer *t, uint32_t slot, uint64_t *gap_begin_ns);

/* The target's id in the root PID namespace; 0: not known, or not yet (no hit so far). */
uint32_t gt_tracer_host_pid(const struct gt_tracer *t, uint32_t slot);

/* GILs that have an index, at most GT_MAX_GILS. */
uint32_t gt_tracer_gils(const struct gt_tracer *t, uint32_t slot);

/* Hits on condition variables that are no GIL's. */
uint64_t gt_tracer_foreign(const struct gt_tracer *t, uint32_t slot);

#endif
