/* SPDX-License-Identifier: Apache-2.0 */
/*
 * threads.h - the threads of a timeline: what is known of each, found by its id. Private to
 * timeline.c. Nothing is ever removed; the pointers stay valid until gt_threads_free().
 */
#ifndef GT_THREADS_H
#define GT_THREADS_H

#include "sink.h"
#include "timeline.h"

enum thread_state {
	UNKNOWN, /* no event yet in this epoch */
	IDLE,
	WAITING,
	HOLDING,
	DROPPING, /* has released; the slice is drawn when its end is known */
};

struct thread {
	struct thread *next_active;
	struct thread *next_leaver;
	struct gt_span held; /* back, as more will be known of it; end_ns 0: none */
	uint64_t epoch;      /* in which `state` was valid; an earlier one: UNKNOWN */
	uint64_t since_ns;
	uint64_t last_ns;    /* of its latest event; 0: none */
	uint64_t row_end_ns; /* end of its latest slice */
	uint64_t last_start_ns[GT_SPAN_KINDS];
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

static inline uint32_t gt_threads_slot(const struct gt_threads *s, uint32_t tid)
{
	/* The address keeps a crafted file from choosing colliding ids. */
	uint64_t h = (tid ^ (uintptr_t)s) * 0x9e3779b97f4a7c15u;

	h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
	return (uint32_t)(h >> 32) & (2 * s->size - 1);
}

static inline struct thread **gt_threads_find(const struct gt_threads *s, uint32_t tid)
{
	uint32_t i = gt_threads_slot(s, tid);

	while (s->table[i] && s->table[i]->tid != tid)
		i = (i + 1) & (2 * s->size - 1);
	return &s->table[i];
}

/* Also to begin with. -ENOMEM, -E2BIG. */
static inline int gt_threads_grow(struct gt_threads *s)
{
	uint32_t size = s->size ? s->size * 2 : 64;
	struct thread **list, **table;

	if (size > GT_TIMELINE_THREADS_MAX)
		return -E2BIG;
	list = realloc(s->list, size * sizeof(*list));
	if (!list)
		return -ENOMEM;
	s->list = list;
	table = calloc(size, 2 * sizeof(*table));
	if (!table)
		return -ENOMEM;
	free(s->table);
	s->table = table;
	s->size = size;
	for (uint32_t i = 0; i < s->n; i++)
		*gt_threads_find(s, list[i]->tid) = list[i];
	return 0;
}

/* The thread with that id, which is made where there is none. -ENOMEM, -E2BIG. */
static inline int gt_threads_get(struct gt_threads *s, uint32_t tid, struct thread **out)
{
	struct thread **slot;
	int err;

	if (s->latest && s->latest->tid == tid) {
		*out = s->latest;
		return 0;
	}
	slot = gt_threads_find(s, tid);
	if (!*slot) {
		if (s->n == s->size) {
			err = gt_threads_grow(s);
			if (err)
				return err;
			slot = gt_threads_find(s, tid);
		}
		*slot = calloc(1, sizeof(**slot));
		if (!*slot)
			return -ENOMEM;
		(*slot)->tid = tid;
		s->list[s->n++] = *slot;
	}
	*out = s->latest = *slot;
	return 0;
}

/* The latest names count. That in the interpreter is kept while it is not told again. -ENOMEM. */
static inline int gt_thread_keep_names(struct thread *t, const struct gil_event *ev)
{
	const char *name = ev->thread.name;

	memcpy(t->comm, ev->thread.comm, sizeof(t->comm));
	if (name || t->ended) {
		free(t->name);
		t->name = name ? strndup(name, GIL_NAME_MAX) : NULL;
	}
	t->ended = 0;
	return name && !t->name ? -ENOMEM : 0;
}

static inline void gt_threads_free(struct gt_threads *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		free(s->list[i]->name);
		free(s->list[i]);
	}
	free(s->list);
	free(s->table);
}

#endif
