/* SPDX-License-Identifier: Apache-2.0 */
/*
 * html_private.h - what the report page is made of. Filled by sink_html.c and html_marks.c,
 * written by html_write.c, whose beginning describes the data inside the page. report_page.c is
 * made of tools/report/ when the program is built.
 */
#ifndef GT_HTML_PRIVATE_H
#define GT_HTML_PRIVATE_H

#include "levels.h"
#include "sink_html.h"
#include "tidmap.h"

#define GT_HTML_ITEMS_MAX (512u << 10) /* slices and cells in all */
#define GT_HTML_ROWS_MAX  (GT_HTML_ITEMS_MAX / GT_LEVELS_ITEMS_PER_ROW / 2)
#define GT_HTML_GAPS_MAX  (16u << 10)
#define GT_HTML_MARKS_MAX 50000u
#define GT_HTML_PAIRS_MAX 200000u /* of the summary */
#define GT_HTML_NAME_MAX  256     /* bytes of a label, a name, a reason */
#define GT_HTML_TEXT_MAX  4096    /* of a path, a remark */
#define GT_HTML_MARK_ROOM 128     /* of the name of a mark, with its NUL: more are cut off */

/* A thread; its slices are the row of the same number in .levels. */
struct gt_html_row {
	char *label, *name; /* NULL: thread() did not come */
	uint64_t first_ns, observed_ns, unknown_ns;
	uint64_t blocks_ns; /* how long others waited while it had the GIL */
	uint32_t tid;
};

/* One gap, or several of a kind close to each other. */
struct gt_html_gap {
	uint64_t begin_ns, end_ns;
	uint64_t count, missing_ns; /* events lost; length of the gaps alone */
	uint32_t process, merged;   /* how many */
	uint8_t late, paused;
};

struct gt_html_mark {
	uint64_t at_ns;
	uint32_t tid;   /* 0: the process's */
	uint32_t order; /* in which they came */
	char name[GT_HTML_MARK_ROOM];
};

struct gt_html_process {
	struct gt_sink_process p; /* its texts are copies */
	struct gt_sink_end end;   /* the same */
	char *late_why;
	size_t first_row, n_rows;
	uint64_t marks; /* that were told .. */
	size_t n_marks; /* .. and how many of them are kept */
	/* Threads beyond GT_HTML_ROWS_MAX, which have no row, and their slices. */
	uint64_t rest_threads, rest_n[GT_SPAN_KINDS], rest_ns[GT_SPAN_KINDS];
	uint8_t complete; /* end() has come */
};

struct gt_html {
	struct gt_sink sink; /* first: see sink.h */
	struct gt_jsonw *w;
	const struct gt_summary *summary;
	int err;
	struct gt_html_process *procs;
	struct gt_html_row *rows;
	struct gt_html_gap *gaps;
	struct gt_html_mark *marks; /* those of a process after those of the one before */
	size_t n_procs, max_procs, max_rows, n_gaps, max_gaps, n_marks, max_marks;
	uint32_t gap_width;       /* log2 of ns: closer ones have been merged */
	uint64_t base_ns, end_ns; /* of all that has a time; base_ns UINT64_MAX: nothing has */
	struct gt_levels levels;
	struct gt_tidmap map; /* the latest process's rows by thread, from its first one on */
};

/*
 * One mark more, of the latest process. Of each the first ones are kept: as many as there are, or
 * at least its share of GT_HTML_MARKS_MAX among all processes. -ENOMEM.
 */
int gt_html_add_mark(struct gt_html *h, const struct gt_mark *mark);

/* Puts those of each process in the order of time. Once, after the last. */
void gt_html_sort_marks(struct gt_html *h);

/* Writes the numbers as JSON through h->w. -ENOMEM. */
int gt_html_put_summary(const struct gt_html *h);

/* Writes the page. -ENOMEM, or an error of the memory file; those of the writer are its own. */
int gt_html_write(struct gt_html *h);

/* The page before and behind its data. */
extern const unsigned char gt_report_head[], gt_report_tail[];
extern const size_t gt_report_head_len, gt_report_tail_len;

#endif
