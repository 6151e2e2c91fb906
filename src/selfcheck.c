// SPDX-License-Identifier: Apache-2.0
#include "selfcheck.h"

#include <stdio.h>

/*
 * What the rules rely on (CPython 3.6 .. 3.16's ceval_gil.c): ACQUIRE, RELEASE and WAIT are stamped
 * with gil->mutex held, and a wait begins only while the lock is taken. So once an acquire or a
 * release of a GIL has been seen, who holds it is known exactly, until events are lost. In function
 * mode a release is stamped before and an acquire after that, which keeps their order.
 *
 * Threads need to be known only while they are in take_gil: that a thread holds is known by its
 * GIL. So a thread may hold two: those of two libpythons in one process.
 */

enum lock {
	UNKNOWN, /* no acquire or release yet; .holder: who holds it by a GIL_BEFORE, or 0 */
	FREE,
	HELD,
};

/* .holder of a GIL that is HELD and has no name. No thread has these ids. */
#define SOMEBODY 0          /* somebody waits for it, so it is held */
#define ENDED    UINT32_MAX /* the holder has ended, so nobody can ever acquire it */

/*
 * Two GILs whose first hits meet in the BPF program may get one index (see there): one event then
 * counts for the wrong one, which makes up to so many mismatches.
 */
#define MIXED_UP 2

struct gil {
	struct gt_selfcheck_gil n;
	uint64_t addr; /* 0: not told */
	uint32_t holder;
	uint32_t pending; /* releases while unconfirmed */
	uint8_t lock;     /* enum lock */
	uint8_t unconfirmed;
	uint8_t pardons;
};

enum take {
	IDLE,
	WAITING, /* WAIT was seen */
	TAKING,  /* TAKE was seen */
	LEFT,    /* has released after a TAKE: if it goes on, an acquire was missed */
};

struct thread {
	uint32_t tid;   /* 0: a free place */
	uint32_t epoch; /* in which .take is valid */
	uint8_t take;   /* enum take */
	uint8_t gil;
};

#define TABLE_MIN 4096u
#define TABLE_MAX (1u << 20)
#define PROBES    32u /* places that a thread may have; the tids may be chosen to collide */

struct gt_selfcheck {
	struct gil gils[GT_SELFCHECK_GILS];
	struct thread *table; /* open addressing by tid */
	uint32_t size;        /* a power of two */
	uint32_t used;
	uint32_t epoch;    /* grows at each loss and pause */
	uint32_t inside;   /* threads that are WAITING, TAKING or LEFT */
	uint8_t crowded;   /* a thread found no place */
	uint8_t functions; /* TAKE and DROPPED are recorded */
	uint64_t unchecked;
};

struct gt_selfcheck *gt_selfcheck_new(void)
{
	struct gt_selfcheck *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->size = TABLE_MIN;
	c->table = calloc(c->size, sizeof(*c->table));
	if (!c->table) {
		free(c);
		return NULL;
	}
	return c;
}

void gt_selfcheck_free(struct gt_selfcheck *c)
{
	if (!c)
		return;
	free(c->table);
	free(c);
}

/* ---- threads in take_gil ---- */

/* The thread's place, or a free one for it, or NULL. */
static struct thread *place_of(const struct gt_selfcheck *c, uint32_t tid)
{
	uint32_t i = (tid * 0x9e3779b1u) >> (32 - __builtin_ctz(c->size));

	for (uint32_t n = 0; n < PROBES; n++) {
		struct thread *t = &c->table[(i + n) & (c->size - 1)];

		if (t->tid == tid || !t->tid)
			return t;
	}
	return NULL;
}

/* Has a TAKE of it been seen, or something else that it is remembered for, since the last gap? */
static int is_known(const struct gt_selfcheck *c, uint32_t tid)
{
	const struct thread *t = place_of(c, tid);

	return t && t->tid && t->epoch == c->epoch;
}

/* The thread, if it is in take_gil as far as is known. */
static struct thread *inside(const struct gt_selfcheck *c, uint32_t tid)
{
	struct thread *t = c->inside ? place_of(c, tid) : NULL;

	return t && t->tid && t->epoch == c->epoch && t->take > IDLE ? t : NULL;
}

static void leave(struct gt_selfcheck *c, struct thread *t)
{
	t->take = IDLE;
	c->inside--;
}

/* The thread is not inside any take_gil. */
static void enter(struct gt_selfcheck *c, uint32_t tid, enum take take, uint8_t gil)
{
	struct thread *t = place_of(c, tid);

	if (!t) {
		c->crowded = 1;
		c->unchecked++;
		return;
	}
	c->used += !t->tid;
	*t = (struct thread){.tid = tid, .epoch = c->epoch, .take = (uint8_t)take, .gil = gil};
	c->inside += take > IDLE;
}

/* ---- mismatches ---- */

static void miss(struct gil *g, enum gt_mismatch kind)
{
	if (!g->pardons) {
		g->n.miss[kind]++;
		return;
	}
	g->pardons--;
	g->n.excused++;
}

/* The thread does something else: it has left take_gil without an acquire. */
static void give_up(struct gt_selfcheck *c, struct thread *t)
{
	miss(&c->gils[t->gil], GT_MISS_TAKE_IDLE);
	leave(c, t);
}

/* ---- events ---- */

/* It is a GIL, so what was seen of it before counts. */
static void confirm(struct gil *g)
{
	g->unconfirmed = 0;
	g->n.releases += g->pending;
	g->n.excused += g->pending;
	g->pending = 0;
}

static void on_gil(struct gil *g, const struct gil_event *ev)
{
	uint64_t addr = ev->gil_ident.addr;

	if (addr == g->addr) {
		if (!ev->unconfirmed)
			confirm(g);
		return;
	}
	if (g->addr) {
		g->pardons = MIXED_UP;
		g->lock = UNKNOWN;
		g->holder = 0;
	}
	g->addr = addr;
	g->unconfirmed = ev->unconfirmed;
}

static void on_acquire(struct gt_selfcheck *c, const struct gil_event *ev)
{
	struct gil *g = &c->gils[ev->gil];
	struct thread *t = inside(c, ev->tid);

	if (g->unconfirmed)
		confirm(g);
	g->n.acquires++;
	if (t && t->gil == ev->gil && t->take != LEFT)
		leave(c, t);
	else if (t)
		give_up(c, t);
	if (g->lock == HELD)
		miss(g, g->holder == ev->tid ? GT_MISS_ACQUIRE_HOLDING : GT_MISS_ACQUIRE_HELD);
	else if (g->holder) /* of a GIL_BEFORE that was out of date */
		g->n.excused++;
	g->lock = HELD;
	g->holder = ev->tid;
}

/*
 * In function mode a thread that was in take_gil at the attach comes out of it without an event, as
 * only returns of calls that began later are seen. And one that was there at a gap may release
 * there, as in on_release(). Both have not been seen since.
 */
static int came_out_unseen(struct gt_selfcheck *c, const struct gil_event *ev)
{
	if (!c->functions || is_known(c, ev->tid))
		return 0;
	enter(c, ev->tid, IDLE, ev->gil);
	return 1;
}

static void release(struct gt_selfcheck *c, struct gil *g, const struct gil_event *ev)
{
	if (g->lock == HELD && (g->holder == ev->tid || g->holder == SOMEBODY))
		return;
	if (g->lock == UNKNOWN)
		g->n.excused += g->holder != ev->tid; /* held since before */
	else if (g->lock == FREE && came_out_unseen(c, ev))
		g->n.excused++;
	else
		miss(g, GT_MISS_RELEASE_IDLE);
}

static void on_release(struct gt_selfcheck *c, const struct gil_event *ev)
{
	struct gil *g = &c->gils[ev->gil];
	struct thread *t = inside(c, ev->tid);

	if (g->unconfirmed) {
		g->pending++;
		return;
	}
	g->n.releases++;
	/*
	 * take_gil itself releases where the interpreter is ending, and never returns (from 3.9
	 * on): of that, function mode sees the release alone.
	 */
	if (t && t->take == TAKING && t->gil == ev->gil) {
		t->take = LEFT;
	} else if (t && t->take == WAITING && t->gil == ev->gil) {
		give_up(c, t);
	} else {
		if (t)
			give_up(c, t);
		release(c, g, ev);
	}
	g->lock = FREE;
	g->holder = 0;
}

static void on_wait(struct gt_selfcheck *c, const struct gil_event *ev)
{
	struct gil *g = &c->gils[ev->gil];
	struct thread *t = inside(c, ev->tid);

	if (g->unconfirmed)
		confirm(g);
	if (g->lock == FREE || (g->lock == HELD && g->holder == ev->tid)) {
		miss(g, GT_MISS_TAKE_IDLE);
		g->lock = HELD;
		g->holder = SOMEBODY;
	}
	/* A wait may be told repeatedly: struct gt_seen. */
	if (t && t->gil == ev->gil && t->take != LEFT)
		return;
	if (t)
		give_up(c, t);
	enter(c, ev->tid, WAITING, ev->gil);
}

/* Releases of threads that came out of take_gil, before it was known that this is function mode. */
static void see_functions(struct gt_selfcheck *c, struct gil *g)
{
	c->functions = 1;
	g->n.excused += g->n.miss[GT_MISS_RELEASE_IDLE];
	g->n.miss[GT_MISS_RELEASE_IDLE] = 0;
}

static void on_take(struct gt_selfcheck *c, const struct gil_event *ev)
{
	struct gil *g = &c->gils[ev->gil];
	struct thread *t = inside(c, ev->tid);

	if (t)
		give_up(c, t);
	if (g->holder == ev->tid) {
		if (g->lock == HELD)
			miss(g, GT_MISS_TAKE_IDLE);
		else
			g->n.excused++;
		g->lock = UNKNOWN;
		g->holder = 0;
	}
	enter(c, ev->tid, TAKING, ev->gil);
}

/* A thread may end anywhere; but if it does so with the lock, nobody gets that any more. */
static void on_exit_of(struct gt_selfcheck *c, uint32_t tid)
{
	struct thread *t;

	for (size_t i = 0; i < GT_SELFCHECK_GILS; i++) {
		struct gil *g = &c->gils[i];

		if (g->lock == FREE || g->holder != tid)
			continue;
		g->n.excused++;
		g->holder = g->lock == HELD ? ENDED : 0;
	}
	t = inside(c, tid);
	if (t) {
		c->gils[t->gil].n.excused++;
		leave(c, t);
	}
	if (is_known(c, tid))
		place_of(c, tid)->epoch--; /* the id may belong to another thread by now */
}

/* At a loss or a pause: what happened in it is not known, so nothing is known behind it. */
static void on_gap(struct gt_selfcheck *c)
{
	for (size_t i = 0; i < GT_SELFCHECK_GILS; i++) {
		c->gils[i].lock = UNKNOWN;
		c->gils[i].holder = 0;
	}
	c->epoch++;
	c->inside = 0;
}

void gt_selfcheck_event(struct gt_selfcheck *c, const struct gil_event *ev)
{
	struct gil *g;

	if (ev->kind == GIL_LOST || ev->kind == GIL_PAUSED) {
		on_gap(c);
		return;
	}
	if (ev->kind == GIL_EXIT) {
		on_exit_of(c, ev->tid);
		return;
	}
	if (ev->gil >= GT_SELFCHECK_GILS) {
		c->unchecked += ev->kind == GIL_ACQUIRE || ev->kind == GIL_RELEASE;
		return;
	}
	g = &c->gils[ev->gil];
	switch (ev->kind) {
	case GIL_ACQUIRE:
		on_acquire(c, ev);
		break;
	case GIL_RELEASE:
		on_release(c, ev);
		break;
	case GIL_WAIT:
		on_wait(c, ev);
		break;
	case GIL_LEFT: {
		struct thread *t = inside(c, ev->tid);

		if (t && t->take == WAITING && t->gil == ev->gil)
			leave(c, t);
		break;
	}
	case GIL_TAKE:
	case GIL_DROPPED:
		if (!c->functions)
			see_functions(c, g);
		if (ev->kind == GIL_TAKE)
			on_take(c, ev);
		break;
	case GIL_GIL:
		on_gil(g, ev);
		break;
	case GIL_BEFORE:
		/* That a thread waits tells nothing: what it does next is right in any case. */
		if (ev->before.state == GIL_BEFORE_HOLDING && g->lock == UNKNOWN)
			g->holder = ev->tid;
		break;
	}
}

/* ---- between readings ---- */

static int is_needed(const struct gt_selfcheck *c, const struct thread *t)
{
	return t->tid && t->epoch == c->epoch && (t->take > IDLE || c->functions);
}

/* Moves the threads that are still needed to another table. */
static void rebuild(struct gt_selfcheck *c, struct thread *table, uint32_t size)
{
	struct thread *old = c->table;
	uint32_t old_size = c->size;

	c->table = table;
	c->size = size;
	c->used = 0;
	c->inside = 0;
	c->crowded = 0;
	for (uint32_t i = 0; i < old_size; i++) {
		struct thread *t = is_needed(c, &old[i]) ? place_of(c, old[i].tid) : NULL;

		if (!t)
			continue;
		*t = old[i];
		c->used++;
		c->inside += t->take > IDLE;
	}
	free(old);
}

void gt_selfcheck_tick(struct gt_selfcheck *c)
{
	uint32_t size = TABLE_MIN, needed = 0;
	struct thread *table;

	if (!c->crowded && c->used <= c->size / 2)
		return;
	for (uint32_t i = 0; i < c->size; i++)
		needed += is_needed(c, &c->table[i]);
	while (size < TABLE_MAX && (needed > size / 4 || (c->crowded && size <= c->size)))
		size *= 2;
	table = calloc(size, sizeof(*table));
	if (table)
		rebuild(c, table, size);
}

/* ---- results ---- */

const struct gt_selfcheck_gil *gt_selfcheck_gil(const struct gt_selfcheck *c, unsigned int index)
{
	return &c->gils[index].n;
}

struct gt_selfcheck_gil gt_selfcheck_sum(const struct gt_selfcheck *c)
{
	struct gt_selfcheck_gil sum = {0};

	for (size_t i = 0; i < GT_SELFCHECK_GILS; i++) {
		const struct gt_selfcheck_gil *n = &c->gils[i].n;

		sum.acquires += n->acquires;
		sum.releases += n->releases;
		sum.excused += n->excused;
		for (size_t k = 0; k < GT_MISS_KINDS; k++)
			sum.miss[k] += n->miss[k];
	}
	return sum;
}

uint64_t gt_selfcheck_unchecked(const struct gt_selfcheck *c)
{
	return c->unchecked;
}

uint64_t gt_selfcheck_misses(const struct gt_selfcheck_gil *g)
{
	uint64_t n = 0;

	for (size_t k = 0; k < GT_MISS_KINDS; k++)
		n += g->miss[k];
	return n;
}

/* Appends "N what" or "N whats", and the rest. */
static void append(char *buf, size_t size, const char *before, uint64_t n, const char *what,
		   const char *rest)
{
	size_t len = strlen(buf);

	snprintf(buf + len, size - len, "%s%llu %s%s%s", before, (unsigned long long)n, what,
		 n == 1 ? "" : "s", rest);
}

void gt_selfcheck_text(const struct gt_selfcheck_gil *g, char *buf, size_t size)
{
	static const char *const text[GT_MISS_KINDS][2] = {
		[GT_MISS_ACQUIRE_HOLDING] = {"acquire", " of a GIL that the thread held already"},
		[GT_MISS_ACQUIRE_HELD] = {"acquire", " of a GIL that another thread held"},
		[GT_MISS_RELEASE_IDLE] = {"release", " of a GIL that the thread did not hold"},
		[GT_MISS_TAKE_IDLE] = {"wait", " for a GIL that no other thread held, or that the "
					       "thread then did not acquire"},
	};
	const char *before = "; ";

	if (!size)
		return;
	buf[0] = '\0';
	append(buf, size, "", g->acquires, "acquire", "");
	append(buf, size, ", ", g->releases, "release", "");
	for (size_t k = 0; k < GT_MISS_KINDS; k++) {
		if (!g->miss[k])
			continue;
		append(buf, size, before, g->miss[k], text[k][0], text[k][1]);
		before = ", ";
	}
}
