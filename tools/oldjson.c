// SPDX-License-Identifier: Apache-2.0
/*
 * The file is read once, record by record; the events of its threads are kept and brought into one
 * order (oldorder.h), and then written as a .gil file.
 */
#include "oldjson.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "gilfile_write.h"
#include "log.h"
#include "meta.h"
#include "oldorder.h"
#include "oldrecord.h"

#define UNIX_MIN_NS  1000000000000000000 /* 2001; CLOCK_MONOTONIC would take 31 years */
#define TIME_MAX_NS  ((int64_t)(GIL_TIME_MAX - GT_OLDORDER_SLACK_MAX))
#define STATUS_EVERY (1u << 18) /* records */

/* Why a record is left out. */
enum reason {
	LEFT_NAME,
	LEFT_PHASE, /* also one of another generation than the first's */
	LEFT_TIME,
	LEFT_THREAD,
	LEFT_PROCESS,
	LEFT_CUT,
	REASONS,
};

static const char *const reason_text[REASONS] = {
	[LEFT_NAME] = "neither take_gil nor drop_gil",
	[LEFT_PHASE] = "of another kind (ph) than the first",
	[LEFT_TIME] = "without a time that can be",
	[LEFT_THREAD] = "without a thread that can be",
	[LEFT_PROCESS] = "of another process than the first",
	[LEFT_CUT] = "cut off or damaged",
};

struct import {
	const char *path;
	struct gt_jsonscan *scan;  /* NULL: it was not needed */
	struct gt_oldorder *order; /* NULL: no record was of use yet */
	struct gt_gilfile *gil;
	const char *damage; /* words for what ended the reading; NULL: nothing did */
	uint64_t records, left_out[REASONS];
	uint64_t skip;           /* records at the beginning that were read before */
	uint32_t pid;            /* 0: not known */
	int64_t rank;            /* -1: not known */
	const char *rank_source; /* of META */
	uint8_t generation;
	uint8_t is_unix;
	uint8_t exact;                /* the times are not cut to microseconds */
	uint8_t closed;               /* the array has its end */
	char id[GT_OLDRECORD_ID_MAX]; /* of the first record's process */
};

static const struct gt_oldorder_stats *stats(const struct import *im)
{
	static const struct gt_oldorder_stats none;

	return im->order ? gt_oldorder_stats(im->order) : &none;
}

/* ---- recognising ---- */

static int open_regular(const char *path)
{
	gt_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	return gt_steal_fd(&fd);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

int gt_oldjson_is(const char *path)
{
	int named = !strncmp(base_name(path), "GIL_", 4), fd = open_regular(path), err, is = 0;
	struct gt_oldrecord rec = {0};
	struct gt_jsonscan *s;

	if (fd < 0 || gt_jsonscan_open(fd, &s))
		return 0;
	if (gt_jsonscan_next(s) == GT_JSON_ARRAY) {
		err = gt_jsonscan_next(s);
		if (err == GT_JSON_OBJECT)
			err = gt_oldrecord_read(s, &rec);
		else if (err == GT_JSON_ARRAY_END)
			err = -EPIPE; /* as little as in one that has just been begun */
		is = gt_oldrecord_is_ours(&rec) || (named && err == -EPIPE);
	}
	gt_jsonscan_close(s);
	return is;
}

/* ---- reading ---- */

static enum reason judge(const struct import *im, const struct gt_oldrecord *rec)
{
	int whole_call = rec->phase == 'X';

	if (!rec->name)
		return LEFT_NAME;
	if (!gt_oldrecord_is_ours(rec) || (im->order && whole_call != (im->generation == 3)))
		return LEFT_PHASE;
	if (rec->ts_ns < (im->is_unix ? UNIX_MIN_NS : 0) || rec->ts_ns >= TIME_MAX_NS ||
	    (whole_call && (rec->dur_ns < 0 || rec->dur_ns >= TIME_MAX_NS - rec->ts_ns)))
		return LEFT_TIME;
	if (!rec->tid || rec->tid >= GT_OLDORDER_TID_END)
		return LEFT_THREAD;
	if (im->order && rec->id[0] && strcmp(rec->id, im->id))
		return LEFT_PROCESS;
	return REASONS;
}

/* What the first record of use tells of all. */
static int begin(struct import *im, const struct gt_oldrecord *rec)
{
	im->is_unix = rec->ts_ns >= UNIX_MIN_NS;
	im->generation = rec->phase == 'X' ? 3 : im->is_unix ? 2 : 1;
	memcpy(im->id, rec->id, sizeof(im->id));
	return gt_oldorder_create(im->generation == 3 ? 2 : 1, &im->order);
}

static int keep(void *ctx, const struct gt_oldrecord *rec)
{
	struct import *im = ctx;
	static const uint8_t take[] = {GIL_TAKE, GIL_ACQUIRE}, drop[] = {GIL_RELEASE, GIL_DROPPED};
	const uint8_t *kinds = rec->name == 't' ? take : drop;
	/* 0 is no time in a .gil file. */
	uint64_t start_ns = rec->ts_ns ? (uint64_t)rec->ts_ns : 1;
	const uint64_t ns[] = {start_ns, start_ns + (uint64_t)rec->dur_ns};
	enum reason why_not = judge(im, rec);
	int err = 0;

	if (why_not != REASONS) {
		im->left_out[why_not]++;
		return 0;
	}
	if (!im->order)
		err = begin(im, rec);
	if (err)
		return err;
	if (rec->ts_ns % 1000)
		im->exact = 1;
	if (!(++im->records % STATUS_EVERY))
		gt_status("%s: %" PRIu64 " records", im->path, im->records);
	return gt_oldorder_add(im->order, rec->tid, kinds + (rec->phase == 'E'), ns);
}

static int read_value(struct import *im, int token)
{
	struct gt_oldrecord rec;
	int err;

	if (im->skip) {
		im->skip--;
		return gt_jsonscan_leave(im->scan);
	}
	if (token != GT_JSON_OBJECT) {
		im->left_out[LEFT_NAME]++;
		return token == GT_JSON_ARRAY ? gt_jsonscan_leave(im->scan) : 0;
	}
	err = gt_oldrecord_read(im->scan, &rec);
	if (err == -EPIPE || err == -EBADMSG)
		im->left_out[LEFT_CUT]++;
	return err ? err : keep(im, &rec);
}

/* 0: to the end of what is good. */
static int scan_all(struct import *im)
{
	int token = gt_jsonscan_next(im->scan);

	if (token != GT_JSON_ARRAY)
		return token >= 0 || token == -EBADMSG || token == -EPIPE ? -EINVAL : token;
	while (token >= 0) {
		token = gt_jsonscan_next(im->scan);
		if (token == GT_JSON_END)
			return 0;
		if (token == GT_JSON_ARRAY_END)
			im->closed = 1;
		else if (token >= 0)
			token = read_value(im, token);
	}
	if (token == -EBADMSG) {
		im->damage = gt_jsonscan_problem(im->scan);
		im->closed = 0;              /* if something follows */
		if (!im->left_out[LEFT_CUT]) /* it is one between records, or behind them */
			im->left_out[LEFT_CUT] = 1;
	}
	return token == -EBADMSG || token == -EPIPE ? 0 : token;
}

/*
 * Nearly all recordings are read by the quick way. What is not plain all along is read by the
 * scanner, from the beginning, as only that can tell what it is.
 */
static int read_all(struct import *im, int fd)
{
	int ret = gt_oldrecord_read_plain(fd, keep, im, &im->skip);

	if (ret != GT_OLDRECORD_NOT_PLAIN) {
		im->closed = ret == GT_OLDRECORD_CLOSED;
		im->left_out[LEFT_CUT] += ret == GT_OLDRECORD_CUT;
		close(fd);
		return ret < 0 ? ret : 0;
	}
	ret = gt_jsonscan_open(fd, &im->scan);
	return ret ? ret : scan_all(im);
}

/* ---- whose it is ---- */

/* The digits at *p, which is left behind them; -1: none, or more than 9. */
static int64_t take_number(const char **p)
{
	size_t n = strspn(*p, "0123456789");
	int64_t v = 0;

	for (size_t i = 0; i < n && i < 9; i++)
		v = v * 10 + ((*p)[i] - '0');
	*p += n;
	return n && n <= 9 ? v : -1;
}

/* GIL_<pid>_rank_<rank>, and whatever follows. */
static int parse_name(const char *path, int64_t *pid, int64_t *rank)
{
	const char *p = base_name(path);

	if (strncmp(p, "GIL_", 4))
		return 0;
	p += 4;
	*pid = take_number(&p);
	if (*pid <= 0 || strncmp(p, "_rank_", 6))
		return 0;
	p += 6;
	*rank = take_number(&p);
	return *rank >= 0;
}

static void identify(struct import *im)
{
	const char *p = im->id;
	int64_t number = take_number(&p), pid;

	if (*p)
		number = -1;
	if (parse_name(im->path, &pid, &im->rank)) {
		im->pid = (uint32_t)pid;
		/* A record names its process where the tool did not know the rank. */
		im->rank_source = number == pid && number != im->rank ? "default" : "file name";
		if (im->id[0] && number != pid && number != im->rank)
			gt_warn("%s: by its name it is of process %" PRIu32 ", rank %" PRId64
				", but its records say \"%s\"; the name is believed",
				im->path, im->pid, im->rank, im->id);
	} else if (number > 0 && im->order && gt_oldorder_has_thread(im->order, (uint32_t)number)) {
		im->pid = (uint32_t)number;
		gt_info("%s: its records say \"%s\", and one of its threads has that id: taken "
			"for the process's, the rank is not known",
			im->path, im->id);
	} else if (number >= 0) {
		im->rank = number;
		im->rank_source = "records";
		gt_info("%s: its records say \"%s\": taken for the rank, the process's id is not "
			"known",
			im->path, im->id);
	} else {
		gt_info("%s: neither its name nor its records tell whose it is", im->path);
	}
}

/* ---- writing ---- */

struct number {
	char text[24];
};

static struct number number(uint64_t v)
{
	struct number n;

	snprintf(n.text, sizeof(n.text), "%" PRIu64, v);
	return n;
}

static uint64_t count_left_out(const struct import *im)
{
	uint64_t n = 0;

	for (int i = 0; i < REASONS; i++)
		n += im->left_out[i];
	return n;
}

static int write_head(const struct import *im)
{
	const struct number pid = number(im->pid), rank = number((uint64_t)im->rank),
			    generation = number(im->generation);
	const char *const meta[][2] = {
		{"process.pid", im->pid ? pid.text : NULL},
		{"rank", im->rank >= 0 ? rank.text : NULL},
		{"rank.source", im->rank_source},
		{"probe.mode", "functions"},
		{"check.result", "not checked"},
		{"import.format", "json"},
		{"import.by", "gil2trace " GT_VERSION},
		{"import.generation", im->generation ? generation.text : NULL},
		{"import.clock", im->is_unix ? "unix"
				 : im->order ? "monotonic"
					     : NULL},
		{"import.losses", "not recorded"},
	};
	const struct gil_site site = {.kind = GIL_TAKE,
				      .flags = GT_SITE_ONE_GIL,
				      .how = "JSON records of take_gil and drop_gil"};
	/* Of Unix time: the other clocks are not known. */
	const struct gil_clock clock = {.mono_ns = stats(im)->first_ns,
					.unix_ns = stats(im)->first_ns,
					.error_ns = im->exact ? 0 : 1000};
	int err = gt_gilfile_meta(im->gil, meta, GT_ARRAY_SIZE(meta));

	if (!err)
		err = gt_gilfile_sites(im->gil, &site, 1);
	if (!err && im->is_unix)
		err = gt_gilfile_clock(im->gil, &clock);
	return err;
}

static int write_counts(const struct import *im)
{
	const struct gt_oldorder_stats *st = stats(im);
	const struct number records = number(im->records), left_out = number(count_left_out(im)),
			    moved = number(st->moved), max = number(st->moved_max_ns),
			    unsorted = number(st->unsorted);
	const char *const meta[][2] = {
		{"import.records", records.text},   {"import.left_out", left_out.text},
		{"import.moved", moved.text},       {"import.moved_max_ns", max.text},
		{"import.unsorted", unsorted.text}, {"import.damage", im->damage},
	};

	return gt_gilfile_meta(im->gil, meta, GT_ARRAY_SIZE(meta));
}

static int write_event(void *im, const struct gil_event *ev)
{
	return gt_gilfile_add(((struct import *)im)->gil, ev, 0);
}

/* Times that were cut to microseconds keep their order, unless one is another plus an exact dur. */
static unsigned int slack_ns(const struct import *im)
{
	return im->generation == 3 && !im->exact ? GT_OLDORDER_SLACK_MAX : 0;
}

static int write_all(struct import *im, int fd)
{
	int own = dup(fd), err = own < 0 ? -errno : gt_gilfile_create(own, &im->gil), finished;
	uint64_t bytes;

	if (err)
		return err;
	err = write_head(im);
	if (!err && im->order)
		err = gt_oldorder_run(im->order, slack_ns(im), write_event, im);
	if (!err)
		err = write_counts(im);
	if (!err)
		err = gt_gilfile_flush(im->gil, 0);
	bytes = gt_gilfile_bytes(im->gil);
	finished = gt_gilfile_finish(im->gil, GIL_END_STOPPED, stats(im)->last_ns, 0, NULL);
	if (!err)
		err = finished;
	/* One that was killed has no end here, either. */
	if (!err && ((!im->closed && ftruncate(fd, (off_t)bytes)) || lseek(fd, 0, SEEK_SET)))
		err = -errno;
	return err;
}

/* ---- the whole ---- */

static void report_left_out(const struct import *im)
{
	char text[512];
	size_t n = 0;

	for (int i = 0; i < REASONS; i++)
		if (im->left_out[i] && n < sizeof(text))
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%" PRIu64 " %s",
					      n ? ", " : "", im->left_out[i], reason_text[i]);
	if (n)
		gt_warn("%s: records left out: %s", im->path, text);
}

static void report(const struct import *im)
{
	const struct gt_oldorder_stats *st = stats(im);

	if (im->damage)
		gt_warn("%s: damaged: %s; what comes before that is used", im->path, im->damage);
	else if (!im->closed)
		gt_warn("%s: its end is missing: the tool that made it was killed; what is whole "
			"is used",
			im->path);
	report_left_out(im);
	if (!im->records) /* which the converter says */
		return;
	if (!im->is_unix)
		gt_warn("%s: times are those of the monotonic clock, not of the day", im->path);
	if (st->unsorted)
		gt_warn("%s: %" PRIu64 " record(s) were not in the order of time within their "
			"thread, and were sorted",
			im->path, st->unsorted);
	gt_info("%s: %" PRIu64 " records (generation %u) of %" PRIu32
		" thread(s); losses were not recorded by the tool that made it",
		im->path, im->records, im->generation, st->threads);
	if (!im->exact)
		gt_info("%s: times are exact to 1 us only; %" PRIu64
			" event(s) were moved, by %" PRIu64
			" ns at most, into an order that is possible",
			im->path, st->moved, st->moved_max_ns);
}

static int make_file(const struct import *im)
{
	const char *dir = getenv("TMPDIR");
	int fd;

	if (!dir || !*dir)
		dir = "/tmp";
	fd = open(dir, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		gt_info("%s: no file without a name can be made in %s (%s); it is read into memory",
			im->path, dir, strerror(errno));
		fd = memfd_create("gil2trace", MFD_CLOEXEC);
	}
	return fd < 0 ? -errno : fd;
}

static int explain(const struct import *im, int err, char *why, size_t why_size)
{
	if (err == -E2BIG)
		snprintf(why, why_size, "%s: more than %u events", im->path,
			 GT_OLDORDER_EVENTS_MAX);
	else if (err == -ENOSPC)
		snprintf(why, why_size,
			 "%s: no room for what is made of it; let TMPDIR name a folder with more",
			 im->path);
	else if (err == -EINVAL)
		snprintf(why, why_size, "%s: no JSON array of records", im->path);
	else
		snprintf(why, why_size, "%s: %s", im->path, strerror(-err));
	return err;
}

/* `in` is taken over. */
static int import(struct import *im, int in)
{
	gt_autoclose int fd = -1;
	int err = read_all(im, in);

	gt_status("%s", "");
	if (err)
		return err;
	fd = make_file(im);
	if (fd < 0)
		return fd;
	identify(im);
	err = write_all(im, fd);
	if (err)
		return err;
	report(im);
	return gt_steal_fd(&fd);
}

int gt_oldjson_import(const char *path, char *why, size_t why_size)
{
	struct import im = {.path = path, .rank = -1};
	int fd = open_regular(path);

	if (fd >= 0) {
		fd = import(&im, fd);
		gt_oldorder_free(im.order);
		gt_jsonscan_close(im.scan);
	}
	return fd < 0 ? explain(&im, fd, why, why_size) : fd;
}
