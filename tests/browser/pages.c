// SPDX-License-Identifier: Apache-2.0
/*
 * pages DIR: writes the report pages that tests/browser/test_report.py looks at into DIR;
 * pages DIR marks: those of tests/browser/test_marks.py.
 */
#include "../unit/htmlfix.h"

#define MANY 10000000 /* slices */

static void open_in(struct page *p, const char *dir, const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	page_open(p, path);
}

static void close_in(struct page *p)
{
	assert_return_code(page_finish(p), 0);
	close(p->fd);
}

static void make_crowd(const char *dir, const char *name, uint32_t threads, uint64_t slices)
{
	struct crowd c = {.threads = threads,
			  .first_tid = 100,
			  .start_ns = BASE_NS,
			  .slices = slices,
			  .long_hold_ns = 5000000,
			  .seed = 7,
			  .quiet = 5};
	struct page p;

	open_in(&p, dir, name);
	crowd_put(&p, &c, 0, "GIL Trace: python3 train.py --batch 32");
	close_in(&p);
}

/* A gap between two crowds, slices that are cut by it, and one that outlasts the recording. */
static void make_losses(const char *dir)
{
	struct crowd c = {.threads = 4,
			  .first_tid = 100,
			  .start_ns = BASE_NS,
			  .slices = 3000,
			  .long_hold_ns = 5000000,
			  .seed = 8};
	struct gt_sink_end end = {.events = 6000,
				  .threads = 4,
				  .gils = 1,
				  .killed = 1,
				  .lost = 34567,
				  .gaps = 1,
				  .lost_ns = 30000000,
				  .doubt = "the GIL changed hands 12 times where no probe is"};
	struct gt_gap gap = {.count = 34567};
	struct gt_span cut = {.kind = GT_SPAN_HOLD, .tid = 101, .open = GT_OPEN_LOST};
	struct gt_span missed = {.kind = GT_SPAN_TAKE, .tid = 101, .open = GT_OPEN_UNKNOWN};
	struct gt_span last = {
		.kind = GT_SPAN_TAKE, .tid = 101, .open = GT_OPEN_END, .wait.unknown_ns = 20000000};
	struct page p;
	uint64_t len_ns, end_ns;

	crowd_run(NULL, &c);
	len_ns = c.end_ns - c.start_ns;
	cut.start_ns = c.end_ns;
	cut.end_ns = gap.begin_ns = cut.start_ns + 8000000;
	gap.end_ns = gap.begin_ns + end.lost_ns;
	missed.start_ns = missed.end_ns = gap.end_ns + 5000000;
	last.start_ns = missed.end_ns + 1000000 + len_ns;
	last.end_ns = end_ns = last.start_ns + 20000000;

	open_in(&p, dir, "losses.html");
	page_process(&p, 100, 2, "GIL Trace: lossy.py (rank 2)", BASE_NS, end_ns);
	crowd_run(&p, &c);
	page_span(&p, &cut);
	EACH(&p, gap, &gap);
	page_span(&p, &missed);
	c.start_ns = missed.end_ns + 1000000;
	crowd_run(&p, &c);
	free(c.pair_ns);
	page_span(&p, &last);
	for (uint32_t i = 0; i < 4; i++)
		page_thread(&p, 100 + i, i ? "worker" : "MainThread 100", end_ns - BASE_NS);
	EACH(&p, end, &end);
	close_in(&p);
}

static void make_ranks(const char *dir)
{
	struct page p;

	open_in(&p, dir, "ranks.html");
	for (uint32_t rank = 0; rank < 8; rank++) {
		struct crowd c = {.threads = 6,
				  .first_tid = 1000 * (rank + 1),
				  .start_ns = BASE_NS + rank * 1000000,
				  .slices = 20000,
				  .long_hold_ns = 5000000,
				  .seed = rank,
				  .quiet = rank % 3};
		char name[128];

		snprintf(name, sizeof(name),
			 "GIL Trace: VLLM::Worker_TP%u --model with-a-rather-long-name (rank %u)",
			 rank, rank);
		crowd_put(&p, &c, rank, name);
	}
	close_in(&p);
}

/*
 * Two recordings of 3 s, 6.1 s apart, of unknown rank: one with a wait in which the GIL was free
 * for the most part, one of which nothing is told but that its losses were not counted.
 */
static void make_apart(const char *dir)
{
	const uint64_t second = 1000000000;
	const struct gt_span hold = {.kind = GT_SPAN_HOLD,
				     .tid = 101,
				     .start_ns = BASE_NS,
				     .end_ns = BASE_NS + second,
				     .forced = GT_FORCED_NO};
	const struct gt_span wait = {.kind = GT_SPAN_TAKE,
				     .tid = 100,
				     .acquired = 1,
				     .start_ns = BASE_NS + second - 82000000,
				     .end_ns = BASE_NS + 2 * second - 82000000,
				     .wait = {.held_ns = 82000000,
					      .nobody_ns = 918000000,
					      .blocker = 101,
					      .blocker_ns = 82000000}};
	const struct gt_sink_end end = {.events = 4, .threads = 2, .gils = 1};
	/* That there is a GIL is told, and nothing of it. */
	const struct gt_sink_end silent = {.gils = 1, .lost_unknown = 1};
	struct page p;

	open_in(&p, dir, "apart.html");
	page_process(&p, 200, -1, "GIL Trace: silent.py (rank 0)", BASE_NS + 6100000000,
		     BASE_NS + 9100000000);
	EACH(&p, end, &silent);
	page_process(&p, 100, -1, "GIL Trace: first.py (rank 0)", BASE_NS, BASE_NS + 3 * second);
	page_span(&p, &hold);
	page_span(&p, &wait);
	page_thread(&p, 100, "MainThread 100", 3 * second);
	page_thread(&p, 101, "worker 101", 3 * second);
	EACH(&p, end, &end);
	close_in(&p);
}

/* ---- pauses and marks ---- */

#define MS UINT64_C(1000000)

/*
 * Twice the same, with a pause of 30 ms in between and one of 2 ms in front, and a gap of lost
 * events behind; a hold is cut by the pause. Marks: of the process, of threads, one of a thread
 * that is not known, two close to each other, one in the pause.
 */
static void make_marks(const char *dir)
{
	struct crowd c = {.threads = 5,
			  .first_tid = 100,
			  .start_ns = BASE_NS + 2 * MS,
			  .slices = 400,
			  .long_hold_ns = 2 * MS,
			  .seed = 9};
	struct gt_sink_end end = {.events = 1600,
				  .threads = 5,
				  .gils = 1,
				  .lost = 77,
				  .gaps = 1,
				  .lost_ns = 4 * MS,
				  .paused_ns = 32 * MS};
	struct gt_span cut = {.kind = GT_SPAN_HOLD, .tid = 101, .open = GT_OPEN_PAUSED};
	struct gt_gap gap = {.count = 77};
	struct page p;
	uint64_t len_ns, again_ns;

	crowd_run(NULL, &c);
	len_ns = c.end_ns - c.start_ns;
	cut.start_ns = c.end_ns;
	cut.end_ns = c.end_ns + MS;
	again_ns = cut.end_ns + 30 * MS;
	gap.begin_ns = again_ns + len_ns;
	gap.end_ns = gap.begin_ns + 4 * MS;

	open_in(&p, dir, "marks.html");
	page_process(&p, 100, 0, "GIL Trace: steps.py", BASE_NS, gap.end_ns + MS);
	page_pause(&p, BASE_NS, BASE_NS + 2 * MS);
	page_mark(&p, BASE_NS + 3 * MS, 0, "warm-up ends");
	crowd_run(&p, &c);
	page_span(&p, &cut);
	page_pause(&p, cut.end_ns, again_ns);
	for (uint64_t i = 0; i < 6; i++) {
		char name[32];

		snprintf(name, sizeof(name), "step %llu", (unsigned long long)i);
		page_mark(&p, again_ns + i * len_ns / 6 + 10000, 100, name);
	}
	page_mark(&p, again_ns + len_ns / 6 + 12000, 103,
		  "flush right behind the first step, as the log is full");
	page_mark(&p, again_ns + len_ns / 2, 999, "by a thread that ended");
	page_mark(&p, again_ns - 10 * MS, 0, "while paused");
	c.start_ns = again_ns;
	crowd_run(&p, &c);
	free(c.pair_ns);
	EACH(&p, gap, &gap);
	crowd_threads(&p, &c, 2 * len_ns);
	EACH(&p, end, &end);
	close_in(&p);
}

/* Over all of the recording, each ten microseconds, by each thread in turn. */
static void make_many_marks(const char *dir)
{
	enum { MARKS = 100000 };
	struct crowd c = {.threads = 16,
			  .first_tid = 100,
			  .start_ns = BASE_NS,
			  .slices = 100000,
			  .long_hold_ns = 5 * MS,
			  .seed = 10};
	const struct gt_sink_end end = {
		.events = c.slices, .threads = c.threads, .gils = 1, .marks = MARKS};
	struct page p;

	crowd_run(NULL, &c);
	open_in(&p, dir, "manymarks.html");
	page_process(&p, 100, 0, "GIL Trace: busy.py", BASE_NS, c.end_ns);
	for (uint32_t i = 0; i < MARKS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "step %u", i);
		page_mark(&p, BASE_NS + i * ((c.end_ns - BASE_NS) / MARKS),
			  c.first_tid + i % c.threads, name);
	}
	crowd_run(&p, &c);
	free(c.pair_ns);
	crowd_threads(&p, &c, c.end_ns - BASE_NS);
	EACH(&p, end, &end);
	close_in(&p);
}

/* Marks that all of them have, as one gives them from outside, and one of rank 2 alone. */
static void make_marked_ranks(const char *dir)
{
	struct page p;

	open_in(&p, dir, "markedranks.html");
	for (uint32_t rank = 0; rank < 4; rank++) {
		struct crowd c = {.threads = 3,
				  .first_tid = 1000 * (rank + 1),
				  .start_ns = BASE_NS,
				  .slices = 500,
				  .long_hold_ns = 5 * MS,
				  .seed = rank};
		const struct gt_sink_end end = {.events = 500,
						.threads = 3,
						.gils = 1,
						.paused_ns = rank == 3 ? 20 * MS : 0};

		crowd_run(NULL, &c);
		page_process(&p, c.first_tid, rank, "GIL Trace: rank.py", BASE_NS,
			     c.end_ns + 20 * MS);
		page_mark(&p, BASE_NS + 5 * MS, 0, "load begins");
		page_mark(&p, BASE_NS + 15 * MS, 0, "load ends");
		if (rank == 2)
			page_mark(&p, BASE_NS + 25 * MS, c.first_tid + 1, "checkpoint");
		crowd_run(&p, &c);
		free(c.pair_ns);
		if (rank == 3)
			page_pause(&p, c.end_ns, c.end_ns + 20 * MS);
		crowd_threads(&p, &c, c.end_ns - BASE_NS);
		EACH(&p, end, &end);
	}
	close_in(&p);
}

/* All the time, so that nothing is known of it. */
static void make_paused(const char *dir)
{
	const struct gt_sink_end end = {.gils = 0, .paused_ns = 1000 * MS};
	struct page p;

	open_in(&p, dir, "paused.html");
	page_process(&p, 100, 0, "GIL Trace: idle.py", BASE_NS, BASE_NS + 1000 * MS);
	page_pause(&p, BASE_NS, BASE_NS + 1000 * MS);
	EACH(&p, end, &end);
	close_in(&p);
}

static void make_hostile(const char *dir)
{
	struct page p;

	open_in(&p, dir, "hostile.html");
	put_hostile(&p);
	close_in(&p);
}

static int make_marked_pages(const char *dir)
{
	make_marks(dir);
	make_many_marks(dir);
	make_marked_ranks(dir);
	make_paused(dir);
	make_hostile(dir);
	return 0;
}

static int make_pages(const char *dir)
{
	const struct gt_sink_end nothing = {0};
	struct page p;

	make_crowd(dir, "small.html", 5, 600);
	make_crowd(dir, "many16.html", 16, MANY);
	make_crowd(dir, "many300.html", 300, MANY);
	make_losses(dir);
	make_ranks(dir);
	make_apart(dir);
	make_hostile(dir);
	open_in(&p, dir, "empty.html");
	page_process(&p, 100, 0, "GIL Trace: idle.py", BASE_NS, BASE_NS + 1000000000);
	EACH(&p, end, &nothing);
	close_in(&p);
	open_in(&p, dir, "nothing.html");
	close_in(&p);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[2], "marks"))
		return make_marked_pages(argv[1]);
	return argc == 2 ? make_pages(argv[1]) : 2;
}
