// SPDX-License-Identifier: Apache-2.0
/* The rank of real processes started with a given environment; titles as frameworks set them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "rank.h"
#include "spawn.h"

static char *const no_env[] = {NULL};

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
		r = gt_rank_of(&p, "", NULL);
		if (r.rank != cases[i].rank || strcmp(r.source, cases[i].source))
			fail_msg("case %zu (%s): rank %u from %s", i,
				 env[0] ? env[0] : "empty environment", r.rank, r.source);
		gt_proc_close(&p);
		spawn_end(&s);
	}
}

static const struct {
	const char *env[4];
	int32_t local;
	const char *source;
} local_cases[] = {
	{{NULL}, -1, NULL},
	{{"LOCAL_RANK=0"}, 0, "LOCAL_RANK"},
	{{"OMPI_COMM_WORLD_LOCAL_RANK=1"}, 1, "OMPI_COMM_WORLD_LOCAL_RANK"},
	{{"DEVICE_ID=2"}, 2, "DEVICE_ID"},
	{{"ASCEND_DEVICE_ID=3"}, 3, "ASCEND_DEVICE_ID"},
	{{"ASCEND_DEVICE_ID=3", "DEVICE_ID=2", "LOCAL_RANK=4", "RANK=12"}, 4, "LOCAL_RANK"},
	{{"LOCAL_RANK=x", "DEVICE_ID=-2", "ASCEND_DEVICE_ID=5"}, 5, "ASCEND_DEVICE_ID"},
	{{"LOCAL_RANK=2147483648"}, -1, NULL},
	{{"LOCAL_RANK=1,2", "DEVICE_ID="}, -1, NULL},
	{{"RANK=3", "XLOCAL_RANK=1"}, -1, NULL},
};

static void local_ranks(void **state)
{
	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(local_cases); i++) {
		char *env[5] = {0};
		struct gt_proc p;
		struct spawned s;
		struct gt_rank r;

		for (size_t k = 0; k < 4; k++)
			env[k] = (char *)local_cases[i].env[k];
		s = spawn(env);
		assert_int_equal(gt_proc_open(s.pid, &p), 0);
		r = gt_rank_of(&p, NULL, NULL);
		assert_int_equal(r.local, local_cases[i].local);
		if (local_cases[i].source)
			assert_string_equal(r.local_source, local_cases[i].source);
		else
			assert_null(r.local_source);
		gt_proc_close(&p);
		spawn_end(&s);
	}
}

static const struct {
	const char *title;
	int64_t rank; /* -1: it does not tell */
} titles[] = {
	{"VLLM::Worker_TP0", 0},
	{"VLLM::Worker_TP7", 7},
	{"Worker_TP3", 3},
	{"VLLM::Worker_PP0_TP2", 2},
	{"VLLM::Worker_DP0_TP2", 2},
	{"VLLM::Worker_DP0_PP0_PCP0_TP5_DCP1_EP5", 5},
	{"VLLM::Worker_TP1_EP1", 1},
	{"sglang::scheduler_TP1", 1},
	{"sglang::scheduler_DP0_TP1", 1},
	{"sglang::scheduler_DP0_TP3_PP0", 3},
	{"sglang::scheduler_ATTN_CP1_MOE_DP1_TP3_EP1", 3},
	{"sglang::scheduler__TP2", 2},
	{"my launcher: VLLM::Worker_TP4 and more", 4},
	{"Worker scheduler_TP6", 6},
	{"Worker_TPX Worker_TP6", 6},
	{"Worker_TP2147483647", 2147483647},
	/* takes the size of TP to know */
	{"VLLM::Worker_DP1_TP0", -1},
	{"VLLM::Worker_PP1_TP3", -1},
	{"VLLM::Worker_DP0_PP2_TP3", -1},
	{"VLLM::Worker_PCP1_TP0", -1},
	{"sglang::scheduler_TP1_PP1", -1},
	{"Worker_NEW1_TP0", -1},
	/* no place at all */
	{"", -1},
	{"VLLM::EngineCore", -1},
	{"VLLM::Worker", -1},
	{"VLLM::Worker_DP0", -1},
	{"VLLM::Worker_EP3", -1},
	{"sglang::detokenizer", -1},
	{"TP3", -1},
	{"_TP3", -1},
	/* no such title */
	{"Worker_TP", -1},
	{"Worker_TP-1", -1},
	{"Worker_TP1x", -1},
	{"Worker_TP1.py", -1},
	{"Worker_TP1_", -1},
	{"Worker_tp1", -1},
	{"WorkerTP1", -1},
	{"Worker_1", -1},
	{"MyWorker_TP1", -1},
	{"My_Worker_TP1", -1},
	{"Workers_TP1", -1},
	{"Worker_TP2147483648", -1},
	{"Worker_TP99999999999999999999999999", -1},
	{"Worker_DP4294967296_TP1", -1},
	{"python train.py --role=Worker", -1},
};

static void title(void **state)
{
	struct spawned s = spawn(no_env);
	struct gt_proc p;

	(void)state;
	assert_int_equal(gt_proc_open(s.pid, &p), 0);
	for (size_t i = 0; i < GT_ARRAY_SIZE(titles); i++) {
		struct gt_rank r = gt_rank_of(&p, titles[i].title, NULL);
		int told = !strcmp(r.source, "title");

		if (told != (titles[i].rank >= 0) || (told && r.rank != titles[i].rank))
			fail_msg("\"%s\": rank %u from %s", titles[i].title, r.rank, r.source);
		if (!told)
			assert_string_equal(r.source, "default");
	}
	gt_proc_close(&p);
	spawn_end(&s);
}

static void card(void **state)
{
	struct gt_npus npus = {.bound = 1, .n = 1, .npu = {{.device = 6}}};
	struct spawned s = spawn(no_env);
	struct gt_proc p;
	struct gt_rank r;

	(void)state;
	assert_int_equal(gt_proc_open(s.pid, &p), 0);
	r = gt_rank_of(&p, "", &npus);
	assert_int_equal(r.rank, 6);
	assert_string_equal(r.source, "npu");
	assert_int_equal(r.local, -1);
	/* where the title cannot tell, it does not keep the card from telling */
	r = gt_rank_of(&p, "VLLM::Worker_PP1_TP2", &npus);
	assert_int_equal(r.rank, 6);
	r = gt_rank_of(&p, "VLLM::Worker_TP2", &npus);
	assert_int_equal(r.rank, 2);
	assert_string_equal(r.source, "title");
	npus.n = 2;
	assert_string_equal(gt_rank_of(&p, "", &npus).source, "default");
	npus.n = 0; /* the manager only */
	assert_string_equal(gt_rank_of(&p, "", &npus).source, "default");
	npus.n = 1; /* numbers of virtual ones begin at 100 */
	npus.npu[0].is_virtual = 1;
	assert_string_equal(gt_rank_of(&p, "", &npus).source, "default");
	gt_proc_close(&p);
	spawn_end(&s);
}

static void environment_comes_first(void **state)
{
	struct gt_npus npus = {.bound = 1, .n = 1, .npu = {{.device = 6}}};
	char *env[] = {(char *)"SLURM_PROCID=9", (char *)"LOCAL_RANK=1", NULL};
	struct spawned s = spawn(env);
	struct gt_proc p;
	struct gt_rank r;

	(void)state;
	assert_int_equal(gt_proc_open(s.pid, &p), 0);
	r = gt_rank_of(&p, "VLLM::Worker_TP2", &npus);
	assert_int_equal(r.rank, 9);
	assert_string_equal(r.source, "SLURM_PROCID");
	assert_int_equal(r.local, 1);
	assert_string_equal(r.local_source, "LOCAL_RANK");
	gt_proc_close(&p);
	spawn_end(&s);
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
	r = gt_rank_of(&p, "", NULL);
	assert_int_equal(r.rank, 0);
	assert_string_equal(r.source, "default");
	assert_int_equal(r.local, -1);
	gt_proc_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks),
		cmocka_unit_test(local_ranks),
		cmocka_unit_test(title),
		cmocka_unit_test(card),
		cmocka_unit_test(environment_comes_first),
		cmocka_unit_test(process_that_has_ended),
	};

	return cmocka_run_group_tests_name("rank", tests, NULL, NULL);
}
