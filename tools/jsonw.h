/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jsonw.h - JSON text into a descriptor, compressed if asked for: one buffer, own integer
 * formatting, strict UTF-8.
 *
 * It knows nothing of structure: the caller writes the punctuation. The first error of write(2)
 * is remembered, what comes after it is thrown away, and gt_jsonw_flush() returns it. The
 * descriptor stays the caller's. Used by one thread.
 */
#ifndef GT_JSONW_H
#define GT_JSONW_H

#include "base.h"

#define GT_JSONW_BUFFER   (1u << 20)
#define GT_JSONW_ROOM_MAX 4096 /* most that may be asked for at once */
#define GT_U64_LEN        20   /* longest text of gt_fmt_u64() */
#define GT_US_LEN         21   /* longest text of gt_fmt_us() */

struct gt_jsonw_gzip;

struct gt_jsonw {
	int fd;
	int err; /* 0 or the -errno of the first write that failed */
	size_t used;
	char *buf;
	uint64_t drained;           /* bytes of text that have left the buffer */
	struct gt_jsonw_gzip *gzip; /* NULL: plain text */
};

/* gzip: 1 compresses, with the same bytes for the same text. -ENOMEM. */
int gt_jsonw_init(struct gt_jsonw *w, int fd, int gzip);
void gt_jsonw_fini(struct gt_jsonw *w); /* frees; does not flush */

/*
 * Writes out what there is, so that all text so far can be read: with gzip this ends a member, and
 * what is written later begins another, which costs some compression. 0 or the first error so far.
 */
int gt_jsonw_flush(struct gt_jsonw *w);

/* Makes room in the buffer, without that promise. */
void gt_jsonw_drain(struct gt_jsonw *w);

/* How much text there was so far, before compression. */
static inline uint64_t gt_jsonw_bytes(const struct gt_jsonw *w)
{
	return w->drained + w->used;
}

/* Space for n <= GT_JSONW_ROOM_MAX bytes; what was filled is then given to gt_jsonw_filled(). */
static inline char *gt_jsonw_room(struct gt_jsonw *w, size_t n)
{
	if (GT_JSONW_BUFFER - w->used < n)
		gt_jsonw_drain(w);
	return w->buf + w->used;
}

static inline void gt_jsonw_filled(struct gt_jsonw *w, const char *end)
{
	w->used = (size_t)(end - w->buf);
}

void gt_jsonw_raw(struct gt_jsonw *w, const char *text, size_t len);
#define gt_jsonw_lit(w, literal) gt_jsonw_raw((w), "" literal, sizeof(literal) - 1)
void gt_jsonw_u64(struct gt_jsonw *w, uint64_t v);
void gt_jsonw_us(struct gt_jsonw *w, uint64_t ns); /* as gt_fmt_us() */

/*
 * The inside of a JSON string, without its quotes: escaped as needed; each maximal part that is
 * no UTF-8 becomes one U+FFFD, so cut or arbitrary bytes are fine.
 */
void gt_jsonw_chars(struct gt_jsonw *w, const char *text, size_t len);

/* Write at p without a terminating NUL and return the end. */
char *gt_fmt_u64(char *p, uint64_t v);
char *gt_fmt_us(char *p, uint64_t ns); /* microseconds with three decimals: 1234 -> 1.234 */

#endif
