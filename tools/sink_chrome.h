/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sink_chrome.h - Chrome Trace JSON for MindStudio Insight and Perfetto, also as a part of somebody
 * else's (a Profiler's) array. docs/trace.md is its description.
 */
#ifndef GT_SINK_CHROME_H
#define GT_SINK_CHROME_H

#include "jsonw.h"
#include "sink.h"

struct gt_chrome_opts {
	/* Is taken from every time; what is not behind it is drawn 1 ns behind it. 0: none. */
	uint64_t base_ns;
	uint8_t flows; /* arrows from a release to the acquire that a wait ended with */
	/*
	 * A part of another array: no brackets, events separated by ",\n", nothing before the first
	 * and behind the last.
	 */
	uint8_t fragment;
	/*
	 * Inline: rows right above those of the same threads in a Profiler's process. No
	 * process_... metadata are written, process.pid is the Profiler's, a thread's row gets
	 * tid_base + tid, its sort index is sort_index(ctx, tid) (NULL or -1: tid), and "GIL "
	 * stands before its name.
	 */
	uint8_t inline_rows;
	uint32_t tid_base; /* 0 unless inline */
	int64_t (*sort_index)(const void *ctx, uint32_t tid);
	const void *ctx;
};

/* Writes through *w, which is borrowed and must outlive the sink; finish() flushes it. -ENOMEM. */
int gt_chrome_create(struct gt_jsonw *w, const struct gt_chrome_opts *opts, struct gt_sink **out);

/* Whether an event has been written, ever. Valid until finish(). */
int gt_chrome_any(const struct gt_sink *s);

#endif
