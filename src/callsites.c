// SPDX-License-Identifier: Apache-2.0
#include "callsites.h"
#include "insn.h"

#include <elf.h>

/* Bounds for hostile files; a real one stays far below. */
#define TEXT_MAX    (256u << 20) /* bytes of code gone over */
#define CODE_MAX    (8u << 20)   /* bytes of code decoded in all */
#define LOOK_MAX    (64u << 20)  /* instructions looked at in all for where a value came from */
#define SLOTS_MAX   (1u << 20)
#define REFS_MAX    4096 /* calls that define the functions to look at */
#define PARTS_MAX   512
#define CALLS_MAX   8192
#define CALLERS_MAX 65536

/* A growing array; `max` bounds what a hostile file can make us keep. */
struct vec {
	void *v;
	size_t n, room, max;
};

static void *vec_add(struct vec *a, size_t size)
{
	if (a->n == a->max)
		return NULL;
	if (a->n == a->room) {
		size_t room = a->room ? a->room * 2 : 64;
		void *v = reallocarray(a->v, room, size);

		if (!v)
			return NULL;
		a->v = v;
		a->room = room;
	}
	return memset((char *)a->v + a->n++ * size, 0, size);
}

/* Where a call may go: a slot of the GOT (called through memory) or an address of code. */
struct target {
	uint64_t addr;
	int api;        /* index in the list of names, or -1 */
	uint64_t value; /* the function's own address, if this file defines it */
	int wrapper;    /* a function that calls the API with its own first argument */
	int called;     /* by a direct call or jump */
};

struct part { /* a contiguous piece of a function that refers to one of the names */
	struct gt_range range;
	uint64_t owner; /* start of the function it belongs to */
	struct gt_insn *code;
	size_t n;
};

struct gt_callscan {
	const struct gt_image *img;
	const char *const *names;
	size_t nnames, first;
	struct vec slots;   /* struct target, by address */
	struct vec stubs;   /* struct target, by address: PLT stubs and wrappers */
	struct vec refs;    /* uint64_t: addresses of code that refers to one of the names */
	struct vec parts;   /* struct part */
	struct vec calls;   /* struct gt_call */
	struct vec wanted;  /* uint64_t, sorted: for the callers of functions */
	struct vec callers; /* uint64_t */
	const struct gt_segment *seg; /* being scanned */
	uint64_t code, looked;        /* of CODE_MAX, LOOK_MAX */
	int full;                     /* out of memory or of one of the bounds */
};

static int cmp_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void sort_unique(struct vec *a)
{
	uint64_t *v = a->v;
	size_t n = 0;

	if (a->n)
		qsort(v, a->n, sizeof(*v), cmp_u64);
	for (size_t i = 0; i < a->n; i++)
		if (!n || v[n - 1] != v[i])
			v[n++] = v[i];
	a->n = n;
}

/* struct target begins with its address, as cmp_u64 wants it. */
static struct target *find_target(const struct vec *a, uint64_t addr)
{
	return a->n ? bsearch(&addr, a->v, a->n, sizeof(struct target), cmp_u64) : NULL;
}

static void sort_targets(struct vec *a)
{
	if (a->n)
		qsort(a->v, a->n, sizeof(struct target), cmp_u64);
}

static void add_u64(struct gt_callscan *s, struct vec *a, uint64_t v)
{
	uint64_t *p = vec_add(a, sizeof(*p));

	if (p)
		*p = v;
	else
		s->full = 1;
}

static void scan_text(struct gt_callscan *s, gt_insn_fn *fn)
{
	for (unsigned int i = 0; i < s->img->nsegs; i++) {
		const struct gt_segment *seg = &s->img->seg[i];

		s->seg = seg;
		if (seg->exec)
			gt_insn_scan(s->img->machine, s->img->data + seg->offset, seg->size,
				     seg->vaddr, fn, s);
	}
}

/* ---- where the five functions are called ---- */

static void find_slots(struct gt_callscan *s)
{
	uint64_t slot, sym;
	int got;

	for (uint64_t i = 0; (got = gt_image_got_slot(s->img, i, &slot, &sym)) >= 0; i++) {
		uint64_t value = got ? gt_image_symbol_value(s->img, sym) : 0;
		int api = -1;
		struct target *t;

		for (int a = 0; got && a < (int)s->nnames; a++)
			if (gt_image_symbol_is(s->img, sym, s->names[a]))
				api = a;
		if (!got || (api < 0 && !value))
			continue;
		t = vec_add(&s->slots, sizeof(*t));
		if (!t) {
			s->full = 1;
			return;
		}
		*t = (struct target){.addr = slot, .api = api, .value = value};
	}
	sort_targets(&s->slots);
}

static void on_stub(void *ctx, const struct gt_insn *in)
{
	struct gt_callscan *s = ctx;
	const struct target *slot;
	struct target *t;
	uint64_t entry;

	if (in->kind != GT_INSN_JUMP_MEM && in->kind != GT_INSN_LOAD_ABS)
		return;
	slot = find_target(&s->slots, in->target);
	if (!slot || !gt_insn_plt_stub(s->img->machine, s->img->data + s->seg->offset, s->seg->size,
				       s->seg->vaddr, in, &entry))
		return;
	t = vec_add(&s->stubs, sizeof(*t));
	if (t)
		*t = (struct target){.addr = entry, .api = slot->api, .value = slot->value};
	else
		s->full = 1;
}

static void on_ref(void *ctx, const struct gt_insn *in)
{
	int direct = in->kind == GT_INSN_CALL || in->kind == GT_INSN_JUMP;
	struct gt_callscan *s = ctx;
	struct target *t;

	if (in->kind == GT_INSN_COND)
		return;
	t = find_target(direct ? &s->stubs : &s->slots, in->target);
	if (!t)
		return;
	t->called |= direct;
	if (t->api < (int)s->first)
		return;
	add_u64(s, &s->refs, in->pc);
}

/* ---- functions in parts: a cold part belongs to the one that jumps into it ---- */

static void on_jump_in(void *ctx, const struct gt_insn *in)
{
	struct gt_callscan *s = ctx;
	struct part *parts = s->parts.v;

	if (in->kind != GT_INSN_JUMP && in->kind != GT_INSN_COND)
		return;
	for (size_t i = 0; i < s->parts.n; i++) {
		const struct gt_range *r = &parts[i].range;
		struct gt_range from;

		if (!r->cold || in->target < r->start || in->target >= r->end ||
		    (in->pc >= r->start && in->pc < r->end))
			continue;
		if (!gt_image_function(s->img, in->pc, &from) && !from.cold)
			parts[i].owner = from.start;
	}
}

static struct part *part_of(struct gt_callscan *s, uint64_t pc)
{
	struct part *parts = s->parts.v;

	for (size_t i = s->parts.n; i-- > 0;)
		if (pc >= parts[i].range.start && pc < parts[i].range.end)
			return &parts[i];
	return NULL;
}

static void decode_part(struct gt_callscan *s, struct part *p)
{
	uint64_t len = p->range.end - p->range.start, at = 0;
	const uint8_t *code = gt_image_at(s->img, p->range.start, len);
	size_t room = s->img->machine == EM_X86_64 ? len / 3 + 16 : len / 4 + 1;

	p->code = calloc(room, sizeof(*p->code));
	if (!p->code || !code) {
		s->full |= !p->code;
		return;
	}
	while (at < len) {
		struct gt_insn in;

		if (gt_insn_decode(s->img->machine, code + at, len - at, p->range.start + at, &in))
			return;
		if (p->n == room) {
			struct gt_insn *v = reallocarray(p->code, room * 2, sizeof(*v));

			if (!v) {
				s->full = 1;
				return;
			}
			p->code = v;
			room *= 2;
		}
		p->code[p->n++] = in;
		at += in.len;
	}
}

static void find_parts(struct gt_callscan *s)
{
	const uint64_t *refs;
	int cold = 0;

	sort_unique(&s->refs);
	refs = s->refs.v;
	for (size_t i = 0; i < s->refs.n; i++) {
		struct gt_range r;
		struct part *p;

		if (part_of(s, refs[i]) || gt_image_function(s->img, refs[i], &r) ||
		    !gt_image_at(s->img, r.start, r.end - r.start))
			continue;
		s->code += r.end - r.start;
		p = s->code <= CODE_MAX ? vec_add(&s->parts, sizeof(*p)) : NULL;
		if (!p) {
			s->full = 1;
			return;
		}
		p->range = r;
		p->owner = r.start;
		decode_part(s, p);
		cold |= r.cold;
	}
	if (cold)
		scan_text(s, on_jump_in);
}

/* ---- where an argument came from ---- */

/* The last store before instruction i (or after it, in a loop) to where a load reads; -1: none. */
static ptrdiff_t find_store(struct gt_callscan *s, const struct part *p, ptrdiff_t i, uint8_t *reg)
{
	const struct gt_insn *load = &p->code[i];
	int64_t at = load->imm + (load->dst == *reg ? 0 : 8);
	ptrdiff_t n = (ptrdiff_t)p->n;

	for (ptrdiff_t k = 1; k < n && s->looked++ < LOOK_MAX; k++) {
		ptrdiff_t j = (i - k + n) % n;
		const struct gt_insn *in = &p->code[j];

		if (in->kind != GT_INSN_STORE || in->dst != load->src)
			continue;
		if (in->imm == at)
			*reg = in->src;
		else if (in->src2 != GT_INSN_NOREG && in->imm + 8 == at)
			*reg = in->src2;
		else
			continue;
		return j;
	}
	return -1;
}

static int is_call(const struct gt_insn *in)
{
	return in->kind == GT_INSN_CALL || in->kind == GT_INSN_CALL_MEM ||
	       in->kind == GT_INSN_CALL_REG || in->kind == GT_INSN_CALL_OTHER;
}

static int sets(const struct gt_insn *in, uint8_t reg)
{
	return in->kind >= GT_INSN_SET && in->kind != GT_INSN_STORE &&
	       (in->dst == reg || in->src2 == reg);
}

/* A value from memory is known only as a slot of the GOT. */
static void loaded(const struct part *p, ptrdiff_t i, struct gt_value *v)
{
	const struct gt_insn *in = &p->code[i];
	uint64_t slot = in->target;

	if (v->v || (in->kind != GT_INSN_LOAD_ABS && in->kind != GT_INSN_LOAD))
		return;
	if (in->kind == GT_INSN_LOAD) { /* adrp; ldr */
		ptrdiff_t k = i - 1;

		while (k >= 0 && k >= i - 64 && !sets(&p->code[k], in->src))
			k--;
		if (k < 0 || k < i - 64 || p->code[k].kind != GT_INSN_SET)
			return;
		slot = (uint64_t)(p->code[k].imm + in->imm);
	}
	v->kind = GT_VALUE_SLOT;
	v->v = slot;
}

static void add_via(struct gt_value *v, uint8_t reg, uint64_t off)
{
	if (v->nvia == GT_VALUE_VIA)
		return;
	v->via[v->nvia].reg = reg;
	v->via[v->nvia++].off = off;
}

/* The value of `reg` before instruction i. */
static struct gt_value value_of(struct gt_callscan *s, const struct part *p, ptrdiff_t i,
				uint8_t reg)
{
	struct gt_value v = {.kind = GT_VALUE_REL};

	for (int hops = 0; --i >= 0 && hops < 32;) {
		const struct gt_insn *in = &p->code[i];

		if (s->looked++ >= LOOK_MAX)
			return (struct gt_value){.kind = GT_VALUE_UNKNOWN};
		if (is_call(in) && !gt_insn_call_keeps(s->img->machine, reg))
			break;
		if (!sets(in, reg))
			continue;
		hops++;
		if (in->kind == GT_INSN_SET) {
			v.kind = GT_VALUE_ABS;
			v.v += (uint64_t)in->imm;
			break;
		}
		if (in->kind == GT_INSN_ADD && in->src2 != reg) {
			v.v += (uint64_t)in->imm;
			reg = in->src;
			add_via(&v, reg, v.v);
		} else if (in->kind == GT_INSN_LOAD && gt_insn_is_frame(s->img->machine, in->src)) {
			ptrdiff_t store = find_store(s, p, i, &reg);

			if (store < 0) {
				if (gt_insn_is_stack(s->img->machine, in->src))
					v.kind = GT_VALUE_UNKNOWN;
				break;
			}
			i = store;
			add_via(&v, reg, v.v);
		} else {
			loaded(p, i, &v);
			break;
		}
	}
	return v;
}

int gt_value_distance_is(const struct gt_value *a, const struct gt_value *b, uint64_t d)
{
	for (uint8_t i = 0; i < a->nvia; i++)
		for (uint8_t k = 0; k < b->nvia; k++)
			if (a->via[i].reg == b->via[k].reg && b->via[k].off - a->via[i].off == d)
				return 1;
	return a->kind == b->kind && (a->kind == GT_VALUE_ABS || a->kind == GT_VALUE_REL) &&
	       b->v - a->v == d;
}

/* ---- the calls ---- */

/* Is the jump at pc a PLT stub that somebody calls (and not a function's tail)? */
static int is_stub(const struct gt_callscan *s, uint64_t pc)
{
	uint64_t span = s->img->machine == EM_X86_64 ? 5 : 20;

	for (uint64_t back = 0; back <= span; back++) {
		const struct target *t = find_target(&s->stubs, pc - back);

		if (t && t->called && !t->wrapper)
			return 1;
	}
	return 0;
}

/* Which of them does instruction i call? NULL: none. */
static const struct target *call_target(struct gt_callscan *s, const struct part *p, size_t i)
{
	const struct gt_insn *in = &p->code[i];
	struct gt_value v;

	switch (in->kind) {
	case GT_INSN_CALL:
	case GT_INSN_JUMP:
		return find_target(&s->stubs, in->target);
	case GT_INSN_JUMP_MEM:
		if (is_stub(s, in->pc))
			return NULL;
		return find_target(&s->slots, in->target);
	case GT_INSN_CALL_MEM:
		return find_target(&s->slots, in->target);
	case GT_INSN_JUMP_REG:
		if (is_stub(s, in->pc))
			return NULL;
		__attribute__((fallthrough));
	case GT_INSN_CALL_REG:
		v = value_of(s, p, (ptrdiff_t)i, in->src);
		return v.kind == GT_VALUE_SLOT ? find_target(&s->slots, v.v) : NULL;
	default:
		return NULL;
	}
}

static void find_calls(struct gt_callscan *s)
{
	struct part *parts = s->parts.v;

	s->calls.n = 0;
	for (size_t k = 0; k < s->parts.n; k++) {
		const struct part *p = &parts[k];

		for (size_t i = 0; i < p->n; i++) {
			const struct target *t = call_target(s, p, i);
			const struct gt_insn *in = &p->code[i];
			struct gt_call *c;

			if (!t || t->api < 0 || (t->wrapper && in->kind != GT_INSN_CALL))
				continue;
			c = vec_add(&s->calls, sizeof(*c));
			if (!c) {
				s->full = 1;
				return;
			}
			c->pc = in->pc;
			c->owner = p->owner;
			c->api = (uint8_t)t->api;
			c->wrapped = t->wrapper;
			c->tail = in->kind == GT_INSN_JUMP || in->kind == GT_INSN_JUMP_MEM ||
				  in->kind == GT_INSN_JUMP_REG;
			c->got = in->kind != GT_INSN_CALL && in->kind != GT_INSN_JUMP;
			c->arg = value_of(s, p, (ptrdiff_t)i,
					  (uint8_t)gt_insn_first_arg(s->img->machine));
		}
	}
}

uint32_t gt_callsites_apis(const struct gt_callsites *cs, uint64_t owner)
{
	uint32_t mask = 0;

	for (size_t i = 0; i < cs->n; i++)
		if (cs->call[i].owner == owner)
			mask |= 1u << cs->call[i].api;
	return mask;
}

static int publish(struct gt_callsites *cs)
{
	cs->call = cs->scan->calls.v;
	cs->n = cs->scan->calls.n;
	return cs->scan->full ? -E2BIG : 0;
}

int gt_callsites_find(const struct gt_image *img, const char *const *names, size_t n, size_t first,
		      struct gt_callsites *out)
{
	struct gt_callsites cs = {0};
	struct gt_callscan *s;
	uint64_t text = 0;
	int err;

	for (unsigned int i = 0; i < img->nsegs; i++)
		text += img->seg[i].exec ? img->seg[i].size : 0;
	if (text > TEXT_MAX)
		return -E2BIG;
	s = cs.scan = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	*s = (struct gt_callscan){
		.img = img,
		.names = names,
		.nnames = n,
		.first = first,
		.slots.max = SLOTS_MAX,
		.stubs.max = SLOTS_MAX,
		.refs.max = REFS_MAX,
		.parts.max = PARTS_MAX,
		.calls.max = CALLS_MAX,
		.wanted.max = CALLERS_MAX,
		.callers.max = CALLERS_MAX,
	};
	find_slots(s);
	scan_text(s, on_stub);
	sort_targets(&s->stubs);
	scan_text(s, on_ref);
	find_parts(s);
	find_calls(s);
	err = publish(&cs);
	if (err)
		gt_callsites_free(&cs);
	else
		*out = cs;
	return err;
}

void gt_callsites_free(struct gt_callsites *cs)
{
	struct gt_callscan *s = cs->scan;
	struct part *parts;

	if (!s)
		return;
	parts = s->parts.v;
	for (size_t i = 0; i < s->parts.n; i++)
		free(parts[i].code);
	free(s->slots.v);
	free(s->stubs.v);
	free(s->refs.v);
	free(s->parts.v);
	free(s->calls.v);
	free(s->wanted.v);
	free(s->callers.v);
	free(s);
	*cs = (struct gt_callsites){0};
}

int gt_callsites_wrap(struct gt_callsites *cs, const uint64_t *start, size_t n, size_t api)
{
	struct gt_callscan *s = cs->scan;

	for (size_t i = 0; i < n; i++) {
		struct target *t = vec_add(&s->stubs, sizeof(*t));

		if (t)
			*t = (struct target){.addr = start[i], .api = (int)api, .wrapper = 1};
		else
			s->full = 1;
	}
	sort_targets(&s->stubs);
	scan_text(s, on_ref);
	find_parts(s);
	find_calls(s);
	return publish(cs);
}

static void on_call_of_wanted(void *ctx, const struct gt_insn *in)
{
	struct gt_callscan *s = ctx;
	const struct target *stub;
	uint64_t to = in->target;

	/* BOLT makes a tail call behind a test a conditional jump. */
	if (in->kind != GT_INSN_CALL && in->kind != GT_INSN_JUMP && in->kind != GT_INSN_COND)
		return;
	stub = find_target(&s->stubs, to); /* an exported function may be called by the PLT */
	if (stub && stub->value)
		to = stub->value;
	if (s->wanted.n && bsearch(&to, s->wanted.v, s->wanted.n, sizeof(to), cmp_u64))
		add_u64(s, &s->callers, in->pc);
}

int gt_callsites_reached(struct gt_callsites *cs, uint64_t start, const uint64_t *root, size_t n,
			 int steps)
{
	struct gt_callscan *s = cs->scan;

	s->wanted.n = 0;
	add_u64(s, &s->wanted, start);
	for (; steps > 0 && s->wanted.n && !s->full; steps--) {
		const uint64_t *pc;
		uint64_t last = 0;

		s->callers.n = 0;
		scan_text(s, on_call_of_wanted);
		sort_unique(&s->callers);
		s->wanted.n = 0;
		pc = s->callers.v;
		for (size_t i = 0; i < s->callers.n; i++) {
			struct gt_range r;

			if (gt_image_function(s->img, pc[i], &r) || r.start == last)
				continue;
			last = r.start;
			for (size_t k = 0; k < n; k++)
				if (r.start == root[k])
					return 1;
			add_u64(s, &s->wanted, r.start);
		}
		sort_unique(&s->wanted);
	}
	return 0;
}

int gt_code_calls(const struct gt_image *img, const struct gt_range *from, uint64_t to)
{
	uint64_t len = from->end - from->start;
	const uint8_t *code = gt_image_at(img, from->start, len);
	struct gt_insn in;

	for (uint64_t at = 0; code && at < len; at += in.len) {
		if (gt_insn_decode(img->machine, code + at, len - at, from->start + at, &in))
			break;
		if ((in.kind == GT_INSN_CALL || in.kind == GT_INSN_JUMP ||
		     in.kind == GT_INSN_COND) &&
		    in.target == to)
			return 1;
	}
	return 0;
}
