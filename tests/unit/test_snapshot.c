// SPDX-License-Identifier: Apache-2.0
/*
 * What a process is doing: from memory made up (every layout, every damage), from a /proc made up,
 * and from threads of this process. test_snapshot_live.c looks at real Pythons.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gilfix.h"
#include "log.h"
#include "snapshot.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

/* ---- memory made up ---- */

#define BASE    0x7f1234560000ull
#define SIZE    0x10000
#define INTERP  0x1000 /* offsets in it */
#define TSTATE  0x8000
#define FINAL   0x210
#define HEAD    0x220
#define NEXT    0x18
#define CEVAL   0x28
#define OWN_GIL 0x700 /* of an interpreter */
#define NATIVE  0xa0  /* of a thread state */
#define STEP    0x800 /* between two interpreters, and two thread states */

struct fake {
	uint8_t bytes[SIZE];
	unsigned int reads;
	/* Before the read of that number this many times: the GIL changes hands. */
	unsigned int churn_from, churn;
	unsigned int shift;
};

static void put(struct fake *f, uint64_t off, uint64_t v)
{
	gt_put_le64(f->bytes + off, v);
}

static int fake_read(void *ctx, uint64_t addr, void *buf, size_t len)
{
	struct fake *f = ctx;

	if (f->churn && f->reads >= f->churn_from) {
		uint8_t *number = f->bytes + INTERP + OWN_GIL + f->shift + 0x18;

		gt_put_le64(number, gt_get_le64(number) + 1);
		f->churn--;
	}
	f->reads++;
	if (addr < BASE || !gt_in_range(addr - BASE, len, SIZE))
		return -EFAULT;
	memcpy(buf, f->bytes + (addr - BASE), len);
	return 0;
}

/* Interpreter i with a GIL of its own, held by thread state i, whose thread is 1000 + i. */
static void put_interp(struct fake *f, unsigned int i)
{
	uint64_t interp = INTERP + i * STEP, gil = interp + OWN_GIL, tstate = TSTATE + i * STEP;

	put(f, interp + NEXT, 0);
	if (i)
		put(f, interp - STEP + NEXT, BASE + interp);
	put(f, interp + CEVAL, BASE + gil);
	if (f->shift)
		put(f, gil, 0x7fffffff);
	put(f, gil + f->shift, 5000);
	put(f, gil + f->shift + 0x08, BASE + tstate);
	put(f, gil + f->shift + 0x10, 1);
	put(f, gil + f->shift + 0x18, 77);
	put(f, tstate + NATIVE, 1000 + i);
}

/* _PyRuntime of a version, with one interpreter. */
static void make(struct fake *f, unsigned int minor, unsigned int free_threaded)
{
	const unsigned int gil = minor == 13 ? 14 : 15, thread = minor == 13 ? 19 : 22;
	const unsigned int native = minor == 13 ? 25 : (minor == 14 ? 28 : 31);

	memset(f, 0, sizeof(*f));
	f->shift = free_threaded ? 8 : 0;
	memcpy(f->bytes, "xdebugpy", 8);
	put(f, 8 * 1, 0x030000f0 | minor << 16);
	put(f, 8 * 2, free_threaded);
	put(f, 8 * 3, 0x1000);
	put(f, 8 * 4, FINAL);
	put(f, 8 * 5, HEAD);
	put(f, 8 * 6, STEP);
	put(f, 8 * 8, NEXT);
	put(f, 8 * gil, CEVAL);
	put(f, 8 * (gil + 1), OWN_GIL);
	put(f, 8 * (gil + 3), OWN_GIL + 0x10 + f->shift);
	put(f, 8 * (gil + 4), OWN_GIL + 0x08 + f->shift);
	put(f, 8 * thread, 0x200);
	put(f, 8 * (thread + 2), 0x08);
	put(f, 8 * (thread + 3), 0x10);
	put(f, 8 * (native - 1), NATIVE - 8);
	put(f, 8 * native, NATIVE);
	put(f, HEAD, BASE + INTERP);
	put_interp(f, 0);
}

static struct gt_snapshot_gils parse(struct fake *f)
{
	struct gt_snapshot_gils g;
	const char *why = "";

	memset(&g, 0xff, sizeof(g));
	assert_int_equal(gt_snapshot_parse(fake_read, f, BASE, &g, &why), 0);
	assert_true(g.told ? why == NULL : strlen(why) > 10);
	return g;
}

static void assert_untold(struct fake *f)
{
	static const struct gt_snapshot_gils none;
	struct gt_snapshot_gils g = parse(f);

	assert_memory_equal(&g, &none, sizeof(g));
}

static void every_layout(void **state)
{
	static struct fake f;

	(void)state;
	for (unsigned int minor = 13; minor <= 15; minor++)
		for (unsigned int free_threaded = 0; free_threaded < 2; free_threaded++) {
			struct gt_snapshot_gils g;

			make(&f, minor, free_threaded);
			g = parse(&f);
			assert_int_equal(g.told, 1);
			assert_int_equal(g.free_threaded, free_threaded);
			assert_int_equal(g.finalizing, 0);
			assert_int_equal(g.n, 1);
			assert_int_equal(g.gil[0].cond,
					 BASE + INTERP + OWN_GIL + 0x20 + 8 * free_threaded);
			assert_int_equal(g.gil[0].enabled, 1);
			assert_int_equal(g.gil[0].locked, 1);
			assert_int_equal(g.gil[0].holder, 1000);
		}
	/* Newer than is known, but of the newest form; and of none. */
	make(&f, 16, 0);
	put(&f, 8 * 28, 0xff);
	assert_int_equal(parse(&f).gil[0].holder, 1000);
	make(&f, 13, 0);
	put(&f, 8, 0x031000a1);
	assert_untold(&f);
	/* A 3.14 before threads_main came, as its first alphas were. */
	make(&f, 13, 0);
	put(&f, 8, 0x030e00a1);
	assert_untold(&f);
}

static void states_of_the_gil(void **state)
{
	static struct fake f;
	const uint64_t gil = INTERP + OWN_GIL;
	struct gt_snapshot_gils g;

	(void)state;
	make(&f, 14, 0);
	put(&f, gil + 0x10, 0); /* the last holder may be gone then */
	put(&f, gil + 0x08, 0x123);
	g = parse(&f);
	assert_int_equal(g.n, 1);
	assert_int_equal(g.gil[0].locked, 0);
	assert_int_equal(g.gil[0].holder, 0);

	put(&f, gil + 0x10, 1); /* held before there is a thread state */
	put(&f, gil + 0x08, 0);
	g = parse(&f);
	assert_int_equal(g.gil[0].locked, 1);
	assert_int_equal(g.gil[0].holder, 0);

	put(&f, gil + 0x10, 0xffffffff); /* -1: not made yet */
	assert_int_equal(parse(&f).told, 1);
	assert_int_equal(parse(&f).n, 0);
	put(&f, INTERP + CEVAL, 0);
	assert_int_equal(parse(&f).told, 1);
	assert_int_equal(parse(&f).n, 0);
	put(&f, HEAD, 0); /* before Py_Initialize() */
	put(&f, FINAL, BASE + TSTATE);
	assert_int_equal(parse(&f).told, 1);
	assert_int_equal(parse(&f).finalizing, 1);

	make(&f, 13, 1);
	put(&f, gil, 0);
	put(&f, gil + 0x18, 0);
	g = parse(&f);
	assert_int_equal(g.gil[0].enabled, 0);
	assert_int_equal(g.gil[0].locked, 0);
}

static void many_gils(void **state)
{
	static struct fake f;
	struct gt_snapshot_gils g;

	(void)state;
	make(&f, 14, 0);
	for (unsigned int i = 1; i < 4; i++)
		put_interp(&f, i);
	put(&f, INTERP + 2 * STEP + CEVAL, BASE + INTERP + OWN_GIL); /* shares the first's */
	g = parse(&f);
	assert_int_equal(g.n, 3);
	assert_int_equal(g.gil[0].holder, 1000);
	assert_int_equal(g.gil[1].holder, 1001);
	assert_int_equal(g.gil[2].holder, 1003);

	/* More than are told apart; small, so that they fit. */
	make(&f, 14, 0);
	put(&f, 8 * 6, 0x100);
	put(&f, 8 * 16, 0x80);
	put(&f, 8 * 18, 0x90);
	put(&f, 8 * 19, 0x88);
	for (unsigned int i = 0; i < 40; i++) {
		uint64_t interp = INTERP + i * 0x100;

		memset(f.bytes + interp, 0, 0x100);
		put(&f, interp + NEXT, i < 39 ? BASE + interp + 0x100 : 0);
		put(&f, interp + CEVAL, BASE + interp + 0x80);
	}
	g = parse(&f);
	assert_int_equal(g.n, GT_SNAPSHOT_GILS);
	for (unsigned int i = 0; i < g.n; i++)
		assert_int_equal(g.gil[i].cond, BASE + INTERP + i * 0x100 + 0xa0);
}

static void damage(void **state)
{
	static const struct {
		uint64_t off, value;
	} bad[] = {
		{0, 0},
		{8, 0x030c00f0}, /* 3.12 has no _Py_DebugOffsets of its own */
		{8, 0x020700f0},
		{8, 0x1030e00f0},
		{8 * 2, 2},
		{8 * 3, 8},
		{8 * 3, ~0ull},
		{8 * 4, FINAL + 1},
		{8 * 5, ~0ull - 6},
		{8 * 6, 0x20},
		{8 * 8, 0x1000},
		{8 * 15, 0x900},
		{8 * 16, OWN_GIL + 8},
		{8 * 17, 8},
		{8 * 18, OWN_GIL + 0x18},
		{8 * 19, OWN_GIL},
		{8 * 22, 0xa0},
		{8 * 23, 8},
		{8 * 24, 0},
		{8 * 25, 0x18},
		{8 * 27, NATIVE},
		{8 * 28, NATIVE + 4},
		{HEAD, BASE + INTERP + 4},
		{HEAD, BASE + SIZE},
		{HEAD, 8},
		{HEAD, ~7ull},
		{INTERP + NEXT, BASE + INTERP}, /* goes round */
		{INTERP + NEXT, 0xdeadbeef},
		{INTERP + CEVAL, 1},
		{INTERP + CEVAL, ~7ull},
		{INTERP + CEVAL, BASE + SIZE - 8},
		{INTERP + OWN_GIL + 0x10, 2},
		{INTERP + OWN_GIL + 0x10, 0x80000000},
		{INTERP + OWN_GIL + 0x08, 0x123},
		{INTERP + OWN_GIL + 0x08, ~7ull},
		{INTERP + OWN_GIL + 0x08, BASE + SIZE},
		{TSTATE + NATIVE, 0x100000000},
		{TSTATE + NATIVE, 0x400001},
	};
	static struct fake f;

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(bad); i++) {
		make(&f, 14, 0);
		assert_int_equal(parse(&f).told, 1);
		put(&f, bad[i].off, bad[i].value);
		f.reads = 0;
		if (parse(&f).told)
			fail_msg("%#llx at %#llx is believed", (unsigned long long)bad[i].value,
				 (unsigned long long)bad[i].off);
		assert_untold(&f);
		assert_true(f.reads < 10000);
	}
}

static void unreadable(void **state)
{
	static struct fake f;
	struct gt_snapshot_gils g = {.n = 7};
	const char *why = "";

	(void)state;
	make(&f, 14, 0);
	assert_int_equal(gt_snapshot_parse(fake_read, &f, BASE + SIZE, &g, &why), -EFAULT);
	assert_int_equal(g.n, 0);
	for (uint64_t i = 0; i < 3; i++) {
		static const uint64_t nowhere[] = {0, BASE + 4, 1ull << 60};

		why = NULL;
		assert_int_equal(gt_snapshot_parse(fake_read, &f, nowhere[i], &g, &why), 0);
		assert_int_equal(g.told, 0);
		assert_non_null(why);
	}
}

/* Reads: 1 head, 2 finalizing, 3 list, 4 pointer to the GIL, 5 GIL, 6 id, 7 GIL again, 8 id ... */
static void changes_while_it_is_read(void **state)
{
	static struct fake f;
	struct gt_snapshot_gils g;

	(void)state;
	make(&f, 14, 0);
	f.churn_from = 5;
	f.churn = 1;
	g = parse(&f);
	assert_int_equal(g.gil[0].holder, 1000); /* at the second attempt */
	assert_int_equal(f.reads, 10);
	make(&f, 14, 1);
	f.churn_from = 4;
	f.churn = 1000;
	g = parse(&f);
	assert_int_equal(g.told, 1);
	assert_int_equal(g.gil[0].locked, 1);
	assert_int_equal(g.gil[0].holder, 0);
}

/* ---- a /proc made up ---- */

static void write_file(const char *name, const char *text)
{
	char path[PATH_MAX];
	FILE *f;

	fix_path(path, name);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void write_thread(const char *tid, const char *const text[4])
{
	static const char *const names[] = {"status", "schedstat", "stat", "syscall"};
	char name[64], path[PATH_MAX];

	snprintf(name, sizeof(name), "task/%s", tid);
	fix_path(path, name);
	assert_int_equal(mkdir(path, 0755), 0);
	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "task/%s/%s", tid, names[i]);
		if (text[i])
			write_file(name, text[i]);
	}
}

#define STATUS(n) "Name:\tx\nvoluntary_ctxt_switches:\t" #n "\nnonvoluntary_ctxt_switches:\t777\n"
/* 7 and 5 are utime and stime; the name is made to shift the fields. */
#define STAT "9 (x) R 1 (2 3) S 1 2 3 4 5 6 7 8 9 10 7 5 11 12 13 14 15 16 17\n"

static void texts_of_proc(void **state)
{
	char futex[64], path[PATH_MAX], *groups = malloc(200000);
	const uint64_t tick = 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	struct gt_snapshot_thread *t = NULL;
	struct gt_proc p;
	size_t n = 0;

	(void)state;
	assert_non_null(groups);
	memset(groups, '1', 200000);
	memcpy(groups, "Name:\tvoluntary_ctxt_switches:\t99\nGroups:\t", 42);
	strcpy(groups + 150000, "\nvoluntary_ctxt_switches:\t44\nnonvoluntary_ctxt_switches:\t3\n");
	snprintf(futex, sizeof(futex), "%d 0x7ffc00001238 0x80 0x0\n", (int)SYS_futex);
	fix_path(path, "task");
	assert_int_equal(mkdir(path, 0755), 0);
	write_thread("30", (const char *const[]){STATUS(3), "1234567 8 9\n", STAT, futex});
	write_thread("4", (const char *const[]){groups, NULL, STAT, "running\n"});
	write_thread("200", (const char *const[]){STATUS(0), "0 0 0\n", STAT, "-1 0x7 0x8\n"});
	write_thread("1000", (const char *const[]){"Name:\tx\n", "x\n", "no stat", "0 0x5 0x8\n"});
	write_thread("5", (const char *const[]){STATUS(1), "", "", NULL});
	write_thread("7", (const char *const[]){NULL, "9 9 9\n", STAT, futex}); /* has ended */
	p = (struct gt_proc){.procfd = open(fix_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
	assert_int_equal(gt_snapshot_threads(&p, &t, &n), 0);
	close(p.procfd);
	assert_int_equal(n, 5);
	assert_int_equal(t[0].tid, 4);
	assert_int_equal(t[0].sleeps, 44);
	assert_int_equal(t[0].run_ns, 12 * tick);
	assert_int_equal(t[0].futex, 0);
	assert_int_equal(t[1].tid, 5);
	assert_int_equal(t[1].sleeps, 1);
	assert_int_equal(t[1].run_ns, 0);
	assert_int_equal(t[2].tid, 30);
	assert_int_equal(t[2].sleeps, 3);
	assert_int_equal(t[2].run_ns, 1234567);
	assert_int_equal(t[2].futex, 0x7ffc00001238);
	assert_int_equal(t[3].tid, 200);
	assert_int_equal(t[3].run_ns, 12 * tick);
	assert_int_equal(t[3].futex, 0);
	assert_int_equal(t[4].tid, 1000);
	assert_int_equal(t[4].run_ns, 0);
	assert_int_equal(t[4].futex, 0);
	free(t);
	free(groups);
	p.procfd = -1;
	assert_int_equal(gt_snapshot_threads(&p, &t, &n), -EBADF);
}

/* Ids are in order of their number, however many there are. */
static void ids_of_threads(void **state)
{
	struct gt_proc p = {.procfd = -1};
	char path[PATH_MAX], name[32];
	uint32_t *tids = NULL;
	size_t n = 7;

	(void)state;
	assert_int_equal(gt_snapshot_tids(&p, &tids, &n), -EBADF);
	for (int i = 0; i < 70; i++) {
		snprintf(name, sizeof(name), "task/%d", 90 + i);
		fix_path(path, name);
		assert_true(!mkdir(path, 0755) || errno == EEXIST);
	}
	p.procfd = open(fix_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(gt_snapshot_tids(&p, &tids, &n), 0);
	close(p.procfd);
	assert_in_range(n, 70, 80);
	for (size_t i = 1; i < n; i++)
		assert_true(tids[i - 1] < tids[i]);
	free(tids);
}

/* The line that is looked for lies across the end of what was read so far. */
static void long_status(void **state)
{
	static const char tail[] =
		"\nvoluntary_ctxt_switches:\t123456\nnonvoluntary_ctxt_switches:\t3\n";
	static char text[9000];
	struct gt_snapshot_thread *t;
	struct gt_proc p;
	size_t n;

	(void)state;
	for (size_t len = 8190 - sizeof(tail); len < 8193; len++) {
		memset(text, '1', len);
		memcpy(text + len, tail, sizeof(tail));
		write_file("task/4/status", text);
		p.procfd = open(fix_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_int_equal(gt_snapshot_threads(&p, &t, &n), 0);
		close(p.procfd);
		assert_int_equal(t[0].sleeps, 123456);
		free(t);
	}
}

/* ---- threads of this process ---- */

struct parked {
	pthread_t thread;
	pid_t tid;
	int spin_ms; /* of CPU time, before it parks */
	int up[2], go[2];
	uint32_t word;
	uint64_t ran;
};

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Spins, says so, waits for a byte, and then at its futex until that is not 0. */
static void *park(void *arg)
{
	struct parked *t = arg;
	char c = 'x';

	t->tid = (pid_t)syscall(SYS_gettid);
	while (cpu_ns() < (uint64_t)t->spin_ms * 1000000)
		;
	t->ran = cpu_ns();
	if (write(t->up[1], &c, 1) != 1 || read(t->go[0], &c, 1) != 1)
		abort();
	while (!__atomic_load_n(&t->word, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, &t->word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	return NULL;
}

static void start(struct parked *t, int spin_ms)
{
	char c;

	memset(t, 0, sizeof(*t));
	t->spin_ms = spin_ms;
	assert_int_equal(pipe2(t->up, O_CLOEXEC), 0);
	assert_int_equal(pipe2(t->go, O_CLOEXEC), 0);
	assert_int_equal(pthread_create(&t->thread, NULL, park, t), 0);
	assert_int_equal(read(t->up[0], &c, 1), 1);
}

static void go(struct parked *t)
{
	assert_int_equal(write(t->go[1], "x", 1), 1);
}

static void end(struct parked *t)
{
	__atomic_store_n(&t->word, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &t->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	assert_int_equal(pthread_join(t->thread, NULL), 0);
	for (int i = 0; i < 2; i++) {
		close(t->up[i]);
		close(t->go[i]);
	}
}

static struct gt_snapshot_thread look_at(const struct gt_proc *p, pid_t tid)
{
	struct gt_snapshot_thread *t = NULL, found = {0};
	size_t n = 0;

	assert_int_equal(gt_snapshot_threads(p, &t, &n), 0);
	for (size_t i = 0; i < n; i++) {
		assert_true(!i || t[i - 1].tid < t[i].tid);
		if (t[i].tid == (uint32_t)tid)
			found = t[i];
	}
	free(t);
	return found;
}

static void one_thread(void **state)
{
	struct gt_snapshot_thread before, after;
	struct parked t;
	struct gt_proc p;

	(void)state;
	assert_int_equal(gt_proc_open(getpid(), &p), 0);
	start(&t, 30);
	before = look_at(&p, t.tid);
	assert_int_equal(before.tid, t.tid);
	assert_int_equal(before.futex, 0);
	go(&t);
	do
		after = look_at(&p, t.tid);
	while (!after.futex); /* ctest has a limit */
	assert_int_equal(after.futex, (uintptr_t)&t.word);
	assert_true(after.run_ns >= t.ran && after.run_ns < t.ran + 20000000);
	assert_true(after.sleeps > before.sleeps && after.sleeps <= before.sleeps + 3);
	assert_int_equal(look_at(&p, getpid()).futex, 0);
	end(&t);
	assert_int_equal(look_at(&p, t.tid).tid, 0);
	gt_proc_close(&p);
}

static void many_threads(void **state)
{
	static struct parked parked[300];
	struct gt_snapshot_thread *t;
	uint64_t began, ns;
	struct gt_proc p;
	size_t n, waiting;

	(void)state;
	assert_int_equal(gt_proc_open(getpid(), &p), 0);
	for (size_t i = 0; i < GT_ARRAY_SIZE(parked); i++) {
		start(&parked[i], 0);
		go(&parked[i]);
	}
	do { /* until all have got as far as that */
		began = cpu_ns();
		assert_int_equal(gt_snapshot_threads(&p, &t, &n), 0);
		ns = cpu_ns() - began;
		assert_int_equal(n, GT_ARRAY_SIZE(parked) + 1);
		waiting = 0;
		for (size_t i = 0; i < n; i++)
			waiting += t[i].futex != 0;
		free(t);
	} while (waiting < GT_ARRAY_SIZE(parked));
	assert_int_equal(waiting, GT_ARRAY_SIZE(parked));
	print_message("%zu threads in %.1f ms of CPU time\n", n, (double)ns / 1e6);
	for (size_t i = 0; i < GT_ARRAY_SIZE(parked); i++)
		end(&parked[i]);
	gt_proc_close(&p);
}

static void activity(void **state)
{
	static const struct gt_snapshot_thread before[] = {
		{1, 0, 5000000, 100}, {2, 0, 0, 0},       {4, 9, 7000000, 5},
		{6, 0, 8000000, 50},  {7, 0, 9000000, 1}, {9, 0, 1000000, 0},
	};
	static const struct gt_snapshot_thread after[] = {
		{1, 0, 6000000, 110}, /* ran and slept, just enough */
		{2, 0, 999999, 900},  /* not enough */
		{3, 0, 2000000, 10},  /* new */
		{4, 9, 9000000, 14},  /* ran, but slept 9 times only */
		{6, 0, 8500000, 3},   /* another thread by now */
		{7, 0, 1500000, 11},  /* this one, too */
		{8, 0, 100, 0},       /* new */
	};
	struct gt_activity a = gt_snapshot_activity(before, 6, after, 7);

	(void)state;
	assert_int_equal(a.ran, 5);
	assert_int_equal(a.slept, 3);
	assert_int_equal(a.run_ns, 1000000 + 999999 + 2000000 + 2000000 + 8500000 + 1500000 + 100);
	a = gt_snapshot_activity(NULL, 0, after, 7);
	assert_int_equal(a.ran, 5);
	a = gt_snapshot_activity(before, 6, NULL, 0);
	assert_int_equal(a.ran + a.slept + a.run_ns, 0);
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
		cmocka_unit_test(every_layout),   cmocka_unit_test(states_of_the_gil),
		cmocka_unit_test(many_gils),      cmocka_unit_test(damage),
		cmocka_unit_test(unreadable),     cmocka_unit_test(changes_while_it_is_read),
		cmocka_unit_test(texts_of_proc),  cmocka_unit_test(long_status),
		cmocka_unit_test(ids_of_threads), cmocka_unit_test(one_thread),
		cmocka_unit_test(many_threads),   cmocka_unit_test(activity),
	};

	return cmocka_run_group_tests_name("snapshot", tests, quiet, fix_teardown);
}
