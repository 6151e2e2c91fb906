/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profmatch.h - which recordings belong to which Profiler: by the process's pid, else by a number
 * in its trace that is the pid of a recording, else by its rank, else because there is only one of
 * each; where several processes fit, by the time of the trace; and those of its children (a
 * DataLoader's workers) with it. Says what contradicts, and what cannot be decided. No state.
 *
 * A process may have several Profilers (sessions one after the other), and a Profiler several
 * recordings (of one process, or of those that its trace has events of).
 */
#ifndef GT_PROFMATCH_H
#define GT_PROFMATCH_H

#include "base.h"
#include "giltrace/gilfile.h"
#include "profiler.h"

/* Of a recording. */
struct gt_match_who {
	const char *path;
	uint32_t ns_pid, pid, host_pid; /* 0: not known */
	uint32_t parent;                /* as .pid */
	int64_t rank;                   /* -1: not known */
	uint64_t begin_ns, end_ns;      /* Unix time */
	uint8_t rank_guessed;           /* nothing has told it */
	uint8_t usable;                 /* 0: it takes no part */
	char host[64];
	char process[256]; /* equal where two recordings are of one process */
};

void gt_match_who(const gil_reader *r, const char *path, struct gt_match_who *out);

enum gt_match {
	GT_MATCH_NONE,
	GT_MATCH_PID,
	GT_MATCH_INSIDE,
	GT_MATCH_RANK,
	GT_MATCH_ONLY,
	GT_MATCH_CHILD,
};

/* In words: "by its pid". Static. */
const char *gt_match_text(enum gt_match m);

/*
 * pairs[i * p->n + k] of recording i and Profiler k. Returns how many recordings and Profilers
 * belong to nothing; each is logged. A recording without a Profiler that has started one with it
 * (torchrun and the like) is information, and does not count.
 */
size_t gt_match(const struct gt_match_who *who, size_t n, const struct gt_profilers *p,
		enum gt_match *pairs);

#endif
