// SPDX-License-Identifier: Apache-2.0
#include "proc.h"
#include "log.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#define MAPS_MAX      4096         /* files kept of one process */
#define MAPS_LINE     (4096 + 256) /* a path of PATH_MAX and the numbers before it */
#define MAPS_LINES    1000000      /* vm.max_map_count is 65530 unless somebody raised it */
#define ENVIRON_BYTES (1u << 20)

static void cleanup_file(FILE **f)
{
	if (*f)
		fclose(*f);
}

#define autofclose __attribute__((cleanup(cleanup_file)))

static void cleanup_dir(DIR **d)
{
	if (*d)
		closedir(*d);
}

/* /proc/PID is bound to the process it was opened for: names below it never reach another. */
static int open_at(const struct gt_proc *p, const char *name, int flags)
{
	int fd = openat(p->procfd, name, flags | O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);

	return fd < 0 ? -errno : fd;
}

static int fopen_at(const struct gt_proc *p, const char *name, FILE **out)
{
	gt_autoclose int fd = open_at(p, name, 0);
	FILE *f;

	if (fd < 0)
		return fd;
	f = fdopen(fd, "r");
	if (!f)
		return -errno;
	fd = -1;
	*out = f;
	return 0;
}

/* Up to size - 1 bytes from the start of a file, and a NUL. Returns the number of bytes. */
static ssize_t read_at(const struct gt_proc *p, const char *name, char *buf, size_t size)
{
	gt_autoclose int fd = open_at(p, name, 0);
	size_t len = 0;

	if (fd < 0)
		return fd;
	while (len < size - 1) {
		ssize_t n = read(fd, buf + len, size - 1 - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		len += (size_t)n;
	}
	buf[len] = 0;
	return (ssize_t)len;
}

/*
 * One line without its newline; what does not fit is dropped. 1, 0 at the end, or -errno.
 * In maps and status the kernel writes a newline of a name as \012 (since 2.6), so a name cannot
 * make up lines.
 */
static int read_line(FILE *f, char *buf, int size)
{
	size_t len;
	int c;

	errno = 0;
	if (!fgets(buf, size, f))
		return ferror(f) ? -(errno ? errno : EIO) : 0;
	len = strlen(buf);
	if (len && buf[len - 1] == '\n') {
		buf[len - 1] = 0;
		return 1;
	}
	do
		c = getc(f);
	while (c != '\n' && c != EOF);
	return 1;
}

/* The value of "key:\t..." in a status file. -ENOENT: no such line. */
static int status_field(const struct gt_proc *p, const char *file, const char *key, char *buf,
			size_t size)
{
	autofclose FILE *f = NULL;
	size_t klen = strlen(key);
	char line[512]; /* Groups: may have 700 kB; no line that is asked for comes near this */
	int r = fopen_at(p, file, &f);

	if (r)
		return r;
	while ((r = read_line(f, line, sizeof(line))) > 0) {
		const char *v;

		if (strncmp(line, key, klen) || line[klen] != ':')
			continue;
		v = line + klen + 1;
		v += strspn(v, " \t");
		if (strlen(v) >= size)
			return -ERANGE;
		memcpy(buf, v, strlen(v) + 1);
		return 0;
	}
	return r ? r : -ENOENT;
}

/* The last number of a status line, as in "NSpid:\t4242\t17". */
static int status_last_pid(const struct gt_proc *p, const char *file, const char *key, pid_t *out)
{
	char value[512];
	const char *last;
	char *end;
	long v;
	int r = status_field(p, file, key, value, sizeof(value));

	if (r)
		return r;
	last = strrchr(value, '\t');
	last = last ? last + 1 : value;
	v = strtol(last, &end, 10);
	if (end == last || *end || v <= 0 || v > INT32_MAX)
		return -EPROTO;
	*out = (pid_t)v;
	return 0;
}

static int read_start_ticks(const struct gt_proc *p, uint64_t *out)
{
	char buf[1024], *s, *end;
	ssize_t n = read_at(p, "stat", buf, sizeof(buf));
	unsigned long long v;

	if (n < 0)
		return (int)n;
	/* The name may hold blanks and parentheses, so count from the last one: field 2 ends there.
	 */
	s = strrchr(buf, ')');
	for (int field = 2; s && field < 22; field++)
		s = strchr(s + 1, ' ');
	if (!s)
		return -EPROTO;
	errno = 0;
	v = strtoull(s + 1, &end, 10);
	if (errno || end == s + 1)
		return -EPROTO;
	*out = v;
	return 0;
}

/* Any bytes but NUL, without the newline that the kernel adds. */
static int read_comm(const struct gt_proc *p, const char *file, char comm[GT_PROC_COMM])
{
	char buf[64]; /* a kernel thread's may be longer than 15 */
	ssize_t n = read_at(p, file, buf, sizeof(buf));

	if (n < 0)
		return (int)n;
	if (n && buf[n - 1] == '\n')
		buf[n - 1] = 0;
	memset(comm, 0, GT_PROC_COMM);
	memcpy(comm, buf, strnlen(buf, GT_PROC_COMM - 1));
	return 0;
}

static int open_identity(struct gt_proc *p)
{
	uint64_t again;
	struct stat st;
	int r = read_start_ticks(p, &p->start_ticks);

	if (r)
		return r;
	p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0); /* Linux 5.3; close-on-exec by itself */
	if (p->pidfd < 0)
		return -errno;
	/*
	 * Until here the pid may have been reused, and the pidfd be another's. But procfd answers
	 * for its process only: if it still does, that process had the pid all the time.
	 */
	r = read_start_ticks(p, &again);
	if (r)
		return r;
	if (again != p->start_ticks || gt_proc_ended(p))
		return -ESRCH;
	if (fstatat(p->procfd, "ns/pid", &st, 0))
		return -errno;
	p->pidns_dev = (uint64_t)major(st.st_dev) << 20 | minor(st.st_dev);
	p->pidns_ino = st.st_ino;
	p->mapsfd = open_at(p, "maps", 0);
	if (p->mapsfd < 0)
		return p->mapsfd;
	r = status_last_pid(p, "status", "NSpid", &p->ns_pid);
	return r ? r : read_comm(p, "comm", p->comm);
}

static void log_open_failure(pid_t pid, int err)
{
	switch (err) {
	case -ESRCH:
	case -ENOENT:
		gt_error("process %d does not exist or has ended", (int)pid);
		break;
	case -EACCES:
	case -EPERM:
		gt_error("process %d cannot be inspected: %s%s", (int)pid, strerror(-err),
			 geteuid() ? "; run as root" : "");
		break;
	case -ENOSYS:
		gt_error("process %d cannot be held by a pidfd: Linux 5.3 or newer is needed",
			 (int)pid);
		break;
	default:
		gt_error("process %d cannot be inspected through /proc: %s", (int)pid,
			 strerror(-err));
	}
}

int gt_proc_open(pid_t pid, struct gt_proc *out)
{
	struct gt_proc p = {.pid = pid, .pidfd = -1, .procfd = -1, .mapsfd = -1};
	char path[32];
	pid_t tgid;
	int r;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	p.procfd = pid > 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
	if (p.procfd < 0) {
		r = pid > 0 ? -errno : -ESRCH;
		goto fail;
	}
	r = status_last_pid(&p, "status", "Tgid", &tgid);
	if (r)
		goto fail;
	if (tgid != pid) {
		gt_error("%d is a thread of process %d; use -p %d", (int)pid, (int)tgid, (int)tgid);
		gt_proc_close(&p);
		return -ESRCH;
	}
	r = open_identity(&p);
	if (r)
		goto fail;
	*out = p;
	return 0;
fail:
	log_open_failure(pid, r);
	gt_proc_close(&p);
	return r == -ENOENT ? -ESRCH : r;
}

void gt_proc_close(struct gt_proc *p)
{
	if (p->pidfd >= 0)
		close(p->pidfd);
	if (p->procfd >= 0)
		close(p->procfd);
	if (p->mapsfd >= 0)
		close(p->mapsfd);
	p->pidfd = p->procfd = p->mapsfd = -1;
}

int gt_proc_ended(const struct gt_proc *p)
{
	struct pollfd fd = {.fd = p->pidfd, .events = POLLIN};
	int r;

	do
		r = poll(&fd, 1, 0);
	while (r < 0 && errno == EINTR);
	return r > 0;
}

int gt_proc_memory_gone(const struct gt_proc *p)
{
	char c;

	/* The descriptor holds the memory of the process, not the process; without it, no lines. */
	return pread(p->mapsfd, &c, 1, 0) == 0;
}

int gt_proc_executed(const struct gt_proc *p)
{
	char c;
	gt_autoclose int fd = gt_proc_memory_gone(p) ? open_at(p, "maps", 0) : -1;

	/* A process that exits gives up its memory first and has none from then on. */
	return fd >= 0 && read(fd, &c, 1) == 1;
}

/* A number that ends with the character `after`; *s then stands behind that. */
static int take_number(const char **s, int base, char after, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(*s, &end, base);
	if (errno || end == *s || *end != after)
		return -EPROTO;
	*s = end + 1;
	return 0;
}

/* "start-end perms offset major:minor inode    path": 1 if it is an executable map of a file. */
static int parse_map(const char *line, struct gt_map *m)
{
	const char *s = line;
	int executable;

	memset(m, 0, sizeof(*m));
	if (take_number(&s, 16, '-', &m->start) || take_number(&s, 16, ' ', &m->end))
		return -EPROTO;
	if (strnlen(s, 5) < 5 || s[4] != ' ')
		return -EPROTO;
	executable = s[2] == 'x';
	s += 5;
	if (take_number(&s, 16, ' ', &m->offset) || take_number(&s, 16, ':', &m->dev_major) ||
	    take_number(&s, 16, ' ', &m->dev_minor) || take_number(&s, 10, ' ', &m->ino))
		return -EPROTO;
	if (!m->ino || !executable || m->start >= m->end)
		return 0;
	m->code_end = m->end;
	m->last_offset = m->offset;
	snprintf(m->path, sizeof(m->path), "%s", s + strspn(s, " "));
	return 1;
}

/* A file's mappings lie together, so looking from the end finds them at once. */
static struct gt_map *known_file(struct gt_map *maps, size_t n, const struct gt_map *m)
{
	while (n--)
		if (maps[n].ino == m->ino && maps[n].dev_major == m->dev_major &&
		    maps[n].dev_minor == m->dev_minor)
			return &maps[n];
	return NULL;
}

/* Another segment of the file, unless the whole file is mapped anew. */
static void extend(struct gt_map *known, const struct gt_map *m)
{
	if (m->offset <= known->last_offset)
		return;
	known->last_offset = m->offset;
	known->code_end = m->end;
}

static int add_map(struct gt_map **maps, size_t *n, size_t *cap, const struct gt_map *m)
{
	if (*n == MAPS_MAX)
		return -E2BIG;
	if (*n == *cap) {
		size_t grown = *cap ? *cap * 2 : 32;
		struct gt_map *p = reallocarray(*maps, grown, sizeof(*p));

		if (!p)
			return -ENOMEM;
		*maps = p;
		*cap = grown;
	}
	(*maps)[(*n)++] = *m;
	return 0;
}

int gt_proc_exec_maps(const struct gt_proc *p, struct gt_map **out, size_t *n)
{
	gt_autofree struct gt_map *maps = NULL;
	autofclose FILE *f = NULL;
	size_t count = 0, cap = 0;
	char line[MAPS_LINE];
	struct gt_map m;
	int r = fopen_at(p, "maps", &f);

	if (r)
		return r;
	for (int lines = 0; (r = read_line(f, line, sizeof(line))) > 0; lines++) {
		struct gt_map *known;

		if (lines == MAPS_LINES)
			return -E2BIG;
		r = parse_map(line, &m);
		known = r > 0 ? known_file(maps, count, &m) : NULL;
		if (known)
			extend(known, &m);
		else if (r > 0)
			r = add_map(&maps, &count, &cap, &m);
		if (r < 0)
			return r;
	}
	if (r)
		return r;
	*out = gt_steal_ptr(maps);
	*n = count;
	return 0;
}

void gt_proc_map_file(const struct gt_proc *p, const struct gt_map *m, char *buf, size_t size)
{
	snprintf(buf, size, "/proc/self/fd/%d/map_files/%" PRIx64 "-%" PRIx64, p->procfd, m->start,
		 m->end);
}

int gt_proc_getenv(const struct gt_proc *p, const char *name, char *buf, size_t size)
{
	gt_autofree char *env = malloc(ENVIRON_BYTES);
	size_t nlen = strlen(name);
	const char *s, *end;
	ssize_t n;

	if (!env)
		return -ENOMEM;
	n = read_at(p, "environ", env, ENVIRON_BYTES);
	if (n < 0)
		return (int)n;
	/* Some programs overwrite this memory with their title: it may hold anything. */
	end = env + n;
	for (s = env; s < end; s += strlen(s) + 1) {
		if (strncmp(s, name, nlen) || s[nlen] != '=')
			continue;
		s += nlen + 1;
		if (strlen(s) >= size)
			return -ERANGE;
		memcpy(buf, s, strlen(s) + 1);
		return 0;
	}
	return -ENOENT;
}

int gt_proc_thread(const struct gt_proc *p, pid_t tid, char comm[GT_PROC_COMM], pid_t *ns_tid)
{
	char file[48], name[GT_PROC_COMM];
	pid_t in_ns;
	int r;

	snprintf(file, sizeof(file), "task/%d/comm", (int)tid);
	r = read_comm(p, file, name);
	if (r)
		return r;
	snprintf(file, sizeof(file), "task/%d/status", (int)tid);
	r = status_last_pid(p, file, "NSpid", &in_ns);
	if (r)
		return r;
	memcpy(comm, name, sizeof(name));
	*ns_tid = in_ns;
	return 0;
}

/* "x86_Thread_features:" stands in status since Linux 6.6, which brought user shadow stacks. */
static int thread_has_shadow_stack(const struct gt_proc *p, const char *tid)
{
	char file[300], value[256];
	int r;

	snprintf(file, sizeof(file), "task/%s/status", tid);
	r = status_field(p, file, "x86_Thread_features", value, sizeof(value));
	return r ? r : strstr(value, "shstk") != NULL;
}

int gt_proc_shadow_stack(const struct gt_proc *p)
{
	__attribute__((cleanup(cleanup_dir))) DIR *dir = NULL;
	gt_autoclose int fd = open_at(p, "task", O_DIRECTORY);
	struct dirent *e;

	if (fd < 0)
		return fd;
	dir = fdopendir(fd);
	if (!dir)
		return -errno;
	fd = -1;
	while ((e = readdir(dir))) {
		int r;

		if (e->d_name[0] == '.')
			continue;
		r = thread_has_shadow_stack(p, e->d_name);
		/* A thread may end while we look; without the line no thread has one. */
		if (r && r != -ENOENT && r != -ESRCH)
			return r;
	}
	return 0;
}
