/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_error.h - what giltrace_error() returns: the words of the last failure, each thread its
 * own. Nothing is allocated, so that a want of memory has words, too.
 */
#ifndef GT_CLIENT_ERROR_H
#define GT_CLIENT_ERROR_H

#include "base.h"

#define GT_FAIL_MAX 2048 /* bytes of the words, with their NUL; more is cut */

/* Keeps the words and returns err, a negative errno. */
int gt_fail(int err, const char *fmt, ...) GT_PRINTF(2, 3);

/* Of this thread, "" if nothing has failed. */
const char *gt_fail_text(void);

#endif
