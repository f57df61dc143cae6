/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters: the fabric as a map, the cases of a simulation as bars, and its fullest links over time. */

const gbits = (Bps) => Bps ? `${digits(Bps * 8 / 1e9)} Gbit/s` : "?";

/* How many letters names have in common, without the digits of a number. */
const sharedBeginning = (names) => {
	let n = 0;
	while (names.length > 1 && n < names[0].length && names.every((name) => name[n] === names[0][n]))
		n++;
	return names.length ? names[0].slice(0, n).replace(/\d+$/, "").length : 0;
};

/*
 * The map. Switches: { name, parent, up, down, lines }; hosts and aggregators (ends): { name, leaf, lanes, text, isSlow, isAggregator }.
 * A lane is { share, band, Bps }: how much of it is filled, whether by colour as well, how thick it is (0: not known, dashed). Ends have
 * a row each with a bar for each lane, or, where they are many, a square that is filled as far as the fuller lane. A switch is a bar
 * above what hangs below it, which goes on in another row where there is no room. Parts have the numbers of the two lists.
 */
const drawMap = (switches, ends, y0, across = WIDTH) => {
	const BAR = 24, UPLINK = 48, GAP = isNarrow ? 4 : 14, ROW = 20, SQUARE = 16;
	const kids = new Map(switches.map((at) => [at.name, []])), below = new Map(switches.map((at) => [at.name, []]));
	for (const at of switches)
		kids.get(at.parent)?.push(at);
	ends.forEach((end, number) => below.get(end.leaf).push({ ...end, number }));
	const leaves = switches.filter((at) => below.get(at.name).length || !kids.get(at.name).length).length;
	const isCoarse = ends.length > 128 || leaves > 3 * Math.floor((across + GAP) / (172 + GAP)) || Math.max(...[...below.values()].map((list) => list.length)) > 24;
	const cell = Math.min(across, Math.max(isCoarse ? isNarrow ? 40 : 84 : 172, Math.min(236, across / leaves - GAP)));
	const pad = cell < 60 ? 3 : 10;
	const fastest = Math.max(1, ...switches.flatMap((at) => [at.up.Bps, at.down.Bps]));
	const bed = (lane) => lane.Bps ? 4 + Math.min(14, cell / 10) * Math.sqrt(lane.Bps / fastest) : 8;

	const lanesOf = (at, x, y) => {
		const [up, down] = [bed(at.up), bed(at.down)];
		const lane = ({ share, band, Bps }, left, width) => [
			rect(left, y, width, UPLINK, { class: Bps ? "trough" : "unknown" }),
			Bps && share > 0 ? rect(left, y + UPLINK * (1 - share), width, UPLINK * share, { class: `band-${band}` }) : null];
		const right = pad + (pad < 10 ? 7 : 12) + up + down, room = cell + GAP + pad - right;
		const lines = at.lines.every((line) => line.length * LETTER <= room) ? at.lines : []; /* else the card says it */
		return [...lane(at.up, x + pad, up), ...lane(at.down, x + pad + 4 + up, down),
			lines.map((line, i) => words(x + right, y + UPLINK / 2 + 4 + 15 * (i - (lines.length - 1) / 2), line))];
	};
	/* "pod1-leaf2" below pod1 is leaf2; where there is no room, "group1-rail2" is g1-r2. */
	const shortName = (at, room) => {
		const name = isCoarse && at.parent && at.name.startsWith(`${at.parent}-`) ? at.name.slice(at.parent.length + 1) : at.name;
		return name.length * LETTER <= room ? name : clip(name.replace(/[a-z]{3,}/gi, (word) => word[0]), room);
	};
	/* Names that begin alike lose of their beginning, others their end. */
	const alike = sharedBeginning(ends.filter((end) => !end.isAggregator).map((end) => end.name));
	const hostName = (name, room) => {
		const cut = name.length - Math.floor(room / LETTER) + 1;
		return cut > 1 && cut <= alike ? `…${name.slice(cut)}` : clip(name, room);
	};
	const switchPart = (at, isMore, x, y, width, uplink) => make("g", { class: "link switch", "data-link": switches.indexOf(at) },
		make("title", {}, at.name), uplink ? lanesOf(at, x, y - UPLINK) : [], rect(x, y, width, BAR, { class: "box", rx: 6 }),
		words(x + pad, y + 16, shortName(at, (width - pad) * (pad < 10 ? 1.1 : 1) - (isMore && width > cell ? 80 : 0)) + (!isMore ? "" : width > cell ? ", continued" : " …"),
			{ class: "words on-bar", style: pad < 10 ? "font-size:10px" : null }));
	const part = (end, ...inside) => make("g", { class: `vertex${end.isAggregator ? " aggregator" : ""}`, "data-vertex": end.number },
		make("title", {}, end.name), inside);
	const wide = Math.max(0, ...ends.map((end) => end.text.length)) * LETTER;
	const rowOf = (end, x, y) => {
		const bars = end.lanes.some((lane) => lane.share !== null) ? 40 : 0, right = x + cell - 6, left = right - wide - bars;
		const room = left - x - 10 - (end.isSlow ? 36 : 0);
		return part(end, rect(x, y, cell, ROW - 2, { class: "row", rx: 4 }),
			words(x + 6, y + 13, end.isAggregator ? clip(`Σ ${end.name}`, room) : hostName(end.name, room)),
			bars ? end.lanes.map((lane, i) => [rect(left + 18 * i, y + 2.5, 16, 13, { class: "trough" }),
				rect(left + 18 * i, y + 2.5 + 13 * (1 - lane.share), 16, 13 * lane.share, { class: `band-${lane.band}` })]) : [],
			end.isSlow ? words(left - 6, y + 13, "slow", { class: "words alarm", "text-anchor": "end" }) : [],
			words(right, y + 13, end.text, { "text-anchor": "end" }));
	};
	const squareOf = (end, x, y) => {
		const full = end.lanes[0].share >= end.lanes[1].share ? end.lanes[0] : end.lanes[1], high = 13 * (full.share ?? 1);
		return part(end, rect(x, y, 13, 13, { class: "trough", rx: end.isAggregator ? 6 : 0 }),
			rect(x, y + 13 - high, 13, high, { class: `band-${full.band}`, rx: end.isAggregator ? 6 : 0 }),
			end.isSlow ? rect(x - 1, y - 1, 15, 15, { class: "slow" }) : null);
	};
	const abreast = isCoarse ? Math.max(1, Math.floor(cell / SQUARE)) : 1, step = isCoarse ? SQUARE : ROW;
	const list = (of) => ({ width: cell, height: step * Math.ceil(of.length / abreast), put: (x, y) => of.map((end, i) => isCoarse ?
		squareOf(end, x + SQUARE * (i % abreast), y + SQUARE * Math.floor(i / abreast)) : rowOf(end, x, y + ROW * i)) });
	const spread = (blocks) => {
		const rows = [];
		for (const one of blocks) {
			const last = rows.at(-1);
			if (last && last.width + GAP + one.width <= across) {
				last.width += GAP + one.width;
				last.height = Math.max(last.height, one.height);
				last.blocks.push(one);
			} else
				rows.push({ width: one.width, height: one.height, blocks: [one] });
		}
		return rows;
	};
	const blockOf = (at) => {
		const own = below.get(at.name), hosts = list(own), isLeaf = !kids.get(at.name).length;
		const rows = isLeaf ? [{ ...hosts, blocks: [] }] :
			spread([...own.length ? [hosts] : [], ...kids.get(at.name).map(blockOf)]);
		const under = isLeaf ? 4 : UPLINK, width = Math.max(...rows.map((row) => row.width));
		return { width, height: rows.reduce((sum, row) => sum + BAR + under + row.height + GAP, -GAP), isSwitch: true,
			put: (x, y, uplink = false) => rows.flatMap((row, k) => {
				const top = y, made = [switchPart(at, k > 0, x, y, row.width, uplink && !k)];
				y += BAR + under + row.height + GAP;
				if (isLeaf)
					made.push(...hosts.put(x, top + BAR + 4));
				let left = x;
				for (const one of row.blocks) {
					made.push(...one.put(left, top + BAR + (one.isSwitch ? UPLINK : 4), true));
					left += one.width + GAP;
				}
				return made;
			}) };
	};
	const roots = spread(switches.filter((at) => !kids.has(at.parent)).map(blockOf)), nodes = [];
	let y = y0;
	for (const row of roots) {
		let x = Math.max(0, (across - row.width) / 2);
		for (const one of row.blocks) {
			nodes.push(...one.put(x, y));
			x += one.width + GAP;
		}
		y += row.height + GAP;
	}
	return { nodes, bottom: y, left: Math.max(0, (across - roots[0].width) / 2), isCoarse };
};

/* What a map lights up: a switch with its uplinks to the root; an end with those of its leaf. */
const mapCards = (switches, ends, switchCard, endCard) => {
	const place = new Map(switches.map((at, i) => [at.name, i]));
	const upwards = (name) => place.has(name) ? [place.get(name), ...upwards(switches[place.get(name)].parent)] : [];
	return {
		link: (i) => ({ title: switches[i].name, words: "switch", vertices: ends.flatMap((end, k) => end.leaf === switches[i].name ? [k] : []),
			links: upwards(switches[i].name), ...switchCard(i) }),
		vertex: (i) => ({ title: ends[i].name, words: ends[i].isAggregator ? "aggregator" : "host", vertices: [i], links: upwards(ends[i].leaf),
			...endCard(i) }),
	};
};
/* A host is slow that has less than most. */
const slowBelow = (rates) => 0.9 * (rates.filter(Boolean).sort((a, b) => a - b)[Math.floor(rates.filter(Boolean).length / 2)] ?? 0);

/* ---- a cluster file ---- */

const showCluster = () => {
	const limit = slowBelow(data.hosts.map((host) => host.rate_Bps)), isSlow = (of) => of.rate_Bps !== null && of.rate_Bps < limit;
	const end = (of, name, isAggregator) => ({ name, leaf: of.leaf, text: gbits(of.rate_Bps), isSlow: !isAggregator && isSlow(of), isAggregator,
		lanes: [0, 1].map(() => ({ share: null, band: of.rate_Bps ? isSlow(of) ? 4 : 0 : 7 })) });
	const address = (of) => `${of.address.includes(":") ? `[${of.address}]` : of.address}:${of.port}`;
	const all = [...data.hosts, ...data.aggregators];
	const ends = [...data.hosts.map((of) => end(of, of.name, false)), ...data.aggregators.map((of) => end(of, of.address, true))];
	const under = (name) => [...data.hosts.filter((host) => host.leaf === name).map((host) => host.rate_Bps),
		...data.switches.filter((at) => at.parent === name).flatMap((at) => under(at.name))];
	const facts = data.switches.map((at) => {
		const rates = under(at.name), least = Math.min(at.up_rate_Bps ?? 0, at.down_rate_Bps ?? 0);
		const hosts_Bps = rates.includes(null) ? 0 : rates.reduce((sum, rate) => sum + rate, 0);
		return { hosts: rates.length, hosts_Bps, ratio: hosts_Bps && least ? hosts_Bps / least : null };
	});
	const ratio = (i) => facts[i].ratio === null ? "?" : `${Number(facts[i].ratio.toPrecision(3))}:1`;
	const switches = data.switches.map((at, i) => {
		const lane = (Bps) => ({ share: 1, band: facts[i].ratio === null ? 7 : stepOf(facts[i].ratio, [1.01, 2.01, 4.01, 8.01]), Bps: Bps ?? 0 });
		return { name: at.name, parent: at.parent, up: lane(at.up_rate_Bps), down: lane(at.down_rate_Bps),
			lines: !at.up_rate_Bps && !at.down_rate_Bps ? ["not known"] : at.up_rate_Bps === at.down_rate_Bps ? [gbits(at.up_rate_Bps), ratio(i)] :
				[`↑ ${gbits(at.up_rate_Bps)}`, `↓ ${gbits(at.down_rate_Bps)}`, ratio(i)] };
	});
	const part = (share) => share === null ? "" : `${digits(100 * share)} %`;
	const map = drawMap(switches, ends, 0), narrowest = Math.max(0, ...facts.map((of) => of.ratio ?? 0));
	const slow = ends.filter((one) => one.isSlow).length;
	const headline = [narrowest ? `Uplinks are narrower than their hosts by up to ${Number(narrowest.toPrecision(3))}:1` :
		"The rates of uplinks or hosts are not known: `tributary cluster measure` finds them", slow ? `${many(slow, "host")} slower than most` : ""]
		.filter(Boolean).join("; ") + ".";
	return { title: data.name.split("/").pop(), summary: [many(data.hosts.length, "host"), many(data.switches.filter((_, i) => facts[i].hosts &&
		data.hosts.some((host) => host.leaf === data.switches[i].name)).length, "leaf").replace("leafs", "leaves"),
	many(data.aggregators.length, "aggregator")].join(" · "), views: [{
		headline, drawing: scene(map.bottom, map.nodes, [[null, "oversubscription (hosts' rates over the uplink):"],
			...["1:1 and less", "to 2:1", "to 4:1", "to 8:1", "more"].map((text, band) => [`stream band-${band}`, text]),
			["unknown", "not known"], [null, "width: rate, up at the left · Σ aggregator"]]),
		tables: [
			table("switches", "Switches", ["switch", "above it", "#uplink up", "#uplink down", "#hosts below", "#over\u00adsubscription",
				"#roots"], data.switches.map((at, i) => [at.name, at.parent ?? "", at.parent === null ? "" : gbits(at.up_rate_Bps),
				at.parent === null ? "" : gbits(at.down_rate_Bps), String(facts[i].hosts), at.parent === null ? "" : ratio(i),
				part(at.root_share)]), data.switches.map((_, i) => i)),
			table("ends", "Hosts and aggregators", ["name", "leaf", "#rate", "#share of its leaf", "notes"], ends.map((one, i) =>
				[one.isAggregator ? address(all[i]) : one.name, one.leaf, one.text, part(all[i].share), [one.isAggregator && "aggregator", one.isSlow && "slow"].filter(Boolean).join()])),
		],
		...mapCards(switches, ends, (i) => ({ rows: [["above it", data.switches[i].parent], ["uplink", data.switches[i].parent &&
			`${gbits(data.switches[i].up_rate_Bps)} up, ${gbits(data.switches[i].down_rate_Bps)} down`], ["hosts below", `${facts[i].hosts}, ${gbits(facts[i].hosts_Bps)}`],
		["oversubscription", data.switches[i].parent && ratio(i)], ["roots", part(data.switches[i].root_share)]] }),
		(i) => ({ rows: [["leaf", ends[i].leaf], ["port", all[i].port], ["rate", ends[i].text], ["share of its leaf", part(all[i].share)]],
			warnings: [ends[i].isSlow && "slower than most hosts: every collective waits for it"] })),
	}] };
};

/* ---- an order of ranks ---- */

/*
 * The fabric with the ranks as they were and as they should be. The load of an uplink is its bytes over what it could carry in the
 * time of before: it is the same measure on both sides.
 */
const showOrder = () => {
	const [title, more] = titleOf(data.answer), sides = ["before", "after"], across = isNarrow ? WIDTH : (WIDTH - 40) / 2;
	const titles = { tensor: "AllReduce of tensor groups", ring: "AllReduce, ring", tree: "AllReduce, tree", pipeline: "pipeline" };
	const uplinks = new Map(data.uplinks.map((link) => [link.name, link])), timeOf = (side, phase) => data[side].phases[phase].time_s;
	const phases = Object.keys(titles).filter((phase) => data.uplinks.some((link) => link.before[phase] || link.after[phase]));
	const wordsOf = (bytes) => bytes ? size(bytes) : "0", isKnown = (at) => at.up_rate_Bps && at.down_rate_Bps;
	const lacking = data.switches.filter((at) => at.parent !== null && !isKnown(at)).length, none = !data.switches.some(isKnown);
	const mapOf = (side, phase) => {
		const place = new Map(data[side].hosts.map((host, i) => [host, i])), before_s = timeOf("before", phase);
		const most = Math.max(...data.uplinks.flatMap((link) => sides.map((of) => link[of][phase])));
		const lane = (name, Bps) => {
			const bytes = uplinks.get(name)?.[side][phase] ?? 0, share = Math.min(1, before_s && Bps ? bytes / Bps / before_s : bytes / (most || 1));
			return { share, band: loadBand(share), Bps: Bps ?? (none ? 1 : 0), bytes };
		};
		const switches = data.switches.map((at) => {
			const [up, down] = [lane(`${at.name} up`, at.up_rate_Bps), lane(`${at.name} down`, at.down_rate_Bps)];
			const lines = [up, down].map((of) => wordsOf(of.bytes));
			return { name: at.name, parent: at.parent, up, down, lines: lines[0] === lines[1] ? [lines[0]] : [`↑ ${lines[0]}`, `↓ ${lines[1]}`] };
		});
		const ranks = (at) => data.gpus === 1 ? `rank ${at}` : `${at * data.gpus}-${(at + 1) * data.gpus - 1}`;
		const ends = data.hosts.filter(({ name }) => place.has(name)).map(({ name, leaf }) => ({ name, leaf, isSlow: false, isAggregator: false,
			text: ranks(place.get(name)), lanes: [0, 1].map(() => ({ share: null, band: 7 })) }));
		const map = drawMap(switches, ends, 0, across);
		return { head: `${side}${before_s ? `: ${time(timeOf(side, phase))}` : ""}`, nodes: map.nodes, left: map.left, box: [0, 0, across, map.bottom], isCoarse: map.isCoarse,
			...mapCards(switches, ends, (i) => ({ rows: [["up", wordsOf(switches[i].up.bytes)], ["down", wordsOf(switches[i].down.bytes)],
				["uplink", data.switches[i].parent && `${gbits(data.switches[i].up_rate_Bps)} up, ${gbits(data.switches[i].down_rate_Bps)} down`]] }),
			(i) => ({ rows: [["leaf", ends[i].leaf], ["has", ends[i].text]] })) };
	};
	const taken = sides.map((side) => timeOf(side, "tree") && timeOf(side, "tree") < timeOf(side, "ring") ? "tree" : "ring");
	const note = taken[0] === taken[1] ? more : `NCCL takes the faster: a ${taken[0]} before, a ${taken[1]} after. ${more}`;
	const bytes = (phase) => table("uplinks", `Bytes on uplinks, ${titles[phase]}`, ["uplink", "#before", "#after"],
		data.uplinks.map((link) => [link.name, ...sides.map((side) => ({ text: wordsOf(link[side][phase]), value: link[side][phase] }))]));
	const order = table("order", "Order of hosts", ["#place", ...sides], data.after.hosts.map((_, i) => [String(i), ...sides.map((side) => data[side].hosts[i])]));
	const viewOf = (phase) => {
		const maps = sides.map((side) => mapOf(side, phase)), [was, is] = sides.map((side) => timeOf(side, phase));
		return {
			name: titles[phase], headline: was ? `${titles[phase]}: ${timesAsFast(was, is)}${phase === "pipeline" ? " on the slowest link" : ""}` : titles[phase],
			note, drawing: besides(maps, [[null, was ? "load, bytes over what the uplink could carry in the time of before:" : "load, bytes over the most of any uplink:"],
				...loadLegend, ...lacking && !none ? [["unknown", "rate not known"]] : [], [null, `width: rate, up at the left · ${
					maps[0].isCoarse ? "squares: hosts; their ranks are on their cards" : "beside it: bytes · of a host: its ranks"}`]], false),
			tables: [order, bytes(phase)].map((list) => list.map((node) => node.cloneNode(true))), link: (i, node) => maps[makerOf(node)].link(i), vertex: (i, node) => maps[makerOf(node)].vertex(i),
		};
	};
	const timed = phases.filter((phase) => timeOf("before", phase)), size_words = `${size(data.bytes)} a rank`;
	const rows = timed.map((phase) => {
		const values = sides.map((side) => timeOf(side, phase)), gain = timesAsFast(...values);
		return { name: titles[phase], values, texts: values.map(time), note: gain, strong: gain.endsWith("fast") };
	});
	return { title, summary: `${data.name} · ${data.hosts.length} hosts · ${size_words}`, views: [...phases.map(viewOf),
		...timed.length ? [pairsOf("times", note, rows, ["as it is now", "in the order found"], `time of ${size_words}, shorter is better`, [order], true)] : []] };
};

/* ---- a simulated cluster ---- */

const caseName = (one) => [one.algorithm || data.collective, one.order && `order ${one.order}`].filter(Boolean).join(", ");
const isBound = (one) => one.form === "lower-bound";
const caseTime = (one) => (isBound(one) ? "at least " : "") + time(one.time_s);

/* How long each case takes; what is only a bound has an open end. */
const drawCases = () => {
	const LINE = 52, most = Math.max(...data.cases.map((one) => one.time_s)), best = Math.min(...data.cases.map((one) => one.time_s));
	const wordsOf = (one) => caseTime(one) + (best && one.time_s > best ? `, ${(one.time_s / best).toFixed(2)} ×` : "");
	const room = 24 + LETTER * Math.max(...data.cases.map((one) => wordsOf(one).length));
	const bar = (one, i) => {
		const wide = Math.max(2, (WIDTH - room) * one.time_s / (most || 1)), y = LINE * i;
		return make("g", { class: "vertex", "data-vertex": i }, make("title", {}, caseName(one)),
			rect(0, y, WIDTH, LINE - 6, { class: "row", rx: 4 }), words(6, y + 14, clip(caseName(one), WIDTH - 12)),
			rect(6, y + 21, wide, 18, { class: isBound(one) ? "bar bound" : one.time_s === best ? "bar best" : "bar" }),
			words(wide + 14, y + 35, wordsOf(one), one.time_s === best ? { class: "words strong" } : {}));
	};
	return scene(LINE * data.cases.length, data.cases.map(bar), [["stream best", "fastest"], ["stream slower", "others"],
		...data.cases.some(isBound) ? [["unknown", "no less than that"]] : [], [null, "×: times as long as the fastest · Enter or a click shows the case"]]);
};

/* Of all jobs, step by step; the colour is that of the name. */
const phasesOf = (one) => {
	const names = [...new Set(one.jobs.flatMap((job) => job.phases.map(({ phase }) => phase)))];
	return one.jobs.flatMap((job, i) => job.phases.map((span) => ({ ...span, job: i, number: names.indexOf(span.phase),
		name: `${span.phase}${one.jobs.length > 1 ? ` of job ${i + 1}` : ""}` })));
};
const spanWords = (span) => `${span.start_s ? time(span.start_s) : "0"} to ${time(span.end_s)}, ${size(span.bytes)}`;

/*
 * A line for each phase, a part with the numbers from first on; below, links, with a strip for each phase in the same order. Links
 * that carry the same at all times share a line.
 */
const drawTimeline = (one, links, first, y0) => {
	const PHASE = 34, PHASES_MAX = 24, STRIP = 5, HIGH = 22, alike = new Map(), all = phasesOf(one), phases = all.slice(0, PHASES_MAX);
	const strips = phases.length <= 8 ? STRIP * phases.length : 0, LINE = 44 + strips, at = (s) => WIDTH * Math.min(1, s / one.time_s);
	const band = (span, y, high) => rect(at(span.start_s), y, Math.max(1, at(span.end_s) - at(span.start_s)), high, { class: `phase-${span.number}` });
	const phase = (span, i) => {
		const y = y0 + 22 + PHASE * i;
		return make("g", { class: "vertex phase", "data-vertex": first + i }, make("title", {}, span.name),
			rect(0, y, WIDTH, PHASE - 6, { class: "row", rx: 4 }), words(6, y + 12, clip(`${span.name}: ${spanWords(span)}`, WIDTH - 12)), band(span, y + 17, 8));
	};
	const heading = phases.length ? `Phases, step by step${all.length > phases.length ? `: ${phases.length} of ${all.length}` : ""}` :
		"No phases: pipelined, all are under way at once";
	const top = y0, nodes = [words(0, top + 12, heading, { class: "words strong" }), ...phases.map(phase)];
	y0 += 30 + PHASE * phases.length;
	for (const { link, points } of one.timeline) {
		const spans = strips ? phases.flatMap((span, k) => span.links.filter((on) => on.link === link)
			.map(({ start_s, end_s }) => ({ k, number: span.number, start_s, end_s }))) : [];
		const key = JSON.stringify([points, spans, links.get(link).capacity_Bps]);
		alike.set(key, [...alike.get(key) ?? [], { link, points, spans }]);
	}
	const lines = [...alike.values()], end = y0 + 26 + LINE * lines.length;
	const line = ([{ link, points, spans }, ...others], i) => {
		const y = y0 + 26 + LINE * i + 16, { capacity_Bps, load } = links.get(link);
		/* Of each step of the colours a path, which may have many parts. */
		const parts = points.map(([s, Bps], k) => [Math.min(1, Bps / capacity_Bps), at(s), at(points[k + 1]?.[0] ?? one.time_s)]);
		const steps = LOADS.map((_, band) => parts.filter(([share]) => share > 0 && loadBand(share) === band).map(([share, from, to]) =>
			`M${from.toFixed(1)} ${y + HIGH}V${(y + HIGH * (1 - share)).toFixed(1)}H${to.toFixed(1)}V${y + HIGH}Z`).join(""));
		return [words(0, y - 5, `${link}${others.length ? " and others alike" : ""}: ${digits(100 * load)} %`),
			rect(0, y, WIDTH, HIGH, { class: "trough" }), steps.map((d, band) => d && make("path", { class: `band-${band}`, d })).filter(Boolean),
			spans.map((span) => band(span, y + HIGH + 2 + STRIP * span.k, STRIP - 1))];
	};
	/* Between the words of the lines. */
	const gaps = [...phases.map((_, i) => [top + 36 + PHASE * i, 14]), ...lines.map((_, i) => [y0 + 40 + LINE * i, HIGH + strips + 4])];
	const ticks = (isNarrow ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]).map((part) => [
		make("path", { class: "tick", d: gaps.map(([y, high]) => `M${WIDTH * part} ${y}v${high}`).join("") }),
		words(WIDTH * part, end + 14, part ? time(one.time_s * part) : "0", { "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle" })]);
	return one.timeline.length ? { bottom: end + 24, nodes: [...ticks.flat(), ...nodes, words(0, y0 + 12, `The fullest links over time${strips ? "; strips: phases" : ""}`, { class: "words strong" }),
		...lines.flatMap(line)], phases } : { bottom: top, nodes: [], phases: [] };
};

const showSimulation = () => {
	const kinds = ["nic", "uplink", "aggregator", "inside"], LINKS_MAX = 100;
	const cases = () => table("cases", "Cases; bytes on the busiest link of each kind, over those of a rank",
		["case", "#time, ms", "#algbw, GB/s", "#busbw, GB/s", "#NIC", "#uplink", "#aggre\u00adgator", "#inside"],
		data.cases.map((one) => [caseName(one) + (isBound(one) ? " (lower bound)" : ""), digits(one.time_s * 1e3),
			...[one.algbw_Bps, one.busbw_Bps].map((Bps) => Bps === null ? "-" : digits(Bps / 1e9)),
			...kinds.map((kind) => digits(Math.max(0, ...one.links.filter((link) => link.kind === kind).map((link) => link.bytes))
				/ data.bytes))]));
	const linksOf = (one) => table("links", one.links.length > LINKS_MAX ? `The ${LINKS_MAX} fullest of ${one.links.length} links` : "Links",
		["link", "kind", "#capacity", "#over a rank's bytes", "#busy", "load"], [...one.links].sort((a, b) => b.load - a.load).slice(0, LINKS_MAX)
			.map((link) => [link.name, link.kind, { text: link.capacity_Bps ? gbits(link.capacity_Bps) : "?", value: link.capacity_Bps ?? 0 },
				digits(link.bytes / data.bytes), { text: time(link.busy_s), value: link.busy_s },
				{ text: `${digits(100 * link.load)} %`, value: link.load, parts: gauge(link.load, loadBand(link.load)) }]));
	const phasesTable = (one) => one.jobs.some((job) => job.phases.length) ? table("phases", "Phases", ["phase", "link", "#from, ms", "#to, ms", "#bytes", "#messages"],
		phasesOf(one).slice(0, LINKS_MAX).flatMap((span) => [{ ...span, link: "all" }, ...span.links].map((on) => [span.name, on.link,
			...[on.start_s, on.end_s].map((s) => digits(s * 1e3)), { text: size(on.bytes), value: on.bytes }, String(on.messages)]))) : [];
	const viewOf = (one) => {
		const links = new Map(one.links.map((link) => [link.name, link]));
		const lane = (name) => {
			const link = links.get(name), share = Math.min(1, link?.load ?? 0);
			return { share, band: loadBand(share), Bps: link ? link.capacity_Bps ?? 0 : 1 };
		};
		const nics = [...data.nics.map((nic) => ({ ...nic, isAggregator: false })), ...data.aggregator_nics.map((nic) => ({ ...nic, isAggregator: true }))];
		const limit = slowBelow(data.nics.map((nic) => links.get(nic.out)?.capacity_Bps));
		const ends = nics.map((nic) => {
			const lanes = [lane(nic.out), lane(nic.in)];
			return { name: nic.out.replace(/ out$/, ""), leaf: nic.switch, lanes, isAggregator: nic.isAggregator,
				text: percent(Math.max(lanes[0].share, lanes[1].share)), isSlow: !nic.isAggregator && lanes.some((of) => of.Bps > 1 && of.Bps < limit) };
		});
		const switches = data.switches.map((at) => {
			const [up, down] = [lane(at.up), lane(at.down)], both = [up, down].map((of) => of.Bps ? percent(of.share) : "?");
			return { name: at.name, parent: at.parent, up, down, lines: both[0] === both[1] ? [both[0]] : [`↑ ${both[0]}`, `↓ ${both[1]}`] };
		});
		const rows = (names) => names.flatMap(([way, name]) => {
			const link = links.get(name);
			return link ? [[way, `${digits(link.bytes / data.bytes)} × a rank's bytes, busy for ${time(link.busy_s)}`],
				["", link.capacity_Bps ? `${digits(100 * link.load)} % of ${gbits(link.capacity_Bps)}` : "bounds nothing"]] : [[way, "nothing"]];
		});
		const full = (names) => [names.some((name) => links.get(name)?.load > 0.98) && "full"];
		const map = drawMap(switches, ends, 0), line = drawTimeline(one, links, ends.length, map.bottom + 10);
		const cards = mapCards(switches, ends,
			(i) => ({ rows: data.switches[i].parent === null ? [] : rows([["up", data.switches[i].up], ["down", data.switches[i].down]]),
				warnings: full([data.switches[i].up, data.switches[i].down]) }),
			(i) => ({ rows: [["leaf", ends[i].leaf], ...rows([["out", nics[i].out], ["in", nics[i].in]])],
				warnings: [...full([nics[i].out, nics[i].in]), ends[i].isSlow && "slower than most hosts"] }));
		const phaseCard = (span, i) => ({ title: span.name, words: `${span.messages} messages`, links: [], vertices: [i],
			rows: [["all", spanWords(span)], ...span.links.map((on) => [on.link, spanWords(on)])] });
		return {
			name: caseName(one), headline: `${caseName(one)}: ${caseTime(one)}, ${isBound(one) ? "at most " : ""}${rate(one.busbw_Bps)} of bus bandwidth`,
			drawing: scene(line.bottom, [...map.nodes, ...line.nodes], [[null, "load, bytes over what the link could have carried:"],
				...loadLegend, [null, "width: rate · up or out at the left · Σ aggregator"]]),
			tables: [cases(), phasesTable(one), linksOf(one)], link: cards.link,
			vertex: (i) => i < ends.length ? cards.vertex(i) : phaseCard(line.phases[i - ends.length], i),
		};
	};
	const all = data.cases.length < 2 ? [] : [{ name: "all cases", headline: data.answer, drawing: drawCases(), tables: [cases()],
		open: (i) => i + 1, vertex: (i) => ({ title: caseName(data.cases[i]), words: "", links: [], vertices: [i],
			rows: [["time", caseTime(data.cases[i])], ["algbw", rate(data.cases[i].algbw_Bps)], ["busbw", rate(data.cases[i].busbw_Bps)],
				["fullest", data.cases[i].busiest[0]]] }) }];
	return { title: data.name, summary: `${data.hosts} hosts · ${operationName(data.collective)} of ${size(data.bytes)} a rank · simulated`,
		views: [...all, ...data.cases.map(viewOf)] };
};
