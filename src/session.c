// SPDX-License-Identifier: Apache-2.0
#include "session_private.h"

#include <fcntl.h>

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "caps.h"
#include "clock.h"
#include "log.h"
#include "output.h"

#define TICK_NS 100000000ull /* how often rings below the wake-up threshold are read */

static int wants_all(const struct gt_session *s)
{
	return s->opts->find.all_python || (s->opts->find.all_npu && gt_finder_has_npus(s->finder));
}

int gt_session_is_open_ended(const struct gt_session *s)
{
	return wants_all(s) || s->opts->follow || s->opts->command.argv;
}

static void on_ended(void *session, struct gt_recording *r)
{
	struct gt_session *s = session;

	/* A child that we have forked meanwhile may keep the descriptor open for a while. */
	if (s->epoll_fd >= 0)
		(void)epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, r->proc.pidfd, NULL);
	if (s->opts->ended)
		s->opts->ended(s->opts->ctx, r);
}

static void on_complete(void *session, struct gt_recording *r)
{
	gt_session_tell_done(session, r);
}

/* Whoever waits for the end sees that it is coming. */
static void on_removing(void *session)
{
	const struct gt_session *s = session;

	if (s->opts->control)
		gt_control_busy(s->opts->control);
}

int gt_session_open(const struct gt_session_opts *opts, struct gt_session **out)
{
	struct gt_session *s = calloc(1, sizeof(*s));
	struct gt_found found;
	int err;

	if (!s) {
		gt_error("out of memory");
		return -ENOMEM;
	}
	s->opts = opts;
	s->targets = (struct gt_targets){
		.recorder = {.dir_fd = -1,
			     .dir = opts->output_dir,
			     .no_names = opts->no_names,
			     .keep_files = opts->keep_files,
			     .paused = opts->paused,
			     .window = opts->window.flight.window_ns ? &opts->window : NULL,
			     .meanwhile = gt_targets_drain,
			     .ctx = &s->targets},
		.ring_bytes = opts->ring_bytes,
		.ring_memory = opts->ring_memory,
		.complete = on_complete,
		.dumped = on_complete,
		.removing = on_removing,
		.ended = on_ended,
		.ctx = s,
	};
	s->epoll_fd = s->tick_fd = s->deadline_fd = -1;
	s->command_status = -1;
	*out = s;
	err = gt_finder_open(&opts->find, &s->finder);
	if (err) {
		gt_targets_worsen(&s->targets, GT_FAILED);
		return err;
	}
	s->targets.open_ended = gt_session_is_open_ended(s);
	gt_targets_worsen(&s->targets, gt_finder_first(s->finder));
	while (gt_finder_take(s->finder, &found))
		(void)gt_targets_put(&s->targets, found.recording);
	if (s->targets.n || opts->command.argv || (wants_all(s) && !s->targets.status))
		return 0;
	return -ESRCH;
}

/*
 * Nothing is taken in any more, and the command, if it still runs, goes on by itself. The files
 * come first: the finder may be at something that takes long.
 */
void gt_session_stop(struct gt_session *s, enum gil_end_reason reason)
{
	s->stopping = 1;
	if (!s->end_mono_ns)
		s->end_mono_ns = gt_mono_ns();
	if (s->command)
		gt_command_continue(s->command, 1);
	gt_targets_finish_gone(&s->targets);
	gt_targets_finish_all(&s->targets, reason);
	gt_finder_stop(s->finder);
}

/* ---- the loop's descriptors ---- */

int gt_session_watch(struct gt_session *s, int fd, uint64_t what)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = what};

	return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int timer(int *fd, uint64_t first_ns, uint64_t period_ns)
{
	struct itimerspec when = {
		.it_value = {(time_t)(first_ns / SECOND_NS), (long)(first_ns % SECOND_NS)},
		.it_interval = {(time_t)(period_ns / SECOND_NS), (long)(period_ns % SECOND_NS)},
	};

	*fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (*fd < 0 || timerfd_settime(*fd, 0, &when, NULL))
		return -errno;
	return 0;
}

static int prepare_loop(struct gt_session *s)
{
	int err;

	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll_fd < 0)
		return -errno;
	err = timer(&s->tick_fd, TICK_NS, TICK_NS);
	if (!err)
		err = gt_session_watch(s, s->tick_fd, EV_TICK);
	if (!err)
		err = gt_session_watch(s, s->opts->stop_fd, EV_STOP);
	if (!err)
		err = gt_session_watch(s, gt_tracer_epoll_fd(s->targets.recorder.tracer), EV_RINGS);
	if (!err)
		err = gt_session_watch(s, gt_finder_fd(s->finder), EV_FOUND);
	if (!err && s->opts->control)
		err = gt_session_watch(s, gt_control_fd(s->opts->control), EV_CONTROL);
	return err;
}

static void read_rings(struct gt_session *s)
{
	uint32_t slots[64];
	size_t n = gt_tracer_ready(s->targets.recorder.tracer, slots, GT_ARRAY_SIZE(slots));

	for (size_t i = 0; i < n; i++) {
		struct gt_recording *r = gt_targets_at(&s->targets, slots[i]);

		if (slots[i] == GT_TRACER_NEWS)
			gt_session_read_news(s);
		else if (r)
			gt_targets_worsen(&s->targets, gt_recording_drain(r, &s->targets.recorder));
	}
}

static void read_signal(struct gt_session *s)
{
	struct signalfd_siginfo info;

	if (read(s->opts->stop_fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGUSR1 && s->targets.recorder.window)
		(void)gt_targets_dump(&s->targets, GT_WINDOW_SIGNAL);
	else if (s->command_runs)
		gt_command_signal(s->command, &info);
	else
		gt_session_stop(s, GIL_END_STOPPED);
}

/* ---- the loop ---- */

static void tick_one(struct gt_session *s, struct gt_recording *t, uint64_t mono_ns,
		     const struct gil_clock *second)
{
	gt_targets_worsen(&s->targets, gt_recording_drain(t, &s->targets.recorder));
	/* If we were killed in a pause, what was before it must not seem to have gone on. */
	if (!s->paused_mono_ns) {
		if (second) {
			(void)gt_collect_clock(t->collector, second);
			gt_recording_second(t, &s->targets.recorder, second->mono_ns);
		}
		gt_recording_names(t, &s->targets.recorder, mono_ns);
	}
	if (t->window)
		gt_targets_watch(&s->targets, t, mono_ns);
	if (gt_collect_tick(t->collector, mono_ns)) {
		gt_targets_finish(&s->targets, &t, 1, GIL_END_ERROR);
	} else if (gt_proc_executed(&t->proc)) {
		pid_t pid = t->proc.pid;

		if (!s->follows)
			gt_warn("process %d has executed another program; its recording ends here",
				pid);
		gt_targets_finish(&s->targets, &t, 1, GIL_END_EXEC);
		gt_session_look_again(s, pid, s->last_tick_mono_ns);
	} else if (second && gt_proc_ended(&t->proc)) {
		gt_targets_finish(&s->targets, &t, 1, GIL_END_TARGET_EXIT);
	}
}

static void tick(struct gt_session *s)
{
	uint64_t mono_ns = gt_mono_ns(), expirations;
	int sample = mono_ns - s->last_clock_mono_ns >= SECOND_NS;
	struct gil_clock now;

	(void)!read(s->tick_fd, &expirations, sizeof(expirations));
	/* Before the memory of targets is looked at: news tell when it has changed. */
	if (!s->stopping)
		gt_session_read_news(s);
	gt_session_free_held(s, mono_ns);
	if (sample)
		gt_clock_sample(&now);
	for (size_t i = 0; i < s->targets.n; i++)
		if (s->targets.list[i] && s->targets.list[i]->collector)
			tick_one(s, s->targets.list[i], mono_ns, sample ? &now : NULL);
	if (sample)
		s->last_clock_mono_ns = mono_ns;
	s->last_tick_mono_ns = mono_ns;
	/* A command writes to the terminal, too. */
	if (mono_ns - s->shown_mono_ns >= SECOND_NS / 2 && !s->stopping && !s->command)
		gt_session_show(s, mono_ns);
}

/* May anything still come? */
static int expects_more(struct gt_session *s)
{
	if (s->command_runs)
		return !s->leaves;
	if (s->stopping || !gt_session_is_open_ended(s))
		return 0;
	gt_session_read_news(s);
	return wants_all(s) || gt_finder_pending(s->finder);
}

/* Those whose pidfd says so, together. */
static void finish_ended(struct gt_session *s, const uint64_t *places, size_t n)
{
	struct gt_recording *ended[64];
	size_t n_ended = 0;

	for (size_t i = 0; i < n; i++) {
		struct gt_recording *t = s->targets.list[places[i]];

		/* Its place may be another's by now. */
		if (t && t->collector && gt_proc_ended(&t->proc))
			ended[n_ended++] = t;
	}
	if (n_ended)
		gt_targets_finish(&s->targets, ended, n_ended, GIL_END_TARGET_EXIT);
}

/* Runs until nothing is left to record. */
static int loop(struct gt_session *s)
{
	while (s->targets.n_open || expects_more(s)) {
		struct epoll_event ready[64];
		uint64_t places[GT_ARRAY_SIZE(ready)];
		size_t n_places = 0;
		int n = epoll_wait(s->epoll_fd, ready, GT_ARRAY_SIZE(ready), -1);

		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n; i++) {
			switch (ready[i].data.u64) {
			case EV_TICK:
				tick(s);
				break;
			case EV_RINGS:
				read_rings(s);
				break;
			case EV_FOUND:
				gt_session_take_found(s);
				break;
			case EV_COMMAND:
				gt_session_read_command(s);
				break;
			case EV_CONTROL:
				gt_control_serve(s->opts->control, gt_session_act, s);
				break;
			case EV_STOP:
				read_signal(s);
				break;
			case EV_DEADLINE:
				epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, s->deadline_fd, NULL);
				gt_session_stop(s, GIL_END_DURATION);
				if (s->command_runs)
					gt_info("the time is up; waiting for the command to end");
				break;
			default:
				places[n_places++] = ready[i].data.u64 - EV_EXIT_OF;
			}
		}
		finish_ended(s, places, n_places);
	}
	return 0;
}

/* ---- the whole ---- */

static int open_tracer(struct gt_session *s)
{
	struct gt_tracer_opts opts = s->opts->tracer;
	int err;

	err = gt_targets_reserve(&s->targets, gt_session_is_open_ended(s) ? GT_SESSION_TARGETS : 1);
	if (err)
		return err;
	opts.ring_bytes = s->opts->ring_bytes ? s->opts->ring_bytes : GT_RING_MAX;
	opts.max_targets = (uint32_t)(gt_session_is_open_ended(s) ? s->targets.room : s->targets.n);
	s->follows = s->opts->follow || s->opts->find.all_python;
	opts.follow = s->follows && s->opts->follow != GT_FOLLOW_PROC;
	opts.all_execs = s->opts->find.all_python && s->opts->follow != GT_FOLLOW_PROC;
	err = gt_tracer_open(&opts, &s->targets.recorder.tracer);
	if (!err && s->opts->follow == GT_FOLLOW_BPF &&
	    !gt_tracer_has_news(s->targets.recorder.tracer)) {
		gt_error("--follow=bpf: the programs that follow processes need the kernel's BTF "
			 "(%s); -vv tells more, --follow=proc works without",
			 opts.features->of[GT_FEATURE_BTF].why);
		err = -ENOTSUP;
	}
	return err;
}

/* Attaches to all, then opens all gates: no target is recorded alone while others wait. */
static int start_all(struct gt_session *s)
{
	struct gt_recorder *recorder = &s->targets.recorder;

	recorder->dir_fd = gt_output_dir(s->opts->output_dir);
	if (recorder->dir_fd < 0) {
		gt_targets_worsen(&s->targets, GT_NO_OUTPUT);
		return recorder->dir_fd;
	}
	gt_targets_start_all(&s->targets);
	gt_session_tell_files(s);
	return s->targets.n_open || gt_session_is_open_ended(s) ? 0 : -ESRCH;
}

static void follow_one(void *session, pid_t pid)
{
	struct gt_session *s = session;

	gt_tracer_follow(s->targets.recorder.tracer, pid);
}

static int start_finder(struct gt_session *s)
{
	/* From here on the kernel tells of children; those that have come meanwhile are looked for.
	 */
	if (s->follows) {
		gt_finder_followed(s->finder, follow_one, s);
		while (gt_finder_descend(s->finder))
			gt_finder_followed(s->finder, follow_one, s);
	}
	return gt_finder_start(s->finder,
			       s->follows && !gt_tracer_has_news(s->targets.recorder.tracer));
}

static int start_command(struct gt_session *s)
{
	int err;

	if (!s->opts->command.argv)
		return 0;
	err = gt_command_start(&s->opts->command, &s->command);
	if (err) {
		/* As a shell says it. */
		s->command_status = err == -ENOENT                      ? 127
				    : err == -EACCES || err == -ENOEXEC ? 126
									: -1;
		gt_targets_worsen(&s->targets, GT_FAILED);
		return err;
	}
	s->command_runs = 1;
	if (s->follows) {
		gt_tracer_follow(s->targets.recorder.tracer, gt_command_pid(s->command));
		gt_finder_follow(s->finder, gt_command_pid(s->command));
	}
	return gt_session_watch(s, gt_command_fd(s->command), EV_COMMAND);
}

/*
 * What is not needed from here on: an error in what reads rings and other processes is to have less
 * to do harm with. Late comers need most of it. docs/security.md has the table.
 */
static int give_up_rights(const struct gt_session *s, int command_to_come)
{
	unsigned int keep = GT_CAPS_LOOK | GT_CAPS_MAPS | GT_CAPS_JAIL;
	int err;

	if (gt_session_is_open_ended(s))
		keep |= GT_CAPS_ATTACH | GT_CAPS_FILES;
	if (s->opts->window.flight.window_ns)
		keep |= GT_CAPS_FILES;
	if (gt_session_is_open_ended(s) && gt_tracer_needs_perf(s->targets.recorder.tracer))
		keep |= GT_CAPS_PERF;
	if (s->opts->command.argv)
		keep |= GT_CAPS_SIGNAL;
	if (command_to_come)
		keep |= GT_CAPS_START;
	err = gt_caps_keep(keep);
	if (err)
		gt_error("cannot give up what is not needed any more: %s", strerror(-err));
	return err;
}

/* From the opened gates on. */
static int begin(struct gt_session *s)
{
	struct gil_clock start;
	int err = 0;

	gt_clock_sample(&start);
	for (size_t i = 0; i < s->targets.n; i++)
		if (s->targets.list[i])
			(void)gt_collect_clock(s->targets.list[i]->collector, &start);
	s->start_mono_ns = s->last_clock_mono_ns = s->shown_mono_ns = start.mono_ns;
	s->last_tick_mono_ns = start.mono_ns;
	s->paused_mono_ns = s->opts->paused ? start.mono_ns : 0;
	if (s->opts->duration_ns) {
		err = timer(&s->deadline_fd, s->opts->duration_ns, 0);
		if (!err)
			err = gt_session_watch(s, s->deadline_fd, EV_DEADLINE);
	}
	for (size_t i = 0; i < s->targets.n && !err; i++)
		if (s->targets.list[i])
			(void)gt_recording_begin(s->targets.list[i], &s->targets.recorder, NULL, 0);
	for (size_t i = 0; i < s->targets.n && !err; i++) {
		if (!s->targets.list[i])
			continue;
		/* A look takes some milliseconds, and rings fill meanwhile. */
		gt_targets_collect(&s->targets);
		gt_targets_worsen(
			&s->targets,
			gt_recording_look(s->targets.list[i], &s->targets.recorder, start.mono_ns));
		gt_session_watch_end_of(s, i);
	}
	return err;
}

static void say_what_begins(const struct gt_session *s)
{
	const char *by = gt_tracer_backend(s->targets.recorder.tracer);
	const char *end =
		s->opts->duration_ns || s->command_runs || s->opts->owned ? "" : "; Ctrl-C stops";
	const char *paused = s->paused_mono_ns ? ", paused until it is told to resume" : "";
	size_t n = s->targets.n_open;

	if (s->command_runs && !n)
		gt_info("recording the command by %s%s%s", by, paused, end);
	else
		gt_info("recording %zu process%s%s by %s%s%s", n, n == 1 ? "" : "es",
			s->command_runs               ? ", and the command,"
			: gt_session_is_open_ended(s) ? ", and those that come,"
						      : "",
			by, paused, end);
	if (s->opts->ready_fd >= 0 && write(s->opts->ready_fd, "\n", 1) != 1)
		gt_warn("nobody reads the ready descriptor: %s", strerror(errno));
	if (s->opts->control)
		gt_control_ready(s->opts->control, n, by);
}

static void say_what_was_missed(const struct gt_session *s)
{
	if (!s->opts->command.argv || s->targets.recorded || s->targets.status)
		return;
	if (!s->command_seen)
		gt_warn("recording had ended before the command began: nothing was recorded");
	else
		gt_warn("the command was no Python: nothing was recorded%s",
			s->follows ? "" : "; --follow records its children, too");
}

int gt_session_record(struct gt_session *s)
{
	int err = open_tracer(s);

	if (err) {
		gt_targets_worsen(&s->targets, gt_status_of(err));
		return err;
	}
	err = start_all(s);
	if (err)
		return err;
	err = give_up_rights(s, s->opts->command.argv != NULL);
	if (!err)
		err = prepare_loop(s);
	if (!err)
		err = begin(s);
	if (!err && gt_session_is_open_ended(s))
		err = start_finder(s);
	if (!err) {
		err = start_command(s);
		if (err && !s->command) { /* logged */
			gt_session_stop(s, GIL_END_ERROR);
			return err;
		}
	}
	if (!err)
		err = give_up_rights(s, 0);
	if (!err) {
		say_what_begins(s);
		err = loop(s);
	}
	if (err) {
		gt_error("recording failed: %s", strerror(-err));
		gt_targets_worsen(&s->targets, GT_FAILED);
		gt_session_stop(s, GIL_END_ERROR);
	}
	if (!s->end_mono_ns)
		s->end_mono_ns = gt_mono_ns();
	gt_finder_stop(s->finder);
	if (gt_finder_failed(s->finder))
		gt_targets_worsen(&s->targets, GT_FAILED);
	gt_status("%s", "");
	say_what_was_missed(s);
	return err;
}

size_t gt_session_targets(const struct gt_session *s)
{
	return s->targets.n;
}

const struct gt_recording *gt_session_recording(const struct gt_session *s, size_t i)
{
	return s->targets.list[i];
}

enum gt_status gt_session_status(const struct gt_session *s)
{
	return s->targets.status;
}

int gt_session_command_status(const struct gt_session *s)
{
	return s->command_status;
}

void gt_session_close(struct gt_session *s)
{
	if (!s)
		return;
	gt_command_free(s->command);
	gt_tracer_close(s->targets.recorder.tracer);
	gt_targets_free(&s->targets);
	gt_finder_close(s->finder);
	const int fds[] = {s->targets.recorder.dir_fd, s->epoll_fd, s->tick_fd, s->deadline_fd};
	for (size_t i = 0; i < GT_ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(s);
}
