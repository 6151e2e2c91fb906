// SPDX-License-Identifier: Apache-2.0
#include "inputs.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>

#include "log.h"

void gt_inputs_free(struct gt_inputs *in)
{
	for (size_t i = 0; i < in->n; i++)
		free(in->list[i].path);
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
	int known;

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
	*input = (struct gt_input){.path = gt_steal_ptr(own), .known = known};
	if (known) {
		input->dev = st.st_dev;
		input->ino = st.st_ino;
	}
	return 0;
}

static int is_gil_name(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return n > 4 && !strcmp(d->d_name + n - 4, ".gil");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int add_folder(struct gt_inputs *in, const char *dir)
{
	size_t len = strlen(dir);
	struct dirent **names;
	int n = scandir(dir, &names, is_gil_name, by_name);
	int err = 0;

	if (n < 0) {
		err = -errno;
		gt_error("%s: the folder cannot be read: %s", dir, strerror(-err));
		return err;
	}
	if (!n) {
		gt_error("%s: there is no *.gil file in this folder", dir);
		err = -ENOENT;
	}
	for (int i = 0; i < n; i++) {
		char *path = NULL;

		if (!err && asprintf(&path, "%s%s%s", dir, dir[len - 1] == '/' ? "" : "/",
				     names[i]->d_name) < 0)
			path = NULL;
		if (!err)
			err = add_input(in, path);
		free(names[i]);
	}
	free(names);
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
