/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outfile.h - the converter's output: a regular file appears under its name only when it is
 * complete, and then replaces an earlier one; a device or a pipe is written in place. Logs its
 * errors. Used by one thread; gt_outfile_discard() also by a signal handler.
 */
#ifndef GT_OUTFILE_H
#define GT_OUTFILE_H

#include "inputs.h"

struct gt_outfile {
	const char *path; /* for messages */
	const char *base; /* last part of the path; NULL: written in place */
	int fd, dir_fd;   /* -1: none */
	char tmp[48];     /* in dir_fd; empty: none */
};

/* "-" is standard output. It never opens an input. 0 or -errno. path must outlive *o. */
int gt_outfile_open(struct gt_outfile *o, const char *path, const struct gt_inputs *in);

/*
 * With an error, or with nothing to keep, what was written to a file is removed. Returns err, or
 * the first error of its own.
 */
int gt_outfile_close(struct gt_outfile *o, int err, int keep);

/* Removes the unfinished file. Async-signal-safe. */
void gt_outfile_discard(struct gt_outfile *o);

#endif
