/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outfile.h - the converter's outputs: a regular file appears under its name only when it is
 * complete, and then replaces an earlier one; a device or a pipe is written in place. Logs its
 * errors.
 *
 * A run has one struct gt_outset (all 0 but .inputs), in which every file is known until it is
 * complete, so that a signal handler can remove what is not. Used by one thread, and
 * gt_outset_discard() by a signal handler, too.
 */
#ifndef GT_OUTFILE_H
#define GT_OUTFILE_H

#include "inputs.h"

struct gt_outfile;
struct gt_outdir;

struct gt_outset {
	const struct gt_inputs *inputs; /* none of them is ever an output; NULL: there are none */
	struct gt_outfile *files;       /* those that are not complete */
	struct gt_outdir *dirs;         /* where they lie */
};

/* "-" is standard output. 0 or -errno. `path` is copied. */
int gt_outfile_open(struct gt_outset *set, const char *path, struct gt_outfile **out);

/* To be written to, not to be closed. */
int gt_outfile_fd(const struct gt_outfile *f);
const char *gt_outfile_path(const struct gt_outfile *f); /* for messages */

/*
 * All is written, with this error or 0; it keeps waiting for gt_outfile_keep(). For outputs that
 * consist of several files: a descriptor less for each. Returns err, or the first error of its own.
 */
int gt_outfile_shut(struct gt_outfile *f, int err);

/*
 * The end of a file, which is freed: the first gives it its name, if there was no error, and else
 * removes it. The first error of its life.
 */
int gt_outfile_keep(struct gt_outfile *f, int err);
void gt_outfile_drop(struct gt_outfile *f);

/* A folder for outputs, made where it is missing. 0 or -errno. */
int gt_outset_make_folder(const char *path);

/* Removes all unfinished files. Async-signal-safe; nothing else may be called after it. */
void gt_outset_discard(struct gt_outset *set);

/* Drops what is unfinished and frees what the set holds. */
void gt_outset_fini(struct gt_outset *set);

#endif
