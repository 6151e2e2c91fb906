/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profclock.h - places a recording's CLOCK_MONOTONIC on the time axis of a Profiler's trace.
 *
 * By the best that there is (docs/clock.md):
 *   start_info    Unix time and CLOCK_MONOTONIC_RAW at the Profiler's start: axis = RAW + D
 *   end_info      the same at its end
 *   database      its table SESSION_TIME_INFO
 *   trace         nothing but the trace: its times are Unix time, read from CLOCK_REALTIME
 *   none          Unix time by the recording's own samples
 *
 * Used by one thread: placing remembers where it was.
 */
#ifndef GT_PROFCLOCK_H
#define GT_PROFCLOCK_H

#include "base.h"
#include "clockline.h"
#include "giltrace/gilfile.h"
#include "profiler.h"
#include "profstamps.h"

enum gt_clock_method {
	GT_CLOCK_START_INFO,
	GT_CLOCK_END_INFO,
	GT_CLOCK_DATABASE,
	GT_CLOCK_TRACE,
	GT_CLOCK_NONE,
};

#define GT_CLOCK_ERROR_UNKNOWN UINT64_MAX

struct gt_profclock {
	enum gt_clock_method method;
	uint8_t raw;       /* offset_ns is to be added to RAW, not to MONOTONIC */
	int64_t offset_ns; /* D */
	uint64_t error_ns; /* bound of a placed time's error, all that is known together */
	const gil_reader *r;
	struct gt_clock_segment segment; /* the one used last */
};

/* Words such as "start_info". Static. */
const char *gt_clock_method_text(enum gt_clock_method m);

/* "start_info +-1 us": the method and its error. */
#define GT_CLOCK_TEXT_MAX 64
void gt_clock_text(const struct gt_profclock *c, char buf[GT_CLOCK_TEXT_MAX]);

/*
 * The best way for this pair; what is there but cannot be used is logged with the reason.
 * The reader must live as long as *out.
 */
void gt_profclock_choose(const struct gt_profiler *p, const struct gt_stamps *st,
			 const gil_reader *r, struct gt_profclock *out);

/* A gt_place_fn: ctx is a struct gt_profclock. Never 0; never goes back where mono_ns does not. */
uint64_t gt_profclock_place(const void *ctx, uint64_t mono_ns);

/* Where the recording lies on the axis. */
struct gt_range {
	uint64_t begin_ns, end_ns;
};

struct gt_range gt_profclock_range(const struct gt_profclock *c);

/* Does it share an instant with the trace? A trace without times shares it with all. */
int gt_profclock_overlaps(const struct gt_profclock *c, const struct gt_proftrace *t);

#endif
