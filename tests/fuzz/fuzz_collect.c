// SPDX-License-Identifier: Apache-2.0
/*
 * Any sequence of what comes from a ring, and of what the session does meanwhile: the file that
 * becomes of it is whole, and recorded + lost is what there was. The input is a list of steps of
 * STEP bytes: what, which thread, which GIL, time since the last one, and two that depend.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "clock.h"
#include "collect.h"
#include "must.h"

#define STEP 6

struct run {
	struct gt_collector *c;
	uint64_t now_ns, lost_total, gap_begin_ns;
	uint64_t events; /* handed to the collector, or lost */
	uint32_t malformed;
};

/* As the BPF program may tell it: GILs beyond the table are all one. */
static struct gt_rec head(const struct run *r, const uint8_t *p, uint8_t kind)
{
	return (struct gt_rec){.ts_ns = r->now_ns,
			       .tid = 1 + p[1] % 8,
			       .kind = kind,
			       .gil = p[2] & 1 ? GT_GIL_OTHER : p[2] / 2 % GT_MAX_GILS,
			       .site = p[4],
			       .flags = p[5]};
}

static void event(struct run *r, const uint8_t *p, uint8_t kind)
{
	struct gt_rec rec = head(r, p, kind);

	if (kind <= GT_DROPPED) /* only ends are told of threads that nobody knows */
		rec.flags &= GT_REC_FORCED;
	r->events += kind <= GT_DROPPED;
	gt_collect_record(r->c, &rec, sizeof(rec));
}

static void thread(struct run *r, const uint8_t *p)
{
	struct gt_rec_thread rec = {
		.rec = head(r, p, GT_THREAD), .ns_tid = p[4] % 16, .host_tid = p[5]};

	memset(rec.comm, p[4], p[5] % (GT_COMM_LEN + 1));
	gt_collect_record(r->c, &rec.rec, sizeof(rec));
}

static void gil(struct run *r, const uint8_t *p)
{
	struct gt_rec_gil rec = {.rec = head(r, p, GT_GIL), .addr = 0x1000 + p[4] * 8u};

	gt_collect_record(r->c, &rec.rec, sizeof(rec));
}

/* Some are lost; told of now, or later. */
static void lose(struct run *r, const uint8_t *p)
{
	struct gt_rec_lost rec = {.rec = head(r, p, GT_LOST)};

	if (!r->gap_begin_ns)
		r->gap_begin_ns = r->now_ns - p[4];
	r->lost_total += p[5];
	r->events += p[5];
	if (p[2] & 2)
		return;
	rec.begin_ns = r->gap_begin_ns;
	rec.total = r->lost_total;
	r->gap_begin_ns = 0;
	gt_collect_record(r->c, &rec.rec, sizeof(rec));
}

static void malformed(struct run *r, const uint8_t *p)
{
	struct gt_rec_lost rec = {.rec = head(r, p, p[4] | 1u << 5)};

	gt_collect_record(r->c, &rec.rec, sizeof(rec) - p[5] % 2);
	r->malformed++;
}

static void names(struct run *r, const uint8_t *p)
{
	struct gt_pyname list[4] = {{.ns_tid = 0}};
	size_t n = 1 + p[4] % 4;

	for (size_t i = 0; i < n; i++) {
		list[i].ns_tid = 1 + (uint32_t)i * 2 + p[1] % 8;
		memset(list[i].name, 'a' + p[5] % 26, 1 + p[5] % (GT_PYNAME_LEN - 1));
	}
	(void)gt_collect_wants_names(r->c);
	(void)gt_collect_names(r->c, list, n, r->now_ns);
}

static void before(struct run *r, const uint8_t *p)
{
	const struct gt_snapshot_gils gils = {
		.told = 1,
		.n = 1,
		.gil = {{.cond = 0x1000 + p[4] * 8u,
			 .holder = p[1] % 8,
			 .locked = 1,
			 .enabled = 1}},
	};
	const struct gt_snapshot_thread list[] = {
		{.tid = 1 + p[2] % 8, .futex = 0x1000 + p[5] * 8u}};

	gt_collect_gil(r->c, p[2] % GT_MAX_GILS, gils.gil[0].cond, r->now_ns);
	MUST(!gt_collect_before(r->c, r->now_ns, &gils, list, GT_ARRAY_SIZE(list)));
}

static void pause_it(struct run *r, const uint8_t *p)
{
	uint64_t begin_ns = r->now_ns;

	r->now_ns += p[4] * 1000u;
	gt_collect_paused(r->c, begin_ns, r->now_ns);
}

static void step(struct run *r, const uint8_t *p)
{
	static void (*const others[])(struct run * r, const uint8_t *p) = {
		thread, gil, lose, malformed, names, pause_it};
	static const uint8_t events[] = {GT_WAIT, GT_ACQUIRE, GT_RELEASE, GT_YIELD,
					 GT_TAKE, GT_DROPPED, GT_EXIT,    GT_LEFT};
	char name[300] = {0};

	/* Threads of two GILs may tell of their events in another order than that of time. */
	r->now_ns += p[3] < 8 ? -(uint64_t)p[3] : p[3] * (uint64_t)p[3] * 100;
	if (p[0] & 0x80) {
		event(r, p, events[p[0] % GT_ARRAY_SIZE(events)]);
	} else if (p[0] % 8 < GT_ARRAY_SIZE(others)) {
		others[p[0] % 8](r, p);
	} else if (p[0] % 8 == 6) {
		(void)gt_collect_tick(r->c, r->now_ns + p[4] * 100000000ull);
	} else {
		memset(name, 'm', p[5]);
		gt_collect_mark(r->c, r->now_ns - p[4], p[1] % 16, name);
	}
}

/* ---- the file ---- */

static void check(int fd, const struct run *r, const struct gt_collect_stats *stats)
{
	uint64_t events = 0, lost = 0;
	struct gil_event ev;
	char why[300];
	gil_reader *reader;

	MUST(!gil_reader_open_fd(fd, "fuzz", &reader, why, sizeof(why)));
	while (gil_reader_next(reader, &ev)) {
		events += ev.kind <= GIL_DROPPED;
		if (ev.kind == GIL_LOST)
			lost += ev.lost.count;
	}
	if (gil_reader_problem(reader))
		fprintf(stderr, "%s\n", gil_reader_problem(reader));
	MUST(!gil_reader_problem(reader) && gil_reader_end_reason(reader));
	MUST(events == stats->events && lost == stats->lost && !stats->unwritten);
	if (events + lost != r->events)
		fprintf(stderr, "%llu recorded, %llu lost, %llu in truth\n",
			(unsigned long long)events, (unsigned long long)lost,
			(unsigned long long)r->events);
	MUST(events + lost == r->events && stats->malformed == r->malformed);
	gil_reader_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gt_proc proc = {.pid = getpid(), .pidfd = -1, .mapsfd = -1};
	struct run r = {.now_ns = gt_mono_ns()};
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct gt_collect_stats stats;
	struct gil_clock clock = {.mono_ns = r.now_ns, .unix_ns = r.now_ns + 1};
	struct gt_gilfile *file;

	if (size < STEP) {
		close(fd);
		return 0;
	}
	proc.procfd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(fd >= 0 && proc.procfd >= 0 && !gt_gilfile_create(dup(fd), &file));
	r.c = gt_collect_new(file, &proc);
	MUST(r.c && !gt_collect_clock(r.c, &clock));
	if (data[0] & 1)
		before(&r, data);
	for (size_t at = 0; at + STEP <= size; at += STEP)
		step(&r, data + at);
	MUST(!gt_collect_finish(r.c, GIL_END_STOPPED, r.now_ns, r.lost_total, r.gap_begin_ns,
				&stats));
	check(fd, &r, &stats);
	close(proc.procfd);
	close(fd);
	return 0;
}
