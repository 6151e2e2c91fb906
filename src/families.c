// SPDX-License-Identifier: Apache-2.0
#include "families.h"

#include <sys/stat.h>

#define FAMILIES 256

struct file_id {
	dev_t dev;
	ino_t ino;
};

struct family {
	pid_t pid; /* 0: free */
	struct gt_pytarget py;
	struct file_id file[GT_PARTS_MAX]; /* of the parts */
};

struct gt_families {
	size_t next;
	struct family list[FAMILIES];
};

struct gt_families *gt_families_new(void)
{
	return calloc(1, sizeof(struct gt_families));
}

void gt_families_free(struct gt_families *f)
{
	free(f);
}

/* The file that is mapped there; -errno: none is. */
static int identify(const struct gt_proc *p, const struct gt_map *m, struct file_id *out)
{
	char path[64];
	struct stat st;

	gt_proc_map_file(p, m, path, sizeof(path));
	if (stat(path, &st))
		return -errno;
	*out = (struct file_id){.dev = st.st_dev, .ino = st.st_ino};
	return 0;
}

void gt_families_remember(struct gt_families *f, const struct gt_proc *p,
			  const struct gt_pytarget *py)
{
	struct gt_part parts[GT_PARTS_MAX];
	size_t n = gt_pytarget_parts(py, parts);
	struct family *family;

	if (!f)
		return;
	family = &f->list[f->next++ % FAMILIES];
	family->pid = p->pid;
	family->py = *py;
	for (size_t i = 0; i < n; i++)
		if (identify(p, parts[i].map, &family->file[i]))
			family->pid = 0;
}

static int has_all(const struct family *family, const struct gt_proc *p)
{
	struct gt_part parts[GT_PARTS_MAX];
	size_t n = gt_pytarget_parts(&family->py, parts);

	for (size_t i = 0; i < n; i++) {
		struct file_id id = {0};

		if (identify(p, parts[i].map, &id) || id.dev != family->file[i].dev ||
		    id.ino != family->file[i].ino)
			return 0;
	}
	return n > 0;
}

const struct gt_pytarget *gt_families_inherited(const struct gt_families *f,
						const struct gt_proc *p, pid_t parent)
{
	for (size_t i = 0; f && parent && i < FAMILIES; i++)
		if (f->list[i].pid == parent && has_all(&f->list[i], p))
			return &f->list[i].py;
	return NULL;
}
