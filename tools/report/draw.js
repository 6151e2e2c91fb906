// SPDX-License-Identifier: Apache-2.0
/*
 * The picture of the rows. What is smaller than a pixel is added up in columns of pixels: hold from
 * the ground up, then drop, then wait, each as high as its share of that time; wider slices are
 * blocks. Columns and blocks are put into one picture in memory, which costs the same however many
 * there are; marks and words are drawn over it.
 */

const BLOCK_MIN = 2; /* device pixels: narrower slices are part of a column */
const CELL_MIN = 4; /* pixels: narrower cells are part of a column */
const WORDS_MAX = 300;
const PAUSE_ROOM = 60; /* pixels: a shorter pause has no words */

const canvas = $("canvas");
const context = canvas.getContext("2d", { alpha: false });
let raster = null;
let columns = null;

function toX(t) {
	return (t - view.t0) / nsPerPixel();
}

/* Lines that move along with the slices. */
function setHatch(dpr) {
	const period = Math.round(5 * dpr);
	const x = Math.round((view.t0 / nsPerPixel()) * dpr) % period;

	raster.setHatch(period, Math.max(1, Math.round(1.2 * dpr)), ((x + period) % period) + period);
}

/* ---- grounds: rows, grid, what was not recorded, losses ---- */

function devX(t, dpr) {
	return Math.round(((t - view.t0) / nsPerPixel()) * dpr);
}

function paintGround(item, y0, y1, dpr) {
	const c = view.colours;
	const w = raster.width;

	raster.fill(
		0,
		w,
		y0,
		y1,
		item.row ? (item.row === view.active ? c["row-active"] : c.row) : c.process,
	);
	for (const t of view.ticks || []) raster.fill(devX(t, dpr), devX(t, dpr) + 1, y0, y1, c.grid);
	raster.fill(0, devX(item.process.start, dpr), y0, y1, c.outside);
	raster.fill(devX(item.process.end, dpr), w, y0, y1, c.outside);
	if (item.row) raster.fill(0, w, y1 - 1, y1, c.line);
}

/* Over columns, since nothing is known there; slices beside it end at it. */
function paintGaps(item, y0, y1, dpr) {
	const c = view.colours;
	const period = Math.round(5 * dpr);

	for (const gap of item.process.gaps) {
		if (gap.end < view.t0 || gap.start > view.t1) continue;
		const x0 = devX(gap.start, dpr);
		const x1 = Math.max(devX(gap.end, dpr), x0 + Math.round(2 * dpr));

		if (gap.paused)
			raster.level(x0, x1, y0, y1, c.pause, c["pause-line"], period, Math.round(dpr));
		else raster.hatch(x0, x1, y0, y1, c.gap, c["gap-line"]);
	}
}

/* ---- columns ---- */

let tops = null; /* where hold, drop and wait begin, in pixels from above */

function clearColumns() {
	const n = raster.width;

	if (!columns || columns[0].length !== n) {
		columns = [0, 1, 2].map(() => new Float64Array(n));
		tops = [0, 1, 2].map(() => new Int32Array(n));
	} else {
		columns.forEach(a => a.fill(0));
	}
}

/* Something is always seen of what is there. Returns from where to where there is anything. */
function stackColumns(y0, y1, step) {
	const [wait, hold, drop] = columns;
	const [holdTop, dropTop, waitTop] = tops;
	const high = y1 - y0;
	const scale = high / step;
	let first = -1;
	let last = -1;

	for (let x = 0; x < raster.width; x++) {
		const w = wait[x];
		const h = hold[x];
		const d = drop[x];

		if (!(w + h + d > 0)) {
			waitTop[x] = y1;
			continue;
		}
		let nh = h > 0 ? Math.max(1, Math.round(h * scale)) : 0;
		let nw = w > 0 ? Math.max(1, Math.round(w * scale)) : 0;
		const nd = d > 0 ? Math.round(d * scale) : 0;
		if (nh + nd + nw > high) {
			if (nh > nw) nh = Math.max(1, high - nd - nw);
			else nw = Math.max(1, high - nd - nh);
		}
		holdTop[x] = y1 - nh;
		dropTop[x] = holdTop[x] - nd;
		waitTop[x] = Math.max(y0, dropTop[x] - nw);
		first = first < 0 ? x : first;
		last = x;
	}
	return [first, last];
}

function paintColumns(y0, y1, step) {
	const c = view.colours;
	const pixels = raster.pixels;
	const period = raster.period;
	const [first, last] = stackColumns(y0, y1, step);
	const [holdTop, dropTop, waitTop] = tops;
	const lines = raster.hatchLine(c.wait, c["wait-line"]);
	const { hold, drop } = c;

	if (first < 0) return;
	for (let y = Math.max(0, y0); y < Math.min(raster.height, y1); y++) {
		const at = y * raster.width;
		const phase = (y + raster.slip) % period;

		for (let x = first; x <= last; x++)
			if (y >= waitTop[x])
				pixels[at + x] = y >= holdTop[x] ? hold : y >= dropTop[x] ? drop : lines[phase + x];
	}
}

/* ---- blocks ---- */

function touchesGap(process, t) {
	return process.gaps.some(gap => Math.abs(gap.start - t) < 2 || Math.abs(gap.end - t) < 2);
}

/* Which ends of a slice are not what was recorded: [start, end]. */
function openEnds(row, i) {
	const s = view.model.slices;
	const open = s.open[i];
	const cut = open & (OPEN_LOST | OPEN_PAUSED);

	if (!open) return [false, false];
	return [
		Boolean(open & OPEN_START) || (cut && touchesGap(row.process, s.start[i])),
		Boolean(open & OPEN_END) || (cut && touchesGap(row.process, s.start[i] + s.len[i])),
	];
}

function paintBlock(row, i, x0, x1, y0, y1, dpr) {
	const c = view.colours;
	const s = view.model.slices;
	const kind = s.flags[i] & 3;
	const edge = x1 - x0 >= 6 * dpr;

	if (kind === HOLD) {
		raster.fill(x0, x1, y0, y1, c.hold);
		if (edge) raster.fill(x0, x0 + Math.round(dpr), y0, y1, c["hold-edge"]);
	} else if (kind === TAKE) {
		raster.hatch(x0, x1, y0, y1, c.wait, c["wait-line"]);
		if (edge) raster.fill(x0, x0 + Math.round(dpr), y0, y1, c["wait-line"]);
	} else {
		raster.fill(x0, x1, y1 - Math.ceil((y1 - y0) * 0.4), y1, c.drop);
	}
	if (s.open[i]) {
		const [start, end] = openEnds(row, i);
		const length = Math.round(Math.min(14 * dpr, (x1 - x0) / 2));
		const ground = row === view.active ? c["row-active"] : c.row;

		if (start) raster.fade(x0, length, y0, y1, ground);
		if (end) raster.fade(x1 - 1, -length, y0, y1, ground);
	}
}

/* ---- a row ---- */

/* Blocks and marks to be drawn over the picture: [row, slice, x0, x1, y0, y1]. */
let words = [];
/* Cells with room for words: [cell, x0, x1, y0, y1], where nothing else is drawn. */
let cellWords = [];

function paintSlices(row, y0, y1, dpr, step) {
	const s = view.model.slices;
	const blocks = [];
	const [i0, i1] = slicesIn(view.model, row, view.t0, view.t1);

	if (i1 - i0 > raster.width * 2) {
		sliceColumns(view.model, row, view.t0, step, raster.width, columns);
		return blocks;
	}
	for (let i = i0; i < i1; i++) {
		const x0 = Math.round((s.start[i] - view.t0) / step);
		const x1 = Math.round((s.start[i] + s.len[i] - view.t0) / step);

		if (x1 - x0 >= BLOCK_MIN) blocks.push([row, i, x0, x1, y0, y1]);
		else if (s.len[i] > 0)
			spread(
				columns[s.flags[i] & 3],
				view.t0,
				step,
				raster.width,
				s.start[i],
				s.start[i] + s.len[i],
				s.len[i],
			);
		else if (s.open[i] & OPEN_UNKNOWN && words.length < WORDS_MAX)
			words.push([row, i, x0, x1, y0, y1]);
	}
	return blocks;
}

/*
 * Cells that are seen as such: what is in them lies beside the slices that are drawn in the same time,
 * so it is spread over what they leave free.
 */
function paintCells(row, y0, y1, dpr, step) {
	const { slices: s, cells: c } = view.model;
	const [j0, j1] = cellsIn(view.model, row, view.t0, view.t1);

	for (let j = j0; j < j1; j++) {
		const end = c.start[j] + row.width;
		const [i0, i1] = slicesIn(view.model, row, c.start[j], end);
		const free = [];
		let at = c.start[j];
		let room = 0;

		for (let i = i0; i <= i1; i++) {
			const until = i < i1 ? Math.min(s.start[i], end) : end;

			if (until > at) {
				free.push([at, until]);
				room += until - at;
			}
			if (i < i1) at = Math.max(at, s.start[i] + s.len[i]);
		}
		for (const [from, to] of free)
			for (let k = 0; k < 3; k++)
				spread(
					columns[k],
					view.t0,
					step,
					raster.width,
					from,
					to,
					(c.ns[k][j] * (to - from)) / room,
				);
		if (free.length && row.width / step > 120 * dpr && cellWords.length < WORDS_MAX)
			cellWords.push([
				j,
				(free[0][0] - view.t0) / step,
				(free[0][1] - view.t0) / step,
				y0,
				y1,
			]);
	}
}

function paintRow(item, y0, y1, dpr, step) {
	const pad = Math.round(3 * dpr);

	y0 += pad;
	y1 -= pad;
	clearColumns();
	const blocks = paintSlices(item.row, y0, y1, dpr, step);
	if (item.row.width / step >= CELL_MIN * dpr) paintCells(item.row, y0, y1, dpr, step);
	else if (item.row.j0 < item.row.j1)
		cellColumns(view.model, item.row, view.t0, step, raster.width, columns);
	paintColumns(y0, y1, step);
	for (const block of blocks) {
		paintBlock(...block, dpr);
		if (block[3] - block[2] > 14 * dpr && words.length < WORDS_MAX) words.push(block);
	}
}

function gilsOf(process) {
	return Math.max(1, process.gils || 1);
}

/* The row of a process: how much of the time its GIL was held, as an area. */
function paintStrip(item, y0, y1, dpr, step) {
	const c = view.colours;
	const pad = Math.round(4 * dpr);
	const high = y1 - y0 - 2 * pad;
	const bottom = y1 - pad;

	clearColumns();
	stripColumns(view.model, item.process, view.t0, step, raster.width, columns);
	for (let x = 0, from = 0, before = 0; x <= raster.width; x++) {
		const used = x < raster.width ? columns[1][x] / step / gilsOf(item.process) : 0;
		const now = used > 0 ? Math.max(1, Math.round(Math.min(1, used) * high)) : 0;

		if (now === before && x < raster.width) continue;
		if (before) raster.fill(from, x, bottom - before, bottom, c.strip);
		from = x;
		before = now;
	}
}

/* ---- over the picture ---- */

function drawForced(x, y0, y1) {
	context.fillStyle = view.colours.css["hold-text"];
	context.beginPath();
	context.moveTo(x - 7, y0 + 1.5);
	context.lineTo(x - 1, y0 + 1.5);
	context.lineTo(x - 1, y0 + 7.5);
	context.fill();
}

function drawDiamond(x, y0, y1, kind) {
	const y = (y0 + y1) / 2;

	context.strokeStyle = view.colours.css.text;
	context.fillStyle = view.colours.css[kind === HOLD ? "hold" : "wait"];
	context.lineWidth = 1;
	context.beginPath();
	context.moveTo(x, y - 5);
	context.lineTo(x + 4, y);
	context.lineTo(x, y + 5);
	context.lineTo(x - 4, y);
	context.closePath();
	context.fill();
	context.stroke();
}

function drawEnded(x, y0, y1) {
	const y = (y0 + y1) / 2;

	context.strokeStyle = view.colours.css.text;
	context.lineWidth = 1.5;
	context.beginPath();
	context.moveTo(x - 3, y - 4);
	context.lineTo(x + 3, y + 4);
	context.moveTo(x - 3, y + 4);
	context.lineTo(x + 3, y - 4);
	context.stroke();
}

function wordsOf(row, i) {
	const s = view.model.slices;
	const blocker = s.blocker[i];

	if ((s.flags[i] & 3) !== TAKE || blocker < 0) return fmtDur(s.len[i], 3);
	return fmtDur(s.len[i], 3) + " ← " + view.model.rows[blocker].title;
}

function drawWords(dpr) {
	const s = view.model.slices;
	const c = view.colours.css;

	context.font = view.colours.font;
	context.textBaseline = "middle";
	for (const [row, i, dx0, dx1, dy0, dy1] of words) {
		const kind = s.flags[i] & 3;
		const x1 = dx1 / dpr;
		const y0 = dy0 / dpr;
		const y1 = dy1 / dpr;
		const left = Math.max(dx0 / dpr, 0);
		const right = Math.min(x1, view.width);

		if (s.open[i] & OPEN_UNKNOWN && !s.len[i]) {
			drawDiamond(dx0 / dpr, y0, y1, kind);
			continue;
		}
		if (s.open[i] & (OPEN_EXIT | OPEN_FINALIZING) && x1 <= view.width + 4)
			drawEnded(x1, y0, y1);
		if (kind === HOLD && ((s.flags[i] >> F_FORCED) & 3) === FORCED_YES && x1 <= view.width + 8)
			drawForced(x1, y0, y1);
		if (right - left < 52 || kind === DROP) continue;
		const text = wordsOf(row, i);
		const room = right - left - 18;
		const fits = context.measureText(text).width <= room;
		const shown = fits ? text : fmtDur(s.len[i], 3);
		const width = context.measureText(shown).width;

		if (width > room) continue;
		if (kind === TAKE) {
			/* words need an even ground */
			context.fillStyle = c.wait;
			context.fillRect(left + 4, y0 + 1, width + 6, y1 - y0 - 2);
		}
		context.fillStyle = kind === HOLD ? c["hold-text"] : c["wait-text"];
		context.fillText(shown, left + 7, (y0 + y1) / 2 + 0.5);
	}
}

/* How many slices a cell stands for, and where it begins. */
function drawCellWords(dpr) {
	const c = view.model.cells;
	const css = view.colours.css;

	for (const [j, dx0, dx1, dy0, dy1] of cellWords) {
		const left = Math.max(dx0 / dpr, 0);
		const right = Math.min(dx1 / dpr, view.width);
		const text = fmtInt(c.count[0][j] + c.count[1][j] + c.count[2][j]) + " slices";
		const width = context.measureText(text).width;

		context.fillStyle = css["gap-line"];
		if (dx0 >= 0) context.fillRect(Math.round(left), dy0 / dpr, 1, (dy1 - dy0) / dpr);
		if (right - left < width + 18) continue;
		context.fillStyle = css.row;
		context.globalAlpha = 0.82;
		context.fillRect(left + 4, dy0 / dpr + 1, width + 6, (dy1 - dy0) / dpr - 2);
		context.globalAlpha = 1;
		context.fillStyle = css.muted;
		context.fillText(text, left + 7, (dy0 + dy1) / dpr / 2 + 0.5);
	}
}

/* In the rows of the processes: how long they were paused. */
function drawPauses(items, scroll) {
	const c = view.colours.css;

	for (const item of items) {
		if (item.row) continue;
		for (const gap of item.process.gaps) {
			const left = Math.max(0, toX(gap.start));
			const right = Math.min(view.width, toX(gap.end));

			if (!gap.paused || right - left < PAUSE_ROOM) continue;
			const text = "paused " + fmtDur(gap.missing, 3);
			const width = context.measureText(text).width;
			const x = (left + right - width) / 2;

			if (width + 20 > right - left) continue;
			context.fillStyle = c.pause;
			context.fillRect(x - 5, item.y - scroll + 6, width + 10, item.h - 12);
			context.fillStyle = c.muted;
			context.fillText(text, x, item.y - scroll + item.h / 2 + 0.5);
		}
	}
}

function drawSelection(items, scroll) {
	const what = view.selected;
	const item =
		what && (what.row ? itemOf(what.row) : view.items.find(i => i.process === what.process));

	if (!item) return;
	if (what.mark) {
		drawSelectedMark(what.mark, items, scroll);
		return;
	}
	const [start, len] = stretchOf(what);
	const x0 = toX(start);
	const x1 = Math.max(toX(start + len), x0 + 2);
	const y = item.y - scroll;
	const clip = (x, d) => Math.min(Math.max(x, -10), view.width + 10) + d;

	context.fillStyle = view.colours.css.accent;
	context.globalAlpha = 0.07;
	context.fillRect(clip(x0, 0), 0, clip(x1, 0) - clip(x0, 0), canvas.height);
	context.globalAlpha = 1;
	context.strokeStyle = view.colours.css.accent;
	context.lineWidth = 2;
	context.strokeRect(clip(x0, -1), y + 2, clip(x1, 1) - clip(x0, -1), item.h - 4);
	drawBlockerLink(what, y + item.h / 2, scroll, clip);
}

/* From a wait to the thread that had the GIL meanwhile. */
function drawBlockerLink(what, y, scroll, clip) {
	const blocker = blockerOf(what);
	const item = blocker && itemOf(blocker.row);

	if (!item) return;
	const [start, len] = stretchOf(blocker);
	const [from, length] = stretchOf(what);
	const x0 = clip(toX(start), -1);
	const x1 = Math.max(clip(toX(start + len), 1), x0 + 3);
	const to = item.y - scroll;
	const x = Math.min(
		Math.max(toX((Math.max(start, from) + Math.min(start + len, from + length)) / 2), 4),
		view.width - 4,
	);
	const edge = to > y ? to + 2 : to + item.h - 2;
	const dir = to > y ? 1 : -1;

	context.setLineDash([4, 3]);
	context.strokeRect(x0, to + 2, x1 - x0, item.h - 4);
	context.beginPath();
	context.moveTo(x, y + dir * (ROW_H / 2 - 2));
	context.lineTo(x, edge);
	context.stroke();
	context.setLineDash([]);
	context.fillStyle = view.colours.css.accent;
	context.beginPath();
	context.moveTo(x, edge);
	context.lineTo(x - 4, edge - dir * 7);
	context.lineTo(x + 4, edge - dir * 7);
	context.fill();
}

function drawBrush() {
	if (!view.brush) return;
	const x0 = toX(view.brush.t0);
	const x1 = toX(view.brush.t1);
	const text = fmtDur(Math.abs(view.brush.t1 - view.brush.t0));

	context.fillStyle = view.colours.css.accent;
	context.globalAlpha = 0.15;
	context.fillRect(Math.min(x0, x1), 0, Math.abs(x1 - x0), canvas.height);
	context.globalAlpha = 1;
	context.font = view.colours.font;
	context.textBaseline = "middle";
	context.fillText(text, Math.min(x0, x1) + 6, 12);
}

/* ---- all of it ---- */

/* Items in sight: those from the first that ends below the upper edge on. */
function itemsInSight(scroll, height) {
	let lo = 0;
	let hi = view.items.length;

	while (lo < hi) {
		const mid = (lo + hi) >> 1;

		if (view.items[mid].y + view.items[mid].h > scroll) hi = mid;
		else lo = mid + 1;
	}
	let end = lo;

	while (end < view.items.length && view.items[end].y < scroll + height) end++;
	return view.items.slice(lo, end);
}

function paintRows() {
	const box = $("rows");
	const height = Math.max(1, box.clientHeight);
	const scroll = box.scrollTop;

	fitCanvas(canvas, view.width, height);
	const dpr = canvas.dpr;
	if (!raster || raster.width !== canvas.width || raster.height !== canvas.height)
		raster = new Raster(canvas.width, canvas.height);
	raster.pixels.fill(view.colours.surface);
	setHatch(dpr);
	words = [];
	cellWords = [];
	const step = (view.t1 - view.t0) / raster.width;
	const items = itemsInSight(scroll, height);
	for (const item of items) {
		const y0 = Math.round((item.y - scroll) * dpr);
		const y1 = Math.round((item.y + item.h - scroll) * dpr);

		paintGround(item, y0, y1, dpr);
		if (item.row) paintRow(item, y0, y1, dpr, step);
		else paintStrip(item, y0, y1, dpr, step);
		paintGaps(item, y0, y1, dpr);
	}
	context.setTransform(1, 0, 0, 1, 0, 0);
	context.putImageData(raster.image, 0, 0);
	context.scale(dpr, dpr);
	drawMarks(items, scroll);
	drawWords(dpr);
	drawCellWords(dpr);
	drawPauses(items, scroll);
	drawSelection(items, scroll);
	drawBrush();
}
