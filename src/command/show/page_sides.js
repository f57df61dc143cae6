/* SPDX-License-Identifier: Apache-2.0 */
/* Before and after: two drawings side by side, or below each other in a narrow window, and pairs of bars. */

/* What a command says first is the title of its page, as far as the first semicolon or full stop; and the rest. */
const titleOf = (answer) => {
	const at = answer.search(/; |\.( (?=[A-Z])|$)/), rest = at < 0 ? "" : answer.slice(at + 2);
	return [at < 0 ? answer : answer.slice(0, at), rest && rest[0].toUpperCase() + rest.slice(1)];
};
const timesAsFast = (before, after) => {
	const ratio = before / after;
	return ratio >= 1.005 ? `${ratio.toFixed(2)} times as fast` : ratio <= 0.995 ? `takes ${(1 / ratio).toFixed(2)} times as long` : "the same";
};

/*
 * Two sides: { head, nodes, box, left }, box being [x, y, width, height] of the nodes, which begin at left. Parts know their side: that of whose data-maker
 * they are in. Cards light up the same part on both.
 */
const besides = (sides, legend, isWhole) => {
	const GAP = isNarrow ? 24 : 40, width = Math.max(...sides.map(({ box }) => box[2])), height = Math.max(...sides.map(({ box }) => box[3]));
	const letters = isWhole ? (isNarrow ? 0.034 : 0.023) * width : 14, HEAD = 2 * letters, most = Math.floor(width / (letters * 0.62));
	const put = ({ head, nodes, box, left = 8 }, i) => {
		const [x, y] = isNarrow ? [0, i * (height + HEAD + GAP)] : [i * (width + GAP), 0], [dx, dy] = [x - box[0], y + HEAD - box[1]];
		return [make("text", { x: x + (width - box[2]) / 2 + left, y: y + 1.3 * letters, class: "words strong", style: `font-size:${letters.toFixed(1)}px` },
			head.length > most ? head.slice(0, head.lastIndexOf(", ") + 1 || most).replace(/,$/, "") : head),
		make("g", { "data-side": `${dx} ${dy}`, "data-maker": i, transform: `translate(${dx} ${dy})` }, nodes)];
	};
	const drawing = scene(isNarrow ? 2 * (height + HEAD) + GAP : height + HEAD, sides.map(put), legend, isNarrow ? width : 2 * width + GAP);
	if (isWhole && !isNarrow)
		drawing.dataset.whole = "";
	return drawing;
};
const makerOf = (node) => Number(node.closest("[data-maker]")?.dataset.maker ?? 0);

/*
 * Of each row { name, values, texts, note, strong } a bar for each value, before and after, over the longest of all rows or, where
 * rows have no common measure, of its own. parts: of each bar, [value, class] that it is made of.
 */
const drawPairs = (rows, legend, isCommon) => {
	const bars = Math.max(...rows.map(({ values }) => values.length)), top = isNarrow ? 22 : 8, LINE = top + 16 * bars + 12;
	const left = isNarrow ? 6 : Math.min(260, Math.max(...rows.map((row) => row.name.length)) * LETTER + 24);
	const wordsOf = ({ texts, note }, k) => [texts[k], !isNarrow && k === texts.length - 1 && note].filter(Boolean).join(", ");
	const room = WIDTH - left - LETTER * Math.max(...rows.flatMap((row) => row.texts.map((_, k) => wordsOf(row, k).length))) - 20;
	const longest = Math.max(...rows.flatMap(({ values }) => values));
	const row = (one, i) => {
		const { name, values, parts, strong } = one, y = LINE * i, most = (isCommon ? longest : Math.max(...values)) || 1;
		const wide = (value) => Math.max(parts ? 0 : 2, room * value / most);
		const bar = (value, k) => {
			let x = left;
			return (parts?.[k] ?? [[value, k && k === bars - 1 ? "bar best" : "bar"]]).map(([of, className]) =>
				rect((x += wide(of)) - wide(of), y + top + 16 * k, wide(of), 13, { class: className }));
		};
		return make("g", { class: "vertex pair-of-bars", "data-vertex": i }, make("title", {}, name), rect(0, y, WIDTH, LINE - 6, { class: "row", rx: 4 }),
			words(6, isNarrow ? y + 15 : y + (LINE - 6) / 2 + 4, clip(name, isNarrow ? WIDTH : left - 8), { class: "words strong" }),
			isNarrow && one.note ? words(WIDTH - 6, y + 15, one.note, { class: strong ? "words strong" : "words", "text-anchor": "end" }) : [], values.map(bar),
			values.map((value, k) => words(left + wide(value) + 8, y + top + 11 + 16 * k, wordsOf(one, k), strong && k === bars - 1 ? { class: "words strong" } : {})));
	};
	return scene(LINE * rows.length, rows.map(row), legend);
};
const pairsOf = (name, note, rows, names, unit, tables, isCommon = false) => ({ name, note, tables,
	drawing: drawPairs(rows, [["stream slower", names[0]], ["stream best", names[1]], [null, unit]], isCommon),
	vertex: (i) => ({ title: rows[i].name, words: rows[i].note, links: [], vertices: [i],
		rows: [...names.map((of, side) => [of, rows[i].texts[side]]), ...rows[i].more ?? []] }) });

/* ---- bench ---- */

const OPERATIONS = { allreduce: "AllReduce", allgather: "AllGather", reducescatter: "ReduceScatter", alltoall: "AlltoAll", job: "your job" };
const operationName = (word) => OPERATIONS[word.replaceAll("_", "")] ?? word;

const showBench = () => {
	const [title, more] = titleOf(data.sentence), sides = ["without", "with"], names = ["without Tributary", "with Tributary"];
	const cases = data.cases.filter((one) => one.with && one.without && one.ratio), operations = [...new Set(cases.map((one) => one.operation))];
	const isJob = data.worker === "job", nameOf = (one) => isJob ? "your job" : size(one.size_bytes);
	const rowOf = (one) => {
		const { low, median, high } = one.ratio, counts = (low > 1 || high < 1) && Math.abs(median - 1) > data.margin;
		const values = sides.map((side) => one[side].time_s), wrong = sides.map((side) => one[side].wrong);
		return { name: nameOf(one), values, texts: isJob ? ["100 %", `${digits(100 * values[1] / values[0])} %`] : values.map(time), strong: counts,
			note: `${median.toFixed(2)} times as fast [${low.toFixed(2)}, ${high.toFixed(2)}]${counts ? "" : ": no difference"}`,
			more: [["pairs of timings", String(one.pairs)], ["wrong results", Math.max(...wrong) > 0 ? `${wrong[0]} without, ${wrong[1]} with` : ""]] };
	};
	const tableOf = (list) => table("cases", "Cases; of pairs of timings, the median and its 95 % interval", ["size", "#ranks", ...names.map((name) => `#${name}`),
		"#times as fast", "#from", "#to", "#pairs"], list.map((one) => [{ text: nameOf(one), value: one.size_bytes }, String(one.ranks),
		...sides.map((side) => ({ text: isJob ? digits(one[side].time_s) : time(one[side].time_s), value: one[side].time_s })),
		...[one.ratio.median, one.ratio.low, one.ratio.high].map((ratio) => ratio.toFixed(3)), String(one.pairs)]));
	const views = operations.map((operation) => {
		const list = cases.filter((one) => one.operation === operation), name = operationName(operation);
		return pairsOf(name, more, list.map(rowOf), names, `${isJob ? "time" : `time of ${name}`}, shorter is better; [95 % interval]; bold: above ${
			digits(100 * data.margin)} %, and the interval leaves out 1`, [tableOf(list)]);
	});
	return { title, summary: data.notes.join(" · "),
		views: views.length ? views : [{ headline: "There is no pair of timings.", drawing: scene(1, [], []), tables: [] }] };
};

/* ---- a job's report ---- */

const showReport = () => {
	const [title, more] = titleOf(data.answer), RANKS_MAX = 32, sides = [data.before, data].filter(Boolean), names = ["before", "after"].slice(-sides.length);
	const kinds = [["computing", "part-computing"], ["exposed communication", "part-exposed"], ["neither", "part-neither"]];
	const partsOf = (ranks) => {
		const per = (key) => ranks.reduce((sum, rank) => sum + rank[key] / (rank.steps || 1), 0) / ranks.length;
		const [whole, computing, exposed] = [per("time_s"), per("computing_s"), per("exposed_s")];
		return [computing, exposed, Math.max(0, whole - computing - exposed)];
	};
	const rowOf = (name, lists) => {
		const parts = lists.map(partsOf), values = parts.map((of) => of.reduce((sum, part) => sum + part, 0));
		const medians = lists.map((list, k) => list.every((rank) => rank.steps) ? list.reduce((sum, rank) => sum + rank.step_median_s, 0) / list.length : values[k]);
		return { name, values, parts: parts.map((of) => of.map((part, k) => [part, kinds[k][1]])), strong: false, note: values.length > 1 ? timesAsFast(...medians) : "",
			texts: medians.map((median, k) => sides.length > 1 ? `${names[k]}: ${time(median)}` : time(median)),
			more: kinds.map(([kind], k) => [kind, parts.map((of) => time(of[k])).join(", then ")]) };
	};
	const ranks = data.ranks.map((rank) => [rank.name, sides.map((side) => side.ranks.find((one) => one.name === rank.name))]).filter(([, all]) => all.every(Boolean));
	const rows = data.ranks.length ? [rowOf(data.ranks.length > 1 ? `mean of ${data.ranks.length} ranks` : data.ranks[0].name, sides.map((side) => side.ranks)),
		...data.ranks.length < 2 ? [] : ranks.slice(0, RANKS_MAX).map(([name, all]) => rowOf(name, all.map((one) => [one])))] : [];
	const collectives = sides.map((side, i) => table("collectives", `Collectives${sides.length > 1 ? `, ${names[i]}` : ""}`, ["collective", "#up to", "#ranks", "#count",
		"#time", "#algbw", "#busbw", "#exposed"], side.collectives.map((one) => [one.collective, { text: one.bytes_most ? size(one.bytes_most) : "?", value: one.bytes_most ?? 0 },
		String(one.ranks ?? "?"), String(one.count), { text: time(one.time_s / Math.max(1, one.count)), value: one.time_s / Math.max(1, one.count) }, rate(one.algbw_Bps), rate(one.busbw_Bps),
		one.exposed_s === null ? "" : percent(one.exposed_s / one.time_s)])));
	/* Where there is no trace: the time in each kind of collective. */
	const sums = data.collectives.map((one) => ({ name: `${one.collective}${one.bytes_most ? `, up to ${size(one.bytes_most)}` : ""}`, values: [one.time_s],
		texts: [`${time(one.time_s)}, ${one.count} times`], note: "", strong: false }));
	const isTrace = rows.length > 0, drawn = isTrace ? rows : sums;
	const legend = isTrace ? [...kinds.map(([kind, className]) => [`stream ${className}`, kind]), [null, `a step: its median in words, its mean as a bar${sides.length > 1 ? "; before, and after below it" : ""}`]] :
		[[null, "time in collectives of each kind and size, over all ranks"]];
	return { title, summary: isTrace ? many(data.ranks.length, "rank") : "NCCL Inspector", views: [{ note: more, tables: collectives,
		drawing: drawn.length ? drawPairs(drawn, legend, true) : scene(1, [], []),
		vertex: (i) => ({ title: drawn[i].name, words: drawn[i].note, links: [], vertices: [i], rows: drawn[i].more ?? [["", drawn[i].texts[0]]] }) }] };
};
