// SPDX-License-Identifier: Apache-2.0
#include "sinkfix.h"

#include "filter.h"

static struct notes behind;
static struct gt_filter_stats stats;

static struct gt_sink *make(const struct gt_filter_opts *opts)
{
	struct gt_sink *s;

	stats = (struct gt_filter_stats){0};
	assert_int_equal(gt_filter_create(opts, notes_init(&behind), &stats, &s), 0);
	return s;
}

static void expect(struct gt_sink *s, const char *want)
{
	char all[1024];

	assert_int_equal(s->ops->finish(s), 0);
	snprintf(all, sizeof(all), "%sfinish\n", want);
	assert_string_equal(behind.text, all);
}

static void expect_left_out(enum gt_span_kind kind, uint64_t spans, uint64_t ns)
{
	assert_int_equal(stats.spans[kind], spans);
	assert_int_equal(stats.ns[kind], ns);
}

/* Three threads; the third has nothing but a drop without length. */
static void tell_some(struct gt_sink *s)
{
	assert_int_equal(tell_process_at(s, 7, 100, 900), 0);
	assert_int_equal(tell_span(s, "take 1 100-150.acquired"), 0);
	assert_int_equal(tell_span(s, "hold 1 150-400.forced"), 0);
	assert_int_equal(tell_span(s, "drop 1 400-400.forced"), 0);
	assert_int_equal(tell_span(s, "take 2 200-405.acquired.from 1 150-400"), 0);
	assert_int_equal(tell_gap(s, 500, 600), 0);
	assert_int_equal(tell_span(s, "drop 3 650-650"), 0);
	assert_int_equal(tell_span(s, "hold 2 405-700"), 0);
	assert_int_equal(tell_thread(s, 1, "one"), 0);
	assert_int_equal(tell_thread(s, 2, "two"), 0);
	assert_int_equal(tell_thread(s, 3, "three"), 0);
	assert_int_equal(tell_pair(s, 2, 1, 200), 0);
	assert_int_equal(tell_end(s, NULL), 0);
}

static void test_nothing_asked(void **state)
{
	const struct gt_filter_opts o = {0};
	struct gt_sink *s = make(&o);

	(void)state;
	assert_false(gt_filter_wanted(&o));
	tell_some(s);
	expect(s, "process 7 100-900\ntake 1 100-150.acquired\nhold 1 150-400.forced\n"
		  "drop 1 400-400.forced\ntake 2 200-405.acquired.from 1 150-400\nlost 500-600\n"
		  "drop 3 650-650\nhold 2 405-700\nthread 1 one\nthread 2 two\nthread 3 three\n"
		  "pair 2 1 200\nend 7\n");
	assert_int_equal(stats.threads + stats.gaps + stats.processes, 0);
	assert_int_equal(stats.let_through, 6);
}

/* What has no length is shorter than anything; its thread has then nothing to show. */
static void test_least_length(void **state)
{
	const struct gt_filter_opts o = {.min_ns = 205};
	struct gt_sink *s = make(&o);

	(void)state;
	assert_true(gt_filter_wanted(&o));
	tell_some(s);
	expect(s, "process 7 100-900\nhold 1 150-400.forced\n"
		  "take 2 200-405.acquired.from 1 150-400\nlost 500-600\nhold 2 405-700\n"
		  "thread 1 one\nthread 2 two\npair 2 1 200\nend 7\n");
	expect_left_out(GT_SPAN_TAKE, 1, 50);
	expect_left_out(GT_SPAN_HOLD, 0, 0);
	expect_left_out(GT_SPAN_DROP, 2, 0);
	assert_int_equal(stats.threads, 1);
}

/* Each of them fits, their sum does not. */
static void test_absurd_times(void **state)
{
	const struct gt_filter_opts o = {.min_ns = UINT64_MAX};
	struct gt_sink *s = make(&o);

	(void)state;
	assert_int_equal(tell_process_at(s, 7, 1, 900), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(tell_span(s, "hold 1 1-4611686018427387904"), 0);
	s->ops->finish(s);
	expect_left_out(GT_SPAN_HOLD, 5, UINT64_MAX);
}

/* The hold that it tells of is too short, so nobody may draw an arrow from it. */
static void test_arrow_from_what_is_left_out(void **state)
{
	static const uint32_t two = 2;
	static const struct gt_filter_opts cases[] = {
		{.min_ns = 21}, {.from_ns = 40}, {.tids = &two, .ntids = 1}};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(cases); i++) {
		struct gt_sink *s = make(&cases[i]);

		assert_int_equal(tell_process_at(s, 7, 1, 900), 0);
		assert_int_equal(tell_span(s, "take 2 10-50.acquired.from 1 20-40"), 0);
		s->ops->finish(s);
		assert_non_null(strstr(behind.text, "take 2 10-50.acquired\n"));
	}
}

/* Up to, not including; what has no length lies where it begins; whole slices. */
static void test_range(void **state)
{
	const struct gt_filter_opts o = {.from_ns = 400, .to_ns = 650};
	struct gt_sink *s = make(&o);

	(void)state;
	tell_some(s);
	expect(s,
	       "process 7 400-650\ndrop 1 400-400.forced\ntake 2 200-405.acquired\n"
	       "lost 500-600\nhold 2 405-700\nthread 1 one\nthread 2 two\npair 2 1 200\nend 7\n");
	expect_left_out(GT_SPAN_TAKE, 1, 50);
	expect_left_out(GT_SPAN_HOLD, 1, 250);
	expect_left_out(GT_SPAN_DROP, 1, 0);
}

static void test_range_is_open(void **state)
{
	const struct gt_filter_opts from = {.from_ns = 650}, to = {.to_ns = 101};
	struct gt_sink *s = make(&from);

	(void)state;
	tell_some(s);
	expect(s,
	       "process 7 650-900\ndrop 3 650-650\nhold 2 405-700\nthread 2 two\nthread 3 three\n"
	       "pair 2 1 200\nend 7\n");
	assert_int_equal(stats.gaps, 1);
	s = make(&to);
	tell_some(s);
	expect(s,
	       "process 7 100-101\ntake 1 100-150.acquired\nthread 1 one\npair 2 1 200\nend 7\n");
}

/* Cut, and what is cut off is counted; an acquire beyond the end is none. */
static void test_clip(void **state)
{
	const struct gt_filter_opts o = {.from_ns = 300, .to_ns = 404, .clip = 1};
	struct gt_sink *s = make(&o);

	(void)state;
	tell_some(s);
	expect(s, "process 7 300-404\nhold 1 300-400.forced.clipped\ndrop 1 400-400.forced\n"
		  "take 2 300-404.clipped\nthread 1 one\nthread 2 two\npair 2 1 200\nend 7\n");
	expect_left_out(GT_SPAN_TAKE, 1, 50 + 101);
	expect_left_out(GT_SPAN_HOLD, 1, 295 + 150);
}

/* An arrow's hold is cut as its slice is; and its length is judged before that. */
static void test_clip_keeps_arrows(void **state)
{
	const struct gt_filter_opts o = {.from_ns = 30, .min_ns = 20, .clip = 1};
	struct gt_sink *s = make(&o);

	(void)state;
	assert_int_equal(tell_process_at(s, 7, 1, 900), 0);
	assert_int_equal(tell_span(s, "take 2 25-50.acquired.from 1 20-40"), 0);
	assert_int_equal(tell_span(s, "hold 1 20-40"), 0);
	assert_int_equal(tell_gap(s, 10, 90), 0);
	expect(s, "process 7 30-900\ntake 2 30-50.acquired.from 1 30-40.clipped\n"
		  "hold 1 30-40.clipped\nlost 30-90\n");
}

static void test_threads(void **state)
{
	const uint32_t tids[] = {9, 2};
	const struct gt_filter_opts o = {.tids = tids, .ntids = 2};
	struct gt_sink *s = make(&o);

	(void)state;
	tell_some(s);
	expect(s, "process 7 100-900\ntake 2 200-405.acquired\nlost 500-600\nhold 2 405-700\n"
		  "thread 2 two\npair 2 1 200\nend 7\n");
	assert_int_equal(stats.threads, 2);
	expect_left_out(GT_SPAN_DROP, 2, 0);
}

/* What is marked: each of three threads, of which the last has no slice, and the process. */
static void tell_marks(struct gt_sink *s)
{
	assert_int_equal(tell_process_at(s, 7, 100, 900), 0);
	assert_int_equal(tell_span(s, "hold 1 150-400"), 0);
	assert_int_equal(tell_mark(s, 1, 200, "a"), 0);
	assert_int_equal(tell_mark(s, 2, 300, "b"), 0);
	assert_int_equal(tell_mark(s, 3, 300, "c"), 0);
	assert_int_equal(tell_mark(s, 0, 400, "d"), 0);
	assert_int_equal(tell_pause(s, 500, 600), 0);
	assert_int_equal(tell_mark(s, 0, 200, "e"), 0);
	assert_int_equal(tell_thread(s, 1, "one"), 0);
	assert_int_equal(tell_thread(s, 2, "two"), 0);
	assert_int_equal(tell_thread(s, 3, "three"), 0);
}

/* They have no length to be judged by, lie in the range or not, and give their threads rows. */
static void test_marks(void **state)
{
	static const uint32_t two = 2, eight = 8;
	static const struct {
		struct gt_filter_opts o;
		uint64_t left_out;
		const char *want;
	} cases[] = {
		{{.min_ns = 300},
		 0,
		 "process 7 100-900\nmark 1 200 a\nmark 2 300 b\nmark 3 300 c\nmark 0 400 d\n"
		 "paused 500-600\nmark 0 200 e\nthread 1 one\nthread 2 two\nthread 3 three\n"},
		{{.from_ns = 300, .to_ns = 400, .clip = 1},
		 3,
		 "process 7 300-400\nhold 1 300-400.clipped\nmark 2 300 b\nmark 3 300 c\n"
		 "thread 1 one\nthread 2 two\nthread 3 three\n"},
		{{.from_ns = 400, .to_ns = 550, .clip = 1},
		 4,
		 "process 7 400-550\nmark 0 400 d\npaused 500-550\n"},
		{{.tids = &two, .ntids = 1},
		 2,
		 "process 7 100-900\nmark 2 300 b\nmark 0 400 d\npaused 500-600\n"
		 "mark 0 200 e\nthread 2 two\n"},
		{{.pids = &eight, .npids = 1}, 5, ""},
	};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(cases); i++) {
		struct gt_sink *s = make(&cases[i].o);

		tell_marks(s);
		expect(s, cases[i].want);
		assert_int_equal(stats.marks, cases[i].left_out);
		assert_int_equal(stats.gaps, i == 1 || i == 4);
	}
}

/* A sink behind it that does not care for marks. */
static void test_marks_for_nobody(void **state)
{
	static const struct gt_sink_ops few = {.process = notes_process,
					       .span = notes_span,
					       .gap = notes_gap,
					       .finish = notes_finish};
	const struct gt_filter_opts o = {.min_ns = 1};
	struct gt_sink *s = make(&o);

	(void)state;
	behind.sink.ops = &few;
	tell_marks(s);
	expect(s, "process 7 100-900\nhold 1 150-400\npaused 500-600\n");
}

static void test_processes(void **state)
{
	const uint32_t pids[] = {8};
	const struct gt_filter_opts o = {.pids = pids, .npids = 1};
	struct gt_sink *s = make(&o);

	(void)state;
	tell_some(s);
	assert_int_equal(tell_process_at(s, 8, 100, 900), 0);
	assert_int_equal(tell_span(s, "hold 1 100-110"), 0);
	assert_int_equal(tell_thread(s, 1, "one"), 0);
	assert_int_equal(tell_end(s, NULL), 0);
	expect(s, "process 8 100-900\nhold 1 100-110\nthread 1 one\nend 7\n");
	assert_int_equal(stats.processes, 1);
	assert_int_equal(stats.threads, 3);
	assert_int_equal(stats.gaps, 1);
	expect_left_out(GT_SPAN_HOLD, 2, 250 + 295);
}

/* The process is there still, and nothing that is told of it lies out of the range. */
static void test_nothing_in_range(void **state)
{
	const struct gt_filter_opts after = {.from_ns = 950}, before = {.to_ns = 50};
	struct gt_sink *s = make(&after);

	(void)state;
	tell_some(s);
	expect(s, "process 7 950-950\npair 2 1 200\nend 7\n");
	assert_int_equal(stats.processes, 0);
	assert_int_equal(stats.threads, 3);
	assert_int_equal(stats.let_through, 0);
	s = make(&before);
	tell_some(s);
	expect(s, "process 7 50-50\npair 2 1 200\nend 7\n");
}

/* A thread's slices in one process do not make it drawn in the next. */
static void test_threads_of_each_process(void **state)
{
	const struct gt_filter_opts o = {.min_ns = 10};
	struct gt_sink *s = make(&o);

	(void)state;
	assert_int_equal(tell_process_at(s, 7, 1, 900), 0);
	assert_int_equal(tell_span(s, "hold 1 100-110"), 0);
	assert_int_equal(tell_thread(s, 1, "one"), 0);
	assert_int_equal(tell_process_at(s, 8, 1, 900), 0);
	assert_int_equal(tell_span(s, "hold 1 100-109"), 0);
	assert_int_equal(tell_thread(s, 1, "one"), 0);
	expect(s, "process 7 1-900\nhold 1 100-110\nthread 1 one\nprocess 8 1-900\n");
}

static void test_errors_come_back(void **state)
{
	const struct gt_filter_opts o = {.min_ns = 1};
	struct gt_sink *s = make(&o);

	(void)state;
	behind.fail_at = 2;
	assert_int_equal(tell_process_at(s, 7, 1, 900), 0);
	assert_int_equal(tell_span(s, "hold 1 100-100"), 0);
	assert_int_equal(tell_span(s, "hold 1 100-110"), -ENOSPC);
	assert_int_equal(s->ops->finish(s), -ENOSPC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_asked),
		cmocka_unit_test(test_least_length),
		cmocka_unit_test(test_absurd_times),
		cmocka_unit_test(test_arrow_from_what_is_left_out),
		cmocka_unit_test(test_range),
		cmocka_unit_test(test_range_is_open),
		cmocka_unit_test(test_clip),
		cmocka_unit_test(test_clip_keeps_arrows),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_marks),
		cmocka_unit_test(test_marks_for_nobody),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_nothing_in_range),
		cmocka_unit_test(test_threads_of_each_process),
		cmocka_unit_test(test_errors_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
