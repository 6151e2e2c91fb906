// SPDX-License-Identifier: Apache-2.0
/* Histograms against the numbers themselves, in order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "hist.h"

static uint64_t state;

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The least of the sorted numbers that is not below so many thousandths of them. */
static uint64_t nearest_rank(const uint64_t *v, size_t n, unsigned int permille)
{
	size_t k = 0;

	while ((k + 1) * 1000 < n * permille)
		k++;
	return v[k];
}

static void check(uint64_t *v, size_t n)
{
	static const unsigned int at[] = {0, 1, 10, 250, 500, 900, 990, 999, 1000};
	struct gt_hist h = {0};
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		assert_int_equal(gt_hist_add(&h, v[i]), 0);
		sum = gt_sat_add(sum, v[i]);
	}
	qsort(v, n, sizeof(*v), by_size);
	assert_true(h.n == n && h.sum == sum && h.max == v[n - 1]);
	for (size_t i = 0; i < GT_ARRAY_SIZE(at); i++) {
		uint64_t want = nearest_rank(v, n, at[i]), got = gt_hist_at(&h, at[i]);

		assert_true(got >= want && got <= h.max);
		assert_true(got - want <= want / 64);
		if (want < GT_HIST_EXACT)
			assert_int_equal(got, want);
	}
	assert_true(gt_hist_at(&h, 1000) == h.max);
	gt_hist_free(&h);
	assert_null(h.counts);
}

static void empty(void **unused)
{
	struct gt_hist h = {0};

	(void)unused;
	assert_int_equal(gt_hist_at(&h, 500), 0);
	assert_int_equal(gt_hist_at(&h, 1000), 0);
	gt_hist_free(&h);
}

static void small_numbers_are_exact(void **unused)
{
	uint64_t v[GT_HIST_EXACT];

	(void)unused;
	for (size_t i = 0; i < GT_ARRAY_SIZE(v); i++)
		v[i] = i;
	check(v, GT_ARRAY_SIZE(v));
	for (size_t i = 0; i < GT_ARRAY_SIZE(v); i++) {
		struct gt_hist h = {0};

		assert_int_equal(gt_hist_add(&h, i), 0);
		assert_int_equal(gt_hist_add(&h, UINT64_MAX), 0);
		assert_int_equal(gt_hist_at(&h, 500), i);
		gt_hist_free(&h);
	}
}

/* One below, at, and above each power of two: the borders of the groups. */
static void powers_of_two(void **unused)
{
	(void)unused;
	for (unsigned int bit = 1; bit < 64; bit++) {
		for (int d = -1; d <= 1; d++) {
			uint64_t v[] = {(UINT64_C(1) << bit) + (uint64_t)(int64_t)d, UINT64_MAX};

			check(v, GT_ARRAY_SIZE(v));
		}
	}
}

static void random_numbers(void **unused)
{
	static uint64_t v[20000];

	(void)unused;
	state = 0x5eed5eed5eed5eedu;
	for (int round = 0; round < 40; round++) {
		size_t n = 1 + next() % GT_ARRAY_SIZE(v);
		/* Of all sizes, and all of nearly one size. */
		unsigned int least = round & 1 ? (unsigned int)(next() % 50) : 0;

		for (size_t i = 0; i < n; i++)
			v[i] = next() >> (least + next() % (round & 1 ? 4 : 60));
		check(v, n);
	}
}

static void one_number_is_itself(void **unused)
{
	struct gt_hist h = {0};

	(void)unused;
	assert_int_equal(gt_hist_add(&h, 123456789), 0);
	assert_int_equal(gt_hist_at(&h, 500), 123456789);
	assert_int_equal(gt_hist_at(&h, 0), 123456789);
	gt_hist_free(&h);
}

static void few_take_no_memory(void **unused)
{
	struct gt_hist h = {0};

	(void)unused;
	for (uint64_t i = 1; i <= GT_HIST_FEW; i++)
		assert_int_equal(gt_hist_add(&h, UINT64_MAX >> i), 0);
	assert_null(h.counts);
	assert_int_equal(gt_hist_at(&h, 500), UINT64_MAX >> (GT_HIST_FEW / 2 + 1));
	gt_hist_free(&h);
}

/* As many as make the difference, and about that. */
static void from_few_to_many(void **unused)
{
	uint64_t v[3 * GT_HIST_FEW];

	(void)unused;
	state = 0x5eed5eed5eed5eedu;
	for (size_t n = 1; n <= GT_ARRAY_SIZE(v); n++) {
		for (size_t i = 0; i < n; i++)
			v[i] = next() >> next() % 60;
		check(v, n);
	}
}

/* Memory comes with the sizes that are met, not with how many there are. */
static void memory(void **unused)
{
	struct gt_hist h = {0};

	(void)unused;
	for (unsigned int i = 0; i < 100000; i++)
		assert_int_equal(gt_hist_add(&h, 5000000 + i), 0);
	assert_int_equal(h.groups, 1);
	gt_hist_free(&h);
}

static void sum_stays_at_the_greatest(void **unused)
{
	struct gt_hist h = {0};

	(void)unused;
	assert_int_equal(gt_hist_add(&h, UINT64_MAX), 0);
	assert_int_equal(gt_hist_add(&h, 2), 0);
	assert_true(h.sum == UINT64_MAX);
	gt_hist_free(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty),
		cmocka_unit_test(small_numbers_are_exact),
		cmocka_unit_test(powers_of_two),
		cmocka_unit_test(random_numbers),
		cmocka_unit_test(one_number_is_itself),
		cmocka_unit_test(few_take_no_memory),
		cmocka_unit_test(from_few_to_many),
		cmocka_unit_test(memory),
		cmocka_unit_test(sum_stays_at_the_greatest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
