// SPDX-License-Identifier: Apache-2.0
/* The tables of the summary. All can be sorted by the heads of their columns. */

const LIMIT = 50; /* rows that are shown at first */

const collator = new Intl.Collator(undefined, { numeric: true });

function compare(a, b) {
	if (typeof a === "string" || typeof b === "string")
		return collator.compare(String(a), String(b));
	return (Number.isNaN(a) ? -1 : a) - (Number.isNaN(b) ? -1 : b);
}

/*
 * columns: {title, value(row), cell(row), num, head (the row's name), help}; sort: the column that it
 * begins with, greatest first unless `up`. More rows than LIMIT are shown when asked for: all, or
 * `step` of them each time.
 */
function sortable({ columns, rows, sort, up = false, step = Infinity, caption }) {
	const state = { column: sort, down: !up, limit: LIMIT };
	const body = el("tbody");
	const more = el("p", { class: "more" });
	const heads = columns.map((column, k) =>
		el(
			"th",
			{ scope: "col", class: column.num ? "num" : null, title: column.help },
			el(
				"button",
				{
					type: "button",
					class: "sort",
					on: {
						click: () => {
							state.down = state.column === k ? !state.down : Boolean(column.num);
							state.column = k;
							fill();
						},
					},
				},
				[column.title].flat().map(line => el("span", null, line, " ")),
			),
		),
	);
	const fill = () => {
		const by = columns[state.column];
		const sorted = rows
			.slice()
			.sort((a, b) => (state.down ? -1 : 1) * compare(by.value(a), by.value(b)));
		const shown = sorted.slice(0, state.limit);
		const left = rows.length - shown.length;

		heads.forEach((head, k) =>
			head.setAttribute(
				"aria-sort",
				k !== state.column ? "none" : state.down ? "descending" : "ascending",
			),
		);
		body.replaceChildren(
			...shown.map(row =>
				el(
					"tr",
					null,
					columns.map(column =>
						el(
							column.head ? "th" : "td",
							{ scope: column.head ? "row" : null, class: column.num ? "num" : null },
							column.cell(row),
						),
					),
				),
			),
		);
		more.replaceChildren(
			...(left > 0
				? [
						link(
							step < left
								? "Show " + fmtInt(step) + " more of " + fmtInt(rows.length)
								: "Show all " + fmtInt(rows.length),
							() => {
								state.limit += step;
								fill();
							},
						),
					]
				: []),
		);
	};

	fill();
	return el(
		"div",
		null,
		el(
			"div",
			{ class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
			el(
				"table",
				null,
				el("caption", { class: "visually-hidden" }, caption),
				el("thead", null, el("tr", null, heads)),
				body,
			),
		),
		more,
	);
}

/* A share as a number with a small bar. */
function shareCell(x, kind) {
	const bar = el("span", { class: "cellbar " + kind, "aria-hidden": "true" }, el("i"));

	bar.firstChild.style.width = 100 * Math.min(1, x || 0) + "%";
	return [bar, fmtPct(x)];
}

/* ---- threads ---- */

function threadColumns(process) {
	const pct = (title, key, kind, help) => ({
		title,
		help,
		num: true,
		value: t => share(t[key], t.observed_ns),
		cell: t =>
			kind
				? shareCell(share(t[key], t.observed_ns), kind)
				: fmtPct(share(t[key], t.observed_ns)),
	});
	const dur = (title, fn, help) => ({
		title,
		help,
		num: true,
		value: fn,
		cell: t => fmtDur(fn(t), 3),
	});
	const count = (title, fn, help) => ({
		title,
		help,
		num: true,
		value: fn,
		cell: t => fmtInt(fn(t)),
	});

	return [
		{
			title: "Thread",
			head: true,
			value: t => threadName(process, t.tid, true),
			cell: t =>
				rowOf(process, t.tid)
					? link(
							threadName(process, t.tid, true),
							() => toTimeline(rowOf(process, t.tid)),
							"Show in the timeline",
						)
					: threadName(process, t.tid, true),
		},
		pct("Waits", "wait_ns", "wait", "Share of the time in which it was observed"),
		pct("Holds", "hold_ns", "hold"),
		pct("Idle", "idle_ns", null, "Neither holds nor waits: I/O, native code, sleep, or no CPU"),
		pct("Not known", "unknown_ns", null, "In slices whose end was missed"),
		dur("Waited", t => t.wait_ns),
		dur("Held", t => t.hold_ns),
		dur(
			"Blocked",
			t => (rowOf(process, t.tid) || { blocks: 0 }).blocks,
			"How long others waited while it had the GIL",
		),
		count("Takes", t => t.takes),
		count("Contended", t => t.contended, "Takes that had to wait"),
		count("Forced", t => t.releases.forced, "Releases that another thread had asked for"),
		count("Voluntary", t => t.releases.voluntary),
		dur(["Wait", "median"], t => t.waits.median_ns, "Half of its waits are at most that long"),
		dur(["Wait", "p90"], t => t.waits.p90_ns),
		dur(["Wait", "p99"], t => t.waits.p99_ns),
		dur(["Wait", "max"], t => t.waits.max_ns),
		dur(["Hold", "median"], t => t.holds.median_ns),
		dur(["Hold", "p90"], t => t.holds.p90_ns),
		dur(["Hold", "p99"], t => t.holds.p99_ns),
		dur(["Hold", "max"], t => t.holds.max_ns),
	];
}

/* A part of the page for each process; with several, they open when asked for. */
function perProcess(section, make) {
	const all = allNumbers();

	if (all.length === 1) {
		section.append(make(...all[0]));
		return;
	}
	const waits = ([, p]) => share(p.wait_ns, p.observed_ns);

	all.sort((a, b) => compare(waits(b), waits(a)));
	all.forEach(([process, p], k) => {
		const box = el("details", { class: "per-process" }, el("summary", null, process.title));

		box.addEventListener("toggle", () => {
			if (box.open && box.children.length === 1) box.append(make(process, p));
		});
		box.open = k === 0;
		section.append(box);
	});
}

function showThreads() {
	const section = $("threads");

	if (!allNumbers().length) return;
	section.append(el("h2", { id: "threads-h" }, "Threads"));
	perProcess(section, (process, p) =>
		sortable({
			columns: threadColumns(process).filter(
				c => c.title !== "Not known" || p.threads.some(t => t.unknown_ns),
			),
			rows: p.threads,
			sort: 1,
			caption: "Threads of " + process.title,
		}),
	);
	section.hidden = false;
}

/* ---- longest ---- */

function longestRows(key) {
	const rows = [];

	for (const [process, p] of allNumbers())
		for (const slice of p[key]) rows.push({ process, slice });
	return rows.sort((a, b) => b.slice.ns - a.slice.ns).slice(0, 20);
}

/* The greatest part of a wait, as the text of the summary has it: what to call it, and how long. */
function mostOf(blocker, blockerNs, nobodyNs, unknownNs) {
	let most =
		blocker === null || nobodyNs > blockerNs
			? ["nobody: it was free", nobodyNs]
			: [blocker, blockerNs];

	if (unknownNs > most[1]) most = ["not known", unknownNs];
	return most;
}

function longestColumns(kind) {
	const blocker = ({ process, slice }) => {
		const [name, ns] = mostOf(
			slice.blocker === null ? null : threadName(process, slice.blocker, true),
			slice.blocker_ns,
			slice.nobody_ns,
			slice.unknown_ns,
		);

		return name + ", " + fmtPct(share(ns, slice.ns));
	};
	const release = ({ slice }) =>
		slice.forced === null ? "–" : slice.forced ? "forced" : "voluntary";

	return [
		{
			title: "Length",
			num: true,
			value: r => r.slice.ns,
			cell: r =>
				link(
					fmtDur(r.slice.ns),
					() => goToSlice(r.process, r.slice, kind),
					"Show in the timeline",
				),
		},
		{
			title: "Thread",
			head: true,
			value: r => threadName(r.process, r.slice.tid),
			cell: r => threadName(r.process, r.slice.tid),
		},
		{
			title: "From",
			num: true,
			value: r => r.process.start + r.slice.offset_ns,
			cell: r => fmtTime(r.process.start + r.slice.offset_ns, 1000),
		},
		kind === TAKE
			? { title: "Blocker, share", value: blocker, cell: blocker }
			: { title: "Release", value: release, cell: release },
		{
			title: "Open",
			value: r => r.slice.open.join(" "),
			cell: r => r.slice.open.join(", ") || "–",
			help: "Ends that were not seen",
		},
	];
}

function showLongest() {
	const section = $("longest");

	if (!allNumbers().length) return;
	const part = (title, key, kind) => {
		const rows = longestRows(key);

		return el(
			"div",
			null,
			el("h3", null, title),
			rows.length
				? sortable({ columns: longestColumns(kind), rows, sort: 0, caption: title })
				: el("p", { class: "muted" }, "None."),
		);
	};
	section.append(
		el("h2", { id: "longest-h" }, "Longest"),
		el(
			"div",
			{ class: "two" },
			part("Longest waits", "longest_waits", TAKE),
			part("Longest holds", "longest_holds", HOLD),
		),
	);
	section.hidden = false;
}

/* ---- use over time ---- */

const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes, ...children) {
	const node = document.createElementNS(SVG, tag);

	for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
	node.append(...children);
	return node;
}

function bucketRows(process, p) {
	const n = p.buckets.length;
	const span = process.end - process.start;
	const gils = p.gils.length; /* 0: nothing is known of them */
	const paused = new Float64Array(n);

	for (const gap of process.gaps)
		if (gap.paused && gap.end > gap.start)
			spread(paused, process.start, span / n, n, gap.start, gap.end, gap.missing);

	return p.buckets.map((bucket, k) => {
		const start = process.start + (span * k) / n;
		const length = span / n;
		const rest = length - bucket.gap_ns;
		const known = rest < 1 ? 0 : rest; /* bounds are whole ns */

		return {
			start,
			length,
			lost: bucket.lost,
			paused: paused[k],
			known,
			used: share(
				sum(p.gils, g => g.bucket_held_ns[k]),
				known * gils,
			),
			waiting: p.contention === null ? NaN : share(bucket.wait_ns, known),
		};
	});
}

function bucketChart(process, rows) {
	const width = 720;
	const high = 72;
	const step = width / rows.length;
	const most = Math.max(...rows.map(r => r.waiting || 0), 0);
	const chart = svg("svg", {
		viewBox: "0 0 " + width + " " + (high + 4),
		preserveAspectRatio: "none",
		class: "buckets",
		role: "img",
		"aria-label":
			"Use of the GIL over time, " + process.title + "; the numbers are in the table below",
	});

	rows.forEach((row, k) => {
		const x = k * step;
		const used = Math.min(1, row.used || 0);
		const group = svg(
			"g",
			{ class: "bucket" },
			svg(
				"title",
				{},
				document.createTextNode(
					fmtTime(row.start, row.length / 10) +
						": held " +
						fmtPct(row.used) +
						", " +
						(row.waiting || 0).toFixed(2) +
						" threads waiting" +
						(row.lost ? ", events lost or not recorded" : "") +
						(row.paused ? ", paused for " + fmtDur(row.paused, 3) : ""),
				),
			),
		);

		group.append(svg("rect", { x, y: 0, width: step, height: high + 4, class: "b-hit" }));
		group.append(
			svg("rect", {
				x: x + 0.5,
				y: high - used * high,
				width: Math.max(0.5, step - 1),
				height: used * high,
				class: "b-used",
			}),
		);
		if (most > 0 && row.waiting >= 0)
			group.append(
				svg("rect", {
					x: x + 0.5,
					y: high - ((row.waiting || 0) / most) * (high - 3) - 1.5,
					width: Math.max(0.5, step - 1),
					height: 3,
					class: "b-wait",
				}),
			);
		if (row.lost)
			group.append(svg("rect", { x, y: high, width: step, height: 4, class: "b-lost" }));
		else if (row.paused)
			group.append(svg("rect", { x, y: high, width: step, height: 4, class: "b-paused" }));
		group.addEventListener("click", () => {
			$("timeline").scrollIntoView({ block: "start" });
			glideTo(row.start, row.start + row.length);
		});
		chart.append(group);
	});
	return { chart, most };
}

function showUsage() {
	const section = $("usage");

	if (!allNumbers().length) return;
	section.append(el("h2", { id: "usage-h" }, "Use over time"));
	perProcess(section, (process, p) => {
		if (isSilent(process)) return el("p", { class: "muted" }, silentWords(process));
		const rows = bucketRows(process, p);
		const { chart, most } = bucketChart(process, rows);

		return el(
			"div",
			null,
			el(
				"p",
				{ class: "muted" },
				el("i", { class: "key b-first-hold", "aria-hidden": "true" }),
				" GIL held, up to 100" + THIN + "%",
				el("span", { class: "gap" }),
				el("i", { class: "key b-line", "aria-hidden": "true" }),
				" threads waiting, up to " +
					(most > 0 && most < 0.05 ? "less than 0.1" : most.toFixed(1)),
				el("span", { class: "gap" }),
				"Each bar is " +
					fmtDur(rows.length ? rows[0].length : 0, 3) +
					"; a click zooms the timeline to it.",
			),
			chart,
			el(
				"details",
				null,
				el("summary", null, "As a table"),
				sortable({
					columns: [
						{
							title: "From",
							num: true,
							head: true,
							value: r => r.start,
							cell: r => fmtTime(r.start, r.length / 10),
						},
						{
							title: "GIL held",
							num: true,
							value: r => r.used,
							cell: r => shareCell(r.used, "hold"),
						},
						{
							title: "Threads waiting",
							num: true,
							value: r => r.waiting,
							cell: r => (Number.isFinite(r.waiting) ? r.waiting.toFixed(2) : "–"),
						},
						{
							title: "Not known",
							num: true,
							value: r => r.length - r.known,
							cell: r => fmtDur(r.length - r.known, 3),
						},
					],
					rows,
					sort: 1,
					caption: "Use of the GIL over time, " + process.title,
				}),
			),
		);
	});
	section.hidden = false;
}
