/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pymem.h - a CPython's memory, looked at from outside: how it is read, and what CPython 3.13 and
 * newer publish about it (_Py_DebugOffsets at the start of _PyRuntime). For snapshot.c and
 * pynames.c; docs/layouts.md says which words are used. Logs nothing. No state.
 */
#ifndef GT_PYMEM_H
#define GT_PYMEM_H

#include "proc.h"

/* Reads len bytes at addr: 0 or -errno. So parsers run on any memory, for tests and fuzzing. */
typedef int gt_memory_fn(void *ctx, uint64_t addr, void *buf, size_t len);

/* That of a process, by process_vm_readv(2); ctx is a const struct gt_proc *. -EFAULT: not there.
 */
int gt_pymem_read(void *ctx, uint64_t addr, void *buf, size_t len);

#define GT_PYMEM_ADDRESS_MAX (1ull << 57) /* user space ends there, or before */
#define GT_PYMEM_PID_MAX     (1u << 22)   /* the kernel's PID_MAX_LIMIT */

#define GT_PYOFFSETS_SIZE 256 /* bytes of _Py_DebugOffsets that gt_pyoffsets_parse() looks at */

struct gt_pyoffsets {
	unsigned int minor;         /* of CPython 3; 13 at least */
	unsigned int free_threaded; /* 1: a build that can run without the GIL */
	uint64_t finalizing;        /* in _PyRuntime */
	uint64_t interps;           /* in _PyRuntime: the first interpreter */
	uint64_t next;              /* in an interpreter: the next one */
	uint64_t modules;           /* in an interpreter: sys.modules; not checked */
	uint64_t ceval_gil;         /* in an interpreter */
	uint64_t native_id;         /* in a thread state */
};

/* Is that the start of _Py_DebugOffsets? Needs 8 bytes. */
int gt_pyoffsets_there(const uint8_t *head);

/*
 * -EPROTO: none, or not understood; why (static text) says which. What is told lies within its
 * struct and is a multiple of 8.
 */
int gt_pyoffsets_parse(const uint8_t head[GT_PYOFFSETS_SIZE], struct gt_pyoffsets *out,
		       const char **why);

#endif
