"use strict";
/*
 * The viewer of --html. It has what the command's --json prints (#data) and makes a page of it, by its format. Drawings that --svg
 * writes stand in the page as they are: the viewer takes the legend out, so that it wraps, and answers to the pointer and to keys.
 * A new format needs a function below that returns its views.
 */
(() => {
	const data = JSON.parse(document.getElementById("data").textContent);
	const drawings = [...document.querySelectorAll("body > svg")];

	/* ---- elements ---- */

	const SVG = new Set(["svg", "g", "path", "rect", "text", "title"]);
	const make = (name, attributes, ...inside) => {
		const node = SVG.has(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
		for (const [key, value] of Object.entries(attributes ?? {}))
			if (value !== undefined && value !== null)
				node.setAttribute(key, value);
		node.append(...inside.flat().filter((one) => one !== undefined && one !== null));
		return node;
	};
	const meter = (share, className) => make("span", { class: "meter" },
		make("b", { class: className, style: `width:${Math.min(share, 1) * 100}%` }));

	/*
	 * A table that sorts by its columns. heads: "#rate" is one of numbers. A cell is a text, or { text, value, parts }: what it sorts
	 * by, and elements around the text. links: the link that each row is of; a click on the row shows it.
	 */
	const table = (name, title, heads, rows, links) => {
		const isNumber = heads.map((head) => head.startsWith("#"));
		const cell = (one, column) => {
			const { text, value, parts } = typeof one === "object" ? one : { text: one };
			return make("td", { class: isNumber[column] ? "number" : undefined, "data-value": value }, parts, text);
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
		return [make("h2", {}, title), make("table", { class: name }, make("thead", {}, head), body)];
	};

	/* ---- numbers in words ---- */

	const GBps = (rate) => rate ? (rate / 1e9).toFixed(rate >= 99.95e9 ? 0 : rate >= 9.995e9 ? 1 : 2) : "?";
	const capacity = (of) => {
		const rate = GBps(of.provenance === "unknown" ? 0 : of.rate_Bps);
		const signs = { assumed: `~${rate}`, nominal: `(${rate})`, at_least: `≥${rate}` };
		return rate === "?" ? rate : signs[of.provenance] ?? rate;
	};
	const withUnit = (words) => words === "?" ? words : words + " GB/s";
	const percent = (share) => Math.floor(share * 100 + 0.01) + " %";
	const digits = (value) => String(Number(value.toPrecision(4)));
	const time = (s) => s >= 1 ? digits(s) + " s" : s >= 1e-3 ? digits(s * 1e3) + " ms" : digits(s * 1e6) + " us";
	const rate = (Bps) => Bps === null ? "-" : digits(Bps / 1e9) + " GB/s";
	const size = (bytes) => {
		const power = Math.min(3, Math.floor(Math.log2(Math.max(bytes, 1)) / 10));
		return digits(bytes / 1024 ** power) + " " + ["B", "KiB", "MiB", "GiB"][power];
	};
	const known = { unknown: "unknown", assumed: "assumed", nominal: "nominal", at_least: "lower bound", measured: "measured" };

	/*
	 * Each view of a format is { name, headline, note, drawing, tables, link, vertex, flow }: the last three give the card of what
	 * has that number in the drawing: { title, words, rows, warnings, links, vertices }, the last two being what it lights up.
	 */

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
				value: lane.share_of_nominal * 100, parts: meter(lane.share_of_nominal, stream.classList[1]) } : { text: "", value: 9999 };
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
		if (data.pairs.length)
			tables.push(table("pairs", "Pairs of GPUs, GB/s", ["from", "to", "class", "P2P", "#by P2P", "#through host memory"],
				data.pairs.map((pair) => [pair.from, pair.to, pair.class, pair.p2p_works ? "yes" : "no", rateCell(pair.p2p),
					rateCell(pair.host)])));
		return { title: data.name ?? "Machine", summary: `${data.summary} · GB/s`,
			views: [{ headline: data.bottleneck, drawing, tables, ...machineCards(data, say) }] };
	};

	/* ---- channels ---- */

	const showPlan = () => {
		const { machine } = data;
		const links = new Map(machine.links.flatMap((link, i) => [[link.up.name, i], [link.down.name, i]]));
		const lanes = new Map(machine.links.flatMap((link) => [[link.up.name, link.up], [link.down.name, link.down]]));
		const view = (maker, pattern, drawing) => {
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
					{ text: percent(load.share), value: load.share * 100, parts: meter(load.share, load.full ? "full" : "band-0") }];
			};
			const hopRows = graph.channels.flatMap((channel, i) => channel.hops.map((hop) => [String(i), hop.from, hop.to, hop.class,
				hop.way === "host" ? "through host memory" : "direct"]));
			return {
				name: maker === data ? pattern : `${pattern}, NCCL`, headline: graph.summary, drawing,
				note: `By ${maker.maker}. ${graph.bottleneck ?? ""}`,
				tables: [
					table("loads", "Loads, GB/s", ["what", "#crossings", "#load", "#capacity", "full"], graph.loads.map(loadRow),
						graph.loads.map((load) => links.get(load.name))),
					table("hops", graph.copies > 1 ? `Channels, ${graph.copies} of each` : "Channels",
						["#channel", "from", "to", "class", "way"], hopRows),
				],
				...machineCards(machine, say),
				flow: (flow) => ({ title: `Channel ${flow}`, words: graph.channels[flow].gpus.join(" "),
					rows: [["rate", graph.rate_Bps === null ? "" : withUnit(GBps(graph.rate_Bps))]] }),
			};
		};
		const makers = [data, data.compared].filter(Boolean);
		const shown = makers.flatMap((maker) => ["ring", "tree", "chain", "direct"].filter((pattern) => maker[pattern])
			.map((pattern) => [maker, pattern]));
		return { title: machine.name ?? "Machine", summary: `Channels for ${data.summary} · GB/s`,
			views: shown.map(([maker, pattern], i) => view(maker, pattern, drawings[i])) };
	};

	/* ---- a simulated cluster ---- */

	/*
	 * A map of the links' loads: a cell for each switch with bars of what goes up and down its uplink, below it a square for each of
	 * its NICs; and the fullest links over time.
	 */
	const drawCluster = (one, numbers) => {
		const WIDTH = 1280, MARGIN = 24, HEAD = 40, LINE = 34, links = new Map(one.links.map((link) => [link.name, link]));
		const load = (name) => Math.min(1, links.get(name)?.load ?? 0), band = (share) => [0.2, 0.4, 0.6, 0.85].filter((at) => share >= at).length;
		const nics = new Map(data.switches.map((at) => [at.name, []]));
		for (const nic of data.nics)
			nics.get(nic.switch).push(nic);
		const cells = data.switches.filter((at) => at.parent !== null || nics.get(at.name).length);
		const columns = Math.max(1, Math.min(cells.length, Math.floor((WIDTH - 2 * MARGIN) / 96)));
		const width = (WIDTH - 2 * MARGIN) / columns, most = Math.max(1, ...cells.map((at) => nics.get(at.name).length));
		const abreast = Math.max(4, Math.ceil(Math.sqrt(2 * most))), square = Math.min(14, (width - 12) / abreast);
		const height = HEAD + square * Math.ceil(most / abreast) + 14, under = MARGIN + height * Math.ceil(cells.length / columns) + 36;
		const text = (x, y, words, more) => make("text", { x, y, class: "words", ...more }, words);
		const rect = (x, y, w, h, more) => make("rect", { x, y, width: w, height: h, ...more });
		const link = (name, ...inside) => make("g", { class: "link", "data-link": numbers.get(name) }, make("title", {}, name), inside);
		const bar = (name, x, y) => link(name, rect(x, y, width - 12, 7, { class: "trough", rx: 2 }),
			rect(x, y, (width - 12) * load(name), 7, { class: `band-${band(load(name))}`, rx: 2 }));
		const nicOf = (nic, x, y) => {
			const name = load(nic.out) >= load(nic.in) ? nic.out : nic.in;
			return link(name, rect(x, y, square - 1.5, square - 1.5, { class: `band-${band(load(name))}`,
				"fill-opacity": load(name) > 0 ? 1 : 0.15 }));
		};
		const cell = (at, i) => {
			const x = MARGIN + width * (i % columns), y = MARGIN + height * Math.floor(i / columns);
			return [text(x, y + 11, at.name.length > 17 ? at.name.slice(0, 17) + "…" : at.name),
				at.parent === null ? [] : [bar(at.up, x, y + 16), bar(at.down, x, y + 26)],
				nics.get(at.name).map((nic, k) => nicOf(nic, x + square * (k % abreast), y + HEAD + square * Math.floor(k / abreast)))].flat();
		};
		const line = ({ link: name, points }, i) => {
			const x = MARGIN + 200, y = under + LINE * i, wide = WIDTH - MARGIN - x, high = LINE - 10, full = links.get(name).capacity_Bps;
			const steps = points.map(([s, Bps], k) => `H${(x + wide * s / one.time_s).toFixed(1)}V${(y + high * (1 - Math.min(1, Bps / full)))
				.toFixed(1)}H${(x + wide * Math.min(1, (points[k + 1]?.[0] ?? one.time_s) / one.time_s)).toFixed(1)}`);
			return [text(MARGIN, y + high - 6, name.slice(0, 26)), rect(x, y, wide, high, { class: "trough" }),
				make("path", { class: `band-${band(load(name))}`, d: `M${x} ${y + high}${steps.join("")}V${y + high}Z` })];
		};
		const end = under + LINE * one.timeline.length, legend = ["below 20 %", "20 to 40 %", "40 to 60 %", "60 to 85 %", "85 % and more"];
		const item = (className, words) => make("g", { class: "item" },
			className ? make("path", { class: `stream ${className}`, d: "M0 0h36", "stroke-width": 9 }) : null, make("text", {}, words));
		return make("svg", { viewBox: `0 0 ${WIDTH} ${end + 30}`, "data-scene": `0 0 ${WIDTH} ${end + 30}` }, cells.flatMap(cell),
			text(MARGIN, under - 12, "The fullest links over time"), one.timeline.flatMap(line),
			text(MARGIN + 200, end + 8, "0"), text(WIDTH - MARGIN, end + 8, time(one.time_s), { "text-anchor": "end" }),
			make("g", { class: "legend" }, item(null, "bytes over what the link could have carried:"),
				legend.map((words, i) => item(`band-${i}`, words)), item(null, "bars: up and down an uplink; squares: hosts' NICs")));
	};

	const showSimulation = () => {
		const names = [...data.nics.flatMap((nic) => [nic.out, nic.in]), ...data.switches.flatMap((at) => [at.up, at.down])];
		const numbers = new Map(names.map((name, i) => [name, i]));
		const words = (one) => [one.algorithm || data.collective, one.order && `order ${one.order}`].filter(Boolean).join(", ");
		const isBound = (one) => one.form === "lower-bound";
		const kinds = ["nic", "uplink", "aggregator", "inside"];
		const cases = () => table("cases", "Cases; bytes on the busiest link of each kind, over those of a rank",
			["case", "#time, ms", "#algbw, GB/s", "#busbw, GB/s", "#NIC", "#uplink", "#aggregator", "#inside"],
			data.cases.map((one) => [words(one) + (isBound(one) ? " (lower bound)" : ""), digits(one.time_s * 1e3),
				...[one.algbw_Bps, one.busbw_Bps].map((Bps) => Bps === null ? "-" : digits(Bps / 1e9)),
				...kinds.map((kind) => digits(Math.max(0, ...one.links.filter((link) => link.kind === kind).map((link) => link.bytes))
					/ data.bytes))]));
		const views = data.cases.map((one) => {
			const links = new Map(one.links.map((link) => [link.name, link]));
			return {
				name: words(one), drawing: drawCluster(one, numbers), tables: [cases()],
				headline: `${words(one)}: ${isBound(one) ? "at least " : ""}${time(one.time_s)}, ${isBound(one) ? "at most " : ""}` +
					rate(one.algbw_Bps),
				link: (i) => {
					const link = links.get(names[i]) ?? { bytes: 0, capacity_Bps: null, busy_s: 0 };
					return { title: names[i], words: "", links: [i], vertices: [], warnings: [link.load > 0.98 && "full"],
						rows: [["over a rank's bytes", digits(link.bytes / data.bytes)],
							["rate", link.capacity_Bps ? rate(link.capacity_Bps) : ""],
							["load", link.capacity_Bps ? digits(100 * link.load) + " %" : ""], ["busy", time(link.busy_s)]] };
				},
			};
		});
		return { title: data.name, summary: `${data.hosts} hosts · ${data.collective} of ${size(data.bytes)} a rank · simulated`, views };
	};

	/* ---- the page ---- */

	const formats = { "tributary-show": showRates, "tributary-plan": showPlan, "tributary-simulate": showSimulation };
	const { title, summary, views } = formats[data.format.split(" ")[0]]();
	const several = views.length > 1;
	const button = (id, text, more) => make("button", { id, ...more }, text);
	const card = make("div", { id: "card", role: "status" }), stage = make("div", { id: "stage" });
	const level = make("span", { id: "level" }), tables = make("section", { id: "tables", hidden: "" });
	const picture = make("section", { id: "picture" }, stage);

	document.body.replaceChildren(
		make("header", {},
			make("div", {}, make("h1", {}, title), make("div", { class: "summary" }, summary), views.map((view, i) =>
				make("div", { "data-view": i }, make("div", { class: "headline" }, view.headline), make("div", {}, view.note)))),
			make("nav", {}, make("div", { class: "group", id: "views" },
				several ? views.map((view, i) => button(undefined, view.name, { "data-show": i })) : []),
			make("div", { class: "group", id: "zoom" }, button("farther", "−", { title: "farther (-)" }),
				button("fit", level, { title: "all of it (0)" }), button("closer", "+", { title: "closer (+)" })),
			make("div", { class: "group" }, button("as-picture", "Picture"), button("as-table", "Table")),
			button("theme", "Dark", { title: "light or dark" }))),
		make("main", {}, picture, tables), card);
	const byId = (id) => document.getElementById(id);
	let shown = -1, box, full, svg;

	/* ---- zoom and pan: the view box is the state ---- */

	const setBox = (x, y, width) => {
		box = { x, y, width: Math.min(Math.max(width, full.width / 24), full.width * 2) };
		box.height = box.width * full.height / full.width;
		svg.setAttribute("viewBox", [box.x, box.y, box.width, box.height].map((n) => n.toFixed(2)).join(" "));
		level.textContent = Math.round(100 * full.width / box.width) + " %";
	};
	const fit = () => setBox(full.x, full.y, full.width);
	const toPicture = (x, y) => new DOMPoint(x, y).matrixTransform(svg.getScreenCTM().inverse());
	const zoomAt = (point, factor) => {
		const width = Math.min(Math.max(box.width / factor, full.width / 24), full.width * 2), k = width / box.width;
		setBox(point.x - (point.x - box.x) * k, point.y - (point.y - box.y) * k, width);
	};
	const zoom = (factor) => zoomAt({ x: box.x + box.width / 2, y: box.y + box.height / 2 }, factor);

	stage.addEventListener("wheel", (event) => {
		event.preventDefault();
		zoomAt(toPicture(event.clientX, event.clientY), Math.exp(-event.deltaY * (event.deltaMode ? 0.03 : 0.0015)));
	}, { passive: false });

	const fingers = new Map();
	stage.addEventListener("pointerdown", (event) => {
		fingers.set(event.pointerId, event);
		stage.classList.add("moving");
	});
	addEventListener("pointermove", (event) => {
		const before = fingers.get(event.pointerId);
		if (!before)
			return;
		hide();
		const still = [...fingers.values()].find((finger) => finger.pointerId !== event.pointerId);
		const from = toPicture(before.clientX, before.clientY), to = toPicture(event.clientX, event.clientY);
		if (still) {
			const distance = (a) => Math.hypot(a.clientX - still.clientX, a.clientY - still.clientY);
			zoomAt(toPicture(still.clientX, still.clientY), distance(event) / Math.max(distance(before), 1));
		} else {
			setBox(box.x - (to.x - from.x), box.y - (to.y - from.y), box.width);
		}
		fingers.set(event.pointerId, event);
	});
	for (const end of ["pointerup", "pointercancel"])
		addEventListener(end, (event) => {
			fingers.delete(event.pointerId);
			stage.classList.toggle("moving", fingers.size > 0);
		});
	stage.addEventListener("dblclick", fit);
	byId("closer").addEventListener("click", () => zoom(1.4));
	byId("farther").addEventListener("click", () => zoom(1 / 1.4));
	byId("fit").addEventListener("click", fit);
	const keys = { "+": () => zoom(1.4), "=": () => zoom(1.4), "-": () => zoom(1 / 1.4), 0: fit, Escape: () => hide() };
	addEventListener("keydown", (event) => event.ctrlKey || event.metaKey || event.altKey || keys[event.key]?.());

	/* ---- the card, and what it is of ---- */

	const place = (x, y) => {
		const { width, height } = card.getBoundingClientRect();
		card.style.left = Math.max(8, x + 18 + width > innerWidth ? x - width - 18 : x + 18) + "px";
		card.style.top = Math.max(8, y + 18 + height > innerHeight ? y - height - 18 : y + 18) + "px";
	};
	const hide = () => {
		card.hidden = true;
		svg.classList.remove("dim", "one-flow");
		for (const on of svg.querySelectorAll(".on"))
			on.classList.remove("on");
	};
	const fill = (of, selectors, className) => {
		hide();
		card.replaceChildren(make("h2", {}, of.title), make("p", {}, of.words), make("table", {}, of.rows.filter(([, value]) => value)
			.map(([name, value]) => make("tr", {}, make("th", {}, name), make("td", {}, value)))),
		...(of.warnings ?? []).filter(Boolean).map((warning) => make("p", { class: "warn" }, warning)));
		card.hidden = false;
		svg.classList.add(className);
		for (const node of svg.querySelectorAll(selectors.join()))
			node.classList.add("on");
	};
	const attach = (node, show, at) => {
		node.setAttribute("tabindex", "0");
		const on = () => {
			show();
			const around = node.getBoundingClientRect();
			place(...at(around));
		};
		node.addEventListener("pointerenter", on);
		node.addEventListener("focus", on);
		node.addEventListener("pointerleave", hide);
		node.addEventListener("blur", hide);
	};
	const attachPart = (node, view, kind) => {
		const number = Number(node.dataset[kind]), name = node.querySelector("title");
		const show = () => {
			const of = view[kind](number);
			fill(of, [...of.links.map((i) => `[data-link="${i}"]`), ...of.vertices.map((i) => `[data-vertex="${i}"]`)], "dim");
		};
		node.setAttribute("aria-label", name.textContent);
		name.remove(); /* the card says it better */
		attach(node, show, (around) => [around.right, around.bottom]);
		node.addEventListener("pointermove", (event) => {
			if (fingers.size && event.buttons)
				return;
			if (card.hidden)
				show();
			place(event.clientX, event.clientY);
		});
	};
	const linkNode = (i) => svg.querySelector(`[data-link="${i}"]`);

	/* The legend of a drawing, as text that wraps. An item that stands for a flow shows it alone. */
	const takeLegend = (view) => [...view.drawing.querySelectorAll(".legend .item")].map((item) => {
		const { flow } = item.dataset, sample = item.querySelector("path");
		sample?.setAttribute("d", "M0 12h36");
		const made = make(flow ? "button" : "span", { class: flow ? "item channel" : "item", "data-flow": flow },
			sample && make("svg", { width: 36, height: 24 }, sample), make("span", {}, item.textContent));
		if (flow)
			attach(made, () => fill(view.flow(Number(flow)), [`.flow-${flow}`], "one-flow"),
				(around) => [around.left, around.top - card.getBoundingClientRect().height - 30]);
		return made;
	});

	/* ---- which view, picture or table, light or dark ---- */

	for (const [i, view] of views.entries()) {
		const { drawing } = view;
		drawing.setAttribute("class", "drawing");
		for (const part of ["link", "vertex"])
			for (const node of drawing.querySelectorAll(`[data-${part}]`))
				attachPart(node, view, part);
		picture.append(make("div", { class: "legend", "data-view": i }, takeLegend(view)));
		for (const part of drawing.querySelectorAll(".head, .legend, .paper"))
			part.remove();
		drawing.setAttribute("data-view", i);
		drawing.removeAttribute("width");
		drawing.removeAttribute("height");
		stage.append(drawing);
		tables.append(make("div", { "data-view": i }, view.tables.flat()));
	}
	const showView = (i) => {
		if (svg)
			hide();
		shown = i;
		svg = views[i].drawing;
		const [x, y, width, height] = svg.dataset.scene.split(" ").map(Number);
		full = { x, y, width, height };
		for (const node of document.querySelectorAll("[data-view]"))
			node.toggleAttribute("hidden", Number(node.dataset.view) !== i);
		for (const one of document.querySelectorAll("[data-show]"))
			one.setAttribute("aria-pressed", String(Number(one.dataset.show) === i));
		fit();
		hide();
	};
	for (const one of document.querySelectorAll("[data-show]"))
		one.addEventListener("click", () => showView(Number(one.dataset.show)));

	const choose = (table) => {
		hide();
		picture.hidden = table;
		tables.hidden = !table;
		byId("as-picture").setAttribute("aria-pressed", String(!table));
		byId("as-table").setAttribute("aria-pressed", String(table));
		byId("zoom").style.visibility = table ? "hidden" : "";
	};
	const showInPicture = (link) => {
		choose(false);
		linkNode(link).focus();
	};
	byId("as-picture").addEventListener("click", () => choose(false));
	byId("as-table").addEventListener("click", () => choose(true));

	const dark = (on) => {
		document.documentElement.classList.toggle("dark", on);
		byId("theme").setAttribute("aria-pressed", String(on));
	};
	const system = matchMedia("(prefers-color-scheme: dark)");
	dark(system.matches);
	system.addEventListener("change", () => dark(system.matches));
	byId("theme").addEventListener("click", () => dark(!document.documentElement.classList.contains("dark")));

	showView(0);
	choose(false);
})();
