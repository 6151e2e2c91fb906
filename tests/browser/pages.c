// SPDX-License-Identifier: Apache-2.0
/* pages DIR: writes the report pages that tests/browser/test_report.py looks at into DIR. */
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
	open_in(&p, dir, "hostile.html");
	put_hostile(&p);
	close_in(&p);
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
	return argc == 2 ? make_pages(argv[1]) : 2;
}
