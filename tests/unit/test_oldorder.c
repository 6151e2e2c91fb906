// SPDX-License-Identifier: Apache-2.0
/*
 * The threads of a simulated process share a GIL, by the nanosecond. What the tool of each
 * generation would have written of that is imported: the events must come in an order that the GIL
 * can have had, each within a microsecond of the truth; and the timeline must make the true holds
 * and waits of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gilrandom.h"
#include "oldfix.h"
#include "timeline.h"

#define THREADS_MAX 12
#define CALLS_MAX   4000
#define FIRST_TID   100
#define UNIX_NS     1700000000123456789
#define MONO_NS     5123456789

/* take_gil and the drop_gil that ends its hold. */
struct call {
	uint64_t take_ns, acquired_ns, drop_ns, dropped_ns;
	uint32_t thread;
};

struct sim {
	uint64_t rnd;
	uint32_t threads;
	uint32_t hold_max_ns, idle_max_ns; /* most are far shorter */
	uint64_t next_ns[THREADS_MAX];     /* when it takes, or is ready to */
	struct call calls[CALLS_MAX]; /* by time: they are what had the GIL, one after the other */
	size_t n;
};

/* Short ones are as likely as long ones. */
static uint64_t make_time(struct sim *s, uint32_t max)
{
	return 1 + make_below(&s->rnd, 1 + make_below(&s->rnd, max));
}

/* The GIL, free since free_ns, goes to a thread that waits, else to the first that comes. */
static uint32_t choose_next(struct sim *s, uint64_t free_ns)
{
	uint32_t first = 0, waiting[THREADS_MAX], n = 0;

	for (uint32_t i = 0; i < s->threads; i++) {
		if (s->next_ns[i] < s->next_ns[first])
			first = i;
		if (s->next_ns[i] < free_ns)
			waiting[n++] = i;
	}
	return n ? waiting[make_below(&s->rnd, n)] : first;
}

static void simulate(struct sim *s, uint64_t start_ns)
{
	uint64_t free_ns = start_ns;

	for (uint32_t i = 0; i < s->threads; i++)
		s->next_ns[i] = start_ns + make_time(s, s->idle_max_ns);
	for (s->n = 0; s->n < CALLS_MAX; s->n++) {
		uint32_t t = choose_next(s, free_ns);
		struct call *c = &s->calls[s->n], *last = s->n ? c - 1 : NULL;
		uint64_t from_ns = s->next_ns[t] > free_ns ? s->next_ns[t] : free_ns;

		c->thread = t;
		c->take_ns = s->next_ns[t];
		c->acquired_ns = from_ns + make_time(s, 300);
		c->drop_ns = c->acquired_ns + make_time(s, s->hold_max_ns);
		free_ns = c->drop_ns + make_time(s, 100);
		c->dropped_ns = free_ns + make_time(s, 200);
		/* A forced one returns when another thread has acquired. */
		if (last && last->thread != t && !make_below(&s->rnd, 3) &&
		    s->next_ns[last->thread] > c->acquired_ns + 1000) {
			last->dropped_ns = c->acquired_ns + make_time(s, 500);
		}
		s->next_ns[t] = c->dropped_ns + make_time(s, s->idle_max_ns);
	}
}

/* ---- as a tool writes it ---- */

struct line {
	uint64_t at_ns, start_ns, end_ns; /* start, end: X */
	uint32_t tid;
	char phase, name; /* B, E, X; t, d */
};

static int by_time(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

static size_t make_lines(const struct sim *s, int generation, struct line *l)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct call *c = &s->calls[i];
		uint32_t tid = FIRST_TID + c->thread;

		if (generation == 3) {
			l[n++] = (struct line){
				c->acquired_ns, c->take_ns, c->acquired_ns, tid, 'X', 't'};
			l[n++] = (struct line){c->dropped_ns, c->drop_ns, c->dropped_ns,
					       tid,           'X',        'd'};
			continue;
		}
		l[n++] = (struct line){.at_ns = c->take_ns, .tid = tid, .phase = 'B', .name = 't'};
		l[n++] = (struct line){
			.at_ns = c->acquired_ns, .tid = tid, .phase = 'E', .name = 't'};
		l[n++] = (struct line){.at_ns = c->drop_ns, .tid = tid, .phase = 'B', .name = 'd'};
		l[n++] = (struct line){
			.at_ns = c->dropped_ns, .tid = tid, .phase = 'E', .name = 'd'};
	}
	qsort(l, n, sizeof(*l), by_time);
	return n;
}

/* Without one line in `lose`, where that is not 0. */
static const char *write_lines(struct sim *s, int generation, uint32_t lose)
{
	static struct line lines[4 * CALLS_MAX];
	size_t n = make_lines(s, generation, lines);
	const char *path = old_path("GIL_100_rank_0");
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	fputc('[', f);
	for (size_t i = 0; i < n; i++) {
		const struct line *l = &lines[i];
		uint64_t ns = l->phase == 'X' ? l->start_ns : l->at_ns, dur = l->end_ns - ns;

		if (lose && !make_below(&s->rnd, lose))
			continue;
		fprintf(f, "%s{\"name\":\"%s_gil\",\"ph\":\"%c\",\"ts\":%llu,",
			ftell(f) > 1 ? ",\n" : "", l->name == 't' ? "take" : "drop", l->phase,
			(unsigned long long)ns / 1000);
		if (l->phase == 'X')
			fprintf(f, "\"dur\":%llu.%03llu,", (unsigned long long)dur / 1000,
				(unsigned long long)dur % 1000);
		fprintf(f, "\"pid\":\"0\",\"tid\":\"GIL_%u\"}", l->tid);
	}
	fputs("]\n", f);
	assert_int_equal(fclose(f), 0);
	return path;
}

/* ---- what comes of it ---- */

static void expect_near(uint64_t got, uint64_t want, const char *what, size_t i)
{
	if (got + 1000 <= want || got >= want + 1000)
		fail_msg("%s of call %zu: %llu is not within 1 us of %llu", what, i,
			 (unsigned long long)got, (unsigned long long)want);
}

/* Each thread's events are the true ones, in order; and all of them are in the order of time. */
static void check_events(const struct sim *s, gil_reader *r)
{
	static const uint8_t kinds[] = {GIL_TAKE, GIL_ACQUIRE, GIL_RELEASE, GIL_DROPPED};
	size_t call[THREADS_MAX] = {0}, step[THREADS_MAX] = {0}, n = 0;
	uint32_t holder = 0;
	uint64_t last_ns = 0;
	struct gil_event ev;

	for (; gil_reader_next(r, &ev); n++) {
		uint32_t t = ev.tid - FIRST_TID;
		const struct call *c;

		assert_true(t < s->threads);
		while (call[t] < s->n && s->calls[call[t]].thread != t)
			call[t]++;
		assert_true(call[t] < s->n);
		c = &s->calls[call[t]];
		assert_int_equal(ev.kind, kinds[step[t]]);
		expect_near(ev.mono_ns,
			    ev.kind == GIL_TAKE      ? c->take_ns
			    : ev.kind == GIL_ACQUIRE ? c->acquired_ns
			    : ev.kind == GIL_RELEASE ? c->drop_ns
						     : c->dropped_ns,
			    "an event", call[t]);
		step[t] = (step[t] + 1) % 4;
		call[t] += !step[t];
		assert_true(ev.mono_ns >= last_ns);
		last_ns = ev.mono_ns;
		if (ev.kind == GIL_ACQUIRE) {
			assert_int_equal(holder, 0);
			holder = ev.tid;
		} else if (ev.kind == GIL_RELEASE) {
			assert_int_equal(holder, ev.tid);
			holder = 0;
		}
	}
	assert_int_equal(n, 4 * s->n);
}

struct hold {
	uint64_t start_ns, end_ns; /* 0: not handed on */
};

struct slices {
	struct gt_sink sink;
	const struct sim *sim;
	size_t calls[THREADS_MAX]; /* which is next */
	size_t takes;
	struct hold holds[CALLS_MAX];
};

static int by_start(const void *a, const void *b)
{
	const struct hold *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns > y->start_ns ? 1 : -1;
	return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* The slices of a thread come in their order: take, hold, drop. */
static int check_span(struct gt_sink *sink, const struct gt_span *span)
{
	struct slices *s = (struct slices *)sink;
	uint32_t t = span->tid - FIRST_TID;
	const struct call *c;

	assert_true(t < s->sim->threads);
	assert_true(span->start_ns <= span->end_ns);
	assert_int_equal(span->open, GT_OPEN_NO);
	while (s->calls[t] < s->sim->n && s->sim->calls[s->calls[t]].thread != t)
		s->calls[t]++;
	assert_true(s->calls[t] < s->sim->n);
	c = &s->sim->calls[s->calls[t]];
	switch (span->kind) {
	case GT_SPAN_TAKE:
		s->takes++;
		expect_near(span->start_ns, c->take_ns, "the start of the take", s->calls[t]);
		expect_near(span->end_ns, c->acquired_ns, "the end of the take", s->calls[t]);
		assert_int_equal(span->wait.held_ns + span->wait.nobody_ns + span->wait.unknown_ns,
				 span->end_ns - span->start_ns);
		break;
	case GT_SPAN_HOLD:
		assert_int_equal(s->holds[s->calls[t]].end_ns, 0);
		s->holds[s->calls[t]].start_ns = span->start_ns;
		s->holds[s->calls[t]].end_ns = span->end_ns;
		expect_near(span->start_ns, c->acquired_ns, "the start of the hold", s->calls[t]);
		expect_near(span->end_ns, c->drop_ns, "the end of the hold", s->calls[t]);
		break;
	case GT_SPAN_DROP:
		expect_near(span->end_ns, c->dropped_ns, "the end of the drop", s->calls[t]);
		s->calls[t]++;
		break;
	}
	return 0;
}

static int ignore_thread(struct gt_sink *sink, const struct gt_sink_thread *t)
{
	(void)sink;
	(void)t;
	return 0;
}

static int ignore_gap(struct gt_sink *sink, const struct gt_gap *gap)
{
	(void)sink;
	(void)gap;
	fail();
	return 0;
}

static void check_slices(const struct sim *s, gil_reader *r)
{
	static const struct gt_sink_ops ops = {
		.span = check_span, .thread = ignore_thread, .gap = ignore_gap};
	static struct slices slices;
	const struct gt_timeline_opts opts = {.start_mono_ns = gil_reader_first_mono_ns(r),
					      .functions = 1};
	const struct gil_event gil = {.kind = GIL_GIL, .mono_ns = opts.start_mono_ns};
	const struct gt_timeline_stats *st;
	struct gt_timeline *tl;
	struct gil_event ev;

	slices = (struct slices){.sink = {&ops}, .sim = s};
	assert_int_equal(gt_timeline_create(&slices.sink, &opts, &tl), 0);
	assert_int_equal(gt_timeline_event(tl, &gil), 0);
	while (gil_reader_next(r, &ev))
		assert_int_equal(gt_timeline_event(tl, &ev), 0);
	assert_int_equal(gt_timeline_finish(tl, gil_reader_last_mono_ns(r)), 0);
	st = gt_timeline_stats(tl);
	for (int i = 0; i < GT_ODD_KINDS; i++)
		assert_int_equal(st->odd[i], 0);
	assert_int_equal(slices.takes, s->n);
	/* Those within a microsecond may come in another order than the true one. */
	qsort(slices.holds, s->n, sizeof(slices.holds[0]), by_start);
	for (size_t i = 0; i < s->n; i++) {
		assert_true(slices.holds[i].end_ns);
		assert_true(!i || slices.holds[i].start_ns >= slices.holds[i - 1].end_ns);
	}
	gt_timeline_free(tl);
}

static uint64_t number_of(gil_reader *r, const char *key)
{
	assert_non_null(gil_reader_meta(r, key));
	return strtoull(gil_reader_meta(r, key), NULL, 10);
}

/* Returns how many events were moved. */
static uint64_t run(uint64_t seed, int generation, uint32_t hold_max_ns, uint32_t idle_max_ns)
{
	static struct sim s;
	const char *path;
	gil_reader *r;
	uint64_t moved;

	s = (struct sim){.rnd = seed, .hold_max_ns = hold_max_ns, .idle_max_ns = idle_max_ns};
	s.threads = 1 + make_below(&s.rnd, THREADS_MAX);
	simulate(&s, generation == 1 ? MONO_NS : UNIX_NS);
	path = write_lines(&s, generation, 0);
	r = old_import_file(path);
	check_events(&s, r);
	gil_reader_rewind(r);
	check_slices(&s, r);
	moved = number_of(r, "import.moved");
	assert_true(number_of(r, "import.moved_max_ns") < 1000);
	assert_int_equal(number_of(r, "import.unsorted"), 0);
	gil_reader_close(r);
	unlink(path);
	return moved;
}

/* From holds of a fraction of a microsecond to those of many. */
static uint64_t run_all(int generation)
{
	static const uint32_t max_ns[] = {20, 300, 2000, 50000};
	uint64_t moved = 0, seed = (uint64_t)generation << 32 | 1;

	for (size_t i = 0; i < GT_ARRAY_SIZE(max_ns); i++)
		for (size_t k = 0; k < GT_ARRAY_SIZE(max_ns); k++)
			moved += run(seed++, generation, max_ns[i], max_ns[k]);
	return moved;
}

static void test_generation_1(void **state)
{
	(void)state;
	assert_int_equal(run_all(1), 0);
}

static void test_generation_2(void **state)
{
	(void)state;
	assert_int_equal(run_all(2), 0);
}

static void test_generation_3(void **state)
{
	(void)state;
	assert_true(run_all(3) > 0);
}

/* Where records are missing nothing else may be lost, or move by more than a microsecond. */
static void test_losses(void **state)
{
	static struct sim s;

	(void)state;
	for (uint64_t seed = 1; seed <= 24; seed++) {
		int generation = 1 + (int)(seed % 3);
		uint64_t n = 0, last_ns = 0;
		struct gil_event ev;
		const char *path;
		gil_reader *r;

		s = (struct sim){.rnd = seed, .hold_max_ns = 2000, .idle_max_ns = 2000};
		s.threads = 1 + make_below(&s.rnd, THREADS_MAX);
		simulate(&s, UNIX_NS);
		path = write_lines(&s, generation, seed % 2 ? 3 : 50);
		r = old_import_file(path);
		for (; gil_reader_next(r, &ev); n++, last_ns = ev.mono_ns)
			assert_true(ev.mono_ns >= last_ns);
		assert_null(gil_reader_problem(r));
		assert_int_equal(n, number_of(r, "import.records") * (generation == 3 ? 2 : 1));
		assert_true(number_of(r, "import.moved_max_ns") < 1000);
		assert_int_equal(number_of(r, "import.unsorted"), 0);
		gil_reader_close(r);
		unlink(path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_generation_1),
		cmocka_unit_test(test_generation_2),
		cmocka_unit_test(test_generation_3),
		cmocka_unit_test(test_losses),
	};

	return cmocka_run_group_tests(tests, old_setup, old_teardown);
}
