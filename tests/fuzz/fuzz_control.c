// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as what the owner of a recording sends, and when: giltrace's side of the conversation
 * must act on each request once, answer, never wait, and take the owner's end for a stop, once.
 *
 * The input is a list of steps, each a byte: its lower two bits say which (send, hear, serve, tell
 * news), and for a packet the next two bytes are its length.
 */
#include <sys/socket.h>

#include "control.h"
#include "log.h"
#include "must.h"

struct recorder {
	unsigned int acts, stops, ended;
	int owner; /* the other end; -1: closed */
};

static void act(void *ctx, const struct gt_request *rq, struct gt_progress *out)
{
	struct recorder *r = ctx;

	r->acts++;
	r->stops += rq->kind == GT_REQUEST_STOP;
	if (rq->kind == GT_REQUEST_MARK)
		MUST(*rq->name);
	if (rq->kind == GT_REQUEST_STATUS)
		*out = (struct gt_progress){.events = UINT64_MAX, .paused = r->acts & 1};
}

static void hear(const struct recorder *r)
{
	char text[GT_PACKET_MAX + 1];
	ssize_t n;

	while (r->owner >= 0 && (n = recv(r->owner, text, sizeof(text), MSG_DONTWAIT)) > 0)
		MUST(n <= GT_PACKET_MAX && !memchr(text, '\0', (size_t)n));
}

static size_t send_packet(const struct recorder *r, const uint8_t *data, size_t size)
{
	size_t len = size < 2 ? 0 : gt_get_le16(data);

	if (size < 2)
		return size;
	len = len < size - 2 ? len : size - 2;
	if (r->owner >= 0)
		(void)send(r->owner, data + 2, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	return 2 + len;
}

static void tell(struct gt_control *c, uint8_t what)
{
	switch (what & 3) {
	case 0:
		gt_control_ready(c, what, "multi");
		break;
	case 1:
		gt_control_busy(c);
		break;
	case 2:
		gt_control_done(c, 1, what, 0, "path", 0);
		break;
	default:
		break;
	}
}

static size_t step(struct gt_control *c, struct recorder *r, const uint8_t *data, size_t size)
{
	switch (data[0] & 3) {
	case 0:
		return 1 + send_packet(r, data + 1, size - 1);
	case 1:
		if (data[0] & 4 && r->owner >= 0) {
			close(r->owner);
			r->owner = -1;
		}
		hear(r);
		break;
	case 2:
		gt_control_serve(c, act, r);
		break;
	default:
		tell(c, data[0] >> 2);
		break;
	}
	return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct recorder r = {.owner = -1};
	struct gt_control *c;
	unsigned int stops;
	int s[2];

	gt_log_setup("fuzz", GT_LOG_ERROR);
	MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s));
	r.owner = s[1];
	MUST(!gt_control_open(s[0], &c));
	for (size_t at = 0; at < size;)
		at += step(c, &r, data + at, size - at);
	/* What was sent is served before the end of it is noticed. */
	if (r.owner >= 0)
		close(r.owner);
	r.owner = -1;
	for (int i = 0; i < 64; i++)
		gt_control_serve(c, act, &r);
	MUST(r.stops && r.acts <= size + 1);
	stops = r.stops;
	gt_control_serve(c, act, &r);
	MUST(r.stops == stops);
	gt_control_close(c);
	return 0;
}
