// SPDX-License-Identifier: Apache-2.0
#include "profclock.h"

#include <inttypes.h>
#include <stdio.h>

#include "log.h"

#define US_NS     1000
#define SECOND_NS 1000000000
#define DAY_NS    (86400ll * SECOND_NS)

/* The Profiler exports times that went through a double of microseconds: 250 ns at 2026. */
#define EXPORT_ERROR_NS 500
/* It reads two clocks one behind the other, and may be interrupted for a moment. */
#define READ_ERROR_NS 5000
/* Between its start and the first event of its trace, where that is not known. */
#define LEAD_NS SECOND_NS
/* .. and at most: what is further away is no time of its start. */
#define LEAD_MAX_NS (600ll * SECOND_NS)
/* How far from the recording's samples a rate is trusted. */
#define BEYOND_MAX_NS (60ull * SECOND_NS)

/* What is known of the pair. */
struct choice {
	const struct gt_profiler *p;
	const gil_reader *r;
	struct gt_stamps st;
	const char *what;  /* of the Profiler, for messages */
	int64_t timens_ns; /* what its clocks are ahead of the host's */
	uint8_t samples;   /* there are clock samples */
	uint8_t raw;       /* .. with a RAW that can be used */
	uint8_t unix_only; /* its "MONOTONIC" is Unix time */
};

const char *gt_clock_method_text(enum gt_clock_method m)
{
	static const char *const text[] = {
		[GT_CLOCK_START_INFO] = "start_info",
		[GT_CLOCK_END_INFO] = "end_info",
		[GT_CLOCK_DATABASE] = "database",
		[GT_CLOCK_TRACE] = "trace",
		[GT_CLOCK_NONE] = "none",
	};

	return text[m];
}

void gt_clock_text(const struct gt_profclock *c, char buf[GT_CLOCK_TEXT_MAX])
{
	const char *method = gt_clock_method_text(c->method);

	if (c->error_ns == GT_CLOCK_ERROR_UNKNOWN)
		snprintf(buf, GT_CLOCK_TEXT_MAX, "%s +-unknown", method);
	else
		snprintf(buf, GT_CLOCK_TEXT_MAX, "%s +-%" PRIu64 " us", method,
			 c->error_ns / US_NS + (c->error_ns % US_NS != 0));
}

/* ---- placing ---- */

static uint64_t clamp(__int128 v)
{
	return v < 1 ? 1 : v >= (__int128)GIL_TIME_MAX ? GIL_TIME_MAX - 1 : (uint64_t)v;
}

uint64_t gt_profclock_place(const void *ctx, uint64_t mono_ns)
{
	/* The object is not const, only the pointer through which callbacks hand it on. */
	struct gt_profclock *c = (struct gt_profclock *)(uintptr_t)ctx;
	int64_t delta = 0;

	if (mono_ns >= GIL_TIME_MAX)
		mono_ns = GIL_TIME_MAX - 1;
	if (c->raw) {
		if (mono_ns < c->segment.from || mono_ns >= c->segment.to)
			gt_clock_segment(c->r, GT_CLOCK_ID_MONO, GT_CLOCK_ID_RAW, mono_ns,
					 &c->segment);
		delta = gt_clock_delta(&c->segment, mono_ns);
	}
	return clamp((__int128)mono_ns + delta + c->offset_ns);
}

struct gt_range gt_profclock_range(const struct gt_profclock *c)
{
	return (struct gt_range){gt_profclock_place(c, gil_reader_first_mono_ns(c->r)),
				 gt_profclock_place(c, gil_reader_last_mono_ns(c->r))};
}

int gt_profclock_overlaps(const struct gt_profclock *c, const struct gt_proftrace *t)
{
	struct gt_range range;

	if (!t->begin_ns && !t->end_ns)
		return 1;
	range = gt_profclock_range(c);
	return range.begin_ns <= (uint64_t)t->end_ns && range.end_ns >= (uint64_t)t->begin_ns;
}

/* ---- the ways ---- */

/* Sets *out. Returns 1. */
static int set(const struct choice *c, enum gt_clock_method m, int raw, __int128 offset,
	       uint64_t error, struct gt_profclock *out)
{
	uint64_t read = 0;

	/* Beyond what a time can be: it is then placed at its end, where it overlaps nothing. */
	if (offset >= (__int128)GIL_TIME_MAX)
		offset = (__int128)GIL_TIME_MAX - 1;
	if (offset <= -(__int128)GIL_TIME_MAX)
		offset = 1 - (__int128)GIL_TIME_MAX;
	if (c->samples && error != GT_CLOCK_ERROR_UNKNOWN)
		read = gt_clock_error(c->r, gil_reader_first_mono_ns(c->r),
				      gil_reader_last_mono_ns(c->r));
	*out = (struct gt_profclock){.method = m,
				     .raw = raw && c->raw,
				     .offset_ns = (int64_t)offset,
				     .error_ns = error,
				     .r = c->r};
	if (error != GT_CLOCK_ERROR_UNKNOWN)
		out->error_ns = error + read;
	return 1;
}

/* Drift in the time that the Profiler may have run before its first event. */
static uint64_t lead_error(const struct choice *c)
{
	return c->samples ? gt_clock_drift(LEAD_NS, gt_clock_rate(c->r)) : 0;
}

static uint64_t mono_at_raw(const struct choice *c, uint64_t raw)
{
	return clamp((__int128)raw +
		     gt_clock_distance(c->r, GT_CLOCK_ID_RAW, GT_CLOCK_ID_MONO, raw));
}

/* Is this RAW of the Profiler's a time shortly before its trace, and of use? */
static int is_start(const struct choice *c, int64_t raw)
{
	uint64_t first = gil_reader_first_mono_ns(c->r), last = gil_reader_last_mono_ns(c->r), mono;
	int64_t begin = c->p->facts.begin_ns, unix_ns;

	if (raw <= 0 || raw >= (int64_t)GIL_TIME_MAX)
		return 0;
	mono = mono_at_raw(c, (uint64_t)raw);
	if (mono + BEYOND_MAX_NS < first || mono > last + BEYOND_MAX_NS)
		return 0;
	unix_ns =
		(int64_t)clamp((__int128)raw + gt_clock_distance(c->r, GT_CLOCK_ID_RAW,
								 GT_CLOCK_ID_UNIX, (uint64_t)raw));
	return begin <= 0 || (unix_ns <= begin + SECOND_NS && unix_ns >= begin - LEAD_MAX_NS);
}

/*
 * Unix time minus RAW when the Profiler started, as the recording's samples have it: at the RAW
 * that its files tell, else at the first event of its trace. *error: for not knowing it better.
 */
static int64_t distance_at_start(const struct choice *c, uint64_t *error)
{
	uint64_t begin = c->p->facts.begin_ns > 0 ? (uint64_t)c->p->facts.begin_ns : 0, mono;
	int64_t raw = c->st.start_raw_ns - c->timens_ns, distance;

	*error = 0;
	if (c->st.start_raw_ns > 0 && is_start(c, raw)) {
		distance =
			gt_clock_distance(c->r, GT_CLOCK_ID_RAW, GT_CLOCK_ID_UNIX, (uint64_t)raw);
	} else {
		*error = lead_error(c);
		/* Unix minus RAW at the time where Unix shows begin. */
		distance = -gt_clock_distance(c->r, GT_CLOCK_ID_UNIX, GT_CLOCK_ID_RAW, begin);
		raw = (int64_t)clamp((__int128)begin - distance);
	}
	/* It may have been before the recording's first sample. */
	mono = mono_at_raw(c, (uint64_t)raw);
	if (mono < gil_reader_first_mono_ns(c->r) || mono > gil_reader_last_mono_ns(c->r))
		*error += gt_clock_error(c->r, mono, mono);
	return distance;
}

/*
 * Two times of the Profiler itself, which then have no error. A recording without any samples (one
 * that the older tool has made) has nothing but MONOTONIC, which is taken for RAW.
 */
static int by_stamps(const struct choice *c, enum gt_clock_method m, int64_t unix_ns,
		     int64_t raw_ns, struct gt_profclock *out)
{
	return (c->raw || !c->samples) &&
	       set(c, m, 1, (__int128)unix_ns - raw_ns + c->timens_ns,
		   c->raw ? EXPORT_ERROR_NS : GT_CLOCK_ERROR_UNKNOWN, out);
}

static int by_start_info(const struct choice *c, struct gt_profclock *out)
{
	const struct gt_stamps *st = &c->st;

	return st->begin_unix_ns > 0 && st->begin_raw_ns > 0 &&
	       by_stamps(c, GT_CLOCK_START_INFO, st->begin_unix_ns, st->begin_raw_ns, out);
}

/*
 * D was fixed at the start. In the meantime Unix time has run away from RAW by as much as the
 * recording's samples say.
 */
static int by_end_info(const struct choice *c, struct gt_profclock *out)
{
	const struct gt_stamps *st = &c->st;
	int64_t at_end, at_start, raw = st->end_raw_ns - c->timens_ns;
	uint64_t lead;

	if (st->end_unix_ns <= 0 || st->end_raw_ns <= 0)
		return 0;
	if (!c->raw || raw <= 0)
		return by_stamps(c, GT_CLOCK_END_INFO, st->end_unix_ns, st->end_raw_ns, out);
	at_start = distance_at_start(c, &lead);
	at_end = gt_clock_distance(c->r, GT_CLOCK_ID_RAW, GT_CLOCK_ID_UNIX, (uint64_t)raw);
	return set(c, GT_CLOCK_END_INFO, 1,
		   (__int128)st->end_unix_ns - st->end_raw_ns + c->timens_ns + at_start - at_end,
		   READ_ERROR_NS + US_NS + lead, out);
}

/*
 * A session without an NPU has no start_info. Its stamps are RAW as ever, but the Profiler adds the
 * distance of Unix time to MONOTONIC, so that its times are off by what these two are apart. To lie
 * beside its events, ours must be off alike.
 */
static int by_cpu_session(const struct choice *c, struct gt_profclock *out)
{
	const struct gt_stamps *st = &c->st;

	return !st->npu && st->session_unix_ns > 0 && st->session_mono_ns > 0 &&
	       by_stamps(c, GT_CLOCK_END_INFO, st->session_unix_ns, st->session_mono_ns, out);
}

static int by_database(const struct choice *c, struct gt_profclock *out)
{
	int64_t start = c->st.session_start_ns;

	return c->raw && start > 0 &&
	       set(c, GT_CLOCK_DATABASE, 1,
		   -(__int128)gt_clock_distance(c->r, GT_CLOCK_ID_UNIX, GT_CLOCK_ID_RAW,
						(uint64_t)start),
		   READ_ERROR_NS + US_NS, out);
}

/* An old msprof exported RAW as it is. */
static int by_raw_trace(const struct choice *c, struct gt_profclock *out)
{
	return c->p->facts.relative && !c->p->facts.kineto && !c->unix_only &&
	       set(c, GT_CLOCK_TRACE, 1, c->timens_ns,
		   c->raw ? EXPORT_ERROR_NS : GT_CLOCK_ERROR_UNKNOWN, out);
}

/* Unix time by the samples; PyTorch keeps to it, the others to RAW after their start. */
static int by_trace(const struct choice *c, struct gt_profclock *out)
{
	const struct gt_proftrace *t = &c->p->facts;
	uint64_t begin = t->begin_ns > 0 ? (uint64_t)t->begin_ns : 0, lead = 0;
	int64_t distance;

	if (!begin || !c->samples)
		return 0;
	if (c->raw && !t->kineto) {
		distance = distance_at_start(c, &lead);
		return set(c, GT_CLOCK_TRACE, 1, distance, READ_ERROR_NS + lead, out);
	}
	/* What the trace runs away from Unix time until its end. */
	if (!t->kineto)
		lead = gt_clock_drift(LEAD_NS + (uint64_t)(t->end_ns - t->begin_ns),
				      gt_clock_rate(c->r));
	distance = -gt_clock_distance(c->r, GT_CLOCK_ID_UNIX, GT_CLOCK_ID_MONO, begin);
	return set(c, GT_CLOCK_TRACE, 0, distance, READ_ERROR_NS + lead, out);
}

static void by_recording(const struct choice *c, struct gt_profclock *out)
{
	uint64_t first = gil_reader_first_mono_ns(c->r), last = gil_reader_last_mono_ns(c->r);
	int64_t distance = 0;
	uint64_t error = GT_CLOCK_ERROR_UNKNOWN;

	if (c->samples) {
		distance = gt_clock_distance(c->r, GT_CLOCK_ID_MONO, GT_CLOCK_ID_UNIX, first);
		error = gt_clock_drift(last - first, gt_clock_rate(c->r));
	}
	set(c, GT_CLOCK_NONE, 0, distance, error, out);
}

/* ---- which way ---- */

struct way {
	int (*by)(const struct choice *c, struct gt_profclock *out);
	/* Unix time of what it goes by, which must be near the trace; 0: none */
	int64_t unix_ns;
	const char *name;
};

/* A clock of another session: it began after the trace's end, or more than a day before it. */
static int is_far(const struct gt_proftrace *t, int64_t unix_ns)
{
	if (!unix_ns || (!t->begin_ns && !t->end_ns))
		return 0;
	return unix_ns > t->end_ns + DAY_NS || unix_ns < t->begin_ns - DAY_NS;
}

static int acceptable(const struct choice *c, const struct way *way, const struct gt_profclock *out)
{
	if (gt_profclock_overlaps(out, &c->p->facts) || !is_far(&c->p->facts, way->unix_ns))
		return 1;
	gt_warn("%s: its %s is of another time than its trace, and is not used", c->what,
		way->name);
	return 0;
}

static int64_t timens(const gil_reader *r)
{
	const char *text = gil_reader_meta(r, "process.timens_mono_ns");
	int64_t ns;
	char *end;

	if (!text || !*text)
		return 0;
	errno = 0;
	ns = strtoll(text, &end, 10);
	return errno || *end || ns >= (int64_t)GIL_TIME_MAX || ns <= -(int64_t)GIL_TIME_MAX ? 0
											    : ns;
}

static struct choice look(const struct gt_profiler *p, const struct gt_stamps *st,
			  const gil_reader *r)
{
	struct choice c = {.p = p, .r = r, .what = gt_profiler_path(p)};
	const struct gil_clock *first = gil_reader_clock(r, 0);
	const char *import = gil_reader_meta(r, "import.clock");

	c.timens_ns = timens(r);
	c.samples = first != NULL;
	c.unix_only = import && !strcmp(import, "unix");
	c.raw = first && first->raw_ns && !gil_reader_meta(r, "import.format");
	if (c.raw && !gt_clock_is_steady(r, GT_CLOCK_ID_RAW)) {
		gt_warn("%s: in the recording's clock samples CLOCK_MONOTONIC_RAW goes back; it is "
			"not used",
			c.what);
		c.raw = 0;
	}
	/* What the Profiler says of RAW is of no use for one that is in Unix time. */
	if (!c.unix_only)
		c.st = *st;
	return c;
}

void gt_profclock_choose(const struct gt_profiler *p, const struct gt_stamps *st,
			 const gil_reader *r, struct gt_profclock *out)
{
	const struct choice c = look(p, st, r);
	const struct way ways[] = {
		{by_raw_trace, 0, "trace"},
		{by_start_info, c.st.begin_unix_ns, "start_info"},
		{by_end_info, c.st.end_unix_ns, "end_info"},
		{by_cpu_session, c.st.session_unix_ns, "profiler_info.json"},
		{by_database, c.st.session_start_ns, "database"},
		{by_trace, 0, "trace"},
	};

	for (size_t i = 0; i < GT_ARRAY_SIZE(ways); i++)
		if (ways[i].by(&c, out) && acceptable(&c, &ways[i], out))
			return;
	by_recording(&c, out);
}
