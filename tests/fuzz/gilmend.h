/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gilmend.h - for fuzz targets that read .gil files: what no mutation would ever get right again
 * (checksums, sequence numbers, the length of a block that has grown).
 */
#ifndef GT_FUZZ_GILMEND_H
#define GT_FUZZ_GILMEND_H

#include <zlib.h>

#include "base.h"
#include "giltrace/gilfile.h"
#include "must.h"

/* Magic, version, sequence numbers and checksums as they have to be. */
static inline void gilmend(uint8_t *p, size_t size)
{
	uint64_t seq = 0;

	if (size < GIL_HEADER_SIZE)
		return;
	memcpy(p, GIL_MAGIC, 8);
	gt_put_le16(p + 8, GIL_MAJOR);
	gt_put_le32(p + 28, (uint32_t)crc32(0, p, 28));
	for (uint64_t off = gt_get_le32(p + 12); gt_in_range(off, GIL_BLOCK_HEADER_SIZE, size);) {
		uint8_t *h = p + off;
		uint64_t len = gt_get_le32(h + 8);

		off += GIL_BLOCK_HEADER_SIZE;
		gt_put_le32(h, GIL_BLOCK_MAGIC);
		gt_put_le64(h + 16, seq++);
		if (gt_in_range(off, len, size))
			gt_put_le32(h + 48, (uint32_t)crc32(0, p + off, (uInt)len));
		gt_put_le32(h + 52, (uint32_t)crc32(0, h, 52));
		off += len;
	}
}

#ifdef GT_FUZZ
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

/* The offset of the nth block that is whole, counted in a circle; 0: there is none. */
static inline size_t gilmend_block(const uint8_t *p, size_t size, unsigned int nth)
{
	size_t off = size < GIL_HEADER_SIZE ? size : gt_get_le32(p + 12), n = 0;

	while (gt_in_range(off, GIL_BLOCK_HEADER_SIZE, size)) {
		size_t len = gt_get_le32(p + off + 8);

		if (!gt_in_range(off + GIL_BLOCK_HEADER_SIZE, len, size))
			break;
		if (n++ == nth)
			return off;
		off += GIL_BLOCK_HEADER_SIZE + len;
	}
	return n ? gilmend_block(p, size, nth % (unsigned int)n) : 0;
}

/* Mutates what is in one block, which may grow; or the file as it is. */
static inline size_t gilmend_mutate(uint8_t *data, size_t size, size_t max, unsigned int seed)
{
	size_t block = seed % 4 ? gilmend_block(data, size, seed / 4 % 64) : 0;
	size_t begin = block + GIL_BLOCK_HEADER_SIZE, len, behind, grown;
	uint8_t *copy;

	if (!block)
		return LLVMFuzzerMutate(data, size, max);
	len = gt_get_le32(data + block + 8);
	behind = size - begin - len;
	copy = malloc(max - size + len + 1);
	MUST(copy);
	memcpy(copy, data + begin, len);
	grown = LLVMFuzzerMutate(copy, len, max - size + len);
	memmove(data + begin + grown, data + begin + len, behind);
	memcpy(data + begin, copy, grown);
	gt_put_le32(data + block + 8, (uint32_t)grown);
	free(copy);
	return begin + grown + behind;
}
#endif

#endif
