/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gilfile_codec.h - GIL_CODEC_DELTA: the encoding of events in a block, both directions, so that
 * they stay in step. Private to gilfile_write.c and gilfile_read.c. docs/file-format.md specifies
 * it. No allocation, no state beyond the two structs; a block depends on no other block.
 */
#ifndef GT_GILFILE_CODEC_H
#define GT_GILFILE_CODEC_H

#include "base.h"
#include "giltrace/gilfile.h"

#define GT_TAG_KIND      0x0f
#define GT_TAG_SAME_TID  0x10 /* as the previous record */
#define GT_TAG_SAME_GIL  0x20 /* as the previous record */
#define GT_TAG_SAME_SITE 0x40 /* as the last record of this kind */
#define GT_TAG_RESERVED  0x80

#define GT_KIND_OWN_FIELDS 8  /* kinds from here on have fields of their own, behind a length */
#define GT_RECORD_MAX      64 /* bytes the encoder writes at most for one record */

/* Kinds that this version knows; 1 .. 6 are events, the others tell about them. */
#define GT_KINDS_KNOWN                                                                             \
	(1u << GIL_WAIT | 1u << GIL_ACQUIRE | 1u << GIL_RELEASE | 1u << GIL_YIELD |                \
	 1u << GIL_TAKE | 1u << GIL_DROPPED | 1u << GIL_THREAD | 1u << GIL_GIL | 1u << GIL_LOST)
#define GT_KINDS_EVENTS (GT_KINDS_KNOWN & 0xff)

/*
 * For fuzzing and tests: as gil_reader_open(), on a descriptor of a regular file (or memfd),
 * which is taken over, also on failure. `name` stands in messages.
 */
int gt_reader_open_fd(int fd, const char *name, gil_reader **out, char *why, size_t why_size);

static inline uint8_t *gt_varint_put(uint8_t *p, uint64_t v)
{
	while (v >= 0x80) {
		*p++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*p++ = (uint8_t)v;
	return p;
}

/* Reads at most 10 bytes, which must be readable. NULL: the number has more than 64 bits. */
static inline const uint8_t *gt_varint_get(const uint8_t *p, uint64_t *v)
{
	uint64_t x = *p++;

	if (x >= 0x80) {
		x &= 0x7f;
		for (unsigned int shift = 7;; shift += 7) {
			uint64_t b = *p++;

			if (shift == 63 && b > 1)
				return NULL;
			x |= (b & 0x7f) << shift;
			if (b < 0x80)
				break;
		}
	}
	*v = x;
	return p;
}

static inline uint64_t gt_zigzag(uint64_t delta)
{
	return delta << 1 ^ (0 - (delta >> 63));
}

static inline uint64_t gt_unzigzag(uint64_t v)
{
	return v >> 1 ^ (0 - (v & 1));
}

/* ---- encoder ---- */

#define GT_ENCODER_SLOTS (2 * GIL_BLOCK_THREADS_MAX)

struct gt_encoder {
	uint64_t base_ns; /* time of the first record */
	uint64_t prev_ns;
	uint64_t first_ns, last_ns; /* smallest and greatest */
	uint32_t count;
	uint32_t nthreads;
	uint32_t tid;
	uint8_t gil;
	uint8_t site[GT_TAG_KIND + 1];
	uint32_t tids[GIL_BLOCK_THREADS_MAX];
	uint16_t slot[GT_ENCODER_SLOTS]; /* open addressing by tid: index + 1; 0: free */
};

static inline void gt_encoder_reset(struct gt_encoder *e)
{
	memset(e, 0, offsetof(struct gt_encoder, tids));
	memset(e->slot, 0, sizeof(e->slot));
}

/* Index of a thread; nthreads as it was before: a new one. The table is never full (see below). */
static inline uint32_t gt_encoder_thread(struct gt_encoder *e, uint32_t tid)
{
	uint32_t i = (tid * 0x9e3779b1u) >> (32 - __builtin_ctz(GT_ENCODER_SLOTS));

	while (e->slot[i]) {
		if (e->tids[e->slot[i] - 1] == tid)
			return e->slot[i] - 1u;
		i = (i + 1) % GT_ENCODER_SLOTS;
	}
	e->tids[e->nthreads++] = tid;
	e->slot[i] = (uint16_t)e->nthreads;
	return e->nthreads - 1;
}

static inline uint8_t *gt_encode_own_fields(uint8_t *p, const struct gil_event *ev)
{
	uint8_t *len = p++;
	size_t n;

	switch (ev->kind) {
	case GIL_THREAD:
		p = gt_varint_put(p, ev->thread.ns_tid);
		n = strnlen(ev->thread.comm, GIL_COMM_LEN - 1);
		*p++ = (uint8_t)n;
		memcpy(p, ev->thread.comm, n);
		p += n;
		break;
	case GIL_GIL:
		*p++ = ev->unconfirmed ? 1 : 0;
		p = gt_varint_put(p, ev->gil_ident.addr);
		break;
	case GIL_LOST:
		/* The gap was begun on another CPU: be ready for a begin a little after its end. */
		p = gt_varint_put(p, ev->lost.begin_mono_ns < ev->mono_ns
					     ? ev->mono_ns - ev->lost.begin_mono_ns
					     : 0);
		p = gt_varint_put(p, ev->lost.count);
		break;
	}
	*len = (uint8_t)(p - len - 1);
	return p;
}

/*
 * Appends a record of a known kind and a time from 1 to GIL_TIME_MAX - 1. The caller has room for
 * GT_RECORD_MAX bytes (and 8 more for the first record) and seals the block when nthreads has
 * reached GIL_BLOCK_THREADS_MAX.
 */
static inline uint8_t *gt_encode(struct gt_encoder *e, uint8_t *p, const struct gil_event *ev)
{
	uint32_t tid = ev->kind == GIL_LOST ? 0 : ev->tid;
	uint8_t *tag;

	if (!e->count++) {
		e->base_ns = e->prev_ns = e->first_ns = e->last_ns = ev->mono_ns;
		gt_put_le64(p, e->base_ns);
		p += 8;
	}
	tag = p++;
	*tag = ev->kind;
	if (tid == e->tid) {
		*tag |= GT_TAG_SAME_TID;
	} else {
		uint32_t known = e->nthreads;
		uint32_t index = gt_encoder_thread(e, tid);

		p = gt_varint_put(p, index);
		if (index == known)
			p = gt_varint_put(p, tid);
		e->tid = tid;
	}
	if (ev->gil == e->gil)
		*tag |= GT_TAG_SAME_GIL;
	else
		*p++ = e->gil = ev->gil;
	if (ev->site == e->site[ev->kind])
		*tag |= GT_TAG_SAME_SITE;
	else
		*p++ = e->site[ev->kind] = ev->site;
	p = gt_varint_put(p, gt_zigzag(ev->mono_ns - e->prev_ns));
	e->prev_ns = ev->mono_ns;
	if (ev->mono_ns < e->first_ns)
		e->first_ns = ev->mono_ns;
	if (ev->mono_ns > e->last_ns)
		e->last_ns = ev->mono_ns;
	return ev->kind < GT_KIND_OWN_FIELDS ? p : gt_encode_own_fields(p, ev);
}

/* ---- decoder ---- */

/* Bytes that must be readable behind a payload: what one record can take before it is checked. */
#define GT_DECODE_SLACK 64

struct gt_decoder {
	const uint8_t *p, *end;
	uint32_t left; /* records */
	uint32_t nthreads;
	uint64_t first_ns, span_ns; /* times lie within [first_ns, first_ns + span_ns] */
	uint64_t mono_ns;
	uint32_t tid;
	uint8_t gil;
	uint8_t site[GT_TAG_KIND + 1];
	uint32_t tids[GIL_BLOCK_THREADS_MAX];
};

static inline void gt_decoder_start(struct gt_decoder *d, const uint8_t *payload, size_t size,
				    uint32_t count, uint64_t first_ns, uint64_t last_ns)
{
	memset(d, 0, offsetof(struct gt_decoder, tids));
	d->mono_ns = gt_get_le64(payload);
	d->p = payload + 8;
	d->end = payload + size;
	d->left = count;
	d->first_ns = first_ns;
	d->span_ns = last_ns - first_ns;
}

/* Out of line: rare, and the common path stays small. Returns NULL or why it is wrong. */
static inline const char *gt_decode_own_fields(struct gt_decoder *d, struct gil_event *ev)
{
	const uint8_t *p = d->p, *end;
	uint64_t len, v;

	p = gt_varint_get(p, &len);
	if (!p || p > d->end || len > (uint64_t)(d->end - p))
		return "it is longer than its block";
	end = p + len;
	d->p = end; /* also over fields that a later minor version has added */
	switch (ev->kind) {
	case GIL_THREAD:
		p = gt_varint_get(p, &v);
		if (!p || p >= end || v > UINT32_MAX || *p >= GIL_COMM_LEN || *p > end - p - 1)
			return "its fields (a thread) are wrong";
		ev->thread.ns_tid = (uint32_t)v;
		memset(ev->thread.comm, 0, sizeof(ev->thread.comm));
		memcpy(ev->thread.comm, p + 1, *p);
		return memchr(p + 1, 0, *p) ? "a thread's name holds a NUL" : NULL;
	case GIL_GIL:
		if (p >= end)
			return "its fields (a GIL) are wrong";
		ev->unconfirmed = *p & 1;
		p = gt_varint_get(p + 1, &ev->gil_ident.addr);
		return p && p <= end ? NULL : "its fields (a GIL) are wrong";
	case GIL_LOST:
		p = gt_varint_get(p, &v);
		if (!p || p > end || v > ev->mono_ns)
			return "its fields (a loss) are wrong";
		ev->lost.begin_mono_ns = ev->mono_ns - v;
		p = gt_varint_get(p, &ev->lost.count);
		return p && p <= end ? NULL : "its fields (a loss) are wrong";
	}
	return NULL;
}

static inline const char *gt_decode_thread(struct gt_decoder *d)
{
	uint64_t index, tid;

	d->p = gt_varint_get(d->p, &index);
	if (!d->p || index > d->nthreads || index >= GIL_BLOCK_THREADS_MAX)
		return "a thread's index is too great";
	if (index == d->nthreads) {
		d->p = gt_varint_get(d->p, &tid);
		if (!d->p || tid > UINT32_MAX)
			return "a thread's id is too great";
		d->tids[d->nthreads++] = (uint32_t)tid;
	}
	d->tid = d->tids[index];
	return NULL;
}

/* The next record (left > 0), of any kind. Returns NULL, or what is wrong with it. */
static inline const char *gt_decode(struct gt_decoder *d, struct gil_event *ev)
{
	const char *wrong;
	uint8_t tag = *d->p++;
	uint8_t kind = tag & GT_TAG_KIND;
	uint64_t delta;

	if (!kind || tag & GT_TAG_RESERVED)
		return "its tag is wrong";
	if (!(tag & GT_TAG_SAME_TID)) {
		wrong = gt_decode_thread(d);
		if (wrong)
			return wrong;
	}
	if (!(tag & GT_TAG_SAME_GIL))
		d->gil = *d->p++;
	if (!(tag & GT_TAG_SAME_SITE))
		d->site[kind] = *d->p++;
	d->p = gt_varint_get(d->p, &delta);
	if (!d->p || d->p > d->end)
		return "it is longer than its block";
	d->mono_ns += gt_unzigzag(delta);
	if (d->mono_ns - d->first_ns > d->span_ns)
		return "its time is not within its block's";
	d->left--;
	ev->mono_ns = d->mono_ns;
	ev->tid = d->tid;
	ev->kind = kind;
	ev->gil = d->gil;
	ev->site = d->site[kind];
	ev->unconfirmed = 0;
	return kind < GT_KIND_OWN_FIELDS ? NULL : gt_decode_own_fields(d, ev);
}

#endif
