/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jsonscan.h - a pull parser for JSON of any size from a descriptor: tokens with their byte
 * offsets, one buffer, no tree. Trusts nothing: strict RFC 8259 grammar, but for UTF-8 in strings,
 * which is handed on as it is, and counted where it is broken; nesting has a maximum. A byte-order
 * mark is an error. Reads plain and gzip files alike (zlib's gzread tells them apart); offsets are
 * those of the plain text.
 *
 * Used by one thread. The descriptor is taken over. After an error every call returns it again.
 */
#ifndef GT_JSONSCAN_H
#define GT_JSONSCAN_H

#include "base.h"

#define GT_JSONSCAN_DEPTH_MAX 256
#define GT_JSONSCAN_TEXT_MAX  4096 /* of a string or number that is kept; longer ones are cut */
#define GT_JSONSCAN_BUFFER    (256u << 10)

enum gt_json_token {
	GT_JSON_END, /* of the document; only white space follows */
	GT_JSON_OBJECT,
	GT_JSON_OBJECT_END,
	GT_JSON_ARRAY,
	GT_JSON_ARRAY_END,
	GT_JSON_KEY,    /* its value is the next token */
	GT_JSON_STRING, /* unescaped; a lone surrogate is U+FFFD */
	GT_JSON_NUMBER, /* as it stands in the text */
	GT_JSON_TRUE,
	GT_JSON_FALSE,
	GT_JSON_NULL,
};

struct gt_jsonscan;

int gt_jsonscan_open(int fd, struct gt_jsonscan **out); /* -ENOMEM (closes fd) */
/* With a buffer of any size from 1 on, so that a test can cut the reads anywhere. */
int gt_jsonscan_open_buffer(int fd, size_t size, struct gt_jsonscan **out);
void gt_jsonscan_close(struct gt_jsonscan *s);

/*
 * From now on NaN, nan, Infinity, inf and their negatives are taken for numbers, which JSON does
 * not know but programs write. gt_jsonscan_words() tells how many there were: such a text is no
 * JSON.
 */
void gt_jsonscan_lenient(struct gt_jsonscan *s);
uint64_t gt_jsonscan_words(const struct gt_jsonscan *s);

/* Places in strings that are no UTF-8, so far: such a text is no JSON, either. */
uint64_t gt_jsonscan_bad_utf8(const struct gt_jsonscan *s);

/* The next token (>= 0), or -errno: -EBADMSG no JSON, -EPIPE ends too early, others of reading. */
int gt_jsonscan_next(struct gt_jsonscan *s);

/*
 * Skips the value that comes next (after a KEY, in an array, or the whole document), whatever it
 * is. 0 or -errno. -EINVAL: there is none (an array or object ends, or a key comes).
 */
int gt_jsonscan_skip(struct gt_jsonscan *s);

/* Skips what is left of the innermost open array or object, its end included. 0 or -errno. */
int gt_jsonscan_leave(struct gt_jsonscan *s);

/*
 * Of the latest KEY, STRING or NUMBER: NUL-terminated, valid until the next call. A string may have
 * NULs inside (\u0000), which `len` (may be NULL) tells.
 */
const char *gt_jsonscan_text(const struct gt_jsonscan *s, size_t *len);
int gt_jsonscan_cut(const struct gt_jsonscan *s); /* it was longer than GT_JSONSCAN_TEXT_MAX */
int gt_jsonscan_is(const struct gt_jsonscan *s, const char *word); /* it is this, wholly */

unsigned int gt_jsonscan_depth(const struct gt_jsonscan *s); /* open arrays and objects */
uint64_t gt_jsonscan_offset(const struct gt_jsonscan *s);    /* of the latest token's first byte */
uint64_t gt_jsonscan_behind(const struct gt_jsonscan *s);    /* of the byte behind its last one */
int gt_jsonscan_gzip(const struct gt_jsonscan *s); /* is it compressed? after the first token */
const char *gt_jsonscan_problem(const struct gt_jsonscan *s); /* words for the latest error */

/*
 * A decimal number of microseconds ("1732.5", 1.7e3), as traces have them, as nanoseconds, exactly;
 * digits beyond the third decimal are cut. 0 or -ERANGE, -EINVAL. No double is involved.
 */
int gt_us_to_ns(const char *text, int64_t *ns);

#endif
