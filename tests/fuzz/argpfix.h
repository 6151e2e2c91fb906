/* SPDX-License-Identifier: Apache-2.0 */
/*
 * argpfix.h - argp(3) for fuzz targets: where it would end the program, it ends the parsing. The
 * target is linked with --wrap for what is defined here.
 */
#ifndef GT_FUZZ_ARGPFIX_H
#define GT_FUZZ_ARGPFIX_H

#include <argp.h>
#include <setjmp.h>
#include <stdarg.h>

#include "base.h"
#include "must.h"

#define ARGP_WORDS_MAX 32

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names */
error_t __real_argp_parse(const struct argp *argp, int argc, char **argv, unsigned int flags,
			  int *index, void *input);
error_t __wrap_argp_parse(const struct argp *argp, int argc, char **argv, unsigned int flags,
			  int *index, void *input);
void __wrap_argp_error(const struct argp_state *state, const char *fmt, ...) GT_PRINTF(2, 3);
void __wrap_argp_failure(const struct argp_state *state, int status, int err, const char *fmt, ...);
void __wrap_argp_state_help(const struct argp_state *state, FILE *out, unsigned int flags);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static jmp_buf argp_refused;
static int argp_good; /* the latest command line was parsed to its end */

/* glibc has its parser's memory right behind the state, since 1997 (argp-parse.c, struct parser).
 */
static void __attribute__((noreturn)) argp_give_up(const struct argp_state *state)
{
	free(*(void *const *)(state + 1));
	longjmp(argp_refused, 1);
}

error_t __wrap_argp_parse(const struct argp *argp, int argc, char **argv, unsigned int flags,
			  int *index, void *input)
{
	argp_good = 0;
	if (setjmp(argp_refused))
		return EINVAL;
	argp_good = !__real_argp_parse(argp, argc, argv, flags | ARGP_SILENT, index, input);
	return 0;
}

/* The words are made, as for a person. */
void __wrap_argp_error(const struct argp_state *state, const char *fmt, ...)
{
	char text[4096];
	va_list ap;

	va_start(ap, fmt);
	MUST(vsnprintf(text, sizeof(text), fmt, ap) > 0);
	va_end(ap);
	argp_give_up(state);
}

void __wrap_argp_failure(const struct argp_state *state, int status, int err, const char *fmt, ...)
{
	(void)status;
	(void)err;
	(void)fmt;
	argp_give_up(state);
}

void __wrap_argp_state_help(const struct argp_state *state, FILE *out, unsigned int flags)
{
	(void)out;
	(void)flags;
	argp_give_up(state);
}

/* The words of an input, each ended by a newline, behind the program's name; to be freed: [0]. */
static inline int argp_words(const uint8_t *data, size_t size, char *argv[ARGP_WORDS_MAX + 2])
{
	static char name[] = "fuzz";
	char *text = malloc(size + 1), *s = text;
	int n = 1;

	MUST(text);
	memcpy(text, data, size);
	text[size] = '\0';
	argv[0] = name;
	while (n <= ARGP_WORDS_MAX && s) {
		argv[n++] = strsep(&s, "\n");
	}
	argv[n] = NULL;
	return n;
}

#endif
