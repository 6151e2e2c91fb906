// SPDX-License-Identifier: Apache-2.0
/*
 * The snapshot against CPython itself: the headers of each version that has them here, and real
 * Pythons in the states that matter.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "livepy.h"
#include "log.h"
#include "snapshot.h"

#include <sched.h>

/* ---- what the headers of real versions say ---- */

/* Writes the words that are looked at, as CPython's own initializer would. */
static const char headers_program[] =
	"#include <Python.h>\n"
	"#include \"internal/pycore_interp.h\"\n"
	"#include \"internal/pycore_runtime.h\"\n"
	"#include <stdio.h>\n"
	"#ifdef Py_GIL_DISABLED\n"
	"#define FREE_THREADED 1\n"
	"#else\n"
	"#define FREE_THREADED 0\n"
	"#endif\n"
	"#define I(field) offsetof(PyInterpreterState, field)\n"
	"#define T(field) offsetof(PyThreadState, field)\n"
	"int main(void)\n"
	"{\n"
	"	static _Py_DebugOffsets d;\n"
	"	struct _gil_runtime_state *gil = 0;\n"
	"	d.version = PY_VERSION_HEX;\n"
	"	d.free_threaded = FREE_THREADED;\n"
	"	d.runtime_state.size = sizeof(_PyRuntimeState);\n"
	"	d.runtime_state.finalizing = offsetof(_PyRuntimeState, _finalizing);\n"
	"	d.runtime_state.interpreters_head = offsetof(_PyRuntimeState, interpreters.head);\n"
	"	d.interpreter_state.size = sizeof(PyInterpreterState);\n"
	"	d.interpreter_state.next = I(next);\n"
	"	d.interpreter_state.ceval_gil = I(ceval.gil);\n"
	"	d.interpreter_state.gil_runtime_state = I(_gil);\n"
	"	d.interpreter_state.gil_runtime_state_locked = I(_gil.locked);\n"
	"	d.interpreter_state.gil_runtime_state_holder = I(_gil.last_holder);\n"
	"	d.thread_state.size = sizeof(PyThreadState);\n"
	"	d.thread_state.prev = T(prev);\n"
	"	d.thread_state.next = T(next);\n"
	"	d.thread_state.interp = T(interp);\n"
	"	d.thread_state.thread_id = T(thread_id);\n"
	"	d.thread_state.native_thread_id = T(native_thread_id);\n"
	"	printf(\"%d %d %d %d %d %d %d\\n\", (int)(long)&gil->cond, "
	"(int)(long)&gil->locked,\n"
	"	       (int)I(next), (int)I(ceval.gil), (int)T(native_thread_id),\n"
	"	       (int)d.runtime_state.finalizing, (int)d.runtime_state.interpreters_head);\n"
	"	for (int i = 1; i < 32; i++)\n"
	"		printf(\"%llu\\n\", (unsigned long long)((uint64_t *)&d)[i]);\n"
	"	return 0;\n"
	"}\n";

static struct livepy pythons[LIVEPY_MAX];
static size_t n_pythons;

/* A piece of memory into which an interpreter is laid out. */
#define BASE 0x7f1234560000ull

static uint8_t memory[0x10000];

static void put(uint64_t off, uint64_t v)
{
	gt_put_le64(memory + off, v);
}

static int read_memory(void *ctx, uint64_t addr, void *buf, size_t len)
{
	(void)ctx;
	if (addr < BASE || !gt_in_range(addr - BASE, len, sizeof(memory)))
		return -EFAULT;
	memcpy(buf, memory + (addr - BASE), len);
	return 0;
}

/* Lays an interpreter out as a version has it, behind its _Py_DebugOffsets. */
static void parse_as_printed(const struct livepy *py, FILE *out, unsigned int free_threaded)
{
	int cond, locked, next, ceval, native, final, head;
	const uint64_t gil = 0xf000, tstate = 0xe000, interp = 0x8000;
	struct gt_snapshot_gils g;
	const char *why;

	memset(memory, 0, sizeof(memory));
	memcpy(memory, "xdebugpy", 8);
	assert_int_equal(fscanf(out, "%d %d %d %d %d %d %d", &cond, &locked, &next, &ceval, &native,
				&final, &head),
			 7);
	for (unsigned int i = 1; i < 32; i++) {
		unsigned long long word;

		assert_int_equal(fscanf(out, "%llu", &word), 1);
		put(8 * i, word);
	}
	assert_true(ceval < 0x6000 && native < 0x1000 && head < 0x8000 && final < 0x8000);
	put((uint64_t)head, BASE + interp);
	put(interp + (uint64_t)next, 0);
	put(interp + (uint64_t)ceval, BASE + gil);
	put(gil, free_threaded);
	put(gil + (uint64_t)locked - 8, BASE + tstate);
	put(gil + (uint64_t)locked, 1);
	put(tstate + (uint64_t)native, 4711);
	assert_int_equal(gt_snapshot_parse(read_memory, NULL, BASE, &g, &why), 0);
	print_message("%s %s: headers%s: cond at %d, native_thread_id at %d\n", py->version,
		      py->path, free_threaded ? ", free-threaded" : "", cond, native);
	assert_int_equal(g.told, 1);
	assert_int_equal(g.n, 1);
	assert_int_equal(g.free_threaded, free_threaded);
	assert_int_equal(g.gil[0].cond, BASE + gil + (uint64_t)cond);
	assert_int_equal(g.gil[0].holder, 4711);
}

static void as_the_headers_say(void **state)
{
	static const char *const options[] = {"-DAS_BUILT", "-DPy_GIL_DISABLED=1"};
	int compared = 0, pid;
	FILE *out = NULL;

	(void)state;
	for (size_t i = 0; i < n_pythons; i++) {
		const struct livepy *py = &pythons[i];

		if (py->minor < 13 || py->minor > 15 || !livepy_has_headers(py))
			continue;
		for (unsigned int k = 0; k < 2; k++) {
			pid = livepy_compile(py, headers_program, options[k], &out);
			if (pid < 0) {
				print_message("SKIPPED: %s: headers do not compile with %s\n",
					      py->path, options[k]);
				continue;
			}
			parse_as_printed(py, out, k || py->free_threaded);
			assert_int_equal(fix_done(out, pid), 0);
			compared++;
		}
	}
	if (!compared) {
		print_message("SKIPPED: no CPython 3.13 or newer with internal headers\n");
		skip();
	}
}

/* ---- real Pythons ---- */

/* Runs a test on each Python whose GIL can be read. */
static void each(void (*test)(const struct livepy *py))
{
	int tried = 0;

	for (size_t i = 0; i < n_pythons; i++)
		if (pythons[i].minor >= 13 && pythons[i].minor <= 15) {
			print_message("%s %s\n", pythons[i].version, pythons[i].path);
			test(&pythons[i]);
			tried++;
		}
	if (!tried) {
		print_message("SKIPPED: no CPython 3.13, 3.14 or 3.15\n");
		skip();
	}
}

static struct gt_snapshot_gils snapshot(const struct livepy_run *run, uint64_t runtime)
{
	struct gt_snapshot_gils g;
	const char *why = "";

	assert_int_equal(gt_snapshot_gils(&run->p, runtime, &g, &why), 0);
	if (!g.told)
		fail_msg("not told: %s", why);
	return g;
}

static const struct gt_snapshot_thread *of_tid(const struct gt_snapshot_thread *t, size_t n,
					       pid_t tid)
{
	for (size_t i = 0; i < n; i++)
		if (t[i].tid == (uint32_t)tid)
			return &t[i];
	fail_msg("no thread %d", (int)tid);
	return NULL;
}

/* The futex on which the main thread waits, and what the rest of the process has run. */
static uint64_t main_futex(const struct livepy_run *run, uint32_t *other)
{
	struct gt_snapshot_thread *t = NULL;
	uint64_t futex;
	size_t n;

	assert_int_equal(gt_snapshot_threads(&run->p, &t, &n), 0);
	assert_int_equal(n, 2);
	futex = of_tid(t, n, run->pid)->futex;
	*other = t[t[0].tid == (uint32_t)run->pid].tid;
	free(t);
	return futex;
}

static void held_and_waited_for_in(const struct livepy *py, long flags)
{
	struct livepy_run run = livepy_start(py, livepy_holder, "1000", "1", flags);
	struct gt_snapshot_gils g;
	uint64_t runtime, futex;
	uint32_t other;

	if (run.pid < 0) {
		print_message("SKIPPED: no PID namespace: %s\n", strerror(errno));
		livepy_end(&run);
		return;
	}
	livepy_ready(&run);
	assert_int_equal(flags ? run.p.ns_pid : run.pid, flags ? 1 : run.p.pid);
	runtime = livepy_runtime(&run.p);
	livepy_until((g = snapshot(&run, runtime), g.gil[0].locked));
	livepy_say(&run);
	livepy_until((futex = main_futex(&run, &other)));
	g = snapshot(&run, runtime);
	assert_int_equal(g.free_threaded, py->free_threaded);
	assert_int_equal(g.finalizing, 0);
	assert_int_equal(g.n, 1);
	assert_int_equal(g.gil[0].enabled, 1);
	assert_int_equal(g.gil[0].locked, 1);
	assert_int_equal(g.gil[0].holder, other);
	assert_in_range(futex, g.gil[0].cond, g.gil[0].cond + 47);
	livepy_end(&run);
}

static void held_and_waited_for(const struct livepy *py)
{
	held_and_waited_for_in(py, 0);
}

static void test_held_and_waited_for(void **state)
{
	(void)state;
	each(held_and_waited_for);
}

static void in_a_namespace(const struct livepy *py)
{
	held_and_waited_for_in(py, CLONE_NEWPID);
}

static void test_in_a_namespace(void **state)
{
	(void)state;
	each(in_a_namespace);
}

static const char idle_script[] = "import os, sys\n"
				  "os.write(1, b'ready\\n')\n"
				  "os.read(0, 1)\n"
				  "os.execl('/bin/sleep', 'sleep', '1000')\n";

/* Nobody holds it; with PYTHON_GIL=0 a free-threaded build has none. Then another program. */
static void idle_then_gone(const struct livepy *py)
{
	struct gt_snapshot_gils g;
	const char *why;
	uint64_t runtime;

	for (int gil = py->free_threaded ? 0 : 1; gil < 2; gil++) {
		struct livepy_run run = livepy_start(py, idle_script, "", gil ? "1" : "0", 0);

		livepy_ready(&run);
		runtime = livepy_runtime(&run.p);
		livepy_until((g = snapshot(&run, runtime), !g.gil[0].locked));
		assert_int_equal(g.n, 1);
		assert_int_equal(g.gil[0].enabled, gil);
		assert_int_equal(g.gil[0].holder, 0);
		livepy_say(&run);
		livepy_until(gt_proc_memory_gone(&run.p));
		assert_int_equal(gt_snapshot_gils(&run.p, runtime, &g, &why), -ESRCH);
		kill(run.pid, SIGKILL);
		livepy_until(gt_proc_ended(&run.p));
		assert_int_equal(gt_snapshot_gils(&run.p, runtime, &g, &why), -ESRCH);
		livepy_end(&run);
	}
}

static void test_idle_then_gone(void **state)
{
	(void)state;
	each(idle_then_gone);
}

/* The GIL is made anew in the child, whose thread has another id. */
static void forked(const struct livepy *py)
{
	static const char script[] = "import os, re\n"
				     "if os.fork():\n"
				     "    os.read(0, 1)\n"
				     "    os._exit(0)\n"
				     "os.write(1, b'%d\\nready\\n' % os.getpid())\n"
				     "re.match('(a+)+$', 'a' * 64 + 'b')\n";
	struct livepy_run run = livepy_start(py, script, "", "1", 0), child = run;
	struct gt_snapshot_gils g;
	uint64_t runtime;
	char line[64];

	livepy_line(&run, line, sizeof(line));
	child.pid = (pid_t)strtol(line, NULL, 10);
	livepy_ready(&child);
	runtime = livepy_runtime(&child.p);
	livepy_until((g = snapshot(&child, runtime), g.gil[0].locked));
	assert_int_equal(g.gil[0].holder, child.pid);
	kill(child.pid, SIGKILL);
	gt_proc_close(&child.p);
	livepy_end(&run);
}

static void test_forked(void **state)
{
	(void)state;
	each(forked);
}

/* One interpreter with a GIL of its own, and one that shares the first. */
static void interpreters(const struct livepy *py)
{
	static const char script[] = "import os, _interpreters\n"
				     "os.write(1, b'ready\\n')\n"
				     "os.read(0, 1)\n"
				     "own = _interpreters.create('isolated')\n"
				     "shared = _interpreters.create('legacy')\n"
				     "os.write(1, b'made\\n')\n"
				     "os.read(0, 1)\n"
				     "_interpreters.destroy(own)\n"
				     "os.write(1, b'gone\\n')\n"
				     "os.read(0, 1)\n";
	struct livepy_run run = livepy_start(py, script, "", "1", 0);
	struct gt_snapshot_gils g;
	uint64_t runtime, first;
	char line[64];

	livepy_ready(&run);
	runtime = livepy_runtime(&run.p);
	g = snapshot(&run, runtime);
	assert_int_equal(g.n, 1);
	first = g.gil[0].cond;
	livepy_say(&run);
	livepy_line(&run, line, sizeof(line));
	g = snapshot(&run, runtime);
	assert_int_equal(g.n, 2);
	assert_int_not_equal(g.gil[0].cond, g.gil[1].cond);
	assert_true(g.gil[0].cond == first || g.gil[1].cond == first);
	livepy_say(&run);
	livepy_line(&run, line, sizeof(line));
	g = snapshot(&run, runtime);
	assert_int_equal(g.n, 1);
	assert_int_equal(g.gil[0].cond, first);
	livepy_end(&run);
}

static void test_interpreters(void **state)
{
	(void)state;
	each(interpreters);
}

static void finalizing(const struct livepy *py)
{
	static const char script[] = "import os\n"
				     "class Last:\n"
				     "    def __del__(self, write=os.write, read=os.read):\n"
				     "        write(1, b'ready\\n')\n"
				     "        read(0, 1)\n"
				     "last = Last()\n";
	struct livepy_run run = livepy_start(py, script, "", "1", 0);

	livepy_ready(&run);
	assert_int_equal(snapshot(&run, livepy_runtime(&run.p)).finalizing, 1);
	livepy_end(&run);
}

static void test_finalizing(void **state)
{
	(void)state;
	each(finalizing);
}

static void older_does_not_tell(void **state)
{
	int tried = 0;

	(void)state;
	for (size_t i = 0; i < n_pythons; i++) {
		struct livepy_run run;
		struct gt_snapshot_gils g;
		const char *why = NULL;

		if (pythons[i].minor >= 13)
			continue;
		run = livepy_start(&pythons[i], idle_script, "", NULL, 0);
		livepy_ready(&run);
		assert_int_equal(gt_snapshot_gils(&run.p, livepy_runtime(&run.p), &g, &why), 0);
		assert_int_equal(g.told, 0);
		assert_string_equal(why, "CPython before 3.13 does not tell");
		livepy_end(&run);
		tried++;
	}
	if (!tried)
		skip();
}

static int setup(void **state)
{
	(void)state;
	gt_log_setup("test", GT_LOG_ERROR);
	n_pythons = livepy_find(pythons);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_the_headers_say),  cmocka_unit_test(test_held_and_waited_for),
		cmocka_unit_test(test_in_a_namespace), cmocka_unit_test(test_idle_then_gone),
		cmocka_unit_test(test_forked),         cmocka_unit_test(test_interpreters),
		cmocka_unit_test(test_finalizing),     cmocka_unit_test(older_does_not_tell),
	};

	return cmocka_run_group_tests_name("snapshot_live", tests, setup, fix_teardown);
}
