/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - the command line of gil2trace: what it says, checked for what does not fit together.
 * Numbers are read as integers. Used once, at the start.
 */
#ifndef GT_OPTIONS_H
#define GT_OPTIONS_H

#include "filter.h"
#include "log.h"
#include "rows.h"

/* Exit statuses. */
enum { EXIT_WHOLE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_LEFT_OUT = 3 };

enum gt_summary_form { GT_SUMMARY_NONE, GT_SUMMARY_TEXT, GT_SUMMARY_JSON };

/* Of --from and --to. */
struct gt_moment {
	uint64_t ns; /* Unix time or .relative: since the start of the earliest recording */
	uint8_t given, relative;
};

struct gt_options {
	const char **inputs, **profilers; /* in argv */
	size_t ninputs, nprofilers;
	const char *output; /* NULL: by the inputs */
	const char *html;   /* NULL: none */
	uint64_t part_bytes;
	struct gt_moment from, to;
	uint32_t *pids, *tids;
	struct gt_filter_opts filter; /* all but the range */
	enum gt_summary_form summary;
	enum gt_ids ids;
	enum gt_log_level log;
	uint8_t trace; /* one is to be written, not as a joint view */
	uint8_t flows, relative, gzip, per_rank;
	uint8_t merge, inline_rows, clip; /* with .profilers */
};

/* Ends the program where the command line is wrong, or asks for help. -ENOMEM. */
int gt_options_parse(struct gt_options *o, int argc, char **argv);
void gt_options_free(struct gt_options *o);

#endif
