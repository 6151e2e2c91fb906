/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.h - from the events of one process to slices: a state machine per thread and per GIL.
 *
 * Slices go to a sink as soon as their end is known. Memory grows with threads, not with events.
 * Any sequence of events, also an absurd one, gives slices that keep the promises of sink.h.
 *
 *  take_gil  WAIT or TAKE .. ACQUIRE; .. LEFT, where the GIL is switched off meanwhile
 *  hold_gil  ACQUIRE .. RELEASE
 *  drop_gil  RELEASE, no length; .. DROPPED in function mode; where a YIELD follows (the thread
 *            waits for the switch): .. ACQUIRE of that GIL by another thread, or the thread's own
 *            next event
 *
 * A release is forced if its record or a YIELD behind it says so; a hold is therefore handed on
 * together with its drop_gil.
 *
 * What is not known is never drawn as if it were:
 *  - A thread is unknown until its first event, and again after each gap of lost events. A first
 *    RELEASE means that it held the GIL since the start (or the gap's end), but no longer than
 *    since the last release by another thread. A first ACQUIRE draws no wait.
 *  - A BEFORE tells what it was in at the start, up to its own events or, if these come behind a
 *    gap, to the gap. It was read while the process ran: an event that contradicts a hold is right,
 *    and the hold was none. It is ignored where the thread's or (holding) the GIL's events tell.
 *  - An EXIT ends what the thread is in. A take ends so when the process ends while it waits
 *    (GT_OPEN_EXIT), or because the interpreter is ending and the thread may not have the GIL again
 *    (GT_OPEN_FINALIZING): CPython 3.9 .. 3.13.7 ends it alone, so others go on, and later ones let
 *    it hang until the main thread, which had the GIL last, ends the process. The next event with
 *    that id is of a new thread, which begins without the GIL, on the same row.
 *  - A gap cuts what is open at its beginning (GT_OPEN_LOST).
 *  - A LATE is a gap of which the number of events is not known. It comes first, so nothing is
 *    open, and the start is its end.
 *  - A PAUSED is one in which nothing was to be recorded (GT_OPEN_PAUSED). It is no loss, and may
 *    stand at the start and at the end, too.
 *  - A release that was missed without a gap leaves the end of the hold unknown, anywhere up to
 *    the event that showed it. Such a hold gets no length (GT_OPEN_UNKNOWN) and is counted.
 *    A wait whose end was missed is treated alike.
 *  - A GIL seen only at a release may be another library's condition variable: the first release
 *    is kept aside until another event or a GIL record confirms that it is a GIL; if none does,
 *    it is counted and not drawn.
 *
 * A MARK goes to the sink at once, brought into the time of the recording. It changes nothing else.
 *
 * Used by one thread.
 */
#ifndef GT_TIMELINE_H
#define GT_TIMELINE_H

#include "base.h"
#include "rows.h"
#include "sink.h"

#define GT_TIMELINE_THREADS_MAX (1u << 22) /* Linux: PID_MAX_LIMIT */

/* Sequences that a healthy recording does not have. */
enum gt_odd {
	GT_ODD_ACQUIRE_HOLDING, /* acquired while it held: a release was missed */
	GT_ODD_ACQUIRE_HELD,    /* acquired while another held: a release was missed */
	GT_ODD_WAIT_HOLDING,    /* waits while it held: a release was missed */
	GT_ODD_WAIT_ENDLESS,    /* a wait ended without an acquire */
	GT_ODD_RELEASE_IDLE,    /* released without holding: an acquire was missed */
	GT_ODD_YIELD_IDLE,      /* yields, or returns from drop_gil, without a release */
	GT_ODD_ORDER,           /* a thread's time went back */
	GT_ODD_KIND,            /* a kind of event that this version does not know */
	GT_ODD_KINDS,
};

struct gt_timeline_stats {
	uint64_t events; /* WAIT .. DROPPED */
	uint64_t spans[GT_SPAN_KINDS];
	uint64_t releases[GT_FORCED_KINDS]; /* drop_gil slices by enum gt_span_forced */
	uint64_t gaps, lost;
	uint64_t late_ns; /* how long the process was there before its recording began */
	uint64_t pauses, paused_ns;
	uint64_t marks;
	uint64_t odd[GT_ODD_KINDS];
	uint64_t unconfirmed; /* releases on what never proved to be a GIL, not drawn */
	uint32_t threads, gils;
};

struct gt_timeline;

/* Text for a person, such as "acquired while already holding". Static. */
const char *gt_odd_text(enum gt_odd odd);

struct gt_timeline_opts {
	uint64_t start_mono_ns; /* of the recording */
	uint64_t end_mono_ns;   /* .. where marks end; 0: not known yet */
	/* Places the events on Unix time; NULL: times are used as they are. */
	uint64_t (*unix_ns)(const void *ctx, uint64_t mono_ns);
	const void *ctx;
	struct gt_rows *rows; /* settled; NULL: threads are shown by the ids of their events */
	const char *comm;     /* the process's; NULL: not known */
	const char *late_why; /* how it came in late; NULL: not known */
	uint32_t main_tid;    /* as it is shown; 0: not known */
	uint8_t functions; /* function mode: no acquire by those that were in take_gil at the start
			    */
	uint8_t forced_told; /* a release that does not say so is not forced */
};

/* The sink and what *opts, which is copied, points to must live as long as the timeline. -ENOMEM.
 */
int gt_timeline_create(struct gt_sink *sink, const struct gt_timeline_opts *opts,
		       struct gt_timeline **out);
void gt_timeline_free(struct gt_timeline *tl);

/* -ENOMEM, -E2BIG (more than GT_TIMELINE_THREADS_MAX threads) or the sink's error: give up. */
int gt_timeline_event(struct gt_timeline *tl, const struct gil_event *ev);

/*
 * Closes what is open at the end of the recording and hands threads and pairs to the sink, by id.
 * No event may follow.
 */
int gt_timeline_finish(struct gt_timeline *tl, uint64_t end_mono_ns);

const struct gt_timeline_stats *gt_timeline_stats(const struct gt_timeline *tl);

#endif
