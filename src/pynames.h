/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pynames.h - threading.Thread.name of the threads of a CPython, read from its memory from outside:
 * interpreter -> sys.modules -> threading._active -> Thread._name, _native_id. For those versions
 * whose layouts are known (3.8 to 3.15); where anything is not as it should be, it says so and
 * gives nothing.
 *
 * The memory is hostile and changes while it is read: each read and their number are bounded, all
 * walks are cut at a maximum, types and lengths are looked at before anything is believed, and each
 * thread is looked at twice, some microseconds apart. So a name may be missing, but it is none that
 * the thread never had, unless it is renamed several times within these microseconds. It costs
 * about 15 reads for each thread, and one for each module that was imported before threading. Logs
 * nothing. No state.
 */
#ifndef GT_PYNAMES_H
#define GT_PYNAMES_H

#include "pymem.h"
#include "pytarget.h"

#define GT_PYNAME_LEN  64 /* with the NUL */
#define GT_PYNAMES_MAX 4096

struct gt_pyname {
	uint32_t ns_tid; /* Thread._native_id: in the process's own PID namespace */
	/*
	 * A threading._DummyThread: somebody else made the thread, and "Dummy-1" says nothing of
	 * it. Up to 3.12 it stays when the thread has ended.
	 */
	uint8_t dummy;
	char name[GT_PYNAME_LEN]; /* UTF-8, cut between two characters; not empty */
};

/*
 * The named threads of one CPython of a process, all its interpreters, by ns_tid, each once (the
 * main interpreter's name goes before others'). *out to be freed. 0: *n may be 0. -ENOTSUP: not
 * known for this version; -EPROTO: what stands there is not understood; else -errno: its memory
 * could not be read (-ESRCH: it has ended). why: static text, set where not 0. A child of os.fork()
 * may still tell the id that its main thread had in the parent.
 */
int gt_pynames_read(const struct gt_proc *p, const struct gt_python *py, struct gt_pyname **out,
		    size_t *n, const char **why);

/*
 * The same on any memory, one look: for tests and fuzzing. runtime: address of _PyRuntime. major
 * and minor are looked at only where it does not tell its version itself, which 3.13 and newer do.
 */
int gt_pynames_parse(gt_memory_fn *read, void *ctx, uint64_t runtime, unsigned int major,
		     unsigned int minor, struct gt_pyname **out, size_t *n, const char **why);

#endif
