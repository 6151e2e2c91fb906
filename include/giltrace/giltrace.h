/* SPDX-License-Identifier: Apache-2.0 */
/*
 * giltrace.h - record the GIL from inside the program: start, mark, stop, beside a Profiler's own
 * start and stop. Link with -lgiltrace, which needs nothing but libc.
 *
 *     struct giltrace_opts opts = GILTRACE_OPTS_INIT;
 *     struct giltrace *g;
 *
 *     opts.output_dir = "/data/gil";
 *     if (giltrace_start(&opts, &g))
 *             fprintf(stderr, "no GIL trace: %s\n", giltrace_error());
 *     ...
 *     giltrace_mark(g, "step 10");
 *     ...
 *     if (giltrace_stop(g, NULL))
 *             fprintf(stderr, "GIL trace: %s\n", giltrace_error());
 *     giltrace_free(g);
 *
 * The library starts the program giltrace, which does the work, as a child in a process group of
 * its own, and talks to it over a socket (docs/control.md). Nothing of BPF, no thread and no signal
 * handler gets into this process: two descriptors are open while it is recorded. When this process
 * ends in whatever way, or executes another program, giltrace notices, finishes the files and ends;
 * if giltrace ends early, this process goes on, and giltrace_stop() tells. giltrace needs rights
 * that this process need not have: docs/embedding.md.
 *
 * All functions may be called by any thread at any time, but giltrace_free() by one only, as the
 * last, and none by a handler of a signal. Where another thread waits for giltrace about the same
 * recording, they wait for that, but giltrace_mark() does not. A handle is the process's that made
 * it: in a child made by fork() every call but giltrace_free() does nothing and returns -ECHILD,
 * and the recording goes on in the parent. All functions accept NULL for a handle: they do nothing
 * and return -EINVAL then, so a program need not ask whether its recording has begun.
 *
 * Functions return 0, or a negative errno and a text for a person, giltrace_error(). errno stays as
 * it was, nothing is written to a standard stream, and a thread is not cancelled meanwhile.
 */
#ifndef GILTRACE_GILTRACE_H
#define GILTRACE_GILTRACE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct giltrace; /* a recording */

enum giltrace_flags {
	GILTRACE_ALL_NPU = 1,    /* every Python that is bound to an Ascend NPU, also later ones */
	GILTRACE_ALL_PYTHON = 2, /* every CPython, also later ones */
	GILTRACE_FOLLOW = 4,     /* also children of these processes */
	GILTRACE_PAUSED = 8,     /* attached, but nothing is recorded before giltrace_resume() */
};

struct giltrace_opts {
	size_t size;            /* of this struct: GILTRACE_OPTS_INIT sets it */
	const char *output_dir; /* NULL: $GILTRACE_DATA_DIR, else the current folder */
	const pid_t *pids;      /* NULL, and neither ALL flag: this process */
	size_t n_pids;
	uint64_t duration_ns; /* 0: until stopped */
	uint32_t flags;       /* enum giltrace_flags, ored */
	uint32_t timeout_ms;  /* for the probes to be live, and for an answer; 0: 60,000 */
	/*
	 * Path or name of giltrace, or a command that ends with it, as "sudo -n giltrace": if it is
	 * not the path of a file, it is cut at blanks. NULL: $GILTRACE_COMMAND, else "giltrace" in
	 * $PATH. A program with more rights than its user (set-user-ID, capabilities) must name an
	 * absolute path here; the child's only variable is a PATH of the system's folders then.
	 */
	const char *command;
	const char *const *args; /* more options of giltrace(1); ends with NULL. NULL: none */
};

#define GILTRACE_OPTS_INIT                                                                         \
	{                                                                                          \
		sizeof(struct giltrace_opts), NULL, NULL, 0, 0, 0, 0, NULL, NULL                   \
	}

struct giltrace_stats {
	size_t size; /* of this struct, set by the caller: no more than that is written */
	uint64_t events;
	uint64_t lost; /* there was no room for them, or they could not be written */
	uint64_t bytes;
	uint64_t elapsed_ns; /* since the probes were live, pauses included */
	uint64_t paused_ns;
	uint64_t marks;     /* that are in the files */
	uint32_t processes; /* that are recorded now; once it has ended: that have a file */
	uint32_t state;     /* enum giltrace_state */
	int32_t status; /* ENDED: giltrace's exit status, docs/embedding.md; -1: it was killed */
};

#define GILTRACE_STATS_INIT                                                                        \
	{                                                                                          \
		sizeof(struct giltrace_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0                           \
	}

enum giltrace_state { GILTRACE_RECORDING = 1, GILTRACE_PAUSED_NOW = 2, GILTRACE_ENDED = 3 };

/*
 * Returns when the probes are live. opts NULL: all as it is without. *out is set to NULL on
 * failure, and no process and no probe of giltrace is left then. Files may be: above all after
 * -ETIMEDOUT, if giltrace was ready just then, one of each process, whole or only begun.
 *
 *   -ENOENT      there is no such program
 *   -EACCES      rights are missing: giltrace's, or to execute it, or what stands before it in the
 *                command (sudo) has not started it; or .command is no absolute path, in a program
 *                with more rights than its user
 *   -ESRCH       there is no such process, or none to record
 *   -ENOTSUP     a process is no CPython that can be traced
 *   -EIO         a file could not be written
 *   -ETIMEDOUT   it was not ready in time, and was ended; files may be left
 *   -EINVAL      an option that is not understood, or what was started is no giltrace, or is too
 *                old or too new
 *   -ECHILD      giltrace ended for another reason
 *   others       of the system, as -EMFILE
 */
int giltrace_start(const struct giltrace_opts *opts, struct giltrace **out);

/*
 * A named instant, of this thread, now: it shows in the trace of each recorded process, and on this
 * thread's row. Costs a few system calls; waits for nobody. Of the name, GIL_MARK_MAX (127) bytes
 * are kept. -EINVAL: it has no name; -EAGAIN: giltrace does not keep up, the mark is dropped;
 * -EPIPE: the recording has ended.
 */
int giltrace_mark(struct giltrace *g, const char *name);

/*
 * Stops recording for a while, the probes stay: a hit costs little less (docs/control.md).
 * Returns when that is done. The trace shows the pause. Twice is no error. -EPIPE: it has ended;
 * -ETIMEDOUT: no answer; -EREMOTEIO: giltrace refuses.
 */
int giltrace_pause(struct giltrace *g);
int giltrace_resume(struct giltrace *g);

/* How it goes. Once it has ended, how that was. -ETIMEDOUT. */
int giltrace_stats(struct giltrace *g, struct giltrace_stats *stats);

/*
 * Ends the recording and returns when the files are complete and all probes are gone; a second call
 * returns what the first did. stats may be NULL. Losses are no failure: see stats.
 *
 *   -EIO         a file could not be written, or giltrace was killed: what was recorded until then
 *                is good
 *   -EREMOTEIO   what was recorded does not add up, or giltrace failed otherwise
 *   -ETIMEDOUT   for .timeout_ms no file has become complete; giltrace was ended
 */
int giltrace_stop(struct giltrace *g, struct giltrace_stats *stats);

/*
 * Absolute path of a file, by index from 0 on; NULL: there are no more. While it is recorded, those
 * that were made at the start, after giltrace_stop() all. Valid until giltrace_free().
 */
const char *giltrace_file(struct giltrace *g, size_t i);

/*
 * What giltrace has said, warnings too, after giltrace_stop(): lines, or "". The first 16 KiB of
 * it. Valid until giltrace_free().
 */
const char *giltrace_messages(struct giltrace *g);

/* Stops what is not stopped, and frees. NULL is allowed. */
void giltrace_free(struct giltrace *g);

/*
 * Of the last call by this thread that failed: one line or several. Never NULL. Valid until its
 * next call.
 */
const char *giltrace_error(void);

#ifdef __cplusplus
}
#endif

#endif
