/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jsonlex.h - the lower half of jsonscan.h, for jsonscan.c only: the bytes of a plain or gzip file
 * through one buffer, and of JSON the strings, numbers and words. Functions that return an int
 * return -errno on failure, having put the words for it into .problem.
 */
#ifndef GT_JSONLEX_H
#define GT_JSONLEX_H

#include "jsonscan.h"

#include <zlib.h>

struct gt_jsonlex {
	gzFile gz;
	unsigned char *buf;
	const unsigned char *p, *end; /* what is unread of buf */
	size_t size;
	uint64_t base;       /* offset of buf[0] in the text */
	uint64_t words;      /* NaN and the like that were let pass */
	uint64_t bad_utf8;   /* places in strings */
	size_t len;          /* of text */
	unsigned int high;   /* a \u escape that waits for its second half; 0: none */
	int err;             /* the first error; 0: none */
	uint8_t more;        /* bytes that the character at hand still needs .. */
	uint8_t first, last; /* .. and what the next of them may be */
	uint8_t keep;        /* the text of tokens is asked for */
	uint8_t cut;
	uint8_t lenient;
	uint8_t eof;
	char problem[160];
	char text[GT_JSONSCAN_TEXT_MAX + 1];
};

int gt_jsonlex_open(struct gt_jsonlex *s, int fd, size_t size); /* closes fd if it fails */
void gt_jsonlex_close(struct gt_jsonlex *s);

/* The first error stays. `at`: offset that the words are about. Returns it. */
int gt_jsonlex_fail(struct gt_jsonlex *s, int err, uint64_t at, const char *fmt, ...)
	GT_PRINTF(4, 5);
int gt_jsonlex_unexpected(struct gt_jsonlex *s, const char *wanted); /* the byte at s->p */
int gt_jsonlex_truncated(struct gt_jsonlex *s, const char *where);

/* Reads on, when all has been consumed. 1, 0 at the end, or -errno. */
int gt_jsonlex_refill(struct gt_jsonlex *s);

/* Is there another byte, at s->p? 1, 0 at the end, or -errno. */
static inline int gt_jsonlex_more(struct gt_jsonlex *s)
{
	return s->p < s->end ? 1 : gt_jsonlex_refill(s);
}

static inline uint64_t gt_jsonlex_position(const struct gt_jsonlex *s)
{
	return s->base + (uint64_t)(s->p - s->buf);
}

int gt_jsonlex_string(struct gt_jsonlex *s); /* from behind the opening quote */
int gt_jsonlex_number(struct gt_jsonlex *s); /* or, if lenient, NaN or the like */
int gt_jsonlex_word(struct gt_jsonlex *s, const char *text);
int gt_jsonlex_null(struct gt_jsonlex *s); /* 1: it is nan, if lenient */

#endif
