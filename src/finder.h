/* SPDX-License-Identifier: Apache-2.0 */
/*
 * finder.h - finds the processes that are to be recorded, and opens their recordings: those that
 * are named, every Python, every Python that is bound to an NPU, and the children of targets; at
 * first all that are there, then, by a thread of its own, those that come later. So what a hostile
 * or slow process costs is not paid by the recordings of others.
 *
 * Owns the cache of probe sites, which the recordings point into: it must outlive them. All
 * functions are called by one thread, the session's.
 */
#ifndef GT_FINDER_H
#define GT_FINDER_H

#include "recording.h"

struct gt_finder;

struct gt_finder_opts {
	const pid_t *pids; /* processes that are named */
	size_t n_pids;
	uint8_t all_npu, all_python;
	uint8_t follow; /* descendants of all these, too */
	uint8_t deep;   /* look at debug information, too: for people, not to record */
	enum gt_probe_mode probe_mode;
	const char *device_root; /* NULL: /dev */
};

struct gt_found {
	/* The caller's from now on. NULL: the process that is held cannot be recorded. */
	struct gt_recording *recording;
	pid_t pid;
	const char *how; /* why it was not there at first: "forked", "executed", "found"; or NULL */
	uint64_t born_mono_ns; /* since when it is what it is; 0: not known */
	uint8_t held;          /* it was GT_LOOK_HELD */
};

/* -errno, logged. The options must outlive the finder. */
int gt_finder_open(const struct gt_finder_opts *opts, struct gt_finder **out);
void gt_finder_close(struct gt_finder *f);

/*
 * Finds all that are there. Named ones that cannot be traced are logged; returns the worst of that,
 * or GT_NO_TARGET where nothing was named and nothing is there, logged, too.
 */
enum gt_status gt_finder_first(struct gt_finder *f);

/*
 * After gt_finder_first(), with `follow`: those that have been found, and their descendants, which
 * need not be Pythons.
 */
void gt_finder_followed(const struct gt_finder *f, void (*fn)(void *ctx, pid_t pid), void *ctx);

/*
 * Before gt_finder_start(): descendants that have come since. They are looked at by the thread.
 * Returns how many; gt_finder_followed() has them, too.
 */
size_t gt_finder_descend(struct gt_finder *f);

/* Are there NPUs on this host? If not, no process can come to use one. */
int gt_finder_has_npus(const struct gt_finder *f);

/* 1: for want of memory or descriptors, processes may be missing; logged. */
int gt_finder_failed(const struct gt_finder *f);

/* The next process that was found: 1, or 0 and nothing. */
int gt_finder_take(struct gt_finder *f, struct gt_found *out);

/*
 * From here on a thread looks for late comers. children_in_proc: nobody tells of the children of
 * followed processes, so they are looked for in /proc. -errno, logged.
 */
int gt_finder_start(struct gt_finder *f, int children_in_proc);

/* Readable when gt_finder_take() has something. */
int gt_finder_fd(const struct gt_finder *f);

/*
 * A process was born, or has executed another program, at mono_ns: it may be a Python, or become
 * one, and is looked at until it is or ends. parent: that has forked it, or 0. how must be static.
 */
enum gt_look {
	GT_LOOK_ON,    /* as long as it lives */
	GT_LOOK_SLOW,  /* the same, but not before a second: it may load one */
	GT_LOOK_SHORT, /* only while it starts: all processes are looked at anyway */
	GT_LOOK_HELD,  /* once, at once: it stands at its entry point and waits for the answer */
};
void gt_finder_look(struct gt_finder *f, pid_t pid, pid_t parent, const char *how, uint64_t mono_ns,
		    enum gt_look look);

/* With children_in_proc: a process whose children count. */
void gt_finder_follow(struct gt_finder *f, pid_t pid);

/* Processes that are looked at, and may become targets. */
size_t gt_finder_pending(struct gt_finder *f);

/*
 * Ends the thread: nothing more is found. Waits for a second at most: it may hang in a file, and
 * the finder is not freed then.
 */
void gt_finder_stop(struct gt_finder *f);

#endif
