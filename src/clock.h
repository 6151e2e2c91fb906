/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h - reads the four clocks at one instant, so that CLOCK_MONOTONIC times can be placed on
 * Unix time and on the Profiler's axis (CLOCK_MONOTONIC_RAW) later. No state.
 */
#ifndef GT_CLOCK_H
#define GT_CLOCK_H

#include "giltrace/gilfile.h"

uint64_t gt_mono_ns(void);

/*
 * Each clock is read between two readings of CLOCK_MONOTONIC and corrected to their middle; the
 * tightest of several attempts counts. Takes some microseconds.
 */
void gt_clock_sample(struct gil_clock *out);

#endif
