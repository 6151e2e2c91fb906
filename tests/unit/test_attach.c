// SPDX-License-Identifier: Apache-2.0
/*
 * The back ends on functions of our own, with the kernel that runs here; and what is made of a
 * filter that lets too few threads through.
 */
#include "kfeatures.h"

#include <bpf/bpf.h>
#include <link.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cmocka.h>

#define STACK 65536

/* ---- a thread that is none ---- */

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): names of ld's --wrap */
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __real_pthread_join(pthread_t, void **);
int __wrap_pthread_join(pthread_t, void **);

static int estrange; /* the next thread */

struct start {
	void *(*fn)(void *);
	void *arg;
};

static int run(void *arg)
{
	const struct start *s = arg;

	s->fn(s->arg);
	return 0;
}

/*
 * The memory is ours, the thread group is not: filters by thread group, as that of uprobe_multi
 * (Linux 6.10), do not let it through. That is what those before made of a thread.
 */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg)
{
	struct start s = {fn, arg};
	char *stack;
	pid_t pid;

	if (!estrange)
		return __real_pthread_create(thread, attr, fn, arg);
	estrange = 0;
	stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(stack, MAP_FAILED);
	pid = clone(run, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, &s);
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	munmap(stack, STACK);
	*thread = (pthread_t)-1;
	return 0;
}

int __wrap_pthread_join(pthread_t thread, void **out)
{
	if (thread == (pthread_t)-1)
		return 0;
	return __real_pthread_join(thread, out);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* ---- */

static int works(enum gt_backend which)
{
	const char *what = NULL;
	int err = gt_attach_try(gt_attach_backend(which), &what);

	if (err)
		print_message("%s: %s: %s\n", gt_attach_name(gt_attach_backend(which)), what,
			      err < 0 ? strerror(-err) : "not hit");
	assert_non_null(what);
	return !err;
}

static void test_try_agrees_with_features(void **state)
{
	static const struct {
		enum gt_backend backend;
		enum gt_feature feature;
	} pairs[] = {{GT_BACKEND_MULTI, GT_FEATURE_UPROBE_MULTI_PID},
		     {GT_BACKEND_PERF, GT_FEATURE_PERF_LINK},
		     {GT_BACKEND_IOCTL, GT_FEATURE_UPROBES}};
	struct gt_features f = {0};

	(void)state;
	assert_int_equal(gt_features_prepare(&f), 0);
	for (size_t i = 0; i < GT_ARRAY_SIZE(pairs); i++)
		assert_int_equal(works(pairs[i].backend), gt_features_have(&f, pairs[i].feature));
	/* Every kernel that has the ring buffer can do that. */
	assert_true(works(GT_BACKEND_IOCTL));
}

/* A filter that leaves threads out is found, and another back end is taken. */
static void test_wrong_filter(void **state)
{
	struct gt_features f = {0};
	const struct gt_attach_ops *ops;
	int err;

	(void)state;
	if (!works(GT_BACKEND_MULTI))
		skip();
	estrange = 1;
	assert_false(works(GT_BACKEND_MULTI));
	assert_false(estrange);
	estrange = 1;
	ops = gt_features_backend(&f, GT_BACKEND_AUTO, &err);
	assert_false(estrange);
	assert_non_null(ops);
	assert_ptr_not_equal(ops, gt_attach_backend(GT_BACKEND_MULTI));
	assert_true(gt_features_have(&f, GT_FEATURE_UPROBE_MULTI));
	assert_false(gt_features_have(&f, GT_FEATURE_UPROBE_MULTI_PID));
	assert_non_null(strstr(f.of[GT_FEATURE_UPROBE_MULTI_PID].why, "second thread"));
}

/* ---- cookies ---- */

__attribute__((noinline, used)) static int first(int x)
{
	__asm__ volatile("" ::: "memory");
	return x + 2;
}

__attribute__((noinline, used)) static int second(int x)
{
	__asm__ volatile("" ::: "memory");
	return x * 3;
}

static uint64_t offset_of(int (*fn)(int))
{
	ElfW(Addr) addr = (ElfW(Addr))(uintptr_t)fn;
	const ElfW(Ehdr) *elf = NULL;
	const ElfW(Phdr) * ph;
	Dl_info info;
	struct link_map *map;

	assert_true(dladdr1((void *)addr, &info, (void **)&map, RTLD_DL_LINKMAP));
	elf = info.dli_fbase;
	ph = (const ElfW(Phdr) *)((const char *)elf + elf->e_phoff);
	for (int i = 0; i < elf->e_phnum; i++)
		if (ph[i].p_type == PT_LOAD && addr - map->l_addr - ph[i].p_vaddr < ph[i].p_filesz)
			return addr - map->l_addr - ph[i].p_vaddr + ph[i].p_offset;
	fail();
	return 0;
}

/* Stores its cookie at the place that its lowest bit says, of two. */
static size_t program(struct bpf_insn *p, int copies, int map_fd)
{
	const struct bpf_insn *begin = p;

	if (copies) {
		*p++ = (struct bpf_insn){.code = BPF_LD | BPF_DW, .imm = (__s32)GT_COOKIE_PLACE};
		*p++ = (struct bpf_insn){.imm = (__s32)(GT_COOKIE_PLACE >> 32)};
	} else {
		*p++ = (struct bpf_insn){.code = BPF_JMP | BPF_CALL, .imm = 174};
	}
	*p++ = (struct bpf_insn){.code = BPF_LD | BPF_DW,
				 .dst_reg = 1,
				 .src_reg = BPF_PSEUDO_MAP_VALUE,
				 .imm = map_fd};
	*p++ = (struct bpf_insn){0};
	*p++ = (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 2};
	*p++ = (struct bpf_insn){.code = BPF_ALU64 | BPF_AND | BPF_K, .dst_reg = 2, .imm = 1};
	*p++ = (struct bpf_insn){.code = BPF_ALU64 | BPF_LSH | BPF_K, .dst_reg = 2, .imm = 3};
	*p++ = (struct bpf_insn){.code = BPF_ALU64 | BPF_ADD | BPF_X, .dst_reg = 1, .src_reg = 2};
	*p++ = (struct bpf_insn){.code = BPF_STX | BPF_DW | BPF_MEM, .dst_reg = 1};
	*p++ = (struct bpf_insn){.code = BPF_ALU64 | BPF_MOV | BPF_K};
	*p++ = (struct bpf_insn){.code = BPF_JMP | BPF_EXIT};
	return (size_t)(p - begin);
}

static void seen(int map_fd, uint64_t out[2])
{
	assert_int_equal(bpf_map_lookup_elem(map_fd, &(uint32_t){0}, out), 0);
}

static void check_cookies(enum gt_backend which)
{
	const struct gt_attach_ops *ops = gt_attach_backend(which);
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = gt_attach_type(ops));
	int map_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "gt_test", 4, 16, 1, NULL);
	struct gt_sites sites = {.n = 2};
	struct gt_links links = {.n = 0}, *all[] = {&links};
	struct bpf_insn insns[16];
	struct gt_probe_program prog = {.insns = insns};
	uint64_t got[2];

	assert_true(map_fd >= 0);
	prog.n = program(insns, gt_attach_copies(ops), map_fd);
	prog.fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "gt_test", "GPL", insns, prog.n, &opts);
	assert_true(prog.fd >= 0);
	sites.site[0] = (struct gt_site){.offset = offset_of(first), .kind = GT_RELEASE};
	sites.site[1] = (struct gt_site){.offset = offset_of(second), .kind = GT_ACQUIRE};
	sites.site[1].flags = GT_SITE_RETURN;
	assert_int_equal(
		gt_attach(ops, &prog, "/proc/self/exe", getpid(), 0xfedcba98, 3, 6, &sites, &links),
		0);
	seen(map_fd, got);
	assert_int_equal(got[0] | got[1], 0);
	first(1);
	seen(map_fd, got);
	assert_int_equal(got[0], GT_COOKIE(0xfedcba98, 3, GT_RELEASE, 6, 0));
	assert_int_equal(got[1], 0);
	second(1);
	seen(map_fd, got);
	assert_int_equal(got[0], GT_COOKIE(0xfedcba98, 3, GT_RELEASE, 6, 0));
	assert_int_equal(got[1], GT_COOKIE(0xfedcba98, 3, GT_ACQUIRE, 7, GT_SITE_RETURN));

	/* The program itself is not needed any more; without links there are no hits. */
	close(prog.fd);
	assert_int_equal(bpf_map_update_elem(map_fd, &(uint32_t){0}, (uint64_t[2]){0}, 0), 0);
	first(1);
	seen(map_fd, got);
	assert_true(got[0] && !got[1]);
	gt_detach(all, 1, NULL, NULL);
	assert_int_equal(links.n, 0);
	second(1);
	seen(map_fd, got);
	assert_int_equal(got[1], 0);
	close(map_fd);
}

static void test_each_site_has_its_cookie(void **state)
{
	(void)state;
	for (int which = GT_BACKEND_MULTI; which <= GT_BACKEND_IOCTL; which++)
		if (works((enum gt_backend)which))
			check_cookies((enum gt_backend)which);
}

/* Nothing is left of probes whose program has no place for a cookie. */
static void test_no_place(void **state)
{
	const struct gt_attach_ops *ops = gt_attach_backend(GT_BACKEND_IOCTL);
	const struct bpf_insn insns[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K},
					 {.code = BPF_JMP | BPF_EXIT}};
	struct gt_probe_program prog = {.insns = insns, .n = 2};
	struct gt_sites sites = {.n = 1};
	struct gt_links links = {.n = 0};

	(void)state;
	prog.fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "gt_test", "GPL", insns, 2, NULL);
	assert_true(prog.fd >= 0);
	sites.site[0] = (struct gt_site){.offset = offset_of(first), .kind = GT_RELEASE};
	assert_int_equal(gt_attach(ops, &prog, "/proc/self/exe", getpid(), 0, 0, 0, &sites, &links),
			 -EINVAL);
	assert_int_equal(links.n, 0);
	close(prog.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_try_agrees_with_features),
		cmocka_unit_test(test_wrong_filter),
		cmocka_unit_test(test_each_site_has_its_cookie),
		cmocka_unit_test(test_no_place),
	};
	struct gt_features f = {0};

	/* Neither root nor its like. */
	if (gt_features_prepare(&f) == -EPERM ||
	    f.of[GT_FEATURE_RING_BUFFER].found == GT_TRY_UNKNOWN)
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
