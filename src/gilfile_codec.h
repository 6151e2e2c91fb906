/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gilfile_codec.h - the encoding of blocks, plain ones and GIL_CODEC_DELTA (events), both
 * directions, so that they stay in step. Private to gilfile_write.c and gilfile_read.c.
 * docs/file-format.md specifies it. No allocation, no state beyond the two structs for events; a
 * block depends on no other block.
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

#define GT_KIND_OWN_FIELDS 8   /* kinds from here on have fields of their own, behind a length */
#define GT_KIND_EXTENDED   15  /* the first of these fields is the kind, above 15 */
#define GT_RECORD_MAX      160 /* bytes the encoder writes at most for one record */
#define GT_OWN_FIELDS_MAX  (2 + GIL_MARK_MAX) /* of these, in its own fields: those of a mark */

/* Out of line: so that the path of the events that come by the million stays small. */
#define GT_RARE static __attribute__((noinline, cold, unused))

#define GT_KINDS_EVENTS                                                                            \
	(1u << GIL_WAIT | 1u << GIL_ACQUIRE | 1u << GIL_RELEASE | 1u << GIL_YIELD |                \
	 1u << GIL_TAKE | 1u << GIL_DROPPED)
#define GT_KINDS_KNOWN                                                                             \
	(GT_KINDS_EVENTS | 1u << GIL_THREAD | 1u << GIL_GIL | 1u << GIL_LOST | 1u << GIL_BEFORE |  \
	 1u << GIL_EXIT | 1u << GIL_LEFT | 1u << GIL_LATE | 1u << GIL_MARK | 1u << GIL_PAUSED)

/*
 * What goes in and comes out. GIL_FORCED does neither: the writer makes it of a release, and the
 * reader joins it to that again.
 */
static inline int gt_is_known(const struct gil_event *ev)
{
	if (ev->kind > GIL_PAUSED || !(GT_KINDS_KNOWN >> ev->kind & 1))
		return 0;
	return ev->kind != GIL_BEFORE || ev->before.state == GIL_BEFORE_WAITING ||
	       ev->before.state == GIL_BEFORE_HOLDING;
}

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

/* ---- block headers and plain payloads ---- */

#define GT_CLOCK_SIZE 40
#define GT_SITE_HEAD  11 /* of an entry of SITES, before the text */
#define GT_END_SIZE   20

struct gt_block {
	uint64_t off; /* of the header in the file; not encoded */
	uint16_t type;
	uint8_t codec;
	uint32_t size, count;
	uint64_t seq, first_ns, last_ns, lost_total;
	uint32_t payload_crc;
};

/* All but the CRC of the header itself, which are its last four bytes. */
static inline void gt_block_put(uint8_t *h, const struct gt_block *b)
{
	gt_put_le32(h, GIL_BLOCK_MAGIC);
	gt_put_le16(h + 4, b->type);
	h[6] = b->codec;
	h[7] = 0;
	gt_put_le32(h + 8, b->size);
	gt_put_le32(h + 12, b->count);
	gt_put_le64(h + 16, b->seq);
	gt_put_le64(h + 24, b->first_ns);
	gt_put_le64(h + 32, b->last_ns);
	gt_put_le64(h + 40, b->lost_total);
	gt_put_le32(h + 48, b->payload_crc);
}

static inline int gt_block_has_times(const struct gt_block *b)
{
	return (b->type == GIL_BLOCK_EVENTS || b->type == GIL_BLOCK_CLOCK) && b->count;
}

/* Of a header whose magic and CRC are right. Returns NULL or what is wrong with it. */
static inline const char *gt_block_get(const uint8_t *h, struct gt_block *b)
{
	b->type = gt_get_le16(h + 4);
	b->codec = h[6];
	b->size = gt_get_le32(h + 8);
	b->count = gt_get_le32(h + 12);
	b->seq = gt_get_le64(h + 16);
	b->first_ns = gt_get_le64(h + 24);
	b->last_ns = gt_get_le64(h + 32);
	b->lost_total = gt_get_le64(h + 40);
	b->payload_crc = gt_get_le32(h + 48);
	if (b->size > GIL_BLOCK_PAYLOAD_MAX)
		return "its size is beyond the limit";
	if (b->first_ns > b->last_ns || b->last_ns >= GIL_TIME_MAX ||
	    (gt_block_has_times(b) && !b->first_ns))
		return "its times are impossible";
	return NULL;
}

static inline uint8_t *gt_string_put(uint8_t *p, const char *s)
{
	size_t n = strlen(s);

	p = gt_varint_put(p, n);
	memcpy(p, s, n);
	return p + n;
}

/* As for gt_varint_get(), 10 bytes must be readable. Returns NULL or what is wrong. */
static inline const char *gt_string_get(const uint8_t **p, const uint8_t *end, const uint8_t **s,
					size_t *len)
{
	uint64_t n;

	*p = gt_varint_get(*p, &n);
	if (!*p || *p > end || n > (uint64_t)(end - *p))
		return "a string is longer than its block";
	if (memchr(*p, 0, n))
		return "a string holds a NUL";
	*s = *p;
	*len = n;
	*p += n;
	return NULL;
}

static inline uint8_t *gt_site_put(uint8_t *p, const struct gil_site *s)
{
	size_t len = strnlen(s->how, GIL_SITE_HOW_MAX - 1);

	gt_put_le64(p, s->offset);
	p[8] = s->kind;
	p[9] = s->flags;
	p[10] = (uint8_t)len;
	memcpy(p + GT_SITE_HEAD, s->how, len);
	return p + GT_SITE_HEAD + len;
}

/* *s is all 0 before. Returns NULL or what is wrong. */
static inline const char *gt_site_get(const uint8_t **p, const uint8_t *end, struct gil_site *s)
{
	const uint8_t *e = *p;

	if (end - e < GT_SITE_HEAD || end - e - GT_SITE_HEAD < e[10])
		return "a site is longer than its block";
	if (memchr(e + GT_SITE_HEAD, 0, e[10]))
		return "a site's text holds a NUL";
	s->offset = gt_get_le64(e);
	s->kind = e[8];
	s->flags = e[9];
	memcpy(s->how, e + GT_SITE_HEAD, e[10] < sizeof(s->how) ? e[10] : sizeof(s->how) - 1);
	*p += GT_SITE_HEAD + e[10];
	return NULL;
}

static inline void gt_clock_put(uint8_t *p, const struct gil_clock *c)
{
	gt_put_le64(p, c->mono_ns);
	gt_put_le64(p + 8, c->raw_ns);
	gt_put_le64(p + 16, c->unix_ns);
	gt_put_le64(p + 24, c->boot_ns);
	gt_put_le64(p + 32, c->error_ns);
}

static inline void gt_clock_get(const uint8_t *p, struct gil_clock *c)
{
	c->mono_ns = gt_get_le64(p);
	c->raw_ns = gt_get_le64(p + 8);
	c->unix_ns = gt_get_le64(p + 16);
	c->boot_ns = gt_get_le64(p + 24);
	c->error_ns = gt_get_le64(p + 32);
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

/* u8 length, bytes */
static inline uint8_t *gt_short_put(uint8_t *p, const char *s, size_t n)
{
	*p++ = (uint8_t)n;
	memcpy(p, s, n);
	return p + n;
}

/* As much of a name as fits into max bytes, cut between two characters where it is UTF-8. */
static inline size_t gt_name_len(const char *name, size_t max)
{
	size_t n = strnlen(name, max + 1), cut = max;

	if (n <= max)
		return n;
	while (cut > max - 3 && ((uint8_t)name[cut] & 0xc0) == 0x80)
		cut--;
	return ((uint8_t)name[cut] & 0xc0) == 0x80 ? max : cut;
}

static inline uint8_t *gt_encode_thread(uint8_t *p, const struct gil_event *ev)
{
	const char *name = ev->thread.name ? ev->thread.name : "";

	p = gt_varint_put(p, ev->thread.ns_tid);
	p = gt_short_put(p, ev->thread.comm, strnlen(ev->thread.comm, GIL_COMM_LEN - 1));
	if (!ev->thread.host_tid && !name[0])
		return p;
	p = gt_varint_put(p, ev->thread.host_tid);
	return gt_short_put(p, name, gt_name_len(name, GIL_NAME_MAX));
}

/* How long before the record something began. Another CPU's clock may have stamped it: 0 then. */
static inline uint64_t gt_time_before(const struct gil_event *ev, uint64_t begin_ns)
{
	return begin_ns < ev->mono_ns ? ev->mono_ns - begin_ns : 0;
}

GT_RARE uint8_t *gt_encode_own_fields(uint8_t *p, const struct gil_event *ev)
{
	uint8_t fields[GT_OWN_FIELDS_MAX], *f = fields;

	if (ev->kind > GT_KIND_EXTENDED)
		f = gt_varint_put(f, ev->kind);
	switch (ev->kind) {
	case GIL_THREAD:
		f = gt_encode_thread(f, ev);
		break;
	case GIL_GIL:
		*f++ = ev->unconfirmed ? 1 : 0;
		f = gt_varint_put(f, ev->gil_ident.addr);
		break;
	case GIL_LOST:
		f = gt_varint_put(f, gt_time_before(ev, ev->lost.begin_mono_ns));
		f = gt_varint_put(f, ev->lost.count);
		break;
	case GIL_LATE:
		f = gt_varint_put(f, gt_time_before(ev, ev->late.begin_mono_ns));
		break;
	case GIL_BEFORE:
		*f++ = ev->before.state;
		break;
	case GIL_MARK:
		f = gt_short_put(f, ev->mark.name, gt_name_len(ev->mark.name, GIL_MARK_MAX));
		break;
	case GIL_PAUSED:
		f = gt_varint_put(f, gt_time_before(ev, ev->paused.begin_mono_ns));
		break;
	}
	p = gt_varint_put(p, (uint64_t)(f - fields));
	memcpy(p, fields, (size_t)(f - fields));
	return p + (f - fields);
}

static inline int gt_has_no_thread(uint8_t kind)
{
	return kind == GIL_LOST || kind == GIL_LATE || kind == GIL_PAUSED;
}

/*
 * Appends a record of a known kind and a time from 1 to GIL_TIME_MAX - 1. The caller has room for
 * GT_RECORD_MAX bytes (and 8 more for the first record) and seals the block when nthreads has
 * reached GIL_BLOCK_THREADS_MAX.
 */
static inline uint8_t *gt_encode(struct gt_encoder *e, uint8_t *p, const struct gil_event *ev)
{
	uint8_t kind = ev->kind < GT_KIND_EXTENDED ? ev->kind : GT_KIND_EXTENDED;
	uint32_t tid = gt_has_no_thread(ev->kind) ? 0 : ev->tid;
	uint8_t *tag;

	if (!e->count++) {
		e->base_ns = e->prev_ns = e->first_ns = e->last_ns = ev->mono_ns;
		gt_put_le64(p, e->base_ns);
		p += 8;
	}
	tag = p++;
	*tag = kind;
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
	if (ev->site == e->site[kind])
		*tag |= GT_TAG_SAME_SITE;
	else
		*p++ = e->site[kind] = ev->site;
	p = gt_varint_put(p, gt_zigzag(ev->mono_ns - e->prev_ns));
	e->prev_ns = ev->mono_ns;
	if (ev->mono_ns < e->first_ns)
		e->first_ns = ev->mono_ns;
	if (ev->mono_ns > e->last_ns)
		e->last_ns = ev->mono_ns;
	return kind < GT_KIND_OWN_FIELDS ? p : gt_encode_own_fields(p, ev);
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
	uint8_t kind; /* of the record before; 0: none in this block */
	uint8_t site[GT_TAG_KIND + 1];
	uint32_t tids[GIL_BLOCK_THREADS_MAX];
	char name[GIL_MARK_MAX + 1]; /* of the latest THREAD or MARK */
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

/* Reads a u8 length, at most max, and so many bytes, none of them 0, into a buffer of max + 1. */
static inline const char *gt_short_get(const uint8_t **p, const uint8_t *end, char *buf, size_t max)
{
	size_t n;

	if (*p >= end || **p > max || **p > end - *p - 1)
		return "its fields (a name) are wrong";
	n = *(*p)++;
	if (memchr(*p, 0, n))
		return "a name in it holds a NUL";
	memset(buf, 0, max + 1);
	memcpy(buf, *p, n);
	*p += n;
	return NULL;
}

static inline const char *gt_decode_thread_fields(struct gt_decoder *d, const uint8_t *p,
						  const uint8_t *end, struct gil_event *ev)
{
	const char *wrong;
	uint64_t v;

	ev->thread.host_tid = 0;
	ev->thread.name = NULL;
	p = gt_varint_get(p, &v);
	if (!p || v > UINT32_MAX)
		return "its fields (a thread) are wrong";
	ev->thread.ns_tid = (uint32_t)v;
	wrong = gt_short_get(&p, end, ev->thread.comm, GIL_COMM_LEN - 1);
	if (wrong || p == end) /* format 1.1, or nothing more is known */
		return wrong;
	p = gt_varint_get(p, &v);
	if (!p || v > UINT32_MAX)
		return "its fields (a thread) are wrong";
	ev->thread.host_tid = (uint32_t)v;
	wrong = gt_short_get(&p, end, d->name, GIL_NAME_MAX);
	if (!wrong && d->name[0])
		ev->thread.name = d->name;
	return wrong;
}

/* A kind above 15. Where it is another, or not known, ev->kind stays GT_KIND_EXTENDED. */
static inline const char *gt_decode_extended(struct gt_decoder *d, const uint8_t *p,
					     const uint8_t *end, struct gil_event *ev)
{
	const char *wrong;
	uint64_t kind, v;

	p = gt_varint_get(p, &kind);
	if (!p || p > end)
		return "its fields (a kind) are wrong";
	if (kind == GIL_MARK) {
		ev->kind = GIL_MARK;
		ev->mark.name = d->name;
		wrong = gt_short_get(&p, end, d->name, GIL_MARK_MAX);
		return wrong || d->name[0] ? wrong : "its fields (a mark) are wrong";
	}
	if (kind == GIL_PAUSED) {
		ev->kind = GIL_PAUSED;
		p = gt_varint_get(p, &v);
		if (!p || p > end || v >= ev->mono_ns)
			return "its fields (a pause) are wrong";
		ev->paused.begin_mono_ns = ev->mono_ns - v;
	}
	return NULL;
}

/* Returns NULL or why it is wrong. */
GT_RARE const char *gt_decode_own_fields(struct gt_decoder *d, struct gil_event *ev)
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
		return gt_decode_thread_fields(d, p, end, ev);
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
	case GIL_BEFORE:
		if (p >= end)
			return "its fields (a state) are wrong";
		ev->before.state = *p;
		return NULL;
	case GIL_LATE:
		p = gt_varint_get(p, &v);
		if (!p || p > end || v >= ev->mono_ns)
			return "its fields (a late begin) are wrong";
		ev->late.begin_mono_ns = ev->mono_ns - v;
		return NULL;
	case GT_KIND_EXTENDED:
		return gt_decode_extended(d, p, end, ev);
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
	uint8_t kind_before = d->kind, gil_before = d->gil;
	uint32_t tid_before = d->tid;
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
	/* GIL_FORCED belongs to the release right behind it, if to anything. */
	ev->forced = kind == GIL_RELEASE && kind_before == GIL_FORCED && d->tid == tid_before &&
		     d->gil == gil_before && !delta;
	d->kind = kind;
	return kind < GT_KIND_OWN_FIELDS ? NULL : gt_decode_own_fields(d, ev);
}

#endif
