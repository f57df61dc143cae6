/*
 * The machine as a drawing. A link is two lanes, up and down; each is a bed, as wide as what the slot could carry,
 * with a stream in it, as wide as what it does carry and in the colour of measured over nominal. Everything has its
 * looks as attributes, which every program understands; a page overrides them by class.
 */
#include "command/show/layout.h"
#include "command/show/pictures.h"

#include <math.h>
#include <string.h>

#define INK    "#1b2430"
#define SOFT   "#5c6878"
#define BED    "#cdd5df"
#define PANEL  "#f5f7fa"
#define BORDER "#cfd6df"
#define ALARM  "#c43c00"
#define LIGHT  "#fff3ec"

enum { TITLE_BYTES = 600, HEAD_HEIGHT = 118, LEGEND_HEIGHT = 96, LEAST_WIDTH = 940, CLIP_BYTES = 160, LANE_ROOM = 5 };

/* What a letter takes of its size, on average, in the fonts that a browser picks for sans-serif. */
static const double LETTER = 0.61;
/* The thickest lane carries at least this, so that pictures of slower machines do not look faster. */
static const uint64_t THICKEST_BPS = UINT64_C(100000000000);

struct svg {
	const struct view *view;
	struct layout layout;
	FILE *out;
	uint64_t fastest_Bps;
	double width, height;
};

void xml_escape(const char *text, FILE *out)
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
static void clip(const char *text, double width, double size, char ret[static CLIP_BYTES])
{
	size_t most = width > 0 ? (size_t)(width / (size * LETTER)) : 0, bytes = strlen(text), keep;

	if (term_width(text) <= most && bytes < CLIP_BYTES) {
		snprintf(ret, CLIP_BYTES, "%s", text);
		return;
	}
	keep = most > 1 ? most - 1 : 0;
	if (keep > CLIP_BYTES - 5)
		keep = CLIP_BYTES - 5;
	while (keep && (text[keep] & 0xC0) == 0x80)
		keep--;
	while (keep && text[keep - 1] == ' ')
		keep--;
	snprintf(ret, CLIP_BYTES, "%.*s%s", (int)keep, text, most ? "…" : "");
}

static void put_text(const struct svg *svg, double x, double y, double size, const char *style, const char *text)
{
	fprintf(svg->out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\" %s>", x, y, size, style);
	xml_escape(text, svg->out);
	fputs("</text>\n", svg->out);
}

/* ----------------------------------------------------------------------------------------------------------- links */

static void put_path(const struct svg *svg, const struct layout_line *line, double shift, const char *style)
{
	double dx = line->horizontal ? 0 : shift, dy = line->horizontal ? shift : 0;

	/* Arcs are shifted inwards and outwards, so that their lanes do not cross. */
	if (line->curved && line->cy0 == line->cy1)
		fprintf(svg->out, "<path d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\" %s/>\n", line->x0 + dx,
			line->y0, line->cx0 + dx, line->cy0 - shift / 3, line->cx1 - dx, line->cy1 - shift / 3,
			line->x1 - dx, line->y1, style);
	else
		fprintf(svg->out, "<path d=\"M%.1f %.1fL%.1f %.1f\" %s/>\n", line->x0 + dx, line->y0 + dy,
			line->x1 + dx, line->y1 + dy, style);
}

/* Small arrows in the lanes of straight links: which way its bytes go. */
static void put_arrow(const struct svg *svg, const struct layout_line *line, double shift, double thickness, bool up)
{
	double x = line->horizontal ? (line->x0 + line->x1) / 2 : line->x0 + shift, size = fmin(thickness * 0.28, 4);
	double y = line->horizontal ? line->y0 + shift : line->label_y, way = up != line->reversed ? -1 : 1;
	double ahead = -way; /* between equals "up" is to the right */

	if (line->curved || thickness < 5)
		return;
	if (line->horizontal) {
		fprintf(svg->out,
			"<path class=\"arrow\" d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1f\" fill=\"none\" stroke=\"#fff\" "
			"stroke-width=\"1.4\" stroke-linecap=\"round\" stroke-linejoin=\"round\"/>\n",
			x - ahead * size / 2, y - size, ahead * size, size, -ahead * size, size);
		return;
	}
	fprintf(svg->out,
		"<path class=\"arrow\" d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1f\" fill=\"none\" stroke=\"#fff\" "
		"stroke-width=\"1.4\" stroke-linecap=\"round\" stroke-linejoin=\"round\"/>\n",
		x - size, y - way * size / 2, size, way * size, size, -way * size);
}

static double bed_of(const struct svg *svg, uint32_t directed)
{
	return layout_thickness(svg->view->lanes[directed].room_Bps, svg->fastest_Bps);
}

/* From the middle of a link to that of its lane: up on the left, or above. */
static double shift_of(const struct svg *svg, uint32_t directed)
{
	double shift = (LAYOUT_LANE_GAP + bed_of(svg, directed)) / 2;

	return directed % 2 == TOPOLOGY_UP ? -shift : shift;
}

static void put_lane(const struct svg *svg, uint32_t directed)
{
	const struct view_lane *lane = &svg->view->lanes[directed];
	const struct layout_line *line = &svg->layout.lines[directed / 2];
	double bed = bed_of(svg, directed), stream = layout_thickness(lane->rate_Bps, svg->fastest_Bps);
	double shift = shift_of(svg, directed);
	char style[240];

	snprintf(style, sizeof(style), "class=\"bed\" fill=\"none\" stroke=\"" BED "\" stroke-width=\"%.1f\"", bed);
	put_path(svg, line, shift, style);
	snprintf(style, sizeof(style), "class=\"stream band-%d\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\"%s",
		 (int)lane->band, view_band_colour(lane->band), stream,
		 lane->rate_Bps ? "" : " stroke-dasharray=\"5 3\"");
	put_path(svg, line, shift, style);
	put_arrow(svg, line, shift, stream, directed % 2 == TOPOLOGY_UP);
}

/* "12.1", or both directions where they differ. */
static void rate_words(const struct svg *svg, uint32_t link, char *text, size_t text_bytes)
{
	const struct topology_capacity *capacity = svg->view->topology->links[link].capacity;
	const struct layout_line *line = &svg->layout.lines[link];
	char up[24], down[24];

	view_rate_of(&capacity[TOPOLOGY_UP], true, up, sizeof(up));
	view_rate_of(&capacity[TOPOLOGY_DOWN], true, down, sizeof(down));
	if (!strcmp(up, down))
		snprintf(text, text_bytes, "%s", strcmp(up, "?") != 0 ? up : "");
	else if (svg->layout.lines[link].label_centred)
		snprintf(text, text_bytes, "→ %s  ← %s", line->reversed ? down : up, line->reversed ? up : down);
	else if (line->reversed)
		snprintf(text, text_bytes, "↑ %s  ↓ %s", down, up);
	else
		snprintf(text, text_bytes, "↑ %s  ↓ %s", up, down);
}

static void put_pill(const struct svg *svg, double x, double y, bool centred)
{
	const double width = 66, height = 16;

	if (centred)
		x -= width / 2;
	fprintf(svg->out,
		"<rect class=\"pill\" x=\"%.1f\" y=\"%.1f\" width=\"%.0f\" height=\"%.0f\" rx=\"8\" fill=\"" ALARM
		"\"/>\n",
		x, y, width, height);
	put_text(svg, x + width / 2, y + 11.5, 10,
		 "class=\"pill-text\" fill=\"#fff\" font-weight=\"700\" text-anchor=\"middle\"", "bottleneck");
}

/* Above and below a link between sockets, below an arc. */
static void put_centred_labels(const struct svg *svg, uint32_t link, const char *rates, const char *words)
{
	const struct layout_line *line = &svg->layout.lines[link];
	const struct view_lane *lanes = &svg->view->lanes[2 * link];
	double half = fmax(bed_of(svg, 2 * link), bed_of(svg, 2 * link + 1)) + LAYOUT_LANE_GAP, y = line->label_y;
	bool halo = lanes[0].bottleneck || lanes[1].bottleneck;

	half += halo ? 7 : 0;
	put_text(svg, line->label_x, line->horizontal ? y - half - 5 : y + half + 11, 12,
		 "class=\"rate\" fill=\"" INK "\" font-weight=\"700\" text-anchor=\"middle\"", rates);
	put_text(svg, line->label_x, line->horizontal ? y + half + 12 : y + half + 24, 10,
		 "class=\"soft\" fill=\"" SOFT "\" text-anchor=\"middle\"", words);
	if (halo)
		put_pill(svg, line->label_x, line->horizontal ? y + half + 17 : y + half + 29, true);
}

/* Beside a straight link: its rates one above the other, what it is, what is wrong with it. */
static void put_labels(const struct svg *svg, uint32_t link)
{
	const struct topology_link *at = &svg->view->topology->links[link];
	const struct layout_line *line = &svg->layout.lines[link];
	const struct view_lane *lanes = &svg->view->lanes[2 * link];
	bool bottleneck = lanes[0].bottleneck || lanes[1].bottleneck;
	double x = line->label_x, y, side = bed_of(svg, 2 * link + 1) + LAYOUT_LANE_GAP / 2.0 + LANE_ROOM;
	char rates[64], words[32], degraded[80], *second;
	int lines;

	side += bottleneck ? 6 : 0;
	rate_words(svg, link, rates, sizeof(rates));
	view_link_words(svg->view->topology, at, words, sizeof(words));
	view_degraded(svg->view->topology, at, degraded, sizeof(degraded));
	if (line->label_centred) {
		put_centred_labels(svg, link, rates, words);
		return;
	}
	if (!rates[0] && at->kind == TOPOLOGY_LINK_INTERNAL)
		return;
	second = strstr(rates, "  ↓");
	lines = 2 + (second != NULL) + (degraded[0] != '\0') + bottleneck;
	y = line->label_y - lines * 7 + 9;
	x += side;
	if (second)
		*second = '\0';
	put_text(svg, x, y, 12.5, "class=\"rate\" fill=\"" INK "\" font-weight=\"700\"", rates);
	if (second)
		put_text(svg, x, y += 14, 12.5, "class=\"rate\" fill=\"" INK "\" font-weight=\"700\"", second + 2);
	put_text(svg, x, y += 13, 10, "class=\"soft\" fill=\"" SOFT "\"", words);
	if (degraded[0])
		put_text(svg, x, y += 13, 10, "class=\"alarm\" fill=\"" ALARM "\" font-weight=\"700\"", degraded);
	if (bottleneck)
		put_pill(svg, x, y + 5, false);
}

static void link_title(const struct svg *svg, uint32_t index, char *text, size_t text_bytes)
{
	const struct topology *topology = svg->view->topology;
	const struct topology_link *link = &topology->links[index];
	char up[24], down[24], nominal[24], words[32], degraded[80];

	view_rate_of(&link->capacity[TOPOLOGY_UP], true, up, sizeof(up));
	view_rate_of(&link->capacity[TOPOLOGY_DOWN], true, down, sizeof(down));
	view_rate(link->nominal_Bps, nominal, sizeof(nominal));
	view_link_words(topology, link, words, sizeof(words));
	view_degraded(topology, link, degraded, sizeof(degraded));
	snprintf(text, text_bytes, "%s to %s: %s%s%s; up %s, down %s, nominal %s GB/s",
		 topology->vertices[link->lower].name, topology->vertices[link->upper].name, words,
		 *degraded ? ", trained at " : "", degraded, up, down, nominal);
}

/* Around both lanes: an edge in the colour of alarm, and light inside. */
static void put_halo(const struct svg *svg, uint32_t link)
{
	double both = 2 * (LAYOUT_LANE_GAP / 2.0 + fmax(bed_of(svg, 2 * link), bed_of(svg, 2 * link + 1)));
	char style[160];

	snprintf(style, sizeof(style), "class=\"halo\" fill=\"none\" stroke=\"" ALARM "\" stroke-width=\"%.1f\"",
		 both + 14);
	put_path(svg, &svg->layout.lines[link], 0, style);
	snprintf(style, sizeof(style), "class=\"halo-inner\" fill=\"none\" stroke=\"" LIGHT "\" stroke-width=\"%.1f\"",
		 both + 9);
	put_path(svg, &svg->layout.lines[link], 0, style);
}

static void put_link(const struct svg *svg, uint32_t index)
{
	const struct layout_line *line = &svg->layout.lines[index];
	char title[TITLE_BYTES], style[160];

	fprintf(svg->out, "<g class=\"link\" id=\"link-%u\" data-link=\"%u\">\n<title>", index, index);
	link_title(svg, index, title, sizeof(title));
	xml_escape(title, svg->out);
	fputs("</title>\n", svg->out);
	if (svg->view->lanes[2 * index].bottleneck || svg->view->lanes[2 * index + 1].bottleneck)
		put_halo(svg, index);
	put_lane(svg, 2 * index);
	put_lane(svg, 2 * index + 1);
	/* What the pointer can hit, wider than what is seen. */
	snprintf(style, sizeof(style),
		 "class=\"hit\" fill=\"none\" stroke=\"#000\" stroke-opacity=\"0\" stroke-width=\"%.1f\"",
		 bed_of(svg, 2 * index) + bed_of(svg, 2 * index + 1) + 12);
	put_path(svg, line, 0, style);
	fputs("</g>\n", svg->out);
}

/* ----------------------------------------------------------------------------------------------------------- boxes */

struct look {
	const char *name, *fill, *border, *text, *soft;
};

static const struct look looks[TOPOLOGY_KIND_COUNT] = {
	[TOPOLOGY_GPU] = { "gpu", "#e5f4ee", "#2d7d63", INK, SOFT },
	[TOPOLOGY_NIC] = { "nic", "#f1e8f7", "#7d4c9e", INK, SOFT },
	[TOPOLOGY_SWITCH] = { "switch", "#4a5768", "#4a5768", "#ffffff", "#d3dae3" },
	[TOPOLOGY_BRIDGE] = { "bridge", "#8592a3", "#8592a3", "#ffffff", "#eef1f5" },
	[TOPOLOGY_CPU] = { "cpu", INK, INK, "#ffffff", "#c3ccd8" },
	[TOPOLOGY_MEMORY] = { "memory", "#f4f0e2", "#a3926a", INK, SOFT },
	[TOPOLOGY_NVSWITCH] = { "nvswitch", "#2d7d63", "#2d7d63", "#ffffff", "#d6ece3" },
	[TOPOLOGY_NETWORK] = { "network", "#7d4c9e", "#7d4c9e", "#ffffff", "#ecdff4" },
	[TOPOLOGY_HOST] = { "host", "#e6eaf0", "#4a5768", INK, SOFT },
};

static void put_device_text(const struct svg *svg, const struct topology_vertex *vertex, const struct layout_box *box)
{
	const struct look *look = &looks[vertex->kind];
	char text[CLIP_BYTES], style[160], model[TOPOLOGY_TEXT_BYTES], more[64];
	double room = box->width - 16, size = (double)strlen(vertex->name) * 13 * LETTER > room ? 11 : 13;

	view_model(vertex, model, sizeof(model));
	view_more(vertex, more, sizeof(more));
	snprintf(style, sizeof(style), "class=\"name\" fill=\"%s\" font-weight=\"700\"", look->text);
	clip(vertex->name, room, size, text);
	put_text(svg, box->x + 10, box->y + 20, size, style, text);
	snprintf(style, sizeof(style), "class=\"soft\" fill=\"%s\"", look->soft);
	clip(model, room, 10, text);
	put_text(svg, box->x + 10, box->y + 36, 10, style, text);
	put_text(svg, box->x + 10, box->y + 50, 10, style, more);
	put_text(svg, box->x + 10, box->y + 64, 9.5, style, vertex->bus_id);
}

static void put_bar_text(const struct svg *svg, const struct topology_vertex *vertex, const struct layout_box *box,
			 const char *words)
{
	const struct look *look = &looks[vertex->kind];
	double room = box->width - 12, both;
	char text[CLIP_BYTES], style[200];
	const char *name = vertex->name;
	bool two_lines = box->height > 30;
	double size = two_lines ? 13 : 11;

	/* A narrow bar says its place alone: what it is shows. */
	if ((double)strlen(name) * size * LETTER > room && vertex->bus_id[0])
		name = vertex->bus_id;
	snprintf(style, sizeof(style), "class=\"name\" fill=\"%s\" font-weight=\"700\" text-anchor=\"middle\"",
		 look->text);
	clip(name, room, size, text);
	both = (double)(strlen(name) + strlen(words) + 3) * size * LETTER;
	if (!two_lines || !*words || both < room) {
		fprintf(svg->out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\" %s>", box->x + box->width / 2,
			box->y + box->height / 2 + size * 0.36, size, style);
		xml_escape(text, svg->out);
		if (*words && both < room) {
			fprintf(svg->out, "<tspan class=\"soft\" font-weight=\"400\" fill=\"%s\" dx=\"8\">",
				look->soft);
			xml_escape(words, svg->out);
			fputs("</tspan>", svg->out);
		}
		fputs("</text>\n", svg->out);
		return;
	}
	put_text(svg, box->x + box->width / 2, box->y + box->height / 2 - 2, size, style, text);
	snprintf(style, sizeof(style), "class=\"soft\" fill=\"%s\" text-anchor=\"middle\"", look->soft);
	clip(words, room, 10, text);
	put_text(svg, box->x + box->width / 2, box->y + box->height / 2 + 12, 10, style, text);
}

static void put_box(const struct svg *svg, uint32_t index)
{
	const struct topology_vertex *vertex = &svg->view->topology->vertices[index];
	const struct layout_box *box = &svg->layout.boxes[index];
	const struct look *look = &looks[vertex->kind];
	bool device = view_is_device(vertex) || vertex->kind == TOPOLOGY_HOST;
	char words[TOPOLOGY_TEXT_BYTES + 80];

	if (box->width <= 0)
		return;
	view_vertex_words(vertex, words, sizeof(words));
	fprintf(svg->out, "<g class=\"vertex %s\" id=\"vertex-%u\" data-vertex=\"%u\">\n<title>", look->name, index,
		index);
	xml_escape(vertex->name, svg->out);
	if (*words) {
		fputs(": ", svg->out);
		xml_escape(words, svg->out);
	}
	fprintf(svg->out,
		"</title>\n<rect class=\"box\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%d\" "
		"fill=\"%s\" "
		"stroke=\"%s\" stroke-width=\"1.5\"/>\n",
		box->x, box->y, box->width, box->height, device ? 8 : 6, look->fill, look->border);
	if (device)
		put_device_text(svg, vertex, box);
	else
		put_bar_text(svg, vertex, box, words);
	fputs("</g>\n", svg->out);
}

static void put_panels(const struct svg *svg)
{
	for (size_t i = 0; i < svg->view->topology->vertex_count; i++) {
		const struct layout_box *panel = &svg->layout.panels[i];

		if (panel->width > 0)
			fprintf(svg->out,
				"<rect class=\"panel\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"14\" "
				"fill=\"" PANEL "\" stroke=\"" BORDER "\"/>\n",
				panel->x, panel->y, panel->width, panel->height);
	}
}

/* ------------------------------------------------------------------------------------------------- head and legend */

static void put_head(const struct svg *svg)
{
	const struct topology *topology = svg->view->topology;
	char census[160], date[24], text[TITLE_BYTES], clipped[CLIP_BYTES];
	double room = svg->width - 2 * LAYOUT_MARGIN;

	clip(topology->name[0] ? topology->name : "Machine", room, 26, clipped);
	put_text(svg, LAYOUT_MARGIN, 50, 26, "class=\"title\" fill=\"" INK "\" font-weight=\"700\"", clipped);
	view_census(topology, census, sizeof(census));
	view_date(svg->view->date_s, date, sizeof(date));
	if (svg->view->measured_links)
		snprintf(text, sizeof(text), "%s  ·  %zu of %zu links measured%s%s  ·  GB/s", census,
			 svg->view->measured_links, topology->link_count, *date ? ", " : "", date);
	else
		snprintf(text, sizeof(text), "%s  ·  nothing measured, rates are nominal  ·  GB/s", census);
	clip(text, room, 13, clipped);
	put_text(svg, LAYOUT_MARGIN, 73, 13, "class=\"soft\" fill=\"" SOFT "\"", clipped);
	view_bottleneck(svg->view, true, text, sizeof(text));
	clip(text, room, 13.5, clipped);
	put_text(svg, LAYOUT_MARGIN, 97, 13.5, "class=\"headline\" fill=\"" INK "\" font-weight=\"600\"", clipped);
}

static double put_swatches(const struct svg *svg, double x, double y)
{
	put_text(svg, x, y - 10, 11, "class=\"soft\" fill=\"" SOFT "\" font-weight=\"600\"", "measured over nominal");
	for (int band = 0; band < VIEW_BAND_COUNT; band++) {
		enum view_band at = (enum view_band)band;

		fprintf(svg->out,
			"<path class=\"stream band-%d\" d=\"M%.1f %.1fh36\" fill=\"none\" stroke=\"%s\" "
			"stroke-width=\"9\"/>\n",
			band, x, y + 7, view_band_colour(at));
		put_text(svg, x, y + 32, 10.5, "class=\"legend\" fill=\"" INK "\"", view_band_words(at));
		x += 84;
	}
	return x;
}

/* Round rates up to the fastest link's, with the thickness that they have here. */
static double put_thicknesses(const struct svg *svg, double x, double y)
{
	static const double parts[] = { 0.05, 0.25, 1 };
	double last = 0, least = x + 200;
	char text[32];

	put_text(svg, x, y - 10, 11, "class=\"soft\" fill=\"" SOFT "\" font-weight=\"600\"",
		 "thickness: GB/s, each direction");
	for (size_t i = 0; i < 3; i++) {
		double GBps = (double)svg->fastest_Bps / 1e9 * parts[i],
		       unit = pow(10, floor(log10(GBps > 0 ? GBps : 1)));

		GBps = floor(GBps / unit) * unit;
		if (GBps <= last)
			continue;
		last = GBps;
		fprintf(svg->out,
			"<path class=\"sample\" d=\"M%.1f %.1fh36\" fill=\"none\" stroke=\"" SOFT
			"\" stroke-width=\"%.1f\"/>\n",
			x, y + 7, layout_thickness((uint64_t)(GBps * 1e9), svg->fastest_Bps));
		snprintf(text, sizeof(text), "%g", GBps);
		put_text(svg, x, y + 32, 10.5, "class=\"legend\" fill=\"" INK "\"", text);
		x += 54;
	}
	return fmax(x + 24, least);
}

static void put_legend(const struct svg *svg)
{
	double y = svg->height - LEGEND_HEIGHT + 34, x = put_swatches(svg, LAYOUT_MARGIN, y) + 14;

	x = put_thicknesses(svg, x, y);
	put_text(svg, x, y - 10, 11, "class=\"soft\" fill=\"" SOFT "\" font-weight=\"600\"", "figures");
	put_text(svg, x, y + 9, 10.5, "class=\"legend\" fill=\"" INK "\"", "(12) nominal   ~12 assumed");
	put_text(svg, x, y + 32, 10.5, "class=\"legend\" fill=\"" INK "\"", "≥12 at least   ↑ to the CPU");
}

static void put_all(const struct svg *svg, bool inside)
{
	fprintf(svg->out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"machine\" viewBox=\"0 0 %.0f %.0f\"%s "
		"font-family=\"Inter, 'Segoe UI', 'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif\"",
		svg->width, svg->height, inside ? " role=\"img\" aria-label=\"The machine and its links\"" : "");
	if (!inside)
		fprintf(svg->out, " width=\"%.0f\" height=\"%.0f\"", svg->width, svg->height);
	fputs(">\n", svg->out);
	if (!inside)
		fputs("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n", svg->out);
	fputs("<g id=\"scene\">\n", svg->out);
	put_panels(svg);
	for (uint32_t i = 0; i < svg->view->topology->link_count; i++)
		put_link(svg, i);
	for (uint32_t i = 0; i < svg->view->topology->vertex_count; i++)
		put_box(svg, i);
	fputs("<g class=\"labels\" pointer-events=\"none\">\n", svg->out);
	for (uint32_t i = 0; i < svg->view->topology->link_count; i++) {
		if (svg->layout.lines[i].labelled)
			put_labels(svg, i);
	}
	fputs("</g>\n", svg->out);
	/* A page has its own. */
	if (!inside) {
		put_head(svg);
		put_legend(svg);
	}
	fputs("</g>\n</svg>\n", svg->out);
}

int svg_print(const struct view *view, bool inside, FILE *out)
{
	struct svg svg = { .view = view, .out = out, .fastest_Bps = THICKEST_BPS };
	int r = layout_make(view, inside ? LAYOUT_MARGIN / 2 : HEAD_HEIGHT, &svg.layout);

	if (r < 0)
		return r;
	for (size_t i = 0; i < 2 * view->topology->link_count; i++) {
		if (view->lanes[i].room_Bps > svg.fastest_Bps)
			svg.fastest_Bps = view->lanes[i].room_Bps;
	}
	svg.width = svg.layout.drawing.width + 2 * LAYOUT_MARGIN;
	if (svg.width < LEAST_WIDTH && !inside)
		svg.width = LEAST_WIDTH;
	svg.height = svg.layout.drawing.y + svg.layout.drawing.height + (inside ? LAYOUT_MARGIN / 2 : LEGEND_HEIGHT);
	put_all(&svg, inside);
	layout_free(&svg.layout);
	return 0;
}
