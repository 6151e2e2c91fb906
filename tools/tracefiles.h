/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracefiles.h - the trace on disk: one file for all processes or one for each, and each of these
 * whole or in parts of about a size, every part a trace of its own. A sink; behind it are Chrome
 * sinks. Logs the errors of its files, each once.
 *
 * With a file for each process, one that cannot be written is left out and the others go on. The
 * parts of a trace get their names together, once the last of them is complete.
 */
#ifndef GT_TRACEFILES_H
#define GT_TRACEFILES_H

#include "outfile.h"
#include "sink_chrome.h"
#include "threadnames.h"

struct gt_tracefiles_opts {
	struct gt_outset *outs;
	/* The file; of parts, what their names are made of; NULL: beside the recordings. */
	const char *path;
	uint64_t part_bytes;          /* of text; 0: not cut into parts */
	struct gt_threadnames *names; /* where .part_bytes; is complete before the first slice */
	struct gt_chrome_opts chrome;
	uint8_t per_process; /* .path is a folder that is there */
	uint8_t gzip;
};

struct gt_tracefiles;

/* Opens the file, if there is only one. *opts is copied, and what it points to must live on. */
int gt_tracefiles_create(const struct gt_tracefiles_opts *opts, struct gt_tracefiles **out);

/* Once. It ends the text, but gives no file its name. -ENOMEM. */
int gt_tracefiles_sink(struct gt_tracefiles *t, struct gt_sink **out);

/*
 * When the sink is finished: with an error of the conversion, or nothing to keep, what is not
 * complete is removed. Returns the first error there was, and says which files were written.
 */
int gt_tracefiles_end(struct gt_tracefiles *t, int err, int keep);
void gt_tracefiles_free(struct gt_tracefiles *t);

/* How many files have their names now. */
size_t gt_tracefiles_written(const struct gt_tracefiles *t);

/*
 * The trace of a recording, beside it or in a folder: its name with .json for its ending, or
 * _trace.json where it is a JSON itself. NULL: out of memory.
 */
char *gt_tracefiles_name(const char *folder, const char *recording, int gzip);

#endif
