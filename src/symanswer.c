// SPDX-License-Identifier: Apache-2.0
#include "symanswer.h"

static int is_text(const char *s, size_t size)
{
	size_t len = strnlen(s, size);

	if (len == size)
		return 0;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)s[i] < 0x20 || (unsigned char)s[i] > 0x7e)
			return 0;
	return 1;
}

static int is_site(const struct gt_site *s, uint64_t file_size)
{
	return s->kind >= GT_WAIT && s->kind <= GT_DROPPED &&
	       !(s->flags & ~(GT_SITE_RETURN | GT_SITE_NOARG | GT_SITE_MATCH | GT_SITE_LIBC |
			      GT_SITE_STEP | GT_SITE_TAKE)) &&
	       s->offset < file_size && is_text(s->how, sizeof(s->how));
}

static int are_functions(const struct gt_function *f, uint32_t n, uint32_t max)
{
	if (n > max)
		return 0;
	for (uint32_t i = 0; i < n; i++)
		if (f[i].sites > GT_SITES_MAX || !is_text(f[i].name, sizeof(f[i].name)))
			return 0;
	return 1;
}

/* Sites are of the way that was asked for, or of one that is found in a CPython's own file. */
static int is_mode(const struct gt_sites *s, enum gt_probe_mode asked)
{
	if (s->n && asked == GT_PROBE_AUTO)
		return s->mode == GT_PROBE_SITES || s->mode == GT_PROBE_FUNCTIONS;
	return s->n ? s->mode == asked : s->mode <= GT_PROBE_LIBC;
}

int gt_symanswer_is_valid(const struct gt_symanswer *a, enum gt_probe_mode asked,
			  uint64_t file_size)
{
	const struct gt_sites *s = &a->sites;

	if (a->err > 0 || a->err < -4095 || s->n > GT_SITES_MAX || !s->n == !a->err ||
	    s->stripped > 1 || s->python2 > 1 || s->is_python > 1 || !is_mode(s, asked) ||
	    s->verdict > GT_VERDICT_DISAGREES || s->build_id_len > GT_BUILDID_MAX ||
	    s->switch_cond > 4096 || !is_text(s->why, sizeof(s->why)) ||
	    !is_text(s->symbols_from, sizeof(s->symbols_from)) ||
	    !is_text(s->disagreement, sizeof(s->disagreement)) ||
	    !are_functions(s->function, s->n_functions, GT_FUNCTIONS_MAX) ||
	    !are_functions(s->inlined, s->n_inlined, GT_INLINED_MAX))
		return 0;
	for (uint32_t i = 0; i < s->n; i++)
		if (!is_site(&s->site[i], file_size))
			return 0;
	return 1;
}
