// SPDX-License-Identifier: Apache-2.0
#include "profnames.h"

#include <stdio.h>

#define PID_MAX   4194304 /* Linux: PID_MAX_LIMIT */
#define RANK_MAX  99999   /* MindStudio Insight takes five digits */
#define TIME_MIN  8       /* digits of a time in a name, at least */
#define DIGIT(c)  ((c) >= '0' && (c) <= '9')
#define LETTER(c) (((c) >= 'a' && (c) <= 'z') || ((c) >= 'A' && (c) <= 'Z'))

int gt_name_ends(const char *name, const char *suffix)
{
	size_t n = strlen(name), m = strlen(suffix);

	return n > m && !strcmp(name + n - m, suffix);
}

static int starts(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

/* How many digits end at name + end. */
static size_t digits_before(const char *name, size_t end)
{
	size_t n = 0;

	while (n < end && DIGIT(name[end - n - 1]))
		n++;
	return n;
}

/* Of n digits; -1: too great. */
static int64_t number(const char *p, size_t n, int64_t max)
{
	int64_t v = 0;

	for (size_t i = 0; i < n; i++) {
		if (v > (max - (p[i] - '0')) / 10)
			return -1;
		v = v * 10 + (p[i] - '0');
	}
	return n ? v : -1;
}

static const char *const ascend_suffixes[] = {"_ascend_pt", "_ascend_ms"};

int gt_name_is_ascend(const char *name)
{
	return gt_name_ends(name, ascend_suffixes[0]) || gt_name_ends(name, ascend_suffixes[1]);
}

const char *gt_name_suffix(const char *name)
{
	size_t n = strlen(name);

	return gt_name_is_ascend(name) ? name + n - strlen(ascend_suffixes[0]) : name + n;
}

int gt_name_is_kineto(const char *name)
{
	return gt_name_ends(name, ".pt.trace.json") || gt_name_ends(name, ".pt.trace.json.gz");
}

int gt_name_is_prof(const char *name)
{
	size_t n;

	if (!starts(name, "PROF_"))
		return 0;
	name += 5;
	for (int i = 0; i < 2; i++) {
		for (n = 0; DIGIT(name[n]); n++)
			;
		if (!n || name[n] != '_')
			return 0;
		name += n + 1;
	}
	for (n = 0; DIGIT(name[n]) || LETTER(name[n]); n++)
		;
	return n && !name[n];
}

/* The pid in front of name + end, behind a "_" and something else. */
static int64_t pid_before(const char *name, size_t end)
{
	size_t n = digits_before(name, end);
	int64_t pid;

	if (n + 2 > end || name[end - n - 1] != '_')
		return -1;
	pid = number(name + end - n, n, PID_MAX);
	return pid > 0 ? pid : -1;
}

int64_t gt_name_pid(const char *name)
{
	char by = gt_name_is_ascend(name) ? '_' : '.';
	size_t end, n;

	if (by == '_')
		end = strlen(name) - strlen(ascend_suffixes[0]);
	else if (gt_name_is_kineto(name))
		end = (size_t)(strstr(name, ".pt.trace.json") - name);
	else
		return -1;
	n = digits_before(name, end);
	if (n < TIME_MIN || n + 1 > end || name[end - n - 1] != by)
		return -1;
	return pid_before(name, end - n - 1);
}

/* PREFIX_<number>SUFFIX */
static int64_t number_in(const char *name, const char *prefix, const char *suffix)
{
	size_t from = strlen(prefix), n;

	if (!starts(name, prefix) || !gt_name_ends(name, suffix))
		return -1;
	n = digits_before(name, strlen(name) - strlen(suffix));
	if (from + n + strlen(suffix) != strlen(name))
		return -1;
	return number(name + from, n, RANK_MAX);
}

int64_t gt_name_rank(const char *name)
{
	int64_t rank = number_in(name, "profiler_info_", ".json");

	if (rank < 0)
		rank = number_in(name, "ascend_pytorch_profiler_", ".db");
	if (rank < 0)
		rank = number_in(name, "ascend_mindspore_profiler_", ".db");
	return rank;
}

int gt_name_is_database(const char *name)
{
	return gt_name_ends(name, ".db") && (starts(name, "ascend_pytorch_profiler") ||
					     starts(name, "ascend_mindspore_profiler") ||
					     (starts(name, "msprof_") && DIGIT(name[7])));
}

int64_t gt_name_msprof(const char *name)
{
	const char *p = name;
	size_t n = 0;
	int numbers = 0;

	if (!starts(p, "msprof_") || !gt_name_ends(p, ".json"))
		return -1;
	p += 6;
	if (starts(p, "_slice_"))
		p += 6;
	for (; *p == '_' && numbers < 4; numbers++) {
		for (n = 0; DIGIT(p[1 + n]); n++)
			;
		if (!n)
			return -1;
		p += 1 + n;
	}
	if (!numbers || strcmp(p, ".json"))
		return -1;
	return number(p - n, n, INT64_MAX);
}

/* Length of a character of UTF-8 as it may stand in a file's name; 0: it may not. */
static size_t character(const unsigned char *p)
{
	size_t n = p[0] < 0x80   ? 1
		   : p[0] < 0xc2 ? 0
		   : p[0] < 0xe0 ? 2
		   : p[0] < 0xf0 ? 3
		   : p[0] < 0xf5 ? 4
				 : 0;

	if (n == 1)
		return p[0] > ' ' && p[0] < 0x7f && !strchr("/\\\"'`$:*?<>|&;!", p[0]);
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	/* Longer than needed, a surrogate, beyond the last character; C1 controls. */
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f) ||
	    (p[0] == 0xc2 && p[1] < 0xa0))
		return 0;
	return n;
}

void gt_name_clean(char buf[GT_NAME_MAX + 1], const char *name)
{
	static const char *const endings[] = {".gz", ".json", ".pt.trace"};
	size_t len = strlen(name), used = 0, n;

	for (size_t i = 0; i < GT_ARRAY_SIZE(endings); i++) {
		n = strlen(endings[i]);
		if (len > n && !memcmp(name + len - n, endings[i], n))
			len -= n;
	}
	for (size_t i = 0; i < len; i += n ? n : 1) {
		n = character((const unsigned char *)name + i);
		if (used + (n ? n : 1) > GT_NAME_MAX || i + n > len)
			break;
		if (!n || (!i && (name[i] == '.' || name[i] == '-'))) {
			buf[used++] = '_';
			continue;
		}
		memcpy(buf + used, name + i, n);
		used += n;
	}
	if (!used)
		buf[used++] = '_';
	buf[used] = '\0';
}
