// SPDX-License-Identifier: Apache-2.0
#include "jail.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/*
 * Of all numbers the one that is nobody's: as the user nobody it could reach that user's processes.
 */
#define NOBODY 4294967293u

#if defined(__SANITIZE_ADDRESS__)
#define GT_ASAN 1
#elif defined(__has_feature)
#define GT_ASAN __has_feature(address_sanitizer)
#else
#define GT_ASAN 0
#endif

static void reset_signals(void)
{
	static const int defaults[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGALRM, SIGBUS, SIGSEGV};
	sigset_t set;

	for (size_t i = 0; i < GT_ARRAY_SIZE(defaults); i++)
		signal(defaults[i], SIG_DFL);
	signal(SIGINT, SIG_IGN);
	sigemptyset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
}

int gt_jail_keep_only(const int *fds, size_t n)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), first_free = 3 + (int)n;
	gt_autofree int *high = calloc(n + 1, sizeof(*high));

	if (!high)
		return -ENOMEM;
	/* First out of the way of each other. */
	for (size_t i = 0; i <= n; i++) {
		high[i] = fcntl(i < n ? fds[i] : null, F_DUPFD_CLOEXEC, first_free);
		if (high[i] < 0)
			return -errno;
	}
	for (int i = 0; i < 3; i++)
		if (dup2(high[n], i) < 0)
			return -errno;
	for (size_t i = 0; i < n; i++)
		if (dup2(high[i], 3 + (int)i) < 0)
			return -errno;
	if (!syscall(__NR_close_range, (unsigned int)first_free, ~0u, 0u))
		return 0;
	for (int i = first_free; i < 65536; i++) /* close_range is in 5.9+ */
		close(i);
	return 0;
}

/* With no capability permitted, none can be ambient either. */
static int drop_privileges(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	if (geteuid() == 0 && (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
			       setresuid(NOBODY, NOBODY, NOBODY)))
		return -1;
	/* Where it stays the user, others of that user are not to get at its descriptors. */
	return syscall(SYS_capset, &head, none) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static int limit(int what, uint64_t max)
{
	struct rlimit r;

	/* A limit that is lower already cannot be raised without CAP_SYS_RESOURCE. */
	if (getrlimit((__rlimit_resource_t)what, &r))
		return -1;
	if (r.rlim_max > max)
		r.rlim_max = max;
	if (r.rlim_cur > r.rlim_max || what != RLIMIT_AS)
		r.rlim_cur = r.rlim_max;
	return setrlimit((__rlimit_resource_t)what, &r);
}

static int limit_resources(const struct gt_jail_limits *limits)
{
#if !GT_ASAN /* AddressSanitizer reserves terabytes */
	if (limit(RLIMIT_AS, limits->memory))
		return -1;
#endif
	return limit(RLIMIT_CPU, limits->cpu_seconds) || limit(RLIMIT_FSIZE, 0) ||
	       limit(RLIMIT_CORE, 0) || limit(RLIMIT_NPROC, 0) ||
	       prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

int gt_jail_enter(const int *fds, size_t n, const struct gt_jail_limits *limits, pid_t parent)
{
	int err;

	reset_signals();
	err = gt_jail_keep_only(fds, n);
	if (err)
		return err;
	if (drop_privileges())
		return -EPERM;
	if (limit_resources(limits))
		return -EIO;
	return getppid() == parent ? 0 : -ESRCH;
}
