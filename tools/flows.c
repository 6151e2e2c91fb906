// SPDX-License-Identifier: Apache-2.0
#include "flows.h"

#include "tidmap.h"

/*
 * An arrow waits at the thread of each end that has not come; a thread has one of each kind at
 * most, since its holds come in order, and what it is waiting for is the next of them.
 */
struct end {
	uint64_t hold_ns; /* start of the hold that must come; 0: none is waited for */
	struct gt_flow flow;
	uint64_t other_ns; /* start of the hold at the other end */
	uint8_t other_came;
};

struct place {
	uint64_t first_ns, last_ns; /* starts of the holds that came; 0: none */
	struct end in, out;         /* arrows that end in, begin in its next hold */
};

struct gt_flows {
	struct gt_tidmap map;
	struct place *places; /* by the number of a thread */
	uint32_t size;
};

void gt_flows_begin(struct gt_flows *f)
{
	gt_tidmap_clear(&f->map);
}

static int find_place(struct gt_flows *f, uint32_t tid, uint32_t *number)
{
	uint32_t n = f->map.n;
	int err = gt_tidmap_add(&f->map, tid, number);

	if (err || f->map.n == n)
		return err;
	if (n == f->size) {
		uint32_t size = n ? n * 2 : 64;
		struct place *places = reallocarray(f->places, size, sizeof(*places));

		if (!places)
			return -ENOMEM;
		f->places = places;
		f->size = size;
	}
	f->places[n] = (struct place){0};
	return 0;
}

int gt_flows_take(struct gt_flows *f, const struct gt_span *take)
{
	const struct gt_wait *w = &take->wait;
	struct gt_flow flow = {.from_tid = w->from_tid, .to_tid = take->tid, .to_ns = take->end_ns};
	uint32_t from_number, to_number;
	struct place *from, *to;
	int err;

	if (!take->acquired || !w->from_tid || w->from_tid == take->tid)
		return 0;
	err = find_place(f, w->from_tid, &from_number);
	if (!err)
		err = find_place(f, take->tid, &to_number);
	if (err)
		return err;
	from = &f->places[from_number];
	to = &f->places[to_number];
	/* Inside the slice, where it has an inside. */
	flow.from_ns = w->from_ns > w->from_start_ns ? w->from_ns - 1 : w->from_start_ns;
	if (from->first_ns && w->from_start_ns < from->first_ns)
		return 0;
	to->in = (struct end){.hold_ns = take->end_ns,
			      .flow = flow,
			      .other_ns = w->from_start_ns,
			      .other_came = w->from_start_ns <= from->last_ns};
	if (!to->in.other_came)
		from->out = (struct end){
			.hold_ns = w->from_start_ns, .flow = flow, .other_ns = take->end_ns};
	return 0;
}

/* What is left of an end, where `hold_ns` has come: 1 the flow is complete. */
static int arrive(struct gt_flows *f, struct end *e, int is_in, uint64_t hold_ns)
{
	struct end here = *e, *other;
	uint32_t number;

	if (!here.hold_ns || here.hold_ns > hold_ns)
		return 0;
	e->hold_ns = 0;
	if (here.hold_ns < hold_ns)
		return 0; /* was never handed on */
	if (here.other_came)
		return 1;
	number = gt_tidmap_find(&f->map, is_in ? here.flow.from_tid : here.flow.to_tid);
	if (number == GT_TIDMAP_NONE)
		return 0;
	other = is_in ? &f->places[number].out : &f->places[number].in;
	if (other->hold_ns == here.other_ns && other->other_ns == here.hold_ns)
		other->other_came = 1;
	return 0;
}

int gt_flows_hold(struct gt_flows *f, const struct gt_span *hold, struct gt_flow out[2])
{
	struct gt_flow in_flow, out_flow;
	struct place *p;
	uint32_t number;
	int n = 0, err = find_place(f, hold->tid, &number);

	if (err)
		return err;
	p = &f->places[number];
	in_flow = p->in.flow;
	out_flow = p->out.flow;
	if (arrive(f, &p->in, 1, hold->start_ns))
		out[n++] = in_flow;
	if (arrive(f, &p->out, 0, hold->start_ns))
		out[n++] = out_flow;
	if (!p->first_ns)
		p->first_ns = hold->start_ns;
	p->last_ns = hold->start_ns;
	return n;
}

int gt_flows_create(struct gt_flows **out)
{
	struct gt_flows *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	*out = f;
	return 0;
}

void gt_flows_free(struct gt_flows *f)
{
	if (!f)
		return;
	gt_tidmap_fini(&f->map);
	free(f->places);
	free(f);
}
