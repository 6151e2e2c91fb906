// SPDX-License-Identifier: Apache-2.0
/*
 * collect.c: records of the ring become events of the file; losses and names are not forgotten;
 * whether it all adds up is told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collectfix.h"

static void events_pass_through(void **state)
{
	static const uint8_t kinds[] = {GT_WAIT,  GT_ACQUIRE, GT_RELEASE,
					GT_YIELD, GT_TAKE,    GT_DROPPED};
	struct fixture *f = *state;

	for (size_t i = 0; i < GT_ARRAY_SIZE(kinds); i++)
		record(f, 1000 + i, 70000, kinds[i]);
	finish(f, 2000, 0, 0);
	for (size_t i = 0; i < GT_ARRAY_SIZE(kinds); i++) {
		struct gil_event ev = next(f);

		assert_int_equal(ev.mono_ns, 1000 + i);
		assert_int_equal(ev.tid, 70000);
		assert_int_equal(ev.kind, kinds[i]);
		assert_int_equal(ev.gil, 2);
		assert_int_equal(ev.site, 5);
	}
	assert_at_end(f);
	assert_int_equal(f->stats.events, GT_ARRAY_SIZE(kinds));
	assert_int_equal(gil_reader_end_reason(f->r), GIL_END_STOPPED);
	assert_int_equal(gil_reader_first_mono_ns(f->r), 1000);
}

static void losses_are_told_in_place_and_exactly(void **state)
{
	struct fixture *f = *state;
	struct gil_event ev;

	record(f, 1000, 7, GT_ACQUIRE);
	record_lost(f, 3000, 1500, 1000000);
	record_lost(f, 3000, 1500, 1000000); /* told twice by two threads */
	record(f, 3000, 7, GT_RELEASE);
	record_lost(f, 5000, 4000, 1000003);
	finish(f, 9000, 1000010, 8000); /* seven that no record has told of */
	assert_int_equal(next(f).kind, GIL_ACQUIRE);
	ev = next(f);
	assert_int_equal(ev.kind, GIL_LOST);
	assert_int_equal(ev.lost.count, 1000000);
	assert_int_equal(ev.lost.begin_mono_ns, 1500);
	assert_int_equal(ev.mono_ns, 3000);
	assert_int_equal(next(f).kind, GIL_RELEASE);
	assert_int_equal(next(f).lost.count, 3);
	ev = next(f);
	assert_int_equal(ev.lost.count, 7);
	assert_int_equal(ev.lost.begin_mono_ns, 8000);
	assert_int_equal(ev.mono_ns, 9000);
	assert_at_end(f);
	assert_int_equal(f->stats.lost, 1000010);
	assert_int_equal(gil_reader_lost_total(f->r), 1000010);
}

/* A thread that renames itself after its first event appears under its later name, too. */
static void names_are_looked_up_again(void **state)
{
	struct fixture *f = *state;
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	struct gil_event ev;

	prctl(PR_SET_NAME, "named later");
	record_thread(f, 1000, tid, "before");
	record(f, 1000, tid, GT_ACQUIRE);
	assert_int_equal(gt_collect_tick(f->c, 1100), 0);
	prctl(PR_SET_NAME, "named last");
	finish(f, 2000, 0, 0);
	ev = next(f);
	assert_int_equal(ev.kind, GIL_THREAD);
	assert_string_equal(ev.thread.comm, "before");
	assert_int_equal(next(f).kind, GIL_ACQUIRE);
	ev = next(f);
	assert_string_equal(ev.thread.comm, "named later");
	assert_int_equal(ev.mono_ns, 1100);
	assert_true(ev.thread.ns_tid > 0);
	ev = next(f);
	assert_string_equal(ev.thread.comm, "named last");
	assert_int_equal(ev.mono_ns, 2000);
	assert_at_end(f);
	assert_int_equal(f->stats.threads, 1);
}

/* More new threads between two ticks than there is room for: counted, and none is mixed up. */
static void many_threads_at_once(void **state)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i < 600; i++) {
		record_thread(f, 1000 + i, 5000000 + i, "worker");
		record(f, 1000 + i, 5000000 + i, GT_ACQUIRE);
		if (i == 299)
			assert_int_equal(gt_collect_tick(f->c, 2000), 0);
	}
	finish(f, 3000, 0, 0);
	for (uint32_t i = 0; i < 600; i++) {
		struct gil_event ev = next(f);

		if (ev.tid == (uint32_t)syscall(SYS_gettid)) /* looked for in /proc */
			ev = next(f);
		assert_int_equal(ev.kind, GIL_THREAD);
		assert_int_equal(ev.tid, 5000000 + i);
		assert_string_equal(ev.thread.comm, "worker");
		assert_int_equal(next(f).tid, 5000000 + i);
	}
	assert_at_end(f);
	assert_int_equal(f->stats.threads, 600);
}

/* BPF's table of threads is small: two whose ids collide are told again and again. */
static void threads_told_again_count_once(void **state)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i < 2000; i++) {
		record_thread(f, 1000 + i, 5000000 + i % 2 * 1024, "worker");
		if (i == 1000)
			assert_int_equal(gt_collect_tick(f->c, 3000), 0);
	}
	finish(f, 4000, 0, 0);
	assert_int_equal(f->stats.threads, 2);
}

static void blocks_are_sealed_when_a_second_old(void **state)
{
	struct fixture *f = *state;
	struct gt_collect_stats stats;
	uint64_t bytes;

	record(f, 1000, 7, GT_ACQUIRE);
	gt_collect_stats(f->c, 0, &stats);
	bytes = stats.bytes;
	gt_collect_tick(f->c, 1000 + 999999999);
	gt_collect_stats(f->c, 0, &stats);
	assert_int_equal(stats.bytes, bytes);
	gt_collect_tick(f->c, 1000 + 1000000000);
	gt_collect_stats(f->c, 0, &stats);
	assert_true(stats.bytes > bytes);
	finish(f, 3000, 0, 0);
}

static void malformed_records_are_counted(void **state)
{
	struct fixture *f = *state;
	struct gt_rec_thread rec = {.rec = {.ts_ns = 1, .kind = GT_THREAD}};

	gt_collect_record(f->c, &rec.rec, sizeof(rec.rec));
	rec.rec.kind = GT_WAIT;
	gt_collect_record(f->c, &rec.rec, sizeof(rec));
	gt_collect_record(f->c, &rec.rec, 8);
	rec.rec.kind = 0;
	gt_collect_record(f->c, &rec.rec, sizeof(rec.rec));
	rec.rec.kind = 200;
	gt_collect_record(f->c, &rec.rec, sizeof(rec.rec));
	rec.rec.kind = GT_EXIT;
	gt_collect_record(f->c, &rec.rec, sizeof(rec));
	for (uint8_t kind = 7; kind <= 11; kind += 4) { /* those are in the file only */
		rec.rec.kind = kind;
		gt_collect_record(f->c, &rec.rec, sizeof(rec.rec));
	}
	finish(f, 3000, 0, 0);
	assert_at_end(f);
	assert_int_equal(f->stats.malformed, 8);
}

/* ---- ends of threads ---- */

static void forced_releases_are_marked(void **state)
{
	struct gt_rec rec = {.ts_ns = 1000, .tid = 7, .kind = GT_ACQUIRE, .flags = GT_REC_FORCED};
	struct fixture *f = *state;

	gt_collect_record(f->c, &rec, sizeof(rec));
	rec.kind = GT_RELEASE;
	gt_collect_record(f->c, &rec, sizeof(rec));
	rec.flags = 0;
	gt_collect_record(f->c, &rec, sizeof(rec));
	finish(f, 2000, 0, 0);
	assert_int_equal(next(f).forced, 0);
	assert_int_equal(next(f).forced, 1);
	assert_int_equal(next(f).forced, 0);
	assert_at_end(f);
	assert_int_equal(f->stats.events, 3);
}

/* An id that is used again is another thread; at once, or after the names were looked up. */
static void ended_threads_are_forgotten(void **state)
{
	static const uint8_t kinds[] = {GIL_THREAD, GIL_ACQUIRE, GIL_EXIT};
	struct fixture *f = *state;

	for (int i = 0; i < 6; i++) {
		record_thread(f, 1000, 5000000, "worker");
		record(f, 1000, 5000000, GT_ACQUIRE);
		if (i >= 3)
			gt_collect_tick(f->c, 2000);
		record(f, 1000, 5000000, GT_EXIT);
	}
	record_thread(f, 1000, 5000000, "worker"); /* alive, and told twice */
	record_thread(f, 1000, 5000000, "worker");
	record(f, 1000, 6000000, GT_EXIT); /* BPF tells only of those that it has told before */
	finish(f, 3000, 0, 0);
	for (size_t i = 0; i < 18; i++)
		assert_int_equal(next(f).kind, kinds[i % 3]);
	assert_int_equal(next(f).kind, GIL_THREAD);
	assert_int_equal(next(f).kind, GIL_EXIT);
	assert_at_end(f);
	assert_int_equal(f->stats.threads, 7);
	assert_int_equal(f->stats.events, 6);
}

static void assert_thread(const struct gil_event *ev, uint32_t ns_tid, uint32_t host_tid,
			  const char *comm, const char *name)
{
	assert_int_equal(ev->kind, GIL_THREAD);
	assert_int_equal(ev->thread.ns_tid, ns_tid);
	assert_int_equal(ev->thread.host_tid, host_tid);
	assert_string_equal(ev->thread.comm, comm);
	assert_string_equal(ev->thread.name ? ev->thread.name : "", name);
}

/* A rename tells no id of the target's namespace; one that changes nothing is not written. */
static void renames_are_kept(void **state)
{
	struct fixture *f = *state;
	struct gil_event ev;

	record_who(f, 5000000, 17, 5000000, "python3");
	record_who(f, 5000000, 0, 5000000, "python3");
	record_who(f, 5000000, 0, 5000000, "acl_thread");
	record_who(f, 5000001, 18, 6000001, "in a container");
	finish(f, 2000, 0, 0);
	ev = next(f);
	assert_thread(&ev, 17, 0, "python3", "");
	ev = next(f);
	assert_thread(&ev, 17, 0, "acl_thread", "");
	ev = next(f);
	assert_thread(&ev, 18, 6000001, "in a container", "");
	assert_at_end(f);
}

static void late_comes_first(void **state)
{
	struct fixture *f = *state;
	struct gil_event ev;

	gt_collect_late(f->c, 400, 1000);
	record(f, 1100, 1, GT_ACQUIRE);
	finish(f, 2000, 0, 0);
	ev = next(f);
	assert_int_equal(ev.kind, GIL_LATE);
	assert_int_equal(ev.mono_ns, 1000);
	assert_int_equal(ev.late.begin_mono_ns, 400);
	assert_int_equal(next(f).kind, GIL_ACQUIRE);
	assert_int_equal(f->stats.events, 1);
}

/* Names of the interpreter are matched by the ids that it knows, and written once each. */
static void interpreters_names(void **state)
{
	const struct gt_pyname first[] = {
		{17, 0, "MainThread"}, {18, 1, "Dummy-1"}, {19, 0, "pin_memory"}, {90, 0, "gone"}};
	const struct gt_pyname later[] = {
		{17, 0, "MainThread"}, {18, 0, "new"}, {19, 0, "renamed"}};
	struct fixture *f = *state;
	struct gil_event ev;

	assert_false(gt_collect_wants_names(f->c));
	for (uint32_t i = 0; i < 3; i++)
		record_who(f, 5000000 + i, 17 + i, 5000000 + i, "python3");
	gt_collect_tick(f->c, 1100);
	assert_true(gt_collect_wants_names(f->c));
	/* A thread that has no name so far is asked for again, but not for ever. */
	for (int i = 0; i < 5; i++) {
		assert_true(gt_collect_wants_names(f->c));
		assert_int_equal(gt_collect_names(f->c, first, GT_ARRAY_SIZE(first), 1200), 2);
	}
	assert_false(gt_collect_wants_names(f->c));
	assert_int_equal(gt_collect_names(f->c, first, GT_ARRAY_SIZE(first), 1300), 2);
	record_who(f, 5000003, 20, 5000003, "native");
	gt_collect_tick(f->c, 1400);
	assert_true(gt_collect_wants_names(f->c));
	assert_int_equal(gt_collect_names(f->c, later, GT_ARRAY_SIZE(later), 1500), 3);
	/* What is known stays, also with a new name in the kernel. */
	record_who(f, 5000001, 0, 5000001, "acl_thread");
	assert_int_equal(gt_collect_names(f->c, NULL, 0, 1600), 3);
	finish(f, 2000, 0, 0);
	for (uint32_t i = 0; i < 3; i++) {
		ev = next(f);
		assert_thread(&ev, 17 + i, 0, "python3", "");
	}
	ev = next(f);
	assert_thread(&ev, 17, 0, "python3", "MainThread");
	ev = next(f);
	assert_thread(&ev, 19, 0, "python3", "pin_memory");
	ev = next(f);
	assert_thread(&ev, 20, 0, "native", "");
	ev = next(f);
	assert_thread(&ev, 18, 0, "python3", "new");
	ev = next(f);
	assert_thread(&ev, 19, 0, "python3", "renamed");
	ev = next(f);
	assert_thread(&ev, 18, 0, "acl_thread", "new");
	assert_at_end(f);
}

/* The name of an id's later owner is not that of the thread that has ended. */
static void ended_threads_get_no_new_name(void **state)
{
	struct fixture *f = *state;
	uint32_t tid = (uint32_t)syscall(SYS_gettid);

	prctl(PR_SET_NAME, "first");
	record_thread(f, 1000, tid, "first");
	gt_collect_tick(f->c, 1100);
	record(f, 1200, tid, GT_EXIT);
	prctl(PR_SET_NAME, "second");
	record_thread(f, 1300, 5000000, "other");
	gt_collect_tick(f->c, 1400);
	finish(f, 2000, 0, 0);
	assert_string_equal(next(f).thread.comm, "first");
	if (next(f).kind == GIL_THREAD) /* its id in our PID namespace, if that is another */
		assert_int_equal(next(f).kind, GIL_EXIT);
	assert_string_equal(next(f).thread.comm, "other");
	assert_at_end(f);
	assert_int_equal(f->stats.threads, 2);
}

/* libc mode: what was kept aside comes before it is known whose it is. */
static void an_event_before_its_thread(void **state)
{
	struct fixture *f = *state;

	record(f, 1000, 5000000, GT_WAIT);
	record_thread(f, 1100, 5000000, "worker");
	record(f, 1100, 5000000, GT_ACQUIRE);
	finish(f, 2000, 0, 0);
	assert_int_equal(next(f).kind, GIL_WAIT);
	assert_int_equal(next(f).kind, GIL_THREAD);
	assert_int_equal(next(f).kind, GIL_ACQUIRE);
	assert_at_end(f);
	assert_int_equal(f->stats.threads, 1);
	assert_string_equal(meta(f, "check.result"), "consistent");
}

/* ---- does it add up ---- */

static void nothing_is_not_consistent(void **state)
{
	struct fixture *f = *state;

	finish(f, 2000, 0, 0);
	assert_string_equal(meta(f, "check.result"), "not checked");
	assert_string_equal(meta(f, "check.acquires"), "0");
	assert_null(gil_reader_meta(f->r, "check.text"));
	assert_null(gil_reader_meta(f->r, "check.gil.0"));
}

static void what_adds_up_says_so(void **state)
{
	struct fixture *f = *state;

	record(f, 1000, 7, GT_RELEASE);
	record(f, 1001, 8, GT_ACQUIRE);
	record(f, 1002, 8, GT_RELEASE);
	finish(f, 2000, 0, 0);
	assert_string_equal(meta(f, "check.result"), "consistent");
	assert_string_equal(meta(f, "check.acquires"), "1");
	assert_string_equal(meta(f, "check.releases"), "2");
	assert_string_equal(meta(f, "check.mismatches"), "0");
	assert_string_equal(meta(f, "check.excused"), "1");
	assert_string_equal(meta(f, "check.unchecked"), "0");
	assert_string_equal(meta(f, "check.gil.2"), "1 acquire, 2 releases");
	assert_null(gil_reader_meta(f->r, "check.text"));
	assert_int_equal(f->stats.check.acquires, 1);
	assert_int_equal(f->stats.check.releases, 2);
	assert_int_equal(gt_selfcheck_misses(&f->stats.check), 0);
}

static void missing_sites_are_told(void **state)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i < 120; i++) {
		record(f, 1000 + i, 7 + i % 3, GT_ACQUIRE);
		if (i % 3)
			record(f, 1000 + i, 7 + i % 3, GT_RELEASE);
	}
	finish(f, 2000, 0, 0);
	assert_string_equal(meta(f, "check.result"), "sites missing");
	assert_string_equal(meta(f, "check.mismatches"), "40");
	assert_string_equal(meta(f, "check.text"), "120 acquires, 80 releases; 40 acquires of a "
						   "GIL that another thread held");
	assert_string_equal(meta(f, "check.gil.2"), meta(f, "check.text"));
	assert_int_equal(f->stats.check.miss[GT_MISS_ACQUIRE_HELD], 40);
}

/* Room for more threads is made between the readings of the ring. */
static void all_threads_are_checked(void **state)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i < 10000; i++) {
		record(f, 1000, 7 + i, GT_WAIT);
		if (i % 1000 == 0)
			gt_collect_tick(f->c, 1000);
	}
	finish(f, 2000, 0, 0);
	assert_string_equal(meta(f, "check.unchecked"), "0");
	assert_int_equal(f->stats.unchecked, 0);
}

static void a_loss_excuses(void **state)
{
	struct fixture *f = *state;

	record(f, 1000, 7, GT_ACQUIRE);
	record_lost(f, 1100, 1050, 1);
	record(f, 1100, 8, GT_ACQUIRE);
	finish(f, 2000, 1, 0);
	assert_string_equal(meta(f, "check.result"), "consistent");
}

/* The GIL was switched off while the thread waited (free-threaded builds). */
static void waiters_may_leave(void **state)
{
	struct fixture *f = *state;

	record(f, 1000, 7, GT_ACQUIRE);
	record(f, 1001, 8, GT_WAIT);
	record(f, 1002, 7, GT_RELEASE);
	record(f, 1003, 8, GT_LEFT);
	finish(f, 2000, 0, 0);
	assert_string_equal(meta(f, "check.result"), "consistent");
	assert_string_equal(meta(f, "check.excused"), "0");
	assert_string_equal(meta(f, "check.gil.2"), "1 acquire, 1 release");
}

/* But not by a release: they have none to make. */
static void waiters_do_not_release(void **state)
{
	struct fixture *f = *state;

	record(f, 1000, 7, GT_ACQUIRE);
	record(f, 1001, 8, GT_WAIT);
	record(f, 1002, 7, GT_RELEASE);
	record(f, 1003, 8, GT_RELEASE);
	finish(f, 2000, 0, 0);
	assert_string_equal(meta(f, "check.result"), "sites missing");
}

static void more_meta(void **state)
{
	static const char *const pairs[][2] = {{"gil.enabled_at_end", "1"}, {"absent", NULL}};
	struct fixture *f = *state;

	assert_int_equal(gt_collect_meta(f->c, pairs, 2), 0);
	finish(f, 2000, 0, 0);
	assert_string_equal(meta(f, "gil.enabled_at_end"), "1");
	assert_null(gil_reader_meta(f->r, "absent"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(events_pass_through, setup, teardown),
		cmocka_unit_test_setup_teardown(losses_are_told_in_place_and_exactly, setup,
						teardown),
		cmocka_unit_test_setup_teardown(names_are_looked_up_again, setup, teardown),
		cmocka_unit_test_setup_teardown(many_threads_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(threads_told_again_count_once, setup, teardown),
		cmocka_unit_test_setup_teardown(blocks_are_sealed_when_a_second_old, setup,
						teardown),
		cmocka_unit_test_setup_teardown(malformed_records_are_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(forced_releases_are_marked, setup, teardown),
		cmocka_unit_test_setup_teardown(ended_threads_are_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(renames_are_kept, setup, teardown),
		cmocka_unit_test_setup_teardown(late_comes_first, setup, teardown),
		cmocka_unit_test_setup_teardown(interpreters_names, setup, teardown),
		cmocka_unit_test_setup_teardown(ended_threads_get_no_new_name, setup, teardown),
		cmocka_unit_test_setup_teardown(an_event_before_its_thread, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_is_not_consistent, setup, teardown),
		cmocka_unit_test_setup_teardown(what_adds_up_says_so, setup, teardown),
		cmocka_unit_test_setup_teardown(missing_sites_are_told, setup, teardown),
		cmocka_unit_test_setup_teardown(all_threads_are_checked, setup, teardown),
		cmocka_unit_test_setup_teardown(a_loss_excuses, setup, teardown),
		cmocka_unit_test_setup_teardown(waiters_may_leave, setup, teardown),
		cmocka_unit_test_setup_teardown(waiters_do_not_release, setup, teardown),
		cmocka_unit_test_setup_teardown(more_meta, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
