// SPDX-License-Identifier: Apache-2.0
/* The marks of a process: all are counted, the earliest are kept. They come in any order. */
#include "summary_private.h"

int gt_summary_keep_mark(struct gt_summary_process *p, const struct gt_mark *mark)
{
	struct gt_summary_mark *list = p->marks;
	size_t i = p->nmarks;
	char *name;

	p->marks_total++;
	if (i == GT_SUMMARY_MARKS && mark->at_ns >= list[i - 1].at_ns)
		return 0;
	name = strndup(mark->name, GIL_MARK_MAX);
	if (!name)
		return -ENOMEM;
	if (i == GT_SUMMARY_MARKS)
		free(list[--i].name);
	else
		p->nmarks++;
	for (; i && list[i - 1].at_ns > mark->at_ns; i--)
		list[i] = list[i - 1];
	list[i] = (struct gt_summary_mark){.at_ns = mark->at_ns, .name = name, .tid = mark->tid};
	return 0;
}

void gt_summary_free_marks(struct gt_summary_process *p)
{
	for (size_t i = 0; i < p->nmarks; i++)
		free(p->marks[i].name);
}
