/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fakepy.h - the memory of a CPython that was never run: _PyRuntime, an interpreter, threading, and
 * threads, laid out as a version has them. cmocka.h comes before.
 */
#ifndef GT_TEST_FAKEPY_H
#define GT_TEST_FAKEPY_H

#include "pynames.h"
#include "pyobjects.h"

#define FAKE_BASE 0x1000ull
#define FAKE_SIZE 0x3000

enum fake_how {
	FAKE_VALUES, /* split: values in an array of their own, or in the instance */
	FAKE_SPLIT,  /* a dict that shares its keys */
	FAKE_DICT    /* a dict of its own */
};

struct fake {
	uint8_t bytes[FAKE_SIZE];
	size_t used;
	unsigned int minor, free_threaded;
	struct gt_pynames_layout l;
	uint64_t type[GT_BUILTINS], thread, dummy; /* classes */
	uint64_t keys, name_key, id_key;           /* of threads that share them */
	uint64_t interp, active, modules;
	uint64_t name_slot[8], id_slot[8], entry[8];
	unsigned int threads;
	/* What happens while it is read. */
	unsigned int reads, at_read;
	int error;
	void (*change)(struct fake *f);
};

static inline uint8_t *fake_at(struct fake *f, uint64_t addr)
{
	assert_true(addr >= FAKE_BASE && addr - FAKE_BASE < FAKE_SIZE);
	return f->bytes + (addr - FAKE_BASE);
}

static inline void fake_put(struct fake *f, uint64_t addr, uint64_t v)
{
	gt_put_le64(fake_at(f, addr), v);
}

static inline uint64_t fake_word(struct fake *f, uint64_t addr)
{
	return gt_get_le64(fake_at(f, addr));
}

static inline uint64_t fake_alloc(struct fake *f, size_t size)
{
	uint64_t addr = FAKE_BASE + f->used;

	f->used += (size + 15) & ~15ull;
	assert_true(f->used <= FAKE_SIZE);
	return addr;
}

static inline uint64_t fake_object(struct fake *f, uint64_t type, size_t size)
{
	uint64_t addr = fake_alloc(f, f->l.head + size);

	fake_put(f, addr + f->l.head - 8, type);
	return addr;
}

static inline uint64_t fake_type(struct fake *f, const char *name, uint64_t flags)
{
	uint64_t type = fake_alloc(f, 0x200), text = fake_alloc(f, strlen(name) + 1);

	memcpy(fake_at(f, text), name, strlen(name) + 1);
	fake_put(f, gt_pytype_name(&(struct gt_pyobjects){.l = f->l}, type), text);
	fake_put(f, gt_pytype_flags(&(struct gt_pyobjects){.l = f->l}, type), flags);
	return type;
}

/* kind: bytes of a character; 0: ASCII */
static inline uint64_t fake_str(struct fake *f, unsigned int kind, const void *data, size_t n)
{
	const unsigned int size = kind ? kind : 1;
	const uint64_t head = kind ? f->l.compact : f->l.ascii;
	uint64_t str = fake_alloc(f, head + (n + 1) * size);

	fake_put(f, str + f->l.head - 8, f->type[GT_BUILTIN_STR]);
	fake_put(f, str + f->l.head, n);
	gt_put_le32(fake_at(f, str + f->l.head + 16), (size | 8 | (kind ? 0u : 16u))
							      << f->l.kind_shift);
	memcpy(fake_at(f, str + head), data, n * size);
	return str;
}

static inline uint64_t fake_ascii(struct fake *f, const char *text)
{
	return fake_str(f, 0, text, strlen(text));
}

static inline uint64_t fake_int(struct fake *f, uint32_t v)
{
	uint64_t num = fake_object(f, f->type[GT_BUILTIN_INT], 16);

	fake_put(f, num + f->l.head, f->minor < 12 ? 1 : 1 << 3);
	gt_put_le32(fake_at(f, num + f->l.head + 8), v);
	return num;
}

/* Room for 8 - 3 entries. general: with hashes, as all had before 3.11. */
static inline uint64_t fake_keys(struct fake *f, int general, struct gt_pytable *t)
{
	uint64_t keys = fake_alloc(f, f->l.keys_head + 8 + 5 * 24);

	if (f->minor < 11) {
		fake_put(f, keys + 8, 8);
		general = 1;
	} else {
		memcpy(fake_at(f, keys + 8), general ? "\3\3\0" : "\3\3\1", 3);
	}
	*t = (struct gt_pytable){
		.entries = keys + f->l.keys_head + 8,
		.key = general ? 8 : 0,
		.size = general ? 24 : 16,
	};
	return keys;
}

static inline void fake_add(struct fake *f, uint64_t keys, struct gt_pytable *t, uint64_t key,
			    uint64_t value)
{
	assert_true(t->n < 5);
	fake_put(f, t->entries + t->size * t->n + t->key, key);
	if (value)
		fake_put(f, gt_pytable_value(t, t->n), value);
	t->n++;
	fake_put(f, keys + f->l.keys_head - 8, t->n);
}

static inline uint64_t fake_dict_of(struct fake *f, uint64_t keys, uint64_t values)
{
	uint64_t dict = fake_object(f, f->type[GT_BUILTIN_DICT], 32);

	fake_put(f, dict + f->l.head + 16, keys);
	fake_put(f, dict + f->l.head + 24, values);
	return dict;
}

/* A dict {"other": 0, key: value}. */
static inline uint64_t fake_dict(struct fake *f, const char *key, uint64_t value)
{
	struct gt_pytable t;
	uint64_t keys = fake_keys(f, 0, &t);

	fake_add(f, keys, &t, fake_ascii(f, "other"), 0);
	fake_add(f, keys, &t, fake_ascii(f, key), value);
	return fake_dict_of(f, keys, 0);
}

static inline uint64_t fake_class(struct fake *f, const char *name)
{
	struct gt_pyobjects o = {.l = f->l};
	uint64_t flags = GT_PYTYPE_HEAP, type;

	if (f->minor >= 11)
		flags |= GT_PYTYPE_MANAGED_DICT;
	if (f->minor >= 13)
		flags |= GT_PYTYPE_INLINE_VALUES;
	type = fake_alloc(f, 0x3c0);
	fake_put(f, gt_pytype_flags(&o, type), flags);
	fake_put(f, gt_pytype_size(&o, type), f->l.head + (f->minor < 11 ? 16 : 0));
	fake_put(f, gt_pytype_dictoffset(&o, type), f->minor < 11 ? f->l.head : -1ull);
	/* The name is the text of a str. */
	fake_put(f, gt_pytype_name(&o, type), fake_ascii(f, name) + f->l.ascii);
	if (f->l.cached_keys)
		fake_put(f, type + f->l.cached_keys, f->keys);
	return type;
}

/* Writes the values of a thread; where they begin. */
static inline uint64_t fake_values(struct fake *f, uint64_t values, uint64_t name, uint64_t id)
{
	if (f->minor >= 13) {
		memcpy(fake_at(f, values), "\5\3\1\1", 4);
		values += 8;
	}
	f->name_slot[f->threads] = values + 8;
	f->id_slot[f->threads] = values + 16;
	fake_put(f, values + 8, name);
	fake_put(f, values + 16, id);
	return values;
}

static inline uint64_t fake_own_dict(struct fake *f, uint64_t name, uint64_t id)
{
	struct gt_pytable t;
	uint64_t keys = fake_keys(f, 1, &t);

	fake_add(f, keys, &t, fake_ascii(f, "other"), 0);
	f->id_slot[f->threads] = gt_pytable_value(&t, 1);
	fake_add(f, keys, &t, f->id_key, id);
	f->name_slot[f->threads] = gt_pytable_value(&t, 2);
	fake_add(f, keys, &t, fake_ascii(f, "_name"), name);
	return fake_dict_of(f, keys, 0);
}

/* Adds a thread to threading._active. */
static inline void fake_thread(struct fake *f, uint64_t class, enum fake_how how, uint64_t name,
			       uint64_t id)
{
	uint64_t obj = fake_alloc(f, 32 + f->l.head + 16 + 64) + 32, dict = 0, values;
	const uint64_t keys = fake_word(f, f->active + f->l.head + 16);
	struct gt_pytable t = {.entries = keys + f->l.keys_head + 8, .key = 8, .size = 24};

	fake_put(f, obj + f->l.head - 8, class);
	values = f->minor >= 13 ? obj + f->l.head : fake_alloc(f, 64);
	if (how != FAKE_DICT)
		fake_values(f, values, name, id);
	if (how == FAKE_DICT)
		dict = fake_own_dict(f, name, id);
	else if (how == FAKE_SPLIT || f->minor < 11)
		dict = fake_dict_of(f, f->keys, values);
	if (f->minor < 11)
		fake_put(f, obj + f->l.head, dict);
	else if (f->minor == 12 && !dict)
		fake_put(f, obj - 24, values - 1);
	else
		fake_put(f, obj - f->l.managed, dict);
	if (f->minor == 11 && !dict)
		fake_put(f, obj - 32, values);
	t.n = f->threads;
	f->entry[f->threads++] = gt_pytable_value(&t, t.n);
	fake_add(f, keys, &t, 0, obj);
}

/* Another interpreter, in front of the others, without threads. */
static inline void fake_interp(struct fake *f)
{
	uint64_t module, next = f->interp;
	struct gt_pytable t;

	f->interp = fake_alloc(f, f->l.modules + 8);
	fake_put(f, f->interp + f->l.next, next);
	fake_put(f, FAKE_BASE + f->l.interps, f->interp);
	f->active = fake_dict_of(f, fake_keys(f, 1, &t), 0);
	f->threads = 0;
	module = fake_object(f, f->type[GT_BUILTIN_MODULE], 8);
	fake_put(f, module + f->l.head, fake_dict(f, "_active", f->active));
	f->modules = fake_dict(f, "threading", module);
	fake_put(f, f->interp + f->l.modules, f->modules);
}

/* As Debian's builds publish them, with smaller offsets in _PyRuntime and in interpreters. */
static inline void fake_publish(struct fake *f)
{
	static const struct words {
		unsigned int modules, gil, thread, native, object, dict, tag, str;
	} versions[] = {{11, 14, 19, 25, 44, 57, 62, 68},
			{12, 15, 22, 28, 50, 67, 72, 78},
			{12, 15, 22, 31, 58, 79, 84, 90}};
	const struct words *w = &versions[f->minor - 13];
	const uint64_t head = f->free_threaded ? 32 : 16, shift = f->free_threaded ? 8 : 0;
	const struct {
		unsigned int word;
		uint64_t is;
	} all[] = {
		{1, 0x030000f0 | f->minor << 16},
		{2, f->free_threaded},
		{3, 0x400}, /* _PyRuntime: size, finalizing, interpreters_head */
		{4, 0x308},
		{5, 0x310},
		{6, 0x100}, /* interpreter: size, next, imports.modules */
		{8, 0x48},
		{w->modules, 0x50},
		{w->gil, 0x20},
		{w->gil + 1, 0x80},
		{w->gil + 3, 0x90 + shift},
		{w->gil + 4, 0x88 + shift},
		{w->thread, 0x100},
		{w->thread + 2, 8},
		{w->thread + 3, 16},
		{w->native - 1, 0x98},
		{w->native, 0xa0},
		{w->object, head},
		{w->object + 1, head - 8},
		{w->object + 3, head + 8},
		{w->object + 5, head + 152},
		{w->dict, head + 16},
		{w->dict + 1, head + 24},
		{w->tag, head},
		{w->tag + 1, head + 8},
		{w->str, head + 16},
		{w->str + 1, head},
		{w->str + 2, head + 24},
	};

	memcpy(f->bytes, "xdebugpy", 8);
	for (size_t i = 0; i < GT_ARRAY_SIZE(all); i++)
		fake_put(f, FAKE_BASE + 8ull * all[i].word, all[i].is);
}

/* One interpreter, without threads. */
static inline void fake_make(struct fake *f, unsigned int minor, unsigned int free_threaded)
{
	const char *why;
	struct gt_pytable t;

	memset(f, 0, sizeof(*f));
	f->minor = minor;
	f->free_threaded = free_threaded;
	if (minor >= 13)
		fake_publish(f);
	if (gt_pynames_layout(minor >= 13 ? f->bytes : NULL, 3, minor, &f->l, &why))
		fail_msg("3.%u: %s", minor, why);
	fake_alloc(f, 0x400);
	f->type[GT_BUILTIN_DICT] = fake_type(f, "dict", GT_PYTYPE_DICT);
	f->type[GT_BUILTIN_STR] = fake_type(f, "str", GT_PYTYPE_STR);
	f->type[GT_BUILTIN_INT] = fake_type(f, "int", GT_PYTYPE_INT);
	f->type[GT_BUILTIN_MODULE] = fake_type(f, "module", 0);
	f->name_key = fake_ascii(f, "_name");
	f->id_key = fake_ascii(f, "_native_id");
	f->keys = fake_keys(f, 0, &t);
	fake_add(f, f->keys, &t, fake_ascii(f, "_target"), 0);
	fake_add(f, f->keys, &t, f->name_key, 0);
	fake_add(f, f->keys, &t, f->id_key, 0);
	f->thread = fake_class(f, "Thread");
	f->dummy = fake_class(f, "_DummyThread");
	fake_interp(f);
}

static inline int fake_read(void *ctx, uint64_t addr, void *buf, size_t len)
{
	struct fake *f = ctx;

	if (f->reads++ == f->at_read && f->change)
		f->change(f);
	if (f->error && f->reads > f->at_read)
		return f->error;
	assert_in_range(len, 1, 4096);
	if (addr < FAKE_BASE || !gt_in_range(addr - FAKE_BASE, len, f->used))
		return -EFAULT;
	memcpy(buf, f->bytes + (addr - FAKE_BASE), len);
	return 0;
}

#endif
