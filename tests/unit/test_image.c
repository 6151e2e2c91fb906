// SPDX-License-Identifier: Apache-2.0
/* The view of an ELF file: a real one, and what is left when it is damaged in many ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gilfix.h"
#include "gilscan.h"
#include "image.h"

#include <elf.h>

#define TEXT_AT 0x10000000u

/* Calls fn for each defined function of .symtab, which the view itself does not read. */
static unsigned int each_function(const struct fix_map *m,
				  void (*fn)(const struct gt_image *, const Elf64_Sym *),
				  const struct gt_image *img)
{
	const Elf64_Ehdr *eh = (const void *)m->data;
	const Elf64_Shdr *sh = (const void *)(m->data + eh->e_shoff);
	unsigned int n = 0;

	for (unsigned int i = 0; i < eh->e_shnum; i++) {
		const Elf64_Sym *sym = (const void *)(m->data + sh[i].sh_offset);

		if (sh[i].sh_type != SHT_SYMTAB)
			continue;
		for (uint64_t k = 0; k < sh[i].sh_size / sizeof(*sym); k++) {
			if (ELF64_ST_TYPE(sym[k].st_info) != STT_FUNC || !sym[k].st_size)
				continue;
			fn(img, &sym[k]);
			n++;
		}
	}
	return n;
}

static void check_function(const struct gt_image *img, const Elf64_Sym *sym)
{
	const uint64_t in[] = {sym->st_value, sym->st_value + sym->st_size / 2,
			       sym->st_value + sym->st_size - 1};
	uint64_t off;

	for (size_t i = 0; i < GT_ARRAY_SIZE(in); i++) {
		struct gt_range r;

		assert_int_equal(gt_image_function(img, in[i], &r), 0);
		assert_int_equal(r.start, sym->st_value);
		assert_int_equal(r.end, sym->st_value + sym->st_size);
	}
	assert_int_equal(gt_image_offset(img, sym->st_value, &off), 0);
	assert_ptr_equal(gt_image_at(img, sym->st_value, sym->st_size), img->data + off);
}

static void test_functions(void **state)
{
	char path[PATH_MAX];
	struct fix_map m;
	struct gt_image img;
	struct gt_range r;
	uint64_t off, v;

	(void)state;
	/* Addresses that differ from the offsets in the file. */
	fix_build("cc", "-shared -fPIC -O2 -nostdlib -DFIX_MINOR=12 -Wl,-Ttext-segment=0x10000000",
		  "at.so", path);
	m = fix_map(path);
	img = fix_image(m);
	assert_true(each_function(&m, check_function, &img) >= 8);
	assert_int_equal(gt_image_symbol(&img, "PyEval_RestoreThread", &v), 0);
	assert_true(v >= TEXT_AT);
	assert_int_equal(gt_image_offset(&img, v, &off), 0);
	assert_int_equal(off, v - TEXT_AT);
	assert_int_equal(gt_image_offset(&img, off, &off), -ENOENT);
	assert_int_equal(gt_image_function(&img, 0, &r), -ENOENT);
	assert_int_equal(gt_image_function(&img, UINT64_MAX, &r), -ENOENT);
	assert_int_equal(gt_image_symbol(&img, "take_gil", &v), -ENOENT); /* not exported */
	assert_int_equal(gt_image_symbol(&img, "pthread_cond_signal", &v), -ENOENT); /* imported */
	assert_true(gt_image_has_symtab(&img));
	fix_unmap(m);
}

static void test_tables(void **state)
{
	static const char *const styles[] = {"gnu", "sysv", "both"};
	static const uint8_t id[] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};

	(void)state;
	for (size_t i = 0; i < GT_ARRAY_SIZE(styles); i++) {
		char path[PATH_MAX], options[256];
		struct fix_map m;
		struct gt_image img;
		uint64_t v, slot, sym;
		int got, slots = 0;

		snprintf(options, sizeof(options),
			 "-shared -fPIC -O2 -s -DFIX_MINOR=12 -Wl,--build-id=0x0123456789abcdef "
			 "-Wl,-soname,libpython3.12.so.1.0 -Wl,--hash-style=%s",
			 styles[i]);
		fix_build("cc", options, "tables.so", path);
		m = fix_map(path);
		img = fix_image(m);
		assert_false(gt_image_has_symtab(&img));
		assert_int_equal(gt_image_symbol(&img, "PyEval_RestoreThread", &v), 0);
		assert_int_equal(gt_image_symbol(&img, "Py_Version", &v), 0);
		assert_int_equal(gt_get_le32(gt_image_at(&img, v, 4)), 0x030c0000);
		assert_string_equal(gt_image_string(&img, img.soname), "libpython3.12.so.1.0");
		assert_int_equal(img.build_id_len, sizeof(id));
		assert_memory_equal(img.build_id, id, sizeof(id));
		for (uint64_t k = 0; (got = gt_image_got_slot(&img, k, &slot, &sym)) >= 0; k++)
			slots += got && gt_image_symbol_is(&img, sym, "pthread_cond_timedwait");
		assert_int_equal(slots, 1);
		fix_unmap(m);
	}
}

static void test_not_elf(void **state)
{
	static uint8_t data[128];
	struct gt_image img;
	const char *why;

	(void)state;
	assert_int_equal(gt_image_open(&img, data, 0, &why), -ENOEXEC);
	assert_int_equal(gt_image_open(&img, data, sizeof(data), &why), -ENOEXEC);
	memcpy(data,
	       "\x7f"
	       "ELF\x01\x01\x01",
	       7); /* 32-bit */
	assert_int_equal(gt_image_open(&img, data, sizeof(data), &why), -ENOEXEC);
	data[EI_CLASS] = ELFCLASS64;
	data[18] = EM_RISCV;
	assert_int_equal(gt_image_open(&img, data, sizeof(data), &why), -ENOEXEC);
	assert_non_null(strstr(why, "machine"));
	data[18] = EM_X86_64;
	data[54] = sizeof(Elf64_Phdr);
	data[56] = data[57] = 0xff;
	assert_int_equal(gt_image_open(&img, data, sizeof(data), &why), -ENOEXEC);
}

/* ---- damage ---- */

static void scan_bytes(const uint8_t *data, size_t size)
{
	static struct gt_sites sites;
	struct gt_image img;
	const char *why;
	int err;

	if (gt_image_open(&img, data, size, &why))
		return;
	err = gt_gilscan_identify(&img, "x", &sites);
	if (!err)
		err = gt_gilscan_sites(&img, &sites);
	assert_true(err || (sites.n > 0 && sites.n <= GT_SITES_MAX));
	for (uint32_t i = 0; !err && i < sites.n; i++)
		assert_true(sites.site[i].offset < size);
}

/* The file cut off at every length; on the heap, so that AddressSanitizer sees a byte too far. */
static void test_truncated(void **state)
{
	char path[PATH_MAX];
	struct fix_map m;

	(void)state;
	fix_build("cc", "-shared -fPIC -O2 -nostdlib -s -DFIX_MINOR=12", "cut.so", path);
	m = fix_map(path);
	for (size_t len = 0; len <= m.size; len++) {
		uint8_t *p = malloc(len ? len : 1);

		memcpy(p, m.data, len);
		scan_bytes(p, len);
		free(p);
	}
	fix_unmap(m);
}

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

/* Some bytes of the headers and tables replaced; the same ones in every run. */
static void test_mutated(void **state)
{
	static const uint64_t odd[] = {0, 1, 0x7f, 0xff, 0x7fffffff, 0xffffffff, UINT64_MAX};
	uint64_t seed = 0x9e3779b97f4a7c15;
	char path[PATH_MAX];
	struct fix_map m;
	uint8_t *p;

	(void)state;
	fix_build("cc", "-shared -fPIC -O2 -nostdlib -s -DFIX_MINOR=12", "mutated.so", path);
	m = fix_map(path);
	p = malloc(m.size);
	for (int round = 0; round < 20000; round++) {
		memcpy(p, m.data, m.size);
		for (int k = 0; k < 1 + round % 4; k++) {
			uint64_t r = next_random(&seed);
			size_t width = (size_t)1 << (r & 3);
			/* Half of them in the file's head, where the headers are. */
			size_t at = (r >> 8) % ((r & 4 ? 1024 : m.size) - width);
			uint64_t v =
				r & 8 ? odd[(r >> 4) % GT_ARRAY_SIZE(odd)] : next_random(&seed);

			memcpy(p + at, &v, width);
		}
		scan_bytes(p, m.size);
	}
	free(p);
	fix_unmap(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions), cmocka_unit_test(test_tables),
		cmocka_unit_test(test_not_elf),   cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_mutated),
	};

	return cmocka_run_group_tests(tests, NULL, fix_teardown);
}
