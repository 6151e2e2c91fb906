// SPDX-License-Identifier: Apache-2.0
/*
 * The report page: what of a recording it holds, and how large it may become. With GT_HTML_DIR in
 * the environment it tests nothing and writes pages for tests/browser into that folder instead.
 */
#include "htmlfix.h"

#include <sys/wait.h>

#include "htmlread.h"

#ifdef __SANITIZE_ADDRESS__
#define MANY 1500000 /* slices; the sanitizers take their time, and memory */
#else
#define MANY 10000000
#endif
#define PAGE_MAX   20000000
#define MEMORY_MAX (100u << 10) /* KiB */

static struct read_row *rows_read(const char *page, size_t n, size_t *left)
{
	size_t size;
	uint8_t *bytes = blob_read(page, "gt-slices", &size);
	struct cursor c = {bytes, bytes + size};
	struct read_row *rows = calloc(n + 1, sizeof(*rows));

	assert_non_null(rows);
	for (size_t i = 0; i < n; i++)
		rows[i] = row_read(&c, BASE_NS);
	*left = (size_t)(c.end - c.at);
	free(bytes);
	return rows;
}

static void rows_free(struct read_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(rows[i].slices);
	free(rows);
}

/* By itself: AddressSanitizer's strstr() looks at all of the text each time. */
static size_t times(const char *text, const char *what)
{
	size_t n = 0, len = strlen(what);

	for (; *text; text++)
		n += *text == *what && !strncmp(text, what, len);
	return n;
}

/* What is in the page is what was put in, kind by kind. */
static void same_sums(const struct page *p, const struct read_row *rows, size_t n)
{
	for (size_t k = 0; k < GT_SPAN_KINDS; k++) {
		uint64_t count = 0, ns = 0;

		for (size_t i = 0; i < n; i++) {
			count += rows[i].n[k];
			ns += rows[i].ns[k];
		}
		assert_int_equal(count, p->n[k]);
		assert_int_equal(ns, p->ns[k]);
	}
}

/* ---- few slices ---- */

static const struct gt_span few[] = {
	{.kind = GT_SPAN_HOLD,
	 .tid = 7,
	 .start_ns = BASE_NS,
	 .end_ns = BASE_NS + 500,
	 .open = GT_OPEN_START,
	 .forced = GT_FORCED_YES},
	{.kind = GT_SPAN_DROP,
	 .tid = 7,
	 .start_ns = BASE_NS + 500,
	 .end_ns = BASE_NS + 500,
	 .forced = GT_FORCED_YES},
	{.kind = GT_SPAN_TAKE,
	 .tid = 9,
	 .start_ns = BASE_NS + 100,
	 .end_ns = BASE_NS + 600,
	 .acquired = 1,
	 .wait = {.held_ns = 390,
		  .nobody_ns = 100,
		  .unknown_ns = 10,
		  .blocker_ns = 300,
		  .blocker = 7}},
	{.kind = GT_SPAN_HOLD,
	 .tid = 9,
	 .start_ns = BASE_NS + 600,
	 .end_ns = BASE_NS + 700,
	 .forced = GT_FORCED_NO,
	 .gil = 3},
	/* Not like its hold: it keeps a place of its own. */
	{.kind = GT_SPAN_DROP,
	 .tid = 9,
	 .start_ns = BASE_NS + 700,
	 .end_ns = BASE_NS + 700,
	 .forced = GT_FORCED_YES,
	 .gil = 3},
	{.kind = GT_SPAN_DROP, .tid = 9, .start_ns = BASE_NS + 710, .end_ns = BASE_NS + 790},
	{.kind = GT_SPAN_TAKE,
	 .tid = 9,
	 .start_ns = BASE_NS + 800,
	 .end_ns = BASE_NS + 1000,
	 .open = GT_OPEN_END | GT_OPEN_LOST,
	 .wait = {.held_ns = 200, .blocker = 8, .blocker_ns = 200}},
};

static void test_exact(void **state)
{
	struct page p;
	size_t size, left;
	char *text;
	struct read_row *rows;
	const struct read_slice *s;

	(void)state;
	page_open(&p, NULL);
	page_process(&p, 4711, 0, "GIL Trace: a.py", BASE_NS, BASE_NS + 1000);
	for (size_t i = 0; i < GT_ARRAY_SIZE(few); i++)
		page_span(&p, &few[i]);
	page_thread(&p, 7, "MainThread 7", 1000);
	page_thread(&p, 9, "worker 9", 1000);
	page_thread(&p, 11, "idle 11", 1000);
	assert_return_code(page_finish(&p), 0);
	text = read_all(p.fd, &size);
	rows = rows_read(text, 3, &left);
	assert_int_equal(left, 0);
	same_sums(&p, rows, 3);
	assert_int_equal(rows[0].n_slices, 1); /* the drop is part of it */
	s = &rows[0].slices[0];
	assert_true(s->drop && s->open == GT_OPEN_START && s->forced == GT_FORCED_YES);
	assert_int_equal(rows[1].n_slices, 5);
	s = rows[1].slices;
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(s[i].start_ns, few[i + 2].start_ns);
		assert_int_equal(s[i].start_ns + s[i].len_ns, few[i + 2].end_ns);
		assert_int_equal(s[i].kind, few[i + 2].kind);
		assert_int_equal(s[i].forced, few[i + 2].forced);
		assert_int_equal(s[i].open, few[i + 2].open);
		assert_int_equal(s[i].gil, few[i + 2].gil);
		assert_int_equal(s[i].acquired, few[i + 2].acquired);
		assert_int_equal(s[i].drop, 0);
	}
	assert_int_equal(s[0].blocker, 1); /* the first row */
	assert_int_equal(s[0].blocker_ns, 300);
	assert_int_equal(s[0].nobody_ns, 100);
	assert_int_equal(s[0].unknown_ns, 10);
	assert_int_equal(s[4].blocker, 4); /* none of the three rows */
	assert_int_equal(s[4].blocker_ns, 200);
	assert_int_equal(rows[2].n_slices + rows[2].n_cells, 0);
	rows_free(rows, 3);
	free(text);
	close(p.fd);
}

/* As many as may be exact are. */
static void test_exact_keeps_all(void **state)
{
	struct page p;
	struct crowd c = {.threads = 16,
			  .first_tid = 100,
			  .start_ns = BASE_NS,
			  .slices = 400000,
			  .long_hold_ns = 5000000,
			  .seed = 1};
	size_t size, left;
	uint64_t slices = 0;
	struct read_row *rows;
	char *text;

	(void)state;
	page_open(&p, NULL);
	crowd_put(&p, &c, 0, "GIL Trace: a.py");
	assert_return_code(page_finish(&p), 0);
	text = read_all(p.fd, &size);
	rows = rows_read(text, 16, &left);
	assert_int_equal(left, 0);
	same_sums(&p, rows, 16);
	for (size_t i = 0; i < 16; i++) {
		assert_int_equal(rows[i].n_cells, 0);
		slices += rows[i].n_slices;
		for (uint64_t k = 0; k < rows[i].n_slices; k++)
			slices += rows[i].slices[k].drop;
	}
	assert_int_equal(slices, p.n[0] + p.n[1] + p.n[2]);
	rows_free(rows, 16);
	free(text);
	close(p.fd);
}

/* ---- many ---- */

static long peak_kib(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[128];
	long kib = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmHWM: %ld", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

/* In a child, whose memory nobody else has used before. */
static long make_many(struct page *p, uint32_t threads)
{
	struct crowd c = {.threads = threads,
			  .first_tid = 100,
			  .start_ns = BASE_NS,
			  .slices = MANY,
			  .long_hold_ns = 5000000,
			  .seed = 2};

	crowd_put(p, &c, 0, "GIL Trace: a.py");
	assert_return_code(page_finish(p), 0);
	return peak_kib();
}

static void check_many(uint32_t threads)
{
	struct shared {
		struct page p;
		long kib;
	} *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			 -1, 0);
	size_t size, left, items = 0, exact = 0;
	struct read_row *rows;
	struct stat st;
	char *text;
	int status, fd;
	pid_t pid;

	assert_true(shared != MAP_FAILED);
	fd = memfd_create("page", 0);
	pid = fork();
	if (!pid) {
		page_begin(&shared->p, fd);
		shared->kib = make_many(&shared->p, threads);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_return_code(fstat(fd, &st), 0);
	text = read_all(fd, &size);
	rows = rows_read(text, threads, &left);
	assert_int_equal(left, 0);
	same_sums(&shared->p, rows, threads);
	for (size_t i = 0; i < threads; i++) {
		items += rows[i].n_slices + rows[i].n_cells;
		exact += rows[i].n_slices;
	}
	print_message("%u threads, %u slices: page %ld bytes, memory %ld KiB, %zu exact slices, "
		      "%zu cells\n",
		      threads, MANY, (long)st.st_size, shared->kib, exact, items - exact);
	assert_true(st.st_size < PAGE_MAX);
#ifndef __SANITIZE_ADDRESS__
	assert_true(shared->kib < MEMORY_MAX);
#endif
	/* What room there is, is used. */
	assert_in_range(items, (512u << 10) / 3, 512u << 10);
	rows_free(rows, threads);
	free(text);
	close(fd);
	munmap(shared, sizeof(*shared));
}

static void test_many_16(void **state)
{
	(void)state;
	check_many(16);
}

static void test_many_300(void **state)
{
	(void)state;
	check_many(300);
}

/* More threads than there may be rows: they are told of in numbers. */
static void test_too_many_threads(void **state)
{
	enum { THREADS = 40000, ROWS = 16384 };
	struct page p;
	size_t size, left;
	struct read_row *rows;
	char *text, *meta;
	const char *rest;
	unsigned long long n, takes, take_ns;

	(void)state;
	page_open(&p, NULL);
	page_process(&p, 1, 0, "GIL Trace: a.py", BASE_NS, BASE_NS + 1000000);
	for (uint32_t i = 0; i < THREADS; i++) {
		struct gt_span s = few[2];

		s.tid = 1000 + i;
		s.start_ns += (uint64_t)i * 500;
		s.end_ns += (uint64_t)i * 500;
		page_span(&p, &s);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		page_thread(&p, 1000 + i, "t", 1000);
	assert_return_code(page_finish(&p), 0);
	text = read_all(p.fd, &size);
	rows = rows_read(text, ROWS, &left);
	assert_int_equal(left, 0);
	meta = (char *)blob_read(text, "gt-meta", &size);
	rest = strstr(meta, "\"rest\":");
	assert_non_null(rest);
	assert_int_equal(sscanf(rest, "\"rest\":{\"rows\":%llu,\"take\":%llu,\"take_ns\":%llu", &n,
				&takes, &take_ns),
			 3);
	assert_int_equal(n, THREADS - ROWS);
	p.n[0] -= takes;
	p.ns[0] -= take_ns;
	assert_int_equal(takes, THREADS - ROWS);
	same_sums(&p, rows, ROWS);
	rows_free(rows, ROWS);
	free(meta);
	free(text);
	close(p.fd);
}

/* Of more pairs than there is room for, the greatest stay, and all between those of the table. */
static void test_many_pairs(void **state)
{
	enum { THREADS = 600, VICTIM = 5, BLOCKER = 7 };
	struct page p;
	size_t size;
	char *text, *json;

	(void)state;
	page_open(&p, NULL);
	page_process(&p, 1000, 0, "GIL Trace: a.py", BASE_NS, BASE_NS + 1000000);
	for (uint32_t i = 0; i < THREADS; i++)
		page_thread(&p, 1000 + i, "t", 1000000);
	for (uint32_t i = 0; i < THREADS; i++)
		for (uint32_t k = 0; k < THREADS; k++) {
			struct gt_pair pair = {.victim = 1000 + i,
					       .blocker = 1000 + k,
					       .ns = 100 + i + k,
					       .waits = 1};

			if (i == VICTIM || k == BLOCKER)
				pair.ns = 1000000;
			if ((i == VICTIM || i == VICTIM + 1) && (k == BLOCKER || k == BLOCKER + 1))
				pair.ns = 1;
			EACH(&p, pair, &pair);
		}
	EACH(&p, end, &(struct gt_sink_end){.threads = THREADS});
	assert_return_code(page_finish(&p), 0);
	text = read_all(p.fd, &size);
	json = (char *)blob_read(text, "gt-summary", &size);
	assert_in_range(times(json, "\"victim\":"), 200000, 201000);
	assert_non_null(strstr(json, "\"victim\":1005,\"blocker\":1007,"));
	assert_null(strstr(json, "\"victim\":1006,\"blocker\":1008,"));
	free(json);
	free(text);
	close(p.fd);
}

/* ---- losses, names, errors ---- */

/* The sums of merged gaps of one kind; how many entries there are. */
struct losses {
	unsigned long long n, count, missing, gaps;
};

static void losses_read(const struct page *p, struct losses of[2])
{
	size_t size;
	char *text = read_all(p->fd, &size), *meta = (char *)blob_read(text, "gt-meta", &size);
	char *line = strstr(meta, "\"losses\":["), *rest = NULL;

	memset(of, 0, 2 * sizeof(*of));
	assert_non_null(line);
	/* One gap a line. */
	for (line = strtok_r(line, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		const char *at = strstr(line, "\"count\":");
		unsigned long long count, missing, merged, late, paused;

		assert_non_null(at);
		assert_int_equal(sscanf(at,
					"\"count\":%llu,\"missing\":%llu,\"merged\":%llu,"
					"\"late\":%llu,\"paused\":%llu",
					&count, &missing, &merged, &late, &paused),
				 5);
		assert_in_range(paused, 0, 1);
		of[paused].n++;
		of[paused].count += count;
		of[paused].missing += missing;
		of[paused].gaps += merged;
	}
	free(meta);
	free(text);
}

static void test_gaps(void **state)
{
	enum { GAPS = 60000 };
	struct losses of[2];
	struct page p;

	(void)state;
	page_open(&p, NULL);
	page_process(&p, 1, 0, "GIL Trace: a.py", BASE_NS, BASE_NS + 1000000);
	for (uint64_t i = 0; i < GAPS; i++) {
		const struct gt_gap gap = {.begin_ns = BASE_NS + i * 50000,
					   .end_ns = BASE_NS + i * 50000 + 70,
					   .count = 3};

		EACH(&p, gap, &gap);
	}
	assert_return_code(page_finish(&p), 0);
	losses_read(&p, of);
	assert_int_equal(of[0].gaps, GAPS);
	assert_int_equal(of[0].count, 3 * GAPS);
	assert_int_equal(of[0].missing, 70 * GAPS);
	assert_in_range(of[0].n, 4096, 16384);
	assert_int_equal(of[1].n, 0);
	close(p.fd);
}

/* Pauses stay apart from losses, one by one as well as when there are too many of both in turns. */
static void test_pauses(void **state)
{
	static const uint64_t rounds[] = {2, 60000};

	(void)state;
	for (size_t k = 0; k < GT_ARRAY_SIZE(rounds); k++) {
		uint64_t n = rounds[k];
		const struct gt_sink_end end = {.gaps = n, .lost = n, .paused_ns = 90 * n};
		struct losses of[2];
		struct page p;
		size_t size;
		char *text, *meta;

		page_open(&p, NULL);
		page_process(&p, 1, 0, "GIL Trace: a.py", BASE_NS, BASE_NS + n * 50000);
		for (uint64_t i = 0; i < n; i++) {
			uint64_t at_ns = BASE_NS + i * 50000;
			const struct gt_gap gap = {
				.begin_ns = at_ns + 100, .end_ns = at_ns + 170, .count = 1};

			page_pause(&p, at_ns, at_ns + 90);
			EACH(&p, gap, &gap);
		}
		EACH(&p, end, &end);
		assert_return_code(page_finish(&p), 0);
		losses_read(&p, of);
		assert_int_equal(of[0].gaps, n);
		assert_int_equal(of[0].count, n);
		assert_int_equal(of[0].missing, 70 * n);
		assert_int_equal(of[1].gaps, n);
		assert_int_equal(of[1].count, 0);
		assert_int_equal(of[1].missing, 90 * n);
		if (n == 2)
			assert_true(of[0].n == 2 && of[1].n == 2);
		assert_in_range(of[0].n + of[1].n, n < 4096 ? n : 4096, 16384);
		text = read_all(p.fd, &size);
		meta = (char *)blob_read(text, "gt-meta", &size);
		assert_non_null(
			strstr(meta, n == 2 ? "\"paused_ns\":180," : "\"paused_ns\":5400000,"));
		free(meta);
		free(text);
		close(p.fd);
	}
}

/* The page around the data is the same as without any, and the data are base64 (blob_read()). */
static void test_hostile_names(void **state)
{
	struct page plain, hostile;
	size_t size;
	char *a, *b, *meta;

	(void)state;
	page_open(&plain, NULL);
	assert_return_code(page_finish(&plain), 0);
	a = read_all(plain.fd, &size);
	page_open(&hostile, NULL);
	put_hostile(&hostile);
	assert_return_code(page_finish(&hostile), 0);
	b = read_all(hostile.fd, &size);
	assert_int_equal(strlen(b), size); /* no NUL */
	assert_null(strstr(b, "alert(1)"));
	assert_null(strstr(b, "evil"));
	assert_int_equal(times(a, "<script"), times(b, "<script"));
	assert_int_equal(times(a, "</script"), times(b, "</script"));
	meta = (char *)blob_read(b, "gt-meta", &size);
	assert_int_equal(times(meta, "evil"), 8);
	for (size_t i = 0; i < size; i++)
		assert_true((unsigned char)meta[i] >= 0x20 || meta[i] == '\n');
	free(meta);
	meta = (char *)blob_read(b, "gt-summary", &size);
	assert_true(size > 10 && meta[0] == '{');
	free(meta);
	free(a);
	free(b);
	close(plain.fd);
	close(hostile.fd);
}

static void test_full_disk(void **state)
{
	struct page p;
	struct crowd c = {.threads = 3,
			  .first_tid = 100,
			  .start_ns = BASE_NS,
			  .slices = 300000,
			  .long_hold_ns = 5000000,
			  .seed = 1};

	(void)state;
	page_open(&p, "/dev/full");
	crowd_put(&p, &c, 0, "GIL Trace: a.py");
	assert_int_equal(page_finish(&p), -ENOSPC);
	close(p.fd);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_exact_keeps_all),
		cmocka_unit_test(test_many_16),
		cmocka_unit_test(test_many_300),
		cmocka_unit_test(test_too_many_threads),
		cmocka_unit_test(test_many_pairs),
		cmocka_unit_test(test_gaps),
		cmocka_unit_test(test_pauses),
		cmocka_unit_test(test_hostile_names),
		cmocka_unit_test(test_full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
