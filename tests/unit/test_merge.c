// SPDX-License-Identifier: Apache-2.0
#include "jsonfix.h"

#include <cjson/cJSON.h>
#include <glob.h>
#include <inttypes.h>
#include <sys/resource.h>

#include "merge.h"

static const char ours[] =
	"{\"name\":\"take_gil\",\"ph\":\"X\"},\n{\"name\":\"hold_gil\",\"ph\":\"X\"}";

struct fragment {
	struct gt_jsonw *w;
	const char *text; /* NULL: none */
	int rc;
	int (*then)(void);
};

static int write_fragment(void *ctx, int *any)
{
	struct fragment *f = ctx;

	assert_int_equal(*any, 0);
	if (f->text) {
		gt_jsonw_raw(f->w, f->text, strlen(f->text));
		*any = 1;
	}
	if (f->then)
		assert_int_equal(f->then(), 0);
	return f->rc;
}

static char why[512];

static int merge_fd(int fd, int out, int gzip_out, struct fragment f)
{
	struct gt_proftrace t;
	struct gt_jsonw w;
	char path[32];
	int rc;

	assert_int_equal(gt_proftrace_read(fd_path(fd, path), &t, why, sizeof(why)), 0);
	assert_int_equal(gt_jsonw_init(&w, out, gzip_out), 0);
	f.w = &w;
	rc = gt_merge(path, &t, &w, write_fragment, &f, why, sizeof(why));
	if (!rc)
		rc = gt_jsonw_flush(&w);
	gt_jsonw_fini(&w);
	gt_proftrace_fini(&t);
	return rc;
}

/* The text with the fragment in it; free() it. */
static char *merged(const void *text, size_t text_len, const char *fragment, size_t *len)
{
	gt_autoclose int fd = text_fd(text, text_len), out = text_fd("", 0);
	struct fragment f = {.text = fragment};

	assert_int_equal(merge_fd(fd, out, 0, f), 0);
	assert_string_equal(why, "");
	return fd_text(out, len);
}

static char *merged_text(const char *text, const char *fragment)
{
	return merged(text, strlen(text), fragment, NULL);
}

static cJSON *events_of(cJSON *root)
{
	return cJSON_IsObject(root) ? cJSON_GetObjectItemCaseSensitive(root, "traceEvents") : root;
}

static cJSON *parse(const char *text)
{
	cJSON *root = cJSON_ParseWithOpts(text, NULL, 1);

	if (!root)
		fail_msg("no JSON: %s", text);
	return root;
}

/* The result is the text, byte by byte, but for what was put behind the "[" at this offset. */
static void check_whole(const char *text)
{
	size_t len = strlen(text), at = (size_t)(strchr(text, '[') - text) + 1, got_len;
	gt_autofree char *got = merged(text, len, ours, &got_len);
	gt_autofree char *same = merged(text, len, NULL, NULL);
	cJSON *old = parse(text), *new = parse(got);
	int n = cJSON_GetArraySize(events_of(old));
	size_t in = sizeof(ours) - 1 + (n > 0);

	assert_string_equal(same, text);
	assert_int_equal(got_len, len + in);
	assert_memory_equal(got, text, at);
	assert_memory_equal(got + at, ours, sizeof(ours) - 1);
	assert_string_equal(got + at + in, text + at);
	assert_int_equal(cJSON_GetArraySize(events_of(new)), n + 2);
	assert_string_equal(
		cJSON_GetObjectItem(cJSON_GetArrayItem(events_of(new), 0), "name")->valuestring,
		"take_gil");
	cJSON_DeleteItemFromArray(events_of(new), 0);
	cJSON_DeleteItemFromArray(events_of(new), 0);
	assert_true(cJSON_Compare(old, new, 1));
	cJSON_Delete(old);
	cJSON_Delete(new);
}

static const char array[] =
	" [ {\"name\": \"a\\u00e4[{\", \"ts\": \"1.5\", \"ph\": \"X\"},\n"
	"{\"ph\": \"X\", \"args\": {\"traceEvents\": [1, {}]}}, {\"ph\": \"i\"} ]\n\n";
static const char object[] = "{\"schemaVersion\": 1, \"traceEvents\" : [\n"
			     "{\"ph\": \"X\", \"ts\": 1.5},{\"ph\": \"i\", \"ts\": 3}\n],\n"
			     "\"baseTimeNanoseconds\": 5, \"traceName\": \"]}\"\n} ";

static void test_whole(void **state)
{
	(void)state;
	check_whole(array);
	check_whole(object);
	check_whole("[]");
	check_whole("\n[ \n]\n");
	check_whole("{\"traceEvents\":[],\"displayTimeUnit\":\"ms\"}");
	check_whole("{\"a\":{\"b\":1},\"traceEvents\":[{}]}");
	check_whole("[null]");
}

/*
 * Wherever the trace is cut: JSON, with ours and all events that were whole, and nothing else. A
 * few bytes may be missing that would only be white space.
 */
static void check_cut(const char *text)
{
	cJSON *all = parse(text);
	int max = cJSON_GetArraySize(events_of(all)), most = 0;

	for (size_t n = (size_t)(strchr(text, '[') - text) + 1; n < strlen(text); n++) {
		gt_autofree char *got = merged(text, n, ours, NULL);
		cJSON *root = parse(got);
		int i = 0, events = cJSON_GetArraySize(events_of(root)) - 2;

		assert_in_range(events, most, max);
		assert_int_equal(cJSON_IsObject(root), cJSON_IsObject(all));
		for (; i < events; i++)
			assert_true(cJSON_Compare(cJSON_GetArrayItem(events_of(root), i + 2),
						  cJSON_GetArrayItem(events_of(all), i), 1));
		most = events;
		cJSON_Delete(root);
	}
	assert_int_equal(most, max);
	cJSON_Delete(all);
}

static void test_cut(void **state)
{
	gt_autofree char *none = NULL, *half = NULL, *behind = NULL;

	(void)state;
	check_cut(array);
	check_cut(object);
	none = merged_text("[{\"ph\":", NULL);
	assert_string_equal(none, "[]");
	half = merged_text("{\"traceEvents\":[{\"ph\":\"X\"},{\"ph\"", "{}");
	assert_string_equal(half, "{\"traceEvents\":[{},{\"ph\":\"X\"}]}");
	behind = merged_text("{\"traceEvents\":[],\"a\":1,\"b", NULL);
	assert_string_equal(behind, "{\"traceEvents\":[],\"a\":1}");
}

/* From a compressed file, whole or cut, and to one. */
static void test_gzip(void **state)
{
	size_t len, n;
	gt_autofree void *packed = gzip(object, sizeof(object) - 1, &len);
	gt_autofree char *plain = merged(object, sizeof(object) - 1, ours, NULL);
	gt_autofree char *got = merged(packed, len, ours, &n);
	gt_autofree char *cut = merged(packed, len - 30, ours, NULL);
	gt_autoclose int fd = text_fd(object, sizeof(object) - 1), out = text_fd("", 0);
	struct fragment f = {.text = ours};
	char text[1024] = "";
	gzFile gz;

	(void)state;
	assert_string_equal(got, plain);
	cJSON_Delete(parse(cut));
	assert_true(strlen(cut) < n);
	assert_int_equal(merge_fd(fd, out, 1, f), 0);
	assert_int_equal(lseek(out, 0, SEEK_SET), 0);
	gz = gzdopen(dup(out), "rb");
	assert_non_null(gz);
	assert_int_equal(gzread(gz, text, sizeof(text) - 1), (int)n);
	assert_false(gzdirect(gz));
	gzclose_r(gz);
	assert_string_equal(text, plain);
}

static void test_errors(void **state)
{
	gt_autoclose int fd = text_fd(array, sizeof(array) - 1), out = text_fd("", 0);
	gt_autoclose int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct fragment f = {.text = ours, .rc = -ECANCELED};
	struct gt_proftrace t;
	struct gt_jsonw w;

	(void)state;
	assert_int_equal(merge_fd(fd, out, 0, f), -ECANCELED);
	assert_string_equal(why, "");
	f.rc = 0;
	assert_int_equal(merge_fd(fd, full, 0, f), -ENOSPC);
	assert_string_equal(why, "");
	/* Not there at all. */
	memset(&t, 0, sizeof(t));
	assert_int_equal(gt_jsonw_init(&w, out, 0), 0);
	assert_int_equal(gt_merge("/nonexistent/x", &t, &w, write_fragment, &f, why, sizeof(why)),
			 -ENOENT);
	assert_string_equal(why, strerror(ENOENT));
	gt_jsonw_fini(&w);
}

/* As if it had been whole when its facts were read. */
static int merge_as(const void *data, size_t len, uint64_t size)
{
	gt_autoclose int fd = text_fd(data, len), out = text_fd("", 0);
	struct gt_proftrace t = {.array_offset = 1, .size = size, .any = 1};
	struct fragment f = {.text = ours};
	struct gt_jsonw w;
	char path[32];
	int rc, opened;

	opened = gt_file_open(fd_path(fd, path), &t.file, why, sizeof(why));
	assert_true(opened >= 0);
	close(opened);
	assert_int_equal(gt_jsonw_init(&w, out, 0), 0);
	f.w = &w;
	rc = gt_merge(path, &t, &w, write_fragment, &f, why, sizeof(why));
	gt_jsonw_fini(&w);
	return rc;
}

static void test_damaged(void **state)
{
	size_t len;
	gt_autofree uint8_t *packed = gzip(object, sizeof(object) - 1, &len);

	(void)state;
	assert_int_equal(merge_as(packed, len, sizeof(object) - 1), 0);
	assert_int_equal(merge_as(packed, len, sizeof(object)), -ESTALE); /* shorter than it was */
	packed[12] ^= 0x55;
	assert_int_equal(merge_as(packed, len, sizeof(object) - 1), -EBADMSG);
	assert_non_null(strstr(why, "the compressed data are damaged ("));
	assert_null(strchr(why, '<'));
}

static int changing_fd;

static int append_to_it(void)
{
	return pwrite(changing_fd, "  ", 2, lseek(changing_fd, 0, SEEK_END)) == 2 ? 0 : -1;
}

static int shorten_it(void)
{
	return ftruncate(changing_fd, 20);
}

static void test_changing(void **state)
{
	gt_autoclose int fd = text_fd(array, sizeof(array) - 1), out = text_fd("", 0);
	struct fragment f = {.text = ours, .then = append_to_it};
	struct gt_proftrace t;
	struct gt_jsonw w;
	char path[32];

	(void)state;
	changing_fd = fd;
	assert_int_equal(merge_fd(fd, out, 0, f), -ESTALE);
	assert_non_null(strstr(why, "has changed"));
	f.then = shorten_it;
	assert_int_equal(merge_fd(fd, out, 0, f), -ESTALE);
	/* Between the two. */
	assert_int_equal(pwrite(fd, array, sizeof(array) - 1, 0), sizeof(array) - 1);
	assert_int_equal(gt_proftrace_read(fd_path(fd, path), &t, why, sizeof(why)), 0);
	assert_int_equal(append_to_it(), 0);
	assert_int_equal(gt_jsonw_init(&w, out, 0), 0);
	f.w = &w;
	f.then = NULL;
	assert_int_equal(gt_merge(path, &t, &w, write_fragment, &f, why, sizeof(why)), -ESTALE);
	assert_int_equal(gt_jsonw_bytes(&w), 0);
	gt_jsonw_fini(&w);
	gt_proftrace_fini(&t);
}

static long max_rss_kib(void)
{
	struct rusage u;

	assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
	return u.ru_maxrss;
}

/* 48 MiB through a few MiB of memory; every byte arrives. */
static void test_large(void **state)
{
	enum { CHUNK = 1 << 20, CHUNKS = 48, ADDED = 1 + sizeof(ours) - 1 + 1 };
	gt_autoclose int fd = text_fd("[", 1), out = text_fd("", 0);
	gt_autofree char *chunk = malloc(CHUNK + 1), *got = malloc(CHUNK);
	struct fragment f = {.text = ours};
	size_t used = 0;
	long before;

	(void)state;
	assert_true(chunk && got);
	while (CHUNK - used > 200)
		used += (size_t)sprintf(
			chunk + used,
			"{\"ph\": \"X\", \"name\": \"%zu\", \"ts\": \"173640544386%zu.400\","
			" \"args\": {\"a\": \"]}\\\\\\\"\"}},",
			used, 1000 + used);
	memset(chunk + used, ' ', CHUNK - used);
	for (int i = 0; i < CHUNKS; i++) {
		if (i == CHUNKS - 1)
			chunk[used - 1] = ']';
		assert_int_equal(pwrite(fd, chunk, CHUNK, 1 + (off_t)i * CHUNK), CHUNK);
	}
	before = max_rss_kib();
	assert_int_equal(merge_fd(fd, out, 0, f), 0);
	assert_true(max_rss_kib() - before < 8 << 10);
	assert_int_equal(lseek(out, 0, SEEK_END), (off_t)CHUNKS * CHUNK + ADDED);
	chunk[used - 1] = ',';
	for (int i = 0; i < CHUNKS; i++) {
		if (i == CHUNKS - 1)
			chunk[used - 1] = ']';
		assert_int_equal(pread(out, got, CHUNK, ADDED + (off_t)i * CHUNK), CHUNK);
		assert_memory_equal(got, chunk, CHUNK);
	}
}

/* ---- real traces, where there are any: GT_SAMPLES_DIR ---- */

static void check_sample(const char *path)
{
	gt_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	gt_autofree char *text = fd_text(fd, NULL);
	struct gt_proftrace t;

	assert_int_equal(gt_proftrace_read(path, &t, why, sizeof(why)), 0);
	assert_int_equal(t.npython, 1);
	assert_int_equal(t.python[0], t.msprof_pid);
	assert_true(t.nthreads > 1 && t.events > 1000 && !t.untimed && !t.odd && !t.cut);
	assert_false(t.relative);
	print_message("%s: %" PRIu64 " events, pid %" PRIu64 ", %" PRId64 " .. %" PRId64 "\n", path,
		      t.events, t.python[0], t.begin_ns, t.end_ns);
	gt_proftrace_fini(&t);
	check_whole(text);
}

static void test_samples(void **state)
{
	const char *dir = getenv("GT_SAMPLES_DIR");
	char pattern[4096];
	glob_t found;

	(void)state;
	if (!dir)
		skip();
	snprintf(pattern, sizeof(pattern), "%s/*/*/*/trace_view.json", dir);
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++)
		check_sample(found.gl_pathv[i]);
	globfree(&found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_large), /* first: memory is measured by its high-water mark */
		cmocka_unit_test(test_whole),   cmocka_unit_test(test_cut),
		cmocka_unit_test(test_gzip),    cmocka_unit_test(test_errors),
		cmocka_unit_test(test_damaged), cmocka_unit_test(test_changing),
		cmocka_unit_test(test_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
