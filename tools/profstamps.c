// SPDX-License-Identifier: Apache-2.0
#include "profstamps.h"

#include <fcntl.h>
#include <stdio.h>

#include "giltrace/gilfile.h"
#include "log.h"
#include "profdb.h"
#include "proffiles.h"
#include "profnames.h"

/* Keys and where their values go. */
struct field {
	const char *key;
	int64_t *ns;
	int us; /* microseconds, maybe with decimals; else whole ns */
};

struct fields {
	const struct field *list;
	size_t n;
	uint8_t *npu;    /* of "config.common_config.activities"; NULL: not asked */
	const char *bad; /* a key whose value is no time */
};

static void on_scalar(void *ctx, const char *path, enum gt_json_token token, const char *text)
{
	struct fields *f = ctx;

	if (f->npu && !strcmp(path, "config.common_config.activities") && strstr(text, "NPU"))
		*f->npu = 1;
	for (size_t i = 0; i < f->n; i++) {
		int64_t v = 0;

		if (strcmp(path, f->list[i].key))
			continue;
		if ((token != GT_JSON_STRING && token != GT_JSON_NUMBER) ||
		    (f->list[i].us ? gt_us_to_ns(text, &v) : !gt_whole_number(text, &v)))
			v = 0;
		if (v >= (int64_t)GIL_TIME_MAX)
			v = 0;
		/* 0 is written where the clock could not be read. */
		if (v <= 0 && strcmp(text, "0") != 0)
			f->bad = f->list[i].key;
		*f->list[i].ns = v > 0 ? v : 0;
	}
}

/* Reads one file; all or nothing. `path` is for messages. Returns whether there was one. */
static int read_fields(int dir_fd, const char *name, const char *path, struct fields *f, int lines)
{
	char why[256];
	int fd = gt_prof_file(dir_fd, name), err;

	if (fd < 0) {
		gt_warn("%s: cannot be read: %s; it is not used", path,
			fd == -EINVAL  ? "it is no file"
			: fd == -ELOOP ? "it is a symbolic link"
				       : strerror(-fd));
		return 1;
	}
	err = lines ? gt_prof_lines(fd, on_scalar, f, why, sizeof(why))
		    : gt_prof_json(fd, on_scalar, f, why, sizeof(why));
	if (err)
		gt_warn("%s: %s; it is not used", path, why);
	else if (f->bad)
		gt_warn("%s: %s is no time; it is not used", path, f->bad);
	if (!err && !f->bad)
		return 0;
	for (size_t i = 0; i < f->n; i++)
		*f->list[i].ns = 0;
	return 1;
}

/* Both of two or none. */
static void pair_up(int64_t *a, int64_t *b, const char *path, int expected)
{
	if (!*a && !*b && expected)
		gt_warn("%s: tells no clock; it is not used", path);
	if (!*a != !*b) {
		gt_warn("%s: tells only one of two clocks; it is not used", path);
		*a = *b = 0;
	}
}

/* The first entry that begins with `stem` and is no mark of the Profiler that it is done with it.
 */
static const char *find(const struct gt_names *names, const char *stem)
{
	for (size_t i = 0; i < names->n; i++)
		if (!strncmp(names->list[i], stem, strlen(stem)) &&
		    !gt_name_ends(names->list[i], ".done") &&
		    !gt_name_ends(names->list[i], ".complete") &&
		    !gt_name_ends(names->list[i], ".zip"))
			return names->list[i];
	return NULL;
}

static void read_host_file(int fd, const char *dir, const struct gt_names *names, const char *stem,
			   const struct field *list, size_t n, int lines)
{
	struct fields f = {.list = list, .n = n};
	const char *name = find(names, stem);
	gt_autofree char *path = NULL;
	int said;

	if (!name || asprintf(&path, "%s/%s", dir, name) < 0) {
		path = NULL;
		return;
	}
	said = read_fields(fd, name, path, &f, lines);
	if (n == 2)
		pair_up(list[0].ns, list[1].ns, path, !said);
}

static void read_host(const char *dir, struct gt_stamps *st)
{
	const struct field start[] = {{"collectionTimeBegin", &st->begin_unix_ns, 1},
				      {"clockMonotonicRaw", &st->begin_raw_ns, 0}};
	const struct field end[] = {{"collectionTimeEnd", &st->end_unix_ns, 1},
				    {"clockMonotonicRaw", &st->end_raw_ns, 0}};
	const struct field log[] = {{"clock_monotonic_raw", &st->start_raw_ns, 0}};
	gt_autoclose int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct gt_names names = {0};
	int err = fd < 0 ? -errno : gt_prof_list(fd, &names);

	if (err) {
		gt_warn("%s: cannot be read: %s; the clock is taken from elsewhere", dir,
			strerror(-err));
		return;
	}
	read_host_file(fd, dir, &names, "start_info", start, 2, 0);
	read_host_file(fd, dir, &names, "end_info", end, 2, 0);
	read_host_file(fd, dir, &names, "host_start.log", log, 1, 1);
	gt_names_free(&names);
}

static void read_info(const char *path, struct gt_stamps *st)
{
	int64_t raw = 0;
	const struct field list[] = {
		{"end_info.collectionTimeEnd", &st->session_unix_ns, 0},
		{"end_info.MonotonicTimeEnd", &st->session_mono_ns, 0},
		{"start_info.start_monotonic", &raw, 0}, /* it is RAW, whatever its name */
	};
	struct fields f = {.list = list, .n = GT_ARRAY_SIZE(list), .npu = &st->npu};

	read_fields(AT_FDCWD, path, path, &f, 0);
	pair_up(&st->session_unix_ns, &st->session_mono_ns, path, 0);
	if (!st->start_raw_ns)
		st->start_raw_ns = raw;
}

static void read_database(const char *path, struct gt_stamps *st)
{
	int64_t end;
	char why[256];

	if (gt_profdb_session(path, &st->session_start_ns, &end, why, sizeof(why)))
		gt_warn("%s: %s; its clock is not used", path, why);
}

void gt_stamps_read(const struct gt_profiler *p, struct gt_stamps *out)
{
	*out = (struct gt_stamps){0};
	if (p->host_dir) {
		read_host(p->host_dir, out);
		out->npu = 1;
	}
	if (p->info)
		read_info(p->info, out);
	if (p->database && !out->begin_raw_ns)
		read_database(p->database, out);
	if (out->begin_raw_ns && !out->start_raw_ns)
		out->start_raw_ns = out->begin_raw_ns;
}
