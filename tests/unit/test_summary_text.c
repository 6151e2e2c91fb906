// SPDX-License-Identifier: Apache-2.0
/* A summary as people read it: what it says, that it stays readable, and what must not get out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sumtext.h"

#define MS UINT64_C(1000000)

/* Of 600 ms: 100 busy ones in the middle, in which two threads fight. */
static void feed_burst(struct feed *f)
{
	feed_process(f, 100, 3, "GIL Trace: train.py (rank 3)", 600 * MS);
	feed_hold(f, 100, 0, 10 * MS, GT_FORCED_NO);
	for (uint64_t i = 0; i < 20; i++) {
		uint32_t holder = i & 1 ? 101 : 100, waiter = i & 1 ? 100 : 101;
		uint64_t start = (300 + i * 5) * MS;

		feed_take(f, waiter, start, start + 5 * MS, holder);
		feed_hold(f, holder, start, start + 5 * MS, GT_FORCED_YES);
	}
	feed_thread(f, 100, "MainThread", 600 * MS, 0);
	feed_thread(f, 101, "worker", 300 * MS, 0);
	feed_pair(f, 100, 101, 49 * MS, 10);
	feed_pair(f, 100, GT_BLOCKER_NOBODY, MS, 10);
	feed_pair(f, 101, 100, 50 * MS, 10);
	feed_end(f, (struct gt_sink_end){.events = 82, .threads = 2, .gils = 1});
}

static void whole_text(void **unused)
{
	static const char want[] =
		"train.py (rank 3), pid 100\n"
		"  dir/GIL.gil; CPU; began 2023-11-14 22:13:20.000000 UTC\n"
		"  600 ms recorded: 82 events, 2 threads, 0 lost\n"
		"  GIL held 18.3% of the time, free 81.7%\n"
		"  0.17 threads waiting on average\n"
		"\n"
		"  held     |9.............................9999999999....................|\n"
		"  waiting  |..............................9999999999....................|\n"
		"  a column is 10.0 ms; 9: held all the time, 1.00 threads waiting; .: never\n"
		"\n"
		"  thread                 waiting         holding            idle    drop     "
		"seen\n"
		"  MainThread 100  50.0 ms   8.3%  60.0 ms  10.0%   490 ms  81.7%    0.0%   600 "
		"ms\n"
		"  worker 101      50.0 ms  16.7%  50.0 ms  16.7%   200 ms  66.7%    0.0%   300 "
		"ms\n"
		"  idle: does not need the GIL; drop: has given it up, and waits until another has "
		"it\n";
	gt_autofree char *text = NULL;
	struct feed f;

	(void)unused;
	in_locale("C");
	feed_open(&f);
	feed_burst(&f);
	feed_finish(&f);
	text = feed_text(f.s, 0);
	check_lines(text);
	if (strncmp(text, want, strlen(want)))
		fail_msg("it begins otherwise:\n%s", text);
	assert_has(text, "\n  MainThread 100        11         10                 10          1 "
			 "         0\n");
	assert_has(text, "\n  worker 101      5.00 ms  5.00 ms  5.00 ms  5.00 ms  5.00 ms  5.00 "
			 "ms  5.00 ms  5.00 ms\n");
	assert_has(text, "\n  worker 101     < MainThread 100  50.0 ms      100.0%        10\n"
			 "  MainThread 100 < worker 101      49.0 ms       98.0%        10\n"
			 "  MainThread 100 < (nobody)        1.00 ms        2.0%        10\n");
	assert_has(text,
		   "\n  worker 101      5.00 ms      0.300000 s  100.0% for MainThread 100\n");
	assert_has(text, "\n  MainThread 100  10.0 ms      0.000000 s  given up by itself\n");
	gt_summary_free(f.s);
}

static void in_utf8(void **unused)
{
	gt_autofree char *text = NULL;
	struct feed f;

	(void)unused;
	in_locale("C.UTF-8");
	feed_open(&f);
	feed_burst(&f);
	feed_finish(&f);
	text = feed_text(f.s, 0);
	check_lines(text);
	assert_has(text, "  held     |\xe2\x96\x88                ");
	assert_has(text, "blank: never");
	gt_summary_free(f.s);
}

/* What shows at all is not drawn as nothing, and the middle is half as high. */
static void heights(void **unused)
{
	gt_autofree char *text = NULL;
	struct feed f;

	(void)unused;
	in_locale("C");
	feed_open(&f);
	feed_process(&f, 1, -1, "p", 60000);
	feed_hold(&f, 1, 0, 1, GT_FORCED_NO);
	feed_hold(&f, 1, 1000, 1500, GT_FORCED_NO);
	feed_hold(&f, 1, 2000, 2999, GT_FORCED_NO);
	/* Four wait in the fourth column, two in the fifth. */
	for (uint32_t tid = 2; tid < 6; tid++)
		feed_take(&f, tid, 3000, tid < 4 ? 5000 : 4000, 1);
	feed_end(&f, (struct gt_sink_end){0});
	feed_finish(&f);
	text = feed_text(f.s, 0);
	assert_has(text, "held     |159...");
	assert_has(text, "waiting  |...95...");
	assert_has(text, "4.00 threads waiting");
	gt_summary_free(f.s);
}

static void losses_are_told(void **unused)
{
	gt_autofree char *text = NULL, *brief = NULL;
	struct feed f;

	(void)unused;
	in_locale("C");
	feed_open(&f);
	feed_process(&f, 1, -1, "p", 60000);
	feed_hold(&f, 1, 0, 1000, GT_FORCED_NO);
	feed_gap(&f, 1500, 4000, 77);
	feed_span(&f, (struct gt_span){.tid = 1,
				       .kind = GT_SPAN_TAKE,
				       .open = GT_OPEN_FINALIZING,
				       .start_ns = 5000,
				       .end_ns = 60000});
	feed_span(&f, (struct gt_span){.tid = 1,
				       .kind = GT_SPAN_HOLD,
				       .open = GT_OPEN_UNKNOWN,
				       .start_ns = 4500,
				       .end_ns = 4500});
	feed_thread(&f, 1, "a", 57500, 100);
	feed_end(&f, (struct gt_sink_end){.lost = 80,
					  .gaps = 1,
					  .lost_ns = 2500,
					  .late_ns = 3000000,
					  .odd = 3,
					  .killed = 1,
					  .problem = "block 9 at byte 1234 is torn"});
	feed_finish(&f);
	text = feed_text(f.s, 0);
	check_lines(text);
	assert_has(text, "LOST: 80 events in 1 gap; 2.50 us (4.2%) of which nothing is known");
	assert_has(text, "recording began 3.00 ms late");
	assert_has(text, "an end of theirs was missed: waits 0, holds 1");
	assert_has(text, "threads that hung while the interpreter was ending: 1 (55.0 us)");
	assert_has(text, "sequences of events that should not be: 3");
	assert_has(text, "the recorder was killed");
	assert_has(text, "left out: block 9 at byte 1234 is torn");
	assert_has(text, "and 100 ns (0.2%) in which what it did is not known");
	assert_has(text, "  lost     | !!!     ");
	assert_has(text,
		   "!: events of that column were lost, or there is no record of a part of it; "
		   "?: of all\n");
	/* A column in the gap: nothing is known. */
	assert_has(text, "  held     |9.??....");
	brief = feed_text(f.s, 1);
	check_lines(brief);
	assert_has(brief, "LOST: 80 events in 1 gap");
	gt_summary_free(f.s);
}

static void doubt_is_told(void **unused)
{
	gt_autofree char *text = NULL, *brief = NULL;
	struct feed f;

	(void)unused;
	feed_open(&f);
	feed_process(&f, 1, -1, "p", 60000);
	feed_end(&f, (struct gt_sink_end){
			     .doubt = "a reason that takes more than one line: acquired while "
				      "holding 1000 times, released without holding 2000 times, "
				      "and so on, for a while",
		     });
	feed_finish(&f);
	text = feed_text(f.s, 0);
	check_lines(text);
	assert_has(text, "DO NOT TRUST THIS: GIL sites are missing: a reason");
	assert_has(text, "no take or release was seen");
	brief = feed_text(f.s, 1);
	assert_has(brief, "DO NOT TRUST THIS");
	gt_summary_free(f.s);
}

static void nothing(void **unused)
{
	gt_autofree char *text = NULL, *brief = NULL;
	struct feed f;

	(void)unused;
	feed_open(&f);
	feed_finish(&f);
	text = feed_text(f.s, 0);
	assert_has(text, "no process");
	brief = feed_text(f.s, 1);
	assert_string_equal(brief, "");
	gt_summary_free(f.s);
}

static void many_threads(void **unused)
{
	gt_autofree char *text = NULL, *brief = NULL;
	struct feed f;

	(void)unused;
	feed_open(&f);
	feed_process(&f, 1, -1, "p", 10000 * MS);
	for (uint32_t tid = 1; tid <= 300; tid++) {
		feed_take(&f, tid, 0, tid * MS, 1000);
		feed_hold(&f, tid, 1000 * MS + tid * MS, 1000 * MS + (tid + 1) * MS, GT_FORCED_NO);
		feed_thread(&f, tid, "worker", 10000 * MS, 0);
		feed_pair(&f, tid, 1000, tid * MS, 1);
	}
	feed_end(&f, (struct gt_sink_end){.threads = 300});
	feed_finish(&f);
	text = feed_text(f.s, 0);
	assert_true(check_lines(text) < 130);
	/* The one that waited longest first. */
	assert_has(text, "seen\n  worker 300      300 ms   3.0%");
	assert_has(text, "  worker 281  ");
	assert_has_not(text, "\n  worker 280  ");
	/* 1 + 2 + .. + 280 ms, and 1 ms each. */
	assert_has(text, "... and 280 more threads, together: waiting 39.3 s, holding 280 ms");
	assert_has(text, "... and 280 more threads, together: 280 takes, 280 contended");
	assert_has(text, "... and 285 more pairs, together 40.8 s");
	brief = feed_text(f.s, 1);
	assert_true(check_lines(brief) <= 6);
	assert_has(brief, "\n  worker 300: waited 3.0% of its time (300 ms), 100.0% of it for "
			  "thread 1000\n");
	assert_has(brief, "... and 297 more threads, together 44.3 s");
	gt_summary_free(f.s);
}

/* What is not known of the ends of a long hold is said, alone or behind how it ended. */
static void open_ends(void **unused)
{
	gt_autofree char *text = NULL;
	struct feed f;

	(void)unused;
	feed_open(&f);
	feed_process(&f, 1, -1, "p", 10 * MS);
	feed_span(&f, (struct gt_span){.kind = GT_SPAN_HOLD,
				       .tid = 1,
				       .start_ns = MS,
				       .end_ns = 3 * MS,
				       .open = GT_OPEN_START | GT_OPEN_EXIT});
	feed_hold(&f, 2, 4 * MS, 5 * MS, GT_FORCED_NO);
	feed_thread(&f, 1, "one", 3 * MS, 0);
	feed_thread(&f, 2, "two", 10 * MS, 0);
	feed_end(&f, (struct gt_sink_end){.threads = 2});
	feed_finish(&f);
	text = feed_text(f.s, 0);
	assert_has(text, "s  began before the recording, the thread ended in it\n");
	assert_has(text, "s  given up by itself\n");
	gt_summary_free(f.s);
}

/* With few pairs they stand there themselves. */
static void blockers_of_many(void **unused)
{
	(void)unused;
	in_locale("C");
	for (uint32_t blockers = 5; blockers <= 6; blockers++) {
		gt_autofree char *text = NULL;
		struct feed f;

		feed_open(&f);
		feed_process(&f, 1, -1, "p", 100 * MS);
		for (uint32_t i = 0; i < 3; i++) {
			feed_take(&f, 10 + i, 0, 100 * MS, 20);
			for (uint32_t k = 0; k < blockers - 1; k++)
				feed_pair(&f, 10 + i, 20 + k, (k + 1) * MS, 1);
			feed_pair(&f, 10 + i, GT_BLOCKER_NOBODY, 60 * MS, 1);
		}
		feed_end(&f, (struct gt_sink_end){.threads = 3});
		feed_finish(&f);
		text = feed_text(f.s, 0);
		check_lines(text);
		if (blockers == 5)
			assert_has_not(text, "for whom: all");
		else
			assert_has(text, "\n  for whom: all     time of all waits   threads\n"
					 "  (nobody)        180 ms        60.0%         3\n"
					 "  thread 24      15.0 ms         5.0%         3\n");
		gt_summary_free(f.s);
	}
}

/* However long the names are, and however much there is to say of a wait. */
static void open_ends_of_long_names(void **unused)
{
	const struct gt_span cut = {
		.kind = GT_SPAN_TAKE,
		.tid = 1,
		.start_ns = MS,
		.end_ns = 3 * MS,
		.open = GT_OPEN_START | GT_OPEN_EXIT,
		.wait = {.held_ns = 2 * MS, .blocker = 2, .blocker_ns = 2 * MS}};
	gt_autofree char *text = NULL;
	struct gt_span none = cut;
	struct feed f;

	(void)unused;
	in_locale("C");
	none.start_ns = none.end_ns = 4 * MS;
	none.wait = (struct gt_wait){0};
	feed_open(&f);
	feed_process(&f, 1, -1, "p", 10 * MS);
	feed_span(&f, cut);
	feed_span(&f, none);
	feed_thread(&f, 1, "a thread with a name as long as there are any", 3 * MS, 0);
	feed_thread(&f, 2, "another thread with a name as long as there are any", 9 * MS, 0);
	feed_end(&f, (struct gt_sink_end){.threads = 2});
	feed_finish(&f);
	text = feed_text(f.s, 0);
	check_lines(text);
	assert_has(text,
		   "s  100.0% for another thread with a name as l~\n"
		   "                                began before the recording, the thread ended "
		   "in it\n");
	assert_has(text, "   0 ns      0.004000 s  \n");
	gt_summary_free(f.s);
}

/* Several are behind the last index. */
static void gils_not_told_apart(void **unused)
{
	gt_autofree char *text = NULL;
	struct feed f;

	(void)unused;
	in_locale("C");
	feed_open(&f);
	feed_process(&f, 1, -1, "p", 60 * MS);
	feed_span(&f,
		  (struct gt_span){.kind = GT_SPAN_HOLD, .tid = 1, .gil = 3, .end_ns = 30 * MS});
	feed_span(&f, (struct gt_span){.kind = GT_SPAN_HOLD,
				       .tid = 2,
				       .gil = GIL_INDEX_OTHER,
				       .end_ns = 60 * MS});
	feed_end(&f, (struct gt_sink_end){.threads = 2});
	feed_finish(&f);
	text = feed_text(f.s, 0);
	check_lines(text);
	assert_has(text, "\n  held 3   |999");
	assert_has(text, "\n  held rest|999");
	assert_has(text, "\n  GILs beyond those told apart, together: held 100.0% of the time");
	gt_summary_free(f.s);
}

static void feed_ranks(struct feed *f, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		feed_process(f, 1000 + i, (int64_t)i, "GIL Trace: train.py (rank 99)", 1000 * MS);
		feed_take(f, 1000 + (uint32_t)i, 0, i * MS, 7);
		feed_thread(f, 1000 + (uint32_t)i, "MainThread", 1000 * MS, 0);
		feed_pair(f, 1000 + (uint32_t)i, 7, i * MS, 1);
		feed_end(f, (struct gt_sink_end){.lost = i == 5 ? 123 : 0,
						 .doubt = i == 6 ? "why" : NULL});
	}
}

static void ranks(void **unused)
{
	gt_autofree char *text = NULL, *brief = NULL;
	const char *first, *second;
	struct feed f;

	(void)unused;
	in_locale("C");
	feed_open(&f);
	feed_ranks(&f, 8);
	feed_finish(&f);
	text = feed_text(f.s, 0);
	check_lines(text);
	assert_has(text, "8 processes, slowest first");
	first = strstr(text, "\n     7     1007     0.7%     0.7%     0.01");
	second = strstr(text, "\n     0     1000     0.0%     0.0%     0.00");
	assert_true(first && second && first < second);
	assert_has(text, "      123  train.py\n");
	assert_has(text, "        0  train.py !\n");
	/* In detail in the same order. */
	first = strstr(text, "\ntrain.py (rank 99), pid 1007\n");
	second = strstr(text, "\ntrain.py (rank 99), pid 1000\n");
	assert_true(first && second && first < second);
	brief = feed_text(f.s, 1);
	assert_true(check_lines(brief) <= 8 + 4 + 2);
	assert_has(brief, "\n     7     1007     0.7%");
	/* Of the slowest two; the numbers of rank 6 are not to be trusted. */
	assert_has(brief, "\n  rank 7: MainThread 1007: waited 0.7% of its time, 100.0% of it for "
			  "thread 7\n  rank 5: MainThread 1005: waited 0.5% of its time, 100.0% of "
			  "it for thread 7\n");
	assert_has_not(brief, "MainThread 1004");
	gt_summary_free(f.s);
}

/* A rank by which none is found in the list is not said. */
static void same_ranks(void **unused)
{
	gt_autofree char *brief = NULL;
	struct feed f;

	(void)unused;
	in_locale("C");
	feed_open(&f);
	for (uint32_t i = 0; i < 4; i++) {
		feed_process(&f, 1000 + i, i < 2 ? -1 : 3, "a name", 1000 * MS);
		feed_take(&f, 1000 + i, 0, (i % 2 + 1) * MS, 0);
		feed_thread(&f, 1000 + i, "a thread with a name as long as there are any",
			    1000 * MS, 0);
		feed_pair(&f, 1000 + i, GT_BLOCKER_NOBODY, MS, 1);
		feed_end(&f, (struct gt_sink_end){0});
	}
	feed_finish(&f);
	brief = feed_text(f.s, 1);
	check_lines(brief);
	assert_has(brief,
		   "\n  pid 1001: a thread with a name as l~: waited 0.2% of its time, 50.0% "
		   "of it for (nobody)\n  pid 1003: a thread");
	assert_has_not(brief, "pid 1000:");
	assert_has_not(brief, "pid 1002:");
	gt_summary_free(f.s);
}

static void many_processes(void **unused)
{
	gt_autofree char *text = NULL, *brief = NULL;
	struct feed f;

	(void)unused;
	feed_open(&f);
	feed_ranks(&f, 200);
	feed_finish(&f);
	text = feed_text(f.s, 0);
	assert_true(check_lines(text) < 70 + 16 * 40);
	assert_has(text, "... and 136 more processes");
	assert_has(text, "... and 184 more processes in detail");
	brief = feed_text(f.s, 1);
	assert_int_equal(check_lines(brief), 20 + 4 + 2);
	assert_has(brief, "... and 180 more processes");
	gt_summary_free(f.s);
}

static void hostile_names(void **unused)
{
	static const char *const locales[] = {"C", "C.UTF-8"};
	char name[300];
	struct feed f;

	(void)unused;
	for (size_t i = 0; i < sizeof(name) - 1; i++)
		name[i] = (char)(1 + i % 255);
	name[sizeof(name) - 1] = '\0';
	feed_open(&f);
	for (int i = 0; i < 5; i++) {
		/* Also at the place where the name is divided. */
		memcpy(name + 20 * i, " (rank \033[2J\xe2\x80\xae\xe2\x80\xac", 17);
		feed_process(&f, 1, 0, name, 60000);
		for (uint32_t tid = 1; tid < 30; tid++) {
			feed_take(&f, tid, tid * 10, tid * 20, tid + 1);
			feed_hold(&f, tid, tid * 20, tid * 30, GT_FORCED_YES);
			feed_thread(&f, tid, name + tid, 60000, 1);
			feed_pair(&f, tid, tid + 1, tid * 10, 1);
		}
		feed_end(&f, (struct gt_sink_end){.doubt = name, .problem = name, .lost = 1});
	}
	feed_finish(&f);
	for (size_t i = 0; i < GT_ARRAY_SIZE(locales); i++) {
		gt_autofree char *text = NULL, *brief = NULL;

		in_locale(locales[i]);
		text = feed_text(f.s, 0);
		check_lines(text);
		brief = feed_text(f.s, 1);
		check_lines(brief);
		for (const char *c = text; *c && !i; c++)
			assert_true((unsigned char)*c < 0x80);
	}
	gt_summary_free(f.s);
}

/* Two processes of one pid have a number in their names. */
static void two_of_one_pid(void **unused)
{
	gt_autofree char *brief = NULL;
	struct feed f;

	(void)unused;
	feed_open(&f);
	feed_process(&f, 4194306, 0, "GIL Trace: train.py (rank 0), pid 17 (2)", 60000);
	feed_hold(&f, 1, 0, 1000, GT_FORCED_NO);
	feed_end(&f, (struct gt_sink_end){0});
	feed_finish(&f);
	brief = feed_text(f.s, 1);
	assert_has(brief, "train.py (rank 0), pid 17 (2): GIL held");
	assert_has_not(brief, "4194306");
	gt_summary_free(f.s);
}

static void full_disk(void **unused)
{
	FILE *full = fopen("/dev/full", "w");
	struct feed f;

	(void)unused;
	if (!full)
		skip();
	setvbuf(full, NULL, _IONBF, 0);
	feed_open(&f);
	feed_burst(&f);
	feed_finish(&f);
	assert_true(gt_summary_text(f.s, full, 0) < 0);
	assert_true(gt_summary_text(f.s, full, 1) < 0);
	fclose(full);
	gt_summary_free(f.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_text),
		cmocka_unit_test(in_utf8),
		cmocka_unit_test(heights),
		cmocka_unit_test(losses_are_told),
		cmocka_unit_test(doubt_is_told),
		cmocka_unit_test(nothing),
		cmocka_unit_test(many_threads),
		cmocka_unit_test(open_ends),
		cmocka_unit_test(ranks),
		cmocka_unit_test(same_ranks),
		cmocka_unit_test(many_processes),
		cmocka_unit_test(hostile_names),
		cmocka_unit_test(two_of_one_pid),
		cmocka_unit_test(full_disk),
		cmocka_unit_test(open_ends_of_long_names),
		cmocka_unit_test(blockers_of_many),
		cmocka_unit_test(gils_not_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
