// SPDX-License-Identifier: Apache-2.0
#include "jsonlex.h"

/* What may come next. */
enum state {
	VALUE,
	FIRST_VALUE, /* or the end of the array */
	KEY,
	FIRST_KEY, /* or the end of the object */
	COLON,
	AFTER, /* a value: a comma, or the end of what it is in */
	DONE,
};

struct gt_jsonscan {
	struct gt_jsonlex lex;
	uint64_t token_at;                            /* offset of the latest token */
	uint64_t objects[GT_JSONSCAN_DEPTH_MAX / 64]; /* a bit for each level: object or array */
	unsigned int depth;
	enum state state;
};

int gt_jsonscan_open_buffer(int fd, size_t size, struct gt_jsonscan **out)
{
	struct gt_jsonscan *s = calloc(1, sizeof(*s));

	if (!s)
		close(fd);
	if (!s || gt_jsonlex_open(&s->lex, fd, size)) {
		free(s);
		return -ENOMEM;
	}
	*out = s;
	return 0;
}

int gt_jsonscan_open(int fd, struct gt_jsonscan **out)
{
	return gt_jsonscan_open_buffer(fd, GT_JSONSCAN_BUFFER, out);
}

void gt_jsonscan_close(struct gt_jsonscan *s)
{
	if (!s)
		return;
	gt_jsonlex_close(&s->lex);
	free(s);
}

void gt_jsonscan_lenient(struct gt_jsonscan *s)
{
	s->lex.lenient = 1;
}

static uint64_t position(const struct gt_jsonscan *s)
{
	return gt_jsonlex_position(&s->lex);
}

static int in_object(const struct gt_jsonscan *s)
{
	return (int)(s->objects[(s->depth - 1) / 64] >> ((s->depth - 1) % 64) & 1);
}

static int push(struct gt_jsonscan *s, int object)
{
	uint64_t bit = 1ULL << s->depth % 64;

	if (s->depth == GT_JSONSCAN_DEPTH_MAX)
		return gt_jsonlex_fail(&s->lex, -EBADMSG, position(s),
				       "nested deeper than %d levels", GT_JSONSCAN_DEPTH_MAX);
	if (object)
		s->objects[s->depth / 64] |= bit;
	else
		s->objects[s->depth / 64] &= ~bit;
	s->depth++;
	s->lex.p++;
	s->state = object ? FIRST_KEY : FIRST_VALUE;
	return object ? GT_JSON_OBJECT : GT_JSON_ARRAY;
}

static int pop(struct gt_jsonscan *s)
{
	int token = in_object(s) ? GT_JSON_OBJECT_END : GT_JSON_ARRAY_END;

	s->token_at = position(s);
	s->lex.p++;
	s->depth--;
	s->state = s->depth ? AFTER : DONE;
	return token;
}

/* Its kind is told by its first byte. */
static int scalar(struct gt_jsonscan *s)
{
	struct gt_jsonlex *lex = &s->lex;
	int token, rc;

	switch (*lex->p) {
	case '"':
		lex->p++;
		token = GT_JSON_STRING;
		rc = gt_jsonlex_string(lex);
		break;
	case 't':
		token = GT_JSON_TRUE;
		rc = gt_jsonlex_word(lex, "true");
		break;
	case 'f':
		token = GT_JSON_FALSE;
		rc = gt_jsonlex_word(lex, "false");
		break;
	case 'n':
		rc = gt_jsonlex_null(lex);
		token = rc == 1 ? GT_JSON_NUMBER : GT_JSON_NULL;
		break;
	default:
		token = GT_JSON_NUMBER;
		rc = gt_jsonlex_number(lex);
	}
	return rc < 0 ? rc : token;
}

static int value(struct gt_jsonscan *s)
{
	int token;

	s->token_at = position(s);
	if (*s->lex.p == '{' || *s->lex.p == '[')
		return push(s, *s->lex.p == '{');
	token = scalar(s);
	if (token >= 0)
		s->state = s->depth ? AFTER : DONE;
	return token;
}

static int key(struct gt_jsonscan *s)
{
	int rc;

	if (*s->lex.p != '"')
		return gt_jsonlex_unexpected(&s->lex, "a key in quotes");
	s->token_at = position(s);
	s->lex.p++;
	rc = gt_jsonlex_string(&s->lex);
	if (rc < 0)
		return rc;
	s->state = COLON;
	return GT_JSON_KEY;
}

/* 1 with a byte that is no white space at s->lex.p, 0 at the end, or -errno. */
static inline int skip_space(struct gt_jsonscan *s)
{
	for (;;) {
		while (s->lex.p < s->lex.end) {
			if (*s->lex.p > ' ' || (*s->lex.p != ' ' && *s->lex.p != '\n' &&
						*s->lex.p != '\r' && *s->lex.p != '\t'))
				return 1;
			s->lex.p++;
		}
		int rc = gt_jsonlex_refill(&s->lex);

		if (rc <= 0)
			return rc;
	}
}

static int at_end(struct gt_jsonscan *s)
{
	if (s->state != DONE)
		return gt_jsonlex_truncated(&s->lex, s->depth ? "within an array or object"
							      : "before it begins");
	s->token_at = position(s);
	return GT_JSON_END;
}

/* After a value within an array or object. 1: go on; else a token or -errno. */
static int after(struct gt_jsonscan *s, int *token)
{
	int object = in_object(s);

	if (*s->lex.p == ',') {
		s->lex.p++;
		s->state = object ? KEY : VALUE;
		return 1;
	}
	if (*s->lex.p == (object ? '}' : ']'))
		*token = pop(s);
	else
		*token = gt_jsonlex_unexpected(&s->lex,
					       object ? "a comma or '}'" : "a comma or ']'");
	return 0;
}

static int next_token(struct gt_jsonscan *s)
{
	s->lex.len = 0;
	s->lex.cut = 0;
	for (;;) {
		int token = skip_space(s);

		if (token < 0)
			return token;
		if (token == 0)
			return at_end(s);
		switch (s->state) {
		case FIRST_VALUE:
			if (*s->lex.p == ']')
				return pop(s);
			return value(s);
		case VALUE:
			return value(s);
		case FIRST_KEY:
			if (*s->lex.p == '}')
				return pop(s);
			return key(s);
		case KEY:
			return key(s);
		case COLON:
			if (*s->lex.p != ':')
				return gt_jsonlex_unexpected(&s->lex, "a colon");
			s->lex.p++;
			s->state = VALUE;
			break;
		case AFTER:
			if (!after(s, &token))
				return token;
			break;
		case DONE:
			return gt_jsonlex_unexpected(&s->lex, "the end of the document");
		}
	}
}

int gt_jsonscan_next(struct gt_jsonscan *s)
{
	int token;

	if (s->lex.err)
		return s->lex.err;
	s->lex.keep = 1;
	token = next_token(s);
	s->lex.text[s->lex.len] = '\0';
	return token;
}

/* Until only `depth` levels are open. */
static int skip_to_depth(struct gt_jsonscan *s, unsigned int depth)
{
	s->lex.keep = 0;
	s->lex.text[0] = '\0';
	while (s->depth > depth) {
		int token = next_token(s);

		if (token < 0)
			return token;
	}
	return 0;
}

int gt_jsonscan_skip(struct gt_jsonscan *s)
{
	unsigned int depth = s->depth;
	int token;

	if (s->lex.err)
		return s->lex.err;
	s->lex.keep = 0;
	token = next_token(s);
	if (token < 0)
		return token;
	if (token == GT_JSON_KEY || token == GT_JSON_END || s->depth < depth)
		return gt_jsonlex_fail(&s->lex, -EINVAL, s->token_at, "no value to skip");
	return skip_to_depth(s, depth);
}

int gt_jsonscan_leave(struct gt_jsonscan *s)
{
	if (s->lex.err)
		return s->lex.err;
	if (!s->depth)
		return gt_jsonlex_fail(&s->lex, -EINVAL, position(s), "nothing to leave");
	return skip_to_depth(s, s->depth - 1);
}

/* ---- what is known ---- */

const char *gt_jsonscan_text(const struct gt_jsonscan *s, size_t *len)
{
	if (len)
		*len = s->lex.len;
	return s->lex.text;
}

int gt_jsonscan_cut(const struct gt_jsonscan *s)
{
	return s->lex.cut;
}

int gt_jsonscan_is(const struct gt_jsonscan *s, const char *w)
{
	size_t len = strlen(w);

	return !s->lex.cut && s->lex.len == len && memcmp(s->lex.text, w, len) == 0;
}

unsigned int gt_jsonscan_depth(const struct gt_jsonscan *s)
{
	return s->depth;
}

uint64_t gt_jsonscan_offset(const struct gt_jsonscan *s)
{
	return s->token_at;
}

uint64_t gt_jsonscan_behind(const struct gt_jsonscan *s)
{
	return position(s);
}

uint64_t gt_jsonscan_words(const struct gt_jsonscan *s)
{
	return s->lex.words;
}

uint64_t gt_jsonscan_bad_utf8(const struct gt_jsonscan *s)
{
	return s->lex.bad_utf8;
}

int gt_jsonscan_gzip(const struct gt_jsonscan *s)
{
	return !gzdirect(s->lex.gz);
}

const char *gt_jsonscan_problem(const struct gt_jsonscan *s)
{
	return s->lex.problem;
}

/* ---- microseconds ---- */

/* 10^n microseconds are so many digits; far beyond what fits, so that nothing overflows. */
#define EXPONENT_MAX 100000

static int parse_exponent(const char *p, int64_t *exponent)
{
	int negative = *p == '-';

	if (*p == '-' || *p == '+')
		p++;
	if (*p < '0' || *p > '9')
		return -EINVAL;
	for (*exponent = 0; *p >= '0' && *p <= '9'; p++)
		if (*exponent < EXPONENT_MAX)
			*exponent = *exponent * 10 + (*p - '0');
	if (negative)
		*exponent = -*exponent;
	return *p ? -EINVAL : 0;
}

int gt_us_to_ns(const char *text, int64_t *ns)
{
	int negative = *text == '-';
	const char *digits = text + negative, *p = digits;
	int64_t point, end, exponent = 0, v = 0;

	p += strspn(p, "0123456789");
	point = p - digits;
	if (!point)
		return -EINVAL;
	if (*p == '.') {
		size_t n = strspn(p + 1, "0123456789");

		if (!n)
			return -EINVAL;
		p += 1 + n;
	}
	end = p - digits;
	if ((*p == 'e' || *p == 'E') && parse_exponent(p + 1, &exponent))
		return -EINVAL;
	if (*p && *p != 'e' && *p != 'E')
		return -EINVAL;
	/* Of all digits, those before the place where the point of the nanoseconds would be. */
	for (int64_t i = 0, left = point + exponent + 3; left > 0; i++) {
		int64_t digit = i < end ? digits[i] - '0' : 0;

		if (i == point && i < end)
			continue; /* this is the point itself */
		if (i >= end && v == 0)
			break;
		if (v > (INT64_MAX - digit) / 10)
			return -ERANGE;
		v = v * 10 + digit;
		left--;
	}
	*ns = negative ? -v : v;
	return 0;
}
