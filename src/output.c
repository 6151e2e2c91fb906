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

/*
 * Makes the last part of the path; the descriptor is of the new folder and of nothing else that
 * somebody with write access to the parent may have put there since: it will change its owner.
 */
static int make_dir(const char *path)
{
	gt_autofree char *parent = strdup(path);
	gt_autoclose int parent_fd = -1;
	char *slash;
	int fd;

	if (!parent)
		return -ENOMEM;
	for (size_t n = strlen(parent); n > 1 && parent[n - 1] == '/'; n--)
		parent[n - 1] = '\0';
	slash = strrchr(parent, '/');
	path = slash ? slash + 1 : parent;
	if (slash && slash != parent)
		*slash = '\0';
	parent_fd = open(!slash            ? "."
			 : slash == parent ? "/"
					   : parent,
			 O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (parent_fd >= 0 && !*path) /* the root folder */
		return -EEXIST;
	if (parent_fd < 0 || mkdirat(parent_fd, path, 0755))
		return -errno;
	fd = openat(parent_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int gt_output_dir(const char *path)
{
	int fd = make_dir(path);

	if (fd >= 0) {
		give_to_sudo_user(fd, path);
		return fd;
	}
	if (fd == -EEXIST) {
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			fd = -errno;
	}
	if (fd == -ENOENT)
		gt_error("cannot make output folder %s: the folder it is to lie in does not exist",
			 path);
	else if (fd < 0)
		gt_error("cannot open or make output folder %s: %s", path, strerror(-fd));
	return fd;
}

int gt_output_file(int dir_fd, const char *dir_path, pid_t pid, uint32_t rank, char *name,
		   size_t name_size)
{
	unsigned int nth;
	int fd = -1;

	for (nth = 1; nth < 100000; nth++) {
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
	if (nth > 1)
		gt_info("a recording of a process %d is there, an earlier one or another host's; "
			"this one goes to %s/%s",
			pid, dir_path, name);
	give_to_sudo_user(fd, name);
	return fd;
}
