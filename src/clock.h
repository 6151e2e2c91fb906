/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h - reads the four clocks at one instant, so that CLOCK_MONOTONIC times can be placed on
 * Unix time and on the Profiler's axis (CLOCK_MONOTONIC_RAW) later. All are the host's, as BPF has
 * them, also where we run in a time namespace: gt_clock_setup() has to be called then, first of
 * all.
 */
#ifndef GT_CLOCK_H
#define GT_CLOCK_H

#include "giltrace/gilfile.h"
#include <sys/types.h>

/* Reads how far our time namespace (Linux 5.6) shifts the clocks. -errno: that cannot be told. */
int gt_clock_setup(void);

/*
 * How far the CLOCK_MONOTONIC of a process is ahead of the host's: as ours, where its time
 * namespace is not known to be another. -errno: it is another, and nothing tells.
 */
int gt_clock_ahead(pid_t pid, int64_t *mono_ns);

uint64_t gt_mono_ns(void);

/*
 * Each clock is read between two readings of CLOCK_MONOTONIC and corrected to their middle; the
 * tightest of several attempts counts. Takes some microseconds.
 */
void gt_clock_sample(struct gil_clock *out);

#endif
