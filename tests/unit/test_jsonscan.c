// SPDX-License-Identifier: Apache-2.0
#include "jsonfix.h"

#include <inttypes.h>

#include "jsonscan.h"

/* One that has something of everything. */
static const char document[] =
	" {\"a\" : [1, -2.50e+3,0, \"x\\u00e4\\ud83d\\ude00\\\\\\\"\\/\\b\\f\\n\\r\\t\" ,true,"
	"false\t,null , {} , [ ],[[]]],\r\n\"\" : {\"k\\u0041\":\"\"}, \"long plain "
	"key\":\"\x7f\xc3\xa4\"}\n";

static const char letters[] = "E{}[]K\"#tfn"; /* of the tokens, in their order */

static struct gt_jsonscan *open_text(const void *text, size_t len, size_t buffer)
{
	struct gt_jsonscan *s;

	assert_int_equal(gt_jsonscan_open_buffer(text_fd(text, len), buffer, &s), 0);
	return s;
}

/* All tokens as text, a letter for each and what stands in it; returns the last result. */
static int tokens(struct gt_jsonscan *s, char *out, size_t size)
{
	size_t used = 0;
	int token;

	out[0] = '\0';
	do {
		token = gt_jsonscan_next(s);
		if (token < 0)
			break;
		assert_in_range(token, 0, sizeof(letters) - 2);
		used += (size_t)snprintf(out + used, size - used, "%c", letters[token]);
		if (token == GT_JSON_KEY || token == GT_JSON_STRING || token == GT_JSON_NUMBER)
			used += (size_t)snprintf(out + used, size - used, "<%s>",
						 gt_jsonscan_text(s, NULL));
		assert_true(used < size);
	} while (token != GT_JSON_END);
	return token;
}

static void expect(const char *text, size_t buffer, int rc, const char *want)
{
	struct gt_jsonscan *s = open_text(text, strlen(text), buffer);
	char got[4096];

	if (tokens(s, got, sizeof(got)) != rc || strcmp(got, want) != 0)
		fail_msg("%s, %zu bytes at once: %s (%s)", text, buffer, got,
			 gt_jsonscan_problem(s));
	gt_jsonscan_close(s);
}

static const char wanted[] =
	"{K<a>[#<1>#<-2.50e+3>#<0>\"<x\xc3\xa4\xf0\x9f\x98\x80\\\"/\b\f\n\r\t>tfn{}[][[]]]"
	"K<>{K<kA>\"<>}K<long plain key>\"<\x7f\xc3\xa4>}E";

/* Wherever the reads are cut. */
static void test_tokens(void **state)
{
	(void)state;
	for (size_t buffer = 1; buffer <= sizeof(document); buffer++)
		expect(document, buffer, GT_JSON_END, wanted);
	expect(document, GT_JSONSCAN_BUFFER, GT_JSON_END, wanted);
}

static void test_offsets(void **state)
{
	static const char text[] = " {\"key\": [12, \"s\"  ,null]} ";
	static const uint64_t from[] = {1, 2, 9, 10, 14, 20, 24, 25, 27};
	static const uint64_t to[] = {2, 7, 10, 12, 17, 24, 25, 26, 27};
	static const unsigned int depth[] = {1, 1, 2, 2, 2, 2, 1, 0, 0};

	(void)state;
	for (size_t buffer = 1; buffer < sizeof(text); buffer++) {
		struct gt_jsonscan *s = open_text(text, sizeof(text) - 1, buffer);

		for (size_t i = 0; i < GT_ARRAY_SIZE(from); i++) {
			assert_true(gt_jsonscan_next(s) >= 0);
			assert_int_equal(gt_jsonscan_offset(s), from[i]);
			assert_int_equal(gt_jsonscan_behind(s), to[i]);
			assert_int_equal(gt_jsonscan_depth(s), depth[i]);
		}
		gt_jsonscan_close(s);
	}
}

static void test_truncated(void **state)
{
	(void)state;
	/* The last two bytes are the closing brace and a line's end. */
	for (size_t len = 0; len < sizeof(document) - 2; len++)
		for (size_t buffer = 1; buffer <= 64; buffer += 9) {
			struct gt_jsonscan *s = open_text(document, len, buffer);
			char got[4096];

			assert_int_equal(tokens(s, got, sizeof(got)), -EPIPE);
			assert_non_null(strstr(gt_jsonscan_problem(s), "too early"));
			assert_int_equal(gt_jsonscan_next(s), -EPIPE);
			assert_int_equal(gt_jsonscan_skip(s), -EPIPE);
			gt_jsonscan_close(s);
			s = open_text(document, len, buffer);
			assert_int_equal(gt_jsonscan_skip(s), -EPIPE);
			gt_jsonscan_close(s);
		}
}

/* Whatever byte stands wherever: the same verdict of next() and of skip(), and no crash. */
static void test_changed_bytes(void **state)
{
	char text[sizeof(document)];
	unsigned int good = 0, bad = 0;

	(void)state;
	for (size_t at = 0; at < sizeof(document) - 1; at++)
		for (unsigned int c = 0; c < 256; c++) {
			struct gt_jsonscan *s;
			char got[4096];
			int by_next, by_skip;

			memcpy(text, document, sizeof(document));
			text[at] = (char)c;
			s = open_text(text, sizeof(document) - 1, 7);
			by_next = tokens(s, got, sizeof(got));
			gt_jsonscan_close(s);
			s = open_text(text, sizeof(document) - 1, 8192);
			by_skip = gt_jsonscan_skip(s);
			if (!by_skip)
				by_skip = gt_jsonscan_next(s);
			gt_jsonscan_close(s);
			assert_int_equal(by_next, by_skip);
			assert_true(by_next == 0 || by_next == -EBADMSG || by_next == -EPIPE);
			good += by_next == 0;
			bad += by_next != 0;
		}
	assert_true(good > 5000 && bad > 20000);
}

static void test_not_json(void **state)
{
	static const struct {
		const char *text, *problem;
	} cases[] = {
		{"\xef\xbb\xbf{}", "byte-order mark"},
		{"[1,]", "byte 3: a value is expected, not ']'"},
		{"[,1]", "byte 1: a value"},
		{"[1 2]", "byte 3: a comma or ']'"},
		{"{\"a\" 1}", "byte 5: a colon"},
		{"{\"a\":1,}", "byte 7: a key"},
		{"{a:1}", "byte 1: a key"},
		{"{\"a\":}", "byte 5: a value"},
		{"{1:1}", "byte 1: a key"},
		{"[1}", "byte 2: a comma or ']'"},
		{"{\"a\":1]", "byte 6: a comma or '}'"},
		{"[] []", "byte 3: the end of the document"},
		{"]", "byte 0: a value"},
		{"tru ", "byte 3: true"},
		{"nulL", "byte 3: ull"},
		{"nan", "byte 1: ull"},
		{"[inf]", "byte 1: a value"},
		{"True", "byte 0: a value"},
		{"'a'", "byte 0: a value"},
		{"\"\\x41\"", "byte 2: an escape"},
		{"\"\\u12g4\"", "byte 5: a hexadecimal digit"},
		{"\"\\U0041\"", "byte 2: an escape"},
		{"\"a\tb\"", "byte 2: control character 0x09"},
		{"\"0123456789\x1f\"", "byte 11: control character 0x1f"},
		{"[NaN]", "byte 1: a value"},
		{"[Infinity]", "byte 1: a value"},
		{"[-Infinity]", "byte 2: a digit"},
		{"[/**/1]", "byte 1: a value"},
		{"\v1", "byte 0: a value is expected, not byte 0x0b"},
	};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(cases); i++)
		for (size_t buffer = 1; buffer < 20; buffer++) {
			struct gt_jsonscan *s =
				open_text(cases[i].text, strlen(cases[i].text), buffer);
			char got[256];

			if (tokens(s, got, sizeof(got)) != -EBADMSG ||
			    !strstr(gt_jsonscan_problem(s), cases[i].problem))
				fail_msg("%s: %s", cases[i].text, gt_jsonscan_problem(s));
			assert_int_equal(gt_jsonscan_next(s), -EBADMSG);
			gt_jsonscan_close(s);
		}
}

static void test_numbers(void **state)
{
	static const char *const good[] = {"0",       "-0",           "10",   "1.0",    "0.5",
					   "-0.05e1", "1e5",          "1E-5", "1e+005", "0e0",
					   "12e0",    "1234567890.1", "0.0e0"};
	static const char *const bad[] = {"01",   "-01", "1.", ".5",    "+1",  "1.e5",  "1e",
					  "1e+",  "--1", "1-", "1.2.3", "0x1", "1e5.0", "-",
					  "1ee1", "1_0", "00", "1+1",   "-a"};

	(void)state;
	for (size_t buffer = 1; buffer < 16; buffer++) {
		for (size_t i = 0; i < GT_ARRAY_SIZE(good); i++) {
			char text[64], want[64];

			snprintf(text, sizeof(text), "[%s]", good[i]);
			snprintf(want, sizeof(want), "[#<%s>]E", good[i]);
			expect(text, buffer, GT_JSON_END, want);
			snprintf(want, sizeof(want), "#<%s>E", good[i]);
			expect(good[i], buffer, GT_JSON_END, want);
		}
		for (size_t i = 0; i < GT_ARRAY_SIZE(bad); i++) {
			struct gt_jsonscan *s;
			char text[64], got[64];

			snprintf(text, sizeof(text), "[%s]", bad[i]);
			s = open_text(text, strlen(text), buffer);
			if (tokens(s, got, sizeof(got)) != -EBADMSG)
				fail_msg("%s: %s", text, got);
			gt_jsonscan_close(s);
		}
	}
}

static void test_lenient(void **state)
{
	static const char text[] = "[NaN,Infinity,{\"a\":-Infinity},-1,inf,-inf,nan,-nan,null]";
	struct gt_jsonscan *s;
	char got[256];

	(void)state;
	for (size_t buffer = 1; buffer < sizeof(text); buffer++) {
		s = open_text(text, sizeof(text) - 1, buffer);
		gt_jsonscan_lenient(s);
		assert_int_equal(tokens(s, got, sizeof(got)), GT_JSON_END);
		assert_string_equal(got, "[#<NaN>#<Infinity>{K<a>#<-Infinity>}#<-1>"
					 "#<inf>#<-inf>#<nan>#<-nan>n]E");
		assert_int_equal(gt_jsonscan_words(s), 7);
		gt_jsonscan_close(s);
	}
	s = open_text("[Nan]", 5, 64);
	gt_jsonscan_lenient(s);
	assert_int_equal(tokens(s, got, sizeof(got)), -EBADMSG);
	gt_jsonscan_close(s);
}

static void test_surrogates(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"\"\\ud800\"", "\"<\xef\xbf\xbd>E"},
		{"\"\\ud800x\"", "\"<\xef\xbf\xbdx>E"},
		{"\"\\ud800\\n\"", "\"<\xef\xbf\xbd\n>E"},
		{"\"\\ud800\\u0041\"", "\"<\xef\xbf\xbd"
				       "A>E"},
		{"\"\\udc00\"", "\"<\xef\xbf\xbd>E"},
		{"\"\\udc00\\ud800\"", "\"<\xef\xbf\xbd\xef\xbf\xbd>E"},
		{"\"\\ud800\\ud800\\udc00\"", "\"<\xef\xbf\xbd\xf0\x90\x80\x80>E"},
		{"\"\\uDBFF\\uDFFF\"", "\"<\xf4\x8f\xbf\xbf>E"},
		{"\"\\u07ff\\u0800\\uffff\"", "\"<\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf>E"},
		{"[\"\\ud800\",\"\\udc00\"]", "[\"<\xef\xbf\xbd>\"<\xef\xbf\xbd>]E"},
	};
	struct gt_jsonscan *s;
	size_t len;

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(cases); i++)
		for (size_t buffer = 1; buffer < 16; buffer++)
			expect(cases[i].text, buffer, GT_JSON_END, cases[i].want);
	s = open_text("\"a\\u0000b\"", 10, 64);
	assert_int_equal(gt_jsonscan_next(s), GT_JSON_STRING);
	assert_memory_equal(gt_jsonscan_text(s, &len), "a\0b", 4);
	assert_int_equal(len, 3);
	assert_false(gt_jsonscan_is(s, "a"));
	gt_jsonscan_close(s);
}

/* It is handed on as it is, and the places are counted, wherever the reads are cut. */
static void test_utf8(void **state)
{
	static const struct {
		const char *text;
		unsigned int bad;
	} cases[] = {
		{"a plain text of some length, without any", 0},
		{"\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf", 0},
		{"\xf0\x90\x80\x80\xf3\xbf\xbf\xbf\xf4\x8f\xbf\xbf", 0},
		{"\xc3\xa4\\n\xc3\xa4\\u00e4\xc3\xa4", 0},
		{"0123456\xff"
		 "89",
		 1},
		{"\x80", 1},
		{"\xc0\x80", 2},
		{"\xc3", 1},
		{"\xc3\\n\xa4", 2},
		{"0123456\xc3"
		 "89",
		 1},
		{"\xe4\xb8", 1},
		{"\xe4\xb8\xc3\xa4", 1},
		{"\xe0\x9f\xbf", 3},
		{"\xed\xa0\x80", 3},
		{"\xf0\x8f\xbf\xbf", 4},
		{"\xf4\x90\x80\x80", 4},
		{"\xf5\x80", 2},
	};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(cases); i++) {
		for (size_t buffer = 1; buffer < 64; buffer++) {
			char text[256];
			struct gt_jsonscan *s;
			int n = snprintf(text, sizeof(text), "[\"%s\",{\"%s\":\"%s\"}]",
					 cases[i].text, cases[i].text, cases[i].text);

			s = open_text(text, (size_t)n, buffer);
			assert_int_equal(gt_jsonscan_next(s), GT_JSON_ARRAY);
			assert_int_equal(gt_jsonscan_next(s), GT_JSON_STRING);
			assert_int_equal(gt_jsonscan_bad_utf8(s), cases[i].bad);
			assert_int_equal(gt_jsonscan_leave(s), 0);
			assert_int_equal(gt_jsonscan_bad_utf8(s), 3 * cases[i].bad);
			gt_jsonscan_close(s);
		}
	}
}

static void test_depth(void **state)
{
	static const char objects[] = "{\"a\":";
	char text[4096], got[4096];
	struct gt_jsonscan *s;

	(void)state;
	memset(text, '[', GT_JSONSCAN_DEPTH_MAX);
	memset(text + GT_JSONSCAN_DEPTH_MAX, ']', GT_JSONSCAN_DEPTH_MAX);
	s = open_text(text, 2 * GT_JSONSCAN_DEPTH_MAX, 100);
	assert_int_equal(tokens(s, got, sizeof(got)), GT_JSON_END);
	gt_jsonscan_close(s);
	s = open_text(text, 2 * GT_JSONSCAN_DEPTH_MAX, 100);
	assert_int_equal(gt_jsonscan_skip(s), 0);
	assert_int_equal(gt_jsonscan_next(s), GT_JSON_END);
	gt_jsonscan_close(s);
	/* One more, and far more. */
	memset(text, '[', sizeof(text));
	s = open_text(text, sizeof(text), 100);
	assert_int_equal(gt_jsonscan_skip(s), -EBADMSG);
	assert_non_null(strstr(gt_jsonscan_problem(s), "byte 256: nested deeper than 256"));
	gt_jsonscan_close(s);
	for (size_t i = 0; i + sizeof(objects) - 1 <= sizeof(text); i += sizeof(objects) - 1)
		memcpy(text + i, objects, sizeof(objects) - 1);
	s = open_text(text, sizeof(text), 100);
	assert_int_equal(tokens(s, got, sizeof(got)), -EBADMSG);
	gt_jsonscan_close(s);
	/* Arrays and objects in turn, so that each bit of the stack counts. */
	expect("[{\"a\":[{\"b\":[[{}]]},[]]}]", 5, GT_JSON_END, "[{K<a>[{K<b>[[{}]]}[]]}]E");
}

static void test_huge_string(void **state)
{
	const size_t size = 3u << 20;
	gt_autofree char *text = malloc(size);
	struct gt_jsonscan *s;
	size_t len;

	(void)state;
	assert_non_null(text);
	memset(text, 'x', size);
	memcpy(text, "[\"", 2);
	memcpy(text + size - 4, "\",1]", 4);
	s = open_text(text, size, GT_JSONSCAN_BUFFER);
	assert_int_equal(gt_jsonscan_next(s), GT_JSON_ARRAY);
	assert_int_equal(gt_jsonscan_next(s), GT_JSON_STRING);
	assert_int_equal(strlen(gt_jsonscan_text(s, &len)), GT_JSONSCAN_TEXT_MAX);
	assert_int_equal(len, GT_JSONSCAN_TEXT_MAX);
	assert_true(gt_jsonscan_cut(s));
	assert_int_equal(gt_jsonscan_offset(s), 1);
	assert_int_equal(gt_jsonscan_behind(s), size - 3);
	assert_int_equal(gt_jsonscan_next(s), GT_JSON_NUMBER);
	assert_false(gt_jsonscan_cut(s));
	assert_int_equal(gt_jsonscan_offset(s), size - 2);
	gt_jsonscan_close(s);
	/* A number as long. */
	memset(text, '7', size);
	s = open_text(text, size, 1000);
	assert_int_equal(gt_jsonscan_next(s), GT_JSON_NUMBER);
	assert_true(gt_jsonscan_cut(s));
	assert_int_equal(gt_jsonscan_next(s), GT_JSON_END);
	gt_jsonscan_close(s);
	/* Exactly as long as can be kept. */
	memset(text, 'y', size);
	text[0] = text[GT_JSONSCAN_TEXT_MAX + 1] = '"';
	s = open_text(text, GT_JSONSCAN_TEXT_MAX + 2, 1000);
	assert_int_equal(gt_jsonscan_next(s), GT_JSON_STRING);
	assert_false(gt_jsonscan_cut(s));
	gt_jsonscan_close(s);
	text[GT_JSONSCAN_TEXT_MAX + 1] = 'y';
	text[GT_JSONSCAN_TEXT_MAX + 2] = '"';
	s = open_text(text, GT_JSONSCAN_TEXT_MAX + 3, GT_JSONSCAN_BUFFER);
	assert_int_equal(gt_jsonscan_next(s), GT_JSON_STRING);
	assert_true(gt_jsonscan_cut(s));
	assert_int_equal(strlen(gt_jsonscan_text(s, &len)), GT_JSONSCAN_TEXT_MAX);
	assert_int_equal(len, GT_JSONSCAN_TEXT_MAX);
	gt_jsonscan_close(s);
}

static void test_skip(void **state)
{
	static const char text[] = "[1,{\"a\":[1,{\"b\":2}],\"c\":\"]}\"},[],\"x\"]";
	struct gt_jsonscan *s;

	(void)state;
	for (size_t buffer = 1; buffer < sizeof(text); buffer++) {
		s = open_text(text, sizeof(text) - 1, buffer);
		assert_int_equal(gt_jsonscan_next(s), GT_JSON_ARRAY);
		assert_int_equal(gt_jsonscan_skip(s), 0);
		assert_int_equal(gt_jsonscan_next(s), GT_JSON_OBJECT);
		assert_int_equal(gt_jsonscan_next(s), GT_JSON_KEY);
		assert_true(gt_jsonscan_is(s, "a"));
		assert_int_equal(gt_jsonscan_skip(s), 0);
		assert_false(gt_jsonscan_is(s, "a"));
		assert_int_equal(gt_jsonscan_next(s), GT_JSON_KEY);
		assert_true(gt_jsonscan_is(s, "c"));
		assert_int_equal(gt_jsonscan_leave(s), 0);
		assert_int_equal(gt_jsonscan_depth(s), 1);
		assert_int_equal(gt_jsonscan_behind(s), 29);
		assert_int_equal(gt_jsonscan_skip(s), 0);
		assert_int_equal(gt_jsonscan_next(s), GT_JSON_STRING);
		assert_string_equal(gt_jsonscan_text(s, NULL), "x");
		assert_int_equal(gt_jsonscan_skip(s), -EINVAL); /* the array ends */
		gt_jsonscan_close(s);
		s = open_text(text, sizeof(text) - 1, buffer);
		assert_int_equal(gt_jsonscan_skip(s), 0);
		assert_int_equal(gt_jsonscan_next(s), GT_JSON_END);
		assert_int_equal(gt_jsonscan_next(s), GT_JSON_END);
		assert_int_equal(gt_jsonscan_leave(s), -EINVAL);
		gt_jsonscan_close(s);
	}
	s = open_text("{\"a\":1}", 7, 64);
	assert_int_equal(gt_jsonscan_next(s), GT_JSON_OBJECT);
	assert_int_equal(gt_jsonscan_skip(s), -EINVAL); /* a key comes */
	gt_jsonscan_close(s);
}

static void test_gzip(void **state)
{
	size_t len;
	gt_autofree uint8_t *packed = gzip(document, sizeof(document) - 1, &len);
	struct gt_jsonscan *s;
	char got[4096];

	(void)state;
	for (size_t buffer = 1; buffer < 200; buffer += 13) {
		s = open_text(packed, len, buffer);
		assert_int_equal(tokens(s, got, sizeof(got)), GT_JSON_END);
		assert_string_equal(got, wanted);
		assert_true(gt_jsonscan_gzip(s));
		gt_jsonscan_close(s);
	}
	s = open_text(document, sizeof(document) - 1, 64);
	assert_int_equal(tokens(s, got, sizeof(got)), GT_JSON_END);
	assert_false(gt_jsonscan_gzip(s));
	gt_jsonscan_close(s);
	/* Cut: an early end. Damaged: an error, if only by its checksum. */
	for (size_t n = 20; n < len - 10; n++) {
		s = open_text(packed, n, 16);
		assert_int_equal(tokens(s, got, sizeof(got)), -EPIPE);
		gt_jsonscan_close(s);
	}
	packed[len - 6] ^= 1;
	s = open_text(packed, len, 16);
	assert_int_equal(tokens(s, got, sizeof(got)), -EBADMSG);
	assert_non_null(strstr(gt_jsonscan_problem(s), "compressed data are damaged"));
	gt_jsonscan_close(s);
}

static void test_unreadable(void **state)
{
	struct gt_jsonscan *s;
	int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_int_equal(gt_jsonscan_open(fd, &s), 0);
	assert_int_equal(gt_jsonscan_next(s), -EISDIR);
	assert_non_null(strstr(gt_jsonscan_problem(s), "directory"));
	gt_jsonscan_close(s);
	assert_int_equal(fcntl(fd, F_GETFD), -1); /* it was taken over */
	gt_jsonscan_close(NULL);
}

static void test_us_to_ns(void **state)
{
	static const struct {
		const char *text;
		int rc;
		int64_t ns;
	} cases[] = {
		{"0", 0, 0},
		{"-0", 0, 0},
		{"1", 0, 1000},
		{"1732.5", 0, 1732500},
		{"1.7e3", 0, 1700000},
		{"1.7E+3", 0, 1700000},
		{"0.001", 0, 1},
		{"0.0019", 0, 1},
		{"0.0009", 0, 0},
		{"-1.0019", 0, -1001},
		{"1736405443863674.400", 0, 1736405443863674400},
		{"1736405443863674.123999", 0, 1736405443863674123},
		{"1.736405443863674123e15", 0, 1736405443863674123},
		{"1736405443863674123e-3", 0, 1736405443863674123},
		{"173640544386367412345e-5", 0, 1736405443863674123},
		{"007", 0, 7000},
		{"9223372036854775.807", 0, INT64_MAX},
		{"-9223372036854775.807", 0, -INT64_MAX},
		{"9223372036854775.8079", 0, INT64_MAX},
		{"9223372036854775.808", -ERANGE, 0},
		{"9223372036854776", -ERANGE, 0},
		{"1e16", -ERANGE, 0},
		{"9e15", 0, 9000000000000000000},
		{"1e400", -ERANGE, 0},
		{"1e99999999999999999999", -ERANGE, 0},
		{"0e99999999999999999999", 0, 0},
		{"0.0e400", 0, 0},
		{"1e-99999999999999999999", 0, 0},
		{"123456e-9", 0, 0},
		{"1234567e-9", 0, 1},
		{"0.00000000000000000000000000001234e32", 0, 1234000},
		{"", -EINVAL, 0},
		{"-", -EINVAL, 0},
		{".5", -EINVAL, 0},
		{"1.", -EINVAL, 0},
		{"+1", -EINVAL, 0},
		{" 1", -EINVAL, 0},
		{"1 ", -EINVAL, 0},
		{"1e", -EINVAL, 0},
		{"1e+", -EINVAL, 0},
		{"1e1.5", -EINVAL, 0},
		{"1.5.5", -EINVAL, 0},
		{"0x10", -EINVAL, 0},
		{"NaN", -EINVAL, 0},
		{"-Infinity", -EINVAL, 0},
		{"12us", -EINVAL, 0},
		{"99999999999999999999x", -EINVAL, 0},
	};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(cases); i++) {
		int64_t ns = 0;
		int rc = gt_us_to_ns(cases[i].text, &ns);

		if (rc != cases[i].rc || ns != cases[i].ns)
			fail_msg("%s: %d, %" PRId64, cases[i].text, rc, ns);
	}
}

/* As many zeros as a text can have take no time worth speaking of, and are no overflow. */
static void test_us_to_ns_long(void **state)
{
	char text[GT_JSONSCAN_TEXT_MAX + 1];
	int64_t ns;

	(void)state;
	memset(text, '0', sizeof(text));
	memcpy(text + sizeof(text) - 6, "12.34", 6);
	assert_int_equal(gt_us_to_ns(text, &ns), 0);
	assert_int_equal(ns, 12340);
	memset(text, '0', sizeof(text));
	text[1] = '.';
	memcpy(text + sizeof(text) - 8, "15e4090", 8);
	assert_int_equal(gt_us_to_ns(text, &ns), 0);
	assert_int_equal(ns, 150000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tokens),      cmocka_unit_test(test_offsets),
		cmocka_unit_test(test_truncated),   cmocka_unit_test(test_changed_bytes),
		cmocka_unit_test(test_not_json),    cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_lenient),     cmocka_unit_test(test_surrogates),
		cmocka_unit_test(test_utf8),        cmocka_unit_test(test_depth),
		cmocka_unit_test(test_huge_string), cmocka_unit_test(test_skip),
		cmocka_unit_test(test_gzip),        cmocka_unit_test(test_unreadable),
		cmocka_unit_test(test_us_to_ns),    cmocka_unit_test(test_us_to_ns_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
