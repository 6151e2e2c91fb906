/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cells.h - text for a terminal, in columns: text from outside is made harmless, measured and cut
 * by the columns that it takes, and numbers get units that a person reads. No state.
 *
 * Control characters, those that change the direction of text, and what is no UTF-8 are shown as
 * '?'; where the terminal is not UTF-8, all that is not ASCII is.
 */
#ifndef GT_CELLS_H
#define GT_CELLS_H

#include <stdio.h>

#include "base.h"

/* Does the environment (LC_ALL, LC_CTYPE, LANG) ask for UTF-8? */
int gt_cells_utf8(void);

unsigned int gt_cells_width(const char *text, int utf8);

/*
 * Prints it in at most `width` columns; what is longer is cut and ends with a sign for that.
 * Returns how many columns it took.
 */
unsigned int gt_cells_put(FILE *out, const char *text, unsigned int width, int utf8);

/* The same, filled up with spaces behind. */
void gt_cells_pad(FILE *out, const char *text, unsigned int width, int utf8);

/* Breaks it at spaces into lines of at most `width` columns, each behind `indent` spaces. */
void gt_cells_wrap(FILE *out, const char *text, unsigned int indent, unsigned int width, int utf8);

#define GT_CELLS_NUMBER 32

/* A length of time with three digits and its unit: "4.98 ms". Returns buf. */
const char *gt_cells_ns(char buf[GT_CELLS_NUMBER], uint64_t ns);

/* a of b, such as "49.7%"; "-" where b is 0. Returns buf. */
const char *gt_cells_percent(char buf[GT_CELLS_NUMBER], uint64_t a, uint64_t b);

#endif
