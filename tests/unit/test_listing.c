// SPDX-License-Identifier: Apache-2.0
/* What --list prints, as a table and as JSON, of recordings that are made up and some hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gilfix.h"
#include "listing.h"

#include <sys/ioctl.h>

#define SUM64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define TEXT  65536

static struct gt_sites sites311 = {.n = 4,
				   .py_major = 3,
				   .py_minor = 11,
				   .build_id_len = 20,
				   .build_id = {0x1a, 0x2b, 0x3c, 0x4d, 0x5e},
				   .stripped = 1,
				   .is_python = 1,
				   .mode = GT_PROBE_SITES};
static struct gt_sites sites38 = {
	.n = 2, .py_major = 3, .py_minor = 8, .is_python = 1, .mode = GT_PROBE_FUNCTIONS};
/* Its version is not known; libc is probed instead. */
static struct gt_sites sites_none = {.n = 0, .is_python = 1, .mode = GT_PROBE_LIBC};

static void add_python(struct gt_recording *r, const struct gt_sites *s, const char *path)
{
	struct gt_python *p = &r->py.python[r->py.n++];

	p->sites = s;
	snprintf(p->map.path, sizeof(p->map.path), "%s", path);
}

/* A process of which little is known. */
static struct gt_recording plain(pid_t pid)
{
	struct gt_recording r = {
		.proc = {.pid = pid, .ns_pid = pid, .comm = "python3"},
		.rank = {.rank = 0, .source = "default", .local = -1},
		.about = {.uid = (uid_t)-1},
	};

	return r;
}

/* One of which all is known. */
static struct gt_recording full(pid_t pid, uint32_t rank)
{
	struct gt_recording r = plain(pid);

	r.proc.ns_pid = 17;
	r.rank = (struct gt_rank){
		.rank = rank, .source = "RANK", .local = 3, .local_source = "LOCAL_RANK"};
	r.npus = (struct gt_npus){
		.bound = 1,
		.n = 2,
		.npu = {{.device = 0, .card = 4, .chip = 1, .by_fd = 1},
			{.device = 5, .card = -1, .chip = -1, .by_fd = 1, .by_map = 1}},
		.source = "descriptor 5: davinci0",
	};
	add_python(&r, &sites311, "/usr/lib/libpython3.11.so.1.0");
	r.about = (struct gt_about){
		.cmdline = "VLLM::Worker_TP0",
		.container = SUM64,
		.pidns = 4026531836,
		.mntns = 4026532000,
		.userns = 4026531837,
		.parent = 4000000,
		.uid = 4294967294,
		.threads = 300,
	};
	return r;
}

static struct gt_recording hostile(pid_t pid)
{
	struct gt_recording r = plain(pid);

	memcpy(r.proc.comm, "a\n\x1b]0;x\a\xff\xc3", 11);
	add_python(&r, &sites38, "/tmp/\"x\\\n\x1b[31m\xed\xa0\x80 (deleted)");
	add_python(&r, &sites_none, "/srv/\xe4\xb8\xad/libpython3.so");
	r.npus.bound = 1;
	strcpy(r.npus.source, "mapping: \x9b\n");
	strcpy(r.about.container, "web\t\xe2\x80\xa8\xf0");
	memset(r.about.cmdline, 0xe4, sizeof(r.about.cmdline) - 1);
	memcpy(r.about.cmdline, "python3\r\n\"a\" \\b \xe4\xb8\xad ", 20);
	return r;
}

/* What is printed of the recordings. */
static void print(enum gt_listing_format format, const struct gt_recording *r, size_t n,
		  char text[TEXT])
{
	struct gt_listing *l = gt_listing_new(format);
	FILE *f = fmemopen(text, TEXT, "w");

	assert_non_null(l);
	assert_non_null(f);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(gt_listing_add(l, &r[i]), 0);
	assert_int_equal(gt_listing_print(l, f), 0);
	assert_int_equal(fclose(f), 0);
}

/* ---- the table ---- */

static void table(void **state)
{
	struct gt_recording r[] = {plain(7), full(123, 10), full(4194304, 2), plain(6)};
	char text[TEXT];

	(void)state;
	add_python(&r[0], &sites38, "/usr/bin/python3.8");
	add_python(&r[0], &sites_none, "/usr/bin/python3");
	strcpy(r[0].about.container, "web-1");
	r[3].npus.bound = 1;
	print(GT_LISTING_TABLE, r, GT_ARRAY_SIZE(r), text);
	assert_string_equal(text, "    PID  NSPID  RANK (FROM)  NPU                 PYTHON         "
				  "        CONTAINER     THREADS  TITLE\n"
				  "4194304     17  2 (RANK)     0 (NPU 4 chip 1),5  3.11 1a2b3c4d  "
				  "        0123456789ab      300  VLLM::Worker_TP0\n"
				  "    123     17  10 (RANK)    0 (NPU 4 chip 1),5  3.11 1a2b3c4d  "
				  "        0123456789ab      300  VLLM::Worker_TP0\n"
				  "      6      6  0 (default)  driver only         -              "
				  "        -                   -  [python3]\n"
				  "      7      7  0 (default)  -                   3.8 functions, "
				  "? libc  web-1               -  [python3]\n");
}

static size_t count(const char *text, char c)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == c;
	return n;
}

static void assert_harmless(const char *text)
{
	char copy[TEXT];

	snprintf(copy, sizeof(copy), "%s", text);
	for (char *s = copy; *s; s++)
		if (*s == '\n')
			*s = ' ';
	gt_about_clean(copy);
	for (size_t i = 0; text[i]; i++)
		if (copy[i] != text[i] && text[i] != '\n')
			fail_msg("byte %02x at %zu", (unsigned char)text[i], i);
}

static void table_of_hostile_text(void **state)
{
	struct gt_recording r[] = {hostile(1), hostile(2)};
	char text[TEXT];

	(void)state;
	r[1].about.cmdline[0] = 0;
	print(GT_LISTING_TABLE, r, 2, text);
	assert_int_equal(count(text, '\n'), 3);
	assert_harmless(text);
	assert_non_null(strstr(text, "python3\?\?\"a\" \\b \xe4\xb8\xad ????"));
	assert_non_null(strstr(text, "[a\?\?]0;x???]\n"));
	assert_non_null(strstr(text, "web?????"));
}

/* Columns that a line takes; wide characters take two. */
static size_t columns_of(const char *line, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		if (((unsigned char)line[i] & 0xc0) != 0x80)
			n += (unsigned char)line[i] >= 0xe3 ? 2 : 1;
	return n;
}

/* What a terminal of that width is sent. */
static void print_on_terminal(const struct gt_recording *r, unsigned short width, char text[TEXT])
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave;
	struct winsize size = {.ws_row = 24, .ws_col = width};
	struct gt_listing *l = gt_listing_new(GT_LISTING_TABLE);
	char name[64];
	size_t n = 0;
	FILE *f;

	assert_true(master >= 0 && l);
	assert_int_equal(grantpt(master) | unlockpt(master), 0);
	assert_int_equal(ptsname_r(master, name, sizeof(name)), 0);
	slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(slave >= 0);
	assert_int_equal(ioctl(slave, TIOCSWINSZ, &size), 0);
	f = fdopen(slave, "w");
	assert_non_null(f);
	assert_int_equal(gt_listing_add(l, r), 0);
	assert_int_equal(gt_listing_print(l, f), 0);
	while (count(text, '\n') < 2) {
		ssize_t k = read(master, text + n, TEXT - 1 - n);

		assert_true(k > 0);
		n += (size_t)k;
		text[n] = 0;
	}
	fclose(f);
	close(master);
}

static void table_on_a_terminal(void **state)
{
	struct gt_recording r = full(123, 10);
	char text[TEXT];

	(void)state;
	for (unsigned short width = 0; width < 200; width = (unsigned short)(width + 13)) {
		char *line, *title;
		size_t used;

		strcpy(r.about.cmdline, "VLLM::");
		for (size_t i = 6; i < 606; i += 4)
			memcpy(r.about.cmdline + i, "\xe4\xb8\xad.", 5);
		text[0] = 0;
		print_on_terminal(&r, width, text);
		line = strchr(text, '\n') + 1;
		title = strstr(line, "VLLM::");
		assert_non_null(title);
		title[strcspn(title, "\r")] = 0;
		assert_harmless(title); /* no half character */
		used = columns_of(line, strlen(line));
		if (!width) /* a terminal that does not say */
			assert_int_equal(strlen(title), 606);
		else if ((size_t)(title - line) + 16 < width)
			assert_in_range(used, width - 1, width);
		else /* too narrow for all else */
			assert_in_range(used, title - line + 15, title - line + 16);
	}
}

/* ---- JSON ---- */

/* Reads the text with Python, which wants valid UTF-8; `check` finds what was read in d. */
static void check_json(const char *text, const char *check)
{
	char path[PATH_MAX], code[4096];
	FILE *f;

	fix_path(path, "list.json");
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
	assert_int_equal(fclose(f), 0);
	snprintf(code, sizeof(code),
		 "import json, sys\n"
		 "d = json.loads(open(sys.argv[1], 'rb').read().decode('utf-8', 'strict'))\n"
		 "p = d['processes']\n"
		 "assert d['format'] == 1, d\n"
		 "%s",
		 check);
	if (fix_run((char *[]){(char *)"python3", (char *)"-c", code, path, NULL}, NULL))
		fail_msg("%s\n%s", code, text);
}

static void json(void **state)
{
	struct gt_recording r[] = {plain(7), full(4194304, 2)};
	char text[TEXT];

	(void)state;
	print(GT_LISTING_JSON, r, 2, text);
	check_json(
		text,
		"assert p[0] == dict(pid=4194304, ns_pid=17, rank=2, rank_source='RANK',\n"
		" local_rank=3, local_rank_source='LOCAL_RANK',\n"
		" npus=[dict(device=0, card=4, chip=1, virtual=False, source='descriptor'),\n"
		"  dict(device=5, card=None, chip=None, virtual=False,\n"
		"   source='descriptor and mapping')],\n"
		" npu_source='descriptor 5: davinci0',\n"
		" python=[dict(version='3.11', file='/usr/lib/libpython3.11.so.1.0',\n"
		"  build_id='1a2b3c4d5e' + 30 * '0', mode='sites', stripped=True)],\n"
		" container=4 * '0123456789abcdef', pid_namespace=4026531836,\n"
		" mount_namespace=4026532000, user_namespace=4026531837, parent=4000000,\n"
		" uid=4294967294, threads=300, cmdline='VLLM::Worker_TP0', comm='python3'), p\n"
		"assert p[1] == dict(pid=7, ns_pid=7, rank=0, rank_source='default',\n"
		" local_rank=None, local_rank_source=None, npus=[], npu_source=None, python=[],\n"
		" container=None, pid_namespace=None, mount_namespace=None,\n"
		" user_namespace=None, parent=0, uid=None, threads=None, cmdline='',\n"
		" comm='python3'), p\n"
		"assert len(p) == 2\n");
}

static void json_of_hostile_text(void **state)
{
	struct gt_recording r = hostile(1);
	char text[TEXT];

	(void)state;
	print(GT_LISTING_JSON, &r, 1, text);
	check_json(
		text,
		"p = p[0]\n"
		"q = '?'\n"
		"assert p['comm'] == 'a' + 2 * q + ']0;x' + 3 * q, p\n"
		"assert p['cmdline'] == 'python3' + 2 * q + '\"a\" \\\\b \\u4e2d ' + 1003 * q, p\n"
		"assert p['container'] == 'web' + 5 * q, p\n"
		"assert p['npu_source'] == 'mapping: ' + 2 * q, p\n"
		"f = '/tmp/\"x\\\\' + 2 * q + '[31m' + 3 * q + ' (deleted)'\n"
		"assert p['python'] == [\n"
		" dict(version='3.8', build_id=None, mode='functions', file=f, stripped=False),\n"
		" dict(version=None, build_id=None, mode='libc', stripped=False,\n"
		"  file='/srv/\\u4e2d/libpython3.so')], p\n");
}

/* ---- neither ---- */

static void nothing(void **state)
{
	char text[TEXT];

	(void)state;
	print(GT_LISTING_TABLE, NULL, 0, text);
	assert_string_equal(text,
			    "PID  NSPID  RANK (FROM)  NPU  PYTHON  CONTAINER  THREADS  TITLE\n");
	print(GT_LISTING_JSON, NULL, 0, text);
	check_json(text, "assert p == []\n");
	gt_listing_free(gt_listing_new(GT_LISTING_JSON));
	gt_listing_free(NULL);
}

static void many(void **state)
{
	struct gt_listing *l = gt_listing_new(GT_LISTING_JSON);
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	assert_true(l && f);
	for (int i = 0; i < 1000; i++) {
		struct gt_recording r = full(1000 - i, (uint32_t)(i % 10));

		assert_int_equal(gt_listing_add(l, &r), 0);
	}
	assert_int_equal(gt_listing_print(l, f), 0);
	fclose(f);
	check_json(text, "k = [(q['rank'], q['pid']) for q in p]\n"
			 "assert len(k) == 1000 and k == sorted(k)\n");
	free(text);
}

static void full_disk(void **state)
{
	(void)state;
	for (int format = GT_LISTING_TABLE; format <= GT_LISTING_JSON; format++) {
		struct gt_listing *l = gt_listing_new((enum gt_listing_format)format);
		struct gt_recording r = full(1, 2);
		FILE *f = fopen("/dev/full", "w");

		assert_true(l && f);
		assert_int_equal(gt_listing_add(l, &r), 0);
		assert_int_equal(gt_listing_print(l, f), -ENOSPC);
		fclose(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table),
		cmocka_unit_test(table_of_hostile_text),
		cmocka_unit_test(table_on_a_terminal),
		cmocka_unit_test(json),
		cmocka_unit_test(json_of_hostile_text),
		cmocka_unit_test(nothing),
		cmocka_unit_test(many),
		cmocka_unit_test(full_disk),
	};

	return cmocka_run_group_tests_name("listing", tests, NULL, fix_teardown);
}
