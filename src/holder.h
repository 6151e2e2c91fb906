/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holder.h - the process that holds a command at the entry point of each program it executes; see
 * command.h, whose other half it is.
 */
#ifndef GT_HOLDER_H
#define GT_HOLDER_H

#include "base.h"

enum gt_holder_kind {
	GT_HOLDER_STARTED, /* the first: `value` is the command's pid, or -errno */
	GT_HOLDER_AT_ENTRY,
	GT_HOLDER_UNHELD, /* `why` says why; `value`: 1 if nothing will be held any more */
};

/* What the holder tells, each in a message of its own. */
struct gt_holder_word {
	int32_t kind, value;
	char why[120];
};

/*
 * To be called in a process just forked, with all signals blocked. Starts a sibling of it, a child
 * of its parent, which calls `command` once it is traced; that executes a program or ends.
 *
 * `sock`: a socket (SOCK_SEQPACKET, close-on-exec) over which words are told, and orders taken: an
 * int32_t, 0 to let a held command run on, anything else to let it go for good. The end of the
 * socket says that as well. Descriptors that `command` does not need are closed in the holder.
 */
_Noreturn void gt_holder_run(int sock, void (*command)(void *ctx), void *ctx);

#endif
