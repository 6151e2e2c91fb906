// SPDX-License-Identifier: Apache-2.0
/* before.c, and what collect.c makes of it: what threads were in when the recording began. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "before.h"
#include "collectfix.h"

/* ---- the list of blocked threads ---- */

#define COND 0x7f0000001000ull

static const struct gt_snapshot_gils not_told;

static void only_the_blocked_are_kept(void **state)
{
	static const struct gt_snapshot_thread threads[] = {
		{.tid = 1}, {.tid = 2, .futex = COND}, {.tid = 3}, {.tid = 4, .futex = 8}};
	struct gt_before b = {0};

	(void)state;
	assert_int_equal(gt_before_init(&b, &not_told, threads, 4), 0);
	assert_int_equal(b.n, 2);
	assert_int_equal(b.left, 2);
	for (uint32_t tid = 0; tid < 6; tid++)
		assert_int_equal(gt_before_take(&b, tid), tid == 2 ? COND : tid == 4 ? 8 : 0);
	assert_int_equal(b.left, 0);
	assert_int_equal(gt_before_take(&b, 2), 0);
	assert_int_equal(b.left, 0);
	gt_before_free(&b);
	assert_int_equal(gt_before_init(&b, &not_told, NULL, 0), 0);
	assert_int_equal(gt_before_take(&b, 2), 0);
	gt_before_free(&b);
}

static void only_waiters_are_kept_where_the_gils_are_known(void **state)
{
	static const struct gt_snapshot_gils gils = {
		.told = 1, .n = 2, .gil = {{.cond = COND}, {.cond = COND + 0x200}}};
	static const struct gt_snapshot_thread threads[] = {{.tid = 1},
							    {.tid = 2, .futex = COND + 0x210},
							    {.tid = 3, .futex = COND + 0x100},
							    {.tid = 4, .futex = COND + 47}};
	struct gt_before b = {0};

	(void)state;
	assert_int_equal(gt_before_init(&b, &gils, threads, 4), 0);
	assert_int_equal(b.left, 2);
	assert_int_equal(gt_before_take(&b, 3), 0);
	assert_int_equal(gt_before_take(&b, 2), COND + 0x210);
	gt_before_free(&b);
}

static void others_are_dropped_when_the_gils_are_known(void **state)
{
	static const uint64_t conds[] = {0, COND, 0};
	static const struct gt_snapshot_thread threads[] = {{.tid = 1, .futex = COND},
							    {.tid = 2, .futex = 8},
							    {.tid = 3, .futex = COND + 8},
							    {.tid = 4, .futex = COND},
							    {.tid = 5, .futex = COND - 4}};
	struct gt_before b = {0};

	(void)state;
	assert_int_equal(gt_before_init(&b, &not_told, threads, 5), 0);
	assert_int_equal(gt_before_take(&b, 3), COND + 8);
	gt_before_keep(&b, conds, 3);
	assert_int_equal(b.left, 2);
	assert_int_equal(gt_before_take(&b, 2), 0);
	assert_int_equal(gt_before_take(&b, 3), 0);
	assert_int_equal(gt_before_take(&b, 5), 0);
	assert_int_equal(gt_before_take(&b, 4), COND);
	gt_before_clear(&b);
	assert_int_equal(b.left, 0);
	assert_int_equal(gt_before_take(&b, 1), 0);
	gt_before_free(&b);
}

/* ---- the records of the collector ---- */

static void record_gil(struct fixture *f, uint8_t index, uint64_t cond, uint8_t flags)
{
	struct gt_rec_gil rec = {
		.rec = {.ts_ns = 1000, .tid = 1, .kind = GT_GIL, .gil = index, .flags = flags},
		.addr = cond};

	gt_collect_record(f->c, &rec.rec, sizeof(rec));
}

static void before(struct fixture *f, const struct gt_snapshot_gils *gils,
		   const struct gt_snapshot_thread *threads, size_t n)
{
	static const struct gt_snapshot_gils none;

	assert_int_equal(gt_collect_before(f->c, 500, gils ? gils : &none, threads, n), 0);
}

static void assert_before(struct gil_event ev, uint32_t tid, uint8_t gil, uint8_t state)
{
	assert_int_equal(ev.kind, GIL_BEFORE);
	assert_int_equal(ev.mono_ns, 500);
	assert_int_equal(ev.tid, tid);
	assert_int_equal(ev.gil, gil);
	assert_int_equal(ev.before.state, state);
}

/* The addresses of this Python's GILs are not published: the first events tell. */
static void blocked_at_the_start(void **state)
{
	static const struct gt_snapshot_thread threads[] = {
		{.tid = 11, .futex = COND + 40}, {.tid = 12, .futex = COND},
		{.tid = 13, .futex = COND + 48}, {.tid = 14, .futex = COND + 8},
		{.tid = 15, .futex = COND + 8},  {.tid = 16},
		{.tid = 17, .futex = COND - 1},
	};
	struct fixture *f = *state;

	before(f, NULL, threads, GT_ARRAY_SIZE(threads));
	record_gil(f, 2, COND, 0);
	for (uint32_t i = 0; i < GT_ARRAY_SIZE(threads); i++) {
		record_thread(f, 2000 + i, 11 + i, "worker");
		record(f, 2000 + i, 11 + i,
		       11 + i == 12   ? GT_ACQUIRE
		       : 11 + i == 15 ? GT_RELEASE
				      : GT_WAIT);
	}
	record(f, 3000, 11, GT_WAIT);
	record(f, 3000, 14, GT_ACQUIRE);
	finish(f, 4000, 0, 0);
	assert_int_equal(next(f).kind, GIL_GIL);
	for (uint32_t tid = 11; tid <= 17; tid++) {
		struct gil_event ev = next(f);

		assert_int_equal(ev.kind, GIL_THREAD);
		assert_int_equal(ev.tid, tid);
		if (tid == 11 || tid == 12 || tid == 14)
			assert_before(next(f), tid, 2, GIL_BEFORE_WAITING);
		ev = next(f);
		assert_int_equal(ev.tid, tid);
		assert_true(ev.kind <= GIL_DROPPED);
	}
	assert_int_equal(next(f).tid, 11);
	assert_int_equal(next(f).tid, 14);
	assert_at_end(f);
	assert_int_equal(f->stats.events, 9);
}

/* A release alone does not tell that it is a GIL: any condition variable may be signalled there. */
static void blocked_in_something_else(void **state)
{
	static const struct gt_snapshot_thread threads[] = {{.tid = 11, .futex = COND},
							    {.tid = 12, .futex = COND + 0x1000}};
	struct fixture *f = *state;

	before(f, NULL, threads, 2);
	record_gil(f, 2, COND, GT_REC_UNCONFIRMED);
	record(f, 2000, 1, GT_RELEASE);
	record_gil(f, 3, 0, 0);
	record_gil(f, GT_GIL_OTHER, COND, 0);
	finish(f, 4000, 0, 0);
	assert_int_equal(next(f).kind, GIL_GIL);
	assert_int_equal(next(f).kind, GIL_RELEASE);
	assert_int_equal(next(f).kind, GIL_GIL);
	assert_int_equal(next(f).kind, GIL_GIL);
	assert_at_end(f);
}

/* Blocked from the start to the end; a thread of this process, so that it has a name. */
static void blocked_all_the_time(void **state)
{
	struct fixture *f = *state;
	const uint32_t tid = (uint32_t)syscall(SYS_gettid);
	const struct gt_snapshot_thread threads[] = {{.tid = tid, .futex = COND + 4},
						     {.tid = 4999999, .futex = COND + 4},
						     {.tid = 5000000, .futex = COND + 0x100}};
	struct gil_event ev;

	prctl(PR_SET_NAME, "waiter");
	before(f, NULL, threads, 3);
	record_gil(f, 2, COND, 0);
	record(f, 2000, 1, GT_ACQUIRE);
	gt_collect_tick(f->c, 2000000000); /* by now all that wait for a GIL are known */
	finish(f, 3000000000, 0, 0);
	assert_int_equal(next(f).kind, GIL_GIL);
	assert_int_equal(next(f).kind, GIL_ACQUIRE);
	ev = next(f);
	assert_int_equal(ev.kind, GIL_THREAD);
	assert_int_equal(ev.tid, tid);
	assert_string_equal(ev.thread.comm, "waiter");
	assert_before(next(f), tid, 2, GIL_BEFORE_WAITING);
	assert_at_end(f); /* the other has ended, nobody knows when */
}

/* A thread's own events tell more, and after a loss nobody knows whether there were some. */
static void events_tell_more_than_the_snapshot(void **state)
{
	static const struct gt_snapshot_thread threads[] = {
		{.tid = 11, .futex = COND}, {.tid = 12, .futex = COND}, {.tid = 13, .futex = COND}};
	struct fixture *f = *state;

	record_gil(f, 2, COND, 0);
	record_thread(f, 1100, 11, "worker");
	record(f, 1100, 11, GT_WAIT);
	before(f, NULL, threads, 3);
	record(f, 1200, 11, GT_ACQUIRE);
	record(f, 1300, 12, GT_EXIT);
	record_thread(f, 1400, 12, "its id");
	record(f, 1400, 12, GT_ACQUIRE);
	record_lost(f, 2000, 1500, 3);
	record(f, 2000, 13, GT_ACQUIRE);
	finish(f, 4000, 3, 0);
	for (int i = 0; i < 9; i++)
		assert_int_not_equal(next(f).kind, GIL_BEFORE);
	assert_at_end(f);
}

static void after_a_loss_the_snapshot_tells_nothing(void **state)
{
	static const struct gt_snapshot_thread threads[] = {{.tid = 11, .futex = COND}};
	static const struct gt_snapshot_gils gils = {
		.told = 1,
		.n = 1,
		.gil = {{.cond = COND, .enabled = 1, .locked = 1, .holder = 12}}};
	struct fixture *f = *state;

	gt_collect_gil(f->c, 2, COND, 400);
	record_lost(f, 1000, 900, 3);
	record_thread(f, 1100, 12, "holder");
	before(f, &gils, threads, 1);
	record(f, 2000, 11, GT_ACQUIRE);
	finish(f, 4000, 3, 0);
	for (int i = 0; i < 4; i++)
		assert_int_not_equal(next(f).kind, GIL_BEFORE);
	assert_at_end(f);
}

static void a_loss_at_the_end_hides_who_was_blocked(void **state)
{
	static const struct gt_snapshot_thread threads[] = {{.tid = 11, .futex = COND}};
	struct fixture *f = *state;

	record_gil(f, 2, COND, 0);
	before(f, NULL, threads, 1);
	finish(f, 4000, 1, 3000);
	assert_int_equal(next(f).kind, GIL_GIL);
	assert_int_equal(next(f).kind, GIL_LOST);
	assert_at_end(f);
}

/* 3.13+ publishes its GILs and who holds them. */
/* Waiters come round every 5 ms, maybe before the process has been looked at. */
static void held_while_others_wait(void **state)
{
	struct fixture *f = *state;
	const uint32_t tid = (uint32_t)syscall(SYS_gettid);
	const struct gt_snapshot_gils gils = {
		.told = 1,
		.n = 1,
		.gil = {{.cond = COND, .enabled = 1, .locked = 1, .holder = tid}}};

	gt_collect_gil(f->c, 2, COND, 400);
	record(f, 1000, 7, GT_WAIT);
	before(f, &gils, NULL, 0);
	finish(f, 4000, 0, 0);
	assert_int_equal(next(f).kind, GIL_GIL);
	assert_int_equal(next(f).kind, GIL_WAIT);
	assert_int_equal(next(f).kind, GIL_THREAD);
	assert_before(next(f), tid, 2, GIL_BEFORE_HOLDING);
	assert_at_end(f);
}

static void held_at_the_start(void **state)
{
	struct fixture *f = *state;
	const uint32_t tid = (uint32_t)syscall(SYS_gettid);
	const struct gt_snapshot_gils gils = {
		.told = 1,
		.n = 6,
		.gil = {{.cond = COND, .enabled = 1, .locked = 1, .holder = tid},
			{.cond = COND + 0x1000, .enabled = 1, .locked = 1, .holder = tid},
			{.cond = COND + 0x2000, .enabled = 1, .locked = 0, .holder = tid},
			{.cond = COND + 0x3000, .enabled = 0, .locked = 1, .holder = tid},
			{.cond = COND + 0x4000, .enabled = 1, .locked = 1, .holder = 5000000},
			{.cond = COND + 0x5000, .enabled = 1, .locked = 1, .holder = tid}}};
	const struct gt_snapshot_thread threads[] = {{.tid = 11, .futex = COND + 8},
						     {.tid = 12, .futex = 0x1234}};
	struct gil_event ev;

	prctl(PR_SET_NAME, "holder");
	for (uint8_t i = 0; i < 5; i++) /* of the sixth nothing is known yet */
		gt_collect_gil(f->c, 2 + i, COND + 0x1000 * i, 400);
	record(f, 1000, 5000000, GT_ACQUIRE); /* of the first: index 2 */
	before(f, &gils, threads, 2);
	record(f, 2000, 11, GT_ACQUIRE);
	record(f, 2000, 12, GT_ACQUIRE);
	finish(f, 4000, 0, 0);
	for (uint8_t i = 0; i < 5; i++) {
		ev = next(f);
		assert_int_equal(ev.kind, GIL_GIL);
		assert_int_equal(ev.gil, 2 + i);
		assert_int_equal(ev.unconfirmed, 0);
		assert_int_equal(ev.gil_ident.addr, COND + 0x1000 * i);
		assert_int_equal(ev.mono_ns, 400);
	}
	assert_int_equal(next(f).kind, GIL_ACQUIRE);
	ev = next(f);
	assert_int_equal(ev.kind, GIL_THREAD);
	assert_string_equal(ev.thread.comm, "holder");
	assert_before(next(f), tid, 3, GIL_BEFORE_HOLDING);
	assert_before(next(f), 11, 2, GIL_BEFORE_WAITING);
	assert_int_equal(next(f).tid, 11);
	assert_int_equal(next(f).tid, 12);
	assert_at_end(f);
	assert_int_equal(f->stats.threads, 1);
}

static void held_by_a_thread_that_is_known(void **state)
{
	static const struct gt_snapshot_gils gils = {
		.told = 1,
		.n = 1,
		.gil = {{.cond = COND, .enabled = 1, .locked = 1, .holder = 5000000}}};
	struct fixture *f = *state;

	gt_collect_gil(f->c, 2, COND, 400);
	record_thread(f, 1000, 5000000, "holder"); /* of another GIL before, say */
	before(f, &gils, NULL, 0);
	finish(f, 4000, 0, 0);
	assert_int_equal(next(f).kind, GIL_GIL);
	assert_int_equal(next(f).kind, GIL_THREAD);
	assert_before(next(f), 5000000, 2, GIL_BEFORE_HOLDING);
	assert_at_end(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_blocked_are_kept),
		cmocka_unit_test(only_waiters_are_kept_where_the_gils_are_known),
		cmocka_unit_test(others_are_dropped_when_the_gils_are_known),
		cmocka_unit_test_setup_teardown(blocked_at_the_start, setup, teardown),
		cmocka_unit_test_setup_teardown(blocked_in_something_else, setup, teardown),
		cmocka_unit_test_setup_teardown(blocked_all_the_time, setup, teardown),
		cmocka_unit_test_setup_teardown(events_tell_more_than_the_snapshot, setup,
						teardown),
		cmocka_unit_test_setup_teardown(after_a_loss_the_snapshot_tells_nothing, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_loss_at_the_end_hides_who_was_blocked, setup,
						teardown),
		cmocka_unit_test_setup_teardown(held_while_others_wait, setup, teardown),
		cmocka_unit_test_setup_teardown(held_at_the_start, setup, teardown),
		cmocka_unit_test_setup_teardown(held_by_a_thread_that_is_known, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
