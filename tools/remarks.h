/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remarks.h - what a person is told of a recording that was converted: numbers, what is missing in
 * it, and whether it can be trusted. Into the log. No state.
 */
#ifndef GT_REMARKS_H
#define GT_REMARKS_H

#include "base.h"
#include "timeline.h"

struct gt_remarks {
	const char *path;
	const gil_reader *r; /* has been read to its end */
	const struct gt_timeline_stats *st;
	const char *ids;      /* which ids are shown, in words */
	uint32_t ids_unknown; /* threads of which they are not known */
	uint8_t grown;        /* the file has, while it was read */
	uint8_t quiet;        /* nothing is printed */
};

/*
 * Prints them. Returns why the recording is not to be trusted, in buf or owned by the reader; NULL:
 * it adds up.
 */
const char *gt_remarks_print(const struct gt_remarks *m, char *buf, size_t size);

/* Events lost, by the blocks or by the gaps, whichever tells of more. */
uint64_t gt_remarks_lost(const struct gt_remarks *m);

#endif
