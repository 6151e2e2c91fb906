// SPDX-License-Identifier: Apache-2.0
#include "log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>

static struct {
	const char *program;
	enum gt_log_level max;
	int status_shown;
} log_state = {"giltrace", GT_LOG_INFO, 0};

/* Lines that are kept back, each ending with a newline. */
static _Thread_local struct {
	int on;
	size_t len;
	char text[4096];
} held;

void gt_log_setup(const char *program, enum gt_log_level max)
{
	log_state.program = program;
	log_state.max = max;
}

enum gt_log_level gt_log_max(void)
{
	return log_state.max;
}

void gt_defuse(char *text)
{
	for (unsigned char *c = (unsigned char *)text; *c; c++) {
		/* U+0080 .. U+009f are control characters, too: 0xc2 0x80 .. 0xc2 0x9f in UTF-8. */
		if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
			c[0] = c[1] = '?';
		else if (*c < 0x20 || *c == 0x7f)
			*c = '?';
	}
}

static void clear_status(void)
{
	if (log_state.status_shown)
		fputs("\r\033[K", stderr);
	log_state.status_shown = 0;
}

void gt_log(enum gt_log_level level, const char *fmt, ...)
{
	static const char *const prefix[] = {"", "warning: ", "", "", ""};
	char line[2048];
	va_list ap;

	if (level > log_state.max)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	gt_defuse(line);
	if (held.on) {
		size_t room = sizeof(held.text) - held.len;
		int n = snprintf(held.text + held.len, room, "%s: %s%s\n", log_state.program,
				 prefix[level], line);

		if (n > 0 && (size_t)n < room)
			held.len += (size_t)n;
		return;
	}
	flockfile(stderr);
	clear_status();
	fprintf(stderr, "%s: %s%s\n", log_state.program, prefix[level], line);
	funlockfile(stderr);
}

void gt_log_hold(void)
{
	held.on = 1;
	held.len = 0;
}

void gt_log_release(int print)
{
	held.on = 0;
	if (!print || !held.len)
		return;
	flockfile(stderr);
	clear_status();
	fwrite(held.text, 1, held.len, stderr);
	funlockfile(stderr);
}

void gt_status(const char *fmt, ...)
{
	char line[256];
	va_list ap;

	if (log_state.max < GT_LOG_INFO || !isatty(STDERR_FILENO))
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	gt_defuse(line);
	flockfile(stderr);
	clear_status();
	fputs(line, stderr);
	log_state.status_shown = line[0] != '\0';
	fflush(stderr);
	funlockfile(stderr);
}

int gt_fill_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}
