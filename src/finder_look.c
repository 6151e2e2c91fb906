// SPDX-License-Identifier: Apache-2.0
#include "finder_private.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include "clock.h"
#include "log.h"
#include "rights.h"

static void deliver(struct gt_finder *f, const struct gt_found *found)
{
	pthread_mutex_lock(&f->lock);
	if (gt_finder_grow(&f->found, f->n_found, sizeof(*f->found)))
		gt_recording_close(found->recording);
	else
		f->found[f->n_found++] = *found;
	pthread_mutex_unlock(&f->lock);
	(void)eventfd_write(f->found_fd, 1);
}

/* Does it fail because we have run out of something, and may work another time? */
static int is_shortage(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM;
}

static void note_shortage(struct gt_finder *f, pid_t pid, int err)
{
	if (!__atomic_exchange_n(&f->failed, 1, __ATOMIC_RELAXED))
		gt_error("process %d cannot be looked at (%s): it, and others, may be missing; "
			 "where descriptors are short, ulimit -n gives more",
			 pid, strerror(-err));
}

int gt_finder_open_python(struct gt_finder *f, struct gt_proc *p, int named,
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
		gt_log_release(!gone && !is_shortage(err));
	if (is_shortage(err))
		note_shortage(f, found.pid, err);
	if (!found.recording)
		return gone ? -EAGAIN : err;
	gt_families_remember(f->families, &found.recording->proc, &found.recording->py);
	found.recording->unnamed = !named;
	if (!found.born_mono_ns)
		found.born_mono_ns = found.recording->about.born_mono_ns;
	deliver(f, &found);
	return 0;
}

const struct gt_npus *gt_finder_npus(struct gt_finder *f, const struct gt_proc *p,
				     struct gt_npus *npus)
{
	return gt_npu_host_devices(f->npus) && gt_npu_of(f->npus, p, npus) >= 0 ? npus : NULL;
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
void gt_finder_warn_barred(const struct gt_finder *f)
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
		if (is_shortage(err))
			note_shortage(f, k->pid, err);
		return;
	}
	excluded = gt_about_is_excluded(&p);
	if (!excluded)
		python = gt_pytarget_is_python(f->cache, &p);
	if (python > 0)
		wanted = f->opts->all_python ? 1 : gt_npu_of(f->npus, &p, &npus);
	note_barred(f, k->pid, python < 0 ? python : wanted);
	if (python < 0 && is_shortage(python))
		note_shortage(f, k->pid, python);
	k->taken = excluded > 0 || wanted > 0;
	if (python <= 0)
		check_later(k, now_ns);
	if (wanted <= 0) {
		gt_proc_close(&p);
		return;
	}
	err = gt_finder_open_python(f, &p, 0, NULL, gt_finder_npus(f, &p, &npus), &as);
	if (err == -EAGAIN || is_shortage(err))
		k->taken = 0;
}

static int is_stopped(struct gt_finder *f)
{
	int stop;

	pthread_mutex_lock(&f->lock);
	stop = f->stop;
	pthread_mutex_unlock(&f->lock);
	return stop;
}

void gt_finder_scan(struct gt_finder *f, uint64_t now_ns)
{
	gt_proclist_refresh(&f->processes, now_ns);
	if (f->opts->all_npu)
		(void)gt_npu_host_refresh(f->npus);
	for (size_t i = 0; i < f->processes.n && !is_stopped(f); i++) {
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

/* Was it born after that was told? Then it has only got the same pid. */
static int is_stranger(const struct gt_proc *p, const struct watched *w)
{
	if (w->start_ticks)
		return p->start_ticks != w->start_ticks;
	/* The time in /proc is given in hundredths of a second. */
	return w->born_ns && gt_about_born(p) > w->born_ns + 2 * TICK_NS;
}

/* 1: done with it; 0: to be looked at again. */
static int look(struct gt_finder *f, struct watched *w)
{
	struct gt_found as = {
		.how = w->how, .born_mono_ns = w->born_ns, .held = w->look == GT_LOOK_HELD};
	struct gt_known *k = gt_proclist_find(&f->processes, w->pid);
	const struct gt_pytarget *known;
	struct gt_npus npus;
	struct gt_proc p;
	int err;

	err = gt_proc_try_open(w->pid, &p);
	if (err) {
		if (is_shortage(err))
			note_shortage(f, w->pid, err);
		note_barred(f, w->pid, err);
		answer_held(f, w);
		return w->look == GT_LOOK_HELD || !is_shortage(err);
	}
	if (is_stranger(&p, w)) {
		gt_proc_close(&p);
		answer_held(f, w);
		return 1;
	}
	w->start_ticks = p.start_ticks;
	known = gt_families_inherited(f->families, &p, w->parent);
	if (!known && gt_pytarget_is_python(f->cache, &p) <= 0) {
		gt_proc_close(&p);
		answer_held(f, w);
		return w->look == GT_LOOK_HELD || gt_mono_ns() > w->until_ns;
	}
	if (k && k->start_ticks == p.start_ticks)
		k->taken = 1;
	err = gt_finder_open_python(f, &p, 0, known, gt_finder_npus(f, &p, &npus), &as);
	if (err)
		answer_held(f, w);
	return w->look == GT_LOOK_HELD || (err != -EAGAIN && !is_shortage(err));
}

/* How long to wait for the next look: not for long while it starts, which may take seconds. */
static uint64_t longer(const struct watched *w, uint64_t now_ns, uint64_t longest_ns)
{
	int starts = w->born_ns && now_ns < w->born_ns + STARTING_NS;
	uint64_t max_ns = starts && longest_ns > STARTING_WAIT_NS ? STARTING_WAIT_NS : longest_ns;

	return w->wait_ns * 2 > max_ns ? max_ns : w->wait_ns * 2;
}

void gt_finder_look_at_watched(struct gt_finder *f, uint64_t now_ns)
{
	/* Where the kernel tells of executions, only a library that is loaded late is waited for.
	 */
	const uint64_t longest_ns = f->children_in_proc ? SCAN_NS : RECHECK_MAX_NS;
	size_t left = 0;

	for (size_t i = 0; i < f->n_watched; i++) {
		struct watched *w = &f->watched[i];

		if (w->next_ns <= now_ns && !is_stopped(f)) {
			if (look(f, w))
				continue;
			w->wait_ns = longer(w, now_ns, longest_ns);
			w->next_ns = gt_mono_ns() + w->wait_ns;
		}
		f->watched[left++] = *w;
	}
	f->n_watched = left;
}

void gt_finder_watch(struct gt_finder *f, const struct watched *w)
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
	if (f->n_watched < WATCH_MAX && !gt_finder_grow(&f->watched, f->n_watched, sizeof(*w)))
		f->watched[f->n_watched++] = *w;
	else
		answer_held(f, w);
}
