#include "command/show/draw.h"

#include <math.h>
#include <string.h>

/* What a letter takes of its size, on average, in the fonts that a browser picks for sans-serif. */
static const double LETTER = 0.61;

void draw_xml_escape(const char *text, FILE *out)
{
	for (; *text; text++) {
		if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '>')
			fputs("&gt;", out);
		else if (*text == '&')
			fputs("&amp;", out);
		else if (*text == '"')
			fputs("&quot;", out);
		else
			fputc((unsigned char)*text < ' ' ? '?' : *text, out);
	}
}

/* As much of text as fits, with an ellipsis where something is cut off. Never cuts a character of UTF-8 in two. */
void draw_clip(const char *text, double width, double size, char ret[static DRAW_CLIP_BYTES])
{
	size_t most = width > 0 ? (size_t)(width / (size * LETTER)) : 0, bytes = strlen(text), keep;

	if (term_width(text) <= most && bytes < DRAW_CLIP_BYTES) {
		snprintf(ret, DRAW_CLIP_BYTES, "%s", text);
		return;
	}
	keep = most > 1 ? most - 1 : 0;
	if (keep > DRAW_CLIP_BYTES - 5)
		keep = DRAW_CLIP_BYTES - 5;
	while (keep && (text[keep] & 0xC0) == 0x80)
		keep--;
	while (keep && text[keep - 1] == ' ')
		keep--;
	snprintf(ret, DRAW_CLIP_BYTES, "%.*s%s", (int)keep, text, most ? "…" : "");
}

void draw_text(const struct drawing *drawing, double x, double y, double size, const char *style, const char *text)
{
	fprintf(drawing->out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\" %s>", x, y, size, style);
	draw_xml_escape(text, drawing->out);
	fputs("</text>\n", drawing->out);
}

/* ----------------------------------------------------------------------------------------------------------- links */

void draw_path(const struct drawing *drawing, const struct layout_line *line, double shift, const char *style)
{
	double dx = line->horizontal ? 0 : shift, dy = line->horizontal ? shift : 0;

	/* Arcs are shifted inwards and outwards, so that their lanes do not cross. */
	if (line->curved && line->cy0 == line->cy1)
		fprintf(drawing->out, "<path d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\" %s/>\n", line->x0 + dx,
			line->y0, line->cx0 + dx, line->cy0 - shift / 3, line->cx1 - dx, line->cy1 - shift / 3,
			line->x1 - dx, line->y1, style);
	else
		fprintf(drawing->out, "<path d=\"M%.1f %.1fL%.1f %.1f\" %s/>\n", line->x0 + dx, line->y0 + dy,
			line->x1 + dx, line->y1 + dy, style);
}

/* Small arrows in the lanes of straight links: which way its bytes go. */
void draw_arrow(const struct drawing *drawing, const struct layout_line *line, double shift, double thickness, bool up)
{
	double x = line->horizontal ? (line->x0 + line->x1) / 2 : line->x0 + shift, size = fmin(thickness * 0.28, 4);
	double y = line->horizontal ? line->y0 + shift : line->label_y, way = up != line->reversed ? -1 : 1;
	double ahead = -way; /* between equals "up" is to the right */

	if (line->curved || thickness < 5)
		return;
	if (line->horizontal) {
		fprintf(drawing->out,
			"<path class=\"arrow\" d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1f\" fill=\"none\" stroke=\"#fff\" "
			"stroke-width=\"1.4\" stroke-linecap=\"round\" stroke-linejoin=\"round\"/>\n",
			x - ahead * size / 2, y - size, ahead * size, size, -ahead * size, size);
		return;
	}
	fprintf(drawing->out,
		"<path class=\"arrow\" d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1f\" fill=\"none\" stroke=\"#fff\" "
		"stroke-width=\"1.4\" stroke-linecap=\"round\" stroke-linejoin=\"round\"/>\n",
		x - size, y - way * size / 2, size, way * size, size, -way * size);
}

double draw_bed(const struct drawing *drawing, uint32_t directed)
{
	return layout_thickness(drawing->view->lanes[directed].room_Bps, drawing->fastest_Bps);
}

/* From the middle of a link to that of its lane: up on the left, or above. */
double draw_shift(const struct drawing *drawing, uint32_t directed)
{
	double shift = (LAYOUT_LANE_GAP + draw_bed(drawing, directed)) / 2;

	return directed % 2 == TOPOLOGY_UP ? -shift : shift;
}

void draw_pill(const struct drawing *drawing, double x, double y, bool centred, const char *word)
{
	double width = 10 + (double)strlen(word) * 5.6, height = 16;

	if (centred)
		x -= width / 2;
	fprintf(drawing->out,
		"<rect class=\"pill\" x=\"%.1f\" y=\"%.1f\" width=\"%.0f\" height=\"%.0f\" rx=\"8\" fill=\"" DRAW_ALARM
		"\"/>\n",
		x, y, width, height);
	draw_text(drawing, x + width / 2, y + 11.5, 10,
		  "class=\"pill-text\" fill=\"#fff\" font-weight=\"700\" text-anchor=\"middle\"", word);
}

/* Around both lanes: an edge in the colour of alarm, and light inside. */
void draw_halo(const struct drawing *drawing, uint32_t link)
{
	double both = 2 * (LAYOUT_LANE_GAP / 2.0 + fmax(draw_bed(drawing, 2 * link), draw_bed(drawing, 2 * link + 1)));
	char style[160];

	snprintf(style, sizeof(style), "class=\"halo\" fill=\"none\" stroke=\"" DRAW_ALARM "\" stroke-width=\"%.1f\"",
		 both + 14);
	draw_path(drawing, &drawing->layout.lines[link], 0, style);
	snprintf(style, sizeof(style),
		 "class=\"halo-inner\" fill=\"none\" stroke=\"" DRAW_LIGHT "\" stroke-width=\"%.1f\"", both + 9);
	draw_path(drawing, &drawing->layout.lines[link], 0, style);
}

/* ----------------------------------------------------------------------------------------------------------- boxes */

struct look {
	const char *name, *fill, *border, *text, *soft;
};

static const struct look looks[TOPOLOGY_KIND_COUNT] = {
	[TOPOLOGY_GPU] = { "gpu", "#e5f4ee", "#2d7d63", DRAW_INK, DRAW_SOFT },
	[TOPOLOGY_NIC] = { "nic", "#f1e8f7", "#7d4c9e", DRAW_INK, DRAW_SOFT },
	[TOPOLOGY_SWITCH] = { "switch", "#4a5768", "#4a5768", "#ffffff", "#d3dae3" },
	[TOPOLOGY_BRIDGE] = { "bridge", "#8592a3", "#8592a3", "#ffffff", "#eef1f5" },
	[TOPOLOGY_CPU] = { "cpu", DRAW_INK, DRAW_INK, "#ffffff", "#c3ccd8" },
	[TOPOLOGY_MEMORY] = { "memory", "#f4f0e2", "#a3926a", DRAW_INK, DRAW_SOFT },
	[TOPOLOGY_NVSWITCH] = { "nvswitch", "#2d7d63", "#2d7d63", "#ffffff", "#d6ece3" },
	[TOPOLOGY_NETWORK] = { "network", "#7d4c9e", "#7d4c9e", "#ffffff", "#ecdff4" },
	[TOPOLOGY_HOST] = { "host", "#e6eaf0", "#4a5768", DRAW_INK, DRAW_SOFT },
};

static void put_device_text(const struct drawing *drawing, const struct topology_vertex *vertex,
			    const struct layout_box *box)
{
	const struct look *look = &looks[vertex->kind];
	char text[DRAW_CLIP_BYTES], style[160], model[TOPOLOGY_TEXT_BYTES], more[64];
	double room = box->width - 16, size = (double)strlen(vertex->name) * 13 * LETTER > room ? 11 : 13;

	view_model(vertex, model, sizeof(model));
	view_more(vertex, more, sizeof(more));
	snprintf(style, sizeof(style), "class=\"name\" fill=\"%s\" font-weight=\"700\"", look->text);
	draw_clip(vertex->name, room, size, text);
	draw_text(drawing, box->x + 10, box->y + 20, size, style, text);
	snprintf(style, sizeof(style), "class=\"soft\" fill=\"%s\"", look->soft);
	draw_clip(model, room, 10, text);
	draw_text(drawing, box->x + 10, box->y + 36, 10, style, text);
	draw_text(drawing, box->x + 10, box->y + 50, 10, style, more);
	draw_text(drawing, box->x + 10, box->y + 64, 9.5, style, vertex->bus_id);
}

static void put_bar_text(const struct drawing *drawing, const struct topology_vertex *vertex,
			 const struct layout_box *box, const char *words)
{
	const struct look *look = &looks[vertex->kind];
	double room = box->width - 12, both;
	char text[DRAW_CLIP_BYTES], style[200];
	const char *name = vertex->name;
	bool two_lines = box->height > 30;
	double size = two_lines ? 13 : 11;

	/* A narrow bar says its place alone: what it is shows. */
	if ((double)strlen(name) * size * LETTER > room && vertex->bus_id[0])
		name = vertex->bus_id;
	snprintf(style, sizeof(style), "class=\"name\" fill=\"%s\" font-weight=\"700\" text-anchor=\"middle\"",
		 look->text);
	draw_clip(name, room, size, text);
	both = (double)(strlen(name) + strlen(words) + 3) * size * LETTER;
	if (!two_lines || !*words || both < room) {
		fprintf(drawing->out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\" %s>", box->x + box->width / 2,
			box->y + box->height / 2 + size * 0.36, size, style);
		draw_xml_escape(text, drawing->out);
		if (*words && both < room) {
			fprintf(drawing->out, "<tspan class=\"soft\" font-weight=\"400\" fill=\"%s\" dx=\"8\">",
				look->soft);
			draw_xml_escape(words, drawing->out);
			fputs("</tspan>", drawing->out);
		}
		fputs("</text>\n", drawing->out);
		return;
	}
	draw_text(drawing, box->x + box->width / 2, box->y + box->height / 2 - 2, size, style, text);
	snprintf(style, sizeof(style), "class=\"soft\" fill=\"%s\" text-anchor=\"middle\"", look->soft);
	draw_clip(words, room, 10, text);
	draw_text(drawing, box->x + box->width / 2, box->y + box->height / 2 + 12, 10, style, text);
}

void draw_box(const struct drawing *drawing, uint32_t index)
{
	const struct topology_vertex *vertex = &drawing->view->topology->vertices[index];
	const struct layout_box *box = &drawing->layout.boxes[index];
	const struct look *look = &looks[vertex->kind];
	bool device = view_is_device(vertex) || vertex->kind == TOPOLOGY_HOST;
	char words[TOPOLOGY_TEXT_BYTES + 80];

	if (box->width <= 0)
		return;
	view_vertex_words(vertex, words, sizeof(words));
	fprintf(drawing->out, "<g class=\"vertex %s\" id=\"vertex-%u\" data-vertex=\"%u\">\n<title>", look->name, index,
		index);
	draw_xml_escape(vertex->name, drawing->out);
	if (*words) {
		fputs(": ", drawing->out);
		draw_xml_escape(words, drawing->out);
	}
	fprintf(drawing->out,
		"</title>\n<rect class=\"box\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%d\" "
		"fill=\"%s\" "
		"stroke=\"%s\" stroke-width=\"1.5\"/>\n",
		box->x, box->y, box->width, box->height, device ? 8 : 6, look->fill, look->border);
	if (device)
		put_device_text(drawing, vertex, box);
	else
		put_bar_text(drawing, vertex, box, words);
	fputs("</g>\n", drawing->out);
}

void draw_panels(const struct drawing *drawing)
{
	for (size_t i = 0; i < drawing->view->topology->vertex_count; i++) {
		const struct layout_box *panel = &drawing->layout.panels[i];

		if (panel->width > 0)
			fprintf(drawing->out,
				"<rect class=\"panel\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"14\" "
				"fill=\"" DRAW_PANEL "\" stroke=\"" DRAW_BORDER "\"/>\n",
				panel->x, panel->y, panel->width, panel->height);
	}
}

/* Round rates up to the fastest link's, with the thickness that they have here. */
double draw_thicknesses(const struct drawing *drawing, double x, double y)
{
	static const double parts[] = { 0.05, 0.25, 1 };
	double last = 0, least = x + 200;
	char text[32];

	draw_text(drawing, x, y - 10, 11, "class=\"soft\" fill=\"" DRAW_SOFT "\" font-weight=\"600\"",
		  "thickness: GB/s, each direction");
	for (size_t i = 0; i < 3; i++) {
		double GBps = (double)drawing->fastest_Bps / 1e9 * parts[i],
		       unit = pow(10, floor(log10(GBps > 0 ? GBps : 1)));

		GBps = floor(GBps / unit) * unit;
		if (GBps <= last)
			continue;
		last = GBps;
		fprintf(drawing->out,
			"<path class=\"sample\" d=\"M%.1f %.1fh36\" fill=\"none\" stroke=\"" DRAW_SOFT
			"\" stroke-width=\"%.1f\"/>\n",
			x, y + 7, layout_thickness((uint64_t)(GBps * 1e9), drawing->fastest_Bps));
		snprintf(text, sizeof(text), "%g", GBps);
		draw_text(drawing, x, y + 32, 10.5, "class=\"legend\" fill=\"" DRAW_INK "\"", text);
		x += 54;
	}
	return fmax(x + 24, least);
}

void draw_hit(const struct drawing *drawing, uint32_t link)
{
	char style[160];

	snprintf(style, sizeof(style),
		 "class=\"hit\" fill=\"none\" stroke=\"#000\" stroke-opacity=\"0\" stroke-width=\"%.1f\"",
		 draw_bed(drawing, 2 * link) + draw_bed(drawing, 2 * link + 1) + 12);
	draw_path(drawing, &drawing->layout.lines[link], 0, style);
}

void draw_begin(const struct drawing *drawing, bool inside)
{
	fprintf(drawing->out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"machine\" viewBox=\"0 0 %.0f %.0f\"%s "
		"font-family=\"Inter, 'Segoe UI', 'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif\"",
		drawing->width, drawing->height,
		inside ? " role=\"img\" aria-label=\"The machine and its links\"" : "");
	if (!inside)
		fprintf(drawing->out, " width=\"%.0f\" height=\"%.0f\"", drawing->width, drawing->height);
	fputs(">\n", drawing->out);
	if (!inside)
		fputs("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n", drawing->out);
	fputs("<g id=\"scene\">\n", drawing->out);
}

void draw_end(const struct drawing *drawing)
{
	fputs("</g>\n</svg>\n", drawing->out);
}
