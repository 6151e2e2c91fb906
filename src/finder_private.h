/* SPDX-License-Identifier: Apache-2.0 */
/*
 * finder_private.h - what finder.c (the thread, and what the session asks) and finder_look.c
 * (looking at processes) share.
 */
#ifndef GT_FINDER_PRIVATE_H
#define GT_FINDER_PRIVATE_H

#include <pthread.h>

#include "families.h"
#include "finder.h"
#include "proclist.h"

#define TICK_NS          (10 * MS) /* of a clock in /proc; USER_HZ is 100 on both machines */
#define MS               1000000ull
#define SCAN_NS          (1000 * MS) /* between two looks at all processes */
#define CHILDREN_NS      (200 * MS)  /* likewise, for children that nobody tells of */
#define RECHECK_MAX_NS   (15000 * MS)
#define SOON_NS          (1 * MS) /* after an exec: its libraries are mapped within milliseconds */
#define STARTING_NS      (2000 * MS) /* how long a program may take to load its libraries */
#define STARTING_WAIT_NS (20 * MS)
#define STOP_SECONDS     1 /* for what the thread is at */
#define WATCH_MAX        65536

/* A process that is looked at until it is a Python. */
struct watched {
	pid_t pid;
	pid_t parent;         /* 0: not known */
	uint64_t start_ticks; /* 0: not known yet */
	const char *how;
	uint64_t born_ns;
	uint64_t wait_ns, next_ns;
	enum gt_look look;
	uint64_t until_ns;
};

struct gt_finder {
	const struct gt_finder_opts *opts;
	struct gt_pycache *cache;
	struct gt_npu_host *npus;

	/* The thread's; the session's before it runs. */
	struct gt_proclist processes; /* where all are looked at */
	struct watched *watched;
	size_t n_watched;
	struct gt_families *families; /* NULL: not followed */
	uint64_t scan_ns;             /* of the next scan */
	pid_t barred;                 /* a process that we are not let look into; 0: none so far */
	int barred_err;

	pthread_t thread;
	int running, children_in_proc, late;
	int failed; /* a process could not be looked at, for want of memory or descriptors */
	int found_fd, wake_fd; /* eventfds */

	pthread_mutex_t lock; /* for what follows */
	int stop;
	struct gt_found *found;
	size_t n_found;
	struct watched *told; /* to be watched; with how NULL: to be followed */
	size_t n_told;
	size_t pending; /* of the watched, as last counted */
};

/* Are all processes to be looked at, or only some? */
static inline int gt_finder_wants_all(const struct gt_finder *f)
{
	return f->opts->all_npu || f->opts->all_python;
}

/* Makes room for one more; the array keeps what it has where that fails, which is logged. */
int gt_finder_grow(void *array, size_t n, size_t size);

/* ---- finder_look.c ---- */

/*
 * Opens the recording of a Python, and hands it on; the process is taken over. What goes wrong with
 * one that nobody has named, because it has ended or executed something else meanwhile, is not
 * worth a word: -EAGAIN. 0 or -errno.
 */
int gt_finder_open_python(struct gt_finder *f, struct gt_proc *p, int named,
			  const struct gt_pytarget *known, const struct gt_npus *npus,
			  const struct gt_found *as);

/* What a process is bound to, in *npus; NULL: that is not known. */
const struct gt_npus *gt_finder_npus(struct gt_finder *f, const struct gt_proc *p,
				     struct gt_npus *npus);

/* Looks at all processes that may have become what is asked for. */
void gt_finder_scan(struct gt_finder *f, uint64_t now_ns);
void gt_finder_warn_barred(const struct gt_finder *f);

/* A process is looked at from now on, until it is a Python; and those whose time has come are. */
void gt_finder_watch(struct gt_finder *f, const struct watched *w);
void gt_finder_look_at_watched(struct gt_finder *f, uint64_t now_ns);

#endif
