// SPDX-License-Identifier: Apache-2.0
/*
 * The state machine, in short hand. Events: W wait, A acquire, R release, F forced release, Y
 * yield, T take, D dropped, l left, E the thread has ended, then the thread, ".GIL" unless it is 0,
 * "@time"; w1, h1 waited or held before; G0@9 a GIL, g0@9 one that is not confirmed, L40-50 events
 * lost in between, Z40-50 not recorded yet. Slices: take1 10-20, then ".GIL", "+flag". A recording
 * lasts from 100 to 1000.
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
	static const char *const forced[] = {"", "+voluntary", "+forced"};
	static const char *const open[] = {"+start",   "+lost", "+end",
					   "+unknown", "+exit", "+finalizing"};
	char gil[8] = "";

	if (s->fail_at && !--s->fail_at)
		return -ENOSPC;
	if (span->gil)
		snprintf(gil, sizeof(gil), ".%u", span->gil);
	s->len += (size_t)snprintf(s->text + s->len, sizeof(s->text) - s->len,
				   "%s%s%u%s %llu-%llu%s", s->len ? ", " : "", names[span->kind],
				   span->tid, gil, (unsigned long long)span->start_ns,
				   (unsigned long long)span->end_ns, forced[span->forced]);
	for (size_t i = 0; i < GT_ARRAY_SIZE(open) && s->len < sizeof(s->text); i++)
		if (span->open >> i & 1)
			s->len += (size_t)snprintf(s->text + s->len, sizeof(s->text) - s->len, "%s",
						   open[i]);
	assert_true(s->len < sizeof(s->text));
	return 0;
}

static int rec_gap(struct gt_sink *s, const struct gt_gap *gap)
{
	s->len += (size_t)snprintf(s->text + s->len, sizeof(s->text) - s->len, "%s%s %llu-%llu%s",
				   s->len ? ", " : "", gap->late ? "late" : "lost",
				   (unsigned long long)gap->begin_ns,
				   (unsigned long long)gap->end_ns, gap->why ? gap->why : "");
	assert_true(s->len < sizeof(s->text));
	return 0;
}

static int rec_thread(struct gt_sink *s, const struct gt_sink_thread *t)
{
	size_t n = strlen(s->threads);

	snprintf(s->threads + n, sizeof(s->threads) - n, "%u=%s;", t->tid, t->name);
	return 0;
}

static const struct gt_sink_ops recorder = {.span = rec_span, .gap = rec_gap, .thread = rec_thread};

static struct gil_event parse_event(const char *p)
{
	static const struct {
		char letter;
		uint8_t kind, forced, before;
	} letters[] = {
		{'W', GIL_WAIT, 0, 0},
		{'A', GIL_ACQUIRE, 0, 0},
		{'R', GIL_RELEASE, 0, 0},
		{'F', GIL_RELEASE, 1, 0},
		{'Y', GIL_YIELD, 0, 0},
		{'T', GIL_TAKE, 0, 0},
		{'D', GIL_DROPPED, 0, 0},
		{'E', GIL_EXIT, 0, 0},
		{'l', GIL_LEFT, 0, 0},
		{'w', GIL_BEFORE, 0, GIL_BEFORE_WAITING},
		{'h', GIL_BEFORE, 0, GIL_BEFORE_HOLDING},
	};
	struct gil_event ev = {0};
	char *end;

	if (*p == 'L') {
		ev.kind = GIL_LOST;
		ev.lost.begin_mono_ns = strtoull(p + 1, &end, 10);
		ev.mono_ns = strtoull(end + 1, &end, 10);
		ev.lost.count = 1;
	} else if (*p == 'Z') {
		ev.kind = GIL_LATE;
		ev.late.begin_mono_ns = strtoull(p + 1, &end, 10);
		ev.mono_ns = strtoull(end + 1, &end, 10);
	} else if (*p == 'G' || *p == 'g') {
		ev.kind = GIL_GIL;
		ev.unconfirmed = *p == 'g';
		ev.gil = (uint8_t)strtoul(p + 1, &end, 10);
		ev.mono_ns = strtoull(end + 1, &end, 10);
	} else {
		for (size_t i = 0; i < GT_ARRAY_SIZE(letters); i++) {
			if (letters[i].letter != *p)
				continue;
			ev.kind = letters[i].kind;
			ev.forced = letters[i].forced;
			ev.before.state = letters[i].before;
		}
		assert_true(ev.kind);
		ev.tid = (uint32_t)strtoul(p + 1, &end, 10);
		if (*end == '.')
			ev.gil = (uint8_t)strtoul(end + 1, &end, 10);
		assert_int_equal(*end, '@');
		ev.mono_ns = strtoull(end + 1, &end, 10);
	}
	assert_true(*end == ' ' || !*end);
	return ev;
}

/* For expect(); each test begins with it all 0. */
static struct gt_timeline_opts opts;

static int setup(void **state)
{
	(void)state;
	opts = (struct gt_timeline_opts){.start_mono_ns = START_NS};
	return 0;
}

/* Plays the events and returns what the timeline counted. */
static struct gt_timeline_stats expect(const char *events, const char *want)
{
	struct gt_sink sink = {.len = 0};
	struct gt_timeline_stats stats;
	struct gt_timeline *tl;
	struct gil_event ev;

	assert_int_equal(gt_timeline_create(&recorder, &sink, &opts, &tl), 0);
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

static void test_names(void **state)
{
	struct gt_sink sink = {.len = 0};
	struct gil_event ev = {.kind = GIL_THREAD, .tid = 9, .thread = {.comm = "python3"}};
	struct gt_timeline *tl;

	(void)state;
	assert_int_equal(gt_timeline_create(&recorder, &sink, &opts, &tl), 0);
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
	assert_string_equal(sink.threads, "5=second 5;7=thread 7;9=loader (worker-9) 9;");
	assert_int_equal(gt_timeline_stats(tl)->odd[GT_ODD_KIND], 1);
	gt_timeline_free(tl);
}

/* Many threads, all waiting: nothing is mixed up while the tables grow. */
static void test_many_threads(void **state)
{
	struct gt_sink sink = {.len = 0, .fail_at = 20001};
	struct gt_timeline *tl;

	(void)state;
	assert_int_equal(gt_timeline_create(&recorder, &sink, &opts, &tl), 0);
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
	opts.unix_ns = shift;
	opts.ctx = &offset;
	assert_int_equal(gt_timeline_create(&recorder, &sink, &opts, &tl), 0);
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	ev = (struct gil_event){.kind = GIL_RELEASE, .tid = 1, .mono_ns = 110};
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	ev = (struct gil_event){.kind = GIL_LOST, .mono_ns = 130};
	ev.lost.begin_mono_ns = 120;
	assert_int_equal(gt_timeline_event(tl, &ev), 0);
	assert_int_equal(gt_timeline_finish(tl, END_NS), 0);
	assert_string_equal(sink.text, "hold1 1100-1110+start, drop1 1110-1110, lost 1120-1130");
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
		cmocka_unit_test_setup(test_open_start, setup),
		cmocka_unit_test_setup(test_open_end, setup),
		cmocka_unit_test_setup(test_lost, setup),
		cmocka_unit_test_setup(test_missed, setup),
		cmocka_unit_test_setup(test_several_gils, setup),
		cmocka_unit_test_setup(test_unconfirmed, setup),
		cmocka_unit_test_setup(test_forced_told, setup),
		cmocka_unit_test_setup(test_waited_before, setup),
		cmocka_unit_test_setup(test_held_before, setup),
		cmocka_unit_test_setup(test_left, setup),
		cmocka_unit_test_setup(test_exit, setup),
		cmocka_unit_test_setup(test_exit_waiting, setup),
		cmocka_unit_test_setup(test_late, setup),
		cmocka_unit_test_setup(test_names, setup),
		cmocka_unit_test_setup(test_many_threads, setup),
		cmocka_unit_test_setup(test_clock, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
