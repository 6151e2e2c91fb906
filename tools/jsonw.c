// SPDX-License-Identifier: Apache-2.0
#include "jsonw.h"

#include <poll.h>
#include <zlib.h>

#define GZIP_LEVEL  1 /* JSON shrinks to a tenth by that; more costs far more than it brings */
#define GZIP_FORMAT (MAX_WBITS + 16)

struct gt_jsonw_gzip {
	z_stream z;
	uint8_t out[1 << 16];
};

static const char digit_pairs[] = "00010203040506070809"
				  "10111213141516171819"
				  "20212223242526272829"
				  "30313233343536373839"
				  "40414243444546474849"
				  "50515253545556575859"
				  "60616263646566676869"
				  "70717273747576777879"
				  "80818283848586878889"
				  "90919293949596979899";

static int write_all(int fd, const char *p, size_t len)
{
	while (len) {
		ssize_t n = write(fd, p, len);

		if (n > 0) {
			p += n;
			len -= (size_t)n;
		} else if (n == 0) {
			return -EIO;
		} else if (errno == EAGAIN) {
			/* Somebody made the pipe on standard output non-blocking. */
			struct pollfd pfd = {.fd = fd, .events = POLLOUT};

			if (poll(&pfd, 1, -1) < 0 && errno != EINTR)
				return -errno;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

/* Hands the buffer to the compressor; flush: Z_NO_FLUSH, or Z_FINISH, which ends the member. */
static int deflate_all(struct gt_jsonw *w, int flush)
{
	z_stream *z = &w->gzip->z;
	int err;

	z->next_in = (Bytef *)w->buf;
	z->avail_in = (uInt)w->used;
	do {
		z->next_out = w->gzip->out;
		z->avail_out = sizeof(w->gzip->out);
		if (deflate(z, flush) == Z_STREAM_ERROR)
			return -EINVAL;
		err = write_all(w->fd, (const char *)w->gzip->out,
				sizeof(w->gzip->out) - z->avail_out);
		if (err)
			return err;
	} while (!z->avail_out);
	return flush == Z_FINISH && deflateReset(z) != Z_OK ? -EINVAL : 0;
}

static void drain(struct gt_jsonw *w, int flush)
{
	int begun = w->used || (w->gzip && w->gzip->z.total_in);

	if (!w->err && begun)
		w->err = w->gzip ? deflate_all(w, flush) : write_all(w->fd, w->buf, w->used);
	w->drained += w->used;
	w->used = 0;
}

void gt_jsonw_drain(struct gt_jsonw *w)
{
	drain(w, Z_NO_FLUSH);
}

int gt_jsonw_flush(struct gt_jsonw *w)
{
	drain(w, Z_FINISH);
	return w->err;
}

static struct gt_jsonw_gzip *new_gzip(void)
{
	struct gt_jsonw_gzip *g = calloc(1, sizeof(*g));

	if (g && deflateInit2(&g->z, GZIP_LEVEL, Z_DEFLATED, GZIP_FORMAT, MAX_MEM_LEVEL,
			      Z_DEFAULT_STRATEGY) != Z_OK) {
		free(g);
		return NULL;
	}
	return g;
}

int gt_jsonw_init(struct gt_jsonw *w, int fd, int gzip)
{
	gt_autofree char *buf = malloc(GT_JSONW_BUFFER);
	struct gt_jsonw_gzip *g = gzip ? new_gzip() : NULL;

	if (!buf || (gzip && !g)) {
		if (g)
			deflateEnd(&g->z);
		free(g);
		return -ENOMEM;
	}
	*w = (struct gt_jsonw){.fd = fd, .buf = gt_steal_ptr(buf), .gzip = g};
	return 0;
}

void gt_jsonw_fini(struct gt_jsonw *w)
{
	if (w->gzip)
		deflateEnd(&w->gzip->z);
	free(w->gzip);
	w->gzip = NULL;
	free(w->buf);
	w->buf = NULL;
}

void gt_jsonw_raw(struct gt_jsonw *w, const char *text, size_t len)
{
	while (len) {
		size_t n = len < GT_JSONW_ROOM_MAX ? len : GT_JSONW_ROOM_MAX;
		char *p = gt_jsonw_room(w, n);

		memcpy(p, text, n);
		gt_jsonw_filled(w, p + n);
		text += n;
		len -= n;
	}
}

static unsigned int digits(uint64_t v)
{
	unsigned int n = 1;

	for (;;) {
		if (v < 10)
			return n;
		if (v < 100)
			return n + 1;
		if (v < 1000)
			return n + 2;
		if (v < 10000)
			return n + 3;
		v /= 10000;
		n += 4;
	}
}

char *gt_fmt_u64(char *p, uint64_t v)
{
	char *end = p + digits(v);
	char *q = end;

	while (v >= 100) {
		q -= 2;
		memcpy(q, digit_pairs + v % 100 * 2, 2);
		v /= 100;
	}
	if (v >= 10)
		memcpy(p, digit_pairs + v * 2, 2);
	else
		*p = (char)('0' + v);
	return end;
}

char *gt_fmt_us(char *p, uint64_t ns)
{
	size_t frac = ns % 1000;

	p = gt_fmt_u64(p, ns / 1000);
	*p++ = '.';
	*p++ = (char)('0' + frac / 100);
	memcpy(p, digit_pairs + frac % 100 * 2, 2);
	return p + 2;
}

void gt_jsonw_u64(struct gt_jsonw *w, uint64_t v)
{
	gt_jsonw_filled(w, gt_fmt_u64(gt_jsonw_room(w, GT_U64_LEN), v));
}

void gt_jsonw_us(struct gt_jsonw *w, uint64_t ns)
{
	gt_jsonw_filled(w, gt_fmt_us(gt_jsonw_room(w, GT_US_LEN), ns));
}

/*
 * Length of the UTF-8 sequence at s, or minus the length of the maximal part of one that cannot
 * be continued (Unicode 15, table 3-7 and section 3.9): at least 1.
 */
static int utf8_len(const unsigned char *s, size_t len)
{
	unsigned char low = 0x80, high = 0xbf;
	int need;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		need = 1;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		need = 2;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		need = 3;
	else
		return -1;
	if (s[0] == 0xe0)
		low = 0xa0; /* shorter forms exist */
	else if (s[0] == 0xed)
		high = 0x9f; /* surrogates */
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f; /* beyond U+10FFFF */
	for (int i = 1; i <= need; i++) {
		if ((size_t)i >= len || s[i] < low || s[i] > high)
			return -i;
		low = 0x80;
		high = 0xbf;
	}
	return need + 1;
}

static char *escape(char *p, unsigned char c)
{
	static const char short_form[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f',
					  ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\'};
	static const char hex[] = "0123456789abcdef";

	*p++ = '\\';
	if (c < sizeof(short_form) && short_form[c]) {
		*p++ = short_form[c];
		return p;
	}
	memcpy(p, "u00", 3);
	p[3] = hex[c >> 4];
	p[4] = hex[c & 15];
	return p + 5;
}

void gt_jsonw_chars(struct gt_jsonw *w, const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;

	while (len) {
		char *p = gt_jsonw_room(w, 8);
		int n = utf8_len(s, len);

		if (n < 0) {
			n = -n;
			memcpy(p, "\xef\xbf\xbd", 3);
			p += 3;
		} else if (n == 1 && (*s < 0x20 || *s == 0x7f || *s == '"' || *s == '\\')) {
			p = escape(p, *s);
		} else {
			memcpy(p, s, (size_t)n);
			p += n;
		}
		gt_jsonw_filled(w, p);
		s += n;
		len -= (size_t)n;
	}
}
