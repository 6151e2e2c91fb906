// SPDX-License-Identifier: Apache-2.0
#include "toldnames.h"

struct gt_toldname {
	struct gt_pyname told;
	char read[GT_PYNAME_LEN]; /* what the memory said beside it; "": nothing so far */
};

/* Where it is, or belongs. */
static size_t place_of(const struct gt_toldnames *t, uint32_t ns_tid)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (t->name[mid].told.ns_tid < ns_tid)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

int gt_toldnames_put(struct gt_toldnames *t, const struct gt_pyname *name)
{
	size_t i = place_of(t, name->ns_tid);

	if (i == t->n || t->name[i].told.ns_tid != name->ns_tid) {
		if (t->n == GT_PYNAMES_MAX)
			return -ENOSPC;
		if (t->n == t->room) {
			size_t room = t->room ? 2 * t->room : 16;
			struct gt_toldname *more =
				reallocarray(t->name, room, sizeof(struct gt_toldname));

			if (!more)
				return -ENOMEM;
			t->name = more;
			t->room = room;
		}
		memmove(&t->name[i + 1], &t->name[i], (t->n - i) * sizeof(*t->name));
		t->n++;
	}
	t->name[i] = (struct gt_toldname){.told = *name};
	return 0;
}

/* Does what was told of a thread still count beside what the memory says of it now? */
static int still_counts(struct gt_toldname *t, const struct gt_pyname *read)
{
	if (read->dummy)
		return 1;
	if (!*t->read)
		memcpy(t->read, read->name, sizeof(t->read));
	return !strcmp(t->read, read->name);
}

int gt_toldnames_merge(struct gt_toldnames *t, const struct gt_pyname *read, size_t n,
		       struct gt_pyname **out, size_t *n_out)
{
	struct gt_pyname *all = calloc(t->n + n + 1, sizeof(*all));
	size_t kept = 0, k = 0, n_all = 0;

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		struct gt_toldname *told = &t->name[i];

		while (k < n && read[k].ns_tid < told->told.ns_tid)
			all[n_all++] = read[k++];
		if (k < n && read[k].ns_tid == told->told.ns_tid) {
			const struct gt_pyname *same = &read[k++];

			if (!still_counts(told, same)) {
				all[n_all++] = *same;
				continue;
			}
		}
		all[n_all++] = told->told;
		t->name[kept++] = *told;
	}
	while (k < n)
		all[n_all++] = read[k++];
	t->n = kept;
	*out = all;
	*n_out = n_all;
	return 0;
}

void gt_toldnames_free(struct gt_toldnames *t)
{
	free(t->name);
	*t = (struct gt_toldnames){0};
}
