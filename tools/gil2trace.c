// SPDX-License-Identifier: Apache-2.0
/*
 * gil2trace: what is done with the inputs, and the exit status. options.c reads the command line,
 * convert.c takes a recording to a sink, outputs.c and joint.c know what is written.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include "caps.h"
#include "convert.h"
#include "joint.h"
#include "log.h"
#include "options.h"
#include "outputs.h"

#define PROGRESS_NS 200000000u

/* For the signal handler. */
static struct gt_outset outs;

/* SA_RESETHAND: the signal then does what it does without a handler. */
static void on_signal(int sig)
{
	gt_outset_discard(&outs);
	raise(sig);
}

static void handle_signals(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND};

	for (size_t i = 0; i < GT_ARRAY_SIZE(signals); i++) {
		struct sigaction old;

		if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &sa, NULL);
	}
	/* A closed pipe and a file that grows too large are reported as errors of write(2). */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
}

/* Imported recordings and parts of traces keep descriptors. */
static void allow_many_files(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* ---- progress ---- */

struct progress {
	uint64_t total, before; /* bytes: of all inputs, of those that are done */
	uint64_t size;          /* of the one at hand */
	uint64_t begin_ns, next_ns;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void show_progress(void *ctx, unsigned int permille)
{
	struct progress *p = ctx;
	uint64_t now = now_ns(), done = p->before + p->size / 1000 * permille;

	if (now < p->next_ns)
		return;
	p->next_ns = now + PROGRESS_NS;
	gt_status("converting: %u %%, %u MB/s",
		  p->total ? (unsigned int)(done * 100 / p->total) : 0,
		  (unsigned int)(done / ((now - p->begin_ns) / 1000 + 1)));
}

static void begin_progress(struct progress *p, const struct gt_inputs *in)
{
	*p = (struct progress){.begin_ns = now_ns()};
	p->next_ns = p->begin_ns + PROGRESS_NS;
	for (size_t i = 0; i < in->n; i++)
		if (__builtin_add_overflow(p->total, in->list[i].size, &p->total))
			p->total = UINT64_MAX / 100;
	if (p->total > UINT64_MAX / 100)
		p->total = UINT64_MAX / 100;
}

/* ---- conversion ---- */

/* All inputs to the sink. Counts outcomes; 0 or the first error. */
static int convert_all(const struct gt_options *o, int quiet, struct gt_inputs *in,
		       struct gt_sink *sink, size_t counts[])
{
	struct progress progress;
	const struct gt_convert_opts opts = {
		.ids = o->ids,
		.quiet = (uint8_t)quiet,
		.progress = show_progress,
		.progress_ctx = &progress,
	};
	int ret = 0;

	begin_progress(&progress, in);
	for (size_t i = 0; i < in->n && ret >= 0; i++) {
		progress.size = in->list[i].size;
		ret = gt_convert(in, i, &opts, sink);
		if (ret >= 0)
			counts[ret]++;
		progress.before += progress.size;
	}
	gt_status("%s", "");
	return ret < 0 ? ret : 0;
}

/* Unix time of the start of the earliest recording. 0: there is none. */
static uint64_t find_start(struct gt_inputs *in)
{
	uint64_t start = 0;

	for (size_t i = 0; i < in->n; i++) {
		uint64_t ns;
		gil_reader *r;

		if (gt_inputs_open(in, i, &r))
			continue;
		ns = gil_reader_unix_ns(r, gil_reader_first_mono_ns(r));
		if (gil_reader_first_mono_ns(r) && (!start || ns < start))
			start = ns;
		gil_reader_close(r);
	}
	return start;
}

static uint64_t resolve(const struct gt_moment *m, uint64_t start)
{
	return m->given ? m->ns + (m->relative ? start : 0) : 0;
}

static int needs_start(const struct gt_options *o)
{
	return o->relative || (o->from.given && o->from.relative) ||
	       (o->to.given && o->to.relative);
}

/* The names of threads, which a recording tells last. */
static int learn_names(const struct gt_options *o, struct gt_inputs *in,
		       struct gt_threadnames **names)
{
	size_t counts[GT_OUTCOMES] = {0};
	struct gt_sink *sink;
	int err = gt_threadnames_create(names);

	if (!err)
		err = gt_threadnames_sink(*names, &sink);
	if (!err) {
		err = convert_all(o, 1, in, sink, counts);
		sink->ops->finish(sink);
	}
	if (err)
		gt_error("the names of threads cannot be read: %s", strerror(-err));
	return err;
}

static int convert(struct gt_outputs_opts *opts, struct gt_inputs *in)
{
	size_t counts[GT_OUTCOMES] = {0}, usable;
	struct gt_outputs *outputs;
	int err, status;

	if (opts->o->trace && opts->o->part_bytes && learn_names(opts->o, in, &opts->names))
		return EXIT_FAILED;
	if (gt_outputs_open(opts, &outputs))
		return EXIT_FAILED;
	/* With a Profiler, the joint view's pass says what there is to say. */
	err = convert_all(opts->o, opts->o->nprofilers > 0, in, gt_outputs_sink(outputs), counts);
	usable = counts[GT_WHOLE] + counts[GT_LEFT_OUT];
	status = gt_outputs_end(outputs, err, usable > 0);
	if (status == EXIT_WHOLE && (counts[GT_LEFT_OUT] || counts[GT_UNUSABLE]))
		status = EXIT_LEFT_OUT;
	return status;
}

static int join(const struct gt_options *o, const struct gt_filter_opts *filter,
		struct gt_inputs *in)
{
	const struct gt_joint_opts opts = {
		.outs = &outs,
		.output = o->output ? o->output : "gil_joint",
		.merge = o->merge,
		.inline_rows = o->inline_rows,
		.clip = o->clip,
		.flows = o->flows,
		.gzip = o->gzip,
		.ids = o->ids,
		.filter = *filter,
		.from_relative = o->from.given && o->from.relative,
		.to_relative = o->to.given && o->to.relative,
	};
	struct gt_profilers profilers = {0};
	int left_out = gt_profilers_find(&profilers, o->profilers, o->nprofilers), status;

	if (left_out < 0)
		return EXIT_FAILED;
	status = gt_joint(&opts, in, &profilers);
	gt_profilers_free(&profilers);
	return status == EXIT_WHOLE && left_out ? EXIT_LEFT_OUT : status;
}

static int run(const struct gt_options *o, struct gt_inputs *in)
{
	int left_out = gt_inputs_add_all(in, o->inputs, o->ninputs);
	struct gt_outputs_opts opts = {.o = o, .inputs = in, .outs = &outs, .filter = o->filter};
	int status = EXIT_WHOLE, joined;
	uint64_t start = 0;

	/* Before an output is opened, whose name may come from an input that is not there. */
	if (left_out < 0 || !gt_inputs_any_is_there(in))
		return EXIT_FAILED;
	if (needs_start(o))
		start = find_start(in);
	opts.base_ns = o->relative && start ? start - 1 : 0;
	opts.filter.from_ns = resolve(&o->from, start);
	opts.filter.to_ns = resolve(&o->to, start);
	if (opts.filter.to_ns && opts.filter.from_ns >= opts.filter.to_ns) {
		gt_error("--from is not before --to");
		return EXIT_USAGE;
	}
	if (!o->trace && !o->nprofilers && gt_filter_wanted(&opts.filter))
		gt_warn("filters choose what is drawn in a trace, and none is written: add "
			"--output");
	if (o->trace || o->summary || o->html) {
		status = convert(&opts, in);
		gt_inputs_tell_of_hosts(in);
	}
	gt_threadnames_free(opts.names);
	if (o->nprofilers) {
		joined = join(o, &opts.filter, in);
		status = status == EXIT_FAILED || joined == EXIT_FAILED ? EXIT_FAILED
			 : joined > status                              ? joined
									: status;
	}
	return status == EXIT_WHOLE && (left_out || in->twins) ? EXIT_LEFT_OUT : status;
}

int main(int argc, char **argv)
{
	struct gt_options o;
	struct gt_inputs in = {0};
	int status = EXIT_FAILED;

	gt_log_setup("gil2trace", GT_LOG_INFO);
	/* It reads and writes whatever it is told to. */
	if (gt_caps_gained()) {
		gt_error("gil2trace has more rights than its user (by the mode or the capabilities "
			 "of its file), needs none, and does not run with them");
		return EXIT_FAILED;
	}
	if (gt_fill_standard_fds()) {
		gt_error("cannot open /dev/null: %s", strerror(errno));
		return EXIT_FAILED;
	}
	if (!gt_options_parse(&o, argc, argv)) {
		gt_log_setup("gil2trace", o.log);
		outs.inputs = &in;
		handle_signals();
		allow_many_files();
		status = run(&o, &in);
		gt_outset_fini(&outs);
	}
	gt_inputs_free(&in);
	gt_options_free(&o);
	return status;
}
