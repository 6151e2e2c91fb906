// SPDX-License-Identifier: Apache-2.0
#include "bpfload.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <sys/mman.h>

#include "giltrace.skel.h"
#include "log.h"
#include "rights.h"

GT_PRINTF(2, 0)
static int print_libbpf(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	gt_autofree char *text = NULL;
	char *rest, *line;

	(void)level; /* what matters is reported by who called libbpf, with its object */
	if (gt_log_max() < GT_LOG_TRACE)
		return 0;
	if (vasprintf(&text, fmt, ap) < 0) {
		text = NULL;
		return 0;
	}
	/* The verifier's log comes in one piece, and why it refuses stands in its last lines. */
	rest = text;
	while ((line = strsep(&rest, "\n")))
		if (*line)
			gt_log(GT_LOG_TRACE, "%s", line);
	return 0;
}

static void choose_programs(struct giltrace_bpf *skel, const struct gt_bpfload_opts *opts,
			    const struct gt_attach_ops *ops, int btf)
{
	bpf_program__set_autoload(skel->progs.gt_rename, btf);
	bpf_program__set_autoload(skel->progs.gt_born, btf && opts->follow);
	bpf_program__set_autoload(skel->progs.gt_executed,
				  btf && (opts->follow || opts->all_execs));
	bpf_program__set_autoload(skel->progs.gt_gone, btf && opts->follow);
	bpf_program__set_expected_attach_type(skel->progs.gt_hit, gt_attach_type(ops));
	skel->rodata->recorder_pidns = opts->pidns_ino;
	skel->rodata->all_execs = opts->all_execs;
	skel->rodata->cookie_in_program = (uint8_t)gt_attach_copies(ops);
}

/*
 * libbpf wants the kernel's BTF for an object with CO-RE relocations even where all programs that
 * have some are left out. The object's own will do then: nothing is looked up in it. Returns a
 * descriptor, which the path is that of.
 */
static int own_btf(char *path, size_t size)
{
	size_t len;
	const void *elf = giltrace_bpf__elf_bytes(&len);
	gt_autoclose int fd = memfd_create("gt_btf", MFD_CLOEXEC);

	if (fd < 0 || write(fd, elf, len) != (ssize_t)len)
		return errno ? -errno : -EIO;
	snprintf(path, size, "/proc/self/fd/%d", fd);
	return gt_steal_fd(&fd);
}

/* btf: with the programs that need the kernel's BTF. */
static int load(const struct gt_bpfload_opts *opts, const struct gt_attach_ops *ops, int btf,
		struct giltrace_bpf **out)
{
	LIBBPF_OPTS(bpf_object_open_opts, open);
	gt_autoclose int fd = -1, pattern = -1;
	struct giltrace_bpf *skel;
	char path[32];
	int err;

	if (!btf) {
		fd = own_btf(path, sizeof(path));
		if (fd < 0)
			return fd;
		open.btf_custom_path = path;
	}
	pattern = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "gt_pattern", 0, 0, opts->ring_bytes, NULL);
	if (pattern < 0)
		return pattern;
	skel = giltrace_bpf__open_opts(&open);
	if (!skel) {
		err = -errno;
		gt_error("cannot open the BPF object: %s", strerror(-err));
		return err;
	}
	bpf_map__set_max_entries(skel->maps.targets, opts->max_targets);
	bpf_map__set_max_entries(skel->maps.rings, opts->max_targets);
	bpf_map__set_max_entries(skel->maps.slots, opts->max_targets);
	err = bpf_map__set_inner_map_fd(skel->maps.rings, pattern);
	choose_programs(skel, opts, ops, btf);
	if (!err)
		err = giltrace_bpf__load(skel);
	if (err)
		giltrace_bpf__destroy(skel);
	else
		*out = skel;
	return err;
}

int gt_bpfload(const struct gt_bpfload_opts *opts, const struct gt_attach_ops **ops,
	       struct giltrace_bpf **out)
{
	int btf, err = gt_features_prepare(opts->features);

	libbpf_set_print(print_libbpf);
	if (err)
		return err;
	*ops = gt_features_backend(opts->features, opts->backend, &err);
	if (!*ops)
		return err;
	btf = gt_features_have(opts->features, GT_FEATURE_BTF);
	err = load(opts, *ops, btf, out);
	if (err && err != -EPERM && !gt_is_shortage(err) && btf) {
		int why = err;

		gt_debug("the kernel does not load all programs (%s); trying without those that "
			 "need its BTF",
			 strerror(-err));
		err = load(opts, *ops, 0, out);
		if (!err)
			gt_features_lack(opts->features, GT_FEATURE_BTF, why,
					 "the programs that need it are not loaded");
	}
	if (err) {
		int its_own = err != -EPERM && !gt_is_shortage(err);
		char text[GT_RIGHTS_TEXT];

		gt_rights_why(GT_STEP_BPF, err, 0, text);
		gt_error("the kernel does not load the BPF program: %s%s%s", strerror(-err), text,
			 its_own ? "; -vv shows the verifier's words" : "");
		return its_own ? -ENOTSUP : err;
	}
	return 0;
}

int gt_bpfload_try(const struct gt_bpfload_opts *opts, const char **backend)
{
	const struct gt_attach_ops *ops;
	struct giltrace_bpf *skel = NULL;
	int err = gt_bpfload(opts, &ops, &skel);

	*backend = err ? NULL : gt_attach_name(ops);
	giltrace_bpf__destroy(skel);
	return err;
}
