/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_private.h - what session.c (the loop) and arrivals.c (late comers, news of children, the
 * command) share.
 */
#ifndef GT_SESSION_PRIVATE_H
#define GT_SESSION_PRIVATE_H

#include "session.h"

#define SECOND_NS 1000000000ull /* clock samples; also the age at which a block is sealed */

/* What an epoll event is about; a target's exit carries EV_EXIT_OF + its place. */
enum { EV_STOP, EV_TICK, EV_DEADLINE, EV_RINGS, EV_FOUND, EV_COMMAND, EV_EXIT_OF };

struct gt_session {
	const struct gt_session_opts *opts;
	struct gt_finder *finder;
	struct gt_targets targets;
	struct gt_command *command;
	int command_status;
	uint8_t command_runs;
	uint8_t command_free;  /* it is not held (any more), and not waited for at its entry */
	uint64_t held_mono_ns; /* since when it stands at its entry point; 0: it does not */
	uint8_t stopping;      /* nothing new is taken in */
	uint8_t follows;
	int epoll_fd, tick_fd, deadline_fd;
	uint64_t start_mono_ns, last_clock_mono_ns, last_tick_mono_ns;
	uint64_t news_lost;
	uint64_t shown_mono_ns, shown_events; /* by the last status line */
};

/* ---- session.c ---- */

int gt_session_watch(struct gt_session *s, int fd, uint64_t what);
void gt_session_stop(struct gt_session *s, enum gil_end_reason reason);

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
