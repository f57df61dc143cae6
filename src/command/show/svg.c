/*
 * The machine as a drawing. A link is two lanes, up and down; each is a bed, as wide as what the slot could carry,
 * with a stream in it, as wide as what it does carry and in the colour of measured over nominal. Everything has its
 * looks as attributes, which every program understands; a page overrides them by class.
 */
#include "command/show/draw.h"

#include "command/print/units.h"

#include <math.h>
#include <string.h>

enum { TITLE_BYTES = 600, HEAD_HEIGHT = 118, LEGEND_HEIGHT = 96, SWATCH_WIDTH = 84, REST_WIDTH = 400 };

/* ----------------------------------------------------------------------------------------------------------- links */

static void put_lane(const struct drawing *drawing, uint32_t directed)
{
	const struct view_lane *lane = &drawing->view->lanes[directed];
	const struct layout_line *line = &drawing->layout.lines[directed / 2];
	double bed = draw_bed(drawing, directed), stream = layout_thickness(lane->rate_Bps, drawing->fastest_Bps);
	double shift = draw_shift(drawing, directed);
	char style[240];

	snprintf(style, sizeof(style), "class=\"bed\" fill=\"none\" stroke=\"" DRAW_BED "\" stroke-width=\"%.1f\"",
		 bed);
	draw_path(drawing, line, shift, style);
	snprintf(style, sizeof(style), "class=\"stream band-%d\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\"%s",
		 (int)lane->band, view_band_colour(lane->band), stream,
		 lane->rate_Bps ? "" : " stroke-dasharray=\"5 3\"");
	draw_path(drawing, line, shift, style);
	draw_arrow(drawing, line, shift, stream, directed % 2 == TOPOLOGY_UP);
}

/* "12.1", or both directions where they differ. */
static void rate_words(const struct drawing *drawing, uint32_t link, char *text, size_t text_bytes)
{
	const struct topology_capacity *capacity = drawing->view->topology->links[link].capacity;
	const struct layout_line *line = &drawing->layout.lines[link];
	char up[24], down[24];

	view_rate_of(&capacity[TOPOLOGY_UP], true, up, sizeof(up));
	view_rate_of(&capacity[TOPOLOGY_DOWN], true, down, sizeof(down));
	if (!strcmp(up, down))
		snprintf(text, text_bytes, "%s", strcmp(up, "?") != 0 ? up : "");
	else if (drawing->layout.lines[link].label_centred)
		snprintf(text, text_bytes, "→ %s  ← %s", line->reversed ? down : up, line->reversed ? up : down);
	else if (line->reversed)
		snprintf(text, text_bytes, "↑ %s  ↓ %s", down, up);
	else
		snprintf(text, text_bytes, "↑ %s  ↓ %s", up, down);
}

/* Above and below a link between sockets, below an arc. */
static void put_centred_labels(const struct drawing *drawing, uint32_t link, const char *rates, const char *words)
{
	const struct layout_line *line = &drawing->layout.lines[link];
	const struct view_lane *lanes = &drawing->view->lanes[2 * link];
	double half = fmax(draw_bed(drawing, 2 * link), draw_bed(drawing, 2 * link + 1)) + LAYOUT_LANE_GAP,
	       y = line->label_y;
	bool halo = lanes[0].bottleneck || lanes[1].bottleneck;

	half += halo ? 7 : 0;
	draw_text(drawing, line->label_x, line->horizontal ? y - half - 5 : y + half + 11, 12,
		  "class=\"rate\" fill=\"" DRAW_INK "\" font-weight=\"700\" text-anchor=\"middle\"", rates);
	draw_text(drawing, line->label_x, line->horizontal ? y + half + 12 : y + half + 24, 10,
		  "class=\"soft\" fill=\"" DRAW_SOFT "\" text-anchor=\"middle\"", words);
	if (halo)
		draw_pill(drawing, line->label_x, line->horizontal ? y + half + 17 : y + half + 29, true, "bottleneck");
}

/* Beside a straight link: its rates one above the other, what it is, what is wrong with it. */
static void put_labels(const struct drawing *drawing, uint32_t link)
{
	const struct topology_link *at = &drawing->view->topology->links[link];
	const struct layout_line *line = &drawing->layout.lines[link];
	const struct view_lane *lanes = &drawing->view->lanes[2 * link];
	bool bottleneck = lanes[0].bottleneck || lanes[1].bottleneck;
	double x = line->label_x, y, side = draw_bed(drawing, 2 * link + 1) + LAYOUT_LANE_GAP / 2.0 + DRAW_LANE_ROOM;
	char rates[64], words[32], degraded[80], *second;
	int lines;

	side += bottleneck ? 6 : 0;
	rate_words(drawing, link, rates, sizeof(rates));
	view_link_words(drawing->view->topology, at, words, sizeof(words));
	view_degraded(drawing->view->topology, at, degraded, sizeof(degraded));
	if (line->label_centred) {
		put_centred_labels(drawing, link, rates, words);
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
	draw_text(drawing, x, y, 12.5, "class=\"rate\" fill=\"" DRAW_INK "\" font-weight=\"700\"", rates);
	if (second)
		draw_text(drawing, x, y += 14, 12.5, "class=\"rate\" fill=\"" DRAW_INK "\" font-weight=\"700\"",
			  second + 2);
	draw_text(drawing, x, y += 13, 10, "class=\"soft\" fill=\"" DRAW_SOFT "\"", words);
	if (degraded[0])
		draw_text(drawing, x, y += 13, 10, "class=\"alarm\" fill=\"" DRAW_ALARM "\" font-weight=\"700\"",
			  degraded);
	if (bottleneck)
		draw_pill(drawing, x, y + 5, false, "bottleneck");
}

static void link_title(const struct drawing *drawing, uint32_t index, char *text, size_t text_bytes)
{
	const struct topology *topology = drawing->view->topology;
	const struct topology_link *link = &topology->links[index];
	char up[24], down[24], nominal[24], words[32], degraded[80];

	view_rate_of(&link->capacity[TOPOLOGY_UP], true, up, sizeof(up));
	view_rate_of(&link->capacity[TOPOLOGY_DOWN], true, down, sizeof(down));
	units_GBps(link->nominal_Bps, nominal);
	view_link_words(topology, link, words, sizeof(words));
	view_degraded(topology, link, degraded, sizeof(degraded));
	snprintf(text, text_bytes, "%s to %s: %s%s%s; up %s, down %s, nominal %s GB/s",
		 topology->vertices[link->lower].name, topology->vertices[link->upper].name, words,
		 *degraded ? ", trained at " : "", degraded, up, down, nominal);
}

static void put_link(const struct drawing *drawing, uint32_t index)
{
	char title[TITLE_BYTES];

	fprintf(drawing->out, "<g class=\"link\" id=\"link-%u\" data-link=\"%u\">\n<title>", index, index);
	link_title(drawing, index, title, sizeof(title));
	draw_xml_escape(title, drawing->out);
	fputs("</title>\n", drawing->out);
	if (drawing->view->lanes[2 * index].bottleneck || drawing->view->lanes[2 * index + 1].bottleneck)
		draw_halo(drawing, index);
	put_lane(drawing, 2 * index);
	put_lane(drawing, 2 * index + 1);
	draw_hit(drawing, index);
	fputs("</g>\n", drawing->out);
}

/* ------------------------------------------------------------------------------------------------- head and legend */

static void put_head(const struct drawing *drawing)
{
	const struct topology *topology = drawing->view->topology;
	char snapshot[160], measured[80], text[TITLE_BYTES], clipped[DRAW_CLIP_BYTES];
	double room = drawing->width - 2 * LAYOUT_MARGIN;

	draw_clip(topology->name[0] ? topology->name : "Machine", room, 26, clipped);
	draw_text(drawing, LAYOUT_MARGIN, 50, 26, "class=\"title\" fill=\"" DRAW_INK "\" font-weight=\"700\"", clipped);
	view_snapshot(topology, snapshot, sizeof(snapshot));
	view_measured(drawing->view, measured, sizeof(measured));
	snprintf(text, sizeof(text), "%s  ·  %s  ·  GB/s", snapshot, measured);
	draw_clip(text, room, 13, clipped);
	draw_text(drawing, LAYOUT_MARGIN, 73, 13, "class=\"soft\" fill=\"" DRAW_SOFT "\"", clipped);
	view_bottleneck(drawing->view, true, text, sizeof(text));
	draw_clip(text, room, 13.5, clipped);
	draw_text(drawing, LAYOUT_MARGIN, 97, 13.5, "class=\"headline\" fill=\"" DRAW_INK "\" font-weight=\"600\"",
		  clipped);
}

/* Of those that the drawing has. Measures alone where nothing is drawn. Returns where they end. */
static double put_swatches(const struct drawing *drawing, double x, double y, bool drawn)
{
	if (drawn)
		draw_text(drawing, x, y - 10, 11, "class=\"soft\" fill=\"" DRAW_SOFT "\" font-weight=\"600\"",
			  "measured over nominal");
	for (int band = 0; band < VIEW_BAND_COUNT; band++) {
		enum view_band at = (enum view_band)band;

		if (!view_has_band(drawing->view, at))
			continue;
		if (drawn) {
			fprintf(drawing->out,
				"<path class=\"stream band-%d\" d=\"M%.1f %.1fh36\" fill=\"none\" stroke=\"%s\" "
				"stroke-width=\"9\"/>\n",
				band, x, y + 7, view_band_colour(at));
			draw_text(drawing, x, y + 32, 10.5, "class=\"legend\" fill=\"" DRAW_INK "\"",
				  view_band_words(at));
		}
		x += fmax(SWATCH_WIDTH, (double)strlen(view_band_words(at)) * 6.2 + 16);
	}
	return x;
}

static void put_legend(const struct drawing *drawing)
{
	double y = drawing->height - LEGEND_HEIGHT + 34, x = put_swatches(drawing, LAYOUT_MARGIN, y, true) + 14;

	x = draw_thicknesses(drawing, x, y);
	draw_text(drawing, x, y - 10, 11, "class=\"soft\" fill=\"" DRAW_SOFT "\" font-weight=\"600\"", "figures");
	draw_text(drawing, x, y + 9, 10.5, "class=\"legend\" fill=\"" DRAW_INK "\"", "(12) nominal   ~12 assumed");
	draw_text(drawing, x, y + 32, 10.5, "class=\"legend\" fill=\"" DRAW_INK "\"", "≥12 at least   ↑ to the CPU");
}

static void put_all(const struct drawing *drawing, bool inside)
{
	draw_begin(drawing, inside);
	draw_panels(drawing);
	for (uint32_t i = 0; i < drawing->view->topology->link_count; i++)
		put_link(drawing, i);
	for (uint32_t i = 0; i < drawing->view->topology->vertex_count; i++)
		draw_box(drawing, i);
	fputs("<g class=\"labels\" pointer-events=\"none\">\n", drawing->out);
	for (uint32_t i = 0; i < drawing->view->topology->link_count; i++) {
		if (drawing->layout.lines[i].labelled)
			put_labels(drawing, i);
	}
	fputs("</g>\n", drawing->out);
	/* A page has its own. */
	if (!inside) {
		put_head(drawing);
		put_legend(drawing);
	}
	draw_end(drawing);
}

int svg_print(const struct view *view, bool inside, FILE *out)
{
	struct drawing svg = { .view = view, .out = out, .fastest_Bps = DRAW_THICKEST_BPS };
	int r = layout_make(view, inside ? LAYOUT_MARGIN / 2 : HEAD_HEIGHT, &svg.layout);

	if (r < 0)
		return r;
	for (size_t i = 0; i < 2 * view->topology->link_count; i++) {
		if (view->lanes[i].room_Bps > svg.fastest_Bps)
			svg.fastest_Bps = view->lanes[i].room_Bps;
	}
	svg.width = svg.layout.drawing.width + 2 * LAYOUT_MARGIN;
	/* The legend: swatches, thicknesses, figures. */
	if (!inside)
		svg.width = fmax(fmax(svg.width, DRAW_LEAST_WIDTH),
				 put_swatches(&svg, LAYOUT_MARGIN, 0, false) + REST_WIDTH);
	svg.height = svg.layout.drawing.y + svg.layout.drawing.height + (inside ? LAYOUT_MARGIN / 2 : LEGEND_HEIGHT);
	put_all(&svg, inside);
	layout_free(&svg.layout);
	return 0;
}
