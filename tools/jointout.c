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
		gt_error("%s%s%s: is in the way: it is not of gil2trace, and MindStudio Insight "
			 "would import it, too; give --output a folder of its own",
			 out, gt_name_ends(out, "/") ? "" : "/", stranger ? stranger : name);
		err = -EEXIST;
	}
	if (!err && names.cut)
		err = -EEXIST;
	gt_names_free(&names);
	return err;
}

/* Of the path, or of as much of it as is there. NULL: no memory. */
static char *real_beginning(const char *path)
{
	gt_autofree char *part = strdup(path);

	while (part) {
		char *real = realpath(*part ? part : "/", NULL), *slash = strrchr(part, '/');

		if (real || errno == ENOMEM)
			return real;
		if (!slash)
			return realpath(".", NULL);
		*slash = '\0';
	}
	return NULL;
}

static int is_profilers(const char *out, const struct gt_profilers *all)
{
	gt_autofree char *real = real_beginning(out);

	for (size_t i = 0; real && i < all->n; i++) {
		const char *dir = all->list[i].dir;
		size_t n = dir ? strlen(dir) : 0;

		if (n && !strncmp(real, dir, n) && (real[n] == '/' || !real[n]))
			return 1;
	}
	return 0;
}

int gt_jointout_check(const char *out, const struct gt_profilers *all)
{
	if (!is_profilers(out, all))
		return 0;
	gt_error("%s: lies in a Profiler's own folder, where nothing is written; give another "
		 "place with --output",
		 out);
	return -EEXIST;
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

/*
 * Writing into a file: 0 if it is now to be kept, else it is gone and that has been said; 1: there
 * are no events to be written.
 */

static int close_text(struct gt_jsonw *w, struct gt_outfile *f, int err)
{
	if (!err)
		err = gt_jsonw_flush(w);
	gt_jsonw_fini(w);
	return err ? gt_outfile_keep(f, err) : 0;
}

/* The events alone. */
static int write_events(const struct gt_jointout *o, struct gt_outfile *f)
{
	struct gt_jsonw w;
	int any = 0, err = gt_jsonw_init(&w, gt_outfile_fd(f), 0);

	if (err)
		return gt_outfile_keep(f, err);
	gt_jsonw_lit(&w, "[\n");
	err = o->events(o->ctx, &w, &any);
	gt_jsonw_lit(&w, "\n]\n");
	err = close_text(&w, f, err);
	if (err || any)
		return err;
	gt_outfile_drop(f);
	return 1;
}

struct fragment {
	const struct gt_jointout *o; /* NULL: nothing is put before the trace's own events */
	struct gt_jsonw *w;
	int any;
};

static int fragment_events(void *ctx, int *any)
{
	struct fragment *f = ctx;
	int err = f->o ? f->o->events(f->o->ctx, f->w, &f->any) : 0;

	*any = f->any;
	return err;
}

/* A trace, with the events of `o`, or (NULL) as it is; completed, if its end is missing. */
static int write_trace(const struct gt_jointout *o, const char *trace,
		       const struct gt_proftrace *facts, int gzip, struct gt_outfile *f)
{
	char why[PATH_MAX + 256] = "";
	struct gt_jsonw w;
	struct fragment fragment = {.o = o, .w = &w};
	int err = gt_jsonw_init(&w, gt_outfile_fd(f), gzip);

	if (err)
		return gt_outfile_keep(f, err);
	err = gt_merge(trace, facts, &w, fragment_events, &fragment, why, sizeof(why));
	if (err && why[0]) {
		gt_error("%s: cannot be copied: %s", trace, why);
		gt_jsonw_fini(&w);
		gt_outfile_drop(f);
		return err;
	}
	err = close_text(&w, f, err);
	if (err || !o || fragment.any)
		return err;
	gt_outfile_drop(f);
	return 1;
}

/* profiler_info_<rank>.json: by its name Insight knows the rank. */
static int write_info(const struct gt_jointout *o, struct gt_outfile *f)
{
	gt_autoclose int fd = o->p->info ? gt_prof_file(AT_FDCWD, o->p->info) : -1;
	size_t left = GT_SMALL_FILE_MAX;
	struct gt_jsonw w;
	char buf[4096];
	ssize_t n = 0;
	int err = gt_jsonw_init(&w, gt_outfile_fd(f), 0);

	if (err)
		return gt_outfile_keep(f, err);
	while (fd >= 0 && left >= sizeof(buf) && (n = read(fd, buf, sizeof(buf))) > 0) {
		gt_jsonw_raw(&w, buf, (size_t)n);
		left -= (size_t)n;
	}
	if (left == GT_SMALL_FILE_MAX) { /* there is none, or nothing can be read */
		gt_jsonw_lit(&w, "{\"rank_id\": ");
		gt_jsonw_u64(&w, (uint64_t)o->rank);
		gt_jsonw_lit(&w, "}\n");
	}
	return close_text(&w, f, 0);
}

static void say_flaws(const char *trace, const struct gt_proftrace *t)
{
	if (t->cut)
		gt_warn("%s: its end is missing (was the Profiler stopped?); it is completed, and "
			"what is left of a last event, %" PRIu64 " bytes, is left out",
			trace, t->size - t->whole);
	if (t->words)
		gt_warn("%s: has %" PRIu64 " times NaN or the like, which is no JSON; viewers may "
			"refuse it",
			trace, t->words);
	if (t->bad_utf8)
		gt_warn("%s: has broken UTF-8 in %" PRIu64 " places, which is no JSON; viewers may "
			"refuse it",
			trace, t->bad_utf8);
	if (t->odd)
		gt_warn("%s: has %" PRIu64 " elements that are no events; viewers may refuse it",
			trace, t->odd);
	if (t->untimed && !t->kineto) /* which gives such to events that it could not time */
		gt_warn("%s: has %" PRIu64 " events without a time that can be; viewers may show "
			"them, and so all, from 1970 on",
			trace, t->untimed);
}

static void say_all_flaws(const struct gt_profiler *p, int slices)
{
	say_flaws(p->trace, &p->facts);
	for (size_t i = 0; slices && i < p->nslices; i++)
		say_flaws(p->slices[i].path, &p->slices[i].facts);
}

/* ---- the folder ---- */

/* A file that is complete, and gets its name when all are. */
struct item {
	struct gt_outfile *file; /* NULL: a link to a trace, of the name `tmp` */
	char *tmp, *path;
};

struct folder {
	char *dir, *out; /* <name>_ascend_pt, and ASCEND_PROFILER_OUTPUT in it */
	int made_dir, made_out;
	struct item *items;
	size_t n;
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
	/* The events, profiler_info, and the trace. */
	f->items = calloc(o->p->nslices + 3, sizeof(*f->items));
	if (!f->out || !f->items)
		return -ENOMEM;
	err = make(f->dir, &f->made_dir);
	return err ? err : make(f->out, &f->made_out);
}

/* What has not got its name goes. */
static void drop_items(struct folder *f)
{
	for (size_t i = 0; i < f->n; i++) {
		if (f->items[i].file)
			gt_outfile_drop(f->items[i].file);
		if (f->items[i].tmp)
			unlink(f->items[i].tmp);
		free(f->items[i].tmp);
		free(f->items[i].path);
	}
}

/* A complete file joins the others. */
static int add_file(struct folder *f, struct gt_outfile *file)
{
	int err = gt_outfile_shut(file, 0);

	if (err)
		return gt_outfile_keep(file, err);
	f->items[f->n++].file = file;
	return 0;
}

/*
 * A link, so that gigabytes need not be copied. Insight refuses symbolic links, and files that
 * everybody may write to. Returns whether there is one now.
 */
static int add_link(struct folder *f, const char *trace, const struct gt_proftrace *facts,
		    const char *path)
{
	struct item *item = &f->items[f->n];
	struct stat st;

	if (facts->cut || lstat(trace, &st) || st.st_mode & S_IWOTH)
		return 0;
	if (asprintf(&item->tmp, "%s/.gil2trace-link-%zu.tmp", f->out, f->n) < 0) {
		item->tmp = NULL;
		return 0;
	}
	unlink(item->tmp); /* of a run that was killed */
	if (!linkat(AT_FDCWD, trace, AT_FDCWD, item->tmp, 0)) {
		item->path = gt_path_is(item->tmp, &facts->file) ? strdup(path) : NULL;
		if (item->path) {
			f->n++;
			return 1;
		}
		unlink(item->tmp);
	}
	free(item->tmp);
	item->tmp = NULL;
	return 0;
}

static int add_trace(const struct gt_jointout *o, struct folder *f, const char *trace,
		     const struct gt_proftrace *facts, const char *name)
{
	gt_autofree char *path = gt_prof_join(f->out, name);
	struct gt_outfile *file;
	int err;

	if (!path)
		return -ENOMEM;
	if (add_link(f, trace, facts, path))
		return 0;
	err = gt_outfile_open(o->outs, path, &file);
	if (!err)
		err = write_trace(NULL, trace, facts, 0, file);
	return err ? err : add_file(f, file);
}

static int add_traces(const struct gt_jointout *o, struct folder *f)
{
	int err = 0;

	for (size_t i = 0; i < o->p->nslices && !err; i++) {
		const struct gt_profslice *s = &o->p->slices[i];

		err = add_trace(o, f, s->path, &s->facts, gt_name_last(s->path));
	}
	return err ? err : add_trace(o, f, o->p->trace, &o->p->facts, "trace_view.json");
}

static int add_events(const struct gt_jointout *o, struct folder *f)
{
	gt_autofree char *path = gt_prof_join(f->out, "trace.json");
	struct gt_outfile *file;
	int err = path ? gt_outfile_open(o->outs, path, &file) : -ENOMEM;

	if (!err)
		err = write_events(o, file);
	return err ? err : add_file(f, file);
}

static int add_info(const struct gt_jointout *o, struct folder *f)
{
	gt_autofree char *path = NULL;
	struct gt_outfile *file;
	int err;

	if (o->rank < 0) {
		gt_info("%s: no rank is known; MindStudio Insight will show its path", f->dir);
		return 0;
	}
	if (asprintf(&path, "%s/profiler_info_%" PRId64 ".json", f->dir, o->rank) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	err = gt_outfile_open(o->outs, path, &file);
	if (!err)
		err = write_info(o, file);
	return err ? err : add_file(f, file);
}

/* What an earlier run has written, and caches of it: all of this folder is ours. */
static void clear(const char *dir, int (*own)(const char *name))
{
	gt_autoclose int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct gt_names names = {0};

	if (fd < 0 || gt_prof_list(fd, &names))
		return;
	/* Not the rests: some are the files at hand, others may be of somebody who is running. */
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

static int keep_item(struct item *item)
{
	int err;

	if (item->file)
		return gt_outfile_keep(gt_steal_ptr(item->file), 0);
	err = rename(item->tmp, item->path) ? -errno : 0;
	if (err) {
		gt_error("%s: cannot be written: %s", item->path, strerror(-err));
		return err;
	}
	free(gt_steal_ptr(item->tmp));
	return 0;
}

/* Until all is written, what an earlier run has left stays. */
static int fill_folder(const struct gt_jointout *o, struct folder *f)
{
	int err = add_events(o, f);

	if (!err)
		err = add_info(o, f);
	if (!err)
		err = add_traces(o, f);
	if (err)
		return err;
	clear_folder(f);
	for (size_t i = 0; i < f->n && !err; i++)
		err = keep_item(&f->items[i]);
	if (err) /* nothing half done stays */
		clear_folder(f);
	return err;
}

int gt_jointout_folder(const struct gt_jointout *o, const char *out)
{
	struct folder f = {0};
	int err = make_folder(o, out, &f);

	if (!err) {
		say_all_flaws(o->p, 1);
		err = fill_folder(o, &f);
	}
	if (!err)
		gt_info("%s: written", f.dir);
	drop_items(&f);
	if (err && f.made_out)
		rmdir(f.out);
	if (err && f.made_dir)
		rmdir(f.dir);
	free(f.items);
	free(f.dir);
	free(f.out);
	return err;
}

/* ---- one file ---- */

/* Would it replace a trace, by whatever name? */
static int is_trace(const struct gt_jointout *o, const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return 0;
	for (size_t i = 0; i < o->all->n; i++) {
		const struct gt_file_id *id = &o->all->list[i].facts.file;

		if (id->dev == st.st_dev && id->ino == st.st_ino)
			return 1;
	}
	return 0;
}

int gt_jointout_merge(const struct gt_jointout *o, const char *path, int gzip)
{
	struct gt_outfile *f;
	int err;

	if (is_trace(o, path)) {
		gt_error("%s: is the Profiler's trace and is not replaced; give another name with "
			 "--output",
			 path);
		return -EEXIST;
	}
	err = gt_outfile_open(o->outs, path, &f);
	if (err)
		return err;
	say_all_flaws(o->p, 0);
	err = write_trace(o, o->p->trace, &o->p->facts, gzip, f);
	if (!err)
		err = gt_outfile_keep(f, 0);
	if (!err)
		gt_info("%s: written", path);
	return err;
}
