// SPDX-License-Identifier: Apache-2.0
/*
 * Chrome Trace JSON as MindStudio Insight and Perfetto read it: a top-level array; "ph" is the
 * last key of every event, because Insight splits large files there; ts (Unix time) and dur are
 * microseconds as strings, as the Ascend Profiler writes ts, so that no reader rounds them to a
 * double.
 */
#include "sink_chrome.h"

#include "flows.h"

#define PID_MAX     20
#define HEAD_MAX    (PID_MAX + 64)
#define SPAN_ROOM   (HEAD_MAX + 512) /* the longest slice */
#define LOST_NAME   "GIL lost events"
#define DOUBT_NAME  "GIL sites missing"
#define LATE_NAME   "GIL not recorded"
#define PAUSED_NAME "GIL paused"
#define MARKS_NAME  "GIL marks"
/* Perfetto mistakes a tid that is a string (older versions) or 0 (newer ones) for the main
 * thread's. */
#define LOST_TRACK   GT_SINK_TID_END
#define DOUBT_TRACK  (GT_SINK_TID_END + 1)
#define LATE_TRACK   (GT_SINK_TID_END + 2)
#define PAUSED_TRACK (GT_SINK_TID_END + 3)
#define MARKS_TRACK  (GT_SINK_TID_END + 4)
#define FIRST_THREAD 1 /* thread_sort_index of the main thread; the tracks above have 0 */

struct chrome {
	struct gt_sink sink;
	struct gt_jsonw *w;
	struct gt_chrome_opts o;
	struct gt_flows *flows;   /* NULL: not asked for */
	uint64_t nflows;          /* ids */
	uint64_t start_ns;        /* of this process's recording */
	int any;                  /* an event has been written */
	int gaps, lates, pauses;  /* this process has some .. */
	int marks;                /* .. the same of these */
	uint32_t main_tid, order; /* order: of the next thread */
	char pid[PID_MAX];        /* as a JSON value */
	size_t pid_len;
	char head[GT_SPAN_KINDS][HEAD_MAX]; /* of a slice, up to its tid */
	size_t head_len[GT_SPAN_KINDS];
};

static const char *const span_names[GT_SPAN_KINDS] = {"take_gil", "hold_gil", "drop_gil"};

/* The constant pieces of an event, copied with their lengths known to the compiler. */
#define PUT(p, literal)                                                                            \
	do {                                                                                       \
		memcpy((p), "" literal, sizeof(literal) - 1);                                      \
		(p) += sizeof(literal) - 1;                                                        \
	} while (0)

static uint64_t rebased(const struct chrome *s, uint64_t ns)
{
	return ns > s->o.base_ns ? ns - s->o.base_ns : 1;
}

static void put_separator(struct chrome *s)
{
	if (s->any)
		gt_jsonw_lit(s->w, ",\n");
	else if (!s->o.fragment)
		gt_jsonw_lit(s->w, "[\n");
	s->any = 1;
}

/* Begins an event of this process: {"name":NAME,"pid":PID */
static void begin_event(struct chrome *s, const char *name)
{
	put_separator(s);
	gt_jsonw_lit(s->w, "{\"name\":\"");
	gt_jsonw_raw(s->w, name, strlen(name));
	gt_jsonw_lit(s->w, "\",\"pid\":");
	gt_jsonw_raw(s->w, s->pid, s->pid_len);
}

static void put_tid(struct chrome *s, uint64_t tid)
{
	gt_jsonw_lit(s->w, ",\"tid\":");
	gt_jsonw_u64(s->w, tid);
}

static void put_number_meta(struct chrome *s, const char *name, uint64_t tid, uint64_t v)
{
	begin_event(s, name);
	put_tid(s, tid);
	gt_jsonw_lit(s->w, ",\"args\":{\"sort_index\":");
	gt_jsonw_u64(s->w, v);
	gt_jsonw_lit(s->w, "},\"ph\":\"M\"}");
}

/* Begins metadata with one text, whose inside then follows up to end_text_meta(). */
static void begin_text_meta(struct chrome *s, const char *name, uint64_t tid, const char *key)
{
	begin_event(s, name);
	put_tid(s, tid);
	gt_jsonw_lit(s->w, ",\"args\":{\"");
	gt_jsonw_raw(s->w, key, strlen(key));
	gt_jsonw_lit(s->w, "\":\"");
}

static void end_text_meta(struct chrome *s)
{
	gt_jsonw_lit(s->w, "\"},\"ph\":\"M\"}");
}

/* Of a track that is no thread's. */
static void put_track(struct chrome *s, uint32_t track, const char *name)
{
	uint64_t tid = (uint64_t)s->o.tid_base + track;

	begin_text_meta(s, "thread_name", tid, "name");
	gt_jsonw_raw(s->w, name, strlen(name));
	end_text_meta(s);
	put_number_meta(s, "thread_sort_index", tid, 0);
}

/* ---- a process ---- */

static void put_process(struct chrome *s, const struct gt_sink_process *p)
{
	begin_text_meta(s, "process_name", 0, "name");
	gt_jsonw_chars(s->w, p->name, strlen(p->name));
	end_text_meta(s);
	begin_text_meta(s, "process_labels", 0, "labels");
	gt_jsonw_chars(s->w, p->tags, strlen(p->tags));
	if (s->o.base_ns) { /* without it nobody could tell when this was */
		gt_jsonw_lit(s->w, ", ts 0 is Unix time ");
		gt_jsonw_us(s->w, s->o.base_ns);
		gt_jsonw_lit(s->w, " us");
	}
	end_text_meta(s);
	put_number_meta(s, "process_sort_index", 0, p->order);
}

static int chrome_process(struct gt_sink *sink, const struct gt_sink_process *p)
{
	struct chrome *s = (struct chrome *)sink;

	s->pid_len = (size_t)(gt_fmt_u64(s->pid, p->pid) - s->pid);
	s->main_tid = p->main_tid;
	s->start_ns = p->start_ns;
	s->order = FIRST_THREAD + 1;
	s->gaps = s->lates = s->pauses = s->marks = 0;
	for (int k = 0; k < GT_SPAN_KINDS; k++) {
		char *q = s->head[k];

		PUT(q, "{\"name\":\"");
		memcpy(q, span_names[k], strlen(span_names[k]));
		q += strlen(span_names[k]);
		PUT(q, "\",\"pid\":");
		memcpy(q, s->pid, s->pid_len);
		q += s->pid_len;
		PUT(q, ",\"tid\":");
		s->head_len[k] = (size_t)(q - s->head[k]);
	}
	if (s->flows)
		gt_flows_begin(s->flows);
	if (!s->o.inline_rows)
		put_process(s, p);
	return s->w->err;
}

/* ---- slices ---- */

/* ,"open":"start+end" */
static char *put_open(char *p, uint8_t open)
{
	static const struct {
		enum gt_span_open bit;
		const char *text;
	} ends[] = {
		{GT_OPEN_START, "start"},           {GT_OPEN_LOST, "lost"},
		{GT_OPEN_PAUSED, "paused"},         {GT_OPEN_END, "end"},
		{GT_OPEN_UNKNOWN, "unknown"},       {GT_OPEN_EXIT, "exit"},
		{GT_OPEN_FINALIZING, "finalizing"}, {GT_OPEN_CLIPPED, "clipped"},
	};
	char *first;

	PUT(p, ",\"open\":\"");
	first = p;
	for (size_t i = 0; i < GT_ARRAY_SIZE(ends); i++) {
		if (!(open & ends[i].bit))
			continue;
		if (p != first)
			*p++ = '+';
		p = stpcpy(p, ends[i].text);
	}
	*p++ = '"';
	return p;
}

/* Who had the GIL during a wait; what is nothing is left out. */
static char *put_wait(char *p, const struct gt_span *span)
{
	const struct gt_wait *w = &span->wait;

	if (w->blocker) {
		PUT(p, ",\"blocker\":");
		p = gt_fmt_u64(p, w->blocker);
		PUT(p, ",\"blocker_us\":\"");
		p = gt_fmt_us(p, w->blocker_ns);
		*p++ = '"';
	}
	if (w->held_ns) {
		PUT(p, ",\"held_us\":\"");
		p = gt_fmt_us(p, w->held_ns);
		*p++ = '"';
	}
	if (w->nobody_ns) {
		PUT(p, ",\"nobody_us\":\"");
		p = gt_fmt_us(p, w->nobody_ns);
		*p++ = '"';
	}
	if (w->unknown_ns) {
		PUT(p, ",\"unknown_us\":\"");
		p = gt_fmt_us(p, w->unknown_ns);
		*p++ = '"';
	}
	return p;
}

static char *put_args(char *p, const struct gt_span *span)
{
	PUT(p, "\",\"args\":{\"gil\":");
	if (span->gil != GIL_INDEX_OTHER) {
		p = gt_fmt_u64(p, span->gil);
	} else {
		/* Several GILs, so two threads may hold at once: told apart by thread at least. */
		PUT(p, "\"other-");
		p = gt_fmt_u64(p, span->tid);
		*p++ = '"';
	}
	if (span->forced == GT_FORCED_YES)
		PUT(p, ",\"forced\":true");
	else if (span->forced == GT_FORCED_NO)
		PUT(p, ",\"forced\":false");
	if (span->open)
		p = put_open(p, span->open);
	if (span->kind == GT_SPAN_TAKE)
		p = put_wait(p, span);
	return p;
}

/* One end of an arrow. */
static void put_flow(struct chrome *s, uint32_t tid, uint64_t ns, int is_start)
{
	char *p;

	put_separator(s);
	p = gt_jsonw_room(s->w, SPAN_ROOM);
	PUT(p, "{\"name\":\"gil\",\"cat\":\"gil\",\"id\":");
	p = gt_fmt_u64(p, s->nflows);
	PUT(p, ",\"pid\":");
	memcpy(p, s->pid, s->pid_len);
	p += s->pid_len;
	PUT(p, ",\"tid\":");
	p = gt_fmt_u64(p, (uint64_t)s->o.tid_base + tid);
	PUT(p, ",\"ts\":\"");
	p = gt_fmt_us(p, rebased(s, ns));
	if (is_start)
		PUT(p, "\",\"ph\":\"s\"}");
	else
		PUT(p, "\",\"bp\":\"e\",\"ph\":\"f\"}");
	gt_jsonw_filled(s->w, p);
}

static int put_flows(struct chrome *s, const struct gt_span *span)
{
	struct gt_flow flow[2] = {{0}};
	int n = 0;

	if (span->kind == GT_SPAN_TAKE)
		n = gt_flows_take(s->flows, span);
	else if (span->kind == GT_SPAN_HOLD)
		n = gt_flows_hold(s->flows, span, flow);
	for (int i = 0; i < n; i++) {
		s->nflows++;
		put_flow(s, flow[i].from_tid, flow[i].from_ns, 1);
		put_flow(s, flow[i].to_tid, flow[i].to_ns, 0);
	}
	return n < 0 ? n : s->w->err;
}

static int chrome_span(struct gt_sink *sink, const struct gt_span *span)
{
	struct chrome *s = (struct chrome *)sink;
	uint64_t start = rebased(s, span->start_ns);
	char *p;

	put_separator(s);
	p = gt_jsonw_room(s->w, SPAN_ROOM);
	memcpy(p, s->head[span->kind], s->head_len[span->kind]);
	p += s->head_len[span->kind];
	p = gt_fmt_u64(p, (uint64_t)s->o.tid_base + span->tid);
	PUT(p, ",\"ts\":\"");
	p = gt_fmt_us(p, start);
	/* A string, too: Perfetto cuts 1.001 to 1.000 when it reads it as a double. */
	PUT(p, "\",\"dur\":\"");
	p = gt_fmt_us(p, rebased(s, span->end_ns) - start);
	p = put_args(p, span);
	PUT(p, "},\"ph\":\"X\"}");
	gt_jsonw_filled(s->w, p);
	return s->flows ? put_flows(s, span) : s->w->err;
}

/* ---- what is missing ---- */

/* Begins an event on a track that is no thread's, up to its arguments. */
static void begin_sign(struct chrome *s, const char *name, uint32_t track, uint64_t ns)
{
	begin_event(s, name);
	put_tid(s, (uint64_t)s->o.tid_base + track);
	gt_jsonw_lit(s->w, ",\"ts\":\"");
	gt_jsonw_us(s->w, rebased(s, ns));
	gt_jsonw_lit(s->w, "\",\"args\":{");
}

static void put_counter(struct chrome *s, const char *name, uint32_t track, uint64_t ns,
			const char *key, uint64_t value)
{
	begin_sign(s, name, track, ns);
	gt_jsonw_lit(s->w, "\"");
	gt_jsonw_raw(s->w, key, strlen(key));
	gt_jsonw_lit(s->w, "\":");
	gt_jsonw_u64(s->w, value);
	gt_jsonw_lit(s->w, "},\"ph\":\"C\"}");
}

/* The end of an instant whose other arguments have been written. */
static void end_gap(struct chrome *s, const struct gt_gap *gap)
{
	gt_jsonw_lit(s->w, "\"dur\":\"");
	gt_jsonw_us(s->w, rebased(s, gap->end_ns) - rebased(s, gap->begin_ns));
	gt_jsonw_lit(s->w, "\",\"end\":\"");
	gt_jsonw_us(s->w, rebased(s, gap->end_ns));
	gt_jsonw_lit(s->w, "\"},\"ph\":\"I\"}");
}

static void put_lost(struct chrome *s, const struct gt_gap *gap)
{
	if (!s->gaps++)
		put_track(s, LOST_TRACK, LOST_NAME);
	begin_sign(s, "lost events", LOST_TRACK, gap->begin_ns);
	gt_jsonw_lit(s->w, "\"count\":");
	gt_jsonw_u64(s->w, gap->count);
	gt_jsonw_lit(s->w, ",");
	end_gap(s, gap);
	put_counter(s, LOST_NAME, LOST_TRACK, gap->begin_ns, "lost", gap->count);
	put_counter(s, LOST_NAME, LOST_TRACK, gap->end_ns, "lost", 0);
}

static void put_late(struct chrome *s, const struct gt_gap *gap)
{
	if (!s->lates++)
		put_track(s, LATE_TRACK, LATE_NAME);
	begin_sign(s, "not recorded", LATE_TRACK, gap->begin_ns);
	if (gap->why) {
		gt_jsonw_lit(s->w, "\"why\":\"");
		gt_jsonw_chars(s->w, gap->why, strlen(gap->why));
		gt_jsonw_lit(s->w, "\",");
	}
	end_gap(s, gap);
	put_counter(s, LATE_NAME, LATE_TRACK, gap->begin_ns, "missing", 1);
	put_counter(s, LATE_NAME, LATE_TRACK, gap->end_ns, "missing", 0);
}

static void put_paused(struct chrome *s, const struct gt_gap *gap)
{
	if (!s->pauses++)
		put_track(s, PAUSED_TRACK, PAUSED_NAME);
	begin_sign(s, "paused", PAUSED_TRACK, gap->begin_ns);
	end_gap(s, gap);
	put_counter(s, PAUSED_NAME, PAUSED_TRACK, gap->begin_ns, "paused", 1);
	put_counter(s, PAUSED_NAME, PAUSED_TRACK, gap->end_ns, "paused", 0);
}

/*
 * An instant, which has a row among the threads but no length, and a counter, which is drawn as a
 * block as long as the gap. A slice would have both, but in a GIL trace slices are what threads do.
 */
static int chrome_gap(struct gt_sink *sink, const struct gt_gap *gap)
{
	struct chrome *s = (struct chrome *)sink;

	if (gap->late)
		put_late(s, gap);
	else if (gap->paused)
		put_paused(s, gap);
	else
		put_lost(s, gap);
	return s->w->err;
}

/* ---- marks ---- */

/* One event of a mark; scope: "p", of the process, or "t", of the thread whose row it is on. */
static void put_mark(struct chrome *s, const struct gt_mark *mark, char scope, uint32_t row)
{
	put_separator(s);
	gt_jsonw_lit(s->w, "{\"name\":\"");
	gt_jsonw_chars(s->w, mark->name, strlen(mark->name));
	gt_jsonw_lit(s->w, "\",\"s\":\"");
	gt_jsonw_raw(s->w, &scope, 1);
	gt_jsonw_lit(s->w, "\",\"pid\":");
	gt_jsonw_raw(s->w, s->pid, s->pid_len);
	put_tid(s, (uint64_t)s->o.tid_base + row);
	gt_jsonw_lit(s->w, ",\"ts\":\"");
	gt_jsonw_us(s->w, rebased(s, mark->at_ns));
	gt_jsonw_lit(s->w, "\",\"args\":{");
	if (mark->tid) {
		gt_jsonw_lit(s->w, "\"thread\":");
		gt_jsonw_u64(s->w, mark->tid);
	}
	gt_jsonw_lit(s->w, "},\"ph\":\"I\"}");
}

/*
 * All of them stand on a track where nothing hides them: Insight draws an instant as a slice
 * without length, below longer ones. Those of threads stand on their rows, too.
 */
static int chrome_mark(struct gt_sink *sink, const struct gt_mark *mark)
{
	struct chrome *s = (struct chrome *)sink;

	if (!s->marks++)
		put_track(s, MARKS_TRACK, MARKS_NAME);
	put_mark(s, mark, 'p', MARKS_TRACK);
	if (mark->tid)
		put_mark(s, mark, 't', mark->tid);
	return s->w->err;
}

static int chrome_end(struct gt_sink *sink, const struct gt_sink_end *end)
{
	struct chrome *s = (struct chrome *)sink;

	if (!end->doubt)
		return s->w->err;
	put_track(s, DOUBT_TRACK, DOUBT_NAME);
	begin_sign(s, DOUBT_NAME, DOUBT_TRACK, s->start_ns);
	gt_jsonw_lit(s->w, "\"text\":\"");
	gt_jsonw_chars(s->w, end->doubt, strlen(end->doubt));
	gt_jsonw_lit(s->w, "\"},\"ph\":\"I\"}");
	/* Drawn from here to the end; Perfetto up to v20.1 drops the instant. */
	put_counter(s, DOUBT_NAME, DOUBT_TRACK, s->start_ns, "missing", 1);
	return s->w->err;
}

/* ---- threads ---- */

static uint64_t sort_index(struct chrome *s, uint32_t tid)
{
	int64_t index = -1;

	if (s->o.inline_rows) {
		if (s->o.sort_index)
			index = s->o.sort_index(s->o.ctx, tid);
		return index < 0 ? tid : (uint64_t)index;
	}
	return tid == s->main_tid ? FIRST_THREAD : s->order++;
}

static int chrome_thread(struct gt_sink *sink, const struct gt_sink_thread *t)
{
	struct chrome *s = (struct chrome *)sink;
	uint64_t tid = (uint64_t)s->o.tid_base + t->tid;

	begin_text_meta(s, "thread_name", tid, "name");
	if (s->o.inline_rows)
		gt_jsonw_lit(s->w, "GIL ");
	gt_jsonw_chars(s->w, t->label, strlen(t->label));
	end_text_meta(s);
	put_number_meta(s, "thread_sort_index", tid, sort_index(s, t->tid));
	return s->w->err;
}

static int chrome_finish(struct gt_sink *sink)
{
	struct chrome *s = (struct chrome *)sink;
	int err;

	if (s->any && !s->o.fragment)
		gt_jsonw_lit(s->w, "\n]\n");
	err = gt_jsonw_flush(s->w);
	gt_flows_free(s->flows);
	free(s);
	return err;
}

int gt_chrome_any(const struct gt_sink *s)
{
	return ((const struct chrome *)s)->any;
}

int gt_chrome_create(struct gt_jsonw *w, const struct gt_chrome_opts *opts, struct gt_sink **out)
{
	static const struct gt_sink_ops ops = {
		.process = chrome_process,
		.span = chrome_span,
		.gap = chrome_gap,
		.mark = chrome_mark,
		.thread = chrome_thread,
		.end = chrome_end,
		.finish = chrome_finish,
	};
	struct chrome *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->sink.ops = &ops;
	s->w = w;
	s->o = *opts;
	err = opts->flows ? gt_flows_create(&s->flows) : 0;
	if (err) {
		free(s);
		return err;
	}
	*out = &s->sink;
	return 0;
}
