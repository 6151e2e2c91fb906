// SPDX-License-Identifier: Apache-2.0
/*
 * What is relied on (by samples of torch_npu and the published sources of torch_npu, MindSpore and
 * Kineto; docs/profiler.md says it to users):
 *
 * - torch_npu: an array; its lane "Python" has the process's own pid and tids. Its other lanes, and
 *   all of msprof's, have (pid << 10) | (sort index << 5) | device. ts is a string of microseconds
 *   with three decimals, Unix time; in newer versions a number. "ph" may come last.
 * - MindSpore: as msprof; a lane "MindSpore" with a constant pid and real tids.
 * - Kineto: an object with schemaVersion. The process has its program's name and the label "CPU";
 *   devices have their number as pid. Up to PyTorch 2.3 ts is Unix time, later it is relative to
 *   baseTimeNanoseconds, which stands behind the array up to 2.6 and before it since. "Spans",
 *   "Traces" and "" are no processes: they have markers of the profiler itself, whose times may be
 *   nonsense. An event from before the base, or without a time, has ts 0. Metadata has a ts, too.
 * - PyTorch built without Kineto: an array, the pid "CPU functions", ts relative to nothing known.
 *
 * So begin_ns .. end_ns are those of all events but metadata, those markers, and rows of ours; an
 * event whose ts is missing, no number, 0 or less, or too great, is counted as untimed; so is one
 * whose dur is such, of which then only the beginning counts; and where there are events of Unix
 * time, all that are before the year 2000: they are mistakes, and would make nonsense of the range.
 */
#include "proftrace.h"

#include <inttypes.h>
#include <stdio.h>

#include "giltrace/gilfile.h"
#include "lanes.h"
#include "log.h"

#define YEAR_2000_NS  (INT64_C(946684800) * 1000000000)
#define STATUS_EVENTS (1u << 17) /* how often progress is shown */
#define OWN_PREFIX    "GIL "     /* of names, pids and tids that are ours */

enum key { KEY_OTHER, KEY_PH, KEY_NAME, KEY_PID, KEY_TID, KEY_TS, KEY_DUR, KEY_CAT, KEY_ARGS };

enum meta { NO_META, PROCESS_NAME, PROCESS_LABELS, THREAD_NAME, THREAD_SORT_INDEX };

enum number { MISSING, GOOD, BAD };

enum cat { NO_CAT, CAT_CPU, CAT_DEVICE };

struct event {
	uint64_t pid, tid;
	int64_t ts, dur;
	int64_t sort_index;
	enum meta meta;
	enum cat cat;
	enum number has_pid, has_tid, has_ts, has_dur;
	unsigned int lane; /* what args.name means for a process */
	uint8_t label;     /* what args.labels means: GT_LANE_CPU or GT_LANE_DEVICE */
	uint8_t own;       /* args.name begins as names of ours do: a thread's, 2 a process's */
	uint8_t marker;    /* its times do not count */
	char ph;
};

/* Times as they stand in the text; the base is added at the end. */
struct range {
	int64_t begin_ns, end_ns;
	uint64_t events;
	uint64_t endless; /* of these, with a dur that is none */
};

struct reader {
	struct gt_jsonscan *s;
	struct gt_proftrace *t;
	const char *path;
	struct gt_lanes lanes;
	struct range early, late; /* events before the year 2000, and since */
	uint8_t array_begun;
	uint8_t has_base;
	char *why;
	size_t why_size;
};

static int refuse(struct reader *r, int rc, const char *words)
{
	if (!r->why[0])
		snprintf(r->why, r->why_size, "%s", words);
	return rc;
}

/* ---- values ---- */

/* The token of a value; of an array or object its beginning, and it is left. */
static int value(struct reader *r)
{
	int token = gt_jsonscan_next(r->s);

	if (token == GT_JSON_OBJECT || token == GT_JSON_ARRAY) {
		int rc = gt_jsonscan_leave(r->s);

		return rc < 0 ? rc : token;
	}
	return token;
}

static int is_text(int token)
{
	return token == GT_JSON_STRING || token == GT_JSON_NUMBER;
}

/* Decimal digits only, in quotes or not. */
static enum number whole_number(const struct reader *r, uint64_t *v)
{
	size_t len;
	const char *text = gt_jsonscan_text(r->s, &len);

	*v = 0;
	for (size_t i = 0; i < len; i++) {
		uint64_t digit = (uint64_t)(text[i] - '0');

		if (text[i] < '0' || text[i] > '9' || *v > (UINT64_MAX - digit) / 10)
			return BAD;
		*v = *v * 10 + digit;
	}
	return len ? GOOD : BAD;
}

static enum number time_value(const struct reader *r, int token, int64_t *ns)
{
	size_t len;
	const char *text = gt_jsonscan_text(r->s, &len);

	if (!is_text(token) || gt_jsonscan_cut(r->s) || strlen(text) != len)
		return BAD;
	return gt_us_to_ns(text, ns) ? BAD : GOOD;
}

/* ---- events ---- */

static enum key key_of(const struct gt_jsonscan *s)
{
	size_t len;
	const char *text = gt_jsonscan_text(s, &len);

	switch (len) {
	case 2:
		if (text[0] == 'p' && text[1] == 'h')
			return KEY_PH;
		return text[0] == 't' && text[1] == 's' ? KEY_TS : KEY_OTHER;
	case 3:
		if (memcmp(text, "pid", 3) == 0)
			return KEY_PID;
		if (memcmp(text, "tid", 3) == 0)
			return KEY_TID;
		if (memcmp(text, "cat", 3) == 0)
			return KEY_CAT;
		return memcmp(text, "dur", 3) == 0 ? KEY_DUR : KEY_OTHER;
	case 4:
		if (memcmp(text, "name", 4) == 0)
			return KEY_NAME;
		return memcmp(text, "args", 4) == 0 ? KEY_ARGS : KEY_OTHER;
	default:
		return KEY_OTHER;
	}
}

static enum meta meta_of(const struct gt_jsonscan *s)
{
	static const char *const names[] = {[PROCESS_NAME] = "process_name",
					    [PROCESS_LABELS] = "process_labels",
					    [THREAD_NAME] = "thread_name",
					    [THREAD_SORT_INDEX] = "thread_sort_index"};

	const char *text = gt_jsonscan_text(s, NULL);

	if (text[0] != 'p' && text[0] != 't')
		return NO_META; /* as nearly all are */
	for (enum meta m = PROCESS_NAME; m <= THREAD_SORT_INDEX; m++)
		if (gt_jsonscan_is(s, names[m]))
			return m;
	return NO_META;
}

/* Kineto's: a slice of a device has the device's number as pid, and that may be small. */
static enum cat cat_of(const struct gt_jsonscan *s)
{
	static const char *const cpu[] = {"cpu_op",       "user_annotation", "python_function",
					  "cuda_runtime", "cuda_driver",     "privateuse1_runtime",
					  "xpu_runtime",  "mtia_runtime",    "privateuse1_driver"};
	const char *text = gt_jsonscan_text(s, NULL);

	for (size_t i = 0; i < GT_ARRAY_SIZE(cpu); i++)
		if (gt_jsonscan_is(s, cpu[i]))
			return CAT_CPU;
	return gt_jsonscan_is(s, "kernel") || strncmp(text, "gpu_", 4) == 0 ? CAT_DEVICE : NO_CAT;
}

static unsigned int lane_of(const struct gt_jsonscan *s)
{
	static const struct {
		const char *name;
		unsigned int mark;
	} lanes[] = {
		{"Python", GT_LANE_PYTHON},
		{"MindSpore", GT_LANE_MINDSPORE},
		{"CANN", GT_LANE_MSPROF},
		{"Ascend Hardware", GT_LANE_MSPROF},
		{"Overlap Analysis", GT_LANE_MSPROF},
	};

	for (size_t i = 0; i < GT_ARRAY_SIZE(lanes); i++)
		if (gt_jsonscan_is(s, lanes[i].name))
			return lanes[i].mark;
	return 0;
}

static uint8_t own_name(const struct gt_jsonscan *s)
{
	const char *text = gt_jsonscan_text(s, NULL);

	if (strncmp(text, OWN_PREFIX, strlen(OWN_PREFIX)) != 0)
		return 0;
	return strncmp(text, OWN_PREFIX "Trace: ", strlen(OWN_PREFIX "Trace: ")) == 0 ? 2 : 1;
}

static int read_args(struct reader *r, struct event *ev)
{
	int token = gt_jsonscan_next(r->s);

	if (token == GT_JSON_ARRAY)
		return gt_jsonscan_leave(r->s);
	if (token != GT_JSON_OBJECT)
		return token;
	while ((token = gt_jsonscan_next(r->s)) == GT_JSON_KEY) {
		int name = gt_jsonscan_is(r->s, "name"), labels = gt_jsonscan_is(r->s, "labels");
		int sort = gt_jsonscan_is(r->s, "sort_index");
		uint64_t v;

		token = value(r);
		if (token < 0)
			return token;
		if (name) {
			ev->lane = token == GT_JSON_STRING ? lane_of(r->s) : 0;
			ev->own = token == GT_JSON_STRING ? own_name(r->s) : 0;
		} else if (labels) {
			ev->label = token == GT_JSON_STRING && gt_jsonscan_is(r->s, "CPU")
					    ? GT_LANE_CPU
					    : GT_LANE_DEVICE;
		} else if (sort && is_text(token) && whole_number(r, &v) == GOOD &&
			   v <= INT64_MAX) {
			ev->sort_index = (int64_t)v;
		}
	}
	return token;
}

/* A pid or tid; texts among them are told apart only as far as needed. */
static enum number read_id(struct reader *r, int token, uint64_t *id, struct event *ev)
{
	*id = 0;
	if (!is_text(token))
		return BAD;
	if (token == GT_JSON_STRING &&
	    strncmp(gt_jsonscan_text(r->s, NULL), OWN_PREFIX, strlen(OWN_PREFIX)) == 0) {
		r->t->has_gil = 1;
		ev->marker = 1;
	}
	return whole_number(r, id);
}

static int read_member(struct reader *r, enum key key, struct event *ev)
{
	int token;

	/* Most of a trace is args: looked into only where they may tell something. */
	if (key == KEY_ARGS && (!ev->ph || ev->ph == 'M'))
		return read_args(r, ev);
	if (key == KEY_OTHER || key == KEY_ARGS)
		return gt_jsonscan_skip(r->s);
	token = value(r);
	if (token < 0)
		return token;
	switch (key) {
	case KEY_PH:
		ev->ph = '\0';
		if (token == GT_JSON_STRING)
			ev->ph = gt_jsonscan_text(r->s, NULL)[0];
		break;
	case KEY_NAME:
		ev->meta = token == GT_JSON_STRING ? meta_of(r->s) : NO_META;
		break;
	case KEY_PID:
		ev->has_pid = read_id(r, token, &ev->pid, ev);
		if (token == GT_JSON_STRING)
			ev->marker |= gt_jsonscan_is(r->s, "") || gt_jsonscan_is(r->s, "Spans") ||
				      gt_jsonscan_is(r->s, "Traces");
		break;
	case KEY_TID:
		ev->has_tid = read_id(r, token, &ev->tid, ev);
		break;
	case KEY_CAT:
		ev->cat = token == GT_JSON_STRING ? cat_of(r->s) : NO_CAT;
		break;
	case KEY_TS:
		ev->has_ts = time_value(r, token, &ev->ts);
		break;
	default:
		ev->has_dur = time_value(r, token, &ev->dur);
		break;
	}
	return 0;
}

static int end_metadata(struct reader *r, const struct event *ev)
{
	if (ev->has_pid != GOOD)
		return 0;
	if ((ev->own == 2 && ev->meta == PROCESS_NAME) ||
	    (ev->own && ev->meta == THREAD_NAME && ev->has_tid == GOOD &&
	     ev->tid >= GT_PROFTRACE_TIDS))
		r->t->has_gil = 1;
	switch (ev->meta) {
	case PROCESS_NAME:
		return gt_lanes_mark(&r->lanes, ev->pid, GT_LANE_NAME, ev->lane);
	case PROCESS_LABELS:
		return gt_lanes_mark(&r->lanes, ev->pid, GT_LANE_LABEL, ev->label);
	case THREAD_NAME:
	case THREAD_SORT_INDEX:
		if (ev->has_tid != GOOD)
			return 0;
		return gt_lanes_thread(&r->lanes, ev->pid, ev->tid,
				       ev->meta == THREAD_NAME ? -1 : ev->sort_index);
	case NO_META:
		break;
	}
	return 0;
}

static void end_times(struct reader *r, const struct event *ev)
{
	struct range *in = ev->ts < YEAR_2000_NS ? &r->early : &r->late;
	int64_t end = ev->ts;

	if (ev->marker)
		return;
	if (ev->has_ts != GOOD || ev->ts <= 0 || ev->ts > GT_PROFTRACE_TIME_MAX) {
		r->t->untimed++;
		return;
	}
	if (ev->has_dur == BAD || ev->dur < 0 || ev->dur > GT_PROFTRACE_TIME_MAX - ev->ts)
		in->endless++;
	else
		end += ev->dur;
	if (!in->events++ || ev->ts < in->begin_ns)
		in->begin_ns = ev->ts;
	if (end > in->end_ns)
		in->end_ns = end;
}

static int read_event(struct reader *r)
{
	struct event ev = {.sort_index = -1};
	int token, rc = 0;

	while ((token = gt_jsonscan_next(r->s)) == GT_JSON_KEY) {
		rc = read_member(r, key_of(r->s), &ev);
		if (rc < 0)
			return rc;
	}
	if (token < 0)
		return token;
	if (!ev.ph) {
		r->t->odd++;
		return 0;
	}
	r->t->events++;
	if (ev.has_pid == GOOD)
		rc = gt_lanes_add(&r->lanes, ev.pid);
	if (!rc && ev.has_pid == GOOD && ev.ph == 'X' && ev.cat != CAT_DEVICE)
		gt_lanes_slice(&r->lanes, ev.cat == CAT_CPU);
	if (!rc && ev.ph == 'M')
		rc = end_metadata(r, &ev);
	else if (!rc)
		end_times(r, &ev);
	if (rc == -E2BIG)
		return refuse(r, rc, "it has more processes or threads than any Profiler writes");
	return rc;
}

static void show_progress(const struct reader *r)
{
	if (!(r->t->events % STATUS_EVENTS) && r->t->events)
		gt_status("reading %s: %" PRIu64 " MiB", r->path, gt_jsonscan_behind(r->s) >> 20);
}

/* Behind its "[". */
static int read_array(struct reader *r)
{
	struct gt_proftrace *t = r->t;
	int token;

	r->array_begun = 1;
	t->in_array = 1;
	t->array_offset = t->whole = gt_jsonscan_behind(r->s);
	while ((token = gt_jsonscan_next(r->s)) != GT_JSON_ARRAY_END) {
		int rc = 0;

		if (token == GT_JSON_OBJECT) {
			rc = read_event(r);
		} else {
			t->odd += token >= 0;
			rc = token == GT_JSON_ARRAY ? gt_jsonscan_leave(r->s) : token;
		}
		if (rc < 0)
			return rc;
		t->any = 1;
		t->whole = gt_jsonscan_behind(r->s);
		show_progress(r);
	}
	t->in_array = 0;
	t->whole = gt_jsonscan_behind(r->s);
	return 0;
}

/* ---- the whole ---- */

static int read_base(struct reader *r)
{
	int token = value(r);
	uint64_t v = 0;

	if (token < 0)
		return token;
	if (!is_text(token) || whole_number(r, &v) != GOOD || v > (uint64_t)GT_PROFTRACE_TIME_MAX)
		return refuse(r, -EBADMSG, "baseTimeNanoseconds is no whole number that fits");
	if (r->has_base && r->t->base_ns != (int64_t)v)
		return refuse(r, -EBADMSG, "it has two different baseTimeNanoseconds");
	r->has_base = 1;
	r->t->base_ns = (int64_t)v;
	r->t->kineto = 1;
	return 0;
}

static int read_distributed(struct reader *r)
{
	int token = gt_jsonscan_next(r->s);

	if (token == GT_JSON_ARRAY)
		return gt_jsonscan_leave(r->s);
	if (token != GT_JSON_OBJECT)
		return token < 0 ? token : 0;
	while ((token = gt_jsonscan_next(r->s)) == GT_JSON_KEY) {
		int rank = gt_jsonscan_is(r->s, "rank");
		uint64_t v;

		token = value(r);
		if (token < 0)
			return token;
		if (rank && is_text(token) && whole_number(r, &v) == GOOD && v <= INT32_MAX)
			r->t->rank = (int64_t)v;
	}
	return token < 0 ? token : 0;
}

static int read_events_member(struct reader *r)
{
	int token;

	if (r->array_begun)
		return refuse(r, -EBADMSG, "it has more than one \"traceEvents\"");
	token = gt_jsonscan_next(r->s);
	if (token < 0)
		return token;
	if (token != GT_JSON_ARRAY)
		return refuse(r, -EBADMSG, "its \"traceEvents\" is no array");
	return read_array(r);
}

static int read_object(struct reader *r)
{
	int token;

	r->t->object = 1;
	while ((token = gt_jsonscan_next(r->s)) == GT_JSON_KEY) {
		int rc;

		if (gt_jsonscan_is(r->s, "traceEvents")) {
			rc = read_events_member(r);
		} else if (gt_jsonscan_is(r->s, "baseTimeNanoseconds")) {
			rc = read_base(r);
		} else if (gt_jsonscan_is(r->s, "distributedInfo")) {
			rc = read_distributed(r);
		} else {
			r->t->kineto |= (uint8_t)gt_jsonscan_is(r->s, "schemaVersion");
			rc = gt_jsonscan_skip(r->s);
		}
		if (rc < 0)
			return rc;
		r->t->whole = gt_jsonscan_behind(r->s);
	}
	if (token < 0)
		return token;
	if (!r->array_begun)
		return refuse(r, -EBADMSG, "it has no \"traceEvents\": no trace");
	return 0;
}

static int read_document(struct reader *r)
{
	int token = gt_jsonscan_next(r->s);
	int rc;

	if (token < 0)
		return token;
	if (token == GT_JSON_ARRAY)
		rc = read_array(r);
	else if (token == GT_JSON_OBJECT)
		rc = read_object(r);
	else
		rc = refuse(r, -EBADMSG, "neither an array nor an object: no trace");
	return rc < 0 ? rc : gt_jsonscan_next(r->s);
}

static int end_range(struct reader *r)
{
	const struct range *in = r->late.events ? &r->late : &r->early;
	struct gt_proftrace *t = r->t;

	t->untimed += in->endless + (in == &r->late ? r->early.events : 0);
	if (!in->events)
		return 0;
	if (in->end_ns > GT_PROFTRACE_TIME_MAX - t->base_ns)
		return refuse(r, -EBADMSG, "its times are later than can be counted");
	t->begin_ns = in->begin_ns + t->base_ns;
	t->end_ns = in->end_ns + t->base_ns;
	t->relative = t->begin_ns < YEAR_2000_NS;
	return 0;
}

static int end_document(struct reader *r)
{
	struct gt_proftrace *t = r->t;
	int rc = end_range(r);

	t->size = gt_jsonscan_behind(r->s);
	t->gzip = (uint8_t)gt_jsonscan_gzip(r->s);
	t->words = gt_jsonscan_words(r->s);
	t->bad_utf8 = gt_jsonscan_bad_utf8(r->s);
	if (!t->cut)
		t->whole = t->size;
	return rc ? rc : gt_lanes_tell(&r->lanes, t);
}

static int read_all(struct reader *r)
{
	int rc = read_document(r);

	if (rc == -EPIPE && r->array_begun) {
		r->t->cut = 1;
		rc = 0;
	} else if (rc == -EPIPE) {
		rc = -EBADMSG;
	}
	if (rc < 0 && gt_jsonscan_problem(r->s)[0]) {
		if (rc == -EBADMSG && !r->array_begun && !r->t->object && !r->why[0])
			snprintf(r->why, r->why_size, "it is no JSON: %s",
				 gt_jsonscan_problem(r->s));
		return refuse(r, rc, gt_jsonscan_problem(r->s));
	}
	if (!rc)
		rc = end_document(r);
	return rc ? refuse(r, rc, strerror(-rc)) : 0;
}

/* Who has swapped the arguments should read that, not which byte is no JSON. */
static int is_recording(int fd)
{
	char magic[sizeof(GIL_MAGIC) - 1];

	return pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
	       memcmp(magic, GIL_MAGIC, sizeof(magic)) == 0;
}

int gt_proftrace_read(const char *path, struct gt_proftrace *out, char *why, size_t why_size)
{
	struct reader r = {.t = out, .path = path, .why = why, .why_size = why_size};
	int fd, rc;

	*out = (struct gt_proftrace){.rank = -1, .msprof_pid = -1, .mindspore_lane = -1};
	fd = gt_file_open(path, &out->file, why, why_size);
	if (fd < 0)
		return fd;
	why[0] = '\0';
	if (is_recording(fd)) {
		close(fd);
		return refuse(&r, -EBADMSG,
			      "it is a recording of the GIL, no Profiler's trace; --profiler names "
			      "what the Profiler has written, and recordings stand without an "
			      "option: are the two swapped?");
	}
	rc = gt_jsonscan_open(fd, &r.s);
	if (rc)
		return refuse(&r, rc, strerror(-rc));
	gt_jsonscan_lenient(r.s);
	rc = gt_lanes_init(&r.lanes);
	rc = rc ? refuse(&r, rc, strerror(-rc)) : read_all(&r);
	gt_status("%s", "");
	gt_jsonscan_close(r.s);
	gt_lanes_fini(&r.lanes);
	if (rc)
		gt_proftrace_fini(out);
	return rc;
}

void gt_proftrace_fini(struct gt_proftrace *t)
{
	free(t->pids);
	free(t->python);
	free(t->processes);
	free(t->threads);
	*t = (struct gt_proftrace){0};
}
