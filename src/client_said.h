/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_said.h - what giltrace, or what was to start it, has said on its standard error: kept, and
 * looked through for the reason of a failure. The first 16 KiB are kept, without control
 * characters.
 */
#ifndef GT_CLIENT_SAID_H
#define GT_CLIENT_SAID_H

#include "base.h"

struct gt_said {
	size_t len;
	size_t begun;     /* so much of it had been said when the probes were live */
	char text[16384]; /* lines, with a NUL behind them */
};

/* Reads all that there is now. 0: nothing will come any more; 1. */
int gt_said_read(struct gt_said *s, int fd);

/*
 * The lines from `from` on that tell of a failure, without the name of the program in front of
 * them: warnings only if there is nothing else. "": there are none.
 */
void gt_said_failure(const struct gt_said *s, size_t from, char *text, size_t size);

/* Is any line giltrace's own, and not another program's? */
int gt_said_by_giltrace(const struct gt_said *s);

#endif
