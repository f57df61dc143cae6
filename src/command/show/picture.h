/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one drawing of a machine, as SVG: boxes, links of two lanes, words beside them, a head and a legend. What is in the
 * lanes and what is said of it are the caller's (show: rates; plan: channels). Looks are attributes, which every program
 * understands; a page overrides them by class. It finds links and vertices by data-link and data-vertex.
 */
#ifndef TRIBUTARY_COMMAND_SHOW_PICTURE_H
#define TRIBUTARY_COMMAND_SHOW_PICTURE_H

#include "command/show/layout.h"

#include <stdio.h>

struct picture;

/* What is said of a link; "" and NULL: nothing. */
struct picture_words {
	char up[24], down[24]; /* one line where both are the same */
	char what[32], alarm[80];
	char title[240];  /* for whoever points at it, after the names of its ends */
	const char *pill; /* one word; the link stands out */
};

struct picture_content {
	const struct view *view;
	const void *arg;
	char headline[600], note[700]; /* below the machine's name */
	/* The stripes of a lane whose middle is so far from its link's; returns how wide they are together. */
	double (*put_lane)(const struct picture *picture, uint32_t directed, double middle);
	void (*words)(const void *arg, uint32_t link, struct picture_words *ret);
	void (*put_marks)(const struct picture *picture); /* on boxes; NULL: none */
	void (*put_legend)(struct picture *picture);
	void (*put_below)(const struct picture *picture, double y); /* below the machine, so high; NULL: nothing */
	double below_height;
};

/* -ENOMEM at worst. */
int picture_print(const struct picture_content *content, FILE *out);

/* ---------------------------------------------------------------------------------------------- for what is drawn in it */

struct picture {
	const struct picture_content *content;
	const struct view *view;
	struct layout layout;
	FILE *out;
	uint64_t fastest_Bps;
	double width, height;
	double legend_x, legend_y; /* where its next item goes */
	bool measuring;            /* of the legend: nothing is printed */
};

#define PICTURE_INK   "#1b2430"
#define PICTURE_ALARM "#c43c00"

/* How wide a lane's bed is, and a stream of some rate: as round pipes are. */
double picture_bed(const struct picture *picture, uint32_t directed);
double picture_thickness(const struct picture *picture, uint64_t rate_Bps);
/* flow: which number it has for the page; below 0: none. */
void picture_stripe(const struct picture *picture, uint32_t directed, const char *class, int flow, const char *colour,
		    double shift, double thickness);
void picture_text(const struct picture *picture, double x, double y, double size, const char *style, const char *text);
/* A word that must not be overlooked; at its left end or its middle. */
void picture_pill(const struct picture *picture, double x, double y, bool centred, const char *word);
/* A sample of a stripe and what it means; without a class, words alone. */
void picture_legend(struct picture *picture, const char *class, int flow, const char *colour, double thickness,
		    const char *words);
/* A load: a bed that is filled so far. */
void picture_legend_load(struct picture *picture, const char *class, const char *colour, double share,
			 const char *words);
/* Text for XML and HTML. */
void picture_escape(const char *text, FILE *out);

#endif
