/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h - creates the recorder's files: in a folder that may belong to somebody else, as root,
 * never following a link and never overwriting, owned by the user who ran sudo.
 */
#ifndef GT_OUTPUT_H
#define GT_OUTPUT_H

#include "base.h"
#include <sys/types.h>

/* Opens the folder, made if only its last part is missing. Returns its descriptor or -errno,
 * logged. */
int gt_output_dir(const char *path);

/*
 * Creates GIL_<pid>_rank_<rank>.gil, or ..._2.gil, _3 and so on where an earlier capture has the
 * name. Returns the descriptor, open for writing, and the name; or -errno, logged with `dir_path`.
 */
int gt_output_file(int dir_fd, const char *dir_path, pid_t pid, uint32_t rank, char *name,
		   size_t name_size);

#endif
