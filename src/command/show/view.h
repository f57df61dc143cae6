/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all pictures of a machine have in common: who hangs below whom, how much of its nominal rate each link gives,
 * and where the bottleneck is. Pure. The graph must outlive the view.
 */
#ifndef TRIBUTARY_COMMAND_SHOW_VIEW_H
#define TRIBUTARY_COMMAND_SHOW_VIEW_H

#include "command/term.h"
#include "tributary/topology.h"

#include <stdio.h>

/* Measured over nominal, in the steps of the colours. */
enum view_band {
	VIEW_FULL,       /* 90 % and more */
	VIEW_GOOD,       /* 75 % */
	VIEW_FAIR,       /* 60 % */
	VIEW_POOR,       /* 40 % */
	VIEW_BAD,        /* less */
	VIEW_BOUND,      /* at least so much, which is less than 90 %: its limit was not found */
	VIEW_NO_NOMINAL, /* measured, and no nominal rate is known */
	VIEW_UNMEASURED, /* nominal, assumed or not known */
	VIEW_BAND_COUNT
};

/* One direction of a link. */
struct view_lane {
	uint64_t rate_Bps; /* best known; 0: nothing is known */
	uint64_t room_Bps; /* what the slot could: nominal at the most lanes and generation; at least the rate */
	double share;      /* measured over nominal; negative: not known */
	enum view_band band;
	bool bottleneck;
};

struct view {
	const struct topology *topology;
	void *memory;                                  /* of what is below */
	struct view_lane *lanes;                       /* by directed link */
	uint32_t *up;                                  /* by vertex: the link to its parent; TOPOLOGY_NONE: a root */
	uint32_t *parent, *first_child, *next_sibling; /* by vertex; TOPOLOGY_NONE: none */
	uint32_t first_root;                           /* roots are siblings: CPUs first */
	/*
	 * Of all GPUs exchanging data with all others at once: the directed link, or else the limit, that lets each
	 * pair of them have least, and that least. Both TOPOLOGY_NONE: fewer than two GPUs, or no rate is known.
	 */
	uint32_t bottleneck, bottleneck_limit;
	uint64_t bottleneck_pair_Bps;
	bool bottleneck_is_own; /* of the GPUs' own links alone: nothing between them is narrower */
	size_t measured_links;  /* with at least one direction measured or bounded */
	int64_t date_s;         /* of the latest measurement in the graph; 0: none */
};

int view_make(const struct topology *topology, struct view *ret);
void view_free(struct view *view);

/* The same with what is known of it: ">=12.3" or "≥12.3" for a lower bound, "(12.0)" nominal, "~10.0" assumed. */
void view_rate_of(const struct topology_capacity *capacity, bool utf8, char *text, size_t text_bytes);
/*
 * "Gen4 x16", "4 NVLinks", "socket", "memory". A GPU's link is named by its best generation: it idles at a lower one.
 */
void view_link_words(const struct topology *topology, const struct topology_link *link, char *text, size_t text_bytes);
/* "x8 of x16", "Gen3 of Gen4" when it is trained below what both ends can; "" otherwise. Not a GPU's generation. */
void view_degraded(const struct topology *topology, const struct topology_link *link, char *text, size_t text_bytes);
/* A model's name without what every model's name says; sizes, speeds and places; "" when nothing is known. */
void view_model(const struct topology_vertex *vertex, char *text, size_t text_bytes);
void view_more(const struct topology_vertex *vertex, char *text, size_t text_bytes);
/* Both. */
void view_vertex_words(const struct topology_vertex *vertex, char *text, size_t text_bytes);
/* "8 GPUs, 2 NICs; 17 of 17 links measured, 2026-11-21", or that none is, and what is known then. */
void view_summary(const struct view *view, char *text, size_t text_bytes);
/* One sentence about the bottleneck; "" when there is none to speak of. */
void view_bottleneck(const struct view *view, bool utf8, char *text, size_t text_bytes);
/* The direction of a link with the lesser share, or with one at all. */
enum topology_direction view_worse(const struct view *view, uint32_t link);
/* "90 % and more", ... */
const char *view_band_words(enum view_band band);
/* Whether a lane of the picture has it: a legend explains those. */
bool view_has_band(const struct view *view, enum view_band band);
/* Colours of the bands, "#0072b2", told apart with every common kind of colour blindness. */
const char *view_band_colour(enum view_band band);
/* Whether a link is one of the tree's own (from a vertex to its parent). */
bool view_is_tree_link(const struct view *view, uint32_t link);
/* Whether a directed link is that of a GPU itself: all that goes to it or comes from it is on that. */
bool view_is_gpus_own(const struct topology *topology, uint32_t directed);
bool view_is_device(const struct topology_vertex *vertex);

/* A tree with a bar of measured over nominal at each link; and a whole SVG document. -ENOMEM at worst. */
int tree_print(const struct view *view, const struct term *term, FILE *out);
int svg_print(const struct view *view, FILE *out);

#endif
