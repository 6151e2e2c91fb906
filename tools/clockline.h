/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clockline.h - from one of the host's clocks to another by the samples of a recording: a line from
 * sample to sample. Integers only; exact at the samples, rounded to the nearest ns between them.
 *
 * Before the first sample and behind the last one the line goes on as the second next to it has it
 * (1 s, or what there is, but 100 ms at least); where that would be more than 1000 ppm, or there is
 * only one sample, both clocks run alike. Pure functions on a reader, which must have a sample.
 */
#ifndef GT_CLOCKLINE_H
#define GT_CLOCKLINE_H

#include "base.h"
#include "giltrace/gilfile.h"

enum gt_clock_id { GT_CLOCK_ID_MONO, GT_CLOCK_ID_RAW, GT_CLOCK_ID_UNIX };

/* A piece of the line: y = x + delta0 + (x - x0) * num / den for from <= x < to. */
struct gt_clock_segment {
	uint64_t from, to; /* 0, 0: none */
	uint64_t x0;
	int64_t delta0; /* y - x at x0 */
	int64_t num;
	uint64_t den;
};

void gt_clock_segment(const gil_reader *r, enum gt_clock_id x, enum gt_clock_id y, uint64_t at,
		      struct gt_clock_segment *out);

/* y - x at `at`, which is below GIL_TIME_MAX. */
int64_t gt_clock_delta(const struct gt_clock_segment *s, uint64_t at);

/* The distance y - x at the time where x shows `at`. */
int64_t gt_clock_distance(const gil_reader *r, enum gt_clock_id x, enum gt_clock_id y, uint64_t at);

/* Do the samples of it never go back? */
int gt_clock_is_steady(const gil_reader *r, enum gt_clock_id id);

/* How much faster or slower than RAW the kernel let MONOTONIC run at most, in ppb (1e-9). */
uint64_t gt_clock_rate(const gil_reader *r);

uint64_t gt_clock_drift(uint64_t ns, uint64_t ppb); /* how far that leads in a time */

/*
 * Bound of the error of MONOTONIC to RAW within from .. to (MONOTONIC): of the samples themselves,
 * of the line between them where it bends, and beyond them.
 */
uint64_t gt_clock_error(const gil_reader *r, uint64_t from, uint64_t to);

#endif
