// SPDX-License-Identifier: Apache-2.0
#include "request.h"

/* Digits and what follows them: *s then stands on that. */
static int take_number(const char **s, uint64_t max, uint64_t *out)
{
	char *end;

	if (**s < '0' || **s > '9')
		return -EINVAL;
	errno = 0;
	*out = strtoull(*s, &end, 10);
	*s = end;
	return errno || *out > max ? -EINVAL : 0;
}

static int take_blank(const char **s)
{
	if (**s != ' ')
		return -EINVAL;
	++*s;
	return 0;
}

/* "<mono_ns> <tid> <name>" */
static int parse_mark(const char *rest, struct gt_request *out, const char **why)
{
	uint64_t tid;

	*why = "a mark is: mark <mono_ns> <tid> <name>";
	if (take_number(&rest, UINT64_MAX, &out->mono_ns) || take_blank(&rest) ||
	    take_number(&rest, INT32_MAX, &tid) || take_blank(&rest) || !*rest)
		return -EINVAL;
	out->ns_tid = (uint32_t)tid;
	out->name = rest;
	return 0;
}

/* What follows a packet's first word; NULL: it is another one. */
static const char *behind(const char *packet, const char *word, char end)
{
	size_t len = strlen(word);

	return !strncmp(packet, word, len) && packet[len] == end ? packet + len + !!end : NULL;
}

int gt_request_parse(const char *packet, size_t size, struct gt_request *out, const char **why)
{
	static const struct {
		const char *word;
		enum gt_request_kind kind;
	} plain[] = {
		{"pause", GT_REQUEST_PAUSE},   {"resume", GT_REQUEST_RESUME},
		{"status", GT_REQUEST_STATUS}, {"dump", GT_REQUEST_DUMP},
		{"stop", GT_REQUEST_STOP},
	};
	const char *rest;

	*out = (struct gt_request){0};
	*why = "not understood";
	if (strlen(packet) != size) {
		*why = "a NUL in a packet";
		return -EINVAL;
	}
	rest = behind(packet, "mark", ' ');
	if (rest) {
		out->kind = GT_REQUEST_MARK;
		return parse_mark(rest, out, why);
	}
	rest = behind(packet, "threads", '\n');
	if (rest) {
		out->kind = GT_REQUEST_THREADS;
		out->lines = rest;
		return 0;
	}
	for (size_t i = 0; i < GT_ARRAY_SIZE(plain); i++) {
		if (!behind(packet, plain[i].word, '\0'))
			continue;
		out->kind = plain[i].kind;
		return 0;
	}
	return -EINVAL;
}

/* As much of a name as there is room for, cut between two characters where it is UTF-8. */
static size_t cut(const char *name, size_t len)
{
	size_t n = GT_PYNAME_LEN - 1;

	if (len <= n)
		return len;
	while (n > GT_PYNAME_LEN - 4 && ((unsigned char)name[n] & 0xc0) == 0x80)
		n--;
	return n;
}

int gt_request_thread(struct gt_request *rq, struct gt_pyname *out)
{
	while (*rq->lines) {
		const char *line = rq->lines;
		size_t len = strcspn(line, "\n");
		const char *end = line + len;
		uint64_t tid;

		rq->lines = *end ? end + 1 : end;
		if (take_number(&line, INT32_MAX, &tid) || !tid || take_blank(&line) || line >= end)
			continue;
		len = cut(line, (size_t)(end - line));
		*out = (struct gt_pyname){.ns_tid = (uint32_t)tid};
		memcpy(out->name, line, len);
		return 1;
	}
	return 0;
}
