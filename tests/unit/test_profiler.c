// SPDX-License-Identifier: Apache-2.0
/*
 * profiler.c, profident.c, profnames.c, proffiles.c: what is found in folder trees as
 * Profilers leave them, whose it is, by every way that there is, and what must not be followed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "log.h"
#include "proffiles.h"
#include "proffix.h"
#include "profiler.h"
#include "profnames.h"

#define EVENT(pid, ts)                                                                             \
	"{\"ph\":\"X\",\"name\":\"a\",\"pid\":" #pid ",\"tid\":1,\"ts\":\"" #ts ".000\",\"dur\":"  \
	"5}"
#define PYTHON(pid)                                                                                \
	"{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" #pid                                    \
	",\"tid\":0,\"args\":{\"name\":\"Python\"}}"

#define TRACE "[" PYTHON(41) "," EVENT(41, 1736405443000000) "]"
#define BARE  "[" EVENT(3000000000, 1736405443000000) "]"

#define STAMPS "{\"collectionTimeBegin\": \"1736405443000000\", \"clockMonotonicRaw\": \"5\"}"

static struct gt_profilers found;

static int find(const char *name)
{
	const char *const path = in_base(name);

	gt_profilers_free(&found);
	return gt_profilers_find(&found, &path, 1);
}

static const struct gt_profiler *only(void)
{
	assert_int_equal(found.n, 1);
	return &found.list[0];
}

/* The path ends so; NULL: there is none. */
static void assert_path(const char *path, const char *end)
{
	if (!end) {
		assert_null(path);
		return;
	}
	assert_non_null(path);
	assert_true(strlen(path) > strlen(end));
	assert_string_equal(path + strlen(path) - strlen(end), end);
}

static int remove_all(void **state)
{
	gt_profilers_free(&found);
	return remove_base(state);
}

#define PT "out/host_41_20250109065043123_ascend_pt"

static void put_torch(const char *dir, const char *info, const char *trace)
{
	char name[512];

	snprintf(name, sizeof(name), "%s/%s", dir, info);
	put(name, "{\"rank_id\": 3}");
	snprintf(name, sizeof(name), "%s/profiler_metadata.json", dir);
	put(name, "{}");
	snprintf(name, sizeof(name), "%s/FRAMEWORK/torch.op_range", dir);
	put(name, "x");
	snprintf(name, sizeof(name), "%s/ASCEND_PROFILER_OUTPUT/trace_view.json", dir);
	put(name, trace);
	snprintf(name, sizeof(name), "%s/PROF_000001_20250109065043_ABCDEFGH/host/start_info", dir);
	put(name, STAMPS);
	snprintf(name, sizeof(name), "%s/PROF_000001_20250109065043_ABCDEFGH/host/info.json", dir);
	put(name, "{\"pid\": \"77\", \"rank_id\": 9}");
}

/* ---- layouts ---- */

static void torch_npu(void **state)
{
	const struct gt_profiler *p;

	(void)state;
	put_torch(PT, "profiler_info_3.json", TRACE);
	put(PT "/ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_3.db", "db");
	assert_int_equal(find(PT), 0);
	p = only();
	assert_path(p->trace, PT "/ASCEND_PROFILER_OUTPUT/trace_view.json");
	assert_path(p->dir, PT);
	assert_string_equal(p->name, "host_41_20250109065043123_ascend_pt");
	assert_path(p->host_dir, PT "/PROF_000001_20250109065043_ABCDEFGH/host");
	assert_path(p->info, PT "/profiler_info_3.json");
	assert_path(p->database, "/ascend_pytorch_profiler_3.db");
	assert_int_equal(p->pid, 41);
	assert_string_equal(p->pid_how, "its name");
	assert_int_equal(p->rank, 3);
	assert_int_equal(p->facts.begin_ns, 1736405443000000000);
	assert_int_equal(p->nslices, 0);
}

/* Named as itself, by what is in it, or by what it is in: the same. */
static void named_otherwise(void **state)
{
	static const char *const names[] = {
		PT,
		PT "/",
		PT "/.",
		"out",
		"",
		PT "/ASCEND_PROFILER_OUTPUT",
		PT "/ASCEND_PROFILER_OUTPUT/trace_view.json",
		PT "/ASCEND_PROFILER_OUTPUT/../ASCEND_PROFILER_OUTPUT/trace_view.json"};

	(void)state;
	put_torch(PT, "profiler_info_3.json", TRACE);
	for (size_t i = 0; i < GT_ARRAY_SIZE(names); i++) {
		assert_int_equal(find(names[i]), 0);
		assert_path(only()->dir, PT);
		assert_path(only()->host_dir, "/host");
		assert_int_equal(only()->rank, 3);
	}
	assert_int_equal(symlink(PT, in_base("link")), 0);
	assert_int_equal(find("link"), 0); /* the user has named it */
	assert_path(only()->dir, PT);
}

static void mindspore(void **state)
{
	(void)state;
	put_torch("ms/rank_0/msprof_1198203_20250617064811905_ascend_ms", "profiler_info_0.json",
		  BARE);
	put("ms/rank_0/msprof_1198203_20250617064811905_ascend_ms/ASCEND_PROFILER_OUTPUT/"
	    "ascend_mindspore_profiler_0.db",
	    "db");
	assert_int_equal(find("ms"), 0);
	assert_int_equal(only()->pid, 1198203);
	assert_int_equal(only()->rank, 0);
	assert_string_equal(only()->name, "msprof_1198203_20250617064811905_ascend_ms");
	assert_path(only()->database, "ascend_mindspore_profiler_0.db");
}

#define PROF "PROF_000001_20230608201922856_LPKNFOADMAQRMDGC"

static void msprof(void **state)
{
	const struct gt_profiler *p;

	(void)state;
	put(PROF "/mindstudio_profiler_output/msprof_20230608201923.json", BARE);
	put(PROF "/mindstudio_profiler_output/msprof_tx_20230608201923.json", "[]");
	put(PROF "/mindstudio_profiler_output/op_summary_20230608201923.csv", "");
	put(PROF "/host/info.json", "{\"pid\": \"1000\"}");
	put(PROF "/device_0/info.json.0", "{\"pid\": \"1\"}");
	put(PROF "/msprof_20230608201923.db", "db");
	assert_int_equal(find(PROF), 0);
	p = only();
	assert_path(p->trace, "/msprof_20230608201923.json");
	assert_path(p->host_dir, PROF "/host");
	assert_path(p->database, "/msprof_20230608201923.db");
	assert_int_equal(p->pid, 1000);
	assert_string_equal(p->pid_how, "info.json");
	assert_int_equal(p->rank, -1);
	assert_null(p->rank_how);
	assert_string_equal(p->name, PROF);
	/* Without a folder "host", that of a device. */
	assert_int_equal(remove(in_base(PROF "/host/info.json")), 0);
	assert_int_equal(remove(in_base(PROF "/host")), 0);
	assert_int_equal(find(PROF "/mindstudio_profiler_output"), 0);
	assert_path(only()->host_dir, PROF "/device_0");
	assert_int_equal(only()->pid, 1);
}

/* Cut up, and exported twice: the parts of the later export. */
static void msprof_slices(void **state)
{
	const struct gt_profiler *p;

	(void)state;
	put(PROF "/mindstudio_profiler_output/msprof_slice_0_20230608201923.json",
	    "[" EVENT(7, 1736405443000010) "]");
	put(PROF "/mindstudio_profiler_output/msprof_slice_1_20230608201923.json",
	    "[" EVENT(8, 1736405443000005) "]");
	put(PROF "/mindstudio_profiler_output/msprof_slice_2_20230608201923.json",
	    "[" EVENT(4194305, 1736405443000090) "]");
	put(PROF "/mindstudio_profiler_output/msprof_20230608201900.json", BARE);
	assert_int_equal(find(PROF), 0);
	p = only();
	assert_path(p->trace, "/msprof_slice_0_20230608201923.json");
	assert_int_equal(p->nslices, 2);
	assert_path(p->slices[1].path, "/msprof_slice_2_20230608201923.json");
	assert_int_equal(p->facts.begin_ns, 1736405443000005000);
	assert_int_equal(p->facts.end_ns, 1736405443000095000);
	assert_int_equal(p->slices[1].facts.events, 1);
	/* The pids of all parts are taken. */
	assert_int_equal(p->facts.npids, 3);
	for (unsigned int i = 0; i < 5; i++)
		assert_int_not_equal(gt_proftrace_free_pid(&p->facts, i), 4194305);
}

static void plain_traces(void **state)
{
	(void)state;
	put("dir/trace.json", TRACE);
	assert_int_equal(find("dir/trace.json"), 0);
	assert_null(only()->dir);
	assert_string_equal(only()->name, "trace");
	assert_int_equal(only()->pid, 41);
	assert_string_equal(only()->pid_how, "its trace");
	assert_int_equal(only()->rank, -1);
	/* PyTorch's, of a folder of them. */
	put("log/node_41.1736405443000.pt.trace.json",
	    "{\"schemaVersion\": 1, \"distributedInfo\": {\"rank\": 6}, \"traceEvents\": [" EVENT(
		    41, 1736405443000000) "]}");
	put("log/node_42.1736405443000.pt.trace.json", "{\"traceEvents\": [" EVENT(42, 5) "]}");
	put("log/other.json", "[]");
	assert_int_equal(find("log"), 0);
	assert_int_equal(found.n, 2);
	assert_string_equal(found.list[0].name, "node_41.1736405443000");
	assert_int_equal(found.list[0].pid, 41);
	assert_string_equal(found.list[0].pid_how, "its name");
	assert_int_equal(found.list[0].rank, 6);
	assert_int_equal(found.list[1].pid, 42);
}

static void several(void **state)
{
	(void)state;
	put_torch("job/node0/a_11_20250109065043123_ascend_pt", "profiler_info_1.json", BARE);
	put_torch("job/node1/a_11_20250109065043123_ascend_pt", "profiler_info_0.json", BARE);
	put("job/log/x_9.1736405443000.pt.trace.json", BARE);
	put("job/" PROF "/mindstudio_profiler_output/msprof_20230608201923.json", BARE);
	assert_int_equal(find("job"), 0);
	assert_int_equal(found.n, 4);
	/* Two of one name get outputs of two names. */
	for (size_t i = 0; i < found.n; i++)
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(found.list[i].name, found.list[k].name);
}

/* Merged, they lose their suffix; laid out, a trace alone gets one. */
static void names_without_suffix(void **state)
{
	static const char *const names[] = {"a/x_ascend_pt", "b/x_ascend_ms", "c/x.json",
					    "d/x_2_ascend_pt"};
	const char *paths[4];

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		if (i == 2)
			put(names[i], BARE);
		else
			put_torch(names[i], "profiler_info_0.json", BARE);
		paths[i] = in_base(names[i]);
	}
	assert_int_equal(gt_profilers_find(&found, paths, 4), 0);
	assert_int_equal(found.n, 4);
	assert_string_equal(found.list[0].name, "x_ascend_pt");
	assert_string_equal(found.list[1].name, "x_2_ascend_ms");
	assert_string_equal(found.list[2].name, "x_3");
	assert_string_equal(found.list[3].name, "x_2_2_ascend_pt");
}

static void given_twice(void **state)
{
	const char *paths[3];

	(void)state;
	put_torch(PT, "profiler_info_3.json", TRACE);
	paths[0] = in_base(PT);
	paths[1] = in_base("out");
	paths[2] = in_base(PT "/ASCEND_PROFILER_OUTPUT/trace_view.json");
	assert_int_equal(gt_profilers_find(&found, paths, 3), 0);
	assert_int_equal(found.n, 1);
}

/* ---- whose ---- */

/* A worker's name that ends with a number is no pid, as the trace tells. */
static void pid_by_each_way(void **state)
{
	(void)state;
	put_torch("a/llama_8_20250109065043123_ascend_pt", "profiler_info.json", TRACE);
	assert_int_equal(find("a"), 0);
	assert_int_equal(only()->pid, 77);
	assert_string_equal(only()->pid_how, "info.json");
	put_torch("b/rank0_ascend_pt", "profiler_info.json", TRACE);
	put("b/rank0_ascend_pt/PROF_000001_20250109065043_ABCDEFGH/host/info.json",
	    "{\"pid\": -1}");
	assert_int_equal(find("b"), 0);
	assert_int_equal(only()->pid, 41);
	put("b/rank0_ascend_pt/PROF_000001_20250109065043_ABCDEFGH/host/info.json", "garbage");
	assert_int_equal(find("b"), 0);
	assert_int_equal(only()->pid, 41);
	/* Two processes in one trace: neither. */
	put("c/trace.json", "[" PYTHON(41) "," PYTHON(42) "," EVENT(41, 1736405443000000) "]");
	assert_int_equal(find("c/trace.json"), 0);
	assert_int_equal(only()->pid, -1);
	assert_null(only()->pid_how);
}

static void rank_by_each_way(void **state)
{
	(void)state;
	put_torch("a/x_ascend_pt", "profiler_info_12.json", BARE);
	assert_int_equal(find("a"), 0);
	assert_int_equal(only()->rank, 12); /* though 3 stands in it */
	assert_string_equal(only()->rank_how, "profiler_info's name");
	put_torch("b/x_ascend_pt", "profiler_info.json", BARE);
	assert_int_equal(find("b"), 0);
	assert_int_equal(only()->rank, 3);
	assert_path(only()->info, "/profiler_info.json");
	put("b/x_ascend_pt/profiler_info.json", "{\"rank_id\": -1, \"x\": {\"rank_id\": 5}}");
	put("b/x_ascend_pt/ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_2.db", "");
	assert_int_equal(find("b"), 0);
	assert_int_equal(only()->rank, 2);
	assert_int_equal(unlink(in_base("b/x_ascend_pt/ASCEND_PROFILER_OUTPUT/"
					"ascend_pytorch_profiler_2.db")),
			 0);
	assert_int_equal(find("b"), 0);
	assert_int_equal(only()->rank, 9);
	assert_string_equal(only()->rank_how, "info.json");
}

/* ---- what is no use, and what must not be followed ---- */

static void no_use(void **state)
{
	(void)state;
	assert_int_equal(find("missing"), 1);
	put_dir("empty");
	assert_int_equal(find("empty"), 1);
	put("x/trace_view.json", "no JSON");
	assert_int_equal(find("x/trace_view.json"), 1);
	assert_int_equal(find("x"), 1);
	assert_int_equal(found.n, 0);
	/* Not analysed; a database alone; not exported. */
	put("raw/h_1_20250109065043123_ascend_pt/FRAMEWORK/x", "");
	assert_int_equal(find("raw"), 1);
	/* Nor is anything else in it taken for a trace that it would be known by. */
	put("raw/h_1_20250109065043123_ascend_pt/old/trace_view.json", TRACE);
	assert_int_equal(find("raw"), 1);
	assert_int_equal(found.n, 0);
	assert_int_equal(symlink("old", in_base("raw/h_1_20250109065043123_ascend_pt/"
						"ASCEND_PROFILER_OUTPUT")),
			 0);
	assert_int_equal(find("raw"), 1);
	assert_int_equal(found.n, 0);
	put("db/h_1_20250109065043123_ascend_pt/ASCEND_PROFILER_OUTPUT/"
	    "ascend_pytorch_profiler_0.db",
	    "");
	assert_int_equal(find("db"), 1);
	put_dir("ms/" PROF "/mindstudio_profiler_output");
	assert_int_equal(find("ms"), 1);
	/* One that is fine beside them is found. */
	put_torch("db/rank1_ascend_pt", "profiler_info_1.json", BARE);
	assert_int_equal(find("db"), 1);
	assert_int_equal(only()->rank, 1);
}

/* What gil2trace has written is no Profiler's. */
static void joint_views(void **state)
{
	(void)state;
	put_torch(PT, "profiler_info_3.json", TRACE);
	put("out/gil_joint/a_ascend_pt/profiler_info_3.json", "{}");
	put("out/gil_joint/a_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json", TRACE);
	put("out/gil_joint/a_ascend_pt/ASCEND_PROFILER_OUTPUT/trace.json", "[]");
	assert_int_equal(find("out"), 0);
	assert_path(only()->dir, PT);
	assert_int_equal(find("out/gil_joint/a_ascend_pt"), 1);
	assert_int_equal(find("out/gil_joint/a_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json"),
			 1);
	assert_int_equal(find("out/gil_joint"), 1);
	assert_int_equal(found.n, 0);
	put("merged.json",
	    "[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":4194400,\"tid\":0,"
	    "\"args\":{\"name\":\"GIL Trace: x\"}}," EVENT(4194400, 1736405443000000) "]");
	assert_int_equal(find("merged.json"), 1);
	assert_int_equal(found.n, 0);
}

static void links(void **state)
{
	(void)state;
	put_torch("real/a_41_20250109065043123_ascend_pt", "profiler_info_3.json", TRACE);
	put_dir("tree");
	assert_int_equal(symlink("../real/a_41_20250109065043123_ascend_pt",
				 in_base("tree/a_41_20250109065043123_ascend_pt")),
			 0);
	assert_int_equal(find("tree"), 1);
	assert_int_equal(found.n, 0);
	assert_int_equal(symlink("..", in_base("real/loop")), 0);
	assert_int_equal(find("real"), 0);
	assert_int_equal(found.n, 1);
	/* In a Profiler's folder. */
	assert_int_equal(rename(in_base("real/a_41_20250109065043123_ascend_pt/"
					"PROF_000001_20250109065043_ABCDEFGH"),
				in_base("elsewhere")),
			 0);
	assert_int_equal(symlink("../../elsewhere", in_base("real/a_41_20250109065043123_ascend_pt/"
							    "PROF_000001_20250109065043_ABCDEFGH")),
			 0);
	assert_int_equal(unlink(in_base("real/a_41_20250109065043123_ascend_pt/"
					"profiler_info_3.json")),
			 0);
	assert_int_equal(symlink("../../elsewhere/host/info.json",
				 in_base("real/a_41_20250109065043123_ascend_pt/"
					 "profiler_info_3.json")),
			 0);
	assert_int_equal(find("real"), 0);
	assert_null(only()->host_dir);
	assert_null(only()->info);
	assert_int_equal(only()->rank, -1);
	assert_int_equal(rename(in_base("real/a_41_20250109065043123_ascend_pt/"
					"ASCEND_PROFILER_OUTPUT/trace_view.json"),
				in_base("trace")),
			 0);
	assert_int_equal(
		symlink("../../../trace", in_base("real/a_41_20250109065043123_ascend_pt/"
						  "ASCEND_PROFILER_OUTPUT/trace_view.json")),
		0);
	assert_int_equal(find("real"), 1);
	assert_int_equal(found.n, 0);
}

/* Things that are no files, where files should be. */
static void not_files(void **state)
{
	(void)state;
	put_dir("a/x_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json");
	assert_int_equal(find("a"), 1);
	put("b/x_ascend_pt/ASCEND_PROFILER_OUTPUT", "a file");
	assert_int_equal(find("b"), 1);
	put_dir("c/x_ascend_pt/ASCEND_PROFILER_OUTPUT");
	assert_int_equal(
		mkfifo(in_base("c/x_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json"), 0600), 0);
	assert_int_equal(find("c"), 1);
	put_torch("d/x_ascend_pt", "profiler_info_3.json", BARE);
	assert_int_equal(mkfifo(in_base("d/x_ascend_pt/profiler_info_1.json"), 0600), 0);
	assert_int_equal(find("d"), 0);
	assert_int_equal(only()->rank, 3);
}

static void hostile_names(void **state)
{
	static const struct {
		const char *dir, *name;
	} names[] = {
		{"a\nb\x1b[31m_ascend_pt", "a_b__31m_ascend_pt"}, /* [ is plain */
		{".._ascend_pt", "_._ascend_pt"},
		{"-rf_ascend_pt", "_rf_ascend_pt"},
		{"\xff\xc3\xa9\xed\xa0\x80_ascend_pt", "_\xc3\xa9____ascend_pt"},
		{"a\"b'c$(d)_ascend_pt", "a_b_c_(d)_ascend_pt"},
	};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(names); i++) {
		char dir[256];

		snprintf(dir, sizeof(dir), "n%zu/%s", i, names[i].dir);
		put_torch(dir, "profiler_info_0.json", BARE);
		assert_int_equal(find(dir), 0);
		if (i)
			assert_string_equal(only()->name, names[i].name);
		else
			assert_string_equal(only()->name, "a_b_[31m_ascend_pt");
	}
}

/* As long as a name can be: what is written gets a suffix. */
static void long_names(void **state)
{
	char dir[256], clean[GT_NAME_MAX + 1];

	(void)state;
	memset(dir, 'x', sizeof(dir));
	memcpy(dir + 245, "_ascend_pt", 11);
	put_torch(dir, "profiler_info_0.json", BARE);
	assert_int_equal(find(""), 0);
	assert_int_equal(strlen(only()->name), GT_NAME_MAX);
	/* Not within a character. */
	memset(dir, 'x', sizeof(dir));
	memcpy(dir + GT_NAME_MAX - 1, "\xe4\xb8\xad", 4);
	gt_name_clean(clean, dir);
	assert_int_equal(strlen(clean), GT_NAME_MAX - 1);
	gt_name_clean(clean, "");
	assert_string_equal(clean, "_");
	gt_name_clean(clean, "_ascend_pt");
	assert_string_equal(clean, "_ascend_pt");
}

static void deep_and_many(void **state)
{
	char name[32];
	int fd, no_use;

	(void)state;
	put_torch("1/2/3/4/x_ascend_pt", "profiler_info_0.json", BARE);
	assert_int_equal(find("1"), 0); /* three between */
	assert_int_equal(found.n, 1);
	assert_int_equal(find(""), 1); /* four */
	assert_int_equal(found.n, 0);
	put_torch("many/1/x_ascend_pt", "profiler_info_0.json", BARE);
	fd = open(in_base("many"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	for (int i = 2; i < 3000; i++) {
		snprintf(name, sizeof(name), "%d", i);
		assert_int_equal(mkdirat(fd, name, 0755), 0);
	}
	assert_int_equal(find("many"), 0);
	assert_int_equal(found.n, 1);
	for (int i = 0; i < GT_NAMES_MAX; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		assert_int_equal(mknodat(fd, name, S_IFREG | 0644, 0), 0);
	}
	close(fd);
	/* Not all is looked at, which is said. Whether the one is, readdir decides. */
	no_use = find("many");
	assert_int_equal(no_use, 1);
}

/* ---- names ---- */

static void pids_of_names(void **state)
{
	static const struct {
		const char *name;
		int64_t pid;
	} names[] = {
		{"localhost.localdomain_139247_20230628101435_ascend_pt", 139247},
		{"a_1_20250617064811905_ascend_ms", 1},
		{"rank0_ascend_pt", -1},
		{"rank_0_ascend_pt", -1},
		{"x_20230628101435_ascend_pt", -1},
		{"_7_20230628101435_ascend_pt", -1}, /* nothing before it */
		{"7_20230628101435_ascend_pt", -1},
		{"h_0_20230628101435_ascend_pt", -1},
		{"h_4194304_20230628101435_ascend_pt", 4194304},
		{"h_4194305_20230628101435_ascend_pt", -1},
		{"h_99999999999999999999_20230628101435_ascend_pt", -1},
		{"h_1__ascend_pt", -1},
		{"_ascend_pt", -1},
		{"", -1},
		{"node-3_812.1736405443000.pt.trace.json", 812},
		{"node_812.1736405443000000.pt.trace.json.gz", 812},
		{"node_812.pt.trace.json", -1},
		{"rank0.1.pt.trace.json", -1},
		{"trace_view.json", -1},
	};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(names); i++)
		assert_int_equal(gt_name_pid(names[i].name), names[i].pid);
}

static void other_names(void **state)
{
	(void)state;
	assert_int_equal(gt_name_rank("profiler_info_0.json"), 0);
	assert_int_equal(gt_name_rank("profiler_info_00123.json"), 123);
	assert_int_equal(gt_name_rank("profiler_info_.json"), -1);
	assert_int_equal(gt_name_rank("profiler_info.json"), -1);
	assert_int_equal(gt_name_rank("profiler_info_-1.json"), -1);
	assert_int_equal(gt_name_rank("profiler_info_1x.json"), -1);
	assert_int_equal(gt_name_rank("profiler_info_100000.json"), -1);
	assert_int_equal(gt_name_rank("ascend_pytorch_profiler_7.db"), 7);
	assert_int_equal(gt_name_rank("ascend_pytorch_profiler.db"), -1);
	assert_true(gt_name_is_prof(PROF));
	assert_false(gt_name_is_prof("PROF_"));
	assert_false(gt_name_is_prof("PROF_1_2_"));
	assert_false(gt_name_is_prof("PROF_1_A"));
	assert_false(gt_name_is_prof("PROF_1_2_A/B"));
	assert_int_equal(gt_name_msprof("msprof_20230608201923.json"), 20230608201923);
	assert_int_equal(gt_name_msprof("msprof_slice_0_20230608201923.json"), 20230608201923);
	assert_int_equal(gt_name_msprof("msprof_0_1_2_3.json"), 3);
	assert_int_equal(gt_name_msprof("msprof_0_1_2_3_4.json"), -1);
	assert_int_equal(gt_name_msprof("msprof_.json"), -1);
	assert_int_equal(gt_name_msprof("msprof_tx_1.json"), -1);
	assert_int_equal(gt_name_msprof("msprof_1.json.gz"), -1);
	assert_int_equal(gt_name_msprof("msprof_99999999999999999999.json"), -1);
	assert_true(gt_name_is_database("msprof_20230608201923.db"));
	assert_true(gt_name_is_database("ascend_pytorch_profiler.db"));
	assert_false(gt_name_is_database("analysis.db"));
	assert_false(gt_name_is_database("mindstudio_insight_data.db"));
}

/* ---- small files ---- */

static void collect(void *ctx, const char *path, enum gt_json_token token, const char *text)
{
	char *out = ctx;
	size_t n = strlen(out);

	snprintf(out + n, 4096 - n, "%s=%d:%s;", path, token, text);
}

static void small_json(void **state)
{
	char out[4096] = "", why[256], expected[256];

	(void)state;
	put("a",
	    "{\"a\": {\"b\": [1, {\"c\": \"x\"}, true], \"d\": {}}, \"e\": 1.50, \"a\": null}");
	assert_int_equal(
		gt_prof_json(gt_prof_file(AT_FDCWD, in_base("a")), collect, out, why, sizeof(why)),
		0);
	snprintf(expected, sizeof(expected), "a.b=%d:1;a.b.c=%d:x;a.b=%d:;e=%d:1.50;a=%d:;",
		 GT_JSON_NUMBER, GT_JSON_STRING, GT_JSON_TRUE, GT_JSON_NUMBER, GT_JSON_NULL);
	assert_string_equal(out, expected);
	/* Deeper than is looked at, and keys that are longer: skipped, and the rest is right. */
	put("a", "{\"k\": [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]], "
		 "\"0123456789012345678901234567890123456789012345678901234567890123456789012345678"
		 "90123456789012345678901234567890123456789012345678901234567890123456789012345678"
		 "901234567890123456789012345678901234567890123456789012345678901234567890123456789"
		 "01234567890123456789\": {\"x\": 1}, \"y\": 2}");
	out[0] = '\0';
	assert_int_equal(
		gt_prof_json(gt_prof_file(AT_FDCWD, in_base("a")), collect, out, why, sizeof(why)),
		0);
	snprintf(expected, sizeof(expected), "y=%d:2;", GT_JSON_NUMBER);
	assert_string_equal(out, expected);
	put("a", "{\"a\": 1");
	assert_true(gt_prof_json(gt_prof_file(AT_FDCWD, in_base("a")), collect, out, why,
				 sizeof(why)) < 0);
	assert_true(why[0]);
}

static void small_lines(void **state)
{
	char out[4096] = "", why[256];

	(void)state;
	put("a", "[Host]\r\nclock_monotonic_raw: 12 \n  x =  y:z\n\nempty:\nlast: 1");
	assert_int_equal(
		gt_prof_lines(gt_prof_file(AT_FDCWD, in_base("a")), collect, out, why, sizeof(why)),
		0);
	assert_non_null(strstr(out, "clock_monotonic_raw=6:12;x=6:y:z;empty=6:;last=6:1;"));
}

static void whole_numbers(void **state)
{
	int64_t v = -7;

	(void)state;
	assert_true(gt_whole_number("9223372036854775807", &v));
	assert_true(v == INT64_MAX);
	assert_false(gt_whole_number("9223372036854775808", &v));
	assert_false(gt_whole_number("", &v));
	assert_false(gt_whole_number("0", &v));
	assert_false(gt_whole_number("-1", &v));
	assert_false(gt_whole_number(" 1", &v));
	assert_false(gt_whole_number("1e3", &v));
	assert_true(v == INT64_MAX);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make_base, remove_all)
	const struct CMUnitTest tests[] = {
		T(torch_npu),     T(named_otherwise), T(mindspore),        T(msprof),
		T(msprof_slices), T(plain_traces),    T(several),          T(names_without_suffix),
		T(given_twice),   T(pid_by_each_way), T(rank_by_each_way), T(no_use),
		T(joint_views),   T(links),           T(not_files),        T(hostile_names),
		T(long_names),    T(deep_and_many),   T(pids_of_names),    T(other_names),
		T(small_json),    T(small_lines),     T(whole_numbers),
	};

	gt_log_setup("test_profiler", GT_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
