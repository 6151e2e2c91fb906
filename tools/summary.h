/* SPDX-License-Identifier: Apache-2.0 */
/*
 * summary.h - the numbers of one or more recordings: a sink that collects them, and their output as
 * text for people and as JSON for programs. Memory grows with threads and pairs of them, not with
 * slices or marks. Percentiles come from histograms: exact below GT_HIST_EXACT ns, above with an
 * error of at most 1/64 of the value (upwards); the greatest is exact.
 *
 * The collected numbers may be read once the sink is finished. Used by one thread.
 */
#ifndef GT_SUMMARY_H
#define GT_SUMMARY_H

#include <stdio.h>

#include "jsonw.h"
#include "sink.h"

#define GT_SUMMARY_BUCKETS 60  /* of the utilisation over time, for each process */
#define GT_SUMMARY_LONGEST 10  /* holds and waits kept for each process .. */
#define GT_SUMMARY_MARKS   100 /* .. and marks, the earliest */

struct gt_summary;

/* The summary belongs to the caller, outlives its sink, and is filled by it. -ENOMEM. */
int gt_summary_create(struct gt_summary **out);
void gt_summary_free(struct gt_summary *s);

/* A sink that fills it; its finish() frees only itself. One at a time. -ENOMEM. */
int gt_summary_sink(struct gt_summary *s, struct gt_sink **out);

/* For people. brief: a few lines for each process (the end of a giltrace run). 0 or -errno. */
int gt_summary_text(const struct gt_summary *s, FILE *out, int brief);

/* One JSON object, described in docs/summary.md; also inside the HTML report. Errors are w's. */
void gt_summary_json(const struct gt_summary *s, struct gt_jsonw *w);

#endif
