// SPDX-License-Identifier: Apache-2.0
/* JSON recordings of the three generations become .gil files, whole, cut, and absurd ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "oldfix.h"

#include <sys/stat.h>
#include <time.h>

/* Two threads, each with one hold; 12 waits for 11. */
static const char two_threads_records[] =
	"Bt11@5000100 Et11@5000103 Bt12@5000104 Bd11@5000150 Et12@5000152 Ed11@5000153 "
	"Bd12@5000160 Ed12@5000161";
static const char two_threads[] =
	"T11@5000100000 A11@5000103000 T12@5000104000 R11@5000150000 A12@5000152000 "
	"D11@5000153000 R12@5000160000 D12@5000161000";

static gil_reader *import_records(const char *name, const char *records)
{
	return old_import(name, old_json(records, "]\n"));
}

static void expect(const char *records, const char *events)
{
	gil_reader *r = import_records("x", records);

	assert_string_equal(old_events(r), events);
	gil_reader_close(r);
}

static void expect_meta(gil_reader *r, const char *key, const char *value)
{
	const char *got = gil_reader_meta(r, key);

	if (!got != !value || (value && strcmp(got, value)))
		fail_msg("%s is %s, not %s", key, got ? got : "missing", value ? value : "missing");
}

static void expect_said(const char *words)
{
	if (!strstr(old_log, words))
		fail_msg("it does not say \"%s\": %s", words, old_log);
}

/* ---- the three generations ---- */

static void test_generation_1(void **state)
{
	gil_reader *r = import_records("GIL_4711_rank_3", two_threads_records);

	(void)state;
	assert_string_equal(old_events(r), two_threads);
	expect_meta(r, "import.generation", "1");
	expect_meta(r, "import.clock", "monotonic");
	expect_meta(r, "import.records", "8");
	expect_meta(r, "import.left_out", "0");
	expect_meta(r, "import.moved", "0");
	expect_meta(r, "import.damage", NULL);
	expect_meta(r, "probe.mode", "functions");
	expect_meta(r, "check.result", "not checked");
	assert_int_equal(gil_reader_clocks(r), 0);
	assert_int_equal(gil_reader_end_reason(r), GIL_END_STOPPED);
	assert_int_equal(gil_reader_sites(r), 1);
	assert_true(gil_reader_site(r, 0)->flags & 0x02); /* GILs are not told apart */
	assert_int_equal(gil_reader_first_mono_ns(r), 5000100000);
	assert_int_equal(gil_reader_last_mono_ns(r), 5000161000);
	expect_said("monotonic clock, not of the day");
	expect_said("losses were not recorded by the tool that made it");
	gil_reader_close(r);
}

static void test_generation_2(void **state)
{
	gil_reader *r =
		import_records("GIL_4711_rank_3.json", "Bt7@1700000000000100 Et7@1700000000000103 "
						       "Bd7@1700000000000109 Ed7@1700000000000110");

	(void)state;
	assert_string_equal(old_events(r), "T7@1700000000000100000 A7@1700000000000103000 "
					   "R7@1700000000000109000 D7@1700000000000110000");
	expect_meta(r, "import.generation", "2");
	expect_meta(r, "import.clock", "unix");
	assert_int_equal(gil_reader_clocks(r), 1);
	assert_int_equal(gil_reader_unix_ns(r, 1700000000000103000), 1700000000000103000);
	assert_int_equal(gil_reader_clock(r, 0)->error_ns, 1000);
	assert_int_equal(gil_reader_clock_step_ns(r), 0);
	assert_null(strstr(old_log, "monotonic"));
	gil_reader_close(r);
}

static void test_generation_3(void **state)
{
	gil_reader *r = import_records("rank3.json",
				       "Xt7@1700000000000100+3.250 Xd7@1700000000000109+0.701 "
				       "Xt8@1700000000000111+12");

	(void)state;
	assert_string_equal(old_events(r), "T7@1700000000000100000 A7@1700000000000103250 "
					   "R7@1700000000000109000 D7@1700000000000109701 "
					   "T8@1700000000000111000 A8@1700000000000123000");
	expect_meta(r, "import.generation", "3");
	expect_meta(r, "import.clock", "unix");
	expect_meta(r, "import.records", "3");
	gil_reader_close(r);
}

/* Decimals are taken, and other keys, orders of keys, white space, escapes. */
static void test_forms(void **state)
{
	gil_reader *r;

	(void)state;
	expect("Bt7@100.5 Et7@0.1025e3", "T7@100500 A7@102500");
	r = old_import("x",
		       " \t[ {\"args\":{\"tid\":\"GIL_9\",\"a\":[{}]}, \"tid\" : \"GIL_7\",\n"
		       "\"ts\":100,\"pid\":\"3\",\"ph\":\"\\u0042\",\"name\":\"take\\u005fgil\","
		       "\"x\":null} ]");
	assert_string_equal(old_events(r), "T7@100000");
	gil_reader_close(r);
	expect("{\"name\":\"take_gil\",\"ph\":\"B\",\"ts\":100,\"tid\":7,\"pid\":3}", "T7@100000");
	expect("Bt7@0 Et7@1", "T7@1 A7@1000");
}

/* ---- whose it is ---- */

static void expect_identity(const char *name, const char *id, const char *pid, const char *rank,
			    const char *source, const char *said)
{
	char text[256];
	gil_reader *r;

	snprintf(text, sizeof(text),
		 "[{\"name\":\"take_gil\",\"ph\":\"B\",\"ts\":100,%s\"tid\":\"GIL_4711\"}]", id);
	r = old_import(name, text);
	expect_meta(r, "process.pid", pid);
	expect_meta(r, "rank", rank);
	expect_meta(r, "rank.source", source);
	expect_said(said);
	gil_reader_close(r);
}

static void test_identity(void **state)
{
	(void)state;
	expect_identity("GIL_4711_rank_3", "\"pid\":\"3\",", "4711", "3", "file name", "");
	assert_null(strstr(old_log, "believed"));
	expect_identity("GIL_4711_rank_0.json", "\"pid\":\"4711\",", "4711", "0", "default", "");
	assert_null(strstr(old_log, "believed"));
	expect_identity("GIL_4711_rank_3", "\"pid\":\"5\",", "4711", "3", "file name",
			"the name is believed");
	expect_identity("GIL_4711_rank_3", "", "4711", "3", "file name", "");
	expect_identity("GIL_4711_rank_", "\"pid\":\"5\",", NULL, "5", "records", "for the rank");
	expect_identity("GIL_0_rank_1", "\"pid\":\"5\",", NULL, "5", "records", "for the rank");
	expect_identity("GIL_99999999999_rank_1", "\"pid\":\"5\",", NULL, "5", "records", "rank");
	expect_identity("x.json", "\"pid\":\"4711\",", "4711", NULL, NULL, "for the process's");
	expect_identity("x.json", "\"pid\":\"worker\",", NULL, NULL, NULL, "tell whose it is");
	expect_identity("x.json", "\"pid\":\"5x\",", NULL, NULL, NULL, "tell whose it is");
	expect_identity("x.json", "", NULL, NULL, NULL, "tell whose it is");
}

/* ---- recognising ---- */

static void expect_is(const char *name, const char *text, int is)
{
	const char *path = old_write(name, text, strlen(text));

	if (gt_oldjson_is(path) != is)
		fail_msg("%s: %s: not %d", name, text, is);
	assert_int_equal(unlink(path), 0);
}

static void test_is(void **state)
{
	static const char metadata_first[] = "{\"name\":\"process_name\",\"ph\":\"M\"} Xt7@1+1";

	(void)state;
	expect_is("x", old_json(two_threads_records, "]"), 1);
	expect_is("x", old_json("Xd7@1+1", ""), 1);
	expect_is("x", "[{\"name\":\"take_gil\",\"ph\":\"E\",", 1);
	expect_is("x", "[{\"ph\":\"X\",\"args\":[1,{}],\"name\":\"take_gil\"}]", 1);
	/* not of these recordings, whatever its name */
	expect_is("GIL_1_rank_0.json", old_json(metadata_first, "]"), 0);
	expect_is("GIL_1_rank_0.json", "[{\"name\":\"hold_gil\",\"ph\":\"X\"}]", 0);
	expect_is("GIL_1_rank_0.json", "[{\"name\":\"take_gil\",\"ph\":\"I\"}]", 0);
	expect_is("GIL_1_rank_0.json", "{\"traceEvents\":[]}", 0);
	expect_is("GIL_1_rank_0.json", "[1]", 0);
	expect_is("GIL_1_rank_0.json", "[}", 0);
	expect_is("GIL_1_rank_0.json", "", 0);
	expect_is("GIL_1_rank_0.json", "\x89GIL\r\n\x1a\n", 0);
	/* nothing in it that tells, so its name must */
	expect_is("GIL_1_rank_0.json", "[]", 1);
	expect_is("GIL_1_rank_0.json", "[\n", 1);
	expect_is("GIL_1_rank_0.json", "[{\"na", 1);
	expect_is("trace.json", "[]", 0);
	expect_is("trace.json", "[\n", 0);
	expect_is("trace.json", "[{\"na", 0);
	assert_int_equal(gt_oldjson_is(old_dir), 0);
	assert_int_equal(gt_oldjson_is(old_path("missing")), 0);
	assert_int_equal(mkfifo(old_path("fifo"), 0600), 0);
	assert_int_equal(gt_oldjson_is(old_path("fifo")), 0); /* and does not block */
	assert_int_equal(unlink(old_path("fifo")), 0);
}

static void test_empty(void **state)
{
	gil_reader *r = old_import("GIL_1_rank_0", "[]");

	(void)state;
	assert_string_equal(old_events(r), "");
	expect_meta(r, "import.records", "0");
	assert_int_equal(gil_reader_end_reason(r), GIL_END_STOPPED);
	expect_meta(r, "process.pid", "1");
	gil_reader_close(r);
}

static void expect_refused(const char *path, int err, const char *words)
{
	char why[512] = "";

	assert_int_equal(gt_oldjson_import(path, why, sizeof(why)), err);
	if (!strstr(why, path) || !strstr(why, words))
		fail_msg("%s", why);
}

static void test_refused(void **state)
{
	const char *path = old_write("object", "{}", 2);

	(void)state;
	expect_refused(path, -EINVAL, "no JSON array");
	path = old_write("object", "\0\0", 2);
	expect_refused(path, -EINVAL, "no JSON array");
	path = old_write("object", "", 0);
	expect_refused(path, -EINVAL, "no JSON array");
	unlink(path);
	expect_refused(path, -ENOENT, "No such file");
	expect_refused(old_dir, -EISDIR, "Is a directory");
}

/* ---- order ---- */

/* Whole microseconds: 12 acquires, and releases, in the one in which 11 does both, too. */
static void test_ties(void **state)
{
	(void)state;
	expect("Et11@5 Bt12@7 Et12@9 Bd11@9 Bd12@9 Ed11@9 Ed12@9 Bt11@9 Et11@9 Bd11@12",
	       "A11@5000 T12@7000 R11@9000 D11@9000 T11@9000 A12@9000 R12@9000 D12@9000 A11@9000 "
	       "R11@12000");
	/* 13 holds within one microsecond, between the holds of 11 and 12. */
	expect("Et12@9 Et13@9 Et11@2 Bd13@9 Bd11@9 Bd12@14",
	       "A11@2000 R11@9000 A13@9000 R13@9000 A12@9000 R12@14000");
	/* 11 held when the recording began, and 13 holds when it ends. */
	expect("Et12@9 Et13@9 Bd11@9 Bd12@9", "R11@9000 A12@9000 R12@9000 A13@9000");
}

/* ts is cut and dur is not: 7 releases before it acquires, and 8 acquires before that. */
static void test_negative_hold(void **state)
{
	gil_reader *r =
		import_records("x", "Xt7@1700000000000100+2.900 Xt8@1700000000000101+1.800 "
				    "Xd7@1700000000000102+0.500 Xd8@1700000000000103+0.100");

	(void)state;
	assert_string_equal(old_events(r), "T7@1700000000000100000 T8@1700000000000101000 "
					   "A7@1700000000000102900 R7@1700000000000102900 "
					   "D7@1700000000000102900 A8@1700000000000102900 "
					   "R8@1700000000000103000 D8@1700000000000103100");
	expect_meta(r, "import.moved", "3");
	expect_meta(r, "import.moved_max_ns", "900");
	expect_said("times are exact to 1 us only; 3 event(s) were moved, by 900 ns at most");
	gil_reader_close(r);
}

/* 11 holds when the recording ends, so 12 did before. */
static void test_last_hold(void **state)
{
	(void)state;
	expect("Xt11@10+1 Xt12@10+0.9 Xd12@11+1",
	       "T11@10000 T12@10000 A12@10900 R12@11000 A11@11000 D12@12000");
}

/* Overlaps that no cut of a time explains are left as they are. */
static void test_impossible_order(void **state)
{
	gil_reader *r;

	(void)state;
	expect("Et11@5 Et12@7 Bd11@8 Bd12@9", "A11@5000 A12@7000 R11@8000 R12@9000");
	r = import_records("x", "Xt11@1+4.000 Xt12@1+5.000 Xd11@8+1 Xd12@9+1");
	assert_string_equal(old_events(r), "T11@1000 T12@1000 A11@5000 A12@6000 R11@8000 D11@9000 "
					   "R12@9000 D12@10000");
	expect_meta(r, "import.moved", "0");
	gil_reader_close(r);
	/* Neither can wait for the other's release: by time, and at their times. */
	r = import_records("x", "Xt11@10+1 Xt12@10+1.5 Xd12@13+1 Xd11@900+1");
	assert_string_equal(old_events(r), "T11@10000 T12@10000 A11@11000 A12@11500 R12@13000 "
					   "D12@14000 R11@900000 D11@901000");
	expect_meta(r, "import.moved", "0");
	gil_reader_close(r);
	/* A release that is not recorded does not hold up the others. */
	expect("Et11@5 Bt11@30 Et12@9 Bd12@11", "A11@5000 A12@9000 R12@11000 T11@30000");
}

/* A thread's records that are not in the order of time are sorted; others are not touched. */
static void test_unsorted(void **state)
{
	gil_reader *r = import_records("x", "Bd11@20 Ed11@21 Bt11@5 Et11@9 Ed12@3 Bt12@3");

	(void)state;
	assert_string_equal(old_events(r),
			    "D12@3000 T12@3000 T11@5000 A11@9000 R11@20000 D11@21000");
	expect_meta(r, "import.unsorted", "2");
	expect_said("2 record(s) were not in the order of time");
	gil_reader_close(r);
	r = import_records("x", "Xd11@20+1.5 Xt11@5+2.5 Xd11@30+0.9 Xt11@30+0");
	assert_string_equal(old_events(r), "T11@5000 A11@7500 R11@20000 D11@21500 R11@30000 "
					   "D11@30900 T11@30900 A11@30900");
	expect_meta(r, "import.unsorted", "1");
	expect_meta(r, "import.moved", "2");
	gil_reader_close(r);
	/* A call within another cannot be; what is out of order for another reason stays so. */
	r = import_records("x", "Xd11@20+9 Xt11@22+2.5 Xd11@24+1 Xt11@40+1");
	assert_string_equal(old_events(r), "R11@20000 T11@22000 A11@24500 R11@24500 D11@25000 "
					   "D11@29000 T11@40000 A11@41000");
	expect_meta(r, "import.unsorted", "2");
	expect_meta(r, "import.moved", "1");
	gil_reader_close(r);
}

/* ---- what is no good ---- */

static void test_left_out(void **state)
{
	gil_reader *r = import_records(
		"x",
		"Bt7@100 " /* and then by name, by phase, by time, by thread, by process */
		"{\"name\":\"other\",\"ph\":\"B\",\"ts\":100,\"pid\":\"3\",\"tid\":\"GIL_7\"} "
		"1 null \"take_gil\" [[{\"name\":\"take_gil\"}]] {} "
		"{\"name\":\"take_gil\",\"ph\":\"M\",\"ts\":100,\"pid\":\"3\",\"tid\":\"GIL_7\"} "
		"Xt7@100+1 "
		"Et7@-1 Et7@\"100\" Et7@null Et7@[100] Et7@1e300 Et7@9223372036854775807 "
		"Et7@4611686018427387904 {\"name\":\"take_gil\",\"ph\":\"E\",\"tid\":\"GIL_7\"} "
		"Et@101 Et4194304@101 Et4000000000@101 Et8000000000@101 Et0@101 Et-7@101 "
		"Et7x@101 {\"name\":\"take_gil\",\"ph\":\"E\",\"ts\":101,\"pid\":\"3\"} "
		"{\"name\":\"take_gil\",\"ph\":\"E\",\"ts\":101,\"pid\":\"3\",\"tid\":[7]} "
		"{\"name\":\"take_gil\",\"ph\":\"E\",\"ts\":101,\"tid\":\"\"} "
		"{\"name\":\"take_gil\",\"ph\":\"E\",\"ts\":101,\"pid\":\"4\",\"tid\":\"GIL_7\"} "
		"Et4194303@102 Et7@4611686018427");

	(void)state;
	assert_string_equal(old_events(r), "T7@100000 A4194303@102000 A7@4611686018427000");
	expect_meta(r, "import.records", "3");
	expect_meta(r, "import.left_out", "27");
	expect_said("6 neither take_gil nor drop_gil, 2 of another kind (ph) than the first, 8 "
		    "without a time that can be, 10 without a thread that can be, 1 of another "
		    "process than the first");
	gil_reader_close(r);
}

static void test_left_out_calls(void **state)
{
	(void)state;
	expect("Xt7@100+1 Xt7@101+-1 Xt7@101+\"1\" Xt7@4000000000000000+4000000000000000 Xt7@101 "
	       "Bt7@103",
	       "T7@100000 A7@101000");
	expect_said("1 of another kind (ph) than the first, 4 without a time");
}

static void test_damaged(void **state)
{
	gil_reader *r = old_import("x", old_json("Bt7@100 Et7@101", ",{\"name\":\"take_gil\",,}]"));

	(void)state;
	assert_string_equal(old_events(r), "T7@100000 A7@101000");
	expect_meta(r, "import.left_out", "1");
	assert_non_null(gil_reader_meta(r, "import.damage"));
	expect_said("damaged: ");
	assert_int_equal(gil_reader_end_reason(r), 0);
	gil_reader_close(r);
	r = old_import("x", old_json("Bt7@100", "] ["));
	assert_string_equal(old_events(r), "T7@100000");
	assert_non_null(gil_reader_meta(r, "import.damage"));
	expect_meta(r, "import.left_out", "1"); /* nobody knows how many; but it is not all */
	assert_int_equal(gil_reader_end_reason(r), 0);
	gil_reader_close(r);
}

/* A time of the host's start among Unix times would draw the whole from 1970 on. */
static void test_other_clock(void **state)
{
	(void)state;
	expect("Bt7@1700000000000100 Et7@0 Et7@999999999999999 Et7@1700000000000103",
	       "T7@1700000000000100000 A7@1700000000000103000");
	expect_said("2 without a time that can be");
}

static void test_deep(void **state)
{
	static char text[400000];
	size_t n = (size_t)snprintf(text, sizeof(text), "%s", old_json("Bt7@100", ","));
	gil_reader *r;

	(void)state;
	memset(text + n, '[', sizeof(text) - n - 1);
	r = old_import("x", text);
	assert_string_equal(old_events(r), "T7@100000");
	assert_non_null(gil_reader_meta(r, "import.damage"));
	gil_reader_close(r);
}

/* Killed at each byte: the records before it are there, one that is cut is counted. */
static void expect_cut(const char *text, size_t n)
{
	static const char last[] = " R12@5000160000 D12@5000161000";
	const char *path = old_write("GIL_4711_rank_3", text, n);
	int closed = n > (size_t)(strrchr(text, ']') - text);
	int whole = 0, depth = 0;
	gil_reader *r;
	char want[24];

	for (size_t i = 0; i < n; i++) {
		depth += (text[i] == '{') - (text[i] == '}');
		whole += text[i] == '}';
	}
	assert_int_equal(gt_oldjson_is(path), 1);
	r = old_import_file(path);
	snprintf(want, sizeof(want), "%d", whole);
	expect_meta(r, "import.records", want);
	expect_meta(r, "import.left_out", depth ? "1" : "0");
	assert_int_equal(gil_reader_end_reason(r), closed ? GIL_END_STOPPED : 0);
	assert_int_equal(!strstr(old_log, "its end is missing"), closed);
	old_events(r);
	if (whole == 8)
		assert_string_equal(old_text, two_threads);
	else if (whole == 6)
		assert_memory_equal(old_text, two_threads, sizeof(two_threads) - sizeof(last));
	gil_reader_close(r);
	assert_int_equal(unlink(path), 0);
}

static void test_cut(void **state)
{
	gt_autofree char *text = strdup(old_json(two_threads_records, "\n]\n"));

	(void)state;
	for (size_t n = 1; n <= strlen(text); n++)
		expect_cut(text, n);
}

static void test_file(void **state)
{
	const char *text = old_json(two_threads_records, "]");
	const char *path = old_write("x", text, strlen(text));
	struct stat st;
	char why[64];
	int fd = old_import_quietly(path, why, sizeof(why));

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_nlink, 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	close(fd);
	/* Where no file can be made, memory will do. */
	assert_int_equal(setenv("TMPDIR", "/dev/null/x", 1), 0);
	expect(two_threads_records, two_threads);
	expect_said("into memory");
	assert_int_equal(unsetenv("TMPDIR"), 0);
	expect(two_threads_records, two_threads);
	assert_null(strstr(old_log, "into memory"));
}

/* ---- size ---- */

static double seconds_since(const struct timespec *start)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static FILE *open_many(void)
{
	FILE *f = fopen(old_path("many"), "we");

	assert_non_null(f);
	fputc('[', f);
	return f;
}

/* One more, for thread tid. */
static void put_record(FILE *f, const char *what, int tid)
{
	fprintf(f, "%s{%s,\"pid\":\"0\",\"tid\":\"GIL_%d\"}", ftell(f) > 1 ? ",\n" : "", what, tid);
}

static void close_many(FILE *f, const char *what, uint64_t n)
{
	struct timespec start;
	uint64_t got = 0, last = 0;
	struct gil_event ev;
	double took;
	gil_reader *r;

	fputc(']', f);
	assert_int_equal(fclose(f), 0);
	clock_gettime(CLOCK_MONOTONIC, &start);
	r = old_import_file(old_path("many"));
	took = seconds_since(&start);
	for (; gil_reader_next(r, &ev); got++, last = ev.mono_ns)
		assert_true(ev.mono_ns >= last);
	assert_null(gil_reader_problem(r));
	assert_int_equal(got, n);
	expect_meta(r, "import.left_out", "0");
	gil_reader_close(r);
	assert_int_equal(unlink(old_path("many")), 0);
	print_message("%s: %llu events in %.3f s\n", what, (unsigned long long)n, took);
	/* A slow machine with sanitizers has its time; what goes by the square would not do. */
	assert_true(took < 60);
}

static void test_many(void **state)
{
	uint64_t ts = 1700000000000000;
	FILE *f = open_many();
	char what[100];

	(void)state;
	for (int i = 0; i < 150000; i++, ts += 10) {
		snprintf(what, sizeof(what),
			 "\"name\":\"take_gil\",\"ph\":\"X\",\"ts\":%llu,\"dur\":%d.%03d",
			 (unsigned long long)ts, i % 3, i % 1000);
		put_record(f, what, 100 + i % 8);
		snprintf(what, sizeof(what),
			 "\"name\":\"drop_gil\",\"ph\":\"X\",\"ts\":%llu,\"dur\":0.%03d",
			 (unsigned long long)ts + 3, i % 1000);
		put_record(f, what, 100 + i % 8);
	}
	close_many(f, "300000 records of 8 threads", 600000);
}

/* Everything at once, or backwards: nothing may take more than its share. */
static void test_many_absurd(void **state)
{
	static const char *const at_once[] = {
		"\"name\":\"take_gil\",\"ph\":\"E\",\"ts\":5",
		"\"name\":\"take_gil\",\"ph\":\"B\",\"ts\":5",
		"\"name\":\"drop_gil\",\"ph\":\"B\",\"ts\":5",
		"\"name\":\"take_gil\",\"ph\":\"X\",\"ts\":5,\"dur\":0",
	};
	char what[100];
	FILE *f;

	(void)state;
	for (int i = 0; i < 4; i++) {
		f = open_many();
		for (int tid = 1; tid <= 50000; tid++)
			put_record(f, at_once[i], tid);
		close_many(f, "a thread each", i == 3 ? 100000 : 50000);
	}
	f = open_many();
	for (int ts = 50000; ts; ts--) {
		snprintf(what, sizeof(what),
			 "\"name\":\"drop_gil\",\"ph\":\"X\",\"ts\":%d,\"dur\":0", ts);
		put_record(f, what, 1 + ts % 2);
	}
	close_many(f, "backwards", 100000);
	f = open_many();
	for (int i = 0; i < 50000; i++) {
		snprintf(what, sizeof(what),
			 "\"name\":\"take_gil\",\"ph\":\"X\",\"ts\":5,\"dur\":%d", i * 7 % 3000);
		put_record(f, what, 1 + i % 2);
	}
	close_many(f, "within each other", 100000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_generation_1), cmocka_unit_test(test_generation_2),
		cmocka_unit_test(test_generation_3), cmocka_unit_test(test_forms),
		cmocka_unit_test(test_identity),     cmocka_unit_test(test_is),
		cmocka_unit_test(test_empty),        cmocka_unit_test(test_refused),
		cmocka_unit_test(test_ties),         cmocka_unit_test(test_negative_hold),
		cmocka_unit_test(test_last_hold),    cmocka_unit_test(test_impossible_order),
		cmocka_unit_test(test_unsorted),     cmocka_unit_test(test_left_out),
		cmocka_unit_test(test_other_clock),  cmocka_unit_test(test_left_out_calls),
		cmocka_unit_test(test_damaged),      cmocka_unit_test(test_deep),
		cmocka_unit_test(test_cut),          cmocka_unit_test(test_file),
		cmocka_unit_test(test_many),         cmocka_unit_test(test_many_absurd),
	};

	return cmocka_run_group_tests(tests, old_setup, old_teardown);
}
