/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bounded.h - a call that may hang for ever, such as a read of another process's memory: its pages
 * may lie in a file system, or behind a userfaultfd, that somebody does not serve. It is made by a
 * thread that is left to itself when the time is up, and ends with the program. No state.
 */
#ifndef GT_BOUNDED_H
#define GT_BOUNDED_H

#include "base.h"

/*
 * Calls fn(arg). arg must be from malloc(). 0: it has returned, and arg is the caller's again.
 * -ETIMEDOUT: it has not, and arg is given up; whatever fn uses must be in there. -errno: no thread
 * could be made, and fn was not called. meanwhile(ctx), if not NULL, is called every some
 * milliseconds until then.
 */
int gt_bounded_call(void (*fn)(void *arg), void *arg, unsigned int timeout_ms,
		    void (*meanwhile)(void *ctx), void *ctx);

#endif
