/* What graphs for graphviz have in common. */
#ifndef TRIBUTARY_COMMAND_SHOW_DOT_H
#define TRIBUTARY_COMMAND_SHOW_DOT_H

#include "tributary/topology.h"

#include <stdio.h>

/* Text in quotes. */
void dot_quoted(const char *text, FILE *out);
/* "digraph ... {", and every vertex. */
void dot_begin(const struct topology *topology, FILE *out);

#endif
