// SPDX-License-Identifier: Apache-2.0
/*
 * The scan on libraries that are built here in many ways, and then run, so that the calls found
 * can be compared with the calls made; and on every Python of the machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gilfix.h"
#include "gilscan.h"
#include "insn.h"
#include "symsrc_dwfl.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#define SYMBOLS 64

static const char *const kind_name[] = {"", "wait", "acquire", "release", "yield"};

static int scan(const char *path, struct gt_sites *out)
{
	struct fix_map m = fix_map(path);
	struct gt_image img = fix_image(m);
	int err = gt_gilscan_identify(&img, path, out);

	if (!err)
		err = gt_gilscan_sites(&img, out);
	fix_unmap(m);
	return err;
}

static void scan_well(const char *path, struct gt_sites *out)
{
	if (scan(path, out))
		fail_msg("%s: %s", path, out->why);
	assert_true(out->n > 0);
}

static unsigned int count(const struct gt_sites *s, int kind)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < s->n; i++)
		n += s->site[i].kind == kind;
	return n;
}

static void assert_same_sites(const char *path, const struct gt_sites *a, const struct gt_sites *b)
{
	if (a->n != b->n || a->switch_cond != b->switch_cond)
		fail_msg("%s: %u and %u sites", path, a->n, b->n);
	for (uint32_t i = 0; i < a->n; i++)
		if (memcmp(&a->site[i], &b->site[i], sizeof(a->site[i])))
			fail_msg("%s: site %u differs: %s / %s", path, i, a->site[i].how,
				 b->site[i].how);
}

static void assert_same_when_stripped(const char *path, const struct gt_sites *sites)
{
	char stripped[PATH_MAX];
	struct gt_sites s;

	fix_path(stripped, "stripped");
	if (fix_tool("strip", "-o", stripped, path, NULL))
		fail_msg("strip %s failed", path);
	scan_well(stripped, &s);
	assert_true(s.stripped);
	assert_same_sites(path, sites, &s);
	unlink(stripped);
}

/* ---- the fixture, run ---- */

struct hit {
	uintptr_t ret; /* where the call returns to */
	void *arg;
	int api;
};

enum { HIT_SIGNAL, HIT_WAIT, HIT_TIMEDWAIT };

static struct hit hits[64];
static size_t nhits;
static int *lock_word; /* of the fixture's lock: a wait ends when somebody has set it free */

static int hit(int api, void *arg, void *ret)
{
	if (nhits < GT_ARRAY_SIZE(hits))
		hits[nhits++] = (struct hit){(uintptr_t)ret, arg, api};
	return 0;
}

static int hook_signal(void *c)
{
	return hit(HIT_SIGNAL, c, __builtin_return_address(0));
}

static int hook_wait(void *c, void *m)
{
	(void)m;
	return hit(HIT_WAIT, c, __builtin_return_address(0));
}

static int hook_timedwait(void *c, void *m, void *until)
{
	(void)m;
	(void)until;
	if (lock_word)
		*lock_word = 0;
	return hit(HIT_TIMEDWAIT, c, __builtin_return_address(0));
}

/* Puts the hooks into the library's own slots of the GOT. */
static void hook(const char *path, uintptr_t base)
{
	static const struct {
		const char *name;
		int (*fn1)(void *);
		int (*fn2)(void *, void *);
		int (*fn3)(void *, void *, void *);
	} hooks[] = {
		{"pthread_cond_signal", hook_signal, NULL, NULL},
		{"pthread_cond_wait", NULL, hook_wait, NULL},
		{"pthread_cond_timedwait", NULL, NULL, hook_timedwait},
	};
	struct fix_map m = fix_map(path);
	struct gt_image img = fix_image(m);
	uint64_t slot, sym;
	int got;

	for (uint64_t i = 0; (got = gt_image_got_slot(&img, i, &slot, &sym)) >= 0; i++) {
		for (size_t k = 0; got && k < GT_ARRAY_SIZE(hooks); k++) {
			uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);
			uintptr_t at = base + slot, page = at & ~(size - 1);
			uintptr_t fn = hooks[k].fn1   ? (uintptr_t)hooks[k].fn1
				       : hooks[k].fn2 ? (uintptr_t)hooks[k].fn2
						      : (uintptr_t)hooks[k].fn3;

			if (!gt_image_symbol_is(&img, sym, hooks[k].name))
				continue;
			assert_int_equal(mprotect((void *)page, size, PROT_READ | PROT_WRITE), 0);
			memcpy((void *)at, &fn, sizeof(fn));
		}
	}
	fix_unmap(m);
}

/* Kind of the site whose instruction is a call that returns to `ret`; 0: none. */
static int kind_at(const char *path, const struct gt_sites *s, uint64_t ret, int *flags)
{
	struct fix_map m = fix_map(path);
	struct gt_image img = fix_image(m);
	int kind = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		const uint8_t *p = gt_image_at(&img, s->site[i].vaddr, 8);
		struct gt_insn in;

		assert_non_null(p);
		assert_int_equal(gt_insn_decode(img.machine, p, 8, s->site[i].vaddr, &in), 0);
		assert_true(p == m.data + s->site[i].offset);
		if (s->site[i].vaddr + in.len == ret) {
			kind = s->site[i].kind;
			*flags = s->site[i].flags;
		}
	}
	fix_unmap(m);
	return kind;
}

/* The wait may be called in a function of its own, whose caller is the site then. */
static void check_hit(const char *path, const struct gt_sites *s, uintptr_t base,
		      void *const *address, const struct hit *h)
{
	int cond = h->arg == address[0], switch_cond = h->arg == address[1], flags = 0, want = 0;
	int kind = kind_at(path, s, h->ret - base, &flags);

	if (h->api == HIT_SIGNAL)
		want = switch_cond ? GT_ACQUIRE : GT_RELEASE;
	else if (h->api == HIT_WAIT)
		want = GT_YIELD;
	else if (cond && kind) /* not wrapped */
		want = GT_WAIT;
	if (cond || switch_cond) {
		if (kind != want)
			fail_msg("%s: a call that is %s was found as %s", path, kind_name[want],
				 kind_name[kind]);
	} else if (kind == GT_ACQUIRE || kind == GT_WAIT ||
		   (kind && (!s->switch_cond || !(flags & GT_SITE_MATCH)))) {
		fail_msg("%s: a call of the queue was found as a sure %s", path, kind_name[kind]);
	}
}

/* Loads it, takes and drops the lock in all its ways, and compares what was called. */
static void run_fixture(const char *path, const char *options, const struct gt_sites *s)
{
	static const char *const plain[] = {"fix_put", "fix_wake", "fix_get"};
	void *lib = dlopen(path, RTLD_NOW), *(*save)(void), **address, *thread;
	void (*restore)(void *), (*release)(void *), (*init)(void), (*fn)(void);
	struct link_map *map;
	size_t seen[GT_YIELD + 1] = {0};

	if (!lib) {
		print_message("%s\n", dlerror());
		abort();
	}
	assert_int_equal(dlinfo(lib, RTLD_DI_LINKMAP, &map), 0);
	*(void **)&init = dlsym(lib, "fix_init");
	*(void **)&restore = dlsym(lib, "PyEval_RestoreThread");
	*(void **)&release = dlsym(lib, "PyEval_ReleaseThread");
	*(void **)&save = dlsym(lib, "PyEval_SaveThread");
	address = dlsym(lib, "fix_address");
	lock_word = dlsym(lib, "fix_locked");
	assert_true(init && restore && release && save && address && lock_word);
	hook(path, map->l_addr);
	nhits = 0;
	init();
	lock_word = *(int **)(void *)lock_word;
	thread = *(void **)dlsym(lib, "fix_thread");
	for (int round = 0; round < 2; round++) {
		int *drop_request = *(int **)dlsym(lib, "fix_drop_request");

		*lock_word = round; /* in the second round it must wait */
		restore(thread);
		*lock_word = 1;
		*drop_request = 1;
		if (round)
			release(thread);
		else
			assert_ptr_equal(save(), thread);
	}
	**(int **)dlsym(lib, "fix_ending") = 1; /* FIX_ENDING: take_gil gives it back itself */
	restore(thread);
	assert_int_equal(*lock_word, !strstr(options, "FIX_ENDING"));
	for (size_t i = 0; i < GT_ARRAY_SIZE(plain); i++) {
		*(void **)&fn = dlsym(lib, plain[i]);
		fn();
	}
	for (size_t i = 0; i < nhits; i++) {
		check_hit(path, s, map->l_addr, address, &hits[i]);
		seen[hits[i].api] += hits[i].arg != address[2];
	}
	assert_true(seen[HIT_SIGNAL] >= 4 && seen[HIT_WAIT] == 2 && seen[HIT_TIMEDWAIT] == 1);
	dlclose(lib);
}

struct variant {
	const char *options;
	int minor;
	uint32_t switch_cond;
};

#if defined(__aarch64__)
#define DISTANCE 96
#else
#define DISTANCE 88
#endif

static const struct variant variants[] = {
	{"-O0 -DFIX_MINOR=12", 12, DISTANCE},
	{"-O1 -DFIX_MINOR=11", 11, DISTANCE},
	{"-O2 -DFIX_MINOR=12", 12, DISTANCE},
	{"-O3 -DFIX_MINOR=13", 13, DISTANCE},
	{"-Os -Wl,-soname,libpython3.9.so.1.0", 9, DISTANCE},
	{"-O2 -fno-plt -DFIX_MINOR=11", 11, DISTANCE},
	{"-O0 -fno-plt -DFIX_MINOR=11", 11, DISTANCE},
	{"-O2 -DFIX_ENDING -DFIX_MINOR=13", 13, DISTANCE},
	{"-O2 -DFIX_COLD -DFIX_MINOR=13", 13, DISTANCE},
	{"-O2 -DFIX_IMPL -DFIX_ENDING -DFIX_MINOR=13", 13, DISTANCE},
	{"-O3 -DFIX_FREE -DFIX_ENDING -DFIX_MINOR=14", 14, DISTANCE},
	{"-O0 -DFIX_FREE -DFIX_ENDING -DFIX_MINOR=14", 14, DISTANCE},
	{"-O2 -fno-omit-frame-pointer -DFIX_MINOR=10", 10, DISTANCE},
	{"-O2 -flto -DFIX_MINOR=10", 10, DISTANCE},
	{"-O2 -Wl,--hash-style=sysv -DFIX_MINOR=10", 10, DISTANCE},
	{"-O2 -Wl,-Ttext-segment=0x10000000 -DFIX_MINOR=10", 10, DISTANCE},
	{"-O2 -DFIX_STATIC", 6, 0},
	{"-O0 -DFIX_STATIC", 6, 0},
	{"-Os -fno-plt -DFIX_STATIC", 6, 0},
	{"-O2 -DFIX_STATIC -DFIX_ENDING -Wl,-soname,libpython3.6m.so.1.0", 6, 0},
#ifdef __x86_64__
	{"-O2 -fcf-protection=full -DFIX_MINOR=11", 11, DISTANCE},
	{"-O2 -fcf-protection=full -fno-plt -DFIX_MINOR=11", 11, DISTANCE},
	{"-O0 -fcf-protection=full -DFIX_MINOR=11", 11, DISTANCE},
#else
	{"-O2 -mbranch-protection=standard -DFIX_MINOR=11", 11, DISTANCE},
#endif
};

/* clang needs a linker plugin for -flto, which not every distribution's brings (Ubuntu 24.04). */
static int can_lto(const char *cc)
{
	char out[PATH_MAX];
	char *argv[] = {(char *)cc,   (char *)"-flto", (char *)"-shared",   (char *)"-o", out,
			(char *)"-x", (char *)"c",     (char *)"/dev/null", NULL};

	fix_path(out, "lto.so");
	return fix_run(argv, NULL) == 0;
}

static void check_variants(const char *cc)
{
	int lto = can_lto(cc);

	for (size_t i = 0; i < GT_ARRAY_SIZE(variants); i++) {
		const struct variant *v = &variants[i];
		char options[256], name[64], path[PATH_MAX];
		struct gt_sites s;

		if (!lto && strstr(v->options, "-flto")) {
			print_message("SKIP: %s cannot link with -flto here\n", cc);
			continue;
		}
		snprintf(options, sizeof(options), "-shared -fPIC %s", v->options);
		snprintf(name, sizeof(name), "%s-%zu.so", cc, i);
		fix_build(cc, options, name, path);
		scan_well(path, &s);
		if (s.py_major != 3 || s.py_minor != v->minor || s.switch_cond != v->switch_cond)
			fail_msg("%s %s: version %d.%d, distance %u", cc, options, s.py_major,
				 s.py_minor, s.switch_cond);
		print_message("%s %s: %u wait, %u acquire, %u release, %u yield\n", cc, v->options,
			      count(&s, GT_WAIT), count(&s, GT_ACQUIRE), count(&s, GT_RELEASE),
			      count(&s, GT_YIELD));
		assert_same_when_stripped(path, &s);
		run_fixture(path, options, &s);
	}
}

static void test_fixture_gcc(void **state)
{
	(void)state;
	check_variants("cc");
}

static void test_fixture_clang(void **state)
{
	(void)state;
	if (!fix_has("clang")) {
		print_message("SKIP: no clang here\n");
		skip();
	}
	check_variants("clang");
}

/* An executable at a fixed address. */
static void test_executable(void **state)
{
	char path[PATH_MAX];
	struct gt_sites s;

	(void)state;
	fix_build("cc", "-no-pie -rdynamic -O2 -DFIX_MAIN -DFIX_MINOR=11", "exec", path);
	scan_well(path, &s);
	assert_int_equal(count(&s, GT_ACQUIRE), 1);
	assert_int_equal(count(&s, GT_WAIT), 1);
	assert_true(s.site[0].vaddr > s.site[0].offset);
	assert_same_when_stripped(path, &s);
}

static int in_functions(const struct gt_image *img, const struct gt_symbol *sym, int n,
			uint64_t vaddr, int take)
{
	for (int i = 0; i < n; i++) {
		struct gt_range r;

		if ((sym[i].fn == GT_FN_TAKE) == take &&
		    !gt_image_function(img, sym[i].vaddr, &r) && vaddr >= r.start && vaddr < r.end)
			return 1;
	}
	return 0;
}

/*
 * Libraries for AArch64, built before (tests/fuzz/corpus/gilscan, not stripped): what was found
 * must be a call or jump in the function that the symbol table names.
 */
static void check_foreign(const char *name, uint32_t switch_cond, const unsigned int kinds[5])
{
	const char *source = getenv("GT_SOURCE_DIR");
	struct gt_symbol sym[SYMBOLS];
	char path[PATH_MAX];
	struct gt_sites s;
	struct fix_map m;
	struct gt_image img;
	int fd, n;

	snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/gilscan/%s", source ? source : ".",
		 name);
	scan_well(path, &s);
	assert_int_equal(s.machine, EM_AARCH64);
	assert_int_equal(s.switch_cond, switch_cond);
	for (int k = GT_WAIT; k <= GT_YIELD; k++)
		if (count(&s, k) != kinds[k])
			fail_msg("%s: %u sites of kind %s, not %u", name, count(&s, k),
				 kind_name[k], kinds[k]);
	m = fix_map(path);
	img = fix_image(m);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = gt_symsrc_find(fd, path, sym, SYMBOLS);
	close(fd);
	assert_int_equal(n, 2);
	for (uint32_t i = 0; i < s.n; i++) {
		const struct gt_site *site = &s.site[i];
		const uint8_t *p = gt_image_at(&img, site->vaddr, 4);
		int take = site->kind == GT_WAIT || site->kind == GT_ACQUIRE;
		struct gt_insn in;

		assert_non_null(p);
		assert_int_equal(gt_insn_decode(EM_AARCH64, p, 4, site->vaddr, &in), 0);
		assert_true(in.kind == GT_INSN_CALL || in.kind == GT_INSN_JUMP ||
			    in.kind == GT_INSN_CALL_REG || in.kind == GT_INSN_JUMP_REG);
		if (take && !in_functions(&img, sym, n, site->vaddr, 1))
			fail_msg("%s: not in take_gil: %s", name, site->how);
	}
	fix_unmap(m);
}

static void test_aarch64(void **state)
{
	static const unsigned int inlined[5] = {0, 1, 1, 4, 1}, ending[5] = {0, 1, 1, 5, 1},
				  only[5] = {0, 1, 1, 1, 1};

	(void)state;
	check_foreign("aarch64-o2.so", 96, inlined);
	check_foreign("aarch64-o0.so", 96, inlined);
	check_foreign("aarch64-noplt.so", 96, ending);
	check_foreign("aarch64-musl.so", 88, inlined);
	/* -march=armv8.3-a -mbranch-protection=standard -Wl,-z,pac-plt: retaa, autia1716 in stubs
	 */
	check_foreign("aarch64-pac.so", 96, inlined);
	check_foreign("aarch64-static.so", 0, only);
}

/* ---- what must be refused ---- */

static void assert_refused(const char *path, const char *why)
{
	struct gt_sites s;

	assert_int_equal(scan(path, &s), -ENOENT);
	assert_int_equal(s.n, 0);
	if (!strstr(s.why, why))
		fail_msg("%s: \"%s\", not \"%s\"", path, s.why, why);
}

static void test_refused(void **state)
{
	char path[PATH_MAX];
	struct gt_sites s;

	(void)state;
	fix_build("cc", "-shared -fPIC -O2 -DFIX_PYTHON2", "python2.so", path);
	assert_refused(path, "interpreter_lock");
	assert_int_equal(scan(path, &s), -ENOENT);
	assert_true(s.is_python && s.python2 && s.py_major == 2);
	fix_build("cc", "-shared -fPIC -O2 -fvisibility=hidden -DEXPORT=", "hidden.so", path);
	assert_refused(path, "no CPython");
	fix_build("cc", "-shared -fPIC -O2 -Wl,-soname,libpython3.5m.so.1.0", "old.so", path);
	assert_refused(path, "3.5 is too old");
	fix_build("cc", "-shared -fPIC -O2 -Wl,--no-eh-frame-hdr -DFIX_MINOR=9", "bare.so", path);
	assert_refused(path, "eh_frame_hdr");
	fix_build("cc", "-shared -fPIC -O2 -DFIX_MINOR=9 -DFIX_UNREACHED", "unreached.so", path);
	assert_refused(path, "reached from PyEval_RestoreThread");
}

/* ---- real Pythons ---- */

/* With symbols: acquired and waiting lie in take_gil, and each drop_gil has a release. */
static void check_against_symbols(const char *path, const struct gt_sites *s)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), n;
	struct fix_map m = fix_map(path);
	struct gt_image img = fix_image(m);
	struct gt_symbol sym[SYMBOLS];

	n = gt_symsrc_find(fd, path, sym, SYMBOLS);
	close(fd);
	for (uint32_t i = 0; i < s->n && n > 0; i++) {
		const struct gt_site *site = &s->site[i];
		int take = site->kind == GT_WAIT || site->kind == GT_ACQUIRE;

		if (take && !in_functions(&img, sym, n, site->vaddr, 1))
			fail_msg("%s: not in take_gil: %s", path, site->how);
	}
	for (int k = 0; k < n; k++) {
		int want = sym[k].fn == GT_FN_TAKE ? GT_ACQUIRE : GT_RELEASE, found = 0;

		if (strstr(sym[k].name, ".part."))
			continue;
		for (uint32_t i = 0; i < s->n; i++)
			found |= s->site[i].kind == want &&
				 in_functions(&img, &sym[k], 1, s->site[i].vaddr,
					      want == GT_ACQUIRE);
		/* 3.13+: drop_gil may call drop_gil_impl, which signals. */
		if (!found && sym[k].fn != GT_FN_DROP)
			fail_msg("%s: no site in %s", path, sym[k].name);
	}
	fix_unmap(m);
}

static void check_python(const char *path)
{
	struct gt_sites s;

	if (strstr(path, "python2.")) {
		assert_refused(path, "interpreter_lock");
		return;
	}
	scan_well(path, &s);
	print_message("%s: 3.%d, %u wait, %u acquire, %u release, %u yield%s\n", path, s.py_minor,
		      count(&s, GT_WAIT), count(&s, GT_ACQUIRE), count(&s, GT_RELEASE),
		      count(&s, GT_YIELD), s.stripped ? " (stripped)" : "");
	assert_true(count(&s, GT_WAIT) >= 1 && count(&s, GT_ACQUIRE) >= 1);
	assert_true(count(&s, GT_RELEASE) >= 1 && count(&s, GT_YIELD) >= 1);
	assert_string_equal(s.why, ""); /* nothing was left undecided */
	assert_int_equal(s.switch_cond, s.py_minor == 6 ? 0 : s.machine == EM_AARCH64 ? 96 : 88);
	check_against_symbols(path, &s);
	if (s.machine ==
#ifdef __x86_64__
	    EM_X86_64
#else
	    EM_AARCH64
#endif
	)
		assert_same_when_stripped(path, &s);
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
		cmocka_unit_test(test_fixture_gcc), cmocka_unit_test(test_fixture_clang),
		cmocka_unit_test(test_executable),  cmocka_unit_test(test_aarch64),
		cmocka_unit_test(test_refused),     cmocka_unit_test(test_pythons),
	};

	return cmocka_run_group_tests(tests, NULL, fix_teardown);
}
