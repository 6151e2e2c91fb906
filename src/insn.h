/* SPDX-License-Identifier: Apache-2.0 */
/*
 * insn.h - just enough of x86-64 and AArch64 to find calls and to see how an address came into a
 * register: instruction lengths, targets of calls and jumps, moves, address arithmetic with
 * constants, loads and stores on the stack. All else is "other".
 *
 * Works on bytes in memory, reads nothing beyond the length given, holds no state.
 */
#ifndef GT_INSN_H
#define GT_INSN_H

#include "base.h"

enum gt_insn_kind {
	GT_INSN_OTHER,
	GT_INSN_CALL,     /* to .target */
	GT_INSN_JUMP,     /* to .target, always */
	GT_INSN_COND,     /* to .target, perhaps */
	GT_INSN_CALL_MEM, /* to the address stored at .target (x86-64: call *slot(%rip)) */
	GT_INSN_JUMP_MEM,
	GT_INSN_CALL_REG, /* to the address in register .src */
	GT_INSN_JUMP_REG,
	GT_INSN_CALL_OTHER,
	GT_INSN_STOP, /* ret, indirect jump: what follows is reached from elsewhere */
	/* What it does to a register: */
	GT_INSN_SET,      /* .dst = .imm */
	GT_INSN_ADD,      /* .dst = .src + .imm */
	GT_INSN_LOAD_ABS, /* .dst = what is stored at address .target */
	GT_INSN_LOAD,     /* .dst = what is stored at .src + .imm */
	GT_INSN_STORE,    /* .dst is the base, .src is stored at .dst + .imm */
	GT_INSN_CLOBBER,  /* .dst = something else */
};

#define GT_INSN_NOREG 0xff

struct gt_insn {
	uint64_t pc;
	uint64_t target;
	int64_t imm;
	uint8_t kind; /* enum gt_insn_kind */
	uint8_t len;
	uint8_t dst, src; /* registers by their number in the encoding, or GT_INSN_NOREG */
	uint8_t src2; /* AArch64: of stp, ldp the second register, at .imm + 8; of an ADD that is
		       * the write-back of a load the register loaded; else GT_INSN_NOREG */
};

/* Registers with a part in the calling convention. */
int gt_insn_first_arg(uint16_t machine);               /* rdi, x0 */
int gt_insn_is_stack(uint16_t machine, uint8_t reg);   /* rsp, sp */
int gt_insn_is_frame(uint16_t machine, uint8_t reg);   /* that or rbp, x29, free for other use */
int gt_insn_call_keeps(uint16_t machine, uint8_t reg); /* callee-saved */

/* Decodes the instruction at p. -EINVAL: not one, or cut off. */
int gt_insn_decode(uint16_t machine, const uint8_t *p, size_t n, uint64_t pc, struct gt_insn *out);

/*
 * Goes over code fast and, on x86-64, without regard to instruction boundaries: tells everything
 * that looks like a call, a jump or a load with a known target (CALL, JUMP, COND, CALL_MEM,
 * JUMP_MEM, LOAD_ABS). The few that matter are to be checked with gt_insn_decode.
 */
typedef void gt_insn_fn(void *ctx, const struct gt_insn *in);
void gt_insn_scan(uint16_t machine, const uint8_t *p, size_t n, uint64_t pc, gt_insn_fn *fn,
		  void *ctx);

/*
 * Is there a PLT stub whose jump through a GOT slot is told by `in` (x86-64: JUMP_MEM, AArch64:
 * LOAD_ABS, as from gt_insn_scan over the code at p with address pc)? Gives where callers enter:
 * before the jump there may be endbr64 and a bnd prefix, or bti c. 1 / 0.
 */
int gt_insn_plt_stub(uint16_t machine, const uint8_t *p, size_t n, uint64_t pc,
		     const struct gt_insn *in, uint64_t *entry);

#endif
