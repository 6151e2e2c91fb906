// SPDX-License-Identifier: Apache-2.0
/* joint.c: --from and --to on an axis that is not Unix time. The rest is tested with gil2trace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>

#include "joint.h"
#include "log.h"
#include "options.h"
#include "proffix.h"

#define S 1000000000ull

/* The axis of the Profiler is 3 s ahead of Unix time, as where its clocks are far apart. */
#define MONO  (1000 * S)
#define UNIX  (1736405443 * S)
#define ASIDE (3 * S)

/* A hold in the first half of each of ten seconds. */
static void put_recording(void)
{
	static const char *const meta[][2] = {{"process.pid", "41"}};
	int fd = open(in_base("r.gil"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	struct gt_gilfile *f;

	assert_true(fd >= 0);
	assert_int_equal(gt_gilfile_create(fd, &f), 0);
	assert_int_equal(gt_gilfile_meta(f, meta, 1), 0);
	for (uint64_t i = 0; i <= 10; i++) {
		const struct gil_clock clock = {.mono_ns = MONO + i * S,
						.raw_ns = MONO + i * S,
						.unix_ns = UNIX + i * S,
						.boot_ns = MONO + i * S};
		const struct gil_event events[] = {
			{.kind = GIL_ACQUIRE, .mono_ns = MONO + i * S + 1, .tid = 41},
			{.kind = GIL_RELEASE, .mono_ns = MONO + i * S + S / 2, .tid = 41}};

		assert_int_equal(gt_gilfile_clock(f, &clock), 0);
		for (int k = 0; k < 2 && i < 10; k++)
			assert_int_equal(gt_gilfile_add(f, &events[k], 0), 0);
		assert_int_equal(gt_gilfile_flush(f, 0), 0);
	}
	assert_int_equal(gt_gilfile_finish(f, GIL_END_STOPPED, MONO + 10 * S, 0, NULL), 0);
}

static void put_profiler(void)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "[{\"ph\":\"X\",\"name\":\"a\",\"pid\":41,\"tid\":41,\"ts\":\"%llu.000\",\"dur\":"
		 "9000000}]",
		 (UNIX + ASIDE) / 1000);
	put("h_41_20250109065043123_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json", text);
	snprintf(text, sizeof(text),
		 "{\"collectionTimeBegin\": \"%llu\", \"clockMonotonicRaw\": \"%llu\"}",
		 (UNIX + ASIDE) / 1000, MONO);
	put("h_41_20250109065043123_ascend_pt/PROF_000001_20250109065043_ABCDEFGH/host/start_info",
	    text);
}

/* Which of the ten holds are in what is written, a letter for each. */
static void expect(const struct gt_filter_opts *filter, int from_relative, int to_relative,
		   const char *want)
{
	const char *recording = in_base("r.gil"),
		   *profiler = in_base("h_41_20250109065043123_ascend_pt");
	struct gt_inputs in = {0};
	struct gt_outset outs = {.inputs = &in};
	struct gt_profilers p = {0};
	const struct gt_joint_opts o = {.outs = &outs,
					.output = in_base("out.json"),
					.filter = *filter,
					.from_relative = (uint8_t)from_relative,
					.to_relative = (uint8_t)to_relative};
	char *text = calloc(1, 1 << 20), got[11] = "..........";
	int fd;

	assert_int_equal(gt_inputs_add_all(&in, &recording, 1), 0);
	assert_int_equal(gt_profilers_find(&p, &profiler, 1), 0);
	assert_int_equal(gt_joint(&o, &in, &p), EXIT_WHOLE);
	fd = open(o.output, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && text);
	assert_true(read(fd, text, (1 << 20) - 1) > 0);
	close(fd);
	for (unsigned int i = 0; i < 10; i++) {
		char ts[64];

		snprintf(ts, sizeof(ts), "\"ts\":\"%llu.001\"", (UNIX + ASIDE + i * S) / 1000);
		if (strstr(text, ts))
			got[i] = (char)('0' + i);
	}
	assert_string_equal(got, want);
	free(text);
	gt_profilers_free(&p);
	gt_outset_fini(&outs);
	gt_inputs_free(&in);
}

/* As gil2trace resolves them: against the recording's start in Unix time. */
static void relative_times(void **state)
{
	struct gt_filter_opts f = {.from_ns = UNIX + 2 * S};

	(void)state;
	put_recording();
	put_profiler();
	expect(&f, 1, 0, "..23456789");
	f.to_ns = UNIX + 4 * S;
	expect(&f, 1, 1, "..23......");
	f.from_ns = 0;
	expect(&f, 0, 1, "0123......");
	/* What is given as it is, is on the axis. */
	f.from_ns = UNIX + ASIDE + 5 * S;
	f.to_ns = 0;
	expect(&f, 0, 0, ".....56789");
	f.to_ns = UNIX + 7 * S;
	expect(&f, 0, 1, ".....56...");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(relative_times, make_base, remove_base),
	};

	gt_log_setup("test_joint", GT_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
