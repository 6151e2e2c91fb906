/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank.h - the rank of a process in its distributed job, and where the number came from: its
 * environment, else its title, else the NPU that it is bound to. All of it is what the process, or
 * who started it, says: a label for people, nothing to rely on. Logs nothing. No state.
 */
#ifndef GT_RANK_H
#define GT_RANK_H

#include "npu.h"
#include "proc.h"

struct gt_rank {
	uint32_t rank;            /* up to INT32_MAX */
	const char *source;       /* name of the variable, "title", "npu" or "default"; static */
	int32_t local;            /* rank on its host; -1: not known */
	const char *local_source; /* name of the variable, static; NULL: not known */
};

/*
 * Never fails: 0 from "default" where nothing tells. title: its command line now, may be "" or
 * NULL; npus may be NULL.
 *
 * A title tells the rank of a worker of vLLM or SGLang by its place: "VLLM::Worker_TP3",
 * "sglang::scheduler_DP0_TP1". Where the place in another dimension than TP is not 0
 * ("Worker_PP1_TP3"), the rank takes the size of TP to compute, which no title has: then, as
 * without a title, the one device that the process is bound to is its rank, which is right for a
 * job that has the whole of one host.
 */
struct gt_rank gt_rank_of(const struct gt_proc *p, const char *title, const struct gt_npus *npus);

#endif
