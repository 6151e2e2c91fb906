// SPDX-License-Identifier: Apache-2.0
/*
 * Levels of detail: what lies in a stretch of time is found by binary search and told by sums that
 * were made once, so that a picture costs as much as it has pixels, however many slices there are.
 */

/* First index in [lo, hi) whose value is above t; hi where there is none. `array` is sorted. */
function above(array, lo, hi, t) {
	while (lo < hi) {
		const mid = (lo + hi) >> 1;

		if (array[mid] > t) hi = mid;
		else lo = mid + 1;
	}
	return lo;
}

/* The same where it is likely to be near `lo`. */
function aboveNear(array, lo, hi, t) {
	let step = 1;

	while (lo + step <= hi && array[lo + step - 1] <= t) {
		lo += step;
		step *= 2;
	}
	return above(array, lo, Math.min(lo + step, hi), t);
}

/* Slices of the row that reach into [t0, t1): from [0] up to before [1]. */
function slicesIn(model, row, t0, t1) {
	const { start, len } = model.slices;
	let i = above(start, row.i0, row.i1, t0);

	if (i > row.i0 && start[i - 1] + len[i - 1] > t0) i--;
	/* Those without length at t0 itself. */
	while (i > row.i0 && start[i - 1] === t0) i--;
	return [i, Math.max(i, above(start, i, row.i1, t1))];
}

function cellsIn(model, row, t0, t1) {
	const { start } = model.cells;
	const j = above(start, row.j0, row.j1, t0 - row.width);

	return [j, Math.max(j, above(start, j, row.j1, t1))];
}

/*
 * Adds to out[kind][x] the time of the row's slices in the x-th of n columns, `step` ns each, from t0
 * on.
 */
function sliceColumns(model, row, t0, step, n, out) {
	const { start, len, flags, sums } = model.slices;
	const [wait, hold, drop] = sums;
	let i = row.i0;
	let p0 = 0;
	let p1 = 0;
	let p2 = 0;

	if (row.i0 === row.i1) return;
	for (let x = -1; x < n; x++) {
		const t = t0 + (x + 1) * step;

		i = x < 0 ? above(start, i, row.i1, t) : aboveNear(start, i, row.i1, t);
		let c0 = wait[i];
		let c1 = hold[i];
		let c2 = drop[i];
		if (i > row.i0) {
			const beyond = start[i - 1] + len[i - 1] - t;
			const kind = flags[i - 1] & 3;

			if (beyond > 0) {
				if (kind === TAKE) c0 -= beyond;
				else if (kind === HOLD) c1 -= beyond;
				else c2 -= beyond;
			}
		}
		if (x >= 0) {
			out[0][x] += c0 - p0;
			out[1][x] += c1 - p1;
			out[2][x] += c2 - p2;
		}
		p0 = c0;
		p1 = c1;
		p2 = c2;
	}
}

/* The same for cells; what is in one counts as spread evenly over it. */
function cellColumns(model, row, t0, step, n, out) {
	const { start, ns, sums } = model.cells;
	let j = row.j0;
	let p0 = 0;
	let p1 = 0;
	let p2 = 0;

	if (row.j0 === row.j1) return;
	for (let x = -1; x < n; x++) {
		const t = t0 + (x + 1) * step;

		j = x < 0 ? above(start, j, row.j1, t) : aboveNear(start, j, row.j1, t);
		let c0 = sums[0][j];
		let c1 = sums[1][j];
		let c2 = sums[2][j];
		if (j > row.j0) {
			const beyond = 1 - (t - start[j - 1]) / row.width;

			if (beyond > 0) {
				c0 -= ns[0][j - 1] * beyond;
				c1 -= ns[1][j - 1] * beyond;
				c2 -= ns[2][j - 1] * beyond;
			}
		}
		if (x >= 0) {
			out[0][x] += c0 - p0;
			out[1][x] += c1 - p1;
			out[2][x] += c2 - p2;
		}
		p0 = c0;
		p1 = c1;
		p2 = c2;
	}
}

/* Adds `amount`, spread evenly over [a, b), to the columns. */
function spread(out, t0, step, n, a, b, amount) {
	const from = Math.max(0, (a - t0) / step);
	const to = Math.min(n, (b - t0) / step);

	if (!(to > from)) return;
	const each = amount / ((b - a) / step);
	const first = Math.floor(from);
	const last = Math.min(n - 1, Math.floor(to));

	if (first === last) {
		out[first] += each * (to - from);
		return;
	}
	out[first] += each * (first + 1 - from);
	for (let x = first + 1; x < last; x++) out[x] += each;
	out[last] += each * (to - last);
}

/* ---- a process as a whole ---- */

/* Sums of the times held and waited up to each bin of an even grid, for all threads together. */
function makeStrip(model, process, bins) {
	let from = process.start;
	let to = process.end;

	for (const row of process.rows) {
		if (row.i0 < row.i1) {
			from = Math.min(from, model.slices.start[row.i0]);
			to = Math.max(to, model.slices.start[row.i1 - 1] + model.slices.len[row.i1 - 1]);
		}
		if (row.j0 < row.j1) {
			from = Math.min(from, model.cells.start[row.j0]);
			to = Math.max(to, model.cells.start[row.j1 - 1] + row.width);
		}
	}
	const n = Math.max(1, Math.min(bins, Math.floor(to - from)));
	const strip = {
		from,
		n,
		step: Math.max(to - from, 1) / n,
		sums: [new Float64Array(n + 1), new Float64Array(n + 1)],
	};
	const parts = [new Float64Array(n), new Float64Array(n)];
	const whole = [new Float64Array(n + 1), new Float64Array(n + 1)];

	for (const row of process.rows) stripAddRow(model, row, strip, parts, whole);
	for (let k = 0; k < 2; k++) {
		let running = 0;

		for (let x = 0; x < n; x++) {
			running += whole[k][x];
			strip.sums[k][x + 1] = strip.sums[k][x] + parts[k][x] + running;
		}
	}
	process.strip = strip;
}

/* Long stretches are noted at their two ends only (whole), so that they cost no more than short ones. */
function stripAdd(strip, part, whole, a, b, amount) {
	const rate = (amount / (b - a)) * strip.step;
	const from = (a - strip.from) / strip.step;
	const to = Math.min(strip.n, (b - strip.from) / strip.step);
	const first = Math.floor(from);
	const last = Math.min(strip.n - 1, Math.floor(to));

	if (first >= last) {
		part[last] += rate * (to - from);
		return;
	}
	part[first] += rate * (first + 1 - from);
	part[last] += rate * (to - last);
	whole[first + 1] += rate;
	whole[last] -= rate;
}

function stripAddRow(model, row, strip, parts, whole) {
	const { slices: s, cells: c } = model;

	for (let i = row.i0; i < row.i1; i++) {
		const kind = s.flags[i] & 3;

		if (kind !== DROP && s.len[i] > 0)
			stripAdd(strip, parts[kind], whole[kind], s.start[i], s.start[i] + s.len[i], s.len[i]);
	}
	for (let j = row.j0; j < row.j1; j++)
		for (let k = 0; k < 2; k++)
			if (c.ns[k][j] > 0)
				stripAdd(strip, parts[k], whole[k], c.start[j], c.start[j] + row.width, c.ns[k][j]);
}

function stripSum(strip, k, t) {
	const x = (t - strip.from) / strip.step;

	if (x <= 0) return 0;
	if (x >= strip.n) return strip.sums[k][strip.n];
	const i = Math.floor(x);
	const sums = strip.sums[k];
	return sums[i] + (sums[i + 1] - sums[i]) * (x - i);
}

/* Adds the times waited (out[0]) and held (out[1]) by all threads of the process to the columns. */
function stripColumns(model, process, t0, step, n, out) {
	const strip = process.strip;

	if (step >= strip.step) {
		for (let k = 0; k < 2; k++) {
			let before = stripSum(strip, k, t0);

			for (let x = 0; x < n; x++) {
				const sum = stripSum(strip, k, t0 + (x + 1) * step);

				out[k][x] += sum - before;
				before = sum;
			}
		}
		return;
	}
	/* Deep in: there is little to see, so each slice is looked at. */
	const t1 = t0 + n * step;
	const { slices: s, cells: c } = model;
	for (const row of process.rows) {
		const [i0, i1] = slicesIn(model, row, t0, t1);
		const [j0, j1] = cellsIn(model, row, t0, t1);

		for (let i = i0; i < i1; i++)
			if ((s.flags[i] & 3) !== DROP && s.len[i] > 0)
				spread(
					out[s.flags[i] & 3],
					t0,
					step,
					n,
					s.start[i],
					s.start[i] + s.len[i],
					s.len[i],
				);
		for (let j = j0; j < j1; j++)
			for (let k = 0; k < 2; k++)
				if (c.ns[k][j] > 0)
					spread(out[k], t0, step, n, c.start[j], c.start[j] + row.width, c.ns[k][j]);
	}
}

function makeStrips(model) {
	const bins = Math.max(1024, Math.min(65536, Math.floor((1 << 20) / model.processes.length)));

	for (const process of model.processes) makeStrip(model, process, bins);
}

/* ---- looking for one ---- */

/* Time and number of the row's slices by kind in [t0, t1), those of cells by their part in it. */
function tally(model, row, t0, t1) {
	const out = { ns: [0, 0, 0], count: [0, 0, 0], forced: 0, cells: 0, exact: 0, longest: [0, 0] };
	const { slices: s, cells: c } = model;
	const [i0, i1] = slicesIn(model, row, t0, t1);
	const [j0, j1] = cellsIn(model, row, t0, t1);
	const columns = [0, 1, 2].map(() => new Float64Array(1));

	sliceColumns(model, row, t0, t1 - t0, 1, columns);
	cellColumns(model, row, t0, t1 - t0, 1, columns);
	out.ns = columns.map(a => Math.max(0, a[0]));
	out.exact = i1 - i0;
	out.cells = j1 - j0;
	for (let i = i0; i < i1; i++) {
		const kind = s.flags[i] & 3;

		out.count[kind]++;
		out.count[DROP] += s.flags[i] & F_DROP ? 1 : 0;
		out.forced += kind === HOLD && ((s.flags[i] >> F_FORCED) & 3) === FORCED_YES ? 1 : 0;
		if (kind !== DROP) out.longest[kind] = Math.max(out.longest[kind], s.len[i]);
	}
	for (let j = j0; j < j1; j++) {
		for (let k = 0; k < 3; k++) out.count[k] += c.count[k][j];
		out.forced += c.forced[j];
		for (let k = 0; k < 2; k++) out.longest[k] = Math.max(out.longest[k], c.longest[k][j]);
	}
	return out;
}

/* The slice of the row at t, or the nearest one within `near` ns; else the cell at t; else nothing. */
function findAt(model, row, t, near) {
	const { start, len } = model.slices;
	const after = above(start, row.i0, row.i1, t);
	let best = -1;
	let distance = near;

	for (const i of [after - 1, after, after - 2]) {
		if (i < row.i0 || i >= row.i1) continue;
		const d = Math.max(start[i] - t, t - start[i] - len[i], 0);

		if (d < distance || (d === 0 && best < 0)) {
			best = i;
			distance = d;
		}
	}
	if (best >= 0 && distance === 0) return { row, slice: best };
	const j = above(model.cells.start, row.j0, row.j1, t) - 1;
	if (j >= row.j0 && t < model.cells.start[j] + row.width) return { row, cell: j };
	return best >= 0 ? { row, slice: best } : null;
}

/* The row's longest slice of a kind that reaches into [t0, t1); -1: none is exact. */
function longestIn(model, row, kind, t0, t1) {
	const { start, len, flags } = model.slices;
	const [i0, i1] = slicesIn(model, row, t0, t1);
	let best = -1;
	let most = -1;

	for (let i = i0; i < i1; i++) {
		const part = Math.min(start[i] + len[i], t1) - Math.max(start[i], t0);

		if ((flags[i] & 3) === kind && part > most) {
			most = part;
			best = i;
		}
	}
	return best;
}
