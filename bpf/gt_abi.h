/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * gt_abi.h - everything the BPF program and the recorder share: the records in the ring, the map
 * values and the layout of a probe's cookie. The ONLY header included by both sides.
 *
 * Nothing here reaches disk; the file has a format of its own (include/giltrace/gilfile.h), but
 * the kinds have the same numbers in both.
 */
#ifndef GT_ABI_H
#define GT_ABI_H

#ifndef __bpf__
#include <linux/types.h>
#endif

#define GT_MAX_GILS  16   /* GILs told apart in one process (3.12+: one per interpreter) */
#define GT_GIL_OTHER 0xff /* all GILs beyond that */
#define GT_SEEN      1024 /* slots of the per-process table of threads; a power of two */
#define GT_SEEN_WAYS 4    /* places that a thread may have in it; a power of two */
#define GT_COMM_LEN  16   /* TASK_COMM_LEN */

/* What happened. The values are also those of the file (enum gil_kind). */
enum gt_kind {
	GT_WAIT = 1,    /* first timed wait of a contended take */
	GT_ACQUIRE = 2, /* the thread has the GIL */
	GT_RELEASE = 3, /* the thread no longer has it */
	GT_YIELD = 4,   /* after a forced release: waits until another thread has acquired */
	GT_TAKE = 5,    /* take_gil entered (function mode) */
	GT_DROPPED = 6, /* drop_gil returned (function mode) */
	GT_THREAD = 8,  /* struct gt_rec_thread: first event of a thread follows */
	GT_GIL = 9,     /* struct gt_rec_gil: what an index stands for */
	GT_LOST = 10,   /* struct gt_rec_lost: events before this record were lost */
	GT_EXIT = 12,   /* the thread has ended */
	GT_LEFT = 13,   /* it gave up waiting, as the GIL was switched off (free-threaded builds) */
};

/* The record of an event, and the head of the longer ones. */
struct gt_rec {
	__u64 ts_ns; /* CLOCK_MONOTONIC */
	__u32 tid;   /* thread id in the recorder's PID namespace */
	__u8 kind;   /* enum gt_kind */
	__u8 gil;    /* index in gt_target.gils, or GT_GIL_OTHER */
	__u8 site;   /* index of the probe site that fired, as in the target's list of sites */
	__u8 flags;  /* GT_REC_* */
};

/* GT_GIL: seen at a release only, which any user of condition variables could have caused. */
#define GT_REC_UNCONFIRMED 0x01
/* GT_EXIT, and the GT_THREAD before it: only if the thread has had an event, which BPF does not
 * know. */
#define GT_REC_PERHAPS 0x08
/* GT_LOST: ends of threads, too, which do not count: `total` may be the same as before. */
#define GT_REC_ENDS 0x04
/* GT_RELEASE: another thread had waited for an interval and had set the drop request. */
#define GT_REC_FORCED 0x02

struct gt_rec_thread {
	struct gt_rec rec;
	__u32 ns_tid;   /* in the target's PID namespace; 0: the kernel did not tell */
	__u32 host_tid; /* in the root PID namespace */
	char comm[GT_COMM_LEN];
};

struct gt_rec_gil {
	struct gt_rec rec;
	__u64 addr; /* of gil->cond in the target; 0 in CPython 3.6 and in function mode */
};

struct gt_rec_lost {
	struct gt_rec rec;
	__u64 begin_ns; /* time of the first event that was lost since the last GT_LOST */
	__u64 total;    /* events lost since the start of the recording */
};

struct gt_gil {
	__u64 addr; /* of gil->cond */
	__u32 confirmed;
	__u32 holder;    /* tid; 0: nobody, or not known */
	__u32 acquires;  /* so far; wraps */
	__u32 pressed;   /* since the last acquire a waiter may have set the drop request */
	__u32 requested; /* it has, unless its wait was ended by a signal that came to nothing */
	__u32 pad;
};

/*
 * Where the interpreter keeps its drop request, to be read at a release; CPython resets it at each
 * acquire. All are reached from gil->cond; last_holder lies GT_LAST_HOLDER before it (3.7 .. 3.16).
 */
enum gt_drop_how {
	GT_DROP_UNKNOWN = 0, /* gt_gil.requested decides */
	GT_DROP_RUNTIME = 1, /* an int at cond + drop_off[0] (3.7, 3.8) */
	GT_DROP_INTERP = 2, /* an int at *(last_holder + drop_off[0]) + drop_off[1] (3.9 .. 3.12) */
	GT_DROP_TSTATE = 3, /* bit 0 of the word at last_holder + drop_off[0] (3.13 ..) */
};
#define GT_LAST_HOLDER 0x18

/* A file with CPython's code in the target; a process may have loaded several. */
struct gt_code {
	__u64 start, size; /* its executable memory; libc mode: whose calls count */
	__u32 switch_cond; /* &gil->switch_cond - &gil->cond; unused where all sites are NOARG */
	__u32 drop_how;    /* enum gt_drop_how */
	__s32 drop_off[2];
};
#define GT_CODES 4 /* a power of two */

/* libc mode: a condition variable that was used from CPython's code, and may be a GIL's. */
struct gt_cand {
	__u64 addr;
	__u64 ts_ns;
	__u32 tid;
	__u8 kind; /* of its site: GT_WAIT, GT_RELEASE (any signal) or GT_YIELD */
	__u8 site;
	__u8 pad[2];
	__u32 shown; /* the thread's id in the recorder's PID namespace */
	__u32 pad2;
};
#define GT_CANDS 8 /* a power of two */

/*
 * What is known of a thread, in one of the places that its id has. The first two are thread ids in
 * the root PID namespace, as are all that BPF compares; 0: none. Where more than GT_SEEN_WAYS live
 * threads share places, they are named, and their waits told, repeatedly.
 */
struct gt_seen {
	__u32 named;    /* its GT_THREAD has been told */
	__u32 waiting;  /* its GT_WAIT has been told or counted as lost, and nothing came since */
	__u32 acquires; /* of the GIL, when it last began or repeated a timed wait */
	__u32 shown;    /* its id in the recorder's PID namespace; set with `named` */
};

/* gt_target.lost_told where what was lost last was no event but the end of a thread. */
#define GT_TELL_ENDS (~0ull)

/*
 * One traced process: a value of the map `targets`, which user space has mapped. Written by user
 * space before `on` is set; after that by BPF only, except `on` itself, which BPF clears at an
 * exec.
 */
struct gt_target {
	__u32 tgid; /* root PID namespace; 0: free, or not known yet */
	__u32 on;   /* the gate: events are recorded while it is set */
	__u32 ncodes;
	__u32 wake_every; /* records between two wake-ups of the reader */
	__u64 pidns_dev;  /* of the target's PID namespace; the device in the kernel's encoding */
	__u64 pidns_ino;
	/*
	 * A recorder in a PID namespace of its own does not know the root's ids. It records targets
	 * of the same namespace, in whose ids all is told; the first hit tells the tgid.
	 */
	__u32 ns_tgid; /* 0: the recorder is in the root PID namespace */
	__u32 pad0;
	struct gt_code codes[GT_CODES];
	/* BPF's own from here on; GILs that are known beforehand may be there before `on` is set.
	 */
	__u64 lost;         /* events that found no room in the ring */
	__u64 lost_told;    /* of these, told to the reader by a GT_LOST; or GT_TELL_ENDS */
	__u64 gap_begin_ns; /* first loss not yet told */
	__u64 foreign;      /* hits on condition variables that are, or may be, no GIL's */
	__u32 unwoken;      /* records since the last wake-up */
	__u32 ngils;
	__u32 ncands;
	__u32 crowded; /* threads have had to share places in `seen` */
	struct gt_cand cands[GT_CANDS];
	struct gt_gil gils[GT_MAX_GILS];
	/* The places of a thread lie in one cache line. */
	struct gt_seen seen[GT_SEEN] __attribute__((aligned(64)));
};

/* What happens to processes that are followed. In a ring of its own. */
enum gt_news_kind {
	GT_NEWS_BORN = 1,     /* forked */
	GT_NEWS_EXECUTED = 2, /* another program */
};

struct gt_news {
	__u64 ts_ns;  /* CLOCK_MONOTONIC */
	__u32 pid;    /* in the recorder's PID namespace */
	__u32 parent; /* likewise; 0: GT_NEWS_EXECUTED */
	__u32 kind;   /* enum gt_news_kind */
	__u32 pad;
};

/* A probe's cookie says whose it is and what it means; code: index in gt_target.codes. */
#define GT_COOKIE(slot, code, kind, site, flags)                                                   \
	((__u64)(slot) << 32 | (__u64)(code) << 24 | (__u64)(flags) << 16 | (__u64)(kind) << 8 |   \
	 (__u64)(site))
#define GT_COOKIE_SLOT(c)  ((__u32)((c) >> 32))
#define GT_COOKIE_CODE(c)  ((__u8)((c) >> 24))
#define GT_COOKIE_FLAGS(c) ((__u8)((c) >> 16))
#define GT_COOKIE_KIND(c)  ((__u8)((c) >> 8))
#define GT_COOKIE_SITE(c)  ((__u8)(c))

/*
 * Stands in gt_hit for the cookie where the kernel gives probes none, or in each copy of it, which
 * has the cookie of its probe instead. Of a slot that no target has.
 */
#define GT_COOKIE_PLACE 0x67696c7472616365ULL

/* Flags of a site (and of its cookie). */
#define GT_SITE_RETURN 0x01 /* a return probe */
#define GT_SITE_NOARG  0x02 /* the first argument does not tell the GIL: 0 (functions, 3.6) */
#define GT_SITE_MATCH  0x04 /* shared code: count only hits on a GIL that is already known */
#define GT_SITE_LIBC   0x08 /* entry of a libc function: caller and argument decide what it is */
#define GT_SITE_STEP   0x10 /* for people: the kernel single-steps this instruction (slow) */
#define GT_SITE_TAKE   0x20 /* a signal of cond in take_gil: a release only by one who holds */

_Static_assert(sizeof(struct gt_rec) == 16, "the wire record is 16 bytes");
_Static_assert(sizeof(struct gt_rec_thread) == 40, "");
_Static_assert(sizeof(struct gt_rec_gil) == 24, "");
_Static_assert(sizeof(struct gt_rec_lost) == 32, "");

#endif
