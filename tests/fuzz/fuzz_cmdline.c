// SPDX-License-Identifier: Apache-2.0
/*
 * Any words, one a line, as giltrace's command line, which a rule of sudo may let somebody else
 * choose: what is taken lies within its limits, and fits together.
 */
#include "argpfix.h"
#include "cmdline.h"

static void check(const struct gt_cmdline *o)
{
	const struct gt_session_opts *s = &o->session;

	MUST(s->find.n_pids <= GT_CMDLINE_PIDS && s->find.pids == o->pids);
	for (size_t i = 0; i < s->find.n_pids; i++)
		MUST(o->pids[i] > 0);
	MUST(s->duration_ns <= UINT64_C(1000000001000000000));
	MUST(s->output_dir && *s->output_dir && s->ring_memory);
	MUST(!(s->ring_bytes & (s->ring_bytes - 1)) && s->ring_bytes <= 1u << 30);
	MUST(!o->tell || !o->words || *o->words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct gt_cmdline o;
	char *argv[ARGP_WORDS_MAX + 2], *text;
	int argc = argp_words(data, size, argv);

	text = argv[1];
	gt_cmdline_parse(argc, argv, &o);
	if (argp_good)
		check(&o);
	free(text);
	return 0;
}
