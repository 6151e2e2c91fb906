/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flight_private.h - what flight.c (what is kept) and flight_write.c (how it becomes a file) share.
 */
#ifndef GT_FLIGHT_PRIVATE_H
#define GT_FLIGHT_PRIVATE_H

#include "flight.h"
#include "gilfile_codec.h"

struct gt_kept {
	struct gt_kept *next;
	struct gt_block b;
	uint8_t payload[]; /* and GT_DECODE_SLACK */
};

struct gt_kept_list {
	struct gt_kept *first, *last;
};

struct gt_flight {
	struct gt_flight_opts opts;
	struct gt_kept_list about;  /* META and SITES: never dropped */
	struct gt_kept_list blocks; /* EVENTS and CLOCK */
	struct gt_kept *unwatched;  /* the first one that no limit was applied to */
	struct gt_kept *cursor;     /* it is being written, and stays */
	uint64_t bytes;             /* of blocks */
	uint64_t records;           /* in them */
	/* Of what was dropped: */
	uint64_t folded_ns;       /* the last time; 0: nothing was */
	uint64_t squeezed;        /* how many blocks before their time */
	uint64_t squeezed_ns;     /* the last time of those */
	struct gt_standing front; /* what it says */
	/* Limits: */
	struct gt_standing head; /* what all says */
	struct gt_stretch exceeded;
	size_t n_exceeded;
	uint64_t window; /* the number of the one that is being written */
};

/* Calls fn for each event of a block, until that returns not 0, which is returned. */
typedef int (*gt_event_fn)(void *ctx, const struct gil_event *ev);
int gt_kept_events(const struct gt_kept *k, gt_event_fn fn, void *ctx);

#endif
