// SPDX-License-Identifier: Apache-2.0
#include "sinkfix.h"

#include "tee.h"

static void tell_all(struct gt_sink *s)
{
	assert_int_equal(tell_process_at(s, 7, 10, 90), 0);
	assert_int_equal(tell_span(s, "hold 1 10-20"), 0);
	assert_int_equal(tell_gap(s, 30, 40), 0);
	assert_int_equal(tell_pause(s, 50, 60), 0);
	assert_int_equal(tell_mark(s, 1, 45, "step"), 0);
	assert_int_equal(tell_thread(s, 1, "main"), 0);
	assert_int_equal(tell_pair(s, 1, 2, 5), 0);
	assert_int_equal(tell_end(s, NULL), 0);
}

static const char all[] = "process 7 10-90\nhold 1 10-20\nlost 30-40\npaused 50-60\n"
			  "mark 1 45 step\nthread 1 main\npair 1 2 5\nend 7\nfinish\n";

static void test_hands_on(void **state)
{
	struct notes a, b;
	struct gt_sink *const sinks[] = {notes_init(&a), notes_init(&b)};
	struct gt_sink *tee;

	(void)state;
	assert_int_equal(gt_tee_create(sinks, 2, NULL, &tee), 0);
	tell_all(tee);
	assert_int_equal(tee->ops->finish(tee), 0);
	assert_string_equal(a.text, all);
	assert_string_equal(b.text, all);
}

/* mark, thread, pair and end may be NULL. */
static void test_optional_calls(void **state)
{
	static const struct gt_sink_ops few = {.process = notes_process,
					       .span = notes_span,
					       .gap = notes_gap,
					       .finish = notes_finish};
	struct notes a, b;
	struct gt_sink *const sinks[] = {notes_init(&a), notes_init(&b)};
	struct gt_sink *tee;

	(void)state;
	a.sink.ops = &few;
	assert_int_equal(gt_tee_create(sinks, 2, NULL, &tee), 0);
	tell_all(tee);
	assert_int_equal(tee->ops->finish(tee), 0);
	assert_string_equal(a.text,
			    "process 7 10-90\nhold 1 10-20\nlost 30-40\npaused 50-60\nfinish\n");
	assert_string_equal(b.text, all);
}

/* One that fails is left alone, and the other has everything. */
static void test_one_fails(void **state)
{
	struct notes a, b;
	struct gt_sink *const sinks[] = {notes_init(&a), notes_init(&b)};
	struct gt_sink *tee;
	int errors[2] = {1, 1};

	(void)state;
	a.fail_at = 2;
	assert_int_equal(gt_tee_create(sinks, 2, errors, &tee), 0);
	tell_all(tee);
	assert_int_equal(tee->ops->finish(tee), -ENOSPC);
	assert_string_equal(a.text, "process 7 10-90\n");
	assert_true(a.finished);
	assert_string_equal(b.text, all);
	assert_int_equal(errors[0], -ENOSPC);
	assert_int_equal(errors[1], 0);
}

static void test_all_fail(void **state)
{
	struct notes a, b;
	struct gt_sink *const sinks[] = {notes_init(&a), notes_init(&b)};
	struct gt_sink *tee;

	(void)state;
	a.fail_at = 1;
	b.fail_at = 2;
	assert_int_equal(gt_tee_create(sinks, 2, NULL, &tee), 0);
	assert_int_equal(tell_process_at(tee, 7, 10, 90), 0);
	assert_int_equal(tell_span(tee, "hold 1 10-20"), -ENOSPC);
	assert_int_equal(tee->ops->finish(tee), -ENOSPC);
	assert_true(a.finished && b.finished);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hands_on),
		cmocka_unit_test(test_optional_calls),
		cmocka_unit_test(test_one_fails),
		cmocka_unit_test(test_all_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
