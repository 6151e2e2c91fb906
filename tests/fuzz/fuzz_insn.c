// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as code, behind one that tells the machine: what is decoded lies within them and is as
 * insn.h has it, and what the fast scan tells with a target is what is there.
 */
#include <elf.h>

#include "emulated.h"
#include "insn.h"
#include "must.h"

#define PC 0x401000

struct code {
	const uint8_t *p;
	size_t n;
	uint16_t machine;
	size_t told;
};

static int is_reg(uint8_t reg)
{
	return reg < 32 || reg == GT_INSN_NOREG;
}

static void check_insn(const struct code *c, const struct gt_insn *in)
{
	MUST(in->kind <= GT_INSN_CLOBBER && is_reg(in->dst) && is_reg(in->src) && is_reg(in->src2));
	MUST(in->pc >= PC && in->len && in->pc - PC + in->len <= c->n);
	MUST(in->len <= (c->machine == EM_X86_64 ? 15 : 4));
}

static void on_scanned(void *ctx, const struct gt_insn *in)
{
	struct code *c = ctx;
	uint64_t entry;

	MUST(in->pc >= PC && in->pc - PC < c->n && ++c->told <= 2 * c->n);
	MUST(in->kind == GT_INSN_CALL || in->kind == GT_INSN_JUMP || in->kind == GT_INSN_COND ||
	     in->kind == GT_INSN_CALL_MEM || in->kind == GT_INSN_JUMP_MEM ||
	     in->kind == GT_INSN_LOAD_ABS);
	if (gt_insn_plt_stub(c->machine, c->p, c->n, PC, in, &entry))
		MUST(entry >= PC && entry <= in->pc);
}

/* All that follows, as straight code and from each byte on. */
static void decode(const struct code *c)
{
	struct gt_insn in;

	for (size_t at = 0; at < c->n; at++) {
		if (gt_insn_decode(c->machine, c->p + at, c->n - at, PC + at, &in))
			continue;
		MUST(in.pc == PC + at);
		check_insn(c, &in);
	}
}

static void emulated(const struct code *c)
{
	const struct gt_range fn = {.start = PC, .end = PC + c->n};
	const struct gt_image img = {
		.data = c->p,
		.size = c->n,
		.machine = c->machine,
		.nsegs = 1,
		.seg = {{.vaddr = PC, .size = c->n, .exec = 1}},
	};
	uint64_t at = gt_emulated_point(&img, &fn);

	MUST(at == fn.start || (at > fn.start && at < fn.end && gt_emulated_at(&img, at)));
	for (uint64_t pc = PC; pc < PC + c->n; pc++)
		(void)gt_emulated_at(&img, pc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct code c = {.n = size ? size - 1 : 0};
	uint8_t *copy;

	if (size < 2 || size > 4096)
		return 0;
	/* Of its own, so that a byte too far is seen on both sides. */
	copy = malloc(c.n);
	MUST(copy);
	memcpy(copy, data + 1, c.n);
	c.p = copy;
	c.machine = data[0] & 1 ? EM_AARCH64 : EM_X86_64;
	decode(&c);
	gt_insn_scan(c.machine, c.p, c.n, PC, on_scanned, &c);
	emulated(&c);
	free(copy);
	return 0;
}
