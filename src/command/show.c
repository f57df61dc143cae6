/* `tributary show`: pictures of a machine. */
#include "command/command.h"

#include "command/file.h"
#include "command/json.h"
#include "command/show/pictures.h"
#include "command/source.h"

#include <stdlib.h>
#include <string.h>

static int draw_svg(const void *view, FILE *to)
{
	return svg_print(view, false, to);
}

static int draw_page(const void *view, FILE *to)
{
	return html_print(view, to);
}

static json_t *lane_of(const struct view_lane *lane)
{
	return json_pack("{so sb}", "share_of_nominal", lane->share >= 0 ? json_real(lane->share) : json_null(),
			 "bottleneck", lane->bottleneck);
}

static int print_json(const struct view *view, const struct source *source, FILE *out)
{
	json_t *value = json_topology(view->topology), *links = json_object_get(value, "links");
	char text[512];

	for (size_t i = 0; i < view->topology->link_count; i++) {
		json_t *link = json_array_get(links, i);

		json_object_update_new(json_object_get(link, "up"), lane_of(&view->lanes[2 * i]));
		json_object_update_new(json_object_get(link, "down"), lane_of(&view->lanes[2 * i + 1]));
	}
	view_bottleneck(view, true, text, sizeof(text));
	json_object_set_new(value, "bottleneck", *text ? json_text(text) : json_null());
	json_object_set_new(value, "bottleneck_pair_Bps", json_known(view->bottleneck_pair_Bps));
	json_object_set_new(value, "profile", source->profiled ? json_text(source->profile_path) : json_null());
	return json_print("tributary-show 1", value, out);
}

static int show(const struct command_call *call, struct source *source, FILE *out)
{
	struct term term = term_of(call, out);
	const char *svg = command_value(call, "svg"), *page = command_value(call, "html");
	int status = COMMAND_OK, r;
	struct view view;

	r = view_make(&source->topology, &view);
	if (r < 0)
		return command_failed(NULL, r, "the picture cannot be drawn");
	if (svg)
		status = file_put_made(svg, "the picture cannot be drawn", draw_svg, &view, out);
	if (page && status == COMMAND_OK)
		status = file_put_made(page, "the picture cannot be drawn", draw_page, &view, out);
	if (status == COMMAND_OK && command_given(call, "json"))
		status = print_json(&view, source, out);
	else if (status == COMMAND_OK && !svg && !page)
		status = tree_print(&view, &term, out) < 0 ? COMMAND_FAILED : COMMAND_OK;
	view_free(&view);
	return status;
}

static int run(const struct command_call *call, FILE *out)
{
	return source_run(call, out, show);
}

const struct command command_show = {
	.name = "show",
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
	.run = run,
};
