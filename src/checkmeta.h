/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkmeta.h - what the self-check found, as META (check.*) of a file. No state.
 */
#ifndef GT_CHECKMETA_H
#define GT_CHECKMETA_H

#include "gilfile_write.h"
#include "selfcheck.h"

/* Returns the file's first error. */
int gt_checkmeta_write(const struct gt_selfcheck *check, struct gt_gilfile *f);

#endif
