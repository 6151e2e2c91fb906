/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window.h - a recording with --ring: nothing is written but the last seconds, when a hold or a
 * wait exceeds a limit, when somebody asks, and at the end (docs/flight-recorder.md). Says when a
 * file is due, makes it and names it; what is in it is the flight recorder's (flight.h). Belongs to
 * a recording and is used by the session's thread.
 */
#ifndef GT_WINDOW_H
#define GT_WINDOW_H

#include "flight.h"

struct gt_recording;
struct gt_recorder;

struct gt_window_opts {
	struct gt_flight_opts flight; /* .window_ns 0: files are written as ever */
	uint32_t files;               /* of one process by limits, at most */
};

enum gt_window_trigger {
	GT_WINDOW_HOLD,
	GT_WINDOW_WAIT,
	GT_WINDOW_SIGNAL,
	GT_WINDOW_REQUEST,
	GT_WINDOW_END,
};

struct gt_window {
	struct gt_flight *flight;
	uint64_t limits_ns;    /* before that no limit makes a file */
	uint64_t suppressed;   /* triggers by limits that made none, in all */
	uint64_t unsaid;       /* of these, since the last file */
	uint32_t by_limits;    /* files */
	uint8_t full_said;     /* that these are all */
	uint8_t squeezed_said; /* that the memory is used up */
	uint8_t ended;         /* the latest file is the last */
	/* Files so far, and the latest. */
	uint32_t files;
	uint64_t bytes;
	struct gt_flight_written latest;
};

/* A file that is none: what is written to it is kept. 0 or -ENOMEM. */
int gt_window_open(struct gt_recording *r, const struct gt_window_opts *opts,
		   struct gt_gilfile **file);
void gt_window_free(struct gt_window *w);

/*
 * Looks whether a limit was exceeded. Returns how many files were written, or -errno, logged: what
 * is in memory stays there, and so do the recording and its limits.
 */
int gt_window_tick(struct gt_recording *r, const struct gt_recorder *rec, uint64_t mono_ns);

/* Writes a file now. 0 or -errno, logged. */
int gt_window_write(struct gt_recording *r, const struct gt_recorder *rec,
		    enum gt_window_trigger trigger);

/* The last file, once the collector has finished. 0 or -errno, logged. */
int gt_window_finish(struct gt_recording *r, const struct gt_recorder *rec,
		     enum gil_end_reason reason, uint64_t stop_mono_ns);

#endif
