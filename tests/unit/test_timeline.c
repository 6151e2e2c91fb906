// SPDX-License-Identifier: Apache-2.0
/*
 * The state machine, in short hand. Events: W wait, A acquire, R release, Y yield, T take,
 * D dropped, then the thread, ".GIL" unless it is 0, "@time"; G0@9 a GIL, g0@9 one that is not
 * confirmed, L40-50 events lost in between. Slices: take1 10-20, then ".GIL", "+flag".
 * A recording lasts from 100 to 1000.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "timeline.h"

#define START_NS 100
#define END_NS   1000

struct gt_sink {
	char text[4096];
	size_t len;
	char threads[256];
	int fail_at; /* the how many'th slice fails; 0: none */
};

static int rec_span(struct gt_sink *s, const struct gt_span *span)
{
	static const char *const names[] = {"take", "hold", "drop"};
	static const char *const open[] = {"", "+start", "+end", "+lost", "+unknown"};
	char gil[8] = "";

	if (s->fail_at && !--s->fail_at)
		return -ENOSPC;
	if (span->gil)
		snprintf(gil, sizeof(gil), ".%u", span->gil);
	s->len += (size_t)snprintf(s->text + s->len, sizeof(s->text) - s->len,
				   "%s%s%u%s %llu-%llu%s%s", s->len ? ", " : "", names[span->kind],
				   span->tid, gil, (unsigned long long)span->start_ns,
				   (unsigned long long)span->end_ns, span->forced ? "+forced" : "",
				   open[span->open]);
	assert_true(s->len < sizeof(s->text));
	return 0;
}

static int rec_gap(struct gt_sink *s, const struct gt_gap *gap)
{
	s->len += (size_t)snprintf(s->text + s->len, sizeof(s->text) - s->len, "%slost %llu-%llu",
				   s->len ? ", " : "", (unsigned long long)gap->begin_ns,
				   (unsigned long long)gap->end_ns);
	assert_true(s->len < sizeof(s->text));
	return 0;
}

static int rec_thread(struct gt_sink *s, const struct gt_sink_thread *t)
{
	size_t n = strlen(s->threads);

	snprintf(s->threads + n, sizeof(s->threads) - n, "%u=%s;", t->tid, t->comm);
	return 0;
}

static const struct gt_sink_ops recorder = {.span = rec_span, .gap = rec_gap, .thread = rec_thread};

static struct gil_event parse_event(const char *p)
{
	static const char letters[] = "?WARYTD";
	struct gil_event ev = {0};
	char *end;

	if (*p == 'L') {
		ev.kind = GIL_LOST;
		ev.lost.begin_mono_ns = strtoull(p + 1, &end, 10);
		ev.mono_ns = strtoull(end + 1, &end, 10);
		ev.lost.count = 1;
	} else if (*p == 'G' || *p == 'g') {
		ev.kind = GIL_GIL;
		ev.unconfirmed = *p == 'g';
		ev.gil = (uint8_t)strtoul(p + 1, &end, 10);
		ev.mono_ns = strtoull(end + 1, &end, 10);
	} else {
		assert_non_null(strchr(letters + 1, *p));
		ev.kind = (uint8_t)(strchr(letters, *p) - letters);
		ev.tid = (uint32_t)strtoul(p + 1, &end, 10);
		if (*end == '.')
			ev.gil = (uint8_t)strtoul(end + 1, &end, 10);
		assert_int_equal(*end, '@');
		ev.mono_ns = strtoull(end + 1, &end, 10);
	}
	assert_true(*end == ' ' || !*end);
	return ev;
}

/* Plays the events and returns what the timeline counted. */
static struct gt_timeline_stats expect(const char *events, const char *want)
{
	struct gt_sink sink = {.len = 0};
	struct gt_timeline_stats stats;
	struct gt_timeline *tl;
	struct gil_event ev;

	assert_int_equal(gt_timeline_create(&recorder, &sink, NULL, NULL, START_NS, &tl), 0);
	for (const char *p = events; p && *p; p = strchr(p, ' ') ? strchr(p, ' ') + 1 : NULL) {
		ev = parse_event(p);
		assert_int_equal(gt_timeline_event(tl, &ev), 0);
	}
	assert_int_equal(gt_timeline_finish(tl, END_NS), 0);
	stats = *gt_timeline_stats(tl);
	gt_timeline_free(tl);
	assert_string_equal(sink.text, want);
	return stats;
}

static void expect_odd(const char *events, const char *want, enum gt_odd odd, uint64_t n)
{
	struct gt_timeline_stats stats = expect(events, want);

	for (int i = 0; i < GT_ODD_KINDS; i++)
		assert_int_equal(stats.odd[i], i == (int)odd ? n : 0);
}
#define expect_even(events, want) expect_odd(events, want, GT_ODD_KINDS, 0)

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
		    "hold1 110-140, take2 120-145, hold2 145-150, drop1 140-140, drop2 150-150");
	expect_even("A1@110 T2@115 W2@120 R1@140 A2@145 R2@150",
		    "hold1 110-140, take2 115-145, hold2 145-150, drop1 140-140, drop2 150-150");
}

static void test_forced(void **state)
{
	(void)state;
	/* the yield ends when another thread acquires that GIL */
	expect_even("A1@110 W2@120 R1@140 Y1@141 A2@145 W1@147 R2@150 A1@151 R1@160",
		    "hold1 110-140, take2 120-145, drop1 140-145+forced, hold2 145-150, "
		    "take1 147-151, hold1 151-160, drop1 160-160, drop2 150-150");
	/* .. or with its own next event; another GIL's acquire does not end it */
	expect_even("A1@110 R1@140 Y1@141 A2.1@145 W1@147 A1@150 R1@160 R2.1@170",
		    "hold1 110-140, drop1 140-147+forced, take1 147-150, hold1 150-160, "
		    "hold2.1 145-170, drop1 160-160, drop2.1 170-170");
	/* .. or with the recording */
	expect_even("A1@110 R1@140 Y1@141", "hold1 110-140, drop1 140-1000+forced+end");
	/* the other was quicker */
	expect_even("A1@110 R1@140 A2@141 Y1@142 R2@150",
		    "hold1 110-140, drop1 140-142+forced, hold2 141-150, drop2 150-150");
	/* where several GILs share an index, only its own next event can end it */
	expect_even("A1.255@110 R1.255@140 Y1.255@141 A2.255@145 R2.255@146 A1.255@150 R1.255@160",
		    "hold1.255 110-140, hold2.255 145-146, drop1.255 140-150+forced, "
		    "hold1.255 150-160, drop1.255 160-160, drop2.255 146-146");
}

static void test_functions(void **state)
{
	(void)state;
	expect_even("T1@110 A1@112 T2@120 R1@140 A2@142 D1@146 R2@150 D2@151",
		    "take1 110-112, hold1 112-140, take2 120-142, drop1 140-146, hold2 142-150, "
		    "drop2 150-151");
	/* in drop_gil, holding, and in take_gil when the recording ends */
	expect_even("T1@110 A1@112 R1@120 D1@121 T1@122 A1@123 T3@130 R1@140 T2@145 A2@150",
		    "take1 110-112, hold1 112-120, drop1 120-121, take1 122-123, hold1 123-140, "
		    "take2 145-150, drop1 140-1000+end, take3 130-1000+end, hold2 150-1000+end");
	/* in drop_gil, holding, and in take_gil when it begins */
	expect_even("D1@105 R2@110 D2@111 R3@120 D3@121",
		    "drop1 100-105+start, hold2 100-110+start, drop2 110-111, "
		    "hold3 110-120+start, drop3 120-121");
	/* take_gil gave up, as in a free-threaded build: nothing has a length */
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

static void test_open_start(void **state)
{
	(void)state;
	expect_even("R1@120 A2@125 R2@130", "hold1 100-120+start, hold2 125-130, drop1 120-120, "
					    "drop2 130-130");
	/* not before another thread's release */
	expect_even("A1@110 R1@120 R2@130",
		    "hold1 110-120, hold2 120-130+start, drop1 120-120, drop2 130-130");
	/* never while another holds */
	expect_odd("A1@110 R2@120 R1@130", "hold1 110-130, drop1 130-130, drop2 120-120",
		   GT_ODD_RELEASE_IDLE, 1);
	/* another GIL does not matter */
	expect_even("G1@100 A1@110 R2.1@120 R1@130",
		    "hold2.1 100-120+start, hold1 110-130, drop1 130-130, drop2.1 120-120");
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
		    "hold1 260-270, drop2 250-250, drop1 270-270");
	assert_int_equal(st.gaps, 1);
	assert_int_equal(st.lost, 1);
	expect_even("A1@110 R1@120 Y1@121 L150-200 W1@210 A1@220 R1@230",
		    "hold1 110-120, drop1 120-150+forced+lost, lost 150-200, take1 210-220, "
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
		    "hold1 110-120+lost, lost 120-300, hold2 300-310+lost, hold1 310-320+lost, "
		    "drop2 310-310, drop1 320-320");
	/* disorder between threads: an event inside the gap before its record */
	expect_even("A1@160 L150-200 R1@210",
		    "hold1 160-160+lost, lost 150-200, hold1 200-210+lost, drop1 210-210");
	expect_even("L200-150 A1@210", "lost 150-150, hold1 210-1000+end");
	expect_even("A1@110 R1@120 D1@121 A1@130 R1@140 L150-200 D1@210",
		    "hold1 110-120, drop1 120-121, hold1 130-140, drop1 140-150+lost, "
		    "lost 150-200, drop1 200-210+lost");
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
		"hold1 110-120, drop1 120-120, hold2 130-140+start, drop1 130-130, drop2 140-140",
		GT_ODD_RELEASE_IDLE, 1);
	/* a yield tells that the hold has just ended */
	expect_odd("A1@110 Y1@120 A2@125 R2@130",
		   "hold1 110-120, drop1 120-125+forced, hold2 125-130, drop2 130-130",
		   GT_ODD_YIELD_IDLE, 1);
	/* the release that was thought missing comes late: no hold beside the new holder's */
	expect("A1@110 A2@120 R1@130 R2@140",
	       "hold1 110-110+unknown, hold2 120-140, drop1 130-130, drop2 140-140");
	expect_odd("A1@110 R1@105", "hold1 110-110, drop1 110-110", GT_ODD_ORDER, 1);
}

static void test_several_gils(void **state)
{
	struct gt_timeline_stats st;

	(void)state;
	st = expect("A1@110 A2.1@115 R1@120 R2.1@125",
		    "hold1 110-120, hold2.1 115-125, drop1 120-120, drop2.1 125-125");
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
		    "hold1.255 110-130, hold2.255 120-140, drop1.255 130-130, drop2.255 140-140");
}

static void test_unconfirmed(void **state)
{
	struct gt_timeline_stats st;

	(void)state;
	/* confirmed by an event, by its own thread, or by a second GIL record */
	expect_even("g0@120 R1@120 Y1@121 A2@125 R2@130",
		    "hold1 100-120+start, drop1 120-125+forced, hold2 125-130, drop2 130-130");
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
		    "hold1 130-140, hold2.1 150-160, drop1 140-140, drop2.1 160-160");
	expect_even("g1@120 R1.1@120 A1@130 A2.1@135 R2.1@136 R1@140",
		    "hold1.1 100-120+start, drop1.1 120-120, hold2.1 135-136, hold1 130-140, "
		    "drop1 140-140, drop2.1 136-136");
	expect_even("A1@110 g1@120 R1.1@120 A2.1@135 R2.1@136 R1@140",
		    "hold2.1 135-136, hold1 110-140, drop1 140-140, drop2.1 136-136");
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

static void test_names(void **state)
{
	struct gt_sink sink = {.len = 0};
	struct gil_event ev = {.kind = GIL_THREAD, .tid = 9, .thread = {.comm = "python3"}};
	struct gt_timeline *tl;

	(void)state;
	assert_int_equal(gt_timeline_create(&recorder, &sink, NULL, NULL, START_NS, &tl), 0);
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	memcpy(ev.thread.comm, "worker-9", 9);
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	ev = (struct gil_event){.kind = GIL_ACQUIRE, .tid = 7, .mono_ns = 110};
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	ev.kind = 15;
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	assert_int_equal(gt_timeline_finish(tl, END_NS), 0);
	assert_string_equal(sink.threads, "7=;9=worker-9;");
	assert_int_equal(gt_timeline_stats(tl)->odd[GT_ODD_KIND], 1);
	gt_timeline_free(tl);
}

/* Many threads, all waiting: nothing is mixed up while the tables grow. */
static void test_many_threads(void **state)
{
	struct gt_sink sink = {.len = 0, .fail_at = 20001};
	struct gt_timeline *tl;

	(void)state;
	assert_int_equal(gt_timeline_create(&recorder, &sink, NULL, NULL, START_NS, &tl), 0);
	for (uint32_t i = 0; i < 20000; i++) {
		struct gil_event ev = {.kind = GIL_WAIT, .tid = i * 4096, .mono_ns = 110};

		assert_int_equal(gt_timeline_event(tl, &ev), 0);
	}
	assert_int_equal(gt_timeline_stats(tl)->threads, 20000);
	for (uint32_t i = 0; i < 20000; i++) {
		struct gil_event ev = {.kind = GIL_ACQUIRE, .tid = i * 4096, .mono_ns = 120 + i};

		sink.len = 0;
		assert_int_equal(gt_timeline_event(tl, &ev), i < 10000 ? 0 : -ENOSPC);
		if (i == 10000)
			break;
	}
	assert_int_equal(gt_timeline_finish(tl, END_NS), -ENOSPC);
	gt_timeline_free(tl);
}

static uint64_t shift(const void *ctx, uint64_t mono_ns)
{
	return mono_ns + *(const uint64_t *)ctx;
}

static void test_clock(void **state)
{
	struct gt_sink sink = {.len = 0};
	const uint64_t offset = 1000;
	struct gil_event ev = {.kind = GIL_GIL, .mono_ns = 100};
	struct gt_timeline *tl;

	(void)state;
	assert_int_equal(gt_timeline_create(&recorder, &sink, shift, &offset, START_NS, &tl), 0);
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	ev = (struct gil_event){.kind = GIL_RELEASE, .tid = 1, .mono_ns = 110};
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	ev = (struct gil_event){.kind = GIL_LOST, .mono_ns = 130};
	ev.lost.begin_mono_ns = 120;
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	assert_int_equal(gt_timeline_finish(tl, END_NS), 0);
	assert_string_equal(sink.text, "hold1 1100-1110+start, drop1 1110-1110, lost 1120-1130");
	gt_timeline_free(tl);
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
		    "hold1 110-120, hold2 120-130, drop1 120-120, drop2 130-130");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uncontended),  cmocka_unit_test(test_wait),
		cmocka_unit_test(test_forced),       cmocka_unit_test(test_functions),
		cmocka_unit_test(test_open_start),   cmocka_unit_test(test_open_end),
		cmocka_unit_test(test_lost),         cmocka_unit_test(test_missed),
		cmocka_unit_test(test_several_gils), cmocka_unit_test(test_unconfirmed),
		cmocka_unit_test(test_names),        cmocka_unit_test(test_many_threads),
		cmocka_unit_test(test_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
