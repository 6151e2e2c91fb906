// SPDX-License-Identifier: Apache-2.0
/* Slices in bounded memory: which give way, and that nothing is lost of the sums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "levels.h"

#define BASE_NS UINT64_C(1700000000123456789)

static uint64_t next_random(uint64_t *seed)
{
	uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* Few items for a busy and a quiet row: the busy one gives way, the quiet one stays exact. */
static void test_busy_gives_way(void **state)
{
	struct gt_levels l;
	uint64_t seed = 3, at = 1000;

	(void)state;
	gt_levels_init(&l, 400);
	assert_return_code(gt_levels_add_row(&l), 0);
	assert_return_code(gt_levels_add_row(&l), 0);
	for (uint32_t i = 0; i < 20000; i++) {
		struct gt_span s = {.kind = (uint8_t)(i % 2), .start_ns = at};

		at += 100 + next_random(&seed) % 3000;
		s.end_ns = at;
		assert_return_code(gt_levels_add(&l, i % 200 == 199, &s), 0);
		assert_true(l.items <= 400);
	}
	assert_int_equal(l.rows[1].width, 0);
	assert_int_equal(l.rows[1].n_slices, 100);
	assert_true(l.rows[0].width > 0);
	assert_int_equal(l.items, l.rows[0].n_cells + l.rows[0].n_slices + 100);
	assert_true(l.items > 200);
	gt_levels_fini(&l);
}

/* Random lengths from nothing to seconds: sums and longest ones hold, and short ones are in cells.
 */
static void test_sums_hold(void **state)
{
	(void)state;
	for (uint64_t round = 1; round <= 200; round++) {
		uint64_t seed = round, at = BASE_NS, n[3] = {0}, ns[3] = {0}, longest[2] = {0};
		struct gt_levels l;
		const struct gt_level_row *r;

		gt_levels_init(&l, 64);
		assert_return_code(gt_levels_add_row(&l), 0);
		for (int i = 0; i < 3000; i++) {
			uint64_t x = next_random(&seed), len = x >> (34 + x % 30);
			struct gt_span s = {.kind = (uint8_t)(x % 3), .forced = 2};

			len = x % 7 ? len : 0;
			at += next_random(&seed) % 5 ? 0 : (x >> 20) % 100000;
			s.start_ns = at;
			s.end_ns = at += len;
			assert_return_code(gt_levels_add(&l, 0, &s), 0);
			n[s.kind]++;
			ns[s.kind] += len;
			if (s.kind < 2 && longest[s.kind] < len)
				longest[s.kind] = len;
		}
		r = l.rows;
		assert_int_equal(l.items, r->n_slices + r->n_cells);
		for (uint32_t i = 0; i < r->n_slices; i++) {
			const struct gt_slice *s = &r->slices[i];

			assert_true(s->len_ns >> r->width);
			n[s->kind]--;
			n[GT_SPAN_DROP] -= s->drop;
			ns[s->kind] -= s->len_ns;
			assert_true(s->kind == GT_SPAN_DROP || s->len_ns <= longest[s->kind]);
		}
		for (uint32_t i = 0; i < r->n_cells; i++) {
			const struct gt_cell *c = &r->cells[i];

			assert_true(!i || c->index > c[-1].index);
			assert_true(c->ns[0] + c->ns[1] + c->ns[2] <= UINT64_C(1) << r->width);
			for (int k = 0; k < 3; k++) {
				n[k] -= c->n[k];
				ns[k] -= c->ns[k];
			}
		}
		for (int k = 0; k < 3; k++)
			assert_true(!n[k] && !ns[k]);
		gt_levels_fini(&l);
	}
}

static void add(struct gt_levels *l, uint8_t kind, uint64_t start_ns, uint64_t end_ns, uint8_t gil)
{
	const struct gt_span s = {
		.kind = kind, .start_ns = start_ns, .end_ns = end_ns, .gil = gil, .forced = 1};

	assert_return_code(gt_levels_add(l, 0, &s), 0);
}

/* Only where nothing is lost by it: right behind it, without length, once, of the same GIL. */
static void test_drop_joins_its_hold(void **state)
{
	struct gt_levels l;

	(void)state;
	gt_levels_init(&l, 64);
	assert_return_code(gt_levels_add_row(&l), 0);
	add(&l, GT_SPAN_HOLD, 100, 200, 0);
	add(&l, GT_SPAN_DROP, 200, 200, 0);
	assert_int_equal(l.items, 1);
	add(&l, GT_SPAN_DROP, 200, 200, 0); /* another */
	assert_int_equal(l.items, 2);
	add(&l, GT_SPAN_HOLD, 300, 400, 0);
	add(&l, GT_SPAN_DROP, 400, 410, 0); /* has a length */
	assert_int_equal(l.items, 4);
	add(&l, GT_SPAN_HOLD, 500, 600, 0);
	add(&l, GT_SPAN_DROP, 600, 600, 1); /* another GIL */
	assert_int_equal(l.items, 6);
	add(&l, GT_SPAN_HOLD, 700, 800, 0);
	add(&l, GT_SPAN_DROP, 801, 801, 0); /* later */
	assert_int_equal(l.items, 8);
	assert_int_equal(l.rows[0].slices[0].drop, 1);
	for (uint32_t i = 1; i < 8; i++)
		assert_int_equal(l.rows[0].slices[i].drop, 0);
	gt_levels_fini(&l);
}

/* Slices out of order and times beyond all bounds are no reason to fall over, or to lose count. */
static void test_beyond_the_promise(void **state)
{
	struct gt_levels l;
	uint64_t seed = 5, n = 0;

	(void)state;
	gt_levels_init(&l, 64);
	assert_return_code(gt_levels_add_row(&l), 0);
	for (int i = 0; i < 20000; i++) {
		uint64_t x = next_random(&seed);
		struct gt_span s = {.kind = (uint8_t)(i % 3),
				    .start_ns = next_random(&seed) >> (x & 63),
				    .end_ns = next_random(&seed) >> (x >> 6 & 63)};

		if (gt_levels_add(&l, 0, &s))
			break; /* slices of centuries do not fit, however wide a cell is */
		assert_true(l.items <= 64);
	}
	for (uint32_t i = 0; i < l.rows[0].n_cells; i++)
		n += l.rows[0].cells[i].n[0];
	assert_true(n > 0);
	gt_levels_fini(&l);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_busy_gives_way),
		cmocka_unit_test(test_sums_hold),
		cmocka_unit_test(test_drop_joins_its_hold),
		cmocka_unit_test(test_beyond_the_promise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
