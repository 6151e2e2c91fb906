// SPDX-License-Identifier: Apache-2.0
//
// A call that holds the GIL for a known time, by the clocks that a Profiler uses: for
// test_marker.py, which loads it through ctypes.PyDLL, so that the GIL stays with the caller.

#include <stdint.h>
#include <time.h>

struct gm_mark {
	int64_t raw_begin, mono_begin, raw_end, mono_end;
};

static int64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

void gm_hold(int64_t ns, struct gm_mark *out)
{
	out->raw_begin = now_ns(CLOCK_MONOTONIC_RAW);
	out->mono_begin = now_ns(CLOCK_MONOTONIC);
	while (now_ns(CLOCK_MONOTONIC) - out->mono_begin < ns)
		;
	out->mono_end = now_ns(CLOCK_MONOTONIC);
	out->raw_end = now_ns(CLOCK_MONOTONIC_RAW);
}
