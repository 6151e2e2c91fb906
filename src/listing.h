/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listing.h - giltrace --list: the processes that would be recorded, as a table for people or as
 * JSON for scripts. Prints to a stream; what comes from targets is made harmless. No state.
 */
#ifndef GT_LISTING_H
#define GT_LISTING_H

#include <stdio.h>

#include "recording.h"

struct gt_listing;

enum gt_listing_format { GT_LISTING_TABLE, GT_LISTING_JSON };

/* NULL: out of memory */
struct gt_listing *gt_listing_new(enum gt_listing_format format);

/* Copies what is to be printed of an opened recording. 0 or -ENOMEM. */
int gt_listing_add(struct gt_listing *l, const struct gt_recording *r);

/*
 * Prints, by rank and pid, and last those whose rank nothing tells: pid, namespace pid, rank and
 * its source, cards, Python version and build, container, threads, title. A table on a terminal is
 * cut to its width. Frees. 0 or -errno: of a write, or -ENOMEM.
 *
 * JSON is valid UTF-8; null is what is not known:
 *  {"processes": [{"pid", "ns_pid", "rank", "rank_source", "local_rank", "local_rank_source",
 *    "npus": [{"device", "card", "chip", "virtual", "source"}], "npu_source",
 *    "python": [{"version", "file", "build_id", "mode", "stripped"}],
 *    "container", "pid_namespace", "mount_namespace", "user_namespace", "parent", "uid", "threads",
 *    "cmdline", "comm"}], "format": 1}
 */
int gt_listing_print(struct gt_listing *l, FILE *out);

/* Without printing. NULL is allowed. */
void gt_listing_free(struct gt_listing *l);

#endif
