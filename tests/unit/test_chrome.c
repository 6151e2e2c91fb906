// SPDX-License-Identifier: Apache-2.0
#include "sinkfix.h"

#include <cjson/cJSON.h>
#include <sys/mman.h>

#include "sink_chrome.h"

static struct gt_jsonw w;
static char text[1 << 16]; /* what was written */

static struct gt_sink *make(const struct gt_chrome_opts *opts)
{
	int fd = memfd_create("chrome", MFD_CLOEXEC);
	struct gt_sink *s;

	assert_true(fd >= 0);
	assert_int_equal(gt_jsonw_init(&w, fd, 0), 0);
	assert_int_equal(gt_chrome_create(&w, opts, &s), 0);
	return s;
}

static const char *finish(struct gt_sink *s)
{
	ssize_t n;

	assert_int_equal(s->ops->finish(s), 0);
	n = pread(w.fd, text, sizeof(text) - 1, 0);
	assert_true(n >= 0);
	text[n] = '\0';
	close(w.fd);
	gt_jsonw_fini(&w);
	return text;
}

/* The events of a whole trace; "ph" is the last key of each. */
static cJSON *parse(const char *json)
{
	cJSON *events = cJSON_Parse(json), *e;

	assert_non_null(events);
	assert_true(cJSON_IsArray(events));
	cJSON_ArrayForEach(e, events)
	{
		const cJSON *last = e->child;

		while (last->next)
			last = last->next;
		assert_string_equal(last->string, "ph");
	}
	return events;
}

static cJSON *parse_fragment(const char *json)
{
	char *array = malloc(strlen(json) + 3);
	cJSON *events;

	assert_non_null(array);
	sprintf(array, "[%s]", json);
	events = parse(array);
	free(array);
	return events;
}

/* The line of the n'th event of that name, without a comma. */
static const char *line_of(const char *name, int n)
{
	static char line[512];
	char head[64];
	const char *at = text;
	size_t len;

	snprintf(head, sizeof(head), "{\"name\":\"%s\",\"", name);
	for (at = strstr(at, head); at && n; n--)
		at = strstr(at + 1, head);
	assert_non_null(at);
	if (!at)
		return "";
	len = strcspn(at, "\n");
	if (at[len - 1] == ',')
		len--;
	snprintf(line, sizeof(line), "%.*s", (int)len, at);
	return line;
}

static void test_process_and_threads(void **state)
{
	const struct gt_chrome_opts o = {0};
	struct gt_sink *s = make(&o);

	(void)state;
	assert_false(gt_chrome_any(s));
	assert_int_equal(tell_process_at(s, 7, 1000, 9000), 0);
	assert_true(gt_chrome_any(s));
	assert_int_equal(tell_thread(s, 9, "a\"\n\xff"), 0);
	assert_int_equal(tell_end(s, NULL), 0);
	assert_string_equal(
		finish(s),
		"[\n"
		"{\"name\":\"process_name\",\"pid\":7,\"tid\":0,\"args\":{\"name\":\"name\"},"
		"\"ph\":\"M\"},\n"
		"{\"name\":\"process_labels\",\"pid\":7,\"tid\":0,\"args\":{\"labels\":\"CPU\"},"
		"\"ph\":\"M\"},\n"
		"{\"name\":\"process_sort_index\",\"pid\":7,\"tid\":0,\"args\":{\"sort_index\":0},"
		"\"ph\":\"M\"},\n"
		"{\"name\":\"thread_name\",\"pid\":7,\"tid\":9,\"args\":{\"name\":"
		"\"a\\\"\\n\xef\xbf\xbd\"},\"ph\":\"M\"},\n"
		"{\"name\":\"thread_sort_index\",\"pid\":7,\"tid\":9,\"args\":{\"sort_index\":2},"
		"\"ph\":\"M\"}\n"
		"]\n");
	cJSON_Delete(parse(text));
}

static void test_nothing(void **state)
{
	const struct gt_chrome_opts o = {0};

	(void)state;
	assert_string_equal(finish(make(&o)), "");
}

/* The parts of a wait are written where they are something, in strings that keep nanoseconds. */
static void test_blame(void **state)
{
	const struct gt_chrome_opts o = {0};
	struct gt_sink *s = make(&o);
	struct gt_span take = make_span("take 9 1700000000000001500-1700000000000013500.acquired");

	(void)state;
	assert_int_equal(tell_process_at(s, 7, 1, 9000), 0);
	take.wait = (struct gt_wait){.held_ns = 10001, .blocker_ns = 9001, .blocker = 8};
	take.wait.nobody_ns = 1000;
	take.wait.unknown_ns = 999;
	assert_int_equal(s->ops->span(s, &take), 0);
	take.start_ns = take.end_ns;
	take.wait = (struct gt_wait){0};
	assert_int_equal(s->ops->span(s, &take), 0);
	finish(s);
	assert_string_equal(line_of("take_gil", 0),
			    "{\"name\":\"take_gil\",\"pid\":7,\"tid\":9,\"ts\":"
			    "\"1700000000000001.500\",\"dur\":\"12.000\",\"args\":{\"gil\":0,"
			    "\"blocker\":8,\"blocker_us\":\"9.001\",\"held_us\":\"10.001\","
			    "\"nobody_us\":\"1.000\",\"unknown_us\":\"0.999\"},\"ph\":\"X\"}");
	assert_string_equal(line_of("take_gil", 1),
			    "{\"name\":\"take_gil\",\"pid\":7,\"tid\":9,\"ts\":"
			    "\"1700000000000013.500\",\"dur\":\"0.000\",\"args\":{\"gil\":0},"
			    "\"ph\":\"X\"}");
	cJSON_Delete(parse(text));
}

/* The longest that can be fits into the room that is asked for. */
static void test_longest_slice(void **state)
{
	const struct gt_chrome_opts o = {.tid_base = UINT32_MAX, .inline_rows = 1};
	struct gt_sink *s = make(&o);
	struct gt_span take = {.start_ns = 1,
			       .end_ns = UINT64_MAX,
			       .tid = UINT32_MAX,
			       .open = 0xff,
			       .forced = GT_FORCED_NO,
			       .gil = GIL_INDEX_OTHER};

	(void)state;
	assert_int_equal(tell_process_at(s, UINT64_MAX, 1, 9), 0);
	take.wait = (struct gt_wait){UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
				     UINT32_MAX, 0,          0,          0};
	for (int i = 0; i < 10; i++)
		assert_int_equal(s->ops->span(s, &take), 0);
	assert_true(strlen(finish(s)) < 10 * 512);
	cJSON_Delete(parse(text));
}

static void test_clipped(void **state)
{
	const struct gt_chrome_opts o = {0};
	struct gt_sink *s = make(&o);
	struct gt_span hold = make_span("hold 9 1000-3000");

	(void)state;
	assert_int_equal(tell_process_at(s, 7, 1, 9000), 0);
	hold.open = GT_OPEN_START | GT_OPEN_CLIPPED;
	assert_int_equal(s->ops->span(s, &hold), 0);
	finish(s);
	assert_non_null(strstr(line_of("hold_gil", 0), ",\"open\":\"start+clipped\"}"));
}

/* No time is 0 or negative, whatever the base is; durations stay. */
static void test_base(void **state)
{
	const struct gt_chrome_opts o = {.base_ns = 1999};
	struct gt_sink *s = make(&o);

	(void)state;
	assert_int_equal(tell_process_at(s, 7, 2000, 9000), 0);
	assert_int_equal(tell_span(s, "hold 9 2000-3500"), 0);
	assert_int_equal(tell_gap(s, 100, 4999), 0);
	finish(s);
	assert_non_null(
		strstr(line_of("process_labels", 0), "\"CPU, ts 0 is Unix time 1.999 us\""));
	assert_non_null(strstr(line_of("hold_gil", 0), "\"ts\":\"0.001\",\"dur\":\"1.500\""));
	assert_non_null(strstr(line_of("lost events", 0),
			       "\"ts\":\"0.001\",\"args\":{\"count\":3,\"dur\":\"2.999\",\"end\":"
			       "\"3.000\"}"));
	cJSON_Delete(parse(text));
}

static void test_doubt(void **state)
{
	const struct gt_chrome_opts o = {.base_ns = 1000};
	struct gt_sink *s = make(&o);

	(void)state;
	assert_int_equal(tell_process_at(s, 7, 3000, 9000), 0);
	assert_int_equal(tell_end(s, "so it is"), 0);
	finish(s);
	assert_string_equal(line_of("GIL sites missing", 0),
			    "{\"name\":\"GIL sites missing\",\"pid\":7,\"tid\":4194305,\"ts\":"
			    "\"2.000\",\"args\":{\"text\":\"so it is\"},\"ph\":\"I\"}");
	cJSON_Delete(parse(text));
}

static void test_paused(void **state)
{
	const struct gt_chrome_opts o = {0};
	struct gt_sink *s = make(&o);
	struct gt_span hold = make_span("hold 9 1000-2000");

	(void)state;
	hold.open = GT_OPEN_START | GT_OPEN_PAUSED;
	assert_int_equal(tell_process_at(s, 7, 1, 9000), 0);
	assert_int_equal(s->ops->span(s, &hold), 0);
	assert_int_equal(tell_pause(s, 2000, 4500), 0);
	assert_int_equal(tell_pause(s, 5000, 6000), 0);
	finish(s);
	assert_non_null(strstr(line_of("hold_gil", 0), ",\"open\":\"start+paused\"}"));
	assert_string_equal(line_of("thread_name", 0),
			    "{\"name\":\"thread_name\",\"pid\":7,\"tid\":4194307,\"args\":{"
			    "\"name\":\"GIL paused\"},\"ph\":\"M\"}");
	assert_string_equal(line_of("paused", 0),
			    "{\"name\":\"paused\",\"pid\":7,\"tid\":4194307,\"ts\":\"2.000\","
			    "\"args\":{\"dur\":\"2.500\",\"end\":\"4.500\"},\"ph\":\"I\"}");
	assert_string_equal(line_of("GIL paused", 1),
			    "{\"name\":\"GIL paused\",\"pid\":7,\"tid\":4194307,\"ts\":\"4.500\","
			    "\"args\":{\"paused\":0},\"ph\":\"C\"}");
	assert_non_null(strstr(line_of("paused", 1), "\"ts\":\"5.000\""));
	assert_null(strstr(text, "lost"));
	cJSON_Delete(parse(text));
}

/* All on one track, those of a thread on its row once more. Names are any bytes. */
static void test_marks(void **state)
{
	const struct gt_chrome_opts o = {.base_ns = 1000};
	struct gt_sink *s = make(&o);

	(void)state;
	assert_int_equal(tell_process_at(s, 7, 1, 9000), 0);
	assert_int_equal(tell_mark(s, 0, 3000, "load test"), 0);
	assert_int_equal(tell_mark(s, 9, 500, "\"ph\":\"X\"}\n\x01\xff\\"), 0);
	assert_int_equal(tell_process_at(s, 8, 1, 9000), 0);
	assert_int_equal(tell_mark(s, 0, 3001, "other"), 0);
	finish(s);
	assert_string_equal(line_of("thread_name", 0),
			    "{\"name\":\"thread_name\",\"pid\":7,\"tid\":4194308,\"args\":{"
			    "\"name\":\"GIL marks\"},\"ph\":\"M\"}");
	assert_non_null(strstr(line_of("thread_name", 1), "\"pid\":8,\"tid\":4194308,"));
	assert_string_equal(line_of("load test", 0),
			    "{\"name\":\"load test\",\"s\":\"p\",\"pid\":7,\"tid\":4194308,\"ts\":"
			    "\"2.000\",\"args\":{},\"ph\":\"I\"}");
	assert_non_null(strstr(text, "{\"name\":\"\\\"ph\\\":\\\"X\\\"}\\n\\u0001\xef\xbf\xbd"
				     "\\\\\",\"s\":\"p\",\"pid\":7,\"tid\":4194308,\"ts\":"
				     "\"0.001\",\"args\":{\"thread\":9},\"ph\":\"I\"},\n"));
	assert_non_null(strstr(text, "\\\\\",\"s\":\"t\",\"pid\":7,\"tid\":9,\"ts\":\"0.001\","
				     "\"args\":{\"thread\":9},\"ph\":\"I\"}"));
	cJSON_Delete(parse(text));
}

/* ---- a part of somebody else's array ---- */

static int64_t index_of_nine(const void *ctx, uint32_t tid)
{
	assert_string_equal(ctx, "ctx");
	return tid == 9 ? 33 : -1;
}

static void test_fragment(void **state)
{
	const struct gt_chrome_opts o = {.fragment = 1};
	struct gt_sink *s = make(&o);
	cJSON *events;

	(void)state;
	assert_int_equal(tell_process_at(s, 7, 1, 9000), 0);
	assert_int_equal(tell_span(s, "hold 9 1000-3000"), 0);
	finish(s);
	assert_int_equal(text[0], '{');
	assert_int_equal(text[strlen(text) - 1], '}');
	events = parse_fragment(text);
	assert_int_equal(cJSON_GetArraySize(events), 4);
	cJSON_Delete(events);
	assert_string_equal(finish(make(&o)), "");
}

static void test_inline(void **state)
{
	const struct gt_chrome_opts o = {.fragment = 1,
					 .inline_rows = 1,
					 .flows = 1,
					 .tid_base = 5000000,
					 .sort_index = index_of_nine,
					 .ctx = "ctx"};
	struct gt_sink *s = make(&o);

	(void)state;
	assert_int_equal(tell_process_at(s, 7, 1, 9000), 0);
	assert_false(gt_chrome_any(s));
	assert_int_equal(tell_span(s, "hold 8 1000-2000"), 0);
	assert_int_equal(tell_span(s, "take 9 1500-2100.acquired.from 8 1000-2000"), 0);
	assert_int_equal(tell_span(s, "hold 9 2100-3000"), 0);
	assert_int_equal(tell_gap(s, 4000, 5000), 0);
	assert_int_equal(tell_pause(s, 6000, 7000), 0);
	assert_int_equal(tell_mark(s, 9, 2500, "step"), 0);
	assert_int_equal(tell_thread(s, 8, "eight"), 0);
	assert_int_equal(tell_thread(s, 9, "nine"), 0);
	assert_int_equal(tell_end(s, "doubt"), 0);
	finish(s);
	assert_ptr_equal(strstr(text, "{\"name\":\"hold_gil\",\"pid\":7,\"tid\":5000008,"), text);
	assert_null(strstr(text, "process_"));
	assert_non_null(strstr(text, "\"tid\":5000008,\"args\":{\"name\":\"GIL eight\"}"));
	assert_non_null(strstr(text, "\"tid\":5000009,\"args\":{\"name\":\"GIL nine\"}"));
	assert_non_null(strstr(text, "\"tid\":5000008,\"args\":{\"sort_index\":8}"));
	assert_non_null(strstr(text, "\"tid\":5000009,\"args\":{\"sort_index\":33}"));
	assert_non_null(strstr(line_of("lost events", 0), "\"tid\":9194304,"));
	assert_non_null(strstr(line_of("paused", 0), "\"tid\":9194307,"));
	assert_non_null(strstr(text, "\"tid\":9194308,\"args\":{\"name\":\"GIL marks\"}"));
	assert_non_null(strstr(line_of("step", 0), "\"s\":\"p\",\"pid\":7,\"tid\":9194308,"));
	assert_non_null(strstr(line_of("step", 1), "\"s\":\"t\",\"pid\":7,\"tid\":5000009,"));
	assert_non_null(strstr(line_of("step", 1), "\"args\":{\"thread\":9}"));
	assert_non_null(strstr(line_of("gil", 0), "\"tid\":5000008,"));
	assert_non_null(strstr(line_of("gil", 1), "\"tid\":5000009,"));
	cJSON_Delete(parse_fragment(text));
}

/* ---- arrows ---- */

/* "ID FROM@TIME>TO@TIME ..." of all arrows. */
static const char *arrows(const char *json)
{
	static char out[1024];
	cJSON *events = parse(json), *e;
	size_t n = 0;

	out[0] = '\0';
	cJSON_ArrayForEach(e, events)
	{
		const char *ph = cJSON_GetObjectItem(e, "ph")->valuestring;
		const char *bp = cJSON_GetStringValue(cJSON_GetObjectItem(e, "bp"));

		if (strcmp(ph, "s") && strcmp(ph, "f"))
			continue;
		assert_string_equal(cJSON_GetObjectItem(e, "cat")->valuestring, "gil");
		assert_int_equal(bp && !strcmp(bp, "e"), *ph == 'f');
		if (*ph == 's')
			n += (size_t)sprintf(out + n, "%s%d ", n ? " " : "",
					     cJSON_GetObjectItem(e, "id")->valueint);
		n += (size_t)sprintf(out + n, "%s%d@%s", *ph == 's' ? "" : ">",
				     cJSON_GetObjectItem(e, "tid")->valueint,
				     cJSON_GetObjectItem(e, "ts")->valuestring);
	}
	cJSON_Delete(events);
	return out;
}

static const char *arrows_of(const char *const *spans, size_t n)
{
	const struct gt_chrome_opts o = {.flows = 1};
	struct gt_sink *s = make(&o);

	assert_int_equal(tell_process_at(s, 7, 1, 9000), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(tell_span(s, spans[i]), 0);
	return arrows(finish(s));
}
#define EXPECT_ARROWS(want, ...)                                                                   \
	do {                                                                                       \
		const char *const spans_[] = {__VA_ARGS__};                                        \
		assert_string_equal(arrows_of(spans_, GT_ARRAY_SIZE(spans_)), want);               \
	} while (0)

static void test_arrows(void **state)
{
	(void)state;
	/* 1 ns before the release, so that it lies in the slice; to where the next hold begins */
	EXPECT_ARROWS("1 1@0.019>2@0.025", "hold 1 10-20", "take 2 12-25.acquired.from 1 10-20",
		      "hold 2 25-30");
	/* a hold is handed on when its thread goes on, maybe long after */
	EXPECT_ARROWS("1 1@0.019>2@0.025", "take 2 12-25.acquired.from 1 10-20", "hold 2 25-30",
		      "hold 1 10-20");
	EXPECT_ARROWS("1 1@0.019>2@0.025", "take 2 12-25.acquired.from 1 10-20", "hold 1 10-20",
		      "hold 2 25-30");
	/* of no length: it has no inside */
	EXPECT_ARROWS("1 1@0.020>2@0.025", "hold 1 20-20", "take 2 12-25.acquired.from 1 20-20",
		      "hold 2 25-30");
}

static void test_chain_of_arrows(void **state)
{
	(void)state;
	EXPECT_ARROWS("1 1@0.019>2@0.025 2 2@0.029>1@0.035", "hold 1 10-20",
		      "take 2 12-25.acquired.from 1 10-20", "hold 2 25-30",
		      "take 1 26-35.acquired.from 2 25-30", "hold 1 35-40");
	/* the first thread sleeps, and others take turns: its arrow comes last */
	EXPECT_ARROWS("1 2@0.029>3@0.031 2 3@0.034>2@0.036 3 1@0.019>2@0.025",
		      "take 2 12-25.acquired.from 1 10-20", "hold 2 25-30",
		      "take 3 26-31.acquired.from 2 25-30", "hold 3 31-35",
		      "take 2 32-36.acquired.from 3 31-35", "hold 2 36-40", "hold 1 10-20");
}

static void test_no_arrow(void **state)
{
	(void)state;
	EXPECT_ARROWS("", "hold 1 10-20", "take 2 12-25.acquired", "hold 2 25-30");
	EXPECT_ARROWS("", "hold 1 10-20", "take 2 12-25.from 1 10-20", "hold 2 25-30");
	EXPECT_ARROWS("", "hold 2 10-20", "take 2 22-25.acquired.from 2 10-20", "hold 2 25-30");
	/* an end that was filtered out, or lies in another file */
	EXPECT_ARROWS("", "take 2 12-25.acquired.from 1 10-20", "hold 2 25-30");
	EXPECT_ARROWS("", "hold 1 10-20", "take 2 12-25.acquired.from 1 10-20");
	EXPECT_ARROWS("", "take 2 12-25.acquired.from 1 10-20", "hold 2 25-30", "hold 1 40-50");
	EXPECT_ARROWS("", "hold 1 10-20", "take 2 12-25.acquired.from 1 10-20", "hold 2 40-50");
	EXPECT_ARROWS("", "hold 1 30-40", "take 2 12-45.acquired.from 1 10-20", "hold 2 45-50");
	EXPECT_ARROWS("", "take 2 12-25.acquired.from 1 10-20", "hold 2 40-50", "hold 1 10-20");
}

/* Threads of another process have the same ids; ids of arrows go on. */
static void test_arrows_of_each_process(void **state)
{
	const struct gt_chrome_opts o = {.flows = 1};
	struct gt_sink *s = make(&o);

	(void)state;
	assert_int_equal(tell_process_at(s, 7, 1, 9000), 0);
	assert_int_equal(tell_span(s, "hold 1 10-20"), 0);
	assert_int_equal(tell_span(s, "take 2 12-25.acquired.from 1 10-20"), 0);
	assert_int_equal(tell_process_at(s, 8, 1, 9000), 0);
	assert_int_equal(tell_span(s, "hold 2 25-30"), 0);
	for (uint64_t pid = 9; pid < 11; pid++) {
		assert_int_equal(tell_process_at(s, pid, 1, 9000), 0);
		assert_int_equal(tell_span(s, "hold 1 10-20"), 0);
		assert_int_equal(tell_span(s, "take 2 12-25.acquired.from 1 10-20"), 0);
		assert_int_equal(tell_span(s, "hold 2 25-30"), 0);
	}
	assert_string_equal(arrows(finish(s)), "1 1@0.019>2@0.025 2 1@0.019>2@0.025");
}

/* Many threads, each with an arrow that waits for its end. */
static void test_arrows_of_many_threads(void **state)
{
	const struct gt_chrome_opts o = {.flows = 1};
	struct gt_sink *s = make(&o);
	char span[64];

	(void)state;
	assert_int_equal(tell_process_at(s, 7, 1, 9000), 0);
	for (int i = 1; i < 200; i++) {
		snprintf(span, sizeof(span), "take %d 12-%d.acquired.from %d %d-%d", i + 1,
			 10 * i + 9, i, 10 * i, 10 * i + 5);
		assert_int_equal(tell_span(s, span), 0);
	}
	for (int i = 200; i; i--) {
		snprintf(span, sizeof(span), "hold %d %d-%d", i, i == 1 ? 10 : 10 * i - 1, 10 * i);
		assert_int_equal(tell_span(s, span), 0);
	}
	/* only the first one's hold begins where the arrow to the second says */
	assert_string_equal(arrows(finish(s)), "1 1@0.014>2@0.019");
}

static void test_errors(void **state)
{
	const struct gt_chrome_opts o = {0};
	struct gt_sink *s;

	(void)state;
	assert_int_equal(gt_jsonw_init(&w, -1, 0), 0);
	assert_int_equal(gt_chrome_create(&w, &o, &s), 0);
	assert_int_equal(tell_process_at(s, 7, 1, 9000), 0);
	while (!tell_span(s, "hold 1 10-20"))
		;
	assert_int_equal(tell_span(s, "hold 1 10-20"), -EBADF);
	assert_int_equal(s->ops->finish(s), -EBADF);
	gt_jsonw_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_process_and_threads),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_blame),
		cmocka_unit_test(test_longest_slice),
		cmocka_unit_test(test_clipped),
		cmocka_unit_test(test_base),
		cmocka_unit_test(test_paused),
		cmocka_unit_test(test_marks),
		cmocka_unit_test(test_doubt),
		cmocka_unit_test(test_fragment),
		cmocka_unit_test(test_inline),
		cmocka_unit_test(test_arrows),
		cmocka_unit_test(test_chain_of_arrows),
		cmocka_unit_test(test_no_arrow),
		cmocka_unit_test(test_arrows_of_each_process),
		cmocka_unit_test(test_arrows_of_many_threads),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
