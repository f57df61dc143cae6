/*
 * What drawings of a machine are made of: boxes, lanes, words, all as SVG elements with their looks as attributes, which
 * every program understands; a page overrides them by class.
 */
#ifndef TRIBUTARY_COMMAND_SHOW_DRAW_H
#define TRIBUTARY_COMMAND_SHOW_DRAW_H

#include "command/show/layout.h"
#include "command/show/pictures.h"

#include <stdio.h>

#define DRAW_INK    "#1b2430"
#define DRAW_SOFT   "#5c6878"
#define DRAW_BED    "#cdd5df"
#define DRAW_PANEL  "#f5f7fa"
#define DRAW_BORDER "#cfd6df"
#define DRAW_ALARM  "#c43c00"
#define DRAW_LIGHT  "#fff3ec"

enum { DRAW_CLIP_BYTES = 160, DRAW_LANE_ROOM = 5, DRAW_LEAST_WIDTH = 940 };

/* The thickest lane carries at least this, so that pictures of slower machines do not look faster. */
#define DRAW_THICKEST_BPS UINT64_C(100000000000)

struct drawing {
	const struct view *view;
	struct layout layout;
	FILE *out;
	uint64_t fastest_Bps;
	double width, height;
};

/* As much of text as fits, with an ellipsis where something is cut off. Never cuts a character of UTF-8 in two. */
void draw_clip(const char *text, double width, double size, char ret[static DRAW_CLIP_BYTES]);
void draw_text(const struct drawing *drawing, double x, double y, double size, const char *style, const char *text);
/* A line of the layout, moved aside: down where it is horizontal, else to the right. style: its attributes. */
void draw_path(const struct drawing *drawing, const struct layout_line *line, double shift, const char *style);
/* Which way a lane's bytes go; on straight lines alone. */
void draw_arrow(const struct drawing *drawing, const struct layout_line *line, double shift, double thickness, bool up);
/* The thickness of a lane's bed, by the view's room, and where its middle is from that of its link. */
double draw_bed(const struct drawing *drawing, uint32_t directed);
double draw_shift(const struct drawing *drawing, uint32_t directed);
/* A word that must not be overlooked; at its left end or its middle. */
void draw_pill(const struct drawing *drawing, double x, double y, bool centred, const char *word);
/* Around both lanes of a link: an edge in the colour of alarm, and light inside. */
void draw_halo(const struct drawing *drawing, uint32_t link);
/* What the pointer can hit of a link, wider than what is seen. */
void draw_hit(const struct drawing *drawing, uint32_t link);
void draw_panels(const struct drawing *drawing);
void draw_box(const struct drawing *drawing, uint32_t vertex);
/* The element that holds all; inside: as part of a page. The background, and <g id="scene">, are begun with it. */
void draw_begin(const struct drawing *drawing, bool inside);
void draw_end(const struct drawing *drawing);
/* A legend of thicknesses; returns where it ends. */
double draw_thicknesses(const struct drawing *drawing, double x, double y);

#endif
