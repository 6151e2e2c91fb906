/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gilfix.h - for tests of the resolver: builds tests/fixtures/gil.c with the machine's compilers,
 * maps files, runs tools, and finds the Pythons of the machine. cmocka.h comes before.
 */
#ifndef GT_TEST_GILFIX_H
#define GT_TEST_GILFIX_H

#include "image.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define FIX_ARGS 24

/* A folder that everybody may enter, made at the first call; removed by fix_clean(). */
static char fix_folder[64];

static inline const char *fix_dir(void)
{
	if (!fix_folder[0]) {
		strcpy(fix_folder, "/tmp/giltrace-test-XXXXXX");
		assert_non_null(mkdtemp(fix_folder));
		assert_int_equal(chmod(fix_folder, 0755), 0);
	}
	return fix_folder;
}

static inline void fix_path(char buf[PATH_MAX], const char *name)
{
	snprintf(buf, PATH_MAX, "%s/%s", fix_dir(), name);
}

/* Runs a tool; `out` becomes its standard output if it is not NULL. Its exit status, or -1. */
static inline int fix_run(char *const argv[], FILE **out)
{
	int p[2], status;
	pid_t pid;

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(out ? p[1] : null, 1);
		if (!getenv("GT_TEST_VERBOSE"))
			dup2(null, 2);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(p[1]);
	if (out) { /* the caller reads to the end; the child is reaped by fix_done() */
		*out = fdopen(p[0], "r");
		assert_non_null(*out);
		return (int)pid;
	}
	close(p[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline int fix_done(FILE *out, int pid)
{
	int status;

	fclose(out);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline int fix_has(const char *tool)
{
	char *const argv[] = {(char *)tool, (char *)"--version", NULL};

	return fix_run(argv, NULL) == 0;
}

static inline void fix_clean(void)
{
	char *const argv[] = {(char *)"rm", (char *)"-rf", fix_folder, NULL};

	if (fix_folder[0])
		assert_int_equal(fix_run(argv, NULL), 0);
	fix_folder[0] = 0;
}

/* For cmocka_run_group_tests(). */
static inline int fix_teardown(void **state)
{
	(void)state;
	fix_clean();
	return 0;
}

/* Compiles the fixture; `options` are separated by single spaces. */
static inline void fix_build(const char *cc, const char *options, const char *name,
			     char path[PATH_MAX])
{
	const char *source = getenv("GT_SOURCE_DIR");
	char file[PATH_MAX], opts[512];
	char *argv[FIX_ARGS], *save = NULL;
	int n = 0;

	snprintf(file, sizeof(file), "%s/tests/fixtures/gil.c", source ? source : ".");
	snprintf(opts, sizeof(opts), "%s", options);
	fix_path(path, name);
	argv[n++] = (char *)cc;
	for (char *o = strtok_r(opts, " ", &save); o && n < FIX_ARGS - 5;
	     o = strtok_r(NULL, " ", &save))
		argv[n++] = o;
	argv[n++] = (char *)"-o";
	argv[n++] = path;
	argv[n++] = file;
	argv[n] = NULL;
	if (fix_run(argv, NULL))
		fail_msg("%s %s: cannot compile %s", cc, options, file);
}

static inline int fix_tool(const char *tool, const char *a, const char *b, const char *c,
			   const char *d)
{
	char *const argv[] = {(char *)tool, (char *)a, (char *)b, (char *)c, (char *)d, NULL};

	return fix_run(argv, NULL);
}

struct fix_map {
	const uint8_t *data;
	size_t size;
};

static inline struct fix_map fix_map(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct fix_map m;
	struct stat st;

	if (fd < 0 || fstat(fd, &st)) {
		print_message("%s: %s\n", path, strerror(errno));
		abort(); /* not fail_msg(): the analyser must see that it ends here */
	}
	m.size = (size_t)st.st_size;
	m.data = mmap(NULL, m.size, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(m.data != MAP_FAILED);
	close(fd);
	return m;
}

static inline void fix_unmap(struct fix_map m)
{
	munmap((void *)(uintptr_t)m.data, m.size);
}

static inline struct gt_image fix_image(struct fix_map m)
{
	struct gt_image img;
	const char *why;

	if (gt_image_open(&img, m.data, m.size, &why))
		fail_msg("%s", why);
	return img;
}

/*
 * Files with CPython's GIL code on this machine: pyenv's, the system's, the one in PATH, and those
 * named in GT_TEST_PYTHONS (separated by colons), each once. The caller frees with globfree().
 */
static inline void fix_pythons(glob_t *g)
{
	const char *home = getenv("HOME"), *root = getenv("PYENV_ROOT"), *more;
	char pattern[PATH_MAX], list[8192], *save = NULL;
	int flags = 0;

	if (root)
		snprintf(pattern, sizeof(pattern), "%s/versions/*/lib/libpython[23].*[0-9m].so.*",
			 root);
	else
		snprintf(pattern, sizeof(pattern),
			 "%s/.pyenv/versions/*/lib/libpython[23].*[0-9m].so.*", home ? home : "");
	memset(g, 0, sizeof(*g));
	if (!glob(pattern, 0, NULL, g))
		flags = GLOB_APPEND;
	if (!glob("/usr/bin/python3.[0-9]", flags, NULL, g) ||
	    !glob("/usr/bin/python3.[0-9][0-9]", flags, NULL, g))
		flags = GLOB_APPEND;
	if (!glob("/usr/lib*/*/libpython3.*.so.1.0", flags, NULL, g) ||
	    !glob("/usr/lib*/libpython3.*.so.1.0", flags, NULL, g))
		flags = GLOB_APPEND;
	more = getenv("GT_TEST_PYTHONS");
	snprintf(list, sizeof(list), "%s", more ? more : "");
	for (char *p = strtok_r(list, ":", &save); p; p = strtok_r(NULL, ":", &save))
		if (!glob(p, flags, NULL, g))
			flags = GLOB_APPEND;
}

#endif
