// SPDX-License-Identifier: Apache-2.0
#include "gilscan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct gt_sites sites;
	struct gt_image img;
	const char *why;

	if (!gt_image_open(&img, data, size, &why) && !gt_gilscan_identify(&img, "x", &sites))
		gt_gilscan_sites(&img, &sites);
	return 0;
}
