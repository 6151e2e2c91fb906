/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of a summary's text ask of it. Besides sumfix.h; the same conditions. */
#ifndef SUMTEXT_H
#define SUMTEXT_H

#include "cells.h"
#include "sumfix.h"

#define COLUMN 100

static GT_UNUSED void in_locale(const char *name)
{
	setenv("LC_ALL", name, 1);
}

/* Lines of it; each is within the width, and nothing in it drives a terminal. */
static GT_UNUSED size_t check_lines(const char *text)
{
	gt_autofree char *copy = strdup(text);
	size_t n = 0;

	assert_non_null(copy);
	for (char *save, *line = strtok_r(copy, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save), n++) {
		if (gt_cells_width(line, 1) > COLUMN)
			fail_msg("wider than %d columns: %s", COLUMN, line);
		for (const char *c = line; *c; c++)
			assert_true((unsigned char)*c >= 0x20 && *c != 0x7f);
	}
	return n;
}

static GT_UNUSED void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("it does not say \"%s\":\n%s", part, text);
}

static GT_UNUSED void assert_has_not(const char *text, const char *part)
{
	if (strstr(text, part))
		fail_msg("it says \"%s\":\n%s", part, text);
}

#endif
