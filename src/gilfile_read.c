// SPDX-License-Identifier: Apache-2.0
#include "gilfile_codec.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <zlib.h>

/* What a file may make the reader remember, beside one clock sample per 96 bytes of file. */
#define META_PAIRS_MAX 16384
#define META_BYTES_MAX (16u << 20)
#define SITES_MAX      256
#define HEADER_MAX     4096

#define STEP_MIN_NS 1000000 /* clock samples themselves are off by less */

struct meta {
	char *key, *value; /* one allocation, at key */
};

/* What block headers tell about the part of the file before some block. */
struct extent {
	uint64_t first_ns, last_ns, lost_total;
};

struct gil_reader {
	int fd;
	unsigned int minor;
	uint64_t size;  /* of the file when it was opened */
	uint64_t start; /* of the first block */
	uint64_t end;   /* of what is good, as far as is known */

	/* where gil_reader_next() stands */
	uint64_t next_off, next_seq;
	struct gt_block current; /* that of the decoder */
	struct extent passed;
	struct gt_decoder dec;

	/* what the scan has found */
	struct extent extent;
	int64_t unix_offset; /* unix_ns - mono_ns; 0 without clock samples */
	int end_reason;      /* 0: no END block */
	int events_seen;
	struct meta *meta;
	size_t nmeta, meta_bytes;
	struct gil_site *sites;
	size_t nsites;
	struct gil_clock *clocks;
	size_t nclocks;

	char problem[PATH_MAX + 512]; /* empty: none */
	char name[PATH_MAX];
	uint8_t *payload; /* room for the largest this file can have, and GT_DECODE_SLACK */
};

static void set_problem(gil_reader *r, const char *fmt, ...) GT_PRINTF(2, 3);
static void set_problem(gil_reader *r, const char *fmt, ...)
{
	int n = snprintf(r->problem, sizeof(r->problem), "%s: ", r->name);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->problem + n, sizeof(r->problem) - (size_t)n, fmt, ap);
	va_end(ap);
}

/* -EPROTO, so that a check reads `return damaged(...)`. */
static int damaged(gil_reader *r, uint64_t off, uint64_t seq, const char *reason)
{
	set_problem(r, "block %" PRIu64 " at byte %" PRIu64 ": %s; %s", seq, off, reason,
		    "everything from there on is left out");
	return -EPROTO;
}

static int cut_short(gil_reader *r, uint64_t off, uint64_t seq)
{
	set_problem(r,
		    "the file ends inside block %" PRIu64 " at byte %" PRIu64 "; %" PRIu64
		    " bytes of an unfinished block are left out",
		    seq, off, r->size - off);
	return -ENODATA;
}

/* Exactly n bytes, which lay within the file when it was opened. */
static int read_exactly(gil_reader *r, uint64_t off, void *buf, size_t n)
{
	uint8_t *p = buf;

	while (n) {
		ssize_t got = pread(r->fd, p, n, (off_t)off);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			int err = got < 0 ? errno : ESTALE;

			set_problem(r, "cannot be read at byte %" PRIu64 ": %s; %s", off,
				    got < 0 ? strerror(err) : "it became shorter meanwhile",
				    "everything from there on is left out");
			return -err;
		}
		p += got;
		n -= (size_t)got;
		off += (uint64_t)got;
	}
	return 0;
}

static int read_block_header(gil_reader *r, uint64_t off, uint64_t seq, struct gt_block *b)
{
	uint8_t h[GIL_BLOCK_HEADER_SIZE];
	const char *wrong;
	int err;

	if (r->size - off < sizeof(h))
		return cut_short(r, off, seq);
	err = read_exactly(r, off, h, sizeof(h));
	if (err)
		return err;
	if (gt_get_le32(h) != GIL_BLOCK_MAGIC)
		return damaged(r, off, seq, "no block begins here");
	if (gt_get_le32(h + 52) != crc32(0, h, 52))
		return damaged(r, off, seq, "the checksum of its header does not match");
	b->off = off;
	wrong = gt_block_get(h, b);
	if (b->seq != seq)
		return damaged(r, off, seq, "its number is out of sequence");
	if (wrong)
		return damaged(r, off, seq, wrong);
	if (b->size > r->size - off - sizeof(h))
		return cut_short(r, off, seq);
	return 0;
}

static int read_payload(gil_reader *r, const struct gt_block *b, uint64_t seq)
{
	int err = read_exactly(r, b->off + GIL_BLOCK_HEADER_SIZE, r->payload, b->size);

	if (err)
		return err;
	if (crc32(0, r->payload, b->size) != b->payload_crc)
		return damaged(r, b->off, seq, "the checksum of its content does not match");
	return 0;
}

static void extend(struct extent *e, const struct gt_block *b)
{
	e->lost_total = b->lost_total;
	if (b->type == GIL_BLOCK_END && e->first_ns && b->last_ns > e->last_ns)
		e->last_ns = b->last_ns;
	if (!gt_block_has_times(b))
		return;
	if (!e->first_ns || b->first_ns < e->first_ns)
		e->first_ns = b->first_ns;
	if (b->last_ns > e->last_ns)
		e->last_ns = b->last_ns;
}

/* ---- the scan at open: everything but the events ---- */

/* The parsers return NULL or what is wrong. They ignore what a minor version adds behind. */

static const char *const no_memory = "there is no memory for what it holds";

static const char *parse_meta(gil_reader *r, const struct gt_block *b)
{
	const uint8_t *p = r->payload, *end = p + b->size;

	if (b->count > META_PAIRS_MAX - r->nmeta || b->size > META_BYTES_MAX - r->meta_bytes)
		return "there is more META than a file may have";
	r->meta_bytes += b->size;
	if (!r->meta)
		r->meta = calloc(META_PAIRS_MAX, sizeof(*r->meta));
	if (!r->meta)
		return no_memory;
	for (uint32_t i = 0; i < b->count; i++) {
		const uint8_t *key, *value;
		size_t klen, vlen;
		const char *wrong = gt_string_get(&p, end, &key, &klen);
		char *copy;

		if (!wrong)
			wrong = gt_string_get(&p, end, &value, &vlen);
		if (wrong)
			return wrong;
		copy = calloc(1, klen + vlen + 2);
		if (!copy)
			return no_memory;
		memcpy(copy, key, klen);
		memcpy(copy + klen + 1, value, vlen);
		r->meta[r->nmeta++] = (struct meta){.key = copy, .value = copy + klen + 1};
	}
	return NULL;
}

static const char *parse_sites(gil_reader *r, const struct gt_block *b)
{
	const uint8_t *p = r->payload, *end = p + b->size;

	if (b->count > SITES_MAX - r->nsites)
		return "there are more sites than a file may have";
	if (!r->sites)
		r->sites = calloc(SITES_MAX, sizeof(*r->sites));
	if (!r->sites)
		return no_memory;
	for (uint32_t i = 0; i < b->count; i++) {
		const char *wrong = gt_site_get(&p, end, &r->sites[r->nsites]);

		if (wrong)
			return wrong;
		r->nsites++;
	}
	return NULL;
}

static const char *parse_clock(gil_reader *r, const struct gt_block *b)
{
	struct gil_clock c;

	if (b->size < GT_CLOCK_SIZE || b->count != 1)
		return "a clock sample has the wrong size";
	gt_clock_get(r->payload, &c);
	if (c.mono_ns != b->first_ns || c.mono_ns != b->last_ns || c.raw_ns >= GIL_TIME_MAX ||
	    c.unix_ns >= GIL_TIME_MAX || c.boot_ns >= GIL_TIME_MAX || c.error_ns >= GIL_TIME_MAX)
		return "a clock sample is impossible";
	if (r->nclocks && c.mono_ns < r->clocks[r->nclocks - 1].mono_ns)
		return "clock samples are not in the order of time";
	if (!(r->nclocks & (r->nclocks - 1))) { /* 0, 1, 2, 4, ...: full */
		size_t cap = r->nclocks ? r->nclocks * 2 : 1;
		struct gil_clock *grown = reallocarray(r->clocks, cap, sizeof(c));

		if (!grown)
			return no_memory;
		r->clocks = grown;
	}
	if (!r->nclocks)
		r->unix_offset = (int64_t)(c.unix_ns - c.mono_ns);
	r->clocks[r->nclocks++] = c;
	return NULL;
}

static const char *parse_end(gil_reader *r, const struct gt_block *b)
{
	uint32_t reason = gt_get_le32(r->payload);

	if (b->size < GT_END_SIZE || !reason || reason > INT_MAX)
		return "an END block is wrong";
	r->end_reason = (int)reason;
	return NULL;
}

static int scan_block(gil_reader *r, const struct gt_block *b, uint64_t seq)
{
	static const struct {
		const char *(*parse)(gil_reader *r, const struct gt_block *b);
		uint8_t codec;
	} known[] = {
		[GIL_BLOCK_META] = {parse_meta, GIL_CODEC_PLAIN},
		[GIL_BLOCK_SITES] = {parse_sites, GIL_CODEC_PLAIN},
		[GIL_BLOCK_CLOCK] = {parse_clock, GIL_CODEC_PLAIN},
		[GIL_BLOCK_EVENTS] = {NULL, GIL_CODEC_DELTA},
		[GIL_BLOCK_END] = {parse_end, GIL_CODEC_PLAIN},
	};
	int is_known = b->type > 0 && b->type < GT_ARRAY_SIZE(known);
	const char *wrong;
	int err;

	if (is_known && b->codec != known[b->type].codec)
		return damaged(r, b->off, seq, "its encoding is not known");
	if (b->type == GIL_BLOCK_EVENTS) {
		if (b->size < 8)
			return damaged(r, b->off, seq, "it is too short for events");
		r->events_seen = 1;
		return 0;
	}
	err = read_payload(r, b, seq);
	if (err || !is_known || !known[b->type].parse)
		return err;
	wrong = known[b->type].parse(r, b);
	return wrong ? damaged(r, b->off, seq, wrong) : 0;
}

/* Walks over all blocks and finds the end of what is good. 0, or why it stopped before. */
static int scan(gil_reader *r)
{
	uint64_t off = r->start, seq = 0;
	struct gt_block b;
	int err = 0;

	while (off < r->size) {
		if (r->end_reason) {
			set_problem(r,
				    "%" PRIu64 " bytes after the END block, from byte %" PRIu64
				    " on, are left out",
				    r->size - off, off);
			break;
		}
		err = read_block_header(r, off, seq, &b);
		if (!err)
			err = scan_block(r, &b, seq);
		if (err)
			break;
		extend(&r->extent, &b);
		off += GIL_BLOCK_HEADER_SIZE + (uint64_t)b.size;
		seq++;
	}
	r->end = off;
	return err;
}

static int read_file_header(gil_reader *r)
{
	uint8_t h[GIL_HEADER_SIZE];
	size_t n = r->size < sizeof(h) ? (size_t)r->size : sizeof(h);
	uint32_t size;
	int err = read_exactly(r, 0, h, n);

	if (err)
		return err;
	if (!n || memcmp(h, GIL_MAGIC, n < 8 ? n : 8)) {
		set_problem(r, n ? "this is no .gil file" : "the file is empty: no .gil file");
		return -EINVAL;
	}
	if (n < sizeof(h)) {
		set_problem(r, "the file ends inside its header, at byte %zu", n);
		return -EPROTO;
	}
	if (gt_get_le32(h + 28) != crc32(0, h, 28)) {
		set_problem(r,
			    "the file's header at byte 0 is damaged: its checksum does not match");
		return -EPROTO;
	}
	if (gt_get_le16(h + 8) > GIL_MAJOR) {
		set_problem(r, "made by a newer giltrace (format %u.%u, this reads %d.x): use that",
			    gt_get_le16(h + 8), gt_get_le16(h + 10), GIL_MAJOR);
		return -ENOTSUP;
	}
	size = gt_get_le32(h + 12);
	if (!gt_get_le16(h + 8) || size < sizeof(h) || size > HEADER_MAX || size > r->size) {
		set_problem(r, "the file's header at byte 0 is damaged: its size is impossible");
		return -EPROTO;
	}
	r->minor = gt_get_le16(h + 10);
	r->start = size;
	return 0;
}

static int open_on(gil_reader *r)
{
	struct stat st;
	int err;

	if (fstat(r->fd, &st)) {
		err = -errno;
		set_problem(r, "cannot be read: %s", strerror(-err));
		return err;
	}
	if (!S_ISREG(st.st_mode)) {
		set_problem(r, "this is no regular file, so no .gil file");
		return -EINVAL;
	}
	r->size = (uint64_t)st.st_size;
	err = read_file_header(r);
	if (err)
		return err;
	r->payload = calloc(1, GT_DECODE_SLACK + (r->size < GIL_BLOCK_PAYLOAD_MAX
							  ? (size_t)r->size
							  : GIL_BLOCK_PAYLOAD_MAX));
	if (!r->payload) {
		set_problem(r, "out of memory");
		return -ENOMEM;
	}
	err = scan(r);
	/* With events, or in a file that was merely cut short, what is good is worth having. */
	if (err && err != -ENODATA && !r->events_seen)
		return err;
	gil_reader_rewind(r);
	return 0;
}

int gil_reader_open_fd(int fd, const char *name, gil_reader **out, char *why, size_t why_size)
{
	gil_reader *r = calloc(1, sizeof(*r));
	int err;

	if (!r) {
		close(fd);
		snprintf(why, why_size, "%s: out of memory", name);
		return -ENOMEM;
	}
	r->fd = fd;
	snprintf(r->name, sizeof(r->name), "%s", name);
	err = open_on(r);
	if (err) {
		snprintf(why, why_size, "%s", r->problem);
		gil_reader_close(r);
		return err;
	}
	*out = r;
	return 0;
}

int gil_reader_open(const char *path, gil_reader **out, char *why, size_t why_size)
{
	/* O_NONBLOCK: a FIFO must not make us wait; on a regular file it has no effect. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0) {
		int err = errno;

		snprintf(why, why_size, "%s: cannot be opened: %s", path, strerror(err));
		return -err;
	}
	return gil_reader_open_fd(fd, path, out, why, why_size);
}

void gil_reader_close(gil_reader *r)
{
	if (!r)
		return;
	close(r->fd);
	for (size_t i = 0; i < r->nmeta; i++)
		free(r->meta[i].key);
	free(r->meta);
	free(r->sites);
	free(r->clocks);
	free(r->payload);
	free(r);
}

/* ---- events ---- */

/* Damage that the scan could not see: it ends the events, and what is told of the file. */
static int stop_at(gil_reader *r, uint64_t end)
{
	r->end = r->next_off = end;
	r->extent = r->passed;
	r->dec.left = 0;
	r->dec.p = r->dec.end;
	return 0;
}

static uint64_t block_end(const struct gt_block *b)
{
	return b->off + GIL_BLOCK_HEADER_SIZE + b->size;
}

/* Steps to the next block that holds records. Headers are checked again: files can be changed. */
static int next_block(gil_reader *r)
{
	struct gt_block *b = &r->current;

	while (r->next_off < r->end) {
		uint64_t seq = r->next_seq;

		if (read_block_header(r, r->next_off, seq, b))
			return stop_at(r, r->next_off);
		if (b->type == GIL_BLOCK_EVENTS && (b->size < 8 || b->codec != GIL_CODEC_DELTA)) {
			damaged(r, b->off, seq, "it was changed meanwhile");
			return stop_at(r, b->off);
		}
		if (b->type == GIL_BLOCK_EVENTS && read_payload(r, b, seq))
			return stop_at(r, b->off);
		r->next_off = block_end(b);
		r->next_seq++;
		extend(&r->passed, b);
		if (b->type != GIL_BLOCK_EVENTS)
			continue;
		gt_decoder_start(&r->dec, r->payload, b->size, b->count, b->first_ns, b->last_ns);
		return 1;
	}
	return 0;
}

/* The good part of the block has been given out, so the end of what is good lies behind it. */
static int undecodable(gil_reader *r, const char *wrong)
{
	char reason[128];

	/* Then what seemed wrong lay behind the block. */
	if (r->dec.p > r->dec.end)
		wrong = "it is longer than its block";
	snprintf(reason, sizeof(reason), "record %" PRIu32 ": %s", r->current.count - r->dec.left,
		 wrong);
	damaged(r, r->current.off, r->next_seq - 1, reason);
	return stop_at(r, block_end(&r->current));
}

int gil_reader_next(gil_reader *r, struct gil_event *ev)
{
	for (;;) {
		const char *wrong;

		while (!r->dec.left) {
			if (r->dec.p != r->dec.end)
				return undecodable(r, "the block goes on after its last record");
			if (!next_block(r))
				return 0;
		}
		wrong = gt_decode(&r->dec, ev);
		if (wrong)
			return undecodable(r, wrong);
		if (gt_is_known(ev))
			return 1;
	}
}

void gil_reader_rewind(gil_reader *r)
{
	r->next_off = r->start;
	r->next_seq = 0;
	r->passed = (struct extent){0};
	r->dec.left = 0;
	r->dec.p = r->dec.end = NULL;
}

unsigned int gil_reader_permille(const gil_reader *r)
{
	uint64_t size = r->end - r->start;

	if (size > UINT64_MAX / 1000) /* no file is so large */
		return 0;
	return size ? (unsigned int)((r->next_off - r->start) * 1000 / size) : 1000;
}

/* ---- what the scan has found ---- */

const char *gil_reader_problem(const gil_reader *r)
{
	return r->problem[0] ? r->problem : NULL;
}

unsigned int gil_reader_minor(const gil_reader *r)
{
	return r->minor;
}

const char *gil_reader_meta(const gil_reader *r, const char *key)
{
	for (size_t i = r->nmeta; i--;)
		if (!strcmp(r->meta[i].key, key))
			return r->meta[i].value;
	return NULL;
}

size_t gil_reader_sites(const gil_reader *r)
{
	return r->nsites;
}

const struct gil_site *gil_reader_site(const gil_reader *r, size_t i)
{
	return i < r->nsites ? &r->sites[i] : NULL;
}

size_t gil_reader_clocks(const gil_reader *r)
{
	return r->nclocks;
}

const struct gil_clock *gil_reader_clock(const gil_reader *r, size_t i)
{
	return i < r->nclocks ? &r->clocks[i] : NULL;
}

uint64_t gil_reader_first_mono_ns(const gil_reader *r)
{
	return r->extent.first_ns;
}

uint64_t gil_reader_last_mono_ns(const gil_reader *r)
{
	return r->extent.last_ns;
}

uint64_t gil_reader_lost_total(const gil_reader *r)
{
	return r->extent.lost_total;
}

int gil_reader_end_reason(const gil_reader *r)
{
	return r->end_reason;
}

uint64_t gil_reader_unix_ns(const gil_reader *r, uint64_t mono_ns)
{
	int64_t unix_ns;

	if (mono_ns >= GIL_TIME_MAX)
		mono_ns = GIL_TIME_MAX - 1;
	unix_ns = (int64_t)mono_ns + r->unix_offset;
	return unix_ns < 1 ? 1 : (uint64_t)unix_ns;
}

int64_t gil_reader_clock_step_ns(const gil_reader *r)
{
	const struct gil_clock *last;
	int64_t step;

	if (!r->nclocks)
		return 0;
	last = &r->clocks[r->nclocks - 1];
	step = (int64_t)(last->unix_ns - last->mono_ns) - r->unix_offset;
	return step > -STEP_MIN_NS && step < STEP_MIN_NS ? 0 : step;
}
