// SPDX-License-Identifier: Apache-2.0
/* The condition functions of the C libraries on this machine, and of libraries made for the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "emulated.h"
#include "gilfix.h"
#include "gilscan.h"
#include "insn.h"
#include "libcsites.h"

#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>

static const struct {
	const char *name;
	uint8_t kind;
} expected[] = {
	{"pthread_cond_signal", GT_RELEASE},
	{"pthread_cond_timedwait", GT_WAIT},
	{"pthread_cond_wait", GT_YIELD},
};

static int find(const char *path, struct gt_sites *out)
{
	struct fix_map m = fix_map(path);
	struct gt_image img = fix_image(m);
	int err;

	/* As in use: first asked what it is, which no libc is. */
	assert_int_equal(gt_gilscan_identify(&img, path, out), -ENOENT);
	err = gt_libcsites_find(&img, out);
	assert_int_equal(out->machine, img.machine);
	assert_int_equal(err ? 0 : 3, out->n);
	for (uint32_t i = 0; i < out->n; i++) {
		const struct gt_site *s = &out->site[i];
		struct gt_range fn;

		assert_int_equal(s->kind, expected[i].kind);
		assert_int_equal(s->flags & ~GT_SITE_STEP, GT_SITE_LIBC);
		assert_non_null(strstr(s->how, expected[i].name));
		assert_int_equal(s->vaddr - s->offset, out->code_delta);
		assert_int_equal(gt_image_export(&img, expected[i].name, &fn), 0);
		assert_int_equal(s->vaddr, gt_emulated_point(&img, &fn));
	}
	assert_int_equal(out->mode, err ? GT_PROBE_AUTO : GT_PROBE_LIBC);
	assert_true(!err == !out->why[0]);
	assert_true(err || out->switch_cond == 88 || out->switch_cond == 96);
	fix_unmap(m);
	return err;
}

/* The C library of this very process: the addresses are those that a program is linked with. */
static void test_own(void **state)
{
	struct gt_sites s;

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(expected); i++) {
		char *fn = dlsym(RTLD_DEFAULT, expected[i].name);
		Dl_info info;
		ptrdiff_t by;

		assert_non_null(fn);
		assert_true(dladdr(fn, &info));
		if (find(info.dli_fname, &s))
			fail_msg("%s: %s", info.dli_fname, s.why);
		by = (char *)info.dli_fbase + s.site[i].vaddr - fn;
		print_message("%s: %s+%td%s\n", info.dli_fname, expected[i].name, by,
			      s.site[i].flags & GT_SITE_STEP ? ", single-stepped" : "");
		assert_in_range(by, 0, 32);
		assert_int_equal(s.switch_cond, sizeof(pthread_cond_t) + sizeof(pthread_mutex_t));
	}
}

/* Does the function at `from` begin with nothing but a jump to `to`? */
static int only_jumps(const struct gt_image *img, const struct gt_range *from, uint64_t to)
{
	struct gt_insn in = {0};

	for (uint64_t at = from->start; at < from->end; at += in.len) {
		const uint8_t *p = gt_image_at(img, at, from->end - at);

		if (!p || gt_insn_decode(img->machine, p, from->end - at, at, &in))
			return 0;
		if (in.kind <= GT_INSN_STOP && in.kind != GT_INSN_OTHER)
			return in.kind == GT_INSN_JUMP && in.target == to;
	}
	return 0;
}

static void test_musl(void **state)
{
	struct gt_range wait, timedwait;
	struct gt_sites s;
	struct fix_map m;
	struct gt_image img;
	glob_t g;

	(void)state;
	if (glob("/lib/ld-musl-*.so.1", 0, NULL, &g)) {
		print_message("SKIP: no musl here\n");
		skip();
	}
	if (find(g.gl_pathv[0], &s))
		fail_msg("%s: %s", g.gl_pathv[0], s.why);
	m = fix_map(g.gl_pathv[0]);
	img = fix_image(m);
	assert_int_equal(gt_image_export(&img, "pthread_cond_wait", &wait), 0);
	assert_int_equal(gt_image_export(&img, "pthread_cond_timedwait", &timedwait), 0);
	/* libcsites.h says so, and the BPF program relies on it. */
	assert_true(only_jumps(&img, &wait, timedwait.start));
	for (uint32_t i = 0; i < s.n; i++)
		print_message("%s: %s%s\n", g.gl_pathv[0], s.site[i].how,
			      s.site[i].flags & GT_SITE_STEP ? ", single-stepped" : "");
	/* The same on AArch64, unlike in glibc. */
	assert_int_equal(s.switch_cond, 88);
	img.machine = EM_AARCH64;
	assert_int_equal(gt_libcsites_find(&img, &s), 0);
	assert_int_equal(s.switch_cond, 88);
	fix_unmap(m);
	globfree(&g);
}

/* ---- libraries of our own ---- */

static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* Compiles `source` into a library; `map` is a version script. */
static void build(const char *source, const char *map, char path[PATH_MAX])
{
	char c[PATH_MAX], script[PATH_MAX], option[PATH_MAX + 32];
	char *argv[] = {(char *)"cc",
			(char *)"-shared",
			(char *)"-fPIC",
			(char *)"-O2",
			(char *)"-nostdlib",
			(char *)"-fcf-protection=none",
			(char *)"-o",
			path,
			c,
			option,
			NULL};

	fix_path(path, "lib.so");
	fix_path(c, "lib.c");
	fix_path(script, "lib.map");
	write_text(c, source);
	write_text(script, map);
	snprintf(option, sizeof(option), "-Wl,--version-script=%s", script);
#ifndef __x86_64__
	argv[5] = (char *)"-O2";
#endif
	if (fix_run(argv, NULL))
		fail_msg("cannot compile %s", c);
}

#define FUNCTION(name, value) "int " name "(char *p) { p[" value "]++; return " value "; }\n"
#define OTHERS                FUNCTION("pthread_cond_timedwait", "8") FUNCTION("pthread_cond_wait", "9")
#define VERSIONS              "V1 { global: *; }; V2 { } V1;"

/* By the constant that the function returns: a byte of its code, or in an AArch64 movz to w0. */
static int returns(const struct gt_image *img, const struct gt_range *fn, uint8_t value)
{
	const size_t n = fn->end - fn->start;
	const uint8_t *p = gt_image_at(img, fn->start, n);

	assert_non_null(p);
#ifdef __aarch64__
	for (size_t i = 0; i + 4 <= n; i += 4)
		if (gt_get_le32(p + i) == (0x52800000 | (uint32_t)value << 5))
			return 1;
	return 0;
#else
	return memchr(p, value, n) != NULL;
#endif
}

static void test_versions(void **state)
{
	/* In both orders, as the order in the file is the linker's affair. */
	static const char *const versions[] = {
		"__asm__(\".symver old,pthread_cond_signal@V1\\n"
		".symver new,pthread_cond_signal@@V2\");",
		"__asm__(\".symver new,pthread_cond_signal@@V2\\n"
		".symver old,pthread_cond_signal@V1\");",
	};
	char path[PATH_MAX], source[1024];
	struct gt_range fn;
	struct gt_sites s;
	struct fix_map m;
	struct gt_image img;

	(void)state;
	for (int order = 0; order < 2; order++) {
		snprintf(source, sizeof(source), "%s%s%s%s%s", FUNCTION("old", "0x55"),
			 FUNCTION("new", "0x66"), OTHERS, versions[order], "");
		build(source, VERSIONS, path);
		assert_int_equal(find(path, &s), 0);
		m = fix_map(path);
		img = fix_image(m);
		assert_int_equal(gt_image_export(&img, "pthread_cond_signal", &fn), 0);
		assert_true(returns(&img, &fn, 0x66));
		assert_false(returns(&img, &fn, 0x55));
		assert_int_equal(gt_image_export(&img, "pthread_cond_signa", &fn), -ENOENT);
		assert_int_equal(gt_image_export(&img, "pthread_cond_signal@@V2", &fn), -ENOENT);
		img.machine = EM_AARCH64;
		assert_int_equal(gt_libcsites_find(&img, &s), 0);
		assert_int_equal(s.switch_cond, 96);
		/* Without their table all are alike, and it is read no further than it goes. */
		img.nversions = 0;
		assert_int_equal(gt_image_export(&img, "pthread_cond_signal", &fn), 0);
		fix_unmap(m);
	}
	/* None but an old one: nothing that a program could be linked with today. */
	build(FUNCTION("old", "1") OTHERS "__asm__(\".symver old,pthread_cond_signal@V1\");",
	      VERSIONS, path);
	assert_int_equal(find(path, &s), -ENOENT);
	assert_non_null(strstr(s.why, "pthread_cond_signal"));
}

static void test_none(void **state)
{
	static const char *const sources[] = {
		"int nothing;",
		OTHERS,
		FUNCTION("pthread_cond_signal", "1") FUNCTION("pthread_cond_timedwait", "2"),
		/* No functions of that name: a variable, an indirect function, an import. */
		OTHERS "int pthread_cond_signal = 1;",
		OTHERS
		"static int one(void) { return 1; } static int (*choose(void))(void) { return "
		"one; } int pthread_cond_signal(void) __attribute__((ifunc(\"choose\")));",
		OTHERS
		"int pthread_cond_signal(void); int call(void) { return pthread_cond_signal() "
		"+ 1; }",
	};
	char path[PATH_MAX];
	struct gt_sites s;

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(sources); i++) {
		build(sources[i], "{ global: *; };", path);
		assert_int_equal(find(path, &s), -ENOENT);
		assert_non_null(strstr(s.why, "does not define pthread_cond_"));
	}
	/* What giltrace calls a Python is none either. */
	fix_build("cc", "-shared -fPIC -O2 -DFIX_MINOR=12", "python.so", path);
	{
		struct fix_map m = fix_map(path);
		struct gt_image img = fix_image(m);

		assert_int_equal(gt_gilscan_identify(&img, path, &s), 0);
		assert_int_equal(gt_libcsites_find(&img, &s), -ENOENT);
		fix_unmap(m);
	}
}

/* ---- damage ---- */

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

/* Some bytes replaced, the same ones in every run; on the heap, for AddressSanitizer. */
static void test_mutated(void **state)
{
	static const uint64_t odd[] = {0, 1, 0x7f, 0xff, 0x7fffffff, 0xffffffff, UINT64_MAX};
	uint64_t seed = 0x9e3779b97f4a7c15;
	unsigned int found = 0, rounds = 20000;
	char path[PATH_MAX];
	struct fix_map m;
	uint8_t *p;

	(void)state;
	build(FUNCTION("old", "0x55") FUNCTION("new", "0x66") OTHERS
	      "__asm__(\".symver old,pthread_cond_signal@V1\\n"
	      ".symver new,pthread_cond_signal@@V2\");",
	      VERSIONS, path);
	m = fix_map(path);
	p = malloc(m.size);
	assert_non_null(p);
	for (unsigned int round = 0; round < rounds; round++) {
		static struct gt_sites s;
		struct gt_image img;
		const char *why;
		int err;

		memcpy(p, m.data, m.size);
		for (unsigned int k = 0; k < 1 + round % 4; k++) {
			uint64_t r = next_random(&seed);
			size_t width = (size_t)1 << (r & 3);
			/* Half of them in the file's head, where the tables are. */
			size_t at = (r >> 8) % ((r & 4 ? 1024 : m.size) - width);
			uint64_t v =
				r & 8 ? odd[(r >> 4) % GT_ARRAY_SIZE(odd)] : next_random(&seed);

			memcpy(p + at, &v, width);
		}
		if (gt_image_open(&img, p, m.size, &why))
			continue;
		memset(&s, 0, sizeof(s));
		err = gt_libcsites_find(&img, &s);
		assert_true(err ? err == -ENOENT && s.why[0] && !s.n : s.n == 3);
		for (uint32_t i = 0; i < s.n; i++)
			assert_true(s.site[i].offset < m.size);
		found += !err;
	}
	/* Neither all nor nothing was damaged. */
	assert_in_range(found, rounds / 100, rounds - rounds / 100);
	free(p);
	fix_unmap(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own),      cmocka_unit_test(test_musl),
		cmocka_unit_test(test_versions), cmocka_unit_test(test_none),
		cmocka_unit_test(test_mutated),
	};

	return cmocka_run_group_tests(tests, NULL, fix_teardown);
}
