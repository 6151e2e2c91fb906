/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - messages for the person at the terminal, on standard error, one line each.
 * An error is logged once, where it arises, naming what failed, on what, why and what to do.
 * Control characters in what is printed (names from a target, paths) are shown as '?'. Any thread
 * may log.
 */
#ifndef GT_LOG_H
#define GT_LOG_H

#include "base.h"

enum gt_log_level { GT_LOG_ERROR, GT_LOG_WARN, GT_LOG_INFO, GT_LOG_DEBUG, GT_LOG_TRACE };

/* Which levels are shown; GT_LOG_INFO at the start. `program` (a literal) stands before each line.
 */
void gt_log_setup(const char *program, enum gt_log_level max);
enum gt_log_level gt_log_max(void);

void gt_log(enum gt_log_level level, const char *fmt, ...) GT_PRINTF(2, 3);

/*
 * From here on, what this thread logs is kept back, until it is told whether it matters: of a
 * process that nobody has named and that ends while it is looked at, it does not. Cut after 4 KiB.
 */
void gt_log_hold(void);
void gt_log_release(int print);

/*
 * Opens /dev/null where a standard descriptor is closed: a file of ours would get its number, and
 * with it what is printed. To be called before anything is opened. -errno.
 */
int gt_fill_standard_fds(void);

/*
 * Shows a line that the next one replaces, if standard error is a terminal and messages of
 * GT_LOG_INFO are shown; an empty text clears it. Any message clears it first.
 */
void gt_status(const char *fmt, ...) GT_PRINTF(1, 2);

/* Makes text from outside (names, paths) harmless: it must not be able to drive the terminal. */
void gt_defuse(char *text);

#define gt_error(...) gt_log(GT_LOG_ERROR, __VA_ARGS__)
#define gt_warn(...)  gt_log(GT_LOG_WARN, __VA_ARGS__)
#define gt_info(...)  gt_log(GT_LOG_INFO, __VA_ARGS__)
#define gt_debug(...) gt_log(GT_LOG_DEBUG, __VA_ARGS__)

#endif
