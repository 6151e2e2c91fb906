// SPDX-License-Identifier: Apache-2.0
/* What a summary says of what is not known: losses, missed ends, damage, open ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sumfix.h"

static void gaps_count_for_nothing(void **unused)
{
	struct feed f;
	cJSON *json;

	(void)unused;
	feed_open(&f);
	feed_process(&f, 7, -1, "gaps", 1000);
	feed_hold(&f, 1, 0, 100, GT_FORCED_NO);
	/* Taken, then cut; its drop_gil is not seen. */
	feed_span(&f, (struct gt_span){.tid = 1,
				       .kind = GT_SPAN_HOLD,
				       .open = GT_OPEN_LOST,
				       .start_ns = 150,
				       .end_ns = 200});
	feed_gap(&f, 200, 400, 12);
	/* Held since the gap, and released. */
	feed_span(&f, (struct gt_span){.tid = 2,
				       .kind = GT_SPAN_HOLD,
				       .open = GT_OPEN_LOST,
				       .start_ns = 400,
				       .end_ns = 500});
	feed_drop(&f, 2, 500, 500, GT_FORCED_NO);
	feed_gap(&f, 600, 600, 1); /* of no length */
	feed_thread(&f, 1, "a", 200, 0);
	feed_thread(&f, 2, "b", 600, 0);
	feed_end(&f, (struct gt_sink_end){.lost = 13, .gaps = 2, .lost_ns = 200});
	feed_finish(&f);
	json = feed_json(f.s);
	assert_number(json, "processes.0.known_ns", 800);
	assert_number(json, "processes.0.gap_ns", 200);
	assert_number(json, "processes.0.lost", 13);
	assert_number(json, "processes.0.gils.0.held_ns", 250);
	/* Of the stretch behind the last gap nothing is told: 600 to 1000. */
	assert_number(json, "processes.0.gils.0.unknown_ns", 400);
	assert_number(json, "processes.0.gils.0.free_ns", 150);
	assert_number(json, "processes.0.gils.0.utilisation", 0.3125);
	assert_number(json, "processes.0.threads.0.takes", 2);
	assert_number(json, "processes.0.threads.0.holds.cut", 1);
	assert_number(json, "processes.0.threads.0.releases.voluntary", 1);
	assert_number(json, "processes.0.threads.1.takes", 0);
	assert_number(json, "processes.0.threads.1.holds.count", 1);
	assert_number(json, "processes.0.buckets.11.gap_ns", 0);
	assert_number(json, "processes.0.buckets.12.gap_ns", 16);
	assert_number(json, "processes.0.buckets.23.gap_ns", 17);
	assert_true(cJSON_IsFalse(feed_at(json, "processes.0.buckets.11.lost")));
	assert_true(cJSON_IsTrue(feed_at(json, "processes.0.buckets.12.lost")));
	assert_true(cJSON_IsTrue(feed_at(json, "processes.0.buckets.36.lost")));
	assert_true(cJSON_IsFalse(feed_at(json, "processes.0.buckets.37.lost")));
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

/* A release was missed: who had the GIL until the next hold is not known. */
static void missed_ends(void **unused)
{
	struct feed f;
	cJSON *json;

	(void)unused;
	feed_open(&f);
	feed_process(&f, 7, -1, "missed", 1000);
	feed_span(&f, (struct gt_span){.tid = 1,
				       .kind = GT_SPAN_HOLD,
				       .open = GT_OPEN_UNKNOWN,
				       .start_ns = 100,
				       .end_ns = 100});
	feed_hold(&f, 2, 300, 400, GT_FORCED_NO);
	feed_span(&f, (struct gt_span){.tid = 1,
				       .kind = GT_SPAN_TAKE,
				       .open = GT_OPEN_UNKNOWN,
				       .start_ns = 500,
				       .end_ns = 500});
	feed_thread(&f, 1, "a", 1000, 250);
	feed_thread(&f, 2, "b", 1000, 0);
	feed_end(&f, (struct gt_sink_end){.odd = 2});
	feed_finish(&f);
	json = feed_json(f.s);
	assert_number(json, "processes.0.gils.0.held_ns", 100);
	assert_number(json, "processes.0.gils.0.unknown_ns", 200);
	assert_number(json, "processes.0.gils.0.free_ns", 700);
	assert_number(json, "processes.0.threads.0.holds.missed", 1);
	assert_number(json, "processes.0.threads.0.holds.count", 0);
	assert_number(json, "processes.0.threads.0.waits.missed", 1);
	assert_number(json, "processes.0.threads.0.waits.count", 0);
	assert_number(json, "processes.0.threads.0.takes", 1);
	assert_number(json, "processes.0.threads.0.unknown_ns", 250);
	assert_number(json, "processes.0.threads.0.idle_ns", 750);
	assert_int_equal(cJSON_GetArraySize(feed_at(json, "processes.0.longest_waits")), 0);
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

/* Before it was recorded: outside the recording, or (placed so) inside. */
static void late(void **unused)
{
	struct feed f;
	cJSON *json;

	(void)unused;
	feed_open(&f);
	feed_process(&f, 7, -1, "late", 1000);
	feed_gap(&f, 0, 100, 0);
	feed_hold(&f, 1, 100, 1000, GT_FORCED_NO);
	feed_thread(&f, 1, "a", 900, 0);
	feed_end(&f, (struct gt_sink_end){.late_ns = 500});
	feed_finish(&f);
	json = feed_json(f.s);
	assert_number(json, "processes.0.known_ns", 900);
	assert_number(json, "processes.0.late_ns", 500);
	assert_number(json, "processes.0.gap_ns", 0);
	assert_number(json, "processes.0.gils.0.unknown_ns", 0);
	assert_number(json, "processes.0.gils.0.utilisation", 1);
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

/* Behind a damage nothing is known, though the file's headers tell of a later end. */
static void damaged(void **unused)
{
	struct feed f;
	cJSON *json;

	(void)unused;
	feed_open(&f);
	feed_process(&f, 7, -1, "damaged", 1000);
	feed_hold(&f, 1, 0, 100, GT_FORCED_NO);
	feed_thread(&f, 1, "a", 250, 0);
	feed_end(&f, (struct gt_sink_end){.problem = "block 7: torn"});
	feed_finish(&f);
	json = feed_json(f.s);
	assert_number(json, "processes.0.unread_ns", 750);
	assert_number(json, "processes.0.known_ns", 250);
	assert_number(json, "processes.0.gils.0.free_ns", 150);
	assert_true(cJSON_IsTrue(feed_at(json, "processes.0.buckets.59.lost")));
	assert_string_equal(feed_at(json, "processes.0.problem")->valuestring, "block 7: torn");
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

/* end() has not come, as converting it failed. */
static void incomplete(void **unused)
{
	struct feed f;
	cJSON *json;

	(void)unused;
	feed_open(&f);
	feed_process(&f, 7, -1, "half", 1000);
	feed_hold(&f, 1, 0, 100, GT_FORCED_NO);
	feed_process(&f, 8, -1, "nothing", 1000);
	feed_finish(&f);
	json = feed_json(f.s);
	assert_true(cJSON_IsFalse(feed_at(json, "processes.0.complete")));
	assert_number(json, "processes.0.unread_ns", 900);
	assert_true(cJSON_IsNull(feed_at(json, "processes.0.threads.0.label")));
	assert_number(json, "processes.1.unread_ns", 1000);
	assert_true(cJSON_IsNull(feed_at(json, "processes.1.contention")));
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

/* Threads that an ending interpreter lets hang wait for nobody. */
static void finalizing(void **unused)
{
	struct feed f;
	cJSON *json;

	(void)unused;
	feed_open(&f);
	feed_process(&f, 7, -1, "ends", 1000);
	feed_take(&f, 1, 100, 150, 7);
	feed_hold(&f, 1, 150, 200, GT_FORCED_NO);
	feed_span(&f, (struct gt_span){.tid = 1,
				       .kind = GT_SPAN_TAKE,
				       .open = GT_OPEN_FINALIZING,
				       .start_ns = 300,
				       .end_ns = 1000});
	feed_thread(&f, 1, "daemon", 1000, 0);
	feed_pair(&f, 1, 7, 50, 1);
	feed_end(&f, (struct gt_sink_end){0});
	feed_finish(&f);
	json = feed_json(f.s);
	assert_number(json, "processes.0.threads.0.wait_ns", 50);
	assert_number(json, "processes.0.threads.0.finalizing", 1);
	assert_number(json, "processes.0.threads.0.finalizing_ns", 700);
	assert_number(json, "processes.0.threads.0.idle_ns", 200);
	assert_number(json, "processes.0.threads.0.waits.max_ns", 50);
	assert_number(json, "processes.0.finalizing_ns", 700);
	assert_number(json, "processes.0.pairs.0.share", 1);
	assert_number(json, "processes.0.buckets.59.wait_ns", 0);
	assert_int_equal(cJSON_GetArraySize(feed_at(json, "processes.0.longest_waits")), 1);
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

static void open_ends(void **unused)
{
	struct feed f;
	cJSON *json;

	(void)unused;
	feed_open(&f);
	feed_process(&f, 7, -1, "open", 1000);
	feed_span(&f, (struct gt_span){.tid = 1,
				       .kind = GT_SPAN_HOLD,
				       .open = GT_OPEN_START | GT_OPEN_END,
				       .start_ns = 0,
				       .end_ns = 1000});
	feed_span(&f, (struct gt_span){.tid = 2,
				       .kind = GT_SPAN_TAKE,
				       .open = GT_OPEN_EXIT,
				       .start_ns = 10,
				       .end_ns = 1000,
				       .wait = {.nobody_ns = 500, .unknown_ns = 490}});
	feed_thread(&f, 1, "a", 1000, 0);
	feed_thread(&f, 2, "b", 990, 0);
	feed_end(&f, (struct gt_sink_end){0});
	feed_finish(&f);
	json = feed_json(f.s);
	assert_number(json, "processes.0.threads.0.takes", 0);
	assert_number(json, "processes.0.threads.0.holds.cut", 1);
	assert_number(json, "processes.0.threads.0.hold_share", 1);
	assert_number(json, "processes.0.threads.1.contended", 0);
	assert_number(json, "processes.0.threads.1.waits.cut", 1);
	assert_string_equal(feed_at(json, "processes.0.longest_holds.0.open.0")->valuestring,
			    "start");
	assert_string_equal(feed_at(json, "processes.0.longest_holds.0.open.1")->valuestring,
			    "end");
	assert_true(cJSON_IsNull(feed_at(json, "processes.0.longest_holds.0.forced")));
	assert_string_equal(feed_at(json, "processes.0.longest_waits.0.open.0")->valuestring,
			    "exit");
	assert_true(cJSON_IsNull(feed_at(json, "processes.0.longest_waits.0.blocker")));
	assert_number(json, "processes.0.longest_waits.0.nobody_ns", 500);
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gaps_count_for_nothing),
		cmocka_unit_test(missed_ends),
		cmocka_unit_test(late),
		cmocka_unit_test(damaged),
		cmocka_unit_test(incomplete),
		cmocka_unit_test(finalizing),
		cmocka_unit_test(open_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
