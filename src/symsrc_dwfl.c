// SPDX-License-Identifier: Apache-2.0
#include "symsrc_dwfl.h"

#include <ctype.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <stdio.h>

/* Bounds for hostile files. Debian's python3.11 has 540,000 entries, nested 20 deep. */
#define DIES_MAX  (20u << 20)
#define DEPTH_MAX 256

struct gt_symsrc {
	Dwfl *dwfl;
	Dwfl_Module *mod;
	GElf_Addr bias; /* libdwfl's addresses - the file's own */
	int n;          /* of symbols; 0: none */
	int dynsym;     /* and no others */
	const char *origin;
};

/* ---- names ---- */

/* Length of the word that tells the kind of a clone or, with *cold, of a part; 0: none. */
static size_t kind_length(const char *s, int *cold)
{
	static const char *const kinds[] = {"lto_priv", "constprop", "isra", "part", "llvm"};

	if (!strncmp(s, "cold", strlen("cold"))) {
		*cold = 1;
		return strlen("cold");
	}
	for (size_t i = 0; i < GT_ARRAY_SIZE(kinds); i++)
		if (!strncmp(s, kinds[i], strlen(kinds[i])))
			return strlen(kinds[i]);
	return 0;
}

/*
 * What follows the name: clones of GCC (.constprop.0, .isra.0, .lto_priv.0) and clang (.llvm.1).
 * *cold: it is a part that is not entered by a call (.cold).
 */
static int is_clone_suffix(const char *s, int *cold)
{
	*cold = 0;
	while (*s) {
		size_t len = *s == '.' ? kind_length(s + 1, cold) : 0;

		if (!len)
			return 0;
		s += 1 + len;
		if (*s == '.' && isdigit((unsigned char)s[1]))
			s++;
		while (isdigit((unsigned char)*s))
			s++;
	}
	return 1;
}

static int parse_name(const char *name, enum gt_gil_fn *fn, int *cold)
{
	static const struct {
		const char *name;
		enum gt_gil_fn fn;
	} fns[] = {
		{"take_gil", GT_FN_TAKE},
		{"drop_gil_impl", GT_FN_DROP_IMPL},
		{"drop_gil", GT_FN_DROP},
	};

	for (size_t i = 0; name && i < GT_ARRAY_SIZE(fns); i++) {
		size_t len = strlen(fns[i].name);

		if (strncmp(name, fns[i].name, len) || !is_clone_suffix(name + len, cold))
			continue;
		*fn = fns[i].fn;
		return 1;
	}
	return 0;
}

int gt_symsrc_is_gil_fn(const char *name, enum gt_gil_fn *fn)
{
	int cold;

	return parse_name(name, fn, &cold) && !cold;
}

/* ---- symbols ---- */

static int cmp_symbol(const void *a, const void *b)
{
	const struct gt_symbol *x = a, *y = b;

	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

/* Symbol i, if it is defined. */
static const char *symbol_at(const struct gt_symsrc *src, int i, GElf_Sym *sym, uint64_t *vaddr)
{
	GElf_Addr addr;
	const char *name = dwfl_module_getsym_info(src->mod, i, sym, &addr, NULL, NULL, NULL);

	if (!name || sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS)
		return NULL;
	*vaddr = addr - src->bias;
	return name;
}

int gt_symsrc_functions(struct gt_symsrc *src, struct gt_symbol *out, size_t max)
{
	size_t n = 0, unique = 0;

	for (int i = 1; i < src->n; i++) {
		struct gt_symbol s;
		GElf_Sym sym;
		const char *name = symbol_at(src, i, &sym, &s.vaddr);

		if (!name || GELF_ST_TYPE(sym.st_info) != STT_FUNC ||
		    !parse_name(name, &s.fn, &s.cold))
			continue;
		if (n == max)
			return -E2BIG;
		s.size = sym.st_size;
		snprintf(s.name, sizeof(s.name), "%s", name);
		out[n++] = s;
	}
	if (n)
		qsort(out, n, sizeof(*out), cmp_symbol);
	for (size_t i = 0; i < n; i++)
		if (!unique || out[unique - 1].vaddr != out[i].vaddr)
			out[unique++] = out[i];
	return (int)unique;
}

int gt_symsrc_value(struct gt_symsrc *src, const char *name, uint64_t *vaddr)
{
	for (int i = 1; i < src->n; i++) {
		GElf_Sym sym;
		const char *s = symbol_at(src, i, &sym, vaddr);

		if (s && !strcmp(s, name))
			return 0;
	}
	return -ENOENT;
}

const char *gt_symsrc_name_at(struct gt_symsrc *src, uint64_t vaddr)
{
	GElf_Off off;
	GElf_Sym sym;
	const char *name =
		dwfl_module_addrinfo(src->mod, vaddr + src->bias, &off, &sym, NULL, NULL, NULL);

	return name && GELF_ST_TYPE(sym.st_info) == STT_FUNC && off < sym.st_size ? name : NULL;
}

static int has_symtab(Elf *elf)
{
	GElf_Shdr sh;

	for (Elf_Scn *s = NULL; (s = elf_nextscn(elf, s));)
		if (gelf_getshdr(s, &sh) && sh.sh_type == SHT_SYMTAB)
			return 1;
	return 0;
}

/* libdwfl takes .symtab, else a debug file's, else .gnu_debugdata and .dynsym together. */
static void find_origin(struct gt_symsrc *src, Elf *own)
{
	const char *debug = NULL;

	if (src->n > 0 && has_symtab(own)) {
		src->origin = "the file itself (.symtab)";
		return;
	}
	for (int i = 1; i < src->n; i++) {
		Elf *elf = NULL;
		GElf_Addr addr;
		GElf_Sym sym;

		if (!dwfl_module_getsym_info(src->mod, i, &sym, &addr, NULL, &elf, NULL) ||
		    elf == own)
			continue;
		dwfl_module_info(src->mod, NULL, NULL, NULL, NULL, NULL, NULL, &debug);
		src->origin = debug ? debug : "the file itself (.gnu_debugdata)";
		return;
	}
	src->dynsym = 1;
	if (src->n > 0)
		src->origin = "the file itself (.dynsym)";
}

/* ---- opening ---- */

/*
 * Of a file with neither build-id nor .gnu_debuglink libdwfl would believe any NAME.debug that lies
 * beside it, or where the same path leads in our mount namespace.
 */
static int find_debuginfo(Dwfl_Module *mod, void **data, const char *modname, Dwarf_Addr base,
			  const char *file, const char *link, GElf_Word crc, char **debug)
{
	const unsigned char *id;
	GElf_Addr vaddr;

	if (dwfl_module_build_id(mod, &id, &vaddr) <= 0 && (!link || !crc))
		return -1;
	return dwfl_standard_find_debuginfo(mod, data, modname, base, file, link, crc, debug);
}

static Dwfl_Module *report(Dwfl *dwfl, int fd, const char *name)
{
	int own = dup(fd); /* libdwfl closes what it is given */
	Dwfl_Module *mod;

	if (own < 0)
		return NULL;
	mod = dwfl_report_offline(dwfl, name, name, own);
	if (!mod)
		close(own);
	return mod;
}

int gt_symsrc_open(int fd, const char *name, struct gt_symsrc **out)
{
	static char *debug_path = NULL; /* the default: .debug beside the file, /usr/lib/debug */
	static const Dwfl_Callbacks callbacks = {
		.find_elf = dwfl_build_id_find_elf,
		.find_debuginfo = find_debuginfo,
		.section_address = dwfl_offline_section_address,
		.debuginfo_path = &debug_path,
	};
	struct gt_symsrc *src = calloc(1, sizeof(*src));
	Elf *own;

	*out = src;
	if (!src)
		return -ENOMEM;
	src->dwfl = dwfl_begin(&callbacks);
	src->mod = src->dwfl ? report(src->dwfl, fd, name) : NULL;
	if (src->mod)
		dwfl_report_end(src->dwfl, NULL, NULL);
	own = src->mod ? dwfl_module_getelf(src->mod, &src->bias) : NULL;
	if (!own) {
		gt_symsrc_close(src);
		*out = NULL;
		return -ENOEXEC;
	}
	src->n = dwfl_module_getsymtab(src->mod);
	if (src->n < 0)
		src->n = 0;
	find_origin(src, own);
	return 0;
}

void gt_symsrc_close(struct gt_symsrc *src)
{
	if (src && src->dwfl)
		dwfl_end(src->dwfl);
	free(src);
}

const char *gt_symsrc_origin(struct gt_symsrc *src)
{
	return src->origin;
}

int gt_symsrc_is_dynsym(const struct gt_symsrc *src)
{
	return src->dynsym;
}

int gt_symsrc_find(int fd, const char *name, struct gt_symbol *out, size_t max)
{
	struct gt_symsrc *src;
	int n = gt_symsrc_open(fd, name, &src), warm = 0;

	if (n)
		return n;
	n = gt_symsrc_functions(src, out, max);
	for (int i = 0; i < n; i++)
		if (!out[i].cold)
			out[warm++] = out[i];
	gt_symsrc_close(src);
	return n < 0 ? n : warm;
}

/* ---- copies that were inlined ---- */

/* Names of inlined functions are far to fetch, and few of them are inlined often. */
struct known {
	const void *origin; /* the description of a function */
	int fn;             /* enum gt_gil_fn; -1: another one */
};
#define KNOWN 4096

struct walk {
	gt_copy_fn *fn;
	void *ctx;
	uint64_t bias; /* the file's own addresses - the DWARF's */
	uint64_t dies; /* looked at so far */
	int named;     /* one of the functions is in it */
	struct known known[KNOWN];
	Dwarf_Die path[DEPTH_MAX]; /* from a function to what is being looked at */
};

/* Of which of the functions is it a copy? -1: of none. */
static int copied_fn(struct walk *w, Dwarf_Die *die)
{
	Dwarf_Attribute attr;
	Dwarf_Die origin;
	enum gt_gil_fn fn;
	struct known *k;

	if (!dwarf_formref_die(dwarf_attr(die, DW_AT_abstract_origin, &attr), &origin))
		return -1;
	k = &w->known[(uintptr_t)origin.addr / 8 % KNOWN];
	if (k->origin != origin.addr) {
		k->origin = origin.addr;
		k->fn = gt_symsrc_is_gil_fn(dwarf_diename(&origin), &fn) ? (int)fn : -1;
	}
	return k->fn;
}

static void tell_copy(const struct walk *w, Dwarf_Die *die, enum gt_gil_fn fn, const char *holder)
{
	struct gt_copy copy = {.fn = fn, .holder = holder};
	Dwarf_Addr base, from, to, entry;
	ptrdiff_t off = 0;

	while (copy.nranges < GT_COPY_RANGES &&
	       (off = dwarf_ranges(die, off, &base, &from, &to)) > 0)
		copy.range[copy.nranges++] =
			(struct gt_range){.start = from + w->bias, .end = to + w->bias};
	if (!copy.nranges)
		return; /* in the description of a function that is inlined itself: no code */
	copy.entry = dwarf_entrypc(die, &entry) ? copy.range[0].start : entry + w->bias;
	w->fn(w->ctx, &copy);
}

/* Has it parts that may hold a copy? Tells it where it is one itself. */
static int is_open(struct walk *w, Dwarf_Die *die, const char *holder)
{
	int tag = dwarf_tag(die), fn = tag == DW_TAG_inlined_subroutine ? copied_fn(w, die) : -1;

	if (fn >= 0)
		tell_copy(w, die, (enum gt_gil_fn)fn, holder);
	return fn < 0 && (tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block);
}

/* All that lies in a function: blocks and inlined functions, each with their own parts. */
static int walk_function(struct walk *w, Dwarf_Die *function, const char *holder)
{
	int depth = 0;

	if (dwarf_child(function, &w->path[0]))
		return 0;
	while (depth >= 0) {
		Dwarf_Die *die = &w->path[depth];

		if (++w->dies > DIES_MAX || depth == DEPTH_MAX - 1)
			return -E2BIG;
		if (is_open(w, die, holder) && !dwarf_child(die, die + 1)) {
			depth++;
			continue;
		}
		while (depth >= 0 && dwarf_siblingof(&w->path[depth], &w->path[depth]))
			depth--;
	}
	return 0;
}

static int walk_unit(struct walk *w, Dwarf_Die *unit)
{
	Dwarf_Die die;

	if (dwarf_child(unit, &die))
		return 0;
	do {
		const char *holder;
		enum gt_gil_fn fn;
		int err;

		if (++w->dies > DIES_MAX)
			return -E2BIG;
		if (dwarf_tag(&die) != DW_TAG_subprogram)
			continue;
		holder = dwarf_diename(&die);
		w->named |= gt_symsrc_is_gil_fn(holder, &fn);
		err = walk_function(w, &die, holder ? holder : "");
		if (err)
			return err;
	} while (!dwarf_siblingof(&die, &die));
	return 0;
}

int gt_symsrc_copies(struct gt_symsrc *src, gt_copy_fn *fn, void *ctx)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Addr bias;
	Dwarf *dwarf = dwfl_module_getdwarf(src->mod, &bias);
	struct walk *w = dwarf ? calloc(1, sizeof(*w)) : NULL;
	Dwarf_Die unit;
	int err = 0;

	if (!w)
		return dwarf ? -ENOMEM : -ENOENT;
	w->fn = fn;
	w->ctx = ctx;
	w->bias = bias - src->bias;
	while (!err && !dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &unit, NULL))
		err = walk_unit(w, &unit);
	if (!err && !w->named)
		err = -ENOENT;
	free(w);
	return err;
}
