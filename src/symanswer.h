/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symanswer.h - what symres.c's child without privileges hands back, and whether to believe it: the
 * child has read a hostile file and may be in that file's hands.
 */
#ifndef GT_SYMANSWER_H
#define GT_SYMANSWER_H

#include "symres.h"

struct gt_symanswer {
	int32_t err; /* 0 or -errno, as gt_symres_file() returns */
	/*
	 * 1: these are the scan's sites, and a second answer that replaces this one follows when
	 * symbols have been read; if it does not come, the first still holds.
	 */
	int32_t more;
	struct gt_sites sites;
};
/* So the child never waits for the parent. */
_Static_assert(2 * sizeof(struct gt_symanswer) < 65536, "two answers fit into a pipe");

/*
 * Is every value one that the child could give when asked for that way of probing, of a file of
 * that size? All counts are within their arrays then, all texts are terminated and can be printed.
 */
int gt_symanswer_is_valid(const struct gt_symanswer *a, enum gt_probe_mode asked,
			  uint64_t file_size);

#endif
