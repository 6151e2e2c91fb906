/* SPDX-License-Identifier: Apache-2.0 */
/*
 * summary_private.h - what a summary knows. Filled by summary.c, read by its outputs
 * (summary_text.c, summary_json.c). docs/summary.md says what each number means.
 */
#ifndef GT_SUMMARY_PRIVATE_H
#define GT_SUMMARY_PRIVATE_H

#include "hist.h"
#include "summary.h"
#include "tidmap.h"

/* What a thread has a histogram of. */
enum gt_summary_what { GT_WAITS, GT_HOLDS, GT_WHATS };

struct gt_summary_thread {
	char *label, *name; /* NULL: not told */
	uint64_t first_ns, observed_ns, unknown_ns;
	struct gt_hist hist[GT_WHATS];
	uint64_t cut[GT_WHATS];    /* of those: began or ended out of sight, so they were longer */
	uint64_t missed[GT_WHATS]; /* of which an end was missed; they have no length */
	uint64_t drop_ns;
	uint64_t finalizing, finalizing_ns; /* waits for nobody, as the interpreter was ending */
	uint64_t takes, contended;
	uint64_t releases[GT_FORCED_KINDS];
	uint64_t blamed_ns;    /* the sum of its pairs as a victim */
	uint64_t lost_hold_ns; /* end of its latest hold, if that was cut at a gap; 0: it was not */
	uint32_t tid;
};

struct gt_summary_gil {
	uint64_t held_ns, unknown_ns, free_ns;
	uint64_t unknown_since_ns; /* a hold of which the end was missed, and no other yet; 0: no */
	uint64_t epoch;            /* in which it was held last */
	uint64_t bucket_held_ns[GT_SUMMARY_BUCKETS];
	uint8_t gil;
};

struct gt_summary_slice {
	uint64_t start_ns, ns;
	struct gt_wait wait;
	uint32_t tid;
	uint8_t open, gil, forced;
};

struct gt_summary_longest {
	struct gt_summary_slice list[GT_SUMMARY_LONGEST]; /* longest first */
	size_t n;
};

struct gt_summary_mark {
	uint64_t at_ns;
	char *name;
	uint32_t tid; /* 0: the process's */
};

struct gt_summary_process {
	struct gt_sink_process p; /* its texts are copies */
	struct gt_sink_end end;   /* the same */
	uint8_t complete;         /* end() has come */

	struct gt_summary_thread **threads; /* by id once it is complete, until then by .map */
	size_t nthreads, size;
	struct gt_tidmap map;

	struct gt_summary_gil *gils[GIL_INDEX_OTHER + 1]; /* NULL: did not occur */
	struct gt_summary_longest longest[GT_WHATS];
	struct gt_pair *pairs; /* the greatest first, once it is complete */
	size_t npairs, pairs_size;

	/* Buckets: the i-th from bound_ns[i] to bound_ns[i + 1]. */
	uint64_t bound_ns[GT_SUMMARY_BUCKETS + 1];
	uint64_t bucket_wait_ns[GT_SUMMARY_BUCKETS];
	uint64_t bucket_gap_ns[GT_SUMMARY_BUCKETS]; /* nothing is known of so much of it */
	uint8_t bucket_lost[GT_SUMMARY_BUCKETS];    /* events of it were lost */
	uint8_t bucket_unseen[GT_SUMMARY_BUCKETS];  /* there is no record of some of it */
	uint8_t bucket_paused[GT_SUMMARY_BUCKETS];  /* in some of it nothing was to be recorded */
	size_t bucket;                              /* where the latest slice was */

	struct gt_summary_mark marks[GT_SUMMARY_MARKS]; /* the earliest, in order */
	size_t nmarks;
	uint64_t marks_total;

	uint64_t gap_ns, late_ns; /* of the span: lost; before it was recorded */
	uint64_t pauses;
	uint64_t paused_ns;      /* of the span */
	uint64_t unread_ns;      /* of the span: behind a damage of the file */
	uint64_t known_ns;       /* the span without these */
	uint64_t seen_ns;        /* latest time that anything was told of */
	uint64_t gaps_until_ns;  /* end of the latest gap */
	uint64_t epoch;          /* number of the stretch between gaps that goes on .. */
	uint64_t epoch_start_ns; /* .. since when .. */
	uint64_t epochs_ns;      /* .. and the length of those before it */

	/* Sums over its threads. */
	uint64_t wait_ns, observed_ns;
	uint64_t finalizing, finalizing_ns;
};

struct gt_summary {
	struct gt_summary_process **list; /* in the order of the inputs */
	size_t n, size;
};

/* Counts a mark, and keeps it if it is among the earliest. -ENOMEM. */
int gt_summary_keep_mark(struct gt_summary_process *p, const struct gt_mark *mark);
void gt_summary_free_marks(struct gt_summary_process *p);

size_t gt_summary_gils(const struct gt_summary_process *p);

/* Nothing was told of a GIL. It may have been held all the time, or never. */
int gt_summary_silent(const struct gt_summary_process *p);

/* Parts of the time in which a thread was observed; they add up to it. */
static inline uint64_t gt_summary_idle_ns(const struct gt_summary_thread *t)
{
	uint64_t busy = t->hist[GT_WAITS].sum;

	busy = gt_sat_add(busy, t->hist[GT_HOLDS].sum);
	busy = gt_sat_add(busy, t->drop_ns);
	busy = gt_sat_add(busy, t->finalizing_ns);
	busy = gt_sat_add(busy, t->unknown_ns);
	return t->observed_ns > busy ? t->observed_ns - busy : 0;
}

/* a / b * scale, rounded to nearest; 0 where b is 0, and what does not fit is the greatest. */
static inline uint64_t gt_summary_ratio(uint64_t a, uint64_t b, uint64_t scale)
{
	unsigned __int128 q = b ? ((unsigned __int128)a * scale + b / 2) / b : 0;

	return q > UINT64_MAX ? UINT64_MAX : (uint64_t)q;
}

/*
 * The processes in another order: those first whose threads waited for the greatest share of the
 * time in which they were observed. An array to be freed; NULL: out of memory.
 */
const struct gt_summary_process **gt_summary_slowest(const struct gt_summary *s);

/* Those that waited longest first, then held longest. The same of memory. */
const struct gt_summary_thread **gt_summary_by_wait(const struct gt_summary_process *p);

/* For whom others waited: the sums of the pairs with that blocker. */
struct gt_summary_blocker {
	uint64_t ns;
	uint32_t tid; /* as .blocker of a pair */
	uint32_t victims;
};

/* Those for whom others waited longest first. An array to be freed; NULL: out of memory. */
struct gt_summary_blocker *gt_summary_blockers(const struct gt_summary_process *p, size_t *n);

/* A thread by its id, once the process is complete; NULL: there is none. */
const struct gt_summary_thread *gt_summary_thread(const struct gt_summary_process *p, uint32_t tid);

#endif
