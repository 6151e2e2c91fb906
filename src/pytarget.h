/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pytarget.h - is a process a CPython, which of its mapped files holds the GIL code, and where
 * are the probe sites in it? Files are told by what they define, never by the process's name.
 * Sites are resolved once per file (device, inode, size, change time) and kept in a cache.
 */
#ifndef GT_PYTARGET_H
#define GT_PYTARGET_H

#include "proc.h"
#include "symres.h"

struct gt_pycache;

struct gt_pycache *gt_pycache_new(enum gt_probe_mode mode); /* NULL: out of memory */
void gt_pycache_free(struct gt_pycache *c);

struct gt_pytarget {
	struct gt_map map;            /* the mapping with the GIL code */
	const struct gt_sites *sites; /* owned by the cache */
};

/*
 * -ENOEXEC: no CPython, or one that cannot be traced (2.x, no sites): logged with the reason.
 * Other errors are logged, too.
 */
int gt_pytarget_find(struct gt_pycache *c, const struct gt_proc *p, struct gt_pytarget *out);

#endif
