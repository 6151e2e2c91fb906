// SPDX-License-Identifier: Apache-2.0
/*
 * Names of threads from memory made up: every layout, every damage, and changes at every moment.
 * test_pynames_live.c looks at real Pythons. With GT_CORPUS=FOLDER it writes its images there, for
 * tests/fuzz/corpus/pynames.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fakepy.h"

#include <stdio.h>

#define OLDEST 8
#define NEWEST 15

#define READS_MAX (GT_PYOBJECTS_READS + 2)

static struct fake fake;

struct names {
	struct gt_pyname *name;
	size_t n;
	int r;
	const char *why;
};

static struct names parse_version(struct fake *f, unsigned int major, unsigned int minor)
{
	struct gt_pyname *const untouched = (struct gt_pyname *)0x1234;
	struct names s = {.name = untouched, .n = 77, .why = "old"};

	f->reads = 0;
	s.r = gt_pynames_parse(fake_read, f, FAKE_BASE, major, minor, &s.name, &s.n, &s.why);
	assert_in_range(f->reads, 1, READS_MAX);
	if (s.r) {
		assert_true(s.name == untouched && s.n == 77);
		assert_true(s.why && strlen(s.why) > 10);
		s.name = NULL;
		s.n = 0;
	} else {
		assert_null(s.why);
		assert_true(s.n == 0 ? s.name == NULL : s.name != NULL);
	}
	return s;
}

static struct names parse(struct fake *f)
{
	return parse_version(f, 3, f->minor);
}

static void assert_names(struct fake *f, size_t n, const char *const *names)
{
	struct names s = parse(f);

	assert_int_equal(s.r, 0);
	assert_int_equal(s.n, n);
	for (size_t i = 0; i < n; i++)
		assert_string_equal(s.name[i].name, names[i]);
	free(s.name);
}

static void assert_odd(struct fake *f, int error, const char *why)
{
	struct names s = parse(f);

	assert_int_equal(s.r, error);
	if (!strstr(s.why, why))
		fail_msg("'%s', not '%s'", s.why, why);
}

static void for_all_layouts(void (*f)(unsigned int minor, unsigned int free_threaded))
{
	for (unsigned int minor = OLDEST; minor <= NEWEST; minor++) {
		f(minor, 0);
		if (minor >= 13)
			f(minor, 1);
	}
}

/* Three threads, in each of the ways in which attributes are kept; a dummy; not by id. */
static void make_four(unsigned int minor, unsigned int free_threaded)
{
	static const uint16_t chinese[] = {0x7ebf, 0x7a0b};
	struct fake *f = &fake;

	fake_make(f, minor, free_threaded);
	fake_thread(f, f->thread, FAKE_VALUES, fake_ascii(f, "MainThread"), fake_int(f, 40));
	fake_thread(f, f->thread, FAKE_SPLIT, fake_str(f, 2, chinese, 2), fake_int(f, 30));
	fake_thread(f, f->thread, FAKE_DICT, fake_ascii(f, "pin_memory"), fake_int(f, 4194303));
	fake_thread(f, f->dummy, FAKE_VALUES, fake_ascii(f, "Dummy-1"), fake_int(f, 1));
}

static const char *const four[] = {"Dummy-1", "\347\272\277\347\250\213", "MainThread",
				   "pin_memory"};

static void write_corpus(const struct fake *f)
{
	const char *folder = getenv("GT_CORPUS");
	char path[512];
	FILE *out;

	if (!folder)
		return;
	snprintf(path, sizeof(path), "%s/3.%u%s", folder, f->minor, f->free_threaded ? "t" : "");
	out = fopen(path, "we");
	assert_non_null(out);
	assert_int_equal(fwrite(f->bytes, 1, f->used, out), f->used);
	fputc((int)(f->minor - OLDEST) << 1, out); /* as fuzz_pynames.c has it */
	assert_int_equal(fclose(out), 0);
}

static void one_layout(unsigned int minor, unsigned int free_threaded)
{
	struct names s;

	make_four(minor, free_threaded);
	assert_names(&fake, 4, four);
	s = parse(&fake);
	if (s.n != 4 || !s.name)
		abort(); /* not fail_msg(): the analyser must see that it ends here */
	assert_int_equal(s.name[0].ns_tid, 1);
	assert_int_equal(s.name[0].dummy, 1);
	assert_int_equal(s.name[1].ns_tid, 30);
	assert_int_equal(s.name[1].dummy, 0);
	assert_int_equal(s.name[2].ns_tid, 40);
	assert_int_equal(s.name[3].ns_tid, 4194303);
	free(s.name);
	write_corpus(&fake);
	/* A thread that has ended, and all of them. */
	fake_put(&fake, fake.entry[0], 0);
	assert_names(&fake, 3, (const char *[]){four[0], four[1], four[3]});
	for (unsigned int i = 1; i < 4; i++)
		fake_put(&fake, fake.entry[i], 0);
	assert_names(&fake, 0, NULL);
}

static void every_layout(void **state)
{
	(void)state;
	for_all_layouts(one_layout);
}

static void unknown_versions(void **state)
{
	static const unsigned int others[][2] = {{2, 7}, {3, 7}, {3, 6}, {3, 16}, {0, 0}, {4, 10}};
	struct fake *f = &fake;
	struct gt_pyname *names;
	const char *why = NULL;
	size_t n;

	(void)state;
	make_four(11, 0);
	for (size_t i = 0; i < GT_ARRAY_SIZE(others); i++) {
		struct names s = parse_version(f, others[i][0], others[i][1]);
		assert_int_equal(s.r, -ENOTSUP);
		assert_null(strstr(s.why, "memory"));
	}
	/* As another version has it: where sys.modules is to be stands 0, or what is no dict. */
	for (unsigned int minor = 8; minor <= 15; minor++) {
		struct names s = parse_version(f, 3, minor);

		if (minor != 11)
			assert_true(s.n == 0 && (s.r == 0 || s.r == -EPROTO));
		free(s.name);
	}
	assert_int_equal(gt_pynames_parse(fake_read, f, 0, 3, 11, &names, &n, &why), -ENOTSUP);
	assert_non_null(why);
	assert_int_equal(gt_pynames_parse(fake_read, f, FAKE_BASE + 4, 3, 11, &names, &n, &why),
			 -EPROTO);
	assert_int_equal(gt_pynames_parse(fake_read, f, 1ull << 60, 3, 11, &names, &n, &why),
			 -EPROTO);
	assert_int_equal(gt_pynames_parse(fake_read, f, 8, 3, 11, &names, &n, &why), -EFAULT);

	/* What it tells itself goes before what is believed. */
	make_four(13, 0);
	f->minor = 9;
	assert_names(f, 4, four);
	fake_put(f, FAKE_BASE + 8, 0x031000f0); /* 3.16 with the words of 3.15 */
	assert_int_equal(parse(f).r, -EPROTO);
	make_four(15, 0);
	fake_put(f, FAKE_BASE + 8, 0x031000f0);
	assert_int_equal(parse(f).r, -ENOTSUP);
}

/* Each word that is looked at decides. */
static void published_words(void **state)
{
	unsigned int matter = 0;

	(void)state;
	for (unsigned int word = 0; word < GT_PYNAMES_HEAD / 8; word++) {
		struct names s;

		make_four(14, 0);
		fake_put(&fake, FAKE_BASE + 8 * word,
			 fake_word(&fake, FAKE_BASE + 8 * word) + 0x1000008);
		s = parse(&fake);
		matter += s.r == -EPROTO;
		free(s.name);
	}
	/* Cookie, version and free_threaded; of the rest those of fake_publish(). */
	assert_in_range(matter, 26, 32);
}

/* ---- text and ids ---- */

static void one_name(unsigned int minor, unsigned int kind, const void *data, size_t n,
		     const char *expected)
{
	fake_make(&fake, minor, 0);
	fake_thread(&fake, fake.thread, FAKE_VALUES, fake_str(&fake, kind, data, n),
		    fake_int(&fake, 7));
	assert_names(&fake, expected ? 1 : 0, &expected);
}

static void text(void **state)
{
	const char *ascii =
		"0123456789012345678901234567890123456789012345678901234567890123456789";
	uint16_t wide[40];
	uint32_t widest[40];
	char latin[80];

	(void)state;
	for (unsigned int minor = OLDEST; minor <= NEWEST; minor++) {
		char cut[GT_PYNAME_LEN] = "";

		memcpy(cut, ascii, 63);
		one_name(minor, 0, ascii, 62,
			 "01234567890123456789012345678901234567890123456789"
			 "012345678901");
		one_name(minor, 0, ascii, 63, cut);
		one_name(minor, 0, ascii, 64, cut);
		one_name(minor, 0, ascii, 70, cut);
		one_name(minor, 0, "a\0b", 3, "a\357\277\275b");
		one_name(minor, 0, "\n\x7f", 2, "\n\x7f");
		one_name(minor, 1, "F\344den", 5, "F\303\244den");
		one_name(minor, 2, (uint16_t[]){'x', 0x20ac}, 2, "x\342\202\254");
		one_name(minor, 2, (uint16_t[]){0xd800, 0xdfff, 0xd7ff, 0xe000, 0x7ff, 0x800}, 6,
			 "\357\277\275\357\277\275\355\237\277\356\200\200\337\277\340\240\200");
		one_name(minor, 4, (uint32_t[]){0x1f9f5, 0x10ffff, 0xffff}, 3,
			 "\360\237\247\265\364\217\277\277\357\277\277");
		one_name(minor, 0, "", 0, NULL);
	}
	/* 31 of two bytes fit, and then one of one; 21 of three; 15 of four. */
	memset(latin, 0xe9, sizeof(latin));
	latin[31] = 'q';
	one_name(11, 1, latin, 80,
		 "\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251"
		 "\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251"
		 "\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251"
		 "\303\251q");
	for (size_t i = 0; i < 40; i++) {
		wide[i] = 0x7ebf;
		widest[i] = 0x1f9f5;
	}
	one_name(11, 2, wide, 40,
		 "\347\272\277\347\272\277\347\272\277\347\272\277\347\272\277\347\272\277\347\272"
		 "\277\347\272\277\347\272\277\347\272\277\347\272\277\347\272\277\347\272\277\347"
		 "\272\277\347\272\277\347\272\277\347\272\277\347\272\277\347\272\277\347\272\277"
		 "\347\272\277");
	one_name(11, 4, widest, 40,
		 "\360\237\247\265\360\237\247\265\360\237\247\265\360\237\247\265\360\237\247\265"
		 "\360\237\247\265\360\237\247\265\360\237\247\265\360\237\247\265\360\237\247\265"
		 "\360\237\247\265\360\237\247\265\360\237\247\265\360\237\247\265\360\237\247"
		 "\265");
}

/* Memory ends behind a str, as far as it goes or in the middle. */
static void text_at_the_end(unsigned int minor, unsigned int free_threaded)
{
	static const uint16_t wide[] = {'a', 0x20ac, 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'};
	struct fake *f = &fake;

	for (unsigned int cut = 0; cut < 4; cut++) {
		fake_make(f, minor, free_threaded);
		fake_thread(f, f->thread, FAKE_VALUES, 0, fake_int(f, 7));
		fake_put(f, f->name_slot[0], fake_str(f, 2, wide, 10));
		f->used = fake_word(f, f->name_slot[0]) - FAKE_BASE + f->l.compact + 20 - cut;
		if (cut)
			assert_odd(f, -EPROTO, "nowhere");
		else
			assert_names(f, 1, (const char *[]){"a\342\202\254cdefghij"});
	}
}

/* One thread whose str is damaged is not named; the other one is. */
static void damaged_text(unsigned int minor, unsigned int free_threaded)
{
	const struct {
		unsigned int off;
		uint64_t v;
	} damages[] = {
		{0, 1ull << 60},  /* length */
		{0, 5000},        /* more than can be read: in pieces */
		{16, 0},          /* state */
		{16, 1 | 16},     /* not compact */
		{16, 2 | 8 | 16}, /* ASCII of two bytes */
		{16, 3 | 8},      /* no such kind */
		{16, 5 | 8},      /* the same */
	};
	struct fake *f = &fake;

	for (size_t i = 0; i < GT_ARRAY_SIZE(damages); i++) {
		uint64_t str;

		make_four(minor, free_threaded);
		str = fake_word(f, f->name_slot[2]);
		if (damages[i].off)
			gt_put_le32(fake_at(f, str + f->l.head + damages[i].off),
				    (uint32_t)damages[i].v << f->l.kind_shift);
		else
			fake_put(f, str + f->l.head, damages[i].v);
		if (damages[i].v == 5000) { /* what follows is text, too, as far as it is shown */
			struct names s = parse(f);

			assert_int_equal(s.r, 0);
			free(s.name);
			continue;
		}
		assert_names(f, 3, four);
	}
	make_four(minor, free_threaded);
	*fake_at(f, fake_word(f, f->name_slot[2]) + f->l.ascii + 2) = 0x80;
	assert_names(f, 3, four);
	fake_make(f, minor, free_threaded);
	fake_thread(f, f->thread, FAKE_VALUES, fake_str(f, 4, (uint32_t[]){'x', 0x110000}, 2),
		    fake_int(f, 7));
	assert_odd(f, -EPROTO, "no form");
	/* Of another type. */
	make_four(minor, free_threaded);
	fake_put(f, f->name_slot[2], fake_word(f, f->id_slot[2]));
	assert_names(f, 3, four);
	fake_put(f, f->name_slot[2], 0);
	assert_names(f, 3, four);
	fake_put(f, f->name_slot[2], FAKE_BASE + FAKE_SIZE - 16);
	assert_names(f, 3, four);
}

static void ids(unsigned int minor, unsigned int free_threaded)
{
	struct fake *f = &fake;
	uint64_t num;

	make_four(minor, free_threaded);
	num = fake_word(f, f->id_slot[2]);
	gt_put_le32(fake_at(f, num + f->l.head + 8), 4194305);
	assert_names(f, 3, four);
	gt_put_le32(fake_at(f, num + f->l.head + 8), 0);
	assert_names(f, 3, four);
	gt_put_le32(fake_at(f, num + f->l.head + 8), 4194304);
	assert_names(f, 4, four);
	fake_put(f, num + f->l.head, 2 << (minor < 12 ? 0 : 3)); /* of two digits */
	assert_names(f, 3, four);
	fake_put(f, num + f->l.head, minor < 12 ? -1ull : (1 << 3 | 2)); /* negative */
	assert_names(f, 3, four);
	fake_put(f, num + f->l.head, minor < 12 ? 0 : 1); /* 0 */
	assert_names(f, 3, four);
	fake_put(f, num + f->l.head, minor < 12 ? 1 : (1 << 3 | 4)); /* a small int */
	assert_names(f, 4, four);
	fake_put(f, num + f->l.head - 8, f->type[GT_BUILTIN_STR]);
	assert_names(f, 3, four);
}

static void damaged_values(void **state)
{
	(void)state;
	for_all_layouts(text_at_the_end);
	for_all_layouts(damaged_text);
	for_all_layouts(ids);
}

/* A class written in Python may be called dict, or be one. */
static void other_types(void **state)
{
	static const uint32_t flags[] = {GT_PYTYPE_DICT, GT_PYTYPE_STR, GT_PYTYPE_INT, 0};
	struct fake *f = &fake;

	(void)state;
	for (unsigned int i = 0; i < GT_BUILTINS; i++) {
		struct gt_pyobjects o = {0};

		make_four(12, 0);
		o.l = f->l;
		fake_put(f, gt_pytype_flags(&o, f->type[i]), flags[i] | GT_PYTYPE_HEAP);
		assert_int_not_equal(parse(f).n, 4);
		fake_put(f, gt_pytype_flags(&o, f->type[i]), flags[i] ^ GT_PYTYPE_INT);
		assert_int_not_equal(parse(f).n, 4);
		fake_put(f, gt_pytype_flags(&o, f->type[i]), flags[i]);
		assert_names(f, 4, four);
		*fake_at(f, fake_word(f, gt_pytype_name(&o, f->type[i])) + 2) ^= 0x20;
		assert_int_not_equal(parse(f).n, 4);
	}
}

/* ---- several of a kind ---- */

static void one_id_twice(void **state)
{
	struct fake *f = &fake;

	(void)state;
	/* A dummy that has stayed, and the thread that got its id. */
	fake_make(f, 11, 0);
	fake_thread(f, f->dummy, FAKE_VALUES, fake_ascii(f, "Dummy-1"), fake_int(f, 9));
	fake_thread(f, f->thread, FAKE_VALUES, fake_ascii(f, "worker"), fake_int(f, 9));
	fake_thread(f, f->dummy, FAKE_VALUES, fake_ascii(f, "Dummy-2"), fake_int(f, 9));
	assert_names(f, 1, (const char *[]){"worker"});

	/* The main interpreter is the last of the list. */
	for (unsigned int minor = OLDEST; minor <= NEWEST; minor++) {
		fake_make(f, minor, 0);
		fake_thread(f, f->thread, FAKE_VALUES, fake_ascii(f, "outer"), fake_int(f, 9));
		fake_interp(f);
		fake_thread(f, f->thread, FAKE_VALUES, fake_ascii(f, "MainThread"), fake_int(f, 9));
		fake_thread(f, f->thread, FAKE_DICT, fake_ascii(f, "inner"), fake_int(f, 5));
		assert_names(f, 2, (const char *[]){"inner", "outer"});
		/* One that is being taken down hides no other. */
		fake_put(f, f->interp + f->l.modules, 0);
		assert_names(f, 1, (const char *[]){"outer"});
		fake_put(f, f->interp + f->l.modules, FAKE_BASE + 0x80);
		assert_names(f, 1, (const char *[]){"outer"});
		fake_put(f, f->interp + f->l.next, 0);
		assert_odd(f, -EPROTO, "");
	}
}

static void lists_without_end(void **state)
{
	struct fake *f = &fake;

	(void)state;
	fake_make(f, 12, 0);
	fake_put(f, f->interp + f->l.next, f->interp);
	assert_odd(f, -EPROTO, "does not end");
	assert_in_range(f->reads, 1024, 40000);
	/* With threads, these are told, each once. */
	make_four(12, 0);
	fake_put(f, f->interp + f->l.next, f->interp);
	assert_names(f, 4, four);
	assert_in_range(f->reads, 1024, READS_MAX);
	/* A dict of more entries than it has room for, than are read, and than are there. */
	make_four(12, 0);
	fake_put(f, fake_word(f, f->modules + 32) + 24, 9);
	assert_odd(f, -EPROTO, "a dict is");
	*fake_at(f, fake_word(f, f->modules + 32) + 8) = 17;
	*fake_at(f, fake_word(f, f->modules + 32) + 9) = 19;
	fake_put(f, fake_word(f, f->modules + 32) + 24, 65537);
	assert_odd(f, -EPROTO, "a dict is");
	fake_put(f, fake_word(f, f->modules + 32) + 24, 65536);
	assert_odd(f, -EPROTO, "nowhere");
}

/* ---- damage everywhere ---- */

/* Nothing but text that stands somewhere in the image, in UTF-8 as it must be. */
static void check_damaged(struct fake *f)
{
	struct names s = parse(f);

	assert_true(s.r == 0 || s.r == -EPROTO || s.r == -ENOTSUP || s.r == -EFAULT);
	for (size_t i = 0; i < s.n; i++) {
		assert_true(s.name[i].name[0] && memchr(s.name[i].name, 0, GT_PYNAME_LEN));
		assert_in_range(s.name[i].ns_tid, 1, GT_PYMEM_PID_MAX);
		assert_true(i == 0 || s.name[i].ns_tid > s.name[i - 1].ns_tid);
	}
	free(s.name);
}

static void each_word(unsigned int minor, unsigned int free_threaded)
{
	struct fake *f = &fake;

	make_four(minor, free_threaded);
	for (uint64_t at = FAKE_BASE; at < FAKE_BASE + f->used; at += 8) {
		const uint64_t word = fake_word(f, at);
		const uint64_t others[] = {0,
					   1,
					   -1ull,
					   word + 1,
					   word + 8,
					   word ^ 0x80,
					   word << 32,
					   at,
					   FAKE_BASE,
					   1ull << 63,
					   f->active,
					   f->thread,
					   FAKE_BASE + FAKE_SIZE - 8};

		for (size_t i = 0; i < GT_ARRAY_SIZE(others); i++) {
			fake_put(f, at, others[i]);
			check_damaged(f);
		}
		fake_put(f, at, word);
	}
	assert_names(f, 4, four);
}

static void damage_everywhere(void **state)
{
	(void)state;
	for_all_layouts(each_word);
}

static void each_error(unsigned int minor, unsigned int free_threaded)
{
	unsigned int total;
	struct fake *f = &fake;
	struct names s;

	make_four(minor, free_threaded);
	s = parse(f);
	free(s.name);
	total = f->reads;
	print_message("3.%u%s: %u reads for 4 threads\n", minor, free_threaded ? "t" : "", total);
	f->error = -ESRCH;
	for (f->at_read = 0; f->at_read < total; f->at_read++)
		assert_int_equal(parse(f).r, -ESRCH);
	f->error = -EFAULT;
	for (f->at_read = 0; f->at_read < total; f->at_read++) {
		s = parse(f);
		assert_true(s.r == 0 || s.r == -EPROTO || s.r == -EFAULT);
		assert_true(s.r || s.n < 5);
		free(s.name);
	}
	f->error = 0;
}

static void errors_everywhere(void **state)
{
	(void)state;
	for_all_layouts(each_error);
}

/* ---- what changes while it is read ---- */

/* The str is freed and used anew, for one that is no name, and then for the next name. */
static void reuse_name(struct fake *f)
{
	memcpy(fake_at(f, fake_word(f, f->name_slot[2]) + f->l.ascii), "not a name", 10);
}

static void rename_thread(struct fake *f)
{
	fake_put(f, f->name_slot[2], fake_word(f, f->name_slot[0]));
}

/* What it was is used anew, for a thread that is in no list. */
static void end_thread(struct fake *f)
{
	fake_put(f, f->entry[2], 0);
	fake_put(f, f->name_slot[2], fake_word(f, f->name_slot[0]));
}

/* The old entries are used anew, for threads that have ended. */
static void replace_active(struct fake *f)
{
	fake_put(f, f->active + f->l.head + 16, fake_word(f, f->modules + f->l.head + 16));
	fake_put(f, f->entry[2], fake_word(f, f->entry[4]));
}

/* At each read: names are right, old or new, or are missing. */
static void each_moment(void (*change)(struct fake *f), const char *new_name)
{
	for (unsigned int minor = OLDEST; minor <= NEWEST; minor++) {
		unsigned int total = 1;

		for (unsigned int at = 0; at < total; at++) {
			struct names s;

			make_four(minor, 0);
			fake_thread(&fake, fake.thread, FAKE_DICT, fake_ascii(&fake, "ended"),
				    fake_int(&fake, 4194303));
			fake_put(&fake,
				 fake_word(&fake, fake.active + fake.l.head + 16) +
					 fake.l.keys_head - 8,
				 4);
			fake.change = change;
			fake.at_read = at;
			s = parse(&fake);
			total = fake.reads > at + 1 ? at + 2 : at;
			assert_true(s.r == 0 || s.r == -EPROTO);
			for (size_t i = 0; i < s.n; i++) {
				const char *name = s.name[i].name;

				if (s.name[i].ns_tid == 4194303)
					assert_true(!strcmp(name, "pin_memory") ||
						    !strcmp(name, new_name));
				else if (s.name[i].ns_tid == 40)
					assert_string_equal(name, "MainThread");
				else if (s.name[i].ns_tid == 30)
					assert_string_equal(name, four[1]);
				else
					assert_string_equal(name, "Dummy-1");
			}
			free(s.name);
		}
	}
}

static void changes_at_every_moment(void **state)
{
	(void)state;
	each_moment(rename_thread, "MainThread");
	each_moment(end_thread, "pin_memory");
	each_moment(replace_active, "pin_memory");
	/* Text that changes in place is a new name only if nobody saw the old one. */
	each_moment(reuse_name, "not a name");
}

/* A str that is freed, used for another, and is a name again when the slot is looked at. */
static int reads_of_text;

static int read_fickle(void *ctx, uint64_t addr, void *buf, size_t len)
{
	struct fake *f = ctx;
	int r = fake_read(ctx, addr, buf, len);

	if (!r && addr == fake_word(f, f->name_slot[2]) && !reads_of_text++)
		memcpy((uint8_t *)buf + f->l.ascii, "INNER", 5);
	return r;
}

static void a_str_used_twice(void **state)
{
	struct names s;

	(void)state;
	make_four(13, 0);
	reads_of_text = 0;
	s.r = gt_pynames_parse(read_fickle, &fake, FAKE_BASE, 3, 13, &s.name, &s.n, &s.why);
	assert_int_equal(s.r, 0);
	assert_int_equal(s.n, 3);
	assert_int_equal(reads_of_text, 2);
	free(s.name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_layout),
		cmocka_unit_test(unknown_versions),
		cmocka_unit_test(published_words),
		cmocka_unit_test(text),
		cmocka_unit_test(damaged_values),
		cmocka_unit_test(other_types),
		cmocka_unit_test(one_id_twice),
		cmocka_unit_test(lists_without_end),
		cmocka_unit_test(damage_everywhere),
		cmocka_unit_test(errors_everywhere),
		cmocka_unit_test(changes_at_every_moment),
		cmocka_unit_test(a_str_used_twice),
	};

	return cmocka_run_group_tests_name("pynames", tests, NULL, NULL);
}
