// SPDX-License-Identifier: Apache-2.0
/*
 * Any sequence of events must give slices that keep the promises of sink.h; and the events of a
 * simulated process, some of them lost, must never give a hold or a wait that was not there.
 *
 * The first byte says what the rest is: an even one, events, EVENT_BYTES each, and its next bits
 * are options; otherwise a text "SEED COUNT" from which COUNT random sequences (1, 5, ..) or
 * simulations (3, 7, ..) are made.
 */
#include <stdio.h>

#include "keepfix.h"
#include "rows.h"
#include "timeline.h"

#define START_NS    1000
#define EVENT_BYTES 5
#define COUNT_MAX   5000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct gt_timeline *begin(struct keeper *k, uint32_t main_tid, int functions, int told,
				 struct gt_rows *rows)
{
	const struct gt_timeline_opts opts = {.start_mono_ns = START_NS,
					      .main_tid = main_tid,
					      .rows = rows,
					      .functions = functions != 0,
					      .forced_told = told != 0};
	struct gt_timeline *tl;

	*k = (struct keeper){.sink = {&keeper_ops}};
	MUST(!gt_timeline_create(&k->sink, &opts, &tl));
	return tl;
}

static void feed(struct gt_timeline *tl, const struct gil_event *ev)
{
	MUST(!gt_timeline_event(tl, ev));
}

/* The spans are sorted by time afterwards. */
static void finish(struct gt_timeline *tl, struct keeper *k, uint64_t end_ns)
{
	const struct gt_timeline_stats *st = gt_timeline_stats(tl);

	MUST(!gt_timeline_finish(tl, end_ns));
	MUST(st->spans[0] + st->spans[1] + st->spans[2] == k->spans.n);
	MUST(st->releases[0] + st->releases[1] + st->releases[2] == st->spans[GT_SPAN_DROP]);
	k->unconfirmed = st->unconfirmed;
	gt_timeline_free(tl);
	keep_check(k);
}

/* ---- any events ---- */

static struct gil_event make_event(const uint8_t *p, uint64_t now)
{
	static const uint8_t gils[] = {0, 0, 0, 1, 1, 2, GIL_INDEX_OTHER, GIL_INDEX_OTHER};
	struct gil_event ev = {
		.kind = p[0] & 15, .tid = p[1] % 5, .gil = gils[p[2] & 7], .mono_ns = now};

	if (ev.kind == GIL_LOST) {
		ev.lost.begin_mono_ns = now - p[4];
		ev.lost.count = p[1];
	} else if (ev.kind == GIL_LATE) {
		ev.late.begin_mono_ns = now - p[4];
	} else if (ev.kind == GIL_GIL) {
		ev.unconfirmed = p[4] & 1;
	} else if (ev.kind == GIL_RELEASE) {
		ev.forced = p[4] & 1;
	} else if (ev.kind == GIL_BEFORE) {
		ev.before.state = GIL_BEFORE_WAITING + (p[4] & 1);
	} else if (ev.kind == GIL_THREAD) {
		memset(ev.thread.comm, p[2], p[4] & 15);
		ev.thread.ns_tid = p[2] & 7;
		ev.thread.name = p[4] & 16 ? "name" : NULL;
	}
	return ev;
}

/* As gil2trace does it for a process in a PID namespace: threads 0 .. 4, of which 1 is the main. */
static struct gt_rows *make_rows(const struct gil_event *ev, size_t n)
{
	const struct gt_rows_opts opts = {.pid = 1, .shown_pid = 7};
	struct gt_rows *rows;

	MUST(!gt_rows_create(&opts, &rows));
	for (size_t i = 0; i < n; i++)
		MUST(!gt_rows_learn(rows, &ev[i]));
	gt_rows_settle(rows);
	return rows;
}

static void run_bytes(uint8_t options, const uint8_t *p, size_t size)
{
	size_t n = size / EVENT_BYTES;
	struct gil_event *ev = calloc(n + 1, sizeof(*ev));
	struct gt_rows *rows = NULL;
	uint64_t now = START_NS + 50;
	struct gt_timeline *tl;
	struct keeper kept;

	MUST(ev);
	for (size_t i = 0; i < n; i++, p += EVENT_BYTES) {
		now += p[3];
		if (p[0] >> 4 == 15)
			now -= now > 200 ? 200 : now;
		if (p[0] == 0x7f && p[1] == 0xff)
			now = UINT64_MAX - p[3];
		ev[i] = make_event(p, now);
	}
	if (options & 16)
		rows = make_rows(ev, n);
	tl = begin(&kept, options >> 1 & 1 ? (rows ? 7 : 1) : 0, options & 4, options & 8, rows);
	for (size_t i = 0; i < n; i++)
		feed(tl, &ev[i]);
	finish(tl, &kept, now - (now > 20 ? 20 : 0));
	gt_rows_free(rows);
	keep_free(&kept);
	free(ev);
}

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static void run_random(uint64_t seed)
{
	uint8_t bytes[EVENT_BYTES * 200];
	size_t n = next_random(&seed) % 200;
	/* Mostly kinds that mean something, or nothing would follow from anything. */
	static const uint8_t few[] = {1, 2, 3, 4},
			     many[] = {1, 2, 3, 4, 1, 2, 3, 4, 5, 8, 10, 14, 11, 12, 12, 13};
	int use_few = (int)(next_random(&seed) & 1);

	for (size_t i = 0; i < n * EVENT_BYTES; i++)
		bytes[i] = (uint8_t)next_random(&seed);
	for (size_t i = 0; i < n; i++) {
		uint8_t *kind = &bytes[i * EVENT_BYTES];

		if (next_random(&seed) % 8)
			/* NOLINTNEXTLINE(clang-analyzer-core.*): it gives up on the loop above */
			*kind = (uint8_t)((*kind & 0xf0) |
					  (use_few ? few[*kind & 3] : many[*kind & 15]));
	}
	run_bytes((uint8_t)next_random(&seed), bytes, n * EVENT_BYTES);
}

/* ---- a simulated process ---- */

#define SIM_THREADS 6
#define SIM_GILS    2
#define SIM_FOREIGN 5 /* a condition variable that is no GIL */

enum sim_state { OUT, WAITS, HOLDS, YIELDS };

struct sim {
	uint64_t rnd, now;
	struct {
		enum sim_state state;
		uint8_t gil;
		uint8_t forced; /* HOLDS: how it ends; YIELDS: 1 */
		uint64_t since_ns;
		enum sim_state before; /* what memory told of the start, until that is handed on */
		uint8_t before_gil;
	} threads[SIM_THREADS];
	int holder[SIM_GILS];          /* -1: free */
	uint8_t told[SIM_FOREIGN + 1]; /* GIL record: 1 unconfirmed, 2 confirmed */
	struct list truth;
	struct gil_event *events;
	size_t n, size;
	uint64_t record_from_ns;
	uint8_t begun;
	uint8_t reads_memory; /* as of 3.13: who waited or held at the start is told */
	uint8_t forced_told;  /* format 1.1 */
};

static uint64_t roll(struct sim *s, uint64_t sides)
{
	return next_random(&s->rnd) % sides;
}

static struct gil_event *push(struct sim *s, uint8_t kind, int tid, uint8_t gil)
{
	MUST(s->n < s->size);
	s->events[s->n] = (struct gil_event){
		.kind = kind, .mono_ns = s->now, .tid = (uint32_t)tid, .gil = gil};
	return &s->events[s->n++];
}

static void push_gil(struct sim *s, int tid, uint8_t gil, uint8_t confirmed)
{
	s->told[gil] = (uint8_t)(1 + confirmed);
	push(s, GIL_GIL, tid, gil)->unconfirmed = !confirmed;
}

/* An event, and before it what the recorder tells of its GIL. */
static void event(struct sim *s, uint8_t kind, int tid, uint8_t gil)
{
	struct gil_event *ev;

	if (!s->begun)
		return;
	if (kind == GIL_RELEASE && !s->told[gil])
		push_gil(s, tid, gil, 0);
	else if ((kind == GIL_ACQUIRE || kind == GIL_WAIT) && s->told[gil] < 2)
		push_gil(s, tid, gil, 1);
	ev = push(s, kind, tid, gil);
	if (kind == GIL_RELEASE && gil < SIM_GILS)
		ev->forced = s->forced_told && s->threads[tid].forced;
}

/* The gate is opened: what memory tells of this moment. */
static void begin_recording(struct sim *s)
{
	s->begun = 1;
	if (!s->reads_memory)
		return;
	for (uint8_t gil = 0; gil < SIM_GILS; gil++)
		push_gil(s, 0, gil, 1);
	for (int i = 0; i < SIM_THREADS; i++) {
		s->threads[i].before = s->threads[i].state;
		s->threads[i].before_gil = s->threads[i].gil;
	}
}

static void change(struct sim *s, int tid, enum sim_state state)
{
	static const uint8_t kinds[] = {
		[WAITS] = GT_SPAN_TAKE, [HOLDS] = GT_SPAN_HOLD, [YIELDS] = GT_SPAN_DROP};
	struct gt_span span = {.tid = (uint32_t)tid,
			       .gil = s->threads[tid].gil,
			       .kind = kinds[s->threads[tid].state],
			       .forced = s->threads[tid].forced,
			       .start_ns = s->threads[tid].since_ns,
			       .end_ns = s->now};

	if (s->threads[tid].state != OUT)
		append(&s->truth, &span);
	s->threads[tid].state = state;
	s->threads[tid].forced = state == YIELDS;
	s->threads[tid].since_ns = s->now;
}

static void acquire(struct sim *s, int tid)
{
	uint8_t gil = s->threads[tid].gil;

	event(s, GIL_ACQUIRE, tid, gil);
	change(s, tid, HOLDS);
	s->holder[gil] = tid;
	for (int i = 0; i < SIM_THREADS; i++)
		if (i != tid && s->threads[i].state == YIELDS && s->threads[i].gil == gil)
			change(s, i, OUT);
}

static void release(struct sim *s, int tid)
{
	uint8_t gil = s->threads[tid].gil;
	int wanted = 0, forced, yields;

	for (int i = 0; i < SIM_THREADS; i++)
		wanted |= s->threads[i].state == WAITS && s->threads[i].gil == gil;
	forced = wanted && roll(s, 2);
	yields = forced && roll(s, 4); /* or another was quicker */
	/* Format 1.0 tells of those that yield only. */
	s->threads[tid].forced = yields || (forced && s->forced_told);
	event(s, GIL_RELEASE, tid, gil);
	s->holder[gil] = -1;
	if (!yields) {
		change(s, tid, OUT);
		return;
	}
	change(s, tid, YIELDS);
	s->now += roll(s, 3);
	event(s, GIL_YIELD, tid, gil);
}

/* Its id is used again. */
static void end_thread(struct sim *s, int tid)
{
	if (s->begun)
		push(s, GIL_EXIT, tid, 0);
	change(s, tid, OUT);
}

static void step(struct sim *s)
{
	int tid = (int)roll(s, SIM_THREADS);

	s->now += 1 + roll(s, 20);
	if (!s->begun && s->now >= s->record_from_ns)
		begin_recording(s);
	if (s->threads[tid].state < HOLDS && !roll(s, 30)) {
		end_thread(s, tid);
		return;
	}
	switch (s->threads[tid].state) {
	case OUT:
		s->threads[tid].gil = roll(s, 4) == 0;
		if (s->holder[s->threads[tid].gil] < 0) {
			acquire(s, tid);
		} else {
			event(s, GIL_WAIT, tid, s->threads[tid].gil);
			change(s, tid, WAITS);
		}
		break;
	case WAITS:
		if (s->holder[s->threads[tid].gil] < 0)
			acquire(s, tid);
		else if (!roll(s, 4))
			event(s, GIL_WAIT, tid, s->threads[tid].gil);
		break;
	case HOLDS:
		if (!roll(s, 8) && !s->told[SIM_FOREIGN])
			event(s, GIL_RELEASE, tid, SIM_FOREIGN);
		else
			release(s, tid);
		break;
	case YIELDS:
		break;
	}
}

/* Holders before all, those that waited before their first event, or at the end (tid -1). */
static void feed_before(struct sim *s, struct gt_timeline *tl, int tid, enum sim_state state)
{
	for (int i = 0; i < SIM_THREADS; i++) {
		struct gil_event ev = {.kind = GIL_BEFORE,
				       .mono_ns = START_NS,
				       .tid = (uint32_t)i,
				       .gil = s->threads[i].before_gil};

		if (s->threads[i].before != state || (tid >= 0 && tid != i))
			continue;
		ev.before.state = state == WAITS ? GIL_BEFORE_WAITING : GIL_BEFORE_HOLDING;
		s->threads[i].before = OUT;
		feed(tl, &ev);
	}
}

/* Hands the events on, without some stretches of them, whose loss is told as the recorder does. */
static void feed_lossy(struct sim *s, struct gt_timeline *tl, int lossy, uint64_t end_ns)
{
	feed_before(s, tl, -1, HOLDS);
	for (size_t i = 0; i < s->n; i++) {
		struct gil_event lost = {.kind = GIL_LOST};

		if (lossy && !roll(s, 30)) {
			size_t n = 1 + roll(s, roll(s, 2) ? 3 : 30);

			lost.lost.begin_mono_ns = s->events[i].mono_ns;
			lost.lost.count = n;
			i += n;
			/* at the end the recorder tells what is still untold */
			lost.mono_ns = i < s->n ? s->events[i].mono_ns : end_ns;
			feed(tl, &lost);
			if (i >= s->n)
				break;
		}
		if (s->events[i].kind != GIL_GIL)
			feed_before(s, tl, (int)s->events[i].tid, WAITS);
		feed(tl, &s->events[i]);
	}
	feed_before(s, tl, -1, WAITS);
}

static int lies_in(const struct gt_span *drawn, const struct list *truth)
{
	for (size_t i = 0; i < truth->n; i++) {
		const struct gt_span *t = &truth->v[i];

		if (t->kind == drawn->kind && t->tid == drawn->tid && t->gil == drawn->gil &&
		    t->start_ns <= drawn->start_ns && drawn->end_ns <= t->end_ns)
			return 1;
	}
	return 0;
}

/* How its release must be drawn. */
static int right_forced(const struct sim *s, const struct gt_span *t, const struct gt_span *drawn,
			uint64_t to)
{
	if (t->kind == GT_SPAN_TAKE || (t->kind == GT_SPAN_HOLD && t->end_ns > to))
		return drawn->forced == GT_FORCED_UNKNOWN;
	if (t->forced)
		return drawn->forced == GT_FORCED_YES;
	return drawn->forced == (s->forced_told ? GT_FORCED_NO : GT_FORCED_UNKNOWN);
}

/* Was it drawn, as far as it lies within the recording? */
static int is_drawn(const struct sim *s, const struct gt_span *t, const struct list *drawn,
		    uint64_t to)
{
	uint64_t start = t->start_ns > START_NS ? t->start_ns : START_NS;
	uint64_t end = t->end_ns < to ? t->end_ns : to;

	for (size_t i = 0; i < drawn->n; i++) {
		const struct gt_span *d = &drawn->v[i];

		if (d->kind == t->kind && d->tid == t->tid && d->gil == t->gil &&
		    d->start_ns == start && d->end_ns == end && right_forced(s, t, d, to))
			return 1;
	}
	return 0;
}

static void compare(const struct sim *s, const struct keeper *k, int lossy, uint64_t end_ns)
{
	uint64_t missing = s->told[SIM_FOREIGN] != 0;

	for (size_t i = 0; i < k->spans.n; i++) {
		const struct gt_span *d = &k->spans.v[i];

		MUST(d->gil != SIM_FOREIGN);
		MUST(!(d->open & GT_OPEN_UNKNOWN) || lossy);
		MUST(d->start_ns == d->end_ns || lies_in(d, &s->truth));
	}
	for (size_t i = 0; i < s->truth.n && !lossy; i++) {
		const struct gt_span *t = &s->truth.v[i];
		int start_seen = t->start_ns >= s->record_from_ns && t->start_ns <= end_ns;
		int end_seen = t->end_ns >= s->record_from_ns && t->end_ns <= end_ns;

		int told = s->reads_memory && t->start_ns < s->record_from_ns &&
			   t->end_ns >= s->record_from_ns && t->kind != GT_SPAN_DROP;

		if (!start_seen && !told && !(end_seen && t->kind == GT_SPAN_HOLD))
			continue;
		if (is_drawn(s, t, &k->spans, end_ns))
			continue;
		MUST(!told);
		/* the release of a GIL that was not confirmed, or too late */
		MUST(!start_seen && t->kind == GT_SPAN_HOLD);
		missing++;
	}
	MUST(lossy || missing <= k->unconfirmed);
}

/* How long others than `but` (any: -1) held that GIL in the time of a wait. */
static uint64_t overlap(const struct list *holds, const struct gt_span *take, int64_t by)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < holds->n; i++) {
		const struct gt_span *h = &holds->v[i];
		uint64_t from = h->start_ns > take->start_ns ? h->start_ns : take->start_ns;
		uint64_t to = h->end_ns < take->end_ns ? h->end_ns : take->end_ns;

		if (h->kind == GT_SPAN_HOLD && h->gil == take->gil && h->tid != take->tid &&
		    (by < 0 || h->tid == by) && from < to)
			sum += to - from;
	}
	return sum;
}

/* From when on it is known who has that GIL, where nothing is lost. */
static uint64_t known_from(const struct list *drawn, uint8_t gil)
{
	for (size_t i = 0; i < drawn->n; i++)
		if (drawn->v[i].kind == GT_SPAN_HOLD && drawn->v[i].gil == gil)
			return drawn->v[i].start_ns;
	return UINT64_MAX;
}

/* The latest hold that was over when the wait was; NULL: none. */
static const struct gt_span *latest_hold(const struct list *holds, const struct gt_span *take)
{
	const struct gt_span *latest = NULL;

	for (size_t i = 0; i < holds->n; i++) {
		const struct gt_span *h = &holds->v[i];

		if (h->kind == GT_SPAN_HOLD && h->gil == take->gil && h->end_ns <= take->end_ns &&
		    h->start_ns < take->end_ns && (!latest || h->end_ns > latest->end_ns))
			latest = h;
	}
	return latest;
}

static void compare_from(const struct sim *s, const struct keeper *k, const struct gt_span *take)
{
	const struct gt_span *hold = latest_hold(&s->truth, take);
	const struct gt_wait *w = &take->wait;

	if (take->start_ns < known_from(&k->spans, take->gil) || !hold->tid ||
	    hold->end_ns < START_NS)
		return;
	MUST(w->from_tid == hold->tid && w->from_ns == hold->end_ns);
	MUST(w->from_start_ns == (hold->start_ns > START_NS ? hold->start_ns : START_NS));
}

/*
 * What is said of who blocked whom, by what is drawn and what was true. A wait that ends without
 * the GIL may end before it is known who has that.
 */
static void compare_blame(const struct sim *s, const struct keeper *k, int lossy)
{
	uint64_t least[SIM_THREADS][SIM_THREADS] = {{0}}, most[SIM_THREADS][SIM_THREADS] = {{0}};

	for (size_t i = 0; i < k->spans.n; i++) {
		const struct gt_span *d = &k->spans.v[i];
		const struct gt_wait *w = &d->wait;
		/* 0 is no thread's id, so it is not known who has the GIL when that one has it */
		uint64_t held = overlap(&k->spans, d, -1) - overlap(&k->spans, d, 0);
		uint64_t longest = 0, known = known_from(&k->spans, d->gil);

		if (d->kind != GT_SPAN_TAKE)
			continue;
		for (uint32_t by = 1; by < SIM_THREADS; by++) {
			uint64_t ns = overlap(&k->spans, d, by);

			most[d->tid][by] += ns;
			least[d->tid][by] += d->acquired ? ns : 0;
			longest = ns > longest ? ns : longest;
		}
		MUST(w->nobody_ns <= d->end_ns - d->start_ns - overlap(&s->truth, d, -1));
		MUST(w->held_ns <= held && held <= w->held_ns + w->unknown_ns);
		MUST(w->blocker_ns <= longest);
		if (!d->acquired)
			continue;
		MUST(w->held_ns == held && w->blocker_ns == longest);
		if (!lossy && d->start_ns >= known)
			MUST(w->unknown_ns == overlap(&s->truth, d, 0));
		else if (!lossy)
			MUST(w->unknown_ns == known - d->start_ns + overlap(&k->spans, d, 0));
		if (!lossy)
			compare_from(s, k, d);
	}
	for (uint32_t v = 0; v < SIM_THREADS; v++)
		for (uint32_t by = 1; by < SIM_THREADS; by++)
			MUST(least[v][by] <= keep_find(k, v, by).ns &&
			     keep_find(k, v, by).ns <= most[v][by]);
}

static void run_simulation(uint64_t seed)
{
	struct gil_event room[1500];
	struct sim s = {.rnd = seed,
			.now = 1,
			.record_from_ns = START_NS,
			.events = room,
			.size = GT_ARRAY_SIZE(room)};
	struct keeper kept;
	struct gt_timeline *tl;
	int lossy = (int)roll(&s, 2);
	uint64_t end_ns;

	s.reads_memory = (uint8_t)roll(&s, 2);
	s.forced_told = (uint8_t)roll(&s, 2);
	tl = begin(&kept, (uint32_t)roll(&s, 2), 0, s.forced_told, NULL);

	for (int i = 0; i < SIM_GILS; i++)
		s.holder[i] = -1;
	if (!roll(&s, 4))
		s.now = START_NS; /* all seen from the first take on */
	for (int i = 0; i < 400; i++)
		step(&s);
	end_ns = s.now;
	s.now += 1;
	for (int i = 0; i < SIM_THREADS; i++)
		change(&s, i, OUT);
	feed_lossy(&s, tl, lossy, end_ns);
	finish(tl, &kept, end_ns);
	compare(&s, &kept, lossy, end_ns);
	compare_blame(&s, &kept, lossy);
	keep_free(&kept);
	free(s.truth.v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned long long seed, count;
	char text[64] = "";

	if (!size)
		return 0;
	if (!(data[0] & 1)) {
		run_bytes(data[0], data + 1, size - 1);
		return 0;
	}
	memcpy(text, data + 1, size - 1 < sizeof(text) ? size - 1 : sizeof(text) - 1);
	if (sscanf(text, "%llu %llu", &seed, &count) != 2)
		return 0;
	for (unsigned long long i = 0; i < count && i < COUNT_MAX; i++) {
		if (data[0] & 2)
			run_simulation(seed + i);
		else
			run_random(seed + i);
	}
	return 0;
}
