// SPDX-License-Identifier: Apache-2.0
#include "gilfile_write.h"
#include "gilfile_codec.h"

#include <elf.h>
#include <zlib.h>

#define BLOCK_ROOM (64u * 1024) /* payload of an EVENTS block */

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#define OWN_MACHINE EM_NONE
#endif

struct gt_gilfile {
	int fd;
	gt_gilfile_keep_fn keep; /* NULL: blocks go to the file */
	void *ctx;
	int err; /* of the first write that failed */
	uint64_t bytes;
	uint64_t seq;
	uint64_t lost_total; /* as last told */
	uint64_t written, unwritten;
	uint32_t pending; /* events (not threads, GILs, losses) in the block in memory */
	size_t len;       /* of its payload */
	struct gt_encoder enc;
	uint8_t block[GIL_BLOCK_HEADER_SIZE + BLOCK_ROOM];
};

static int write_all(int fd, const uint8_t *p, size_t n)
{
	while (n) {
		ssize_t w = write(fd, p, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -errno;
		if (!w)
			return -EIO;
		p += w;
		n -= (size_t)w;
	}
	return 0;
}

/* buf: room for the block's header, then its payload. */
static int write_block(struct gt_gilfile *f, struct gt_block *b, uint8_t *buf)
{
	size_t total = GIL_BLOCK_HEADER_SIZE + (size_t)b->size;

	if (f->err)
		return f->err;
	b->seq = f->seq;
	b->lost_total = f->lost_total;
	if (f->keep) {
		f->err = f->keep(f->ctx, b, buf + GIL_BLOCK_HEADER_SIZE);
		return f->err;
	}
	b->payload_crc = (uint32_t)crc32(0, buf + GIL_BLOCK_HEADER_SIZE, b->size);
	gt_block_put(buf, b);
	gt_put_le32(buf + 52, (uint32_t)crc32(0, buf, 52));
	f->err = write_all(f->fd, buf, total);
	if (f->err) {
		/* A part of it may have been written. If this fails, a reader says so: no harm. */
		if (ftruncate(f->fd, (off_t)f->bytes)) {
		}
		return f->err;
	}
	f->seq++;
	f->bytes += total;
	return 0;
}

int gt_gilfile_create(int fd, struct gt_gilfile **out)
{
	gt_autoclose int own = fd;
	struct gt_gilfile *f;
	uint8_t h[GIL_HEADER_SIZE] = {0};
	int r;

	memcpy(h, GIL_MAGIC, 8);
	gt_put_le16(h + 8, GIL_MAJOR);
	gt_put_le16(h + 10, GIL_MINOR);
	gt_put_le32(h + 12, GIL_HEADER_SIZE);
	gt_put_le32(h + 16, OWN_MACHINE);
	gt_put_le32(h + 28, (uint32_t)crc32(0, h, 28));
	r = write_all(own, h, sizeof(h));
	if (r)
		return r;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->bytes = sizeof(h);
	f->fd = gt_steal_fd(&own);
	*out = f;
	return 0;
}

int gt_gilfile_create_kept(gt_gilfile_keep_fn keep, void *ctx, struct gt_gilfile **out)
{
	struct gt_gilfile *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->fd = -1;
	f->keep = keep;
	f->ctx = ctx;
	*out = f;
	return 0;
}

int gt_gilfile_is_kept(const struct gt_gilfile *f)
{
	return f->keep != NULL;
}

int gt_gilfile_put(struct gt_gilfile *f, const struct gt_block *b, const uint8_t *payload)
{
	gt_autofree uint8_t *buf = malloc(GIL_BLOCK_HEADER_SIZE + (size_t)b->size);
	struct gt_block copy = *b;

	if (!buf)
		return -ENOMEM;
	memcpy(buf + GIL_BLOCK_HEADER_SIZE, payload, b->size);
	return write_block(f, &copy, buf);
}

int gt_gilfile_meta(struct gt_gilfile *f, const char *const (*pairs)[2], size_t n)
{
	struct gt_block b = {.type = GIL_BLOCK_META};
	gt_autofree uint8_t *buf = NULL;
	size_t room = GIL_BLOCK_HEADER_SIZE;
	uint8_t *p;

	for (size_t i = 0; i < n; i++) {
		size_t k = strlen(pairs[i][0]), v = pairs[i][1] ? strlen(pairs[i][1]) : 0;

		if (k > GIL_BLOCK_PAYLOAD_MAX || v > GIL_BLOCK_PAYLOAD_MAX)
			return -E2BIG;
		room += k + v + 6; /* lengths up to 2^20 take 3 bytes each */
		if (room > GIL_BLOCK_HEADER_SIZE + GIL_BLOCK_PAYLOAD_MAX)
			return -E2BIG;
	}
	buf = malloc(room);
	if (!buf)
		return -ENOMEM;
	p = buf + GIL_BLOCK_HEADER_SIZE;
	for (size_t i = 0; i < n; i++) {
		if (!pairs[i][1])
			continue;
		p = gt_string_put(p, pairs[i][0]);
		p = gt_string_put(p, pairs[i][1]);
		b.count++;
	}
	b.size = (uint32_t)(p - buf - GIL_BLOCK_HEADER_SIZE);
	return b.count ? write_block(f, &b, buf) : f->err;
}

int gt_gilfile_sites(struct gt_gilfile *f, const struct gil_site *sites, size_t n)
{
	struct gt_block b = {.type = GIL_BLOCK_SITES, .count = (uint32_t)n};
	gt_autofree uint8_t *buf = NULL;
	uint8_t *p;

	if (n > UINT8_MAX + 1)
		return -E2BIG;
	buf = malloc(GIL_BLOCK_HEADER_SIZE + n * (GT_SITE_HEAD + GIL_SITE_HOW_MAX));
	if (!buf)
		return -ENOMEM;
	p = buf + GIL_BLOCK_HEADER_SIZE;
	for (size_t i = 0; i < n; i++)
		p = gt_site_put(p, &sites[i]);
	b.size = (uint32_t)(p - buf - GIL_BLOCK_HEADER_SIZE);
	return write_block(f, &b, buf);
}

int gt_gilfile_clock(struct gt_gilfile *f, const struct gil_clock *sample)
{
	uint8_t buf[GIL_BLOCK_HEADER_SIZE + GT_CLOCK_SIZE];
	struct gt_block b = {
		.type = GIL_BLOCK_CLOCK,
		.size = GT_CLOCK_SIZE,
		.count = 1,
		.first_ns = sample->mono_ns,
		.last_ns = sample->mono_ns,
	};

	gt_clock_put(buf + GIL_BLOCK_HEADER_SIZE, sample);
	return write_block(f, &b, buf);
}

/* Two records are always within one block: it is sealed while there is room for several more. */
static uint8_t *put_event(struct gt_gilfile *f, uint8_t *p, const struct gil_event *ev)
{
	if (ev->kind == GIL_RELEASE && ev->forced) {
		struct gil_event forced = *ev;

		forced.kind = GIL_FORCED;
		forced.site = 0;
		p = gt_encode(&f->enc, p, &forced);
	}
	return gt_encode(&f->enc, p, ev);
}

/* What a reader would take for damage. */
static int lacks_fields(const struct gil_event *ev)
{
	switch (ev->kind) {
	case GIL_LATE:
		return !ev->late.begin_mono_ns;
	case GIL_PAUSED:
		return !ev->paused.begin_mono_ns;
	case GIL_MARK:
		return !ev->mark.name || !ev->mark.name[0];
	}
	return 0;
}

int gt_gilfile_add(struct gt_gilfile *f, const struct gil_event *ev, uint64_t lost_total)
{
	uint32_t is_event;
	uint8_t *p;

	if (!gt_is_known(ev) || !ev->mono_ns || ev->mono_ns >= GIL_TIME_MAX || lacks_fields(ev))
		return -EINVAL;
	is_event = GT_KINDS_EVENTS >> ev->kind & 1;
	if (f->err) {
		f->unwritten += is_event;
		return f->err;
	}
	if (!f->enc.count)
		gt_encoder_reset(&f->enc);
	p = f->block + GIL_BLOCK_HEADER_SIZE + f->len;
	f->len += (size_t)(put_event(f, p, ev) - p);
	f->pending += is_event;
	if (f->len > BLOCK_ROOM - GT_RECORD_MAX || f->enc.nthreads == GIL_BLOCK_THREADS_MAX)
		return gt_gilfile_flush(f, lost_total);
	return 0;
}

int gt_gilfile_flush(struct gt_gilfile *f, uint64_t lost_total)
{
	struct gt_block b = {
		.type = GIL_BLOCK_EVENTS,
		.codec = GIL_CODEC_DELTA,
		.size = (uint32_t)f->len,
		.count = f->enc.count,
		.first_ns = f->enc.first_ns,
		.last_ns = f->enc.last_ns,
	};
	int r;

	f->lost_total = lost_total;
	if (!b.count)
		return f->err;
	r = write_block(f, &b, f->block); /* not where another block failed: these are lost, too */
	if (r)
		f->unwritten += f->pending;
	else
		f->written += f->pending;
	f->pending = 0;
	f->len = 0;
	f->enc.count = 0;
	return r;
}

uint64_t gt_gilfile_pending_since(const struct gt_gilfile *f)
{
	return f->enc.count ? f->enc.base_ns : 0;
}

uint64_t gt_gilfile_events(const struct gt_gilfile *f)
{
	return f->written + f->pending;
}

uint64_t gt_gilfile_unwritten(const struct gt_gilfile *f)
{
	return f->unwritten;
}

uint64_t gt_gilfile_bytes(const struct gt_gilfile *f)
{
	return f->bytes;
}

int gt_gilfile_error(const struct gt_gilfile *f)
{
	return f->err;
}

int gt_gilfile_finish(struct gt_gilfile *f, enum gil_end_reason reason, uint64_t mono_ns,
		      uint64_t lost_total, uint64_t *bytes)
{
	uint8_t buf[GIL_BLOCK_HEADER_SIZE + GT_END_SIZE];
	uint8_t *p = buf + GIL_BLOCK_HEADER_SIZE;
	struct gt_block b = {
		.type = GIL_BLOCK_END,
		.size = GT_END_SIZE,
		.count = 1,
		.first_ns = mono_ns,
		.last_ns = mono_ns,
	};
	int r;

	gt_gilfile_flush(f, lost_total);
	if (bytes)
		*bytes = f->bytes;
	if (f->keep) {
		r = f->err;
		free(f);
		return r;
	}
	gt_put_le32(p, reason);
	gt_put_le64(p + 4, f->written);
	gt_put_le64(p + 12, lost_total);
	r = write_block(f, &b, buf);
	if (bytes)
		*bytes = f->bytes;
	/* Network file systems report a failed write here. */
	if (close(f->fd) && !r)
		r = -errno;
	free(f);
	return r;
}
