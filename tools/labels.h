/* SPDX-License-Identifier: Apache-2.0 */
/*
 * labels.h - the names by which a person recognises processes and threads, from what a recording
 * tells of them. Pure functions. What comes from the recording may be any bytes, and so are labels:
 * nothing but their length is promised (they are NUL-terminated; what is cut, is cut between two
 * characters of UTF-8).
 */
#ifndef GT_LABELS_H
#define GT_LABELS_H

#include "base.h"
#include "giltrace/gilfile.h"
#include "rows.h"

#define GT_LABEL_THREAD_MAX  128 /* with the NUL, as the others */
#define GT_LABEL_PROCESS_MAX 256
#define GT_LABEL_TAGS_MAX    256

struct gt_label_thread {
	const char *name;  /* threading.Thread.name; NULL or "": not known */
	const char *comm;  /* the kernel's, GIL_COMM_LEN bytes or up to a NUL; "": not known */
	uint32_t id;       /* shown behind the name .. */
	const char *where; /* .. and behind this word; NULL: none */
	/* The kernel's names of the process and its main thread, which others inherit; may be NULL.
	 */
	const char *process_comm, *main_comm;
};

/*
 * "NAME ID". The name is that in the interpreter, and the kernel's behind it where somebody has set
 * that to something else ("loader (acl_thread)"). It tells nothing where it is inherited, that of
 * an interpreter ("python3"), or the beginning of the name: CPython 3.14 and newer set it to that.
 */
void gt_label_thread(char buf[GT_LABEL_THREAD_MAX], const struct gt_label_thread *t);

/*
 * "GIL Trace: TEXT, child of PARENT (rank R), pid ID": its title, else its command line, else the
 * kernel's name, else `id`; the parent of one that came late; copy: above 1 where others have its
 * pid, and `id` tells which one it is.
 */
void gt_label_process(char buf[GT_LABEL_PROCESS_MAX], const gil_reader *r, const char *id,
		      unsigned int copy);

/* "CPU", its host, its NPUs, its container, and its pid elsewhere, as far as they are known. */
void gt_label_tags(char buf[GT_LABEL_TAGS_MAX], const gil_reader *r, enum gt_ids ids);

#endif
