// SPDX-License-Identifier: Apache-2.0
/*
 * Any files as those of a process in /proc (filesfix.h): what is made of them keeps the promises of
 * proc.h, about.h, rank.h and npu.h. "char" is a folder like /sys/dev/char.
 */
#include "about.h"
#include "filesfix.h"
#include "npu.h"
#include "procfile.h"
#include "rank.h"
#include "timens.h"

/* No control characters, and no byte that is no part of UTF-8: gt_about_clean() finds nothing. */
static void check_clean(const char *text, size_t size)
{
	gt_autofree char *copy = strdup(text);

	MUST(copy && strlen(text) < size);
	gt_about_clean(copy);
	MUST(!strcmp(copy, text));
	for (; *text; text++)
		MUST((unsigned char)*text >= ' ' && *text != 0x7f);
}

static void check_maps(const struct gt_proc *p)
{
	struct gt_map *maps;
	char path[128];
	size_t n;
	int err = gt_proc_exec_maps(p, &maps, &n);

	if (err) {
		MUST(err == -ENOENT || err == -EPROTO || err == -E2BIG || err == -ELOOP ||
		     err == -EISDIR);
		return;
	}
	MUST(!n == !maps && n <= 4096);
	for (size_t i = 0; i < n; i++) {
		MUST(maps[i].start < maps[i].end && maps[i].ino);
		MUST(maps[i].last_offset >= maps[i].offset);
		MUST(strlen(maps[i].path) < sizeof(maps[i].path));
		for (size_t k = 0; k < i; k++)
			MUST(maps[i].ino != maps[k].ino || maps[i].dev_major != maps[k].dev_major ||
			     maps[i].dev_minor != maps[k].dev_minor);
		gt_proc_map_file(p, &maps[i], path, sizeof(path));
		(void)gt_proc_has_map(p, &maps[i]);
	}
	free(maps);
}

static void check_threads(const struct gt_proc *p)
{
	char comm[GT_PROC_COMM], value[64];
	struct gt_procstat st;
	pid_t tid;

	if (!gt_procfile_stat(p, &st))
		MUST(st.parent >= 0);
	if (!gt_procfile_status(p, "status", "State", value, sizeof(value)))
		MUST(!strchr(value, '\n'));
	if (!gt_proc_thread(p, 7, comm, &tid))
		MUST(tid > 0 && memchr(comm, 0, sizeof(comm)));
	MUST(gt_proc_shadow_stack(p) <= 1);
	(void)gt_about_is_excluded(p);
}

static void check_about(const struct gt_proc *p)
{
	struct gt_about a;

	if (gt_about(p, &a))
		return;
	check_clean(a.cmdline, sizeof(a.cmdline));
	check_clean(a.container, sizeof(a.container));
	(void)gt_about_born(p);
	MUST(a.timens_mono_ns <= GT_TIMENS_NS_MAX && a.timens_mono_ns >= -GT_TIMENS_NS_MAX);
	MUST(a.timens_boot_ns <= GT_TIMENS_NS_MAX && a.timens_boot_ns >= -GT_TIMENS_NS_MAX);
}

/* Of a variable that is there twice the first counts; one that is too long is not cut. */
static void check_environment(const struct gt_proc *p)
{
	char small[8] = "", large[4096] = "";
	struct gt_proc_var vars[] = {{.name = "RANK", .buf = small, .size = sizeof(small)},
				     {.name = "RANK", .buf = large, .size = sizeof(large)}};

	if (gt_proc_getenvs(p, vars, GT_ARRAY_SIZE(vars)))
		return;
	MUST(vars[0].err || (!vars[1].err && !strcmp(small, large)));
	MUST(vars[0].err != -ERANGE || vars[1].err || strlen(large) >= sizeof(small));
	MUST((vars[0].err == -ENOENT) == (vars[1].err == -ENOENT));
}

static void check_npus(const struct gt_proc *p, struct gt_npus *out)
{
	char list[sizeof(files_root) + 8], text[256];
	struct gt_npu_host *h;

	snprintf(list, sizeof(list), "%s/char", files_root);
	if (gt_npu_host_open_in(NULL, list, &h))
		return;
	MUST(*gt_npu_host_text(h));
	if (gt_npu_of(h, p, out) > 0) {
		MUST(out->bound && out->n <= GT_NPUS_MAX && *out->source);
		MUST(memchr(out->source, 0, sizeof(out->source)));
		gt_npus_text(out, text, sizeof(text));
		gt_npus_text(out, text, 5);
		MUST(strlen(text) < 5);
	}
	gt_npu_host_close(h);
}

static void check_all(const struct gt_proc *p)
{
	struct gt_npus npus = {0};
	char title[GT_CMDLINE_MAX];
	struct gt_rank rank;
	int titled;

	check_maps(p);
	check_threads(p);
	check_about(p);
	check_environment(p);
	check_npus(p, &npus);
	titled = !gt_about_cmdline(p, title, sizeof(title));
	rank = gt_rank_of(p, titled ? title : NULL, &npus);
	MUST(rank.rank <= INT32_MAX && rank.source && rank.local >= -1);
	MUST((rank.local < 0) == !rank.local_source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gt_proc p = {.pid = 7, .pidfd = -1, .mapsfd = -1};
	struct files_part parts[FILES_MAX];
	size_t n = files_split(data, size, parts);

	files_begin();
	for (size_t i = 0; i < n; i++)
		files_put(data, &parts[i]);
	p.procfd = open(files_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(p.procfd >= 0);
	check_all(&p);
	close(p.procfd);
	files_clear();
	return 0;
}
