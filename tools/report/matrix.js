// SPDX-License-Identifier: Apache-2.0
/* Who blocked whom, as a table with numbers; and what of the recording is not exact. */

const BANNER_MAX = 6; /* lines */
const MATRIX_MAX = 20; /* victims and blockers that are told apart */

const BEYOND = [
	/* blockers that are no thread of their own: kind, name, what it means */
	["others", "others", "Threads beyond the pairs that are told apart"],
	["nobody", "nobody", "The GIL was free: released, and the next thread was not running yet"],
	["unknown", "not known", "Who had it was not recorded"],
];

/*
 * Sums by victim and blocker; the columns' keys are thread ids and the kinds of BEYOND. Of very many
 * pairs only the greatest are in the page: what is missing of a victim's wait is its "rest".
 */
function matrixData(process, p) {
	const victims = new Map();
	const cells = new Map();
	const add = (map, key, ns) => map.set(key, (map.get(key) || 0) + ns);

	for (const thread of p.threads)
		if (thread.blamed_ns > 0) {
			victims.set(thread.tid, thread.blamed_ns);
			cells.set(thread.tid, new Map([["rest", thread.blamed_ns]]));
		}
	for (const pair of p.pairs) {
		const key = pair.kind === "thread" ? pair.blocker : pair.kind;
		const line = cells.get(pair.victim);

		if (!line) continue;
		add(line, key, pair.ns);
		add(line, "rest", -pair.ns);
	}
	let missing = 0;
	for (const line of cells.values()) missing += line.get("rest");
	return {
		cells,
		missing,
		topVictims: [...victims].sort((a, b) => b[1] - a[1]).map(entry => entry[0]),
		topBlockers: process.rows
			.filter(row => row.blocks > 0)
			.sort((a, b) => b.blocks - a.blocks)
			.map(row => row.tid),
	};
}

/* A line of the table: ns by column, and the sum. */
function matrixLine(data, from, columns) {
	const line = new Map(columns.map(c => [c.key, 0]));
	let total = 0;

	for (const victim of from)
		for (const [key, ns] of data.cells.get(victim) || []) {
			const column = line.has(key) ? key : "rest";

			line.set(column, (line.get(column) || 0) + ns);
			total += ns;
		}
	return { line, total };
}

function heat(td, part) {
	/* Darker is more; the words change sides where the ground is too dark for them. */
	td.style.setProperty("--heat", String(Math.round(part * 100)) + "%");
	td.classList.add("heat");
	if (part > 0.62) td.classList.add("hot");
	return td;
}

function matrixColumns(process, p, data) {
	const columns = data.topBlockers.slice(0, MATRIX_MAX).map(tid => ({
		key: tid,
		name: threadName(process, tid, true),
		help: "While it had the GIL",
	}));
	const more = data.topBlockers.length - MATRIX_MAX;

	if (more > 0 || data.missing > 0)
		columns.push({
			key: "rest",
			name: "other threads",
			help:
				data.missing > 0
					? "Blockers beyond the first " +
						MATRIX_MAX +
						", and pairs beyond the greatest, of which the page has " +
						fmtInt(p.pairs.length)
					: "Blockers beyond the first " + MATRIX_MAX,
		});
	for (const [key, name, help] of BEYOND)
		if (p.pairs.some(pair => pair.kind === key))
			columns.push({ key, name, help, beyond: true });
	return columns;
}

function matrixLines(process, data, columns) {
	const others = data.topVictims.slice(MATRIX_MAX);
	const lines = data.topVictims.slice(0, MATRIX_MAX).map(tid =>
		Object.assign(matrixLine(data, [tid], columns), {
			tid,
			name: threadName(process, tid, true),
		}),
	);

	if (others.length)
		lines.push(
			Object.assign(matrixLine(data, others, columns), {
				name: plural(others.length, "more thread"),
			}),
		);
	return lines;
}

function matrixTable(process, p, asShare) {
	const data = matrixData(process, p);
	const columns = matrixColumns(process, p, data);
	const lines = matrixLines(process, data, columns);
	const upright = columns.length > 8; /* the names stand, so that the numbers stay close */
	const worth = (l, c) =>
		asShare ? share(l.line.get(c.key) || 0, l.total) || 0 : l.line.get(c.key) || 0;
	/* Lines and columns that stand for many would outshine all others. */
	const most = Math.max(
		1e-9,
		...lines
			.filter(l => l.tid !== undefined || lines.length === 1)
			.flatMap(l =>
				columns.filter(c => c.key !== "rest" || columns.length === 1).map(c => worth(l, c)),
			),
	);

	return el(
		"table",
		{ class: "matrix" + (upright ? " upright" : "") },
		el(
			"caption",
			{ class: "visually-hidden" },
			"How long each thread waited while another had the GIL, " + process.title,
		),
		el(
			"thead",
			null,
			el(
				"tr",
				null,
				el(
					"td",
					{ class: "corner" },
					el("span", { class: "muted" }, "waited ↓   had the GIL →"),
				),
				columns.map(c =>
					el(
						"th",
						{ scope: "col", title: c.help, class: c.beyond ? "beyond" : null },
						el("span", null, c.name),
					),
				),
				el("th", { scope: "col", class: "num" }, "waited"),
			),
		),
		el(
			"tbody",
			null,
			lines.map(l =>
				el(
					"tr",
					null,
					el(
						"th",
						{ scope: "row" },
						l.tid !== undefined && rowOf(process, l.tid)
							? link(
									l.name,
									() => toTimeline(rowOf(process, l.tid)),
									"Show in the timeline",
								)
							: l.name,
					),
					columns.map(c => {
						const ns = l.line.get(c.key) || 0;
						const value = worth(l, c);

						return heat(
							el(
								"td",
								{
									class: "num",
									title:
										l.name +
										" waited " +
										fmtExact(ns) +
										" while " +
										c.name +
										" had the GIL",
								},
								ns ? (asShare ? (100 * value).toFixed(0) : fmtDur(ns, 2)) : "·",
							),
							ns ? Math.min(1, value / most) : 0,
						);
					}),
					el("td", { class: "num total" }, fmtDur(l.total, 3)),
				),
			),
		),
	);
}

function showBlame() {
	const section = $("blame");

	if (!allNumbers().length) return;
	section.append(
		el("h2", { id: "blame-h" }, "Who blocked whom"),
		el(
			"p",
			{ class: "muted" },
			"Each wait is shared out to the threads that had the GIL during it. A line is " +
				"a thread that waited, a column who had the GIL meanwhile.",
		),
	);
	perProcess(section, (process, p) => {
		if (!p.threads.some(t => t.blamed_ns > 0))
			return el("p", { class: "muted" }, "Nobody waited.");
		const box = el("div", {
			class: "scroll",
			tabindex: 0,
			role: "region",
			"aria-label": "Who blocked whom, " + process.title,
		});
		const pick = el(
			"select",
			{
				on: {
					change: () =>
						box.replaceChildren(matrixTable(process, p, pick.value === "share")),
				},
			},
			el("option", { value: "time" }, "time"),
			el("option", { value: "share" }, "% of the line's wait"),
		);

		box.append(matrixTable(process, p, false));
		return el("div", null, el("label", { class: "pick" }, "Show ", pick), box);
	});
	section.hidden = false;
}

/* ---- what is not exact ---- */

function lossWords(process) {
	const p = process;
	const out = [];
	const numbers = numbersOf(process);

	if (p.doubt) out.push(["bad", "This recording does not add up: " + clean(p.doubt)]);
	if (p.problem) out.push(["bad", "A part of the file was left out: " + clean(p.problem)]);
	if (p.problem && numbers && numbers.unread_ns)
		out.push([
			"bad",
			"Behind the damage, " + fmtDur(numbers.unread_ns) + " could not be read.",
		]);
	if (p.lost || p.gap_count)
		out.push([
			"bad",
			plural(p.lost, "event") +
				" lost in " +
				plural(p.gap_count, "gap") +
				", " +
				fmtDur(p.lost_ns) +
				" altogether. What was open there is cut, and nothing is counted in it: waits " +
				"and holds may have been longer.",
		]);
	if (!p.lost_known)
		out.push([
			"",
			"What recorded this did not count the events that it lost: some may be missing, unmarked.",
		]);
	if (p.late_ns)
		out.push([
			"",
			"Its recording began " +
				fmtDur(p.late_ns) +
				" late" +
				(p.late_why ? " (" + clean(p.late_why) + ")" : "") +
				": what happened before is not known.",
		]);
	if (isSilent(process)) out.push(["", silentWords(process)]);
	if (p.killed) out.push(["bad", "The recorder was killed: the last second may be missing."]);
	if (p.odd)
		out.push([
			"",
			plural(p.odd, "sequence") +
				" of events that should not be; slices whose end was missed have no length and are marked.",
		]);
	if (!p.complete) out.push(["bad", "It was not read to its end."]);
	if (p.rest.rows || p.rest.take || p.rest.hold)
		out.push([
			"",
			plural(p.rest.rows, "thread") +
				" more than fit here " +
				(p.rest.rows === 1 ? "is" : "are") +
				" not drawn: they waited " +
				fmtDur(p.rest.take_ns) +
				" in " +
				plural(p.rest.take, "slice") +
				" and held " +
				fmtDur(p.rest.hold_ns) +
				" in " +
				fmtInt(p.rest.hold) +
				".",
		]);
	return out;
}

/* What was asked for, and what there is too much of: no loss. */
function remarkWords(process) {
	const pauses = sum(process.gaps, gap => (gap.paused ? gap.merged : 0));
	const out = [];

	if (pauses)
		out.push(
			"It was paused " +
				(pauses === 1 ? "once" : fmtInt(pauses) + " times") +
				", for " +
				fmtDur(process.paused_ns) +
				" altogether, as somebody had asked for it: nothing was lost, and no share " +
				"counts this time.",
		);
	if (process.marks.length < process.mark_count)
		out.push(
			"The first " +
				fmtInt(process.marks.length) +
				" of " +
				plural(process.mark_count, "mark") +
				" are kept.",
		);
	return out;
}

function gridWords() {
	const { model } = view;
	const gridded = model.rows.filter(row => row.width);

	if (!gridded.length)
		return (
			"Every slice is drawn exactly, to the nanosecond: " +
			fmtInt(sum(model.rows, row => sum(row.count, n => n))) +
			" of them."
		);
	const widths = gridded.map(row => row.width);
	const inCells = [0, 1, 2].reduce(
		(n, k) => n + model.cells.count[k].reduce((a, b) => a + b, 0),
		0,
	);
	return (
		plural(inCells, "short slice") +
		" of " +
		plural(gridded.length, "thread") +
		" are added up in cells of " +
		fmtDur(Math.min(...widths)) +
		(Math.max(...widths) > Math.min(...widths) ? " to " + fmtDur(Math.max(...widths)) : "") +
		", so that the page stays small. The times and numbers of a cell are exact; " +
		"where in the cell a slice lay, and who blocked it, is not kept. " +
		plural(model.slices.n, "slice") +
		" at least as long as a cell are exact. The tables are made from all slices."
	);
}

function showExact() {
	const section = $("exact");
	const { model } = view;

	section.append(el("h2", { id: "exact-h" }, "Losses, and what is not exact"));
	const list = el("ul", { class: "exact-list" });

	for (const process of model.processes)
		for (const [kind, text] of lossWords(process))
			list.append(
				el(
					"li",
					{ class: kind || null },
					model.processes.length > 1 ? process.title + ": " : "",
					text,
				),
			);
	if (!list.children.length)
		list.append(
			el("li", { class: "good" }, "No event was lost, and every recording is whole."),
		);
	for (const process of model.processes)
		for (const text of remarkWords(process))
			list.append(
				el("li", null, model.processes.length > 1 ? process.title + ": " : "", text),
			);
	list.append(el("li", null, gridWords()));
	if (model.meta.gap_width)
		list.append(
			el(
				"li",
				null,
				"Gaps that begin within " +
					fmtDur(2 ** model.meta.gap_width) +
					" of each other are drawn as one.",
			),
		);
	if (allNumbers().some(([process, p]) => matrixData(process, p).missing > 0))
		list.append(
			el(
				"li",
				null,
				"There are more pairs of blocker and victim than fit here: the greatest stay, " +
					"and all between those who waited and blocked longest.",
			),
		);
	if (model.summary)
		list.append(
			el(
				"li",
				null,
				"Medians and percentiles are at most 1/64 too great; sums, numbers and greatest values are exact.",
			),
		);
	section.append(list);
	section.hidden = false;
}

/* What must not be overlooked, at the top. */
function showBanners() {
	const lines = [];

	for (const process of view.model.processes)
		for (const [kind, text] of lossWords(process))
			if (kind === "bad")
				lines.push(
					el(
						"li",
						null,
						view.model.processes.length > 1
							? el("b", null, process.title + ": ")
							: null,
						text,
					),
				);
	if (lines.length)
		$("banners").append(
			el(
				"div",
				{ class: "banner bad" },
				el("ul", null, lines.slice(0, BANNER_MAX)),
				lines.length > BANNER_MAX &&
					el(
						"p",
						null,
						el(
							"a",
							{ href: "#exact" },
							"and " + fmtInt(lines.length - BANNER_MAX) + " more",
						),
					),
			),
		);
}
