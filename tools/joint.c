// SPDX-License-Identifier: Apache-2.0
#include "joint.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "convert.h"
#include "jointout.h"
#include "jointsink.h"
#include "log.h"
#include "options.h"
#include "profclock.h"
#include "profmatch.h"
#include "profnames.h"
#include "sink_chrome.h"

#define TOTAL_FROM 3 /* of more than these, how many were used is said in any case */

/* A recording in a Profiler's picture. */
struct part {
	size_t input;
	enum gt_match how;
	struct gt_profclock clock;
	uint8_t overlaps; /* it shares some time with the Profiler's trace */
	char clock_text[GT_CLOCK_TEXT_MAX];
	char tag[GT_CLOCK_TEXT_MAX + 8];
};

struct unit;

/* All of a run. */
struct joint {
	const struct gt_joint_opts *o;
	struct gt_inputs *in;
	struct gt_profilers *p;
	gil_reader **readers; /* of the inputs; NULL: it cannot be used */
	struct gt_match_who *who;
	enum gt_match *pairs;
	uint8_t *converted; /* inputs of which has been said what there is to say */
	uint8_t *used;      /* inputs that are in what was written */
	uint8_t *fits;      /* inputs that share some time with a Profiler of theirs */
	struct unit *units; /* one for each Profiler */
	size_t written, left_out;
	uint8_t as_file;  /* .output is one */
	uint8_t is_there; /* .output was, before */
};

/* One Profiler of it. */
struct unit {
	struct joint *j;
	const struct gt_profiler *p;
	struct part *parts;
	struct gt_joint_lane *lanes;
	size_t n;
	uint64_t inline_pid; /* 0: lanes of their own */
	struct gt_filter_opts filter;
	struct gt_filter_stats left_out;
	uint8_t fits; /* a recording of it shares some time with it */
	int damaged;  /* a recording was not converted wholly */
};

/* ---- times in words ---- */

struct words {
	char text[48];
};

static struct words utc(uint64_t unix_ns)
{
	time_t s = (time_t)(unix_ns / 1000000000);
	struct words u = {"a time that is none"};
	struct tm tm;
	char day[32];

	if (gmtime_r(&s, &tm) && strftime(day, sizeof(day), "%Y-%m-%d %H:%M:%S", &tm))
		snprintf(u.text, sizeof(u.text), "%s.%06u", day,
			 (unsigned int)(unix_ns % 1000000000 / 1000));
	return u;
}

/* "3 d 4 h", "12.3 s" */
static struct words duration(uint64_t ns)
{
	uint64_t s = ns / 1000000000;
	struct words u;

	if (s >= 86400)
		snprintf(u.text, sizeof(u.text), "%" PRIu64 " d %" PRIu64 " h", s / 86400,
			 s / 3600 % 24);
	else if (s >= 3600)
		snprintf(u.text, sizeof(u.text), "%" PRIu64 " h %" PRIu64 " min", s / 3600,
			 s / 60 % 60);
	else
		snprintf(u.text, sizeof(u.text), "%" PRIu64 ".%06" PRIu64 " s", s,
			 ns % 1000000000 / 1000);
	return u;
}

static void say_no_overlap(const struct joint *j, const struct part *part,
			   const struct gt_profiler *p)
{
	const gil_reader *r = part->clock.r;
	struct gt_profclock by_unix = {.r = r};
	struct gt_range range = gt_profclock_range(&part->clock);
	uint64_t begin = (uint64_t)p->facts.begin_ns, end = (uint64_t)p->facts.end_ns;
	uint64_t apart = range.end_ns < begin ? begin - range.end_ns : range.begin_ns - end;

	if (p->facts.relative) {
		gt_error("%s: is left out of %s, whose times are no Unix times, nor %s: nothing "
			 "tells where they belong",
			 j->in->list[part->input].path, gt_profiler_path(p),
			 p->facts.kineto ? "is there a baseTimeNanoseconds that they count from"
					 : "CLOCK_MONOTONIC_RAW of this recording's host");
		return;
	}
	gt_error("%s: does not overlap in time with %s and is left out: recorded from %s to %s, "
		 "traced from %s to %s (UTC, by %s); %s apart",
		 j->in->list[part->input].path, gt_profiler_path(p), utc(range.begin_ns).text,
		 utc(range.end_ns).text, utc(begin).text, utc(end).text,
		 gt_clock_method_text(part->clock.method), duration(apart).text);
	by_unix.offset_ns = (int64_t)(gil_reader_unix_ns(r, gil_reader_first_mono_ns(r)) -
				      gil_reader_first_mono_ns(r));
	if (part->clock.method != GT_CLOCK_NONE && gt_profclock_overlaps(&by_unix, &p->facts))
		gt_error("%s: by its own Unix time it would; was it recorded on another host, or "
			 "after a reboot, than %s?",
			 j->in->list[part->input].path, gt_profiler_path(p));
}

/* ---- reading ---- */

static void open_all(struct joint *j)
{
	for (size_t i = 0; i < j->in->n; i++) {
		if (gt_inputs_open(j->in, i, &j->readers[i])) {
			j->readers[i] = NULL;
		} else if (!gil_reader_first_mono_ns(j->readers[i])) {
			gt_error("%s: is empty: no time is in it", j->in->list[i].path);
			gil_reader_close(j->readers[i]);
			j->readers[i] = NULL;
		}
		if (j->readers[i])
			gt_match_who(j->readers[i], j->in->list[i].path, &j->who[i]);
		else
			j->left_out++;
	}
}

static int begin(struct joint *j)
{
	size_t n = j->in->n, pairs;

	if (__builtin_mul_overflow(n, j->p->n, &pairs))
		return -ENOMEM;
	j->readers = calloc(n + 1, sizeof(*j->readers));
	j->who = calloc(n + 1, sizeof(*j->who));
	j->pairs = calloc(pairs + 1, sizeof(*j->pairs));
	j->converted = calloc(n + 1, 1);
	j->used = calloc(n + 1, 1);
	j->fits = calloc(n + 1, 1);
	j->units = calloc(j->p->n + 1, sizeof(*j->units));
	if (!j->readers || !j->who || !j->pairs || !j->converted || !j->used || !j->fits ||
	    !j->units)
		return -ENOMEM;
	open_all(j);
	return 0;
}

static void end(struct joint *j)
{
	for (size_t i = 0; j->readers && i < j->in->n; i++)
		if (j->readers[i])
			gil_reader_close(j->readers[i]);
	free(j->readers);
	free(j->who);
	free(j->pairs);
	free(j->converted);
	free(j->used);
	free(j->fits);
	for (size_t k = 0; j->units && k < j->p->n; k++) {
		free(j->units[k].parts);
		free(j->units[k].lanes);
	}
	free(j->units);
}

/* ---- one Profiler ---- */

/* The recordings of it, placed. */
static int place_parts(struct joint *j, size_t k, struct unit *u)
{
	size_t n = j->in->n, k_n = j->p->n, all = 0;
	struct gt_stamps stamps;

	for (size_t i = 0; i < n; i++)
		all += j->pairs[i * k_n + k] != GT_MATCH_NONE;
	if (!all)
		return 0;
	gt_stamps_read(u->p, &stamps);
	u->parts = calloc(all, sizeof(*u->parts));
	u->lanes = calloc(all, sizeof(*u->lanes));
	if (!u->parts || !u->lanes)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct part *part = &u->parts[u->n];

		if (!j->pairs[i * k_n + k])
			continue;
		part->input = i;
		part->how = j->pairs[i * k_n + k];
		gt_profclock_choose(u->p, &stamps, j->readers[i], &part->clock);
		part->overlaps = (uint8_t)gt_profclock_overlaps(&part->clock, &u->p->facts);
		j->fits[i] |= part->overlaps;
		u->fits |= part->overlaps;
		u->n++;
	}
	return 0;
}

/*
 * Those that share some time with it stay. A process that profiles one window after the other, and
 * records each, has a recording for each: what belongs to another window is not missed in this one.
 */
static void keep_overlapping(struct joint *j, struct unit *u)
{
	size_t kept = 0;

	for (size_t i = 0; i < u->n; i++) {
		struct part *part = &u->parts[i];

		if (part->overlaps) {
			gt_clock_text(&part->clock, part->clock_text);
			snprintf(part->tag, sizeof(part->tag), "clock %s", part->clock_text);
			gt_info("%s: belongs to %s %s; clock: %s", j->in->list[part->input].path,
				gt_profiler_path(u->p), gt_match_text(part->how), part->clock_text);
			u->parts[kept++] = *part;
		} else if (!u->fits || !j->fits[part->input]) {
			say_no_overlap(j, part, u->p);
			j->left_out++;
		}
	}
	u->n = kept;
}

/* The lane of the Profiler in which threads have their own ids. 0: there is none. */
static uint64_t real_lane(const struct gt_profiler *p)
{
	const struct gt_proftrace *t = &p->facts;

	for (size_t i = 0; i < t->npython; i++)
		if (p->pid > 0 && t->python[i] == (uint64_t)p->pid)
			return t->python[i];
	if (t->npython == 1)
		return t->python[0];
	return t->mindspore_lane > 0 ? (uint64_t)t->mindspore_lane : 0;
}

/* Rows among the Profiler's: only those of its own process, and each once. */
static void choose_inline(struct joint *j, struct unit *u)
{
	size_t kept = 0;

	u->inline_pid = real_lane(u->p);
	if (!u->inline_pid) {
		gt_warn("%s: has no lane with the process's own threads, to put rows beside; the "
			"GIL gets a lane of its own",
			u->p->trace);
		return;
	}
	if (j->o->ids == GT_IDS_HOST)
		gt_warn("--lanes=inline shows ids as the Profiler does: of the process's PID "
			"namespace");
	for (size_t i = 0; i < u->n; i++) {
		if (u->parts[i].how != GT_MATCH_CHILD && !kept) {
			u->parts[kept++] = u->parts[i];
			continue;
		}
		j->left_out++;
		gt_error("%s: is left out of %s: with --lanes=inline there is room for one "
			 "recording, of the Profiler's process",
			 j->in->list[u->parts[i].input].path, gt_profiler_path(u->p));
	}
	u->n = kept;
}

static void choose_lanes(struct unit *u)
{
	for (size_t i = 0; i < u->n; i++)
		u->lanes[i] = (struct gt_joint_lane){
			.input = (uint32_t)u->parts[i].input,
			.order = (uint32_t)i,
			.pid = u->inline_pid ? u->inline_pid
					     : gt_proftrace_free_pid(&u->p->facts, (unsigned int)i),
			.tag = u->parts[i].tag,
		};
}

/* From Unix time, as the recording has it, to where its start is on the axis. */
static uint64_t to_axis(const struct unit *u, uint64_t unix_ns)
{
	const gil_reader *r = u->parts[0].clock.r;
	uint64_t start = gil_reader_unix_ns(r, gil_reader_first_mono_ns(r));
	int64_t by = (int64_t)(gt_profclock_range(&u->parts[0].clock).begin_ns - start);

	if (by < 0 && unix_ns <= 0 - (uint64_t)by)
		return 1;
	return unix_ns + (uint64_t)by;
}

static int begins_before(const struct unit *u, uint64_t axis_ns)
{
	for (size_t i = 0; i < u->n; i++)
		if (gt_profclock_range(&u->parts[i].clock).begin_ns <= axis_ns)
			return 1;
	return 0;
}

static void choose_filter(struct joint *j, struct unit *u)
{
	const struct gt_proftrace *t = &u->p->facts;

	u->filter = j->o->filter;
	if (j->o->from_relative)
		u->filter.from_ns = to_axis(u, u->filter.from_ns);
	if (j->o->to_relative)
		u->filter.to_ns = to_axis(u, u->filter.to_ns);
	if (t->base_ns && begins_before(u, (uint64_t)t->base_ns)) {
		gt_warn("%s: the times in it count from its baseTimeNanoseconds; what was recorded "
			"before that is left out",
			gt_profiler_path(u->p));
		if (u->filter.from_ns <= (uint64_t)t->base_ns)
			u->filter.from_ns = (uint64_t)t->base_ns + 1;
	}
	if (!j->o->clip)
		return;
	if (!t->begin_ns && !t->end_ns) {
		gt_warn("%s: no event in it has a time, so nothing is cut to its window",
			u->p->trace);
		return;
	}
	u->filter.clip = 1;
	if (t->begin_ns > 0 && (uint64_t)t->begin_ns > u->filter.from_ns)
		u->filter.from_ns = (uint64_t)t->begin_ns;
	if (t->end_ns > 0 && (!u->filter.to_ns || (uint64_t)t->end_ns < u->filter.to_ns))
		u->filter.to_ns = (uint64_t)t->end_ns;
}

/* ---- its events ---- */

static int64_t sort_index(const void *ctx, uint32_t tid)
{
	const struct unit *u = ctx;

	return gt_proftrace_sort_index(&u->p->facts, u->inline_pid, tid);
}

static int open_sink(struct unit *u, struct gt_jsonw *w, struct gt_sink **chrome,
		     struct gt_sink **out)
{
	const struct gt_proftrace *t = &u->p->facts;
	const struct gt_chrome_opts opts = {
		.base_ns = t->base_ns > 0 ? (uint64_t)t->base_ns : 0,
		.flows = u->j->o->flows,
		.fragment = 1,
		.inline_rows = u->inline_pid != 0,
		.tid_base = u->inline_pid ? gt_proftrace_free_tids(t, u->inline_pid) : 0,
		.sort_index = sort_index,
		.ctx = u,
	};
	struct gt_sink *lanes, *filter;
	int err = gt_chrome_create(w, &opts, chrome);

	if (err)
		return err;
	err = gt_jointsink_create(u->lanes, u->n, *chrome, &lanes);
	if (err) {
		(*chrome)->ops->finish(*chrome);
		return err;
	}
	*out = lanes;
	/* Before the lanes: it knows processes by their own pids. */
	if (gt_filter_wanted(&u->filter)) {
		err = gt_filter_create(&u->filter, lanes, &u->left_out, &filter);
		if (err)
			lanes->ops->finish(lanes);
		else
			*out = filter;
	}
	return err;
}

/*
 * Rows have no label, which in a lane tells how its times were placed: metadata of a name that
 * viewers do not know, and that people find.
 */
static void put_clock(const struct unit *u, struct gt_jsonw *w)
{
	gt_jsonw_lit(w, ",\n{\"name\":\"GIL clock\",\"pid\":");
	gt_jsonw_u64(w, u->inline_pid);
	gt_jsonw_lit(w, ",\"tid\":0,\"args\":{\"clock\":\"");
	gt_jsonw_chars(w, u->parts[0].clock_text, strlen(u->parts[0].clock_text));
	gt_jsonw_lit(w, "\"},\"ph\":\"M\"}");
}

/* A gt_joint_events. */
static int write_events(void *ctx, struct gt_jsonw *w, int *any)
{
	struct unit *u = ctx;
	struct gt_sink *chrome, *sink;
	int err = open_sink(u, w, &chrome, &sink), finished;

	if (err)
		return err;
	for (size_t i = 0; i < u->n && !err; i++) {
		struct part *part = &u->parts[i];
		const struct gt_convert_opts opts = {
			.ids = u->inline_pid ? GT_IDS_NAMESPACE : u->j->o->ids,
			.place = gt_profclock_place,
			.place_ctx = &part->clock,
			.quiet = u->j->converted[part->input],
		};
		int ret = gt_convert(u->j->in, part->input, &opts, sink);

		u->j->converted[part->input] = 1;
		u->damaged |= ret == GT_LEFT_OUT || ret == GT_UNUSABLE;
		err = ret < 0 ? ret : 0;
	}
	*any = gt_chrome_any(chrome);
	finished = sink->ops->finish(sink);
	if (!err && !finished && *any && u->inline_pid)
		put_clock(u, w);
	return err ? err : finished;
}

/* ---- where it goes ---- */

static int is_json_name(const char *path)
{
	return gt_name_ends(path, ".json") || gt_name_ends(path, ".json.gz");
}

/* An OUT that is one file, and merged; a pipe or a device, too. */
static int is_file(const struct gt_joint_opts *o)
{
	struct stat st;

	if (stat(o->output, &st))
		return is_json_name(o->output);
	if (S_ISDIR(st.st_mode))
		return 0;
	return o->merge || is_json_name(o->output) || !S_ISREG(st.st_mode);
}

/* Which Profilers' traces Insight's folder is not for. */
static int is_merged(const struct joint *j, const struct gt_profiler *p)
{
	return j->o->merge || j->as_file || p->facts.object || p->facts.gzip ||
	       (!p->dir && !gt_name_ends(j->o->output, "/"));
}

static void say_implied(const struct joint *j, const struct gt_profiler *p)
{
	if (j->o->merge || !is_merged(j, p))
		return;
	gt_info("%s: is merged into one JSON, as with --merge: %s", p->trace,
		j->as_file        ? "--output names a file"
		: p->facts.object ? "MindStudio Insight lays no other file beside one of this form"
		: p->facts.gzip   ? "it is compressed"
				  : "it lies in no Profiler's folder");
}

static int merge(struct joint *j, const struct gt_jointout *out)
{
	const char *to = j->o->output;
	int gzip = j->o->gzip || (j->as_file && gt_name_ends(to, ".gz"));
	gt_autofree char *name = NULL, *path = NULL;

	if (out->p->nslices) {
		j->left_out++;
		gt_error(
			"%s: its trace is in %zu parts, of which only the first is merged; without "
			"--merge, MindStudio Insight shows them together",
			gt_profiler_path(out->p), out->p->nslices + 1);
	}
	if (j->as_file)
		return gt_jointout_merge(out, to, gzip);
	if (gt_outset_make_folder(to))
		return -EIO;
	if (asprintf(&name, "%.*s.json%s", (int)(gt_name_suffix(out->p->name) - out->p->name),
		     out->p->name, gzip ? ".gz" : "") < 0) {
		name = NULL;
		return -ENOMEM;
	}
	path = gt_prof_join(to, name);
	return path ? gt_jointout_merge(out, path, gzip) : -ENOMEM;
}

/* The rank that its card has in Insight. */
static int64_t shown_rank(const struct joint *j, const struct unit *u)
{
	for (size_t i = 0; u->p->rank < 0 && i < u->n; i++) {
		const struct gt_match_who *w = &j->who[u->parts[i].input];

		if (u->parts[i].how == GT_MATCH_CHILD || w->rank < 0)
			continue;
		/* Nobody has told it, and of several cards all would be the same. */
		return w->rank_guessed && j->p->n > 1 ? -1 : w->rank;
	}
	return u->p->rank;
}

static int is_cut(const struct gt_profiler *p)
{
	for (size_t i = 0; i < p->nslices; i++)
		if (p->slices[i].facts.cut)
			return 1;
	return p->facts.cut;
}

static int write_unit(struct joint *j, struct unit *u)
{
	const struct gt_jointout out = {
		.outs = j->o->outs,
		.all = j->p,
		.p = u->p,
		.rank = shown_rank(j, u),
		.events = write_events,
		.ctx = u,
	};
	int err;

	say_implied(j, u->p);
	err = is_merged(j, u->p) ? merge(j, &out) : gt_jointout_folder(&out, j->o->output);
	if (err > 0)
		gt_error("%s: the filters leave nothing of its recordings, so nothing is written",
			 gt_profiler_path(u->p));
	else if (err == -ENOMEM)
		gt_error("%s: out of memory", gt_profiler_path(u->p));
	if (err) {
		j->left_out++;
		return err > 0 ? 0 : err;
	}
	j->written++;
	for (size_t i = 0; i < u->n; i++)
		j->used[u->parts[i].input] = 1;
	j->left_out += u->damaged || is_cut(u->p);
	if (gt_filter_wanted(&u->filter))
		gt_filter_report(&u->left_out, gt_profiler_path(u->p));
	if (u->p->database && !is_merged(j, u->p))
		gt_info("%s: MindStudio Insight would prefer its database to its trace; import %s, "
			"which has none",
			gt_profiler_path(u->p), j->o->output);
	return 0;
}

static int do_profiler(struct unit *u)
{
	struct joint *j = u->j;

	gt_inputs_forget(j->in); /* two of a process are none where each is beside its own trace */
	keep_overlapping(j, u);
	if (!u->n)
		return 0;
	if (j->o->inline_rows)
		choose_inline(j, u);
	choose_lanes(u);
	choose_filter(j, u);
	return u->n ? write_unit(j, u) : 0;
}

/* One that cannot be written does not keep others from it. */
static int do_all(struct joint *j)
{
	for (size_t k = 0; k < j->p->n; k++) {
		struct unit *u = &j->units[k];

		u->j = j;
		u->p = &j->p->list[k];
		if (place_parts(j, k, u)) {
			gt_error("out of memory");
			return -ENOMEM;
		}
	}
	for (size_t k = 0; k < j->p->n; k++)
		if (do_profiler(&j->units[k]) == -ENOMEM)
			break;
	return 0;
}

/* ---- the run ---- */

/* Something is in the way, or does not fit together. -errno. */
static int prepare(struct joint *j)
{
	int folders = 0, err = gt_jointout_check(j->o->output, j->p);

	if (err)
		return err;
	j->as_file = (uint8_t)is_file(j->o);
	if (j->as_file && j->p->n > 1) {
		gt_error("%s: is one file, but there are %zu Profilers; give --output a folder",
			 j->o->output, j->p->n);
		return -EEXIST;
	}
	for (size_t k = 0; k < j->p->n; k++)
		folders += !is_merged(j, &j->p->list[k]);
	if (folders && j->o->gzip)
		gt_warn("--gzip is for merged files: MindStudio Insight reads none that are "
			"compressed in a folder");
	return folders ? gt_jointout_prepare(j->o->output, j->p) : 0;
}

/* What was said of each is far above by now, or much. */
static void say_total(const struct joint *j)
{
	size_t all = j->p->n + j->p->unusable, used = 0;

	for (size_t i = 0; i < j->in->n; i++)
		used += j->used[i];
	if (j->written < all || used < j->in->n || all > TOTAL_FROM || used > TOTAL_FROM)
		gt_info("%zu of %zu Profilers' traces, %zu of %zu recordings used", j->written, all,
			used, j->in->n);
}

int gt_joint(const struct gt_joint_opts *o, struct gt_inputs *in, struct gt_profilers *p)
{
	struct joint j = {.o = o, .in = in, .p = p};
	struct stat st;
	int err;

	j.is_there = !lstat(o->output, &st);
	if (!p->n) {
		gt_error("there is no Profiler's trace to lay the recordings beside");
		return EXIT_FAILED;
	}
	err = begin(&j);
	if (err)
		gt_error("out of memory");
	else
		err = prepare(&j);
	if (!err) {
		j.left_out += gt_match(j.who, in->n, p, j.pairs);
		err = do_all(&j);
		say_total(&j);
	}
	end(&j);
	if (!j.written && !j.is_there)
		rmdir(o->output); /* made for nothing */
	if (err || !j.written)
		return EXIT_FAILED;
	return j.left_out ? EXIT_LEFT_OUT : EXIT_WHOLE;
}
