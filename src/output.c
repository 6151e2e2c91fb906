// SPDX-License-Identifier: Apache-2.0
#include "output.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "log.h"

/* A user or group id as sudo(8) puts it into the environment; -1: none. */
static long sudo_id(const char *variable)
{
	const char *text = getenv(variable);
	char *end;
	long id;

	if (geteuid() != 0 || !text || *text < '0' || *text > '9')
		return -1;
	errno = 0;
	id = strtol(text, &end, 10);
	return errno || *end || id >= UINT32_MAX ? -1 : id;
}

/* What root makes here belongs to who asked for it. */
static void give_to_sudo_user(int fd, const char *what)
{
	long uid = sudo_id("SUDO_UID"), gid = sudo_id("SUDO_GID");

	if (uid >= 0 && fchown(fd, (uid_t)uid, gid >= 0 ? (gid_t)gid : (gid_t)-1))
		gt_warn("cannot give %s to user %ld: %s", what, uid, strerror(errno));
}

int gt_output_dir(const char *path)
{
	int made = !mkdir(path, 0755), fd;

	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		fd = -errno;
		gt_error("cannot open output folder %s: %s", path, strerror(-fd));
		return fd;
	}
	if (made)
		give_to_sudo_user(fd, path);
	return fd;
}

int gt_output_file(int dir_fd, const char *dir_path, pid_t pid, uint32_t rank, char *name,
		   size_t name_size)
{
	int fd = -1;

	for (unsigned int nth = 1; nth < 100000; nth++) {
		char suffix[16] = "";

		if (nth > 1)
			snprintf(suffix, sizeof(suffix), "_%u", nth);
		snprintf(name, name_size, "GIL_%d_rank_%u%s.gil", pid, rank, suffix);
		fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0640);
		if (fd >= 0 || errno != EEXIST)
			break;
	}
	if (fd < 0) {
		fd = -errno;
		gt_error("cannot create %s/%s: %s", dir_path, name, strerror(-fd));
		return fd;
	}
	give_to_sudo_user(fd, name);
	return fd;
}
