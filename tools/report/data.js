// SPDX-License-Identifier: Apache-2.0
/*
 * From the blobs of the page (tools/html_write.c describes them) to the model that all else reads:
 * processes, rows, marks, and the slices and cells of all rows in typed arrays, row after row. Times
 * are ns from the base, exact in a double for 104 days.
 */

const TAKE = 0;
const HOLD = 1;
const DROP = 2;
const FORCED_NO = 1;
const FORCED_YES = 2;
const F_FORCED = 2;
const F_ACQUIRED = 1 << 4;
const F_DROP = 1 << 5;
const F_OPEN = 1 << 6;
const F_GIL = 1 << 7;
const OPEN_START = 1;
const OPEN_LOST = 2;
const OPEN_END = 4;
const OPEN_UNKNOWN = 8;
const OPEN_EXIT = 16;
const OPEN_FINALIZING = 32;
const OPEN_PAUSED = 128;
const NOT_DRAWN = -2; /* a blocker without a row */

function fromBase64(text) {
	if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
	const raw = atob(text.replace(/\s+/g, ""));
	const bytes = new Uint8Array(raw.length);

	for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
	return bytes;
}

async function readBlob(id) {
	const bytes = fromBase64($(id).textContent.trim());

	if (typeof DecompressionStream === "undefined")
		throw new Error("this browser has no DecompressionStream; one of 2023 or newer is needed");
	const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
	return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function readJson(id) {
	const text = new TextDecoder().decode(await readBlob(id));

	return text ? JSON.parse(text) : null;
}

/* All slices or cells, with sums up to each: sums[kind][i] is that of all before the i-th. */
function makeSlices(n) {
	return {
		n,
		start: new Float64Array(n),
		len: new Float64Array(n),
		flags: new Uint8Array(n),
		open: new Uint8Array(n),
		gil: new Uint8Array(n),
		blocker: new Int32Array(n),
		blockerNs: new Float64Array(n),
		nobody: new Float64Array(n),
		unknown: new Float64Array(n),
		sums: [0, 1, 2].map(() => new Float64Array(n + 1)),
	};
}

function makeCells(n) {
	return {
		n,
		start: new Float64Array(n),
		ns: [0, 1, 2].map(() => new Float64Array(n)),
		count: [0, 1, 2].map(() => new Float64Array(n)),
		forced: new Float64Array(n),
		longest: [0, 1].map(() => new Float64Array(n)),
		sums: [0, 1, 2].map(() => new Float64Array(n + 1)),
	};
}

/* Reads varints and bytes one after the other. */
class Reader {
	constructor(bytes) {
		this.bytes = bytes;
		this.at = 0;
	}

	varint() {
		const bytes = this.bytes;
		let b = bytes[this.at++];
		let value = b & 127;
		let scale = 128;

		while (b > 127) {
			b = bytes[this.at++];
			value += (b & 127) * scale;
			scale *= 128;
		}
		return value;
	}
}

function readSliceColumns(r, s, i0, i1) {
	for (let i = i0; i < i1; i++) s.flags[i] = r.bytes[r.at++];
	let end = 0;
	for (let i = i0; i < i1; i++) s.start[i] = r.varint();
	for (let i = i0; i < i1; i++) {
		s.len[i] = r.varint();
		s.start[i] += end;
		end = s.start[i] + s.len[i];
	}
	for (let i = i0; i < i1; i++) if (s.flags[i] & F_OPEN) s.open[i] = r.bytes[r.at++];
	for (let i = i0; i < i1; i++) if (s.flags[i] & F_GIL) s.gil[i] = r.bytes[r.at++];
}

/* `rows`: first row of the process, and how many it has. */
function readBlame(r, s, i0, i1, rows) {
	const takes = fn => {
		for (let i = i0; i < i1; i++) if ((s.flags[i] & 3) === TAKE) fn(i);
	};

	takes(i => {
		const blocker = r.varint();
		s.blocker[i] = blocker === 0 ? -1 : blocker > rows.n ? NOT_DRAWN : rows.first + blocker - 1;
	});
	takes(i => {
		s.unknown[i] = r.varint();
	});
	takes(i => {
		s.nobody[i] = r.varint();
	});
	takes(i => {
		if (s.blocker[i] !== -1)
			s.blockerNs[i] = s.len[i] - s.unknown[i] - s.nobody[i] - r.varint();
	});
}

function readCellColumns(r, c, j0, j1, width, base) {
	const column = array => {
		for (let j = j0; j < j1; j++) array[j] = r.varint();
	};
	const before = j0 < j1 ? Number(BigInt(base) % BigInt(width)) : 0;
	let index = 0;

	for (let j = j0; j < j1; j++) {
		index += r.varint();
		c.start[j] = index * width - before;
	}
	c.ns.forEach(column);
	c.count.forEach(column);
	column(c.forced);
	c.longest.forEach(column);
}

/* The marks of each process, in the order of time, and of all together. */
function readMarks(model, bytes) {
	const r = new Reader(bytes);
	const text = new TextDecoder();

	for (const process of model.processes) {
		const n = r.varint();
		const column = () => {
			const out = new Float64Array(n);

			for (let i = 0; i < n; i++) out[i] = r.varint();
			return out;
		};

		if (n > bytes.length) throw new Error("the page's data are damaged");
		const times = column();
		const tids = column();
		const lengths = column();
		const byTid = new Map(process.rows.map(row => [row.tid, row]));

		for (let i = 1; i < n; i++) times[i] += times[i - 1];
		process.markTimes = times;
		process.marks = Array.from(times, (at, i) => {
			const name = text.decode(r.bytes.subarray(r.at, r.at + lengths[i]));

			r.at += lengths[i];
			return {
				at,
				process,
				number: i,
				tid: tids[i],
				row: byTid.get(tids[i]) || null,
				title: clean(name).trim() || "(no name)",
				since: i ? at - times[i - 1] : NaN,
			};
		});
	}
	if (r.at !== bytes.length) throw new Error("the page's data are damaged");
}

function joinMarks(model) {
	model.marks = model.processes.flatMap(process => process.marks);
	model.marks.sort((a, b) => a.at - b.at);
	model.marks.forEach((mark, index) => {
		mark.index = index;
	});
	model.markTimes = Float64Array.from(model.marks, mark => mark.at);
}

function addUp(model) {
	const { slices: s, cells: c } = model;

	for (let i = 0; i < s.n; i++)
		for (let k = 0; k < 3; k++)
			s.sums[k][i + 1] = s.sums[k][i] + ((s.flags[i] & 3) === k ? s.len[i] : 0);
	for (let j = 0; j < c.n; j++)
		for (let k = 0; k < 3; k++) c.sums[k][j + 1] = c.sums[k][j] + c.ns[k][j];
	for (const row of model.rows) {
		row.ns = [0, 1, 2].map(
			k => s.sums[k][row.i1] - s.sums[k][row.i0] + c.sums[k][row.j1] - c.sums[k][row.j0],
		);
		row.count = [0, 0, 0];
		for (let i = row.i0; i < row.i1; i++) {
			row.count[s.flags[i] & 3]++;
			if (s.flags[i] & F_DROP) row.count[DROP]++;
		}
		for (let k = 0; k < 3; k++)
			for (let j = row.j0; j < row.j1; j++) row.count[k] += c.count[k][j];
	}
}

/* A short name for a process: what its lane is called, without the words that all have. */
function processName(p) {
	const name = clean(p.name || "").replace(/^GIL Trace: /, "");

	return name || "process " + p.pid;
}

/* Children of one process have its name and its rank: then the pid tells them apart. */
function nameApart(processes) {
	const titles = new Map();
	const ranks = new Map();
	const count = (map, key) => map.set(key, (map.get(key) || 0) + 1);

	for (const p of processes) {
		count(titles, p.title);
		count(ranks, p.rank);
	}
	for (const p of processes) {
		p.short =
			p.rank !== undefined && ranks.get(p.rank) === 1 ? "rank " + p.rank : "pid " + p.pid;
		if (titles.get(p.title) > 1) p.title += ", pid " + p.pid;
	}
}

function makeModel(meta, summary, bytes, markBytes) {
	const model = {
		meta,
		summary,
		base: meta.base,
		end: Math.max(meta.end, 1),
		processes: [],
		rows: [],
		slices: makeSlices(meta.slices),
		cells: makeCells(meta.cells),
		gridMax: 0,
	};
	const r = new Reader(bytes);
	let i = 0;
	let j = 0;

	meta.processes.forEach((p, number) => {
		const process = Object.assign({}, p, {
			number,
			title: processName(p),
			open: true,
			rows: [],
			gaps: [],
			gap_count: p.gaps,
			mark_count: p.marks,
		});
		const rows = { first: model.rows.length, n: p.rows.length };

		for (const told of p.rows) {
			const nSlices = r.varint();
			const nCells = r.varint();
			const log2 = r.varint();
			const width = nCells ? 2 ** log2 : 0;
			const row = Object.assign({}, told, {
				process,
				index: model.rows.length,
				width,
				i0: i,
				i1: i + nSlices,
				j0: j,
				j1: j + nCells,
				title: told.label ? clean(told.label) : "thread " + told.tid,
			});

			if (row.i1 > meta.slices || row.j1 > meta.cells || r.at > bytes.length)
				throw new Error("the page's data are damaged");
			readSliceColumns(r, model.slices, row.i0, row.i1);
			readBlame(r, model.slices, row.i0, row.i1, rows);
			readCellColumns(r, model.cells, row.j0, row.j1, width, meta.base);
			i = row.i1;
			j = row.j1;
			model.gridMax = Math.max(model.gridMax, width);
			process.rows.push(row);
			model.rows.push(row);
		}
		model.processes.push(process);
	});
	if (r.at !== bytes.length) throw new Error("the page's data are damaged");
	for (const gap of meta.losses) model.processes[gap.process].gaps.push(gap);
	readMarks(model, markBytes);
	model.processes.sort((a, b) => a.order - b.order);
	joinMarks(model);
	addUp(model);
	nameApart(model.processes);
	return model;
}

async function readModel() {
	return makeModel(
		...(await Promise.all([
			readJson("gt-meta"),
			readJson("gt-summary"),
			readBlob("gt-slices"),
			readBlob("gt-marks"),
		])),
	);
}
