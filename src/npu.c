// SPDX-License-Identifier: Apache-2.0
#include "npu.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* Newest drivers number up to 1,124; their own kind of list (/sys/dev/char) has some hundreds. */
#define NODES_MAX   4096
#define NUMBER_MAX  65535
#define ENTRIES_MAX 1000000 /* of a folder */

/* Of one process. A million descriptors would take seconds to look at. */
#define FDS_MAX   16384
#define LINES_MAX 65536 /* vm.max_map_count is 65530 unless somebody raised it */
#define RECENT    32    /* mapped files remembered; a file's mappings lie together */

enum kind { DEVICE, VIRTUAL, MANAGER, OTHER };

/* The driver's other devices. What runs in a container may get the second under the first's name.
 */
static const struct {
	const char *name;
	enum kind kind;
} others[] = {
	{"davinci_manager", MANAGER},
	{"davinci_manager_docker", MANAGER},
	{"devmm_svm", OTHER},
	{"hisi_hdc", OTHER},
};

struct node {
	dev_t rdev;
	dev_t dev; /* of the file in /dev; 0 if the kernel's list has it */
	ino_t ino;
	enum kind kind;
	uint32_t number;  /* of DEVICE and VIRTUAL; an index of others[] else */
	uint32_t listing; /* 0: the kernel's list, 1: the folder; the first wins */
};

struct nodes {
	size_t n;
	struct node node[NODES_MAX]; /* by rdev, each once */
};

struct gt_npu_host {
	struct nodes *nodes;
	size_t n_devices;
	char *device_root, *char_list; /* one of them may be NULL */
	char text[2 * PATH_MAX + 512];
};

static void cleanup_dir(DIR **d)
{
	if (*d)
		closedir(*d);
}

#define autoclosedir __attribute__((cleanup(cleanup_dir)))

/* NULL: errno says why. */
static DIR *open_dir(int at, const char *name)
{
	gt_autoclose int fd =
		openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (dir)
		fd = -1;
	return dir;
}

/* NULL at the end, or if errno is not 0. */
static const char *next_name(DIR *dir)
{
	const struct dirent *e;

	errno = 0;
	e = readdir(dir);
	return e ? e->d_name : NULL;
}

/* A number as the driver prints it, and nothing else: no sign, no leading zero. */
static int parse_number(const char *s, uint32_t max, uint32_t *out)
{
	uint32_t v = 0;

	if (!*s || (*s == '0' && s[1]))
		return -EINVAL;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return -EINVAL;
		v = v * 10 + (uint32_t)(*s - '0');
		if (v > max)
			return -ERANGE;
	}
	*out = v;
	return 0;
}

/* ---- the host ---- */

/* 0 if the driver has a device of that name. */
static int parse_name(const char *name, struct node *out)
{
	static const char device[] = "davinci", virtual[] = "vdavinci";

	for (uint32_t i = 0; i < GT_ARRAY_SIZE(others); i++) {
		if (strcmp(name, others[i].name))
			continue;
		out->kind = others[i].kind;
		out->number = i;
		return 0;
	}
	out->kind = *name == 'v' ? VIRTUAL : DEVICE;
	if (out->kind == VIRTUAL && !strncmp(name, virtual, sizeof(virtual) - 1))
		return parse_number(name + sizeof(virtual) - 1, NUMBER_MAX, &out->number);
	if (out->kind == DEVICE && !strncmp(name, device, sizeof(device) - 1))
		return parse_number(name + sizeof(device) - 1, NUMBER_MAX, &out->number);
	return -ENOENT;
}

static void node_name(const struct node *n, char *buf, size_t size)
{
	if (n->kind == DEVICE || n->kind == VIRTUAL)
		snprintf(buf, size, "%sdavinci%u", n->kind == VIRTUAL ? "v" : "", n->number);
	else
		snprintf(buf, size, "%s", others[n->number].name);
}

/* A file of one of the names in the folder. lstat: what a link points to is somebody's choice. */
static int look_at_file(int dir, const char *name, struct node *out)
{
	struct node n = {.listing = 1};
	struct stat st;

	if (parse_name(name, &n) || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISCHR(st.st_mode))
		return -ENOENT;
	n.rdev = st.st_rdev;
	n.dev = st.st_dev;
	n.ino = st.st_ino;
	*out = n;
	return 0;
}

/*
 * "major:minor", a link to the device's folder in sysfs, whose name is the one that the driver gave
 * it. Only the text of the link is looked at.
 */
static int look_at_link(int dir, const char *name, struct node *out)
{
	struct node n = {.listing = 0};
	char target[PATH_MAX], major_text[16];
	const char *colon = strchr(name, ':'), *last;
	uint32_t maj, min;
	ssize_t len;

	if (!colon || (size_t)(colon - name) >= sizeof(major_text))
		return -ENOENT;
	memcpy(major_text, name, (size_t)(colon - name));
	major_text[colon - name] = 0;
	/* Both widths are the kernel's (include/linux/kdev_t.h). */
	if (parse_number(major_text, (1u << 12) - 1, &maj) ||
	    parse_number(colon + 1, (1u << 20) - 1, &min))
		return -ENOENT;
	len = readlinkat(dir, name, target, sizeof(target) - 1);
	if (len < 0)
		return -ENOENT;
	target[len] = 0;
	last = strrchr(target, '/');
	if (!last || parse_name(last + 1, &n))
		return -ENOENT;
	n.rdev = makedev(maj, min);
	*out = n;
	return 0;
}

static int look_in(const char *path, int (*look)(int dir, const char *name, struct node *out),
		   struct nodes *nodes)
{
	autoclosedir DIR *dir = open_dir(AT_FDCWD, path);
	const char *name;

	if (!dir)
		return -errno;
	for (int i = 0; i < ENTRIES_MAX && nodes->n < NODES_MAX; i++) {
		name = next_name(dir);
		if (!name)
			return -errno;
		nodes->n += !look(dirfd(dir), name, &nodes->node[nodes->n]);
	}
	return 0;
}

static int by_rdev(const void *a, const void *b)
{
	dev_t x = ((const struct node *)a)->rdev, y = ((const struct node *)b)->rdev;

	return (x > y) - (x < y);
}

/* Which of two names of one device counts: the kernel's, then the lower kind and number. */
static int by_rdev_and_worth(const void *a, const void *b)
{
	const struct node *x = a, *y = b;
	int d = by_rdev(a, b);

	if (!d)
		d = (x->listing > y->listing) - (x->listing < y->listing);
	if (!d)
		d = (x->kind > y->kind) - (x->kind < y->kind);
	return d ? d : (x->number > y->number) - (x->number < y->number);
}

static void drop_doubles(struct nodes *nodes)
{
	size_t n = 0;

	if (!nodes->n)
		return;
	qsort(nodes->node, nodes->n, sizeof(*nodes->node), by_rdev_and_worth);
	for (size_t i = 1; i < nodes->n; i++) {
		/* The file's identity is wanted whatever named it, see mapping_by_file(). */
		if (nodes->node[i].rdev != nodes->node[n].rdev) {
			nodes->node[++n] = nodes->node[i];
		} else if (!nodes->node[n].ino) {
			nodes->node[n].dev = nodes->node[i].dev;
			nodes->node[n].ino = nodes->node[i].ino;
		}
	}
	nodes->n = n + 1;
}

static void describe(struct gt_npu_host *h, int listed)
{
	size_t of_kind[4] = {0};
	char found[128] = "none";
	size_t n;

	for (size_t i = 0; i < h->nodes->n; i++)
		of_kind[h->nodes->node[i].kind]++;
	n = h->n_devices = of_kind[DEVICE] + of_kind[VIRTUAL];
	if (n)
		snprintf(found, sizeof(found), "%zu device%s (%zu of them virtual) and %s manager",
			 n, n == 1 ? "" : "s", of_kind[VIRTUAL], of_kind[MANAGER] ? "the" : "no");
	else if (h->nodes->n)
		snprintf(found, sizeof(found), "%s",
			 of_kind[MANAGER] ? "the manager, but no device"
					  : "neither a device nor the manager");
	snprintf(h->text, sizeof(h->text),
		 "looked in %s%s%s for the Ascend driver's devices (davinci<N>, vdavinci<N>, "
		 "davinci_manager, devmm_svm, hisi_hdc): found %s",
		 h->device_root ? h->device_root : "", h->device_root && listed ? " and " : "",
		 listed ? h->char_list : "", found);
}

int gt_npu_host_refresh(struct gt_npu_host *h)
{
	gt_autofree struct nodes *nodes = calloc(1, sizeof(*nodes));
	int r, listed = 0;

	if (!nodes)
		return -ENOMEM;
	if (h->char_list) {
		r = look_in(h->char_list, look_at_link, nodes);
		listed = !r;
		if (r && !h->device_root) /* else the folder has to do: no sysfs here */
			return r;
	}
	r = h->device_root ? look_in(h->device_root, look_at_file, nodes) : 0;
	if (r)
		return r;
	drop_doubles(nodes);
	free(h->nodes);
	h->nodes = gt_steal_ptr(nodes);
	describe(h, listed);
	return 0;
}

int gt_npu_host_open_in(const char *device_root, const char *char_list, struct gt_npu_host **out)
{
	struct gt_npu_host *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return -ENOMEM;
	h->device_root = device_root ? strdup(device_root) : NULL;
	h->char_list = char_list ? strdup(char_list) : NULL;
	r = (device_root && !h->device_root) || (char_list && !h->char_list) ? -ENOMEM : 0;
	if (!r)
		r = gt_npu_host_refresh(h);
	if (r) {
		gt_npu_host_close(h);
		return r;
	}
	*out = h;
	return 0;
}

int gt_npu_host_open(const char *device_root, struct gt_npu_host **out)
{
	if (device_root)
		return gt_npu_host_open_in(device_root, NULL, out);
	return gt_npu_host_open_in("/dev", "/sys/dev/char", out);
}

void gt_npu_host_close(struct gt_npu_host *h)
{
	if (!h)
		return;
	free(h->nodes);
	free(h->device_root);
	free(h->char_list);
	free(h);
}

size_t gt_npu_host_devices(const struct gt_npu_host *h)
{
	return h->n_devices;
}

const char *gt_npu_host_text(const struct gt_npu_host *h)
{
	return h->text;
}

/* ---- a process ---- */

#define BY_FD  1
#define BY_MAP 2

struct search {
	const struct gt_npu_host *h;
	const struct gt_proc *p;
	struct gt_npus *out;
	uint8_t how[NODES_MAX];    /* BY_* of each of the host's nodes */
	const struct node *source; /* that out->source names */
};

/* Of several, the one that tells most is named: a device before the manager. */
static void note(struct search *s, const struct node *n, int how, int fd)
{
	char name[32];

	s->how[n - s->h->nodes->node] |= (uint8_t)how;
	s->out->bound = 1;
	if (s->source && s->source->kind <= n->kind)
		return;
	s->source = n;
	node_name(n, name, sizeof(name));
	if (how == BY_FD)
		snprintf(s->out->source, sizeof(s->out->source), "descriptor %d: %s", fd, name);
	else
		snprintf(s->out->source, sizeof(s->out->source), "mapping: %s", name);
}

/*
 * The node of what a link of /proc leads to, if it is one of the driver's. These links reach the
 * file itself, whatever became of its name. DONT_SYNC: a file server is not asked, which would not
 * answer while it is down. NULL, and an errno: it is none.
 */
static const struct node *node_behind(const struct search *s, int dir, const char *link)
{
	struct node key = {0};
	struct statx sx;

	if (statx(dir, link, AT_STATX_DONT_SYNC, STATX_TYPE, &sx))
		return NULL;
	errno = ENOENT;
	if (!S_ISCHR(sx.stx_mode))
		return NULL;
	key.rdev = makedev(sx.stx_rdev_major, sx.stx_rdev_minor);
	return bsearch(&key, s->h->nodes->node, s->h->nodes->n, sizeof(key), by_rdev);
}

static int look_at_descriptors(struct search *s)
{
	autoclosedir DIR *dir = open_dir(s->p->procfd, "fd");
	const struct node *n;
	const char *name;
	int fds = 0;
	uint32_t fd;

	if (!dir)
		return -errno;
	while ((name = next_name(dir))) {
		if (parse_number(name, INT32_MAX, &fd))
			continue;
		if (fds++ == FDS_MAX) {
			s->out->cut = 1;
			return 0;
		}
		n = node_behind(s, dirfd(dir), name); /* it may be closed meanwhile */
		if (n)
			note(s, n, BY_FD, (int)fd);
	}
	return -errno;
}

/* What is wanted of a line of maps; the path behind it is only a label. */
struct mapping {
	uint64_t start, end;
	uint64_t dev_major, dev_minor;
	uint64_t ino;
};

static int take_number(const char **s, int base, char after, uint64_t *out)
{
	char *end;

	*out = strtoull(*s, &end, base);
	if (end == *s || *end != after)
		return -EPROTO;
	*s = end + 1;
	return 0;
}

/* "start-end perms offset major:minor inode   path". 0 if it maps a file. */
static int parse_mapping(const char *line, struct mapping *m)
{
	uint64_t offset;
	const char *s = line;

	if (take_number(&s, 16, '-', &m->start) || take_number(&s, 16, ' ', &m->end) ||
	    strnlen(s, 5) < 5)
		return -EPROTO;
	s += 5;
	if (take_number(&s, 16, ' ', &offset) || take_number(&s, 16, ':', &m->dev_major) ||
	    take_number(&s, 16, ' ', &m->dev_minor) || take_number(&s, 10, ' ', &m->ino))
		return -EPROTO;
	return m->ino ? 0 : -ENOENT;
}

/*
 * Without CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE map_files leads nowhere. Then the mapped file is
 * compared with those in the device folder: the same file is the same device. Nodes of another
 * mount namespace are missed.
 */
static const struct node *mapping_by_file(const struct search *s, const struct mapping *m)
{
	for (size_t i = 0; i < s->h->nodes->n; i++) {
		const struct node *n = &s->h->nodes->node[i];

		if (n->ino == m->ino &&
		    n->dev == makedev((unsigned int)m->dev_major, (unsigned int)m->dev_minor))
			return n;
	}
	return NULL;
}

static void look_at_mapping(struct search *s, const struct mapping *m)
{
	const struct node *n;
	char link[64];

	snprintf(link, sizeof(link), "map_files/%" PRIx64 "-%" PRIx64, m->start, m->end);
	n = node_behind(s, s->p->procfd, link); /* it may be unmapped meanwhile */
	if (!n && (errno == EPERM || errno == EACCES))
		n = mapping_by_file(s, m);
	if (n)
		note(s, n, BY_MAP, -1);
}

static int is_recent(const struct mapping *recent, const struct mapping *m)
{
	for (int i = 0; i < RECENT; i++)
		if (recent[i].ino == m->ino && recent[i].dev_minor == m->dev_minor &&
		    recent[i].dev_major == m->dev_major)
			return 1;
	return 0;
}

/* Also those that cannot be executed: a driver's are read and written. */
static int look_at_mappings(struct search *s)
{
	gt_autoclose int fd =
		openat(s->p->procfd, "maps", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
	struct mapping recent[RECENT] = {0}, m;
	gt_autofree char *line = NULL;
	size_t cap = 0;
	FILE *f;
	int next = 0, r = 0;

	if (fd < 0)
		return -errno;
	f = fdopen(fd, "r");
	if (!f)
		return -errno;
	fd = -1;
	errno = 0;
	for (int lines = 0; getline(&line, &cap, f) > 0; lines++) {
		if (lines == LINES_MAX) {
			s->out->cut = 1;
			break;
		}
		if (parse_mapping(line, &m) || is_recent(recent, &m))
			continue;
		recent[next++ % RECENT] = m;
		look_at_mapping(s, &m);
	}
	if (ferror(f))
		r = errno ? -errno : -EIO;
	fclose(f);
	return r;
}

/* Keeps the GT_NPUS_MAX with the lowest numbers, real ones before virtual ones. */
static void add_device(struct gt_npus *out, const struct node *node, int how)
{
	struct gt_npu npu = {
		.device = node->number,
		.card = -1,
		.chip = -1,
		.is_virtual = node->kind == VIRTUAL,
		.by_fd = (how & BY_FD) != 0,
		.by_map = (how & BY_MAP) != 0,
	};
	uint32_t at = out->n;

	while (at && (out->npu[at - 1].is_virtual > npu.is_virtual ||
		      (out->npu[at - 1].is_virtual == npu.is_virtual &&
		       out->npu[at - 1].device > npu.device)))
		at--;
	if (out->n == GT_NPUS_MAX)
		out->n_left_out++;
	else
		out->n++;
	if (at == GT_NPUS_MAX)
		return;
	memmove(&out->npu[at + 1], &out->npu[at], (out->n - at - 1) * sizeof(npu));
	out->npu[at] = npu;
}

int gt_npu_of(const struct gt_npu_host *h, const struct gt_proc *p, struct gt_npus *out)
{
	struct gt_npus npus = {0};
	struct search s = {.h = h, .p = p, .out = &npus};
	int r = 0;

	if (h->nodes->n) {
		r = look_at_descriptors(&s);
		if (!r)
			r = look_at_mappings(&s);
		/* What has ended has neither, which does not mean that it had none. */
		if (r == -ENOENT || (!r && !npus.bound && gt_proc_ended(p)))
			r = -ESRCH;
		if (r)
			return r;
	}
	for (size_t i = 0; i < h->nodes->n; i++)
		if (s.how[i] &&
		    (h->nodes->node[i].kind == DEVICE || h->nodes->node[i].kind == VIRTUAL))
			add_device(&npus, &h->nodes->node[i], s.how[i]);
	*out = npus;
	return npus.bound;
}

/* Appends, or changes nothing and returns -ERANGE. */
static int GT_PRINTF(4, 5) append(char *buf, size_t size, size_t *len, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(buf + *len, size - *len, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= size - *len) {
		buf[*len] = 0;
		return -ERANGE;
	}
	*len += (size_t)n;
	return 0;
}

void gt_npus_text(const struct gt_npus *npus, char *buf, size_t size)
{
	size_t len = 0;

	if (!size)
		return;
	*buf = 0;
	for (uint32_t i = 0; i < npus->n; i++) {
		const struct gt_npu *u = &npus->npu[i];
		char place[48] = "";

		if (u->card >= 0 && u->chip >= 0)
			snprintf(place, sizeof(place), " (NPU %d chip %d)", u->card, u->chip);
		if (append(buf, size, &len, "%s%s%u%s", i ? "," : "", u->is_virtual ? "v" : "",
			   u->device, place))
			return;
	}
	if (npus->n_left_out)
		append(buf, size, &len, " +%u more", npus->n_left_out);
}
