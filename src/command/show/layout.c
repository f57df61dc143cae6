#include "command/show/layout.h"

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
	MEMORY_WIDTH = 132,
	MEMORY_HEIGHT = 36,
	LINK_X = 28,    /* of a narrow box's own link, from its left: the words stand to the right */
	ARC = 38,       /* how far links between GPUs hang below them, for neighbours */
	ARC_MORE = 15,  /* and for each column more */
	ARC_WORDS = 44, /* below an arc: half of it, and its words */
	SOCKET_ARC = 46,
	MEMORY_GAP = 58,
	NETWORK_HEIGHT = 26,
};

static const double ARC_BEND = 0.75; /* how near a cubic curve comes to its control points' line */

struct placing {
	const struct view *view;
	struct layout *layout;
	unsigned deepest; /* row of the lowest bar */
	double *row_y;    /* of bars, by depth; the last is that of devices */
	double below;     /* the lowest point of all that is placed */
};

double layout_thickness(uint64_t rate_Bps, uint64_t fastest_Bps)
{
	if (!rate_Bps || !fastest_Bps)
		return 1.5;
	return 2 + (LAYOUT_LANE_MAX - 2) * sqrt((double)rate_Bps / (double)fastest_Bps);
}

void layout_free(struct layout *layout)
{
	free(layout->boxes);
	free(layout->panels);
	free(layout->lines);
	memset(layout, 0, sizeof(*layout));
}

static enum topology_kind kind_of(const struct placing *placing, uint32_t vertex)
{
	return placing->view->topology->vertices[vertex].kind;
}

static bool is_leaf(const struct placing *placing, uint32_t vertex)
{
	enum topology_kind kind = kind_of(placing, vertex);

	return kind == TOPOLOGY_GPU || kind == TOPOLOGY_NIC ||
	       (kind == TOPOLOGY_HOST && placing->view->first_child[vertex] == TOPOLOGY_NONE);
}

/* What stands below the devices. */
static bool is_below(const struct placing *placing, uint32_t vertex)
{
	enum topology_kind kind = kind_of(placing, vertex);

	return kind == TOPOLOGY_NVSWITCH ||
	       (kind == TOPOLOGY_NETWORK && placing->view->first_child[vertex] == TOPOLOGY_NONE);
}

static bool is_own_network(const struct placing *placing, uint32_t vertex)
{
	return kind_of(placing, vertex) == TOPOLOGY_NETWORK && placing->view->parent[vertex] != TOPOLOGY_NONE &&
	       kind_of(placing, placing->view->parent[vertex]) == TOPOLOGY_NIC;
}

static double height_of(enum topology_kind kind)
{
	static const double heights[TOPOLOGY_KIND_COUNT] = {
		[TOPOLOGY_GPU] = 74,      [TOPOLOGY_NIC] = 74,     [TOPOLOGY_SWITCH] = 40,
		[TOPOLOGY_BRIDGE] = 26,   [TOPOLOGY_CPU] = 44,     [TOPOLOGY_MEMORY] = 36,
		[TOPOLOGY_NVSWITCH] = 36, [TOPOLOGY_NETWORK] = 36, [TOPOLOGY_HOST] = 74,
	};

	return heights[kind];
}

/* How many rows of bars there are below a vertex. */
static unsigned depth_below(const struct placing *placing, uint32_t vertex, unsigned depth)
{
	const struct view *view = placing->view;
	unsigned deepest = depth;

	for (uint32_t child = view->first_child[vertex]; child != TOPOLOGY_NONE; child = view->next_sibling[child]) {
		unsigned below;

		if (is_leaf(placing, child) || kind_of(placing, child) == TOPOLOGY_MEMORY)
			continue;
		below = depth_below(placing, child, depth + 1);
		if (below > deepest)
			deepest = below;
	}
	return deepest;
}

/* Places a vertex and all below it from x on; returns the width they take. */
static double place(struct placing *placing, uint32_t vertex, double x, unsigned depth)
{
	const struct view *view = placing->view;
	struct layout_box *box = &placing->layout->boxes[vertex];
	bool leaf = is_leaf(placing, vertex);
	double width = 0, least = depth ? COLUMN : ROOT_COLUMNS * COLUMN;

	if (leaf)
		least = COLUMN;
	for (uint32_t child = view->first_child[vertex]; child != TOPOLOGY_NONE && !leaf;
	     child = view->next_sibling[child]) {
		if (kind_of(placing, child) != TOPOLOGY_MEMORY)
			width += place(placing, child, x + width, depth + 1);
	}
	if (width < least)
		width = least;
	*box = (struct layout_box){ x + BOX_PAD, placing->row_y[leaf ? placing->deepest + 1 : depth],
				    width - 2 * BOX_PAD, height_of(kind_of(placing, vertex)) };
	if (box->y + box->height > placing->below)
		placing->below = box->y + box->height;
	return width;
}

static void place_memories(struct placing *placing, uint32_t root, double top)
{
	const struct view *view = placing->view;
	struct layout_box *bar = &placing->layout->boxes[root];
	double x = bar->x + 6;

	for (uint32_t child = view->first_child[root]; child != TOPOLOGY_NONE; child = view->next_sibling[child]) {
		if (kind_of(placing, child) != TOPOLOGY_MEMORY)
			continue;
		placing->layout->boxes[child] = (struct layout_box){ x, top, MEMORY_WIDTH, MEMORY_HEIGHT };
		x += MEMORY_WIDTH + BOX_PAD;
	}
}

/* What stands below the devices: each kind one row; a bar spans what it is linked to. */
static void place_below(struct placing *placing, enum topology_kind kind, double left, double right, double y)
{
	const struct view *view = placing->view;
	size_t count = 0, at = 0;
	double step;

	for (uint32_t root = view->first_root; root != TOPOLOGY_NONE; root = view->next_sibling[root])
		count += is_below(placing, root) && kind_of(placing, root) == kind;
	if (!count)
		return;
	step = (right - left) / (double)count;
	for (uint32_t root = view->first_root; root != TOPOLOGY_NONE; root = view->next_sibling[root]) {
		double width = step - 2 * BOX_PAD;

		if (!is_below(placing, root) || kind_of(placing, root) != kind)
			continue;
		placing->layout->boxes[root] = (struct layout_box){ left + step * ((double)at + 0.5) - width / 2, y,
								    width, height_of(kind) };
		at++;
	}
	placing->below = y + height_of(kind);
}

/* The network of one NIC stands right below it. Returns whether there is any. */
static bool place_own_networks(struct placing *placing, double y)
{
	bool any = false;

	for (uint32_t i = 0; i < placing->view->topology->vertex_count; i++) {
		const struct layout_box *nic;

		if (!is_own_network(placing, i))
			continue;
		nic = &placing->layout->boxes[placing->view->parent[i]];
		placing->layout->boxes[i] = (struct layout_box){ nic->x, y, nic->width, NETWORK_HEIGHT };
		any = true;
	}
	return any;
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

static void draw_tree_line(const struct layout_box *lower, const struct layout_box *upper, struct layout_line *line)
{
	double x = anchor(lower);

	line->x0 = line->x1 = x;
	line->y0 = lower->y;
	line->y1 = upper->y + upper->height;
	line->labelled = true;
	line->label_x = x;
	/* A link over several rows has its words at its own end. */
	line->label_y = lower->y - (lower->y - line->y1 > 2 * LINK_GAP ? DEVICE_GAP : lower->y - line->y1) / 2;
}

static void draw_memory_line(const struct layout_box *memory, const struct layout_box *cpu, struct layout_line *line)
{
	line->x0 = line->x1 = memory->x + LINK_X;
	line->y0 = memory->y + memory->height;
	line->y1 = cpu->y;
	line->labelled = true;
	line->label_x = line->x0;
	line->label_y = (line->y0 + line->y1) / 2;
}

/* Between sockets: beside each other straight, else in an arc above what stands between them. */
static void draw_socket_line(const struct layout_box *a, const struct layout_box *b, bool neighbours, double top,
			     unsigned distance, struct layout_line *line)
{
	if (a->x > b->x) {
		draw_socket_line(b, a, neighbours, top, distance, line);
		line->reversed = true;
		return;
	}
	line->labelled = true;
	line->label_centred = true;
	if (neighbours) {
		line->horizontal = true;
		line->x0 = a->x + a->width;
		line->x1 = b->x;
		line->y0 = line->y1 = a->y + a->height / 2;
		line->label_x = (line->x0 + line->x1) / 2;
		line->label_y = line->y0;
		return;
	}
	line->curved = true;
	line->x0 = line->cx0 = a->x + a->width - 24;
	line->x1 = line->cx1 = b->x + b->width - 24 - 8 * distance;
	line->y0 = a->y;
	line->y1 = b->y;
	line->cy0 = line->cy1 = top - SOCKET_ARC * distance;
	line->label_x = (line->x0 + line->x1) / 2;
	line->label_y = line->y0 + (line->cy0 - line->y0) * ARC_BEND;
}

/* Links between devices hang below them. Returns the lowest point. */
static double draw_arc(const struct layout_box *a, const struct layout_box *b, struct layout_line *line)
{
	double columns = fabs(middle(a) - middle(b)) / COLUMN;
	double depth = ARC + ARC_MORE * (columns > 1 ? columns - 1 : 0);

	line->curved = true;
	line->reversed = a->x > b->x;
	/* Those of far partners begin farther out, so that arcs nest. */
	line->x0 = line->cx0 = middle(a) + (middle(b) > middle(a) ? 1 : -1) * (24 - 5 * fmin(columns, 9));
	line->x1 = line->cx1 = middle(b) + (middle(a) > middle(b) ? 1 : -1) * (24 - 5 * fmin(columns, 9));
	line->y0 = a->y + a->height;
	line->y1 = b->y + b->height;
	line->cy0 = line->cy1 = fmax(line->y0, line->y1) + depth / ARC_BEND;
	line->labelled = columns < 1.5;
	line->label_centred = true;
	line->label_x = (line->x0 + line->x1) / 2;
	line->label_y = fmax(line->y0, line->y1) + depth;
	return line->label_y + ARC_WORDS;
}

/* From a device down to a bar below it. */
static void draw_down(const struct layout_box *upper, const struct layout_box *lower, struct layout_line *line)
{
	bool straight = anchor(upper) > lower->x && anchor(upper) < lower->x + lower->width;

	line->reversed = true;
	line->x0 = line->cx0 = straight ? anchor(upper) : middle(upper);
	line->x1 = line->cx1 = straight ? anchor(upper) : middle(lower);
	line->y0 = upper->y + upper->height;
	line->y1 = lower->y;
	line->cy0 = line->cy1 = (line->y0 + line->y1) / 2;
	line->curved = fabs(line->x0 - line->x1) > 1;
	line->labelled = straight;
	line->label_x = line->x0;
	line->label_y = line->cy0;
}

static unsigned root_position(const struct view *view, uint32_t vertex)
{
	unsigned position = 0;

	for (uint32_t root = view->first_root; root != TOPOLOGY_NONE && root != vertex; root = view->next_sibling[root])
		position++;
	return position;
}

/* Everything that is no link of the tree. */
static void draw_other(struct placing *placing, uint32_t index, double top)
{
	const struct view *view = placing->view;
	const struct topology_link *link = &view->topology->links[index];
	const struct layout_box *lower = &placing->layout->boxes[link->lower],
				*upper = &placing->layout->boxes[link->upper];
	struct layout_line *line = &placing->layout->lines[index];
	double low;

	if (link->kind == TOPOLOGY_LINK_SOCKET) {
		unsigned a = root_position(view, link->lower), b = root_position(view, link->upper);
		unsigned distance = a > b ? a - b : b - a;

		draw_socket_line(lower, upper, distance == 1, top, distance, line);
	} else if (is_below(placing, link->lower) || is_below(placing, link->upper)) {
		bool swap = is_below(placing, link->upper);

		draw_down(swap ? lower : upper, swap ? upper : lower, line);
		line->reversed = swap;
	} else {
		low = draw_arc(lower, upper, line);
		if (low > placing->below)
			placing->below = low;
	}
}

static void draw_lines(struct placing *placing, double top, bool below)
{
	const struct view *view = placing->view;

	for (uint32_t i = 0; i < view->topology->link_count; i++) {
		const struct topology_link *link = &view->topology->links[i];
		const struct layout_box *boxes = placing->layout->boxes;
		bool own = is_own_network(placing, link->upper);
		bool is_below_link = !own && (is_below(placing, link->lower) || is_below(placing, link->upper));
		struct layout_line *line = &placing->layout->lines[i];
		uint32_t child;

		if (is_below_link != below)
			continue;
		child = view->parent[link->lower] == link->upper ? link->lower : link->upper;
		if (!view_is_tree_link(view, i))
			draw_other(placing, i, top);
		else if (kind_of(placing, child) == TOPOLOGY_MEMORY)
			draw_memory_line(&boxes[child], &boxes[view->parent[child]], line);
		else
			draw_tree_line(&boxes[child], &boxes[view->parent[child]], line);
		line->reversed |= own;
	}
}

/* ----------------------------------------------------------------------------------------------------------- whole */

/* The farthest apart that two linked sockets stand. */
static unsigned widest_socket_link(const struct view *view)
{
	unsigned widest = 0;

	for (uint32_t i = 0; i < view->topology->link_count; i++) {
		const struct topology_link *link = &view->topology->links[i];
		unsigned a, b, distance;

		if (link->kind != TOPOLOGY_LINK_SOCKET)
			continue;
		a = root_position(view, link->lower);
		b = root_position(view, link->upper);
		distance = a > b ? a - b : b - a;
		if (distance > widest)
			widest = distance;
	}
	return widest;
}

/* All that is directly below CPUs is bridges, and nothing is known of the way between: a short link does. */
static bool has_bare_bridges(const struct view *view)
{
	const struct topology *topology = view->topology;

	for (uint32_t i = 0; i < topology->vertex_count; i++) {
		uint32_t above = view->parent[i], link;

		if (above == TOPOLOGY_NONE || topology->vertices[above].kind != TOPOLOGY_CPU ||
		    topology->vertices[i].kind == TOPOLOGY_MEMORY || view_is_device(&topology->vertices[i]))
			continue;
		link = view_link_up(view, i);
		if (topology->vertices[i].kind != TOPOLOGY_BRIDGE || view->lanes[2 * link].rate_Bps ||
		    view->lanes[2 * link + 1].rate_Bps)
			return false;
	}
	return true;
}

static void set_rows(struct placing *placing, double y)
{
	const struct view *view = placing->view;
	double heights[] = { 44, 40, 26 };

	for (uint32_t root = view->first_root; root != TOPOLOGY_NONE; root = view->next_sibling[root]) {
		unsigned depth = is_below(placing, root) ? 0 : depth_below(placing, root, 0);

		if (depth > placing->deepest)
			placing->deepest = depth;
	}
	for (unsigned row = 0; row <= placing->deepest; row++) {
		bool bridges = row == 1 && has_bare_bridges(view), above_bridges = row == 0 && has_bare_bridges(view);

		placing->row_y[row] = y;
		y += heights[bridges ? 2 : row > 0];
		y += row == placing->deepest ? DEVICE_GAP : above_bridges ? BARE_GAP : LINK_GAP;
	}
	placing->row_y[placing->deepest + 1] = y;
}

static double place_roots(struct placing *placing, double panel_top, double memory_top)
{
	const struct view *view = placing->view;
	double x = LAYOUT_MARGIN, right = x;

	for (uint32_t root = view->first_root; root != TOPOLOGY_NONE; root = view->next_sibling[root]) {
		double width;

		if (is_below(placing, root))
			continue;
		width = place(placing, root, x + PANEL_PAD, 0);
		place_memories(placing, root, memory_top);
		placing->layout->panels[root] = (struct layout_box){ x, panel_top, width + 2 * PANEL_PAD, 0 };
		right = x + width + 2 * PANEL_PAD;
		x = right + PANEL_GAP;
	}
	return right;
}

int layout_make(const struct view *view, double top, struct layout *ret)
{
	const struct topology *topology = view->topology;
	struct layout layout = { 0 };
	struct placing placing = { .view = view, .layout = &layout };
	unsigned widest = widest_socket_link(view);
	double panel_top = top + (widest > 1 ? SOCKET_ARC * widest * ARC_BEND + 16 : 0), right;

	layout.boxes = calloc(topology->vertex_count + 1, sizeof(*layout.boxes));
	layout.panels = calloc(topology->vertex_count + 1, sizeof(*layout.panels));
	layout.lines = calloc(topology->link_count + 1, sizeof(*layout.lines));
	placing.row_y = calloc(topology->vertex_count + 2, sizeof(*placing.row_y));
	if (!layout.boxes || !layout.panels || !layout.lines || !placing.row_y) {
		free(placing.row_y);
		layout_free(&layout);
		return -ENOMEM;
	}
	placing.below = panel_top;
	set_rows(&placing, panel_top + PANEL_PAD + MEMORY_HEIGHT + MEMORY_GAP);
	right = place_roots(&placing, panel_top, panel_top + PANEL_PAD);
	if (place_own_networks(&placing, placing.below + LINK_GAP - 8))
		placing.below += LINK_GAP - 8 + NETWORK_HEIGHT;
	draw_lines(&placing, panel_top, false);
	for (size_t i = 0; i < topology->vertex_count; i++) {
		if (layout.panels[i].width > 0)
			layout.panels[i].height = placing.below + PANEL_PAD - panel_top;
	}
	place_below(&placing, TOPOLOGY_NVSWITCH, LAYOUT_MARGIN, right, placing.below + DEVICE_GAP);
	place_below(&placing, TOPOLOGY_NETWORK, LAYOUT_MARGIN, right, placing.below + DEVICE_GAP);
	draw_lines(&placing, panel_top, true);
	layout.drawing = (struct layout_box){ LAYOUT_MARGIN, top, right - LAYOUT_MARGIN,
					      placing.below + PANEL_PAD - top };
	free(placing.row_y);
	*ret = layout;
	return 0;
}
