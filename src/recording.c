// SPDX-License-Identifier: Apache-2.0
#include "recording.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "clock.h"
#include "describe.h"
#include "log.h"
#include "output.h"
#include "reading.h"
#include "rights.h"

enum gt_status gt_status_of(int err)
{
	switch (err) {
	case 0:
		return GT_OK;
	case -ESRCH:
		return GT_NO_TARGET;
	case -ENOEXEC:
		return GT_NOT_PYTHON;
	case -EPERM:
	case -EACCES:
	case -ENOTSUP:
		return GT_NO_KERNEL;
	default:
		return GT_FAILED;
	}
}

static enum gt_status worse(enum gt_status a, enum gt_status b)
{
	return a > b ? a : b;
}

/*
 * What CPython 3.13+ tells of its GILs; the same of all CPythons in the process. -errno: we were
 * not let know. rec: NULL where other threads may be at the same.
 */
static int read_gils(struct gt_recording *r, const struct gt_recorder *rec,
		     struct gt_snapshot_gils *out)
{
	uint32_t n_told = 0;
	int refused = 0;

	memset(out, 0, sizeof(*out));
	for (uint32_t i = 0; i < r->py.n; i++) {
		gt_autofree struct gt_reading *a = gt_reading_make(r, i, GT_READ_GILS, rec);

		if (a && (a->err == -EPERM || a->err == -EACCES))
			refused = a->err;
		if (!a || a->err || !a->gils.told) {
			if (a && a->why)
				gt_log(GT_LOG_TRACE,
				       "process %d: its GILs are not known beforehand: %s",
				       r->proc.pid, a->why);
			continue;
		}
		n_told++;
		out->free_threaded |= a->gils.free_threaded;
		for (uint32_t k = 0; k < a->gils.n && out->n < GT_SNAPSHOT_GILS; k++)
			out->gil[out->n++] = a->gils.gil[k];
	}
	out->told = n_told == r->py.n;
	return refused;
}

static void warn_refused(const struct gt_recording *r, int err)
{
	char why[GT_RIGHTS_TEXT];

	gt_warn("process %d: what its threads were in at the start is not known: its memory cannot "
		"be read: %s%s",
		r->proc.pid, strerror(-err), gt_rights_why(GT_STEP_MEMORY, err, r->proc.pid, why));
}

static int is_enabled(const struct gt_snapshot_gils *gils)
{
	for (uint32_t i = 0; i < gils->n; i++)
		if (gils->gil[i].enabled)
			return 1;
	return 0;
}

/*
 * take_gil returns at once where a free-threaded build runs without its GIL, which looks like an
 * acquire to a probe on its return. The calls inside are not made then.
 */
static int check_mode(struct gt_recording *r)
{
	struct gt_snapshot_gils gils;

	if (gt_pytarget_mode(&r->py) != GT_PROBE_FUNCTIONS)
		return 0;
	(void)read_gils(r, NULL, &gils);
	if (!gils.free_threaded)
		return 0;
	gt_error("process %d runs a free-threaded CPython, in which function probes cannot tell "
		 "whether the GIL is on; use --probe=sites or --probe=libc",
		 r->proc.pid);
	return -ENOEXEC;
}

/* Who it is, and its rank. */
static void look_at(struct gt_recording *r)
{
	gt_autofree struct gt_reading *a = gt_reading_make(r, 0, GT_READ_ABOUT, NULL);

	r->rank = (struct gt_rank){.source = "default", .local = -1};
	if (!a)
		return;
	r->about = a->about;
	r->rank = a->rank;
}

struct gt_recording *gt_recording_open(struct gt_proc *p, struct gt_pycache *cache,
				       const struct gt_pytarget *known, const struct gt_npus *npus,
				       int *err)
{
	struct gt_recording *r = calloc(1, sizeof(*r));

	if (!r) {
		gt_error("out of memory");
		gt_proc_close(p);
		*err = -ENOMEM;
		return NULL;
	}
	r->proc = *p;
	if (known)
		r->py = *known;
	*err = known ? 0 : gt_pytarget_find(cache, &r->proc, &r->py);
	if (!*err)
		*err = check_mode(r);
	if (*err) {
		gt_recording_close(r);
		return NULL;
	}
	if (npus)
		r->npus = *npus;
	look_at(r);
	return r;
}

/* That there is none is no harm: what it is for is dispensable. */
void gt_recording_keep_file(struct gt_recording *r, int fd)
{
	if (r->file_fd > 0)
		close(r->file_fd);
	r->file_fd = fd > 0 ? fd : 0;
}

void gt_recording_close(struct gt_recording *r)
{
	if (!r)
		return;
	gt_proc_close(&r->proc);
	gt_recording_keep_file(r, -1);
	gt_window_free(r->window);
	free(r->first);
	free(r->last);
	gt_toldnames_free(&r->told);
	free(r);
}

/* ---- start ---- */

/* How many of the CPythons have sites whose first argument does not tell the GIL: index 0. */
static uint32_t count_noarg(const struct gt_pytarget *py)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < py->n; i++)
		n += py->python[i].sites->n && py->python[i].sites->site[0].flags & GT_SITE_NOARG;
	return n;
}

/* GILs that are told beforehand need no hit that proves them to be one. */
static void know_gils(struct gt_recording *r, const struct gt_recorder *rec)
{
	struct gt_snapshot_gils gils;

	(void)read_gils(r, NULL, &gils);
	for (uint32_t i = 0; i < gils.n; i++) {
		/* Beside others, which of them is told at index 0 is not known. */
		int index = count_noarg(&r->py)
				    ? (gils.n == 1 && r->py.n == 1 ? 0 : -ENOSPC)
				    : gt_tracer_know_gil(rec->tracer, r->slot, gils.gil[i].cond);

		if (index < 0)
			continue;
		r->gil_known[index] = gils.gil[i].cond;
		r->gil_known_set |= 1u << index;
	}
	if (!gils.free_threaded)
		return;
	r->without_gil = !is_enabled(&gils);

	const char *const meta[][2] = {
		{"gil.free_threaded", "1"},
		{"gil.enabled", r->without_gil ? "0" : "1"},
	};

	(void)gt_collect_meta(r->collector, meta, GT_ARRAY_SIZE(meta));
	if (r->without_gil)
		gt_info("process %d: a free-threaded CPython that runs without its GIL: there is "
			"nothing to record, unless something switches it on",
			r->proc.pid);
}

static int create_file(struct gt_recording *r, const struct gt_recorder *rec,
		       struct gt_gilfile **file)
{
	int fd = gt_output_file(rec->dir_fd, rec->dir, r->proc.pid, r->rank.rank, r->file,
				sizeof(r->file));

	if (fd < 0) {
		r->file[0] = '\0';
		return fd;
	}
	if (rec->keep_files)
		gt_recording_keep_file(r, fcntl(fd, F_DUPFD_CLOEXEC, 3));
	return gt_gilfile_create(fd, file);
}

static enum gt_status open_file(struct gt_recording *r, const struct gt_recorder *rec)
{
	struct gt_gilfile *file;
	int err = rec->window ? gt_window_open(r, rec->window, &file) : create_file(r, rec, &file);

	if (err && !rec->window && !r->file[0]) /* logged */
		return GT_NO_OUTPUT;
	if (!err)
		r->collector = gt_collect_new(file, &r->proc);
	if (!err && !r->collector)
		err = -ENOMEM;
	if (!err)
		err = gt_describe(r, rec, file);
	if (!err)
		return GT_OK;
	if (rec->window)
		gt_error("process %d: cannot keep what is recorded: %s", r->proc.pid,
			 strerror(-err));
	else
		gt_error("cannot write %s/%s: %s", rec->dir, r->file, strerror(-err));
	return rec->window ? GT_FAILED : GT_NO_OUTPUT;
}

/* Nothing was recorded: leaves no file behind. */
static void remove_file(struct gt_recording *r, const struct gt_recorder *rec)
{
	struct gt_collect_stats none;

	if (r->collector)
		gt_collect_finish(r->collector, GIL_END_ERROR, gt_mono_ns(), 0, 0, &none);
	r->collector = NULL;
	gt_recording_keep_file(r, -1);
	if (r->file[0] && unlinkat(rec->dir_fd, r->file, 0) && errno != ENOENT)
		gt_warn("cannot remove %s/%s, in which is nothing: %s", rec->dir, r->file,
			strerror(errno));
	r->file[0] = '\0';
}

enum gt_status gt_recording_start(struct gt_recording *r, const struct gt_recorder *rec,
				  uint32_t ring_bytes)
{
	enum gt_status status;

	r->ring_bytes = ring_bytes;
	r->no_names = rec->no_names;
	status = open_file(r, rec);

	if (!status) {
		int slot = gt_tracer_add(rec->tracer, &r->proc, &r->py, ring_bytes,
					 gt_collect_record, r->collector);

		if (slot >= 0) {
			r->slot = (uint32_t)slot;
			know_gils(r, rec);
			return GT_OK;
		}
		status = gt_status_of(slot);
	}
	remove_file(r, rec);
	return status;
}

void gt_recording_abandon(struct gt_recording *r, const struct gt_recorder *rec)
{
	gt_tracer_drop(rec->tracer, r->slot);
	remove_file(r, rec);
}

/* While it is shut, nothing tells of an execution: not of one right before it is opened, either. */
static void open_gate(const struct gt_recording *r, const struct gt_recorder *rec)
{
	gt_tracer_gate(rec->tracer, r->slot, 1);
	if (gt_proc_memory_gone(&r->proc))
		gt_tracer_gate(rec->tracer, r->slot, 0);
}

static void begin_pause(struct gt_recording *r, uint64_t mono_ns)
{
	r->paused_mono_ns = mono_ns;
	r->was_paused = 1;
}

uint64_t gt_recording_begin(struct gt_recording *r, const struct gt_recorder *rec, const char *late,
			    uint64_t late_mono_ns)
{
	const char *const meta[][2] = {{"recording.late", late}};
	uint64_t mono_ns;

	r->late = late != NULL;
	if (late)
		(void)gt_collect_meta(r->collector, meta, GT_ARRAY_SIZE(meta));
	mono_ns = gt_mono_ns();
	if (late && late_mono_ns > mono_ns)
		late_mono_ns = mono_ns;
	if (late) {
		gt_collect_late(r->collector, late_mono_ns, mono_ns);
		r->late_ns = mono_ns - late_mono_ns;
	}
	for (uint8_t i = 0; i < GT_MAX_GILS; i++)
		if (r->gil_known_set >> i & 1)
			gt_collect_gil(r->collector, i, r->gil_known[i], mono_ns);
	if (rec->paused)
		begin_pause(r, mono_ns);
	else
		open_gate(r, rec);
	return mono_ns;
}

/* ---- on the way ---- */

enum gt_status gt_recording_drain(struct gt_recording *r, const struct gt_recorder *rec)
{
	int err = gt_tracer_consume(rec->tracer, r->slot);

	if (!err)
		return GT_OK;
	gt_error("process %d: cannot read its ring: %s", r->proc.pid, strerror(-err));
	return GT_FAILED;
}

enum gt_status gt_recording_look(struct gt_recording *r, const struct gt_recorder *rec,
				 uint64_t start_mono_ns)
{
	struct gt_snapshot_gils gils;
	enum gt_status status;
	int err;

	/* It would tell of the start, and nothing of how it goes on. */
	if (r->paused_mono_ns)
		return GT_OK;
	if (gt_snapshot_threads(&r->proc, &r->first, &r->n_first)) {
		r->first = NULL;
		r->n_first = 0;
	}
	err = read_gils(r, rec, &gils);
	if (err)
		warn_refused(r, err);
	/* What has happened since the gate was opened tells more than the snapshot. */
	status = gt_recording_drain(r, rec);
	r->gils_first = gils;
	if (gt_collect_before(r->collector, start_mono_ns, &gils, r->first, r->n_first)) {
		gt_error("process %d: out of memory", r->proc.pid);
		status = worse(status, GT_FAILED);
	}
	return status;
}

void gt_recording_pause(struct gt_recording *r, const struct gt_recorder *rec)
{
	if (r->paused_mono_ns)
		return;
	gt_tracer_gate(rec->tracer, r->slot, 0);
	begin_pause(r, gt_mono_ns());
}

static void end_pause(struct gt_recording *r, const struct gt_recorder *rec, uint64_t mono_ns)
{
	if (!r->paused_mono_ns)
		return;
	gt_tracer_cut(rec->tracer, r->slot, r->paused_mono_ns);
	gt_collect_paused(r->collector, r->paused_mono_ns, mono_ns);
	r->paused_mono_ns = 0;
}

enum gt_status gt_recording_resume(struct gt_recording *r, const struct gt_recorder *rec,
				   const struct gil_clock *now)
{
	enum gt_status status;

	/* While the gate is shut, nothing tells of an execution; a tick will notice it. */
	if (!r->paused_mono_ns || gt_proc_memory_gone(&r->proc))
		return GT_OK;
	status = gt_recording_drain(r, rec);
	(void)gt_collect_clock(r->collector, now);
	end_pause(r, rec, gt_mono_ns());
	open_gate(r, rec);
	return status;
}

/* Has nothing been seen, though nobody had asked for that? */
static int is_silent(const struct gt_recording *r)
{
	struct gt_collect_stats stats;

	gt_collect_stats(r->collector, 0, &stats);
	return !stats.events && !stats.unwritten && !r->was_paused;
}

void gt_recording_second(struct gt_recording *r, const struct gt_recorder *rec, uint64_t mono_ns)
{
	struct gt_snapshot_thread *now;
	size_t n;

	gt_recording_read_names(r, rec, 0, mono_ns);

	/* Only where nothing is recorded does it matter whether there was anything to record. */
	if (!is_silent(r) || gt_snapshot_threads(&r->proc, &now, &n))
		return;
	free(r->last);
	r->last = now;
	r->n_last = n;
}

/* ---- finish ---- */

/*
 * Does the interpreter itself (3.13+) say that its GILs have not changed hands? A thread that gave
 * one up and took it again, with nobody between, does not show here.
 */
static int has_not_switched(struct gt_recording *r, int *is_kept)
{
	struct gt_snapshot_gils now;

	(void)read_gils(r, NULL, &now);
	*is_kept = 1;
	if (!now.told || !r->gils_first.told || now.n != r->gils_first.n)
		return 0;
	for (uint32_t i = 0; i < now.n; i++) {
		const struct gt_snapshot_gil *a = &r->gils_first.gil[i], *b = &now.gil[i];

		if (a->cond != b->cond || a->switches != b->switches)
			return 0;
		*is_kept &= a->locked && b->locked && a->holder == b->holder;
	}
	return 1;
}

/* Was there nothing to record, or are the probes in the wrong place? */
static enum gt_status explain_silence(struct gt_recording *r)
{
	struct gt_activity did;
	char ran[16], run_ns[24];
	int is_kept;

	if (!r->first || !r->last || r->without_gil)
		return GT_OK;
	did = gt_snapshot_activity(r->first, r->n_first, r->last, r->n_last);
	snprintf(ran, sizeof(ran), "%" PRIu32, did.ran);
	snprintf(run_ns, sizeof(run_ns), "%" PRIu64, did.run_ns);

	const char *const meta[][2] = {
		{"activity.threads_ran", ran},
		{"activity.run_ns", run_ns},
	};

	(void)gt_collect_meta(r->collector, meta, GT_ARRAY_SIZE(meta));
	if (did.ran < 2 && !did.slept)
		return GT_OK;
	if (has_not_switched(r, &is_kept) && (is_kept || !did.slept))
		return GT_OK;
	r->silence_told = 1;
	gt_error(
		"process %d: no GIL event was seen, although %" PRIu32 " of its threads ran, for "
		"%" PRIu64 " ms of CPU in all: either they never needed the GIL, or the probes in "
		"%s are not where this Python works; --dry-run shows them, --probe=libc is another "
		"way",
		r->proc.pid, did.ran, did.run_ns / 1000000, r->py.python[0].map.path);
	return GT_UNSOUND;
}

static void write_gil_at_end(struct gt_recording *r)
{
	struct gt_snapshot_gils gils;

	(void)read_gils(r, NULL, &gils);
	if (!gils.told || !gils.free_threaded)
		return;

	r->without_gil = r->without_gil && !is_enabled(&gils);

	const char *const meta[][2] = {{"gil.enabled_at_end", is_enabled(&gils) ? "1" : "0"}};

	(void)gt_collect_meta(r->collector, meta, GT_ARRAY_SIZE(meta));
}

/* What to do where sites are missing. */
static const char *advice(const struct gt_recording *r)
{
	const struct gt_selfcheck_gil *check = &r->stats.check;

	if (gt_pytarget_mode(&r->py) == GT_PROBE_FUNCTIONS)
		return "function probes miss inlined copies and mix up the GILs of several "
		       "interpreters: use --probe=auto";
	/* Up to 3.11 an interpreter ends with its lock held. */
	if (r->py.python[0].sites->py_minor < 12 &&
	    gt_selfcheck_misses(check) == check->miss[GT_MISS_ACQUIRE_HOLDING])
		return "if the program ends its Python and starts it again, that is why; else "
		       "compare with --probe=libc, and please report it with the output of "
		       "--dry-run";
	return "compare with --probe=libc, and please report it with the output of --dry-run";
}

/* What is only known at the end. */
static void write_last(struct gt_recording *r, const struct gt_recorder *rec, int alive)
{
	const uint32_t host_pid = gt_tracer_host_pid(rec->tracer, r->slot);
	const struct gt_number host =
		gt_number(host_pid && host_pid != (uint32_t)r->proc.pid, host_pid);
	gt_autofree struct gt_reading *a = alive ? gt_reading_make(r, 0, GT_READ_TITLE, rec) : NULL;
	const char *title = a && !a->err ? a->about.cmdline : "";

	const char *const meta[][2] = {
		{"process.host_pid", gt_or_null(host.text)},
		{"process.title", strcmp(title, r->about.cmdline) ? gt_or_null(title) : NULL},
	};

	(void)gt_collect_meta(r->collector, meta, GT_ARRAY_SIZE(meta));
}

static enum gt_status look_for_file(const struct gt_recording *r, const struct gt_recorder *rec)
{
	if (!faccessat(rec->dir_fd, r->file, F_OK, AT_SYMLINK_NOFOLLOW))
		return GT_OK;
	gt_error("%s/%s: was removed or renamed while it was written: %s", rec->dir, r->file,
		 strerror(errno));
	return GT_NO_OUTPUT;
}

static enum gt_status judge(const struct gt_recording *r)
{
	const struct gt_collect_stats *st = &r->stats;
	enum gt_status status = GT_OK;
	char text[512];

	if (st->malformed) {
		gt_error("process %d: %" PRIu32 " records of the ring were not understood",
			 r->proc.pid, st->malformed);
		status = worse(status, GT_FAILED);
	}
	if (st->lost)
		status = worse(status, GT_LOSSES);
	if (gt_selfcheck_misses(&st->check)) {
		gt_selfcheck_text(&st->check, text, sizeof(text));
		gt_error("process %d: sites missing: what was recorded does not add up (%s); do "
			 "not trust it; %s",
			 r->proc.pid, text, advice(r));
		status = worse(status, GT_UNSOUND);
	}
	return status;
}

enum gt_status gt_recording_finish(struct gt_recording *r, const struct gt_recorder *rec,
				   enum gil_end_reason reason, uint64_t stop_mono_ns)
{
	int alive = reason != GIL_END_TARGET_EXIT && reason != GIL_END_EXEC;
	enum gt_status status = gt_recording_drain(r, rec);
	uint64_t gap_begin_ns, lost;
	int err;

	end_pause(r, rec, stop_mono_ns);
	lost = gt_tracer_lost(rec->tracer, r->slot, &gap_begin_ns);
	r->foreign = gt_tracer_foreign(rec->tracer, r->slot);
	r->gils = gt_tracer_gils(rec->tracer, r->slot);
	if (alive) {
		gt_recording_second(r, rec, stop_mono_ns);
		gt_recording_read_names(r, rec, 1, stop_mono_ns);
		write_gil_at_end(r);
	}
	write_last(r, rec, alive);
	if (is_silent(r) && !lost)
		status = worse(status, explain_silence(r));
	err = gt_collect_finish(r->collector, reason, stop_mono_ns, lost, gap_begin_ns, &r->stats);
	r->collector = NULL;
	r->end = reason;
	if (err && r->window) {
		gt_error("process %d: cannot keep what is recorded: %s; its recording ends there",
			 r->proc.pid, strerror(-err));
		status = worse(status, GT_FAILED);
	} else if (err) {
		gt_error("cannot write %s/%s: %s; its recording ended there, and %" PRIu64
			 " events before that are missing",
			 rec->dir, r->file, strerror(-err), r->stats.unwritten);
		return worse(status, GT_NO_OUTPUT);
	}
	status = worse(status, judge(r));
	if (r->window && gt_window_finish(r, rec, reason, stop_mono_ns))
		return worse(status, GT_NO_OUTPUT);
	return worse(status, look_for_file(r, rec));
}
