// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes, plain or compressed: the parser must give the same tokens however the reads are cut,
 * and skip what it would have read; and where a trace is seen in them, its facts must hold together
 * and the merged text be read as the same trace with one event more.
 */
#include <stdio.h>
#include <sys/mman.h>

#include "jsonscan.h"
#include "merge.h"
#include "must.h"

static int memfd(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	MUST(fd >= 0);
	MUST(!size || pwrite(fd, data, size, 0) == (ssize_t)size);
	return fd;
}

static struct gt_jsonscan *open_bytes(const uint8_t *data, size_t size, size_t buffer, int lenient)
{
	struct gt_jsonscan *s;

	MUST(!gt_jsonscan_open_buffer(memfd(data, size), buffer, &s));
	if (lenient)
		gt_jsonscan_lenient(s);
	return s;
}

static void check_token(const struct gt_jsonscan *s, int token, uint64_t last)
{
	size_t len;
	const char *text = gt_jsonscan_text(s, &len);
	int64_t ns;

	MUST(gt_jsonscan_offset(s) >= last && gt_jsonscan_behind(s) >= gt_jsonscan_offset(s));
	MUST(gt_jsonscan_depth(s) <= GT_JSONSCAN_DEPTH_MAX);
	MUST(len <= GT_JSONSCAN_TEXT_MAX && !text[len]);
	MUST(!gt_jsonscan_cut(s) || len > GT_JSONSCAN_TEXT_MAX - 4);
	if (token == GT_JSON_NUMBER && !gt_jsonscan_cut(s) && strpbrk(text, "0123456789"))
		MUST(gt_us_to_ns(text, &ns) != -EINVAL);
}

static int damaged(const struct gt_jsonscan *s)
{
	return strstr(gt_jsonscan_problem(s), "compressed data are damaged") != NULL;
}

static void check_same(const struct gt_jsonscan *a, const struct gt_jsonscan *b)
{
	MUST(!strcmp(gt_jsonscan_text(a, NULL), gt_jsonscan_text(b, NULL)));
	MUST(gt_jsonscan_offset(a) == gt_jsonscan_offset(b));
	MUST(gt_jsonscan_behind(a) == gt_jsonscan_behind(b));
	MUST(gt_jsonscan_bad_utf8(a) == gt_jsonscan_bad_utf8(b));
}

/* With a buffer of one byte and a large one; and skipped. */
static void scan(const uint8_t *data, size_t size, int lenient)
{
	struct gt_jsonscan *a = open_bytes(data, size, 1, lenient);
	struct gt_jsonscan *b = open_bytes(data, size, 4096, lenient);
	struct gt_jsonscan *c = open_bytes(data, size, 61, lenient);
	uint64_t last = 0;
	int token, other, rc;

	do {
		token = gt_jsonscan_next(a);
		other = gt_jsonscan_next(b);
		/* How much zlib hands on before the damage depends on how much it is asked for. */
		if (damaged(a) || damaged(b))
			goto out;
		MUST(token == other);
		if (token < 0)
			break;
		check_token(a, token, last);
		check_same(a, b);
		last = gt_jsonscan_behind(a);
	} while (token != GT_JSON_END);
	rc = gt_jsonscan_skip(c);
	if (!rc)
		rc = gt_jsonscan_next(c);
	if (damaged(c))
		goto out;
	MUST(rc == token);
	MUST(token == GT_JSON_END || token == -EBADMSG || token == -EPIPE);
	MUST(!strcmp(gt_jsonscan_problem(a), gt_jsonscan_problem(b)));
	MUST(!strcmp(gt_jsonscan_problem(a), gt_jsonscan_problem(c)));
out:
	gt_jsonscan_close(a);
	gt_jsonscan_close(b);
	gt_jsonscan_close(c);
}

static int add_event(void *ctx, int *any)
{
	gt_jsonw_lit((struct gt_jsonw *)ctx, "{\"ph\":\"M\"}");
	*any = 1;
	return 0;
}

static void check_facts(const struct gt_proftrace *t)
{
	MUST(t->array_offset <= t->whole && t->whole <= t->size);
	MUST(t->begin_ns >= 0 && t->begin_ns <= t->end_ns && t->base_ns >= 0);
	MUST(t->end_ns <= GT_PROFTRACE_TIME_MAX);
	MUST(t->untimed <= t->events && (t->any || !t->events));
	MUST(t->npython <= t->npids);
	for (size_t i = 1; i < t->npids; i++)
		MUST(t->pids[i - 1] < t->pids[i]);
	for (size_t i = 0; i < t->nthreads; i++) {
		const struct gt_proftrace_thread *th = &t->threads[i];

		MUST(!i || th[-1].pid < th->pid || (th[-1].pid == th->pid && th[-1].tid < th->tid));
		MUST(gt_proftrace_sort_index(t, th->pid, th->tid) == th->sort_index);
	}
	MUST(gt_proftrace_free_pid(t, 1) > gt_proftrace_free_pid(t, 0));
}

static void trace(const uint8_t *data, size_t size)
{
	gt_autoclose int fd = memfd(data, size), out = memfd(NULL, 0);
	struct gt_proftrace t, again;
	struct gt_jsonw w;
	char path[64], why[256];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (gt_proftrace_read(path, &t, why, sizeof(why))) {
		MUST(why[0]);
		return;
	}
	check_facts(&t);
	MUST(!gt_jsonw_init(&w, out, 0));
	MUST(!gt_merge(path, &t, &w, add_event, &w, why, sizeof(why)));
	MUST(!gt_jsonw_flush(&w));
	gt_jsonw_fini(&w);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", out);
	MUST(!gt_proftrace_read(path, &again, why, sizeof(why)));
	MUST(!again.cut && again.any && again.object == t.object);
	/* What was half there may have had such words or elements. */
	MUST(t.cut ? again.events <= t.events + 1 : again.events == t.events + 1);
	MUST(t.cut || (again.odd == t.odd && again.words == t.words &&
		       again.bad_utf8 == t.bad_utf8 && again.untimed == t.untimed &&
		       again.begin_ns == t.begin_ns && again.end_ns == t.end_ns));
	gt_proftrace_fini(&again);
	gt_proftrace_fini(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	scan(data, size, 0);
	scan(data, size, 1);
	trace(data, size);
	return 0;
}
