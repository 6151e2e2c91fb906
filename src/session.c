// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "clock.h"
#include "log.h"
#include "output.h"

#define TICK_NS   100000000ull  /* how often rings below the wake-up threshold are read */
#define SECOND_NS 1000000000ull /* clock samples; also the age at which a block is sealed */

/* What an epoll event is about; a target's exit carries EXIT_OF + its index. */
enum { EV_STOP, EV_TICK, EV_DEADLINE, EV_RINGS, EV_EXIT_OF };

struct gt_session {
	const struct gt_session_opts *opts;
	struct gt_pycache *cache;
	struct gt_recorder recorder;
	struct gt_recording *targets;
	size_t n;
	size_t n_open; /* targets that are still being recorded */
	enum gt_status status;
	int epoll_fd, tick_fd, deadline_fd;
	uint64_t start_mono_ns, last_clock_mono_ns;
	uint64_t shown_mono_ns, shown_events; /* by the last status line */
};

static void worsen(struct gt_session *s, enum gt_status status)
{
	if (status > s->status)
		s->status = status;
}

static int is_target(const struct gt_session *s, pid_t pid)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->targets[i].proc.pid == pid)
			return 1;
	return 0;
}

int gt_session_open(const struct gt_session_opts *opts, struct gt_session **out)
{
	struct gt_session *s = calloc(1, sizeof(*s));
	int err = -ENOMEM;

	if (!s) {
		gt_error("out of memory");
		return -ENOMEM;
	}
	s->opts = opts;
	s->recorder = (struct gt_recorder){
		.dir_fd = -1, .dir = opts->output_dir, .ring_bytes = opts->tracer.ring_bytes};
	s->epoll_fd = s->tick_fd = s->deadline_fd = -1;
	*out = s;
	s->targets = calloc(opts->n_pids, sizeof(*s->targets));
	s->cache = gt_pycache_new(opts->probe_mode, opts->deep ? GT_SYMRES_DEEP : 0);
	if (s->targets && s->cache) {
		err = 0;
		for (size_t i = 0; i < opts->n_pids; i++) {
			int ret;

			if (is_target(s, opts->pids[i]))
				continue;
			ret = gt_recording_open(&s->targets[s->n], opts->pids[i], s->cache);
			if (ret) {
				worsen(s, gt_status_of(ret));
				err = ret;
			} else {
				s->n++;
			}
		}
	} else {
		gt_error("out of memory");
		worsen(s, GT_FAILED);
	}
	return s->n ? 0 : err;
}

/* While probes are removed, which may take seconds: the other files must not fall behind. */
static void keep_collecting(void *session)
{
	struct gt_session *s = session;
	uint64_t mono_ns = gt_mono_ns();

	for (size_t i = 0; i < s->n; i++) {
		if (!s->targets[i].collector)
			continue;
		worsen(s, gt_recording_drain(&s->targets[i], &s->recorder));
		/* A failed write is remembered, and asked for at the next tick or at the end. */
		(void)gt_collect_tick(s->targets[i].collector, mono_ns);
	}
}

static void detach(struct gt_session *s, struct gt_recording *const *which, size_t n)
{
	gt_autofree uint32_t *slots = calloc(n, sizeof(*slots));

	for (size_t i = 0; i < n; i++) {
		if (slots)
			slots[i] = which[i]->slot;
		else
			gt_tracer_detach(s->recorder.tracer, &which[i]->slot, 1, keep_collecting,
					 s);
	}
	if (slots)
		gt_tracer_detach(s->recorder.tracer, slots, n, keep_collecting, s);
}

/*
 * Ends the recording of n > 0 targets at once: gates, files, probes. The files come first because
 * the removal of probes may take seconds.
 */
static void finish(struct gt_session *s, struct gt_recording *const *which, size_t n,
		   enum gil_end_reason reason)
{
	struct gil_clock stop;

	for (size_t i = 0; i < n; i++)
		gt_tracer_gate(s->recorder.tracer, which[i]->slot, 0);
	gt_clock_sample(&stop);
	for (size_t i = 0; i < n; i++)
		(void)gt_collect_clock(which[i]->collector, &stop);
	if (gt_tracer_settle(s->recorder.tracer, which[0]->slot))
		detach(s, which, n);
	for (size_t i = 0; i < n; i++) {
		worsen(s, gt_recording_finish(which[i], &s->recorder, reason, stop.mono_ns));
		s->n_open--;
	}
	gt_status("removing probes from %zu process%s", n, n == 1 ? "" : "es");
	detach(s, which, n);
	for (size_t i = 0; i < n; i++)
		gt_tracer_drop(s->recorder.tracer, which[i]->slot);
}

static void finish_one(struct gt_session *s, struct gt_recording *t, enum gil_end_reason reason)
{
	finish(s, &t, 1, reason);
}

static void finish_all(struct gt_session *s, enum gil_end_reason reason)
{
	gt_autofree struct gt_recording **open =
		calloc(s->n_open ? s->n_open : 1, sizeof(struct gt_recording *));
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		struct gt_recording *t = &s->targets[i];

		if (!t->collector)
			continue;
		if (open)
			open[n++] = t;
		else
			finish_one(s, t, reason);
	}
	if (n)
		finish(s, open, n, reason);
}

static int watch(struct gt_session *s, int fd, uint64_t what)
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
		err = watch(s, s->tick_fd, EV_TICK);
	if (!err)
		err = watch(s, s->opts->stop_fd, EV_STOP);
	if (!err)
		err = watch(s, gt_tracer_epoll_fd(s->recorder.tracer), EV_RINGS);
	for (size_t i = 0; i < s->n && !err; i++)
		if (s->targets[i].collector)
			err = watch(s, s->targets[i].proc.pidfd, EV_EXIT_OF + i);
	return err;
}

static void show_status(struct gt_session *s, uint64_t mono_ns)
{
	uint64_t events = 0, lost = 0, since_ns = mono_ns - s->shown_mono_ns;
	uint64_t tenths = (mono_ns - s->start_mono_ns) / (SECOND_NS / 10);
	uint64_t all = s->opts->duration_ns / (SECOND_NS / 10);
	char end[40] = "";

	for (size_t i = 0; i < s->n; i++) {
		struct gt_recording *t = &s->targets[i];
		struct gt_collect_stats stats = t->stats;
		uint64_t gap_begin_ns;

		if (t->collector)
			gt_collect_stats(t->collector,
					 gt_tracer_lost(s->recorder.tracer, t->slot, &gap_begin_ns),
					 &stats);
		events += stats.events;
		lost += stats.lost + stats.unwritten;
	}
	if (all)
		snprintf(end, sizeof(end), " of %llu.%llu", (unsigned long long)all / 10,
			 (unsigned long long)all % 10);
	gt_status("%llu.%llu%s s  %llu events/s  %llu events  %llu lost  (Ctrl-C stops)",
		  (unsigned long long)tenths / 10, (unsigned long long)tenths % 10, end,
		  (unsigned long long)((events - s->shown_events) * 1000 /
				       (since_ns / 1000000 ? since_ns / 1000000 : 1)),
		  (unsigned long long)events, (unsigned long long)lost);
	s->shown_events = events;
	s->shown_mono_ns = mono_ns;
}

static void tick(struct gt_session *s)
{
	uint64_t mono_ns = gt_mono_ns(), expirations;
	int sample = mono_ns - s->last_clock_mono_ns >= SECOND_NS;
	struct gil_clock now;

	(void)!read(s->tick_fd, &expirations, sizeof(expirations));
	if (sample)
		gt_clock_sample(&now);
	for (size_t i = 0; i < s->n; i++) {
		struct gt_recording *t = &s->targets[i];

		if (!t->collector)
			continue;
		worsen(s, gt_recording_drain(t, &s->recorder));
		if (sample) {
			(void)gt_collect_clock(t->collector, &now);
			gt_recording_second(t);
		}
		if (gt_collect_tick(t->collector, mono_ns)) {
			finish_one(s, t, GIL_END_ERROR);
		} else if (gt_proc_executed(&t->proc)) {
			gt_warn("process %d has executed another program; its recording ends here",
				t->proc.pid);
			finish_one(s, t, GIL_END_EXEC);
		}
	}
	if (sample)
		s->last_clock_mono_ns = mono_ns;
	if (mono_ns - s->shown_mono_ns >= SECOND_NS / 2)
		show_status(s, mono_ns);
}

static void read_rings(struct gt_session *s)
{
	struct epoll_event ready[32];
	int n = epoll_wait(gt_tracer_epoll_fd(s->recorder.tracer), ready, GT_ARRAY_SIZE(ready), 0);

	for (int i = 0; i < n; i++)
		for (size_t k = 0; k < s->n; k++)
			if (s->targets[k].collector && s->targets[k].slot == ready[i].data.u32)
				worsen(s, gt_recording_drain(&s->targets[k], &s->recorder));
}

/* Runs until nothing is left to record. */
static int loop(struct gt_session *s)
{
	while (s->n_open) {
		struct epoll_event ready[64];
		struct gt_recording *ended[GT_ARRAY_SIZE(ready)];
		size_t n_ended = 0, n_left = 0;
		int n = epoll_wait(s->epoll_fd, ready, GT_ARRAY_SIZE(ready), -1);

		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n; i++) {
			uint64_t what = ready[i].data.u64;

			if (what == EV_TICK) {
				tick(s);
			} else if (what == EV_RINGS) {
				read_rings(s);
			} else if (what == EV_STOP) {
				finish_all(s, GIL_END_STOPPED);
			} else if (what == EV_DEADLINE) {
				finish_all(s, GIL_END_DURATION);
			} else {
				struct gt_recording *t = &s->targets[what - EV_EXIT_OF];

				epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, t->proc.pidfd, NULL);
				ended[n_ended++] = t;
			}
		}
		/* Together: each removal of probes waits for a grace period. */
		for (size_t i = 0; i < n_ended; i++)
			if (ended[i]->collector)
				ended[n_left++] = ended[i];
		if (n_left)
			finish(s, ended, n_left, GIL_END_TARGET_EXIT);
	}
	return 0;
}

/* Attaches to all, then opens all gates: no target is recorded alone while others wait. */
static int start_all(struct gt_session *s)
{
	s->recorder.dir_fd = gt_output_dir(s->opts->output_dir);
	if (s->recorder.dir_fd < 0) {
		worsen(s, GT_NO_OUTPUT);
		return s->recorder.dir_fd;
	}
	for (size_t i = 0; i < s->n; i++) {
		enum gt_status status = gt_recording_start(&s->targets[i], &s->recorder);

		worsen(s, status);
		if (!status)
			s->n_open++;
	}
	return s->n_open ? 0 : -ESRCH;
}

int gt_session_record(struct gt_session *s)
{
	struct gt_tracer_opts opts = s->opts->tracer;
	struct gil_clock start;
	int err;

	opts.max_targets = (uint32_t)s->n;
	err = gt_tracer_open(&opts, &s->recorder.tracer);
	if (err) {
		worsen(s, gt_status_of(err));
		return err;
	}
	err = start_all(s);
	if (err)
		return err;
	err = prepare_loop(s);
	gt_clock_sample(&start);
	for (size_t i = 0; i < s->n && !err; i++)
		if (s->targets[i].collector)
			(void)gt_collect_clock(s->targets[i].collector, &start);
	s->start_mono_ns = s->last_clock_mono_ns = s->shown_mono_ns = start.mono_ns;
	if (!err && s->opts->duration_ns) {
		err = timer(&s->deadline_fd, s->opts->duration_ns, 0);
		if (!err)
			err = watch(s, s->deadline_fd, EV_DEADLINE);
	}
	for (size_t i = 0; i < s->n && !err; i++)
		if (s->targets[i].collector)
			gt_tracer_gate(s->recorder.tracer, s->targets[i].slot, 1);
	for (size_t i = 0; i < s->n && !err; i++)
		if (s->targets[i].collector) {
			/* A look takes some milliseconds, and rings fill meanwhile. */
			keep_collecting(s);
			worsen(s, gt_recording_look(&s->targets[i], &s->recorder, start.mono_ns));
		}
	if (!err) {
		gt_info("recording %zu process%s by %s%s", s->n_open, s->n_open == 1 ? "" : "es",
			gt_tracer_backend(s->recorder.tracer),
			s->opts->duration_ns ? "" : "; Ctrl-C stops");
		if (s->opts->ready_fd >= 0 && write(s->opts->ready_fd, "\n", 1) != 1)
			gt_warn("nobody reads the ready descriptor: %s", strerror(errno));
		err = loop(s);
	}
	if (err) {
		gt_error("recording failed: %s", strerror(-err));
		worsen(s, GT_FAILED);
		finish_all(s, GIL_END_ERROR);
	}
	gt_status("%s", "");
	return err;
}

size_t gt_session_targets(const struct gt_session *s)
{
	return s->n;
}

const struct gt_recording *gt_session_recording(const struct gt_session *s, size_t i)
{
	return &s->targets[i];
}

enum gt_status gt_session_status(const struct gt_session *s)
{
	return s->status;
}

void gt_session_close(struct gt_session *s)
{
	if (!s)
		return;
	gt_tracer_close(s->recorder.tracer);
	for (size_t i = 0; i < s->n; i++)
		gt_recording_close(&s->targets[i]);
	free(s->targets);
	gt_pycache_free(s->cache);
	const int fds[] = {s->recorder.dir_fd, s->epoll_fd, s->tick_fd, s->deadline_fd};
	for (size_t i = 0; i < GT_ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(s);
}
