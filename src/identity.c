// SPDX-License-Identifier: Apache-2.0
#include "identity.h"
#include "log.h"

#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define GROUPS_MAX 65536 /* NGROUPS_MAX of the kernel */

/* ---- whose rights ---- */

/* A plain number that is a user's or group's id; (uint32_t)-1 is none. */
static int parse_id(const char *text, uint32_t *out)
{
	unsigned long n;
	char *end;

	if (!text || *text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || *end || n >= UINT32_MAX)
		return -EINVAL;
	*out = (uint32_t)n;
	return 0;
}

/* The groups of a user by name, as initgroups(3) would set them; without a name, only `gid`. */
static int find_groups(struct gt_identity *id)
{
	int n = 32;

	for (;;) {
		gid_t *groups = reallocarray(id->groups, (size_t)n, sizeof(gid_t));

		if (!groups)
			return -ENOMEM;
		id->groups = groups;
		groups[0] = id->gid;
		id->n_groups = id->name ? n : 1;
		if (!id->name || getgrouplist(id->name, id->gid, groups, &id->n_groups) >= 0)
			return 0;
		n = id->n_groups > n ? id->n_groups : 2 * n;
		if (n > GROUPS_MAX)
			return -E2BIG;
	}
}

/* Another user; `pw`: its entry in the password database, NULL if there is none. */
static int change_to(struct gt_identity *id, uid_t uid, gid_t gid, const struct passwd *pw)
{
	int err;

	id->uid = uid;
	id->gid = gid;
	id->changes = 1;
	if (pw) {
		id->name = strdup(pw->pw_name);
		id->home = strdup(pw->pw_dir);
		id->shell = strdup(pw->pw_shell && *pw->pw_shell ? pw->pw_shell : "/bin/sh");
		if (!id->name || !id->home || !id->shell)
			return -ENOMEM;
	}
	err = find_groups(id);
	if (err && err != -ENOMEM)
		gt_error("cannot find the groups of user %u: %s", uid, strerror(-err));
	return err;
}

static int by_name(const char *user, struct gt_identity *id)
{
	const struct passwd *pw = getpwnam(user);
	uint32_t uid;

	if (!pw && !parse_id(user, &uid))
		pw = getpwuid(uid);
	if (!pw) {
		gt_error("the password database knows no user '%s'", user);
		return -ESRCH;
	}
	if (pw->pw_uid == id->uid)
		return 0;
	/* The real one counts: were we set-user-ID root, its caller would be no root. */
	if (id->uid) {
		gt_error("only root can start a command as another user ('%s')", user);
		return -EPERM;
	}
	return change_to(id, pw->pw_uid, pw->pw_gid, pw);
}

static int by_sudo(const char *sudo_uid, struct gt_identity *id)
{
	const struct passwd *pw;
	uint32_t uid, gid;

	if (parse_id(sudo_uid, &uid)) {
		gt_error("SUDO_UID is no user id; name the user of the command by --user");
		return -ESRCH;
	}
	if (uid == id->uid)
		return 0;
	pw = getpwuid(uid);
	if (!parse_id(getenv("SUDO_GID"), &gid))
		return change_to(id, uid, gid, pw);
	if (pw)
		return change_to(id, uid, pw->pw_gid, pw);
	gt_error("no group is known for user %u, who ran sudo; name a user by --user", uid);
	return -ESRCH;
}

/* ---- its environment ---- */

static int is_variable(const char *entry, const char *name)
{
	size_t len = strlen(name);

	return !strncmp(entry, name, len) && entry[len] == '=';
}

static int make_environment(struct gt_identity *id)
{
	static const char *const sudo[] = {"SUDO_COMMAND", "SUDO_USER", "SUDO_UID", "SUDO_GID",
					   "SUDO_HOME"};
	const char *const who[][2] = {{"HOME", id->home ? id->home : "/"},
				      {"SHELL", id->shell},
				      {"USER", id->name},
				      {"LOGNAME", id->name}};
	size_t n = 0, kept = 0;

	while (environ && environ[n])
		n++;
	id->environment = calloc(n + GT_ARRAY_SIZE(who) + 1, sizeof(*id->environment));
	if (!id->environment)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		int drop = 0;

		for (size_t k = 0; k < GT_ARRAY_SIZE(sudo); k++)
			drop |= is_variable(environ[i], sudo[k]);
		for (size_t k = 0; id->changes && k < GT_ARRAY_SIZE(who); k++)
			drop |= is_variable(environ[i], who[k][0]);
		if (!drop)
			id->environment[kept++] = environ[i];
	}
	for (size_t k = 0; id->changes && k < GT_ARRAY_SIZE(who); k++) {
		if (!who[k][1])
			continue;
		if (asprintf(&id->own_variables[k], "%s=%s", who[k][0], who[k][1]) < 0) {
			id->own_variables[k] = NULL;
			return -ENOMEM;
		}
		id->environment[kept++] = id->own_variables[k];
	}
	return 0;
}

int gt_identity_find(const char *user, struct gt_identity *out)
{
	const char *sudo_uid = getenv("SUDO_UID");
	int err = 0;

	*out = (struct gt_identity){.uid = getuid(), .gid = getgid()};
	if (user)
		err = by_name(user, out);
	else if (sudo_uid && !out->uid)
		err = by_sudo(sudo_uid, out);
	return err ? err : make_environment(out);
}

void gt_identity_drop(struct gt_identity *id)
{
	free(id->groups);
	free(id->name);
	free(id->home);
	free(id->shell);
	free(id->environment);
	for (size_t i = 0; i < GT_ARRAY_SIZE(id->own_variables); i++)
		free(id->own_variables[i]);
}

/*
 * glibc's own functions would also tell the other threads, and take
 * those of the process that it was forked from to be there.
 */
int gt_identity_become(const struct gt_identity *id)
{
	uid_t uid = id->uid, r, e, s;
	gid_t gid = id->gid, rg, eg, sg;

	if (id->changes && syscall(SYS_setgroups, id->n_groups, id->groups))
		return -1;
	if (syscall(SYS_setresgid, gid, gid, gid) || syscall(SYS_setresuid, uid, uid, uid))
		return -1;
	/* Of what may be left (PR_SET_KEEPCAPS), execve(2) passes these on only. */
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
		return -1;
	if (getresuid(&r, &e, &s) || getresgid(&rg, &eg, &sg))
		return -1;
	errno = EPERM;
	return r == uid && e == uid && s == uid && rg == gid && eg == gid && sg == gid ? 0 : -1;
}
