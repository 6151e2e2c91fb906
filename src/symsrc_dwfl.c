// SPDX-License-Identifier: Apache-2.0
#include "symsrc_dwfl.h"

#include <ctype.h>
#include <elfutils/libdwfl.h>
#include <stdio.h>

/* What follows the name: clones of GCC (.constprop.0, .isra.0, .lto_priv.0) and clang (.llvm.1). */
static int is_clone_suffix(const char *s)
{
	static const char *const kinds[] = {"lto_priv", "constprop", "isra", "part", "llvm"};

	while (*s) {
		size_t len = 0;

		if (*s++ != '.')
			return 0;
		for (size_t i = 0; i < GT_ARRAY_SIZE(kinds) && !len; i++)
			if (!strncmp(s, kinds[i], strlen(kinds[i])))
				len = strlen(kinds[i]);
		if (!len) /* .cold above all: a part that is not entered by a call */
			return 0;
		s += len;
		if (*s == '.' && isdigit((unsigned char)s[1]))
			s++;
		while (isdigit((unsigned char)*s))
			s++;
	}
	return 1;
}

int gt_symsrc_is_gil_fn(const char *name, enum gt_gil_fn *fn)
{
	static const struct {
		const char *name;
		enum gt_gil_fn fn;
	} fns[] = {
		{"take_gil", GT_FN_TAKE},
		{"drop_gil_impl", GT_FN_DROP_IMPL},
		{"drop_gil", GT_FN_DROP},
	};

	for (size_t i = 0; i < GT_ARRAY_SIZE(fns); i++) {
		size_t len = strlen(fns[i].name);

		if (strncmp(name, fns[i].name, len) || !is_clone_suffix(name + len))
			continue;
		*fn = fns[i].fn;
		return 1;
	}
	return 0;
}

static int cmp_symbol(const void *a, const void *b)
{
	const struct gt_symbol *x = a, *y = b;

	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

static size_t collect(Dwfl_Module *mod, GElf_Addr bias, struct gt_symbol *out, size_t max)
{
	int count = dwfl_module_getsymtab(mod);
	size_t n = 0, unique = 0;

	for (int i = 1; i < count && n < max; i++) {
		enum gt_gil_fn fn;
		GElf_Addr addr;
		GElf_Sym sym;
		const char *name = dwfl_module_getsym_info(mod, i, &sym, &addr, NULL, NULL, NULL);

		if (!name || sym.st_shndx == SHN_UNDEF || GELF_ST_TYPE(sym.st_info) != STT_FUNC ||
		    !gt_symsrc_is_gil_fn(name, &fn))
			continue;
		out[n].vaddr = addr - bias;
		out[n].fn = fn;
		snprintf(out[n].name, sizeof(out[n].name), "%s", name);
		n++;
	}
	qsort(out, n, sizeof(*out), cmp_symbol);
	for (size_t i = 0; i < n; i++)
		if (!unique || out[unique - 1].vaddr != out[i].vaddr)
			out[unique++] = out[i];
	return unique;
}

int gt_symsrc_find(int fd, const char *name, struct gt_symbol *out, size_t max)
{
	static char no_path[] = "";
	static char *debug_path = NULL; /* the default: .debug beside the file, /usr/lib/debug */
	static const Dwfl_Callbacks callbacks = {
		.find_elf = dwfl_build_id_find_elf,
		.find_debuginfo = dwfl_standard_find_debuginfo,
		.section_address = dwfl_offline_section_address,
		.debuginfo_path = &debug_path,
	};
	Dwfl *dwfl = dwfl_begin(&callbacks);
	Dwfl_Module *mod;
	GElf_Addr bias;
	int own, err = -ENOENT;

	if (!dwfl)
		return -ENOMEM;
	own = dup(fd); /* libdwfl closes what it is given */
	mod = dwfl_report_offline(dwfl, name ? name : no_path, name ? name : no_path, own);
	if (!mod) {
		if (own >= 0)
			close(own);
		dwfl_end(dwfl);
		return err;
	}
	dwfl_report_end(dwfl, NULL, NULL);
	if (dwfl_module_getelf(mod, &bias))
		err = (int)collect(mod, bias, out, max);
	dwfl_end(dwfl);
	return err;
}
