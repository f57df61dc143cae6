/* SPDX-License-Identifier: Apache-2.0 */
/* A machine's rates as a picture: a stream in each lane, as wide as what it carries, coloured by measured over nominal. */
#include "command/print/units.h"
#include "command/show/picture.h"

#include <math.h>
#include <string.h>

static double put_lane(const struct picture *picture, uint32_t directed, double middle)
{
	const struct view_lane *lane = &picture->view->lanes[directed];
	double thickness = picture_thickness(picture, lane->rate_Bps);
	char class[32];

	snprintf(class, sizeof(class), "stream band-%d", (int)lane->band);
	picture_stripe(picture, directed, class, -1, view_band_colour(lane->band), middle, thickness);
	return thickness;
}

static void words_of(const void *arg, uint32_t index, struct picture_words *ret)
{
	const struct view *view = arg;
	const struct topology_link *link = &view->topology->links[index];
	char nominal[24];

	view_rate_of(&link->capacity[TOPOLOGY_UP], true, ret->up, sizeof(ret->up));
	view_rate_of(&link->capacity[TOPOLOGY_DOWN], true, ret->down, sizeof(ret->down));
	view_link_words(view->topology, link, ret->what, sizeof(ret->what));
	view_degraded(view->topology, link, ret->alarm, sizeof(ret->alarm));
	snprintf(ret->title, sizeof(ret->title), "%s%s%s; up %s, down %s, nominal %s GB/s", ret->what,
		 *ret->alarm ? ", trained at " : "", ret->alarm, ret->up, ret->down,
		 units_GBps(link->nominal_Bps, nominal));
	if (view->lanes[2 * index].bottleneck || view->lanes[2 * index + 1].bottleneck)
		ret->pill = "bottleneck";
	if (strcmp(ret->up, "?") != 0 || strcmp(ret->down, "?") != 0)
		return;
	ret->up[0] = ret->down[0] = '\0';
	if (link->kind == TOPOLOGY_LINK_INTERNAL)
		ret->what[0] = '\0';
}

static bool has_provenance(const struct topology *topology, enum topology_provenance provenance)
{
	for (size_t i = 0; i < topology->link_count; i++)
		for (int way = 0; way < 2; way++)
			if (topology->links[i].capacity[way].provenance == provenance)
				return true;
	return false;
}

/* Of the bands and signs that the drawing has; and of round rates up to the fastest link's. */
static void put_legend(struct picture *picture)
{
	static const double parts[] = { 0.05, 0.25, 1 };
	static const char *const signs[TOPOLOGY_PROVENANCE_COUNT] = { [TOPOLOGY_NOMINAL] = "(12) nominal",
								      [TOPOLOGY_ASSUMED] = "~12 assumed",
								      [TOPOLOGY_AT_LEAST] = "≥12 at least" };
	double last = 0;
	char text[32];

	picture_legend(picture, NULL, -1, "", 0, "measured over nominal:");
	for (int band = 0; band < VIEW_BAND_COUNT; band++) {
		enum view_band at = (enum view_band)band;

		snprintf(text, sizeof(text), "stream band-%d", band);
		if (view_has_band(picture->view, at))
			picture_legend(picture, text, -1, view_band_colour(at), 9, view_band_words(at));
	}
	picture_legend(picture, NULL, -1, "", 0, "thickness, each direction:");
	for (size_t i = 0; i < 3; i++) {
		double GBps = (double)picture->fastest_Bps / 1e9 * parts[i],
		       unit = pow(10, floor(log10(GBps > 0 ? GBps : 1)));

		GBps = floor(GBps / unit) * unit;
		if (GBps <= last)
			continue;
		last = GBps;
		snprintf(text, sizeof(text), "%g GB/s", GBps);
		picture_legend(picture, "sample", -1, "#5c6878", picture_thickness(picture, (uint64_t)(GBps * 1e9)),
			       text);
	}
	for (int i = 0; i < TOPOLOGY_PROVENANCE_COUNT; i++)
		if (signs[i] && has_provenance(picture->view->topology, (enum topology_provenance)i))
			picture_legend(picture, NULL, -1, "", 0, signs[i]);
	picture_legend(picture, NULL, -1, "", 0, "↑ to the CPU");
}

int svg_print(const struct view *view, FILE *out)
{
	struct picture_content content = {
		.view = view, .arg = view, .put_lane = put_lane, .words = words_of, .put_legend = put_legend
	};

	view_bottleneck(view, true, content.headline, sizeof(content.headline));
	view_summary(view, content.note, sizeof(content.note));
	return picture_print(&content, out);
}
