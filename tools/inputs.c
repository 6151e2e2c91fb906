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

/* The other tool gave its files no suffix. */
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

/* A file of a folder, if it is a recording: a JSON may be anything, also a trace of ours. */
static int add_found(struct gt_inputs *in, const char *dir, const char *name, int *found)
{
	gt_autofree char *path = NULL;
	const char *slash = dir[strlen(dir) - 1] == '/' ? "" : "/";

	if (asprintf(&path, "%s%s%s", dir, slash, name) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	if (!ends_with(name, ".gil") && !gt_oldjson_is(path))
		return 0;
	*found = 1;
	return add_input(in, gt_steal_ptr(path));
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
