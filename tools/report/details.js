// SPDX-License-Identifier: Apache-2.0
/* What is told of one slice, cell, gap, mark or point: beside the pointer, and below the timeline. */

const KIND_TITLES = ["Waits for the GIL", "Holds the GIL", "Has released the GIL"];
const KIND_NAMES = ["take_gil", "hold_gil", "drop_gil"];
const KIND_CLASSES = ["k-wait", "k-hold", "k-drop"];
const VICTIMS_MAX = 6;
const GIL_OTHER = 255; /* several, which are not told apart */

function openWords(open) {
	const words = [];

	if (open & OPEN_START) words.push("began before the recording");
	if (open & OPEN_LOST) words.push("cut at a gap of lost events");
	if (open & OPEN_PAUSED) words.push("cut where the recording was paused");
	if (open & OPEN_END) words.push("lasted beyond the recording");
	if (open & OPEN_UNKNOWN) words.push("its end was missed: the length is not known");
	if (open & OPEN_EXIT) words.push("the thread ended in it");
	if (open & OPEN_FINALIZING)
		words.push("the interpreter was ending: this is no wait for somebody");
	return words.join("; ");
}

function rowTitle(index) {
	return index === NOT_DRAWN ? "a thread that is not drawn" : view.model.rows[index].title;
}

/* The facts of a slice, as pairs of words. */
function sliceFacts(row, i) {
	const s = view.model.slices;
	const kind = s.flags[i] & 3;
	const forced = (s.flags[i] >> F_FORCED) & 3;
	const facts = [
		["length", fmtExact(s.len[i])],
		["from", fmtTime(s.start[i])],
		["to", fmtTime(s.start[i] + s.len[i])],
	];

	if (forced)
		facts.push([
			"release",
			forced === FORCED_YES ? "forced: another thread asked for the GIL" : "voluntary",
		]);
	if (kind === TAKE && s.len[i] > 0) {
		const [name, ns] = mostOf(
			s.blocker[i] === -1 ? null : rowTitle(s.blocker[i]),
			s.blockerNs[i],
			s.nobody[i],
			s.unknown[i],
		);
		facts.push(["blocker", name + ", " + fmtPct(share(ns, s.len[i])) + " of it"]);
		if (!(s.flags[i] & F_ACQUIRED) && !s.open[i]) facts.push(["ended", "without the GIL"]);
	}
	if (s.gil[i] || row.process.gils > 1)
		facts.push([
			"GIL",
			s.gil[i] === GIL_OTHER ? "one of those that are not told apart" : String(s.gil[i]),
		]);
	if (s.open[i]) facts.push(["open", openWords(s.open[i])]);
	return facts;
}

function tallyFacts(sum, span) {
	const facts = [];

	KIND_NAMES.forEach((name, k) => {
		if (sum.ns[k] > 0 || sum.count[k])
			facts.push([
				["waits", "holds", "released"][k],
				fmtPct(share(sum.ns[k], span)) + ", " + fmtDur(sum.ns[k]),
			]);
	});
	facts.push([
		"slices",
		KIND_NAMES.map((name, k) => fmtInt(sum.count[k]) + " " + name).join(", "),
	]);
	if (sum.longest[TAKE]) facts.push(["longest wait", fmtDur(sum.longest[TAKE])]);
	if (sum.longest[HOLD]) facts.push(["longest hold", fmtDur(sum.longest[HOLD])]);
	if (sum.forced) facts.push(["forced", plural(sum.forced, "release")]);
	return facts;
}

function cellFacts(row, j) {
	const c = view.model.cells;
	const sum = {
		ns: c.ns.map(a => a[j]),
		count: c.count.map(a => a[j]),
		forced: c.forced[j],
		longest: c.longest.map(a => a[j]),
	};
	const n = sum.count[0] + sum.count[1] + sum.count[2];

	return [
		["stands for", plural(n, "slice") + " shorter than " + fmtDur(row.width)],
		["from", fmtTime(c.start[j])],
		["width", fmtDur(row.width)],
		...tallyFacts(sum, row.width),
	];
}

function gapTitle(gap) {
	return gap.paused ? "Paused" : gap.late ? "Not recorded" : "Events were lost";
}

function gapFacts(gap) {
	const facts = [
		["length", fmtDur(gap.missing)],
		["from", fmtTime(gap.start)],
		["to", fmtTime(gap.end)],
	];

	if (!gap.late && !gap.paused) facts.unshift(["lost", plural(gap.count, "event")]);
	if (gap.merged > 1)
		facts.push([
			"stands for",
			plural(gap.merged, gap.paused ? "pause" : "gap") + " close to each other",
		]);
	return facts;
}

/* What a gap means, for those who have not seen one before. */
function gapWords(process, gap) {
	if (gap.paused)
		return (
			"Nothing was recorded here, because somebody had asked for that. Nothing was lost: " +
			"what was going on is cut at both ends, and no share or sum counts this time."
		);
	if (gap.late)
		return (
			"The process was there, and its recording had not begun" +
			(process.late_why ? " (" + clean(process.late_why) + ")." : ".")
		);
	return (
		"More happened than could be recorded. What was going on is cut at both ends, " +
		"and no share or sum counts this time."
	);
}

function factList(facts) {
	return el(
		"dl",
		{ class: "facts-list" },
		facts.map(([name, value]) => [el("dt", null, name), el("dd", null, value)]),
	);
}

/* ---- beside the pointer ---- */

function hideTip() {
	$("tip").hidden = true;
}

/* kind: the class of a sign, or null. */
function placeTip(event, title, kind, facts) {
	const tip = $("tip");

	tip.replaceChildren(
		el(
			"p",
			{ class: "tip-title" },
			kind !== null && el("i", { class: "sign " + kind, "aria-hidden": "true" }),
			title,
		),
		factList(facts),
	);
	tip.hidden = false;
	const box = tip.getBoundingClientRect();
	const right = event.clientX + 16 + box.width < innerWidth;
	const below = event.clientY + 18 + box.height < innerHeight;
	tip.style.left =
		Math.max(4, right ? event.clientX + 14 : event.clientX - box.width - 12) + "px";
	tip.style.top =
		Math.max(4, below ? event.clientY + 16 : event.clientY - box.height - 12) + "px";
}

function showTip(event, thing) {
	if (!thing) {
		hideTip();
		return;
	}
	const { item, t, gap, what, mark } = thing;
	const row = item.row;
	const s = view.model.slices;
	const perPixel = nsPerPixel();
	const place = (title, kind, facts) =>
		placeTip(event, title, kind, mark ? [...facts, ["mark", mark.title]] : facts);

	if (gap) {
		place(gapTitle(gap), gap.paused ? "k-pause" : "k-gap", gapFacts(gap));
	} else if (!row) {
		const out = [new Float64Array(1), new Float64Array(1)];

		stripColumns(view.model, item.process, t - perPixel / 2, perPixel, 1, out);
		place(item.process.title, null, [
			["at", fmtTime(t, perPixel)],
			...(isSilent(item.process)
				? [["GIL", "nothing was seen of it"]]
				: [
						[
							"GIL held",
							fmtPct(
								Math.min(
									1,
									Math.max(0, out[1][0] / perPixel / gilsOf(item.process)),
								),
							),
						],
						["waiting", (out[0][0] / perPixel).toFixed(1) + " threads"],
					]),
		]);
	} else if (!what) {
		const sum = tally(view.model, row, t - perPixel / 2, t + perPixel / 2);

		if (sum.count[0] + sum.count[1] + sum.count[2])
			place(row.title, null, tallyFacts(sum, perPixel));
		else
			place(row.title, null, [
				["at", fmtTime(t, perPixel)],
				["", "neither holds nor waits"],
			]);
	} else if (what.slice !== undefined && s.len[what.slice] < perPixel) {
		const sum = tally(view.model, row, t - perPixel, t + perPixel);
		const alone = sum.exact === 1 && !sum.cells;

		if (alone)
			place(
				KIND_TITLES[s.flags[what.slice] & 3],
				KIND_CLASSES[s.flags[what.slice] & 3],
				sliceFacts(row, what.slice),
			);
		else place(row.title + ", around here", null, tallyFacts(sum, 2 * perPixel));
	} else if (what.slice !== undefined) {
		const kind = s.flags[what.slice] & 3;

		place(KIND_TITLES[kind], KIND_CLASSES[kind], sliceFacts(row, what.slice));
	} else if (row.width < perPixel) {
		place(
			row.title + ", around here",
			null,
			tallyFacts(tally(view.model, row, t - perPixel / 2, t + perPixel / 2), perPixel),
		);
	} else {
		place("Many short slices", null, cellFacts(row, what.cell));
	}
}

function showOverviewTip(event, t) {
	const data = overviewData(Math.floor(view.width));
	const x = Math.min(data.width - 1, Math.max(0, Math.floor((t - data.t0) / data.step)));

	placeTip(
		event,
		fmtTime(t, data.step),
		null,
		data.known[x]
			? [
					["GIL held", fmtPct(data.used[x])],
					["waiting", data.waiting[x].toFixed(1) + " threads on average"],
				]
			: [["", data.paused[x] ? "paused" : "nothing is known of this time"]],
	);
}

/* ---- below the timeline ---- */

/* Who waited while this hold lasted: {row, ns, slice} by time; and how many cells hide more. */
function victimsOf(what) {
	const { model } = view;
	const s = model.slices;
	const [start, len] = stretchOf(what);
	const gil = s.gil[what.slice];
	const victims = [];
	let hidden = 0;

	for (const row of what.row.process.rows) {
		if (row === what.row) continue;
		const [i0, i1] = slicesIn(model, row, start, start + len);
		const [j0, j1] = cellsIn(model, row, start, start + len);
		let ns = 0;
		let longest = -1;
		let most = 0;

		for (let i = i0; i < i1; i++) {
			const part = Math.min(s.start[i] + s.len[i], start + len) - Math.max(s.start[i], start);

			if ((s.flags[i] & 3) !== TAKE || s.gil[i] !== gil || !(part > 0)) continue;
			ns += part;
			if (part > most) {
				most = part;
				longest = i;
			}
		}
		if (ns > 0) victims.push({ row, ns, slice: longest });
		for (let j = j0; j < j1; j++) hidden += model.cells.count[TAKE][j];
	}
	victims.sort((a, b) => b.ns - a.ns);
	return { victims, hidden };
}

function link(text, fn, title) {
	return el("button", { type: "button", class: "link", title, on: { click: fn } }, text);
}

function blameParts(i) {
	const s = view.model.slices;
	const rest = s.len[i] - s.unknown[i] - s.nobody[i] - s.blockerNs[i];
	const parts = [];

	if (s.blocker[i] !== -1) parts.push([rowTitle(s.blocker[i]), s.blockerNs[i], "b-first"]);
	if (rest > 0) parts.push(["other threads", rest, "b-rest"]);
	if (s.nobody[i] > 0)
		parts.push(["nobody: it was free, and the waking took so long", s.nobody[i], "b-nobody"]);
	if (s.unknown[i] > 0) parts.push(["not known", s.unknown[i], "b-unknown"]);
	return parts;
}

function blameBar(what) {
	const i = what.slice;
	const len = view.model.slices.len[i];
	const parts = blameParts(i);
	const bar = el("div", { class: "bar", "aria-hidden": "true" });

	for (const [, ns, kind] of parts) {
		const piece = el("i", { class: kind });

		piece.style.width = (100 * ns) / len + "%";
		bar.append(piece);
	}
	return el(
		"div",
		{ class: "blame" },
		el("h4", null, "Who had the GIL meanwhile"),
		bar,
		el(
			"ul",
			{ class: "keyed" },
			parts.map(([name, ns, kind]) =>
				el(
					"li",
					null,
					el("i", { class: "key " + kind, "aria-hidden": "true" }),
					kind === "b-first" && blockerOf(what)
						? link(name, () => goTo(blockerOf(what)), "Go to its hold (b)")
						: name,
					el("span", { class: "num muted" }, " " + fmtDur(ns) + ", " + fmtPct(ns / len)),
				),
			),
		),
	);
}

function victimList(what) {
	if (view.model.slices.gil[what.slice] === GIL_OTHER)
		return el("p", { class: "muted" }, "Who waited for this GIL is not known.");
	const { victims, hidden } = victimsOf(what);

	return el(
		"div",
		{ class: "blame" },
		el("h4", null, "Who waited meanwhile"),
		victims.length
			? el(
					"ul",
					{ class: "keyed" },
					victims.slice(0, VICTIMS_MAX).map(v =>
						el(
							"li",
							null,
							link(
								v.row.title,
								() => goTo({ row: v.row, slice: v.slice }),
								"Go to this wait",
							),
							el("span", { class: "num muted" }, " " + fmtDur(v.ns)),
						),
					),
				)
			: el("p", { class: "muted" }, hidden ? "Nobody for long." : "Nobody."),
		victims.length > VICTIMS_MAX &&
			el(
				"p",
				{ class: "muted" },
				"and " + plural(victims.length - VICTIMS_MAX, "thread") + " more",
			),
		hidden > 0 &&
			el(
				"p",
				{ class: "muted" },
				"Short waits that are drawn together are not counted here.",
			),
	);
}

/* The mark nearest to a slice or a gap, to be gone to. */
function nearMarkFact(what) {
	const mark = markNear(what.process || what.row.process, ...stretchOf(what));

	return mark
		? [
				[
					"nearest mark",
					[
						link(mark.title, () => goTo(markThing(mark)), "Go to it"),
						", " + markDistance(mark, ...stretchOf(what)),
					],
				],
			]
		: [];
}

/* Of each kind of thing: its title and sign, whose it is, facts, and parts of their own. */
function tellSlice(what) {
	const kind = view.model.slices.flags[what.slice] & 3;
	const len = stretchOf(what)[1];

	return {
		title: KIND_TITLES[kind],
		sign: KIND_CLASSES[kind],
		of: what.row.title,
		facts: sliceFacts(what.row, what.slice),
		step: ["slice", stepSlice, ", ."],
		parts: [
			kind === TAKE && len > 0 && blameBar(what),
			kind === HOLD && len > 0 && victimList(what),
		],
	};
}

function tellCell(what) {
	return {
		title: "Many short slices",
		of: what.row.title,
		facts: cellFacts(what.row, what.cell),
		step: ["slice", stepSlice, ", ."],
		parts: [],
	};
}

function tellGap({ process, gap }) {
	return {
		title: gapTitle(gap),
		sign: gap.paused ? "k-pause" : "k-gap",
		of: process.title,
		facts: gapFacts(gap),
		parts: [el("p", null, gapWords(process, gap))],
	};
}

function tellMark({ process, mark }) {
	return {
		title: mark.title,
		sign: "k-mark",
		of: mark.tid ? markThread(mark) : process.title,
		facts: markFacts(mark),
		step: ["mark", stepMark, "M m"],
		parts: [],
	};
}

function tellOf(what) {
	if (what.mark) return tellMark(what);
	if (what.gap) return tellGap(what);
	return what.slice !== undefined ? tellSlice(what) : tellCell(what);
}

function stepButtons([name, step, keys]) {
	const [before, next] = keys.split(" ");

	return [
		["‹", "Previous", before, -1],
		["›", "Next", next, 1],
	].map(([text, word, key, direction]) =>
		el(
			"button",
			{
				type: "button",
				"aria-label": word + " " + name,
				title: word + " (" + key + ")",
				on: { click: () => step(direction) },
			},
			text,
		),
	);
}

function showDetails() {
	const box = $("details");
	const what = view.selected;

	if (!what) {
		box.replaceChildren(
			el(
				"p",
				{ class: "muted" },
				"Click a slice to see who had the GIL, or who waited. Drag to move, drag the ruler to zoom, ",
				link("?", openHelp, "Keys and signs"),
				" lists the keys.",
			),
		);
		return;
	}
	const told = tellOf(what);
	const blocker = blockerOf(what);

	box.replaceChildren(
		el(
			"div",
			{ class: "details-head" },
			el(
				"h3",
				null,
				told.sign && el("i", { class: "sign " + told.sign, "aria-hidden": "true" }),
				told.title,
				el("span", { class: "muted" }, " " + told.of),
			),
			el(
				"span",
				{ class: "actions" },
				el("button", { type: "button", on: { click: () => zoomTo(what) } }, "Zoom to it"),
				blocker &&
					el(
						"button",
						{ type: "button", id: "to-blocker", on: { click: () => goTo(blocker) } },
						"Go to the blocker",
					),
				told.step && stepButtons(told.step),
			),
		),
		el(
			"div",
			{ class: "details-body" },
			factList([
				...told.facts,
				["clock", fmtDate(view.model.base, stretchOf(what)[0])],
				...(what.mark ? [] : nearMarkFact(what)),
			]),
			told.parts,
		),
	);
	announce(told.title + ", " + told.of + ", " + told.facts.map(f => f.join(" ")).join(", "));
}

function announce(text) {
	$("announce").textContent = text;
}
