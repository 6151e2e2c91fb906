// SPDX-License-Identifier: Apache-2.0
/*
 * What the timeline shows: the window of time, which rows, what is selected. Whoever changes it asks
 * for a redraw, which happens once per frame.
 */

const ROW_H = 22;
const PROCESS_H = 30;
const SPAN_MIN = 50; /* ns: closer there is nothing to see */
const OPEN_ROWS = 400; /* with more threads than that, processes begin closed */

const view = {
	model: null,
	colours: null,
	t0: 0,
	t1: 1 /* the window, ns from the base */,
	items: [],
	height: 0 /* rows from top to bottom: {y, h, process, row (none: the process's)} */,
	filter: "",
	sort: "busy",
	active: null /* row that the keys work on */,
	/*
	 * {row, slice} or {row, cell}: indices into the model's arrays; {process, gap};
	 * {process, row (null: no thread's), mark}
	 */
	selected: null,
	brush: null /* {t0, t1} while a part is being chosen */,
	width: 0 /* of the picture, in pixels */,
	back: [] /* earlier windows */,
	drawn: 0,
	frameMs: 0 /* frames so far; what the latest cost */,
};

const listeners = { window: [], rows: [], selection: [] };

function when(what, fn) {
	listeners[what].push(fn);
}

function tell(what) {
	for (const fn of listeners[what]) fn();
}

/* ---- redrawing ---- */

let pending = false;
const painters = [];

function onPaint(fn) {
	painters.push(fn);
}

function paintNow() {
	const began = performance.now();

	pending = false;
	for (const fn of painters) fn();
	view.drawn++;
	view.frameMs = performance.now() - began;
}

function redraw() {
	if (!pending) {
		pending = true;
		requestAnimationFrame(() => pending && paintNow());
	}
}

/* ---- the window ---- */

/* All there is, with a little room: what the overview shows. */
function whole() {
	return [-view.model.end * 0.005, view.model.end * 1.005];
}

function limits() {
	const margin = view.model.end * 0.02;

	return [-margin, view.model.end + margin];
}

function nsPerPixel() {
	return (view.t1 - view.t0) / Math.max(view.width, 1);
}

function setWindow(t0, t1) {
	const [low, high] = limits();
	let span = Math.min(Math.max(t1 - t0, SPAN_MIN), high - low);
	const middle = (t0 + t1) / 2;

	if (t1 - t0 !== span) t0 = middle - span / 2;
	t0 = Math.min(Math.max(t0, low), high - span);
	view.t0 = t0;
	view.t1 = t0 + span;
	tell("window");
	redraw();
}

let moving = 0; /* the next frame of a glide; 0: the window stands still */

function stopMoving() {
	cancelAnimationFrame(moving);
	moving = 0;
}

/* Goes there in a few frames, so that the eye can follow. */
function glideTo(t0, t1) {
	const from = [view.t0, view.t1];
	const began = performance.now();
	const ms = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 180;

	stopMoving();
	view.back.push(from);
	if (view.back.length > 50) view.back.shift();
	const step = now => {
		const x = ms ? Math.min(1, Math.max(0, (now - began) / ms)) : 1;
		const part = 1 - (1 - x) ** 3;

		setWindow(from[0] + (t0 - from[0]) * part, from[1] + (t1 - from[1]) * part);
		moving = x < 1 ? requestAnimationFrame(step) : 0;
	};
	step(began);
}

function goBack() {
	const to = view.back.pop();

	if (to) {
		glideTo(to[0], to[1]);
		view.back.pop();
	}
}

function zoomAt(t, factor) {
	stopMoving();
	const span = Math.max(SPAN_MIN, (view.t1 - view.t0) * factor);
	const part = (t - view.t0) / (view.t1 - view.t0);

	setWindow(t - span * part, t + span * (1 - part));
}

function panBy(ns) {
	stopMoving();
	setWindow(view.t0 + ns, view.t1 + ns);
}

function showAll() {
	glideTo(...whole());
}

/* Shows [start, start + len) with some room around it. */
function showStretch(start, len) {
	const room = Math.max(len * 0.6, SPAN_MIN * 4);

	glideTo(start - room, start + len + room);
}

/* ---- rows ---- */

const ORDERS = {
	busy: (a, b) => b.ns[TAKE] + b.ns[HOLD] - a.ns[TAKE] - a.ns[HOLD],
	wait: (a, b) => b.ns[TAKE] - a.ns[TAKE],
	hold: (a, b) => b.ns[HOLD] - a.ns[HOLD],
	id: (a, b) => a.tid - b.tid,
};

/* The main thread is where people look first. */
function sortedRows(process) {
	const order = ORDERS[view.sort];
	const main = row => (view.sort === "busy" && row.tid === process.main ? 0 : 1);

	return process.rows.slice().sort((a, b) => main(a) - main(b) || order(a, b) || a.tid - b.tid);
}

function layout() {
	const wanted = view.filter.toLowerCase();
	const items = [];
	let y = 0;
	let found = 0;
	const add = (h, process, row) => {
		items.push({ y, h, process, row });
		y += h;
	};

	for (const process of view.model.processes) {
		const whole = wanted && process.title.toLowerCase().includes(wanted);
		const rows = sortedRows(process).filter(
			row => !wanted || whole || row.title.toLowerCase().includes(wanted),
		);

		if (wanted && !rows.length && !whole) continue;
		found += rows.length;
		add(PROCESS_H, process, null);
		if (process.open || wanted) for (const row of rows) add(ROW_H, process, row);
	}
	view.items = items;
	view.height = y;
	view.found = found;
	if (view.active && !items.some(item => item.row === view.active)) view.active = null;
	tell("rows");
	redraw();
}

function itemOf(row) {
	return view.items.find(item => item.row === row);
}

/* Makes sure that the row is there and in sight. */
function revealRow(row) {
	if (!itemOf(row)) {
		row.process.open = true;
		if (view.filter) {
			view.filter = "";
			$("search").value = "";
		}
		layout();
	}
	const item = itemOf(row);
	const box = $("rows");

	if (item && (item.y < box.scrollTop || item.y + item.h > box.scrollTop + box.clientHeight))
		box.scrollTop = item.y - box.clientHeight / 2 + item.h / 2;
	view.active = row;
	redraw();
}

/* Makes sure that some of the process is in sight. */
function revealProcess(process) {
	const ofIt = () => view.items.filter(item => item.process === process);
	const box = $("rows");

	if (!ofIt().length) {
		view.filter = "";
		$("search").value = "";
		layout();
	}
	const items = ofIt();
	const last = items[items.length - 1];

	if (items[0].y >= box.scrollTop + box.clientHeight || last.y + last.h <= box.scrollTop)
		box.scrollTop = items[0].y;
	redraw();
}

/* ---- the selection ---- */

function select(what) {
	view.selected = what;
	if (what && what.row) view.active = what.row;
	tell("selection");
	placeLabels();
	redraw();
}

/* Start and length of what is selected, or of any such thing. */
function stretchOf(what) {
	const { slices, cells } = view.model;

	if (what.mark) return [what.mark.at, 0];
	if (what.gap) return [what.gap.start, what.gap.end - what.gap.start];
	if (what.slice !== undefined) return [slices.start[what.slice], slices.len[what.slice]];
	return [cells.start[what.cell], what.row.width];
}

function zoomTo(what) {
	if (what.mark) glideTo(...aroundMark(what.mark));
	else showStretch(...stretchOf(what));
}

function goTo(what) {
	if (what.row) revealRow(what.row);
	else revealProcess(what.process);
	zoomTo(what);
	select(what);
}

/* The next slice (or cell) of the row in this direction, as seen from `what` or the window. */
function neighbour(row, what, direction) {
	const { slices, cells } = view.model;
	const near = what && (what.row === row || !what.row);
	const here = near ? stretchOf(what)[0] : (view.t0 + view.t1) / 2;
	let i = above(slices.start, row.i0, row.i1, here) - 1;
	let j = above(cells.start, row.j0, row.j1, here) - 1;

	if (what && what.row === row && what.slice !== undefined) i = what.slice;
	if (direction > 0) {
		i++;
		j++;
	} else {
		if (what && what.row === row && what.slice !== undefined) i--;
		else while (i >= row.i0 && slices.start[i] >= here) i--;
		while (j >= row.j0 && cells.start[j] >= here) j--;
	}
	const hasSlice = i >= row.i0 && i < row.i1;
	const hasCell = j >= row.j0 && j < row.j1;
	const sliceFirst =
		hasSlice && (!hasCell || direction * (slices.start[i] - cells.start[j]) <= 0);

	return sliceFirst ? { row, slice: i } : hasCell ? { row, cell: j } : null;
}

/*
 * What held the GIL while the selected thread waited: the blocker's longest hold in that time, or the
 * cell that its holds are in.
 */
function blockerOf(what) {
	const { slices, cells, rows } = view.model;

	if (!what || what.slice === undefined || slices.blocker[what.slice] < 0) return null;
	const row = rows[slices.blocker[what.slice]];
	const start = slices.start[what.slice];
	const end = start + slices.len[what.slice];
	const slice = longestIn(view.model, row, HOLD, start, end);

	if (slice >= 0) return { row, slice };
	const [j0, j1] = cellsIn(view.model, row, start, end);
	let best = -1;

	for (let j = j0; j < j1; j++)
		if (best < 0 || cells.ns[HOLD][j] > cells.ns[HOLD][best]) best = j;
	return best < 0 ? null : { row, cell: best };
}
