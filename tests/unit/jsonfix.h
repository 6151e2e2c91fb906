/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jsonfix.h - for the tests of JSON: descriptors and files with a given text, plain or compressed.
 * Everything fails the test if it cannot be had.
 */
#ifndef GT_JSONFIX_H
#define GT_JSONFIX_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <zlib.h>

#include "base.h"

static inline int text_fd(const void *text, size_t len)
{
	int fd = memfd_create("json", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, text, len, 0), (ssize_t)len);
	return fd;
}

/* A path by which fd can be opened anew. */
static inline const char *fd_path(int fd, char path[32])
{
	snprintf(path, 32, "/proc/self/fd/%d", fd);
	return path;
}

/* What the gzip file for this text is; free() it. */
static inline void *gzip(const void *text, size_t len, size_t *out_len)
{
	z_stream z = {.next_in = (unsigned char *)text, .avail_in = (unsigned int)len};
	uint8_t *out;

	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	z.avail_out = (unsigned int)deflateBound(&z, len);
	out = malloc(z.avail_out);
	assert_non_null(out);
	z.next_out = out;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	*out_len = z.total_out;
	deflateEnd(&z);
	return out;
}

/* All of a descriptor, NUL-terminated; free() it. */
static inline char *fd_text(int fd, size_t *len)
{
	off_t n = lseek(fd, 0, SEEK_END);
	char *text = calloc(1, (size_t)n + 1);

	assert_true(n >= 0 && text);
	assert_int_equal(pread(fd, text, (size_t)n, 0), n);
	if (len)
		*len = (size_t)n;
	return text;
}

#endif
