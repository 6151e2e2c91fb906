/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.h - a bounds-checked view of a 64-bit little-endian ELF file in memory: segments, dynamic
 * table, relocations, dynamic symbols, function ranges from .eh_frame_hdr, build-id.
 *
 * The bytes are hostile and belong to the caller, who keeps them mapped while the view is used.
 * Only what the loader itself needs is read (no section headers, but for gt_image_has_symtab), so
 * stripped files do as well. Nothing is allocated; any thread may read a view.
 */
#ifndef GT_IMAGE_H
#define GT_IMAGE_H

#include "base.h"

#define GT_IMAGE_SEGS 64

struct gt_segment {
	uint64_t vaddr, offset, size; /* size: bytes in the file */
	int exec;
};

struct gt_image {
	const uint8_t *data;
	uint64_t size;
	uint16_t machine; /* EM_X86_64 or EM_AARCH64 */
	unsigned int nsegs;
	struct gt_segment seg[GT_IMAGE_SEGS];
	const uint8_t *syms, *strs; /* dynamic symbols; NULL: none */
	uint64_t nsyms, strs_size;
	const uint8_t *versions; /* DT_VERSYM, one of 16 bits for each symbol */
	uint64_t nversions;
	const uint8_t *rela[2]; /* DT_JMPREL, DT_RELA */
	uint64_t nrela[2];
	uint64_t soname;         /* offset in strs; 0: none */
	uint64_t eh_hdr;         /* address of .eh_frame_hdr */
	const uint8_t *eh_table; /* its search table; NULL: none */
	uint64_t eh_count;
	const uint8_t *build_id;
	uint32_t build_id_len;
};

/* 0, or -ENOEXEC with the reason in *why (static text). Missing tables are no error. */
int gt_image_open(struct gt_image *img, const void *data, size_t size, const char **why);

/* `len` bytes at a virtual address, all of them in the file; NULL: they are not. */
const uint8_t *gt_image_at(const struct gt_image *img, uint64_t vaddr, uint64_t len);

/* Offset in the file of a virtual address within an executable segment; -ENOENT. */
int gt_image_offset(const struct gt_image *img, uint64_t vaddr, uint64_t *offset);

/* Virtual address - file offset, modulo 2^64, in the first executable segment; 0: there is none. */
uint64_t gt_image_code_delta(const struct gt_image *img);

/* Value of a defined dynamic symbol; -ENOENT. */
int gt_image_symbol(const struct gt_image *img, const char *name, uint64_t *value);

struct gt_range {
	uint64_t start, end;
	int cold; /* the frame is set up before its first instruction: a part of another function */
};

/*
 * The exported function of that name, in its default version (name@@VERSION) where there are
 * several, as a linker would choose it. The end is as the symbol says. -ENOENT.
 */
int gt_image_export(const struct gt_image *img, const char *name, struct gt_range *out);

/* Is the name of dynamic symbol `index` this one? */
int gt_image_symbol_is(const struct gt_image *img, uint64_t index, const char *name);

/* Value of dynamic symbol `index`; 0: not defined here. */
uint64_t gt_image_symbol_value(const struct gt_image *img, uint64_t index);

/* A string of the dynamic string table, or NULL; terminated within the table. */
const char *gt_image_string(const struct gt_image *img, uint64_t offset);

/* The i-th relocation of a function's slot in the GOT: 1 and its parts, 0 another kind, -1 end. */
int gt_image_got_slot(const struct gt_image *img, uint64_t i, uint64_t *slot, uint64_t *symbol);

/* The function range that holds an address, by .eh_frame_hdr; -ENOENT. */
int gt_image_function(const struct gt_image *img, uint64_t vaddr, struct gt_range *out);

/* 1 if there is a .symtab. */
int gt_image_has_symtab(const struct gt_image *img);

#endif
