/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmdline.h - giltrace's options, checked, and its help. No state.
 */
#ifndef GT_CMDLINE_H
#define GT_CMDLINE_H

#include "log.h"
#include "session.h"

#define GT_CMDLINE_PIDS 4096

struct gt_cmdline {
	struct gt_session_opts session; /* what the options say of it */
	pid_t pids[GT_CMDLINE_PIDS];
	struct gt_features features; /* of the kernel, and which are left out */
	uint8_t dry_run, list, json, no_summary, show_features;
	enum gt_log_level log;
	int control_fd;          /* of who owns the recording; -1: nobody does */
	uint8_t listens;         /* for others, at: */
	const char *listen_path; /* NULL: where they look for it */
	const char *tell;        /* ask a running giltrace, and what: */
	char *const *words;
};

/* Wrong usage ends the program (GT_USAGE), and so does --help. *out must not be moved then. */
void gt_cmdline_parse(int argc, char **argv, struct gt_cmdline *out);

#endif
