// SPDX-License-Identifier: Apache-2.0
#include "client_ends.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

/* For marks that come in a burst; the kernel gives what it allows. */
#define SOCKET_BYTES (1 << 20)

static pthread_mutex_t births = PTHREAD_MUTEX_INITIALIZER;
static struct gt_ends *all;
static int unwatched;   /* errno: nobody will tell us of a fork() */
static sigset_t before; /* the mask of the thread that forks; `births` is its own */

/* A handler of a signal might fork() in this thread, and would wait for us: none runs meanwhile. */
static void lock(sigset_t *mask)
{
	sigset_t every;

	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, mask);
	pthread_mutex_lock(&births);
}

static void unlock(const sigset_t *mask)
{
	pthread_mutex_unlock(&births);
	pthread_sigmask(SIG_SETMASK, mask, NULL);
}

static void shut(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void shut_theirs(struct gt_ends *e)
{
	for (size_t i = 0; i < GT_ARRAY_SIZE(e->theirs); i++)
		shut(&e->theirs[i]);
}

static void shut_all(struct gt_ends *e)
{
	shut(&e->socket);
	shut(&e->said);
	shut_theirs(e);
}

static void before_fork(void)
{
	sigset_t mask;

	lock(&mask);
	before = mask;
}

static void after_fork(void)
{
	sigset_t mask = before; /* the next fork()'s once it is unlocked */

	unlock(&mask);
}

static void in_child(void)
{
	for (struct gt_ends *e = all; e; e = e->next) {
		shut_all(e);
		e->forked = 1;
	}
	after_fork();
}

/* When the library is loaded, not at the first use: that may be two threads' at once, or a child's.
 */
__attribute__((constructor)) static void watch_forks(void)
{
	unwatched = pthread_atfork(before_fork, after_fork, in_child);
}

/* A host that has closed standard descriptors would give us their numbers. */
static int move_up(int *fd)
{
	int up;

	if (*fd > STDERR_FILENO)
		return 0;
	up = fcntl(*fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (up < 0)
		return -errno;
	close(*fd);
	*fd = up;
	return 0;
}

static int make(struct gt_ends *e)
{
	static const int bytes = SOCKET_BYTES;
	int s[2], p[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s))
		return -errno;
	e->socket = s[0];
	e->theirs[0] = s[1];
	for (int i = 0; i < 2; i++)
		(void)setsockopt(s[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	/* giltrace must not wait for us to read what it says. */
	if (pipe2(p, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	e->said = p[0];
	e->theirs[2] = p[1];
	e->theirs[1] = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (e->theirs[1] < 0)
		return -errno;
	err = move_up(&e->socket);
	err = err ? err : move_up(&e->said);
	for (size_t i = 0; i < GT_ARRAY_SIZE(e->theirs); i++)
		err = err ? err : move_up(&e->theirs[i]);
	return err;
}

int gt_ends_open(struct gt_ends *e)
{
	sigset_t mask;
	int err;

	*e = (struct gt_ends){.socket = -1, .said = -1, .theirs = {-1, -1, -1}, .owner = getpid()};
	lock(&mask);
	e->next = all;
	if (all)
		all->prev = e;
	all = e;
	err = unwatched ? -unwatched : make(e);
	if (err)
		shut_all(e);
	unlock(&mask);
	return err;
}

void gt_ends_handed_over(struct gt_ends *e)
{
	sigset_t mask;

	lock(&mask);
	shut_theirs(e);
	unlock(&mask);
}

void gt_ends_close_socket(struct gt_ends *e)
{
	sigset_t mask;

	lock(&mask);
	shut(&e->socket);
	unlock(&mask);
}

void gt_ends_close(struct gt_ends *e)
{
	sigset_t mask;

	lock(&mask);
	shut_all(e);
	unlock(&mask);
}

void gt_ends_forget(struct gt_ends *e)
{
	sigset_t mask;

	lock(&mask);
	shut_all(e);
	if (e->prev)
		e->prev->next = e->next;
	else
		all = e->next;
	if (e->next)
		e->next->prev = e->prev;
	unlock(&mask);
}

enum gt_origin gt_ends_origin(const struct gt_ends *e)
{
	if (e->forked)
		return GT_ENDS_FORKED;
	return e->owner == getpid() ? GT_ENDS_OWN : GT_ENDS_CLONED;
}
