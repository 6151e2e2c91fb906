// SPDX-License-Identifier: Apache-2.0
/*
 * Above the rows: the whole recording in one strip, with the window in it, and the ruler. The strip
 * shows how much of the time the GILs were held, and how many threads waited on average.
 */

const overview = $("overview");
const ruler = $("ruler");
let overviewColumns = null;

/* How much of the columns' time is known of. */
function addCoverage(columns, t0, step, process) {
	const { start, end } = process;
	const gils = gilsOf(process);

	spread(columns, t0, step, columns.length, start, end, (end - start) * gils);
	for (const gap of process.gaps)
		if (!gap.late && gap.end > gap.start)
			spread(columns, t0, step, columns.length, gap.start, gap.end, -gap.missing * gils);
}

/* Sums over all processes in as many columns as there are pixels. */
function overviewData(width) {
	if (overviewColumns && overviewColumns.width === width) return overviewColumns;
	const out = [new Float64Array(width), new Float64Array(width)];
	const covered = new Float64Array(width);
	const pauses = new Float64Array(width);
	const [t0, t1] = whole();
	const step = (t1 - t0) / width;
	let most = 0;

	for (const process of view.model.processes) {
		stripColumns(view.model, process, t0, step, width, out);
		/* Of one without events nothing is known. */
		if (!isSilent(process) && process.end > process.start) addCoverage(covered, t0, step, process);
	}
	for (const process of view.model.processes)
		for (const gap of process.gaps)
			if (gap.paused && gap.end > gap.start)
				spread(pauses, t0, step, width, gap.start, gap.end, gap.missing);
	const known = covered.map(ns => (ns > step * 0.001 ? 1 : 0));
	const used = out[1].map((held, x) => (known[x] ? Math.min(1, held / covered[x]) : 0));
	const waiting = out[0].map(ns => ns / step);
	const paused = pauses.map((ns, x) => (!known[x] && ns > step * 0.5 ? 1 : 0));
	for (const n of waiting) most = Math.max(most, n);
	$("waiting-key").lastChild.textContent = "waiting, max " + most.toFixed(1);
	overviewColumns = { width, t0, step, known, paused, used, waiting, most };
	return overviewColumns;
}

function overviewX(t, width) {
	const [t0, t1] = whole();

	return ((t - t0) / (t1 - t0)) * width;
}

/* Losses over pauses: they matter more. */
function drawOverviewGaps(g, width, height) {
	for (const paused of [1, 0])
		for (const process of view.model.processes)
			for (const gap of process.gaps) {
				const x = overviewX(gap.start, width);

				if (gap.paused !== paused) continue;
				g.fillStyle = view.colours.css[paused ? "pause-line" : "gap-line"];
				g.fillRect(x, height - 4, Math.max(2, overviewX(gap.end, width) - x), 4);
			}
}

/* One for each pixel. */
function drawOverviewMarks(g, width) {
	let last = -1;

	g.fillStyle = view.colours.css.mark;
	for (const t of view.model.markTimes) {
		const x = Math.floor(overviewX(t, width));

		if (x !== last) g.fillRect(x, 0, 1, 5);
		last = x;
	}
}

function drawOverviewWindow(g, width, height) {
	const x0 = Math.max(0, overviewX(view.t0, width));
	const x1 = Math.max(x0 + 2, Math.min(width, overviewX(view.t1, width)));

	if (x1 - x0 > width * 0.97) return;
	g.fillStyle = view.colours.css.surface;
	g.globalAlpha = 0.66;
	g.fillRect(0, 0, x0, height);
	g.fillRect(x1, 0, width - x1, height);
	g.globalAlpha = 1;
	g.strokeStyle = view.colours.css.accent;
	g.lineWidth = 1.5;
	g.strokeRect(x0 + 0.75, 0.75, Math.max(1, x1 - x0 - 1.5), height - 1.5);
	if (x1 - x0 > 14) {
		g.fillStyle = view.colours.css.accent;
		g.fillRect(x0, height / 2 - 8, 3.5, 16);
		g.fillRect(x1 - 3.5, height / 2 - 8, 3.5, 16);
	}
}

/* What does not change with the window is drawn once. */
let still = null;

function drawOverview(width, height) {
	const data = overviewData(width);
	const c = view.colours.css;

	still = { canvas: document.createElement("canvas"), data, colours: view.colours, height };
	fitCanvas(still.canvas, width, height);
	const g = still.canvas.getContext("2d");
	g.scale(still.canvas.dpr, still.canvas.dpr);
	g.fillStyle = c.surface;
	g.fillRect(0, 0, width, height);
	g.fillStyle = c.pause;
	for (let x = 0; x < width; x++) if (data.paused[x]) g.fillRect(x, 0, 1, height);
	g.fillStyle = c.strip;
	g.beginPath();
	for (let x = 0; x < width; x++)
		if (data.used[x] > 0)
			g.rect(x, height - Math.max(1, data.used[x] * (height - 6)), 1, height);
	g.fill();
	/* The line on a ground of its own, so that it is seen on any. */
	for (const [colour, thick] of data.most > 0
		? [
				[c.surface, 3.5],
				[c["wait-line"], 1.5],
			]
		: []) {
		g.strokeStyle = colour;
		g.lineWidth = thick;
		g.lineJoin = "round";
		g.beginPath();
		for (let x = 0; x < width; x++)
			if (data.known[x])
				/* no line where nothing is known */
				g[data.known[x - 1] ? "lineTo" : "moveTo"](
					x + 0.5,
					height - 3 - (data.waiting[x] / data.most) * (height - 9),
				);
		g.stroke();
	}
	drawOverviewGaps(g, width, height);
	drawOverviewMarks(g, width);
}

function paintOverview() {
	const width = Math.floor(view.width);
	const height = overview.parentNode.clientHeight;
	const changed = fitCanvas(overview, width, height);
	const g = overview.getContext("2d");

	if (
		changed ||
		!still ||
		still.data !== overviewColumns ||
		still.colours !== view.colours ||
		still.height !== height
	)
		drawOverview(width, height);
	g.setTransform(1, 0, 0, 1, 0, 0);
	g.drawImage(still.canvas, 0, 0);
	g.scale(overview.dpr, overview.dpr);
	drawOverviewWindow(g, width, height);
}

/* Ticks of the window; where they need many digits, they count from a round time beside the ruler. */
function placeTicks() {
	const step = niceStep(nsPerPixel() * 96);
	const ticks = [];

	for (let k = Math.ceil(view.t0 / step); k * step <= view.t1 && ticks.length < 200; k++)
		ticks.push(k * step);
	view.ticks = ticks;
	view.tickStep = step;
	view.tickBase =
		step < 1e5 ? Math.max(0, Math.floor(view.t0 / (step * 100)) * step * 100) : null;
}

function paintRuler() {
	const height = ruler.parentNode.clientHeight;

	fitCanvas(ruler, view.width, height);
	const g = ruler.getContext("2d");
	const c = view.colours.css;
	g.setTransform(ruler.dpr, 0, 0, ruler.dpr, 0, 0);
	g.fillStyle = c.surface;
	g.fillRect(0, 0, view.width, height);
	g.font = view.colours.font;
	g.textBaseline = "middle";
	for (const t of view.ticks) {
		const x = Math.round(toX(t));
		const text =
			view.tickBase === null
				? fmtTime(t, view.tickStep)
				: fmtOffset(t - view.tickBase, view.tickStep);

		g.fillStyle = c.line;
		g.fillRect(x, height - 7, 1, 7);
		g.fillStyle = c.muted;
		if (x + 4 + g.measureText(text).width <= view.width)
			g.fillText(text, x + 4, height / 2 + 1);
	}
	$("tl-side").textContent = view.tickBase ? fmtTime(view.tickBase) + " +" : "Threads";
	const from = Math.max(0, view.t0);
	const to = Math.min(view.model.end, view.t1);
	$("window").textContent =
		fmtDur(Math.max(0, to - from), 3) + " from " + fmtTime(from, nsPerPixel() * 10);
}
