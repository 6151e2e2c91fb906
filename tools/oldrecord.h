/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oldrecord.h - the records in the JSON recordings of oldjson.h:
 *	{"name": "take_gil", "ph": "B", "ts": 1234, "pid": "0", "tid": "GIL_4711"}
 * in any order, "X" with "dur"; other keys are skipped. Nothing is judged but whether a value can
 * be read. Two ways lead to the same: by a scanner whatever the text is, and a quick one for text
 * that is as nearly all is. No state; used by one thread.
 */
#ifndef GT_OLDRECORD_H
#define GT_OLDRECORD_H

#include "base.h"
#include "jsonscan.h"

#define GT_OLDRECORD_ID_MAX 20

struct gt_oldrecord {
	int64_t ts_ns, dur_ns;        /* -1: there is none */
	uint32_t tid;                 /* 0: there is none */
	char name;                    /* 't'ake_gil, 'd'rop_gil; 0: another */
	char phase;                   /* 0: there is none of one letter */
	char id[GT_OLDRECORD_ID_MAX]; /* "pid", the rank or process; "": none, or a long text */
};

/* From behind the opening brace. 0 or -errno; then *r is what was read before. */
int gt_oldrecord_read(struct gt_jsonscan *s, struct gt_oldrecord *r);

enum gt_oldrecord_end {
	GT_OLDRECORD_NOT_PLAIN, /* there is something else behind *taken records, or an error */
	GT_OLDRECORD_CLOSED,    /* all there is has been taken: the array has its end .. */
	GT_OLDRECORD_OPEN,      /* .. or not .. */
	GT_OLDRECORD_CUT,       /* .. as it ends within a record */
};

/*
 * Reads an array of records from the beginning of a descriptor, which is put back there, as long
 * as they are plain text without escapes, nested values or exponents. Returns an enum
 * gt_oldrecord_end, what `keep` has returned, if that is not 0, or -ENOMEM.
 */
int gt_oldrecord_read_plain(int fd, int (*keep)(void *ctx, const struct gt_oldrecord *r), void *ctx,
			    uint64_t *taken);

/* Is it one of those recordings', by name and phase? */
int gt_oldrecord_is_ours(const struct gt_oldrecord *r);

#endif
