/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inherited.h - a descriptor of the program that has started us, and those that it did not mean to
 * give us. For main(), before anything else is opened.
 */
#ifndef GT_INHERITED_H
#define GT_INHERITED_H

/* Is it a connected socket (AF_UNIX, SOCK_SEQPACKET)? NULL: it is; else what is wrong. */
const char *gt_inherited_check(int fd);

/*
 * What the program at the other end may have made for itself, and is not for one that it starts:
 * signals that are blocked or ignored. Ctrl-C, which is for its process group, is not for us.
 */
void gt_inherited_reset(int fd);

/*
 * Takes such a socket and closes every other descriptor but 0, 1 and 2. A command that we start
 * does not get it; where it was one of these three, /dev/null takes its place. Returns its
 * descriptor, 3 or greater, or -errno.
 */
int gt_inherited_take(int fd);

#endif
