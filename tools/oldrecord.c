// SPDX-License-Identifier: Apache-2.0
#include "oldrecord.h"

#define BUFFER     (256u << 10)
#define PAD        8 /* zeros behind what was read, so that words may be compared */
#define NUMBER_MAX 40

enum key { KEY_OTHER, KEY_NAME, KEY_PHASE, KEY_TS, KEY_DUR, KEY_PID, KEY_TID };

/* A scalar as it was met; .text has a NUL behind it if it is a number. */
struct value {
	const char *text;
	size_t len;
	int token; /* enum gt_json_token; another than a string or number is none of use */
	int cut;
};

/* Each key and value comes by here, by the million: so it is short. */
static enum key find_key(const char *text, size_t len)
{
	switch (len) {
	case 2:
		if (text[0] == 't' && text[1] == 's')
			return KEY_TS;
		return text[0] == 'p' && text[1] == 'h' ? KEY_PHASE : KEY_OTHER;
	case 3:
		if (!memcmp(text, "tid", 3))
			return KEY_TID;
		if (!memcmp(text, "pid", 3))
			return KEY_PID;
		return memcmp(text, "dur", 3) ? KEY_OTHER : KEY_DUR;
	case 4:
		return memcmp(text, "name", 4) ? KEY_OTHER : KEY_NAME;
	}
	return KEY_OTHER;
}

static char parse_name(const struct value *v)
{
	if (v->token != GT_JSON_STRING || v->len != 8)
		return 0;
	if (!memcmp(v->text, "take_gil", 8))
		return 't';
	return (char)(memcmp(v->text, "drop_gil", 8) ? 0 : 'd');
}

/* Decimal digits only; -1: anything else, or more than 18 of them. */
static int64_t parse_digits(const char *text, size_t len)
{
	int64_t v = 0;

	if (!len || len > 18)
		return -1;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		v = v * 10 + (text[i] - '0');
	}
	return v;
}

static int64_t parse_time(const struct value *v)
{
	int64_t ns, us;

	if (v->token != GT_JSON_NUMBER || v->cut)
		return -1;
	/* As nearly all are: whole microseconds, or three decimals. */
	us = parse_digits(v->text, v->len);
	if (us >= 0 && us < INT64_MAX / 1000)
		return us * 1000;
	if (v->len > 4 && v->text[v->len - 4] == '.') {
		us = parse_digits(v->text, v->len - 4);
		ns = parse_digits(v->text + v->len - 3, 3);
		if (us >= 0 && us < INT64_MAX / 1000 - 1 && ns >= 0)
			return us * 1000 + ns;
	}
	return !gt_us_to_ns(v->text, &ns) && ns >= 0 ? ns : -1;
}

/* "GIL_4711", or the number alone. */
static uint32_t parse_tid(const struct value *v)
{
	size_t prefix =
		v->token == GT_JSON_STRING && v->len > 4 && !memcmp(v->text, "GIL_", 4) ? 4 : 0;
	int64_t tid = parse_digits(v->text + prefix, v->len - prefix);

	return tid > 0 && tid <= UINT32_MAX ? (uint32_t)tid : 0;
}

static void parse_id(const struct value *v, char id[GT_OLDRECORD_ID_MAX])
{
	size_t len = v->token == GT_JSON_STRING || v->token == GT_JSON_NUMBER ? v->len : 0;

	if (len >= GT_OLDRECORD_ID_MAX)
		len = 0;
	memcpy(id, v->text, len);
	id[len] = '\0';
}

/* The value of a key that matters. */
static void parse_value(enum key key, const struct value *v, struct gt_oldrecord *r)
{
	switch (key) {
	case KEY_NAME:
		r->name = parse_name(v);
		break;
	case KEY_PHASE:
		r->phase = 0;
		if (v->token == GT_JSON_STRING && v->len == 1)
			r->phase = v->text[0];
		break;
	case KEY_TS:
		r->ts_ns = parse_time(v);
		break;
	case KEY_DUR:
		r->dur_ns = parse_time(v);
		break;
	case KEY_PID:
		parse_id(v, r->id);
		break;
	case KEY_TID:
		r->tid = parse_tid(v);
		break;
	case KEY_OTHER:
		break;
	}
}

int gt_oldrecord_is_ours(const struct gt_oldrecord *r)
{
	return r->name && (r->phase == 'B' || r->phase == 'E' || r->phase == 'X');
}

/* ---- by the scanner ---- */

static int scan_value(struct gt_jsonscan *s, enum key key, struct gt_oldrecord *r)
{
	struct value v = {.token = gt_jsonscan_next(s)};

	if (v.token < 0)
		return v.token;
	v.text = gt_jsonscan_text(s, &v.len);
	v.cut = gt_jsonscan_cut(s);
	parse_value(key, &v, r);
	return v.token == GT_JSON_OBJECT || v.token == GT_JSON_ARRAY ? gt_jsonscan_leave(s) : 0;
}

int gt_oldrecord_read(struct gt_jsonscan *s, struct gt_oldrecord *r)
{
	*r = (struct gt_oldrecord){.ts_ns = -1, .dur_ns = -1};
	for (;;) {
		int token = gt_jsonscan_next(s), err;
		const char *text;
		enum key key;
		size_t len;

		if (token < 0 || token == GT_JSON_OBJECT_END)
			return token < 0 ? token : 0;
		text = gt_jsonscan_text(s, &len);
		key = find_key(text, len);
		err = key == KEY_OTHER ? gt_jsonscan_skip(s) : scan_value(s, key, r);
		if (err)
			return err;
	}
}

/* ---- the quick way ---- */

/*
 * These return what is behind, or NULL: something else is there, or nothing, which is a 0 here. So
 * they never go beyond it.
 */

static const char *plain_space(const char *p)
{
	while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')
		p++;
	return p;
}

/* What ends the plain part of a string. */
static const uint8_t ends_string[256] = {[0 ... 0x1f] = 1, ['"'] = 1, ['\\'] = 1};

static const char *plain_string(const char *p, struct value *v)
{
	if (*p != '"')
		return NULL;
	v->text = ++p;
	while (!ends_string[(unsigned char)*p])
		p++;
	v->len = (size_t)(p - v->text);
	v->token = GT_JSON_STRING;
	return *p == '"' ? p + 1 : NULL;
}

static const char *plain_digits(const char *p)
{
	const char *from = p;

	while (*p >= '0' && *p <= '9')
		p++;
	return p > from ? p : NULL;
}

static const char *plain_number(const char *p, struct value *v, char copy[NUMBER_MAX])
{
	const char *from = p, *digits;

	p += *p == '-';
	digits = p;
	p = plain_digits(p);
	if (!p || (*digits == '0' && p - digits > 1))
		return NULL;
	if (*p == '.')
		p = plain_digits(p + 1);
	if (!p || *p == 'e' || *p == 'E' || p - from >= NUMBER_MAX)
		return NULL;
	v->len = (size_t)(p - from);
	v->token = GT_JSON_NUMBER;
	v->text = copy;
	memcpy(copy, from, v->len);
	copy[v->len] = '\0';
	return p;
}

static const char *plain_member(const char *p, struct gt_oldrecord *r)
{
	struct value name, v = {.cut = 0};
	char copy[NUMBER_MAX];

	p = plain_string(p, &name);
	if (!p)
		return NULL;
	p = plain_space(p);
	if (*p != ':')
		return NULL;
	p = plain_space(p + 1);
	p = *p == '"' ? plain_string(p, &v) : plain_number(p, &v, copy);
	if (p)
		parse_value(find_key(name.text, name.len), &v, r);
	return p;
}

static const char *plain_record(const char *p, struct gt_oldrecord *r)
{
	*r = (struct gt_oldrecord){.ts_ns = -1, .dur_ns = -1};
	if (*p != '{')
		return NULL;
	do {
		p = plain_member(plain_space(p + 1), r);
		if (!p)
			return NULL;
		p = plain_space(p);
	} while (*p == ',');
	return *p == '}' ? p + 1 : NULL;
}

/* Where the reading of the array is. */
struct plain {
	int (*keep)(void *ctx, const struct gt_oldrecord *r);
	void *ctx;
	uint64_t taken;
	uint8_t begun, closed; /* the array */
};

/*
 * As much as can be read from p on; returns the end of that, from where to go on with more text, or
 * NULL with *err: 0, there is something else.
 */
static const char *plain_array(struct plain *s, const char *p, int *err)
{
	struct gt_oldrecord r;

	*err = 0;
	for (;;) {
		const char *from = p = plain_space(p), *end;

		if (s->closed || !*p)
			return *p ? NULL : from;
		if (s->begun && *p == ']') {
			s->closed = 1;
			p++;
			continue;
		}
		if (*p != (s->begun ? ',' : '['))
			return NULL;
		end = plain_record(plain_space(p + 1), &r);
		if (!end)
			return from;
		*err = s->keep(s->ctx, &r);
		if (*err)
			return NULL;
		s->begun = 1;
		s->taken++;
		p = end;
	}
}

/* Is what begins at the offset the beginning of a record, and no more? */
static int is_cut_record(int fd, off_t offset)
{
	struct gt_oldrecord r;
	struct gt_jsonscan *s;
	int own, cut;

	if (lseek(fd, offset, SEEK_SET) < 0)
		return 0;
	own = dup(fd);
	if (own < 0 || gt_jsonscan_open(own, &s))
		return 0;
	cut = gt_jsonscan_next(s) == GT_JSON_OBJECT && gt_oldrecord_read(s, &r) == -EPIPE;
	gt_jsonscan_close(s);
	return cut;
}

/* The file ends, and `rest`, which ends at its end, is what could not be read. */
static enum gt_oldrecord_end plain_end(const struct plain *s, int fd, const char *rest, size_t n,
				       off_t size)
{
	const char *p = rest;

	if (s->closed)
		return n ? GT_OLDRECORD_NOT_PLAIN : GT_OLDRECORD_CLOSED;
	/* Where no record was read, it is left to the scanner to say what it is. */
	if (!s->begun)
		return GT_OLDRECORD_NOT_PLAIN;
	if (*p == ',')
		p = plain_space(p + 1);
	if (p == rest + n)
		return GT_OLDRECORD_OPEN;
	return is_cut_record(fd, size - (rest + n - p)) ? GT_OLDRECORD_CUT : GT_OLDRECORD_NOT_PLAIN;
}

static int plain_file(struct plain *s, int fd, char *buf)
{
	size_t n = 0; /* in buf */
	off_t at = 0;

	for (;;) {
		ssize_t got = pread(fd, buf + n, BUFFER - n, at);
		const char *end;
		int err;

		if (got < 0)
			return GT_OLDRECORD_NOT_PLAIN;
		if (!got)
			return (int)plain_end(s, fd, buf, n, at);
		at += got;
		n += (size_t)got;
		memset(buf + n, 0, PAD);
		end = plain_array(s, buf, &err);
		if (!end)
			return err ? err : GT_OLDRECORD_NOT_PLAIN;
		n -= (size_t)(end - buf);
		if (n == BUFFER) /* a record that long is none of ours */
			return GT_OLDRECORD_NOT_PLAIN;
		memmove(buf, end, n + PAD);
	}
}

int gt_oldrecord_read_plain(int fd, int (*keep)(void *ctx, const struct gt_oldrecord *r), void *ctx,
			    uint64_t *taken)
{
	struct plain s = {.keep = keep, .ctx = ctx};
	gt_autofree char *buf = calloc(1, BUFFER + PAD);
	int ret;

	if (!buf)
		return -ENOMEM;
	ret = plain_file(&s, fd, buf);
	*taken = s.taken;
	if (ret >= 0 && lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	return ret;
}
