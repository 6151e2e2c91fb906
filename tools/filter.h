/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filter.h - a sink in front of another that lets through what is asked for: processes, threads, a
 * range of time, slices of a least length. What is left out is counted, by kind, with its time.
 *
 * A slice that reaches into the range is let through whole or, with .clip, cut to it; its own
 * length decides whether it is too short, and what is cut off is counted as time left out. The
 * parts of a wait that is cut (GT_OPEN_CLIPPED) are still those of all of it. A wait's .from_tid
 * becomes 0 where the hold that it tells of is not let through, so that nobody draws an arrow from
 * it. A mark is let through if it lies in the range and its thread is asked for; those of the
 * process, which have none, and pauses do not care for threads. Threads of which nothing is let
 * through are not handed on. Processes are, whatever the range, into which the times of their
 * recordings are put; so are pairs and ends, as they are: totals are of everything.
 *
 * It owns the sink behind it.
 */
#ifndef GT_FILTER_H
#define GT_FILTER_H

#include "sink.h"

struct gt_filter_opts {
	uint64_t min_ns;         /* shorter slices are left out; 0: none */
	uint64_t from_ns, to_ns; /* of the axis of the sink, from <= t < to; to_ns 0: no end */
	const uint32_t *pids;    /* as they are shown */
	size_t npids;            /* 0: all */
	const uint32_t *tids;
	size_t ntids; /* 0: all */
	uint8_t clip;
};

struct gt_filter_stats {
	uint64_t spans[GT_SPAN_KINDS], ns[GT_SPAN_KINDS]; /* left out */
	uint64_t gaps, marks, threads, processes;         /* left out; pauses are among the gaps */
	uint64_t let_through;                             /* slices */
};

/* *opts is copied, what it points to must live as long as the sink. -ENOMEM: `behind` is the
 * caller's still. *stats, where not NULL, is kept up to date until finish(). */
int gt_filter_create(const struct gt_filter_opts *opts, struct gt_sink *behind,
		     struct gt_filter_stats *stats, struct gt_sink **out);

/* Logs what was left out; `of` stands before it, NULL: nothing. */
void gt_filter_report(const struct gt_filter_stats *st, const char *of);

static inline int gt_filter_wanted(const struct gt_filter_opts *o)
{
	return o->min_ns || o->from_ns || o->to_ns || o->npids || o->ntids || o->clip;
}

#endif
