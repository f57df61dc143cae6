/* SPDX-License-Identifier: Apache-2.0 */
"use strict";
/*
 * The viewer of --html: this file and page_sides.js, page_machine.js, page_fabric.js and page.js after it are one script. It has what the command's
 * --json prints (#data) and makes a page of it, by its format. Drawings that --svg writes stand in the page as they are: the viewer
 * takes the legend out, so that it wraps, and answers to the pointer and to keys. Here is what all formats have in common.
 */
const data = JSON.parse(document.getElementById("data").textContent);
const drawings = [...document.querySelectorAll("body > svg")];
for (const drawing of drawings)
	drawing.dataset.whole = ""; /* to be shown whole, however small */

/* ---- elements ---- */

const SVG = new Set(["svg", "g", "path", "rect", "text", "title", "style"]);
const make = (name, attributes, ...inside) => {
	const node = SVG.has(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
	for (const [key, value] of Object.entries(attributes ?? {}))
		if (value !== undefined && value !== null)
			node.setAttribute(key, value);
	node.append(...inside.flat(Infinity).filter((one) => one !== undefined && one !== null));
	return node;
};

/*
 * A load, as pictures, tables and legends have it: how high a trough is filled, and the colour of its step. Lanes of the drawings of
 * --svg are filled across.
 */
const LOADS = ["below 20 %", "20 to 40 %", "40 to 60 %", "60 to 85 %", "85 % and more"];
const stepOf = (value, steps) => steps.filter((step) => value >= step).length;
const loadBand = (load) => stepOf(load, [0.2, 0.4, 0.6, 0.85]);
const loadLegend = LOADS.map((text, band) => [`load band-${band}`, text, [0.1, 0.3, 0.5, 0.72, 1][band]]);
const gauge = (share, band) => make("span", { class: "gauge" },
	make("b", { class: `band-${band}`, style: `height:${Math.min(share, 1) * 100}%` }));

/*
 * A table that sorts by its columns. heads: "#rate" is one of numbers. A cell is a text, or { text, value, parts }: what it sorts
 * by, and elements around the text. links: the link that each row is of; a click on the row shows it.
 */
const table = (name, title, heads, rows, links) => {
	const isNumber = heads.map((head) => head.startsWith("#"));
	const cell = (one, column) => {
		const { text, value, parts } = typeof one === "object" ? one : { text: one };
		return make("td", { class: isNumber[column] ? "number" : undefined, "data-value": value }, parts,
			text?.split(/(?<=>|\.\.|, |(?:switch|bridge|nic|net):)/).flatMap((part, i) => i ? [make("wbr"), part] : part));
	};
	const body = make("tbody", {}, rows.map((row, i) => make("tr", { "data-row": links?.[i] }, row.map(cell))));
	const head = make("tr", {}, heads.map((text, column) => {
		const th = make("th", { class: isNumber[column] ? "number" : undefined, tabindex: 0 }, text.replace("#", ""));
		const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
		const sort = () => {
			const way = th.getAttribute("aria-sort") === "ascending" ? -1 : 1;
			for (const other of head.cells)
				other.removeAttribute("aria-sort");
			th.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
			body.append(...[...body.rows].sort((a, b) => way * value(a).localeCompare(value(b), "en", { numeric: true })));
		};
		th.addEventListener("click", sort);
		th.addEventListener("keydown", (event) => event.key === "Enter" && sort());
		return th;
	}));
	body.addEventListener("click", (event) => {
		const row = event.target.closest("tr[data-row]");
		if (row)
			showInPicture(row.dataset.row);
	});
	return [make("h2", {}, title), make("div", { class: "wide" }, make("table", { class: name }, make("thead", {}, head), body))];
};

/* ---- words and numbers ---- */

const many = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
/* A sentence with commands between backquotes, and options. A number and its unit stay on one line. */
const prose = (text) => (text ?? "").replace(/(\d) (?=(%|GB\/s|Gbit\/s|[KMG]?i?B|[mu]?s)(?!\w))/g, "$1\u00a0").replace(/(^| )(--[a-z-]+)/g, "$1`$2`").split("`").map((part, i) => i % 2 ? make("code", {}, part) : part);

/* As src/command/print/units.c. */
const decimals = (value) => value >= 99.95 ? 0 : value >= 9.995 ? 1 : Math.min(4, 2 + Math.max(0, Math.ceil(-Math.log10(value / 0.9995))));
const GBps = (rate) => rate ? (rate / 1e9).toFixed(decimals(rate / 1e9)) : "?";
const capacity = (of) => {
	const rate = GBps(of.provenance === "unknown" ? 0 : of.rate_Bps);
	const signs = { assumed: `~${rate}`, nominal: `(${rate})`, at_least: `≥${rate}` };
	return rate === "?" ? rate : signs[of.provenance] ?? rate;
};
const withUnit = (words) => words === "?" ? words : words + " GB/s";
const percent = (share) => Math.floor(share * 100 + 0.01) + " %";
const FOUR = new Intl.NumberFormat("en", { maximumSignificantDigits: 4, roundingMode: "halfEven", useGrouping: false }); /* as printf */
const digits = (value) => FOUR.format(Number(value.toPrecision(12)));
const time = (s) => s >= 1 ? digits(s) + " s" : s >= 1e-3 ? digits(s * 1e3) + " ms" : digits(s * 1e6) + " us";
const rate = (Bps) => Bps === null ? "-" : (Bps ? GBps(Bps) : "0") + " GB/s";
const size = (bytes) => {
	const power = Math.min(3, Math.floor(Math.log2(Math.max(bytes * 1.00001, 1)) / 10));
	return digits(bytes / 1024 ** power) + " " + ["B", "KiB", "MiB", "GiB"][power];
};
const known = { unknown: "unknown", assumed: "assumed", nominal: "nominal", at_least: "lower bound", measured: "measured" };

/* ---- drawings of the viewer ---- */

const WIDTH = Math.max(360, Math.min(1280, innerWidth - 32)), LETTER = 7.2; /* of words of 12 pixels */
const isNarrow = WIDTH < 600;
const words = (x, y, text, more) => make("text", { x, y, class: "words", ...more }, text);
const rect = (x, y, width, height, more) => make("rect", { x, y, width, height, ...more });
const clip = (text, room) => text.length * LETTER <= room ? text : text.slice(0, Math.max(1, Math.floor(room / LETTER) - 1)) + "…";
/* legend: [class of the sample, words, how high it is filled if it is a load]. */
const sampleOf = (className, share) => share === undefined ? make("path", { class: className, d: "M0 0h36", "stroke-width": 9 }) :
	[make("path", { class: "bed", d: "M0 0h36", "stroke-width": 13 }),
		make("path", { class: className, d: `M0 ${6.5 - 6.5 * share}h36`, "stroke-width": 13 * share })];
const scene = (height, nodes, legend, width = WIDTH) => make("svg", { "data-scene": `-12 -12 ${width + 24} ${height + 24}` }, nodes,
	make("g", { class: "legend" }, legend.map(([className, text, share]) => make("g", { class: "item" },
		className ? sampleOf(className, share) : null, make("text", {}, text)))));
