// SPDX-License-Identifier: Apache-2.0
/* collect.c and collect_threads.c: pauses, and marks with the threads that have set them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collectfix.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#define GONE 5000000u /* the ids of threads that have ended: greater ones than the kernel gives */

static uint32_t own_tid(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static void assert_pause(struct fixture *f, uint64_t begin, uint64_t end)
{
	struct gil_event ev = next(f);

	assert_int_equal(ev.kind, GIL_PAUSED);
	assert_int_equal(ev.paused.begin_mono_ns, begin);
	assert_int_equal(ev.mono_ns, end);
	assert_int_equal(ev.tid, 0);
}

static void assert_event(struct fixture *f, uint8_t kind, uint64_t ns, uint32_t tid)
{
	struct gil_event ev = next(f);

	assert_int_equal(ev.kind, kind);
	assert_int_equal(ev.mono_ns, ns);
	assert_int_equal(ev.tid, tid);
}

/* ---- pauses ---- */

/* What was under way when the gate was shut may have a later time than that. */
static void a_pause_begins_behind_all_events(void **state)
{
	struct fixture *f = *state;

	gt_collect_paused(f->c, 500, 900);
	record(f, 1000, 7, GT_ACQUIRE);
	record(f, 1500, 7, GT_RELEASE);
	gt_collect_paused(f->c, 1400, 5000);
	record(f, 5000, 8, GT_ACQUIRE);
	gt_collect_paused(f->c, 6000, 7000);
	record(f, 8000, 8, GT_WAIT);
	gt_collect_paused(f->c, 7500, 7800);
	finish(f, 9000, 0, 0);
	assert_pause(f, 500, 900);
	assert_event(f, GIL_ACQUIRE, 1000, 7);
	assert_event(f, GIL_RELEASE, 1500, 7);
	assert_pause(f, 1500, 5000);
	assert_event(f, GIL_ACQUIRE, 5000, 8);
	assert_pause(f, 6000, 7000);
	assert_event(f, GIL_WAIT, 8000, 8);
	assert_pause(f, 8000, 8000);
	assert_at_end(f);
	assert_int_equal(f->stats.events, 4);
	assert_int_equal(f->stats.lost, 0);
	assert_int_equal(gil_reader_lost_total(f->r), 0);
}

/* Who held before may have released since, and another have acquired. */
static void what_a_pause_hides_adds_up(void **state)
{
	struct fixture *f = *state;

	record(f, 1000, 7, GT_ACQUIRE);
	record(f, 1100, 8, GT_WAIT);
	gt_collect_paused(f->c, 2000, 3000);
	record(f, 3100, 9, GT_ACQUIRE);
	record(f, 3200, 9, GT_RELEASE);
	gt_collect_paused(f->c, 4000, 5000);
	record(f, 5100, 7, GT_RELEASE);
	record(f, 5200, 8, GT_ACQUIRE);
	finish(f, 9000, 0, 0);
	assert_string_equal(meta(f, "check.result"), "consistent");
	assert_string_equal(meta(f, "check.excused"), "1");
}

static void a_pause_hides_nothing_else(void **state)
{
	struct fixture *f = *state;

	gt_collect_paused(f->c, 2000, 3000);
	record(f, 3100, 9, GT_ACQUIRE);
	record(f, 3200, 7, GT_ACQUIRE);
	finish(f, 9000, 0, 0);
	assert_string_equal(meta(f, "check.result"), "sites missing");
	assert_string_equal(meta(f, "check.mismatches"), "1");
}

/* Had it come in time, it would have been before the pause: now it is nowhere. */
static void what_comes_too_late_is_lost(void **state)
{
	struct fixture *f = *state;
	struct gil_event ev;

	record(f, 1000, 7, GT_ACQUIRE);
	gt_collect_paused(f->c, 2000, 3000);
	record(f, 1999, 7, GT_RELEASE);
	record(f, 2999, 8, GT_WAIT);
	record(f, 3000, 9, GT_RELEASE); /* who has acquired it in the pause */
	record_lost(f, 3500, 3100, 10);
	finish(f, 9000, 15, 4000);
	assert_event(f, GIL_ACQUIRE, 1000, 7);
	assert_pause(f, 2000, 3000);
	for (int i = 0; i < 2; i++) {
		ev = next(f);
		assert_int_equal(ev.kind, GIL_LOST);
		assert_int_equal(ev.mono_ns, 3000);
		assert_int_equal(ev.lost.begin_mono_ns, 3000);
		assert_int_equal(ev.lost.count, 1);
	}
	assert_event(f, GIL_RELEASE, 3000, 9);
	assert_int_equal(next(f).lost.count, 10);
	assert_int_equal(next(f).lost.count, 5);
	assert_at_end(f);
	assert_int_equal(f->stats.events, 2);
	assert_int_equal(f->stats.lost, 17);
	assert_int_equal(gil_reader_lost_total(f->r), 17);
	assert_string_equal(meta(f, "check.result"), "consistent");
}

/* The end of a wait is no event that counts, late or lost. */
static void the_end_of_a_wait_that_comes_too_late(void **state)
{
	struct fixture *f = *state;
	struct gil_event ev;

	record(f, 1000, 7, GT_WAIT);
	gt_collect_paused(f->c, 2000, 3000);
	record(f, 1999, 7, GT_LEFT);
	finish(f, 9000, 0, 0);
	assert_event(f, GIL_WAIT, 1000, 7);
	assert_pause(f, 2000, 3000);
	ev = next(f);
	assert_int_equal(ev.kind, GIL_LOST);
	assert_int_equal(ev.lost.count, 0);
	assert_at_end(f);
	assert_int_equal(f->stats.lost, 0);
}

/* A thread that was blocked at the start waited until the pause at least. */
static void what_was_before_is_settled(void **state)
{
	const struct gt_snapshot_gils not_told = {0};
	const struct gt_snapshot_thread blocked = {.tid = own_tid(), .futex = 0x7000};
	struct fixture *f = *state;

	gt_collect_gil(f->c, 2, 0x7000, 900);
	assert_int_equal(gt_collect_before(f->c, 1000, &not_told, &blocked, 1), 0);
	gt_collect_paused(f->c, 2000, 3000);
	record(f, 3100, own_tid(), GT_WAIT);
	finish(f, 9000, 0, 0);
	assert_int_equal(next(f).kind, GIL_GIL);
	assert_int_equal(next(f).kind, GIL_THREAD);
	assert_event(f, GIL_BEFORE, 1000, own_tid());
	assert_pause(f, 2000, 3000);
	assert_event(f, GIL_WAIT, 3100, own_tid());
	assert_at_end(f);
}

/* Its own first event, which tells of the start, may be among those that were lost. */
static void nothing_is_settled_behind_a_loss(void **state)
{
	const struct gt_snapshot_gils not_told = {0};
	const struct gt_snapshot_thread blocked = {.tid = own_tid(), .futex = 0x7000};
	struct fixture *f = *state;

	gt_collect_gil(f->c, 2, 0x7000, 900);
	assert_int_equal(gt_collect_before(f->c, 1000, &not_told, &blocked, 1), 0);
	record_lost(f, 2000, 1500, 3); /* as gt_tracer_cut() tells of it */
	gt_collect_paused(f->c, 2000, 3000);
	finish(f, 9000, 3, 0);
	assert_int_equal(next(f).kind, GIL_GIL);
	assert_int_equal(next(f).kind, GIL_LOST);
	assert_pause(f, 2000, 3000);
	assert_at_end(f);
}

/* Nobody tells of the end of a thread in a pause; its id may be another's afterwards. */
static void ends_in_a_pause_are_noticed(void **state)
{
	struct fixture *f = *state;
	uint32_t tids[] = {GONE, own_tid(), GONE + 1};

	prctl(PR_SET_NAME, "lives on");
	record_who(f, GONE, 17, 0, "worker");
	record_who(f, own_tid(), own_tid(), 0, "lives on");
	gt_collect_tick(f->c, 1100);
	record_who(f, GONE + 1, 18, 0, "worker"); /* not moved to the table yet */
	record(f, 1200, GONE + 2, GT_EXIT);
	gt_collect_paused(f->c, 2000, 3000);
	for (size_t i = 0; i < 3; i++) /* BPF has forgotten whom it has told of */
		record_who(f, tids[i], i == 1 ? own_tid() : 17 + (uint32_t)i / 2, 0,
			   i == 1 ? "lives on" : "worker");
	gt_collect_paused(f->c, 4000, 5000);
	gt_collect_paused(f->c, 6000, 7000);
	finish(f, 9000, 0, 0);
	for (size_t i = 0; i < 3; i++)
		assert_event(f, GIL_THREAD, 1000, tids[i]);
	assert_event(f, GIL_EXIT, 1200, GONE + 2);
	assert_pause(f, 2000, 3000);
	assert_event(f, GIL_EXIT, 3000, GONE);
	assert_event(f, GIL_EXIT, 3000, GONE + 1);
	assert_event(f, GIL_THREAD, 1000, GONE);
	assert_event(f, GIL_THREAD, 1000, GONE + 1);
	assert_pause(f, 4000, 5000);
	assert_event(f, GIL_EXIT, 5000, GONE);
	assert_event(f, GIL_EXIT, 5000, GONE + 1);
	assert_pause(f, 6000, 7000); /* once */
	assert_at_end(f);
	assert_int_equal(f->stats.threads, 5);
}

/* The process ends while it is paused: nothing can be asked any more. */
static void the_end_in_a_pause(void **state)
{
	struct fixture *f = *state;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		pause();
		_exit(0);
	}
	gt_proc_close(&f->proc);
	assert_int_equal(gt_proc_open(pid, &f->proc), 0);
	record_who(f, (uint32_t)pid, (uint32_t)pid, 0, "worker");
	record(f, 1000, (uint32_t)pid, GT_ACQUIRE);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	gt_collect_paused(f->c, 2000, 3000);
	finish_as(f, GIL_END_TARGET_EXIT, 3000, 0, 0);
	assert_event(f, GIL_THREAD, 1000, (uint32_t)pid);
	assert_event(f, GIL_ACQUIRE, 1000, (uint32_t)pid);
	assert_pause(f, 2000, 3000);
	assert_at_end(f);
}

/* ---- marks ---- */

static void assert_mark(struct fixture *f, uint32_t tid, const char *name)
{
	struct gil_event ev = next(f);

	assert_int_equal(ev.kind, GIL_MARK);
	assert_int_equal(ev.tid, tid);
	assert_string_equal(ev.mark.name, name);
}

static void a_mark_has_its_time(void **state)
{
	struct gil_clock begin = {.mono_ns = gt_mono_ns(), .unix_ns = 1};
	struct fixture *f = *state;
	struct gil_event ev;
	uint64_t now;

	gt_collect_clock(f->c, &begin);
	now = gt_mono_ns();
	record(f, now + 10, 7, GT_ACQUIRE);
	gt_collect_mark(f->c, now, 0, "\xc3\xa4 step\n1");
	gt_collect_mark(f->c, now, 0, "");
	gt_collect_mark(f->c, 5, 0, "before the start");
	gt_collect_mark(f->c, UINT64_MAX, 0, "in a thousand years");
	finish(f, gt_mono_ns(), 0, 0);
	assert_event(f, GIL_ACQUIRE, now + 10, 7);
	ev = next(f);
	assert_int_equal(ev.kind, GIL_MARK);
	assert_int_equal(ev.mono_ns, now);
	assert_int_equal(ev.tid, 0);
	assert_string_equal(ev.mark.name, "\xc3\xa4 step\n1");
	ev = next(f);
	assert_int_equal(ev.mono_ns, begin.mono_ns);
	assert_string_equal(ev.mark.name, "before the start");
	ev = next(f);
	assert_in_range(ev.mono_ns, now, gt_mono_ns());
	assert_at_end(f);
	assert_int_equal(f->stats.events, 1);
}

/* Also a thread that has no event, and in a pause; but who it is stands there once. */
static void a_mark_introduces_its_thread(void **state)
{
	struct fixture *f = *state;
	uint64_t now = gt_mono_ns();
	struct gil_event ev;

	prctl(PR_SET_NAME, "marks only");
	gt_collect_mark(f->c, now, own_tid(), "a");
	gt_collect_tick(f->c, now);
	gt_collect_paused(f->c, now, now + 1);
	gt_collect_mark(f->c, now, own_tid(), "b");
	record_who(f, own_tid(), own_tid(), 0, "marks only");
	gt_collect_mark(f->c, now, UINT32_MAX - 1, "nobody");
	finish(f, gt_mono_ns(), 0, 0);
	ev = next(f);
	assert_int_equal(ev.kind, GIL_THREAD);
	assert_int_equal(ev.tid, own_tid());
	assert_string_equal(ev.thread.comm, "marks only");
	assert_mark(f, own_tid(), "a");
	assert_pause(f, now, now + 1);
	assert_mark(f, own_tid(), "b");
	assert_mark(f, 0, "nobody");
	assert_at_end(f);
	assert_int_equal(f->stats.threads, 1);
}

#define ENDS_KEPT 256u /* as collect_private.h has it */

static void record_end(struct fixture *f, uint64_t ns, uint32_t tid, uint32_t ns_tid)
{
	record_who(f, tid, ns_tid, 0, "worker");
	record(f, ns, tid, GT_EXIT);
}

static void skip_ends(struct fixture *f, uint32_t n)
{
	while (n--) {
		assert_int_equal(next(f).kind, GIL_THREAD);
		assert_int_equal(next(f).kind, GIL_EXIT);
	}
}

/* What has been recorded of a thread tells its id, though it ends before the mark is read. */
static void a_mark_of_a_thread_that_is_known(void **state)
{
	struct fixture *f = *state;
	uint64_t now = gt_mono_ns();

	record_who(f, GONE, 4000017, 0, "worker");
	gt_collect_mark(f->c, now, 4000017, "new");
	gt_collect_tick(f->c, now);
	gt_collect_mark(f->c, now, 4000017, "old");
	record(f, now, GONE, GT_EXIT);
	gt_collect_mark(f->c, now, 4000017, "ended");
	for (uint32_t i = 1; i < ENDS_KEPT; i++)
		record_end(f, now, GONE + i, 4000017 + i);
	gt_collect_mark(f->c, now, 4000017, "ended long ago");
	record_end(f, now, GONE + ENDS_KEPT, 4000017 + ENDS_KEPT);
	gt_collect_mark(f->c, now, 4000017, "too long ago");
	finish(f, gt_mono_ns(), 0, 0);
	assert_int_equal(next(f).kind, GIL_THREAD);
	assert_mark(f, GONE, "new");
	assert_mark(f, GONE, "old");
	assert_int_equal(next(f).kind, GIL_EXIT);
	assert_mark(f, GONE, "ended");
	skip_ends(f, ENDS_KEPT - 1);
	assert_mark(f, GONE, "ended long ago");
	skip_ends(f, 1);
	assert_mark(f, 0, "too long ago");
	assert_at_end(f);
}

static void *wait_for_ever(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

/* A program of many threads, of which short ones make marks and end, must not be slow to record. */
static void marks_of_threads_that_have_ended(void **state)
{
	enum { THREADS = 300, MARKS = 2000, LIMIT_S = 5 };
	struct fixture *f = *state;
	uint64_t begin_ns;

	for (int i = 0; i < THREADS; i++) {
		pthread_attr_t attr;
		pthread_t thread;

		assert_int_equal(pthread_attr_init(&attr), 0);
		assert_int_equal(pthread_attr_setstacksize(&attr, 65536), 0);
		assert_int_equal(pthread_create(&thread, &attr, wait_for_ever, NULL), 0);
		pthread_attr_destroy(&attr);
	}
	begin_ns = gt_mono_ns();
	for (int i = 0; i < MARKS; i++)
		gt_collect_mark(f->c, begin_ns, GONE, "too late");
	/* To look at all threads for each would take half a minute. */
	assert_true(gt_mono_ns() - begin_ns < LIMIT_S * 1000000000ull);
	finish(f, gt_mono_ns(), 0, 0);
	for (int i = 0; i < MARKS; i++)
		assert_mark(f, 0, "too late");
	assert_at_end(f);
}

static void *tell_and_wait(void *arg)
{
	uint32_t tid = own_tid();

	prctl(PR_SET_NAME, "inside");
	if (write(*(int *)arg, &tid, sizeof(tid)) != sizeof(tid))
		_exit(1);
	for (;;)
		pause();
	return NULL;
}

/* A process in a PID namespace of its own; *tid: what its second thread calls itself. */
static pid_t start_inside(uint32_t *tid)
{
	pthread_t thread;
	int out[2];
	pid_t pid;

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (pthread_create(&thread, NULL, tell_and_wait, &out[1]))
			_exit(1);
		for (;;)
			pause();
	}
	if (pid > 0)
		assert_int_equal(read(out[0], tid, sizeof(*tid)), sizeof(*tid));
	close(out[0]);
	close(out[1]);
	return pid;
}

/* A program in a container knows its threads by other ids than the recorder. */
static void a_mark_out_of_a_namespace(void **state)
{
	struct gil_event ev;
	struct fixture *f;
	uint32_t ns_tid = 0, tid;
	uint64_t now;
	pid_t pid = start_inside(&ns_tid);

	if (pid < 0 && errno == EPERM)
		skip();
	assert_true(pid > 0);
	assert_int_equal(setup_for(state, pid), 0);
	f = *state;
	now = gt_mono_ns();
	gt_collect_mark(f->c, now, ns_tid, "out of a container");
	gt_collect_mark(f->c, now, 1, "its first");
	gt_collect_mark(f->c, now, (uint32_t)pid, "not its id there");
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	finish(f, gt_mono_ns(), 0, 0);
	ev = next(f);
	tid = ev.tid;
	assert_int_equal(ev.kind, GIL_THREAD);
	assert_int_equal(ev.thread.ns_tid, ns_tid);
	assert_int_not_equal(tid, ns_tid);
	assert_string_equal(ev.thread.comm, "inside");
	assert_mark(f, tid, "out of a container");
	assert_event(f, GIL_THREAD, now, (uint32_t)pid);
	assert_mark(f, (uint32_t)pid, "its first");
	assert_mark(f, 0, "not its id there");
	assert_at_end(f);
	teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_pause_begins_behind_all_events, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_pause_hides_adds_up, setup, teardown),
		cmocka_unit_test_setup_teardown(a_pause_hides_nothing_else, setup, teardown),
		cmocka_unit_test_setup_teardown(what_comes_too_late_is_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(the_end_of_a_wait_that_comes_too_late, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_was_before_is_settled, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_is_settled_behind_a_loss, setup, teardown),
		cmocka_unit_test_setup_teardown(ends_in_a_pause_are_noticed, setup, teardown),
		cmocka_unit_test_setup_teardown(the_end_in_a_pause, setup, teardown),
		cmocka_unit_test_setup_teardown(a_mark_has_its_time, setup, teardown),
		cmocka_unit_test_setup_teardown(a_mark_introduces_its_thread, setup, teardown),
		cmocka_unit_test_setup_teardown(a_mark_of_a_thread_that_is_known, setup, teardown),
		cmocka_unit_test(a_mark_out_of_a_namespace),
		/* The last: its threads stay. */
		cmocka_unit_test_setup_teardown(marks_of_threads_that_have_ended, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
