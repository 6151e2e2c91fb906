// SPDX-License-Identifier: Apache-2.0
/* The forked resolver: both modes, debug files, hostile files, and a live Python. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gilfix.h"
#include "gilscan.h"
#include "pytarget.h"
#include "spawn.h"
#include "symres.h"
#include "symsrc_dwfl.h"

#include <elf.h>
#include <time.h>

static int resolve(const char *path, enum gt_probe_mode mode, struct gt_sites *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;

	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	err = gt_symres_file(fd, path, mode, out);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
	close(fd);
	return err;
}

static void resolve_well(const char *path, enum gt_probe_mode mode, struct gt_sites *out)
{
	int err = resolve(path, mode, out);

	if (err)
		fail_msg("%s: %s: %s", path, strerror(-err), out->why);
	assert_true(out->n > 0);
}

static int is_python(const char *path)
{
	static struct gt_sites sites;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	gt_symres_file(fd, path, GT_PROBE_SITES, &sites);
	close(fd);
	return sites.is_python;
}

/* The child's answer is the same as that of a scan in this process. */
static void test_sites(void **state)
{
	static struct gt_sites here, there;
	char path[PATH_MAX];
	struct gt_image img;
	struct fix_map m;

	(void)state;
	fix_build("cc", "-shared -fPIC -O2 -DFIX_MINOR=12", "sites.so", path);
	resolve_well(path, GT_PROBE_SITES, &there);
	m = fix_map(path);
	img = fix_image(m);
	assert_int_equal(gt_gilscan_identify(&img, path, &here), 0);
	assert_int_equal(gt_gilscan_sites(&img, &here), 0);
	assert_memory_equal(&here, &there, sizeof(here));
	fix_unmap(m);
	assert_int_equal(is_python(path), 1);
	assert_int_equal(is_python("/bin/sh"), 0);
	assert_int_equal(is_python("/dev/null"), 0);
	assert_int_equal(is_python("/"), 0);
}

/* ---- function mode ---- */

static const struct gt_site *site_of(const struct gt_sites *s, int kind)
{
	const struct gt_site *found = NULL;

	for (uint32_t i = 0; i < s->n; i++) {
		if (s->site[i].kind != kind)
			continue;
		assert_null(found);
		found = &s->site[i];
	}
	assert_non_null(found);
	return found;
}

static void assert_four(const struct gt_sites *s)
{
	assert_int_equal(s->n, 4);
	assert_int_equal(site_of(s, GT_TAKE)->flags, GT_SITE_NOARG);
	assert_int_equal(site_of(s, GT_ACQUIRE)->flags, GT_SITE_NOARG | GT_SITE_RETURN);
	assert_int_equal(site_of(s, GT_RELEASE)->flags, GT_SITE_NOARG);
	assert_int_equal(site_of(s, GT_DROPPED)->flags, GT_SITE_NOARG | GT_SITE_RETURN);
	assert_int_equal(site_of(s, GT_TAKE)->offset, site_of(s, GT_ACQUIRE)->offset);
	assert_int_equal(site_of(s, GT_RELEASE)->offset, site_of(s, GT_DROPPED)->offset);
}

/* How many bytes behind the symbol the probe on take_gil sits. */
static uint64_t skipped(const char *path, const struct gt_sites *s)
{
	struct gt_symbol sym[8];
	int fd = open(path, O_RDONLY | O_CLOEXEC), n = gt_symsrc_find(fd, path, sym, 8);

	close(fd);
	for (int i = 0; i < n; i++)
		if (sym[i].fn == GT_FN_TAKE)
			return site_of(s, GT_TAKE)->vaddr - sym[i].vaddr;
	fail_msg("%s: no take_gil", path);
	return 0;
}

static void test_functions(void **state)
{
	struct gt_sites s;
	char path[PATH_MAX];

	(void)state;
	fix_build("cc", "-shared -fPIC -O2 -fcf-protection=none -DFIX_MINOR=12", "fn.so", path);
	resolve_well(path, GT_PROBE_FUNCTIONS, &s);
	assert_four(&s);
	assert_int_equal(skipped(path, &s), 0);
	/* drop_body is inlined into PyEval_ReleaseThread: that must be said. */
	assert_non_null(strstr(s.why, "inlined in 1 place"));

	/* One event, one probe: not both of drop_gil and drop_gil_impl, which it calls. */
	fix_build("cc", "-shared -fPIC -O2 -DFIX_IMPL -DFIX_MINOR=13", "impl.so", path);
	resolve_well(path, GT_PROBE_FUNCTIONS, &s);
	assert_four(&s);
	assert_non_null(strstr(site_of(&s, GT_RELEASE)->how, "entry of drop_gil"));
	assert_null(strstr(site_of(&s, GT_RELEASE)->how, "impl"));

	fix_build("cc", "-shared -fPIC -O0 -DFIX_MINOR=12", "fn0.so", path);
	resolve_well(path, GT_PROBE_FUNCTIONS, &s);
	assert_four(&s);
}

static void test_landing_pad(void **state)
{
	struct gt_sites s;
	char path[PATH_MAX];

	(void)state;
#ifdef __x86_64__
	fix_build("cc",
		  "-shared -fPIC -O2 -fcf-protection=full -fno-omit-frame-pointer -DFIX_TABLE",
		  "cet.so", path);
	resolve_well(path, GT_PROBE_FUNCTIONS, &s);
	assert_four(&s);
	assert_int_equal(skipped(path, &s), 4); /* endbr64; push */
	assert_non_null(strstr(site_of(&s, GT_TAKE)->how, "landing pad"));
#else
	fix_build("cc", "-shared -fPIC -O2 -mbranch-protection=standard -DFIX_TABLE", "bti.so",
		  path);
	resolve_well(path, GT_PROBE_FUNCTIONS, &s);
	assert_four(&s);
	assert_int_equal(skipped(path, &s), 0); /* paciasp is the landing pad */
#endif
}

static void test_names(void **state)
{
	static const struct {
		const char *name;
		int fn; /* -1: none */
	} cases[] = {
		{"take_gil", GT_FN_TAKE},
		{"drop_gil", GT_FN_DROP},
		{"drop_gil_impl", GT_FN_DROP_IMPL},
		{"take_gil.constprop.0", GT_FN_TAKE},
		{"take_gil.lto_priv.0", GT_FN_TAKE},
		{"take_gil.lto_priv.0.constprop.1", GT_FN_TAKE},
		{"drop_gil.isra.0", GT_FN_DROP},
		{"drop_gil.part.0", GT_FN_DROP},
		{"drop_gil.llvm.1234567890123456789", GT_FN_DROP},
		{"drop_gil_impl.constprop.0", GT_FN_DROP_IMPL},
		{"take_gil.cold", -1},
		{"drop_gil.isra.0.cold", -1},
		{"take_gil.cold.0", -1},
		{"take_gil_", -1},
		{"take_gils", -1},
		{"mytake_gil", -1},
		{"drop_gil.", -1},
		{"drop_gil.other.0", -1},
		{"drop_gil_imp", -1},
		{"", -1},
	};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(cases); i++) {
		enum gt_gil_fn fn;
		int got = gt_symsrc_is_gil_fn(cases[i].name, &fn) ? (int)fn : -1;

		if (got != cases[i].fn)
			fail_msg("\"%s\": %d", cases[i].name, got);
	}
}

/* Symbols in a file of their own, named by the stripped one. */
static void test_debug_file(void **state)
{
	char path[PATH_MAX], debug[PATH_MAX], link[PATH_MAX + 32], stripped[PATH_MAX];
	struct gt_sites s, full;

	(void)state;
	fix_build("cc", "-shared -fPIC -O2 -g -DFIX_MINOR=12", "full.so", path);
	resolve_well(path, GT_PROBE_FUNCTIONS, &full);
	fix_path(stripped, "stripped.so");
	fix_path(debug, "stripped.so.debug");
	assert_int_equal(fix_tool("strip", "-o", stripped, path, NULL), 0);
	assert_int_equal(resolve(stripped, GT_PROBE_FUNCTIONS, &s), -ENOENT);
	assert_int_equal(s.n, 0);
	assert_true(s.is_python && s.stripped);
	assert_non_null(strstr(s.why, "--probe=sites"));

	assert_int_equal(fix_tool("objcopy", "--only-keep-debug", path, debug, NULL), 0);
	snprintf(link, sizeof(link), "--add-gnu-debuglink=%s", debug);
	assert_int_equal(fix_tool("objcopy", link, stripped, NULL, NULL), 0);
	resolve_well(stripped, GT_PROBE_FUNCTIONS, &s);
	assert_four(&s);
	assert_int_equal(site_of(&s, GT_TAKE)->vaddr, site_of(&full, GT_TAKE)->vaddr);
	assert_int_equal(site_of(&s, GT_RELEASE)->offset, site_of(&full, GT_RELEASE)->offset);

	if (geteuid()) {
		print_message("SKIP the rest: not root\n");
		return;
	}
	/* The child is nobody: what root alone may read does not help it. */
	assert_int_equal(chmod(debug, 0600), 0);
	assert_int_equal(resolve(stripped, GT_PROBE_FUNCTIONS, &s), -ENOENT);
}

/* MiniDebugInfo, as in Fedora: the symbols, compressed, in a section of the file. */
static void test_mini_debug_info(void **state)
{
	char path[PATH_MAX], mini[PATH_MAX], add[PATH_MAX + 32], stripped[PATH_MAX];
	struct gt_sites s;

	(void)state;
	if (!fix_has("xz")) {
		print_message("SKIP: no xz here\n");
		skip();
	}
	fix_build("cc", "-shared -fPIC -O2 -DFIX_MINOR=12", "mini.so", path);
	fix_path(mini, "mini");
	fix_path(stripped, "mini-stripped.so");
	assert_int_equal(fix_tool("strip", "-o", stripped, path, NULL), 0);
	assert_int_equal(fix_tool("objcopy", "--only-keep-debug", path, mini, NULL), 0);
	assert_int_equal(fix_tool("xz", "-f", mini, NULL, NULL), 0);
	snprintf(add, sizeof(add), "--add-section=.gnu_debugdata=%s.xz", mini);
	assert_int_equal(fix_tool("objcopy", add, stripped, NULL, NULL), 0);
	resolve_well(stripped, GT_PROBE_FUNCTIONS, &s);
	assert_four(&s);
}

/* ---- files that mean no good ---- */

static void write_file(const char *path, const void *data, size_t size, off_t length)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, size), (ssize_t)size);
	assert_int_equal(ftruncate(fd, length), 0);
	close(fd);
}

static void test_hostile(void **state)
{
	char path[PATH_MAX], bad[PATH_MAX];
	struct gt_sites s;
	struct fix_map m;
	uint8_t *p;

	(void)state;
	fix_build("cc", "-shared -fPIC -O2 -DFIX_MINOR=12", "good.so", path);
	m = fix_map(path);
	fix_path(bad, "bad.so");
	for (int mode = GT_PROBE_SITES; mode <= GT_PROBE_FUNCTIONS; mode++) {
		/* Cut off: what was found, if anything, lies in the file. */
		for (size_t cut = 0; cut < m.size; cut += m.size / 16) {
			int err;

			write_file(bad, m.data, cut, (off_t)cut);
			err = resolve(bad, (enum gt_probe_mode)mode, &s);
			assert_true(!err || err == -ENOENT || err == -EIO);
			assert_true(err ? s.why[0] : s.n > 0);
			for (uint32_t i = 0; i < s.n; i++)
				assert_true(s.site[i].offset < cut);
		}
		/* Every segment claims 512 MiB, most of them zeros, executable. */
		p = calloc(1, m.size + 1);
		memcpy(p, m.data, m.size);
		for (unsigned int i = 0; i < gt_get_le16(p + 56); i++) {
			uint8_t *ph = p + gt_get_le64(p + 32) + i * sizeof(Elf64_Phdr);

			if (gt_get_le32(ph) != PT_LOAD)
				continue;
			gt_put_le32(ph + 4, PF_R | PF_X);
			gt_put_le64(ph + 32, 512u << 20);
		}
		write_file(bad, p, m.size, 512 << 20);
		free(p);
		resolve(bad, (enum gt_probe_mode)mode, &s);
		if (mode == GT_PROBE_SITES)
			assert_non_null(strstr(s.why, "too much"));
	}
	fix_unmap(m);
}

/* A file with more than it may have is refused without a look. */
static void test_too_large(void **state)
{
	char path[PATH_MAX];
	struct gt_sites s;

	(void)state;
	fix_path(path, "large");
	write_file(path,
		   "\x7f"
		   "ELF",
		   4, (off_t)2 << 30);
	assert_int_equal(resolve(path, GT_PROBE_SITES, &s), -ENOENT);
	assert_non_null(strstr(s.why, "1 GiB"));
}

/* ---- processes ---- */

static void test_live_python(void **state)
{
	char *const argv[] = {(char *)"python3", (char *)"-Sc",
			      (char *)"import os; os.write(1, b'x'); os.read(0, 1)", NULL};
	struct gt_pycache *cache = gt_pycache_new(GT_PROBE_SITES);
	struct gt_pytarget first, second;
	struct gt_proc proc;
	int in[2], out[2];
	pid_t pid;
	char c;

	(void)state;
	if (!fix_has("python3")) {
		print_message("SKIP: NO PYTHON FOUND ON THIS MACHINE\n");
		skip();
	}
	assert_non_null(cache);
	assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(out[1]);
	assert_int_equal(read(out[0], &c, 1), 1);
	assert_int_equal(gt_proc_open(pid, &proc), 0);
	assert_int_equal(gt_pytarget_find(cache, &proc, &first), 0);
	assert_true(first.sites->n > 0 && first.sites->is_python);
	assert_int_equal(gt_pytarget_find(cache, &proc, &second), 0);
	assert_ptr_equal(first.sites, second.sites); /* resolved once */
	print_message("%s: %u sites\n", first.map.path, first.sites->n);
	gt_proc_close(&proc);
	close(in[1]);
	close(out[0]);
	close(in[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	gt_pycache_free(cache);
}

static void test_no_python(void **state)
{
	char *const env[] = {NULL};
	struct gt_pycache *cache = gt_pycache_new(GT_PROBE_SITES);
	struct gt_pytarget target;
	struct spawned cat = spawn(env);
	struct gt_proc proc;

	(void)state;
	assert_int_equal(gt_proc_open(cat.pid, &proc), 0);
	assert_int_equal(gt_pytarget_find(cache, &proc, &target), -ENOEXEC);
	gt_proc_close(&proc);
	spawn_end(&cat);
	gt_pycache_free(cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sites),       cmocka_unit_test(test_functions),
		cmocka_unit_test(test_landing_pad), cmocka_unit_test(test_names),
		cmocka_unit_test(test_debug_file),  cmocka_unit_test(test_mini_debug_info),
		cmocka_unit_test(test_hostile),     cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_live_python), cmocka_unit_test(test_no_python),
	};

	return cmocka_run_group_tests(tests, NULL, fix_teardown);
}
