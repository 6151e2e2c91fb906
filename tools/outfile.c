// SPDX-License-Identifier: Apache-2.0
#include "outfile.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>

#include "log.h"

void gt_outfile_discard(struct gt_outfile *o)
{
	if (o->tmp[0])
		unlinkat(o->dir_fd, o->tmp, 0);
	o->tmp[0] = '\0';
}

/* A file of a name that nobody can foresee, in the folder of the output. */
static int create_tmp(struct gt_outfile *o)
{
	uint64_t r;

	if (getrandom(&r, sizeof(r), 0) != sizeof(r))
		return -EIO;
	snprintf(o->tmp, sizeof(o->tmp), ".gil2trace-%016" PRIx64 ".tmp", r);
	o->fd = openat(o->dir_fd, o->tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		       0644);
	if (o->fd < 0) {
		int err = errno;

		o->tmp[0] = '\0';
		return -err;
	}
	return 0;
}

static int open_beside(struct gt_outfile *o, const char *path)
{
	const char *slash = strrchr(path, '/');
	gt_autofree char *dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");

	if (!dir)
		return -ENOMEM;
	o->base = slash ? slash + 1 : path;
	if (!*o->base)
		return -EISDIR;
	o->dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return o->dir_fd < 0 ? -errno : create_tmp(o);
}

int gt_outfile_open(struct gt_outfile *o, const char *path, const struct gt_inputs *in)
{
	struct stat st;
	int err = 0;

	o->path = strcmp(path, "-") ? path : "standard output";
	if (!strcmp(path, "-")) {
		o->fd = STDOUT_FILENO;
	} else if (stat(path, &st)) {
		err = errno == ENOENT ? open_beside(o, path) : -errno;
	} else if (S_ISDIR(st.st_mode)) {
		err = -EISDIR;
	} else if (S_ISREG(st.st_mode)) {
		if (gt_inputs_find(in, &st)) {
			gt_error("%s: is an input; give another name with --output", path);
			return -EEXIST;
		}
		err = open_beside(o, path);
	} else {
		o->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
		err = o->fd < 0 ? -errno : 0;
	}
	if (err)
		gt_error("%s: cannot be written: %s", path, strerror(-err));
	return err;
}

/* Insight keys its cache by path only and would show the old trace. */
static void warn_of_cache(const struct gt_outfile *o)
{
	const char *dot = strrchr(o->base, '.');
	int stem = (int)(dot ? dot - o->base : (ptrdiff_t)strlen(o->base));
	size_t dir = (size_t)(o->base - o->path);
	gt_autofree char *own = NULL;
	const char *const names[] = {
		"mindstudio_insight_data.db",
		asprintf(&own, "%.*s_mindstudio_insight_data.db", stem, o->base) < 0 ? NULL : own};

	for (size_t i = 0; i < GT_ARRAY_SIZE(names); i++)
		if (names[i] && !faccessat(o->dir_fd, names[i], F_OK, AT_SYMLINK_NOFOLLOW))
			gt_warn("%.*s%s: is MindStudio Insight's cache and hides the new trace; "
				"remove it before you import",
				(int)dir, o->path, names[i]);
}

int gt_outfile_close(struct gt_outfile *o, int err, int keep)
{
	if (o->fd >= 0 && close(o->fd) && !err)
		err = -errno;
	if (!err && keep && o->tmp[0]) {
		if (renameat(o->dir_fd, o->tmp, o->dir_fd, o->base))
			err = -errno;
		else
			o->tmp[0] = '\0';
	}
	gt_outfile_discard(o);
	if (err)
		gt_error("%s: cannot be written: %s", o->path, strerror(-err));
	else if (keep && o->base)
		warn_of_cache(o);
	if (o->dir_fd >= 0)
		close(o->dir_fd);
	return err;
}
