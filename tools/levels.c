// SPDX-License-Identifier: Apache-2.0
#include "levels.h"

/* A row gives way if it has more than this part of what the fullest has .. */
#define FULLEST_PART 2
/* .. and a wider grid must save it this part at least; all do until this part is free. */
#define SAVED_PART 8

void gt_levels_init(struct gt_levels *l, size_t max_items)
{
	*l = (struct gt_levels){.max_items = max_items};
}

void gt_levels_fini(struct gt_levels *l)
{
	for (size_t i = 0; i < l->n_rows; i++) {
		free(l->rows[i].slices);
		free(l->rows[i].cells);
	}
	free(l->rows);
	*l = (struct gt_levels){0};
}

int gt_levels_add_row(struct gt_levels *l)
{
	if (l->n_rows == l->max_rows) {
		size_t max = l->max_rows ? l->max_rows * 2 : 16;
		struct gt_level_row *rows = reallocarray(l->rows, max, sizeof(*rows));

		if (!rows)
			return -ENOMEM;
		l->rows = rows;
		l->max_rows = max;
	}
	l->rows[l->n_rows++] = (struct gt_level_row){0};
	return 0;
}

/* ---- cells ---- */

/*
 * Cells in the order of their index, into an array with room enough; NULL: they are only counted.
 * An index before the last one's, which the callers' order rules out, counts as the last one.
 */
struct cells {
	struct gt_cell *at;
	uint32_t n;
	uint64_t last;
};

static struct gt_cell *cell(struct cells *c, uint64_t index)
{
	if (!c->n || index > c->last) {
		c->last = index;
		if (c->at)
			c->at[c->n] = (struct gt_cell){.index = index};
		c->n++;
	}
	return c->at ? &c->at[c->n - 1] : NULL;
}

static uint32_t add_sat(uint32_t a, uint32_t b)
{
	return b > UINT32_MAX - a ? UINT32_MAX : a + b;
}

/* A slice that is shorter than a cell: it lies in one, or in two. */
static void cells_add_slice(struct cells *c, const struct gt_slice *s, uint32_t width)
{
	uint64_t first = s->start_ns >> width, end_ns = s->start_ns + s->len_ns;
	uint64_t edge = (first + 1) << width;
	uint64_t inside = s->len_ns && end_ns > edge ? edge - s->start_ns : s->len_ns;
	struct gt_cell *to = cell(c, first);

	if (to) {
		to->ns[s->kind] += inside;
		to->n[s->kind] = add_sat(to->n[s->kind], 1);
		to->forced =
			add_sat(to->forced, s->kind == GT_SPAN_HOLD && s->forced == GT_FORCED_YES);
		if (s->kind < GT_SPAN_DROP && to->longest_ns[s->kind] < s->len_ns)
			to->longest_ns[s->kind] = s->len_ns;
	}
	if (inside < s->len_ns) {
		to = cell(c, first + 1);
		if (to)
			to->ns[s->kind] += s->len_ns - inside;
	}
	if (s->drop) {
		to = cell(c, end_ns >> width);
		if (to)
			to->n[GT_SPAN_DROP] = add_sat(to->n[GT_SPAN_DROP], 1);
	}
}

/* A cell of a grid that is `by` doublings finer. */
static void cells_add_cell(struct cells *c, const struct gt_cell *from, uint32_t by)
{
	struct gt_cell *to = cell(c, from->index >> by);

	if (!to)
		return;
	for (size_t i = 0; i < GT_SPAN_KINDS; i++) {
		to->ns[i] += from->ns[i];
		to->n[i] = add_sat(to->n[i], from->n[i]);
	}
	for (size_t i = 0; i < GT_SPAN_DROP; i++)
		if (to->longest_ns[i] < from->longest_ns[i])
			to->longest_ns[i] = from->longest_ns[i];
	to->forced = add_sat(to->forced, from->forced);
}

/* ---- a wider grid ---- */

static int is_short(const struct gt_slice *s, uint32_t width)
{
	return s->len_ns < UINT64_C(1) << width;
}

/* What the cells of the row would be, into `at` (NULL: only counted); returns their number. */
static uint32_t regrid(const struct gt_level_row *r, uint32_t width, struct gt_cell *at,
		       uint32_t *n_short)
{
	uint32_t by = r->width ? width - r->width : 0, i = 0;
	struct cells c = {.at = at};

	*n_short = 0;
	for (uint32_t k = 0; k < r->n_slices; k++) {
		const struct gt_slice *s = &r->slices[k];

		if (!is_short(s, width))
			continue;
		/* Cells first: the slice may reach into the next one. */
		while (i < r->n_cells && r->cells[i].index >> by <= s->start_ns >> width)
			cells_add_cell(&c, &r->cells[i++], by);
		cells_add_slice(&c, s, width);
		++*n_short;
	}
	while (i < r->n_cells)
		cells_add_cell(&c, &r->cells[i++], by);
	return c.n;
}

/* Gives back what is not used: the fullest row must not keep its room when others grow. */
static void trim(struct gt_level_row *r)
{
	size_t want = (size_t)r->n_slices + r->n_slices / 4 + 8;
	struct gt_slice *slices;

	if (want >= r->max_slices)
		return;
	slices = reallocarray(r->slices, want, sizeof(*slices));
	if (slices) {
		r->slices = slices;
		r->max_slices = (uint32_t)want;
	}
}

static int set_width(struct gt_level_row *r, uint32_t width, uint32_t n_cells)
{
	struct gt_cell *cells = calloc((size_t)n_cells + 1, sizeof(*cells));
	uint32_t kept = 0, ignored;

	if (!cells)
		return -ENOMEM;
	regrid(r, width, cells, &ignored);
	free(r->cells);
	r->cells = cells;
	r->n_cells = n_cells;
	r->max_cells = n_cells + 1;
	for (uint32_t k = 0; k < r->n_slices; k++)
		if (!is_short(&r->slices[k], width))
			r->slices[kept++] = r->slices[k];
	r->n_slices = kept;
	r->width = width;
	trim(r);
	return 0;
}

/* To the next grid that saves enough, if there is one; returns how many items it saved. */
static int64_t widen(struct gt_level_row *r)
{
	uint32_t had = r->n_slices + r->n_cells;
	uint32_t width = r->width ? r->width + 1 : GT_LEVELS_WIDTH_MIN;

	for (; width <= GT_LEVELS_WIDTH_MAX; width++) {
		uint32_t n_short, n_cells = regrid(r, width, NULL, &n_short);
		uint32_t have = r->n_slices - n_short + n_cells;

		if (have <= had - had / SAVED_PART && have < had)
			return set_width(r, width, n_cells) ? -ENOMEM : (int64_t)had - have;
	}
	return 0;
}

static int make_fit(struct gt_levels *l)
{
	while (l->items > l->max_items - l->max_items / SAVED_PART) {
		uint32_t fullest = 0;
		int64_t saved = 0;

		for (size_t i = 0; i < l->n_rows; i++) {
			uint32_t n = l->rows[i].n_slices + l->rows[i].n_cells;

			fullest = n > fullest ? n : fullest;
		}
		for (size_t i = 0; i < l->n_rows; i++) {
			struct gt_level_row *r = &l->rows[i];
			int64_t n;

			if (r->n_slices + r->n_cells <= fullest / FULLEST_PART)
				continue;
			n = widen(r);
			if (n < 0)
				return (int)n;
			saved += n;
			l->items -= (size_t)n;
		}
		if (!saved) /* more rows than were promised */
			return -ENOMEM;
	}
	return 0;
}

/* ---- one slice more ---- */

static int add_exact(struct gt_level_row *r, const struct gt_slice *s)
{
	if (r->n_slices == r->max_slices) {
		uint32_t max = r->max_slices + r->max_slices / 2 + 8;
		struct gt_slice *slices = reallocarray(r->slices, max, sizeof(*slices));

		if (!slices)
			return -ENOMEM;
		r->slices = slices;
		r->max_slices = max;
	}
	r->slices[r->n_slices++] = *s;
	return 0;
}

static int add_to_cells(struct gt_level_row *r, const struct gt_slice *s)
{
	struct cells c = {.n = r->n_cells};

	if (r->max_cells - r->n_cells < 2) {
		uint32_t max = r->max_cells + r->max_cells / 2 + 8;
		struct gt_cell *cells = reallocarray(r->cells, max, sizeof(*cells));

		if (!cells)
			return -ENOMEM;
		r->cells = cells;
		r->max_cells = max;
	}
	c.at = r->cells;
	if (c.n)
		c.last = c.at[c.n - 1].index;
	cells_add_slice(&c, s, r->width);
	r->n_cells = c.n;
	return 0;
}

/* A drop without length behind its hold needs no place of its own. */
static int joins(const struct gt_level_row *r, const struct gt_slice *s)
{
	const struct gt_slice *last = r->n_slices ? &r->slices[r->n_slices - 1] : NULL;

	return last && s->kind == GT_SPAN_DROP && !s->len_ns && !s->open &&
	       last->kind == GT_SPAN_HOLD && !last->drop &&
	       last->start_ns + last->len_ns == s->start_ns && last->gil == s->gil &&
	       last->forced == s->forced;
}

int gt_levels_add(struct gt_levels *l, size_t row, const struct gt_span *span)
{
	struct gt_level_row *r = &l->rows[row];
	const struct gt_slice s = {
		.start_ns = span->start_ns,
		.len_ns = span->end_ns > span->start_ns ? span->end_ns - span->start_ns : 0,
		.held_ns = span->wait.held_ns,
		.nobody_ns = span->wait.nobody_ns,
		.blocker_ns = span->wait.blocker_ns,
		.blocker = span->wait.blocker,
		.kind = span->kind,
		.open = span->open,
		.gil = span->gil,
		.forced = span->forced & 3,
		.acquired = span->acquired & 1,
	};
	uint32_t had = r->n_slices + r->n_cells;
	int err;

	if (joins(r, &s)) {
		r->slices[r->n_slices - 1].drop = 1;
		return 0;
	}
	if (r->width && is_short(&s, r->width))
		err = add_to_cells(r, &s);
	else
		err = add_exact(r, &s);
	if (err)
		return err;
	l->items += r->n_slices + r->n_cells - had;
	return l->items > l->max_items ? make_fit(l) : 0;
}
