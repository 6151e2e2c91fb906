// SPDX-License-Identifier: Apache-2.0
/*
 * Canvases: sharp on any display, and their colours, which come from the style sheet. Pixels are
 * device pixels where a name says "dev", else those of the style sheet.
 */

/* Makes the canvas as sharp as the display; returns whether its size has changed. */
function fitCanvas(canvas, width, height) {
	const dpr = Math.min(window.devicePixelRatio || 1, 3);
	const w = Math.max(1, Math.round(width * dpr));
	const h = Math.max(1, Math.round(height * dpr));

	canvas.dpr = dpr;
	if (canvas.width === w && canvas.height === h) return false;
	canvas.width = w;
	canvas.height = h;
	canvas.style.width = width + "px";
	canvas.style.height = height + "px";
	return true;
}

const LITTLE = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

/* #rrggbb as one pixel of an ImageData. */
function pixel(hex) {
	const v = parseInt(hex.slice(1), 16);
	const r = v >> 16;
	const g = (v >> 8) & 255;
	const b = v & 255;

	return (
		(LITTLE
			? (255 << 24) | (b << 16) | (g << 8) | r
			: (r << 24) | (g << 16) | (b << 8) | 255) >>> 0
	);
}

/* Two pixels mixed: part 0 is the first, 1 the second. */
function mix(a, b, part) {
	let out = 0;

	for (let shift = 0; shift < 32; shift += 8) {
		const x = (a >>> shift) & 255;
		const y = (b >>> shift) & 255;

		out |= Math.round(x + (y - x) * part) << shift;
	}
	return out >>> 0;
}

const COLOUR_NAMES = [
	"surface",
	"row",
	"row-active",
	"process",
	"line",
	"grid",
	"text",
	"muted",
	"hold",
	"hold-edge",
	"hold-text",
	"wait",
	"wait-line",
	"wait-text",
	"drop",
	"gap",
	"gap-line",
	"pause",
	"pause-line",
	"mark",
	"outside",
	"strip",
	"accent",
	"bad",
];

/* The colours of the present theme, as text (css) and as pixels. */
function readColours() {
	const style = getComputedStyle(document.documentElement);
	const colours = { css: {} };

	for (const name of COLOUR_NAMES) {
		colours.css[name] = style.getPropertyValue("--" + name).trim();
		colours[name] = pixel(colours.css[name]);
	}
	colours.font = "11px " + style.getPropertyValue("--font").trim();
	return colours;
}

/* Steps for the ticks of an axis: 1, 2 or 5 times a power of ten, at least `least`. */
function niceStep(least) {
	const power = 10 ** Math.floor(Math.log10(least));

	for (const factor of [1, 2, 5]) if (power * factor >= least * 0.999999) return power * factor;
	return power * 10;
}

/* A picture as pixels in memory, row by row; all that is drawn is clipped to it. */
class Raster {
	constructor(width, height) {
		this.width = width;
		this.height = height;
		this.image = new ImageData(width, height);
		this.pixels = new Uint32Array(this.image.data.buffer);
	}

	fill(x0, x1, y0, y1, colour) {
		x0 = Math.max(0, x0);
		x1 = Math.min(this.width, x1);
		y0 = Math.max(0, y0);
		y1 = Math.min(this.height, y1);
		if (x0 < x1)
			for (let y = y0; y < y1; y++)
				this.pixels.fill(colour, y * this.width + x0, y * this.width + x1);
	}

	/*
	 * Diagonal lines, `on` of every `period` pixels; `slip` moves them along with what they mark.
	 * Once for a picture: one long line per pair of colours, of which parts are copied.
	 */
	setHatch(period, on, slip) {
		this.period = period;
		this.on = on;
		this.slip = slip;
		this.lines = new Map();
	}

	hatchLine(ground, line) {
		let made = this.lines.get(line);

		if (!made) {
			made = new Uint32Array(this.width + this.period);
			for (let x = 0; x < made.length; x++)
				made[x] = x % this.period < this.on ? line : ground;
			this.lines.set(line, made);
		}
		return made;
	}

	hatch(x0, x1, y0, y1, ground, line) {
		x0 = Math.max(0, x0);
		x1 = Math.min(this.width, x1);
		y0 = Math.max(0, y0);
		y1 = Math.min(this.height, y1);
		const n = x1 - x0;
		const from = this.hatchLine(ground, line);

		if (n <= 0) return;
		for (let y = y0; y < y1; y++) {
			const phase = (x0 + y + this.slip) % this.period;
			const at = y * this.width + x0;

			if (n > 24) this.pixels.set(from.subarray(phase, phase + n), at);
			else for (let k = 0; k < n; k++) this.pixels[at + k] = from[phase + k];
		}
	}

	/* Level lines, `on` of every `period` pixels from above. */
	level(x0, x1, y0, y1, ground, line, period, on) {
		this.fill(x0, x1, y0, y1, ground);
		for (let y = y0 + (period >> 1); y < y1; y += period)
			this.fill(x0, x1, y, Math.min(y + on, y1), line);
	}

	/* Fades the part from `x` on for `length` pixels (to the left if negative) into `colour`. */
	fade(x, length, y0, y1, colour) {
		const n = Math.abs(length);
		const dir = length < 0 ? -1 : 1;

		for (let k = 0; k < n; k++) {
			const at = x + dir * k;

			if (at < 0 || at >= this.width) continue;
			for (let y = Math.max(0, y0); y < Math.min(this.height, y1); y++) {
				const i = y * this.width + at;

				this.pixels[i] = mix(colour, this.pixels[i], (k + 0.5) / n);
			}
		}
	}
}
