// SPDX-License-Identifier: Apache-2.0
#include "jsonlex.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

int gt_jsonlex_open(struct gt_jsonlex *s, int fd, size_t size)
{
	s->buf = malloc(size);
	s->gz = s->buf ? gzdopen(fd, "rb") : NULL;
	if (!s->gz) {
		free(s->buf);
		close(fd);
		return -ENOMEM;
	}
	/* At most half of ours, or zlib copies everything once more. */
	if (size >= GT_JSONSCAN_BUFFER)
		gzbuffer(s->gz, GT_JSONSCAN_BUFFER / 4);
	s->size = size;
	s->p = s->end = s->buf;
	return 0;
}

void gt_jsonlex_close(struct gt_jsonlex *s)
{
	gzclose_r(s->gz);
	free(s->buf);
}

int gt_jsonlex_fail(struct gt_jsonlex *s, int err, uint64_t at, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (s->err)
		return s->err;
	s->err = err;
	n = snprintf(s->problem, sizeof(s->problem), "byte %" PRIu64 ": ", at);
	va_start(ap, fmt);
	vsnprintf(s->problem + n, sizeof(s->problem) - (size_t)n, fmt, ap);
	va_end(ap);
	return err;
}

int gt_jsonlex_unexpected(struct gt_jsonlex *s, const char *wanted)
{
	unsigned char c = *s->p;

	if (c > 0x20 && c < 0x7f)
		return gt_jsonlex_fail(s, -EBADMSG, gt_jsonlex_position(s),
				       "%s is expected, not '%c'", wanted, c);
	return gt_jsonlex_fail(s, -EBADMSG, gt_jsonlex_position(s),
			       "%s is expected, not byte 0x%02x", wanted, c);
}

static int read_error(struct gt_jsonlex *s, int errno_of_read)
{
	int zerr;
	const char *words = gzerror(s->gz, &zerr), *colon = strstr(words, ": ");

	if (colon)
		words = colon + 2; /* before it, zlib names the descriptor */
	if (zerr == Z_ERRNO && errno_of_read)
		return gt_jsonlex_fail(s, -errno_of_read, gt_jsonlex_position(s), "%s",
				       strerror(errno_of_read));
	if (zerr == Z_MEM_ERROR)
		return gt_jsonlex_fail(s, -ENOMEM, gt_jsonlex_position(s), "%s", strerror(ENOMEM));
	return gt_jsonlex_fail(s, -EBADMSG, gt_jsonlex_position(s),
			       "the compressed data are damaged (%s)", words);
}

int gt_jsonlex_refill(struct gt_jsonlex *s)
{
	int n;

	if (s->err)
		return s->err;
	if (s->eof)
		return 0;
	s->base += (uint64_t)(s->end - s->buf);
	s->p = s->end = s->buf;
	errno = 0;
	n = gzread(s->gz, s->buf, (unsigned int)s->size);
	if (n < 0)
		return read_error(s, errno);
	if (n == 0) {
		s->eof = 1; /* also where compressed data end too early */
		return 0;
	}
	s->end = s->buf + n;
	return 1;
}

int gt_jsonlex_truncated(struct gt_jsonlex *s, const char *where)
{
	return gt_jsonlex_fail(s, -EPIPE, gt_jsonlex_position(s), "the text ends too early, %s",
			       where);
}

/* As gt_jsonlex_more(), for where there must be another byte. */
static inline int must(struct gt_jsonlex *s, const char *where)
{
	int rc = gt_jsonlex_more(s);

	return rc ? rc : gt_jsonlex_truncated(s, where);
}

/* ---- strings ---- */

static inline void append(struct gt_jsonlex *s, const void *bytes, size_t n)
{
	size_t room = GT_JSONSCAN_TEXT_MAX - s->len;

	if (!s->keep)
		return;
	if (n > room) {
		s->cut = 1;
		n = room;
	}
	memcpy(s->text + s->len, bytes, n);
	s->len += n;
}

static void append_code(struct gt_jsonlex *s, unsigned int c)
{
	unsigned char b[4];
	size_t n = 0;

	if (c < 0x80) {
		b[n++] = (unsigned char)c;
	} else if (c < 0x800) {
		b[n++] = (unsigned char)(0xc0 | c >> 6);
		b[n++] = (unsigned char)(0x80 | (c & 63));
	} else if (c < 0x10000) {
		b[n++] = (unsigned char)(0xe0 | c >> 12);
		b[n++] = (unsigned char)(0x80 | (c >> 6 & 63));
		b[n++] = (unsigned char)(0x80 | (c & 63));
	} else {
		b[n++] = (unsigned char)(0xf0 | c >> 18);
		b[n++] = (unsigned char)(0x80 | (c >> 12 & 63));
		b[n++] = (unsigned char)(0x80 | (c >> 6 & 63));
		b[n++] = (unsigned char)(0x80 | (c & 63));
	}
	append(s, b, n);
}

/* The second half of a pair has not come. */
static inline void flush_high(struct gt_jsonlex *s)
{
	if (s->high)
		append_code(s, 0xfffd);
	s->high = 0;
}

static int hex_digit(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static const char in_string[] = "within a string", in_word[] = "within a word";

static int unicode_escape(struct gt_jsonlex *s)
{
	unsigned int c = 0;

	for (int i = 0; i < 4; i++) {
		int rc = must(s, in_string);
		int digit;

		if (rc < 0)
			return rc;
		digit = hex_digit(*s->p);
		if (digit < 0)
			return gt_jsonlex_unexpected(s, "a hexadecimal digit");
		c = c << 4 | (unsigned int)digit;
		s->p++;
	}
	if (c >= 0xdc00 && c <= 0xdfff && s->high) {
		append_code(s, 0x10000 + ((s->high - 0xd800) << 10) + (c - 0xdc00));
		s->high = 0;
		return 0;
	}
	flush_high(s);
	if (c >= 0xd800 && c <= 0xdbff)
		s->high = c;
	else
		append_code(s, c >= 0xdc00 && c <= 0xdfff ? 0xfffd : c);
	return 0;
}

/* What follows a backslash. */
static int escape(struct gt_jsonlex *s)
{
	static const char known[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	int rc = must(s, in_string);
	const char *at;

	if (rc < 0)
		return rc;
	if (*s->p == 'u') {
		s->p++;
		return unicode_escape(s);
	}
	at = memchr(known, *s->p, sizeof(known) - 1);
	if (!at)
		return gt_jsonlex_unexpected(s, "an escape that JSON knows");
	flush_high(s);
	append(s, meant + (at - known), 1);
	s->p++;
	return 0;
}

#define EACH(byte) (0x0101010101010101u * (byte))

/*
 * The first quote, backslash or control character, or the end. *seen: the bits of what is before
 * it, and maybe of a few bytes behind.
 */
static const unsigned char *plain_end(const unsigned char *p, const unsigned char *end,
				      uint64_t *seen)
{
	/* Eight at a time: the top bit of a byte is set where one of the three is met. */
	while (end - p >= 8) {
		uint64_t x = gt_get_le64(p), quote = x ^ EACH('"'), backslash = x ^ EACH('\\');
		uint64_t met = ((x - EACH(0x20)) & ~x) | ((quote - EACH(1)) & ~quote) |
			       ((backslash - EACH(1)) & ~backslash);

		met &= EACH(0x80);
		*seen |= x;
		if (met)
			return p + __builtin_ctzll(met) / 8; /* above the lowest it may be wrong */
		p += 8;
	}
	while (p < end && *p >= 0x20 && *p != '"' && *p != '\\')
		*seen |= *p++;
	return p;
}

/* The first byte of a character of UTF-8: what is to follow. */
static void begin_character(struct gt_jsonlex *s, unsigned char c)
{
	s->first = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
	s->last = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
	if (c >= 0xc2 && c <= 0xdf)
		s->more = 1;
	else if (c >= 0xe0 && c <= 0xef)
		s->more = 2;
	else if (c >= 0xf0 && c <= 0xf4)
		s->more = 3;
	else
		s->bad_utf8 += c >= 0x80;
}

static void check_utf8(struct gt_jsonlex *s, const unsigned char *p, const unsigned char *end)
{
	for (; p < end; p++) {
		if (!s->more) {
			begin_character(s, *p);
		} else if (*p >= s->first && *p <= s->last) {
			s->more--;
			s->first = 0x80;
			s->last = 0xbf;
		} else {
			s->bad_utf8++;
			s->more = 0;
			begin_character(s, *p);
		}
	}
}

int gt_jsonlex_string(struct gt_jsonlex *s)
{
	for (;;) {
		uint64_t seen = 0;
		const unsigned char *stop = plain_end(s->p, s->end, &seen);
		int rc;

		if (stop > s->p) {
			flush_high(s);
			if ((seen & EACH(0x80)) || s->more)
				check_utf8(s, s->p, stop);
			append(s, s->p, (size_t)(stop - s->p));
			s->p = stop;
		}
		if (stop == s->end) {
			rc = must(s, in_string);
			if (rc < 0)
				return rc;
			continue;
		}
		s->bad_utf8 += s->more != 0;
		s->more = 0;
		if (*s->p < 0x20)
			return gt_jsonlex_fail(s, -EBADMSG, gt_jsonlex_position(s),
					       "control character 0x%02x within a string", *s->p);
		if (*s->p++ == '"')
			break;
		rc = escape(s);
		if (rc < 0)
			return rc;
	}
	flush_high(s);
	return 0;
}

/* ---- numbers and words ---- */

int gt_jsonlex_word(struct gt_jsonlex *s, const char *text)
{
	for (const char *c = text; *c; c++) {
		int rc = must(s, in_word);

		if (rc < 0)
			return rc;
		if (*s->p != (unsigned char)*c)
			return gt_jsonlex_unexpected(s, text);
		append(s, c, 1);
		s->p++;
	}
	return 0;
}

/* What Python's, C's and JavaScript's libraries write. 1: taken; 0: it is none of these. */
static int lenient_word(struct gt_jsonlex *s)
{
	static const char *const words[] = {"NaN", "Infinity", "inf", "nan"};

	for (size_t i = 0; i < GT_ARRAY_SIZE(words); i++) {
		int rc;

		if (*s->p != (unsigned char)words[i][0])
			continue;
		rc = gt_jsonlex_word(s, words[i]);
		if (rc < 0)
			return rc;
		s->words++;
		return 1;
	}
	return 0;
}

int gt_jsonlex_null(struct gt_jsonlex *s)
{
	int rc;

	append(s, "n", 1);
	s->p++;
	rc = must(s, in_word);
	if (rc < 0)
		return rc;
	if (!s->lenient || *s->p != 'a')
		return gt_jsonlex_word(s, "ull");
	rc = gt_jsonlex_word(s, "an");
	if (rc < 0)
		return rc;
	s->words++;
	return 1;
}

enum byte_class { OTHER, DIGIT_0, DIGIT_1_9, MINUS, PLUS, POINT, EXPONENT, CLASSES };

static const uint8_t classes[256] = {
	['0'] = DIGIT_0, ['1' ... '9'] = DIGIT_1_9, ['-'] = MINUS,    ['+'] = PLUS,
	['.'] = POINT,   ['e'] = EXPONENT,          ['E'] = EXPONENT,
};

int gt_jsonlex_number(struct gt_jsonlex *s)
{
	enum { START, SIGN, ZERO, INT, DOT, FRAC, EXP, EXP_SIGN, EXP_INT, BAD };
	static const uint8_t next[][CLASSES] = {
		/* what ends it, 0, 1-9, -, +, a point, e or E */
		[START] = {BAD, ZERO, INT, SIGN, BAD, BAD, BAD},
		[SIGN] = {BAD, ZERO, INT, BAD, BAD, BAD, BAD},
		[ZERO] = {BAD, BAD, BAD, BAD, BAD, DOT, EXP},
		[INT] = {BAD, INT, INT, BAD, BAD, DOT, EXP},
		[DOT] = {BAD, FRAC, FRAC, BAD, BAD, BAD, BAD},
		[FRAC] = {BAD, FRAC, FRAC, BAD, BAD, BAD, EXP},
		[EXP] = {BAD, EXP_INT, EXP_INT, EXP_SIGN, EXP_SIGN, BAD, BAD},
		[EXP_SIGN] = {BAD, EXP_INT, EXP_INT, BAD, BAD, BAD, BAD},
		[EXP_INT] = {BAD, EXP_INT, EXP_INT, BAD, BAD, BAD, BAD},
	};
	unsigned int at = START;
	int whole, rc;

	for (;;) {
		const unsigned char *from = s->p, *p = from, *end = s->end;
		unsigned int to = BAD;

		while (p < end && (to = next[at][classes[*p]]) != BAD) {
			at = to;
			p++;
		}
		append(s, from, (size_t)(p - from));
		s->p = p;
		if (p < end) {
			if (classes[*p] != OTHER)
				at = BAD;
			break;
		}
		rc = gt_jsonlex_refill(s);
		if (rc < 0)
			return rc;
		if (rc == 0)
			break;
	}
	whole = at == ZERO || at == INT || at == FRAC || at == EXP_INT;
	if (whole)
		return 0;
	if (s->p == s->end)
		return gt_jsonlex_truncated(s, "within a number");
	if (s->lenient && (at == START || at == SIGN)) {
		rc = lenient_word(s);
		if (rc)
			return rc < 0 ? rc : 0;
	}
	if (at == START && *s->p == 0xef && gt_jsonlex_position(s) == 0)
		return gt_jsonlex_fail(s, -EBADMSG, 0,
				       "a byte-order mark, which JSON does not allow");
	if (at == START)
		return gt_jsonlex_unexpected(s, "a value");
	return gt_jsonlex_unexpected(s, at == BAD ? "the end of the number" : "a digit");
}
