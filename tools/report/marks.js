// SPDX-License-Identifier: Apache-2.0
/*
 * Marks: instants that the program or a person has named. A line over the rows of the process, with a
 * flag in the row of the thread that set it, and the name in a lane below the ruler. What a picture
 * costs depends on its pixels: marks of one pixel are found by binary search and drawn as one.
 */

const MARK_ROOM = 8; /* pixels for each mark: where they lie closer, lines would hide the slices */
const NAME_ROOM = 26; /* pixels: in less there is no name */
const NAMES_MAX = 8; /* told beside the pointer */
const SAME_MAX = 4; /* of one pixel that are drawn over the rows */
const AROUND_PART = 1 / 20; /* of the recording: so much is shown beside a mark far from others */

const lane = $("lane");
let laneNames = []; /* drawn: {x, width, text, i, end (of the marks that it stands for)} */

/* ---- which are where ---- */

/* Index of the first time that is not before t. */
function firstFrom(times, t) {
	let lo = 0;
	let hi = times.length;

	while (lo < hi) {
		const mid = (lo + hi) >> 1;

		if (times[mid] < t) lo = mid + 1;
		else hi = mid;
	}
	return lo;
}

/* The marks in the window by the pixel: [x, the first, the one behind the last]. */
function markGroups(times) {
	const { t0, t1 } = view;
	const step = nsPerPixel();
	const end = above(times, 0, times.length, t1);
	const groups = [];
	let i = firstFrom(times, t0);

	while (i < end) {
		const x = Math.floor((times[i] - t0) / step);
		const next = Math.max(i + 1, aboveNear(times, i, end, t0 + (x + 1) * step));

		groups.push([x, i, next]);
		i = next;
	}
	return groups;
}

/* The mark nearest to t of those that stand in order; none further away than `most` ns. */
function nearestMark(marks, times, t, most = Infinity) {
	const i = above(times, 0, times.length, t);
	const near = [marks[i - 1], marks[i]].filter(mark => mark && Math.abs(mark.at - t) <= most);

	return near.sort((a, b) => Math.abs(a.at - t) - Math.abs(b.at - t))[0] || null;
}

/* As something to select, or to go to. */
function markThing(mark) {
	return { process: mark.process, row: mark.row, mark };
}

/* Up to the marks before and behind it, as far as they are near. */
function aroundMark(mark) {
	const { markTimes: times, start, end } = mark.process;
	const before = firstFrom(times, mark.at) - 1;
	const after = above(times, 0, times.length, mark.at);
	const reach = Math.max(
		mark.at - (before < 0 ? start : times[before]),
		(after < times.length ? times[after] : end) - mark.at,
	);
	const half = Math.min(reach, view.model.end * AROUND_PART) * 1.08 + SPAN_MIN;

	return [mark.at - half, mark.at + half];
}

/*
 * The next mark in this direction: of the process that is being looked at, if it has any, else of
 * all. From the one that is selected; else from what is selected, or the middle of the window.
 */
function nextMark(direction) {
	const what = view.selected;
	const process = what
		? what.process || what.row.process
		: view.active
			? view.active.process
			: null;
	const one = process && process.marks.length > 0;
	const { marks, markTimes } = one ? process : view.model;

	if (what && what.mark) return marks[(one ? what.mark.number : what.mark.index) + direction];
	const here = what ? stretchOf(what)[0] : (view.t0 + view.t1) / 2;

	return marks[
		direction > 0 ? above(markTimes, 0, marks.length, here) : firstFrom(markTimes, here) - 1
	];
}

function stepMark(direction) {
	const mark = nextMark(direction);

	if (!mark) return;
	revealProcess(mark.process);
	select(markThing(mark));
	if (mark.at < view.t0 || mark.at > view.t1) {
		const half = (view.t1 - view.t0) / 2;

		glideTo(mark.at - half, mark.at + half);
		view.back.pop();
	}
}

/* ---- over the rows ---- */

/* Stretches of the picture that belong to one process: {process, items}. */
function bandsOf(items) {
	const bands = [];

	for (const item of items) {
		const last = bands[bands.length - 1];

		if (last && last.process === item.process) last.items.push(item);
		else bands.push({ process: item.process, items: [item] });
	}
	return bands;
}

/* On a ground of its own, so that it is seen on any. */
function drawMarkLine(x, y0, y1, alpha) {
	context.globalAlpha = alpha * 0.6;
	context.fillStyle = view.colours.css.surface;
	context.fillRect(x - 1, y0, 3, y1 - y0);
	context.globalAlpha = alpha;
	context.fillStyle = view.colours.css.mark;
	context.fillRect(x, y0, 1, y1 - y0);
	context.globalAlpha = 1;
}

function drawFlag(x, y, colour) {
	context.fillStyle = view.colours.css.surface;
	context.fillRect(x, y, 10, 9);
	context.fillStyle = colour;
	context.beginPath();
	context.moveTo(x, y);
	context.lineTo(x + 9, y + 4);
	context.lineTo(x, y + 8);
	context.fill();
}

/* One mark: light over the rows of others if it is a thread's, whose row has the flag. */
function drawMark(mark, band, scroll) {
	const x = Math.round(toX(mark.at));
	const own = mark.row && band.items.find(item => item.row === mark.row);
	const first = band.items[0];
	const last = band.items[band.items.length - 1];

	drawMarkLine(x, first.y - scroll, last.y + last.h - scroll, mark.row ? 0.4 : 0.9);
	if (own) {
		drawMarkLine(x, own.y - scroll, own.y + own.h - scroll, 1);
		drawFlag(x, own.y - scroll + 2, view.colours.css.mark);
	} else if (!mark.row && !first.row) {
		drawFlag(x, first.y - scroll + 2, view.colours.css.mark);
	}
}

function drawMarks(items, scroll) {
	for (const band of bandsOf(items)) {
		const { marks, markTimes } = band.process;
		const groups = markGroups(markTimes);

		if (groups.length * MARK_ROOM <= view.width) {
			for (const [, i, end] of groups)
				for (const mark of marks.slice(i, Math.min(end, i + SAME_MAX)))
					drawMark(mark, band, scroll);
		} else if (!band.items[0].row) {
			context.fillStyle = view.colours.css.mark;
			for (const [x] of groups) context.fillRect(x, band.items[0].y - scroll, 1, 5);
		}
	}
}

function drawSelectedMark(mark, items, scroll) {
	const band = bandsOf(items).find(b => b.process === mark.process);
	const x = Math.round(toX(mark.at));

	if (!band || x < -2 || x > view.width + 2) return;
	const first = band.items[0];
	const last = band.items[band.items.length - 1];
	const own = (mark.row && band.items.find(item => item.row === mark.row)) || first;

	context.fillStyle = view.colours.css.accent;
	context.fillRect(x - 1, first.y - scroll, 3, last.y + last.h - first.y);
	if (own.row === mark.row) drawFlag(x + 1, own.y - scroll + 2, view.colours.css.accent);
}

/* ---- the lane ---- */

/* As much of the text as there is room for; null: not even its beginning. */
function cutText(g, text, room) {
	if (g.measureText(text).width <= room) return text;
	const letters = Array.from(text);
	let lo = 0;
	let hi = letters.length;

	while (lo < hi) {
		const mid = (lo + hi + 1) >> 1;

		if (g.measureText(letters.slice(0, mid).join("") + "…").width <= room) lo = mid;
		else hi = mid - 1;
	}
	return lo > 1 ? letters.slice(0, lo).join("") + "…" : null;
}

/* What the marks of one pixel are called: those of several processes often have one name. */
function groupName(marks, i, end) {
	for (let k = i + 1; k < end; k++)
		if (marks[k].title !== marks[i].title) return marks[i].title + " +" + fmtInt(end - i - 1);
	return marks[i].title;
}

/*
 * The name of the selected mark is always there: on either side, and over other lines. Returns the
 * entry of laneNames; null: it is not in the window.
 */
function drawChosenName(g, groups, height) {
	const mark = view.selected && view.selected.mark;
	const group = mark && groups.find(([, i, end]) => mark.index >= i && mark.index < end);

	if (!group) return null;
	const [x, i, end] = group;
	const left = x > view.width / 2;
	const text = cutText(g, mark.title, (left ? x : view.width - x) - 12);

	if (!text) return null;
	const width = g.measureText(text).width;
	const at = left ? x - width - 5 : x + 5;
	g.fillStyle = view.colours.css.surface;
	g.fillRect(at - 4, 0, width + 8, height);
	g.fillStyle = view.colours.css.accent;
	g.fillRect(x - 1, 0, 3, height);
	g.fillText(text, at, height / 2 + 0.5);
	laneNames.push({ x: at, width, text, i, end });
	return laneNames[0];
}

/* How much of the room is left free by the chosen name. */
function roomBeside(chosen, [x, i], room) {
	if (!chosen) return room;
	if (i === chosen.i) return 0;
	if (x < chosen.x - 8) return Math.min(room, chosen.x - x - 12);
	return x < chosen.x + chosen.width + 4 ? 0 : room;
}

function drawName(g, [x, i, end], room, height) {
	if (room < NAME_ROOM) return;
	const text = cutText(g, groupName(view.model.marks, i, end), room);

	if (!text) return;
	g.fillStyle = view.colours.css.text;
	g.fillText(text, x + 5, height / 2 + 0.5);
	laneNames.push({ x: x + 5, width: g.measureText(text).width, text, i, end });
}

function paintLane() {
	const height = lane.parentNode.clientHeight;

	laneNames = [];
	if (!view.model.marks.length) return;
	fitCanvas(lane, view.width, height);
	const g = lane.getContext("2d");
	const c = view.colours.css;
	const groups = markGroups(view.model.markTimes);
	const dense = groups.length * MARK_ROOM > view.width;
	g.setTransform(lane.dpr, 0, 0, lane.dpr, 0, 0);
	g.fillStyle = c.surface;
	g.fillRect(0, 0, view.width, height);
	g.font = view.colours.font;
	g.textBaseline = "middle";
	g.fillStyle = c.mark;
	for (const [x] of groups) g.fillRect(x, dense ? height - 6 : 0, 1, height);
	const chosen = drawChosenName(g, groups, height);
	groups.forEach((group, k) => {
		const next = k + 1 < groups.length ? groups[k + 1][0] : view.width;

		drawName(g, group, roomBeside(chosen, group, next - group[0] - 10), height);
	});
}

/* ---- in words ---- */

function markThread(mark) {
	if (!mark.tid) return "–";
	return mark.row ? mark.row.title : "thread " + mark.tid;
}

function markFacts(mark) {
	const facts = [["at", fmtTime(mark.at)]];

	if (mark.tid) facts.push(["set by", markThread(mark)]);
	if (view.model.processes.length > 1) facts.push(["process", mark.process.title]);
	if (mark.since >= 0) facts.push(["since the one before", fmtDur(mark.since)]);
	return facts;
}

/* Where the mark lies, seen from a stretch of time. */
function markDistance(mark, start, len) {
	if (mark.at < start) return fmtDur(start - mark.at) + " before it";
	if (mark.at > start + len) return fmtDur(mark.at - start - len) + " after it";
	return len > 0 ? "in it, " + fmtDur(mark.at - start) + " from its start" : "at the same time";
}

/* The mark nearest to a stretch: the first in it, if there is one. */
function markNear(process, start, len) {
	const { marks, markTimes } = process;
	const i = firstFrom(markTimes, start);
	const [before, after] = [marks[i - 1], marks[i]];

	if (!before || !after || after.at <= start + len) return after || before;
	return after.at - start - len < start - before.at ? after : before;
}

/* ---- mouse ---- */

/* Those whose name is under the pointer, or whose line is near. */
function marksUnder(event) {
	const { marks, markTimes } = view.model;
	const t = timeAt(event);
	const x = toX(t);
	const name = laneNames.find(one => x >= one.x - 5 && x <= one.x + one.width);
	const near = nsPerPixel() * 4;

	return name
		? marks.slice(name.i, name.end)
		: marks.slice(firstFrom(markTimes, t - near), firstFrom(markTimes, t + near));
}

function showLaneTip(event) {
	const found = marksUnder(event);

	if (!found.length) hideTip();
	else if (found.length === 1) placeTip(event, found[0].title, "k-mark", markFacts(found[0]));
	else
		placeTip(event, plural(found.length, "mark"), "k-mark", [
			...found.slice(0, NAMES_MAX).map(mark => [fmtTime(mark.at), mark.title]),
			...(found.length > NAMES_MAX
				? [["", "and " + fmtInt(found.length - NAMES_MAX) + " more"]]
				: []),
		]);
}

function listenToLane() {
	lane.addEventListener("pointermove", showLaneTip);
	lane.addEventListener("pointerleave", hideTip);
	lane.addEventListener("click", event => {
		const [mark] = marksUnder(event);

		rowsBox.focus({ preventScroll: true });
		select(mark ? markThing(mark) : null);
	});
	lane.addEventListener("dblclick", () => {
		if (view.selected && view.selected.mark) goTo(view.selected);
	});
}
