/* SPDX-License-Identifier: Apache-2.0 */
/*
 * joint.h - recordings and Profiler traces in one view: which belongs to which, on the Profiler's
 * own time axis, as a folder that MindStudio Insight imports, or merged into one JSON.
 */
#ifndef GT_JOINT_H
#define GT_JOINT_H

#include "filter.h"
#include "inputs.h"
#include "outfile.h"
#include "profiler.h"
#include "rows.h"

struct gt_joint_opts {
	struct gt_outset *outs;
	/*
	 * A file, if it ends with .json or .json.gz (one Profiler, and merged), else a folder. Ends
	 * it with "/", a trace without its Profiler's folder is laid out for Insight, too.
	 */
	const char *output;
	uint8_t merge;       /* one JSON for each Profiler */
	uint8_t inline_rows; /* rows beside the Profiler's threads, not a lane of its own */
	uint8_t clip;        /* GIL slices are cut to the Profiler's window */
	uint8_t flows, gzip;
	enum gt_ids ids;
	/*
	 * Times are on the Profiler's axis; those that are .._relative are Unix times, made of a
	 * recording's start, and are moved to where the axis has that start.
	 */
	struct gt_filter_opts filter;
	uint8_t from_relative, to_relative;
};

/*
 * Writes everything that fits together. Returns an exit status of gil2trace: 0 whole, 1 nothing
 * usable, 3 something was left out (each logged): a recording without a Profiler or the other way
 * round, ranges of time that do not overlap, a damaged file.
 */
int gt_joint(const struct gt_joint_opts *o, struct gt_inputs *in, struct gt_profilers *p);

#endif
