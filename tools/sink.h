/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sink.h - what the converter writes: an output is a struct gt_sink with its own gt_sink_ops.
 *
 * Calls come in this order: per input process(), any number of span(), gap() and mark(), thread()
 * for each thread of it, pair() for each pair of them, end(); at last finish(). Times are
 * nanoseconds of the axis that the caller has chosen (Unix time unless it is told otherwise), never
 * 0. What a timeline hands on satisfies, whatever the events were: the slices of a thread follow
 * each other without overlap, in the order of the calls; two of one kind never start at the same
 * time; at most one thread holds a GIL at a time (GIL_INDEX_OTHER stands for several); the parts of
 * a wait add up to it; the slices of a thread lie within the time in which it was observed; marks
 * lie within the recording, and the thread of each is one of those that thread() tells.
 *
 * Functions return 0 or -errno; after an error only finish() may be called. A sink is used by one
 * thread. It borrows what it is given and keeps no pointer to it.
 */
#ifndef GT_SINK_H
#define GT_SINK_H

#include "base.h"
#include "giltrace/gilfile.h"

enum gt_span_kind {
	GT_SPAN_TAKE, /* waits for the GIL */
	GT_SPAN_HOLD,
	GT_SPAN_DROP, /* has released; long where it then waited for the switch */
	GT_SPAN_KINDS,
};

/* Why an end of a slice is not the event that it should be; bits, as both ends may be open. */
enum gt_span_open {
	GT_OPEN_NO = 0,
	GT_OPEN_START = 0x01,   /* began before the recording */
	GT_OPEN_LOST = 0x02,    /* cut at a gap of lost events, at one end or both */
	GT_OPEN_END = 0x04,     /* lasted to the end of the recording */
	GT_OPEN_UNKNOWN = 0x08, /* its end was missed: drawn with no length */
	GT_OPEN_EXIT = 0x10,    /* the thread ended in it */
	GT_OPEN_FINALIZING =
		0x20,           /* the same in a take: the interpreter was ending, nobody waited */
	GT_OPEN_CLIPPED = 0x40, /* by a filter: cut to the range that was asked for */
	GT_OPEN_PAUSED = 0x80,  /* cut where the recording was paused, at one end or both */
};

/* Was a release asked for by another thread that had waited for the switch interval? */
enum gt_span_forced { GT_FORCED_UNKNOWN, GT_FORCED_NO, GT_FORCED_YES, GT_FORCED_KINDS };

/* Who had the GIL during a wait. held_ns + nobody_ns + unknown_ns is the length of the slice. */
struct gt_wait {
	uint64_t held_ns;    /* by threads that are known, together */
	uint64_t nobody_ns;  /* it was free: released, and the next thread not running yet */
	uint64_t unknown_ns; /* not known who had it, or whether anybody did */
	uint64_t blocker_ns; /* of held_ns, by the thread that had it longest .. */
	uint32_t blocker;    /* .. which is this one; 0: none is known */
	/* Who let the GIL go that this wait ended with; 0: not known, or let go before it began. */
	uint32_t from_tid;
	uint64_t from_ns;       /* .. when .. */
	uint64_t from_start_ns; /* .. and since when it had it: its hold_gil slice is these two */
};

struct gt_span {
	uint64_t start_ns, end_ns;
	uint32_t tid;
	uint8_t kind; /* enum gt_span_kind */
	uint8_t open; /* enum gt_span_open, ored */
	uint8_t gil;
	uint8_t forced;      /* enum gt_span_forced; of a hold: its release; UNKNOWN for takes */
	uint8_t acquired;    /* TAKE: it ended with the GIL acquired */
	struct gt_wait wait; /* TAKE; all 0 for others */
};

/* A stretch in which events are missing. */
struct gt_gap {
	uint64_t begin_ns, end_ns;
	uint64_t count;  /* of events; not known where .late or .paused */
	uint8_t late;    /* the process was there, and its recording had not begun */
	uint8_t paused;  /* nothing was recorded, as somebody had asked for; .count is 0 */
	const char *why; /* late: how it came in, any bytes; NULL: not known */
};

/* A named instant, set by the program or by a person. In any order with what else is told. */
struct gt_mark {
	uint64_t at_ns;
	uint32_t tid;     /* of the thread that has set it; 0: none, it is the process's */
	const char *name; /* any bytes */
};

struct gt_sink_thread {
	uint32_t tid;
	const char *label; /* name and id, as a row is headed; any bytes */
	const char *name;  /* threading's, else the kernel's; any bytes; "": not known */
	/*
	 * Since when and how long its state is known: from its first event (or the start, where it
	 * is known what it was in then) to its end or that of the recording, without gaps and what
	 * lies between a gap and its next event. wait + hold + drop + idle + unknown_ns add up to
	 * observed_ns.
	 */
	uint64_t first_ns, observed_ns;
	uint64_t unknown_ns; /* of these, in states of which the end was missed */
};

/*
 * How long `victim` waited while `blocker` had the GIL, in all of the recording. Waits that are
 * GT_OPEN_FINALIZING are not in it.
 */
struct gt_pair {
	uint32_t victim, blocker;
	uint64_t ns;
	uint64_t waits; /* slices that have a part in it */
};

/* .blocker of a pair that is no thread. */
#define GT_BLOCKER_NOBODY  0u               /* the GIL was free */
#define GT_BLOCKER_UNKNOWN UINT32_MAX       /* not known who had it */
#define GT_BLOCKER_OTHERS  (UINT32_MAX - 1) /* threads beyond the pairs that are told apart */

/*
 * No thread has an id from here on (PID_MAX_LIMIT of Linux). A sink may give some of the first of
 * these to tracks of its own; threads whose id is not known get those from TID_UNKNOWN on.
 */
#define GT_SINK_TID_END     4194304u
#define GT_SINK_TID_UNKNOWN (GT_SINK_TID_END + 16)

struct gt_sink_process {
	/*
	 * Unique within the sink. Above PID_MAX_LIMIT where it is not known, or another process has
	 * it: viewers want a number.
	 */
	uint64_t pid;
	uint32_t main_tid;         /* 0: not known */
	int64_t rank;              /* -1: not known */
	const char *name;          /* any bytes */
	const char *tags;          /* words about it, separated by ", "; any bytes */
	const char *path;          /* of the recording; any bytes */
	const char *host;          /* on which it was made; any bytes; NULL or "": not known */
	uint32_t order;            /* position among the processes */
	uint64_t start_ns, end_ns; /* of the recording; start_ns <= end_ns */
};

/* What a person should know of a recording that has been handed on. */
struct gt_sink_end {
	uint64_t events;           /* that told a change of state */
	uint64_t lost, gaps;       /* events lost, in how many gaps */
	uint64_t lost_ns, late_ns; /* the length of the gaps; of the time before it began */
	uint64_t paused_ns;        /* the length of its pauses, which are no gaps in .gaps */
	uint64_t marks;
	uint64_t odd; /* sequences of events that should not be */
	uint32_t threads, gils;
	uint8_t killed;       /* the recorder was killed: no proper end */
	uint8_t lost_unknown; /* nobody counted what was lost: beside .lost there may be more */
	const char *doubt;    /* why it is not to be trusted; NULL: it adds up */
	const char *problem;  /* what of the file was left out; NULL: nothing */
};

struct gt_sink;

/* mark, thread, pair and end may be NULL. */
struct gt_sink_ops {
	int (*process)(struct gt_sink *s, const struct gt_sink_process *p);
	int (*span)(struct gt_sink *s, const struct gt_span *span);
	int (*gap)(struct gt_sink *s, const struct gt_gap *gap);
	int (*mark)(struct gt_sink *s, const struct gt_mark *mark);
	int (*thread)(struct gt_sink *s, const struct gt_sink_thread *t);
	int (*pair)(struct gt_sink *s, const struct gt_pair *pair);
	int (*end)(struct gt_sink *s, const struct gt_sink_end *end);
	/* Completes the output and frees the sink; the first error of all calls. */
	int (*finish)(struct gt_sink *s);
};

/* The first member of every sink. */
struct gt_sink {
	const struct gt_sink_ops *ops;
};

#endif
