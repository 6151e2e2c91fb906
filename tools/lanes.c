// SPDX-License-Identifier: Apache-2.0
#include "lanes.h"

#include <sys/random.h>

#define SLOTS_START 64
#define SHIFT       10 /* msprof's pids: the process's own is above these bits */

/* include/linux/threads.h: PID_MAX_LIMIT where long has 64 bits */
#define PID_MAX (4u << 20)

struct gt_lane {
	uint64_t pid;
	uint64_t slices, cpu; /* see struct gt_proftrace_process */
	uint8_t used;
	uint8_t marks;
};

struct gt_lane_thread {
	struct gt_proftrace_thread t;
	size_t nr; /* qsort() is not stable */
};

int gt_lanes_init(struct gt_lanes *l)
{
	*l = (struct gt_lanes){.nslots = SLOTS_START};
	/* Without randomness a trace that was made for it could be slow; no more than that. */
	if (getrandom(&l->seed, sizeof(l->seed), GRND_NONBLOCK) != sizeof(l->seed))
		l->seed = (uintptr_t)l;
	l->slots = calloc(l->nslots, sizeof(*l->slots));
	return l->slots ? 0 : -ENOMEM;
}

void gt_lanes_fini(struct gt_lanes *l)
{
	free(l->slots);
	free(l->threads);
	*l = (struct gt_lanes){0};
}

/* The slot with this pid, or the free one where it belongs. */
static struct gt_lane *find(const struct gt_lanes *l, uint64_t pid)
{
	uint64_t h = pid ^ l->seed;
	size_t at;

	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9;
	h = (h ^ h >> 27) * (l->seed | 1);
	for (at = (h ^ h >> 31) & (l->nslots - 1); l->slots[at].used;
	     at = (at + 1) & (l->nslots - 1))
		if (l->slots[at].pid == pid)
			break;
	return &l->slots[at];
}

static int grow(struct gt_lanes *l)
{
	struct gt_lanes old = *l;

	l->slots = calloc(old.nslots * 2, sizeof(*l->slots));
	if (!l->slots) {
		l->slots = old.slots;
		return -ENOMEM;
	}
	l->nslots = old.nslots * 2;
	for (size_t i = 0; i < old.nslots; i++)
		if (old.slots[i].used)
			*find(l, old.slots[i].pid) = old.slots[i];
	free(old.slots);
	return 0;
}

int gt_lanes_add(struct gt_lanes *l, uint64_t pid)
{
	struct gt_lane *lane;

	if (l->any && l->last_pid == pid)
		return 0;
	lane = find(l, pid);
	if (!lane->used) {
		if (l->n == GT_PROFTRACE_PIDS_MAX)
			return -E2BIG;
		if (l->n >= l->nslots / 2) {
			int rc = grow(l);

			if (rc)
				return rc;
			lane = find(l, pid);
		}
		*lane = (struct gt_lane){.pid = pid, .used = 1};
		l->n++;
	}
	l->any = 1;
	l->last_pid = pid;
	l->last = (size_t)(lane - l->slots);
	return 0;
}

void gt_lanes_slice(struct gt_lanes *l, int cpu)
{
	l->slots[l->last].slices++;
	l->slots[l->last].cpu += cpu != 0;
}

int gt_lanes_mark(struct gt_lanes *l, uint64_t pid, unsigned int clear, unsigned int set)
{
	int rc = gt_lanes_add(l, pid);
	struct gt_lane *lane;

	if (rc)
		return rc;
	lane = &l->slots[l->last];
	lane->marks = (uint8_t)((lane->marks & ~clear) | set);
	return 0;
}

int gt_lanes_thread(struct gt_lanes *l, uint64_t pid, uint64_t tid, int64_t sort_index)
{
	if (l->nthreads == GT_PROFTRACE_THREADS_MAX)
		return -E2BIG;
	if (l->nthreads == l->threads_size) {
		size_t size = l->threads_size ? l->threads_size * 2 : 64;
		void *p = reallocarray(l->threads, size, sizeof(*l->threads));

		if (!p)
			return -ENOMEM;
		l->threads = p;
		l->threads_size = size;
	}
	l->threads[l->nthreads] = (struct gt_lane_thread){
		.t = {.pid = pid, .tid = tid, .sort_index = sort_index}, .nr = l->nthreads};
	l->nthreads++;
	return 0;
}

/* ---- at the end ---- */

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int by_thread(const void *a, const void *b)
{
	const struct gt_lane_thread *x = a, *y = b;

	if (x->t.pid != y->t.pid)
		return x->t.pid < y->t.pid ? -1 : 1;
	if (x->t.tid != y->t.tid)
		return x->t.tid < y->t.tid ? -1 : 1;
	return (x->nr > y->nr) - (x->nr < y->nr);
}

/*
 * Kineto gives a process its program's name, which may be anything, and the label "CPU"; elsewhere
 * this label stands at lanes of msprof, too.
 */
static int is_python(const struct gt_lane *lane, const struct gt_proftrace *t)
{
	return lane->marks & GT_LANE_PYTHON || (t->kineto && lane->marks & GT_LANE_CPU);
}

static void tell_msprof(const struct gt_lane *lane, struct gt_proftrace *t, int *several)
{
	int64_t pid = (int64_t)(lane->pid >> SHIFT);

	if (!(lane->marks & GT_LANE_MSPROF) || pid < 1 || pid > PID_MAX)
		return;
	*several |= t->msprof_pid >= 0 && t->msprof_pid != pid;
	t->msprof_pid = pid;
}

static int tell_pids(const struct gt_lanes *l, struct gt_proftrace *t)
{
	int several = 0;

	t->pids = calloc(l->n + 1, sizeof(*t->pids));
	t->python = calloc(l->n + 1, sizeof(*t->python));
	if (!t->pids || !t->python)
		return -ENOMEM;
	t->msprof_pid = -1;
	t->mindspore_lane = -1;
	for (size_t i = 0; i < l->nslots; i++) {
		const struct gt_lane *lane = &l->slots[i];

		if (!lane->used)
			continue;
		t->pids[t->npids++] = lane->pid;
		if (is_python(lane, t))
			t->python[t->npython++] = lane->pid;
		if (lane->marks & GT_LANE_MINDSPORE && lane->pid <= INT64_MAX &&
		    (t->mindspore_lane < 0 || (int64_t)lane->pid < t->mindspore_lane))
			t->mindspore_lane = (int64_t)lane->pid;
		tell_msprof(lane, t, &several);
	}
	if (several)
		t->msprof_pid = -1;
	qsort(t->pids, t->npids, sizeof(*t->pids), by_number);
	qsort(t->python, t->npython, sizeof(*t->python), by_number);
	return 0;
}

static int by_pid(const void *a, const void *b)
{
	const struct gt_proftrace_process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/*
 * Where nothing but numbers tells which lanes are processes: not those that tell that they are
 * something else, nor those with numbers that msprof makes up.
 */
static int is_process(const struct gt_lane *lane, const struct gt_proftrace *t)
{
	if (!lane->used || !lane->slices || !lane->pid || lane->pid > PID_MAX)
		return 0;
	if (t->npython)
		return is_python(lane, t);
	return !(lane->marks & (GT_LANE_NAME | GT_LANE_DEVICE)) &&
	       (t->msprof_pid < 0 || lane->pid >> SHIFT != (uint64_t)t->msprof_pid);
}

static int tell_processes(const struct gt_lanes *l, struct gt_proftrace *t)
{
	t->processes = calloc(l->n + 1, sizeof(*t->processes));
	if (!t->processes)
		return -ENOMEM;
	for (size_t i = 0; i < l->nslots; i++) {
		const struct gt_lane *lane = &l->slots[i];

		if (is_process(lane, t))
			t->processes[t->nprocesses++] = (struct gt_proftrace_process){
				.pid = lane->pid, .slices = lane->slices, .cpu = lane->cpu};
	}
	qsort(t->processes, t->nprocesses, sizeof(*t->processes), by_pid);
	return 0;
}

static int is_wanted(const struct gt_proftrace *t, uint64_t pid)
{
	return (t->mindspore_lane >= 0 && (uint64_t)t->mindspore_lane == pid) ||
	       bsearch(&pid, t->python, t->npython, sizeof(pid), by_number);
}

/* One of each, with the latest index that was given. */
static int tell_threads(struct gt_lanes *l, struct gt_proftrace *t)
{
	struct gt_proftrace_thread *last = NULL;

	t->threads = calloc(l->nthreads + 1, sizeof(*t->threads));
	if (!t->threads)
		return -ENOMEM;
	if (l->nthreads)
		qsort(l->threads, l->nthreads, sizeof(*l->threads), by_thread);
	for (size_t i = 0; i < l->nthreads; i++) {
		const struct gt_proftrace_thread *th = &l->threads[i].t;

		if (last && last->pid == th->pid && last->tid == th->tid) {
			if (th->sort_index >= 0)
				last->sort_index = th->sort_index;
			continue;
		}
		if (!is_wanted(t, th->pid))
			continue;
		last = &t->threads[t->nthreads++];
		*last = *th;
	}
	return 0;
}

int gt_lanes_tell(struct gt_lanes *l, struct gt_proftrace *t)
{
	int rc = tell_pids(l, t);

	if (!rc)
		rc = tell_processes(l, t);
	return rc ? rc : tell_threads(l, t);
}

int gt_proftrace_add_pids(struct gt_proftrace *t, const struct gt_proftrace *other)
{
	uint64_t *grown = reallocarray(t->pids, t->npids + other->npids + 1, sizeof(*grown));
	size_t n = 0;

	if (!grown)
		return -ENOMEM;
	t->pids = grown;
	memcpy(grown + t->npids, other->pids, other->npids * sizeof(*grown));
	t->npids += other->npids;
	qsort(grown, t->npids, sizeof(*grown), by_number);
	for (size_t i = 0; i < t->npids; i++)
		if (!n || grown[n - 1] != grown[i])
			grown[n++] = grown[i];
	t->npids = n;
	return 0;
}

uint64_t gt_proftrace_free_pid(const struct gt_proftrace *t, unsigned int nth)
{
	uint64_t pid = PID_MAX + 1;

	for (size_t i = 0;; pid++) {
		while (i < t->npids && t->pids[i] < pid)
			i++;
		if ((i == t->npids || t->pids[i] != pid) && !nth--)
			return pid;
	}
}

uint32_t gt_proftrace_free_tids(const struct gt_proftrace *t, uint64_t pid)
{
	uint64_t base = GT_PROFTRACE_TIDS;

	/* They are sorted. */
	for (size_t i = 0; i < t->nthreads; i++) {
		uint64_t tid = t->threads[i].tid;

		if (t->threads[i].pid == pid && tid >= base && tid - base < GT_PROFTRACE_TIDS)
			base += GT_PROFTRACE_TIDS;
	}
	return base <= UINT32_MAX - GT_PROFTRACE_TIDS ? (uint32_t)base : GT_PROFTRACE_TIDS;
}

int64_t gt_proftrace_sort_index(const struct gt_proftrace *t, uint64_t pid, uint64_t tid)
{
	size_t low = 0, high = t->nthreads;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct gt_proftrace_thread *th = &t->threads[mid];

		if (th->pid == pid && th->tid == tid)
			return th->sort_index;
		if (th->pid < pid || (th->pid == pid && th->tid < tid))
			low = mid + 1;
		else
			high = mid;
	}
	return -1;
}
