// SPDX-License-Identifier: Apache-2.0
/*
 * Mouse, touch and keys. Dragging the rows moves, dragging the ruler (or the rows with Shift) chooses
 * a part to zoom to, the wheel zooms once the timeline has the focus or with Ctrl: else it scrolls
 * the page, as a reader expects.
 */

const rowsBox = $("rows");

function timeAt(event) {
	const box = canvas.getBoundingClientRect();

	return view.t0 + (event.clientX - box.left) * nsPerPixel();
}

function itemAt(event) {
	const y = event.clientY - rowsBox.getBoundingClientRect().top + rowsBox.scrollTop;

	return view.items.find(item => y >= item.y && y < item.y + item.h);
}

/* What of the timeline lies under the pointer. */
function thingAt(event) {
	const item = itemAt(event);
	const t = timeAt(event);

	if (!item) return null;
	const gap = item.process.gaps.find(
		g => t >= g.start - nsPerPixel() * 2 && t <= g.end + nsPerPixel() * 2,
	);
	const what = item.row && findAt(view.model, item.row, t, nsPerPixel() * 4);

	return {
		item,
		t,
		mark: nearestMark(item.process.marks, item.process.markTimes, t, nsPerPixel() * 4),
		gap: gap && !(what && what.slice !== undefined && inside(what, t)) ? gap : null,
		what,
	};
}

/* What a click there selects: what the words beside the pointer are about. */
function pickOf({ item, gap, what, mark }) {
	if (gap) return { process: item.process, gap };
	if (what) return what;
	return mark ? markThing(mark) : null;
}

function inside(what, t) {
	const [start, len] = stretchOf(what);

	return t >= start && t < start + len;
}

/* ---- dragging ---- */

const drag = { mode: null, x: 0, y: 0, moved: false, pointers: new Map() };

function beginDrag(event, mode) {
	drag.mode = mode;
	drag.x = event.clientX;
	drag.y = event.clientY;
	drag.moved = false;
	drag.t = timeAt(event);
	drag.t0 = view.t0;
	drag.t1 = view.t1;
	drag.scroll = rowsBox.scrollTop;
	event.target.setPointerCapture(event.pointerId);
	stopMoving();
}

function pinch() {
	const [a, b] = [...drag.pointers.values()];
	const left = canvas.getBoundingClientRect().left;
	const distance = Math.max(10, Math.abs(a.x - b.x));
	const middle = (a.x + b.x) / 2 - left;

	if (!drag.pinch) {
		drag.pinch = { distance, t: view.t0 + middle * nsPerPixel(), span: view.t1 - view.t0 };
		return;
	}
	const span = (drag.pinch.span * drag.pinch.distance) / distance;
	const t0 = drag.pinch.t - (span * middle) / view.width;

	setWindow(t0, t0 + span);
}

function moveDrag(event) {
	const dx = event.clientX - drag.x;
	const dy = event.clientY - drag.y;

	if (Math.abs(dx) + Math.abs(dy) > 4) drag.moved = true;
	if (!drag.moved) return;
	hideTip();
	if (drag.mode === "brush") {
		view.brush = { t0: drag.t, t1: timeAt(event) };
		redraw();
		return;
	}
	const ns = (dx * (drag.t1 - drag.t0)) / view.width;
	setWindow(drag.t0 - ns, drag.t1 - ns);
	if (event.pointerType === "mouse") rowsBox.scrollTop = drag.scroll - dy;
}

function endDrag(event) {
	if (drag.mode === "brush" && view.brush) {
		const { t0, t1 } = view.brush;

		view.brush = null;
		if (Math.abs(toX(t1) - toX(t0)) > 4) glideTo(Math.min(t0, t1), Math.max(t0, t1));
		else redraw();
	} else if (drag.mode === "pan" && !drag.moved && event.type === "pointerup") {
		const thing = thingAt(event);

		if (thing) select(pickOf(thing));
	}
	drag.mode = null;
	canvas.classList.remove("grabbing");
}

function listenToPointers() {
	canvas.addEventListener("pointerdown", event => {
		if (event.button !== 0) return;
		rowsBox.focus({ preventScroll: true });
		drag.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
		drag.pinch = null;
		beginDrag(event, event.shiftKey ? "brush" : "pan");
		canvas.classList.add("grabbing");
	});
	ruler.addEventListener("pointerdown", event => beginDrag(event, "brush"));
	for (const node of [canvas, ruler]) {
		node.addEventListener("pointermove", event => {
			if (drag.pointers.has(event.pointerId))
				drag.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
			if (drag.pointers.size > 1) pinch();
			else if (drag.mode) moveDrag(event);
			else if (node === canvas) showTip(event, thingAt(event));
		});
		for (const type of ["pointerup", "pointercancel"])
			node.addEventListener(type, event => {
				drag.pointers.delete(event.pointerId);
				drag.pinch = null;
				if (drag.mode) endDrag(event);
			});
		node.addEventListener("pointerleave", hideTip);
	}
	canvas.addEventListener("dblclick", event => {
		const thing = thingAt(event);

		if (thing && pickOf(thing)) goTo(pickOf(thing));
	});
}

/* ---- the overview: drag in the window moves it, at its edges resizes, elsewhere chooses ---- */

function listenToOverview() {
	let mode = null;
	let grab = 0;
	let anchor = 0;
	const perPixel = () => (whole()[1] - whole()[0]) / overview.clientWidth;
	const time = event =>
		whole()[0] + (event.clientX - overview.getBoundingClientRect().left) * perPixel();

	overview.addEventListener("pointerdown", event => {
		const t = time(event);
		const near = perPixel() * 6;

		stopMoving();
		overview.setPointerCapture(event.pointerId);
		view.back.push([view.t0, view.t1]);
		if (Math.abs(t - view.t0) < near) {
			mode = "edge";
			anchor = view.t1;
		} else if (Math.abs(t - view.t1) < near) {
			mode = "edge";
			anchor = view.t0;
		} else if (t > view.t0 && t < view.t1 && view.t1 - view.t0 < view.model.end * 0.97) {
			mode = "move";
			grab = t - view.t0;
		} else {
			mode = "edge";
			anchor = t;
		}
	});
	overview.addEventListener("pointermove", event => {
		const t = time(event);

		if (mode === "move") setWindow(t - grab, t - grab + view.t1 - view.t0);
		else if (mode === "edge" && Math.abs(t - anchor) > perPixel() * 3)
			setWindow(Math.min(t, anchor), Math.max(t, anchor));
		else if (!mode) showOverviewTip(event, t);
	});
	for (const type of ["pointerup", "pointercancel"])
		overview.addEventListener(type, () => {
			mode = null;
		});
	overview.addEventListener("pointerleave", hideTip);
}

/* ---- wheel ---- */

function showHint(text) {
	const hint = $("hint");

	hint.textContent = text;
	hint.classList.add("shown");
	clearTimeout(hint.timer);
	hint.timer = setTimeout(() => hint.classList.remove("shown"), 1400);
}

function onWheel(event) {
	const focused = document.activeElement === rowsBox;
	const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? view.width : 1;

	if (
		event.ctrlKey ||
		event.metaKey ||
		(focused && !event.shiftKey && Math.abs(event.deltaY) >= Math.abs(event.deltaX))
	) {
		event.preventDefault();
		zoomAt(
			timeAt(event),
			Math.exp(
				Math.max(-1, Math.min(1, event.deltaY * unit * (event.ctrlKey ? 0.006 : 0.0022))),
			),
		);
	} else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
		event.preventDefault();
		panBy((event.deltaX || event.deltaY) * unit * nsPerPixel());
	} else {
		showHint("Ctrl + wheel zooms; or click into the timeline first");
	}
}

/* ---- keys ---- */

function stepRow(direction) {
	const rows = view.items.filter(item => item.row);
	const at = rows.findIndex(item => item.row === view.active);
	const to = rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : at + direction))];

	if (to) {
		revealRow(to.row);
		placeLabels();
		announce(to.row.title);
	}
}

function stepSlice(direction) {
	if (!view.active) stepRow(1);
	const next = view.active && neighbour(view.active, view.selected, direction);

	if (!next) return;
	select(next);
	const [start, len] = stretchOf(next);
	if (start + len > view.t1 || start < view.t0) {
		const middle = start + len / 2;
		const span = Math.max(view.t1 - view.t0, len * 1.2);

		glideTo(middle - span / 2, middle + span / 2);
		view.back.pop();
	}
}

function escapeKey() {
	if (view.brush) view.brush = null;
	else if (view.selected) select(null);
	redraw();
}

const middle = () => (view.t0 + view.t1) / 2;
const TIMELINE_KEYS = {
	"+": () => zoomAt(middle(), 1 / 1.6),
	"=": () => zoomAt(middle(), 1 / 1.6),
	w: () => zoomAt(middle(), 1 / 1.6),
	"-": () => zoomAt(middle(), 1.6),
	s: () => zoomAt(middle(), 1.6),
	ArrowLeft: () => panBy((view.t0 - view.t1) * 0.15),
	a: () => panBy((view.t0 - view.t1) * 0.15),
	ArrowRight: () => panBy((view.t1 - view.t0) * 0.15),
	d: () => panBy((view.t1 - view.t0) * 0.15),
	ArrowUp: () => stepRow(-1),
	ArrowDown: () => stepRow(1),
	PageUp: () => {
		rowsBox.scrollTop -= rowsBox.clientHeight * 0.9;
	},
	PageDown: () => {
		rowsBox.scrollTop += rowsBox.clientHeight * 0.9;
	},
	",": () => stepSlice(-1),
	".": () => stepSlice(1),
	m: () => stepMark(1),
	M: () => stepMark(-1),
	Enter: () => view.selected && zoomTo(view.selected),
	b: () => {
		const blocker = blockerOf(view.selected);

		if (blocker) goTo(blocker);
	},
	0: showAll,
	Home: showAll,
	Backspace: goBack,
	Escape: escapeKey,
};
const PAGE_KEYS = {
	"/": () => {
		$("search").focus();
		$("search").select();
	},
	"?": openHelp,
	t: () => nextTheme(),
};

function onKey(event) {
	if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
	const typing = event.target.matches("input, select, textarea");
	const fn =
		(document.activeElement === rowsBox && TIMELINE_KEYS[event.key]) ||
		(!typing && PAGE_KEYS[event.key]);

	if (fn) {
		event.preventDefault();
		fn();
	}
}

function listen() {
	listenToPointers();
	listenToOverview();
	listenToLane();
	when("window", hideTip); /* it is about what was there before */
	$("tl").addEventListener("wheel", onWheel, { passive: false });
	document.addEventListener("keydown", onKey);
	rowsBox.addEventListener("scroll", () => {
		hideTip();
		placeLabels();
		redraw();
	});
	$("zoom-in").addEventListener("click", TIMELINE_KEYS["+"]);
	$("zoom-out").addEventListener("click", TIMELINE_KEYS["-"]);
	$("zoom-all").addEventListener("click", showAll);
	$("search").addEventListener("input", () => {
		view.filter = $("search").value.trim();
		rowsBox.scrollTop = 0;
		layout();
	});
	$("search").addEventListener("keydown", event => {
		if (event.key === "Escape" && view.filter) {
			event.stopPropagation();
			$("search").value = view.filter = "";
			layout();
		} else if (event.key === "Enter") {
			rowsBox.focus();
		}
	});
	$("sort").addEventListener("change", () => {
		view.sort = $("sort").value;
		layout();
	});
	new ResizeObserver(() => {
		measure();
		overviewColumns = null;
		redraw();
	}).observe($("tl"));
}
