// SPDX-License-Identifier: Apache-2.0
/*
 * The ids under which threads are shown, in short hand: "4242=1" a THREAD record that tells the id
 * 1 ("4242=0": not known), "4242" another event, "4242x" its EXIT, "4242m" a MARK of it; "-" an
 * event without a thread: a LOST, "p" a PAUSED, "m" a MARK.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "rows.h"
#include "sink.h"

/* Both ids of a THREAD are told, the one that is not asked for as another number. */
static struct gil_event parse(const char *p, enum gt_ids ids)
{
	struct gil_event ev = {.kind = GIL_ACQUIRE};
	uint32_t id;
	char *end;

	if (*p == '-' || *p == 'p' || *p == 'm') {
		ev.kind = *p == '-' ? GIL_LOST : *p == 'p' ? GIL_PAUSED : GIL_MARK;
		return ev;
	}
	ev.tid = (uint32_t)strtoul(p, &end, 10);
	if (*end == 'x') {
		ev.kind = GIL_EXIT;
	} else if (*end == 'm') {
		ev.kind = GIL_MARK;
	} else if (*end == '=') {
		ev.kind = GIL_THREAD;
		id = (uint32_t)strtoul(end + 1, NULL, 10);
		ev.thread.ns_tid = ids == GT_IDS_NAMESPACE ? id : 999999;
		ev.thread.host_tid = ids == GT_IDS_HOST ? id : 999999;
	}
	return ev;
}

/* "+N": the row of the thread that came as number N, whose id is not known. */
static void expect_ids(enum gt_ids ids, const char *events, const char *want, uint32_t unknown)
{
	const struct gt_rows_opts opts = {
		.ids = ids, .pid = 100, .shown_pid = 1, .on_host = ids == GT_IDS_NAMESPACE};
	const char *where = NULL;
	char got[512] = "";
	struct gt_rows *r;
	size_t n = 0;

	assert_int_equal(gt_rows_create(&opts, &r), 0);
	for (int pass = 0; pass < 2; pass++) {
		for (const char *p = events; p; p = strchr(p, ' ') ? strchr(p, ' ') + 1 : NULL) {
			struct gil_event ev = parse(p, ids);
			uint32_t row, recorded;

			if (!pass) {
				assert_int_equal(gt_rows_learn(r, &ev), 0);
				continue;
			}
			assert_int_equal(gt_rows_find(r, &ev, &row), 0);
			recorded = gt_rows_recorded(r, row, &where);
			if (recorded)
				assert_int_equal(recorded, ev.tid);
			if (recorded)
				assert_string_equal(where, opts.on_host ? "host" : "recorder");
			n += (size_t)snprintf(got + n, sizeof(got) - n, "%s%s%u", n ? " " : "",
					      recorded ? "+" : "",
					      recorded ? row - GT_SINK_TID_UNKNOWN : row);
			assert_true(n < sizeof(got));
		}
		if (!pass)
			gt_rows_settle(r);
	}
	assert_string_equal(got, want);
	assert_int_equal(gt_rows_unknown(r), unknown);
	assert_int_equal(gt_rows_main(r), 1);
	gt_rows_free(r);
}

static void expect(const char *events, const char *want, uint32_t unknown)
{
	expect_ids(GT_IDS_NAMESPACE, events, want, unknown);
	expect_ids(GT_IDS_HOST, events, want, unknown);
}

static void told_before_or_behind(void **state)
{
	(void)state;
	expect("100=1 100 101=2 101 100", "1 1 2 2 1", 0);
	expect("101 101=2 101", "2 2 2", 0);
	expect("101 102 - 101 101=2 102=3", "2 3 0 2 2 3", 0);
	expect("101=2 101=3 101", "3 3 3", 0); /* the later one */
	expect("101=2 101=0 101", "2 2 2", 0); /* says nothing */
}

static void not_known(void **state)
{
	(void)state;
	/* of the main thread the process tells it */
	expect("100 100=0 101", "1 1 +1", 1);
	expect("101 102=2 101=0 102", "+0 2 +0 2", 1);
	/* not the numbers that others have: 101 is one of them */
	expect("101 102=101 101 102", "+0 101 +0 101", 1);
	/* impossible ones, as they would be taken for tracks of the sink's */
	expect("101=4194303 102=4194304 103=4294967295", "4194303 +1 +2", 2);
}

static void used_again(void **state)
{
	(void)state;
	/* the recorded one: two threads inside */
	expect("101=2 101 101x 101=3 101", "2 2 2 3 3", 0);
	expect("101=2 101x 101 101=3 101x 101=4", "2 2 3 3 3 4", 0);
	/* the shown one: they share a row */
	expect("101=2 101x 102=2 102", "2 2 2 2", 0);
	/* one of them is not known */
	expect("101=2 101x 101 101x 101=4", "2 2 +0 +0 4", 1);
	/* ended twice, and not used again */
	expect("101=2 101x 101x 101=3 101x 101x", "2 2 2 3 3 3", 0);
	expect("100 100x 100=5", "1 1 5", 0);
}

/* They may stand beside their place, so they neither begin nor end a thread. */
static void marks(void **state)
{
	(void)state;
	expect("101=2 101 101m 101", "2 2 2 2", 0);
	expect("101m 101=2", "2 2", 0);
	expect("101=2 101x 101m 101=3 101m 101", "2 2 2 3 3 3", 0);
	expect("101=2 101x 101m", "2 2 2", 0);
	expect("100m 101", "1 +1", 1);
	/* that is all that is known of it */
	expect("102m 101=2 102m", "+0 2 +0", 1);
	expect("m 101=2 p m 101", "0 2 0 0 2", 0);
}

static void many(void **state)
{
	const struct gt_rows_opts opts = {.pid = 1, .shown_pid = 2};
	struct gt_rows *r;
	uint32_t row;

	(void)state;
	assert_int_equal(gt_rows_create(&opts, &r), 0);
	for (uint32_t i = 0; i < 100000; i++) {
		struct gil_event ev = {.kind = GIL_THREAD, .tid = i * 4096 + 7};

		ev.thread.ns_tid = i % 3 ? i + 10 : 0;
		assert_int_equal(gt_rows_learn(r, &ev), 0);
	}
	gt_rows_settle(r);
	for (uint32_t i = 100000; i--;) {
		struct gil_event ev = {.kind = GIL_WAIT, .tid = i * 4096 + 7};

		assert_int_equal(gt_rows_find(r, &ev, &row), 0);
		assert_int_equal(row, i % 3 ? i + 10 : GT_SINK_TID_UNKNOWN + i);
	}
	assert_int_equal(gt_rows_unknown(r), 33334);
	gt_rows_free(r);
}

/* More ids than there can be: nothing breaks, the rest is refused in both passes. */
static void too_many(void **state)
{
	const struct gt_rows_opts opts = {.pid = 1, .shown_pid = 2};
	struct gil_event ev = {.kind = GIL_WAIT};
	struct gt_rows *r;
	uint32_t row;

	(void)state;
	assert_int_equal(gt_rows_create(&opts, &r), 0);
	for (ev.tid = 1; ev.tid <= GT_ROWS_THREADS_MAX; ev.tid++)
		assert_int_equal(gt_rows_learn(r, &ev), 0);
	assert_int_equal(gt_rows_learn(r, &ev), -E2BIG);
	gt_rows_settle(r);
	assert_int_equal(gt_rows_find(r, &ev, &row), -E2BIG);
	ev.tid--;
	assert_int_equal(gt_rows_find(r, &ev, &row), 0);
	gt_rows_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(told_before_or_behind),
		cmocka_unit_test(not_known),
		cmocka_unit_test(used_again),
		cmocka_unit_test(marks),
		cmocka_unit_test(many),
		cmocka_unit_test(too_many),
	};

	return cmocka_run_group_tests_name("rows", tests, NULL, NULL);
}
