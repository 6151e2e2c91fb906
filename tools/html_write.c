// SPDX-License-Identifier: Apache-2.0
/*
 * The data inside the page: four blobs (blob.h), each in a <script> of a type that no browser runs.
 *
 *  gt-meta     JSON, written here. Times are ns since .base, a Unix time, which is text.
 *  gt-summary  JSON of gt_summary_json(), not always with all pairs (html_summary.c); or nothing
 *  gt-slices   for each row of gt-meta, in that order, varints unless it is said otherwise:
 *    number of slices and of cells, log2 of the cells' width in ns (0: there are none)
 *    slices, a column after the other:
 *      flags, a byte each: kind (enum gt_span_kind) | forced << 2 | acquired << 4 |
 *        drop << 5 (a drop without length at its end) | an open end << 6 | GIL other than 0 << 7
 *      start: from the end of the slice before (the first: from .base)
 *      length
 *      open, a byte for each that has one; GIL, likewise
 *      of each take: blocker: 0 none, else 1 + number of its row in the process;
 *        one past the last row: it has none
 *      of each take: length - held - nobody (not known who had it)
 *      of each take: nobody
 *      of each take with a blocker: held - blocker
 *    cells, a column after the other:
 *      index: from that of the cell before (the first: from the one that .base lies in)
 *      wait, hold, drop in ns, three columns; their numbers, three columns; forced releases
 *      longest wait, longest hold
 *  gt-marks    for each process of gt-meta, in that order, varints:
 *    number of its marks that are kept; they are in the order of time, a column after the other:
 *      time: from the mark before (the first: from .base)
 *      id of the thread that has set it; 0: none, it is the process's
 *      bytes of its name
 *    the names, any bytes but 0, one after the other
 */
#include <sys/mman.h>

#include "blob.h"
#include "html_private.h"
#include "log.h"

/* ---- gt-meta ---- */

static void text(struct gt_jsonw *w, const char *key, const char *value)
{
	gt_jsonw_lit(w, ",\"");
	gt_jsonw_raw(w, key, strlen(key));
	if (!value) {
		gt_jsonw_lit(w, "\":null");
		return;
	}
	gt_jsonw_lit(w, "\":\"");
	gt_jsonw_chars(w, value, strlen(value));
	gt_jsonw_lit(w, "\"");
}

static void number(struct gt_jsonw *w, const char *key, uint64_t value)
{
	gt_jsonw_lit(w, ",\"");
	gt_jsonw_raw(w, key, strlen(key));
	gt_jsonw_lit(w, "\":");
	gt_jsonw_u64(w, value);
}

/* A time since the base; what is not known may lie before it. */
static void since(const struct gt_html *h, const char *key, uint64_t ns)
{
	number(h->w, key, ns > h->base_ns ? ns - h->base_ns : 0);
}

static void put_row(const struct gt_html *h, size_t row)
{
	const struct gt_html_row *r = &h->rows[row];

	gt_jsonw_lit(h->w, "{\"tid\":");
	gt_jsonw_u64(h->w, r->tid);
	text(h->w, "label", r->label);
	text(h->w, "name", r->name);
	since(h, "first", r->first_ns);
	number(h->w, "observed", r->observed_ns);
	number(h->w, "unknown", r->unknown_ns);
	number(h->w, "blocks", r->blocks_ns);
	gt_jsonw_lit(h->w, "}");
}

static void put_end(const struct gt_html *h, const struct gt_html_process *p)
{
	number(h->w, "complete", p->complete);
	number(h->w, "events", p->end.events);
	number(h->w, "lost", p->end.lost);
	number(h->w, "lost_known", !p->end.lost_unknown);
	number(h->w, "gaps", p->end.gaps);
	number(h->w, "lost_ns", p->end.lost_ns);
	number(h->w, "late_ns", p->end.late_ns);
	number(h->w, "paused_ns", p->end.paused_ns);
	number(h->w, "marks", p->marks);
	number(h->w, "odd", p->end.odd);
	number(h->w, "threads", p->end.threads);
	number(h->w, "gils", p->end.gils);
	number(h->w, "killed", p->end.killed);
	text(h->w, "doubt", p->end.doubt);
	text(h->w, "problem", p->end.problem);
	text(h->w, "late_why", p->late_why);
}

static void put_rest(const struct gt_html *h, const struct gt_html_process *p)
{
	static const char *const names[] = {"take", "hold", "drop"};

	gt_jsonw_lit(h->w, ",\"rest\":{\"rows\":");
	gt_jsonw_u64(h->w, p->rest_threads);
	for (size_t i = 0; i < GT_SPAN_KINDS; i++) {
		char key[16] = "";

		memcpy(key, names[i], 4);
		number(h->w, key, p->rest_n[i]);
		memcpy(key + 4, "_ns", 4);
		number(h->w, key, p->rest_ns[i]);
	}
	gt_jsonw_lit(h->w, "}");
}

static void put_process(const struct gt_html *h, const struct gt_html_process *p)
{
	gt_jsonw_lit(h->w, "{\"pid\":");
	gt_jsonw_u64(h->w, p->p.pid);
	if (p->p.rank >= 0)
		number(h->w, "rank", (uint64_t)p->p.rank);
	number(h->w, "main", p->p.main_tid);
	number(h->w, "order", p->p.order);
	text(h->w, "name", p->p.name);
	text(h->w, "tags", p->p.tags);
	text(h->w, "path", p->p.path);
	since(h, "start", p->p.start_ns);
	since(h, "end", p->p.end_ns);
	put_end(h, p);
	put_rest(h, p);
	gt_jsonw_lit(h->w, ",\"rows\":[");
	for (size_t i = 0; i < p->n_rows; i++) {
		if (i)
			gt_jsonw_lit(h->w, ",\n");
		put_row(h, p->first_row + i);
	}
	gt_jsonw_lit(h->w, "]}");
}

static void put_gap(const struct gt_html *h, const struct gt_html_gap *g)
{
	gt_jsonw_lit(h->w, "{\"process\":");
	gt_jsonw_u64(h->w, g->process);
	since(h, "start", g->begin_ns);
	since(h, "end", g->end_ns);
	number(h->w, "count", g->count);
	number(h->w, "missing", g->missing_ns);
	number(h->w, "merged", g->merged);
	number(h->w, "late", g->late);
	number(h->w, "paused", g->paused);
	gt_jsonw_lit(h->w, "}");
}

static int put_meta(const struct gt_html *h)
{
	uint64_t slices = 0;

	for (size_t i = 0; i < h->levels.n_rows; i++)
		slices += h->levels.rows[i].n_slices;
	gt_jsonw_lit(h->w, "{\"version\":\"" GT_VERSION "\",\"base\":\"");
	gt_jsonw_u64(h->w, h->base_ns);
	gt_jsonw_lit(h->w, "\"");
	since(h, "end", h->end_ns);
	number(h->w, "slices", slices); /* of gt-slices, and the cells, in all */
	number(h->w, "cells", h->levels.items - slices);
	number(h->w, "gap_width", h->gap_width);
	gt_jsonw_lit(h->w, ",\"processes\":[");
	for (size_t i = 0; i < h->n_procs; i++) {
		if (i)
			gt_jsonw_lit(h->w, ",\n");
		put_process(h, &h->procs[i]);
	}
	gt_jsonw_lit(h->w, "],\"losses\":[");
	for (size_t i = 0; i < h->n_gaps; i++) {
		if (i)
			gt_jsonw_lit(h->w, ",\n");
		put_gap(h, &h->gaps[i]);
	}
	gt_jsonw_lit(h->w, "]}");
	return 0;
}

/* ---- gt-slices ---- */

struct slices {
	struct gt_blob *b;
	const struct gt_level_row *r;
	uint64_t base_ns;
	struct gt_tidmap *map; /* the process's rows by thread */
};

static void put_flags(const struct slices *o)
{
	for (uint32_t i = 0; i < o->r->n_slices; i++) {
		const struct gt_slice *s = &o->r->slices[i];

		gt_blob_u8(o->b, (uint8_t)(s->kind | s->forced << 2 | s->acquired << 4 |
					   s->drop << 5 | !!s->open << 6 | !!s->gil << 7));
	}
}

static void put_times(const struct slices *o)
{
	uint64_t end_ns = o->base_ns;

	for (uint32_t i = 0; i < o->r->n_slices; i++) {
		const struct gt_slice *s = &o->r->slices[i];

		gt_blob_varint(o->b, s->start_ns - end_ns);
		end_ns = s->start_ns + s->len_ns;
	}
	for (uint32_t i = 0; i < o->r->n_slices; i++)
		gt_blob_varint(o->b, o->r->slices[i].len_ns);
}

static void put_odds(const struct slices *o)
{
	for (uint32_t i = 0; i < o->r->n_slices; i++)
		if (o->r->slices[i].open)
			gt_blob_u8(o->b, o->r->slices[i].open);
	for (uint32_t i = 0; i < o->r->n_slices; i++)
		if (o->r->slices[i].gil)
			gt_blob_u8(o->b, o->r->slices[i].gil);
}

static uint32_t blocker(const struct slices *o, const struct gt_slice *s)
{
	uint32_t number;

	if (!s->blocker)
		return 0;
	number = gt_tidmap_find(o->map, s->blocker);
	return 1 + (number == GT_TIDMAP_NONE ? o->map->n : number);
}

static void put_blame(const struct slices *o)
{
	const struct gt_slice *s = o->r->slices, *end;

	if (!s) /* nothing may be added to it, not even 0 */
		return;
	end = s + o->r->n_slices;
	for (const struct gt_slice *p = s; p < end; p++)
		if (p->kind == GT_SPAN_TAKE)
			gt_blob_varint(o->b, blocker(o, p));
	for (const struct gt_slice *p = s; p < end; p++)
		if (p->kind == GT_SPAN_TAKE)
			gt_blob_varint(o->b, p->len_ns - p->held_ns - p->nobody_ns);
	for (const struct gt_slice *p = s; p < end; p++)
		if (p->kind == GT_SPAN_TAKE)
			gt_blob_varint(o->b, p->nobody_ns);
	for (const struct gt_slice *p = s; p < end; p++)
		if (p->kind == GT_SPAN_TAKE && p->blocker)
			gt_blob_varint(o->b, p->held_ns - p->blocker_ns);
}

static void put_cells(const struct slices *o)
{
	const struct gt_cell *c = o->r->cells;
	uint32_t n = o->r->n_cells;
	uint64_t last = o->base_ns >> o->r->width;

	for (uint32_t i = 0; i < n; i++) {
		gt_blob_varint(o->b, c[i].index - last);
		last = c[i].index;
	}
	for (size_t k = 0; k < GT_SPAN_KINDS; k++)
		for (uint32_t i = 0; i < n; i++)
			gt_blob_varint(o->b, c[i].ns[k]);
	for (size_t k = 0; k < GT_SPAN_KINDS; k++)
		for (uint32_t i = 0; i < n; i++)
			gt_blob_varint(o->b, c[i].n[k]);
	for (uint32_t i = 0; i < n; i++)
		gt_blob_varint(o->b, c[i].forced);
	for (size_t k = 0; k < GT_SPAN_DROP; k++)
		for (uint32_t i = 0; i < n; i++)
			gt_blob_varint(o->b, c[i].longest_ns[k]);
}

static int put_rows(struct gt_html *h, const struct gt_html_process *p, struct gt_blob *b)
{
	struct slices o = {.b = b, .base_ns = h->base_ns, .map = &h->map};

	gt_tidmap_clear(&h->map);
	for (size_t i = 0; i < p->n_rows; i++) {
		uint32_t ignored;
		int err = gt_tidmap_add(&h->map, h->rows[p->first_row + i].tid, &ignored);

		if (err)
			return err;
	}
	for (size_t i = 0; i < p->n_rows; i++) {
		o.r = &h->levels.rows[p->first_row + i];
		gt_blob_varint(b, o.r->n_slices);
		gt_blob_varint(b, o.r->n_cells);
		gt_blob_varint(b, o.r->width);
		put_flags(&o);
		put_times(&o);
		put_odds(&o);
		put_blame(&o);
		put_cells(&o);
	}
	return 0;
}

/* ---- gt-marks ---- */

/* Those of a process: from `first` up to before `end`. */
static void put_marks(struct gt_blob *b, const struct gt_html *h, size_t first, size_t end)
{
	uint64_t last_ns = h->base_ns;

	gt_blob_varint(b, end - first);
	for (size_t i = first; i < end; i++) {
		gt_blob_varint(b, h->marks[i].at_ns - last_ns);
		last_ns = h->marks[i].at_ns;
	}
	for (size_t i = first; i < end; i++)
		gt_blob_varint(b, h->marks[i].tid);
	for (size_t i = first; i < end; i++)
		gt_blob_varint(b, strlen(h->marks[i].name));
	for (size_t i = first; i < end; i++)
		gt_blob_bytes(b, h->marks[i].name, strlen(h->marks[i].name));
}

/* ---- the blobs ---- */

#define BEGIN_BLOB(w, id)                                                                          \
	gt_jsonw_lit(w, "<script type=\"application/octet-stream\" id=\"" id "\">\n")
#define END_BLOB(w) gt_jsonw_lit(w, "\n</script>\n")

/* What a file holds, from its beginning. */
static int put_file(struct gt_html *h, int fd)
{
	gt_autofree struct gt_blob *b = malloc(sizeof(*b));
	uint8_t buf[65536];
	ssize_t n;
	off_t off = 0;
	int err = b ? gt_blob_begin(b, h->w) : -ENOMEM;

	if (err)
		return err;
	while ((n = pread(fd, buf, sizeof(buf), off)) > 0) {
		gt_blob_bytes(b, buf, (size_t)n);
		off += n;
	}
	if (n < 0)
		err = -errno;
	n = gt_blob_end(b);
	return err ? err : (int)n;
}

/* JSON comes from a writer of its own: by way of a file in memory. */
static int put_json(struct gt_html *h, int (*put)(const struct gt_html *))
{
	gt_autoclose int fd = memfd_create("report", MFD_CLOEXEC);
	struct gt_jsonw *page = h->w, json;
	int err = fd < 0 ? -errno : gt_jsonw_init(&json, fd, 0);

	if (err) {
		gt_error("the report's data cannot be gathered in memory: %s", strerror(-err));
		return err;
	}
	h->w = &json;
	err = put(h);
	h->w = page;
	if (!err)
		err = gt_jsonw_flush(&json);
	gt_jsonw_fini(&json);
	return err ? err : put_file(h, fd);
}

static int put_slices(struct gt_html *h, struct gt_blob *b)
{
	int err = 0;

	for (size_t i = 0; i < h->n_procs && !err; i++)
		err = put_rows(h, &h->procs[i], b);
	return err;
}

static int put_all_marks(struct gt_html *h, struct gt_blob *b)
{
	size_t first = 0;

	gt_html_sort_marks(h);
	for (size_t i = 0; i < h->n_procs; i++) {
		put_marks(b, h, first, first + h->procs[i].n_marks);
		first += h->procs[i].n_marks;
	}
	return 0;
}

static int put_binary(struct gt_html *h, int (*put)(struct gt_html *, struct gt_blob *))
{
	gt_autofree struct gt_blob *b = malloc(sizeof(*b));
	int err = b ? gt_blob_begin(b, h->w) : -ENOMEM, ended;

	if (err)
		return err;
	err = put(h, b);
	ended = gt_blob_end(b);
	return err ? err : ended;
}

int gt_html_write(struct gt_html *h)
{
	int err;

	if (h->base_ns == UINT64_MAX)
		h->base_ns = h->end_ns = 0;
	gt_jsonw_raw(h->w, (const char *)gt_report_head, gt_report_head_len);
	BEGIN_BLOB(h->w, "gt-meta");
	err = put_json(h, put_meta);
	END_BLOB(h->w);
	BEGIN_BLOB(h->w, "gt-summary");
	if (!err)
		err = put_json(h, gt_html_put_summary);
	END_BLOB(h->w);
	BEGIN_BLOB(h->w, "gt-slices");
	if (!err)
		err = put_binary(h, put_slices);
	END_BLOB(h->w);
	BEGIN_BLOB(h->w, "gt-marks");
	if (!err)
		err = put_binary(h, put_all_marks);
	END_BLOB(h->w);
	gt_jsonw_raw(h->w, (const char *)gt_report_tail, gt_report_tail_len);
	return err;
}
