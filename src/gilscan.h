/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gilscan.h - finds the transitions of CPython's GIL in an ELF file without symbols: the calls of
 * pthread_cond_signal, pthread_cond_timedwait and pthread_cond_wait in take_gil and drop_gil.
 *
 * What is relied on (CPython 3.6 .. 3.16's ceval_gil.h / ceval_gil.c):
 *  - take_gil waits by timedwait(&cond, &mutex), and signals &switch_cond once it has the lock;
 *    it is reached from PyEval_RestoreThread or PyEval_AcquireThread by at most four calls.
 *  - drop_gil signals &cond once the lock is free and may wait on &switch_cond.
 *  - 3.7+: they lie in one struct: cond, mutex = cond + 48, switch_cond = cond + 88 (+ 96 with
 *    glibc's larger mutex on AArch64). 3.6: separate static variables.
 * The first argument of each call, as far as the code before it tells, decides what it is.
 *
 * py_major / py_minor come from the first of these that tells: Py_Version (3.11+), the SONAME, the
 * base name of `name`, the functions that a version brought.
 *
 * Works on bytes in memory that may be hostile; allocates, and frees it all; no other state.
 */
#ifndef GT_GILSCAN_H
#define GT_GILSCAN_H

#include "image.h"
#include "symres.h"

/*
 * Fills what tells the file (is_python, machine, version, build-id, _PyRuntime, where the code
 * lies) and .switch_cond as it is with glibc; leaves the rest 0. -ENOENT, with out->why: nothing
 * that can be traced.
 */
int gt_gilscan_identify(const struct gt_image *img, const char *name, struct gt_sites *out);

/*
 * Adds the sites to what gt_gilscan_identify() has filled, and sets .switch_cond by the code.
 * -ENOENT with out->why; -ENOMEM.
 */
int gt_gilscan_sites(const struct gt_image *img, struct gt_sites *out);

/*
 * The same of a file that exports nothing, an executable with CPython linked in: names that are not
 * in the dynamic symbol table are asked for from somebody who has others.
 */
struct gt_gilnames {
	int (*find)(void *ctx, const char *name, uint64_t *vaddr); /* 0 or -ENOENT */
	void *ctx;
};
int gt_gilscan_identify_named(const struct gt_image *img, const struct gt_gilnames *names,
			      const char *name, struct gt_sites *out);
int gt_gilscan_sites_named(const struct gt_image *img, const struct gt_gilnames *names,
			   struct gt_sites *out);

/* Leaves no sites in *out, and says why. Returns -ENOENT. */
int gt_gilscan_refuse(struct gt_sites *out, const char *fmt, ...) GT_PRINTF(2, 3);

/*
 * Adds a site; its offset follows from vaddr, and GT_SITE_STEP from the instruction there. -ENOENT,
 * with out->why: no room, or no code there.
 */
int gt_gilscan_add(const struct gt_image *img, struct gt_sites *out, uint64_t vaddr,
		   enum gt_kind kind, unsigned int flags, const char *how, ...) GT_PRINTF(6, 7);

#endif
