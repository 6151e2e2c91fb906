// SPDX-License-Identifier: Apache-2.0
#include "client_wire.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "client_time.h"

/* What a packet is, by its first word. */
enum kind { OTHER, FILE_MADE, READY, ANSWER, REFUSED, FILE_DONE, ENDED };

int gt_wire_open(struct gt_wire *w)
{
	*w = (struct gt_wire){.stats = GILTRACE_STATS_INIT};
	(void)pthread_mutex_init(&w->sending, NULL);
	return gt_ends_open(&w->ends);
}

void gt_wire_free(struct gt_wire *w)
{
	gt_ends_forget(&w->ends);
	for (size_t i = 0; i < w->n_files; i++)
		free(w->files[i]);
	free(w->files);
	(void)pthread_mutex_destroy(&w->sending);
}

void gt_wire_close_socket(struct gt_wire *w)
{
	(void)pthread_mutex_lock(&w->sending);
	gt_ends_close_socket(&w->ends);
	(void)pthread_mutex_unlock(&w->sending);
}

/* ---- packets ---- */

/* The number at *text and the blank behind it; 0: there is none. */
static int take_number(const char **text, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(*text, &end, 10);
	if (**text < '0' || **text > '9' || errno || *end != ' ')
		return 0;
	*text = end + 1;
	return 1;
}

/* The value of key= in a list of words; what is no number is 0. */
static uint64_t value_of(const char *words, const char *key)
{
	size_t len = strlen(key);

	for (const char *w = words; w; w = strchr(w, ' ')) {
		w += *w == ' ';
		if (!strncmp(w, key, len) && w[len] == '=')
			return strtoull(w + len + 1, NULL, 10);
	}
	return 0;
}

static void take_stats(struct gt_wire *w, const char *words)
{
	struct giltrace_stats *s = &w->stats;

	s->events = value_of(words, "events");
	s->lost = value_of(words, "lost");
	s->bytes = value_of(words, "bytes");
	s->elapsed_ns = value_of(words, "elapsed_ns");
	s->paused_ns = value_of(words, "paused_ns");
	s->marks = value_of(words, "marks");
}

static void take_status(struct gt_wire *w, const char *words)
{
	take_stats(w, words);
	w->stats.processes = (uint32_t)value_of(words, "processes");
	w->stats.state = strstr(words, "state=paused") ? GILTRACE_PAUSED_NOW : GILTRACE_RECORDING;
}

static void take_end(struct gt_wire *w, const char *words)
{
	take_stats(w, words);
	w->stats.processes = (uint32_t)value_of(words, "files");
	w->stats.status = (int32_t)(value_of(words, "status") & 0xff);
	w->stats.state = GILTRACE_ENDED;
	w->ended = 1;
}

/* A file is told of when it is made and when it is complete. Without memory it is not known. */
static void take_file(struct gt_wire *w, const char *path)
{
	char *copy;

	for (size_t i = 0; i < w->n_files; i++)
		if (!strcmp(w->files[i], path))
			return;
	if (!*path || w->n_files == GT_FILES_MAX)
		return;
	if (w->n_files == w->files_room) {
		size_t room = w->files_room ? w->files_room * 2 : 8;
		char **files = reallocarray(w->files, room, sizeof(*files));

		if (!files)
			return;
		w->files = files;
		w->files_room = room;
	}
	copy = strdup(path);
	if (copy)
		w->files[w->n_files++] = copy;
}

/* What follows a first word and a blank; NULL: it is another word. */
static const char *behind(const char *packet, const char *word)
{
	size_t len = strlen(word);

	if (strncmp(packet, word, len) || (packet[len] && packet[len] != ' '))
		return NULL;
	return packet + len + (packet[len] == ' ');
}

static enum kind take(struct gt_wire *w)
{
	const char *rest;
	uint64_t n;

	rest = behind(w->packet, "file");
	if (rest && take_number(&rest, &n)) {
		take_file(w, rest);
		return FILE_MADE;
	}
	rest = behind(w->packet, "done");
	if (rest && take_number(&rest, &n) && take_number(&rest, &n) && take_number(&rest, &n)) {
		take_file(w, rest);
		return FILE_DONE;
	}
	rest = behind(w->packet, "ready");
	if (rest) {
		w->protocol = value_of(rest, "protocol");
		w->stats.processes = (uint32_t)value_of(rest, "processes");
		return READY;
	}
	rest = behind(w->packet, "ended");
	if (rest) {
		take_end(w, rest);
		return ENDED;
	}
	if (behind(w->packet, "ok"))
		return ANSWER;
	return behind(w->packet, "error") ? REFUSED : OTHER;
}

/* ---- the socket ---- */

/*
 * Takes one packet if there is one: its kind; -EAGAIN: there is none; -EPIPE: there will be none.
 * ECONNRESET comes once, when giltrace has ended with marks unread, before what it had sent.
 */
static int receive(struct gt_wire *w)
{
	struct iovec iov = {.iov_base = w->packet, .iov_len = GT_PACKET_MAX};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	enum kind kind;
	ssize_t n;

	do
		n = recvmsg(w->ends.socket, &msg, MSG_DONTWAIT);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	if (n < 0 && errno == EAGAIN)
		return -EAGAIN;
	if (n <= 0)
		return -EPIPE;
	w->packet[n] = '\0';
	kind = msg.msg_flags & MSG_TRUNC ? OTHER : take(w);
	w->talks |= kind != OTHER;
	return (int)kind;
}

/*
 * Waits for a packet: its kind. -EPIPE, -ETIMEDOUT. Meanwhile what giltrace says is read, so that
 * it never has to be left out for want of room.
 */
static int next(struct gt_wire *w, int64_t deadline)
{
	int says = 1;

	for (;;) {
		struct pollfd fds[2] = {{.fd = w->ends.socket, .events = POLLIN},
					{.fd = says ? w->ends.said : -1, .events = POLLIN}};
		int left = gt_left(deadline), kind = receive(w);

		/* Neither does it last longer where nonsense comes without end. */
		if (!left && (kind == -EAGAIN || kind == OTHER || kind == FILE_MADE))
			return -ETIMEDOUT;
		if (kind != -EAGAIN)
			return kind;
		if (poll(fds, 2, left) > 0 && fds[1].revents)
			says = gt_said_read(&w->said, w->ends.said);
	}
}

/* 0, -EAGAIN, or -EPIPE whatever is wrong with the socket. */
static int send_now(int fd, const char *packet, size_t len)
{
	ssize_t n;

	do
		n = send(fd, packet, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return 0;
	return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM ? -EAGAIN : -EPIPE;
}

/* Waits for room as long as that. */
static int send_until(struct gt_wire *w, const char *packet, int64_t deadline)
{
	for (;;) {
		struct pollfd fd = {.fd = w->ends.socket, .events = POLLOUT};
		int left = gt_left(deadline);
		int err = send_now(w->ends.socket, packet, strlen(packet));

		if (err != -EAGAIN)
			return err;
		if (!left)
			return -ETIMEDOUT;
		(void)poll(&fd, 1, left);
	}
}

/* ---- the conversation ---- */

int gt_wire_await_ready(struct gt_wire *w, int64_t deadline)
{
	for (;;) {
		int kind = next(w, deadline);

		if (kind < 0)
			return kind;
		if (kind == ENDED)
			return -EPIPE;
		if (kind != READY)
			continue;
		if (w->protocol != 1)
			return -EPROTO;
		(void)gt_said_read(&w->said, w->ends.said);
		w->said.begun = w->said.len;
		return 0;
	}
}

/* The answer to the latest request. */
static int await_answer(struct gt_wire *w, int64_t deadline)
{
	for (;;) {
		int kind = next(w, deadline);

		if (kind == -ETIMEDOUT)
			w->owed++;
		if (kind < 0)
			return kind;
		if (kind == ENDED)
			return -EPIPE;
		if (kind != ANSWER && kind != REFUSED)
			continue;
		if (w->owed) {
			w->owed--;
			continue;
		}
		return kind == ANSWER ? 0 : -EREMOTEIO;
	}
}

/* All that is there now. -EPIPE: that was the last. */
static int catch_up(struct gt_wire *w)
{
	for (;;) {
		int kind = receive(w);

		if (kind == -EAGAIN)
			return 0;
		if (kind < 0 || kind == ENDED)
			return -EPIPE;
		if ((kind == ANSWER || kind == REFUSED) && w->owed)
			w->owed--;
	}
}

int gt_wire_ask(struct gt_wire *w, const char *request, int64_t deadline)
{
	int err;

	/* What has come unasked might leave no room for the answer. */
	err = catch_up(w);
	err = err ? err : send_until(w, request, deadline);
	if (err == -EPIPE)
		while (!w->ended && next(w, deadline) >= 0)
			;
	err = err ? err : await_answer(w, deadline);
	if (!err && !strcmp(request, "status"))
		take_status(w, behind(w->packet, "ok"));
	return err;
}

int gt_wire_stop(struct gt_wire *w, uint32_t timeout_ms)
{
	int64_t deadline = gt_deadline(timeout_ms);
	int kind = send_until(w, "stop", deadline);

	if (kind == -ETIMEDOUT)
		return kind;
	while (!w->ended) {
		kind = next(w, deadline);
		if (kind < 0)
			return kind == -EPIPE ? 0 : kind;
		/* It goes on, a file after the other. */
		if (kind == FILE_DONE)
			deadline = gt_deadline(timeout_ms);
	}
	return 0;
}

int gt_wire_mark(struct gt_wire *w, uint64_t mono_ns, pid_t tid, const char *name, size_t len)
{
	char packet[256];
	int n, err = -EPIPE;

	n = snprintf(packet, sizeof(packet), "mark %" PRIu64 " %ld %.*s", mono_ns, (long)tid,
		     (int)len, name);
	if (n < 0 || (size_t)n >= sizeof(packet))
		return -EINVAL;
	(void)pthread_mutex_lock(&w->sending);
	if (w->ends.socket >= 0)
		err = send_now(w->ends.socket, packet, (size_t)n);
	(void)pthread_mutex_unlock(&w->sending);
	return err;
}
