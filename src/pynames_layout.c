// SPDX-License-Identifier: Apache-2.0
#include "pynames_layout.h"

/*
 * Before each of these members stand pointers and ints only, so they are the same on x86-64 and
 * AArch64, with every libc, and in debug builds (not with Py_TRACE_REFS, which has greater heads).
 * From 3.13 on, interps, next and modules are those that _Py_DebugOffsets tell.
 */
static const struct gt_pynames_layout rows[] = {
	{8, 32, 0, 56, 16, 40, 0, 48, 72, 2, 0, GT_ATTRS_DICT},
	{9, 32, 0, 856, 16, 40, 0, 48, 72, 2, 0, GT_ATTRS_DICT},
	{10, 32, 0, 856, 16, 40, 0, 48, 72, 2, 0, GT_ATTRS_DICT},
	{11, 40, 0, 888, 16, 32, 872, 48, 72, 2, 24, GT_ATTRS_BOTH},
	{12, 40, 0, 944, 16, 32, 880, 40, 56, 2, 24, GT_ATTRS_TAGGED},
	{13, 0, 0, 0, 16, 32, 880, 40, 56, 2, 24, GT_ATTRS_INLINE},
	{14, 0, 0, 0, 16, 32, 880, 40, 56, 2, 24, GT_ATTRS_INLINE},
	{15, 0, 0, 0, 16, 32, 888, 40, 56, 2, 24, GT_ATTRS_INLINE},
};

/* Which words of _Py_DebugOffsets tell of objects what the rows say, too. */
static const struct words {
	unsigned int minor;
	unsigned int object; /* pyobject.size; .ob_type and type_object.size, .tp_name follow */
	unsigned int dict;   /* dict_object.ma_keys; .ma_values follows */
	unsigned int lv_tag; /* long_object.lv_tag; .ob_digit follows */
	unsigned int str;    /* unicode_object.state; .length, .asciiobject_size follow */
} versions[] = {{13, 44, 57, 62, 68}, {14, 50, 67, 72, 78}, {15, 58, 79, 84, 90}};

static int agree(const uint8_t *head, const struct words *v, const struct gt_pynames_layout *l)
{
	const struct {
		unsigned int word;
		uint64_t is;
	} facts[] = {
		{v->object, l->head},         {v->object + 1, l->head - 8},
		{v->object + 3, l->head + 8}, {v->object + 5, l->head + 152},
		{v->dict, l->head + 16},      {v->dict + 1, l->head + 24},
		{v->lv_tag, l->head},         {v->lv_tag + 1, l->head + 8},
		{v->str, l->head + 16},       {v->str + 1, l->head},
		{v->str + 2, l->ascii},
	};

	for (size_t i = 0; i < GT_ARRAY_SIZE(facts); i++)
		if (gt_get_le64(head + 8 * (size_t)facts[i].word) != facts[i].is)
			return 0;
	return 1;
}

/*
 * Objects have 16 bytes more in front and no GC head before that. From 3.14 on, state.interned of a
 * str is a char, where it was two bits.
 */
static void make_free_threaded(struct gt_pynames_layout *l)
{
	l->head += 16;
	l->cached_keys += 16;
	l->ascii += 16;
	l->compact += 16;
	l->managed = 8;
	if (l->minor > 13)
		l->kind_shift = 8;
}

static int use_published(const uint8_t *head, const struct gt_pyoffsets *o,
			 struct gt_pynames_layout *l, const char **why)
{
	const struct words *v = versions;

	while (v->minor != l->minor)
		v++;
	l->interps = o->interps;
	l->next = o->next;
	l->modules = o->modules;
	if (o->free_threaded)
		make_free_threaded(l);
	if (l->modules & 7 || l->modules > 1 << 20 || !agree(head, v, l)) {
		*why = "its _Py_DebugOffsets are of an unknown form";
		return -EPROTO;
	}
	return 0;
}

int gt_pynames_layout(const uint8_t *head, unsigned int major, unsigned int minor,
		      struct gt_pynames_layout *out, const char **why)
{
	struct gt_pynames_layout l = {0};
	struct gt_pyoffsets o;
	int r = 0;

	if (head) {
		r = gt_pyoffsets_parse(head, &o, why);
		if (r)
			return r;
		major = 3;
		minor = o.minor;
	}
	for (size_t i = 0; major == 3 && i < GT_ARRAY_SIZE(rows); i++)
		if (rows[i].minor == minor)
			l = rows[i];
	if (!major)
		*why = "the version of this Python is not known";
	else if (!l.minor && (major < 3 || minor < 8))
		*why = "CPython before 3.8 does not keep the ids of threads beside their names";
	else if (!l.minor)
		*why = "where this version of CPython keeps the names of threads is not known";
	if (!l.minor)
		return -ENOTSUP;
	if (head) {
		r = use_published(head, &o, &l, why);
	} else if (minor >= versions[0].minor) {
		*why = "its _PyRuntime does not begin with _Py_DebugOffsets";
		r = -EPROTO;
	}
	if (!r)
		*out = l;
	return r;
}
