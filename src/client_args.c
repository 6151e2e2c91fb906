// SPDX-License-Identifier: Apache-2.0
#include "client_args.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "client_error.h"

#define ALL_FLAGS                                                                                  \
	((uint32_t)(GILTRACE_ALL_NPU | GILTRACE_ALL_PYTHON | GILTRACE_FOLLOW | GILTRACE_PAUSED))
#define OPTS_SIZE_MAX 4096 /* no version will have more */

/* ---- options ---- */

static int check(const struct giltrace_opts *o)
{
	if (o->flags & ~ALL_FLAGS)
		return gt_fail(-EINVAL, "unknown flags 0x%x in giltrace_opts.flags",
			       o->flags & ~ALL_FLAGS);
	if (!o->pids != !o->n_pids)
		return gt_fail(-EINVAL, "%s",
			       o->pids ? "no process in giltrace_opts.pids"
				       : "giltrace_opts.pids is NULL, n_pids is not "
					 "0");
	for (size_t i = 0; i < o->n_pids; i++)
		if (o->pids[i] <= 0)
			return gt_fail(-EINVAL, "%ld is no process id", (long)o->pids[i]);
	return 0;
}

int gt_opts_read(struct giltrace_opts *to, const struct giltrace_opts *from)
{
	size_t size = from ? from->size : 0;
	const char *bytes = (const char *)from;

	memset(to, 0, sizeof(*to));
	if (!from)
		return 0;
	if (size < sizeof(from->size) || size > OPTS_SIZE_MAX)
		return gt_fail(-EINVAL, "giltrace_opts.size is %zu: use GILTRACE_OPTS_INIT", size);
	for (size_t i = sizeof(*to); i < size; i++)
		if (bytes[i])
			return gt_fail(-EINVAL, "this libgiltrace is older than the program, and "
						"does not know all of its options");
	memcpy(to, from, size < sizeof(*to) ? size : sizeof(*to));
	return check(to);
}

/* ---- command line ---- */

static int push(struct gt_args *a, char *word)
{
	if (!word)
		return -ENOMEM;
	if (a->n + 1 >= a->room) {
		size_t room = a->room ? a->room * 2 : 16;
		char **argv = reallocarray(a->argv, room, sizeof(*argv));

		if (!argv) {
			free(word);
			return -ENOMEM;
		}
		a->argv = argv;
		a->room = room;
	}
	a->argv[a->n++] = word;
	a->argv[a->n] = NULL;
	return 0;
}

GT_PRINTF(2, 3) static int add(struct gt_args *a, const char *fmt, ...)
{
	char *word;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&word, fmt, ap);
	va_end(ap);
	return push(a, n < 0 ? NULL : word);
}

/* An option, else the variable; a program with more rights than its user believes no variable. */
static const char *option(const char *given, const char *variable)
{
	const char *set = given ? given : secure_getenv(variable);

	return set && *set ? set : NULL;
}

/*
 * A program with more rights than its user has these from somebody who trusts it, not its user: who
 * sets $PATH and the current folder must not choose what runs with them.
 */
static int check_command(const struct gt_args *a)
{
	if (!getauxval(AT_SECURE) || a->argv[0][0] == '/')
		return 0;
	return gt_fail(-EACCES,
		       "this program has more rights than its user, so %s is not looked for: "
		       "giltrace_opts.command must name an absolute path",
		       a->argv[0]);
}

/* The path of a file is one word, whatever is in it. */
static int add_command(struct gt_args *a, const char *given)
{
	static const char blanks[] = " \t\n";
	const char *command = option(given, "GILTRACE_COMMAND");
	struct stat st;
	int err = 0;

	if (!command)
		command = "giltrace";
	if (strchr(command, '/') && !stat(command, &st))
		return add(a, "%s", command);
	for (command += strspn(command, blanks); *command && !err;) {
		size_t len = strcspn(command, blanks);

		err = push(a, strndup(command, len));
		command += len;
		command += strspn(command, blanks);
	}
	a->front = a->n ? a->n - 1 : 0;
	if (!err && !a->n)
		return gt_fail(-EINVAL, "the command for giltrace is blank");
	return err;
}

/*
 * Absolute, so that the names of files are, and mean the same wherever this program goes. $PWD need
 * not be right.
 */
static int add_output_dir(struct gt_args *a, const char *given)
{
	const char *dir = option(given, "GILTRACE_DATA_DIR");
	gt_autofree char *here = NULL;

	if (dir && *dir == '/')
		return add(a, "--output-dir=%s", dir);
	here = getcwd(NULL, 0);
	if (!here)
		return add(a, "--output-dir=%s", dir ? dir : ".");
	return add(a, "--output-dir=%s%s%s", here, dir ? "/" : "", dir ? dir : "");
}

static int add_which(struct gt_args *a, const struct giltrace_opts *o)
{
	int err = 0;

	for (size_t i = 0; i < o->n_pids; i++)
		err = err ? err : add(a, "--pid=%ld", (long)o->pids[i]);
	if (!o->n_pids && !(o->flags & (GILTRACE_ALL_NPU | GILTRACE_ALL_PYTHON)))
		err = err ? err : add(a, "--pid=%ld", (long)getpid());
	if (o->flags & GILTRACE_ALL_NPU)
		err = err ? err : add(a, "--all-npu");
	if (o->flags & GILTRACE_ALL_PYTHON)
		err = err ? err : add(a, "--all-python");
	if (o->flags & GILTRACE_FOLLOW)
		err = err ? err : add(a, "--follow");
	return err;
}

static int add_how(struct gt_args *a, const struct giltrace_opts *o)
{
	uint64_t s = o->duration_ns / 1000000000, ns = o->duration_ns % 1000000000;
	int err = 0;

	if (o->duration_ns)
		err = add(a, "--duration=%llu.%09llu", (unsigned long long)s,
			  (unsigned long long)ns);
	if (o->flags & GILTRACE_PAUSED)
		err = err ? err : add(a, "--paused");
	for (const char *const *arg = o->args; arg && *arg; arg++)
		err = err ? err : add(a, "%s", *arg);
	return err;
}

int gt_args_make(struct gt_args *a, const struct giltrace_opts *opts)
{
	int err;

	*a = (struct gt_args){0};
	err = add_command(a, opts->command);
	err = err ? err : check_command(a);
	err = err ? err : add(a, "--control-fd=0");
	err = err ? err : add(a, "--no-summary"); /* nobody would read it */
	err = err ? err : add_output_dir(a, opts->output_dir);
	err = err ? err : add_which(a, opts);
	err = err ? err : add_how(a, opts);
	if (err == -ENOMEM)
		(void)gt_fail(err, "no memory for the command line of giltrace");
	if (err)
		gt_args_free(a);
	return err;
}

void gt_args_free(struct gt_args *a)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->argv[i]);
	free(a->argv);
	*a = (struct gt_args){0};
}
