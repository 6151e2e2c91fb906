// SPDX-License-Identifier: Apache-2.0
#include "rows.h"

#include "sink.h"

/* Of a recorded id; where it was used again, the threads follow each other in a list. */
struct seat {
	uint32_t tid;
	uint32_t first, now; /* indexes of lives; `now`: of the event at hand */
	uint8_t ended;       /* the next event is of another thread */
};

/* Of one thread. */
struct life {
	uint32_t id;   /* by which it is shown; 0: not known */
	uint32_t next; /* with the same recorded id; 0: none (that is nobody's next) */
};

struct gt_rows {
	struct gt_rows_opts opts;
	struct seat *seats; /* in the order of appearance */
	uint32_t *table; /* open addressing by tid: index of a seat + 1; twice as large as seats */
	uint32_t nseats, size; /* a power of two */
	uint32_t latest;       /* the seat that was asked for */
	struct life *lives;
	uint32_t nlives, lives_size;
	uint32_t nunknown; /* seats with a life whose id is not known */
};

static int has_thread(const struct gil_event *ev)
{
	return ev->kind != GIL_GIL && ev->kind != GIL_LOST && ev->kind != GIL_LATE &&
	       ev->kind != GIL_PAUSED && (ev->kind != GIL_MARK || ev->tid);
}

/* Whose thread is it? Of a mark, which may stand beside its place, that of the moment. */
static int begins_life(const struct seat *s, const struct gil_event *ev)
{
	return s->ended && ev->kind != GIL_EXIT && ev->kind != GIL_MARK;
}

static void note_end(struct seat *s, const struct gil_event *ev)
{
	if (ev->kind != GIL_MARK)
		s->ended = ev->kind == GIL_EXIT;
}

/* ---- the table ---- */

static uint32_t *find_slot(const struct gt_rows *r, uint32_t tid)
{
	/* The address keeps a crafted file from choosing colliding ids. */
	uint64_t h = (tid ^ (uintptr_t)r) * 0x9e3779b97f4a7c15u;
	uint32_t mask = 2 * r->size - 1, i;

	h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
	for (i = (uint32_t)(h >> 32) & mask; r->table[i]; i = (i + 1) & mask)
		if (r->seats[r->table[i] - 1].tid == tid)
			break;
	return &r->table[i];
}

static int grow_seats(struct gt_rows *r)
{
	uint32_t size = r->size ? r->size * 2 : 64;
	struct seat *seats;
	uint32_t *table;

	if (size > GT_ROWS_THREADS_MAX)
		return -E2BIG;
	seats = reallocarray(r->seats, size, sizeof(*seats));
	if (!seats)
		return -ENOMEM;
	r->seats = seats;
	table = calloc(size, 2 * sizeof(*table));
	if (!table)
		return -ENOMEM;
	free(r->table);
	r->table = table;
	r->size = size;
	for (uint32_t i = 0; i < r->nseats; i++)
		*find_slot(r, seats[i].tid) = i + 1;
	return 0;
}

/* Makes it the latest. 0: there is none. */
static int find_seat(struct gt_rows *r, uint32_t tid)
{
	uint32_t slot;

	if (r->latest < r->nseats && r->seats[r->latest].tid == tid)
		return 1;
	slot = *find_slot(r, tid);
	if (slot)
		r->latest = slot - 1;
	return slot != 0;
}

/* ---- the first pass ---- */

static int add_life(struct gt_rows *r, uint32_t *out)
{
	if (r->nlives == r->lives_size) {
		uint32_t size = r->lives_size ? r->lives_size * 2 : 64;
		struct life *lives = reallocarray(r->lives, size, sizeof(*lives));

		if (!lives)
			return -ENOMEM;
		r->lives = lives;
		r->lives_size = size;
	}
	r->lives[r->nlives] = (struct life){0};
	*out = r->nlives++;
	return 0;
}

static int add_seat(struct gt_rows *r, uint32_t tid)
{
	struct seat s = {.tid = tid};
	int err = r->nseats == r->size ? grow_seats(r) : 0;

	if (!err)
		err = add_life(r, &s.first);
	if (err)
		return err;
	s.now = s.first;
	r->seats[r->nseats] = s;
	*find_slot(r, tid) = ++r->nseats;
	r->latest = r->nseats - 1;
	return 0;
}

/* The id was used again. Beyond so many threads, which takes a while, they are not told apart. */
static int begin_life(struct gt_rows *r)
{
	struct seat *s = &r->seats[r->latest];
	uint32_t life;
	int err;

	s->ended = 0;
	if (r->nlives >= 2 * GT_ROWS_THREADS_MAX)
		return 0;
	err = add_life(r, &life);
	if (err)
		return err;
	r->lives[s->now].next = life;
	s->now = life;
	return 0;
}

int gt_rows_learn(struct gt_rows *r, const struct gil_event *ev)
{
	struct seat *s;
	int err = 0;

	if (!has_thread(ev))
		return 0;
	if (!find_seat(r, ev->tid))
		err = add_seat(r, ev->tid);
	else if (begins_life(&r->seats[r->latest], ev))
		err = begin_life(r);
	if (err)
		return err;
	s = &r->seats[r->latest];
	note_end(s, ev);
	if (ev->kind == GIL_THREAD) {
		uint32_t id = r->opts.ids == GT_IDS_HOST ? ev->thread.host_tid : ev->thread.ns_tid;

		if (id && id < GT_SINK_TID_END)
			r->lives[s->now].id = id;
	}
	return 0;
}

void gt_rows_settle(struct gt_rows *r)
{
	for (uint32_t i = 0; i < r->nseats; i++) {
		struct seat *s = &r->seats[i];
		uint32_t life = s->first;
		int unknown = 0;

		if (r->opts.pid && s->tid == r->opts.pid && !r->lives[life].id)
			r->lives[life].id = r->opts.shown_pid;
		do {
			unknown |= !r->lives[life].id;
			life = r->lives[life].next;
		} while (life);
		r->nunknown += (uint32_t)unknown;
		s->now = s->first;
		s->ended = 0;
	}
}

/* ---- the second pass ---- */

int gt_rows_find(struct gt_rows *r, const struct gil_event *ev, uint32_t *row)
{
	struct seat *s;

	if (!has_thread(ev)) {
		*row = ev->tid;
		return 0;
	}
	if (!find_seat(r, ev->tid))
		return -E2BIG;
	s = &r->seats[r->latest];
	if (begins_life(s, ev) && r->lives[s->now].next)
		s->now = r->lives[s->now].next;
	note_end(s, ev);
	*row = r->lives[s->now].id;
	if (!*row)
		*row = GT_SINK_TID_UNKNOWN + r->latest;
	return 0;
}

uint32_t gt_rows_main(const struct gt_rows *r)
{
	return r->opts.shown_pid;
}

uint32_t gt_rows_recorded(const struct gt_rows *r, uint32_t row, const char **where)
{
	if (row < GT_SINK_TID_UNKNOWN || row - GT_SINK_TID_UNKNOWN >= r->nseats)
		return 0;
	*where = r->opts.on_host ? "host" : "recorder";
	return r->seats[row - GT_SINK_TID_UNKNOWN].tid;
}

uint32_t gt_rows_unknown(const struct gt_rows *r)
{
	return r->nunknown;
}

int gt_rows_create(const struct gt_rows_opts *opts, struct gt_rows **out)
{
	struct gt_rows *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	r->opts = *opts;
	err = grow_seats(r);
	if (err) {
		gt_rows_free(r);
		return err;
	}
	*out = r;
	return 0;
}

void gt_rows_free(struct gt_rows *r)
{
	if (!r)
		return;
	free(r->seats);
	free(r->table);
	free(r->lives);
	free(r);
}
