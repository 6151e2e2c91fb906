/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symres.h - from an ELF file to the probe sites of CPython's GIL, with provenance.
 *
 * The file belongs to somebody else: it is mapped and parsed in a forked child without
 * privileges (own uid, no capabilities, limited CPU time and memory), which hands back a plain
 * struct that the parent checks again. Used by one thread. No libbpf here.
 *
 * Two ways (facts read in CPython 3.6 .. 3.16's ceval_gil.h / ceval_gil.c):
 *  GT_PROBE_SITES      calls of pthread_cond_* inside take_gil / drop_gil, found without symbols
 *  GT_PROBE_FUNCTIONS  entry and return of the symbols take_gil / drop_gil and all their clones
 */
#ifndef GT_SYMRES_H
#define GT_SYMRES_H

#include "base.h"
#include "gt_abi.h"

enum gt_probe_mode { GT_PROBE_SITES, GT_PROBE_FUNCTIONS };

#define GT_SITES_MAX   128
#define GT_HOW_MAX     96
#define GT_BUILDID_MAX 32
#define GT_WHY_MAX     256

struct gt_site {
	uint64_t offset; /* in the file, where the kernel puts the probe */
	uint64_t vaddr;  /* the same as the file's own virtual address, for people */
	uint8_t kind;    /* enum gt_kind */
	uint8_t flags;   /* GT_SITE_* */
	uint8_t pad[6];
	char how[GT_HOW_MAX]; /* printable; e.g. "scan: cond_signal call in take_gil at 0x1234" */
};

/* A plain value, copied through a pipe. */
struct gt_sites {
	uint32_t n;
	uint32_t switch_cond; /* &gil->switch_cond - &gil->cond in the target; 0: 3.6 */
	uint16_t machine;     /* ELF e_machine */
	uint8_t py_major;     /* 0: not known */
	uint8_t py_minor;
	uint8_t build_id_len;
	uint8_t stripped;  /* no .symtab in the file itself */
	uint8_t python2;   /* a CPython 2: another lock; n is 0 */
	uint8_t is_python; /* the file holds CPython's GIL code (defines PyEval_RestoreThread) */
	uint8_t build_id[GT_BUILDID_MAX];
	char why[GT_WHY_MAX]; /* n == 0: why nothing was found; else a remark, or empty */
	struct gt_site site[GT_SITES_MAX];
};

/*
 * Finds the sites in the file behind `fd` (read from offset 0 by pread/mmap; not consumed).
 * `name` stands in messages. Returns 0 with out->n > 0; -ENOENT with out->why and the other
 * fields set where the file is no CPython, a CPython 2, or the sites were not found;
 * -EIO where the child failed or ran out of its limits; others from the system. Logs nothing.
 */
int gt_symres_file(int fd, const char *name, enum gt_probe_mode mode, struct gt_sites *out);

#endif
