// SPDX-License-Identifier: Apache-2.0
#include "ctlsocket.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include "log.h"

#define SUFFIX    ".sock"
#define SWEEP_MAX 4096 /* names in the folder that are looked at */
#define WAITING   8    /* connections that are not accepted yet */

/* ---- the folder ---- */

/*
 * Nobody else may put something there, or take it away. A sticky folder will not do: a name in it
 * can be taken beforehand. What access control lists give shows in the bits of the group.
 */
static int check_folder(int fd, const char *path)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_uid && st.st_uid != geteuid())
		gt_error("no control socket is made in %s, which belongs to user %u", path,
			 st.st_uid);
	else if (st.st_mode & (S_IWGRP | S_IWOTH))
		gt_error("no control socket is made in %s, in which others may write, too", path);
	else
		return 0;
	return -EPERM;
}

/* Cuts the last part off a path without a slash at its end; returns that part. */
static char *cut_last(char *path, const char **folder)
{
	char *slash = strrchr(path, '/');

	*folder = !slash ? "." : slash == path ? "/" : path;
	if (!slash)
		return path;
	path = slash + 1;
	do
		*slash = '\0';
	while (slash > *folder && *--slash == '/' && slash > *folder);
	return path;
}

/* Makes a folder, in one that is fit for that. */
static int make_folder(const char *path)
{
	gt_autofree char *copy = strdup(path);
	gt_autoclose int parent_fd = -1;
	const char *parent, *name;
	int err;

	if (!copy)
		return -ENOMEM;
	name = cut_last(copy, &parent);
	parent_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent_fd < 0) {
		err = -errno;
		gt_error("cannot make %s: %s: %s", path, parent, strerror(-err));
		return err;
	}
	err = check_folder(parent_fd, parent);
	if (err)
		return err;
	if (mkdirat(parent_fd, name, 0700) && errno != EEXIST) {
		err = -errno;
		gt_error("cannot make %s: %s", path, strerror(-err));
	}
	return err;
}

/* The descriptor of a folder that is fit, made where it is missing; its last part is no link. */
static int open_folder(const char *path)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = open(path, flags), err = 0;

	if (fd < 0 && errno == ENOENT) {
		err = make_folder(path);
		if (err)
			return err;
		fd = open(path, flags);
	}
	if (fd < 0) {
		err = -errno;
		gt_error("cannot open %s: %s", path,
			 err == -ELOOP || err == -ENOTDIR ? "it is no folder, or a link to one"
							  : strerror(-err));
		return err;
	}
	err = check_folder(fd, path);
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* ---- names ---- */

/* The address of a name in an open folder, which cannot be exchanged on the way. */
static int address(int dir_fd, const char *name, struct sockaddr_un *out)
{
	int n;

	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(out->sun_path, sizeof(out->sun_path), "/proc/self/fd/%d/%s", dir_fd, name);
	return n < 0 || (size_t)n >= sizeof(out->sun_path) ? -ENAMETOOLONG : 0;
}

/* seconds 0: does not wait for somebody to accept it. */
static int connect_to(int dir_fd, const char *name, unsigned int seconds)
{
	const struct timeval limit = {.tv_sec = (time_t)seconds};
	struct sockaddr_un at;
	int fd, err = address(dir_fd, name, &at);

	if (err)
		return err;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | (seconds ? 0 : SOCK_NONBLOCK), 0);
	if (fd < 0)
		return -errno;
	if (!setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) &&
	    !connect(fd, (struct sockaddr *)&at, sizeof(at)))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* A socket at which nobody listens is removed. 0: the name is free; -EADDRINUSE: it is not. */
static int free_name(int dir_fd, const char *name)
{
	struct stat st;
	int fd;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	fd = connect_to(dir_fd, name, 0);
	if (fd >= 0)
		close(fd);
	if (fd != -ECONNREFUSED)
		return -EADDRINUSE;
	return unlinkat(dir_fd, name, 0) && errno != ENOENT ? -errno : 0;
}

/* "123.sock", as all are called in the folder where everybody looks. */
static int is_ours(const char *name)
{
	size_t digits = strspn(name, "0123456789");

	return digits && digits < 12 && !strcmp(name + digits, SUFFIX);
}

/* Of those that were killed. A name is there only while somebody listens. */
static void sweep(int dir_fd)
{
	int fd = dup(dir_fd), n = SWEEP_MAX;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while (n-- && (entry = readdir(dir)))
		if (is_ours(entry->d_name))
			(void)free_name(dir_fd, entry->d_name);
	closedir(dir);
}

/* ---- listening ---- */

/*
 * A socket that listens, under a name that nobody looks for. The mode of a socket before bind(2) is
 * that of the name.
 */
static int listen_as(struct gt_ctlsocket *s, const char *name)
{
	struct sockaddr_un at;
	struct stat st;
	int err = address(s->dir_fd, name, &at);

	if (err)
		return err;
	s->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0)
		return -errno;
	if (unlinkat(s->dir_fd, name, 0) && errno != ENOENT)
		return -errno;
	if (fchmod(s->fd, 0600) || bind(s->fd, (struct sockaddr *)&at, sizeof(at)) ||
	    listen(s->fd, WAITING) || fstatat(s->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 0177)
		return -EPERM;
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	return 0;
}

/* The name appears when it is listened at: before that, it would look like one that is left over.
 */
static int publish(struct gt_ctlsocket *s)
{
	char hidden[32];
	int err;

	snprintf(hidden, sizeof(hidden), ".%d" SUFFIX, getpid());
	err = listen_as(s, hidden);
	if (!err)
		err = free_name(s->dir_fd, s->name);
	if (!err && linkat(s->dir_fd, hidden, s->dir_fd, s->name, 0))
		err = -errno;
	(void)unlinkat(s->dir_fd, hidden, 0);
	return err;
}

int gt_ctlsocket_listen(const char *path, struct gt_ctlsocket *out)
{
	char place[PATH_MAX];
	const char *folder, *name;
	int err = 0;

	*out = GT_CTLSOCKET_NONE;
	if (!path)
		err = gt_ctlsocket_place(getpid(), place, sizeof(place));
	else
		snprintf(place, sizeof(place), "%s", strlen(path) < sizeof(place) ? path : "/");
	if (err)
		return err;
	name = cut_last(place, &folder);
	if (!*name || strlen(name) >= sizeof(out->name)) {
		gt_error("--control: the name of a socket has 1 to %zu bytes",
			 sizeof(out->name) - 1);
		return -ENAMETOOLONG;
	}
	memcpy(out->name, name, strlen(name) + 1);
	if (!path) /* or is there already; in a folder that everybody may write it would be refused
		    */
		err = make_folder(folder);
	out->dir_fd = err ? err : open_folder(folder);
	if (out->dir_fd < 0)
		return out->dir_fd;
	if (!path)
		sweep(out->dir_fd);
	err = publish(out);
	if (!err)
		return 0;
	gt_error("cannot listen at %s/%s: %s", folder, out->name,
		 err == -EADDRINUSE ? "somebody listens there already"
		 : err == -EEXIST   ? "there is something else"
				    : strerror(-err));
	out->ino = 0;
	gt_ctlsocket_close(out);
	return err;
}

/* Unless it is another's by now. */
static void remove_name(const struct gt_ctlsocket *s)
{
	struct stat st;
	int err = fstatat(s->dir_fd, s->name, &st, AT_SYMLINK_NOFOLLOW) ? -errno : 0;

	if (!err && (st.st_ino != s->ino || st.st_dev != s->dev))
		return;
	if (!err && unlinkat(s->dir_fd, s->name, 0))
		err = -errno;
	if (err && err != -ENOENT)
		gt_warn("cannot remove the socket %s: %s", s->name, strerror(-err));
}

void gt_ctlsocket_close(struct gt_ctlsocket *s)
{
	if (s->ino)
		remove_name(s);
	if (s->fd >= 0)
		close(s->fd);
	if (s->dir_fd >= 0)
		close(s->dir_fd);
	*s = GT_CTLSOCKET_NONE;
}

/* ---- finding ---- */

int gt_ctlsocket_place(pid_t pid, char *path, size_t size)
{
	const char *runtime = geteuid() ? getenv("XDG_RUNTIME_DIR") : "/run";
	int n;

	if (!runtime || *runtime != '/') {
		gt_error("there is no $XDG_RUNTIME_DIR for the control socket: name a PATH");
		return -ENOENT;
	}
	n = snprintf(path, size, "%s/giltrace/%d" SUFFIX, runtime, pid);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

int gt_ctlsocket_connect(const char *path, unsigned int seconds)
{
	gt_autofree char *copy = strdup(path);
	gt_autoclose int dir_fd = -1;
	const char *folder, *name;

	if (!copy)
		return -ENOMEM;
	name = cut_last(copy, &folder);
	dir_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return dir_fd < 0 ? -errno : connect_to(dir_fd, name, seconds);
}
