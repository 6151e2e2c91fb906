/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kfeatures.h - what giltrace wants of the kernel beyond Linux 5.8 and in it: the table, what each
 * is for, and what is used where it is missing. Each is found by trying, once and when it is first
 * asked for; nothing asks for the kernel's version. A feature may be left out, as if the kernel
 * did not have it. Logs only what it says so of. Used by one thread.
 */
#ifndef GT_KFEATURES_H
#define GT_KFEATURES_H

#include "attach.h"

enum gt_feature {
	GT_FEATURE_MEMCG_MEMORY, /* the first: all others need memory */
	GT_FEATURE_RING_BUFFER,
	GT_FEATURE_RING_SIZES,
	GT_FEATURE_UPROBES,
	GT_FEATURE_PERF_LINK,
	GT_FEATURE_UPROBE_MULTI,
	GT_FEATURE_UPROBE_MULTI_PID,
	GT_FEATURE_BTF,
	GT_FEATURES
};

struct gt_feature_row {
	const char *name, *since, *purpose;
	const char *instead; /* "": nothing, so it is required */
};

extern const struct gt_feature_row gt_feature_table[GT_FEATURES];

enum gt_try {
	GT_TRY_UNTRIED,
	GT_TRY_YES,
	GT_TRY_NO,
	GT_TRY_UNKNOWN, /* we were not let try */
};

#define GT_FEATURE_WHY 640

struct gt_features {
	uint32_t without; /* bit n: feature n is left out */
	struct {
		enum gt_try found;
		int err;                  /* -errno of the try; 0: there was none */
		char why[GT_FEATURE_WHY]; /* not, or not known; else "" */
	} of[GT_FEATURES];
};

/*
 * Names separated by commas, into bits that are added to *without. -ENOENT: one of them is no name;
 * -EINVAL: one that is required. *bad: where it begins in the text.
 */
int gt_features_parse(const char *text, uint32_t *without, const char **bad);

/* All names that gt_features_parse() takes. */
#define GT_FEATURES_TEXT 160
const char *gt_features_optional(char text[GT_FEATURES_TEXT]);

/* Tries it if that was not done yet. 1 only if it is known to work. */
int gt_features_have(struct gt_features *f, enum gt_feature which);

/* Something else has shown that it does not work, with -errno. Keeps an earlier reason. */
void gt_features_lack(struct gt_features *f, enum gt_feature which, int err, const char *what);

/*
 * To be called before all else that uses BPF memory: where that counts against RLIMIT_MEMLOCK, the
 * limit is raised, or it is logged that it cannot be. Then whether there is a ring buffer. -EPERM:
 * privileges are missing; -ENOTSUP: there is none; logged.
 */
int gt_features_prepare(struct gt_features *f);

/*
 * The back end to use; GT_BACKEND_AUTO takes the first that works here. NULL: none does, logged
 * with the reasons, and *err is -EPERM where privileges are missing, -EMFILE, or -ENOTSUP.
 */
const struct gt_attach_ops *gt_features_backend(struct gt_features *f, enum gt_backend wanted,
						int *err);

/* Logs what is missing and what is used instead: to all where a recording is another for it. */
void gt_features_say(const struct gt_features *f);

/* Names of those that were found missing, and of those left out; separated by spaces. */
const char *gt_features_missing(const struct gt_features *f, char text[GT_FEATURES_TEXT]);
const char *gt_features_without(const struct gt_features *f, char text[GT_FEATURES_TEXT]);

#endif
