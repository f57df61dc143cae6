/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary show`: pictures of a machine. */
#include "command/command.h"

#include "command/file.h"
#include "command/json.h"
#include "command/show/page.h"
#include "command/show/view.h"
#include "command/source.h"

#include <stdlib.h>
#include <string.h>

static json_t *lane_of(const struct view_lane *lane)
{
	return json_pack("{so sb}", "share_of_nominal", lane->share >= 0 ? json_real(lane->share) : json_null(),
			 "bottleneck", lane->bottleneck);
}

static json_t *show_json(const struct view *view, const struct source *source)
{
	json_t *value = json_topology(view->topology), *links = json_object_get(value, "links");
	char text[512];

	for (size_t i = 0; i < view->topology->link_count; i++) {
		json_t *link = json_array_get(links, i);

		json_object_update_new(json_object_get(link, "up"), lane_of(&view->lanes[2 * i]));
		json_object_update_new(json_object_get(link, "down"), lane_of(&view->lanes[2 * i + 1]));
	}
	view_summary(view, text, sizeof(text));
	json_object_set_new(value, "summary", json_text(text));
	view_bottleneck(view, true, text, sizeof(text));
	json_object_set_new(value, "bottleneck", json_known_text(text));
	json_object_set_new(value, "bottleneck_pair_Bps", json_known(view->bottleneck_pair_Bps));
	json_object_set_new(value, "profile", json_known_text(source->profile_path));
	return value;
}

struct shown {
	const struct source *source;
	struct view view;
};

static int draw_svg(const void *arg, FILE *to)
{
	const struct shown *shown = arg;

	return svg_print(&shown->view, to);
}

static int draw_page(const void *arg, FILE *to)
{
	const struct shown *shown = arg;
	int r;

	page_begin(shown->source->topology.name, to);
	r = svg_print(&shown->view, to);
	return r < 0 ? r : page_end("tributary-show 1", show_json(&shown->view, shown->source), to);
}

static int show(const struct command_call *call, struct source *source, FILE *out)
{
	struct term term = term_of(call, out);
	const char *svg = command_value(call, "svg"), *page = command_value(call, "html");
	struct shown shown = { .source = source };
	int status = COMMAND_OK, r;

	r = view_make(&source->topology, &shown.view);
	if (r < 0)
		return command_failed(NULL, r, "the picture cannot be drawn");
	if (svg)
		status = file_put_made(svg, "the picture cannot be drawn", draw_svg, &shown, out);
	if (page && status == COMMAND_OK)
		status = file_put_made(page, "the picture cannot be drawn", draw_page, &shown, out);
	if (status == COMMAND_OK && command_given(call, "json"))
		status = json_print("tributary-show 1", show_json(&shown.view, source), out);
	else if (status == COMMAND_OK && !svg && !page)
		status = tree_print(&shown.view, &term, out) < 0 ? COMMAND_FAILED : COMMAND_OK;
	view_free(&shown.view);
	return status;
}

static int run(const struct command_call *call, FILE *out)
{
	return source_run(call, out, show);
}

const struct command command_show = {
	.name = "show",
	.group = COMMAND_SEE,
	.operands = "",
	.help = "draw the machine: what each link carries, and where the bottleneck is",
	.about = "Without --svg or --html: a tree of text with a bar of measured over nominal rate at each "
		 "link. With a profile and no --from: the machine that the profile describes.\n"
		 "The bottleneck is the link that leaves each pair of GPUs least when all exchange data with all "
		 "others.",
	.options = { COMMAND_OPTION_FROM,
		     COMMAND_OPTION_PROFILE,
		     { "svg", "FILE", "a picture: thickness is capacity, colour is measured over nominal", NULL },
		     { "html", "FILE", "one page that needs no network: zoom, numbers on hover, a table", NULL },
		     COMMAND_OPTION_JSON,
		     COMMAND_OPTION_COLOR },
	.example = "tributary show --html machine.html",
	.run = run,
};
