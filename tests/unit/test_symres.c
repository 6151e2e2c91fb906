// SPDX-License-Identifier: Apache-2.0
/*
 * The forked resolver: the modes, files that mean no good, a child that does not come back. Where
 * symbols are found: test_symsrc.c; what is made of them: test_symcheck.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gilfix.h"
#include "gilscan.h"
#include "symres.h"
#include "symsrc_dwfl.h"

#include <dirent.h>
#include <elf.h>
#include <signal.h>

static int resolve_more(const char *path, enum gt_probe_mode mode, unsigned int flags,
			struct gt_sites *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;

	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	err = gt_symres_file(fd, path, mode, flags, out);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
	close(fd);
	return err;
}

static int resolve(const char *path, enum gt_probe_mode mode, struct gt_sites *out)
{
	return resolve_more(path, mode, 0, out);
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" does not say \"%s\"", text, part);
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

	gt_symres_file(fd, path, GT_PROBE_SITES, 0, &sites);
	close(fd);
	return sites.is_python;
}

/* The child's sites are the same as those of a scan in this process. */
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
	assert_int_equal(here.n, there.n);
	assert_memory_equal(here.site, there.site, here.n * sizeof(here.site[0]));
	assert_int_equal(here.switch_cond, there.switch_cond);
	assert_int_equal(there.mode, GT_PROBE_SITES);
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
	if (!found) {
		print_message("no site of kind %d\n", kind);
		abort(); /* not fail_msg(): the analyser must see that it ends here */
	}
	return found;
}

static int flags_of(const struct gt_sites *s, int kind)
{
	return site_of(s, kind)->flags & ~GT_SITE_STEP;
}

static void assert_four(const struct gt_sites *s)
{
	assert_int_equal(s->n, 4);
	assert_int_equal(s->mode, GT_PROBE_FUNCTIONS);
	assert_int_equal(flags_of(s, GT_TAKE), GT_SITE_NOARG);
	assert_int_equal(flags_of(s, GT_ACQUIRE), GT_SITE_NOARG | GT_SITE_RETURN);
	assert_int_equal(flags_of(s, GT_RELEASE), GT_SITE_NOARG);
	assert_int_equal(flags_of(s, GT_DROPPED), GT_SITE_NOARG | GT_SITE_RETURN);
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
	assert_has(site_of(&s, GT_TAKE)->how, "entry of take_gil+4");
	assert_false(site_of(&s, GT_TAKE)->flags & GT_SITE_STEP);
#else
	fix_build("cc", "-shared -fPIC -O2 -mbranch-protection=standard -DFIX_TABLE", "bti.so",
		  path);
	resolve_well(path, GT_PROBE_FUNCTIONS, &s);
	assert_four(&s);
	assert_int_equal(skipped(path, &s), 0); /* paciasp is the landing pad */
#endif
}

/* ---- other ways ---- */

/* What the kernel must single-step is marked: calls through the GOT on x86-64. */
static void test_step(void **state)
{
	char path[PATH_MAX];
	struct gt_sites s;

	(void)state;
	fix_build("cc", "-shared -fPIC -O2 -DFIX_MINOR=12", "call.so", path);
	resolve_well(path, GT_PROBE_SITES, &s);
	for (uint32_t i = 0; i < s.n; i++)
		assert_false(s.site[i].flags & GT_SITE_STEP);
#ifdef __x86_64__
	fix_build("cc", "-shared -fPIC -O2 -DFIX_MINOR=12 -fno-plt", "got.so", path);
	resolve_well(path, GT_PROBE_SITES, &s);
	for (uint32_t i = 0; i < s.n; i++)
		assert_true(s.site[i].flags & GT_SITE_STEP);
#endif
}

/* Nothing is probed in the Python itself; in the C library that this program runs with it is. */
static void test_libc(void **state)
{
	char path[PATH_MAX], line[PATH_MAX + 128], *libc = NULL;
	struct gt_sites s;
	FILE *maps = fopen("/proc/self/maps", "re");

	(void)state;
	fix_build("cc", "-shared -fPIC -O2 -DFIX_MINOR=12", "libc.so", path);
	assert_int_equal(resolve(path, GT_PROBE_LIBC, &s), -ENOENT);
	assert_int_equal(s.n, 0);
	assert_true(s.is_python && s.mode == GT_PROBE_LIBC);
	assert_true(s.switch_cond == 88 || s.switch_cond == 96);
	fix_build("cc", "-shared -fPIC -O2 -DFIX_STATIC", "libc6.so", path);
	assert_int_equal(resolve(path, GT_PROBE_LIBC, &s), -ENOENT);
	assert_int_equal(s.switch_cond, 0);
	assert_has(s.why, "no fixed distance");

	assert_non_null(maps);
	while (!libc && fgets(line, sizeof(line), maps)) {
		line[strcspn(line, "\n")] = '\0';
		libc = strstr(line, "/libc.so") || strstr(line, "/libc-2") ? strchr(line, '/')
									   : NULL;
	}
	fclose(maps);
	if (!libc || resolve(libc, GT_PROBE_LIBC, &s)) {
		print_message("SKIP the rest: no glibc 2.34 or later here\n");
		return;
	}
	assert_int_equal(s.n, 3);
	assert_int_equal(s.mode, GT_PROBE_LIBC);
	assert_false(s.is_python);
	for (uint32_t i = 0; i < s.n; i++)
		assert_true(s.site[i].flags & GT_SITE_LIBC);
}

static void test_newer(void **state)
{
	char path[PATH_MAX];
	struct gt_sites s;

	(void)state;
	fix_build("cc", "-shared -fPIC -O2 -DFIX_MINOR=16", "known.so", path);
	resolve_well(path, GT_PROBE_AUTO, &s);
	assert_string_equal(s.why, "");
	fix_build("cc", "-shared -fPIC -O2 -DFIX_MINOR=17", "newer.so", path);
	resolve_well(path, GT_PROBE_AUTO, &s);
	assert_int_equal(s.mode, GT_PROBE_SITES);
	assert_has(s.why, "CPython 3.17 is newer than this giltrace knows");
}

/* CPython linked into a program that exports none of it: .symtab alone tells. */
static void test_executable(void **state)
{
	/* Real programs export a word or two: stdin, environ. */
	static const char *const options[] = {
		"-fPIE -pie -O2 -DFIX_MAIN -DFIX_MINOR=12",
		"-no-pie -O2 -DFIX_MAIN -DFIX_MINOR=12 -Wl,--export-dynamic-symbol=fix_locked",
	};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(options); i++) {
		struct gt_sites s;
		char path[PATH_MAX];

		fix_build("cc", options[i], "program", path);
		assert_int_equal(resolve(path, GT_PROBE_AUTO, &s), -ENOENT);
		assert_false(s.is_python);
		assert_int_equal(resolve_more(path, GT_PROBE_AUTO, GT_SYMRES_EXE, &s), 0);
		assert_true(s.is_python && s.mode == GT_PROBE_SITES);
		assert_int_equal(s.verdict, GT_VERDICT_AGREES);
		assert_int_equal(s.py_minor, 12);
		assert_int_equal(s.code_delta, s.site[0].vaddr - s.site[0].offset);
		assert_int_equal(fix_tool("strip", path, NULL, NULL, NULL), 0);
		assert_int_equal(resolve_more(path, GT_PROBE_AUTO, GT_SYMRES_EXE, &s), -ENOENT);
		assert_false(s.is_python);
		assert_has(s.why, "PyEval_RestoreThread is not among its exports");
	}
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
	for (int mode = GT_PROBE_AUTO; mode <= GT_PROBE_LIBC; mode++) {
		static const unsigned int flags = GT_SYMRES_DEEP | GT_SYMRES_EXE;

		/* Cut off: what was found, if anything, lies in the file. */
		for (size_t cut = 0; cut < m.size; cut += m.size / 16) {
			int err;

			write_file(bad, m.data, cut, (off_t)cut);
			err = resolve_more(bad, (enum gt_probe_mode)mode, flags, &s);
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
		resolve_more(bad, (enum gt_probe_mode)mode, flags, &s);
		if (mode == GT_PROBE_SITES)
			assert_has(s.why, "too much");
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

/* ---- a child that does not come back ---- */

/* Ends the first child of process `parent` but ourselves; in a process of its own. */
static void kill_child_of(pid_t parent)
{
	for (;;) {
		DIR *d = opendir("/proc");
		struct dirent *e;

		if (!d)
			_exit(1);
		while ((e = readdir(d))) {
			char path[300], line[512] = "";
			pid_t pid = atoi(e->d_name);
			int fd, ppid = 0;
			const char *p;

			snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
			fd = pid > 0 && pid != getpid() ? open(path, O_RDONLY | O_CLOEXEC) : -1;
			if (fd >= 0 && read(fd, line, sizeof(line) - 1) > 0 &&
			    (p = strrchr(line, ')')) && sscanf(p, ") %*c %d", &ppid) == 1 &&
			    ppid == parent && !kill(pid, SIGKILL))
				_exit(0);
			if (fd >= 0)
				close(fd);
		}
		closedir(d);
	}
}

/* What cannot be opened: a pipe that nobody writes to, where the debug file should be. */
static void make_trap(const char *name, char path[PATH_MAX])
{
	char debug[PATH_MAX], link[PATH_MAX + 32];

	fix_build("cc", "-shared -fPIC -O2 -DFIX_MINOR=12", name, path);
	fix_path(debug, "trap.debug");
	assert_int_equal(fix_tool("objcopy", "--only-keep-debug", path, debug, NULL), 0);
	assert_int_equal(fix_tool("strip", path, NULL, NULL, NULL), 0);
	snprintf(link, sizeof(link), "--add-gnu-debuglink=%s", debug);
	assert_int_equal(fix_tool("objcopy", link, path, NULL, NULL), 0);
	unlink(debug);
	assert_int_equal(mkfifo(debug, 0666), 0);
	assert_int_equal(chmod(debug, 0666), 0);
}

static void test_killed(void **state)
{
	char path[PATH_MAX];
	struct gt_sites s;
	pid_t killer, parent = getpid();

	(void)state;
	make_trap("killed.so", path);
	killer = fork();
	if (!killer)
		kill_child_of(parent);
	assert_int_equal(resolve(path, GT_PROBE_FUNCTIONS, &s), -EIO);
	assert_has(s.why, "signal 9");
	assert_int_equal(s.n, 0);
	assert_int_equal(waitpid(killer, NULL, 0), killer);
	fix_path(path, "trap.debug");
	unlink(path);
}

/* 20 seconds, in which nothing is done. The scan's sites were there before, and are used. */
static void test_time_out(void **state)
{
	char path[PATH_MAX];
	struct gt_sites s;

	(void)state;
	make_trap("late.so", path);
	resolve_well(path, GT_PROBE_AUTO, &s);
	assert_int_equal(s.mode, GT_PROBE_SITES);
	assert_int_equal(s.verdict, GT_VERDICT_NONE);
	assert_has(s.why, "its symbols had not ended after 20 s");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sites),       cmocka_unit_test(test_functions),
		cmocka_unit_test(test_landing_pad), cmocka_unit_test(test_step),
		cmocka_unit_test(test_libc),        cmocka_unit_test(test_newer),
		cmocka_unit_test(test_executable),  cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_too_large),   cmocka_unit_test(test_killed),
		cmocka_unit_test(test_time_out),
	};

	return cmocka_run_group_tests(tests, NULL, fix_teardown);
}
