// SPDX-License-Identifier: Apache-2.0
#include "inherited.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "base.h"

static int option_is(int fd, int option, int wanted)
{
	socklen_t size = sizeof(int);
	int value = -1;

	return !getsockopt(fd, SOL_SOCKET, option, &value, &size) && value == wanted;
}

const char *gt_inherited_check(int fd)
{
	struct sockaddr_un peer;
	socklen_t size = sizeof(peer);

	if (fcntl(fd, F_GETFD) < 0)
		return "it is not open";
	if (!option_is(fd, SO_DOMAIN, AF_UNIX) || !option_is(fd, SO_TYPE, SOCK_SEQPACKET))
		return "it is no socket of AF_UNIX and SOCK_SEQPACKET";
	if (getpeername(fd, (struct sockaddr *)&peer, &size))
		return "it is not connected";
	return NULL;
}

/* Kernels before 5.9 have no close_range(2). */
static int close_one_by_one(unsigned int first, unsigned int last)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		unsigned long fd = strtoul(entry->d_name, NULL, 10);

		if (fd >= first && fd <= last && fd != (unsigned long)dirfd(dir))
			close((int)fd);
	}
	closedir(dir);
	return 0;
}

static int close_all(unsigned int first, unsigned int last)
{
	if (first > last || !syscall(__NR_close_range, first, last, 0u))
		return 0;
	return close_one_by_one(first, last);
}

/* In a group that somebody has made for us, as libgiltrace does, a signal to it is for us. */
static void leave_group(int fd)
{
	struct ucred owner;
	socklen_t size = sizeof(owner);

	if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &owner, &size) && owner.pid > 0 &&
	    getpgid(owner.pid) == getpgrp())
		(void)setpgid(0, 0);
}

void gt_inherited_reset(int fd)
{
	static const int ours[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD, SIGPIPE, SIGALRM};
	sigset_t none;

	sigemptyset(&none);
	for (size_t i = 0; i < GT_ARRAY_SIZE(ours); i++)
		(void)signal(ours[i], SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	leave_group(fd);
}

int gt_inherited_take(int fd)
{
	int err, null_fd;

	if (fd <= STDERR_FILENO) {
		int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

		if (moved < 0)
			return -errno;
		null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (null_fd < 0 || dup2(null_fd, fd) < 0)
			return -errno;
		fd = moved;
	} else if (fcntl(fd, F_SETFD, FD_CLOEXEC)) {
		return -errno;
	}
	err = close_all(STDERR_FILENO + 1, (unsigned int)fd - 1);
	if (!err)
		err = close_all((unsigned int)fd + 1, ~0u);
	return err ? err : fd;
}
