// SPDX-License-Identifier: Apache-2.0
/* Beginnings and ends: of the recording, of threads, and of what is known, by lost events. */
#include "playfix.h"

static void test_open_start(void **state)
{
	(void)state;
	expect_even("R1@120 A2@125 R2@130",
		    "hold1 100-120+start, drop1 120-120, hold2 125-130, drop2 130-130");
	/* not before another thread's release */
	expect_even("A1@110 R1@120 R2@130",
		    "hold1 110-120, drop1 120-120, hold2 120-130+start, drop2 130-130");
	/* never while another holds */
	expect_odd("A1@110 R2@120 R1@130", "hold1 110-130, drop1 130-130, drop2 120-120",
		   GT_ODD_RELEASE_IDLE, 1);
	/* another GIL does not matter */
	expect_even("G1@100 A1@110 R2.1@120 R1@130",
		    "hold1 110-130, drop1 130-130, hold2.1 100-120+start, drop2.1 120-120");
	/* yielding at the start */
	expect_even("G0@100 Y1@105 A2@110 R2@120",
		    "drop1 105-110+forced+start, hold2 110-120, drop2 120-120");
}

static void test_open_end(void **state)
{
	(void)state;
	expect_even("A1@110 W2@120", "hold1 110-1000+end, take2 120-1000+end");
	expect_even("A1@1100", "hold1 1100-1100+end"); /* header and events disagree */
}

static void test_lost(void **state)
{
	struct gt_timeline_stats st;

	(void)state;
	/* what is open is cut; a first release after it was held since the gap's end */
	st = expect("A1@110 W2@120 L150-200 R2@250 A1@260 R1@270",
		    "hold1 110-150+lost, take2 120-150+lost, lost 150-200, hold2 200-250+lost, "
		    "drop2 250-250, hold1 260-270, drop1 270-270");
	assert_int_equal(st.gaps, 1);
	assert_int_equal(st.lost, 1);
	expect_even("A1@110 R1@120 Y1@121 L150-200 W1@210 A1@220 R1@230",
		    "hold1 110-120+forced, drop1 120-150+forced+lost, lost 150-200, take1 210-220, "
		    "hold1 220-230, drop1 230-230");
	expect_even("A1@110 R1@120 L150-200 A1@210 R1@220",
		    "hold1 110-120, drop1 120-120, lost 150-200, hold1 210-220, drop1 220-220");
	/* two gaps, a thread that is first seen after them */
	expect_even("A1@110 L150-200 L210-300 R3@310",
		    "hold1 110-150+lost, lost 150-200, lost 210-300, hold3 300-310+lost, "
		    "drop3 310-310");
	/* never across: the acquire before the gap does not belong to the release behind it */
	expect_even("A1@110 L120-300 R1@310",
		    "hold1 110-120+lost, lost 120-300, hold1 300-310+lost, drop1 310-310");
	/* but not before another's release behind the gap */
	expect_even("A1@110 L120-300 R2@310 R1@320",
		    "hold1 110-120+lost, lost 120-300, hold2 300-310+lost, drop2 310-310, hold1 "
		    "310-320+lost, drop1 320-320");
	/* disorder between threads: an event inside the gap before its record */
	expect_even("A1@160 L150-200 R1@210",
		    "hold1 160-160+lost, lost 150-200, hold1 200-210+lost, drop1 210-210");
	expect_even("L200-150 A1@210", "lost 150-150, hold1 210-1000+end");
	expect_even("A1@110 R1@120 D1@121 A1@130 R1@140 L150-200 D1@210",
		    "hold1 110-120, drop1 120-121, hold1 130-140, drop1 140-150+lost, "
		    "lost 150-200, drop1 200-210+lost");
}

static void test_waited_before(void **state)
{
	struct gt_timeline_stats st;

	(void)state;
	expect_even("w1@100 W1@105 A1@150 R1@160",
		    "take1 100-150+start, hold1 150-160, drop1 160-160");
	expect_even("G0@100 w1@100", "take1 100-1000+start+end");
	expect_even("G0@100 w1@100 L200-300 A1@310",
		    "take1 100-200+start+lost, lost 200-300, hold1 310-1000+end");
	/* told late, as its first event comes behind gaps */
	expect_even("G0@100 L200-300 L350-360 w1@100 A1@370 R1@380",
		    "lost 200-300, lost 350-360, take1 100-200+start+lost, hold1 370-380, "
		    "drop1 380-380");
	/* its own events tell, or have been told */
	expect_even("G0@100 w1@100 h1@100 A1@120", "take1 100-120+start, hold1 120-1000+end");
	expect_even("G0@100 L200-300 w1@100 w1@100", "lost 200-300, take1 100-200+start+lost");
	expect_even("A1@110 w1@100 R1@120 h1@100", "hold1 110-120, drop1 120-120");
	/* what it waited for was no GIL */
	st = expect("g1@100 w1.1@100 W1@120 A1@130 L200-300 w2.1@300 A2@310",
		    "take1 120-130, hold1 130-200+lost, lost 200-300, hold2 310-1000+end");
	assert_int_equal(st.unconfirmed, 2);
	assert_int_equal(st.odd[GT_ODD_WAIT_ENDLESS], 0);
	st = expect("g1@100 w1.1@100 A2@110 E1@120", "hold2 110-1000+end");
	assert_int_equal(st.unconfirmed, 1);
	/* an acquire was missed */
	expect_odd("G0@100 w1@100 R1@110", "take1 100-100+start+unknown, drop1 110-110",
		   GT_ODD_RELEASE_IDLE, 1);
	expect_odd("G0@100 w1@100 A1.1@110", "take1 100-100+start+unknown, hold1.1 110-1000+end",
		   GT_ODD_WAIT_ENDLESS, 1);
	expect_odd("G0@100 w1@100 R2@120 R1@130",
		   "take1 100-100+start+unknown, drop1 130-130, hold2 100-120+start, drop2 120-120",
		   GT_ODD_RELEASE_IDLE, 1);
	/* but function mode does not see those: it held since the last release, if there was one */
	opts.functions = 1;
	expect_odd("G0@100 w1@100 R1@110", "take1 100-100+start+unknown, drop1 110-110",
		   GT_ODD_RELEASE_IDLE, 1);
	expect_even("G0@100 w1@100 R2@120 R1@130",
		    "take1 100-120+start, hold1 120-130+start, drop1 130-130, "
		    "hold2 100-120+start, drop2 120-120");
}

static void test_held_before(void **state)
{
	(void)state;
	expect_even("h1@100 W2@120 R1@150 A2@151 R2@160",
		    "take2 120-151, hold1 100-150+start, drop1 150-150, hold2 151-160, "
		    "drop2 160-160");
	expect_even("h1@100", "hold1 100-1000+start+end");
	expect_even("h1@100 L200-300 R1@310",
		    "hold1 100-200+start+lost, lost 200-300, hold1 300-310+lost, drop1 310-310");
	expect_even("L200-300 h1@100 R1@310",
		    "lost 200-300, hold1 100-200+start+lost, hold1 300-310+lost, drop1 310-310");
	/* two GILs, two holders; nobody else of one, and nobody where events tell */
	expect_even("h1@100 h2.1@100 h3@100 R1@110 R2.1@120",
		    "hold1 100-110+start, drop1 110-110, hold2.1 100-120+start, drop2.1 120-120");
	expect_even("A2@110 R2@120 h1@100", "hold2 110-120, drop2 120-120");
	/* another library's condition variable does not end it */
	expect_even("h1@100 g1@110 R1.1@110 R1@120", "hold1 100-120+start, drop1 120-120");
	/* It held another one, .. */
	expect_even("G1@100 h1@100 R1.1@120", "hold1.1 100-120+start, drop1.1 120-120");
	/* .. or it was read in the middle of a switch: by itself, .. */
	expect_even("h1@100 A1@110 R1@120", "hold1 110-120, drop1 120-120");
	expect_even("h1@100 A2@110", "hold2 110-1000+end");
	/* .. to another, which sets the lock before it says who it is */
	expect_even("h1@100 A2@110 W1@115 R2@120",
		    "take1 115-1000+end, hold2 110-120, drop2 120-120");
	expect_even("h1@100 W1@105 A2@110", "take1 105-1000+end, hold2 110-1000+end");
	expect_even("h1@100 Y1@101 A2@102", "drop1 101-102+forced+start, hold2 102-1000+end");
	expect_even("h1@100 R2@120 W1@130",
		    "take1 130-1000+end, hold2 100-120+start, drop2 120-120");
}

static void test_exit(void **state)
{
	(void)state;
	expect_even("A1@110 E1@120 E1@125", "hold1 110-120+exit");
	expect_even("h1@100 E1@120", "hold1 100-120+start+exit");
	expect_even("A1@110 R1@120 E1@130", "hold1 110-120, drop1 120-120");
	expect_even("A1@110 R1@120 Y1@121 E1@130",
		    "hold1 110-120+forced, drop1 120-130+forced+exit");
	expect_even("T1@105 A1@110 R1@120 D1@121 A1@130 R1@140 E1@150",
		    "take1 105-110, hold1 110-120, drop1 120-121, hold1 130-140, "
		    "drop1 140-150+exit");
	/* the next with that id begins without the GIL */
	expect_even("A1@110 R1@120 E1@130 A1@140 E1@150 W1@160 A1@170",
		    "hold1 110-120, drop1 120-120, hold1 140-150+exit, take1 160-170, "
		    "hold1 170-1000+end");
	expect_odd("A1@110 R1@120 E1@130 R1@140", "hold1 110-120, drop1 120-120, drop1 140-140",
		   GT_ODD_RELEASE_IDLE, 1);
	/* but behind a gap nothing is known of it */
	expect_even("G0@100 E1@110 L200-300 R1@310",
		    "lost 200-300, hold1 300-310+lost, drop1 310-310");
}

static void test_exit_waiting(void **state)
{
	(void)state;
	/* the process ends while 2 holds: killed, or by 2 itself */
	expect_even("A2@110 W1@120 W3@125 E1@130 E2@131 E3@132",
		    "hold2 110-131+exit, take3 125-132+exit, take1 120-130+exit");
	expect_even("G0@100 w1@100 E1@130", "take1 100-130+start+exit");
	/* it ends alone; the next with its id is another one, too */
	expect_even("A2@110 W1@120 E1@130 R2@140",
		    "take1 120-130+finalizing, hold2 110-140, drop2 140-140");
	expect_even("A2@110 W1@120 E1@130 W1@140",
		    "take1 120-130+finalizing, hold2 110-1000+end, take1 140-1000+end");
	/* events were lost: who knows */
	expect_even("A2@110 W1@120 E1@130 L140-150 R2@160",
		    "take1 120-130+exit, hold2 110-140+lost, lost 140-150, hold2 150-160+lost, "
		    "drop2 160-160");
	/* the main thread is finalizing the interpreter */
	opts.main_tid = 2;
	expect_even("A2@110 W1@120 E1@130 E2@131", "take1 120-130+finalizing, hold2 110-131+exit");
	expect_even("A2@110 W1@120 R2@125 E2@131 E1@132",
		    "hold2 110-125, drop2 125-125, take1 120-132+finalizing");
	expect_even("G0@100 R2@110 W1@120 E1@130",
		    "take1 120-130+finalizing, hold2 100-110+start, drop2 110-110");
	expect_even("h2@100 W1@120 E1@130 E2@131",
		    "take1 120-130+finalizing, hold2 100-131+start+exit");
	/* .. or had it last before a gap; or waits itself; or holds another GIL */
	expect_even("A2@110 L115-116 W1@120 E1@130",
		    "hold2 110-115+lost, lost 115-116, take1 120-130+exit");
	expect_even("A2@110 R2@115 W2@120 E2@130",
		    "hold2 110-115, drop2 115-115, take2 120-130+exit");
	expect_even("A2.1@110 W1@120 E1@130", "take1 120-130+exit, hold2.1 110-1000+end");
}

/* The process was there before its recording began, in the middle of the others'. */
static void test_late(void **state)
{
	struct gt_timeline_stats st;

	(void)state;
	/* what it is in when it is first seen, it was in since then, not since the start */
	st = expect("Z40-150 R1@160 A2@170", "late 40-150, hold1 150-160+start, drop1 160-160, "
					     "hold2 170-1000+end");
	assert_int_equal(st.late_ns, 110);
	assert_int_equal(st.gaps, 0);
	assert_int_equal(st.lost, 0);
	expect_even("Z40-150 w1@150 h2@150 R2@160 A1@170",
		    "late 40-150, take1 150-170+start, hold1 170-1000+end, hold2 150-160+start, "
		    "drop2 160-160");
	/* .. nor behind a loss that came before it was told */
	expect_even("Z40-150 L200-300 h1@150 R1@310",
		    "late 40-150, lost 200-300, hold1 150-200+start+lost, hold1 300-310+lost, "
		    "drop1 310-310");
	expect_even("Z170-150 G0@150 R1@160", "late 150-150, hold1 150-160+start, drop1 160-160");
	opts.late_why = "!forked";
	expect_even("Z40-90", "late 40-90!forked");
	/* where it never should be it is a gap as any other */
	st = expect("A1@110 Z120-150 R1@160",
		    "hold1 110-120+lost, late 120-150!forked, hold1 150-160+lost, drop1 160-160");
	assert_int_equal(st.gaps, 0);
}

/* As a loss, but that nobody is told that it is one. */
static void test_paused(void **state)
{
	struct gt_timeline_stats st;
	struct recorder r;

	(void)state;
	st = expect("A1@110 W2@120 P150-200 R2@250 A1@260 R1@270",
		    "hold1 110-150+paused, take2 120-150+paused, paused 150-200, "
		    "hold2 200-250+paused, drop2 250-250, hold1 260-270, drop1 270-270");
	assert_int_equal(st.gaps + st.lost, 0);
	assert_int_equal(st.pauses, 1);
	assert_int_equal(st.paused_ns, 50);
	assert_int_equal(st.events, 5);
	/* two of them; in drop_gil; never across */
	st = expect("A1@110 W2@115 F1@120 Y1@121 P150-200 W2@201 P250-300 A1@310",
		    "hold1 110-120+forced, drop1 120-150+forced+paused, take2 115-150+paused, "
		    "paused 150-200, take2 201-250+paused, paused 250-300, hold1 310-1000+end");
	assert_int_equal(st.pauses, 2);
	assert_int_equal(st.paused_ns, 100);
	/* beside losses: each end tells why it is not known */
	expect_even("A1@110 L150-160 P160-200 R1@210",
		    "hold1 110-150+lost, lost 150-160, paused 160-200, hold1 200-210+paused, "
		    "drop1 210-210");
	expect_even("G0@100 L150-200 Y1@210 P250-300 A1@310",
		    "lost 150-200, drop1 210-250+forced+lost+paused, paused 250-300, "
		    "hold1 310-1000+end");
	expect_even("P200-150 A1@210", "paused 150-150, hold1 210-1000+end");
	/* what nobody had confirmed before it */
	expect_even("g0@120 R1@120 P150-200 A1@210",
		    "paused 150-200, hold1 100-120+start, drop1 120-120, hold1 210-1000+end");
	/* who had the GIL meanwhile, nobody knows */
	play("A1@110 W2@120 P150-200 W2@210 R1@230 A2@240", &r);
	assert_string_equal(r.waits.s, "take2 30: held 30 (1: 30) in vain, "
				       "take2 30: held 20 (1: 20) free 10 <1 200-230");
	assert_string_equal(r.pairs.s, "2<free 10/1, 2<1 50/2");
}

static void test_paused_at_an_end(void **state)
{
	(void)state;
	expect_even("P100-200 A1@210 R1@220", "paused 100-200, hold1 210-220, drop1 220-220");
	expect_even("G0@100 P100-200 R1@210",
		    "paused 100-200, hold1 200-210+paused, drop1 210-210");
	expect_even("A1@110 P500-1000", "hold1 110-500+paused, paused 500-1000");
	expect_even("P100-1000", "paused 100-1000");
	/* late, and paused from then on */
	expect_even("Z40-100 P100-200 A1@210", "late 40-100, paused 100-200, hold1 210-1000+end");
	/* what was told of the start */
	expect_even("h1@100 w2@100 P150-200",
		    "hold1 100-150+start+paused, take2 100-150+start+paused, paused 150-200");
	expect_even("P150-200 h1@100 w2@100",
		    "paused 150-200, hold1 100-150+start+paused, take2 100-150+start+paused");
	/* .. of which nothing is left if it was paused then; the thread has not been seen */
	expect_even("h1@100 w2@100 P100-200 R3@210",
		    "paused 100-200, hold3 200-210+paused, drop3 210-210");
	expect_even("P100-200 h1@100 w2@100", "paused 100-200");
	expect_even("h1.255@100 P100-200", "paused 100-200");
}

static void expect_seen(const char *events, const char *want)
{
	struct recorder r;

	play(events, &r);
	assert_string_equal(r.seen.s, want);
}

/* Since when and how long a thread's state is known. */
static void test_observed(void **state)
{
	(void)state;
	expect_seen("A1@110 R1@120", "1: from 110 for 890");
	/* what it was in at the start, as far as it is drawn */
	expect_seen("R1@120 A2@130", "1: from 100 for 900, 2: from 130 for 870");
	expect_seen("A1@110 R1@120 R2@130", "1: from 110 for 890, 2: from 120 for 880");
	expect_seen("w1@100 W1@105 A1@150", "1: from 100 for 900");
	expect_seen("D1@105 R2@110", "1: from 100 for 900, 2: from 100 for 900");
	/* .. but not if it was none */
	expect_seen("h1@100 A2@110", "1: not seen, 2: from 110 for 890");
	expect_seen("h1@100 A1@110", "1: from 110 for 890");
	expect_seen("g1@100 w1.1@100 A2@110", "1: not seen, 2: from 110 for 890");
	/* gaps are left out, and what lies between one and the next event */
	expect_seen("A1@110 L150-200", "1: from 110 for 40");
	expect_seen("A1@110 L150-200 R1@250", "1: from 110 for 840");
	expect_seen("A1@110 R1@120 L150-200 A1@210", "1: from 110 for 830");
	expect_seen("Z40-150 R1@160 A2@170", "1: from 150 for 850, 2: from 170 for 830");
	expect_seen("A1@110 P150-200 R1@250", "1: from 110 for 840");
	expect_seen("h1@100 P100-200 R2@250", "1: not seen, 2: from 200 for 800");
	expect_seen("h1@100 P100-200 R1@250", "1: from 200 for 800");
	expect_seen("P100-200 h1@100", "1: not seen");
	/* so is what lies between the end of a thread and the next with its id */
	expect_seen("A1@110 E1@150 A1@200", "1: from 110 for 840");
	expect_seen("A2@110 W1@120 E1@130 R2@140", "1: from 120 for 10, 2: from 110 for 890");
	/* drawn after the gap */
	expect_seen("g0@120 R1@120 L150-200 A1@210", "1: from 100 for 840");
	expect_seen("g0@120 R1@120 E1@130 A2@210", "1: from 100 for 30, 2: from 210 for 790");
	expect_seen("g1@120 R1.1@120 A1@130 A2.1@135", "1: from 100 for 900, 2: from 135 for 865");
	expect_seen("G0@100 L200-300 L350-360 w1@100 A1@370", "1: from 100 for 730");
	/* states of which the end was missed */
	expect_seen("A1@110 A2@150", "1: from 110 for 890 unknown 40, 2: from 150 for 850");
	expect_seen("A1@110 W1@120 A1@130", "1: from 110 for 890 unknown 10");
	expect_seen("T1@110 T1@120 A1@130", "1: from 110 for 890 unknown 10");
	expect_seen("A1@110 R1@120 D1@121 A1@130 R1@140 W1@150", "1: from 110 for 890 unknown 10");
	/* Time that runs differently for two threads: nothing is counted twice. */
	expect_seen("A1@110 A2@150 W1@130 A1@140",
		    "1: from 110 for 890 unknown 40, 2: from 150 for 850");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_open_start, setup),
		cmocka_unit_test_setup(test_open_end, setup),
		cmocka_unit_test_setup(test_lost, setup),
		cmocka_unit_test_setup(test_waited_before, setup),
		cmocka_unit_test_setup(test_held_before, setup),
		cmocka_unit_test_setup(test_exit, setup),
		cmocka_unit_test_setup(test_exit_waiting, setup),
		cmocka_unit_test_setup(test_late, setup),
		cmocka_unit_test_setup(test_paused, setup),
		cmocka_unit_test_setup(test_paused_at_an_end, setup),
		cmocka_unit_test_setup(test_observed, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
