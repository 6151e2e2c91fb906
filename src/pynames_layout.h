/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pynames_layout.h - where CPython 3.8 to 3.15 keep what leads to the names of their threads.
 * docs/layouts.md, section 5, says what each number is and how it was checked. Pure function.
 */
#ifndef GT_PYNAMES_LAYOUT_H
#define GT_PYNAMES_LAYOUT_H

#include "pymem.h"

/* How an instance of a class written in Python keeps its attributes. */
enum gt_py_attributes {
	GT_ATTRS_DICT,   /* .. 3.10: in a dict */
	GT_ATTRS_BOTH,   /* 3.11: in an array of values, or in a dict: a pointer to each */
	GT_ATTRS_TAGGED, /* 3.12: one pointer for both, bit 0 tells which */
	GT_ATTRS_INLINE, /* 3.13 ..: values in the instance itself, or in a dict, or both */
};

/* Bytes. All objects begin with `head` of them, whose last 8 are the type. */
struct gt_pynames_layout {
	unsigned int minor;
	uint64_t interps; /* in _PyRuntime: the first interpreter */
	uint64_t next;    /* in an interpreter: the next one */
	uint64_t modules; /* in an interpreter: sys.modules */
	uint32_t head;
	uint32_t keys_head;   /* of a dict's keys: what comes before the indices */
	uint32_t cached_keys; /* in a class written in Python: ht_cached_keys; 0: not used */
	uint32_t ascii;       /* in a str: the characters, if all are ASCII */
	uint32_t compact;     /* in a str: the characters, if not */
	uint32_t kind_shift;  /* in the word of a str with its state: .kind, .compact, .ascii */
	uint32_t managed;     /* so far before an instance: the pointer to its dict; 0: none */
	enum gt_py_attributes attributes;
};

#define GT_PYNAMES_HEAD (8 * 96) /* bytes of _Py_DebugOffsets that are looked at */

/*
 * head: the start of _PyRuntime, or NULL if it does not begin with _Py_DebugOffsets. What it says
 * goes before the version that is known from elsewhere. -ENOTSUP: a version that is not in the
 * table; -EPROTO: its words are not those of the version. why: static text, set where not 0.
 */
int gt_pynames_layout(const uint8_t *head, unsigned int major, unsigned int minor,
		      struct gt_pynames_layout *out, const char **why);

#endif
