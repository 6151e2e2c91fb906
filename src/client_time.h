/* SPDX-License-Identifier: Apache-2.0 */
/* client_time.h - deadlines, in milliseconds of CLOCK_MONOTONIC. */
#ifndef GT_CLIENT_TIME_H
#define GT_CLIENT_TIME_H

#include <limits.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t gt_mono_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Rounded up: nothing is over before its time. */
static inline int64_t gt_deadline(uint32_t ms)
{
	return (int64_t)((gt_mono_ns() + 999999) / 1000000) + ms;
}

/* What is left of it, for poll(2); 0: it has passed. */
static inline int gt_left(int64_t deadline)
{
	int64_t left = deadline - (int64_t)(gt_mono_ns() / 1000000);

	if (left <= 0)
		return 0;
	return left < INT_MAX ? (int)left : INT_MAX;
}

#endif
