// SPDX-License-Identifier: Apache-2.0
#include "insn.h"

#include <elf.h>

/* ---- x86-64 ---- */

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R11 = 11 };

/*
 * What follows an opcode: '.' nothing, 'm' ModRM, 'b' imm8, 'w' imm16, 'e' imm16 + imm8,
 * 'z' imm32 (imm16 with 66), 'v' imm32 (imm64 with REX.W), 'M' ModRM + imm8, 'Z' ModRM + imm32,
 * 'F' ModRM, an immediate for /0 and /1, 'o' an address, 'J' rel32, 'x' invalid in 64-bit mode.
 * Prefixes and the escapes 0f, 62, c4, c5 are dealt with before ('p').
 */
static const char x86_map0[] = "mmmmbzxxmmmmbzxp"
			       "mmmmbzxxmmmmbzxx"
			       "mmmmbzpxmmmmbzpx"
			       "mmmmbzpxmmmmbzpx"
			       "pppppppppppppppp"
			       "................"
			       "xxpmppppzZbM...."
			       "bbbbbbbbbbbbbbbb"
			       "MZxMmmmmmmmmmmmm"
			       "..........x....."
			       "oooo....bz......"
			       "bbbbbbbbvvvvvvvv"
			       "MMw.ppMZe.w..bx."
			       "mmmmxxx.mmmmmmmm"
			       "bbbbbbbbJJxb...."
			       "p.pp..FF......mm";
static const char x86_map1[] = "mmmmx.....x.xm.M"
			       "mmmmmmmmmmmmmmmm"
			       "mmmmxxxxmmmmmmmm"
			       "......x.mxMxxxxx"
			       "mmmmmmmmmmmmmmmm"
			       "mmmmmmmmmmmmmmmm"
			       "mmmmmmmmmmmmmmmm"
			       "MMMMmmm.mmxxmmmm"
			       "JJJJJJJJJJJJJJJJ"
			       "mmmmmmmmmmmmmmmm"
			       "...mMmxx...mMmmm"
			       "mmmmmmmmmmMmmmmm"
			       "mmMmMMMm........"
			       "mmmmmmmmmmmmmmmm"
			       "mmmmmmmmmmmmmmmm"
			       "mmmmmmmmmmmmmmmm";

struct x86 {
	const uint8_t *p;
	size_t n, at; /* at: bytes used */
	uint8_t rex, opsize, vex;
	uint8_t map, op;
	uint8_t modrm, has_modrm;
	uint8_t base; /* GT_INSN_NOREG: none or unknown */
	uint8_t rip;  /* disp is relative to the next instruction */
	int64_t disp, imm;
};

static int64_t sext(uint64_t v, unsigned int bits)
{
	uint64_t sign = 1ull << (bits - 1);

	v &= sign | (sign - 1);
	return (int64_t)((v ^ sign) - sign);
}

/* The next `size` bytes, sign-extended. Beyond the end: `at` passes n, which the caller checks. */
static int64_t x86_take(struct x86 *x, unsigned int size)
{
	uint64_t v = 0;

	if (!gt_in_range(x->at, size, x->n)) {
		x->at = x->n + 1;
		return 0;
	}
	for (unsigned int i = 0; i < size; i++)
		v |= (uint64_t)x->p[x->at + i] << (8 * i);
	x->at += size;
	return size ? sext(v, 8 * size) : 0;
}

static void x86_take_modrm(struct x86 *x)
{
	uint8_t mod, rm;

	x->has_modrm = 1;
	x->modrm = (uint8_t)x86_take(x, 1);
	mod = x->modrm >> 6;
	rm = x->modrm & 7;
	if (mod == 3)
		return;
	x->base = (uint8_t)(rm | (x->rex & 1) << 3);
	if (rm == 4) {
		uint8_t sib = (uint8_t)x86_take(x, 1);

		x->base = (uint8_t)((sib & 7) | (x->rex & 1) << 3);
		if (((sib >> 3 & 7) | (x->rex & 2) << 2) != 4) /* has an index */
			x->base = GT_INSN_NOREG;
		rm = sib & 7;
		if (mod == 0 && rm == 5)
			x->base = GT_INSN_NOREG;
	} else if (mod == 0 && rm == 5) {
		x->base = GT_INSN_NOREG;
		x->rip = 1;
	}
	if (mod == 1)
		x->disp = x86_take(x, 1);
	else if (mod == 2 || rm == 5)
		x->disp = x86_take(x, 4);
}

/* Prefixes, REX, VEX, EVEX and the opcode itself. */
static int x86_take_opcode(struct x86 *x)
{
	uint8_t b = (uint8_t)x86_take(x, 1);

	for (; x->at <= x->n; b = (uint8_t)x86_take(x, 1)) {
		if (b == 0x66)
			x->opsize = 1;
		else if (b != 0xf0 && b != 0xf2 && b != 0xf3 && b != 0x67 && (b & 0xe7) != 0x26 &&
			 b != 0x64 && b != 0x65)
			break;
	}
	if ((b & 0xf0) == 0x40) {
		x->rex = b;
		b = (uint8_t)x86_take(x, 1);
	}
	x->op = b;
	if (b == 0xc5 || b == 0xc4 || b == 0x62) {
		uint8_t first = (uint8_t)x86_take(x, 1);

		x->vex = 1;
		x->map = b == 0xc5 ? 1 : b == 0xc4 ? first & 0x1f : first & 7;
		x86_take(x, b == 0xc5 ? 0 : b == 0xc4 ? 1 : 2);
		x->op = (uint8_t)x86_take(x, 1);
		return x->map == 0 || x->map == 4 || x->map > 6 ? -1 : 0;
	}
	if (b != 0x0f)
		return 0;
	x->map = 1;
	x->op = (uint8_t)x86_take(x, 1);
	if (x->op == 0x38 || x->op == 0x3a) {
		x->map = x->op == 0x38 ? 2 : 3;
		x->op = (uint8_t)x86_take(x, 1);
	}
	return 0;
}

static char x86_form(const struct x86 *x)
{
	char form = 'm';

	if (x->map == 0)
		return x86_map0[x->op];
	if (x->map == 1)
		form = x86_map1[x->op];
	else if (x->map == 3)
		form = 'M';
	/* With VEX: no jumps, and no forms without ModRM but vzeroupper. */
	if (x->vex && form != 'M' && !(x->map == 1 && x->op == 0x77))
		form = 'm';
	return form;
}

static int x86_parse(struct x86 *x)
{
	unsigned int z;
	char form;

	if (x86_take_opcode(x))
		return -1;
	z = x->opsize ? 2 : 4;
	form = x86_form(x);
	if (strchr("mMZF", form))
		x86_take_modrm(x);
	if (form == 'F' && (x->modrm >> 3 & 7) < 2)
		form = x->op == 0xf6 ? 'b' : 'z';
	if (strchr("bM", form))
		x->imm = x86_take(x, 1);
	else if (strchr("zZ", form))
		x->imm = x86_take(x, z);
	else if (form == 'v')
		x->imm = x86_take(x, x->rex & 8 ? 8 : z);
	else if (form == 'J')
		x->imm = x86_take(x, 4);
	else if (form == 'o')
		x86_take(x, 8);
	else if (form == 'w' || form == 'e')
		x86_take(x, form == 'w' ? 2 : 3);
	return form == 'x' || form == 'p' || x->at > x->n || x->at > 15 ? -1 : 0;
}

/* Calls and jumps; 1 if it is one. */
static int x86_flow(const struct x86 *x, struct gt_insn *out)
{
	uint64_t next = out->pc + out->len;
	uint8_t reg = x->modrm >> 3 & 7;

	out->target = next + (uint64_t)x->imm;
	if (x->map == 1) {
		out->kind = GT_INSN_COND;
		return (x->op & 0xf0) == 0x80;
	}
	if (x->op == 0xe8 || x->op == 0xe9 || x->op == 0xeb) {
		out->kind = x->op == 0xe8 ? GT_INSN_CALL : GT_INSN_JUMP;
	} else if ((x->op & 0xf0) == 0x70 || (x->op & 0xfc) == 0xe0) {
		out->kind = GT_INSN_COND;
	} else if (x->op == 0xc2 || x->op == 0xc3) {
		out->kind = GT_INSN_STOP;
	} else if (x->op == 0xff && (reg == 2 || reg == 4)) {
		out->kind = reg == 2 ? GT_INSN_CALL_OTHER : GT_INSN_STOP;
		if (x->rip) {
			out->kind = reg == 2 ? GT_INSN_CALL_MEM : GT_INSN_JUMP_MEM;
			out->target = next + (uint64_t)x->disp;
		} else if (x->modrm >> 6 == 3) {
			out->kind = reg == 2 ? GT_INSN_CALL_REG : GT_INSN_JUMP_REG;
			out->src = (uint8_t)((x->modrm & 7) | (x->rex & 1) << 3);
		}
	} else {
		return 0;
	}
	return 1;
}

/* Does an instruction of the one-byte map that is not understood otherwise write modrm.reg / rm? */
static int x86_writes_reg(uint8_t op)
{
	return (op < 0x40 && (op & 7) == 3 && op != 0x3b) || op == 0x63 || op == 0x69 ||
	       op == 0x6b || op == 0x87;
}

static int x86_writes_rm(uint8_t op, uint8_t reg)
{
	return (op < 0x38 && (op & 7) == 1) || op == 0xc1 || op == 0xd1 || op == 0xd3 ||
	       ((op == 0x81 || op == 0x83) && reg != 7) || (op == 0xf7 && reg > 1 && reg < 4) ||
	       (op == 0xff && reg < 2);
}

static void x86_other(const struct x86 *x, struct gt_insn *out, uint8_t reg, uint8_t rm)
{
	uint8_t ext = reg & 7;

	out->kind = GT_INSN_CLOBBER;
	if (x->map == 1 && !x->vex &&
	    ((x->op & 0xf0) == 0x40 || (x->op & 0xf6) == 0xb6 || x->op == 0xaf))
		out->dst = reg; /* cmovcc, movzx, movsx, imul */
	else if (x->map == 0 && (x->op & 0xf8) == 0x58)
		out->dst = (uint8_t)((x->op & 7) | (x->rex & 1) << 3); /* pop */
	else if (x->map == 0 && x->has_modrm && x86_writes_reg(x->op))
		out->dst = reg;
	else if (x->map == 0 && x->has_modrm && rm != GT_INSN_NOREG && x86_writes_rm(x->op, ext))
		out->dst = rm;
	else
		out->kind = GT_INSN_OTHER;
}

/* Moves and address arithmetic of the one-byte map; 1 if it is one. */
static int x86_move(const struct x86 *x, struct gt_insn *out, uint8_t reg, uint8_t rm)
{
	uint8_t ext = reg & 7;

	out->imm = x->disp;
	out->dst = reg;
	out->src = x->base;
	if (x->op == 0x8d || x->op == 0x8b) { /* lea, mov from memory */
		out->target = out->pc + out->len + (uint64_t)x->disp;
		if (x->op == 0x8b && rm != GT_INSN_NOREG) {
			out->kind = GT_INSN_ADD;
			out->src = rm;
			out->imm = 0;
		} else if (x->rip) {
			out->kind = x->op == 0x8d ? GT_INSN_SET : GT_INSN_LOAD_ABS;
			out->imm = x->op == 0x8d ? (int64_t)out->target : 0;
		} else if (x->base != GT_INSN_NOREG) {
			out->kind = x->op == 0x8d ? GT_INSN_ADD : GT_INSN_LOAD;
		} else {
			out->kind = GT_INSN_CLOBBER;
		}
	} else if (x->op == 0x89 && rm != GT_INSN_NOREG) {
		*out = (struct gt_insn){.pc = out->pc,
					.len = out->len,
					.kind = GT_INSN_ADD,
					.dst = rm,
					.src = reg,
					.src2 = GT_INSN_NOREG};
	} else if (x->op == 0x89 && x->base != GT_INSN_NOREG) {
		out->kind = GT_INSN_STORE;
		out->dst = x->base;
		out->src = reg;
	} else if ((x->op & 0xf8) == 0xb8 || (x->op == 0xc7 && rm != GT_INSN_NOREG)) {
		out->kind = GT_INSN_SET;
		out->dst = x->op == 0xc7 ? rm : (uint8_t)((x->op & 7) | (x->rex & 1) << 3);
		out->imm = x->rex & 8 ? x->imm : (int64_t)(uint32_t)x->imm;
	} else if (x->op == 0x05 || ((x->op == 0x81 || x->op == 0x83) && rm != GT_INSN_NOREG &&
				     (ext == 0 || ext == 5))) {
		out->kind = GT_INSN_ADD;
		out->dst = out->src = x->op == 0x05 ? (uint8_t)RAX : rm;
		out->imm = x->op != 0x05 && ext == 5 ? -x->imm : x->imm;
	} else {
		return 0;
	}
	return 1;
}

static int x86_decode(const uint8_t *p, size_t n, struct gt_insn *out)
{
	struct x86 x = {.p = p, .n = n, .base = GT_INSN_NOREG};
	uint8_t reg, rm = GT_INSN_NOREG;

	if (x86_parse(&x))
		return -EINVAL;
	out->len = (uint8_t)x.at;
	if (!x.vex && x.map < 2 && x86_flow(&x, out))
		return 0;
	out->target = 0;
	reg = (uint8_t)((x.modrm >> 3 & 7) | (x.rex & 4) << 1);
	if (x.has_modrm && x.modrm >> 6 == 3)
		rm = (uint8_t)((x.modrm & 7) | (x.rex & 1) << 3);
	if (x.map == 0 && !x.vex && x86_move(&x, out, reg, rm))
		return 0;
	out->dst = out->src = GT_INSN_NOREG;
	out->imm = 0;
	x86_other(&x, out, reg, rm);
	return 0;
}

static void x86_scan(const uint8_t *p, size_t n, uint64_t pc, gt_insn_fn *fn, void *ctx)
{
	for (size_t i = 0; i + 6 <= n; i++) {
		struct gt_insn in = {.dst = GT_INSN_NOREG, .src = GT_INSN_NOREG};
		uint8_t b = p[i], next = p[i + 1];
		size_t at = i + 2;

		if (b == 0xe8 || b == 0xe9) {
			in.kind = b == 0xe8 ? GT_INSN_CALL : GT_INSN_JUMP;
			at = i + 1;
		} else if (b == 0xff && (next == 0x15 || next == 0x25)) {
			in.kind = next == 0x15 ? GT_INSN_CALL_MEM : GT_INSN_JUMP_MEM;
		} else if (b == 0x0f && (next & 0xf0) == 0x80) {
			in.kind = GT_INSN_COND;
		} else if (b == 0x8b && (next & 0xc7) == 0x05) {
			in.kind = GT_INSN_LOAD_ABS;
		} else {
			continue;
		}
		in.len = (uint8_t)(at + 4 - i);
		in.pc = pc + i;
		in.target = in.pc + in.len + (uint64_t)(int64_t)(int32_t)gt_get_le32(p + at);
		fn(ctx, &in);
	}
}

/* ---- AArch64 ---- */

static uint64_t a64_page(uint64_t pc, uint32_t w)
{
	uint64_t imm = (uint64_t)(w >> 5 & 0x7ffff) << 2 | (w >> 29 & 3);

	return (pc & ~0xfffull) + (uint64_t)sext(imm, 21) * 4096;
}

static int a64_is_adrp(uint32_t w)
{
	return (w & 0x9f000000) == 0x90000000;
}

static int a64_is_ldr(uint32_t w) /* 64-bit, unsigned offset */
{
	return (w & 0xffc00000) == 0xf9400000;
}

static int a64_flow(uint32_t w, struct gt_insn *out)
{
	uint64_t off = 0;

	if ((w & 0x7c000000) == 0x14000000) { /* b, bl */
		out->kind = w >> 31 ? GT_INSN_CALL : GT_INSN_JUMP;
		off = (uint64_t)sext(w, 26) * 4;
	} else if ((w & 0xff000000) == 0x54000000 || (w & 0x7e000000) == 0x34000000) {
		out->kind = GT_INSN_COND; /* b.cond, cbz, cbnz */
		off = (uint64_t)sext(w >> 5, 19) * 4;
	} else if ((w & 0x7e000000) == 0x36000000) { /* tbz, tbnz */
		out->kind = GT_INSN_COND;
		off = (uint64_t)sext(w >> 5, 14) * 4;
	} else if ((w & 0xfffffc1f) == 0xd63f0000 || (w & 0xfffffc1f) == 0xd61f0000) {
		out->kind = w & 0x00200000 ? GT_INSN_CALL_REG : GT_INSN_JUMP_REG;
		out->src = w >> 5 & 31;
		return 1;
	} else if ((w & 0xfe000000) == 0xd6000000) { /* ret, retaa, braa, blraa ... */
		out->kind = (w & 0x00600000) == 0x00200000 ? GT_INSN_CALL_OTHER : GT_INSN_STOP;
		return 1;
	} else {
		return 0;
	}
	out->target = out->pc + off;
	return 1;
}

/* stp / ldp of two 64-bit registers: signed offset, without a change of the base. */
static int a64_pair(uint32_t w, struct gt_insn *out)
{
	if ((w & 0xfe400000) == 0xa8400000 && (w & 0x01800000) != 0x01000000) {
		out->kind = GT_INSN_CLOBBER; /* ldp that changes the base, too: sp in an epilogue */
		out->dst = w & 31;
		out->src2 = w >> 10 & 31;
		return 1;
	}
	if ((w & 0xff800000) != 0xa9000000)
		return 0;
	out->imm = sext(w >> 15, 7) * 8;
	if (w & 0x00400000) {
		out->kind = GT_INSN_LOAD;
		out->dst = w & 31;
		out->src = w >> 5 & 31;
	} else {
		out->kind = GT_INSN_STORE;
		out->dst = w >> 5 & 31;
		out->src = w & 31;
	}
	out->src2 = w >> 10 & 31;
	return 1;
}

/* Stores, and loads of vector registers: no general register changes. */
static int a64_is_memory_only(uint32_t w)
{
	if ((w & 0x0a000000) != 0x08000000)
		return 0;
	if (w & 0x04000000)
		return 1;
	/* Bit 22 says load, except in ldrsb, ldrsh and ldrsw to 64 bits, where bit 23 does. */
	return !(w & ((w & 0x38000000) == 0x38000000 ? 0x00c00000 : 0x00400000));
}

static int a64_decode(const uint8_t *p, size_t n, struct gt_insn *out)
{
	uint32_t w;

	if (n < 4 || out->pc & 3)
		return -EINVAL;
	w = gt_get_le32(p);
	out->len = 4;
	if (a64_flow(w, out) || a64_pair(w, out))
		return 0;
	out->dst = w & 31;
	out->src = w >> 5 & 31;
	if ((w & 0x3b200400) == 0x38000400) { /* load or store with write-back */
		out->kind = GT_INSN_ADD;
		out->imm = sext(w >> 12, 9);
		out->dst = out->src;
		if (w & 0x00c00000 && !(w & 0x04000000))
			out->src2 = w & 31;
	} else if ((w & 0xffa00c00) == 0xf8000000) { /* ldur, stur: 64-bit */
		int load = (w & 0x00400000) != 0;

		out->kind = load ? GT_INSN_LOAD : GT_INSN_STORE;
		out->imm = sext(w >> 12, 9);
		out->src = load ? w >> 5 & 31 : w & 31;
		out->dst = load ? w & 31 : w >> 5 & 31;
	} else if (a64_is_adrp(w)) {
		out->kind = GT_INSN_SET;
		out->imm = (int64_t)a64_page(out->pc, w);
	} else if ((w & 0x9f000000) == 0x10000000) { /* adr */
		out->kind = GT_INSN_SET;
		out->imm = (int64_t)(out->pc + (uint64_t)sext((uint64_t)(w >> 5 & 0x7ffff) << 2 |
								      (w >> 29 & 3),
							      21));
	} else if ((w & 0xbf800000) == 0x91000000) { /* add, sub: 64-bit, immediate */
		out->kind = GT_INSN_ADD;
		out->imm = (int64_t)(w >> 10 & 0xfff) << (w & 0x00400000 ? 12 : 0);
		if (w & 0x40000000)
			out->imm = -out->imm;
	} else if ((w & 0xffe0ffe0) == 0xaa0003e0) { /* mov */
		out->kind = GT_INSN_ADD;
		out->src = w >> 16 & 31;
	} else if (a64_is_ldr(w)) {
		out->kind = GT_INSN_LOAD;
		out->imm = (int64_t)(w >> 10 & 0xfff) * 8;
	} else if ((w & 0xffc00000) == 0xf9000000) { /* str, 64-bit, unsigned offset */
		out->kind = GT_INSN_STORE;
		out->imm = (int64_t)(w >> 10 & 0xfff) * 8;
		out->src = w & 31;
		out->dst = w >> 5 & 31;
	} else if (a64_is_memory_only(w)) {
		out->kind = GT_INSN_OTHER;
	} else {
		out->kind = GT_INSN_CLOBBER;
	}
	if (out->kind != GT_INSN_ADD && out->kind != GT_INSN_LOAD && out->kind != GT_INSN_STORE)
		out->src = GT_INSN_NOREG;
	if (out->kind == GT_INSN_OTHER)
		out->dst = GT_INSN_NOREG;
	return 0;
}

#define A64_PAIR_SPAN 16 /* instructions between an adrp and the ldr that goes with it */

static void a64_scan_loads(const uint8_t *p, size_t n, struct gt_insn *in, gt_insn_fn *fn,
			   void *ctx)
{
	uint32_t w = gt_get_le32(p), reg = w & 31;
	uint64_t page = a64_page(in->pc, w);

	for (size_t i = 4; i + 4 <= n && i <= 4ul * A64_PAIR_SPAN; i += 4) {
		uint32_t next = gt_get_le32(p + i);

		if (a64_is_ldr(next) && (next >> 5 & 31) == reg) {
			struct gt_insn load = {.pc = in->pc + i,
					       .kind = GT_INSN_LOAD_ABS,
					       .len = 4,
					       .src = GT_INSN_NOREG,
					       .dst = next & 31};

			load.target = page + (uint64_t)(next >> 10 & 0xfff) * 8;
			fn(ctx, &load);
		}
		if (a64_is_adrp(next) && (next & 31) == reg)
			break;
	}
}

static void a64_scan(const uint8_t *p, size_t n, uint64_t pc, gt_insn_fn *fn, void *ctx)
{
	for (size_t i = 0; i + 4 <= n; i += 4) {
		struct gt_insn in = {
			.pc = pc + i, .len = 4, .dst = GT_INSN_NOREG, .src = GT_INSN_NOREG};
		uint32_t w = gt_get_le32(p + i);

		if (a64_is_adrp(w))
			a64_scan_loads(p + i, n - i, &in, fn, ctx);
		else if ((w & 0x14000000) == 0x14000000 && a64_flow(w, &in) && in.target)
			fn(ctx, &in);
	}
}

/* ---- both ---- */

int gt_insn_first_arg(uint16_t machine)
{
	return machine == EM_X86_64 ? RDI : 0;
}

int gt_insn_is_stack(uint16_t machine, uint8_t reg)
{
	return reg == (machine == EM_X86_64 ? RSP : 31);
}

int gt_insn_is_frame(uint16_t machine, uint8_t reg)
{
	return gt_insn_is_stack(machine, reg) || reg == (machine == EM_X86_64 ? RBP : 29);
}

int gt_insn_call_keeps(uint16_t machine, uint8_t reg)
{
	if (machine == EM_AARCH64)
		return reg >= 19;
	return reg == RBX || reg == RSP || reg == RBP || reg > R11;
}

int gt_insn_decode(uint16_t machine, const uint8_t *p, size_t n, uint64_t pc, struct gt_insn *out)
{
	*out = (struct gt_insn){
		.pc = pc, .dst = GT_INSN_NOREG, .src = GT_INSN_NOREG, .src2 = GT_INSN_NOREG};
	return machine == EM_X86_64 ? x86_decode(p, n, out) : a64_decode(p, n, out);
}

void gt_insn_scan(uint16_t machine, const uint8_t *p, size_t n, uint64_t pc, gt_insn_fn *fn,
		  void *ctx)
{
	if (machine == EM_X86_64)
		x86_scan(p, n, pc, fn, ctx);
	else
		a64_scan(p, n, pc, fn, ctx);
}

static int bytes_before(const uint8_t *p, uint64_t at, const void *bytes, size_t len)
{
	return at >= len && !memcmp(p + at - len, bytes, len);
}

int gt_insn_plt_stub(uint16_t machine, const uint8_t *p, size_t n, uint64_t pc,
		     const struct gt_insn *in, uint64_t *entry)
{
	uint64_t at = in->pc - pc;

	if (machine == EM_X86_64) {
		if (in->kind != GT_INSN_JUMP_MEM)
			return 0;
		if (bytes_before(p, at, "\xf2", 1))
			at--;
		if (bytes_before(p, at, "\xf3\x0f\x1e\xfa", 4))
			at -= 4;
		*entry = pc + at;
		return 1;
	}
	/* adrp x16; ldr x17, [x16, #lo]; add x16, x16, #lo; [autia1716;] br x17 */
	if (in->kind != GT_INSN_LOAD_ABS || in->dst != 17 || at < 4 || !gt_in_range(at, 12, n) ||
	    !a64_is_adrp(gt_get_le32(p + at - 4)) || (gt_get_le32(p + at) >> 5 & 31) != 16)
		return 0;
	at -= 4;
	if (bytes_before(p, at, "\x5f\x24\x03\xd5", 4)) /* bti c */
		at -= 4;
	*entry = pc + at;
	return 1;
}
