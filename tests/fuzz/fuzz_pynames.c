// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as the memory of a process with _PyRuntime at its start. The last byte tells the
 * version that is believed of it, if it does not tell its own; if it is odd, memory changes while
 * it is read. Addresses are small, so that chance finds them.
 */
#include "pynames.h"

#define BASE      0x1000
#define READS_MAX 100002 /* and the two of the start */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct memory {
	uint8_t *bytes;
	size_t size;
	unsigned int reads;
	int restless;
};

static void check(int ok)
{
	if (!ok)
		abort();
}

static int read_memory(void *ctx, uint64_t addr, void *buf, size_t len)
{
	struct memory *m = ctx;

	check(len > 0 && len <= 4096 && ++m->reads <= READS_MAX);
	if (addr < BASE || !gt_in_range(addr - BASE, len, m->size))
		return -EFAULT;
	memcpy(buf, m->bytes + (addr - BASE), len);
	if (m->restless && m->reads % 16 == 0) /* some byte of what was just read */
		m->bytes[addr - BASE + m->reads / 16 % len] ^= (uint8_t)(1 + m->reads % 3);
	return 0;
}

/* How many bytes of a character follow the first; -1: it is no first one. */
static int following(uint8_t c)
{
	if (c < 0x80)
		return 0;
	if (c < 0xc2 || c > 0xf4)
		return -1;
	return c < 0xe0 ? 1 : (c < 0xf0 ? 2 : 3);
}

static void check_utf8(const char *name)
{
	const uint8_t *p = (const uint8_t *)name;

	check(*p && memchr(name, 0, GT_PYNAME_LEN) != NULL);
	while (*p) {
		uint8_t first = *p++;
		int more = following(first);

		check(more >= 0);
		check(first != 0xe0 || *p >= 0xa0); /* in more bytes than it takes */
		check(first != 0xed || *p < 0xa0);  /* surrogates */
		check(first != 0xf0 || *p >= 0x90);
		check(first != 0xf4 || *p < 0x90);
		for (; more > 0; more--, p++)
			check((*p & 0xc0) == 0x80);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct memory m = {0};
	struct gt_pyname *names = NULL;
	const char *why = "";
	size_t n = 0;
	int r;

	if (!size)
		return 0;
	m.bytes = malloc(size);
	check(m.bytes != NULL);
	memcpy(m.bytes, data, size);
	m.size = size;
	m.restless = data[size - 1] & 1;
	r = gt_pynames_parse(read_memory, &m, BASE, 3, 8 + (data[size - 1] >> 1) % 9, &names, &n,
			     &why);
	check(r == 0 || r == -EFAULT || r == -EPROTO || r == -ENOTSUP);
	check((why != NULL) == (r != 0));
	check(n <= GT_PYNAMES_MAX && (n != 0) == (names != NULL));
	for (size_t i = 0; i < n; i++) {
		check(i == 0 || names[i - 1].ns_tid < names[i].ns_tid);
		check(names[i].ns_tid > 0 && names[i].ns_tid <= 1u << 22 && names[i].dummy < 2);
		check_utf8(names[i].name);
	}
	free(names);
	free(m.bytes);
	return 0;
}
