/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outputs.h - what gil2trace writes by its options, but for joint views: the trace, the report, the
 * summary, all filled by one pass. Logs its errors. Used by one thread.
 */
#ifndef GT_OUTPUTS_H
#define GT_OUTPUTS_H

#include "options.h"
#include "outfile.h"
#include "sink.h"
#include "threadnames.h"

struct gt_outputs;

struct gt_outputs_opts {
	const struct gt_options *o;
	const struct gt_inputs *inputs;
	struct gt_outset *outs;
	struct gt_threadnames *names; /* for parts: complete before the first slice; NULL: none */
	uint64_t base_ns;             /* of the times in the trace */
	struct gt_filter_opts filter; /* with its range */
};

/* Opens what has a name by now. *opts is copied. -errno. */
int gt_outputs_open(const struct gt_outputs_opts *opts, struct gt_outputs **out);

/* To be filled, not to be finished. */
struct gt_sink *gt_outputs_sink(struct gt_outputs *o);

/*
 * Completes what can be kept, prints the summary, and frees it all. err: of the conversion; usable:
 * whether there was something to convert. Returns an exit status.
 */
int gt_outputs_end(struct gt_outputs *o, int err, int usable);

#endif
