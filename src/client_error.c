// SPDX-License-Identifier: Apache-2.0
#include "client_error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char words[GT_FAIL_MAX];

int gt_fail(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(words, sizeof(words), fmt, ap) < 0)
		words[0] = '\0';
	va_end(ap);
	return err;
}

const char *gt_fail_text(void)
{
	return words;
}
