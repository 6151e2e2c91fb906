// SPDX-License-Identifier: Apache-2.0
/* Begins: reads the data, shows the page, switches light and dark, explains itself. */

const SIGNS = [
	[
		"k-hold",
		"holds",
		"hold_gil: it alone runs Python code. A small corner at its end: it was made to let go",
	],
	["k-wait", "waits", "take_gil: wants the GIL, and does not have it yet"],
	["k-drop", "drop", "drop_gil: has let go, and waits until the other thread has it"],
	["k-gap", "lost or not recorded", "Events are missing, or the recording had not begun"],
	["k-pause", "paused", "Nothing was recorded, as somebody had asked for it: nothing is missing"],
	[
		"k-mark",
		"mark",
		"A named instant. A flag in the row of the thread that has set it, or of the process",
	],
	[
		"k-open",
		"open end",
		"Fades where an end was not recorded; a cross where the thread ended; a " +
			"diamond where the length is not known",
	],
];

const KEYS = [
	["+  −", "zoom in, out (also w, s; the wheel)"],
	["←  →", "move in time (also a, d)"],
	["↑  ↓", "choose a thread"],
	[",  .", "previous, next slice of the thread"],
	["m  M", "next, previous mark (M: with Shift)"],
	["Enter", "zoom to what is selected"],
	["b", "from a wait to the thread that had the GIL"],
	["0", "show everything"],
	["Backspace", "back to where you were"],
	["/", "find threads"],
	["t", "light, dark, or as the system"],
	["Esc", "deselect; leave the search"],
	["?", "this list"],
];

/* ---- light and dark ---- */

const THEMES = ["auto", "light", "dark"];

function remember(theme) {
	try {
		localStorage.setItem("giltrace-theme", theme);
	} catch {
		/* a page from a file may have no storage */
	}
}

function remembered() {
	try {
		return localStorage.getItem("giltrace-theme") || "auto";
	} catch {
		return "auto";
	}
}

function setTheme(theme) {
	const dark =
		theme === "dark" ||
		(theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);

	document.documentElement.dataset.theme = theme;
	document.documentElement.classList.toggle("dark", dark);
	$("theme-name").textContent = { auto: "Auto", light: "Light", dark: "Dark" }[theme];
	$("theme").setAttribute("aria-label", "Theme: " + theme);
	view.colours = readColours();
	redraw();
}

/* Begins with the one that looks different now. */
function nextTheme() {
	const now = document.documentElement.dataset.theme;
	const dark = matchMedia("(prefers-color-scheme: dark)").matches;
	const order = dark ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
	const next = order[(order.indexOf(THEMES.includes(now) ? now : "auto") + 1) % 3];

	setTheme(next);
	remember(next);
}

/* ---- help ---- */

function openHelp() {
	const dialog = $("help");

	if (dialog.open) return;
	if (!dialog.children.length)
		dialog.append(
			el(
				"div",
				{ class: "details-head" },
				el("h2", { id: "help-h" }, "Keys and signs"),
				el(
					"button",
					{
						type: "button",
						class: "quiet",
						"aria-label": "Close",
						on: { click: () => dialog.close() },
					},
					"×",
				),
			),
			el(
				"p",
				{ class: "muted" },
				"Keys work once the timeline has the focus (click it). Drag moves; drag the " +
					"ruler, or with Shift the rows, to zoom to a part; double-click a slice to " +
					"zoom to it.",
			),
			el(
				"table",
				{ class: "keys" },
				el(
					"tbody",
					null,
					KEYS.map(([key, what]) =>
						el(
							"tr",
							null,
							el("th", { scope: "row" }, el("kbd", null, key)),
							el("td", null, what),
						),
					),
				),
			),
			el("h3", null, "Signs"),
			el(
				"dl",
				{ class: "signs" },
				SIGNS.map(([kind, name, what]) => [
					el("dt", null, el("i", { class: "sign " + kind, "aria-hidden": "true" }), name),
					el("dd", null, what),
				]),
			),
			el(
				"p",
				{ class: "muted" },
				"Where a pixel stands for many slices, a column shows their shares of the " +
					"time: hold from the ground up, wait above it. A thread that neither holds nor " +
					"waits does I/O, runs native code, sleeps, or has no CPU.",
			),
		);
	dialog.showModal();
}

/* Pauses and marks are explained where there are any; the help has all. */
function showLegend() {
	const { model } = view;
	const shown = {
		"k-pause": model.processes.some(process => process.gaps.some(gap => gap.paused)),
		"k-mark": model.marks.length > 0,
	};

	$("legend").replaceChildren(
		...SIGNS.filter(([kind]) => shown[kind] !== false).map(([kind, name, what]) =>
			el(
				"li",
				{ title: what },
				el("i", { class: "sign " + kind, "aria-hidden": "true" }),
				name,
			),
		),
	);
}

/* ---- all ---- */

function showNav() {
	const links = [
		["glance", "Overview"],
		["timeline", "Timeline"],
		["marks", "Marks"],
		["ranks", "Processes"],
		["threads", "Threads"],
		["blame", "Who blocked whom"],
		["longest", "Longest"],
		["usage", "Over time"],
		["exact", "Exactness"],
	];

	$("nav").replaceChildren(
		...links
			.filter(([id]) => !$(id).hidden)
			.map(([id, name]) => el("a", { href: "#" + id }, name)),
	);
}

function showTimeline() {
	const { model } = view;

	$("timeline").hidden = false;
	if (model.rows.length > OPEN_ROWS)
		model.processes.forEach((process, k) => {
			process.open = k === 0 && process.rows.length <= OPEN_ROWS * 2;
		});
	makeStrips(model);
	when("window", hideTip);
	when("rows", fitRows);
	when("selection", showDetails);
	onPaint(placeTicks);
	onPaint(paintRows);
	onPaint(paintRuler);
	onPaint(paintLane);
	onPaint(paintOverview);
	showLegend();
	$("tl").classList.toggle("with-marks", model.marks.length > 0);
	measure();
	[view.t0, view.t1] = whole();
	layout();
	showDetails();
	listen();
	paintNow();
}

/* For tests, and for people at the console. */
function openToOthers() {
	window.giltrace = {
		model: view.model,
		window: () => [view.t0, view.t1],
		still: () => !moving && !pending,
		setWindow,
		goTo,
		select,
		selected: () => view.selected,
		items: () => view.items.length,
		paint: () => {
			paintNow();
			return view.frameMs;
		},
		frames: () => view.drawn,
		markNames: () => laneNames,
		/* The middle of a slice or cell in the window of the browser; its row must be in sight. */
		position: what => {
			const [start, len] = stretchOf(what);
			const item = itemOf(what.row);
			const box = canvas.getBoundingClientRect();

			return [
				box.left + toX(start + len / 2),
				rowsBox.getBoundingClientRect().top - rowsBox.scrollTop + item.y + item.h / 2,
			];
		},
	};
}

function fail(error) {
	$("title").textContent = "This report cannot be shown";
	$("banners").append(
		el("p", { class: "banner bad" }, String((error && error.message) || error)),
	);
	document.documentElement.dataset.state = "failed";
	throw error;
}

function show(model) {
	view.model = model;
	setTheme(remembered());
	$("theme").addEventListener("click", nextTheme);
	$("help-open").addEventListener("click", openHelp);
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
		setTheme(document.documentElement.dataset.theme),
	);
	showHead();
	showBanners();
	if (model.processes.length) showTimeline();
	showGlance();
	showMarks();
	showRanks();
	showThreads();
	showBlame();
	showLongest();
	showUsage();
	showExact();
	showNav();
	$("foot").textContent =
		"Made by gil2trace " +
		model.meta.version +
		". This page is complete in itself and loads nothing.";
	openToOthers();
	document.documentElement.dataset.state = "ready";
}

readModel().then(show).catch(fail);
