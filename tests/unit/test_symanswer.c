// SPDX-License-Identifier: Apache-2.0
/* The child's answer, with one value after the other changed to what no child would send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "symanswer.h"

#define FILE_SIZE 1000

static struct gt_symanswer good;

static int setup(void **state)
{
	struct gt_sites *s = &good.sites;

	(void)state;
	memset(&good, 0, sizeof(good));
	*s = (struct gt_sites){
		.n = 2,
		.switch_cond = 88,
		.build_id_len = 20,
		.is_python = 1,
		.mode = GT_PROBE_SITES,
		.verdict = GT_VERDICT_AGREES,
		.n_functions = 1,
		.n_inlined = 1,
	};
	for (uint32_t i = 0; i < s->n; i++) {
		s->site[i] = (struct gt_site){.offset = 500, .kind = GT_ACQUIRE};
		strcpy(s->site[i].how, "how");
	}
	strcpy(s->function[0].name, "take_gil");
	strcpy(s->inlined[0].name, "PyEval_SaveThread");
	strcpy(s->why, "why");
	strcpy(s->symbols_from, "the file itself");
	return 0;
}

static int is_valid(const struct gt_symanswer *a)
{
	return gt_symanswer_is_valid(a, GT_PROBE_AUTO, FILE_SIZE);
}

/* Refused with the field set to `bad`; the same without. */
#define REFUSED(field, bad)                                                                        \
	do {                                                                                       \
		struct gt_symanswer a_ = good;                                                     \
                                                                                                   \
		assert_true(is_valid(&a_));                                                        \
		a_.field = (__typeof__(a_.field))(bad);                                            \
		if (is_valid(&a_))                                                                 \
			fail_msg("%s = %s", #field, #bad);                                         \
	} while (0)

static void test_numbers(void **state)
{
	(void)state;
	REFUSED(err, 1);
	REFUSED(err, -5000);
	REFUSED(err, -ENOENT); /* with sites */
	REFUSED(sites.n, 0);   /* and no error */
	REFUSED(sites.n, GT_SITES_MAX + 1);
	REFUSED(sites.n, UINT32_MAX);
	REFUSED(sites.switch_cond, 4097);
	REFUSED(sites.build_id_len, GT_BUILDID_MAX + 1);
	REFUSED(sites.stripped, 2);
	REFUSED(sites.python2, 2);
	REFUSED(sites.is_python, 2);
	REFUSED(sites.verdict, GT_VERDICT_DISAGREES + 1);
	REFUSED(sites.n_functions, GT_FUNCTIONS_MAX + 1);
	REFUSED(sites.n_inlined, GT_INLINED_MAX + 1);
	REFUSED(sites.function[0].sites, GT_SITES_MAX + 1);
	REFUSED(sites.inlined[0].sites, UINT32_MAX);
}

static void test_sites(void **state)
{
	(void)state;
	REFUSED(sites.site[1].offset, FILE_SIZE);
	REFUSED(sites.site[1].offset, UINT64_MAX);
	REFUSED(sites.site[1].kind, 0);
	REFUSED(sites.site[1].kind, GT_DROPPED + 1);
	REFUSED(sites.site[0].flags, 0x40);
	REFUSED(sites.site[0].flags, 0x80);
	good.sites.site[0].flags = 0x3f;
	assert_true(is_valid(&good));
	good.sites.site[2].kind = 99; /* behind the last one: not looked at */
	assert_true(is_valid(&good));
}

static void refuse_text(char *text, size_t size)
{
	static const char bad[] = {'\n', '\x1b', '\x7f', (char)0x80, (char)0xff};
	char keep[GT_WHY_MAX];

	memcpy(keep, text, size);
	for (size_t i = 0; i < sizeof(bad); i++) {
		text[0] = bad[i];
		assert_false(is_valid(&good));
	}
	memset(text, 'x', size); /* without an end */
	assert_false(is_valid(&good));
	text[size - 1] = '\0';
	assert_true(is_valid(&good));
	memcpy(text, keep, size);
}

static void test_texts(void **state)
{
	struct gt_sites *s = &good.sites;

	(void)state;
	refuse_text(s->why, sizeof(s->why));
	refuse_text(s->symbols_from, sizeof(s->symbols_from));
	refuse_text(s->disagreement, sizeof(s->disagreement));
	refuse_text(s->function[0].name, sizeof(s->function[0].name));
	refuse_text(s->inlined[0].name, sizeof(s->inlined[0].name));
	refuse_text(s->site[1].how, sizeof(s->site[1].how));
}

/* Sites are of the way that was asked for. */
static void test_modes(void **state)
{
	(void)state;
	for (int asked = GT_PROBE_AUTO; asked <= GT_PROBE_LIBC; asked++)
		for (int mode = 0; mode <= GT_PROBE_LIBC + 1; mode++) {
			int allowed = asked == GT_PROBE_AUTO
					      ? mode == GT_PROBE_SITES || mode == GT_PROBE_FUNCTIONS
					      : mode == asked;

			good.sites.mode = (uint8_t)mode;
			assert_int_equal(
				gt_symanswer_is_valid(&good, (enum gt_probe_mode)asked, FILE_SIZE),
				allowed);
		}
	good.sites.n = 0;
	good.err = -ENOENT;
	good.sites.mode = GT_PROBE_LIBC; /* what is left, without sites */
	assert_true(is_valid(&good));
	good.sites.mode = GT_PROBE_LIBC + 1;
	assert_false(is_valid(&good));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_numbers, setup),
		cmocka_unit_test_setup(test_sites, setup),
		cmocka_unit_test_setup(test_texts, setup),
		cmocka_unit_test_setup(test_modes, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
