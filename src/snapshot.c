// SPDX-License-Identifier: Apache-2.0
#include "snapshot.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>

/* ---- GILs, as _Py_DebugOffsets at the start of _PyRuntime tells them (3.13 ..) ---- */

#define INTERPS_MAX  1024 /* longer lists are taken for damaged ones */
#define HOLDER_TRIES 4
#define PARSE_TRIES  3

struct walk {
	gt_memory_fn *read;
	void *ctx;
	const char *odd; /* what is not as it should be, with -EPROTO */
	struct gt_snapshot_gils *out;
	struct gt_pyoffsets at;
	uint64_t shift; /* free-threaded builds have one more word before the others of a GIL */
};

static int is_odd(struct walk *w, const char *what)
{
	w->odd = what;
	return -EPROTO;
}

static int read_word(struct walk *w, uint64_t addr, uint64_t *out)
{
	uint8_t buf[8];
	int r;

	if (!addr || addr & 7 || addr >= GT_PYMEM_ADDRESS_MAX)
		return is_odd(w, "a pointer in _PyRuntime leads nowhere");
	r = w->read(w->ctx, addr, buf, sizeof(buf));
	*out = r ? 0 : gt_get_le64(buf);
	return r;
}

struct gil_state {
	uint64_t last_holder, switch_number;
	int32_t enabled, locked; /* locked is -1 before the GIL's creation and after its end */
};

/* All of it in one read, so that holder and lock fit together as far as they can. */
static int read_gil(struct walk *w, uint64_t addr, struct gil_state *s)
{
	uint8_t buf[0x28];
	int r = w->read(w->ctx, addr, buf, 0x20 + w->shift);

	if (r)
		return r;
	memset(s, 0, sizeof(*s));
	s->enabled = w->shift ? (int32_t)gt_get_le32(buf) : 1;
	s->last_holder = gt_get_le64(buf + 0x08 + w->shift);
	s->locked = (int32_t)gt_get_le32(buf + 0x10 + w->shift);
	s->switch_number = gt_get_le64(buf + 0x18 + w->shift);
	if (s->locked < -1 || s->locked > 1 || s->enabled < 0)
		return is_odd(w, "a GIL is in no state that is known");
	return 0;
}

/*
 * The id in the holder's thread state; it counts if the GIL is still the same after it was read. A
 * GIL that changes hands faster than that has no holder: its events will tell soon enough.
 * (take_gil sets locked some instructions before last_holder; a holder preempted right there would
 * be taken for the one before.)
 */
static int read_holder(struct walk *w, uint64_t addr, struct gil_state *s, uint32_t *out)
{
	*out = 0;
	for (int i = 0; i < HOLDER_TRIES && s->locked == 1 && s->last_holder; i++) {
		const struct gil_state before = *s;
		uint64_t id;
		int r;

		if (s->last_holder >= GT_PYMEM_ADDRESS_MAX)
			return is_odd(w, "a GIL's last holder is no thread state");
		r = read_word(w, s->last_holder + w->at.native_id, &id);
		if (!r)
			r = read_gil(w, addr, s);
		if (r)
			return r;
		if (memcmp(&before, s, sizeof(before)))
			continue;
		if (id > GT_PYMEM_PID_MAX)
			return is_odd(w, "a GIL's last holder is no thread state");
		*out = (uint32_t)id;
		return 0;
	}
	return 0;
}

static int add_gil(struct walk *w, uint64_t addr)
{
	struct gt_snapshot_gils *out = w->out;
	uint64_t cond = addr + 0x20 + w->shift;
	struct gil_state s;
	uint32_t holder;
	int r;

	if (!addr) /* an interpreter that is just being made or taken down */
		return 0;
	if (addr & 7 || addr >= GT_PYMEM_ADDRESS_MAX)
		return is_odd(w, "a pointer in _PyRuntime leads nowhere");
	for (uint32_t i = 0; i < out->n; i++)
		if (out->gil[i].cond == cond)
			return 0;
	r = read_gil(w, addr, &s);
	if (!r)
		r = read_holder(w, addr, &s, &holder);
	if (r || s.locked < 0 || out->n == GT_SNAPSHOT_GILS)
		return r;
	out->gil[out->n++] = (struct gt_snapshot_gil){
		.cond = cond,
		.enabled = s.enabled > 0,
		.locked = s.locked == 1,
		.holder = s.locked == 1 ? holder : 0,
		.switches = s.switch_number,
	};
	return 0;
}

static int walk_interps(struct walk *w, uint64_t runtime)
{
	uint64_t word, interp;
	int r = read_word(w, runtime + w->at.finalizing, &word);

	if (!r) {
		w->out->finalizing = word != 0;
		r = read_word(w, runtime + w->at.interps, &interp);
	}
	for (int i = 0; !r && interp; i++) {
		uint64_t gil = 0;

		if (i == INTERPS_MAX)
			return is_odd(w, "its list of interpreters does not end");
		if (interp >= GT_PYMEM_ADDRESS_MAX)
			return is_odd(w, "a pointer in _PyRuntime leads nowhere");
		r = read_word(w, interp + w->at.ceval_gil, &gil);
		if (!r)
			r = add_gil(w, gil);
		if (!r)
			r = read_word(w, interp + w->at.next, &interp);
	}
	/* _PyRuntime itself could be read; what lies behind a pointer has gone, or never was. */
	return r == -EFAULT ? is_odd(w, "a pointer in _PyRuntime leads nowhere") : r;
}

int gt_snapshot_parse(gt_memory_fn *read, void *ctx, uint64_t runtime, struct gt_snapshot_gils *out,
		      const char **why)
{
	struct walk w = {.read = read, .ctx = ctx, .out = out};
	uint8_t head[GT_PYOFFSETS_SIZE];
	int r;

	memset(out, 0, sizeof(*out));
	*why = NULL;
	if (!runtime)
		r = is_odd(&w, "where its _PyRuntime lies is not known");
	else if (runtime & 7 || runtime >= GT_PYMEM_ADDRESS_MAX)
		r = is_odd(&w, "the address of its _PyRuntime is wrong");
	else
		r = read(ctx, runtime, head, sizeof(head));
	if (!r)
		r = gt_pyoffsets_parse(head, &w.at, &w.odd);
	if (!r) {
		w.shift = w.at.free_threaded ? 8 : 0;
		r = walk_interps(&w, runtime);
	}
	if (r) {
		memset(out, 0, sizeof(*out));
		*why = w.odd;
		return r == -EPROTO ? 0 : r;
	}
	out->told = 1;
	out->free_threaded = w.shift != 0;
	return 0;
}

static void cleanup_dir(DIR **d)
{
	if (*d)
		closedir(*d);
}

#define autoclosedir __attribute__((cleanup(cleanup_dir)))

static int open_tasks(const struct gt_proc *p, DIR **out)
{
	gt_autoclose int fd = openat(p->procfd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	*out = fdopendir(fd);
	if (!*out)
		return -errno;
	gt_steal_fd(&fd);
	return 0;
}

/* The id of the next thread, 0 behind the last. */
static uint32_t next_task(DIR *tasks)
{
	const struct dirent *e;

	while ((e = readdir(tasks)))
		if (e->d_name[0] != '.')
			return (uint32_t)strtoul(e->d_name, NULL, 10);
	return 0;
}

static uint32_t id_in_namespace(const struct gt_proc *p, uint32_t tid)
{
	char comm[GT_PROC_COMM];
	pid_t ns_tid;

	return gt_proc_thread(p, (pid_t)tid, comm, &ns_tid) ? 0 : (uint32_t)ns_tid;
}

/* From ids in the target's PID namespace to ours. A holder that is no thread of it is not known. */
static int map_holders(const struct gt_proc *p, struct gt_snapshot_gils *gils)
{
	autoclosedir DIR *tasks = NULL;
	uint32_t id[GT_SNAPSHOT_GILS], tid, left = 0;
	int r;

	for (uint32_t i = 0; i < gils->n; i++) {
		id[i] = gils->gil[i].holder;
		/* The same number, unless there is a namespace in between. */
		if (!id[i] || id_in_namespace(p, id[i]) == id[i])
			continue;
		gils->gil[i].holder = 0;
		left++;
	}
	r = left ? open_tasks(p, &tasks) : 0;
	while (tasks && left && (tid = next_task(tasks))) {
		uint32_t inner = id_in_namespace(p, tid);

		for (uint32_t i = 0; inner && i < gils->n; i++)
			if (id[i] == inner && !gils->gil[i].holder) {
				gils->gil[i].holder = tid;
				left--;
			}
	}
	return r;
}

int gt_snapshot_gils(const struct gt_proc *p, uint64_t runtime, struct gt_snapshot_gils *out,
		     const char **why)
{
	int r;

	/* An interpreter that comes or goes may be met half made: then another look helps. */
	for (int i = 0; i < PARSE_TRIES; i++) {
		r = gt_snapshot_parse(gt_pymem_read, (void *)p, runtime, out, why);
		if (r || out->told)
			break;
	}
	if (!r)
		r = map_holders(p, out);
	/* What was read may have been another's, which had got the pid or executed there. */
	if (gt_proc_ended(p) || gt_proc_memory_gone(p))
		r = -ESRCH;
	if (r) {
		memset(out, 0, sizeof(*out));
		*why = NULL;
	}
	return r;
}

/* ---- threads ---- */

#define STATUS_TAIL 1024 /* voluntary_ctxt_switches stands in the last 200 bytes (Linux 6.18) */

static int open_thread_file(int tasks, uint32_t tid, const char *name)
{
	char path[32];

	snprintf(path, sizeof(path), "%u/%s", tid, name);
	return openat(tasks, path, O_RDONLY | O_CLOEXEC);
}

/* A file of a thread from its start, with a NUL; 0 where it cannot be read. */
static size_t read_thread_file(int tasks, uint32_t tid, const char *name, char *buf, size_t size)
{
	gt_autoclose int fd = open_thread_file(tasks, tid, name);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

	buf[n > 0 ? n : 0] = 0;
	return n > 0 ? (size_t)n : 0;
}

/* "202 0x7f.. 0x.. ..", "running", or "-1 0x.. 0x.." */
static uint64_t read_futex(int tasks, uint32_t tid)
{
	char buf[256], *s;

	if (!read_thread_file(tasks, tid, "syscall", buf, sizeof(buf)))
		return 0;
	if (strtol(buf, &s, 10) != SYS_futex || s == buf)
		return 0;
	return strtoull(s, NULL, 16);
}

/* utime + stime of stat: in units of 10 ms, for kernels without schedstat. */
static uint64_t read_stat_ns(int tasks, uint32_t tid)
{
	char buf[1024], *s;
	long hz = sysconf(_SC_CLK_TCK);

	if (!read_thread_file(tasks, tid, "stat", buf, sizeof(buf)))
		return 0;
	/* The name may hold blanks and parentheses: field 2 ends at the last one. */
	s = strrchr(buf, ')');
	for (int field = 2; s && field < 14; field++)
		s = strchr(s + 1, ' ');
	if (!s || hz <= 0)
		return 0;
	return (strtoull(s, &s, 10) + strtoull(s, NULL, 10)) * (1000000000 / (uint64_t)hz);
}

static uint64_t read_run_ns(int tasks, uint32_t tid)
{
	uint64_t ns = 0;
	char buf[128];

	if (read_thread_file(tasks, tid, "schedstat", buf, sizeof(buf)))
		ns = strtoull(buf, NULL, 10);
	return ns ? ns : read_stat_ns(tasks, tid);
}

/* 0 where the thread has ended. The file may be long (a list of groups stands in it). */
static int read_sleeps(int tasks, uint32_t tid, uint64_t *out)
{
	static const char key[] = "\nvoluntary_ctxt_switches:";
	gt_autoclose int fd = open_thread_file(tasks, tid, "status");
	char buf[8192];
	const char *s;
	size_t len = 0;
	ssize_t n = -1;

	while (fd >= 0 && (n = read(fd, buf + len, sizeof(buf) - 1 - len)) > 0) {
		len += (size_t)n;
		if (len == sizeof(buf) - 1) {
			memmove(buf, buf + len - STATUS_TAIL, STATUS_TAIL);
			len = STATUS_TAIL;
		}
	}
	buf[len] = 0;
	s = n ? NULL : strstr(buf, key);
	*out = s ? strtoull(s + sizeof(key) - 1, NULL, 10) : 0;
	return !n;
}

static int by_tid(const void *a, const void *b)
{
	uint32_t x = ((const struct gt_snapshot_thread *)a)->tid;
	uint32_t y = ((const struct gt_snapshot_thread *)b)->tid;

	return (x > y) - (x < y);
}

static int compare_ids(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

int gt_snapshot_tids(const struct gt_proc *p, uint32_t **out, size_t *n)
{
	gt_autofree uint32_t *tids = NULL;
	autoclosedir DIR *tasks = NULL;
	size_t count = 0;
	uint32_t tid;
	int r = open_tasks(p, &tasks);

	while (tasks && count < GT_SNAPSHOT_THREADS_MAX && (tid = next_task(tasks))) {
		if (!(count & (count - 1))) { /* 0, 1, 2, 4, ...: full */
			uint32_t *grown = reallocarray(tids, count ? count * 2 : 1, sizeof(*tids));

			if (!grown)
				return -ENOMEM;
			tids = grown;
		}
		tids[count++] = tid;
	}
	if (r)
		return r;
	if (tids)
		qsort(tids, count, sizeof(*tids), compare_ids);
	*out = gt_steal_ptr(tids);
	*n = count;
	return 0;
}

int gt_snapshot_threads(const struct gt_proc *p, struct gt_snapshot_thread **out, size_t *n)
{
	gt_autofree struct gt_snapshot_thread *threads = NULL;
	autoclosedir DIR *tasks = NULL;
	size_t count = 0, cap = 0;
	uint32_t tid;
	int r = open_tasks(p, &tasks);

	while (tasks && count < GT_SNAPSHOT_THREADS_MAX && (tid = next_task(tasks))) {
		struct gt_snapshot_thread t = {.tid = tid};

		if (count == cap) {
			void *grown;

			cap = cap ? cap * 2 : 64;
			grown = reallocarray(threads, cap, sizeof(*threads));
			if (!grown)
				return -ENOMEM;
			threads = grown;
		}
		t.futex = read_futex(dirfd(tasks), tid);
		t.run_ns = read_run_ns(dirfd(tasks), tid);
		if (read_sleeps(dirfd(tasks), tid, &t.sleeps))
			threads[count++] = t;
	}
	if (r)
		return r;
	if (threads)
		qsort(threads, count, sizeof(*threads), by_tid);
	*out = gt_steal_ptr(threads);
	*n = count;
	return 0;
}

#define RAN_NS 1000000
#define SLEPT  10

struct gt_activity gt_snapshot_activity(const struct gt_snapshot_thread *before, size_t n_before,
					const struct gt_snapshot_thread *after, size_t n_after)
{
	struct gt_activity a = {0};
	size_t b = 0;

	for (size_t i = 0; i < n_after; i++) {
		uint64_t ran = after[i].run_ns, slept = after[i].sleeps;

		while (b < n_before && before[b].tid < after[i].tid)
			b++;
		/* An id with less than before is that of another thread. */
		if (b < n_before && before[b].tid == after[i].tid && before[b].run_ns <= ran &&
		    before[b].sleeps <= slept) {
			ran -= before[b].run_ns;
			slept -= before[b].sleeps;
		}
		a.ran += ran >= RAN_NS;
		a.slept += ran >= RAN_NS && slept >= SLEPT;
		a.run_ns += ran;
	}
	return a;
}
