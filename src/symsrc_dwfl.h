/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symsrc_dwfl.h - symbols and debug information of a file, wherever they are: .symtab or .dynsym of
 * the file itself; a debug file by build-id or .gnu_debuglink; MiniDebugInfo (.gnu_debugdata).
 * A debug file counts only where its build-id or its checksum is the one that the file names.
 *
 * libdwfl reads a file that belongs to somebody else, and opens debug files: to be called in the
 * process without privileges only (symres.c), which also keeps libdwfl off the network. A struct
 * gt_symsrc is used by one thread.
 */
#ifndef GT_SYMSRC_DWFL_H
#define GT_SYMSRC_DWFL_H

#include "image.h"

enum gt_gil_fn { GT_FN_TAKE, GT_FN_DROP, GT_FN_DROP_IMPL };

struct gt_symbol {
	uint64_t vaddr; /* the file's own */
	uint64_t size;  /* 0: not told */
	enum gt_gil_fn fn;
	int cold; /* a part that was moved away: not entered by calls */
	char name[64];
};

/* Is it the name of take_gil, drop_gil or drop_gil_impl or of a clone that can be entered? */
int gt_symsrc_is_gil_fn(const char *name, enum gt_gil_fn *fn);

/* The functions in the file behind fd, by address, without doubles. Returns how many, or -errno. */
int gt_symsrc_find(int fd, const char *name, struct gt_symbol *out, size_t max);

struct gt_symsrc;

/* fd is not consumed; debug files are looked for beside `name`, too. -ENOMEM, -ENOEXEC. */
int gt_symsrc_open(int fd, const char *name, struct gt_symsrc **out);
void gt_symsrc_close(struct gt_symsrc *src);

/*
 * Where the symbols are from: "the file itself (.symtab)", "... (.dynsym)", "... (.gnu_debugdata)",
 * or the path of a debug file, which may hold any bytes; NULL: there are none. Valid until closed.
 */
const char *gt_symsrc_origin(struct gt_symsrc *src);

/* 1 if there are none but those of .dynsym, which need not name static functions. */
int gt_symsrc_is_dynsym(const struct gt_symsrc *src);

/* As gt_symsrc_find(), with the cold parts. -E2BIG: more than `max`. */
int gt_symsrc_functions(struct gt_symsrc *src, struct gt_symbol *out, size_t max);

/* The address of a function or variable; -ENOENT. */
int gt_symsrc_value(struct gt_symsrc *src, const char *name, uint64_t *vaddr);

/* The function that holds an address, or NULL; may hold any bytes. Valid until closed. */
const char *gt_symsrc_name_at(struct gt_symsrc *src, uint64_t vaddr);

#define GT_COPY_RANGES 16

/* A copy of take_gil, drop_gil or drop_gil_impl in another function; not one within such a copy. */
struct gt_copy {
	uint64_t entry;
	enum gt_gil_fn fn;
	const char
		*holder; /* the function that it was inlined into, not inlined itself; any bytes */
	size_t nranges;
	struct gt_range range[GT_COPY_RANGES];
};

/*
 * Tells all inlined copies, by the DWARF. Returns 0; -ENOENT where there is none of these functions
 * in it, so that it tells nothing; -E2BIG where there is too much of it; -ENOMEM.
 */
typedef void gt_copy_fn(void *ctx, const struct gt_copy *copy);
int gt_symsrc_copies(struct gt_symsrc *src, gt_copy_fn *fn, void *ctx);

#endif
