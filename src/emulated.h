/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emulated.h - where a probe is cheap. The kernel emulates (x86) or simulates (AArch64) some
 * instructions at a probe; all others it runs out of line under single-step, which costs a second
 * trap: several times as much.
 *
 * Works on bytes that may be hostile: all work is bounded. No state.
 */
#ifndef GT_EMULATED_H
#define GT_EMULATED_H

#include "image.h"

/*
 * Does every kernel from 5.10 on emulate the instruction at this address? 1 / 0. (Newer ones
 * emulate more, e.g. long nops from 6.18 on.)
 */
int gt_emulated_at(const struct gt_image *img, uint64_t vaddr);

/*
 * Where to put the entry and the return probe of the function fn->start .. fn->end (fn->cold is
 * not looked at): the first emulated instruction behind the entry, reached in a straight line,
 * before which nothing has touched the stack pointer, the return address or the first argument,
 * and into which the function does not jump back. The entry itself where there is none.
 */
uint64_t gt_emulated_point(const struct gt_image *img, const struct gt_range *fn);

#endif
