// SPDX-License-Identifier: Apache-2.0
#include "bpftarget.h"

#include "pylayout.h"

static void describe_codes(struct gt_target *target, const struct gt_pytarget *py)
{
	target->ncodes = py->n;
	for (uint32_t i = 0; i < py->n; i++) {
		const struct gt_python *p = &py->python[i];
		struct gt_pylayout layout =
			gt_pylayout_of(p->sites->py_major, p->sites->py_minor, p->sites->machine);

		target->codes[i] = (struct gt_code){
			/* libc's functions count for those that have no sites of their own. */
			.start = p->map.start,
			.size = p->sites->n ? 0 : p->map.code_end - p->map.start,
			.switch_cond = p->sites->n ? p->sites->switch_cond : py->libc->switch_cond,
			.drop_how = layout.drop_how,
			.drop_off = {layout.drop_off[0], layout.drop_off[1]},
		};
	}
}

/*
 * The sites of a part without GT_SITE_NOARG know their GIL by the address. Those with it are all of
 * one GIL, which has index 0, and beside another part that index must be theirs alone.
 */
static void reserve_index(struct gt_target *target, const struct gt_pytarget *py)
{
	struct gt_part parts[GT_PARTS_MAX];
	size_t n = gt_pytarget_parts(py, parts);

	for (size_t i = 0; i < n && n > 1; i++) {
		if (!parts[i].sites->n || !(parts[i].sites->site[0].flags & GT_SITE_NOARG))
			continue;
		target->gils[0] = (struct gt_gil){.confirmed = 1};
		target->ngils = 1;
	}
}

void gt_bpftarget_describe(struct gt_target *target, const struct gt_pytarget *py)
{
	describe_codes(target, py);
	reserve_index(target, py);
}

void gt_bpftarget_forget(struct gt_target *target)
{
	memset(target->seen, 0, sizeof(target->seen));
	/* What was kept aside has its time from before. */
	memset(target->cands, 0, sizeof(target->cands));
	for (size_t i = 0; i < GT_MAX_GILS; i++) {
		target->gils[i].holder = 0;
		target->gils[i].pressed = 1; /* as for a GIL that is new: add_gil() */
		target->gils[i].requested = 0;
	}
}
