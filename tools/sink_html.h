/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sink_html.h - one self-contained page: the timeline of the threads in levels of detail, and the
 * numbers of a summary. Memory and the size of the page have a bound, whatever the number of
 * slices: where there are too many, the short ones become cells of a grid in time, whose width
 * doubles until they fit; each cell tells the times waited and held in it and how many slices it
 * stands for. Of marks the first ones are kept. Says in the page what of it is exact.
 */
#ifndef GT_SINK_HTML_H
#define GT_SINK_HTML_H

#include "jsonw.h"
#include "sink.h"
#include "summary.h"

/*
 * finish() writes the page through *w, with the numbers of *summary, which must be finished by then
 * (its sink stands before this one in the tee). Both are borrowed. -ENOMEM.
 */
int gt_html_create(struct gt_jsonw *w, const struct gt_summary *summary, struct gt_sink **out);

#endif
