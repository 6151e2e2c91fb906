// SPDX-License-Identifier: Apache-2.0
#include "pylayout.h"

#include <elf.h>

/*
 * Everything counted here lies before the first pthread type of its struct and holds pointers and
 * ints only, so the distances are the same on x86-64 and AArch64, glibc and musl, debug builds or
 * not. How each row was checked: docs/layouts.md.
 *
 * Who sets it: 3.7, 3.8 one flag for all; 3.9 .. 3.12 the flag of the *waiter's* interpreter, which
 * a holder in another one that shares the GIL never looks at, so the holder's is the one to read;
 * 3.13 .. the holder's own thread state, bit 0 (_PY_GIL_DROP_REQUEST_BIT).
 */
static const struct {
	unsigned int minor;
	struct gt_pylayout layout;
} rows[] = {
	/* _PyRuntime.ceval: gil_drop_request lies before the pending calls, the gil behind them */
	{7, {GT_DROP_RUNTIME, {0x0c - 0x250, 0}}},
	{8, {GT_DROP_RUNTIME, {0x0c - 0x258, 0}}},
	/* tstate->interp, interp->ceval.gil_drop_request */
	{9, {GT_DROP_INTERP, {0x10, 0x4c}}},
	{10, {GT_DROP_INTERP, {0x10, 0x48}}},
	{11, {GT_DROP_INTERP, {0x10, 0x68}}},
	{12, {GT_DROP_INTERP, {0x10, 0x174}}},
	/* tstate->eval_breaker */
	{13, {GT_DROP_TSTATE, {0x18, 0}}},
	{14, {GT_DROP_TSTATE, {0x18, 0}}},
	{15, {GT_DROP_TSTATE, {0x18, 0}}},
};

struct gt_pylayout gt_pylayout_of(unsigned int major, unsigned int minor, uint16_t machine)
{
	static const struct gt_pylayout unknown = {.drop_how = GT_DROP_UNKNOWN};

	if (major != 3 || (machine != EM_X86_64 && machine != EM_AARCH64))
		return unknown;
	for (size_t i = 0; i < GT_ARRAY_SIZE(rows); i++)
		if (rows[i].minor == minor)
			return rows[i].layout;
	return unknown;
}
