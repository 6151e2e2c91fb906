// SPDX-License-Identifier: Apache-2.0
/* selfcheck.c: what a GIL can do is no mismatch, however it is cut; what it cannot do is one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "gilhistory.h"
#include "selfcheck.h"

static int setup(void **state)
{
	*state = gt_selfcheck_new();
	return !*state;
}

static int teardown(void **state)
{
	gt_selfcheck_free(*state);
	return 0;
}

/* ---- single rules, as scripts ---- */

/*
 * A script is words "<thread><event>[gil]". Threads are letters. Events: w WAIT, a ACQUIRE,
 * r RELEASE, y YIELD, t TAKE, d DROPPED, x EXIT, l LEFT, h BEFORE holding, b BEFORE waiting, g a
 * GIL record, u an unconfirmed one, m a GIL record with another address; "L" alone is a loss, "P" a
 * pause, "M" a mark. gil: a digit, or * for GIL_INDEX_OTHER; 0 if there is none.
 */
static struct gil_event parse(const char *word)
{
	static const struct {
		char c;
		uint8_t kind;
	} kinds[] = {{'w', GIL_WAIT},   {'a', GIL_ACQUIRE}, {'r', GIL_RELEASE}, {'y', GIL_YIELD},
		     {'t', GIL_TAKE},   {'d', GIL_DROPPED}, {'x', GIL_EXIT},    {'l', GIL_LEFT},
		     {'h', GIL_BEFORE}, {'b', GIL_BEFORE},  {'g', GIL_GIL},     {'u', GIL_GIL},
		     {'m', GIL_GIL}};
	struct gil_event ev = {.mono_ns = 1000, .kind = GIL_LOST};

	if (word[0] == 'P')
		ev.kind = GIL_PAUSED;
	if (word[0] == 'M')
		ev.kind = GIL_MARK;
	if (ev.kind != GIL_LOST || word[0] == 'L')
		return ev;
	ev.tid = (uint32_t)(word[0] - 'A') + 100;
	for (size_t i = 0; i < GT_ARRAY_SIZE(kinds); i++)
		if (kinds[i].c == word[1])
			ev.kind = kinds[i].kind;
	if (word[2] && word[2] != ' ')
		ev.gil = word[2] == '*' ? GIL_INDEX_OTHER : (uint8_t)(word[2] - '0');
	if (ev.kind == GIL_BEFORE)
		ev.before.state = word[1] == 'h' ? GIL_BEFORE_HOLDING : GIL_BEFORE_WAITING;
	if (ev.kind == GIL_GIL) {
		ev.unconfirmed = word[1] == 'u';
		ev.gil_ident.addr = word[1] == 'm' ? 0x9000 : 0x1000 + ev.gil * 0x100u;
	}
	return ev;
}

static void play(struct gt_selfcheck *c, const char *script)
{
	for (const char *p = script; *p; p++) {
		struct gil_event ev;

		if (*p == ' ' || (p > script && p[-1] != ' '))
			continue;
		ev = parse(p);
		gt_selfcheck_event(c, &ev);
	}
}

/* expect: misses of the four kinds, in the order of the enum, and what is excused. */
static void check_counts(const char *script, const struct gt_selfcheck_gil *g, const char *expect)
{
	char got[64];

	snprintf(got, sizeof(got), "%d %d %d %d, %d", (int)g->miss[GT_MISS_ACQUIRE_HOLDING],
		 (int)g->miss[GT_MISS_ACQUIRE_HELD], (int)g->miss[GT_MISS_RELEASE_IDLE],
		 (int)g->miss[GT_MISS_TAKE_IDLE], (int)g->excused);
	if (strcmp(got, expect))
		fail_msg("\"%s\": expected %s, got %s", script, expect, got);
}

static void check_script(const char *script, const char *expect)
{
	struct gt_selfcheck *c = gt_selfcheck_new();
	struct gt_selfcheck_gil sum;

	assert_non_null(c);
	play(c, script);
	sum = gt_selfcheck_sum(c);
	check_counts(script, &sum, expect);
	gt_selfcheck_free(c);
}

static void what_a_gil_does_is_right(void **state)
{
	(void)state;
	check_script("Aa Ar Aa Ar", "0 0 0 0, 0");
	check_script("Aa Bw Ar Ay Ba Aw Br Aa", "0 0 0 0, 0");
	check_script("Aa Bw Cw Bw Ar Ca Bw Bw Cr Ba", "0 0 0 0, 0"); /* waits told repeatedly */
	check_script("Aa Bw Ar Aa Bw Ar Ba", "0 0 0 0, 0");          /* B loses a race */
}

/* CPython 3.12+: a GIL for each interpreter; PyThreadState_Swap() goes from one to another. */
static void gils_are_told_apart(void **state)
{
	(void)state;
	check_script("Aa0 Ba1 Cw0 Dw1 Br1 Da1 Ar0 Ca0 Dr1 Cr0", "0 0 0 0, 0");
	check_script("Aa0 Ar0 Aa1 Ar1 Aa0 Ar0", "0 0 0 0, 0");
	/* two libpythons in one process: a thread may hold the GILs of both, or wait with one */
	check_script("Aa0 Aa1 Bw0 Ar1 Ar0 Ba0", "0 0 0 0, 0");
	check_script("Aa0 Ba1 Aw1 Br1 Aa1 Ar1 Ar0", "0 0 0 0, 0");
	check_script("Aa0 Ba0 Aa1 Ar1", "0 1 0 0, 0");
	/* the GIL was switched off while B waited, and on again */
	check_script("Aa Bw Ar Bl Ca Bw Cr Ba Br", "0 0 0 0, 0");
	check_script("Aa0 Bw0 Bl1 Ba1", "0 0 0 1, 0");
}

static void gils_without_an_index_do_not_count(void **state)
{
	struct gt_selfcheck *c = *state;
	struct gt_selfcheck_gil sum;

	play(c, "Aa* Ba* Ca* Cr* Cr* Aw* At* Aa9");
	sum = gt_selfcheck_sum(c);
	check_counts("", &sum, "0 0 0 0, 0");
	assert_int_equal(sum.acquires, 1);
	assert_int_equal(sum.releases, 0);
	assert_int_equal(gt_selfcheck_gil(c, 9)->acquires, 1);
}

static void a_release_was_missed(void **state)
{
	(void)state;
	check_script("Aa Aa Ar", "1 0 0 0, 0");
	check_script("Aa Ba Br", "0 1 0 0, 0");
	check_script("Aa Bw Ba Br Aa Ar", "0 1 0 0, 0");
	check_script("Aa Aw Ba", "0 1 0 1, 0"); /* A's release and then the acquire of another */
	check_script("Aa Aw Br Aa Ar", "0 0 0 1, 0");
}

static void an_acquire_was_missed(void **state)
{
	(void)state;
	check_script("Aa Ar Ar Aa Ar", "0 0 1 0, 0");
	check_script("Aa Ar Br Ba Br", "0 0 1 0, 0");
	check_script("Aa Br", "0 0 1 0, 0");
	check_script("Aa Bw Ar Br Ba Br", "0 0 0 1, 0"); /* waits and releases */
	check_script("Aa Ar Bw Cr Ba Br", "0 0 0 1, 0"); /* waits for what is free */
	check_script("Aa Ar Bw Ba", "0 1 0 1, 0");       /* the same, and a release, too */
	check_script("Aa Bw Ba0", "0 1 0 0, 0");
	check_script("Aa Cw0 Ca1 Cr1", "0 0 0 1, 0"); /* goes on with another GIL */
	check_script("Aa Cw0 Ba1 Cw1", "0 0 0 1, 0");
	check_script("Aa Cw0 Ca1 Cw0 Cr1 Ar0 Ca0", "0 0 0 2, 0");
}

static void misses_belong_to_their_gil(void **state)
{
	struct gt_selfcheck *c = *state;

	play(c, "Aa3 Ba3 Ba5 Br5 Br5 Br3");
	check_counts("3", gt_selfcheck_gil(c, 3), "0 1 0 0, 0");
	check_counts("5", gt_selfcheck_gil(c, 5), "0 0 1 0, 0");
	assert_int_equal(gt_selfcheck_gil(c, 3)->acquires, 2);
	assert_int_equal(gt_selfcheck_gil(c, 3)->releases, 1);
	assert_int_equal(gt_selfcheck_gil(c, 5)->releases, 2);
}

/* What was before the start is not known; once a GIL has been seen to change hands, it is. */
static void start_in_the_middle(void **state)
{
	(void)state;
	check_script("Ar Ba Br", "0 0 0 0, 1");
	check_script("Bw Ar Ba", "0 0 0 0, 1");
	check_script("Ba Br Aa", "0 0 0 0, 0"); /* nobody held, or B was blocked */
	check_script("Ar Br", "0 0 1 0, 1");
	check_script("Ba Ar", "0 0 1 0, 0");
	check_script("Ba Br Ar", "0 0 1 0, 0");
	check_script("Bw Br", "0 0 0 1, 0"); /* its wait is known to have had no acquire */
	check_script("Ar0 Ba1 Br1 Ar1", "0 0 1 0, 1");
}

static void told_what_was_before(void **state)
{
	(void)state;
	check_script("Ah Ar Ba", "0 0 0 0, 0");
	check_script("Ah Bw Ar Ba", "0 0 0 0, 0");
	check_script("Ah Bb Ar Ba Br", "0 0 0 0, 0");
	check_script("Bb Br", "0 0 0 0, 1"); /* it did not wait for this */
	/* the snapshot was out of date */
	check_script("Ah Aa Ar", "0 0 0 0, 1");
	check_script("Ah Ba Br", "0 0 0 0, 1");
	check_script("Ah Br Aa", "0 0 0 0, 1");
	check_script("Ah Aw Aa Ar", "0 0 0 0, 1");
	/* and is no licence */
	check_script("Ah Ar Ar", "0 0 1 0, 0");
	check_script("Ah Aa Ba", "0 1 0 0, 1");
	/* what events have told is surer */
	check_script("Ba Ah Br", "0 0 0 0, 0");
	check_script("Ba Br Ah Ar", "0 0 1 0, 0");
}

static void after_a_loss_nothing_is_known(void **state)
{
	(void)state;
	check_script("Aa L Aa Ar", "0 0 0 0, 0");
	check_script("Aa L Ba Br", "0 0 0 0, 0");
	check_script("Aa Ar L Br Aa", "0 0 0 0, 1");
	check_script("Aa Bw L Br Aa", "0 0 0 0, 1");
	check_script("Aa Bw L Bw Ba", "0 0 0 0, 0");
	check_script("Aa Bw0 L Ba1 Br1", "0 0 0 0, 0");
	check_script("Ah L Ba Br", "0 0 0 0, 0");
	check_script("At L At Aa Ar", "0 0 0 0, 0");
	check_script("Aa Bw L Ba Br Ba Ca", "0 1 0 0, 0"); /* but then it goes on */
	check_script("Aa L Ar L Br Ba Bw", "0 0 0 1, 2");
}

static void nor_after_a_pause(void **state)
{
	(void)state;
	check_script("Aa P Aa Ar", "0 0 0 0, 0");
	check_script("Aa P Ba Br", "0 0 0 0, 0");
	check_script("Aa Ar P Br Aa", "0 0 0 0, 1");
	check_script("Aa Bw P Bw Ba", "0 0 0 0, 0");
	check_script("Aa Bw P Bx Ax Ca Cr", "0 0 0 0, 0"); /* they ended in it, or just before */
	check_script("P Aa Ar P P Br Ba", "0 0 0 0, 1");
	check_script("Aa P Ba Br Br", "0 0 1 0, 0"); /* but then it goes on */
	check_script("Aa P Ba Ca", "0 1 0 0, 0");
	check_script("Aa P Bw Br", "0 0 0 1, 0");
	check_script("Aa Ba P Br", "0 1 0 0, 1"); /* and what was before it stays wrong */
}

/* A mark is no event: it changes nothing, and is of no GIL. */
static void marks_change_nothing(void **state)
{
	(void)state;
	check_script("M Aa M Bw M Ar M Ba M Br M", "0 0 0 0, 0");
	check_script("Aa M Ba M Br M Br", "0 1 1 0, 0");
	check_script("M Ar M Br", "0 0 1 0, 1");
}

static void threads_end_anywhere(void **state)
{
	(void)state;
	check_script("Aa Ar Ax Ba", "0 0 0 0, 0");
	check_script("Aa Bw Bx Ar Aa", "0 0 0 0, 1");       /* 3.9 .. 3.13.7, in take_gil */
	check_script("Aa Bw Ar Ba Br Bx Aa", "0 0 0 0, 0"); /* up to 3.8 */
	check_script("Aa Ax", "0 0 0 0, 1");                /* with the process */
	check_script("Aa Bw Ax Bx", "0 0 0 0, 2");
	check_script("Ah Ax Ba", "0 0 0 0, 1");
	/* the id belongs to another thread now */
	check_script("Aa Bw Bx Ar Br", "0 0 1 0, 1");
	check_script("Aa Bw0 Bx Ba1 Br1", "0 0 0 0, 1");
	/* Nobody gets a lock that a dead thread has: it had released it. */
	check_script("Aa Ax Ba", "0 1 0 0, 1");
	check_script("Aa Ax Aa", "0 1 0 0, 1");
	check_script("Aa Ax Bw Bx", "0 0 0 0, 2");
}

static void the_end_leaves_all_open(void **state)
{
	(void)state;
	check_script("Aa Bw Cw", "0 0 0 0, 0");
	check_script("Aa Ar Ay", "0 0 0 0, 0");
	check_script("At Ad Bt", "0 0 0 0, 0");
}

static void unconfirmed_gils_wait_for_their_turn(void **state)
{
	struct gt_selfcheck *c = *state;
	struct gt_selfcheck_gil sum;

	check_script("Au Ar Ay Ba Br", "0 0 0 0, 1"); /* held since before */
	check_script("Au Ar Bg Ba Br", "0 0 0 0, 1");
	check_script("Au Ar Bg Bw Cr Ba", "0 0 0 0, 2");
	check_script("Au Ar Bw Cr", "0 0 0 0, 2");
	check_script("Au Ar Bu Br", "0 0 0 0, 0");     /* told twice, and no surer for that */
	check_script("Aa0 Bu1 Br1 Ar0", "0 0 0 0, 0"); /* other code's condition variable */
	check_script("Aa0 Bw0 Bu1 Br1 Ar0 Ba0", "0 0 0 0, 0");
	check_script("Au Ar Bg Ba Br Br", "0 0 1 0, 1");
	check_script("Ag Ar Bu Br", "0 0 1 0, 1"); /* confirmed is confirmed */

	play(c, "Au Ar Bu1 Br1");
	sum = gt_selfcheck_sum(c);
	assert_int_equal(sum.releases, 0);
	play(c, "Ba");
	sum = gt_selfcheck_sum(c);
	assert_int_equal(sum.releases, 1);
	assert_int_equal(sum.acquires, 1);
}

/* Two GILs whose first hits meet may get one index. */
static void an_index_for_two_gils(void **state)
{
	(void)state;
	check_script("Ag Bm Aa Ba Br Ba", "0 0 0 0, 1");
	check_script("Ag Bm Ba Aa Br Ba Br", "0 0 0 0, 2");
	check_script("Ag Bm Ba Aa Br Br", "0 0 1 0, 2");
	check_script("Ag Aa Ag Aa", "1 0 0 0, 0"); /* told twice: the same GIL */
}

static void function_mode(void **state)
{
	(void)state;
	check_script("At Aa Ar Ad Bt Ba Br Bd", "0 0 0 0, 0");
	check_script("At Aa Bt Ar Ba Ad Br Bd", "0 0 0 0, 0"); /* A's return comes late */
	check_script("Bt Ar Ba Ad Br", "0 0 0 0, 1");
	/* ends in take_gil, at once or after it had it; or never returns */
	check_script("At Aa Bt Bx Ar", "0 0 0 0, 1");
	check_script("At Aa Bt Ar Br Bd Bx Ct", "0 0 0 0, 1");
	check_script("At Aa Bt Ar Br Bd Ct Ca", "0 0 0 0, 0");
	/* sites are missing */
	check_script("At Aa Ar Ad Bt Br Bd Bt Ba Br", "0 0 0 1, 0");
	check_script("At Aa Ar Ad Bt Br Bd Ba Br", "0 0 0 1, 0");
	check_script("At Aa Ar Ad At Ar Ad Ar", "0 0 1 1, 0");
	check_script("At At Aa Ar", "0 0 0 1, 0");
	check_script("At Aa At Aa Ar", "0 0 0 1, 0");
	check_script("At Aa Bt Ba", "0 1 0 0, 0");
	check_script("Ah At Aa Ar", "0 0 0 0, 1");
	/* a free-threaded build without its GIL: nothing that these functions do can be true */
	check_script("At Bt Aa Ba", "0 1 0 0, 0");
	check_script("At At At", "0 0 0 2, 0");
}

/* Threads that were in take_gil at the attach return without an event. */
static void function_mode_from_the_middle(void **state)
{
	(void)state;
	check_script("Ar Ad Br Bd Cr Cd At Aa", "0 0 0 0, 3");
	check_script("Ar Br Cr Ad Dr At Aa Ar", "0 0 0 0, 4"); /* known late what mode it is */
	check_script("At Ar Bt Ba Br Br", "0 0 1 0, 0");
	check_script("Ar Ad Br Bd Br", "0 0 1 0, 2"); /* once each */
	check_script("At Aa Br", "0 0 1 0, 0");       /* nobody comes out while another holds */
}

static void any_event_is_survived(void **state)
{
	struct gt_selfcheck *c = *state;
	uint64_t seed = 42, mono_ns = 1000000000;

	for (int i = 0; i < 200000; i++) {
		struct gil_event ev = make_event(&seed, &mono_ns, 1 + make_below(&seed, 20000));

		if (!make_below(&seed, 10))
			ev.kind = (uint8_t)make_below(&seed, 256);
		if (!make_below(&seed, 100))
			ev.tid = make_below(&seed, 2) ? 0 : UINT32_MAX;
		gt_selfcheck_event(c, &ev);
		if (!make_below(&seed, 1000))
			gt_selfcheck_tick(c);
	}
}

/* ---- threads ---- */

static void add(struct gt_selfcheck *c, uint32_t tid, uint8_t kind)
{
	const struct gil_event ev = {.mono_ns = 1, .tid = tid, .kind = kind};

	gt_selfcheck_event(c, &ev);
}

static void any_number_of_threads(void **state)
{
	const uint32_t n = 50000;
	struct gt_selfcheck *c = *state;
	struct gt_selfcheck_gil sum;

	add(c, 1, GIL_ACQUIRE);
	for (uint32_t i = 0; i < n; i++) {
		add(c, 1000 + i, GIL_WAIT);
		if (i % 1000 == 0)
			gt_selfcheck_tick(c);
	}
	add(c, 1, GIL_RELEASE);
	for (uint32_t i = 0; i < n; i++) { /* every tenth goes on without an acquire */
		if (i % 10)
			add(c, 1000 + i, GIL_ACQUIRE);
		add(c, 1000 + i, GIL_RELEASE);
	}
	sum = gt_selfcheck_sum(c);
	check_counts("", &sum, "0 0 0 5000, 0");
	assert_int_equal(gt_selfcheck_unchecked(c), 0);
}

/* In function mode it matters who has been seen before: that is not forgotten either. */
static void any_number_of_threads_in_function_mode(void **state)
{
	static const uint8_t kinds[] = {GIL_TAKE, GIL_ACQUIRE, GIL_RELEASE, GIL_DROPPED};
	const uint32_t n = 20000;
	struct gt_selfcheck *c = *state;
	struct gt_selfcheck_gil sum;

	for (uint32_t i = 0; i < n; i++) {
		for (size_t k = 0; k < GT_ARRAY_SIZE(kinds); k++)
			add(c, 1000 + i, kinds[k]);
		if (i % 1000 == 0)
			gt_selfcheck_tick(c);
	}
	for (uint32_t i = 0; i < n; i++)
		add(c, 1000 + i, GIL_RELEASE);
	sum = gt_selfcheck_sum(c);
	check_counts("", &sum, "0 0 20000 0, 0");
	assert_int_equal(gt_selfcheck_unchecked(c), 0);
}

/* Whoever chooses the ids may make them collide: that costs no time, and room is made. */
static void ids_that_collide(void **state)
{
	const struct gil_event loss = {.kind = GIL_LOST};
	struct gt_selfcheck *c = *state;
	uint32_t tids[64], n = 0;
	uint64_t unchecked = 0;

	for (uint32_t tid = 1; n < GT_ARRAY_SIZE(tids); tid++)
		if (!(tid * 0x9e3779b1u >> 20))
			tids[n++] = tid;
	for (int round = 0; round < 8; round++) {
		unchecked = gt_selfcheck_unchecked(c);
		gt_selfcheck_event(c, &loss);
		for (uint32_t i = 0; i < n; i++)
			add(c, tids[i], GIL_WAIT);
		if (!round)
			assert_true(gt_selfcheck_unchecked(c) > 20);
		gt_selfcheck_tick(c);
	}
	assert_int_equal(gt_selfcheck_unchecked(c), unchecked);
}

/* Without a tick in between there is no room: what is not followed is counted and no mismatch. */
static void too_many_threads_at_once(void **state)
{
	struct gt_selfcheck *c = *state;
	struct gt_selfcheck_gil sum;

	add(c, 1, GIL_ACQUIRE);
	for (uint32_t i = 0; i < 10000; i++)
		add(c, 1000 + i, GIL_WAIT);
	add(c, 1, GIL_RELEASE);
	for (uint32_t i = 0; i < 10000; i++) {
		add(c, 1000 + i, GIL_ACQUIRE);
		add(c, 1000 + i, GIL_RELEASE);
	}
	sum = gt_selfcheck_sum(c);
	check_counts("", &sum, "0 0 0 0, 0");
	assert_true(gt_selfcheck_unchecked(c) >= 10000 - 4096);
	assert_true(gt_selfcheck_unchecked(c) < 10000);
}

/* Threads that have ended or do not wait any more make room for others. */
static void threads_come_and_go(void **state)
{
	const uint32_t n = 1200000;

	(void)state;
	for (int functions = 0; functions <= 1; functions++) {
		struct gt_selfcheck *c = gt_selfcheck_new();
		struct gt_selfcheck_gil sum;

		assert_non_null(c);
		add(c, 1, GIL_ACQUIRE);
		for (uint32_t i = 0; i < n; i++) {
			int dies = i % 2 || functions;

			add(c, 1000 + i, functions ? GIL_TAKE : GIL_WAIT);
			if (dies)
				add(c, 1000 + i, GIL_EXIT);
			add(c, 1, GIL_RELEASE);
			if (!dies) {
				add(c, 1000 + i, GIL_ACQUIRE);
				add(c, 1000 + i, GIL_RELEASE);
			}
			add(c, 1, GIL_ACQUIRE);
			if (i % 500 == 0)
				gt_selfcheck_tick(c);
		}
		sum = gt_selfcheck_sum(c);
		assert_int_equal(gt_selfcheck_misses(&sum), 0);
		assert_int_equal(sum.excused, functions ? n : n / 2);
		assert_int_equal(gt_selfcheck_unchecked(c), 0);
		gt_selfcheck_free(c);
	}
}

/* ---- any history ---- */

/* Tells of a GIL as the BPF program does, where its first event has come. */
static int tell_gil(struct gt_selfcheck *c, const struct gil_event *ev, uint8_t *known)
{
	struct gil_event gil = {.mono_ns = ev->mono_ns, .tid = ev->tid, .kind = GIL_GIL};
	int sure = ev->kind == GIL_ACQUIRE || ev->kind == GIL_WAIT;

	if (ev->kind == GIL_EXIT || known[ev->gil] == 2 || (known[ev->gil] && !sure))
		return ev->kind == GIL_EXIT || known[ev->gil] == 2;
	if (ev->kind == GIL_YIELD)
		return 0;
	gil.gil = ev->gil;
	gil.gil_ident.addr = 0x1000 + ev->gil * 0x100u;
	gil.unconfirmed = !sure;
	known[ev->gil] = sure ? 2 : 1;
	gt_selfcheck_event(c, &gil);
	return 1;
}

/* In function mode: was the thread in take_gil at the attach, so that its return is not seen? */
static int returns_unseen(const struct history *w, size_t from, size_t i)
{
	uint32_t tid = w->event[i].tid;

	if (!w->functions || !from || w->event[i].kind != GIL_ACQUIRE)
		return 0;
	do
		i--;
	while (i && w->event[i].tid != tid);
	return i < from;
}

/* Plays [from, n) with gaps, if any, and with nothing of one kind's site, if kind is not 0. */
static struct gt_selfcheck *play_history(struct history *w, size_t from, int gaps, uint8_t kind,
					 uint8_t site, int *removed)
{
	struct gt_selfcheck *c = gt_selfcheck_new();
	uint8_t known[HISTORY_GILS] = {0};
	int lost = 0;

	assert_non_null(c);
	if (from && make_below(&w->seed, 2)) { /* who holds, or no more by now */
		struct gil_event before = w->event[from - 1];

		before.kind = GIL_BEFORE;
		before.before.state = GIL_BEFORE_HOLDING;
		gt_selfcheck_event(c, &before);
	}
	for (size_t i = from; i < w->n; i++) {
		const struct gil_event *ev = &w->event[i];
		struct gil_event gap = {.mono_ns = ev->mono_ns, .kind = GIL_LOST};

		if (returns_unseen(w, from, i))
			continue;
		if (kind && ev->kind == kind && ev->site == site) {
			removed[ev->gil]++;
			continue;
		}
		if (lost || (gaps && !make_below(&w->seed, 200))) {
			lost = make_below(&w->seed, 20) != 0;
			if (lost)
				continue;
			if (make_below(&w->seed, 2))
				gap.kind = GIL_PAUSED;
			gt_selfcheck_event(c, &gap);
		}
		if (w->functions || tell_gil(c, ev, known))
			gt_selfcheck_event(c, ev);
		if (!make_below(&w->seed, 100))
			gt_selfcheck_tick(c);
	}
	return c;
}

static void no_history_has_a_mismatch(void **state)
{
	struct history *w = calloc(1, sizeof(*w));

	(void)state;
	assert_non_null(w);
	for (uint64_t seed = 1; seed <= 1000; seed++) {
		struct gt_selfcheck *c;
		struct gt_selfcheck_gil sum;
		size_t from;
		char text[512];

		history_make(w, seed * 7919, seed % 3 == 0);
		from = seed % 4 ? make_below(&w->seed, HISTORY_LONG / 2) : 0;
		c = play_history(w, from, (int)(seed % 2), 0, 0, NULL);
		sum = gt_selfcheck_sum(c);
		gt_selfcheck_text(&sum, text, sizeof(text));
		if (gt_selfcheck_misses(&sum))
			fail_msg("seed %d: %s", (int)seed, text);
		assert_int_equal(gt_selfcheck_unchecked(c), 0);
		assert_true(sum.acquires > 100);
		gt_selfcheck_free(c);
	}
	free(w);
}

/* Pauses excuse what losses do, and nothing else; marks are nothing. */
static void pauses_are_as_strict_as_losses(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct gt_selfcheck *losses = gt_selfcheck_new(), *pauses = gt_selfcheck_new();
		uint64_t rnd = seed * 15485863, mono_ns = 1000;
		struct gt_selfcheck_gil a, b;

		assert_true(losses && pauses);
		for (int i = 0; i < 2000; i++) {
			struct gil_event ev = make_event(&rnd, &mono_ns, 5);

			ev.gil %= 3;
			if (ev.kind == GIL_MARK)
				gt_selfcheck_event(pauses, &ev);
			if (ev.kind == GIL_MARK || ev.kind == GIL_PAUSED)
				continue;
			gt_selfcheck_event(losses, &ev);
			if (ev.kind == GIL_LOST)
				ev.kind = GIL_PAUSED;
			gt_selfcheck_event(pauses, &ev);
		}
		a = gt_selfcheck_sum(losses);
		b = gt_selfcheck_sum(pauses);
		assert_true(gt_selfcheck_misses(&a) > 0 && a.excused > 0);
		assert_memory_equal(&a, &b, sizeof(a));
		gt_selfcheck_free(losses);
		gt_selfcheck_free(pauses);
	}
}

/* One site of acquires or releases is not known: every GIL that used it shows it. */
static void a_missing_site_is_found(void **state)
{
	struct history *w = calloc(1, sizeof(*w));

	(void)state;
	assert_non_null(w);
	for (uint64_t seed = 1; seed <= 1000; seed++) {
		uint8_t kind = seed % 2 ? GIL_ACQUIRE : GIL_RELEASE;
		int removed[HISTORY_GILS] = {0};
		struct gt_selfcheck *c;

		history_make(w, seed * 104729, seed % 3 == 0);
		c = play_history(w, 0, 0, kind, (uint8_t)(seed % HISTORY_SITES), removed);
		for (unsigned int i = 0; i < HISTORY_GILS; i++) {
			uint64_t misses = gt_selfcheck_misses(gt_selfcheck_gil(c, i));
			int ends = 2 + w->n_threads; /* the first, the last, and those excused */

			if (removed[i] > ends && !misses)
				fail_msg("seed %d: %d of GIL %u are missing, and nothing was found",
					 (int)seed, removed[i], i);
			if (misses > 2 * (uint64_t)removed[i])
				fail_msg("seed %d: %d of GIL %u are missing, and %d were found",
					 (int)seed, removed[i], i, (int)misses);
		}
		gt_selfcheck_free(c);
	}
	free(w);
}

/* ---- text ---- */

static void text_for_people(void **state)
{
	struct gt_selfcheck_gil g = {.acquires = 120, .releases = 80};
	char text[512], cut[20];

	(void)state;
	gt_selfcheck_text(&g, text, sizeof(text));
	assert_string_equal(text, "120 acquires, 80 releases");
	g.miss[GT_MISS_ACQUIRE_HELD] = 40;
	g.miss[GT_MISS_RELEASE_IDLE] = 1;
	gt_selfcheck_text(&g, text, sizeof(text));
	assert_string_equal(text, "120 acquires, 80 releases; 40 acquires of a GIL that another "
				  "thread held, 1 release of a GIL that the thread did not hold");
	gt_selfcheck_text(&g, cut, sizeof(cut));
	assert_string_equal(cut, "120 acquires, 80 re");
	gt_selfcheck_text(&g, cut, 1);
	assert_string_equal(cut, "");
	assert_int_equal(gt_selfcheck_misses(&g), 41);
	for (int k = 0; k < GT_MISS_KINDS; k++)
		g.miss[k] = UINT64_MAX;
	g.acquires = g.releases = UINT64_MAX;
	gt_selfcheck_text(&g, text, sizeof(text));
	assert_true(strlen(text) < sizeof(text) - 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_gil_does_is_right),
		cmocka_unit_test(gils_are_told_apart),
		cmocka_unit_test_setup_teardown(gils_without_an_index_do_not_count, setup,
						teardown),
		cmocka_unit_test(a_release_was_missed),
		cmocka_unit_test(an_acquire_was_missed),
		cmocka_unit_test_setup_teardown(misses_belong_to_their_gil, setup, teardown),
		cmocka_unit_test(start_in_the_middle),
		cmocka_unit_test(told_what_was_before),
		cmocka_unit_test(after_a_loss_nothing_is_known),
		cmocka_unit_test(nor_after_a_pause),
		cmocka_unit_test(marks_change_nothing),
		cmocka_unit_test(threads_end_anywhere),
		cmocka_unit_test(the_end_leaves_all_open),
		cmocka_unit_test_setup_teardown(unconfirmed_gils_wait_for_their_turn, setup,
						teardown),
		cmocka_unit_test(an_index_for_two_gils),
		cmocka_unit_test(function_mode),
		cmocka_unit_test(function_mode_from_the_middle),
		cmocka_unit_test_setup_teardown(any_event_is_survived, setup, teardown),
		cmocka_unit_test_setup_teardown(any_number_of_threads, setup, teardown),
		cmocka_unit_test_setup_teardown(any_number_of_threads_in_function_mode, setup,
						teardown),
		cmocka_unit_test_setup_teardown(ids_that_collide, setup, teardown),
		cmocka_unit_test_setup_teardown(too_many_threads_at_once, setup, teardown),
		cmocka_unit_test(threads_come_and_go),
		cmocka_unit_test(no_history_has_a_mismatch),
		cmocka_unit_test(pauses_are_as_strict_as_losses),
		cmocka_unit_test(a_missing_site_is_found),
		cmocka_unit_test(text_for_people),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
