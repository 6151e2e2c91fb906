// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <inttypes.h>
#include <stdio.h>

#include "log.h"

static const char *kind_name(const struct gt_site *s)
{
	static const char *const names[] = {
		[GT_WAIT] = "wait",   [GT_ACQUIRE] = "acquire", [GT_RELEASE] = "release",
		[GT_YIELD] = "yield", [GT_TAKE] = "take",       [GT_DROPPED] = "dropped",
	};

	if (s->flags & GT_SITE_LIBC)
		return s->kind == GT_RELEASE ? "signal" : s->kind == GT_WAIT ? "timedwait" : "wait";
	return s->kind < GT_ARRAY_SIZE(names) && names[s->kind] ? names[s->kind] : "?";
}

/* Text from a target. */
static void print_text(const char *text)
{
	char copy[sizeof(((struct gt_map *)0)->path)];

	snprintf(copy, sizeof(copy), "%s", text);
	gt_defuse(copy);
	fputs(copy, stdout);
}

static void print_sites(const struct gt_sites *sites)
{
	for (uint32_t i = 0; i < sites->n; i++) {
		const struct gt_site *s = &sites->site[i];

		printf("  %-9s file offset 0x%-8" PRIx64 " %-14s ", kind_name(s), s->offset,
		       s->flags & GT_SITE_STEP ? "single-stepped" : "emulated");
		print_text(s->how);
		printf("%s\n", s->flags & GT_SITE_RETURN ? " (return)" : "");
	}
}

static void print_symbols(const struct gt_sites *sites)
{
	if (!sites->symbols_from[0]) {
		printf("  symbols: none, so the sites could not be checked against any\n");
		return;
	}
	printf("  symbols from ");
	print_text(sites->symbols_from);
	if (sites->verdict == GT_VERDICT_DISAGREES) {
		printf(": they DISAGREE with the scan: ");
		print_text(sites->disagreement);
	} else {
		printf("%s", sites->verdict == GT_VERDICT_AGREES ? ": they agree with the scan"
								 : ": no scan to compare with");
	}
	printf("\n");
	for (uint32_t i = 0; i < sites->n_functions; i++) {
		printf("    0x%-8" PRIx64 " %2" PRIu32 " site(s)  ", sites->function[i].vaddr,
		       sites->function[i].sites);
		print_text(sites->function[i].name);
		printf("\n");
	}
	for (uint32_t i = 0; i < sites->n_inlined; i++) {
		printf("    0x%-8" PRIx64 " %2" PRIu32 " site(s)  inlined into ",
		       sites->inlined[i].vaddr, sites->inlined[i].sites);
		print_text(sites->inlined[i].name[0] ? sites->inlined[i].name : "a function");
		printf("\n");
	}
}

static void print_python(const struct gt_python *py)
{
	const struct gt_sites *sites = py->sites;

	printf("  CPython %u.%u, GIL code in ", sites->py_major, sites->py_minor);
	print_text(py->map.path);
	printf("\n  build-id ");
	for (size_t i = 0; i < sites->build_id_len; i++)
		printf("%02x", sites->build_id[i]);
	printf("%s%s\n", sites->build_id_len ? "" : "none", sites->stripped ? ", stripped" : "");
	if (sites->why[0]) {
		printf("  ");
		print_text(sites->why);
		printf("\n");
	}
	print_symbols(sites);
	print_sites(sites);
}

void gt_report_target(const struct gt_recording *r)
{
	printf("process %d (", r->proc.pid);
	print_text(r->proc.comm);
	printf("): rank %" PRIu32 " (%s), probed by %s\n", r->rank.rank, r->rank.source,
	       gt_probe_mode_name(gt_pytarget_mode(&r->py)));
	for (uint32_t i = 0; i < r->py.n; i++)
		print_python(&r->py.python[i]);
	if (!r->py.libc)
		return;
	printf("  condition functions in ");
	print_text(r->py.libc_map.path);
	printf("; every condition variable of the process traps\n");
	print_sites(r->py.libc);
}

static void print_file(const struct gt_recording *r, const char *dir, FILE *out)
{
	const struct gt_collect_stats *st = &r->stats;
	char late[64] = "";

	if (r->late_ns)
		snprintf(late, sizeof(late), "first %" PRIu64 ".%" PRIu64 " ms not recorded, ",
			 r->late_ns / 1000000, r->late_ns / 100000 % 10);
	fprintf(out,
		"%s/%s: %" PRIu64 " event%s, %" PRIu64 " lost, %s%" PRIu32 " thread%s, %" PRIu64
		" KiB\n",
		dir, r->file, st->events, st->events == 1 ? "" : "s", st->lost + st->unwritten,
		late, st->threads, st->threads == 1 ? "" : "s", (st->bytes + 1023) / 1024);
}

/* The last file, and what became of the whole. */
static void print_window(const struct gt_recording *r, const char *dir, FILE *out)
{
	const struct gt_window *w = r->window;
	const struct gt_flight_written *last = &w->latest;
	struct gt_flight_stats kept;

	gt_flight_stats(w->flight, &kept);
	if (w->ended)
		fprintf(out,
			"%s/%s: the last %" PRIu64 ".%" PRIu64 " s: %" PRIu64 " event%s, %" PRIu64
			" lost, %" PRIu64 " KiB\n",
			dir, r->file, last->span_ns / 1000000000, last->span_ns / 100000000 % 10,
			last->events, last->events == 1 ? "" : "s", last->lost,
			(last->bytes + 1023) / 1024);
	fprintf(out,
		"process %d: %" PRIu64 " event%s in all, %" PRIu64 " lost, %" PRIu32
		" file%s, %" PRIu32 " of them by limits\n",
		r->proc.pid, r->stats.events, r->stats.events == 1 ? "" : "s",
		r->stats.lost + r->stats.unwritten, w->files, w->files == 1 ? "" : "s",
		w->by_limits);
	if (w->suppressed)
		fprintf(out,
			"process %d: limits were exceeded %" PRIu64
			" times more, for which there is no file of its own\n",
			r->proc.pid, w->suppressed);
	if (kept.squeezed)
		fprintf(out,
			"process %d: %" PRIu64
			" blocks left the memory before their time (--window-memory)\n",
			r->proc.pid, kept.squeezed);
}

void gt_report_result(const struct gt_recording *r, const char *dir, FILE *out)
{
	const struct gt_collect_stats *st = &r->stats;

	if (!r->end)
		return;
	if (r->window)
		print_window(r, dir, out);
	else
		print_file(r, dir, out);
	fflush(out);
	if (r->end == GIL_END_TARGET_EXIT)
		gt_log(r->late ? GT_LOG_DEBUG : GT_LOG_INFO, "process %d has ended", r->proc.pid);
	if (st->lost)
		gt_warn("process %d: the ring was full, %" PRIu64
			" events are lost; a larger --ring-size helps",
			r->proc.pid, st->lost);
	/* Children that soon end are many, and nobody has named them. */
	if (!(r->late && r->end == GIL_END_TARGET_EXIT) && !st->events && !st->lost &&
	    !st->unwritten && r->end != GIL_END_ERROR && !r->without_gil && !r->silence_told &&
	    !r->was_paused)
		gt_warn("process %d: the GIL did not change hands while it was recorded: its "
			"threads slept, or a single busy one kept it",
			r->proc.pid);
	if (st->unchecked)
		gt_warn("process %d: %" PRIu64 " events of more threads or GILs than can be "
			"followed were recorded, but not checked",
			r->proc.pid, st->unchecked);
	if (r->py.libc && r->gils == GT_MAX_GILS)
		gt_warn("process %d: it has %d GILs or more; those beyond are missing, as "
			"--probe=libc "
			"cannot tell them from other condition variables",
			r->proc.pid, GT_MAX_GILS);
	if (r->foreign)
		gt_debug("process %d: %" PRIu64 " uses of other condition variables left out",
			 r->proc.pid, r->foreign);
}
