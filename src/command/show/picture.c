/* SPDX-License-Identifier: Apache-2.0 */
#include "command/show/picture.h"

#include "command/term.h"

#include <math.h>
#include <string.h>

#define SOFT   "#5c6878"
#define BED    "#cdd5df"
#define PANEL  "#f5f7fa"
#define BORDER "#cfd6df"
#define LIGHT  "#fff3ec"

enum {
	CLIP_BYTES = 160,
	HEAD_HEIGHT = 118,
	LANE_MAX = 24, /* thickness, of the fastest link */
	LANE_GAP = 3,
	LANE_ROOM = 5, /* between a lane and the words beside it */
	LEAST_WIDTH = 940,
	LEGEND_LINE = 26,
	SWATCH = 36,
	LOAD_HEIGHT = 13,
	ARROW_STEP = 28,
	LEAST_ARROW = 3, /* thickness of a lane that has arrows */
};

/* The thickest lane carries at least this, so that pictures of slower machines do not look faster. */
static const uint64_t THICKEST_BPS = 100000000000;

static const double CURVE_MIDDLE = 0.75; /* how near the middle of a cubic curve comes to its control points */

/* What a letter takes of its size, on average, in the fonts that a browser picks for sans-serif. */
static const double LETTER = 0.61;

static const char rate_style[] = "class=\"rate\" fill=\"" PICTURE_INK "\" font-weight=\"700\"";
static const char soft_style[] = "class=\"soft\" fill=\"" SOFT "\"";
static const char centred_rate[] = "class=\"rate\" fill=\"" PICTURE_INK "\" font-weight=\"700\" text-anchor=\"middle\"";
static const char centred_soft[] = "class=\"soft\" fill=\"" SOFT "\" text-anchor=\"middle\"";

/* ------------------------------------------------------------------------------------------------------------ words */

void picture_escape(const char *text, FILE *out)
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

void picture_text(const struct picture *picture, double x, double y, double size, const char *style, const char *text)
{
	if (!*text)
		return;
	fprintf(picture->out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\" %s>", x, y, size, style);
	picture_escape(text, picture->out);
	fputs("</text>\n", picture->out);
}

/* As much of text as fits, with an ellipsis where something is cut off. Never cuts a character of UTF-8 in two. */
static void put_clipped(const struct picture *picture, double x, double y, double size, double room, const char *style,
			const char *text)
{
	size_t most = room > 0 ? (size_t)(room / (size * LETTER)) : 0, keep = most > 1 ? most - 1 : 0;
	char clipped[CLIP_BYTES];

	if (term_width(text) <= most && strlen(text) < CLIP_BYTES) {
		picture_text(picture, x, y, size, style, text);
		return;
	}
	if (keep > CLIP_BYTES - 5)
		keep = CLIP_BYTES - 5;
	while (keep && (text[keep] & 0xC0) == 0x80)
		keep--;
	while (keep && text[keep - 1] == ' ')
		keep--;
	snprintf(clipped, sizeof(clipped), "%.*s%s", (int)keep, text, most ? "…" : "");
	picture_text(picture, x, y, size, style, clipped);
}

void picture_pill(const struct picture *picture, double x, double y, bool centred, const char *word)
{
	double width = 10 + (double)strlen(word) * 5.6;

	if (centred)
		x -= width / 2;
	fprintf(picture->out,
		"<g class=\"sign\"><rect class=\"pill\" x=\"%.1f\" y=\"%.1f\" width=\"%.0f\" height=\"16\" rx=\"8\" fill=\"" PICTURE_ALARM
		"\"/>\n",
		x, y, width);
	picture_text(picture, x + width / 2, y + 11.5, 10,
		     "class=\"pill-text\" fill=\"#fff\" font-weight=\"700\" text-anchor=\"middle\"", word);
	fputs("</g>\n", picture->out);
}

/* ------------------------------------------------------------------------------------------------------------ lanes */

double picture_thickness(const struct picture *picture, uint64_t rate_Bps)
{
	if (!rate_Bps)
		return 1.5;
	return 2 + (LANE_MAX - 2) * sqrt((double)rate_Bps / (double)picture->fastest_Bps);
}

double picture_bed(const struct picture *picture, uint32_t directed)
{
	return picture_thickness(picture, picture->view->lanes[directed].room_Bps);
}

/* From the middle of a link to that of its lane: up on the left, or above. */
static double middle_of(const struct picture *picture, uint32_t directed)
{
	double shift = (LANE_GAP + picture_bed(picture, directed)) / 2;

	return directed % 2 == TOPOLOGY_UP ? -shift : shift;
}

/* A link's line, moved aside: down where it is horizontal, else to the right. style: its attributes. */
static void put_path(const struct picture *picture, uint32_t link, double shift, const char *style)
{
	const struct layout_line *line = &picture->layout.lines[link];
	double dx = line->horizontal ? 0 : shift, dy = line->horizontal ? shift : 0;

	/* Arcs are shifted inwards and outwards, so that their lanes do not cross. */
	if (line->curved)
		fprintf(picture->out, "<path d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\" fill=\"none\" %s/>\n",
			line->x0 + dx, line->y0, line->x0 + dx, line->cy - shift / 3, line->x1 - dx,
			line->cy - shift / 3, line->x1 - dx, line->y1, style);
	else if (line->bracket)
		fprintf(picture->out, "<path d=\"M%.1f %.1fH%.1fV%.1fH%.1f\" fill=\"none\" %s/>\n", line->x0,
			line->y0 + (line->y0 < line->y1 ? -shift : shift), line->side_x + shift,
			line->y1 + (line->y0 < line->y1 ? shift : -shift), line->x1, style);
	else
		fprintf(picture->out, "<path d=\"M%.1f %.1fL%.1f %.1f\" fill=\"none\" %s/>\n", line->x0 + dx,
			line->y0 + dy, line->x1 + dx, line->y1 + dy, style);
}

static void put_stroke(const struct picture *picture, uint32_t link, double shift, const char *class,
		       const char *colour, double thickness)
{
	char style[160];

	snprintf(style, sizeof(style), "class=\"%s\" stroke=\"%s\" stroke-width=\"%.2f\"", class, colour, thickness);
	put_path(picture, link, shift, style);
}

static const char *flow_mark(int flow, char text[static 32])
{
	text[0] = '\0';
	if (flow >= 0)
		snprintf(text, 32, " data-flow=\"%d\"", flow);
	return text;
}

void picture_stripe(const struct picture *picture, uint32_t directed, const char *class, int flow, const char *colour,
		    double shift, double thickness)
{
	char style[200], mark[32];

	/* Nobody knows what it can carry. */
	snprintf(style, sizeof(style), "class=\"%s\"%s stroke=\"%s\" stroke-width=\"%.2f\"%s", class,
		 flow_mark(flow, mark), colour, thickness,
		 picture->view->lanes[directed].rate_Bps ? "" : " stroke-dasharray=\"5 3\"");
	put_path(picture, directed / 2, shift, style);
}

/* An arrow with its middle at (x, y): which way bytes go. */
static void put_arrow(const struct picture *picture, double x, double y, double size, double way, bool horizontal)
{
	double along = way * size / 2;

	if (horizontal)
		fprintf(picture->out, "<path class=\"arrow\" d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1f\"", x - along, y - size,
			2 * along, size, -2 * along, size);
	else
		fprintf(picture->out, "<path class=\"arrow\" d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1f\"", x - size, y - along,
			size, 2 * along, size, -2 * along);
	fputs(" fill=\"none\" stroke=\"#fff\" stroke-width=\"1.4\" stroke-linecap=\"round\" "
	      "stroke-linejoin=\"round\"/>\n",
	      picture->out);
}

/* Along a lane, every so often. */
static void put_arrows(const struct picture *picture, uint32_t directed, double shift, double thickness)
{
	const struct layout_line *line = &picture->layout.lines[directed / 2];
	bool across = line->horizontal || line->curved; /* between equals "up" is to the right */
	double size = fmin(thickness * 0.28, 4),
	       way = ((directed % 2 == TOPOLOGY_UP) != line->reversed) == across ? 1 : -1,
	       length = across ? fabs(line->x1 - line->x0) : fabs(line->y1 - line->y0);
	int count = line->curved ? 1 : (int)fmax(1, length / ARROW_STEP);

	if (thickness < LEAST_ARROW)
		return;
	for (int i = 0; i < count; i++) {
		double at = (i + 0.5) / count, x = line->x0 + at * (line->x1 - line->x0),
		       y = line->y0 + at * (line->y1 - line->y0);

		if (line->curved)
			y = line->y0 + (line->cy - shift / 3 - line->y0) * CURVE_MIDDLE;
		else if (line->horizontal)
			y += shift;
		else
			x = (line->bracket ? line->side_x : x) + shift;
		put_arrow(picture, x, y, size, way, across);
	}
}

static void put_lane(const struct picture *picture, uint32_t directed)
{
	double middle = middle_of(picture, directed);

	put_stroke(picture, directed / 2, middle, "bed", BED, picture_bed(picture, directed));
	put_arrows(picture, directed, middle, picture->content->put_lane(picture, directed, middle));
}

/* ------------------------------------------------------------------------------------------------------------ links */

/* Half of what both lanes and what is around them take. */
static double half_of(const struct picture *picture, uint32_t link)
{
	return fmax(picture_bed(picture, 2 * link), picture_bed(picture, 2 * link + 1)) + LANE_GAP;
}

static void put_link(const struct picture *picture, uint32_t link, const struct picture_words *words)
{
	const struct topology *topology = picture->view->topology;
	double both = 2 * half_of(picture, link) - LANE_GAP;

	fprintf(picture->out, "<g class=\"link\" data-link=\"%u\">\n<title>", link);
	picture_escape(topology->vertices[topology->links[link].lower].name, picture->out);
	fputs(" to ", picture->out);
	picture_escape(topology->vertices[topology->links[link].upper].name, picture->out);
	fputs(": ", picture->out);
	picture_escape(words->title, picture->out);
	fputs("</title>\n", picture->out);
	if (words->pill) {
		put_stroke(picture, link, 0, "halo", PICTURE_ALARM, both + 14);
		put_stroke(picture, link, 0, "halo-inner", LIGHT, both + 9);
	}
	put_lane(picture, 2 * link);
	put_lane(picture, 2 * link + 1);
	/* What the pointer can hit, wider than what is seen. */
	put_stroke(picture, link, 0, "hit\" stroke-opacity=\"0", "#000", both + 12);
	fputs("</g>\n", picture->out);
}

/* Above and below a link between sockets, below an arc. */
static void put_centred(const struct picture *picture, uint32_t link, const struct picture_words *words)
{
	const struct layout_line *line = &picture->layout.lines[link];
	const char *right = line->reversed ? words->down : words->up, *left = line->reversed ? words->up : words->down;
	double half = half_of(picture, link) + (words->pill ? 7 : 0), below = line->label_y + half;
	char text[64];

	if (!strcmp(left, right))
		snprintf(text, sizeof(text), "%s", left);
	else
		snprintf(text, sizeof(text), "%s%s%s%s%s", *right ? "→ " : "", right, *right && *left ? "  " : "",
			 *left ? "← " : "", left);
	picture_text(picture, line->label_x, line->horizontal ? line->label_y - half - 5 : below + 11, 12, centred_rate,
		     text);
	below += line->horizontal ? 0 : 12;
	picture_text(picture, line->label_x, below + 12, 10, centred_soft, words->what);
	if (words->pill)
		picture_pill(picture, line->label_x, below + (*words->what ? 17 : 4), true, words->pill);
}

/* Beside a straight link: its rates one above the other, what it is, what is wrong with it. */
static void put_beside(const struct picture *picture, uint32_t link, const struct picture_words *words)
{
	const struct layout_line *line = &picture->layout.lines[link];
	bool same = !strcmp(words->up, words->down);
	const char *first = line->reversed ? "↓" : "↑", *second = line->reversed ? "↑" : "↓";
	double x = line->label_x + picture_bed(picture, 2 * link + 1) + LANE_GAP / 2.0 + LANE_ROOM;
	int lines = (*words->up != 0) + (*words->down && !same) + (*words->what != 0) + (*words->alarm != 0) +
		    (words->pill != NULL);
	double y = line->label_y - lines * 7 + 9;
	char text[40];

	x += words->pill ? 6 : 0;
	if (*words->up) {
		snprintf(text, sizeof(text), "%s%s%s", same ? "" : first, same ? "" : " ", words->up);
		picture_text(picture, x, y, 12.5, rate_style, text);
		y += 14;
	}
	if (*words->down && !same) {
		snprintf(text, sizeof(text), "%s %s", second, words->down);
		picture_text(picture, x, y, 12.5, rate_style, text);
		y += 14;
	}
	picture_text(picture, x, y - 1, 10, soft_style, words->what);
	y += *words->what ? 13 : 0;
	picture_text(picture, x, y - 1, 10, "class=\"alarm\" fill=\"" PICTURE_ALARM "\" font-weight=\"700\"",
		     words->alarm);
	y += *words->alarm ? 13 : 0;
	if (words->pill)
		picture_pill(picture, x, y - 9, false, words->pill);
}

/* ------------------------------------------------------------------------------------------------------------ boxes */

struct look {
	const char *name, *fill, *border, *text, *soft;
};

static const struct look looks[TOPOLOGY_KIND_COUNT] = {
	[TOPOLOGY_GPU] = { "gpu", "#e5f4ee", "#2d7d63", PICTURE_INK, SOFT },
	[TOPOLOGY_NIC] = { "nic", "#f1e8f7", "#7d4c9e", PICTURE_INK, SOFT },
	[TOPOLOGY_SWITCH] = { "switch", "#4a5768", "#4a5768", "#ffffff", "#d3dae3" },
	[TOPOLOGY_BRIDGE] = { "bridge", "#5f6c7d", "#5f6c7d", "#ffffff", "#eef1f5" },
	[TOPOLOGY_CPU] = { "cpu", PICTURE_INK, PICTURE_INK, "#ffffff", "#c3ccd8" },
	[TOPOLOGY_MEMORY] = { "memory", "#f4f0e2", "#a3926a", PICTURE_INK, SOFT },
	[TOPOLOGY_NVSWITCH] = { "nvswitch", "#2d7d63", "#2d7d63", "#ffffff", "#d6ece3" },
	[TOPOLOGY_NETWORK] = { "network", "#7d4c9e", "#7d4c9e", "#ffffff", "#ecdff4" },
	[TOPOLOGY_HOST] = { "host", "#e6eaf0", "#4a5768", PICTURE_INK, SOFT },
};

static void put_device_text(const struct picture *picture, const struct topology_vertex *vertex,
			    const struct layout_box *box)
{
	const struct look *look = &looks[vertex->kind];
	char style[160], model[TOPOLOGY_TEXT_BYTES], more[64];
	double x = box->x + 10, room = box->width - 16;

	view_model(vertex, model, sizeof(model));
	view_more(vertex, more, sizeof(more));
	snprintf(style, sizeof(style), "class=\"name\" fill=\"%s\" font-weight=\"700\"", look->text);
	put_clipped(picture, x, box->y + 20, (double)strlen(vertex->name) * 13 * LETTER > room ? 11 : 13, room, style,
		    vertex->name);
	snprintf(style, sizeof(style), "class=\"soft\" fill=\"%s\"", look->soft);
	put_clipped(picture, x, box->y + 36, 10, room, style, model);
	picture_text(picture, x, box->y + 50, 10, style, more);
	picture_text(picture, x, box->y + 64, 9.5, style, vertex->bus_id);
}

/* A high bar has two lines; a low one what fits beside its name. */
static void put_bar_text(const struct picture *picture, const struct topology_vertex *vertex,
			 const struct layout_box *box, const char *words)
{
	const struct look *look = &looks[vertex->kind];
	bool high = box->height > 30, two = high && *words;
	double room = box->width - 12, size = high ? 13 : 11, x = box->x + box->width / 2,
	       y = box->y + box->height / 2 + (two ? -2 : size * 0.36);
	const char *name = vertex->name;
	char style[160], both[TOPOLOGY_NAME_BYTES + TOPOLOGY_TEXT_BYTES + 90];

	snprintf(both, sizeof(both), "%s  %s", name, words);
	/* A narrow bar says its place alone: what it is shows. */
	if ((double)strlen(name) * size * LETTER > room && vertex->bus_id[0])
		name = vertex->bus_id;
	else if (!two && *words && (double)strlen(both) * size * LETTER < room)
		name = both;
	snprintf(style, sizeof(style), "class=\"name\" fill=\"%s\" font-weight=\"700\" text-anchor=\"middle\"",
		 look->text);
	put_clipped(picture, x, y, size, room, style, name);
	snprintf(style, sizeof(style), "class=\"soft\" fill=\"%s\" text-anchor=\"middle\"", look->soft);
	if (two)
		put_clipped(picture, x, y + 14, 10, room, style, words);
}

static void put_box(const struct picture *picture, uint32_t index)
{
	const struct topology_vertex *vertex = &picture->view->topology->vertices[index];
	const struct layout_box *box = &picture->layout.boxes[index];
	const struct look *look = &looks[vertex->kind];
	bool device = view_is_device(vertex);
	char words[TOPOLOGY_TEXT_BYTES + 80];

	if (box->width <= 0)
		return;
	view_vertex_words(vertex, words, sizeof(words));
	fprintf(picture->out, "<g class=\"vertex %s\" data-vertex=\"%u\">\n<title>", look->name, index);
	picture_escape(vertex->name, picture->out);
	fputs(*words ? ": " : "", picture->out);
	picture_escape(words, picture->out);
	fprintf(picture->out,
		"</title>\n<rect class=\"box\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%d\" "
		"fill=\"%s\" stroke=\"%s\" stroke-width=\"1.5\"/>\n",
		box->x, box->y, box->width, box->height, device ? 8 : 6, look->fill, look->border);
	if (device)
		put_device_text(picture, vertex, box);
	else
		put_bar_text(picture, vertex, box, words);
	fputs("</g>\n", picture->out);
}

static void put_panels(const struct picture *picture)
{
	for (size_t i = 0; i < picture->view->topology->vertex_count; i++) {
		const struct layout_box *panel = &picture->layout.panels[i];

		if (panel->width > 0)
			fprintf(picture->out,
				"<rect class=\"panel\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"14\" "
				"fill=\"" PANEL "\" stroke=\"" BORDER "\"/>\n",
				panel->x, panel->y, panel->width, panel->height);
	}
}

/* -------------------------------------------------------------------------------------------------- head and legend */

static void put_head(const struct picture *picture)
{
	const struct picture_content *content = picture->content;
	const char *name = picture->view->topology->name;
	double room = picture->width - 2 * LAYOUT_MARGIN;

	fputs("<g class=\"head\">\n", picture->out);
	put_clipped(picture, LAYOUT_MARGIN, 50, 26, room, rate_style, *name ? name : "Machine");
	put_clipped(picture, LAYOUT_MARGIN, 75, 13.5, room, rate_style, content->headline);
	put_clipped(picture, LAYOUT_MARGIN, 97, 13, room, soft_style, content->note);
	fputs("</g>\n", picture->out);
}

static void put_sample(const struct picture *picture, const char *class, const char *colour, double y, double thickness)
{
	fprintf(picture->out,
		"<path class=\"%s\" d=\"M%.1f %.1fh%d\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\"/>", class,
		picture->legend_x, y, SWATCH, colour, thickness);
}

/* level: the height that is filled of a bed, from below; 0: there is no bed. */
static void put_item(struct picture *picture, const char *class, int flow, const char *colour, double thickness,
		     double level, const char *words)
{
	double swatch = class ? SWATCH + 8 : 0, width = swatch + (double)term_width(words) * 12 * LETTER + 24;
	char mark[32];

	if (picture->legend_x > LAYOUT_MARGIN && picture->legend_x + width > picture->width) {
		picture->legend_x = LAYOUT_MARGIN;
		picture->legend_y += LEGEND_LINE;
	}
	if (!picture->measuring) {
		fprintf(picture->out, "<g class=\"item\"%s>", flow_mark(flow, mark));
		if (level > 0)
			put_sample(picture, "bed", BED, picture->legend_y, thickness);
		if (class)
			put_sample(picture, class, colour,
				   picture->legend_y + (level > 0 ? (thickness - level) / 2 : 0),
				   level > 0 ? level : thickness);
		picture_text(picture, picture->legend_x + swatch, picture->legend_y + 4, 12,
			     class ? "class=\"rate\" fill=\"" PICTURE_INK "\"" : soft_style, words);
		fputs("</g>\n", picture->out);
	}
	picture->legend_x += width;
}

void picture_legend(struct picture *picture, const char *class, int flow, const char *colour, double thickness,
		    const char *words)
{
	put_item(picture, class, flow, colour, thickness, 0, words);
}

void picture_legend_load(struct picture *picture, const char *class, const char *colour, double share,
			 const char *words)
{
	put_item(picture, class, -1, colour, LOAD_HEIGHT, LOAD_HEIGHT * share, words);
}

static void put_legend(struct picture *picture, double y, bool measuring)
{
	picture->legend_x = LAYOUT_MARGIN;
	picture->legend_y = y;
	picture->measuring = measuring;
	picture->content->put_legend(picture);
}

/* ------------------------------------------------------------------------------------------------------------ whole */

static void put_scene(const struct picture *picture)
{
	const struct picture_content *content = picture->content;
	size_t links = picture->view->topology->link_count;
	struct picture_words words;

	fprintf(picture->out, "<g class=\"scene\">\n");
	put_panels(picture);
	for (uint32_t i = 0; i < links; i++) {
		words = (struct picture_words){ .pill = NULL };
		content->words(content->arg, i, &words);
		put_link(picture, i, &words);
	}
	for (uint32_t i = 0; i < picture->view->topology->vertex_count; i++)
		put_box(picture, i);
	fputs("<g class=\"labels\" pointer-events=\"none\">\n", picture->out);
	for (uint32_t i = 0; i < links; i++) {
		words = (struct picture_words){ .pill = NULL };
		content->words(content->arg, i, &words);
		if (!picture->layout.lines[i].labelled || (!*words.up && !*words.down && !*words.what && !words.pill))
			continue;
		if (picture->layout.lines[i].label_centred)
			put_centred(picture, i, &words);
		else
			put_beside(picture, i, &words);
	}
	if (content->put_marks)
		content->put_marks(picture);
	fputs("</g>\n", picture->out);
	if (content->put_below)
		content->put_below(picture, picture->layout.drawing.y + picture->layout.drawing.height);
	fputs("</g>\n", picture->out);
}

int picture_print(const struct picture_content *content, FILE *out)
{
	const struct view *view = content->view;
	struct picture picture = { .content = content, .view = view, .out = out, .fastest_Bps = THICKEST_BPS };
	const struct layout_box *drawing = &picture.layout.drawing;
	int r = layout_make(view, HEAD_HEIGHT, &picture.layout);
	double below, drawn;

	if (r < 0)
		return r;
	for (size_t i = 0; i < 2 * view->topology->link_count; i++)
		if (view->lanes[i].room_Bps > picture.fastest_Bps)
			picture.fastest_Bps = view->lanes[i].room_Bps;
	picture.width = fmax(drawing->width + 2 * LAYOUT_MARGIN, LEAST_WIDTH);
	drawn = drawing->height + (content->put_below ? content->below_height : 0);
	below = drawing->y + drawn + LEGEND_LINE + 4;
	put_legend(&picture, below, true);
	picture.height = picture.legend_y + LEGEND_LINE;
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
		"data-scene=\"%.0f %.0f %.0f %.0f\" font-family=\"Inter, 'Segoe UI', 'Helvetica Neue', Helvetica, "
		"Arial, 'DejaVu Sans', sans-serif\">\n"
		"<rect class=\"paper\" width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
		picture.width, picture.height, picture.width, picture.height, drawing->x - LAYOUT_MARGIN / 2.0,
		drawing->y - LAYOUT_MARGIN / 2.0, drawing->width + LAYOUT_MARGIN, drawn + LAYOUT_MARGIN);
	put_head(&picture);
	put_scene(&picture);
	fputs("<g class=\"legend\">\n", out);
	put_legend(&picture, below, false);
	fputs("</g>\n</svg>\n", out);
	layout_free(&picture.layout);
	return 0;
}
