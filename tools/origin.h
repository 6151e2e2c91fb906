/* SPDX-License-Identifier: Apache-2.0 */
/*
 * origin.h - of which process, rank and host a recording is, to notice two of one: a folder may
 * hold the recordings of an earlier run, too, and those of many hosts. Private to inputs.c. Used by
 * one thread.
 */
#ifndef GT_ORIGIN_H
#define GT_ORIGIN_H

#include "base.h"
#include "giltrace/gilfile.h"

struct gt_origin;

/* NULL: out of memory. */
struct gt_origin *gt_origin_of(const gil_reader *r);
void gt_origin_free(struct gt_origin *o);

/* -1: not known, or a guess. */
int64_t gt_origin_rank(const struct gt_origin *o);

/* "": not known. */
const char *gt_origin_host(const struct gt_origin *o);

/* Two hosts may have one name (localhost, copies of a machine): the boot tells them apart. */
int gt_origin_same_host(const struct gt_origin *a, const struct gt_origin *b);

/* Unix time by the host's own clock, and how wrong that may be by what the host knows of it. */
struct gt_origin_time {
	uint64_t begin_ns, end_ns;
	int64_t error_us; /* -1: not known, or nobody keeps that clock right */
};

struct gt_origin_time gt_origin_time(const struct gt_origin *o);

enum gt_kinship {
	GT_STRANGERS,
	GT_SAME_PROCESS,       /* recorded twice at the same time */
	GT_SAME_PROCESS_LATER, /* one window after the other */
	GT_SAME_RANK,          /* at the same time */
	GT_SAME_RANK_LATER,    /* one after the other: of two runs */
};

/*
 * Workers inherit the rank of the process that started them: they are strangers, as are processes
 * of a rank that was only guessed.
 */
enum gt_kinship gt_origin_compare(const struct gt_origin *a, const struct gt_origin *b);

#endif
