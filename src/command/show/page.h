/* The style and the behaviour that pages have in common, as text. */
#ifndef TRIBUTARY_COMMAND_SHOW_PAGE_H
#define TRIBUTARY_COMMAND_SHOW_PAGE_H

#include <jansson.h>
#include <stdio.h>

extern const char html_page_css[], html_page_js[];

/* Up to <body>, and after it: the title, the style; the data (freed; NULL: -ENOMEM), the script. */
void html_begin(const char *title, FILE *out);
int html_end(json_t *data, FILE *out);
/* A vertex, as the page's card shows it. */
struct topology_vertex;
json_t *html_vertex(const struct topology_vertex *vertex);
void html_cell(const char *text, bool number, FILE *out);
/* A table up to its rows, and after them. attribute: "id=\"links\"" or ""; heads: "from|to|#up", '#' for numbers. */
void html_table_begin(const char *title, const char *attribute, const char *heads, FILE *out);
void html_table_end(FILE *out);
/* Closer, farther, all of it; picture or table; light or dark. */
void html_buttons(FILE *out);

#endif
