// SPDX-License-Identifier: Apache-2.0
/* Any words, one a line, as gil2trace's command line: what is taken fits together. */
#include "argpfix.h"
#include "giltrace/gilfile.h"
#include "options.h"

static void check_ids(const uint32_t *ids, size_t n)
{
	MUST(!n || ids);
	for (size_t i = 0; i < n; i++)
		(void)!ids[i];
}

static void check(const struct gt_options *o, int words)
{
	MUST(o->ninputs && o->ninputs <= (size_t)words && o->nprofilers <= (size_t)words);
	for (size_t i = 0; i < o->ninputs; i++)
		MUST(*o->inputs[i]);
	MUST(!o->from.given || o->from.ns < GIL_TIME_MAX);
	MUST(!o->to.given || (o->to.ns && o->to.ns < GIL_TIME_MAX));
	MUST(o->trace || o->summary || o->html || o->nprofilers);
	MUST(!o->trace || !o->nprofilers);
	check_ids(o->pids, o->filter.npids);
	check_ids(o->tids, o->filter.ntids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *argv[ARGP_WORDS_MAX + 2], *text;
	struct gt_options o;
	int argc = argp_words(data, size, argv);

	text = argv[1];
	MUST(!gt_options_parse(&o, argc, argv));
	if (argp_good)
		check(&o, argc);
	gt_options_free(&o);
	free(text);
	return 0;
}
