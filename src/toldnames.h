/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toldnames.h - the names that a program itself has told for its threads, beside those that are
 * read from its memory. What it has told counts, also for threads that are not known yet, until the
 * memory tells something new of that thread: it was renamed, or its id is another's now.
 */
#ifndef GT_TOLDNAMES_H
#define GT_TOLDNAMES_H

#include "pynames.h"

struct gt_toldnames {
	struct gt_toldname *name; /* by ns_tid; at most GT_PYNAMES_MAX */
	size_t n, room;
};

/* A name that is told again replaces the first. -ENOMEM; -ENOSPC: too many, it is left out. */
int gt_toldnames_put(struct gt_toldnames *t, const struct gt_pyname *name);

/*
 * Both together, by ns_tid, each once: *out, to be freed. read: what stands in the memory now, by
 * ns_tid. -ENOMEM.
 */
int gt_toldnames_merge(struct gt_toldnames *t, const struct gt_pyname *read, size_t n,
		       struct gt_pyname **out, size_t *n_out);

void gt_toldnames_free(struct gt_toldnames *t);

#endif
