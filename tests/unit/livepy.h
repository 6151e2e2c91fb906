/* SPDX-License-Identifier: Apache-2.0 */
/*
 * livepy.h - for tests that run real Pythons: finds the interpreters of the machine, starts one
 * with a script, finds _PyRuntime in it, compiles against its headers. cmocka.h comes before.
 */
#ifndef GT_TEST_LIVEPY_H
#define GT_TEST_LIVEPY_H

#include "gilfix.h"
#include "proc.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#define LIVEPY_MAX     48
#define LIVEPY_SECONDS 30 /* after which a test that waits has failed */

struct livepy {
	char path[PATH_MAX];
	char version[24];
	int minor, free_threaded;
	char include[1024], platinclude[1024];
};

/* Waits for a condition, looking every millisecond. */
#define livepy_until(condition)                                                                    \
	do {                                                                                       \
		const uint64_t end_ = livepy_now() + LIVEPY_SECONDS * UINT64_C(1000000000);        \
		while (!(condition)) {                                                             \
			if (livepy_now() > end_)                                                   \
				fail_msg("not within %d s: %s", LIVEPY_SECONDS, #condition);       \
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);                   \
		}                                                                                  \
	} while (0)

static inline uint64_t livepy_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* 1 if it is a CPython 3. */
static inline int livepy_ask(struct livepy *py)
{
	static const char script[] =
		"import sys, sysconfig as s; p = s.get_paths()\n"
		"print('%s\\n%d\\n%d\\n%s\\n%s' % (sys.version.split()[0], sys.version_info[1],\n"
		"      bool(s.get_config_var('Py_GIL_DISABLED')), p['include'], "
		"p['platinclude']))\n"
		"sys.exit('PyPy' in sys.version or sys.version_info[0] != 3)";
	char *const argv[] = {py->path, (char *)"-c", (char *)script, NULL};
	FILE *out;
	int pid = fix_run(argv, &out);
	int n = fscanf(out, "%23s\n%d\n%d\n%1023[^\n]\n%1023[^\n]", py->version, &py->minor,
		       &py->free_threaded, py->include, py->platinclude);

	return fix_done(out, pid) == 0 && n == 5;
}

static inline int livepy_is_elf(const char *path)
{
	char magic[4] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, magic, 4);

	if (fd >= 0)
		close(fd);
	return n == 4 && !memcmp(magic, "\177ELF", 4);
}

/*
 * The CPythons of pyenv and of the system, 3.7 and newer, each file once; and all that
 * GT_EXTRA_PYTHONS names, separated by colons, where a script that executes one will do.
 */
static inline size_t livepy_find(struct livepy *py)
{
	const char *home = getenv("HOME"), *root = getenv("PYENV_ROOT");
	const char *more = getenv("GT_EXTRA_PYTHONS");
	char pattern[4][PATH_MAX], list[8192], *save = NULL;
	struct stat st[LIVEPY_MAX];
	size_t n = 0, found;
	glob_t g = {0};

	snprintf(pattern[0], PATH_MAX, "%s%s/versions/*/bin/python3.*",
		 root ? root : (home ? home : ""), root ? "" : "/.pyenv");
	snprintf(pattern[1], PATH_MAX, "/usr/bin/python3.*");
	snprintf(pattern[2], PATH_MAX, "/usr/local/bin/python3.*");
	for (int i = 0; i < 3; i++)
		glob(pattern[i], i ? GLOB_APPEND : 0, NULL, &g);
	found = g.gl_pathc;
	snprintf(list, sizeof(list), "%s", more ? more : "");
	for (char *p = strtok_r(list, ":", &save); p; p = strtok_r(NULL, ":", &save))
		glob(p, GLOB_APPEND, NULL, &g);
	for (size_t i = 0; i < g.gl_pathc && n < LIVEPY_MAX; i++) {
		size_t k = 0;

		if (stat(g.gl_pathv[i], &st[n]) || (i < found && !livepy_is_elf(g.gl_pathv[i])))
			continue;
		while (k < n && (st[k].st_ino != st[n].st_ino || st[k].st_dev != st[n].st_dev))
			k++;
		memset(&py[n], 0, sizeof(py[n]));
		snprintf(py[n].path, sizeof(py[n].path), "%s", g.gl_pathv[i]);
		if (k == n && livepy_ask(&py[n]) && py[n].minor >= 7)
			n++;
	}
	globfree(&g);
	for (int minor = 7; minor <= 15; minor++) {
		size_t k = 0;

		while (k < n && py[k].minor != minor)
			k++;
		if (k == n)
			print_message("MISSING: no CPython 3.%d found, so none is tested\n", minor);
	}
	return n;
}

struct livepy_run {
	pid_t pid;
	int in, out;
	struct gt_proc p;
};

/*
 * `gil` (may be NULL) becomes PYTHON_GIL, which free-threaded builds look at. flags: 0, or
 * CLONE_NEWPID for a PID namespace of its own; .pid is -1 where that is not allowed.
 */
static inline struct livepy_run livepy_start(const struct livepy *py, const char *script,
					     const char *arg, const char *gil, long flags)
{
	struct livepy_run r;
	int in[2], out[2];

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	r.pid = (pid_t)syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
	assert_true(r.pid >= 0 || flags);
	if (!r.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* also where an assertion fails */
		dup2(in[0], 0);
		dup2(out[1], 1);
		if (gil)
			setenv("PYTHON_GIL", gil, 1);
		execl(py->path, py->path, "-S", "-c", script, arg, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	r.in = in[1];
	r.out = out[0];
	r.p = (struct gt_proc){.pidfd = -1, .procfd = -1, .mapsfd = -1};
	return r;
}

/* A line of the script's output, without its newline. */
static inline void livepy_line(struct livepy_run *r, char *buf, size_t size)
{
	size_t len = 0;

	while (len < size - 1 && read(r->out, buf + len, 1) == 1 && buf[len] != '\n')
		len++;
	if (buf[len] != '\n')
		fail_msg("the Python has ended too early");
	buf[len] = 0;
}

/*
 * A script whose second thread keeps the GIL for ever (a match that takes 2^64 steps, all of them
 * in C), while the main thread reads standard input, and so wants the GIL when it has got a byte.
 * The argument is the switch interval.
 */
GT_UNUSED static const char livepy_holder[] =
	"import os, re, sys, threading\n"
	"sys.setswitchinterval(float(sys.argv[1]))\n"
	"rx = re.compile('(a+)+$')\n"
	"text = 'a' * 64 + 'b'\n"
	"reading = {'x86_64': '0 0x0 ', 'aarch64': '63 0x0 '}[os.uname().machine]\n"
	"def hold():\n"
	"    doing = ''\n"
	"    while not doing.startswith(reading):\n"
	"        with open('/proc/self/syscall') as f:\n"
	"            doing = f.read()\n"
	"    os.write(1, b'ready\\n')\n"
	"    rx.match(text)\n"
	"threading.Thread(target=hold).start()\n"
	"while True:\n"
	"    os.read(0, 1)\n";

/* Waits until it says that it is ready. */
static inline void livepy_ready(struct livepy_run *r)
{
	char line[64];

	livepy_line(r, line, sizeof(line));
	assert_string_equal(line, "ready");
	assert_int_equal(gt_proc_open(r->pid, &r->p), 0);
}

static inline void livepy_say(struct livepy_run *r)
{
	assert_int_equal(write(r->in, "x", 1), 1);
}

static inline void livepy_end(struct livepy_run *r)
{
	if (r->pid > 0) {
		kill(r->pid, SIGKILL);
		waitpid(r->pid, NULL, 0);
	}
	gt_proc_close(&r->p);
	close(r->in);
	close(r->out);
}

/* Where a mapping of that file lies, less where the file says that it does; or -1. */
static inline int livepy_bias(const struct gt_image *img, const struct gt_map *m, uint64_t *bias)
{
	for (unsigned int i = 0; i < img->nsegs; i++)
		if (img->seg[i].exec &&
		    m->offset == (img->seg[i].offset & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1))) {
			*bias = m->start - (img->seg[i].vaddr - img->seg[i].offset + m->offset);
			return 0;
		}
	return -1;
}

static inline uint64_t livepy_runtime(const struct gt_proc *p)
{
	struct gt_map *maps = NULL;
	uint64_t found = 0, value, bias;
	size_t n = 0;

	assert_int_equal(gt_proc_exec_maps(p, &maps, &n), 0);
	for (size_t i = 0; i < n && !found; i++) {
		struct gt_image img;
		struct fix_map file;
		char path[PATH_MAX];
		const char *why;

		gt_proc_map_file(p, &maps[i], path, sizeof(path));
		file = fix_map(path);
		if (!gt_image_open(&img, file.data, file.size, &why) &&
		    !gt_image_symbol(&img, "_PyRuntime", &value) &&
		    !livepy_bias(&img, &maps[i], &bias))
			found = bias + value;
		fix_unmap(file);
	}
	free(maps);
	if (!found)
		fail_msg("no _PyRuntime in process %d", (int)p->pid);
	return found;
}

static inline uint64_t livepy_word(pid_t pid, uint64_t addr)
{
	uint64_t word = 0;
	struct iovec to = {&word, 8}, from = {(void *)(uintptr_t)addr, 8};

	assert_int_equal(process_vm_readv(pid, &to, 1, &from, 1, 0), 8);
	return word;
}

/* Does it have the headers that show CPython's inside? */
static inline int livepy_has_headers(const struct livepy *py)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/internal", py->include);
	return access(path, X_OK) == 0;
}

/*
 * Compiles a program against a Python's internal headers and runs it; its output is to be closed
 * by fix_done(*out, the result). -1: it does not compile.
 */
static inline int livepy_compile(const struct livepy *py, const char *source, const char *option,
				 FILE **out)
{
	const char *cc = getenv("CC");
	char include[4][PATH_MAX], file[PATH_MAX], program[PATH_MAX];
	char *const argv[] = {(char *)(cc ? cc : "cc"),
			      (char *)"-DPy_BUILD_CORE",
			      (char *)option,
			      (char *)"-w",
			      include[0],
			      include[1],
			      include[2],
			      include[3],
			      (char *)"-o",
			      program,
			      file,
			      NULL};
	char *const run[] = {program, NULL};
	FILE *f;

	snprintf(include[0], PATH_MAX, "-I%s", py->include);
	snprintf(include[1], PATH_MAX, "-I%s", py->platinclude);
	snprintf(include[2], PATH_MAX, "-I%s/internal", py->include);
	snprintf(include[3], PATH_MAX, "-I%s/..", py->include); /* Debian's pyconfig.h */
	fix_path(file, "layout.c");
	fix_path(program, "layout");
	f = fopen(file, "we");
	assert_non_null(f);
	assert_true(fputs(source, f) >= 0);
	assert_int_equal(fclose(f), 0);
	return fix_run(argv, NULL) ? -1 : fix_run(run, out);
}

#endif
