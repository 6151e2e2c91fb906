// SPDX-License-Identifier: Apache-2.0
#include "cells.h"

#include <inttypes.h>
#include <strings.h>

#include "summary_private.h"

int gt_cells_utf8(void)
{
	static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

	/* As setlocale(3) does: the first that is there and not empty decides. */
	for (size_t i = 0; i < GT_ARRAY_SIZE(names); i++) {
		const char *value = getenv(names[i]), *charset;

		if (!value || !*value)
			continue;
		charset = strchr(value, '.');
		return charset &&
		       (!strncasecmp(charset, ".utf-8", 6) || !strncasecmp(charset, ".utf8", 5));
	}
	return 0;
}

/* ---- one character ---- */

struct glyph {
	const char *bytes;
	uint8_t len, width;
	uint8_t consumed; /* bytes of the text; 0: the text is at its end */
};

struct range {
	uint32_t first, last;
};

static int is_in(const struct range *ranges, size_t n, uint32_t c)
{
	for (size_t i = 0; i < n; i++)
		if (c >= ranges[i].first && c <= ranges[i].last)
			return 1;
	return 0;
}

/* Unicode 15: what steers a terminal or the direction of text, or shows nothing. */
static const struct range harmful[] = {
	{0x0000, 0x001f}, {0x007f, 0x009f}, {0x00ad, 0x00ad}, {0x061c, 0x061c}, {0x180e, 0x180e},
	{0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0xd800, 0xdfff}, {0xfe00, 0xfe0f},
	{0xfeff, 0xfeff}, {0xfff0, 0xfffb}, {0xfffe, 0xffff}, {0xe000, 0xf8ff}, {0xe0000, 0x10ffff},
};

/* Marks that stand on the character before them. */
static const struct range marks[] = {
	{0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd}, {0x0610, 0x061a}, {0x064b, 0x065f},
	{0x0e31, 0x0e31}, {0x0e34, 0x0e3a}, {0x0e47, 0x0e4e}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},
	{0x20d0, 0x20ff}, {0x3099, 0x309a}, {0xfe20, 0xfe2f},
};

/* East Asian wide and full width, and emoji. */
static const struct range wide[] = {
	{0x1100, 0x115f},   {0x231a, 0x231b},   {0x23e9, 0x23ec},   {0x2e80, 0x303e},
	{0x3041, 0xa4cf},   {0xa960, 0xa97f},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},
	{0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f300, 0x1f64f},
	{0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
};

/* The character at s and its length; 0: no whole one begins here. */
static unsigned int decode(const unsigned char *s, uint32_t *c)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned int n = s[0] < 0x80 ? 1 : s[0] < 0xc0 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (n < 2) {
		*c = s[0];
		return n;
	}
	*c = s[0] & (0x7fu >> n);
	for (unsigned int i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80) /* also the NUL at the end */
			return 0;
		*c = *c << 6 | (s[i] & 0x3fu);
	}
	return s[0] > 0xf4 || *c < least[n] || *c > 0x10ffff ? 0 : n;
}

static struct glyph next_glyph(const char *text, int utf8)
{
	struct glyph g = {.bytes = text, .len = 1, .width = 1, .consumed = 1};
	uint32_t c;
	unsigned int n;

	if (!*text) {
		g.len = g.width = g.consumed = 0;
		return g;
	}
	n = decode((const unsigned char *)text, &c);
	if (n)
		g.consumed = g.len = (uint8_t)n;
	if (!n || (n > 1 && !utf8) || is_in(harmful, GT_ARRAY_SIZE(harmful), c)) {
		g.bytes = "?";
		g.len = 1;
	} else if (is_in(marks, GT_ARRAY_SIZE(marks), c)) {
		g.width = 0;
	} else if (is_in(wide, GT_ARRAY_SIZE(wide), c)) {
		g.width = 2;
	}
	return g;
}

/* ---- text ---- */

unsigned int gt_cells_width(const char *text, int utf8)
{
	unsigned int width = 0;

	for (struct glyph g; (g = next_glyph(text, utf8)).consumed; text += g.consumed)
		width += g.width;
	return width;
}

/* As much of it as fits into `width` columns; *taken gets these. Returns the rest. */
static const char *put_some(FILE *out, const char *text, unsigned int width, int utf8,
			    unsigned int *taken)
{
	*taken = 0;
	for (struct glyph g; (g = next_glyph(text, utf8)).consumed; text += g.consumed) {
		if (g.width > width - *taken)
			break;
		*taken += g.width;
		fwrite(g.bytes, 1, g.len, out);
	}
	return text;
}

unsigned int gt_cells_put(FILE *out, const char *text, unsigned int width, int utf8)
{
	unsigned int taken;

	if (!width)
		return 0;
	if (gt_cells_width(text, utf8) <= width) {
		put_some(out, text, width, utf8, &taken);
		return taken;
	}
	put_some(out, text, width - 1, utf8, &taken);
	fputs(utf8 ? "\xe2\x80\xa6" : "~", out);
	return taken + 1;
}

void gt_cells_pad(FILE *out, const char *text, unsigned int width, int utf8)
{
	fprintf(out, "%*s", (int)(width - gt_cells_put(out, text, width, utf8)), "");
}

/* How many bytes of it stand on a line of `width` columns. */
static size_t line_len(const char *text, unsigned int width, int utf8)
{
	size_t len = 0, space = 0;
	unsigned int taken = 0;

	for (struct glyph g; (g = next_glyph(text + len, utf8)).consumed; len += g.consumed) {
		if (text[len] == ' ')
			space = len;
		if (g.width > width - taken)
			return space ? space : len ? len : g.consumed;
		taken += g.width;
	}
	return len;
}

void gt_cells_wrap(FILE *out, const char *text, unsigned int indent, unsigned int width, int utf8)
{
	do {
		gt_autofree char *line = NULL;
		size_t len = line_len(text, width, utf8);

		line = strndup(text, len);
		if (!line)
			return;
		fprintf(out, "%*s", (int)indent, "");
		gt_cells_put(out, line, width, utf8);
		fputc('\n', out);
		text += len;
		text += *text == ' ';
	} while (*text);
}

/* ---- numbers ---- */

const char *gt_cells_ns(char buf[GT_CELLS_NUMBER], uint64_t ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
	size_t i = 0;
	uint64_t v;

	if (ns < 1000) {
		snprintf(buf, GT_CELLS_NUMBER, "%" PRIu64 " ns", ns);
		return buf;
	}
	/* Rounded up, it may be one of the next. */
	while (i + 1 < GT_ARRAY_SIZE(units) && gt_summary_ratio(ns, units[i].ns, 1) >= 1000)
		i++;
	v = gt_summary_ratio(ns, units[i].ns, 100);
	if (v < 1000) {
		snprintf(buf, GT_CELLS_NUMBER, "%" PRIu64 ".%02" PRIu64 " %s", v / 100, v % 100,
			 units[i].name);
		return buf;
	}
	v = gt_summary_ratio(ns, units[i].ns, 10);
	if (v < 1000)
		snprintf(buf, GT_CELLS_NUMBER, "%" PRIu64 ".%" PRIu64 " %s", v / 10, v % 10,
			 units[i].name);
	else
		snprintf(buf, GT_CELLS_NUMBER, "%" PRIu64 " %s",
			 gt_summary_ratio(ns, units[i].ns, 1), units[i].name);
	return buf;
}

const char *gt_cells_percent(char buf[GT_CELLS_NUMBER], uint64_t a, uint64_t b)
{
	uint64_t v = gt_summary_ratio(a, b, 1000);

	if (b)
		snprintf(buf, GT_CELLS_NUMBER, "%" PRIu64 ".%" PRIu64 "%%", v / 10, v % 10);
	else
		snprintf(buf, GT_CELLS_NUMBER, "-");
	return buf;
}
