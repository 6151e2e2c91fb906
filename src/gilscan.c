// SPDX-License-Identifier: Apache-2.0
#include "gilscan.h"
#include "callsites.h"

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

static int refuse(struct gt_sites *out, const char *fmt, ...) GT_PRINTF(2, 3);

static int refuse(struct gt_sites *out, const char *fmt, ...)
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
		return refuse(out, "more than %d probe sites", GT_SITES_MAX);
	memset(s, 0, sizeof(*s));
	if (gt_image_offset(img, vaddr, &s->offset))
		return refuse(out, "address 0x%" PRIx64 " lies in no code segment", vaddr);
	s->vaddr = vaddr;
	s->kind = (uint8_t)kind;
	s->flags = (uint8_t)flags;
	va_start(ap, how);
	vsnprintf(s->how, sizeof(s->how), how, ap);
	va_end(ap);
	out->n++;
	return 0;
}

/* ---- which Python? ---- */

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
static void version_by_exports(const struct gt_image *img, struct gt_sites *out)
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
		if (gt_image_symbol(img, since[i].name, &v))
			continue;
		out->py_major = 3;
		out->py_minor = since[i].minor;
		return;
	}
}

static void find_version(const struct gt_image *img, const char *name, struct gt_sites *out)
{
	const char *base = name ? strrchr(name, '/') : NULL;
	const uint8_t *p;
	uint64_t v;

	if (!gt_image_symbol(img, "Py_Version", &v)) {
		p = gt_image_at(img, v, 4);
		if (p && p[3] == 3) { /* PY_VERSION_HEX */
			out->py_major = p[3];
			out->py_minor = p[2];
			return;
		}
	}
	if (!version_in_text(gt_image_string(img, img->soname), out) &&
	    !version_in_text(base ? base + 1 : name, out))
		version_by_exports(img, out);
}

int gt_gilscan_identify(const struct gt_image *img, const char *name, struct gt_sites *out)
{
	uint64_t v;

	memset(out, 0, sizeof(*out));
	out->machine = img->machine;
	out->stripped = !gt_image_has_symtab(img);
	if (img->build_id_len && img->build_id_len <= GT_BUILDID_MAX) {
		out->build_id_len = (uint8_t)img->build_id_len;
		memcpy(out->build_id, img->build_id, img->build_id_len);
	}
	if (gt_image_symbol(img, "PyEval_RestoreThread", &v))
		return refuse(out, "no CPython: PyEval_RestoreThread is not among its exports");
	out->is_python = 1;
	if (!gt_image_symbol(img, "PyString_Type", &v)) {
		out->python2 = 1;
		out->py_major = 2;
		return refuse(out,
			      "CPython 2 uses another lock (interpreter_lock); giltrace supports "
			      "3.6 and later");
	}
	find_version(img, name, out);
	if (out->py_major == 3 && out->py_minor < 6)
		return refuse(out, "CPython 3.%d is too old; giltrace supports 3.6 and later",
			      out->py_minor);
	return 0;
}

/* ---- which calls? ---- */

struct gil {
	const struct gt_image *img;
	struct gt_callsites cs;
	uint64_t take[TAKES_MAX]; /* start of take_gil and its clones */
	size_t ntakes;
	int is_static;     /* 3.6: the condition variables are static and far from each other */
	uint64_t distance; /* from cond to switch_cond, otherwise */
	struct gt_value cond, switch_cond; /* as static addresses; ABS in 3.6 only */
};

static int is_take(const struct gil *g, uint64_t owner)
{
	for (size_t i = 0; i < g->ntakes; i++)
		if (g->take[i] == owner)
			return 1;
	return 0;
}

/* Is b - a known, and what is it? */
static int distance(struct gt_value a, struct gt_value b, uint64_t *out)
{
	if (a.kind != b.kind || (a.kind != GT_VALUE_ABS && a.kind != GT_VALUE_REL))
		return 0;
	*out = b.v - a.v;
	return 1;
}

/* From cond to switch_cond: pthread_cond_t and pthread_mutex_t between them. */
static int is_switch_distance(const struct gt_image *img, uint64_t d)
{
	return d == COND_SIZE + 40 || (img->machine == EM_AARCH64 && d == COND_SIZE + 48);
}

/* Argument of the timed wait in a function: &gil->cond. */
static struct gt_value waited_for(const struct gil *g, uint64_t owner)
{
	const struct gt_call *c = g->cs.call;

	for (size_t i = 0; i < g->cs.n; i++)
		if (c[i].owner == owner && c[i].api == API_TIMEDWAIT &&
		    (c[i].arg.kind == GT_VALUE_ABS || c[i].arg.kind == GT_VALUE_REL))
			return c[i].arg;
	return (struct gt_value){GT_VALUE_UNKNOWN, 0};
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
static int looks_like_take(const struct gil *g, const struct gt_sites *out, uint64_t owner)
{
	struct gt_value cond = waited_for(g, owner);
	const struct gt_call *c = g->cs.call;
	uint64_t d;

	for (size_t i = 0; i < g->cs.n; i++)
		if (c[i].owner == owner && c[i].api == API_SIGNAL && distance(cond, c[i].arg, &d) &&
		    (is_switch_distance(g->img, d) ||
		     (d && cond.kind == GT_VALUE_ABS && out->py_minor <= 6)))
			return 1;
	return 0;
}

/*
 * One must be reached from PyEval_RestoreThread. Its clones need not be (take_gil.constprop.0 of a
 * 3.8 is, and take_gil itself is called by the evaluation loop), but must have the same shape.
 */
static void find_takes(struct gil *g, const struct gt_sites *out)
{
	static const char *const names[] = {"PyEval_RestoreThread", "PyEval_AcquireThread"};
	const struct gt_call *c = g->cs.call;
	uint64_t root[GT_ARRAY_SIZE(names)], maybe[TAKES_MAX];
	size_t n = 0, nmaybe = 0;

	for (size_t i = 0; i < GT_ARRAY_SIZE(names); i++)
		if (!gt_image_symbol(g->img, names[i], &root[n]))
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
		if (!is_take(g, maybe[i]) && looks_like_take(g, out, maybe[i]))
			g->take[g->ntakes++] = maybe[i];
}

/* Signals in a take_gil, by their argument. */
enum role { ROLE_UNKNOWN, ROLE_COND, ROLE_SWITCH_COND };

static enum role role_of(const struct gil *g, const struct gt_call *c)
{
	uint64_t d;

	if (!distance(waited_for(g, c->owner), c->arg, &d))
		return ROLE_UNKNOWN;
	if (!d)
		return ROLE_COND;
	if (g->is_static)
		return c->arg.kind == GT_VALUE_ABS ? ROLE_SWITCH_COND : ROLE_UNKNOWN;
	return d == g->distance ? ROLE_SWITCH_COND : ROLE_UNKNOWN;
}

/* Sets .distance or .is_static by the first signal in a take_gil that tells. */
static void find_layout(struct gil *g, const struct gt_sites *out)
{
	const struct gt_call *c = g->cs.call;
	uint64_t d;

	for (size_t i = 0; i < g->cs.n; i++) {
		struct gt_value cond = waited_for(g, c[i].owner);

		if (c[i].api != API_SIGNAL || !is_take(g, c[i].owner) ||
		    !distance(cond, c[i].arg, &d))
			continue;
		if (is_switch_distance(g->img, d)) {
			g->distance = d;
			return;
		}
		if (d && cond.kind == GT_VALUE_ABS && out->py_minor <= 6) {
			g->is_static = 1;
			g->cond = cond;
			g->switch_cond = c[i].arg;
			return;
		}
	}
	g->distance = COND_SIZE + (g->img->machine == EM_AARCH64 ? 48 : 40);
}

static const char *through(const struct gt_call *c)
{
	return c->got ? " (GOT)" : "";
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

static int add_take(const struct gil *g, const struct gt_call *c, struct gt_sites *out)
{
	uint64_t at = c->pc - c->owner;

	if (c->api == API_TIMEDWAIT)
		return gt_gilscan_add(
			g->img, out, c->pc, GT_WAIT, 0,
			"scan: %s pthread_cond_timedwait in take_gil %#" PRIx64 "%+" PRId64 "%s",
			c->wrapped ? "call of" : "call", c->owner, (int64_t)at, through(c));
	if (c->api == API_SIGNAL && acquires(g, c))
		return gt_gilscan_add(g->img, out, c->pc, GT_ACQUIRE, 0,
				      "scan: signal(%s) in take_gil %#" PRIx64 "%+" PRId64 "%s",
				      role_of(g, c) == ROLE_UNKNOWN ? "?, the only one"
								    : "switch_cond",
				      c->owner, (int64_t)at, through(c));
	return 0;
}

/* Does the function also use an address that lies `d` beyond this argument, in calls of `apis`? */
static int uses_beyond(const struct gil *g, const struct gt_call *call, uint64_t d, uint32_t apis)
{
	const struct gt_call *c = g->cs.call;
	uint64_t found;

	for (size_t i = 0; i < g->cs.n; i++)
		if (c[i].owner == call->owner && apis & BIT(c[i].api) &&
		    distance(call->arg, c[i].arg, &found) && found == d)
			return 1;
	return 0;
}

static int same(struct gt_value a, struct gt_value b)
{
	return a.kind == b.kind && a.v == b.v;
}

/*
 * Candidates for drop_gil: the program that runs at the probe compares the argument with the known
 * GILs, so there may be too many. Not in 3.6, where it cannot: there the address must be the one.
 */
static int add_drop(const struct gil *g, const struct gt_call *c, struct gt_sites *out)
{
	const char *what = c->api == API_SIGNAL ? "signal" : "wait";
	const char *arg = c->api == API_SIGNAL ? "cond" : "switch_cond", *sure = "";
	enum gt_kind kind = c->api == API_SIGNAL ? GT_RELEASE : GT_YIELD;
	unsigned int flags = 0;
	uint64_t mutex = COND_SIZE;

	if (c->api != API_SIGNAL && c->api != API_WAIT)
		return 0;
	if (g->is_static) {
		if (!same(c->arg, kind == GT_RELEASE ? g->cond : g->switch_cond))
			return 0;
	} else if (is_take(g, c->owner) && c->api == API_SIGNAL) {
		if (acquires(g, c))
			return 0;
		flags = role_of(g, c) == ROLE_COND ? 0 : GT_SITE_MATCH;
	} else if (!uses_beyond(g, c, mutex, BIT(API_LOCK) | BIT(API_UNLOCK))) {
		flags = GT_SITE_MATCH;
	}
	if (flags)
		sure = "? ";
	return gt_gilscan_add(g->img, out, c->pc, kind, flags,
			      "scan: %s(%s%s) %sin %s%#" PRIx64 "%+" PRId64 "%s", what, sure, arg,
			      c->tail ? "as tail jump " : "",
			      is_take(g, c->owner) ? "take_gil " : "function ", c->owner,
			      (int64_t)(c->pc - c->owner), through(c));
}

static int add_sites(const struct gil *g, struct gt_sites *out)
{
	const struct gt_call *c = g->cs.call;
	uint32_t acquired = 0, released;
	int err = 0;

	for (size_t i = 0; i < g->cs.n && !err; i++)
		if (is_take(g, c[i].owner))
			err = add_take(g, &c[i], out);
	for (uint32_t i = 0; i < out->n; i++)
		acquired += out->site[i].kind == GT_ACQUIRE;
	released = out->n;
	for (size_t i = 0; i < g->cs.n && !err; i++)
		if (c[i].api == API_SIGNAL)
			err = add_drop(g, &c[i], out);
	released = out->n - released;
	for (size_t i = 0; i < g->cs.n && !err; i++)
		if (c[i].api == API_WAIT)
			err = add_drop(g, &c[i], out);
	if (err)
		return err;
	if (!acquired || !released)
		return refuse(out, "take_gil was found, but not where it %s the lock",
			      acquired ? "gives back" : "gets");
	out->switch_cond = g->is_static ? 0 : (uint32_t)g->distance;
	return 0;
}

int gt_gilscan_sites(const struct gt_image *img, struct gt_sites *out)
{
	struct gil g = {.img = img};
	int err = gt_callsites_find(img, api_name, API_COUNT, API_SIGNAL, &g.cs);

	if (!err)
		err = find_wrappers(&g);
	if (err == -E2BIG)
		err = refuse(out, "too many users of condition variables to tell the GIL's");
	if (err)
		goto out;
	if (!img->eh_table)
		err = refuse(out, "no .eh_frame_hdr: the bounds of its functions are not known");
	else if (!g.cs.n)
		err = refuse(out, "it does not call pthread_cond_signal of a shared C library");
	if (err)
		goto out;
	find_takes(&g, out);
	if (!g.ntakes) {
		err = refuse(out,
			     "no function that waits and signals like take_gil is reached from "
			     "PyEval_RestoreThread");
		goto out;
	}
	find_layout(&g, out);
	err = add_sites(&g, out);
out:
	gt_callsites_free(&g.cs);
	return err;
}
