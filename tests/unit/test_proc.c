// SPDX-License-Identifier: Apache-2.0
/* Real processes, threads and mappings, some of them made to confuse a parser of /proc. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "log.h"
#include "proc.h"
#include "procfile.h"
#include "spawn.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

static char *const no_env[] = {NULL};

/* A thread of this process that waits until let go, under a given name. */
struct parked {
	pthread_t thread;
	const char *name;
	int up[2], down[2];
	pid_t tid;
};

static void *park(void *arg)
{
	struct parked *t = arg;
	char c;

	t->tid = (pid_t)syscall(SYS_gettid);
	prctl(PR_SET_NAME, t->name);
	if (write(t->up[1], "x", 1) != 1 || read(t->down[0], &c, 1) != 0)
		abort();
	return NULL;
}

static void parked_start(struct parked *t, const char *name)
{
	char c;

	t->name = name;
	assert_int_equal(pipe2(t->up, O_CLOEXEC), 0);
	assert_int_equal(pipe2(t->down, O_CLOEXEC), 0);
	assert_int_equal(pthread_create(&t->thread, NULL, park, t), 0);
	assert_int_equal(read(t->up[0], &c, 1), 1);
}

static void parked_end(struct parked *t)
{
	close(t->down[1]);
	pthread_join(t->thread, NULL);
	close(t->down[0]);
	close(t->up[0]);
	close(t->up[1]);
}

static void opens_itself(void **state)
{
	struct gt_proc p;
	struct stat st;

	(void)state;
	assert_int_equal(gt_proc_open(getpid(), &p), 0);
	assert_int_equal(p.pid, getpid());
	assert_true(p.start_ticks > 0);
	assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
	assert_int_equal(p.pidns_ino, st.st_ino);
	assert_int_equal(p.pidns_dev, (uint64_t)major(st.st_dev) << 20 | minor(st.st_dev));
	assert_int_equal(gt_proc_ended(&p), 0);
	gt_proc_close(&p);
	assert_int_equal(p.pidfd, -1);
	assert_int_equal(p.procfd, -1);
}

static void refuses_what_is_no_process(void **state)
{
	struct gt_proc p = {.pid = 77};
	struct parked t;

	(void)state;
	assert_int_equal(gt_proc_open(0, &p), -ESRCH);
	assert_int_equal(gt_proc_open(-1, &p), -ESRCH);
	assert_int_equal(gt_proc_open(INT32_MAX, &p), -ESRCH);
	parked_start(&t, "parked");
	assert_int_equal(gt_proc_open(t.tid, &p), -ESRCH);
	parked_end(&t);
	assert_int_equal(p.pid, 77); /* untouched on failure */
}

static void tells_the_end(void **state)
{
	struct spawned s = spawn(no_env);
	struct gt_map *maps = NULL;
	struct gt_proc p, late;
	siginfo_t info;
	char buf[8];
	size_t n;

	(void)state;
	assert_int_equal(gt_proc_open(s.pid, &p), 0);
	assert_int_equal(gt_proc_ended(&p), 0);
	close(s.fd);
	assert_int_equal(waitid(P_PID, (id_t)s.pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(gt_proc_ended(&p), 1); /* a zombie */
	assert_int_equal(gt_proc_open(s.pid, &late), -ESRCH);
	assert_int_equal(waitpid(s.pid, NULL, 0), s.pid);
	assert_int_equal(gt_proc_ended(&p), 1);
	/* The directory stays bound to the process that was: nothing can be read any more. */
	assert_int_equal(gt_proc_exec_maps(&p, &maps, &n), -ESRCH);
	assert_int_equal(gt_proc_getenv(&p, "HOME", buf, sizeof(buf)), -ESRCH);
	assert_null(maps);
	gt_proc_close(&p);
}

static void odd_name_does_not_shift_the_fields(void **state)
{
	static const char odd[] = "x) R 1 (2\nTgid:";
	struct gt_proc before, after;
	char own[16];

	(void)state;
	assert_int_equal(prctl(PR_GET_NAME, own), 0);
	assert_int_equal(gt_proc_open(getpid(), &before), 0);
	assert_int_equal(prctl(PR_SET_NAME, odd), 0);
	assert_int_equal(gt_proc_open(getpid(), &after), 0);
	assert_int_equal(prctl(PR_SET_NAME, own), 0);
	assert_string_equal(after.comm, odd);
	assert_int_equal(after.start_ticks, before.start_ticks);
	assert_int_equal(after.ns_pid, before.ns_pid);
	gt_proc_close(&before);
	gt_proc_close(&after);
}

/* The fields of stat stand behind a name that may look like them. */
static void fields_of_stat(void **state)
{
	static const char *const odd[] = {"a) S 1 (b", ") ) ) )", "1 (2\n3) Z 4", "",
					  ") Z 1 1 1 1 1"};
	struct gt_procstat first, st;
	struct gt_proc p;
	char own[16];

	(void)state;
	assert_int_equal(prctl(PR_GET_NAME, own), 0);
	assert_int_equal(gt_proc_open(getpid(), &p), 0);
	assert_int_equal(gt_procfile_stat(&p, &first), 0);
	assert_int_equal(first.start_ticks, p.start_ticks);
	for (size_t i = 0; i < GT_ARRAY_SIZE(odd); i++) {
		assert_int_equal(prctl(PR_SET_NAME, odd[i]), 0);
		memset(&st, 0, sizeof(st));
		assert_int_equal(gt_procfile_stat(&p, &st), 0);
		assert_int_equal(st.state, 'R');
		assert_int_equal(st.parent, getppid());
		assert_int_equal(st.threads, 1);
		assert_int_equal(st.flags, first.flags);
		assert_int_equal(st.start_ticks, first.start_ticks);
	}
	assert_int_equal(prctl(PR_SET_NAME, own), 0);
	gt_proc_close(&p);
}

static const struct gt_map *find_ino(const struct gt_map *maps, size_t n, ino_t ino)
{
	const struct gt_map *found = NULL;

	for (size_t i = 0; i < n; i++)
		if (maps[i].ino == ino) {
			assert_null(found); /* each file once */
			found = &maps[i];
		}
	return found;
}

static void lists_executable_mappings(void **state)
{
	int fd = memfd_create("odd\nname (x) r-xp", MFD_CLOEXEC);
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n;
	gt_autofree struct gt_map *maps = NULL;
	const struct gt_map *m;
	char *at[2], path[64];
	struct stat st, via;
	struct gt_proc p;

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)(4 * page)), 0);
	assert_int_equal(fstat(fd, &st), 0);
	/* The readable mapping lies first in memory, the executable ones behind it. */
	at[0] = mmap(NULL, 4 * page, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(at[0], MAP_FAILED);
	at[1] = mmap(at[0] + page, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd,
		     (off_t)(2 * page));
	assert_ptr_equal(at[1], at[0] + page);
	assert_int_equal(mprotect(at[0] + 3 * page, page, PROT_READ | PROT_EXEC), 0);

	assert_int_equal(gt_proc_open(getpid(), &p), 0);
	assert_int_equal(gt_proc_exec_maps(&p, &maps, &n), 0);
	for (size_t i = 1; i < n; i++)
		assert_true(maps[i - 1].end <= maps[i].start);
	m = find_ino(maps, n, st.st_ino);
	assert_non_null(m);
	assert_int_equal(m->start, (uintptr_t)at[1]);
	assert_int_equal(m->end - m->start, page);
	assert_int_equal(m->offset, 2 * page);
	assert_int_equal(m->dev_major, major(st.st_dev));
	assert_int_equal(m->dev_minor, minor(st.st_dev));
	assert_string_equal(m->path, "/memfd:odd\\012name (x) r-xp (deleted)");

	gt_proc_map_file(&p, m, path, sizeof(path));
	if (stat(path, &via)) /* following these links takes CAP_CHECKPOINT_RESTORE */
		print_message("map_files not tried: %s\n", strerror(errno));
	else
		assert_int_equal(via.st_ino, st.st_ino);
	gt_proc_close(&p);
	munmap(at[0], 4 * page);
	close(fd);
}

#define FOLDERS 20
#define FOLDER  250 /* bytes of a name */

/* A mapped file whose path is longer than a path may be: made step by step. */
static void very_long_path(void **state)
{
	/* What stands behind the cut must not be taken for a line, or for a name. */
	static const char name[] =
		"f\n00400000-00401000 r-xp 00000000 08:01 77   libpython3.so (deleted)";
	char base[] = "/tmp/giltrace-test-XXXXXX", folder[FOLDER + 1];
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n;
	gt_autofree struct gt_map *maps = NULL;
	const struct gt_map *m;
	int dir[FOLDERS + 1], fd;
	struct stat st;
	struct gt_proc p;
	void *at;

	(void)state;
	memset(folder, 'd', FOLDER);
	folder[FOLDER] = 0;
	assert_non_null(mkdtemp(base));
	dir[0] = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < FOLDERS; i++) {
		assert_int_equal(mkdirat(dir[i], folder, 0700), 0);
		dir[i + 1] = openat(dir[i], folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
		assert_true(dir[i + 1] >= 0);
	}
	fd = openat(dir[FOLDERS], name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st) | ftruncate(fd, (off_t)page), 0);
	at = mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	close(fd);

	assert_int_equal(gt_proc_open(getpid(), &p), 0);
	assert_int_equal(gt_proc_exec_maps(&p, &maps, &n), 0);
	gt_proc_close(&p);
	m = find_ino(maps, n, st.st_ino);
	assert_non_null(m);
	assert_int_equal(m->start, (uintptr_t)at);
	assert_memory_equal(m->path, base, strlen(base));
	assert_int_equal(strspn(m->path + strlen(base), "/d"), 511 - strlen(base)); /* cut */
	assert_int_equal(strlen(m->path), 511);
	for (size_t i = 0; i < n; i++)
		assert_int_not_equal(maps[i].start, 0x400000);

	munmap(at, page);
	assert_int_equal(unlinkat(dir[FOLDERS], name, 0), 0);
	for (int i = FOLDERS; i > 0; i--) {
		close(dir[i]);
		assert_int_equal(unlinkat(dir[i - 1], folder, AT_REMOVEDIR), 0);
	}
	close(dir[0]);
	assert_int_equal(rmdir(base), 0);
}

/* It ends while we hold it: between any two reads. */
static void ends_meanwhile(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++) {
		struct spawned s = spawn(no_env);
		struct gt_map *maps;
		struct gt_proc p;
		int r, looks = 0;
		size_t n;

		assert_int_equal(gt_proc_open(s.pid, &p), 0);
		kill(s.pid, SIGKILL);
		do {
			maps = NULL;
			n = 77;
			r = gt_proc_exec_maps(&p, &maps, &n);
			/* Of a process that ends, all, some, or none. */
			assert_true(r == -ESRCH || (r == 0 && !n == !maps));
			free(maps);
		} while (!gt_proc_ended(&p) && ++looks < 1000000);
		assert_int_equal(waitpid(s.pid, NULL, 0), s.pid);
		assert_int_equal(gt_proc_exec_maps(&p, &maps, &n), -ESRCH);
		assert_int_equal(gt_proc_memory_gone(&p), 1);
		assert_int_equal(gt_proc_executed(&p), 0);
		gt_proc_close(&p);
		close(s.fd);
	}
}

static void environment(void **state)
{
	char *const env[] = {(char *)"NAMEX=1",
			     (char *)"XNAME=2",
			     (char *)"NAME",
			     (char *)"NAME=va=lue",
			     (char *)"EMPTY=",
			     (char *)"NAME=second",
			     NULL};
	struct spawned s = spawn(env);
	struct gt_proc p;
	char buf[9] = "before";

	(void)state;
	assert_int_equal(gt_proc_open(s.pid, &p), 0);
	assert_int_equal(gt_proc_getenv(&p, "NAM", buf, sizeof(buf)), -ENOENT);
	assert_int_equal(gt_proc_getenv(&p, "NAME", buf, 6), -ERANGE);
	assert_string_equal(buf, "before");
	assert_int_equal(gt_proc_getenv(&p, "NAME", buf, 7), 0);
	assert_string_equal(buf, "va=lue");
	assert_int_equal(gt_proc_getenv(&p, "EMPTY", buf, sizeof(buf)), 0);
	assert_string_equal(buf, "");
	gt_proc_close(&p);
	spawn_end(&s);
}

/* Only the first 1 MiB is looked at; a variable cut there is not taken. */
static void huge_environment(void **state)
{
	size_t len = 122880;
	char *big = malloc(len), *env[16];
	struct spawned s;
	struct gt_proc p;
	char buf[8];

	(void)state;
	memset(big, 'b', len);
	big[len - 1] = 0;
	for (int n = 7; n <= 9; n += 2) {
		for (int i = 0; i < n; i++)
			env[i] = big;
		env[n] = (char *)"RANK=17";
		env[n + 1] = NULL;
		s = spawn(env);
		assert_int_equal(gt_proc_open(s.pid, &p), 0);
		assert_int_equal(gt_proc_getenv(&p, "RANK", buf, sizeof(buf)),
				 n == 7 ? 0 : -ENOENT);
		gt_proc_close(&p);
		spawn_end(&s);
	}
	free(big);
}

/* As setproctitle leaves it: one long string without the variables. */
static void overwritten_environment(void **state)
{
	int up[2], down[2];
	struct gt_proc p;
	char buf[8], c;
	pid_t pid;

	(void)state;
	assert_non_null(getenv("PATH"));
	assert_int_equal(pipe2(up, O_CLOEXEC), 0);
	assert_int_equal(pipe2(down, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		char *start = environ[0], *end = start;

		for (char **e = environ; *e; e++)
			end = *e + strlen(*e);
		close(down[1]);
		if (start)
			memset(start, 't', (size_t)(end - start));
		_exit(write(up[1], "x", 1) == 1 && read(down[0], &c, 1) == 0 ? 0 : 1);
	}
	assert_int_equal(read(up[0], &c, 1), 1);
	assert_int_equal(gt_proc_open(pid, &p), 0);
	assert_int_equal(gt_proc_getenv(&p, "PATH", buf, sizeof(buf)), -ENOENT);
	gt_proc_close(&p);
	close(down[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(down[0]);
	close(up[0]);
	close(up[1]);
}

static void threads(void **state)
{
	struct gt_proc p;
	struct parked t;
	char comm[GT_PROC_COMM];
	pid_t ns_tid = 0;

	(void)state;
	parked_start(&t, "odd\n\xff)(");
	assert_int_equal(gt_proc_open(getpid(), &p), 0);
	assert_int_equal(gt_proc_thread(&p, t.tid, comm, &ns_tid), 0);
	assert_string_equal(comm, "odd\n\xff)(");
	if (p.ns_pid == p.pid) /* not in a child PID namespace with another /proc */
		assert_int_equal(ns_tid, t.tid);
	assert_int_equal(gt_proc_shadow_stack(&p), 0);
	parked_end(&t);
	assert_int_equal(gt_proc_thread(&p, t.tid, comm, &ns_tid), -ENOENT);
	gt_proc_close(&p);
}

/* The first process of a new PID namespace is 1 there. */
static void pid_namespace(void **state)
{
	struct gt_proc p, self;
	int pipes[2];
	pid_t outer, inner = 0;

	(void)state;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	outer = fork();
	assert_true(outer >= 0);
	if (outer == 0) {
		pid_t pid = unshare(CLONE_NEWPID) ? -1 : fork();

		if (pid == 0) {
			pause();
			_exit(0);
		}
		_exit(write(pipes[1], &pid, sizeof(pid)) == sizeof(pid) ? 0 : 1);
	}
	assert_int_equal(read(pipes[0], &inner, sizeof(inner)), sizeof(inner));
	assert_int_equal(waitpid(outer, NULL, 0), outer);
	close(pipes[0]);
	close(pipes[1]);
	if (inner < 0) {
		print_message("skipped: a PID namespace takes CAP_SYS_ADMIN\n");
		skip();
	}
	assert_int_equal(gt_proc_open(inner, &p), 0);
	assert_int_equal(gt_proc_open(getpid(), &self), 0);
	assert_int_equal(p.pid, inner);
	assert_int_equal(p.ns_pid, 1);
	assert_int_not_equal(p.pidns_ino, self.pidns_ino);
	assert_int_equal(p.pidns_dev, self.pidns_dev);
	kill(inner, SIGKILL);
	gt_proc_close(&p);
	gt_proc_close(&self);
}

static int quiet(void **state)
{
	(void)state;
	gt_log_setup("test", GT_LOG_ERROR);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opens_itself),
		cmocka_unit_test(refuses_what_is_no_process),
		cmocka_unit_test(tells_the_end),
		cmocka_unit_test(odd_name_does_not_shift_the_fields),
		cmocka_unit_test(fields_of_stat),
		cmocka_unit_test(lists_executable_mappings),
		cmocka_unit_test(very_long_path),
		cmocka_unit_test(ends_meanwhile),
		cmocka_unit_test(environment),
		cmocka_unit_test(huge_environment),
		cmocka_unit_test(overwritten_environment),
		cmocka_unit_test(threads),
		cmocka_unit_test(pid_namespace),
	};

	return cmocka_run_group_tests_name("proc", tests, quiet, NULL);
}
