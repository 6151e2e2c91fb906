/* SPDX-License-Identifier: Apache-2.0 */
/*
 * describe.h - the head of a .gil file: which process is recorded, which rank and cards it has,
 * what its CPythons are, and how they are probed. No state.
 */
#ifndef GT_DESCRIBE_H
#define GT_DESCRIBE_H

#include <inttypes.h>
#include <stdio.h>

#include "recording.h"

/* A number as text; "" where it is not to be written. */
struct gt_number {
	char text[24];
};

static inline struct gt_number gt_number(int known, int64_t value)
{
	struct gt_number n = {.text = ""};

	if (known)
		snprintf(n.text, sizeof(n.text), "%" PRId64, value);
	return n;
}

static inline const char *gt_or_null(const char *text)
{
	return text[0] ? text : NULL;
}

/* Writes META and SITES. Returns the file's first error, or -ENOMEM. */
int gt_describe(const struct gt_recording *r, const struct gt_recorder *rec, struct gt_gilfile *f);

#endif
