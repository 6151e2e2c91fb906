// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as the file of a target, through all that the resolver's child does with it, in this
 * process: what an honest child says must be believed by its parent, and be as symres.h has it. And
 * any bytes as the answer of a child that is in the file's hands: what the parent believes is safe
 * to use.
 */
#include "must.h"

/* resolve(), which the child runs behind the wall. */
#include "symres.c" /* NOLINT(bugprone-suspicious-include) */

static void check_text(const char *s, size_t size)
{
	size_t len = strnlen(s, size);

	MUST(len < size);
	for (size_t i = 0; i < len; i++)
		MUST((unsigned char)s[i] >= 0x20 && (unsigned char)s[i] < 0x7f);
}

static void check_functions(const struct gt_function *f, uint32_t n, uint32_t max)
{
	MUST(n <= max);
	for (uint32_t i = 0; i < n; i++) {
		MUST(f[i].sites <= GT_SITES_MAX);
		check_text(f[i].name, sizeof(f[i].name));
	}
}

/* What the rest of giltrace relies on. */
static void check_sites(const struct gt_sites *s, uint64_t size)
{
	MUST(s->n <= GT_SITES_MAX && s->build_id_len <= GT_BUILDID_MAX);
	check_text(s->why, sizeof(s->why));
	check_text(s->symbols_from, sizeof(s->symbols_from));
	check_text(s->disagreement, sizeof(s->disagreement));
	check_functions(s->function, s->n_functions, GT_FUNCTIONS_MAX);
	check_functions(s->inlined, s->n_inlined, GT_INLINED_MAX);
	for (uint32_t i = 0; i < s->n; i++) {
		MUST(s->site[i].offset < size);
		MUST(s->site[i].kind >= GT_WAIT && s->site[i].kind <= GT_DROPPED);
		check_text(s->site[i].how, sizeof(s->site[i].how));
	}
}

static void believe(const struct gt_symanswer *a, enum gt_probe_mode mode, uint64_t size)
{
	MUST(gt_symanswer_is_valid(a, mode, size));
	check_sites(&a->sites, size);
	MUST(!a->err == !!a->sites.n);
}

/* Our end of the pipe: the scan's sites, if the child has told them early. */
static void check_early(int fd, enum gt_probe_mode mode, uint64_t size)
{
	static struct gt_symanswer early;
	ssize_t n = read(fd, &early, sizeof(early));

	if (n <= 0)
		return;
	MUST(n == (ssize_t)sizeof(early) && early.more == 1);
	believe(&early, mode, size);
}

static void look(int fd, size_t size, enum gt_probe_mode mode, unsigned int flags)
{
	static struct gt_symanswer a;
	struct job j = {.name = "x", .mode = mode, .flags = flags, .fd = fd};
	int p[2];

	MUST(!pipe2(p, O_CLOEXEC | O_NONBLOCK));
	j.out = p[1];
	memset(&a, 0, sizeof(a));
	a.err = resolve(&j, &a.sites);
	believe(&a, mode, size);
	check_early(p[0], mode, size);
	close(p[0]);
	close(p[1]);
}

static void file(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	look(fd, size, GT_PROBE_AUTO, GT_SYMRES_EXE | GT_SYMRES_DEEP);
	look(fd, size, GT_PROBE_SITES, 0);
	look(fd, size, GT_PROBE_FUNCTIONS, GT_SYMRES_EXE);
	look(fd, size, GT_PROBE_LIBC, 0);
	close(fd);
}

static void answer(const uint8_t *data, size_t size)
{
	static struct gt_symanswer a;

	memset(&a, 0, sizeof(a));
	memcpy(&a, data, size < sizeof(a) ? size : sizeof(a));
	for (int mode = GT_PROBE_AUTO; mode <= GT_PROBE_LIBC; mode++)
		if (gt_symanswer_is_valid(&a, (enum gt_probe_mode)mode, 4096))
			check_sites(&a.sites, 4096);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (size < 4 || memcmp(data, "\177ELF", 4) != 0)
		answer(data, size);
	file(data, size);
	return 0;
}
