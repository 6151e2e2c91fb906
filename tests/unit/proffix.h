/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proffix.h - for the tests of what a Profiler has left: folder trees and recordings made by the
 * test. Everything fails the test if it cannot be had. Needs cmocka.h before it.
 */
#ifndef GT_PROFFIX_H
#define GT_PROFFIX_H

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

#include "gilfile_write.h"

static char base[32];

static inline const char *in_base(const char *name)
{
	static char path[256][1024];
	static unsigned int next;
	char *p = path[next++ % 256];

	snprintf(p, sizeof(path[0]), "%s%s%s", base, *name ? "/" : "", name);
	return p;
}

static inline int make_base(void **state)
{
	(void)state;
	/* In memory, if that can be: one test makes thousands of files. */
	strcpy(base, "/dev/shm/test_prof.XXXXXX");
	if (mkdtemp(base))
		return 0;
	strcpy(base, "/tmp/test_prof.XXXXXX");
	return mkdtemp(base) ? 0 : -1;
}

static inline int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline int remove_base(void **state)
{
	(void)state;
	return nftw(base, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* The folders on the way to a file. */
static inline void make_parents(const char *path)
{
	char part[4096];

	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		if (mkdir(part, 0755))
			assert_int_equal(errno, EEXIST);
	}
}

static inline void put_bytes(const char *name, const void *bytes, size_t n)
{
	const char *path = in_base(name);
	int fd;

	make_parents(path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), (ssize_t)n);
	close(fd);
}

static inline void put(const char *name, const char *text)
{
	put_bytes(name, text, strlen(text));
}

static inline void put_dir(const char *name)
{
	const char *path = in_base(name);

	make_parents(path);
	if (mkdir(path, 0755))
		assert_int_equal(errno, EEXIST);
}

/* A recording without events. */
static inline gil_reader *recording(const struct gil_clock *clocks, size_t n,
				    const char *const (*meta)[2], size_t nmeta)
{
	const char *path = in_base("recording.gil");
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	struct gt_gilfile *f;
	gil_reader *r;
	char why[512];

	assert_true(fd >= 0);
	assert_int_equal(gt_gilfile_create(fd, &f), 0);
	if (nmeta)
		assert_int_equal(gt_gilfile_meta(f, meta, nmeta), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(gt_gilfile_clock(f, &clocks[i]), 0);
	assert_int_equal(
		gt_gilfile_finish(f, GIL_END_STOPPED, n ? clocks[n - 1].mono_ns : 1000, 0, NULL),
		0);
	assert_int_equal(gil_reader_open(path, &r, why, sizeof(why)), 0);
	return r;
}

#endif
