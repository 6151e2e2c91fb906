// SPDX-License-Identifier: Apache-2.0
#include "pymem.h"

#include <sys/uio.h>

int gt_pymem_read(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const struct gt_proc *p = ctx;
	struct iovec to = {.iov_base = buf, .iov_len = len};
	struct iovec from = {.iov_base = (void *)(uintptr_t)addr, .iov_len = len};
	ssize_t n = process_vm_readv(p->pid, &to, 1, &from, 1, 0);

	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EFAULT;
}

#define STRUCT_MAX (16u << 20) /* _PyRuntimeState is the greatest, 0.4 MiB in 3.15t */

/* The first words, the same in all versions. */
enum {
	COOKIE,
	VERSION,
	FREE_THREADED,
	RUNTIME_SIZE,
	FINALIZING,
	INTERPS,
	INTERP_SIZE,
	INTERP_NEXT = 8
};

/* Where the others stand: pycore_runtime.h of 3.13, pycore_debug_offsets.h of 3.14 and 3.15. */
static const struct words {
	unsigned int minor;
	unsigned int modules;   /* interpreter_state.imports_modules */
	unsigned int ceval_gil; /* .gil_runtime_state, _enabled, _locked, _holder follow */
	unsigned int thread;    /* thread_state.size; .prev, .next, .interp follow */
	unsigned int native_id; /* thread_state.native_thread_id; .thread_id stands before it */
} versions[] = {{13, 11, 14, 19, 25}, {14, 12, 15, 22, 28}, {15, 12, 15, 22, 31}};

/* Is there a word at that offset of a struct of that size? */
static int fits(uint64_t offset, uint64_t size)
{
	return !(offset & 7) && size <= STRUCT_MAX && gt_in_range(offset, 8, size);
}

/*
 * Layouts of pre-releases and of versions that are not known yet differ from those of the table; so
 * the words must also say what is known of struct _gil_runtime_state (the same since 3.7) and of
 * the first members of PyThreadState.
 */
static int is_known_form(const uint64_t *word, const struct words *v)
{
	const uint64_t *gil = &word[v->ceval_gil], *thread = &word[v->thread];
	const uint64_t shift = word[FREE_THREADED] ? 8 : 0;

	return word[FREE_THREADED] <= 1 && fits(word[FINALIZING], word[RUNTIME_SIZE]) &&
	       fits(word[INTERPS], word[RUNTIME_SIZE]) &&
	       fits(word[INTERP_NEXT], word[INTERP_SIZE]) && fits(gil[0], word[INTERP_SIZE]) &&
	       fits(gil[1], word[INTERP_SIZE]) && gil[2] == 0 && gil[3] == gil[1] + 0x10 + shift &&
	       gil[4] == gil[1] + 0x08 + shift && thread[1] == 0 && thread[2] == 0x08 &&
	       thread[3] == 0x10 && fits(word[v->native_id], thread[0]) &&
	       word[v->native_id] == word[v->native_id - 1] + 8;
}

int gt_pyoffsets_there(const uint8_t *head)
{
	return !memcmp(head, "xdebugpy", 8);
}

int gt_pyoffsets_parse(const uint8_t head[GT_PYOFFSETS_SIZE], struct gt_pyoffsets *out,
		       const char **why)
{
	const struct words *v = &versions[GT_ARRAY_SIZE(versions) - 1];
	uint64_t word[GT_PYOFFSETS_SIZE / 8], minor;

	*why = NULL;
	if (!gt_pyoffsets_there(head))
		*why = "CPython before 3.13 does not tell";
	for (unsigned int i = 0; i < GT_ARRAY_SIZE(word); i++)
		word[i] = gt_get_le64(head + 8 * (size_t)i);
	minor = word[VERSION] >> 16 & 0xff; /* PY_VERSION_HEX: 0x030d00f0 is 3.13.0 */
	if (!*why && (word[VERSION] >> 24 != 3 || minor < versions[0].minor))
		*why = "the version in its _Py_DebugOffsets is none that has them";
	for (unsigned int i = 0; i < GT_ARRAY_SIZE(versions); i++)
		if (versions[i].minor == minor)
			v = &versions[i];
	if (!*why && !is_known_form(word, v))
		*why = "its _Py_DebugOffsets are of an unknown form";
	if (*why)
		return -EPROTO;
	*out = (struct gt_pyoffsets){
		.minor = (unsigned int)minor,
		.free_threaded = (unsigned int)word[FREE_THREADED],
		.finalizing = word[FINALIZING],
		.interps = word[INTERPS],
		.next = word[INTERP_NEXT],
		.modules = word[v->modules],
		.ceval_gil = word[v->ceval_gil],
		.native_id = word[v->native_id],
	};
	return 0;
}
