// SPDX-License-Identifier: Apache-2.0
/* log.c: what comes from outside cannot drive the terminal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "log.h"

static void assert_defused(const char *from, const char *to)
{
	char text[64];

	strcpy(text, from);
	gt_defuse(text);
	assert_string_equal(text, to);
}

static void control_characters_become_question_marks(void **state)
{
	(void)state;
	assert_defused("plain", "plain");
	assert_defused("\x1b[31m\n\t\x7f", "?[31m???");
	assert_defused("caf\xc3\xa9", "caf\xc3\xa9");
	assert_defused("a\xc2\x9b"
		       "31m",
		       "a??31m"); /* CSI as one character */
	assert_defused("\xc2\xa0", "\xc2\xa0");
	assert_defused("\xc2", "\xc2"); /* cut off */
	assert_defused("", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(control_characters_become_question_marks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
