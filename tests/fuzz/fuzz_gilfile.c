// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as a .gil file: once as they are, and once with right checksums and sequence numbers,
 * without which nothing behind the first block's header would ever be reached. A seed is any .gil
 * file.
 */
#include "gilfile_codec.h"

#include <sys/mman.h>

#include "gilmend.h"

static void check(int ok)
{
	if (!ok)
		abort();
}

static void check_event(const gil_reader *r, const struct gil_event *ev)
{
	check(gt_is_known(ev) && ev->kind != GIL_FORCED);
	check(!ev->forced || ev->kind == GIL_RELEASE);
	check(ev->mono_ns >= gil_reader_first_mono_ns(r));
	check(ev->mono_ns <= gil_reader_last_mono_ns(r));
	check(gil_reader_unix_ns(r, ev->mono_ns) > 0);
	if (ev->kind == GIL_THREAD)
		check(memchr(ev->thread.comm, 0, GIL_COMM_LEN) != NULL);
	if (ev->kind == GIL_THREAD && ev->thread.name)
		check(ev->thread.name[0] && strlen(ev->thread.name) <= GIL_NAME_MAX);
	if (ev->kind == GIL_LATE)
		check(ev->late.begin_mono_ns && ev->late.begin_mono_ns <= ev->mono_ns);
	if (ev->kind == GIL_MARK)
		check(ev->mark.name[0] && strlen(ev->mark.name) <= GIL_MARK_MAX);
	if (ev->kind == GIL_PAUSED)
		check(ev->paused.begin_mono_ns && ev->paused.begin_mono_ns <= ev->mono_ns);
	if (ev->kind == GIL_LOST)
		check(ev->lost.begin_mono_ns <= ev->mono_ns);
}

static uint64_t read_all(gil_reader *r)
{
	struct gil_event ev;
	uint64_t n = 0;

	while (gil_reader_next(r, &ev)) {
		check_event(r, &ev);
		n++;
	}
	check(!gil_reader_next(r, &ev));
	return n;
}

static void read_file(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	char why[300] = "";
	gil_reader *r = NULL;
	uint64_t n;

	check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	if (gil_reader_open_fd(fd, "fuzz", &r, why, sizeof(why))) {
		check(!r && strlen(why) > 6);
		return;
	}
	n = read_all(r);
	gil_reader_rewind(r);
	check(read_all(r) == n);
	(void)gil_reader_clock_step_ns(r);
	check(!gil_reader_meta(r, "rank") || strlen(gil_reader_meta(r, "rank")) <= size);
	for (size_t i = 0; i < gil_reader_sites(r); i++)
		check(strlen(gil_reader_site(r, i)->how) < GIL_SITE_HOW_MAX);
	for (size_t i = 1; i < gil_reader_clocks(r); i++)
		check(gil_reader_clock(r, i)->mono_ns >= gil_reader_clock(r, i - 1)->mono_ns);
	check(gil_reader_end_reason(r) >= 0);
	gil_reader_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	read_file(data, size);
	if (size < GIL_HEADER_SIZE)
		return 0;
	copy = malloc(size);
	check(copy != NULL);
	memcpy(copy, data, size);
	gilmend(copy, size);
	read_file(copy, size);
	free(copy);
	return 0;
}

#ifdef GT_FUZZ
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned int seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned int seed)
{
	return gilmend_mutate(data, size, max, seed);
}
#endif
