/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_outcome.h - how giltrace has ended, as an errno and words for a person: what it has said
 * itself if it has, else what its status means.
 */
#ifndef GT_CLIENT_OUTCOME_H
#define GT_CLIENT_OUTCOME_H

#include "base.h"

#include "client_args.h"
#include "client_said.h"

struct gt_outcome {
	int status;          /* giltrace's exit status; -1: not known, or a signal ended it */
	int signal;          /* that ended it, or 0 */
	int talked;          /* it has spoken as giltrace does */
	int told;            /* the status by itself, as the last thing that it did */
	int timed_out;       /* it did not answer in time, and was ended by us */
	uint32_t timeout_ms; /* which was that */
};

/* Fills in what waitpid() has told, if giltrace has not told it itself; -1: it is not known. */
void gt_outcome_waited(struct gt_outcome *o, int wait_status);

/* Of a giltrace that has ended before the probes were live. Sets giltrace_error(), returns -errno.
 */
int gt_outcome_of_start(const struct gt_outcome *o, const struct gt_said *said,
			const struct gt_args *args);

/* Of one that has recorded. 0: all is well. */
int gt_outcome_of_stop(const struct gt_outcome *o, const struct gt_said *said,
		       const struct gt_args *args);

#endif
