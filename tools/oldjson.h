/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oldjson.h - recordings of the tool that users had before: JSON arrays of take_gil and drop_gil
 * records, in three generations (docs/old-recordings.md). Such a file becomes a .gil file without a
 * name, which the rest of the converter then reads as any other.
 */
#ifndef GT_OLDJSON_H
#define GT_OLDJSON_H

#include "base.h"

/* Is this file one of them, by its beginning? 1 or 0; what cannot be read is none. */
int gt_oldjson_is(const char *path);

/*
 * A descriptor of a .gil file made of it, which belongs to the caller; it has no name, and its
 * memory is the file system's (TMPDIR) or, failing that, anonymous. -errno, with words in `why`.
 * What was left out or is not exact is logged and stored in META ("import.*").
 */
int gt_oldjson_import(const char *path, char *why, size_t why_size);

#endif
