/* SPDX-License-Identifier: Apache-2.0 */
/* What each channel charges, for pictures and tables: channels that are alike are one flow. Pure. */
#ifndef TRIBUTARY_COMMAND_PLAN_FLOWS_H
#define TRIBUTARY_COMMAND_PLAN_FLOWS_H

#include "command/plan/channels.h"
#include "command/show/view.h"

struct channels_flow {
	size_t channel;      /* the first of them */
	size_t count;        /* how many there are, copies included */
	uint32_t *crossings; /* of directed links, by one of them */
};

struct channels_flows {
	const struct channels *channels;
	enum plan_pattern pattern;
	void *memory; /* of the arrays */
	struct channels_flow flows[PLAN_CHANNELS_MAX];
	size_t count;
	uint8_t flow_of[PLAN_CHANNELS_MAX]; /* of each channel */
	double *load_Bps;                   /* of directed links, by all */
	double *share;                      /* of what each carries; negative: not known */
	bool *full;                         /* it, or a limit that it is a member of */
	bool full_is_own;                   /* of all GPUs, their own links and nothing else */
	const struct plan_load *fullest;    /* NULL: nothing is known */
};

int channels_flows_make(const struct channels *channels, enum plan_pattern pattern, struct channels_flows *ret);
void channels_flows_free(struct channels_flows *flows);

/* "gpu0 → gpu1 → gpu0": a tree's with ↔. */
void channels_flow_words(const struct channels_flows *flows, size_t flow, char *text, size_t text_bytes);
/* "Full: cpu0 → cpu1, 40.1 of 40.1 GB/s". */
void channels_flows_headline(const struct channels_flows *flows, char *text, size_t text_bytes);
/* "Ring, 2 channels × 20.4 = 40.9 GB/s, at least 98.9 % of optimal". */
void channels_flows_title(const struct channels_flows *flows, char *text, size_t text_bytes);
/* "#357b53"; told apart with the common kinds of colour blindness as far as eight go. */
const char *channels_flow_colour(size_t flow);

/* The same GPUs in the same order, by the same NICs. */
bool channels_are_alike(const struct plan *plan, size_t a, size_t b);
/* svg.c: a whole SVG document. -ENOMEM at worst. */
int channels_svg(const struct channels_flows *flows, FILE *out);
int channels_draw(const struct channels *channels, enum plan_pattern pattern, FILE *out);
/* Of each pattern that there is: as the viewer takes them. */
int channels_draw_all(const struct channels *channels, FILE *out);

#endif
