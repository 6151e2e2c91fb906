/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpfload.h - loads the BPF object, with those programs that are wanted and that this kernel takes.
 * With tracer.c the only user of the skeleton. No state.
 */
#ifndef GT_BPFLOAD_H
#define GT_BPFLOAD_H

#include "attach.h"

struct giltrace_bpf;

struct gt_bpfload_opts {
	const struct gt_attach_ops *attach;
	uint32_t max_targets;
	uint32_t pidns_ino; /* of our PID namespace; 0: the root's */
	uint8_t follow, all_execs;
};

/*
 * Programs that the kernel does not take, for want of BTF or of what it describes, are left out:
 * their bpf_program__fd() is negative. -EPERM: privileges are missing; -ENOTSUP: the kernel
 * refuses; logged. To be freed by giltrace_bpf__destroy().
 */
int gt_bpfload(const struct gt_bpfload_opts *opts, struct giltrace_bpf **out);

#endif
