// SPDX-License-Identifier: Apache-2.0
/*
 * gil2trace: options, how each input is converted, the exit status. Who a thread is shown as is up
 * to rows.c, events become slices in timeline.c, slices become text in a sink; remarks.c says what
 * there is to say.
 */
#include <argp.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>

#include "labels.h"
#include "log.h"
#include "meta.h"
#include "outfile.h"
#include "remarks.h"
#include "timeline.h"

enum { EXIT_WHOLE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_LEFT_OUT = 3 };

const char *argp_program_version = "gil2trace " GT_VERSION;

static const char doc[] =
	"Converts recordings of giltrace (.gil) to a Chrome Trace JSON for MindStudio Insight and "
	"Perfetto.\v"
	"INPUT is a .gil file, or a folder: then all *.gil files directly in it, by name. Several "
	"files become several processes of one trace. Without --output, one file NAME.gil becomes "
	"NAME.json beside it, and several become gil_trace.json in the current folder; OUT may be "
	"- for standard output. The output appears under its name only when it is complete, and "
	"then replaces an earlier one.\n"
	"\n"
	"Exit status:\n"
	"  0  everything was converted (events that were lost while recording are drawn as gaps)\n"
	"  1  failed: nothing usable was written\n"
	"  2  wrong usage\n"
	"  3  written, but a damaged or cut-off part, or an input, was left out; a message says "
	"where\n";

enum { OPT_IDS = 0x100 };

static const struct argp_option arg_options[] = {
	{"input", 'i', "INPUT", 0, "The same as INPUT without an option; may be repeated", 0},
	{"output", 'o', "OUT", 0, "File to write, or - for standard output", 0},
	{"ids", OPT_IDS, "WHICH", 0,
	 "Ids of processes and threads: namespace (as the process itself sees them, and a Profiler "
	 "in it shows them) or host [namespace]",
	 0},
	{"verbose", 'v', NULL, 0, "Say more about each input", 1},
	{"quiet", 'q', NULL, 0, "Print warnings and errors only", 1},
	{NULL, 'h', NULL, OPTION_HIDDEN, NULL, 1}, /* what everybody tries first */
	{0},
};

struct options {
	const char **args; /* room for all of argv */
	size_t nargs;
	const char *output; /* NULL: by the inputs */
	enum gt_ids ids;
	enum gt_log_level log;
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'i':
	case ARGP_KEY_ARG:
		if (!*arg)
			argp_error(state, "an INPUT is empty");
		if (strlen(arg) > 5 && !strcmp(arg + strlen(arg) - 5, ".json"))
			argp_error(state, "%s is no recording; did you mean -o %s?", arg, arg);
		o->args[o->nargs++] = arg;
		return 0;
	case 'o':
		if (o->output || !*arg)
			argp_error(state, "--output needs one name");
		o->output = arg;
		return 0;
	case OPT_IDS:
		if (strcmp(arg, "namespace") && strcmp(arg, "host"))
			argp_error(state, "--ids is namespace or host, not %s", arg);
		o->ids = arg[0] == 'h' ? GT_IDS_HOST : GT_IDS_NAMESPACE;
		return 0;
	case 'v':
		o->log = GT_LOG_DEBUG;
		return 0;
	case 'q':
		o->log = GT_LOG_WARN;
		return 0;
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		return 0;
	case ARGP_KEY_END:
		if (!o->nargs)
			argp_error(state, "no INPUT");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* For the signal handler. */
static struct gt_outfile output = {.fd = -1, .dir_fd = -1};

/* SA_RESETHAND: the signal then does what it does without a handler. */
static void on_signal(int sig)
{
	gt_outfile_discard(&output);
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

/* ---- conversion ---- */

/* One input on its way through. */
struct job {
	const struct options *o;
	const struct gt_sink_ops *ops;
	struct gt_sink *sink;
	struct gt_inputs *in;
	size_t me;
	const char *path;
	gil_reader *r;
	struct gt_rows *rows; /* NULL: threads are shown by the ids that their events carry */
	uint32_t pid, shown_pid;
	uint8_t on_host; /* it was recorded under the ids of the host */
};

/* Which of its pids is the one to show. */
static void choose_pid(struct job *j)
{
	uint32_t host = gt_meta_pid(j->r, "process.host_pid");
	uint32_t ns = gt_meta_pid(j->r, "process.ns_pid");

	j->pid = gt_meta_pid(j->r, "process.pid");
	j->on_host = !host || host == j->pid;
	j->shown_pid = j->o->ids == GT_IDS_HOST ? host : ns;
	if (!j->shown_pid)
		j->shown_pid = j->pid;
}

static int tell_process(struct job *j)
{
	const char *id = j->in->list[j->me].id;
	unsigned int copy = gt_inputs_choose_id(j->in, j->me, j->shown_pid);
	char name[GT_LABEL_PROCESS_MAX], tags[GT_LABEL_TAGS_MAX];
	struct gt_sink_process p = {
		.pid = copy == 1 && j->shown_pid ? j->shown_pid
						 : GT_SINK_TID_END + 1 + (uint32_t)j->me,
		.main_tid = j->shown_pid,
		.name = name,
		.tags = tags,
		.order = (uint32_t)j->me,
	};

	gt_label_process(name, j->r, id, copy);
	gt_label_tags(tags, j->r, j->o->ids);
	return j->ops->process(j->sink, &p);
}

/* A first pass over the events where threads have other ids than those in them. */
static int learn_rows(struct job *j)
{
	const struct gt_rows_opts opts = {
		.ids = j->o->ids,
		.pid = j->pid,
		.shown_pid = j->shown_pid,
		.on_host = j->on_host,
	};
	struct gil_event ev;
	int err;

	if (j->shown_pid == j->pid)
		return 0;
	err = gt_rows_create(&opts, &j->rows);
	while (!err && gil_reader_next(j->r, &ev)) {
		err = gt_rows_learn(j->rows, &ev);
		if (err == -E2BIG) /* the second pass meets it, too */
			err = 0;
	}
	if (err)
		return err;
	gt_rows_settle(j->rows);
	gil_reader_rewind(j->r);
	return 0;
}

static uint64_t unix_ns(const void *reader, uint64_t mono_ns)
{
	return gil_reader_unix_ns(reader, mono_ns);
}

enum outcome { WHOLE, LEFT_OUT, UNUSABLE };

/* Function mode probes nothing but GIL code, so there is no release that needs confirmation. */
static int confirm_gil(const gil_reader *r, struct gt_timeline *tl)
{
	const struct gil_event ev = {.kind = GIL_GIL, .mono_ns = gil_reader_first_mono_ns(r)};

	return gt_any_site_is(r, GT_SITE_ONE_GIL) ? gt_timeline_event(tl, &ev) : 0;
}

static int run_timeline(const struct job *j, struct gt_timeline *tl)
{
	struct gil_event ev;
	int err = confirm_gil(j->r, tl), outcome = WHOLE;

	while (!err && gil_reader_next(j->r, &ev))
		err = gt_timeline_event(tl, &ev);
	if (err == -E2BIG) {
		gt_error("%s: more than %u threads, which no process can have; "
			 "everything after that is left out",
			 j->path, GT_TIMELINE_THREADS_MAX);
		outcome = LEFT_OUT;
	} else if (err) {
		return err;
	}
	err = gt_timeline_finish(tl, gil_reader_last_mono_ns(j->r));
	if (!err && gil_reader_problem(j->r)) {
		gt_error("%s", gil_reader_problem(j->r));
		outcome = LEFT_OUT;
	}
	return err ? err : outcome;
}

static struct gt_timeline_opts timeline_opts(const struct job *j)
{
	struct gt_timeline_opts opts = {
		.start_mono_ns = gil_reader_first_mono_ns(j->r),
		.unix_ns = unix_ns,
		.ctx = j->r,
		.rows = j->rows,
		.main_tid = j->shown_pid,
		.comm = gil_reader_meta(j->r, "process.comm"),
		.late_why = gil_reader_meta(j->r, "recording.late"),
		.functions = gt_any_site_is(j->r, GT_SITE_RETURN) ||
			     gt_meta_is(j->r, "probe.mode", "functions"),
	};

	opts.forced_told = gil_reader_minor(j->r) > 0 && !opts.functions;
	return opts;
}

/* Says what there is to say, also in the trace. */
static int conclude(const struct job *j, const struct gt_timeline_stats *st)
{
	const struct gt_remarks remarks = {
		.path = j->path,
		.r = j->r,
		.st = st,
		.ids = j->o->ids == GT_IDS_HOST ? "on the host" : "inside its PID namespace",
		.ids_unknown = j->rows ? gt_rows_unknown(j->rows) : 0,
	};
	char buf[512];
	const char *doubt = gt_remarks_print(&remarks, buf, sizeof(buf));

	if (!doubt)
		return 0;
	return j->ops->doubt(j->sink, unix_ns(j->r, gil_reader_first_mono_ns(j->r)), doubt);
}

static int convert_open(struct job *j)
{
	struct gt_timeline *tl = NULL;
	struct gt_timeline_opts opts;
	int ret, err;

	choose_pid(j);
	ret = learn_rows(j);
	if (!ret)
		ret = tell_process(j);
	opts = timeline_opts(j);
	if (!ret)
		ret = gt_timeline_create(j->ops, j->sink, &opts, &tl);
	if (!ret)
		ret = run_timeline(j, tl);
	if (ret >= 0) {
		err = conclude(j, gt_timeline_stats(tl));
		ret = err ? err : ret;
	}
	gt_timeline_free(tl);
	gt_rows_free(j->rows);
	return ret;
}

/* Returns an outcome, or -errno where the conversion as a whole cannot go on. */
static int convert(struct job *j)
{
	char why[PATH_MAX + 512];
	int ret;

	if (gil_reader_open(j->path, &j->r, why, sizeof(why))) {
		gt_error("%s", why);
		return UNUSABLE;
	}
	ret = convert_open(j);
	gil_reader_close(j->r);
	return ret;
}

/* All inputs to the sink, which is finished. Counts outcomes; 0 or the first error. */
static int convert_all(const struct options *o, const struct gt_sink_ops *ops, struct gt_inputs *in,
		       size_t counts[])
{
	struct gt_sink *sink;
	int err = ops->create(output.fd, &sink), finished;

	if (err)
		return err;
	for (size_t i = 0; i < in->n && !err; i++) {
		struct job j = {.o = o,
				.ops = ops,
				.sink = sink,
				.in = in,
				.me = i,
				.path = in->list[i].path};
		int ret = convert(&j);

		if (ret < 0)
			err = ret;
		else
			counts[ret]++;
	}
	finished = ops->finish(sink);
	return err ? err : finished;
}

static char *default_output(const struct gt_inputs *in)
{
	const char *path;
	char *out;
	size_t n;

	if (in->n != 1)
		return strdup("gil_trace.json");
	path = in->list[0].path;
	n = strlen(path);
	if (n > 4 && !strcmp(path + n - 4, ".gil"))
		n -= 4;
	return asprintf(&out, "%.*s.json", (int)n, path) < 0 ? NULL : out;
}

static int run(const struct options *o, struct gt_inputs *in)
{
	size_t counts[UNUSABLE + 1] = {0}, usable;
	gt_autofree char *by_default = NULL;
	int left_out = gt_inputs_add_all(in, o->args, o->nargs);
	const char *path = o->output;
	int err;

	/* Before an output is opened, whose name may come from an input that is not there. */
	if (left_out < 0 || !gt_inputs_any_is_there(in))
		return EXIT_FAILED;
	if (!path)
		path = by_default = default_output(in);
	if (!path || gt_outfile_open(&output, path, in))
		return EXIT_FAILED;
	err = convert_all(o, &gt_sink_chrome, in, counts);
	usable = counts[WHOLE] + counts[LEFT_OUT];
	if (gt_outfile_close(&output, err, usable > 0) || !usable)
		return EXIT_FAILED;
	gt_info("%s: written", output.path);
	return left_out || counts[LEFT_OUT] || counts[UNUSABLE] ? EXIT_LEFT_OUT : EXIT_WHOLE;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = arg_options, .parser = parse_option, .args_doc = "INPUT...", .doc = doc};
	struct options o = {.log = GT_LOG_INFO};
	struct gt_inputs in = {0};
	int status;

	if (gt_fill_standard_fds())
		return EXIT_FAILED;
	o.args = calloc((size_t)argc + 1, sizeof(*o.args));
	if (!o.args)
		return EXIT_FAILED;
	argp_err_exit_status = EXIT_USAGE;
	gt_log_setup("gil2trace", GT_LOG_INFO);
	argp_parse(&argp, argc, argv, 0, NULL, &o);
	gt_log_setup("gil2trace", o.log);
	handle_signals();
	status = run(&o, &in);
	gt_inputs_free(&in);
	free(o.args);
	return status;
}
