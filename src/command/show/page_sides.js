/* SPDX-License-Identifier: Apache-2.0 */
/* Before and after: two drawings side by side, or below each other in a narrow window, and pairs of bars. */

/* What a command says first is the title of its page, as far as the first semicolon. */
const titleOf = (answer) => {
	const at = answer.indexOf("; ");
	return at < 0 ? [answer, ""] : [answer.slice(0, at), answer.slice(at + 2)];
};
const timesAsFast = (before, after) => {
	const ratio = before / after;
	return ratio >= 1.005 ? `${ratio.toFixed(2)} times as fast` : ratio <= 0.995 ? `takes ${(1 / ratio).toFixed(2)} times as long` : "the same";
};

/*
 * Two sides: { head, nodes, box }, box being [x, y, width, height] of the nodes. Parts know their side: that of whose data-maker
 * they are in. Cards light up the same part on both.
 */
const besides = (sides, legend, isWhole) => {
	const GAP = isNarrow ? 24 : 40, width = Math.max(...sides.map(({ box }) => box[2])), height = Math.max(...sides.map(({ box }) => box[3]));
	const letters = isWhole ? (isNarrow ? 0.034 : 0.023) * width : 14, HEAD = 2 * letters, most = Math.floor(width / (letters * 0.62));
	const put = ({ head, nodes, box }, i) => {
		const [x, y] = isNarrow ? [0, i * (height + HEAD + GAP)] : [i * (width + GAP), 0], [dx, dy] = [x - box[0], y + HEAD - box[1]];
		return [make("text", { x: x + (width - box[2]) / 2 + 8, y: y + 1.3 * letters, class: "words strong", style: `font-size:${letters.toFixed(1)}px` },
			head.length > most ? head.slice(0, head.lastIndexOf(", ") + 1 || most).replace(/,$/, "") : head),
		make("g", { "data-side": `${dx} ${dy}`, "data-maker": i, transform: `translate(${dx} ${dy})` }, nodes)];
	};
	const drawing = scene(isNarrow ? 2 * (height + HEAD) + GAP : height + HEAD, sides.map(put), legend, isNarrow ? width : 2 * width + GAP);
	if (isWhole && !isNarrow)
		drawing.dataset.whole = "";
	return drawing;
};
const makerOf = (node) => Number(node.closest("[data-maker]")?.dataset.maker ?? 0);

/* Of each row { name, values, texts, note, strong } two bars, over the longer one of the two: before and after. */
const drawPairs = (rows, names, unit) => {
	const LINE = isNarrow ? 66 : 52, left = isNarrow ? 6 : Math.min(260, Math.max(...rows.map((row) => row.name.length)) * LETTER + 24);
	const room = WIDTH - left - LETTER * Math.max(...rows.flatMap(({ texts, note }) => [texts[0].length, `${texts[1]}, ${note}`.length])) - 20;
	const row = ({ name, values, texts, note, strong }, i) => {
		const y = LINE * i, top = y + (isNarrow ? 22 : 8), most = Math.max(...values), wide = (value) => Math.max(2, room * value / (most || 1));
		return make("g", { class: "vertex pair-of-bars", "data-vertex": i }, make("title", {}, name), rect(0, y, WIDTH, LINE - 6, { class: "row", rx: 4 }),
			words(6, isNarrow ? y + 15 : y + 27, clip(name, isNarrow ? WIDTH : left - 8), { class: "words strong" }),
			rect(left, top, wide(values[0]), 13, { class: "bar" }), words(left + wide(values[0]) + 8, top + 11, texts[0]),
			rect(left, top + 16, wide(values[1]), 13, { class: "bar best" }),
			words(left + wide(values[1]) + 8, top + 27, note ? `${texts[1]}, ${note}` : texts[1], strong ? { class: "words strong" } : {}));
	};
	return scene(LINE * rows.length, rows.map(row), [["stream slower", names[0]], ["stream best", names[1]], [null, unit]]);
};
const pairsOf = (name, headline, rows, names, unit, tables) => ({ name, headline, drawing: drawPairs(rows, names, unit), tables,
	vertex: (i) => ({ title: rows[i].name, words: rows[i].note, links: [], vertices: [i],
		rows: [...names.map((of, side) => [of, rows[i].texts[side]]), ...rows[i].more ?? []] }) });
