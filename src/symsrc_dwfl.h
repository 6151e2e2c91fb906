/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symsrc_dwfl.h - the functions take_gil and drop_gil with all their clones, from any symbols that
 * there are: .symtab, .dynsym, a debug file by build-id or debuglink, MiniDebugInfo.
 *
 * libdwfl reads a file that belongs to somebody else, and opens debug files: to be called in the
 * process without privileges only (symres.c).
 */
#ifndef GT_SYMSRC_DWFL_H
#define GT_SYMSRC_DWFL_H

#include "image.h"

enum gt_gil_fn { GT_FN_TAKE, GT_FN_DROP, GT_FN_DROP_IMPL };

struct gt_symbol {
	uint64_t vaddr; /* the file's own */
	enum gt_gil_fn fn;
	char name[64];
};

/* Is it the name of take_gil, drop_gil or drop_gil_impl or of a clone that can be entered? */
int gt_symsrc_is_gil_fn(const char *name, enum gt_gil_fn *fn);

/* The functions in the file behind fd, by address, without doubles. Returns how many, or -errno. */
int gt_symsrc_find(int fd, const char *name, struct gt_symbol *out, size_t max);

#endif
