// SPDX-License-Identifier: Apache-2.0
/* What a summary says of pauses and marks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sumtext.h"

#define MS UINT64_C(1000000)

/* Of 600 ms: held for 100 until a pause of 300, and half of the rest waited for. */
static void feed_paused(struct feed *f)
{
	feed_process(f, 100, -1, "p", 600 * MS);
	feed_span(f, (struct gt_span){.tid = 100,
				      .kind = GT_SPAN_HOLD,
				      .open = GT_OPEN_PAUSED,
				      .end_ns = 100 * MS});
	feed_pause(f, 100 * MS, 400 * MS);
	/* Held since the pause, and released. */
	feed_span(f, (struct gt_span){.tid = 101,
				      .kind = GT_SPAN_HOLD,
				      .open = GT_OPEN_PAUSED,
				      .start_ns = 400 * MS,
				      .end_ns = 500 * MS});
	feed_drop(f, 101, 500 * MS, 500 * MS, GT_FORCED_NO);
	feed_take(f, 100, 410 * MS, 500 * MS, 101);
	feed_thread(f, 100, "main", 290 * MS, 0);
	feed_thread(f, 101, "other", 200 * MS, 0);
	feed_end(f, (struct gt_sink_end){.paused_ns = 300 * MS, .events = 4});
}

/* It is taken off what shares are of, and is no loss. */
static void pauses_count_for_nothing(void **unused)
{
	struct feed f;
	cJSON *json;

	(void)unused;
	feed_open(&f);
	feed_paused(&f);
	feed_finish(&f);
	json = feed_json(f.s);
	assert_number(json, "processes.0.span_ns", 600 * MS);
	assert_number(json, "processes.0.known_ns", 300 * MS);
	assert_number(json, "processes.0.pauses", 1);
	assert_number(json, "processes.0.paused_ns", 300 * MS);
	assert_number(json, "processes.0.gaps", 0);
	assert_number(json, "processes.0.gap_ns", 0);
	assert_number(json, "processes.0.lost", 0);
	assert_number(json, "processes.0.late_ns", 0);
	assert_number(json, "processes.0.gils.0.held_ns", 200 * MS);
	assert_number(json, "processes.0.gils.0.free_ns", 100 * MS);
	assert_number(json, "processes.0.gils.0.unknown_ns", 0);
	assert_number(json, "processes.0.gils.0.utilisation", 0.666667);
	assert_number(json, "processes.0.contention", 0.3);
	/* One was taken, the other had begun in the pause; both are cut. */
	assert_number(json, "processes.0.threads.0.takes", 1);
	assert_number(json, "processes.0.threads.1.takes", 0);
	assert_number(json, "processes.0.threads.0.holds.cut", 1);
	assert_number(json, "processes.0.threads.1.holds.cut", 1);
	assert_string_equal(feed_at(json, "processes.0.longest_holds.0.open.0")->valuestring,
			    "paused");
	for (int i = 0; i < GT_SUMMARY_BUCKETS; i++) {
		char path[64];

		snprintf(path, sizeof(path), "processes.0.buckets.%d.paused", i);
		assert_int_equal(cJSON_IsTrue(feed_at(json, path)), i >= 10 && i < 40);
		snprintf(path, sizeof(path), "processes.0.buckets.%d.lost", i);
		assert_true(cJSON_IsFalse(feed_at(json, path)));
		snprintf(path, sizeof(path), "processes.0.buckets.%d.gap_ns", i);
		assert_number(json, path, i >= 10 && i < 40 ? 10 * MS : 0);
	}
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

static void pauses_are_told(void **unused)
{
	gt_autofree char *text = NULL, *brief = NULL;
	struct feed f;

	(void)unused;
	in_locale("C");
	feed_open(&f);
	feed_paused(&f);
	feed_finish(&f);
	text = feed_text(f.s, 0);
	check_lines(text);
	assert_has(text, "  300 ms recorded: 4 events, 2 threads, 0 lost\n");
	assert_has(text, "  paused for 300 ms (50.0%), in 1 pause, which counts for nothing\n");
	assert_has(text, "  GIL held 66.7% of the time, free 33.3%\n");
	assert_has(text, "  0.30 threads waiting on average\n");
	assert_has(text,
		   "  held     |9999999999??????????????????????????????9999999999..........|\n");
	assert_has(text,
		   "  paused   |          !!!!!!!!!!!!!!!!!!!!!!!!!!!!!!                    |\n");
	assert_has(text, "cut by a pause");
	assert_has_not(text, "LOST");
	assert_has_not(text, "  lost ");
	assert_has_not(text, "  no record");
	brief = feed_text(f.s, 1);
	check_lines(brief);
	assert_has(brief, "GIL held 66.7% of 300 ms, 0.30 threads waiting on average\n");
	assert_has(brief, "\n  paused for 300 ms (50.0%), in 1 pause, which counts for nothing\n");
	assert_has_not(brief, "LOST");
	gt_summary_free(f.s);
}

/* Losses and a late begin beside it; time that two of them claim counts once. */
static void beside_losses(void **unused)
{
	gt_autofree char *text = NULL;
	struct feed f;
	cJSON *json;

	(void)unused;
	feed_open(&f);
	feed_process(&f, 100, -1, "p", 1000);
	feed_gap(&f, 0, 100, 0); /* late */
	feed_pause(&f, 50, 200);
	feed_gap(&f, 150, 300, 9);
	feed_pause(&f, 900, 1100);
	feed_hold(&f, 1, 400, 500, GT_FORCED_NO);
	feed_thread(&f, 1, "a", 500, 0);
	feed_end(&f, (struct gt_sink_end){.paused_ns = 350, .lost = 9, .gaps = 1, .lost_ns = 150});
	feed_finish(&f);
	json = feed_json(f.s);
	assert_number(json, "processes.0.pauses", 2);
	assert_number(json, "processes.0.paused_ns", 200);
	assert_number(json, "processes.0.gap_ns", 100);
	assert_number(json, "processes.0.known_ns", 600);
	text = feed_text(f.s, 0);
	assert_has(text, "  800 ns recorded: ");
	assert_has(text, "in 2 pauses, which count for nothing");
	assert_has(text, "LOST: 9 events in 1 gap; 100 ns");
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

/* Nobody has resumed it: that is why there is nothing. */
static void paused_all_the_time(void **unused)
{
	gt_autofree char *text = NULL, *brief = NULL;
	struct feed f;
	cJSON *json;

	(void)unused;
	feed_open(&f);
	feed_process(&f, 100, -1, "p", 600 * MS);
	feed_pause(&f, 2 * MS, 599 * MS); /* the recorder has sampled its clock before and behind */
	feed_mark(&f, 0, 5 * MS, "here");
	feed_end(&f, (struct gt_sink_end){.paused_ns = 597 * MS, .marks = 1});
	feed_finish(&f);
	text = feed_text(f.s, 0);
	check_lines(text);
	assert_has(text, "  the recording was paused (almost) all the time\n");
	assert_has(text, "  3.00 ms recorded: ");
	assert_has(text, "    0.005000 s  here\n");
	assert_has_not(text, "no take or release");
	brief = feed_text(f.s, 1);
	assert_has(brief, "the recording was paused (almost) all the time");
	json = feed_json(f.s);
	assert_number(json, "processes.0.known_ns", 3 * MS);
	assert_true(cJSON_IsNull(feed_at(json, "processes.0.contention")));
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

static void expect_mark(const cJSON *json, int i, const char *name, double tid, uint64_t at)
{
	char path[64];

	snprintf(path, sizeof(path), "processes.0.marks.%d.name", i);
	assert_string_equal(feed_at(json, path)->valuestring, name);
	snprintf(path, sizeof(path), "processes.0.marks.%d.offset_ns", i);
	assert_number(json, path, at);
	snprintf(path, sizeof(path), "processes.0.marks.%d.at_ns", i);
	assert_number(json, path, BASE + at);
	snprintf(path, sizeof(path), "processes.0.marks.%d.tid", i);
	if (tid)
		assert_number(json, path, tid);
	else
		assert_true(cJSON_IsNull(feed_at(json, path)));
}

/* By time, those of one time as they came; names are any bytes. */
static void marks_are_listed(void **unused)
{
	gt_autofree char *text = NULL, *brief = NULL;
	char longest[GIL_MARK_MAX + 1];
	struct feed f;
	cJSON *json;

	(void)unused;
	in_locale("C");
	memset(longest, 'x', GIL_MARK_MAX);
	longest[GIL_MARK_MAX] = '\0';
	feed_open(&f);
	feed_process(&f, 100, -1, "p", 600 * MS);
	feed_hold(&f, 100, 0, 1, GT_FORCED_NO);
	feed_mark(&f, 100, 500 * MS, "second \x1b[31m\n\"\xff");
	feed_mark(&f, 0, 20 * MS, "first");
	feed_mark(&f, 101, 500 * MS, "third");
	feed_mark(&f, 0, 600 * MS, longest);
	feed_thread(&f, 100, "main", 600 * MS, 0);
	feed_thread(&f, 101, "", 0, 0);
	feed_end(&f, (struct gt_sink_end){.marks = 4});
	feed_finish(&f);
	json = feed_json(f.s);
	assert_number(json, "processes.0.marks_total", 4);
	assert_int_equal(cJSON_GetArraySize(feed_at(json, "processes.0.marks")), 4);
	expect_mark(json, 0, "first", 0, 20 * MS);
	expect_mark(json, 1, "second \x1b[31m\n\"\xef\xbf\xbd", 100, 500 * MS);
	expect_mark(json, 2, "third", 101, 500 * MS);
	expect_mark(json, 3, longest, 0, 600 * MS);
	text = feed_text(f.s, 0);
	check_lines(text);
	assert_has(text, "\n\n  set by                     at  mark\n"
			 "  (the process)      0.020000 s  first\n"
			 "  main 100           0.500000 s  second ?[31m?\"?\n"
			 "  thread 101         0.500000 s  third\n"
			 "  (the process)      0.600000 s  xxxx");
	assert_has(text, "xxx~\n");
	assert_has_not(text, "more marks");
	/* There is no room for them in the few lines. */
	brief = feed_text(f.s, 1);
	assert_has_not(brief, "first");
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

/* Of many the earliest are kept, in whatever order they come, and all are counted. */
static void many_marks(void **unused)
{
	for (int backwards = 0; backwards < 2; backwards++) {
		gt_autofree char *text = NULL;
		struct feed f;
		cJSON *json;

		feed_open(&f);
		feed_process(&f, 100, -1, "p", 600 * MS);
		for (uint64_t i = 0; i < 1000; i++) {
			uint64_t n = backwards ? 999 - i : i;
			char name[32];

			snprintf(name, sizeof(name), "step %d", (int)n);
			feed_mark(&f, 100, n * 1000, name);
		}
		feed_thread(&f, 100, "main", 600 * MS, 0);
		feed_end(&f, (struct gt_sink_end){.marks = 1000});
		feed_finish(&f);
		json = feed_json(f.s);
		assert_number(json, "processes.0.marks_total", 1000);
		assert_int_equal(cJSON_GetArraySize(feed_at(json, "processes.0.marks")),
				 GT_SUMMARY_MARKS);
		expect_mark(json, 0, "step 0", 100, 0);
		expect_mark(json, 41, "step 41", 100, 41000);
		expect_mark(json, 99, "step 99", 100, 99000);
		text = feed_text(f.s, 0);
		assert_has(text, "step 99\n  ... and 900 more marks\n");
		cJSON_Delete(json);
		gt_summary_free(f.s);
	}
	(void)unused;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pauses_count_for_nothing),
		cmocka_unit_test(pauses_are_told),
		cmocka_unit_test(beside_losses),
		cmocka_unit_test(paused_all_the_time),
		cmocka_unit_test(marks_are_listed),
		cmocka_unit_test(many_marks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
