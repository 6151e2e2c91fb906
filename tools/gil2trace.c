// SPDX-License-Identifier: Apache-2.0
/*
 * gil2trace: options, which files to read, the output file, what is printed, the exit status.
 * Events become slices in timeline.c, slices become text in a sink.
 */
#include <argp.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "inputs.h"
#include "log.h"
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

static const struct argp_option arg_options[] = {
	{"input", 'i', "INPUT", 0, "The same as INPUT without an option; may be repeated", 0},
	{"output", 'o', "OUT", 0, "File to write, or - for standard output", 0},
	{"verbose", 'v', NULL, 0, "Say more about each input", 1},
	{"quiet", 'q', NULL, 0, "Print warnings and errors only", 1},
	{NULL, 'h', NULL, OPTION_HIDDEN, NULL, 1}, /* what everybody tries first */
	{0},
};

struct options {
	const char **args; /* room for all of argv */
	size_t nargs;
	const char *output; /* NULL: by the inputs */
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

/* ---- the output file ---- */

static struct output {
	const char *path; /* for messages */
	const char *base; /* last part of the path; NULL: written in place */
	int fd, dir_fd;
	char tmp[48]; /* in dir_fd; empty: none */
} output = {.fd = -1, .dir_fd = -1};

static void discard_output(void)
{
	if (output.tmp[0])
		unlinkat(output.dir_fd, output.tmp, 0);
	output.tmp[0] = '\0';
}

/* SA_RESETHAND: the signal then does what it does without a handler. */
static void on_signal(int sig)
{
	discard_output();
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

/* A file of a name that nobody can foresee, in the folder of the output. */
static int create_tmp(void)
{
	uint64_t r;

	if (getrandom(&r, sizeof(r), 0) != sizeof(r))
		return -EIO;
	snprintf(output.tmp, sizeof(output.tmp), ".gil2trace-%016" PRIx64 ".tmp", r);
	output.fd = openat(output.dir_fd, output.tmp,
			   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (output.fd < 0) {
		int err = errno;

		output.tmp[0] = '\0';
		return -err;
	}
	return 0;
}

static int open_beside(const char *path)
{
	const char *slash = strrchr(path, '/');
	gt_autofree char *dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");

	if (!dir)
		return -ENOMEM;
	output.base = slash ? slash + 1 : path;
	if (!*output.base)
		return -EISDIR;
	output.dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return output.dir_fd < 0 ? -errno : create_tmp();
}

/* Devices and pipes are written in place; a regular file is replaced when all is written. */
static int open_output(const char *path, const struct gt_inputs *in)
{
	struct stat st;
	int err = 0;

	output.path = strcmp(path, "-") ? path : "standard output";
	if (!strcmp(path, "-")) {
		output.fd = STDOUT_FILENO;
	} else if (stat(path, &st)) {
		err = errno == ENOENT ? open_beside(path) : -errno;
	} else if (S_ISDIR(st.st_mode)) {
		err = -EISDIR;
	} else if (S_ISREG(st.st_mode)) {
		if (gt_inputs_find(in, &st)) {
			gt_error("%s: is an input; give another name with --output", path);
			return -EEXIST;
		}
		err = open_beside(path);
	} else {
		output.fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
		err = output.fd < 0 ? -errno : 0;
	}
	if (err)
		gt_error("%s: cannot be written: %s", path, strerror(-err));
	return err;
}

/* Insight keys its cache by path only and would show the old trace. */
static void warn_of_cache(void)
{
	const char *dot = strrchr(output.base, '.');
	int stem = (int)(dot ? dot - output.base : (ptrdiff_t)strlen(output.base));
	size_t dir = (size_t)(output.base - output.path);
	gt_autofree char *own = NULL;
	const char *const names[] = {
		"mindstudio_insight_data.db",
		asprintf(&own, "%.*s_mindstudio_insight_data.db", stem, output.base) < 0 ? NULL
											 : own};

	for (size_t i = 0; i < GT_ARRAY_SIZE(names); i++)
		if (names[i] && !faccessat(output.dir_fd, names[i], F_OK, AT_SYMLINK_NOFOLLOW))
			gt_warn("%.*s%s: is MindStudio Insight's cache and hides the new trace; "
				"remove it before you import",
				(int)dir, output.path, names[i]);
}

/* With an error, or with nothing to keep, a temporary file is removed. */
static int close_output(int err, int keep)
{
	if (output.fd >= 0 && close(output.fd) && !err)
		err = -errno;
	if (!err && keep && output.tmp[0]) {
		if (renameat(output.dir_fd, output.tmp, output.dir_fd, output.base))
			err = -errno;
		else
			output.tmp[0] = '\0';
	}
	discard_output();
	if (err)
		gt_error("%s: cannot be written: %s", output.path, strerror(-err));
	else if (keep && output.base)
		warn_of_cache();
	if (output.dir_fd >= 0)
		close(output.dir_fd);
	return err;
}

/* ---- conversion ---- */

/* Bits of struct gil_site's flags. */
#define SITE_RETURN  0x01
#define SITE_ONE_GIL 0x02

static int any_site_is(const gil_reader *r, uint8_t flag)
{
	for (size_t i = 0; i < gil_reader_sites(r); i++)
		if (gil_reader_site(r, i)->flags & flag)
			return 1;
	return 0;
}

static int meta_is(const gil_reader *r, const char *key, const char *value)
{
	const char *text = gil_reader_meta(r, key);

	return text && !strcmp(text, value);
}

/* A decimal number of META, 1 .. UINT32_MAX or 0 .. with zero; -1: there is none. */
static int64_t meta_number(const gil_reader *r, const char *key)
{
	const char *text = gil_reader_meta(r, key);
	uint64_t v = 0;
	size_t i;

	if (!text)
		return -1;
	for (i = 0; text[i] >= '0' && text[i] <= '9' && i < 10; i++)
		v = v * 10 + (uint64_t)(text[i] - '0');
	return !i || text[i] || v > UINT32_MAX ? -1 : (int64_t)v;
}

static int tell_process(const struct gt_sink_ops *ops, struct gt_sink *sink, struct gt_inputs *in,
			size_t me, const gil_reader *r)
{
	int64_t pid = meta_number(r, "process.pid"), rank = meta_number(r, "rank");
	const char *comm = gil_reader_meta(r, "process.comm");
	unsigned int copy = gt_inputs_choose_id(in, me, pid);
	char rank_text[32] = "", copy_text[32] = "", name[160];
	struct gt_sink_process p = {.id = in->list[me].id, .name = name, .order = (uint32_t)me};

	if (pid > 0) {
		p.main_tid = (uint32_t)pid;
		p.pid = copy == 1 ? (uint32_t)pid : 0;
	}
	if (rank >= 0)
		snprintf(rank_text, sizeof(rank_text), " (rank %" PRId64 ")", rank);
	if (copy > 1)
		snprintf(copy_text, sizeof(copy_text), " (%u)", copy);
	snprintf(name, sizeof(name), "GIL Trace: %.64s%s%s", comm ? comm : in->list[me].id,
		 rank_text, copy_text);
	return ops->process(sink, &p);
}

/* ---- what is said of a recording ---- */

/* Counts of the odd sequences from `from` on, in words; nothing: an empty text. */
static void odd_text(const struct gt_timeline_stats *st, enum gt_odd from, char *buf, size_t size)
{
	size_t n = 0;

	buf[0] = '\0';
	for (int i = (int)from; i < GT_ODD_KINDS; i++)
		if (st->odd[i] && n < size)
			n += (size_t)snprintf(buf + n, size - n, "%s%" PRIu64 " %s", n ? ", " : "",
					      st->odd[i], gt_odd_text((enum gt_odd)i));
}

/*
 * Why the recording is not to be trusted; NULL: it adds up. The recorder has checked it, with more
 * knowledge; where it was killed before it could say so, what the timeline has met counts. (Format
 * 1.0 has no such check: those convert as ever, with a warning.)
 */
static const char *find_doubt(const gil_reader *r, const struct gt_timeline_stats *st, char *buf,
			      size_t size)
{
	struct gt_timeline_stats odd = *st;
	const char *text = gil_reader_meta(r, "check.text");

	if (meta_is(r, "check.result", "sites missing"))
		return text ? text : "the recorder has not said why";
	if (meta_is(r, "check.result", "consistent") || !gil_reader_minor(r))
		return NULL;
	/* Free-threaded: take_gil returns at once, and wakes who waits, where the GIL is off. */
	if (meta_is(r, "gil.free_threaded", "1"))
		odd.odd[GT_ODD_WAIT_ENDLESS] = 0;
	odd.odd[GT_ODD_ORDER] = odd.odd[GT_ODD_KIND] = 0;
	odd_text(&odd, 0, buf, size);
	return buf[0] ? buf : NULL;
}

static void report_nothing(const char *path, const gil_reader *r)
{
	if (meta_is(r, "gil.free_threaded", "1") && meta_is(r, "gil.enabled", "0"))
		gt_warn("%s: this free-threaded Python ran without its GIL: no thread holds it or "
			"waits for it, so there is nothing to show",
			path);
	else
		gt_warn("%s: there is no GIL event in it", path);
}

static void report_switch(const char *path, const gil_reader *r)
{
	int on = meta_is(r, "gil.enabled", "1"), off = meta_is(r, "gil.enabled", "0");

	if ((off && meta_is(r, "gil.enabled_at_end", "1")) ||
	    (on && meta_is(r, "gil.enabled_at_end", "0")))
		gt_info("%s: this free-threaded Python has switched its GIL %s while recording",
			path, off ? "on" : "off");
}

static void report_details(const char *path, const gil_reader *r,
			   const struct gt_timeline_stats *st)
{
	static const char *const keys[] = {"probe.mode", "symbols.verdict", "symbols.disagreement",
					   "check.result"};
	char key[32];

	if (gt_log_max() < GT_LOG_DEBUG)
		return;
	for (size_t i = 0; i < GT_ARRAY_SIZE(keys); i++)
		if (gil_reader_meta(r, keys[i]))
			gt_debug("%s: %s: %.256s", path, keys[i], gil_reader_meta(r, keys[i]));
	for (unsigned int i = 0; i < GIL_INDEX_OTHER; i++) {
		snprintf(key, sizeof(key), "check.gil.%u", i);
		if (gil_reader_meta(r, key))
			gt_debug("%s: %s: %.256s", path, key, gil_reader_meta(r, key));
	}
	gt_debug("%s: releases: %" PRIu64 " forced, %" PRIu64 " voluntary, %" PRIu64 " not told",
		 path, st->releases[GT_FORCED_YES], st->releases[GT_FORCED_NO],
		 st->releases[GT_FORCED_UNKNOWN]);
	gt_debug("%s: %" PRIu64 " events; signals of other condition variables left out: %" PRIu64,
		 path, st->events, st->unconfirmed);
}

static void report_odd(const char *path, const struct gt_timeline_stats *st, enum gt_odd from)
{
	char text[512];

	odd_text(st, from, text, sizeof(text));
	if (text[0])
		gt_warn("%s: sequences of events that should not be: %s; what is not known is "
			"drawn without length (\"open\":\"unknown\")",
			path, text);
}

static void report_lost(const char *path, uint64_t lost, const struct gt_timeline_stats *st)
{
	if (lost)
		gt_warn("%s: %" PRIu64 " events were lost while recording, in %" PRIu64
			" gap(s); enlarge the recorder's ring buffer",
			path, lost, st->gaps);
	if (lost > st->lost)
		gt_warn("%s: for %" PRIu64 " of the lost events no gap is recorded: "
			"a slice may be too long where they are missing",
			path, lost - st->lost);
}

/* doubt: what find_doubt() has found; from_odd: it tells of the odd sequences. */
static void report(const char *path, const gil_reader *r, const struct gt_timeline_stats *st,
		   const char *doubt, int from_odd)
{
	uint64_t total = gil_reader_lost_total(r), lost = total > st->lost ? total : st->lost;
	uint64_t ns = gil_reader_last_mono_ns(r) - gil_reader_first_mono_ns(r);
	int64_t step_ns = gil_reader_clock_step_ns(r);
	const char *why = gil_reader_meta(r, "end.error"), *mode = gil_reader_meta(r, "probe.mode");
	const char *better = !mode || !strcmp(mode, "sites") ? "; try giltrace --probe=libc"
			     : !strcmp(mode, "functions")    ? "; try giltrace --probe=auto"
							     : "";

	if (!gil_reader_end_reason(r) && !gil_reader_problem(r))
		gt_warn("%s: the recorder was killed; what it had not written by then is missing, "
			"about a second at most",
			path);
	if (!st->events)
		report_nothing(path, r);
	report_switch(path, r);
	if (gil_reader_end_reason(r) == GIL_END_ERROR)
		gt_warn("%s: the recorder gave up%s%.256s", path, why ? ": " : "", why ? why : "");
	if (!gil_reader_clocks(r) && st->events)
		gt_warn("%s: there is no clock sample in it: times count from the start of the "
			"host",
			path);
	if (step_ns)
		gt_warn("%s: the wall clock was set by %+" PRId64
			" ms while recording; the trace stays on the time of its start",
			path, step_ns / 1000000);
	report_odd(path, st, from_odd ? GT_ODD_ORDER : 0);
	report_lost(path, lost, st);
	report_details(path, r, st);
	gt_info("%s: %" PRIu64 " slices, %" PRIu32 " thread(s), %" PRIu32 " GIL(s), %" PRIu64
		" lost, %" PRIu64 ".%03" PRIu64 " s",
		path, st->spans[GT_SPAN_TAKE] + st->spans[GT_SPAN_HOLD] + st->spans[GT_SPAN_DROP],
		st->threads, st->gils, lost, ns / 1000000000, ns / 1000000 % 1000);
	/* Last, so that it is not overlooked. */
	if (doubt)
		gt_warn("%s: GIL SITES ARE MISSING: do not trust this trace; the GIL changed hands "
			"where giltrace had no probe: %.1024s%s",
			path, doubt, better);
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

	return any_site_is(r, SITE_ONE_GIL) ? gt_timeline_event(tl, &ev) : 0;
}

static int run_timeline(gil_reader *r, struct gt_timeline *tl, const char *path)
{
	struct gil_event ev;
	int err = confirm_gil(r, tl), outcome = WHOLE;

	while (!err && gil_reader_next(r, &ev))
		err = gt_timeline_event(tl, &ev);
	if (err == -E2BIG) {
		gt_error("%s: more than %u threads, which no process can have; "
			 "everything after that is left out",
			 path, GT_TIMELINE_THREADS_MAX);
		outcome = LEFT_OUT;
	} else if (err) {
		return err;
	}
	err = gt_timeline_finish(tl, gil_reader_last_mono_ns(r));
	if (!err && gil_reader_problem(r)) {
		gt_error("%s", gil_reader_problem(r));
		outcome = LEFT_OUT;
	}
	return err ? err : outcome;
}

static struct gt_timeline_opts timeline_opts(const gil_reader *r)
{
	int64_t pid = meta_number(r, "process.pid");
	struct gt_timeline_opts opts = {
		.start_mono_ns = gil_reader_first_mono_ns(r),
		.unix_ns = unix_ns,
		.ctx = r,
		.main_tid = pid > 0 ? (uint32_t)pid : 0,
		.functions = any_site_is(r, SITE_RETURN) || meta_is(r, "probe.mode", "functions"),
	};

	opts.forced_told = gil_reader_minor(r) > 0 && !opts.functions;
	return opts;
}

/* Says what there is to say, also in the trace. */
static int conclude(const struct gt_sink_ops *ops, struct gt_sink *sink, const gil_reader *r,
		    const struct gt_timeline_stats *st, const char *path)
{
	char buf[512];
	const char *doubt = find_doubt(r, st, buf, sizeof(buf));

	report(path, r, st, doubt, doubt == buf);
	return doubt ? ops->doubt(sink, unix_ns(r, gil_reader_first_mono_ns(r)), doubt) : 0;
}

/* Returns an outcome, or -errno where the conversion as a whole cannot go on. */
static int convert(const struct gt_sink_ops *ops, struct gt_sink *sink, struct gt_inputs *in,
		   size_t me)
{
	const char *path = in->list[me].path;
	struct gt_timeline *tl = NULL;
	struct gt_timeline_opts opts;
	char why[PATH_MAX + 512];
	gil_reader *r;
	int ret, err;

	if (gil_reader_open(path, &r, why, sizeof(why))) {
		gt_error("%s", why);
		return UNUSABLE;
	}
	opts = timeline_opts(r);
	ret = tell_process(ops, sink, in, me, r);
	if (!ret)
		ret = gt_timeline_create(ops, sink, &opts, &tl);
	if (!ret)
		ret = run_timeline(r, tl, path);
	if (ret >= 0) {
		err = conclude(ops, sink, r, gt_timeline_stats(tl), path);
		ret = err ? err : ret;
	}
	gt_timeline_free(tl);
	gil_reader_close(r);
	return ret;
}

/* All inputs to the sink, which is finished. Counts outcomes; 0 or the first error. */
static int convert_all(const struct gt_sink_ops *ops, struct gt_inputs *in, size_t counts[])
{
	struct gt_sink *sink;
	int err = ops->create(output.fd, &sink), finished;

	if (err)
		return err;
	for (size_t i = 0; i < in->n && !err; i++) {
		int ret = convert(ops, sink, in, i);

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
	if (!path || open_output(path, in))
		return EXIT_FAILED;
	err = convert_all(&gt_sink_chrome, in, counts);
	usable = counts[WHOLE] + counts[LEFT_OUT];
	if (close_output(err, usable > 0) || !usable)
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
