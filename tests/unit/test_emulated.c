// SPDX-License-Identifier: Apache-2.0
/* Which instruction is cheap to probe, and how far a probe may move behind a function's entry. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "emulated.h"
#include "gilfix.h"
#include "symsrc_dwfl.h"

#include <elf.h>

#define PC 0x401000u

/* Bytes as the only segment of a file; on the heap, so that a byte too far is seen. */
static struct gt_image image_of(uint16_t machine, const void *bytes, size_t n)
{
	uint8_t *p = malloc(n ? n : 1);
	struct gt_image img = {
		.data = p, .size = n, .machine = machine, .nsegs = 1, .seg[0] = {PC, 0, n, 1}};

	assert_non_null(p);
	memcpy(p, bytes, n);
	return img;
}

static void drop(struct gt_image *img)
{
	free((void *)(uintptr_t)img->data);
}

/* ---- one instruction ---- */

static const struct {
	const char *what, *bytes;
	uint8_t len, emulated;
} x86_cases[] = {
	{"push %rbp", "\x55", 1, 1},
	{"push %r12", "\x41\x54", 2, 1},
	{"push %rsp", "\x54", 1, 1},
	{"rex.W push %rbp", "\x48\x55", 2, 0},
	{"pushw", "\x66\x55", 2, 0},
	{"push $1", "\x6a\x01", 2, 0},
	{"push (%rax)", "\xff\x30", 2, 0},
	{"nop", "\x90", 1, 1},
	{"xchg %ax,%ax", "\x66\x90", 2, 0},
	{"xchg %r8,%rax", "\x49\x90", 2, 0},
	{"nopl 0(%rax)", "\x0f\x1f\x40\x00", 4, 0},
	{"nopl 0(%rax,%rax,1)", "\x0f\x1f\x44\x00\x00", 5, 0},
	{"endbr64", "\xf3\x0f\x1e\xfa", 4, 0},
	{"call rel32", "\xe8\x10\x00\x00\x00", 5, 1},
	{"bnd call", "\xf2\xe8\x10\x00\x00\x00", 6, 1},
	{"callw", "\x66\xe8\x10\x00\x00\x00", 6, 0},
	{"call *slot(%rip)", "\xff\x15\x08\x00\x00\x00", 6, 0},
	{"call *%rax", "\xff\xd0", 2, 0},
	{"jmp rel32", "\xe9\x00\x01\x00\x00", 5, 1},
	{"jmp rel8", "\xeb\x10", 2, 1},
	{"jmp *slot(%rip)", "\xff\x25\x08\x00\x00\x00", 6, 0},
	{"je rel8", "\x74\x02", 2, 1},
	{"jg rel8", "\x7f\x02", 2, 1},
	{"je rel8, hint", "\x3e\x74\x02", 3, 0},
	{"je rel32", "\x0f\x84\x00\x02\x00\x00", 6, 1},
	{"jg rel32", "\x0f\x8f\x00\x02\x00\x00", 6, 1},
	{"sete %al", "\x0f\x94\xc0", 3, 0},
	{"loop", "\xe2\x02", 2, 0},
	{"jrcxz", "\xe3\x02", 2, 0},
	{"ret", "\xc3", 1, 0},
	{"sub $8,%rsp", "\x48\x83\xec\x08", 4, 0},
	{"mov %rdi,%rax", "\x48\x89\xf8", 3, 0},
	{"pop %rbp", "\x5d", 1, 0},
	{"int3", "\xcc", 1, 0},
	{"vpermq", "\xc4\xe3\xfd\x00\xc0\xd8", 6, 0},
	{"invalid", "\x06", 1, 0},
};

static void test_x86(void **state)
{
	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(x86_cases); i++) {
		struct gt_image img = image_of(EM_X86_64, x86_cases[i].bytes, x86_cases[i].len);

		if (gt_emulated_at(&img, PC) != x86_cases[i].emulated)
			fail_msg("%s", x86_cases[i].what);
		assert_false(gt_emulated_at(&img, PC + x86_cases[i].len));
		assert_false(gt_emulated_at(&img, PC - 1));
		drop(&img);
		if (x86_cases[i].len == 1)
			continue;
		img = image_of(EM_X86_64, x86_cases[i].bytes, x86_cases[i].len - 1u);
		assert_false(gt_emulated_at(&img, PC)); /* cut off */
		drop(&img);
	}
}

static const struct {
	const char *what;
	uint32_t word;
	int emulated;
} a64_cases[] = {
	{"b", 0x14000008, 1},
	{"bl", 0x94000008, 1},
	{"b.ne", 0x54000041, 1},
	{"bc.ne", 0x54000051, 0},
	{"cbz x1", 0xb4000041, 1},
	{"cbnz w0", 0x35000080, 1},
	{"tbz w1, #3", 0x361fffc1, 1},
	{"tbnz w1, #3", 0x37180041, 1},
	{"adrp x1", 0x90000001, 1},
	{"adr x1", 0x10000041, 1},
	{"br x3", 0xd61f0060, 1},
	{"blr x3", 0xd63f0060, 1},
	{"ret", 0xd65f03c0, 1},
	{"braaz x3", 0xd61f087f, 0},
	{"retaa", 0xd65f0bff, 0},
	{"ldr x1, literal", 0x58000081, 0},
	{"ldrsw x1, literal", 0x98000081, 0},
	{"nop", 0xd503201f, 0},
	{"bti c", 0xd503245f, 0},
	{"paciasp", 0xd503233f, 0},
	{"stp x29, x30, [sp, #-48]!", 0xa9bd7bfd, 0},
	{"mov x9, x1", 0xaa0103e9, 0},
	{"svc #0", 0xd4000001, 0},
};

static void test_a64(void **state)
{
	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(a64_cases); i++) {
		struct gt_image img;
		uint8_t bytes[4];

		gt_put_le32(bytes, a64_cases[i].word);
		img = image_of(EM_AARCH64, bytes, 4);
		if (gt_emulated_at(&img, PC) != a64_cases[i].emulated)
			fail_msg("%s", a64_cases[i].what);
		assert_false(gt_emulated_at(&img, PC + 4));
		assert_false(gt_emulated_at(&img, PC + 1));
		drop(&img);
	}
}

/* ---- a function ---- */

static uint64_t point_of(uint16_t machine, const void *bytes, size_t n)
{
	struct gt_image img = image_of(machine, bytes, n);
	const struct gt_range fn = {.start = PC, .end = PC + n};
	uint64_t at = gt_emulated_point(&img, &fn);

	assert_true(at >= PC && at < PC + n);
	drop(&img);
	return at - PC;
}

#define ENDBR "\xf3\x0f\x1e\xfa"
#define RET   "\xc3"

static const struct {
	const char *what, *bytes;
	size_t len;
	uint64_t at;
} x86_functions[] = {
#define FN(what, bytes, at)                                                                        \
	{                                                                                          \
		what, bytes, sizeof(bytes) - 1, at                                                 \
	}
	FN("push", "\x55\x5d" RET, 0),
	FN("endbr64; push", ENDBR "\x55\x5d" RET, 4),
	FN("endbr64; push %r12", ENDBR "\x41\x54\x41\x5c" RET, 4),
	FN("mov %rdi,%rax; push %rbp", "\x48\x89\xf8\x55\x5d" RET, 3),
	FN("endbr64; test %rdi,%rdi; je", ENDBR "\x48\x85\xff\x74\x00" RET, 7),
	FN("cmpq $0,(%rdi); mov %rdi,%r8; je", "\x48\x83\x3f\x00\x49\x89\xf8\x74\x00" RET, 7),
	FN("xor %edx,%edx; jmp", "\x31\xd2\xe9\x00\x00\x00\x00" RET, 2),
	FN("lea 1(%rsi),%eax; push", "\x8d\x46\x01\x53\x5b" RET, 3),
	FN("pxor; push", "\x66\x0f\xef\xc0\x53\x5b" RET, 4),
	FN("mov %fs:0x28,%rax; push", "\x64\x48\x8b\x04\x25\x28\x00\x00\x00\x53\x5b" RET, 9),
	FN("movl $1,8(%rdi); push", "\xc7\x47\x08\x01\x00\x00\x00\x53\x5b" RET, 7),
	FN("mov %r12,%rax; push (REX.B is not rsp)", "\x4c\x89\xe0\x53\x5b" RET, 3),
	FN("movzbl (%r12),%eax; push", "\x41\x0f\xb6\x04\x24\x53\x5b" RET, 5),
	/* Seven instructions before it, and eight. */
	FN("a long way", "\x31\xc0\x31\xc0\x31\xc0\x31\xc0\x31\xc0\x31\xc0\x31\xc0\x53\x5b" RET,
	   14),
	FN("too long a way",
	   "\x31\xc0\x31\xc0\x31\xc0\x31\xc0\x31\xc0\x31\xc0\x31\xc0\x31\xc0\x53\x5b" RET, 0),
	/* What must stay before it: */
	FN("endbr64; sub $8,%rsp; push", ENDBR "\x48\x83\xec\x08\x55\x5d" RET, 0),
	FN("add $8,%rsp; push", "\x48\x83\xc4\x08\x55\x5d" RET, 0),
	FN("lea -8(%rsp),%rsp; push", "\x48\x8d\x64\x24\xf8\x55\x5d" RET, 0),
	FN("and $-16,%rsp; push", "\x48\x83\xe4\xf0\x55\x5d" RET, 0),
	FN("mov $0,%esp; push", "\xbc\x00\x00\x00\x00\x55\x5d" RET, 0),
	FN("mov %rax,(%rsp); push", "\x48\x89\x04\x24\x55\x5d" RET, 0),
	FN("mov (%rsp),%rax; push", "\x48\x8b\x04\x24\x55\x5d" RET, 0),
	FN("cmove %rax,%rsp; push", "\x48\x0f\x44\xe0\x55\x5d" RET, 0),
	FN("xchg %rax,%rsp; push", "\x48\x94\x55\x5d" RET, 0),
	FN("leave; push", "\xc9\x55\x5d" RET, 0),
	FN("enter; push", "\xc8\x00\x00\x00\x55\x5d" RET, 0),
	FN("pop %rax; push", "\x58\x50" RET, 0),
	FN("pushf; push", "\x9c\x55\x5d\x9d" RET, 0),
	FN("push $1; push", "\x6a\x01\x55\x5d" RET, 0),
	FN("ret; push", "\xc3\x55\x5d" RET, 0),
	FN("jmp *%rax; push", "\xff\xe0\x55\x5d" RET, 0),
	FN("call *%rax; push", "\xff\xd0\x55\x5d" RET, 0),
	FN("jrcxz; push", "\xe3\x00\x55\x5d" RET, 0),
	FN("ud2; push", "\x0f\x0b\x55\x5d" RET, 0),
	FN("int3; push", "\xcc\x55\x5d" RET, 0),
	FN("syscall; push", "\x0f\x05\x55\x5d" RET, 0),
	FN("rdsspq %rax; push", "\xf3\x48\x0f\x1e\xc8\x55\x5d" RET, 0),
	FN("div %rax; push", "\x48\xf7\xf0\x55\x5d" RET, 0),
	FN("xbegin; push", "\xc7\xf8\x00\x00\x00\x00\x55\x5d" RET, 0),
	FN("rep stos; push", "\xf3\xaa\x55\x5d" RET, 0),
	/* Probes read the first argument. */
	FN("mov %rsi,%rdi; push", "\x48\x89\xf7\x55\x5d" RET, 0),
	FN("mov 8(%rdi),%rdi; push", "\x48\x8b\x7f\x08\x55\x5d" RET, 0),
	FN("add $96,%rdi; jmp", "\x48\x83\xc7\x60\xeb\x00" RET, 0),
	FN("inc %rdi; push", "\x48\xff\xc7\x55\x5d" RET, 0),
	FN("xor %edi,%edi; push", "\x31\xff\x55\x5d" RET, 0),
	FN("add %sil,%dil; push", "\x40\x00\xf7\x55\x5d" RET, 0),
	FN("mov $1,%dil; push", "\x40\xb7\x01\x55\x5d" RET, 0),
	FN("movzbl (%rdi),%edi; push", "\x0f\xb6\x3f\x55\x5d" RET, 0),
	/* endbr64; 1: push; pop; je 1b: every round would be a hit */
	FN("a loop to the point", ENDBR "\x55\x5d\x74\xfc" RET, 0),
	/* endbr64; push; pop; je entry: the same entry as before */
	FN("a loop to the entry", ENDBR "\x55\x5d\x74\xf8" RET, 4),
	/* endbr64; xor; 1: xor; push; pop; jne near 1b */
	FN("a loop into the stretch", ENDBR "\x31\xc0\x31\xc0\x55\x5d\x0f\x85\xf6\xff\xff\xff" RET,
	   0),
	FN("a loop behind the point", ENDBR "\x55\x31\xc0\x74\xfc\x5d" RET, 4),
	FN("not decoded to its end", ENDBR "\x55\x5d\x06" RET, 0),
	FN("one instruction", ENDBR, 0),
	FN("cut off", ENDBR "\x41", 0),
#undef FN
};

static void test_x86_point(void **state)
{
	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(x86_functions); i++) {
		uint64_t at = point_of(EM_X86_64, x86_functions[i].bytes, x86_functions[i].len);

		if (at != x86_functions[i].at)
			fail_msg("%s: %llu", x86_functions[i].what, (unsigned long long)at);
	}
}

#define BTI   0xd503245f
#define ADRP  0x90000001
#define A_RET 0xd65f03c0

static const struct {
	const char *what;
	uint32_t words[6];
	uint64_t at;
} a64_functions[] = {
	{"adrp", {ADRP, A_RET}, 0},
	{"bti c; adrp", {BTI, ADRP, A_RET}, 4},
	{"nop; adrp", {0xd503201f, ADRP, A_RET}, 4},
	{"bti c; cbz x1", {BTI, 0xb4000041, ADRP, A_RET}, 4},
	{"cmp x0, #0; b.ne", {0xf100001f, 0x54000041, ADRP, A_RET}, 4},
	{"tst w1, #1; b.ne", {0x7200003f, 0x54000041, ADRP, A_RET}, 4},
	{"mov x8, x1; ldr w9, [x1, #8]; adrp", {0xaa0103e8, 0xb9400829, ADRP, A_RET}, 8},
	{"str w9, [x1, #8]; mov w9, #5; adrp", {0xb9000829, 0x528000a9, ADRP, A_RET}, 8},
	{"add x9, x1, x2; and x9, x1, #1; adrp", {0x8b020029, 0x92400029, ADRP, A_RET}, 8},
	{"str xzr, [x1]; adrp", {0xf900003f, ADRP, A_RET}, 4},
	/* What must stay before it: */
	{"paciasp; adrp", {0xd503233f, ADRP, A_RET}, 0},
	{"bti c; paciasp; adrp", {BTI, 0xd503233f, ADRP, A_RET}, 0},
	{"bti c; pacia x30, sp; adrp", {BTI, 0xdac103fe, ADRP, A_RET}, 0}, /* the same in v8.3 */
	{"stp x29, x30, [sp, #-48]!; adrp", {0xa9bd7bfd, ADRP, A_RET}, 0},
	{"sub sp, sp, #16; adrp", {0xd10043ff, ADRP, A_RET}, 0},
	{"mov x29, sp; adrp", {0x910003fd, ADRP, A_RET}, 0},
	{"orr sp, x1, #1; adrp", {0xb240003f, ADRP, A_RET}, 0},
	{"add x8, sp, #16; adrp", {0x910043e8, ADRP, A_RET}, 0},
	{"mov x9, x30; adrp", {0xaa1e03e9, ADRP, A_RET}, 0},
	{"mov x30, x9; adrp", {0xaa0903fe, ADRP, A_RET}, 0},
	{"str x30, [x1]; adrp", {0xf900003e, ADRP, A_RET}, 0},
	{"str x9, [sp]; adrp", {0xf90003e9, ADRP, A_RET}, 0},
	{"mrs x9, tpidr_el0; adrp", {0xd53bd049, ADRP, A_RET}, 0},
	{"svc #0; adrp", {0xd4000001, ADRP, A_RET}, 0},
	{"brk #1; adrp", {0xd4200020, ADRP, A_RET}, 0},
	{"ldaxr w9, [x1]; adrp", {0x885ffc29, ADRP, A_RET}, 0},
	{"swpal w1, w9, [x2]; adrp", {0xb8e18049, ADRP, A_RET}, 0},
	{"ldr x1, literal; adrp", {0x58000081, ADRP, A_RET}, 0},
	/* Probes read the first argument. */
	{"mov x0, x1; adrp", {0xaa0103e0, ADRP, A_RET}, 0},
	{"ldr x0, [x1]; adrp", {0xf9400020, ADRP, A_RET}, 0},
	{"ldrsw x0, [x1]; adrp", {0xb9800020, ADRP, A_RET}, 0},
	{"add x0, x1, x2; adrp", {0x8b020020, ADRP, A_RET}, 0},
	/* bti c; adrp; cbnz w0, the adrp */
	{"a loop to the point", {BTI, ADRP, 0x35ffffe0, A_RET}, 0},
	/* bti c; adrp; cbnz w0, the bti */
	{"a loop to the entry", {BTI, ADRP, 0x35ffffc0, A_RET}, 4},
};

static void test_a64_point(void **state)
{
	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(a64_functions); i++) {
		uint8_t bytes[sizeof(a64_functions[i].words)];
		uint64_t at;
		size_t n = 0;

		for (; n < 6 && a64_functions[i].words[n]; n++)
			gt_put_le32(bytes + 4 * n, a64_functions[i].words[n]);
		at = point_of(EM_AARCH64, bytes, 4 * n);
		if (at != a64_functions[i].at)
			fail_msg("%s: %llu", a64_functions[i].what, (unsigned long long)at);
	}
}

/* Bounds that are not those of a function. */
static void test_bounds(void **state)
{
	static const uint64_t ends[] = {0, PC - 1, PC, PC + 4, PC + 7, PC + (2u << 20), UINT64_MAX};
	const struct gt_range large = {.start = PC, .end = PC + (2u << 20)};
	struct gt_image img = image_of(EM_X86_64, ENDBR "\x55" RET, 6);
	uint8_t *p;

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(ends); i++) {
		const struct gt_range fn = {.start = PC, .end = ends[i]};

		assert_int_equal(gt_emulated_point(&img, &fn), PC);
	}
	drop(&img);
	/* Larger than what is gone through. */
	p = malloc(2u << 20);
	assert_non_null(p);
	memset(p, 0x90, 2u << 20);
	memcpy(p, ENDBR "\x55", 5);
	img = image_of(EM_X86_64, p, 2u << 20);
	free(p);
	assert_int_equal(gt_emulated_point(&img, &large), PC);
	drop(&img);
}

/* ---- compilers ---- */

#ifdef __x86_64__
/* Where the probe on take_gil sits, from its entry. */
static uint64_t moved(const char *path)
{
	struct fix_map m = fix_map(path);
	struct gt_image img = fix_image(m);
	struct gt_symbol sym[8];
	uint64_t by = UINT64_MAX;
	int fd = open(path, O_RDONLY | O_CLOEXEC), n = gt_symsrc_find(fd, path, sym, 8);

	close(fd);
	for (int i = 0; i < n; i++) {
		struct gt_range fn;
		uint64_t at;

		assert_int_equal(gt_image_function(&img, sym[i].vaddr, &fn), 0);
		assert_int_equal(fn.start, sym[i].vaddr);
		at = gt_emulated_point(&img, &fn);
		if (!gt_emulated_at(&img, at))
			fail_msg("%s: %s: single-stepped", path, sym[i].name);
		if (sym[i].fn == GT_FN_TAKE)
			by = at - fn.start;
	}
	fix_unmap(m);
	return by;
}
#endif

static void test_compilers(void **state)
{
	(void)state;
#ifdef __x86_64__
	static const char *const compilers[] = {"gcc", "clang"};
	static const char *const levels[] = {"-O0", "-O2"};

	for (size_t i = 0; i < 4; i++) {
		const char *cc = compilers[i / 2];
		char path[PATH_MAX], options[128];

		if (!fix_has(cc)) {
			print_message("SKIP: no %s here\n", cc);
			continue;
		}
		for (int pads = 0; pads < 2; pads++) {
			snprintf(options, sizeof(options),
				 "-shared -fPIC -DFIX_TABLE -DFIX_MINOR=12 %s -fcf-protection=%s",
				 levels[i % 2], pads ? "full" : "none");
			fix_build(cc, options, "emulated.so", path);
			assert_int_equal(moved(path), pads ? 4 : 0);
		}
	}
#else
	print_message("SKIP: landing pads of x86-64\n");
	skip();
#endif
}

/* ---- all functions of a real CPython, against objdump ---- */

/* Is it text of an instruction that a probe may move behind? */
static int may_pass(const char *text)
{
	static const char *const never[] = {"push", "pop",  "call", "j",   "ret", "leave", "enter",
					    "sys",  "int3", "ud2",  "hlt", "rep", "loop",  "(bad)"};
	const char *last = strrchr(text, ',');
	size_t len;

	for (size_t i = 0; i < GT_ARRAY_SIZE(never); i++)
		if (!strncmp(text, never[i], strlen(never[i])))
			return 0;
	if (strstr(text, "%rsp") || strstr(text, "%esp") || strstr(text, "%spl"))
		return 0;
	if (!strncmp(text, "cmp", 3) || !strncmp(text, "test", 4) || !strncmp(text, "nop", 3))
		return 1;
	last = last ? last + 1 : strrchr(text, ' ') ? strrchr(text, ' ') + 1 : text;
	len = strcspn(last, "\n ");
	return !(len == 4 && !strncmp(last, "%rdi", 4)) &&
	       !(len == 4 && !strncmp(last, "%edi", 4)) &&
	       !(len == 4 && !strncmp(last, "%dil", 4)) && !(len == 3 && !strncmp(last, "%di", 3));
}

static int is_cheap(const char *text)
{
	return !strncmp(text, "push ", 5) || text[0] == 'j' || !strncmp(text, "nop\n", 4) ||
	       (!strncmp(text, "call ", 5) && !strchr(text, '*')) || !strncmp(text, "bnd ", 4);
}

struct counts {
	unsigned long functions, moved, cheap;
};

static void check_python(const char *path, struct counts *c)
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
	struct gt_range fn = {0};
	uint64_t point = 0;
	char line[512];
	FILE *out;
	int pid = fix_run(argv, &out);

	while (fgets(line, sizeof(line), out)) {
		char *end, *text = strchr(line, '\t');
		uint64_t pc = strtoull(line, &end, 16);

		if (line[0] != ' ' || *end != ':' || !text)
			continue;
		text++;
		if (pc >= fn.end || pc < fn.start) {
			if (gt_image_function(&img, pc, &fn) || fn.start != pc)
				continue;
			point = gt_emulated_point(&img, &fn);
			c->functions++;
			c->moved += point != pc;
			c->cheap += (unsigned long)gt_emulated_at(&img, point);
		}
		if ((pc < point && !may_pass(text)) ||
		    (pc == point && gt_emulated_at(&img, pc) && !is_cheap(text)) ||
		    (pc == point && !gt_emulated_at(&img, pc) && pc != fn.start))
			fail_msg("%s: function 0x%llx, probe at 0x%llx: %s", path,
				 (unsigned long long)fn.start, (unsigned long long)point, line);
	}
	fix_unmap(m);
	assert_int_equal(fix_done(out, pid), 0);
}

static void test_pythons(void **state)
{
	struct counts c = {0};
	glob_t g;

	(void)state;
#ifndef __x86_64__
	print_message("SKIP: reads objdump's text of x86-64\n");
	skip();
#endif
	if (!fix_has("objdump")) {
		print_message("SKIP: no objdump here to compare with\n");
		skip();
	}
	fix_pythons(&g);
	for (size_t i = 0; i < g.gl_pathc && c.functions < 1000; i++)
		check_python(g.gl_pathv[i], &c);
	if (!g.gl_pathc)
		print_message("SKIP: NO PYTHON FOUND ON THIS MACHINE\n");
	else
		print_message("%lu functions, %lu of them probed at an emulated instruction, %lu "
			      "behind the entry\n",
			      c.functions, c.cheap, c.moved);
	assert_true(!g.gl_pathc || c.moved > 100);
	globfree(&g);
}

/* take_gil and drop_gil of every CPython here that has symbols. */
static void test_gil(void **state)
{
	unsigned int files = 0;
	glob_t g;

	(void)state;
	fix_pythons(&g);
	for (size_t i = 0; i < g.gl_pathc; i++) {
		struct gt_symbol sym[16];
		struct fix_map m;
		struct gt_image img;
		int fd = open(g.gl_pathv[i], O_RDONLY | O_CLOEXEC),
		    n = gt_symsrc_find(fd, g.gl_pathv[i], sym, 16);

		close(fd);
		m = fix_map(g.gl_pathv[i]);
		img = fix_image(m);
		for (int k = 0; k < n; k++) {
			struct gt_range fn;
			uint64_t at;

			assert_int_equal(gt_image_function(&img, sym[k].vaddr, &fn), 0);
			at = gt_emulated_point(&img, &fn);
			print_message("%s: %s+%llu%s\n", g.gl_pathv[i], sym[k].name,
				      (unsigned long long)(at - fn.start),
				      gt_emulated_at(&img, at) ? "" : ", single-stepped");
#ifdef __x86_64__ /* on AArch64 most functions begin by saving x30 */
			assert_true(gt_emulated_at(&img, at));
#endif
		}
		files += n > 0;
		fix_unmap(m);
	}
	if (!files)
		print_message("SKIP: NO PYTHON WITH SYMBOLS FOUND ON THIS MACHINE\n");
	globfree(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_x86),       cmocka_unit_test(test_a64),
		cmocka_unit_test(test_x86_point), cmocka_unit_test(test_a64_point),
		cmocka_unit_test(test_bounds),    cmocka_unit_test(test_compilers),
		cmocka_unit_test(test_pythons),   cmocka_unit_test(test_gil),
	};

	return cmocka_run_group_tests(tests, NULL, fix_teardown);
}
