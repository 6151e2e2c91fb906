// SPDX-License-Identifier: Apache-2.0
#include "proclist.h"

#include <dirent.h>
#include <fcntl.h>

#include "log.h"
#include "procfile.h"

static int compare(const void *a, const void *b)
{
	pid_t x = ((const struct gt_known *)a)->pid, y = ((const struct gt_known *)b)->pid;

	return x < y ? -1 : x > y;
}

struct gt_known *gt_proclist_find(const struct gt_proclist *l, pid_t pid)
{
	const struct gt_known key = {.pid = pid};

	return l->n ? bsearch(&key, l->list, l->n, sizeof(key), compare) : NULL;
}

static int read_process(int proc_fd, const char *name, struct gt_known *out)
{
	const struct gt_proc p = {
		.procfd = openat(proc_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)};
	struct gt_procstat stat;
	int err;

	if (p.procfd < 0)
		return -errno;
	err = gt_procfile_stat(&p, &stat);
	close(p.procfd);
	if (err)
		return err;
	*out = (struct gt_known){.pid = (pid_t)strtol(name, NULL, 10),
				 .parent = stat.parent,
				 .start_ticks = stat.start_ticks};
	return 0;
}

static void remember(const struct gt_proclist *before, struct gt_known *k, uint64_t now_ns)
{
	const struct gt_known *old = gt_proclist_find(before, k->pid);
	pid_t parent = k->parent;

	k->first_ns = now_ns;
	if (!old || old->start_ticks != k->start_ticks)
		return;
	*k = *old;
	k->parent = parent; /* another one, when its parent has ended */
}

void gt_proclist_refresh(struct gt_proclist *l, uint64_t now_ns)
{
	struct gt_proclist now = {.n = 0};
	DIR *dir = opendir("/proc");
	struct dirent *e;
	size_t room = 0;

	if (!dir) {
		gt_error("cannot read /proc: %s", strerror(errno));
		return;
	}
	while ((e = readdir(dir))) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		if (now.n == room) {
			size_t more = room ? 2 * room : 256;
			struct gt_known *grown = reallocarray(now.list, more, sizeof(*grown));

			if (!grown) {
				gt_error("out of memory: not all processes are looked at");
				break;
			}
			now.list = grown;
			room = more;
		}
		if (read_process(dirfd(dir), e->d_name, &now.list[now.n]))
			continue;
		remember(l, &now.list[now.n++], now_ns);
	}
	closedir(dir);
	if (now.n)
		qsort(now.list, now.n, sizeof(*now.list), compare);
	free(l->list);
	*l = now;
}
