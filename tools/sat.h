/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sat.h - sums of times and counts out of a file, which may be absurd: what does not fit stays at
 * the greatest number, and never comes out small. No state.
 */
#ifndef GT_SAT_H
#define GT_SAT_H

#include "base.h"

static inline uint64_t gt_sat_add(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

#endif
