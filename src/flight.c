// SPDX-License-Identifier: Apache-2.0
#include "flight_private.h"

/*
 * A block that is dropped is folded first: it is decoded, and what it says of GILs and threads is
 * kept in `front`, which so tells how things stood when the window began. All of this is done for a
 * block, some tens of KiB of events, and never for a single event.
 */

int gt_kept_events(const struct gt_kept *k, gt_event_fn fn, void *ctx)
{
	struct gt_decoder d;
	int r = 0;

	if (k->b.type != GIL_BLOCK_EVENTS)
		return 0;
	gt_decoder_start(&d, k->payload, k->b.size, k->b.count, k->b.first_ns, k->b.last_ns);
	while (d.left && !r) {
		struct gil_event ev;

		if (gt_decode(&d, &ev)) /* our own encoder wrote it */
			return -EINVAL;
		if (ev.kind != GIL_FORCED) /* it is .forced of the release behind it */
			r = fn(ctx, &ev);
	}
	return r;
}

/* ---- lists ---- */

static void append(struct gt_kept_list *l, struct gt_kept *k)
{
	if (l->last)
		l->last->next = k;
	else
		l->first = k;
	l->last = k;
}

static void free_list(struct gt_kept_list *l)
{
	while (l->first) {
		struct gt_kept *k = l->first;

		l->first = k->next;
		free(k);
	}
}

static size_t size_of(const struct gt_block *b)
{
	return sizeof(struct gt_kept) + b->size + GT_DECODE_SLACK;
}

static struct gt_kept *copy_of(const struct gt_block *b, const uint8_t *payload)
{
	struct gt_kept *k = malloc(size_of(b));

	if (!k)
		return NULL;
	k->next = NULL;
	k->b = *b;
	memcpy(k->payload, payload, b->size);
	memset(k->payload + b->size, 0, GT_DECODE_SLACK);
	return k;
}

/* ---- limits ---- */

static int has_limits(const struct gt_flight *f)
{
	return f->opts.hold_ns || f->opts.wait_ns;
}

static void exceed(struct gt_flight *f, const struct gt_stretch *s)
{
	if (!f->n_exceeded++)
		f->exceeded = *s;
}

static int watch_event(void *ctx, const struct gil_event *ev)
{
	struct gt_flight *f = ctx;
	struct gt_stretch over;
	uint64_t limit_ns;

	if (!gt_standing_event(&f->head, ev, &over) || over.exceeded)
		return 0;
	limit_ns = over.is_wait ? f->opts.wait_ns : f->opts.hold_ns;
	if (limit_ns && over.end_ns > over.begin_ns && over.end_ns - over.begin_ns >= limit_ns)
		exceed(f, &over);
	return 0;
}

static void watch_next(struct gt_flight *f)
{
	(void)gt_kept_events(f->unwatched, watch_event, f);
	f->unwatched = f->unwatched->next;
}

/* ---- dropping ---- */

static int fold_event(void *ctx, const struct gil_event *ev)
{
	struct gt_flight *f = ctx;
	struct gt_stretch unused;

	(void)gt_standing_event(&f->front, ev, &unused);
	/* A mark may have any time. */
	if (ev->kind != GIL_MARK && ev->mono_ns > f->folded_ns)
		f->folded_ns = ev->mono_ns;
	return 0;
}

/* Returns 0 where there is none that may be. */
static int drop_first(struct gt_flight *f)
{
	struct gt_kept *k = f->blocks.first;

	if (!k || k == f->cursor)
		return 0;
	if (k == f->unwatched)
		watch_next(f);
	(void)gt_kept_events(k, fold_event, f);
	f->blocks.first = k->next;
	if (!k->next)
		f->blocks.last = NULL;
	f->bytes -= size_of(&k->b);
	if (k->b.type == GIL_BLOCK_EVENTS)
		f->records -= k->b.count;
	free(k);
	return 1;
}

/* Before its time. */
static int squeeze(struct gt_flight *f)
{
	uint64_t last_ns = f->blocks.first ? f->blocks.first->b.last_ns : 0;

	if (!drop_first(f))
		return 0;
	f->squeezed++;
	f->squeezed_ns = last_ns;
	return 1;
}

int gt_flight_keep(void *ctx, const struct gt_block *b, const uint8_t *payload)
{
	int about = b->type == GIL_BLOCK_META || b->type == GIL_BLOCK_SITES;
	struct gt_flight *f = ctx;
	struct gt_kept *k;

	while (!about && f->bytes && f->bytes + size_of(b) > f->opts.memory && squeeze(f))
		;
	do {
		k = copy_of(b, payload);
	} while (!k && squeeze(f));
	if (!k)
		return -ENOMEM;
	append(about ? &f->about : &f->blocks, k);
	if (about)
		return 0;
	f->bytes += size_of(b);
	if (b->type == GIL_BLOCK_EVENTS)
		f->records += b->count;
	if (has_limits(f) && !f->unwatched)
		f->unwatched = k;
	return 0;
}

size_t gt_flight_tick(struct gt_flight *f, uint64_t mono_ns, struct gt_stretch *first)
{
	const struct gt_flight_opts *o = &f->opts;
	struct gt_stretch lasting;
	size_t n;

	while (f->unwatched)
		watch_next(f);
	while (has_limits(f) &&
	       gt_standing_exceeds(&f->head, mono_ns, o->hold_ns, o->wait_ns, &lasting))
		exceed(f, &lasting);
	while (f->blocks.first && mono_ns > o->window_ns &&
	       f->blocks.first->b.last_ns < mono_ns - o->window_ns && drop_first(f))
		;
	n = f->n_exceeded;
	*first = f->exceeded;
	f->n_exceeded = 0;
	return n;
}

/* ---- the whole ---- */

struct gt_flight *gt_flight_new(const struct gt_flight_opts *opts)
{
	struct gt_flight *f = calloc(1, sizeof(*f));

	if (f)
		f->opts = *opts;
	return f;
}

void gt_flight_free(struct gt_flight *f)
{
	if (!f)
		return;
	free_list(&f->about);
	free_list(&f->blocks);
	gt_standing_free(&f->front);
	gt_standing_free(&f->head);
	free(f);
}

void gt_flight_stats(const struct gt_flight *f, struct gt_flight_stats *out)
{
	const struct gt_kept *first = f->blocks.first, *last = f->blocks.last;

	*out = (struct gt_flight_stats){
		.records = f->records,
		.bytes = f->bytes,
		.squeezed = f->squeezed,
	};
	if (first && last->b.last_ns > first->b.first_ns)
		out->span_ns = last->b.last_ns - first->b.first_ns;
}
