// SPDX-License-Identifier: Apache-2.0
#include "jointsink.h"

#include <inttypes.h>
#include <stdio.h>

struct joint {
	struct gt_sink sink;
	struct gt_sink *behind;
	const struct gt_joint_lane *lanes;
	size_t n;
};

static struct gt_sink *behind(struct gt_sink *s)
{
	return ((struct joint *)s)->behind;
}

/* Its own pid is to be seen somewhere. */
static char *tags_of(const struct gt_sink_process *p, const struct gt_joint_lane *lane)
{
	char pid[32] = "", *tags;

	if (p->pid && p->pid < GT_SINK_TID_END && p->pid != lane->pid)
		snprintf(pid, sizeof(pid), "pid %" PRIu64 ", ", p->pid);
	return asprintf(&tags, "%s%s%s%s", p->tags, *p->tags ? ", " : "", pid, lane->tag) < 0
		       ? NULL
		       : tags;
}

static int on_process(struct gt_sink *s, const struct gt_sink_process *p)
{
	const struct joint *j = (const struct joint *)s;
	struct gt_sink_process own = *p;
	gt_autofree char *tags = NULL;

	for (size_t i = 0; i < j->n; i++) {
		if (j->lanes[i].input != p->order)
			continue;
		tags = tags_of(p, &j->lanes[i]);
		if (!tags)
			return -ENOMEM;
		own.pid = j->lanes[i].pid;
		own.order = j->lanes[i].order;
		own.tags = tags;
		break;
	}
	return j->behind->ops->process(j->behind, &own);
}

static int on_span(struct gt_sink *s, const struct gt_span *span)
{
	return behind(s)->ops->span(behind(s), span);
}

static int on_gap(struct gt_sink *s, const struct gt_gap *gap)
{
	return behind(s)->ops->gap(behind(s), gap);
}

static int on_mark(struct gt_sink *s, const struct gt_mark *mark)
{
	return behind(s)->ops->mark ? behind(s)->ops->mark(behind(s), mark) : 0;
}

static int on_thread(struct gt_sink *s, const struct gt_sink_thread *t)
{
	return behind(s)->ops->thread ? behind(s)->ops->thread(behind(s), t) : 0;
}

static int on_pair(struct gt_sink *s, const struct gt_pair *pair)
{
	return behind(s)->ops->pair ? behind(s)->ops->pair(behind(s), pair) : 0;
}

static int on_end(struct gt_sink *s, const struct gt_sink_end *end)
{
	return behind(s)->ops->end ? behind(s)->ops->end(behind(s), end) : 0;
}

static int on_finish(struct gt_sink *s)
{
	int err = behind(s)->ops->finish(behind(s));

	free(s);
	return err;
}

int gt_jointsink_create(const struct gt_joint_lane *lanes, size_t n, struct gt_sink *next,
			struct gt_sink **out)
{
	static const struct gt_sink_ops ops = {
		.process = on_process,
		.span = on_span,
		.gap = on_gap,
		.mark = on_mark,
		.thread = on_thread,
		.pair = on_pair,
		.end = on_end,
		.finish = on_finish,
	};
	struct joint *j = calloc(1, sizeof(*j));

	if (!j)
		return -ENOMEM;
	*j = (struct joint){.sink.ops = &ops, .behind = next, .lanes = lanes, .n = n};
	*out = &j->sink;
	return 0;
}
