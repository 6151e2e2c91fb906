/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oldfix.h - for tests of oldjson.h: a file in a folder of its own, imported and read again. What
 * is logged meanwhile is kept. Needs cmocka.h before it.
 */
#ifndef GT_TEST_OLDFIX_H
#define GT_TEST_OLDFIX_H

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "giltrace/gilfile.h"
#include "log.h"
#include "oldjson.h"

static char old_dir[64];      /* of old_setup() */
static char old_log[8192];    /* of the latest old_import() */
static char old_text[262144]; /* of the latest old_events() */

static inline int old_setup(void **state)
{
	(void)state;
	snprintf(old_dir, sizeof(old_dir), "/tmp/gt-test-old-XXXXXX");
	gt_log_setup("test", GT_LOG_INFO);
	return mkdtemp(old_dir) ? 0 : -1;
}

static inline int old_teardown(void **state)
{
	(void)state;
	return rmdir(old_dir);
}

static inline const char *old_path(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", old_dir, name);
	return path;
}

static inline const char *old_write(const char *name, const char *text, size_t n)
{
	const char *path = old_path(name);
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
	return path;
}

/*
 * "Xt7@100+2.5 Bd8@101 {}": [ then a record for each word, with pid 3, then what is in `end`. B, E,
 * X and t, d tell phase and name, then come tid, ts, dur as they are to stand there. A word that
 * begins otherwise is taken as it is.
 */
static inline const char *old_json(const char *words, const char *end)
{
	static char text[16384];
	size_t n = (size_t)sprintf(text, "[");

	while (*words) {
		size_t len = strcspn(words, " "), at = strcspn(words, "@");
		size_t ts = strcspn(words + at, "+ ");

		assert_true(n + len + 128 < sizeof(text));
		if (n > 1)
			n += (size_t)sprintf(text + n, ",\n");
		if (!strchr("BEX", *words)) {
			n += (size_t)sprintf(text + n, "%.*s", (int)len, words);
		} else {
			n += (size_t)sprintf(text + n,
					     "{\"name\":\"%s_gil\",\"ph\":\"%c\",\"ts\":%.*s,",
					     words[1] == 't' ? "take" : "drop", *words, (int)ts - 1,
					     words + at + 1);
			if (at + ts < len)
				n += (size_t)sprintf(text + n, "\"dur\":%.*s,",
						     (int)(len - at - ts - 1), words + at + ts + 1);
			n += (size_t)sprintf(text + n, "\"pid\":\"3\",\"tid\":\"GIL_%.*s\"}",
					     (int)at - 2, words + 2);
		}
		words += len + (words[len] == ' ');
	}
	sprintf(text + n, "%s", end);
	return text;
}

/* gt_oldjson_import() with standard error going to old_log. */
static inline int old_import_quietly(const char *path, char *why, size_t size)
{
	int log = memfd_create("log", MFD_CLOEXEC), keep = dup(STDERR_FILENO), fd;
	ssize_t n;

	assert_true(log >= 0 && keep >= 0);
	fflush(stderr);
	assert_true(dup2(log, STDERR_FILENO) >= 0);
	fd = gt_oldjson_import(path, why, size);
	fflush(stderr);
	assert_true(dup2(keep, STDERR_FILENO) >= 0);
	n = pread(log, old_log, sizeof(old_log) - 1, 0);
	assert_true(n >= 0);
	old_log[n] = '\0';
	close(log);
	close(keep);
	return fd;
}

static inline gil_reader *old_import_file(const char *path)
{
	char why[512] = "";
	gil_reader *r = NULL;
	int fd = old_import_quietly(path, why, sizeof(why));

	if (fd < 0)
		fail_msg("%s", why);
	if (gil_reader_open_fd(fd, path, &r, why, sizeof(why)))
		fail_msg("%s", why);
	return r;
}

static inline gil_reader *old_import(const char *name, const char *text)
{
	const char *path = old_write(name, text, strlen(text));
	gil_reader *r = old_import_file(path);

	assert_int_equal(unlink(path), 0);
	return r;
}

/* "T7@1000 A7@3000 ...": the letters of TAKE, ACQUIRE, RELEASE, DROPPED; times in ns. */
static inline const char *old_events(gil_reader *r)
{
	static const char letters[16] = {
		[GIL_TAKE] = 'T', [GIL_ACQUIRE] = 'A', [GIL_RELEASE] = 'R', [GIL_DROPPED] = 'D'};
	struct gil_event ev;
	size_t n = 0;

	old_text[0] = '\0';
	while (gil_reader_next(r, &ev)) {
		assert_true(ev.kind < sizeof(letters) && letters[ev.kind]);
		assert_true(!ev.gil && !ev.site && !ev.forced);
		n += (size_t)snprintf(old_text + n, sizeof(old_text) - n, "%s%c%u@%llu",
				      n ? " " : "", letters[ev.kind], ev.tid,
				      (unsigned long long)ev.mono_ns);
		assert_true(n < sizeof(old_text));
	}
	assert_null(gil_reader_problem(r));
	return old_text;
}

#endif
