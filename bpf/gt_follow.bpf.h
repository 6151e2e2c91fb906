/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Part of giltrace.bpf.c: the programs that read the kernel's structs, and so need its BTF. Names
 * that are given later, births and executions of processes that are followed. Each can be left out.
 */
#ifndef GT_FOLLOW_BPF_H
#define GT_FOLLOW_BPF_H

/* A thread is renamed, by itself or by another of its process. */
SEC("raw_tp/task_rename")
int gt_rename(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	__u32 tid = BPF_CORE_READ(task, pid), tgid = BPF_CORE_READ(task, tgid);
	__u32 *slot = bpf_map_lookup_elem(&slots, &tgid);
	struct gt_target *t = slot ? bpf_map_lookup_elem(&targets, slot) : 0;
	struct gt_rec_thread *rec;
	struct gt_seen *seen;
	void *ring;

	if (!t || !t->on || t->tgid != tgid)
		return 0;
	/* The name of the next program comes before gt_exec shuts the gate. */
	if (bpf_core_field_exists(task->in_execve) &&
	    BPF_CORE_READ_BITFIELD_PROBED(task, in_execve))
		return 0;
	seen = seen_of(t, tid);
	ring = bpf_map_lookup_elem(&rings, slot);
	if (seen->named != tid || !ring)
		return 0;
	rec = bpf_ringbuf_reserve(ring, sizeof(*rec), 0);
	if (!rec) /* no event; the name is asked for again at the thread's end */
		return 0;
	fill(&rec->rec, bpf_ktime_get_ns(), seen->shown, GT_THREAD, 0);
	rec->ns_tid = 0; /* as before */
	rec->host_tid = tid;
	bpf_probe_read_kernel_str(rec->comm, sizeof(rec->comm), (void *)ctx->args[1]);
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Inode number of the recorder's PID namespace; 0: the root's. */
const volatile __u32 recorder_pidns = 0;
/* Executions of all processes are told, not only of those that are followed. */
const volatile __u8 all_execs = 0;

/* Processes that are followed, by their id in the recorder's PID namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u8);
} family SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
} news SEC(".maps");

__u64 news_lost; /* there was no room for */

/* In the kernel. clang 11 cannot ask for it; Linux 4.15 and newer have just these members. */
#if __clang_major__ >= 12
#define UPID_SIZE bpf_core_type_size(struct upid)
#else
#define UPID_SIZE sizeof(struct upid)
#endif

/* Id of a process in the recorder's PID namespace, by its first thread; 0: it is not in there. */
static __always_inline __u32 pid_here(struct task_struct *leader)
{
	struct pid *pid;
	__u32 level, i;

	if (!recorder_pidns)
		return BPF_CORE_READ(leader, tgid);
	pid = BPF_CORE_READ(leader, thread_pid);
	level = BPF_CORE_READ(pid, level);
	for (i = 0; i <= 32; i++) { /* MAX_PID_NS_LEVEL */
		/* clang 14 does not relocate the stride of the array. */
		struct upid *upid = (void *)((char *)pid +
					     __builtin_preserve_field_info(pid->numbers,
									   BPF_FIELD_BYTE_OFFSET) +
					     i * UPID_SIZE);

		if (i > level)
			break;
		if (BPF_CORE_READ(upid, ns, ns.inum) == recorder_pidns)
			return BPF_CORE_READ(upid, nr);
	}
	return 0;
}

static __always_inline void tell_news(__u32 kind, __u32 pid, __u32 parent)
{
	struct gt_news *n = bpf_ringbuf_reserve(&news, sizeof(*n), 0);

	if (!n) {
		__sync_fetch_and_add(&news_lost, 1);
		return;
	}
	*n = (struct gt_news){
		.ts_ns = bpf_ktime_get_ns(), .pid = pid, .parent = parent, .kind = kind};
	bpf_ringbuf_submit(n, 0);
}

SEC("raw_tp/sched_process_fork")
int gt_born(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (void *)ctx->args[0], *child = (void *)ctx->args[1];
	__u32 parent_pid, pid;
	__u8 one = 1;

	if (BPF_CORE_READ(child, pid) != BPF_CORE_READ(child, tgid)) /* a thread */
		return 0;
	parent_pid = pid_here(BPF_CORE_READ(parent, group_leader));
	if (!parent_pid || !bpf_map_lookup_elem(&family, &parent_pid))
		return 0;
	pid = pid_here(child);
	if (!pid)
		return 0;
	bpf_map_update_elem(&family, &pid, &one, BPF_ANY);
	/* A child of vfork() has no memory of its own, and is news when it executes a program. */
	if (BPF_CORE_READ(child, mm) != BPF_CORE_READ(parent, mm))
		tell_news(GT_NEWS_BORN, pid, parent_pid);
	return 0;
}

SEC("raw_tp/sched_process_exec")
int gt_executed(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	__u32 pid = pid_here(BPF_CORE_READ(task, group_leader));

	if (pid && (all_execs || bpf_map_lookup_elem(&family, &pid)))
		tell_news(GT_NEWS_EXECUTED, pid, 0);
	return 0;
}

/* Its last thread ends (signal->live is counted down before this tracepoint, in do_exit()). */
SEC("raw_tp/sched_process_exit")
int gt_gone(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	__u32 pid;

	if (BPF_CORE_READ(task, signal, live.counter))
		return 0;
	pid = pid_here(BPF_CORE_READ(task, group_leader));
	if (pid)
		bpf_map_delete_elem(&family, &pid);
	return 0;
}

#endif
