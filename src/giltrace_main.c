// SPDX-License-Identifier: Apache-2.0
/*
 * giltrace: signals, descriptors, what is printed, the exit status. The work is done by the
 * session.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include "caps.h"
#include "clock.h"
#include "cmdline.h"
#include "featlist.h"
#include "inherited.h"
#include "listing.h"
#include "report.h"
#include "summing.h"
#include "tell.h"

struct run {
	struct gt_cmdline line;
	struct gt_summing *summing; /* NULL: there is to be no summary */
	/* As they were when we were started: */
	sigset_t sigmask;
	sigset_t sigdefault; /* not ignored, as they are now */
	struct rlimit locked_memory;
};

/*
 * The signals that end a recording, as a descriptor; with --ring, the one that writes what is in
 * memory; with a command, all that are passed on to it. They are blocked here, before anything is
 * attached, so none is missed. A hang-up counts unless nohup(1) or the like has it ignored.
 */
static int open_stop_fd(struct run *o)
{
	static const int passed_on[] = {SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGALRM};
	struct sigaction hup;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	if (!sigaction(SIGHUP, NULL, &hup) && hup.sa_handler != SIG_IGN)
		sigaddset(&set, SIGHUP);
	for (size_t i = 0; i < GT_ARRAY_SIZE(passed_on) && o->line.session.command.argv; i++)
		sigaddset(&set, passed_on[i]);
	if (o->line.session.window.flight.window_ns)
		sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, &o->sigmask);
	o->line.session.command.sigmask = &o->sigmask;
	/* Report a closed terminal or a file size limit as the error of the write it is. */
	sigemptyset(&o->sigdefault);
	if (signal(SIGPIPE, SIG_IGN) != SIG_IGN)
		sigaddset(&o->sigdefault, SIGPIPE);
	if (signal(SIGXFSZ, SIG_IGN) != SIG_IGN)
		sigaddset(&o->sigdefault, SIGXFSZ);
	o->line.session.command.sigdefault = &o->sigdefault;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/*
 * Up to one descriptor per probe and seven per process: take all that the hard limit gives. A
 * command gets the limits that we got.
 */
static void raise_open_files(struct run *o)
{
	struct rlimit lim;

	if (!getrlimit(RLIMIT_MEMLOCK, &o->locked_memory))
		o->line.session.command.locked_memory = &o->locked_memory;
	if (getrlimit(RLIMIT_NOFILE, &lim))
		return;
	o->line.session.command.open_files = lim.rlim_cur;
	lim.rlim_cur = lim.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &lim);
}

/* What --list and --dry-run show. */
static enum gt_status show(const struct run *o, const struct gt_session *s)
{
	enum gt_status status = gt_session_status(s);
	struct gt_listing *list = NULL;
	int err = 0;

	if (!gt_session_targets(s) && !status) {
		gt_error("there is no process to record");
		status = GT_NO_TARGET;
	}
	for (size_t i = 0; i < gt_session_targets(s) && o->line.dry_run; i++)
		gt_report_target(gt_session_recording(s, i));
	if (!o->line.list)
		return status;
	list = gt_listing_new(o->line.json ? GT_LISTING_JSON : GT_LISTING_TABLE);
	if (!list)
		err = -ENOMEM;
	for (size_t i = 0; i < gt_session_targets(s) && !err; i++)
		err = gt_listing_add(list, gt_session_recording(s, i));
	if (list && (gt_session_targets(s) || o->line.json) && !err)
		err = gt_listing_print(list, stdout);
	else
		gt_listing_free(list);
	if (!err)
		return status;
	gt_error("cannot print the list: %s", strerror(-err));
	return GT_FAILED;
}

/* For what was recorded. A command's standard output is its own. */
static FILE *results(const struct run *o)
{
	return o->line.session.command.argv ? stderr : stdout;
}

static void on_ended(void *ctx, const struct gt_recording *r)
{
	const struct run *o = ctx;

	if (o->line.log == GT_LOG_ERROR)
		return;
	gt_status("%s", "");
	gt_report_result(r, o->line.session.output_dir, results(o));
	if (o->summing && r->file_fd && r->end && r->stats.events)
		gt_summing_add(o->summing, r->file_fd, r->stats.events, o->line.session.output_dir,
			       r->file);
}

/* Only where there is somebody to read it; without memory for it there is none. */
static void prepare_summary(struct run *o)
{
	if (o->line.no_summary || o->line.control_fd >= 0 || o->line.list || o->line.dry_run ||
	    o->line.log == GT_LOG_ERROR || gt_summing_new(&o->summing))
		return;
	o->line.session.keep_files = 1;
}

/* Where the owner finds the files, whatever its working directory has become. */
static int make_absolute(struct run *o)
{
	gt_autofree char *cwd = NULL;
	char *path;

	if (*o->line.session.output_dir == '/')
		return 0;
	cwd = getcwd(NULL, 0);
	if (!cwd || asprintf(&path, "%s/%s", cwd, o->line.session.output_dir) < 0)
		return -errno;
	o->line.session.output_dir = path;
	return 0;
}

/* Takes over the owner's descriptor, and closes all that it did not mean to give us. */
static int prepare_control(struct run *o)
{
	int fd = -1, err = 0;

	if (o->line.control_fd >= 0) {
		gt_inherited_reset(o->line.control_fd);
		o->line.session.owned = 1;
		fd = gt_inherited_take(o->line.control_fd);
		err = fd < 0 ? fd : make_absolute(o);
	}
	if (err)
		gt_error("cannot use the control descriptor: %s", strerror(-err));
	else if (fd >= 0 || o->line.listens)
		err = gt_control_open(fd, &o->line.session.control);
	return err;
}

/* From here on signals are read, so nothing is left behind. */
static enum gt_status record(struct run *o, struct gt_session *s)
{
	uint64_t caps;
	int err = 0;

	o->line.session.stop_fd = open_stop_fd(o);
	if (o->line.session.stop_fd < 0)
		gt_error("cannot open a signal descriptor: %s", strerror(errno));
	caps = gt_caps_lower();
	if (o->line.listens)
		err = gt_control_listen(o->line.session.control, o->line.listen_path);
	gt_caps_raise(caps);
	if (err)
		return GT_FAILED;
	(void)gt_session_record(s);
	return gt_session_status(s);
}

static int run(struct run *o)
{
	enum gt_status status = GT_FAILED;
	struct gt_progress all = {0};
	struct gt_session *s = NULL;
	int err, command = -1;

	err = gt_session_open(&o->line.session, &s);
	if (s && (o->line.dry_run || o->line.list)) {
		status = show(o, s);
	} else if (s) {
		/* Until here a signal may end the program: nothing has been attached or written. */
		status = err ? gt_session_status(s) : record(o, s);
		command = gt_session_command_status(s);
		gt_session_progress(s, &all);
	}
	gt_session_close(s);
	if (fflush(stdout))
		gt_error("cannot write to standard output: %s", strerror(errno));
	else if (ferror(stdout) && !o->line.list) /* a list has told it */
		gt_error("not all could be written to standard output");
	if (ferror(stdout))
		status = status ? status : GT_FAILED;
	if (o->line.session.control)
		gt_control_ended(o->line.session.control, command >= 0 ? command : (int)status,
				 &all);
	gt_control_close(o->line.session.control);
	/* Last: whatever becomes of it, the status stays. */
	if (o->summing && !ferror(stdout))
		gt_summing_print(o->summing, o->line.session.stop_fd, results(o));
	gt_summing_free(o->summing);
	return command >= 0 ? command : (int)status;
}

int main(int argc, char **argv)
{
	static struct run o;
	int err;

	if (gt_fill_standard_fds()) {
		gt_error("cannot open /dev/null: %s", strerror(errno));
		return GT_FAILED;
	}
	/* Every user would be root with it, by -o and --user alone. */
	if (gt_caps_set_id()) {
		gt_error("giltrace is not to be set-user-ID or set-group-ID: docs/rights.md tells "
			 "which capabilities its file may have");
		return GT_FAILED;
	}
	gt_cmdline_parse(argc, argv, &o.line);
	gt_log_setup("giltrace", o.line.log);
	if (o.line.tell && geteuid()) /* one's own right to a socket has to do */
		(void)gt_caps_keep(0);
	if (o.line.tell)
		return gt_tell(o.line.tell, o.line.words);
	o.line.session.ended = on_ended;
	o.line.session.ctx = &o;
	err = gt_clock_setup();
	if (err)
		gt_warn("cannot read /proc/self/timens_offsets (%s): where this is a time "
			"namespace, "
			"all times are wrong",
			strerror(-err));
	if (prepare_control(&o))
		return GT_FAILED;
	raise_open_files(&o);
	if (o.line.show_features)
		return (int)gt_featlist(&o.line.features, o.line.session.tracer.backend,
					o.line.json, stdout);
	prepare_summary(&o);
	return run(&o);
}
