// SPDX-License-Identifier: Apache-2.0
/*
 * profclock.c, profstamps.c, profdb.c: every way of placing a recording on a Profiler's axis, with
 * numbers chosen here, its error bound, and files that are no such thing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#if __has_include(<sqlite3.h>)
#include <sqlite3.h>
#define HAVE_SQLITE_H
#endif

#include "log.h"
#include "profclock.h"
#include "profdb.h"
#include "proffix.h"

#define S 1000000000ull

/* Of the host: MONOTONIC runs 50 ppm fast against RAW, which is 144 ms behind it at 1000 s. */
#define MONO_0 (1000 * S)
#define UNIX_0 (1736405443 * S)
#define APART  144000000ull
#define PPM    50

static uint64_t raw_at(uint64_t mono)
{
	return MONO_0 - APART + (mono - MONO_0) - (mono - MONO_0) * PPM / 1000000;
}

static uint64_t unix_at(uint64_t mono)
{
	return UNIX_0 + (mono - MONO_0);
}

static struct gil_clock sample(uint64_t mono)
{
	return (struct gil_clock){.mono_ns = mono,
				  .raw_ns = raw_at(mono),
				  .unix_ns = unix_at(mono),
				  .boot_ns = mono,
				  .error_ns = 50};
}

/* 60 seconds, a sample in each. */
static gil_reader *minute(const char *const (*meta)[2], size_t nmeta)
{
	struct gil_clock clocks[61];

	for (size_t i = 0; i < GT_ARRAY_SIZE(clocks); i++)
		clocks[i] = sample(MONO_0 + i * S);
	return recording(clocks, GT_ARRAY_SIZE(clocks), meta, nmeta);
}

/* A Profiler whose trace lasts from the 20th to the 40th second. */
static struct gt_profiler profiler(void)
{
	return (struct gt_profiler){
		.trace = "trace_view.json",
		.dir = "profiler",
		.pid = -1,
		.rank = -1,
		.facts = {.begin_ns = (int64_t)(UNIX_0 + 20 * S),
			  .end_ns = (int64_t)(UNIX_0 + 40 * S)},
	};
}

static struct gt_profclock choose(const struct gt_profiler *p, const gil_reader *r,
				  enum gt_clock_method expected)
{
	struct gt_profclock c;
	struct gt_stamps st;

	gt_stamps_read(p, &st);
	gt_profclock_choose(p, &st, r, &c);
	assert_int_equal(c.method, expected);
	return c;
}

static void put_stamps(const char *name, const char *time_key, uint64_t unix_us, uint64_t raw)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "{\"collectionDate\": \"2025-01-09 06:50:43\", \"%s\": \"%llu\", "
		 "\"clockMonotonicRaw\": \"%llu\"}",
		 time_key, (unsigned long long)unix_us, (unsigned long long)raw);
	put(name, text);
}

static uint64_t off(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* ---- ways ---- */

/* D is the Profiler's own number, so nothing is lost but rounding between samples. */
static void by_start_info(void **state)
{
	gil_reader *r = minute(NULL, 0);
	struct gt_profiler p = profiler();
	uint64_t unix_us = unix_at(MONO_0 + 10 * S) / 1000 - 7,
		 raw = raw_at(MONO_0 + 10 * S) + 4321;
	struct gt_profclock c;

	(void)state;
	put_stamps("host/start_info", "collectionTimeBegin", unix_us, raw);
	put_stamps("host/end_info", "collectionTimeEnd", unix_us + 1, raw);
	p.host_dir = (char *)in_base("host");
	c = choose(&p, r, GT_CLOCK_START_INFO);
	assert_true(c.raw);
	assert_int_equal(c.offset_ns, (int64_t)(unix_us * 1000 - raw));
	for (uint64_t t = MONO_0; t <= MONO_0 + 60 * S; t += 76543211)
		assert_true(off(gt_profclock_place(&c, t), raw_at(t) + unix_us * 1000 - raw) <= 1);
	assert_in_range(c.error_ns, 100, 1000);
	gil_reader_close(r);
}

/* Where it lies in a device's folder, with its number; marks of the Profiler beside it. */
static void by_start_info_of_a_device(void **state)
{
	gil_reader *r = minute(NULL, 0);
	struct gt_profiler p = profiler();

	(void)state;
	put("device_0/start_info.0.done", "no JSON");
	put_stamps("device_0/start_info.0", "collectionTimeBegin", unix_at(MONO_0 + S) / 1000,
		   raw_at(MONO_0 + S));
	p.host_dir = (char *)in_base("device_0");
	choose(&p, r, GT_CLOCK_START_INFO);
	gil_reader_close(r);
}

/* The process lives in a time namespace, and so does its Profiler. */
static void in_a_time_namespace(void **state)
{
	static const char *const meta[][2] = {{"process.timens_mono_ns", "-86400000000000"}};
	gil_reader *r = minute(meta, 1);
	struct gt_profiler p = profiler();
	uint64_t at = MONO_0 + 30 * S, raw;
	struct gt_profclock c;

	(void)state;
	raw = raw_at(MONO_0 + 10 * S) + 100000 * S; /* what it shows of that must be above 0 */
	put_stamps("host/start_info", "collectionTimeBegin", unix_at(MONO_0 + 10 * S) / 1000,
		   raw - 86400 * S);
	p.host_dir = (char *)in_base("host");
	p.facts.begin_ns -= (int64_t)(100000 * S);
	p.facts.end_ns -= (int64_t)(100000 * S);
	c = choose(&p, r, GT_CLOCK_START_INFO);
	assert_true(off(gt_profclock_place(&c, at), unix_at(MONO_0 + 10 * S) + raw_at(at) - raw) <=
		    1);
	gil_reader_close(r);
}

/* D was fixed at the start; at the end Unix time is 50 ppm * 35 s further on against RAW. */
static void by_end_info(void **state)
{
	gil_reader *r = minute(NULL, 0);
	struct gt_profiler p = profiler();
	uint64_t end = MONO_0 + 45 * S, start = MONO_0 + 20 * S, at = MONO_0 + 30 * S, expected;
	struct gt_profclock c;

	(void)state;
	put_stamps("host/end_info", "collectionTimeEnd", unix_at(end) / 1000, raw_at(end));
	p.host_dir = (char *)in_base("host");
	c = choose(&p, r, GT_CLOCK_END_INFO);
	/* What the Profiler would have drawn, had it begun with its first event. */
	expected = raw_at(at) + unix_at(start) - raw_at(start);
	assert_true(off(gt_profclock_place(&c, at), expected) <= 3);
	assert_in_range(c.error_ns, 6000 + PPM * 1000, 6000 + PPM * 1000 + 1500);
	/* When it has begun is known: no drift in the meantime. */
	put("host/host_start.log", "[Host]\nclock_monotonic_raw: 1009856000000\ncntvct: 7\n");
	start = MONO_0 + 10000500025;
	c = choose(&p, r, GT_CLOCK_END_INFO);
	expected = raw_at(at) + unix_at(start) - raw_at(start);
	assert_true(off(gt_profclock_place(&c, at), expected) <= 3);
	assert_in_range(c.error_ns, 6000, 7500);
	gil_reader_close(r);
}

/*
 * Without an NPU the Profiler adds the distance of Unix time to MONOTONIC to stamps of RAW, 18
 * digits long: a double would lose 128 ns.
 */
static void by_cpu_session(void **state)
{
	gil_reader *r = minute(NULL, 0);
	struct gt_profiler p = profiler();
	uint64_t end = MONO_0 + 41 * S + 1, at = MONO_0 + 30 * S;
	struct gt_profclock c;
	char text[512];

	(void)state;
	snprintf(text, sizeof(text),
		 "{\"config\": {\"common_config\": {\"activities\": [\"ProfilerActivity.CPU\"]}},"
		 " \"start_info\": {\"freq\": 100, \"start_monotonic\": 5},"
		 " \"end_info\": {\"collectionTimeEnd\": %llu, \"MonotonicTimeEnd\": %llu},"
		 " \"rank_id\": 0}",
		 (unsigned long long)unix_at(end), (unsigned long long)end);
	put("profiler_info_0.json", text);
	p.info = (char *)in_base("profiler_info_0.json");
	c = choose(&p, r, GT_CLOCK_END_INFO);
	assert_true(c.raw);
	assert_int_equal(c.offset_ns, (int64_t)(UNIX_0 - MONO_0));
	assert_true(off(gt_profclock_place(&c, at), raw_at(at) + UNIX_0 - MONO_0) <= 1);
	assert_in_range(c.error_ns, 100, 1000);
	gil_reader_close(r);
}

/* With an NPU that distance is not what it added: only its start is of use. */
static void npu_session_without_start_info(void **state)
{
	gil_reader *r = minute(NULL, 0);
	struct gt_profiler p = profiler();
	uint64_t start = MONO_0 + 5 * S, at = MONO_0 + 30 * S;
	struct gt_profclock c;
	char text[512];

	(void)state;
	snprintf(text, sizeof(text),
		 "{\"config\": {\"common_config\": {\"activities\": [\"ProfilerActivity.CPU\", "
		 "\"ProfilerActivity.NPU\"]}}, \"start_info\": {\"start_monotonic\": %llu},"
		 " \"end_info\": {\"collectionTimeEnd\": %llu, \"MonotonicTimeEnd\": %llu}}",
		 (unsigned long long)raw_at(start), UNIX_0 + 41 * S, MONO_0 + 41 * S);
	put("profiler_info_0.json", text);
	p.info = (char *)in_base("profiler_info_0.json");
	c = choose(&p, r, GT_CLOCK_TRACE);
	assert_true(off(gt_profclock_place(&c, at), raw_at(at) + unix_at(start) - raw_at(start)) <=
		    3);
	assert_in_range(c.error_ns, 5000, 6000);
	/* One that is no time shortly before the trace is of no use. */
	put("profiler_info_0.json", "{\"start_info\": {\"start_monotonic\": 2}, \"config\": "
				    "{\"common_config\": {\"activities\": [\"NPU\"]}}}");
	c = choose(&p, r, GT_CLOCK_TRACE);
	start = MONO_0 + 20 * S;
	assert_true(off(gt_profclock_place(&c, at), raw_at(at) + unix_at(start) - raw_at(start)) <=
		    3);
	assert_in_range(c.error_ns, 5000 + PPM * 1000, 5000 + PPM * 1000 + 1500);
	gil_reader_close(r);
}

static void by_trace(void **state)
{
	gil_reader *r = minute(NULL, 0);
	struct gt_profiler p = profiler();
	uint64_t begin = MONO_0 + 20 * S, at = MONO_0 + 30 * S;
	struct gt_profclock c = choose(&p, r, GT_CLOCK_TRACE);

	(void)state;
	assert_true(c.raw);
	assert_true(off(gt_profclock_place(&c, at), raw_at(at) + unix_at(begin) - raw_at(begin)) <=
		    3);
	/* 5 us, and 50 ppm of the second that it may have begun earlier. */
	assert_in_range(c.error_ns, 5000 + PPM * 1000, 5000 + PPM * 1000 + 1500);
	/* PyTorch's own profiler keeps to Unix time. */
	p.facts.kineto = 1;
	c = choose(&p, r, GT_CLOCK_TRACE);
	assert_false(c.raw);
	assert_int_equal(gt_profclock_place(&c, at), unix_at(at));
	assert_in_range(c.error_ns, 5000, 6000);
	gil_reader_close(r);
}

/* The wall clock was set by a minute after the first samples: the trace's begin decides. */
static void wall_clock_set(void **state)
{
	struct gil_clock clocks[] = {sample(MONO_0), sample(MONO_0 + S), sample(MONO_0 + 2 * S),
				     sample(MONO_0 + 60 * S)};
	struct gt_profiler p = profiler();
	gil_reader *r;
	struct gt_profclock c;

	(void)state;
	p.facts.kineto = 1;
	clocks[2].unix_ns += 60 * S;
	clocks[3].unix_ns += 60 * S;
	p.facts.begin_ns += (int64_t)(60 * S);
	p.facts.end_ns += (int64_t)(60 * S);
	r = recording(clocks, 4, NULL, 0);
	c = choose(&p, r, GT_CLOCK_TRACE);
	assert_int_equal(gt_profclock_place(&c, MONO_0 + 30 * S),
			 unix_at(MONO_0 + 30 * S) + 60 * S);
	gil_reader_close(r);
}

/* An old msprof exports RAW as it is. */
static void relative_trace(void **state)
{
	gil_reader *r = minute(NULL, 0);
	struct gt_profiler p = profiler();
	uint64_t at = MONO_0 + 30 * S;
	struct gt_profclock c;

	(void)state;
	p.facts.relative = 1;
	p.facts.begin_ns = (int64_t)raw_at(MONO_0 + 20 * S);
	p.facts.end_ns = (int64_t)raw_at(MONO_0 + 40 * S);
	c = choose(&p, r, GT_CLOCK_TRACE);
	assert_true(off(gt_profclock_place(&c, at), raw_at(at)) <= 1);
	/* PyTorch's profiler never does: its base is missing. */
	p.facts.kineto = 1;
	c = choose(&p, r, GT_CLOCK_TRACE);
	assert_false(gt_profclock_overlaps(&c, &p.facts));
	gil_reader_close(r);
}

/* A trace without a single time: Unix time, whatever it is good for. */
static void nothing_known(void **state)
{
	gil_reader *r = minute(NULL, 0);
	struct gt_profiler p = profiler();
	struct gt_profclock c;

	(void)state;
	p.facts.begin_ns = p.facts.end_ns = 0;
	c = choose(&p, r, GT_CLOCK_NONE);
	assert_int_equal(gt_profclock_place(&c, MONO_0 + 3), unix_at(MONO_0 + 3));
	assert_true(gt_profclock_overlaps(&c, &p.facts));
	assert_in_range(c.error_ns, 60 * PPM * 1000, 60 * PPM * 1000 + 1500);
	gil_reader_close(r);
}

#ifdef HAVE_SQLITE_H
static void make_database(const char *path, const char *sql)
{
	sqlite3 *db;

	unlink(path);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static int without_sqlite(void)
{
	int64_t a, b;
	char why[256];

	return gt_profdb_session("/nowhere", &a, &b, why, sizeof(why)) == -ENOTSUP;
}

/* Unix time at the start, to which the recording's own samples know RAW. */
static void by_database(void **state)
{
	gil_reader *r = minute(NULL, 0);
	struct gt_profiler p = profiler();
	uint64_t start = MONO_0 + 12 * S, at = MONO_0 + 30 * S;
	const char *name = in_base("ascend %41?#&_profiler.db");
	struct gt_profclock c;
	char sql[256];

	(void)state;
	if (without_sqlite())
		skip();
	snprintf(sql, sizeof(sql),
		 "CREATE TABLE SESSION_TIME_INFO (startTimeNs INTEGER, endTimeNs INTEGER);"
		 "INSERT INTO SESSION_TIME_INFO VALUES (%llu, %llu)",
		 (unsigned long long)unix_at(start), (unsigned long long)unix_at(at));
	make_database(name, sql);
	p.database = (char *)name;
	c = choose(&p, r, GT_CLOCK_DATABASE);
	assert_true(off(gt_profclock_place(&c, at), raw_at(at) + unix_at(start) - raw_at(start)) <=
		    3);
	assert_in_range(c.error_ns, 6000, 7500);
	gil_reader_close(r);
}

static void databases_without_it(void **state)
{
	static const char *const sql[] = {
		"CREATE TABLE OTHER (x)",
		"CREATE TABLE SESSION_TIME_INFO (startTimeNs INTEGER, endTimeNs INTEGER)",
		"CREATE TABLE SESSION_TIME_INFO (x); INSERT INTO SESSION_TIME_INFO VALUES (1)",
		"CREATE TABLE SESSION_TIME_INFO (startTimeNs, endTimeNs);"
		"INSERT INTO SESSION_TIME_INFO VALUES ('1736405443000000000', 2.5)",
		"CREATE TABLE SESSION_TIME_INFO (startTimeNs, endTimeNs);"
		"INSERT INTO SESSION_TIME_INFO VALUES (-5, 7)",
		"CREATE TABLE SESSION_TIME_INFO (startTimeNs, endTimeNs);"
		"INSERT INTO SESSION_TIME_INFO VALUES (9, 7)",
		/* never ends */
		"CREATE VIEW SESSION_TIME_INFO AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL "
		"SELECT "
		"x + 1 FROM c) SELECT count(x) AS startTimeNs, 1 AS endTimeNs FROM c",
	};
	const char *path = in_base("x.db");
	int64_t start = 0, end;
	char why[256];

	(void)state;
	if (without_sqlite())
		skip();
	for (size_t i = 0; i < GT_ARRAY_SIZE(sql); i++) {
		make_database(path, sql[i]);
		why[0] = '\0';
		assert_true(gt_profdb_session(path, &start, &end, why, sizeof(why)) < 0);
		assert_true(why[0]);
	}
	put("x.db", "SQLite format 3, or so");
	assert_int_equal(gt_profdb_session(path, &start, &end, why, sizeof(why)), -EBADMSG);
	put("x.db", "");
	assert_true(gt_profdb_session(path, &start, &end, why, sizeof(why)) < 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(gt_profdb_session(path, &start, &end, why, sizeof(why)), -ENOENT);
	assert_int_equal(symlink("y.db", path), 0);
	assert_int_equal(gt_profdb_session(path, &start, &end, why, sizeof(why)), -ELOOP);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(gt_profdb_session(path, &start, &end, why, sizeof(why)), -EINVAL);
}
#endif

/* ---- what cannot be used ---- */

/* Each of these is left alone, and the trace decides. */
static void damaged_start_info(void **state)
{
	static const char *const texts[] = {
		"",
		"{",
		"[]",
		"no JSON",
		"{\"collectionTimeBegin\": \"1736405443000000\"}",
		"{\"clockMonotonicRaw\": \"1000000000\"}",
		"{\"collectionTimeBegin\": \"1736405443000000\", \"clockMonotonicRaw\": \"0\"}",
		"{\"collectionTimeBegin\": \"-1736405443000000\", \"clockMonotonicRaw\": \"1\"}",
		"{\"collectionTimeBegin\": \"1736405443000000\", \"clockMonotonicRaw\": \"-1\"}",
		"{\"collectionTimeBegin\": \"1736405443000000\", \"clockMonotonicRaw\": \"1.5\"}",
		"{\"collectionTimeBegin\": \"1736405443000000\", \"clockMonotonicRaw\": \"\"}",
		"{\"collectionTimeBegin\": \"1736405443000000\", \"clockMonotonicRaw\": null}",
		"{\"collectionTimeBegin\": \"1736405443000000\", \"clockMonotonicRaw\": {\"a\": "
		"1}}",
		"{\"collectionTimeBegin\": \"99999999999999999999\", \"clockMonotonicRaw\": \"1\"}",
		"{\"collectionTimeBegin\": \"1736405443000000\", "
		"\"clockMonotonicRaw\": \"99999999999999999999\"}",
		"{\"collectionTimeBegin\": \"NaN\", \"clockMonotonicRaw\": \"1\"}",
		/* They would fit 64 bits, but no clock shows them. */
		"{\"collectionTimeBegin\": \"4611686018427388\", \"clockMonotonicRaw\": \"1\"}",
		"{\"collectionTimeBegin\": \"1736405443000000\", "
		"\"clockMonotonicRaw\": \"4611686018427387904\"}",
		"{\"x\": {\"collectionTimeBegin\": \"1736405443000000\", "
		"\"clockMonotonicRaw\": \"1000000000\"}}",
		"{\"collectionTimeBegin\": \"1736405443000000\", "
		"\"clockMonotonicRaw\": \"1000000000\"} trailing",
	};
	gil_reader *r = minute(NULL, 0);
	struct gt_profiler p = profiler();

	(void)state;
	p.host_dir = (char *)in_base("host");
	for (size_t i = 0; i < GT_ARRAY_SIZE(texts); i++) {
		put("host/start_info", texts[i]);
		choose(&p, r, GT_CLOCK_TRACE);
	}
	/* Deep, wide and large. */
	{
		char *big = malloc(2 << 20);

		assert_non_null(big);
		memset(big, '[', 1 << 19);
		big[1 << 19] = '\0';
		put("host/start_info", big);
		choose(&p, r, GT_CLOCK_TRACE);
		memset(big, ' ', (2 << 20) - 1);
		strcpy(big + (2 << 20) - 200, "{\"collectionTimeBegin\": \"1736405443000000\", "
					      "\"clockMonotonicRaw\": \"1000000000\"}");
		put("host/start_info", big);
		choose(&p, r, GT_CLOCK_TRACE);
		free(big);
	}
	assert_int_equal(unlink(in_base("host/start_info")), 0);
	choose(&p, r, GT_CLOCK_TRACE);
	put_stamps("real", "collectionTimeBegin", unix_at(MONO_0) / 1000, raw_at(MONO_0));
	assert_int_equal(symlink("../real", in_base("host/start_info")), 0);
	choose(&p, r, GT_CLOCK_TRACE);
	assert_int_equal(unlink(in_base("host/start_info")), 0);
	assert_int_equal(mkfifo(in_base("host/start_info"), 0600), 0);
	choose(&p, r, GT_CLOCK_TRACE);
	assert_int_equal(unlink(in_base("host/start_info")), 0);
	put_dir("host/start_info");
	choose(&p, r, GT_CLOCK_TRACE);
	/* The same file, when it is one. */
	assert_int_equal(rmdir(in_base("host/start_info")), 0);
	assert_int_equal(link(in_base("real"), in_base("host/start_info")), 0);
	choose(&p, r, GT_CLOCK_START_INFO);
	gil_reader_close(r);
}

/* Numbers, not strings; decimals; a key given twice: the later one. */
static void odd_but_right(void **state)
{
	gil_reader *r = minute(NULL, 0);
	struct gt_profiler p = profiler();
	struct gt_profclock c;

	(void)state;
	p.host_dir = (char *)in_base("host");
	put("host/start_info", "{\"collectionTimeBegin\": 7, \"clockMonotonicRaw\": 1010000000001,"
			       "\"collectionTimeBegin\": 1736405453000000.125}\n");
	c = choose(&p, r, GT_CLOCK_START_INFO);
	assert_int_equal(c.offset_ns, 1736405453000000125 - 1010000000001);
	gil_reader_close(r);
}

/* Of another session, months ago: its place is far from the trace. */
static void contradicting_start_info(void **state)
{
	gil_reader *r = minute(NULL, 0);
	struct gt_profiler p = profiler();
	struct gt_profclock c;

	(void)state;
	p.host_dir = (char *)in_base("host");
	put_stamps("host/start_info", "collectionTimeBegin", UNIX_0 / 1000 - 5000000000000, 5 * S);
	choose(&p, r, GT_CLOCK_TRACE);
	/* Of a time near the trace's, but of another host: that cannot be put right. */
	put_stamps("host/start_info", "collectionTimeBegin", UNIX_0 / 1000, 5 * S);
	c = choose(&p, r, GT_CLOCK_START_INFO);
	assert_false(gt_profclock_overlaps(&c, &p.facts));
	/* Of long ago, but it fits: a session that has run for long. */
	put_stamps("host/start_info", "collectionTimeBegin",
		   (UNIX_0 - 900 * S) / 1000 - 172800000000, 1);
	p.facts.begin_ns -= (int64_t)(172800 * S);
	p.facts.end_ns -= (int64_t)(172800 * S);
	c = choose(&p, r, GT_CLOCK_START_INFO);
	gil_reader_close(r);
}

/* ---- recordings with less ---- */

static void one_sample(void **state)
{
	struct gil_clock one = sample(MONO_0 + 30 * S);
	gil_reader *r = recording(&one, 1, NULL, 0);
	struct gt_profiler p = profiler();
	struct gt_profclock c;

	(void)state;
	put_stamps("host/start_info", "collectionTimeBegin", unix_at(MONO_0 + 10 * S) / 1000,
		   raw_at(MONO_0 + 10 * S));
	p.host_dir = (char *)in_base("host");
	c = choose(&p, r, GT_CLOCK_START_INFO);
	/* Both clocks run alike around it. */
	assert_int_equal(gt_profclock_place(&c, one.mono_ns + 5 * S) -
				 gt_profclock_place(&c, one.mono_ns),
			 5 * S);
	gil_reader_close(r);
}

static void no_sample(void **state)
{
	gil_reader *r = recording(NULL, 0, NULL, 0);
	struct gt_profiler p = profiler();
	struct gt_profclock c = choose(&p, r, GT_CLOCK_NONE);
	char text[GT_CLOCK_TEXT_MAX];

	(void)state;
	assert_true(c.error_ns == GT_CLOCK_ERROR_UNKNOWN);
	assert_int_equal(gt_profclock_place(&c, 123), 123);
	gt_clock_text(&c, text);
	assert_string_equal(text, "none +-unknown");
	gil_reader_close(r);
}

/* One of the older tool, in Unix time: the Profiler's RAW says nothing of it. */
static void imported(void **state)
{
	static const char *const meta[][2] = {{"import.format", "json"}, {"import.clock", "unix"}};
	struct gil_clock c = {
		.mono_ns = UNIX_0 + 20 * S, .unix_ns = UNIX_0 + 20 * S, .error_ns = 1000};
	gil_reader *r = recording(&c, 1, meta, 2);
	struct gt_profiler p = profiler();
	struct gt_profclock placed;

	(void)state;
	put_stamps("host/start_info", "collectionTimeBegin", UNIX_0 / 1000, 5 * S);
	p.host_dir = (char *)in_base("host");
	placed = choose(&p, r, GT_CLOCK_TRACE);
	assert_int_equal(gt_profclock_place(&placed, UNIX_0 + 21 * S), UNIX_0 + 21 * S);
	gil_reader_close(r);
}

/* A damaged or hostile recording: RAW goes back. */
static void raw_goes_back(void **state)
{
	struct gil_clock clocks[] = {sample(MONO_0), sample(MONO_0 + 20 * S),
				     sample(MONO_0 + 40 * S)};
	struct gt_profiler p = profiler();
	struct gt_profclock c;
	uint64_t before = 0;
	gil_reader *r;

	(void)state;
	clocks[2].raw_ns = 5;
	r = recording(clocks, 3, NULL, 0);
	put_stamps("host/start_info", "collectionTimeBegin", UNIX_0 / 1000, raw_at(MONO_0));
	p.host_dir = (char *)in_base("host");
	c = choose(&p, r, GT_CLOCK_TRACE);
	assert_false(c.raw);
	for (uint64_t t = MONO_0; t < MONO_0 + 60 * S; t += S / 3) {
		uint64_t at = gt_profclock_place(&c, t);

		assert_true(at >= before);
		before = at;
	}
	gil_reader_close(r);
}

/*
 * Numbers as great as any file may have them, in every place, together with the greatest distance
 * of a time namespace: something is placed, and no arithmetic overflows (the sanitizer tells).
 */
static void great_numbers(void **state)
{
	static const char *const timens[] = {"0", "4611686018427387903", "-4611686018427387903"};
	static const char *const numbers[] = {"1", "4611686018427387903", "9223372036854775807"};
	static const char *const files[] = {"host/start_info", "host/end_info",
					    "host/host_start.log"};

	(void)state;
	for (int i = 0; i < 3 * 3 * 3 * 3 * 2; i++) {
		const char *const meta[][2] = {{"process.timens_mono_ns", timens[i % 3]}};
		const char *a = numbers[i / 3 % 3], *b = numbers[i / 9 % 3],
			   *c = numbers[i / 27 % 3];
		gil_reader *r = minute(meta, 1);
		struct gt_profiler p = profiler();
		struct gt_profclock clock;
		struct gt_stamps st;
		struct gt_range range;
		char text[256];

		for (size_t k = 0; k < GT_ARRAY_SIZE(files); k++)
			unlink(in_base(files[k]));
		/* The time is in us. */
		snprintf(text, sizeof(text),
			 "{\"collectionTimeBegin\": %se-3, \"clockMonotonicRaw\": %s,"
			 "\"collectionTimeEnd\": %se-3}",
			 a, b, a);
		put(i / 81 ? "host/end_info" : "host/start_info", text);
		snprintf(text, sizeof(text), "clock_monotonic_raw: %s\n", c);
		put("host/host_start.log", text);
		p.host_dir = (char *)in_base("host");
		if (i % 2)
			p.facts.end_ns = GT_PROFTRACE_TIME_MAX;
		if (i % 4 == 3)
			p.facts.begin_ns = p.facts.end_ns;
		gt_stamps_read(&p, &st);
		gt_profclock_choose(&p, &st, r, &clock);
		range = gt_profclock_range(&clock);
		assert_true(range.begin_ns >= 1 && range.begin_ns <= range.end_ns);
		assert_true(range.end_ns < GIL_TIME_MAX);
		gil_reader_close(r);
	}
}

/* What lies too far away to be placed is not passed over in silence: it overlaps nothing. */
static void beyond_all_times(void **state)
{
	static const char *const meta[][2] = {{"process.timens_mono_ns", "-4611686018427387903"}};
	gil_reader *r = minute(meta, 1);
	struct gt_profiler p = profiler();
	struct gt_profclock c;

	(void)state;
	put_stamps("host/start_info", "collectionTimeBegin", UNIX_0 / 1000, 4611686018427387903ull);
	p.host_dir = (char *)in_base("host");
	c = choose(&p, r, GT_CLOCK_START_INFO);
	assert_false(gt_profclock_overlaps(&c, &p.facts));
	gil_reader_close(r);
}

/* Never 0, never beyond what a time can be. */
static void extremes(void **state)
{
	gil_reader *r = minute(NULL, 0);
	struct gt_profclock c = {.r = r, .raw = 1, .offset_ns = -(INT64_C(1) << 61)};

	(void)state;
	assert_int_equal(gt_profclock_place(&c, 1), 1);
	assert_int_equal(gt_profclock_place(&c, MONO_0), 1);
	c.offset_ns = INT64_C(1) << 61;
	assert_int_equal(gt_profclock_place(&c, UINT64_MAX), GIL_TIME_MAX - 1);
	assert_true(gt_profclock_place(&c, 0) >= 1);
	gil_reader_close(r);
}

static void texts(void **state)
{
	struct gt_profclock c = {.method = GT_CLOCK_START_INFO, .error_ns = 600};
	char text[GT_CLOCK_TEXT_MAX];

	(void)state;
	gt_clock_text(&c, text);
	assert_string_equal(text, "start_info +-1 us");
	c = (struct gt_profclock){.method = GT_CLOCK_TRACE, .error_ns = 12001};
	gt_clock_text(&c, text);
	assert_string_equal(text, "trace +-13 us");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_base, remove_base)
	const struct CMUnitTest tests[] = {
		T(by_start_info),
		T(by_start_info_of_a_device),
		T(in_a_time_namespace),
		T(by_end_info),
		T(by_cpu_session),
		T(npu_session_without_start_info),
		T(by_trace),
		T(wall_clock_set),
		T(relative_trace),
		T(nothing_known),
#ifdef HAVE_SQLITE_H
		T(by_database),
		T(databases_without_it),
#endif
		T(damaged_start_info),
		T(odd_but_right),
		T(contradicting_start_info),
		T(one_sample),
		T(no_sample),
		T(imported),
		T(raw_goes_back),
		T(great_numbers),
		T(beyond_all_times),
		T(extremes),
		T(texts),
	};

	gt_log_setup("test_profclock", GT_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
