// SPDX-License-Identifier: Apache-2.0
/* Names that a program has told, beside those that stand in its memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "toldnames.h"

static struct gt_toldnames told;

static struct gt_pyname name(uint32_t tid, const char *text)
{
	struct gt_pyname n = {.ns_tid = tid};

	snprintf(n.name, sizeof(n.name), "%s", text);
	return n;
}

static void put(uint32_t tid, const char *text)
{
	const struct gt_pyname n = name(tid, text);

	assert_int_equal(gt_toldnames_put(&told, &n), 0);
}

/* What comes out, as "tid=name ...". */
static const char *merged(const struct gt_pyname *read, size_t n)
{
	static char text[1024];
	gt_autofree struct gt_pyname *all = NULL;
	size_t n_all, len = 0;

	assert_int_equal(gt_toldnames_merge(&told, read, n, &all, &n_all), 0);
	text[0] = '\0';
	for (size_t i = 0; i < n_all; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%u=%s%s", i ? " " : "",
					all[i].ns_tid, all[i].name, all[i].dummy ? "?" : "");
	return text;
}

static int teardown(void **state)
{
	(void)state;
	gt_toldnames_free(&told);
	assert_int_equal(told.n, 0);
	return 0;
}

static void both_in_order(void **state)
{
	const struct gt_pyname read[] = {name(2, "b"), name(4, "d"), name(9, "i")};

	(void)state;
	assert_string_equal(merged(NULL, 0), "");
	assert_string_equal(merged(read, 3), "2=b 4=d 9=i");
	put(5, "five");
	put(1, "one");
	put(10, "ten");
	put(4, "four");
	assert_string_equal(merged(NULL, 0), "1=one 4=four 5=five 10=ten");
	assert_string_equal(merged(read, 3), "1=one 2=b 4=four 5=five 9=i 10=ten");
	put(4, "vier");
	assert_string_equal(merged(read, 3), "1=one 2=b 4=vier 5=five 9=i 10=ten");
}

/* The memory says the same again and again: the told name stays, whatever that is. */
static void does_not_flap(void **state)
{
	const struct gt_pyname read[] = {name(7, "Thread-1 (work)")};
	struct gt_pyname dummy[] = {name(7, "Dummy-3")};

	(void)state;
	dummy[0].dummy = 1;
	put(7, "loader");
	for (int i = 0; i < 3; i++) {
		assert_string_equal(merged(read, 1), "7=loader");
		assert_string_equal(merged(NULL, 0), "7=loader");
		assert_string_equal(merged(dummy, 1), "7=loader");
	}
}

/* What the memory tells anew is newer: a rename, or another thread with the id. */
static void news_of_the_memory_count(void **state)
{
	const struct gt_pyname was[] = {name(7, "Thread-1")}, is[] = {name(7, "Thread-9")};

	(void)state;
	put(6, "six");
	put(7, "loader");
	assert_string_equal(merged(was, 1), "6=six 7=loader");
	assert_string_equal(merged(is, 1), "6=six 7=Thread-9");
	assert_string_equal(merged(is, 1), "6=six 7=Thread-9");
	assert_string_equal(merged(NULL, 0), "6=six");
	put(7, "told again");
	assert_string_equal(merged(is, 1), "6=six 7=told again");
}

static void is_bounded(void **state)
{
	struct gt_pyname n = name(0, "n"), again;

	(void)state;
	for (uint32_t i = 1; i <= GT_PYNAMES_MAX; i++) {
		n.ns_tid = i * 7919 % 100003; /* in no order, each once */
		assert_int_equal(gt_toldnames_put(&told, &n), 0);
	}
	again = n;
	n.ns_tid = 100004;
	assert_int_equal(gt_toldnames_put(&told, &n), -ENOSPC);
	assert_int_equal(gt_toldnames_put(&told, &again), 0);
	assert_int_equal(told.n, GT_PYNAMES_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(both_in_order, teardown),
		cmocka_unit_test_teardown(does_not_flap, teardown),
		cmocka_unit_test_teardown(news_of_the_memory_count, teardown),
		cmocka_unit_test_teardown(is_bounded, teardown),
	};

	return cmocka_run_group_tests_name("toldnames", tests, NULL, NULL);
}
