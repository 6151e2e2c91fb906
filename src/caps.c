// SPDX-License-Identifier: Apache-2.0
#include "caps.h"

#include <linux/capability.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Linux 5.8 and 5.9; Debian 11's headers have them, those of older systems do not. */
#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40
#endif

#define CAP(name) (UINT64_C(1) << CAP_##name)

/* docs/rights.md says how it was found out what each is for. */
static const struct {
	unsigned int what;
	uint64_t cap, instead; /* what has it in it, and is kept where it is not there itself */
} table[] = {
	{GT_CAPS_LOOK, CAP(SYS_PTRACE), 0},
	{GT_CAPS_LOOK, CAP(DAC_READ_SEARCH), CAP(DAC_OVERRIDE)},
	/* Up to 5.18, where unprivileged_bpf_disabled is on, also for maps that are open. */
	{GT_CAPS_MAPS, CAP(BPF), CAP(SYS_ADMIN)},
	{GT_CAPS_JAIL, CAP(SETUID), 0},
	{GT_CAPS_JAIL, CAP(SETGID), 0},
	{GT_CAPS_ATTACH, CAP(PERFMON), CAP(SYS_ADMIN)},
	{GT_CAPS_ATTACH, CAP(CHECKPOINT_RESTORE), CAP(SYS_ADMIN)},
	{GT_CAPS_PERF, CAP(SYS_ADMIN), 0},
	/* The folder may be somebody else's, and the files are whose who ran sudo. */
	{GT_CAPS_FILES, CAP(DAC_OVERRIDE), 0},
	{GT_CAPS_FILES, CAP(CHOWN), 0},
	{GT_CAPS_SIGNAL, CAP(KILL), 0},
	{GT_CAPS_START, CAP(SETUID), 0},
	{GT_CAPS_START, CAP(SETGID), 0},
};

struct sets {
	uint64_t effective, permitted, inheritable;
};

static int get(struct sets *out)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3] = {0};

	if (syscall(SYS_capget, &head, d))
		return -errno;
	*out = (struct sets){
		.effective = d[0].effective | (uint64_t)d[1].effective << 32,
		.permitted = d[0].permitted | (uint64_t)d[1].permitted << 32,
		.inheritable = d[0].inheritable | (uint64_t)d[1].inheritable << 32,
	};
	return 0;
}

static int set(const struct sets *s)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3] = {
		{(uint32_t)s->effective, (uint32_t)s->permitted, (uint32_t)s->inheritable},
		{(uint32_t)(s->effective >> 32), (uint32_t)(s->permitted >> 32),
		 (uint32_t)(s->inheritable >> 32)},
	};

	return syscall(SYS_capset, &head, d) ? -errno : 0;
}

int gt_caps_keep(unsigned int what)
{
	uint64_t keep = 0;
	struct sets s = {0};
	int err = get(&s);

	if (err)
		return err;
	for (size_t i = 0; i < GT_ARRAY_SIZE(table); i++)
		if (what & table[i].what)
			keep |= s.effective & table[i].cap ? table[i].cap : table[i].instead;
	s.effective &= keep;
	s.permitted &= keep;
	/* A command of root's has those that root had handed down. */
	if (!(what & GT_CAPS_START))
		s.inheritable = 0;
	err = set(&s);
	if (!err && !(what & GT_CAPS_START) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		err = -errno;
	return err;
}

uint64_t gt_caps_lower(void)
{
	struct sets s = {0};
	uint64_t before;

	if (!geteuid() || get(&s))
		return 0;
	before = s.effective;
	s.effective &= ~(CAP(DAC_READ_SEARCH) | CAP(DAC_OVERRIDE));
	return set(&s) ? 0 : before;
}

void gt_caps_raise(uint64_t effective)
{
	struct sets s = {0};

	if (!effective || get(&s))
		return;
	s.effective = effective & s.permitted;
	(void)set(&s);
}

int gt_caps_gained(void)
{
	struct sets s = {0};

	if (getuid() != geteuid() || getgid() != getegid())
		return 1;
	/* AT_SECURE alone may be SELinux's, which has it for other reasons, too. */
	return geteuid() && getauxval(AT_SECURE) && (get(&s) || s.permitted);
}

int gt_caps_set_id(void)
{
	struct stat st;

	if (getuid() == geteuid() && getgid() == getegid())
		return 0;
	/* Somebody who is it himself may start us; then it is not the file. */
	return stat("/proc/self/exe", &st) || st.st_mode & (S_ISUID | S_ISGID);
}
