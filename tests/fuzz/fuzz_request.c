// SPDX-License-Identifier: Apache-2.0
/* Any bytes as a packet of the control protocol. */
#include "request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok)
{
	if (!ok)
		abort();
}

static void check_threads(struct gt_request *rq, size_t size)
{
	struct gt_pyname t;
	size_t n = 0;

	while (gt_request_thread(rq, &t)) {
		size_t len = strnlen(t.name, sizeof(t.name));

		check(t.ns_tid && t.ns_tid <= INT32_MAX && len && len < sizeof(t.name));
		check(!memchr(t.name, '\n', len) && !t.dummy);
		check(++n <= size);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *packet = malloc(size + 1);
	const char *why = NULL;
	struct gt_request rq;

	check(packet != NULL);
	memcpy(packet, data, size);
	packet[size] = '\0';
	if (gt_request_parse(packet, size, &rq, &why)) {
		check(why && *why);
	} else {
		check(!rq.from && !memchr(packet, '\0', size));
		if (rq.kind == GT_REQUEST_MARK)
			check(rq.name > packet && *rq.name && rq.ns_tid <= INT32_MAX);
		if (rq.kind == GT_REQUEST_THREADS)
			check_threads(&rq, size);
	}
	free(packet);
	return 0;
}
