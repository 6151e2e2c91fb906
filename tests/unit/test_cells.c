// SPDX-License-Identifier: Apache-2.0
/* Text in columns: what a terminal must never get, how wide text is, where it is cut; units. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cells.h"

static char *shown;
static size_t shown_len;

static FILE *open_shown(void)
{
	FILE *f = open_memstream(&shown, &shown_len);

	assert_non_null(f);
	return f;
}

static void expect(const char *text, unsigned int width, int utf8, const char *want,
		   unsigned int columns)
{
	FILE *f = open_shown();

	assert_int_equal(gt_cells_put(f, text, width, utf8), columns);
	fclose(f);
	assert_string_equal(shown, want);
	free(shown);
}

static void plain(void **unused)
{
	(void)unused;
	expect("worker-1", 20, 1, "worker-1", 8);
	expect("worker-1", 8, 1, "worker-1", 8);
	expect("worker-1", 7, 1, "worker\xe2\x80\xa6", 7);
	expect("worker-1", 7, 0, "worker~", 7);
	expect("worker-1", 1, 0, "~", 1);
	expect("worker-1", 0, 0, "", 0);
	expect("", 5, 1, "", 0);
}

static void wide_and_marks(void **unused)
{
	(void)unused;
	assert_int_equal(gt_cells_width("\xe8\xae\xad\xe7\xbb\x83", 1), 4);
	expect("\xe8\xae\xad\xe7\xbb\x83", 4, 1, "\xe8\xae\xad\xe7\xbb\x83", 4);
	expect("\xe8\xae\xad\xe7\xbb\x83", 3, 1, "\xe8\xae\xad\xe2\x80\xa6", 3);
	/* Half of a wide one has no place. */
	expect("\xe8\xae\xad\xe7\xbb\x83", 2, 1, "\xe2\x80\xa6", 1);
	expect("e\xcc\x81", 1, 1, "e\xcc\x81", 1);
	expect("\xf0\x9f\x98\x80", 4, 1, "\xf0\x9f\x98\x80", 2);
	expect("\xe8\xae\xad", 4, 0, "?", 1);
}

static void harmful(void **unused)
{
	static const char *const bad[] = {
		"\033",
		"\r",
		"\n",
		"\t",
		"\177",
		"\xc2\x9b",
		"\xc2\x85",
		"\xe2\x80\x8f", /* right to left */
		"\xd8\x9c",
		"\xe2\x80\xa8",
		"\xef\xbb\xbf",
		"\xe2\x80\x8b",
		"\xf3\xa0\x80\xa1", /* a tag character */
	};

	(void)unused;
	for (size_t i = 0; i < GT_ARRAY_SIZE(bad); i++)
		for (int utf8 = 0; utf8 < 2; utf8++)
			expect(bad[i], 9, utf8, "?", 1);
	expect("a\033[2Jb", 20, 1, "a?[2Jb", 6);
	/* Override, isolate, and their ends. */
	expect("\xe2\x80\xae\xe2\x80\xac", 20, 1, "??", 2);
	expect("\xe2\x81\xa6\xe2\x81\xa9", 20, 1, "??", 2);
}

static void broken(void **unused)
{
	(void)unused;
	expect("a\xff\xfe z", 20, 1, "a?? z", 5);
	expect("\xc0\xaf", 20, 1, "??", 2);    /* a longer form than it needs */
	expect("\xed\xa0\x80", 20, 1, "?", 1); /* a surrogate */
	expect("\xf4\x90\x80\x80", 20, 1, "????", 4);
	expect("\xe8\xae", 20, 1, "??", 2); /* cut */
	expect("\xe8z\xae", 20, 1, "?z?", 3);
	expect("\x80", 20, 0, "?", 1);
}

/* Whatever the bytes: printable ASCII, or whole characters of UTF-8 that do no harm. */
static void any_bytes(void **unused)
{
	uint64_t x = 0x1234567;

	(void)unused;
	for (int round = 0; round < 20000; round++) {
		unsigned int width, taken;
		char text[24];
		FILE *f;

		for (size_t i = 0; i < sizeof(text); i++) {
			x = x * 6364136223846793005u + 1442695040888963407u;
			text[i] = (char)(x >> 33 & 1 ? x >> 40 : 0xe0 | (x >> 56 & 15));
		}
		text[sizeof(text) - 1] = '\0';
		width = (unsigned int)(x >> 50) % 16;
		f = open_shown();
		taken = gt_cells_put(f, text, width, round & 1);
		fclose(f);
		assert_true(taken <= width);
		assert_int_equal(gt_cells_width(shown, round & 1), taken);
		for (size_t i = 0; i < shown_len; i++) {
			unsigned char c = (unsigned char)shown[i];

			assert_true(c >= 0x20 && c != 0x7f && (round & 1 || c < 0x80));
		}
		free(shown);
	}
}

static void padded(void **unused)
{
	FILE *f = open_shown();

	(void)unused;
	gt_cells_pad(f, "\xe8\xae\xad", 4, 1);
	gt_cells_pad(f, "abcdef", 4, 0);
	gt_cells_pad(f, "", 2, 0);
	fclose(f);
	assert_string_equal(shown, "\xe8\xae\xad  abc~  ");
	free(shown);
}

static void expect_wrapped(const char *text, unsigned int width, const char *want)
{
	FILE *f = open_shown();

	gt_cells_wrap(f, text, 2, width, 1);
	fclose(f);
	assert_string_equal(shown, want);
	free(shown);
}

static void wrapped(void **unused)
{
	(void)unused;
	expect_wrapped("one two three", 7, "  one two\n  three\n");
	expect_wrapped("one two three", 13, "  one two three\n");
	expect_wrapped("abcdefghij", 4, "  abcd\n  efgh\n  ij\n");
	expect_wrapped("a\nb", 4, "  a?b\n");
	expect_wrapped("", 4, "  \n");
	expect_wrapped("\xe8\xae\xad\xe7\xbb\x83", 1, "  \xe2\x80\xa6\n  \xe2\x80\xa6\n");
}

static void lengths_of_time(void **unused)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} times[] = {
		{0, "0 ns"},
		{999, "999 ns"},
		{1000, "1.00 us"},
		{1234, "1.23 us"},
		{9994, "9.99 us"},
		{9995, "10.0 us"},
		{99949, "99.9 us"},
		{99950, "100 us"},
		{999499, "999 us"},
		{999500, "1.00 ms"},
		{4980000, "4.98 ms"},
		{999500000, "1.00 s"},
		{1234567890, "1.23 s"},
		{123456789012, "123 s"},
		{12345678901234, "12346 s"},
		{UINT64_MAX, "18446744074 s"},
	};

	(void)unused;
	for (size_t i = 0; i < GT_ARRAY_SIZE(times); i++) {
		char buf[GT_CELLS_NUMBER];

		assert_string_equal(gt_cells_ns(buf, times[i].ns), times[i].text);
	}
}

static void percents(void **unused)
{
	char buf[GT_CELLS_NUMBER];

	(void)unused;
	assert_string_equal(gt_cells_percent(buf, 1, 2), "50.0%");
	assert_string_equal(gt_cells_percent(buf, 1, 3), "33.3%");
	assert_string_equal(gt_cells_percent(buf, 2, 3), "66.7%");
	assert_string_equal(gt_cells_percent(buf, 0, 3), "0.0%");
	assert_string_equal(gt_cells_percent(buf, 0, 0), "-");
	assert_string_equal(gt_cells_percent(buf, UINT64_MAX, UINT64_MAX), "100.0%");
}

static void environment(void **unused)
{
	(void)unused;
	unsetenv("LC_ALL");
	unsetenv("LC_CTYPE");
	unsetenv("LANG");
	assert_int_equal(gt_cells_utf8(), 0);
	setenv("LANG", "en_US.UTF-8", 1);
	assert_int_equal(gt_cells_utf8(), 1);
	setenv("LC_CTYPE", "C", 1);
	assert_int_equal(gt_cells_utf8(), 0);
	setenv("LC_ALL", "C.utf8", 1);
	assert_int_equal(gt_cells_utf8(), 1);
	setenv("LC_ALL", "", 1);
	assert_int_equal(gt_cells_utf8(), 0);
	setenv("LC_CTYPE", "de_DE.ISO-8859-1", 1);
	assert_int_equal(gt_cells_utf8(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain),     cmocka_unit_test(wide_and_marks),
		cmocka_unit_test(harmful),   cmocka_unit_test(broken),
		cmocka_unit_test(any_bytes), cmocka_unit_test(padded),
		cmocka_unit_test(wrapped),   cmocka_unit_test(lengths_of_time),
		cmocka_unit_test(percents),  cmocka_unit_test(environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
