/* SPDX-License-Identifier: Apache-2.0 */
/*
 * htmlfix.h - for tests of the report page: makes recordings up, and hands them to a summary and
 * the page's sink as gil2trace does.
 */
#ifndef HTMLFIX_H
#define HTMLFIX_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "jsonw.h"
#include "sink_html.h"
#include "summary.h"

#define BASE_NS UINT64_C(1700000000123456789)

/* ---- a page in the making ---- */

struct page {
	int fd;
	struct gt_jsonw w;
	struct gt_summary *summary;
	struct gt_sink *sinks[2];                     /* the summary's, the page's */
	uint64_t n[GT_SPAN_KINDS], ns[GT_SPAN_KINDS]; /* what was put in */
};

#define EACH(p, op, ...)                                                                           \
	do {                                                                                       \
		for (size_t i_ = 0; i_ < 2; i_++)                                                  \
			assert_return_code((p)->sinks[i_]->ops->op((p)->sinks[i_], __VA_ARGS__),   \
					   0);                                                     \
	} while (0)

/* Into the descriptor, which stays the caller's. */
static void page_begin(struct page *p, int fd)
{
	*p = (struct page){.fd = fd};
	assert_true(p->fd >= 0);
	assert_return_code(gt_jsonw_init(&p->w, p->fd, 0), 0);
	assert_return_code(gt_summary_create(&p->summary), 0);
	assert_return_code(gt_summary_sink(p->summary, &p->sinks[0]), 0);
	assert_return_code(gt_html_create(&p->w, p->summary, &p->sinks[1]), 0);
}

/* Into a file, or into memory (NULL); the descriptor is to be closed. */
static void page_open(struct page *p, const char *path)
{
	page_begin(p,
		   path ? open(path, O_CREAT | O_TRUNC | O_RDWR, 0644) : memfd_create("page", 0));
}

/* Returns what the page's finish() said; the descriptor stays open. */
static int page_finish(struct page *p)
{
	int err;

	assert_return_code(p->sinks[0]->ops->finish(p->sinks[0]), 0);
	err = p->sinks[1]->ops->finish(p->sinks[1]);
	gt_jsonw_fini(&p->w);
	gt_summary_free(p->summary);
	return err;
}

static void page_process(struct page *p, uint32_t pid, int64_t rank, const char *name,
			 uint64_t start_ns, uint64_t end_ns)
{
	const struct gt_sink_process process = {
		.pid = pid,
		.main_tid = pid,
		.rank = rank,
		.name = name,
		.tags = "CPU",
		.path = "/data/gil/GIL_4711_rank_0.gil",
		.order = rank < 0 ? 0 : (uint32_t)rank,
		.start_ns = start_ns,
		.end_ns = end_ns,
	};

	EACH(p, process, &process);
}

static void page_span(struct page *p, const struct gt_span *span)
{
	EACH(p, span, span);
	p->n[span->kind]++;
	p->ns[span->kind] += span->end_ns - span->start_ns;
}

/* Not every sink wants to know. */
static inline void page_mark(struct page *p, uint64_t at_ns, uint32_t tid, const char *name)
{
	const struct gt_mark mark = {.at_ns = at_ns, .tid = tid, .name = name};

	for (size_t i = 0; i < 2; i++)
		if (p->sinks[i]->ops->mark)
			assert_return_code(p->sinks[i]->ops->mark(p->sinks[i], &mark), 0);
}

static inline void page_pause(struct page *p, uint64_t begin_ns, uint64_t end_ns)
{
	const struct gt_gap gap = {.begin_ns = begin_ns, .end_ns = end_ns, .paused = 1};

	EACH(p, gap, &gap);
}

static void page_thread(struct page *p, uint32_t tid, const char *label, uint64_t observed_ns)
{
	const struct gt_sink_thread t = {
		.tid = tid,
		.label = label,
		.name = label,
		.first_ns = BASE_NS,
		.observed_ns = observed_ns,
	};

	EACH(p, thread, &t);
}

/* ---- made-up threads that share a GIL ---- */

struct crowd {
	uint32_t threads, first_tid;
	uint64_t slices; /* at least */
	uint64_t start_ns;
	uint64_t long_hold_ns; /* of one in 50 */
	uint64_t seed;
	uint32_t quiet; /* every how many'th thread takes part rarely; 0: none */
	/* Set by crowd_run(). */
	uint64_t end_ns;
	uint64_t *free_ns; /* by thread: the end of its latest slice */
	uint64_t *pair_ns; /* by victim and blocker; a thread's own place: nobody */
};

static uint64_t next_random(uint64_t *seed)
{
	uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* A wait that ends now; who had the GIL last had most of it, and the one before the rest. */
static void crowd_wait(struct page *p, struct crowd *c, uint32_t victim, const uint32_t holders[2],
		       uint64_t start_ns, uint64_t end_ns, uint64_t nobody_ns)
{
	uint64_t len_ns = end_ns - start_ns, *pairs = c->pair_ns + (size_t)victim * c->threads;
	struct gt_span s = {
		.kind = GT_SPAN_TAKE,
		.tid = c->first_tid + victim,
		.acquired = 1,
		.start_ns = start_ns,
		.end_ns = end_ns,
	};

	s.wait.nobody_ns = len_ns < nobody_ns || holders[0] == victim ? len_ns : nobody_ns;
	s.wait.held_ns = len_ns - s.wait.nobody_ns;
	pairs[victim] += s.wait.nobody_ns;
	if (s.wait.held_ns) {
		s.wait.blocker = c->first_tid + holders[0];
		s.wait.blocker_ns = s.wait.held_ns;
		if (holders[1] != victim && holders[1] != holders[0])
			s.wait.blocker_ns -= s.wait.held_ns / 5;
		pairs[holders[0]] += s.wait.blocker_ns;
		if (s.wait.held_ns > s.wait.blocker_ns)
			pairs[holders[1]] += s.wait.held_ns - s.wait.blocker_ns;
	}
	page_span(p, &s);
}

static void crowd_hold(struct page *p, struct crowd *c, uint32_t who, uint64_t start_ns,
		       uint64_t len_ns, int forced)
{
	struct gt_span s = {
		.kind = GT_SPAN_HOLD,
		.tid = c->first_tid + who,
		.forced = forced ? GT_FORCED_YES : GT_FORCED_NO,
		.start_ns = start_ns,
		.end_ns = start_ns + len_ns,
	};

	page_span(p, &s);
	s.kind = GT_SPAN_DROP;
	s.start_ns = s.end_ns;
	if (forced)
		s.end_ns += 1500;
	page_span(p, &s);
	c->free_ns[who] = s.end_ns;
}

/*
 * One takes the GIL after the other, and has waited for it since it was free itself, or a part of
 * that. Without a page only the end is found out, and nothing kept.
 */
static void crowd_run(struct page *p, struct crowd *c)
{
	uint64_t now_ns = c->start_ns, done = 0, seed = c->seed;
	uint32_t holders[2] = {0};

	c->free_ns = calloc(c->threads, sizeof(*c->free_ns));
	if (!c->pair_ns)
		c->pair_ns = calloc((size_t)c->threads * c->threads, sizeof(*c->pair_ns));
	assert_true(c->free_ns && c->pair_ns);
	for (uint32_t i = 0; i < c->threads; i++)
		c->free_ns[i] = c->start_ns;
	while (done < c->slices) {
		uint64_t r = next_random(&seed), hold_ns = 500 + r % 40000, wait_ns;
		uint64_t nobody_ns = 200 + (r >> 44) % 5000;
		uint32_t next = (uint32_t)((r >> 20) % c->threads);
		int forced = (r >> 40) % 50 == 0;

		if (c->quiet && next % c->quiet == 0 && (r >> 57) % 64)
			next = (next + 1) % c->threads;
		if (forced)
			hold_ns = c->long_hold_ns + r % 30000;
		now_ns += nobody_ns;
		if (now_ns < c->free_ns[next])
			now_ns = c->free_ns[next];
		wait_ns = now_ns - c->free_ns[next];
		if (next == holders[0]) /* it comes back, and nobody was in its way */
			wait_ns = 0;
		else if (wait_ns > nobody_ns)
			wait_ns = nobody_ns + (wait_ns - nobody_ns) * (1 + r % 8) / 8;
		done += 2 + !!wait_ns;
		if (p && wait_ns)
			crowd_wait(p, c, next, holders, now_ns - wait_ns, now_ns, nobody_ns);
		if (p)
			crowd_hold(p, c, next, now_ns, hold_ns, forced);
		else
			c->free_ns[next] = now_ns + hold_ns + (forced ? 1500 : 0);
		now_ns += hold_ns;
		holders[1] = holders[0];
		holders[0] = next;
	}
	c->end_ns = now_ns + 2000;
	free(c->free_ns);
}

static void crowd_threads(struct page *p, const struct crowd *c, uint64_t observed_ns)
{
	for (uint32_t i = 0; i < c->threads; i++) {
		char label[64];

		if (i)
			snprintf(label, sizeof(label), "worker-%u %u", i, c->first_tid + i);
		else
			snprintf(label, sizeof(label), "MainThread %u", c->first_tid);
		page_thread(p, c->first_tid + i, label, observed_ns);
	}
}

/* Its process, slices, threads, pairs and end. */
static void crowd_put(struct page *p, struct crowd *c, int64_t rank, const char *name)
{
	const struct gt_sink_end end = {.events = c->slices, .threads = c->threads, .gils = 1};

	crowd_run(NULL, c);
	page_process(p, c->first_tid, rank, name, c->start_ns, c->end_ns);
	crowd_run(p, c);
	crowd_threads(p, c, c->end_ns - c->start_ns);
	for (uint32_t i = 0; i < c->threads; i++)
		for (uint32_t k = 0; k < c->threads; k++) {
			const struct gt_pair pair = {
				.victim = c->first_tid + i,
				.blocker = k == i ? GT_BLOCKER_NOBODY : c->first_tid + k,
				.ns = c->pair_ns[(size_t)i * c->threads + k],
				.waits = 1,
			};

			if (pair.ns)
				EACH(p, pair, &pair);
		}
	free(c->pair_ns);
	c->pair_ns = NULL;
	EACH(p, end, &end);
}

#define HOSTILE                                                                                    \
	"</script><script>alert(1)</script><!-- \"'{}[]&amp;\\ \x01\x1b[31m\x7f \xff\xfe \xc3 "

/* A recording whose names try to be something else. */
static void put_hostile(struct page *p)
{
	char hostile[256];
	const struct gt_span hold = {.kind = GT_SPAN_HOLD,
				     .tid = 7,
				     .start_ns = BASE_NS,
				     .end_ns = BASE_NS + 500,
				     .open = GT_OPEN_START};
	const struct gt_sink_thread t = {.tid = 7,
					 .label = hostile,
					 .name = hostile,
					 .first_ns = BASE_NS,
					 .observed_ns = 1000};
	const struct gt_gap gap = {
		.begin_ns = BASE_NS, .end_ns = BASE_NS + 10, .late = 1, .why = hostile};
	const struct gt_sink_end end = {.events = 2,
					.threads = 1,
					.gils = 1,
					.doubt = hostile,
					.problem = hostile,
					.late_ns = 10};
	const struct gt_sink_process process = {.pid = 4194400,
						.rank = -1,
						.name = hostile,
						.tags = hostile,
						.path = hostile,
						.start_ns = BASE_NS,
						.end_ns = BASE_NS + 1000};

	/* What follows stands from right to left: U+202E. */
	snprintf(hostile, sizeof(hostile), HOSTILE "%c%c%cevil", 0xe2, 0x80, 0xae);
	EACH(p, process, &process);
	EACH(p, gap, &gap);
	page_span(p, &hold);
	page_mark(p, BASE_NS + 300, 7, hostile);
	page_mark(p, BASE_NS + 300, 0, "\x01\x7f \xff");
	EACH(p, thread, &t);
	EACH(p, end, &end);
}

#endif
