// SPDX-License-Identifier: Apache-2.0
/*
 * Any sequence of events must give slices that keep the promises of sink.h, and the same without
 * the marks in it, and with losses in place of its pauses; and the events of a simulated process,
 * some of them lost, must never give a hold or a wait that was not there.
 *
 * The first byte says what the rest is: an even one, events, EVENT_BYTES each, and its next bits
 * are options; otherwise a text "SEED COUNT" from which COUNT random sequences (1, 5, ..) or
 * simulations (3, 7, ..) are made.
 */
#include <stdio.h>

#include "keepfix.h"
#include "rows.h"
#include "simfix.h"
#include "timeline.h"

#define START_NS    1000
#define EVENT_BYTES 5
#define COUNT_MAX   5000

#define TIME_MAX (UINT64_MAX >> 2) /* slices.h's */

static struct gt_timeline *begin(struct keeper *k, uint64_t end_ns, uint32_t main_tid,
				 int functions, int told, struct gt_rows *rows)
{
	const struct gt_timeline_opts opts = {.start_mono_ns = START_NS,
					      .end_mono_ns = end_ns,
					      .main_tid = main_tid,
					      .rows = rows,
					      .functions = functions != 0,
					      .forced_told = told != 0};
	struct gt_timeline *tl;

	*k = (struct keeper){.sink = {&keeper_ops}, .start_ns = START_NS};
	k->end_ns = end_ns < START_NS ? START_NS : end_ns < TIME_MAX ? end_ns : TIME_MAX;
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
	MUST(st->marks == k->marks);
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
	} else if (ev.kind == 15 && p[4] & 1) {
		ev.kind = GIL_MARK;
		ev.mark.name = "name";
	} else if (ev.kind == 15) {
		ev.kind = GIL_PAUSED;
		ev.paused.begin_mono_ns = now - p[4];
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

static void run_events(uint8_t options, const struct gil_event *ev, size_t n, uint64_t end_ns,
		       struct keeper *kept)
{
	struct gt_rows *rows = options & 16 ? make_rows(ev, n) : NULL;
	uint32_t main_tid = options >> 1 & 1 ? (rows ? 7 : 1) : 0;
	struct gt_timeline *tl = begin(kept, end_ns, main_tid, options & 4, options & 8, rows);

	for (size_t i = 0; i < n; i++)
		feed(tl, &ev[i]);
	finish(tl, kept, end_ns);
	gt_rows_free(rows);
}

/* Leaves out the marks, and makes losses of the pauses. Returns how many are left. */
static size_t make_plain(struct gil_event *ev, size_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++) {
		struct gil_event *to = &ev[left];

		*to = ev[i];
		left += to->kind != GIL_MARK;
		if (to->kind != GIL_PAUSED)
			continue;
		to->kind = GIL_LOST;
		to->lost.count = 0;
		to->lost.begin_mono_ns = ev[i].paused.begin_mono_ns;
	}
	return left;
}

static void compare_spans(const struct list *spans, const struct list *plain)
{
	MUST(spans->n == plain->n);
	for (size_t i = 0; i < spans->n; i++) {
		struct gt_span a = spans->v[i], b = plain->v[i];

		if (a.open & GT_OPEN_PAUSED)
			a.open = (uint8_t)((a.open & ~GT_OPEN_PAUSED) | GT_OPEN_LOST);
		MUST(a.start_ns == b.start_ns && a.end_ns == b.end_ns && a.tid == b.tid);
		MUST(a.kind == b.kind && a.open == b.open && a.gil == b.gil);
		MUST(a.forced == b.forced && a.acquired == b.acquired);
		MUST(!memcmp(&a.wait, &b.wait, sizeof(a.wait)));
	}
}

static void compare_plain(const struct keeper *k, const struct keeper *plain)
{
	compare_spans(&k->spans, &plain->spans);
	MUST(k->npairs == plain->npairs);
	for (size_t i = 0; i < k->npairs; i++)
		MUST(k->pairs[i].victim == plain->pairs[i].victim &&
		     k->pairs[i].blocker == plain->pairs[i].blocker &&
		     k->pairs[i].ns == plain->pairs[i].ns);
	for (size_t i = 0; i < KEEP_ROWS; i++)
		MUST(k->threads[i].first_ns == plain->threads[i].first_ns &&
		     k->threads[i].observed_ns == plain->threads[i].observed_ns &&
		     k->threads[i].unknown_ns == plain->threads[i].unknown_ns);
}

static void run_bytes(uint8_t options, const uint8_t *p, size_t size)
{
	size_t n = size / EVENT_BYTES;
	struct gil_event *ev = calloc(n + 1, sizeof(*ev));
	uint64_t now = START_NS + 50, end_ns;
	struct keeper kept, plain;

	MUST(ev);
	for (size_t i = 0; i < n; i++, p += EVENT_BYTES) {
		now += p[3];
		if (p[0] >> 4 == 15)
			now -= now > 200 ? 200 : now;
		if (p[0] == 0x7f && p[1] == 0xff)
			now = UINT64_MAX - p[3];
		ev[i] = make_event(p, now);
	}
	end_ns = now - (now > 20 ? 20 : 0);
	run_events(options, ev, n, end_ns, &kept);
	if (!(options & 16)) { /* rows without an id are numbered as they come */
		run_events(options, ev, make_plain(ev, n), end_ns, &plain);
		compare_plain(&kept, &plain);
		keep_free(&plain);
	}
	keep_free(&kept);
	free(ev);
}

static void run_random(uint64_t seed)
{
	uint8_t bytes[EVENT_BYTES * 200];
	size_t n = next_random(&seed) % 200;
	/* Mostly kinds that mean something, or nothing would follow from anything. */
	static const uint8_t few[] = {1, 2, 3, 4},
			     many[] = {1, 2, 3, 4, 1, 2, 3, 4, 5, 8, 10, 14, 11, 15, 12, 13};
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

/* A stretch from the time of one event on: n events of it were lost, or it was paused. */
static struct gil_event make_gap(struct sim *s, uint64_t begin_ns, size_t n)
{
	struct gil_event gap = {.kind = GIL_LOST};

	gap.lost.begin_mono_ns = begin_ns;
	gap.lost.count = n;
	if (roll(s, 2)) {
		gap.kind = GIL_PAUSED;
		gap.paused.begin_mono_ns = begin_ns;
	}
	return gap;
}

/* Somebody marks something, which is not written where it belongs. */
static void feed_mark(struct sim *s, struct gt_timeline *tl, uint64_t now)
{
	struct gil_event mark = {.kind = GIL_MARK, .mono_ns = now + roll(s, 50)};

	mark.tid = (uint32_t)roll(s, SIM_THREADS);
	mark.mark.name = "name";
	feed(tl, &mark);
}

/*
 * Hands the events on, with marks among them, and without some stretches, which is told as the
 * recorder does.
 */
static void feed_lossy(struct sim *s, struct gt_timeline *tl, int lossy, uint64_t end_ns)
{
	feed_before(s, tl, -1, HOLDS);
	for (size_t i = 0; i < s->n; i++) {
		if (!roll(s, 20))
			feed_mark(s, tl, s->events[i].mono_ns);
		if (lossy && !roll(s, 30)) {
			size_t n = 1 + roll(s, roll(s, 2) ? 3 : 30);
			struct gil_event gap = make_gap(s, s->events[i].mono_ns, n);

			i += n;
			/* at the end the recorder tells what is still untold */
			gap.mono_ns = i < s->n ? s->events[i].mono_ns : end_ns;
			feed(tl, &gap);
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
	uint32_t main_tid;
	uint64_t end_ns;

	s.reads_memory = (uint8_t)roll(&s, 2);
	s.forced_told = (uint8_t)roll(&s, 2);
	main_tid = (uint32_t)roll(&s, 2);
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
	tl = begin(&kept, end_ns, main_tid, 0, s.forced_told, NULL);
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
