// SPDX-License-Identifier: Apache-2.0
#include "finder.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "clock.h"
#include "families.h"
#include "log.h"
#include "proclist.h"
#include "rights.h"

#define MS             1000000ull
#define SCAN_NS        (1000 * MS) /* between two looks at all processes */
#define CHILDREN_NS    (200 * MS)  /* likewise, for children that nobody tells of */
#define RECHECK_MAX_NS (15000 * MS)
#define SOON_NS        (1 * MS)    /* after an exec: its libraries are mapped within milliseconds */
#define STARTING_NS    (2000 * MS) /* GT_LOOK_SHORT */
#define WATCH_MAX      65536

/* A process that is looked at until it is a Python. */
struct watched {
	pid_t pid;
	pid_t parent; /* 0: not known */
	const char *how;
	uint64_t born_ns;
	uint64_t wait_ns, next_ns;
	enum gt_look look;
	uint64_t until_ns;
};

struct gt_finder {
	const struct gt_finder_opts *opts;
	struct gt_pycache *cache;
	struct gt_npu_host *npus;

	/* The thread's; the session's before it runs. */
	struct gt_proclist processes; /* where all are looked at */
	struct watched *watched;
	size_t n_watched;
	struct gt_families *families; /* NULL: not followed */
	uint64_t scan_ns;             /* of the next scan */
	pid_t barred;                 /* a process that we are not let look into; 0: none so far */
	int barred_err;

	pthread_t thread;
	int running, children_in_proc, late;
	int found_fd, wake_fd; /* eventfds */

	pthread_mutex_t lock; /* for what follows */
	int stop;
	struct gt_found *found;
	size_t n_found;
	struct watched *told; /* to be watched; with how NULL: to be followed */
	size_t n_told;
	size_t pending; /* of the watched, as last counted */
};

/* Makes room for one more; the array keeps what it has where that fails. */
static int grow(void *array, size_t n, size_t size)
{
	void **a = array;
	void *more;

	if (n & (n - 1) || (!n && *a)) /* grows at 0, 1, 2, 4, ... */
		return 0;
	more = reallocarray(*a, n ? 2 * n : 1, size);
	if (!more) {
		gt_error("out of memory");
		return -ENOMEM;
	}
	*a = more;
	return 0;
}

static void deliver(struct gt_finder *f, const struct gt_found *found)
{
	pthread_mutex_lock(&f->lock);
	if (grow(&f->found, f->n_found, sizeof(*f->found)))
		gt_recording_close(found->recording);
	else
		f->found[f->n_found++] = *found;
	pthread_mutex_unlock(&f->lock);
	(void)eventfd_write(f->found_fd, 1);
}

/*
 * Opens the recording of a Python, and hands it on; the process is taken over. What goes wrong with
 * one that nobody has named, because it has ended or executed something else meanwhile, is not
 * worth a word: -EAGAIN. 0 or -errno.
 */
static int open_python(struct gt_finder *f, struct gt_proc *p, int named,
		       const struct gt_pytarget *known, const struct gt_npus *npus,
		       const struct gt_found *as)
{
	gt_autoclose int maps_fd = named ? -1 : fcntl(p->mapsfd, F_DUPFD_CLOEXEC, 0);
	const struct gt_proc before = {.mapsfd = maps_fd};
	struct gt_found found = *as;
	int err, gone;

	found.pid = p->pid;
	if (!named)
		gt_log_hold();
	found.recording = gt_recording_open(p, f->cache, known, npus, &err);
	gone = !named && (err == -ENOENT || err == -ESRCH ||
			  (err && maps_fd >= 0 && gt_proc_memory_gone(&before)));
	if (!named)
		gt_log_release(!gone);
	if (!found.recording)
		return gone ? -EAGAIN : err;
	gt_families_remember(f->families, &found.recording->proc, &found.recording->py);
	found.recording->unnamed = !named;
	if (!found.born_mono_ns)
		found.born_mono_ns = found.recording->about.born_mono_ns;
	deliver(f, &found);
	return 0;
}

static const struct gt_npus *look_at_npus(struct gt_finder *f, const struct gt_proc *p,
					  struct gt_npus *npus)
{
	return gt_npu_host_devices(f->npus) && gt_npu_of(f->npus, p, npus) >= 0 ? npus : NULL;
}

/* ---- processes that are named ---- */

static int is_named_before(const struct gt_finder *f, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (f->opts->pids[k] == f->opts->pids[i])
			return 1;
	return 0;
}

static enum gt_status open_named(struct gt_finder *f, size_t i)
{
	struct gt_npus npus;
	struct gt_proc p;
	int err;

	if (is_named_before(f, i))
		return GT_OK;
	err = gt_proc_open(f->opts->pids[i], &p);
	if (!err)
		err = open_python(f, &p, 1, NULL, look_at_npus(f, &p, &npus),
				  &(struct gt_found){0});
	return gt_status_of(err);
}

static int is_named(const struct gt_finder *f, pid_t pid)
{
	for (size_t i = 0; i < f->opts->n_pids; i++)
		if (f->opts->pids[i] == pid)
			return 1;
	return 0;
}

/* ---- all processes ---- */

/* A process that is no target now is looked at less and less often. */
static void check_later(struct gt_known *k, uint64_t now_ns)
{
	uint64_t age_ns = now_ns - k->first_ns;

	k->next_ns = now_ns + (age_ns / 2 > RECHECK_MAX_NS ? RECHECK_MAX_NS : age_ns / 2);
}

static void note_barred(struct gt_finder *f, pid_t pid, int err)
{
	if ((err != -EPERM && err != -EACCES) || f->barred)
		return;
	f->barred = pid;
	f->barred_err = err;
}

/* What was looked for may be among those that we are not let look into. */
static void warn_barred(const struct gt_finder *f)
{
	char why[GT_RIGHTS_TEXT];

	if (!f->barred)
		return;
	gt_rights_why(GT_STEP_FILES, f->barred_err, f->barred, why);
	/* Where nothing is missing that we could have, a process protects itself. */
	gt_log(why[0] ? GT_LOG_WARN : GT_LOG_DEBUG,
	       "not all processes could be looked into, such as process %d: %s%s", f->barred,
	       strerror(-f->barred_err), why);
}

/* Is it what is asked for? If so, it is handed on. */
static void consider(struct gt_finder *f, struct gt_known *k, uint64_t now_ns)
{
	struct gt_found as = {.how = f->late ? "found" : NULL};
	struct gt_npus npus = {.bound = 0};
	int excluded, python = 0, wanted = 0;
	struct gt_proc p;
	int err = gt_proc_try_open(k->pid, &p);

	if (err) {
		note_barred(f, k->pid, err);
		return;
	}
	excluded = gt_about_is_excluded(&p);
	if (!excluded)
		python = gt_pytarget_is_python(f->cache, &p);
	if (python > 0)
		wanted = f->opts->all_python ? 1 : gt_npu_of(f->npus, &p, &npus);
	note_barred(f, k->pid, python < 0 ? python : wanted);
	k->taken = excluded > 0 || wanted > 0;
	if (python <= 0)
		check_later(k, now_ns);
	if (wanted > 0)
		(void)open_python(f, &p, 0, NULL, look_at_npus(f, &p, &npus), &as);
	else
		gt_proc_close(&p);
}

static void scan(struct gt_finder *f, uint64_t now_ns)
{
	gt_proclist_refresh(&f->processes, now_ns);
	if (!f->opts->all_npu && !f->opts->all_python)
		return;
	if (f->opts->all_npu)
		(void)gt_npu_host_refresh(f->npus);
	for (size_t i = 0; i < f->processes.n; i++) {
		struct gt_known *k = &f->processes.list[i];

		if (!k->taken && k->next_ns <= now_ns && !(!f->late && is_named(f, k->pid)))
			consider(f, k, now_ns);
		else if (!f->late && is_named(f, k->pid))
			k->taken = 1;
	}
}

/* ---- single processes ---- */

static void answer_held(struct gt_finder *f, const struct watched *w)
{
	if (w->look == GT_LOOK_HELD)
		deliver(f, &(struct gt_found){.pid = w->pid, .held = 1});
}

/* 1: done with it; 0: to be looked at again. */
static int look(struct gt_finder *f, const struct watched *w)
{
	struct gt_found as = {
		.how = w->how, .born_mono_ns = w->born_ns, .held = w->look == GT_LOOK_HELD};
	struct gt_known *k = gt_proclist_find(&f->processes, w->pid);
	const struct gt_pytarget *known;
	struct gt_npus npus;
	struct gt_proc p;
	int err;

	if (gt_proc_try_open(w->pid, &p)) {
		answer_held(f, w);
		return 1;
	}
	known = gt_families_inherited(f->families, &p, w->parent);
	if (!known && gt_pytarget_is_python(f->cache, &p) <= 0) {
		gt_proc_close(&p);
		answer_held(f, w);
		return w->look == GT_LOOK_HELD || gt_mono_ns() > w->until_ns;
	}
	if (k && k->start_ticks == p.start_ticks)
		k->taken = 1;
	err = open_python(f, &p, 0, known, look_at_npus(f, &p, &npus), &as);
	if (err)
		answer_held(f, w);
	return w->look == GT_LOOK_HELD || err != -EAGAIN;
}

static void look_at_watched(struct gt_finder *f, uint64_t now_ns)
{
	size_t left = 0;

	for (size_t i = 0; i < f->n_watched; i++) {
		struct watched *w = &f->watched[i];

		if (w->next_ns <= now_ns) {
			if (look(f, w))
				continue;
			w->wait_ns = w->wait_ns * 2 > SCAN_NS ? SCAN_NS : w->wait_ns * 2;
			w->next_ns = gt_mono_ns() + w->wait_ns;
		}
		f->watched[left++] = *w;
	}
	f->n_watched = left;
}

static void watch(struct gt_finder *f, const struct watched *w)
{
	struct gt_known *k = gt_proclist_find(&f->processes, w->pid);

	/* Another program: what was known of it does not count any more. */
	if (k) {
		k->taken = 0;
		k->first_ns = k->next_ns = gt_mono_ns();
	}
	for (size_t i = 0; i < f->n_watched; i++) {
		if (f->watched[i].pid == w->pid) {
			f->watched[i] = *w;
			return;
		}
	}
	if (f->n_watched < WATCH_MAX && !grow(&f->watched, f->n_watched, sizeof(*w)))
		f->watched[f->n_watched++] = *w;
	else
		answer_held(f, w);
}

/* ---- children that nobody tells of ---- */

static void look_for_children(struct gt_finder *f, uint64_t now_ns)
{
	int more;

	gt_proclist_refresh(&f->processes, now_ns);
	do {
		more = 0;
		for (size_t i = 0; i < f->processes.n; i++) {
			struct gt_known *k = &f->processes.list[i];
			const struct gt_known *parent =
				k->followed ? NULL : gt_proclist_find(&f->processes, k->parent);

			if (!parent || !parent->followed)
				continue;
			k->followed = 1;
			more = 1;
			if (!k->taken)
				watch(f, &(struct watched){.pid = k->pid,
							   .parent = k->parent,
							   .how = "forked",
							   .wait_ns = SOON_NS,
							   .until_ns = UINT64_MAX});
		}
	} while (more); /* grandchildren, whose pids may be smaller */
}

static void follow(struct gt_finder *f, pid_t pid)
{
	struct gt_known *k = gt_proclist_find(&f->processes, pid);

	if (!k) {
		gt_proclist_refresh(&f->processes, gt_mono_ns());
		k = gt_proclist_find(&f->processes, pid);
	}
	if (k)
		k->followed = k->taken = 1;
}

/* ---- all that are there at first ---- */

/* Descendants of those that were found; what is no Python may become one. */
static void find_descendants(struct gt_finder *f)
{
	gt_proclist_refresh(&f->processes, gt_mono_ns());
	for (size_t i = 0; i < f->n_found; i++) {
		struct gt_known *k = gt_proclist_find(&f->processes, f->found[i].pid);

		if (k)
			k->followed = k->taken = 1;
	}
	look_for_children(f, gt_mono_ns());
	look_at_watched(f, gt_mono_ns());
}

void gt_finder_followed(const struct gt_finder *f, void (*fn)(void *ctx, pid_t pid), void *ctx)
{
	for (size_t i = 0; i < f->processes.n; i++)
		if (f->processes.list[i].followed)
			fn(ctx, f->processes.list[i].pid);
}

enum gt_status gt_finder_first(struct gt_finder *f)
{
	enum gt_status status = GT_OK;

	for (size_t i = 0; i < f->opts->n_pids; i++) {
		enum gt_status one = open_named(f, i);

		if (one > status)
			status = one;
	}
	if (f->opts->all_npu || f->opts->all_python)
		scan(f, gt_mono_ns());
	if (f->opts->follow)
		find_descendants(f);
	warn_barred(f);
	if (f->n_found || f->opts->n_pids || !f->opts->all_npu || f->opts->all_python)
		return status;
	if (!gt_npu_host_devices(f->npus))
		gt_error("there is no Ascend NPU on this host, or its driver is not loaded: %s",
			 gt_npu_host_text(f->npus));
	else
		gt_error("no Python process uses an NPU now: %s", gt_npu_host_text(f->npus));
	return GT_NO_TARGET;
}

/* ---- the thread ---- */

/* What the session has told since. 1: to stop. */
static int take_told(struct gt_finder *f)
{
	gt_autofree struct watched *told = NULL;
	size_t n;
	int stop;

	pthread_mutex_lock(&f->lock);
	told = gt_steal_ptr(f->told);
	n = f->n_told;
	f->n_told = 0;
	f->pending += n;
	stop = f->stop;
	pthread_mutex_unlock(&f->lock);
	for (size_t i = 0; i < n && !stop; i++) {
		if (told[i].how)
			watch(f, &told[i]);
		else
			follow(f, told[i].pid);
	}
	return stop;
}

static uint64_t next_ns(const struct gt_finder *f)
{
	uint64_t next = f->scan_ns;

	for (size_t i = 0; i < f->n_watched; i++)
		if (f->watched[i].next_ns < next)
			next = f->watched[i].next_ns;
	return next;
}

static void do_scan(struct gt_finder *f, uint64_t now_ns)
{
	if (f->opts->all_npu || f->opts->all_python)
		scan(f, now_ns);
	if (f->children_in_proc)
		look_for_children(f, now_ns);
	now_ns = gt_mono_ns();
	f->scan_ns = f->children_in_proc                       ? now_ns + CHILDREN_NS
		     : f->opts->all_npu || f->opts->all_python ? now_ns + SCAN_NS
							       : UINT64_MAX;
}

static void *find_late_comers(void *finder)
{
	struct gt_finder *f = finder;
	struct pollfd wake = {.fd = f->wake_fd, .events = POLLIN};

	/* Those that were born before somebody told of them. */
	if (f->opts->follow)
		look_for_children(f, gt_mono_ns());
	while (!take_told(f)) {
		uint64_t now_ns = gt_mono_ns(), next;
		eventfd_t woken;

		look_at_watched(f, now_ns);
		if (f->scan_ns <= now_ns)
			do_scan(f, now_ns);
		pthread_mutex_lock(&f->lock);
		f->pending = f->n_watched;
		pthread_mutex_unlock(&f->lock);
		next = next_ns(f);
		now_ns = gt_mono_ns();
		if (poll(&wake, 1,
			 next == UINT64_MAX ? -1
			 : next <= now_ns   ? 0
					    : (int)((next - now_ns + MS - 1) / MS)) > 0)
			(void)eventfd_read(f->wake_fd, &woken);
	}
	return NULL;
}

int gt_finder_start(struct gt_finder *f, int children_in_proc)
{
	int err;

	f->children_in_proc = children_in_proc;
	f->late = 1;
	f->scan_ns = children_in_proc                          ? 0
		     : f->opts->all_npu || f->opts->all_python ? gt_mono_ns() + SCAN_NS
							       : UINT64_MAX;
	err = -pthread_create(&f->thread, NULL, find_late_comers, f);
	if (err)
		gt_error("cannot start a thread: %s", strerror(-err));
	f->running = !err;
	return err;
}

void gt_finder_stop(struct gt_finder *f)
{
	struct gt_found found;

	if (f->running) {
		pthread_mutex_lock(&f->lock);
		f->stop = 1;
		pthread_mutex_unlock(&f->lock);
		(void)eventfd_write(f->wake_fd, 1);
		pthread_join(f->thread, NULL);
		f->running = 0;
	}
	while (gt_finder_take(f, &found))
		gt_recording_close(found.recording);
	f->pending = f->n_told = 0;
}

/* ---- the session's side ---- */

int gt_finder_open(const struct gt_finder_opts *opts, struct gt_finder **out)
{
	struct gt_finder *f = calloc(1, sizeof(*f));
	int err = -ENOMEM;

	if (!f) {
		gt_error("out of memory");
		return err;
	}
	f->opts = opts;
	pthread_mutex_init(&f->lock, NULL);
	f->found_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	f->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	f->cache = gt_pycache_new(opts->probe_mode, opts->deep ? GT_SYMRES_DEEP : 0);
	if (opts->follow)
		f->families = gt_families_new();
	if (f->found_fd < 0 || f->wake_fd < 0 || !f->cache || (opts->follow && !f->families)) {
		gt_error("out of memory or descriptors");
		goto fail;
	}
	err = gt_npu_host_open(opts->device_root, &f->npus);
	if (err) {
		gt_error("cannot look for NPUs in %s: %s",
			 opts->device_root ? opts->device_root : "/dev", strerror(-err));
		goto fail;
	}
	*out = f;
	return 0;
fail:
	gt_finder_close(f);
	return err;
}

void gt_finder_close(struct gt_finder *f)
{
	if (!f)
		return;
	gt_finder_stop(f);
	if (f->found_fd >= 0)
		close(f->found_fd);
	if (f->wake_fd >= 0)
		close(f->wake_fd);
	pthread_mutex_destroy(&f->lock);
	if (f->npus)
		gt_npu_host_close(f->npus);
	gt_pycache_free(f->cache);
	free(f->processes.list);
	free(f->watched);
	free(f->found);
	free(f->told);
	gt_families_free(f->families);
	free(f);
}

int gt_finder_take(struct gt_finder *f, struct gt_found *out)
{
	eventfd_t told;
	int some;

	pthread_mutex_lock(&f->lock);
	some = f->n_found > 0;
	if (some) {
		*out = f->found[0];
		memmove(f->found, f->found + 1, --f->n_found * sizeof(*f->found));
	} else {
		(void)eventfd_read(f->found_fd, &told);
	}
	pthread_mutex_unlock(&f->lock);
	return some;
}

int gt_finder_fd(const struct gt_finder *f)
{
	return f->found_fd;
}

static void tell(struct gt_finder *f, const struct watched *w)
{
	pthread_mutex_lock(&f->lock);
	if (!grow(&f->told, f->n_told, sizeof(*w)))
		f->told[f->n_told++] = *w;
	pthread_mutex_unlock(&f->lock);
	(void)eventfd_write(f->wake_fd, 1);
}

void gt_finder_look(struct gt_finder *f, pid_t pid, pid_t parent, const char *how, uint64_t mono_ns,
		    enum gt_look look)
{
	tell(f, &(struct watched){.pid = pid,
				  .parent = parent,
				  .how = how,
				  .born_ns = mono_ns,
				  .wait_ns = SOON_NS,
				  .look = look,
				  .until_ns =
					  look == GT_LOOK_ON ? UINT64_MAX : mono_ns + STARTING_NS});
}

void gt_finder_follow(struct gt_finder *f, pid_t pid)
{
	if (f->children_in_proc)
		tell(f, &(struct watched){.pid = pid});
}

size_t gt_finder_pending(struct gt_finder *f)
{
	size_t n;

	pthread_mutex_lock(&f->lock);
	n = f->pending + f->n_told + f->n_found;
	pthread_mutex_unlock(&f->lock);
	return n;
}
