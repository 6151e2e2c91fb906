/* SPDX-License-Identifier: Apache-2.0 */
/*
 * controlfix.h - for tests of control.c: a control whose requests are written down, and what is
 * said and heard at the other ends. cmocka.h comes before.
 */
#ifndef GT_TEST_CONTROLFIX_H
#define GT_TEST_CONTROLFIX_H

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

#include "control.h"

static struct gt_control *control;
static int owner; /* the other end of its socket; -1: none */

/* What was asked for, in the order of the requests. */
static struct {
	struct gt_request rq[4096];
	char text[256]; /* of the last one */
	int n;
	struct gt_progress dump; /* the answer to a GT_REQUEST_DUMP */
} asked;

static inline void act(void *ctx, const struct gt_request *rq, struct gt_progress *out)
{
	assert_ptr_equal(ctx, &asked);
	assert_in_range(asked.n, 0, 4095);
	asked.rq[asked.n++] = *rq;
	if (rq->kind == GT_REQUEST_MARK)
		snprintf(asked.text, sizeof(asked.text), "%s", rq->name);
	if (rq->kind == GT_REQUEST_STATUS)
		*out = (struct gt_progress){.elapsed_ns = 1,
					    .paused_ns = 2,
					    .events = 3,
					    .lost = 4,
					    .bytes = 5,
					    .marks = 6,
					    .files = 7,
					    .processes = 8,
					    .paused = asked.n % 2,
					    .ring = asked.dump.ring,
					    .kept_ns = 9,
					    .kept_events = 10,
					    .kept_bytes = 11};
	if (rq->kind == GT_REQUEST_DUMP)
		*out = asked.dump;
}

static inline void serve(void)
{
	gt_control_serve(control, act, &asked);
}

static inline int is_readable(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, timeout_ms) > 0;
}

static inline void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* The next packet: NULL: there is none; "": its end. */
static inline const char *heard(int fd)
{
	static char text[GT_PACKET_MAX + 1];
	ssize_t n = recv(fd, text, GT_PACKET_MAX, MSG_DONTWAIT);

	if (n < 0)
		return NULL;
	text[n] = '\0';
	return text;
}

static inline void begin(int owner_fd)
{
	owner = -1;
	asked.n = 0;
	asked.dump = (struct gt_progress){0};
	asked.text[0] = '\0';
	assert_int_equal(gt_control_open(owner_fd, &control), 0);
}

static inline int finish(void **state)
{
	(void)state;
	gt_control_close(control);
	control = NULL;
	if (owner >= 0)
		close(owner);
	return 0;
}

static inline uint64_t own_mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
