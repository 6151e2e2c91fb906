/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flight.h - a flight recorder: the blocks of one process's recording of the last SECONDS, in
 * memory, and what is known from those before; written as a file when somebody asks for it
 * (docs/flight-recorder.md). Allocates by the block, not by the event. Used by one thread.
 */
#ifndef GT_FLIGHT_H
#define GT_FLIGHT_H

#include "gilfile_write.h"
#include "standing.h"

struct gt_flight_opts {
	uint64_t window_ns; /* what is older is dropped */
	uint64_t memory;    /* bytes for blocks; where they are more, the window is shorter */
	/* Limits: a hold, a wait as long as that is told; 0: none. */
	uint64_t hold_ns, wait_ns;
};

struct gt_flight;

/* The options are copied. NULL: out of memory. */
struct gt_flight *gt_flight_new(const struct gt_flight_opts *opts);
void gt_flight_free(struct gt_flight *f);

/*
 * Takes a copy of a block (gt_gilfile_keep_fn); ctx is the flight recorder. Drops old ones where
 * there are too many. -ENOMEM: not even then is there memory for it.
 */
int gt_flight_keep(void *ctx, const struct gt_block *b, const uint8_t *payload);

/*
 * Drops what is too old. Returns how many holds and waits have exceeded their limit since the last
 * call, and the first of them. Those that last count, once, when they exceed it.
 */
size_t gt_flight_tick(struct gt_flight *f, uint64_t mono_ns, struct gt_stretch *first);

struct gt_flight_stats {
	uint64_t records, bytes; /* in memory */
	uint64_t span_ns;        /* from the first to the last of them */
	uint64_t squeezed;       /* blocks dropped before their time, as the memory was used up */
};

void gt_flight_stats(const struct gt_flight *f, struct gt_flight_stats *out);

/* How a window is to be written, and why. */
struct gt_flight_cut {
	const char *trigger; /* for META: "hold", "wait", "signal", "request", "end" */
	const struct gt_stretch *exceeded; /* what exceeded its limit; NULL: nothing */
	enum gil_end_reason reason;
	uint64_t end_ns;               /* of the window */
	const struct gil_clock *clock; /* a sample for the end; NULL: it is kept already */
	uint64_t paused_ns;            /* since when it is paused; 0: it is not */
	/* Lost by the ring, and told by no record so far; and since when. */
	uint64_t untold, gap_begin_ns;
	uint64_t suppressed; /* triggers since the last window that were left out */
	/* Called between blocks: for other work, gt_flight_keep() included. NULL: there is none. */
	void (*meanwhile)(void *ctx);
	void *ctx;
};

struct gt_flight_written {
	uint64_t events, lost, bytes;
	uint64_t span_ns; /* so long is the window */
	uint8_t squeezed; /* it would be longer, had there been more memory */
};

/*
 * Writes and finishes a file, which is taken over, also on failure. What is in memory stays there.
 * Returns the file's first error, or -ENOMEM.
 */
int gt_flight_write(struct gt_flight *f, struct gt_gilfile *out, const struct gt_flight_cut *cut,
		    struct gt_flight_written *written);

#endif
