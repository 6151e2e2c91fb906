// SPDX-License-Identifier: Apache-2.0
/* The marks as a table: where each is, and how long after the one before. */

const MARKS_STEP = 500; /* rows more, each time they are asked for */

function markColumns() {
	return [
		{
			title: "Mark",
			head: true,
			value: mark => mark.title,
			cell: mark => link(mark.title, () => toMark(mark), "Show in the timeline"),
		},
		{
			title: "Time",
			num: true,
			value: mark => mark.at,
			cell: mark => fmtTime(mark.at, 1000),
		},
		{
			title: "Since the one before",
			num: true,
			value: mark => mark.since,
			cell: mark => (mark.since >= 0 ? fmtDur(mark.since) : "–"),
			help: "Of the same process",
		},
		{ title: "Thread", value: markThread, cell: markThread },
		{ title: "Process", value: markProcess, cell: markProcess },
	];
}

function markProcess(mark) {
	return mark.process.title;
}

function toMark(mark) {
	$("timeline").scrollIntoView({ block: "start" });
	goTo(markThing(mark));
	placeLabels();
	rowsBox.focus({ preventScroll: true });
}

function markTable(marks) {
	return sortable({
		columns: markColumns().filter(
			c => c.title !== "Process" || view.model.processes.length > 1,
		),
		rows: marks,
		sort: 1,
		up: true,
		step: MARKS_STEP,
		caption: "Marks, with their times",
	});
}

function showMarks() {
	const section = $("marks");
	const { marks } = view.model;

	if (!marks.length) return;
	const box = el("div", { class: "tall" }, markTable(marks));
	const count = el("span", { class: "muted", role: "status" });
	const find = el("input", {
		id: "find-mark",
		type: "search",
		placeholder: "Find marks",
		"aria-label": "Find marks",
		autocomplete: "off",
		spellcheck: "false",
		on: {
			input: () => {
				const wanted = find.value.trim().toLowerCase();
				const found = marks.filter(mark => mark.title.toLowerCase().includes(wanted));

				count.textContent = wanted ? plural(found.length, "mark") + " found" : "";
				box.replaceChildren(markTable(found));
			},
		},
	});

	section.append(
		el(
			"div",
			{ class: "section-head" },
			el("h2", { id: "marks-h" }, "Marks"),
			el("label", { class: "search" }, find),
			count,
			marks.length < markCount() &&
				el(
					"span",
					{ class: "muted" },
					fmtInt(marks.length) +
						" of " +
						fmtInt(markCount()) +
						" are kept, the first ones",
				),
		),
		box,
	);
	section.hidden = false;
}
