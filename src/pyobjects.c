// SPDX-License-Identifier: Apache-2.0
#include "pyobjects.h"

#define ENTRIES_MAX   65536 /* of one dict */
#define CHUNK         4080  /* of a table's entries; a multiple of 16 and of 24 */
#define HEAD_MAX      32
#define TEXT_MAX      16 /* of what is compared, with a NUL */
#define STR_MAX       64
#define TEXT_HEAD_MAX 88

int gt_pyobjects_odd(struct gt_pyobjects *o, const char *what)
{
	o->odd = what;
	return -EPROTO;
}

static int leads_nowhere(struct gt_pyobjects *o)
{
	return gt_pyobjects_odd(o, "a pointer leads nowhere");
}

int gt_pyobjects_bytes(struct gt_pyobjects *o, uint64_t addr, void *buf, size_t len)
{
	int r;

	if (!addr || addr >= GT_PYMEM_ADDRESS_MAX)
		return leads_nowhere(o);
	if (o->reads == GT_PYOBJECTS_READS)
		return gt_pyobjects_odd(o, "it takes too many reads");
	o->reads++;
	r = o->read(o->ctx, addr, buf, len);
	return r == -EFAULT ? leads_nowhere(o) : r;
}

/* The same, of what is aligned. */
static int get(struct gt_pyobjects *o, uint64_t addr, void *buf, size_t len)
{
	return addr & 7 ? leads_nowhere(o) : gt_pyobjects_bytes(o, addr, buf, len);
}

int gt_pyobjects_word(struct gt_pyobjects *o, uint64_t addr, uint64_t *out)
{
	uint8_t buf[8];
	int r = get(o, addr, buf, sizeof(buf));

	if (!r)
		*out = gt_get_le64(buf);
	return r;
}

int gt_pyobjects_string_is(struct gt_pyobjects *o, uint64_t addr, const char *string)
{
	const size_t len = strlen(string) + 1;
	char buf[TEXT_MAX];
	int r = len <= sizeof(buf) ? gt_pyobjects_bytes(o, addr, buf, len) : -EPROTO;

	if (r)
		return r == -EPROTO ? 0 : r;
	return !memcmp(buf, string, len);
}

/* ---- types ---- */

/* PyVarObject, tp_name, tp_basicsize, ... (cpython/object.h), the same in 3.8 to 3.15 */
uint64_t gt_pytype_name(const struct gt_pyobjects *o, uint64_t type)
{
	return type + o->l.head + 8;
}

uint64_t gt_pytype_size(const struct gt_pyobjects *o, uint64_t type)
{
	return type + o->l.head + 16;
}

uint64_t gt_pytype_flags(const struct gt_pyobjects *o, uint64_t type)
{
	return type + o->l.head + 152;
}

uint64_t gt_pytype_dictoffset(const struct gt_pyobjects *o, uint64_t type)
{
	return type + o->l.head + 272;
}

static int check_type(struct gt_pyobjects *o, uint64_t type, enum gt_builtin expected)
{
	static const struct {
		const char *name;
		uint32_t flag;
	} types[] = {{"dict", GT_PYTYPE_DICT},
		     {"str", GT_PYTYPE_STR},
		     {"int", GT_PYTYPE_INT},
		     {"module", 0}};
	const uint32_t mask = GT_PYTYPE_HEAP | GT_PYTYPE_DICT | GT_PYTYPE_STR | GT_PYTYPE_INT;
	uint64_t flags, name;
	int r;

	if (o->builtin[expected])
		r = type == o->builtin[expected];
	else if ((r = gt_pyobjects_word(o, gt_pytype_flags(o, type), &flags)) ||
		 (r = gt_pyobjects_word(o, gt_pytype_name(o, type), &name)))
		return r;
	else if ((flags & mask) == types[expected].flag)
		r = gt_pyobjects_string_is(o, name, types[expected].name);
	if (r < 0)
		return r;
	if (!r)
		return gt_pyobjects_odd(o, "an object is of another type than it should be");
	o->builtin[expected] = type;
	return 0;
}

/* The head and what follows it. */
static int get_object(struct gt_pyobjects *o, uint64_t obj, enum gt_builtin type, uint8_t *buf,
		      size_t len)
{
	int r = get(o, obj, buf, len);

	return r ? r : check_type(o, gt_get_le64(buf + o->l.head - 8), type);
}

int gt_pyobjects_first(struct gt_pyobjects *o, uint64_t obj, enum gt_builtin type, uint64_t *out)
{
	uint8_t buf[HEAD_MAX + 8];
	int r = get_object(o, obj, type, buf, o->l.head + 8);

	if (!r)
		*out = gt_get_le64(buf + o->l.head);
	return r;
}

/* ---- str and int ---- */

struct text {
	uint64_t length; /* in characters */
	uint32_t offset; /* where they are */
	uint32_t kind;   /* bytes of one */
	uint32_t ascii;
};

/* length, hash, state (cpython/unicodeobject.h) */
static int understand_text(struct gt_pyobjects *o, const uint8_t *buf, struct text *out)
{
	const uint32_t state = gt_get_le32(buf + o->l.head + 16) >> o->l.kind_shift;
	const struct text t = {
		.offset = state >> 4 & 1 ? o->l.ascii : o->l.compact,
		.length = gt_get_le64(buf + o->l.head),
		.kind = state & 7,
		.ascii = state >> 4 & 1,
	};

	if (!(state >> 3 & 1)) /* made in ways that 3.12 has no more */
		return gt_pyobjects_odd(o, "a str is not compact");
	if ((t.kind != 1 && t.kind != 2 && t.kind != 4) || t.length >> 48)
		return gt_pyobjects_odd(o, "a str is in no form that is known");
	*out = t;
	return 0;
}

static int get_text(struct gt_pyobjects *o, uint64_t str, struct text *out)
{
	uint8_t buf[HEAD_MAX + 20];
	int r = get_object(o, str, GT_BUILTIN_STR, buf, o->l.head + 20);

	return r ? r : understand_text(o, buf, out);
}

/* 1, 0, or -errno: the memory cannot be read at all. */
static int text_is(struct gt_pyobjects *o, uint64_t str, const char *text)
{
	const size_t len = strlen(text);
	char buf[TEXT_MAX];
	struct text t;
	int r = get_text(o, str, &t);

	if (!r && (!t.ascii || t.length != len || len > sizeof(buf)))
		return 0;
	if (!r)
		r = get(o, str + t.offset, buf, len);
	if (r)
		return r == -EPROTO ? 0 : r;
	return !memcmp(buf, text, len);
}

/* The bytes of a character in UTF-8: how many. */
static size_t encode(uint32_t c, char out[4])
{
	static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
	size_t n;

	if (!c || (c >= 0xd800 && c < 0xe000))
		c = 0xfffd;
	n = c < 0x80 ? 1 : (c < 0x800 ? 2 : (c < 0x10000 ? 3 : 4));
	for (size_t i = n - 1; i > 0; i--) {
		out[i] = (char)(0x80 | (c & 0x3f));
		c >>= 6;
	}
	out[0] = (char)(first[n] | c);
	return n;
}

/*
 * The head and at least max characters, or all. In one read: between two the str may be freed. Only
 * where memory ends soon after it are there two.
 */
static int get_whole_text(struct gt_pyobjects *o, uint64_t str, size_t max, uint8_t *buf,
			  struct text *t)
{
	int r = get_object(o, str, GT_BUILTIN_STR, buf, o->l.compact + 4 * max);

	if (!r)
		return understand_text(o, buf, t);
	if (r == -EPROTO)
		r = get_text(o, str, t);
	if (r || !t->length)
		return r;
	return get(o, str + t->offset, buf + t->offset,
		   (t->length < max ? (size_t)t->length : max) * t->kind);
}

int gt_pyobjects_str(struct gt_pyobjects *o, uint64_t str, char *out, size_t size)
{
	uint8_t buf[TEXT_HEAD_MAX + 4 * STR_MAX];
	char utf8[STR_MAX + 4]; /* one character more than fits */
	size_t len = 0, cut = 0;
	struct text t = {0};
	int r = size && size <= STR_MAX ? get_whole_text(o, str, size, buf, &t) : -EINVAL;

	for (size_t i = 0; !r && i < t.length && len < size; i++) {
		const uint8_t *p = buf + t.offset + i * t.kind;
		uint32_t c = t.kind == 1 ? *p : (t.kind == 2 ? gt_get_le16(p) : gt_get_le32(p));

		if (c > (t.ascii ? 0x7f : 0x10ffff))
			return gt_pyobjects_odd(o, "a str is in no form that is known");
		len += encode(c, utf8 + len);
		if (len < size)
			cut = len;
	}
	if (r)
		return r;
	memcpy(out, utf8, cut);
	out[cut] = 0;
	return 0;
}

/* ob_size, one digit of 30 bits; from 3.12 on digits << 3 and the sign, 4: one of the small ints */
int gt_pyobjects_int(struct gt_pyobjects *o, uint64_t num, uint32_t max, uint32_t *out)
{
	uint8_t buf[HEAD_MAX + 12];
	int r = get_object(o, num, GT_BUILTIN_INT, buf, o->l.head + 12);
	uint64_t size;
	uint32_t digit;

	if (r)
		return r;
	size = gt_get_le64(buf + o->l.head);
	digit = gt_get_le32(buf + o->l.head + 8);
	if (o->l.minor < 12 ? size != 1 : (size & ~4ull) != 8)
		return gt_pyobjects_odd(o, "an int is too great, or negative");
	if (!digit || digit > max)
		return gt_pyobjects_odd(o, "an int is too great, or 0");
	*out = digit;
	return 0;
}

/* ---- dict ---- */

/* 3.8 .. 3.10: int64 refcnt, size, lookup, usable, nentries */
static int understand_old_keys(const uint8_t *buf, struct gt_pytable *t)
{
	uint64_t size = gt_get_le64(buf + 8), n = gt_get_le64(buf + 32);

	if (!size || size & (size - 1) || size > 4ull * ENTRIES_MAX || n > size || n > ENTRIES_MAX)
		return -EPROTO;
	t->entries += size * (size <= 0xff ? 1 : (size <= 0xffff ? 2 : 4));
	t->n = (uint32_t)n;
	t->key = 8;
	t->size = 24;
	return 0;
}

/* 3.11 ..: int64 refcnt; uint8 log2_size, log2_index_bytes, kind; int64 usable, nentries */
static int understand_keys(const uint8_t *buf, struct gt_pytable *t)
{
	const unsigned int size = buf[8], bytes = buf[9], kind = buf[10];
	uint64_t n = gt_get_le64(buf + 24);

	if (size > 18 || kind > 2 || n > 1ull << size || n > ENTRIES_MAX)
		return -EPROTO;
	/* Dicts that are empty share keys whose form is another. */
	if (n && bytes != size + (size < 8 ? 0 : (size < 16 ? 1 : 2)))
		return -EPROTO;
	t->entries += n ? 1ull << bytes : 0;
	t->n = (uint32_t)n;
	t->key = kind ? 0 : 8;
	t->size = kind ? 16 : 24;
	return 0;
}

int gt_pyobjects_keys(struct gt_pyobjects *o, uint64_t keys, struct gt_pytable *out)
{
	struct gt_pytable t = {.entries = keys + o->l.keys_head};
	uint8_t buf[40];
	int r = get(o, keys, buf, o->l.keys_head);

	if (r)
		return r;
	r = o->l.minor < 11 ? understand_old_keys(buf, &t) : understand_keys(buf, &t);
	if (r)
		return gt_pyobjects_odd(o, "a dict is in no form that is known");
	*out = t;
	return 0;
}

/* From 3.13 on 4 bytes stand there: capacity, size, embedded, valid. */
uint64_t gt_pyobjects_values_head(const struct gt_pyobjects *o)
{
	return o->l.attributes == GT_ATTRS_INLINE ? 8 : 0;
}

/* ma_used, ma_version_tag, ma_keys, ma_values */
int gt_pyobjects_dict(struct gt_pyobjects *o, uint64_t dict, struct gt_pytable *out)
{
	uint8_t buf[HEAD_MAX + 32];
	int r = get_object(o, dict, GT_BUILTIN_DICT, buf, o->l.head + 32);
	uint64_t values;

	if (!r)
		r = gt_pyobjects_keys(o, gt_get_le64(buf + o->l.head + 16), out);
	if (r)
		return r;
	values = gt_get_le64(buf + o->l.head + 24);
	if (values)
		out->values = values + gt_pyobjects_values_head(o);
	return 0;
}

uint64_t gt_pytable_value(const struct gt_pytable *t, uint64_t i)
{
	return t->values ? t->values + 8 * i : t->entries + t->size * i + t->key + 8;
}

/* Without looking at the text: is it the very str that was met? */
static int find(struct gt_pyobjects *o, const struct gt_pytable *t, struct gt_pykey *key,
		int by_text, uint64_t *at)
{
	const uint32_t step = CHUNK / t->size;
	uint8_t buf[CHUNK];

	for (uint32_t i = 0; i < t->n; i++) {
		const uint32_t left = t->n - i;
		uint64_t str;
		int r = 0;

		if (i % step == 0)
			r = get(o, t->entries + (uint64_t)t->size * i, buf,
				(size_t)t->size * (left < step ? left : step));
		if (r)
			return r;
		str = gt_get_le64(buf + (size_t)t->size * (i % step) + t->key);
		if (by_text)
			r = str ? text_is(o, str, key->text) : 0;
		else
			r = str == key->met;
		if (r < 0)
			return r;
		if (r) {
			key->met = str;
			*at = gt_pytable_value(t, i);
			return 1;
		}
	}
	return 0;
}

int gt_pytable_find(struct gt_pyobjects *o, const struct gt_pytable *t, struct gt_pykey *key,
		    uint64_t *at)
{
	int r = key->met ? find(o, t, key, 0, at) : 0;

	return r ? r : find(o, t, key, 1, at);
}

int gt_pytable_get(struct gt_pyobjects *o, const struct gt_pytable *t, struct gt_pykey *key,
		   uint64_t *out)
{
	uint64_t at = 0, value;
	int r = gt_pytable_find(o, t, key, &at);

	if (r <= 0)
		return r;
	r = gt_pyobjects_word(o, at, &value);
	if (r || !value)
		return r;
	*out = value;
	return 1;
}
