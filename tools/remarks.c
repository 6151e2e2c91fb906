// SPDX-License-Identifier: Apache-2.0
#include "remarks.h"

#include <inttypes.h>
#include <stdio.h>

#include "log.h"
#include "meta.h"

/* Counts of the odd sequences from `from` on, in words; nothing: an empty text. */
static void odd_text(const struct gt_timeline_stats *st, enum gt_odd from, char *buf, size_t size)
{
	size_t n = 0;

	buf[0] = '\0';
	for (int i = (int)from; i < GT_ODD_KINDS; i++)
		if (st->odd[i] && n < size)
			n += (size_t)snprintf(buf + n, size - n, "%s%" PRIu64 " %s", n ? ", " : "",
					      st->odd[i], gt_odd_text((enum gt_odd)i));
}

/*
 * Why the recording is not to be trusted; NULL: it adds up. The recorder has checked it, with more
 * knowledge; where it was killed before it could say so, what the timeline has met counts. (Format
 * 1.0 has no such check: those convert as ever, with a warning.)
 */
static const char *find_doubt(const gil_reader *r, const struct gt_timeline_stats *st, char *buf,
			      size_t size)
{
	struct gt_timeline_stats odd = *st;
	const char *text = gil_reader_meta(r, "check.text");

	if (gt_meta_is(r, "check.result", "sites missing"))
		return text ? text : "the recorder has not said why";
	if (gt_meta_is(r, "check.result", "consistent") || !gil_reader_minor(r))
		return NULL;
	/* Free-threaded: take_gil returns at once, and wakes who waits, where the GIL is off. */
	if (gt_meta_is(r, "gil.free_threaded", "1"))
		odd.odd[GT_ODD_WAIT_ENDLESS] = 0;
	odd.odd[GT_ODD_ORDER] = odd.odd[GT_ODD_KIND] = 0;
	odd_text(&odd, 0, buf, size);
	return buf[0] ? buf : NULL;
}

static void report_nothing(const char *path, const gil_reader *r)
{
	if (gt_meta_is(r, "gil.free_threaded", "1") && gt_meta_is(r, "gil.enabled", "0"))
		gt_warn("%s: this free-threaded Python ran without its GIL: no thread holds it or "
			"waits for it, so there is nothing to show",
			path);
	else
		gt_warn("%s: there is no GIL event in it", path);
}

/* A recording that begins paused has clock samples a moment before that, and behind its end. */
static int was_never_resumed(const struct gt_timeline_stats *st, uint64_t ns)
{
	return st->pauses && (st->paused_ns >= ns || ns - st->paused_ns < ns / 100);
}

static void report_switch(const char *path, const gil_reader *r)
{
	int on = gt_meta_is(r, "gil.enabled", "1"), off = gt_meta_is(r, "gil.enabled", "0");

	if ((off && gt_meta_is(r, "gil.enabled_at_end", "1")) ||
	    (on && gt_meta_is(r, "gil.enabled_at_end", "0")))
		gt_info("%s: this free-threaded Python has switched its GIL %s while recording",
			path, off ? "on" : "off");
}

static void report_details(const char *path, const gil_reader *r,
			   const struct gt_timeline_stats *st)
{
	static const char *const keys[] = {"probe.mode", "symbols.verdict", "symbols.disagreement",
					   "check.result"};
	char key[32];

	if (gt_log_max() < GT_LOG_DEBUG)
		return;
	for (size_t i = 0; i < GT_ARRAY_SIZE(keys); i++)
		if (gil_reader_meta(r, keys[i]))
			gt_debug("%s: %s: %.256s", path, keys[i], gil_reader_meta(r, keys[i]));
	for (unsigned int i = 0; i < GIL_INDEX_OTHER; i++) {
		snprintf(key, sizeof(key), "check.gil.%u", i);
		if (gil_reader_meta(r, key))
			gt_debug("%s: %s: %.256s", path, key, gil_reader_meta(r, key));
	}
	gt_debug("%s: releases: %" PRIu64 " forced, %" PRIu64 " voluntary, %" PRIu64 " not told",
		 path, st->releases[GT_FORCED_YES], st->releases[GT_FORCED_NO],
		 st->releases[GT_FORCED_UNKNOWN]);
	gt_debug("%s: %" PRIu64 " events; signals of other condition variables left out: %" PRIu64,
		 path, st->events, st->unconfirmed);
}

static void report_end(const struct gt_remarks *m)
{
	if (m->grown)
		gt_error("%s: has grown while it was read, so giltrace is still recording it; what "
			 "it has written meanwhile is left out",
			 m->path);
	else if (!gil_reader_end_reason(m->r) && !gil_reader_problem(m->r))
		gt_warn("%s: the recorder was killed; what it had not written by then is missing, "
			"about a second at most (if it is still recording, wait for its end)",
			m->path);
}

static void report_odd(const char *path, const struct gt_timeline_stats *st, enum gt_odd from)
{
	char text[512];

	odd_text(st, from, text, sizeof(text));
	if (text[0])
		gt_warn("%s: sequences of events that should not be: %s; what is not known is "
			"drawn without length (\"open\":\"unknown\")",
			path, text);
}

static void report_lost(const char *path, uint64_t lost, const struct gt_timeline_stats *st)
{
	if (lost)
		gt_warn("%s: %" PRIu64 " events were lost while recording, in %" PRIu64
			" gap(s); enlarge the recorder's ring buffer",
			path, lost, st->gaps);
	if (lost > st->lost)
		gt_warn("%s: for %" PRIu64 " of the lost events no gap is recorded: "
			"a slice may be too long where they are missing",
			path, lost - st->lost);
}

/* What the process did before its recording began. */
static void report_late(const char *path, const gil_reader *r, const struct gt_timeline_stats *st)
{
	const char *why = gil_reader_meta(r, "recording.late");

	if (st->late_ns)
		gt_info("%s: its recording began %" PRIu64 ".%03" PRIu64
			" ms late%s%.32s%s: what it did in that time is not known",
			path, st->late_ns / 1000000, st->late_ns / 1000 % 1000, why ? " (" : "",
			why ? why : "", why ? ")" : "");
}

/* No loss: somebody has asked for that. */
static void report_paused(const char *path, const struct gt_timeline_stats *st)
{
	if (st->pauses)
		gt_info("%s: paused for %" PRIu64 ".%03" PRIu64 " s, in %" PRIu64
			" pause(s): what happened meanwhile is not known",
			path, st->paused_ns / 1000000000, st->paused_ns / 1000000 % 1000,
			st->pauses);
}

static void report_clock(const char *path, const gil_reader *r, const struct gt_timeline_stats *st)
{
	int64_t step_ns = gil_reader_clock_step_ns(r);

	if (!gil_reader_clocks(r) && st->events)
		gt_warn("%s: there is no clock sample in it: times count from the start of the "
			"host",
			path);
	if (step_ns)
		gt_warn("%s: the wall clock was set by %+" PRId64
			" ms while recording; the trace stays on the time of its start",
			path, step_ns / 1000000);
}

static void report_ids(const struct gt_remarks *m)
{
	if (m->ids_unknown)
		gt_warn("%s: of %" PRIu32 " thread(s) the id %s is not known; their rows are named "
			"by the id that was recorded",
			m->path, m->ids_unknown, m->ids);
}

static void report_doubt(const char *path, const gil_reader *r, const char *doubt)
{
	const char *mode = gil_reader_meta(r, "probe.mode");
	const char *better = !mode || !strcmp(mode, "sites") ? "; try giltrace --probe=libc"
			     : !strcmp(mode, "functions")    ? "; try giltrace --probe=auto"
							     : "";

	if (doubt && gt_is_imported(r))
		gt_warn("%s: DO NOT TRUST THIS TRACE: takes or releases are missing in this old "
			"recording: %.1024s; record again with giltrace",
			path, doubt);
	else if (doubt)
		gt_warn("%s: GIL SITES ARE MISSING: do not trust this trace; the GIL changed hands "
			"where giltrace had no probe: %.1024s%s",
			path, doubt, better);
}

uint64_t gt_remarks_lost(const struct gt_remarks *m)
{
	uint64_t total = gil_reader_lost_total(m->r);

	return total > m->st->lost ? total : m->st->lost;
}

const char *gt_remarks_print(const struct gt_remarks *m, char *buf, size_t size)
{
	const gil_reader *r = m->r;
	const struct gt_timeline_stats *st = m->st;
	const char *path = m->path, *why = gil_reader_meta(r, "end.error");
	const char *doubt = find_doubt(r, st, buf, size);
	uint64_t lost = gt_remarks_lost(m);
	uint64_t ns = gil_reader_last_mono_ns(r) - gil_reader_first_mono_ns(r);
	char lost_text[32], marks[32] = "";

	if (m->quiet)
		return doubt;
	/* Of an old recording the import has told what its tool did. */
	if (!gt_is_imported(r))
		report_end(m);
	if (!st->events && !gt_is_imported(r) && !was_never_resumed(st, ns))
		report_nothing(path, r);
	report_switch(path, r);
	if (gil_reader_end_reason(r) == GIL_END_ERROR)
		gt_warn("%s: the recorder gave up%s%.256s", path, why ? ": " : "", why ? why : "");
	if (!gt_is_imported(r))
		report_clock(path, r, st);
	report_ids(m);
	/* The doubt tells of the others. */
	report_odd(path, st, doubt == buf ? GT_ODD_ORDER : 0);
	report_lost(path, lost, st);
	report_late(path, r, st);
	report_paused(path, st);
	report_details(path, r, st);
	snprintf(lost_text, sizeof(lost_text), "%" PRIu64 " lost", lost);
	if (st->marks)
		snprintf(marks, sizeof(marks), "%" PRIu64 " mark(s), ", st->marks);
	gt_info("%s: %" PRIu64 " slices, %" PRIu32 " thread(s), %" PRIu32 " GIL(s), %s, %s%" PRIu64
		".%03" PRIu64 " s",
		path, st->spans[GT_SPAN_TAKE] + st->spans[GT_SPAN_HOLD] + st->spans[GT_SPAN_DROP],
		st->threads, st->gils, gt_is_imported(r) ? "losses not counted" : lost_text, marks,
		ns / 1000000000, ns / 1000000 % 1000);
	/* Last, so that it is not overlooked. */
	report_doubt(path, r, doubt);
	return doubt;
}
