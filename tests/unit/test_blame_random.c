// SPDX-License-Identifier: Apache-2.0
/*
 * Who blocked whom, against what is counted nanosecond by nanosecond: processes of up to 40 threads
 * that use up to 3 GILs, some of them unlucky, so that others have the GIL hundreds of times while
 * they wait, with and without lost events.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "timeline.h"

#define GILS         3
#define THREADS      40
#define STEPS        3000
#define START_NS     10
#define TIME_MAX     (START_NS + STEPS * 13)
#define WAITS        (STEPS + THREADS)
#define FREE         0
#define NOBODY_KNOWS (THREADS + 1)

struct wait {
	uint64_t start_ns, end_ns;
	uint32_t tid;
	uint8_t gil, acquired;
	uint32_t from_tid;
	uint64_t from_ns, from_start_ns;
};

static struct gil_event events[STEPS + 100];
static size_t nevents;
static uint8_t owner[GILS][TIME_MAX]; /* FREE, a thread, NOBODY_KNOWS */
static struct wait waits[WAITS];
static size_t nwaits;
static struct gt_span takes[WAITS];
static size_t ntakes;
static uint64_t told[THREADS + 1][THREADS + 2], told_waits[THREADS + 1][THREADS + 2];
static uint64_t rnd;

static uint64_t roll(uint64_t sides)
{
	uint64_t z = rnd += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (z ^ z >> 31) % sides;
}

/* ---- events ---- */

static uint64_t losing; /* how many events are still to be lost */
static uint64_t lost_from_ns;

static struct gil_event *push(uint8_t kind, uint32_t tid, uint8_t gil, uint64_t ns)
{
	assert_true(nevents < GT_ARRAY_SIZE(events));
	events[nevents] = (struct gil_event){.kind = kind, .tid = tid, .gil = gil, .mono_ns = ns};
	return &events[nevents++];
}

static void happen(uint8_t kind, uint32_t tid, uint8_t gil, uint64_t ns)
{
	if (losing) {
		lost_from_ns = lost_from_ns ? lost_from_ns : ns;
		losing--;
		return;
	}
	if (lost_from_ns)
		push(GIL_LOST, 0, 0, ns)->lost.begin_mono_ns = lost_from_ns;
	lost_from_ns = 0;
	push(kind, tid, gil, ns);
}

static uint64_t make_events(uint32_t threads, uint8_t gils, int lossy)
{
	enum { OUT, WAITS_FOR, HOLDS } state[THREADS + 1] = {OUT};
	uint8_t in[THREADS + 1], held[GILS] = {0};
	uint64_t now = START_NS;
	uint32_t lost = 0;

	nevents = losing = lost_from_ns = 0;
	for (uint8_t g = 0; g < gils; g++)
		push(GIL_GIL, 0, g, now);
	for (int i = 0; i < STEPS; i++) {
		uint32_t t = 1 + (uint32_t)roll(threads);
		int unlucky = t % 4 == 0 && roll(100);

		now += 1 + roll(13); /* slices of one thread at one time would be moved */
		if (lossy && lost < 40 && !roll(70)) {
			losing = 1 + roll(20);
			lost++;
		}
		if (state[t] == HOLDS) {
			state[t] = OUT;
			held[in[t]] = 0;
			happen(GIL_RELEASE, t, in[t], now);
			continue;
		}
		if (state[t] == OUT)
			in[t] = (uint8_t)roll(gils);
		if (!held[in[t]] && (state[t] == OUT || !unlucky)) {
			state[t] = HOLDS;
			held[in[t]] = 1;
			happen(GIL_ACQUIRE, t, in[t], now);
		} else if (held[in[t]]) {
			state[t] = WAITS_FOR;
			happen(GIL_WAIT, t, in[t], now);
		}
	}
	return now + 5;
}

/* ---- what must come of them, the long way ---- */

static struct {
	uint64_t since_ns;
	uint32_t holder; /* FREE, a thread, NOBODY_KNOWS */
	uint32_t from_tid;
	uint64_t from_ns, from_start_ns;
} gil[GILS];
static uint64_t waits_since[THREADS + 1]; /* 0: it does not */
static uint8_t waits_for[THREADS + 1];

static void is_now(uint8_t g, uint32_t was, uint32_t holder, uint64_t ns)
{
	for (uint64_t t = gil[g].since_ns; t < ns; t++)
		owner[g][t] = (uint8_t)was;
	gil[g].since_ns = ns;
	gil[g].holder = holder;
}

static void end_wait(uint32_t tid, uint64_t ns, int acquired)
{
	uint8_t g = waits_for[tid];

	if (!waits_since[tid])
		return;
	waits[nwaits] = (struct wait){.tid = tid,
				      .gil = g,
				      .start_ns = waits_since[tid],
				      .end_ns = ns,
				      .acquired = (uint8_t)acquired};
	if (acquired && gil[g].from_tid) {
		waits[nwaits].from_tid = gil[g].from_tid;
		waits[nwaits].from_ns = gil[g].from_ns;
		waits[nwaits].from_start_ns = gil[g].from_start_ns;
	}
	nwaits++;
	waits_since[tid] = 0;
}

static void end_all(uint64_t ns, uint64_t again_ns)
{
	for (uint8_t g = 0; g < GILS; g++) {
		is_now(g, gil[g].holder, NOBODY_KNOWS, ns);
		gil[g].since_ns = again_ns;
		gil[g].from_tid = 0;
	}
	for (uint32_t t = 1; t <= THREADS; t++)
		end_wait(t, ns, 0);
}

static void think(uint64_t end_ns)
{
	nwaits = 0;
	for (uint8_t g = 0; g < GILS; g++)
		gil[g].since_ns = 0;
	end_all(0, START_NS);
	for (size_t i = 0; i < nevents; i++) {
		const struct gil_event *ev = &events[i];
		uint8_t g = ev->gil;

		if (ev->kind == GIL_LOST) {
			end_all(ev->lost.begin_mono_ns, ev->mono_ns);
		} else if (ev->kind == GIL_WAIT && !waits_since[ev->tid]) {
			waits_since[ev->tid] = ev->mono_ns;
			waits_for[ev->tid] = g;
		} else if (ev->kind == GIL_ACQUIRE) {
			is_now(g, gil[g].holder, ev->tid, ev->mono_ns);
			end_wait(ev->tid, ev->mono_ns, 1);
		} else if (ev->kind == GIL_RELEASE) {
			gil[g].from_start_ns = gil[g].since_ns;
			gil[g].from_ns = ev->mono_ns;
			/* behind a gap there is no slice where this is its end */
			gil[g].from_tid = gil[g].holder == NOBODY_KNOWS &&
							  gil[g].since_ns == ev->mono_ns &&
							  ev->mono_ns != START_NS
						  ? 0
						  : ev->tid;
			is_now(g, ev->tid, FREE, ev->mono_ns);
		}
	}
	end_all(end_ns, end_ns);
}

/* ---- what comes ---- */

static int keep_span(struct gt_sink *s, const struct gt_span *span)
{
	(void)s;
	if (span->kind == GT_SPAN_TAKE)
		takes[ntakes++] = *span;
	return 0;
}

static int keep_gap(struct gt_sink *s, const struct gt_gap *gap)
{
	(void)s;
	(void)gap;
	return 0;
}

static int keep_pair(struct gt_sink *s, const struct gt_pair *pair)
{
	uint32_t blocker = pair->blocker == GT_BLOCKER_UNKNOWN ? NOBODY_KNOWS : pair->blocker;

	(void)s;
	assert_in_range(pair->victim, 1, THREADS);
	assert_in_range(blocker, 0, NOBODY_KNOWS);
	assert_int_equal(told[pair->victim][blocker], 0);
	told[pair->victim][blocker] = pair->ns;
	told_waits[pair->victim][blocker] = pair->waits;
	return 0;
}

static const struct gt_sink_ops ops = {.span = keep_span, .gap = keep_gap, .pair = keep_pair};

static void run_timeline(uint64_t end_ns)
{
	const struct gt_timeline_opts opts = {.start_mono_ns = START_NS};
	struct gt_sink sink = {&ops};
	struct gt_timeline *tl;

	ntakes = 0;
	memset(told, 0, sizeof(told));
	memset(told_waits, 0, sizeof(told_waits));
	assert_int_equal(gt_timeline_create(&sink, &opts, &tl), 0);
	for (size_t i = 0; i < nevents; i++)
		assert_int_equal(gt_timeline_event(tl, &events[i]), 0);
	assert_int_equal(gt_timeline_finish(tl, end_ns), 0);
	gt_timeline_free(tl);
}

static const struct gt_span *find_take(const struct wait *w)
{
	for (size_t i = 0; i < ntakes; i++)
		if (takes[i].tid == w->tid && takes[i].gil == w->gil &&
		    takes[i].start_ns == w->start_ns && takes[i].end_ns == w->end_ns)
			return &takes[i];
	return NULL;
}

/* Adds the wait's parts to the sums of its victim. */
static void compare_wait(const struct wait *w, uint64_t sums[THREADS + 2],
			 uint64_t counts[THREADS + 2])
{
	const struct gt_span *take = find_take(w);
	uint64_t parts[THREADS + 2] = {0}, held = 0;
	uint32_t most = 0;

	assert_non_null(take);
	for (uint64_t t = w->start_ns; t < w->end_ns; t++)
		parts[owner[w->gil][t]]++;
	for (uint32_t t = 1; t <= THREADS; t++) {
		held += parts[t];
		if (parts[t] && (!most || parts[t] > parts[most]))
			most = t;
	}
	for (uint32_t t = 0; t < THREADS + 2; t++) {
		sums[t] += parts[t];
		counts[t] += parts[t] != 0;
	}
	assert_int_equal(take->wait.held_ns, held);
	assert_int_equal(take->wait.nobody_ns, parts[FREE]);
	assert_int_equal(take->wait.unknown_ns, parts[NOBODY_KNOWS]);
	assert_int_equal(take->wait.blocker, most);
	assert_int_equal(take->wait.blocker_ns, most ? parts[most] : 0);
	assert_int_equal(take->acquired, w->acquired);
	assert_int_equal(take->wait.from_tid, w->from_tid);
	assert_int_equal(take->wait.from_ns, w->from_ns);
	assert_int_equal(take->wait.from_start_ns, w->from_start_ns);
}

static void compare(uint64_t seed)
{
	static uint64_t sums[THREADS + 1][THREADS + 2], counts[THREADS + 1][THREADS + 2];

	memset(sums, 0, sizeof(sums));
	memset(counts, 0, sizeof(counts));
	if (ntakes != nwaits)
		fail_msg("seed %llu: %zu takes, %zu waits", (unsigned long long)seed, ntakes,
			 nwaits);
	for (size_t i = 0; i < nwaits; i++)
		compare_wait(&waits[i], sums[waits[i].tid], counts[waits[i].tid]);
	assert_memory_equal(sums, told, sizeof(sums));
	assert_memory_equal(counts, told_waits, sizeof(counts));
}

static void run(uint64_t seed, uint32_t threads, uint8_t gils, int lossy)
{
	uint64_t end_ns;

	rnd = seed;
	end_ns = make_events(threads, gils, lossy);
	think(end_ns);
	run_timeline(end_ns);
	compare(seed);
}

static void test_random(void **state)
{
	uint64_t longest = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 120; seed++) {
		uint32_t threads = seed % 3 ? 2 + (uint32_t)(seed % 7) : THREADS;

		run(seed, threads, (uint8_t)(1 + seed % GILS), (int)(seed % 2));
		for (size_t i = 0; i < nwaits; i++)
			if (waits[i].end_ns - waits[i].start_ns > longest)
				longest = waits[i].end_ns - waits[i].start_ns;
	}
	/* there were waits with more holds than are remembered */
	assert_true(longest > TIME_MAX / 2 / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
