/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h - the ids under which the threads of one recording are shown, where these are others than
 * those that its events carry: of the process's own PID namespace, or of the host.
 *
 * A THREAD record tells such an id, and may stand behind events of its thread. So there are two
 * passes over the events: gt_rows_learn() each, gt_rows_settle(), gt_rows_find() each again, in the
 * same order. A thread is known by its recorded id between two EXITs of that id; a MARK, which may
 * stand a little beside its place, neither begins nor ends one. Two threads that had one shown id
 * one after the other share its row. One whose shown id is not known gets a row of its own, under a
 * number that no thread has.
 *
 * Memory grows with the number of threads. Used by one thread.
 */
#ifndef GT_ROWS_H
#define GT_ROWS_H

#include "base.h"
#include "giltrace/gilfile.h"

enum gt_ids { GT_IDS_NAMESPACE, GT_IDS_HOST };

struct gt_rows_opts {
	enum gt_ids ids;
	uint32_t pid;       /* of the process, as its events carry it; 0: not known */
	uint32_t shown_pid; /* .. and as it is to be shown, so that of the main thread, too */
	uint8_t on_host;    /* the recorded ids are those of the host */
};

struct gt_rows;

int gt_rows_create(const struct gt_rows_opts *opts, struct gt_rows **out); /* -ENOMEM */
void gt_rows_free(struct gt_rows *r);

/* The first pass. -ENOMEM, -E2BIG (more than GT_ROWS_THREADS_MAX ids). */
#define GT_ROWS_THREADS_MAX (1u << 22) /* Linux: PID_MAX_LIMIT */
int gt_rows_learn(struct gt_rows *r, const struct gil_event *ev);

/* Ends the first pass. */
void gt_rows_settle(struct gt_rows *r);

/* The second pass: the event's thread as it is shown. -E2BIG where gt_rows_learn() refused it. */
int gt_rows_find(struct gt_rows *r, const struct gil_event *ev, uint32_t *row);

/* The main thread's row; 0: not known. */
uint32_t gt_rows_main(const struct gt_rows *r);

/*
 * Of a row whose number is not the thread's id: the recorded id, and in *where (static) the word
 * for where it is that: "host" or "recorder". 0: the number is the thread's id.
 */
uint32_t gt_rows_recorded(const struct gt_rows *r, uint32_t row, const char **where);

/* How many rows are such. */
uint32_t gt_rows_unknown(const struct gt_rows *r);

#endif
