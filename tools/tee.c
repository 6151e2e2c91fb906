// SPDX-License-Identifier: Apache-2.0
#include "tee.h"

struct branch {
	struct gt_sink *sink;
	int err; /* its first: it is only finished then, and the others go on */
};

struct tee {
	struct gt_sink sink;
	int *errors;
	size_t n;
	struct branch branches[];
};

/* An error of all of them ends it; else the others are worth having. */
static int note(struct tee *t, struct branch *b, int err)
{
	b->err = err;
	for (size_t i = 0; i < t->n; i++)
		if (!t->branches[i].err)
			return 0;
	return t->branches[0].err;
}

#define HAND_ON(s, op, what)                                                                       \
	do {                                                                                       \
		struct tee *t_ = (struct tee *)(s);                                                \
		int ret_ = 0;                                                                      \
                                                                                                   \
		for (size_t i_ = 0; i_ < t_->n; i_++) {                                            \
			struct branch *b_ = &t_->branches[i_];                                     \
			int err_ = 0;                                                              \
                                                                                                   \
			if (!b_->err && b_->sink->ops->op)                                         \
				err_ = b_->sink->ops->op(b_->sink, what);                          \
			if (err_)                                                                  \
				ret_ = note(t_, b_, err_);                                         \
		}                                                                                  \
		return ret_;                                                                       \
	} while (0)

static int tee_process(struct gt_sink *s, const struct gt_sink_process *p)
{
	HAND_ON(s, process, p);
}

static int tee_span(struct gt_sink *s, const struct gt_span *span)
{
	HAND_ON(s, span, span);
}

static int tee_gap(struct gt_sink *s, const struct gt_gap *gap)
{
	HAND_ON(s, gap, gap);
}

static int tee_mark(struct gt_sink *s, const struct gt_mark *mark)
{
	HAND_ON(s, mark, mark);
}

static int tee_thread(struct gt_sink *s, const struct gt_sink_thread *thread)
{
	HAND_ON(s, thread, thread);
}

static int tee_pair(struct gt_sink *s, const struct gt_pair *pair)
{
	HAND_ON(s, pair, pair);
}

static int tee_end(struct gt_sink *s, const struct gt_sink_end *end)
{
	HAND_ON(s, end, end);
}

static int tee_finish(struct gt_sink *s)
{
	struct tee *t = (struct tee *)s;
	int err = 0;

	for (size_t i = 0; i < t->n; i++) {
		struct branch *b = &t->branches[i];
		int finished = b->sink->ops->finish(b->sink);

		if (!b->err)
			b->err = finished;
		if (!err)
			err = b->err;
		if (t->errors)
			t->errors[i] = b->err;
	}
	free(t);
	return err;
}

int gt_tee_create(struct gt_sink *const *sinks, size_t n, int *errors, struct gt_sink **out)
{
	static const struct gt_sink_ops ops = {
		.process = tee_process,
		.span = tee_span,
		.gap = tee_gap,
		.mark = tee_mark,
		.thread = tee_thread,
		.pair = tee_pair,
		.end = tee_end,
		.finish = tee_finish,
	};
	struct tee *t = calloc(1, sizeof(*t) + n * sizeof(t->branches[0]));

	if (!t) {
		for (size_t i = 0; i < n; i++)
			sinks[i]->ops->finish(sinks[i]);
		return -ENOMEM;
	}
	t->sink.ops = &ops;
	t->errors = errors;
	t->n = n;
	for (size_t i = 0; i < n; i++)
		t->branches[i].sink = sinks[i];
	*out = &t->sink;
	return 0;
}
