// SPDX-License-Identifier: Apache-2.0
/*
 * Chrome Trace JSON as MindStudio Insight and Perfetto read it: a top-level array; "ph" is the
 * last key of every event, because Insight splits large files there; ts (Unix time) and dur are
 * microseconds as strings, as the Ascend Profiler writes ts, so that no reader rounds them to a
 * double.
 */
#include "jsonw.h"
#include "sink.h"

#define PID_MAX    20
#define HEAD_MAX   (PID_MAX + 64)
#define SPAN_ROOM  (HEAD_MAX + 256) /* the longest slice */
#define LOST_NAME  "GIL lost events"
#define DOUBT_NAME "GIL sites missing"
#define LATE_NAME  "GIL not recorded"
/* From GT_SINK_TID_END on. Perfetto mistakes a tid that is a string (older versions) or 0 (newer
 * ones) for the main thread's. */
#define LOST_TRACK   "4194304"
#define DOUBT_TRACK  "4194305"
#define LATE_TRACK   "4194306"
#define FIRST_THREAD 1 /* thread_sort_index of the main thread; the tracks above have 0 */

struct gt_sink {
	struct gt_jsonw w;
	int any;                  /* an event has been written */
	int gaps, lates;          /* this process has some */
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

static int chrome_create(int fd, struct gt_sink **out)
{
	struct gt_sink *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	err = gt_jsonw_init(&s->w, fd);
	if (err) {
		free(s);
		return err;
	}
	*out = s;
	return 0;
}

/* Begins an event of this process: {"name":NAME,"pid":PID */
static void begin_event(struct gt_sink *s, const char *name)
{
	if (s->any)
		gt_jsonw_lit(&s->w, ",\n");
	else
		gt_jsonw_lit(&s->w, "[\n");
	s->any = 1;
	gt_jsonw_lit(&s->w, "{\"name\":\"");
	gt_jsonw_raw(&s->w, name, strlen(name));
	gt_jsonw_lit(&s->w, "\",\"pid\":");
	gt_jsonw_raw(&s->w, s->pid, s->pid_len);
}

static void put_number_meta(struct gt_sink *s, const char *name, const char *tid, uint64_t v)
{
	begin_event(s, name);
	gt_jsonw_lit(&s->w, ",\"tid\":");
	gt_jsonw_raw(&s->w, tid, strlen(tid));
	gt_jsonw_lit(&s->w, ",\"args\":{\"sort_index\":");
	gt_jsonw_u64(&s->w, v);
	gt_jsonw_lit(&s->w, "},\"ph\":\"M\"}");
}

static void put_text_meta(struct gt_sink *s, const char *name, const char *tid, const char *key,
			  const char *text)
{
	begin_event(s, name);
	gt_jsonw_lit(&s->w, ",\"tid\":");
	gt_jsonw_raw(&s->w, tid, strlen(tid));
	gt_jsonw_lit(&s->w, ",\"args\":{\"");
	gt_jsonw_raw(&s->w, key, strlen(key));
	gt_jsonw_lit(&s->w, "\":\"");
	gt_jsonw_chars(&s->w, text, strlen(text));
	gt_jsonw_lit(&s->w, "\"},\"ph\":\"M\"}");
}

/* Of a track that is no thread's. */
static void put_track(struct gt_sink *s, const char *tid, const char *name)
{
	put_text_meta(s, "thread_name", tid, "name", name);
	put_number_meta(s, "thread_sort_index", tid, 0);
}

static int chrome_process(struct gt_sink *s, const struct gt_sink_process *p)
{
	s->pid_len = (size_t)(gt_fmt_u64(s->pid, p->pid) - s->pid);
	s->main_tid = p->main_tid;
	s->order = FIRST_THREAD + 1;
	s->gaps = s->lates = 0;
	for (int k = 0; k < GT_SPAN_KINDS; k++) {
		char *q = s->head[k];

		PUT(q, ",\n{\"name\":\"");
		memcpy(q, span_names[k], strlen(span_names[k]));
		q += strlen(span_names[k]);
		PUT(q, "\",\"pid\":");
		memcpy(q, s->pid, s->pid_len);
		q += s->pid_len;
		PUT(q, ",\"tid\":");
		s->head_len[k] = (size_t)(q - s->head[k]);
	}
	put_text_meta(s, "process_name", "0", "name", p->name);
	put_text_meta(s, "process_labels", "0", "labels", p->tags);
	put_number_meta(s, "process_sort_index", "0", p->order);
	return s->w.err;
}

/* ,"open":"start+end" */
static char *put_open(char *p, uint8_t open)
{
	static const struct {
		enum gt_span_open bit;
		const char *text;
	} ends[] = {
		{GT_OPEN_START, "start"}, {GT_OPEN_LOST, "lost"},
		{GT_OPEN_END, "end"},     {GT_OPEN_UNKNOWN, "unknown"},
		{GT_OPEN_EXIT, "exit"},   {GT_OPEN_FINALIZING, "finalizing"},
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

static int chrome_span(struct gt_sink *s, const struct gt_span *span)
{
	char *p = gt_jsonw_room(&s->w, SPAN_ROOM);

	memcpy(p, s->head[span->kind], s->head_len[span->kind]);
	p += s->head_len[span->kind];
	p = gt_fmt_u64(p, span->tid);
	PUT(p, ",\"ts\":\"");
	p = gt_fmt_us(p, span->start_ns);
	/* A string, too: Perfetto cuts 1.001 to 1.000 when it reads it as a double. */
	PUT(p, "\",\"dur\":\"");
	p = gt_fmt_us(p, span->end_ns - span->start_ns);
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
	PUT(p, "},\"ph\":\"X\"}");
	gt_jsonw_filled(&s->w, p);
	return s->w.err;
}

/* Begins an event on a track that is no thread's, up to its arguments. */
static void begin_mark(struct gt_sink *s, const char *name, const char *track, uint64_t ns)
{
	begin_event(s, name);
	gt_jsonw_lit(&s->w, ",\"tid\":");
	gt_jsonw_raw(&s->w, track, strlen(track));
	gt_jsonw_lit(&s->w, ",\"ts\":\"");
	gt_jsonw_us(&s->w, ns);
	gt_jsonw_lit(&s->w, "\",\"args\":{");
}

static void put_counter(struct gt_sink *s, const char *name, const char *track, uint64_t ns,
			const char *key, uint64_t value)
{
	begin_mark(s, name, track, ns);
	gt_jsonw_lit(&s->w, "\"");
	gt_jsonw_raw(&s->w, key, strlen(key));
	gt_jsonw_lit(&s->w, "\":");
	gt_jsonw_u64(&s->w, value);
	gt_jsonw_lit(&s->w, "},\"ph\":\"C\"}");
}

/* The end of an instant whose other arguments have been written. */
static void end_gap(struct gt_sink *s, const struct gt_gap *gap)
{
	gt_jsonw_lit(&s->w, "\"dur\":\"");
	gt_jsonw_us(&s->w, gap->end_ns - gap->begin_ns);
	gt_jsonw_lit(&s->w, "\",\"end\":\"");
	gt_jsonw_us(&s->w, gap->end_ns);
	gt_jsonw_lit(&s->w, "\"},\"ph\":\"I\"}");
}

static void put_lost(struct gt_sink *s, const struct gt_gap *gap)
{
	if (!s->gaps++)
		put_track(s, LOST_TRACK, LOST_NAME);
	begin_mark(s, "lost events", LOST_TRACK, gap->begin_ns);
	gt_jsonw_lit(&s->w, "\"count\":");
	gt_jsonw_u64(&s->w, gap->count);
	gt_jsonw_lit(&s->w, ",");
	end_gap(s, gap);
	put_counter(s, LOST_NAME, LOST_TRACK, gap->begin_ns, "lost", gap->count);
	put_counter(s, LOST_NAME, LOST_TRACK, gap->end_ns, "lost", 0);
}

static void put_late(struct gt_sink *s, const struct gt_gap *gap)
{
	if (!s->lates++)
		put_track(s, LATE_TRACK, LATE_NAME);
	begin_mark(s, "not recorded", LATE_TRACK, gap->begin_ns);
	if (gap->why) {
		gt_jsonw_lit(&s->w, "\"why\":\"");
		gt_jsonw_chars(&s->w, gap->why, strlen(gap->why));
		gt_jsonw_lit(&s->w, "\",");
	}
	end_gap(s, gap);
	put_counter(s, LATE_NAME, LATE_TRACK, gap->begin_ns, "missing", 1);
	put_counter(s, LATE_NAME, LATE_TRACK, gap->end_ns, "missing", 0);
}

/*
 * An instant, which has a row among the threads but no length, and a counter, which is drawn as a
 * block as long as the gap. A slice would have both, but in a GIL trace slices are what threads do.
 */
static int chrome_gap(struct gt_sink *s, const struct gt_gap *gap)
{
	if (gap->late)
		put_late(s, gap);
	else
		put_lost(s, gap);
	return s->w.err;
}

static int chrome_doubt(struct gt_sink *s, uint64_t start_ns, const char *text)
{
	put_track(s, DOUBT_TRACK, DOUBT_NAME);
	begin_mark(s, DOUBT_NAME, DOUBT_TRACK, start_ns);
	gt_jsonw_lit(&s->w, "\"text\":\"");
	gt_jsonw_chars(&s->w, text, strlen(text));
	gt_jsonw_lit(&s->w, "\"},\"ph\":\"I\"}");
	/* Drawn from here to the end; Perfetto up to v20.1 drops the instant. */
	put_counter(s, DOUBT_NAME, DOUBT_TRACK, start_ns, "missing", 1);
	return s->w.err;
}

static int chrome_thread(struct gt_sink *s, const struct gt_sink_thread *t)
{
	char tid[GT_U64_LEN + 1];

	*gt_fmt_u64(tid, t->tid) = '\0';
	put_text_meta(s, "thread_name", tid, "name", t->name);
	put_number_meta(s, "thread_sort_index", tid,
			t->tid == s->main_tid ? FIRST_THREAD : s->order++);
	return s->w.err;
}

static int chrome_finish(struct gt_sink *s)
{
	int err;

	if (s->any)
		gt_jsonw_lit(&s->w, "\n]\n");
	err = gt_jsonw_flush(&s->w);
	gt_jsonw_fini(&s->w);
	free(s);
	return err;
}

const struct gt_sink_ops gt_sink_chrome = {
	.create = chrome_create,
	.process = chrome_process,
	.span = chrome_span,
	.gap = chrome_gap,
	.thread = chrome_thread,
	.doubt = chrome_doubt,
	.finish = chrome_finish,
};
