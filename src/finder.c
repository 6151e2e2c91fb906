// SPDX-License-Identifier: Apache-2.0
#include "finder_private.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>

#include "clock.h"
#include "log.h"

int gt_finder_grow(void *array, size_t n, size_t size)
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
		err = gt_finder_open_python(f, &p, 1, NULL, gt_finder_npus(f, &p, &npus),
					    &(struct gt_found){0});
	return gt_status_of(err);
}

/* ---- children that nobody tells of ---- */

/* Returns how many are new. */
static size_t look_for_children(struct gt_finder *f, uint64_t now_ns)
{
	size_t found = 0;
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
			found++;
			if (!k->taken)
				gt_finder_watch(f, &(struct watched){.pid = k->pid,
								     .parent = k->parent,
								     .start_ticks = k->start_ticks,
								     .how = "forked",
								     .wait_ns = SOON_NS,
								     .until_ns = UINT64_MAX});
		}
	} while (more); /* grandchildren, whose pids may be smaller */
	return found;
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
	(void)look_for_children(f, gt_mono_ns());
	gt_finder_look_at_watched(f, gt_mono_ns());
}

size_t gt_finder_descend(struct gt_finder *f)
{
	return look_for_children(f, gt_mono_ns());
}

int gt_finder_has_npus(const struct gt_finder *f)
{
	return gt_npu_host_devices(f->npus) > 0;
}

int gt_finder_failed(const struct gt_finder *f)
{
	return __atomic_load_n(&f->failed, __ATOMIC_RELAXED);
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
	size_t n_named;

	for (size_t i = 0; i < f->opts->n_pids; i++) {
		enum gt_status one = open_named(f, i);

		if (one > status)
			status = one;
	}
	n_named = f->n_found;
	if (gt_finder_wants_all(f))
		gt_finder_scan(f, gt_mono_ns());
	if (f->opts->follow)
		find_descendants(f);
	gt_finder_warn_barred(f);
	if (f->n_found > n_named || !f->opts->all_npu || f->opts->all_python)
		return status;
	/* Where others are named, there is something to record. */
	if (!gt_finder_has_npus(f))
		gt_log(f->opts->n_pids ? GT_LOG_WARN : GT_LOG_ERROR,
		       "there is no Ascend NPU on this host, or its driver is not loaded: %s",
		       gt_npu_host_text(f->npus));
	else
		gt_log(f->opts->n_pids ? GT_LOG_WARN : GT_LOG_ERROR,
		       "no Python process uses an NPU now: %s", gt_npu_host_text(f->npus));
	if (f->opts->n_pids)
		return status;
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
			gt_finder_watch(f, &told[i]);
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

/* When all processes are to be looked at again. */
static uint64_t next_scan_ns(const struct gt_finder *f)
{
	return f->children_in_proc      ? gt_mono_ns() + CHILDREN_NS
	       : gt_finder_wants_all(f) ? gt_mono_ns() + SCAN_NS
					: UINT64_MAX;
}

static void do_scan(struct gt_finder *f, uint64_t now_ns)
{
	if (gt_finder_wants_all(f))
		gt_finder_scan(f, now_ns);
	if (f->children_in_proc)
		(void)look_for_children(f, now_ns);
	f->scan_ns = next_scan_ns(f);
}

static void *find_late_comers(void *finder)
{
	struct gt_finder *f = finder;
	struct pollfd wake = {.fd = f->wake_fd, .events = POLLIN};

	/* A command, which may need new ones, is another thread's child. */
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	while (!take_told(f)) {
		uint64_t now_ns = gt_mono_ns(), next;
		eventfd_t woken;

		gt_finder_look_at_watched(f, now_ns);
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
	f->scan_ns = children_in_proc ? 0 : next_scan_ns(f);
	err = -pthread_create(&f->thread, NULL, find_late_comers, f);
	if (err)
		gt_error("cannot start a thread: %s", strerror(-err));
	f->running = !err;
	return err;
}

void gt_finder_stop(struct gt_finder *f)
{
	struct gt_found found;
	struct timespec until;

	if (f->running) {
		pthread_mutex_lock(&f->lock);
		f->stop = 1;
		pthread_mutex_unlock(&f->lock);
		(void)eventfd_write(f->wake_fd, 1);
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += STOP_SECONDS;
		f->running = !!pthread_clockjoin_np(f->thread, NULL, CLOCK_MONOTONIC, &until);
	}
	while (gt_finder_take(f, &found))
		gt_recording_close(found.recording);
	if (!f->running)
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
	f->wake_fd = -1;
	f->found_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (f->found_fd >= 0)
		f->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (f->wake_fd < 0) {
		err = -errno;
		gt_error("cannot open an eventfd: %s", strerror(errno));
		goto fail;
	}
	f->cache = gt_pycache_new(opts->probe_mode, opts->deep ? GT_SYMRES_DEEP : 0);
	if (opts->follow)
		f->families = gt_families_new();
	if (!f->cache || (opts->follow && !f->families)) {
		gt_error("out of memory");
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
	if (f->running)
		return; /* it hangs in somebody's file: all of it is left to the end of the program
			 */
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
	if (!gt_finder_grow(&f->told, f->n_told, sizeof(*w)))
		f->told[f->n_told++] = *w;
	pthread_mutex_unlock(&f->lock);
	(void)eventfd_write(f->wake_fd, 1);
}

void gt_finder_look(struct gt_finder *f, pid_t pid, pid_t parent, const char *how, uint64_t mono_ns,
		    enum gt_look look)
{
	struct watched w = {.pid = pid,
			    .parent = parent,
			    .how = how,
			    .born_ns = mono_ns,
			    .wait_ns = SOON_NS,
			    .look = look,
			    .until_ns = UINT64_MAX};

	if (look == GT_LOOK_SHORT)
		w.until_ns = mono_ns + STARTING_NS;
	if (look == GT_LOOK_SLOW) {
		w.wait_ns = SCAN_NS;
		w.next_ns = mono_ns + SCAN_NS;
	}
	tell(f, &w);
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
