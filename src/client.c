// SPDX-License-Identifier: Apache-2.0
/*
 * The interface of libgiltrace.so: handles, threads, forks, and what a call must leave as it was.
 * One thread at a time talks to giltrace (.turn), but for marks. What is told of a recording after
 * its end was found out once, by conclude().
 */
#include "giltrace/giltrace.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "client_args.h"
#include "client_error.h"
#include "client_outcome.h"
#include "client_spawn.h"
#include "client_time.h"
#include "client_wire.h"
#include "giltrace/gilfile.h"

#define API __attribute__((visibility("default")))

#define TIMEOUT_MS 60000
#define MERCY_MS   5000 /* for one that could not begin: to say why, and to end */

struct giltrace {
	pthread_mutex_t turn;
	struct gt_args args;
	struct gt_wire wire;
	uint32_t timeout_ms;
	pid_t child;
	int over; /* and concluded: */
	int result;
	char why[GT_FAIL_MAX];
};

/* ---- what a call leaves as it was ---- */

struct quiet {
	int err, cancel;
};

static struct quiet quiet_begin(void)
{
	struct quiet q = {.err = errno};

	/* A thread that is cancelled would leave locks and a child behind. */
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &q.cancel);
	return q;
}

static void quiet_end(struct quiet *q)
{
	(void)pthread_setcancelstate(q->cancel, NULL);
	errno = q->err;
}

#define QUIETLY struct quiet quiet __attribute__((cleanup(quiet_end), unused)) = quiet_begin()

static void lock(struct giltrace *g)
{
	(void)pthread_mutex_lock(&g->turn);
}

static void unlock(struct giltrace *g)
{
	(void)pthread_mutex_unlock(&g->turn);
}

/* Before any lock: in a forked child they may be held by threads that are not there. */
static int usable(const struct giltrace *g)
{
	if (!g)
		return gt_fail(-EINVAL, "there is no recording: the handle is NULL");
	if (gt_ends_origin(&g->wire.ends) != GT_ENDS_OWN)
		return gt_fail(-ECHILD, "the recording is the parent's of this forked process");
	return 0;
}

/* ---- end ---- */

/*
 * Sees the child off, and keeps how it went. It has so long to end by itself, or no time where it
 * has let the program wait for too long already. Where it still runs, the end of its socket tells
 * it to finish; nothing else reaches one behind sudo.
 */
static struct gt_outcome see_off(struct giltrace *g, uint32_t mercy_ms, int timed_out)
{
	struct gt_wire *w = &g->wire;
	struct gt_outcome o = {.status = w->ended ? w->stats.status : -1,
			       .told = w->ended,
			       .talked = w->talks,
			       .timed_out = timed_out,
			       .timeout_ms = timed_out ? g->timeout_ms : mercy_ms};
	int wait_status, err;

	gt_wire_close_socket(w);
	err = gt_spawn_end(g->child, gt_deadline(timed_out ? 0 : mercy_ms), &wait_status);
	if (err && !o.told)
		o.timed_out = 1;
	(void)gt_said_read(&w->said, w->ends.said);
	gt_ends_close(&w->ends);
	gt_outcome_waited(&o, wait_status);
	w->stats.status = o.status;
	w->stats.state = GILTRACE_ENDED;
	return o;
}

static void conclude(struct giltrace *g, int timed_out)
{
	struct gt_outcome o = see_off(g, g->timeout_ms, timed_out);

	g->over = 1;
	g->result = gt_outcome_of_stop(&o, &g->wire.said, &g->args);
	if (g->result)
		snprintf(g->why, sizeof(g->why), "%s", gt_fail_text());
}

static void release(struct giltrace *g)
{
	gt_wire_free(&g->wire);
	gt_args_free(&g->args);
	(void)pthread_mutex_destroy(&g->turn);
	free(g);
}

/* ---- begin ---- */

static int spawn_failed(const struct gt_args *args, int err)
{
	static const char help[] = "$GILTRACE_COMMAND or giltrace_opts.command can name it";
	const char *name = args->argv[0];
	int path = strchr(name, '/') != NULL;

	if (err == -ENOENT && path)
		return gt_fail(err, "there is no %s, or what it needs to run is missing", name);
	if (err == -ENOENT)
		return gt_fail(err, "there is no program %s in $PATH; %s", name, help);
	if (err == -ENOEXEC)
		return gt_fail(-EINVAL, "%s is no program that can run here", name);
	errno = -err;
	return gt_fail(err, "cannot start %s: %m%s%s", name, path ? "" : "; ", path ? "" : help);
}

static int begin_failed(struct giltrace *g, int err)
{
	struct gt_outcome o = see_off(g, MERCY_MS, err == -ETIMEDOUT);

	if (err == -EPROTO)
		return gt_fail(-EINVAL, "%s speaks protocol %lu, and this library 1",
			       gt_args_program(&g->args), g->wire.protocol);
	return gt_outcome_of_start(&o, &g->wire.said, &g->args);
}

static int begin(struct giltrace *g)
{
	int64_t deadline = gt_deadline(g->timeout_ms);
	int err;

	err = gt_wire_open(&g->wire);
	if (err) {
		errno = -err;
		return gt_fail(err, "cannot open a socket, a pipe and /dev/null for giltrace: %m");
	}
	err = gt_spawn(g->args.argv, g->wire.ends.theirs, &g->child);
	if (err)
		return spawn_failed(&g->args, err);
	gt_ends_handed_over(&g->wire.ends);
	err = gt_wire_await_ready(&g->wire, deadline);
	if (err)
		return begin_failed(g, err);
	g->wire.stats.state = GILTRACE_RECORDING;
	return 0;
}

API int giltrace_start(const struct giltrace_opts *given, struct giltrace **out)
{
	QUIETLY;
	struct giltrace_opts opts;
	struct giltrace *g;
	int err;

	if (!out)
		return gt_fail(-EINVAL, "there is no place for the handle");
	*out = NULL;
	err = gt_opts_read(&opts, given);
	if (err)
		return err;
	g = calloc(1, sizeof(*g));
	if (!g)
		return gt_fail(-ENOMEM, "no memory for a recording");
	g->timeout_ms = opts.timeout_ms ? opts.timeout_ms : TIMEOUT_MS;
	err = gt_args_make(&g->args, &opts);
	if (err) {
		free(g);
		return err;
	}
	(void)pthread_mutex_init(&g->turn, NULL);
	err = begin(g);
	if (err)
		release(g);
	else
		*out = g;
	return err;
}

/* ---- while it records ---- */

/* At most GIL_MARK_MAX bytes, not cut within a character, and no newlines at the end. */
static size_t mark_length(const char *name)
{
	size_t len = strnlen(name, GIL_MARK_MAX + 1);

	if (len > GIL_MARK_MAX)
		for (len = GIL_MARK_MAX; len && ((unsigned char)name[len] & 0xc0) == 0x80;)
			len--;
	while (len && name[len - 1] == '\n')
		len--;
	return len;
}

API int giltrace_mark(struct giltrace *g, const char *name)
{
	QUIETLY;
	uint64_t now = gt_mono_ns();
	size_t len = name ? mark_length(name) : 0;
	int err = usable(g);

	if (err)
		return err;
	if (!len)
		return gt_fail(-EINVAL, "a mark needs a name");
	err = gt_wire_mark(&g->wire, now, (pid_t)syscall(SYS_gettid), name, len);
	if (err == -EAGAIN)
		return gt_fail(err, "giltrace does not keep up: the mark is dropped");
	return err ? gt_fail(err, "the recording has ended") : 0;
}

/* One request, by who has the turn. -EPIPE: the recording is over. */
static int ask(struct giltrace *g, const char *request)
{
	static const char refusal[] = "error ";
	int err = -EPIPE;

	if (!g->over)
		err = gt_wire_ask(&g->wire, request, gt_deadline(g->timeout_ms));
	if (err == -EPIPE && !g->over)
		conclude(g, 0);
	if (err == -EPIPE)
		return gt_fail(err, "the recording has ended%s%s", g->result ? ": " : "", g->why);
	if (err == -ETIMEDOUT)
		return gt_fail(err, "giltrace did not answer within %u.%03u s",
			       g->timeout_ms / 1000, g->timeout_ms % 1000);
	if (err == -EREMOTEIO)
		return gt_fail(err, "giltrace refuses: %s",
			       strlen(g->wire.packet) < strlen(refusal)
				       ? "it does not say why"
				       : g->wire.packet + strlen(refusal));
	return err;
}

static int ask_in_turn(struct giltrace *g, const char *request)
{
	int err = usable(g);

	if (err)
		return err;
	lock(g);
	err = ask(g, request);
	unlock(g);
	return err;
}

API int giltrace_pause(struct giltrace *g)
{
	QUIETLY;

	return ask_in_turn(g, "pause");
}

API int giltrace_resume(struct giltrace *g)
{
	QUIETLY;

	return ask_in_turn(g, "resume");
}

/* ---- numbers ---- */

static int check_size(const struct giltrace_stats *to)
{
	if (!to || to->size < sizeof(to->size))
		return gt_fail(-EINVAL, "giltrace_stats.size: use GILTRACE_STATS_INIT");
	return 0;
}

/* No more than the program's giltrace.h has, and .size is its own. */
static void hand_out(const struct giltrace_stats *from, struct giltrace_stats *to)
{
	size_t own = sizeof(to->size), size = to->size < sizeof(*to) ? to->size : sizeof(*to);

	memcpy((char *)to + own, (const char *)from + own, size - own);
}

API int giltrace_stats(struct giltrace *g, struct giltrace_stats *stats)
{
	QUIETLY;
	int err = usable(g);

	err = err ? err : check_size(stats);
	if (err)
		return err;
	lock(g);
	err = g->over ? 0 : ask(g, "status");
	if (err == -EPIPE)
		err = 0;
	if (!err)
		hand_out(&g->wire.stats, stats);
	unlock(g);
	return err;
}

API int giltrace_stop(struct giltrace *g, struct giltrace_stats *stats)
{
	QUIETLY;
	int err = usable(g);

	if (!err && stats)
		err = check_size(stats);
	if (err)
		return err;
	lock(g);
	if (!g->over)
		conclude(g, gt_wire_stop(&g->wire, g->timeout_ms) == -ETIMEDOUT);
	if (stats)
		hand_out(&g->wire.stats, stats);
	err = g->result ? gt_fail(g->result, "%s", g->why) : 0;
	unlock(g);
	return err;
}

/* ---- words ---- */

API const char *giltrace_file(struct giltrace *g, size_t i)
{
	QUIETLY;
	const char *path = NULL;

	if (usable(g))
		return NULL;
	lock(g);
	if (i < g->wire.n_files)
		path = g->wire.files[i];
	unlock(g);
	return path;
}

API const char *giltrace_messages(struct giltrace *g)
{
	QUIETLY;
	const char *text = "";

	if (usable(g))
		return text;
	lock(g);
	if (g->over) /* it will not change any more */
		text = g->wire.said.text;
	unlock(g);
	return text;
}

API const char *giltrace_error(void)
{
	return gt_fail_text();
}

API void giltrace_free(struct giltrace *g)
{
	QUIETLY;

	if (!g)
		return;
	switch (gt_ends_origin(&g->wire.ends)) {
	case GT_ENDS_OWN:
		(void)giltrace_stop(g, NULL);
		release(g);
		break;
	case GT_ENDS_FORKED:
		/* Where a lock is held, a thread of the parent was at work, and what it had in
		 * hands is left alone. */
		if (!pthread_mutex_trylock(&g->turn) && !pthread_mutex_trylock(&g->wire.sending)) {
			unlock(g);
			(void)pthread_mutex_unlock(&g->wire.sending);
			release(g);
		}
		break;
	case GT_ENDS_CLONED:
		break; /* nor can it be known here which locks are held */
	}
}
