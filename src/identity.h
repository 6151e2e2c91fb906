/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity.h - with whose rights a command is started, and with which environment: under sudo(8)
 * those of the user who ran it. Errors are -errno, logged, save -ENOMEM. Used by one thread
 * (getpwnam(3)).
 */
#ifndef GT_IDENTITY_H
#define GT_IDENTITY_H

#include "base.h"
#include <sys/types.h>

struct gt_identity {
	uid_t uid;
	gid_t gid;
	int changes; /* it is not who we are */
	gid_t *groups;
	int n_groups;
	char *name, *home, *shell; /* NULL: the password database does not know it */
	/*
	 * Ours without SUDO_*, with HOME, SHELL, USER and LOGNAME of another user; its other
	 * strings are those of `environ`, which must not change meanwhile.
	 */
	char **environment;
	char *own_variables[4];
};

/*
 * `user`: a name or number in the password database; NULL: the user who ran sudo, if we are root
 * and SUDO_UID says so, else ourselves. -ESRCH: there is none such; -EPERM: we are not root, and it
 * is somebody else. gt_identity_drop() in any case.
 */
int gt_identity_find(const char *user, struct gt_identity *out);
void gt_identity_drop(struct gt_identity *id);

/*
 * Takes it on: in a process with a single thread, which is about to execute something. System calls
 * only. 0, or -1 with errno.
 */
int gt_identity_become(const struct gt_identity *id);

#endif
