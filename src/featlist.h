/* SPDX-License-Identifier: Apache-2.0 */
/*
 * featlist.h - giltrace --features: what the kernel has of what giltrace wants, as a table for
 * people or as JSON for scripts. No state.
 */
#ifndef GT_FEATLIST_H
#define GT_FEATLIST_H

#include <stdio.h>

#include "kfeatures.h"
#include "recording.h"

/*
 * Tries all features and what a recording would begin with, attaching to nothing but ourselves,
 * and prints. GT_OK: recording works here; GT_NO_BPF: it does not, logged why; GT_FAILED: it could
 * not be printed, logged.
 *
 * JSON, where null is what is not known, or none:
 *  {"kernel", "machine", "page_size", "libbpf", "backend",
 *   "features": [{"name", "available", "since", "for", "why", "instead"}]}
 */
enum gt_status gt_featlist(struct gt_features *f, enum gt_backend backend, int json, FILE *out);

#endif
