// SPDX-License-Identifier: Apache-2.0
/* Real processes that call themselves something odd, or live elsewhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kid.h"
#include "log.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

#define SUM64   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER   "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define TICK_NS 10000000

/* ---- text ---- */

static void assert_clean(const char *from, const char *to)
{
	char text[128];

	strcpy(text, from);
	gt_about_clean(text);
	assert_string_equal(text, to);
}

static void text_is_made_harmless(void **state)
{
	(void)state;
	assert_clean("", "");
	assert_clean("plain text", "plain text");
	assert_clean("\x1b[31m\n\t\x7f", "?[31m???");
	assert_clean("a\xc2\x9b"
		     "31m",
		     "a??31m"); /* CSI as one character */
	assert_clean("\x9b"
		     "31m",
		     "?31m"); /* and as one byte */
	assert_clean("\xc2\xa0\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80",
		     "\xc2\xa0\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80");
	assert_clean("\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf");
	assert_clean("\xf4\x90\x80\x80 \xf8\x88\x80\x80\x80 \xff\xfe", "???? ????? ??");
	assert_clean("\xc0\x80 \xc1\xbf \xe0\x9f\xbf \xf0\x8f\xbf\xbf", "?? ?? ??? ????");
	assert_clean("\xed\xa0\x80 \xed\xbf\xbf", "??? ???"); /* surrogates */
	assert_clean("\xe4\xb8", "??");                       /* cut off */
	assert_clean("\xe4", "?");
	assert_clean("\xe4"
		     "x\xb8",
		     "?x?");
	/* turned round, and back; a line's end; an isolate's */
	assert_clean("\xe2\x80\xae"
		     "a\xe2\x80\xac"
		     "b\xe2\x80\xa8"
		     "c\xe2\x81\xa9",
		     "???a???b???c???");
	assert_clean("\xe4\xb8\xad\xe6\x96\x87", "\xe4\xb8\xad\xe6\x96\x87");
}

/* ---- command line ---- */

/* A program that ends with its input; a shell does with "-c", "read x". */
static struct kid exec_start(const char *file, char *const argv[])
{
	int in[2], out[2], ready[2];
	struct kid k = {0};
	char c;

	assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(ready, O_CLOEXEC), 0);
	k.pid = fork();
	assert_true(k.pid >= 0);
	if (!k.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0);
		dup2(out[1], 1);
		execve(file, argv, no_env);
		_exit(write(ready[1], "x", 1) == 1 ? 127 : 126);
	}
	close(in[0]);
	close(out[1]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 0); /* a byte: exec failed */
	close(ready[0]);
	k.in = in[1];
	k.out = out[0];
	return k;
}

static void arguments_of_a_program(void **state)
{
	char *const argv[] = {(char *)"a) S 1 (b",
			      (char *)"-c",
			      (char *)"read x",
			      (char *)"",
			      (char *)"two words",
			      (char *)"\x1b]0;title\a\nline",
			      (char *)"\xff\xc3\xa9",
			      (char *)" ",
			      (char *)"",
			      NULL};
	struct gt_proc p;
	char buf[GT_CMDLINE_MAX];
	struct kid k = exec_start("/bin/sh", argv);

	(void)state;
	assert_int_equal(gt_proc_open(k.pid, &p), 0);
	assert_int_equal(gt_about_cmdline(&p, buf, sizeof(buf)), 0);
	assert_string_equal(buf, "a) S 1 (b -c read x  two words ?]0;title??line ?\xc3\xa9");
	assert_int_equal(gt_about_cmdline(&p, buf, 5), 0);
	assert_string_equal(buf, "a) S");
	assert_int_equal(gt_about_cmdline(&p, buf, 1), 0);
	assert_string_equal(buf, "");
	gt_proc_close(&p);
	kid_end(&k);
}

#define HUGE_ARGUMENT 100000

static void odd_command_lines(void **state)
{
	static char huge[HUGE_ARGUMENT];
	char *argv[] = {NULL, (char *)"-c", (char *)"read x", huge, NULL};
	struct gt_about a;
	struct kid k;

	(void)state;
	for (size_t i = 0; i < HUGE_ARGUMENT - 1; i++)
		huge[i] = (char)(i % 2 ? 0xa9 : 0xc3);
	for (int odd = 0; odd < 2; odd++) { /* the cut goes through a character, or not */
		argv[0] = (char *)(odd ? "s" : "sh");
		k = exec_start("/bin/sh", argv);
		about_kid(&k, &a);
		assert_in_range(strlen(a.cmdline), GT_CMDLINE_MAX - 2, GT_CMDLINE_MAX - 1);
		assert_null(strchr(a.cmdline, '?'));
		kid_end(&k);
	}
	/* No argument at all: since Linux 5.18 this becomes one that is empty. */
	k = exec_start("/bin/cat", (char *[]){NULL});
	memset(&a, 'x', sizeof(a));
	about_kid(&k, &a);
	assert_string_equal(a.cmdline, "");
	kid_end(&k);
}

static int set_long_title(void)
{
	return set_title(
		"sglang::scheduler_TP0 \xe4\xb8\xad \x1b[2J and more than all of the arguments "
		"took, so that it ends within the environment");
}

static void title_over_the_arguments(void **state)
{
	struct kid k = kid_start(set_short_title);
	struct gt_about a;

	(void)state;
	assert_int_equal(did(&k), 0);
	about_kid(&k, &a);
	assert_string_equal(a.cmdline, "VLLM::W");
	kid_end(&k);

	k = kid_start(set_long_title);
	assert_int_equal(did(&k), 0);
	about_kid(&k, &a);
	assert_string_equal(a.cmdline,
			    "sglang::scheduler_TP0 \xe4\xb8\xad ?[2J and more than all of the "
			    "arguments took, so that it ends within the environment");
	kid_end(&k);
}

/* ---- container ---- */

static void assert_container(const char *text, const char *id)
{
	char out[GT_CONTAINER_MAX];

	memset(out, 'x', sizeof(out));
	gt_about_parse_container(text, out);
	if (strcmp(out, id))
		fail_msg("%s: \"%s\", not \"%s\"", text, out, id);
}

static void containers(void **state)
{
	(void)state;
	assert_container("0::/system.slice/docker-" SUM64 ".scope\n", SUM64);
	assert_container("12:pids:/docker/" SUM64 "\n11:cpu,cpuacct:/docker/" SUM64 "\n", SUM64);
	assert_container("0::/machine.slice/libpod-" SUM64 ".scope/container\n", SUM64);
	assert_container("0::/libpod_parent/libpod-" SUM64 "\n", SUM64);
	assert_container("0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-"
			 "pod5bf5a8b9_2f08_4a3e_8a4e_0123456789ab.slice/cri-containerd-" SUM64
			 ".scope\n",
			 SUM64);
	assert_container("0::/kubepods.slice/kubepods-pod1.slice/crio-" SUM64 ".scope/container",
			 SUM64);
	assert_container(
		"3:memory:/kubepods/besteffort/pod5bf5a8b9-2f08-4a3e-8a4e-0123456789ab/" SUM64,
		SUM64);
	assert_container("1:name=systemd:/system.slice/containerd.service/kubepods-pod1.slice:"
			 "cri-containerd:" SUM64 "\n",
			 SUM64);
	assert_container("0::/isulad/" SUM64, SUM64);
	assert_container("0::/../" SUM64, SUM64); /* beside the cgroup namespace that we are in */
	assert_container("0::/docker/0123456789ab\n", "0123456789ab");
	assert_container("0::/docker-0123456789ab.scope\n", "0123456789ab");
	assert_container("0::/system.slice/newruntime-" SUM64 ".scope\n", SUM64);
	/* The first line that tells one; of several in a line the innermost. */
	assert_container("9:cpu:/\n8:devices:/docker/" SUM64 "\n0::/docker/" OTHER "\n", SUM64);
	assert_container("0::/docker/" OTHER "/kubelet/kubepods/pod1/" SUM64 "/init.scope\n",
			 SUM64);
	assert_container("0::/lxc/web/system.slice/docker-" SUM64 ".scope\n", SUM64);
	assert_container("0::/docker-" SUM64 ".scope (deleted)\n", SUM64);
	/* lxc's have names. */
	assert_container("4:cpu:/lxc/web-1\n", "web-1");
	assert_container("0::/lxc.payload.web.2/init.scope\n", "web.2");
	assert_container("0::/lxc.payload/web3/user.slice\n", "web3");
	assert_container("0::/lxc/a\x1b[2J\xff\n", "a?[2J?");
	assert_container("0::/lxc/" SUM64 SUM64 "\n", SUM64 "0123456789abcde");
}

static void no_containers(void **state)
{
	(void)state;
	assert_container("", "");
	assert_container("\n\n", "");
	assert_container("0::/\n", "");
	assert_container("0:/docker/" SUM64 "\n", "");
	assert_container(":", "");
	assert_container("::", "");
	assert_container("0:://///\n", "");
	assert_container("0::/docker\n0::/lxc\n0::/lxc/\n0::/lxc.monitor.web\n", "");
	assert_container("0::/docker/" SUM64 "0\n", "");  /* 65 digits */
	assert_container("0::/docker/0123456789a\n", ""); /* 11 */
	assert_container("0::/docker/0123456789AB\n", "");
	assert_container("0::/docker-.scope/-/--\n", "");
	assert_container("0::/user.slice/user-1000.slice/user@1000.service/app.slice/vte-spawn-"
			 "5bf5a8b9-2f08-4a3e-8a4e-0123456789ab.scope\n",
			 "");
	/* Those that watch a container from outside. */
	assert_container("0::/machine.slice/libpod-conmon-" SUM64 ".scope\n", "");
	assert_container("0::/kubepods.slice/crio-conmon-" SUM64 ".scope\n", "");
}

/* In a cgroup that is named as docker names one. */
static void container_of_a_process(void **state)
{
	static const char *const roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/pids",
					    "/sys/fs/cgroup/unified"};
	struct kid k = kid_start(NULL);
	struct gt_about a;
	char dir[256], file[300], pid[16];
	int made = 0;

	(void)state;
	about_kid(&k, &a);
	snprintf(pid, sizeof(pid), "%d", (int)k.pid);
	for (size_t i = 0; i < GT_ARRAY_SIZE(roots) && !made; i++) {
		snprintf(file, sizeof(file), "%s/cgroup.procs", roots[i]);
		snprintf(dir, sizeof(dir), "%s/docker-" SUM64 ".scope", roots[i]);
		if (access(file, W_OK) || mkdir(dir, 0755))
			continue;
		snprintf(file, sizeof(file), "%s/cgroup.procs", dir);
		made = !write_file(file, pid);
		if (made)
			about_kid(&k, &a);
		kid_end(&k);
		assert_int_equal(rmdir(dir), 0);
		k = kid_start(NULL);
	}
	kid_end(&k);
	if (!made) {
		print_message("skipped: no cgroup can be made here\n");
		skip();
	}
	assert_string_equal(a.container, SUM64);
}

/* ---- numbers ---- */

/* Somebody else's, with three threads and a name that looks like the fields behind it. */
static int become_odd(void)
{
	pthread_t t;

	for (int i = 0; i < 2; i++)
		if (pthread_create(&t, NULL, wait_forever, NULL))
			return 1;
	return prctl(PR_SET_NAME, "a) Z 1 (b\nUid:\t7") || setuid(4242) ? errno : 0;
}

static int64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	assert_int_equal(clock_gettime(id, &ts), 0);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void owner_parent_threads_birth(void **state)
{
	int64_t before = clock_ns(CLOCK_MONOTONIC), after;
	struct kid k = kid_start(geteuid() ? NULL : become_odd);
	struct gt_about a, us;
	struct gt_proc p;

	(void)state;
	after = clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(did(&k), 0);
	about_kid(&k, &a);
	assert_int_equal(a.parent, getpid());
	assert_in_range(a.born_mono_ns, before - TICK_NS, after);
	if (!geteuid()) {
		assert_int_equal(a.threads, 3);
		assert_int_equal(a.uid, 4242);
	}
	assert_false(a.other_pidns || a.other_mntns || a.other_userns);
	assert_int_equal(a.timens_mono_ns, 0);
	assert_int_equal(a.timens_boot_ns, 0);
	kid_end(&k);

	assert_int_equal(gt_proc_open(getpid(), &p), 0);
	assert_int_equal(gt_about(&p, &us), 0);
	gt_proc_close(&p);
	assert_int_equal(us.parent, getppid());
	assert_int_equal(us.uid, getuid());
	assert_int_equal(us.threads, 1);
	assert_true(us.born_mono_ns && us.born_mono_ns < (uint64_t)before);
}

/* ---- namespaces ---- */

static int unshare_two(void)
{
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) ? errno : 0;
}

static uint64_t ino_of(pid_t pid, const char *name)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
	assert_int_equal(stat(path, &st), 0);
	return st.st_ino;
}

static void namespaces(void **state)
{
	struct kid k = kid_start(unshare_two);
	struct gt_about a;

	(void)state;
	if (did(&k)) {
		kid_end(&k);
		print_message("skipped: no user namespace: %s\n", strerror(did(&k)));
		skip();
		return;
	}
	about_kid(&k, &a);
	assert_int_equal(a.pidns, ino_of(k.pid, "pid"));
	assert_int_equal(a.mntns, ino_of(k.pid, "mnt"));
	assert_int_equal(a.userns, ino_of(k.pid, "user"));
	assert_int_equal(a.other_pidns, 0);
	assert_int_equal(a.other_mntns, 1);
	assert_int_equal(a.other_userns, 1);
	assert_int_equal(a.uid, getuid()); /* as we see it; it sees itself as 65534 */
	kid_end(&k);
}

/* Makes a namespace and a child in it, whose pid is sent. That must be ended by closing `end`. */
static pid_t child_in(int (*enter)(void), pid_t *outer, int *end)
{
	int up[2], down[2];
	pid_t inner = -1;
	char c;

	assert_int_equal(pipe2(up, O_CLOEXEC) | pipe2(down, O_CLOEXEC), 0);
	*outer = fork();
	assert_true(*outer >= 0);
	if (!*outer) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(down[1]);
		inner = enter() ? -1 : fork();
		if (!inner) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			_exit(read(down[0], &c, 1) == 0 ? 0 : 1);
		}
		if (write(up[1], &inner, sizeof(inner)) != sizeof(inner) || inner < 0)
			_exit(1);
		_exit(waitpid(inner, NULL, 0) == inner ? 0 : 1);
	}
	close(down[0]);
	close(up[1]);
	assert_int_equal(read(up[0], &inner, sizeof(inner)), sizeof(inner));
	close(up[0]);
	*end = down[1];
	return inner;
}

static int enter_pidns(void)
{
	return unshare(CLONE_NEWPID);
}

static void pid_namespace(void **state)
{
	pid_t outer, inner;
	struct kid k = {0};
	struct gt_about a;
	int end;

	(void)state;
	inner = child_in(enter_pidns, &outer, &end);
	if (inner > 0) {
		k.pid = inner;
		about_kid(&k, &a);
		assert_int_equal(a.pidns, ino_of(inner, "pid"));
		assert_int_equal(a.other_pidns, 1);
		assert_int_equal(a.other_mntns, 0);
		assert_int_equal(a.parent, outer);
	}
	close(end);
	assert_int_equal(waitpid(outer, NULL, 0), outer);
	if (inner < 0) {
		print_message("skipped: a PID namespace takes CAP_SYS_ADMIN\n");
		skip();
	}
}

#define SHIFT_S 7200

static int enter_timens(void)
{
	if (unshare(CLONE_NEWTIME))
		return -1;
	return write_file("/proc/self/timens_offsets",
			  "monotonic 7200 5\nboottime 7300 999999999\n");
}

static void time_namespace(void **state)
{
	int64_t before = clock_ns(CLOCK_MONOTONIC);
	int end;
	pid_t outer, inner = child_in(enter_timens, &outer, &end);
	struct gt_about a;
	struct kid k = {0};

	(void)state;
	if (inner < 0) {
		close(end);
		assert_int_equal(waitpid(outer, NULL, 0), outer);
		print_message("skipped: no time namespace (CONFIG_TIME_NS, CAP_SYS_ADMIN)\n");
		skip();
		return;
	}
	k.pid = inner;
	about_kid(&k, &a);
	assert_int_equal(a.timens_mono_ns, INT64_C(7200000000005));
	assert_int_equal(a.timens_boot_ns, INT64_C(7300999999999));
	assert_in_range(a.born_mono_ns, before - TICK_NS, clock_ns(CLOCK_MONOTONIC));
	/* Its maker is in ours still, whatever the file says, which is of its children. */
	k.pid = outer;
	about_kid(&k, &a);
	assert_int_equal(a.timens_mono_ns, 0);
	assert_int_equal(a.timens_boot_ns, 0);
	close(end);
	assert_int_equal(waitpid(outer, NULL, 0), outer);
}

/* The other way round: we are in one, and look at a process outside, and at ourselves. */
static void from_within_a_time_namespace(void **state)
{
	int64_t before = clock_ns(CLOCK_MONOTONIC), after;
	struct kid k = kid_start(NULL);
	pid_t maker;
	int status;

	(void)state;
	after = clock_ns(CLOCK_MONOTONIC);
	maker = fork();
	assert_true(maker >= 0);
	if (!maker) {
		pid_t looker = enter_timens() ? -1 : fork();
		struct gt_about a, own;
		struct gt_proc p;

		if (looker < 0)
			_exit(77);
		if (looker) {
			assert_int_equal(waitpid(looker, &status, 0), looker);
			_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
		}
		if (clock_ns(CLOCK_MONOTONIC) < before + SHIFT_S * INT64_C(1000000000))
			_exit(2); /* not in it */
		if (gt_proc_open(k.pid, &p) || gt_about(&p, &a))
			_exit(3);
		gt_proc_close(&p);
		if (a.timens_mono_ns || a.timens_boot_ns)
			_exit(4);
		if ((int64_t)a.born_mono_ns < before - TICK_NS || (int64_t)a.born_mono_ns > after)
			_exit(5);
		if (gt_proc_open(getpid(), &p) || gt_about(&p, &own))
			_exit(6);
		gt_proc_close(&p);
		if (own.timens_mono_ns != INT64_C(7200000000005) ||
		    (int64_t)own.born_mono_ns < before - TICK_NS ||
		    (int64_t)own.born_mono_ns > before + INT64_C(60000000000))
			_exit(7);
		_exit(0);
	}
	assert_int_equal(waitpid(maker, &status, 0), maker);
	kid_end(&k);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("skipped: no time namespace (CONFIG_TIME_NS, CAP_SYS_ADMIN)\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int quiet(void **state)
{
	(void)state;
	gt_log_setup("test", GT_LOG_ERROR);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_made_harmless),
		cmocka_unit_test(arguments_of_a_program),
		cmocka_unit_test(title_over_the_arguments),
		cmocka_unit_test(odd_command_lines),
		cmocka_unit_test(containers),
		cmocka_unit_test(no_containers),
		cmocka_unit_test(container_of_a_process),
		cmocka_unit_test(owner_parent_threads_birth),
		cmocka_unit_test(namespaces),
		cmocka_unit_test(pid_namespace),
		cmocka_unit_test(time_namespace),
		cmocka_unit_test(from_within_a_time_namespace),
	};

	(void)argc;
	arguments = argv;
	return cmocka_run_group_tests_name("about", tests, quiet, NULL);
}
