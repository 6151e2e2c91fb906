/* SPDX-License-Identifier: Apache-2.0 */
/* gilrandom.h - for tests: random numbers that are the same everywhere, and random events. */
#ifndef GT_TEST_GILRANDOM_H
#define GT_TEST_GILRANDOM_H

#include "giltrace/gilfile.h"

/* xorshift64*: the same numbers everywhere for one seed */
static inline uint64_t make_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull;
}

static inline uint32_t make_below(uint64_t *state, uint32_t n)
{
	return (uint32_t)((make_random(state) >> 32) * n >> 32);
}

/* A number of any size, small ones as likely as great ones. */
static inline uint64_t make_wide(uint64_t *state)
{
	uint32_t shift = make_below(state, 64);

	return make_random(state) >> shift;
}

/* At most GIL_NAME_MAX bytes; stays valid. */
static inline const char *make_name(uint64_t *seed)
{
	static const char *const names[] = {
		"MainThread", "Thread-1 (f)", "\xc3\xa4\xff\x01 \xf0\x9f\x90\x8d",
		"sixty-three bytes: 01234567890123456789012345678901234567890123"};

	return names[make_below(seed, 4)];
}

/* A thread's names, or none. */
static inline void make_thread(uint64_t *seed, struct gil_event *ev)
{
	ev->thread.ns_tid = (uint32_t)make_wide(seed);
	for (uint32_t i = make_below(seed, GIL_COMM_LEN); i--;)
		ev->thread.comm[i] = (char)(1 + make_below(seed, 255));
	if (make_below(seed, 2))
		ev->thread.host_tid = (uint32_t)make_wide(seed);
	if (make_below(seed, 2))
		ev->thread.name = make_name(seed);
}

/* An event of any kind, a little or (seldom) far after or before *mono_ns. */
static inline struct gil_event make_event(uint64_t *seed, uint64_t *mono_ns, uint32_t nthreads)
{
	static const uint8_t kinds[] = {1, 2, 3, 4, 5,  6,  2,  3,  2,  3,  2, 3,
					2, 3, 8, 9, 10, 11, 12, 13, 14, 16, 17};
	struct gil_event ev = {.kind = kinds[make_below(seed, sizeof(kinds))]};
	uint64_t back = make_below(seed, 3000);

	*mono_ns += make_below(seed, 10) ? make_below(seed, 20000) : make_wide(seed) % 100000000000;
	if (!make_below(seed, 5) && *mono_ns > back)
		*mono_ns -= back;
	ev.mono_ns = *mono_ns;
	if (ev.kind != GIL_LOST && ev.kind != GIL_LATE && ev.kind != GIL_PAUSED)
		ev.tid = 1 + make_below(seed, nthreads) * 7919;
	if (!make_below(seed, 8))
		ev.gil = (uint8_t)make_below(seed, 256);
	if (!make_below(seed, 4))
		ev.site = (uint8_t)make_below(seed, 256);
	if (ev.kind == GIL_THREAD) {
		make_thread(seed, &ev);
	} else if (ev.kind == GIL_GIL) {
		ev.unconfirmed = (uint8_t)make_below(seed, 2);
		ev.gil_ident.addr = make_wide(seed);
	} else if (ev.kind == GIL_LOST) {
		ev.lost.begin_mono_ns = ev.mono_ns - make_wide(seed) % (ev.mono_ns + 1);
		ev.lost.count = make_wide(seed);
	} else if (ev.kind == GIL_BEFORE) {
		ev.before.state = (uint8_t)(1 + make_below(seed, 2));
	} else if (ev.kind == GIL_LATE) {
		ev.late.begin_mono_ns = ev.mono_ns - make_wide(seed) % ev.mono_ns;
	} else if (ev.kind == GIL_MARK) {
		ev.tid *= make_below(seed, 3) != 0;
		ev.mark.name = make_below(seed, 4)
				       ? make_name(seed)
				       : "one hundred and twenty-seven bytes: "
					 "0123456789012345678901234567890123456789012345"
					 "678901234567890123456789012345678901234567890";
	} else if (ev.kind == GIL_PAUSED) {
		ev.paused.begin_mono_ns = ev.mono_ns - make_wide(seed) % ev.mono_ns;
	} else if (ev.kind == GIL_RELEASE) {
		ev.forced = !make_below(seed, 3);
	}
	return ev;
}

#endif
