// SPDX-License-Identifier: Apache-2.0
/* The rank of real processes started with a given environment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "rank.h"
#include "spawn.h"

static const struct {
	const char *env[4];
	uint32_t rank;
	const char *source;
} cases[] = {
	{{NULL}, 0, "default"},
	{{"RANK=3"}, 3, "RANK"},
	{{"RANK_ID=4"}, 4, "RANK_ID"},
	{{"OMPI_COMM_WORLD_RANK=5"}, 5, "OMPI_COMM_WORLD_RANK"},
	{{"PMIX_RANK=6"}, 6, "PMIX_RANK"},
	{{"PMI_RANK=7"}, 7, "PMI_RANK"},
	{{"SLURM_PROCID=8"}, 8, "SLURM_PROCID"},
	{{"MS_NODE_ID=9"}, 9, "MS_NODE_ID"},
	/* the order of the list decides, not that of the environment */
	{{"SLURM_PROCID=1", "PMI_RANK=2", "RANK=11"}, 11, "RANK"},
	{{"MS_NODE_ID=1", "PMIX_RANK=2", "RANK_ID=12"}, 12, "RANK_ID"},
	/* what is no plain number is passed over */
	{{"MS_NODE_ID=node-a"}, 0, "default"},
	{{"RANK=", "RANK_ID=13"}, 13, "RANK_ID"},
	{{"RANK=-1", "RANK_ID=+1", "PMI_RANK=14"}, 14, "PMI_RANK"},
	{{"RANK= 1", "RANK_ID=1 ", "PMI_RANK=0x10"}, 0, "default"},
	{{"RANK=2147483647"}, 2147483647, "RANK"},
	{{"RANK=2147483648"}, 0, "default"},
	{{"RANK=4294967297"}, 0, "default"},
	{{"RANK=99999999999999999999999999999999999999"}, 0, "default"},
	{{"RANK=0000000000000000000000000000000000000000001"}, 0, "default"},
	/* other variables whose names contain these */
	{{"XRANK=1", "RANKX=2", "LOCAL_RANK=3", "WORLD_SIZE=4"}, 0, "default"},
};

static void ranks(void **state)
{
	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(cases); i++) {
		char *env[5] = {0};
		struct gt_proc p;
		struct spawned s;
		struct gt_rank r;

		for (size_t k = 0; k < 4; k++)
			env[k] = (char *)cases[i].env[k];
		s = spawn(env);
		assert_int_equal(gt_proc_open(s.pid, &p), 0);
		r = gt_rank_of(&p);
		if (r.rank != cases[i].rank || strcmp(r.source, cases[i].source))
			fail_msg("case %zu (%s): rank %u from %s", i,
				 env[0] ? env[0] : "empty environment", r.rank, r.source);
		gt_proc_close(&p);
		spawn_end(&s);
	}
}

static void process_that_has_ended(void **state)
{
	char *env[] = {(char *)"RANK=3", NULL};
	struct gt_proc p;
	struct spawned s = spawn(env);
	struct gt_rank r;

	(void)state;
	assert_int_equal(gt_proc_open(s.pid, &p), 0);
	spawn_end(&s);
	r = gt_rank_of(&p);
	assert_int_equal(r.rank, 0);
	assert_string_equal(r.source, "default");
	gt_proc_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks),
		cmocka_unit_test(process_that_has_ended),
	};

	return cmocka_run_group_tests_name("rank", tests, NULL, NULL);
}
