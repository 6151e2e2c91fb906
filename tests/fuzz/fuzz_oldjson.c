// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as a JSON recording of the older tool: what is made of them is a .gil file without
 * fault, with each event that was counted, in the order of time. And the quick way of reading finds
 * what the scanner finds.
 */
#include <stdio.h>
#include <sys/mman.h>

#include "giltrace/gilfile.h"
#include "log.h"
#include "must.h"
#include "oldjson.h"
#include "oldrecord.h"

/* ---- two ways of reading ---- */

static int same_next(void *scanner, const struct gt_oldrecord *r)
{
	struct gt_oldrecord want;

	MUST(gt_jsonscan_next(scanner) == GT_JSON_OBJECT);
	MUST(!gt_oldrecord_read(scanner, &want));
	MUST(want.ts_ns == r->ts_ns && want.dur_ns == r->dur_ns && want.tid == r->tid);
	MUST(want.name == r->name && want.phase == r->phase && !strcmp(want.id, r->id));
	return 0;
}

/* How it goes on where the quick way has come to an end. */
static void compare_end(struct gt_jsonscan *s, int end)
{
	struct gt_oldrecord r;
	int token = gt_jsonscan_next(s);

	if (end == GT_OLDRECORD_CLOSED)
		MUST(token == GT_JSON_ARRAY_END && gt_jsonscan_next(s) == GT_JSON_END);
	else if (end == GT_OLDRECORD_OPEN)
		MUST(token == -EPIPE);
	else if (end == GT_OLDRECORD_CUT)
		MUST(token == GT_JSON_OBJECT && gt_oldrecord_read(s, &r) == -EPIPE);
	else
		MUST(end == GT_OLDRECORD_NOT_PLAIN);
}

static void compare(int fd)
{
	struct gt_jsonscan *s;
	uint64_t taken;
	int end;

	MUST(!gt_jsonscan_open(dup(fd), &s));
	if (gt_jsonscan_next(s) == GT_JSON_ARRAY) {
		end = gt_oldrecord_read_plain(fd, same_next, s, &taken);
		compare_end(s, end);
	} else {
		end = gt_oldrecord_read_plain(fd, same_next, NULL, &taken);
		MUST(end == GT_OLDRECORD_NOT_PLAIN && taken == 0);
	}
	gt_jsonscan_close(s);
	MUST(lseek(fd, 0, SEEK_CUR) == 0);
}

/* ---- the whole ---- */

static uint64_t number_of(gil_reader *r, const char *key)
{
	const char *text = gil_reader_meta(r, key);

	return text ? strtoull(text, NULL, 10) : 0;
}

static void check(int fd)
{
	uint64_t n = 0, last_ns = 0;
	struct gil_event ev;
	char why[512];
	gil_reader *r;

	MUST(!gil_reader_open_fd(fd, "fuzz", &r, why, sizeof(why)));
	for (; gil_reader_next(r, &ev); n++) {
		MUST(ev.kind == GIL_TAKE || ev.kind == GIL_ACQUIRE || ev.kind == GIL_RELEASE ||
		     ev.kind == GIL_DROPPED);
		MUST(ev.mono_ns >= last_ns);
		MUST(ev.tid && ev.tid < 4194304);
		last_ns = ev.mono_ns;
	}
	MUST(!gil_reader_problem(r));
	MUST(n ==
	     number_of(r, "import.records") * (number_of(r, "import.generation") == 3 ? 2 : 1));
	MUST(number_of(r, "import.moved") <= n && number_of(r, "import.moved_max_ns") < 1000);
	MUST(!gil_reader_end_reason(r) || !gil_reader_meta(r, "import.damage"));
	gil_reader_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC), imported;
	char path[40], why[512] = "";

	gt_log_setup("fuzz", GT_LOG_ERROR);
	MUST(fd >= 0);
	MUST(write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
	compare(fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	imported = gt_oldjson_import(path, why, sizeof(why));
	MUST(imported >= 0 || why[0]);
	MUST(imported >= 0 || !gt_oldjson_is(path));
	if (imported >= 0)
		check(imported);
	close(fd);
	return 0;
}
