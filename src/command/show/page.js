"use strict";
(() => {
	const data = JSON.parse(document.getElementById("data").textContent);
	const byId = (id) => document.getElementById(id);
	const svg = byId("machine"), stage = byId("stage"), card = byId("card");
	const whole = svg.viewBox.baseVal;
	const full = { x: whole.x, y: whole.y, width: whole.width, height: whole.height };
	let view = { ...full };
	/* A page of channels has several views of one machine; each has its own lanes and numbers. */
	let shown = 0;

	/* ---- zoom and pan: the view box is the state ---- */

	const setView = (next) => {
		const width = Math.min(Math.max(next.width, full.width / 24), full.width * 2);
		const height = width * full.height / full.width;
		view = { x: next.x, y: next.y, width, height };
		svg.setAttribute("viewBox", [view.x, view.y, view.width, view.height].map((n) => n.toFixed(2)).join(" "));
		byId("level").textContent = Math.round(100 * full.width / view.width) + " %";
	};
	const toPicture = (x, y) => new DOMPoint(x, y).matrixTransform(svg.getScreenCTM().inverse());
	const zoomAt = (point, factor) => {
		const width = Math.min(Math.max(view.width / factor, full.width / 24), full.width * 2), k = width / view.width;
		setView({ x: point.x - (point.x - view.x) * k, y: point.y - (point.y - view.y) * k, width });
	};
	const zoom = (factor) => zoomAt({ x: view.x + view.width / 2, y: view.y + view.height / 2 }, factor);
	const fit = () => setView(full);

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
		const others = [...fingers.values()].filter((finger) => finger.pointerId !== event.pointerId);
		const from = toPicture(before.clientX, before.clientY), to = toPicture(event.clientX, event.clientY);
		if (others.length) {
			const still = others[0], distance = (a) => Math.hypot(a.clientX - still.clientX, a.clientY - still.clientY);
			zoomAt(toPicture(still.clientX, still.clientY), distance(event) / Math.max(distance(before), 1));
		} else {
			setView({ ...view, x: view.x - (to.x - from.x), y: view.y - (to.y - from.y) });
		}
		fingers.set(event.pointerId, event);
	});
	for (const end of ["pointerup", "pointercancel"])
		addEventListener(end, (event) => {
			fingers.delete(event.pointerId);
			if (!fingers.size)
				stage.classList.remove("moving");
		});
	stage.addEventListener("dblclick", fit);
	byId("closer").addEventListener("click", () => zoom(1.4));
	byId("farther").addEventListener("click", () => zoom(1 / 1.4));
	byId("fit").addEventListener("click", fit);
	addEventListener("keydown", (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey)
			return;
		if (event.key === "+" || event.key === "=")
			zoom(1.4);
		else if (event.key === "-")
			zoom(1 / 1.4);
		else if (event.key === "0")
			fit();
		else if (event.key === "Escape")
			hide();
	});

	/* ---- the card ---- */

	const element = (name, text, parent, className) => {
		const made = document.createElement(name);
		if (text !== undefined)
			made.textContent = text;
		if (className)
			made.className = className;
		parent.append(made);
		return made;
	};
	const fillCard = (title, sub, rows, warnings) => {
		card.replaceChildren();
		element("h2", title, card);
		if (sub)
			element("p", sub, card);
		const table = element("table", undefined, card);
		for (const [name, value] of rows) {
			if (value === "" || value === null || value === undefined)
				continue;
			const row = element("tr", undefined, table);
			element("th", name, row);
			element("td", value, row);
		}
		for (const warning of warnings.filter(Boolean))
			element("p", warning, card, "warn");
	};
	const place = (x, y) => {
		card.hidden = false;
		const box = card.getBoundingClientRect();
		card.style.left = Math.max(8, x + 18 + box.width > innerWidth ? x - box.width - 18 : x + 18) + "px";
		card.style.top = Math.max(8, y + 18 + box.height > innerHeight ? y - box.height - 18 : y + 18) + "px";
	};
	const light = (nodes) => {
		for (const on of svg.querySelectorAll(".on"))
			on.classList.remove("on");
		for (const node of nodes)
			node?.classList.add("on");
		svg.classList.toggle("dim", nodes.length > 0);
	};
	const hide = () => {
		card.hidden = true;
		light([]);
	};
	const linkNode = (i) => byId("link-" + i) ?? byId(`link-${shown}-${i}`), vertexNode = (i) => byId("vertex-" + i);
	const showLink = (i) => {
		const link = data.links[i];
		const flow = data.views?.[shown].links[i];
		const rows = flow?.rows ?? [["up", link.up], ["down", link.down], ["nominal", link.nominal], ["share", link.share],
			["known by", link.provenance], ["spread", link.spread], ["date", link.date], ["slot", link.port]];
		const warnings = flow ? [flow.warning] :
			[link.degraded && "trained at " + link.degraded, link.bottleneck && "bottleneck of all-to-all traffic"];
		fillCard(link.name, link.words, rows, warnings);
		light([linkNode(i), vertexNode(link.ends[0]), vertexNode(link.ends[1])]);
	};
	const showVertex = (i) => {
		const vertex = data.vertices[i], mine = data.links.map((link, at) => [link, at]).filter(([link]) => link.ends.includes(i));
		fillCard(vertex.name, vertex.words, [["PCI", vertex.bus_id], ["interface", vertex.interface], ["model", vertex.model],
			...mine.slice(0, 8).map(([link, at]) => [link.words, data.views?.[shown].links[at].brief ??
				"↑ " + link.up + "   ↓ " + link.down])], []);
		light([vertexNode(i), ...mine.map(([, at]) => linkNode(at)),
			...mine.flatMap(([link]) => link.ends.map(vertexNode))]);
	};
	const attach = (node, show) => {
		const title = node.querySelector("title");
		node.setAttribute("aria-label", title.textContent);
		title.remove(); /* the card says it better */
		node.setAttribute("tabindex", "0");
		node.addEventListener("pointermove", (event) => {
			if (fingers.size && event.buttons)
				return;
			if (!node.classList.contains("on") || card.hidden)
				show();
			place(event.clientX, event.clientY);
		});
		node.addEventListener("pointerenter", show);
		node.addEventListener("pointerleave", hide);
		node.addEventListener("focus", () => {
			const box = node.getBoundingClientRect();
			show();
			place(box.right, box.bottom);
		});
		node.addEventListener("blur", hide);
	};
	for (const node of svg.querySelectorAll("[data-link]"))
		attach(node, () => showLink(Number(node.dataset.link)));
	for (const node of svg.querySelectorAll("[data-vertex]"))
		attach(node, () => showVertex(Number(node.dataset.vertex)));

	/* ---- channels: which view, and one flow of it alone ---- */

	const showFlow = (i) => {
		const flow = data.views[shown].flows[i];
		fillCard(flow.name, flow.words, flow.rows, []);
		for (const node of document.querySelectorAll(`[data-view="${shown}"] .flow-${i}`))
			node.classList.add("on");
		svg.classList.add("one-flow");
	};
	const hideFlow = () => {
		hide();
		svg.classList.remove("one-flow");
	};
	for (const node of document.querySelectorAll("button.channel")) {
		const show = () => {
			const box = node.getBoundingClientRect();
			showFlow(Number(node.dataset.flow));
			place(box.left, box.top - card.getBoundingClientRect().height - 30);
		};
		node.addEventListener("pointerenter", show);
		node.addEventListener("focus", show);
		node.addEventListener("pointerleave", hideFlow);
		node.addEventListener("blur", hideFlow);
	}
	const showView = (i) => {
		hideFlow();
		shown = i;
		for (const node of document.querySelectorAll("[data-view]")) {
			const on = Number(node.dataset.view) === i;
			if (node instanceof SVGElement)
				on ? node.removeAttribute("display") : node.setAttribute("display", "none");
			else
				node.hidden = !on;
		}
		for (const button of document.querySelectorAll("[data-show]"))
			button.setAttribute("aria-pressed", String(Number(button.dataset.show) === i));
	};
	for (const button of document.querySelectorAll("[data-show]"))
		button.addEventListener("click", () => showView(Number(button.dataset.show)));

	/* ---- picture or table ---- */

	const choose = (table) => {
		hide();
		byId("picture").hidden = table;
		byId("tables").hidden = !table;
		byId("as-picture").setAttribute("aria-pressed", String(!table));
		byId("as-table").setAttribute("aria-pressed", String(table));
		byId("zoom").style.visibility = table ? "hidden" : "";
	};
	byId("as-picture").addEventListener("click", () => choose(false));
	byId("as-table").addEventListener("click", () => choose(true));
	for (const row of document.querySelectorAll("#tables tr[data-row]"))
		row.addEventListener("click", () => {
			choose(false);
			linkNode(Number(row.dataset.row)).focus();
		});

	/* A click on a head sorts, numbers as numbers; another click turns the order. */
	for (const head of document.querySelectorAll("#tables th"))
		head.addEventListener("click", () => {
			const body = head.closest("table").tBodies[0], column = head.cellIndex;
			const up = head.getAttribute("aria-sort") !== "ascending";
			const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
			for (const other of head.parentElement.cells)
				other.removeAttribute("aria-sort");
			head.setAttribute("aria-sort", up ? "ascending" : "descending");
			const rows = [...body.rows].sort((a, b) => {
				const order = value(a).localeCompare(value(b), "en", { numeric: true });
				return up ? order : -order;
			});
			body.append(...rows);
		});

	/* ---- light and dark ---- */

	const dark = (on) => {
		document.documentElement.classList.toggle("dark", on);
		byId("theme").setAttribute("aria-pressed", String(on));
	};
	const system = matchMedia("(prefers-color-scheme: dark)");
	dark(system.matches);
	system.addEventListener("change", () => dark(system.matches));
	byId("theme").addEventListener("click", () => dark(!document.documentElement.classList.contains("dark")));

	hide();
	fit();
})();
