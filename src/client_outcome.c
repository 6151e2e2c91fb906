// SPDX-License-Identifier: Apache-2.0
#include "client_outcome.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "client_error.h"

/* Exit statuses of giltrace: what they mean, and for giltrace_start() and giltrace_stop(). */
static const struct meaning {
	const char *words;
	int start, stop;
} meanings[] = {
	{"it ended before it had begun to record", -ECHILD, 0},
	{"it failed and does not say why", -ECHILD, -EREMOTEIO},
	{"it does not understand its options", -EINVAL, -EREMOTEIO},
	{"there is no such process, or none to record", -ESRCH, -EREMOTEIO},
	{"a process is no CPython that can be traced", -ENOTSUP, -EREMOTEIO},
	{"privileges or a kernel feature are missing", -EACCES, -EREMOTEIO},
	{"events were lost", -ECHILD, 0},
	{"a file could not be written", -EIO, -EIO},
	{"what was recorded does not add up, or nothing was seen although threads ran", -ECHILD,
	 -EREMOTEIO},
};

static const struct meaning *meaning_of(int status)
{
	size_t known = status >= 0 && (size_t)status < GT_ARRAY_SIZE(meanings) ? (size_t)status : 1;

	return &meanings[known];
}

void gt_outcome_waited(struct gt_outcome *o, int wait_status)
{
	if (o->told || wait_status == -1)
		return;
	if (WIFEXITED(wait_status))
		o->status = WEXITSTATUS(wait_status);
	else if (WIFSIGNALED(wait_status))
		o->signal = WTERMSIG(wait_status);
}

/* ", status 5", ", killed by signal 9 (Killed)" or "" */
static void how(const struct gt_outcome *o, char *text, size_t size)
{
	text[0] = '\0';
	if (o->signal)
		snprintf(text, size, ", killed by signal %d", o->signal);
	else if (o->status >= 0)
		snprintf(text, size, ", status %d", o->status);
}

/* What was started never spoke as giltrace does: sudo refused, or it is another program. */
static int stranger(const struct gt_outcome *o, const struct gt_args *args, const char *text)
{
	char ending[64];

	how(o, ending, sizeof(ending));
	if (args->front)
		return gt_fail(-EACCES, "%s did not start %s%s%s%s", args->argv[0],
			       gt_args_program(args), ending, *text ? ": " : "", text);
	return gt_fail(-EINVAL, "%s is no giltrace: it ended%s%s%s", gt_args_program(args), ending,
		       *text ? ", and said: " : "", text);
}

int gt_outcome_of_start(const struct gt_outcome *o, const struct gt_said *said,
			const struct gt_args *args)
{
	const char *program = gt_args_program(args);
	char text[GT_FAIL_MAX / 2];

	gt_said_failure(said, 0, text, sizeof(text));
	if (o->timed_out)
		return gt_fail(-ETIMEDOUT, "%s was not ready within %u.%03u s and was ended%s%s",
			       program, o->timeout_ms / 1000, o->timeout_ms % 1000,
			       *text ? ": " : "", text);
	if (!o->talked && !gt_said_by_giltrace(said) && !o->signal)
		return stranger(o, args, text);
	if (o->signal)
		return gt_fail(-ECHILD, "%s was killed by signal %d%s%s", program, o->signal,
			       *text ? ": " : "", text);
	if (strstr(text, "option '--control-fd"))
		return gt_fail(-EINVAL,
			       "%s is too old for this library: it does not know "
			       "--control-fd",
			       program);
	return gt_fail(meaning_of(o->status)->start, "%s",
		       *text ? text : meaning_of(o->status)->words);
}

int gt_outcome_of_stop(const struct gt_outcome *o, const struct gt_said *said,
		       const struct gt_args *args)
{
	static const char good[] = "what was recorded until then is in the files";
	const char *program = gt_args_program(args);
	char text[GT_FAIL_MAX / 2];
	int err = meaning_of(o->status)->stop;

	gt_said_failure(said, said->begun, text, sizeof(text));
	if (o->timed_out)
		return gt_fail(-ETIMEDOUT, "%s did not answer for %u.%03u s and was ended: %s",
			       program, o->timeout_ms / 1000, o->timeout_ms % 1000, good);
	if (o->signal)
		return gt_fail(-EIO, "%s was killed by signal %d: %s", program, o->signal, good);
	if (o->status < 0)
		return gt_fail(-EIO, "%s ended without a word: %s", program, good);
	if (!err)
		return 0;
	return gt_fail(err, "%s", *text ? text : meaning_of(o->status)->words);
}
