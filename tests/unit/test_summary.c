// SPDX-License-Identifier: Apache-2.0
/* The numbers of a summary, fed by hand and read from its JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sumfix.h"

#define MS UINT64_C(1000000)

static uint64_t state;

static uint64_t next(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

/* Two that fight for the GIL for 100 ms, 5 ms each in turn. */
static void feed_two(struct feed *f)
{
	feed_process(f, 100, 0, "two", 100 * MS);
	for (uint64_t i = 0; i < 20; i++) {
		uint32_t holder = i & 1 ? 101 : 100, waiter = i & 1 ? 100 : 101;

		feed_take(f, waiter, i * 5 * MS, (i + 1) * 5 * MS, holder);
		feed_hold(f, holder, i * 5 * MS, (i + 1) * 5 * MS, GT_FORCED_YES);
	}
	feed_thread(f, 100, "MainThread", 100 * MS, 0);
	feed_thread(f, 101, "worker", 100 * MS, 0);
	feed_pair(f, 100, 101, 50 * MS, 10);
	feed_pair(f, 101, 100, 50 * MS, 10);
	feed_end(f, (struct gt_sink_end){.events = 80, .threads = 2, .gils = 1});
}

static void check_one_of_two(const cJSON *t, int i)
{
	assert_number(t, "tid", 100 + i);
	assert_number(t, "wait_ns", 50 * MS);
	assert_number(t, "hold_ns", 50 * MS);
	assert_number(t, "idle_ns", 0);
	assert_number(t, "wait_share", 0.5);
	assert_number(t, "takes", 10);
	assert_number(t, "contended", 10);
	assert_number(t, "releases.forced", 10);
	assert_number(t, "releases.voluntary", 0);
	assert_number(t, "waits.count", 10);
	assert_number(t, "waits.median_ns", 5 * MS);
	assert_number(t, "waits.max_ns", 5 * MS);
	assert_number(t, "holds.p99_ns", 5 * MS);
	assert_number(t, "blamed_ns", 50 * MS);
	assert_int_equal(cJSON_IsTrue(feed_at(t, "main")), !i);
}

static void two_threads(void **unused)
{
	struct feed f;
	cJSON *json;

	(void)unused;
	feed_open(&f);
	feed_two(&f);
	feed_finish(&f);
	json = feed_json(f.s);
	assert_number(json, "version", 1);
	assert_number(json, "processes.0.pid", 100);
	assert_number(json, "processes.0.rank", 0);
	assert_number(json, "processes.0.span_ns", 100 * MS);
	assert_number(json, "processes.0.known_ns", 100 * MS);
	assert_number(json, "processes.0.events", 80);
	assert_number(json, "processes.0.gils.0.held_ns", 100 * MS);
	assert_number(json, "processes.0.gils.0.free_ns", 0);
	assert_number(json, "processes.0.gils.0.utilisation", 1);
	assert_number(json, "processes.0.wait_share", 0.5);
	assert_number(json, "processes.0.contention", 1);
	for (int i = 0; i < 2; i++)
		check_one_of_two(cJSON_GetArrayItem(feed_at(json, "processes.0.threads"), i), i);
	assert_string_equal(feed_at(json, "processes.0.threads.1.label")->valuestring,
			    "worker 101");
	assert_number(json, "processes.0.pairs.0.victim", 100);
	assert_number(json, "processes.0.pairs.0.blocker", 101);
	assert_number(json, "processes.0.pairs.0.ns", 50 * MS);
	assert_number(json, "processes.0.pairs.0.share", 1);
	assert_number(json, "processes.0.pairs.0.waits", 10);
	assert_int_equal(cJSON_GetArraySize(feed_at(json, "processes.0.longest_waits")), 10);
	assert_number(json, "processes.0.longest_waits.0.offset_ns", 0);
	assert_number(json, "processes.0.longest_waits.0.ns", 5 * MS);
	assert_number(json, "processes.0.longest_waits.0.blocker", 100);
	assert_number(json, "processes.0.longest_waits.9.offset_ns", 45 * MS);
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

/* ---- a random timeline of one GIL, against sums that are made in another way ---- */

#define THREADS 7
#define SLICES  3000

struct model {
	uint64_t wait[THREADS], hold[THREADS], drop[THREADS], takes[THREADS];
	struct gt_span slice[SLICES];
	size_t n;
	uint64_t end_ns;
};

static void put(struct feed *f, struct model *m, struct gt_span span)
{
	uint64_t ns = span.end_ns - span.start_ns, *sums[] = {m->wait, m->hold, m->drop};

	sums[span.kind][span.tid - 1] += ns;
	m->takes[span.tid - 1] += span.kind == GT_SPAN_HOLD;
	m->slice[m->n++] = span;
	feed_span(f, span);
}

/* A thread waits, holds, drops; then the next one, maybe after a while. */
static void feed_random(struct feed *f, struct model *m)
{
	uint64_t now = next(1000), until[THREADS] = {0};

	feed_process(f, 1, -1, "random", m->end_ns);
	while (m->n + 3 < SLICES) {
		uint32_t tid = 1 + (uint32_t)next(THREADS);
		uint64_t start = now + next(next(10) ? 20 : 20000);
		uint64_t end = start + next(next(10) ? 3000 : 300000), from = until[tid - 1];
		uint8_t forced = (uint8_t)next(GT_FORCED_KINDS);

		if (end + 1000 > m->end_ns)
			break;
		if (from < start)
			put(f, m,
			    (struct gt_span){.tid = tid,
					     .kind = GT_SPAN_TAKE,
					     .acquired = 1,
					     .start_ns = from + next(start - from),
					     .end_ns = start});
		put(f, m,
		    (struct gt_span){.tid = tid,
				     .kind = GT_SPAN_HOLD,
				     .forced = forced,
				     .start_ns = start,
				     .end_ns = end});
		until[tid - 1] = end + (forced == GT_FORCED_YES ? next(10) : 0);
		put(f, m,
		    (struct gt_span){.tid = tid,
				     .kind = GT_SPAN_DROP,
				     .forced = forced,
				     .start_ns = end,
				     .end_ns = until[tid - 1]});
		now = end;
	}
	for (uint32_t i = 0; i < THREADS; i++)
		feed_thread(f, i + 1, "", m->end_ns, 0);
	feed_end(f, (struct gt_sink_end){.events = m->n});
}

static uint64_t overlap(const struct gt_span *s, uint64_t begin, uint64_t end)
{
	uint64_t from = s->start_ns > begin ? s->start_ns : begin;
	uint64_t to = s->end_ns < end ? s->end_ns : end;

	return to > from ? to - from : 0;
}

static void check_buckets(const cJSON *p, const struct model *m)
{
	const cJSON *buckets = feed_at(p, "buckets"), *held = feed_at(p, "gils.0.bucket_held_ns");

	assert_int_equal(cJSON_GetArraySize(buckets), GT_SUMMARY_BUCKETS);
	assert_int_equal(cJSON_GetArraySize(held), GT_SUMMARY_BUCKETS);
	for (int i = 0; i < GT_SUMMARY_BUCKETS; i++) {
		uint64_t begin = m->end_ns * (uint64_t)i / GT_SUMMARY_BUCKETS;
		uint64_t end = m->end_ns * (uint64_t)(i + 1) / GT_SUMMARY_BUCKETS;
		uint64_t sum[GT_SPAN_KINDS] = {0};

		for (size_t k = 0; k < m->n; k++)
			sum[m->slice[k].kind] += overlap(&m->slice[k], begin, end);
		assert_number(cJSON_GetArrayItem(buckets, i), "wait_ns", sum[GT_SPAN_TAKE]);
		assert_int_equal(cJSON_GetArrayItem(held, i)->valuedouble, sum[GT_SPAN_HOLD]);
	}
}

static int longest_first(const void *a, const void *b)
{
	const struct gt_span *x = a, *y = b;
	uint64_t p = x->end_ns - x->start_ns, q = y->end_ns - y->start_ns;

	if (p != q)
		return p < q ? 1 : -1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->tid > y->tid) - (x->tid < y->tid);
}

static void check_longest(const cJSON *list, struct model *m, uint8_t kind)
{
	int found = 0;

	qsort(m->slice, m->n, sizeof(m->slice[0]), longest_first);
	for (size_t k = 0; k < m->n && found < GT_SUMMARY_LONGEST; k++) {
		const cJSON *item = cJSON_GetArrayItem(list, found);

		if (m->slice[k].kind != kind)
			continue;
		assert_non_null(item);
		assert_number(item, "tid", m->slice[k].tid);
		assert_number(item, "ns", m->slice[k].end_ns - m->slice[k].start_ns);
		assert_number(item, "offset_ns", m->slice[k].start_ns);
		found++;
	}
	assert_int_equal(cJSON_GetArraySize(list), found);
}

static void random_timelines(void **unused)
{
	(void)unused;
	state = 0x0ddba11;
	for (int round = 0; round < 30; round++) {
		static struct model m;
		struct feed f;
		const cJSON *p;
		cJSON *json;

		memset(&m, 0, sizeof(m));
		/* Also so short that buckets have no length, and of all phases. */
		m.end_ns = 5000 + next(round & 1 ? 40000 : 40000000);
		feed_open(&f);
		feed_random(&f, &m);
		feed_finish(&f);
		json = feed_json(f.s);
		p = feed_at(json, "processes.0");
		for (int i = 0; i < THREADS; i++) {
			const cJSON *t = cJSON_GetArrayItem(feed_at(p, "threads"), i);

			assert_number(t, "wait_ns", m.wait[i]);
			assert_number(t, "hold_ns", m.hold[i]);
			assert_number(t, "drop_ns", m.drop[i]);
			assert_number(t, "takes", m.takes[i]);
			assert_number(t, "waits.sum_ns", m.wait[i]);
			assert_number(t, "idle_ns", m.end_ns - m.wait[i] - m.hold[i] - m.drop[i]);
		}
		if (m.n) {
			check_buckets(p, &m);
			check_longest(feed_at(p, "longest_waits"), &m, GT_SPAN_TAKE);
			check_longest(feed_at(p, "longest_holds"), &m, GT_SPAN_HOLD);
		}
		cJSON_Delete(json);
		gt_summary_free(f.s);
	}
}

/* ---- GILs, order, names, errors ---- */

static void several_gils(void **unused)
{
	struct feed f;
	cJSON *json;

	(void)unused;
	feed_open(&f);
	feed_process(&f, 7, -1, "gils", 1000);
	for (uint8_t i = 0; i < 3; i++)
		feed_span(&f, (struct gt_span){.tid = i + 1,
					       .kind = GT_SPAN_HOLD,
					       .gil = i == 2 ? GIL_INDEX_OTHER : i,
					       .start_ns = 100,
					       .end_ns = 600 + i * 100u});
	feed_end(&f, (struct gt_sink_end){.gils = 3});
	feed_finish(&f);
	json = feed_json(f.s);
	assert_number(json, "processes.0.gils.0.gil", 0);
	assert_number(json, "processes.0.gils.0.held_ns", 500);
	assert_number(json, "processes.0.gils.1.gil", 1);
	assert_number(json, "processes.0.gils.1.utilisation", 0.6);
	assert_string_equal(feed_at(json, "processes.0.gils.2.gil")->valuestring, "other");
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

static void pairs_by_time(void **unused)
{
	static const char *const kinds[] = {"unknown", "thread", "nobody", "others", "thread"};
	struct feed f;
	cJSON *json;

	(void)unused;
	feed_open(&f);
	feed_process(&f, 7, -1, "pairs", 10000);
	feed_take(&f, 1, 0, 1000, 2);
	feed_take(&f, 3, 0, 50, 2);
	feed_pair(&f, 3, 2, 50, 1);
	feed_pair(&f, 1, GT_BLOCKER_NOBODY, 200, 1);
	feed_pair(&f, 1, GT_BLOCKER_OTHERS, 60, 1);
	feed_pair(&f, 1, GT_BLOCKER_UNKNOWN, 500, 1);
	feed_pair(&f, 1, 2, 240, 1);
	feed_end(&f, (struct gt_sink_end){0});
	feed_finish(&f);
	json = feed_json(f.s);
	for (int i = 0; i < 5; i++) {
		const cJSON *p = cJSON_GetArrayItem(feed_at(json, "processes.0.pairs"), i);

		assert_string_equal(feed_at(p, "kind")->valuestring, kinds[i]);
		assert_int_equal(cJSON_IsNull(feed_at(p, "blocker")), !!strcmp(kinds[i], "thread"));
	}
	assert_number(json, "processes.0.pairs.0.share", 0.5);
	assert_number(json, "processes.0.pairs.4.share", 1);
	assert_number(json, "processes.0.threads.0.blamed_ns", 1000);
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

static void slowest_first(void **unused)
{
	static const uint64_t waits[] = {100, 900, 0, 500};
	static const int want[] = {1, 3, 0, 2, 4};
	uint64_t first;
	struct feed f;
	cJSON *json;

	(void)unused;
	feed_open(&f);
	for (int i = 0; i < 4; i++) {
		feed_process(&f, 100 + (uint64_t)i, i, "rank", 1000);
		feed_take(&f, 1, 0, waits[i], 2);
		feed_thread(&f, 1, "a", 1000, 0);
		feed_end(&f, (struct gt_sink_end){0});
	}
	feed_process(&f, 104, 4, "without threads", 1000);
	feed_end(&f, (struct gt_sink_end){0});
	feed_finish(&f);
	json = feed_json(f.s);
	first = (uint64_t)feed_at(json, "processes.0.order")->valuedouble;
	for (int i = 0; i < 5; i++) {
		const cJSON *order = cJSON_GetArrayItem(feed_at(json, "slowest_first"), i);

		assert_int_equal((uint64_t)order->valuedouble - first, want[i]);
		assert_int_equal(cJSON_GetArrayItem(feed_at(json, "processes"), i) != NULL, 1);
	}
	assert_true(cJSON_IsNull(feed_at(json, "processes.4.wait_share")));
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

static void no_process(void **unused)
{
	struct feed f;
	cJSON *json;

	(void)unused;
	feed_open(&f);
	feed_finish(&f);
	json = feed_json(f.s);
	assert_int_equal(cJSON_GetArraySize(feed_at(json, "processes")), 0);
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

static void many_threads(void **unused)
{
	struct feed f;
	cJSON *json;

	(void)unused;
	feed_open(&f);
	feed_process(&f, 7, -1, "many", 1000000);
	/* In an order that is not theirs. */
	for (uint32_t i = 0; i < 5000; i++) {
		uint32_t tid = 1 + i * 7919u % 5000u;

		feed_take(&f, tid, 0, tid, 7);
	}
	feed_end(&f, (struct gt_sink_end){0});
	feed_finish(&f);
	json = feed_json(f.s);
	assert_int_equal(cJSON_GetArraySize(feed_at(json, "processes.0.threads")), 5000);
	for (int i = 0; i < 3; i++) {
		const cJSON *t = cJSON_GetArrayItem(feed_at(json, "processes.0.threads"), i);

		assert_number(t, "tid", i + 1);
		assert_number(t, "wait_ns", i + 1);
	}
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

static void hostile_names(void **unused)
{
	static const char name[] = "\"},{\\\n\033[2J\xff\xc3\x28 \xe2\x80\xae\xe2\x80\xac";
	gt_autofree char *text = NULL;
	struct feed f;
	cJSON *json;

	(void)unused;
	feed_open(&f);
	feed_process(&f, 7, -1, name, 1000);
	feed_take(&f, 1, 0, 10, 1);
	feed_thread(&f, 1, name, 1000, 0);
	feed_end(&f, (struct gt_sink_end){.doubt = name, .problem = name});
	feed_finish(&f);
	json = feed_json(f.s);
	assert_string_equal(
		feed_at(json, "processes.0.threads.0.name")->valuestring,
		"\"},{\\\n\033[2J\xef\xbf\xbd\xef\xbf\xbd\x28 \xe2\x80\xae\xe2\x80\xac");
	assert_string_equal(feed_at(json, "processes.0.doubt")->valuestring,
			    feed_at(json, "processes.0.name")->valuestring);
	cJSON_Delete(json);
	text = feed_json_text(f.s);
	for (const char *c = text; *c; c++)
		assert_true((unsigned char)*c >= 0x20 || *c == '\n');
	gt_summary_free(f.s);
}

/* The greatest times there can be: nothing wraps round. */
static void absurd_times(void **unused)
{
	const uint64_t max = UINT64_MAX - BASE;
	gt_autofree char *text = NULL;
	struct feed f;
	cJSON *json;

	(void)unused;
	feed_open(&f);
	feed_process(&f, 7, -1, "absurd", max);
	for (uint32_t tid = 1; tid < 4; tid++) {
		feed_take(&f, tid, 0, max, 9);
		feed_thread(&f, tid, "a", UINT64_MAX, UINT64_MAX);
		feed_pair(&f, tid, 9, UINT64_MAX, UINT64_MAX);
	}
	feed_hold(&f, 9, 0, max, GT_FORCED_NO);
	feed_gap(&f, 5, max, UINT64_MAX);
	feed_gap(&f, 0, 3, 1); /* time that goes back */
	feed_end(&f, (struct gt_sink_end){.lost = UINT64_MAX, .lost_ns = UINT64_MAX});
	feed_finish(&f);
	json = feed_json(f.s);
	assert_number(json, "processes.0.known_ns", 5);
	assert_number(json, "processes.0.threads.0.idle_ns", 0);
	cJSON_Delete(json);
	text = feed_text(f.s, 0);
	gt_summary_free(f.s);
}

/* Slices beyond the recording, which a time axis of a caller may make: counted, but in no bucket.
 */
static void beyond_the_recording(void **unused)
{
	struct feed f;
	cJSON *json;

	(void)unused;
	feed_open(&f);
	feed_process(&f, 7, -1, "instant", 0);
	feed_hold(&f, 1, 0, 10, GT_FORCED_NO);
	feed_take(&f, 1, 10, 30, 2);
	feed_gap(&f, 0, 0, 1);
	feed_gap(&f, 50, 60, 1);
	feed_end(&f, (struct gt_sink_end){0});
	feed_finish(&f);
	json = feed_json(f.s);
	assert_number(json, "processes.0.threads.0.hold_ns", 10);
	assert_number(json, "processes.0.threads.0.wait_ns", 20);
	assert_number(json, "processes.0.gils.0.held_ns", 0);
	assert_true(cJSON_IsNull(feed_at(json, "processes.0.gils.0.utilisation")));
	cJSON_Delete(json);
	gt_summary_free(f.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_threads),   cmocka_unit_test(random_timelines),
		cmocka_unit_test(several_gils),  cmocka_unit_test(pairs_by_time),
		cmocka_unit_test(slowest_first), cmocka_unit_test(no_process),
		cmocka_unit_test(many_threads),  cmocka_unit_test(hostile_names),
		cmocka_unit_test(absurd_times),  cmocka_unit_test(beyond_the_recording),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
