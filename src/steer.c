// SPDX-License-Identifier: Apache-2.0
#include "session_private.h"

#include <limits.h>
#include <stdio.h>

#include "clock.h"
#include "log.h"

/* ---- how it goes ---- */

void gt_session_progress(const struct gt_session *s, struct gt_progress *out)
{
	uint64_t now = s->end_mono_ns ? s->end_mono_ns : gt_mono_ns();

	*out = (struct gt_progress){.marks = s->marks};
	gt_targets_sum(&s->targets, out);
	if (!s->start_mono_ns)
		return;
	out->elapsed_ns = now - s->start_mono_ns;
	out->paused_ns = s->paused_ns;
	if (!s->paused_mono_ns)
		return;
	out->paused = 1;
	out->paused_ns += now - s->paused_mono_ns;
}

void gt_session_show(struct gt_session *s, uint64_t mono_ns)
{
	uint64_t since_ns = mono_ns - s->shown_mono_ns;
	uint64_t tenths = (mono_ns - s->start_mono_ns) / (SECOND_NS / 10);
	uint64_t all = s->opts->duration_ns / (SECOND_NS / 10);
	char end[40] = "", processes[40] = "";
	char kept[96] = "";
	struct gt_progress now;

	gt_session_progress(s, &now);
	if (now.ring)
		snprintf(kept, sizeof(kept),
			 "  in memory: %llu s, %llu events, %llu.%llu MiB; files: %zu",
			 (unsigned long long)(now.kept_ns / SECOND_NS),
			 (unsigned long long)now.kept_events,
			 (unsigned long long)now.kept_bytes >> 20,
			 (unsigned long long)(now.kept_bytes >> 10) % 1024 * 10 / 1024, now.files);
	if (all)
		snprintf(end, sizeof(end), " of %llu.%llu", (unsigned long long)all / 10,
			 (unsigned long long)all % 10);
	if (gt_session_is_open_ended(s))
		snprintf(processes, sizeof(processes), "  %zu process%s", now.processes,
			 now.processes == 1 ? "" : "es");
	gt_status("%llu.%llu%s s%s%s  %llu events/s  %llu events  %llu lost%s  (Ctrl-C stops)",
		  (unsigned long long)tenths / 10, (unsigned long long)tenths % 10, end,
		  now.paused ? "  paused" : "", processes,
		  (unsigned long long)((now.events - s->shown_events) * 1000 /
				       (since_ns / 1000000 ? since_ns / 1000000 : 1)),
		  (unsigned long long)now.events, (unsigned long long)now.lost, kept);
	s->shown_events = now.events;
	s->shown_mono_ns = mono_ns;
}

/* ---- what is asked ---- */

static void pause_all(struct gt_session *s)
{
	if (s->paused_mono_ns || s->stopping)
		return;
	s->paused_mono_ns = gt_mono_ns();
	gt_targets_pause(&s->targets);
}

static void resume_all(struct gt_session *s)
{
	if (!s->paused_mono_ns || s->stopping)
		return;
	gt_targets_resume(&s->targets);
	s->paused_ns += gt_mono_ns() - s->paused_mono_ns;
	s->paused_mono_ns = 0;
}

static void take_names(struct gt_session *s, const struct gt_request *rq)
{
	struct gt_recording *r = rq->from ? gt_targets_of(&s->targets, rq->from) : NULL;
	struct gt_request copy = *rq;

	if (!r || !r->collector)
		return;
	/* The ring tells which threads there are, also those that have ended by now. */
	gt_targets_worsen(&s->targets, gt_recording_drain(r, &s->targets.recorder));
	gt_recording_told(r, &copy);
}

void gt_session_act(void *session, const struct gt_request *rq, struct gt_progress *out)
{
	struct gt_session *s = session;

	switch (rq->kind) {
	case GT_REQUEST_MARK:
		s->marks += gt_targets_mark(&s->targets, rq) > 0;
		break;
	case GT_REQUEST_THREADS:
		take_names(s, rq);
		break;
	case GT_REQUEST_PAUSE:
		pause_all(s);
		break;
	case GT_REQUEST_RESUME:
		resume_all(s);
		break;
	case GT_REQUEST_STATUS:
		gt_targets_drain(&s->targets); /* what is in a ring is not counted yet */
		gt_session_progress(s, out);
		break;
	case GT_REQUEST_DUMP:
		out->ring = s->targets.recorder.window != NULL;
		out->dumped = s->targets.n_open;
		out->failed = gt_targets_dump(&s->targets, GT_WINDOW_REQUEST);
		out->dumped -= out->failed;
		break;
	case GT_REQUEST_STOP:
		s->leaves = 1;
		if (!s->stopping)
			gt_session_stop(s, GIL_END_STOPPED);
		break;
	}
}

/* ---- what is told ---- */

static const char *path_of(const struct gt_session *s, const struct gt_recording *r,
			   char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s", s->opts->output_dir, r->file);
	return path;
}

void gt_session_tell_files(struct gt_session *s)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < s->targets.n && s->opts->control; i++)
		if (s->targets.list[i] && s->targets.list[i]->file[0])
			gt_control_file(s->opts->control, s->targets.list[i]->proc.pid,
					path_of(s, s->targets.list[i], path));
}

void gt_session_tell_done(struct gt_session *s, const struct gt_recording *r)
{
	const struct gt_flight_written *w = r->window ? &r->window->latest : NULL;
	char path[PATH_MAX];

	if (r->window && r->end && !r->window->ended) /* its last file could not be written */
		return;
	if (s->opts->control && (r->end || w) && r->file[0])
		gt_control_done(s->opts->control, r->proc.pid, w ? w->events : r->stats.events,
				w ? w->lost : r->stats.lost + r->stats.unwritten,
				path_of(s, r, path), !s->targets.n_open);
}
