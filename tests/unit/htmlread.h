/* SPDX-License-Identifier: Apache-2.0 */
/*
 * htmlread.h - for tests of the report page: reads its data back by their description in
 * tools/html_write.c, with code of its own.
 */
#ifndef HTMLREAD_H
#define HTMLREAD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <zlib.h>
#include <cmocka.h>

#include "sink.h"

static char *read_all(int fd, size_t *size)
{
	struct stat st;
	char *text;

	assert_return_code(fstat(fd, &st), 0);
	text = malloc((size_t)st.st_size + 1);
	assert_non_null(text);
	*size = (size_t)st.st_size;
	for (size_t at = 0; at < *size;) {
		ssize_t n = pread(fd, text + at, *size - at, (off_t)at);

		assert_true(n > 0);
		at += (size_t)n;
	}
	text[*size] = 0;
	return text;
}

static int digit_of(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				     "0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* The bytes of a blob, with a NUL behind them; to be freed. Any character but base64's fails. */
static uint8_t *blob_read(const char *page, const char *id, size_t *size)
{
	char mark[96];
	const char *at, *end;
	uint8_t *packed, *out, *bigger;
	size_t n = 0, room = 1 << 20;
	uint32_t bits = 0, have = 0;
	z_stream z = {0};

	snprintf(mark, sizeof(mark), "<script type=\"application/octet-stream\" id=\"%s\">\n", id);
	at = strstr(page, mark);
	assert_non_null(at);
	at += strlen(mark);
	end = strstr(at, "\n</script>\n");
	assert_non_null(end);
	packed = malloc((size_t)(end - at) + 1);
	assert_non_null(packed);
	for (; at < end && *at != '='; at++) {
		int digit = digit_of(*at);

		if (*at == '\n')
			continue;
		assert_true(digit >= 0);
		bits = bits << 6 | (uint32_t)digit;
		have += 6;
		if (have >= 8) {
			have -= 8;
			packed[n++] = (uint8_t)(bits >> have);
		}
	}
	assert_true(end - at <= 2);
	out = malloc(room);
	assert_non_null(out);
	assert_int_equal(inflateInit2(&z, -15), Z_OK);
	z.next_in = packed;
	z.avail_in = (unsigned int)n;
	for (;;) {
		int ret;

		z.next_out = out + z.total_out;
		z.avail_out = (unsigned int)(room - z.total_out - 1);
		ret = inflate(&z, Z_NO_FLUSH);
		if (ret == Z_STREAM_END)
			break;
		assert_int_equal(ret, Z_OK);
		if (z.avail_out)
			continue;
		room *= 2;
		bigger = realloc(out, room);
		assert_non_null(bigger);
		out = bigger;
	}
	assert_int_equal(z.avail_in, 0);
	*size = z.total_out;
	out[*size] = 0;
	inflateEnd(&z);
	free(packed);
	return out;
}

struct cursor {
	const uint8_t *at, *end;
};

static uint64_t varint(struct cursor *c)
{
	uint64_t v = 0;

	for (int shift = 0;; shift += 7) {
		assert_true(c->at < c->end && shift < 64);
		v |= (uint64_t)(*c->at & 127) << shift;
		if (*c->at++ < 128)
			return v;
	}
}

/* A slice as the page has it. */
struct read_slice {
	uint64_t start_ns, len_ns, unknown_ns, nobody_ns, blocker_ns, blocker;
	uint8_t kind, forced, acquired, drop, open, gil;
};

struct read_row {
	struct read_slice *slices;
	uint64_t n_slices, n_cells, width;
	uint64_t n[GT_SPAN_KINDS], ns[GT_SPAN_KINDS], longest_ns[2], forced;
};

static void row_slices(struct cursor *c, struct read_row *r, uint64_t base_ns)
{
	struct read_slice *s = calloc(r->n_slices + 1, sizeof(*s)), *end = s + r->n_slices;
	struct read_slice *x;
	uint64_t at = base_ns;

	assert_non_null(s);
	r->slices = s;
	for (x = s; x < end; x++) {
		uint8_t flags = *c->at++;

		x->kind = flags & 3;
		x->forced = flags >> 2 & 3;
		x->acquired = flags >> 4 & 1;
		x->drop = flags >> 5 & 1;
		x->open = flags >> 6 & 1;
		x->gil = flags >> 7;
	}
	for (x = s; x < end; x++)
		x->start_ns = varint(c);
	for (x = s; x < end; x++) {
		x->len_ns = varint(c);
		x->start_ns += at;
		at = x->start_ns + x->len_ns;
	}
	for (x = s; x < end; x++)
		if (x->open)
			x->open = *c->at++;
	for (x = s; x < end; x++)
		if (x->gil)
			x->gil = *c->at++;
	for (x = s; x < end; x++)
		if (x->kind == GT_SPAN_TAKE)
			x->blocker = varint(c);
	for (x = s; x < end; x++)
		if (x->kind == GT_SPAN_TAKE)
			x->unknown_ns = varint(c);
	for (x = s; x < end; x++)
		if (x->kind == GT_SPAN_TAKE)
			x->nobody_ns = varint(c);
	for (x = s; x < end; x++)
		if (x->blocker)
			x->blocker_ns = x->len_ns - x->unknown_ns - x->nobody_ns - varint(c);
	for (x = s; x < end; x++) {
		r->n[x->kind]++;
		r->ns[x->kind] += x->len_ns;
		r->n[GT_SPAN_DROP] += x->drop;
		r->forced += x->kind == GT_SPAN_HOLD && x->forced == GT_FORCED_YES;
		if (x->kind < 2 && r->longest_ns[x->kind] < x->len_ns)
			r->longest_ns[x->kind] = x->len_ns;
	}
}

static void row_cells(struct cursor *c, struct read_row *r)
{
	for (uint64_t i = 0; i < r->n_cells; i++)
		assert_true(varint(c) > 0 || !i);
	for (size_t k = 0; k < GT_SPAN_KINDS; k++)
		for (uint64_t i = 0; i < r->n_cells; i++) {
			uint64_t ns = varint(c);

			assert_true(ns <= r->width);
			r->ns[k] += ns;
		}
	for (size_t k = 0; k < GT_SPAN_KINDS; k++)
		for (uint64_t i = 0; i < r->n_cells; i++)
			r->n[k] += varint(c);
	for (uint64_t i = 0; i < r->n_cells; i++)
		r->forced += varint(c);
	for (size_t k = 0; k < 2; k++)
		for (uint64_t i = 0; i < r->n_cells; i++) {
			uint64_t ns = varint(c);

			assert_true(ns < r->width);
			if (r->longest_ns[k] < ns)
				r->longest_ns[k] = ns;
		}
}

/* A mark as the page has it. */
struct read_mark {
	uint64_t at_ns, tid, len;
	char name[128];
};

/* Those of the next process, to be freed. */
static inline struct read_mark *marks_read(struct cursor *c, uint64_t base_ns, uint64_t *n)
{
	struct read_mark *marks, *m;
	uint64_t at = base_ns;

	*n = varint(c);
	marks = calloc(*n + 1, sizeof(*marks));
	assert_non_null(marks);
	for (m = marks; m < marks + *n; m++)
		at = m->at_ns = at + varint(c);
	for (m = marks; m < marks + *n; m++)
		m->tid = varint(c);
	for (m = marks; m < marks + *n; m++)
		m->len = varint(c);
	for (m = marks; m < marks + *n; m++) {
		assert_true(m->len < sizeof(m->name) && (uint64_t)(c->end - c->at) >= m->len);
		memcpy(m->name, c->at, m->len);
		c->at += m->len;
	}
	return marks;
}

/* The next row; its slices are to be freed. */
static inline struct read_row row_read(struct cursor *c, uint64_t base_ns)
{
	struct read_row r = {.n_slices = varint(c)};
	uint64_t log2;

	r.n_cells = varint(c);
	log2 = varint(c);
	r.width = r.n_cells ? UINT64_C(1) << log2 : 0;
	row_slices(c, &r, base_ns);
	row_cells(c, &r);
	return r;
}

#endif
