/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profstamps.h - the times at which a Profiler has read its clocks, from the small files of its
 * folder. Integers as they stand there, never through a double. Logs what is there but cannot be
 * used.
 */
#ifndef GT_PROFSTAMPS_H
#define GT_PROFSTAMPS_H

#include "profiler.h"

/* ns, all below GIL_TIME_MAX; 0: not known */
struct gt_stamps {
	int64_t begin_unix_ns, begin_raw_ns; /* PROF_<..>/host/start_info, both or none */
	int64_t end_unix_ns, end_raw_ns;     /* PROF_<..>/host/end_info, both or none */
	/* profiler_info's end_info, both or none: its CLOCK_MONOTONIC, not RAW */
	int64_t session_unix_ns, session_mono_ns;
	int64_t start_raw_ns;     /* RAW at about the start: host_start.log, or profiler_info */
	int64_t session_start_ns; /* Unix time at the start: the database's, if there is no
				     start_info */
	uint8_t npu;              /* its session was one with an NPU */
};

/* Of one Profiler, once: what it says, it says each time. */
void gt_stamps_read(const struct gt_profiler *p, struct gt_stamps *out);

#endif
