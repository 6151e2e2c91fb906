// SPDX-License-Identifier: Apache-2.0
#include "blob.h"

#define LINE 1024 /* a multiple of 4; editors choke on one line of megabytes */

int gt_blob_begin(struct gt_blob *b, struct gt_jsonw *w)
{
	memset(&b->z, 0, sizeof(b->z));
	b->w = w;
	b->err = 0;
	b->used = b->rest = b->column = 0;
	if (deflateInit2(&b->z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	return 0;
}

/* Four characters for n <= 3 bytes. */
static void put_group(struct gt_blob *b, const uint8_t *in, uint32_t n)
{
	static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789+/=";
	uint32_t v = (uint32_t)in[0] << 16 | (n > 1 ? in[1] : 0u) << 8 | (n > 2 ? in[2] : 0u);
	char *p = gt_jsonw_room(b->w, 5);

	*p++ = digit[v >> 18];
	*p++ = digit[v >> 12 & 63];
	*p++ = digit[n > 1 ? v >> 6 & 63 : 64];
	*p++ = digit[n > 2 ? v & 63 : 64];
	b->column += 4;
	if (b->column == LINE) {
		*p++ = '\n';
		b->column = 0;
	}
	gt_jsonw_filled(b->w, p);
}

static void put_base64(struct gt_blob *b, const uint8_t *in, size_t len)
{
	while (len) {
		if (!b->rest && len >= 3) {
			put_group(b, in, 3);
			in += 3;
			len -= 3;
			continue;
		}
		b->tail[b->rest++] = *in++;
		len--;
		if (b->rest == 3) {
			put_group(b, b->tail, 3);
			b->rest = 0;
		}
	}
}

static void squeeze(struct gt_blob *b, int flush)
{
	uint8_t out[16384];
	int ret;

	b->z.next_in = b->in;
	b->z.avail_in = b->used;
	do {
		b->z.next_out = out;
		b->z.avail_out = sizeof(out);
		ret = deflate(&b->z, flush);
		if (ret != Z_OK && ret != Z_STREAM_END && ret != Z_BUF_ERROR) {
			b->err = -ENOMEM;
			break;
		}
		put_base64(b, out, sizeof(out) - b->z.avail_out);
	} while (!b->z.avail_out);
	b->used = 0;
}

void gt_blob_bytes(struct gt_blob *b, const void *bytes, size_t len)
{
	const uint8_t *p = bytes;

	while (len) {
		size_t n = sizeof(b->in) - b->used;

		if (n > len)
			n = len;
		memcpy(b->in + b->used, p, n);
		b->used += (uint32_t)n;
		p += n;
		len -= n;
		if (b->used == sizeof(b->in))
			squeeze(b, Z_NO_FLUSH);
	}
}

void gt_blob_varint(struct gt_blob *b, uint64_t v)
{
	uint8_t buf[10];
	size_t n = 0;

	while (v >= 0x80) {
		buf[n++] = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	buf[n++] = (uint8_t)v;
	gt_blob_bytes(b, buf, n);
}

int gt_blob_end(struct gt_blob *b)
{
	squeeze(b, Z_FINISH);
	deflateEnd(&b->z);
	if (b->rest)
		put_group(b, b->tail, b->rest);
	b->rest = 0;
	return b->err;
}
