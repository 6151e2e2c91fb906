// SPDX-License-Identifier: Apache-2.0
#include "window.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "clock.h"
#include "log.h"
#include "output.h"
#include "recording.h"

#define RETRY_NS 1000000000ull /* after a file that could not be written */

int gt_window_open(struct gt_recording *r, const struct gt_window_opts *opts,
		   struct gt_gilfile **file)
{
	struct gt_window *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	w->flight = gt_flight_new(&opts->flight);
	err = w->flight ? gt_gilfile_create_kept(gt_flight_keep, w->flight, file) : -ENOMEM;
	if (err) {
		gt_window_free(w);
		return err;
	}
	r->window = w;
	return 0;
}

void gt_window_free(struct gt_window *w)
{
	if (!w)
		return;
	gt_flight_free(w->flight);
	free(w);
}

/* ---- a file ---- */

static const char *name_of(enum gt_window_trigger trigger)
{
	static const char *const names[] = {
		[GT_WINDOW_HOLD] = "hold",     [GT_WINDOW_WAIT] = "wait",
		[GT_WINDOW_SIGNAL] = "signal", [GT_WINDOW_REQUEST] = "request",
		[GT_WINDOW_END] = "end",
	};

	return names[trigger];
}

/* Its descriptor stays open where somebody wants to read it in the end. */
static int create(struct gt_recording *r, const struct gt_recorder *rec, struct gt_gilfile **out)
{
	int kept = -1, fd, err;

	/* That there is an earlier file of the process is no news but for the first. */
	gt_log_hold();
	fd = gt_output_file(rec->dir_fd, rec->dir, r->proc.pid, r->rank.rank, r->file,
			    sizeof(r->file));
	gt_log_release(fd < 0 || !r->window->files);
	if (fd < 0) {
		r->file[0] = '\0';
		return fd;
	}
	if (rec->keep_files)
		kept = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	err = gt_gilfile_create(fd, out);
	gt_recording_keep_file(r, kept);
	return err;
}

static void say_error(const struct gt_recording *r, const struct gt_recorder *rec, int err,
		      int is_last)
{
	gt_error("cannot write %s/%s: %s; %s", rec->dir, r->file, strerror(-err),
		 is_last ? "what was in memory and is not in this file is gone"
			 : "it was removed, what is in memory stays there, and the next trigger "
			   "tries again");
}

/* r->file: its name, or empty if there is none. */
static int write_file(struct gt_recording *r, const struct gt_recorder *rec,
		      struct gt_flight_cut *cut)
{
	int is_last = cut->reason != GIL_END_WINDOW, err;
	struct gt_window *w = r->window;
	struct gt_flight_written now;
	struct gt_gilfile *out = NULL;
	char before[GT_FILE_NAME_MAX];

	memcpy(before, r->file, sizeof(before));
	r->file[0] = '\0';
	cut->suppressed = w->unsaid;
	cut->meanwhile = rec->meanwhile;
	cut->ctx = rec->ctx;
	err = create(r, rec, &out);
	if (!err)
		err = gt_flight_write(w->flight, out, cut, &now);
	if (err && r->file[0])
		say_error(r, rec, err, is_last);
	if (err && r->file[0] && (!is_last || !out))
		unlinkat(rec->dir_fd, r->file, 0);
	if (err && (!is_last || !out))
		memcpy(r->file, before, sizeof(before));
	if (err)
		return err;
	w->files++;
	w->bytes += now.bytes;
	w->latest = now;
	w->unsaid = 0;
	return 0;
}

static void say_written(const struct gt_recording *r, const struct gt_recorder *rec,
			const char *why, uint64_t suppressed)
{
	const struct gt_flight_written *now = &r->window->latest;
	char left_out[80] = "";

	if (suppressed)
		snprintf(left_out, sizeof(left_out), "; %" PRIu64 " more since the last file",
			 suppressed);
	gt_info("process %d: %s: the last %" PRIu64 ".%" PRIu64 " s, %" PRIu64 " events, %" PRIu64
		" lost, are in %s/%s%s",
		r->proc.pid, why, now->span_ns / 1000000000, now->span_ns / 100000000 % 10,
		now->events, now->lost, rec->dir, r->file, left_out);
}

/* While it goes on. */
static int write_now(struct gt_recording *r, const struct gt_recorder *rec,
		     enum gt_window_trigger trigger, const struct gt_stretch *exceeded,
		     const char *why)
{
	struct gt_flight_cut cut = {
		.trigger = name_of(trigger), .reason = GIL_END_WINDOW, .exceeded = exceeded};
	const uint64_t suppressed = r->window->unsaid;
	struct gil_clock now;
	uint64_t lost;
	int err;

	(void)gt_collect_seal(r->collector); /* an error is remembered, and met at the tick */
	gt_clock_sample(&now);
	lost = gt_tracer_lost(rec->tracer, r->slot, &cut.gap_begin_ns);
	cut.untold = gt_collect_untold(r->collector, lost);
	cut.paused_ns = r->paused_mono_ns;
	cut.end_ns = now.mono_ns;
	cut.clock = &now;
	err = write_file(r, rec, &cut);
	if (!err)
		say_written(r, rec, why, suppressed);
	return err;
}

int gt_window_write(struct gt_recording *r, const struct gt_recorder *rec,
		    enum gt_window_trigger trigger)
{
	if (gt_recording_drain(r, rec))
		return -EIO;
	return write_now(r, rec, trigger, NULL, name_of(trigger));
}

/* What has not been told by a record is, as the collector has finished; so is the clock. */
int gt_window_finish(struct gt_recording *r, const struct gt_recorder *rec,
		     enum gil_end_reason reason, uint64_t stop_mono_ns)
{
	struct gt_flight_cut cut = {
		.trigger = name_of(GT_WINDOW_END), .reason = reason, .end_ns = stop_mono_ns};
	int err = write_file(r, rec, &cut);

	r->window->ended = !err;
	return err;
}

/* ---- limits ---- */

static void suppress(struct gt_recording *r, const struct gt_window_opts *opts, size_t n)
{
	struct gt_window *w = r->window;

	w->suppressed += n;
	w->unsaid += n;
	if (w->by_limits < opts->files || w->full_said)
		return;
	w->full_said = 1;
	gt_warn("process %d: a limit was exceeded again, but %" PRIu32
		" files were written for that already (--ring-files); from now on it is counted "
		"only",
		r->proc.pid, w->by_limits);
}

static int on_exceeded(struct gt_recording *r, const struct gt_recorder *rec,
		       const struct gt_stretch *s, uint64_t mono_ns)
{
	const uint64_t ns = s->end_ns - s->begin_ns;
	struct gt_window *w = r->window;
	char why[96];
	int err;

	snprintf(why, sizeof(why), "thread %" PRIu32 " %s the GIL for %" PRIu64 ".%" PRIu64 " ms",
		 s->tid, s->is_wait ? "waited for" : "held", ns / 1000000, ns / 100000 % 10);
	err = write_now(r, rec, s->is_wait ? GT_WINDOW_WAIT : GT_WINDOW_HOLD, s, why);
	w->limits_ns = mono_ns + (err ? RETRY_NS : rec->window->flight.window_ns);
	w->by_limits += !err;
	return err;
}

static void say_squeezed(struct gt_recording *r, const struct gt_window_opts *opts)
{
	struct gt_flight_stats now;

	gt_flight_stats(r->window->flight, &now);
	if (!now.squeezed)
		return;
	r->window->squeezed_said = 1;
	gt_warn("process %d: its events of %" PRIu64 " s do not fit into %" PRIu64
		" MiB (--window-memory): the window is shorter, %" PRIu64 ".%" PRIu64 " s now",
		r->proc.pid, opts->flight.window_ns / 1000000000, opts->flight.memory >> 20,
		now.span_ns / 1000000000, now.span_ns / 100000000 % 10);
}

int gt_window_tick(struct gt_recording *r, const struct gt_recorder *rec, uint64_t mono_ns)
{
	const struct gt_window_opts *opts = rec->window;
	struct gt_window *w = r->window;
	struct gt_stretch first;
	size_t n;
	int err;

	/* So that limits see what has come, and that what a block holds is of about one age. */
	if (!r->paused_mono_ns)
		(void)gt_collect_seal(r->collector);
	n = gt_flight_tick(w->flight, r->paused_mono_ns ? r->paused_mono_ns : mono_ns, &first);
	if (!w->squeezed_said)
		say_squeezed(r, opts);
	if (!n)
		return 0;
	if (w->by_limits >= opts->files || mono_ns < w->limits_ns) {
		suppress(r, opts, n);
		return 0;
	}
	if (n > 1)
		suppress(r, opts, n - 1);
	err = on_exceeded(r, rec, &first, mono_ns);
	return err ? err : 1;
}
