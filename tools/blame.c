// SPDX-License-Identifier: Apache-2.0
#include "blame.h"

#include "giltrace/gilfile.h"

#define LOG_SIZE 128 /* latest stretches of a GIL that are remembered; a power of two */

enum gil_state { NOT_KNOWN, FREE, HELD };

/* A stretch of time, and who had the GIL in it: a thread, or GT_BLOCKER_UNKNOWN. */
struct stretch {
	uint64_t start_ns, end_ns;
	uint32_t tid;
};

/*
 * The log has what is over, without overlap, in the order of time; where it has nothing, the GIL
 * was free. Behind it stands the present state, since .since_ns.
 */
struct gil {
	struct stretch *log; /* NULL: nothing was there yet */
	struct gt_waiter *waiters;
	uint64_t since_ns;
	uint64_t log_end_ns;             /* of the latest stretch, also where that is forgotten */
	uint64_t forgotten_ns;           /* of the latest that is forgotten */
	uint64_t from_ns, from_start_ns; /* the latest hold that ended with a release .. */
	uint32_t from_tid;               /* .. if that was the last thing; 0: it was not */
	uint32_t tid;                    /* HELD: by this one */
	uint32_t head, n;                /* the log: of the oldest (modulo its size); how many */
	uint32_t nwaiters;               /* in that list */
	uint8_t state;                   /* enum gil_state */
};

struct pair {
	uint64_t key; /* victim << 32 | blocker */
	uint64_t ns, waits;
	uint64_t now_ns; /* in the wait that goes on; not in .ns */
	uint32_t next;   /* the next that has a part in that wait: index + 1 */
};

struct gt_blame {
	struct pair *pairs;
	uint32_t *table;       /* open addressing by key: index + 1; twice as large as `pairs` */
	uint32_t n, size, max; /* of the pairs; the size is a power of two */
	int err;
	struct gil gils[GIL_INDEX_OTHER];
};

/* ---- pairs ---- */

static uint32_t *find(const struct gt_blame *b, uint64_t key)
{
	/* The address keeps a crafted file from choosing colliding ids. */
	uint64_t h = (key ^ (uintptr_t)b) * 0x9e3779b97f4a7c15u;
	uint32_t i;

	h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
	i = (uint32_t)(h >> 32) & (2 * b->size - 1);
	while (b->table[i] && b->pairs[b->table[i] - 1].key != key)
		i = (i + 1) & (2 * b->size - 1);
	return &b->table[i];
}

/* Also to begin with. -ENOMEM. */
static int grow(struct gt_blame *b)
{
	uint32_t size = b->size ? b->size * 2 : 64;
	struct pair *pairs = realloc(b->pairs, size * sizeof(*pairs));
	uint32_t *table;

	if (!pairs)
		return -ENOMEM;
	b->pairs = pairs;
	table = calloc(size, 2 * sizeof(*table));
	if (!table)
		return -ENOMEM;
	free(b->table);
	b->table = table;
	b->size = size;
	for (uint32_t i = 0; i < b->n; i++)
		*find(b, pairs[i].key) = i + 1;
	return 0;
}

/* Index + 1; 0: there are too many. */
static uint32_t get(struct gt_blame *b, uint64_t key)
{
	uint32_t i = *find(b, key);

	if (i || b->n == b->max || b->err)
		return i;
	if (b->n == b->size) {
		b->err = grow(b);
		if (b->err)
			return 0;
	}
	b->pairs[b->n] = (struct pair){.key = key};
	*find(b, key) = ++b->n;
	return b->n;
}

/* Most waits are for the same few threads. */
static inline uint32_t find_pair(struct gt_blame *b, struct gt_waiter *w, uint32_t tid)
{
	uint64_t key = (uint64_t)w->tid << 32 | tid;
	uint32_t *latest = &w->latest[tid & (GT_BLAME_LATEST - 1)];

	if (!*latest || b->pairs[*latest - 1].key != key)
		*latest = get(b, key);
	return *latest;
}

/* A part of the wait that goes on. */
static void share_out(struct gt_blame *b, struct gt_waiter *w, uint32_t tid, uint64_t ns)
{
	struct pair *p;
	uint32_t i;

	/* A thread that waits does not hold, so what was told is not so. */
	if (tid == GT_BLOCKER_UNKNOWN || tid == w->tid) {
		w->unknown_ns += ns;
		return;
	}
	w->held_ns += ns;
	i = find_pair(b, w, tid);
	if (!i) {
		w->others_ns += ns;
		return;
	}
	p = &b->pairs[i - 1];
	if (!p->now_ns) {
		p->next = w->pairs;
		w->pairs = i;
	}
	p->now_ns += ns;
}

/* The time of [start_ns, end_ns] in which that stretch lies. */
static void share_out_stretch(struct gt_blame *b, struct gt_waiter *w, const struct stretch *s,
			      uint64_t start_ns, uint64_t end_ns)
{
	uint64_t from = s->start_ns > start_ns ? s->start_ns : start_ns;
	uint64_t to = s->end_ns < end_ns ? s->end_ns : end_ns;

	if (to > from)
		share_out(b, w, s->tid, to - from);
}

/* ---- the log of a GIL ---- */

static struct stretch *at(const struct gil *g, uint32_t i)
{
	return &g->log[(g->head + i) & (LOG_SIZE - 1)];
}

/* The older half by thread; returns how many these are. */
static uint32_t sum_up(const struct gil *g, struct stretch sums[LOG_SIZE / 2])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < LOG_SIZE / 2; i++) {
		const struct stretch *s = at(g, i);
		uint32_t k = 0;

		while (k < n && sums[k].tid != s->tid)
			k++;
		if (k == n)
			sums[n++] = (struct stretch){.tid = s->tid};
		sums[k].end_ns += s->end_ns - s->start_ns;
	}
	return n;
}

/* Makes room: gives the older half to those that wait, and forgets it. */
static void forget_half(struct gt_blame *b, struct gil *g)
{
	uint64_t start_ns = at(g, 0)->start_ns, end_ns = at(g, LOG_SIZE / 2 - 1)->end_ns;
	struct stretch sums[LOG_SIZE / 2] = {0};
	uint32_t n = g->waiters ? sum_up(g, sums) : 0;

	for (struct gt_waiter *w = g->waiters; w; w = w->next) {
		if (w->start_ns <= start_ns)
			for (uint32_t i = 0; i < n; i++)
				share_out(b, w, sums[i].tid, sums[i].end_ns);
		else
			for (uint32_t i = LOG_SIZE / 2; i && at(g, i - 1)->end_ns > w->start_ns;
			     i--)
				share_out_stretch(b, w, at(g, i - 1), w->start_ns, UINT64_MAX);
		if (end_ns > w->start_ns)
			w->told_ns = end_ns;
	}
	g->forgotten_ns = end_ns;
	g->head += LOG_SIZE / 2;
	g->n -= LOG_SIZE / 2;
}

/* tid: who had it. What was told before stays. */
static void append(struct gt_blame *b, struct gil *g, uint32_t tid, uint64_t start_ns,
		   uint64_t end_ns)
{
	if (start_ns < g->log_end_ns)
		start_ns = g->log_end_ns;
	if (end_ns <= start_ns || b->err)
		return;
	if (!g->log) {
		g->log = calloc(LOG_SIZE, sizeof(*g->log));
		if (!g->log) {
			b->err = -ENOMEM;
			return;
		}
	}
	if (g->n == LOG_SIZE)
		forget_half(b, g);
	*at(g, g->n++) = (struct stretch){.start_ns = start_ns, .end_ns = end_ns, .tid = tid};
	g->log_end_ns = end_ns;
}

static void set_state(struct gil *g, enum gil_state state, uint64_t since_ns)
{
	g->state = state;
	g->since_ns = since_ns;
	g->from_tid = 0;
}

/* 0 and those that mean something else are no threads. */
static uint32_t blocker(uint32_t tid)
{
	return tid && tid < GT_BLOCKER_OTHERS ? tid : GT_BLOCKER_UNKNOWN;
}

/* ---- what happens to a GIL ---- */

void gt_blame_acquired(struct gt_blame *b, uint8_t gil, uint32_t tid, uint64_t ns)
{
	struct gil *g = &b->gils[gil];

	if (g->state == NOT_KNOWN)
		append(b, g, GT_BLOCKER_UNKNOWN, g->since_ns, ns);
	set_state(g, HELD, ns);
	g->tid = blocker(tid);
}

void gt_blame_held(struct gt_blame *b, const struct gt_span *hold, int released)
{
	struct gil *g = &b->gils[hold->gil];

	if (g->state == NOT_KNOWN) {
		/* Of a time behind which more is not known. */
		if (hold->end_ns < g->since_ns)
			return;
		append(b, g, GT_BLOCKER_UNKNOWN, g->since_ns, hold->start_ns);
	}
	append(b, g, blocker(hold->tid), hold->start_ns, hold->end_ns);
	set_state(g, FREE, hold->end_ns);
	if (!released || blocker(hold->tid) == GT_BLOCKER_UNKNOWN)
		return;
	g->from_tid = hold->tid;
	g->from_ns = hold->end_ns;
	g->from_start_ns = hold->start_ns;
}

void gt_blame_released(struct gt_blame *b, uint8_t gil, uint64_t ns)
{
	struct gil *g = &b->gils[gil];

	if (g->state == HELD || (g->state == FREE && ns <= g->since_ns))
		return;
	append(b, g, GT_BLOCKER_UNKNOWN, g->since_ns, ns);
	set_state(g, FREE, ns);
}

void gt_blame_missed(struct gt_blame *b, uint8_t gil)
{
	struct gil *g = &b->gils[gil];

	if (g->state == HELD)
		set_state(g, NOT_KNOWN, g->since_ns);
}

void gt_blame_gap(struct gt_blame *b, uint64_t begin_ns, uint64_t end_ns)
{
	for (size_t i = 0; i < GT_ARRAY_SIZE(b->gils); i++) {
		struct gil *g = &b->gils[i];

		if (g->state == NOT_KNOWN && g->log)
			append(b, g, GT_BLOCKER_UNKNOWN, g->since_ns, begin_ns);
		else if (!g->log) /* of most there is nothing: they need none */
			g->log_end_ns = g->forgotten_ns = begin_ns;
		set_state(g, NOT_KNOWN, end_ns);
	}
}

/* ---- waits ---- */

void gt_blame_wait(struct gt_blame *b, struct gt_waiter *w, uint8_t gil, uint64_t start_ns)
{
	struct gil *g;

	w->gil = gil;
	w->start_ns = start_ns;
	w->told_ns = 0;
	w->held_ns = w->unknown_ns = w->others_ns = 0;
	w->link = NULL;
	w->aside = 0;
	if (gil == GIL_INDEX_OTHER)
		return;
	g = &b->gils[gil];
	w->blank_ns = g->forgotten_ns;
	w->aside = g->nwaiters == GT_BLAME_WAITERS_MAX;
	if (w->aside)
		return;
	g->nwaiters++;
	w->next = g->waiters;
	if (w->next)
		w->next->link = &w->next;
	w->link = &g->waiters;
	g->waiters = w;
}

static void unlink_waiter(struct gt_blame *b, struct gt_waiter *w)
{
	if (!w->link)
		return;
	b->gils[w->gil].nwaiters--;
	*w->link = w->next;
	if (w->next)
		w->next->link = w->link;
	w->link = NULL;
}

void gt_blame_forget(struct gt_blame *b, struct gt_waiter *w)
{
	unlink_waiter(b, w);
	for (uint32_t i = w->pairs; i; i = b->pairs[i - 1].next)
		b->pairs[i - 1].now_ns = 0;
	w->pairs = 0;
}

/* What has not been shared out yet. */
static void share_out_rest(struct gt_blame *b, struct gt_waiter *w, uint64_t start_ns,
			   uint64_t end_ns)
{
	const struct gil *g = &b->gils[w->gil];
	struct stretch s = {.start_ns = start_ns,
			    .end_ns = w->aside ? g->forgotten_ns : w->blank_ns,
			    .tid = GT_BLOCKER_UNKNOWN};

	share_out_stretch(b, w, &s, start_ns, end_ns);
	for (uint32_t i = g->n; i && at(g, i - 1)->end_ns > start_ns; i--)
		share_out_stretch(b, w, at(g, i - 1), start_ns, end_ns);
	if (g->state == FREE)
		return;
	s.start_ns = g->since_ns > g->log_end_ns ? g->since_ns : g->log_end_ns;
	s.end_ns = end_ns;
	s.tid = g->state == HELD ? g->tid : GT_BLOCKER_UNKNOWN;
	share_out_stretch(b, w, &s, start_ns, end_ns);
}

static void add(struct gt_blame_share *share, uint64_t ns)
{
	share->ns += ns;
	share->waits += ns != 0;
}

/* Who of those with a part in it had the GIL longest; the lower id of two. */
static void find_blocker(const struct gt_blame *b, const struct gt_waiter *w, struct gt_wait *wait)
{
	for (uint32_t i = w->pairs; i; i = b->pairs[i - 1].next) {
		const struct pair *p = &b->pairs[i - 1];
		uint32_t tid = (uint32_t)p->key;

		if (p->now_ns > wait->blocker_ns ||
		    (p->now_ns == wait->blocker_ns && tid < wait->blocker)) {
			wait->blocker = tid;
			wait->blocker_ns = p->now_ns;
		}
	}
}

int gt_blame_waited(struct gt_blame *b, struct gt_waiter *w, struct gt_span *take)
{
	uint64_t start_ns = take->start_ns, end_ns = take->end_ns;
	struct gt_wait *wait = &take->wait;
	const struct gil *g;

	*wait = (struct gt_wait){0};
	if (take->open & GT_OPEN_UNKNOWN) {
		gt_blame_forget(b, w);
		return b->err;
	}
	unlink_waiter(b, w);
	if (w->gil == GIL_INDEX_OTHER) {
		wait->unknown_ns = end_ns - start_ns;
		return b->err;
	}
	share_out_rest(b, w, start_ns, end_ns);
	wait->held_ns = w->held_ns;
	wait->unknown_ns = w->unknown_ns;
	wait->nobody_ns = end_ns - start_ns - w->held_ns - w->unknown_ns;
	find_blocker(b, w, wait);
	g = &b->gils[w->gil];
	/* What was let go before it waited is not what it waited for. */
	if (take->acquired && g->from_tid && g->from_ns >= start_ns && g->from_ns <= end_ns) {
		wait->from_tid = g->from_tid;
		wait->from_ns = g->from_ns;
		wait->from_start_ns = g->from_start_ns;
	}
	return b->err;
}

void gt_blame_count(struct gt_blame *b, struct gt_waiter *w, const struct gt_span *take)
{
	uint32_t next;

	if (take->open & GT_OPEN_FINALIZING) {
		gt_blame_forget(b, w);
		return;
	}
	for (uint32_t i = w->pairs; i; i = next) {
		struct pair *p = &b->pairs[i - 1];

		p->ns += p->now_ns;
		p->waits++;
		p->now_ns = 0;
		next = p->next;
	}
	w->pairs = 0;
	add(&w->nobody, take->wait.nobody_ns);
	add(&w->unknown, take->wait.unknown_ns);
	add(&w->others, w->others_ns);
	w->others_ns = 0;
}

/* ---- the end ---- */

static int by_key(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	return (x->key > y->key) - (x->key < y->key);
}

void gt_blame_settle(struct gt_blame *b)
{
	if (b->n)
		qsort(b->pairs, b->n, sizeof(*b->pairs), by_key);
}

/* The first pair of that victim. */
static uint32_t first_of(const struct gt_blame *b, uint32_t victim)
{
	uint32_t low = 0, high = b->n;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (b->pairs[mid].key >> 32 < victim)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int tell(struct gt_sink *sink, uint32_t victim, uint32_t tid, uint64_t ns, uint64_t waits)
{
	const struct gt_pair pair = {.victim = victim, .blocker = tid, .ns = ns, .waits = waits};

	/* Of a wait that was none nothing is left but the pair. */
	return waits ? sink->ops->pair(sink, &pair) : 0;
}

int gt_blame_tell(const struct gt_blame *b, const struct gt_waiter *w, struct gt_sink *sink)
{
	int err = tell(sink, w->tid, GT_BLOCKER_NOBODY, w->nobody.ns, w->nobody.waits);

	for (uint32_t i = first_of(b, w->tid); !err && i < b->n; i++) {
		const struct pair *p = &b->pairs[i];

		if (p->key >> 32 != w->tid)
			break;
		err = tell(sink, w->tid, (uint32_t)p->key, p->ns, p->waits);
	}
	if (!err)
		err = tell(sink, w->tid, GT_BLOCKER_OTHERS, w->others.ns, w->others.waits);
	if (!err)
		err = tell(sink, w->tid, GT_BLOCKER_UNKNOWN, w->unknown.ns, w->unknown.waits);
	return err;
}

int gt_blame_create(uint32_t pairs_max, uint64_t start_ns, struct gt_blame **out)
{
	struct gt_blame *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->max = pairs_max;
	if (grow(b)) {
		gt_blame_free(b);
		return -ENOMEM;
	}
	gt_blame_gap(b, 0, start_ns); /* nothing is known before it */
	*out = b;
	return 0;
}

void gt_blame_free(struct gt_blame *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < GT_ARRAY_SIZE(b->gils); i++)
		free(b->gils[i].log);
	free(b->pairs);
	free(b->table);
	free(b);
}
