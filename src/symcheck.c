// SPDX-License-Identifier: Apache-2.0
#include "symcheck.h"
#include "callsites.h"
#include "emulated.h"
#include "gilscan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define SYMBOLS_MAX 64 /* with their cold parts */

/* The symbols of a file that matter, and the code that they name. */
struct view {
	const struct gt_image *img;
	struct gt_symsrc *src;
	struct gt_symbol sym[SYMBOLS_MAX];
	size_t n;
};

/* Text from the file, which may hold anything, as something to print. */
static void put_text(char *buf, size_t size, const char *text)
{
	snprintf(buf, size, "%s", text);
	for (; *buf; buf++)
		if (*buf < 0x20 || *buf > 0x7e)
			*buf = '?';
}

/* Without symbols of these functions the view is empty. */
static struct view view_of(struct gt_symsrc *src, const struct gt_image *img)
{
	struct view v = {.img = img, .src = src};
	int n = src ? gt_symsrc_functions(src, v.sym, SYMBOLS_MAX) : 0;

	v.n = n > 0 ? (size_t)n : 0;
	return v;
}

static int is_take(const struct gt_symbol *s)
{
	return s->fn == GT_FN_TAKE;
}

static struct gt_range range_of(const struct view *v, const struct gt_symbol *s)
{
	struct gt_range r = {s->vaddr, s->vaddr, 0};

	if (s->size && s->vaddr + s->size > s->vaddr)
		r.end = s->vaddr + s->size;
	else if (!s->size)
		gt_image_function(v->img, s->vaddr, &r);
	return r;
}

static int in_range(const struct gt_range *r, uint64_t vaddr)
{
	return vaddr >= r->start && vaddr < r->end;
}

/* Is `part` the cold part of function f? take_gil.cold is take_gil's, not its clone's. */
static int is_part_of(const struct view *v, const struct gt_symbol *part, const struct gt_symbol *f)
{
	size_t len = (size_t)(strstr(part->name, ".cold") - part->name);
	int named = 0;

	if (strlen(f->name) == len && !strncmp(part->name, f->name, len))
		return 1;
	for (size_t i = 0; i < v->n; i++)
		named |= !v->sym[i].cold && strlen(v->sym[i].name) == len &&
			 !strncmp(part->name, v->sym[i].name, len);
	return !named && is_take(part) == is_take(f);
}

/* Does an address lie in a function or in one of its cold parts? */
static int holds(const struct view *v, const struct gt_symbol *f, uint64_t vaddr)
{
	for (size_t i = 0; i < v->n; i++) {
		const struct gt_symbol *s = &v->sym[i];
		struct gt_range r = range_of(v, s);

		if ((s == f || (s->cold && is_part_of(v, s, f))) && in_range(&r, vaddr))
			return 1;
	}
	return 0;
}

/* Does it lie in a take_gil, or else in a drop_gil, whichever? */
static int is_named(const struct view *v, int take, uint64_t vaddr)
{
	for (size_t i = 0; i < v->n; i++) {
		struct gt_range r = range_of(v, &v->sym[i]);

		if (is_take(&v->sym[i]) == take && in_range(&r, vaddr))
			return 1;
	}
	return 0;
}

/* How many sites of a kind (0: of any) lie in a function? */
static uint32_t count(const struct view *v, const struct gt_symbol *f, const struct gt_sites *s,
		      int kind)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n; i++)
		n += (!kind || s->site[i].kind == kind) && holds(v, f, s->site[i].vaddr);
	return n;
}

/* Does the code call one of the functions? */
static int calls_named(const struct view *v, const struct gt_range *code, int take)
{
	for (size_t i = 0; i < v->n; i++)
		if (!v->sym[i].cold && is_take(&v->sym[i]) == take &&
		    gt_code_calls(v->img, code, v->sym[i].vaddr))
			return 1;
	return 0;
}

/* Does it call a function, of whatever name, that has a site of that kind? */
static int calls_site(const struct view *v, const struct gt_range *code, const struct gt_sites *s,
		      int kind)
{
	for (uint32_t i = 0; i < s->n; i++) {
		struct gt_range r;

		if (s->site[i].kind == kind && !(s->site[i].flags & GT_SITE_MATCH) &&
		    !gt_image_function(v->img, s->site[i].vaddr, &r) && r.start != code->start &&
		    gt_code_calls(v->img, code, r.start))
			return 1;
	}
	return 0;
}

/* ---- copies that were inlined ---- */

struct copies {
	const struct view *v;
	struct gt_sites *out;
	/* Sites of take_gil, and of drop_gil's releases, that lie in no function of that name. */
	uint8_t outside[GT_SITES_MAX];
	/* A copy of drop_gil in which the scan has found no release, if any. */
	int is_blind;
	uint64_t blind_at;
	char blind_in[GT_NAME_MAX];
};

static int is_of_take(const struct gt_site *s)
{
	return s->kind == GT_ACQUIRE || s->kind == GT_WAIT;
}

/* Releases in code that is shared with others (GT_SITE_MATCH) need not be drop_gil's. */
static void find_outside(struct copies *c)
{
	for (uint32_t i = 0; i < c->out->n; i++) {
		const struct gt_site *s = &c->out->site[i];
		int take = is_of_take(s);

		c->outside[i] = (take || (s->kind == GT_RELEASE && !(s->flags & GT_SITE_MATCH))) &&
				!is_named(c->v, take, s->vaddr);
	}
}

static void add_inlined(struct gt_sites *out, uint64_t vaddr, const char *holder, uint32_t sites)
{
	struct gt_function *f = &out->inlined[out->n_inlined];

	if (out->n_inlined == GT_INLINED_MAX)
		return;
	*f = (struct gt_function){.vaddr = vaddr, .sites = sites};
	put_text(f->name, sizeof(f->name), holder);
	out->n_inlined++;
}

static int in_copy(const struct gt_copy *copy, uint64_t vaddr)
{
	for (size_t i = 0; i < copy->nranges; i++)
		if (in_range(&copy->range[i], vaddr))
			return 1;
	return 0;
}

static void on_copy(void *ctx, const struct gt_copy *copy)
{
	struct copies *c = ctx;
	int take = copy->fn == GT_FN_TAKE, found = 0;
	uint32_t sites = 0;
	enum gt_gil_fn fn;

	if (gt_symsrc_is_gil_fn(copy->holder, &fn) && (fn == GT_FN_TAKE) == take)
		return; /* drop_gil_impl within drop_gil is drop_gil's own body */
	for (uint32_t i = 0; i < c->out->n; i++) {
		if (!in_copy(copy, c->out->site[i].vaddr))
			continue;
		sites++;
		found |= c->out->site[i].kind == GT_RELEASE;
		if (take == is_of_take(&c->out->site[i]))
			c->outside[i] = 0;
	}
	for (size_t i = 0; i < copy->nranges; i++) /* of a function split in two, the head */
		found |= calls_named(c->v, &copy->range[i], take);
	if (!take && !found && !c->is_blind) {
		c->is_blind = 1;
		c->blind_at = copy->entry;
		put_text(c->blind_in, sizeof(c->blind_in), copy->holder);
	}
	add_inlined(c->out, copy->entry, copy->holder, sites);
}

/*
 * Sets out->inlined. 1: that are all. 0: neither the debug information nor the scan tells. What the
 * scan knows for a release of drop_gil, and nothing names, is a copy as well.
 */
static int find_copies(struct copies *c)
{
	struct gt_sites *out = c->out;
	int err;

	find_outside(c);
	out->n_inlined = 0;
	err = gt_symsrc_copies(c->v->src, on_copy, c);
	if (err) {
		find_outside(c);
		out->n_inlined = 0;
		c->is_blind = 0;
	}
	for (uint32_t i = 0; i < out->n; i++) {
		const char *holder = gt_symsrc_name_at(c->v->src, out->site[i].vaddr);

		if (c->outside[i] && out->site[i].kind == GT_RELEASE)
			add_inlined(out, out->site[i].vaddr, holder ? holder : "", 1);
	}
	return !err || out->n > 0;
}

/* ---- does the scan agree? ---- */

static void disagree(struct gt_sites *out, const char *fmt, ...) GT_PRINTF(2, 3);

static void disagree(struct gt_sites *out, const char *fmt, ...)
{
	size_t len = strlen(out->disagreement);
	va_list ap;

	out->verdict = GT_VERDICT_DISAGREES;
	if (len)
		len += (size_t)snprintf(out->disagreement + len, sizeof(out->disagreement) - len,
					"; ");
	if (len >= sizeof(out->disagreement))
		return;
	va_start(ap, fmt);
	vsnprintf(out->disagreement + len, sizeof(out->disagreement) - len, fmt, ap);
	va_end(ap);
}

static const char *const kind_name[] = {
	[GT_WAIT] = "wait", [GT_ACQUIRE] = "acquire", [GT_RELEASE] = "release"};

/* Each function must have its sites: itself, or its part or drop_gil_impl, which it calls. */
static void check_functions(const struct view *v, struct gt_sites *out)
{
	static const enum gt_kind kinds[2][2] = {{GT_RELEASE}, {GT_WAIT, GT_ACQUIRE}};

	for (size_t i = 0; i < v->n; i++) {
		const struct gt_symbol *f = &v->sym[i];
		struct gt_range r = range_of(v, f);

		for (size_t k = 0; k < 2 && !f->cold; k++) {
			enum gt_kind kind = kinds[is_take(f)][k];

			if (kind && !count(v, f, out, (int)kind) &&
			    !calls_site(v, &r, out, (int)kind))
				disagree(out, "no %s site was found in %s at %#" PRIx64,
					 kind_name[kind], f->name, f->vaddr);
		}
	}
}

/* And each site of take_gil its function, which may be an inlined copy. */
static void check_sites(const struct copies *c)
{
	for (uint32_t i = 0; i < c->out->n; i++) {
		const struct gt_site *s = &c->out->site[i];
		const char *holder = gt_symsrc_name_at(c->v->src, s->vaddr);
		char name[GT_NAME_MAX];

		/* Code without a name is no contradiction: what BOLT has moved stays there, unused.
		 */
		if (!c->outside[i] || !is_of_take(s) || !holder)
			continue;
		put_text(name, sizeof(name), holder);
		disagree(c->out, "the %s site %#" PRIx64 " lies in %s, not in take_gil",
			 kind_name[s->kind], s->vaddr, name);
	}
}

static int is_take_outside(const struct copies *c)
{
	for (uint32_t i = 0; i < c->out->n; i++)
		if (c->outside[i] && is_of_take(&c->out->site[i]))
			return 1;
	return 0;
}

static void list_functions(const struct view *v, struct gt_sites *out)
{
	out->n_functions = 0;
	for (size_t i = 0; i < v->n && out->n_functions < GT_FUNCTIONS_MAX; i++) {
		const struct gt_symbol *s = &v->sym[i];
		struct gt_function *f = &out->function[out->n_functions];

		if (s->cold)
			continue;
		*f = (struct gt_function){.vaddr = s->vaddr, .sites = count(v, s, out, 0)};
		snprintf(f->name, sizeof(f->name), "%s", s->name);
		out->n_functions++;
	}
}

void gt_symcheck_compare(struct gt_symsrc *src, const struct gt_image *img, int deep,
			 struct gt_sites *out)
{
	struct view v = view_of(src, img);
	struct copies c = {.v = &v, .out = out};

	if (src && gt_symsrc_origin(src) && (v.n || !gt_symsrc_is_dynsym(src)))
		put_text(out->symbols_from, sizeof(out->symbols_from), gt_symsrc_origin(src));
	list_functions(&v, out);
	if (!out->n_functions)
		return;
	find_outside(&c);
	if (deep || is_take_outside(&c))
		find_copies(&c);
	if (!out->n)
		return;
	out->verdict = GT_VERDICT_AGREES;
	check_functions(&v, out);
	check_sites(&c);
	if (c.is_blind)
		disagree(out,
			 "no release site was found in the drop_gil inlined in %s at %#" PRIx64,
			 c.blind_in, c.blind_at);
}

/* ---- probes on functions ---- */

/*
 * Of two functions of which one calls the other, one only may be probed, or an event counts twice:
 * of f and f.part.0 the part (callers that inlined the head go there directly), of drop_gil and
 * drop_gil_impl (3.13+) drop_gil, whose return comes after the wait of a forced switch.
 */
static int is_nested(const struct view *v, const struct gt_symbol *f)
{
	for (size_t k = 0; k < v->n; k++) {
		const struct gt_symbol *other = &v->sym[k];
		struct gt_range from;

		if (other == f || other->cold || is_take(f) != is_take(other))
			continue;
		from = range_of(v, f);
		if (strstr(other->name, ".part.") && !strstr(f->name, ".part.") &&
		    gt_code_calls(v->img, &from, other->vaddr))
			return 1;
		from = range_of(v, other);
		if (f->fn == GT_FN_DROP_IMPL && other->fn == GT_FN_DROP &&
		    gt_code_calls(v->img, &from, f->vaddr))
			return 1;
	}
	return 0;
}

static int add_function(const struct view *v, const struct gt_symbol *f, struct gt_sites *out)
{
	static const unsigned int noarg = GT_SITE_NOARG;
	struct gt_range r = range_of(v, f);
	uint64_t at = gt_emulated_point(v->img, &r);
	char behind[32] = "";
	int err;

	if (at != f->vaddr)
		snprintf(behind, sizeof(behind), "%+" PRId64, (int64_t)(at - f->vaddr));
	err = gt_gilscan_add(v->img, out, at, is_take(f) ? GT_TAKE : GT_RELEASE, noarg,
			     "symbol: entry of %s%s", f->name, behind);
	if (err)
		return err;
	return gt_gilscan_add(v->img, out, at, is_take(f) ? GT_ACQUIRE : GT_DROPPED,
			      noarg | GT_SITE_RETURN, "symbol: return of %s", f->name);
}

/*
 * Copies whose releases function probes miss. Not those in take_gil (3.9+, where the interpreter
 * ends): take_gil does not return there, so that no hold has begun either.
 */
static unsigned int count_missed(const struct gt_sites *out)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < out->n_inlined; i++) {
		enum gt_gil_fn fn;

		n += !gt_symsrc_is_gil_fn(out->inlined[i].name, &fn) || fn != GT_FN_TAKE;
	}
	return n;
}

/* What function probes may miss: NULL, or text for out->why. */
static const char *what_is_missed(const struct gt_sites *out, int known, char *buf, size_t size)
{
	unsigned int n = count_missed(out);

	if (n)
		snprintf(buf, size,
			 "drop_gil is also inlined in %u place(s), which function probes "
			 "miss",
			 n);
	else if (!known)
		snprintf(buf, size,
			 "without debug information it is not known whether drop_gil is "
			 "also inlined elsewhere, where function probes miss it");
	return n || !known ? buf : NULL;
}

int gt_symcheck_functions(struct gt_symsrc *src, const struct gt_image *img, int safe,
			  struct gt_sites *out)
{
	struct view v = view_of(src, img);
	struct copies c = {.v = &v, .out = out};
	unsigned int takes = 0, drops = 0;
	const char *missed;
	char buf[GT_WHY_MAX];
	int err = 0;

	for (size_t i = 0; i < v.n; i++) {
		takes += !v.sym[i].cold && is_take(&v.sym[i]);
		drops += !v.sym[i].cold && !is_take(&v.sym[i]);
	}
	if (!takes || !drops)
		return gt_gilscan_refuse(
			out, "no symbol %s in the file or in debug files installed for it",
			takes ? "drop_gil (it is inlined)" : "take_gil");
	missed = what_is_missed(out, find_copies(&c), buf, sizeof(buf));
	if (safe && missed)
		return gt_gilscan_refuse(out, "%s", missed);
	out->n = 0;
	for (size_t i = 0; i < v.n && !err; i++)
		if (!v.sym[i].cold && !is_nested(&v, &v.sym[i]))
			err = add_function(&v, &v.sym[i], out);
	if (!err)
		snprintf(out->why, sizeof(out->why), "%s", missed ? missed : "");
	return err;
}
