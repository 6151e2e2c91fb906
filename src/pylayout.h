/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pylayout.h - where a version of CPython keeps its drop request (gil_drop_request, or a bit of the
 * eval breaker), as seen from gil->cond: by that a release is known to be forced or voluntary.
 * From the sources of 3.7 .. 3.15; the same on x86-64 and AArch64, glibc and musl, because only
 * what lies before the first pthread type counts, or because a row says otherwise.
 */
#ifndef GT_PYLAYOUT_H
#define GT_PYLAYOUT_H

#include "base.h"
#include "gt_abi.h"

struct gt_pylayout {
	enum gt_drop_how drop_how;
	int32_t drop_off[2]; /* as struct gt_target wants them */
};

/* GT_DROP_UNKNOWN where the version, or its layout on that ELF machine, is not known. */
struct gt_pylayout gt_pylayout_of(unsigned int major, unsigned int minor, uint16_t machine);

#endif
