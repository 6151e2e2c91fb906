/* SPDX-License-Identifier: Apache-2.0 */
/*
 * npufix.h - for tests: a folder of device nodes with the driver's names and the numbers of
 * harmless devices that every kernel has (those that containers may make, too), and processes that
 * prepare themselves and wait. cmocka.h comes before.
 */
#ifndef GT_TEST_NPUFIX_H
#define GT_TEST_NPUFIX_H

#include "npu.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#define ZERO    makedev(1, 5) /* the one that can be mapped */
#define FULL    makedev(1, 7)
#define RANDOM  makedev(1, 8)
#define URANDOM makedev(1, 9)

static char scratch[64], dev[80], elsewhere[80]; /* folders */

static inline const char *in(const char *folder, const char *name)
{
	static char path[4][PATH_MAX];
	static int next;
	char *p = path[next++ % 4];

	snprintf(p, PATH_MAX, "%s/%s", folder, name);
	return p;
}

static inline void make_node(const char *folder, const char *name, dev_t rdev)
{
	assert_int_equal(mknod(in(folder, name), S_IFCHR | 0600, rdev), 0);
}

static inline void make_file(const char *folder, const char *name)
{
	int fd = open(in(folder, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static inline void make_link(const char *folder, const char *name, const char *target)
{
	assert_int_equal(symlink(target, in(folder, name)), 0);
}

static inline void remove_all(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		execl("/bin/rm", "rm", "-rf", scratch, NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

static inline int set_up(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	snprintf(scratch, sizeof(scratch), "%.32s/gt-npu-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(scratch))
		return -1;
	snprintf(dev, sizeof(dev), "%s/dev", scratch);
	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", scratch);
	return mkdir(dev, 0700) || mkdir(elsewhere, 0700);
}

static inline int tear_down(void **state)
{
	(void)state;
	remove_all();
	return 0;
}

/* Nodes that can be opened take CAP_MKNOD and a file system that is not mounted with nodev. */
static inline int can_make_nodes(void)
{
	const char *path = in(elsewhere, "probe");
	int fd = mknod(path, S_IFCHR | 0600, FULL) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	int why = errno;

	if (fd >= 0)
		close(fd);
	unlink(path);
	errno = why;
	return fd >= 0;
}

static inline void need_nodes(void)
{
	const char *require = getenv("GT_REQUIRE_BPF");

	if (can_make_nodes())
		return;
	print_message("skipped: no device node can be made and opened in %s: %s\n", elsewhere,
		      strerror(errno));
	if (require && !strcmp(require, "1"))
		fail_msg("GT_REQUIRE_BPF=1, but this test cannot run");
	skip();
}

/* davinci0 (full), davinci1 (zero), vdavinci100 (random), the manager (urandom). */
static inline void usual_nodes(void)
{
	need_nodes();
	make_node(dev, "davinci0", FULL);
	make_node(dev, "davinci1", ZERO);
	make_node(dev, "vdavinci100", RANDOM);
	make_node(dev, "davinci_manager", URANDOM);
}

static inline struct gt_npu_host *host(void)
{
	struct gt_npu_host *h = NULL;

	assert_int_equal(gt_npu_host_open(dev, &h), 0);
	return h;
}

/* ---- a process that prepares itself, then waits until it is let go ---- */

struct child {
	pid_t pid;
	int hold; /* closing it lets it end */
	struct gt_proc proc;
};

#define MUST(e)                                                                                    \
	do {                                                                                       \
		if (!(e)) {                                                                        \
			dprintf(2, "child: line %d: %s: %s\n", __LINE__, #e, strerror(errno));     \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static inline void start(struct child *c, void (*prepare)(void))
{
	int up[2], down[2];
	char byte;

	assert_int_equal(pipe2(up, O_CLOEXEC), 0);
	assert_int_equal(pipe2(down, O_CLOEXEC), 0);
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (c->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* also where an assertion fails */
		close(up[0]);
		close(down[1]);
		prepare();
		MUST(write(up[1], "x", 1) == 1);
		_exit(read(down[0], &byte, 1) ? 1 : 0);
	}
	close(up[1]);
	close(down[0]);
	c->hold = down[1];
	assert_int_equal(read(up[0], &byte, 1), 1);
	close(up[0]);
	assert_int_equal(gt_proc_open(c->pid, &c->proc), 0);
}

static inline void end(struct child *c)
{
	int status;

	close(c->hold);
	assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
	assert_int_equal(status, 0);
	gt_proc_close(&c->proc);
}

/* What such a process is bound to. */
static inline int look(void (*prepare)(void), struct gt_npus *npus)
{
	struct gt_npu_host *h = host();
	struct child c;
	int r;

	start(&c, prepare);
	r = gt_npu_of(h, &c.proc, npus);
	assert_int_equal(npus->bound, r);
	end(&c);
	gt_npu_host_close(h);
	return r;
}

static inline int open_node(const char *folder, const char *name)
{
	int fd = open(in(folder, name), O_RDWR | O_CLOEXEC | O_NOCTTY);

	MUST(fd >= 0);
	return fd;
}

static inline void open_new(const char *name, dev_t rdev, int fd)
{
	MUST(mknod(in(elsewhere, name), S_IFCHR | 0600, rdev) == 0);
	MUST(dup2(open_node(elsewhere, name), fd) == fd);
}

#endif
