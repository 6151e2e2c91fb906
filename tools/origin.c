// SPDX-License-Identifier: Apache-2.0
#include "origin.h"

#include "meta.h"

struct gt_origin {
	char *host, *boot, *ticks; /* "": not known */
	struct gt_origin_time time;
	int64_t rank;         /* -1: not known, or a guess */
	uint32_t pid, parent; /* 0: not known */
	uint8_t late;         /* it came into a recording that was going on */
};

void gt_origin_free(struct gt_origin *o)
{
	if (!o)
		return;
	free(o->host);
	free(o->boot);
	free(o->ticks);
	free(o);
}

struct gt_origin *gt_origin_of(const gil_reader *r)
{
	struct gt_origin *o = calloc(1, sizeof(*o));
	const char *source = gil_reader_meta(r, "rank.source");

	if (!o)
		return NULL;
	o->host = strdup(gt_meta_text(r, "host.name"));
	o->boot = strdup(gt_meta_text(r, "host.boot_id"));
	o->ticks = strdup(gt_meta_text(r, "process.start_ticks"));
	if (!o->host || !o->boot || !o->ticks) {
		gt_origin_free(o);
		return NULL;
	}
	o->time.begin_ns = gil_reader_unix_ns(r, gil_reader_first_mono_ns(r));
	o->time.end_ns = gil_reader_unix_ns(r, gil_reader_last_mono_ns(r));
	o->time.error_us = gt_meta_number(r, "host.clock_error_us");
	o->rank = source && !strcmp(source, "default") ? -1 : gt_meta_number(r, "rank");
	o->pid = gt_meta_pid(r, "process.pid");
	o->parent = gt_meta_pid(r, "process.parent_pid");
	o->late = gil_reader_meta(r, "recording.late") != NULL;
	return o;
}

const char *gt_origin_host(const struct gt_origin *o)
{
	return o->host;
}

struct gt_origin_time gt_origin_time(const struct gt_origin *o)
{
	return o->time;
}

int gt_origin_same_host(const struct gt_origin *a, const struct gt_origin *b)
{
	return !strcmp(a->host, b->host) && (!*a->boot || !*b->boot || !strcmp(a->boot, b->boot));
}

static int is_family(const struct gt_origin *a, const struct gt_origin *b)
{
	if (a->late || b->late)
		return 1;
	return gt_origin_same_host(a, b) &&
	       ((a->parent && a->parent == b->pid) || (b->parent && b->parent == a->pid) ||
		(a->parent && a->parent == b->parent));
}

int64_t gt_origin_rank(const struct gt_origin *o)
{
	return o->rank;
}

enum gt_kinship gt_origin_compare(const struct gt_origin *a, const struct gt_origin *b)
{
	int later = a->time.end_ns < b->time.begin_ns || b->time.end_ns < a->time.begin_ns;

	if (a->pid && a->pid == b->pid && !strcmp(a->ticks, b->ticks) && gt_origin_same_host(a, b))
		return later ? GT_SAME_PROCESS_LATER : GT_SAME_PROCESS;
	if (a->rank < 0 || a->rank != b->rank || is_family(a, b))
		return GT_STRANGERS;
	return later ? GT_SAME_RANK_LATER : GT_SAME_RANK;
}
