/*
 * Channels on the machine. A link is two lanes, each a pale bed as wide as its capacity, and in it a stripe for each
 * flow, as wide as its part of that capacity: where the bed is filled from edge to edge nothing more goes through. What
 * is full has an edge in the colour of alarm and a label.
 */
#include "command/plan/picture.h"

#include "command/print/units.h"
#include "command/show/draw.h"

#include <math.h>
#include <string.h>

enum { HEAD_HEIGHT = 118, LEGEND_TOP = 52, LEGEND_LINE = 20, PIPS_MOST = 3, PIP_RADIUS = 8, WORDS_BYTES = 2048 };

/* What each link's <g> is called within a page that has several views. */
struct scene {
	const struct channels_flows *flows;
	const struct drawing *drawing;
	size_t number;
	bool inside;
};

/* ------------------------------------------------------------------------------------------------------------ lanes */

static void put_stripe(const struct scene *scene, uint32_t directed, size_t flow, double shift, double width)
{
	char style[200];

	snprintf(style, sizeof(style),
		 "class=\"flow flow-%zu\" data-flow=\"%zu\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.2f\"", flow,
		 flow, channels_flow_colour(flow), width);
	draw_path(scene->drawing, &scene->drawing->layout.lines[directed / 2], shift, style);
}

static void put_lane(const struct scene *scene, uint32_t directed)
{
	const struct channels_flows *flows = scene->flows;
	const struct drawing *drawing = scene->drawing;
	double bed = draw_bed(drawing, directed), middle = draw_shift(drawing, directed), at, whole;
	double share = flows->share[directed];
	uint64_t crossings = 0;
	char style[160];

	snprintf(style, sizeof(style), "class=\"bed\" fill=\"none\" stroke=\"" DRAW_BED "\" stroke-width=\"%.1f\"%s",
		 bed, drawing->view->lanes[directed].rate_Bps ? "" : " stroke-opacity=\"0.45\"");
	draw_path(drawing, &drawing->layout.lines[directed / 2], middle, style);
	for (size_t i = 0; i < flows->count; i++)
		crossings += flows->flows[i].crossings[directed] * flows->flows[i].count;
	if (!crossings)
		return;
	whole = share >= 0 ? bed * fmin(share, 1)
			   : fmin(bed, layout_thickness((uint64_t)flows->load_Bps[directed], drawing->fastest_Bps));
	at = middle - whole / 2;
	for (size_t i = 0; i < flows->count; i++) {
		double part = whole * (double)(flows->flows[i].crossings[directed] * flows->flows[i].count) /
			      (double)crossings;

		if (part > 0)
			put_stripe(scene, directed, i, at + part / 2, part);
		at += part;
	}
	draw_arrow(drawing, &drawing->layout.lines[directed / 2], middle, whole, directed % 2 == TOPOLOGY_UP);
}

static bool stands_out(const struct scene *scene, uint32_t link)
{
	return !scene->flows->full_is_own && (scene->flows->full[2 * link] || scene->flows->full[2 * link + 1]);
}

static void lane_words(const struct scene *scene, uint32_t directed, char *text, size_t text_bytes)
{
	const struct topology *topology = scene->flows->channels->topology;
	char rate[24], most[24];

	units_GBps((uint64_t)scene->flows->load_Bps[directed], rate);
	view_rate_of(&topology->links[directed / 2].capacity[directed % 2], true, most, sizeof(most));
	snprintf(text, text_bytes, "%s of %s GB/s", scene->flows->load_Bps[directed] > 0 ? rate : "0", most);
}

static void put_link(const struct scene *scene, uint32_t link)
{
	const struct topology *topology = scene->flows->channels->topology;
	FILE *out = scene->drawing->out;
	char up[64], down[64];

	if (scene->inside)
		fprintf(out, "<g class=\"link\" id=\"link-%zu-%u\" data-link=\"%u\">\n<title>", scene->number, link,
			link);
	else
		fprintf(out, "<g class=\"link\" id=\"link-%u\" data-link=\"%u\">\n<title>", link, link);
	lane_words(scene, 2 * link, up, sizeof(up));
	lane_words(scene, 2 * link + 1, down, sizeof(down));
	draw_xml_escape(topology->vertices[topology->links[link].lower].name, out);
	fputs(" to ", out);
	draw_xml_escape(topology->vertices[topology->links[link].upper].name, out);
	fprintf(out, ": %s; back %s</title>\n", up, down);
	if (stands_out(scene, link))
		draw_halo(scene->drawing, link);
	put_lane(scene, 2 * link);
	put_lane(scene, 2 * link + 1);
	draw_hit(scene->drawing, link);
	fputs("</g>\n", out);
}

/* ----------------------------------------------------------------------------------------------------------- labels */

/* "98 %"; "" for what carries nothing or has no known capacity. */
static void percent(const struct scene *scene, uint32_t directed, char *text, size_t text_bytes)
{
	double share = scene->flows->share[directed];

	text[0] = '\0';
	if (share >= 0 && scene->flows->load_Bps[directed] > 0)
		snprintf(text, text_bytes, "%.0f %%", floor(share * 100 + 0.01));
}

static const char rate_style[] = "class=\"rate\" fill=\"" DRAW_INK "\" font-weight=\"700\"";
static const char rate_centred[] = "class=\"rate\" fill=\"" DRAW_INK "\" font-weight=\"700\" text-anchor=\"middle\"";

static void put_centred(const struct scene *scene, uint32_t link, const char *up, const char *down)
{
	const struct drawing *drawing = scene->drawing;
	const struct layout_line *line = &drawing->layout.lines[link];
	double half = fmax(draw_bed(drawing, 2 * link), draw_bed(drawing, 2 * link + 1)) + LAYOUT_LANE_GAP;
	bool out = stands_out(scene, link);
	char text[64];

	half += out ? 7 : 0;
	if (!strcmp(up, down))
		snprintf(text, sizeof(text), "%s", up);
	else
		snprintf(text, sizeof(text), "%s%s%s%s%s", *(line->reversed ? down : up) ? "→ " : "",
			 line->reversed ? down : up, *up && *down ? "  " : "",
			 *(line->reversed ? up : down) ? "← " : "", line->reversed ? up : down);
	draw_text(drawing, line->label_x, line->horizontal ? line->label_y - half - 5 : line->label_y + half + 11, 12,
		  rate_centred, text);
	if (out)
		draw_pill(drawing, line->label_x, line->label_y + half + (line->horizontal ? 4 : 17), true, "full");
}

static void put_labels(const struct scene *scene, uint32_t link)
{
	const struct drawing *drawing = scene->drawing;
	const struct layout_line *line = &drawing->layout.lines[link];
	double side = draw_bed(drawing, 2 * link + 1) + LAYOUT_LANE_GAP / 2.0 + DRAW_LANE_ROOM, x, y;
	bool out = stands_out(scene, link);
	char up[24], down[24], text[32];
	bool same;

	percent(scene, 2 * link, up, sizeof(up));
	percent(scene, 2 * link + 1, down, sizeof(down));
	if (!*up && !*down)
		return;
	if (line->label_centred) {
		put_centred(scene, link, up, down);
		return;
	}
	same = !strcmp(up, down);
	x = line->label_x + side + (out ? 6 : 0);
	y = line->label_y - (same || !*up || !*down ? 1 : 2) * 7 + 9 - (out ? 8 : 0);
	if (*up) {
		snprintf(text, sizeof(text), "%s%s", same ? "" : line->reversed ? "↓ " : "↑ ", up);
		draw_text(drawing, x, y, 12.5, rate_style, text);
		y += 14;
	}
	if (*down && !same) {
		snprintf(text, sizeof(text), "%s%s", line->reversed ? "↑ " : "↓ ", down);
		draw_text(drawing, x, y, 12.5, rate_style, text);
		y += 14;
	}
	if (out)
		draw_pill(drawing, x, y - 8, false, "full");
}

/* A NIC whose own speed is used up, where its wire is no link of the graph. */
static void put_full_nics(const struct scene *scene)
{
	const struct channels_graph *graph = &scene->flows->channels->graphs[scene->flows->pattern];

	for (size_t i = 0; i < graph->load_count; i++) {
		const struct plan_load *load = &graph->loads[i];
		const struct layout_box *box;

		if ((load->kind != PLAN_LOAD_NIC_IN && load->kind != PLAN_LOAD_NIC_OUT) ||
		    !channels_load_is_full(graph, load))
			continue;
		box = &scene->drawing->layout.boxes[load->index];
		fprintf(scene->drawing->out,
			"<rect class=\"halo\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"10\" "
			"fill=\"none\" "
			"stroke=\"" DRAW_ALARM "\" stroke-width=\"2.5\"/>\n",
			box->x - 3.5, box->y - 3.5, box->width + 7, box->height + 7);
		draw_pill(scene->drawing, box->x + box->width - 42, box->y + 8, false, "full");
	}
}

/* The place of each GPU in each of a few flows, at the right of its name. */
static void put_pips(const struct scene *scene)
{
	const struct channels_flows *flows = scene->flows;
	const struct channels *channels = flows->channels;
	const struct plan *plan = &channels->graphs[flows->pattern].plan;
	bool many = flows->count > PIPS_MOST;

	for (size_t i = 0; i < flows->count && (!many || scene->inside); i++) {
		double aside = many ? 0 : (double)(flows->count - 1 - i) * (2 * PIP_RADIUS + 2);

		fprintf(scene->drawing->out, "<g class=\"pips flow-%zu%s\">\n", i, many ? " many" : "");
		for (size_t place = 0; place < plan->gpu_count; place++) {
			uint32_t gpu = channels->request.gpus[plan->channels[flows->flows[i].channel].order[place]];
			const struct layout_box *box = &scene->drawing->layout.boxes[gpu];
			double x = box->x + box->width - PIP_RADIUS - 6 - aside, y = box->y + PIP_RADIUS + 7;
			char text[8];

			fprintf(scene->drawing->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"%s\"/>\n", x, y,
				PIP_RADIUS, channels_flow_colour(i));
			snprintf(text, sizeof(text), "%u", (unsigned)(place + 1));
			draw_text(scene->drawing, x, y + 3.6, 10,
				  "class=\"pip\" fill=\"#fff\" font-weight=\"700\" text-anchor=\"middle\"", text);
		}
		fputs("</g>\n", scene->drawing->out);
	}
}

/* -------------------------------------------------------------------------------------------------- head and legend */

static void put_head(const struct scene *scene)
{
	const struct drawing *drawing = scene->drawing;
	const struct channels *channels = scene->flows->channels;
	char text[600], words[160], line[900], clipped[DRAW_CLIP_BYTES];
	double room = drawing->width - 2 * LAYOUT_MARGIN;

	draw_clip(*channels->topology->name ? channels->topology->name : "Machine", room, 26, clipped);
	draw_text(drawing, LAYOUT_MARGIN, 50, 26, "class=\"title\" fill=\"" DRAW_INK "\" font-weight=\"700\"", clipped);
	channels_flows_title(scene->flows, text, sizeof(text));
	draw_clip(text, room, 13.5, clipped);
	draw_text(drawing, LAYOUT_MARGIN, 75, 13.5, "class=\"headline\" fill=\"" DRAW_INK "\" font-weight=\"600\"",
		  clipped);
	channels_request_words(channels, words, sizeof(words));
	channels_flows_headline(scene->flows, text, sizeof(text));
	snprintf(line, sizeof(line), "%s, by %s%s%s", words, channels->maker, *text ? "  ·  " : "", text);
	draw_clip(line, room, 13, clipped);
	draw_text(drawing, LAYOUT_MARGIN, 97, 13, "class=\"soft\" fill=\"" DRAW_SOFT "\"", clipped);
}

static double legend_height(const struct channels_flows *flows)
{
	return LEGEND_TOP + LEGEND_LINE * (double)flows->count + 24;
}

static void put_legend(const struct scene *scene)
{
	const struct channels_flows *flows = scene->flows;
	const struct drawing *drawing = scene->drawing;
	double y = drawing->height - legend_height(flows) + 34;

	draw_text(drawing, LAYOUT_MARGIN, y - 10, 11, "class=\"soft\" fill=\"" DRAW_SOFT "\" font-weight=\"600\"",
		  "stripe: a channel's part of what the link carries; a bed filled from edge to edge is full");
	for (size_t i = 0; i < flows->count; i++) {
		char words[WORDS_BYTES], line[WORDS_BYTES + 32];
		double at = y + 14 + LEGEND_LINE * (double)i;

		fprintf(drawing->out,
			"<path class=\"flow flow-%zu\" d=\"M%d %.1fh36\" fill=\"none\" stroke=\"%s\" "
			"stroke-width=\"9\"/>\n",
			i, LAYOUT_MARGIN, at, channels_flow_colour(i));
		channels_flow_words(flows, i, words, sizeof(words));
		if (flows->flows[i].count > 1)
			snprintf(line, sizeof(line), "%zu ×  %s", flows->flows[i].count, words);
		else
			snprintf(line, sizeof(line), "%s", words);
		draw_text(drawing, LAYOUT_MARGIN + 48, at + 4, 12, "class=\"legend\" fill=\"" DRAW_INK "\"", line);
	}
}

/* ------------------------------------------------------------------------------------------------------------ whole */

static void put_lanes(const struct scene *scene)
{
	size_t links = scene->flows->channels->topology->link_count;

	for (uint32_t i = 0; i < links; i++)
		put_link(scene, i);
}

static void put_words(const struct scene *scene)
{
	size_t links = scene->flows->channels->topology->link_count;

	fputs("<g class=\"labels\" pointer-events=\"none\">\n", scene->drawing->out);
	for (uint32_t i = 0; i < links; i++)
		if (scene->drawing->layout.lines[i].labelled)
			put_labels(scene, i);
	put_pips(scene);
	put_full_nics(scene);
	fputs("</g>\n", scene->drawing->out);
}

static int begin(const struct topology *topology, double top, FILE *out, struct view *view, struct drawing *ret)
{
	int r = channels_view_make(topology, view);

	if (r < 0)
		return r;
	*ret = (struct drawing){ .view = view, .out = out, .fastest_Bps = DRAW_THICKEST_BPS };
	r = layout_make(view, top, &ret->layout);
	if (r < 0) {
		view_free(view);
		return r;
	}
	for (size_t i = 0; i < 2 * topology->link_count; i++)
		if (view->lanes[i].room_Bps > ret->fastest_Bps)
			ret->fastest_Bps = view->lanes[i].room_Bps;
	ret->width = ret->layout.drawing.width + 2 * LAYOUT_MARGIN;
	ret->height = ret->layout.drawing.y + ret->layout.drawing.height;
	return 0;
}

static void end(struct view *view, struct drawing *drawing)
{
	layout_free(&drawing->layout);
	view_free(view);
}

int channels_svg(const struct channels_flows *flows, FILE *out)
{
	const struct topology *topology = flows->channels->topology;
	struct drawing drawing;
	struct view view;
	struct scene scene = { .flows = flows, .drawing = &drawing };
	int r = begin(topology, HEAD_HEIGHT, out, &view, &drawing);

	if (r < 0)
		return r;
	drawing.width = fmax(drawing.width, DRAW_LEAST_WIDTH);
	drawing.height += legend_height(flows);
	draw_begin(&drawing, false);
	draw_panels(&drawing);
	put_lanes(&scene);
	for (uint32_t i = 0; i < topology->vertex_count; i++)
		draw_box(&drawing, i);
	put_words(&scene);
	put_head(&scene);
	put_legend(&scene);
	draw_end(&drawing);
	end(&view, &drawing);
	return 0;
}

int channels_svg_inside(const struct channels_flows *flows, size_t count, FILE *out)
{
	const struct topology *topology = flows->channels->topology;
	struct drawing drawing;
	struct view view;
	int r = begin(topology, LAYOUT_MARGIN / 2.0, out, &view, &drawing);

	if (r < 0)
		return r;
	drawing.height += LAYOUT_MARGIN / 2.0;
	draw_begin(&drawing, true);
	draw_panels(&drawing);
	for (size_t i = 0; i < count; i++) {
		struct scene scene = { .flows = &flows[i], .drawing = &drawing, .number = i, .inside = true };

		fprintf(out, "<g class=\"view\" data-view=\"%zu\"%s>\n", i, i ? " display=\"none\"" : "");
		put_lanes(&scene);
		fputs("</g>\n", out);
	}
	for (uint32_t i = 0; i < topology->vertex_count; i++)
		draw_box(&drawing, i);
	for (size_t i = 0; i < count; i++) {
		struct scene scene = { .flows = &flows[i], .drawing = &drawing, .number = i, .inside = true };

		fprintf(out, "<g class=\"view\" data-view=\"%zu\"%s>\n", i, i ? " display=\"none\"" : "");
		put_words(&scene);
		fputs("</g>\n", out);
	}
	draw_end(&drawing);
	end(&view, &drawing);
	return 0;
}
