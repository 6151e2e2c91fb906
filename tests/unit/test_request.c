// SPDX-License-Identifier: Apache-2.0
/* Packets of the control protocol, good, odd and hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "request.h"

static struct gt_request rq;

/* In memory of just that size, so that a sanitizer sees a read behind it. */
static int parse_bytes(const char *bytes, size_t size)
{
	static char *packet;
	const char *why = NULL;
	int err;

	free(packet);
	packet = malloc(size + 1);
	assert_non_null(packet);
	memcpy(packet, bytes, size);
	packet[size] = '\0';
	err = gt_request_parse(packet, size, &rq, &why);
	assert_true(!err || (err == -EINVAL && why && *why));
	return err;
}

static int parse(const char *text)
{
	return parse_bytes(text, strlen(text));
}

static void plain_words(void **state)
{
	static const struct {
		const char *text;
		enum gt_request_kind kind;
	} good[] = {
		{"pause", GT_REQUEST_PAUSE},   {"resume", GT_REQUEST_RESUME},
		{"status", GT_REQUEST_STATUS}, {"stop", GT_REQUEST_STOP},
		{"dump", GT_REQUEST_DUMP},
	};
	static const char *const bad[] = {"",       " ",    "pause ",  "pause\n",
					  "Pause",  "paus", "pauses",  " stop",
					  "stop 1", "ok",   "threads", "dump 1"};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(good); i++) {
		assert_int_equal(parse(good[i].text), 0);
		assert_int_equal(rq.kind, good[i].kind);
		assert_int_equal(rq.from, 0);
	}
	for (size_t i = 0; i < GT_ARRAY_SIZE(bad); i++)
		assert_int_equal(parse(bad[i]), -EINVAL);
}

static void marks(void **state)
{
	static const char *const bad[] = {
		"mark",
		"mark ",
		"mark 1",
		"mark 1 ",
		"mark 1 2",
		"mark 1 2 ",
		"mark x 2 name",
		"mark 1 x name",
		"mark -1 2 name",
		"mark +1 2 name",
		"mark 1 -2 name",
		"mark  1 2 name",
		"mark 1  2 name",
		"mark 1x 2 name",
		"mark 18446744073709551616 2 name",
		"mark 1 2147483648 name",
		"mark\n1 2 name",
	};

	(void)state;
	assert_int_equal(parse("mark 18446744073709551615 2147483647  two  words\n"), 0);
	assert_int_equal(rq.kind, GT_REQUEST_MARK);
	assert_true(rq.mono_ns == UINT64_MAX);
	assert_int_equal(rq.ns_tid, INT32_MAX);
	assert_string_equal(rq.name, " two  words\n");
	assert_int_equal(parse("mark 0 0 x"), 0);
	assert_true(!rq.mono_ns && !rq.ns_tid);
	assert_string_equal(rq.name, "x");
	for (size_t i = 0; i < GT_ARRAY_SIZE(bad); i++)
		assert_int_equal(parse(bad[i]), -EINVAL);
}

static void threads(void **state)
{
	struct gt_pyname t;

	(void)state;
	assert_int_equal(parse("threads\n7 main\n\nx y\n8\n9 \n0 zero\n-1 minus\n2147483648 great\n"
			       "12 two words \n7 again\n13 last"),
			 0);
	assert_int_equal(rq.kind, GT_REQUEST_THREADS);
	assert_int_equal(gt_request_thread(&rq, &t), 1);
	assert_int_equal(t.ns_tid, 7);
	assert_string_equal(t.name, "main");
	assert_int_equal(gt_request_thread(&rq, &t), 1);
	assert_int_equal(t.ns_tid, 12);
	assert_string_equal(t.name, "two words ");
	assert_int_equal(gt_request_thread(&rq, &t), 1);
	assert_int_equal(t.ns_tid, 7);
	assert_string_equal(t.name, "again");
	assert_int_equal(gt_request_thread(&rq, &t), 1);
	assert_int_equal(t.ns_tid, 13);
	assert_string_equal(t.name, "last");
	assert_int_equal(t.dummy, 0);
	assert_int_equal(gt_request_thread(&rq, &t), 0);
	assert_int_equal(gt_request_thread(&rq, &t), 0);
	assert_int_equal(parse("threads\n"), 0);
	assert_int_equal(gt_request_thread(&rq, &t), 0);
}

/* A number at the end of a line must not go on in the next one. */
static void lines_are_apart(void **state)
{
	struct gt_pyname t;

	(void)state;
	assert_int_equal(parse("threads\n1\n2 two"), 0);
	assert_int_equal(gt_request_thread(&rq, &t), 1);
	assert_int_equal(t.ns_tid, 2);
	assert_int_equal(gt_request_thread(&rq, &t), 0);
}

/* 63 bytes are kept; a character is not cut in two. */
static void long_names(void **state)
{
	char text[200] = "threads\n5 ";
	const size_t at = strlen(text);
	struct gt_pyname t;

	(void)state;
	memset(text + at, 'a', 100);
	assert_int_equal(parse(text), 0);
	assert_int_equal(gt_request_thread(&rq, &t), 1);
	assert_int_equal(strlen(t.name), GT_PYNAME_LEN - 1);

	memcpy(text + at + 62, "\xe2\x82\xac", 3); /* bytes 62 to 64 */
	assert_int_equal(parse(text), 0);
	assert_int_equal(gt_request_thread(&rq, &t), 1);
	assert_int_equal(strlen(t.name), 62);

	memset(text + at, 0x80, 100); /* no UTF-8: any cut will do */
	assert_int_equal(parse(text), 0);
	assert_int_equal(gt_request_thread(&rq, &t), 1);
	assert_in_range(strlen(t.name), 60, 63);
}

static void no_nul_inside(void **state)
{
	static const char text[] = "stop\0stop";

	(void)state;
	assert_int_equal(parse_bytes(text, sizeof(text) - 1), -EINVAL);
	assert_int_equal(parse_bytes(text, 5), -EINVAL);
	assert_int_equal(parse_bytes(text, 4), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_words), cmocka_unit_test(marks),
		cmocka_unit_test(threads),     cmocka_unit_test(lines_are_apart),
		cmocka_unit_test(long_names),  cmocka_unit_test(no_nul_inside),
	};

	return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
