// SPDX-License-Identifier: Apache-2.0
/*
 * The table against the headers of each Python that has them, and against memory: in each Python
 * found, the word that it points to is clear at first, and set once a thread has waited longer than
 * the switch interval for a GIL that its holder does not give up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "livepy.h"
#include "log.h"
#include "pylayout.h"
#include "snapshot.h"

#include <elf.h>

#ifdef __aarch64__
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_X86_64
#endif

#define NEWEST 15

static struct livepy pythons[LIVEPY_MAX];
static size_t n_pythons;

static void unknown_is_unknown(void **state)
{
	static const unsigned int bad[][3] = {
		{2, 7, EM_X86_64},  {3, 6, EM_X86_64},  {3, 16, EM_X86_64}, {3, 0, EM_X86_64},
		{4, 12, EM_X86_64}, {3, 12, EM_RISCV},  {3, 12, EM_386},    {3, 12, 0},
		{0, 0, EM_AARCH64}, {3, 999, EM_X86_64}};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(bad); i++)
		assert_int_equal(gt_pylayout_of(bad[i][0], bad[i][1], (uint16_t)bad[i][2]).drop_how,
				 GT_DROP_UNKNOWN);
	for (unsigned int minor = 7; minor <= NEWEST; minor++)
		assert_int_not_equal(gt_pylayout_of(3, minor, EM_AARCH64).drop_how,
				     GT_DROP_UNKNOWN);
}

static const char headers_program[] =
	"#include <Python.h>\n"
	"#include <stddef.h>\n"
	"#include <stdio.h>\n"
	"#if PY_VERSION_HEX < 0x03080000\n"
	"#include \"internal/pystate.h\"\n"
	"#elif PY_VERSION_HEX < 0x03090000\n"
	"#include \"internal/pycore_pystate.h\"\n"
	"#else\n"
	"#include \"internal/pycore_interp.h\"\n"
	"#include \"internal/pycore_runtime.h\"\n"
	"#endif\n"
	"#if PY_VERSION_HEX >= 0x030d0000\n"
	"#include \"internal/pycore_ceval.h\"\n"
	"#endif\n"
	"int main(void)\n"
	"{\n"
	"#if PY_VERSION_HEX < 0x03090000\n"
	"	int how = 1, a = (int)offsetof(struct _ceval_runtime_state, gil_drop_request) -\n"
	"			 (int)offsetof(struct _ceval_runtime_state, gil.cond), b = 0;\n"
	"#elif PY_VERSION_HEX < 0x030d0000\n"
	"	int how = 2, a = offsetof(PyThreadState, interp);\n"
	"	int b = offsetof(PyInterpreterState, ceval.gil_drop_request);\n"
	"#else\n"
	"	int how = _PY_GIL_DROP_REQUEST_BIT == 1 ? 3 : -1;\n"
	"	int a = offsetof(PyThreadState, eval_breaker), b = 0;\n"
	"#endif\n"
	"	struct _gil_runtime_state *gil = 0;\n"
	"	printf(\"%d %d %d %d\\n\", how, a, b,\n"
	"	       (int)((char *)&gil->cond - (char *)&gil->last_holder));\n"
	"	return 0;\n"
	"}\n";

static void compare(const struct livepy *py, FILE *out)
{
	struct gt_pylayout l = gt_pylayout_of(3, (unsigned int)py->minor, MACHINE);
	int how, a, b, last_holder;

	assert_int_equal(fscanf(out, "%d %d %d %d", &how, &a, &b, &last_holder), 4);
	print_message("%s %s: headers: how %d, %d, %d\n", py->version, py->path, how, a, b);
	assert_int_equal(l.drop_how, how);
	assert_int_equal(l.drop_off[0], a);
	assert_int_equal(l.drop_off[1], b);
	assert_int_equal(GT_LAST_HOLDER, last_holder);
}

static void as_the_headers_say(void **state)
{
	static const char *const options[] = {"-DAS_BUILT", "-DPy_GIL_DISABLED=1"};
	int compared = 0, pid;
	FILE *out = NULL;

	(void)state;
	if (!fix_has(getenv("CC") ? getenv("CC") : "cc")) {
		print_message("SKIPPED: no C compiler\n");
		skip();
	}
	for (size_t i = 0; i < n_pythons; i++) {
		if (!livepy_has_headers(&pythons[i]) || pythons[i].minor > NEWEST) {
			print_message("SKIPPED: %s %s has no internal headers, or no row\n",
				      pythons[i].version, pythons[i].path);
			continue;
		}
		for (int k = 0; k < (pythons[i].minor < 13 ? 1 : 2); k++) {
			pid = livepy_compile(&pythons[i], headers_program, options[k], &out);
			if (pid < 0 && k) {
				print_message("SKIPPED: %s: not as a free-threaded build\n",
					      pythons[i].path);
				continue;
			}
			if (pid < 0)
				fail_msg("%s: its headers do not compile", pythons[i].path);
			compare(&pythons[i], out);
			assert_int_equal(fix_done(out, pid), 0);
			compared++;
		}
	}
	if (!compared)
		skip();
}

/* ---- live ---- */

#define INTERVAL_US 300000

/* The main thread's entry and that of the only other one. */
static int look(const struct gt_proc *p, struct gt_snapshot_thread *main_thread,
		struct gt_snapshot_thread *other)
{
	struct gt_snapshot_thread *t = NULL;
	size_t n = 0, mine;

	assert_int_equal(gt_snapshot_threads(p, &t, &n), 0);
	assert_int_equal(n, 2);
	mine = t[0].tid != (uint32_t)p->pid;
	assert_int_equal(t[mine].tid, p->pid);
	*main_thread = t[mine];
	*other = t[!mine];
	free(t);
	return 1;
}

/*
 * gil->cond, by the futex on which a thread waits that wants the GIL. glibc waits on one of two
 * words in pthread_cond_t, which were moved in 2.41; the GIL's own words tell which it is.
 */
static uint64_t cond_of(pid_t pid, uint64_t futex)
{
	for (uint64_t cond = (futex & ~7ull) - 40; cond <= futex; cond += 8)
		if (livepy_word(pid, cond - 0x20) == INTERVAL_US &&
		    (uint32_t)livepy_word(pid, cond - 0x10) == 1)
			return cond;
	fail_msg("no GIL around the futex at %#llx", (unsigned long long)futex);
	return 0;
}

/* As bpf/gt_abi.h defines it. */
static int drop_requested(pid_t pid, uint64_t cond, struct gt_pylayout l)
{
	uint64_t holder = livepy_word(pid, cond - GT_LAST_HOLDER);
	uint64_t at = cond + (uint64_t)(int64_t)l.drop_off[0];

	if (l.drop_how == GT_DROP_TSTATE)
		return (int)(livepy_word(pid, holder + (uint64_t)l.drop_off[0]) & 1);
	if (l.drop_how == GT_DROP_INTERP)
		at = livepy_word(pid, holder + (uint64_t)l.drop_off[0]) + (uint64_t)l.drop_off[1];
	/* The int may be the upper half of a word that is aligned. */
	return (uint32_t)(livepy_word(pid, at & ~7ull) >> (at & 4) * 8) != 0;
}

static void set_after_the_interval(const struct livepy *py)
{
	struct gt_pylayout l = gt_pylayout_of(3, (unsigned int)py->minor, MACHINE);
	struct livepy_run run = livepy_start(py, livepy_holder, "0.3", "1", 0);
	struct gt_snapshot_thread main_thread, holder;
	uint64_t began, seen, cond;
	int set;

	livepy_ready(&run);
	livepy_until(look(&run.p, &main_thread, &holder) && holder.run_ns > 30000000);
	assert_int_equal(main_thread.futex, 0);
	began = livepy_now();
	livepy_say(&run);
	livepy_until(look(&run.p, &main_thread, &holder) && main_thread.futex);
	cond = cond_of(run.pid, main_thread.futex);
	set = drop_requested(run.pid, cond, l);
	seen = livepy_now() - began;
	if (seen >= INTERVAL_US * 1000ull)
		print_message("%s: too slow a machine to see the word clear\n", py->version);
	else
		assert_int_equal(set, 0);
	livepy_until(drop_requested(run.pid, cond, l));
	assert_true(livepy_now() - began >= INTERVAL_US * 1000ull);
	look(&run.p, &main_thread, &holder);
	print_message("%s %s: live: waits at cond + %d, clear after %.1f ms, set after %.1f ms\n",
		      py->version, py->path, (int)(main_thread.futex - cond), (double)seen / 1e6,
		      (double)(livepy_now() - began) / 1e6);
	livepy_end(&run);
}

static void as_memory_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_pythons; i++) {
		if (pythons[i].minor <= NEWEST)
			set_after_the_interval(&pythons[i]);
		else
			print_message("SKIPPED: %s is not in the table\n", pythons[i].version);
	}
	if (!n_pythons)
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
		cmocka_unit_test(unknown_is_unknown),
		cmocka_unit_test(as_the_headers_say),
		cmocka_unit_test(as_memory_says),
	};

	return cmocka_run_group_tests_name("pylayout", tests, setup, fix_teardown);
}
