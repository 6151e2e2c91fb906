// SPDX-License-Identifier: Apache-2.0
/*
 * Whatever the events were: what a timeline makes of them adds up in the summary. Times, threads,
 * GILs, buckets; and both outputs are sound.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gilhistory.h"
#include "sumfix.h"
#include "summary_private.h"
#include "timeline.h"

#define START_NS 1000

static struct gt_timeline *begin(struct feed *f, int functions, uint64_t end_ns)
{
	const struct gt_timeline_opts opts = {.start_mono_ns = START_NS,
					      .end_mono_ns = end_ns,
					      .main_tid = 1,
					      .functions = functions != 0,
					      .forced_told = 1};
	const struct gt_sink_process p = {.pid = 1,
					  .rank = -1,
					  .name = "p",
					  .tags = "",
					  .path = "f",
					  .main_tid = 1,
					  .start_ns = START_NS,
					  .end_ns = end_ns};
	struct gt_timeline *tl;

	feed_open(f);
	assert_int_equal(f->sink->ops->process(f->sink, &p), 0);
	assert_int_equal(gt_timeline_create(f->sink, &opts, &tl), 0);
	return tl;
}

static void end(struct feed *f, struct gt_timeline *tl, uint64_t end_ns)
{
	assert_int_equal(gt_timeline_finish(tl, end_ns), 0);
	feed_end(f, (struct gt_sink_end){.events = gt_timeline_stats(tl)->events,
					 .lost = gt_timeline_stats(tl)->lost,
					 .gaps = gt_timeline_stats(tl)->gaps,
					 .paused_ns = gt_timeline_stats(tl)->paused_ns,
					 .marks = gt_timeline_stats(tl)->marks});
	feed_finish(f);
}

static void check_thread(const struct gt_summary_thread *t)
{
	uint64_t wait = t->hist[GT_WAITS].sum, hold = t->hist[GT_HOLDS].sum;

	assert_true(wait + hold + t->drop_ns + t->unknown_ns + t->finalizing_ns +
			    gt_summary_idle_ns(t) ==
		    t->observed_ns);
	assert_true(t->blamed_ns == wait);
	assert_true(t->contended <= t->hist[GT_WAITS].n);
	assert_true(t->takes <= t->hist[GT_HOLDS].n + t->missed[GT_HOLDS]);
	assert_true(t->cut[GT_WAITS] <= t->hist[GT_WAITS].n);
}

/* A mark has no length and is in no sum; the thread of each has a row. */
static void check_marks(const struct gt_summary_process *p)
{
	assert_true(p->nmarks <= p->marks_total && p->marks_total == p->end.marks);
	for (size_t i = 0; i < p->nmarks; i++) {
		const struct gt_summary_mark *m = &p->marks[i];

		assert_true(m->at_ns >= p->p.start_ns && m->at_ns <= p->p.end_ns);
		assert_true(!i || m[-1].at_ns <= m->at_ns);
		assert_true(!m->tid || gt_summary_thread(p, m->tid));
	}
}

static void check(const struct gt_summary_process *p, int sane)
{
	uint64_t wait = 0, in_buckets = 0, gaps = 0;

	for (size_t i = 0; i < p->nthreads; i++) {
		check_thread(p->threads[i]);
		wait += p->threads[i]->hist[GT_WAITS].sum;
	}
	assert_true(p->wait_ns == wait);
	check_marks(p);
	for (size_t i = 0; i < GT_SUMMARY_BUCKETS; i++) {
		in_buckets += p->bucket_wait_ns[i];
		gaps += p->bucket_gap_ns[i];
		assert_true(p->bucket_gap_ns[i] <= p->bound_ns[i + 1] - p->bound_ns[i]);
	}
	assert_true(in_buckets == wait);
	assert_true(gaps == p->gap_ns + p->late_ns + p->paused_ns + p->unread_ns);
	assert_true(p->known_ns + gaps == p->p.end_ns - p->p.start_ns);
	for (size_t g = 0; g < GIL_INDEX_OTHER; g++) {
		uint64_t held = 0;

		if (!p->gils[g])
			continue;
		for (size_t i = 0; i < GT_SUMMARY_BUCKETS; i++)
			held += p->gils[g]->bucket_held_ns[i];
		assert_true(held == p->gils[g]->held_ns);
		/* Only where time runs backwards do holds reach into gaps. */
		assert_true(held <= p->known_ns || !sane);
		assert_true(held + p->gils[g]->free_ns + p->gils[g]->unknown_ns ==
			    (held > p->known_ns ? held : p->known_ns));
	}
}

static void check_outputs(const struct gt_summary *s)
{
	gt_autofree char *text = feed_text(s, 0), *brief = feed_text(s, 1);

	cJSON_Delete(feed_json(s));
	assert_true(text && *text && brief && *brief);
}

/* Events of [begin, end) are missing: lost, or nobody wanted them. */
static struct gil_event missing(uint64_t begin_ns, uint64_t end_ns, uint64_t n, int paused)
{
	struct gil_event gap = {.kind = paused ? GIL_PAUSED : GIL_LOST, .mono_ns = end_ns};

	if (paused)
		gap.paused.begin_mono_ns = begin_ns;
	else
		gap.lost.begin_mono_ns = begin_ns;
	if (!paused)
		gap.lost.count = n;
	return gap;
}

/* As CPython lets them happen, some of them lost or not recorded, with marks among them. */
static void histories(void **unused)
{
	(void)unused;
	for (uint64_t seed = 1; seed <= 400; seed++) {
		static struct history w;
		struct gt_timeline *tl;
		uint64_t lose = seed, lost_since = 0, n_lost = 0, end_ns;
		struct feed f;

		history_make(&w, seed, seed % 3 == 0);
		end_ns = w.event[w.n - 1].mono_ns + 100;
		tl = begin(&f, w.functions, end_ns);
		for (size_t i = 0; i < w.n; i++) {
			const struct gil_event *ev = &w.event[i];

			if (seed % 2 && (n_lost ? make_below(&lose, 8) : !make_below(&lose, 200))) {
				lost_since = n_lost ? lost_since : ev->mono_ns;
				n_lost++;
				continue;
			}
			if (n_lost) {
				const struct gil_event gap =
					missing(lost_since, ev->mono_ns, n_lost, seed % 4 == 3);

				assert_int_equal(gt_timeline_event(tl, &gap), 0);
				n_lost = 0;
			}
			if (!make_below(&lose, 100)) {
				const struct gil_event mark = {.kind = GIL_MARK,
							       .mono_ns = ev->mono_ns,
							       .tid = ev->tid,
							       .mark = {.name = "step"}};

				assert_int_equal(gt_timeline_event(tl, &mark), 0);
			}
			assert_int_equal(gt_timeline_event(tl, ev), 0);
		}
		end(&f, tl, end_ns);
		gt_timeline_free(tl);
		check(f.s->list[0], 1);
		if (seed % 40 == 0)
			check_outputs(f.s);
		gt_summary_free(f.s);
	}
}

/* Any events; times go back, and the end may lie before the last of them. */
static void any_events(void **unused)
{
	(void)unused;
	for (uint64_t seed = 1; seed <= 600; seed++) {
		uint64_t state = seed, ns = START_NS, end_ns = START_NS;
		static struct gil_event events[600];
		struct gt_timeline *tl;
		struct feed f;

		for (size_t i = 0; i < GT_ARRAY_SIZE(events); i++) {
			events[i] = make_event(&state, &ns, 1 + (uint32_t)seed % 7);
			if (events[i].mono_ns > end_ns)
				end_ns = events[i].mono_ns;
		}
		tl = begin(&f, seed % 3 == 0, end_ns);
		for (size_t i = 0; i < GT_ARRAY_SIZE(events); i++)
			assert_int_equal(gt_timeline_event(tl, &events[i]), 0);
		end(&f, tl, end_ns);
		gt_timeline_free(tl);
		check(f.s->list[0], 0);
		if (seed % 40 == 0)
			check_outputs(f.s);
		gt_summary_free(f.s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(histories),
		cmocka_unit_test(any_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
