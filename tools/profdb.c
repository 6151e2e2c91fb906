// SPDX-License-Identifier: Apache-2.0
#include "profdb.h"

#include <fcntl.h>
#include <stdio.h>

#ifdef GT_HAVE_SQLITE
#include <sqlite3.h>

#include "giltrace/gilfile.h"
#include "proffiles.h"

#define STEPS_MAX 1000 /* .. of so many instructions, which are milliseconds */
#define STEP      1000
#define VALUE_MAX 65536 /* bytes of a value or statement */
#define HEAP_MAX  (64 << 20)

static int on_step(void *left)
{
	return --*(int *)left <= 0;
}

/* "file:" with what is no plain character escaped. NULL: no memory. */
static char *uri_of(const char *path)
{
	static const char tail[] = "?mode=ro&immutable=1";
	size_t n = strlen(path);
	char *uri = malloc(5 + 3 * n + sizeof(tail)), *p = uri;

	if (!uri)
		return NULL;
	p = stpcpy(p, "file:");
	for (; *path; path++) {
		unsigned char c = (unsigned char)*path;

		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		    strchr("/._-", c))
			*p++ = (char)c;
		else
			p += sprintf(p, "%%%02X", c);
	}
	memcpy(p, tail, sizeof(tail));
	return uri;
}

static void limit(sqlite3 *db, int *steps)
{
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, VALUE_MAX);
	sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, VALUE_MAX);
	sqlite3_limit(db, SQLITE_LIMIT_COLUMN, 256);
	sqlite3_limit(db, SQLITE_LIMIT_EXPR_DEPTH, 20);
	sqlite3_limit(db, SQLITE_LIMIT_COMPOUND_SELECT, 3);
	sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
	sqlite3_limit(db, SQLITE_LIMIT_TRIGGER_DEPTH, 1);
	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_progress_handler(db, STEP, on_step, steps);
}

static int read_row(sqlite3 *db, int64_t *start_ns, int64_t *end_ns)
{
	/* A view of that name could compute for ever, or anything. */
	static const char sql[] =
		"SELECT startTimeNs, endTimeNs FROM SESSION_TIME_INFO WHERE EXISTS (SELECT 1 FROM "
		"sqlite_master WHERE type = 'table' AND name = 'SESSION_TIME_INFO') LIMIT 1";
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL), err = -ENODATA;

	if (rc == SQLITE_OK)
		rc = sqlite3_step(st);
	if (rc == SQLITE_ROW && sqlite3_column_type(st, 0) == SQLITE_INTEGER &&
	    sqlite3_column_type(st, 1) == SQLITE_INTEGER) {
		*start_ns = sqlite3_column_int64(st, 0);
		*end_ns = sqlite3_column_int64(st, 1);
		err = *start_ns > 0 && *start_ns < (int64_t)GIL_TIME_MAX && *end_ns >= *start_ns
			      ? 0
			      : -ERANGE;
	} else if (rc != SQLITE_ROW && rc != SQLITE_DONE && rc != SQLITE_OK) {
		err = -EBADMSG;
	}
	sqlite3_finalize(st);
	return err;
}

int gt_profdb_session(const char *path, int64_t *start_ns, int64_t *end_ns, char *why,
		      size_t why_size)
{
	gt_autofree char *uri = uri_of(path);
	sqlite3 *db = NULL;
	int fd = gt_prof_file(AT_FDCWD, path), steps = STEPS_MAX, err = fd < 0 ? fd : 0;

	if (fd >= 0)
		close(fd);
	if (!uri)
		err = -ENOMEM;
	if (err) {
		snprintf(why, why_size, "cannot be opened: %s", strerror(-err));
		return err;
	}
	sqlite3_hard_heap_limit64(HEAP_MAX);
	if (sqlite3_open_v2(uri, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX,
			    NULL) != SQLITE_OK) {
		err = -EBADMSG;
	} else {
		limit(db, &steps);
		err = read_row(db, start_ns, end_ns);
	}
	if (err == -ENODATA || err == -ERANGE)
		snprintf(why, why_size, "does not tell when its session began");
	else if (err)
		snprintf(why, why_size, "cannot be read: %s", sqlite3_errmsg(db));
	sqlite3_close(db);
	return err;
}

#else

int gt_profdb_session(const char *path, int64_t *start_ns, int64_t *end_ns, char *why,
		      size_t why_size)
{
	(void)path;
	(void)start_ns;
	(void)end_ns;
	snprintf(why, why_size, "cannot be read: this gil2trace was built without SQLite");
	return -ENOTSUP;
}

#endif
