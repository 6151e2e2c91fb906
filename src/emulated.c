// SPDX-License-Identifier: Apache-2.0
#include "emulated.h"
#include "insn.h"

#include <elf.h>

#define STRETCH_MAX  8          /* instructions looked at behind the entry */
#define FUNCTION_MAX (1u << 20) /* bytes; far more than take_gil and its like have */

/* ---- x86-64 ---- */

#define X86_MAX  15 /* bytes of the longest instruction */
#define REX_B    1
#define REX_R    4
#define X86_SP   4 /* rsp, in any field of an encoding where the bit of REX is 0 */
#define MOD_NONE 3 /* ModRM.mod: the operand is a register */

/* The parts of an instruction that gt_insn_decode() has accepted. */
struct x86 {
	uint8_t len, rex, op;
	uint8_t two;                /* op follows 0f */
	uint8_t f3;                 /* that prefix */
	uint8_t odd;                /* a prefix other than f2 and f3 */
	uint8_t mod, reg, rm, base; /* of ModRM and SIB, if the opcode has them */
};

static struct x86 x86_parts(const uint8_t *p, uint8_t len)
{
	struct x86 x = {.len = len};
	uint8_t b[X86_MAX + 4] = {0}, *at = b; /* with room for a ModRM that is not there */

	memcpy(b, p, len < X86_MAX ? len : X86_MAX);
	for (;; at++) {
		if (*at == 0xf3)
			x.f3 = 1;
		else if (*at == 0x66 || *at == 0x67 || *at == 0xf0 || (*at & 0xe7) == 0x26 ||
			 (*at & 0xfe) == 0x64)
			x.odd = 1;
		else if (*at != 0xf2)
			break;
	}
	if ((*at & 0xf0) == 0x40)
		x.rex = *at++;
	x.two = *at == 0x0f;
	at += x.two;
	x.op = *at++;
	x.mod = *at >> 6;
	x.reg = *at >> 3 & 7;
	x.rm = *at++ & 7;
	x.base = *at & 7;
	return x;
}

/*
 * arch/x86/kernel/uprobes.c, branch_setup_xol_ops() and push_setup_xol_ops(), as in 5.10: near
 * calls and jumps to a known target, push of a register, the short nop. Left out: loop and jrcxz,
 * which they do not know, and branches with a prefix that they refuse.
 */
static int x86_is_emulated(const struct x86 *x)
{
	if (x->two)
		return (x->op & 0xf0) == 0x80 && !x->odd;
	if ((x->op & 0xf8) == 0x50)
		return x->len == 1 || (x->len == 2 && x->rex == 0x41);
	if (x->op == 0x90)
		return x->len == 1;
	return (x->op == 0xe8 || x->op == 0xe9 || x->op == 0xeb || (x->op & 0xf0) == 0x70) &&
	       !x->odd;
}

/* Is rsp (or its low byte) an operand, ModRM.reg being a register? */
static int x86_names_sp(const struct x86 *x, int reg_is_register)
{
	if (reg_is_register && x->reg == X86_SP && !(x->rex & REX_R))
		return 1;
	if (x->rm != X86_SP || (x->rex & REX_B))
		return 0;
	return x->mod == MOD_NONE || x->base == X86_SP;
}

/* Opcodes behind 0f that compute and load, and do no more. */
static int x86_is_plain_two(const struct x86 *x)
{
	switch (x->op) {
	case 0x1e: /* endbr64 */
		return x->f3 && x->mod == MOD_NONE && x->reg == 7 && x->rm == 2;
	case 0x1f: /* nop */
		return 1;
	case 0x10: /* movups and the like */
	case 0x11:
	case 0x28:
	case 0x29:
	case 0x57: /* xorps */
	case 0x6f: /* movdqa, movdqu */
	case 0x7f:
	case 0xef: /* pxor */
	case 0xaf: /* imul */
	case 0xb6: /* movzx, movsx */
	case 0xb7:
	case 0xbe:
	case 0xbf:
		return !x86_names_sp(x, 1);
	default: /* cmovcc */
		return (x->op & 0xf0) == 0x40 && !x86_names_sp(x, 1);
	}
}

/* The same of the one-byte opcodes; those that write a byte register are left out. */
static int x86_is_plain_one(const struct x86 *x)
{
	if (x->op < 0x40) { /* arithmetic; 38 and 3a: cmp of bytes */
		if ((x->op & 7) == 5)
			return 1;
		return ((x->op & 5) == 1 || x->op == 0x38 || x->op == 0x3a) && !x86_names_sp(x, 1);
	}
	switch (x->op) {
	case 0x63: /* movslq */
	case 0x69: /* imul */
	case 0x6b:
	case 0x84: /* test */
	case 0x85:
	case 0x89: /* mov */
	case 0x8b:
	case 0x8d: /* lea */
		return !x86_names_sp(x, 1);
	case 0x88: /* mov to memory */
		return x->mod != MOD_NONE && !x86_names_sp(x, 1);
	case 0x80: /* cmp */
		return x->reg == 7 && !x86_names_sp(x, 0);
	case 0x81: /* arithmetic with a constant */
	case 0x83:
	case 0xc1: /* shifts */
	case 0xd1:
	case 0xd3:
		return !x86_names_sp(x, 0);
	case 0xc6: /* mov of a constant */
		return x->reg == 0 && x->mod != MOD_NONE && !x86_names_sp(x, 0);
	case 0xc7:
		return x->reg == 0 && !x86_names_sp(x, 0);
	case 0xf6: /* test */
		return x->reg == 0 && !x86_names_sp(x, 0);
	case 0xf7: /* test, not, neg */
		return x->reg < 4 && x->reg != 1 && !x86_names_sp(x, 0);
	case 0xff: /* inc, dec */
		return x->reg < 2 && !x86_names_sp(x, 0);
	case 0x90: /* nop */
	case 0xa8: /* test */
	case 0xa9:
		return !(x->rex & REX_B);
	default: /* mov of a constant */
		return (x->op & 0xf8) == 0xb8 && ((x->op & 7) != X86_SP || (x->rex & REX_B));
	}
}

/* ---- AArch64 ---- */

#define A64_LR 30
#define A64_SP 31 /* or xzr */

/*
 * arch/arm64/kernel/probes/decode-insn.c: what 5.10 simulates. Not loads of a literal: refused
 * since 6.12, as the kernel read the target's memory without checking.
 */
static int a64_is_emulated(uint32_t w)
{
	uint32_t reg = w & 0xfffffc1f;

	return (w & 0x7c000000) == 0x14000000 || /* b, bl */
	       (w & 0xff000010) == 0x54000000 || /* b.cond */
	       (w & 0x7c000000) == 0x34000000 || /* cbz, cbnz, tbz, tbnz */
	       (w & 0x1f000000) == 0x10000000 || /* adr, adrp */
	       reg == 0xd61f0000 || reg == 0xd63f0000 || reg == 0xd65f0000; /* br, blr, ret */
}

/* May register field `at` of w be x30 or, where the encoding has none of xzr there, sp? */
static int a64_names(uint32_t w, unsigned int at, int zero)
{
	uint32_t reg = w >> at & 31;

	return reg == A64_LR || (reg == A64_SP && !zero);
}

/*
 * Hints that do nothing here; arithmetic with constants and registers; loads and stores at a
 * constant distance. None with x30 or sp: paciasp, stp x29, x30 ... end the stretch.
 */
static int a64_is_plain(uint32_t w)
{
	if ((w & 0xffffff3f) == 0xd503241f || w == 0xd503201f) /* bti, nop */
		return 1;
	if ((w & 0x1f800000) == 0x11000000) /* add, sub with a constant; cmp, cmn: result in xzr */
		return !a64_names(w, 0, (w & 0x20000000) != 0) && !a64_names(w, 5, 0);
	if ((w & 0x1f800000) == 0x12000000) /* and, orr, eor with a constant; tst: the same */
		return !a64_names(w, 0, (w & 0x60000000) == 0x60000000) && !a64_names(w, 5, 1);
	if ((w & 0x1f800000) == 0x12800000) /* movn, movz, movk */
		return !a64_names(w, 0, 1);
	if ((w & 0x1f000000) == 0x0a000000 || /* and, orr, mov; eor, ands of registers */
	    (w & 0x1f200000) == 0x0b000000)   /* add, sub of registers */
		return !a64_names(w, 0, 1) && !a64_names(w, 5, 1) && !a64_names(w, 16, 1);
	if ((w & 0x3f000000) == 0x39000000) /* ldr, str and their like, unsigned offset */
		return !a64_names(w, 0, 1) && !a64_names(w, 5, 0);
	return 0;
}

/* ---- both ---- */

static int is_emulated(uint16_t machine, const uint8_t *p, const struct gt_insn *in)
{
	struct x86 x;

	if (machine == EM_AARCH64)
		return a64_is_emulated(gt_get_le32(p));
	x = x86_parts(p, in->len);
	return x86_is_emulated(&x);
}

/* Does it leave alone what a probe at the entry finds: stack, return address, first argument? */
static int is_plain(uint16_t machine, const uint8_t *p, const struct gt_insn *in)
{
	int arg = gt_insn_first_arg(machine);
	struct x86 x;

	if (in->kind >= GT_INSN_SET && in->kind != GT_INSN_STORE &&
	    (in->dst == arg || in->src2 == arg))
		return 0;
	if (machine == EM_AARCH64)
		return a64_is_plain(gt_get_le32(p));
	x = x86_parts(p, in->len);
	return x.two ? x86_is_plain_two(&x) : x86_is_plain_one(&x);
}

int gt_emulated_at(const struct gt_image *img, uint64_t vaddr)
{
	const uint8_t *p = NULL;
	struct gt_insn in;
	uint64_t n = X86_MAX + 1;

	while (!p && --n)
		p = gt_image_at(img, vaddr, n);
	return p && !gt_insn_decode(img->machine, p, n, vaddr, &in) &&
	       is_emulated(img->machine, p, &in);
}

/* Does the function jump to somewhere in (start, point]? Yes, too, if that cannot be told. */
static int jumps_into(const struct gt_image *img, const uint8_t *code, const struct gt_range *fn,
		      uint64_t point)
{
	uint64_t len = fn->end - fn->start;
	struct gt_insn in;

	for (uint64_t at = 0; at < len; at += in.len) {
		if (gt_insn_decode(img->machine, code + at, len - at, fn->start + at, &in))
			return 1;
		if ((in.kind == GT_INSN_JUMP || in.kind == GT_INSN_COND ||
		     in.kind == GT_INSN_CALL) &&
		    in.target > fn->start && in.target <= point)
			return 1;
	}
	return 0;
}

uint64_t gt_emulated_point(const struct gt_image *img, const struct gt_range *fn)
{
	uint64_t len = fn->end > fn->start ? fn->end - fn->start : 0, at = 0;
	const uint8_t *code = len <= FUNCTION_MAX ? gt_image_at(img, fn->start, len) : NULL;
	struct gt_insn in;

	for (int i = 0; code && i < STRETCH_MAX && at < len; i++, at += in.len) {
		if (gt_insn_decode(img->machine, code + at, len - at, fn->start + at, &in))
			break;
		if (is_emulated(img->machine, code + at, &in))
			return jumps_into(img, code, fn, fn->start + at) ? fn->start
									 : fn->start + at;
		if (!is_plain(img->machine, code + at, &in))
			break;
	}
	return fn->start;
}
