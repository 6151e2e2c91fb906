// SPDX-License-Identifier: Apache-2.0
/*
 * What follows from features that are there or not, as made up here; the tries themselves run in
 * test_attach.c and in tests/e2e/test_features.py.
 */
#include "kfeatures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#define BIT(name) (UINT32_C(1) << GT_FEATURE_##name)

static void test_the_table_is_whole(void **state)
{
	char names[GT_FEATURES_TEXT], again[GT_FEATURES_TEXT];
	uint32_t without = 0;
	const char *bad;

	(void)state;
	for (size_t i = 0; i < GT_FEATURES; i++) {
		const struct gt_feature_row *row = &gt_feature_table[i];

		assert_true(row->name && row->since && row->purpose && row->instead);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(row->name, gt_feature_table[k].name);
	}
	/* All that may be left out, at once; what is made of it fits. */
	gt_features_optional(names);
	assert_true(strlen(names) < sizeof(names) - 1);
	for (char *s = names; (s = strstr(s, ", "));)
		memmove(s + 1, s + 2, strlen(s + 2) + 1);
	assert_int_equal(gt_features_parse(names, &without, &bad), 0);
	assert_int_equal(without, (1u << GT_FEATURES) - 1 - BIT(RING_BUFFER));
	gt_features_without(&(struct gt_features){.without = without}, again);
	for (char *s = again; *s; s++)
		if (*s == ' ')
			*s = ',';
	assert_string_equal(again, names);
}

static void test_parse(void **state)
{
	static const struct {
		const char *text;
		int err;
		size_t bad;
	} wrong[] = {
		{"", -ENOENT, 0},        {"nonsense", -ENOENT, 0}, {"btf,", -ENOENT, 4},
		{",btf", -ENOENT, 0},    {"btf,,btf", -ENOENT, 4}, {"BTF", -ENOENT, 0},
		{"bt", -ENOENT, 0},      {"btff", -ENOENT, 0},     {"btf,bt", -ENOENT, 4},
		{"btf btf", -ENOENT, 0}, {" btf", -ENOENT, 0},     {"ring-buffer", -EINVAL, 0},
		{"uprobe", -ENOENT, 0},
	};
	uint32_t without = 0;
	const char *bad;

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(wrong); i++) {
		without = 0;
		assert_int_equal(gt_features_parse(wrong[i].text, &without, &bad), wrong[i].err);
		assert_int_equal(bad - wrong[i].text, wrong[i].bad);
	}
	without = 0;
	assert_int_equal(gt_features_parse("btf,uprobe-multi", &without, &bad), 0);
	assert_int_equal(without, BIT(BTF) | BIT(UPROBE_MULTI));
	assert_int_equal(gt_features_parse("uprobe-multi-pid,btf", &without, &bad), 0);
	assert_int_equal(without, BIT(BTF) | BIT(UPROBE_MULTI) | BIT(UPROBE_MULTI_PID));
}

/* Those of `has` were found, those of `unknown` could not be tried, all others were not found. */
static struct gt_features kernel(uint32_t has, uint32_t unknown)
{
	struct gt_features f = {0};

	for (size_t i = 0; i < GT_FEATURES; i++) {
		f.of[i].found = has >> i & 1       ? GT_TRY_YES
				: unknown >> i & 1 ? GT_TRY_UNKNOWN
						   : GT_TRY_NO;
		f.of[i].err = unknown >> i & 1 ? -EPERM : 0;
	}
	return f;
}

static const char *chosen(struct gt_features f, uint32_t without, enum gt_backend wanted, int *err)
{
	const struct gt_attach_ops *ops;

	f.without = without;
	ops = gt_features_backend(&f, wanted, err);
	return ops ? gt_attach_name(ops) : "none";
}

static void test_backend(void **state)
{
	const uint32_t multi = BIT(UPROBE_MULTI) | BIT(UPROBE_MULTI_PID);
	const uint32_t perf = BIT(UPROBES) | BIT(PERF_LINK);
	static const char *const names[] = {"", "uprobe_multi", "perf_event", "perf_ioctl"};
	const struct {
		uint32_t has, without;
		const char *want;
	} rows[] = {
		{multi | perf, 0, "uprobe_multi"}, /* 6.12 */
		{multi | perf, BIT(UPROBES), "uprobe_multi"},
		{multi | perf, BIT(PERF_LINK), "uprobe_multi"},
		{multi | perf, BIT(UPROBE_MULTI), "perf_event"},
		{multi | perf, BIT(UPROBE_MULTI_PID), "perf_event"},
		{multi | perf, BIT(UPROBE_MULTI) | BIT(PERF_LINK), "perf_ioctl"},
		{multi | perf, multi | perf, "none"},
		{multi | perf, BIT(UPROBE_MULTI) | BIT(UPROBES), "none"},
		{perf, BIT(UPROBES), "none"},
		{BIT(UPROBE_MULTI) | perf, 0, "perf_event"}, /* 6.6 */
		{perf, 0, "perf_event"},                     /* 6.1 */
		{BIT(UPROBES), 0, "perf_ioctl"},             /* 5.10 */
		{BIT(UPROBES), BIT(UPROBES), "none"},
		{BIT(PERF_LINK), 0, "none"},
		{multi, 0, "uprobe_multi"},
		{BIT(UPROBE_MULTI), 0, "none"},
		{0, 0, "none"},
	};
	int err;

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(rows); i++) {
		struct gt_features f = kernel(rows[i].has, 0);

		assert_string_equal(chosen(f, rows[i].without, GT_BACKEND_AUTO, &err),
				    rows[i].want);
		if (!strcmp(rows[i].want, "none"))
			assert_int_equal(err, -ENOTSUP);
		/* Who asks for one gets that one or nothing. */
		for (int b = GT_BACKEND_MULTI; b <= GT_BACKEND_IOCTL; b++) {
			const char *got = chosen(f, rows[i].without, (enum gt_backend)b, &err);

			assert_true(!strcmp(got, "none") || !strcmp(got, names[b]));
			if (!strcmp(rows[i].want, names[b]))
				assert_string_equal(got, names[b]);
		}
	}
}

/* Where we may not, another way is not taken silently. */
static void test_backend_without_rights(void **state)
{
	int err = 0;

	(void)state;
	assert_string_equal(
		chosen(kernel(BIT(UPROBES), BIT(UPROBE_MULTI)), 0, GT_BACKEND_AUTO, &err), "none");
	assert_int_equal(err, -EPERM);
	assert_string_equal(chosen(kernel(BIT(UPROBES), BIT(UPROBE_MULTI)), BIT(UPROBE_MULTI),
				   GT_BACKEND_AUTO, &err),
			    "perf_ioctl");
}

static void test_words(void **state)
{
	struct gt_features f = kernel((1u << GT_FEATURES) - 1 - BIT(PERF_LINK), 0);
	char text[GT_FEATURES_TEXT];

	(void)state;
	f.without = BIT(BTF);
	assert_false(gt_features_have(&f, GT_FEATURE_BTF));
	assert_false(gt_features_have(&f, GT_FEATURE_PERF_LINK));
	assert_non_null(strstr(f.of[GT_FEATURE_BTF].why, "--without"));
	assert_string_equal(gt_features_missing(&f, text), "perf-link");
	assert_string_equal(gt_features_without(&f, text), "btf");
	gt_features_lack(&f, GT_FEATURE_BTF, -EINVAL, "loading");
	assert_non_null(strstr(f.of[GT_FEATURE_BTF].why, "--without"));
	gt_features_lack(&f, GT_FEATURE_RING_SIZES, -EINVAL, "another ring");
	assert_non_null(strstr(f.of[GT_FEATURE_RING_SIZES].why, "another ring: Invalid argument"));
	assert_string_equal(gt_features_missing(&f, text), "ring-sizes perf-link");
	/* Parts go with the whole, whatever a try has told of them. */
	f.without = BIT(UPROBES);
	f.of[GT_FEATURE_PERF_LINK].found = GT_TRY_YES;
	assert_false(gt_features_have(&f, GT_FEATURE_PERF_LINK));
	assert_string_equal(f.of[GT_FEATURE_PERF_LINK].why, "uprobes is left out by --without");
	assert_string_equal(gt_features_without(&f, text), "uprobes");
}

/* The limit of locked memory is raised where it counts, and only there; in a child. */
static void test_memlock(void **state)
{
	struct rlimit low;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &low), 0);
	if (low.rlim_max < 2)
		skip();
	low.rlim_cur = 1;
	for (int counts = 0; counts < 2; counts++) {
		pid_t pid = fork();
		int status;

		if (!pid) {
			struct gt_features f = kernel(~0u, 0);
			struct rlimit lim;

			f.without = counts ? BIT(MEMCG_MEMORY) : 0;
			if (setrlimit(RLIMIT_MEMLOCK, &low) || gt_features_prepare(&f) ||
			    getrlimit(RLIMIT_MEMLOCK, &lim))
				_exit(2);
			_exit(lim.rlim_cur != (counts ? lim.rlim_max : low.rlim_cur) ||
			      lim.rlim_max < low.rlim_max);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_table_is_whole),
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_backend),
		cmocka_unit_test(test_backend_without_rights),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_memlock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
