/* One page with the channels on their machine: a view for each pattern and maker, the numbers on hover, tables. */
#include "command/plan/picture.h"

#include "command/json.h"
#include "command/print/units.h"
#include "command/show/page.h"
#include "command/show/pictures.h"

#include <math.h>

enum { WORDS_BYTES = 2048 };

/* "40.1 of 41.2 GB/s, 97 %"; "" where nothing goes. */
static void load_words(const struct channels_flows *flows, uint32_t directed, char *text, size_t text_bytes)
{
	const struct topology *topology = flows->channels->topology;
	char rate[24], most[24];

	text[0] = '\0';
	if (flows->load_Bps[directed] <= 0)
		return;
	units_GBps((uint64_t)flows->load_Bps[directed], rate);
	view_rate_of(&topology->links[directed / 2].capacity[directed % 2], true, most, sizeof(most));
	if (flows->share[directed] >= 0)
		snprintf(text, text_bytes, "%s of %s GB/s, %.0f %%", rate, most,
			 floor(flows->share[directed] * 100 + 0.01));
	else
		snprintf(text, text_bytes, "%s GB/s, its capacity is not known", rate);
}

/* ------------------------------------------------------------------------------------------------------------- data */

static json_t *row_of(const char *name, const char *value)
{
	return json_pack("[ss]", name, value);
}

/* What each flow takes of a link: "2 × up, 1 × down". */
static void add_flow_rows(const struct channels_flows *flows, uint32_t link, json_t *rows)
{
	for (size_t i = 0; i < flows->count; i++) {
		const struct channels_flow *flow = &flows->flows[i];
		uint32_t up = flow->crossings[2 * link], down = flow->crossings[2 * link + 1];
		char name[40], value[64];

		if (!up && !down)
			continue;
		snprintf(name, sizeof(name), "channel %zu", flow->channel);
		snprintf(value, sizeof(value), "%u × up, %u × down%s", up, down, flow->count > 1 ? ", each" : "");
		json_array_append_new(rows, row_of(name, value));
	}
}

static json_t *link_flow(const struct channels_flows *flows, uint32_t link)
{
	char up[80], down[80], brief[200] = "";
	json_t *rows = json_array();
	bool full = flows->full[2 * link] || flows->full[2 * link + 1];

	load_words(flows, 2 * link, up, sizeof(up));
	load_words(flows, 2 * link + 1, down, sizeof(down));
	json_array_append_new(rows, row_of("up", *up ? up : "nothing"));
	json_array_append_new(rows, row_of("down", *down ? down : "nothing"));
	add_flow_rows(flows, link, rows);
	if (*up || *down)
		snprintf(brief, sizeof(brief), "↑ %s   ↓ %s", *up ? up : "nothing", *down ? down : "nothing");
	return json_pack("{so ss ss}", "rows", rows, "brief", brief, "warning",
			 full ? "full: the channels cannot be any faster" : "");
}

static json_t *flow_data(const struct channels_flows *flows, size_t index)
{
	const struct channels_graph *graph = &flows->channels->graphs[flows->pattern];
	const struct channels_flow *flow = &flows->flows[index];
	char words[WORDS_BYTES], name[64], each[24];
	json_t *rows = json_array();

	channels_flow_words(flows, index, words, sizeof(words));
	snprintf(name, sizeof(name), "Channel %zu", flow->channel);
	if (graph->rate_Bps < PLAN_UNBOUNDED_BPS) {
		char rate[40];

		units_GBps(graph->rate_Bps, each);
		snprintf(rate, sizeof(rate), "%s GB/s", each);
		json_array_append_new(rows, row_of("rate", rate));
	}
	if (flow->count > 1) {
		snprintf(each, sizeof(each), "%zu", flow->count);
		json_array_append_new(rows, row_of("alike", each));
	}
	return json_pack("{ss so so}", "name", name, "words", json_text(words), "rows", rows);
}

static json_t *view_data(const struct channels_flows *flows)
{
	json_t *links = json_array(), *list = json_array();

	for (uint32_t i = 0; i < flows->channels->topology->link_count; i++)
		json_array_append_new(links, link_flow(flows, i));
	for (size_t i = 0; i < flows->count; i++)
		json_array_append_new(list, flow_data(flows, i));
	return json_pack("{so so}", "links", links, "flows", list);
}

static json_t *page_data(const struct channels_flows *flows, size_t count)
{
	const struct topology *topology = flows->channels->topology;
	json_t *links = json_array(), *vertices = json_array(), *views = json_array();

	for (size_t i = 0; i < topology->link_count; i++) {
		const struct topology_link *link = &topology->links[i];
		char name[2 * TOPOLOGY_NAME_BYTES + 8], words[32];

		snprintf(name, sizeof(name), "%s ↔ %s", topology->vertices[link->lower].name,
			 topology->vertices[link->upper].name);
		view_link_words(topology, link, words, sizeof(words));
		json_array_append_new(links, json_pack("{so ss s[ii]}", "name", json_text(name), "words", words, "ends",
						       (int)link->lower, (int)link->upper));
	}
	for (size_t i = 0; i < topology->vertex_count; i++)
		json_array_append_new(vertices, html_vertex(&topology->vertices[i]));
	for (size_t i = 0; i < count; i++)
		json_array_append_new(views, view_data(&flows[i]));
	return json_pack("{so so so}", "links", links, "vertices", vertices, "views", views);
}

/* ----------------------------------------------------------------------------------------------------------- tables */

static void put_hops(const struct channels_flows *flows, FILE *out)
{
	const struct topology *topology = flows->channels->topology;

	html_table_begin("Channels", "", "channel|#alike|from|to|class|way", out);
	for (size_t i = 0; i < flows->count; i++) {
		struct channels_hop hops[CHANNELS_HOPS_MAX];
		size_t count = channels_hops(flows->channels, flows->pattern, flows->flows[i].channel, hops);

		for (size_t j = 0; j < count; j++) {
			fprintf(out, "<tr><td class=\"number\">%zu</td><td class=\"number\">%zu</td>",
				flows->flows[i].channel, flows->flows[i].count);
			html_cell(topology->vertices[hops[j].from].name, false, out);
			html_cell(topology->vertices[hops[j].to].name, false, out);
			html_cell(topology_class_word(hops[j].path_class), false, out);
			html_cell(hops[j].host ? "through host memory" : "direct", false, out);
			fputs("</tr>\n", out);
		}
	}
	html_table_end(out);
}

static void put_loads(const struct channels_flows *flows, FILE *out)
{
	const struct channels_graph *graph = &flows->channels->graphs[flows->pattern];

	html_table_begin("Loads, GB/s", "class=\"loads\"", "what|#crossings|#load|#capacity|full", out);
	for (size_t i = 0; i < graph->load_count; i++) {
		const struct plan_load *load = &graph->loads[i];
		double share = channels_load_share(graph, load);
		char text[3 * TOPOLOGY_NAME_BYTES];

		if (load->kind == PLAN_LOAD_LINK)
			fprintf(out, "<tr data-row=\"%u\">", load->index / 2);
		else
			fputs("<tr>", out);
		channels_load_name(flows->channels->topology, load, text, sizeof(text));
		html_cell(text, false, out);
		fprintf(out, "<td class=\"number\">%llu</td>", (unsigned long long)load->crossings);
		units_GBps((uint64_t)channels_load_Bps(graph, load), text);
		html_cell(text, true, out);
		channels_capacity_words(flows->channels->topology, load, true, text, sizeof(text));
		html_cell(text, true, out);
		if (share >= 0)
			fprintf(out,
				"<td data-value=\"%.1f\"><span class=\"meter\"><b "
				"style=\"width:%.0f%%;background:var(--%s)\">"
				"</b></span>%.0f&nbsp;%%</td></tr>\n",
				share * 100, fmin(share, 1) * 100,
				channels_load_is_full(graph, load) ? "alarm" : "band-0", floor(share * 100 + 0.01));
		else
			fputs("<td data-value=\"-1\"></td></tr>\n", out);
	}
	html_table_end(out);
}

/* ------------------------------------------------------------------------------------------------------------- page */

static void put_view_words(const struct channels_flows *flows, size_t index, FILE *out)
{
	char text[600];

	fprintf(out, "<div data-view=\"%zu\"%s><div class=\"headline\">", index, index ? " hidden" : "");
	channels_flows_title(flows, text, sizeof(text));
	draw_xml_escape(text, out);
	fputs("</div><div>By ", out);
	draw_xml_escape(flows->channels->maker, out);
	fputs(". ", out);
	channels_flows_headline(flows, text, sizeof(text));
	draw_xml_escape(text, out);
	fputs("</div></div>\n", out);
}

static void put_head(const struct channels_flows *flows, size_t count, FILE *out)
{
	const struct topology *topology = flows->channels->topology;
	const char *title = topology->name[0] ? topology->name : "Machine";
	char words[160];

	html_begin(title, out);
	fputs("<header>\n<div>\n<h1>", out);
	draw_xml_escape(title, out);
	channels_request_words(flows->channels, words, sizeof(words));
	fprintf(out, "</h1>\n<div class=\"summary\">Channels for %s · GB/s</div>\n", words);
	for (size_t i = 0; i < count; i++)
		put_view_words(&flows[i], i, out);
	fputs("</div>\n<nav>\n<div class=\"group\" id=\"views\">", out);
	for (size_t i = 0; i < count; i++) {
		fprintf(out, "<button data-show=\"%zu\" aria-pressed=\"%s\">%s", i, i ? "false" : "true",
			channels_pattern_word(flows[i].pattern));
		if (flows[i].channels != flows[0].channels)
			fputs(", NCCL", out);
		fputs("</button>", out);
	}
	fputs("</div>\n", out);
	html_buttons(out);
	fputs("</nav>\n</header>\n<main>\n", out);
}

static void put_legend(const struct channels_flows *flows, size_t index, FILE *out)
{
	char words[WORDS_BYTES];

	fprintf(out,
		"<div class=\"channels\" data-view=\"%zu\"%s>\n<p>A stripe is a channel's part of what a link carries; "
		"a "
		"bed filled from edge to edge is full. The numbers at the GPUs are their places in the channel.</p>\n",
		index, index ? " hidden" : "");
	for (size_t i = 0; i < flows->count; i++) {
		channels_flow_words(flows, i, words, sizeof(words));
		fprintf(out, "<button class=\"channel\" data-flow=\"%zu\"><i style=\"background:%s\"></i><span>", i,
			channels_flow_colour(i));
		if (flows->flows[i].count > 1)
			fprintf(out, "%zu × ", flows->flows[i].count);
		draw_xml_escape(words, out);
		fputs("</span></button>\n", out);
	}
	fputs("</div>\n", out);
}

int channels_page(const struct channels_flows *flows, size_t count, FILE *out)
{
	int r;

	put_head(flows, count, out);
	fputs("<section id=\"picture\">\n<div id=\"stage\">\n", out);
	r = channels_svg_inside(flows, count, out);
	if (r < 0)
		return r;
	fputs("</div>\n", out);
	for (size_t i = 0; i < count; i++)
		put_legend(&flows[i], i, out);
	fputs("</section>\n<section id=\"tables\" hidden>\n", out);
	for (size_t i = 0; i < count; i++) {
		fprintf(out, "<div data-view=\"%zu\"%s>\n", i, i ? " hidden" : "");
		put_loads(&flows[i], out);
		put_hops(&flows[i], out);
		fputs("</div>\n", out);
	}
	fputs("</section>\n</main>\n<div id=\"card\" role=\"status\" hidden></div>\n", out);
	return html_end(page_data(flows, count), out);
}
