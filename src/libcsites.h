/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcsites.h - the probe sites of GT_PROBE_LIBC: where pthread_cond_signal, pthread_cond_timedwait
 * and pthread_cond_wait begin, in the file of the C library that holds them: libc.so.6 of glibc
 * 2.34 and later; libpthread.so.0 of an older one, whose libc.so.6 has functions of the same names
 * that only jump there; musl's ld-musl-*.so.1.
 *
 * All CPythons from 3.6 to 3.15 import these three and no other that waits on or signals a
 * condition variable, pthread_cond_clockwait least of all: the clock is an attribute of the
 * condition variable there. musl's pthread_cond_wait is a jump to pthread_cond_timedwait, so one
 * call hits both sites, with the same argument and caller: a timed wait on a switch_cond is none.
 */
#ifndef GT_LIBCSITES_H
#define GT_LIBCSITES_H

#include "image.h"
#include "symres.h"

/*
 * Sets the sites, all with the flag GT_SITE_LIBC, and .mode, .code_delta and .switch_cond of *out,
 * the latter by the sizes of this library's types; what else gt_gilscan_identify() has filled is
 * kept. -ENOENT with out->why: it does not define all three.
 */
int gt_libcsites_find(const struct gt_image *img, struct gt_sites *out);

#endif
