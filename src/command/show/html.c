/* One page that shows the machine and needs nothing else: no network, no other file. */
#include "base/parse.h"
#include "command/json.h"
#include "command/print/units.h"
#include "command/show/page.h"
#include "command/show/pictures.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * The page's style and behaviour are files of their own (page.css, page.js); the assembler takes them in as they are.
 */
__asm__(".pushsection .rodata\n"
	".type html_page_css, %object\n"
	"html_page_css:\n"
	".incbin \"src/command/show/page.css\"\n"
	".byte 0\n"
	".size html_page_css, . - html_page_css\n"
	".type html_page_js, %object\n"
	"html_page_js:\n"
	".incbin \"src/command/show/page.js\"\n"
	".byte 0\n"
	".size html_page_js, . - html_page_js\n"
	".popsection\n");
struct html {
	const struct view *view;
	FILE *out;
};

void html_cell(const char *text, bool number, FILE *out)
{
	fputs(number ? "<td class=\"number\">" : "<td>", out);
	draw_xml_escape(text, out);
	fputs("</td>", out);
}

void html_table_begin(const char *title, const char *attribute, const char *heads, FILE *out)
{
	const char *head;
	size_t bytes;

	fprintf(out, "<h2>%s</h2>\n<table %s><thead><tr>", title, attribute);
	while (parse_list_next(&heads, '|', &head, &bytes)) {
		bool number = *head == '#';

		fprintf(out, "<th%s>%.*s", number ? " class=\"number\"" : "", (int)(bytes - number), head + number);
	}
	fputs("</tr></thead><tbody>\n", out);
}

void html_table_end(FILE *out)
{
	fputs("</tbody></table>\n", out);
}

static void put_cell(const struct html *html, const char *text, bool number)
{
	html_cell(text, number, html->out);
}

/* ------------------------------------------------------------------------------------------------------------ data */

static void rate_with_unit(const struct topology_capacity *capacity, char *text, size_t text_bytes)
{
	char rate[24];

	view_rate_of(capacity, true, rate, sizeof(rate));
	snprintf(text, text_bytes, "%s%s", rate, strcmp(rate, "?") != 0 ? " GB/s" : "");
}

static void share_words(const struct view *view, uint32_t link, char *text, size_t text_bytes)
{
	enum topology_direction worse = view_worse(view, link);
	double share = view->lanes[topology_directed(link, worse)].share;
	bool bound = view->topology->links[link].capacity[worse].provenance == TOPOLOGY_AT_LEAST;

	text[0] = '\0';
	if (share >= 0)
		snprintf(text, text_bytes, "%s%.0f %% of nominal", bound ? "at least " : "", share * 100);
}

static void provenance_words(const struct topology_link *link, char *text, size_t text_bytes)
{
	static const char *const words[TOPOLOGY_PROVENANCE_COUNT] = {
		[TOPOLOGY_UNKNOWN] = "unknown",      [TOPOLOGY_ASSUMED] = "assumed",   [TOPOLOGY_NOMINAL] = "nominal",
		[TOPOLOGY_AT_LEAST] = "lower bound", [TOPOLOGY_MEASURED] = "measured",
	};
	enum topology_provenance up = link->capacity[TOPOLOGY_UP].provenance,
				 down = link->capacity[TOPOLOGY_DOWN].provenance;

	if (up == down)
		snprintf(text, text_bytes, "%s", words[up]);
	else
		snprintf(text, text_bytes, "up %s, down %s", words[up], words[down]);
}

static void spread_words(const struct topology_link *link, char *text, size_t text_bytes)
{
	double up = link->capacity[TOPOLOGY_UP].spread, down = link->capacity[TOPOLOGY_DOWN].spread;

	text[0] = '\0';
	if (up > 0 || down > 0)
		snprintf(text, text_bytes, "±%.1f %%", (up > down ? up : down) * 100);
}

static json_t *link_data(const struct html *html, uint32_t index)
{
	const struct topology *topology = html->view->topology;
	const struct topology_link *link = &topology->links[index];
	char name[2 * TOPOLOGY_NAME_BYTES + 8], words[32], degraded[80], up[40], down[40],
		nominal[40] = "", share[32], known[64], spread[32], date[24];
	struct topology_capacity in_nominal = { .rate_Bps = link->nominal_Bps, .provenance = TOPOLOGY_MEASURED };
	int64_t date_s = link->capacity[0].date_s > link->capacity[1].date_s ? link->capacity[0].date_s
									     : link->capacity[1].date_s;

	snprintf(name, sizeof(name), "%s ↔ %s", topology->vertices[link->lower].name,
		 topology->vertices[link->upper].name);
	view_link_words(topology, link, words, sizeof(words));
	view_degraded(topology, link, degraded, sizeof(degraded));
	rate_with_unit(&link->capacity[TOPOLOGY_UP], up, sizeof(up));
	rate_with_unit(&link->capacity[TOPOLOGY_DOWN], down, sizeof(down));
	if (link->nominal_Bps)
		rate_with_unit(&in_nominal, nominal, sizeof(nominal));
	share_words(html->view, index, share, sizeof(share));
	provenance_words(link, known, sizeof(known));
	spread_words(link, spread, sizeof(spread));
	view_date(date_s, date, sizeof(date));
	return json_pack("{so ss ss ss ss ss ss ss ss ss so sb s[ii]}", "name", json_text(name), "words", words,
			 "degraded", degraded, "up", up, "down", down, "nominal", nominal, "share", share, "provenance",
			 known, "spread", spread, "date", date, "port", json_text(link->pci.port), "bottleneck",
			 html->view->lanes[2 * index].bottleneck || html->view->lanes[2 * index + 1].bottleneck, "ends",
			 (int)link->lower, (int)link->upper);
}

json_t *html_vertex(const struct topology_vertex *vertex)
{
	char words[TOPOLOGY_TEXT_BYTES + 80];

	view_vertex_words(vertex, words, sizeof(words));
	return json_pack("{so so so so so}", "name", json_text(vertex->name), "words", json_text(words), "bus_id",
			 json_text(vertex->bus_id), "interface",
			 json_text(vertex->kind == TOPOLOGY_NIC ? vertex->nic.interface : ""), "model",
			 json_text(strcmp(words, vertex->model) != 0 ? vertex->model : ""));
}

static json_t *page_data(const struct html *html)
{
	const struct topology *topology = html->view->topology;
	json_t *links = json_array(), *vertices = json_array();

	for (uint32_t i = 0; i < topology->link_count; i++)
		json_array_append_new(links, link_data(html, i));
	for (size_t i = 0; i < topology->vertex_count; i++)
		json_array_append_new(vertices, html_vertex(&topology->vertices[i]));
	return json_pack("{so so}", "links", links, "vertices", vertices);
}

/* ---------------------------------------------------------------------------------------------------------- tables */

static void put_rate_cell(const struct html *html, const struct topology_capacity *capacity)
{
	char rate[24];

	view_rate_of(capacity, true, rate, sizeof(rate));
	fprintf(html->out, "<td class=\"number\" data-value=\"%llu\">", (unsigned long long)capacity->rate_Bps);
	draw_xml_escape(rate, html->out);
	fputs("</td>", html->out);
}

static void put_share_cell(const struct html *html, uint32_t link)
{
	enum topology_direction worse = view_worse(html->view, link);
	const struct view_lane *lane = &html->view->lanes[topology_directed(link, worse)];
	bool bound = html->view->topology->links[link].capacity[worse].provenance == TOPOLOGY_AT_LEAST;
	double share = lane->share;

	if (share < 0) {
		fputs("<td data-value=\"9999\"></td>", html->out);
		return;
	}
	fprintf(html->out,
		"<td data-value=\"%.1f\"><span class=\"meter\"><b style=\"width:%.0f%%;background:var(--band-%d)\"></b>"
		"</span>%s%.0f&nbsp;%%</td>",
		share * 100, share > 1 ? 100 : share * 100, (int)lane->band, bound ? "≥" : "", share * 100);
}

static void put_link_row(const struct html *html, uint32_t index)
{
	const struct topology *topology = html->view->topology;
	const struct topology_link *link = &topology->links[index];
	char text[2 * TOPOLOGY_NAME_BYTES + 16], degraded[80];

	fprintf(html->out, "<tr data-row=\"%u\">", index);
	put_cell(html, topology->vertices[link->lower].name, false);
	put_cell(html, topology->vertices[link->upper].name, false);
	view_link_words(topology, link, text, sizeof(text));
	view_degraded(topology, link, degraded, sizeof(degraded));
	fputs("<td>", html->out);
	draw_xml_escape(text, html->out);
	if (*degraded)
		fprintf(html->out, " <span class=\"warn\">%s</span>", degraded);
	if (html->view->lanes[2 * index].bottleneck || html->view->lanes[2 * index + 1].bottleneck)
		fputs(" <span class=\"tag\">bottleneck</span>", html->out);
	fputs("</td>", html->out);
	put_rate_cell(html, &link->capacity[TOPOLOGY_UP]);
	put_rate_cell(html, &link->capacity[TOPOLOGY_DOWN]);
	units_GBps(link->nominal_Bps, text);
	put_cell(html, link->nominal_Bps ? text : "", true);
	put_share_cell(html, index);
	provenance_words(link, text, sizeof(text));
	put_cell(html, text, false);
	spread_words(link, text, sizeof(text));
	put_cell(html, text, true);
	fputs("</tr>\n", html->out);
}

static void put_pair_row(const struct html *html, const struct topology_pair *pair)
{
	const struct topology *topology = html->view->topology;

	fputs("<tr>", html->out);
	put_cell(html, topology->vertices[pair->from].name, false);
	put_cell(html, topology->vertices[pair->to].name, false);
	put_cell(html, topology_class_word(topology_class_of(topology, pair->from, pair->to)), false);
	put_cell(html, pair->p2p_works ? "yes" : "no", false);
	put_rate_cell(html, &pair->p2p);
	put_rate_cell(html, &pair->host);
	fputs("</tr>\n", html->out);
}

static void put_limit_row(const struct html *html, const struct topology_limit *limit)
{
	char name[2 * TOPOLOGY_NAME_BYTES + 16];

	fputs("<tr>", html->out);
	put_cell(html, limit->name, false);
	put_rate_cell(html, &limit->capacity);
	fputs("<td>", html->out);
	for (size_t i = 0; i < limit->member_count; i++) {
		if (topology_directed_name(html->view->topology, limit->members[i], name, sizeof(name)))
			continue;
		fputs(i ? ", " : "", html->out);
		draw_xml_escape(name, html->out);
	}
	fputs("</td></tr>\n", html->out);
}

static void put_tables(const struct html *html)
{
	const struct topology *topology = html->view->topology;

	fputs("<section id=\"tables\" hidden>\n", html->out);
	html_table_begin("Links, GB/s", "id=\"links\"",
			 "from|to (nearer the CPU)|link|#up|#down|#nominal|of nominal|known by|#spread", html->out);
	for (uint32_t i = 0; i < topology->link_count; i++)
		put_link_row(html, i);
	html_table_end(html->out);
	if (topology->limit_count) {
		html_table_begin("Not all at once, GB/s", "id=\"limits\"", "limit|#together|over", html->out);
		for (size_t i = 0; i < topology->limit_count; i++)
			put_limit_row(html, &topology->limits[i]);
		html_table_end(html->out);
	}
	if (topology->pair_count) {
		html_table_begin("Pairs of GPUs, GB/s", "id=\"pairs\"",
				 "from|to|class|P2P|#by P2P|#through host memory", html->out);
		for (size_t i = 0; i < topology->pair_count; i++)
			put_pair_row(html, &topology->pairs[i]);
		html_table_end(html->out);
	}
	fputs("</section>\n", html->out);
}

/* ------------------------------------------------------------------------------------------------------------ page */

void html_begin(const char *title, FILE *out)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
	      "script-src 'unsafe-inline'; img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n<title>",
	      out);
	draw_xml_escape(title, out);
	fprintf(out, " – Tributary</title>\n<style>\n%s</style>\n</head>\n<body>\n", html_page_css);
}

/* In a page's script element "</script" would end it, wherever it stands. */
int html_end(json_t *data, FILE *out)
{
	char *text = data ? json_dumps(data, JSON_COMPACT) : NULL;

	json_decref(data);
	if (!text)
		return -ENOMEM;
	fputs("<script type=\"application/json\" id=\"data\">", out);
	for (const char *at = text; *at; at++) {
		if (*at == '<')
			fputs("\\u003c", out);
		else
			fputc(*at, out);
	}
	free(text);
	fprintf(out, "</script>\n<script>\n%s</script>\n</body>\n</html>\n", html_page_js);
	return 0;
}

void html_buttons(FILE *out)
{
	fputs("<div class=\"group\" id=\"zoom\"><button id=\"farther\" title=\"farther (-)\">−</button>"
	      "<button id=\"fit\" title=\"all of it (0)\"><span id=\"level\">100 %</span></button>"
	      "<button id=\"closer\" title=\"closer (+)\">+</button></div>\n"
	      "<div class=\"group\"><button id=\"as-picture\" aria-pressed=\"true\">Picture</button>"
	      "<button id=\"as-table\" aria-pressed=\"false\">Table</button></div>\n"
	      "<button id=\"theme\" aria-pressed=\"false\" title=\"light or dark\">Dark</button>\n",
	      out);
}

static void put_head(const struct html *html)
{
	const struct topology *topology = html->view->topology;
	const char *title = topology->name[0] ? topology->name : "Machine";
	char snapshot[160], measured[80], text[600];

	html_begin(title, html->out);
	fputs("<header>\n<div>\n<h1>", html->out);
	draw_xml_escape(title, html->out);
	view_snapshot(topology, snapshot, sizeof(snapshot));
	view_measured(html->view, measured, sizeof(measured));
	fprintf(html->out, "</h1>\n<div class=\"summary\">%s · %s · GB/s</div>\n", snapshot, measured);
	view_bottleneck(html->view, true, text, sizeof(text));
	fputs("<div class=\"headline\">", html->out);
	draw_xml_escape(text, html->out);
	fputs("</div>\n</div>\n<nav>\n", html->out);
	html_buttons(html->out);
	fputs("</nav>\n</header>\n<main>\n", html->out);
}

static void put_legend(const struct html *html)
{
	fputs("<div class=\"legend\"><span>measured over nominal:</span>", html->out);
	for (int band = 0; band < VIEW_BAND_COUNT; band++)
		if (view_has_band(html->view, (enum view_band)band))
			fprintf(html->out, "<span><i style=\"background-color:var(--band-%d)\"></i>%s</span>", band,
				view_band_words((enum view_band)band));
	fputs("<span>thickness: capacity; the pale bed: what the slot could</span><span>(12) "
	      "nominal</span><span>~12 assumed</span><span>≥12 at least</span></div>\n",
	      html->out);
}

int html_print(const struct view *view, FILE *out)
{
	struct html html = { .view = view, .out = out };
	int r;

	put_head(&html);
	fputs("<section id=\"picture\">\n<div id=\"stage\">\n", out);
	r = svg_print(view, true, out);
	if (r < 0)
		return r;
	fputs("</div>\n", out);
	put_legend(&html);
	fputs("</section>\n", out);
	put_tables(&html);
	fputs("</main>\n<div id=\"card\" role=\"status\" hidden></div>\n", out);
	return html_end(page_data(&html), out);
}
