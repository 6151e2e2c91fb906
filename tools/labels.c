// SPDX-License-Identifier: Apache-2.0
#include "labels.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "meta.h"

#define TEXT_MAX         80 /* of a command line: what a row's head can show */
#define CARDS_MAX        64
#define CONTAINER_MAX    32
#define HOST_MAX         64 /* as uname(2) */
#define CONTAINER_ID_LEN 12 /* as docker and podman print it */
#define COMM_CUT_MIN     12 /* 15 bytes, cut between two characters of at most 4 */

static size_t append(char *buf, size_t size, size_t n, const char *fmt, ...) GT_PRINTF(4, 5);
static size_t append(char *buf, size_t size, size_t n, const char *fmt, ...)
{
	va_list ap;
	int more;

	va_start(ap, fmt);
	more = vsnprintf(buf + n, size - n, fmt, ap);
	va_end(ap);
	if (more < 0)
		return n;
	return (size_t)more < size - n ? n + (size_t)more : size - 1;
}

/* Appends at most `max` bytes; dots stand for the rest. */
static size_t append_cut(char *buf, size_t size, size_t n, const char *text, size_t max)
{
	size_t len = strnlen(text, max + 1), cut;

	if (len <= max)
		return append(buf, size, n, "%s", text);
	cut = max - 3;
	while (cut > max - 6 && ((unsigned char)text[cut] & 0xc0) == 0x80)
		cut--;
	return append(buf, size, n, "%.*s...", (int)cut, text);
}

/* ---- threads ---- */

static int same_comm(const char *a, const char *b)
{
	return b && !strncmp(a, b, GIL_COMM_LEN - 1);
}

/* Does the kernel's name say something beside the interpreter's? */
static int comm_tells(const struct gt_label_thread *t)
{
	size_t len = strnlen(t->comm, GIL_COMM_LEN - 1);

	if (!len || same_comm(t->comm, t->process_comm) || same_comm(t->comm, t->main_comm) ||
	    (len >= 6 && !memcmp(t->comm, "python", 6)))
		return 0;
	if (strncmp(t->comm, t->name, len))
		return 1;
	return len < COMM_CUT_MIN && t->name[len];
}

void gt_label_thread(char buf[GT_LABEL_THREAD_MAX], const struct gt_label_thread *t)
{
	size_t n = 0;

	if (!t->name || !t->name[0])
		n = append(buf, GT_LABEL_THREAD_MAX, n, "%.*s", GIL_COMM_LEN - 1,
			   t->comm[0] ? t->comm : "thread");
	else
		n = append(buf, GT_LABEL_THREAD_MAX, n, "%.*s", GIL_NAME_MAX, t->name);
	if (t->name && t->name[0] && comm_tells(t))
		n = append(buf, GT_LABEL_THREAD_MAX, n, " (%.*s)", GIL_COMM_LEN - 1, t->comm);
	if (t->where)
		n = append(buf, GT_LABEL_THREAD_MAX, n, " %s", t->where);
	append(buf, GT_LABEL_THREAD_MAX, n, " %" PRIu32, t->id);
}

/* ---- processes ---- */

/* "/opt/conda/bin/python3 train.py" -> "python3 train.py" */
static const char *without_folder(const char *cmdline)
{
	const char *end = cmdline + strcspn(cmdline, " "), *start = cmdline;

	if (*cmdline != '/')
		return cmdline;
	for (const char *p = cmdline; p < end; p++)
		if (*p == '/' && p + 1 < end)
			start = p + 1;
	return start;
}

void gt_label_process(char buf[GT_LABEL_PROCESS_MAX], const gil_reader *r, const char *id,
		      unsigned int copy)
{
	static const char *const keys[] = {"process.title", "process.cmdline", "process.comm"};
	int64_t rank = gt_meta_number(r, "rank");
	uint32_t parent = gt_meta_pid(r, "process.parent_pid");
	const char *text = "";
	size_t n;

	for (size_t i = 0; i < GT_ARRAY_SIZE(keys) && !*text; i++)
		text = without_folder(gt_meta_text(r, keys[i]));
	n = append(buf, GT_LABEL_PROCESS_MAX, 0, "GIL Trace: ");
	n = append_cut(buf, GT_LABEL_PROCESS_MAX, n, *text ? text : id, TEXT_MAX);
	/* The id of its parent is that of the recorder's namespace. */
	if (parent && *gt_meta_text(r, "recording.late") &&
	    gt_meta_pid(r, "process.pid") == gt_meta_pid(r, "process.ns_pid"))
		n = append(buf, GT_LABEL_PROCESS_MAX, n, ", child of %" PRIu32, parent);
	if (rank >= 0)
		n = append(buf, GT_LABEL_PROCESS_MAX, n, " (rank %" PRId64 ")", rank);
	if (copy > 1)
		append(buf, GT_LABEL_PROCESS_MAX, n, ", pid %s", id);
}

/* Long ids in hex are known by their beginning. */
static size_t append_container(char *buf, size_t n, const char *container)
{
	size_t max = CONTAINER_MAX;

	if (strspn(container, "0123456789abcdef") >= 32) {
		n = append(buf, GT_LABEL_TAGS_MAX, n, ", container %.*s", CONTAINER_ID_LEN,
			   container);
		return n;
	}
	n = append(buf, GT_LABEL_TAGS_MAX, n, ", container ");
	return append_cut(buf, GT_LABEL_TAGS_MAX, n, container, max);
}

void gt_label_tags(char buf[GT_LABEL_TAGS_MAX], const gil_reader *r, enum gt_ids ids)
{
	uint32_t pid = gt_meta_pid(r, "process.pid"), inside = gt_meta_pid(r, "process.ns_pid");
	uint32_t host = gt_meta_pid(r, "process.host_pid");
	const char *cards = gt_meta_text(r, "npu.cards");
	const char *container = gt_meta_text(r, "process.container");
	const char *name = gt_meta_text(r, "host.name");
	size_t n = append(buf, GT_LABEL_TAGS_MAX, 0, "CPU");

	if (!host)
		host = pid;
	if (*name) {
		n = append(buf, GT_LABEL_TAGS_MAX, n, ", on ");
		n = append_cut(buf, GT_LABEL_TAGS_MAX, n, name, HOST_MAX);
	}
	if (*cards) {
		n = append(buf, GT_LABEL_TAGS_MAX, n, ", ");
		n = append_cut(buf, GT_LABEL_TAGS_MAX, n, cards, CARDS_MAX);
	}
	if (*container)
		n = append_container(buf, n, container);
	if (host && inside && host != inside)
		append(buf, GT_LABEL_TAGS_MAX, n, ", %s pid %" PRIu32,
		       ids == GT_IDS_HOST ? "namespace" : "host",
		       ids == GT_IDS_HOST ? inside : host);
}
