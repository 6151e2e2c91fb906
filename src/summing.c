// SPDX-License-Identifier: Apache-2.0
#include "summing.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "convert.h"
#include "jail.h"
#include "log.h"
#include "summary.h"

#define WALL_MS     10000
#define CPU_SECONDS 20
#define MEMORY_MAX  (1ull << 30)
#define EVENTS_MAX  50000000ull /* more would take longer than that */
#define EVENTS_LONG 1000000ull  /* more are felt */
#define TEXT_MAX    65536

#define EXIT_PRIVILEGED 2 /* the child's status where it could not give up its privileges */

struct kept {
	char *path;
	uint64_t events;
	int fd;
};

struct gt_summing {
	struct kept list[GT_SUMMING_FILES];
	size_t n;
	uint64_t left_out;
};

int gt_summing_new(struct gt_summing **out)
{
	struct gt_summing *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	*out = s;
	return 0;
}

static void forget(struct kept *k)
{
	close(k->fd);
	free(k->path);
}

void gt_summing_free(struct gt_summing *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		forget(&s->list[i]);
	free(s);
}

static void forget_removed(struct gt_summing *s)
{
	struct stat st;

	for (size_t i = 0; i < s->n;) {
		if (fstat(s->list[i].fd, &st) || st.st_nlink) {
			i++;
			continue;
		}
		forget(&s->list[i]);
		s->list[i] = s->list[--s->n];
		s->left_out++;
	}
}

/* The same file, whatever stands under its name by now; the child could empty one to be written. */
static int reopen(int fd)
{
	char link[32];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return open(link, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

void gt_summing_add(struct gt_summing *s, int fd, uint64_t events, const char *dir,
		    const char *file)
{
	struct kept k = {.events = events, .fd = reopen(fd)};
	struct kept *place = &s->list[0];

	forget_removed(s);
	if (k.fd < 0 || asprintf(&k.path, "%s/%s", dir, file) < 0) {
		if (k.fd >= 0)
			close(k.fd);
		s->left_out++;
		return;
	}
	if (s->n < GT_SUMMING_FILES) {
		s->list[s->n++] = k;
		return;
	}
	s->left_out++;
	for (size_t i = 1; i < s->n; i++)
		if (s->list[i].events < place->events)
			place = &s->list[i];
	if (place->events >= events) {
		forget(&k);
		return;
	}
	forget(place);
	*place = k;
}

/* ---- in the child ---- */

/* The descriptors are 4 and those behind it, and what it prints goes to 3. */
static int sum_up(const struct gt_summing *s)
{
	const struct gt_convert_opts opts = {.quiet = 1};
	struct gt_inputs in = {.list = calloc(s->n, sizeof(*in.list)), .n = s->n};
	FILE *out = fdopen(3, "w");
	struct gt_summary *summary;
	struct gt_sink *sink;
	size_t unusable = 0;
	int err;

	if (!in.list || !out || gt_summary_create(&summary) || gt_summary_sink(summary, &sink))
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++) {
		in.list[i].path = s->list[i].path;
		in.list[i].imported_fd = 4 + (int)i;
		in.list[i].known = 1;
	}
	for (size_t i = 0; i < s->n; i++) {
		err = gt_convert(&in, i, &opts, sink);
		if (err < 0)
			return err;
		unusable += err == GT_UNUSABLE;
	}
	err = sink->ops->finish(sink);
	if (!err)
		err = gt_summary_text(summary, out, 1);
	if (unusable)
		fprintf(out, "  (%zu of %zu recordings cannot be read any more)\n", unusable, s->n);
	return fclose(out) ? -EIO : err;
}

static void child(const struct gt_summing *s, int out, pid_t parent)
{
	static const struct gt_jail_limits limits = {.memory = MEMORY_MAX,
						     .cpu_seconds = CPU_SECONDS};
	int fds[GT_SUMMING_FILES + 1] = {out}, err;

	for (size_t i = 0; i < s->n; i++)
		fds[i + 1] = s->list[i].fd;
	err = gt_jail_enter(fds, s->n + 1, &limits, parent);
	if (err)
		_exit(err == -EPERM ? EXIT_PRIVILEGED : 1);
	_exit(sum_up(s) ? 1 : 0); /* frees nothing: it ends */
}

/* ---- in the parent ---- */

static int64_t mono_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Has one come that asks to end? Reads all that there are. */
static int is_stopped(int stop_fd)
{
	struct signalfd_siginfo info;
	int stopped = 0;

	while (stop_fd >= 0 && read(stop_fd, &info, sizeof(info)) == sizeof(info))
		stopped |= info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM ||
			   info.ssi_signo == SIGHUP || info.ssi_signo == SIGQUIT;
	return stopped;
}

/* Until the descriptor can be read. -EINTR: stopped; -ETIMEDOUT. */
static int wait_for(int fd, int stop_fd, int64_t end)
{
	struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = stop_fd, .events = POLLIN}};

	for (;;) {
		int64_t left = end - mono_ms();
		int n;

		if (left <= 0)
			return -ETIMEDOUT;
		n = poll(p, 2, (int)left);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n <= 0)
			continue;
		if (p[1].revents && is_stopped(stop_fd))
			return -EINTR;
		if (p[0].revents)
			return 0;
	}
}

/* All that the child writes. As wait_for(); -EFBIG; others. */
static int read_text(int fd, int stop_fd, int64_t end, char text[TEXT_MAX], size_t *len)
{
	*len = 0;
	while (*len < TEXT_MAX - 1) {
		int err = wait_for(fd, stop_fd, end);
		ssize_t n;

		if (err)
			return err;
		n = read(fd, text + *len, TEXT_MAX - 1 - *len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n) {
			text[*len] = '\0';
			return 0;
		}
		*len += (size_t)n;
	}
	return -EFBIG;
}

/* *status: of the child, as waitpid(2) gives it; -1: there was none. */
static int run_child(const struct gt_summing *s, int stop_fd, char text[TEXT_MAX], size_t *len,
		     int *status)
{
	gt_autoclose int rd = -1, wr = -1, pidfd = -1;
	int64_t end = mono_ms() + WALL_MS;
	pid_t parent = getpid(), pid;
	int pipefd[2], err;

	*status = -1;
	if (pipe2(pipefd, O_CLOEXEC))
		return -errno;
	rd = pipefd[0];
	wr = pipefd[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid)
		child(s, wr, parent);
	close(gt_steal_fd(&wr));
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	err = pidfd < 0 ? -errno : read_text(rd, stop_fd, end, text, len);
	if (!err) /* that it writes no more does not mean that it ends */
		err = wait_for(pidfd, stop_fd, end);
	if (err)
		kill(pid, SIGKILL); /* changes nothing where it has died */
	while (waitpid(pid, status, 0) < 0 && errno == EINTR)
		;
	return err;
}

/* The child has read what others wrote, so it is not believed to print nothing but text. */
static void print(char *text, size_t len, FILE *out)
{
	for (char *line = text, *end; line < text + len; line = end + 1) {
		end = memchr(line, '\n', len - (size_t)(line - text));
		if (!end)
			end = text + len;
		*end = '\0';
		gt_defuse(line);
		fprintf(out, "%s\n", line);
	}
}

#define ELSEWHERE "gil2trace --summary makes one of its file"

static void explain(int err, int status)
{
	if (err == -EINTR)
		gt_info("the summary is skipped; " ELSEWHERE);
	else if (err == -ETIMEDOUT)
		gt_warn("no summary: it would take more than %d s; " ELSEWHERE, WALL_MS / 1000);
	else if (err)
		gt_warn("no summary: %s; " ELSEWHERE, strerror(-err));
	else if (WIFSIGNALED(status))
		gt_warn("no summary: the process that makes it was ended by signal %d (%s); it may "
			"take %d s of CPU time and 1 GiB of memory; " ELSEWHERE,
			WTERMSIG(status), strsignal(WTERMSIG(status)), CPU_SECONDS);
	else if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_PRIVILEGED)
		gt_warn("no summary: the process that makes it could not give up its "
			"privileges; " ELSEWHERE);
	else
		gt_warn("no summary: the process that makes it has failed; " ELSEWHERE);
}

void gt_summing_print(struct gt_summing *s, int stop_fd, FILE *out)
{
	gt_autofree char *text = malloc(TEXT_MAX);
	uint64_t events = 0;
	size_t len = 0;
	int err, status;

	for (size_t i = 0; i < s->n; i++)
		events += s->list[i].events;
	if (!s->n && s->left_out)
		gt_info("no summary: the recordings are not there any more, or cannot be read");
	if (!s->n || !text)
		return;
	if (events > EVENTS_MAX) {
		gt_info("no summary: %" PRIu64 " events would take too long; " ELSEWHERE, events);
		return;
	}
	(void)is_stopped(stop_fd); /* what has ended the recording does not skip this */
	if (events > EVENTS_LONG)
		gt_status("summing up %" PRIu64 " events (Ctrl-C skips this)", events);
	err = run_child(s, stop_fd, text, &len, &status);
	gt_status("%s", "");
	if (err || !WIFEXITED(status) || WEXITSTATUS(status)) {
		explain(err, status);
		return;
	}
	print(text, len, out);
	if (s->left_out)
		fprintf(out,
			"  (%" PRIu64
			" recordings, with fewer events or removed, are left out of this)\n",
			s->left_out);
	fflush(out);
}
