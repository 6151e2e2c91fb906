/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_private.h - what session.c (the loop), arrivals.c (late comers, news of children, the
 * command) and steer.c (what is asked and told on the way) share.
 */
#ifndef GT_SESSION_PRIVATE_H
#define GT_SESSION_PRIVATE_H

#include "session.h"

#define SECOND_NS 1000000000ull /* clock samples; also the age at which a block is sealed */

/* What an epoll event is about; a target's exit carries EV_EXIT_OF + its place. */
enum { EV_STOP, EV_TICK, EV_DEADLINE, EV_RINGS, EV_FOUND, EV_COMMAND, EV_CONTROL, EV_EXIT_OF };

struct gt_session {
	const struct gt_session_opts *opts;
	struct gt_finder *finder;
	struct gt_targets targets;
	struct gt_command *command;
	int command_status;
	uint8_t command_runs;
	uint8_t command_free;  /* it is not held (any more), and not waited for at its entry */
	uint8_t command_seen;  /* it began while we recorded */
	uint64_t held_mono_ns; /* since when it stands at its entry point; 0: it does not */
	uint8_t stopping;      /* nothing new is taken in */
	uint8_t leaves;        /* and the command is not waited for */
	uint8_t follows;
	int epoll_fd, tick_fd, deadline_fd;
	uint64_t start_mono_ns, last_clock_mono_ns, last_tick_mono_ns;
	uint64_t end_mono_ns;    /* of the recording; 0: it goes on */
	uint64_t paused_mono_ns; /* since when it is paused; 0: it is not */
	uint64_t paused_ns;      /* by pauses before */
	uint64_t marks;
	uint64_t news_lost;
	uint64_t shown_mono_ns, shown_events; /* by the last status line */
};

/* ---- session.c ---- */

int gt_session_watch(struct gt_session *s, int fd, uint64_t what);
void gt_session_stop(struct gt_session *s, enum gil_end_reason reason);

/* Can targets come after the start? */
int gt_session_is_open_ended(const struct gt_session *s);

/* ---- steer.c ---- */

/* What somebody asks for (gt_control_act_fn). */
void gt_session_act(void *session, const struct gt_request *rq, struct gt_progress *out);

/* Tells the owner of the files that there are, and of one that is complete. */
void gt_session_tell_files(struct gt_session *s);
void gt_session_tell_done(struct gt_session *s, const struct gt_recording *r);

/* The line on the terminal. */
void gt_session_show(struct gt_session *s, uint64_t mono_ns);

/* ---- arrivals.c ---- */

/* Takes in one process that was found: each takes some milliseconds, and there is other work. */
void gt_session_take_found(struct gt_session *s);

/* Births and executions. */
void gt_session_read_news(struct gt_session *s);

/* What has become of the command; and lets it run on where it was held for too long. */
void gt_session_read_command(struct gt_session *s);
void gt_session_free_held(struct gt_session *s, uint64_t mono_ns);

/* A process has become another program, at some time since born_ns. */
void gt_session_look_again(struct gt_session *s, pid_t pid, uint64_t born_ns);

void gt_session_watch_end_of(struct gt_session *s, size_t place);

#endif
