// SPDX-License-Identifier: Apache-2.0
/*
 * clockline.c: the line between clock samples, against the same in 128 bits, without a shortcut;
 * beyond the samples; and the error bound against clocks whose true time is known.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "clockline.h"
#include "profclock.h"
#include "proffix.h"

#define S 1000000000ull

static uint64_t seed = 88172645463325252u;

static uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

/* MONOTONIC to RAW, by the definition: the nearest ns, away from x in doubt. */
static uint64_t brute(const struct gil_clock *c, size_t n, uint64_t x)
{
	size_t i = n;
	__int128 num, half;
	int64_t den;

	while (i && c[i - 1].mono_ns > x)
		i--;
	assert_true(i && i < n); /* inside */
	den = (int64_t)(c[i].mono_ns - c[i - 1].mono_ns);
	num = (__int128)((int64_t)(c[i].raw_ns - c[i].mono_ns) -
			 (int64_t)(c[i - 1].raw_ns - c[i - 1].mono_ns)) *
	      (int64_t)(x - c[i - 1].mono_ns);
	half = den / 2;
	num = (num < 0 ? num - half : num + half) / den;
	return (uint64_t)((__int128)x + (int64_t)(c[i - 1].raw_ns - c[i - 1].mono_ns) + num);
}

static uint64_t raw_of(const gil_reader *r, uint64_t x)
{
	struct gt_clock_segment s;

	gt_clock_segment(r, GT_CLOCK_ID_MONO, GT_CLOCK_ID_RAW, x, &s);
	assert_true(x >= s.from && x < s.to);
	return x + (uint64_t)gt_clock_delta(&s, x);
}

/* Any steps: of nanoseconds and of years, alike and as steep as can be. */
static void as_by_128_bits(void **state)
{
	static struct gil_clock c[200];

	(void)state;
	for (int round = 0; round < 20; round++) {
		uint64_t top[] = {3, 1000, S, 100 * S, GIL_TIME_MAX / 400};
		struct gt_profclock place = {.raw = 1, .offset_ns = 12345};
		gil_reader *r;

		for (size_t i = 0; i < GT_ARRAY_SIZE(c); i++) {
			uint64_t step = rnd(top[rnd(GT_ARRAY_SIZE(top))]), raw = step;

			switch (rnd(4)) {
			case 0:
				raw = rnd(top[rnd(GT_ARRAY_SIZE(top))]);
				break;
			case 1:
				raw += step / 20000;
				break;
			case 2:
				raw -= step / 20000;
				break;
			}
			c[i] = (struct gil_clock){.mono_ns = (i ? c[i - 1].mono_ns : 1) + step,
						  .raw_ns = (i ? c[i - 1].raw_ns : 1) + raw,
						  .unix_ns = 1,
						  .boot_ns = 1};
		}
		place.r = r = recording(c, GT_ARRAY_SIZE(c), NULL, 0);
		for (int k = 0; k < 5000; k++) {
			size_t i = rnd(GT_ARRAY_SIZE(c) - 1);
			uint64_t span = c[i + 1].mono_ns - c[i].mono_ns;
			uint64_t x = c[i].mono_ns + (span ? rnd(span) : 0), expected;

			if (x >= c[GT_ARRAY_SIZE(c) - 1].mono_ns)
				continue;
			expected = brute(c, GT_ARRAY_SIZE(c), x);
			assert_int_equal(raw_of(r, x), expected);
			/* The same with a segment that is remembered, hopping about. */
			assert_int_equal(gt_profclock_place(&place, x),
					 expected + 12345 < GIL_TIME_MAX ? expected + 12345
									 : GIL_TIME_MAX - 1);
		}
		gil_reader_close(r);
	}
}

/* Later is never earlier, at the seams, too: slices must not end before they begin. */
static void never_goes_back(void **state)
{
	static struct gil_clock c[50];
	struct gt_profclock place = {.raw = 1};
	uint64_t last = 0, from = 1000 * S, to;

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(c); i++) {
		uint64_t step = rnd(4) ? rnd(20) : 0;

		c[i] = (struct gil_clock){.mono_ns = (i ? c[i - 1].mono_ns : from) + step,
					  .raw_ns = (i ? c[i - 1].raw_ns : from) + rnd(20),
					  .unix_ns = 1,
					  .boot_ns = 1};
	}
	to = c[GT_ARRAY_SIZE(c) - 1].mono_ns;
	place.r = recording(c, GT_ARRAY_SIZE(c), NULL, 0);
	for (uint64_t x = from - 100; x < to + 100; x++) {
		uint64_t y = gt_profclock_place(&place, x);

		assert_true(y >= last);
		last = y;
	}
	gil_reader_close((gil_reader *)(uintptr_t)place.r);
}

/* 50 ppm, and so it goes on for a day on both sides. */
static void beyond_the_samples(void **state)
{
	const uint64_t mono = 200000 * S, day = 86400 * S;
	struct gil_clock c[4];
	gil_reader *r;

	(void)state;
	for (size_t i = 0; i < 4; i++)
		c[i] = (struct gil_clock){.mono_ns = mono + i * S,
					  .raw_ns = mono - 7 + i * (S - 50000),
					  .unix_ns = 1,
					  .boot_ns = 1};
	r = recording(c, 4, NULL, 0);
	assert_int_equal(raw_of(r, mono - day), mono - 7 - day + 86400 * 50000ull);
	assert_int_equal(raw_of(r, mono - 1), mono - 8);
	assert_int_equal(raw_of(r, mono + 3 * S), mono - 7 + 3 * S - 150000);
	assert_int_equal(raw_of(r, mono + 3 * S + day),
			 mono - 7 + 3 * S - 150000 + day - 86400 * 50000ull);
	gil_reader_close(r);
	/* Too short to know a rate by, and as steep as none is. */
	c[1].mono_ns = c[0].mono_ns + 1000;
	c[1].raw_ns = c[0].raw_ns + 900;
	r = recording(c, 2, NULL, 0);
	assert_int_equal(raw_of(r, c[1].mono_ns + S), c[1].raw_ns + S);
	assert_int_equal(raw_of(r, c[0].mono_ns - S), c[0].raw_ns - S);
	gil_reader_close(r);
	c[1].mono_ns = c[0].mono_ns + S;
	c[1].raw_ns = c[0].raw_ns + S / 2;
	r = recording(c, 2, NULL, 0);
	assert_int_equal(raw_of(r, c[1].mono_ns + S), c[1].raw_ns + S);
	assert_int_equal(raw_of(r, c[0].mono_ns + S / 2),
			 c[0].raw_ns + S / 4); /* inside it is told */
	gil_reader_close(r);
}

/* The way back is the same line. */
static void both_ways(void **state)
{
	struct gil_clock c[3];
	gil_reader *r;

	(void)state;
	for (size_t i = 0; i < 3; i++)
		c[i] = (struct gil_clock){.mono_ns = 1000 * S + i * S,
					  .raw_ns = 900 * S + i * (S - 50000),
					  .unix_ns = 5000 * S + i * S,
					  .boot_ns = 1};
	r = recording(c, 3, NULL, 0);
	for (uint64_t x = 900 * S; x < 902 * S; x += 12345678) {
		int64_t d = gt_clock_distance(r, GT_CLOCK_ID_RAW, GT_CLOCK_ID_UNIX, x);
		uint64_t unix_ns = x + (uint64_t)d;

		assert_in_range(gt_clock_distance(r, GT_CLOCK_ID_UNIX, GT_CLOCK_ID_RAW, unix_ns) +
					d + 2,
				1, 3);
	}
	assert_int_equal(gt_clock_rate(r), 50000);
	gil_reader_close(r);
}

/*
 * True clocks: the kernel slews MONOTONIC anew every few seconds, and each reading is off by up to
 * its error. No place may be further off than the bound says, and the bound must be of use.
 */
static void error_is_a_bound(void **state)
{
	static struct gil_clock c[120];
	static int64_t ppb[130];
	static int64_t truth[130]; /* RAW - MONOTONIC at each second */

	(void)state;
	for (int round = 0; round < 50; round++) {
		uint64_t error = 20 + rnd(200), bound, worst = 0;
		gil_reader *r;

		ppb[0] = -50000 + (int64_t)rnd(20000);
		truth[0] = -144000000;
		for (size_t i = 1; i < GT_ARRAY_SIZE(ppb); i++) {
			ppb[i] = rnd(5) ? ppb[i - 1] : ppb[i - 1] + (int64_t)rnd(600) - 300;
			truth[i] = truth[i - 1] + ppb[i - 1];
		}
		for (size_t i = 0; i < GT_ARRAY_SIZE(c); i++) {
			uint64_t mono = (1000 + i) * S + rnd(S / 2);
			int64_t at = truth[i] + (int64_t)(mono % S) * ppb[i] / (int64_t)S;

			c[i] = (struct gil_clock){.mono_ns = mono,
						  .raw_ns = mono + (uint64_t)at +
							    rnd(2 * error + 1) - error,
						  .unix_ns = 1,
						  .boot_ns = 1,
						  .error_ns = error};
		}
		r = recording(c, GT_ARRAY_SIZE(c), NULL, 0);
		bound = gt_clock_error(r, c[0].mono_ns, c[GT_ARRAY_SIZE(c) - 1].mono_ns);
		for (int k = 0; k < 2000; k++) {
			size_t i = rnd(118);
			uint64_t mono = c[0].mono_ns + i * S + rnd(S), wrong;
			size_t s = mono / S - 1000;
			int64_t at = truth[s] + (int64_t)(mono % S) * ppb[s] / (int64_t)S;
			int64_t diff = (int64_t)(raw_of(r, mono) - mono) - at;

			wrong = (uint64_t)(diff < 0 ? -diff : diff);
			worst = wrong > worst ? wrong : worst;
		}
		assert_true(worst <= bound);
		assert_true(bound <= 1500);
		/* Further out it is less known. */
		assert_true(gt_clock_error(r, c[0].mono_ns - 10 * S, c[5].mono_ns) > bound);
		assert_true(gt_clock_error(r, c[0].mono_ns, c[119].mono_ns + 10 * S) > bound);
		gil_reader_close(r);
	}
}

/* A file can say anything. */
static void impossible_samples(void **state)
{
	struct gil_clock c[] = {
		{.mono_ns = 1,
		 .raw_ns = GIL_TIME_MAX - 1,
		 .unix_ns = 1,
		 .error_ns = GIL_TIME_MAX - 1},
		{.mono_ns = GIL_TIME_MAX - 1,
		 .raw_ns = 0,
		 .unix_ns = 5,
		 .error_ns = GIL_TIME_MAX - 1},
		{.mono_ns = GIL_TIME_MAX - 1, .raw_ns = 7, .unix_ns = 0, .error_ns = 0},
	};
	gil_reader *r = recording(c, 3, NULL, 0);
	const uint64_t at[] = {0, 1, 2, GIL_TIME_MAX / 2, GIL_TIME_MAX - 2, GIL_TIME_MAX - 1};

	(void)state;
	assert_false(gt_clock_is_steady(r, GT_CLOCK_ID_RAW));
	for (size_t i = 0; i < GT_ARRAY_SIZE(at); i++)
		for (int x = 0; x < 3; x++)
			for (int y = 0; y < 3; y++)
				gt_clock_distance(r, (enum gt_clock_id)x, (enum gt_clock_id)y,
						  at[i]);
	assert_true(gt_clock_error(r, 0, GIL_TIME_MAX - 1) <= GIL_TIME_MAX);
	gt_clock_rate(r);
	gil_reader_close(r);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_base, remove_base)
	const struct CMUnitTest tests[] = {
		T(as_by_128_bits), T(never_goes_back),  T(beyond_the_samples),
		T(both_ways),      T(error_is_a_bound), T(impossible_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
