/* SPDX-License-Identifier: Apache-2.0 */
/*
 * summing.h - at the end of a run: a brief summary of what was just recorded. What is read are the
 * files that were written, whatever stands under their names by now, in a child that has no
 * privileges (jail.h) and cannot write them, within limits: nothing depends on whether it succeeds.
 * Used by one thread.
 */
#ifndef GT_SUMMING_H
#define GT_SUMMING_H

#include <stdio.h>

#include "base.h"

#define GT_SUMMING_FILES 64 /* that are kept open; of more, those with the most events */

struct gt_summing;

int gt_summing_new(struct gt_summing **out); /* -ENOMEM */
void gt_summing_free(struct gt_summing *s);

/*
 * Another file, complete; it is opened once more, for reading, so the descriptor stays the
 * caller's. What cannot be kept is left out, and so are those that somebody has removed meanwhile:
 * the disk gets its space back.
 */
void gt_summing_add(struct gt_summing *s, int fd, uint64_t events, const char *dir,
		    const char *file);

/*
 * Prints it on `out`. What comes through stop_fd, a signalfd, from now on (SIGINT, SIGTERM, SIGHUP,
 * SIGQUIT) skips it. Says so where there is none, and why.
 */
void gt_summing_print(struct gt_summing *s, int stop_fd, FILE *out);

#endif
