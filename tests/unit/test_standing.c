// SPDX-License-Identifier: Apache-2.0
/* standing.c: who holds and who waits after any events, and what has exceeded a limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gilhistory.h"
#include "standing.h"

#define MANY 70000u

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct gt_standing));
	return !*state;
}

static int teardown(void **state)
{
	gt_standing_free(*state);
	free(*state);
	return 0;
}

static int feed(struct gt_standing *s, uint64_t ns, uint32_t tid, uint8_t kind,
		struct gt_stretch *over)
{
	struct gil_event ev = {.mono_ns = ns, .tid = tid, .kind = kind, .gil = 3};

	return gt_standing_event(s, &ev, over);
}

static void assert_stretch(const struct gt_stretch *s, uint64_t begin, uint64_t end, uint32_t tid,
			   int is_wait)
{
	assert_int_equal(s->begin_ns, begin);
	assert_int_equal(s->end_ns, end);
	assert_int_equal(s->tid, tid);
	assert_int_equal(s->gil, 3);
	assert_int_equal(s->is_wait, is_wait);
}

static void what_is_over_is_told(void **state)
{
	struct gt_stretch over;

	assert_int_equal(feed(*state, 100, 7, GIL_ACQUIRE, &over), 0);
	assert_int_equal(feed(*state, 110, 8, GIL_WAIT, &over), 0);
	assert_int_equal(feed(*state, 150, 8, GIL_WAIT, &over), 0); /* the same wait */
	assert_int_equal(feed(*state, 300, 7, GIL_RELEASE, &over), 1);
	assert_stretch(&over, 100, 300, 7, 0);
	assert_int_equal(feed(*state, 310, 8, GIL_ACQUIRE, &over), 1);
	assert_stretch(&over, 110, 310, 8, 1);
	assert_int_equal(feed(*state, 320, 8, GIL_RELEASE, &over), 1);
	assert_stretch(&over, 310, 320, 8, 0);
	/* It was held before anything was known. */
	assert_int_equal(feed(*state, 330, 9, GIL_RELEASE, &over), 0);
	assert_int_equal(feed(*state, 340, 9, GIL_WAIT, &over), 0);
	assert_int_equal(feed(*state, 350, 9, GIL_LEFT, &over), 1);
	assert_stretch(&over, 340, 350, 9, 1);
}

static void limits_are_exceeded_once(void **state)
{
	struct gt_standing *s = *state;
	struct gt_stretch over;

	feed(s, 100, 7, GIL_ACQUIRE, &over);
	feed(s, 120, 8, GIL_WAIT, &over);
	assert_int_equal(gt_standing_exceeds(s, 199, 100, 100, &over), 0);
	assert_int_equal(gt_standing_exceeds(s, 200, 100, 100, &over), 1);
	assert_stretch(&over, 100, 200, 7, 0);
	assert_int_equal(gt_standing_exceeds(s, 219, 100, 100, &over), 0);
	assert_int_equal(gt_standing_exceeds(s, 230, 100, 0, &over), 0); /* no limit for waits */
	assert_int_equal(gt_standing_exceeds(s, 230, 0, 100, &over), 1);
	assert_stretch(&over, 120, 230, 8, 1);
	assert_int_equal(gt_standing_exceeds(s, 9999, 100, 100, &over), 0);
	assert_int_equal(feed(s, 10000, 7, GIL_RELEASE, &over), 1);
	assert_true(over.exceeded);
	assert_int_equal(feed(s, 10000, 8, GIL_ACQUIRE, &over), 1);
	assert_true(over.exceeded);
	/* The next ones count anew. */
	assert_int_equal(gt_standing_exceeds(s, 10100, 100, 100, &over), 1);
	assert_stretch(&over, 10000, 10100, 8, 0);
}

static void after_a_gap_nothing_is_known(void **state)
{
	static const uint8_t gaps[] = {GIL_LOST, GIL_PAUSED};
	struct gt_standing *s = *state;
	struct gt_stretch over;

	for (size_t i = 0; i < sizeof(gaps); i++) {
		feed(s, 100, 7, GIL_ACQUIRE, &over);
		feed(s, 120, 8, GIL_WAIT, &over);
		feed(s, 130, 0, gaps[i], &over);
		assert_int_equal(gt_standing_exceeds(s, 9999, 10, 10, &over), 0);
		assert_int_equal(feed(s, 140, 7, GIL_RELEASE, &over), 0);
		assert_int_equal(feed(s, 150, 8, GIL_ACQUIRE, &over), 0);
	}
}

static void threads_and_gils_are_remembered(void **state)
{
	struct gil_event who = {.tid = 7, .kind = GIL_THREAD};
	struct gil_event gil = {.kind = GIL_GIL, .gil = 2, .unconfirmed = 1};
	struct gt_standing *s = *state;
	struct gt_stretch over;

	who.thread.ns_tid = 17;
	strcpy(who.thread.comm, "python3");
	who.thread.name = "MainThread";
	gt_standing_event(s, &who, &over);
	/* An id of 0 and no name say nothing. */
	who.thread.ns_tid = 0;
	who.thread.name = NULL;
	strcpy(who.thread.comm, "renamed");
	gt_standing_event(s, &who, &over);
	assert_int_equal(gt_standing_find(s, 7)->ns_tid, 17);
	assert_string_equal(gt_standing_find(s, 7)->name, "MainThread");
	assert_string_equal(gt_standing_find(s, 7)->comm, "renamed");
	gil.gil_ident.addr = 0x1000;
	gt_standing_event(s, &gil, &over);
	assert_true(s->gil[2].told && s->gil[2].unconfirmed);
	gil.unconfirmed = 0;
	gt_standing_event(s, &gil, &over);
	assert_false(s->gil[2].unconfirmed);
	assert_int_equal(s->gil[2].addr, 0x1000);
	feed(s, 1, 7, GIL_EXIT, &over);
	assert_null(gt_standing_find(s, 7));
}

/* Ends may be lost, so threads that are gone may stay: but not without a bound. */
static void threads_do_not_pile_up(void **state)
{
	struct gil_event who = {.kind = GIL_THREAD};
	struct gt_standing *s = *state;
	struct gt_stretch over;

	feed(s, 1, 5, GIL_ACQUIRE, &over);
	feed(s, 1, 6, GIL_WAIT, &over);
	for (uint32_t i = 0; i < MANY; i++) {
		who.tid = 1000 + i;
		gt_standing_event(s, &who, &over);
	}
	assert_in_range(s->n, 1, 65536);
	assert_non_null(gt_standing_find(s, 6));
	assert_non_null(gt_standing_find(s, 1000 + MANY - 1));
	assert_int_equal(feed(s, 9, 6, GIL_ACQUIRE, &over), 1);
}

/* ---- against the truth ---- */

static void assert_as_in(struct gt_standing *s, const struct history *w)
{
	size_t waiting = 0;

	for (int g = 0; g < w->n_gils; g++)
		assert_int_equal(s->gil[g].holder,
				 w->holder[g] < 0 ? 0 : w->thread[w->holder[g]].tid);
	for (int i = 0; i < w->n_threads; i++) {
		const struct gt_standing_thread *t = gt_standing_find(s, w->thread[i].tid);
		int waits = w->thread[i].doing == BLOCKED ||
			    (w->functions && w->thread[i].doing == IN_TAKE);

		assert_int_equal(t && t->waits, waits);
		if (waits && !w->functions)
			assert_int_equal(t->gil, w->thread[i].gil);
		waiting += (size_t)waits;
	}
	assert_int_equal(s->n_waiting, waiting);
}

static void as_it_is_in_any_history(void **state)
{
	struct history *w = malloc(sizeof(*w));
	struct gt_standing *s = *state;
	struct gt_stretch over;

	assert_non_null(w);
	for (uint64_t seed = 1; seed <= 300; seed++) {
		history_begin(w, seed * 7919, seed % 3 == 0);
		for (size_t done = 0; w->n < HISTORY_LONG / 10;) {
			history_step(w);
			while (done < w->n)
				gt_standing_event(s, &w->event[done++], &over);
			assert_as_in(s, w);
		}
		gt_standing_free(s);
	}
	free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_over_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(limits_are_exceeded_once, setup, teardown),
		cmocka_unit_test_setup_teardown(after_a_gap_nothing_is_known, setup, teardown),
		cmocka_unit_test_setup_teardown(threads_and_gils_are_remembered, setup, teardown),
		cmocka_unit_test_setup_teardown(threads_do_not_pile_up, setup, teardown),
		cmocka_unit_test_setup_teardown(as_it_is_in_any_history, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
