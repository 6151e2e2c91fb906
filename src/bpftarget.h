/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpftarget.h - what the BPF program has to know of a target's CPythons. No state.
 */
#ifndef GT_BPFTARGET_H
#define GT_BPFTARGET_H

#include "pytarget.h"

/* Fills in the codes, and the index of a GIL that is not told by an address. */
void gt_bpftarget_describe(struct gt_target *target, const struct gt_pytarget *py);

/* What was under way in its threads and GILs is not known any more. */
void gt_bpftarget_forget(struct gt_target *target);

#endif
