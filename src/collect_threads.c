// SPDX-License-Identifier: Apache-2.0
#include "collect_private.h"

#include "clock.h"

/*
 * A thread takes the GIL before threading knows it by its id (CPython up to 3.15: it enters itself
 * into threading._active), so it may have no name at first. Others never have one.
 */
#define ASKS 5

#define SEARCH_EVERY_NS 1000000000ull /* in vain, for an id in another namespace */

/* ---- the table ---- */

static int compare_tids(const void *a, const void *b)
{
	uint32_t x = ((const struct gt_known_thread *)a)->tid;
	uint32_t y = ((const struct gt_known_thread *)b)->tid;

	return x < y ? -1 : x > y;
}

static struct gt_known_thread *find_fresh(struct gt_collector *c, uint32_t tid)
{
	for (size_t i = c->n_fresh; i--;)
		if (c->fresh[i].tid == tid)
			return &c->fresh[i];
	return NULL;
}

static struct gt_known_thread *find_old(struct gt_collector *c, uint32_t tid)
{
	const struct gt_known_thread key = {.tid = tid};

	if (!c->n_threads)
		return NULL;
	return bsearch(&key, c->threads, c->n_threads, sizeof(key), compare_tids);
}

static struct gt_known_thread *find_thread(struct gt_collector *c, uint32_t tid)
{
	struct gt_known_thread *t = find_fresh(c, tid);

	return t ? t : find_old(c, tid);
}

int gt_collect_is_known(struct gt_collector *c, uint32_t tid)
{
	return find_thread(c, tid) != NULL;
}

int gt_collect_know(struct gt_collector *c, struct gil_event *ev)
{
	struct gt_known_thread *t = find_thread(c, ev->tid);

	if (t && t->ended) /* the id is another's now, whose name is to be asked for */
		t = NULL;
	if (t && !ev->thread.ns_tid)
		ev->thread.ns_tid = t->ns_tid;
	/* BPF tells of a thread again when others have had its place in the table, and at its end.
	 */
	if (t && t->ns_tid == ev->thread.ns_tid && !strcmp(t->comm, ev->thread.comm))
		return 0;
	if (!t) {
		c->n_seen++;
		if (c->n_fresh == GT_ARRAY_SIZE(c->fresh)) {
			c->missed = 1;
			return 1;
		}
		t = &c->fresh[c->n_fresh++];
		*t = (struct gt_known_thread){.tid = ev->tid, .host_tid = ev->thread.host_tid};
	}
	t->ns_tid = ev->thread.ns_tid;
	memcpy(t->comm, ev->thread.comm, GIL_COMM_LEN);
	ev->thread.name = t->name;
	return 1;
}

static void remember_end(struct gt_collector *c, const struct gt_known_thread *t)
{
	c->ended[c->n_ended++ % GT_ENDED_THREADS] = (struct gt_ended_thread){t->tid, t->ns_tid};
}

void gt_collect_forget(struct gt_collector *c, uint32_t tid)
{
	struct gt_known_thread *fresh = find_fresh(c, tid);
	struct gt_known_thread *old = fresh ? NULL : find_old(c, tid);

	if (fresh || (old && !old->ended))
		remember_end(c, fresh ? fresh : old);
	if (fresh) {
		free(fresh->name);
		*fresh = c->fresh[--c->n_fresh];
	}
	if (old)
		old->ended = 1;
}

void gt_collect_free_threads(struct gt_collector *c)
{
	for (size_t i = 0; i < c->n_threads; i++)
		free(c->threads[i].name);
	free(c->threads);
}

/* ---- names in the kernel ---- */

/* Writes what is known of a thread. */
static void tell_thread(struct gt_collector *c, const struct gt_known_thread *t, uint64_t mono_ns)
{
	struct gil_event ev = {.mono_ns = mono_ns, .tid = t->tid, .kind = GIL_THREAD};

	ev.thread.ns_tid = t->ns_tid;
	ev.thread.host_tid = t->host_tid;
	ev.thread.name = t->name;
	memcpy(ev.thread.comm, t->comm, GIL_COMM_LEN);
	gt_collect_add(c, &ev);
}

/* Records the thread's name where it differs from what is known. */
static void rename_thread(struct gt_collector *c, struct gt_known_thread *t, uint64_t mono_ns)
{
	char comm[GT_PROC_COMM];
	pid_t ns_tid;

	if (c->gone || gt_proc_thread(c->proc, (pid_t)t->tid, comm, &ns_tid))
		return; /* it has ended */
	if (!strcmp(comm, t->comm) && (uint32_t)ns_tid == t->ns_tid)
		return;
	/* execve(2) sets the next program's name, and before that it takes the old memory away. */
	if (gt_proc_memory_gone(c->proc))
		return;
	memcpy(t->comm, comm, GIL_COMM_LEN);
	t->ns_tid = (uint32_t)ns_tid;
	tell_thread(c, t, mono_ns);
}

/*
 * Moves the new threads to the table of all. CPython sets no names before 3.14, and programs that
 * do (setproctitle, prctl) do it shortly after the thread's first event: look again now.
 */
static void absorb_fresh(struct gt_collector *c, uint64_t mono_ns)
{
	size_t known = 0;

	for (size_t i = 0; i < c->n_threads; i++) {
		if (c->threads[i].ended)
			free(c->threads[i].name);
		else
			c->threads[known++] = c->threads[i];
	}
	c->n_threads = known;
	if (known + c->n_fresh > c->room) {
		size_t room = 2 * (known + c->n_fresh);
		struct gt_known_thread *grown = reallocarray(c->threads, room, sizeof(*grown));

		if (!grown) { /* they keep the names that BPF has seen */
			c->n_fresh = 0;
			return;
		}
		c->threads = grown;
		c->room = room;
	}
	for (size_t i = 0; i < c->n_fresh; i++) {
		c->threads[known + i] = c->fresh[i];
		rename_thread(c, &c->threads[known + i], mono_ns);
	}
	c->n_threads += c->n_fresh;
	if (c->n_fresh)
		qsort(c->threads, c->n_threads, sizeof(*c->threads), compare_tids);
	c->n_fresh = 0;
}

int gt_collect_introduce(struct gt_collector *c, uint32_t tid, uint64_t mono_ns)
{
	struct gil_event ev = {.mono_ns = mono_ns, .tid = tid, .kind = GIL_THREAD};
	const struct gt_known_thread *t = find_thread(c, tid);
	pid_t ns_tid;
	int err;

	if (t && !t->ended)
		return 0;
	err = gt_proc_thread(c->proc, (pid_t)tid, ev.thread.comm, &ns_tid);
	if (err)
		return err;
	ev.thread.ns_tid = (uint32_t)ns_tid;
	gt_collect_know(c, &ev);
	gt_collect_add(c, &ev);
	return 0;
}

/* Very many threads were new at once: those that are not known yet are looked for in /proc. */
static void find_missed(struct gt_collector *c, uint64_t mono_ns)
{
	gt_autofree uint32_t *all = NULL;
	uint32_t n_seen = c->n_seen;
	size_t n;

	if (!c->missed || c->gone || gt_snapshot_tids(c->proc, &all, &n))
		return;
	c->missed = 0;
	for (size_t i = 0; i < n; i++) {
		if (c->n_fresh == GT_ARRAY_SIZE(c->fresh))
			absorb_fresh(c, mono_ns);
		(void)gt_collect_introduce(c, all[i], mono_ns);
	}
	absorb_fresh(c, mono_ns);
	c->n_seen = n_seen; /* those that had an event have been counted */
}

void gt_collect_refresh(struct gt_collector *c, uint64_t mono_ns)
{
	absorb_fresh(c, mono_ns);
	find_missed(c, mono_ns);
}

void gt_collect_rename(struct gt_collector *c, uint64_t mono_ns)
{
	gt_collect_refresh(c, mono_ns);
	for (size_t i = 0; i < c->n_threads; i++)
		rename_thread(c, &c->threads[i], mono_ns);
}

/* ---- names in the interpreter ---- */

int gt_collect_wants_names(const struct gt_collector *c)
{
	if (c->n_fresh)
		return 1;
	for (size_t i = 0; i < c->n_threads; i++)
		if (c->threads[i].asked_py < ASKS && !c->threads[i].ended)
			return 1;
	return 0;
}

static const char *name_of(const struct gt_pyname *names, size_t n, uint32_t ns_tid)
{
	size_t low = 0;

	while (n > low) {
		size_t mid = low + (n - low) / 2;

		if (names[mid].ns_tid == ns_tid) /* "Dummy-1" tells nothing of a foreign thread */
			return names[mid].dummy ? NULL : names[mid].name;
		if (names[mid].ns_tid < ns_tid)
			low = mid + 1;
		else
			n = mid;
	}
	return NULL;
}

/*
 * In a child of os.fork(), CPython's only thread there may still have the id that it had in the
 * parent, and so be the one name that is no thread's here. NULL: that is not so, or cannot be told.
 */
static const char *name_of_forked(const struct gt_collector *c, const struct gt_pyname *names,
				  size_t n)
{
	char comm[GT_PROC_COMM];
	pid_t ns_tid;

	if (n != 1 || names[0].dummy || c->proc->pid != c->proc->ns_pid ||
	    gt_proc_thread(c->proc, (pid_t)names[0].ns_tid, comm, &ns_tid) != -ENOENT)
		return NULL;
	return names[0].name;
}

uint32_t gt_collect_names(struct gt_collector *c, const struct gt_pyname *names, size_t n,
			  uint64_t mono_ns)
{
	uint32_t named = 0;

	gt_collect_refresh(c, mono_ns);
	for (size_t i = 0; i < c->n_threads; i++) {
		struct gt_known_thread *t = &c->threads[i];
		const char *name = t->ns_tid ? name_of(names, n, t->ns_tid) : NULL;
		char *copy;

		if (t->ended)
			continue;
		if (!name && t->tid == (uint32_t)c->proc->pid)
			name = name_of_forked(c, names, n);
		t->asked_py = name || t->asked_py >= ASKS ? ASKS : (uint8_t)(t->asked_py + 1);
		named += name || t->name;
		if (!name || (t->name && !strcmp(name, t->name)))
			continue;
		copy = strdup(name);
		if (!copy)
			continue;
		free(t->name);
		t->name = copy;
		tell_thread(c, t, mono_ns);
	}
	return named;
}

/* ---- ids ---- */

static uint32_t ns_tid_of(const struct gt_collector *c, uint32_t tid)
{
	char comm[GT_PROC_COMM];
	pid_t ns_tid;

	return gt_proc_thread(c->proc, (pid_t)tid, comm, &ns_tid) ? 0 : (uint32_t)ns_tid;
}

static uint32_t find_by_ns_tid(const struct gt_collector *c, uint32_t ns_tid)
{
	for (size_t i = 0; i < c->n_fresh; i++)
		if (c->fresh[i].ns_tid == ns_tid)
			return c->fresh[i].tid;
	for (size_t i = 0; i < c->n_threads; i++)
		if (c->threads[i].ns_tid == ns_tid && !c->threads[i].ended)
			return c->threads[i].tid;
	/* It may have ended before its mark was read; the latest of that id. */
	for (uint32_t i = c->n_ended; i && c->n_ended - i < GT_ENDED_THREADS; i--)
		if (c->ended[(i - 1) % GT_ENDED_THREADS].ns_tid == ns_tid)
			return c->ended[(i - 1) % GT_ENDED_THREADS].tid;
	return 0;
}

/*
 * In /proc, where all have to be looked at if there is a namespace in between. That takes long with
 * thousands of threads, and who asks may ask again and again for one that has ended: so after a
 * search in vain there is none for a while.
 */
static uint32_t search_by_ns_tid(struct gt_collector *c, uint32_t ns_tid)
{
	gt_autofree uint32_t *all = NULL;
	uint64_t now_ns = gt_mono_ns();
	size_t n;

	if (ns_tid_of(c, ns_tid) == ns_tid)
		return ns_tid;
	if (c->proc->pid == c->proc->ns_pid || now_ns - c->searched_ns < SEARCH_EVERY_NS)
		return 0;
	if (gt_snapshot_tids(c->proc, &all, &n))
		return 0;
	for (size_t i = 0; i < n; i++)
		if (ns_tid_of(c, all[i]) == ns_tid)
			return all[i];
	c->searched_ns = now_ns;
	return 0;
}

uint32_t gt_collect_tid_of(struct gt_collector *c, uint32_t ns_tid, uint64_t mono_ns)
{
	uint32_t tid = find_by_ns_tid(c, ns_tid);

	if (tid)
		return tid;
	tid = search_by_ns_tid(c, ns_tid);
	return tid && !gt_collect_introduce(c, tid, mono_ns) ? tid : 0;
}

static int compare_ids(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

void gt_collect_end_gone(struct gt_collector *c, uint64_t mono_ns)
{
	struct gil_event ev = {.mono_ns = mono_ns, .kind = GIL_EXIT};
	gt_autofree uint32_t *all = NULL;
	size_t n;

	/* The process is gone: with it ends the file. */
	if (gt_snapshot_tids(c->proc, &all, &n))
		return;
	for (size_t i = 0; i < c->n_threads; i++) {
		struct gt_known_thread *t = &c->threads[i];

		/* An id that is there may be another thread's by now: its name is asked for anew.
		 */
		t->asked_py = 0;
		/* A list of threads that come and go may lack one. */
		if (t->ended || bsearch(&t->tid, all, n, sizeof(*all), compare_ids) ||
		    ns_tid_of(c, t->tid))
			continue;
		t->ended = 1;
		remember_end(c, t);
		ev.tid = t->tid;
		gt_collect_add(c, &ev);
	}
}
