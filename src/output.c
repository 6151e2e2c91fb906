// SPDX-License-Identifier: Apache-2.0
#include "output.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "caps.h"
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

/* ---- the folder ---- */

#define LINKS_MAX 40 /* as in the kernel; also how deep step() and walk() call each other */

static int walk(int at, const char *path, unsigned int *links);

/*
 * Root follows no link that somebody else has put on the way: who may write in a folder there could
 * have root make files anywhere. (fs.protected_symlinks sees to that in sticky folders only, and is
 * off in the kernel's own default.)
 */
static int is_trusted(uid_t owner)
{
	return geteuid() || !owner || (long)owner == sudo_id("SUDO_UID");
}

/*
 * One name in an open folder. -EPERM: a link that is not trusted. O_DIRECTORY has what is mounted
 * on demand be mounted, which O_PATH alone does not.
 */
static int step(int at, const char *name, unsigned int *links) /* NOLINT(misc-no-recursion) */
{
	const int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
	gt_autoclose int fd = openat(at, name, flags | O_DIRECTORY);
	char target[PATH_MAX];
	struct statfs fs;
	struct stat st;
	ssize_t n;

	if (fd >= 0)
		return gt_steal_fd(&fd);
	if (errno == ENOTDIR)
		fd = openat(at, name, flags);
	if (fd < 0 || fstat(fd, &st) || fstatfs(fd, &fs))
		return -errno;
	if (!S_ISLNK(st.st_mode))
		return -ENOTDIR;
	if (fs.f_type == PROC_SUPER_MAGIC) { /* what it leads to is the kernel's to say */
		int there = openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC);

		return there < 0 ? -errno : there;
	}
	n = readlinkat(fd, "", target, sizeof(target) - 1);
	if (n < 0)
		return -errno;
	target[n] = '\0';
	if (!is_trusted(st.st_uid)) {
		gt_error("'%s', a link to %s on the way to the output folder, is user %u's and not "
			 "followed; name the folder itself",
			 name, target, st.st_uid);
		return -EPERM;
	}
	return ++*links > LINKS_MAX ? -ELOOP : walk(at, target, links);
}

/* An O_PATH descriptor of what the path names, from folder `at` on. */
static int walk(int at, const char *path, unsigned int *links) /* NOLINT(misc-no-recursion) */
{
	gt_autofree char *copy = strdup(path);
	char *rest = copy, *name;
	int fd;

	if (!copy)
		return -ENOMEM;
	if (!*path)
		return -ENOENT;
	fd = openat(at, *path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (fd >= 0 && (name = strsep(&rest, "/"))) {
		gt_autoclose int before = -1;

		if (!*name)
			continue;
		before = fd;
		fd = step(before, name, links);
	}
	return fd;
}

static int open_folder(int at, const char *path)
{
	gt_autoclose int fd = -1;
	unsigned int links = 0;
	int folder;

	fd = walk(at, path, &links);
	if (fd < 0)
		return fd;
	folder = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return folder < 0 ? -errno : folder;
}

static int is_empty(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = 0;
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);

	if (!dir) {
		if (copy >= 0)
			close(copy);
		return 0;
	}
	while (n < 3 && readdir(dir))
		n++;
	closedir(dir);
	return n < 3;
}

/*
 * Makes the last part of the path. The descriptor is of the new folder, or at least of an empty
 * one: who may write in the parent may have put another in its place since, and it will change its
 * owner.
 */
static int make_dir(const char *path)
{
	gt_autofree char *parent = strdup(path);
	gt_autoclose int parent_fd = -1, fd = -1;
	unsigned int links = 0;
	char *slash;

	if (!parent)
		return -ENOMEM;
	for (size_t n = strlen(parent); n > 1 && parent[n - 1] == '/'; n--)
		parent[n - 1] = '\0';
	slash = strrchr(parent, '/');
	path = slash ? slash + 1 : parent;
	if (slash && slash != parent)
		*slash = '\0';
	parent_fd = walk(AT_FDCWD, !slash ? "." : slash == parent ? "/" : parent, &links);
	if (parent_fd < 0)
		return parent_fd;
	if (!*path) /* the root folder */
		return -EEXIST;
	if (mkdirat(parent_fd, path, 0755))
		return -errno;
	fd = openat(parent_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return is_empty(fd) ? gt_steal_fd(&fd) : -ESTALE;
}

static int open_dir(const char *path)
{
	int fd = make_dir(path);

	if (fd >= 0)
		give_to_sudo_user(fd, path);
	else if (fd == -EEXIST)
		fd = open_folder(AT_FDCWD, path);
	return fd;
}

int gt_output_dir(const char *path)
{
	uint64_t caps = gt_caps_lower();
	int fd = open_dir(path);

	gt_caps_raise(caps);
	if (fd == -ENOENT)
		gt_error("cannot make output folder %s: the folder it is to lie in does not exist",
			 path);
	else if (fd == -ESTALE)
		gt_error("cannot make output folder %s: another has taken its place", path);
	else if (fd < 0)
		gt_error("cannot open or make output folder %s: %s", path, strerror(-fd));
	return fd;
}

/* ---- the files ---- */

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
