// SPDX-License-Identifier: Apache-2.0
/* What is written is read again, on good days and when writing fails; what 1.1, 1.2, 1.3 added. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gilmake.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

static const struct gil_site two_sites[] = {
	{.offset = 0x1234, .kind = GIL_ACQUIRE, .how = "scan: take_gil"},
	{.offset = 0x123456789abc, .kind = GIL_RELEASE, .flags = 4, .how = "scan"},
};

static const struct gil_clock one_clock = {
	.mono_ns = 1000000000,
	.raw_ns = 1000000100,
	.unix_ns = 1700000000123456789,
	.boot_ns = 5000000000,
	.error_ns = 40,
};

/* A descriptor for reading what the writer, which owns the other, has written. */
static struct gt_gilfile *create(int *fd)
{
	struct gt_gilfile *f = NULL;

	*fd = memfd_create("test.gil", MFD_CLOEXEC);
	assert_true(*fd >= 0);
	assert_int_equal(gt_gilfile_create(dup(*fd), &f), 0);
	return f;
}

static gil_reader *open_reader(int fd)
{
	char why[512];
	gil_reader *r = NULL;

	if (gil_reader_open_fd(dup(fd), "test.gil", &r, why, sizeof(why)))
		fail_msg("%s", why);
	return r;
}

static void expect_events(gil_reader *r, const struct gil_event *ev, size_t n)
{
	struct gil_event got;

	for (size_t i = 0; i < n; i++) {
		if (!gil_reader_next(r, &got))
			fail_msg("event %zu of %zu is missing: %s", i, n, gil_reader_problem(r));
		if (!same_event(&got, &ev[i]))
			fail_msg("event %zu of %zu differs", i, n);
	}
	assert_int_equal(gil_reader_next(r, &got), 0);
	assert_null(gil_reader_problem(r));
}

static uint64_t count_events(const struct gil_event *ev, size_t n)
{
	uint64_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += ev[i].kind < 8;
	return count;
}

/* One round with everything random; events of `nthreads` threads in one or many blocks. */
static void round_trip(uint64_t seed, size_t n, uint32_t nthreads)
{
	struct gil_event *ev = calloc(n + 1, sizeof(*ev));
	uint64_t mono = 1 + make_wide(&seed) % 1000000000000, first = UINT64_MAX, last = 0, bytes;
	struct gt_gilfile *f;
	gil_reader *r;
	int fd;

	f = create(&fd);
	for (size_t i = 0; i < n; i++) {
		ev[i] = make_event(&seed, &mono, nthreads);
		first = ev[i].mono_ns < first ? ev[i].mono_ns : first;
		last = ev[i].mono_ns > last ? ev[i].mono_ns : last;
		assert_int_equal(gt_gilfile_add(f, &ev[i], i), 0);
		if (!make_below(&seed, 5000))
			assert_int_equal(gt_gilfile_flush(f, i), 0);
	}
	assert_int_equal(gt_gilfile_events(f), count_events(ev, n));
	assert_int_equal(gt_gilfile_unwritten(f), 0);
	assert_int_equal(gt_gilfile_error(f), 0);
	assert_int_equal(gt_gilfile_finish(f, GIL_END_STOPPED, mono, n, &bytes), 0);
	assert_int_equal(bytes, lseek(fd, 0, SEEK_END));

	r = open_reader(fd);
	expect_events(r, ev, n);
	gil_reader_rewind(r);
	expect_events(r, ev, n);
	assert_int_equal(gil_reader_first_mono_ns(r), n ? first : 0);
	assert_int_equal(gil_reader_last_mono_ns(r), last);
	assert_int_equal(gil_reader_lost_total(r), n);
	assert_int_equal(gil_reader_end_reason(r), GIL_END_STOPPED);
	gil_reader_close(r);
	close(fd);
	free(ev);
}

static void random_round_trips(void **state)
{
	uint64_t seed = (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid();
	const char *given = getenv("GT_SEED");

	(void)state;
	if (given)
		seed = strtoull(given, NULL, 0);
	print_message("GT_SEED=%llu\n", (unsigned long long)seed);
	for (int i = 0; i < 60; i++)
		round_trip(seed + (uint64_t)i, make_below(&seed, 300), 1 + make_below(&seed, 20));
	round_trip(seed, 200000, 5);
	round_trip(seed, 60000, 300);
	/* more threads than a block may name */
	round_trip(seed, 60000, 5000);
}

static void blocks_stay_within_their_size(void **state)
{
	uint64_t seed = 7, mono = 1;
	struct gt_gilfile *f;
	struct bytes b;
	size_t blocks = 0;
	int fd;

	(void)state;
	f = create(&fd);
	for (int i = 0; i < 100000; i++) {
		struct gil_event ev = make_event(&seed, &mono, 3);

		assert_int_equal(gt_gilfile_add(f, &ev, 0), 0);
	}
	gt_gilfile_finish(f, GIL_END_DURATION, mono, 0, NULL);
	b = slurp(fd);
	for (size_t off = 32; off < b.n; off += 56 + gt_get_le32(b.p + off + 8)) {
		assert_in_range(gt_get_le32(b.p + off + 8), 1, 65536);
		assert_int_equal(gt_get_le64(b.p + off + 16), blocks++);
	}
	assert_true(blocks > 4);
	bytes_free(&b);
	close(fd);
}

/* Bytes an event takes in a file of n events; mixed: eight threads, five sites, waits. */
static double event_size(int mixed, int n)
{
	uint64_t seed = 99, mono = 86400000000000, bytes;
	struct gt_gilfile *f;
	int fd;

	f = create(&fd);
	for (int i = 0; i < n; i++) {
		struct gil_event ev = {.kind = i & 1 ? GIL_RELEASE : GIL_ACQUIRE, .tid = 4242};

		ev.site = i & 1 ? 3 : 1;
		mono += 1000 + make_below(&seed, 3000);
		if (mixed) {
			ev.tid += make_below(&seed, 8);
			ev.kind = (uint8_t)(1 + make_below(&seed, 4));
			ev.site = (uint8_t)make_below(&seed, 5);
			mono += make_below(&seed, 30000);
		}
		ev.mono_ns = mono;
		gt_gilfile_add(f, &ev, 0);
	}
	assert_int_equal(gt_gilfile_finish(f, GIL_END_DURATION, mono, 0, &bytes), 0);
	close(fd);
	return (double)bytes / n;
}

static void events_are_small(void **state)
{
	double loop = event_size(0, 100000), mixed = event_size(1, 100000);

	(void)state;
	print_message("%.2f bytes an event in an acquire-release loop, %.2f mixed\n", loop, mixed);
	assert_true(loop < 4);
	assert_true(mixed < 6);
}

static void head_and_end(void **state)
{
	const char *const pairs[][2] = {
		{"a", "1"}, {"left out", NULL}, {"empty", ""}, {"a", "2"}, {"b", "\xc3\xa4\xff"}};
	const char *const later[][2] = {{"a", "3"}, {"end.error", "disk"}};
	struct gt_gilfile *f;
	gil_reader *r;
	int fd;

	(void)state;
	f = create(&fd);
	assert_int_equal(gt_gilfile_meta(f, pairs, GT_ARRAY_SIZE(pairs)), 0);
	assert_int_equal(gt_gilfile_sites(f, two_sites, 2), 0);
	assert_int_equal(gt_gilfile_clock(f, &one_clock), 0);
	assert_int_equal(gt_gilfile_meta(f, later, GT_ARRAY_SIZE(later)), 0);
	assert_int_equal(gt_gilfile_meta(f, later, 0), 0);
	assert_int_equal(gt_gilfile_finish(f, GIL_END_ERROR, 2000000000, 77, NULL), 0);
	r = open_reader(fd);
	assert_string_equal(gil_reader_meta(r, "a"), "3");
	assert_string_equal(gil_reader_meta(r, "b"), "\xc3\xa4\xff");
	assert_string_equal(gil_reader_meta(r, "empty"), "");
	assert_string_equal(gil_reader_meta(r, "end.error"), "disk");
	assert_null(gil_reader_meta(r, "left out"));
	assert_int_equal(gil_reader_sites(r), 2);
	for (size_t i = 0; i < 2; i++)
		assert_memory_equal(gil_reader_site(r, i), &two_sites[i], sizeof(two_sites[0]));
	assert_null(gil_reader_site(r, 2));
	assert_int_equal(gil_reader_clocks(r), 1);
	assert_memory_equal(gil_reader_clock(r, 0), &one_clock, sizeof(one_clock));
	assert_null(gil_reader_clock(r, 1));
	assert_int_equal(gil_reader_end_reason(r), GIL_END_ERROR);
	assert_int_equal(gil_reader_lost_total(r), 77);
	assert_int_equal(gil_reader_first_mono_ns(r), one_clock.mono_ns);
	assert_int_equal(gil_reader_last_mono_ns(r), 2000000000);
	gil_reader_close(r);
	close(fd);
}

static void refused_arguments(void **state)
{
	struct gil_site *sites = calloc(257, sizeof(*sites));
	char *big = malloc(GIL_BLOCK_PAYLOAD_MAX + 2);
	const char *const pairs[][2] = {{"big", big}};
	struct gil_event ev = {.kind = 0, .mono_ns = 5}, got;
	struct gt_gilfile *f;
	gil_reader *r;
	int fd;

	(void)state;
	memset(big, 'x', GIL_BLOCK_PAYLOAD_MAX + 1);
	big[GIL_BLOCK_PAYLOAD_MAX + 1] = 0;
	f = create(&fd);
	assert_int_equal(gt_gilfile_meta(f, pairs, 1), -E2BIG);
	assert_int_equal(gt_gilfile_sites(f, sites, 257), -E2BIG);
	assert_int_equal(gt_gilfile_sites(f, sites, 256), 0);
	assert_int_equal(gt_gilfile_add(f, &ev, 0), -EINVAL);
	for (int kind = GIL_FORCED; kind < 256; kind++) {
		if ((kind > GIL_FORCED && kind <= GIL_LATE) || kind == GIL_MARK ||
		    kind == GIL_PAUSED)
			continue;
		ev.kind = (uint8_t)kind;
		assert_int_equal(gt_gilfile_add(f, &ev, 0), -EINVAL);
	}
	ev.kind = GIL_BEFORE;
	for (int before = 0; before < 256; before = before ? before + 1 : 3) {
		ev.before.state = (uint8_t)before;
		assert_int_equal(gt_gilfile_add(f, &ev, 0), -EINVAL);
	}
	ev = (struct gil_event){.kind = GIL_LATE, .mono_ns = 5}; /* begins at 0 */
	assert_int_equal(gt_gilfile_add(f, &ev, 0), -EINVAL);
	ev.kind = GIL_PAUSED;
	assert_int_equal(gt_gilfile_add(f, &ev, 0), -EINVAL);
	ev.kind = GIL_MARK;
	ev.mark.name = NULL;
	assert_int_equal(gt_gilfile_add(f, &ev, 0), -EINVAL);
	ev.mark.name = "";
	assert_int_equal(gt_gilfile_add(f, &ev, 0), -EINVAL);
	ev.kind = GIL_WAIT;
	ev.mono_ns = GIL_TIME_MAX;
	assert_int_equal(gt_gilfile_add(f, &ev, 0), -EINVAL);
	ev.mono_ns = 0;
	assert_int_equal(gt_gilfile_add(f, &ev, 0), -EINVAL);
	assert_int_equal(gt_gilfile_pending_since(f), 0);
	/* A gap that begins after its end is one without length. */
	ev = (struct gil_event){.kind = GIL_LOST, .mono_ns = 50};
	ev.lost.begin_mono_ns = 60;
	ev.lost.count = 3;
	assert_int_equal(gt_gilfile_add(f, &ev, 0), 0);
	assert_int_equal(gt_gilfile_pending_since(f), 50);
	ev = (struct gil_event){.kind = GIL_LATE, .mono_ns = 50, .tid = 9, .late = {60}};
	assert_int_equal(gt_gilfile_add(f, &ev, 0), 0);
	ev = (struct gil_event){.kind = GIL_PAUSED, .mono_ns = 50, .tid = 9, .paused = {60}};
	assert_int_equal(gt_gilfile_add(f, &ev, 0), 0);
	assert_int_equal(gt_gilfile_events(f), 0);
	assert_int_equal(gt_gilfile_flush(f, 3), 0);
	assert_int_equal(gt_gilfile_pending_since(f), 0);
	assert_int_equal(gt_gilfile_finish(f, GIL_END_STOPPED, 60, 3, NULL), 0);
	r = open_reader(fd);
	assert_int_equal(gil_reader_sites(r), 256);
	assert_int_equal(gil_reader_next(r, &got), 1);
	assert_int_equal(got.lost.begin_mono_ns, 50);
	assert_int_equal(got.lost.count, 3);
	assert_int_equal(gil_reader_next(r, &got), 1);
	assert_int_equal(got.late.begin_mono_ns, 50);
	assert_int_equal(got.tid, 0);
	assert_int_equal(gil_reader_next(r, &got), 1);
	assert_int_equal(got.paused.begin_mono_ns, 50);
	assert_int_equal(got.tid, 0);
	gil_reader_close(r);
	close(fd);
	free(sites);
	free(big);
}

/* All events added are in the file or counted; the file is good up to its last whole block. */
static void check_after_failure(int fd, struct gt_gilfile *f, int err, uint64_t added)
{
	uint64_t kept = gt_gilfile_events(f), bytes;
	struct gil_event ev = {.kind = GIL_WAIT, .mono_ns = 5};
	gil_reader *r;

	assert_int_equal(gt_gilfile_error(f), err);
	assert_int_equal(kept + gt_gilfile_unwritten(f), added);
	assert_int_equal(gt_gilfile_add(f, &ev, 0), err);
	assert_int_equal(gt_gilfile_flush(f, 0), err);
	assert_int_equal(gt_gilfile_clock(f, &one_clock), err);
	assert_int_equal(gt_gilfile_events(f), kept);
	assert_int_equal(gt_gilfile_unwritten(f), added - kept + 1);
	assert_int_equal(gt_gilfile_finish(f, GIL_END_ERROR, 5, 0, &bytes), err);
	assert_int_equal(bytes, lseek(fd, 0, SEEK_END));

	r = open_reader(fd);
	for (uint64_t i = 0; i < kept; i++)
		assert_int_equal(gil_reader_next(r, &ev), 1);
	assert_int_equal(gil_reader_next(r, &ev), 0);
	assert_null(gil_reader_problem(r));
	assert_int_equal(gil_reader_end_reason(r), 0);
	gil_reader_close(r);
}

/* The disk is full after some bytes, at a block's edge or inside one. */
static void failing_write(void **state)
{
	static const rlim_t limits[] = {32, 33, 87, 88, 89, 1000, 65600, 66000, 200000};
	struct rlimit old;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	for (size_t k = 0; k < GT_ARRAY_SIZE(limits); k++) {
		struct rlimit lim = {.rlim_cur = limits[k], .rlim_max = old.rlim_max};
		struct gt_gilfile *f;
		int fd, err = 0;
		uint64_t added = 0;

		f = create(&fd);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &lim), 0);
		while (!err && added < 1000000) {
			struct gil_event ev = {.kind = GIL_ACQUIRE, .mono_ns = 5 + added * 2000};

			err = gt_gilfile_add(f, &ev, 0);
			added++;
		}
		setrlimit(RLIMIT_FSIZE, &old);
		assert_int_equal(err, -EFBIG);
		check_after_failure(fd, f, err, added);
		close(fd);
	}
}

/* It is another block that does not fit: the events in memory are lost all the same. */
static void failing_write_of_another_block(void **state)
{
	struct gil_event ev = {.kind = GIL_ACQUIRE, .mono_ns = 5};
	struct rlimit old, lim;
	struct gt_gilfile *f;
	int fd;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	f = create(&fd);
	assert_int_equal(gt_gilfile_add(f, &ev, 0), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	lim = (struct rlimit){.rlim_cur = 40, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &lim), 0);
	assert_int_equal(gt_gilfile_clock(f, &one_clock), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &old);
	assert_int_equal(gt_gilfile_flush(f, 0), -EFBIG);
	assert_int_equal(gt_gilfile_unwritten(f), 1);
	check_after_failure(fd, f, -EFBIG, 1);
	close(fd);
}

static void failing_create(void **state)
{
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC), spare;
	struct gt_gilfile *f = NULL;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(gt_gilfile_create(fd, &f), -ENOSPC);
	assert_null(f);
	spare = dup(0); /* it was closed: the lowest free number is it, or lower */
	assert_true(spare <= fd);
	close(spare);
}

/* The format is pinned: if this changes, the version and docs/file-format.md have to. */
static const uint8_t golden[] = {
#include "gilfile_golden.inc"
};

static const uint8_t golden_1_0[] = {
#include "gilfile_golden_1_0.inc"
};

static const uint8_t golden_1_1[] = {
#include "gilfile_golden_1_1.inc"
};

static const uint8_t golden_1_2[] = {
#include "gilfile_golden_1_2.inc"
};

/* How many of the events below those versions had. */
#define GOLDEN_1_0_EVENTS 9
#define GOLDEN_1_1_EVENTS 15
#define GOLDEN_1_2_EVENTS 19

static const struct gil_event golden_events[] = {
	{.kind = GIL_THREAD,
	 .mono_ns = 1000001000,
	 .tid = 300,
	 .thread = {.ns_tid = 7, .comm = "python3"}},
	{.kind = GIL_GIL,
	 .mono_ns = 1000001000,
	 .tid = 300,
	 .unconfirmed = 1,
	 .gil_ident = {0x7f0012345678}},
	{.kind = GIL_WAIT, .mono_ns = 1000001200, .tid = 300, .site = 2},
	{.kind = GIL_RELEASE, .mono_ns = 1000001100, .tid = 301, .gil = 1, .site = 1},
	{.kind = GIL_ACQUIRE, .mono_ns = 1000003100, .tid = 300},
	{.kind = GIL_YIELD, .mono_ns = 1000103100, .tid = 301, .gil = GIL_INDEX_OTHER},
	{.kind = GIL_LOST, .mono_ns = 1000203100, .lost = {1000103200, 1000}},
	{.kind = GIL_TAKE, .mono_ns = 1000203101, .tid = 300},
	{.kind = GIL_DROPPED, .mono_ns = 1000203102, .tid = 300},
	/* since 1.1 */
	{.kind = GIL_BEFORE, .mono_ns = 1000000500, .tid = 302, .gil = 1, .before = {1}},
	{.kind = GIL_BEFORE, .mono_ns = 1000000500, .tid = 300, .before = {2}},
	{.kind = GIL_RELEASE, .mono_ns = 1000203200, .tid = 301, .gil = 1, .site = 1, .forced = 1},
	{.kind = GIL_RELEASE, .mono_ns = 1000203300, .tid = 301, .gil = 1, .site = 2},
	{.kind = GIL_EXIT, .mono_ns = 1000203400, .tid = 302},
	{.kind = GIL_LEFT, .mono_ns = 1000203500, .tid = 303, .gil = 1, .site = 3},
	/* since 1.2 */
	{.kind = GIL_LATE, .mono_ns = 1000000400, .late = {999999000}},
	{.kind = GIL_THREAD,
	 .mono_ns = 1000203600,
	 .tid = 300,
	 .thread = {.ns_tid = 7, .comm = "python3", .host_tid = 70300, .name = "MainThread"}},
	{.kind = GIL_THREAD,
	 .mono_ns = 1000203700,
	 .tid = 302,
	 .thread = {.comm = "acl_thread", .host_tid = 70302}},
	{.kind = GIL_THREAD,
	 .mono_ns = 1000203800,
	 .tid = 303,
	 .thread = {.ns_tid = 9, .name = "W\xc3\xa4rter\xff"}},
	/* since 1.3 */
	{.kind = GIL_MARK, .mono_ns = 1000203750, .tid = 303, .mark = {"step 1"}},
	{.kind = GIL_PAUSED, .mono_ns = 1000250000, .paused = {1000204000}},
	{.kind = GIL_MARK,
	 .mono_ns = 1000230000,
	 .gil = 1,
	 .site = 4,
	 .mark = {"\xc3\xa4\xff 127 bytes: 0123456789012345678901234567890123456789012345678"
		  "90123456789012345678901234567890123456789012345678901234567890"}},
	{.kind = GIL_WAIT, .mono_ns = 1000260000, .tid = 303, .site = 5},
};

static void golden_bytes(void **state)
{
	const char *const pairs[][2] = {{"giltrace.version", "test"}, {"rank", "3"}};
	struct gt_gilfile *f;
	struct bytes b;
	int fd;

	(void)state;
	f = create(&fd);
	gt_gilfile_meta(f, pairs, 2);
	gt_gilfile_sites(f, two_sites, 2);
	gt_gilfile_clock(f, &one_clock);
	for (size_t i = 0; i < GT_ARRAY_SIZE(golden_events); i++)
		assert_int_equal(gt_gilfile_add(f, &golden_events[i], 0), 0);
	assert_int_equal(gt_gilfile_finish(f, GIL_END_DURATION, 1000300000, 1000, NULL), 0);
	b = slurp(fd);
	/* All but the machine it was written on. */
	assert_int_equal(gt_get_le32(b.p + 28), crc32(0, b.p, 28));
	gt_put_le32(b.p + 16, 62);
	fix_header(&b);
	if (getenv("GT_PRINT_GOLDEN"))
		for (size_t i = 0; i < b.n; i++)
			printf("0x%02x,%s", b.p[i], i % 16 == 15 || i == b.n - 1 ? "\n" : " ");
	assert_int_equal(b.n, sizeof(golden));
	assert_memory_equal(b.p, golden, sizeof(golden));
	bytes_free(&b);
	close(fd);
}

/* Files of earlier versions stay readable. */
static void golden_is_read(void **state)
{
	char why[512];
	gil_reader *r;
	int err;

	(void)state;
	r = read_bytes(golden, sizeof(golden), &err, why);
	assert_int_equal(gil_reader_minor(r), 3);
	expect_events(r, golden_events, GT_ARRAY_SIZE(golden_events));
	gil_reader_close(r);
	r = read_bytes(golden_1_2, sizeof(golden_1_2), &err, why);
	assert_int_equal(gil_reader_minor(r), 2);
	expect_events(r, golden_events, GOLDEN_1_2_EVENTS);
	assert_int_equal(gil_reader_end_reason(r), GIL_END_DURATION);
	gil_reader_close(r);
	r = read_bytes(golden_1_1, sizeof(golden_1_1), &err, why);
	assert_int_equal(gil_reader_minor(r), 1);
	expect_events(r, golden_events, GOLDEN_1_1_EVENTS);
	assert_int_equal(gil_reader_end_reason(r), GIL_END_DURATION);
	gil_reader_close(r);
	r = read_bytes(golden_1_0, sizeof(golden_1_0), &err, why);
	assert_int_equal(gil_reader_minor(r), 0);
	expect_events(r, golden_events, GOLDEN_1_0_EVENTS);
	assert_int_equal(gil_reader_end_reason(r), GIL_END_DURATION);
	assert_string_equal(gil_reader_meta(r, "rank"), "3");
	assert_memory_equal(gil_reader_site(r, 1), &two_sites[1], sizeof(two_sites[1]));
	assert_memory_equal(gil_reader_clock(r, 0), &one_clock, sizeof(one_clock));
	gil_reader_close(r);
}

/* A forced release is two records: never in two blocks, wherever a block is sealed. */
static void forced_stays_in_its_block(void **state)
{
	static const uint32_t threads[] = {1, 2, 3, 7, 1023, 1024, 1025, 5000};

	(void)state;
	for (size_t k = 0; k < GT_ARRAY_SIZE(threads); k++) {
		struct gil_event ev = {.kind = GIL_RELEASE, .mono_ns = 1000000000, .forced = 1};
		struct gt_gilfile *f;
		gil_reader *r;
		uint64_t n = 0;
		int fd;

		f = create(&fd);
		for (uint32_t i = 0; i < 40000; i++) {
			ev.mono_ns += 2500;
			ev.tid = 1 + i % threads[k] * 300000;
			assert_int_equal(gt_gilfile_add(f, &ev, 0), 0);
		}
		assert_int_equal(gt_gilfile_events(f), 40000);
		gt_gilfile_finish(f, GIL_END_DURATION, ev.mono_ns, 0, NULL);
		r = open_reader(fd);
		for (; gil_reader_next(r, &ev); n++)
			assert_true(ev.kind == GIL_RELEASE && ev.forced);
		assert_int_equal(n, 40000);
		gil_reader_close(r);
		close(fd);
	}
}

/*
 * FORCED belongs to the record right behind it, if that is a release of the same thread, GIL and
 * time; otherwise it says nothing. Each record is a tag, what that asks for, and a delta.
 */
static const struct {
	uint8_t forced, count; /* is the one release among them forced? */
	uint8_t n, p[16];
} forced_records[] = {
	{1, 2, 4, {0x77, 2, 0x73, 0}},
	{1, 2, 7, {0x47, 0, 9, 1, 2, 0x73, 0}},                      /* thread 9, GIL 1 */
	{1, 2, 5, {0x77, 2, 0x33, 5, 0}},                            /* another site */
	{0, 2, 4, {0x77, 2, 0x73, 2}},                               /* another time */
	{0, 2, 6, {0x77, 2, 0x63, 0, 9, 0}},                         /* another thread */
	{0, 2, 5, {0x77, 2, 0x53, 1, 0}},                            /* another GIL */
	{0, 3, 6, {0x77, 2, 0x74, 0, 0x73, 0}},                      /* a yield between */
	{0, 3, 8, {0x77, 2, 0x7f, 0, 1, 99, 0x73, 0}},               /* an unknown kind between */
	{0, 3, 11, {0x77, 2, 0x7f, 0, 4, 16, 2, 'm', 'm', 0x73, 0}}, /* a mark */
	{1, 3, 6, {0x77, 2, 0x77, 0, 0x73, 0}},                      /* twice */
	{0, 2, 4, {0x73, 2, 0x77, 0}},                               /* behind it */
};

static void forced_is_joined(void **state)
{
	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(forced_records); i++) {
		uint8_t payload[8 + 16] = {0xe8, 3};
		struct bytes b = {0};
		struct gil_event ev;
		int err, releases = 0;
		char why[512];
		gil_reader *r;

		memcpy(payload + 8, forced_records[i].p, forced_records[i].n);
		put_header(&b);
		put_block(&b, 4, 1, forced_records[i].count, 1000, 2000, payload,
			  8u + forced_records[i].n);
		r = read_bytes(b.p, b.n, &err, why);
		assert_int_equal(err, 0);
		while (gil_reader_next(r, &ev)) {
			assert_int_not_equal(ev.kind, GIL_FORCED);
			if (ev.kind == GIL_RELEASE && ++releases)
				assert_int_equal(ev.forced, forced_records[i].forced);
			else
				assert_int_equal(ev.forced, 0);
		}
		assert_null(gil_reader_problem(r));
		assert_int_equal(releases, 1);
		gil_reader_close(r);
		bytes_free(&b);
	}
}

/* .. and one at the end of a block has nothing behind it. */
static void forced_ends_with_its_block(void **state)
{
	struct bytes b = {0};
	struct gil_event ev;
	char why[512];
	gil_reader *r;
	int err;

	(void)state;
	put_header(&b);
	put_block(&b, 4, 1, 1, 1000, 1000, "\xe8\3\0\0\0\0\0\0\x77\0", 10);
	put_block(&b, 4, 1, 1, 1000, 1000, "\xe8\3\0\0\0\0\0\0\x73\0", 10);
	r = read_bytes(b.p, b.n, &err, why);
	assert_int_equal(err, 0);
	assert_int_equal(gil_reader_next(r, &ev), 1);
	assert_true(ev.kind == GIL_RELEASE && !ev.forced);
	assert_int_equal(gil_reader_next(r, &ev), 0);
	assert_null(gil_reader_problem(r));
	gil_reader_close(r);
	bytes_free(&b);
}

/* What is read of two records: one with that name, and a GIL_THREAD without one. */
static void check_cut(uint8_t kind, const char *name, size_t kept)
{
	struct gil_event ev = {.kind = kind, .mono_ns = 50};
	struct gt_gilfile *f;
	const char *got;
	gil_reader *r;
	int fd;

	if (kind == GIL_MARK)
		ev.mark.name = name;
	else
		ev.thread.name = name;
	f = create(&fd);
	assert_int_equal(gt_gilfile_add(f, &ev, 0), 0);
	ev = (struct gil_event){.kind = GIL_THREAD, .mono_ns = 50};
	assert_int_equal(gt_gilfile_add(f, &ev, 0), 0);
	gt_gilfile_finish(f, GIL_END_STOPPED, 60, 0, NULL);
	r = open_reader(fd);
	assert_int_equal(gil_reader_next(r, &ev), 1);
	assert_int_equal(ev.kind, kind);
	got = kind == GIL_MARK ? ev.mark.name : ev.thread.name;
	assert_true(!got == !kept);
	assert_int_equal(got ? strlen(got) : 0, kept);
	assert_memory_equal(got ? got : "", name, kept);
	assert_int_equal(gil_reader_next(r, &ev), 1);
	assert_null(ev.thread.name); /* not that of the record before */
	assert_int_equal(gil_reader_next(r, &ev), 0);
	assert_null(gil_reader_problem(r));
	gil_reader_close(r);
	close(fd);
}

/* A name that is too long ends between two characters; bytes that are no UTF-8, anywhere. */
static void long_names_are_cut(void **state)
{
	static const struct {
		size_t before; /* x's, to which `tail` is appended; in a mark, so many more .. */
		const char *tail;
		size_t kept; /* .. and here */
	} names[] = {
		{0, "", 0},
		{59, "", 59}, /* of a mark: the length of its own fields takes one byte .. */
		{60, "", 60}, /* .. and two */
		{62, "", 62},
		{63, "", 63},
		{64, "", 63},
		{5000, "", 63},
		{61, "\xc3\xa4", 63},
		{62, "\xc3\xa4", 62},
		{63, "\xc3\xa4", 63},
		{61, "\xe2\x82\xac", 61},
		{60, "\xf0\x9f\x90\x8d", 60},
		{59, "\xf0\x9f\x90\x8dz", 63},
		{59, "\x80\x80\x80\x80\x80\x80", 63},
		{62, "\xff\xff\xff", 63},
	};
	const size_t more = GIL_MARK_MAX - GIL_NAME_MAX;
	char name[6000], *end = name + more;

	(void)state;
	memset(name, 'x', sizeof(name));
	for (size_t i = 0; i < GT_ARRAY_SIZE(names); i++) {
		strcpy(end + names[i].before, names[i].tail);
		check_cut(GIL_THREAD, end, names[i].kept);
		check_cut(GIL_MARK, name, names[i].kept + more);
		memset(end + names[i].before, 'x', strlen(names[i].tail) + 1);
	}
}

/* The longest record that there can be, again and again, with a new thread each time or not. */
static void longest_records_fit(void **state)
{
	struct gil_event ev = {.kind = GIL_MARK};
	char name[GIL_MARK_MAX + 2] = "";
	struct gt_gilfile *f;
	gil_reader *r;
	uint64_t n = 0;
	int fd;

	(void)state;
	memset(name, 'm', GIL_MARK_MAX + 1);
	ev.mark.name = name;
	f = create(&fd);
	for (uint32_t i = 0; i < 20000; i++) {
		ev.tid = UINT32_MAX - i / 3;
		ev.gil = (uint8_t)i;
		ev.site = (uint8_t)i;
		ev.mono_ns = i & 1 ? GIL_TIME_MAX - 1 : 1;
		assert_int_equal(gt_gilfile_add(f, &ev, 0), 0);
	}
	gt_gilfile_finish(f, GIL_END_STOPPED, 1, 0, NULL);
	r = open_reader(fd);
	for (; gil_reader_next(r, &ev); n++)
		assert_int_equal(strlen(ev.mark.name), GIL_MARK_MAX);
	assert_null(gil_reader_problem(r));
	assert_int_equal(n, 20000);
	gil_reader_close(r);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_round_trips),
		cmocka_unit_test(blocks_stay_within_their_size),
		cmocka_unit_test(events_are_small),
		cmocka_unit_test(head_and_end),
		cmocka_unit_test(refused_arguments),
		cmocka_unit_test(failing_write),
		cmocka_unit_test(failing_write_of_another_block),
		cmocka_unit_test(failing_create),
		cmocka_unit_test(golden_bytes),
		cmocka_unit_test(golden_is_read),
		cmocka_unit_test(forced_stays_in_its_block),
		cmocka_unit_test(forced_is_joined),
		cmocka_unit_test(forced_ends_with_its_block),
		cmocka_unit_test(long_names_are_cut),
		cmocka_unit_test(longest_records_fit),
	};

	return cmocka_run_group_tests_name("gilfile", tests, NULL, NULL);
}
