/* SPDX-License-Identifier: Apache-2.0 */
/* Machines: what each link carries, and the channels of a plan. */

/* ---- a machine ---- */

/* How vertices and links of a machine are shown, with what a view says of a link: { rows, warnings, brief }. */
const machineCards = (machine, say) => {
	const place = new Map(machine.vertices.map((vertex, i) => [vertex.name, i]));
	const ends = machine.links.map((link) => [place.get(link.lower), place.get(link.upper)]);
	return {
		link: (i) => ({ title: `${machine.links[i].lower} ↔ ${machine.links[i].upper}`, words: machine.links[i].description,
			...say(i), links: [i], vertices: ends[i] }),
		vertex: (i) => {
			const vertex = machine.vertices[i], mine = ends.flatMap((both, link) => both.includes(i) ? [link] : []);
			return { title: vertex.name, words: vertex.description, links: mine, vertices: [i, ...mine.flatMap((link) => ends[link])],
				rows: [["PCI", vertex.bus_id], ["interface", vertex.nic?.interface],
					["model", vertex.model !== vertex.description ? vertex.model : ""],
					...mine.slice(0, 8).map((link) => [machine.links[link].description, say(link).brief])] };
		},
	};
};

/* From each GPU, a row, to each other: the faster way's rate, in a colour as strong as it is fast, and which way that is. */
const pairsView = (rateCell) => {
	const gpus = data.vertices.filter((vertex) => vertex.kind === "gpu").map((vertex) => vertex.name), place = new Map(gpus.map((name, i) => [name, i]));
	const pairs = data.pairs.filter((pair) => place.has(pair.from) && place.has(pair.to)); /* not those with NICs */
	if (!pairs.length)
		return [];
	const side = Math.max(48, ...gpus.map((name) => name.length * LETTER)) + 6, cell = Math.max(50, Math.min(92, (WIDTH - side) / gpus.length));
	const byP2p = (pair) => pair.p2p_works && (pair.p2p.rate_Bps ?? 0) >= (pair.host.rate_Bps ?? 0);
	const best = (pair) => byP2p(pair) ? pair.p2p : pair.host, rateOf = (pair) => best(pair).rate_Bps ?? 0;
	const most = Math.max(1, ...pairs.map(rateOf)), HEAD = 22, high = Math.min(cell, 54);
	const draw = (pair, i) => {
		const x = side + cell * place.get(pair.to), y = HEAD + high * place.get(pair.from), middle = { "text-anchor": "middle" };
		return make("g", { class: "vertex pair", "data-vertex": i }, make("title", {}, `${pair.from} to ${pair.to}`),
			rect(x + 1, y + 1, cell - 2, high - 2, { class: "row", rx: 4 }),
			rect(x + 1, y + 1, cell - 2, high - 2, { class: "heat", rx: 4, "fill-opacity": (0.06 + 0.49 * rateOf(pair) / most).toFixed(3) }),
			pair.p2p_works ? null : rect(x + 3, y + 3, cell - 6, high - 6, { class: "unknown", rx: 3 }),
			words(x + cell / 2, y + high / 2 - 2, capacity(best(pair)), { class: "words strong", ...middle }),
			words(x + cell / 2, y + high / 2 + 14, byP2p(pair) ? "P2P" : "host", middle));
	};
	const fast = pairs.filter(byP2p).length, slowest = pairs.reduce((a, b) => rateOf(a) <= rateOf(b) ? a : b);
	return [{
		name: "GPU pairs", headline: `P2P is the faster way for ${fast} of ${pairs.length} pairs` + (rateOf(slowest) ?
			`; the slowest pair, ${slowest.from} → ${slowest.to}, has ${withUnit(capacity(best(slowest)))}` : ""),
		drawing: scene(HEAD + high * gpus.length, [gpus.flatMap((name, i) => [words(0, HEAD + high * (i + 0.5) + 4, name),
			words(side + cell * (i + 0.5), 14, name, { "text-anchor": "middle" })]), pairs.map(draw)], [
			[null, "from the GPU at the left to that above, by the faster way, GB/s; stronger colour: faster"], ["unknown", "P2P does not work"],
			[null, "host: through host memory"]], side + cell * gpus.length),
		tables: [table("pairs", "Pairs of GPUs, GB/s", ["from", "to", "class", "P2P", "#by P2P", "#through host memory"],
			data.pairs.map((pair) => [pair.from, pair.to, pair.class, pair.p2p_works ? "yes" : "no", rateCell(pair.p2p), rateCell(pair.host)]))],
		vertex: (i) => {
			const pair = pairs[i];
			return { title: `${pair.from} → ${pair.to}`, words: `${pair.class} apart`, links: [], vertices: [i],
				rows: [["by P2P", pair.p2p_works ? withUnit(capacity(pair.p2p)) : "does not work"],
					["through host memory", withUnit(capacity(pair.host))]],
				warnings: [pair.p2p_works && !byP2p(pair) && "host memory is faster than P2P"] };
		},
	}];
};

const showRates = () => {
	const [drawing] = drawings;
	const worse = (link) => [link.up, link.down].filter((lane) => lane.share_of_nominal !== null)
		.sort((a, b) => a.share_of_nominal - b.share_of_nominal)[0];
	const sure = (lane) => lane.provenance === "at_least" ? "at least " : "";
	const provenance = ({ up, down }) => up.provenance === down.provenance ? known[up.provenance] :
		`up ${known[up.provenance]}, down ${known[down.provenance]}`;
	const spread = ({ up, down }) => up.spread || down.spread ? `±${(Math.max(up.spread, down.spread) * 100).toFixed(1)} %` : "";
	const isBottleneck = (link) => link.up.bottleneck || link.down.bottleneck;
	const say = (i) => {
		const link = data.links[i], lane = worse(link), date = Math.max(link.up.date_s, link.down.date_s);
		return {
			rows: [["up", withUnit(capacity(link.up))], ["down", withUnit(capacity(link.down))],
				["nominal", link.nominal_Bps ? withUnit(GBps(link.nominal_Bps)) : ""],
				["share", lane ? `${sure(lane)}${(lane.share_of_nominal * 100).toFixed(0)} % of nominal` : ""],
				["known by", provenance(link)], ["spread", spread(link)],
				["date", date ? new Date(date * 1e3).toISOString().slice(0, 10) : ""], ["slot", link.pci?.port]],
			warnings: [link.degraded && "trained at " + link.degraded, isBottleneck(link) && "bottleneck of all-to-all traffic"],
			brief: `↑ ${withUnit(capacity(link.up))}   ↓ ${withUnit(capacity(link.down))}`,
		};
	};
	const rateCell = (of) => ({ text: capacity(of), value: of.rate_Bps ?? 0 });
	const shareCell = (link, i) => {
		const lane = worse(link), stream = drawing.querySelectorAll(`[data-link="${i}"] .stream`)[lane === link.up ? 0 : 1];
		return lane ? { text: `${lane.provenance === "at_least" ? "≥" : ""}${(lane.share_of_nominal * 100).toFixed(0)} %`,
			value: lane.share_of_nominal * 100, parts: gauge(lane.share_of_nominal, stream.classList[1].slice(5)) } : { text: "", value: 9999 };
	};
	const linkRow = (link, i) => [link.lower, link.upper, { value: link.description, parts: [link.description + " ",
		link.degraded && make("span", { class: "warn" }, link.degraded), isBottleneck(link) && make("span", { class: "tag" }, "bottleneck"),
	].filter(Boolean) }, rateCell(link.up), rateCell(link.down), link.nominal_Bps ? GBps(link.nominal_Bps) : "", shareCell(link, i),
	provenance(link), spread(link)];
	const tables = [table("links", "Links, GB/s",
		["from", "to (nearer the CPU)", "link", "#up", "#down", "#nominal", "of nominal", "known by", "#spread"],
		data.links.map(linkRow), data.links.map((_, i) => i))];
	if (data.limits.length)
		tables.push(table("limits", "Not all at once, GB/s", ["limit", "#together", "over"],
			data.limits.map((limit) => [limit.name, rateCell(limit.capacity), limit.members.join(", ")])));
	return { title: data.name ?? "Machine", summary: `${data.summary} · GB/s`,
		views: [{ name: "machine", headline: data.bottleneck, drawing, tables, ...machineCards(data, say) },
			...pairsView(rateCell)] };
};

/* ---- channels ---- */

const PATTERNS = ["ring", "tree", "chain", "direct"];
/* Channels by one maker. of: what its tables are of. */
const channelsView = (maker, pattern, drawing, of = "") => {
	const { machine } = data;
	const links = new Map(machine.links.flatMap((link, i) => [[link.up.name, i], [link.down.name, i]]));
	const lanes = new Map(machine.links.flatMap((link) => [[link.up.name, link.up], [link.down.name, link.down]]));
	const graph = maker[pattern], loads = new Map(graph.loads.map((load) => [load.name, load]));
	const flows = [...drawing.querySelectorAll(".legend [data-flow]")].map((item) => Number(item.dataset.flow));
	const loadWords = (lane) => {
		const load = loads.get(lane.name);
		if (!load || !load.load_Bps)
			return "";
		return load.share === null ? `${GBps(load.load_Bps)} GB/s, its capacity is not known` :
			`${GBps(load.load_Bps)} of ${capacity(lane)} GB/s, ${percent(load.share)}`;
	};
	const say = (i) => {
		const { up, down } = machine.links[i], [upWords, downWords] = [up, down].map(loadWords);
		const crossing = flows.map((flow) => [flow, ...[up, down].map((lane) => graph.channels[flow].crossings[lane.name] ?? 0)]);
		return {
			rows: [["up", upWords || "nothing"], ["down", downWords || "nothing"], ...crossing
				.filter(([, ups, downs]) => ups || downs)
				.map(([flow, ups, downs]) => [`channel ${flow}`, `${ups} × up, ${downs} × down`])],
			warnings: [[up, down].some((lane) => loads.get(lane.name)?.full) && "full: the channels cannot be any faster"],
			brief: upWords || downWords ? `↑ ${upWords || "nothing"}   ↓ ${downWords || "nothing"}` : "",
		};
	};
	const loadRow = (load) => {
		const lane = lanes.get(load.name), most = lane ? capacity(lane) : GBps(load.capacity_Bps);
		return [load.name, String(load.crossings), GBps(load.load_Bps), most, load.share === null ? { text: "", value: -1 } :
			{ text: percent(load.share), value: load.share * 100, parts: gauge(load.share, loadBand(load.share)) }];
	};
	const hopRows = graph.channels.flatMap((channel, i) => channel.hops.map((hop) => [String(i), hop.from, hop.to, hop.class,
		hop.way === "host" ? "through host memory" : "direct"]));
	return {
		name: pattern, headline: graph.summary, drawing,
		note: `By ${maker.maker}. ${graph.bottleneck ?? ""}`,
		tables: [
			table("loads", `Loads, GB/s${of}`, ["what", "#crossings", "#load", "#capacity", "full"], graph.loads.map(loadRow),
				graph.loads.map((load) => links.get(load.name))),
			table("hops", `Channels${graph.copies > 1 ? `, ${graph.copies} of each` : ""}${of}`,
				["#channel", "from", "to", "class", "way"], hopRows),
		],
		...machineCards(machine, say),
		flow: (flow) => ({ title: `Channel ${flow}`, words: graph.channels[Number(flow)].gpus.join(" "),
			rows: [["rate", graph.rate_Bps === null ? "" : withUnit(GBps(graph.rate_Bps))], ...graph.channels[flow].hops.map((hop, i) =>
				[`hop ${i + 1}`, `${hop.from} ${pattern === "ring" ? "→" : "↔"} ${hop.to}, ${hop.class}${hop.way === "host" ? ", through host memory" : ""}`])] }),
	};
};

/* Of two makers: theirs at the left, ours at the right; the channels of a side have its number before their own. */
const comparedView = (makers, pattern, both) => {
	const views = makers.map((maker, i) => channelsView(maker, pattern, both[i], `: ${maker.maker}`));
	const legends = both.map((drawing) => [...drawing.querySelectorAll(".legend .item")]);
	for (const [i, drawing] of both.entries()) {
		for (const node of drawing.querySelectorAll('[class*="flow-"]'))
			node.setAttribute("class", node.getAttribute("class").replace(/flow-(?=\d)/, `flow-${i}-`));
		for (const item of legends[i].filter((one) => one.dataset.flow)) {
			item.dataset.flow = `${i}-${item.dataset.flow}`;
			item.querySelector("text").prepend(`${makers[i].maker}: `);
		}
	}
	const drawing = besides(makers.map((maker, i) => ({ head: `${maker.maker} · ${maker[pattern].summary}`, nodes: [both[i].querySelector(".scene")],
		box: both[i].dataset.scene.split(" ").map(Number) })), [], true);
	drawing.querySelector(".legend").append(...legends[0].filter((one) => !one.dataset.flow),
		...legends.flatMap((items) => items.filter((one) => one.dataset.flow)));
	const [theirs, ours] = makers.map((maker) => maker[pattern].total_Bps), ratio = ours / theirs;
	return {
		name: pattern, headline: !(Math.abs(ratio - 1) >= 0.005) ? `As ${pattern}s both makers' channels carry the same` :
			`As ${pattern}s Tributary's channels carry ${ratio.toFixed(2)} times what NCCL's carry`,
		drawing, tables: views.toReversed().flatMap((view) => view.tables),
		link: (i, node) => views[makerOf(node)].link(i), vertex: (i, node) => views[makerOf(node)].vertex(i),
		flow: (flow) => views[Number(flow[0])].flow(flow.slice(2)),
	};
};

/* makers, as their drawings stand in the page; one that is compared stands at the left of the other. */
const channelsViews = (makers, left, right) => {
	const rest = [...drawings], drawn = new Map(makers.map((maker) => [maker,
		Object.fromEntries(PATTERNS.filter((pattern) => maker[pattern]).map((pattern) => [pattern, rest.shift()]))]));
	return PATTERNS.flatMap((pattern) => left?.[pattern] && right[pattern] ?
		[comparedView([left, right], pattern, [drawn.get(left)[pattern], drawn.get(right)[pattern]])] :
		makers.filter((maker) => maker[pattern]).map((maker) => channelsView(maker, pattern, drawn.get(maker)[pattern])));
};

const showPlan = () => ({ title: data.compared ? titleOf(data.answer)[0] : data.machine.name ?? "Machine",
	summary: `${data.compared ? `${data.machine.name ?? "Machine"} · ` : ""}Channels for ${data.summary} · GB/s`,
	views: channelsViews([data, data.compared].filter(Boolean), data.compared, data) });

/* ---- what is gained ---- */

const showExplain = () => {
	const [title, more] = titleOf(data.answer), names = [data.nccl.maker, "Tributary"];
	const sizes = data.sizes.filter((one) => one.nccl && one.tributary), by = (of) => `${of.algorithm}/${of.protocol}`;
	const rows = sizes.map(({ bytes, nccl, tributary }) => {
		const note = timesAsFast(nccl.time_us, tributary.time_us);
		return { name: size(bytes), values: [nccl.time_us, tributary.time_us], texts: [nccl, tributary].map((of) => time(of.time_us / 1e6)),
			note: note === "the same" ? "" : note, strong: note.endsWith("fast"),
			more: [[`by ${names[0]}`, `${by(nccl)}, ${rate(nccl.busbw_Bps)} of busbw`], ["by Tributary", `${by(tributary)}, ${rate(tributary.busbw_Bps)} of busbw`]] };
	});
	const tables = [table("sizes", `${data.collective}, by NCCL's cost model`, ["size", ...names.flatMap((name) => [`${name} takes`, "#time", "#busbw"]), "gain"],
		sizes.map(({ bytes, nccl, tributary }, i) => [{ text: size(bytes), value: bytes }, ...[nccl, tributary].flatMap((of) => [by(of),
			{ text: time(of.time_us / 1e6), value: of.time_us }, { text: rate(of.busbw_Bps), value: of.busbw_Bps }]), rows[i].note || "the same"]))];
	return { title, summary: `${data.machine.name ?? "Machine"}: ${data.tributary.summary}`, views: [
		...rows.length ? [pairsOf("sizes", more, rows, names, `time of ${data.collective}, shorter is better; each size by itself`, tables)] : [],
		...channelsViews([data.nccl, data.tributary], data.nccl, data.tributary)] };
};
