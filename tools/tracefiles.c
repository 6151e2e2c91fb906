// SPDX-License-Identifier: Apache-2.0
#include "tracefiles.h"

#include <stdio.h>

#include "log.h"
#include "tidmap.h"

/* A process that is being handed on, for the parts that begin inside it. */
struct process {
	struct gt_sink_process p; /* its texts are copies */
	char *name, *tags, *path;
};

struct gt_tracefiles {
	struct gt_tracefiles_opts o;
	int err;        /* the first; nothing is written any more but with .per_process */
	size_t written; /* files that have their names */
	size_t processes;

	/* the trace at hand */
	const char *path;        /* NULL: none */
	struct gt_outfile **all; /* its parts; the last of them is open */
	size_t n, size;

	/* the open part */
	struct gt_jsonw w;
	struct gt_sink *chrome; /* NULL: none is open */
	struct gt_tidmap drawn; /* threads of the process with a slice or a mark in it */
	struct process process;
	uint8_t in_process; /* .chrome has been told of it .. */
	uint8_t shows;      /* .. and of something in it */
	uint8_t refused;    /* the process has no file */
	uint8_t said;       /* that a part cannot be opened */

	char **names; /* with .per_process: those that were used */
	size_t nnames, names_size;
};

struct files_sink {
	struct gt_sink sink;
	struct gt_tracefiles *files;
};

static struct gt_tracefiles *of(struct gt_sink *s)
{
	return ((struct files_sink *)s)->files;
}

/* ---- names ---- */

static int ends_with(const char *name, size_t n, const char *suffix)
{
	size_t len = strlen(suffix);

	return n > len && !memcmp(name + n - len, suffix, len);
}

char *gt_tracefiles_name(const char *folder, const char *recording, int gzip)
{
	const char *slash = strrchr(recording, '/'), *tail = gzip ? ".gz" : "";
	const char *base = folder && slash ? slash + 1 : recording;
	size_t n = strlen(base);
	const char *ending = ends_with(base, n, ".json") ? "_trace.json" : ".json";
	char *out;

	n -= ends_with(base, n, ".gil") ? 4 : ends_with(base, n, ".json") ? 5 : 0;
	return asprintf(&out, "%s%s%.*s%s%s", folder ? folder : "", folder ? "/" : "", (int)n, base,
			ending, tail) < 0
		       ? NULL
		       : out;
}

/* "out/trace.json.gz" -> "out/trace_2.json.gz" */
static char *numbered(const char *path, size_t number)
{
	const char *slash = strrchr(path, '/');
	size_t n = strlen(path), stem = n;
	char *out;

	if (ends_with(path, stem, ".gz"))
		stem -= 3;
	if (ends_with(path, stem, ".json"))
		stem -= 5;
	if (slash && (size_t)(slash + 1 - path) > stem)
		stem = n;
	return asprintf(&out, "%.*s_%zu%s", (int)stem, path, number, path + stem) < 0 ? NULL : out;
}

static int is_used(const struct gt_tracefiles *t, const char *name)
{
	for (size_t i = 0; i < t->nnames; i++)
		if (!strcmp(t->names[i], name))
			return 1;
	return 0;
}

/* Takes `name` over. */
static int use_name(struct gt_tracefiles *t, char *name)
{
	if (t->nnames == t->names_size) {
		size_t size = t->names_size ? t->names_size * 2 : 16;
		char **grown = reallocarray(t->names, size, sizeof(*grown));

		if (!grown) {
			free(name);
			return -ENOMEM;
		}
		t->names = grown;
		t->names_size = size;
	}
	t->names[t->nnames++] = name;
	return 0;
}

/* Recordings of several folders may have one name. NULL: out of memory. */
static const char *choose_name(struct gt_tracefiles *t, const char *recording)
{
	gt_autofree char *first = gt_tracefiles_name(t->o.path, recording, t->o.gzip);
	char *name = first ? strdup(first) : NULL;

	for (size_t i = 2; name && is_used(t, name); i++) {
		free(name);
		name = numbered(first, i);
	}
	return name && !use_name(t, name) ? name : NULL;
}

/* ---- parts ---- */

static int grow(struct gt_tracefiles *t)
{
	size_t size = t->size ? t->size * 2 : 4;
	struct gt_outfile **all;

	if (t->n < t->size)
		return 0;
	all = reallocarray(t->all, size, sizeof(*all));
	if (!all)
		return -ENOMEM;
	t->all = all;
	t->size = size;
	return 0;
}

static int open_part(struct gt_tracefiles *t)
{
	gt_autofree char *own = t->o.part_bytes ? numbered(t->path, t->n + 1) : NULL;
	struct gt_outfile *f;
	int err = grow(t);

	if (!err && t->o.part_bytes && !own)
		err = -ENOMEM;
	if (err)
		return err;
	err = gt_outfile_open(t->o.outs, own ? own : t->path, &f);
	t->said = err != 0;
	if (err)
		return err;
	err = gt_jsonw_init(&t->w, gt_outfile_fd(f), t->o.gzip);
	if (!err) {
		err = gt_chrome_create(&t->w, &t->o.chrome, &t->chrome);
		if (err)
			gt_jsonw_fini(&t->w);
	}
	if (err) {
		gt_outfile_keep(f, err);
		return err;
	}
	t->all[t->n++] = f;
	return 0;
}

/* Ends its text and gives its descriptor back; its name it gets with the others. */
static int close_part(struct gt_tracefiles *t)
{
	int err;

	if (!t->chrome)
		return 0;
	err = t->chrome->ops->finish(t->chrome);
	t->chrome = NULL;
	t->in_process = 0;
	gt_jsonw_fini(&t->w);
	return gt_outfile_shut(t->all[t->n - 1], err);
}

/* Of an earlier run, which had more parts. */
static void warn_of_rest(const struct gt_tracefiles *t)
{
	gt_autofree char *next = numbered(t->path, t->n + 1);

	if (next && !access(next, F_OK))
		gt_warn("%s: is a part of another trace than those that were written now", next);
}

static void report_written(const struct gt_tracefiles *t, const char *first)
{
	gt_autofree char *last = NULL;

	if (t->o.part_bytes && t->n > 1)
		last = numbered(t->path, t->n);
	if (last)
		gt_info("%s .. %s: written, %zu parts", first, last, t->n);
	else
		gt_info("%s: written", first);
}

/* The trace at hand is complete, or is not to be kept. */
static int end_trace(struct gt_tracefiles *t, int err, int keep)
{
	gt_autofree char *first = NULL;
	int closed = close_part(t), failed = err ? err : closed, said = t->said;

	if (t->n)
		first = strdup(gt_outfile_path(t->all[0]));
	for (size_t i = 0; i < t->n; i++) {
		/* One of them tells of the error that all have. */
		if (failed ? i == t->n - 1 && !said : keep)
			err = gt_outfile_keep(t->all[i], failed);
		else
			gt_outfile_drop(t->all[i]);
		if (keep && !failed && !err)
			t->written++;
		if (!failed)
			failed = err;
	}
	if (t->n && keep && !failed) {
		if (first)
			report_written(t, first);
		if (t->o.part_bytes)
			warn_of_rest(t);
	}
	t->n = 0;
	t->path = NULL;
	t->said = 0;
	return failed;
}

/* ---- processes ---- */

static void forget_process(struct process *p)
{
	free(p->name);
	free(p->tags);
	free(p->path);
	*p = (struct process){0};
}

static int remember_process(struct process *out, const struct gt_sink_process *p)
{
	forget_process(out);
	out->p = *p;
	out->p.name = out->name = strdup(p->name);
	out->p.tags = out->tags = strdup(p->tags);
	out->p.path = out->path = strdup(p->path);
	out->p.host = NULL; /* the tags tell it */
	return out->name && out->tags && out->path ? 0 : -ENOMEM;
}

static int by_tid(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static int tell_thread(struct gt_tracefiles *t, uint32_t tid)
{
	struct gt_sink_thread thread = {.tid = tid, .name = ""};
	char unnamed[32];

	thread.label = gt_threadnames_label(t->o.names, t->process.p.order, tid);
	if (!thread.label) { /* the recording has grown meanwhile */
		snprintf(unnamed, sizeof(unnamed), "thread %u", tid);
		thread.label = unnamed;
	}
	return t->chrome->ops->thread(t->chrome, &thread);
}

/* What comes last in a process, for the threads that this part shows. */
static int end_process_in_part(struct gt_tracefiles *t)
{
	struct gt_sink_end end = {.doubt = gt_threadnames_doubt(t->o.names, t->process.p.order)};
	gt_autofree uint32_t *tids = NULL;
	int err = 0;

	if (!t->in_process)
		return 0;
	t->in_process = 0;
	tids = reallocarray(NULL, t->drawn.n + 1u, sizeof(*tids));
	if (!tids)
		return -ENOMEM;
	if (t->drawn.n)
		memcpy(tids, t->drawn.tids, t->drawn.n * sizeof(*tids));
	qsort(tids, t->drawn.n, sizeof(*tids), by_tid);
	for (uint32_t i = 0; i < t->drawn.n && !err; i++)
		err = tell_thread(t, tids[i]);
	return err ? err : t->chrome->ops->end(t->chrome, &end);
}

/* Tells the open part of the process, which it shows from `start_ns` on. */
static int begin_process_in_part(struct gt_tracefiles *t, uint64_t start_ns)
{
	struct gt_sink_process p = t->process.p;

	if (p.start_ns < start_ns)
		p.start_ns = start_ns;
	gt_tidmap_clear(&t->drawn);
	t->in_process = 1;
	t->shows = 0;
	return t->chrome->ops->process(t->chrome, &p);
}

static int is_full(const struct gt_tracefiles *t)
{
	return t->o.part_bytes && gt_jsonw_bytes(&t->w) >= t->o.part_bytes;
}

static int next_part(struct gt_tracefiles *t)
{
	int err = end_process_in_part(t);

	if (!err)
		err = close_part(t);
	return err ? err : open_part(t);
}

/* With a file for each process its errors are its own. */
static int note(struct gt_tracefiles *t, int err)
{
	if (!err)
		return 0;
	if (!t->err)
		t->err = err;
	if (!t->o.per_process || err == -ENOMEM)
		return err;
	end_trace(t, err, 1);
	t->refused = 1;
	return 0;
}

static int begin_process(struct gt_tracefiles *t, const struct gt_sink_process *p)
{
	int err = 0;

	if (t->o.part_bytes)
		err = remember_process(&t->process, p);
	if (!err && t->o.per_process) {
		t->path = choose_name(t, p->path);
		err = t->path ? open_part(t) : -ENOMEM;
	} else if (!err && is_full(t)) {
		err = next_part(t);
	}
	if (err)
		return err;
	if (t->o.part_bytes)
		return begin_process_in_part(t, p->start_ns);
	return t->chrome->ops->process(t->chrome, p);
}

static int files_process(struct gt_sink *s, const struct gt_sink_process *p)
{
	struct gt_tracefiles *t = of(s);

	t->refused = 0;
	t->processes++;
	return note(t, begin_process(t, p));
}

/* For what begins at `start_ns`. */
static int make_room(struct gt_tracefiles *t, uint64_t start_ns)
{
	int err = 0;

	if (is_full(t) && t->shows) {
		err = next_part(t);
		if (!err)
			err = begin_process_in_part(t, start_ns);
	}
	t->shows = 1;
	return err;
}

static int span_in_part(struct gt_tracefiles *t, const struct gt_span *span)
{
	uint32_t number;
	int err = make_room(t, span->start_ns);

	return err ? err : gt_tidmap_add(&t->drawn, span->tid, &number);
}

static int files_span(struct gt_sink *s, const struct gt_span *span)
{
	struct gt_tracefiles *t = of(s);
	int err;

	if (t->refused)
		return 0;
	err = t->o.part_bytes ? span_in_part(t, span) : 0;
	if (!err)
		err = t->chrome->ops->span(t->chrome, span);
	return err ? note(t, err) : 0;
}

static int files_gap(struct gt_sink *s, const struct gt_gap *gap)
{
	struct gt_tracefiles *t = of(s);
	int err;

	if (t->refused)
		return 0;
	err = t->o.part_bytes ? make_room(t, gap->begin_ns) : 0;
	if (!err)
		err = t->chrome->ops->gap(t->chrome, gap);
	return note(t, err);
}

static int mark_in_part(struct gt_tracefiles *t, const struct gt_mark *mark)
{
	uint32_t number;
	int err = make_room(t, mark->at_ns);

	return err || !mark->tid ? err : gt_tidmap_add(&t->drawn, mark->tid, &number);
}

static int files_mark(struct gt_sink *s, const struct gt_mark *mark)
{
	struct gt_tracefiles *t = of(s);
	int err;

	if (t->refused)
		return 0;
	err = t->o.part_bytes ? mark_in_part(t, mark) : 0;
	if (!err)
		err = t->chrome->ops->mark(t->chrome, mark);
	return note(t, err);
}

static int files_thread(struct gt_sink *s, const struct gt_sink_thread *thread)
{
	struct gt_tracefiles *t = of(s);

	if (t->refused || t->o.part_bytes)
		return 0;
	return note(t, t->chrome->ops->thread(t->chrome, thread));
}

static int files_end(struct gt_sink *s, const struct gt_sink_end *end)
{
	struct gt_tracefiles *t = of(s);
	int err;

	if (t->refused)
		return 0;
	err = t->o.part_bytes ? end_process_in_part(t) : t->chrome->ops->end(t->chrome, end);
	if (err || !t->o.per_process)
		return note(t, err);
	err = end_trace(t, 0, 1);
	if (err && !t->err)
		t->err = err;
	return 0;
}

static int files_finish(struct gt_sink *s)
{
	struct gt_tracefiles *t = of(s);
	int err = close_part(t);

	if (err && !t->err)
		t->err = err;
	free(s);
	return t->err;
}

/* ---- the whole ---- */

int gt_tracefiles_sink(struct gt_tracefiles *t, struct gt_sink **out)
{
	static const struct gt_sink_ops ops = {
		.process = files_process,
		.span = files_span,
		.gap = files_gap,
		.mark = files_mark,
		.thread = files_thread,
		.end = files_end,
		.finish = files_finish,
	};
	struct files_sink *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->sink.ops = &ops;
	s->files = t;
	*out = &s->sink;
	return 0;
}

int gt_tracefiles_create(const struct gt_tracefiles_opts *opts, struct gt_tracefiles **out)
{
	struct gt_tracefiles *t = calloc(1, sizeof(*t));
	int err = 0;

	if (!t)
		return -ENOMEM;
	t->o = *opts;
	if (!opts->per_process) {
		t->path = opts->path;
		err = open_part(t);
	}
	if (err) {
		gt_tracefiles_free(t);
		return err;
	}
	*out = t;
	return 0;
}

int gt_tracefiles_end(struct gt_tracefiles *t, int err, int keep)
{
	int failed = end_trace(t, t->err ? t->err : err, keep && t->processes);

	if (failed && !t->err)
		t->err = failed;
	return t->err;
}

size_t gt_tracefiles_written(const struct gt_tracefiles *t)
{
	return t->written;
}

void gt_tracefiles_free(struct gt_tracefiles *t)
{
	if (!t)
		return;
	close_part(t);
	for (size_t i = 0; i < t->n; i++)
		gt_outfile_drop(t->all[i]);
	free(t->all);
	for (size_t i = 0; i < t->nnames; i++)
		free(t->names[i]);
	free(t->names);
	gt_tidmap_fini(&t->drawn);
	forget_process(&t->process);
	free(t);
}
