/* SPDX-License-Identifier: Apache-2.0 */
/* client_args.h - the options of giltrace_start(), as they are meant, and as a command line. */
#ifndef GT_CLIENT_ARGS_H
#define GT_CLIENT_ARGS_H

#include "base.h"
#include "giltrace/giltrace.h"

/*
 * Copies what a program that was built with an older or newer giltrace.h hands in: fields that it
 * does not know are zero, and those that we do not know must be. NULL is all zero. -errno and
 * words.
 */
int gt_opts_read(struct giltrace_opts *to, const struct giltrace_opts *from);

struct gt_args {
	char **argv; /* ends with NULL */
	size_t n, room;
	size_t front; /* words before giltrace's own, as of sudo */
};

/* -errno and words: nothing is to be freed. */
int gt_args_make(struct gt_args *a, const struct giltrace_opts *opts);
void gt_args_free(struct gt_args *a);

/* Giltrace itself, as the command names it. */
static inline const char *gt_args_program(const struct gt_args *a)
{
	return a->argv[a->front];
}

#endif
