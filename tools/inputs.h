/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inputs.h - which files the converter reads: files and folders from the command line, each file
 * once, each process under an id of its own. Recordings of the tool that users had before
 * (oldjson.h) are imported when they are first opened. Owned by the caller, used by one thread.
 */
#ifndef GT_INPUTS_H
#define GT_INPUTS_H

#include <sys/stat.h>

#include "base.h"
#include "origin.h"
#include "sink.h"

#define GT_INPUT_ID_MAX 100

struct gt_input {
	char *path;
	char id[GT_INPUT_ID_MAX + 1]; /* set by gt_inputs_choose_id() */
	struct gt_origin *origin;     /* NULL: not opened so far */
	dev_t dev;                    /* these are valid if it is there: .known */
	ino_t ino;
	uint64_t size;
	int imported_fd; /* what an old recording was made into; -1: none */
	uint8_t known;
	uint8_t found;   /* in a folder */
	uint8_t refused; /* it cannot be opened, which has been said */
};

struct gt_inputs {
	struct gt_input *list;
	size_t n, size;
	size_t twins; /* of them, those that are of a process or rank that an earlier one is of */
};

/*
 * Adds files, and of folders the *.gil files and old recordings; what is given twice counts once.
 * Those of all folders together are in the order of the ranks in their names. Returns how many
 * arguments had to be left out, or -ENOMEM; both logged.
 */
int gt_inputs_add_all(struct gt_inputs *in, const char *const *args, size_t n);
void gt_inputs_free(struct gt_inputs *in);

/* By its name, or by what is in it: nothing may be written in its place. */
int gt_inputs_is_recording(const char *path);

/* The input that is this file, by any path; NULL: none. */
const struct gt_input *gt_inputs_find(const struct gt_inputs *in, const struct stat *st);

/*
 * Opens one. Each call reads it from the beginning, and what was imported only once. -errno: logged
 * at the first call.
 */
int gt_inputs_open(struct gt_inputs *in, size_t me, gil_reader **out);

/* Says once if an earlier one, opened by now, is of the same process or rank. */
void gt_inputs_tell_of_twins(struct gt_inputs *in, size_t me, const gil_reader *r);

/* Says of how many hosts those are that were told of, and how far their clocks can be compared. */
void gt_inputs_tell_of_hosts(const struct gt_inputs *in);

/* The next one that is told of is the first: what follows is shown apart from what was. */
void gt_inputs_forget(struct gt_inputs *in);

/* Whether an input exists at all. Logs them where none does. */
int gt_inputs_any_is_there(const struct gt_inputs *in);

/*
 * The id of an input's process: its pid, or else the file's name. A pid that an earlier input has,
 * too (another host, or recorded twice), gets a number, so that the two are not mixed: returns it,
 * 1 for the first.
 */
unsigned int gt_inputs_choose_id(struct gt_inputs *in, size_t me, int64_t pid);

#endif
