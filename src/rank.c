// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

/* What launchers set, the most specific first: torchrun, Ascend's, Open MPI, PMIx, Slurm, ... */
static const char *const variables[] = {
	"RANK",     "RANK_ID",      "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
	"PMI_RANK", "SLURM_PROCID", "MS_NODE_ID", /* MindSpore's; may also be a name, which is no
						     plain number */
};

/* Digits only; strtoul() would take signs, blanks and numbers that wrap. */
static int parse_rank(const char *s, uint32_t *out)
{
	uint32_t v = 0;

	if (!*s)
		return -EINVAL;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return -EINVAL;
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint32_t)(*s - '0'), &v) || v > INT32_MAX)
			return -ERANGE;
	}
	*out = v;
	return 0;
}

struct gt_rank gt_rank_of(const struct gt_proc *p)
{
	struct gt_rank r = {.rank = 0, .source = "default"};
	char value[32];

	for (size_t i = 0; i < GT_ARRAY_SIZE(variables); i++) {
		if (gt_proc_getenv(p, variables[i], value, sizeof(value)))
			continue;
		if (parse_rank(value, &r.rank) == 0) {
			r.source = variables[i];
			break;
		}
	}
	return r;
}
