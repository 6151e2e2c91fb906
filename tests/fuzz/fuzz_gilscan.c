// SPDX-License-Identifier: Apache-2.0
/* What the resolver's child does with a file: the scan, its symbols and debug information. */
#include "gilscan.h"
#include "symcheck.h"

#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Names of a file that exports nothing: CPython begins at the entry point. */
static int find_name(void *ctx, const char *name, uint64_t *vaddr)
{
	const uint8_t *data = ctx;

	*vaddr = gt_get_le64(data + 24);
	return strncmp(name, "PyEval_", strlen("PyEval_")) ? -ENOENT : 0;
}

static void scan(const struct gt_image *img, int fd, const struct gt_gilnames *names)
{
	static struct gt_sites sites, functions;
	struct gt_symsrc *src;

	if (gt_gilscan_identify_named(img, names, "x", &sites))
		return;
	gt_gilscan_sites_named(img, names, &sites);
	if (gt_symsrc_open(fd, "x", &src))
		return;
	gt_symcheck_compare(src, img, 1, &sites);
	functions = sites;
	gt_symcheck_functions(src, img, 0, &functions);
	gt_symsrc_close(src);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct gt_gilnames names = {.find = find_name, .ctx = (void *)(uintptr_t)data};
	struct gt_image img;
	const char *why;
	int fd;

	if (gt_image_open(&img, data, size, &why))
		return 0;
	fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd >= 0 && write(fd, data, size) == (ssize_t)size) {
		scan(&img, fd, NULL);
		scan(&img, fd, &names);
	}
	if (fd >= 0)
		close(fd);
	return 0;
}
