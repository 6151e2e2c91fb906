/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pytarget.h - is a process a CPython, which of its mapped files hold the GIL's code, and where
 * are the probe sites? Files are told by what they define, never by the process's name. A process
 * may have several: an interpreter that loads a libpython, or two libpythons of different versions.
 * Sites are resolved once per file (device, inode, size, change time) and kept in a cache.
 */
#ifndef GT_PYTARGET_H
#define GT_PYTARGET_H

#include "proc.h"
#include "symres.h"

struct gt_pycache;

/* flags: GT_SYMRES_DEEP. NULL: out of memory */
struct gt_pycache *gt_pycache_new(enum gt_probe_mode mode, unsigned int flags);
void gt_pycache_free(struct gt_pycache *c);

#define GT_PYTHONS_MAX GT_CODES

struct gt_python {
	struct gt_map map;            /* the mapping with the GIL's code */
	const struct gt_sites *sites; /* of that file; owned by the cache */
	uint64_t runtime;             /* address of _PyRuntime in the process; 0: not known */
};

struct gt_pytarget {
	uint32_t n; /* at least 1; libpython first, then the executable, then all else */
	struct gt_python python[GT_PYTHONS_MAX];
	/* Where python[i].sites->n is 0, libc's functions are probed instead, for all such: */
	struct gt_map libc_map;
	const struct gt_sites *libc; /* NULL: no need */
};

/*
 * -ENOEXEC: no CPython, or none that can be traced (2.x, no sites): logged with the reason.
 * Other errors are logged, too. One of several that cannot be traced is left out, with a warning.
 */
int gt_pytarget_find(struct gt_pycache *c, const struct gt_proc *p, struct gt_pytarget *out);

/*
 * Does it have a CPython 3 mapped, be it one that can be traced or not? 1, 0, or -errno: not all of
 * its files could be read, which is no news of a process that ends. Says nothing, but what
 * gt_pytarget_find() would say of a CPython's file. Cheap where its files are known already; files
 * with less code than any CPython has are not looked at.
 */
int gt_pytarget_is_python(struct gt_pycache *c, const struct gt_proc *p);

/* One file that gets probes. */
struct gt_part {
	const struct gt_map *map;
	const struct gt_sites *sites;
	uint32_t code; /* index of the python; of libc 0 */
};
#define GT_PARTS_MAX (GT_PYTHONS_MAX + 1)

/*
 * The files with probes: pythons, then libc. Sites have one index for all parts together, in this
 * order; there are at most 255.
 */
size_t gt_pytarget_parts(const struct gt_pytarget *t, struct gt_part parts[GT_PARTS_MAX]);

/* The way in which the process is probed: the worst of its files', LIBC being worst. */
enum gt_probe_mode gt_pytarget_mode(const struct gt_pytarget *t);
const char *gt_probe_mode_name(enum gt_probe_mode mode); /* "sites", "functions", "libc", "auto" */

#endif
