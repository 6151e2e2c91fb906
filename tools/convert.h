/* SPDX-License-Identifier: Apache-2.0 */
/*
 * convert.h - one recording through a timeline into a sink: ids, names, time axis, what there is to
 * say about it. Used by one thread.
 */
#ifndef GT_CONVERT_H
#define GT_CONVERT_H

#include "inputs.h"
#include "rows.h"
#include "sink.h"

/* A place on the sink's axis for a CLOCK_MONOTONIC time of the recording. Never 0. */
typedef uint64_t (*gt_place_fn)(const void *ctx, uint64_t mono_ns);

struct gt_convert_opts {
	enum gt_ids ids;
	gt_place_fn place; /* NULL: Unix time by the recording's own clock samples */
	const void *place_ctx;
	uint64_t pid; /* to be shown for the process; 0: its own, or a number that no process has */
	uint8_t quiet; /* of several passes, one says what there is to say */
	void (*progress)(void *ctx, unsigned int permille); /* of this input; NULL: nobody asks */
	void *progress_ctx;
};

enum gt_outcome { GT_WHOLE, GT_LEFT_OUT, GT_UNUSABLE, GT_OUTCOMES };

/*
 * in->list[me] into the sink, from process() to end(). Returns an outcome (what was left out and
 * why is logged), or -errno where the sink or memory failed and nothing can go on.
 */
int gt_convert(struct gt_inputs *in, size_t me, const struct gt_convert_opts *opts,
	       struct gt_sink *sink);

#endif
