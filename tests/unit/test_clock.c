// SPDX-License-Identifier: Apache-2.0
/* Clock samples against the clocks themselves, read before and after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <cmocka.h>

#include "clock.h"

static uint64_t now(clockid_t id)
{
	struct timespec ts;

	assert_int_equal(clock_gettime(id, &ts), 0);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void mono_is_the_monotonic_clock(void **state)
{
	uint64_t before = now(CLOCK_MONOTONIC), t = gt_mono_ns();

	(void)state;
	assert_in_range(t, before, now(CLOCK_MONOTONIC));
}

/* However long we are preempted, each reading lies between those before and after it. */
static void sample_lies_between_readings(void **state)
{
	static const clockid_t id[4] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME,
					CLOCK_BOOTTIME};

	(void)state;
	for (int round = 0; round < 100; round++) {
		uint64_t before[4], after[4], got[4];
		struct gil_clock c;

		for (int i = 0; i < 4; i++)
			before[i] = now(id[i]);
		gt_clock_sample(&c);
		for (int i = 0; i < 4; i++)
			after[i] = now(id[i]);
		got[0] = c.mono_ns;
		got[1] = c.raw_ns;
		got[2] = c.unix_ns;
		got[3] = c.boot_ns;
		for (int i = 0; i < 4; i++)
			assert_in_range(got[i], before[i] - c.error_ns, after[i] + c.error_ns);
	}
}

/* The distance of two clocks is the same in every sample, within what the samples admit. */
static void distances_agree_within_the_error(void **state)
{
	struct gil_clock a, b;

	(void)state;
	gt_clock_sample(&a);
	for (int round = 0; round < 100; round++) {
		int64_t slack, boot, raw;

		gt_clock_sample(&b);
		slack = (int64_t)(a.error_ns + b.error_ns) + 2;
		boot = (int64_t)((b.boot_ns - b.mono_ns) - (a.boot_ns - a.mono_ns));
		assert_true(boot <= slack && boot >= -slack);
		/* RAW is not slewed: MONOTONIC runs up to 500 ppm off it. */
		raw = (int64_t)((b.raw_ns - b.mono_ns) - (a.raw_ns - a.mono_ns));
		slack += (int64_t)((b.mono_ns - a.mono_ns) / 2000);
		assert_true(raw <= slack && raw >= -slack);
		assert_true(b.mono_ns > a.mono_ns);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mono_is_the_monotonic_clock),
		cmocka_unit_test(sample_lies_between_readings),
		cmocka_unit_test(distances_agree_within_the_error),
	};

	return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
