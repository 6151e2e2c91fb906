/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gilfile_write.h - writes one .gil file, append-only and crash-safe: every block is written by
 * one write(2), whole, with its CRC. The writer owns the descriptor. Used by one thread.
 *
 * Events are encoded into a block in memory, without allocation; the block is sealed when it is
 * full (gt_gilfile_add does that) or by gt_gilfile_flush(). A failed write is remembered: from
 * then on nothing more is written (a short block would hide later ones), events are counted as
 * lost, and each call returns the same -errno.
 */
#ifndef GT_GILFILE_WRITE_H
#define GT_GILFILE_WRITE_H

#include "base.h"
#include "giltrace/gilfile.h"

struct gt_gilfile;
struct gt_block; /* gilfile_codec.h */

/* Writes the file header to fd (open for writing, empty) and takes it over, also on failure. */
int gt_gilfile_create(int fd, struct gt_gilfile **out);

/*
 * The same without a file: `keep` gets each block when it is sealed, complete but for the sequence
 * number and the CRCs; END is no block. What it returns is as the result of a write. There are no
 * bytes. -ENOMEM.
 */
typedef int (*gt_gilfile_keep_fn)(void *ctx, const struct gt_block *b, const uint8_t *payload);
int gt_gilfile_create_kept(gt_gilfile_keep_fn keep, void *ctx, struct gt_gilfile **out);
int gt_gilfile_is_kept(const struct gt_gilfile *f);

/* Writes a block of META or SITES that was kept. */
int gt_gilfile_put(struct gt_gilfile *f, const struct gt_block *b, const uint8_t *payload);

/* One META block from n pairs of strings; NULL values are left out. */
int gt_gilfile_meta(struct gt_gilfile *f, const char *const (*pairs)[2], size_t n);
int gt_gilfile_sites(struct gt_gilfile *f, const struct gil_site *sites, size_t n);
int gt_gilfile_clock(struct gt_gilfile *f, const struct gil_clock *sample);

/*
 * Adds an event of any kind but GIL_FORCED, which a GIL_RELEASE with .forced brings with it.
 * lost_total: as for gt_gilfile_flush(), should a block be sealed. -EINVAL: an impossible event.
 */
int gt_gilfile_add(struct gt_gilfile *f, const struct gil_event *ev, uint64_t lost_total);

/* Seals the block in memory, if it holds anything. lost_total goes into its header. */
int gt_gilfile_flush(struct gt_gilfile *f, uint64_t lost_total);

/* mono_ns of the first event in the block in memory; 0: it is empty. */
uint64_t gt_gilfile_pending_since(const struct gt_gilfile *f);

/* Events (WAIT .. DROPPED) added and written or still in memory; excluding those not written. */
uint64_t gt_gilfile_events(const struct gt_gilfile *f);
/* Events that were added and could not be written. */
uint64_t gt_gilfile_unwritten(const struct gt_gilfile *f);
uint64_t gt_gilfile_bytes(const struct gt_gilfile *f);
/* The first error of a write, as -errno; 0: none. */
int gt_gilfile_error(const struct gt_gilfile *f);

/*
 * Flushes, writes the END block, closes, frees. *bytes, where not NULL: the file's size. Returns
 * the first error of the file's life.
 */
int gt_gilfile_finish(struct gt_gilfile *f, enum gil_end_reason reason, uint64_t mono_ns,
		      uint64_t lost_total, uint64_t *bytes);

#endif
