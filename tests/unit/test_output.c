// SPDX-License-Identifier: Apache-2.0
/* output.c: names, no overwriting, no links followed, ownership under sudo. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "log.h"
#include "output.h"

static char base[] = "/tmp/test_output.XXXXXX";
static int dir_fd;
static char name[64];

static int setup(void **state)
{
	(void)state;
	unsetenv("SUDO_UID");
	unsetenv("SUDO_GID");
	strcpy(base + sizeof(base) - 7, "XXXXXX");
	if (!mkdtemp(base))
		return -1;
	dir_fd = gt_output_dir(base);
	return dir_fd < 0;
}

static int teardown(void **state)
{
	static const char *const left[] = {"GIL_7_rank_3.gil", "GIL_7_rank_3_2.gil",
					   "GIL_7_rank_3_3.gil", "victim"};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(left); i++)
		unlinkat(dir_fd, left[i], 0);
	unlinkat(dir_fd, "new", AT_REMOVEDIR);
	close(dir_fd);
	return rmdir(base);
}

static void never_overwrites(void **state)
{
	static const char *const expected[] = {"GIL_7_rank_3.gil", "GIL_7_rank_3_2.gil",
					       "GIL_7_rank_3_3.gil"};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(expected); i++) {
		int fd = gt_output_file(dir_fd, base, 7, 3, name, sizeof(name));

		assert_true(fd >= 0);
		assert_string_equal(name, expected[i]);
		close(fd);
	}
}

/* Somebody else may own the folder: a link in place of the file must not be written through. */
static void follows_no_link(void **state)
{
	struct stat st;
	int fd = openat(dir_fd, "victim", O_CREAT | O_WRONLY, 0600);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(symlinkat("victim", dir_fd, "GIL_7_rank_3.gil"), 0);
	fd = gt_output_file(dir_fd, base, 7, 3, name, sizeof(name));
	assert_true(fd >= 0);
	assert_string_equal(name, "GIL_7_rank_3_2.gil");
	assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
	assert_int_equal(fstatat(dir_fd, "victim", &st, 0), 0);
	assert_int_equal(st.st_size, 0);
}

static void belongs_to_the_sudo_user(void **state)
{
	struct stat st;
	char path[64];
	int fd;

	(void)state;
	if (geteuid()) {
		print_message("SKIP: needs root to give files away\n");
		skip();
	}
	setenv("SUDO_UID", "12345", 1);
	setenv("SUDO_GID", "54321", 1);
	fd = gt_output_file(dir_fd, base, 7, 3, name, sizeof(name));
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_uid, 12345);
	assert_int_equal(st.st_gid, 54321);
	assert_int_equal(st.st_mode & 0007, 0);
	close(fd);
	snprintf(path, sizeof(path), "%s/new", base);
	fd = gt_output_dir(path);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_uid, 12345);
	close(fd);
	/* What is no number gives nothing away. */
	setenv("SUDO_UID", "12345x", 1);
	fd = gt_output_file(dir_fd, base, 7, 3, name, sizeof(name));
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_uid, 0);
	close(fd);
}

static void says_what_is_wrong_with_a_folder(void **state)
{
	(void)state;
	assert_int_equal(gt_output_dir("/proc/self/none/of/these"), -ENOENT);
	assert_int_equal(gt_output_dir("/proc/self/cmdline"), -ENOTDIR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(never_overwrites, setup, teardown),
		cmocka_unit_test_setup_teardown(follows_no_link, setup, teardown),
		cmocka_unit_test_setup_teardown(belongs_to_the_sudo_user, setup, teardown),
		cmocka_unit_test(says_what_is_wrong_with_a_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
