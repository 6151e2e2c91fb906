// SPDX-License-Identifier: Apache-2.0
#include "proffiles.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define DEPTH_MAX 16  /* of what is looked at; what lies deeper is skipped */
#define PATH_SIZE 256 /* of keys; a value with longer ones is skipped */

char *gt_prof_join(const char *dir, const char *name)
{
	size_t n = strlen(dir);
	char *path;

	if (!*name)
		return strdup(dir);
	return asprintf(&path, "%s%s%s", dir, n && dir[n - 1] != '/' ? "/" : "", name) < 0 ? NULL
											   : path;
}

static struct gt_file_id id_of(const struct stat *st)
{
	return (struct gt_file_id){.dev = st->st_dev,
				   .ino = st->st_ino,
				   .size = (uint64_t)st->st_size,
				   .mtime_s = st->st_mtim.tv_sec,
				   .mtime_ns = st->st_mtim.tv_nsec};
}

static int is_same(const struct stat *st, const struct gt_file_id *id)
{
	struct gt_file_id now = id_of(st);

	return now.dev == id->dev && now.ino == id->ino && now.size == id->size &&
	       now.mtime_s == id->mtime_s && now.mtime_ns == id->mtime_ns;
}

int gt_file_open(const char *path, struct gt_file_id *id, char *why, size_t why_size)
{
	/* A pipe that nobody writes to must not hold us up. */
	gt_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st)) {
		int err = -errno;

		snprintf(why, why_size, "%s", strerror(-err));
		return err;
	}
	if (!S_ISREG(st.st_mode)) {
		int is_dir = S_ISDIR(st.st_mode);

		snprintf(why, why_size, "it is %s", is_dir ? "a folder" : "no regular file");
		return is_dir ? -EISDIR : -EINVAL;
	}
	*id = id_of(&st);
	return gt_steal_fd(&fd);
}

int gt_file_is(int fd, const struct gt_file_id *id)
{
	struct stat st;

	return !fstat(fd, &st) && is_same(&st, id);
}

int gt_path_is(const char *path, const struct gt_file_id *id)
{
	struct stat st;

	return !lstat(path, &st) && is_same(&st, id);
}

/* ---- below a folder ---- */

int gt_prof_dir(int at, const char *path)
{
	gt_autofree char *copy = strdup(path);
	char *rest = copy, *name;
	int fd = at;

	if (!copy)
		return -ENOMEM;
	while ((name = strsep(&rest, "/"))) {
		int next, err;

		if (!*name)
			continue;
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		err = errno;
		if (fd != at)
			close(fd);
		if (next < 0)
			return -err;
		fd = next;
	}
	return fd != at ? fd : -EINVAL;
}

int gt_prof_file(int at, const char *name)
{
	/* O_NONBLOCK: a FIFO must not hold us up before we know that it is one. */
	int fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	return fd;
}

char gt_prof_type(int dir_fd, const char *name)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return 0;
	return S_ISDIR(st.st_mode)   ? 'd'
	       : S_ISREG(st.st_mode) ? 'f'
	       : S_ISLNK(st.st_mode) ? 'l'
				     : 0;
}

void gt_names_free(struct gt_names *n)
{
	for (size_t i = 0; i < n->n; i++)
		free(n->list[i]);
	free(n->list);
	*n = (struct gt_names){0};
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_name(struct gt_names *n, const char *name)
{
	if (!(n->n & (n->n - 1))) { /* 0, 1, 2, 4, ...: full */
		char **grown = reallocarray(n->list, n->n ? n->n * 2 : 1, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		n->list = grown;
	}
	n->list[n->n] = strdup(name);
	return n->list[n->n++] ? 0 : -ENOMEM;
}

int gt_prof_list(int dir_fd, struct gt_names *out)
{
	struct gt_names n = {0};
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = 0;
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *d;

	if (!dir) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	while (!err && !n.cut) {
		errno = 0;
		d = readdir(dir);
		if (!d) {
			err = -errno;
			break;
		}
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		if (n.n == GT_NAMES_MAX)
			n.cut = 1;
		else
			err = add_name(&n, d->d_name);
	}
	closedir(dir);
	if (err) {
		gt_names_free(&n);
		return err;
	}
	if (n.n)
		qsort(n.list, n.n, sizeof(*n.list), by_name);
	*out = n;
	return 0;
}

int gt_whole_number(const char *text, int64_t *v)
{
	int64_t n = 0;

	if (!*text)
		return 0;
	for (const char *c = text; *c; c++)
		if (*c < '0' || *c > '9' || __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, *c - '0', &n))
			return 0;
	if (!n)
		return 0;
	*v = n;
	return 1;
}

/* ---- small files ---- */

/* How far the keys of each open object or array reach in `path`. */
struct keys {
	char path[PATH_SIZE];
	size_t len[DEPTH_MAX + 1];
	unsigned int depth;
};

/* Appends the key to those of the object that it is in. 0: there is no room. */
static int set_key(struct keys *k, const char *key, int cut)
{
	size_t at = k->len[k->depth];
	int n;

	if (cut)
		return 0;
	n = snprintf(k->path + at, PATH_SIZE - at, "%s%s", at ? "." : "", key);
	if (n < 0 || (size_t)n >= PATH_SIZE - at)
		return 0;
	return 1;
}

/* Of one token; 0 or -errno. */
static int take(struct gt_jsonscan *s, int token, struct keys *k, gt_scalar_fn fn, void *ctx)
{
	switch (token) {
	case GT_JSON_OBJECT:
	case GT_JSON_ARRAY:
		if (k->depth == DEPTH_MAX)
			return gt_jsonscan_leave(s);
		k->len[k->depth + 1] = strlen(k->path);
		k->depth++;
		return 0;
	case GT_JSON_OBJECT_END:
	case GT_JSON_ARRAY_END:
		k->depth--;
		k->path[k->len[k->depth]] = '\0';
		return 0;
	case GT_JSON_KEY:
		if (set_key(k, gt_jsonscan_text(s, NULL), gt_jsonscan_cut(s)))
			return 0;
		k->path[k->len[k->depth]] = '\0';
		return gt_jsonscan_skip(s);
	case GT_JSON_STRING:
	case GT_JSON_NUMBER:
		if (!gt_jsonscan_cut(s))
			fn(ctx, k->path, (enum gt_json_token)token, gt_jsonscan_text(s, NULL));
		return 0;
	default:
		fn(ctx, k->path, (enum gt_json_token)token, "");
		return 0;
	}
}

static int check_size(int fd, char *why, size_t why_size)
{
	struct stat st;

	if (fstat(fd, &st)) {
		int err = -errno;

		snprintf(why, why_size, "cannot be read: %s", strerror(-err));
		return err;
	}
	if (st.st_size > GT_SMALL_FILE_MAX) {
		snprintf(why, why_size, "is larger than any such file");
		return -EFBIG;
	}
	return 0;
}

int gt_prof_json(int fd, gt_scalar_fn fn, void *ctx, char *why, size_t why_size)
{
	struct gt_jsonscan *s;
	struct keys k = {0};
	int err = check_size(fd, why, why_size), token;

	if (err) {
		close(fd);
		return err;
	}
	err = gt_jsonscan_open(fd, &s);
	if (err) {
		snprintf(why, why_size, "cannot be read: %s", strerror(-err));
		return err;
	}
	while (!err && (token = gt_jsonscan_next(s)) != GT_JSON_END) {
		/* It may be compressed, and anything then. */
		if (token >= 0 && gt_jsonscan_offset(s) > GT_SMALL_FILE_MAX)
			token = -EFBIG;
		err = token < 0 ? token : take(s, token, &k, fn, ctx);
	}
	if (err == -EFBIG)
		snprintf(why, why_size, "is larger than any such file");
	else if (err)
		snprintf(why, why_size, "%s", gt_jsonscan_problem(s));
	gt_jsonscan_close(s);
	return err;
}

/* The text without blanks around it. */
static char *trim(char *text)
{
	size_t n;

	text += strspn(text, " \t\r");
	for (n = strlen(text); n && strchr(" \t\r", text[n - 1]); n--)
		text[n - 1] = '\0';
	return text;
}

int gt_prof_lines(int fd, gt_scalar_fn fn, void *ctx, char *why, size_t why_size)
{
	gt_autofree char *text = NULL;
	char *rest, *line;
	ssize_t n = 0;
	size_t used = 0;
	int err = check_size(fd, why, why_size);

	if (!err && !(text = malloc(GT_SMALL_FILE_MAX + 1)))
		err = -ENOMEM;
	while (!err && used < GT_SMALL_FILE_MAX) {
		n = read(fd, text + used, GT_SMALL_FILE_MAX - used);
		if (n <= 0)
			break;
		used += (size_t)n;
	}
	if (n < 0)
		err = -errno;
	close(fd);
	if (err) {
		if (err != -EFBIG)
			snprintf(why, why_size, "cannot be read: %s", strerror(-err));
		return err;
	}
	text[used] = '\0';
	for (rest = text; (line = strsep(&rest, "\n"));) {
		size_t key = strcspn(line, ":=");

		if (!line[key])
			continue;
		line[key] = '\0';
		fn(ctx, trim(line), GT_JSON_STRING, trim(line + key + 1));
	}
	return 0;
}
