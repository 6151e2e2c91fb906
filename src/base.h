/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base.h - what every layer uses: cleanup attributes, checked lengths, little-endian accessors.
 * No state, no dependencies.
 */
#ifndef GT_BASE_H
#define GT_BASE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GT_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define GT_PRINTF(f, a)  __attribute__((format(printf, f, a)))
#define GT_UNUSED        __attribute__((unused))

/* Release a variable when it leaves its scope; gt_steal_* hand it on instead. */
#define gt_autofree  __attribute__((cleanup(gt_cleanup_free)))
#define gt_autoclose __attribute__((cleanup(gt_cleanup_close)))

static inline void gt_cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void gt_cleanup_close(int *fd)
{
	if (*fd >= 0) {
		int keep = errno;

		close(*fd);
		errno = keep;
	}
}

#define gt_steal_ptr(p)                                                                            \
	({                                                                                         \
		__typeof__(p) gt_stolen_ = (p);                                                    \
		(p) = NULL;                                                                        \
		gt_stolen_;                                                                        \
	})

static inline int gt_steal_fd(int *fd)
{
	int v = *fd;

	*fd = -1;
	return v;
}

/* Does [off, off + len) lie within [0, size)? Safe against overflow. */
static inline int gt_in_range(uint64_t off, uint64_t len, uint64_t size)
{
	return off <= size && len <= size - off;
}

/* Has something run short, which is no matter of rights and of what the kernel can do? */
static inline int gt_is_shortage(int err)
{
	return err == -ENOMEM || err == -EAGAIN || err == -EMFILE || err == -ENFILE;
}

static inline uint16_t gt_get_le16(const void *p)
{
	const uint8_t *b = p;

	return (uint16_t)(b[0] | b[1] << 8);
}

static inline uint32_t gt_get_le32(const void *p)
{
	const uint8_t *b = p;

	return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline uint64_t gt_get_le64(const void *p)
{
	return gt_get_le32(p) | (uint64_t)gt_get_le32((const uint8_t *)p + 4) << 32;
}

static inline void gt_put_le16(void *p, uint16_t v)
{
	uint8_t *b = p;

	b[0] = (uint8_t)v;
	b[1] = (uint8_t)(v >> 8);
}

static inline void gt_put_le32(void *p, uint32_t v)
{
	gt_put_le16(p, (uint16_t)v);
	gt_put_le16((uint8_t *)p + 2, (uint16_t)(v >> 16));
}

static inline void gt_put_le64(void *p, uint64_t v)
{
	gt_put_le32(p, (uint32_t)v);
	gt_put_le32((uint8_t *)p + 4, (uint32_t)(v >> 32));
}

#endif
