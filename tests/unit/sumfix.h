/* SPDX-License-Identifier: Apache-2.0 */
/* A summary that is fed by hand, and what it prints. Times are nanoseconds from BASE on. */
#ifndef SUMFIX_H
#define SUMFIX_H

#include <cjson/cJSON.h>
#include <stdio.h>
#include <sys/mman.h>

#include "summary.h"

#define BASE UINT64_C(1700000000000000000)

struct feed {
	struct gt_summary *s;
	struct gt_sink *sink;
};

static GT_UNUSED void feed_open(struct feed *f)
{
	assert_int_equal(gt_summary_create(&f->s), 0);
	assert_int_equal(gt_summary_sink(f->s, &f->sink), 0);
}

static GT_UNUSED void feed_process(struct feed *f, uint64_t pid, int64_t rank, const char *name,
				   uint64_t ns)
{
	static uint32_t order;
	const struct gt_sink_process p = {
		.pid = pid,
		.main_tid = (uint32_t)pid,
		.rank = rank,
		.name = name,
		.tags = "CPU",
		.path = "dir/GIL.gil",
		.order = order,
		.start_ns = BASE,
		.end_ns = BASE + ns,
	};

	order++;
	assert_int_equal(f->sink->ops->process(f->sink, &p), 0);
}

static GT_UNUSED void feed_span(struct feed *f, struct gt_span span)
{
	span.start_ns += BASE;
	span.end_ns += BASE;
	assert_int_equal(f->sink->ops->span(f->sink, &span), 0);
}

/* A wait that ended with the GIL, all of it for `blocker`. */
static GT_UNUSED void feed_take(struct feed *f, uint32_t tid, uint64_t start, uint64_t end,
				uint32_t blocker)
{
	feed_span(f, (struct gt_span){
			     .tid = tid,
			     .kind = GT_SPAN_TAKE,
			     .acquired = 1,
			     .start_ns = start,
			     .end_ns = end,
			     .wait = {.held_ns = end - start,
				      .blocker = blocker,
				      .blocker_ns = end - start},
		     });
}

static GT_UNUSED void feed_drop(struct feed *f, uint32_t tid, uint64_t start, uint64_t end,
				uint8_t forced)
{
	feed_span(f, (struct gt_span){.tid = tid,
				      .kind = GT_SPAN_DROP,
				      .forced = forced,
				      .start_ns = start,
				      .end_ns = end});
}

/* A hold with its release. */
static GT_UNUSED void feed_hold(struct feed *f, uint32_t tid, uint64_t start, uint64_t end,
				uint8_t forced)
{
	feed_span(f, (struct gt_span){.tid = tid,
				      .kind = GT_SPAN_HOLD,
				      .forced = forced,
				      .start_ns = start,
				      .end_ns = end});
	feed_drop(f, tid, end, end, forced);
}

static GT_UNUSED void feed_gap(struct feed *f, uint64_t begin, uint64_t end, uint64_t count)
{
	const struct gt_gap gap = {
		.begin_ns = BASE + begin, .end_ns = BASE + end, .count = count, .late = !count};

	assert_int_equal(f->sink->ops->gap(f->sink, &gap), 0);
}

static GT_UNUSED void feed_pause(struct feed *f, uint64_t begin, uint64_t end)
{
	const struct gt_gap gap = {.begin_ns = BASE + begin, .end_ns = BASE + end, .paused = 1};

	assert_int_equal(f->sink->ops->gap(f->sink, &gap), 0);
}

static GT_UNUSED void feed_mark(struct feed *f, uint32_t tid, uint64_t at, const char *name)
{
	const struct gt_mark mark = {.at_ns = BASE + at, .tid = tid, .name = name};

	assert_int_equal(f->sink->ops->mark(f->sink, &mark), 0);
}

static GT_UNUSED void feed_thread(struct feed *f, uint32_t tid, const char *name, uint64_t observed,
				  uint64_t unknown)
{
	char label[512];
	const struct gt_sink_thread t = {
		.tid = tid,
		.name = name,
		.label = label,
		.first_ns = BASE,
		.observed_ns = observed,
		.unknown_ns = unknown,
	};

	snprintf(label, sizeof(label), "%s %u", *name ? name : "thread", tid);
	assert_int_equal(f->sink->ops->thread(f->sink, &t), 0);
}

static GT_UNUSED void feed_pair(struct feed *f, uint32_t victim, uint32_t blocker, uint64_t ns,
				uint64_t waits)
{
	const struct gt_pair pair = {
		.victim = victim, .blocker = blocker, .ns = ns, .waits = waits};

	assert_int_equal(f->sink->ops->pair(f->sink, &pair), 0);
}

static GT_UNUSED void feed_end(struct feed *f, struct gt_sink_end end)
{
	assert_int_equal(f->sink->ops->end(f->sink, &end), 0);
}

static GT_UNUSED void feed_finish(struct feed *f)
{
	assert_int_equal(f->sink->ops->finish(f->sink), 0);
	f->sink = NULL;
}

/* Its JSON, to be freed. */
static GT_UNUSED char *feed_json_text(const struct gt_summary *s)
{
	int fd = memfd_create("json", MFD_CLOEXEC);
	struct gt_jsonw w;
	off_t size;
	char *text;

	assert_true(fd >= 0);
	assert_int_equal(gt_jsonw_init(&w, fd, 0), 0);
	gt_summary_json(s, &w);
	assert_int_equal(gt_jsonw_flush(&w), 0);
	gt_jsonw_fini(&w);
	size = lseek(fd, 0, SEEK_END);
	text = calloc(1, (size_t)size + 1);
	assert_non_null(text);
	assert_int_equal(pread(fd, text, (size_t)size, 0), size);
	close(fd);
	return text;
}

static GT_UNUSED cJSON *feed_json(const struct gt_summary *s)
{
	gt_autofree char *text = feed_json_text(s);
	const char *end;
	cJSON *json = cJSON_ParseWithOpts(text, &end, 1);

	if (!json)
		fail_msg("no JSON at: %.80s", end);
	return json;
}

/* A member by its path: "processes.0.threads.1.wait_ns". */
static GT_UNUSED const cJSON *feed_at(const cJSON *json, const char *path)
{
	char part[64];
	const char *p = path;

	while (*p) {
		size_t len = strcspn(p, ".");

		snprintf(part, sizeof(part), "%.*s", (int)len, p);
		json = cJSON_IsArray(json) ? cJSON_GetArrayItem(json, (int)strtol(part, NULL, 10))
					   : cJSON_GetObjectItemCaseSensitive(json, part);
		if (!json)
			fail_msg("there is no %s (in %s)", part, path);
		p += len + (p[len] == '.');
	}
	return json;
}

/* Numbers below 2^53: cJSON has doubles. */
#define assert_number(json, path, want)                                                            \
	do {                                                                                       \
		const cJSON *n_ = feed_at((json), (path));                                         \
		assert_true(cJSON_IsNumber(n_));                                                   \
		if (n_->valuedouble != (double)(want))                                             \
			fail_msg("%s is %f, not %f", (path), n_->valuedouble, (double)(want));     \
	} while (0)

/* Its text, to be freed. */
static GT_UNUSED char *feed_text(const struct gt_summary *s, int brief)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(gt_summary_text(s, out, brief), 0);
	fclose(out);
	return text;
}

#endif
