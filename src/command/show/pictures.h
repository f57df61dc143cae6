/* The pictures of a machine. Each writes one whole document to out; -ENOMEM at worst. */
#ifndef TRIBUTARY_COMMAND_SHOW_PICTURES_H
#define TRIBUTARY_COMMAND_SHOW_PICTURES_H

#include "command/show/view.h"
#include "command/term.h"

#include <stdio.h>

/* A tree with a bar of measured over nominal at each link. */
int tree_print(const struct view *view, const struct term *term, FILE *out);
/* An SVG document; inside: as part of a page, which brings its own styles and shows the numbers itself. */
int svg_print(const struct view *view, bool inside, FILE *out);
/* One page that needs nothing else: the picture, the numbers on hover, a table. */
int html_print(const struct view *view, FILE *out);
/* Text for XML and HTML. */
void draw_xml_escape(const char *text, FILE *out);

#endif
