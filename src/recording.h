/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recording.h - the recording of one process, from finding its probe sites to the end of its file.
 * The session has one for each process and says when; a recording owns its process's descriptors
 * and its file. Opened by the finder's thread and started by one of several; from then on used by
 * the session's.
 */
#ifndef GT_RECORDING_H
#define GT_RECORDING_H

#include "about.h"
#include "collect.h"
#include "npu.h"
#include "pytarget.h"
#include "rank.h"
#include "request.h"
#include "toldnames.h"
#include "tracer.h"
#include "window.h"

/* How a run ended; also giltrace's exit status. The worst one counts, in this order of values. */
enum gt_status {
	GT_OK = 0,
	GT_FAILED = 1,
	GT_USAGE = 2,
	GT_NO_TARGET = 3,  /* a process that was named does not exist */
	GT_NOT_PYTHON = 4, /* a process that was named is no CPython that can be traced */
	GT_NO_KERNEL = 5,  /* privileges or a kernel feature are missing */
	GT_LOSSES = 6,     /* finished; events were lost */
	GT_NO_OUTPUT = 7,  /* a file could not be written */
	GT_UNSOUND = 8,    /* what was recorded does not add up: probe sites are missing */
};

/* The status that a -errno from below means. */
enum gt_status gt_status_of(int err);

#define GT_FILE_NAME_MAX 64

struct gt_recording {
	struct gt_proc proc;
	struct gt_pytarget py;
	struct gt_rank rank;
	struct gt_about about;
	struct gt_npus npus;         /* not bound where it was not asked for */
	char file[GT_FILE_NAME_MAX]; /* in the output folder, the latest; empty: none was made */
	struct gt_window *window;    /* NULL: all is written to one file */
	enum gil_end_reason end;     /* 0: not recorded */
	struct gt_collect_stats stats;
	uint64_t foreign;     /* hits on condition variables that are no GIL's */
	uint64_t late_ns;     /* so long it was not recorded at first */
	uint32_t gils;        /* that were told apart */
	uint8_t without_gil;  /* free-threaded, its GIL off all the time, as far as is known */
	uint8_t silence_told; /* that nothing was recorded has been explained */
	uint8_t late;         /* it came while others were recorded */
	uint8_t was_paused;   /* at some time */
	uint8_t unnamed; /* nobody has named it: that it ends before it is recorded is no news */
	int file_fd;     /* of its file, to find what was written; 0: nobody wants that */
	/* private */
	struct gt_collector *collector; /* NULL: not being recorded (any more) */
	uint64_t paused_mono_ns;        /* since when its gate is shut for a pause; 0: it is not */
	uint64_t names_mono_ns;         /* when they were last asked for */
	struct gt_toldnames told;       /* names, by the program itself */
	uint8_t told_news;              /* some are new */
	uint8_t told_too_much;          /* not all are kept, which was said */
	struct gt_snapshot_gils gils_first; /* at the start */
	/* Those that were known before the gate was opened, by index: addresses of cond. */
	uint64_t gil_known[GT_MAX_GILS];
	uint32_t gil_known_set; /* bit i: gil_known[i] is told */
	uint32_t slot, ring_bytes;
	uint8_t no_names;  /* its interpreter does not tell, or nobody wants to know */
	uint8_t no_memory; /* its memory is not read any more, as that hangs */
	/* What its threads had run at the start, and later. */
	struct gt_snapshot_thread *first, *last;
	size_t n_first, n_last;
};

/* What all recordings of a session share. */
struct gt_recorder {
	struct gt_tracer *tracer;
	int dir_fd;
	const char *dir; /* its name, for messages */
	uint8_t no_names;
	uint8_t keep_files;                  /* open, until the recording is freed */
	uint8_t paused;                      /* those that begin now begin with a pause */
	const struct gt_window_opts *window; /* NULL: all is written to files */
	/* Called while a process is looked at by the session's thread, which may take long. */
	void (*meanwhile)(void *ctx);
	void *ctx;
};

/*
 * Finds the sites of a process, which is taken over, also on failure. known: what its parent has,
 * where it was forked from that and has the same mappings; NULL: to be looked for. npus: what it is
 * bound to, or NULL. NULL: it cannot be traced, logged; *err is set.
 */
struct gt_recording *gt_recording_open(struct gt_proc *p, struct gt_pycache *cache,
				       const struct gt_pytarget *known, const struct gt_npus *npus,
				       int *err);

/* Frees it. */
void gt_recording_close(struct gt_recording *r);

/*
 * Makes the file (first, so that a folder that cannot be written is known before the process is
 * touched) and attaches; the gate stays shut. GT_OK, or why not, logged: no file is left behind.
 */
enum gt_status gt_recording_start(struct gt_recording *r, const struct gt_recorder *rec,
				  uint32_t ring_bytes);

/* Takes that back, while the gate is shut. */
void gt_recording_abandon(struct gt_recording *r, const struct gt_recorder *rec);

/*
 * Opens the gate, unless there is a pause, and returns when: all from then on is recorded. late:
 * why that is later than it should be, such as "forked"; events from late_mono_ns on are missing
 * then. NULL: it is not.
 */
uint64_t gt_recording_begin(struct gt_recording *r, const struct gt_recorder *rec, const char *late,
			    uint64_t late_mono_ns);

/*
 * Right after the gate was opened: looks what the process is in the middle of. start_mono_ns: from
 * when on all is recorded, as far as is known. Nothing where it begins with a pause.
 */
enum gt_status gt_recording_look(struct gt_recording *r, const struct gt_recorder *rec,
				 uint64_t start_mono_ns);

/* A descriptor of its file, or -1, in the place of the one that is kept. */
void gt_recording_keep_file(struct gt_recording *r, int fd);

/* Reads what is in the ring. */
enum gt_status gt_recording_drain(struct gt_recording *r, const struct gt_recorder *rec);

/* Shuts the gate for a while; gt_tracer_wait() and a drain are to follow. */
void gt_recording_pause(struct gt_recording *r, const struct gt_recorder *rec);

/* Ends the pause, and opens the gate, unless the process has ended or become another program. */
enum gt_status gt_recording_resume(struct gt_recording *r, const struct gt_recorder *rec,
				   const struct gil_clock *now);

/* Keeps the names that the program has for its threads, from a GT_REQUEST_THREADS. */
void gt_recording_told(struct gt_recording *r, struct gt_request *rq);

/* Between seconds: names of threads that are new, if it is time for that. */
void gt_recording_names(struct gt_recording *r, const struct gt_recorder *rec, uint64_t mono_ns);

/* About every second; what is found out is put down for mono_ns. */
void gt_recording_second(struct gt_recording *r, const struct gt_recorder *rec, uint64_t mono_ns);

/*
 * Names of threads, those that the interpreter and those that the program itself tells, where there
 * are threads without one; at_end: in any case, and how many there are.
 */
void gt_recording_read_names(struct gt_recording *r, const struct gt_recorder *rec, int at_end,
			     uint64_t mono_ns);

/*
 * Once no hit is under way any more: reads the rest of the ring, ends the file, and looks whether
 * what was recorded makes sense.
 */
enum gt_status gt_recording_finish(struct gt_recording *r, const struct gt_recorder *rec,
				   enum gil_end_reason reason, uint64_t stop_mono_ns);

#endif
