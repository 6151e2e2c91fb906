/* SPDX-License-Identifier: Apache-2.0 */
/*
 * summary_lines.h - the words that the long and the brief text of a summary share: how a process, a
 * thread, a loss is named. Names in them may still be any bytes: cells.h prints them. No state.
 */
#ifndef GT_SUMMARY_LINES_H
#define GT_SUMMARY_LINES_H

#include "cells.h"
#include "summary_private.h"

#define GT_LINE_WIDTH 100 /* columns */
#define GT_LINE_TEXT  400

/*
 * "train.py (rank 0), pid 4242", of which the first part is cut to make it fit; or only that part,
 * where the others stand beside it.
 */
void gt_line_process(FILE *out, const struct gt_summary_process *p, int with_ids,
		     unsigned int width, int utf8);

/* The processes line by line, `max` at most. */
void gt_line_overview(FILE *out, const struct gt_summary *s,
		      const struct gt_summary_process **slowest, size_t max, int utf8);

/* A thread with its id; a blocker, which may be nobody. Return buf. */
const char *gt_line_thread(char buf[GT_LINE_TEXT], const struct gt_summary_process *p,
			   uint32_t tid);
const char *gt_line_blocker(char buf[GT_LINE_TEXT], const struct gt_summary_process *p,
			    uint32_t tid);

/* Prints for whom a wait was, in at most `width` columns; returns how many it took. */
unsigned int gt_line_wait_for(FILE *out, const struct gt_summary_process *p,
			      const struct gt_summary_slice *wait, unsigned int width, int utf8);

/* Said of a process of which nothing was told. Static. */
const char *gt_line_silent(const struct gt_summary_process *p);

/* How many threads waited, on average; "-": not known. */
void gt_line_average(char buf[GT_CELLS_NUMBER], const struct gt_summary_process *p);

/*
 * The share of the time in which the GIL was held; of the busiest, with several;
 * "-": not known. Returns buf.
 */
const char *gt_line_held(char buf[GT_CELLS_NUMBER], const struct gt_summary_process *p);

/* What is missing, in one sentence; "": nothing. */
void gt_line_loss(char buf[GT_LINE_TEXT], const struct gt_summary_process *p);

/* How long it was paused; "": it was not. */
void gt_line_paused(char buf[GT_LINE_TEXT], const struct gt_summary_process *p);

/* The few lines for the end of a recording. 0 or -errno. */
int gt_summary_brief(const struct gt_summary *s, const struct gt_summary_process **slowest,
		     FILE *out, int utf8);

#endif
