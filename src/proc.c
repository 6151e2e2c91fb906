// SPDX-License-Identifier: Apache-2.0
#include "proc.h"
#include "log.h"
#include "procfile.h"
#include "rights.h"

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

ssize_t gt_procfile_read(const struct gt_proc *p, const char *name, char *buf, size_t size)
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

int gt_procfile_status(const struct gt_proc *p, const char *file, const char *key, char *buf,
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
	int r = gt_procfile_status(p, file, key, value, sizeof(value));

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

/* A field of stat, which is a number up to `max`. */
static int stat_number(const char *field, uint64_t max, uint64_t *out)
{
	unsigned long long v;
	char *end;

	errno = 0;
	v = strtoull(field, &end, 10);
	if (errno || end == field || (*end && *end != ' ' && *end != '\n') || v > max)
		return -EPROTO;
	*out = v;
	return 0;
}

int gt_procfile_stat(const struct gt_proc *p, struct gt_procstat *out)
{
	uint64_t parent, flags, threads, start;
	const char *field[23] = {NULL}; /* numbered as in proc(5) */
	char buf[1024];
	ssize_t n = gt_procfile_read(p, "stat", buf, sizeof(buf));

	if (n < 0)
		return (int)n;
	/* Field 2, the name, may hold blanks, parentheses and newlines: it ends at the last ')'. */
	field[2] = strrchr(buf, ')');
	for (size_t i = 3; i < GT_ARRAY_SIZE(field) && field[i - 1]; i++) {
		const char *blank = strchr(field[i - 1], ' ');

		field[i] = blank ? blank + 1 : NULL;
	}
	if (!field[22] || stat_number(field[4], INT32_MAX, &parent) ||
	    stat_number(field[9], UINT32_MAX, &flags) ||
	    stat_number(field[20], UINT32_MAX, &threads) ||
	    stat_number(field[22], UINT64_MAX, &start))
		return -EPROTO;
	*out = (struct gt_procstat){
		.state = *field[3],
		.parent = (pid_t)parent,
		.flags = (uint32_t)flags,
		.threads = (uint32_t)threads,
		.start_ticks = start,
	};
	return 0;
}

static int read_start_ticks(const struct gt_proc *p, uint64_t *out)
{
	struct gt_procstat st;
	int r = gt_procfile_stat(p, &st);

	if (!r)
		*out = st.start_ticks;
	return r;
}

/* Any bytes but NUL, without the newline that the kernel adds. */
static int read_comm(const struct gt_proc *p, const char *file, char comm[GT_PROC_COMM])
{
	char buf[64]; /* a kernel thread's may be longer than 15 */
	ssize_t n = gt_procfile_read(p, file, buf, sizeof(buf));

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

/* Returns err, or -EACCES where the process is there, but /proc does not show it. */
static int log_open_failure(pid_t pid, int err)
{
	char why[GT_RIGHTS_TEXT];

	gt_rights_why(GT_STEP_PROCESS, err, pid, why);
	if (err == -ESRCH && !*why) {
		gt_error("process %d does not exist or has ended", (int)pid);
	} else if (err == -ESRCH) {
		gt_error("process %d cannot be seen%s", (int)pid, why);
		return -EACCES;
	} else if (err == -ENOSYS) {
		gt_error("process %d cannot be held by a pidfd: Linux 5.3 or newer is needed",
			 (int)pid);
	} else {
		gt_error("process %d cannot be inspected: %s%s", (int)pid, strerror(-err), why);
	}
	return err;
}

/* *tgid: the process, where pid is only a thread's id and -ESRCH is returned for it; else 0. */
static int open_process(pid_t pid, struct gt_proc *out, pid_t *tgid)
{
	struct gt_proc p = {.pid = pid, .pidfd = -1, .procfd = -1, .mapsfd = -1};
	char path[32];
	pid_t process;
	int r;

	*tgid = 0;
	if (pid <= 0)
		return -ESRCH;
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	p.procfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (p.procfd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	r = status_last_pid(&p, "status", "Tgid", &process);
	if (!r && process != pid) {
		*tgid = process;
		r = -ESRCH;
	}
	if (!r)
		r = open_identity(&p);
	if (r) {
		gt_proc_close(&p);
		return r == -ENOENT ? -ESRCH : r;
	}
	*out = p;
	return 0;
}

int gt_proc_open(pid_t pid, struct gt_proc *out)
{
	pid_t tgid;
	int r = open_process(pid, out, &tgid);

	if (tgid)
		gt_error("%d is a thread of process %d; use -p %d", (int)pid, (int)tgid, (int)tgid);
	else if (r)
		r = log_open_failure(pid, r);
	return r;
}

int gt_proc_try_open(pid_t pid, struct gt_proc *out)
{
	pid_t tgid;

	return open_process(pid, out, &tgid);
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
	ssize_t n = pread(p->mapsfd, &c, 1, 0);

	return n == 0 || (n < 0 && errno == ESRCH); /* the latter: there is no such process */
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

/* "NAME=value" for one of the variables that are not known yet: the first of a name counts. */
static void take_variable(struct gt_proc_var *vars, size_t n, const char *s)
{
	for (size_t i = 0; i < n; i++) {
		size_t nlen = strlen(vars[i].name);
		const char *value;

		if (vars[i].err != -ENOENT || strncmp(s, vars[i].name, nlen) || s[nlen] != '=')
			continue;
		value = s + nlen + 1;
		vars[i].err = strlen(value) < vars[i].size ? 0 : -ERANGE;
		if (!vars[i].err)
			memcpy(vars[i].buf, value, strlen(value) + 1);
	}
}

int gt_proc_getenvs(const struct gt_proc *p, struct gt_proc_var *vars, size_t n)
{
	gt_autofree char *env = malloc(ENVIRON_BYTES);
	ssize_t len;

	if (!env)
		return -ENOMEM;
	len = gt_procfile_read(p, "environ", env, ENVIRON_BYTES);
	if (len < 0)
		return (int)len;
	for (size_t i = 0; i < n; i++)
		vars[i].err = -ENOENT;
	/* Some programs overwrite this memory with their title: it may hold anything. */
	for (const char *s = env; s < env + len; s += strlen(s) + 1)
		take_variable(vars, n, s);
	return 0;
}

int gt_proc_has_map(const struct gt_proc *p, const struct gt_map *m)
{
	char name[64];
	struct stat st;

	snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, m->start, m->end);
	return !fstatat(p->procfd, name, &st, AT_SYMLINK_NOFOLLOW);
}

int gt_proc_getenv(const struct gt_proc *p, const char *name, char *buf, size_t size)
{
	struct gt_proc_var var = {.name = name, .buf = buf, .size = size};
	int r = gt_proc_getenvs(p, &var, 1);

	return r ? r : var.err;
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
	r = gt_procfile_status(p, file, "x86_Thread_features", value, sizeof(value));
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
