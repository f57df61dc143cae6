/* SPDX-License-Identifier: Apache-2.0 */
/* The page: its views, zoom and pan, cards, tables, light and dark. A new format needs a function that returns its views. */

/*
 * Each view of a format is { name, headline, note, drawing, tables, link, vertex, flow, open }: link, vertex and flow give the card of
 * what has that number in the drawing (and is that node): { title, words, rows, warnings, links, vertices }, the last two being what it lights up; open,
 * which view a click on that vertex shows.
 */

/* ---- the page ---- */

const formats = { "tributary-show": showRates, "tributary-plan": showPlan, "tributary-cluster": showCluster,
	"tributary-simulate": showSimulation, "tributary-explain": showExplain,
	"tributary-cluster-order": showOrder, "tributary-bench": showBench, "tributary-report": showReport };
const { title, summary, views } = formats[data.format.split(" ")[0]]();
const several = views.length > 1;
const button = (id, text, more) => make("button", { id, ...more }, text);
const card = make("div", { id: "card", role: "status" }), stage = make("div", { id: "stage" });
const tables = make("section", { id: "tables" }), picture = make("section", { id: "picture" }, stage);

document.body.replaceChildren(
	make("header", {},
		make("div", {}, make("h1", {}, prose(title)), make("div", { class: "summary" }, prose(summary)), views.map((view, i) =>
			make("div", { "data-view": i }, view.headline ? make("div", { class: "headline" }, prose(view.headline)) : null, make("div", {}, prose(view.note))))),
		make("nav", {}, several ? make("div", { class: "group", id: "views" },
			views.map((view, i) => button(undefined, view.name, { "data-show": i }))) : null,
		make("div", { class: "group", id: "zoom" }, button("farther", "−", { title: "farther (-)" }),
			button("fit", "Fit", { title: "all of it (0)" }), button("closer", "+", { title: "closer (+); or Ctrl and the wheel" })),
		button("as-table", "Tables", { title: "the figures, below the picture" }), button("save", "Save", { title: "this picture as SVG" }),
		button("theme", "◐", { title: "light or dark", "aria-label": "dark" }))),
	make("main", {}, picture, tables), card);
const byId = (id) => document.getElementById(id);
const legendNow = () => picture.querySelector(`.legend[data-view="${shown}"]`);
let shown = -1, box, full, whole, svg;

/* ---- words that can be read ---- */

/*
 * A word that would be less than this many pixels high is drawn larger, and left out where it has no room: those of more weight
 * come first, and the least has to fit nearly as it is. A name is cut where that is needed: "nic:mlx5_0" to "mlx5_0", then "NIC"; "gpu12" to "12".
 * It stays within the box that it stands in, and off all others and the links; a name moves in its box, where a sign is in its way. A sign
 * is there in any case, and moves up from a box.
 */
const LEAST_PX = 9.05, labels = new Map();
const offsetOf = (node) => node.closest("[data-side]")?.dataset.side.split(" ").map(Number) ?? [0, 0];
const boundsOf = (node) => {
	const { x, y, width, height } = node.getBBox(), half = node.matches("path") ? Number(node.getAttribute("stroke-width")) / 2 : 0;
	const [wide, high] = [width ? 0 : half, height ? 0 : half];
	const slack = node.matches("text") ? height * 0.14 : 0, [dx, dy] = offsetOf(node); /* above and below the letters */
	return { left: dx + x - wide, top: dy + y - high + slack, right: dx + x + width + wide, bottom: dy + y + height + high - slack };
};
/* A link with corners or bends, as of two sockets, part by part: what it goes around is not on it. */
const solidsOf = (node) => {
	const d = node.getAttribute("d") ?? "", turns = [...d.matchAll(/([HV])([-\d.]+)/g)];
	const half = Number(node.getAttribute("stroke-width")) / 2, [dx, dy] = offsetOf(node);
	if (d.includes("C")) {
		const length = node.getTotalLength(), parts = Math.ceil(length / Math.max(12, half));
		return Array.from({ length: parts + 1 }, (_, i) => node.getPointAtLength(length * i / parts)).map(({ x, y }) =>
			({ left: dx + x - half, right: dx + x + half, top: dy + y - half, bottom: dy + y + half }));
	}
	if (turns.length < 2)
		return [boundsOf(node)];
	const [x0, y0] = d.match(/[-\d.]+/g).map(Number);
	let [x, y] = [x0 + dx, y0 + dy];
	return turns.map(([, way, to]) => {
		const from = [x, y];
		[x, y] = way === "H" ? [Number(to) + dx, y] : [x, Number(to) + dy];
		return { left: Math.min(from[0], x) - half, right: Math.max(from[0], x) + half, top: Math.min(from[1], y) - half, bottom: Math.max(from[1], y) + half };
	});
};
const isIn = (a, b) => a.left >= b.left && a.right <= b.right && a.top >= b.top && a.bottom <= b.bottom;
const isOver = (a, b) => Math.min(a.right, b.right) > Math.max(a.left, b.left) && Math.min(a.bottom, b.bottom) > Math.max(a.top, b.top);
const shortsOf = (name, isNic) => [name.replace(/^(nic|net|switch|bridge):(0000:)?/, ""), name.replace(/, above$/, ""),
	name.replace(/^(gpu|host )(\d+).*/, "$2"), name.replace(/^memory/, "mem"), isNic ? "NIC" : name].filter((short) => short.length < name.length);
const labelsOf = (drawing) => {
	const [plates, beds] = [".box, .row, .trough", ".bed"].map((of) => [...drawing.querySelectorAll(of)].flatMap(solidsOf));
	const weights = [".sign", ".alarm", ".name, .on-bar, .strong", ".rate, .words", "*"];
	return [...drawing.querySelectorAll(".sign, .pip, text")].filter((node) => !node.parentNode.closest(".legend, .head, .sign, .pip"))
		.map((node) => {
			const text = node.matches("text") ? node : node.querySelector("text"), at = boundsOf(node);
			const middle = { left: (at.left + at.right) / 2, top: (at.top + at.bottom) / 2 };
			const isAround = (one) => isIn({ ...middle, right: middle.left, bottom: middle.top }, one);
			const solid = plates.some(isAround) ? plates : [...plates, ...beds]; /* links are below boxes */
			const end = { start: at.left, end: at.right }[node.matches("text") ? getComputedStyle(text).textAnchor : ""] ?? middle.left;
			const name = node.matches(".name") ? node.textContent : "", isSign = node.matches(".sign");
			return { node, name, shorts: shortsOf(name, node.closest(".nic")), at, x: end, y: middle.top, size: parseFloat(getComputedStyle(text).fontSize), around: solid.filter(isAround),
				off: (isSign ? plates : solid).filter((one) => !isAround(one)), isSign, weight: weights.findIndex((of) => node.matches(of)) };
		}).sort((a, b) => a.weight - b.weight || b.size - a.size);
};
const moved = (a, dx, dy) => ({ left: a.left + dx, right: a.right + dx, top: a.top + dy, bottom: a.bottom + dy });
/* As far as it takes to be in a box. */
const into = (a, around) => moved(a, Math.max(0, around.left + 2 - a.left) + Math.min(0, around.right - 2 - a.right),
	Math.max(0, around.top + 2 - a.top) + Math.min(0, around.bottom - 2 - a.bottom));
const SHIFTS = [undefined, [-9999, 0], [9999, 0], [0, 9999]]; /* to the ends of the box, and to its bottom */
const legible = () => {
	const scale = stage.clientWidth / box.width, taken = [];
	if (!labels.has(svg))
		labels.set(svg, labelsOf(svg));
	const all = labels.get(svg), isSmall = all.some((label) => label.size * scale < LEAST_PX);
	const page = { left: full.x, right: full.x + full.width, top: full.y, bottom: full.y + full.height };
	const place = ({ node, at, x, y, size, around, off, weight }, part, shift) => {
		const k = Math.max(1, LEAST_PX / (size * scale)), wide = k * part, isClear = (one) => !isOver(now, one);
		const larger = { left: x - (x - at.left) * wide, right: x + (at.right - x) * wide, top: y - (y - at.top) * k, bottom: y + (at.bottom - y) * k };
		const now = shift ? into(moved(larger, ...shift), around[0] ?? page) : k === 1 ? at : [page, ...around].reduce(into, larger);
		return { k: shift ? Math.max(k, 1.001) : k, larger, now, fits: !isSmall || ((k === 1 || ((weight < 4 || k < 1.4) && around.every((one) => isIn(now, one)) && off.every(isClear))) &&
			(taken.every(isClear) || node.closest(".many"))) };
	};
	for (const label of all) {
		const { node, name, shorts, x, y } = label, [dx, dy] = offsetOf(node), whole = { ...place(label, 1), text: name };
		const shifts = label.isSign ? [0.25, 0.5, 0.75].map((part) => [0, -part * (whole.now.bottom - whole.now.top)]) : label.around.length ? SHIFTS : [undefined];
		const tries = whole.fits || !name && !label.isSign ? [] : [name, ...shorts].flatMap((text) =>
			shifts.map((shift) => ({ ...place(label, text.length / name.length || 1, shift), text })));
		const { k, larger, now, fits, text } = tries.find((one) => one.fits) ?? { ...whole, fits: whole.fits || label.isSign };
		if (shorts.length)
			node.textContent = text;
		node.classList.toggle("crowded", !fits);
		if (k > 1)
			node.setAttribute("transform", `translate(${x - dx + now.left - larger.left} ${y - dy + now.top - larger.top}) scale(${
				k.toFixed(3)}) translate(${dx - x} ${dy - y})`);
		else
			node.removeAttribute("transform");
		if (fits && !node.closest(".many"))
			taken.push({ ...now, top: now.top - 0.15 * (now.bottom - now.top), bottom: now.bottom + 0.15 * (now.bottom - now.top) });
	}
};

/* ---- zoom and pan: the view box is the state ---- */

const setBox = (x, y, width) => {
	box = { x, y, width: Math.min(Math.max(width, full.width / 24), 2 * whole) };
	box.height = box.width * stage.clientHeight / stage.clientWidth;
	svg.setAttribute("viewBox", [box.x, box.y, box.width, box.height].map((n) => n.toFixed(2)).join(" "));
	stage.classList.toggle("whole", box.width >= whole * 0.999);
	legible();
};
/*
 * All of it, though no larger than need be, in what the header and the legend leave of the window. Drawings of the viewer are as wide
 * as the window, and need no more than their height. Of a long legend, as of many channels, the beginning is to be seen.
 */
const fit = () => {
	const room = Math.max(220, innerHeight - stage.getBoundingClientRect().top - scrollY - Math.min(legendNow().offsetHeight, 0.2 * innerHeight));
	const least = svg.dataset.whole !== undefined ? 0 : isNarrow ? 1 : 0.75, scale = Math.min(stage.clientWidth / full.width, 1.6, Math.max(room / full.height, least));
	stage.style.height = `${Math.ceil(full.height * scale)}px`;
	whole = stage.clientWidth / scale;
	setBox(full.x + (full.width - whole) / 2, full.y, whole);
};
const toPicture = (x, y) => new DOMPoint(x, y).matrixTransform(svg.getScreenCTM().inverse());
const zoomAt = (point, factor) => {
	const width = Math.min(Math.max(box.width / factor, full.width / 24), whole * 2), k = width / box.width;
	setBox(point.x - (point.x - box.x) * k, point.y - (point.y - box.y) * k, width);
};
const zoom = (factor) => zoomAt({ x: box.x + box.width / 2, y: box.y + box.height / 2 }, factor);

/* Without Ctrl the wheel moves the page. */
stage.addEventListener("wheel", (event) => {
	if (!event.ctrlKey)
		return;
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
const pan = (x, y) => setBox(box.x + x * box.width, box.y + y * box.height, box.width);
const keys = { "+": () => zoom(1.4), "=": () => zoom(1.4), "-": () => zoom(1 / 1.4), 0: fit, Escape: () => hide(),
	ArrowLeft: () => pan(-0.1, 0), ArrowRight: () => pan(0.1, 0), ArrowUp: () => pan(0, -0.1), ArrowDown: () => pan(0, 0.1) };
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
		const of = view[kind](number, node);
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
	const { flow } = item.dataset, samples = [...item.querySelectorAll("path")], sample = samples[0];
	const [x, y] = sample?.getAttribute("d").match(/[\d.]+/g) ?? [];
	const made = make(flow ? "button" : "span", { class: flow ? "item channel" : "item", "data-flow": flow },
		sample && make("svg", { width: 36, height: 24, viewBox: `${x} ${y - 12} 36 24` }, samples), make("span", {}, item.textContent));
	if (flow)
		attach(made, () => {
			fill(view.flow(flow), [`.flow-${flow}`], "one-flow");
			svg.style.setProperty("--flow", sample.getAttribute("stroke"));
		},
			(around) => [around.left, around.top - card.getBoundingClientRect().height - 30]);
	return made;
});

/* ---- a file for a slide ---- */

/* What is seen, as attributes: programs that show slides know no style sheets. */
const PAINT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity", "font-size", "font-weight", "text-anchor"];
const painted = (node) => {
	const style = getComputedStyle(node), copy = node.cloneNode(false);
	if (style.visibility === "hidden" && node.matches("text, circle, .pill") || node.matches(".hit, title"))
		return null;
	for (const name of [...copy.getAttributeNames()].filter((one) => /^(class|style|tabindex|role|aria-.*|data-.*)$/.test(one)))
		copy.removeAttribute(name);
	if (node.matches("path, rect, circle, text"))
		for (const name of PAINT)
			if (style.getPropertyValue(name) && !["none", "normal"].includes(style.getPropertyValue(name)) || name === "fill")
				copy.setAttribute(name, style.getPropertyValue(name));
	copy.append(...[...node.childNodes].map((child) => child.nodeType === Node.TEXT_NODE ? child.cloneNode() : painted(child)).filter(Boolean));
	return copy;
};
/* The picture as it is on the page, its title above it and its legend below. */
const savedPicture = () => {
	const PAD = 24, width = stage.clientWidth, { color, backgroundColor, fontFamily } = getComputedStyle(document.body), legend = legendNow();
	const line = (text, x, y, size, more) => make("text", { x, y, "font-size": size, fill: color, ...more }, text);
	const broken = (text, size) => (text ?? "").replaceAll("`", "").split(" ").reduce((lines, word) => {
		const longer = `${lines.at(-1)} ${word}`.trim();
		return longer.length * size * 0.6 > width - 2 * PAD ? [...lines, word] : [...lines.slice(0, -1), longer];
	}, [""]);
	const head = [...broken(title, 22).map((text) => [text, 22]), ...broken(views[shown].headline, 15).map((text) => [text, 15]), ...broken(summary, 13)
		.map((text) => [text, 13])].filter(([text]) => text);
	let y = PAD;
	const above = head.map(([text, size]) => line(text, PAD, y += size * 1.35, size, { "font-weight": size > 13 ? 700 : 400 })), top = y + PAD;
	const origin = legend.getBoundingClientRect(), bottom = top + stage.clientHeight, drawing = painted(svg);
	for (const [name, value] of Object.entries({ x: 0, y: top, width, height: stage.clientHeight }))
		drawing.setAttribute(name, value);
	const below = [...legend.children].flatMap((item) => [...item.children].map((part) => {
		const at = part.getBoundingClientRect(), x = at.left - origin.left, down = bottom + at.top - origin.top;
		if (!part.matches("svg"))
			return line(part.textContent, x, down + at.height / 2 + 4, 13, {});
		const sample = painted(part);
		sample.setAttribute("x", x);
		sample.setAttribute("y", down);
		return sample;
	}));
	const whole = make("svg", { width, height: bottom + legend.offsetHeight, viewBox: `0 0 ${width} ${bottom + legend.offsetHeight}`, "font-family": fontFamily },
		make("rect", { width: "100%", height: "100%", fill: backgroundColor }), above, drawing, below);
	return new XMLSerializer().serializeToString(whole);
};
byId("save").addEventListener("click", () => {
	const link = make("a", { href: URL.createObjectURL(new Blob([savedPicture()], { type: "image/svg+xml" })), download: "tributary.svg" });
	link.click();
	URL.revokeObjectURL(link.href);
});

/* ---- which view, picture or table, light or dark ---- */

for (const [i, view] of views.entries()) {
	const { drawing } = view;
	drawing.setAttribute("class", "drawing");
	for (const part of ["link", "vertex"])
		for (const node of drawing.querySelectorAll(`[data-${part}]`))
			attachPart(node, view, part);
	for (const node of view.open ? drawing.querySelectorAll("[data-vertex]") : []) {
		node.addEventListener("click", () => showView(view.open(Number(node.dataset.vertex))));
		node.addEventListener("keydown", (event) => event.key === "Enter" && showView(view.open(Number(node.dataset.vertex))));
	}
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

const showInPicture = (link) => {
	scrollTo(0, 0);
	linkNode(link).focus();
};
byId("as-table").addEventListener("click", () => tables.scrollIntoView());
/* Of its width alone: telephones change the height whenever the page is moved. */
let wide = innerWidth;
addEventListener("resize", () => {
	if (innerWidth !== wide)
		fit();
	wide = innerWidth;
});

const dark = (on) => {
	document.documentElement.classList.toggle("dark", on);
	byId("theme").setAttribute("aria-pressed", String(on));
};
const system = matchMedia("(prefers-color-scheme: dark)");
dark(system.matches);
system.addEventListener("change", () => dark(system.matches));
byId("theme").addEventListener("click", () => dark(!document.documentElement.classList.contains("dark")));

showView(0);
