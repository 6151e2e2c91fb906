// SPDX-License-Identifier: Apache-2.0
/* The marks inside the report page: all of them, in the order of time, as far as there is room. */
#include "htmlfix.h"
#include "htmlread.h"

#define MARKS_MAX 50000 /* that a page keeps */
#define PAGE_MAX  20000000

struct marks {
	uint8_t *bytes;
	struct cursor at;
	char *meta, *told; /* from which on the numbers have not been asked for */
	size_t page_size;
};

static struct marks marks_open(const struct page *p)
{
	struct marks m;
	size_t size;
	char *text = read_all(p->fd, &m.page_size);

	m.bytes = blob_read(text, "gt-marks", &size);
	m.at = (struct cursor){m.bytes, m.bytes + size};
	m.meta = m.told = (char *)blob_read(text, "gt-meta", &size);
	free(text);
	return m;
}

/* Those of the next process, to be freed; how many the page says there were. */
static struct read_mark *marks_next(struct marks *m, uint64_t *n, unsigned long long *told)
{
	m->told = strstr(m->told, ",\"marks\":");
	assert_non_null(m->told);
	assert_int_equal(sscanf(m->told++, ",\"marks\":%llu", told), 1);
	return marks_read(&m->at, BASE_NS, n);
}

static void marks_close(struct marks *m)
{
	assert_ptr_equal(m->at.at, m->at.end);
	assert_null(strstr(m->told, ",\"marks\":"));
	free(m->bytes);
	free(m->meta);
}

static void is_mark(const struct read_mark *m, uint64_t at_ns, uint64_t tid, const char *name)
{
	assert_int_equal(m->at_ns, BASE_NS + at_ns);
	assert_int_equal(m->tid, tid);
	assert_int_equal(m->len, strlen(name));
	assert_memory_equal(m->name, name, m->len);
}

/* By time; equal ones as they came. One beyond the recording makes the page's time longer. */
static void test_order(void **state)
{
	unsigned long long told, end_ns;
	struct marks marks;
	struct read_mark *m;
	struct page p;
	uint64_t n;

	(void)state;
	page_open(&p, NULL);
	page_process(&p, 7, 0, "GIL Trace: a.py", BASE_NS + 50, BASE_NS + 1000);
	page_mark(&p, BASE_NS + 700, 7, "third");
	page_mark(&p, BASE_NS + 300, 0, "first of two");
	page_mark(&p, BASE_NS, 4000000000, "");
	page_mark(&p, BASE_NS + 300, 9, "second of two");
	page_process(&p, 8, 1, "GIL Trace: b.py", BASE_NS + 50, BASE_NS + 1000);
	page_process(&p, 9, 2, "GIL Trace: c.py", BASE_NS + 50, BASE_NS + 1000);
	page_mark(&p, BASE_NS + 5000, 0, "\xff is no letter");
	assert_return_code(page_finish(&p), 0);
	marks = marks_open(&p);
	m = marks_next(&marks, &n, &told);
	assert_true(n == 4 && told == 4);
	is_mark(&m[0], 0, 4000000000, "");
	is_mark(&m[1], 300, 0, "first of two");
	is_mark(&m[2], 300, 9, "second of two");
	is_mark(&m[3], 700, 7, "third");
	free(m);
	m = marks_next(&marks, &n, &told);
	assert_true(n == 0 && told == 0);
	free(m);
	m = marks_next(&marks, &n, &told);
	assert_true(n == 1 && told == 1);
	is_mark(m, 5000, 0, "\xff is no letter");
	free(m);
	assert_int_equal(sscanf(strstr(marks.meta, ",\"end\":"), ",\"end\":%llu", &end_ns), 1);
	assert_int_equal(end_ns, 5000);
	marks_close(&marks);
	close(p.fd);
}

/* Longer ones are cut, and what was read of the page is not more than what is kept. */
static void test_long_names(void **state)
{
	unsigned long long told;
	char name[4096];
	struct marks marks;
	struct read_mark *m;
	struct page p;
	uint64_t n;

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	page_open(&p, NULL);
	page_process(&p, 7, 0, "GIL Trace: a.py", BASE_NS, BASE_NS + 1000);
	page_mark(&p, BASE_NS, 0, name);
	name[127] = 0;
	page_mark(&p, BASE_NS + 1, 0, name);
	assert_return_code(page_finish(&p), 0);
	marks = marks_open(&p);
	m = marks_next(&marks, &n, &told);
	assert_int_equal(n, 2);
	is_mark(&m[0], 0, 0, name);
	is_mark(&m[1], 1, 0, name);
	free(m);
	marks_close(&marks);
	close(p.fd);
}

/*
 * The first ones stay: of a process with few all, of others their share at least. The last one gets
 * what is left over.
 */
static void test_many(void **state)
{
	static const uint64_t sets[] = {100000, 50, 30000, 100000};
	static const uint64_t kept[] = {MARKS_MAX / 4, 50, MARKS_MAX / 4, MARKS_MAX / 2 - 50};
	struct marks marks;
	struct page p;

	(void)state;
	page_open(&p, NULL);
	for (uint32_t k = 0; k < GT_ARRAY_SIZE(sets); k++) {
		page_process(&p, 100 + k, k, "GIL Trace: a.py", BASE_NS, BASE_NS + 1000);
		for (uint64_t i = 0; i < sets[k]; i++) {
			char name[32];

			snprintf(name, sizeof(name), "step %u.%llu", k, (unsigned long long)i);
			page_mark(&p, BASE_NS + 1000 * i, k, name);
		}
	}
	assert_return_code(page_finish(&p), 0);
	marks = marks_open(&p);
	for (uint32_t k = 0; k < GT_ARRAY_SIZE(sets); k++) {
		unsigned long long told;
		uint64_t n;
		struct read_mark *m = marks_next(&marks, &n, &told);

		assert_int_equal(told, sets[k]);
		assert_int_equal(n, kept[k]);
		for (uint64_t i = 0; i < n; i++) {
			char name[32];

			snprintf(name, sizeof(name), "step %u.%llu", k, (unsigned long long)i);
			is_mark(&m[i], 1000 * i, k, name);
		}
		free(m);
	}
	print_message("%u marks: page %zu bytes\n", MARKS_MAX, marks.page_size);
	marks_close(&marks);
	close(p.fd);
}

/* Marks with the longest names there are, which cannot be packed, beside as many slices as fit. */
static void test_worst(void **state)
{
	unsigned long long told;
	struct marks marks;
	struct page p;
	uint64_t n, seed = 1;
	struct crowd c = {.threads = 300,
			  .first_tid = 1000,
			  .start_ns = BASE_NS,
			  .slices = 1500000,
			  .long_hold_ns = 5000000,
			  .seed = 2};

	(void)state;
	page_open(&p, NULL);
	crowd_put(&p, &c, 0, "GIL Trace: a.py");
	page_process(&p, 7, 0, "GIL Trace: a.py", BASE_NS, BASE_NS + 1000);
	for (uint64_t i = 0; i < 100000; i++) {
		char name[128] = "";

		for (size_t at = 0; at < sizeof(name) - 1; at++)
			name[at] = (char)(1 + next_random(&seed) % 255);
		page_mark(&p, BASE_NS + (next_random(&seed) >> 8), (uint32_t)i, name);
	}
	assert_return_code(page_finish(&p), 0);
	marks = marks_open(&p);
	free(marks_next(&marks, &n, &told));
	assert_int_equal(n, 0);
	free(marks_next(&marks, &n, &told));
	assert_int_equal(n, MARKS_MAX);
	assert_int_equal(told, 100000);
	print_message("%d marks with names of noise: page %zu bytes\n", MARKS_MAX, marks.page_size);
	assert_true(marks.page_size < PAGE_MAX);
	marks_close(&marks);
	close(p.fd);
}

/* Names that try to be something else are nowhere in the page but packed, and then as they were. */
static void test_hostile(void **state)
{
	unsigned long long told;
	struct marks marks;
	struct read_mark *m;
	struct page p;
	char name[256];
	uint64_t n;

	(void)state;
	page_open(&p, NULL);
	put_hostile(&p);
	assert_return_code(page_finish(&p), 0);
	marks = marks_open(&p);
	m = marks_next(&marks, &n, &told);
	assert_int_equal(n, 2);
	snprintf(name, sizeof(name), HOSTILE "%c%c%cevil", 0xe2, 0x80, 0xae);
	is_mark(&m[0], 300, 7, name);
	is_mark(&m[1], 300, 0, "\x01\x7f \xff");
	free(m);
	marks_close(&marks);
	close(p.fd);
}

static void test_without_process(void **state)
{
	const struct gt_mark mark = {.at_ns = BASE_NS, .name = "early"};
	struct page p;

	(void)state;
	page_open(&p, NULL);
	assert_int_equal(p.sinks[1]->ops->mark(p.sinks[1], &mark), -EINVAL);
	assert_int_equal(page_finish(&p), -EINVAL);
	close(p.fd);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),   cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_many),    cmocka_unit_test(test_worst),
		cmocka_unit_test(test_hostile), cmocka_unit_test(test_without_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
