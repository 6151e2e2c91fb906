// SPDX-License-Identifier: Apache-2.0
/* output.c: names, no overwriting, no links followed, ownership under sudo. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

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

/* ---- races with somebody who may write in the folder ---- */

#define MALLORY 54321
#define ROUNDS  1500

static void remove_all(int dir, const char *folder)
{
	char command[128];

	close(dir);
	snprintf(command, sizeof(command), "rm -rf '%s/%s'", base, folder);
	assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): no name is a stranger's */
}

/* For ever: what she does to the names in the folder. */
static pid_t let_mallory(int dir, void (*swap)(void))
{
	pid_t parent = getpid(), pid = fork();

	if (pid)
		return pid;
	if (fchdir(dir) || setgid(MALLORY) || setuid(MALLORY) || prctl(PR_SET_PDEATHSIG, SIGKILL) ||
	    getppid() != parent)
		_exit(1);
	for (;;)
		swap();
}

static void stop_mallory(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

static void links_for_folders(void)
{
	(void)!symlink("../victim", "out");
	unlink("out");
	(void)!mkdir("out", 0777);
	(void)!rename("out", "mine");
	(void)!symlink("../victim", "out");
	unlink("out");
	(void)!symlink(".", "out");
	unlink("out");
	(void)!rename("mine", "out");
	rmdir("out");
}

static void ours_for_ours(void)
{
	(void)!rename("out", "away");
	(void)!rename("secret", "out");
	(void)!rename("out", "secret");
	rmdir("away");
}

/* gt_output_dir() and a file in it, again and again; what it says goes nowhere. */
static unsigned int use_folder(const char *folder)
{
	int said = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY);
	unsigned int made = 0;
	char path[64];

	snprintf(path, sizeof(path), "%s/%s/out", base, folder);
	dup2(null, STDERR_FILENO);
	for (int i = 0; i < ROUNDS; i++) {
		int fd = gt_output_dir(path), file;

		if (fd < 0)
			continue;
		file = gt_output_file(fd, path, 7, 3, name, sizeof(name));
		made += file >= 0;
		if (file >= 0)
			close(file);
		unlinkat(fd, name, 0);
		close(fd);
		rmdir(path);
	}
	dup2(said, STDERR_FILENO);
	close(said);
	close(null);
	return made;
}

static void is_not_led_astray(void **state)
{
	struct stat before, after;
	unsigned int made;
	int victim, sticky;
	pid_t mallory;

	(void)state;
	if (geteuid()) {
		print_message("SKIP: needs root, and somebody who is not\n");
		skip();
	}
	assert_int_equal(chmod(base, 0755), 0);
	assert_int_equal(mkdirat(dir_fd, "victim", 0755), 0);
	assert_int_equal(mkdirat(dir_fd, "sticky", 0755), 0);
	assert_int_equal(fchmodat(dir_fd, "sticky", 01777, 0), 0);
	victim = openat(dir_fd, "victim", O_RDONLY | O_DIRECTORY);
	sticky = openat(dir_fd, "sticky", O_RDONLY | O_DIRECTORY);
	assert_int_equal(fstat(victim, &before), 0);
	setenv("SUDO_UID", "12345", 1);
	mallory = let_mallory(sticky, links_for_folders);
	made = use_folder("sticky");
	stop_mallory(mallory);
	print_message("%u of %u folders were made or used\n", made, ROUNDS);
	/* A file that was made there was removed again, but shows in the folder's time. */
	assert_int_equal(fstat(victim, &after), 0);
	assert_int_equal(after.st_uid, 0);
	assert_memory_equal(&after.st_mtim, &before.st_mtim, sizeof(after.st_mtim));
	remove_all(sticky, "sticky");
	remove_all(victim, "victim");
}

static void gives_nothing_else_away(void **state)
{
	struct stat st;
	pid_t mallory;
	int hers;

	(void)state;
	if (geteuid()) {
		print_message("SKIP: needs root, and somebody who is not\n");
		skip();
	}
	assert_int_equal(chmod(base, 0755), 0);
	assert_int_equal(mkdirat(dir_fd, "hers", 0755), 0);
	assert_int_equal(mkdirat(dir_fd, "hers/secret", 0700), 0);
	assert_int_equal(mkdirat(dir_fd, "hers/secret/kept", 0700), 0);
	assert_int_equal(fchownat(dir_fd, "hers", MALLORY, MALLORY, 0), 0);
	hers = openat(dir_fd, "hers", O_RDONLY | O_DIRECTORY);
	setenv("SUDO_UID", "12345", 1);
	mallory = let_mallory(hers, ours_for_ours);
	(void)use_folder("hers");
	stop_mallory(mallory);
	if (fstatat(hers, "secret", &st, AT_SYMLINK_NOFOLLOW))
		assert_int_equal(fstatat(hers, "out", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_uid, 0);
	remove_all(hers, "hers");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(never_overwrites, setup, teardown),
		cmocka_unit_test_setup_teardown(follows_no_link, setup, teardown),
		cmocka_unit_test_setup_teardown(belongs_to_the_sudo_user, setup, teardown),
		cmocka_unit_test(says_what_is_wrong_with_a_folder),
		cmocka_unit_test_setup_teardown(is_not_led_astray, setup, teardown),
		cmocka_unit_test_setup_teardown(gives_nothing_else_away, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
