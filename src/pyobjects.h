/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pyobjects.h - objects of a CPython, read from its memory from outside: str, int, dict, and what
 * is common to all. For pynames.c.
 *
 * The memory is hostile and changes while it is read: reads are bounded, in size and in number, and
 * an object is believed only if its type and its form are right. All that returns int returns 0 (or
 * what is said), -EPROTO for what is not as it should be or is not there, or another -errno: the
 * memory cannot be read at all. Out-parameters are set only on success.
 */
#ifndef GT_PYOBJECTS_H
#define GT_PYOBJECTS_H

#include "pynames_layout.h"

/* Types that are CPython's own; told by name at first, by address from then on. */
enum gt_builtin { GT_BUILTIN_DICT, GT_BUILTIN_STR, GT_BUILTIN_INT, GT_BUILTIN_MODULE, GT_BUILTINS };

/* To be set to 0, but for the first three. */
struct gt_pyobjects {
	gt_memory_fn *read;
	void *ctx;
	struct gt_pynames_layout l;
	const char *odd; /* what was not as it should be, the last time */
	unsigned int reads;
	uint64_t builtin[GT_BUILTINS]; /* 0: not met yet */
};

#define GT_PYOBJECTS_READS 100000 /* more are not done */

/* Notes what is odd (static text); returns -EPROTO. */
int gt_pyobjects_odd(struct gt_pyobjects *o, const char *what);

int gt_pyobjects_word(struct gt_pyobjects *o, uint64_t addr, uint64_t *out);
int gt_pyobjects_bytes(struct gt_pyobjects *o, uint64_t addr, void *buf, size_t len);

/* Is it that C string, of up to 15 characters? 1, 0, or -errno. */
int gt_pyobjects_string_is(struct gt_pyobjects *o, uint64_t addr, const char *string);

/* Where a type has what; its size is tp_basicsize. Read by gt_pyobjects_word(). */
uint64_t gt_pytype_name(const struct gt_pyobjects *o, uint64_t type);
uint64_t gt_pytype_size(const struct gt_pyobjects *o, uint64_t type);
uint64_t gt_pytype_flags(const struct gt_pyobjects *o, uint64_t type);
uint64_t gt_pytype_dictoffset(const struct gt_pyobjects *o, uint64_t type);

/* tp_flags (object.h), the same in all versions that have them. */
#define GT_PYTYPE_INLINE_VALUES (1u << 2) /* 3.13 */
#define GT_PYTYPE_MANAGED_DICT  (1u << 4) /* 3.11 */
#define GT_PYTYPE_HEAP          (1u << 9)
#define GT_PYTYPE_INT           (1u << 24)
#define GT_PYTYPE_STR           (1u << 28)
#define GT_PYTYPE_DICT          (1u << 29)

/* The word that follows the head of an object of that type. */
int gt_pyobjects_first(struct gt_pyobjects *o, uint64_t obj, enum gt_builtin type, uint64_t *out);

/*
 * A str in UTF-8, cut between two characters so that it fits into size bytes (64 at most) with its
 * NUL. What UTF-8 cannot have, and NUL, is U+FFFD.
 */
int gt_pyobjects_str(struct gt_pyobjects *o, uint64_t str, char *out, size_t size);

/* An int from 1 to max, which is less than 2^30. */
int gt_pyobjects_int(struct gt_pyobjects *o, uint64_t num, uint32_t max, uint32_t *out);

/* What a dict keeps, or an instance: keys, and values beside them or in an array. */
struct gt_pytable {
	uint64_t entries;
	uint64_t values;    /* the array; 0: beside the keys */
	uint32_t n;         /* entries; some are empty */
	uint32_t key, size; /* of an entry: where its key is; the value is 8 behind */
};

int gt_pyobjects_dict(struct gt_pyobjects *o, uint64_t dict, struct gt_pytable *out);

/* A PyDictKeysObject; .values is 0. */
int gt_pyobjects_keys(struct gt_pyobjects *o, uint64_t keys, struct gt_pytable *out);

/* Where the value of entry i < t->n stands; it is 0 if there is none. */
uint64_t gt_pytable_value(const struct gt_pytable *t, uint64_t i);

/* Bytes before the first value, in an instance's array of values. */
uint64_t gt_pyobjects_values_head(const struct gt_pyobjects *o);

/* A key that is looked for: ASCII, up to 15 characters. */
struct gt_pykey {
	const char *text;
	uint64_t met; /* the str that was it the last time: such are interned */
};

/* 1: *at is where its value stands; 0: it is not there. */
int gt_pytable_find(struct gt_pyobjects *o, const struct gt_pytable *t, struct gt_pykey *key,
		    uint64_t *at);

/* 1: *out is the value, an object; 0: there is none. */
int gt_pytable_get(struct gt_pyobjects *o, const struct gt_pytable *t, struct gt_pykey *key,
		   uint64_t *out);

#endif
