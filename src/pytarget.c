// SPDX-License-Identifier: Apache-2.0
#include "pytarget.h"
#include "log.h"
#include "rights.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define PYCACHE_MAX    4096
#define BUCKET_BITS    10
#define BUCKETS        (1u << BUCKET_BITS)
#define UNREADABLE_MAX 3   /* files of a process that cost the reader all its time, or kill it */
#define FOUND_MAX      16  /* CPythons of a process that are told by name */
#define SITES_TOTAL    255 /* of all files together, as a site's index has 8 bits */

/* CPython 2.7 to 3.13 have 1 MiB to 2.7 MiB of it, most other files on a host less than this. */
#define CODE_MIN 0x40000

/* ---- the cache ---- */

/* One file as it was and what was asked of it; a replaced or rewritten one has another identity. */
struct entry {
	struct entry *next;
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec ctime;
	enum gt_probe_mode mode;
	unsigned int flags;
	int err; /* of gt_symres_file() */
	char why[GT_WHY_MAX];
	struct gt_sites *sites; /* NULL: neither a CPython nor what else was asked for */
};

struct gt_pycache {
	enum gt_probe_mode mode;
	unsigned int flags;
	size_t n;
	unsigned int hand; /* the bucket from which a file is forgotten next */
	struct entry *bucket[BUCKETS];
};

struct gt_pycache *gt_pycache_new(enum gt_probe_mode mode, unsigned int flags)
{
	struct gt_pycache *c = calloc(1, sizeof(*c));

	if (c) {
		c->mode = mode;
		c->flags = flags;
	}
	return c;
}

void gt_pycache_free(struct gt_pycache *c)
{
	if (!c)
		return;
	for (unsigned int i = 0; i < BUCKETS; i++) {
		while (c->bucket[i]) {
			struct entry *e = c->bucket[i];

			c->bucket[i] = e->next;
			free(e->sites);
			free(e);
		}
	}
	free(c);
}

static unsigned int bucket_of(dev_t dev, ino_t ino)
{
	return (unsigned int)(((uint64_t)ino ^ (uint64_t)dev << 32) * 0x9e3779b97f4a7c15u >>
			      (64 - BUCKET_BITS));
}

static const struct entry *lookup(const struct gt_pycache *c, const struct stat *st,
				  enum gt_probe_mode mode, unsigned int flags)
{
	const struct entry *e = c->bucket[bucket_of(st->st_dev, st->st_ino)];

	while (e &&
	       (e->dev != st->st_dev || e->ino != st->st_ino || e->size != st->st_size ||
		e->ctime.tv_sec != st->st_ctim.tv_sec || e->ctime.tv_nsec != st->st_ctim.tv_nsec ||
		e->mode != mode || e->flags != flags))
		e = e->next;
	return e;
}

/* Once for each file, however many processes have it. */
static void remark(const char *name, const struct gt_sites *s)
{
	if (s->n && s->why[0])
		gt_warn("%s: %s", name, s->why);
	if (s->verdict == GT_VERDICT_DISAGREES)
		gt_warn("%s: the scan and the symbols (from %s) contradict each other: %s%s%s",
			name, s->symbols_from, s->disagreement, s->n ? "; used: " : "",
			s->n ? gt_probe_mode_name((enum gt_probe_mode)s->mode) : "");
}

/* Reads the file into *e. 0 or -errno: not the file's fault, it may be another time. */
static int read_entry(struct entry *e, int fd, const char *name)
{
	gt_autofree struct gt_sites *sites = malloc(sizeof(*sites));

	if (!sites)
		return -ENOMEM;
	e->err = gt_symres_file(fd, name, e->mode, e->flags, sites);
	if (e->err && e->err != -ENOENT && e->err != -EIO)
		return e->err;
	memcpy(e->why, sites->why, sizeof(e->why));
	if (!e->err || sites->is_python) {
		remark(name, sites);
		e->sites = gt_steal_ptr(sites);
	}
	return 0;
}

/* Makes room: what is neither a CPython nor a libc can be read again, and nobody holds on to it. */
static void forget_one(struct gt_pycache *c)
{
	for (unsigned int i = 0; i < BUCKETS; i++) {
		struct entry **at = &c->bucket[c->hand++ % BUCKETS], **oldest = NULL, *e;

		for (; *at; at = &(*at)->next)
			if (!(*at)->sites)
				oldest = at;
		if (!oldest)
			continue;
		e = *oldest;
		*oldest = e->next;
		free(e);
		c->n--;
		return;
	}
}

/* Reads the file behind fd and remembers it; NULL with *err. */
static const struct entry *learn(struct gt_pycache *c, int fd, const struct stat *st,
				 const char *name, enum gt_probe_mode mode, unsigned int flags,
				 int *err)
{
	struct entry *e, **bucket = &c->bucket[bucket_of(st->st_dev, st->st_ino)];

	if (c->n == PYCACHE_MAX)
		forget_one(c);
	e = c->n < PYCACHE_MAX ? calloc(1, sizeof(*e)) : NULL;
	if (!e) {
		*err = -ENOMEM;
		return NULL;
	}
	e->dev = st->st_dev;
	e->ino = st->st_ino;
	e->size = st->st_size;
	e->ctime = st->st_ctim;
	e->mode = mode;
	e->flags = flags;
	*err = read_entry(e, fd, name);
	if (*err) {
		free(e);
		return NULL;
	}
	e->next = *bucket;
	*bucket = e;
	c->n++;
	return e;
}

/*
 * The entry of the file at a path of map_files, made if there is none; NULL with *err. -ENOEXEC: no
 * regular file. Only a regular file that is not known is opened: to open a device may do something.
 */
static const struct entry *resolve(struct gt_pycache *c, const char *path, const char *name,
				   enum gt_probe_mode mode, unsigned int flags, int *err)
{
	gt_autoclose int fd = -1;
	const struct entry *known;
	struct stat st;

	*err = stat(path, &st) ? -errno : S_ISREG(st.st_mode) ? 0 : -ENOEXEC;
	if (*err)
		return NULL;
	known = lookup(c, &st, mode, flags);
	if (known)
		return known;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	*err = fd < 0 || fstat(fd, &st) ? -errno : S_ISREG(st.st_mode) ? 0 : -ENOEXEC;
	return *err ? NULL : learn(c, fd, &st, name, mode, flags, err);
}

/* ---- the files of a process ---- */

struct search {
	struct gt_pycache *cache;
	const struct gt_proc *p;
	const struct gt_map *maps;
	size_t n_maps;
	ino_t exe;      /* 0: not known */
	int any;        /* only whether there is one: stops at the first, says nothing */
	int failed;     /* -errno of the last file that could not be looked into */
	int unreadable; /* files that the reader did not get through */
	/* Those that hold CPython's code, in the order of preference: */
	struct found {
		const struct gt_map *map;
		const struct entry *e;
	} found[FOUND_MAX];
	size_t n_found;
	struct found libc; /* with the condition functions; NULLs: none, or not looked for */
};

/* What a mapped file is; NULL: that could not be found out, or it is no regular file. */
static const struct entry *look(struct search *s, const struct gt_map *m, enum gt_probe_mode mode,
				unsigned int flags)
{
	const struct entry *e;
	char path[64];
	int err = 0;

	if (s->unreadable >= (s->any ? 1 : UNREADABLE_MAX))
		return NULL;
	gt_proc_map_file(s->p, m, path, sizeof(path));
	e = resolve(s->cache, path, m->path, mode, flags, &err);
	if (!e && err != -ENOEXEC)
		s->failed = err;
	if (!e || e->err != -EIO)
		return e;
	if (!s->any)
		gt_warn("process %d: %s: %s", (int)s->p->pid, m->path, e->why);
	s->failed = -EIO;
	s->unreadable++;
	return NULL;
}

static int is_exe(const struct search *s, const struct gt_map *m)
{
	return s->exe && s->exe == m->ino;
}

static int begins_with(const struct gt_map *m, const char *name)
{
	const char *base = strrchr(m->path, '/');

	return base && !strncmp(base + 1, name, strlen(name));
}

/* The most likely file first. Names give the order; what a file is, it tells itself. */
static int order_of_python(const struct search *s, const struct gt_map *m)
{
	return begins_with(m, "libpython3") ? 0 : is_exe(s, m) ? 1 : 2;
}

/* glibc before 2.34 has the functions in libpthread, and in libc others of the same names. */
static int order_of_libc(const struct gt_map *m)
{
	if (begins_with(m, "libpthread"))
		return 0;
	return begins_with(m, "libc.") || begins_with(m, "libc-") || begins_with(m, "ld-musl") ? 1
											       : 2;
}

static void try_python(struct search *s, const struct gt_map *m, unsigned int flags)
{
	const struct entry *e;

	if (s->any && (s->n_found || m->code_end - m->start < CODE_MIN))
		return;
	e = look(s, m, s->cache->mode, s->cache->flags | flags);
	if (!e || !e->sites || !e->sites->is_python || (s->any && e->sites->python2))
		return;
	if (s->n_found < FOUND_MAX)
		s->found[s->n_found++] = (struct found){m, e};
}

static void find_pythons(struct search *s)
{
	for (int order = 0; order < 3; order++)
		for (size_t i = 0; i < s->n_maps; i++)
			if (order_of_python(s, &s->maps[i]) == order)
				try_python(s, &s->maps[i], 0);
	/* A program with CPython linked in may export nothing of it. */
	for (size_t i = 0; i < s->n_maps && !s->n_found; i++)
		if (is_exe(s, &s->maps[i]))
			try_python(s, &s->maps[i], GT_SYMRES_EXE);
}

static void find_libc(struct search *s)
{
	for (int order = 0; order < 3; order++) {
		for (size_t i = 0; i < s->n_maps; i++) {
			const struct gt_map *m = &s->maps[i];
			const struct entry *e = NULL;

			if (order_of_libc(m) == order)
				e = look(s, m, GT_PROBE_LIBC, 0);
			if (!e || e->err)
				continue;
			s->libc = (struct found){m, e};
			return;
		}
	}
}

/* ---- which of them are traced, and how ---- */

/* Has it no sites of its own, but condition variables that libc's functions can be told by? */
static int wants_libc(const struct search *s, const struct entry *e)
{
	return e->err && e->sites->switch_cond &&
	       (s->cache->mode == GT_PROBE_AUTO || s->cache->mode == GT_PROBE_LIBC);
}

/* Why a CPython cannot be traced, by itself; NULL: it can. */
static const char *refusal(const struct search *s, const struct entry *e)
{
	return !e->err || (wants_libc(s, e) && s->libc.e) ? NULL : e->why;
}

static int is_noarg(const struct gt_sites *s)
{
	return s->n && s->site[0].flags & GT_SITE_NOARG;
}

/* Why a CPython cannot be traced beside those that were taken before; NULL: it can. */
static const char *conflict(const struct search *search, const struct gt_pytarget *t,
			    const struct gt_sites *s)
{
	uint32_t sites = s->n + (search->libc.e ? search->libc.e->sites->n : 0);

	if (t->n == GT_PYTHONS_MAX)
		return "the process has more CPythons than can be traced at one time";
	for (uint32_t i = 0; i < t->n; i++) {
		if (is_noarg(t->python[i].sites) && is_noarg(s))
			return "its probes do not tell its GIL from that of another CPython in the "
			       "process";
		sites += t->python[i].sites->n;
	}
	return sites > SITES_TOTAL ? "the process has too many probe sites" : NULL;
}

/* Where something of the file, given by its own virtual address, lies in the process. */
static uint64_t address_of(const struct found *f, uint64_t vaddr)
{
	return f->map->start - (f->map->offset + f->e->sites->code_delta) + vaddr;
}

static void add(const struct search *s, const struct found *f, struct gt_pytarget *out)
{
	const struct gt_sites *sites = f->e->sites;

	out->python[out->n++] = (struct gt_python){
		.map = *f->map,
		.sites = sites,
		.runtime = sites->runtime ? address_of(f, sites->runtime) : 0,
	};
	if (sites->n || !s->libc.e)
		return;
	out->libc_map = *s->libc.map;
	out->libc = s->libc.e->sites;
	if (s->cache->mode == GT_PROBE_AUTO)
		gt_warn("process %d: %s: %s", (int)s->p->pid, f->map->path, f->e->why);
	gt_warn("process %d: %s is traced by the condition functions of %s: each use of a "
		"condition variable in the process traps there, so what uses many runs slower",
		(int)s->p->pid, f->map->path, s->libc.map->path);
}

/* 0, or -errno: none can be traced; -ENOEXEC where all files could be read. */
static int choose(struct search *s, struct gt_pytarget *out)
{
	int some = 0;

	for (size_t i = 0; i < s->n_found && !s->libc.e; i++)
		if (wants_libc(s, s->found[i].e))
			find_libc(s);
	for (size_t i = 0; i < s->n_found; i++)
		some |= !refusal(s, s->found[i].e);
	for (size_t i = 0; i < s->n_found; i++) {
		const struct found *f = &s->found[i];
		const char *why = refusal(s, f->e);
		int no_libc = why && wants_libc(s, f->e);

		if (!why)
			why = conflict(s, out, f->e->sites);
		if (!why) {
			add(s, f, out);
			continue;
		}
		gt_log(some ? GT_LOG_WARN : GT_LOG_ERROR,
		       "process %d: cannot trace the CPython in %s: %s%s%s", (int)s->p->pid,
		       f->map->path, why,
		       !no_libc    ? ""
		       : s->failed ? "; nor by --probe=libc, as not all files of the process could "
				     "be read; is it still running?"
				   : "; nor by --probe=libc, as no file of the process defines "
				     "pthread_cond_signal, pthread_cond_timedwait and "
				     "pthread_cond_wait",
		       some ? "; it is left out" : "");
	}
	return out->n ? 0 : s->failed ? s->failed : -ENOEXEC;
}

static int explain_none(const struct search *s)
{
	const struct gt_proc *p = s->p;
	char why[GT_RIGHTS_TEXT];

	if (s->failed) {
		gt_rights_why(GT_STEP_FILES, s->failed, p->pid, why);
		gt_error("process %d (%s): no CPython found, but not all of its files could be "
			 "read: %s%s",
			 (int)p->pid, p->comm, strerror(-s->failed),
			 s->failed == -EPERM || s->failed == -EACCES ? why
								     : "; is it still running?");
		return s->failed;
	}
	if (!s->n_maps)
		gt_error("process %d (%s) shows no mapped file: it is a kernel thread, or its main "
			 "thread has ended",
			 (int)p->pid, p->comm);
	else
		gt_error("process %d (%s): no CPython: none of its %zu mapped files exports "
			 "PyEval_RestoreThread",
			 (int)p->pid, p->comm, s->n_maps);
	return -ENOEXEC;
}

/* Its files; *maps is to be freed. */
static int search_files(struct search *s, struct gt_map **maps)
{
	struct stat exe;
	int err = gt_proc_exec_maps(s->p, maps, &s->n_maps);

	if (err)
		return err;
	s->maps = *maps;
	if (!fstatat(s->p->procfd, "exe", &exe, 0))
		s->exe = exe.st_ino;
	find_pythons(s);
	return 0;
}

int gt_pytarget_find(struct gt_pycache *c, const struct gt_proc *p, struct gt_pytarget *out)
{
	gt_autofree struct gt_map *maps = NULL;
	struct search s = {.cache = c, .p = p};
	int err = search_files(&s, &maps);

	memset(out, 0, sizeof(*out));
	if (err) {
		gt_error("process %d (%s): cannot read its memory map: %s", (int)p->pid, p->comm,
			 strerror(-err));
		return err;
	}
	return s.n_found ? choose(&s, out) : explain_none(&s);
}

int gt_pytarget_is_python(struct gt_pycache *c, const struct gt_proc *p)
{
	gt_autofree struct gt_map *maps = NULL;
	struct search s = {.cache = c, .p = p, .any = 1};
	int err = search_files(&s, &maps);

	if (err)
		return err;
	return s.n_found ? 1 : s.failed;
}

/* ---- what was found ---- */

size_t gt_pytarget_parts(const struct gt_pytarget *t, struct gt_part parts[GT_PARTS_MAX])
{
	size_t n = 0;

	for (uint32_t i = 0; i < t->n; i++)
		if (t->python[i].sites->n)
			parts[n++] = (struct gt_part){&t->python[i].map, t->python[i].sites, i};
	if (t->libc)
		parts[n++] = (struct gt_part){&t->libc_map, t->libc, 0};
	return n;
}

enum gt_probe_mode gt_pytarget_mode(const struct gt_pytarget *t)
{
	enum gt_probe_mode worst = t->libc ? GT_PROBE_LIBC : GT_PROBE_SITES;

	for (uint32_t i = 0; i < t->n; i++)
		if (t->python[i].sites->n && t->python[i].sites->mode > worst)
			worst = (enum gt_probe_mode)t->python[i].sites->mode;
	return worst;
}

const char *gt_probe_mode_name(enum gt_probe_mode mode)
{
	static const char *const names[] = {
		[GT_PROBE_AUTO] = "auto",
		[GT_PROBE_SITES] = "sites",
		[GT_PROBE_FUNCTIONS] = "functions",
		[GT_PROBE_LIBC] = "libc",
	};

	return mode < GT_ARRAY_SIZE(names) ? names[mode] : "?";
}
