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

struct gt_collector;

struct gt_collect_stats {
	uint64_t events;    /* in the file, or in its block in memory */
	uint64_t lost;      /* no room in the ring */
	uint64_t unwritten; /* the file could not take them */
	uint64_t bytes;
	uint32_t threads;
	uint32_t malformed; /* records of the ring with a size that their kind does not have */
};

/* Takes over the file; `p` must outlive the collector. NULL: out of memory, the file is closed. */
struct gt_collector *gt_collect_new(struct gt_gilfile *file, const struct gt_proc *p);

/* The tracer's callback (gt_record_fn); ctx is the collector. */
void gt_collect_record(void *ctx, const struct gt_rec *rec, size_t size);

/*
 * Between readings of the ring: fetches the names of threads that are new, and seals the block
 * when it is a second old. Returns the file's first error.
 */
int gt_collect_tick(struct gt_collector *c, uint64_t mono_ns);

/* Writes a clock sample. Returns the file's first error. */
int gt_collect_clock(struct gt_collector *c, const struct gil_clock *sample);

/*
 * After the last reading of the ring: a loss that no record has told of (lost_total and
 * gap_begin_ns from gt_tracer_lost()), the threads' last names, END. stop_mono_ns is when the
 * gate was shut; nothing in the file is later, save hits that were under way. Frees; fills *stats;
 * returns the first error of the file's life.
 */
int gt_collect_finish(struct gt_collector *c, enum gil_end_reason reason, uint64_t stop_mono_ns,
		      uint64_t lost_total, uint64_t gap_begin_ns, struct gt_collect_stats *stats);

/* lost_total: as the tracer counts it now. */
void gt_collect_stats(const struct gt_collector *c, uint64_t lost_total,
		      struct gt_collect_stats *out);

#endif
