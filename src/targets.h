/* SPDX-License-Identifier: Apache-2.0 */
/*
 * targets.h - the recordings of a session: their places, the memory for their rings, their common
 * start and end. Owns the recordings that it was given; used by the session's thread.
 */
#ifndef GT_TARGETS_H
#define GT_TARGETS_H

#include "control.h"
#include "recording.h"

#define GT_SESSION_TARGETS 1024 /* at one time, where it is not known how many there will be */
#define GT_RING_MIN        (64u << 10)
#define GT_RING_MAX        (4u << 20)

struct gt_targets {
	struct gt_recording **list; /* by place; NULL: a free one */
	size_t n;                   /* places that are or were in use */
	size_t n_open;              /* that are being recorded */
	uint64_t recorded;          /* that were, or are */
	enum gt_status status;      /* the worst that has happened */
	/* Of those that have ended: */
	uint64_t ended_events, ended_lost, ended_bytes;
	size_t ended_files;
	struct gt_recorder recorder;
	/* Set by the session: */
	uint32_t ring_bytes;  /* of each target; 0: what ring_memory allows, up to GT_RING_MAX */
	uint64_t ring_memory; /* bytes, of all rings together */
	uint8_t open_ended;   /* more may come after the start */
	void (*complete)(void *ctx, struct gt_recording *r); /* its file is; probes may be left */
	void (*dumped)(void *ctx,
		       struct gt_recording *r); /* one more file of it is, and it goes on */
	void (*removing)(void *ctx); /* again and again while probes are removed, for seconds */
	void (*ended)(void *ctx, struct gt_recording *r); /* right before it is freed */
	void *ctx;
	/* private */
	size_t room;
	uint64_t rings;   /* bytes of the rings that there are */
	uint32_t refused; /* found, but there was no room */
	uint8_t full;     /* the tracer has no more slots than there are places */
};

void gt_targets_free(struct gt_targets *t);

void gt_targets_worsen(struct gt_targets *t, enum gt_status status);

/* Room for n in all. -ENOMEM, logged. */
int gt_targets_reserve(struct gt_targets *t, size_t n);

/* Takes a recording; where there is no room it is logged, counted and freed, and -errno returned.
 */
ssize_t gt_targets_put(struct gt_targets *t, struct gt_recording *r);

/* That of a process; NULL: none. */
struct gt_recording *gt_targets_of(const struct gt_targets *t, pid_t pid);

/* The recording that has this slot of the tracer and is open; NULL: none. */
struct gt_recording *gt_targets_at(const struct gt_targets *t, uint32_t slot);

/*
 * Attaches to all that are there and makes their files, by several threads: the kernel waits for a
 * grace period with each. The gates stay shut. What fails is logged, worsens the status, and is
 * given up.
 */
void gt_targets_start_all(struct gt_targets *t);

/*
 * The same for one that came later. GT_OK, or why not: GT_NO_TARGET where it has ended or executed
 * something else meanwhile, which is no news. The status of all stays the same then.
 */
enum gt_status gt_targets_start(struct gt_targets *t, struct gt_recording *r);

/* Gives one up that is not being recorded, and frees it. */
void gt_targets_let_go(struct gt_targets *t, struct gt_recording *r);

/*
 * Reads all rings: to be called while something else takes long. ctx: the targets. collect() writes
 * what is due, too; drain() is for while one of them is at work on its file.
 */
void gt_targets_drain(void *ctx);
void gt_targets_collect(void *ctx);

/*
 * Shuts all gates; those that come later begin paused, too. Returns when nothing is under way any
 * more, some milliseconds later. And back again.
 */
void gt_targets_pause(struct gt_targets *t);
void gt_targets_resume(struct gt_targets *t);

/*
 * With --ring: writes a file of each, and calls dumped() for it. Returns how many could not be
 * written. One of them, where a limit was exceeded: gt_targets_watch().
 */
size_t gt_targets_dump(struct gt_targets *t, enum gt_window_trigger trigger);
void gt_targets_watch(struct gt_targets *t, struct gt_recording *r, uint64_t mono_ns);

/* Adds what there is so far to events, lost, bytes, files and processes. */
void gt_targets_sum(const struct gt_targets *t, struct gt_progress *out);

/*
 * Puts a mark into all files, with its thread where the process is rq->from. Returns how many there
 * are.
 */
size_t gt_targets_mark(struct gt_targets *t, const struct gt_request *rq);

/*
 * Ends the recording of n > 0 of them at once, and frees them: gates, files, probes. The files come
 * first because the removal of probes may take seconds; where the program is gone, nobody waits for
 * that.
 */
void gt_targets_finish(struct gt_targets *t, struct gt_recording *const *which, size_t n,
		       enum gil_end_reason reason);
/* Those whose processes have ended, or are about to, or have become other programs. */
void gt_targets_finish_gone(struct gt_targets *t);
void gt_targets_finish_all(struct gt_targets *t, enum gil_end_reason reason);

#endif
