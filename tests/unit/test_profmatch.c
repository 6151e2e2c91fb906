// SPDX-License-Identifier: Apache-2.0
/* profmatch.c: which recordings belong to which Profilers, and what cannot be decided. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "log.h"
#include "proffix.h"
#include "profmatch.h"

#define MAX  4
#define S    1000000000ull
#define UNIX (1736405443 * S)

static struct gt_match_who who[MAX];
static struct gt_profiler list[MAX];
static struct gt_proftrace_process inside[MAX][MAX];
static enum gt_match pairs[MAX * MAX];
static size_t nwho, nlist;

static int clear(void **state)
{
	(void)state;
	memset(who, 0, sizeof(who));
	memset(list, 0, sizeof(list));
	nwho = nlist = 0;
	return 0;
}

static void recording_of(uint32_t ns_pid, uint32_t pid, uint32_t host_pid, int64_t rank)
{
	struct gt_match_who *w = &who[nwho++];

	*w = (struct gt_match_who){.path = "x.gil",
				   .ns_pid = ns_pid,
				   .pid = pid,
				   .host_pid = host_pid,
				   .rank = rank,
				   .usable = 1};
	snprintf(w->process, sizeof(w->process), "process %zu", nwho);
}

static void profiler_of(int64_t pid, int64_t rank)
{
	list[nlist++] = (struct gt_profiler){.trace = "trace_view.json",
					     .pid = pid,
					     .rank = rank,
					     .pid_how = "its name",
					     .rank_how = "its name"};
}

/* "recording 0's pairs|recording 1's": n not, p pid, i inside, r rank, o only, c child. */
static void expect(const char *text, size_t left_out)
{
	const struct gt_profilers p = {.list = list, .n = nlist};
	char got[64], *at = got;

	assert_int_equal(gt_match(who, nwho, &p, pairs), left_out);
	for (size_t i = 0; i < nwho; i++) {
		if (i)
			*at++ = '|';
		for (size_t k = 0; k < nlist; k++)
			*at++ = "npiroc"[pairs[i * nlist + k]];
	}
	*at = '\0';
	assert_string_equal(got, text);
}

static void by_pid(void **state)
{
	(void)state;
	recording_of(0, 41, 0, 0);
	recording_of(0, 42, 0, 0);
	profiler_of(42, -1);
	profiler_of(41, -1);
	expect("np|pn", 0);
}

/* In a container: the Profiler has its pid there. The host's is somebody else's by chance. */
static void by_pid_of_the_namespace(void **state)
{
	(void)state;
	recording_of(7, 5007, 0, -1);
	recording_of(9, 7, 0, -1);
	profiler_of(7, -1);
	profiler_of(9, -1);
	expect("pn|np", 0);
	/* Seen from outside of it. */
	clear(NULL);
	recording_of(7, 50, 5007, -1);
	recording_of(8, 51, 5008, -1);
	profiler_of(5008, -1);
	profiler_of(50, -1);
	expect("np|pn", 0);
}

/* Two containers with the same pid: the rank tells them apart, if it is known. */
static void pid_and_rank(void **state)
{
	(void)state;
	recording_of(7, 1007, 0, 0);
	recording_of(7, 2007, 0, 1);
	profiler_of(7, 1);
	profiler_of(7, 0);
	expect("np|pn", 0);
	list[0].rank = -1;
	expect("np|nn", 2); /* a guess would be as good as the other way round */
}

static void by_rank(void **state)
{
	(void)state;
	recording_of(0, 41, 0, 1);
	recording_of(0, 42, 0, 0);
	profiler_of(-1, 0);
	profiler_of(-1, 1);
	expect("nr|rn", 0);
	/* A rank that nothing has told counts only where none is better. */
	clear(NULL);
	recording_of(0, 41, 0, 0);
	recording_of(0, 42, 0, 0);
	who[0].rank_guessed = 1;
	profiler_of(-1, 0);
	expect("n|r", 1);
	who[1].rank = 5;
	expect("r|n", 1);
}

/* Whose pid has found its Profiler is not taken for another one by its rank. */
static void pid_before_rank(void **state)
{
	(void)state;
	recording_of(0, 41, 0, 0);
	recording_of(0, 42, 0, 1);
	profiler_of(41, 1);
	profiler_of(-1, 1);
	expect("pn|nr", 0);
}

/* In Profiler k's trace there are events of a process. */
static void events_of(size_t k, uint64_t pid, uint64_t slices, uint64_t cpu)
{
	struct gt_proftrace *t = &list[k].facts;

	t->processes = inside[k];
	inside[k][t->nprocesses++] =
		(struct gt_proftrace_process){.pid = pid, .slices = slices, .cpu = cpu};
}

/* A launcher and its ranks; a trace that has nothing but its events' pid. */
static void by_a_pid_in_it(void **state)
{
	(void)state;
	recording_of(0, 81, 0, -1);
	recording_of(0, 93, 0, 0);
	recording_of(0, 94, 0, 1);
	recording_of(0, 95, 0, 2);
	for (int i = 1; i < 4; i++)
		who[i].parent = 81;
	profiler_of(-1, -1);
	events_of(0, 93, 5, 5);
	expect("n|i|n|n", 2);
	/* The rank, which may be anything, is weaker; a pid by the name or a lane is stronger. */
	list[0].rank = 1;
	expect("n|i|n|n", 2);
	list[0].pid = 95;
	expect("n|n|n|p", 2);
	/* What tells nothing of a recording leaves it to the rank. */
	list[0].pid = -1;
	inside[0][0].pid = 7;
	expect("n|n|r|n", 2);
	/* One of the children is not given: it is not taken for the launcher, or its sibling. */
	list[0].rank = -1;
	nwho = 3;
	expect("n|n|n", 4);
	list[0].facts.nprocesses = 0;
	expect("n|n|n", 4);
	/* Nor if nobody has told ranks, but the trace tells that it is another one. */
	events_of(0, 7, 5, 5);
	for (int i = 0; i < 3; i++) {
		who[i].rank = 0;
		who[i].rank_guessed = 1;
	}
	expect("n|n|n", 4);
	list[0].facts.nprocesses = 0;
	list[0].rank = 1;
	expect("n|n|n", 4);
}

/* Several processes are in one trace. */
static void several_pids_in_it(void **state)
{
	(void)state;
	recording_of(0, 93, 0, 0);
	recording_of(0, 94, 0, 1);
	recording_of(0, 95, 0, 2);
	profiler_of(-1, -1);
	events_of(0, 93, 5, 5);
	events_of(0, 94, 9, 0); /* may be the number of something else */
	events_of(0, 95, 5, 1);
	events_of(0, 99, 500, 500); /* not recorded */
	expect("i|n|i", 1);
	inside[0][0].cpu = inside[0][2].cpu = 0;
	expect("n|i|n", 2);
	/* Two containers have the pid: the rank tells. */
	clear(NULL);
	recording_of(7, 1007, 0, 0);
	recording_of(7, 2007, 0, 1);
	profiler_of(-1, 1);
	events_of(0, 7, 5, 5);
	expect("n|i", 1);
	list[0].rank = -1;
	expect("n|n", 3);
}

/* Its own rank is no other process's, though a launcher was given, too. */
static void rank_of_a_child(void **state)
{
	(void)state;
	recording_of(0, 81, 0, 0);
	recording_of(0, 93, 0, 0);
	recording_of(0, 94, 0, 1);
	recording_of(0, 96, 0, 1); /* a DataLoader's worker of the latter */
	who[0].rank_guessed = 1;
	who[1].parent = who[2].parent = 81;
	who[3].parent = 94;
	profiler_of(-1, 1);
	profiler_of(-1, 0);
	expect("nn|nr|rn|cn", 0);
	/* Whose pid was found has a second session, of which only the rank is known. */
	list[1].pid = 94;
	expect("nn|nn|np|nc", 2);
}

/* What has started processes that have a Profiler, and their parents, is not missed. */
static void launchers(void **state)
{
	(void)state;
	recording_of(0, 94, 0, -1);
	recording_of(0, 80, 0, -1);
	recording_of(0, 81, 0, -1);
	recording_of(0, 82, 0, -1);
	who[0].parent = 81;
	who[2].parent = 80;
	profiler_of(94, -1);
	expect("p|n|n|n", 1);
	who[3].parent = 80; /* it has started nothing itself */
	expect("p|n|n|n", 1);
	/* A ring, as a file may say. */
	who[1].parent = 94;
	expect("p|c|c|c", 0);
	nlist = 0;
	expect("|||", 4);
}

/* Two of one rank: two jobs, say. */
static void ambiguous(void **state)
{
	(void)state;
	recording_of(0, 41, 0, 0);
	recording_of(0, 42, 0, 0);
	profiler_of(-1, 0);
	expect("n|n", 3);
}

/* Two runs in a container, with one pid and rank: the time tells. */
static void two_runs(void **state)
{
	(void)state;
	recording_of(7, 7, 1007, 0);
	recording_of(7, 7, 2007, 0);
	profiler_of(7, 0);
	profiler_of(7, 0);
	for (int i = 0; i < 2; i++) {
		who[1 - i].begin_ns = UNIX + 60 * S * (uint64_t)i;
		who[1 - i].end_ns = who[1 - i].begin_ns + 20 * S;
		list[i].facts.begin_ns = (int64_t)(UNIX + 60 * S * (uint64_t)i + 5 * S);
		list[i].facts.end_ns = list[i].facts.begin_ns + (int64_t)S;
	}
	expect("np|pn", 0);
	for (int i = 0; i < 2; i++)
		list[i].pid = -1; /* by the rank, as well */
	expect("nr|rn", 0);
	/* One right after the other: both are near. And none is. */
	who[0].begin_ns = who[1].end_ns + 1;
	list[1].facts.begin_ns = list[1].facts.end_ns = (int64_t)who[1].end_ns;
	expect("nn|rn", 2);
	for (int i = 0; i < 2; i++)
		list[i].facts.begin_ns = list[i].facts.end_ns = (int64_t)(UNIX + 3600 * S);
	expect("nn|nn", 4);
	/* Times that are no Unix times tell nothing. */
	list[0].facts.relative = list[1].facts.relative = 1;
	list[0].facts.begin_ns = list[0].facts.end_ns = (int64_t)who[1].begin_ns;
	expect("nn|nn", 4);
}

/* Two captures of one process, and two sessions of it. */
static void several_of_one(void **state)
{
	(void)state;
	recording_of(0, 41, 0, 0);
	recording_of(0, 41, 0, 0);
	strcpy(who[1].process, who[0].process);
	profiler_of(41, 0);
	profiler_of(41, 0);
	expect("pp|pp", 0);
}

static void the_only_one(void **state)
{
	(void)state;
	recording_of(0, 41, 0, -1);
	profiler_of(-1, -1);
	expect("o", 0);
	list[0].pid = 99; /* which is said */
	expect("o", 0);
	profiler_of(-1, -1);
	expect("nn", 3);
	nlist = 1;
	recording_of(0, 42, 0, -1);
	expect("n|n", 3);
	who[1].usable = 0; /* it cannot be read: not even counted here */
	expect("o|n", 0);
}

/* A DataLoader's workers have the rank of their parent; one has a child itself. */
static void children(void **state)
{
	(void)state;
	recording_of(0, 43, 0, 1);
	recording_of(0, 42, 0, 1);
	recording_of(0, 41, 0, 1);
	who[0].parent = 42;
	who[1].parent = 41;
	who[2].parent = 1;
	profiler_of(41, -1);
	expect("c|c|p", 0);
	list[0].pid = -1;
	list[0].rank = 1;
	expect("c|c|r", 0);
	list[0].rank = -1;
	expect("c|c|o", 0);
	/* On another host that is another process. */
	strcpy(who[0].host, "other");
	list[0].pid = 41;
	expect("n|c|p", 1);
	/* Its own parent, as a file may say. */
	nwho = 1;
	who[0].parent = 43;
	list[0].pid = 43;
	expect("p", 0);
}

static void nothing_at_all(void **state)
{
	(void)state;
	expect("", 0);
	recording_of(0, 0, 0, -1);
	expect("", 1);
	nwho = 0;
	profiler_of(-1, -1);
	expect("", 1);
}

/* What a recording tells of itself. */
static void from_meta(void **state)
{
	static const char *const meta[][2] = {
		{"process.pid", "41"},        {"process.ns_pid", "7"}, {"process.host_pid", "5007"},
		{"process.start_ticks", "9"}, {"rank", "3"},           {"rank.source", "RANK"}};
	static const char *const guessed[][2] = {{"process.pid", "41"},
						 {"process.start_ticks", "8"},
						 {"rank", "0"},
						 {"rank.source", "default"}};
	struct gt_match_who a, b, c;
	gil_reader *r = recording(NULL, 0, meta, 6);

	(void)state;
	gt_match_who(r, "a", &a);
	gil_reader_close(r);
	assert_int_equal(a.ns_pid, 7);
	assert_int_equal(a.pid, 41);
	assert_int_equal(a.host_pid, 5007);
	assert_int_equal(a.rank, 3);
	assert_false(a.rank_guessed);
	r = recording(NULL, 0, guessed, 4);
	gt_match_who(r, "b", &b);
	gil_reader_close(r);
	assert_true(b.rank_guessed);
	assert_string_not_equal(a.process, b.process);
	/* Of two that tell nothing, nobody knows that they are of one process. */
	r = recording(NULL, 0, NULL, 0);
	gt_match_who(r, "a", &b);
	gt_match_who(r, "b", &c);
	gil_reader_close(r);
	assert_int_equal(b.rank, -1);
	assert_string_not_equal(b.process, c.process);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup(f, clear)
	const struct CMUnitTest tests[] = {
		T(by_pid),
		T(by_pid_of_the_namespace),
		T(pid_and_rank),
		T(by_rank),
		T(pid_before_rank),
		T(by_a_pid_in_it),
		T(several_pids_in_it),
		T(rank_of_a_child),
		T(launchers),
		T(ambiguous),
		T(two_runs),
		T(several_of_one),
		T(children),
		T(the_only_one),
		T(nothing_at_all),
		cmocka_unit_test_setup_teardown(from_meta, make_base, remove_base),
	};

	gt_log_setup("test_profmatch", GT_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
