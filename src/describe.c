// SPDX-License-Identifier: Apache-2.0
#include "describe.h"

#include "pylayout.h"

#include <fcntl.h>
#include <sys/timex.h>
#include <sys/utsname.h>

#define BOOT_ID 36

/* Hosts may share a name; a process is known by its id for as long as its host is up. */
static void read_boot_id(char out[BOOT_ID + 1])
{
	gt_autoclose int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, BOOT_ID);

	out[n == BOOT_ID ? BOOT_ID : 0] = '\0';
}

/*
 * How wrong the wall clock may be, by what the daemon that keeps it right has told the kernel; not
 * known where there is none. For who compares recordings of several hosts.
 */
static struct gt_number clock_error_us(void)
{
	struct timex t = {0};
	int state = adjtimex(&t);

	return gt_number(state >= 0 && state != TIME_ERROR && !(t.status & STA_UNSYNC),
			 (int64_t)t.maxerror);
}

static int write_process(const struct gt_recording *r, const struct gt_recorder *rec,
			 struct gt_gilfile *f)
{
	const struct gt_number pid = gt_number(1, r->proc.pid),
			       ns_pid = gt_number(1, r->proc.ns_pid),
			       ticks = gt_number(1, (int64_t)r->proc.start_ticks),
			       ring = gt_number(1, r->ring_bytes),
			       parent = gt_number(r->about.parent > 0, r->about.parent),
			       uid = gt_number(1, r->about.uid),
			       pidns = gt_number(1, (int64_t)r->proc.pidns_ino),
			       mono = gt_number(r->about.timens_mono_ns != 0,
						r->about.timens_mono_ns),
			       boot = gt_number(r->about.timens_boot_ns != 0,
						r->about.timens_boot_ns),
			       clock_error = clock_error_us();
	struct utsname host;
	char boot_id[BOOT_ID + 1], missing[GT_FEATURES_TEXT], without[GT_FEATURES_TEXT];
	const struct gt_features *features = gt_tracer_features(rec->tracer);

	uname(&host);
	read_boot_id(boot_id);

	const char *const meta[][2] = {
		{"giltrace.version", GT_VERSION},
		{"host.name", host.nodename},
		{"host.kernel", host.release},
		{"host.arch", host.machine},
		{"kernel.missing", gt_or_null(gt_features_missing(features, missing))},
		{"kernel.without", gt_or_null(gt_features_without(features, without))},
		{"host.boot_id", gt_or_null(boot_id)},
		{"host.clock_error_us", gt_or_null(clock_error.text)},
		{"process.pid", pid.text},
		{"process.ns_pid", ns_pid.text},
		{"process.start_ticks", ticks.text},
		{"process.comm", r->proc.comm},
		{"process.cmdline", gt_or_null(r->about.cmdline)},
		{"process.container", gt_or_null(r->about.container)},
		{"process.parent_pid", gt_or_null(parent.text)},
		{"process.uid", uid.text},
		{"process.pidns", pidns.text},
		{"process.timens_mono_ns", gt_or_null(mono.text)},
		{"process.timens_boot_ns", gt_or_null(boot.text)},
		{"probe.mode", gt_probe_mode_name(gt_pytarget_mode(&r->py))},
		{"probe.backend", gt_tracer_backend(rec->tracer)},
		{"ring.bytes", ring.text},
	};

	return gt_gilfile_meta(f, meta, GT_ARRAY_SIZE(meta));
}

/* Which part of a distributed job it is, and which cards it has. */
static int write_place(const struct gt_recording *r, struct gt_gilfile *f)
{
	const struct gt_number rank = gt_number(1, r->rank.rank),
			       local = gt_number(r->rank.local >= 0, r->rank.local);
	char devices[GT_NPUS_MAX * 8] = "", cards[GT_NPUS_MAX * 24] = "";

	for (uint32_t i = 0; i < r->npus.n; i++) {
		const struct gt_npu *npu = &r->npus.npu[i];
		size_t used = strlen(devices);

		snprintf(devices + used, sizeof(devices) - used, "%s%" PRIu32, i ? "," : "",
			 npu->device);
		used = strlen(cards);
		if (npu->card >= 0 && npu->chip >= 0)
			snprintf(cards + used, sizeof(cards) - used,
				 "%sNPU %" PRId32 " chip %" PRId32, used ? "," : "", npu->card,
				 npu->chip);
	}

	const char *const meta[][2] = {
		{"rank", rank.text},
		{"rank.source", r->rank.source},
		{"rank.local", gt_or_null(local.text)},
		{"rank.local_source", r->rank.local_source},
		{"npu.devices", gt_or_null(devices)},
		{"npu.cards", gt_or_null(cards)},
		{"npu.source", gt_or_null(r->npus.source)},
	};

	return gt_gilfile_meta(f, meta, GT_ARRAY_SIZE(meta));
}

/* Keys of the first CPython are "python.file", of the second "python.2.file", and so on. */
static int write_python(const struct gt_recording *r, uint32_t index, struct gt_gilfile *f)
{
	static const char *const verdicts[] = {
		[GT_VERDICT_NONE] = "none",
		[GT_VERDICT_AGREES] = "agrees",
		[GT_VERDICT_DISAGREES] = "disagrees",
	};
	const struct gt_python *py = &r->py.python[index];
	const struct gt_sites *s = py->sites;
	char version[16], build_id[2 * GT_BUILDID_MAX + 1] = "", keys[7][40], number[16] = "";
	const char *request = NULL; /* function probes do not ask for it */

	if (gt_pytarget_mode(&r->py) != GT_PROBE_FUNCTIONS)
		request = gt_pylayout_of(s->py_major, s->py_minor, s->machine).drop_how ==
					  GT_DROP_UNKNOWN
				  ? "inferred"
				  : "read";
	snprintf(version, sizeof(version), "%u.%u", s->py_major, s->py_minor);
	for (size_t i = 0; i < s->build_id_len; i++)
		snprintf(build_id + 2 * i, 3, "%02x", s->build_id[i]);
	if (index)
		snprintf(number, sizeof(number), ".%" PRIu32, index + 1);
	snprintf(keys[0], sizeof(keys[0]), "python%s.version", number);
	snprintf(keys[1], sizeof(keys[1]), "python%s.file", number);
	snprintf(keys[2], sizeof(keys[2]), "python%s.build_id", number);
	snprintf(keys[3], sizeof(keys[3]), "symbols%s.verdict", number);
	snprintf(keys[4], sizeof(keys[4]), "symbols%s.from", number);
	snprintf(keys[5], sizeof(keys[5]), "symbols%s.disagreement", number);
	snprintf(keys[6], sizeof(keys[6]), "python%s.drop_request", number);

	const char *const meta[][2] = {
		{keys[0], s->py_major ? version : NULL},
		{keys[1], py->map.path},
		{keys[2], build_id[0] ? build_id : NULL},
		{keys[3], verdicts[s->verdict]},
		{keys[4], s->symbols_from[0] ? s->symbols_from : NULL},
		{keys[5], s->disagreement[0] ? s->disagreement : NULL},
		{keys[6], request},
	};

	return gt_gilfile_meta(f, meta, GT_ARRAY_SIZE(meta));
}

static int write_sites(const struct gt_recording *r, struct gt_gilfile *f)
{
	gt_autofree struct gil_site *sites = calloc(256, sizeof(*sites));
	struct gt_part parts[GT_PARTS_MAX];
	size_t n_parts = gt_pytarget_parts(&r->py, parts), n = 0;

	if (!sites)
		return -ENOMEM;
	for (size_t i = 0; i < n_parts; i++) {
		for (uint32_t k = 0; k < parts[i].sites->n && n < 256; k++, n++) {
			const struct gt_site *from = &parts[i].sites->site[k];

			sites[n].offset = from->offset;
			sites[n].kind = from->kind;
			sites[n].flags = from->flags;
			snprintf(sites[n].how, sizeof(sites[n].how), "%s", from->how);
		}
	}
	return gt_gilfile_sites(f, sites, n);
}

int gt_describe(const struct gt_recording *r, const struct gt_recorder *rec, struct gt_gilfile *f)
{
	int err = write_process(r, rec, f);

	if (!err)
		err = write_place(r, f);
	for (uint32_t i = 0; i < r->py.n && !err; i++)
		err = write_python(r, i, f);
	return err ? err : write_sites(r, f);
}
