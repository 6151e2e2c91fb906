/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpfload.h - chooses a back end and loads the BPF object for it, with those programs that are
 * wanted and that this kernel takes.
 * With tracer.c the only user of the skeleton. No state.
 */
#ifndef GT_BPFLOAD_H
#define GT_BPFLOAD_H

#include "kfeatures.h"

struct giltrace_bpf;

struct gt_bpfload_opts {
	struct gt_features *features;
	enum gt_backend backend;
	uint32_t max_targets;
	uint32_t ring_bytes; /* without GT_FEATURE_RING_SIZES, of every ring */
	uint32_t pidns_ino;  /* of our PID namespace; 0: the root's */
	uint8_t follow, all_execs;
};

/*
 * Programs that the kernel does not take, for want of BTF or of what it describes, are left out,
 * and BTF is a feature that is missing: their bpf_program__fd() is negative. -EPERM: privileges are
 * missing; -ENOTSUP: the kernel refuses; logged. To be freed by giltrace_bpf__destroy().
 */
int gt_bpfload(const struct gt_bpfload_opts *opts, const struct gt_attach_ops **ops,
	       struct giltrace_bpf **out);

/* The same, to see what would come of it. *backend: its name, or NULL. */
int gt_bpfload_try(const struct gt_bpfload_opts *opts, const char **backend);

#endif
