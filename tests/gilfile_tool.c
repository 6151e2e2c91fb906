// SPDX-License-Identifier: Apache-2.0
/*
 * gilfile_tool - for tests/test_gilfile_py.py: writes files of random events with the writer, and
 * prints what the reader makes of files, in the words of tests/gilfile.py.
 *
 *	gilfile_tool write SEED EVENTS THREADS FILE
 *	gilfile_tool dump FILE...
 */
#include "gilfile_codec.h"
#include "gilfile_write.h"
#include "unit/gilrandom.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

static const char *const keys[] = {"a", "b", "empty", "not there"};

static int write_file(uint64_t seed, uint64_t n, uint32_t nthreads, const char *path)
{
	const char *const pairs[][2] = {{"a", "1"}, {"b", "\xc3\xa4\xff"}, {"empty", ""}};
	const char *const later[][2] = {{"a", "2"}};
	const struct gil_site sites[] = {{.offset = make_wide(&seed), .kind = 2, .how = "scan: x"},
					 {.offset = 4096, .kind = 3, .flags = 5, .how = "\xff"}};
	uint64_t mono = 1 + make_wide(&seed) % 1000000000000;
	struct gil_clock clock = {mono, mono + 7, 1700000000000000000, mono + 9, 40};
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct gt_gilfile *f;

	if (fd < 0 || gt_gilfile_create(fd, &f))
		return 1;
	gt_gilfile_meta(f, pairs, GT_ARRAY_SIZE(pairs));
	gt_gilfile_sites(f, sites, GT_ARRAY_SIZE(sites));
	gt_gilfile_clock(f, &clock);
	for (uint64_t i = 0; i < n; i++) {
		struct gil_event ev = make_event(&seed, &mono, nthreads);

		gt_gilfile_add(f, &ev, i);
		if (!make_below(&seed, 200))
			gt_gilfile_flush(f, i);
	}
	clock.mono_ns = mono > clock.mono_ns ? mono : clock.mono_ns;
	gt_gilfile_clock(f, &clock);
	gt_gilfile_meta(f, later, GT_ARRAY_SIZE(later));
	return gt_gilfile_finish(f, GIL_END_TARGET_EXIT, mono, n, NULL) ? 1 : 0;
}

static void print_hex(const char *s)
{
	for (; *s; s++)
		printf("%02x", (unsigned char)*s);
}

static void print_event(const struct gil_event *ev)
{
	static const char *const names[] = {
		"?",   "WAIT", "ACQUIRE", "RELEASE", "YIELD", "TAKE", "DROPPED", "?",    "THREAD",
		"GIL", "LOST", "BEFORE",  "EXIT",    "LEFT",  "LATE", "?",       "MARK", "PAUSED"};

	printf("%" PRIu64 " %" PRIu32 " %s gil %d site %d", ev->mono_ns, ev->tid, names[ev->kind],
	       ev->gil, ev->site);
	if (ev->kind == GIL_THREAD) {
		printf(" ns_tid %" PRIu32 " comm ", ev->thread.ns_tid);
		print_hex(ev->thread.comm);
		printf(" host_tid %" PRIu32 " name ", ev->thread.host_tid);
		print_hex(ev->thread.name ? ev->thread.name : "");
	} else if (ev->kind == GIL_GIL) {
		printf(" unconfirmed %d addr %" PRIx64, ev->unconfirmed, ev->gil_ident.addr);
	} else if (ev->kind == GIL_LOST) {
		printf(" begin %" PRIu64 " count %" PRIu64, ev->lost.begin_mono_ns, ev->lost.count);
	} else if (ev->kind == GIL_BEFORE) {
		printf(" state %d", ev->before.state);
	} else if (ev->kind == GIL_LATE) {
		printf(" begin %" PRIu64, ev->late.begin_mono_ns);
	} else if (ev->kind == GIL_MARK) {
		printf(" name ");
		print_hex(ev->mark.name);
	} else if (ev->kind == GIL_PAUSED) {
		printf(" begin %" PRIu64, ev->paused.begin_mono_ns);
	} else if (ev->forced) {
		printf(" forced");
	}
	putchar('\n');
}

static void print_summary(const gil_reader *r)
{
	for (size_t i = 0; i < GT_ARRAY_SIZE(keys); i++) {
		const char *value = gil_reader_meta(r, keys[i]);

		printf("meta %s ", keys[i]);
		print_hex(value ? value : "-");
		putchar('\n');
	}
	for (size_t i = 0; i < gil_reader_sites(r); i++) {
		const struct gil_site *s = gil_reader_site(r, i);

		printf("site %" PRIu64 " %d %d ", s->offset, s->kind, s->flags);
		print_hex(s->how);
		putchar('\n');
	}
	for (size_t i = 0; i < gil_reader_clocks(r); i++) {
		const struct gil_clock *c = gil_reader_clock(r, i);

		printf("clock %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		       c->mono_ns, c->raw_ns, c->unix_ns, c->boot_ns, c->error_ns);
	}
	printf("from %" PRIu64 " to %" PRIu64 " lost %" PRIu64 " end %d\n",
	       gil_reader_first_mono_ns(r), gil_reader_last_mono_ns(r), gil_reader_lost_total(r),
	       gil_reader_end_reason(r));
}

static void dump(const char *path)
{
	struct gil_event ev;
	gil_reader *r;
	char why[512];

	printf("file %s\n", path);
	if (gil_reader_open(path, &r, why, sizeof(why))) {
		printf("refused %s\n", why);
		return;
	}
	while (gil_reader_next(r, &ev))
		print_event(&ev);
	if (gil_reader_problem(r))
		printf("problem %s\n", gil_reader_problem(r));
	else
		print_summary(r);
	gil_reader_close(r);
}

int main(int argc, char **argv)
{
	if (argc == 6 && !strcmp(argv[1], "write"))
		return write_file(strtoull(argv[2], NULL, 0), strtoull(argv[3], NULL, 0),
				  (uint32_t)strtoul(argv[4], NULL, 0), argv[5]);
	if (argc < 3 || strcmp(argv[1], "dump"))
		return 2;
	for (int i = 2; i < argc; i++)
		dump(argv[i]);
	return 0;
}
