/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blob.h - bytes inside a page: deflate (raw, RFC 1951), then base64, in lines. What comes out has
 * no character that means anything to HTML, whatever went in.
 *
 * Borrows the writer, whose errors are its own; remembers an error of its own until gt_blob_end().
 * Used by one thread.
 */
#ifndef GT_BLOB_H
#define GT_BLOB_H

#include <zlib.h>

#include "jsonw.h"

struct gt_blob {
	z_stream z;
	struct gt_jsonw *w;
	int err;
	uint32_t used;   /* of in[] */
	uint32_t rest;   /* of tail[] */
	uint32_t column; /* characters in the line */
	uint8_t tail[3]; /* not encoded yet: base64 takes three bytes at a time */
	uint8_t in[16384];
};

int gt_blob_begin(struct gt_blob *b, struct gt_jsonw *w); /* -ENOMEM */
void gt_blob_bytes(struct gt_blob *b, const void *bytes, size_t len);
void gt_blob_varint(struct gt_blob *b, uint64_t v); /* LEB128 */
int gt_blob_end(struct gt_blob *b);                 /* frees it; the first error: -ENOMEM */

static inline void gt_blob_u8(struct gt_blob *b, uint8_t v)
{
	gt_blob_bytes(b, &v, 1);
}

#endif
