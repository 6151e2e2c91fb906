// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

/* What launchers set, the most specific first: torchrun, Ascend's, Open MPI, PMIx, Slurm, ... */
static const char *const global_names[] = {
	"RANK",     "RANK_ID",      "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
	"PMI_RANK", "SLURM_PROCID", "MS_NODE_ID", /* MindSpore's; may also be a name, which is no
						     plain number */
};

static const char *const local_names[] = {
	"LOCAL_RANK",
	"OMPI_COMM_WORLD_LOCAL_RANK",
	"DEVICE_ID",
	"ASCEND_DEVICE_ID",
};

#define N_GLOBAL GT_ARRAY_SIZE(global_names)
#define N_LOCAL  GT_ARRAY_SIZE(local_names)
#define VALUE    32

#define DIGITS "0123456789"

/* `len` digits, nothing else; strtoul() would take signs, blanks and numbers that wrap. */
static int parse_rank(const char *s, size_t len, uint32_t *out)
{
	uint32_t v = 0;

	if (!len || strspn(s, DIGITS) < len)
		return -EINVAL;
	for (size_t i = 0; i < len; i++)
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint32_t)(s[i] - '0'), &v) || v > INT32_MAX)
			return -ERANGE;
	*out = v;
	return 0;
}

/* The first of the variables that holds a plain number: its name, or NULL. */
static const char *first_number(const struct gt_proc_var *vars, size_t n, uint32_t *out)
{
	for (size_t i = 0; i < n; i++)
		if (!vars[i].err && !parse_rank(vars[i].buf, strlen(vars[i].buf), out))
			return vars[i].name;
	return NULL;
}

static void from_environment(const struct gt_proc *p, struct gt_rank *r)
{
	struct gt_proc_var vars[N_GLOBAL + N_LOCAL];
	char values[N_GLOBAL + N_LOCAL][VALUE];
	const char *name;
	uint32_t v;

	for (size_t i = 0; i < GT_ARRAY_SIZE(vars); i++) {
		vars[i].name = i < N_GLOBAL ? global_names[i] : local_names[i - N_GLOBAL];
		vars[i].buf = values[i];
		vars[i].size = sizeof(values[i]);
	}
	if (gt_proc_getenvs(p, vars, GT_ARRAY_SIZE(vars)))
		return;
	name = first_number(vars, N_GLOBAL, &v);
	if (name) {
		r->rank = v;
		r->source = name;
	}
	name = first_number(vars + N_GLOBAL, N_LOCAL, &v);
	if (name) {
		r->local = (int32_t)v;
		r->local_source = name;
	}
}

static int is_word(const char *s, size_t len, const char *word)
{
	return len == strlen(word) && !memcmp(s, word, len);
}

/*
 * "_DP0_PP0_TP3_EP11" after the name of the role. A dimension of size 1 is left out. Those that
 * divide the ranks of TP anew (expert parallelism, SGLang's attention) do not change the rank.
 */
static int parse_place(const char *s, uint32_t *out)
{
	static const char *const within_tp[] = {"EP", "DCP", "ATTN_CP", "MOE_DP"};
	int told = 0;

	while (*s == '_') {
		const char *name = s + strspn(s, "_");
		size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
		size_t digits = strspn(name + len, DIGITS);
		int within = 0;
		uint32_t v;

		if (!len || parse_rank(name + len, digits, &v))
			return -EINVAL;
		s = name + len + digits;
		if (is_word(name, len, "TP")) {
			*out = v;
			told = 1;
			continue;
		}
		for (size_t i = 0; i < GT_ARRAY_SIZE(within_tp); i++)
			within |= is_word(name, len, within_tp[i]);
		if (v && !within)
			return -ENODATA;
	}
	return told && (!*s || *s == ' ') ? 0 : -EINVAL;
}

static int is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* setproctitle() may put something before the name, as vLLM's "VLLM::" is. */
static int parse_title(const char *title, uint32_t *out)
{
	static const char *const roles[] = {"Worker", "scheduler"};

	for (size_t i = 0; i < GT_ARRAY_SIZE(roles); i++) {
		const char *s = title;

		while ((s = strstr(s, roles[i]))) {
			int inside = s > title && (is_alnum(s[-1]) || s[-1] == '_');

			s += strlen(roles[i]);
			if (!inside && !parse_place(s, out))
				return 0;
		}
	}
	return -ENOENT;
}

struct gt_rank gt_rank_of(const struct gt_proc *p, const char *title, const struct gt_npus *npus)
{
	struct gt_rank r = {.rank = 0, .local = -1};
	uint32_t v;

	from_environment(p, &r);
	if (r.source)
		return r;
	r.source = "default";
	if (title && !parse_title(title, &v)) {
		r.rank = v;
		r.source = "title";
	} else if (npus && npus->n == 1 && !npus->npu[0].is_virtual) {
		r.rank = npus->npu[0].device;
		r.source = "npu";
	}
	return r;
}
