// SPDX-License-Identifier: Apache-2.0
#include "gilscan.h"
#include "callsites.h"
#include "emulated.h"

#include <ctype.h>
#include <elf.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define COND_SIZE 48 /* sizeof(pthread_cond_t), glibc and musl: cond to mutex */
#define STEPS_MAX 4  /* calls from PyEval_RestoreThread to take_gil: 1 up to 3.12, then 2 - 3 */
#define TAKES_MAX 16

enum api { API_LOCK, API_UNLOCK, API_SIGNAL, API_WAIT, API_TIMEDWAIT, API_COUNT };

static const char *const api_name[API_COUNT] = {
	"pthread_mutex_lock", "pthread_mutex_unlock",   "pthread_cond_signal",
	"pthread_cond_wait",  "pthread_cond_timedwait",
};

#define BIT(api) (1u << (api))
#define IS_TAKE  (BIT(API_LOCK) | BIT(API_UNLOCK) | BIT(API_SIGNAL) | BIT(API_TIMEDWAIT))

int gt_gilscan_refuse(struct gt_sites *out, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(out->why, sizeof(out->why), fmt, ap);
	va_end(ap);
	out->n = 0;
	return -ENOENT;
}

int gt_gilscan_add(const struct gt_image *img, struct gt_sites *out, uint64_t vaddr,
		   enum gt_kind kind, unsigned int flags, const char *how, ...)
{
	struct gt_site *s = &out->site[out->n];
	va_list ap;

	if (out->n == GT_SITES_MAX)
		return gt_gilscan_refuse(out, "more than %d probe sites", GT_SITES_MAX);
	memset(s, 0, sizeof(*s));
	if (gt_image_offset(img, vaddr, &s->offset))
		return gt_gilscan_refuse(out, "address 0x%" PRIx64 " lies in no code segment",
					 vaddr);
	s->vaddr = vaddr;
	s->kind = (uint8_t)kind;
	s->flags = (uint8_t)(flags | (gt_emulated_at(img, vaddr) ? 0 : GT_SITE_STEP));
	va_start(ap, how);
	vsnprintf(s->how, sizeof(s->how), how, ap);
	va_end(ap);
	out->n++;
	return 0;
}

/* ---- which Python? ---- */

static int find_name(const struct gt_image *img, const struct gt_gilnames *names, const char *name,
		     uint64_t *vaddr)
{
	int err = gt_image_symbol(img, name, vaddr);

	return err && names ? names->find(names->ctx, name, vaddr) : err;
}

/* "...python3.11..." */
static int version_in_text(const char *text, struct gt_sites *out)
{
	const char *p = text ? strstr(text, "python") : NULL;
	unsigned int minor = 0;

	if (!p)
		return 0;
	p += strlen("python");
	if ((*p != '2' && *p != '3') || p[1] != '.' || !isdigit((unsigned char)p[2]))
		return 0;
	out->py_major = (uint8_t)(*p - '0');
	for (p += 2; isdigit((unsigned char)*p) && minor < 20; p++)
		minor = minor * 10 + (unsigned int)(*p - '0');
	out->py_minor = (uint8_t)minor;
	return 1;
}

/* By functions that came with a version and have been exported since. */
static void version_by_names(const struct gt_image *img, const struct gt_gilnames *names,
			     struct gt_sites *out)
{
	static const struct {
		const char *name;
		uint8_t minor;
	} since[] = {
		{"PyModule_AddObjectRef", 10},
		{"PyFrame_GetCode", 9},
		{"PyConfig_InitPythonConfig", 8},
		{"PyThread_tss_get", 7},
		{"PyOS_FSPath", 6},
		{"PyBytes_FromString", 5},
	};
	uint64_t v;

	for (size_t i = 0; i < GT_ARRAY_SIZE(since); i++) {
		if (find_name(img, names, since[i].name, &v))
			continue;
		out->py_major = 3;
		out->py_minor = since[i].minor;
		return;
	}
}

static void find_version(const struct gt_image *img, const struct gt_gilnames *names,
			 const char *name, struct gt_sites *out)
{
	const char *base = name ? strrchr(name, '/') : NULL;
	const uint8_t *p;
	uint64_t v;

	if (!find_name(img, names, "Py_Version", &v)) {
		p = gt_image_at(img, v, 4);
		if (p && p[3] == 3) { /* PY_VERSION_HEX */
			out->py_major = p[3];
			out->py_minor = p[2];
			return;
		}
	}
	if (!version_in_text(gt_image_string(img, img->soname), out) &&
	    !version_in_text(base ? base + 1 : name, out))
		version_by_names(img, names, out);
}

/* From cond to switch_cond: pthread_cond_t and pthread_mutex_t, larger in glibc's for arm64. */
static const uint64_t *switch_distances(const struct gt_image *img)
{
	static const uint64_t x86[] = {COND_SIZE + 40, 0};
	static const uint64_t arm[] = {COND_SIZE + 48, COND_SIZE + 40, 0};

	return img->machine == EM_AARCH64 ? arm : x86;
}

int gt_gilscan_identify_named(const struct gt_image *img, const struct gt_gilnames *names,
			      const char *name, struct gt_sites *out)
{
	uint64_t v;

	memset(out, 0, sizeof(*out));
	out->machine = img->machine;
	out->stripped = !gt_image_has_symtab(img);
	if (img->build_id_len && img->build_id_len <= GT_BUILDID_MAX) {
		out->build_id_len = (uint8_t)img->build_id_len;
		memcpy(out->build_id, img->build_id, img->build_id_len);
	}
	if (find_name(img, names, "PyEval_RestoreThread", &v))
		return gt_gilscan_refuse(
			out, "no CPython: PyEval_RestoreThread is not among its exports");
	out->is_python = 1;
	out->code_delta = gt_image_code_delta(img);
	if (find_name(img, names, "_PyRuntime", &out->runtime))
		out->runtime = 0;
	if (!find_name(img, names, "PyString_Type", &v)) {
		out->python2 = 1;
		out->py_major = 2;
		return gt_gilscan_refuse(
			out, "CPython 2 uses another lock (interpreter_lock); giltrace supports "
			     "3.6 and later");
	}
	find_version(img, names, name, out);
	if (out->py_major == 3 && out->py_minor < 6)
		return gt_gilscan_refuse(out,
					 "CPython 3.%d is too old; giltrace supports 3.6 and later",
					 out->py_minor);
	if (out->py_minor != 6)
		out->switch_cond = (uint32_t)switch_distances(img)[0];
	return 0;
}

int gt_gilscan_identify(const struct gt_image *img, const char *name, struct gt_sites *out)
{
	return gt_gilscan_identify_named(img, NULL, name, out);
}

/* ---- which calls? ---- */

struct gil {
	const struct gt_image *img;
	const struct gt_gilnames *names;
	struct gt_callsites cs;
	uint64_t take[TAKES_MAX]; /* start of take_gil and its clones */
	size_t ntakes;
	uint64_t distance; /* from cond to switch_cond */
	int may_be_static; /* 3.6, or the version is not known */
	int is_static;     /* 3.6: static variables at no fixed distance; their addresses: */
	uint64_t cond, switch_cond;
};

static int is_take(const struct gil *g, uint64_t owner)
{
	for (size_t i = 0; i < g->ntakes; i++)
		if (g->take[i] == owner)
			return 1;
	return 0;
}

/* Is the argument of `call` d beyond that of a timed wait in its function, &gil->cond? */
static int is_beyond_cond(const struct gil *g, const struct gt_call *call, uint64_t d)
{
	const struct gt_call *c = g->cs.call;

	for (size_t i = 0; i < g->cs.n; i++)
		if (c[i].owner == call->owner && c[i].api == API_TIMEDWAIT &&
		    gt_value_distance_is(&c[i].arg, &call->arg, d))
			return 1;
	return 0;
}

/* By this call of signal, how far is switch_cond from cond? 0: it does not tell. */
static uint64_t told_distance(const struct gil *g, const struct gt_call *c)
{
	const uint64_t *d = switch_distances(g->img);

	while (*d && !is_beyond_cond(g, c, *d))
		d++;
	return *d;
}

/* Static address of the timed wait's argument in a function; 0: not known. */
static uint64_t static_cond(const struct gil *g, uint64_t owner)
{
	const struct gt_call *c = g->cs.call;

	for (size_t i = 0; i < g->cs.n; i++)
		if (c[i].owner == owner && c[i].api == API_TIMEDWAIT &&
		    c[i].arg.kind == GT_VALUE_ABS)
			return c[i].arg.v;
	return 0;
}

/* A signal on another static variable than the wait's. */
static int is_static_switch(const struct gil *g, const struct gt_call *c)
{
	uint64_t cond = static_cond(g, c->owner);

	return g->may_be_static && cond && c->arg.kind == GT_VALUE_ABS && c->arg.v != cond;
}

/*
 * Builds without optimisation call pthread_cond_timedwait in a function of its own
 * (PyCOND_TIMEDWAIT), which passes its first argument on.
 */
static int find_wrappers(struct gil *g)
{
	const struct gt_call *c = g->cs.call;
	uint64_t start[TAKES_MAX];
	size_t n = 0;

	for (size_t i = 0; i < g->cs.n; i++) {
		uint32_t apis = gt_callsites_apis(&g->cs, c[i].owner);

		if ((apis & IS_TAKE) == IS_TAKE)
			return 0;
		if (c[i].api == API_TIMEDWAIT && !(apis & BIT(API_SIGNAL)) && n < TAKES_MAX)
			start[n++] = c[i].owner;
	}
	return n ? gt_callsites_wrap(&g->cs, start, n, API_TIMEDWAIT) : 0;
}

/* Does it have the shape of take_gil: waits on one condition variable and signals the other? */
static int looks_like_take(const struct gil *g, uint64_t owner)
{
	const struct gt_call *c = g->cs.call;

	for (size_t i = 0; i < g->cs.n; i++)
		if (c[i].owner == owner && c[i].api == API_SIGNAL &&
		    (told_distance(g, &c[i]) || is_static_switch(g, &c[i])))
			return 1;
	return 0;
}

/*
 * One must be reached from PyEval_RestoreThread. Its clones need not be (take_gil.constprop.0 of a
 * 3.8 is, and take_gil itself is called by the evaluation loop), but must have the same shape.
 */
static void find_takes(struct gil *g)
{
	static const char *const roots[] = {"PyEval_RestoreThread", "PyEval_AcquireThread"};
	const struct gt_call *c = g->cs.call;
	uint64_t root[GT_ARRAY_SIZE(roots)], maybe[TAKES_MAX];
	size_t n = 0, nmaybe = 0;

	for (size_t i = 0; i < GT_ARRAY_SIZE(roots); i++)
		if (!find_name(g->img, g->names, roots[i], &root[n]))
			n++;
	for (size_t i = 0; i < g->cs.n && nmaybe < TAKES_MAX; i++)
		if (c[i].api == API_TIMEDWAIT && (!nmaybe || maybe[nmaybe - 1] != c[i].owner) &&
		    (gt_callsites_apis(&g->cs, c[i].owner) & IS_TAKE) == IS_TAKE)
			maybe[nmaybe++] = c[i].owner;
	for (size_t i = 0; i < nmaybe; i++)
		if (!is_take(g, maybe[i]) &&
		    gt_callsites_reached(&g->cs, maybe[i], root, n, STEPS_MAX))
			g->take[g->ntakes++] = maybe[i];
	for (size_t i = 0; i < nmaybe && g->ntakes && g->ntakes < TAKES_MAX; i++)
		if (!is_take(g, maybe[i]) && looks_like_take(g, maybe[i]))
			g->take[g->ntakes++] = maybe[i];
}

/* Sets .distance, or .is_static, by the first signal in a take_gil that tells. */
static void find_layout(struct gil *g)
{
	const struct gt_call *c = g->cs.call;

	g->distance = switch_distances(g->img)[0];
	for (size_t i = 0; i < g->cs.n; i++) {
		if (c[i].api != API_SIGNAL || !is_take(g, c[i].owner))
			continue;
		if (told_distance(g, &c[i])) {
			g->distance = told_distance(g, &c[i]);
			return;
		}
		if (is_static_switch(g, &c[i])) {
			g->is_static = 1;
			g->cond = static_cond(g, c[i].owner);
			g->switch_cond = c[i].arg.v;
			return;
		}
	}
}

/* Signals in a take_gil, by their argument. */
enum role { ROLE_UNKNOWN, ROLE_COND, ROLE_SWITCH_COND };

static enum role role_of(const struct gil *g, const struct gt_call *c)
{
	if (!g->is_static) {
		if (is_beyond_cond(g, c, g->distance))
			return ROLE_SWITCH_COND;
		return is_beyond_cond(g, c, 0) ? ROLE_COND : ROLE_UNKNOWN;
	}
	if (c->arg.kind == GT_VALUE_ABS && c->arg.v == g->switch_cond)
		return ROLE_SWITCH_COND;
	return c->arg.kind == GT_VALUE_ABS && c->arg.v == g->cond ? ROLE_COND : ROLE_UNKNOWN;
}

/*
 * Every take_gil signals switch_cond somewhere. If no call in one is known to do so, the only one
 * whose argument is not known must.
 */
static int acquires(const struct gil *g, const struct gt_call *call)
{
	const struct gt_call *c = g->cs.call;
	enum role role = role_of(g, call);
	int unknown = 0;

	if (role != ROLE_UNKNOWN)
		return role == ROLE_SWITCH_COND;
	for (size_t i = 0; i < g->cs.n; i++) {
		if (c[i].owner != call->owner || c[i].api != API_SIGNAL)
			continue;
		role = role_of(g, &c[i]);
		unknown += role == ROLE_UNKNOWN;
		if (role == ROLE_SWITCH_COND)
			return 0;
	}
	return unknown == 1;
}

static const char *through(const struct gt_call *c)
{
	return c->got ? " (GOT)" : "";
}

static int add_take(const struct gil *g, const struct gt_call *c, struct gt_sites *out)
{
	int64_t at = (int64_t)(c->pc - c->owner);

	if (c->api == API_TIMEDWAIT)
		return gt_gilscan_add(g->img, out, c->pc, GT_WAIT, 0,
				      "scan: timedwait(cond) in take_gil %#" PRIx64 "%+" PRId64
				      "%s%s",
				      c->owner, at, through(c), c->wrapped ? " (wrapped)" : "");
	if (c->api == API_SIGNAL && acquires(g, c))
		return gt_gilscan_add(g->img, out, c->pc, GT_ACQUIRE, 0,
				      "scan: signal(%s) in take_gil %#" PRIx64 "%+" PRId64 "%s",
				      role_of(g, c) == ROLE_UNKNOWN ? "?, the only one"
								    : "switch_cond",
				      c->owner, at, through(c));
	return 0;
}

/* Does the function lock or unlock a mutex right behind the condition variable of this call? */
static int has_mutex_behind(const struct gil *g, const struct gt_call *call)
{
	const struct gt_call *c = g->cs.call;

	for (size_t i = 0; i < g->cs.n; i++)
		if (c[i].owner == call->owner && (c[i].api == API_LOCK || c[i].api == API_UNLOCK) &&
		    gt_value_distance_is(&call->arg, &c[i].arg, COND_SIZE))
			return 1;
	return 0;
}

/*
 * Candidates for drop_gil: the program that runs at the probe compares the argument with the known
 * GILs, so there may be too many. Not in 3.6, where it cannot: there the address must be the one.
 */
static int add_drop(const struct gil *g, const struct gt_call *c, struct gt_sites *out)
{
	int release = c->api == API_SIGNAL, in_take = is_take(g, c->owner);
	unsigned int flags = 0;

	if (release && in_take && acquires(g, c))
		return 0;
	if (g->is_static) {
		if (c->arg.kind != GT_VALUE_ABS || c->arg.v != (release ? g->cond : g->switch_cond))
			return 0;
	} else if (!(in_take && role_of(g, c) == ROLE_COND) && !has_mutex_behind(g, c)) {
		flags = GT_SITE_MATCH;
	}
	if (release && in_take)
		flags |= GT_SITE_TAKE;
	return gt_gilscan_add(g->img, out, c->pc, release ? GT_RELEASE : GT_YIELD, flags,
			      "scan: %s(%s%s) in %s %#" PRIx64 "%+" PRId64 "%s%s",
			      release ? "signal" : "wait", flags & GT_SITE_MATCH ? "maybe " : "",
			      release ? "cond" : "switch_cond", in_take ? "take_gil" : "function",
			      c->owner, (int64_t)(c->pc - c->owner), through(c),
			      c->tail ? ", tail jump" : "");
}

/* What could not be decided is said. */
static void remark(const struct gil *g, struct gt_sites *out)
{
	const struct gt_call *c = g->cs.call;
	unsigned int unknown = 0;

	for (size_t i = 0; i < g->cs.n; i++)
		unknown += c[i].api == API_SIGNAL && is_take(g, c[i].owner) &&
			   role_of(g, &c[i]) == ROLE_UNKNOWN;
	if (unknown)
		snprintf(out->why, sizeof(out->why),
			 "what %u call(s) of pthread_cond_signal in take_gil mean could not be "
			 "told for sure; compare with --probe=functions",
			 unknown);
}

static int add_sites(const struct gil *g, struct gt_sites *out)
{
	static const enum api order[] = {API_SIGNAL, API_WAIT};
	const struct gt_call *c = g->cs.call;
	uint32_t kinds[GT_DROPPED + 1] = {0};
	int err = 0;

	for (size_t i = 0; i < g->cs.n && !err; i++)
		if (is_take(g, c[i].owner))
			err = add_take(g, &c[i], out);
	for (size_t k = 0; k < GT_ARRAY_SIZE(order); k++)
		for (size_t i = 0; i < g->cs.n && !err; i++)
			if (c[i].api == order[k])
				err = add_drop(g, &c[i], out);
	if (err)
		return err;
	for (uint32_t i = 0; i < out->n; i++)
		kinds[out->site[i].kind]++;
	if (!kinds[GT_ACQUIRE] || !kinds[GT_RELEASE])
		return gt_gilscan_refuse(out, "take_gil was found, but not where it %s the lock",
					 kinds[GT_ACQUIRE] ? "gives back" : "gets");
	out->switch_cond = g->is_static ? 0 : (uint32_t)g->distance;
	/* 3.6 has one GIL, whose two condition variables do not lead to each other. */
	for (uint32_t i = 0; i < out->n && g->is_static; i++)
		out->site[i].flags |= GT_SITE_NOARG;
	remark(g, out);
	return 0;
}

int gt_gilscan_sites_named(const struct gt_image *img, const struct gt_gilnames *names,
			   struct gt_sites *out)
{
	struct gil g = {.img = img, .names = names, .may_be_static = out->py_minor <= 6};
	int err = gt_callsites_find(img, api_name, API_COUNT, API_SIGNAL, &g.cs);

	if (!err)
		err = find_wrappers(&g);
	if (err == -E2BIG)
		err = gt_gilscan_refuse(
			out,
			"too much code or too many users of condition variables to find the GIL's");
	if (err)
		goto out;
	if (!img->eh_table)
		err = gt_gilscan_refuse(
			out, "no .eh_frame_hdr: the bounds of its functions are not known");
	else if (!g.cs.n)
		err = gt_gilscan_refuse(
			out, "it does not call pthread_cond_signal of a shared C library");
	if (err)
		goto out;
	find_takes(&g);
	if (!g.ntakes) {
		err = gt_gilscan_refuse(
			out, "no function that waits and signals like take_gil is reached from "
			     "PyEval_RestoreThread");
		goto out;
	}
	find_layout(&g);
	err = add_sites(&g, out);
out:
	gt_callsites_free(&g.cs);
	return err;
}

int gt_gilscan_sites(const struct gt_image *img, struct gt_sites *out)
{
	return gt_gilscan_sites_named(img, NULL, out);
}
