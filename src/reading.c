// SPDX-License-Identifier: Apache-2.0
#include "reading.h"

#include "bounded.h"
#include "log.h"

#define READ_MAX_MS 300 /* some milliseconds are usual, for hundreds of threads */

static void read_gils(void *arg)
{
	struct gt_reading *a = arg;

	a->err = gt_snapshot_gils(&a->proc, a->py.runtime, &a->gils, &a->why);
}

static void read_names(void *arg)
{
	struct gt_reading *a = arg;

	a->err = gt_pynames_read(&a->proc, &a->py, &a->names, &a->n_names, &a->why);
}

/* Command line and environment lie in its memory, too. */
static void read_about(void *arg)
{
	struct gt_reading *a = arg;

	a->err = gt_about(&a->proc, &a->about);
	if (a->err)
		memset(&a->about, 0, sizeof(a->about));
	a->rank = gt_rank_of(&a->proc, a->about.cmdline, &a->npus);
}

static void read_title(void *arg)
{
	struct gt_reading *a = arg;

	a->err = gt_about_cmdline(&a->proc, a->about.cmdline, sizeof(a->about.cmdline));
}

struct gt_reading *gt_reading_make(struct gt_recording *r, uint32_t python,
				   enum gt_reading_what what, const struct gt_recorder *rec)
{
	static void (*const calls[])(void *arg) = {
		[GT_READ_GILS] = read_gils,
		[GT_READ_NAMES] = read_names,
		[GT_READ_ABOUT] = read_about,
		[GT_READ_TITLE] = read_title,
	};
	static int told; /* once: it may be so for all, and each second */
	struct gt_reading *a = r->no_memory ? NULL : calloc(1, sizeof(*a));
	int err;

	if (!a)
		return NULL;
	a->proc = r->proc;
	a->py = r->py.python[python];
	a->npus = r->npus;
	err = gt_bounded_call(calls[what], a, READ_MAX_MS, rec ? rec->meanwhile : NULL,
			      rec ? rec->ctx : NULL);
	if (!err)
		return a;
	if (err != -ETIMEDOUT) {
		free(a);
		if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
			gt_warn("process %d: no thread can be started to read its memory: %s; what "
				"it is called, names of its threads and what it was in may be "
				"missing",
				r->proc.pid, strerror(-err));
		return NULL;
	}
	r->no_memory = 1;
	gt_warn("process %d: a read of its memory hangs, so its threads' names and what it was in "
		"are not known",
		r->proc.pid);
	return NULL;
}
