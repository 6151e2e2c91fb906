// SPDX-License-Identifier: Apache-2.0
#include "jsonfix.h"

#include <inttypes.h>
#include <sys/stat.h>

#include "giltrace/gilfile.h"
#include "proftrace.h"

static char why[512];

static int read_bytes(const void *text, size_t len, struct gt_proftrace *t)
{
	gt_autoclose int fd = text_fd(text, len);
	char path[32];

	return gt_proftrace_read(fd_path(fd, path), t, why, sizeof(why));
}

static void expect_good(const char *text, struct gt_proftrace *t)
{
	int rc = read_bytes(text, strlen(text), t);

	if (rc)
		fail_msg("%s: %d, %s", text, rc, why);
	assert_string_equal(why, "");
}

/* "pid:slices:cpu pid:slices:cpu" */
static void expect_processes(const struct gt_proftrace *t, const char *want)
{
	char got[256] = "";
	size_t n = 0;

	for (size_t i = 0; i < t->nprocesses; i++)
		n += (size_t)snprintf(got + n, sizeof(got) - n, "%s%llu:%llu:%llu", i ? " " : "",
				      (unsigned long long)t->processes[i].pid,
				      (unsigned long long)t->processes[i].slices,
				      (unsigned long long)t->processes[i].cpu);
	assert_string_equal(got, want);
}

/* As torch_npu writes it: "ph" at the end of some, ts a string, other lanes with made-up pids. */
static const char npu[] =
	"[{\"ph\": \"X\", \"name\": \"aten::add\", \"pid\": 812, \"tid\": 812,"
	" \"ts\": \"1736405443863674.400\", \"dur\": 162.66, \"cat\": \"cpu_op\","
	" \"args\": {\"Input Dims\": \";\\r\\n;\", \"name\": \"Python\"}},\n"
	" {\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 812, \"tid\": 0,"
	" \"args\": {\"name\": \"Python\"}},"
	" {\"ph\": \"M\", \"name\": \"process_labels\", \"pid\": 812, \"tid\": 0,"
	" \"args\": {\"labels\": \"CPU\"}},"
	" {\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 812, \"tid\": 900,"
	" \"args\": {\"name\": \"Thread 900\"}},"
	" {\"ph\": \"M\", \"name\": \"thread_sort_index\", \"pid\": 812, \"tid\": 900,"
	" \"args\": {\"sort_index\": 901}},"
	" {\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 812, \"tid\": 812,"
	" \"args\": {\"name\": \"Thread 812\"}},"
	" {\"name\": \"process_name\", \"pid\": 831904, \"tid\": 0,"
	" \"args\": {\"name\": \"Ascend Hardware\"}, \"ph\": \"M\"},"
	" {\"name\": \"process_name\", \"pid\": 831680, \"tid\": 0,"
	" \"args\": {\"name\": \"CANN\"}, \"ph\": \"M\"},"
	" {\"name\": \"process_labels\", \"pid\": 831680, \"tid\": 0,"
	" \"args\": {\"labels\": \"CPU\"}, \"ph\": \"M\"},"
	" {\"name\": \"thread_sort_index\", \"pid\": 831680, \"tid\": 900,"
	" \"args\": {\"sort_index\": 3}, \"ph\": \"M\"},"
	" {\"name\": \"process_name\", \"pid\": 831616, \"tid\": 0,"
	" \"args\": {\"name\": \"Python GC\"}, \"ph\": \"M\"},"
	" {\"name\": \"MatMul\", \"pid\": 831904, \"tid\": 2, \"ts\": \"1736405443863700.021\","
	" \"dur\": 1000, \"args\": {}, \"ph\": \"X\"},"
	" {\"name\": \"LLC\", \"pid\": 831905, \"ts\": \"1736405443863600.5\", \"ph\": \"C\","
	" \"args\": {\"v\": 1.5e3}},"
	" {\"ph\": \"s\", \"id\": 7, \"pid\": 812, \"tid\": 812, \"ts\": 1736405443863674.5}]\n";

static void test_torch_npu(void **state)
{
	static const uint64_t pids[] = {812, 831616, 831680, 831904, 831905};
	struct gt_proftrace t;

	(void)state;
	expect_good(npu, &t);
	assert_false(t.object || t.kineto || t.gzip || t.cut || t.in_array || t.relative ||
		     t.has_gil);
	assert_true(t.any);
	assert_int_equal(t.size, sizeof(npu) - 1);
	assert_int_equal(t.whole, sizeof(npu) - 1);
	assert_int_equal(t.array_offset, 1);
	assert_int_equal(t.events, 14);
	assert_int_equal(t.untimed + t.odd + t.words, 0);
	assert_int_equal(t.base_ns, 0);
	assert_int_equal(t.begin_ns, 1736405443863600500);
	assert_int_equal(t.end_ns, 1736405443864700021);
	assert_int_equal(t.rank, -1);
	assert_int_equal(t.npids, GT_ARRAY_SIZE(pids));
	assert_memory_equal(t.pids, pids, sizeof(pids));
	assert_int_equal(t.npython, 1); /* neither "CANN", though labelled, nor "Python GC" */
	assert_int_equal(t.python[0], 812);
	assert_int_equal(t.msprof_pid, 812);
	assert_int_equal(t.mindspore_lane, -1);
	assert_int_equal(t.nthreads, 2);
	assert_int_equal(gt_proftrace_sort_index(&t, 812, 900), 901);
	assert_int_equal(gt_proftrace_sort_index(&t, 812, 812), -1);
	assert_int_equal(gt_proftrace_sort_index(&t, 831680, 900), -1);
	assert_int_equal(gt_proftrace_sort_index(&t, 1, 1), -1);
	gt_proftrace_fini(&t);
	gt_proftrace_fini(&t); /* harmless */
}

/* As Kineto writes it; %s: what stands before the array and behind it. */
static const char kineto[] =
	"\n{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [{\"id\": 0, \"name\": \"A\"}],%s\n"
	"  \"distributedInfo\": {\"backend\": \"nccl\", \"pg_config\": [{\"rank\": 9}], \"rank\": "
	"3},\n"
	"  \"traceEvents\": [\n"
	"  {\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 71, \"tid\": 72,\n"
	"    \"ts\": 198093488368.463, \"dur\": 425.453, \"args\": {\"External id\": 1340}},\n"
	"  {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"pid\": 0, \"tid\": 7,\n"
	"    \"ts\": 198093489000.000, \"dur\": 1.001},\n"
	"  {\"name\": \"process_name\", \"ph\": \"M\", \"ts\": 5.000, \"pid\": 71, \"tid\": 0,\n"
	"    \"args\": {\"name\": \"my_program\"}},\n"
	"  {\"name\": \"process_labels\", \"ph\": \"M\", \"ts\": 5.000, \"pid\": 71, \"tid\": 0,\n"
	"    \"args\": {\"labels\": \"CPU\"}},\n"
	"  {\"name\": \"process_name\", \"ph\": \"M\", \"ts\": 5.000, \"pid\": 0, \"tid\": 0,\n"
	"    \"args\": {\"name\": \"my_program\"}},\n"
	"  {\"name\": \"process_labels\", \"ph\": \"M\", \"ts\": 5.000, \"pid\": 0, \"tid\": 0,\n"
	"    \"args\": {\"labels\": \"GPU 0\"}},\n"
	"  {\"name\": \"process_name\", \"ph\": \"M\", \"ts\": 5.000, \"pid\": -1, \"tid\": 0,\n"
	"    \"args\": {\"name\": \"Overhead\"}},\n"
	"  {\"name\": \"thread_sort_index\", \"ph\": \"M\", \"ts\": 5.000, \"pid\": 71, \"tid\": "
	"72,\n"
	"    \"args\": {\"sort_index\": 72}},\n"
	"  {\"ph\": \"X\", \"cat\": \"Trace\", \"ts\": 7.000, \"dur\": 18446744073709551.615,\n"
	"    \"pid\": \"Spans\", \"tid\": \"PyTorch Profiler\", \"name\": \"PyTorch Profiler "
	"(0)\"},\n"
	"  {\"name\": \"Iteration Start: PyTorch Profiler\", \"ph\": \"i\", \"s\": \"g\",\n"
	"    \"pid\": \"Traces\", \"tid\": \"Trace PyTorch Profiler\", \"ts\": 8.000},\n"
	"  {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"bad\", \"pid\": 0, \"tid\": 7,\n"
	"    \"ts\": 0.000, \"dur\": 0.000},\n"
	"  {\"name\": \"Record Window End\", \"ph\": \"i\", \"s\": \"g\", \"pid\": \"\", \"tid\": "
	"\"\",\n"
	"    \"ts\": 999999999999.000}\n"
	"  ],%s\n  \"traceName\": \"t.json\"\n}";

static void check_kineto(const char *before, const char *behind, int64_t base)
{
	char text[sizeof(kineto) + 256];
	struct gt_proftrace t;

	snprintf(text, sizeof(text), kineto, before, behind);
	expect_good(text, &t);
	assert_true(t.object && t.kineto && t.any);
	assert_false(t.cut || t.has_gil);
	assert_int_equal(memcmp(text + t.array_offset - 1, "[\n  {\"ph\"", 9), 0);
	assert_int_equal(t.events, 12);
	assert_int_equal(t.untimed, 1);
	assert_int_equal(t.base_ns, base);
	assert_int_equal(t.begin_ns, base + 198093488368463);
	assert_int_equal(t.end_ns, base + 198093489001001);
	assert_int_equal(t.relative, base == 0);
	assert_int_equal(t.rank, 3);
	assert_int_equal(t.npids, 2);
	assert_int_equal(t.npython, 1);
	assert_int_equal(t.python[0], 71);
	expect_processes(&t, "71:1:1");
	assert_int_equal(t.msprof_pid, -1);
	assert_int_equal(gt_proftrace_sort_index(&t, 71, 72), 72);
	gt_proftrace_fini(&t);
}

static void test_kineto(void **state)
{
	static const char member[] = "\n  \"baseTimeNanoseconds\": 1743521598000000000,";

	(void)state;
	check_kineto(member, "", 1743521598000000000);
	check_kineto("", member, 1743521598000000000);
	check_kineto("\"baseTimeNanoseconds\": 1743521598000000000,", member, 1743521598000000000);
	check_kineto("", "", 0);
	check_kineto("\"baseTimeNanoseconds\": 0,", "", 0);
}

/* Which numbers in it are processes, where no name and no label tells. */
static void test_processes(void **state)
{
#define X(pid, cat) "{\"ph\":\"X\",\"pid\":" #pid ",\"cat\":\"" cat "\",\"ts\":5,\"dur\":1}"
#define M(pid, n, k, v)                                                                            \
	"{\"ph\":\"M\",\"pid\":" #pid ",\"name\":\"" n "\",\"args\":{\"" k "\":\"" v "\"}}"
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"[" X(93, "cpu_op") "," X(93, "cuda_runtime") "," X(93, "x") "]", "93:3:2"},
		{"[{\"cat\":\"cpu_op\",\"pid\":\"93\",\"ph\":\"X\"}]", "93:1:1"},
		{"[" X(95, "python_function") "," X(93, "user_annotation") "," X(95, "a") "]",
		 "93:1:1 95:2:1"},
		/* devices, by the category or the label; what has no slices; what is no pid */
		{"[" X(1, "kernel") "," X(2, "gpu_memcpy") "," X(93, "cpu_op") "]", "93:1:1"},
		{"[" X(1, "a") "," X(2, "a") "," M(1, "process_labels", "labels", "GPU 1") "]",
		 "2:1:0"},
		{"[{\"ph\":\"i\",\"pid\":5,\"ts\":1}," X(0, "cpu_op") "," X(
			 4194305, "cpu_op") "," X(-1, "overhead") "]",
		 ""},
		/* msprof's numbers: 41984 is 41 << 10 */
		{"[" X(41984, "a") "," X(41985, "cpu_op") "," X(93, "a") "," M(
			 41984, "process_name", "name", "CANN") "]",
		 "93:1:0"},
		/* where there are real ones, only they */
		{"[" X(5, "cpu_op") "," X(93, "cpu_op") "," M(5, "process_name", "name",
							      "Python") "]",
		 "5:1:1"},
	};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(cases); i++) {
		struct gt_proftrace t;

		expect_good(cases[i].text, &t);
		expect_processes(&t, cases[i].want);
		gt_proftrace_fini(&t);
	}
#undef X
#undef M
}

/* Up to PyTorch 2.3. */
static void test_kineto_unix(void **state)
{
	struct gt_proftrace t;

	(void)state;
	expect_good("{\"schemaVersion\": 1, \"traceEvents\": [{\"ph\": \"X\", \"name\": \"a\","
		    "\"pid\": 402557, \"tid\": 402557, \"ts\": 1691510394820126, \"dur\": 5}],"
		    "\"traceName\": \"x\"}",
		    &t);
	assert_int_equal(t.begin_ns, 1691510394820126000);
	assert_int_equal(t.end_ns, 1691510394820131000);
	assert_false(t.relative);
	gt_proftrace_fini(&t);
	/* PyTorch without Kineto: no zero, no pid */
	expect_good("[{\"name\": \"aten::randn\", \"ph\": \"X\", \"ts\": 14046, \"dur\": 1097,"
		    " \"tid\": 1, \"pid\": \"CPU functions\", \"args\": {}}]",
		    &t);
	assert_true(t.relative);
	assert_false(t.kineto);
	assert_int_equal(t.begin_ns, 14046000);
	assert_int_equal(t.npids + t.npython, 0);
	gt_proftrace_fini(&t);
}

static void test_mindspore(void **state)
{
	struct gt_proftrace t;

	(void)state;
	expect_good("[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":"
		    "\"MindSpore\"}},"
		    "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":1,\"tid\":5005,"
		    "\"args\":{\"sort_index\":5}},"
		    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":5125153,\"args\":{\"name\":"
		    "\"CANN\"}}]",
		    &t);
	assert_int_equal(t.mindspore_lane, 1);
	assert_int_equal(t.msprof_pid, 5005);
	assert_int_equal(t.npython, 0);
	assert_int_equal(gt_proftrace_sort_index(&t, 1, 5005), 5);
	gt_proftrace_fini(&t);
	/* Lanes of two processes, or with numbers that mean nothing. */
	expect_good("[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":5125153,\"args\":{\"name\":"
		    "\"CANN\"}},"
		    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":5126177,"
		    "\"args\":{\"name\":\"Ascend Hardware\"}}]",
		    &t);
	assert_int_equal(t.msprof_pid, -1);
	gt_proftrace_fini(&t);
	expect_good(
		"[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":3,\"args\":{\"name\":\"CANN\"}},"
		"{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":18446744073709551615,"
		"\"args\":{\"name\":\"CANN\"}}]",
		&t);
	assert_int_equal(t.msprof_pid, -1);
	assert_int_equal(t.npids, 2);
	gt_proftrace_fini(&t);
}

/* Whatever the order of members; the latest of several wins. */
static void test_order(void **state)
{
	struct gt_proftrace t;

	(void)state;
	expect_good("[{\"args\":{\"sort_index\":4},\"tid\":\"12\",\"pid\":\"11\","
		    "\"name\":\"thread_sort_index\",\"ph\":\"M\"},"
		    "{\"args\":{\"name\":\"Python\"},\"pid\":11,\"name\":\"process_name\",\"ph\":"
		    "\"M\"},"
		    "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":11,\"tid\":12,"
		    "\"args\":{\"sort_index\":\"6\"}},"
		    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":11,\"tid\":12,\"args\":{"
		    "\"name\":\"x\"}},"
		    "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":11,\"tid\":12,"
		    "\"args\":{\"sort_index\":-3}},"
		    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":13,\"args\":{\"name\":"
		    "\"Python\"}},"
		    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":13,\"args\":{\"name\":"
		    "\"other\"}}]",
		    &t);
	assert_int_equal(t.npython, 1);
	assert_int_equal(t.python[0], 11);
	assert_int_equal(t.nthreads, 1);
	assert_int_equal(gt_proftrace_sort_index(&t, 11, 12), 6);
	gt_proftrace_fini(&t);
}

static void test_times(void **state)
{
	static const struct {
		const char *event;
		int untimed;
		int64_t begin, end; /* of this and an event from 10 to 20 us */
	} cases[] = {
		{"\"ph\":\"X\",\"ts\":5,\"dur\":1", 0, 5000, 20000},
		{"\"ph\":\"i\",\"ts\":\"5.0019\"", 0, 5001, 20000},
		{"\"ph\":\"B\",\"ts\":30", 0, 10000, 30000},
		{"\"ph\":\"X\",\"ts\":2e1,\"dur\":\"5.5\"", 0, 10000, 25500},
		{"\"ph\":\"X\",\"ts\":0,\"dur\":100", 1, 10000, 20000},
		{"\"ph\":\"X\",\"ts\":-5,\"dur\":100", 1, 10000, 20000},
		{"\"ph\":\"X\",\"dur\":100", 1, 10000, 20000},
		{"\"ph\":\"X\",\"ts\":\"inf\",\"dur\":100", 1, 10000, 20000},
		{"\"ph\":\"X\",\"ts\":null", 1, 10000, 20000},
		{"\"ph\":\"X\",\"ts\":[1]", 1, 10000, 20000},
		{"\"ph\":\"X\",\"ts\":\"5\\u0000\"", 1, 10000, 20000},
		{"\"ph\":\"X\",\"ts\":1e30", 1, 10000, 20000},
		{"\"ph\":\"X\",\"ts\":30,\"dur\":-1", 1, 10000, 30000},
		{"\"ph\":\"X\",\"ts\":30,\"dur\":1e30", 1, 10000, 30000},
		{"\"ph\":\"X\",\"ts\":30,\"dur\":9223372036854775.8", 1, 10000, 30000},
		/* Later than any clock of a recording can tell. */
		{"\"ph\":\"X\",\"ts\":4611686018427387.904", 1, 10000, 20000},
		{"\"ph\":\"X\",\"ts\":30,\"dur\":4611686018427387.874", 1, 10000, 30000},
		/* Unix time, beside which the others are no times. */
		{"\"ph\":\"X\",\"ts\":946684800000000,\"dur\":5", 1, 946684800000000000,
		 946684800000005000},
		{"\"ph\":\"X\",\"ts\":946684799999999,\"dur\":5", 0, 10000, 946684800000004000},
		{"\"ph\":\"X\",\"ts\":1,\"dur\":1,\"pid\":\"GIL 12\"", 0, 10000, 20000},
		{"\"ph\":\"X\",\"ts\":1,\"dur\":1,\"tid\":\"GIL 12\"", 0, 10000, 20000},
		{"\"ph\":\"M\",\"ts\":1", 0, 10000, 20000},
	};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(cases); i++) {
		char text[256];
		struct gt_proftrace t;

		snprintf(text, sizeof(text), "[{\"ph\":\"X\",\"ts\":10,\"dur\":10},{%s}]",
			 cases[i].event);
		expect_good(text, &t);
		if (t.untimed != (uint64_t)cases[i].untimed || t.begin_ns != cases[i].begin ||
		    t.end_ns != cases[i].end)
			fail_msg("%s: %" PRIu64 ", %" PRId64 " .. %" PRId64, text, t.untimed,
				 t.begin_ns, t.end_ns);
		assert_int_equal(t.events, 2);
		assert_int_equal(t.has_gil, strstr(text, "GIL") != NULL);
		gt_proftrace_fini(&t);
	}
}

/* One event with a time of the epoch must not make all others' times meaningless. */
static void test_early(void **state)
{
	struct gt_proftrace t;

	(void)state;
	expect_good("[{\"ph\":\"X\",\"ts\":0.5},{\"ph\":\"X\",\"ts\":\"1736405443863674.400\"},"
		    "{\"ph\":\"X\",\"ts\":\"1736405443863675.400\"},{\"ph\":\"X\",\"ts\":3}]",
		    &t);
	assert_false(t.relative);
	assert_int_equal(t.untimed, 2);
	assert_int_equal(t.begin_ns, 1736405443863674400);
	assert_int_equal(t.end_ns, 1736405443863675400);
	gt_proftrace_fini(&t);
	/* Relative to a base all are early, and it makes them Unix times. */
	expect_good("{\"traceEvents\":[{\"ph\":\"X\",\"ts\":0.5}],"
		    "\"baseTimeNanoseconds\":1743521598000000000}",
		    &t);
	assert_false(t.relative);
	assert_int_equal(t.untimed, 0);
	assert_int_equal(t.begin_ns, 1743521598000000500);
	gt_proftrace_fini(&t);
}

static void test_odd(void **state)
{
	struct gt_proftrace t;

	(void)state;
	expect_good("[]", &t);
	assert_false(t.any);
	assert_int_equal(t.events, 0);
	assert_int_equal(t.begin_ns, 0);
	gt_proftrace_fini(&t);
	expect_good(" {\"traceEvents\" : [ ] } ", &t);
	assert_false(t.any || t.kineto);
	assert_int_equal(t.array_offset, 19);
	assert_int_equal(t.size, 24);
	gt_proftrace_fini(&t);
	expect_good("[null,1,\"x\",[[{}]],{},{\"ph\":7},{\"ph\":\"\"},{\"name\":\"x\"},"
		    "{\"ph\":\"i\",\"ts\":1,\"args\":[{\"name\":1}],\"x\":[{\"ph\":\"M\"}]}]",
		    &t);
	assert_int_equal(t.odd, 8);
	assert_int_equal(t.events, 1);
	gt_proftrace_fini(&t);
	expect_good("[{\"ph\":\"X\",\"ts\":1,\"dur\":1,\"args\":{\"a\":NaN,\"b\":[-inf]}},"
		    "{\"ph\":\"X\",\"ts\":Infinity}]",
		    &t);
	assert_int_equal(t.words, 3);
	assert_int_equal(t.bad_utf8, 0);
	assert_int_equal(t.untimed, 1);
	gt_proftrace_fini(&t);
	for (int i = 0; i < 4; i++) {
		static const char *const ranks[] = {"[3]", "\"3\"", "{\"rank\":[3]}",
						    "{\"rank\":9999999999}"};
		char text[128];

		snprintf(text, sizeof(text), "{\"distributedInfo\":%s,\"traceEvents\":[]}",
			 ranks[i]);
		expect_good(text, &t);
		assert_int_equal(t.rank, -1);
		gt_proftrace_fini(&t);
	}
	expect_good("[{\"ph\":\"X\",\"ts\":1,\"name\":\"\xff\",\"args\":{\"a\":\"\xc3\"}}]", &t);
	assert_int_equal(t.bad_utf8, 2);
	gt_proftrace_fini(&t);
	/* Metadata that tells nothing. */
	expect_good("[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":["
		    "\"Python\"]}},"
		    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1.5,\"args\":{\"name\":"
		    "\"Python\"}},"
		    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":99999999999999999999,"
		    "\"args\":{\"name\":\"Python\"}},"
		    "{\"ph\":\"M\",\"name\":\"process_name\",\"args\":{\"name\":\"Python\"}},"
		    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":2,\"args\":\"Python\"},"
		    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":2,\"args\":{\"args\":"
		    "{\"name\":\"Python\"}}},"
		    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":2,\"args\":[\"Python\"]},"
		    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":null,"
		    "\"args\":{\"name\":\"Python\"}},"
		    "{\"ph\":\"M\",\"name\":\"process_game\",\"pid\":2,"
		    "\"args\":{\"name\":\"Python\"}},"
		    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":2,\"tid\":\"x\"}]",
		    &t);
	assert_int_equal(t.npython, 0);
	assert_int_equal(t.npids, 2);
	gt_proftrace_fini(&t);
}

/* Traces that rows of ours have been put into before. */
static void test_own(void **state)
{
	static const struct {
		const char *event;
		int own;
	} cases[] = {
		{"\"ph\":\"M\",\"name\":\"process_name\",\"pid\":5,\"args\":{\"name\":\"GIL Trace: "
		 "x\"}",
		 1},
		{"\"ph\":\"M\",\"name\":\"process_name\",\"pid\":5,\"args\":{\"name\":\"GIL x\"}",
		 0},
		{"\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":5,\"tid\":8388608,"
		 "\"args\":{\"name\":\"GIL x\"}",
		 1},
		{"\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":5,\"tid\":8388608,"
		 "\"args\":{\"name\":\"x\"}",
		 0},
		{"\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":5,\"tid\":8,"
		 "\"args\":{\"name\":\"GIL x\"}",
		 0},
		{"\"ph\":\"X\",\"ts\":1,\"pid\":\"GIL 5\"", 1},
		{"\"ph\":\"X\",\"ts\":1,\"pid\":5,\"tid\":\"GIL 5\"", 1},
		{"\"ph\":\"X\",\"ts\":1,\"pid\":\"GIL\",\"name\":\"GIL Trace: x\"", 0},
	};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(cases); i++) {
		struct gt_proftrace t;
		char text[256];

		snprintf(text, sizeof(text), "[{%s}]", cases[i].event);
		expect_good(text, &t);
		if (t.has_gil != cases[i].own)
			fail_msg("%s", text);
		gt_proftrace_fini(&t);
	}
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"", "before it begins"},
		{"import os\n", "it is no JSON: byte 1"},
		{"# a\n", "it is no JSON: byte 0: "},
		{GIL_MAGIC "\1\1", "it is a recording of the GIL"},
		{"  ", "before it begins"},
		{"{\"traceEvents\"", "too early"},
		{"{\"traceEvents\":", "too early"},
		{"7", "neither an array nor an object"},
		{"\"[]\"", "neither"},
		{"{}", "no \"traceEvents\""},
		{"{\"events\":[]}", "no \"traceEvents\""},
		{"{\"traceEvents\":{}}", "is no array"},
		{"{\"traceEvents\":\"[]\"}", "is no array"},
		{"{\"traceEvents\":[],\"traceEvents\":[]}", "more than one"},
		{"[{\"ph\":\"X\"},]", "byte 12: a value"},
		{"[{\"name\":\"a\nb\"}]", "byte 11: control character 0x0a"},
		{"[] x", "byte 3: the end of the document"},
		{"\xef\xbb\xbf[]", "byte-order mark"},
		{"{\"traceEvents\":[],\"baseTimeNanoseconds\":1.5}", "no whole number"},
		{"{\"traceEvents\":[],\"baseTimeNanoseconds\":-1}", "no whole number"},
		{"{\"traceEvents\":[],\"baseTimeNanoseconds\":{}}", "no whole number"},
		{"{\"traceEvents\":[],\"baseTimeNanoseconds\":9223372036854775808}",
		 "no whole number that fits"},
		{"{\"baseTimeNanoseconds\":1,\"traceEvents\":[],\"baseTimeNanoseconds\":2}",
		 "two different"},
		{"{\"baseTimeNanoseconds\":4611686018427387904,\"traceEvents\":[]}",
		 "no whole number that fits"},
		{"{\"baseTimeNanoseconds\":4611686018427387903,\"traceEvents\":"
		 "[{\"ph\":\"i\",\"ts\":1}]}",
		 "later than can be counted"},
	};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(cases); i++) {
		struct gt_proftrace t;
		int rc = read_bytes(cases[i].text, strlen(cases[i].text), &t);

		if (rc != -EBADMSG || !strstr(why, cases[i].why))
			fail_msg("%s: %d, %s", cases[i].text, rc, why);
	}
}

static void test_unreadable(void **state)
{
	char dir[] = "/tmp/gt_proftrace_XXXXXX", fifo[64];
	struct gt_proftrace t;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(gt_proftrace_read(dir, &t, why, sizeof(why)), -EISDIR);
	assert_string_equal(why, "it is a folder");
	assert_int_equal(gt_proftrace_read(fifo, &t, why, sizeof(why)), -EINVAL);
	assert_string_equal(why, "it is no regular file");
	unlink(fifo);
	assert_int_equal(gt_proftrace_read(fifo, &t, why, sizeof(why)), -ENOENT);
	assert_string_equal(why, strerror(ENOENT));
	rmdir(dir);
}

/* Wherever the text ends: what is whole is known, and so is what is missing. */
static void check_cut(const char *text, size_t len, size_t array_end)
{
	uint64_t events = 0, whole = 0;

	for (size_t n = 0; n < len; n++) {
		size_t begin = (size_t)(strchr(text, '[') - text) + 1;
		struct gt_proftrace t;
		int rc = read_bytes(text, n, &t);

		assert_int_equal(rc, n < begin ? -EBADMSG : 0);
		if (rc)
			continue;
		assert_true(t.cut);
		assert_int_equal(t.size, n);
		assert_int_equal(t.array_offset, begin);
		assert_int_equal(t.in_array, n < array_end);
		assert_true(t.whole >= whole && t.whole <= n && t.events >= events);
		assert_int_equal(t.any, t.events > 0);
		if (t.in_array && t.any)
			assert_memory_equal(text + t.whole - 1, "}", 1);
		events = t.events;
		whole = t.whole;
		gt_proftrace_fini(&t);
	}
	assert_true(events > 1);
}

static void test_cut(void **state)
{
	static const char object[] =
		"{\"traceEvents\":[{\"ph\":\"i\",\"ts\":1}, {\"ph\":\"X\",\"args\":{\"a\":[1]}} ],"
		"\"x\": {\"y\":1} ,\"z\":12}";
	struct gt_proftrace t;

	(void)state;
	check_cut(npu, strrchr(npu, ']') - npu, sizeof(npu));
	check_cut(object, sizeof(object) - 2, (size_t)(strstr(object, "],") - object) + 1);
	/* Behind the array, a member that is only half there does not count. */
	assert_int_equal(read_bytes(object, sizeof(object) - 4, &t), 0);
	assert_int_equal(t.whole, strstr(object, " ,\"z") - object);
	assert_false(t.in_array);
	gt_proftrace_fini(&t);
}

static void test_gzip(void **state)
{
	size_t len;
	gt_autofree uint8_t *packed = gzip(npu, sizeof(npu) - 1, &len);
	struct gt_proftrace t;

	(void)state;
	assert_int_equal(read_bytes(packed, len, &t), 0);
	assert_true(t.gzip);
	assert_false(t.cut);
	assert_int_equal(t.events, 14);
	assert_int_equal(t.size, sizeof(npu) - 1);
	gt_proftrace_fini(&t);
	assert_int_equal(read_bytes(packed, len / 2, &t), 0);
	assert_true(t.gzip && t.cut && t.in_array);
	assert_in_range(t.events, 1, 13);
	gt_proftrace_fini(&t);
	packed[len - 5] ^= 1;
	assert_int_equal(read_bytes(packed, len, &t), -EBADMSG);
	assert_non_null(strstr(why, "damaged"));
}

/* One event for each number up to n, in no order; far longer than any buffer. */
static int read_many(const char *head, const char *tail, unsigned int n, struct gt_proftrace *t)
{
	gt_autofree char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	for (unsigned int i = 0; i < n; i++)
		fprintf(f, "%s%s%" PRIu64 "%s", i ? "," : "[", head, i * UINT64_C(7919) % n + 1,
			tail);
	fputc(']', f);
	assert_int_equal(fclose(f), 0);
	return read_bytes(text, len, t);
}

static void test_many(void **state)
{
	static const char thread[] = "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":";
	struct gt_proftrace t;

	(void)state;
	assert_int_equal(
		read_many("{\"ph\":\"i\",\"ts\":5,\"pid\":", "}", GT_PROFTRACE_PIDS_MAX, &t), 0);
	assert_int_equal(t.events, GT_PROFTRACE_PIDS_MAX);
	assert_int_equal(t.npids, GT_PROFTRACE_PIDS_MAX);
	for (size_t i = 0; i < t.npids; i++)
		assert_int_equal(t.pids[i], i + 1);
	gt_proftrace_fini(&t);
	assert_int_equal(read_many("{\"ph\":\"i\",\"pid\":", "}", GT_PROFTRACE_PIDS_MAX + 1, &t),
			 -E2BIG);
	assert_non_null(strstr(why, "more processes or threads"));
	assert_int_equal(read_many("{\"ph\":\"i\",\"ts\":\"", ".25\"}", 1000000, &t), 0);
	assert_int_equal(t.events, 1000000);
	assert_int_equal(t.begin_ns, 1250);
	assert_int_equal(t.end_ns, 1000000250);
	gt_proftrace_fini(&t);
	assert_int_equal(read_many(thread, "}", GT_PROFTRACE_THREADS_MAX, &t), 0);
	assert_int_equal(t.npids, 1);
	gt_proftrace_fini(&t);
	assert_int_equal(read_many(thread, "}", GT_PROFTRACE_THREADS_MAX + 1, &t), -E2BIG);
}

static void test_free_pid(void **state)
{
	struct gt_proftrace t;

	(void)state;
	expect_good("[{\"ph\":\"i\",\"pid\":4194306},{\"ph\":\"i\",\"pid\":3},{\"ph\":\"i\","
		    "\"pid\":4194308},"
		    "{\"ph\":\"i\",\"pid\":4194309},{\"ph\":\"i\",\"pid\":4194304}]",
		    &t);
	assert_int_equal(gt_proftrace_free_pid(&t, 0), 4194305);
	assert_int_equal(gt_proftrace_free_pid(&t, 1), 4194307);
	assert_int_equal(gt_proftrace_free_pid(&t, 2), 4194310);
	assert_int_equal(gt_proftrace_free_pid(&t, 3), 4194311);
	gt_proftrace_fini(&t);
}

static void test_same(void **state)
{
	gt_autoclose int fd = text_fd("[]", 2);
	struct gt_proftrace t;
	char path[32];

	(void)state;
	assert_int_equal(gt_proftrace_read(fd_path(fd, path), &t, why, sizeof(why)), 0);
	assert_true(gt_file_is(fd, &t.file));
	assert_int_equal(pwrite(fd, "[ ]", 3, 0), 3);
	assert_false(gt_file_is(fd, &t.file));
	gt_proftrace_fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_torch_npu), cmocka_unit_test(test_processes),
		cmocka_unit_test(test_kineto),    cmocka_unit_test(test_kineto_unix),
		cmocka_unit_test(test_mindspore), cmocka_unit_test(test_order),
		cmocka_unit_test(test_times),     cmocka_unit_test(test_early),
		cmocka_unit_test(test_odd),       cmocka_unit_test(test_own),
		cmocka_unit_test(test_refused),   cmocka_unit_test(test_unreadable),
		cmocka_unit_test(test_cut),       cmocka_unit_test(test_gzip),
		cmocka_unit_test(test_many),      cmocka_unit_test(test_free_pid),
		cmocka_unit_test(test_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
