// SPDX-License-Identifier: Apache-2.0
#include "session_private.h"

#include <stdio.h>

#include "clock.h"
#include "log.h"

#define HELD_MAX_NS (2 * SECOND_NS)

/* ---- those that come later ---- */

static void follow(struct gt_session *s, const struct gt_proc *p)
{
	if (!s->follows)
		return;
	gt_tracer_follow(s->targets.recorder.tracer, p->pid);
	if (gt_proc_ended(p)) /* before it was followed: nobody takes it out */
		gt_tracer_unfollow(s->targets.recorder.tracer, p->pid);
	gt_finder_follow(s->finder, p->pid);
}

/* Where the kernel cannot watch it (there is no memory), the tick notices its end. */
void gt_session_watch_end_of(struct gt_session *s, size_t place)
{
	int err = gt_session_watch(s, s->targets.list[place]->proc.pidfd, EV_EXIT_OF + place);

	if (err)
		gt_warn("process %d: its end will be noticed late: %s",
			s->targets.list[place]->proc.pid, strerror(-err));
}

/* It has become another program, at some time since born_ns. */
void gt_session_look_again(struct gt_session *s, pid_t pid, uint64_t born_ns)
{
	if (s->follows || s->opts->find.all_python)
		gt_finder_look(s->finder, pid, 0, "executed", born_ns,
			       s->follows ? GT_LOOK_ON : GT_LOOK_SHORT);
}

/* The recording of a process is over if that has ended or executed another program. */
static int end_if_gone(struct gt_session *s, struct gt_recording *t)
{
	if (!t->collector || !gt_proc_memory_gone(&t->proc))
		return 0;
	gt_targets_finish(&s->targets, &t, 1,
			  gt_proc_executed(&t->proc) ? GIL_END_EXEC : GIL_END_TARGET_EXIT);
	return 1;
}

/* A late comer; or what was held, which has done nothing yet. */
static void arrive(struct gt_session *s, const struct gt_found *found)
{
	const struct gt_recorder *recorder = &s->targets.recorder;
	struct gt_recording *r = found->recording;
	struct gt_recording *before = gt_targets_of(&s->targets, r->proc.pid);
	enum gt_status status;
	struct gil_clock now;
	uint64_t begin_ns;
	ssize_t place;

	if (before && !end_if_gone(s, before)) { /* found in two ways */
		gt_recording_close(r);
		return;
	}
	place = gt_targets_put(&s->targets, r);
	if (place < 0)
		return;
	status = gt_targets_start(&s->targets, r);
	if (status) {
		if (status != GT_NO_TARGET)
			gt_targets_worsen(&s->targets, status);
		else if (!gt_proc_ended(&r->proc))
			gt_session_look_again(s, found->pid, found->born_mono_ns);
		gt_targets_let_go(&s->targets, r);
		return;
	}
	follow(s, &r->proc);
	gt_session_watch_end_of(s, (size_t)place);
	gt_clock_sample(&now);
	(void)gt_collect_clock(r->collector, &now);
	begin_ns = gt_recording_begin(r, recorder, found->held ? NULL : found->how,
				      found->born_mono_ns > s->start_mono_ns ? found->born_mono_ns
									     : s->start_mono_ns);
	gt_targets_worsen(&s->targets, gt_recording_look(r, recorder, begin_ns));
	gt_debug("process %d: recorded from now on (%s)", found->pid, found->how);
}

/* What the finder says of the command; it may come too late, when that is not held any more. */
static void answer_held(struct gt_session *s, struct gt_found *found)
{
	int python = found->recording != NULL, held = s->held_mono_ns != 0;

	found->held = (uint8_t)held;
	found->how = "executed";
	if (python)
		arrive(s, found);
	s->command_free |= python;
	s->held_mono_ns = 0;
	if (held || python)
		gt_command_continue(s->command, python);
	/* It may load one later. */
	if (!python)
		gt_finder_look(s->finder, found->pid, 0, "executed", gt_mono_ns(), GT_LOOK_SLOW);
}

void gt_session_take_found(struct gt_session *s)
{
	struct gt_found found;

	if (!gt_finder_take(s->finder, &found))
		return;
	if (s->stopping)
		gt_recording_close(found.recording);
	else if (found.held)
		answer_held(s, &found);
	else
		arrive(s, &found);
}

/* ---- news ---- */

static void on_news(void *session, const struct gt_news *news)
{
	struct gt_session *s = session;
	struct gt_recording *t = gt_targets_of(&s->targets, (pid_t)news->pid);

	if (s->stopping)
		return;
	if (news->kind == GT_NEWS_BORN) {
		gt_finder_look(s->finder, (pid_t)news->pid, (pid_t)news->parent, "forked",
			       news->ts_ns, GT_LOOK_ON);
		return;
	}
	/* At its entry point it is looked at before it runs. */
	if (s->command_runs && !s->command_free && gt_command_pid(s->command) == (pid_t)news->pid &&
	    !t)
		return;
	/* Old news: it was found as what it has become before this was read; or it has ended. */
	if (t && t->collector && !gt_proc_executed(&t->proc))
		return;
	if (t && t->collector)
		gt_targets_finish(&s->targets, &t, 1, GIL_END_EXEC);
	gt_finder_look(s->finder, (pid_t)news->pid, 0, "executed", news->ts_ns,
		       s->follows && (t || !s->opts->find.all_python) ? GT_LOOK_ON : GT_LOOK_SHORT);
}

void gt_session_read_news(struct gt_session *s)
{
	uint64_t lost = gt_tracer_news(s->targets.recorder.tracer, on_news, s);

	if (lost == s->news_lost)
		return;
	if (!s->news_lost)
		gt_error("more processes were born than could be told: some may be missing");
	s->news_lost = lost;
	gt_targets_worsen(&s->targets, GT_LOSSES);
}

/* ---- the command ---- */

void gt_session_read_command(struct gt_session *s)
{
	switch (gt_command_news(s->command)) {
	case GT_COMMAND_AT_ENTRY:
		if (s->stopping) {
			gt_command_continue(s->command, 1);
			break;
		}
		s->command_seen = 1;
		s->held_mono_ns = gt_mono_ns();
		gt_finder_look(s->finder, gt_command_pid(s->command), 0, "started", s->held_mono_ns,
			       GT_LOOK_HELD);
		break;
	case GT_COMMAND_UNHELD:
		s->command_seen = s->command_free = 1;
		gt_finder_look(s->finder, gt_command_pid(s->command), 0, "executed", gt_mono_ns(),
			       GT_LOOK_ON);
		break;
	case GT_COMMAND_ENDED:
		s->command_status = gt_command_status(s->command);
		s->command_runs = 0;
		gt_session_stop(s, GIL_END_STOPPED);
		break;
	default:
		break;
	}
}

/* A command that is held is not to wait for what the finder may be at. */
void gt_session_free_held(struct gt_session *s, uint64_t mono_ns)
{
	if (!s->held_mono_ns || mono_ns - s->held_mono_ns < HELD_MAX_NS)
		return;
	gt_warn("the command was held for %llu s and runs on now, as it could not be looked at so "
		"far; what it does until then is missing",
		(unsigned long long)(HELD_MAX_NS / SECOND_NS));
	s->held_mono_ns = 0;
	gt_command_continue(s->command, 0);
}
