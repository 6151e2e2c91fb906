// SPDX-License-Identifier: Apache-2.0
#include "outputs.h"

#include <stdio.h>

#include "log.h"
#include "sink_html.h"
#include "summary.h"
#include "tee.h"
#include "tracefiles.h"

enum branch { SUMMARY, HTML, TRACE, BRANCHES };

struct gt_outputs {
	struct gt_outputs_opts o;
	struct gt_sink *sink;
	struct gt_summary *summary; /* also for the report */
	struct gt_outfile *html;
	struct gt_jsonw html_text;
	struct gt_tracefiles *files;
	char *trace_path; /* made of the inputs' names */
	struct gt_filter_stats left_out;
	struct gt_sink *branches[BRANCHES]; /* those that there are */
	enum branch which[BRANCHES];
	int errors[BRANCHES];
	size_t n;
};

static void add_branch(struct gt_outputs *o, enum branch which, struct gt_sink *sink)
{
	o->which[o->n] = which;
	o->branches[o->n++] = sink;
}

static int open_summary(struct gt_outputs *o)
{
	struct gt_sink *sink;
	int err = gt_summary_create(&o->summary);

	if (!err)
		err = gt_summary_sink(o->summary, &sink);
	if (!err)
		add_branch(o, SUMMARY, sink);
	return err;
}

static int open_html(struct gt_outputs *o)
{
	struct gt_sink *sink;
	int err = gt_outfile_open(o->o.outs, o->o.o->html, &o->html);

	if (err)
		return err;
	err = gt_jsonw_init(&o->html_text, gt_outfile_fd(o->html), 0);
	if (!err)
		err = gt_html_create(&o->html_text, o->summary, &sink);
	if (!err)
		add_branch(o, HTML, sink);
	return err;
}

/* ---- the trace ---- */

static int ends_with_gz(const char *path)
{
	size_t n = strlen(path);

	return n > 3 && !strcmp(path + n - 3, ".gz");
}

/* NULL: out of memory. With .per_rank it is the folder, or empty. */
static const char *choose_trace_path(struct gt_outputs *o)
{
	const struct gt_options *opts = o->o.o;

	if (opts->output)
		return opts->output;
	if (o->o.inputs->n == 1)
		o->trace_path = gt_tracefiles_name(NULL, o->o.inputs->list[0].path, opts->gzip);
	else
		o->trace_path = strdup(opts->gzip ? "gil_trace.json.gz" : "gil_trace.json");
	return o->trace_path;
}

static int make_files(struct gt_outputs *o)
{
	const struct gt_options *opts = o->o.o;
	struct gt_tracefiles_opts files = {
		.outs = o->o.outs,
		.part_bytes = opts->part_bytes,
		.names = o->o.names,
		.chrome = {.base_ns = o->o.base_ns, .flows = opts->flows},
		.per_process = opts->per_rank,
		.gzip = opts->gzip,
	};

	if (opts->per_rank) {
		files.path = opts->output;
		if (files.path && gt_outset_make_folder(files.path))
			return -EIO;
	} else {
		files.path = choose_trace_path(o);
		if (!files.path)
			return -ENOMEM;
		if (opts->gzip && strcmp(files.path, "-") && !ends_with_gz(files.path))
			gt_warn("%s: will be compressed, which viewers tell by a name that ends "
				"with .gz",
				files.path);
		files.gzip |= ends_with_gz(files.path);
	}
	return gt_tracefiles_create(&files, &o->files);
}

static int open_trace(struct gt_outputs *o)
{
	struct gt_sink *sink, *filter;
	int err = make_files(o);

	if (err)
		return err;
	err = gt_tracefiles_sink(o->files, &sink);
	if (!err && gt_filter_wanted(&o->o.filter)) {
		err = gt_filter_create(&o->o.filter, sink, &o->left_out, &filter);
		if (err)
			sink->ops->finish(sink);
		else
			sink = filter;
	}
	if (!err)
		add_branch(o, TRACE, sink);
	return err;
}

/* ---- the whole ---- */

static void free_all(struct gt_outputs *o)
{
	gt_tracefiles_free(o->files);
	gt_jsonw_fini(&o->html_text);
	if (o->html)
		gt_outfile_drop(o->html);
	gt_summary_free(o->summary);
	free(o->trace_path);
	free(o);
}

int gt_outputs_open(const struct gt_outputs_opts *opts, struct gt_outputs **out)
{
	struct gt_outputs *o = calloc(1, sizeof(*o));
	int err = 0;

	if (!o)
		return -ENOMEM;
	o->o = *opts;
	if (opts->o->summary || opts->o->html)
		err = open_summary(o);
	if (!err && opts->o->html)
		err = open_html(o);
	if (!err && opts->o->trace)
		err = open_trace(o);
	if (err) {
		if (err == -ENOMEM)
			gt_error("out of memory");
		for (size_t i = 0; i < o->n; i++)
			o->branches[i]->ops->finish(o->branches[i]);
	} else {
		err = gt_tee_create(o->branches, o->n, o->errors, &o->sink);
	}
	if (err) {
		free_all(o);
		return err;
	}
	*out = o;
	return 0;
}

struct gt_sink *gt_outputs_sink(struct gt_outputs *o)
{
	return o->sink;
}

static int error_of(const struct gt_outputs *o, enum branch which)
{
	for (size_t i = 0; i < o->n; i++)
		if (o->which[i] == which)
			return o->errors[i];
	return 0;
}

/* Returns an exit status, as the others do. */
static int end_trace(struct gt_outputs *o, int err, int usable)
{
	int own = error_of(o, TRACE), filtered = gt_filter_wanted(&o->o.filter);

	own = gt_tracefiles_end(o->files, own ? own : err, usable);
	if (!usable && !gt_tracefiles_written(o->files))
		return EXIT_FAILED;
	if (filtered)
		gt_filter_report(&o->left_out, NULL);
	if (!own && !gt_tracefiles_written(o->files)) {
		gt_error("no process has an id of --pid, so no trace is written");
		return EXIT_FAILED;
	}
	if (own)
		return gt_tracefiles_written(o->files) ? EXIT_LEFT_OUT : EXIT_FAILED;
	return EXIT_WHOLE;
}

static int end_html(struct gt_outputs *o, int err, int usable)
{
	struct gt_outfile *html = gt_steal_ptr(o->html);
	const char *path = o->o.o->html;
	int own = error_of(o, HTML);

	if (!own)
		own = err;
	if (!usable && !own) {
		gt_outfile_drop(html);
		return EXIT_FAILED;
	}
	if (gt_outfile_keep(html, own))
		return EXIT_FAILED;
	gt_info("%s: written", strcmp(path, "-") ? path : "standard output");
	return EXIT_WHOLE;
}

static int put_summary_text(const struct gt_summary *summary, struct gt_jsonw *w)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	int err = f ? gt_summary_text(summary, f, 0) : -errno;

	if (f && fclose(f) && !err)
		err = -errno;
	if (!err)
		gt_jsonw_raw(w, text, size);
	free(text);
	return err;
}

static int print_summary(const struct gt_summary *summary, enum gt_summary_form form)
{
	struct gt_jsonw w;
	int err = gt_jsonw_init(&w, STDOUT_FILENO, 0), flushed;

	if (err)
		return err;
	if (form == GT_SUMMARY_TEXT) {
		err = put_summary_text(summary, &w);
	} else {
		gt_summary_json(summary, &w);
		gt_jsonw_lit(&w, "\n");
	}
	flushed = gt_jsonw_flush(&w);
	gt_jsonw_fini(&w);
	return err ? err : flushed;
}

static int end_summary(struct gt_outputs *o, int err, int usable)
{
	int own = error_of(o, SUMMARY);

	if (!own)
		own = err;
	if (!usable && !own)
		return EXIT_FAILED;
	if (!own)
		own = print_summary(o->summary, o->o.o->summary);
	if (own)
		gt_error("standard output: the summary cannot be written: %s", strerror(-own));
	return own ? EXIT_FAILED : EXIT_WHOLE;
}

static int worse(int a, int b)
{
	return a == EXIT_FAILED || b == EXIT_FAILED ? EXIT_FAILED : a > b ? a : b;
}

int gt_outputs_end(struct gt_outputs *o, int err, int usable)
{
	int status = EXIT_WHOLE, all = 0;

	o->sink->ops->finish(o->sink);
	/* Where all of them have failed, each has an error of its own; err is then the first. */
	for (size_t i = 0; i < o->n; i++)
		all += o->errors[i] != 0;
	if (all && (size_t)all == o->n)
		err = 0;
	if (o->files)
		status = worse(status, end_trace(o, err, usable));
	if (o->html)
		status = worse(status, end_html(o, err, usable));
	if (o->o.o->summary)
		status = worse(status, end_summary(o, err, usable));
	free_all(o);
	return status;
}
