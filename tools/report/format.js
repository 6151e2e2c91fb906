// SPDX-License-Identifier: Apache-2.0
/*
 * Numbers and times as people read them, and the making of elements. Text from a recording reaches
 * the page only as text nodes and attributes: nothing here or elsewhere parses HTML.
 */

const $ = id => document.getElementById(id);

/*
 * el("td", {class: "num", title: "..."}, child, ...): children are nodes, texts or nothing. "on"
 * holds listeners.
 */
function el(tag, attributes, ...children) {
	const node = document.createElement(tag);

	for (const [key, value] of Object.entries(attributes || {})) {
		if (value === undefined || value === null || value === false) continue;
		if (key === "on")
			for (const [type, fn] of Object.entries(value)) node.addEventListener(type, fn);
		else node.setAttribute(key, value === true ? "" : String(value));
	}
	for (const child of children.flat(Infinity))
		if (child !== undefined && child !== null && child !== false) node.append(child);
	return node;
}

/* Control characters and those that turn the direction of text would disturb what stands around. */
function clean(text) {
	return String(text).replace(
		/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
		c => (c < " " ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : "\ufffd"),
	);
}

const THIN = "\u202f";

function fmtInt(n) {
	return Math.round(n)
		.toString()
		.replace(/\B(?=(\d{3})+(?!\d))/g, THIN);
}

function plural(n, one, many) {
	return fmtInt(n) + " " + (n === 1 ? one : many || one + "s");
}

/* A number with about `digits` digits that matter. */
function digits(x, n) {
	const whole = Math.max(1, Math.floor(Math.log10(Math.max(x, 1))) + 1);

	return x.toFixed(Math.max(0, n - whole));
}

/* A length of time for reading: 5.021 ms. */
function fmtDur(ns, n = 4) {
	if (!(ns > 0)) return "0";
	if (ns < 1e3) return Math.round(ns) + " ns";
	if (ns < 999.95e3) return digits(ns / 1e3, n) + " µs";
	if (ns < 999.95e6) return digits(ns / 1e6, n) + " ms";
	if (ns < 120e9) return digits(ns / 1e9, n) + " s";
	if (ns < 7200e9) return Math.floor(ns / 60e9) + " min " + ((ns % 60e9) / 1e9).toFixed(0) + " s";
	return Math.floor(ns / 3600e9) + " h " + Math.floor((ns % 3600e9) / 60e9) + " min";
}

/* All of its digits, as far as they are whole nanoseconds. */
function fmtExact(ns) {
	const whole = Math.round(ns);

	if (whole < 1e3) return whole + " ns";
	return (whole / 1e3).toFixed(3).replace(/\B(?=(\d{3})+(?=\.))/g, THIN) + " µs";
}

/* A point in time, from the start of the recording, exact to `step` ns. */
function fmtTime(ns, step = 1) {
	const places = Math.max(0, Math.min(9, Math.ceil(9 - Math.log10(Math.max(step, 1)) - 1e-9)));
	const sign = ns < 0 ? "−" : "";
	const abs = Math.abs(ns);
	const sec = Math.floor(abs / 1e9);
	let frac = String(Math.round(abs - sec * 1e9))
		.padStart(9, "0")
		.slice(0, places);

	frac = frac.replace(/(\d{3})(?=\d)/g, "$1" + THIN);
	return sign + fmtInt(sec) + (frac && "." + frac) + " s";
}

/* A multiple of `step` ns, without a fraction. */
function fmtOffset(ns, step) {
	const [unit, name] = step >= 1e6 ? [1e6, "ms"] : step >= 1e3 ? [1e3, "µs"] : [1, "ns"];

	return fmtInt(ns / unit) + " " + name;
}

/* Unix time of a point that lies `ns` behind the base: to the nanosecond, in local time. */
function fmtDate(base, ns) {
	const unix = BigInt(base) + BigInt(Math.round(ns));
	const date = new Date(Number(unix / 1000000n));
	const frac = String(unix % 1000000000n).padStart(9, "0");

	if (Number.isNaN(date.getTime())) return String(unix) + " ns";
	const two = n => String(n).padStart(2, "0");
	return (
		date.getFullYear() +
		"-" +
		two(date.getMonth() + 1) +
		"-" +
		two(date.getDate()) +
		" " +
		two(date.getHours()) +
		":" +
		two(date.getMinutes()) +
		":" +
		two(date.getSeconds()) +
		"." +
		frac
	);
}

/* A share of 1. */
function fmtPct(x) {
	if (!Number.isFinite(x)) return "–";
	if (x === 0) return "0" + THIN + "%";
	if (x > 0 && x < 0.0005) return "< 0.1" + THIN + "%";
	if (x < 1 && x >= 0.9995) return "> 99.9" + THIN + "%";
	return (x * 100).toFixed(1) + THIN + "%";
}

function share(part, whole) {
	return whole > 0 ? part / whole : NaN;
}
