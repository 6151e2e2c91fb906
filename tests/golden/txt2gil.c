// SPDX-License-Identifier: Apache-2.0
/*
 * txt2gil SCRIPT OUT.gil - writes a .gil file from a readable script, one order a line:
 *
 *  origin MONO UNIX            what time 0 is on the two clocks [1000s 1700000000s]
 *  meta KEY VALUE
 *  site KIND FLAGS             a probe site; both are numbers
 *  clock T [STEP]              a clock sample; STEP: the wall clock has been set ahead by so much
 *  thread T TID COMM [NSTID [HOSTTID [NAME]]]
 *                              0: not known; NAME: in the interpreter
 *  gil T INDEX ADDRESS [unconfirmed]
 *  wait|acquire|release|yield|take|dropped|left T TID [GIL]
 *  forced T TID [GIL]          a release that was asked for
 *  before T TID waiting|holding [GIL]
 *  exit T TID
 *  lost T BEGIN COUNT
 *  late T BEGIN
 *  paused T BEGIN              nothing was recorded from BEGIN to T, as somebody had asked for
 *  mark T TID NAME             TID 0: the process's
 *  unseen COUNT                events lost of which only block headers know
 *  flush                       seals the block
 *  repeat N EVERY .. done      the lines between, N times, each EVERY later; does not nest
 *  minor N                     makes it a file of version 1.N, wherever this stands
 *  end T [REASON]              without it the recorder was killed: what is not flushed is missing
 *  chop N                      cuts the last N bytes off the file that has been written
 *  flip OFFSET                 damages the byte there; a negative one counts from the end
 *
 * Times are 12, 1.5us, 2ms, 3.25s (a plain number: ns) since the origin. A word may stand in
 * quotes, with \xNN for any byte. # begins a comment.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <zlib.h>

#include "gilfile_write.h"

#define WORDS_MAX 7
#define WORD_MAX  256

static const char *script_path;
static unsigned int line_number;

static _Noreturn void die(const char *what, const char *word)
{
	fprintf(stderr, "txt2gil: %s:%u: %s: %s\n", script_path, line_number, what, word);
	exit(1);
}

struct line {
	unsigned int number;
	int n;
	char word[WORDS_MAX][WORD_MAX];
};

struct script {
	const char *out;
	struct gt_gilfile *file;
	uint64_t mono_ns, unix_ns; /* of time 0 */
	uint64_t shift_ns;         /* of the repetition */
	uint64_t lost_total;
	int ended;
};

static int hex(char c)
{
	const char *digits = "0123456789abcdef";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Reads a word, quoted or not, into w; returns what follows it. */
static const char *read_word(const char *p, char *w)
{
	int quoted = *p == '"';
	size_t n = 0;

	for (p += quoted; *p && *p != '\n'; p++) {
		char c = *p;

		if (quoted ? c == '"' : c == ' ' || c == '\t')
			break;
		if (c == '\\' && p[1] == 'x' && hex(p[2]) >= 0 && hex(p[3]) >= 0) {
			c = (char)(hex(p[2]) * 16 + hex(p[3]));
			p += 3;
		}
		if (n == WORD_MAX - 1)
			die("too long", w);
		w[n++] = c;
	}
	if (quoted && *p != '"')
		die("no closing quote", w);
	w[n] = '\0';
	return p + quoted;
}

static void split(const char *p, struct line *l)
{
	for (;;) {
		p += strspn(p, " \t\n");
		if (!*p || *p == '#')
			return;
		if (l->n == WORDS_MAX)
			die("too many words", p);
		p = read_word(p, l->word[l->n++]);
	}
}

static uint64_t number(const char *word)
{
	char *end;
	uint64_t v;

	errno = 0;
	v = strtoull(word, &end, 0);
	if (*word < '0' || *word > '9' || *end || errno)
		die("not a number", word);
	return v;
}

static uint64_t duration(const char *word)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"", 1}, {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
	uint64_t v = 0, part = 0, scale = 1;
	const char *p = word;

	for (; *p >= '0' && *p <= '9'; p++)
		v = v * 10 + (uint64_t)(*p - '0');
	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9' && scale < 1000000000; p++, scale *= 10)
			part = part * 10 + (uint64_t)(*p - '0');
	for (size_t i = 0; p != word && i < GT_ARRAY_SIZE(units); i++)
		if (!strcmp(p, units[i].name))
			return v * units[i].ns + part * units[i].ns / scale;
	die("not a time", word);
}

static uint64_t when(const struct script *s, const char *word)
{
	return s->mono_ns + s->shift_ns + duration(word);
}

static void check(int err, const char *what)
{
	if (err)
		die(strerror(-err), what);
}

static void add(struct script *s, const struct gil_event *ev)
{
	check(gt_gilfile_add(s->file, ev, s->lost_total), "cannot be written");
}

static void do_meta(struct script *s, const struct line *l)
{
	const char *const pair[1][2] = {{l->word[1], l->word[2]}};

	check(gt_gilfile_meta(s->file, pair, 1), "meta");
}

static void do_site(struct script *s, const struct line *l)
{
	struct gil_site site = {.kind = (uint8_t)number(l->word[1]),
				.flags = (uint8_t)number(l->word[2]),
				.how = "script"};

	check(gt_gilfile_sites(s->file, &site, 1), "site");
}

static void do_clock(struct script *s, const struct line *l)
{
	struct gil_clock c = {.mono_ns = when(s, l->word[1]), .error_ns = 50};

	c.raw_ns = c.boot_ns = c.mono_ns;
	c.unix_ns = c.mono_ns - s->mono_ns + s->unix_ns + (l->n > 2 ? duration(l->word[2]) : 0);
	check(gt_gilfile_clock(s->file, &c), "clock");
}

static void do_thread(struct script *s, const struct line *l)
{
	struct gil_event ev = {.kind = GIL_THREAD,
			       .mono_ns = when(s, l->word[1]),
			       .tid = (uint32_t)number(l->word[2])};

	ev.thread.ns_tid = l->n > 4 ? (uint32_t)number(l->word[4]) : 0;
	ev.thread.host_tid = l->n > 5 ? (uint32_t)number(l->word[5]) : 0;
	ev.thread.name = l->n > 6 ? l->word[6] : NULL;
	memcpy(ev.thread.comm, l->word[3], strnlen(l->word[3], GIL_COMM_LEN - 1));
	add(s, &ev);
}

static void do_gil(struct script *s, const struct line *l)
{
	struct gil_event ev = {.kind = GIL_GIL,
			       .mono_ns = when(s, l->word[1]),
			       .gil = (uint8_t)number(l->word[2])};

	ev.gil_ident.addr = number(l->word[3]);
	ev.unconfirmed = l->n > 4 && !strcmp(l->word[4], "unconfirmed");
	if (l->n > 4 && !ev.unconfirmed)
		die("neither nothing nor `unconfirmed'", l->word[4]);
	add(s, &ev);
}

static void do_event(struct script *s, const struct line *l, uint8_t kind)
{
	struct gil_event ev = {.kind = kind,
			       .mono_ns = when(s, l->word[1]),
			       .tid = (uint32_t)number(l->word[2]),
			       .gil = l->n > 3 ? (uint8_t)number(l->word[3]) : 0};

	add(s, &ev);
}

static void do_forced(struct script *s, const struct line *l)
{
	struct gil_event ev = {.kind = GIL_RELEASE,
			       .mono_ns = when(s, l->word[1]),
			       .tid = (uint32_t)number(l->word[2]),
			       .gil = l->n > 3 ? (uint8_t)number(l->word[3]) : 0,
			       .forced = 1};

	add(s, &ev);
}

static void do_before(struct script *s, const struct line *l)
{
	struct gil_event ev = {.kind = GIL_BEFORE,
			       .mono_ns = when(s, l->word[1]),
			       .tid = (uint32_t)number(l->word[2]),
			       .gil = l->n > 4 ? (uint8_t)number(l->word[4]) : 0};

	if (!strcmp(l->word[3], "waiting"))
		ev.before.state = GIL_BEFORE_WAITING;
	else if (!strcmp(l->word[3], "holding"))
		ev.before.state = GIL_BEFORE_HOLDING;
	else
		die("neither `waiting' nor `holding'", l->word[3]);
	add(s, &ev);
}

static void do_lost(struct script *s, const struct line *l)
{
	struct gil_event ev = {.kind = GIL_LOST, .mono_ns = when(s, l->word[1])};

	ev.lost.begin_mono_ns = when(s, l->word[2]);
	ev.lost.count = number(l->word[3]);
	s->lost_total += ev.lost.count;
	add(s, &ev);
}

static void do_late(struct script *s, const struct line *l)
{
	struct gil_event ev = {.kind = GIL_LATE, .mono_ns = when(s, l->word[1])};

	ev.late.begin_mono_ns = when(s, l->word[2]);
	add(s, &ev);
}

static void do_paused(struct script *s, const struct line *l)
{
	struct gil_event ev = {.kind = GIL_PAUSED, .mono_ns = when(s, l->word[1])};

	ev.paused.begin_mono_ns = when(s, l->word[2]);
	add(s, &ev);
}

static void do_mark(struct script *s, const struct line *l)
{
	struct gil_event ev = {.kind = GIL_MARK,
			       .mono_ns = when(s, l->word[1]),
			       .tid = (uint32_t)number(l->word[2])};

	ev.mark.name = l->word[3];
	add(s, &ev);
}

static void do_end(struct script *s, const struct line *l)
{
	enum gil_end_reason reason =
		l->n > 2 ? (enum gil_end_reason)number(l->word[2]) : GIL_END_DURATION;

	check(gt_gilfile_finish(s->file, reason, when(s, l->word[1]), s->lost_total, NULL), "end");
	s->ended = 1;
}

/* The writer has written the file's header long ago. */
static void do_minor(struct script *s, const struct line *l)
{
	gt_autoclose int fd = open(s->out, O_RDWR | O_CLOEXEC);
	uint8_t h[GIL_HEADER_SIZE];

	if (fd < 0 || pread(fd, h, sizeof(h), 0) != sizeof(h))
		die("cannot be changed", s->out);
	gt_put_le16(h + 10, (uint16_t)number(l->word[1]));
	gt_put_le32(h + 28, (uint32_t)crc32(0, h, 28));
	if (pwrite(fd, h, sizeof(h), 0) != sizeof(h))
		die("cannot be changed", s->out);
}

/* chop and flip work on the file as it lies on disk. */
static void do_damage(struct script *s, const struct line *l)
{
	int from_end = l->word[1][0] == '-';
	uint64_t n = number(l->word[1] + from_end);
	gt_autoclose int fd = open(s->out, O_RDWR | O_CLOEXEC);
	struct stat st;
	uint8_t byte;

	if (fd < 0 || fstat(fd, &st) || (uint64_t)st.st_size < n)
		die("cannot be damaged", s->out);
	if (!strcmp(l->word[0], "chop")) {
		if (ftruncate(fd, st.st_size - (off_t)n))
			die("cannot be cut", s->out);
		return;
	}
	if (from_end)
		n = (uint64_t)st.st_size - n;
	if (pread(fd, &byte, 1, (off_t)n) != 1)
		die("no such byte", l->word[1]);
	byte ^= 0x55;
	if (pwrite(fd, &byte, 1, (off_t)n) != 1)
		die("cannot be damaged", s->out);
}

enum order {
	ORIGIN = 256, /* below are kinds of events */
	META,
	SITE,
	CLOCK,
	THREAD,
	GIL,
	FORCED,
	BEFORE,
	LOST,
	LATE,
	PAUSED,
	MARK,
	UNSEEN,
	FLUSH,
	REPEAT,
	DONE,
	MINOR,
	END,
	DAMAGE,
};

static const struct order_def {
	const char *name;
	int min, max; /* words, itself included */
	int order;
} orders[] = {
	{"wait", 3, 4, GIL_WAIT},   {"acquire", 3, 4, GIL_ACQUIRE}, {"release", 3, 4, GIL_RELEASE},
	{"yield", 3, 4, GIL_YIELD}, {"take", 3, 4, GIL_TAKE},       {"dropped", 3, 4, GIL_DROPPED},
	{"exit", 3, 3, GIL_EXIT},   {"forced", 3, 4, FORCED},       {"before", 4, 5, BEFORE},
	{"left", 3, 4, GIL_LEFT},   {"origin", 3, 3, ORIGIN},       {"meta", 3, 3, META},
	{"clock", 2, 3, CLOCK},     {"site", 3, 3, SITE},           {"thread", 4, 7, THREAD},
	{"gil", 4, 5, GIL},         {"lost", 4, 4, LOST},           {"unseen", 2, 2, UNSEEN},
	{"flush", 1, 1, FLUSH},     {"repeat", 3, 3, REPEAT},       {"done", 1, 1, DONE},
	{"end", 2, 3, END},         {"chop", 2, 2, DAMAGE},         {"flip", 2, 2, DAMAGE},
	{"minor", 2, 2, MINOR},     {"late", 3, 3, LATE},           {"paused", 3, 3, PAUSED},
	{"mark", 4, 4, MARK},
};

static int order_of(const struct line *l)
{
	for (size_t i = 0; i < GT_ARRAY_SIZE(orders); i++) {
		if (strcmp(orders[i].name, l->word[0]))
			continue;
		if (l->n < orders[i].min || l->n > orders[i].max)
			die("wrong number of words", l->word[0]);
		return orders[i].order;
	}
	die("no such order", l->word[0]);
}

static void obey(struct script *s, const struct line *l, int order)
{
	if (s->ended && order != DAMAGE)
		die("after the end", l->word[0]);
	switch (order) {
	case ORIGIN:
		s->mono_ns = duration(l->word[1]);
		s->unix_ns = duration(l->word[2]);
		break;
	case META:
		do_meta(s, l);
		break;
	case SITE:
		do_site(s, l);
		break;
	case CLOCK:
		do_clock(s, l);
		break;
	case THREAD:
		do_thread(s, l);
		break;
	case GIL:
		do_gil(s, l);
		break;
	case FORCED:
		do_forced(s, l);
		break;
	case BEFORE:
		do_before(s, l);
		break;
	case LOST:
		do_lost(s, l);
		break;
	case LATE:
		do_late(s, l);
		break;
	case PAUSED:
		do_paused(s, l);
		break;
	case MARK:
		do_mark(s, l);
		break;
	case UNSEEN:
		s->lost_total += number(l->word[1]);
		break;
	case FLUSH:
		check(gt_gilfile_flush(s->file, s->lost_total), "flush");
		break;
	case MINOR:
		do_minor(s, l);
		break;
	case END:
		do_end(s, l);
		break;
	case DAMAGE:
		do_damage(s, l);
		break;
	case DONE:
		die("without repeat", l->word[0]);
	default:
		do_event(s, l, (uint8_t)order);
	}
}

static void play(struct script *s, const struct line *lines, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t done = i;
		uint64_t times, every;

		line_number = lines[i].number;
		if (order_of(&lines[i]) != REPEAT) {
			obey(s, &lines[i], order_of(&lines[i]));
			continue;
		}
		times = number(lines[i].word[1]);
		every = duration(lines[i].word[2]);
		while (++done < n && order_of(&lines[done]) != DONE)
			;
		if (done == n)
			die("without done", lines[i].word[0]);
		for (; times--; s->shift_ns += every) {
			for (size_t k = i + 1; k < done; k++) {
				line_number = lines[k].number;
				obey(s, &lines[k], order_of(&lines[k]));
			}
		}
		s->shift_ns = 0;
		i = done;
	}
}

static size_t read_script(FILE *f, struct line **out)
{
	struct line *lines = NULL;
	char *text = NULL;
	size_t size = 0, n = 0;

	while (getline(&text, &size, f) >= 0) {
		line_number++;
		lines = reallocarray(lines, n + 1, sizeof(*lines));
		if (!lines)
			die("out of memory", "");
		lines[n] = (struct line){.number = line_number};
		split(text, &lines[n]);
		n += lines[n].n > 0;
	}
	free(text);
	*out = lines;
	return n;
}

int main(int argc, char **argv)
{
	struct script s = {.mono_ns = 1000000000000, .unix_ns = 1700000000000000000};
	struct line *lines;
	FILE *f;
	size_t n;
	int fd;

	if (argc != 3) {
		fprintf(stderr, "usage: txt2gil SCRIPT OUT.gil\n");
		return 2;
	}
	script_path = argv[1];
	s.out = argv[2];
	f = fopen(argv[1], "re");
	if (!f)
		die(strerror(errno), argv[1]);
	n = read_script(f, &lines);
	fclose(f);
	fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		die(strerror(errno), argv[2]);
	check(gt_gilfile_create(fd, &s.file), argv[2]);
	play(&s, lines, n);
	free(lines);
	/* Without an end it is as if the recorder had been killed: the block in memory is lost. */
	_exit(0);
}
