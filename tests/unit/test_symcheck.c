// SPDX-License-Identifier: Apache-2.0
/*
 * What symbols say of the scan, and which way is chosen: on libraries that are built here so that
 * they agree, contradict each other, or one of them says nothing; and on the Pythons of the
 * machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gilfix.h"
#include "symres.h"

#define INLINE " -Dinline=__attribute__((always_inline))"
#define PLAIN  "-shared -fPIC -O2 -DFIX_PLAIN"
/* drop_gil's body has a name under which PyEval_ReleaseThread has a copy of it. */
#define COPIED "-shared -fPIC -O2 -DFIX_MINOR=12 -Ddrop_body=drop_gil_impl" INLINE

static int resolve(const char *path, enum gt_probe_mode mode, unsigned int flags,
		   struct gt_sites *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;

	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	err = gt_symres_file(fd, path, mode, flags, out);
	close(fd);
	return err;
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" does not say \"%s\"", text, part);
}

static void rename_symbol(const char *path, const char *names, const char *name, char out[PATH_MAX])
{
	char option[128];

	fix_path(out, name);
	snprintf(option, sizeof(option), "--redefine-sym=%s", names);
	assert_int_equal(fix_tool("objcopy", option, path, out, NULL), 0);
}

static void assert_auto(const char *path, enum gt_probe_mode mode, enum gt_verdict verdict,
			struct gt_sites *out)
{
	int err = resolve(path, GT_PROBE_AUTO, 0, out);

	if (err != (mode == GT_PROBE_LIBC ? -ENOENT : 0) || out->mode != mode ||
	    out->verdict != verdict)
		fail_msg("%s: %d, mode %d, verdict %d; \"%s\" \"%s\"", path, err, out->mode,
			 out->verdict, out->why, out->disagreement);
	assert_int_equal(out->n > 0, mode != GT_PROBE_LIBC);
	assert_true(out->is_python);
	assert_true(out->switch_cond || out->py_minor == 6);
	assert_int_equal(out->disagreement[0] != 0, verdict == GT_VERDICT_DISAGREES);
}

static const struct gt_function *function_of(const struct gt_sites *s, const char *name)
{
	for (uint32_t i = 0; i < s->n_functions; i++)
		if (!strcmp(s->function[i].name, name))
			return &s->function[i];
	return NULL;
}

/* ---- they agree ---- */

static void check_agreement(const char *cc)
{
	static const char *const options[] = {
		"-shared -fPIC -O2 -DFIX_MINOR=12",
		"-shared -fPIC -O2 -g -DFIX_MINOR=9 -DFIX_COLD",
		"-shared -fPIC -O2 -DFIX_MINOR=9 -DFIX_ENDING",
		"-shared -fPIC -O2 -DFIX_MINOR=7 -fno-plt -Wl,-z,now",
		"-shared -fPIC -O2 -DFIX_STATIC",
		"-shared -fPIC -O2 -g -DFIX_IMPL -DFIX_FREE -DFIX_MINOR=14",
		PLAIN INLINE " -O0 -DFIX_MINOR=12",
		COPIED " -g",
		COPIED,
	};

	for (size_t i = 0; i < GT_ARRAY_SIZE(options); i++) {
		struct gt_sites s, deep;
		char path[PATH_MAX];

		fix_build(cc, options[i], "agree.so", path);
		assert_auto(path, GT_PROBE_SITES, GT_VERDICT_AGREES, &s);
		assert_string_equal(s.symbols_from, "the file itself (.symtab)");
		assert_true(s.n_functions >= 2);
		assert_string_equal(s.why, "");
		assert_int_equal(resolve(path, GT_PROBE_AUTO, GT_SYMRES_DEEP, &deep), 0);
		assert_int_equal(deep.verdict, GT_VERDICT_AGREES);
		assert_int_equal(deep.n, s.n);
	}
}

static void test_agreement(void **state)
{
	(void)state;
	check_agreement("cc");
	if (fix_has("clang"))
		check_agreement("clang");
	else
		print_message("SKIP the half: no clang here\n");
}

/* How many sites lie in each function, in its cold part and in its clone. */
static void test_counts(void **state)
{
	char path[PATH_MAX], other[PATH_MAX];
	struct gt_sites s;

	(void)state;
	fix_build("cc", PLAIN " -DFIX_MINOR=9 -DFIX_COLD", "cold.so", path);
	assert_auto(path, GT_PROBE_SITES, GT_VERDICT_AGREES, &s);
	assert_int_equal(s.n_functions, 2); /* take_gil.cold is none */
	assert_int_equal(function_of(&s, "take_gil")->sites, 2);
	assert_int_equal(function_of(&s, "drop_gil")->sites, 2);

	rename_symbol(path, "take_gil=take_gil.lto_priv.0", "clone.so", other);
	assert_auto(other, GT_PROBE_SITES, GT_VERDICT_AGREES, &s);
	assert_int_equal(function_of(&s, "take_gil.lto_priv.0")->sites, 2);
}

/* ---- they contradict each other ---- */

static void test_disagreement(void **state)
{
	char path[PATH_MAX], other[PATH_MAX];
	struct gt_sites s;

	(void)state;
	/* What the scan takes for take_gil has another name. */
	fix_build("cc", PLAIN " -g -DFIX_MINOR=12", "plain.so", path);
	rename_symbol(path, "take_gil=another", "named.so", other);
	assert_auto(other, GT_PROBE_LIBC, GT_VERDICT_DISAGREES, &s);
	assert_has(s.disagreement, "the acquire site 0x");
	assert_has(s.disagreement, "lies in another, not in take_gil");
	assert_has(s.why, "symbols contradict the scan");
	assert_int_equal(resolve(other, GT_PROBE_SITES, 0, &s), 0); /* forced, and said */
	assert_int_equal(s.mode, GT_PROBE_SITES);
	assert_int_equal(s.verdict, GT_VERDICT_DISAGREES);

	/* There is a take_gil that the scan has not found; or what has that name is none. */
	rename_symbol(path, "fix_init=take_gil.constprop.0", "more.so", other);
	assert_auto(other, GT_PROBE_LIBC, GT_VERDICT_DISAGREES, &s);
	assert_has(s.disagreement, "no wait site was found in take_gil.constprop.0 at 0x");
	assert_has(s.disagreement, "no acquire site was found in take_gil.constprop.0 at 0x");
	assert_int_equal(s.n, 0);

	/* The same of drop_gil. */
	fix_build("cc", COPIED, "copied.so", path);
	rename_symbol(path, "fix_init=drop_gil.isra.0", "copies.so", other);
	assert_auto(other, GT_PROBE_LIBC, GT_VERDICT_DISAGREES, &s);
	assert_has(s.disagreement, "no release site was found in drop_gil.isra.0 at 0x");
}

/* ---- the scan finds nothing ---- */

static void test_no_scan(void **state)
{
	static const char *const reason = "reached from PyEval_RestoreThread";
	char path[PATH_MAX], stripped[PATH_MAX];
	struct gt_sites s;

	(void)state;
	fix_build("cc", PLAIN " -g -DFIX_MINOR=12 -DFIX_UNREACHED", "alone.so", path);
	assert_auto(path, GT_PROBE_FUNCTIONS, GT_VERDICT_NONE, &s);
	assert_has(s.why, "function probes are used: ");
	assert_has(s.why, reason);
	assert_int_equal(s.n, 4);
	assert_int_equal(function_of(&s, "take_gil")->sites, 0);
	assert_int_equal(resolve(path, GT_PROBE_SITES, 0, &s), -ENOENT);
	assert_has(s.why, reason);
	assert_int_equal(s.n, 0);

	/* Nothing tells whether there are copies; or they are there; or no symbols are. */
	fix_path(stripped, "alone-nodebug.so");
	assert_int_equal(fix_tool("strip", "--strip-debug", "-o", stripped, path), 0);
	assert_auto(stripped, GT_PROBE_LIBC, GT_VERDICT_NONE, &s);
	assert_has(s.why, reason);
	assert_has(s.why, "without debug information");
	assert_int_equal(resolve(stripped, GT_PROBE_FUNCTIONS, 0, &s), 0);
	assert_has(s.why, "without debug information");
	assert_int_equal(fix_tool("strip", stripped, NULL, NULL, NULL), 0);
	assert_auto(stripped, GT_PROBE_LIBC, GT_VERDICT_NONE, &s);
	assert_has(s.why, "no symbol take_gil");
	assert_string_equal(s.symbols_from, "");
	fix_build("cc", COPIED " -g -DFIX_UNREACHED", "alone-copied.so", path);
	assert_auto(path, GT_PROBE_LIBC, GT_VERDICT_NONE, &s);
	assert_has(s.why, "inlined in 1 place");
}

/* ---- copies that were inlined ---- */

static void assert_one_copy(const char *path, uint32_t sites)
{
	struct gt_sites s;

	assert_int_equal(resolve(path, GT_PROBE_AUTO, GT_SYMRES_DEEP, &s), 0);
	assert_int_equal(s.n_inlined, 1);
	assert_string_equal(s.inlined[0].name, "PyEval_ReleaseThread");
	assert_int_equal(s.inlined[0].sites, sites);
	assert_int_equal(resolve(path, GT_PROBE_FUNCTIONS, 0, &s), 0);
	assert_has(s.why, "inlined in 1 place");
	assert_has(s.why, "--probe=sites sees all");
}

static void check_copies(const char *cc)
{
	char path[PATH_MAX], stripped[PATH_MAX];
	struct gt_sites s;

	fix_build(cc, COPIED " -g", "copies.so", path);
	assert_one_copy(path, 2);
	/* Without debug information, by the scan: each release that lies elsewhere. */
	fix_path(stripped, "copies-nodebug.so");
	assert_int_equal(fix_tool("strip", "--strip-debug", "-o", stripped, path), 0);
	assert_one_copy(stripped, 1);

	/* A copy in take_gil, where the interpreter ends, is none that function probes miss. */
	fix_build(cc, PLAIN INLINE " -g -DFIX_MINOR=12 -DFIX_ENDING -Drelease=drop_gil_impl",
		  "ending.so", path);
	assert_int_equal(resolve(path, GT_PROBE_FUNCTIONS, GT_SYMRES_DEEP, &s), 0);
	assert_int_equal(s.n_inlined, 1);
	assert_string_equal(s.inlined[0].name, "take_gil");
	assert_int_equal(s.inlined[0].sites, 1);
	assert_string_equal(s.why, "");

	/* Copies whose release lies in a function that they call. */
	fix_build(cc, "-shared -fPIC -O2 -g -DFIX_SPLIT -DFIX_IMPL -DFIX_MINOR=14" INLINE,
		  "split.so", path);
	assert_int_equal(resolve(path, GT_PROBE_AUTO, GT_SYMRES_DEEP, &s), 0);
	assert_int_equal(s.verdict, GT_VERDICT_AGREES);
	assert_int_equal(s.n_inlined, 2);

	/* A copy in which the scan has found nothing: a contradiction, if it is looked for. */
	fix_build(cc, PLAIN " -g -DFIX_MINOR=12 -Dmust=drop_gil_impl", "blind.so", path);
	assert_auto(path, GT_PROBE_SITES, GT_VERDICT_AGREES, &s);
	assert_int_equal(s.n_inlined, 0);
	assert_int_equal(resolve(path, GT_PROBE_SITES, GT_SYMRES_DEEP, &s), 0);
	assert_int_equal(s.verdict, GT_VERDICT_DISAGREES);
	assert_has(s.disagreement, "no release site was found in the drop_gil inlined in ");

	/* A take_gil that is only there as a copy; without debug information nothing says so. */
	fix_build(cc, PLAIN " -g -DFIX_MINOR=13 -DFIX_INLINED", "inlined.so", path);
	assert_auto(path, GT_PROBE_SITES, GT_VERDICT_AGREES, &s);
	assert_int_equal(fix_tool("strip", "--strip-debug", path, NULL, NULL), 0);
	assert_auto(path, GT_PROBE_LIBC, GT_VERDICT_DISAGREES, &s);
	assert_has(s.disagreement, "lies in attach, not in take_gil");
}

static void test_copies(void **state)
{
	(void)state;
	check_copies("cc");
	if (fix_has("clang"))
		check_copies("clang");
	else
		print_message("SKIP the half: no clang here\n");
}

/* ---- real Pythons ---- */

static void check_python(const char *path)
{
	struct gt_sites s;
	int err = resolve(path, GT_PROBE_AUTO, GT_SYMRES_DEEP, &s);

	if (s.python2)
		return;
	if (err || s.mode != GT_PROBE_SITES || s.verdict == GT_VERDICT_DISAGREES)
		fail_msg("%s: %d, mode %d: %s %s", path, err, s.mode, s.why, s.disagreement);
	print_message("%s: 3.%d, symbols: %s; %u functions, %u copies\n", path, s.py_minor,
		      s.symbols_from[0] ? s.symbols_from : "none", s.n_functions, s.n_inlined);
	assert_int_equal(s.verdict == GT_VERDICT_AGREES, s.n_functions > 0);
	for (uint32_t i = 0; i < s.n_functions; i++)
		assert_true(s.function[i].sites > 0);
	for (uint32_t i = 0; i < s.n_inlined; i++)
		assert_true(s.inlined[i].sites > 0);
	assert_int_equal(s.runtime != 0, s.py_minor >= 7);
}

static void test_pythons(void **state)
{
	glob_t g;

	(void)state;
	fix_pythons(&g);
	if (!g.gl_pathc) {
		print_message("SKIP: NO PYTHON FOUND ON THIS MACHINE\n");
		skip();
	}
	for (size_t i = 0; i < g.gl_pathc; i++)
		check_python(g.gl_pathv[i]);
	globfree(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_agreement),    cmocka_unit_test(test_counts),
		cmocka_unit_test(test_disagreement), cmocka_unit_test(test_no_scan),
		cmocka_unit_test(test_copies),       cmocka_unit_test(test_pythons),
	};

	return cmocka_run_group_tests(tests, NULL, fix_teardown);
}
