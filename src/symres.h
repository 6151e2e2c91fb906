/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symres.h - from an ELF file to the probe sites of CPython's GIL, with provenance.
 *
 * The file belongs to somebody else: it is mapped and parsed in a forked child without
 * privileges (as nobody where we are root, no capabilities, limited CPU time and memory), which
 * hands back a plain struct that the parent checks again. Used by one thread. No libbpf here.
 *
 * Three ways (facts read in CPython 3.6 .. 3.16's ceval_gil.h / ceval_gil.c):
 *  GT_PROBE_SITES      calls of pthread_cond_* inside take_gil / drop_gil, found without symbols
 *  GT_PROBE_FUNCTIONS  entry and return of the symbols take_gil / drop_gil and all their clones
 *  GT_PROBE_LIBC       entry of libc's pthread_cond_signal, _timedwait and _wait: the last resort,
 *                      as every condition variable of the process then traps
 * GT_PROBE_AUTO is SITES, checked against all symbols that there are. Where the scan finds nothing
 * it is FUNCTIONS, if nothing is inlined as far as is known, else LIBC; where symbols contradict
 * the scan, it is LIBC.
 */
#ifndef GT_SYMRES_H
#define GT_SYMRES_H

#include "base.h"
#include "gt_abi.h"

enum gt_probe_mode { GT_PROBE_AUTO, GT_PROBE_SITES, GT_PROBE_FUNCTIONS, GT_PROBE_LIBC };

#define GT_SITES_MAX     128
#define GT_FUNCTIONS_MAX 32
#define GT_INLINED_MAX   64
#define GT_HOW_MAX       96
#define GT_NAME_MAX      64
#define GT_BUILDID_MAX   32
#define GT_WHY_MAX       256

struct gt_site {
	uint64_t offset; /* in the file, where the kernel puts the probe */
	uint64_t vaddr;  /* the same as the file's own virtual address, for people */
	uint8_t kind;    /* enum gt_kind */
	uint8_t flags;   /* GT_SITE_* */
	uint8_t pad[6];
	char how[GT_HOW_MAX]; /* printable; e.g. "scan: cond_signal call in take_gil at 0x1234" */
};

/* A take_gil or drop_gil that symbols name; or a copy of drop_gil inlined into another function. */
struct gt_function {
	uint64_t vaddr;
	uint32_t sites; /* how many of the scan's sites lie in it */
	uint32_t pad;
	char name[GT_NAME_MAX]; /* of the function; of an inlined copy: of what it was inlined into
				 */
};

/* What symbols say of the sites that the scan found. */
enum gt_verdict {
	GT_VERDICT_NONE,      /* there are no symbols, or no scan to compare them with */
	GT_VERDICT_AGREES,    /* each function has its sites, each site of take_gil its function */
	GT_VERDICT_DISAGREES, /* .disagreement says where */
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
	uint8_t mode;      /* enum gt_probe_mode: of the sites; LIBC with n 0: only that is left */
	uint8_t verdict;   /* enum gt_verdict */
	uint8_t pad[6];
	uint8_t build_id[GT_BUILDID_MAX];
	uint64_t runtime;     /* virtual address of _PyRuntime; 0: not exported */
	uint64_t code_delta;  /* virtual address - file offset, in the first executable segment */
	char why[GT_WHY_MAX]; /* n == 0: why nothing was found; else a remark, or empty */
	char symbols_from[GT_WHY_MAX]; /* "the file itself", a debug file's path; empty: none */
	char disagreement[GT_WHY_MAX];
	uint32_t n_functions, n_inlined;
	struct gt_function function[GT_FUNCTIONS_MAX];
	struct gt_function
		inlined[GT_INLINED_MAX]; /* none looked for: without DEEP, where all agree */
	struct gt_site site[GT_SITES_MAX];
};

/* Look for inlined copies in the debug information, too: some tenths of a second. */
#define GT_SYMRES_DEEP 0x01
/* It is the program's executable: where nothing is exported, .symtab may still tell of a CPython.
 */
#define GT_SYMRES_EXE 0x02

/*
 * Finds the sites in the file behind `fd` (read from offset 0 by pread/mmap; not consumed).
 * `name` stands in messages. Returns 0 with out->n > 0; -ENOENT with out->why and the other
 * fields set where the file is no CPython, a CPython 2, or the sites were not found;
 * -EIO where the child failed or ran out of its limits; -EPERM where we are root, but may not
 * become nobody (GT_STEP_FILES of rights.h knows); others from the system. Logs nothing.
 *
 * GT_PROBE_LIBC on a CPython tells only what it is (-ENOENT, is_python set, as there is nothing to
 * probe in it); on a file that defines the condition functions, libc or libpthread, it gives the
 * sites there. GT_PROBE_AUTO gives -ENOENT, is_python set and why, where only GT_PROBE_LIBC is
 * left.
 */
int gt_symres_file(int fd, const char *name, enum gt_probe_mode mode, unsigned int flags,
		   struct gt_sites *out);

#endif
