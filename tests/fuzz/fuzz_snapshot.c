// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as the memory of a process with _PyRuntime at its start: once as they are, and once
 * with a head that is believed, without which little behind it would ever be read. An odd last byte
 * makes the memory change while it is read. Addresses are small, so that chance finds them.
 */
#include "snapshot.h"

#define BASE      0x1000
#define READS_MAX 20000 /* 1024 interpreters, and some reads of each GIL */

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

	check(len > 0 && len <= 4096 && ++m->reads < READS_MAX);
	if (addr < BASE || !gt_in_range(addr - BASE, len, m->size))
		return -EFAULT;
	memcpy(buf, m->bytes + (addr - BASE), len);
	if (m->restless) /* some byte of what was just read */
		m->bytes[addr - BASE + m->reads % len] ^= (uint8_t)(1 + m->reads % 3);
	return 0;
}

static void check_gils(const struct gt_snapshot_gils *g)
{
	check(g->told == 1 && g->n <= GT_SNAPSHOT_GILS && g->free_threaded < 2);
	for (uint32_t i = 0; i < g->n; i++) {
		const struct gt_snapshot_gil *gil = &g->gil[i];

		check(gil->cond >= BASE && gil->locked < 2 && gil->enabled < 2);
		check(gil->holder == 0 || (gil->locked && gil->holder <= 1u << 22));
		for (uint32_t k = 0; k < i; k++)
			check(g->gil[k].cond != gil->cond);
	}
}

static void parse(const uint8_t *data, size_t size, void (*mend)(uint8_t *))
{
	struct memory m = {.bytes = malloc(size), .size = size, .restless = data[size - 1] & 1};
	struct gt_snapshot_gils g;
	const char *why = "";
	int r;

	check(m.bytes != NULL);
	memcpy(m.bytes, data, size);
	if (mend)
		mend(m.bytes);
	r = gt_snapshot_parse(read_memory, &m, BASE, &g, &why);
	check(r == 0 || r == -EFAULT);
	check(!r || m.reads == 1);
	check((why != NULL) == (!r && !g.told));
	if (g.told)
		check_gils(&g);
	else
		check(!g.told && !g.free_threaded && !g.finalizing && !g.n);
	free(m.bytes);
}

static void set(uint8_t *head, unsigned int word, uint64_t v)
{
	gt_put_le64(head + 8 * (size_t)word, v);
}

/* Offsets stay those of the input, cut to what can be. */
static void make_right(uint8_t *head)
{
	const unsigned int minor = 13 + head[10] % 4, free_threaded = head[16] & 1;
	const unsigned int gil = minor == 13 ? 14 : 15, thread = minor == 13 ? 19 : 22;
	const unsigned int native = minor == 13 ? 25 : (minor == 14 ? 28 : 31);
	static const uint8_t offsets[] = {4, 5, 8};

	for (size_t i = 0; i < GT_ARRAY_SIZE(offsets); i++)
		set(head, offsets[i], gt_get_le16(head + 8 * (size_t)offsets[i]) & 0xff8);
	for (unsigned int i = gil; i < gil + 2; i++)
		set(head, i, gt_get_le16(head + 8 * (size_t)i) & 0xff8);
	memcpy(head, "xdebugpy", 8);
	set(head, 1, 0x030000f0 | minor << 16);
	set(head, 2, free_threaded);
	set(head, 3, 0x1000);
	set(head, 6, 0x1000);
	set(head, gil + 2, 0);
	set(head, gil + 3, gt_get_le64(head + 8 * (size_t)(gil + 1)) + 0x10 + 8 * free_threaded);
	set(head, gil + 4, gt_get_le64(head + 8 * (size_t)(gil + 1)) + 0x08 + 8 * free_threaded);
	set(head, thread, 0x1000);
	set(head, thread + 1, 0);
	set(head, thread + 2, 8);
	set(head, thread + 3, 16);
	set(head, native, gt_get_le16(head + 8 * (size_t)native) & 0xff8);
	set(head, native - 1, gt_get_le64(head + 8 * (size_t)native) - 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	parse(data, size, NULL);
	if (size >= 256)
		parse(data, size, make_right);
	return 0;
}
