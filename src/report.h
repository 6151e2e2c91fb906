/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - what giltrace prints of a process on standard output: what --dry-run shows, and the
 * line about its file at the end.
 */
#ifndef GT_REPORT_H
#define GT_REPORT_H

#include <stdio.h>

#include "recording.h"

/* The process, each file with the GIL's code, what symbols say of it, each probe site. */
void gt_report_target(const struct gt_recording *r);

/* The file and what is in it, on out; warnings about it go to standard error. Nothing if none was
 * made. */
void gt_report_result(const struct gt_recording *r, const char *dir, FILE *out);

#endif
