// SPDX-License-Identifier: Apache-2.0
/* A summary of what is not known: that it says so, and never 0 or none for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sumtext.h"

/* Nothing was lost where it only began late, or cannot be read to its end. */
static void no_record_is_no_loss(void **unused)
{
	gt_autofree char *text = NULL;
	struct feed f;

	(void)unused;
	in_locale("C");
	feed_open(&f);
	feed_process(&f, 1, -1, "p", 60000);
	feed_gap(&f, 0, 2500, 0);
	feed_hold(&f, 1, 3000, 57500, GT_FORCED_NO);
	feed_end(&f, (struct gt_sink_end){.problem = "block 9 is torn"});
	feed_finish(&f);
	text = feed_text(f.s, 0);
	check_lines(text);
	assert_has(text,
		   "  no record|!!!                                                      !!!|\n");
	assert_has_not(text, "  lost ");
	assert_has(text, "there is no record of a part of it; ?: of all\n");
	gt_summary_free(f.s);
}

/* A thread that has the GIL all the time makes no events: what is not seen is not 0. */
static void silence_is_not_zero(void **unused)
{
	static const char said[] = "no take or release was seen: a thread that has the GIL all the "
				   "time does not show\n";
	gt_autofree char *text = NULL, *brief = NULL;
	struct feed f;
	cJSON *json;

	(void)unused;
	in_locale("C");
	feed_open(&f);
	feed_process(&f, 1, -1, "busy", 60000);
	feed_thread(&f, 3, "only its end was seen", 0, 0);
	feed_end(&f, (struct gt_sink_end){0});
	feed_process(&f, 2, -1, "waits for what is not seen", 60000);
	feed_take(&f, 2, 0, 30000, 0);
	feed_thread(&f, 2, "a", 60000, 0);
	feed_end(&f, (struct gt_sink_end){0});
	feed_finish(&f);
	text = feed_text(f.s, 0);
	check_lines(text);
	assert_has(text, said);
	assert_has(text, "\n     -        1        -        -        -        -         0  busy\n");
	assert_has(text, "\n     -        2    50.0%    50.0%     0.50        -         0  waits");
	assert_has(text, "\n  GIL held: not known, as no hold was seen\n  0.50 threads waiting");
	assert_has_not(text, "0.00 threads waiting");
	assert_has_not(text, "only its end");
	assert_has_not(text, "GIL held 0.0%");
	brief = feed_text(f.s, 1);
	assert_has(brief, said);
	assert_has(brief, "GIL held - of 60.0 us, 0.50 threads");
	assert_has_not(brief, "held 0.0%");
	json = feed_json(f.s);
	assert_int_equal(cJSON_GetArraySize(feed_at(json, "processes.0.gils")), 0);
	assert_true(cJSON_IsNull(feed_at(json, "processes.0.contention")));
	assert_number(json, "processes.1.contention", 0.5);
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

static void uncounted_losses(void **unused)
{
	gt_autofree char *text = NULL;
	struct feed f;
	cJSON *json;

	(void)unused;
	in_locale("C");
	feed_open(&f);
	for (uint64_t i = 0; i < 3; i++) {
		feed_process(&f, 1 + i, -1, "p", 60000);
		feed_hold(&f, 1, 0, 1000, GT_FORCED_NO);
		feed_end(&f, (struct gt_sink_end){.lost_unknown = i != 1, .lost = i == 2 ? 7 : 0});
	}
	feed_finish(&f);
	text = feed_text(f.s, 0);
	check_lines(text);
	assert_has(text, "recorded: 0 events, 1 thread, losses not counted\n");
	assert_has(text, "recorded: 0 events, 1 thread, 0 lost\n");
	assert_has(text, "recorded: 0 events, 1 thread, 7 lost\n");
	assert_has(text, " not known  p\n");
	json = feed_json(f.s);
	for (int i = 0; i < 3; i++) {
		const cJSON *p = cJSON_GetArrayItem(feed_at(json, "processes"), i);

		assert_int_equal(cJSON_IsTrue(feed_at(p, "lost_known")), i == 1);
	}
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_record_is_no_loss),
		cmocka_unit_test(silence_is_not_zero),
		cmocka_unit_test(uncounted_losses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
