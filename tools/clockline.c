// SPDX-License-Identifier: Apache-2.0
#include "clockline.h"

#define SECOND_NS        1000000000u
#define BASE_MIN_NS      100000000u /* for the rate of a clock; errors of samples matter below it */
#define RATE_MAX_PPM     1000       /* a kernel slews by 500 */
#define RATE_UNKNOWN_PPB 100000u
#define RATE_CHANGE_PPB  1000u

static uint64_t value(const struct gil_clock *c, enum gt_clock_id id)
{
	return id == GT_CLOCK_ID_RAW ? c->raw_ns : id == GT_CLOCK_ID_UNIX ? c->unix_ns : c->mono_ns;
}

static uint64_t at_sample(const gil_reader *r, size_t i, enum gt_clock_id id)
{
	return value(gil_reader_clock(r, i), id);
}

/* All values are below 2^62, so distances and their differences fit. */
static int64_t distance(const gil_reader *r, size_t i, enum gt_clock_id x, enum gt_clock_id y)
{
	return (int64_t)at_sample(r, i, y) - (int64_t)at_sample(r, i, x);
}

/* The number of samples at or before `at`. */
static size_t before(const gil_reader *r, enum gt_clock_id x, uint64_t at)
{
	size_t lo = 0, hi = gil_reader_clocks(r);

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (at_sample(r, mid, x) <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int too_steep(int64_t num, uint64_t den)
{
	uint64_t size = num < 0 ? 0 - (uint64_t)num : (uint64_t)num;

	return !den || size / RATE_MAX_PPM > den / 1000000;
}

/* The line beyond sample `end` (the first or last): by one far enough on the other side. */
static void go_on(const gil_reader *r, enum gt_clock_id x, enum gt_clock_id y, size_t end,
		  struct gt_clock_segment *s)
{
	size_t n = gil_reader_clocks(r), other = end;
	uint64_t x0 = at_sample(r, end, x), base = 0;
	int64_t step;

	s->x0 = x0;
	s->delta0 = distance(r, end, x, y);
	s->num = 0;
	s->den = 1;
	while (base < SECOND_NS && (end ? other > 0 : other + 1 < n)) {
		uint64_t v;

		other = end ? other - 1 : other + 1;
		v = at_sample(r, other, x);
		if (end ? v > x0 : v < x0)
			return;
		base = end ? x0 - v : v - x0;
	}
	if (base < BASE_MIN_NS)
		return;
	step = distance(r, other, x, y) - s->delta0;
	if (end)
		step = -step;
	if (too_steep(step, base))
		return;
	s->num = step;
	s->den = base;
}

void gt_clock_segment(const gil_reader *r, enum gt_clock_id x, enum gt_clock_id y, uint64_t at,
		      struct gt_clock_segment *out)
{
	size_t n = gil_reader_clocks(r), i = before(r, x, at);
	struct gt_clock_segment s = {.to = UINT64_MAX};

	if (!i) {
		go_on(r, x, y, 0, &s);
		s.to = s.x0;
	} else if (i == n) {
		go_on(r, x, y, n - 1, &s);
		s.from = s.x0;
	} else {
		s.from = s.x0 = at_sample(r, i - 1, x);
		s.to = at_sample(r, i, x);
		s.delta0 = distance(r, i - 1, x, y);
		s.num = distance(r, i, x, y) - s.delta0;
		s.den = s.to - s.x0;
		/* Somebody has set the wall clock: when in between is not known. */
		if ((x == GT_CLOCK_ID_UNIX || y == GT_CLOCK_ID_UNIX) && too_steep(s.num, s.den))
			s.num = 0;
	}
	*out = s;
}

int64_t gt_clock_delta(const struct gt_clock_segment *s, uint64_t at)
{
	int64_t dx = (int64_t)(at - s->x0), small;
	int64_t half = (int64_t)(s->den / 2);
	__int128 big;

	if (!__builtin_mul_overflow(dx, s->num, &small) &&
	    !__builtin_add_overflow(small, small < 0 ? -half : half, &small))
		return s->delta0 + small / (int64_t)s->den;
	big = (__int128)dx * s->num;
	big += big < 0 ? -half : half;
	return s->delta0 + (int64_t)(big / (int64_t)s->den);
}

int64_t gt_clock_distance(const gil_reader *r, enum gt_clock_id x, enum gt_clock_id y, uint64_t at)
{
	struct gt_clock_segment s;

	gt_clock_segment(r, x, y, at, &s);
	return gt_clock_delta(&s, at);
}

int gt_clock_is_steady(const gil_reader *r, enum gt_clock_id id)
{
	for (size_t i = 1; i < gil_reader_clocks(r); i++)
		if (at_sample(r, i, id) < at_sample(r, i - 1, id))
			return 0;
	return 1;
}

/* a * b / c, but not beyond what a time can be. */
static uint64_t scale(uint64_t a, uint64_t b, uint64_t c)
{
	unsigned __int128 v = (unsigned __int128)a * b / c;

	return v > GIL_TIME_MAX ? GIL_TIME_MAX : (uint64_t)v;
}

static uint64_t size_of(int64_t v)
{
	return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

uint64_t gt_clock_rate(const gil_reader *r)
{
	uint64_t most = 0, from, to;
	size_t n = gil_reader_clocks(r), last = 0;
	int known = 0;

	for (size_t i = 1; i < n; i++) {
		int64_t step;

		from = at_sample(r, last, GT_CLOCK_ID_MONO);
		to = at_sample(r, i, GT_CLOCK_ID_MONO);
		if (to - from < BASE_MIN_NS)
			continue;
		step = distance(r, i, GT_CLOCK_ID_MONO, GT_CLOCK_ID_RAW) -
		       distance(r, last, GT_CLOCK_ID_MONO, GT_CLOCK_ID_RAW);
		last = i;
		known = 1;
		if (!too_steep(step, to - from) &&
		    scale(size_of(step), SECOND_NS, to - from) > most)
			most = scale(size_of(step), SECOND_NS, to - from);
	}
	return known ? most : RATE_UNKNOWN_PPB;
}

/* How far the samples lie from the line between their neighbours, at most. */
static uint64_t bend(const gil_reader *r)
{
	uint64_t most = 0;

	for (size_t i = 1; i + 1 < gil_reader_clocks(r); i++) {
		struct gt_clock_segment s = {
			.x0 = at_sample(r, i - 1, GT_CLOCK_ID_MONO),
			.delta0 = distance(r, i - 1, GT_CLOCK_ID_MONO, GT_CLOCK_ID_RAW),
		};
		uint64_t off;

		s.den = at_sample(r, i + 1, GT_CLOCK_ID_MONO) - s.x0;
		if (!s.den)
			continue;
		s.num = distance(r, i + 1, GT_CLOCK_ID_MONO, GT_CLOCK_ID_RAW) - s.delta0;
		off = size_of(gt_clock_delta(&s, at_sample(r, i, GT_CLOCK_ID_MONO)) -
			      distance(r, i, GT_CLOCK_ID_MONO, GT_CLOCK_ID_RAW));
		if (off > most)
			most = off;
	}
	return most;
}

uint64_t gt_clock_drift(uint64_t ns, uint64_t ppb)
{
	return scale(ns, ppb, SECOND_NS);
}

/* The errors of two samples next to each other, where they are greatest. */
static uint64_t reading_error(const gil_reader *r)
{
	uint64_t most = gil_reader_clock(r, 0)->error_ns;

	for (size_t i = 1; i < gil_reader_clocks(r); i++) {
		uint64_t two =
			gil_reader_clock(r, i - 1)->error_ns + gil_reader_clock(r, i)->error_ns;

		if (two > most)
			most = two;
	}
	return most;
}

uint64_t gt_clock_error(const gil_reader *r, uint64_t from, uint64_t to)
{
	size_t n = gil_reader_clocks(r);
	uint64_t first = at_sample(r, 0, GT_CLOCK_ID_MONO);
	uint64_t last = at_sample(r, n - 1, GT_CLOCK_ID_MONO);
	uint64_t read = reading_error(r), bent = bend(r), span = last - first, beyond = 0, ppb;

	if (from < first)
		beyond = first - from;
	if (to > last && to - last > beyond)
		beyond = to - last;
	/* The rate beyond is known from a second of samples, and changes. */
	if (span < BASE_MIN_NS)
		ppb = RATE_UNKNOWN_PPB;
	else
		ppb = RATE_CHANGE_PPB + scale(read, SECOND_NS, span < SECOND_NS ? span : SECOND_NS);
	read += bent > read ? (bent - read) / 2 : 0;
	read += gt_clock_drift(beyond, ppb);
	return read > GIL_TIME_MAX ? GIL_TIME_MAX : read;
}
