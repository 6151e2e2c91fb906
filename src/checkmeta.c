// SPDX-License-Identifier: Apache-2.0
#include "checkmeta.h"

#include <inttypes.h>
#include <stdio.h>

static void write_gils(const struct gt_selfcheck *check, struct gt_gilfile *f)
{
	char key[32], text[512];
	const char *const one[][2] = {{key, text}};

	for (unsigned int i = 0; i < GT_SELFCHECK_GILS; i++) {
		const struct gt_selfcheck_gil *g = gt_selfcheck_gil(check, i);

		if (!g->acquires && !g->releases && !gt_selfcheck_misses(g))
			continue;
		snprintf(key, sizeof(key), "check.gil.%u", i);
		gt_selfcheck_text(g, text, sizeof(text));
		(void)gt_gilfile_meta(f, one, 1);
	}
}

int gt_checkmeta_write(const struct gt_selfcheck *check, struct gt_gilfile *f)
{
	const struct gt_selfcheck_gil sum = gt_selfcheck_sum(check);
	const uint64_t misses = gt_selfcheck_misses(&sum);
	const uint64_t value[] = {sum.acquires, sum.releases, misses, sum.excused,
				  gt_selfcheck_unchecked(check)};
	char number[GT_ARRAY_SIZE(value)][24], text[512];

	for (size_t i = 0; i < GT_ARRAY_SIZE(value); i++)
		snprintf(number[i], sizeof(number[i]), "%" PRIu64, value[i]);
	gt_selfcheck_text(&sum, text, sizeof(text));

	const char *const all[][2] = {
		{"check.result", misses                         ? "sites missing"
				 : sum.acquires || sum.releases ? "consistent"
								: "not checked"},
		{"check.acquires", number[0]},
		{"check.releases", number[1]},
		{"check.mismatches", number[2]},
		{"check.excused", number[3]},
		{"check.unchecked", number[4]},
		{"check.text", misses ? text : NULL},
	};

	(void)gt_gilfile_meta(f, all, GT_ARRAY_SIZE(all));
	write_gils(check, f);
	return gt_gilfile_error(f);
}
