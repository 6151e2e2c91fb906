// SPDX-License-Identifier: Apache-2.0
#include "cmdline.h"

#include <argp.h>
#include <fcntl.h>

#include "inherited.h"
#include "tell.h"

enum {
	OPT_PROBE = 256,
	OPT_BACKEND,
	OPT_RING_SIZE,
	OPT_RING_MEMORY,
	OPT_DRY_RUN,
	OPT_READY_FD,
	OPT_ALL_NPU,
	OPT_ALL_PYTHON,
	OPT_FOLLOW,
	OPT_USER,
	OPT_LIST,
	OPT_JSON,
	OPT_NO_THREAD_NAMES,
	OPT_NO_SUMMARY,
	OPT_DEVICE_ROOT,
	OPT_CONTROL,
	OPT_CONTROL_FD,
	OPT_PAUSED,
	OPT_TELL,
	OPT_FEATURES,
	OPT_WITHOUT,
	OPT_RING,
	OPT_WINDOW_MEMORY,
	OPT_RING_FILES,
	OPT_TRIGGER_HOLD,
	OPT_TRIGGER_WAIT,
};

#define RING_KIB_MAX         1048576
#define RING_MEMORY_MIB      256
#define RING_MEMORY_MIB_MAX  1048576
#define WINDOW_MEMORY_MIB    64
#define RING_FILES           16
#define RING_FILES_MAX       100000
#define TRIGGER_MS_MAX       1000000000
#define DURATION_SECONDS_MAX 1000000000ull

const char *argp_program_version = "giltrace " GT_VERSION;

static const char args_doc[] =
	"-p PID[,PID...]\n--all-npu\n--all-python\n-- COMMAND [ARG...]\n--tell=WHOM REQUEST\n"
	"--features";

static const char doc[] =
	"Records who waits for, holds and releases the GIL of running CPython processes (3.6 and "
	"later), without changing or restarting them. Needs root, or some capabilities: "
	"docs/rights.md.\v"
	"Recording goes on until the duration has passed, Ctrl-C, SIGTERM or SIGHUP comes, or "
	"every "
	"process has ended. Each process gets a file GIL_<pid>_rank_<rank>.gil; where an earlier "
	"one "
	"has that name, _2, _3 and so on is added. A brief summary is printed at the end (Ctrl-C "
	"skips it); gil2trace --summary tells more, and gil2trace turns files into a trace for "
	"MindStudio "
	"Insight and Perfetto.\n"
	"\n"
	"A COMMAND is recorded from the first time that it takes the GIL on. giltrace passes "
	"signals "
	"on to it, ends with it (-d ends the recording only) and exits with its status, or 128 + N "
	"where signal N ended it, 127 "
	"where it was not found and 126 where it could not be executed.\n"
	"\n"
	"Exit status without a command (the greatest that applies):\n"
	"  0  finished\n"
	"  1  another failure\n"
	"  2  wrong usage\n"
	"  3  a process does not exist, or there is none to record\n"
	"  4  a process is no CPython that can be traced\n"
	"  5  privileges or a kernel feature are missing\n"
	"  6  finished, but events were lost\n"
	"  7  a file could not be written\n"
	"  8  what was recorded does not add up: probe sites are missing;\n"
	"     or nothing was seen although threads ran\n";

static const struct argp_option options[] = {
	{NULL, 0, NULL, 0, "Which processes:", 1},
	{"pid", 'p', "PID[,PID...]", 0, "These; may be repeated", 1},
	{"all-npu", OPT_ALL_NPU, NULL, 0,
	 "Every Python that is bound to an Ascend NPU, also those that come later", 1},
	{"all-python", OPT_ALL_PYTHON, NULL, 0, "Every CPython, also those that come later", 1},
	{"follow", OPT_FOLLOW, "HOW", OPTION_ARG_OPTIONAL,
	 "Also children of these processes, theirs, and what they execute; HOW they are noticed is "
	 "auto, bpf (needs the kernel's BTF) or proc",
	 1},
	{"user", OPT_USER, "USER", 0, "Run the COMMAND as this user [who ran sudo, else ourselves]",
	 1},
	{NULL, 0, NULL, 0, "What to do:", 2},
	{"duration", 'd', "SECONDS", 0, "Stop after this time; fractions are allowed", 2},
	{"output-dir", 'o', "DIR", 0,
	 "Folder for the files [$GILTRACE_DATA_DIR, else the current one]", 2},
	{"list", OPT_LIST, NULL, 0, "Print which processes would be recorded, and attach nothing",
	 2},
	{"json", OPT_JSON, NULL, 0, "Print the list, or the features, as JSON", 2},
	{"dry-run", OPT_DRY_RUN, NULL, 0,
	 "Print the processes, the file with the GIL code, what symbols say of it and each probe "
	 "site, and attach nothing",
	 2},
	{"features", OPT_FEATURES, NULL, 0,
	 "Print what giltrace wants of this kernel, found by trying it on giltrace itself, and "
	 "what "
	 "is used where it is missing",
	 2},
	{NULL, 0, NULL, 0, "How:", 3},
	{"probe", OPT_PROBE, "MODE", 0,
	 "sites: the places where the lock changes hands, found without symbols; "
	 "functions: entry and return of take_gil and drop_gil, which needs symbols, misses "
	 "inlined copies and cannot tell the GILs of several interpreters apart; "
	 "libc: the condition functions of libc, slow for programs that use many of them; "
	 "auto (default): sites, checked against symbols where there are any, and another way "
	 "where they cannot be found",
	 3},
	{"backend", OPT_BACKEND, "NAME", 0,
	 "How probes are attached: auto (default), multi (Linux 6.6), perf (Linux 5.15) or ioctl "
	 "(Linux 5.8)",
	 3},
	{"without", OPT_WITHOUT, "NAME[,NAME...]", 0,
	 "Do as if the kernel did not have these features, whose names --features tells", 3},
	{"ring-size", OPT_RING_SIZE, "KIB", 0,
	 "Size of each process's ring buffer, a power of two [4096, less where --ring-memory would "
	 "not do]",
	 3},
	{"ring-memory", OPT_RING_MEMORY, "MIB", 0, "Memory for all ring buffers [256]", 3},
	{"no-thread-names", OPT_NO_THREAD_NAMES, NULL, 0,
	 "Do not read the names that interpreters have for their threads", 3},
	{"no-summary", OPT_NO_SUMMARY, NULL, 0, "Print no summary of what was recorded at the end",
	 3},
	{"ready-fd", OPT_READY_FD, "FD", 0,
	 "Write a newline to this inherited descriptor once recording has begun", 3},
	{"device-root", OPT_DEVICE_ROOT, "DIR", OPTION_HIDDEN,
	 "Folder with the device nodes of the NPUs, for tests [/dev]", 3},
	{NULL, 0, NULL, 0, "Only the last seconds (docs/flight-recorder.md):", 4},
	{"ring", OPT_RING, "SECONDS", 0,
	 "Write nothing but the last SECONDS of each process, kept in memory, to a file of its "
	 "own: "
	 "on SIGUSR1, by --tell=WHOM dump, where a limit is exceeded, and at the end",
	 4},
	{"window-memory", OPT_WINDOW_MEMORY, "MIB", 0,
	 "Memory for the last seconds of each process [64]; where it does not do, they are fewer",
	 4},
	{"trigger-hold", OPT_TRIGGER_HOLD, "MS", 0,
	 "Write a file when a thread has held the GIL for so many milliseconds", 4},
	{"trigger-wait", OPT_TRIGGER_WAIT, "MS", 0,
	 "Write a file when a thread has waited for the GIL for so many milliseconds", 4},
	{"ring-files", OPT_RING_FILES, "N", 0,
	 "At most so many files of each process by these limits [16]", 4},
	{NULL, 0, NULL, 0, "Control of a running recording (docs/control.md):", 5},
	{"control", OPT_CONTROL, "PATH", OPTION_ARG_OPTIONAL,
	 "Listen for requests at this socket, for its user and root alone "
	 "[/run/giltrace/PID.sock, or below $XDG_RUNTIME_DIR]",
	 5},
	{"control-fd", OPT_CONTROL_FD, "FD", 0,
	 "This inherited socket (AF_UNIX, SOCK_SEQPACKET) belongs to the program that owns the "
	 "recording, which ends with it",
	 5},
	{"paused", OPT_PAUSED, NULL, 0, "Record nothing before it is told to resume", 5},
	{"tell", OPT_TELL, "PID or PATH", 0,
	 "Send a request to the giltrace with that pid, or at that socket, and print the answer: "
	 "mark NAME, pause, resume, status, dump or stop",
	 5},
	{"verbose", 'v', NULL, 0, "Say more; twice: also what libbpf says", -1},
	{"quiet", 'q', NULL, 0, "Print errors only", -1},
	{NULL, 'h', NULL, OPTION_HIDDEN, NULL, -1}, /* what everybody tries first */
	{0},
};

/* Parses "-p" lists; every part must be a positive number. */
static int parse_pids(struct gt_cmdline *o, const char *text)
{
	do {
		char *end;
		long pid;

		errno = 0;
		pid = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : 0;
		if (pid <= 0 || pid > INT32_MAX || errno || (*end && *end != ','))
			return -EINVAL;
		if (o->session.find.n_pids == GT_CMDLINE_PIDS)
			return -E2BIG;
		o->pids[o->session.find.n_pids++] = (pid_t)pid;
		text = *end ? end + 1 : NULL;
	} while (text);
	return 0;
}

/* Decimal seconds, at most nine digits behind the point, as nanoseconds; 0: not such a number. */
static uint64_t parse_seconds(const char *text)
{
	uint64_t s = 0, ns = 0, unit = 1000000000;
	int digits = 0;

	for (; *text >= '0' && *text <= '9' && s <= DURATION_SECONDS_MAX; text++, digits++)
		s = s * 10 + (uint64_t)(*text - '0');
	if (*text == '.')
		for (text++; *text >= '0' && *text <= '9' && unit > 1; text++, digits++)
			ns += (uint64_t)(*text - '0') * (unit /= 10);
	return *text || !digits || s > DURATION_SECONDS_MAX ? 0 : s * 1000000000 + ns;
}

/* Index of a word in a list, or -1. */
static int word(const char *text, const char *const *words)
{
	for (int i = 0; words[i]; i++)
		if (!strcmp(text, words[i]))
			return i;
	return -1;
}

/* A plain number from 0 to max, or -1. */
static long number(const char *text, long max)
{
	char *end;
	long n;

	errno = 0;
	n = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : -1;
	return n < 0 || errno || *end || n > max ? -1 : n;
}

/* A size of the ring, which must be a multiple of the page. */
static long ring_kib(const char *text)
{
	long n = number(text, RING_KIB_MAX);

	return n < sysconf(_SC_PAGESIZE) / 1024 || (n & (n - 1)) ? -1 : n;
}

static void parse_without(struct gt_cmdline *o, const char *text, struct argp_state *state)
{
	char names[GT_FEATURES_TEXT];
	const char *bad;
	int err = gt_features_parse(text, &o->features.without, &bad);

	if (err)
		argp_error(
			state, "--without: '%.*s' is %s; there are %s", (int)strcspn(bad, ","), bad,
			err == -EINVAL ? "a feature that giltrace cannot do without" : "no feature",
			gt_features_optional(names));
}

/* Options that say how; 0: it is another one. */
static int parse_how(int key, char *arg, struct argp_state *state)
{
	static const char *const probes[] = {"auto", "sites", "functions", "libc", NULL};
	static const char *const backends[] = {"auto", "multi", "perf", "ioctl", NULL};
	struct gt_cmdline *o = state->input;
	long n;

	switch (key) {
	case OPT_PROBE:
		n = word(arg, probes);
		if (n < 0)
			argp_error(state, "--probe is auto, sites, functions or libc, not '%s'",
				   arg);
		o->session.find.probe_mode = (enum gt_probe_mode)n;
		break;
	case OPT_BACKEND:
		n = word(arg, backends);
		if (n < 0)
			argp_error(state, "--backend is auto, multi, perf or ioctl, not '%s'", arg);
		o->session.tracer.backend = (enum gt_backend)n;
		break;
	case OPT_WITHOUT:
		parse_without(o, arg, state);
		break;
	case OPT_RING_SIZE:
		n = ring_kib(arg);
		if (n < 0)
			argp_error(state,
				   "--ring-size wants a power of two from %ld to %d, not '%s'",
				   sysconf(_SC_PAGESIZE) / 1024, RING_KIB_MAX, arg);
		o->session.ring_bytes = (uint32_t)n * 1024;
		break;
	case OPT_RING_MEMORY:
		n = number(arg, RING_MEMORY_MIB_MAX);
		if (n < 1)
			argp_error(state, "--ring-memory wants MiB from 1 to %d, not '%s'",
				   RING_MEMORY_MIB_MAX, arg);
		o->session.ring_memory = (uint64_t)n << 20;
		break;
	case OPT_READY_FD:
		n = number(arg, INT32_MAX);
		/* Ours come later: a number that nobody has opened would become one of them. */
		if (n < 0 || fcntl((int)n, F_GETFD) < 0)
			argp_error(state, "--ready-fd wants an open descriptor, not '%s'", arg);
		o->session.ready_fd = (int)n;
		/* A command is not to have it. */
		(void)fcntl((int)n, F_SETFD, FD_CLOEXEC);
		break;
	case OPT_NO_THREAD_NAMES:
		o->session.no_names = 1;
		break;
	case OPT_NO_SUMMARY:
		o->no_summary = 1;
		break;
	case OPT_DEVICE_ROOT:
		o->session.find.device_root = arg;
		break;
	default:
		return 0;
	}
	return 1;
}

/* Milliseconds, fractions allowed, as nanoseconds. */
static uint64_t parse_ms(const char *name, const char *text, struct argp_state *state)
{
	uint64_t ns = parse_seconds(text) / 1000;

	if (!ns || ns > TRIGGER_MS_MAX * 1000000ull)
		argp_error(state, "--%s wants milliseconds above 0, not '%s'", name, text);
	return ns;
}

/* Options of the last seconds; 0: it is another one. */
static int parse_window(int key, char *arg, struct argp_state *state)
{
	struct gt_window_opts *w = &((struct gt_cmdline *)state->input)->session.window;
	long n;

	switch (key) {
	case OPT_RING:
		w->flight.window_ns = parse_seconds(arg);
		if (!w->flight.window_ns)
			argp_error(state, "--ring wants a number of seconds above 0, not '%s'",
				   arg);
		break;
	case OPT_WINDOW_MEMORY:
		n = number(arg, RING_MEMORY_MIB_MAX);
		if (n < 1)
			argp_error(state, "--window-memory wants MiB from 1 to %d, not '%s'",
				   RING_MEMORY_MIB_MAX, arg);
		w->flight.memory = (uint64_t)n << 20;
		break;
	case OPT_RING_FILES:
		n = number(arg, RING_FILES_MAX);
		if (n < 1)
			argp_error(state, "--ring-files wants a number from 1 to %d, not '%s'",
				   RING_FILES_MAX, arg);
		w->files = (uint32_t)n;
		break;
	case OPT_TRIGGER_HOLD:
		w->flight.hold_ns = parse_ms("trigger-hold", arg, state);
		break;
	case OPT_TRIGGER_WAIT:
		w->flight.wait_ns = parse_ms("trigger-wait", arg, state);
		break;
	default:
		return 0;
	}
	return 1;
}

/* Options that steer a recording while it runs; 0: it is another one. */
static int parse_control(int key, char *arg, struct argp_state *state)
{
	struct gt_cmdline *o = state->input;
	const char *why;
	long n;

	switch (key) {
	case OPT_CONTROL:
		o->listens = 1;
		o->listen_path = arg;
		break;
	case OPT_CONTROL_FD:
		n = number(arg, INT32_MAX);
		why = n < 0 ? "it is no number" : gt_inherited_check((int)n);
		if (why)
			argp_error(state, "--control-fd wants a connected socket, not '%s': %s",
				   arg, why);
		o->control_fd = (int)n;
		break;
	case OPT_PAUSED:
		o->session.paused = 1;
		break;
	case OPT_TELL:
		o->tell = arg;
		break;
	default:
		return 0;
	}
	return 1;
}

/* Options that say which processes; 0: it is another one. */
static int parse_which(int key, char *arg, struct argp_state *state)
{
	static const char *const follows[] = {"no", "auto", "bpf", "proc", NULL};
	struct gt_cmdline *o = state->input;
	int n;

	switch (key) {
	case 'p':
		n = parse_pids(o, arg);
		if (n == -E2BIG)
			argp_error(state, "more than %d processes", GT_CMDLINE_PIDS);
		else if (n)
			argp_error(state, "-p wants process ids separated by commas, not '%s'",
				   arg);
		break;
	case OPT_ALL_NPU:
		o->session.find.all_npu = 1;
		break;
	case OPT_ALL_PYTHON:
		o->session.find.all_python = 1;
		o->session.find.follow = 1; /* so that they are noticed at once */
		break;
	case OPT_FOLLOW:
		n = arg ? word(arg, follows) : GT_FOLLOW_AUTO;
		if (n <= GT_FOLLOW_NO)
			argp_error(state, "--follow is auto, bpf or proc, not '%s'", arg);
		o->session.follow = (enum gt_follow)n;
		o->session.find.follow = 1;
		break;
	case OPT_USER:
		o->session.command.user = arg;
		break;
	default:
		return 0;
	}
	return 1;
}

static int names_a_process(const struct gt_session_opts *s)
{
	return s->find.n_pids || s->find.all_npu || s->find.all_python || s->command.argv;
}

static void check_window(const struct gt_window_opts *w, struct argp_state *state)
{
	if (w->flight.window_ns)
		return;
	if (w->flight.memory || w->files)
		argp_error(state, "--window-memory and --ring-files belong to --ring");
	if (w->flight.hold_ns || w->flight.wait_ns)
		argp_error(state, "--trigger-hold and --trigger-wait belong to --ring");
}

static void check(const struct gt_cmdline *o, struct argp_state *state)
{
	const struct gt_session_opts *s = &o->session;
	const char *why = o->tell ? gt_tell_check(o->words) : NULL;

	if (o->show_features && (o->tell || names_a_process(s) || o->list || o->dry_run ||
				 o->listens || o->control_fd >= 0))
		argp_error(state, "--features looks at no process, and does nothing else");
	if (why)
		argp_error(state, "--tell: %s", why);
	if (o->tell || o->show_features)
		return;
	check_window(&s->window, state);
	if (s->window.flight.window_ns && (o->list || o->dry_run))
		argp_error(state, "--ring is for recordings");
	if (s->paused && !o->listens && o->control_fd < 0)
		argp_error(state, "--paused: nobody could resume it without --control");
	if ((o->listens || o->control_fd >= 0) && (o->list || o->dry_run))
		argp_error(state, "--control is for recordings");
	if (o->control_fd >= 0 && s->ready_fd >= 0)
		argp_error(state, "--ready-fd is closed by --control-fd, which tells it, too");
	if (!names_a_process(s))
		argp_error(state,
			   "which process? Name it by -p PID, or use --all-npu, --all-python "
			   "or -- COMMAND");
	if (s->command.argv && (o->list || o->dry_run))
		argp_error(state, "--list and --dry-run look at processes that run, not at a "
				  "COMMAND");
	if (s->command.user && !s->command.argv)
		argp_error(state, "--user is the user of a COMMAND");
	if (o->json && !o->list)
		argp_error(state, "--json is for --list and --features");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct gt_cmdline *o = state->input;

	if (parse_how(key, arg, state) || parse_which(key, arg, state) ||
	    parse_control(key, arg, state) || parse_window(key, arg, state))
		return 0;
	switch (key) {
	case 'd':
		o->session.duration_ns = parse_seconds(arg);
		if (!o->session.duration_ns)
			argp_error(state, "-d wants a number of seconds above 0, not '%s'", arg);
		break;
	case 'o':
		o->session.output_dir = arg;
		break;
	case OPT_LIST:
		o->list = 1;
		break;
	case OPT_FEATURES:
		o->show_features = 1;
		break;
	case OPT_JSON:
		o->json = 1;
		break;
	case OPT_DRY_RUN:
		o->dry_run = 1;
		o->session.find.deep = 1;
		break;
	case 'v':
		o->log = o->log >= GT_LOG_DEBUG ? GT_LOG_TRACE : GT_LOG_DEBUG;
		break;
	case 'q':
		o->log = GT_LOG_ERROR;
		break;
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		break;
	case ARGP_KEY_ARG:
		/* Options of the command are not ours. */
		if (!o->tell && (!state->quoted || state->next - 1 > state->quoted))
			argp_error(state,
				   "'%s' is no option; processes are named by -p, and a "
				   "command comes behind --",
				   arg);
		return ARGP_ERR_UNKNOWN; /* all the rest at once */
	case ARGP_KEY_ARGS:
		if (o->tell)
			o->words = state->argv + state->next;
		else
			o->session.command.argv = state->argv + state->next;
		break;
	case ARGP_KEY_END:
		check(o, state);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

void gt_cmdline_parse(int argc, char **argv, struct gt_cmdline *out)
{
	static const struct argp argp = {
		.options = options, .parser = parse, .args_doc = args_doc, .doc = doc};

	*out = (struct gt_cmdline){
		.session = {.ready_fd = -1, .stop_fd = -1}, .control_fd = -1, .log = GT_LOG_INFO};
	out->session.find.pids = out->pids;
	out->session.tracer.features = &out->features;
	argp_err_exit_status = GT_USAGE;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, out);
	if (!out->session.output_dir)
		out->session.output_dir = getenv("GILTRACE_DATA_DIR");
	if (!out->session.output_dir || !*out->session.output_dir)
		out->session.output_dir = ".";
	if (!out->session.window.flight.memory)
		out->session.window.flight.memory = (uint64_t)WINDOW_MEMORY_MIB << 20;
	if (!out->session.window.files)
		out->session.window.files = RING_FILES;
	/* Who asks for rings of a size gets them, unless the memory was limited, too. */
	if (!out->session.ring_memory)
		out->session.ring_memory =
			out->session.ring_bytes ? UINT64_MAX : (uint64_t)RING_MEMORY_MIB << 20;
}
