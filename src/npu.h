/* SPDX-License-Identifier: Apache-2.0 */
/*
 * npu.h - which Ascend NPUs a process is bound to: by the driver's devices that it has open or
 * mapped, compared by device number, so that renamed nodes, deleted ones and those of another mount
 * namespace count. Never by a process's name. Logs nothing; no state but the host's, which one
 * thread uses at a time. Errors are -errno.
 *
 * What is not known: a process that uses an NPU always has the driver's manager open; whether it
 * keeps davinci<N> open is up to the driver's version (those of 2025 open it only for a moment), so
 * a bound process may have no device here. Neither sysfs nor /proc tells which card (NPU id) and
 * chip of npu-smi a device is: the NPU id is a slot that the card's firmware reports, and not
 * always the device's number divided by the chips of a card. So `card` and `chip` are -1.
 */
#ifndef GT_NPU_H
#define GT_NPU_H

#include "proc.h"

struct gt_npu_host;

/*
 * Looks for the driver's devices: davinci<N>, vdavinci<N>, davinci_manager,
 * davinci_manager_docker, devmm_svm and hisi_hdc. NULL: those that the kernel lists in
 * /sys/dev/char, which is complete and right in a container too that has no nodes or others' names
 * for them, and the character devices of these names in /dev. Else: those in this folder only. A
 * symbolic link is never followed: the driver makes none. 0 also where there are none; -errno: the
 * folder cannot be read.
 */
int gt_npu_host_open(const char *device_root, struct gt_npu_host **out);

/* The same with another list of the form of /sys/dev/char, and with /dev only if named. For tests.
 */
int gt_npu_host_open_in(const char *device_root, const char *char_list, struct gt_npu_host **out);
void gt_npu_host_close(struct gt_npu_host *h);

/* Looks again: a driver may be loaded, a device added, while we run. On -errno all stays as it was.
 */
int gt_npu_host_refresh(struct gt_npu_host *h);

/* Devices (davinci<N>, vdavinci<N>) on this host; 0: no NPU, or its driver is not loaded. */
size_t gt_npu_host_devices(const struct gt_npu_host *h);

/* A sentence: what was looked for, where, and what was found. Owned by the host, until the next
 * refresh. */
const char *gt_npu_host_text(const struct gt_npu_host *h);

#define GT_NPUS_MAX 64

struct gt_npu {
	uint32_t device;    /* N of davinci<N>: the physical device on this host */
	int32_t card, chip; /* NPU id and chip id as npu-smi counts; -1: not known, see above */
	uint8_t is_virtual; /* vdavinci<N>, a share of a device with a number of its own */
	uint8_t by_fd, by_map;
};

struct gt_npus {
	uint8_t bound;       /* it has a device, or at least the driver's manager, open or mapped */
	uint8_t cut;         /* it has more descriptors or mappings than are looked at, see below */
	uint32_t n;          /* devices, by number; may be 0 although bound */
	uint32_t n_left_out; /* beyond GT_NPUS_MAX */
	struct gt_npu npu[GT_NPUS_MAX];
	char source[96]; /* such as "descriptor 5: davinci0" or "mapping: davinci_manager" */
};

/*
 * 1: bound, 0: not; *out is filled for both. -ESRCH: it has ended; other -errno: it could not be
 * looked at. Looks at 16,384 descriptors and 65,536 mappings at most, and at nothing on a host
 * without the driver.
 */
int gt_npu_of(const struct gt_npu_host *h, const struct gt_proc *p, struct gt_npus *out);

/*
 * "0,1", or "0 (NPU 0 chip 0),1 (NPU 0 chip 1)"; a virtual one is "v100"; at the end "+2 more" for
 * those left out. "" where n is 0. Always terminated; cut before an item that does not fit.
 */
void gt_npus_text(const struct gt_npus *npus, char *buf, size_t size);

#endif
