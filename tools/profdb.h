/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profdb.h - the one thing asked of a Profiler's SQLite database: when its session began and ended,
 * in Unix time (table SESSION_TIME_INFO, columns startTimeNs and endTimeNs). Opened for reading
 * only, as a file that nobody changes; a hostile one costs bounded time and memory. No state.
 */
#ifndef GT_PROFDB_H
#define GT_PROFDB_H

#include "base.h"

/* 0, or -errno with words in `why`: -ENOTSUP built without SQLite, -ENODATA no such row. */
int gt_profdb_session(const char *path, int64_t *start_ns, int64_t *end_ns, char *why,
		      size_t why_size);

#endif
