/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gilmake.h - for tests of the file: comparing events, files in memory (memfd), and files put
 * together byte by byte. Needs cmocka.h before it.
 */
#ifndef GT_TEST_GILMAKE_H
#define GT_TEST_GILMAKE_H

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "gilfile_codec.h"
#include "gilrandom.h"
#include "gilfile_write.h"

static inline int same_event(const struct gil_event *a, const struct gil_event *b)
{
	if (a->mono_ns != b->mono_ns || a->tid != b->tid || a->kind != b->kind ||
	    a->gil != b->gil || a->site != b->site || a->unconfirmed != b->unconfirmed ||
	    a->forced != b->forced)
		return 0;
	switch (a->kind) {
	case GIL_THREAD:
		return a->thread.ns_tid == b->thread.ns_tid &&
		       !strcmp(a->thread.comm, b->thread.comm) &&
		       a->thread.host_tid == b->thread.host_tid &&
		       !a->thread.name == !b->thread.name &&
		       (!a->thread.name || !strcmp(a->thread.name, b->thread.name));
	case GIL_GIL:
		return a->gil_ident.addr == b->gil_ident.addr;
	case GIL_LOST:
		return a->lost.begin_mono_ns == b->lost.begin_mono_ns &&
		       a->lost.count == b->lost.count;
	case GIL_BEFORE:
		return a->before.state == b->before.state;
	case GIL_LATE:
		return a->late.begin_mono_ns == b->late.begin_mono_ns;
	case GIL_MARK:
		return !strcmp(a->mark.name, b->mark.name);
	case GIL_PAUSED:
		return a->paused.begin_mono_ns == b->paused.begin_mono_ns;
	}
	return 1;
}

/* The bytes of a file, or of one in the making. */
struct bytes {
	uint8_t *p;
	size_t n;
	uint64_t seq; /* of the next block that is put */
};

static inline void bytes_put(struct bytes *b, const void *p, size_t n)
{
	b->p = realloc(b->p, b->n + n + 1);
	assert_non_null(b->p);
	memcpy(b->p + b->n, p, n);
	b->n += n;
}

static inline void bytes_free(struct bytes *b)
{
	free(b->p);
	*b = (struct bytes){0};
}

/* Puts the CRCs right of the block at an offset. */
static inline void fix_block(struct bytes *b, size_t off)
{
	uint8_t *h = b->p + off;

	gt_put_le32(h + 48, (uint32_t)crc32(0, h + 56, gt_get_le32(h + 8)));
	gt_put_le32(h + 52, (uint32_t)crc32(0, h, 52));
}

static inline void fix_header(struct bytes *b)
{
	gt_put_le32(b->p + 28, (uint32_t)crc32(0, b->p, 28));
}

static inline void put_header(struct bytes *b)
{
	uint8_t h[32] = {0x89, 'G', 'I', 'L', '\r', '\n', 0x1a, '\n', 1, 0, 0, 0, 32, 0, 0, 0, 62};

	bytes_put(b, h, sizeof(h));
	fix_header(b);
}

static inline void put_block(struct bytes *b, uint16_t type, uint8_t codec, uint32_t count,
			     uint64_t first, uint64_t last, const void *payload, size_t size)
{
	uint8_t h[56] = {'G', 'B', 'L', 'K'};
	size_t off = b->n;

	gt_put_le16(h + 4, type);
	h[6] = codec;
	gt_put_le32(h + 8, (uint32_t)size);
	gt_put_le32(h + 12, count);
	gt_put_le64(h + 16, b->seq++);
	gt_put_le64(h + 24, first);
	gt_put_le64(h + 32, last);
	bytes_put(b, h, sizeof(h));
	bytes_put(b, payload, size);
	fix_block(b, off);
}

static inline int memory_file(const void *p, size_t n)
{
	int fd = memfd_create("test.gil", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, p, n), n);
	return fd;
}

/* All of a file behind a descriptor. */
static inline struct bytes slurp(int fd)
{
	struct bytes b = {.n = (size_t)lseek(fd, 0, SEEK_END)};

	b.p = malloc(b.n + 1);
	assert_non_null(b.p);
	assert_int_equal(pread(fd, b.p, b.n, 0), b.n);
	return b;
}

/* A reader on bytes; NULL and the error where it refuses. */
static inline gil_reader *read_bytes(const void *p, size_t n, int *err, char why[512])
{
	gil_reader *r = NULL;

	why[0] = 0;
	*err = gil_reader_open_fd(memory_file(p, n), "test.gil", &r, why, 512);
	assert_true(!*err == !!r);
	assert_true(!*err == !why[0]);
	return r;
}

#endif
