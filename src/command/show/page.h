/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page that needs nothing else: no network, no other file. Between its beginning and its end stand the drawings of its views,
 * whole SVG elements; what --json prints, and the viewer (page.js), which makes all else of it, are its end.
 */
#ifndef TRIBUTARY_COMMAND_SHOW_PAGE_H
#define TRIBUTARY_COMMAND_SHOW_PAGE_H

#include <jansson.h>
#include <stdio.h>

void page_begin(const char *title, FILE *out);
/* format and value (freed; NULL: -ENOMEM) as for json_print. */
int page_end(const char *format, json_t *value, FILE *out);

#endif
