// SPDX-License-Identifier: Apache-2.0
/* The state machine: events of threads that are seen from their beginning. */
#include "playfix.h"

static void test_uncontended(void **state)
{
	struct gt_timeline_stats st;

	(void)state;
	st = expect("A1@110 R1@120 A1@130 R1@150", "hold1 110-120, drop1 120-120, hold1 130-150, "
						   "drop1 150-150");
	assert_int_equal(st.events, 4);
	assert_int_equal(st.spans[GT_SPAN_HOLD], 2);
	assert_int_equal(st.spans[GT_SPAN_DROP], 2);
	assert_int_equal(st.threads, 1);
	assert_int_equal(st.gils, 1);
	expect_even("", "");
}

static void test_wait(void **state)
{
	(void)state;
	/* the time-outs of one wait are one wait */
	expect_even("A1@110 W2@120 W2@125 W2@130 R1@140 A2@145 R2@150",
		    "take2 120-145, hold1 110-140, drop1 140-140, hold2 145-150, drop2 150-150");
	expect_even("A1@110 T2@115 W2@120 R1@140 A2@145 R2@150",
		    "take2 115-145, hold1 110-140, drop1 140-140, hold2 145-150, drop2 150-150");
}

static void test_forced(void **state)
{
	(void)state;
	/* the yield ends when another thread acquires that GIL */
	expect_even("A1@110 W2@120 R1@140 Y1@141 A2@145 W1@147 R2@150 A1@151 R1@160",
		    "take2 120-145, hold1 110-140+forced, drop1 140-145+forced, take1 147-151, "
		    "hold1 151-160, drop1 160-160, hold2 145-150, drop2 150-150");
	/* .. or with its own next event; another GIL's acquire does not end it */
	expect_even("A1@110 R1@140 Y1@141 A2.1@145 W1@147 A1@150 R1@160 R2.1@170",
		    "hold1 110-140+forced, drop1 140-147+forced, take1 147-150, hold1 150-160, "
		    "drop1 160-160, hold2.1 145-170, drop2.1 170-170");
	/* .. or with the recording */
	expect_even("A1@110 R1@140 Y1@141", "hold1 110-140+forced, drop1 140-1000+forced+end");
	/* the other was quicker */
	expect_even("A1@110 R1@140 A2@141 Y1@142 R2@150",
		    "hold1 110-140+forced, drop1 140-142+forced, hold2 141-150, drop2 150-150");
	/* where several GILs share an index, only its own next event can end it */
	expect_even("A1.255@110 R1.255@140 Y1.255@141 A2.255@145 R2.255@146 A1.255@150 R1.255@160",
		    "hold1.255 110-140+forced, drop1.255 140-150+forced, hold1.255 150-160, "
		    "drop1.255 160-160, hold2.255 145-146, drop2.255 146-146");
}

static void test_functions(void **state)
{
	(void)state;
	expect_even("T1@110 A1@112 T2@120 R1@140 A2@142 D1@146 R2@150 D2@151",
		    "take1 110-112, take2 120-142, hold1 112-140, drop1 140-146, hold2 142-150, "
		    "drop2 150-151");
	/* in drop_gil, holding, and in take_gil when the recording ends */
	expect_even("T1@110 A1@112 R1@120 D1@121 T1@122 A1@123 T3@130 R1@140 T2@145 A2@150",
		    "take1 110-112, hold1 112-120, drop1 120-121, take1 122-123, take2 145-150, "
		    "hold1 123-140, drop1 140-1000+end, take3 130-1000+end, hold2 150-1000+end");
	/* in drop_gil, holding, and in take_gil when it begins */
	expect_even("D1@105 R2@110 D2@111 R3@120 D3@121",
		    "drop1 100-105+start, hold2 100-110+start, drop2 110-111, "
		    "hold3 110-120+start, drop3 120-121");
	/* take_gil gave up, as in a free-threaded build whose GIL is off: nothing has a length */
	expect_odd("T1@110 T1@120 T1@130 A1@131 R1@140",
		   "take1 110-110+unknown, take1 120-120+unknown, take1 130-131, hold1 131-140, "
		   "drop1 140-140",
		   GT_ODD_WAIT_ENDLESS, 2);
	expect_odd("A1@110 R1@120 D1@121 A1@130 R1@140 W1@150",
		   "hold1 110-120, drop1 120-121, hold1 130-140, drop1 140-140+unknown, "
		   "take1 150-1000+end",
		   GT_ODD_KINDS, 0);
	expect_odd("A1@110 D1@120", "hold1 110-110+unknown", GT_ODD_YIELD_IDLE, 1);
}

static void test_missed(void **state)
{
	(void)state;
	expect_odd("A1@110 A1@120 R1@130", "hold1 110-110+unknown, hold1 120-130, drop1 130-130",
		   GT_ODD_ACQUIRE_HOLDING, 1);
	expect_odd("A1@110 A2@120 R2@130", "hold1 110-110+unknown, hold2 120-130, drop2 130-130",
		   GT_ODD_ACQUIRE_HELD, 1);
	expect_odd("A1@110 W1@120 A1@130 R1@140",
		   "hold1 110-110+unknown, take1 120-130, hold1 130-140, drop1 140-140",
		   GT_ODD_WAIT_HOLDING, 1);
	expect_odd("A1@110 R1@120 R1@130", "hold1 110-120, drop1 120-120, drop1 130-130",
		   GT_ODD_RELEASE_IDLE, 1);
	expect_odd("W1@110 R1@120", "take1 110-110+unknown, drop1 120-120", GT_ODD_RELEASE_IDLE, 1);
	/* it held until the second release at least, so nobody else did */
	expect_odd(
		"A1@110 R1@120 R1@130 R2@140",
		"hold1 110-120, drop1 120-120, drop1 130-130, hold2 130-140+start, drop2 140-140",
		GT_ODD_RELEASE_IDLE, 1);
	/* a yield tells that the hold has just ended */
	expect_odd("A1@110 Y1@120 A2@125 R2@130",
		   "hold1 110-120+forced, drop1 120-125+forced, hold2 125-130, drop2 130-130",
		   GT_ODD_YIELD_IDLE, 1);
	/* the release that was thought missing comes late: no hold beside the new holder's */
	expect("A1@110 A2@120 R1@130 R2@140",
	       "hold1 110-110+unknown, drop1 130-130, hold2 120-140, drop2 140-140");
	/* nor a hold in the time in which the one before may have lasted */
	expect_odd("A1@110 W1@130 R2@150",
		   "hold1 110-110+unknown, take1 130-1000+end, hold2 130-150+start, drop2 150-150",
		   GT_ODD_WAIT_HOLDING, 1);
	expect_odd("A1@110 R1@105", "hold1 110-110, drop1 110-110", GT_ODD_ORDER, 1);
}

static void test_several_gils(void **state)
{
	struct gt_timeline_stats st;

	(void)state;
	st = expect("A1@110 A2.1@115 R1@120 R2.1@125",
		    "hold1 110-120, drop1 120-120, hold2.1 115-125, drop2.1 125-125");
	assert_int_equal(st.gils, 2);
	/* PyThreadState_Swap: one thread, one GIL after the other */
	expect_even("A1@110 R1@120 A1.1@121 R1.1@130",
		    "hold1 110-120, drop1 120-120, hold1.1 121-130, drop1.1 130-130");
	expect_odd("A1@110 A1.1@120 R1.1@130",
		   "hold1 110-110+unknown, hold1.1 120-130, drop1.1 130-130",
		   GT_ODD_ACQUIRE_HOLDING, 1);
	expect_odd("G1@100 A1@110 R1.1@120 R1@130", "hold1 110-130, drop1 130-130",
		   GT_ODD_RELEASE_IDLE, 1);
	expect_odd("G1@100 A1@110 Y1.1@120 R1@130", "hold1 110-130, drop1 130-130",
		   GT_ODD_YIELD_IDLE, 1);
	expect_odd("W1@110 A1.1@120 R1.1@130",
		   "take1 110-110+unknown, hold1.1 120-130, drop1.1 130-130", GT_ODD_WAIT_ENDLESS,
		   1);
	/* beyond those told apart: several threads may hold at once */
	expect_even("A1.255@110 A2.255@120 R1.255@130 R2.255@140",
		    "hold1.255 110-130, drop1.255 130-130, hold2.255 120-140, drop2.255 140-140");
}

static void test_unconfirmed(void **state)
{
	struct gt_timeline_stats st;

	(void)state;
	/* confirmed by an event, by its own thread, or by a second GIL record */
	expect_even(
		"g0@120 R1@120 Y1@121 A2@125 R2@130",
		"hold1 100-120+forced+start, drop1 120-125+forced, hold2 125-130, drop2 130-130");
	expect_even("g0@120 R1@120 W1@125",
		    "hold1 100-120+start, drop1 120-120, take1 125-1000+end");
	expect_even("g0@120 R1@120 G0@122", "hold1 100-120+start, drop1 120-120");
	/* never confirmed: another library's condition variable */
	st = expect("G0@100 g1@120 R1.1@120 R1.1@130 Y2.1@131 R1@140", "hold1 100-140+start, "
								       "drop1 140-140");
	assert_int_equal(st.unconfirmed, 3);
	assert_int_equal(st.gils, 1);
	/* the thread has gone on before it is confirmed */
	expect_even("g1@120 R1.1@120 A1@130 R1@140 A2.1@150 R2.1@160",
		    "hold1 130-140, drop1 140-140, hold2.1 150-160, drop2.1 160-160");
	expect_even("g1@120 R1.1@120 A1@130 A2.1@135 R2.1@136 R1@140",
		    "hold1.1 100-120+start, drop1.1 120-120, hold1 130-140, drop1 140-140, hold2.1 "
		    "135-136, drop2.1 136-136");
	expect_even("A1@110 g1@120 R1.1@120 A2.1@135 R2.1@136 R1@140",
		    "hold1 110-140, drop1 140-140, hold2.1 135-136, drop2.1 136-136");
	st = expect("g1@120 R1.1@120 A1@120 R1@120 W1@120 A2.1@130",
		    "hold1 120-120, drop1 120-120, take1 120-1000+end, hold2.1 130-1000+end");
	assert_int_equal(st.unconfirmed, 1);
	/* events were lost before it is confirmed */
	expect_even("g0@120 R1@120 L150-200 A1@210",
		    "lost 150-200, hold1 100-120+start, drop1 120-120, hold1 210-1000+end");
	/* no GIL record at all; where several share an index, there never is one */
	st = expect("R1@120 A1@130 R1@140 R2.255@145 A3.255@150",
		    "hold1 100-120+start, drop1 120-120, hold1 130-140, drop1 140-140, "
		    "hold3.255 150-1000+end");
	assert_int_equal(st.unconfirmed, 1);
	/* a confirmed one stays so */
	expect_even("G0@110 g0@120 R1@130", "hold1 100-130+start, drop1 130-130");
}

static void test_forced_told(void **state)
{
	struct gt_timeline_stats st;

	(void)state;
	opts.forced_told = 1;
	/* the last one: a yield tells it, where the record does not; a hold that is open does not
	 */
	st = expect(
		"A1@110 R1@120 A1@130 F1@140 A2@141 R2@150 Y2@151 A1@160",
		"hold1 110-120+voluntary, drop1 120-120+voluntary, hold1 130-140+forced, drop1 "
		"140-140+forced, hold2 141-150+forced, drop2 150-160+forced, hold1 160-1000+end");
	assert_int_equal(st.releases[GT_FORCED_YES], 2);
	assert_int_equal(st.releases[GT_FORCED_NO], 1);
	assert_int_equal(st.releases[GT_FORCED_UNKNOWN], 0);
	/* of GILs that are confirmed later */
	expect_even("g0@120 F1@120 G0@122", "hold1 100-120+forced+start, drop1 120-120+forced");
	expect_even("g0@120 R1@120 L150-200 A1@210",
		    "lost 150-200, hold1 100-120+voluntary+start, drop1 120-120+voluntary, "
		    "hold1 210-1000+end");
	expect_even("g0@120 F1@120 L150-200 A1@210",
		    "lost 150-200, hold1 100-120+forced+start, drop1 120-120+forced, "
		    "hold1 210-1000+end");
	expect_even("g0@120 R1@120 Y1@121 L150-200 A1@210",
		    "lost 150-200, hold1 100-120+forced+start, drop1 120-120+forced, "
		    "hold1 210-1000+end");
	/* function mode shows itself */
	st = expect("T1@110 A1@111 R1@120 D1@121", "take1 110-111, hold1 111-120, drop1 120-121");
	assert_int_equal(st.releases[GT_FORCED_UNKNOWN], 1);
}

/* Free-threaded: the GIL is switched off, and those that waited for it go on. */
static void test_left(void **state)
{
	struct gt_timeline_stats st;

	(void)state;
	st = expect("A1@110 W2@120 R1@130 l2@131 l3@132 W3@140",
		    "take2 120-131, hold1 110-130, drop1 130-130, take3 140-1000+end");
	assert_int_equal(st.events, 4);
	expect_even("G0@100 w2@100 l2@131", "take2 100-131+start");
	/* it did not hold before, and others than the one that ended live on */
	expect_even("h2@100 l2@110 A1@120", "hold1 120-1000+end");
	expect_even("A1@110 W2@120 E2@125 l3@130", "take2 120-125+finalizing, hold1 110-1000+end");
	/* once told of, its first release is odd: it did not hold since before */
	expect_odd("A1@110 R1@115 l2@120 R2@130", "hold1 110-115, drop1 115-115, drop2 130-130",
		   GT_ODD_RELEASE_IDLE, 1);
}

static uint64_t shift(const void *ctx, uint64_t mono_ns)
{
	return mono_ns + *(const uint64_t *)ctx;
}

static void test_names(void **state)
{
	struct recorder r = {.sink = {&recorder_ops}};
	struct gil_event ev = {.kind = GIL_THREAD, .tid = 9, .thread = {.comm = "python3"}};
	struct gt_timeline *tl;

	(void)state;
	assert_int_equal(gt_timeline_create(&r.sink, &opts, &tl), 0);
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	memcpy(ev.thread.comm, "worker-9", 9);
	ev.thread.name = "loader";
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	ev.thread.name = NULL; /* says nothing */
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	ev.tid = 5; /* another thread with the same id: its name is not known */
	ev.thread.name = "first";
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	ev.kind = GIL_EXIT;
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	ev.kind = GIL_THREAD;
	ev.thread.name = NULL;
	memcpy(ev.thread.comm, "second", 7);
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	ev = (struct gil_event){.kind = GIL_ACQUIRE, .tid = 7, .mono_ns = 110};
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	ev.kind = 15;
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	assert_int_equal(gt_timeline_finish(tl, END_NS), 0);
	assert_string_equal(r.labels.s,
			    "5=second 5=second, 7=thread 7=, 9=loader (worker-9) 9=loader");
	assert_int_equal(gt_timeline_stats(tl)->odd[GT_ODD_KIND], 1);
	gt_timeline_free(tl);
}

/* Marks are handed on, and change nothing, wherever they stand. */
static void test_marks(void **state)
{
	struct gt_timeline_stats st;
	struct recorder r;

	(void)state;
	st = expect("A1@110 M1@115 M0@116 W2@117 R1@120",
		    "mark1 115, mark0 116, hold1 110-120, drop1 120-120, take2 117-1000+end");
	assert_int_equal(st.marks, 2);
	assert_int_equal(st.events, 3);
	assert_int_equal(st.threads, 2);
	/* beside its place; in what is held back; at the time of an event */
	expect_even("M1@115 A1@110 F1@120 M1@130 Y1@121 A2@125 M2@125",
		    "mark1 115, mark1 130, hold1 110-120+forced, drop1 120-125+forced, mark2 125, "
		    "hold2 125-1000+end");
	/* it is no event of its thread: the release is the first, .. */
	expect_even("G0@100 M1@105 R1@120", "mark1 105, hold1 100-120+start, drop1 120-120");
	/* .. its time is no time of an event, .. */
	expect_even("M1@900 A1@110 R1@120", "mark1 900, hold1 110-120, drop1 120-120");
	/* .. others do not go on by it, .. */
	expect_even("A2@110 W1@120 E1@130 M2@130 E2@131",
		    "mark2 130, hold2 110-131+exit, take1 120-130+exit");
	/* .. and the thread that has ended does not begin again. */
	expect_even("A1@110 R1@120 E1@130 M1@131 A1@140",
		    "hold1 110-120, drop1 120-120, mark1 131, hold1 140-1000+end");
	/* inside a pause and a loss */
	expect_even("A1@110 P150-200 M1@170 L250-300 M0@270",
		    "hold1 110-150+paused, paused 150-200, mark1 170, lost 250-300, mark0 270");
	/* a thread that has done nothing else has a row, and was not seen */
	st = play("M7@120", &r);
	assert_string_equal(r.labels.s, "7=thread 7=");
	assert_string_equal(r.seen.s, "7: not seen");
	assert_int_equal(st.threads, 1);
	/* brought into the recording, whose end may not be known */
	expect_even("M1@50 M1@2000", "mark1 100, mark1 2000");
	opts.end_mono_ns = END_NS;
	expect_even("M1@50 M1@18446744073709551615", "mark1 100, mark1 1000");
	opts.end_mono_ns = 50; /* absurd */
	expect_even("M1@500", "mark1 100");
}

/* A mark's error is the timeline's, and a sink need not care for marks. */
static int refuse_mark(struct gt_sink *sink, const struct gt_mark *mark)
{
	(void)sink;
	(void)mark;
	return -ENOSPC;
}

static void test_sinks_of_marks(void **state)
{
	const struct gil_event ev = {
		.kind = GIL_MARK, .tid = 1, .mono_ns = 110, .mark = {.name = "name"}};
	struct gt_sink_ops ops = recorder_ops;
	struct recorder r = {.sink = {&ops}};
	struct gt_timeline *tl;

	(void)state;
	assert_int_equal(gt_timeline_create(&r.sink, &opts, &tl), 0);
	ops.mark = NULL;
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	ops.mark = refuse_mark;
	assert_int_equal(gt_timeline_event(tl, &ev), -ENOSPC);
	assert_int_equal(gt_timeline_finish(tl, END_NS), -ENOSPC);
	gt_timeline_free(tl);
}

/* Many threads, all waiting: nothing is mixed up while the tables grow. */
static void test_many_threads(void **state)
{
	struct recorder r = {.sink = {&recorder_ops}, .fail_at = 20001};
	struct gt_timeline *tl;

	(void)state;
	assert_int_equal(gt_timeline_create(&r.sink, &opts, &tl), 0);
	for (uint32_t i = 0; i < 20000; i++) {
		struct gil_event ev = {.kind = GIL_WAIT, .tid = i * 4096, .mono_ns = 110};

		assert_int_equal(gt_timeline_event(tl, &ev), 0);
	}
	assert_int_equal(gt_timeline_stats(tl)->threads, 20000);
	for (uint32_t i = 0; i < 20000; i++) {
		struct gil_event ev = {.kind = GIL_ACQUIRE, .tid = i * 4096, .mono_ns = 120 + i};

		r.slices.len = r.waits.len = 0;
		assert_int_equal(gt_timeline_event(tl, &ev), i < 10000 ? 0 : -ENOSPC);
		if (i == 10000)
			break;
	}
	assert_int_equal(gt_timeline_finish(tl, END_NS), -ENOSPC);
	gt_timeline_free(tl);
}

static void test_clock(void **state)
{
	struct recorder r = {.sink = {&recorder_ops}};
	const uint64_t offset = 1000;
	struct gil_event ev = {.kind = GIL_GIL, .mono_ns = 100};
	struct gt_timeline *tl;

	(void)state;
	opts.unix_ns = shift;
	opts.ctx = &offset;
	assert_int_equal(gt_timeline_create(&r.sink, &opts, &tl), 0);
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	ev = (struct gil_event){.kind = GIL_RELEASE, .tid = 1, .mono_ns = 110};
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	ev = (struct gil_event){.kind = GIL_LOST, .mono_ns = 130};
	ev.lost.begin_mono_ns = 120;
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	assert_int_equal(gt_timeline_finish(tl, END_NS), 0);
	assert_string_equal(r.slices.s, "hold1 1100-1110+start, drop1 1110-1110, lost 1120-1130");
	gt_timeline_free(tl);
	opts.unix_ns = NULL;
	/* beyond all clocks: two takes at one time are still told apart */
	expect_even("A1@18446744073709551615 R1@18446744073709551615 A1@18446744073709551615 "
		    "R1@18446744073709551615",
		    "hold1 4611686018427387903-4611686018427387903, "
		    "drop1 4611686018427387903-4611686018427387903, "
		    "hold1 4611686018427387904-4611686018427387904, "
		    "drop1 4611686018427387904-4611686018427387904");
	/* two takes at one time, by a coarse clock */
	expect_even("A1@110 R1@110 A1@110 R1@120",
		    "hold1 110-110, drop1 110-110, hold1 111-120, drop1 120-120");
	/* time that runs differently for two threads: still one holder at a time */
	expect_even("A1@110 R1@120 A2@115 R2@130",
		    "hold1 110-120, drop1 120-120, hold2 120-130, drop2 130-130");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_uncontended, setup),
		cmocka_unit_test_setup(test_wait, setup),
		cmocka_unit_test_setup(test_forced, setup),
		cmocka_unit_test_setup(test_functions, setup),
		cmocka_unit_test_setup(test_missed, setup),
		cmocka_unit_test_setup(test_several_gils, setup),
		cmocka_unit_test_setup(test_unconfirmed, setup),
		cmocka_unit_test_setup(test_forced_told, setup),
		cmocka_unit_test_setup(test_left, setup),
		cmocka_unit_test_setup(test_names, setup),
		cmocka_unit_test_setup(test_marks, setup),
		cmocka_unit_test_setup(test_sinks_of_marks, setup),
		cmocka_unit_test_setup(test_many_threads, setup),
		cmocka_unit_test_setup(test_clock, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
