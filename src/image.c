// SPDX-License-Identifier: Apache-2.0
#include "image.h"

#include <elf.h>

#define SYM_SIZE       sizeof(Elf64_Sym)
#define RELA_SIZE      sizeof(Elf64_Rela)
#define VERSION_SIZE   sizeof(Elf64_Versym)
#define VERSION_HIDDEN 0x8000     /* not the default: name@VERSION */
#define EH_ENTRY       8          /* of the search table: two sdata4 */
#define COUNT_MAX      (4u << 20) /* symbols, hash buckets: far more than any real file has */

/*
 * Bytes of the file from vaddr, in segment s, to where the next ones do not follow both in memory
 * and in the file. patchelf puts tables across two segments that lie side by side.
 */
static uint64_t bytes_from(const struct gt_image *img, const struct gt_segment *s, uint64_t vaddr)
{
	uint64_t size = s->size;

	for (unsigned int i = 0; i < img->nsegs; i++) {
		const struct gt_segment *next = &img->seg[i];

		/* They are in the order of addresses; no sum overflows, since all lie in the file.
		 */
		if (next->size && next->offset == s->offset + size &&
		    next->vaddr - s->vaddr == size)
			size += next->size;
	}
	return size - (vaddr - s->vaddr);
}

const uint8_t *gt_image_at(const struct gt_image *img, uint64_t vaddr, uint64_t len)
{
	for (unsigned int i = 0; i < img->nsegs; i++) {
		const struct gt_segment *s = &img->seg[i];

		if (vaddr < s->vaddr || vaddr - s->vaddr >= s->size)
			continue;
		if (len <= s->size - (vaddr - s->vaddr) || len <= bytes_from(img, s, vaddr))
			return img->data + s->offset + (vaddr - s->vaddr);
	}
	return NULL;
}

int gt_image_offset(const struct gt_image *img, uint64_t vaddr, uint64_t *offset)
{
	for (unsigned int i = 0; i < img->nsegs; i++) {
		const struct gt_segment *s = &img->seg[i];

		if (s->exec && vaddr >= s->vaddr && vaddr - s->vaddr < s->size) {
			*offset = s->offset + (vaddr - s->vaddr);
			return 0;
		}
	}
	return -ENOENT;
}

uint64_t gt_image_code_delta(const struct gt_image *img)
{
	for (unsigned int i = 0; i < img->nsegs; i++)
		if (img->seg[i].exec)
			return img->seg[i].vaddr - img->seg[i].offset;
	return 0;
}

/* As much of a table of `entry`-sized entries at vaddr as lies in the file, at most `count`. */
static const uint8_t *table_at(const struct gt_image *img, uint64_t vaddr, uint64_t entry,
			       uint64_t *count)
{
	for (unsigned int i = 0; vaddr && i < img->nsegs; i++) {
		const struct gt_segment *s = &img->seg[i];

		if (vaddr < s->vaddr || vaddr - s->vaddr >= s->size)
			continue;
		if (*count > bytes_from(img, s, vaddr) / entry)
			*count = bytes_from(img, s, vaddr) / entry;
		return img->data + s->offset + (vaddr - s->vaddr);
	}
	*count = 0;
	return NULL;
}

/* Symbols in a DT_GNU_HASH table: one past the end of the chain of the highest bucket. */
static uint64_t gnu_hash_count(const struct gt_image *img, uint64_t vaddr)
{
	const uint8_t *p = gt_image_at(img, vaddr, 16);
	uint64_t buckets, first, bloom, chains, n = UINT64_MAX / 4, last = 0;

	if (!p)
		return 0;
	buckets = gt_get_le32(p);
	first = gt_get_le32(p + 4);
	bloom = gt_get_le32(p + 8);
	p = gt_image_at(img, vaddr + 16 + bloom * 8, buckets * 4);
	if (!p || buckets > COUNT_MAX)
		return 0;
	for (uint64_t i = 0; i < buckets; i++)
		if (gt_get_le32(p + i * 4) > last)
			last = gt_get_le32(p + i * 4);
	if (last < first)
		return first;
	chains = vaddr + 16 + bloom * 8 + buckets * 4;
	p = table_at(img, chains, 4, &n);
	if (n > COUNT_MAX)
		n = COUNT_MAX;
	for (last -= first; last < n; last++)
		if (gt_get_le32(p + last * 4) & 1)
			return first + last + 1;
	return 0;
}

static uint64_t hash_count(const struct gt_image *img, uint64_t vaddr)
{
	const uint8_t *p = gt_image_at(img, vaddr, 8);

	return p ? gt_get_le32(p + 4) : 0;
}

/* Symbols as far as relocations name them: those that a file imports are in no hash table. */
static uint64_t symbols_relocated(const struct gt_image *img)
{
	uint64_t n = 0;

	for (int t = 0; t < 2; t++)
		for (uint64_t i = 0; i < img->nrela[t]; i++) {
			uint64_t sym = gt_get_le64(img->rela[t] + i * RELA_SIZE + 8) >> 32;

			if (sym && sym + 1 > n)
				n = sym + 1;
		}
	return n;
}

struct dynamic {
	uint64_t symtab, strtab, strsz, soname, gnu_hash, hash, rela, relasz, jmprel, pltrelsz,
		versym;
};

static void read_dynamic_entry(struct dynamic *d, uint64_t tag, uint64_t val)
{
	switch (tag) {
	case DT_SYMTAB:
		d->symtab = val;
		break;
	case DT_STRTAB:
		d->strtab = val;
		break;
	case DT_STRSZ:
		d->strsz = val;
		break;
	case DT_SONAME:
		d->soname = val;
		break;
	case DT_GNU_HASH:
		d->gnu_hash = val;
		break;
	case DT_HASH:
		d->hash = val;
		break;
	case DT_RELA:
		d->rela = val;
		break;
	case DT_RELASZ:
		d->relasz = val;
		break;
	case DT_JMPREL:
		d->jmprel = val;
		break;
	case DT_PLTRELSZ:
		d->pltrelsz = val;
		break;
	case DT_VERSYM:
		d->versym = val;
		break;
	}
}

static void read_dynamic(struct gt_image *img, uint64_t off, uint64_t size)
{
	struct dynamic d = {0};
	uint64_t relocated;

	for (uint64_t i = 0; i + sizeof(Elf64_Dyn) <= size; i += sizeof(Elf64_Dyn)) {
		const uint8_t *p = img->data + off + i;

		if (gt_get_le64(p) == DT_NULL)
			break;
		read_dynamic_entry(&d, gt_get_le64(p), gt_get_le64(p + 8));
	}
	img->nrela[0] = d.pltrelsz / RELA_SIZE;
	img->rela[0] = table_at(img, d.jmprel, RELA_SIZE, &img->nrela[0]);
	img->nrela[1] = d.relasz / RELA_SIZE;
	img->rela[1] = table_at(img, d.rela, RELA_SIZE, &img->nrela[1]);
	img->strs_size = d.strsz;
	img->strs = table_at(img, d.strtab, 1, &img->strs_size);
	img->soname = d.soname;
	img->nsyms = d.gnu_hash ? gnu_hash_count(img, d.gnu_hash) : 0;
	/* An executable that exports nothing has a GNU hash table without chains. */
	if (!img->nsyms && d.hash)
		img->nsyms = hash_count(img, d.hash);
	relocated = symbols_relocated(img);
	if (img->nsyms < relocated)
		img->nsyms = relocated;
	if (img->nsyms > COUNT_MAX)
		img->nsyms = COUNT_MAX;
	img->syms = table_at(img, d.symtab, SYM_SIZE, &img->nsyms);
	img->nversions = img->nsyms;
	img->versions = table_at(img, d.versym, VERSION_SIZE, &img->nversions);
}

static void read_notes(struct gt_image *img, uint64_t off, uint64_t size)
{
	const uint8_t *p = img->data + off;

	while (size >= 12) {
		uint64_t namesz = gt_get_le32(p), descsz = gt_get_le32(p + 4);
		uint64_t name = 12, desc = name + ((namesz + 3) & ~3ull);

		if (!gt_in_range(desc, descsz, size))
			return;
		if (gt_get_le32(p + 8) == NT_GNU_BUILD_ID && namesz == 4 &&
		    !memcmp(p + name, "GNU", 4)) {
			img->build_id = p + desc;
			img->build_id_len = (uint32_t)descsz;
			return;
		}
		desc += (descsz + 3) & ~3ull;
		if (desc > size)
			return;
		p += desc;
		size -= desc;
	}
}

static void read_eh_frame_hdr(struct gt_image *img, uint64_t vaddr)
{
	const uint8_t *p = gt_image_at(img, vaddr, 12);

	/* version 1, count as udata4, table as datarel sdata4: what every linker writes */
	if (!p || p[0] != 1 || p[2] != 0x03 || p[3] != 0x3b || (p[1] & 0x0f) % 8 != 3)
		return;
	img->eh_hdr = vaddr;
	img->eh_count = gt_get_le32(p + 8);
	img->eh_table = table_at(img, vaddr + 12, EH_ENTRY, &img->eh_count);
}

static int read_load(struct gt_image *img, const uint8_t *ph)
{
	struct gt_segment *s = &img->seg[img->nsegs];

	s->offset = gt_get_le64(ph + 8);
	s->vaddr = gt_get_le64(ph + 16);
	s->size = gt_get_le64(ph + 32);
	s->exec = (gt_get_le32(ph + 4) & PF_X) != 0;
	if (s->offset > img->size || s->vaddr + s->size < s->vaddr)
		return -1;
	if (s->size > img->size - s->offset) /* cut off: what is left may still do */
		s->size = img->size - s->offset;
	if (s->size)
		img->nsegs++;
	return 0;
}

int gt_image_open(struct gt_image *img, const void *data, size_t size, const char **why)
{
	const uint8_t *p = data, *ph;
	uint64_t phoff, phnum;

	memset(img, 0, sizeof(*img));
	img->data = data;
	img->size = size;
	*why = "not a 64-bit little-endian ELF file";
	if (size < sizeof(Elf64_Ehdr) || memcmp(p, ELFMAG, SELFMAG) || p[EI_CLASS] != ELFCLASS64 ||
	    p[EI_DATA] != ELFDATA2LSB)
		return -ENOEXEC;
	img->machine = gt_get_le16(p + 18);
	*why = "made for a machine other than x86-64 and AArch64";
	if (img->machine != EM_X86_64 && img->machine != EM_AARCH64)
		return -ENOEXEC;
	phoff = gt_get_le64(p + 32);
	phnum = gt_get_le16(p + 56);
	*why = "damaged ELF program headers";
	if (gt_get_le16(p + 54) != sizeof(Elf64_Phdr) ||
	    !gt_in_range(phoff, phnum * sizeof(Elf64_Phdr), size))
		return -ENOEXEC;
	ph = p + phoff;
	for (uint64_t i = 0; i < phnum; i++)
		if (gt_get_le32(ph + i * sizeof(Elf64_Phdr)) == PT_LOAD &&
		    (img->nsegs == GT_IMAGE_SEGS || read_load(img, ph + i * sizeof(Elf64_Phdr))))
			return -ENOEXEC;
	for (uint64_t i = 0; i < phnum; i++, ph += sizeof(Elf64_Phdr)) {
		uint64_t off = gt_get_le64(ph + 8), len = gt_get_le64(ph + 32);

		if (gt_get_le32(ph) == PT_GNU_EH_FRAME && !img->eh_table)
			read_eh_frame_hdr(img, gt_get_le64(ph + 16));
		if (!gt_in_range(off, len, size))
			continue;
		if (gt_get_le32(ph) == PT_DYNAMIC && !img->strs)
			read_dynamic(img, off, len);
		if (gt_get_le32(ph) == PT_NOTE && !img->build_id)
			read_notes(img, off, len);
	}
	return 0;
}

const char *gt_image_string(const struct gt_image *img, uint64_t offset)
{
	if (!img->strs || offset >= img->strs_size ||
	    !memchr(img->strs + offset, 0, img->strs_size - offset))
		return NULL;
	return (const char *)img->strs + offset;
}

int gt_image_symbol_is(const struct gt_image *img, uint64_t index, const char *name)
{
	uint64_t off, len = strlen(name) + 1;

	if (index >= img->nsyms)
		return 0;
	off = gt_get_le32(img->syms + index * SYM_SIZE);
	return gt_in_range(off, len, img->strs_size) && !memcmp(img->strs + off, name, len);
}

uint64_t gt_image_symbol_value(const struct gt_image *img, uint64_t index)
{
	const uint8_t *p;

	if (index >= img->nsyms)
		return 0;
	p = img->syms + index * SYM_SIZE;
	return gt_get_le16(p + 6) == SHN_UNDEF ? 0 : gt_get_le64(p + 8);
}

int gt_image_symbol(const struct gt_image *img, const char *name, uint64_t *value)
{
	for (uint64_t i = 1; i < img->nsyms; i++) {
		uint64_t v;

		if (!gt_image_symbol_is(img, i, name))
			continue;
		v = gt_image_symbol_value(img, i);
		if (!v)
			continue;
		*value = v;
		return 0;
	}
	return -ENOENT;
}

int gt_image_export(const struct gt_image *img, const char *name, struct gt_range *out)
{
	for (uint64_t i = 1; i < img->nsyms; i++) {
		const uint8_t *sym = img->syms + i * SYM_SIZE;
		uint64_t value = gt_image_symbol_value(img, i), size = gt_get_le64(sym + 16);

		if (!value || ELF64_ST_TYPE(sym[4]) != STT_FUNC || value + size < value ||
		    (i < img->nversions &&
		     gt_get_le16(img->versions + i * VERSION_SIZE) & VERSION_HIDDEN) ||
		    !gt_image_symbol_is(img, i, name))
			continue;
		*out = (struct gt_range){.start = value, .end = value + size};
		return 0;
	}
	return -ENOENT;
}

int gt_image_got_slot(const struct gt_image *img, uint64_t i, uint64_t *slot, uint64_t *symbol)
{
	const uint8_t *p;
	uint64_t info;
	uint32_t type;

	if (i < img->nrela[0])
		p = img->rela[0] + i * RELA_SIZE;
	else if (i - img->nrela[0] < img->nrela[1])
		p = img->rela[1] + (i - img->nrela[0]) * RELA_SIZE;
	else
		return -1;
	info = gt_get_le64(p + 8);
	type = (uint32_t)info;
	if (img->machine == EM_X86_64 ? type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT
				      : type != R_AARCH64_JUMP_SLOT && type != R_AARCH64_GLOB_DAT)
		return 0;
	*slot = gt_get_le64(p);
	*symbol = info >> 32;
	return 1;
}

/* ---- function ranges: .eh_frame_hdr's search table and the FDEs that it names ---- */

struct cursor {
	const uint8_t *p, *end;
	int bad;
};

static uint8_t get_u8(struct cursor *c)
{
	if (c->p >= c->end) {
		c->bad = 1;
		return 0;
	}
	return *c->p++;
}

static uint64_t get_uleb(struct cursor *c)
{
	uint64_t v = 0;
	unsigned int shift = 0;
	uint8_t b;

	do {
		b = get_u8(c);
		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		shift += 7;
	} while (b & 0x80);
	return v;
}

static void skip(struct cursor *c, uint64_t n)
{
	if (n > (uint64_t)(c->end - c->p))
		c->bad = 1;
	else
		c->p += n;
}

/* Size of a pointer in an encoding of .eh_frame; 0: not one that is found there. */
static unsigned int encoded_size(uint8_t enc)
{
	static const uint8_t size[16] = {8, 0, 2, 4, 8, 0, 0, 0, 8, 0, 2, 4, 8};

	return size[enc & 0x0f];
}

/* The bytes of a CIE or FDE after its length field. */
static int entry_at(const struct gt_image *img, uint64_t vaddr, struct cursor *out)
{
	const uint8_t *p = gt_image_at(img, vaddr, 4);
	uint32_t len;

	if (!p)
		return -1;
	len = gt_get_le32(p); /* 0xffffffff, the 64-bit form, is not used in .eh_frame */
	p = gt_image_at(img, vaddr + 4, len);
	if (!p || len < 4)
		return -1;
	*out = (struct cursor){.p = p, .end = p + len};
	return 0;
}

/* Pointer encoding of the FDEs of a CIE; -1: cannot be read. *aug: they have augmentation data. */
static int cie_encoding(const struct gt_image *img, uint64_t vaddr, int *aug)
{
	uint8_t letters[8] = {0}, enc = 0;
	struct cursor c;
	uint8_t version;

	if (entry_at(img, vaddr, &c))
		return -1;
	skip(&c, 4);
	version = get_u8(&c);
	for (size_t i = 0; (letters[i] = get_u8(&c)); i++)
		if (i == sizeof(letters) - 1)
			return -1;
	get_uleb(&c);
	get_uleb(&c);
	if (version == 1)
		get_u8(&c);
	else
		get_uleb(&c);
	*aug = letters[0] == 'z';
	if (*aug)
		get_uleb(&c);
	for (size_t i = *aug ? 1 : 0; letters[i]; i++) {
		switch (letters[i]) {
		case 'R':
			enc = get_u8(&c);
			return c.bad ? -1 : enc;
		case 'P':
			skip(&c, encoded_size(get_u8(&c)));
			break;
		case 'L':
			get_u8(&c);
			break;
		case 'S': /* signal frame */
		case 'B': /* AArch64: return address signed with key B */
		case 'G': /* AArch64: memory tagging */
			break;
		default:
			return -1;
		}
	}
	return c.bad ? -1 : enc;
}

/*
 * Does the CFA change before the code advances? GCC, clang and BOLT write so at the start of a part
 * that was moved away (.cold): the frame has been set up by the code that jumps there.
 */
static int starts_with_frame(struct cursor c)
{
	while (!c.bad && c.p < c.end) {
		uint8_t op = get_u8(&c);

		switch (op & 0xc0 ? op & 0xc0 : op) {
		case 0x0c: /* DW_CFA_def_cfa */
		case 0x0d: /* DW_CFA_def_cfa_register */
		case 0x0e: /* DW_CFA_def_cfa_offset */
			return 1;
		case 0x80: /* DW_CFA_offset */
			get_uleb(&c);
			break;
		case 0xc0: /* DW_CFA_restore */
		case 0x0a: /* DW_CFA_remember_state */
		case 0x2d: /* DW_CFA_AARCH64_negate_ra_state */
			break;
		default: /* DW_CFA_advance_loc, DW_CFA_nop and all else */
			return 0;
		}
	}
	return 0;
}

static int read_fde(const struct gt_image *img, uint64_t vaddr, uint64_t start,
		    struct gt_range *out)
{
	struct cursor c;
	uint64_t cie, len;
	unsigned int size;
	int enc, aug;

	if (entry_at(img, vaddr, &c))
		return -1;
	cie = vaddr + 4 - gt_get_le32(c.p);
	skip(&c, 4);
	enc = cie_encoding(img, cie, &aug);
	size = enc < 0 ? 0 : encoded_size((uint8_t)enc);
	if (!size || c.end - c.p < 2 * (ptrdiff_t)size)
		return -1;
	len = size == 8   ? gt_get_le64(c.p + 8)
	      : size == 4 ? gt_get_le32(c.p + 4)
			  : gt_get_le16(c.p + 2);
	skip(&c, 2ull * size);
	if (aug)
		skip(&c, get_uleb(&c));
	if (c.bad || !len || start + len < start)
		return -1;
	*out = (struct gt_range){start, start + len, starts_with_frame(c)};
	return 0;
}

int gt_image_function(const struct gt_image *img, uint64_t vaddr, struct gt_range *out)
{
	uint64_t lo = 0, hi = img->eh_count;
	const uint8_t *e;
	struct gt_range r;

	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;
		int32_t pc = (int32_t)gt_get_le32(img->eh_table + mid * EH_ENTRY);

		if ((int64_t)(vaddr - img->eh_hdr) >= pc)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return -ENOENT;
	e = img->eh_table + (lo - 1) * EH_ENTRY;
	if (read_fde(img, img->eh_hdr + (uint64_t)(int64_t)(int32_t)gt_get_le32(e + 4),
		     img->eh_hdr + (uint64_t)(int64_t)(int32_t)gt_get_le32(e), &r) ||
	    vaddr < r.start || vaddr >= r.end)
		return -ENOENT;
	*out = r;
	return 0;
}

int gt_image_has_symtab(const struct gt_image *img)
{
	uint64_t off = gt_get_le64(img->data + 40), n = gt_get_le16(img->data + 60);

	if (gt_get_le16(img->data + 58) != sizeof(Elf64_Shdr) ||
	    !gt_in_range(off, n * sizeof(Elf64_Shdr), img->size))
		return 0;
	for (uint64_t i = 0; i < n; i++)
		if (gt_get_le32(img->data + off + i * sizeof(Elf64_Shdr) + 4) == SHT_SYMTAB)
			return 1;
	return 0;
}
