// SPDX-License-Identifier: Apache-2.0
/* Live processes: which of their files hold a GIL, and how it would be probed. */
#include <sys/prctl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gilfix.h"
#include "log.h"
#include "pytarget.h"

#include <inttypes.h>
#include <signal.h>

#define LOADS_MAX 8

/* ---- a process, and what giltrace says about it ---- */

struct child {
	pid_t pid;
	int in;         /* closing it lets the process end */
	char line[256]; /* what it printed when it was ready */
};

/* Runs argv; returns when it has printed a line. 0: it ended before. */
static int start(struct child *c, char *const argv[])
{
	int in[2], out[2];
	size_t n = 0;

	assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (!c->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* also where an assertion fails */
		dup2(in[0], 0);
		dup2(out[1], 1);
		if (!getenv("GT_TEST_VERBOSE"))
			dup2(open("/dev/null", O_WRONLY), 2);
		execv(argv[0], argv);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	c->in = in[1];
	while (n < sizeof(c->line) - 1 && read(out[0], c->line + n, 1) == 1 && c->line[n] != '\n')
		n++;
	c->line[n] = '\0';
	close(out[0]);
	return n > 0;
}

static void end(struct child *c)
{
	close(c->in);
	assert_int_equal(waitpid(c->pid, NULL, 0), c->pid);
}

/* Looks at a process; `said` gets what was logged. Without `t`: only whether it is a CPython. */
static int look(pid_t pid, struct gt_pycache *cache, struct gt_pytarget *t, char said[4096])
{
	int keep = dup(2), err;
	struct gt_proc proc;
	char path[PATH_MAX];
	ssize_t n;

	fix_path(path, "said");
	assert_true(keep >= 0);
	assert_int_equal(gt_proc_open(pid, &proc), 0);
	assert_non_null(freopen(path, "w+", stderr));
	err = t ? gt_pytarget_find(cache, &proc, t) : gt_pytarget_is_python(cache, &proc);
	fflush(stderr);
	n = pread(2, said, 4095, 0);
	dup2(keep, 2);
	close(keep);
	gt_proc_close(&proc);
	assert_true(n >= 0);
	said[n] = '\0';
	if (getenv("GT_TEST_VERBOSE"))
		print_message("%s", said);
	return err;
}

/* With a cache of its own. */
static int look_once(pid_t pid, enum gt_probe_mode mode, struct gt_pycache **cache,
		     struct gt_pytarget *t, char said[4096])
{
	*cache = gt_pycache_new(mode, 0);
	assert_non_null(*cache);
	return look(pid, *cache, t, said);
}

/* ---- the Pythons of this machine ---- */

struct python {
	char file[PATH_MAX]; /* with the GIL's code */
	char exe[PATH_MAX];
	int major, minor;
};

/* The interpreter that goes with one of fix_pythons(); 0: there is none. */
static int python_of(const char *file, struct python *p)
{
	const char *name = strrchr(file, '/'), *version = name ? strpbrk(name, "23") : NULL;
	char *lib;
	int used = 0;

	if (!version || sscanf(version, "%d.%d%n", &p->major, &p->minor, &used) != 2)
		return 0;
	if (version[used] == 'd' || !realpath(file, p->file)) /* a debug build: another program */
		return 0;
	memcpy(p->exe, p->file, sizeof(p->exe));
	lib = strstr(p->exe, "/lib/libpython");
	if (lib)
		snprintf(lib, sizeof(p->exe) - (size_t)(lib - p->exe), "/bin/python%d.%d", p->major,
			 p->minor);
	return !access(p->exe, X_OK) && !strstr(p->exe, "/libpython");
}

static struct python list[32];
static size_t n_list;

static int find_list(void **state)
{
	glob_t g;

	(void)state;
	fix_pythons(&g);
	for (size_t i = 0; i < g.gl_pathc && n_list < GT_ARRAY_SIZE(list); i++)
		n_list += (size_t)python_of(g.gl_pathv[i], &list[n_list]);
	globfree(&g);
	if (!n_list)
		print_message("SKIP: NO PYTHON FOUND ON THIS MACHINE\n");
	return 0;
}

/* One whose own code lies in its executable (or not); NULL: none here. */
static const struct python *some(int is_static)
{
	for (size_t i = 0; i < n_list; i++)
		if (list[i].major == 3 && list[i].minor > 6 &&
		    is_static == !strcmp(list[i].file, list[i].exe))
			return &list[i];
	print_message("SKIP: no %s CPython here\n", is_static ? "static" : "shared");
	return NULL;
}

/* Runs an interpreter that loads further libraries, then says where its own _PyRuntime lies. */
static int start_python(struct child *c, const char *exe, const char *const *loads)
{
	char code[4096] =
		"import sys, os\n"
		"try:\n"
		" import ctypes\n"
		" for f in sys.argv[1:]: ctypes.CDLL(f)\n"
		" at = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, '_PyRuntime'))\n"
		"except (ImportError, ValueError):\n"
		" at = 0\n"
		"os.write(1, ('%x\\n' % at).encode())\n"
		"os.read(0, 1)\n";
	char *argv[LOADS_MAX + 5] = {(char *)(uintptr_t)exe, (char *)"-Sc", code};

	for (int i = 0; loads && loads[i] && i < LOADS_MAX; i++)
		argv[3 + i] = (char *)(uintptr_t)loads[i];
	return start(c, argv);
}

static void assert_whole(const struct gt_pytarget *t)
{
	struct gt_part parts[GT_PARTS_MAX];
	size_t n = gt_pytarget_parts(t, parts), sites = 0, without = 0;

	assert_in_range(t->n, 1, GT_PYTHONS_MAX);
	for (size_t i = 0; i < n; i++) {
		int libc = parts[i].sites == t->libc;

		assert_true(libc ? i == n - 1 : parts[i].sites == t->python[parts[i].code].sites);
		assert_ptr_equal(parts[i].map, libc ? &t->libc_map : &t->python[parts[i].code].map);
		assert_true(parts[i].sites->n > 0);
		sites += parts[i].sites->n;
	}
	for (uint32_t i = 0; i < t->n; i++) {
		assert_true(t->python[i].sites->is_python);
		without += !t->python[i].sites->n;
	}
	assert_int_equal(!without, !t->libc);
	assert_int_equal(n, t->n - without + !!t->libc);
	assert_in_range(sites, 1, 255);
}

static int is_file(const struct gt_map *m, const char *path)
{
	return !strcmp(m->path, path);
}

/* ---- tests ---- */

static void test_plain(void **state)
{
	char said[4096];

	(void)state;
	for (size_t i = 0; i < n_list; i++) {
		const struct python *p = &list[i];
		struct gt_pytarget t, again;
		struct gt_pycache *cache;
		struct child c;
		uint64_t runtime;

		if (p->major == 2)
			continue;
		assert_true(start_python(&c, p->exe, NULL));
		runtime = strtoull(c.line, NULL, 16);
		if (look_once(c.pid, GT_PROBE_AUTO, &cache, &t, said))
			fail_msg("%s: %s", p->exe, said);
		assert_whole(&t);
		assert_int_equal(t.n, 1);
		assert_true(is_file(&t.python[0].map, p->file));
		assert_int_equal(t.python[0].sites->py_minor, p->minor);
		assert_null(t.libc);
		assert_int_equal(gt_pytarget_mode(&t), t.python[0].sites->mode);
		if (runtime && t.python[0].runtime != runtime)
			fail_msg("%s: _PyRuntime at %" PRIx64 ", not %" PRIx64, p->file, runtime,
				 t.python[0].runtime);
		print_message("%s: %u sites (%s), _PyRuntime at %" PRIx64 " (%" PRIx64 ")\n",
			      p->file, t.python[0].sites->n,
			      gt_probe_mode_name(gt_pytarget_mode(&t)), t.python[0].runtime,
			      runtime);
		assert_int_equal(look(c.pid, cache, &again, said), 0);
		assert_ptr_equal(t.python[0].sites, again.python[0].sites); /* resolved once */
		gt_pycache_free(cache);
		end(&c);
	}
}

/* A static interpreter with libpythons of other versions: all are there, in order, at most four. */
static void test_several(void **state)
{
	const struct python *exe = some(1);
	const char *loads[LOADS_MAX + 1] = {NULL};
	struct gt_pytarget t;
	struct gt_pycache *cache;
	struct child c;
	char said[4096];
	size_t n = 0;

	(void)state;
	for (size_t i = 0; exe && i < n_list && n < LOADS_MAX; i++)
		if (strcmp(list[i].file, list[i].exe) && list[i].major == 3 && list[i].minor > 6)
			loads[n++] = list[i].file;
	if (n < 1) {
		print_message("SKIP: too few CPythons here to load into one process\n");
		skip();
		return;
	}
	for (size_t k = 1; k <= n && k <= GT_PYTHONS_MAX; k++) {
		const char *last = loads[k];

		loads[k] = NULL;
		assert_true(start_python(&c, exe->exe, loads));
		loads[k] = last;
		if (look_once(c.pid, GT_PROBE_SITES, &cache, &t, said))
			fail_msg("%s", said);
		assert_whole(&t);
		assert_int_equal(t.n, k < GT_PYTHONS_MAX ? k + 1 : GT_PYTHONS_MAX);
		for (size_t i = 0; i < k; i++)
			assert_non_null(strstr(t.python[i].map.path, "/libpython3"));
		if (k < GT_PYTHONS_MAX) {
			assert_true(is_file(&t.python[k].map, exe->exe));
			assert_int_equal(t.python[k].runtime, strtoull(c.line, NULL, 16));
			assert_string_equal(said, "");
		} else { /* the one too many is named */
			assert_non_null(strstr(said, exe->exe));
			assert_non_null(strstr(said, "more CPythons"));
		}
		gt_pycache_free(cache);
		end(&c);
	}
	/* Of function probes one file may have some: their GIL has no address. */
	loads[1] = NULL;
	assert_true(start_python(&c, exe->exe, loads));
	if (!look_once(c.pid, GT_PROBE_FUNCTIONS, &cache, &t, said)) {
		assert_whole(&t);
		assert_int_equal(t.n, 1);
		assert_int_equal(gt_pytarget_mode(&t), GT_PROBE_FUNCTIONS);
		assert_non_null(strstr(said, "left out"));
	} else {
		print_message("SKIP the rest: no symbols\n");
	}
	gt_pycache_free(cache);
	end(&c);
}

/* What cannot be traced does not keep from tracing what can. */
static void test_beside(void **state)
{
	const struct python *exe = some(1), *two = NULL;
	const char *loads[2] = {NULL};
	struct gt_pytarget t;
	struct gt_pycache *cache;
	struct child c;
	char said[4096];

	(void)state;
	for (size_t i = 0; i < n_list; i++)
		if (list[i].major == 2 && strcmp(list[i].file, list[i].exe))
			two = &list[i];
	if (!exe || !two) {
		print_message("SKIP: no libpython2 and static python3 here\n");
		skip();
		return;
	}
	loads[0] = two->file;
	assert_true(start_python(&c, exe->exe, loads));
	if (look_once(c.pid, GT_PROBE_AUTO, &cache, &t, said))
		fail_msg("%s", said);
	assert_int_equal(t.n, 1);
	assert_true(is_file(&t.python[0].map, exe->exe));
	assert_non_null(strstr(said, two->file));
	assert_non_null(strstr(said, "left out"));
	gt_pycache_free(cache);
	end(&c);

	assert_true(start_python(&c, two->exe, NULL));
	assert_int_equal(look_once(c.pid, GT_PROBE_AUTO, &cache, &t, said), -ENOEXEC);
	assert_non_null(strstr(said, "CPython 2"));
	assert_null(strstr(said, "left out"));
	gt_pycache_free(cache);
	end(&c);
}

/* Does the mapped file at this path define what --probe=libc needs? By its name, in this test. */
static int is_libc(const char *path)
{
	const char *base = strrchr(path, '/');

	return base && (strstr(base, "libc") || strstr(base, "libpthread") || strstr(base, "musl"));
}

static void test_libc(void **state)
{
	struct gt_pytarget t;
	struct gt_pycache *cache;
	struct child c;
	char said[4096];

	(void)state;
	for (size_t i = 0; i < n_list; i++) {
		const struct python *p = &list[i];
		int err;

		if (p->major == 2)
			continue;
		assert_true(start_python(&c, p->exe, NULL));
		err = look_once(c.pid, GT_PROBE_LIBC, &cache, &t, said);
		if (p->minor == 6) {
			assert_int_equal(err, -ENOEXEC);
			assert_non_null(strstr(said, "3.6"));
			assert_non_null(strstr(said, "no fixed distance"));
		} else {
			if (err)
				fail_msg("%s: %s", p->exe, said);
			assert_whole(&t);
			assert_int_equal(t.n, 1);
			assert_int_equal(t.python[0].sites->n, 0);
			assert_int_equal(t.libc->n, 3);
			assert_true(is_libc(t.libc_map.path));
			assert_int_equal(gt_pytarget_mode(&t), GT_PROBE_LIBC);
			assert_non_null(strstr(said, "slower")); /* what it costs */
			assert_non_null(strstr(said, t.libc_map.path));
		}
		gt_pycache_free(cache);
		end(&c);
	}
}

/* The file of a running interpreter has another content, or none any more. */
static void test_replaced(void **state)
{
	const struct python *p = some(1);
	char copy[PATH_MAX], home[PATH_MAX], said[4096];
	struct gt_pytarget t;
	struct gt_pycache *cache;
	struct child c;

	(void)state;
	if (!p) {
		skip();
		return;
	}
	fix_path(copy, "python3");
	snprintf(home, sizeof(home), "%s", p->exe);
	*strstr(home, "/bin/") = '\0';
	assert_int_equal(setenv("PYTHONHOME", home, 1), 0);
	assert_int_equal(fix_tool("cp", p->exe, copy, NULL, NULL), 0);
	assert_true(start_python(&c, copy, NULL));
	unsetenv("PYTHONHOME");
	assert_int_equal(fix_tool("cp", "--remove-destination", "/bin/cat", copy, NULL), 0);
	if (look_once(c.pid, GT_PROBE_SITES, &cache, &t, said))
		fail_msg("%s", said);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.python[0].sites->py_minor, p->minor);
	gt_pycache_free(cache);
	assert_int_equal(unlink(copy), 0);
	if (look_once(c.pid, GT_PROBE_LIBC, &cache, &t, said))
		fail_msg("%s", said);
	assert_int_equal(t.n, 1);
	gt_pycache_free(cache);
	end(&c);
}

static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* A program with a lock like CPython's linked in; it waits in what runs before main(). */
static void start_program(struct child *c, const char *options, char path[PATH_MAX])
{
	static const char wait[] =
		"#include <unistd.h>\n"
		"__attribute__((constructor)) static void wait_for_end(void)\n"
		"{ char c; if (write(1, \"x\\n\", 2) != 2 || read(0, &c, 1)) _exit(1); }\n";
	char source[PATH_MAX], all[256];

	fix_path(source, "wait.c");
	write_text(source, wait);
	snprintf(all, sizeof(all), "-O2 -DFIX_MAIN -DFIX_MINOR=12 %s %.128s", options, source);
	fix_build("cc", all, "program", path);
	assert_true(start(c, (char *[]){path, NULL}));
}

/* It exports nothing: its symbol table tells, and without one nothing does. */
static void test_program(void **state)
{
	char path[PATH_MAX], said[4096];
	struct gt_pytarget t;
	struct gt_pycache *cache;
	struct child c;

	(void)state;
	start_program(&c, "", path);
	if (look_once(c.pid, GT_PROBE_AUTO, &cache, &t, said))
		fail_msg("%s", said);
	assert_whole(&t);
	assert_int_equal(t.n, 1);
	assert_true(is_file(&t.python[0].map, path));
	gt_pycache_free(cache);
	end(&c);

	start_program(&c, "-s", path);
	assert_int_equal(look_once(c.pid, GT_PROBE_AUTO, &cache, &t, said), -ENOEXEC);
	assert_non_null(strstr(said, "no CPython"));
	gt_pycache_free(cache);
	end(&c);
}

/* Where neither the scan nor symbols tell, libc is what is left: if there is one. */
static void test_last_resort(void **state)
{
	static const char options[] = "-s -rdynamic -DFIX_UNREACHED";
	char path[PATH_MAX], said[4096];
	struct gt_pytarget t;
	struct gt_pycache *cache;
	struct child c;

	(void)state;
	start_program(&c, options, path);
	if (look_once(c.pid, GT_PROBE_AUTO, &cache, &t, said))
		fail_msg("%s", said);
	assert_whole(&t);
	assert_int_equal(gt_pytarget_mode(&t), GT_PROBE_LIBC);
	assert_true(is_libc(t.libc_map.path));
	assert_non_null(strstr(said, "take_gil")); /* why */
	assert_non_null(strstr(said, "slower"));   /* and what it costs */
	gt_pycache_free(cache);
	assert_int_equal(look_once(c.pid, GT_PROBE_SITES, &cache, &t, said), -ENOEXEC);
	assert_non_null(strstr(said, path));
	gt_pycache_free(cache);
	end(&c);
}

/* No libc in the process at all: whoever defines the functions will do; if nobody does, that's it.
 */
static void test_no_libc(void **state)
{
	static const char begin[] =
		"#include <sys/syscall.h>\n"
		"static long call(long n, long a, const void *b, long c) { long r;\n"
		"#ifdef __x86_64__\n"
		"__asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(n), \"D\"(a), \"S\"(b), \"d\"(c)"
		" : \"rcx\", \"r11\", \"memory\"); return r; }\n"
		"#else\n"
		"register long x8 __asm__(\"x8\") = n, x0 __asm__(\"x0\") = a, x2 __asm__(\"x2\") "
		"= c;\n"
		"register const void *x1 __asm__(\"x1\") = b;\n"
		"__asm__ volatile(\"svc 0\" : \"+r\"(x0) : \"r\"(x8), \"r\"(x1), \"r\"(x2) : "
		"\"memory\");\n"
		"r = x0; return r; }\n"
		"#endif\n"
		"void _start(void) { char c; call(SYS_write, 1, \"x\\n\", 2);\n"
		"call(SYS_read, 0, &c, 1); call(SYS_exit, 0, 0, 0); }\n";
	static const char functions[] =
		"#define FN(name) API int name(void *p) { return !p; }\n"
		"FN(pthread_mutex_lock) FN(pthread_mutex_unlock) FN(pthread_cond_signal)\n"
		"FN(pthread_cond_timedwait) FN(pthread_cond_wait) FN(clock_gettime) FN(abort)\n";
	char source[PATH_MAX], own[PATH_MAX], lib[PATH_MAX], options[384], path[PATH_MAX];
	char said[4096];
	struct gt_pytarget t;
	struct gt_pycache *cache;
	struct child c;

	(void)state;
	fix_path(source, "begin.c");
	write_text(source, begin);
	fix_path(own, "functions.c");
	write_text(own, functions);
	fix_path(lib, "functions.so");
	assert_int_equal(fix_run((char *[]){(char *)"cc", (char *)"-shared", (char *)"-nostdlib",
					    (char *)"-w", (char *)"-fno-builtin",
					    (char *)"-DAPI=", (char *)"-o", lib, own, NULL},
				 NULL),
			 0);
	for (int hidden = 0; hidden < 2; hidden++) {
		snprintf(options, sizeof(options),
			 "-O2 -s -w -pie -fPIE -nostdlib -fno-builtin -fno-stack-protector -Wl,-E "
			 "-DAPI=__attribute__((visibility(\"hidden\"))) -DFIX_UNREACHED "
			 "-DFIX_MINOR=12 -Wl,--no-as-needed %.100s %.100s",
			 source, hidden ? own : lib);
		fix_build("cc", options, "bare", path);
		assert_true(start(&c, (char *[]){path, NULL}));
		assert_int_equal(look_once(c.pid, GT_PROBE_AUTO, &cache, &t, said),
				 hidden ? -ENOEXEC : 0);
		assert_non_null(strstr(said, "take_gil"));
		if (hidden)
			assert_non_null(strstr(said, "no file of the process defines"));
		else
			assert_true(is_file(&t.libc_map, lib));
		gt_pycache_free(cache);
		end(&c);
	}
}

static void test_no_python(void **state)
{
	static const enum gt_probe_mode modes[] = {GT_PROBE_AUTO, GT_PROBE_LIBC};
	struct gt_pytarget t;
	struct gt_pycache *cache;
	char said[4096];
	struct child c;

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(modes); i++) {
		char *const argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)"echo x; read line",
				      NULL};

		assert_true(start(&c, argv));
		assert_int_equal(look_once(c.pid, modes[i], &cache, &t, said), -ENOEXEC);
		assert_non_null(strstr(said, "no CPython"));
		gt_pycache_free(cache);
		end(&c);
	}
}

/* ---- is it one at all? ---- */

static volatile sig_atomic_t readers; /* children of ours that have read a file */

static void count_reader(int sig)
{
	(void)sig;
	readers++;
}

static int is_python(pid_t pid, struct gt_pycache *cache, char said[4096])
{
	readers = 0;
	return look(pid, cache, NULL, said);
}

static void test_is_python(void **state)
{
	struct gt_pycache *cache = gt_pycache_new(GT_PROBE_AUTO, 0);
	char *const sh[] = {(char *)"/bin/sh", (char *)"-c", (char *)"echo x; read line", NULL};
	char said[4096];
	struct gt_proc p;
	struct child c;

	(void)state;
	assert_non_null(cache);
	signal(SIGCHLD, count_reader);
	for (size_t i = 0; i < n_list; i++) {
		struct gt_pytarget t;

		assert_true(start_python(&c, list[i].exe, NULL));
		for (int again = 0; again < 2; again++) {
			if (is_python(c.pid, cache, said) != (list[i].major == 3))
				fail_msg("%s: %s", list[i].exe, said);
			assert_string_equal(said, "");
			assert_true(again ? !readers : readers > 0); /* each file once */
		}
		assert_int_equal(look(c.pid, cache, &t, said), list[i].major == 3 ? 0 : -ENOEXEC);
		end(&c);
	}
	assert_true(start(&c, sh));
	for (int again = 0; again < 2; again++) {
		assert_int_equal(is_python(c.pid, cache, said), 0);
		assert_string_equal(said, "");
		assert_true(!again || !readers);
	}
	assert_int_equal(gt_proc_open(c.pid, &p), 0);
	end(&c);
	assert_int_equal(gt_pytarget_is_python(cache, &p), -ESRCH);
	gt_proc_close(&p);
	if (!gt_proc_try_open(2, &p)) { /* no memory: a kernel thread, where they can be seen */
		int kernel = gt_proc_memory_gone(&p);

		gt_proc_close(&p);
		if (kernel)
			assert_int_equal(is_python(2, cache, said), 0);
		assert_string_equal(said, "");
	}
	gt_pycache_free(cache);
	signal(SIGCHLD, SIG_DFL);
}

/* It agrees with gt_pytarget_find(), also where that finds a CPython that cannot be traced. */
static void test_is_python_or_not(void **state)
{
	static const struct {
		const char *options;
		int found;
		const char *said; /* by gt_pytarget_find() */
	} programs[] = {
		{"", 1, ""},                                     /* its symbol table tells */
		{"-s", 0, "no CPython"},                         /* nothing does */
		{"-s -rdynamic -DFIX_UNREACHED", 1, "take_gil"}, /* it is one, without sites */
	};
	char source[PATH_MAX], options[128], path[PATH_MAX], said[4096];
	struct gt_pytarget t;
	struct gt_pycache *cache;
	struct child c;

	(void)state;
	fix_path(source, "pad.c");
	write_text(source,
		   "__asm__(\".text\\n.skip 0x40000\");\n"); /* as much code as a CPython has */
	for (size_t i = 0; i < GT_ARRAY_SIZE(programs); i++) {
		for (int small = 0; small < 2; small++) {
			snprintf(options, sizeof(options), "%s %.64s", programs[i].options,
				 small ? "" : source);
			start_program(&c, options, path);
			assert_int_equal(look_once(c.pid, GT_PROBE_SITES, &cache, NULL, said),
					 !small && programs[i].found);
			assert_string_equal(said, "");
			look(c.pid, cache, &t, said);
			assert_non_null(strstr(said, programs[i].said));
			gt_pycache_free(cache);
			end(&c);
		}
	}
}

/* A process that has so many files with code mapped. */
static void start_mapping(struct child *c, int files)
{
	int in[2], out[2];
	char byte;

	assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
	c->pid = fork();
	assert_true(c->pid >= 0);
	if (!c->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(in[1]);
		for (int i = 0; i < files; i++) {
			int fd = memfd_create("file", MFD_CLOEXEC);

			if (fd < 0 || ftruncate(fd, 1 << 18) ||
			    mmap(NULL, 1 << 18, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) ==
				    MAP_FAILED)
				_exit(1);
			close(fd);
		}
		_exit(write(out[1], "x", 1) == 1 && read(in[0], &byte, 1) == 0 ? 0 : 1);
	}
	close(in[0]);
	close(out[1]);
	c->in = in[1];
	assert_int_equal(read(out[0], &byte, 1), 1);
	close(out[0]);
}

/* A quarter more files than the cache holds: what is no CPython is forgotten, the others stay. */
static void test_many_files(void **state)
{
	const struct python *p = some(0) ? some(0) : some(1);
	struct gt_pycache *cache = gt_pycache_new(GT_PROBE_SITES, 0);
	struct gt_pytarget first, last;
	struct child python, c;
	char said[4096];

	(void)state;
#ifdef __SANITIZE_ADDRESS__
	p = NULL; /* each file is read by a fork, and 2,600 of those of the shadow take minutes */
#endif
	if (!p) {
		gt_pycache_free(cache);
		skip();
		return;
	}
	assert_non_null(cache);
	assert_true(start_python(&python, p->exe, NULL));
	assert_int_equal(look(python.pid, cache, &first, said), 0);
	for (int i = 0; i < 2; i++) {
		start_mapping(&c, 2600);
		assert_int_equal(is_python(c.pid, cache, said), 0);
		end(&c);
	}
	assert_int_equal(is_python(python.pid, cache, said), 1);
	assert_int_equal(look(python.pid, cache, &last, said), 0);
	assert_ptr_equal(first.python[0].sites, last.python[0].sites);
	end(&python);
	gt_pycache_free(cache);
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(gt_probe_mode_name(GT_PROBE_AUTO), "auto");
	assert_string_equal(gt_probe_mode_name(GT_PROBE_SITES), "sites");
	assert_string_equal(gt_probe_mode_name(GT_PROBE_FUNCTIONS), "functions");
	assert_string_equal(gt_probe_mode_name(GT_PROBE_LIBC), "libc");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_several),
		cmocka_unit_test(test_beside),
		cmocka_unit_test(test_libc),
		cmocka_unit_test(test_replaced),
		cmocka_unit_test(test_program),
		cmocka_unit_test(test_last_resort),
		cmocka_unit_test(test_no_libc),
		cmocka_unit_test(test_no_python),
		cmocka_unit_test(test_is_python),
		cmocka_unit_test(test_is_python_or_not),
		cmocka_unit_test(test_many_files),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, find_list, fix_teardown);
}
