// SPDX-License-Identifier: Apache-2.0
#include "kfeatures.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "log.h"

#define BTF_PATH "/sys/kernel/btf/vmlinux"

const struct gt_feature_row gt_feature_table[GT_FEATURES] = {
	[GT_FEATURE_MEMCG_MEMORY] =
		{
			.name = "memcg-memory",
			.since = "5.11",
			.purpose = "BPF memory that counts as any other memory",
			.instead = "RLIMIT_MEMLOCK, against which it counts, is raised",
		},
	[GT_FEATURE_RING_BUFFER] =
		{
			.name = "ring-buffer",
			.since = "5.8",
			.purpose = "the way of events to the recorder",
			.instead = "",
		},
	[GT_FEATURE_RING_SIZES] =
		{
			.name = "ring-sizes",
			.since = "5.10",
			.purpose = "smaller rings where there are many processes",
			.instead = "all rings have the size of --ring-size, or 4 MiB",
		},
	[GT_FEATURE_UPROBES] =
		{
			.name = "uprobes",
			.since = "4.17",
			.purpose = "probes by perf_event_open(2)",
			.instead = "uprobe_multi links only",
		},
	[GT_FEATURE_PERF_LINK] =
		{
			.name = "perf-link",
			.since = "5.15",
			.purpose = "one program for all perf_event probes, with a cookie for each",
			.instead = "a copy of the program for each probe, attached by ioctl(2)",
		},
	[GT_FEATURE_UPROBE_MULTI] =
		{
			.name = "uprobe-multi",
			.since = "6.6",
			.purpose = "one link for all probes of a process",
			.instead = "a perf_event for each probe",
		},
	[GT_FEATURE_UPROBE_MULTI_PID] =
		{
			.name = "uprobe-multi-pid",
			.since = "6.10",
			.purpose = "uprobe_multi links that see all threads of the process",
			.instead = "a perf_event for each probe",
		},
	[GT_FEATURE_BTF] =
		{
			.name = "btf",
			.since = "", /* a matter of how the kernel was built */
			.purpose = "new names of threads and births of processes, as they happen",
			.instead = "names are read later, children are looked for in /proc",
		},
};

static int is_required(size_t i)
{
	return !*gt_feature_table[i].instead;
}

static const char *names_of(uint32_t bits, const char *between, char text[GT_FEATURES_TEXT])
{
	size_t len = 0;

	*text = '\0';
	for (size_t i = 0; i < GT_FEATURES; i++)
		if (bits >> i & 1)
			len += (size_t)snprintf(text + len, GT_FEATURES_TEXT - len, "%s%s",
						len ? between : "", gt_feature_table[i].name);
	return text;
}

int gt_features_parse(const char *text, uint32_t *without, const char **bad)
{
	for (;; text++) {
		size_t len = strcspn(text, ","), i = 0;

		while (i < GT_FEATURES && (strncmp(text, gt_feature_table[i].name, len) ||
					   gt_feature_table[i].name[len]))
			i++;
		*bad = text;
		if (i == GT_FEATURES)
			return -ENOENT;
		if (is_required(i))
			return -EINVAL;
		*without |= UINT32_C(1) << i;
		text += len;
		if (!*text)
			return 0;
	}
}

const char *gt_features_optional(char text[GT_FEATURES_TEXT])
{
	uint32_t all = 0;

	for (size_t i = 0; i < GT_FEATURES; i++)
		all |= (uint32_t)!is_required(i) << i;
	return names_of(all, ", ", text);
}

/* ---- trying ---- */

static void lacks(struct gt_features *f, enum gt_feature which, enum gt_try found, int err,
		  const char *what, const char *more)
{
	f->of[which].found = found;
	f->of[which].err = err;
	snprintf(f->of[which].why, sizeof(f->of[which].why), "%s: %s%s", what, strerror(-err),
		 more);
}

static void works(struct gt_features *f, enum gt_feature which)
{
	f->of[which].found = GT_TRY_YES;
	f->of[which].why[0] = '\0';
}

/* Keeps what came of a try: 0, or -errno of `what`, whose rights are those of the step. */
static void keep(struct gt_features *f, enum gt_feature which, int err, enum gt_step step,
		 const char *what)
{
	int not_let = err == -EPERM || err == -EACCES || gt_is_shortage(err);
	char rights[GT_RIGHTS_TEXT];

	if (err)
		lacks(f, which, not_let ? GT_TRY_UNKNOWN : GT_TRY_NO, err, what,
		      gt_rights_why(step, err, 0, rights));
	else
		works(f, which);
}

/* As much as we may. 0: there is no limit any more. */
static int raise_memlock(void)
{
	struct rlimit lim = {RLIM_INFINITY, RLIM_INFINITY};

	if (!setrlimit(RLIMIT_MEMLOCK, &lim))
		return 0;
	if (getrlimit(RLIMIT_MEMLOCK, &lim))
		return -errno;
	lim.rlim_cur = lim.rlim_max;
	if (setrlimit(RLIMIT_MEMLOCK, &lim))
		return -errno;
	return lim.rlim_cur == RLIM_INFINITY ? 0 : -EPERM;
}

/* By a system call of ours: libbpf 1.x would raise the limit by itself. */
static int create_an_array(void)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
	int fd = (int)syscall(__NR_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/*
 * Is a map possible where nothing may be locked? From that limit nobody is excepted, root neither;
 * but who may not use BPF at all gets the same answer.
 */
static void try_memcg(struct gt_features *f)
{
	const char *what = "bpf(BPF_MAP_CREATE)", *at = ", where RLIMIT_MEMLOCK is 0";
	struct rlimit lim, none;
	struct gt_rights rights;
	int err, limited = 0;

	if (getrlimit(RLIMIT_MEMLOCK, &lim)) {
		keep(f, GT_FEATURE_MEMCG_MEMORY, -errno, GT_STEP_BPF, "getrlimit()");
		return;
	}
	none = (struct rlimit){0, lim.rlim_max};
	(void)setrlimit(RLIMIT_MEMLOCK, &none);
	err = create_an_array();
	if (err == -EPERM) {
		int raised = raise_memlock();

		gt_rights_read(&rights, 0);
		limited =
			!create_an_array() || (raised && (gt_rights_have(&rights, CAP_BPF) ||
							  gt_rights_have(&rights, CAP_SYS_ADMIN)));
	}
	(void)setrlimit(RLIMIT_MEMLOCK, &lim);
	if (limited)
		lacks(f, GT_FEATURE_MEMCG_MEMORY, GT_TRY_NO, err, what, at);
	else
		keep(f, GT_FEATURE_MEMCG_MEMORY, err, GT_STEP_BPF, what);
}

static int create_ring(uint32_t pages)
{
	return bpf_map_create(BPF_MAP_TYPE_RINGBUF, "gt_try", 0, 0,
			      pages * (uint32_t)sysconf(_SC_PAGESIZE), NULL);
}

static void try_ring(struct gt_features *f)
{
	gt_autoclose int fd = create_ring(1);

	keep(f, GT_FEATURE_RING_BUFFER, fd < 0 ? fd : 0, GT_STEP_BPF, "bpf(BPF_MAP_CREATE)");
}

/* Can a map of rings have some of another size than its pattern's? */
static void try_ring_sizes(struct gt_features *f)
{
	gt_autoclose int pattern = create_ring(1), other = create_ring(2), outer = -1;
	LIBBPF_OPTS(bpf_map_create_opts, opts, .inner_map_fd = (uint32_t)pattern);
	const char *what = "bpf(BPF_MAP_CREATE)";
	int err = pattern < 0 ? pattern : other < 0 ? other : 0;

	if (!err) {
		outer = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "gt_try", 4, 4, 1, &opts);
		err = outer < 0 ? outer : 0;
	}
	if (!err) {
		what = "bpf(BPF_MAP_UPDATE_ELEM)";
		err = bpf_map_update_elem(outer, &(uint32_t){0}, &other, BPF_ANY) ? -errno : 0;
	}
	keep(f, GT_FEATURE_RING_SIZES, err, GT_STEP_BPF, what);
}

/* 1: attached, but not seen as it should be. */
static int try_backend(struct gt_features *f, enum gt_feature which, enum gt_backend backend)
{
	const struct gt_attach_ops *ops = gt_attach_backend(backend);
	const char *what;
	int err = gt_attach_try(ops, &what);

	if (err <= 0)
		keep(f, which, err, gt_attach_step(ops), what);
	else
		snprintf(f->of[which].why, sizeof(f->of[which].why), "%s was not hit", what);
	return err;
}

static void try_uprobes(struct gt_features *f)
{
	/* By such a probe. */
	if (f->of[GT_FEATURE_PERF_LINK].found == GT_TRY_YES)
		works(f, GT_FEATURE_UPROBES);
	else if (try_backend(f, GT_FEATURE_UPROBES, GT_BACKEND_IOCTL) > 0)
		f->of[GT_FEATURE_UPROBES].found = GT_TRY_NO;
}

static void try_perf_link(struct gt_features *f)
{
	if (try_backend(f, GT_FEATURE_PERF_LINK, GT_BACKEND_PERF) > 0)
		f->of[GT_FEATURE_PERF_LINK].found = GT_TRY_NO;
}

/* Both features that uprobe_multi is made of. */
static void try_multi(struct gt_features *f)
{
	int err = try_backend(f, GT_FEATURE_UPROBE_MULTI_PID, GT_BACKEND_MULTI);

	if (err <= 0) {
		f->of[GT_FEATURE_UPROBE_MULTI] = f->of[GT_FEATURE_UPROBE_MULTI_PID];
		return;
	}
	f->of[GT_FEATURE_UPROBE_MULTI_PID].found = GT_TRY_NO;
	works(f, GT_FEATURE_UPROBE_MULTI);
}

/* Its beginning only: whether the kernel's programs can be loaded with it, loading them tells. */
static void try_btf(struct gt_features *f)
{
	gt_autoclose int fd = open(BTF_PATH, O_RDONLY | O_CLOEXEC);
	uint16_t magic;
	int err = fd < 0 ? -errno : 0;

	if (!err && (read(fd, &magic, sizeof(magic)) != sizeof(magic) || magic != BTF_MAGIC))
		err = -EINVAL;
	keep(f, GT_FEATURE_BTF, err, GT_STEP_BPF, BTF_PATH);
}

static void (*const tries[GT_FEATURES])(struct gt_features *f) = {
	[GT_FEATURE_MEMCG_MEMORY] = try_memcg,     [GT_FEATURE_RING_BUFFER] = try_ring,
	[GT_FEATURE_RING_SIZES] = try_ring_sizes,  [GT_FEATURE_UPROBES] = try_uprobes,
	[GT_FEATURE_PERF_LINK] = try_perf_link,    [GT_FEATURE_UPROBE_MULTI] = try_multi,
	[GT_FEATURE_UPROBE_MULTI_PID] = try_multi, [GT_FEATURE_BTF] = try_btf,
};

/* What it is a part of, and cannot be there without. */
static enum gt_feature whole_of(enum gt_feature which)
{
	return which == GT_FEATURE_PERF_LINK          ? GT_FEATURE_UPROBES
	       : which == GT_FEATURE_UPROBE_MULTI_PID ? GT_FEATURE_UPROBE_MULTI
						      : which;
}

/* By its own name, or with the whole, which is returned; NULL: it is not. */
static const char *left_out(const struct gt_features *f, enum gt_feature which)
{
	enum gt_feature whole = whole_of(which);

	return f->without >> which & 1   ? gt_feature_table[which].name
	       : f->without >> whole & 1 ? gt_feature_table[whole].name
					 : NULL;
}

int gt_features_have(struct gt_features *f, enum gt_feature which)
{
	if (f->of[which].found == GT_TRY_UNTRIED && !left_out(f, which))
		tries[which](f);
	/* Also what another's try has told of. */
	for (size_t i = 0; i < GT_FEATURES; i++) {
		const char *name = left_out(f, i);

		if (!name)
			continue;
		f->of[i].found = GT_TRY_NO;
		snprintf(f->of[i].why, sizeof(f->of[i].why), "%s is left out by --without", name);
	}
	return f->of[which].found == GT_TRY_YES;
}

void gt_features_lack(struct gt_features *f, enum gt_feature which, int err, const char *what)
{
	if (gt_features_have(f, which))
		lacks(f, which, GT_TRY_NO, err, what, "");
}

/* ---- what follows from it ---- */

int gt_features_prepare(struct gt_features *f)
{
	const char *why = f->of[GT_FEATURE_RING_BUFFER].why;
	struct rlimit lim;

	if (!gt_features_have(f, GT_FEATURE_MEMCG_MEMORY) &&
	    f->of[GT_FEATURE_MEMCG_MEMORY].found == GT_TRY_NO) {
		if (!raise_memlock())
			gt_debug("RLIMIT_MEMLOCK is raised, as BPF memory counts against it");
		else if (!getrlimit(RLIMIT_MEMLOCK, &lim))
			gt_warn("BPF memory counts against RLIMIT_MEMLOCK, which is %llu KiB and "
				"cannot be raised: CAP_SYS_RESOURCE is missing",
				(unsigned long long)lim.rlim_cur / 1024);
	}
	if (gt_features_have(f, GT_FEATURE_RING_BUFFER))
		return 0;
	if (f->of[GT_FEATURE_RING_BUFFER].found == GT_TRY_UNKNOWN) {
		int err = f->of[GT_FEATURE_RING_BUFFER].err;

		gt_error("cannot create a BPF ring buffer: %s", why);
		return gt_is_shortage(err) ? err : -EPERM;
	}
	gt_error("this kernel has no BPF ring buffer (Linux 5.8): %s", why);
	return -ENOTSUP;
}

/* In the order of preference; what a back end needs. */
static const struct way {
	enum gt_backend backend;
	enum gt_feature needs[2];
} ways[] = {
	{GT_BACKEND_MULTI, {GT_FEATURE_UPROBE_MULTI, GT_FEATURE_UPROBE_MULTI_PID}},
	{GT_BACKEND_PERF, {GT_FEATURE_PERF_LINK, GT_FEATURE_UPROBES}},
	{GT_BACKEND_IOCTL, {GT_FEATURE_UPROBES, GT_FEATURE_UPROBES}},
};

/* What it needs and is not there; GT_FEATURES: it works. */
static enum gt_feature lacking(struct gt_features *f, const struct way *way)
{
	for (size_t i = 0; i < GT_ARRAY_SIZE(way->needs); i++)
		if (!gt_features_have(f, way->needs[i]))
			return way->needs[i];
	return GT_FEATURES;
}

/* All of it, not only the first. */
static void say_lacking(struct gt_features *f, const struct way *way)
{
	for (size_t i = 0; i < GT_ARRAY_SIZE(way->needs); i++) {
		enum gt_feature need = way->needs[i];

		if ((!i || need != way->needs[0]) && !gt_features_have(f, need))
			gt_error("the %s back end does not work here: %s: %s",
				 gt_attach_name(gt_attach_backend(way->backend)),
				 gt_feature_table[need].name, f->of[need].why);
	}
}

static int say_not_let(int err, const char *backend, const char *why)
{
	gt_error("cannot attach probes (%s): %s%s", backend, why,
		 err == -EMFILE ? "; ulimit -n gives more" : "");
	return gt_is_shortage(err) ? err : -EPERM;
}

const struct gt_attach_ops *gt_features_backend(struct gt_features *f, enum gt_backend wanted,
						int *err)
{
	enum gt_feature lack = GT_FEATURES;

	*err = -ENOTSUP;
	for (size_t i = 0; i < GT_ARRAY_SIZE(ways); i++) {
		const struct gt_attach_ops *ops = gt_attach_backend(ways[i].backend);

		if (wanted != GT_BACKEND_AUTO && wanted != ways[i].backend)
			continue;
		lack = lacking(f, &ways[i]);
		if (lack == GT_FEATURES)
			return ops;
		if (f->of[lack].found == GT_TRY_UNKNOWN) {
			*err = say_not_let(f->of[lack].err, gt_attach_name(ops), f->of[lack].why);
			return NULL;
		}
		if (wanted != GT_BACKEND_AUTO)
			say_lacking(f, &ways[i]);
	}
	if (wanted == GT_BACKEND_AUTO) {
		enum gt_feature multi = lacking(f, &ways[0]);

		gt_error("this kernel can attach no probes: neither by links to several (%s: %s) "
			 "nor one by one (%s: %s)",
			 gt_feature_table[multi].name, f->of[multi].why,
			 gt_feature_table[lack].name, f->of[lack].why);
	}
	return NULL;
}

void gt_features_say(const struct gt_features *f)
{
	for (size_t i = 0; i < GT_FEATURES; i++)
		if (f->of[i].found == GT_TRY_NO)
			gt_log(i == GT_FEATURE_BTF ? GT_LOG_INFO : GT_LOG_DEBUG,
			       "without %s (%s): %s", gt_feature_table[i].name, f->of[i].why,
			       gt_feature_table[i].instead);
}

const char *gt_features_missing(const struct gt_features *f, char text[GT_FEATURES_TEXT])
{
	uint32_t missing = 0;

	for (size_t i = 0; i < GT_FEATURES; i++)
		missing |= (uint32_t)(f->of[i].found == GT_TRY_NO && !left_out(f, i)) << i;
	return names_of(missing, " ", text);
}

const char *gt_features_without(const struct gt_features *f, char text[GT_FEATURES_TEXT])
{
	return names_of(f->without, " ", text);
}
