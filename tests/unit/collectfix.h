/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collectfix.h - for tests of the collector: records of a ring, and the file that becomes of them.
 * cmocka.h comes before.
 */
#ifndef GT_TEST_COLLECTFIX_H
#define GT_TEST_COLLECTFIX_H

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

static inline int setup_for(void **state, pid_t pid)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct gt_gilfile *file;

	if (!f || gt_proc_open(pid, &f->proc))
		return -1;
	f->fd = memfd_create("test", MFD_CLOEXEC);
	if (f->fd < 0 || gt_gilfile_create(dup(f->fd), &file))
		return -1;
	f->c = gt_collect_new(file, &f->proc);
	*state = f;
	return !f->c;
}

static inline int setup(void **state)
{
	return setup_for(state, getpid());
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	gil_reader_close(f->r);
	gt_proc_close(&f->proc);
	close(f->fd);
	free(f);
	return 0;
}

static inline void record(struct fixture *f, uint64_t ns, uint32_t tid, uint8_t kind)
{
	struct gt_rec rec = {.ts_ns = ns, .tid = tid, .kind = kind, .gil = 2, .site = 5};

	gt_collect_record(f->c, &rec, sizeof(rec));
}

static inline void record_thread(struct fixture *f, uint64_t ns, uint32_t tid, const char *comm)
{
	struct gt_rec_thread rec = {.rec = {.ts_ns = ns, .tid = tid, .kind = GT_THREAD},
				    .ns_tid = tid + 1};

	snprintf(rec.comm, sizeof(rec.comm), "%s", comm);
	gt_collect_record(f->c, &rec.rec, sizeof(rec));
}

static inline void record_who(struct fixture *f, uint32_t tid, uint32_t ns_tid, uint32_t host_tid,
			      const char *comm)
{
	struct gt_rec_thread rec = {.rec = {.ts_ns = 1000, .tid = tid, .kind = GT_THREAD},
				    .ns_tid = ns_tid,
				    .host_tid = host_tid};

	snprintf(rec.comm, sizeof(rec.comm), "%s", comm);
	gt_collect_record(f->c, &rec.rec, sizeof(rec));
}

static inline void record_lost(struct fixture *f, uint64_t ns, uint64_t begin, uint64_t total)
{
	struct gt_rec_lost rec = {
		.rec = {.ts_ns = ns, .kind = GT_LOST}, .begin_ns = begin, .total = total};

	gt_collect_record(f->c, &rec.rec, sizeof(rec));
}

static inline void finish_as(struct fixture *f, enum gil_end_reason reason, uint64_t stop,
			     uint64_t lost, uint64_t gap_begin)
{
	char why[256];

	assert_int_equal(gt_collect_finish(f->c, reason, stop, lost, gap_begin, &f->stats), 0);
	if (gil_reader_open_fd(dup(f->fd), "test", &f->r, why, sizeof(why)))
		fail_msg("%s", why);
}

static inline void finish(struct fixture *f, uint64_t stop, uint64_t lost, uint64_t gap_begin)
{
	finish_as(f, GIL_END_STOPPED, stop, lost, gap_begin);
}

static inline struct gil_event next(struct fixture *f)
{
	struct gil_event ev;

	if (gil_reader_next(f->r, &ev) != 1)
		fail_msg("no event: %s", gil_reader_problem(f->r));
	return ev;
}

static inline void assert_at_end(struct fixture *f)
{
	struct gil_event ev;

	assert_int_equal(gil_reader_next(f->r, &ev), 0);
	assert_null(gil_reader_problem(f->r));
}

/* Value of a META key; empty: absent. */
static inline const char *meta(struct fixture *f, const char *key)
{
	const char *value = gil_reader_meta(f->r, key);

	return value ? value : "";
}

#endif
