// SPDX-License-Identifier: Apache-2.0
#include "merge.h"

#include <inttypes.h>
#include <stdio.h>
#include <zlib.h>

#include "log.h"

#define CHUNK        (256u << 10)
#define STATUS_BYTES (128u << 20) /* how often progress is shown */

struct copier {
	gzFile gz;
	char *buf;
	struct gt_jsonw *w;
	const char *path;
	uint64_t done;
	int fd; /* of gz */
	char *why;
	size_t why_size;
};

static int read_failed(struct copier *c, int errno_of_read)
{
	int zerr;
	const char *words = gzerror(c->gz, &zerr), *colon = strstr(words, ": ");

	if (colon)
		words = colon + 2; /* before it, zlib names the descriptor */
	if (zerr == Z_ERRNO && errno_of_read) {
		snprintf(c->why, c->why_size, "%s", strerror(errno_of_read));
		return -errno_of_read;
	}
	snprintf(c->why, c->why_size, "the compressed data are damaged (%s)", words);
	return zerr == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
}

static int stale(struct copier *c)
{
	snprintf(c->why, c->why_size,
		 "it has changed while it was read; try again when it is "
		 "no longer written to");
	return -ESTALE;
}

/* Up to this offset of the text. */
static int copy_to(struct copier *c, uint64_t end)
{
	while (c->done < end && !c->w->err) {
		uint64_t left = end - c->done;
		int n;

		errno = 0;
		n = gzread(c->gz, c->buf, left < CHUNK ? (unsigned int)left : CHUNK);
		if (n < 0)
			return read_failed(c, errno);
		if (n == 0)
			return stale(c);
		gt_jsonw_raw(c->w, c->buf, (size_t)n);
		if ((c->done + (uint64_t)n) / STATUS_BYTES != c->done / STATUS_BYTES)
			gt_status("merging %s: %" PRIu64 " of %" PRIu64 " MiB", c->path,
				  (c->done + (uint64_t)n) >> 20, end >> 20);
		c->done += (uint64_t)n;
	}
	return c->w->err;
}

static int merge(struct copier *c, const struct gt_proftrace *t, int (*events)(void *ctx, int *any),
		 void *ctx)
{
	int any = 0;
	int rc;

	if (!gt_file_is(c->fd, &t->file))
		return stale(c);
	rc = copy_to(c, t->array_offset);
	if (rc)
		return rc;
	rc = events(ctx, &any);
	if (rc)
		return rc;
	if (any && t->any)
		gt_jsonw_lit(c->w, ",");
	rc = copy_to(c, t->cut ? t->whole : t->size);
	if (rc)
		return rc;
	if (t->cut && t->in_array)
		gt_jsonw_lit(c->w, "]");
	if (t->cut && t->object)
		gt_jsonw_lit(c->w, "}");
	return gt_file_is(c->fd, &t->file) ? c->w->err : stale(c);
}

int gt_merge(const char *path, const struct gt_proftrace *t, struct gt_jsonw *w,
	     int (*events)(void *ctx, int *any), void *ctx, char *why, size_t why_size)
{
	struct copier c = {.w = w, .path = path, .why = why, .why_size = why_size};
	gt_autofree char *buf = malloc(CHUNK);
	struct gt_file_id file;
	int rc;

	why[0] = '\0';
	if (!buf)
		return -ENOMEM;
	c.buf = buf;
	c.fd = gt_file_open(path, &file, why, why_size);
	if (c.fd < 0)
		return c.fd;
	c.gz = gzdopen(c.fd, "rb");
	if (!c.gz) {
		close(c.fd);
		return -ENOMEM;
	}
	/* At most half of ours, or zlib copies everything once more. */
	gzbuffer(c.gz, CHUNK / 4);
	rc = merge(&c, t, events, ctx);
	gzclose_r(c.gz);
	gt_status("%s", "");
	return rc;
}
