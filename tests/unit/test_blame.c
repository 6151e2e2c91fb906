// SPDX-License-Identifier: Apache-2.0
/* Who blocked whom, by hand. */
#include "playfix.h"

#include "blame.h"

static void expect_blame(const char *events, const char *waits, const char *pairs)
{
	struct recorder r;

	play(events, &r);
	assert_string_equal(r.waits.s, waits);
	assert_string_equal(r.pairs.s, pairs);
}

static void test_two(void **state)
{
	(void)state;
	expect_blame("A1@110 W2@120 W2@125 R1@140 A2@145 R2@150",
		     "take2 25: held 20 (1: 20) free 5 <1 110-140", "2<free 5/1, 2<1 20/1");
	/* forced: the yield of the one is not the hold of the other */
	expect_blame("A1@110 W2@120 F1@140 Y1@141 A2@145 W1@147 F2@160 Y2@161 A1@163 R1@170",
		     "take2 25: held 20 (1: 20) free 5 <1 110-140, "
		     "take1 16: held 13 (2: 13) free 3 <2 145-160",
		     "1<free 3/1, 1<2 13/1, 2<free 5/1, 2<1 20/1");
	/* waits add up */
	expect_blame("A1@110 W2@120 R1@140 A2@145 R2@150 A1@160 W2@165 R1@170 A2@171",
		     "take2 25: held 20 (1: 20) free 5 <1 110-140, "
		     "take2 6: held 5 (1: 5) free 1 <1 160-170",
		     "2<free 6/2, 2<1 25/2");
	/* nobody waits */
	expect_blame("A1@110 R1@120 A2@130 R2@140", "", "");
}

/* The holder changes during a wait. */
static void test_three(void **state)
{
	(void)state;
	expect_blame("A1@110 W2@115 W3@116 R1@130 A3@133 W1@134 R3@160 A1@161 R1@170 A2@172 R2@180",
		     "take3 17: held 14 (1: 14) free 3 <1 110-130, "
		     "take1 27: held 26 (3: 26) free 1 <3 133-160, "
		     "take2 57: held 51 (3: 27) free 6 <1 161-170",
		     "1<free 1/1, 1<3 26/1, 2<free 6/1, 2<1 24/1, 2<3 27/1, 3<free 3/1, 3<1 14/1");
	/* as long: the lower id */
	expect_blame("A3@110 W2@120 R3@130 A1@130 R1@140 A2@140",
		     "take2 20: held 20 (1: 10) <1 130-140", "2<1 10/1, 2<3 10/1");
}

static void test_start(void **state)
{
	(void)state;
	/* held since before */
	expect_blame("W2@120 R1@150 A2@151", "take2 31: held 30 (1: 30) free 1 <1 100-150",
		     "2<free 1/1, 2<1 30/1");
	expect_blame("h1@100 w2@100 R1@150 A2@152", "take2 52: held 50 (1: 50) free 2 <1 100-150",
		     "2<free 2/1, 2<1 50/1");
	/* an acquire tells nothing of the time before */
	expect_blame("W2@120 A1@130 R1@140 A2@141",
		     "take2 21: held 10 (1: 10) free 1 unknown 10 <1 130-140",
		     "2<free 1/1, 2<1 10/1, 2<unknown 10/1");
	expect_blame("w2@100 A2@130", "take2 30: unknown 30", "2<unknown 30/1");
	/* nor does a hold that was read in the middle of a switch */
	expect_blame("h1@100 W2@110 A3@120 R3@130 A2@131",
		     "take2 21: held 10 (3: 10) free 1 unknown 10 <3 120-130",
		     "2<free 1/1, 2<3 10/1, 2<unknown 10/1");
	/* late */
	expect_blame("Z40-150 w2@150 R1@160 A2@165", "take2 15: held 10 (1: 10) free 5 <1 150-160",
		     "2<free 5/1, 2<1 10/1");
}

static void test_end(void **state)
{
	(void)state;
	/* who came first does not matter */
	expect_blame("A1@110 W2@120", "take2 880: held 880 (1: 880) in vain", "2<1 880/1");
	expect_blame("w2@100 W2@105 A1@110", "take2 900: held 890 (1: 890) unknown 10 in vain",
		     "2<1 890/1, 2<unknown 10/1");
	expect_blame("W2@105", "take2 895: unknown 895 in vain", "2<unknown 895/1");
}

static void test_lost(void **state)
{
	(void)state;
	/* the gap belongs to no wait */
	expect_blame("A1@110 W2@120 L150-200 W2@210 R1@220 A2@222",
		     "take2 30: held 30 (1: 30) in vain, "
		     "take2 12: held 10 (1: 10) free 2 <1 200-220",
		     "2<free 2/1, 2<1 40/2");
	expect_blame("W2@105 A1@110 L150-200", "take2 45: held 40 (1: 40) unknown 5 in vain",
		     "2<1 40/1, 2<unknown 5/1");
	/* behind it nothing is known until the first acquire or release */
	expect_blame("A1@110 L150-200 W2@210 A1@220 R1@230 A2@231",
		     "take2 21: held 10 (1: 10) free 1 unknown 10 <1 220-230",
		     "2<free 1/1, 2<1 10/1, 2<unknown 10/1");
	/* time that runs differently: what happened inside the gap is not of the wait */
	expect_blame("A1@110 W2@120 R1@160 L150-200", "take2 30: held 30 (1: 30) in vain",
		     "2<1 30/1");
}

static void test_missed(void **state)
{
	(void)state;
	expect_blame("A1@110 W2@120 A3@150 R3@160 A2@161",
		     "take2 41: held 10 (3: 10) free 1 unknown 30 <3 150-160",
		     "2<free 1/1, 2<3 10/1, 2<unknown 30/1");
	/* shown by its wait: who has it now is shown by the next release or acquire */
	expect_blame("A1@110 W2@120 W1@130 R3@150 A2@152 R2@160 A1@161",
		     "take2 32: held 20 (3: 20) free 2 unknown 10 <3 130-150, "
		     "take1 31: held 28 (3: 20) free 3 <2 152-160",
		     "1<free 3/1, 1<2 8/1, 1<3 20/1, 2<free 2/1, 2<3 20/1, 2<unknown 10/1");
	expect_blame("A1@110 W2@120 W1@130 A3@150 R3@160 A2@161",
		     "take2 41: held 10 (3: 10) free 1 unknown 30 <3 150-160, "
		     "take1 870: held 849 (2: 839) free 1 unknown 20 in vain",
		     "1<free 1/1, 1<2 839/1, 1<3 10/1, 1<unknown 20/1, "
		     "2<free 1/1, 2<3 10/1, 2<unknown 30/1");
	/* an acquire was missed */
	expect_blame("A1@110 R1@120 W3@125 R1@130 A3@140", "take3 15: free 10 unknown 5",
		     "3<free 10/1, 3<unknown 5/1");
	/* it was itself */
	expect_blame("A1@110 W1@120 A1@130", "take1 10: unknown 10", "1<unknown 10/1");
	/* a wait of which the end was missed has no length, so nobody is to blame */
	expect_blame("A1@110 T2@120 T2@130 R1@140 A2@141",
		     "take2 0: in vain, take2 11: held 10 (1: 10) free 1 <1 110-140",
		     "2<free 1/1, 2<1 10/1");
}

static void test_gils(void **state)
{
	(void)state;
	expect_blame("A1@110 A3.1@111 W2@120 W5.1@121 R3.1@125 A4.1@126 R1@140 A2@141 R4.1@150 "
		     "A5.1@151",
		     "take2 21: held 20 (1: 20) free 1 <1 110-140, "
		     "take5.1 30: held 28 (4: 24) free 2 <4 126-150",
		     "2<free 1/1, 2<1 20/1, 5<free 2/1, 5<3 4/1, 5<4 24/1");
	/* whose of those beyond is not known */
	expect_blame("A1.255@110 W2.255@120 R1.255@140 A2.255@145", "take2.255 25: unknown 25",
		     "2<unknown 25/1");
	/* one thread in two GILs, one after the other */
	expect_blame("A1@110 W2@120 R1@140 A1.1@141 A2@145",
		     "take2 25: held 20 (1: 20) free 5 <1 110-140", "2<free 5/1, 2<1 20/1");
}

static void test_ends(void **state)
{
	(void)state;
	/* ended while it held: there was no release */
	expect_blame("A1@110 W2@120 E1@140 A2@150", "take2 30: held 20 (1: 20) free 10",
		     "2<free 10/1, 2<1 20/1");
	/* ended while it waited, with the process */
	expect_blame("A2@110 W1@120 E1@130", "take1 10: held 10 (2: 10) in vain", "1<2 10/1");
	/* .. with the interpreter, as others go on: a wait for nobody */
	expect_blame("A2@110 W1@120 E1@130 R2@140", "take1 10: held 10 (2: 10) in vain", "");
	/* the GIL was switched off */
	expect_blame("A1@110 W2@120 R1@130 l2@135", "take2 15: held 10 (1: 10) free 5 in vain",
		     "2<free 5/1, 2<1 10/1");
	expect_blame("A1@110 W2@120 l2@135 R1@140", "take2 15: held 15 (1: 15) in vain",
		     "2<1 15/1");
	/* the next thread with that id is on the same row */
	expect_blame("A1@110 W2@120 E2@130 W2@135 R1@140 A2@142",
		     "take2 10: held 10 (1: 10) in vain, take2 7: held 5 (1: 5) free 2 <1 110-140",
		     "2<free 2/1, 2<1 5/1");
}

static void test_from(void **state)
{
	(void)state;
	/* no length, but a hand-over */
	expect_blame("A1@110 W2@120 R1@120 A2@120", "take2 0: <1 110-120", "");
	/* it had been let go before anybody waited */
	expect_blame("T1@110 A1@112 R1@120 D1@121 T2@130 A2@132",
		     "take1 2: unknown 2, take2 2: free 2", "1<unknown 2/1, 2<free 2/1");
	/* function mode: the entry of take_gil may be told late */
	expect_blame("A1@110 R1@120 T2@119 A2@132", "take2 13: held 1 (1: 1) free 12 <1 110-120",
		     "2<free 12/1, 2<1 1/1");
	/* the acquire of one that waited at the start of function mode is not seen */
	opts.functions = 1;
	expect_blame("G0@100 w1@100 R2@120 R1@130", "take1 20: held 20 (2: 20) <2 100-120",
		     "1<2 20/1");
}

/* A GIL that is confirmed late. */
static void test_unconfirmed(void **state)
{
	(void)state;
	expect_blame("g0@100 w2@100 R1@120 A1.1@125 A2@130",
		     "take2 30: held 20 (1: 20) free 10 <1 100-120", "2<free 10/1, 2<1 20/1");
	expect_blame("g0@100 w2@100 R1@120 A2@130", "take2 30: held 20 (1: 20) free 10 <1 100-120",
		     "2<free 10/1, 2<1 20/1");
	/* it was no GIL, so no wait */
	expect_blame("g1@100 w1.1@100 A1@120", "", "");
	/* events were lost before it is confirmed */
	expect_blame("g0@100 w2@100 R1@120 L150-200 W2@210 A2@220", "take2 10: unknown 10",
		     "2<unknown 10/1");
}

/* What was read of the start is told behind a gap. */
static void test_told_late(void **state)
{
	(void)state;
	expect_blame("G0@100 h1@100 L200-300 w2@100 A1@310", "take2 100: held 100 (1: 100) in vain",
		     "2<1 100/1");
	expect_blame("G0@100 W1@110 A1@120 R1@130 L200-300 w2@100 A1@310",
		     "take1 10: unknown 10, take2 100: held 10 (1: 10) free 70 unknown 20 in vain",
		     "1<unknown 10/1, 2<free 70/1, 2<1 10/1, 2<unknown 20/1");
	expect_blame("G0@100 L200-300 w2@100 A1@310", "take2 100: unknown 100 in vain",
		     "2<unknown 100/1");
	expect_blame("G0@100 L200-300 L400-500 w2@100 A1@510", "take2 100: unknown 100 in vain",
		     "2<unknown 100/1");
}

static void feed(struct gt_timeline *tl, uint8_t kind, uint32_t tid, uint64_t ns)
{
	const struct gil_event ev = {.kind = kind, .tid = tid, .mono_ns = ns};

	assert_int_equal(gt_timeline_event(tl, &ev), 0);
}

/* 1 has it for 3 of 10 ns. */
static uint64_t hold_often(struct gt_timeline *tl, struct recorder *r, uint64_t ns, int n)
{
	for (int i = 0; i < n; i++, ns += 10) {
		feed(tl, GIL_ACQUIRE, 1, ns + 2);
		feed(tl, GIL_RELEASE, 1, ns + 5);
		r->slices.len = 0;
	}
	return ns;
}

/* Waits that end otherwise than they should, when what happened has been shared out. */
static void test_long_odd_waits(void **state)
{
	struct recorder r = {.sink = {&recorder_ops}};
	struct gil_event other = {.kind = GIL_WAIT, .tid = 2, .gil = 1, .mono_ns = 101};
	struct gt_timeline *tl;
	uint64_t ns;

	(void)state;
	assert_int_equal(gt_timeline_create(&r.sink, &opts, &tl), 0);
	feed(tl, GIL_ACQUIRE, 1, 100);
	/* by a coarse clock two begin at one time: the second a ns later */
	for (int i = 0; i < 3; i++) {
		other.kind = (uint8_t)(GIL_WAIT + i);
		assert_int_equal(gt_timeline_event(tl, &other), 0);
	}
	feed(tl, GIL_TAKE, 2, 101);
	feed(tl, GIL_TAKE, 3, 101);
	feed(tl, GIL_TAKE, 4, 101);
	feed(tl, GIL_RELEASE, 1, 102);
	ns = hold_often(tl, &r, 110, 200);
	/* it has no end, so nobody is to blame */
	feed(tl, GIL_TAKE, 3, ns);
	/* it ended long ago: moved to where it is known what happened since */
	feed(tl, GIL_EXIT, 4, 120);
	ns = hold_often(tl, &r, ns, 1);
	feed(tl, GIL_ACQUIRE, 2, ns);
	feed(tl, GIL_RELEASE, 2, ns + 1);
	feed(tl, GIL_ACQUIRE, 3, ns + 1);
	assert_int_equal(gt_timeline_finish(tl, ns + 10), 0);
	gt_timeline_free(tl);
	assert_string_equal(r.waits.s, "take2.1 0:, take3 0: in vain, "
				       "take4 1274: held 382 (1: 382) free 892 in vain, "
				       "take2 2018: held 603 (1: 603) free 1415 <1 2112-2115, "
				       "take3 11: held 4 (1: 3) free 7 <2 2120-2121");
	assert_string_equal(r.pairs.s, "2<free 1415/1, 2<1 603/1, 3<free 7/1, 3<1 3/1, 3<2 1/1");
}

/* More holds in one wait than are remembered: 1 has it for 3 of 10 ns, 5 and 6 for 1. */
static void test_long_wait(void **state)
{
	struct recorder r = {.sink = {&recorder_ops}};
	struct gil_event lost = {.kind = GIL_LOST, .mono_ns = 20000};
	struct gil_event before = {.kind = GIL_BEFORE, .tid = 8, .mono_ns = START_NS};
	struct gt_timeline *tl;
	uint64_t ns = START_NS;

	(void)state;
	assert_int_equal(gt_timeline_create(&r.sink, &opts, &tl), 0);
	feed(tl, GIL_WAIT, 2, ns + 1);
	for (int i = 0; i < 1000; i++, ns += 10) {
		feed(tl, GIL_ACQUIRE, 1, ns + 2);
		if (i == 500)
			feed(tl, GIL_WAIT, 3, ns + 4);
		feed(tl, GIL_RELEASE, 1, ns + 5);
		feed(tl, GIL_ACQUIRE, 5 + (i & 1), ns + 6);
		feed(tl, GIL_RELEASE, 5 + (i & 1), ns + 7);
		r.slices.len = 0;
	}
	feed(tl, GIL_ACQUIRE, 3, ns + 2);
	feed(tl, GIL_RELEASE, 3, ns + 3);
	feed(tl, GIL_ACQUIRE, 2, ns + 4);
	/* one that is told of when the first holds have been forgotten */
	lost.lost.begin_mono_ns = ns + 10;
	assert_int_equal(gt_timeline_event(tl, &lost), 0);
	before.before.state = GIL_BEFORE_WAITING;
	assert_int_equal(gt_timeline_event(tl, &before), 0);
	assert_int_equal(gt_timeline_finish(tl, 20000), 0);
	gt_timeline_free(tl);
	assert_memory_equal(r.waits.s,
			    "take3 4998: held 1998 (1: 1498) free 3000 <6 10096-10097, "
			    "take2 10003: held 4001 (1: 3000) free 6001 unknown 1 <3 10102-10103, "
			    "take8 10010: held ",
			    100);
	assert_non_null(strstr(r.pairs.s, "2<free 6001/1, 2<1 3000/1, 2<3 1/1, 2<5 500/1, "
					  "2<6 500/1, 2<unknown 1/1, 3<free 3000/1, 3<1 1498/1, "
					  "3<5 250/1, 3<6 250/1, 8<free "));
}

static void hold(struct gt_blame *b, uint32_t tid, uint64_t start_ns, uint64_t end_ns)
{
	const struct gt_span span = {
		.kind = GT_SPAN_HOLD, .tid = tid, .start_ns = start_ns, .end_ns = end_ns};

	gt_blame_acquired(b, 0, tid, start_ns);
	gt_blame_held(b, &span, 1);
}

static struct gt_wait waited(struct gt_blame *b, struct gt_waiter *w, uint64_t start_ns,
			     uint64_t end_ns, uint8_t open)
{
	struct gt_span take = {.kind = GT_SPAN_TAKE,
			       .tid = w->tid,
			       .start_ns = start_ns,
			       .end_ns = end_ns,
			       .open = open};

	assert_int_equal(gt_blame_waited(b, w, &take), 0);
	gt_blame_count(b, w, &take);
	return take.wait;
}

/* So many threads wait that a hold can not be given to each: what is not known is said. */
static void test_crowd(void **state)
{
	static struct gt_waiter crowd[GT_BLAME_WAITERS_MAX + 1];
	struct gt_waiter *last = &crowd[GT_BLAME_WAITERS_MAX];
	struct gt_blame *b;
	struct gt_wait got;

	(void)state;
	memset(crowd, 0, sizeof(crowd));
	assert_int_equal(gt_blame_create(GT_BLAME_PAIRS_MAX, 100, &b), 0);
	for (uint32_t i = 0; i < GT_ARRAY_SIZE(crowd); i++) {
		crowd[i].tid = 1000 + i;
		gt_blame_wait(b, &crowd[i], 0, 100);
	}
	for (uint32_t i = 0; i < 1000; i++)
		hold(b, 1 + i % 2, 100 + 10 * i, 106 + 10 * i);
	got = waited(b, &crowd[0], 100, 10100, 0);
	assert_int_equal(got.held_ns, 6000);
	assert_int_equal(got.nobody_ns, 4000);
	got = waited(b, last, 100, 10100, 0);
	assert_int_equal(got.held_ns + got.nobody_ns + got.unknown_ns, 10000);
	assert_in_range(got.held_ns, 64 * 6, 128 * 6);
	assert_in_range(got.unknown_ns, 10000 - 128 * 10, 10000 - 64 * 10);
	/* There is room again. */
	gt_blame_wait(b, last, 0, 10100);
	for (uint32_t i = 0; i < 1000; i++)
		hold(b, 1, 10100 + 10 * i, 10106 + 10 * i);
	got = waited(b, last, 10100, 20100, 0);
	assert_int_equal(got.held_ns, 6000);
	assert_int_equal(got.unknown_ns, 0);
	gt_blame_free(b);
}

/* Pairs beyond the maximum. */
static void test_others(void **state)
{
	struct recorder r = {.sink = {&recorder_ops}};
	struct gt_waiter w = {.tid = 9}, v = {.tid = 8};
	struct gt_blame *b;
	struct gt_wait got;

	(void)state;
	assert_int_equal(gt_blame_create(2, 100, &b), 0);
	gt_blame_wait(b, &w, 0, 100);
	for (uint32_t i = 0; i < 4; i++)
		hold(b, 4 - i, 100 + 10 * i, 100 + 10 * i + 5);
	got = waited(b, &w, 100, 140, 0);
	assert_int_equal(got.held_ns, 20);
	assert_int_equal(got.nobody_ns, 20);
	assert_int_equal(got.blocker_ns, 5);
	gt_blame_wait(b, &w, 0, 140);
	hold(b, 3, 140, 150);
	hold(b, 4, 150, 151);
	got = waited(b, &w, 140, 151, 0);
	assert_int_equal(got.held_ns, 11);
	/* one that ends nowhere leaves nothing behind */
	gt_blame_wait(b, &w, 0, 151);
	hold(b, 3, 160, 170);
	hold(b, 1, 170, 180);
	waited(b, &w, 151, 151, GT_OPEN_UNKNOWN);
	gt_blame_wait(b, &v, 0, 180);
	hold(b, 3, 180, 190);
	got = waited(b, &v, 180, 190, 0);
	assert_int_equal(got.held_ns, 10);
	assert_int_equal(got.blocker, 0);
	/* who waits does not hold */
	gt_blame_wait(b, &v, 0, 190);
	hold(b, 8, 190, 200);
	got = waited(b, &v, 190, 201, 0);
	assert_int_equal(got.unknown_ns, 10);
	assert_int_equal(got.nobody_ns, 1);
	gt_blame_settle(b);
	assert_int_equal(gt_blame_tell(b, &v, &r.sink), 0);
	assert_int_equal(gt_blame_tell(b, &w, &r.sink), 0);
	gt_blame_free(b);
	assert_string_equal(r.pairs.s, "8<free 1/1, 8<others 10/1, 8<unknown 10/1, 9<free 20/1, "
				       "9<1 5/1, 9<2 5/1, 9<others 21/2");
}

/* Numbers that are no thread's. */
static void test_no_threads(void **state)
{
	(void)state;
	expect_blame("A0@110 W2@120 R0@130 A2@131", "take2 11: free 1 unknown 10",
		     "2<free 1/1, 2<unknown 10/1");
	expect_blame("A4294967294@110 W2@120 A2@131", "take2 11: unknown 11", "2<unknown 11/1");
}

static int fail_pair(struct gt_sink *sink, const struct gt_pair *pair)
{
	(void)sink;
	return pair->blocker == 1 ? -ENOSPC : 0;
}

static void test_sink(void **state)
{
	static const struct gt_sink_ops failing = {.span = rec_span, .pair = fail_pair};
	static const struct gt_sink_ops bare = {.span = rec_span};
	struct recorder r = {.sink = {&failing}};
	struct gt_timeline *tl;

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(gt_timeline_create(&r.sink, &opts, &tl), 0);
		feed(tl, GIL_ACQUIRE, 1, 110);
		feed(tl, GIL_WAIT, 2, 120);
		assert_int_equal(gt_timeline_finish(tl, END_NS), i ? 0 : -ENOSPC);
		gt_timeline_free(tl);
		r.sink.ops = &bare; /* what is not asked for is not told */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_two, setup),
		cmocka_unit_test_setup(test_three, setup),
		cmocka_unit_test_setup(test_start, setup),
		cmocka_unit_test_setup(test_end, setup),
		cmocka_unit_test_setup(test_lost, setup),
		cmocka_unit_test_setup(test_missed, setup),
		cmocka_unit_test_setup(test_gils, setup),
		cmocka_unit_test_setup(test_ends, setup),
		cmocka_unit_test_setup(test_from, setup),
		cmocka_unit_test_setup(test_unconfirmed, setup),
		cmocka_unit_test_setup(test_told_late, setup),
		cmocka_unit_test_setup(test_long_wait, setup),
		cmocka_unit_test_setup(test_long_odd_waits, setup),
		cmocka_unit_test_setup(test_crowd, setup),
		cmocka_unit_test_setup(test_others, setup),
		cmocka_unit_test_setup(test_no_threads, setup),
		cmocka_unit_test_setup(test_sink, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
