// SPDX-License-Identifier: Apache-2.0
/* The summary at the end of a recording: from descriptors, in a child, and never in the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gilfile_write.h"
#include "log.h"
#include "summary.h"
#include "summing.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

static char dir[] = "/tmp/test_summing.XXXXXX";
static char path[64]; /* of the latest recording */

/* Two threads, in turn, n times; then it is paused to its end. */
static int recording_paused(uint64_t pid, unsigned int n, uint64_t paused_ns)
{
	static unsigned int count;
	struct gil_clock clock = {.mono_ns = 1000, .unix_ns = UINT64_C(1700000000000000000)};
	struct gt_gilfile *f;
	char text[24];
	uint64_t ns = 1000;
	int fd;

	const char *const meta[][2] = {{"process.pid", text}, {"process.comm", "train"}};

	snprintf(path, sizeof(path), "%s/%u", dir, count++);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)pid);
	assert_int_equal(gt_gilfile_create(fcntl(fd, F_DUPFD_CLOEXEC, 3), &f), 0);
	assert_int_equal(gt_gilfile_meta(f, meta, GT_ARRAY_SIZE(meta)), 0);
	assert_int_equal(gt_gilfile_clock(f, &clock), 0);
	for (unsigned int i = 0; i < n; i++) {
		const uint32_t tid = (uint32_t)pid + i % 2, other = (uint32_t)pid + 1 - i % 2;
		const struct gil_event events[] = {
			{.kind = GIL_ACQUIRE, .tid = tid, .mono_ns = ns},
			{.kind = GIL_WAIT, .tid = other, .mono_ns = ns + 1},
			{.kind = GIL_RELEASE, .tid = tid, .mono_ns = ns + 1000, .forced = 1},
		};

		for (size_t k = 0; k < GT_ARRAY_SIZE(events); k++)
			assert_int_equal(gt_gilfile_add(f, &events[k], 0), 0);
		ns += 1000;
	}
	if (paused_ns) {
		const struct gil_event pause = {.kind = GIL_PAUSED,
						.mono_ns = ns + paused_ns,
						.paused = {.begin_mono_ns = ns}};

		assert_int_equal(gt_gilfile_add(f, &pause, 0), 0);
	}
	assert_int_equal(gt_gilfile_finish(f, GIL_END_STOPPED, ns + paused_ns, 0, NULL), 0);
	return fd;
}

static int recording(uint64_t pid, unsigned int n)
{
	return recording_paused(pid, n, 0);
}

/* What was printed, and logged. */
static char *shown, *logged;

static void print(struct gt_summing *s, int stop_fd)
{
	int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3), log = memfd_create("log", 0);
	size_t len;
	FILE *out = open_memstream(&shown, &len);
	off_t size;

	assert_non_null(out);
	dup2(log, STDERR_FILENO);
	gt_summing_print(s, stop_fd, out);
	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	fclose(out);
	size = lseek(log, 0, SEEK_END);
	logged = calloc(1, (size_t)size + 1);
	assert_non_null(logged);
	assert_int_equal(pread(log, logged, (size_t)size, 0), size);
	close(log);
	close(saved);
	/* No child is left. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void forget(void)
{
	free(gt_steal_ptr(shown));
	free(gt_steal_ptr(logged));
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" does not say \"%s\"", text, part);
}

static void add(struct gt_summing *s, int fd, uint64_t events)
{
	gt_summing_add(s, fd, events, "dir", "GIL.gil");
	close(fd); /* it has its own */
}

static void one(void **unused)
{
	struct gt_summing *s;

	(void)unused;
	assert_int_equal(gt_summing_new(&s), 0);
	add(s, recording(700, 20), 60);
	print(s, -1);
	assert_string_equal(logged, "");
	assert_has(shown, "train, pid 700: GIL held 100.0% of 20.0 us, ");
	assert_has(shown, "\n  thread 701: waited ");
	assert_has(shown, "of it for thread 700\n");
	forget();
	gt_summing_free(s);
}

/* The share is of the time that was recorded. */
static void paused(void **unused)
{
	struct gt_summing *s;

	(void)unused;
	assert_int_equal(gt_summing_new(&s), 0);
	add(s, recording_paused(700, 20, 60000), 60);
	add(s, recording_paused(701, 0, 5000), 0);
	print(s, -1);
	assert_string_equal(logged, "");
	assert_has(shown, "train, pid 700: GIL held 100.0% of 20.0 us, ");
	assert_has(shown, "\n  paused for 60.0 us (75.0%), in 1 pause, which counts for nothing\n");
	assert_has(shown, "train, pid 701: the recording was paused (almost) all the time\n");
	assert_null(strstr(shown, "LOST"));
	forget();
	gt_summing_free(s);
}

static void none(void **unused)
{
	struct gt_summing *s;

	(void)unused;
	assert_int_equal(gt_summing_new(&s), 0);
	print(s, -1);
	assert_string_equal(logged, "");
	assert_string_equal(shown, "");
	forget();
	gt_summing_free(s);
	gt_summing_free(NULL);
}

/* Those with the most events are kept. */
static void many(void **unused)
{
	struct gt_summing *s;

	(void)unused;
	assert_int_equal(gt_summing_new(&s), 0);
	for (unsigned int i = 0; i < GT_SUMMING_FILES + 10; i++)
		add(s, recording(1000 + i, 2), 1000 + i);
	add(s, recording(5, 2), 5);
	print(s, -1);
	assert_string_equal(logged, "");
	assert_has(shown, "64 processes, slowest first");
	assert_has(shown, "(11 recordings, with fewer events or removed, are left out of this)");
	/* They differ in nothing, so they stand in the order of their places. */
	assert_has(shown, "   1064 ");
	assert_null(strstr(shown, "   1009 "));
	assert_null(strstr(shown, "      5 "));
	forget();
	gt_summing_free(s);
}

static int open_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Nobody would get the space back. */
static void removed(void **unused)
{
	struct gt_summing *s;
	int before;

	(void)unused;
	assert_int_equal(gt_summing_new(&s), 0);
	before = open_files();
	for (int i = 0; i < 10; i++) {
		add(s, recording(900 + (uint64_t)i, 20), 60);
		assert_int_equal(unlink(path), 0);
	}
	add(s, recording(700, 20), 60);
	assert_int_equal(open_files(), before + 1);
	print(s, -1);
	assert_string_equal(logged, "");
	assert_has(shown, "train, pid 700: GIL held");
	assert_has(shown, "(10 recordings, with fewer events or removed, are left out of this)");
	forget();
	gt_summing_free(s);
}

/* One that somebody has emptied meanwhile, and one that is another thing now. */
static void spoilt(void **unused)
{
	struct gt_summing *s;
	int fd, pipefd[2];

	(void)unused;
	assert_int_equal(gt_summing_new(&s), 0);
	fd = recording(800, 20);
	assert_int_equal(ftruncate(fd, 0), 0);
	add(s, fd, 60);
	assert_int_equal(pipe2(pipefd, O_CLOEXEC), 0);
	add(s, pipefd[0], 60);
	add(s, recording(801, 20), 60);
	print(s, -1);
	close(pipefd[1]);
	assert_string_equal(logged, "");
	assert_has(shown, "train, pid 801: GIL held");
	assert_has(shown, "(2 of 3 recordings cannot be read any more)");
	forget();
	gt_summing_free(s);
}

static void too_many_events(void **unused)
{
	struct gt_summing *s;

	(void)unused;
	assert_int_equal(gt_summing_new(&s), 0);
	add(s, recording(800, 20), UINT64_C(1) << 40);
	print(s, -1);
	assert_has(logged, "would take too long");
	assert_has(logged, "gil2trace --summary");
	assert_string_equal(shown, "");
	forget();
	gt_summing_free(s);
}

/* ---- signals ---- */

static int open_stop_fd(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR1);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static volatile int quiet;
static sem_t sent;

/* Until it is told to stop: what comes before the summary begins is thrown away. */
static void *send(void *signo)
{
	while (!__atomic_load_n(&quiet, __ATOMIC_RELAXED)) {
		kill(getpid(), *(int *)signo);
		sem_post(&sent);
		usleep(500);
	}
	return NULL;
}

static void print_under(struct gt_summing *s, int signo)
{
	int stop_fd = open_stop_fd();
	pthread_t thread;

	assert_true(stop_fd >= 0);
	quiet = 0;
	assert_int_equal(sem_init(&sent, 0, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, send, &signo), 0);
	/* A fork while a thread is being born would take locks of the sanitizers' along. */
	assert_int_equal(sem_wait(&sent), 0);
	print(s, stop_fd);
	__atomic_store_n(&quiet, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	close(stop_fd);
}

static void ctrl_c_skips_it(void **unused)
{
	struct gt_summing *s;

	(void)unused;
	assert_int_equal(gt_summing_new(&s), 0);
	add(s, recording(900, 700000), 2100000);
	print_under(s, SIGINT);
	assert_has(logged, "the summary is skipped");
	assert_string_equal(shown, "");
	forget();
	gt_summing_free(s);
}

static void other_signals_do_not(void **unused)
{
	struct gt_summing *s;

	(void)unused;
	assert_int_equal(gt_summing_new(&s), 0);
	add(s, recording(900, 100000), 300000);
	print_under(s, SIGUSR1);
	assert_string_equal(logged, "");
	assert_has(shown, "train, pid 900: GIL held");
	forget();
	gt_summing_free(s);
}

/* The Ctrl-C that ended the recording, if nobody has read it. */
static void an_earlier_one_does_not(void **unused)
{
	int stop_fd = open_stop_fd();
	struct gt_summing *s;

	(void)unused;
	assert_int_equal(gt_summing_new(&s), 0);
	add(s, recording(900, 20), 60);
	kill(getpid(), SIGINT);
	print(s, stop_fd);
	close(stop_fd);
	assert_string_equal(logged, "");
	assert_has(shown, "train, pid 900: GIL held");
	forget();
	gt_summing_free(s);
}

/* ---- a child that somebody's file has taken over ---- */

/* Seen by both; NULL: the child does what it should. */
static struct {
	int wrote;   /* one of the recordings */
	int is_mute; /* it has closed its pipe, and goes on */
} * evil;

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): names of ld's --wrap */
int __real_gt_summary_text(const struct gt_summary *s, FILE *out, int brief);
int __wrap_gt_summary_text(const struct gt_summary *s, FILE *out, int brief);

/* The child's last step; the descriptor of the first recording is 4. */
int __wrap_gt_summary_text(const struct gt_summary *s, FILE *out, int brief)
{
	if (!evil)
		return __real_gt_summary_text(s, out, brief);
	evil->wrote = !ftruncate(4, 0) || write(4, "", 1) >= 0 ||
		      mmap(NULL, 1, PROT_WRITE, MAP_SHARED, 4, 0) != MAP_FAILED;
	close(3);
	__atomic_store_n(&evil->is_mute, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static void *send_once_mute(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&evil->is_mute, __ATOMIC_ACQUIRE))
		usleep(500);
	kill(getpid(), SIGINT);
	return NULL;
}

/* It can neither harm the recordings nor keep us waiting. */
static void a_child_gone_bad(void **unused)
{
	int stop_fd = open_stop_fd();
	struct gt_summing *s;
	pthread_t thread;

	(void)unused;
	evil = mmap(NULL, sizeof(*evil), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(evil != MAP_FAILED);
	assert_int_equal(gt_summing_new(&s), 0);
	add(s, recording(900, 20), 60);
	assert_int_equal(pthread_create(&thread, NULL, send_once_mute, NULL), 0);
	print(s, stop_fd);
	pthread_join(thread, NULL);
	close(stop_fd);
	assert_false(evil->wrote);
	assert_has(logged, "the summary is skipped");
	assert_string_equal(shown, "");
	forget();
	gt_summing_free(s);
	munmap(evil, sizeof(*evil));
	evil = NULL;
}

static int make_dir(void **unused)
{
	(void)unused;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **unused)
{
	char name[80];

	(void)unused;
	for (unsigned int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "%s/%u", dir, i);
		(void)unlink(name);
	}
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one),
		cmocka_unit_test(paused),
		cmocka_unit_test(none),
		cmocka_unit_test(many),
		cmocka_unit_test(removed),
		cmocka_unit_test(spoilt),
		cmocka_unit_test(too_many_events),
		cmocka_unit_test(ctrl_c_skips_it),
		cmocka_unit_test(other_signals_do_not),
		cmocka_unit_test(an_earlier_one_does_not),
		cmocka_unit_test(a_child_gone_bad),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
