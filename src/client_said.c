// SPDX-License-Identifier: Apache-2.0
#include "client_said.h"

int gt_said_read(struct gt_said *s, int fd)
{
	for (;;) {
		char more[512];
		ssize_t n = read(fd, more, sizeof(more));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 && errno == EAGAIN;
		for (ssize_t i = 0; i < n && s->len < sizeof(s->text) - 1; i++) {
			unsigned char c = (unsigned char)more[i];

			if ((c < ' ' && c != '\n') || c == 0x7f)
				more[i] = '?';
			s->text[s->len++] = more[i];
		}
		s->text[s->len] = '\0';
	}
}

/*
 * What follows "giltrace: " in a line, or "/usr/bin/giltrace-1.2: ", since getopt(3) says how it
 * was called; NULL: it is another program's.
 */
static const char *own_line(const char *line)
{
	static const char own[] = "giltrace";
	const char *end = line + strcspn(line, ": \n"), *base = end;

	while (base > line && base[-1] != '/')
		base--;
	if (strncmp(base, own, strlen(own)) != 0 || end[0] != ':' || end[1] != ' ')
		return NULL;
	return end + 2;
}

struct out {
	char *text;
	size_t size, used;
};

static void add_line(struct out *o, const char *text, size_t len)
{
	if (o->used + len + 2 > o->size)
		return;
	if (o->used)
		o->text[o->used++] = '\n';
	memcpy(o->text + o->used, text, len);
	o->used += len;
	o->text[o->used] = '\0';
}

/* Either the warnings or all else. */
static void add_lines(struct out *o, const char *line, int warnings)
{
	static const char mark[] = "warning: ";
	const char *end;

	for (; *line; line = *end ? end + 1 : end) {
		const char *text = own_line(line);

		text = text ? text : line;
		end = strchrnul(line, '\n');
		if ((strncmp(text, mark, strlen(mark)) == 0) != warnings)
			continue;
		text += warnings ? strlen(mark) : 0;
		/* argp's hint behind its errors. */
		if (text < end && strncmp(text, "Try `", 5) != 0)
			add_line(o, text, (size_t)(end - text));
	}
}

void gt_said_failure(const struct gt_said *s, size_t from, char *text, size_t size)
{
	struct out o = {.text = text, .size = size};

	text[0] = '\0';
	add_lines(&o, s->text + from, 0);
	if (!o.used)
		add_lines(&o, s->text + from, 1);
}

int gt_said_by_giltrace(const struct gt_said *s)
{
	for (const char *line = s->text; line && *line;) {
		if (own_line(line))
			return 1;
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return 0;
}
