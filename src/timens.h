/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timens.h - the text of /proc/PID/timens_offsets (Linux 5.6): how far a time namespace shifts the
 * clocks. A pure function.
 */
#ifndef GT_TIMENS_H
#define GT_TIMENS_H

#include "base.h"

#define GT_TIMENS_TEXT 256 /* bytes that the file never has */
#define GT_TIMENS_NS_MAX                                                                           \
	(INT64_MAX >> 1) /* Linux lets no clock go beyond: proc_timens_set_offset() */

/*
 * A process's CLOCK_MONOTONIC (and CLOCK_MONOTONIC_RAW) and CLOCK_BOOTTIME, of the host's.
 * Up to GT_TIMENS_NS_MAX either way, so that clocks can be shifted. -EPROTO: that is no such text.
 */
int gt_timens_parse(const char *text, int64_t *mono_ns, int64_t *boot_ns);

#endif
