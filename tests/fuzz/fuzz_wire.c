// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as what giltrace says to the program that started it: packets, each behind two bytes
 * with its length, and behind those of length 0xffff a text on its standard error. libgiltrace's
 * side of the conversation must end, keep its promises, and find words for every end.
 */
#include <sys/socket.h>

#include "client_args.h"
#include "client_error.h"
#include "client_outcome.h"
#include "client_time.h"
#include "client_wire.h"
#include "must.h"

#define PACKETS_MAX 64

static void say_all(struct gt_wire *w, const uint8_t *data, size_t size)
{
	size_t at = 0;

	for (int i = 0; i < PACKETS_MAX && at + 2 <= size; i++) {
		size_t len = gt_get_le16(data + at);
		int is_text = len == 0xffff;

		at += 2;
		if (is_text || len > size - at)
			len = size - at;
		if (is_text)
			(void)!write(w->ends.theirs[2], data + at, len);
		else
			(void)send(w->ends.theirs[0], data + at, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		at += len;
	}
}

static void check_text(const char *text, size_t size)
{
	MUST(strnlen(text, size) < size);
	for (; *text; text++)
		MUST((unsigned char)*text >= ' ' || *text == '\n');
}

static void check_wire(const struct gt_wire *w)
{
	char text[512];

	MUST(w->n_files <= PACKETS_MAX && w->said.len < sizeof(w->said.text));
	MUST(w->said.begun <= w->said.len && w->owed <= 2);
	for (size_t i = 0; i < w->n_files; i++)
		for (size_t k = 0; k <= i; k++)
			MUST(*w->files[i] && !strcmp(w->files[i], w->files[k]) == (i == k));
	MUST(!w->ended || (w->stats.state == GILTRACE_ENDED && w->stats.status >= 0));
	gt_said_failure(&w->said, w->said.begun, text, sizeof(text));
	check_text(text, sizeof(text));
	gt_said_failure(&w->said, 0, text, 7);
	check_text(text, 7);
}

/* As giltrace_start() and giltrace_stop() see it end, with any status that waitpid() tells. */
static void check_outcome(const struct gt_wire *w, uint8_t wait_status)
{
	char sudo[] = "sudo", program[] = "giltrace", *argv[] = {sudo, program, NULL};
	const struct gt_args args = {.argv = argv, .n = 2, .front = wait_status & 1};
	struct gt_outcome o = {.status = w->ended ? w->stats.status : -1,
			       .told = w->ended,
			       .talked = w->talks,
			       .timed_out = !(wait_status & 0x1e)};

	gt_outcome_waited(&o, wait_status & 0x80 ? wait_status << 8 : wait_status & 0x7f);
	MUST(gt_outcome_of_start(&o, &w->said, &args) < 0);
	MUST(*gt_fail_text());
	check_text(gt_fail_text(), GT_FAIL_MAX);
	if (gt_outcome_of_stop(&o, &w->said, &args))
		check_text(gt_fail_text(), GT_FAIL_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct gt_wire w;
	uint32_t ms = 0; /* nothing is waited for .. */

	if (!size)
		return 0;
	MUST(!gt_wire_open(&w));
	say_all(&w, data + 1, size - 1);
	if (data[0] & 1) {
		gt_ends_handed_over(&w.ends);
		ms = 60000; /* .. or what has come ends */
	}
	if (data[0] & 2)
		(void)gt_wire_await_ready(&w, gt_deadline(ms));
	if (data[0] & 4)
		(void)gt_wire_ask(&w, "status", gt_deadline(ms));
	(void)gt_wire_mark(&w, 1, 1, "name", 4);
	(void)gt_wire_ask(&w, "pause", gt_deadline(ms));
	(void)gt_wire_stop(&w, ms);
	(void)gt_said_read(&w.said, w.ends.said);
	check_wire(&w);
	check_outcome(&w, data[size - 1]);
	gt_wire_free(&w);
	return 0;
}
