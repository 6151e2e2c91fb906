// SPDX-License-Identifier: Apache-2.0
#include "profiler.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "log.h"
#include "proffiles.h"
#include "profident.h"
#include "profnames.h"

#define DEPTH_MAX   4     /* of folders below the one that was named */
#define FOLDERS_MAX 16384 /* that are looked at for one argument */

static const char trace_dir[] = "ASCEND_PROFILER_OUTPUT",
		  msprof_dir[] = "mindstudio_profiler_output";

/* A folder that is still to be looked at; `path` is below the argument, "" is itself. */
struct todo {
	char *path;
	unsigned int depth;
};

/* One argument. */
struct search {
	struct gt_profilers *out;
	const char *arg;
	char *root;  /* its path without links */
	int root_fd; /* -1: none */
	struct todo *todo;
	size_t ntodo, done;
	size_t found;
	size_t joint;      /* joint views, passed over */
	size_t recordings; /* of the GIL: no Profiler's */
	int no_use;        /* found, and left out */
};

static void profiler_fini(struct gt_profiler *p)
{
	for (size_t i = 0; i < p->nslices; i++) {
		free(p->slices[i].path);
		gt_proftrace_fini(&p->slices[i].facts);
	}
	free(p->slices);
	free(p->trace);
	free(p->dir);
	free(p->name);
	free(p->host_dir);
	free(p->info);
	free(p->database);
	gt_proftrace_fini(&p->facts);
}

void gt_profilers_free(struct gt_profilers *p)
{
	for (size_t i = 0; i < p->n; i++)
		profiler_fini(&p->list[i]);
	free(p->list);
	*p = (struct gt_profilers){0};
}

/* ---- one Profiler ---- */

/* A merged trace is called as this without its suffix. */
static int name_taken(const struct gt_profilers *all, const char *name)
{
	size_t n = (size_t)(gt_name_suffix(name) - name);

	for (size_t i = 0; i < all->n; i++) {
		const char *other = all->list[i].name;

		if ((size_t)(gt_name_suffix(other) - other) == n && !memcmp(other, name, n))
			return 1;
	}
	return 0;
}

/* What its output is called: another name than that of those before it. */
static int choose_name(struct gt_profiler *p, const struct gt_profilers *all)
{
	char clean[GT_NAME_MAX + 1];
	const char *suffix;

	gt_name_clean(clean, gt_name_last(gt_profiler_path(p)));
	suffix = gt_name_suffix(clean);
	p->name = strdup(clean);
	for (unsigned int i = 2; p->name && name_taken(all, p->name); i++) {
		free(p->name);
		if (asprintf(&p->name, "%.*s_%u%s", (int)(suffix - clean), clean, i, suffix) < 0)
			p->name = NULL;
	}
	return p->name ? 0 : -ENOMEM;
}

static int known_before(const struct stat *st, const struct gt_profilers *all)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->list[i].facts.file.dev == st->st_dev &&
		    all->list[i].facts.file.ino == st->st_ino)
			return 1;
	return 0;
}

/* What another part of the trace adds to the facts of the first. */
static int add_facts(struct gt_proftrace *to, const struct gt_proftrace *t)
{
	if (t->begin_ns && (!to->begin_ns || t->begin_ns < to->begin_ns))
		to->begin_ns = t->begin_ns;
	if (t->end_ns > to->end_ns)
		to->end_ns = t->end_ns;
	to->events += t->events;
	to->has_gil |= t->has_gil;
	return gt_proftrace_add_pids(to, t);
}

/* Logs what makes it no use: -EINVAL. -ENOMEM. */
static int read_trace(const char *path, struct gt_proftrace *t)
{
	char why[PATH_MAX + 512];
	int err = gt_proftrace_read(path, t, why, sizeof(why));

	if (!err && !gt_path_is(path, &t->file)) {
		snprintf(why, sizeof(why), "it has changed while it was read");
		gt_proftrace_fini(t);
		err = -ESTALE;
	}
	if (err && err != -ENOMEM) {
		gt_error("%s: cannot be used: %s", path, why);
		err = -EINVAL;
	}
	return err;
}

static int read_traces(struct gt_profiler *p)
{
	int err = read_trace(p->trace, &p->facts);

	for (size_t i = 0; i < p->nslices && !err; i++) {
		err = read_trace(p->slices[i].path, &p->slices[i].facts);
		if (!err)
			err = add_facts(&p->facts, &p->slices[i].facts);
	}
	if (!err && !p->facts.events) {
		gt_error("%s: cannot be used: there is no event in it", p->trace);
		err = -EINVAL;
	}
	if (!err && p->facts.has_gil) {
		gt_error("%s: GIL rows have been merged into it already; name the Profiler's own "
			 "trace",
			 p->trace);
		err = -EINVAL;
	}
	return err;
}

static void say_found(const struct gt_profiler *p)
{
	gt_debug("%s: Profiler's trace with %" PRIu64 " events; pid %" PRId64 " (%s), rank %" PRId64
		 " (%s)%s%s",
		 p->trace, p->facts.events, p->pid, p->pid_how ? p->pid_how : "not known", p->rank,
		 p->rank_how ? p->rank_how : "not known", p->host_dir ? "; clock: " : "",
		 p->host_dir ? p->host_dir : "");
}

/* Reads what it is and adds it. Takes *p over. Fails for memory only. */
static int add_profiler(struct search *s, struct gt_profiler *p)
{
	struct gt_profiler *grown;
	struct stat st;
	int err;

	s->found++;
	err = lstat(p->trace, &st) ? -errno : !S_ISREG(st.st_mode) ? -EINVAL : 0;
	if (err) {
		gt_error("%s: cannot be read: %s", p->trace,
			 err == -EINVAL ? "it is no regular file" : strerror(-err));
		goto no_use;
	}
	if (known_before(&st, s->out)) {
		gt_warn("%s: is given more than once; it counts once", p->trace);
		profiler_fini(p);
		return 0;
	}
	err = read_traces(p);
	if (err == -EINVAL)
		goto no_use;
	if (!err)
		err = gt_ident(p);
	if (!err)
		err = choose_name(p, s->out);
	grown = err ? NULL : reallocarray(s->out->list, s->out->n + 1, sizeof(*grown));
	if (!grown) {
		profiler_fini(p);
		return -ENOMEM;
	}
	s->out->list = grown;
	grown[s->out->n++] = *p;
	say_found(&grown[s->out->n - 1]);
	return 0;
no_use:
	s->no_use++;
	s->out->unusable++;
	profiler_fini(p);
	return 0;
}

/* ---- layouts ---- */

static void no_trace(struct search *s, const struct gt_profiler *p)
{
	s->found++;
	s->no_use++;
	s->out->unusable++;
	if (p->database)
		gt_error("%s: holds a database (%s), but no trace_view.json to lay the GIL beside; "
			 "export text, too (export_type), or run the analysis again for it",
			 p->dir, gt_name_last(p->database));
	else
		gt_error("%s: there is no trace_view.json in %s", p->dir, trace_dir);
}

/* What gil2trace has made. Only who names it wants something of it. */
static void say_joint(struct search *s, const char *dir)
{
	if (strcmp(dir, s->root) != 0 && strncmp(dir, s->root, strlen(dir)) != 0) {
		gt_debug("%s: is a joint view, and not looked at", dir);
		s->joint++;
		return;
	}
	s->found++;
	s->no_use++;
	gt_error("%s: is a joint view, which gil2trace has made; name the Profiler's own folder",
		 dir);
}

/* A folder of torch_npu or MindSpore; fd is its descriptor. */
static int add_ascend(struct search *s, int fd, const char *dir, const struct gt_names *names,
		      const char *trace)
{
	gt_autoclose int out_fd = gt_prof_dir(fd, trace_dir);
	gt_autofree char *out = gt_prof_join(dir, trace_dir);
	struct gt_profiler p = {.dir = strdup(dir), .pid = -1, .rank = -1};
	int err = out && p.dir ? 0 : -ENOMEM;

	if (!err && out_fd >= 0 && gt_prof_type(out_fd, "trace.json")) {
		say_joint(s, dir);
		profiler_fini(&p);
		return 0;
	}
	if (!err)
		err = gt_prof_take_database(&p, out_fd, out);
	if (!err)
		err = gt_prof_take_info(&p, fd, names);
	if (!err)
		err = gt_prof_take_prof(&p, fd, names);
	if (!err && (trace || (out_fd >= 0 && gt_prof_type(out_fd, "trace_view.json")))) {
		p.trace = trace ? strdup(trace) : gt_prof_join(out, "trace_view.json");
		if (p.trace)
			return add_profiler(s, &p);
		err = -ENOMEM;
	}
	if (!err)
		no_trace(s, &p);
	profiler_fini(&p);
	return err;
}

/* A folder of msprof. */
static int add_prof(struct search *s, int fd, const char *dir, const char *trace)
{
	gt_autoclose int out_fd = gt_prof_dir(fd, msprof_dir);
	gt_autofree char *out = gt_prof_join(dir, msprof_dir);
	struct gt_profiler p = {.dir = strdup(dir), .pid = -1, .rank = -1};
	int err = out && p.dir ? 0 : -ENOMEM;

	if (!err)
		err = gt_prof_take_database(&p, fd, dir);
	if (!err)
		err = gt_prof_take_host(&p, fd, dir);
	if (!err && trace)
		err = (p.trace = strdup(trace)) ? 0 : -ENOMEM;
	else if (!err && out_fd >= 0)
		err = gt_prof_take_msprof(&p, out_fd, out);
	if (!err && p.trace)
		return add_profiler(s, &p);
	if (err && err != -ENOMEM)
		gt_error("%s: cannot be read: %s", out, strerror(-err));
	else if (!err)
		gt_error("%s: there is no msprof_*.json in it", out);
	s->found++;
	s->no_use++;
	s->out->unusable++;
	profiler_fini(&p);
	return err == -ENOMEM ? err : 0;
}

/* A trace that is no part of such a folder. Takes path over (NULL: no memory). */
static int add_alone(struct search *s, char *path)
{
	struct gt_profiler p = {.trace = path, .pid = -1, .rank = -1};

	return path ? add_profiler(s, &p) : -ENOMEM;
}

/* ---- search ---- */

static int push(struct search *s, const char *parent, const char *name, unsigned int depth)
{
	struct todo *grown;
	char *path;

	if (s->ntodo == FOLDERS_MAX) {
		gt_warn("%s: has more than %d folders; the rest is not looked at", s->arg,
			FOLDERS_MAX);
		s->ntodo++; /* said once */
		s->no_use++;
	}
	if (s->ntodo >= FOLDERS_MAX)
		return 0;
	if (!(s->ntodo & (s->ntodo - 1))) {
		grown = reallocarray(s->todo, s->ntodo ? s->ntodo * 2 : 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		s->todo = grown;
	}
	path = gt_prof_join(parent, name);
	if (!path)
		return -ENOMEM;
	s->todo[s->ntodo++] = (struct todo){.path = path, .depth = depth};
	return 0;
}

/* Is this the name of a trace, in a folder that is no Profiler's? */
static int is_trace_name(const char *name)
{
	return gt_name_is_kineto(name) || !strcmp(name, "trace_view.json") ||
	       gt_name_msprof(name) >= 0;
}

/* An entry of a folder that is no Profiler's. */
static int look_at_entry(struct search *s, int fd, const char *dir, const struct todo *t,
			 const char *name)
{
	switch (gt_prof_type(fd, name)) {
	case 'f':
		s->recordings += gt_name_ends(name, ".gil");
		return is_trace_name(name) ? add_alone(s, gt_prof_join(dir, name)) : 0;
	case 'd':
		return t->depth < DEPTH_MAX ? push(s, t->path, name, t->depth + 1) : 0;
	case 'l':
		if (!is_trace_name(name) && !gt_name_is_ascend(name) && !gt_name_is_prof(name))
			return 0;
		gt_warn("%s/%s: is a symbolic link, which is not followed; name its target", dir,
			name);
		s->no_use++;
	}
	return 0;
}

static int look_at_folder(struct search *s, const struct todo *t)
{
	gt_autoclose int fd =
		*t->path ? gt_prof_dir(s->root_fd, t->path) : gt_prof_dir(s->root_fd, ".");
	gt_autofree char *dir = gt_prof_join(s->root, t->path);
	struct gt_names names;
	int err = !dir ? -ENOMEM : fd < 0 ? fd : gt_prof_list(fd, &names);

	if (err) {
		if (err == -ENOMEM)
			return err;
		gt_error("%s: the folder cannot be read: %s", dir, strerror(-err));
		s->no_use++;
		return 0;
	}
	if (names.cut) {
		gt_warn("%s: has more than %d entries; the rest is not looked at", dir,
			GT_NAMES_MAX);
		s->no_use++;
	}
	if (gt_prof_type(fd, trace_dir) == 'd') {
		err = add_ascend(s, fd, dir, &names, NULL);
	} else if (gt_prof_type(fd, msprof_dir) == 'd') {
		err = add_prof(s, fd, dir, NULL);
	} else if (gt_name_is_ascend(gt_name_last(dir))) {
		if (gt_prof_type(fd, trace_dir) == 'l')
			gt_error("%s/%s: is a symbolic link, which is not followed", dir,
				 trace_dir);
		else
			gt_error("%s: has not been analysed: there is no %s in it", dir, trace_dir);
		s->found++;
		s->no_use++;
		s->out->unusable++;
	} else {
		for (size_t i = 0; i < names.n && !err; i++)
			err = look_at_entry(s, fd, dir, t, names.list[i]);
	}
	gt_names_free(&names);
	return err;
}

static int search_folder(struct search *s)
{
	int err = push(s, "", "", 0);

	while (!err && s->done < s->ntodo && s->done < FOLDERS_MAX) {
		/* The list may move while this one is looked at. */
		const struct todo t = s->todo[s->done++];

		err = look_at_folder(s, &t);
	}
	if (!err && !s->found && !s->no_use) {
		if (s->joint)
			gt_error("%s: holds nothing but joint views, which gil2trace has made; "
				 "name the Profiler's own folder",
				 s->arg);
		else if (s->recordings)
			gt_error("%s: holds recordings of the GIL, and no Profiler's trace; "
				 "--profiler names what the Profiler has written, and recordings "
				 "stand without an option: are the two swapped?",
				 s->arg);
		else
			gt_error("%s: there is no Profiler's trace in this folder: no %s, no %s, "
				 "no *.pt.trace.json",
				 s->arg, trace_dir, msprof_dir);
		s->no_use++;
	}
	for (size_t i = 0; i < s->ntodo && i < FOLDERS_MAX; i++)
		free(s->todo[i].path);
	free(s->todo);
	return err;
}

/* A trace file: the folder above the one that it lies in may be its Profiler's. */
static int search_file(struct search *s)
{
	gt_autofree char *dir = strdup(s->root);
	gt_autoclose int fd = -1;
	struct gt_names names;
	char *slash = dir ? strrchr(dir, '/') : NULL;
	const char *in;
	int err;

	if (!dir)
		return -ENOMEM;
	*slash = '\0';
	in = gt_name_last(dir);
	if (strcmp(in, trace_dir) && strcmp(in, msprof_dir))
		return add_alone(s, strdup(s->root));
	slash = strrchr(dir, '/');
	*slash = '\0';
	fd = open(*dir ? dir : "/", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return add_alone(s, strdup(s->root));
	if (!strcmp(slash + 1, msprof_dir))
		return add_prof(s, fd, *dir ? dir : "/", s->root);
	err = gt_prof_list(fd, &names);
	if (err)
		return err == -ENOMEM ? err : add_alone(s, strdup(s->root));
	err = add_ascend(s, fd, *dir ? dir : "/", &names, s->root);
	gt_names_free(&names);
	return err;
}

/* The path without links; a folder for traces stands for the one that it lies in. */
static char *resolve(const char *arg, int *is_dir)
{
	char *root = realpath(arg, NULL), *slash;
	struct stat st;

	if (!root)
		return NULL;
	if (stat(root, &st)) {
		free(root);
		return NULL;
	}
	*is_dir = S_ISDIR(st.st_mode);
	slash = strrchr(root, '/');
	if (*is_dir && (!strcmp(slash + 1, trace_dir) || !strcmp(slash + 1, msprof_dir)))
		slash[slash == root] = '\0';
	return root;
}

static int search_one(struct search *s)
{
	int is_dir, err;

	s->root = resolve(s->arg, &is_dir);
	if (!s->root) {
		if (errno == ENOMEM)
			return -ENOMEM;
		gt_error("%s: cannot be opened: %s", s->arg, strerror(errno));
		s->no_use++;
		return 0;
	}
	if (!is_dir) {
		err = search_file(s);
	} else {
		s->root_fd = open(s->root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (s->root_fd < 0) {
			gt_error("%s: cannot be opened: %s", s->arg, strerror(errno));
			s->no_use++;
			err = 0;
		} else {
			err = search_folder(s);
			close(s->root_fd);
		}
	}
	free(s->root);
	return err;
}

int gt_profilers_find(struct gt_profilers *p, const char *const *paths, size_t n)
{
	int no_use = 0, err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		struct search s = {.out = p, .arg = paths[i], .root_fd = -1};

		err = search_one(&s);
		no_use += s.no_use;
	}
	if (err)
		gt_error("out of memory");
	return err ? err : no_use;
}
