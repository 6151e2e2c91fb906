// SPDX-License-Identifier: Apache-2.0
/*
 * The names beside the rows, as elements, so that they can be read, clicked and selected. Only those
 * in sight exist.
 */

const labels = new Map(); /* item -> element */

function processLabel(item) {
	const { process } = item;
	const held = process.rows.reduce((sum, row) => sum + row.ns[HOLD], 0);
	const known =
		process.end -
		process.start -
		process.gaps.reduce((sum, gap) => sum + (gap.late ? 0 : gap.missing), 0);
	const used = share(held, known * gilsOf(process));
	const open = process.open || Boolean(view.filter);

	return el(
		"div",
		{
			class: "tl-label tl-process",
			title: process.title + (process.tags ? "\n" + clean(process.tags) : ""),
		},
		el(
			"button",
			{
				type: "button",
				class: "quiet fold",
				"aria-expanded": open ? "true" : "false",
				"aria-label": (open ? "Close " : "Open ") + process.title,
				on: {
					click: () => {
						process.open = !process.open;
						layout();
						/* The button has been made anew. */
						const now = view.items.find(
							other => other.process === process && !other.row,
						);

						if (labels.has(now)) labels.get(now).querySelector("button").focus();
					},
				},
			},
			open ? "▾" : "▸",
		),
		el(
			"span",
			{ class: "name" },
			view.model.processes.length > 1 ? process.short + " · " : "",
			process.title,
		),
		el("span", { class: "num muted" }, fmtPct(isSilent(process) ? NaN : Math.min(used, 1))),
	);
}

function rowLabel(item) {
	const { row } = item;
	const whole = row.observed || view.model.end;
	const meter = el(
		"span",
		{ class: "meter", "aria-hidden": "true" },
		el("i", { class: "m-hold" }),
		el("i", { class: "m-wait" }),
	);
	const held = share(row.ns[HOLD], whole);
	const waited = share(row.ns[TAKE], whole);

	meter.children[0].style.width = 100 * Math.min(1, held || 0) + "%";
	meter.children[1].style.width = 100 * Math.min(1, waited || 0) + "%";
	return el(
		"div",
		{
			class: "tl-label tl-thread" + (row === view.active ? " active" : ""),
			title: row.title + "\nholds " + fmtPct(held) + ", waits " + fmtPct(waited),
			on: {
				click: () => {
					view.active = row;
					$("rows").focus({ preventScroll: true });
					placeLabels();
					redraw();
				},
			},
		},
		el("span", { class: "name" }, row.title),
		meter,
	);
}

function forgetLabels() {
	for (const node of labels.values()) node.remove();
	labels.clear();
}

function placeLabels() {
	const box = $("rows");
	const seen = new Set();

	for (const item of itemsInSight(box.scrollTop - 200, box.clientHeight + 400)) {
		let node = labels.get(item);

		seen.add(item);
		if (!node) {
			node = item.row ? rowLabel(item) : processLabel(item);
			node.style.top = item.y + "px";
			node.style.height = item.h + "px";
			labels.set(item, node);
			$("labels").append(node);
		}
		node.classList.toggle("active", Boolean(item.row) && item.row === view.active);
	}
	for (const [item, node] of labels)
		if (!seen.has(item)) {
			node.remove();
			labels.delete(item);
		}
}

/* After the rows have changed: the height of the picture, the words about the search. */
function fitRows() {
	const box = $("rows");

	forgetLabels();
	$("tall").style.height = Math.max(view.height, 1) + "px";
	box.style.height =
		Math.min(view.height, Math.max(180, Math.round(window.innerHeight * 0.62))) + "px";
	box.dataset.rows = String(view.items.length);
	$("search-count").textContent = view.filter ? plural(view.found, "thread") + " found" : "";
	measure();
	placeLabels();
}

/* How wide the picture is. */
function measure() {
	const box = $("rows");
	const side = $("tl-corner").offsetWidth;

	view.width = Math.max(50, box.clientWidth - side);
}
