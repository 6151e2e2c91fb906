// SPDX-License-Identifier: Apache-2.0
/*
 * giltrace: options, signals, what is printed, the exit status. The work is done by the session.
 */
#include <argp.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include "log.h"
#include "report.h"
#include "session.h"

enum { OPT_PROBE = 256, OPT_BACKEND, OPT_RING_SIZE, OPT_DRY_RUN, OPT_READY_FD };

#define PIDS_MAX             4096
#define RING_KIB_DEFAULT     4096
#define RING_KIB_MAX         1048576
#define DURATION_SECONDS_MAX 1000000000ull

struct options {
	struct gt_session_opts session;
	pid_t pids[PIDS_MAX];
	int dry_run;
	enum gt_log_level log;
};

const char *argp_program_version = "giltrace " GT_VERSION;

static const char doc[] =
	"Records who waits for, holds and releases the GIL of running CPython processes (3.6 and "
	"later), without changing or restarting them. Needs root.\v"
	"Recording goes on until the duration has passed, Ctrl-C, SIGTERM or SIGHUP comes, or "
	"every "
	"process has ended. Each process gets a file GIL_<pid>_rank_<rank>.gil; where an earlier "
	"one "
	"has that name, _2, _3 and so on is added. gil2trace turns files into a trace for "
	"MindStudio "
	"Insight and Perfetto.\n"
	"\n"
	"Exit status (the greatest that applies):\n"
	"  0  finished\n"
	"  1  another failure\n"
	"  2  wrong usage\n"
	"  3  a process does not exist\n"
	"  4  a process is no CPython that can be traced\n"
	"  5  privileges or a kernel feature are missing\n"
	"  6  finished, but events were lost\n"
	"  7  a file could not be written\n"
	"  8  what was recorded does not add up: probe sites are missing;\n"
	"     or nothing was seen although threads ran\n";

static const struct argp_option options[] = {
	{"pid", 'p', "PID[,PID...]", 0, "Processes to record; may be repeated", 0},
	{"duration", 'd', "SECONDS", 0, "Stop after this time; fractions are allowed", 0},
	{"output-dir", 'o', "DIR", 0,
	 "Folder for the files [$GILTRACE_DATA_DIR, else the current one]", 0},
	{"dry-run", OPT_DRY_RUN, NULL, 0,
	 "Print the processes, the file with the GIL code, what symbols say of it and each probe "
	 "site, and attach nothing",
	 0},
	{"probe", OPT_PROBE, "MODE", 0,
	 "sites: the places where the lock changes hands, found without symbols; "
	 "functions: entry and return of take_gil and drop_gil, which needs symbols, misses "
	 "inlined copies and cannot tell the GILs of several interpreters apart; "
	 "libc: the condition functions of libc, slow for programs that use many of them; "
	 "auto (default): sites, checked against symbols where there are any, and another way "
	 "where they cannot be found",
	 1},
	{"backend", OPT_BACKEND, "NAME", 0,
	 "How probes are attached: auto (default), multi (Linux 6.6) or perf (Linux 5.15)", 1},
	{"ring-size", OPT_RING_SIZE, "KIB", 0,
	 "Size of each process's ring buffer, a power of two [4096]", 1},
	{"ready-fd", OPT_READY_FD, "FD", 0,
	 "Write a newline to this inherited descriptor once recording has begun", 1},
	{"verbose", 'v', NULL, 0, "Say more, including what libbpf says", 2},
	{"quiet", 'q', NULL, 0, "Print errors only", 2},
	{NULL, 'h', NULL, OPTION_HIDDEN, NULL, 2}, /* what everybody tries first */
	{0},
};

/* Parses "-p" lists; every part must be a positive number. */
static int parse_pids(struct options *o, const char *text)
{
	do {
		char *end;
		long pid;

		errno = 0;
		pid = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : 0;
		if (pid <= 0 || pid > INT32_MAX || errno || (*end && *end != ','))
			return -EINVAL;
		if (o->session.n_pids == PIDS_MAX)
			return -E2BIG;
		o->pids[o->session.n_pids++] = (pid_t)pid;
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

static error_t parse(int key, char *arg, struct argp_state *state)
{
	static const char *const probes[] = {"auto", "sites", "functions", "libc", NULL};
	static const char *const backends[] = {"auto", "multi", "perf", NULL};
	const long page_kib = sysconf(_SC_PAGESIZE) / 1024;
	struct options *o = state->input;
	long n;

	switch (key) {
	case 'p':
		n = parse_pids(o, arg);
		if (n == -E2BIG)
			argp_error(state, "more than %d processes", PIDS_MAX);
		else if (n)
			argp_error(state, "-p wants process ids separated by commas, not '%s'",
				   arg);
		break;
	case 'd':
		o->session.duration_ns = parse_seconds(arg);
		if (!o->session.duration_ns)
			argp_error(state, "-d wants a number of seconds above 0, not '%s'", arg);
		break;
	case 'o':
		o->session.output_dir = arg;
		break;
	case OPT_PROBE:
		n = word(arg, probes);
		if (n < 0)
			argp_error(state, "--probe is auto, sites, functions or libc, not '%s'",
				   arg);
		o->session.probe_mode = (enum gt_probe_mode)n;
		break;
	case OPT_BACKEND:
		n = word(arg, backends);
		if (n < 0)
			argp_error(state, "--backend is auto, multi or perf, not '%s'", arg);
		o->session.tracer.backend = (enum gt_backend)n;
		break;
	case OPT_RING_SIZE:
		n = number(arg, RING_KIB_MAX);
		if (n < page_kib || (n & (n - 1)))
			argp_error(state,
				   "--ring-size wants a power of two from %ld to %d, not '%s'",
				   page_kib, RING_KIB_MAX, arg);
		o->session.tracer.ring_bytes = (uint32_t)n * 1024;
		break;
	case OPT_READY_FD:
		n = number(arg, INT32_MAX);
		/* Ours come later: a number that nobody has opened would become one of them. */
		if (n < 0 || fcntl((int)n, F_GETFD) < 0)
			argp_error(state, "--ready-fd wants an open descriptor, not '%s'", arg);
		o->session.ready_fd = (int)n;
		break;
	case OPT_DRY_RUN:
		o->dry_run = 1;
		o->session.deep = 1;
		break;
	case 'v':
		o->log = GT_LOG_DEBUG;
		break;
	case 'q':
		o->log = GT_LOG_ERROR;
		break;
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		break;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is no option; processes are named by -p", arg);
		break;
	case ARGP_KEY_END:
		if (!o->session.n_pids)
			argp_error(state, "which process? Name it by -p PID");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/*
 * The signals that end a recording, as a descriptor. They are blocked here, before anything is
 * attached, so none is missed. A hang-up counts unless nohup(1) or the like has it ignored.
 */
static int open_stop_fd(void)
{
	struct sigaction hup;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	if (!sigaction(SIGHUP, NULL, &hup) && hup.sa_handler != SIG_IGN)
		sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	/* Report a closed terminal or a file size limit as the error of the write it is. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Up to one descriptor per probe and five per process: take all that the hard limit gives. */
static void raise_open_files(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim))
		return;
	lim.rlim_cur = lim.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &lim);
}

static int run(struct options *o)
{
	struct gt_session *s = NULL;
	enum gt_status status;
	int err;

	err = gt_session_open(&o->session, &s);
	if (s && !err && o->dry_run) {
		for (size_t i = 0; i < gt_session_targets(s); i++)
			gt_report_target(gt_session_recording(s, i));
	} else if (s && !err) {
		/* Until here a signal may end the program: nothing has been attached or written. */
		o->session.stop_fd = open_stop_fd();
		if (o->session.stop_fd < 0)
			gt_error("cannot open a signal descriptor: %s", strerror(errno));
		(void)gt_session_record(s);
		for (size_t i = 0; i < gt_session_targets(s) && o->log != GT_LOG_ERROR; i++)
			gt_report_result(gt_session_recording(s, i), o->session.output_dir);
	}
	status = s ? gt_session_status(s) : GT_FAILED;
	gt_session_close(s);
	if (fflush(stdout) || ferror(stdout)) {
		gt_error("cannot write to standard output: %s", strerror(errno));
		return status ? (int)status : GT_FAILED;
	}
	return (int)status;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options, .parser = parse, .args_doc = "-p PID[,PID...]", .doc = doc};
	static struct options o = {
		.session = {.tracer.ring_bytes = RING_KIB_DEFAULT * 1024, .ready_fd = -1},
		.log = GT_LOG_INFO,
	};

	argp_err_exit_status = GT_USAGE;
	if (gt_fill_standard_fds())
		return GT_FAILED;
	o.session.pids = o.pids;
	argp_parse(&argp, argc, argv, 0, NULL, &o);
	gt_log_setup("giltrace", o.log);
	if (!o.session.output_dir)
		o.session.output_dir = getenv("GILTRACE_DATA_DIR");
	if (!o.session.output_dir || !*o.session.output_dir)
		o.session.output_dir = ".";
	raise_open_files();
	return run(&o);
}
