// SPDX-License-Identifier: Apache-2.0
#include "featlist.h"

#include <bpf/libbpf.h>
#include <cjson/cJSON.h>
#include <sys/utsname.h>

#include "bpfload.h"
#include "log.h"

#define WIDTH  100 /* of a line of the table, at most */
#define INDENT 26  /* of what is said of a feature */

struct answer {
	struct utsname host;
	int page_size;
	char libbpf[24];
	const char *backend; /* NULL: none works */
	const struct gt_features *features;
};

/* Words up to the width of a line; returns in which column they end. */
static int print_words(FILE *out, int column, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, " ");

		if (column > INDENT && column + 1 + (int)len > WIDTH)
			column = fprintf(out, "\n%*s", INDENT, "") - 1;
		column += fprintf(out, "%s%.*s", column > INDENT ? " " : "", (int)len, text);
		text += len;
		text += strspn(text, " ");
	}
	return column;
}

static void print_remark(FILE *out, const char *head, const char *text)
{
	fprintf(out, "%*s", INDENT, "");
	print_words(out, print_words(out, INDENT, head), text);
	fputc('\n', out);
}

static void print_table(const struct answer *a, FILE *out)
{
	static const char *const words[] = {"unknown", "yes", "no", "unknown"};

	fprintf(out, "Linux %s, %s, pages of %d KiB; libbpf %s\n", a->host.release, a->host.machine,
		a->page_size / 1024, a->libbpf);
	fprintf(out, "Recordings are made by: %s\n\n", a->backend ? a->backend : "nothing");
	for (size_t i = 0; i < GT_FEATURES; i++) {
		const struct gt_feature_row *row = &gt_feature_table[i];
		const char *why = a->features->of[i].why;
		char since[24] = "";

		fprintf(out, "%-17s %-7s ", row->name, words[a->features->of[i].found]);
		if (*row->since)
			snprintf(since, sizeof(since), "(Linux %s)", row->since);
		print_words(out, print_words(out, INDENT, row->purpose), since);
		fputc('\n', out);
		if (a->features->of[i].found == GT_TRY_YES)
			continue;
		print_remark(out, "why:", why);
		if (*row->instead)
			print_remark(out, "instead:", row->instead);
	}
}

static int add_feature(cJSON *array, const struct answer *a, size_t i)
{
	const struct gt_feature_row *row = &gt_feature_table[i];
	enum gt_try found = a->features->of[i].found;
	cJSON *o = cJSON_CreateObject();
	int ok = o && cJSON_AddItemToArray(array, o);

	if (!ok) {
		cJSON_Delete(o);
		return -ENOMEM;
	}
	ok = cJSON_AddStringToObject(o, "name", row->name) &&
	     (found == GT_TRY_UNKNOWN
		      ? cJSON_AddNullToObject(o, "available")
		      : cJSON_AddBoolToObject(o, "available", found == GT_TRY_YES)) &&
	     cJSON_AddStringToObject(o, "since", row->since) &&
	     cJSON_AddStringToObject(o, "for", row->purpose) &&
	     cJSON_AddStringToObject(o, "why", a->features->of[i].why) &&
	     cJSON_AddStringToObject(o, "instead", row->instead);
	return ok ? 0 : -ENOMEM;
}

static int print_json(const struct answer *a, FILE *out)
{
	cJSON *root = cJSON_CreateObject(), *list = NULL;
	char *text = NULL;
	int ok = root && cJSON_AddStringToObject(root, "kernel", a->host.release) &&
		 cJSON_AddStringToObject(root, "machine", a->host.machine) &&
		 cJSON_AddNumberToObject(root, "page_size", a->page_size) &&
		 cJSON_AddStringToObject(root, "libbpf", a->libbpf) &&
		 (a->backend ? cJSON_AddStringToObject(root, "backend", a->backend)
			     : cJSON_AddNullToObject(root, "backend"));

	if (ok)
		list = cJSON_AddArrayToObject(root, "features");
	ok = list != NULL;
	for (size_t i = 0; i < GT_FEATURES && ok; i++)
		ok = !add_feature(list, a, i);
	if (ok)
		text = cJSON_Print(root);
	if (text)
		fprintf(out, "%s\n", text);
	cJSON_Delete(root);
	cJSON_free(text);
	return text ? 0 : -ENOMEM;
}

enum gt_status gt_featlist(struct gt_features *f, enum gt_backend backend, int json, FILE *out)
{
	struct answer a = {.page_size = (int)sysconf(_SC_PAGESIZE), .features = f};
	int err, works;

	uname(&a.host);
	snprintf(a.libbpf, sizeof(a.libbpf), "%u.%u", libbpf_major_version(),
		 libbpf_minor_version());
	works = !gt_bpfload_try(&(struct gt_bpfload_opts){.features = f,
							  .backend = backend,
							  .max_targets = 1,
							  .ring_bytes = (uint32_t)a.page_size,
							  .follow = 1,
							  .all_execs = 1},
				&a.backend);
	for (size_t i = 0; i < GT_FEATURES; i++)
		(void)gt_features_have(f, (enum gt_feature)i);
	errno = 0;
	err = json ? print_json(&a, out) : 0;
	if (!json)
		print_table(&a, out);
	if (!err && (fflush(out) || ferror(out)))
		err = errno ? -errno : -EIO;
	if (err)
		gt_error("cannot print the features: %s", strerror(-err));
	return err ? GT_FAILED : works ? GT_OK : GT_NO_KERNEL;
}
