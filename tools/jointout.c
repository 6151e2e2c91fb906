// SPDX-License-Identifier: Apache-2.0
#include "jointout.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "log.h"
#include "merge.h"
#include "proffiles.h"
#include "profnames.h"

#define OUTPUT_DIR "ASCEND_PROFILER_OUTPUT"
#define CHUNK      (1u << 20)

/* ---- what lies in OUT ---- */

/* MindStudio Insight's, and SQLite's files beside it. */
static int is_cache(const char *name)
{
	const char *at = strstr(name, "mindstudio_insight_data.db");

	if (!at || (at != name && at[-1] != '_'))
		return 0;
	at += strlen("mindstudio_insight_data.db");
	return !*at || !strcmp(at, "-wal") || !strcmp(at, "-shm") || !strcmp(at, "-journal");
}

/* What was left by a gil2trace that was killed. */
static int is_rest(const char *name)
{
	return !strncmp(name, ".gil2trace-", 11) && gt_name_ends(name, ".tmp");
}

static int is_own_trace(const char *name)
{
	return !strcmp(name, "trace.json") || !strcmp(name, "trace_view.json") ||
	       gt_name_msprof(name) >= 0 || is_cache(name) || is_rest(name);
}

/* Is all in it of names that gil2trace writes? *stranger: one that is not; free() it. */
static int only_own(int fd, int (*own)(const char *name), const char *folder, char **stranger)
{
	struct gt_names names = {0};
	int ok = !gt_prof_list(fd, &names) && !names.cut;

	for (size_t i = 0; ok && i < names.n; i++) {
		char type = gt_prof_type(fd, names.list[i]);

		if (folder && !strcmp(names.list[i], folder) ? type == 'd'
							     : type == 'f' && own(names.list[i]))
			continue;
		ok = 0;
		*stranger = strdup(names.list[i]);
	}
	gt_names_free(&names);
	return ok;
}

static int is_own_info(const char *name)
{
	return (!strncmp(name, "profiler_info", 13) && gt_name_ends(name, ".json")) ||
	       is_cache(name) || is_rest(name);
}

/*
 * A folder that an earlier run has made: nothing else is in it. A Profiler's never has a
 * trace.json, and always something that we do not write, unless somebody has taken it away.
 */
static int is_own_folder(int at, const char *name, char **stranger)
{
	gt_autoclose int fd = gt_prof_dir(at, name), out_fd = -1;
	gt_autofree char *inner = NULL;

	if (fd < 0 || !gt_name_is_ascend(name))
		return 0;
	if (!only_own(fd, is_own_info, OUTPUT_DIR, &inner)) {
		if (inner)
			*stranger = gt_prof_join(name, inner);
		return 0;
	}
	out_fd = gt_prof_dir(fd, OUTPUT_DIR);
	if (out_fd < 0) /* begun, or cleaned up in part */
		return 1;
	if (!only_own(out_fd, is_own_trace, NULL, &inner)) {
		if (inner && asprintf(stranger, "%s/%s/%s", name, OUTPUT_DIR, inner) < 0)
			*stranger = NULL;
		return 0;
	}
	return gt_prof_type(out_fd, "trace.json") || !gt_prof_type(out_fd, "trace_view.json");
}

/* A merged trace that this run is going to write anew. */
static int is_merged(const char *name, const struct gt_profilers *all)
{
	size_t n;

	for (size_t i = 0; i < all->n; i++) {
		n = (size_t)(gt_name_suffix(all->list[i].name) - all->list[i].name);
		if (!strncmp(name, all->list[i].name, n) &&
		    (!strcmp(name + n, ".json") || !strcmp(name + n, ".json.gz")))
			return 1;
	}
	return 0;
}

static int look_through(int fd, const char *out, const struct gt_profilers *all)
{
	struct gt_names names = {0};
	int err = gt_prof_list(fd, &names);

	for (size_t i = 0; i < names.n && !err; i++) {
		const char *name = names.list[i];
		gt_autofree char *stranger = NULL;
		char type = gt_prof_type(fd, name);

		if (type == 'f' && is_cache(name)) {
			if (!unlinkat(fd, name, 0))
				gt_info("%s/%s: MindStudio Insight's cache of what was here; "
					"removed",
					out, name);
			continue;
		}
		if ((type == 'f' && (is_rest(name) || is_merged(name, all))) ||
		    (type == 'd' && is_own_folder(fd, name, &stranger)))
			continue;
		gt_error("%s/%s: is in the way: it is not of gil2trace, and MindStudio Insight "
			 "would import it, too; give --output a folder of its own",
			 out, stranger ? stranger : name);
		err = -EEXIST;
	}
	if (!err && names.cut)
		err = -EEXIST;
	gt_names_free(&names);
	return err;
}

int gt_jointout_prepare(const char *out, const struct gt_profilers *all)
{
	gt_autoclose int fd = -1;
	int err = gt_outset_make_folder(out);

	if (err)
		return err;
	fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = fd < 0 ? -errno : look_through(fd, out, all);
	if (err && err != -EEXIST)
		gt_error("%s: cannot be looked through: %s", out, strerror(-err));
	return err;
}

/* ---- files ---- */

/* The events alone. 1: there are none. */
static int write_events(const struct gt_jointout *o, int fd)
{
	struct gt_jsonw w;
	int any = 0, err = gt_jsonw_init(&w, fd, 0);

	if (err)
		return err;
	gt_jsonw_lit(&w, "[\n");
	err = o->events(o->ctx, &w, &any);
	gt_jsonw_lit(&w, "\n]\n");
	if (!err)
		err = gt_jsonw_flush(&w);
	gt_jsonw_fini(&w);
	return err ? err : !any;
}

/* Nothing stands before the trace's own events. */
static int no_events(void *ctx, int *any)
{
	(void)ctx;
	*any = 0;
	return 0;
}

struct fragment {
	const struct gt_jointout *o;
	struct gt_jsonw *w;
	int any;
};

static int fragment_events(void *ctx, int *any)
{
	struct fragment *f = ctx;
	int err = f->o->events(f->o->ctx, f->w, &f->any);

	*any = f->any;
	return err;
}

static void say_cut(const struct gt_profiler *p)
{
	if (p->facts.cut)
		gt_warn("%s: its end is missing (was the Profiler stopped?); it is completed, and "
			"%" PRIu64 " bytes of a last event are left out",
			p->trace, p->facts.size - p->facts.whole);
	if (p->facts.words)
		gt_warn("%s: has %" PRIu64 " times NaN or the like, which is no JSON; viewers may "
			"refuse it",
			p->trace, p->facts.words);
}

/* A trace with these events, or as it is. 1: there were none to be added. */
static int write_merged(const struct gt_jointout *o, const char *trace, int with, int fd, int gzip)
{
	char why[PATH_MAX + 256] = "";
	struct gt_jsonw w;
	struct fragment f = {.o = o, .w = &w};
	int err = gt_jsonw_init(&w, fd, gzip);

	if (err)
		return err;
	err = with ? gt_merge(trace, &o->p->facts, &w, fragment_events, &f, why, sizeof(why))
		   : gt_merge(trace, &o->p->facts, &w, no_events, NULL, why, sizeof(why));
	if (!err)
		err = gt_jsonw_flush(&w);
	gt_jsonw_fini(&w);
	if (err && why[0])
		gt_error("%s: cannot be copied: %s", trace, why);
	return err ? err : with && !f.any;
}

/* *unread: it was the reading that failed. */
static int copy_bytes(int from, int to, int *unread)
{
	gt_autofree char *buf = NULL;
	ssize_t n;

	/* In the kernel where it can. */
	do
		n = copy_file_range(from, NULL, to, NULL, (size_t)64 * CHUNK, 0);
	while (n > 0);
	if (!n || (errno != EXDEV && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP &&
		   errno != EBADF))
		return n ? -errno : 0;
	buf = malloc(CHUNK);
	if (!buf)
		return -ENOMEM;
	while ((n = read(from, buf, CHUNK)) > 0) {
		for (ssize_t done = 0, w; done < n; done += w) {
			w = write(to, buf + done, (size_t)(n - done));
			if (w < 0)
				return -errno;
		}
	}
	*unread = n < 0;
	return n ? -errno : 0;
}

/* The trace, byte for byte; if it is cut, completed. */
static int copy_trace(const struct gt_jointout *o, const char *trace, const char *path,
		      int complete)
{
	char why[PATH_MAX + 256] = "it has changed while it was read";
	struct gt_proftrace_file file;
	struct gt_outfile *f;
	int fd = -1, unread = 0, err = gt_outfile_open(o->outs, path, &f);

	if (err)
		return err;
	if (complete) {
		err = write_merged(o, trace, 0, gt_outfile_fd(f), 0);
	} else {
		fd = gt_proftrace_open(trace, &file, why, sizeof(why));
		err = fd < 0 ? fd : copy_bytes(fd, gt_outfile_fd(f), &unread);
		if (unread)
			snprintf(why, sizeof(why), "%s", strerror(-err));
		if (!err && !gt_proftrace_same(fd, &file))
			err = -ESTALE;
		if (fd < 0 || unread || err == -ESTALE)
			gt_error("%s: cannot be copied: %s", trace, why);
		if (fd >= 0)
			close(fd);
	}
	return gt_outfile_keep(f, err);
}

/*
 * The Profiler's trace under another name: a link, so that gigabytes need not be copied. Insight
 * refuses symbolic links, and files that everybody may write to.
 */
static int link_trace(const struct gt_jointout *o, const char *trace, const char *path)
{
	struct stat st, linked;
	int complete = o->p->facts.cut && trace == o->p->trace;

	if (!complete && !lstat(trace, &st) && S_ISREG(st.st_mode) && !(st.st_mode & S_IWOTH)) {
		if (unlink(path) && errno != ENOENT)
			return -errno;
		if (!linkat(AT_FDCWD, trace, AT_FDCWD, path, 0)) {
			if (!lstat(path, &linked) && linked.st_dev == st.st_dev &&
			    linked.st_ino == st.st_ino)
				return 0;
			unlink(path);
		}
	}
	return copy_trace(o, trace, path, complete);
}

/* profiler_info_<rank>.json: by its name Insight knows the rank. */
static int write_info(const struct gt_jointout *o, const char *path)
{
	gt_autoclose int fd = -1;
	struct gt_outfile *f;
	struct stat st;
	char text[64];
	int n, unread, err = gt_outfile_open(o->outs, path, &f);

	if (err)
		return err;
	if (o->p->info)
		fd = gt_prof_file(AT_FDCWD, o->p->info);
	if (fd >= 0 && !fstat(fd, &st) && st.st_size <= GT_SMALL_FILE_MAX) {
		err = copy_bytes(fd, gt_outfile_fd(f), &unread);
	} else {
		n = snprintf(text, sizeof(text), "{\"rank_id\": %" PRId64 "}\n", o->rank);
		if (write(gt_outfile_fd(f), text, (size_t)n) != n)
			err = -EIO;
	}
	return gt_outfile_keep(f, err);
}

/* ---- the folder ---- */

struct folder {
	char *dir, *out; /* <name>_ascend_pt, and ASCEND_PROFILER_OUTPUT in it */
	int made_dir, made_out;
};

static int make(const char *path, int *made)
{
	struct stat st;

	if (!mkdir(path, 0755)) {
		*made = 1;
		return 0;
	}
	if (errno == EEXIST && !lstat(path, &st) && S_ISDIR(st.st_mode))
		return 0;
	gt_error("%s: the folder cannot be made: %s", path, strerror(errno));
	return -errno;
}

/* What an earlier run has written, and caches of it: all of this folder is ours. */
static void clear(const char *dir, int (*own)(const char *name))
{
	gt_autoclose int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct gt_names names = {0};

	if (fd < 0 || gt_prof_list(fd, &names))
		return;
	/* Not the rests: one is the file at hand, and others may be of somebody who is running. */
	for (size_t i = 0; i < names.n; i++)
		if (own(names.list[i]) && !is_rest(names.list[i]))
			unlinkat(fd, names.list[i], 0);
	gt_names_free(&names);
}

static void clear_folder(const struct folder *f)
{
	clear(f->out, is_own_trace);
	clear(f->dir, is_own_info);
}

static int make_folder(const struct gt_jointout *o, const char *out, struct folder *f)
{
	gt_autofree char *name = NULL;
	int err;

	/* By such a name Insight knows a Profiler's folder. */
	if (asprintf(&name, "%s%s", o->p->name, gt_name_is_ascend(o->p->name) ? "" : "_ascend_pt") <
	    0) {
		name = NULL;
		return -ENOMEM;
	}
	f->dir = gt_prof_join(out, name);
	f->out = f->dir ? gt_prof_join(f->dir, OUTPUT_DIR) : NULL;
	if (!f->out)
		return -ENOMEM;
	err = make(f->dir, &f->made_dir);
	return err ? err : make(f->out, &f->made_out);
}

/* In f->out, after the events are there. */
static int add_traces(const struct gt_jointout *o, const struct folder *f)
{
	gt_autofree char *path = gt_prof_join(f->out, "trace_view.json");
	int err = path ? link_trace(o, o->p->trace, path) : -ENOMEM;

	for (size_t i = 0; i < o->p->nslices && !err; i++) {
		gt_autofree char *slice = gt_prof_join(f->out, gt_name_last(o->p->slices[i]));

		err = slice ? link_trace(o, o->p->slices[i], slice) : -ENOMEM;
	}
	return err;
}

static int add_info(const struct gt_jointout *o, const struct folder *f)
{
	gt_autofree char *path = NULL;

	if (o->rank < 0) {
		gt_info("%s: no rank is known; MindStudio Insight will show its path", f->dir);
		return 0;
	}
	if (asprintf(&path, "%s/profiler_info_%" PRId64 ".json", f->dir, o->rank) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	return write_info(o, path);
}

/*
 * The events are written first: they are what may fail, and what an earlier run has left stays
 * until they are there.
 */
static int fill_folder(const struct gt_jointout *o, const struct folder *f)
{
	gt_autofree char *path = gt_prof_join(f->out, "trace.json");
	struct gt_outfile *file;
	int err = path ? gt_outfile_open(o->outs, path, &file) : -ENOMEM;

	if (err)
		return err;
	err = write_events(o, gt_outfile_fd(file));
	if (err) {
		if (err < 0)
			gt_error("%s: cannot be written: %s", path, strerror(-err));
		gt_outfile_drop(file);
		return err;
	}
	clear_folder(f);
	err = gt_outfile_keep(file, 0);
	if (!err)
		err = add_traces(o, f);
	if (!err)
		err = add_info(o, f);
	if (err) /* nothing half done stays */
		clear_folder(f);
	return err;
}

int gt_jointout_folder(const struct gt_jointout *o, const char *out)
{
	struct folder f = {0};
	int err = make_folder(o, out, &f);

	if (!err) {
		say_cut(o->p);
		err = fill_folder(o, &f);
	}
	if (!err)
		gt_info("%s: written", f.dir);
	if (err && f.made_out)
		rmdir(f.out);
	if (err && f.made_dir)
		rmdir(f.dir);
	free(f.dir);
	free(f.out);
	return err;
}

/* ---- one file ---- */

/* Would it replace something that is not ours: a trace, or a file in a Profiler's folder? */
static int is_taken(const struct gt_jointout *o, const char *path)
{
	gt_autofree char *real = realpath(path, NULL);
	struct stat st;

	if (!real || stat(real, &st))
		return 0;
	for (size_t i = 0; i < o->all->n; i++) {
		const struct gt_profiler *p = &o->all->list[i];
		size_t n = p->dir ? strlen(p->dir) : 0;

		if ((p->dev == st.st_dev && p->ino == st.st_ino) ||
		    (n && !strncmp(real, p->dir, n) && real[n] == '/')) {
			gt_error("%s: is a file of the Profiler's and is not replaced; give "
				 "another name with --output",
				 path);
			return 1;
		}
	}
	return 0;
}

int gt_jointout_merge(const struct gt_jointout *o, const char *path, int gzip)
{
	struct gt_outfile *f;
	int err;

	if (is_taken(o, path))
		return -EEXIST;
	err = gt_outfile_open(o->outs, path, &f);
	if (err)
		return err;
	say_cut(o->p);
	err = write_merged(o, o->p->trace, 1, gt_outfile_fd(f), gzip);
	if (err > 0) {
		gt_outfile_drop(f);
		return err;
	}
	err = gt_outfile_keep(f, err);
	if (!err)
		gt_info("%s: written", path);
	return err;
}
