/* SPDX-License-Identifier: Apache-2.0 */
/* must.h - for fuzz targets: aborts, and says where, if a promise is broken. */
#ifndef GT_FUZZ_MUST_H
#define GT_FUZZ_MUST_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond);         \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#endif
