// SPDX-License-Identifier: Apache-2.0
#include "libcsites.h"
#include "emulated.h"
#include "gilscan.h"

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>

static const struct {
	const char *name;
	enum gt_kind kind;
} functions[] = {
	{"pthread_cond_signal", GT_RELEASE},
	{"pthread_cond_timedwait", GT_WAIT},
	{"pthread_cond_wait", GT_YIELD},
};

/*
 * sizeof(pthread_cond_t) + sizeof(pthread_mutex_t), which lie between cond and switch_cond in
 * CPython 3.7+. glibc's mutex is 8 bytes larger on AArch64 than all others; unlike musl, glibc has
 * versions of its symbols.
 */
static uint32_t switch_distance(const struct gt_image *img)
{
	return 48 + (img->machine == EM_AARCH64 && img->nversions ? 48 : 40);
}

int gt_libcsites_find(const struct gt_image *img, struct gt_sites *out)
{
	out->n = 0;
	out->why[0] = '\0';
	for (size_t i = 0; i < GT_ARRAY_SIZE(functions); i++) {
		const char *name = functions[i].name;
		struct gt_range fn;
		uint64_t at;
		int err;

		if (gt_image_export(img, name, &fn)) {
			snprintf(out->why, sizeof(out->why), "it does not define %s", name);
			out->n = 0;
			return -ENOENT;
		}
		at = gt_emulated_point(img, &fn);
		err = gt_gilscan_add(img, out, at, functions[i].kind, GT_SITE_LIBC,
				     "libc: %s%+" PRId64, name, (int64_t)(at - fn.start));
		if (err)
			return err;
	}
	out->mode = GT_PROBE_LIBC;
	out->switch_cond = switch_distance(img);
	out->code_delta = gt_image_code_delta(img);
	return 0;
}
