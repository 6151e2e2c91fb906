// SPDX-License-Identifier: Apache-2.0
#include "convert.h"

#include "labels.h"
#include "log.h"
#include "meta.h"
#include "remarks.h"
#include "sat.h"
#include "timeline.h"

#define PROGRESS_EVERY (1u << 16) /* events */

/* One input on its way through. */
struct job {
	const struct gt_convert_opts *o;
	struct gt_sink *sink;
	struct gt_inputs *in;
	size_t me;
	const char *path;
	gil_reader *r;
	struct gt_rows *rows; /* NULL: threads are shown by the ids that their events carry */
	const char *problem;  /* what was left out */
	uint64_t lost_ns;
	uint32_t pid, shown_pid;
	uint8_t on_host; /* it was recorded under the ids of the host */
	uint8_t too_many_threads;
	uint8_t grown; /* while it was read */
};

static uint64_t by_own_clock(const void *reader, uint64_t mono_ns)
{
	return gil_reader_unix_ns(reader, mono_ns);
}

static uint64_t place(const struct job *j, uint64_t mono_ns)
{
	return j->o->place ? j->o->place(j->o->place_ctx, mono_ns)
			   : gil_reader_unix_ns(j->r, mono_ns);
}

/* Which of its pids is the one to show. */
static void choose_pid(struct job *j)
{
	uint32_t host = gt_meta_pid(j->r, "process.host_pid");
	uint32_t ns = gt_meta_pid(j->r, "process.ns_pid");

	j->pid = gt_meta_pid(j->r, "process.pid");
	j->on_host = !host || host == j->pid;
	j->shown_pid = j->o->ids == GT_IDS_HOST ? host : ns;
	if (!j->shown_pid)
		j->shown_pid = j->pid;
}

static int tell_process(struct job *j)
{
	const char *id = j->in->list[j->me].id;
	unsigned int copy = gt_inputs_choose_id(j->in, j->me, j->shown_pid);
	char name[GT_LABEL_PROCESS_MAX], tags[GT_LABEL_TAGS_MAX];
	struct gt_sink_process p = {
		.pid = j->o->pid,
		.main_tid = j->shown_pid,
		/* One that nobody set is 0 for all: no rank to show. */
		.rank = gt_meta_is(j->r, "rank.source", "default") ? -1
								   : gt_meta_number(j->r, "rank"),
		.name = name,
		.tags = tags,
		.path = j->path,
		.host = gt_meta_text(j->r, "host.name"),
		.order = (uint32_t)j->me,
		.start_ns = place(j, gil_reader_first_mono_ns(j->r)),
		.end_ns = place(j, gil_reader_last_mono_ns(j->r)),
	};

	if (!p.pid)
		p.pid = copy == 1 && j->shown_pid ? j->shown_pid
						  : GT_SINK_TID_END + 1 + (uint32_t)j->me;
	if (p.end_ns < p.start_ns)
		p.end_ns = p.start_ns;
	gt_label_process(name, j->r, id, copy);
	gt_label_tags(tags, j->r, j->o->ids);
	return j->sink->ops->process(j->sink, &p);
}

/* A first pass over the events where threads have other ids than those in them. */
static int learn_rows(struct job *j)
{
	const struct gt_rows_opts opts = {
		.ids = j->o->ids,
		.pid = j->pid,
		.shown_pid = j->shown_pid,
		.on_host = j->on_host,
	};
	struct gil_event ev;
	int err;

	if (j->shown_pid == j->pid)
		return 0;
	err = gt_rows_create(&opts, &j->rows);
	while (!err && gil_reader_next(j->r, &ev)) {
		err = gt_rows_learn(j->rows, &ev);
		if (err == -E2BIG) /* the second pass meets it, too */
			err = 0;
	}
	if (err)
		return err;
	gt_rows_settle(j->rows);
	gil_reader_rewind(j->r);
	return 0;
}

/* Function mode probes nothing but GIL code, so there is no release that needs confirmation. */
static int confirm_gil(const gil_reader *r, struct gt_timeline *tl)
{
	const struct gil_event ev = {.kind = GIL_GIL, .mono_ns = gil_reader_first_mono_ns(r)};

	return gt_any_site_is(r, GT_SITE_ONE_GIL) ? gt_timeline_event(tl, &ev) : 0;
}

static void count_lost_time(struct job *j, const struct gil_event *ev)
{
	if (ev->mono_ns > ev->lost.begin_mono_ns)
		j->lost_ns = gt_sat_add(j->lost_ns, ev->mono_ns - ev->lost.begin_mono_ns);
}

static int feed(struct job *j, struct gt_timeline *tl)
{
	unsigned int until_progress = PROGRESS_EVERY;
	struct gil_event ev;
	int err = confirm_gil(j->r, tl);

	while (!err && gil_reader_next(j->r, &ev)) {
		if (ev.kind == GIL_LOST)
			count_lost_time(j, &ev);
		err = gt_timeline_event(tl, &ev);
		if (!--until_progress) {
			until_progress = PROGRESS_EVERY;
			if (j->o->progress)
				j->o->progress(j->o->progress_ctx, gil_reader_permille(j->r));
		}
	}
	return err;
}

/* Has the recorder written more since it was opened? Then it is not at its end. */
static int has_grown(const struct job *j)
{
	const struct gt_input *input = &j->in->list[j->me];
	struct stat st;

	return input->known && input->imported_fd < 0 && !gil_reader_end_reason(j->r) &&
	       !stat(j->path, &st) && st.st_dev == input->dev && st.st_ino == input->ino &&
	       st.st_size > 0 && (uint64_t)st.st_size > input->size;
}

/* What of the input has not become slices, in words; NULL: nothing. Says it, too. */
static const char *find_problem(struct job *j)
{
	const char *problem = gil_reader_problem(j->r);
	const char *left_out = gt_meta_text(j->r, "import.left_out");

	if (problem && !j->o->quiet)
		gt_error("%s", problem);
	if (!problem && j->too_many_threads)
		problem = "more threads than a process can have";
	if (!problem && *left_out && strcmp(left_out, "0"))
		problem = "records that it could not read"; /* the import has said which */
	j->grown = (uint8_t)has_grown(j);
	if (!problem && j->grown)
		problem = "what was written while it was read";
	return problem;
}

static int run_timeline(struct job *j, struct gt_timeline *tl)
{
	int err = feed(j, tl);

	if (err == -E2BIG) {
		j->too_many_threads = 1;
		if (!j->o->quiet)
			gt_error("%s: more than %u threads, which no process can have; "
				 "everything after that is left out",
				 j->path, GT_TIMELINE_THREADS_MAX);
	} else if (err) {
		return err;
	}
	err = gt_timeline_finish(tl, gil_reader_last_mono_ns(j->r));
	if (err)
		return err;
	j->problem = find_problem(j);
	return j->problem ? GT_LEFT_OUT : GT_WHOLE;
}

static struct gt_timeline_opts timeline_opts(const struct job *j)
{
	struct gt_timeline_opts opts = {
		.start_mono_ns = gil_reader_first_mono_ns(j->r),
		.end_mono_ns = gil_reader_last_mono_ns(j->r),
		.unix_ns = j->o->place ? j->o->place : by_own_clock,
		.ctx = j->o->place ? j->o->place_ctx : j->r,
		.rows = j->rows,
		.main_tid = j->shown_pid,
		.comm = gil_reader_meta(j->r, "process.comm"),
		.late_why = gil_reader_meta(j->r, "recording.late"),
		.functions = gt_any_site_is(j->r, GT_SITE_RETURN) ||
			     gt_meta_is(j->r, "probe.mode", "functions"),
	};

	opts.forced_told = gil_reader_minor(j->r) > 0 && !opts.functions;
	return opts;
}

/* Says what there is to say, also to the sink. */
static int conclude(const struct job *j, const struct gt_timeline_stats *st)
{
	const struct gt_remarks remarks = {
		.path = j->path,
		.r = j->r,
		.st = st,
		.ids = j->o->ids == GT_IDS_HOST ? "on the host" : "inside its PID namespace",
		.ids_unknown = j->rows ? gt_rows_unknown(j->rows) : 0,
		.grown = j->grown,
		.quiet = j->o->quiet,
	};
	char buf[512];
	struct gt_sink_end end = {
		.events = st->events,
		.lost = gt_remarks_lost(&remarks),
		.gaps = st->gaps,
		.lost_ns = j->lost_ns,
		.late_ns = st->late_ns,
		.paused_ns = st->paused_ns,
		.marks = st->marks,
		.threads = st->threads,
		.gils = st->gils,
		.killed = !gil_reader_end_reason(j->r),
		.lost_unknown = (uint8_t)gt_is_imported(j->r),
		.problem = j->problem,
	};

	for (size_t i = 0; i < GT_ODD_KINDS; i++)
		end.odd += st->odd[i];
	end.doubt = gt_remarks_print(&remarks, buf, sizeof(buf));
	return j->sink->ops->end ? j->sink->ops->end(j->sink, &end) : 0;
}

static int convert_open(struct job *j)
{
	struct gt_timeline *tl = NULL;
	struct gt_timeline_opts opts;
	int ret, err;

	choose_pid(j);
	gt_inputs_tell_of_twins(j->in, j->me, j->r);
	ret = learn_rows(j);
	if (!ret)
		ret = tell_process(j);
	opts = timeline_opts(j);
	if (!ret)
		ret = gt_timeline_create(j->sink, &opts, &tl);
	if (!ret)
		ret = run_timeline(j, tl);
	if (ret >= 0) {
		err = conclude(j, gt_timeline_stats(tl));
		ret = err ? err : ret;
	}
	gt_timeline_free(tl);
	gt_rows_free(j->rows);
	return ret;
}

int gt_convert(struct gt_inputs *in, size_t me, const struct gt_convert_opts *opts,
	       struct gt_sink *sink)
{
	struct job j = {.o = opts, .sink = sink, .in = in, .me = me, .path = in->list[me].path};
	int ret;

	if (gt_inputs_open(in, me, &j.r))
		return GT_UNUSABLE;
	ret = convert_open(&j);
	gil_reader_close(j.r);
	return ret;
}
