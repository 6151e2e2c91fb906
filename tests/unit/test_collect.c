// SPDX-License-Identifier: Apache-2.0
/* collect.c: records of the ring become events of the file; losses and names are not forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "clock.h"
#include "collect.h"
#include "gilfile_codec.h"

struct fixture {
	struct gt_proc proc;
	struct gt_collector *c;
	struct gt_collect_stats stats;
	gil_reader *r;
	int fd; /* our own descriptor of the file */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct gt_gilfile *file;

	if (!f || gt_proc_open(getpid(), &f->proc))
		return -1;
	f->fd = memfd_create("test", MFD_CLOEXEC);
	if (f->fd < 0 || gt_gilfile_create(dup(f->fd), &file))
		return -1;
	f->c = gt_collect_new(file, &f->proc);
	*state = f;
	return !f->c;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	gil_reader_close(f->r);
	gt_proc_close(&f->proc);
	close(f->fd);
	free(f);
	return 0;
}

static void record(struct fixture *f, uint64_t ns, uint32_t tid, uint8_t kind)
{
	struct gt_rec rec = {.ts_ns = ns, .tid = tid, .kind = kind, .gil = 2, .site = 5};

	gt_collect_record(f->c, &rec, sizeof(rec));
}

static void record_thread(struct fixture *f, uint64_t ns, uint32_t tid, const char *comm)
{
	struct gt_rec_thread rec = {.rec = {.ts_ns = ns, .tid = tid, .kind = GT_THREAD},
				    .ns_tid = tid + 1};

	snprintf(rec.comm, sizeof(rec.comm), "%s", comm);
	gt_collect_record(f->c, &rec.rec, sizeof(rec));
}

static void record_lost(struct fixture *f, uint64_t ns, uint64_t begin, uint64_t total)
{
	struct gt_rec_lost rec = {
		.rec = {.ts_ns = ns, .kind = GT_LOST}, .begin_ns = begin, .total = total};

	gt_collect_record(f->c, &rec.rec, sizeof(rec));
}

static void finish(struct fixture *f, uint64_t stop, uint64_t lost, uint64_t gap_begin)
{
	char why[256];

	assert_int_equal(gt_collect_finish(f->c, GIL_END_STOPPED, stop, lost, gap_begin, &f->stats),
			 0);
	if (gt_reader_open_fd(dup(f->fd), "test", &f->r, why, sizeof(why)))
		fail_msg("%s", why);
}

static struct gil_event next(struct fixture *f)
{
	struct gil_event ev;

	if (gil_reader_next(f->r, &ev) != 1)
		fail_msg("no event: %s", gil_reader_problem(f->r));
	return ev;
}

static void assert_at_end(struct fixture *f)
{
	struct gil_event ev;

	assert_int_equal(gil_reader_next(f->r, &ev), 0);
	assert_null(gil_reader_problem(f->r));
}

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
	finish(f, 3000, 0, 0);
	assert_at_end(f);
	assert_int_equal(f->stats.malformed, 5);
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
