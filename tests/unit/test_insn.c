// SPDX-License-Identifier: Apache-2.0
/* Instructions by hand, and all of a real library against objdump. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gilfix.h"
#include "insn.h"

#include <elf.h>

#define PC 0x401000u

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R15 = 15 };

struct x86_case {
	const char *what, *bytes;
	uint8_t len, kind, dst, src;
	int64_t imm;
	uint64_t target;
};

#define NO GT_INSN_NOREG

static const struct x86_case x86_cases[] = {
	{"call", "\xe8\x10\x00\x00\x00", 5, GT_INSN_CALL, NO, NO, 0x10, PC + 0x15},
	{"call back", "\xe8\xfb\xff\xff\xff", 5, GT_INSN_CALL, NO, NO, -5, PC},
	{"jmp", "\xe9\x00\x01\x00\x00", 5, GT_INSN_JUMP, NO, NO, 0x100, PC + 0x105},
	{"jmp short", "\xeb\xfe", 2, GT_INSN_JUMP, NO, NO, -2, PC},
	{"jne", "\x0f\x85\x00\x02\x00\x00", 6, GT_INSN_COND, NO, NO, 0x200, PC + 0x206},
	{"je short", "\x74\x02", 2, GT_INSN_COND, NO, NO, 2, PC + 4},
	{"bnd jmp", "\xf2\xe9\x00\x00\x00\x00", 6, GT_INSN_JUMP, NO, NO, 0, PC + 6},
	{"call *slot(%rip)", "\xff\x15\x08\x00\x00\x00", 6, GT_INSN_CALL_MEM, NO, NO, 0, PC + 14},
	{"jmp *slot(%rip)", "\xff\x25\xf8\xff\xff\xff", 6, GT_INSN_JUMP_MEM, NO, NO, 0, PC - 2},
	{"call *%r12", "\x41\xff\xd4", 3, GT_INSN_CALL_REG, NO, 12, 0, 0},
	{"jmp *%rax", "\xff\xe0", 2, GT_INSN_JUMP_REG, NO, RAX, 0, 0},
	{"call *8(%rax)", "\xff\x50\x08", 3, GT_INSN_CALL_OTHER, NO, NO, 0, 0},
	{"ret", "\xc3", 1, GT_INSN_STOP, NO, NO, 0, 0},
	{"endbr64", "\xf3\x0f\x1e\xfa", 4, GT_INSN_OTHER, NO, NO, 0, 0},
	{"lea 0x1e0(%r15),%rdi", "\x49\x8d\xbf\xe0\x01\x00\x00", 7, GT_INSN_ADD, RDI, R15, 0x1e0,
	 0},
	{"lea 0x78(%rsp),%rdi", "\x48\x8d\x7c\x24\x78", 5, GT_INSN_ADD, RDI, RSP, 0x78, 0},
	{"lea 8(%rip),%rdi", "\x48\x8d\x3d\x08\x00\x00\x00", 7, GT_INSN_SET, RDI, NO, PC + 15, 0},
	{"lea (%rax,%rcx,1),%rdx", "\x48\x8d\x14\x08", 4, GT_INSN_CLOBBER, RDX, NO, 0, 0},
	{"mov %rbp,%rdi", "\x48\x89\xef", 3, GT_INSN_ADD, RDI, RBP, 0, 0},
	{"mov %rdi,%r15 (8b)", "\x4c\x8b\xff", 3, GT_INSN_ADD, R15, RDI, 0, 0},
	{"mov $0xa5b8c8,%edi", "\xbf\xc8\xb8\xa5\x00", 5, GT_INSN_SET, RDI, NO, 0xa5b8c8, 0},
	{"movabs", "\x48\xb8\x01\x02\x03\x04\x05\x06\x07\x08", 10, GT_INSN_SET, RAX, NO,
	 0x0807060504030201, 0},
	{"mov $-1,%rdi", "\x48\xc7\xc7\xff\xff\xff\xff", 7, GT_INSN_SET, RDI, NO, -1, 0},
	{"add $0x60,%rdi", "\x48\x83\xc7\x60", 4, GT_INSN_ADD, RDI, RDI, 0x60, 0},
	{"sub $-128,%rdi", "\x48\x83\xef\x80", 4, GT_INSN_ADD, RDI, RDI, 128, 0},
	{"add $0x1e0,%rax", "\x48\x05\xe0\x01\x00\x00", 6, GT_INSN_ADD, RAX, RAX, 0x1e0, 0},
	{"mov 0x18(%rsp),%rdi", "\x48\x8b\x7c\x24\x18", 5, GT_INSN_LOAD, RDI, RSP, 0x18, 0},
	{"mov %rax,0x18(%rsp)", "\x48\x89\x44\x24\x18", 5, GT_INSN_STORE, RSP, RAX, 0x18, 0},
	{"mov %rdi,-8(%rbp)", "\x48\x89\x7d\xf8", 4, GT_INSN_STORE, RBP, RDI, -8, 0},
	{"mov slot(%rip),%rbx", "\x48\x8b\x1d\x01\x00\x00\x00", 7, GT_INSN_LOAD_ABS, RBX, NO, 0,
	 PC + 8},
	{"pop %r15", "\x41\x5f", 2, GT_INSN_CLOBBER, R15, NO, 0, 0},
	{"cmove %rdx,%rax", "\x48\x0f\x44\xc2", 4, GT_INSN_CLOBBER, RAX, NO, 0, 0},
	{"xor %edi,%edi", "\x31\xff", 2, GT_INSN_CLOBBER, RDI, NO, 0, 0},
	{"cmp $1,%rdi", "\x48\x83\xff\x01", 4, GT_INSN_OTHER, NO, NO, 0, 0},
	{"movl $1,0x178(%r15)", "\x41\xc7\x87\x78\x01\x00\x00\x01\x00\x00\x00", 11, GT_INSN_OTHER,
	 NO, NO, 0, 0},
	{"lock orq $1,0x18(%r13)", "\xf0\x49\x83\x4d\x18\x01", 6, GT_INSN_OTHER, NO, NO, 0, 0},
	{"test $4,%dil", "\x40\xf6\xc7\x04", 4, GT_INSN_OTHER, NO, NO, 0, 0},
	{"neg %eax", "\xf7\xd8", 2, GT_INSN_CLOBBER, RAX, NO, 0, 0},
	{"ud2", "\x0f\x0b", 2, GT_INSN_OTHER, NO, NO, 0, 0},
	{"pshufb", "\x66\x0f\x38\x00\xc1", 5, GT_INSN_OTHER, NO, NO, 0, 0},
	{"palignr $8", "\x66\x0f\x3a\x0f\xc1\x08", 6, GT_INSN_OTHER, NO, NO, 0, 0},
	{"vzeroupper", "\xc5\xf8\x77", 3, GT_INSN_OTHER, NO, NO, 0, 0},
	{"vpermq $0xd8", "\xc4\xe3\xfd\x00\xc0\xd8", 6, GT_INSN_OTHER, NO, NO, 0, 0},
	{"vpternlogd", "\x62\xf3\x7d\x48\x25\xc0\xff", 7, GT_INSN_OTHER, NO, NO, 0, 0},
	{"vmovdqu64 0x40(%rdi),%zmm0", "\x62\xf1\xfe\x48\x6f\x47\x01", 7, GT_INSN_OTHER, NO, NO, 0,
	 0},
	{"nopw", "\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00", 10, GT_INSN_OTHER, NO, NO, 0, 0},
};

static void test_x86(void **state)
{
	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(x86_cases); i++) {
		const struct x86_case *c = &x86_cases[i];
		int flow = c->kind <= GT_INSN_STOP;
		struct gt_insn in;

		if (gt_insn_decode(EM_X86_64, (const uint8_t *)c->bytes, c->len, PC, &in) ||
		    in.len != c->len || in.kind != c->kind || in.src != c->src ||
		    (!flow && (in.dst != c->dst || in.imm != c->imm)) ||
		    (c->target && in.target != c->target))
			fail_msg("%s: len %d kind %d dst %d src %d imm %lld target %llx", c->what,
				 in.len, in.kind, in.dst, in.src, (long long)in.imm,
				 (unsigned long long)in.target);
		for (size_t cut = 0; cut < c->len; cut++) {
			/* Heap memory of that size: a byte too far is seen by AddressSanitizer. */
			uint8_t *p = malloc(cut + 1);

			memcpy(p + 1, c->bytes, cut);
			if (!gt_insn_decode(EM_X86_64, p + 1, cut, PC, &in))
				assert_true(in.len <= cut);
			free(p);
		}
	}
}

static void test_x86_invalid(void **state)
{
	static const uint8_t bad[][2] = {{0x06, 0}, {0x9a, 0}, {0xea, 0}, {0x0f, 0x04}, {0xd6, 0}};
	static const uint8_t prefixes[20] = "ffffffffffffffffffff";
	struct gt_insn in;

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(bad); i++)
		assert_int_equal(gt_insn_decode(EM_X86_64, bad[i], 2, PC, &in), -EINVAL);
	assert_int_equal(gt_insn_decode(EM_X86_64, prefixes, 20, PC, &in),
			 -EINVAL); /* > 15 bytes */
}

struct a64_case {
	const char *what;
	uint32_t word;
	uint8_t kind, dst, src;
	int64_t imm;
	uint64_t target;
};

static const struct a64_case a64_cases[] = {
	{"bl .+0x20", 0x94000008, GT_INSN_CALL, NO, NO, 0, PC + 0x20},
	{"b .-4", 0x17ffffff, GT_INSN_JUMP, NO, NO, 0, PC - 4},
	{"b.eq .+8", 0x54000040, GT_INSN_COND, NO, NO, 0, PC + 8},
	{"cbnz w0, .+16", 0x35000080, GT_INSN_COND, NO, NO, 0, PC + 16},
	{"tbz w1, #3, .-8", 0x361fffc1, GT_INSN_COND, NO, NO, 0, PC - 8},
	{"blr x3", 0xd63f0060, GT_INSN_CALL_REG, NO, 3, 0, 0},
	{"br x17", 0xd61f0220, GT_INSN_JUMP_REG, NO, 17, 0, 0},
	{"ret", 0xd65f03c0, GT_INSN_STOP, NO, NO, 0, 0},
	{"retaa", 0xd65f0bff, GT_INSN_STOP, NO, NO, 0, 0},
	{"adrp x0, .+0x1000", 0xb0000000, GT_INSN_SET, 0, NO, 0x402000, 0},
	{"adr x1, .+4", 0x10000021, GT_INSN_SET, 1, NO, PC + 4, 0},
	{"add x0, x19, #0x60", 0x91018260, GT_INSN_ADD, 0, 19, 0x60, 0},
	{"add x0, x19, #1, lsl #12", 0x91400660, GT_INSN_ADD, 0, 19, 0x1000, 0},
	{"sub x0, x20, #16", 0xd1004280, GT_INSN_ADD, 0, 20, -16, 0},
	{"mov x0, x21", 0xaa1503e0, GT_INSN_ADD, 0, 21, 0, 0},
	{"ldr x0, [sp, #72]", 0xf94027e0, GT_INSN_LOAD, 0, 31, 72, 0},
	{"str x3, [sp, #104]", 0xf90037e3, GT_INSN_STORE, 31, 3, 104, 0},
	{"stp x19, x20, [sp, #16]", 0xa90153f3, GT_INSN_STORE, 31, 19, 16, 0},
	{"ldp x0, x1, [sp, #32]", 0xa94207e0, GT_INSN_LOAD, 0, 31, 32, 0},
	{"ldr x0, [x2], #32", 0xf8420440, GT_INSN_ADD, 2, 2, 32, 0},
	{"ldur x0, [x29, #-8]", 0xf85f83a0, GT_INSN_LOAD, 0, 29, -8, 0},
	{"stur x0, [x29, #-8]", 0xf81f83a0, GT_INSN_STORE, 29, 0, -8, 0},
	{"str w3, [x25]", 0xb9000323, GT_INSN_OTHER, NO, NO, 0, 0},
	{"ldr w3, [x25]", 0xb9400323, GT_INSN_CLOBBER, 3, NO, 0, 0},
	{"ldrsw x0, [x2, #16]", 0xb9801040, GT_INSN_CLOBBER, 0, NO, 0, 0},
	{"ldr d0, [x25]", 0xfd400320, GT_INSN_OTHER, NO, NO, 0, 0},
	{"str q0, [x25]", 0x3d800320, GT_INSN_OTHER, NO, NO, 0, 0},
	{"stp w1, w2, [x25]", 0x29000b21, GT_INSN_OTHER, NO, NO, 0, 0},
	{"mov w0, #1", 0x52800020, GT_INSN_CLOBBER, 0, NO, 0, 0},
};

static void test_a64(void **state)
{
	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(a64_cases); i++) {
		const struct a64_case *c = &a64_cases[i];
		uint8_t bytes[4];
		struct gt_insn in;

		gt_put_le32(bytes, c->word);
		if (gt_insn_decode(EM_AARCH64, bytes, 4, PC, &in) || in.kind != c->kind ||
		    in.src != c->src || in.target != c->target ||
		    (c->kind > GT_INSN_STOP && (in.dst != c->dst || in.imm != c->imm)))
			fail_msg("%s: kind %d dst %d src %d imm %lld target %llx", c->what, in.kind,
				 in.dst, in.src, (long long)in.imm, (unsigned long long)in.target);
		assert_int_equal(gt_insn_decode(EM_AARCH64, bytes, 3, PC, &in), -EINVAL);
	}
}

/* ---- the fast scan ---- */

struct seen {
	struct gt_insn in[8];
	size_t n;
};

static void note(void *ctx, const struct gt_insn *in)
{
	struct seen *s = ctx;

	if (s->n < GT_ARRAY_SIZE(s->in))
		s->in[s->n++] = *in;
}

static void test_scan(void **state)
{
	/* nop; call; endbr64; bnd jmp *slot(%rip); a call at the very end that is cut off */
	static const uint8_t x86[] = "\x90\xe8\x04\x00\x00\x00\xf3\x0f\x1e\xfa\xf2\xff\x25\x00\x01"
				     "\x00\x00\xe8\x00\x00";
	/* bti c; adrp x16, .+0x1000; ldr x17, [x16, #8]; add x16, x16, #8; br x17; bl .-20 */
	static const uint32_t a64[] = {0xd503245f, 0xb0000010, 0xf9400611,
				       0x91002210, 0xd61f0220, 0x97fffffb};
	uint8_t bytes[sizeof(a64)];
	struct seen s = {0};
	uint64_t entry;

	(void)state;
	gt_insn_scan(EM_X86_64, x86, sizeof(x86) - 1, PC, note, &s);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.in[0].kind, GT_INSN_CALL);
	assert_int_equal(s.in[0].target, PC + 10);
	assert_int_equal(s.in[1].kind, GT_INSN_JUMP_MEM);
	assert_int_equal(s.in[1].target, PC + 17 + 0x100);
	assert_true(gt_insn_plt_stub(EM_X86_64, x86, sizeof(x86) - 1, PC, &s.in[1], &entry));
	assert_int_equal(entry, PC + 6);

	for (size_t i = 0; i < GT_ARRAY_SIZE(a64); i++)
		gt_put_le32(bytes + i * 4, a64[i]);
	s.n = 0;
	gt_insn_scan(EM_AARCH64, bytes, sizeof(bytes), PC, note, &s);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.in[0].kind, GT_INSN_LOAD_ABS);
	assert_int_equal(s.in[0].target, 0x402008);
	assert_true(gt_insn_plt_stub(EM_AARCH64, bytes, sizeof(bytes), PC, &s.in[0], &entry));
	assert_int_equal(entry, PC);
	assert_int_equal(s.in[1].kind, GT_INSN_CALL);
	assert_int_equal(s.in[1].target, PC);
}

/* ---- objdump ---- */

/* Compares the length of every instruction of .text; returns how many there were. */
static long compare_with_objdump(const char *path)
{
	char *const argv[] = {(char *)"objdump",
			      (char *)"-d",
			      (char *)"-j",
			      (char *)".text",
			      (char *)"--no-show-raw-insn",
			      (char *)path,
			      NULL};
	struct fix_map m = fix_map(path);
	struct gt_image img = fix_image(m);
	unsigned long long pc, last = 0;
	struct gt_insn in = {0};
	long n = 0, bad = 0;
	char line[512];
	FILE *out;
	int pid = fix_run(argv, &out), decoded = 0;

	while (fgets(line, sizeof(line), out)) {
		const uint8_t *p;
		char *end;

		pc = strtoull(line, &end, 16);
		if (line[0] != ' ' || *end != ':')
			continue;
		if (decoded && pc > last && pc - last < 16 && in.len != pc - last && bad++ < 10)
			print_message("%s: 0x%llx: %d bytes, objdump: %llu\n", path, last, in.len,
				      pc - last);
		p = gt_image_at(&img, pc, 15);
		decoded = p && !gt_insn_decode(img.machine, p, 15, pc, &in);
		if (p && !decoded && !strstr(line, "(bad)") && bad++ < 10)
			print_message("%s: not decoded: %s", path, line);
		last = pc;
		n++;
	}
	fix_unmap(m);
	assert_int_equal(fix_done(out, pid), 0);
	assert_int_equal(bad, 0);
	return n;
}

static void test_objdump(void **state)
{
	char path[PATH_MAX];
	glob_t g;

	(void)state;
#ifndef __x86_64__
	print_message("SKIP: lengths vary on x86-64 only\n");
	skip();
#endif
	if (!fix_has("objdump")) {
		print_message("SKIP: no objdump here to compare with\n");
		skip();
	}
	fix_build("cc", "-shared -fPIC -O2 -fcf-protection=full", "insn.so", path);
	assert_true(compare_with_objdump(path) > 100);
	fix_pythons(&g);
	if (!g.gl_pathc)
		print_message("SKIP: no Python found to compare\n");
	for (size_t i = 0; i < g.gl_pathc; i++) {
		if (!strstr(g.gl_pathv[i], "libpython3"))
			continue;
		assert_true(compare_with_objdump(g.gl_pathv[i]) > 100000);
		break;
	}
	globfree(&g);
	fix_clean();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_x86),     cmocka_unit_test(test_x86_invalid),
		cmocka_unit_test(test_a64),     cmocka_unit_test(test_scan),
		cmocka_unit_test(test_objdump),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
