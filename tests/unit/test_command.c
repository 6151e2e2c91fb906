// SPDX-License-Identifier: Apache-2.0
/* Real programs, started, held, let go, killed; with real ptrace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "commandfix.h"

#include <elf.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

/* ---- what this program does when it is started as a command ---- */

__attribute__((no_sanitize("address", "undefined"))) static int end_at_once(void *arg)
{
	(void)arg;
	return (int)syscall(SYS_exit_group, 0);
}

/*
 * Runs in the dynamic loader, before the entry point, as constructors of libraries do; without what
 * sanitizers need, which is not there yet.
 */
__attribute__((no_sanitize("address", "undefined"))) static void before_entry(int argc, char **argv,
									      char **env)
{
	static char stack[16384] __attribute__((aligned(16)));
	static char *again[] = {(char *)"/bin/echo", (char *)"again", NULL};
	char c;

	(void)env;
	if (argc < 3 || strcmp(argv[1], "before"))
		return;
	switch (argv[2][0]) {
	case 'f': /* both run on */
		(void)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		break;
	case 'v': /* both run on, with memory of their own, the parent last */
		(void)syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
		break;
	case 's': /* as vfork(2) does: in the same memory */
		(void)clone(end_at_once, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD,
			    NULL);
		break;
	case 'x':
		(void)syscall(SYS_execve, again[0], again, env);
		break;
	case 'w': /* until somebody writes */
		(void)syscall(SYS_write, OUT, "b", 1);
		(void)syscall(SYS_read, 0, &c, 1);
		break;
	}
}

__attribute__((section(".preinit_array"),
	       used)) static void (*const preinit)(int, char **, char **) = before_entry;

static void *execute_in_thread(void *argv)
{
	execv(((char **)argv)[0], argv);
	return NULL;
}

/* main(), as a command. */
static int act(int argc, char **argv)
{
	if (!strcmp(argv[1], "before"))
		return dprintf(OUT, "main\n") == 5 ? 0 : 1;
	if (!strcmp(argv[1], "thread") && argc > 2) {
		pthread_t t;

		pthread_create(&t, NULL, execute_in_thread, argv + 2);
		pthread_join(t, NULL);
		return 1;
	}
	return 0;
}

/* ---- tests ---- */

static void test_statuses(void **state)
{
	static const int codes[] = {0, 1, 7, 255}, signals[] = {SIGTERM, SIGKILL, SIGSEGV, SIGTRAP};
	char script[64];
	struct run r;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		snprintf(script, sizeof(script), "exit %d", codes[i]);
		START_SH(&r, script);
		assert_int_equal(held_then_end(&r, i % 2), codes[i]);
		snprintf(script, sizeof(script), "ulimit -c 0; kill -%d $$", signals[i]);
		START_SH(&r, script);
		assert_int_equal(held_then_end(&r, i % 2), 128 + signals[i]);
	}
	gt_command_free(NULL);
}

static int is_mapped(pid_t pid, const char *library)
{
	return strstr(read_proc(pid, "maps"), library) != NULL;
}

/* Is its code in a library of its own? */
static int has_library(const char *exe)
{
	char pattern[PATH_MAX];
	glob_t g = {0};
	int found;

	snprintf(pattern, sizeof(pattern), "%.*s../lib/libpython3*.so.*",
		 (int)(strrchr(exe, '/') + 1 - exe), exe);
	found = !glob(pattern, 0, NULL, &g);
	globfree(&g);
	return found && strncmp(exe, "/usr/", 5);
}

/* Nothing of it has run, and what it is linked with is there. */
static void expect_python_at_entry(char *exe)
{
	struct run r;
	pid_t pid;
	char c;

	START(&r, exe, (char *)"-c", (char *)"import os; os.write(9, b'ran')");
	EXPECT(&r, GT_COMMAND_AT_ENTRY);
	pid = gt_command_pid(r.c);
	assert_true(is_mapped(pid, has_library(exe) ? "/libpython3" : "/python3"));
	assert_true(is_mapped(pid, "/libc.so.6") || is_mapped(pid, "/libc-2."));
	assert_int_equal(fcntl(r.rd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(read(r.rd, &c, 1), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(fcntl(r.rd, F_SETFL, 0), 0);
	assert_int_equal(state_of(pid), 't');
	gt_command_continue(r.c, 1);
	assert_int_equal(run_end(&r), 0);
	assert_string_equal(r.out, "ran");
}

static void test_python_at_entry(void **state)
{
	const char *home = getenv("HOME");
	char pattern[PATH_MAX];
	glob_t g = {0};

	(void)state;
	glob("/usr/bin/python3.[0-9]", 0, NULL, &g);
	glob("/usr/bin/python3.[0-9][0-9]", GLOB_APPEND, NULL, &g);
	snprintf(pattern, sizeof(pattern), "%s/.pyenv/versions/3*/bin/python3", home ? home : "");
	glob(pattern, GLOB_APPEND, NULL, &g);
	for (size_t i = 0; i < g.gl_pathc; i++)
		expect_python_at_entry(g.gl_pathv[i]);
	if (!g.gl_pathc) {
		print_message("SKIP: no CPython here\n");
		skip();
	}
	globfree(&g);
}

static void test_chains(void **state)
{
	static const char script[] = "#!/bin/sh\nexec env B=2 /bin/echo done >&9\n";
	static const char *const expect[] = {"env", "bash", "dash|sh|bash", "env", "echo"};
	struct run r;

	(void)state;
	START(&r, (char *)"env", (char *)"A=1", (char *)"bash", (char *)"-c", (char *)"exec \"$0\"",
	      make_file("script", script, sizeof(script) - 1, 0755));
	for (size_t i = 0; i < GT_ARRAY_SIZE(expect); i++) {
		EXPECT(&r, GT_COMMAND_AT_ENTRY);
		assert_non_null(strstr(expect[i], exe_of(gt_command_pid(r.c))));
		gt_command_continue(r.c, 0);
	}
	assert_int_equal(run_end(&r), 0);
	assert_string_equal(r.out, "done\n");
	/* Let go for good, it is held no more. */
	START(&r, (char *)"env", (char *)"sh", (char *)"-c", (char *)"exec env sh -c 'exit 3'");
	EXPECT(&r, GT_COMMAND_AT_ENTRY);
	gt_command_continue(r.c, 0);
	EXPECT(&r, GT_COMMAND_AT_ENTRY);
	assert_string_not_equal(exe_of(gt_command_pid(r.c)), "env");
	assert_true(tracer_of(gt_command_pid(r.c)) > 0);
	gt_command_continue(r.c, 1);
	assert_int_equal(run_end(&r), 3);
}

static void test_failures(void **state)
{
	const char *path_before = getenv("PATH");
	char keep[PATH_MAX], path[PATH_MAX];
	struct run r;

	(void)state;
	snprintf(keep, sizeof(keep), "%s", path_before ? path_before : "/usr/bin:/bin");
	expect_failure(-ENOENT, (char *)"/no/such/program");
	expect_failure(-ENOENT, (char *)"no-such-program");
	expect_failure(-ENOENT, (char *)"");
	expect_failure(-EACCES, (char *)"/etc/passwd");
	expect_failure(-EACCES, (char *)"/tmp");
	/* The search in PATH. */
	make_file("denied", "", 0, 0600);
	setenv("PATH", fix_dir(), 1);
	expect_failure(-EACCES, (char *)"denied");
	snprintf(path, sizeof(path), "%s:/usr/bin:/bin", fix_dir());
	setenv("PATH", path, 1);
	expect_failure(-ENOENT, (char *)"nothing");
	make_file("true", "", 0, 0600); /* passed over */
	START(&r, (char *)"true");
	assert_int_equal(held_then_end(&r, 1), 0);
	unsetenv("PATH");
	START(&r, (char *)"true");
	assert_int_equal(held_then_end(&r, 1), 0);
	setenv("PATH", keep, 1);
	expect_failure(-ENOEXEC, make_file("text", "exit 0\n", 7, 0755));
	expect_failure(-ENOENT, make_file("noint", "#!/no/such/interpreter\n", 23, 0755));
	assert_int_equal(
		run_start(&r, (struct gt_command_opts){.user = "no such user"}, ARGV(self)),
		-ESRCH);
	assert_int_equal(run_start(&r, (struct gt_command_opts){.user = "12345678"}, ARGV(self)),
			 -ESRCH);
}

#ifdef __x86_64__
#define THIS_MACHINE   EM_X86_64
#define MACHINE_32_BIT EM_386
static const uint32_t exit_7[] = {0x07bf9090, 0xb8000000, 231, 0x0000050f};
static const uint32_t exit_7_32_bit[] = {0x000001b8, 0x07bb9000, 0xcd000000, 0x00000080};
#else
#define THIS_MACHINE   EM_AARCH64
#define MACHINE_32_BIT EM_ARM
static const uint32_t exit_7[] = {0xd28000e0, 0xd2800bc8, 0xd4000001, 0};
static const uint32_t exit_7_32_bit[] = {0xe3a00007, 0xe3a07001, 0xef000000, 0};
#endif

/* A program that nothing is linked with, made of one segment. */
static void test_static(void **state)
{
	struct {
		Elf64_Ehdr e;
		Elf64_Phdr p;
		uint32_t code[4];
	} elf;
	struct run r;

	(void)state;
	elf.e = (Elf64_Ehdr){
		.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = THIS_MACHINE,
		.e_version = EV_CURRENT,
		.e_entry = 0x400000 + offsetof(__typeof__(elf), code),
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 1,
	};
	elf.p = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_X,
		.p_vaddr = 0x400000,
		.p_filesz = sizeof(elf),
		.p_memsz = sizeof(elf),
		.p_align = 0x10000,
	};
	memcpy(elf.code, exit_7, sizeof(elf.code));
	START(&r, make_file("static", &elf, sizeof(elf), 0755));
	assert_int_equal(held_then_end(&r, 0), 7);
}

static void test_32_bit(void **state)
{
	struct {
		Elf32_Ehdr e;
		Elf32_Phdr p;
		uint32_t code[4];
	} elf;
	struct run r;
	char *path;

	(void)state;
	elf.e = (Elf32_Ehdr){
		.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = MACHINE_32_BIT,
		.e_flags = EF_ARM_EABI_VER5, /* Linux runs no other; x86 has no flags */
		.e_version = EV_CURRENT,
		.e_entry = 0x8050000 + offsetof(__typeof__(elf), code),
		.e_phoff = sizeof(Elf32_Ehdr),
		.e_ehsize = sizeof(Elf32_Ehdr),
		.e_phentsize = sizeof(Elf32_Phdr),
		.e_phnum = 1,
	};
	elf.p = (Elf32_Phdr){
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_X,
		.p_vaddr = 0x8050000,
		.p_filesz = sizeof(elf),
		.p_memsz = sizeof(elf),
		.p_align = 0x10000,
	};
	memcpy(elf.code, exit_7_32_bit, sizeof(elf.code));
	path = make_file("32bit", &elf, sizeof(elf), 0755);
	if (fix_tool(path, NULL, NULL, NULL, NULL) != 7) {
		print_message("SKIP: this machine runs no 32-bit programs\n");
		skip();
	}
	START(&r, (char *)"env", path);
	EXPECT(&r, GT_COMMAND_AT_ENTRY);
	gt_command_continue(r.c, 0);
	EXPECT(&r, GT_COMMAND_UNHELD);
	assert_int_equal(run_end(&r), 7);
}

/* Constructors of libraries run before the entry, and may do what they like. */
static void test_before_entry(void **state)
{
	static const char *const expect[][2] = {
		{"f", "main\nmain\n"}, {"v", "main\nmain\n"}, {"s", "main\n"}};
	struct run r;

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(expect); i++) {
		START(&r, self, (char *)"before", (char *)expect[i][0]);
		assert_int_equal(held_then_end(&r, 1), 0);
		assert_string_equal(r.out, expect[i][1]);
	}
	START(&r, self, (char *)"before", (char *)"x");
	EXPECT(&r, GT_COMMAND_AT_ENTRY);
	assert_string_equal(exe_of(gt_command_pid(r.c)), "echo");
	gt_command_continue(r.c, 1);
	assert_int_equal(run_end(&r), 0);
	/* It is killed before. */
	START(&r, self, (char *)"before", (char *)"w");
	assert_int_equal(get(&r), 'b');
	kill(gt_command_pid(r.c), SIGKILL);
	assert_int_equal(run_end(&r), 128 + SIGKILL);
}

static void test_thread_executes(void **state)
{
	struct run r;

	(void)state;
	START(&r, self, (char *)"thread", (char *)"/bin/sh", (char *)"-c", (char *)"exit 4");
	EXPECT(&r, GT_COMMAND_AT_ENTRY);
	gt_command_continue(r.c, 0);
	assert_int_equal(held_then_end(&r, 1), 4);
}

static void stops_and_runs_on(struct run *r, int sig)
{
	pid_t pid = gt_command_pid(r->c);
	siginfo_t si;

	kill(pid, sig);
	assert_int_equal(waitid(P_PID, (id_t)pid, &si, WSTOPPED), 0);
	assert_int_equal(si.si_status, sig);
	let_read(r); /* it does not: it stays where it is */
	for (int i = 0; i < 2000; i++) {
		int is = state_of(pid);

		assert_true(is == 't' || is == 'T');
		sched_yield();
	}
	assert_int_equal(poll(&(struct pollfd){.fd = r->rd, .events = POLLIN}, 1, 0), 0);
	kill(pid, SIGCONT);
	assert_int_equal(waitid(P_PID, (id_t)pid, &si, WCONTINUED), 0);
	assert_int_equal(get(r), 'r');
}

static void job_control(void)
{
	static char script[] = "while read x; do printf r >&9; done";
	static const int signals[] = {SIGTSTP, SIGSTOP, SIGTTIN};
	struct run r;

	/* Not orphaned: its leader has a parent in another group. */
	assert_int_equal(setpgid(0, 0), 0);
	for (int for_good = 0; for_good < 2; for_good++) {
		START_SH(&r, script);
		EXPECT(&r, GT_COMMAND_AT_ENTRY);
		gt_command_continue(r.c, for_good);
		for (size_t i = 0; i < GT_ARRAY_SIZE(signals); i++)
			stops_and_runs_on(&r, signals[i]);
		close(r.in);
		r.in = -1;
		assert_int_equal(run_end(&r), 0);
	}
	/* While it is held: when it runs on. */
	START_SH(&r, script);
	EXPECT(&r, GT_COMMAND_AT_ENTRY);
	kill(gt_command_pid(r.c), SIGTSTP);
	assert_int_equal(state_of(gt_command_pid(r.c)), 't');
	gt_command_continue(r.c, 0);
	stops_and_runs_on(&r, SIGTSTP);
	close(r.in);
	r.in = -1;
	assert_int_equal(run_end(&r), 0);
}

static void test_job_control(void **state)
{
	(void)state;
	assert_int_equal(in_process(job_control), 0);
}

static void test_signals(void **state)
{
	struct signalfd_siginfo info = {.ssi_signo = SIGTERM, .ssi_code = SI_KERNEL};
	struct run r;

	(void)state;
	/* While it is held: not lost, save SIGKILL, which does not wait. */
	START_SH(&r, "exit 0");
	EXPECT(&r, GT_COMMAND_AT_ENTRY);
	kill(gt_command_pid(r.c), SIGUSR1);
	assert_int_equal(state_of(gt_command_pid(r.c)), 't');
	gt_command_continue(r.c, 0);
	assert_int_equal(run_end(&r), 128 + SIGUSR1);
	START_SH(&r, "exit 0");
	EXPECT(&r, GT_COMMAND_AT_ENTRY);
	kill(gt_command_pid(r.c), SIGKILL);
	assert_int_equal(run_end(&r), 128 + SIGKILL);
	/* The terminal's goes to the group by itself; another's is passed on. */
	for (int for_good = 0; for_good < 2; for_good++) {
		START_SH(&r, "trap 'echo term >&9; exit 9' TERM; printf r >&9; read x; exit 8");
		EXPECT(&r, GT_COMMAND_AT_ENTRY);
		gt_command_continue(r.c, for_good);
		assert_int_equal(get(&r), 'r');
		info.ssi_code = SI_KERNEL;
		gt_command_signal(r.c, &info);
		if (for_good) {
			info.ssi_code = SI_USER;
			gt_command_signal(r.c, &info);
		} else {
			let_read(&r);
		}
		assert_int_equal(run_end(&r), for_good ? 9 : 8);
		assert_string_equal(r.out, for_good ? "term\n" : "");
	}
}

/* ---- we are killed, or free it ---- */

enum when { PRE_ENTRY, HELD, WATCHED, FOR_GOOD };

/* Its pipes are there. */
static void bring_to(struct run *r, enum when when)
{
	static char script[] = "printf b >&9; read x; exec /bin/sh -c 'echo main >&9'";
	char *const *argv = when == PRE_ENTRY ? ARGV(self, (char *)"before", (char *)"w")
					      : ARGV((char *)"/bin/sh", (char *)"-c", script);

	assert_int_equal(run_start_piped(r, (struct gt_command_opts){0}, argv), 0);
	if (when != PRE_ENTRY)
		EXPECT(r, GT_COMMAND_AT_ENTRY);
	if (when == WATCHED || when == FOR_GOOD)
		gt_command_continue(r->c, when == FOR_GOOD);
	if (when != HELD)
		assert_int_equal(get(r), 'b');
}

static void lives_on(struct run *r, enum when when)
{
	if (when == HELD)
		assert_int_equal(get(r), 'b');
	let_read(r);
	read_out(r);
	assert_string_equal(r->out, "main\n");
}

static void test_we_are_killed(void **state)
{
	(void)state;
	for (enum when when = PRE_ENTRY; when <= FOR_GOOD; when++) {
		int ready[2], status;
		struct run r;
		pid_t pid;
		char c;

		open_pipes(&r);
		assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
		pid = fork();
		assert_true(pid >= 0);
		if (!pid) {
			setenv("CMOCKA_TEST_ABORT", "1", 1);
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			bring_to(&r, when);
			assert_int_equal(write(ready[1], "", 1), 1);
			for (;;)
				pause();
		}
		close(OUT);
		close(ready[1]);
		assert_int_equal(read(ready[0], &c, 1), 1);
		close(ready[0]);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		lives_on(&r, when);
	}
}

static void test_freed(void **state)
{
	(void)state;
	for (enum when when = PRE_ENTRY; when <= FOR_GOOD; when++) {
		struct run r;

		open_pipes(&r);
		bring_to(&r, when);
		gt_command_free(r.c);
		lives_on(&r, when);
		while (waitpid(-1, NULL, 0) > 0) /* it, and the holder */
			;
	}
}

static void test_holder_is_killed(void **state)
{
	struct run r;

	(void)state;
	for (enum when when = HELD; when <= WATCHED; when++) {
		open_pipes(&r);
		bring_to(&r, when);
		kill(tracer_of(gt_command_pid(r.c)), SIGKILL);
		EXPECT(&r, GT_COMMAND_UNHELD);
		gt_command_continue(r.c, 0);
		let_read(&r);
		assert_int_equal(run_end(&r), 0);
		assert_non_null(strstr(r.out, "main\n"));
	}
}

/* ---- again and again ---- */

/*
 * Sends signals that do nothing by default to each *pid, as fast as it can, but so many only: each
 * stops what is traced, which may then get nowhere.
 */
static pid_t storm(volatile pid_t *pid)
{
	static const int signals[] = {SIGCHLD, SIGURG, SIGWINCH, SIGCONT};
	pid_t stormer = fork(), last = 0;
	unsigned int sent = 0;

	assert_true(stormer >= 0);
	if (stormer)
		return stormer;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		pid_t now = *pid;

		if (now != last)
			sent = 0;
		last = now;
		if (now && sent++ < 1000)
			kill(now, signals[sent % GT_ARRAY_SIZE(signals)]);
		else
			sched_yield();
	}
}

static void again_and_again(volatile pid_t *pid)
{
	struct run r;

	for (int i = 0; i < 200; i++) {
		START(&r, (char *)"/usr/bin/env", (char *)"sh", (char *)"-c",
		      (char *)"(echo child >&9); exit 6");
		*pid = gt_command_pid(r.c);
		EXPECT(&r, GT_COMMAND_AT_ENTRY);
		gt_command_continue(r.c, 0);
		EXPECT(&r, GT_COMMAND_AT_ENTRY);
		gt_command_continue(r.c, i % 2);
		EXPECT(&r, GT_COMMAND_ENDED);
		assert_int_equal(gt_command_status(r.c), 6);
		*pid = 0;
		gt_command_free(r.c);
		read_out(&r);
		assert_string_equal(r.out, "child\n");
	}
}

static void test_again_and_again(void **state)
{
	volatile pid_t *pid =
		mmap(NULL, sizeof(*pid), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t stormer;

	(void)state;
	assert_true(pid != MAP_FAILED);
	again_and_again(pid);
	stormer = storm(pid);
	again_and_again(pid);
	kill(stormer, SIGKILL);
	assert_int_equal(waitpid(stormer, NULL, 0), stormer);
	munmap((void *)pid, sizeof(*pid));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_statuses),         cmocka_unit_test(test_python_at_entry),
		cmocka_unit_test(test_chains),           cmocka_unit_test(test_failures),
		cmocka_unit_test(test_static),           cmocka_unit_test(test_32_bit),
		cmocka_unit_test(test_before_entry),     cmocka_unit_test(test_thread_executes),
		cmocka_unit_test(test_job_control),      cmocka_unit_test(test_signals),
		cmocka_unit_test(test_we_are_killed),    cmocka_unit_test(test_freed),
		cmocka_unit_test(test_holder_is_killed), cmocka_unit_test(test_again_and_again),
	};

	if (argc > 1)
		return act(argc, argv);
	return cmocka_run_group_tests(tests, run_setup, fix_teardown);
}
