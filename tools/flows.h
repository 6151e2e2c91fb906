/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flows.h - which arrows a trace may have: from the hold that a thread let go to the hold of the
 * thread that had waited for it. An arrow needs both in the same file, and they come in any order:
 * a hold is handed on when more is known of its release, which may be long after. An arrow of which
 * an end never comes (it was filtered out, or lies in another file) is dropped.
 *
 * Memory grows with threads. Private to sink_chrome.c; used by one thread.
 */
#ifndef GT_FLOWS_H
#define GT_FLOWS_H

#include "sink.h"

struct gt_flow {
	uint64_t from_ns, to_ns; /* where its ends are drawn: in a hold, at the start of another */
	uint32_t from_tid, to_tid;
};

struct gt_flows;

int gt_flows_create(struct gt_flows **out); /* -ENOMEM */
void gt_flows_free(struct gt_flows *f);

/* Another process, or another file. */
void gt_flows_begin(struct gt_flows *f);

/* A GT_SPAN_TAKE of that process. -ENOMEM, -E2BIG. */
int gt_flows_take(struct gt_flows *f, const struct gt_span *take);

/*
 * A GT_SPAN_HOLD that has been drawn. Returns how many arrows it completes: one that ends at it,
 * one that begins in it; or -ENOMEM, -E2BIG.
 */
int gt_flows_hold(struct gt_flows *f, const struct gt_span *hold, struct gt_flow out[2]);

#endif
