/*
 * One page: for each case a map of the links' loads (a cell for each switch with an uplink, with bars of what goes up and
 * down it; below it a square for each of its hosts) and a time line of the fullest links.
 */
#include "command/simulate/simulation.h"

#include "command/json.h"
#include "command/print/units.h"
#include "command/show/page.h"
#include "command/show/pictures.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	WIDTH = 1280,
	MARGIN = 24,
	CELL_LEAST = 96,
	HEAD = 40, /* name and bars of a cell */
	LINE_HEIGHT = 34,
	POINTS_MAX = 2000,
};

/* Where things are; the same for all cases. */
struct map {
	const struct simulation *simulation;
	FILE *out;
	uint32_t *cells;   /* switches that are drawn */
	uint32_t *cell_of; /* of switches, or SIMULATE_NONE */
	size_t *hosts;     /* of each cell, counted */
	size_t cell_count, columns, squares_wide;
	double cell_width, square, row_height, lines_y, height;
};

/* In which row the nth of so many abreast is. */
static double row_of(size_t number, size_t abreast)
{
	size_t row = number / abreast;

	return (double)row;
}

static int band_of(double load)
{
	static const double below[] = { 0.2, 0.4, 0.6, 0.85 };
	int band = 0;

	while (band < 4 && load >= below[band])
		band++;
	return band;
}

static int map_init(const struct simulation *simulation, FILE *out, struct map *map)
{
	const struct simulate_fabric *fabric = &simulation->fabric;
	size_t most = 1;

	*map = (struct map){ .simulation = simulation, .out = out };
	map->cells = calloc(fabric->switch_count + 1, sizeof(*map->cells));
	map->cell_of = calloc(fabric->switch_count + 1, sizeof(*map->cell_of));
	map->hosts = calloc(fabric->switch_count + 1, sizeof(*map->hosts));
	if (!map->cells || !map->cell_of || !map->hosts)
		return -ENOMEM;
	for (uint32_t i = 0; i < fabric->switch_count; i++) {
		bool leaf = false;

		for (size_t j = 0; j < fabric->host_count * fabric->rail_count && !leaf; j++)
			leaf = fabric->nics[j].leaf == i;
		map->cell_of[i] = SIMULATE_NONE;
		if (!leaf && fabric->switches[i].parent == SIMULATE_NONE)
			continue;
		map->cell_of[i] = (uint32_t)map->cell_count;
		map->cells[map->cell_count++] = i;
	}
	for (size_t i = 0; i < fabric->host_count * fabric->rail_count; i++) {
		size_t count = ++map->hosts[map->cell_of[fabric->nics[i].leaf]];

		most = count > most ? count : most;
	}
	map->columns = (size_t)((WIDTH - 2 * MARGIN) / CELL_LEAST);
	map->columns = map->columns < map->cell_count ? map->columns : map->cell_count;
	map->cell_width = (WIDTH - 2.0 * MARGIN) / (double)(map->columns ? map->columns : 1);
	map->squares_wide = (size_t)fmax(4, ceil(sqrt((double)most * 2)));
	map->square = fmin(14, (map->cell_width - 12) / (double)map->squares_wide);
	map->row_height = HEAD + map->square * ceil((double)most / (double)map->squares_wide) + 14;
	map->lines_y = MARGIN +
		       map->row_height * ceil((double)map->cell_count / (double)(map->columns ? map->columns : 1)) + 36;
	map->height = map->lines_y + SIMULATION_BUSIEST * LINE_HEIGHT + 40;
	return 0;
}

static void map_fini(struct map *map)
{
	free(map->cells);
	free(map->cell_of);
	free(map->hosts);
}

static void put_text(const struct map *map, double x, double y, double size, const char *anchor, const char *text)
{
	fprintf(map->out,
		"<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\" text-anchor=\"%s\" fill=\"var(--ink)\" "
		"font-family=\"sans-serif\">",
		x, y, size, anchor);
	draw_xml_escape(text, map->out);
	fputs("</text>", map->out);
}

/* The page's script shows the card of a link whose element has its number. */
static void begin_link(const struct map *map, size_t view, uint32_t link)
{
	char name[SIMULATE_NAME_BYTES + 64];

	simulate_link_name(&map->simulation->fabric, link, name, sizeof(name));
	fprintf(map->out, "<g class=\"link\" id=\"link-%zu-%u\" data-link=\"%u\"><title>", view, link, link);
	draw_xml_escape(name, map->out);
	fputs("</title>", map->out);
}

static void put_bar(const struct map *map, size_t view, const struct simulation_case *one, uint32_t link, double x,
		    double y, double width)
{
	double load = fmin(1, simulation_load(one, link));

	begin_link(map, view, link);
	fprintf(map->out,
		"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"7\" rx=\"2\" fill=\"var(--bed)\"/>"
		"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"7\" rx=\"2\" fill=\"var(--band-%d)\"/></g>\n",
		x, y, width, x, y, width * load, band_of(load));
}

static void put_cell(const struct map *map, size_t view, const struct simulation_case *one, size_t cell)
{
	const struct simulate_fabric *fabric = &map->simulation->fabric;
	uint32_t at = map->cells[cell];
	double x = MARGIN + map->cell_width * (double)(cell % map->columns),
	       y = MARGIN + map->row_height * row_of(cell, map->columns);
	char name[24];

	snprintf(name, sizeof(name), "%.17s%s", fabric->switches[at].name,
		 strlen(fabric->switches[at].name) > 17 ? "…" : "");
	put_text(map, x, y + 11, 11, "start", name);
	if (fabric->switches[at].parent == SIMULATE_NONE)
		return;
	put_bar(map, view, one, simulate_switch_link(fabric, at, SIMULATE_UP), x, y + 16, map->cell_width - 12);
	put_bar(map, view, one, simulate_switch_link(fabric, at, SIMULATE_DOWN), x, y + 26, map->cell_width - 12);
}

static void put_host(const struct map *map, size_t view, const struct simulation_case *one, size_t nic, size_t number)
{
	const struct simulate_fabric *fabric = &map->simulation->fabric;
	size_t cell = map->cell_of[fabric->nics[nic].leaf], host = nic / fabric->rail_count,
	       rail = nic % fabric->rail_count;
	uint32_t out = simulate_nic_link(fabric, host, rail, SIMULATE_UP),
		 in = simulate_nic_link(fabric, host, rail, SIMULATE_DOWN);
	double out_load = simulation_load(one, out), in_load = simulation_load(one, in);
	double x = MARGIN + map->cell_width * (double)(cell % map->columns) +
		   map->square * (double)(number % map->squares_wide),
	       y = MARGIN + map->row_height * row_of(cell, map->columns) + HEAD +
		   map->square * row_of(number, map->squares_wide);

	begin_link(map, view, out_load >= in_load ? out : in);
	fprintf(map->out,
		"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"var(--band-%d)\" "
		"fill-opacity=\"%.2f\"/></g>\n",
		x, y, map->square - 1.5, map->square - 1.5, band_of(fmax(out_load, in_load)),
		fmax(out_load, in_load) > 0 ? 1.0 : 0.15);
}

static void put_line(const struct map *map, const struct simulation_case *one, uint32_t link, double y)
{
	double x = MARGIN + 200, width = WIDTH - MARGIN - x, height = LINE_HEIGHT - 10;
	struct flow_link is = flow_link(one->result.network, link);
	char name[SIMULATE_NAME_BYTES + 64];
	size_t count;
	const struct flow_point *points = flow_watched(one->result.network, link, &count);
	size_t every = count / POINTS_MAX + 1;

	simulate_link_name(&map->simulation->fabric, link, name, sizeof(name));
	name[26] = '\0';
	put_text(map, MARGIN, y + height - 6, 12, "start", name);
	fprintf(map->out,
		"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"var(--bed)\" fill-opacity=\"0.5\"/>"
		"<path fill=\"var(--band-%d)\" d=\"M%.1f %.1f",
		x, y, width, height, band_of(simulation_load(one, link)), x, y + height);
	for (size_t i = 0; i < count; i += every) {
		double at = x + width * points[i].time_s / one->time_s,
		       until = i + every < count ? x + width * points[i + every].time_s / one->time_s : x + width;
		double top = y + height * (1 - fmin(1, points[i].rate_Bps / is.capacity_Bps));

		fprintf(map->out, "H%.1fV%.1fH%.1f", at, top, fmin(until, x + width));
	}
	fprintf(map->out, "V%.1fZ\"/>\n", y + height);
}

static void put_view(const struct map *map, size_t view)
{
	const struct simulate_fabric *fabric = &map->simulation->fabric;
	const struct simulation_case *one = &map->simulation->cases[view];
	char time[UNITS_BYTES];

	fprintf(map->out, "<g data-view=\"%zu\"%s>\n", view, view ? " display=\"none\"" : "");
	for (size_t i = 0; i < map->cell_count; i++) {
		put_cell(map, view, one, i);
		map->hosts[i] = 0;
	}
	for (size_t i = 0; i < fabric->host_count * fabric->rail_count; i++)
		put_host(map, view, one, i, map->hosts[map->cell_of[fabric->nics[i].leaf]]++);
	put_text(map, MARGIN, map->lines_y - 12, 13, "start", "The fullest links over time");
	for (size_t i = 0; i < one->busiest_count; i++)
		put_line(map, one, one->busiest[i], map->lines_y + (double)i * LINE_HEIGHT);
	units_time(one->time_s, time);
	put_text(map, MARGIN + 200, map->lines_y + SIMULATION_BUSIEST * LINE_HEIGHT + 8, 12, "start", "0");
	put_text(map, WIDTH - MARGIN, map->lines_y + SIMULATION_BUSIEST * LINE_HEIGHT + 8, 12, "end", time);
	fputs("</g>\n", map->out);
}

/* --------------------------------------------------------------------------------------------------------------- page */

static json_t *view_links(const struct simulation *simulation, const struct simulation_case *one)
{
	size_t links = simulate_link_count(&simulation->fabric);
	json_t *list = json_array();

	for (uint32_t i = 0; i < links; i++) {
		struct flow_link link = flow_link(one->result.network, i);
		json_t *rows = json_array();
		char text[UNITS_BYTES];

		snprintf(text, sizeof(text), "%.4g", link.bytes / simulation->bytes);
		json_array_append_new(rows, json_pack("[ss]", "over a rank's bytes", text));
		if (isfinite(link.capacity_Bps)) {
			json_array_append_new(rows, json_pack("[ss]", "rate", units_rate(link.capacity_Bps, text)));
			snprintf(text, sizeof(text), "%.4g %%", 100 * simulation_load(one, i));
			json_array_append_new(rows, json_pack("[ss]", "load", text));
		}
		json_array_append_new(rows, json_pack("[ss]", "busy", units_time(link.busy_s, text)));
		json_array_append_new(list, json_pack("{so ss ss}", "rows", rows, "brief", "", "warning",
						      simulation_load(one, i) > 0.98 ? "full" : ""));
	}
	return list;
}

static json_t *page_data(const struct simulation *simulation)
{
	size_t links = simulate_link_count(&simulation->fabric);
	json_t *names = json_array(), *views = json_array();

	for (uint32_t i = 0; i < links; i++) {
		char name[SIMULATE_NAME_BYTES + 64];

		simulate_link_name(&simulation->fabric, i, name, sizeof(name));
		json_array_append_new(names,
				      json_pack("{so ss s[ii]}", "name", json_text(name), "words", "", "ends", -1, -1));
	}
	for (size_t i = 0; i < simulation->case_count; i++)
		json_array_append_new(
			views, json_pack("{so s[]}", "links", view_links(simulation, &simulation->cases[i]), "flows"));
	return json_pack("{so s[] so}", "links", names, "vertices", "views", views);
}

static void put_head(const struct simulation *simulation, FILE *out)
{
	char size[UNITS_BYTES];

	html_begin(simulation->title, out);
	fputs("<header>\n<div>\n<h1>", out);
	draw_xml_escape(simulation->title, out);
	fprintf(out, "</h1>\n<div class=\"summary\">%zu hosts · %s of %s a rank · simulated</div>\n",
		simulation->fabric.host_count, simulation_collective_word(simulation->collective),
		units_size(simulation->bytes, size));
	for (size_t i = 0; i < simulation->case_count; i++) {
		const struct simulation_case *one = &simulation->cases[i];
		char words[128], time[UNITS_BYTES], rate[UNITS_BYTES];

		simulation_case_words(simulation, one, words, sizeof(words));
		units_time(one->time_s, time);
		fprintf(out, "<div data-view=\"%zu\"%s><div class=\"headline\">", i, i ? " hidden" : "");
		draw_xml_escape(words, out);
		fprintf(out, one->worst.bound ? ": at least %s, at most %s</div></div>\n" : ": %s, %s</div></div>\n",
			time, units_rate(one->worst.algbw_Bps, rate));
	}
	fputs("</div>\n<nav>\n<div class=\"group\" id=\"views\">", out);
	for (size_t i = 0; i < simulation->case_count; i++) {
		char words[128];

		simulation_case_words(simulation, &simulation->cases[i], words, sizeof(words));
		fprintf(out, "<button data-show=\"%zu\" aria-pressed=\"%s\">", i, i ? "false" : "true");
		draw_xml_escape(words, out);
		fputs("</button>", out);
	}
	fputs("</div>\n", out);
	html_buttons(out);
	fputs("</nav>\n</header>\n<main>\n", out);
}

static void put_tables(const struct simulation *simulation, FILE *out)
{
	fputs("<section id=\"tables\" hidden>\n", out);
	html_table_begin("Cases; bytes on the busiest link of each kind, over those of a rank", "",
			 "case|#time, ms|#algbw, GB/s|#busbw, GB/s|#NIC|#uplink|#aggregator|#inside", out);
	for (size_t i = 0; i < simulation->case_count; i++) {
		const struct simulation_case *one = &simulation->cases[i];
		double numbers[3 + SIMULATION_KINDS] = { one->time_s * 1e3, one->worst.algbw_Bps / 1e9,
							 one->worst.busbw_Bps / 1e9 };
		char words[128];

		for (int kind = 0; kind < SIMULATION_KINDS; kind++)
			numbers[3 + kind] = one->most_bytes[kind] / simulation->bytes;
		simulation_case_words(simulation, one, words, sizeof(words));
		if (one->worst.bound)
			snprintf(words + strlen(words), sizeof(words) - strlen(words), " (lower bound)");
		fputs("<tr>", out);
		html_cell(words, false, out);
		for (size_t j = 0; j < sizeof(numbers) / sizeof(numbers[0]); j++) {
			snprintf(words, sizeof(words), "%.4g", numbers[j]);
			html_cell(words, true, out);
		}
		fputs("</tr>\n", out);
	}
	html_table_end(out);
	fputs("</section>\n", out);
}

int simulation_page(const struct simulation *simulation, FILE *out)
{
	struct map map;
	int r = map_init(simulation, out, &map);

	if (r == 0) {
		put_head(simulation, out);
		fprintf(out,
			"<section id=\"picture\">\n<div id=\"stage\">\n<svg id=\"machine\" "
			"xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\">\n",
			WIDTH, map.height);
		for (size_t i = 0; i < simulation->case_count; i++)
			put_view(&map, i);
		fputs("</svg>\n</div>\n<div class=\"legend\"><span>bytes over what the link could have carried:</span>",
		      out);
		for (int band = 0; band < 5; band++)
			fprintf(out, "<span><i style=\"background-color:var(--band-%d)\"></i>%s</span>", band,
				(const char *const[]){ "below 20 %", "20 to 40 %", "40 to 60 %", "60 to 85 %",
						       "85 % and more" }[band]);
		fputs("<span>bars: up and down an uplink; squares: hosts' NICs</span></div>\n</section>\n", out);
		put_tables(simulation, out);
		fputs("</main>\n<div id=\"card\" role=\"status\" hidden></div>\n", out);
		r = html_end(page_data(simulation), out);
	}
	map_fini(&map);
	return r;
}
