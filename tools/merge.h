/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge.h - a Profiler's trace with other events put at the beginning of its array, streaming: its
 * text is copied byte by byte, never parsed again, whatever its size.
 */
#ifndef GT_MERGE_H
#define GT_MERGE_H

#include "jsonw.h"
#include "proftrace.h"

/*
 * Writes the text of `path` to *w (which is not flushed) up to the array's "[", then what `events`
 * writes (a fragment: no comma before or behind; it sets *any if it wrote something), then the
 * rest. A trace that is .cut is completed, so that the result is JSON: what is behind .whole is
 * left out (t->size - t->whole bytes, which the caller is to tell). If t->words, the result is no
 * strict JSON, as its input is not.
 *
 * 0 or -errno: of `events`, of *w, or with words in `why` (else it is empty). -ESTALE: the file has
 * changed since *t was read, or while it was copied; what has been written is then no use.
 */
int gt_merge(const char *path, const struct gt_proftrace *t, struct gt_jsonw *w,
	     int (*events)(void *ctx, int *any), void *ctx, char *why, size_t why_size);

#endif
