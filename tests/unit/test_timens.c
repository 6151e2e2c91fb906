// SPDX-License-Identifier: Apache-2.0
/* How far a time namespace shifts the clocks: the text of the kernel, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "timens.h"

static int64_t mono, boot;

static int parse(const char *text)
{
	mono = boot = 77;
	return gt_timens_parse(text, &mono, &boot);
}

static void kernels(void **state)
{
	(void)state;
	assert_int_equal(
		parse("monotonic           0         0\nboottime            0         0\n"), 0);
	assert_int_equal(mono, 0);
	assert_int_equal(boot, 0);
	/* Negative ones have seconds rounded down, and nanoseconds above 0. */
	assert_int_equal(
		parse("monotonic         -10         5\nboottime        86400 999999999\n"), 0);
	assert_int_equal(mono, -9999999995);
	assert_int_equal(boot, 86400999999999);
}

static void no_such_text(void **state)
{
	static const char *const texts[] = {
		"",
		"monotonic 0 0\n",
		"monotonic 0 0\nboottime 0",
		"monotonic 0\nboottime 0 0",
		"monotonic x 0\nboottime 0 0\n",
		/* Too many seconds for nanoseconds; too many for a clock. */
		"monotonic 9223372036854775807 0\nboottime 0 0\n",
		"monotonic 0 0\nboottime -9223372036854775808 0\n",
		"monotonic 9223372036 854775808\nboottime 0 0\n",
		"monotonic 0 99999999999999999999\nboottime 0 0\n",
		"monotonic 4611686019 0\nboottime 0 0\n",
		"monotonic -4611686019 0\nboottime 0 0\n",
	};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(texts); i++) {
		assert_int_equal(parse(texts[i]), -EPROTO);
		assert_int_equal(mono, 77);
		assert_int_equal(boot, 77);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels),
		cmocka_unit_test(no_such_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
