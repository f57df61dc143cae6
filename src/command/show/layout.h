/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where everything stands in a drawn machine. CPUs are bars at the top with their memory above them; below, nested
 * bars of host bridges and switches, each as wide as what hangs below it, so that every link of the tree is straight;
 * devices in one row; NVSwitches and networks below them. Pure. Lengths in pixels.
 */
#ifndef TRIBUTARY_COMMAND_SHOW_LAYOUT_H
#define TRIBUTARY_COMMAND_SHOW_LAYOUT_H

#include "command/show/view.h"

struct layout_box {
	double x, y, width, height;
};

/* The way of a link: straight from (x0, y0) to (x1, y1), or bent by control points at (x0, cy) and (x1, cy). */
struct layout_line {
	double x0, y0, x1, y1;
	double cy;
	bool curved;
	bool bracket; /* out to side_x, down, and back: between a panel and the one below it */
	double side_x;
	bool horizontal; /* between sockets: lanes lie above each other */
	bool reversed;   /* `lower` is at the right, or above */
	bool labelled;   /* there is room for words beside it */
	double label_x, label_y;
	bool label_centred;
};

struct layout {
	void *memory;              /* of the arrays */
	struct layout_box *boxes;  /* by vertex */
	struct layout_box *panels; /* by vertex: around a root and all below it; width 0: none */
	struct layout_line *lines; /* by link */
	struct layout_box drawing; /* all of them */
};

int layout_make(const struct view *view, double top, struct layout *ret);
void layout_free(struct layout *layout);

enum { LAYOUT_MARGIN = 36 };

#endif
