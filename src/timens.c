// SPDX-License-Identifier: Apache-2.0
#include "timens.h"

#define NS_PER_S 1000000000

/* "monotonic  SECONDS  NANOSECONDS"; names instead of numbers since Linux 5.7. */
static int parse_clock(const char *text, const char *name, int64_t *out)
{
	const char *at = strstr(text, name);
	long long s, ns;
	char *end;
	int64_t v;

	if (!at)
		return -EPROTO;
	errno = 0;
	s = strtoll(at + strlen(name), &end, 10);
	ns = strtoll(end, &end, 10);
	if (errno || *end != '\n' || __builtin_mul_overflow(s, NS_PER_S, &v) ||
	    __builtin_add_overflow(v, ns, &v) || v < -GT_TIMENS_NS_MAX || v > GT_TIMENS_NS_MAX)
		return -EPROTO;
	*out = v;
	return 0;
}

int gt_timens_parse(const char *text, int64_t *mono_ns, int64_t *boot_ns)
{
	int64_t mono, boot;

	if (parse_clock(text, "monotonic ", &mono) || parse_clock(text, "boottime ", &boot))
		return -EPROTO;
	*mono_ns = mono;
	*boot_ns = boot;
	return 0;
}
