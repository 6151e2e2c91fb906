// SPDX-License-Identifier: Apache-2.0
/*
 * flight.c and flight_write.c: what is in memory, and what becomes of it in a file. Times are in
 * units of 1 ms, as a window is some seconds long.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>

#include "flight.h"
#include "gilhistory.h"
#include "gilmake.h"
#include "selfcheck.h"

#define MS 1000000ull

struct fixture {
	struct gt_flight *f;
	struct gt_gilfile *in; /* what is written to it is kept */
	struct gt_flight_written written;
	gil_reader *r;
	uint64_t lost;
	int filled;
};

static void open_with(struct fixture *x, struct gt_flight_opts opts)
{
	if (!opts.memory)
		opts.memory = 1 << 20;
	x->f = gt_flight_new(&opts);
	assert_non_null(x->f);
	assert_int_equal(gt_gilfile_create_kept(gt_flight_keep, x->f, &x->in), 0);
}

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct fixture));
	return !*state;
}

static void end(struct fixture *x)
{
	gil_reader_close(x->r);
	if (x->in)
		gt_gilfile_finish(x->in, GIL_END_STOPPED, 1, 0, NULL);
	gt_flight_free(x->f);
	memset(x, 0, sizeof(*x));
}

static int teardown(void **state)
{
	end(*state);
	free(*state);
	return 0;
}

static void add(struct fixture *x, const struct gil_event *ev)
{
	if (ev->kind == GIL_LOST)
		x->lost += ev->lost.count;
	assert_int_equal(gt_gilfile_add(x->in, ev, x->lost), 0);
}

static void put(struct fixture *x, uint64_t ms, uint32_t tid, uint8_t kind)
{
	const struct gil_event ev = {.mono_ns = ms * MS, .tid = tid, .kind = kind};

	add(x, &ev);
}

static void put_thread(struct fixture *x, uint64_t ms, uint32_t tid, const char *name)
{
	struct gil_event ev = {.mono_ns = ms * MS, .tid = tid, .kind = GIL_THREAD};

	strcpy(ev.thread.comm, "python3");
	ev.thread.ns_tid = tid + 1;
	ev.thread.name = name;
	add(x, &ev);
}

static void put_gil(struct fixture *x, uint64_t ms, uint64_t addr)
{
	struct gil_event ev = {.mono_ns = ms * MS, .kind = GIL_GIL};

	ev.gil_ident.addr = addr;
	add(x, &ev);
}

/* The block ends, and it is that late. */
static size_t tick(struct fixture *x, uint64_t ms, struct gt_stretch *first)
{
	struct gt_stretch unused;

	assert_int_equal(gt_gilfile_flush(x->in, x->lost), 0);
	return gt_flight_tick(x->f, ms * MS, first ? first : &unused);
}

static void write_as(struct fixture *x, const struct gt_flight_cut *cut)
{
	int fd = memfd_create("window", MFD_CLOEXEC), keep = dup(fd);
	struct gt_gilfile *out;
	char why[256];

	assert_int_equal(gt_gilfile_flush(x->in, x->lost), 0);
	assert_int_equal(gt_gilfile_create(fd, &out), 0);
	assert_int_equal(gt_flight_write(x->f, out, cut, &x->written), 0);
	gil_reader_close(x->r);
	if (gil_reader_open_fd(keep, "window", &x->r, why, sizeof(why)))
		fail_msg("%s", why);
	assert_int_equal(gil_reader_end_reason(x->r), cut->reason);
	assert_int_equal(gil_reader_lost_total(x->r), x->written.lost);
}

static struct gt_flight_cut cut_at(uint64_t ms)
{
	return (struct gt_flight_cut){
		.trigger = "signal", .reason = GIL_END_WINDOW, .end_ns = ms * MS};
}

static void write_at(struct fixture *x, uint64_t ms)
{
	const struct gt_flight_cut cut = cut_at(ms);

	write_as(x, &cut);
}

static struct gil_event next(struct fixture *x)
{
	struct gil_event ev;

	if (gil_reader_next(x->r, &ev) != 1)
		fail_msg("no event: %s", gil_reader_problem(x->r));
	return ev;
}

static struct gil_event assert_next(struct fixture *x, uint64_t ms, uint32_t tid, uint8_t kind)
{
	struct gil_event ev = next(x);

	assert_int_equal(ev.kind, kind);
	assert_int_equal(ev.mono_ns, ms * MS);
	assert_int_equal(ev.tid, tid);
	return ev;
}

static void assert_before(struct fixture *x, uint64_t ms, uint32_t tid, enum gil_before what)
{
	assert_int_equal(assert_next(x, ms, tid, GIL_BEFORE).before.state, what);
}

static void assert_at_end(struct fixture *x)
{
	struct gil_event ev;

	assert_int_equal(gil_reader_next(x->r, &ev), 0);
	assert_null(gil_reader_problem(x->r));
}

static const char *meta(struct fixture *x, const char *key)
{
	const char *value = gil_reader_meta(x->r, key);

	return value ? value : "";
}

/* ---- windows ---- */

/* All is there still: a file as any other. */
static void before_it_is_full(void **state)
{
	static const char *const about[][2] = {{"giltrace.version", "1"}};
	const struct gil_site site = {.offset = 77, .kind = GIL_WAIT, .how = "told"};
	const struct gil_clock clock = {5 * MS, 6, 7, 8, 9};
	struct fixture *x = *state;

	open_with(x, (struct gt_flight_opts){.window_ns = 1000 * MS});
	gt_gilfile_meta(x->in, about, 1);
	gt_gilfile_sites(x->in, &site, 1);
	gt_gilfile_clock(x->in, &clock);
	put_thread(x, 10, 7, "MainThread");
	put(x, 10, 7, GIL_ACQUIRE);
	assert_int_equal(tick(x, 900, NULL), 0);
	put(x, 910, 7, GIL_RELEASE);
	write_at(x, 1000);
	assert_string_equal(assert_next(x, 10, 7, GIL_THREAD).thread.name, "MainThread");
	assert_next(x, 10, 7, GIL_ACQUIRE);
	assert_next(x, 910, 7, GIL_RELEASE);
	assert_at_end(x);
	assert_string_equal(meta(x, "giltrace.version"), "1");
	assert_string_equal(meta(x, "recording.trigger"), "signal");
	assert_string_equal(meta(x, "recording.ring_seconds"), "1.000000000");
	assert_string_equal(meta(x, "recording.window_ns"), "995000000");
	assert_string_equal(meta(x, "recording.window_cut"), "");
	assert_string_equal(meta(x, "check.result"), "consistent");
	assert_int_equal(gil_reader_sites(x->r), 1);
	assert_int_equal(gil_reader_site(x->r, 0)->offset, 77);
	assert_int_equal(gil_reader_clocks(x->r), 1);
	assert_int_equal(gil_reader_clock(x->r, 0)->unix_ns, 7);
	assert_int_equal(x->written.events, 2);
}

static void fill_and_move_on(struct fixture *x)
{
	open_with(x, (struct gt_flight_opts){.window_ns = 1000 * MS});
	put_gil(x, 10, 0x1000);
	put_thread(x, 10, 7, "MainThread");
	put(x, 10, 7, GIL_ACQUIRE);
	put_thread(x, 20, 8, "worker");
	put(x, 20, 8, GIL_WAIT);
	put_thread(x, 30, 9, "gone");
	put(x, 30, 9, GIL_EXIT);
	assert_int_equal(tick(x, 40, NULL), 0);
	assert_int_equal(tick(x, 5000, NULL), 0);
}

/* What was before a window stands at its begin. */
static void what_is_known_from_before(void **state)
{
	struct fixture *x = *state;
	struct gil_event ev;

	fill_and_move_on(x);
	put(x, 5100, 7, GIL_RELEASE);
	put(x, 5110, 8, GIL_ACQUIRE);
	write_at(x, 5200);
	ev = assert_next(x, 4200, 0, GIL_GIL);
	assert_int_equal(ev.gil_ident.addr, 0x1000);
	ev = assert_next(x, 4200, 7, GIL_THREAD);
	assert_string_equal(ev.thread.name, "MainThread");
	assert_string_equal(ev.thread.comm, "python3");
	assert_int_equal(ev.thread.ns_tid, 8);
	assert_before(x, 4200, 7, GIL_BEFORE_HOLDING);
	assert_string_equal(assert_next(x, 4200, 8, GIL_THREAD).thread.name, "worker");
	assert_before(x, 4200, 8, GIL_BEFORE_WAITING);
	assert_next(x, 5100, 7, GIL_RELEASE);
	assert_next(x, 5110, 8, GIL_ACQUIRE);
	assert_at_end(x);
	assert_int_equal(gil_reader_first_mono_ns(x->r), 4200 * MS);
	assert_int_equal(gil_reader_last_mono_ns(x->r), 5200 * MS);
	assert_int_equal(x->written.span_ns, 1000 * MS);
}

/* Nothing has happened: they are what they were. Twice, as memory stays as it is. */
static void a_window_without_events(void **state)
{
	struct fixture *x = *state;

	fill_and_move_on(x);
	for (int i = 0; i < 2; i++) {
		write_at(x, 6000);
		assert_next(x, 5000, 0, GIL_GIL);
		assert_next(x, 5000, 7, GIL_THREAD);
		assert_before(x, 5000, 7, GIL_BEFORE_HOLDING);
		assert_next(x, 5000, 8, GIL_THREAD);
		assert_before(x, 5000, 8, GIL_BEFORE_WAITING);
		assert_at_end(x);
		assert_int_equal(x->written.events, 0);
	}
}

/* A gap that comes first: what was before it is not known when the window begins. */
static void a_gap_at_the_begin(void **state)
{
	static const uint8_t gaps[] = {GIL_LOST, GIL_PAUSED};
	struct fixture *x = *state;

	for (size_t i = 0; i < sizeof(gaps); i++) {
		struct gil_event gap = {.mono_ns = 5300 * MS, .kind = gaps[i]};

		fill_and_move_on(x);
		if (gap.kind == GIL_LOST) {
			gap.lost.begin_mono_ns = 100 * MS;
			gap.lost.count = 5;
		} else {
			gap.paused.begin_mono_ns = 100 * MS;
		}
		add(x, &gap);
		put(x, 5310, 8, GIL_ACQUIRE);
		write_at(x, 5900);
		assert_next(x, 4900, 0, GIL_GIL);
		gap = assert_next(x, 5300, 0, gaps[i]);
		assert_int_equal(gap.kind == GIL_LOST ? gap.lost.begin_mono_ns
						      : gap.paused.begin_mono_ns,
				 4900 * MS);
		assert_next(x, 5310, 8, GIL_THREAD);
		assert_next(x, 5310, 8, GIL_ACQUIRE);
		assert_at_end(x);
		assert_int_equal(x->written.lost, gaps[i] == GIL_LOST ? 5 : 0);
		end(x);
	}
}

/* Losses before the window are not its own. */
static void losses_are_those_of_the_window(void **state)
{
	struct gil_event gap = {.mono_ns = 50 * MS, .kind = GIL_LOST};
	struct fixture *x = *state;
	struct gt_flight_cut cut = cut_at(5500);

	gap.lost.begin_mono_ns = 40 * MS;
	gap.lost.count = 1000;
	open_with(x, (struct gt_flight_opts){.window_ns = 1000 * MS});
	put(x, 10, 7, GIL_ACQUIRE);
	add(x, &gap);
	tick(x, 5000, NULL);
	put(x, 5050, 7, GIL_ACQUIRE);
	gap.mono_ns = 5100 * MS;
	gap.lost.begin_mono_ns = 5090 * MS;
	gap.lost.count = 3;
	add(x, &gap);
	/* And those that no record has told of. */
	cut.untold = 4;
	cut.gap_begin_ns = 5200 * MS;
	write_as(x, &cut);
	assert_next(x, 5050, 7, GIL_ACQUIRE);
	assert_int_equal(assert_next(x, 5100, 0, GIL_LOST).lost.count, 3);
	gap = assert_next(x, 5500, 0, GIL_LOST);
	assert_int_equal(gap.lost.count, 4);
	assert_int_equal(gap.lost.begin_mono_ns, 5200 * MS);
	assert_at_end(x);
	assert_int_equal(x->written.lost, 7);
}

static void in_a_pause(void **state)
{
	struct fixture *x = *state;
	struct gt_flight_cut cut = cut_at(5500);

	/* It has begun in the window, ... */
	fill_and_move_on(x);
	put(x, 5100, 7, GIL_RELEASE);
	cut.paused_ns = 5200 * MS;
	write_as(x, &cut);
	for (int i = 0; i < 5; i++)
		next(x);
	assert_next(x, 5100, 7, GIL_RELEASE);
	assert_int_equal(assert_next(x, 5500, 0, GIL_PAUSED).paused.begin_mono_ns, 5200 * MS);
	assert_at_end(x);
	/* ... or before it. */
	end(x);
	fill_and_move_on(x);
	cut.paused_ns = 3000 * MS;
	write_as(x, &cut);
	assert_next(x, 4500, 0, GIL_GIL);
	assert_int_equal(assert_next(x, 5500, 0, GIL_PAUSED).paused.begin_mono_ns, 4500 * MS);
	assert_at_end(x);
}

/* What is told late has a time of before the window; so may a mark. */
static void nothing_is_older_than_the_window(void **state)
{
	struct gil_event before = {.mono_ns = 10 * MS, .tid = 9, .kind = GIL_BEFORE};
	struct gil_event mark = {.mono_ns = 20 * MS, .kind = GIL_MARK};
	struct fixture *x = *state;

	fill_and_move_on(x);
	before.before.state = GIL_BEFORE_WAITING;
	add(x, &before);
	mark.mark.name = "too old";
	add(x, &mark);
	mark.mark.name = "in time";
	mark.mono_ns = 5005 * MS;
	add(x, &mark);
	put(x, 5100, 9, GIL_WAIT);
	write_at(x, 5200);
	for (int i = 0; i < 5; i++)
		next(x);
	assert_before(x, 4200, 9, GIL_BEFORE_WAITING);
	assert_string_equal(assert_next(x, 5005, 0, GIL_MARK).mark.name, "in time");
	assert_next(x, 5100, 9, GIL_WAIT);
	assert_at_end(x);
	assert_int_equal(gil_reader_first_mono_ns(x->r), 4200 * MS);
}

/* ---- memory ---- */

static void memory_is_bounded(void **state)
{
	struct fixture *x = *state;
	struct gt_flight_stats now;
	uint64_t ms = 1;

	open_with(x, (struct gt_flight_opts){.window_ns = 1000000 * MS, .memory = 1 << 20});
	put_gil(x, ms, 0x1000);
	for (int i = 0; i < 400000; i++, ms++) {
		put(x, ms, 7, GIL_ACQUIRE);
		put(x, ms, 7, GIL_RELEASE);
		gt_flight_stats(x->f, &now);
		assert_in_range(now.bytes, 0, 1 << 20);
	}
	assert_true(now.squeezed > 0);
	assert_in_range(now.bytes, 900000, 1 << 20);
	write_at(x, ms);
	assert_string_equal(meta(x, "recording.window_cut"), "memory");
	assert_true(x->written.squeezed);
	assert_int_equal(x->written.span_ns,
			 gil_reader_last_mono_ns(x->r) - gil_reader_first_mono_ns(x->r));
	assert_in_range(x->written.span_ns, 50000 * MS, 399000 * MS);
	/* It is no longer so when those are older than a window that were dropped for it. */
	tick(x, ms + 1000001, NULL);
	write_at(x, ms + 1000001);
	assert_string_equal(meta(x, "recording.window_cut"), "");
	gt_flight_stats(x->f, &now);
	assert_int_equal(now.bytes, 0);
	assert_int_equal(now.records, 0);
}

static void fill_again(void *ctx)
{
	struct fixture *x = ctx;

	for (int i = 0; i < 600000 && !x->filled; i++)
		put(x, 900000, 9, GIL_YIELD);
	x->filled = 1;
}

/*
 * While it is written, other work is done: more comes than there is room for, and what is written
 * has to go, but not what is still to be.
 */
static void more_comes_while_it_is_written(void **state)
{
	struct fixture *x = *state;
	struct gt_flight_stats now;
	struct gt_flight_cut cut = cut_at(800000);
	uint64_t events = 0;
	struct gil_event ev;

	open_with(x, (struct gt_flight_opts){.window_ns = 1000000 * MS, .memory = 1 << 20});
	for (uint64_t ms = 1; ms <= 150000; ms++) {
		put(x, ms, 7, GIL_ACQUIRE);
		put(x, ms, 7, GIL_RELEASE);
	}
	cut.meanwhile = fill_again;
	cut.ctx = x;
	write_as(x, &cut);
	while (gil_reader_next(x->r, &ev) == 1) {
		assert_true(ev.mono_ns == (1 + events / 2) * MS);
		assert_int_equal(ev.kind, events % 2 ? GIL_RELEASE : GIL_ACQUIRE);
		events++;
	}
	assert_at_end(x);
	assert_int_equal(events, 300000);
	tick(x, 900001, NULL);
	put(x, 900002, 9, GIL_YIELD);
	tick(x, 900003, NULL);
	gt_flight_stats(x->f, &now);
	assert_true(now.squeezed > 0);
	assert_in_range(now.bytes, 900000, 1 << 20);
}

/* The disk is full: what is in memory stays, and is written the next time. */
static void a_file_that_cannot_be_written(void **state)
{
	const struct gt_flight_cut cut = cut_at(1000);
	int fd = memfd_create("full", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct fixture *x = *state;
	struct gt_gilfile *out;

	open_with(x, (struct gt_flight_opts){.window_ns = 1000 * MS});
	put(x, 10, 7, GIL_ACQUIRE);
	put(x, 20, 7, GIL_RELEASE);
	tick(x, 30, NULL);
	assert_int_equal(gt_gilfile_create(fd, &out), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	assert_int_equal(gt_flight_write(x->f, out, &cut, &x->written), -EPERM);
	write_at(x, 1000);
	assert_next(x, 10, 7, GIL_ACQUIRE);
	assert_next(x, 20, 7, GIL_RELEASE);
	assert_at_end(x);
}

/* ---- limits ---- */

static void holds_and_waits_that_are_too_long(void **state)
{
	struct fixture *x = *state;
	struct gt_flight_cut cut = cut_at(500);
	struct gt_stretch first;

	open_with(x, (struct gt_flight_opts){
			     .window_ns = 1000 * MS, .hold_ns = 50 * MS, .wait_ns = 100 * MS});
	put(x, 10, 7, GIL_ACQUIRE);
	put(x, 40, 8, GIL_WAIT);
	assert_int_equal(tick(x, 50, &first), 0);
	/* One lasts, ... */
	assert_int_equal(tick(x, 70, &first), 1);
	assert_int_equal(first.begin_ns, 10 * MS);
	assert_int_equal(first.end_ns, 70 * MS);
	assert_int_equal(first.tid, 7);
	assert_false(first.is_wait);
	assert_int_equal(tick(x, 130, &first), 0);
	/* ... one is over when it is seen, and what was told counts no more. */
	put(x, 141, 7, GIL_RELEASE);
	put(x, 141, 8, GIL_ACQUIRE);
	put(x, 142, 8, GIL_RELEASE);
	put(x, 143, 8, GIL_ACQUIRE);
	put(x, 200, 8, GIL_RELEASE);
	assert_int_equal(tick(x, 300, &first), 2);
	assert_true(first.is_wait);
	assert_int_equal(first.end_ns - first.begin_ns, 101 * MS);
	assert_int_equal(tick(x, 400, &first), 0);
	cut.trigger = "wait";
	cut.exceeded = &first;
	cut.suppressed = 3;
	write_as(x, &cut);
	assert_string_equal(meta(x, "recording.trigger"), "wait");
	assert_string_equal(meta(x, "recording.trigger_tid"), "8");
	assert_string_equal(meta(x, "recording.trigger_ns"), "101000000");
	assert_string_equal(meta(x, "recording.trigger_mono_ns"), "141000000");
	assert_string_equal(meta(x, "recording.suppressed"), "3");
	for (int i = 0; i < 7; i++)
		next(x);
	assert_string_equal(assert_next(x, 141, 8, GIL_MARK).mark.name,
			    "giltrace: a wait of 101.0 ms");
	assert_at_end(x);
}

/* They are looked for also where the memory is too small for what comes between two looks. */
static void limits_see_what_leaves_memory_early(void **state)
{
	struct fixture *x = *state;
	struct gt_stretch first;

	open_with(x, (struct gt_flight_opts){
			     .window_ns = 1000000 * MS, .hold_ns = 50 * MS, .memory = 1 << 20});
	put(x, 10, 7, GIL_ACQUIRE);
	put(x, 90, 7, GIL_RELEASE);
	for (int i = 0; i < 600000; i++)
		put(x, 100, 7, GIL_YIELD);
	assert_int_equal(tick(x, 200, &first), 1);
	assert_int_equal(first.begin_ns, 10 * MS);
	assert_int_equal(first.end_ns, 90 * MS);
}

/* ---- any history ---- */

/* Who holds and who waits right before an event, from all before it; the hard way. */
static void assert_stood_so(struct fixture *x, const struct history *w, size_t n, uint64_t begin_ns)
{
	size_t told = 0, want = 0;
	struct gil_event ev;

	for (size_t i = 0; i < n; i++) {
		const struct gil_event *a = &w->event[i];
		int holds = a->kind == GIL_ACQUIRE;

		if (!holds && a->kind != GIL_WAIT && a->kind != GIL_TAKE)
			continue;
		/* Is it over? And of several records of one wait, the first counts. */
		for (size_t k = i + 1; k < n && a; k++) {
			const struct gil_event *b = &w->event[k];

			if (b->tid == a->tid &&
			    (b->kind == GIL_EXIT || b->kind == GIL_RELEASE ||
			     (!holds && (b->kind == GIL_ACQUIRE || b->kind == GIL_WAIT))))
				a = NULL;
		}
		want += a != NULL;
	}
	while (gil_reader_next(x->r, &ev) == 1) {
		if (ev.kind != GIL_BEFORE)
			continue;
		assert_int_equal(ev.mono_ns, begin_ns);
		told++;
	}
	assert_int_equal(told, want);
	gil_reader_rewind(x->r);
}

static void check_window(struct fixture *x, const struct history *w, size_t n, uint64_t begin_ns)
{
	size_t first = 0;
	struct gil_event ev;

	while (first < n && w->event[first].mono_ns < begin_ns)
		first++;
	if (begin_ns)
		assert_stood_so(x, w, first, begin_ns);
	while (gil_reader_next(x->r, &ev) == 1) {
		if (ev.kind == GIL_BEFORE)
			continue;
		assert_true(first < n);
		assert_true(same_event(&ev, &w->event[first]));
		first++;
	}
	assert_at_end(x);
	assert_int_equal(first, n);
	assert_string_equal(meta(x, "check.mismatches"), "0");
}

/* The end of a window is the end of the history, and its begin tells what was. */
static void windows_of_any_history(void **state)
{
	struct history *w = malloc(sizeof(*w));
	struct fixture *x = *state;

	assert_non_null(w);
	for (uint64_t seed = 1; seed <= 60; seed++) {
		uint64_t random = seed * 31337;

		history_make(w, seed * 7919, seed % 3 == 0);
		open_with(x, (struct gt_flight_opts){.window_ns = 200});
		for (size_t i = 0; i < HISTORY_LONG; i++) {
			struct gt_stretch unused;
			uint64_t now_ns = w->event[i].mono_ns + 1;

			if (w->event[i].kind == GIL_RELEASE)
				w->event[i].forced = !make_below(&random, 3);
			add(x, &w->event[i]);
			if (make_below(&random, 20))
				continue;
			gt_gilfile_flush(x->in, 0);
			gt_flight_tick(x->f, now_ns, &unused);
			if (make_below(&random, 4))
				continue;

			const struct gt_flight_cut cut = {
				.trigger = "signal", .reason = GIL_END_WINDOW, .end_ns = now_ns};

			write_as(x, &cut);
			check_window(x, w, i + 1,
				     now_ns - x->written.span_ns > 1001
					     ? now_ns - x->written.span_ns
					     : 0);
		}
		end(x);
	}
	free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(before_it_is_full, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_known_from_before, setup, teardown),
		cmocka_unit_test_setup_teardown(a_window_without_events, setup, teardown),
		cmocka_unit_test_setup_teardown(a_gap_at_the_begin, setup, teardown),
		cmocka_unit_test_setup_teardown(losses_are_those_of_the_window, setup, teardown),
		cmocka_unit_test_setup_teardown(in_a_pause, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_is_older_than_the_window, setup, teardown),
		cmocka_unit_test_setup_teardown(memory_is_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(more_comes_while_it_is_written, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_that_cannot_be_written, setup, teardown),
		cmocka_unit_test_setup_teardown(holds_and_waits_that_are_too_long, setup, teardown),
		cmocka_unit_test_setup_teardown(limits_see_what_leaves_memory_early, setup,
						teardown),
		cmocka_unit_test_setup_teardown(windows_of_any_history, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
