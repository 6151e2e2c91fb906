/* SPDX-License-Identifier: Apache-2.0 */
/*
 * families.h - what was found in processes, for the children that they fork: those begin with the
 * same mappings, so that the many libraries of a large program need not be looked into again, and
 * little of the child is missed. Remembers the latest. Used by one thread.
 */
#ifndef GT_FAMILIES_H
#define GT_FAMILIES_H

#include "pytarget.h"

struct gt_families;

/* NULL: out of memory */
struct gt_families *gt_families_new(void);
void gt_families_free(struct gt_families *f);

/* f may be NULL here and below: nothing is remembered then. */
void gt_families_remember(struct gt_families *f, const struct gt_proc *p,
			  const struct gt_pytarget *py);

/*
 * What the parent has, if the process has it as well: the same files at the same addresses. NULL:
 * that is not known. Valid until the next gt_families_remember().
 */
const struct gt_pytarget *gt_families_inherited(const struct gt_families *f,
						const struct gt_proc *p, pid_t parent);

#endif
