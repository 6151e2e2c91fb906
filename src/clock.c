// SPDX-License-Identifier: Apache-2.0
#include "clock.h"
#include "timens.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#define ATTEMPTS 8

/* Our clocks minus the host's. Set once, before there are threads. */
static int64_t mono_shift_ns, boot_shift_ns;

/*
 * The clocks of a process (of /proc) minus the host's. -errno: that cannot be told; -ENOENT: this
 * kernel has no time namespaces.
 */
static int read_offsets(const char *process, int64_t *mono_ns, int64_t *boot_ns)
{
	char path[3][64], text[GT_TIMENS_TEXT];
	gt_autoclose int fd = -1;
	struct stat own, childrens;
	ssize_t n;

	snprintf(path[0], sizeof(path[0]), "/proc/%s/timens_offsets", process);
	snprintf(path[1], sizeof(path[1]), "/proc/%s/ns/time", process);
	snprintf(path[2], sizeof(path[2]), "/proc/%s/ns/time_for_children", process);
	fd = open(path[0], O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* It tells of the namespace that children get, which is another before they are there. */
	if (stat(path[1], &own) || stat(path[2], &childrens) || own.st_ino != childrens.st_ino)
		return -ENOTSUP;
	/* The kernel writes it at once. */
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	return gt_timens_parse(text, mono_ns, boot_ns);
}

int gt_clock_setup(void)
{
	int err = read_offsets("self", &mono_shift_ns, &boot_shift_ns);

	return err == -ENOENT ? 0 : err;
}

int gt_clock_ahead(pid_t pid, int64_t *mono_ns)
{
	struct stat ours, its;
	char text[32];
	int64_t unused;

	*mono_ns = mono_shift_ns;
	snprintf(text, sizeof(text), "/proc/%d/ns/time", pid);
	if (stat("/proc/self/ns/time", &ours) || stat(text, &its) || ours.st_ino == its.st_ino)
		return 0;
	snprintf(text, sizeof(text), "%d", pid);
	return read_offsets(text, mono_ns, &unused);
}

/* The ids used here exist in every Linux that has BPF, so clock_gettime() cannot fail. */
static uint64_t read_ns(clockid_t id)
{
	struct timespec ts = {0};

	clock_gettime(id, &ts);
	/* A time namespace shifts CLOCK_MONOTONIC and CLOCK_MONOTONIC_RAW alike. */
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec -
	       (uint64_t)(id == CLOCK_BOOTTIME   ? boot_shift_ns
			  : id == CLOCK_REALTIME ? 0
						 : mono_shift_ns);
}

uint64_t gt_mono_ns(void)
{
	return read_ns(CLOCK_MONOTONIC);
}

/* A reading of a clock, known to lie within +- error_ns of mono_ns. */
struct reading {
	uint64_t mono_ns, value_ns, error_ns;
};

/* Being preempted between the readings only widens an attempt: the tightest one wins. */
static struct reading read_tight(clockid_t id)
{
	struct reading best = {.error_ns = UINT64_MAX};

	for (int i = 0; i < ATTEMPTS; i++) {
		uint64_t before = gt_mono_ns();
		uint64_t value = read_ns(id);
		uint64_t width = gt_mono_ns() - before;

		if ((width + 1) / 2 < best.error_ns) {
			best.mono_ns = before + width / 2;
			best.value_ns = value;
			best.error_ns = (width + 1) / 2;
		}
	}
	return best;
}

void gt_clock_sample(struct gil_clock *out)
{
	struct reading raw = read_tight(CLOCK_MONOTONIC_RAW);
	struct reading real = read_tight(CLOCK_REALTIME);
	struct reading boot = read_tight(CLOCK_BOOTTIME);
	uint64_t error = real.error_ns;

	if (raw.error_ns > error)
		error = raw.error_ns;
	if (boot.error_ns > error)
		error = boot.error_ns;
	/*
	 * The three are some microseconds apart. Moving two of them to the instant of the third at
	 * CLOCK_MONOTONIC's rate is exact to the nanosecond: no clock runs 500 ppm off another.
	 */
	*out = (struct gil_clock){
		.mono_ns = real.mono_ns,
		.unix_ns = real.value_ns,
		.raw_ns = raw.value_ns + (real.mono_ns - raw.mono_ns),
		.boot_ns = boot.value_ns + (real.mono_ns - boot.mono_ns),
		.error_ns = error,
	};
}
