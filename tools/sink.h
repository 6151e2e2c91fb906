/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sink.h - what the converter writes: an output is one struct gt_sink_ops.
 *
 * Calls come in this order: create; then per input process(), any number of span() and gap(),
 * thread() for each thread of it, perhaps doubt(); finish. Times are Unix nanoseconds, never 0.
 * What a timeline hands on satisfies, whatever the events were: the slices of a thread follow each
 * other without overlap, in the order of the calls; two of one kind never start at the same time;
 * at most one thread holds a GIL at a time (GIL_INDEX_OTHER stands for several).
 *
 * Functions return 0 or -errno; after an error only finish() may be called. A sink is used by one
 * thread. It borrows the descriptor and what it is given; it keeps no pointer to it.
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
		0x20, /* the same in a take: the interpreter was ending, nobody waited */
};

/* Was a release asked for by another thread that had waited for the switch interval? */
enum gt_span_forced { GT_FORCED_UNKNOWN, GT_FORCED_NO, GT_FORCED_YES, GT_FORCED_KINDS };

struct gt_span {
	uint64_t start_ns, end_ns;
	uint32_t tid;
	uint8_t kind; /* enum gt_span_kind */
	uint8_t open; /* enum gt_span_open, ored */
	uint8_t gil;
	uint8_t forced; /* enum gt_span_forced; of a hold: its release; UNKNOWN for takes */
};

/* A stretch in which events are missing. */
struct gt_gap {
	uint64_t begin_ns, end_ns;
	uint64_t count;  /* of events; not known where .late */
	uint8_t late;    /* the process was there, and its recording had not begun */
	const char *why; /* late: how it came in, any bytes; NULL: not known */
};

struct gt_sink_thread {
	uint32_t tid;
	const char *name; /* any bytes */
};

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
	uint32_t pid;
	uint32_t main_tid; /* 0: not known */
	const char *name;  /* any bytes */
	const char *tags;  /* words about it, separated by ", "; any bytes */
	uint32_t order;    /* position among the processes */
};

struct gt_sink;

struct gt_sink_ops {
	int (*create)(int fd, struct gt_sink **out);
	int (*process)(struct gt_sink *s, const struct gt_sink_process *p);
	int (*span)(struct gt_sink *s, const struct gt_span *span);
	int (*gap)(struct gt_sink *s, const struct gt_gap *gap);
	int (*thread)(struct gt_sink *s, const struct gt_sink_thread *t);
	/* GIL sites are missing, so the recording is not to be trusted; start_ns: its start. */
	int (*doubt)(struct gt_sink *s, uint64_t start_ns, const char *text);
	/* Completes the output and frees the sink; the first error of all calls. */
	int (*finish)(struct gt_sink *s);
};

extern const struct gt_sink_ops gt_sink_chrome; /* Chrome Trace JSON */

#endif
