// SPDX-License-Identifier: Apache-2.0
#include "about.h"
#include "procfile.h"
#include "timens.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#define PF_KTHREAD   0x00200000 /* of the kernel's include/linux/sched.h, since 2.6 */
#define CGROUP_BYTES 16384
#define ID_MIN       12 /* hex digits of a container's id; docker shows so many */
#define ID_MAX       64
#define NS_PER_S     1000000000

/* ---- text ---- */

/* How many bytes a character has that begins with this one; 0: none does. */
static size_t utf8_length(unsigned char c)
{
	return c < 0x80 ? 1 : c >> 5 == 0x6 ? 2 : c >> 4 == 0xe ? 3 : c >> 3 == 0x1e ? 4 : 0;
}

/* Bytes of the character at s, in terminated text; 0: no valid UTF-8 (Unicode, table 3-7). */
static size_t utf8_decode(const unsigned char *s, uint32_t *out)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t len = utf8_length(*s);
	uint32_t v = len < 2 ? *s : *s & (0x7fu >> len);

	for (size_t i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		v = v << 6 | (s[i] & 0x3fu);
	}
	*out = v;
	return v < least[len] || v > 0x10ffff || (v >= 0xd800 && v < 0xe000) ? 0 : len;
}

/* Control characters; separators of lines; marks that turn the direction of what follows. */
static int is_harmful(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

void gt_about_clean(char *text)
{
	for (unsigned char *s = (unsigned char *)text; *s;) {
		uint32_t c = 0;
		size_t len = utf8_decode(s, &c);

		if (!len || is_harmful(c)) {
			len = len ? len : 1;
			memset(s, '?', len);
		}
		s += len;
	}
}

/* The length without the beginning of a character whose end was cut off. */
static size_t without_half_character(const char *s, size_t len)
{
	for (size_t n = 1; n < 4 && n <= len; n++) {
		unsigned char c = (unsigned char)s[len - n];

		if ((c & 0xc0) != 0x80)
			return utf8_length(c) > n ? len - n : len;
	}
	return len;
}

/* ---- command line ---- */

int gt_about_cmdline(const struct gt_proc *p, char *buf, size_t size)
{
	/*
	 * The kernel finds titles that reach beyond the arguments, reads nothing but anonymous
	 * memory, and shows a title up to its end or a page.
	 */
	ssize_t n = gt_procfile_read(p, "cmdline", buf, size);
	size_t len;

	if (n < 0)
		return n == -ENOENT ? -ESRCH : (int)n;
	len = (size_t)n;
	if (len == size - 1)
		len = without_half_character(buf, len);
	/* A title leaves NULs, or blanks, where the arguments were longer. */
	while (len && (!buf[len - 1] || buf[len - 1] == ' '))
		len--;
	buf[len] = 0;
	for (size_t i = 0; i < len; i++)
		if (!buf[i])
			buf[i] = ' ';
	gt_about_clean(buf);
	return 0;
}

/* ---- container ---- */

struct span {
	const char *s;
	size_t n;
};

static int span_is(struct span t, const char *text)
{
	return strlen(text) == t.n && !memcmp(t.s, text, t.n);
}

static int begins_with(struct span t, const char *text)
{
	size_t n = strlen(text);

	return t.n >= n && !memcmp(t.s, text, n);
}

static int ends_with(struct span t, const char *text)
{
	size_t n = strlen(text);

	return t.n >= n && !memcmp(t.s + t.n - n, text, n);
}

static void cut_end(struct span *t, const char *text)
{
	if (ends_with(*t, text))
		t->n -= strlen(text);
}

/* What follows the last such character; the whole, if there is none. */
static struct span behind_last(struct span t, int c)
{
	const char *at = memrchr(t.s, c, t.n);

	return at ? (struct span){at + 1, (size_t)(t.s + t.n - at - 1)} : t;
}

static int is_id(struct span t)
{
	for (size_t i = 0; i < t.n; i++)
		if ((t.s[i] < '0' || t.s[i] > '9') && (t.s[i] < 'a' || t.s[i] > 'f'))
			return 0;
	return t.n >= ID_MIN && t.n <= ID_MAX;
}

/*
 * May an id follow this prefix? Its full length tells by itself, but for the process that watches a
 * container from outside (conmon of podman and cri-o); a shorter one might end any UUID.
 */
static int is_runtime(struct span prefix, struct span id)
{
	static const char *const names[] = {
		"docker",     "libpod",  "libpod-payload", "cri-containerd",
		"containerd", "nerdctl", "crio",           "isulad",
	};

	for (size_t i = 0; i < GT_ARRAY_SIZE(names); i++)
		if (span_is(prefix, names[i]))
			return 1;
	return id.n == ID_MAX && !ends_with(prefix, "conmon");
}

/* Is `name`, in the folder `parent` of the cgroup tree, a container's? */
static int container_of(struct span parent, struct span name, struct span *id)
{
	static const char lxc[] = "lxc.payload.";
	struct span t = name, prefix;

	if (span_is(parent, "lxc") || span_is(parent, "lxc.payload")) {
		*id = name;
		return 1;
	}
	if (begins_with(name, lxc)) {
		*id = (struct span){name.s + strlen(lxc), name.n - strlen(lxc)};
		return 1;
	}
	cut_end(&t, ".scope");
	/* "...slice:cri-containerd:ID", from runtimes without the systemd that they are told of */
	t = behind_last(t, ':');
	*id = behind_last(t, '-');
	prefix = (struct span){t.s, t.n - id->n - (id->n < t.n)};
	return is_id(*id) && (!prefix.n || is_runtime(prefix, *id));
}

/* In "/a/b/c", from the end. */
static int innermost_container(struct span path, struct span *id)
{
	cut_end(&path, " (deleted)"); /* v2, of a cgroup that has been removed */
	while (path.n) {
		struct span name = behind_last(path, '/'), parent;

		path.n -= name.n + (name.n < path.n);
		parent = behind_last(path, '/');
		if (name.n && container_of(parent, name, id))
			return 1;
	}
	return 0;
}

/* Lines "hierarchy:controllers:path"; the kernel lets no newline into a cgroup's name. */
void gt_about_parse_container(const char *text, char out[GT_CONTAINER_MAX])
{
	out[0] = 0;
	while (*text) {
		size_t len = strcspn(text, "\n");
		const char *path = memchr(text, ':', len), *end = text + len;
		struct span id;

		path = path ? memchr(path + 1, ':', (size_t)(end - path - 1)) : NULL;
		if (path &&
		    innermost_container((struct span){path + 1, (size_t)(end - path - 1)}, &id)) {
			size_t n = id.n < GT_CONTAINER_MAX ? id.n : GT_CONTAINER_MAX - 1;

			memcpy(out, id.s, n);
			out[n] = 0;
			gt_about_clean(out);
			return;
		}
		text = *end ? end + 1 : end;
	}
}

static void read_container(const struct gt_proc *p, char out[GT_CONTAINER_MAX])
{
	char text[CGROUP_BYTES];
	ssize_t n = gt_procfile_read(p, "cgroup", text, sizeof(text));

	if (n < 0)
		return;
	if ((size_t)n == sizeof(text) - 1) { /* half a line is none */
		char *last = strrchr(text, '\n');

		*(last ? last : text) = 0;
	}
	gt_about_parse_container(text, out);
}

/* ---- namespaces and clocks ---- */

/* 0: not known. Needs the rights to trace the process. */
static uint64_t namespace_of(const struct gt_proc *p, const char *file)
{
	struct stat st;

	return fstatat(p->procfd, file, &st, 0) ? 0 : st.st_ino;
}

static uint8_t is_other(uint64_t its, uint64_t ours)
{
	return its && ours && its != ours;
}

struct offsets {
	int64_t mono_ns, boot_ns;
};

/*
 * Of the time namespace that a process is in, from the host's. The file shows those of the one that
 * its children will be in. -ENODATA: that is another. Without time namespaces all is 0.
 */
static int read_offsets(const struct gt_proc *p, struct offsets *out)
{
	char text[GT_TIMENS_TEXT];
	ssize_t n;

	if (namespace_of(p, "ns/time") != namespace_of(p, "ns/time_for_children"))
		return -ENODATA;
	n = gt_procfile_read(p, "timens_offsets", text, sizeof(text));
	return n < 0 ? (int)n : gt_timens_parse(text, &out->mono_ns, &out->boot_ns);
}

static int64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* Clock ticks on our CLOCK_BOOTTIME to the host's CLOCK_MONOTONIC. */
static uint64_t born(uint64_t ticks, const struct offsets *ours)
{
	int64_t host = clock_ns(CLOCK_MONOTONIC) - ours->mono_ns, age;
	long hz = sysconf(_SC_CLK_TCK);

	if (hz <= 0 || ticks > INT64_MAX / NS_PER_S)
		return 0;
	age = clock_ns(CLOCK_BOOTTIME) - (int64_t)ticks * (NS_PER_S / hz);
	return age < host ? (uint64_t)(host - (age > 0 ? age : 0)) : 0;
}

uint64_t gt_about_born(const struct gt_proc *p)
{
	struct gt_proc us = {.procfd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC)};
	struct offsets ours = {0};

	read_offsets(&us, &ours);
	if (us.procfd >= 0)
		close(us.procfd);
	return born(p->start_ticks, &ours);
}

static void compare_with_us(const struct gt_proc *p, uint64_t ticks, struct gt_about *a)
{
	struct gt_proc us = {.procfd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC)};
	struct offsets its = {0}, ours = {0};

	a->pidns = namespace_of(p, "ns/pid");
	a->mntns = namespace_of(p, "ns/mnt");
	a->userns = namespace_of(p, "ns/user");
	a->other_pidns = is_other(a->pidns, namespace_of(&us, "ns/pid"));
	a->other_mntns = is_other(a->mntns, namespace_of(&us, "ns/mnt"));
	a->other_userns = is_other(a->userns, namespace_of(&us, "ns/user"));
	read_offsets(&us, &ours);
	if (read_offsets(p, &its) && namespace_of(p, "ns/time") == namespace_of(&us, "ns/time"))
		its = ours;
	a->timens_mono_ns = its.mono_ns;
	a->timens_boot_ns = its.boot_ns;
	a->born_mono_ns = born(ticks, &ours);
	if (us.procfd >= 0)
		close(us.procfd);
}

/* ---- all ---- */

static uid_t read_uid(const struct gt_proc *p)
{
	char value[64], *end;
	unsigned long v;

	if (gt_procfile_status(p, "status", "Uid", value, sizeof(value)))
		return (uid_t)-1;
	v = strtoul(value, &end, 10);
	return end != value && *end == '\t' && v < UINT32_MAX ? (uid_t)v : (uid_t)-1;
}

int gt_about(const struct gt_proc *p, struct gt_about *out)
{
	struct gt_procstat st = {0};
	struct gt_about a = {0};
	int r = gt_procfile_stat(p, &st);

	if (r == -ESRCH || r == -ENOENT)
		return -ESRCH;
	a.parent = st.parent;
	a.threads = st.threads;
	if (gt_about_cmdline(p, a.cmdline, sizeof(a.cmdline)))
		a.cmdline[0] = 0;
	read_container(p, a.container);
	compare_with_us(p, p->start_ticks, &a);
	a.uid = read_uid(p);
	if (gt_proc_ended(p))
		return -ESRCH;
	*out = a;
	return 0;
}

/* Does it run our program? Also if that cannot be told. */
static int runs_our_program(const struct gt_proc *p)
{
	struct stat its, ours;

	if (fstatat(p->procfd, "exe", &its, 0) || stat("/proc/self/exe", &ours))
		return 1;
	return its.st_dev == ours.st_dev && its.st_ino == ours.st_ino;
}

int gt_about_is_excluded(const struct gt_proc *p)
{
	struct gt_procstat st;
	int r = gt_procfile_stat(p, &st);

	if (r)
		return r == -ENOENT ? -ESRCH : r;
	if (st.flags & PF_KTHREAD || strchr("ZXx", st.state) || p->pid == getpid())
		return 1;
	return st.parent == getpid() && runs_our_program(p);
}
