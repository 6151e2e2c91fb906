// SPDX-License-Identifier: Apache-2.0
/* Damaged, hostile, newer and odd files: never a crash, never other events, always a reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gilmake.h"

#include <fcntl.h>
#include <sys/stat.h>

#define EVENTS_MAX 64

/* A whole small file: head, three blocks of events with a clock sample between, END. */
static struct bytes small_file(struct gil_event ev[EVENTS_MAX], size_t *n, uint64_t seed)
{
	const char *const pairs[][2] = {{"k", "v"}};
	const struct gil_site site = {.offset = 4096, .kind = 2, .how = "scan"};
	struct gil_clock clock = {.mono_ns = 1000, .unix_ns = 1700000000000000000};
	int fd = memfd_create("small", MFD_CLOEXEC);
	uint64_t mono = 1000;
	struct gt_gilfile *f;
	struct bytes b;

	assert_int_equal(gt_gilfile_create(dup(fd), &f), 0);
	gt_gilfile_meta(f, pairs, 1);
	gt_gilfile_sites(f, &site, 1);
	gt_gilfile_clock(f, &clock);
	*n = 0;
	for (int block = 0; block < 3; block++) {
		for (int i = 0; i < 8; i++) {
			ev[*n] = make_event(&seed, &mono, 3);
			gt_gilfile_add(f, &ev[(*n)++], 0);
		}
		gt_gilfile_flush(f, (uint64_t)block);
		if (block == 1) {
			clock.mono_ns = mono;
			gt_gilfile_clock(f, &clock);
		}
	}
	assert_int_equal(gt_gilfile_finish(f, GIL_END_STOPPED, mono, 5, NULL), 0);
	b = slurp(fd);
	close(fd);
	return b;
}

/* Reads all; the events must be the first of those given. Returns how many. */
static size_t expect_prefix(gil_reader *r, const struct gil_event *ev, size_t n)
{
	struct gil_event got;
	size_t i;

	for (i = 0; gil_reader_next(r, &got); i++)
		if (i >= n || !same_event(&got, &ev[i]))
			fail_msg("event %zu is another one", i);
	return i;
}

/* Offsets at which blocks begin, and of the end. */
static size_t block_starts(const struct bytes *b, size_t start[32])
{
	size_t n = 0;

	for (size_t off = 32; off < b->n; off += 56 + gt_get_le32(b->p + off + 8))
		start[n++] = off;
	start[n] = b->n;
	return n;
}

static void every_truncation(void **state)
{
	struct gil_event ev[EVENTS_MAX];
	size_t n, start[32] = {0}, blocks, at_edge = 0;
	struct bytes b = small_file(ev, &n, 1);
	char why[512];
	gil_reader *r;
	int err;

	(void)state;
	blocks = block_starts(&b, start);
	assert_int_equal(blocks, 8);
	for (size_t size = 0; size <= b.n; size++) {
		int edge = 0;
		size_t got;

		for (size_t i = 0; i <= blocks; i++)
			edge |= start[i] == size;
		at_edge += (size_t)edge;
		r = read_bytes(b.p, size, &err, why);
		if (size < 32) {
			assert_int_equal(err, size ? -EPROTO : -EINVAL);
			continue;
		}
		assert_int_equal(err, 0);
		got = expect_prefix(r, ev, n);
		assert_true(!edge == !!gil_reader_problem(r));
		if (!edge)
			assert_non_null(strstr(gil_reader_problem(r), "ends inside block"));
		assert_int_equal(gil_reader_end_reason(r), size == b.n ? GIL_END_STOPPED : 0);
		/* Exactly the blocks that are whole. */
		assert_int_equal(
			got, 8 * ((size >= start[4]) + (size >= start[5]) + (size >= start[7])));
		gil_reader_close(r);
	}
	assert_int_equal(at_edge, blocks + 1);
	bytes_free(&b);
}

/* Every byte lies under some checksum, so every flipped bit is noticed. */
static void every_bit_flip(void **state)
{
	struct gil_event ev[EVENTS_MAX];
	size_t n;
	struct bytes b = small_file(ev, &n, 2);
	char why[512];

	(void)state;
	for (size_t bit = 0; bit < 8 * b.n; bit++) {
		gil_reader *r;
		int err;

		b.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
		r = read_bytes(b.p, b.n, &err, why);
		if (r) {
			size_t got = expect_prefix(r, ev, n);

			assert_non_null(gil_reader_problem(r));
			gil_reader_rewind(r);
			assert_int_equal(expect_prefix(r, ev, n), got);
			assert_non_null(gil_reader_problem(r));
		}
		gil_reader_close(r);
		b.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	bytes_free(&b);
}

/* Any bytes behind right checksums: whatever comes out, it ends, and is sane. */
static void random_content(void **state)
{
	uint64_t seed = 3;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		struct gil_event ev[EVENTS_MAX], got;
		size_t n, start[32] = {0}, blocks;
		struct bytes b = small_file(ev, &n, 4 + (uint64_t)round % 7);
		char why[512];
		gil_reader *r;
		int err;

		blocks = block_starts(&b, start);
		for (uint32_t hits = 1 + make_below(&seed, 4); hits--;) {
			size_t k = make_below(&seed, (uint32_t)blocks);
			size_t len = start[k + 1] - start[k];
			/* the header's fields, but not magic, size and sequence, or the payload */
			size_t at = make_below(&seed, (uint32_t)len);

			if (at < 4 || (at >= 8 && at < 12) || (at >= 16 && at < 24))
				continue;
			b.p[start[k] + at] = (uint8_t)make_random(&seed);
			fix_block(&b, start[k]);
		}
		r = read_bytes(b.p, b.n, &err, why);
		while (r && gil_reader_next(r, &got)) {
			assert_in_range(got.kind, 1, GIL_PAUSED);
			assert_int_not_equal(got.kind, GIL_FORCED);
			assert_int_not_equal(got.kind, GT_KIND_EXTENDED);
			assert_true(!got.forced || got.kind == GIL_RELEASE);
			assert_true(got.mono_ns >= gil_reader_first_mono_ns(r));
			assert_true(got.mono_ns <= gil_reader_last_mono_ns(r));
			if (got.kind == GIL_LOST)
				assert_true(got.lost.begin_mono_ns <= got.mono_ns);
			if (got.kind == GIL_THREAD)
				assert_true(memchr(got.thread.comm, 0, GIL_COMM_LEN) != NULL);
			if (got.kind == GIL_THREAD && got.thread.name)
				assert_in_range(strlen(got.thread.name), 1, GIL_NAME_MAX);
			if (got.kind == GIL_LATE)
				assert_in_range(got.late.begin_mono_ns, 1, got.mono_ns);
			if (got.kind == GIL_PAUSED)
				assert_in_range(got.paused.begin_mono_ns, 1, got.mono_ns);
			if (got.kind == GIL_MARK)
				assert_in_range(strlen(got.mark.name), 1, GIL_MARK_MAX);
		}
		gil_reader_close(r);
		bytes_free(&b);
	}
}

static void not_a_gil_file(void **state)
{
	static const char *const texts[] = {"", "[{\"name\":\"take_gil\"}]", "\x89GIL\n\x1a\n",
					    "\x89PNG\r\n\x1a\n", "G"};
	char dir[] = "/tmp/gilread.XXXXXX", path[64], why[512];
	gil_reader *r = (gil_reader *)dir;
	int err;

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(texts); i++) {
		read_bytes(texts[i], strlen(texts[i]), &err, why);
		assert_int_equal(err, -EINVAL);
		assert_non_null(strstr(why, "no .gil file"));
	}
	assert_non_null(mkdtemp(dir));
	assert_int_equal(gil_reader_open(dir, &r, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "no regular file"));
	snprintf(path, sizeof(path), "%s/fifo", dir);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(gil_reader_open(path, &r, why, sizeof(why)), -EINVAL); /* at once */
	unlink(path);
	assert_int_equal(gil_reader_open(path, &r, why, sizeof(why)), -ENOENT);
	assert_non_null(strstr(why, path));
	rmdir(dir);
	assert_ptr_equal(r, dir); /* untouched by failures */
}

static void versions(void **state)
{
	struct gil_event ev[EVENTS_MAX];
	struct bytes b, bigger = {0};
	char why[512];
	gil_reader *r;
	size_t n;
	int err;

	(void)state;
	b = small_file(ev, &n, 5);
	gt_put_le16(b.p + 10, 7); /* minor */
	fix_header(&b);
	r = read_bytes(b.p, b.n, &err, why);
	assert_int_equal(expect_prefix(r, ev, n), n);
	assert_null(gil_reader_problem(r));
	gil_reader_close(r);

	gt_put_le32(b.p + 12, 40); /* a longer file header */
	fix_header(&b);
	bytes_put(&bigger, b.p, 32);
	bytes_put(&bigger, "12345678", 8);
	bytes_put(&bigger, b.p + 32, b.n - 32);
	r = read_bytes(bigger.p, bigger.n, &err, why);
	assert_int_equal(expect_prefix(r, ev, n), n);
	assert_null(gil_reader_problem(r));
	gil_reader_close(r);

	for (uint32_t size = 0; size < 0x10000; size = size * 2 + 31) {
		gt_put_le32(b.p + 12, size);
		fix_header(&b);
		read_bytes(b.p, size == 31 ? b.n : 32, &err, why);
		assert_int_equal(err, -EPROTO);
	}
	gt_put_le16(b.p + 8, 2); /* major */
	fix_header(&b);
	read_bytes(b.p, b.n, &err, why);
	assert_int_equal(err, -ENOTSUP);
	assert_non_null(strstr(why, "format 2.7"));
	bytes_free(&bigger);
	bytes_free(&b);
}

/* What minor versions may add is passed over. */
static void additions(void **state)
{
	static const uint8_t records[] = {
		0xe8, 3,   0,    0,    0,    0,    0,    0, /* base 1000 */
		0x6f, 0,   9,    2,    1,    1, /* kind 1 as an extended one, thread 9 */
		0x7f, 2,   3,    99,   2,    3, /* kind 99 */
		0x78, 2,   9,    5,    2,    'a',  'b',  6,
		1,    'n', 0xff, 0xff,                   /* THREAD, two more bytes */
		0x79, 2,   4,    1,    0x81, 0,    0xff, /* GIL, one more */
		0x7a, 2,   3,    1,    2,    0xff,       /* LOST, one more */
		0x7f, 2,   2,    0x90, 2,                /* kind 272, whose low byte is a MARK's */
		0x7b, 2,   1,    3,                      /* BEFORE, of another state */
		0x7b, 2,   3,    2,    0xff, 0xff,       /* BEFORE, two more */
		0x7c, 2,   1,    0xff,                   /* EXIT, one more */
		0x7e, 2,   3,    9,    0xff, 0xff,       /* LATE, two more */
		0x7f, 2,   5,    16,   1,    'm',  0xff, 0xff, /* MARK, two more */
		0x7f, 2,   4,    17,   9,    0xff, 0xff,       /* PAUSED, two more */
		0x71, 2,                                       /* WAIT */
	};
	static const uint8_t meta[] = {1, 'k', 1, 'v', 0xff, 0xff};
	static const uint8_t site[] = {1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 'x', 0xff};
	uint8_t clock[48] = {0xe8, 3}, end[24] = {1};
	struct bytes b = {0};
	struct gil_event ev;
	char why[512];
	gil_reader *r;
	int err;

	(void)state;
	put_header(&b);
	put_block(&b, 1, 0, 1, 0, 0, meta, sizeof(meta));
	put_block(&b, 77, 9, 3, 5, 6, "whatever", 8);
	put_block(&b, 2, 0, 1, 0, 0, site, sizeof(site));
	put_block(&b, 3, 0, 1, 1000, 1000, clock, sizeof(clock));
	put_block(&b, 4, 1, 13, 1000, 2000, records, sizeof(records));
	put_block(&b, 5, 0, 1, 3000, 3000, end, sizeof(end));
	r = read_bytes(b.p, b.n, &err, why);
	assert_int_equal(err, 0);
	assert_string_equal(gil_reader_meta(r, "k"), "v");
	assert_int_equal(gil_reader_sites(r), 1);
	assert_int_equal(gil_reader_clocks(r), 1);
	assert_int_equal(gil_reader_end_reason(r), 1);
	assert_int_equal(gil_reader_next(r, &ev), 1);
	assert_true(ev.kind == GIL_THREAD && ev.mono_ns == 1003 && ev.tid == 9);
	assert_int_equal(ev.thread.ns_tid, 5);
	assert_string_equal(ev.thread.comm, "ab");
	assert_int_equal(ev.thread.host_tid, 6);
	assert_string_equal(ev.thread.name, "n");
	assert_int_equal(gil_reader_next(r, &ev), 1);
	assert_true(ev.kind == GIL_GIL && ev.mono_ns == 1004 && ev.unconfirmed);
	assert_int_equal(ev.gil_ident.addr, 1);
	assert_int_equal(gil_reader_next(r, &ev), 1);
	assert_true(ev.kind == GIL_LOST && ev.mono_ns == 1005);
	assert_int_equal(ev.lost.begin_mono_ns, 1004);
	assert_int_equal(ev.lost.count, 2);
	assert_int_equal(gil_reader_next(r, &ev), 1);
	assert_true(ev.kind == GIL_BEFORE && ev.mono_ns == 1008 && ev.tid == 9);
	assert_int_equal(ev.before.state, GIL_BEFORE_HOLDING);
	assert_int_equal(gil_reader_next(r, &ev), 1);
	assert_true(ev.kind == GIL_EXIT && ev.mono_ns == 1009);
	assert_int_equal(gil_reader_next(r, &ev), 1);
	assert_true(ev.kind == GIL_LATE && ev.mono_ns == 1010 && ev.late.begin_mono_ns == 1001);
	assert_int_equal(gil_reader_next(r, &ev), 1);
	assert_true(ev.kind == GIL_MARK && ev.mono_ns == 1011 && ev.tid == 9);
	assert_string_equal(ev.mark.name, "m");
	assert_int_equal(gil_reader_next(r, &ev), 1);
	assert_true(ev.kind == GIL_PAUSED && ev.mono_ns == 1012);
	assert_int_equal(ev.paused.begin_mono_ns, 1003);
	assert_int_equal(gil_reader_next(r, &ev), 1);
	assert_true(ev.kind == GIL_WAIT && ev.mono_ns == 1013);
	assert_int_equal(gil_reader_next(r, &ev), 0);
	assert_null(gil_reader_problem(r));
	gil_reader_close(r);
	bytes_free(&b);
}

/* The bytes behind the base time (1000) of one block with times 1000 .. 2000, and what is said. */
static const struct {
	const char *what;
	uint32_t count, good; /* records claimed; events that still come out */
	uint8_t n, p[140];
} wrong_records[] = {
	{"tag", 1, 0, 2, {0x70, 0}},
	{"tag", 1, 0, 2, {0xf1, 0}},
	{"time", 1, 0, 2, {0x71, 1}},          /* 999 */
	{"time", 1, 0, 3, {0x71, 0xd2, 0x0f}}, /* 2001 */
	{"time", 2, 1, 4, {0x71, 0, 0x71, 1}},
	{"time", 1, 0, 11, {0x71, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}},
	{"index", 1, 0, 4, {0x61, 1, 5, 0}}, /* the first thread is 0 */
	{"index", 1, 0, 4, {0x61, 0xff, 0xff, 0}},
	{"id", 1, 0, 8, {0x61, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 0}},
	{"longer", 1, 0, 12, {0x71, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2, 0}},
	{"longer", 1, 0, 1, {0x71}},
	{"longer", 1, 0, 1, {0x11}},
	{"longer", 2, 1, 2, {0x71, 0}},
	{"longer", 1, 0, 3, {0x7f, 0, 1}},
	{"longer", 1, 0, 4, {0x7f, 0, 2, 0}},
	{"longer", 1, 0, 12, {0x7f, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}},
	{"after its last", 1, 1, 3, {0x71, 0, 0}},
	{"after its last", 0, 0, 2, {0x71, 0}},
	{"name", 1, 0, 3, {0x78, 0, 0}},
	{"name", 1, 0, 4, {0x78, 0, 1, 5}},         /* no name's length */
	{"name", 1, 0, 6, {0x78, 0, 3, 5, 2, 'a'}}, /* over the block's end */
	{"name", 1, 0, 6, {0x78, 0, 2, 5, 1, 'a'}}, /* over the fields' end */
	{"name", 1, 0, 21, {0x78, 0, 18, 5, 16, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
	{"NUL", 1, 0, 7, {0x78, 0, 4, 5, 2, 'a', 0}},
	{"thread", 1, 0, 9, {0x78, 0, 6, 0x80, 0x80, 0x80, 0x80, 0x10, 0}},
	/* with a name in the interpreter, and an id on the host: 2^32, one without the other .. */
	{"thread", 1, 0, 11, {0x78, 0, 8, 5, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 0}},
	{"name", 1, 0, 6, {0x78, 0, 3, 5, 0, 9}},
	{"name", 1, 0, 7, {0x78, 0, 4, 5, 0, 0x89, 0x80}},
	/* .. a name over the fields' end, the block's end, the limit, with a NUL */
	{"name", 1, 0, 8, {0x78, 0, 4, 5, 0, 9, 1, 'a'}},
	{"name", 1, 0, 9, {0x78, 0, 6, 5, 0, 9, 3, 'a', 'b'}},
	{"name", 1, 0, 71, {0x78, 0, 68, 5, 0, 9, 64, [7 ... 70] = 'a'}},
	{"NUL", 1, 0, 9, {0x78, 0, 6, 5, 0, 9, 2, 'a', 0}},
	{"GIL", 1, 0, 3, {0x79, 0, 0}},
	{"GIL", 1, 0, 4, {0x79, 0, 1, 0}},
	{"GIL", 1, 0, 5, {0x79, 0, 2, 0, 0x80}},
	{"loss", 1, 0, 3, {0x7a, 0, 0}},
	{"loss", 1, 0, 4, {0x7a, 0, 1, 0}},
	{"loss", 1, 0, 6, {0x7a, 0, 3, 0xe9, 7, 0}}, /* begins 1001 ns before 1000 */
	{"state", 1, 0, 3, {0x7b, 0, 0}},            /* BEFORE without one */
	{"longer", 1, 0, 2, {0x7c, 0}},              /* EXIT without a length */
	{"longer", 1, 0, 2, {0x7d, 0}},              /* LEFT */
	{"late", 1, 0, 3, {0x7e, 0, 0}},             /* LATE without a time */
	{"late", 1, 0, 4, {0x7e, 0, 1, 0x80}},       /* over the fields' end */
	{"late", 1, 0, 5, {0x7e, 0, 2, 0xe8, 7}},    /* begins at 0 */
	{"kind", 1, 0, 3, {0x7f, 0, 0}},             /* an extended kind without one */
	{"kind", 1, 0, 4, {0x7f, 0, 1, 0x90}},       /* over the fields' end */
	{"kind", 1, 0, 5, {0x7f, 0, 1, 0x90, 0}},
	{"kind", 1, 0, 13, {0x7f, 0, 10, 0x90, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2}},
	/* MARK: no name, an empty one, over the fields' end, the limit, with a NUL */
	{"name", 1, 0, 4, {0x7f, 0, 1, 16}},
	{"mark", 1, 0, 5, {0x7f, 0, 2, 16, 0}},
	{"name", 1, 0, 6, {0x7f, 0, 3, 16, 2, 'a'}},
	{"name", 1, 0, 134, {0x7f, 0, 0x82, 1, 16, 128, [6 ... 133] = 'a'}},
	{"NUL", 1, 0, 7, {0x7f, 0, 4, 16, 2, 'a', 0}},
	/* PAUSED: no time, over the fields' end, begins at 0 */
	{"pause", 1, 0, 4, {0x7f, 0, 1, 17}},
	{"pause", 1, 0, 5, {0x7f, 0, 2, 17, 0x80}},
	{"pause", 1, 0, 6, {0x7f, 0, 3, 17, 0xe8, 7}},
};

static void wrong_encodings(void **state)
{
	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(wrong_records); i++) {
		uint8_t payload[8 + 140] = {0xe8, 3};
		struct bytes b = {0};
		struct gil_event ev;
		const char *problem;
		char why[512];
		gil_reader *r;
		uint32_t got = 0;
		int err;

		memcpy(payload + 8, wrong_records[i].p, wrong_records[i].n);
		put_header(&b);
		put_block(&b, 4, 1, wrong_records[i].count, 1000, 2000, payload,
			  8u + wrong_records[i].n);
		put_block(&b, 4, 1, 1, 1000, 2000, "\xe8\3\0\0\0\0\0\0\x71\0", 10);
		r = read_bytes(b.p, b.n, &err, why);
		assert_int_equal(err, 0);
		while (gil_reader_next(r, &ev))
			got++;
		problem = gil_reader_problem(r);
		if (!problem || got != wrong_records[i].good ||
		    !strstr(problem, "test.gil: block 0 at byte 32: record ") ||
		    !strstr(problem, wrong_records[i].what))
			fail_msg("case %zu (%s): %u events, %s", i, wrong_records[i].what, got,
				 problem);
		gil_reader_rewind(r);
		while (gil_reader_next(r, &ev))
			got--;
		assert_int_equal(got, 0);
		gil_reader_close(r);
		bytes_free(&b);
	}
}

/* Blocks that are wrong in themselves, though their checksums are right. */
static const struct {
	uint16_t type, codec;
	uint32_t count;
	uint64_t first, last;
	uint32_t n;
	uint8_t p[52];
} wrong_blocks[] = {
	{4, 0, 0, 5, 6, 8, {5}}, /* codec */
	{3, 1, 1, 5, 5, 40, {5}},
	{4, 1, 0, 5, 6, 7, {5}},           /* no base time */
	{4, 1, 1, 0, 6, 10, {[8] = 0x71}}, /* time 0 */
	{4, 1, 0, 7, 6, 8, {5}},           /* times */
	{4, 1, 0, 5, 1ull << 62, 8, {5}},
	{1, 0, 1, 0, 0, 3, {1, 'k', 1}}, /* META: over the end */
	{1, 0, 2, 0, 0, 4, {1, 'k', 1, 'v'}},
	{1, 0, 0xffffffff, 0, 0, 4, {1, 'k', 1, 'v'}},
	{1, 0, 1, 0, 0, 4, {1, 0, 1, 'v'}}, /* a NUL */
	{1, 0, 1, 0, 0, 12, {1, 'k', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}},
	{2, 0, 1, 0, 0, 11, {1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1}}, /* SITES */
	{2, 0, 1, 0, 0, 10, {1, 0, 0, 0, 0, 0, 0, 0, 2, 0}},
	{2, 0, 1, 0, 0, 13, {1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 2, 'x'}}, /* a NUL */
	{2, 0, 257, 0, 0, 11, {0}},
	{3, 0, 1, 5, 5, 39, {5}}, /* CLOCK */
	{3, 0, 2, 5, 5, 40, {5}},
	{3, 0, 1, 5, 5, 40, {6}},
	{3, 0, 1, 5, 5, 40, {[0] = 5, [23] = 0x40}},
	{3, 0, 1, 2, 2, 40, {2}}, /* before the one at 3 */
	{5, 0, 1, 5, 5, 19, {1}}, /* END */
	{5, 0, 1, 5, 5, 20, {0}},
	{5, 0, 1, 5, 5, 20, {[3] = 0x80}},
};

static void wrong_content(void **state)
{
	const uint8_t clock[40] = {3};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(wrong_blocks); i++) {
		struct bytes b = {0};
		struct gil_event ev;
		char why[512];
		gil_reader *r;
		int err;

		put_header(&b);
		put_block(&b, 3, 0, 1, 3, 3, clock, sizeof(clock));
		put_block(&b, wrong_blocks[i].type, (uint8_t)wrong_blocks[i].codec,
			  wrong_blocks[i].count, wrong_blocks[i].first, wrong_blocks[i].last,
			  wrong_blocks[i].p, wrong_blocks[i].n);
		if (read_bytes(b.p, b.n, &err, why) || err != -EPROTO ||
		    !strstr(why, "block 1 at byte 128"))
			fail_msg("case %zu: %d, %s", i, err, why);
		/* With an event before it, that is kept. */
		b.n = 128;
		b.seq = 1;
		put_block(&b, 4, 1, 1, 1000, 2000, "\xe8\3\0\0\0\0\0\0\x71\0", 10);
		put_block(&b, wrong_blocks[i].type, (uint8_t)wrong_blocks[i].codec,
			  wrong_blocks[i].count, wrong_blocks[i].first, wrong_blocks[i].last,
			  wrong_blocks[i].p, wrong_blocks[i].n);
		r = read_bytes(b.p, b.n, &err, why);
		assert_int_equal(err, 0);
		assert_non_null(strstr(gil_reader_problem(r), "block 2 at byte 194"));
		assert_int_equal(gil_reader_next(r, &ev), 1);
		assert_int_equal(gil_reader_next(r, &ev), 0);
		gil_reader_close(r);
		bytes_free(&b);
	}
}

/* A file made by cutting and joining right blocks. */
static void wrong_order(void **state)
{
	struct gil_event ev[EVENTS_MAX];
	size_t n, start[32] = {0};
	struct bytes b = small_file(ev, &n, 6), cut = {0};
	char why[512];
	gil_reader *r;
	int err;

	(void)state;
	block_starts(&b, start);
	bytes_put(&cut, b.p, start[4]);
	bytes_put(&cut, b.p + start[5], b.n - start[5]);
	r = read_bytes(cut.p, cut.n, &err, why);
	assert_int_equal(expect_prefix(r, ev, n), 8);
	assert_non_null(strstr(gil_reader_problem(r), "block 4 at byte"));
	assert_non_null(strstr(gil_reader_problem(r), "out of sequence"));
	assert_int_equal(gil_reader_end_reason(r), 0);
	gil_reader_close(r);

	bytes_put(&b, "x", 1);
	r = read_bytes(b.p, b.n, &err, why);
	assert_int_equal(expect_prefix(r, ev, n), n);
	assert_non_null(strstr(gil_reader_problem(r), "1 bytes after the END block"));
	assert_int_equal(gil_reader_end_reason(r), GIL_END_STOPPED);
	gil_reader_close(r);
	bytes_free(&b);
	bytes_free(&cut);
}

/* Damage in a block of events is found while reading; the summary then ends there, too. */
static void damaged_events(void **state)
{
	struct gil_event ev[EVENTS_MAX];
	size_t n, start[32] = {0};
	struct bytes b = small_file(ev, &n, 8);
	uint64_t last;
	char why[512];
	gil_reader *r;
	int err;

	(void)state;
	block_starts(&b, start);
	b.p[start[4] + 56 + 9] ^= 1;
	r = read_bytes(b.p, b.n, &err, why);
	assert_null(gil_reader_problem(r));
	last = gil_reader_last_mono_ns(r);
	assert_int_equal(gil_reader_lost_total(r), 5);
	for (int pass = 0; pass < 2; pass++) {
		assert_int_equal(expect_prefix(r, ev, n), 8);
		assert_non_null(strstr(gil_reader_problem(r), "block 4 at byte"));
		assert_non_null(strstr(gil_reader_problem(r), "checksum"));
		assert_true(gil_reader_last_mono_ns(r) < last);
		assert_int_equal(gil_reader_last_mono_ns(r), gt_get_le64(b.p + start[3] + 32));
		assert_int_equal(gil_reader_lost_total(r), 0);
		gil_reader_rewind(r);
	}
	gil_reader_close(r);
	bytes_free(&b);
}

static void file_shortened_while_reading(void **state)
{
	struct gil_event ev[EVENTS_MAX];
	size_t n, start[32] = {0};
	struct bytes b = small_file(ev, &n, 9);
	int fd = memory_file(b.p, b.n);
	char why[512];
	gil_reader *r;

	(void)state;
	block_starts(&b, start);
	assert_int_equal(gil_reader_open_fd(dup(fd), "test.gil", &r, why, sizeof(why)), 0);
	assert_int_equal(ftruncate(fd, (off_t)start[4] + 60), 0);
	assert_int_equal(expect_prefix(r, ev, n), 8);
	assert_non_null(strstr(gil_reader_problem(r), "shorter"));
	gil_reader_close(r);
	close(fd);
	bytes_free(&b);
}

/* From the first block's part of the file on, in steps that never go back, to all of it. */
static void how_far_it_is(void **state)
{
	struct gil_event ev[EVENTS_MAX], got;
	size_t n, read = 0;
	struct bytes b = small_file(ev, &n, 9);
	unsigned int before = 0, steps = 0;
	gil_reader *r;
	char why[512];
	int err;

	(void)state;
	r = read_bytes(b.p, b.n, &err, why);
	assert_non_null(r);
	assert_int_equal(gil_reader_permille(r), 0);
	for (; gil_reader_next(r, &got); read++) {
		unsigned int now = gil_reader_permille(r);

		assert_in_range(now, before, 1000);
		assert_true(now > 0);
		steps += now > before;
		before = now;
	}
	assert_int_equal(read, n);
	assert_true(steps > 2);
	assert_int_equal(gil_reader_permille(r), 1000);
	gil_reader_rewind(r);
	assert_int_equal(gil_reader_permille(r), 0);
	gil_reader_close(r);
	bytes_free(&b);
}

static gil_reader *with_clocks(const uint64_t (*mono_unix)[2], size_t n)
{
	struct bytes b = {0};
	char why[512];
	gil_reader *r;
	int err;

	put_header(&b);
	for (size_t i = 0; i < n; i++) {
		uint8_t p[40] = {0};

		gt_put_le64(p, mono_unix[i][0]);
		gt_put_le64(p + 16, mono_unix[i][1]);
		put_block(&b, 3, 0, 1, mono_unix[i][0], mono_unix[i][0], p, sizeof(p));
	}
	r = read_bytes(b.p, b.n, &err, why);
	assert_int_equal(err, 0);
	assert_int_equal(gil_reader_clocks(r), n);
	bytes_free(&b);
	return r;
}

static void unix_time(void **state)
{
	static const uint64_t back[][2] = {{5000000000, 1700000000000000000},
					   {6000000000, 1700000000000500000},
					   {7000000000, 1699999999000000000}};
	static const uint64_t early[][2] = {{5000000000, 10}, {6000000000, 1000999999}};
	gil_reader *r = with_clocks(back, 3);

	(void)state;
	assert_int_equal(gil_reader_unix_ns(r, 5000000001), 1700000000000000001);
	assert_int_equal(gil_reader_unix_ns(r, 4000000000), 1699999999000000000);
	assert_int_equal(gil_reader_unix_ns(r, 9000000000), 1700000004000000000);
	assert_true(gil_reader_clock_step_ns(r) == -3000000000);
	gil_reader_close(r);
	r = with_clocks(early, 2);
	assert_int_equal(gil_reader_unix_ns(r, 4000000000), 1);
	assert_int_equal(gil_reader_unix_ns(r, 5000000000), 10);
	assert_true(gil_reader_unix_ns(r, UINT64_MAX) > 0);
	assert_int_equal(gil_reader_clock_step_ns(r), 0); /* 999,989 ns: below what samples tell */
	gil_reader_close(r);
	r = with_clocks(NULL, 0);
	assert_int_equal(gil_reader_unix_ns(r, 0), 1);
	assert_int_equal(gil_reader_unix_ns(r, 77), 77);
	assert_int_equal(gil_reader_clock_step_ns(r), 0);
	gil_reader_close(r);
}

static void too_much_meta(void **state)
{
	uint8_t pairs[2 * 8192] = {0}; /* empty keys, empty values */
	struct bytes b = {0};
	char why[512];
	gil_reader *r;
	int err;

	(void)state;
	put_header(&b);
	for (int i = 0; i < 2; i++)
		put_block(&b, 1, 0, 8192, 0, 0, pairs, sizeof(pairs));
	r = read_bytes(b.p, b.n, &err, why);
	assert_int_equal(err, 0);
	assert_string_equal(gil_reader_meta(r, ""), "");
	gil_reader_close(r);
	put_block(&b, 1, 0, 1, 0, 0, pairs, 2);
	read_bytes(b.p, b.n, &err, why);
	assert_int_equal(err, -EPROTO);
	assert_non_null(strstr(why, "more META"));
	bytes_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_truncation),
		cmocka_unit_test(every_bit_flip),
		cmocka_unit_test(random_content),
		cmocka_unit_test(not_a_gil_file),
		cmocka_unit_test(versions),
		cmocka_unit_test(additions),
		cmocka_unit_test(wrong_encodings),
		cmocka_unit_test(wrong_content),
		cmocka_unit_test(wrong_order),
		cmocka_unit_test(damaged_events),
		cmocka_unit_test(file_shortened_while_reading),
		cmocka_unit_test(how_far_it_is),
		cmocka_unit_test(unix_time),
		cmocka_unit_test(too_much_meta),
	};

	return cmocka_run_group_tests_name("gilread", tests, NULL, NULL);
}
