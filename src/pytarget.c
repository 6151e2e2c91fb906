// SPDX-License-Identifier: Apache-2.0
#include "pytarget.h"
#include "log.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define PYCACHE_MAX    4096
#define UNREADABLE_MAX 3 /* files of a process that cost the reader all its time, or kill it */

/* One file as it was; a replaced or rewritten one has another identity. */
struct entry {
	struct entry *next;
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec ctime;
	int err; /* of gt_symres_file() */
	struct gt_sites sites;
};

struct gt_pycache {
	enum gt_probe_mode mode;
	struct entry *first;
	size_t n;
};

struct gt_pycache *gt_pycache_new(enum gt_probe_mode mode)
{
	struct gt_pycache *c = calloc(1, sizeof(*c));

	if (c)
		c->mode = mode;
	return c;
}

void gt_pycache_free(struct gt_pycache *c)
{
	if (!c)
		return;
	while (c->first) {
		struct entry *e = c->first;

		c->first = e->next;
		free(e);
	}
	free(c);
}

static struct entry *lookup(const struct gt_pycache *c, const struct stat *st)
{
	struct entry *e = c->first;

	while (e &&
	       (e->dev != st->st_dev || e->ino != st->st_ino || e->size != st->st_size ||
		e->ctime.tv_sec != st->st_ctim.tv_sec || e->ctime.tv_nsec != st->st_ctim.tv_nsec))
		e = e->next;
	return e;
}

/* The file's entry, made if there is none; NULL with *err. */
static const struct entry *resolve(struct gt_pycache *c, int fd, const char *name, int *err)
{
	struct entry *e;
	struct stat st;

	if (fstat(fd, &st)) {
		*err = -errno;
		return NULL;
	}
	if (!S_ISREG(st.st_mode)) {
		*err = -ENOEXEC;
		return NULL;
	}
	e = lookup(c, &st);
	if (e)
		return e;
	e = c->n < PYCACHE_MAX ? calloc(1, sizeof(*e)) : NULL;
	if (!e) {
		*err = -ENOMEM;
		return NULL;
	}
	e->dev = st.st_dev;
	e->ino = st.st_ino;
	e->size = st.st_size;
	e->ctime = st.st_ctim;
	e->err = gt_symres_file(fd, name, c->mode, &e->sites);
	if (e->err && e->err != -ENOENT && e->err != -EIO) { /* ours, not the file's: may pass */
		*err = e->err;
		free(e);
		return NULL;
	}
	if (!e->err && e->sites.why[0])
		gt_warn("%s: %s", name, e->sites.why);
	e->next = c->first;
	c->first = e;
	c->n++;
	return e;
}

/* libpython first, then the executable, then all else. */
static int order_of(const struct gt_map *m, ino_t exe)
{
	const char *base = strrchr(m->path, '/');

	if (base && !strncmp(base + 1, "libpython3", strlen("libpython3")))
		return 0;
	return exe && exe == m->ino ? 1 : 2;
}

/* 1 and *out: this one holds the GIL code. 0: it does not. -errno: that could not be found out. */
static int try_map(struct gt_pycache *c, const struct gt_proc *p, const struct gt_map *m,
		   const struct entry **out)
{
	gt_autoclose int fd = -1;
	const struct entry *e;
	char path[64];
	int err = 0;

	gt_proc_map_file(p, m, path, sizeof(path));
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	e = resolve(c, fd, m->path, &err);
	if (e && e->err == -EIO)
		gt_warn("process %d: %s: %s", (int)p->pid, m->path, e->sites.why);
	if (!e || e->err == -EIO)
		return e ? -EIO : err == -ENOEXEC ? 0 : err;
	*out = e;
	return e->sites.is_python;
}

static int try_all(struct gt_pycache *c, const struct gt_proc *p, const struct gt_map *maps,
		   size_t n, struct gt_pytarget *out)
{
	struct stat exe = {0};
	int failed = 0, unreadable = 0;

	if (fstatat(p->procfd, "exe", &exe, 0))
		exe.st_ino = 0;
	for (int order = 0; order < 3; order++) {
		for (size_t i = 0; i < n && unreadable < UNREADABLE_MAX; i++) {
			const struct entry *e = NULL;
			int got;

			if (order_of(&maps[i], exe.st_ino) != order)
				continue;
			got = try_map(c, p, &maps[i], &e);
			if (got < 0)
				failed = got;
			unreadable += got == -EIO;
			if (got <= 0 || !e)
				continue;
			if (!e->err) {
				*out = (struct gt_pytarget){.map = maps[i], .sites = &e->sites};
				return 0;
			}
			gt_error("process %d: cannot trace the CPython in %s: %s", (int)p->pid,
				 maps[i].path, e->sites.why);
			return -ENOEXEC;
		}
	}
	if (failed) {
		gt_error("process %d (%s): no CPython found, but not all of its files could be "
			 "read (%s); %s",
			 (int)p->pid, p->comm, strerror(-failed),
			 failed == -EPERM || failed == -EACCES ? "run as root, on the host"
							       : "is it still running?");
		return failed;
	}
	if (!n) {
		gt_error("process %d (%s) shows no mapped file: it is a kernel thread, or its main "
			 "thread has ended",
			 (int)p->pid, p->comm);
		return -ENOEXEC;
	}
	gt_error("process %d (%s): no CPython: none of its %zu mapped files exports "
		 "PyEval_RestoreThread",
		 (int)p->pid, p->comm, n);
	return -ENOEXEC;
}

int gt_pytarget_find(struct gt_pycache *c, const struct gt_proc *p, struct gt_pytarget *out)
{
	gt_autofree struct gt_map *maps = NULL;
	size_t n = 0;
	int err = gt_proc_exec_maps(p, &maps, &n);

	if (err) {
		gt_error("process %d (%s): cannot read its memory map: %s", (int)p->pid, p->comm,
			 strerror(-err));
		return err;
	}
	return try_all(c, p, maps, n, out);
}
