// SPDX-License-Identifier: Apache-2.0
/* Which names people see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gilmake.h"

#include "labels.h"

static const struct {
	const char *name, *comm, *want; /* process: "python3"; the main thread: "pt_main_thread" */
} threads[] = {
	{NULL, "", "thread 7"},
	{"", "", "thread 7"},
	{NULL, "acl_thread", "acl_thread 7"},
	{NULL, "python3", "python3 7"},
	{"MainThread", "python3", "MainThread 7"},
	{"MainThread", "", "MainThread 7"},
	{"loader", "acl_thread", "loader (acl_thread) 7"},
	/* inherited, or an interpreter's */
	{"loader", "pt_main_thread", "loader 7"},
	{"loader", "python3.11", "loader 7"},
	{"loader", "pytho", "loader (pytho) 7"},
	/* CPython 3.14: its beginning, cut between two characters */
	{"pin_memory", "pin_memory", "pin_memory 7"},
	{"ThreadPoolExecutor-0_0", "ThreadPoolExecu", "ThreadPoolExecutor-0_0 7"},
	{"Threads \xf0\x9f\x90\x8d\xf0\x9f\x90\x8d", "Threads \xf0\x9f\x90\x8d",
	 "Threads \xf0\x9f\x90\x8d\xf0\x9f\x90\x8d 7"},
	{"ThreadPoolExecutor-0_0", "Thread", "ThreadPoolExecutor-0_0 (Thread) 7"},
	{"ThreadPoolExecutor-0_0", "ThreadPoolExecX", "ThreadPoolExecutor-0_0 (ThreadPoolExecX) 7"},
	{"a", "ab", "a (ab) 7"},
	/* any bytes */
	{"\xff\"\n", "\x01)", "\xff\"\n (\x01)) 7"},
};

static void thread_labels(void **state)
{
	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(threads); i++) {
		const struct gt_label_thread t = {.name = threads[i].name,
						  .comm = threads[i].comm,
						  .id = 7,
						  .process_comm = "python3",
						  .main_comm = "pt_main_thread"};
		char buf[GT_LABEL_THREAD_MAX];

		gt_label_thread(buf, &t);
		assert_string_equal(buf, threads[i].want);
	}
}

static void longest_thread_label(void **state)
{
	char name[200], comm[GIL_COMM_LEN], buf[GT_LABEL_THREAD_MAX + 1];
	const struct gt_label_thread t = {
		.name = name, .comm = comm, .id = UINT32_MAX, .where = "recorder"};

	(void)state;
	memset(name, 'n', sizeof(name));
	memset(comm, 'c', sizeof(comm)); /* without a NUL */
	buf[GT_LABEL_THREAD_MAX] = 'x';
	gt_label_thread(buf, &t);
	assert_int_equal(strlen(buf),
			 GIL_NAME_MAX + strlen(" (ccccccccccccccc) recorder 4294967295"));
	assert_non_null(strstr(buf, "n (ccccccccccccccc) recorder 4294967295"));
	assert_int_equal(buf[GT_LABEL_THREAD_MAX], 'x');
}

/* A reader of a recording that holds nothing but META. */
static gil_reader *with_meta(const char *const (*pairs)[2], size_t n)
{
	int fd = memfd_create("meta.gil", MFD_CLOEXEC);
	struct gt_gilfile *f;
	char why[512];
	gil_reader *r;

	assert_int_equal(gt_gilfile_create(dup(fd), &f), 0);
	assert_int_equal(gt_gilfile_meta(f, pairs, n), 0);
	assert_int_equal(gt_gilfile_finish(f, GIL_END_STOPPED, 1, 0, NULL), 0);
	assert_int_equal(gil_reader_open_fd(fd, "meta.gil", &r, why, sizeof(why)), 0);
	return r;
}

static void expect_process(const char *const (*pairs)[2], size_t n, unsigned int copy,
			   const char *want)
{
	gil_reader *r = with_meta(pairs, n);
	char buf[GT_LABEL_PROCESS_MAX];

	gt_label_process(buf, r, "id", copy);
	assert_string_equal(buf, want);
	gil_reader_close(r);
}

static void process_labels(void **state)
{
	char text[1000];
	const char *const long_one[][2] = {{"process.cmdline", text}};
	static const char *const all[][2] = {{"process.comm", "python3"},
					     {"rank", "3"},
					     {"process.cmdline", "/opt/conda/bin/python3 a/b.py"},
					     {"process.title", "VLLM::Worker_TP3"}};

	(void)state;
	expect_process(NULL, 0, 1, "GIL Trace: id");
	expect_process(all, 1, 1, "GIL Trace: python3");
	expect_process(all, 2, 2, "GIL Trace: python3 (rank 3), pid id");
	expect_process(all, 3, 1, "GIL Trace: python3 a/b.py (rank 3)");
	expect_process(all, 4, 1, "GIL Trace: VLLM::Worker_TP3 (rank 3)");
	strcpy(text, "/");
	expect_process(long_one, 1, 1, "GIL Trace: /");
	strcpy(text, "/usr/bin/ x");
	expect_process(long_one, 1, 1, "GIL Trace: bin/ x");
	memset(text, 'x', 80);
	text[80] = '\0';
	expect_process(long_one, 1, 1,
		       "GIL Trace: "
		       "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		       "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
	strcpy(text + 75, "\xf0\x9f\x90\x8d zzzz"); /* its last byte is the first that goes */
	expect_process(long_one, 1, 1,
		       "GIL Trace: "
		       "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		       "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...");
}

static void process_tags(void **state)
{
	static const char *const none[][2] = {{"process.pid", "7"}, {"process.ns_pid", "7"}};
	static const char *const all[][2] = {
		{"process.pid", "4242"},
		{"process.ns_pid", "7"},
		{"npu.cards", "NPU 0 chip 0,NPU 0 chip 1"},
		{"process.container",
		 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}};
	static const char *const inside[][2] = {
		{"process.pid", "12"},
		{"process.ns_pid", "7"},
		{"process.host_pid", "4242"},
		{"host.name", "node-17"},
		{"process.container", "my-lxc-container-with-a-name-that-does-not-end"}};
	gil_reader *r = with_meta(none, 2);
	char buf[GT_LABEL_TAGS_MAX];

	(void)state;
	gt_label_tags(buf, r, GT_IDS_NAMESPACE);
	assert_string_equal(buf, "CPU");
	gil_reader_close(r);
	r = with_meta(all, 4);
	gt_label_tags(buf, r, GT_IDS_NAMESPACE);
	assert_string_equal(
		buf, "CPU, NPU 0 chip 0,NPU 0 chip 1, container 0123456789ab, host pid 4242");
	gt_label_tags(buf, r, GT_IDS_HOST);
	assert_string_equal(
		buf, "CPU, NPU 0 chip 0,NPU 0 chip 1, container 0123456789ab, namespace pid 7");
	gil_reader_close(r);
	r = with_meta(inside, 5);
	gt_label_tags(buf, r, GT_IDS_NAMESPACE);
	assert_string_equal(
		buf, "CPU, on node-17, container my-lxc-container-with-a-name-..., host pid 4242");
	gil_reader_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thread_labels),
		cmocka_unit_test(longest_thread_label),
		cmocka_unit_test(process_labels),
		cmocka_unit_test(process_tags),
	};

	return cmocka_run_group_tests_name("labels", tests, NULL, NULL);
}
