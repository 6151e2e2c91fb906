// SPDX-License-Identifier: Apache-2.0
/*
 * Where symbols are found - .symtab, .dynsym, debug files by name and by build-id, MiniDebugInfo -
 * and where they must not be taken from, above all not from the network; sections that mean no
 * good.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gilfix.h"
#include "symres.h"
#include "symsrc_dwfl.h"

#include <arpa/inet.h>
#include <elf.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>

static int resolve(const char *path, enum gt_probe_mode mode, struct gt_sites *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;

	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	err = gt_symres_file(fd, path, mode, GT_SYMRES_DEEP, out);
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

/* ---- where symbols are ---- */

static void write_file(const char *path, const void *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, size), (ssize_t)size);
	close(fd);
}

static void make_debug(const char *path, const char *debug)
{
	assert_int_equal(fix_tool("objcopy", "--only-keep-debug", path, debug, NULL), 0);
}

static void add_link(const char *path, const char *debug)
{
	char option[PATH_MAX + 32];

	snprintf(option, sizeof(option), "--add-gnu-debuglink=%s", debug);
	assert_int_equal(fix_tool("objcopy", option, path, NULL, NULL), 0);
}

/* Symbols in a file of their own, beside the stripped one. */
static void test_debug_file(void **state)
{
	static const struct {
		const char *id;     /* option of the linker */
		const char *folder; /* of the debug file */
		int link;           /* the stripped file names it */
		enum { INTACT, CHANGED, OTHER } is;
		int found;
	} cases[] = {
		{"none", "", 1, INTACT, 1},       {"none", ".debug/", 1, INTACT, 1},
		{"none", "", 1, CHANGED, 0}, /* the checksum is another */
		{"none", "", 0, INTACT, 0},  /* by its name alone it could be anybody's */
		{"0xbadcafe1", "", 1, INTACT, 1}, {"0xbadcafe1", "", 0, INTACT, 1},
		{"0xbadcafe1", "", 1, OTHER, 0}, /* the build-id is another */
	};
	char stripped[PATH_MAX], full[PATH_MAX], other[PATH_MAX], folder[PATH_MAX];

	(void)state;
	fix_build("cc", "-shared -fPIC -O2 -g -DFIX_MINOR=12 -Wl,--build-id=0x4321", "other.so",
		  other);
	fix_path(stripped, "stripped.so");
	fix_path(folder, ".debug");
	assert_int_equal(mkdir(folder, 0755), 0);
	for (size_t i = 0; i < GT_ARRAY_SIZE(cases); i++) {
		char debug[PATH_MAX], name[64], options[128];
		struct gt_sites s, wanted;
		int err;

		snprintf(options, sizeof(options),
			 "-shared -fPIC -O2 -g -DFIX_MINOR=12 -Wl,--build-id=%s", cases[i].id);
		fix_build("cc", options, "full.so", full);
		resolve_well(full, GT_PROBE_FUNCTIONS, &wanted);
		assert_int_equal(fix_tool("strip", "-o", stripped, full, NULL), 0);
		snprintf(name, sizeof(name), "%sstripped.so.debug", cases[i].folder);
		fix_path(debug, name);
		make_debug(full, debug);
		if (cases[i].link)
			add_link(stripped, debug);
		if (cases[i].is == CHANGED)
			assert_int_equal(truncate(debug, fix_map(debug).size + 1), 0);
		if (cases[i].is == OTHER)
			make_debug(other, debug);
		err = resolve(stripped, GT_PROBE_FUNCTIONS, &s);
		if (err != (cases[i].found ? 0 : -ENOENT))
			fail_msg("case %zu: %d, %s", i, err, s.why);
		assert_true(s.is_python && s.stripped);
		assert_string_equal(s.symbols_from, cases[i].found ? debug : "");
		if (cases[i].found) {
			assert_int_equal(s.n, wanted.n);
			assert_memory_equal(s.site, wanted.site, s.n * sizeof(s.site[0]));
		} else {
			assert_int_equal(s.n, 0);
			assert_non_null(strstr(s.why, "--probe=sites"));
		}
		unlink(debug);
	}
}

static void test_unreadable_debug_file(void **state)
{
	char path[PATH_MAX], debug[PATH_MAX];
	struct gt_sites s;

	(void)state;
	if (geteuid()) {
		print_message("SKIP: not root, so the child is nobody else\n");
		skip();
	}
	fix_build("cc", "-shared -fPIC -O2 -DFIX_MINOR=12", "secret.so", path);
	fix_path(debug, "secret.so.debug");
	make_debug(path, debug);
	assert_int_equal(fix_tool("strip", path, NULL, NULL, NULL), 0);
	add_link(path, debug);
	resolve_well(path, GT_PROBE_FUNCTIONS, &s);
	/* The child is nobody: what root alone may read does not help it. */
	assert_int_equal(chmod(debug, 0600), 0);
	assert_int_equal(resolve(path, GT_PROBE_FUNCTIONS, &s), -ENOENT);
}

/* Below an own /usr/lib/debug: first a file of another build, then the right one. */
static int in_own_namespace(const char *stripped, const char *wrong, const char *right)
{
	static const char *const folder = "/usr/lib/debug/.build-id/12",
				 *const debug = "/usr/lib/debug/.build-id/12/345678.debug";
	struct gt_sites s;
	int err;

	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/usr/lib/debug", "tmpfs", 0, "mode=755"))
		return 77;
	if (mkdir("/usr/lib/debug/.build-id", 0755) || mkdir(folder, 0755))
		return 1;
	if (fix_tool("cp", wrong, debug, NULL, NULL) ||
	    resolve(stripped, GT_PROBE_FUNCTIONS, &s) != -ENOENT || s.symbols_from[0])
		return 2;
	if (fix_tool("cp", right, debug, NULL, NULL))
		return 3;
	err = resolve(stripped, GT_PROBE_FUNCTIONS, &s);
	return err || s.n != 4 || strcmp(s.symbols_from, debug) ? 4 : 0;
}

static void test_build_id(void **state)
{
	char path[PATH_MAX], right[PATH_MAX], wrong[PATH_MAX];
	int status;
	pid_t pid;

	(void)state;
	fix_build("cc", "-shared -fPIC -O2 -DFIX_MINOR=12 -Wl,--build-id=0x1234567f", "wrong.so",
		  path);
	fix_path(wrong, "wrong");
	make_debug(path, wrong);
	fix_build("cc", "-shared -fPIC -O2 -DFIX_MINOR=12 -Wl,--build-id=0x12345678", "id.so",
		  path);
	fix_path(right, "right");
	make_debug(path, right);
	assert_int_equal(fix_tool("strip", path, NULL, NULL, NULL), 0);
	pid = fork();
	if (!pid)
		_exit(in_own_namespace(path, wrong, right));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		print_message("SKIP: cannot mount here (not root, or no /usr/lib/debug)\n");
		skip();
	}
	assert_int_equal(status, 0);
}

/* In .dynsym, where somebody exports what is static in CPython. */
static void test_dynsym(void **state)
{
	char path[PATH_MAX];
	struct gt_sites s;

	(void)state;
	fix_build("cc", "-shared -fPIC -O2 -DFIX_PLAIN -DFIX_MINOR=12 -Dstatic= -fgnu89-inline",
		  "dynsym.so", path);
	assert_int_equal(fix_tool("strip", path, NULL, NULL, NULL), 0);
	resolve_well(path, GT_PROBE_FUNCTIONS, &s);
	assert_string_equal(s.symbols_from, "the file itself (.dynsym)");
	assert_int_equal(s.n_functions, 2);
}

/* MiniDebugInfo, as in Fedora: the symbols, compressed, in a section of the file. */
static void test_mini_debug_info(void **state)
{
	char path[PATH_MAX], mini[PATH_MAX], xz[PATH_MAX + 8], add[PATH_MAX + 64];
	struct gt_sites s;

	(void)state;
	if (!fix_has("xz")) {
		print_message("SKIP: no xz here\n");
		skip();
	}
	fix_build("cc", "-shared -fPIC -O2 -DFIX_MINOR=12", "mini.so", path);
	fix_path(mini, "mini");
	snprintf(xz, sizeof(xz), "%s.xz", mini);
	make_debug(path, mini);
	assert_int_equal(fix_tool("strip", path, NULL, NULL, NULL), 0);
	assert_int_equal(fix_tool("xz", "-f", mini, NULL, NULL), 0);
	snprintf(add, sizeof(add), "--add-section=.gnu_debugdata=%s", xz);
	assert_int_equal(fix_tool("objcopy", add, path, mini, NULL), 0);
	resolve_well(mini, GT_PROBE_FUNCTIONS, &s);
	assert_int_equal(s.n, 4);
	assert_string_equal(s.symbols_from, "the file itself (.gnu_debugdata)");

	/* Cut off, or nothing of the kind: the scan goes on without. */
	for (off_t left = (off_t)fix_map(xz).size / 2; left > 1; left /= 3) {
		assert_int_equal(truncate(xz, left), 0);
		assert_int_equal(fix_tool("objcopy", add, path, mini, NULL), 0);
		assert_int_equal(resolve(mini, GT_PROBE_FUNCTIONS, &s), -ENOENT);
		resolve_well(mini, GT_PROBE_AUTO, &s);
		assert_int_equal(s.verdict, GT_VERDICT_NONE);
	}
}

/*
 * With a server named in the environment, nobody connects to it. A process of its own, as libdwfl
 * loads what it needs for that when a program starts.
 */
static void test_network(void **state)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pollfd p = {.fd = listener, .events = POLLIN};
	socklen_t len = sizeof(addr);
	char path[PATH_MAX], url[64], cache[PATH_MAX];
	int err;

	(void)state;
	assert_int_equal(bind(listener, (struct sockaddr *)&addr, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/", ntohs(addr.sin_port));
	fix_path(cache, "cache");
	assert_int_equal(mkdir(cache, 0777) | chmod(cache, 0777), 0);
	fix_path(path, "cache/cache_clean_interval_s"); /* the child could not write it */
	write_file(path, "86400", 5);
	assert_int_equal(chmod(path, 0666), 0);
	setenv("DEBUGINFOD_URLS", url, 1);
	setenv("DEBUGINFOD_CACHE_PATH", cache, 1);
	setenv("DEBUGINFOD_TIMEOUT", "2", 1);
	fix_build("cc", "-shared -fPIC -O2 -DFIX_MINOR=12 -Wl,--build-id=0x11223344", "net.so",
		  path);
	assert_int_equal(fix_tool("strip", path, NULL, NULL, NULL), 0);
	err = fix_tool("/proc/self/exe", "resolve", path, NULL, NULL);
	unsetenv("DEBUGINFOD_URLS");
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(err, 0);
	close(listener);
}

/* ---- sections that mean no good ---- */

/* .gnu_debuglink without an end, with a path, with a checksum cut off. */
static void test_hostile_link(void **state)
{
	static const struct {
		const char *data;
		size_t len;
	} links[] = {
		{"", 0},
		{"a", 1},
		{"abcdefg", 7},
		{"\0\0\0\0abcd", 8},
		{"../../../../../../../../etc/passwd\0\0abcd", 40},
		{"/etc/passwd\0abcd", 16},
		{".\0\0\0abcd", 8},
	};
	char path[PATH_MAX], bad[PATH_MAX], link[PATH_MAX], option[PATH_MAX + 64], *large;
	struct gt_sites s;

	(void)state;
	fix_build("cc", "-shared -fPIC -O2 -DFIX_MINOR=12 -Wl,--build-id=none", "link.so", path);
	assert_int_equal(fix_tool("strip", path, NULL, NULL, NULL), 0);
	fix_path(bad, "link-bad.so");
	fix_path(link, "link");
	snprintf(option, sizeof(option), "--add-section=.gnu_debuglink=%s", link);
	large = malloc(1 << 20);
	assert_non_null(large);
	memset(large, 'a', 1 << 20);
	for (size_t i = 0; i <= GT_ARRAY_SIZE(links); i++) {
		if (i < GT_ARRAY_SIZE(links))
			write_file(link, links[i].data, links[i].len);
		else
			write_file(link, large, 1 << 20);
		assert_int_equal(fix_tool("objcopy", option, path, bad, NULL), 0);
		resolve_well(bad, GT_PROBE_AUTO, &s);
		assert_string_equal(s.why, "");
		assert_string_equal(s.symbols_from, "");
	}
	free(large);
}

/* Each section in turn claims to lie behind the end of the file, or to be larger than that. */
static void test_hostile_sections(void **state)
{
	char path[PATH_MAX], bad[PATH_MAX];
	struct gt_sites s;
	struct fix_map m;
	uint64_t shoff;

	(void)state;
	fix_build("cc", "-shared -fPIC -O2 -g -DFIX_MINOR=12", "sections.so", path);
	m = fix_map(path);
	fix_path(bad, "sections-bad.so");
	shoff = gt_get_le64(m.data + 40);
	for (unsigned int i = 0; i < gt_get_le16(m.data + 60); i++) {
		for (size_t field = 24; field <= 32; field += 8) { /* sh_offset, sh_size */
			uint8_t *p = malloc(m.size);

			assert_non_null(p);
			memcpy(p, m.data, m.size);
			gt_put_le64(p + shoff + i * sizeof(Elf64_Shdr) + field, UINT64_MAX - 64);
			write_file(bad, p, m.size);
			free(p);
			resolve_well(bad, GT_PROBE_SITES, &s);
			resolve(bad, GT_PROBE_FUNCTIONS, &s);
		}
	}
	fix_unmap(m);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_debug_file),
		cmocka_unit_test(test_unreadable_debug_file),
		cmocka_unit_test(test_build_id),
		cmocka_unit_test(test_dynsym),
		cmocka_unit_test(test_mini_debug_info),
		cmocka_unit_test(test_network),
		cmocka_unit_test(test_hostile_link),
		cmocka_unit_test(test_hostile_sections),
	};

	if (argc == 3 && !strcmp(argv[1], "resolve")) {
		struct gt_sites s;

		return resolve(argv[2], GT_PROBE_FUNCTIONS, &s) != -ENOENT;
	}
	return cmocka_run_group_tests(tests, NULL, fix_teardown);
}
