// SPDX-License-Identifier: Apache-2.0
#include "control.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "clock.h"
#include "ctlsocket.h"
#include "log.h"

#define GT_SO_PASSRIGHTS 83 /* Linux 6.16 */

#define GUESTS        8         /* connections at one time, beside the owner's */
#define AT_ONCE       64        /* packets of one connection before others have their turn */
#define PATIENCE_MS   1000      /* so long an owner is waited for that reads nothing */
#define OWNER_ROOM    (1 << 20) /* bytes, for what the owner has not read */
#define BUSY_EVERY_NS 1000000000ull
#define LAST_WORDS    1024 /* packets that the owner may have sent before it ended */

/* Which descriptor an epoll event is about: a guest's place, or one of these. */
enum { OWNER = GUESTS, OWNER_PIDFD, LISTENER, PLACES };

/* Somebody who is connected. */
struct peer {
	int fd; /* -1: nobody */
	pid_t pid;
	int clock_known;
	uint64_t heard_ns; /* when it has last sent something */
	int64_t ahead_ns;  /* its CLOCK_MONOTONIC, of the host's */
};

struct gt_control {
	struct peer peer[GUESTS + 1]; /* the owner's is the last */
	int epoll_fd, owner_pidfd;
	uint8_t owner_gone;
	int patience_ms;  /* left for the owner */
	uint64_t busy_ns; /* when that was last told */
	struct gt_ctlsocket socket;
	/* During gt_control_serve(): */
	gt_control_act_fn act;
	void *ctx;
};

/*
 * What it has sent and nobody has read would reset the connection, and its next recv(2) would fail
 * before it gets what it was told.
 */
static void hang_up_on(int fd)
{
	char byte;

	(void)shutdown(fd, SHUT_RD);
	for (int n = 0; n < LAST_WORDS && recv(fd, &byte, 1, MSG_DONTWAIT) > 0; n++)
		;
	close(fd);
}

/* ---- opening ---- */

static int watch(struct gt_control *c, int fd, uint32_t place)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = place};

	return epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* Who has made the other end. Its time namespace is the one that it has now. */
static int meet(struct peer *p, int fd, uid_t *uid)
{
	struct ucred who;
	socklen_t size = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size))
		return -errno;
	*p = (struct peer){.fd = fd, .pid = who.pid};
	*uid = who.uid;
	p->clock_known = !gt_clock_ahead(who.pid, &p->ahead_ns);
	p->heard_ns = gt_mono_ns();
	/* A descriptor that comes along would be closed here, and a socket may take long for that.
	 */
	(void)setsockopt(fd, SOL_SOCKET, GT_SO_PASSRIGHTS, &(int){0}, sizeof(int));
	return 0;
}

/*
 * A child of the owner may keep its end open when that has ended: its pidfd tells. Where it cannot
 * be had (it lies in another PID namespace), the end of the socket has to do.
 */
static int adopt(struct gt_control *c, int fd)
{
	struct peer *owner = &c->peer[OWNER];
	const int room = OWNER_ROOM;
	uid_t uid;
	int err = meet(owner, fd, &uid);

	owner->fd = fd;
	/* Above the usual limit if we may; else up to it. */
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)))
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	if (!err)
		err = watch(c, fd, OWNER);
	if (err || owner->pid <= 0)
		return err;
	c->owner_pidfd = (int)syscall(SYS_pidfd_open, owner->pid, 0);
	if (c->owner_pidfd < 0)
		return errno == ESRCH ? -ESRCH : 0;
	return watch(c, c->owner_pidfd, OWNER_PIDFD);
}

int gt_control_open(int owner_fd, struct gt_control **out)
{
	struct gt_control *c = calloc(1, sizeof(*c));
	int err = 0;

	*out = c;
	if (!c) {
		gt_error("out of memory");
		if (owner_fd >= 0)
			close(owner_fd);
		return -ENOMEM;
	}
	for (size_t i = 0; i < GT_ARRAY_SIZE(c->peer); i++)
		c->peer[i].fd = -1;
	c->owner_pidfd = -1;
	c->socket = GT_CTLSOCKET_NONE;
	c->patience_ms = PATIENCE_MS;
	c->peer[OWNER].fd = owner_fd;
	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (c->epoll_fd < 0)
		err = -errno;
	else if (owner_fd >= 0)
		err = adopt(c, owner_fd);
	if (err)
		gt_error("cannot use the control descriptor: %s", strerror(-err));
	return err;
}

int gt_control_listen(struct gt_control *c, const char *path)
{
	char place[PATH_MAX], pid[16];
	int err = gt_ctlsocket_listen(path, &c->socket);

	if (err)
		return err;
	err = watch(c, c->socket.fd, LISTENER);
	if (err) {
		gt_error("cannot watch the control socket: %s", strerror(-err));
		return err;
	}
	snprintf(pid, sizeof(pid), "%d", getpid());
	if (path || !gt_ctlsocket_place(getpid(), place, sizeof(place)))
		gt_info("listening at %s for giltrace --tell=%s", path ? path : place,
			path ? path : pid);
	return 0;
}

void gt_control_close(struct gt_control *c)
{
	if (!c)
		return;
	gt_ctlsocket_close(&c->socket);
	for (size_t i = 0; i < GT_ARRAY_SIZE(c->peer); i++)
		if (c->peer[i].fd >= 0)
			hang_up_on(c->peer[i].fd);
	if (c->owner_pidfd >= 0)
		close(c->owner_pidfd);
	if (c->epoll_fd >= 0)
		close(c->epoll_fd);
	free(c);
}

int gt_control_fd(const struct gt_control *c)
{
	return c->epoll_fd;
}

/* ---- what is sent ---- */

/* 0, -EAGAIN where there is no room, or another -errno where nobody is there any more. */
static int GT_PRINTF(2, 0) say_v(const struct peer *p, const char *fmt, va_list ap)
{
	char text[GT_PACKET_MAX];
	int n = vsnprintf(text, sizeof(text), fmt, ap);

	if (n < 0 || (size_t)n >= sizeof(text))
		n = (int)sizeof(text) - 1;
	if (send(p->fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	/* The kernel has no memory: for one who reads, as good as no room. */
	return errno == ENOBUFS || errno == ENOMEM ? -EAGAIN : -errno;
}

static int GT_PRINTF(2, 3) say(const struct peer *p, const char *fmt, ...)
{
	va_list ap;
	int err;

	va_start(ap, fmt);
	err = say_v(p, fmt, ap);
	va_end(ap);
	return err;
}

/* Waits until there is room, which takes from *ms. The kernel says so while a quarter is filled. */
static int has_room(const struct peer *p, int *ms)
{
	struct pollfd fd = {.fd = p->fd, .events = POLLOUT};
	uint64_t begin_ns = gt_mono_ns();
	int n = poll(&fd, 1, 0);

	if (!n && *ms > 0) {
		int waited;

		n = poll(&fd, 1, *ms);
		waited = (int)((gt_mono_ns() - begin_ns) / 1000000);
		*ms = n > 0 && waited < *ms ? *ms - waited : 0;
	}
	return n > 0 && fd.revents & POLLOUT;
}

/*
 * News that can be done without leave three quarters of the room to answers, and to those that
 * cannot.
 */
static void GT_PRINTF(3, 4) tell_owner(struct gt_control *c, int *patience_ms, const char *fmt, ...)
{
	const struct peer *owner = &c->peer[OWNER];
	va_list ap;

	if (owner->fd < 0 || c->owner_gone || !has_room(owner, patience_ms))
		return;
	va_start(ap, fmt);
	(void)say_v(owner, fmt, ap);
	va_end(ap);
}

void gt_control_file(struct gt_control *c, pid_t pid, const char *path)
{
	tell_owner(c, &c->patience_ms, "file %d %s", pid, path);
}

void gt_control_ready(struct gt_control *c, size_t processes, const char *backend)
{
	const struct peer *owner = &c->peer[OWNER];

	if (owner->fd >= 0 && say(owner, "ready protocol=1 version=%s processes=%zu backend=%s",
				  GT_VERSION, processes, backend))
		gt_debug("the owner does not read what it is told");
}

void gt_control_done(struct gt_control *c, pid_t pid, uint64_t events, uint64_t lost,
		     const char *path, int is_last)
{
	int none = 0;

	tell_owner(c, is_last ? &c->patience_ms : &none, "done %d %" PRIu64 " %" PRIu64 " %s", pid,
		   events, lost, path);
}

void gt_control_busy(struct gt_control *c)
{
	uint64_t now_ns = gt_mono_ns();
	int none = 0;

	if (!c->busy_ns)
		c->busy_ns = now_ns;
	if (now_ns - c->busy_ns < BUSY_EVERY_NS)
		return;
	c->busy_ns = now_ns;
	tell_owner(c, &none, "busy");
}

void gt_control_ended(struct gt_control *c, int status, const struct gt_progress *all)
{
	/* The owner first: it alone is waited for. */
	for (size_t i = GT_ARRAY_SIZE(c->peer); i--;) {
		const struct peer *p = &c->peer[i];
		int ms = i == OWNER ? PATIENCE_MS : 0, err;

		if (p->fd < 0)
			continue;
		do {
			err = say(p,
				  "ended status=%d files=%zu events=%" PRIu64 " lost=%" PRIu64
				  " bytes=%" PRIu64 " elapsed_ns=%" PRIu64 " paused_ns=%" PRIu64
				  " marks=%" PRIu64,
				  status, all->files, all->events, all->lost, all->bytes,
				  all->elapsed_ns, all->paused_ns, all->marks);
		} while (err == -EAGAIN && has_room(p, &ms));
	}
}

/* ---- what is asked ---- */

static void hang_up(struct gt_control *c, struct peer *p)
{
	/* A forked child of ours may have it open, too, and epoll would go on telling of it. */
	(void)epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, p->fd, NULL);
	hang_up_on(p->fd);
	*p = (struct peer){.fd = -1};
}

static void forget_owner(struct gt_control *c, const char *why)
{
	const struct gt_request stop = {.kind = GT_REQUEST_STOP};
	struct gt_progress unused = {0};

	if (c->owner_pidfd >= 0) {
		(void)epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, c->owner_pidfd, NULL);
		close(c->owner_pidfd);
		c->owner_pidfd = -1;
	}
	if (c->peer[OWNER].fd >= 0)
		hang_up(c, &c->peer[OWNER]);
	c->owner_gone = 1;
	gt_info("the recording ends, as %s", why);
	c->act(c->ctx, &stop, &unused);
}

static int answer_status(const struct peer *p, const struct gt_progress *now)
{
	char kept[128] = "";

	if (now->ring)
		snprintf(kept, sizeof(kept),
			 " files=%zu kept_ns=%" PRIu64 " kept_events=%" PRIu64
			 " kept_bytes=%" PRIu64,
			 now->files, now->kept_ns, now->kept_events, now->kept_bytes);
	return say(p,
		   "ok state=%s elapsed_ns=%" PRIu64 " paused_ns=%" PRIu64
		   " processes=%zu events=%" PRIu64 " lost=%" PRIu64 " bytes=%" PRIu64
		   " marks=%" PRIu64 "%s",
		   now->paused ? "paused" : "recording", now->elapsed_ns, now->paused_ns,
		   now->processes, now->events, now->lost, now->bytes, now->marks, kept);
}

static int answer_dump(const struct peer *p, const struct gt_progress *now)
{
	if (!now->ring)
		return say(p, "error nothing is kept in memory: it was started without --ring");
	if (now->failed)
		return say(p, "error %zu of %zu files could not be written", now->failed,
			   now->failed + now->dumped);
	return say(p, "ok files=%zu", now->dumped);
}

static int answer(struct gt_control *c, struct peer *p, struct gt_request *rq)
{
	struct gt_progress now = {0};

	rq->from = p->pid;
	if (rq->kind == GT_REQUEST_MARK && rq->mono_ns)
		rq->mono_ns = p->clock_known ? rq->mono_ns - (uint64_t)p->ahead_ns : 0;
	c->act(c->ctx, rq, &now);
	switch (rq->kind) {
	case GT_REQUEST_STATUS:
		return answer_status(p, &now);
	case GT_REQUEST_DUMP:
		return answer_dump(p, &now);
	case GT_REQUEST_PAUSE:
	case GT_REQUEST_RESUME:
		return say(p, "ok");
	default:
		return 0;
	}
}

/* One packet: 0; 1: there is none; -EAGAIN: it does not read; another -errno: it has gone. */
static int take(struct gt_control *c, struct peer *p)
{
	char packet[GT_PACKET_MAX + 1];
	struct pollfd hup = {.fd = p->fd, .events = POLLRDHUP};
	struct gt_request rq;
	const char *why;
	ssize_t n = recv(p->fd, packet, GT_PACKET_MAX, MSG_DONTWAIT | MSG_TRUNC);

	/* A reset comes before what it had sent, where it has ended without reading all answers. */
	if (n < 0)
		return errno == EAGAIN ? 1 : errno == EINTR || errno == ECONNRESET ? 0 : -errno;
	if (!n) /* its end, or an empty packet */
		return poll(&hup, 1, 0) > 0 ? -EPIPE : 0;
	p->heard_ns = gt_mono_ns();
	if (n > GT_PACKET_MAX)
		return say(p, "error a packet has at most %d bytes", GT_PACKET_MAX);
	packet[n] = '\0';
	if (gt_request_parse(packet, (size_t)n, &rq, &why))
		return say(p, "error %s", why);
	return answer(c, p, &rq);
}

/* Reads up to n packets, and parts with who has gone or does not read its answers. */
static void listen_to(struct gt_control *c, struct peer *p, int n)
{
	int err = 0;

	while (!err && n--)
		err = take(c, p);
	if (err >= 0)
		return;
	if (p != &c->peer[OWNER])
		hang_up(c, p);
	else if (err == -EAGAIN)
		forget_owner(c, "the program that owns it does not read its answers");
	else
		forget_owner(c, "the program that owns it has closed its end");
}

static void on_owner_ended(struct gt_control *c)
{
	struct peer *owner = &c->peer[OWNER];

	if (owner->fd >= 0)
		listen_to(c, owner, LAST_WORDS);
	if (!c->owner_gone)
		forget_owner(c, "the program that owns it has ended");
}

static void refuse(int fd, const char *why)
{
	const struct peer p = {.fd = fd};

	(void)say(&p, "error %s", why);
	hang_up_on(fd);
}

/* Some that are connected and forgotten do not keep others out. */
static uint32_t longest_silent(const struct gt_control *c)
{
	uint32_t oldest = 0;

	for (uint32_t i = 1; i < GUESTS; i++)
		if (c->peer[i].heard_ns < c->peer[oldest].heard_ns)
			oldest = i;
	return oldest;
}

static void on_connection(struct gt_control *c)
{
	int fd = accept4(c->socket.fd, NULL, NULL, SOCK_CLOEXEC);
	struct peer who;
	uint32_t i = 0;
	uid_t uid = (uid_t)-1;

	if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
		return;
	if (fd < 0) { /* it would be tried again and again */
		gt_warn("nobody can connect to the control socket any more: %s", strerror(errno));
		(void)epoll_ctl(c->epoll_fd, EPOLL_CTL_DEL, c->socket.fd, NULL);
		return;
	}
	if (meet(&who, fd, &uid) || (uid && uid != geteuid())) {
		refuse(fd, "this recording belongs to another user");
		return;
	}
	while (i < GUESTS && c->peer[i].fd >= 0)
		i++;
	if (i == GUESTS) {
		i = longest_silent(c);
		hang_up(c, &c->peer[i]);
	}
	if (watch(c, fd, i)) {
		refuse(fd, "there are no resources to listen to more");
		return;
	}
	c->peer[i] = who;
}

void gt_control_serve(struct gt_control *c, gt_control_act_fn act, void *ctx)
{
	struct epoll_event ready[PLACES];
	int n = epoll_wait(c->epoll_fd, ready, PLACES, 0);

	c->act = act;
	c->ctx = ctx;
	for (int i = 0; i < n; i++) {
		uint32_t place = ready[i].data.u32;

		if (place == LISTENER)
			on_connection(c);
		else if (place == OWNER_PIDFD)
			on_owner_ended(c);
		else if (c->peer[place].fd >= 0)
			listen_to(c, &c->peer[place], AT_ONCE);
	}
}
