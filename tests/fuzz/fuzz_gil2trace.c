// SPDX-License-Identifier: Apache-2.0
/*
 * Any files (filesfix.h) as what gil2trace is given: recordings, in the folder "in", and what a
 * Profiler has left, in "prof". The first byte of the file "way" says which of the ways to run it.
 * Recordings have right checksums, or little in them would ever be looked at. The whole program
 * runs, and what it has written must be JSON, a page and text that a terminal may be shown, and
 * nothing may be left unfinished.
 */
#include <sys/mman.h>

#include "filesfix.h"
#include "gilmend.h"
#include "jsonscan.h"

/* All of it but the start of a program. */
#define main gil2trace_main
int gil2trace_main(int argc, char **argv);
#include "gil2trace.c" /* NOLINT(bugprone-suspicious-include) */
#undef main

#define ARGS_MAX 9

/* All paths are below the folder, which is the current one. */
static char *const ways[][ARGS_MAX] = {
	{"in", "-o", "out/a.json"},
	{"in", "--summary"},
	{"in", "--summary=json"},
	{"in", "--html=out/a.html"},
	{"in", "--profiler=prof", "-o", "out/joint"},
	{"in", "--profiler=prof", "--merge", "-o", "out/joint"},
	{"in", "--profiler=prof", "--merge", "--clip", "--flows", "--lanes=inline", "-o", "out/j/"},
	{"in", "--profiler=prof", "--lanes=inline", "--min-dur=1us", "-o", "out/joint/"},
	{"in", "-o", "out/a.json.gz", "--flows", "--time=relative", "--ids=host"},
	{"in", "--per-rank", "-o", "out"},
	{"in", "--split=1", "-o", "out/a.json", "--from=1ns", "--tid=1,2,3"},
	{"in", "-o", "out/a.json", "--summary", "--html=out/a.html", "--flows", "-v"},
};

/* ---- what it has written ---- */

static void check_json(const char *path)
{
	struct gt_jsonscan *s;
	int fd = open(path, O_RDONLY | O_CLOEXEC), token;

	MUST(fd >= 0 && !gt_jsonscan_open(fd, &s));
	gt_jsonscan_lenient(s); /* what is merged may hold a NaN */
	do
		token = gt_jsonscan_next(s);
	while (token > 0); /* GT_JSON_END is 0 */
	if (token != GT_JSON_END)
		fprintf(stderr, "%s: %d: %s\n", path, token, gt_jsonscan_problem(s));
	MUST(token == GT_JSON_END);
	gt_jsonscan_close(s);
}

static int is_end(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n > m && !strcmp(name + n - m, end);
}

/* Not those of the Profiler's own files that are in a view as they are: links and copies. */
static int check_output(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	const char *name = path + ftw->base;

	if (type != FTW_F)
		return 0;
	MUST(name[0] != '.'); /* an unfinished one */
	if (st->st_nlink == 1 && strncmp(name, "profiler_info", strlen("profiler_info")) != 0 &&
	    (is_end(name, ".json") || is_end(name, ".json.gz")))
		check_json(path);
	return 0;
}

/* What was printed: JSON, or lines without control characters. */
static void check_printed(int fd, int is_json)
{
	struct gt_jsonscan *s;
	uint8_t text[4096];
	ssize_t n;

	MUST(lseek(fd, 0, SEEK_SET) == 0);
	while (!is_json && (n = read(fd, text, sizeof(text))) > 0)
		for (ssize_t i = 0; i < n; i++)
			MUST((text[i] >= ' ' && text[i] != 0x7f) || text[i] == '\n');
	if (!is_json)
		return;
	MUST(!gt_jsonscan_open(dup(fd), &s));
	MUST(!gt_jsonscan_skip(s));
	MUST(gt_jsonscan_next(s) == GT_JSON_END && !gt_jsonscan_bad_utf8(s));
	gt_jsonscan_close(s);
}

/* ---- the run ---- */

static char *const *choose(const uint8_t *data, const struct files_part *parts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (files_is(data, &parts[i], "way") && parts[i].text_len)
			return ways[data[parts[i].text] % GT_ARRAY_SIZE(ways)];
	return ways[0];
}

static void put(const uint8_t *data, size_t size, const struct files_part *parts, size_t n)
{
	uint8_t *copy = malloc(size);

	MUST(copy);
	memcpy(copy, data, size);
	for (size_t i = 0; i < n; i++) {
		if (files_ends_with(data, &parts[i], ".gil"))
			gilmend(copy + parts[i].text, parts[i].text_len);
		files_put(copy, &parts[i]);
	}
	free(copy);
}

static void run_it(char *const *args)
{
	char *argv[ARGS_MAX + 3] = {"gil2trace", "-q"};
	int out = memfd_create("fuzz", MFD_CLOEXEC), before = dup(STDOUT_FILENO), argc = 2, status;
	int is_json = 0;

	MUST(out >= 0 && before >= 0 && dup2(out, STDOUT_FILENO) == STDOUT_FILENO);
	for (int i = 0; i < ARGS_MAX && args[i]; i++) {
		is_json |= !strcmp(args[i], "--summary=json");
		argv[argc++] = args[i];
	}
	status = gil2trace_main(argc, argv);
	fflush(stdout);
	MUST(dup2(before, STDOUT_FILENO) == STDOUT_FILENO);
	close(before);
	MUST(status == EXIT_WHOLE || status == EXIT_FAILED || status == EXIT_LEFT_OUT);
	if (status != EXIT_FAILED || !is_json)
		check_printed(out, is_json);
	close(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct files_part parts[FILES_MAX];
	size_t n = files_split(data, size, parts);

	files_begin();
	if (!size || chdir(files_root))
		return 0;
	put(data, size, parts, n);
	(void)mkdir("in", 0755);
	(void)mkdir("out", 0755);
	run_it(choose(data, parts, n));
	MUST(!nftw("out", check_output, 8, FTW_PHYS));
	files_clear();
	return 0;
}

#ifdef GT_FUZZ
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned int seed);

static size_t mutate_file(uint8_t *data, size_t size, size_t max, unsigned int seed,
			  const char *name)
{
	if (is_end(name, ".gil"))
		return gilmend_mutate(data, size, max, seed);
	return LLVMFuzzerMutate(data, size, max);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned int seed)
{
	size_t mutated = seed % 8 ? files_mutate(data, size, max, seed / 8, mutate_file) : 0;

	return mutated ? mutated : LLVMFuzzerMutate(data, size, max);
}
#endif
