// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <argp.h>

#define NS_PER_S       1000000000ull
#define RELATIVE_BELOW (100000000ull * NS_PER_S) /* 1973: no recording is so old */
#define MIB_MAX        (1u << 20)

const char *argp_program_version = "gil2trace " GT_VERSION;

static const char doc[] =
	"Converts recordings of giltrace (.gil) to a Chrome Trace JSON for MindStudio Insight and "
	"Perfetto, sums them up, and lays them beside a Profiler's trace.\v"
	"INPUT is a .gil file, an old recording (a JSON of the tool that many had before), or a "
	"folder: then all recordings directly in it; those of all folders together are in the "
	"order of the ranks in their names. Several inputs become several "
	"processes of one trace. Without --output, NAME.gil becomes NAME.json beside it, and "
	"several become gil_trace.json in the current folder. An output appears under its name "
	"only when it is complete, and then replaces an earlier one.\n"
	"\n"
	"TIME is a number with a unit: 250us, 1.5ms, 2s, 800ns. Without one, it is in microseconds "
	"for --min-dur, in seconds for --from and --to. A --from or --to below 100000000 s counts "
	"from the start of the earliest recording, else it is Unix time.\n"
	"\n"
	"Filters choose what is drawn: summary and report are always of everything. How much was "
	"left out is told.\n"
	"\n"
	"Exit status:\n"
	"  0  finished (events that were lost while recording are drawn as gaps)\n"
	"  1  failed: an output could not be written, or there was nothing for it\n"
	"  2  wrong usage\n"
	"  3  finished, but a damaged or cut-off part, or an input, was left out, or two\n"
	"     recordings are of one process or rank, which may be a mistake;\n"
	"     a message says where\n";

enum {
	OPT_IDS = 0x100,
	OPT_SUMMARY,
	OPT_HTML,
	OPT_MIN_DUR,
	OPT_FROM,
	OPT_TO,
	OPT_PID,
	OPT_TID,
	OPT_FLOWS,
	OPT_TIME,
	OPT_GZIP,
	OPT_PER_RANK,
	OPT_SPLIT,
	OPT_PROFILER,
	OPT_LANES,
	OPT_MERGE,
	OPT_CLIP,
};

static const struct argp_option arg_options[] = {
	{NULL, 0, NULL, 0, "Input and output:", 1},
	{"input", 'i', "INPUT", 0, "The same as INPUT without an option; may be repeated", 1},
	{"output", 'o', "OUT", 0,
	 "Trace to write; - for standard output; a name that ends with .gz is compressed", 1},
	{"summary", OPT_SUMMARY, "FORM", OPTION_ARG_OPTIONAL,
	 "Print who waited for whom, to standard output, as text or json [text]. Without --output "
	 "no trace is written",
	 1},
	{"html", OPT_HTML, "FILE", 0,
	 "Write a page to look at: timeline, numbers, blockers. Without --output no trace is "
	 "written",
	 1},

	{NULL, 0, NULL, 0, "What is drawn:", 2},
	{"min-dur", OPT_MIN_DUR, "TIME", 0, "Slices that last at least so long", 2},
	{"from", OPT_FROM, "TIME", 0, "Slices that end after this time", 2},
	{"to", OPT_TO, "TIME", 0, "Slices that begin before this time", 2},
	{"pid", OPT_PID, "PID,...", 0, "These processes, by the ids that are shown", 2},
	{"tid", OPT_TID, "TID,...", 0, "These threads, by the ids that are shown", 2},
	{"flows", OPT_FLOWS, NULL, 0,
	 "Also arrows, from a release to the acquire that ended a wait", 2},

	{NULL, 0, NULL, 0, "How it is written:", 3},
	{"ids", OPT_IDS, "WHICH", 0,
	 "Ids of processes and threads: namespace (as the process itself sees them, and a Profiler "
	 "in it shows them) or host [namespace]",
	 3},
	{"time", OPT_TIME, "BASE", 0,
	 "Times in the trace: unix, or relative to the start of the earliest recording [unix]", 3},
	{"gzip", OPT_GZIP, NULL, 0, "Compress (Perfetto reads that; Insight does not)", 3},
	{"per-rank", OPT_PER_RANK, NULL, 0,
	 "One trace for each input, in the folder OUT, or beside the input", 3},
	{"split", OPT_SPLIT, "MIB", 0,
	 "Cut the trace into parts of about this size: OUT_1.json, OUT_2.json ... Each is a trace "
	 "of "
	 "its own",
	 3},

	{NULL, 0, NULL, 0, "Beside a Profiler's trace:", 4},
	{"profiler", OPT_PROFILER, "PATH", 0,
	 "A Profiler's folder, a folder of such, or a trace (.json, .json.gz) of it; may be "
	 "repeated. OUT is then a folder for Insight [gil_joint]",
	 4},
	{"lanes", OPT_LANES, "WHERE", 0,
	 "GIL rows: separate (in a lane of their own) or inline (beside the Profiler's rows of the "
	 "same threads) [separate]",
	 4},
	{"merge", OPT_MERGE, NULL, 0,
	 "One JSON with both for each Profiler. OUT is a file, or with several Profilers a folder",
	 4},
	{"clip", OPT_CLIP, NULL, 0, "Cut GIL slices to the time that the Profiler covers", 4},

	{NULL, 0, NULL, 0, "Other:", 5},
	{"verbose", 'v', NULL, 0, "Say more about each input", 5},
	{"quiet", 'q', NULL, 0, "Print warnings and errors only", 5},
	{NULL, 'h', NULL, OPTION_HIDDEN, NULL, 5}, /* what everybody tries first */
	{0},
};

/* ---- numbers ---- */

static int add_digit(uint64_t *v, char c)
{
	return __builtin_mul_overflow(*v, 10u, v) ||
	       __builtin_add_overflow(*v, (unsigned int)(c - '0'), v);
}

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Nanoseconds of what is written behind a number; 0: nothing that is a unit. */
static uint64_t unit_ns(const char *text, uint64_t without)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", NS_PER_S}};

	if (!*text)
		return without;
	for (size_t i = 0; i < GT_ARRAY_SIZE(units); i++)
		if (!strcmp(text, units[i].name))
			return units[i].ns;
	return 0;
}

/* "1.5ms", exactly. NULL, or what is wrong with it. */
static const char *parse_time(const char *text, uint64_t without, uint64_t *ns)
{
	uint64_t whole = 0, part = 0, scale = 1, unit;
	const char *p = text, *decimals = NULL;

	for (; is_digit(*p); p++)
		if (add_digit(&whole, *p))
			return "is too large";
	if (p > text && *p == '.') {
		decimals = ++p;
		for (; is_digit(*p); p++) {
			if (scale <= NS_PER_S) {
				part = 10 * part + (uint64_t)(*p - '0');
				scale *= 10;
			} else if (*p != '0') {
				return "is finer than a nanosecond";
			}
		}
	}
	if (p == text || p == decimals)
		return "is no number with a unit (ns, us, ms, s)";
	unit = unit_ns(p, without);
	if (!unit)
		return "has no unit of ns, us, ms, s";
	for (; scale > 1 && part % 10 == 0; part /= 10) /* 1.500 us */
		scale /= 10;
	if (unit % scale)
		return "is finer than a nanosecond";
	if (__builtin_mul_overflow(whole, unit, &whole) ||
	    __builtin_add_overflow(whole, part * (unit / scale), &whole) || whole >= GIL_TIME_MAX)
		return "is too large";
	*ns = whole;
	return NULL;
}

static uint64_t take_time(struct argp_state *state, const char *option, const char *text,
			  uint64_t without)
{
	uint64_t ns = 0;
	const char *wrong = parse_time(text, without, &ns);

	if (wrong)
		argp_error(state, "--%s=%s: this %s", option, text, wrong);
	return ns;
}

static void take_moment(struct argp_state *state, const char *option, const char *text,
			struct gt_moment *m)
{
	m->ns = take_time(state, option, text, NS_PER_S);
	m->relative = m->ns < RELATIVE_BELOW;
	m->given = 1;
}

/* "1,2,3" behind those that are there. */
static void take_ids(struct argp_state *state, const char *option, const char *text, uint32_t **ids,
		     size_t *n)
{
	const char *p = text;

	do {
		uint32_t *grown = reallocarray(*ids, *n + 1, sizeof(*grown));
		uint64_t id = 0;
		const char *start = p;

		if (!grown)
			argp_failure(state, EXIT_FAILED, ENOMEM, "--%s", option);
		else
			*ids = grown;
		for (; is_digit(*p); p++)
			if (add_digit(&id, *p) || id > UINT32_MAX)
				argp_error(state, "--%s=%s: an id is too large", option, text);
		if (p == start || (*p && *p != ','))
			argp_error(state, "--%s=%s: this is no list of ids, such as 17 or 17,18",
				   option, text);
		(*ids)[(*n)++] = (uint32_t)id;
	} while (*p++);
}

static void take_split(struct argp_state *state, const char *text, struct gt_options *o)
{
	uint64_t mib = 0;

	for (const char *p = text; *p; p++)
		if (!is_digit(*p) || add_digit(&mib, *p) || mib > MIB_MAX)
			argp_error(state, "--split=%s: this is no number of MiB from 1 to %u", text,
				   MIB_MAX);
	if (!mib)
		argp_error(state, "--split=%s: this is no number of MiB from 1 to %u", text,
			   MIB_MAX);
	o->part_bytes = mib << 20;
}

/* ---- words ---- */

/* 0 or 1: which of two words it is. */
static uint8_t take_word(struct argp_state *state, const char *option, const char *text,
			 const char *first, const char *second)
{
	if (!strcmp(text, first))
		return 0;
	if (strcmp(text, second))
		argp_error(state, "--%s is %s or %s, not %s", option, first, second, text);
	return 1;
}

static void take_once(struct argp_state *state, const char *option, const char *text,
		      const char **name)
{
	if (*name || !*text)
		argp_error(state, "--%s needs one name", option);
	*name = text;
}

static void take_input(struct argp_state *state, const char *text, struct gt_options *o)
{
	size_t n = strlen(text);

	if (!n)
		argp_error(state, "an INPUT is empty");
	if (n > 5 && !strcmp(text + n - 5, ".json") && access(text, F_OK))
		argp_error(state, "%s is no recording; did you mean -o %s?", text, text);
	o->inputs[o->ninputs++] = text;
}

/* ---- what does not fit together ---- */

static int same_file(const char *a, const char *b)
{
	return a && b && !strcmp(a, b);
}

static void refuse(struct argp_state *state, int given, const char *option, const char *why)
{
	if (given)
		argp_error(state, "%s %s", option, why);
}

static void check_with_profiler(struct argp_state *state, const struct gt_options *o)
{
	const char *const other = "does not go with --profiler, whose traces have one layout";

	refuse(state, o->per_rank, "--per-rank", other);
	refuse(state, o->part_bytes != 0, "--split", other);
	refuse(state, o->relative, "--time=relative",
	       "does not go with --profiler: times are the Profiler's");
	refuse(state, same_file(o->output, "-"), "--output=-", "does not go with --profiler");
}

static void check_alone(struct argp_state *state, const struct gt_options *o)
{
	const char *const alone = "needs --profiler";

	refuse(state, o->merge, "--merge", alone);
	refuse(state, o->inline_rows, "--lanes=inline", alone);
	refuse(state, o->clip, "--clip", alone);
	if (same_file(o->output, "-")) {
		refuse(state, o->per_rank, "--per-rank", "needs a folder, not --output=-");
		refuse(state, o->part_bytes != 0, "--split", "needs a name, not --output=-");
	}
}

static void check_standard_output(struct argp_state *state, const struct gt_options *o)
{
	int users = same_file(o->output, "-") + same_file(o->html, "-") +
		    (o->summary != GT_SUMMARY_NONE);

	if (users > 1)
		argp_error(state, "standard output can be of only one use: a trace (--output=-), a "
				  "report (--html=-) or --summary");
	if (same_file(o->output, o->html))
		argp_error(state, "--output and --html name the same file");
}

static void check(struct argp_state *state, struct gt_options *o)
{
	if (!o->ninputs)
		argp_error(state, "no INPUT");
	if (o->from.given && o->to.given && o->from.relative == o->to.relative &&
	    o->from.ns >= o->to.ns)
		argp_error(state, "--from is not before --to");
	if (o->nprofilers)
		check_with_profiler(state, o);
	else
		check_alone(state, o);
	check_standard_output(state, o);
	o->filter.pids = o->pids;
	o->filter.tids = o->tids;
	o->trace = !o->nprofilers && (o->output || (!o->summary && !o->html));
}

static error_t parse_drawing(int key, char *arg, struct argp_state *state)
{
	struct gt_options *o = state->input;

	switch (key) {
	case OPT_MIN_DUR:
		o->filter.min_ns = take_time(state, "min-dur", arg, 1000);
		return 0;
	case OPT_FROM:
		take_moment(state, "from", arg, &o->from);
		return 0;
	case OPT_TO:
		take_moment(state, "to", arg, &o->to);
		if (!o->to.ns)
			argp_error(state, "--to=%s: nothing lies before it", arg);
		return 0;
	case OPT_PID:
		take_ids(state, "pid", arg, &o->pids, &o->filter.npids);
		return 0;
	case OPT_TID:
		take_ids(state, "tid", arg, &o->tids, &o->filter.ntids);
		return 0;
	case OPT_FLOWS:
		o->flows = 1;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static error_t parse_writing(int key, char *arg, struct argp_state *state)
{
	struct gt_options *o = state->input;

	switch (key) {
	case OPT_SUMMARY:
		o->summary = arg && take_word(state, "summary", arg, "text", "json")
				     ? GT_SUMMARY_JSON
				     : GT_SUMMARY_TEXT;
		return 0;
	case OPT_HTML:
		take_once(state, "html", arg, &o->html);
		return 0;
	case OPT_IDS:
		o->ids = take_word(state, "ids", arg, "namespace", "host") ? GT_IDS_HOST
									   : GT_IDS_NAMESPACE;
		return 0;
	case OPT_TIME:
		o->relative = take_word(state, "time", arg, "unix", "relative");
		return 0;
	case OPT_GZIP:
		o->gzip = 1;
		return 0;
	case OPT_PER_RANK:
		o->per_rank = 1;
		return 0;
	case OPT_SPLIT:
		take_split(state, arg, o);
		return 0;
	case OPT_PROFILER:
		if (!*arg)
			argp_error(state, "--profiler needs a name");
		o->profilers[o->nprofilers++] = arg;
		return 0;
	case OPT_LANES:
		o->inline_rows = take_word(state, "lanes", arg, "separate", "inline");
		return 0;
	case OPT_MERGE:
		o->merge = 1;
		return 0;
	case OPT_CLIP:
		o->clip = 1;
		return 0;
	}
	return parse_drawing(key, arg, state);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct gt_options *o = state->input;

	switch (key) {
	case 'i':
	case ARGP_KEY_ARG:
		take_input(state, arg, o);
		return 0;
	case 'o':
		take_once(state, "output", arg, &o->output);
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
		check(state, o);
		return 0;
	}
	return parse_writing(key, arg, state);
}

int gt_options_parse(struct gt_options *o, int argc, char **argv)
{
	static const struct argp argp = {
		.options = arg_options, .parser = parse_option, .args_doc = "INPUT...", .doc = doc};

	*o = (struct gt_options){.log = GT_LOG_INFO};
	o->inputs = calloc((size_t)argc + 1, sizeof(*o->inputs));
	o->profilers = calloc((size_t)argc + 1, sizeof(*o->profilers));
	if (!o->inputs || !o->profilers) {
		gt_error("out of memory");
		return -ENOMEM;
	}
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, o);
	return 0;
}

void gt_options_free(struct gt_options *o)
{
	free(o->inputs);
	free(o->profilers);
	free(o->pids);
	free(o->tids);
}
