// SPDX-License-Identifier: Apache-2.0
#include "tell.h"

#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

#include "ctlsocket.h"
#include "log.h"
#include "request.h"

#define ANSWER_SECONDS 30 /* it may be attaching to something */

static int is(char *const *words, const char *word)
{
	return words && words[0] && !strcmp(words[0], word);
}

const char *gt_tell_check(char *const *words)
{
	static const char *const plain[] = {"pause", "resume", "status", "dump", "stop"};

	if (is(words, "mark"))
		return words[1] && *words[1] ? NULL : "a mark needs a name";
	for (size_t i = 0; i < GT_ARRAY_SIZE(plain); i++)
		if (is(words, plain[i]))
			return words[1] ? "nothing belongs behind that request" : NULL;
	return "a request is mark NAME, pause, resume, status, dump or stop";
}

/* Our own clock, not the host's: who reads it knows in which time namespace we are. */
static uint64_t own_mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int send_request(int fd, char *const *words)
{
	char packet[GT_PACKET_MAX + 1];
	size_t n;

	if (is(words, "mark"))
		n = (size_t)snprintf(packet, sizeof(packet), "mark %" PRIu64 " 0", own_mono_ns());
	else
		n = (size_t)snprintf(packet, sizeof(packet), "%s", words[0]);
	for (words++; *words; words++) {
		size_t len = strlen(*words);

		if (len > GT_PACKET_MAX - n - 1)
			return -EMSGSIZE;
		packet[n++] = ' ';
		memcpy(packet + n, *words, len);
		n += len;
	}
	return send(fd, packet, n, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Into text, of GT_PACKET_MAX + 1 bytes. -ECONNRESET: it has hung up. */
static int receive(int fd, int timeout_ms, char *text)
{
	struct pollfd in = {.fd = fd, .events = POLLIN};
	int ready = poll(&in, 1, timeout_ms);
	ssize_t n;

	if (ready <= 0)
		return ready ? -errno : -ETIMEDOUT;
	n = recv(fd, text, GT_PACKET_MAX, 0);
	if (n <= 0)
		return n ? -errno : -ECONNRESET;
	text[n] = '\0';
	gt_defuse(text);
	return 0;
}

static int starts(const char *text, const char *word)
{
	size_t len = strlen(word);

	return !strncmp(text, word, len) && (!text[len] || text[len] == ' ');
}

/*
 * 0: the answer is printed; 1: it is a refusal; -errno. A mark has none: that of the status that
 * follows it tells that it was read.
 */
static int talk(int fd, char *const *words)
{
	char *const status[] = {(char *)"status", NULL};
	const int stops = is(words, "stop"), marks = is(words, "mark");
	const char *wanted = stops ? "ended" : "ok";
	char text[GT_PACKET_MAX + 1] = "";
	int err = send_request(fd, words);

	if (!err && marks)
		err = send_request(fd, status);
	if (err == -EPIPE) /* it has said why before it hung up */
		err = 0;
	while (!err) {
		err = receive(fd, stops ? -1 : ANSWER_SECONDS * 1000, text);
		if (err)
			break;
		if (starts(text, "error")) {
			gt_error("it refuses:%s", text + strlen("error"));
			return 1;
		}
		if (!starts(text, wanted))
			continue;
		puts(marks ? "ok" : text);
		return 0;
	}
	return err;
}

int gt_tell(const char *whom, char *const *words)
{
	gt_autoclose int fd = -1;
	char path[PATH_MAX];
	char *end;
	long pid = strtol(whom, &end, 10);
	int err = 0;

	if (*whom >= '0' && *whom <= '9' && !*end && pid > 0 && pid <= INT32_MAX)
		err = gt_ctlsocket_place((pid_t)pid, path, sizeof(path));
	else
		snprintf(path, sizeof(path), "%s", whom);
	if (err)
		return 1;
	fd = gt_ctlsocket_connect(path, ANSWER_SECONDS);
	if (fd < 0)
		gt_error("cannot reach a giltrace at %s: %s", path,
			 fd == -ENOENT || fd == -ECONNREFUSED
				 ? "none listens there; it does with --control, for the user who "
				   "runs it and root"
			 : fd == -EAGAIN ? "it accepts nobody"
					 : strerror(-fd));
	else
		err = talk(fd, words);
	if (err < 0)
		gt_error("no answer from the giltrace at %s: %s", path, strerror(-err));
	return fd < 0 || err;
}
