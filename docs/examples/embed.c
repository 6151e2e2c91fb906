// SPDX-License-Identifier: Apache-2.0
/*
 * embed.c - records who waits for the GIL in a Python process, for some steps of its work.
 *
 *     cc embed.c $(pkg-config --cflags --libs giltrace) -o embed
 *     sudo ./embed PID [STEPS [DIR]]
 *
 * A program that has CPython in it leaves .pids NULL, and records itself. Here, a step is a tenth
 * of a second of the other process's work.
 */
#include <giltrace/giltrace.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void step(void)
{
	const struct timespec tenth = {0, 100000000};

	nanosleep(&tenth, NULL);
}

int main(int argc, char **argv)
{
	struct giltrace_opts opts = GILTRACE_OPTS_INIT;
	struct giltrace_stats stats = GILTRACE_STATS_INIT;
	int steps = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 10, err, i;
	struct giltrace *trace;
	pid_t pid = argc > 1 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
	const char *file;
	char name[32];

	if (pid <= 0) {
		fprintf(stderr, "usage: embed PID [STEPS [DIR]]\n");
		return 2;
	}
	opts.pids = &pid;
	opts.n_pids = 1;
	opts.output_dir = argc > 3 ? argv[3] : NULL;

	/* From here on the work is recorded; without a trace it goes on all the same. */
	err = giltrace_start(&opts, &trace);
	if (err)
		fprintf(stderr, "no GIL trace: %s\n", giltrace_error());

	for (i = 0; i < steps; i++) {
		snprintf(name, sizeof(name), "step %d", i);
		giltrace_mark(trace, name); /* does nothing where there is no recording */
		step();
	}

	if (err)
		return 1;
	err = giltrace_stop(trace, &stats);
	if (err)
		fprintf(stderr, "GIL trace: %s\n", giltrace_error());
	printf("%llu events, %llu lost, %llu marks\n", (unsigned long long)stats.events,
	       (unsigned long long)stats.lost, (unsigned long long)stats.marks);
	for (i = 0; (file = giltrace_file(trace, (size_t)i)); i++)
		printf("%s\n", file);
	giltrace_free(trace);
	return err ? 1 : 0;
}
