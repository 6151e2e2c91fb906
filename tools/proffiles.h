/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proffiles.h - files and folders of a Profiler's: which one it is, what lies below a descriptor,
 * following no link, and small ones read without trust. Logs nothing. No state.
 */
#ifndef GT_PROFFILES_H
#define GT_PROFFILES_H

#include "base.h"
#include "jsonscan.h"

/* "dir/name"; of an empty name dir. NULL: no memory. */
char *gt_prof_join(const char *dir, const char *name);

/* Which file it was, as it was then. */
struct gt_file_id {
	uint64_t dev, ino, size;
	int64_t mtime_s, mtime_ns;
};

/*
 * Opens a path for reading, through links if there are some, only if it is a regular file, and
 * tells which it is. A descriptor or -errno, with words.
 */
int gt_file_open(const char *path, struct gt_file_id *id, char *why, size_t why_size);

/* Is it (still) that file, unchanged? The path's last part may be no link. */
int gt_file_is(int fd, const struct gt_file_id *id);
int gt_path_is(const char *path, const struct gt_file_id *id);

#define GT_SMALL_FILE_MAX (1u << 20)
#define GT_NAMES_MAX      16384 /* entries of a folder that are looked at */

/* A folder below another: `path` is one name or several ("a/b"), no part may be a link. */
int gt_prof_dir(int at, const char *path);

/* A regular file for reading, by one name; it may not be a link (-ELOOP). -EINVAL: no file. */
int gt_prof_file(int at, const char *name);

/* Its entries but "." and "..", sorted by name. */
struct gt_names {
	char **list;
	size_t n;
	uint8_t cut; /* there are more than GT_NAMES_MAX */
};

int gt_prof_list(int dir_fd, struct gt_names *out); /* 0 or -errno */
void gt_names_free(struct gt_names *n);

/* 'd' a folder, 'f' a file, 'l' a symbolic link, 0 something else, or not there. */
char gt_prof_type(int dir_fd, const char *name);

/*
 * Called for each scalar: with its keys ("end_info.collectionTimeEnd"; elements of an array have
 * the array's) and its text, as it stands in the file ("" for true, false, null).
 */
typedef void (*gt_scalar_fn)(void *ctx, const char *path, enum gt_json_token token,
			     const char *text);

/* All of a small JSON file. Takes fd over. 0, or -errno with words in `why`. */
int gt_prof_json(int fd, gt_scalar_fn fn, void *ctx, char *why, size_t why_size);

/* The same for lines "key: value" or "key = value". */
int gt_prof_lines(int fd, gt_scalar_fn fn, void *ctx, char *why, size_t why_size);

/* A whole number above 0, of digits alone: 1; else 0. */
int gt_whole_number(const char *text, int64_t *v);

#endif
