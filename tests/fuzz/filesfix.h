/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filesfix.h - an input that is a folder of files, for what reads folders. In an input each file
 * stands behind a line of its own, "=== NAME", and goes on to the newline in front of the next such
 * line; "=== NAME -> TEXT" is a symbolic link. So a seed can be read and written by a person, and a
 * mutation within a file stays one. Names lead nowhere but into the folder; links, to devices that
 * do no harm, too.
 */
#ifndef GT_FUZZ_FILESFIX_H
#define GT_FUZZ_FILESFIX_H

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "base.h"
#include "must.h"

#define FILES_MAX      32
#define FILES_NAME_MAX 120

struct files_part {
	size_t name, name_len; /* where they are in the input */
	size_t link, link_len; /* 0, 0: it is no link */
	size_t text, text_len;
};

static char files_root[64]; /* the folder, empty between two inputs */

/* "=== " at the start of a line, from `at` on; size: there is none. */
static inline size_t files_next(const uint8_t *data, size_t size, size_t at)
{
	for (; at + 4 < size; at++)
		if (!memcmp(data + at, "=== ", 4) && (!at || data[at - 1] == '\n'))
			return at;
	return size;
}

/* Only names below the folder, and none that is hidden or goes up. */
static inline int files_is_name(const uint8_t *s, size_t len)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:@ ";

	if (!len || len > FILES_NAME_MAX || s[0] == '/' || s[len - 1] == '/')
		return 0;
	for (size_t i = 0; i < len; i++)
		if (s[i] == '/' ? s[i - 1] == '/' : (!s[i] || !strchr(allowed, s[i])))
			return 0;
	for (size_t i = 0; i < len; i++)
		if (s[i] == '.' && (!i || s[i - 1] == '/'))
			return 0;
	return 1;
}

static inline int files_is_link(const uint8_t *s, size_t len)
{
	return (len == 9 && (!memcmp(s, "/dev/zero", 9) || !memcmp(s, "/dev/null", 9))) ||
	       files_is_name(s, len);
}

/* The parts of an input that can be files: their number. */
static inline size_t files_split(const uint8_t *data, size_t size, struct files_part *parts)
{
	size_t n = 0;

	for (size_t at = files_next(data, size, 0); at < size && n < FILES_MAX;) {
		struct files_part p = {.name = at + 4};
		const uint8_t *end = memchr(data + p.name, '\n', size - p.name), *arrow;

		if (!end)
			break;
		p.name_len = (size_t)(end - data) - p.name;
		p.text = p.name + p.name_len + 1;
		at = files_next(data, size, p.text);
		p.text_len = at - p.text - (at < size && at > p.text); /* without its newline */
		arrow = memmem(data + p.name, p.name_len, " -> ", 4);
		if (arrow) {
			p.link = (size_t)(arrow - data) + 4;
			p.link_len = (size_t)(end - data) - p.link;
			p.name_len = (size_t)(arrow - data) - p.name;
		}
		if (files_is_name(data + p.name, p.name_len) &&
		    (!p.link || files_is_link(data + p.link, p.link_len)))
			parts[n++] = p;
	}
	return n;
}

static inline int files_remove_entry(const char *path, const struct stat *st, int type,
				     struct FTW *ftw)
{
	(void)st;
	(void)type;
	return ftw->level ? remove(path) : 0;
}

static inline void files_clear(void)
{
	MUST(!nftw(files_root, files_remove_entry, 8, FTW_DEPTH | FTW_PHYS));
}

static inline void files_end(void)
{
	files_clear();
	rmdir(files_root);
}

static inline void files_begin(void)
{
	const char *tmp = getenv("TMPDIR");

	if (files_root[0])
		return;
	MUST(snprintf(files_root, sizeof(files_root), "%s/fuzz.XXXXXX", tmp ? tmp : "/tmp") <
	     (int)sizeof(files_root));
	MUST(mkdtemp(files_root));
	MUST(!atexit(files_end));
}

static inline void files_path(const uint8_t *name, size_t len, char *path, size_t size)
{
	MUST(snprintf(path, size, "%s/%.*s", files_root, (int)len, (const char *)name) < (int)size);
}

/* The folders on the way to it. What is in the way stays: a name may be taken. */
static inline void files_make_parents(char *path)
{
	for (char *s = strchr(path + strlen(files_root) + 1, '/'); s; s = strchr(s + 1, '/')) {
		*s = '\0';
		(void)mkdir(path, 0755);
		*s = '/';
	}
}

static inline void files_put(const uint8_t *data, const struct files_part *p)
{
	char path[sizeof(files_root) + FILES_NAME_MAX + 2], link[FILES_NAME_MAX + 1];
	gt_autoclose int fd = -1;

	files_path(data + p->name, p->name_len, path, sizeof(path));
	files_make_parents(path);
	if (p->link) {
		snprintf(link, sizeof(link), "%.*s", (int)p->link_len,
			 (const char *)data + p->link);
		if (symlink(link, path)) { /* then it is not there */
		}
		return;
	}
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd >= 0)
		MUST(write(fd, data + p->text, p->text_len) == (ssize_t)p->text_len);
}

/* Does the part have that name? */
static inline int files_is(const uint8_t *data, const struct files_part *p, const char *name)
{
	return p->name_len == strlen(name) && !memcmp(data + p->name, name, p->name_len);
}

static inline int files_ends_with(const uint8_t *data, const struct files_part *p, const char *end)
{
	size_t n = strlen(end);

	return p->name_len >= n && !memcmp(data + p->name + p->name_len - n, end, n);
}

#ifdef GT_FUZZ
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

/* Mutates one of the files, in place: mutate() or libFuzzer's own way. 0: there is none. */
static inline size_t files_mutate(uint8_t *data, size_t size, size_t max, unsigned int seed,
				  size_t (*mutate)(uint8_t *data, size_t size, size_t max,
						   unsigned int seed, const char *name))
{
	struct files_part parts[FILES_MAX];
	size_t n = files_split(data, size, parts), behind, len;
	const struct files_part *p = &parts[n ? seed % n : 0];
	char name[FILES_NAME_MAX + 1];
	uint8_t *copy;

	if (!n || p->link)
		return 0;
	behind = size - p->text - p->text_len;
	copy = malloc(max - size + p->text_len + 1);
	MUST(copy);
	memcpy(copy, data + p->text, p->text_len);
	snprintf(name, sizeof(name), "%.*s", (int)p->name_len, (const char *)data + p->name);
	len = mutate(copy, p->text_len, max - size + p->text_len, seed, name);
	memmove(data + p->text + len, data + p->text + p->text_len, behind);
	memcpy(data + p->text, copy, len);
	free(copy);
	return p->text + len + behind;
}
#endif

#endif
