// SPDX-License-Identifier: Apache-2.0
/*
 * libgiltrace.so in programs of all kinds: with many threads, that fork, that wait for every child
 * or for none, that have closed their standard descriptors, whose threads are cancelled.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "clientfix.h"

#define SERVED READY "serve;end"

/* ---- forks ---- */

/* Every call does nothing in a forked child, at once. */
static void inert(struct giltrace *g)
{
	struct giltrace_stats stats = GILTRACE_STATS_INIT;

	alarm(10);
	need(giltrace_mark(g, "x") == -ECHILD);
	need(giltrace_pause(g) == -ECHILD);
	need(giltrace_resume(g) == -ECHILD);
	need(giltrace_stats(g, &stats) == -ECHILD);
	need(giltrace_stop(g, &stats) == -ECHILD);
	need(strstr(giltrace_error(), "forked"));
	need(!giltrace_file(g, 0));
	need(!*giltrace_messages(g));
	giltrace_free(g);
}

static int sockets(void)
{
	struct stat st;
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += !fstat(fd, &st) && (S_ISSOCK(st.st_mode) || S_ISFIFO(st.st_mode));
	return n;
}

static int sockets_before;

static void inert_and_closed(struct giltrace *g)
{
	need(sockets() == sockets_before);
	inert(g);
}

static void forked_child(void **state)
{
	struct giltrace *g, *ended;

	(void)state;
	sockets_before = sockets();
	g = started(SERVED, LONG);
	assert_int_equal(sockets(), sockets_before + 2);
	ended = started(SERVED, LONG);
	assert_int_equal(giltrace_stop(ended, NULL), 0);
	in_child(inert_and_closed, g);
	in_child(inert_and_closed, ended);
	assert_int_equal(giltrace_mark(g, "x"), 0);
	assert_int_equal(state_of(g), GILTRACE_RECORDING);
	assert_int_equal(giltrace_stop(g, NULL), 0);
	giltrace_free(g);
	giltrace_free(ended);
}

/* By the system call alone, of which no library hears. */
static void cloned_child(void **state)
{
	struct giltrace *g = started(SERVED, LONG);
	int status;
	pid_t pid;

	(void)state;
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	assert_true(pid >= 0);
	if (!pid) {
		inert(g);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(state_of(g), GILTRACE_RECORDING);
	assert_int_equal(giltrace_stop(g, NULL), 0);
	giltrace_free(g);
}

static void starts_its_own(struct giltrace *g)
{
	struct giltrace *own;

	need(!start(SERVED, LONG, &own));
	need(!giltrace_mark(own, "x"));
	need(!giltrace_stop(own, NULL));
	giltrace_free(own);
	giltrace_free(g);
}

static void recording_in_a_child(void **state)
{
	struct giltrace *g = started(SERVED, LONG);

	(void)state;
	in_child(starts_its_own, g);
	assert_int_equal(giltrace_stop(g, NULL), 0);
	giltrace_free(g);
}

static void *ask_for_stats(void *arg)
{
	struct giltrace_stats stats = GILTRACE_STATS_INIT;

	return (void *)(intptr_t)giltrace_stats(arg, &stats);
}

/* A giltrace that never answers, and says by a FIFO that it has been asked. */
static struct giltrace *silent(uint32_t timeout_ms, int *asked)
{
	const char *path = new_path();
	char script[PATH_MAX + 200];
	struct giltrace *g;

	assert_int_equal(mkfifo(path, 0600), 0);
	*asked = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(*asked >= 0);
	print(script, sizeof(script), "notify=%s;" READY "serve=mute;end", path);
	g = started(script, timeout_ms);
	assert_int_equal(fcntl(*asked, F_SETFL, 0), 0);
	return g;
}

/* Another thread waits for an answer when this one forks: its locks are held in the child. */
static void fork_while_locks_are_held(void **state)
{
	struct giltrace *g;
	pthread_t thread;
	void *result;
	int asked;
	char c;

	(void)state;
	g = silent(500, &asked);
	assert_int_equal(pthread_create(&thread, NULL, ask_for_stats, g), 0);
	assert_int_equal(read(asked, &c, 1), 1);
	in_child(inert, g);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_int_equal((intptr_t)result, -ETIMEDOUT);
	assert_int_equal(giltrace_stop(g, NULL), 0);
	close(asked);
	giltrace_free(g);
}

/* Between the birth of the descriptors and that of giltrace, which is by this function. */
static pid_t fork_here, forked;

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
		 const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
	if (fork_here) {
		forked = fork();
		if (!forked) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
	}
	return posix_spawn(pid, file, actions, attr, argv, env);
}

/*
 * A child that lives on has not taken along the end that is to be giltrace's: this process would
 * not notice that giltrace has ended.
 */
static void fork_at_the_worst_moment(void **state)
{
	struct giltrace *g;

	(void)state;
	fork_here = 1;
	assert_int_equal(start("exit=9", 5000, &g), -EINVAL);
	fork_here = 0;
	assert_true(forked > 0);
	kill(forked, SIGKILL);
	assert_int_equal(waitpid(forked, NULL, 0), forked);
}

static atomic_int stop_forking;

static void *keep_forking(void *arg)
{
	while (!atomic_load(&stop_forking)) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		if (waitpid(pid, NULL, 0) != pid)
			atomic_fetch_add((atomic_int *)arg, 1);
	}
	return NULL;
}

static void forks_at_any_moment(void **state)
{
	static atomic_int wrong;
	pthread_t thread;

	(void)state;
	atomic_store(&stop_forking, 0);
	assert_int_equal(pthread_create(&thread, NULL, keep_forking, &wrong), 0);
	for (int i = 0; i < 40; i++) {
		struct giltrace *g = started(READY "serve;exit=6", LONG);

		assert_int_equal(giltrace_stop(g, NULL), 0);
		giltrace_free(g);
	}
	atomic_store(&stop_forking, 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(atomic_load(&wrong), 0);
}

/*
 * A signal between the library's handler before fork() and the birth, whose own handler forks. Who
 * asks for his handlers before the library does so when it is loaded, is called behind it.
 */
static volatile sig_atomic_t signal_in_fork, forks_in_handler;

static void in_the_midst_of_fork(void)
{
	if (!signal_in_fork)
		return;
	signal_in_fork = 0;
	raise(SIGUSR1);
}

static void come_first(void)
{
	if (pthread_atfork(in_the_midst_of_fork, NULL, NULL))
		abort();
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = come_first;

static void fork_in_handler(int sig)
{
	pid_t pid = fork();

	(void)sig;
	if (!pid)
		_exit(0);
	if (pid > 0 && waitpid(pid, NULL, 0) == pid)
		forks_in_handler++;
}

static int same_mask(const sigset_t *a)
{
	sigset_t b;
	int same = 1;

	pthread_sigmask(SIG_BLOCK, NULL, &b);
	for (int sig = 1; sig < NSIG; sig++)
		same &= sigismember(a, sig) == sigismember(&b, sig);
	return same;
}

static void forks_in_forks(struct giltrace *none)
{
	struct sigaction act = {.sa_handler = fork_in_handler};
	sigset_t mask;

	alarm(10); /* ends one that waits for itself */
	need(!sigaction(SIGUSR1, &act, NULL));
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	need(!pthread_sigmask(SIG_SETMASK, &mask, NULL));
	for (int i = 1; i <= 100; i++) {
		int status;
		pid_t pid;

		signal_in_fork = 1;
		pid = fork();
		if (!pid)
			_exit(!same_mask(&mask));
		need(waitpid(pid, &status, 0) == pid && !status);
		need(!signal_in_fork && forks_in_handler == i && same_mask(&mask));
	}
	(void)none;
}

static void fork_in_a_handler_in_a_fork(void **state)
{
	(void)state;
	in_child(forks_in_forks, NULL);
}

/* ---- threads ---- */

#define THREADS 8

static struct {
	struct giltrace *g;
	pthread_barrier_t all_there;
	atomic_int wrong, marks;
} shared;

static void *use(void *arg)
{
	struct giltrace_stats stats = GILTRACE_STATS_INIT;
	int n = (int)(intptr_t)arg, stopped = 0, err;

	(void)pthread_barrier_wait(&shared.all_there);
	for (int i = 0; i < 100 && !stopped; i++) {
		if (!giltrace_mark(shared.g, "x"))
			atomic_fetch_add(&shared.marks, 1);
		err = i % 2 ? giltrace_pause(shared.g) : giltrace_resume(shared.g);
		stopped = err == -EPIPE;
		if (err && !stopped)
			atomic_fetch_add(&shared.wrong, 1);
		if (giltrace_stats(shared.g, &stats) ||
		    stats.events != (stats.state == GILTRACE_ENDED ? 30 : 4711))
			atomic_fetch_add(&shared.wrong, 1);
		if (n == i && n > THREADS / 2 && giltrace_stop(shared.g, NULL))
			atomic_fetch_add(&shared.wrong, 1);
	}
	return NULL;
}

static void threads_share_a_recording(void **state)
{
	pthread_t threads[THREADS];
	struct giltrace_stats stats = GILTRACE_STATS_INIT;

	(void)state;
	memset(&shared, 0, sizeof(shared));
	shared.g = started(SERVED, LONG);
	assert_int_equal(pthread_barrier_init(&shared.all_there, NULL, THREADS), 0);
	for (intptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(atomic_load(&shared.wrong), 0);
	assert_int_equal(giltrace_stop(shared.g, &stats), 0);
	assert_true(stats.marks > 0 && stats.marks <= (uint64_t)atomic_load(&shared.marks));
	pthread_barrier_destroy(&shared.all_there);
	giltrace_free(shared.g);
}

static void *start_and_stop(void *arg)
{
	for (int i = 0; i < 10; i++) {
		struct giltrace *g;

		if (start(SERVED, LONG, &g) || giltrace_mark(g, "x") || giltrace_stop(g, NULL))
			atomic_fetch_add(&shared.wrong, 1);
		giltrace_free(g);
	}
	return arg;
}

static void threads_with_recordings_of_their_own(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	atomic_store(&shared.wrong, 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, start_and_stop, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(atomic_load(&shared.wrong), 0);
}

static void *fail_once(void *arg)
{
	(void)giltrace_stop(NULL, NULL);
	return strstr(giltrace_error(), "NULL") ? arg : NULL;
}

static void words_are_the_threads(void **state)
{
	struct giltrace *g;
	pthread_t thread;
	void *result;

	(void)state;
	assert_int_equal(start("say=giltrace: mine;exit=5", LONG, &g), -EACCES);
	assert_int_equal(pthread_create(&thread, NULL, fail_once, &shared), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, &shared);
	assert_string_equal(giltrace_error(), "mine");
}

/* A mark does not wait for a thread that does. */
static void marks_wait_for_nobody(void **state)
{
	struct giltrace *g;
	pthread_t thread;
	void *result;
	int asked;
	char c;

	(void)state;
	g = silent(500, &asked);
	assert_int_equal(pthread_create(&thread, NULL, ask_for_stats, g), 0);
	assert_int_equal(read(asked, &c, 1), 1);
	assert_int_equal(giltrace_mark(g, "x"), 0);
	assert_int_equal(pthread_tryjoin_np(thread, &result), EBUSY);
	assert_int_equal(pthread_join(thread, &result), 0);
	close(asked);
	giltrace_free(g);
}

/* A thread that is cancelled while it waits leaves the recording as it was. */
static void cancelled_thread(void **state)
{
	struct giltrace *g;
	pthread_t thread;
	int asked;
	char c;

	(void)state;
	g = silent(300, &asked);
	assert_int_equal(pthread_create(&thread, NULL, ask_for_stats, g), 0);
	assert_int_equal(read(asked, &c, 1), 1);
	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(giltrace_stop(g, NULL), 0);
	close(asked);
	giltrace_free(g);
}

/* ---- who waits for children, and for whom ---- */

/* The status of giltrace is nobody's; what it has told by itself is known. */
static void sigchld_ignored(void **state)
{
	struct giltrace_stats stats = GILTRACE_STATS_INIT;
	struct giltrace *g;

	(void)state;
	signal(SIGCHLD, SIG_IGN);
	g = started(READY "serve;status=7;end;exit=7", LONG);
	assert_int_equal(giltrace_stop(g, &stats), -EIO);
	assert_int_equal(stats.status, 7);
	giltrace_free(g);
	g = started(READY "kill=9", LONG);
	assert_int_equal(giltrace_stop(g, &stats), -EIO);
	assert_int_equal(stats.status, -1);
	assert_says("ended without a word");
	giltrace_free(g);
	assert_int_equal(start("send=ended status=5", LONG, &g), -EACCES);
	assert_int_equal(start("exit=5", LONG, &g), -EINVAL);
	assert_says("is no giltrace: it ended");
	assert_int_equal(start("deaf;hang", QUICK, &g), -ETIMEDOUT);
	signal(SIGCHLD, SIG_DFL);
}

static void *wait_for_all(void *arg)
{
	while (!atomic_load(&shared.marks))
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	return arg;
}

static void somebody_waits_for_every_child(void **state)
{
	pthread_t thread;

	(void)state;
	atomic_store(&shared.marks, 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_all, NULL), 0);
	for (int i = 0; i < 20; i++) {
		struct giltrace_stats stats = GILTRACE_STATS_INIT;
		struct giltrace *g = started(READY "serve;status=6;end", LONG);

		assert_int_equal(giltrace_stop(g, &stats), 0);
		assert_int_equal(stats.status, 6);
		giltrace_free(g);
	}
	atomic_store(&shared.marks, 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Children of the program are its own: ours alone is waited for. */
static void other_children_stay(void **state)
{
	struct giltrace *g;
	pid_t other = fork();
	int status;

	(void)state;
	if (!other)
		_exit(3);
	assert_true(other > 0);
	g = started(SERVED, LONG);
	assert_int_equal(giltrace_stop(g, NULL), 0);
	giltrace_free(g);
	assert_int_equal(waitpid(other, &status, 0), other);
	assert_int_equal(WEXITSTATUS(status), 3);
}

/* ---- standard descriptors ---- */

/* Whichever of them are closed: giltrace has all, and these stay closed here. */
static void without_standard_descriptors(struct giltrace *none)
{
	for (int closed = 0; closed < 8; closed++) {
		struct giltrace *g;
		int keep[3];

		for (int fd = 0; fd < 3; fd++) {
			keep[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 10);
			if (closed & 1 << fd)
				close(fd);
		}
		need(!start("look;" SERVED, LONG, &g));
		need(!giltrace_mark(g, "x"));
		for (int fd = 0; fd < 3; fd++)
			need((closed & 1 << fd) ? fcntl(fd, F_GETFD) < 0 : fcntl(fd, F_GETFD) >= 0);
		need(!giltrace_stop(g, NULL));
		for (int fd = 0; fd < 3; fd++) {
			dup2(keep[fd], fd);
			close(keep[fd]);
		}
		need(strstr(giltrace_messages(g), "out null 1\nerr pipe 1 nonblocking 1\n"
						  "in seqpacket 1 "));
		giltrace_free(g);
	}
	(void)none;
}

static void closed_standard_descriptors(void **state)
{
	(void)state;
	in_child(without_standard_descriptors, NULL);
}

/* ---- the end of the program ---- */

static void execute_another_program(struct giltrace *g)
{
	char path[PATH_MAX];

	/* The socket of the parent is closed here already; of one's own, exec closes it. */
	giltrace_free(g);
	print(path, sizeof(path), "%s/executed", scratch);
	{
		char script[PATH_MAX + 100];

		print(script, sizeof(script), READY "serve;touch=%s", path);
		need(!start(script, LONG, &g));
	}
	execlp("sh", "sh", "-c", "while ! test -e \"$0\"; do :; done", path, (char *)NULL);
	need(0);
}

static void kill_this_process(struct giltrace *g)
{
	char path[PATH_MAX], script[PATH_MAX + 100];

	print(path, sizeof(path), "%s/killed", scratch);
	print(script, sizeof(script), READY "serve;touch=%s", path);
	need(!start(script, LONG, &g));
	raise(SIGKILL);
}

/* giltrace finishes when the program is gone, whatever its children keep. */
static void end_of_the_program(void **state)
{
	char path[PATH_MAX];
	double begin = seconds();
	int status;
	pid_t pid;

	(void)state;
	in_child(execute_another_program, NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		kill_this_process(NULL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	print(path, sizeof(path), "%s/killed", scratch);
	while (access(path, F_OK) && seconds() - begin < 20)
		(void)sched_yield();
	assert_int_equal(access(path, F_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		client_test(forked_child),
		client_test(cloned_child),
		client_test(recording_in_a_child),
		client_test(fork_while_locks_are_held),
		client_test(fork_at_the_worst_moment),
		client_test(forks_at_any_moment),
		client_test(fork_in_a_handler_in_a_fork),
		client_test(threads_share_a_recording),
		client_test(threads_with_recordings_of_their_own),
		client_test(words_are_the_threads),
		client_test(marks_wait_for_nobody),
		client_test(cancelled_thread),
		client_test(sigchld_ignored),
		client_test(somebody_waits_for_every_child),
		client_test(other_children_stay),
		client_test(closed_standard_descriptors),
		client_test(end_of_the_program),
	};
	int failed = find_fake();

	failed = failed ? failed : cmocka_run_group_tests(tests, NULL, NULL);
	remove_scratch();
	return failed;
}
