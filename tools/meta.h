/* SPDX-License-Identifier: Apache-2.0 */
/* meta.h - what the converter asks of a recording's META and SITES. Pure functions. */
#ifndef GT_META_H
#define GT_META_H

#include "base.h"
#include "giltrace/gilfile.h"

/* Bits of struct gil_site's flags. */
#define GT_SITE_RETURN  0x01
#define GT_SITE_ONE_GIL 0x02

static inline int gt_any_site_is(const gil_reader *r, uint8_t flag)
{
	for (size_t i = 0; i < gil_reader_sites(r); i++)
		if (gil_reader_site(r, i)->flags & flag)
			return 1;
	return 0;
}

/* The value of a key, or "" where there is none. */
static inline const char *gt_meta_text(const gil_reader *r, const char *key)
{
	const char *text = gil_reader_meta(r, key);

	return text ? text : "";
}

static inline int gt_meta_is(const gil_reader *r, const char *key, const char *value)
{
	const char *text = gil_reader_meta(r, key);

	return text && !strcmp(text, value);
}

/* Made of an old recording: docs/old-recordings.md. */
static inline int gt_is_imported(const gil_reader *r)
{
	return gil_reader_meta(r, "import.format") != NULL;
}

/* A plain decimal number up to UINT32_MAX; -1: there is none. */
static inline int64_t gt_meta_number(const gil_reader *r, const char *key)
{
	const char *text = gt_meta_text(r, key);
	uint64_t v = 0;
	size_t i;

	for (i = 0; text[i] >= '0' && text[i] <= '9' && i < 10; i++)
		v = v * 10 + (uint64_t)(text[i] - '0');
	return !i || text[i] || v > UINT32_MAX ? -1 : (int64_t)v;
}

/* Of a pid: 0 where it is not known. */
static inline uint32_t gt_meta_pid(const gil_reader *r, const char *key)
{
	int64_t pid = gt_meta_number(r, key);

	return pid > 0 ? (uint32_t)pid : 0;
}

#endif
