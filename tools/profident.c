// SPDX-License-Identifier: Apache-2.0
#include "profident.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "log.h"
#include "profnames.h"

/* ---- which files are what ---- */

int gt_prof_take_msprof(struct gt_profiler *p, int fd, const char *dir)
{
	struct gt_names names;
	int64_t latest = -1;
	int err = gt_prof_list(fd, &names), others = 0;

	if (err)
		return err;
	for (size_t i = 0; i < names.n; i++)
		if (gt_prof_type(fd, names.list[i]) == 'f' &&
		    gt_name_msprof(names.list[i]) > latest)
			latest = gt_name_msprof(names.list[i]);
	p->slices = calloc(names.n + 1, sizeof(*p->slices));
	for (size_t i = 0; p->slices && !err && i < names.n; i++) {
		char *path;

		if (gt_name_msprof(names.list[i]) < 0 || gt_prof_type(fd, names.list[i]) != 'f')
			continue;
		if (gt_name_msprof(names.list[i]) != latest) {
			others++;
			continue;
		}
		path = gt_prof_join(dir, names.list[i]);
		if (!path)
			err = -ENOMEM;
		else if (!p->trace)
			p->trace = path;
		else
			p->slices[p->nslices++].path = path;
	}
	if (!p->slices)
		err = -ENOMEM;
	if (others)
		gt_info("%s: has been exported several times; the latest trace counts, %s", dir,
			p->trace ? p->trace : "");
	gt_names_free(&names);
	return err;
}

int gt_prof_take_host(struct gt_profiler *p, int prof_fd, const char *prof)
{
	struct gt_names names;
	const char *best = NULL;
	int err;

	if (gt_prof_type(prof_fd, "host") == 'd') {
		p->host_dir = gt_prof_join(prof, "host");
		return p->host_dir ? 0 : -ENOMEM;
	}
	err = gt_prof_list(prof_fd, &names);
	if (err)
		return err == -ENOMEM ? err : 0;
	for (size_t i = 0; i < names.n && !best; i++)
		if (!strncmp(names.list[i], "device_", 7) &&
		    gt_prof_type(prof_fd, names.list[i]) == 'd')
			best = names.list[i];
	if (best)
		p->host_dir = gt_prof_join(prof, best);
	err = best && !p->host_dir ? -ENOMEM : 0;
	gt_names_free(&names);
	return err;
}

int gt_prof_take_database(struct gt_profiler *p, int fd, const char *dir)
{
	struct gt_names names;
	int err;

	if (p->database)
		return 0;
	err = gt_prof_list(fd, &names);
	if (err)
		return err == -ENOMEM ? err : 0;
	for (size_t i = 0; i < names.n && !p->database && !err; i++) {
		if (!gt_name_is_database(names.list[i]) || gt_prof_type(fd, names.list[i]) != 'f')
			continue;
		p->database = gt_prof_join(dir, names.list[i]);
		err = p->database ? 0 : -ENOMEM;
	}
	gt_names_free(&names);
	return err;
}

int gt_prof_take_prof(struct gt_profiler *p, int fd, const struct gt_names *names)
{
	gt_autoclose int prof_fd = -1;
	gt_autofree char *path = NULL;
	const char *last = NULL;
	int n = 0, err;

	for (size_t i = 0; i < names->n; i++)
		if (gt_name_is_prof(names->list[i]) && gt_prof_type(fd, names->list[i]) == 'd') {
			last = names->list[i];
			n++;
		}
	if (n > 1)
		gt_warn("%s: has %d folders PROF_...; the clock is taken from the last one, %s",
			p->dir, n, last);
	prof_fd = last ? gt_prof_dir(fd, last) : -1;
	if (prof_fd < 0)
		return prof_fd == -ENOMEM ? prof_fd : 0;
	path = gt_prof_join(p->dir, last);
	err = path ? gt_prof_take_host(p, prof_fd, path) : -ENOMEM;
	return err ? err : gt_prof_take_database(p, prof_fd, path);
}

int gt_prof_take_info(struct gt_profiler *p, int fd, const struct gt_names *names)
{
	const char *info = NULL;
	int n = 0;

	for (size_t i = 0; i < names->n; i++) {
		const char *name = names->list[i];
		int64_t rank = gt_name_rank(name);

		if ((strcmp(name, "profiler_info.json") &&
		     (rank < 0 || !gt_name_ends(name, ".json"))) ||
		    gt_prof_type(fd, name) != 'f')
			continue;
		if (!info)
			info = name;
		n++;
	}
	if (n > 1)
		gt_warn("%s: has %d files profiler_info...; %s counts", p->dir, n, info);
	if (info && !(p->info = gt_prof_join(p->dir, info)))
		return -ENOMEM;
	return 0;
}

/* ---- whose it is ---- */

/* Two numbers that stand in the files. */
struct inside {
	int64_t pid, rank; /* -1: not there */
};

static void on_scalar(void *ctx, const char *path, enum gt_json_token token, const char *text)
{
	struct inside *in = ctx;
	int64_t v = 0;

	if (token != GT_JSON_STRING && token != GT_JSON_NUMBER)
		return;
	if (!gt_whole_number(text, &v) && strcmp(text, "0"))
		return;
	if (!strcmp(path, "pid") && v > 0 && v <= UINT32_MAX)
		in->pid = v;
	else if (!strcmp(path, "rank_id") && v <= INT32_MAX)
		in->rank = v;
}

/* Reads one of the small files; what is damaged is said and has told nothing. */
static void read_inside(int dir_fd, const char *name, const char *path, struct inside *in)
{
	struct inside got = {-1, -1};
	char why[256];
	int fd = gt_prof_file(dir_fd, name);

	if (fd < 0)
		return;
	if (gt_prof_json(fd, on_scalar, &got, why, sizeof(why)))
		gt_warn("%s: %s; it is not used", path, why);
	else
		*in = got;
}

/* profiler_info... */
static struct inside inside_info(const struct gt_profiler *p)
{
	struct inside in = {-1, -1};

	if (p->info)
		read_inside(AT_FDCWD, p->info, p->info, &in);
	return in;
}

/* info.json, or info.json.<device>, of a PROF_... */
static int inside_host(const struct gt_profiler *p, struct inside *in)
{
	gt_autoclose int fd = -1;
	struct gt_names names = {0};
	int err;

	*in = (struct inside){-1, -1};
	if (!p->host_dir)
		return 0;
	fd = open(p->host_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	err = fd < 0 ? -errno : gt_prof_list(fd, &names);
	if (err)
		return err == -ENOMEM ? err : 0;
	for (size_t i = 0; i < names.n && in->pid < 0; i++)
		if (!strncmp(names.list[i], "info.json", 9) &&
		    !gt_name_ends(names.list[i], ".done"))
			read_inside(fd, names.list[i], names.list[i], in);
	gt_names_free(&names);
	return 0;
}

static int in_trace(const struct gt_proftrace *t, int64_t pid)
{
	for (size_t i = 0; i < t->npython; i++)
		if (t->python[i] == (uint64_t)pid)
			return 1;
	return 0;
}

static void find_pid(struct gt_profiler *p, const struct inside *host)
{
	const struct gt_proftrace *t = &p->facts;
	int64_t by_name = gt_name_pid(gt_name_last(gt_profiler_path(p)));

	/* Somebody may have chosen a worker's name that ends with a number. */
	if (by_name > 0 && t->npython && !in_trace(t, by_name)) {
		gt_info("%s: the pid in its name, %" PRId64
			", is none of its trace, and is not believed",
			gt_profiler_path(p), by_name);
		by_name = -1;
	}
	if (by_name > 0) {
		p->pid = by_name;
		p->pid_how = "its name";
	} else if (host->pid > 0) {
		p->pid = host->pid;
		p->pid_how = "info.json";
	} else if (t->npython == 1 && t->python[0] <= INT64_MAX) {
		p->pid = (int64_t)t->python[0];
		p->pid_how = "its trace";
	} else if (t->msprof_pid > 0) {
		p->pid = t->msprof_pid;
		p->pid_how = "its trace";
	}
}

static void find_rank(struct gt_profiler *p, const struct inside *info, const struct inside *host)
{
	const struct {
		int64_t rank;
		const char *how;
	} ways[] = {
		{p->info ? gt_name_rank(gt_name_last(p->info)) : -1, "profiler_info's name"},
		{info->rank, "profiler_info.json"},
		{p->database ? gt_name_rank(gt_name_last(p->database)) : -1, "its database's name"},
		{host->rank, "info.json"},
		{p->facts.rank, "its trace"},
	};

	for (size_t i = 0; i < GT_ARRAY_SIZE(ways); i++) {
		if (ways[i].rank < 0)
			continue;
		if (p->rank < 0) {
			p->rank = ways[i].rank;
			p->rank_how = ways[i].how;
		} else if (p->rank != ways[i].rank) {
			gt_warn("%s: its rank is %" PRId64 " by %s, but %" PRId64
				" by %s; the first counts",
				gt_profiler_path(p), p->rank, p->rank_how, ways[i].rank,
				ways[i].how);
			return;
		}
	}
}

int gt_ident(struct gt_profiler *p)
{
	const struct inside info = inside_info(p);
	struct inside host;
	int err = inside_host(p, &host);

	if (err)
		return err;
	find_pid(p, &host);
	find_rank(p, &info, &host);
	return 0;
}
