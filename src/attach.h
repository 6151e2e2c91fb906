/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach.h - puts one BPF program behind the probe sites of a file, for one process. Two back
 * ends, rows of one table; which of them works is found by trying, never by the kernel's version.
 * Owns its links; used by one thread (detaching uses threads of its own inside).
 */
#ifndef GT_ATTACH_H
#define GT_ATTACH_H

#include "base.h"
#include "symres.h"
#include <sys/types.h>

enum gt_backend { GT_BACKEND_AUTO, GT_BACKEND_MULTI, GT_BACKEND_PERF };

struct gt_attach_ops;

/*
 * The back end to use; GT_BACKEND_AUTO takes the first that works here. NULL: none works, logged
 * with the reason of each (and *err is -EPERM where privileges are missing, else -ENOTSUP).
 */
const struct gt_attach_ops *gt_attach_choose(enum gt_backend wanted, int *err);

const char *gt_attach_name(const struct gt_attach_ops *ops);

/* The expected attach type the program must be loaded with; 0: none. */
uint32_t gt_attach_type(const struct gt_attach_ops *ops);

struct gt_links {
	int fds[256];
	size_t n;
};

/*
 * Attaches program `prog_fd` to all sites of the file at `path`, in process `pid` only, with the
 * cookies GT_COOKIE(slot, code, kind, first + site's index, flags). Adds to *out, which keeps what
 * it had where this fails. -ENOSPC: more than 256 links. Logs failures.
 */
int gt_attach(const struct gt_attach_ops *ops, int prog_fd, const char *path, pid_t pid,
	      uint32_t slot, uint32_t code, uint32_t first, const struct gt_sites *sites,
	      struct gt_links *out);

/*
 * Detaches and empties the n sets of links. The kernel waits for a grace period at each close, so
 * they are closed by threads: those of uprobe_multi wait together, those of perf_event in a row.
 * meanwhile(ctx), if not NULL, is called again and again until that is done.
 */
void gt_detach(struct gt_links *const *links, size_t n, void (*meanwhile)(void *ctx), void *ctx);

#endif
