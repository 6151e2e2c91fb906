// SPDX-License-Identifier: Apache-2.0
/* The head of the page: what was recorded, the numbers that matter most, and what they say in words. */

const SILENT =
	"No take and no release of the GIL was seen: a thread that had it all the time does not show.";

/* Why nothing is known of the GIL of a process that is silent. */
function silentWords(process) {
	const rest = process.end - process.start - process.paused_ns;

	if (!process.paused_ns) return SILENT;
	return rest > 0
		? "It was paused but for " + fmtDur(rest) + ", in which nothing was seen of the GIL."
		: "It was paused all the time: nothing was recorded.";
}

/* The summary's part about a process; both lists are in the order of the inputs. */
function numbersOf(process) {
	const { summary } = view.model;

	return summary ? summary.processes[process.number] : null;
}

/* The summary's numbers of all processes, with the process itself. */
function allNumbers() {
	return view.model.processes
		.map(process => [process, numbersOf(process)])
		.filter(pair => pair[1]);
}

function sum(list, fn) {
	return list.reduce((total, one) => total + fn(one), 0);
}

function rowOf(process, tid) {
	if (!process.byTid) process.byTid = new Map(process.rows.map(row => [row.tid, row]));
	return process.byTid.get(tid);
}

/* Nothing was told of its GIL: it may have been held all the time, or never. */
function isSilent(process) {
	const p = numbersOf(process);

	return p ? !p.gils.length && p.contention === null : !process.gils;
}

/* What a thread is called; of several processes, with the process. */
function threadName(process, tid, short) {
	const row = rowOf(process, tid);
	const name = row ? row.title : "thread " + tid;

	return short || view.model.processes.length < 2 ? name : name + " (" + shortName(process) + ")";
}

function shortName(process) {
	return process.short;
}

/* Of all processes together. */
function totals() {
	const all = allNumbers();
	const t = {
		held: 0,
		known: 0,
		waited: 0,
		observed: 0,
		takes: 0,
		contended: 0,
		forced: 0,
		voluntary: 0,
		waits: 0,
		threads: 0,
		lost: 0,
		uncounted: 0 /* recordings whose losses nobody counted */,
		longest: [null, null],
	};

	for (const [process, p] of all) {
		t.held += sum(p.gils, g => g.held_ns);
		t.known += p.known_ns * p.gils.length;
		t.waited += p.wait_ns;
		t.observed += p.observed_ns;
		t.lost += p.lost;
		t.uncounted += p.lost_known ? 0 : 1;
		t.threads += p.threads.length;
		for (const thread of p.threads) {
			t.takes += thread.takes;
			t.contended += thread.contended;
			t.forced += thread.releases.forced;
			t.voluntary += thread.releases.voluntary;
			t.waits += thread.waits.count;
		}
		[p.longest_waits, p.longest_holds].forEach((list, kind) => {
			if (list.length && !(t.longest[kind] && t.longest[kind].slice.ns >= list[0].ns))
				t.longest[kind] = { process, slice: list[0] };
		});
	}
	return t;
}

function tile(name, value, note, kind) {
	return el(
		"div",
		{ class: "tile" + (kind ? " " + kind : "") },
		el("p", { class: "tile-name" }, name),
		el("p", { class: "tile-value num" }, value),
		el("p", { class: "tile-note" }, note),
	);
}

function longestTile(name, longest, kind) {
	if (!longest) return tile(name, "–", "none", kind);
	const { process, slice } = longest;

	return tile(
		name,
		fmtDur(slice.ns, 3),
		link(
			threadName(process, slice.tid),
			() => goToSlice(process, slice, kind === "t-wait" ? TAKE : HOLD),
			"Show it",
		),
		kind,
	);
}

function showTiles(t) {
	const releases = t.forced + t.voluntary;

	$("tiles").replaceChildren(
		tile("GIL in use", fmtPct(share(t.held, t.known)), "of the recorded time", "t-hold"),
		tile(
			"Waiting",
			fmtPct(share(t.waited, t.observed)),
			"of the threads' time: " + fmtDur(t.waited, 3) + " in " + plural(t.waits, "wait"),
			"t-wait",
		),
		longestTile("Longest wait", t.longest[TAKE], "t-wait"),
		longestTile("Longest hold", t.longest[HOLD], "t-hold"),
		tile(
			"Forced releases",
			releases ? fmtPct(t.forced / releases) : "–",
			releases ? fmtInt(t.forced) + " of " + fmtInt(releases) : "not known",
		),
		tile(
			"Lost events",
			t.lost ? fmtInt(t.lost) : t.uncounted ? "Not counted" : "None",
			link("What is not exact", () => $("exact").scrollIntoView()),
			t.lost ? "t-bad" : "",
		),
	);
}

/* The blocker that cost a victim most, among threads. */
function worstPair(p) {
	return p.pairs.reduce(
		(best, pair) => (pair.kind === "thread" && !(best && best.ns >= pair.ns) ? pair : best),
		null,
	);
}

function findings(t) {
	const all = allNumbers();
	const out = [];
	const waited = share(t.waited, t.observed);

	if (all.every(([process]) => isSilent(process)))
		return [...new Set(all.map(([process]) => silentWords(process)))];
	if (!(waited > 0.005))
		out.push("Threads hardly waited for the GIL: " + fmtPct(waited || 0) + " of their time.");
	else
		out.push(
			"Threads spent " +
				fmtPct(waited) +
				" of their time waiting for the GIL" +
				(t.takes
					? "; " + fmtPct(share(t.contended, t.takes)) + " of the takes had to wait."
					: "."),
		);
	if (waited > 0.005) out.push(...victimFindings(all));
	const forced = blockersForced(all);
	if (forced > 0.5 && waited > 0.005)
		out.push(
			"Threads that others waited for were mostly forced to let the GIL go: they compute " +
				"while they have it, and take turns at the switch interval, or after one long call.",
		);
	else if (forced < 0.1 && waited > 0.005)
		out.push(
			"Threads that others waited for let the GIL go nearly always by themselves, " +
				"for I/O or native code.",
		);
	if (all.length > 1) out.push(rankFinding(all));
	return out.filter(Boolean);
}

/* The share of forced releases, of each thread as much as others waited for it. */
function blockersForced(all) {
	let forced = 0;
	let ns = 0;

	for (const [, p] of all) {
		const releases = new Map(p.threads.map(t => [t.tid, t.releases]));

		for (const pair of p.pairs) {
			const r = pair.kind === "thread" && releases.get(pair.blocker);

			if (!r || !(r.forced + r.voluntary)) continue;
			forced += (pair.ns * r.forced) / (r.forced + r.voluntary);
			ns += pair.ns;
		}
	}
	return share(forced, ns);
}

function victimFindings(all) {
	let worst = null;

	for (const [process, p] of all)
		for (const thread of p.threads)
			if (!worst || thread.wait_ns > worst.thread.wait_ns) worst = { process, p, thread };
	if (!worst || !worst.thread.wait_ns) return [];
	const { process, p, thread } = worst;
	const pair = p.pairs
		.filter(x => x.victim === thread.tid && x.kind === "thread")
		.sort((a, b) => b.ns - a.ns)[0];
	const row = rowOf(process, thread.tid);

	return [
		[
			"",
			row
				? link(threadName(process, thread.tid), () => toTimeline(row), "Show this thread")
				: threadName(process, thread.tid),
			" waited longest, " +
				fmtDur(thread.wait_ns, 3) +
				" or " +
				fmtPct(share(thread.wait_ns, thread.observed_ns)) +
				" of its time",
			pair
				? ": " +
					fmtPct(share(pair.ns, thread.wait_ns)) +
					" of that while " +
					threadName(process, pair.blocker, true) +
					" had the GIL."
				: ".",
		],
	];
}

function rankFinding(all) {
	const shares = all
		.map(([process, p]) => ({ process, x: share(p.wait_ns, p.observed_ns) }))
		.filter(s => s.x >= 0)
		.sort((a, b) => b.x - a.x);
	const first = shares[0];
	const last = shares[shares.length - 1];

	if (!first || first === last || first.x < 0.005) return null;
	return (
		"Of the processes, " +
		shortName(first.process) +
		" waits most (" +
		fmtPct(first.x) +
		") and " +
		shortName(last.process) +
		" least (" +
		fmtPct(last.x) +
		")."
	);
}

function toTimeline(row) {
	$("timeline").scrollIntoView({ block: "start" });
	revealRow(row);
	placeLabels();
	rowsBox.focus({ preventScroll: true });
}

/* From a table to a slice of the timeline: the slice, or the cell that it is in. */
function goToSlice(process, slice, kind) {
	const row = rowOf(process, slice.tid);
	const s = view.model.slices;

	if (!row) return;
	const start = process.start + slice.offset_ns;
	const [i0, i1] = slicesIn(view.model, row, start - 1, start + 1);
	let found = null;

	for (let i = i0; i < i1; i++)
		if ((s.flags[i] & 3) === kind && Math.abs(s.start[i] - start) < 2)
			found = { row, slice: i };
	found = found || findAt(view.model, row, start + 0.5, 0);
	toTimeline(row);
	if (found) goTo(found);
	else showStretch(start, slice.ns);
}

/* ---- a line for each process ---- */

function rankColumns() {
	const waits = ([, p]) => share(p.wait_ns, p.observed_ns);
	const held = ([, p]) =>
		share(
			sum(p.gils, g => g.held_ns),
			p.known_ns * p.gils.length,
		);
	const worst = ([process, p]) => {
		const pair = worstPair(p);

		return pair
			? threadName(process, pair.blocker, true) +
					" → " +
					threadName(process, pair.victim, true) +
					", " +
					fmtDur(pair.ns, 3)
			: "–";
	};

	return [
		{
			title: "Process",
			value: ([process]) => process.title,
			cell: ([process]) => process.title,
			head: true,
		},
		{
			title: "Rank",
			value: ([process]) => process.rank ?? -1,
			cell: ([process]) => process.rank ?? "–",
			num: true,
		},
		{
			title: "Waiting",
			value: waits,
			cell: x => shareCell(waits(x), "wait"),
			num: true,
			help: "Share of its threads' time",
		},
		{ title: "GIL in use", value: held, cell: x => shareCell(held(x), "hold"), num: true },
		{
			title: "Waited",
			value: ([, p]) => p.wait_ns,
			cell: ([, p]) => fmtDur(p.wait_ns, 3),
			num: true,
			help: "All threads together",
		},
		{
			title: "Recorded",
			value: ([, p]) => p.span_ns,
			cell: ([, p]) => fmtDur(p.span_ns, 3),
			num: true,
		},
		{
			title: "Paused",
			value: ([process]) => process.paused_ns,
			cell: ([process]) => fmtDur(process.paused_ns, 3),
			num: true,
			help: "Of that, as somebody had asked for it: nothing counts this time",
		},
		{
			title: "Threads",
			value: ([, p]) => p.threads.length,
			cell: ([, p]) => fmtInt(p.threads.length),
			num: true,
		},
		{
			title: "Lost events",
			value: ([, p]) => p.lost,
			cell: ([, p]) => (p.lost || p.lost_known ? fmtInt(p.lost) : "not counted"),
			num: true,
		},
		{ title: "Worst blocker → victim", value: worst, cell: worst },
	];
}

function showRanks() {
	const all = allNumbers();
	const section = $("ranks");

	if (!all.length) return;
	section.replaceChildren(
		el("h2", { id: "ranks-h" }, all.length > 1 ? "Processes, slowest first" : "Process"),
		sortable({
			columns: rankColumns().filter(
				c => c.title !== "Paused" || all.some(([process]) => process.paused_ns),
			),
			rows: all,
			sort: 2,
			caption: "Each process with its waiting and its use of the GIL",
		}),
	);
	section.hidden = false;
}

/* ---- title and head ---- */

function baseName(path) {
	return clean(path || "").replace(/.*\//, "");
}

function pauseFact(processes) {
	const most = processes.reduce((ns, process) => Math.max(ns, process.paused_ns), 0);

	if (!most) return null;
	return "paused for " + (processes.length > 1 ? "up to " : "") + fmtDur(most, 3) + " of it";
}

/* With those that the page does not keep. */
function markCount() {
	return sum(view.model.processes, process => process.mark_count);
}

function showHead() {
	const { model } = view;
	const list = model.processes;
	const names = list.map(p => baseName(p.path)).filter(Boolean);
	const title = list.length === 1 ? list[0].title : plural(list.length, "process", "processes");

	$("title").textContent = list.length ? title : "Nothing was recorded";
	document.title = "GIL report: " + ($("title").textContent || "");
	const facts = [
		list.length > 1 && names.length
			? names.slice(0, 3).join(", ") +
				(names.length > 3 ? " and " + (names.length - 3) + " more" : "")
			: names[0],
		list.length === 1 && list[0].tags ? clean(list[0].tags) : null,
		list.length
			? (list.length > 1
					? fmtDur(model.end, 3) +
						" from the first start to the last end, in " +
						fmtInt(list.length) +
						" recordings, from "
					: "recorded " + fmtDur(model.end, 3) + " from ") +
				fmtDate(model.base, 0).slice(0, -6)
			: null,
		pauseFact(list),
		plural(model.rows.length, "thread"),
		markCount() ? plural(markCount(), "mark") : null,
	].filter(Boolean);
	$("facts").textContent = facts.join(" · ");
}

function showGlance() {
	const t = totals();

	if (!view.model.summary) return;
	showTiles(t);
	$("findings").replaceChildren(...findings(t).map(text => el("li", null, text)));
	$("glance").hidden = false;
}
