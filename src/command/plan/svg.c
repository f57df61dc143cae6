/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels on the machine. In each lane a stripe for each flow, as wide as its part of the lane's capacity, coloured by the
 * lane's load: where the bed is filled from edge to edge nothing more goes through. What is full stands out. The GPUs' numbers
 * are the hops of each channel, in its own colour; a page shows a channel alone in that. Of several hosts, which are alike, one
 * is drawn, and all of them below it at the network.
 */
#include "command/plan/flows.h"

#include "base/minmax.h"
#include "command/print/units.h"
#include "command/show/picture.h"

#include <math.h>
#include <string.h>

static const uint64_t UNKNOWN_ROOM_BPS = 10000000000;

enum {
	PIPS_MOST = 3,
	PIP_RADIUS = 8,
	WORDS_BYTES = 2048,
	BANDS = 5,
	HOSTS_TOP = 14, /* between the machine and the network below it */
	NETWORK_HEIGHT = 26,
	HOST_STEP = 126,
	HOST_GAP = 56,
	HOST_HEIGHT = 30,
};

static const char *const bands[BANDS] = { "below 20 %", "20 to 40 %", "40 to 60 %", "60 to 85 %", "85 % and more" };
static const double middles[BANDS] = { 0.1, 0.3, 0.5, 0.72, 1 };

/* Of the colours of view.h: from the best to the worst; what has no known capacity that of what is not measured. */
static enum view_band band_of(double share)
{
	static const double steps[BANDS - 1] = { 0.2, 0.4, 0.6, 0.85 };
	int band = 0;

	while (band < BANDS - 1 && share >= steps[band])
		band++;
	return share < 0 ? VIEW_UNMEASURED : (enum view_band)band;
}

static double put_lane(const struct picture *picture, uint32_t directed, double middle)
{
	const struct channels_flows *flows = picture->content->arg;
	double bed = picture_bed(picture, directed), share = flows->share[directed], at, whole;
	uint64_t crossings = 0;
	char class[40];

	for (size_t i = 0; i < flows->count; i++)
		crossings += flows->flows[i].crossings[directed] * flows->flows[i].count;
	if (!crossings)
		return 0;
	whole = share >= 0 ? bed * fmin(share, 1) : bed;
	at = middle - whole / 2;
	for (size_t i = 0; i < flows->count; i++) {
		const struct channels_flow *flow = &flows->flows[i];
		double part = whole * (double)(flow->crossings[directed] * flow->count) / (double)crossings;

		snprintf(class, sizeof(class), "flow flow-%zu band-%d", flow->channel, (int)band_of(share));
		if (part > 0) /* with a gap to the next one, where there is room */
			picture_stripe(picture, directed, class, (int)flow->channel, view_band_colour(band_of(share)),
				       at + part / 2, part > 3 && flows->count > 1 ? part - 0.8 : part);
		at += part;
	}
	return whole;
}

/* "98 %"; "" for what carries nothing or has no known capacity. */
static void percent(const struct channels_flows *flows, uint32_t directed, char *text, size_t text_bytes)
{
	if (flows->share[directed] >= 0 && flows->load_Bps[directed] > 0)
		snprintf(text, text_bytes, "%.0f %%", floor(flows->share[directed] * 100 + 0.01));
}

static void lane_words(const struct channels_flows *flows, uint32_t directed, char *text, size_t text_bytes)
{
	const struct topology *topology = flows->channels->topology;
	char rate[24], most[24];

	units_GBps((uint64_t)flows->load_Bps[directed], rate);
	view_rate_of(&topology->links[directed / 2].capacity[directed % 2], true, most, sizeof(most));
	snprintf(text, text_bytes, "%s of %s GB/s", flows->load_Bps[directed] > 0 ? rate : "0", most);
}

static void words_of(const void *arg, uint32_t link, struct picture_words *ret)
{
	const struct channels_flows *flows = arg;
	char up[64], down[64];

	percent(flows, 2 * link, ret->up, sizeof(ret->up));
	percent(flows, 2 * link + 1, ret->down, sizeof(ret->down));
	lane_words(flows, 2 * link, up, sizeof(up));
	lane_words(flows, 2 * link + 1, down, sizeof(down));
	snprintf(ret->title, sizeof(ret->title), "%s; back %s", up, down);
	if (!flows->full_is_own && (flows->full[2 * link] || flows->full[2 * link + 1]))
		ret->pill = "full";
}

/* One direction is enough. */
static bool nic_is_full(const struct channels_graph *graph, uint32_t nic)
{
	for (size_t i = 0; i < graph->load_count; i++) {
		const struct plan_load *load = &graph->loads[i];

		if ((load->kind == PLAN_LOAD_NIC_IN || load->kind == PLAN_LOAD_NIC_OUT) && load->index == nic &&
		    channels_load_is_full(graph, load))
			return true;
	}
	return false;
}

/* A NIC whose own speed is used up, where its wire is no link of the graph. */
static void put_full_nics(const struct picture *picture)
{
	const struct channels_flows *flows = picture->content->arg;
	const struct channels_graph *graph = &flows->channels->graphs[flows->pattern];

	for (uint32_t i = 0; i < picture->view->topology->vertex_count; i++) {
		const struct layout_box *box = &picture->layout.boxes[i];

		if (!nic_is_full(graph, i))
			continue;
		fprintf(picture->out,
			"<rect class=\"halo\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"10\" "
			"fill=\"none\" stroke=\"" PICTURE_ALARM "\" stroke-width=\"2.5\"/>\n",
			box->x - 3.5, box->y - 3.5, box->width + 7, box->height + 7);
		picture_pill(picture, box->x + box->width - 30, box->y - 12, false, "full");
	}
}

/* The place of each GPU in each flow, at the right of its name. Of many flows a page shows one at a time. */
static void put_pips(const struct picture *picture)
{
	const struct channels_flows *flows = picture->content->arg;
	const struct channels *channels = flows->channels;
	const struct plan *plan = &channels->graphs[flows->pattern].plan;
	bool many = flows->count > PIPS_MOST;

	for (size_t i = 0; i < flows->count; i++) {
		double aside = many ? 0 : (double)(flows->count - 1 - i) * (2 * PIP_RADIUS + 2);
		size_t channel = flows->flows[i].channel;

		fprintf(picture->out, "<g class=\"pips flow-%zu%s\"%s>\n", channel, many ? " many" : "",
			many ? " visibility=\"hidden\"" : "");
		for (size_t place = 0; place < plan->gpu_count; place++) {
			uint32_t gpu = channels->request.gpus[plan->channels[channel].order[place]];
			const struct layout_box *box = &picture->layout.boxes[gpu];
			double x = box->x + box->width - PIP_RADIUS - 6 - aside, y = box->y + PIP_RADIUS + 7;
			char text[8], style[80];

			fprintf(picture->out,
				"<g class=\"pip\"><circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"%s\"/>\n", x, y,
				PIP_RADIUS, channels_flow_colour(i));
			snprintf(text, sizeof(text), "%u", (unsigned)(place + 1));
			snprintf(style, sizeof(style), "fill=\"%s\" font-weight=\"700\" text-anchor=\"middle\"",
				 i % 2 ? PICTURE_INK : "#fff");
			picture_text(picture, x, y + 3.6, 10, style, text);
			fputs("</g>\n", picture->out);
		}
		fputs("</g>\n", picture->out);
	}
	put_full_nics(picture);
}

static void put_legend(struct picture *picture)
{
	const struct channels_flows *flows = picture->content->arg;
	char words[WORDS_BYTES], line[WORDS_BYTES + 32], class[40];

	picture_legend(picture, NULL, -1, "", 0, "load of each direction, how far it is filled:");
	for (int band = 0; band < BANDS; band++) {
		snprintf(class, sizeof(class), "load band-%d", band);
		picture_legend_load(picture, class, view_band_colour((enum view_band)band), middles[band], bands[band]);
	}
	picture_legend(picture, NULL, -1, "", 0, "stripe: a channel's part; numbers: its order of GPUs");
	for (size_t i = 0; i < flows->count; i++) {
		const struct channels_flow *flow = &flows->flows[i];

		channels_flow_words(flows, i, words, sizeof(words));
		if (flow->count > 1)
			snprintf(line, sizeof(line), "%zu ×  %s", flow->count, words);
		else
			snprintf(line, sizeof(line), "%s", words);
		snprintf(class, sizeof(class), "flow flow-%zu", flow->channel);
		picture_legend(picture, class, (int)flow->channel, channels_flow_colour(i), 9, line);
	}
}

/* Whether a load is what NICs send, or what they receive: that of a NIC itself, or of its link to a network. */
static bool is_of_nic(const struct topology *topology, const struct plan_load *load, bool out)
{
	const struct topology_link *link;
	bool up = load->index % 2 == TOPOLOGY_UP;

	if (load->kind != PLAN_LOAD_LINK)
		return load->kind == (out ? PLAN_LOAD_NIC_OUT : PLAN_LOAD_NIC_IN);
	link = &topology->links[load->index / 2];
	return topology->vertices[up == out ? link->upper : link->lower].kind == TOPOLOGY_NETWORK;
}

/* The fullest NIC; negative: not known. */
static double nic_share(const struct channels_flows *flows, bool out)
{
	const struct channels_graph *graph = &flows->channels->graphs[flows->pattern];
	double most = -1;

	for (size_t i = 0; i < graph->load_count; i++)
		if (is_of_nic(flows->channels->topology, &graph->loads[i], out))
			most = fmax(most, channels_load_share(graph, &graph->loads[i]));
	return most;
}

static void put_box(const struct picture *picture, const struct layout_box *box, const char *class, const char *fill,
		    const char *ink, const char *words)
{
	char style[160];

	fprintf(picture->out,
		"<g class=\"%s\"><rect class=\"box\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"6\" "
		"fill=\"%s\"/>\n",
		class, box->x, box->y, box->width, box->height, fill);
	snprintf(style, sizeof(style), "class=\"name\" fill=\"%s\" font-weight=\"700\" text-anchor=\"middle\"", ink);
	picture_text(picture, box->x + box->width / 2, box->y + box->height / 2 + 4.5, 12, style, words);
	fputs("</g>\n", picture->out);
}

static void put_host(const struct picture *picture, const struct layout_box *box, unsigned number)
{
	char text[40];

	for (int i = 0; i < 2; i++) {
		double share = nic_share(picture->content->arg, i == 0), x = box->x + 14 + 13 * i,
		       y = box->y - HOST_GAP;

		fprintf(picture->out,
			"<path class=\"bed\" d=\"M%.1f %.1fv%d\" stroke=\"#cdd5df\" stroke-width=\"10\"/>\n"
			"<path class=\"stream band-%d\" d=\"M%.1f %.1fv%d\" stroke=\"%s\" stroke-width=\"%.1f\"/>\n",
			x, y, HOST_GAP, (int)band_of(share), x, y, HOST_GAP, view_band_colour(band_of(share)),
			share < 0 ? 10 : 10 * fmin(share, 1));
		if (share >= 0)
			snprintf(text, sizeof(text), "%s %.0f %%", i ? "↓" : "↑", floor(share * 100 + 0.01));
		else
			snprintf(text, sizeof(text), "%s ?", i ? "↓" : "↑");
		picture_text(picture, box->x + 38, y + 24 + 15 * i, 12,
			     "class=\"rate\" fill=\"" PICTURE_INK "\" font-weight=\"700\"", text);
	}
	snprintf(text, sizeof(text), number == 1 ? "host 1, above" : "host %u", number);
	put_box(picture, box, "host", "#e6eaf0", PICTURE_INK, text);
}

/* The network, and all hosts at it; of more than there is room for, the first ones and the last. */
static void put_hosts(const struct picture *picture, double y)
{
	const struct channels_flows *flows = picture->content->arg;
	unsigned hosts = flows->channels->request.hosts, room, shown;
	struct layout_box box = picture->layout.drawing;
	char words[128] = "network";

	box.y = y + HOSTS_TOP;
	box.height = NETWORK_HEIGHT;
	room = (unsigned)(box.width / HOST_STEP);
	shown = hosts < room ? hosts : room;
	if (flows->pattern == PLAN_RING)
		snprintf(words, sizeof(words), "network: host 1 → %s%s%u → host 1",
			 hosts > 3   ? "host 2 → … → "
			 : hosts > 2 ? "host 2 → "
				     : "",
			 "host ", hosts);
	put_box(picture, &box, "network", "#7d4c9e", "#ffffff", words);
	box = (struct layout_box){ box.x, box.y + box.height + HOST_GAP, HOST_STEP - 16, HOST_HEIGHT };
	for (unsigned i = 0; i < shown; i++, box.x += HOST_STEP) {
		if (hosts > shown && i + 2 == shown)
			picture_text(picture, box.x + HOST_STEP / 2.0 - 8, box.y + 20, 20,
				     "class=\"rate\" text-anchor=\"middle\"", "…");
		else
			put_host(picture, &box, hosts > shown && i + 1 == shown ? hosts : i + 1);
	}
}

/* Lanes are as wide as what is known of their capacity, or else as what goes over them. */
static int make_view(const struct channels_flows *flows, struct view *ret)
{
	const struct topology *topology = flows->channels->topology;
	int r = view_make(topology, ret);

	for (size_t i = 0; r == 0 && i < 2 * topology->link_count; i++) {
		struct view_lane *lane = &ret->lanes[i];

		lane->rate_Bps = topology->links[i / 2].capacity[i % 2].rate_Bps;
		lane->room_Bps = lane->rate_Bps ? lane->rate_Bps
						: max_u64((uint64_t)flows->load_Bps[i], UNKNOWN_ROOM_BPS);
	}
	return r;
}

int channels_svg(const struct channels_flows *flows, FILE *out)
{
	struct picture_content content = {
		.arg = flows, .put_lane = put_lane, .words = words_of, .put_marks = put_pips, .put_legend = put_legend
	};
	char words[160], full[400];
	struct view view;
	int r = make_view(flows, &view);

	if (r < 0)
		return r;
	content.view = &view;
	if (flows->channels->request.hosts > 1) {
		content.put_below = put_hosts;
		content.below_height = HOSTS_TOP + NETWORK_HEIGHT + HOST_GAP + HOST_HEIGHT;
	}
	channels_flows_title(flows, content.headline, sizeof(content.headline));
	channels_request_words(flows->channels, words, sizeof(words));
	channels_flows_headline(flows, full, sizeof(full));
	snprintf(content.note, sizeof(content.note), "%s, by %s%s%s", words, flows->channels->maker,
		 *full ? "  ·  " : "", full);
	r = picture_print(&content, out);
	view_free(&view);
	return r;
}

int channels_draw(const struct channels *channels, enum plan_pattern pattern, FILE *out)
{
	struct channels_flows flows;
	int r = channels_flows_make(channels, pattern, &flows);

	if (r < 0)
		return r;
	r = channels_svg(&flows, out);
	channels_flows_free(&flows);
	return r;
}

int channels_draw_all(const struct channels *channels, FILE *out)
{
	int r = 0;

	for (int i = 0; i < PLAN_PATTERN_COUNT && r == 0; i++)
		if (channels->has[i])
			r = channels_draw(channels, (enum plan_pattern)i, out);
	return r;
}
