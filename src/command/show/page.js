/* SPDX-License-Identifier: Apache-2.0 */
/* The page: its views, zoom and pan, cards, tables, light and dark. A new format needs a function that returns its views. */

/*
 * Each view of a format is { name, headline, note, drawing, tables, link, vertex, flow, open }: link, vertex and flow give the card of
 * what has that number in the drawing: { title, words, rows, warnings, links, vertices }, the last two being what it lights up; open,
 * which view a click on that vertex shows.
 */

/* ---- the page ---- */

const formats = { "tributary-show": showRates, "tributary-plan": showPlan, "tributary-cluster": showCluster,
	"tributary-simulate": showSimulation };
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
		make("nav", {}, several ? make("div", { class: "group", id: "views" },
			views.map((view, i) => button(undefined, view.name, { "data-show": i }))) : null,
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
/*
 * At first: all of it, though no larger than need be; or, where that cannot be read, its beginning. The height of a long one is no
 * reason to make it small.
 */
const start = () => {
	const { clientWidth, clientHeight } = stage, whole = Math.min(clientWidth / full.width, clientHeight / full.height);
	if (!whole || (whole >= 0.7 && whole <= 1.6))
		return fit();
	const scale = whole > 1.6 ? 1.6 : Math.min(1, Math.max(0.7, clientWidth / full.width));
	const width = full.width * whole / scale, middle = (room, of) => Math.min(room / scale, of) / 2;
	setBox(full.x + middle(clientWidth, full.width) - width / 2,
		full.y + middle(clientHeight, full.height) - width * full.height / full.width / 2, width);
};
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
		attach(made, () => {
			fill(view.flow(Number(flow)), [`.flow-${flow}`], "one-flow");
			svg.style.setProperty("--flow", sample.getAttribute("stroke"));
		},
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
	start();
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
