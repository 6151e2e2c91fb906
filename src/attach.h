/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach.h - puts one BPF program behind the probe sites of a file, for one process. Three back
 * ends, rows of one table; which of them works is found by trying (kfeatures.h), never by the
 * kernel's version. Owns its links; used by one thread (detaching uses threads of its own inside).
 *
 * How a program knows which probe it was hit through:
 *   uprobe_multi  a link for all sites, with a cookie for each (Linux 6.6)
 *   perf_event    a perf event and a link with a cookie for each site (Linux 5.15)
 *   perf_ioctl    a perf event for each site, and a copy of the program in which the cookie is a
 *                 constant: these kernels have neither links to perf events nor cookies
 */
#ifndef GT_ATTACH_H
#define GT_ATTACH_H

#include "base.h"
#include "rights.h"
#include "symres.h"
#include <sys/types.h>

enum gt_backend { GT_BACKEND_AUTO, GT_BACKEND_MULTI, GT_BACKEND_PERF, GT_BACKEND_IOCTL };

struct gt_attach_ops;

/* Not of GT_BACKEND_AUTO. */
const struct gt_attach_ops *gt_attach_backend(enum gt_backend which);

/*
 * Does it work here? A probe with a cookie is put on a function of our own, for our own process,
 * and a second thread calls it. 0: the cookie came out; 1: the probe was not hit, or not with its
 * cookie (uprobe_multi of Linux 6.6 .. 6.9 lets no thread but the first through); else -errno. Then
 * *what says what was tried or has failed, such as "perf_event_open()".
 */
int gt_attach_try(const struct gt_attach_ops *ops, const char **what);

const char *gt_attach_name(const struct gt_attach_ops *ops);

/* Which step it is whose rights are missing where it is refused. */
enum gt_step gt_attach_step(const struct gt_attach_ops *ops);

/* The expected attach type the program must be loaded with; 0: none. */
uint32_t gt_attach_type(const struct gt_attach_ops *ops);

/* 1: it must take GT_COOKIE_PLACE for its cookie; copies of it are put behind probes. */
int gt_attach_copies(const struct gt_attach_ops *ops);

/* A program that was loaded, and its instructions, of which copies are made. */
struct gt_probe_program {
	int fd;
	const struct bpf_insn *insns;
	size_t n;
};

struct gt_links {
	int fds[256];
	size_t n;
};

/*
 * Attaches a program to all sites of the file at `path`, in process `pid` only, with the
 * cookies GT_COOKIE(slot, code, kind, first + site's index, flags). Adds to *out, which keeps what
 * it had where this fails. -ENOSPC: more than 256 links. Logs failures.
 */
int gt_attach(const struct gt_attach_ops *ops, const struct gt_probe_program *prog,
	      const char *path, pid_t pid, uint32_t slot, uint32_t code, uint32_t first,
	      const struct gt_sites *sites, struct gt_links *out);

/*
 * Detaches and empties the n sets of links. The kernel waits for a grace period at each close, so
 * they are closed by threads: those of uprobe_multi wait together, those of perf_event in a row.
 * meanwhile(ctx), if not NULL, is called again and again until that is done.
 */
void gt_detach(struct gt_links *const *links, size_t n, void (*meanwhile)(void *ctx), void *ctx);

#endif
