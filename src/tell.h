/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tell.h - giltrace --tell: one request to a giltrace that is recording, and its answer. No state.
 */
#ifndef GT_TELL_H
#define GT_TELL_H

/*
 * Do these words (ending with NULL; NULL: none) make a request? NULL: they do; else what would. The
 * name of a mark may be several words.
 */
const char *gt_tell_check(char *const *words);

/*
 * whom: its pid, or the path of its socket. Prints the answer; after `stop`, returns when it has
 * ended. 0; 1 where it refuses, or there is none, logged.
 */
int gt_tell(const char *whom, char *const *words);

#endif
