// SPDX-License-Identifier: Apache-2.0
#include "inputs.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "log.h"
#include "oldjson.h"

void gt_inputs_free(struct gt_inputs *in)
{
	for (size_t i = 0; i < in->n; i++) {
		free(in->list[i].path);
		gt_origin_free(in->list[i].origin);
		if (in->list[i].imported_fd >= 0)
			close(in->list[i].imported_fd);
	}
	free(in->list);
}

const struct gt_input *gt_inputs_find(const struct gt_inputs *in, const struct stat *st)
{
	for (size_t i = 0; i < in->n; i++)
		if (in->list[i].known && in->list[i].dev == st->st_dev &&
		    in->list[i].ino == st->st_ino)
			return &in->list[i];
	return NULL;
}

/* Takes `path` over (NULL: out of memory). What cannot be found is refused when it is read. */
static int add_input(struct gt_inputs *in, char *path)
{
	gt_autofree char *own = path;
	struct gt_input *grown, *input;
	struct stat st;
	uint8_t known;

	if (!own)
		return -ENOMEM;
	known = !stat(own, &st);
	if (known && gt_inputs_find(in, &st)) {
		gt_warn("%s: is given more than once; it is converted once", own);
		return 0;
	}
	if (in->n == in->size) {
		in->size = in->size ? in->size * 2 : 16;
		grown = reallocarray(in->list, in->size, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		in->list = grown;
	}
	input = &in->list[in->n++];
	*input = (struct gt_input){.path = gt_steal_ptr(own), .imported_fd = -1, .known = known};
	if (known) {
		input->size = st.st_size > 0 ? (uint64_t)st.st_size : 0;
		input->dev = st.st_dev;
		input->ino = st.st_ino;
	}
	return 0;
}

static int ends_with(const char *name, const char *suffix)
{
	size_t n = strlen(name), len = strlen(suffix);

	return n > len && !strcmp(name + n - len, suffix);
}

/* The other tool gave its files no suffix; rpdcp(1) puts the host behind ours. */
static int may_be_recording(const struct dirent *d)
{
	return ends_with(d->d_name, ".gil") || ends_with(d->d_name, ".json") ||
	       !strncmp(d->d_name, "GIL_", 4);
}

int gt_inputs_is_recording(const char *path)
{
	char magic[sizeof(GIL_MAGIC) - 1];
	int fd, is;

	if (ends_with(path, ".gil"))
		return 1;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return 0;
	is = pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
	     !memcmp(magic, GIL_MAGIC, sizeof(magic));
	close(fd);
	return is || gt_oldjson_is(path);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* "GIL_<pid>_rank_<rank>": a number of it. What has none comes last. */
static uint64_t number_in(const char *path, const char *before)
{
	const char *slash = strrchr(path, '/');
	const char *at = strstr(slash ? slash + 1 : path, before);

	at = at ? at + strlen(before) : "";
	return *at >= '0' && *at <= '9' ? strtoull(at, NULL, 10) : UINT64_MAX;
}

static size_t folder_len(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash - path) : 0;
}

/*
 * By rank, so that those of many hosts come as the job counts them. Within a rank the children of
 * one process stay together, with their folder, and a parent, as a rule, comes first.
 */
static int by_rank(const void *left, const void *right)
{
	const char *a = ((const struct gt_input *)left)->path;
	const char *b = ((const struct gt_input *)right)->path;
	uint64_t rank_a = number_in(a, "_rank_"), rank_b = number_in(b, "_rank_");
	uint64_t pid_a = number_in(a, "GIL_"), pid_b = number_in(b, "GIL_");
	size_t len_a = folder_len(a), len_b = folder_len(b);
	int order = strncmp(a, b, len_a < len_b ? len_a : len_b);

	if (rank_a != rank_b)
		return rank_a < rank_b ? -1 : 1;
	if (order || len_a != len_b)
		return order ? order : len_a < len_b ? -1 : 1;
	if (pid_a != pid_b)
		return pid_a < pid_b ? -1 : 1;
	return strcmp(a, b);
}

/* Files that were named keep their places. */
static int sort_found(struct gt_inputs *in)
{
	gt_autofree struct gt_input *found = reallocarray(NULL, in->n + 1, sizeof(*found));
	size_t n = 0;

	if (!found)
		return -ENOMEM;
	for (size_t i = 0; i < in->n; i++)
		if (in->list[i].found)
			found[n++] = in->list[i];
	qsort(found, n, sizeof(*found), by_rank);
	n = 0;
	for (size_t i = 0; i < in->n; i++)
		if (in->list[i].found)
			in->list[i] = found[n++];
	return 0;
}

/* A file of a folder, if it is a recording: a JSON may be anything, also a trace of ours. */
static int add_found(struct gt_inputs *in, const char *dir, const char *name, int *found)
{
	gt_autofree char *path = NULL;
	const char *slash = dir[strlen(dir) - 1] == '/' ? "" : "/";
	size_t n;
	int err;

	if (asprintf(&path, "%s%s%s", dir, slash, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	if (!gt_inputs_is_recording(path))
		return 0;
	*found = 1;
	n = in->n;
	err = add_input(in, gt_steal_ptr(path));
	if (in->n > n)
		in->list[n].found = 1;
	return err;
}

static int add_folder(struct gt_inputs *in, const char *dir)
{
	struct dirent **names;
	int n = scandir(dir, &names, may_be_recording, by_name);
	int err = 0, found = 0;

	if (n < 0) {
		err = -errno;
		gt_error("%s: the folder cannot be read: %s", dir, strerror(-err));
		return err;
	}
	for (int i = 0; i < n; i++) {
		if (!err)
			err = add_found(in, dir, names[i]->d_name, &found);
		free(names[i]);
	}
	free(names);
	if (!err && !found) {
		gt_error("%s: there is no *.gil file in this folder, and no recording of another "
			 "tool",
			 dir);
		err = -ENOENT;
	}
	return err;
}

int gt_inputs_add_all(struct gt_inputs *in, const char *const *args, size_t n)
{
	int left_out = 0, err;

	for (size_t i = 0; i < n; i++) {
		struct stat st;

		if (!stat(args[i], &st) && S_ISDIR(st.st_mode))
			err = add_folder(in, args[i]);
		else
			err = add_input(in, strdup(args[i]));
		if (err == -ENOMEM) {
			gt_error("out of memory");
			return err;
		}
		left_out += err != 0;
	}
	if (sort_found(in)) {
		gt_error("out of memory");
		return -ENOMEM;
	}
	return left_out;
}

/* A new descriptor of what the old recording was made into. -errno with words in `why`. */
static int open_imported(struct gt_input *input, char *why, size_t why_size)
{
	int fd;

	if (input->imported_fd < 0) {
		fd = gt_oldjson_import(input->path, why, why_size);
		if (fd < 0)
			return fd;
		input->imported_fd = fd;
	}
	/* The reader reads by offset, so it does not matter that both share one position. */
	fd = fcntl(input->imported_fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0) {
		fd = -errno;
		snprintf(why, why_size, "%s: cannot be read: %s", input->path, strerror(-fd));
	}
	return fd;
}

int gt_inputs_open(struct gt_inputs *in, size_t me, gil_reader **out)
{
	struct gt_input *input = &in->list[me];
	char why[PATH_MAX + 512];
	int ret;

	if (input->imported_fd >= 0 || gt_oldjson_is(input->path)) {
		ret = open_imported(input, why, sizeof(why));
		if (ret >= 0)
			ret = gil_reader_open_fd(ret, input->path, out, why, sizeof(why));
	} else if (ends_with(input->path, ".json") && input->known) {
		ret = -EINVAL;
		snprintf(why, sizeof(why),
			 "%s: this is no recording, neither a .gil file nor an old one; if a trace "
			 "is to get this name, put -o before it",
			 input->path);
	} else {
		ret = gil_reader_open(input->path, out, why, sizeof(why));
	}
	if (ret && !input->refused)
		gt_error("%s", why);
	input->refused = ret != 0;
	return ret;
}

static void tell_of_twin(const struct gt_input *a, const struct gt_input *b, enum gt_kinship k)
{
	char rank[32] = "rank not known";

	if (gt_origin_rank(b->origin) >= 0)
		snprintf(rank, sizeof(rank), "rank %" PRId64, gt_origin_rank(b->origin));
	if (k == GT_SAME_PROCESS)
		gt_warn("%s: is of the same process (%s) as %s; both are shown, each as a process "
			"of its own",
			b->path, rank, a->path);
	else if (k == GT_SAME_PROCESS_LATER)
		gt_info("%s: is of the same process (%s) as %s, at another time; each is shown as "
			"a process of its own",
			b->path, rank, a->path);
	else if (k == GT_SAME_RANK_LATER)
		gt_warn("%s: is of %s, as %s is, but of another run; both are shown", b->path, rank,
			a->path);
	else
		gt_info("%s: is of %s, as %s is; both are shown", b->path, rank, a->path);
}

void gt_inputs_tell_of_twins(struct gt_inputs *in, size_t me, const gil_reader *r)
{
	struct gt_input *input = &in->list[me];

	if (input->origin)
		return;
	input->origin = gt_origin_of(r);
	for (size_t i = 0; i < me && input->origin; i++) {
		const struct gt_input *other = &in->list[i];
		enum gt_kinship k = other->origin ? gt_origin_compare(other->origin, input->origin)
						  : GT_STRANGERS;

		if (k == GT_STRANGERS)
			continue;
		tell_of_twin(other, input, k);
		in->twins += k == GT_SAME_PROCESS || k == GT_SAME_RANK_LATER;
		return;
	}
}

/* ---- hosts ---- */

#define HOSTS_NAMED 8

struct host {
	const struct gt_origin *first;
	struct gt_origin_time time; /* of all its recordings together */
};

static void note_host(struct host *hosts, size_t *n, const struct gt_origin *o)
{
	const struct gt_origin_time t = gt_origin_time(o);
	struct host *h = hosts;

	while (h < hosts + *n && !gt_origin_same_host(h->first, o))
		h++;
	if (h == hosts + *n) {
		*h = (struct host){.first = o, .time = t};
		(*n)++;
		return;
	}
	if (t.begin_ns < h->time.begin_ns)
		h->time.begin_ns = t.begin_ns;
	if (t.end_ns > h->time.end_ns)
		h->time.end_ns = t.end_ns;
	if (t.error_us < 0 || (h->time.error_us >= 0 && t.error_us > h->time.error_us))
		h->time.error_us = t.error_us;
}

/* Each clock is wrong by its error at most: two of them differ by both. -1: not known. */
static int64_t worst_distance_us(const struct host *hosts, size_t n)
{
	int64_t most = 0, second = 0;

	for (size_t i = 0; i < n; i++) {
		int64_t us = hosts[i].time.error_us;

		if (us < 0)
			return -1;
		if (us > most) {
			second = most;
			most = us;
		} else if (us > second) {
			second = us;
		}
	}
	return most + second;
}

/* The one that ended first and the one that began last. */
static void tell_of_strangers(const struct host *hosts, size_t n)
{
	const struct host *early = hosts, *late = hosts;

	for (size_t i = 1; i < n; i++) {
		if (hosts[i].time.end_ns < early->time.end_ns)
			early = &hosts[i];
		if (hosts[i].time.begin_ns > late->time.begin_ns)
			late = &hosts[i];
	}
	if (early->time.end_ns < late->time.begin_ns)
		gt_warn("the recordings of %.64s and %.64s have no instant in common: they were "
			"made one after the other, or the clocks of these hosts differ",
			gt_origin_host(early->first), gt_origin_host(late->first));
}

static void tell_of_clocks(const struct host *hosts, size_t n)
{
	int64_t us = worst_distance_us(hosts, n);
	char names[HOSTS_NAMED * 70 + 8] = "", distance[64] = "an amount that they do not know";

	for (size_t i = 0; i < n && i < HOSTS_NAMED; i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%.64s",
			 i ? ", " : "", gt_origin_host(hosts[i].first));
	if (us >= 0)
		snprintf(distance, sizeof(distance), "%" PRId64 ".%03" PRId64 " ms", us / 1000,
			 us % 1000);
	gt_info("recordings of %zu hosts (%s%s): each has the time of its own host's clock, and "
		"two of these differ by up to %s",
		n, names, n > HOSTS_NAMED ? ", ..." : "", distance);
	tell_of_strangers(hosts, n);
}

void gt_inputs_tell_of_hosts(const struct gt_inputs *in)
{
	gt_autofree struct host *hosts = reallocarray(NULL, in->n + 1, sizeof(*hosts));
	size_t n = 0;

	for (size_t i = 0; hosts && i < in->n; i++)
		if (in->list[i].origin && *gt_origin_host(in->list[i].origin))
			note_host(hosts, &n, in->list[i].origin);
	if (n > 1)
		tell_of_clocks(hosts, n);
}

void gt_inputs_forget(struct gt_inputs *in)
{
	for (size_t i = 0; i < in->n; i++) {
		gt_origin_free(in->list[i].origin);
		in->list[i].origin = NULL;
	}
}

unsigned int gt_inputs_choose_id(struct gt_inputs *in, size_t me, int64_t pid)
{
	struct gt_input *input = &in->list[me];
	const char *slash = strrchr(input->path, '/');
	char stem[80];
	unsigned int copy = 1;

	if (pid > 0)
		snprintf(stem, sizeof(stem), "%" PRId64, pid);
	else
		snprintf(stem, sizeof(stem), "%s", slash ? slash + 1 : input->path);
	for (char *c = stem; *c; c++)
		if (*c < 0x20 || *c > 0x7e || *c == '"' || *c == '\\')
			*c = '?';
	snprintf(input->id, sizeof(input->id), "%s", stem);
	for (size_t i = 0; i < me; i++) {
		if (strcmp(in->list[i].id, input->id))
			continue;
		snprintf(input->id, sizeof(input->id), "%s (%u)", stem, ++copy);
		i = (size_t)-1; /* the new id must be compared with all */
	}
	return copy;
}

int gt_inputs_any_is_there(const struct gt_inputs *in)
{
	for (size_t i = 0; i < in->n; i++)
		if (in->list[i].known)
			return 1;
	for (size_t i = 0; i < in->n; i++)
		gt_error("%s: cannot be opened: there is no such file, or it cannot be reached",
			 in->list[i].path);
	return 0;
}
