/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.h - from the records of one process's ring to its .gil file: widens records to file
 * events, keeps the names of its threads fresh, samples the clocks, and does the statistics.
 * One collector per process and file, owned by the session and used by its thread.
 */
#ifndef GT_COLLECT_H
#define GT_COLLECT_H

#include "gilfile_write.h"
#include "gt_abi.h"
#include "proc.h"
#include "pynames.h"
#include "selfcheck.h"
#include "snapshot.h"

struct gt_collector;

struct gt_collect_stats {
	uint64_t events;    /* in the file, or in its block in memory */
	uint64_t lost;      /* no room in the ring */
	uint64_t unwritten; /* the file could not take them */
	uint64_t bytes;
	uint32_t threads;
	uint32_t malformed; /* records of the ring with a size that their kind does not have */
	struct gt_selfcheck_gil check; /* the sum over all GILs; gt_collect_finish() only */
	uint64_t unchecked;
};

/* Takes over the file; `p` must outlive the collector. NULL: out of memory, the file is closed. */
struct gt_collector *gt_collect_new(struct gt_gilfile *file, const struct gt_proc *p);

/* The tracer's callback (gt_record_fn); ctx is the collector. */
void gt_collect_record(void *ctx, const struct gt_rec *rec, size_t size);

/* A GIL that is known before any event of it: its index and the address of its cond. */
void gt_collect_gil(struct gt_collector *c, uint8_t index, uint64_t cond, uint64_t mono_ns);

/*
 * First of all, where the process was not recorded from the start: it was there from
 * begin_mono_ns on, which is before mono_ns.
 */
void gt_collect_late(struct gt_collector *c, uint64_t begin_mono_ns, uint64_t mono_ns);

/* Are there threads whose name in the interpreter has not been looked for yet? */
int gt_collect_wants_names(const struct gt_collector *c);

/*
 * Names in the interpreter, by ns_tid; written where they are new. Returns how many threads have
 * one. wants_names() is 0 then, until there are new threads.
 */
uint32_t gt_collect_names(struct gt_collector *c, const struct gt_pyname *names, size_t n,
			  uint64_t mono_ns);

/*
 * What the process was in when recording began, as read right after the gate was opened; to be
 * called after a reading of the ring that followed. Threads that hold or wait get a GIL_BEFORE
 * record unless their own events tell it; a waiting one as soon as the address of its GIL and its
 * first event are there, or at the end. `threads` is not kept. 0 or -ENOMEM.
 */
int gt_collect_before(struct gt_collector *c, uint64_t start_mono_ns,
		      const struct gt_snapshot_gils *gils, const struct gt_snapshot_thread *threads,
		      size_t n);

/*
 * A named instant of the process, or of its thread with that id in its own PID namespace (0: none,
 * or it has no such thread). mono_ns is brought into the time from the start of the recording to
 * now. "" is ignored.
 */
void gt_collect_mark(struct gt_collector *c, uint64_t mono_ns, uint32_t ns_tid, const char *name);

/*
 * The gate was shut from begin_mono_ns to end_mono_ns, and the ring has been read since it was
 * shut, to its last loss (gt_tracer_cut()): to be called before it is opened again, or before
 * gt_collect_finish(). Events that were under way when it was shut keep their times; the pause
 * begins behind them. Those that come later, though their time is before end_mono_ns, count as
 * lost.
 */
void gt_collect_paused(struct gt_collector *c, uint64_t begin_mono_ns, uint64_t end_mono_ns);

/* More META, such as what was found out at the end. Returns the file's first error. */
int gt_collect_meta(struct gt_collector *c, const char *const (*pairs)[2], size_t n);

/*
 * Between readings of the ring: fetches the names of threads that are new, and seals the block
 * when it is a second old. Returns the file's first error.
 */
int gt_collect_tick(struct gt_collector *c, uint64_t mono_ns);

/* Seals the block, however young it is. Returns the file's first error. */
int gt_collect_seal(struct gt_collector *c);

/* Events that the ring has lost (lost_total by the tracer) and no record has told of so far. */
uint64_t gt_collect_untold(const struct gt_collector *c, uint64_t lost_total);

/* Writes a clock sample. Returns the file's first error. */
int gt_collect_clock(struct gt_collector *c, const struct gil_clock *sample);

/*
 * After the last reading of the ring: a loss that no record has told of (lost_total and
 * gap_begin_ns from gt_tracer_lost()), the threads' last names, what the self-check found (META
 * check.*), END. stop_mono_ns is when the
 * gate was shut; nothing in the file is later, save hits that were under way. Frees; fills *stats;
 * returns the first error of the file's life.
 */
int gt_collect_finish(struct gt_collector *c, enum gil_end_reason reason, uint64_t stop_mono_ns,
		      uint64_t lost_total, uint64_t gap_begin_ns, struct gt_collect_stats *stats);

/* lost_total: as the tracer counts it now. */
void gt_collect_stats(const struct gt_collector *c, uint64_t lost_total,
		      struct gt_collect_stats *out);

#endif
