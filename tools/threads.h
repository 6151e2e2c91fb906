/* SPDX-License-Identifier: Apache-2.0 */
/*
 * threads.h - the threads of a timeline: what is known of each, found by its id. Private to
 * timeline.c and slices.c. Nothing is ever removed; the pointers stay valid until
 * gt_threads_free().
 */
#ifndef GT_THREADS_H
#define GT_THREADS_H

#include "blame.h"
#include "giltrace/gilfile.h"
#include "sink.h"

enum thread_state {
	UNKNOWN, /* no event yet in this epoch */
	IDLE,
	WAITING,
	HOLDING,
	DROPPING, /* has released; the slice is drawn when its end is known */
};

/*
 * A life is a stretch in which a thread is observed: up to its end or a gap. It begins with the
 * first event, or the slice that this one shows to have been under way.
 */
struct thread {
	struct thread *next_active;
	struct thread *next_leaver;
	struct gt_span held; /* back, as more will be known of it; end_ns 0: none */
	struct gt_waiter waiter;
	uint64_t epoch; /* in which `state` was valid; an earlier one: UNKNOWN */
	uint64_t since_ns;
	uint64_t last_ns;    /* of its latest event; 0: none */
	uint64_t row_end_ns; /* end of its latest slice */
	uint64_t last_start_ns[GT_SPAN_KINDS];
	uint64_t seen_ns, own_ns; /* of this life: its beginning, its first event; 0: not yet */
	uint64_t first_ns, observed_ns; /* of all lives that are over */
	uint64_t unknown_ns;            /* in states of which the end was missed */
	uint32_t life;                  /* how many are over */
	uint32_t tid;
	uint8_t state;  /* enum thread_state */
	uint8_t gil;    /* of the state */
	uint8_t open;   /* enum gt_span_open of the state's beginning */
	uint8_t yields; /* DROPPING: waits for the switch */
	uint8_t forced; /* DROPPING: enum gt_span_forced of the release; else GT_FORCED_UNKNOWN */
	uint8_t ended;  /* the names are of a thread that is no more */
	char comm[GIL_COMM_LEN];
	char *name; /* in the interpreter; NULL: not known */
};

struct gt_threads {
	struct thread *latest; /* that was asked for */
	struct thread **table; /* open addressing by tid, twice as large as `list` */
	struct thread **list;  /* in the order of appearance */
	uint32_t n, size;      /* of the list; the size is a power of two */
};

/* -ENOMEM. */
int gt_threads_init(struct gt_threads *s);
void gt_threads_free(struct gt_threads *s);

static inline uint32_t gt_threads_slot(const struct gt_threads *s, uint32_t tid)
{
	/* The address keeps a crafted file from choosing colliding ids. */
	uint64_t h = (tid ^ (uintptr_t)s) * 0x9e3779b97f4a7c15u;

	h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
	return (uint32_t)(h >> 32) & (2 * s->size - 1);
}

/* Where it is or would be. */
static inline struct thread **gt_threads_find(const struct gt_threads *s, uint32_t tid)
{
	uint32_t i = gt_threads_slot(s, tid);

	while (s->table[i] && s->table[i]->tid != tid)
		i = (i + 1) & (2 * s->size - 1);
	return &s->table[i];
}

/* -ENOMEM, -E2BIG. */
int gt_threads_add(struct gt_threads *s, uint32_t tid, struct thread **out);

/* The thread with that id, which is made where there is none. -ENOMEM, -E2BIG. */
static inline int gt_threads_get(struct gt_threads *s, uint32_t tid, struct thread **out)
{
	if (!s->latest || s->latest->tid != tid) {
		struct thread *t = *gt_threads_find(s, tid);

		if (!t)
			return gt_threads_add(s, tid, out);
		s->latest = t;
	}
	*out = s->latest;
	return 0;
}

/* The list by id. Afterwards nothing is made any more. */
void gt_threads_sort(struct gt_threads *s);

/* The latest names count. That in the interpreter is kept while it is not told again. -ENOMEM. */
int gt_thread_keep_names(struct thread *t, const struct gil_event *ev);

/* Its state at `ns` is known. */
static inline void gt_thread_seen(struct thread *t, uint64_t ns)
{
	if (!t->seen_ns || ns < t->seen_ns)
		t->seen_ns = ns;
}

/* It was not what it was thought to be in before its first event. */
static inline void gt_thread_unseen(struct thread *t)
{
	t->seen_ns = t->own_ns;
}

/* What it does after `ns` is not known, or done by another thread. */
void gt_thread_lived(struct thread *t, uint64_t ns);

/* It is shown that a life which is over, and had its first event at own_ns, began at `ns`. */
void gt_thread_lived_before(struct thread *t, uint64_t ns, uint64_t own_ns);

#endif
