/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symcheck.h - what symbols and debug information say of a CPython's GIL: which functions there
 * are, whether the scan's sites lie in them and none is missing, where copies of drop_gil were
 * inlined; and the probe sites of GT_PROBE_FUNCTIONS.
 *
 * As hostile as the file, and called in the process without privileges only. No state. A `src` of
 * NULL stands for a file without symbols.
 */
#ifndef GT_SYMCHECK_H
#define GT_SYMCHECK_H

#include "image.h"
#include "symres.h"
#include "symsrc_dwfl.h"

/*
 * Compares the scan's sites in *out (n may be 0) with the symbols, and sets .symbols_from,
 * .function, .verdict and .disagreement. `deep`: the debug information is gone through as well
 * (some tenths of a second; without it this is done where the symbols seem to contradict the scan),
 * sets .inlined, and a copy of drop_gil without a site in it counts as a disagreement, too.
 */
void gt_symcheck_compare(struct gt_symsrc *src, const struct gt_image *img, int deep,
			 struct gt_sites *out);

/*
 * Puts the sites of function probes in place of the scan's, whose own are needed to tell what is
 * inlined where there is no debug information; sets .inlined. -ENOENT with out->why and no sites:
 * the symbols do not name both functions; or with `safe`, there are inlined copies, which function
 * probes miss, or it is not known that there are none. Without `safe` out->why says so and no more.
 */
int gt_symcheck_functions(struct gt_symsrc *src, const struct gt_image *img, int safe,
			  struct gt_sites *out);

#endif
