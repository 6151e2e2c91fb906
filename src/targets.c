// SPDX-License-Identifier: Apache-2.0
#include "targets.h"

#include <pthread.h>

#include "clock.h"
#include "log.h"

#define STARTERS   16  /* threads */
#define LATE_SHARE 128 /* how many may still come */

void gt_targets_worsen(struct gt_targets *t, enum gt_status status)
{
	if (status > t->status)
		t->status = status;
}

/* ---- places ---- */

int gt_targets_reserve(struct gt_targets *t, size_t n)
{
	struct gt_recording **more;

	if (n <= t->room)
		return 0;
	more = reallocarray(t->list, n, sizeof(struct gt_recording *));
	if (!more) {
		gt_error("out of memory");
		return -ENOMEM;
	}
	t->list = more;
	t->room = n;
	return 0;
}

static void say_refused(struct gt_targets *t, const struct gt_recording *r, const char *why)
{
	if (!t->refused++)
		gt_error("process %d: %s; it is left out, and so are those that follow",
			 r->proc.pid, why);
	gt_targets_worsen(t, GT_FAILED);
}

ssize_t gt_targets_put(struct gt_targets *t, struct gt_recording *r)
{
	size_t i = 0;

	while (i < t->n && t->list[i])
		i++;
	if (i == t->room) {
		int err = t->full || i >= GT_TRACER_SLOTS_MAX
				  ? -ENOSPC
				  : gt_targets_reserve(t, i ? 2 * i : 64);

		if (err) {
			say_refused(t, r,
				    "there are too many processes to be recorded at one time");
			gt_recording_close(r);
			return err;
		}
	}
	t->list[i] = r;
	if (i == t->n)
		t->n++;
	return (ssize_t)i;
}

struct gt_recording *gt_targets_of(const struct gt_targets *t, pid_t pid)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->list[i] && t->list[i]->proc.pid == pid)
			return t->list[i];
	return NULL;
}

struct gt_recording *gt_targets_at(const struct gt_targets *t, uint32_t slot)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->list[i] && t->list[i]->collector && t->list[i]->slot == slot)
			return t->list[i];
	return NULL;
}

static void take_out(struct gt_targets *t, const struct gt_recording *r)
{
	size_t i = 0;

	while (t->list[i] != r)
		i++;
	t->list[i] = NULL;
}

void gt_targets_let_go(struct gt_targets *t, struct gt_recording *r)
{
	take_out(t, r);
	t->ended(t->ctx, r);
	gt_recording_close(r);
}

void gt_targets_free(struct gt_targets *t)
{
	if (t->refused > 1)
		gt_error("%u processes were left out in all", t->refused);
	for (size_t i = 0; i < t->n; i++)
		gt_recording_close(t->list[i]);
	free(t->list);
}

/* ---- start ---- */

/*
 * Size of the rings when n more are to come now. Where later ones may come, half is kept for them,
 * and each of those takes a small share of what is left. 0: the memory for rings is used up.
 */
static uint32_t ring_for(const struct gt_targets *t, size_t n, int late)
{
	uint64_t left = t->ring_memory > t->rings ? t->ring_memory - t->rings : 0;
	uint64_t share = late ? left / LATE_SHARE : left / n / (t->open_ended ? 2 : 1);
	uint32_t size = GT_RING_MAX;

	while (size > GT_RING_MIN && size > share)
		size /= 2;
	if (t->ring_bytes)
		size = t->ring_bytes;
	size = gt_tracer_ring_bytes(t->recorder.tracer, size);
	return (uint64_t)size * n > left ? 0 : size;
}

static void started(struct gt_targets *t, uint32_t ring_bytes)
{
	t->n_open++;
	t->recorded++;
	t->rings += ring_bytes;
}

/* Has what was to be recorded ended, or become another program, before that? */
static int has_vanished(const struct gt_recording *r)
{
	return r->unnamed &&
	       (gt_proc_memory_gone(&r->proc) || !gt_proc_has_map(&r->proc, &r->py.python[0].map));
}

static enum gt_status start(struct gt_targets *t, struct gt_recording *r, uint32_t ring_bytes)
{
	enum gt_status status;
	int vanished, another;

	gt_log_hold();
	status = gt_recording_start(r, &t->recorder, ring_bytes);
	vanished = has_vanished(r);
	/* Attached, but to another program than was looked at. */
	another = !status && (vanished || gt_proc_memory_gone(&r->proc));
	if (another)
		gt_recording_abandon(r, &t->recorder);
	if (another && !vanished)
		gt_error("process %d has ended or executed another program meanwhile", r->proc.pid);
	gt_log_release(!vanished);
	return vanished || another ? GT_NO_TARGET : status;
}

struct starting {
	struct gt_targets *targets;
	uint32_t ring_bytes;
	size_t next;            /* place; taken by the threads one after the other */
	enum gt_status *status; /* by place */
};

static void *start_some(void *ctx)
{
	struct starting *s = ctx;
	struct gt_targets *t = s->targets;
	size_t i;

	while ((i = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED)) < t->n)
		if (t->list[i])
			s->status[i] = start(t, t->list[i], s->ring_bytes);
	return NULL;
}

void gt_targets_start_all(struct gt_targets *t)
{
	gt_autofree enum gt_status *status = calloc(t->n ? t->n : 1, sizeof(*status));
	struct starting s = {.targets = t, .status = status};
	pthread_t thread[STARTERS];
	size_t running = 0;

	t->full = 1;
	if (!t->n)
		return;
	s.ring_bytes = ring_for(t, t->n, 0);
	if (!status || !s.ring_bytes) {
		if (!s.ring_bytes)
			gt_error("the rings of %zu processes need more memory than %llu MiB: "
				 "--ring-memory gives more",
				 t->n, (unsigned long long)t->ring_memory >> 20);
		else
			gt_error("out of memory");
		gt_targets_worsen(t, GT_FAILED);
		for (size_t i = 0; i < t->n; i++)
			gt_targets_let_go(t, t->list[i]);
		return;
	}
	while (running + 1 < t->n && running < STARTERS &&
	       !pthread_create(&thread[running], NULL, start_some, &s))
		running++;
	start_some(&s);
	while (running)
		pthread_join(thread[--running], NULL);
	for (size_t i = 0; i < t->n; i++) {
		if (status[i] != GT_NO_TARGET || !t->list[i]->unnamed)
			gt_targets_worsen(t, status[i]);
		if (status[i])
			gt_targets_let_go(t, t->list[i]);
		else
			started(t, s.ring_bytes);
	}
}

enum gt_status gt_targets_start(struct gt_targets *t, struct gt_recording *r)
{
	uint32_t ring_bytes = ring_for(t, 1, 1);
	enum gt_status status;

	if (!ring_bytes) {
		say_refused(t, r,
			    "there is no memory left for its ring (--ring-memory gives more)");
		return GT_FAILED;
	}
	status = start(t, r, ring_bytes);
	if (!status)
		started(t, ring_bytes);
	return status;
}

/* ---- on the way ---- */

void gt_targets_drain(void *ctx)
{
	struct gt_targets *t = ctx;

	for (size_t i = 0; i < t->n; i++)
		if (t->list[i] && t->list[i]->collector)
			gt_targets_worsen(t, gt_recording_drain(t->list[i], &t->recorder));
}

void gt_targets_collect(void *ctx)
{
	struct gt_targets *t = ctx;
	uint64_t mono_ns = gt_mono_ns();

	for (size_t i = 0; i < t->n; i++) {
		struct gt_recording *r = t->list[i];

		if (!r || !r->collector)
			continue;
		gt_targets_worsen(t, gt_recording_drain(r, &t->recorder));
		/* A failed write is remembered, and asked for at the next tick or at the end. */
		(void)gt_collect_tick(r->collector, mono_ns);
	}
}

/* What is in memory, and in the files that were made of it. */
static void sum_window(const struct gt_window *w, struct gt_progress *out)
{
	struct gt_flight_stats kept;

	gt_flight_stats(w->flight, &kept);
	out->files += w->files;
	out->bytes += w->bytes;
	out->kept_events += kept.records;
	out->kept_bytes += kept.bytes;
	if (kept.span_ns > out->kept_ns)
		out->kept_ns = kept.span_ns;
}

void gt_targets_sum(const struct gt_targets *t, struct gt_progress *out)
{
	out->events += t->ended_events;
	out->lost += t->ended_lost;
	out->bytes += t->ended_bytes;
	out->files += t->ended_files;
	out->processes += t->n_open;
	out->ring = t->recorder.window != NULL;
	for (size_t i = 0; i < t->n; i++) {
		const struct gt_recording *r = t->list[i];
		struct gt_collect_stats stats;
		uint64_t gap_begin_ns;

		if (!r || !r->collector)
			continue;
		gt_collect_stats(r->collector,
				 gt_tracer_lost(t->recorder.tracer, r->slot, &gap_begin_ns),
				 &stats);
		out->events += stats.events;
		out->lost += stats.lost + stats.unwritten;
		out->bytes += stats.bytes;
		if (r->window)
			sum_window(r->window, out);
	}
}

/* ---- what is asked for on the way ---- */

void gt_targets_pause(struct gt_targets *t)
{
	const struct gt_recording *any = NULL;
	int err;

	if (t->recorder.paused)
		return;
	t->recorder.paused = 1;
	for (size_t i = 0; i < t->n; i++) {
		if (!t->list[i] || !t->list[i]->collector)
			continue;
		gt_recording_pause(t->list[i], &t->recorder);
		any = t->list[i];
	}
	err = any ? gt_tracer_wait(t->recorder.tracer, any->slot) : 0;
	if (err)
		gt_warn("cannot wait for the last events before the pause: %s", strerror(-err));
	for (size_t i = 0; i < t->n; i++) {
		struct gt_recording *r = t->list[i];

		if (!r || !r->collector)
			continue;
		gt_targets_worsen(t, gt_recording_drain(r, &t->recorder));
		/* So that names of new threads, too, have a time before the pause. */
		(void)gt_collect_tick(r->collector, r->paused_mono_ns);
	}
}

void gt_targets_resume(struct gt_targets *t)
{
	struct gil_clock now;

	t->recorder.paused = 0;
	gt_clock_sample(&now);
	for (size_t i = 0; i < t->n; i++)
		if (t->list[i] && t->list[i]->collector)
			gt_targets_worsen(t, gt_recording_resume(t->list[i], &t->recorder, &now));
}

size_t gt_targets_mark(struct gt_targets *t, const struct gt_request *rq)
{
	uint64_t mono_ns = rq->mono_ns ? rq->mono_ns : gt_mono_ns();
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		struct gt_recording *r = t->list[i];

		if (!r || !r->collector)
			continue;
		/* Who has set it may be new, or have ended: the ring tells. */
		gt_targets_worsen(t, gt_recording_drain(r, &t->recorder));
		gt_collect_mark(r->collector, mono_ns, r->proc.pid == rq->from ? rq->ns_tid : 0,
				rq->name);
		n++;
	}
	return n;
}

size_t gt_targets_dump(struct gt_targets *t, enum gt_window_trigger trigger)
{
	size_t failed = 0;

	for (size_t i = 0; i < t->n && t->recorder.window; i++) {
		struct gt_recording *r = t->list[i];

		if (!r || !r->collector)
			continue;
		if (gt_window_write(r, &t->recorder, trigger))
			failed++;
		else
			t->dumped(t->ctx, r);
	}
	if (failed)
		gt_targets_worsen(t, GT_NO_OUTPUT);
	return failed;
}

void gt_targets_watch(struct gt_targets *t, struct gt_recording *r, uint64_t mono_ns)
{
	int n = gt_window_tick(r, &t->recorder, mono_ns);

	if (n < 0)
		gt_targets_worsen(t, GT_NO_OUTPUT);
	else if (n)
		t->dumped(t->ctx, r);
}

/* ---- finish ---- */

static void while_removing(void *ctx)
{
	struct gt_targets *t = ctx;

	gt_targets_collect(t);
	t->removing(t->ctx);
}

static void detach(struct gt_targets *t, struct gt_recording *const *which, size_t n)
{
	gt_autofree uint32_t *slots = calloc(n, sizeof(*slots));

	for (size_t i = 0; i < n; i++) {
		if (slots)
			slots[i] = which[i]->slot;
		else
			gt_tracer_detach(t->recorder.tracer, &which[i]->slot, 1, while_removing, t);
	}
	if (slots)
		gt_tracer_detach(t->recorder.tracer, slots, n, while_removing, t);
}

static void finish_file(struct gt_targets *t, struct gt_recording *r, enum gil_end_reason reason,
			uint64_t stop_mono_ns)
{
	gt_targets_worsen(t, gt_recording_finish(r, &t->recorder, reason, stop_mono_ns));
	t->n_open--;
	t->rings -= r->ring_bytes;
	t->ended_events += r->stats.events;
	t->ended_lost += r->stats.lost + r->stats.unwritten;
	t->ended_bytes += r->window ? r->window->bytes : r->stats.bytes;
	t->ended_files += r->window ? r->window->files : 1;
	t->complete(t->ctx, r);
}

void gt_targets_finish(struct gt_targets *t, struct gt_recording *const *which, size_t n,
		       enum gil_end_reason reason)
{
	int gone = reason == GIL_END_TARGET_EXIT || reason == GIL_END_EXEC;
	struct gt_tracer *tracer = t->recorder.tracer;
	struct gil_clock stop;

	for (size_t i = 0; i < n; i++)
		gt_tracer_gate(tracer, which[i]->slot, 0);
	gt_clock_sample(&stop);
	for (size_t i = 0; i < n; i++)
		(void)gt_collect_clock(which[i]->collector, &stop);
	if (!gone && gt_tracer_settle(tracer, which[0]->slot))
		detach(t, which, n);
	for (size_t i = 0; i < n; i++)
		finish_file(t, which[i], reason, stop.mono_ns);
	if (!gone) {
		gt_status("removing probes from %zu process%s", n, n == 1 ? "" : "es");
		detach(t, which, n);
	}
	for (size_t i = 0; i < n; i++) {
		gt_tracer_drop(tracer, which[i]->slot);
		gt_targets_let_go(t, which[i]);
	}
}

void gt_targets_finish_gone(struct gt_targets *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct gt_recording *r = t->list[i];

		if (!r || !r->collector)
			continue;
		if (gt_proc_executed(&r->proc))
			gt_targets_finish(t, &r, 1, GIL_END_EXEC);
		else if (gt_proc_memory_gone(&r->proc) || gt_proc_ended(&r->proc))
			gt_targets_finish(t, &r, 1, GIL_END_TARGET_EXIT);
	}
}

void gt_targets_finish_all(struct gt_targets *t, enum gil_end_reason reason)
{
	gt_autofree struct gt_recording **open =
		calloc(t->n_open ? t->n_open : 1, sizeof(struct gt_recording *));
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		struct gt_recording *r = t->list[i];

		if (!r || !r->collector)
			continue;
		if (open)
			open[n++] = r;
		else
			gt_targets_finish(t, &r, 1, reason);
	}
	if (n)
		gt_targets_finish(t, open, n, reason);
}
