// SPDX-License-Identifier: Apache-2.0
/* The control socket's place: who may have made the folder, and what is left over there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "ctlsocket.h"
#include "log.h"

static char base[64];
static struct gt_ctlsocket made;

static const char *in_base(const char *name)
{
	static char path[4][160];
	static unsigned int next;
	char *p = path[next++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s", base, name);
	return p;
}

static int setup(void **state)
{
	(void)state;
	strcpy(base, "/tmp/test_ctlsocket.XXXXXX");
	made = GT_CTLSOCKET_NONE;
	return mkdtemp(base) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static void remove_all(const char *path)
{
	(void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int teardown(void **state)
{
	(void)state;
	gt_ctlsocket_close(&made);
	remove_all(base);
	return 0;
}

static int entries(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	int n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
	closedir(dir);
	return n;
}

/* A socket that was listened at by one who is gone. */
static void leave_socket(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 1), 0);
	close(fd);
}

static void is_ours_alone(void **state)
{
	const mode_t before = umask(0);
	struct stat st;
	int fd, peer;

	(void)state;
	assert_int_equal(gt_ctlsocket_listen(in_base("s"), &made), 0);
	umask(before);
	assert_int_equal(lstat(in_base("s"), &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_uid, geteuid());
	assert_int_equal(entries(base), 1);

	fd = gt_ctlsocket_connect(in_base("s"), 1);
	assert_true(fd >= 0);
	peer = accept(made.fd, NULL, NULL);
	assert_true(peer >= 0);
	assert_int_equal(send(fd, "hello", 5, 0), 5);
	close(fd);
	close(peer);

	gt_ctlsocket_close(&made);
	assert_int_equal(entries(base), 0);
	assert_int_equal(gt_ctlsocket_connect(in_base("s"), 1), -ENOENT);
}

/* Of long paths as well, since the folder is open and its path not needed. */
static void in_deep_folders(void **state)
{
	char path[2048];
	size_t n = (size_t)snprintf(path, sizeof(path), "%s", base);

	(void)state;
	while (n < 1500) {
		n += (size_t)snprintf(path + n, sizeof(path) - n, "/%0100d", 7);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	strcpy(path + n, "//s");
	assert_int_equal(gt_ctlsocket_listen(path, &made), 0);
	n = (size_t)gt_ctlsocket_connect(path, 1);
	assert_true((int)n >= 0);
	close((int)n);
}

static void makes_the_folder(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(gt_ctlsocket_listen(in_base("new/s"), &made), 0);
	assert_int_equal(lstat(in_base("new"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	gt_ctlsocket_close(&made);
	assert_int_equal(gt_ctlsocket_listen(in_base("not/there/s"), &made), -ENOENT);
	assert_int_equal(gt_ctlsocket_listen(in_base(""), &made), -ENAMETOOLONG);
}

static void refuses_folders_of_others(void **state)
{
	static const mode_t bad[] = {0777, 01777, 0720, 0702};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(bad); i++) {
		assert_int_equal(chmod(base, bad[i]), 0);
		assert_int_equal(gt_ctlsocket_listen(in_base("s"), &made), -EPERM);
		assert_int_equal(gt_ctlsocket_listen(in_base("new/s"), &made), -EPERM);
		assert_int_equal(entries(base), 0);
	}
	assert_int_equal(chmod(base, 0755), 0);
	assert_int_equal(gt_ctlsocket_listen(in_base("s"), &made), 0);
	gt_ctlsocket_close(&made);
	if (geteuid())
		return;
	assert_int_equal(chown(base, 65534, 65534), 0);
	assert_int_equal(gt_ctlsocket_listen(in_base("s"), &made), -EPERM);
	assert_int_equal(entries(base), 0);
}

static void follows_no_link_to_a_folder(void **state)
{
	(void)state;
	assert_int_equal(mkdir(in_base("real"), 0700), 0);
	assert_int_equal(symlink("real", in_base("link")), 0);
	assert_true(gt_ctlsocket_listen(in_base("link/s"), &made) < 0);
	assert_int_equal(entries(in_base("real")), 0);
	assert_int_equal(gt_ctlsocket_listen(in_base("real/s"), &made), 0);
}

static void takes_over_what_is_left(void **state)
{
	struct gt_ctlsocket second = GT_CTLSOCKET_NONE;
	struct stat st;
	int fd;

	(void)state;
	leave_socket(in_base("s"));
	assert_int_equal(gt_ctlsocket_listen(in_base("s"), &made), 0);
	/* But not from one who is there, even if nobody is accepted at the moment. */
	for (int i = 0; i < 20; i++) {
		assert_int_equal(gt_ctlsocket_listen(in_base("s"), &second), -EADDRINUSE);
		assert_int_equal(second.fd, -1);
	}
	assert_int_equal(gt_ctlsocket_connect(in_base("s"), 1), -EAGAIN);
	while ((fd = accept(made.fd, NULL, NULL)) >= 0)
		close(fd);
	fd = gt_ctlsocket_connect(in_base("s"), 1);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(entries(base), 1);

	fd = open(in_base("file"), O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
	assert_int_equal(gt_ctlsocket_listen(in_base("file"), &second), -EEXIST);
	assert_int_equal(symlink("file", in_base("name")), 0);
	assert_int_equal(gt_ctlsocket_listen(in_base("name"), &second), -EEXIST);
	assert_int_equal(stat(in_base("file"), &st), 0);
	assert_int_equal(st.st_size, 1);
}

/* Its name may have been taken away and given to another meanwhile. */
static void removes_only_its_own(void **state)
{
	(void)state;
	assert_int_equal(gt_ctlsocket_listen(in_base("s"), &made), 0);
	assert_int_equal(unlink(in_base("s")), 0);
	leave_socket(in_base("s"));
	gt_ctlsocket_close(&made);
	assert_int_equal(entries(base), 1);
}

/* As a user who is not root, in a process of its own. */
static void unprivileged(void (*fn)(void))
{
	int status;
	pid_t pid;

	if (!geteuid())
		assert_int_equal(chown(base, 65534, 65534), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		if (!geteuid() && (setgid(65534) || setuid(65534)))
			_exit(1);
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void where_everybody_looks_for_it(void)
{
	char place[160], wanted[160];
	struct stat st;

	setenv("XDG_RUNTIME_DIR", base, 1);
	if (gt_ctlsocket_place(getpid(), place, sizeof(place)))
		_exit(2);
	snprintf(wanted, sizeof(wanted), "%s/giltrace/%d.sock", base, getpid());
	if (strcmp(place, wanted))
		_exit(3);
	/* What others have left, and what is none of ours. */
	if (mkdir(in_base("giltrace"), 0700))
		_exit(4);
	leave_socket(in_base("giltrace/123.sock"));
	leave_socket(in_base("giltrace/other.sock"));
	if (gt_ctlsocket_listen(in_base("giltrace/7.sock"), &made))
		_exit(5);
	struct gt_ctlsocket mine;

	if (gt_ctlsocket_listen(NULL, &mine) || stat(place, &st) || st.st_mode & 077)
		_exit(6);
	if (entries(in_base("giltrace")) != 3 || !access(in_base("giltrace/123.sock"), F_OK))
		_exit(7);
	gt_ctlsocket_close(&mine);
	gt_ctlsocket_close(&made);
	if (entries(in_base("giltrace")) != 1)
		_exit(8);
	/* The folder itself is ours, but it lies where others may write. */
	if (chmod(base, 01777) || gt_ctlsocket_listen(NULL, &mine) != -EPERM)
		_exit(9);
	unsetenv("XDG_RUNTIME_DIR");
	if (gt_ctlsocket_listen(NULL, &mine) != -ENOENT)
		_exit(10);
	setenv("XDG_RUNTIME_DIR", "relative", 1);
	if (gt_ctlsocket_listen(NULL, &mine) != -ENOENT)
		_exit(11);
}

static void the_usual_place(void **state)
{
	char place[64], wanted[64];

	(void)state;
	unprivileged(where_everybody_looks_for_it);
	if (geteuid())
		return;
	assert_int_equal(gt_ctlsocket_place(12, place, sizeof(place)), 0);
	snprintf(wanted, sizeof(wanted), "/run/giltrace/12.sock");
	assert_string_equal(place, wanted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(is_ours_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(in_deep_folders, setup, teardown),
		cmocka_unit_test_setup_teardown(makes_the_folder, setup, teardown),
		cmocka_unit_test_setup_teardown(refuses_folders_of_others, setup, teardown),
		cmocka_unit_test_setup_teardown(follows_no_link_to_a_folder, setup, teardown),
		cmocka_unit_test_setup_teardown(takes_over_what_is_left, setup, teardown),
		cmocka_unit_test_setup_teardown(removes_only_its_own, setup, teardown),
		cmocka_unit_test_setup_teardown(the_usual_place, setup, teardown),
	};

	gt_log_setup("test", GT_LOG_ERROR);
	return cmocka_run_group_tests_name("ctlsocket", tests, NULL, NULL);
}
