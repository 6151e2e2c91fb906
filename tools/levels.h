/* SPDX-License-Identifier: Apache-2.0 */
/*
 * levels.h - the slices of many threads in bounded memory, for pictures. A row (a thread) keeps
 * each slice exactly while all rows together are few. Where there are more, the rows with the most
 * give way: slices shorter than a cell of a grid in time are added up in its cells, and the width
 * of the cells, a power of two that each row has for itself, doubles until all fit. Slices at least
 * as long as a cell stay exact.
 *
 * Nothing is lost of the sums: over all slices and cells of a row, times and numbers of each kind
 * are exactly those that were put in. Cost: each slice is visited at most once per doubling.
 *
 * Slices of a row come in order and do not overlap (sink.h). Functions return 0 or -ENOMEM, after
 * which only gt_levels_fini() may be called. Used by one thread.
 */
#ifndef GT_LEVELS_H
#define GT_LEVELS_H

#include "base.h"
#include "sink.h"

#define GT_LEVELS_WIDTH_MIN 10 /* log2 of ns: the first grid that is tried */
#define GT_LEVELS_WIDTH_MAX 62

/* Rows that never fill a quarter of the items can always be made to fit. */
#define GT_LEVELS_ITEMS_PER_ROW 16

struct gt_slice {
	uint64_t start_ns, len_ns;
	/* TAKE: as in struct gt_wait; the rest of the length is not known */
	uint64_t held_ns, nobody_ns, blocker_ns;
	uint32_t blocker;
	uint8_t kind, open, gil; /* as in struct gt_span */
	uint8_t forced : 2;
	uint8_t acquired : 1;
	uint8_t drop : 1; /* HOLD: a drop without length stands at its end, else alike */
};

struct gt_cell {
	uint64_t index;             /* it begins at index << width of the row */
	uint64_t ns[GT_SPAN_KINDS]; /* of what lies in it */
	/* Of the slices that begin in it: the longest, in their whole length, and how many. */
	uint64_t longest_ns[GT_SPAN_DROP];
	uint32_t n[GT_SPAN_KINDS];
	uint32_t forced; /* holds that ended so */
};

struct gt_level_row {
	struct gt_slice *slices;
	struct gt_cell *cells; /* those with something in them, by index */
	uint32_t n_slices, max_slices, n_cells, max_cells;
	uint32_t width; /* log2 of the cells' in ns; 0: no cells, every slice is exact */
};

struct gt_levels {
	struct gt_level_row *rows;
	size_t n_rows, max_rows;
	size_t items, max_items; /* slices and cells together */
};

void gt_levels_init(struct gt_levels *l, size_t max_items);
void gt_levels_fini(struct gt_levels *l);

/* One row more; its index is n_rows - 1. At most max_items / GT_LEVELS_ITEMS_PER_ROW of them. */
int gt_levels_add_row(struct gt_levels *l);

int gt_levels_add(struct gt_levels *l, size_t row, const struct gt_span *span);

#endif
