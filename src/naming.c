// SPDX-License-Identifier: Apache-2.0
/* Names of a recording's threads (recording.h): from the interpreter, and from the program. */
#include "recording.h"

#include "describe.h"
#include "log.h"
#include "reading.h"

#define NAMES_EVERY_NS 200000000ull

/* What was read, and what the program has told, which goes before it. Returns how many have one. */
static uint32_t collect(struct gt_recording *r, const struct gt_pyname *read, size_t n,
			uint64_t mono_ns)
{
	gt_autofree struct gt_pyname *all = NULL;
	size_t n_all;

	if (!r->told.n || gt_toldnames_merge(&r->told, read, n, &all, &n_all))
		return gt_collect_names(r->collector, read, n, mono_ns);
	return gt_collect_names(r->collector, all, n_all, mono_ns);
}

void gt_recording_read_names(struct gt_recording *r, const struct gt_recorder *rec, int at_end,
			     uint64_t mono_ns)
{
	const char *why = NULL;
	struct gt_number named;
	uint32_t n_named = 0;

	if (!at_end && !r->told_news && !gt_collect_wants_names(r->collector))
		return;
	r->told_news = 0;
	if (r->no_names) {
		if (r->told.n)
			(void)collect(r, NULL, 0, mono_ns);
		return;
	}
	for (uint32_t i = 0; i < r->py.n; i++) {
		gt_autofree struct gt_reading *a = gt_reading_make(r, i, GT_READ_NAMES, rec);
		gt_autofree struct gt_pyname *names = a && !a->err ? a->names : NULL;

		why = !a ? "its memory cannot be read" : a->err ? a->why : why;
		if (a && a->err == -ENOTSUP && r->py.n == 1)
			r->no_names = 1;
		n_named += collect(r, names, names ? a->n_names : 0, mono_ns);
	}
	if (!at_end && !r->no_names)
		return;
	named = gt_number(1, n_named);

	const char *const meta[][2] = {
		{"python.threads_named", named.text},
		{"python.threads_why", n_named ? NULL : why},
	};

	(void)gt_collect_meta(r->collector, meta, GT_ARRAY_SIZE(meta));
}

void gt_recording_names(struct gt_recording *r, const struct gt_recorder *rec, uint64_t mono_ns)
{
	if (mono_ns - r->names_mono_ns < NAMES_EVERY_NS)
		return;
	r->names_mono_ns = mono_ns;
	gt_recording_read_names(r, rec, 0, mono_ns);
}

void gt_recording_told(struct gt_recording *r, struct gt_request *rq)
{
	struct gt_pyname name;
	int err = 0;

	while (gt_request_thread(rq, &name)) {
		int failed = gt_toldnames_put(&r->told, &name);

		err = failed ? failed : err;
	}
	r->told_news = 1;
	if (!err || r->told_too_much)
		return;
	gt_warn("process %d: not all names that it has told for its threads are kept: %s",
		r->proc.pid, strerror(-err));
	r->told_too_much = 1;
}
