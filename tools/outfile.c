// SPDX-License-Identifier: Apache-2.0
#include "outfile.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>

#include "log.h"

struct gt_outdir {
	struct gt_outdir *next;
	dev_t dev;
	ino_t ino;
	int fd;
	char path[]; /* as it stands before the name of the file: "", "/", "out/" */
};

struct gt_outfile {
	struct gt_outfile *next, **link; /* in the set; link: what points to it */
	struct gt_outset *set;
	const struct gt_outdir *dir; /* NULL: written in place */
	const char *base;            /* last part of the path */
	int fd;                      /* -1: shut */
	int err;
	uint8_t is_stdout;
	char tmp[48]; /* in the folder */
	char path[];
};

/* ---- the set, which a signal handler may look at between any two instructions ---- */

static void block_signals(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, before);
}

/* Its temporary file is there; or the handler could not have the name. */
static int enter(struct gt_outfile *f, struct gt_outset *set)
{
	sigset_t before;
	int err = 0;

	block_signals(&before);
	if (f->dir)
		f->fd = openat(f->dir->fd, f->tmp,
			       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (f->fd < 0)
		err = -errno;
	if (!err) {
		f->set = set;
		f->next = set->files;
		f->link = &set->files;
		if (f->next)
			f->next->link = &f->next;
		set->files = f;
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return err;
}

/* Removes the temporary file, or gives it its name. */
static int leave(struct gt_outfile *f, int keep)
{
	sigset_t before;
	int err = 0;

	block_signals(&before);
	if (f->dir && keep && renameat(f->dir->fd, f->tmp, f->dir->fd, f->base)) {
		err = -errno;
		keep = 0;
	}
	if (f->dir && !keep)
		unlinkat(f->dir->fd, f->tmp, 0);
	*f->link = f->next;
	if (f->next)
		f->next->link = f->link;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return err;
}

void gt_outset_discard(struct gt_outset *set)
{
	for (struct gt_outfile *f = set->files; f; f = f->next)
		if (f->dir)
			unlinkat(f->dir->fd, f->tmp, 0);
}

void gt_outset_fini(struct gt_outset *set)
{
	while (set->files)
		gt_outfile_drop(set->files);
	while (set->dirs) {
		struct gt_outdir *d = set->dirs;

		set->dirs = d->next;
		close(d->fd);
		free(d);
	}
}

/* ---- opening ---- */

/* The folder is held open, so that the file gets its name where it was begun. NULL: errno says why.
 */
static const struct gt_outdir *find_dir(struct gt_outset *set, const char *path, size_t len)
{
	struct gt_outdir *d;
	struct stat st;

	for (d = set->dirs; d; d = d->next)
		if (strlen(d->path) == len && !memcmp(d->path, path, len))
			return d;
	d = calloc(1, sizeof(*d) + len + 1);
	if (!d)
		return NULL;
	memcpy(d->path, path, len);
	d->fd = open(len ? d->path : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (d->fd < 0 || fstat(d->fd, &st)) {
		int keep = errno;

		if (d->fd >= 0)
			close(d->fd);
		free(d);
		errno = keep;
		return NULL;
	}
	d->dev = st.st_dev;
	d->ino = st.st_ino;
	d->next = set->dirs;
	set->dirs = d;
	return d;
}

/* Two outputs of one name: the second would replace the first. */
static int is_another(const struct gt_outset *set, const struct gt_outdir *dir, const char *base)
{
	for (const struct gt_outfile *o = set->files; o; o = o->next)
		if (o->dir && o->dir->dev == dir->dev && o->dir->ino == dir->ino &&
		    !strcmp(o->base, base))
			return 1;
	return 0;
}

/* A file of a name that nobody can foresee, in the folder of the output. */
static int open_beside(struct gt_outfile *f, struct gt_outset *set)
{
	const char *slash = strrchr(f->path, '/');
	uint64_t r;

	f->base = slash ? slash + 1 : f->path;
	if (!*f->base)
		return -EISDIR;
	f->dir = find_dir(set, f->path, (size_t)(f->base - f->path));
	if (!f->dir)
		return -errno;
	if (is_another(set, f->dir, f->base))
		return -EALREADY;
	if (getrandom(&r, sizeof(r), 0) != sizeof(r))
		return -EIO;
	snprintf(f->tmp, sizeof(f->tmp), ".gil2trace-%016" PRIx64 ".tmp", r);
	return 0;
}

/*
 * A device or a pipe, such as /dev/stdout, but no disk; and not where the link that leads there is
 * somebody else's, who might have it lead to anything.
 */
static int open_in_place(const char *path)
{
	struct stat st;
	int fd;

	if (lstat(path, &st))
		return -errno;
	if (S_ISLNK(st.st_mode) && st.st_uid && st.st_uid != geteuid())
		return -EPERM;
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return fd;
	close(fd);
	return -EPERM;
}

/* Where it goes: a descriptor, or a folder and a name for the time being. */
static int find_place(struct gt_outfile *f, struct gt_outset *set)
{
	struct stat st;

	if (f->is_stdout) {
		f->fd = STDOUT_FILENO;
		return 0;
	}
	if (stat(f->path, &st))
		return errno != ENOENT                   ? -errno
		       : gt_inputs_is_recording(f->path) ? -ENOTEMPTY
							 : open_beside(f, set);
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (S_ISREG(st.st_mode)) {
		if (set->inputs && gt_inputs_find(set->inputs, &st))
			return -EEXIST;
		return gt_inputs_is_recording(f->path) ? -ENOTEMPTY : open_beside(f, set);
	}
	f->fd = open_in_place(f->path);
	return f->fd < 0 ? f->fd : 0;
}

static int cannot_write(const char *path, int err)
{
	gt_error("%s: cannot be written: %s", path, strerror(-err));
	return err;
}

int gt_outfile_open(struct gt_outset *set, const char *path, struct gt_outfile **out)
{
	int is_stdout = !strcmp(path, "-"), err;
	const char *name = is_stdout ? "standard output" : path;
	struct gt_outfile *f = calloc(1, sizeof(*f) + strlen(name) + 1);

	if (!f)
		return cannot_write(path, -ENOMEM);
	f->fd = -1;
	f->is_stdout = (uint8_t)is_stdout;
	memcpy(f->path, name, strlen(name));
	err = find_place(f, set);
	if (!err)
		err = enter(f, set);
	if (err) {
		if (err == -EEXIST)
			gt_error("%s: is an input; give another name with --output", path);
		else if (err == -ENOTEMPTY)
			gt_error("%s: is a recording, or has the name of one, and is not written "
				 "over; is the name of an output missing before it?",
				 path);
		else if (err == -EALREADY)
			gt_error("%s: is the name of two outputs", path);
		else
			cannot_write(path, err);
		free(f);
		return err;
	}
	*out = f;
	return 0;
}

int gt_outfile_fd(const struct gt_outfile *f)
{
	return f->fd;
}

const char *gt_outfile_path(const struct gt_outfile *f)
{
	return f->path;
}

int gt_outset_make_folder(const char *path)
{
	struct stat st;
	int err;

	if (!mkdir(path, 0755))
		return 0;
	err = -errno;
	if (err == -EEXIST && !stat(path, &st) && S_ISDIR(st.st_mode))
		return 0;
	gt_error("%s: the folder cannot be made: %s", path,
		 err == -EEXIST ? "a file has this name" : strerror(-err));
	return err;
}

/* ---- the end ---- */

/* Insight keys its cache by path only and would show the old trace. */
static void warn_of_cache(const struct gt_outfile *f)
{
	const char *dot = strrchr(f->base, '.');
	int stem = (int)(dot ? dot - f->base : (ptrdiff_t)strlen(f->base));
	gt_autofree char *own = NULL;
	const char *const names[] = {
		"mindstudio_insight_data.db",
		asprintf(&own, "%.*s_mindstudio_insight_data.db", stem, f->base) < 0 ? NULL : own};

	for (size_t i = 0; i < GT_ARRAY_SIZE(names); i++)
		if (names[i] && !faccessat(f->dir->fd, names[i], F_OK, AT_SYMLINK_NOFOLLOW))
			gt_warn("%s%s: is MindStudio Insight's cache and hides the new trace; "
				"remove it before you import",
				f->dir->path, names[i]);
}

static void shut(struct gt_outfile *f, int err)
{
	if (err && !f->err)
		f->err = err;
	if (f->fd >= 0 && close(f->fd) && !f->err)
		f->err = -errno;
	f->fd = -1;
}

int gt_outfile_shut(struct gt_outfile *f, int err)
{
	shut(f, err);
	return f->err;
}

int gt_outfile_keep(struct gt_outfile *f, int err)
{
	shut(f, err);
	err = leave(f, !f->err);
	if (err && !f->err)
		f->err = err;
	err = f->err;
	if (err)
		cannot_write(f->path, err);
	else if (f->dir)
		warn_of_cache(f);
	free(f);
	return err;
}

void gt_outfile_drop(struct gt_outfile *f)
{
	shut(f, 0);
	leave(f, 0);
	free(f);
}
