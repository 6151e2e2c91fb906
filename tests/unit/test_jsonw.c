// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <zlib.h>

#include "jsonw.h"

static int memfd(void)
{
	int fd = memfd_create("jsonw", MFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

/* What was written to fd, NUL-terminated. */
static char *content(int fd, size_t *len)
{
	off_t n = lseek(fd, 0, SEEK_END);
	char *text = calloc(1, (size_t)n + 1);

	assert_true(n >= 0 && text);
	assert_int_equal(pread(fd, text, (size_t)n, 0), n);
	*len = (size_t)n;
	return text;
}

static void expect_chars(const char *in, size_t in_len, const char *want)
{
	gt_autoclose int fd = memfd();
	gt_autofree char *got = NULL;
	struct gt_jsonw w;
	size_t len;

	assert_int_equal(gt_jsonw_init(&w, fd, 0), 0);
	gt_jsonw_chars(&w, in, in_len);
	assert_int_equal(gt_jsonw_flush(&w), 0);
	gt_jsonw_fini(&w);
	got = content(fd, &len);
	assert_int_equal(len, strlen(want));
	assert_string_equal(got, want);
}
#define EXPECT_CHARS(in, want) expect_chars(in, sizeof(in) - 1, want)

static void test_integers(void **state)
{
	uint64_t v = 1;
	char want[32], got[32];

	(void)state;
	for (int digit = 0; digit < 20; digit++, v *= 10) {
		const uint64_t near[] = {v - 1, v, v + 1, v * 2 - 1, v + v / 3};

		for (size_t i = 0; i < GT_ARRAY_SIZE(near); i++) {
			snprintf(want, sizeof(want), "%" PRIu64, near[i]);
			*gt_fmt_u64(got, near[i]) = '\0';
			assert_string_equal(got, want);
		}
	}
	*gt_fmt_u64(got, UINT64_MAX) = '\0';
	assert_string_equal(got, "18446744073709551615");
	assert_int_equal(strlen(got), GT_U64_LEN);
}

static void test_microseconds(void **state)
{
	static const struct {
		uint64_t ns;
		const char *want;
	} cases[] = {
		{0, "0.000"},
		{1, "0.001"},
		{999, "0.999"},
		{1000, "1.000"},
		{1060, "1.060"},
		{162660, "162.660"},
		{1736405443863674400, "1736405443863674.400"},
		{UINT64_MAX, "18446744073709551.615"},
	};
	char got[32];

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(cases); i++) {
		*gt_fmt_us(got, cases[i].ns) = '\0';
		assert_string_equal(got, cases[i].want);
		assert_in_range(strlen(got), 1, GT_US_LEN);
	}
}

static void test_escapes(void **state)
{
	(void)state;
	EXPECT_CHARS("", "");
	EXPECT_CHARS("python3 /", "python3 /");
	EXPECT_CHARS("a\"b\\c", "a\\\"b\\\\c");
	EXPECT_CHARS("\b\t\n\f\r", "\\b\\t\\n\\f\\r");
	EXPECT_CHARS("\0\x01\x1f\x7f", "\\u0000\\u0001\\u001f\\u007f");
	/* Insight looks for "ph" outside of strings without parsing them. */
	EXPECT_CHARS("\"ph\"", "\\\"ph\\\"");
}

#define R "\xef\xbf\xbd"

static void test_utf8(void **state)
{
	(void)state;
	/* shortest and longest of each length stay as they are */
	EXPECT_CHARS("\xc2\x80\xdf\xbf", "\xc2\x80\xdf\xbf");
	EXPECT_CHARS("\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf",
		     "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf");
	EXPECT_CHARS("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
	/* cut, as a thread's name may be */
	EXPECT_CHARS("w\xc3", "w" R);
	EXPECT_CHARS("w\xe4\xbd", "w" R);
	EXPECT_CHARS("w\xf0\x9f\x90", "w" R);
	EXPECT_CHARS("\xe4\xbd-", R "-");
	/* too long forms, surrogates, beyond U+10FFFF, bytes that never occur */
	EXPECT_CHARS("\xc0\xaf", R R);
	EXPECT_CHARS("\xe0\x9f\xbf", R R R);
	EXPECT_CHARS("\xf0\x8f\xbf\xbf", R R R R);
	EXPECT_CHARS("\xed\xa0\x80", R R R);
	EXPECT_CHARS("\xf4\x90\x80\x80", R R R R);
	EXPECT_CHARS("\xf5\x80\xfe\xff\x80", R R R R R);
	/* Unicode 15, table 3-8 */
	EXPECT_CHARS("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", R R R R "A");
}

/* More than the buffer, in pieces that do not divide it. */
static void test_large(void **state)
{
	gt_autoclose int fd = memfd();
	gt_autofree char *got = NULL, *long_text = malloc(3 * GT_JSONW_BUFFER);
	struct gt_jsonw w;
	size_t len, at = 0;
	char want[32];

	(void)state;
	assert_non_null(long_text);
	memset(long_text, 'x', 3 * GT_JSONW_BUFFER);
	assert_int_equal(gt_jsonw_init(&w, fd, 0), 0);
	for (uint64_t i = 0; i < 300000; i++) {
		gt_jsonw_u64(&w, i);
		gt_jsonw_lit(&w, ",");
	}
	gt_jsonw_raw(&w, long_text, 3 * GT_JSONW_BUFFER);
	gt_jsonw_us(&w, 1500);
	assert_int_equal(gt_jsonw_flush(&w), 0);
	gt_jsonw_fini(&w);
	got = content(fd, &len);
	for (uint64_t i = 0; i < 300000; i++) {
		size_t n = (size_t)snprintf(want, sizeof(want), "%" PRIu64 ",", i);

		assert_memory_equal(got + at, want, n);
		at += n;
	}
	assert_memory_equal(got + at, long_text, 3 * GT_JSONW_BUFFER);
	assert_string_equal(got + at + 3 * GT_JSONW_BUFFER, "1.500");
}

static void test_disk_full(void **state)
{
	gt_autoclose int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct gt_jsonw w;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(gt_jsonw_init(&w, fd, 0), 0);
	for (uint64_t i = 0; i < 500000; i++) /* goes on without harm */
		gt_jsonw_u64(&w, i);
	assert_int_equal(w.err, -ENOSPC);
	assert_int_equal(gt_jsonw_flush(&w), -ENOSPC);
	assert_int_equal(gt_jsonw_flush(&w), -ENOSPC);
	gt_jsonw_fini(&w);
}

/* ---- compressed ---- */

/* All text of a file, which must be gzip from its first byte to its last. */
static char *inflated(int fd, size_t size, size_t *len)
{
	gt_autofree char *packed = NULL;
	char *out = calloc(1, size + 1);
	z_stream z = {0};
	size_t n;
	int ret = Z_OK;

	assert_non_null(out);
	packed = content(fd, &n);
	assert_int_equal(inflateInit2(&z, MAX_WBITS + 16), Z_OK);
	z.next_in = (Bytef *)packed;
	z.avail_in = (uInt)n;
	z.next_out = (Bytef *)out;
	z.avail_out = (uInt)size;
	while (z.avail_in) {
		ret = inflate(&z, Z_FINISH);
		assert_int_equal(ret, Z_STREAM_END);
		assert_int_equal(inflateReset(&z), Z_OK);
	}
	assert_int_equal(ret, Z_STREAM_END);
	*len = size - z.avail_out;
	inflateEnd(&z);
	return out;
}

/* More than the buffer; what is written can be read by then, and all of it at the end. */
static void test_gzip(void **state)
{
	gt_autoclose int fd = memfd();
	gt_autofree char *text = NULL, *early = NULL, *want = malloc(8 << 20);
	size_t len, n = 0, packed;
	struct gt_jsonw w;

	(void)state;
	assert_non_null(want);
	assert_int_equal(gt_jsonw_init(&w, fd, 1), 0);
	for (uint64_t i = 0; i < 400000; i++) {
		gt_jsonw_u64(&w, i * 7919);
		gt_jsonw_lit(&w, ",");
		n += (size_t)sprintf(want + n, "%" PRIu64 ",", i * 7919);
		if (i == 300000) {
			assert_int_equal(gt_jsonw_flush(&w), 0);
			assert_int_equal(gt_jsonw_flush(&w), 0);
			early = inflated(fd, n, &len);
			assert_int_equal(len, n);
			assert_memory_equal(early, want, n);
		}
	}
	assert_int_equal(gt_jsonw_bytes(&w), n);
	assert_int_equal(gt_jsonw_flush(&w), 0);
	assert_int_equal(gt_jsonw_bytes(&w), n);
	gt_jsonw_fini(&w);
	text = inflated(fd, n, &len);
	assert_int_equal(len, n);
	assert_memory_equal(text, want, n);
	packed = (size_t)lseek(fd, 0, SEEK_END);
	assert_true(packed < n / 2);
}

/* Nothing at all is no gzip file either. */
static void test_gzip_of_nothing(void **state)
{
	gt_autoclose int fd = memfd();
	struct gt_jsonw w;

	(void)state;
	assert_int_equal(gt_jsonw_init(&w, fd, 1), 0);
	assert_int_equal(gt_jsonw_flush(&w), 0);
	gt_jsonw_fini(&w);
	assert_int_equal(lseek(fd, 0, SEEK_END), 0);
}

/* The same text gives the same bytes: no time and no name of a file in them. */
static void test_gzip_is_reproducible(void **state)
{
	gt_autoclose int fd = memfd();
	static const unsigned char head[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0};
	gt_autofree char *got = NULL;
	struct gt_jsonw w;
	size_t len;

	(void)state;
	assert_int_equal(gt_jsonw_init(&w, fd, 1), 0);
	gt_jsonw_lit(&w, "[]");
	assert_int_equal(gt_jsonw_flush(&w), 0);
	gt_jsonw_fini(&w);
	got = content(fd, &len);
	assert_true(len > sizeof(head));
	assert_memory_equal(got, head, sizeof(head));
}

static void test_gzip_disk_full(void **state)
{
	gt_autoclose int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct gt_jsonw w;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(gt_jsonw_init(&w, fd, 1), 0);
	for (uint64_t i = 0; i < 500000; i++)
		gt_jsonw_u64(&w, i * 7919);
	assert_int_equal(gt_jsonw_flush(&w), -ENOSPC);
	assert_int_equal(gt_jsonw_flush(&w), -ENOSPC);
	gt_jsonw_fini(&w);
}

static void *read_slowly(void *arg)
{
	char buf[1000];
	size_t total = 0;
	ssize_t n;

	while ((n = read(*(int *)arg, buf, sizeof(buf))) > 0)
		total += (size_t)n;
	return (void *)total;
}

/* Short writes and EAGAIN. */
static void test_nonblocking_pipe(void **state)
{
	struct gt_jsonw w;
	pthread_t reader;
	void *total;
	int p[2];

	(void)state;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	assert_int_equal(fcntl(p[1], F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(pthread_create(&reader, NULL, read_slowly, &p[0]), 0);
	assert_int_equal(gt_jsonw_init(&w, p[1], 0), 0);
	for (int i = 0; i < 500000; i++)
		gt_jsonw_lit(&w, "12345678");
	assert_int_equal(gt_jsonw_flush(&w), 0);
	gt_jsonw_fini(&w);
	close(p[1]);
	pthread_join(reader, &total);
	assert_int_equal((size_t)total, 4000000);
	close(p[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_integers),
		cmocka_unit_test(test_microseconds),
		cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_utf8),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_disk_full),
		cmocka_unit_test(test_gzip),
		cmocka_unit_test(test_gzip_of_nothing),
		cmocka_unit_test(test_gzip_is_reproducible),
		cmocka_unit_test(test_gzip_disk_full),
		cmocka_unit_test(test_nonblocking_pipe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
