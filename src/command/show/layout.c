/* SPDX-License-Identifier: Apache-2.0 */
#include "command/show/layout.h"

#include "base/sys.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	COLUMN = 116,     /* of one device, with the room beside it */
	ROOT_COLUMNS = 2, /* the least of a CPU: its memory stands above it */
	BOX_PAD = 7,      /* around each box, left and right */
	PANEL_PAD = 16,   /* inside a panel */
	PANEL_GAP = 70,   /* between panels: the link between sockets and its rate */
	LINK_GAP = 80,    /* between rows: a link and the words beside it */
	BARE_GAP = 34,    /* the same where there are no words */
	DEVICE_GAP = 88,
	DEVICE_HEIGHT = 74,
	MEMORY_WIDTH = 132,
	MEMORY_HEIGHT = 36,
	MEMORY_GAP = 58,
	NETWORK_HEIGHT = 26,
	NETWORK_GAP = 72,
	LINK_X = 28,    /* of a narrow box's own link, from its left: the words stand to the right */
	ARC = 38,       /* how far links between GPUs hang below them, for neighbours */
	ARC_MORE = 15,  /* and for each column more */
	ARC_WORDS = 44, /* below an arc: half of it, and its words */
	SOCKET_ARC = 46,
	STACK_WIDTH = 1400, /* two panels that are wider together stand one above the other */
	STACK_GAP = 24,
	BRACKET = 34,       /* the link between those, from the panels' right */
	BRACKET_WORDS = 90, /* and its words */
};

static const double ARC_BEND = 0.75; /* how near a cubic curve comes to its control points' line */

/* Of bars. */
struct row {
	double y, height;
	bool has_words; /* beside the links from it upwards */
};

struct placing {
	const struct view *view;
	struct layout *layout;
	struct row *rows; /* by depth */
	unsigned row_count;
	double devices_y;
	unsigned *positions; /* of roots, from the left */
	bool stacked;
	double below; /* the lowest point of all that is placed */
};

void layout_free(struct layout *layout)
{
	sys_free(layout->memory);
	memset(layout, 0, sizeof(*layout));
}

static enum topology_kind kind_of(const struct placing *placing, uint32_t vertex)
{
	return placing->view->topology->vertices[vertex].kind;
}

static bool is_leaf(const struct placing *placing, uint32_t vertex)
{
	return view_is_device(&placing->view->topology->vertices[vertex]);
}

/* Of one NIC, which it hangs on. */
static bool is_own_network(const struct placing *placing, uint32_t vertex)
{
	return kind_of(placing, vertex) == TOPOLOGY_NETWORK && placing->view->parent[vertex] != TOPOLOGY_NONE;
}

/* What stands below the devices, each a bar as wide as all of them. */
static bool is_below(const struct placing *placing, uint32_t vertex)
{
	return kind_of(placing, vertex) == TOPOLOGY_NVSWITCH ||
	       (kind_of(placing, vertex) == TOPOLOGY_NETWORK && !is_own_network(placing, vertex));
}

static double height_of(enum topology_kind kind)
{
	return kind == TOPOLOGY_CPU ? 44 : kind == TOPOLOGY_SWITCH ? 40 : kind == TOPOLOGY_BRIDGE ? 26 : 36;
}

static struct layout_box *box_of(const struct placing *placing, uint32_t vertex)
{
	return &placing->layout->boxes[vertex];
}

/* A bar, and those below it. */
static void add_to_rows(struct placing *placing, uint32_t vertex, unsigned depth)
{
	const struct view *view = placing->view;
	struct row *row = &placing->rows[depth];
	uint32_t up = view->up[vertex];

	if (placing->row_count <= depth)
		placing->row_count = depth + 1;
	row->height = fmax(row->height, height_of(kind_of(placing, vertex)));
	row->has_words |= up != TOPOLOGY_NONE && (view->lanes[2 * up].rate_Bps || view->lanes[2 * up + 1].rate_Bps);
	for (uint32_t child = view->first_child[vertex]; child != TOPOLOGY_NONE; child = view->next_sibling[child])
		if (!is_leaf(placing, child) && kind_of(placing, child) != TOPOLOGY_MEMORY)
			add_to_rows(placing, child, depth + 1);
}

static void set_rows(struct placing *placing, double y)
{
	const struct view *view = placing->view;

	for (uint32_t root = view->first_root; root != TOPOLOGY_NONE; root = view->next_sibling[root])
		if (!is_below(placing, root) && !is_leaf(placing, root))
			add_to_rows(placing, root, 0);
	for (unsigned i = 0; i < placing->row_count; i++) {
		bool last = i + 1 == placing->row_count;

		placing->rows[i].y = y;
		y += placing->rows[i].height;
		y += last ? DEVICE_GAP : placing->rows[i + 1].has_words ? LINK_GAP : BARE_GAP;
	}
	placing->devices_y = y;
}

/* Places a vertex and all below it from x on; returns the width they take. */
static double place(struct placing *placing, uint32_t vertex, double x, unsigned depth)
{
	const struct view *view = placing->view;
	struct layout_box *box = box_of(placing, vertex);
	bool leaf = is_leaf(placing, vertex);
	double width = 0;

	for (uint32_t child = view->first_child[vertex]; child != TOPOLOGY_NONE && !leaf;
	     child = view->next_sibling[child])
		if (kind_of(placing, child) != TOPOLOGY_MEMORY)
			width += place(placing, child, x + width, depth + 1);
	width = fmax(width, depth || leaf ? COLUMN : ROOT_COLUMNS * COLUMN);
	*box = (struct layout_box){ x + BOX_PAD, leaf ? placing->devices_y : placing->rows[depth].y,
				    width - 2 * BOX_PAD, leaf ? DEVICE_HEIGHT : height_of(kind_of(placing, vertex)) };
	placing->below = fmax(placing->below, box->y + box->height);
	return width;
}

/* Roots side by side, each in a panel with its memories above it. Returns where the last ends. */
static double place_roots(struct placing *placing, double top)
{
	const struct view *view = placing->view;
	double x = LAYOUT_MARGIN;

	for (uint32_t root = view->first_root; root != TOPOLOGY_NONE; root = view->next_sibling[root]) {
		double width, memory_x = x + PANEL_PAD + BOX_PAD + 6;

		if (is_below(placing, root))
			continue;
		width = place(placing, root, x + PANEL_PAD, 0) + 2 * PANEL_PAD;
		for (uint32_t at = view->first_child[root]; at != TOPOLOGY_NONE; at = view->next_sibling[at]) {
			if (kind_of(placing, at) != TOPOLOGY_MEMORY)
				continue;
			*box_of(placing, at) = (struct layout_box){ memory_x, top + PANEL_PAD, MEMORY_WIDTH,
								    MEMORY_HEIGHT };
			memory_x += MEMORY_WIDTH + BOX_PAD;
		}
		placing->layout->panels[root] = (struct layout_box){ x, top, width, 0 };
		x += width + PANEL_GAP;
	}
	return x > LAYOUT_MARGIN ? x - PANEL_GAP : x;
}

/* A vertex, and all that hangs on it. */
static void move(struct placing *placing, uint32_t vertex, double dx, double dy)
{
	box_of(placing, vertex)->x += dx;
	box_of(placing, vertex)->y += dy;
	for (uint32_t at = placing->view->first_child[vertex]; at != TOPOLOGY_NONE;
	     at = placing->view->next_sibling[at])
		move(placing, at, dx, dy);
}

/* Links of the tree and between sockets alone: nothing else has to find its way from panel to panel, or stand below both. */
static bool is_stackable(const struct placing *placing, uint32_t first, uint32_t second)
{
	const struct view *view = placing->view;

	if (second == TOPOLOGY_NONE || view->next_sibling[second] != TOPOLOGY_NONE || is_below(placing, first) ||
	    is_below(placing, second))
		return false;
	for (uint32_t i = 0; i < view->topology->link_count; i++)
		if (!view_is_tree_link(view, i) && view->topology->links[i].kind != TOPOLOGY_LINK_SOCKET)
			return false;
	for (uint32_t i = 0; i < view->topology->vertex_count; i++)
		if (is_own_network(placing, i))
			return false;
	return true;
}

/* Where a vertex and all that hangs on it end. */
static double bottom_of(const struct placing *placing, uint32_t vertex)
{
	double bottom = box_of(placing, vertex)->y + box_of(placing, vertex)->height;

	for (uint32_t at = placing->view->first_child[vertex]; at != TOPOLOGY_NONE;
	     at = placing->view->next_sibling[at])
		bottom = fmax(bottom, bottom_of(placing, at));
	return bottom;
}

/* The second of two wide panels moves below the first. right: where the last ends; returns where all does. */
static double stack(struct placing *placing, double top, double right)
{
	uint32_t first = placing->view->first_root, second;
	struct layout_box *panels = placing->layout->panels;
	double height;

	if (right < STACK_WIDTH || first == TOPOLOGY_NONE)
		return right;
	second = placing->view->next_sibling[first];
	if (!is_stackable(placing, first, second))
		return right;
	placing->stacked = true;
	height = bottom_of(placing, first) + PANEL_PAD - top;
	panels[first].height = height;
	top += height + STACK_GAP;
	move(placing, second, LAYOUT_MARGIN - panels[second].x, height + STACK_GAP);
	panels[second] = (struct layout_box){ LAYOUT_MARGIN, top, panels[second].width,
					      bottom_of(placing, second) + PANEL_PAD - top };
	placing->below = bottom_of(placing, second);
	return LAYOUT_MARGIN + fmax(panels[first].width, panels[second].width) + BRACKET + BRACKET_WORDS;
}

/* The network of one NIC stands right below it. */
static void place_own_networks(struct placing *placing)
{
	double y = placing->below + NETWORK_GAP;

	for (uint32_t i = 0; i < placing->view->topology->vertex_count; i++) {
		const struct layout_box *nic;

		if (!is_own_network(placing, i))
			continue;
		nic = box_of(placing, placing->view->parent[i]);
		*box_of(placing, i) = (struct layout_box){ nic->x, y, nic->width, NETWORK_HEIGHT };
		placing->below = y + NETWORK_HEIGHT;
	}
}

/* Below the devices: the bars of each kind share a row. */
static void place_below(struct placing *placing, enum topology_kind kind, double right)
{
	const struct view *view = placing->view;
	double y = placing->below + DEVICE_GAP, x = LAYOUT_MARGIN;
	size_t count = 0;

	for (uint32_t root = view->first_root; root != TOPOLOGY_NONE; root = view->next_sibling[root])
		count += is_below(placing, root) && kind_of(placing, root) == kind;
	for (uint32_t root = view->first_root; root != TOPOLOGY_NONE; root = view->next_sibling[root]) {
		double width = (right - LAYOUT_MARGIN) / (double)count;

		if (!is_below(placing, root) || kind_of(placing, root) != kind)
			continue;
		*box_of(placing, root) = (struct layout_box){ x + BOX_PAD, y, width - 2 * BOX_PAD, height_of(kind) };
		x += width;
		placing->below = y + height_of(kind);
	}
}

/* ----------------------------------------------------------------------------------------------------------- lines */

static double middle(const struct layout_box *box)
{
	return box->x + box->width / 2;
}

/* Where a box's own links begin: in the middle of a bar, at the left of a narrow box. */
static double anchor(const struct layout_box *box)
{
	return box->width > COLUMN ? middle(box) : box->x + LINK_X;
}

static void draw_straight(struct layout_line *line, double x0, double y0, double x1, double y1)
{
	line->x0 = x0;
	line->y0 = y0;
	line->x1 = x1;
	line->y1 = y1;
	line->horizontal = y0 == y1;
	line->labelled = true;
	line->label_centred = line->horizontal;
	line->label_x = (x0 + x1) / 2;
	line->label_y = (y0 + y1) / 2;
}

/* By way of cy, which the curve itself does not reach. */
static void draw_curve(struct layout_line *line, double x0, double y0, double x1, double y1, double cy)
{
	draw_straight(line, x0, y0, x1, y1);
	line->horizontal = false;
	line->curved = line->label_centred = true;
	line->cy = cy;
}

static void draw_tree_link(const struct placing *placing, uint32_t child, struct layout_line *line)
{
	const struct layout_box *box = box_of(placing, child), *above = box_of(placing, placing->view->parent[child]);
	double foot = above->y + above->height;

	if (kind_of(placing, child) == TOPOLOGY_MEMORY) {
		draw_straight(line, box->x + LINK_X, box->y + box->height, box->x + LINK_X, above->y);
		return;
	}
	draw_straight(line, anchor(box), box->y, anchor(box), foot);
	/* A link over several rows has its words at its own end. */
	if (box->y - foot > 2 * LINK_GAP)
		line->label_y = box->y - DEVICE_GAP / 2.0;
	line->reversed = is_own_network(placing, child);
}

static unsigned distance_of(const struct placing *placing, const struct topology_link *link)
{
	return (unsigned)abs((int)placing->positions[link->lower] - (int)placing->positions[link->upper]);
}

/* Between sockets: beside each other straight, else in an arc above what stands between them. */
static void draw_socket_link(const struct placing *placing, const struct topology_link *link, double top,
			     struct layout_line *line)
{
	const struct layout_box *left = box_of(placing, link->lower), *right = box_of(placing, link->upper),
				*swap = left;
	unsigned distance = distance_of(placing, link);
	const struct layout_box *panels = placing->layout->panels;

	if (placing->stacked) {
		draw_straight(line, left->x + left->width, left->y + left->height / 2, right->x + right->width,
			      right->y + right->height / 2);
		line->bracket = true;
		line->reversed = left->y < right->y;
		line->side_x = line->label_x = LAYOUT_MARGIN + BRACKET +
					       fmax(panels[link->lower].width, panels[link->upper].width);
		return;
	}
	line->reversed = left->x > right->x;
	if (line->reversed) {
		left = right;
		right = swap;
	}
	if (distance == 1) {
		draw_straight(line, left->x + left->width, left->y + left->height / 2, right->x,
			      left->y + left->height / 2);
		return;
	}
	draw_curve(line, left->x + left->width - 24, left->y, right->x + right->width - 24 - 8 * distance, right->y,
		   top - SOCKET_ARC * distance);
	line->label_y = line->y0 + (line->cy - line->y0) * ARC_BEND;
}

/* Links between devices hang below them; those of far partners begin farther out, so that arcs nest. */
static void draw_arc(struct placing *placing, const struct layout_box *a, const struct layout_box *b,
		     struct layout_line *line)
{
	double columns = fabs(middle(a) - middle(b)) / COLUMN, depth = ARC + ARC_MORE * fmax(columns - 1, 0);
	double aside = (middle(b) > middle(a) ? 1 : -1) * (24 - 5 * fmin(columns, 9)),
	       foot = fmax(a->y + a->height, b->y + b->height);

	draw_curve(line, middle(a) + aside, a->y + a->height, middle(b) - aside, b->y + b->height,
		   foot + depth / ARC_BEND);
	line->reversed = a->x > b->x;
	line->labelled = columns < 1.5;
	line->label_y = foot + depth;
	placing->below = fmax(placing->below, line->label_y + ARC_WORDS);
}

/* From a device down to a bar below it. */
static void draw_down(const struct layout_box *upper, const struct layout_box *bar, struct layout_line *line)
{
	double x = anchor(upper), foot = upper->y + upper->height;

	if (x > bar->x && x < bar->x + bar->width) {
		draw_straight(line, x, foot, x, bar->y);
	} else {
		draw_curve(line, middle(upper), foot, middle(bar), bar->y, (foot + bar->y) / 2);
		line->labelled = line->label_centred = false;
	}
}

/* Links to what is below the devices need its place, and its place what hangs below the devices: two passes. */
static void draw_lines(struct placing *placing, double top, bool below)
{
	const struct view *view = placing->view;

	for (uint32_t i = 0; i < view->topology->link_count; i++) {
		const struct topology_link *link = &view->topology->links[i];
		struct layout_line *line = &placing->layout->lines[i];
		bool lower_below = is_below(placing, link->lower), upper_below = is_below(placing, link->upper);

		if ((lower_below || upper_below) != below)
			continue;
		if (view_is_tree_link(view, i)) {
			draw_tree_link(placing, view->up[link->lower] == i ? link->lower : link->upper, line);
		} else if (below) {
			draw_down(box_of(placing, upper_below ? link->lower : link->upper),
				  box_of(placing, upper_below ? link->upper : link->lower), line);
			line->reversed = upper_below;
		} else if (link->kind == TOPOLOGY_LINK_SOCKET) {
			draw_socket_link(placing, link, top, line);
		} else {
			draw_arc(placing, box_of(placing, link->lower), box_of(placing, link->upper), line);
		}
	}
}

/* ----------------------------------------------------------------------------------------------------------- whole */

/* The farthest apart that two linked sockets stand. */
static unsigned widest_socket_link(struct placing *placing)
{
	const struct view *view = placing->view;
	unsigned position = 0, widest = 0;

	for (uint32_t root = view->first_root; root != TOPOLOGY_NONE; root = view->next_sibling[root])
		placing->positions[root] = position++;
	for (size_t i = 0; i < view->topology->link_count; i++) {
		const struct topology_link *link = &view->topology->links[i];

		if (link->kind == TOPOLOGY_LINK_SOCKET && distance_of(placing, link) > widest)
			widest = distance_of(placing, link);
	}
	return widest;
}

static void make(struct placing *placing, double top)
{
	struct layout *layout = placing->layout;
	unsigned widest = widest_socket_link(placing);
	double panel_top = top + (widest > 1 ? SOCKET_ARC * widest * ARC_BEND + 16 : 0), right;

	placing->below = panel_top;
	set_rows(placing, panel_top + PANEL_PAD + MEMORY_HEIGHT + MEMORY_GAP);
	right = stack(placing, panel_top, place_roots(placing, panel_top));
	place_own_networks(placing);
	draw_lines(placing, panel_top, false);
	for (size_t i = 0; i < placing->view->topology->vertex_count; i++)
		if (layout->panels[i].width > 0 && !placing->stacked)
			layout->panels[i].height = placing->below + PANEL_PAD - panel_top;
	place_below(placing, TOPOLOGY_NVSWITCH, right);
	place_below(placing, TOPOLOGY_NETWORK, right);
	draw_lines(placing, panel_top, true);
	layout->drawing = (struct layout_box){ LAYOUT_MARGIN, top, right - LAYOUT_MARGIN,
					       placing->below + PANEL_PAD - top };
}

int layout_make(const struct view *view, double top, struct layout *ret)
{
	size_t vertices = view->topology->vertex_count;
	struct layout layout = { 0 };
	struct placing placing = { .view = view, .layout = &layout };
	const struct sys_array arrays[] = { SYS_ARRAY(layout.boxes, vertices), SYS_ARRAY(layout.panels, vertices),
					    SYS_ARRAY(layout.lines, view->topology->link_count),
					    SYS_ARRAY(placing.rows, vertices + 1),
					    SYS_ARRAY(placing.positions, vertices) };

	layout.memory = sys_zalloc_arrays(arrays, sizeof(arrays) / sizeof(arrays[0]));
	if (!layout.memory)
		return -ENOMEM;
	make(&placing, top);
	*ret = layout;
	return 0;
}
