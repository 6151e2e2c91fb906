// SPDX-License-Identifier: Apache-2.0
#include "listing.h"

#include <cjson/cJSON.h>
#include <sys/ioctl.h>

#define CELL_MAX  256
#define TITLE_MIN 16 /* columns of a terminal, however narrow */
#define SHORT_ID  12 /* of a container, as docker and crictl show it */
#define SHORT_SUM 8  /* of a build id */

struct python_row {
	char version[16]; /* "": not known */
	char file[sizeof(((struct gt_map *)0)->path)];
	char build_id[2 * GT_BUILDID_MAX + 1];
	const char *mode;
	int stripped;
};

struct row {
	pid_t pid, ns_pid;
	char comm[GT_PROC_COMM];
	struct gt_rank rank;
	struct gt_about about;
	struct gt_npus npus;
	uint32_t n_pythons;
	struct python_row python[GT_PYTHONS_MAX];
};

struct gt_listing {
	enum gt_listing_format format;
	struct row *rows;
	size_t n, room;
};

struct gt_listing *gt_listing_new(enum gt_listing_format format)
{
	struct gt_listing *l = calloc(1, sizeof(*l));

	if (l)
		l->format = format;
	return l;
}

void gt_listing_free(struct gt_listing *l)
{
	if (!l)
		return;
	free(l->rows);
	free(l);
}

static void copy_python(const struct gt_python *from, struct python_row *to)
{
	const struct gt_sites *s = from->sites;
	size_t n = s->build_id_len < GT_BUILDID_MAX ? s->build_id_len : GT_BUILDID_MAX;

	if (s->py_major)
		snprintf(to->version, sizeof(to->version), "%u.%u", s->py_major, s->py_minor);
	memcpy(to->file, from->map.path, sizeof(to->file));
	gt_about_clean(to->file);
	for (size_t i = 0; i < n; i++)
		snprintf(to->build_id + 2 * i, 3, "%02x", s->build_id[i]);
	to->mode = gt_probe_mode_name(s->n ? (enum gt_probe_mode)s->mode : GT_PROBE_LIBC);
	to->stripped = s->stripped;
}

int gt_listing_add(struct gt_listing *l, const struct gt_recording *r)
{
	struct row *row;

	if (l->n == l->room) {
		size_t room = l->room ? 2 * l->room : 16;
		struct row *rows = reallocarray(l->rows, room, sizeof(*rows));

		if (!rows)
			return -ENOMEM;
		l->rows = rows;
		l->room = room;
	}
	row = &l->rows[l->n++];
	memset(row, 0, sizeof(*row));
	row->pid = r->proc.pid;
	row->ns_pid = r->proc.ns_pid;
	memcpy(row->comm, r->proc.comm, sizeof(row->comm));
	row->rank = r->rank;
	row->about = r->about;
	row->npus = r->npus;
	gt_about_clean(row->comm);
	gt_about_clean(row->about.cmdline);
	gt_about_clean(row->about.container);
	gt_about_clean(row->npus.source);
	row->n_pythons = r->py.n < GT_PYTHONS_MAX ? r->py.n : GT_PYTHONS_MAX;
	for (uint32_t i = 0; i < row->n_pythons; i++)
		copy_python(&r->py.python[i], &row->python[i]);
	return 0;
}

static int by_rank(const void *va, const void *vb)
{
	const struct row *a = va, *b = vb;
	int guess = !strcmp(a->rank.source, "default") - !strcmp(b->rank.source, "default");

	if (guess)
		return guess;
	if (a->rank.rank != b->rank.rank)
		return a->rank.rank < b->rank.rank ? -1 : 1;
	return (a->pid > b->pid) - (a->pid < b->pid);
}

/* ---- for people ---- */

static const struct column {
	const char *name;
	int right; /* aligned */
} columns[] = {
	{"PID", 1},    {"NSPID", 1},     {"RANK (FROM)", 0}, {"NPU", 0},
	{"PYTHON", 0}, {"CONTAINER", 0}, {"THREADS", 1},
};

#define COLUMNS GT_ARRAY_SIZE(columns)

typedef char cells[COLUMNS][CELL_MAX];

static void python_cell(const struct row *r, char cell[CELL_MAX])
{
	size_t len = 0;

	for (uint32_t i = 0; i < r->n_pythons && len < CELL_MAX; i++) {
		const struct python_row *p = &r->python[i];
		int plain = !strcmp(p->mode, gt_probe_mode_name(GT_PROBE_SITES));

		len += (size_t)snprintf(cell + len, CELL_MAX - len, "%s%s%s%.*s%s%s", i ? ", " : "",
					p->version[0] ? p->version : "?", p->build_id[0] ? " " : "",
					SHORT_SUM, p->build_id, plain ? "" : " ",
					plain ? "" : p->mode);
	}
}

static void container_cell(const char *id, char cell[CELL_MAX])
{
	int is_sum = !id[strspn(id, "0123456789abcdef")];

	snprintf(cell, CELL_MAX, "%.*s", is_sum ? SHORT_ID : GT_CONTAINER_MAX, id);
}

static void fill(const struct row *r, cells c)
{
	snprintf(c[0], CELL_MAX, "%d", (int)r->pid);
	snprintf(c[1], CELL_MAX, "%d", (int)r->ns_pid);
	snprintf(c[2], CELL_MAX, "%u (%s)", r->rank.rank, r->rank.source);
	gt_npus_text(&r->npus, c[3], CELL_MAX);
	if (!r->npus.n && r->npus.bound)
		snprintf(c[3], CELL_MAX, "driver only");
	python_cell(r, c[4]);
	container_cell(r->about.container, c[5]);
	if (r->about.threads)
		snprintf(c[6], CELL_MAX, "%u", r->about.threads);
	for (size_t i = 0; i < COLUMNS; i++)
		if (!c[i][0])
			strcpy(c[i], "-");
}

/* Columns of the terminal; 0: the stream is none. */
static size_t terminal_width(FILE *out)
{
	struct winsize size;
	int fd = fileno(out);

	return fd >= 0 && isatty(fd) && !ioctl(fd, TIOCGWINSZ, &size) ? size.ws_col : 0;
}

/*
 * How many bytes of valid UTF-8 fit into so many columns. Characters from U+1100 on, where the
 * first wide ones are, are taken for wide, so that a line is never too long.
 */
static int fitting(const char *text, size_t room)
{
	size_t len = 0, width = 0;

	while (text[len]) {
		unsigned char c = (unsigned char)text[len];
		size_t n = 1;

		while (((unsigned char)text[len + n] & 0xc0) == 0x80)
			n++;
		width += n == 4 || c > 0xe1 || (c == 0xe1 && (unsigned char)text[len + 1] >= 0x84)
				 ? 2
				 : 1;
		if (width > room)
			break;
		len += n;
	}
	return (int)len;
}

static void print_line(FILE *out, cells c, const size_t width[COLUMNS], const char *title,
		       size_t room)
{
	for (size_t i = 0; i < COLUMNS; i++)
		fprintf(out, "%*s  ", columns[i].right ? (int)width[i] : -(int)width[i], c[i]);
	if (room)
		fprintf(out, "%.*s\n", fitting(title, room), title);
	else
		fprintf(out, "%s\n", title);
}

static int print_table(const struct gt_listing *l, FILE *out)
{
	gt_autofree cells *table = calloc(l->n + 1, sizeof(*table));
	size_t width[COLUMNS] = {0}, used = 0, room = terminal_width(out);

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < COLUMNS; i++)
		snprintf(table[l->n][i], CELL_MAX, "%s", columns[i].name);
	for (size_t i = 0; i < l->n; i++)
		fill(&l->rows[i], table[i]);
	for (size_t i = 0; i < COLUMNS; i++) {
		for (size_t k = 0; k <= l->n; k++)
			if (strlen(table[k][i]) > width[i])
				width[i] = strlen(table[k][i]);
		used += width[i] + 2;
	}
	if (room)
		room = room > used + TITLE_MIN ? room - used : TITLE_MIN;
	print_line(out, table[l->n], width, "TITLE", room);
	for (size_t i = 0; i < l->n; i++) {
		char title[GT_CMDLINE_MAX];

		snprintf(title, sizeof(title), "%s", l->rows[i].about.cmdline);
		if (!title[0]) /* as ps shows it */
			snprintf(title, sizeof(title), "[%s]", l->rows[i].comm);
		print_line(out, table[i], width, title, room);
	}
	return 0;
}

/* ---- for scripts ---- */

/* Each adds to an object and returns 0 or -ENOMEM, so that results can be joined by |. */
static int add_number(cJSON *o, const char *name, double v)
{
	return cJSON_AddNumberToObject(o, name, v) ? 0 : -ENOMEM;
}

static int add_null(cJSON *o, const char *name)
{
	return cJSON_AddNullToObject(o, name) ? 0 : -ENOMEM;
}

static int add_known(cJSON *o, const char *name, double v, int known)
{
	return known ? add_number(o, name, v) : add_null(o, name);
}

static int add_bool(cJSON *o, const char *name, int v)
{
	return cJSON_AddBoolToObject(o, name, v) ? 0 : -ENOMEM;
}

static int add_text(cJSON *o, const char *name, const char *text)
{
	return cJSON_AddStringToObject(o, name, text) ? 0 : -ENOMEM;
}

static int add_known_text(cJSON *o, const char *name, const char *text)
{
	return text && text[0] ? add_text(o, name, text) : add_null(o, name);
}

/* A new object at the end of an array; NULL: out of memory. */
static cJSON *add_object(cJSON *array)
{
	cJSON *o = cJSON_CreateObject();

	if (o && !cJSON_AddItemToArray(array, o)) {
		cJSON_Delete(o);
		return NULL;
	}
	return o;
}

static int add_npu(cJSON *array, const struct gt_npu *npu)
{
	cJSON *o = add_object(array);

	if (!o)
		return -ENOMEM;
	return add_number(o, "device", npu->device) |
	       add_known(o, "card", npu->card, npu->card >= 0) |
	       add_known(o, "chip", npu->chip, npu->chip >= 0) |
	       add_bool(o, "virtual", npu->is_virtual) |
	       add_known_text(o, "source",
			      npu->by_fd && npu->by_map ? "descriptor and mapping"
			      : npu->by_fd              ? "descriptor"
			      : npu->by_map             ? "mapping"
							: NULL);
}

static int add_python(cJSON *array, const struct python_row *p)
{
	cJSON *o = add_object(array);

	if (!o)
		return -ENOMEM;
	return add_known_text(o, "version", p->version) | add_text(o, "file", p->file) |
	       add_known_text(o, "build_id", p->build_id) | add_text(o, "mode", p->mode) |
	       add_bool(o, "stripped", p->stripped);
}

static int add_process(cJSON *array, const struct row *r)
{
	const struct gt_about *a = &r->about;
	cJSON *o = add_object(array), *list;
	int err;

	if (!o)
		return -ENOMEM;
	err = add_number(o, "pid", r->pid) | add_number(o, "ns_pid", r->ns_pid) |
	      add_number(o, "rank", r->rank.rank) | add_text(o, "rank_source", r->rank.source) |
	      add_known(o, "local_rank", r->rank.local, r->rank.local >= 0) |
	      add_known_text(o, "local_rank_source", r->rank.local_source);
	list = cJSON_AddArrayToObject(o, "npus");
	for (uint32_t i = 0; list && i < r->npus.n && i < GT_NPUS_MAX; i++)
		err |= add_npu(list, &r->npus.npu[i]);
	err |= list ? 0 : -ENOMEM;
	err |= add_known_text(o, "npu_source", r->npus.bound ? r->npus.source : NULL);
	list = cJSON_AddArrayToObject(o, "python");
	for (uint32_t i = 0; list && i < r->n_pythons; i++)
		err |= add_python(list, &r->python[i]);
	err |= list ? 0 : -ENOMEM;
	err |= add_known_text(o, "container", a->container) |
	       add_known(o, "pid_namespace", (double)a->pidns, a->pidns != 0) |
	       add_known(o, "mount_namespace", (double)a->mntns, a->mntns != 0) |
	       add_known(o, "user_namespace", (double)a->userns, a->userns != 0) |
	       add_number(o, "parent", a->parent) |
	       add_known(o, "uid", a->uid, a->uid != (uid_t)-1) |
	       add_known(o, "threads", a->threads, a->threads != 0) |
	       add_text(o, "cmdline", a->cmdline) | add_text(o, "comm", r->comm);
	return err ? -ENOMEM : 0;
}

static int print_json(const struct gt_listing *l, FILE *out)
{
	cJSON *root = cJSON_CreateObject();
	cJSON *list = root ? cJSON_AddArrayToObject(root, "processes") : NULL;
	int err = list ? 0 : -ENOMEM;
	char *text = NULL;

	for (size_t i = 0; i < l->n && !err; i++)
		err = add_process(list, &l->rows[i]);
	if (!err)
		err = add_number(root, "format", 1);
	if (!err)
		text = cJSON_Print(root);
	if (!err && !text)
		err = -ENOMEM;
	if (text)
		fprintf(out, "%s\n", text);
	cJSON_free(text);
	cJSON_Delete(root);
	return err;
}

int gt_listing_print(struct gt_listing *l, FILE *out)
{
	int err;

	if (l->n)
		qsort(l->rows, l->n, sizeof(*l->rows), by_rank);
	errno = 0;
	err = l->format == GT_LISTING_JSON ? print_json(l, out) : print_table(l, out);
	if (!err && (fflush(out) || ferror(out)))
		err = errno ? -errno : -EIO;
	gt_listing_free(l);
	return err;
}
