/* Pictures of channels on their machine. Each writes one whole document to out; -errno, -ENOMEM at worst. */
#ifndef TRIBUTARY_COMMAND_PLAN_PICTURE_H
#define TRIBUTARY_COMMAND_PLAN_PICTURE_H

#include "command/plan/flows.h"

#include <stdio.h>

/* One pattern as SVG. */
int channels_svg(const struct channels_flows *flows, FILE *out);
/* One page with all of them; it needs nothing else. */
int channels_page(const struct channels_flows *flows, size_t count, FILE *out);

/* Within a page: the machine once, and the lanes of each, one above the other. */
int channels_svg_inside(const struct channels_flows *flows, size_t count, FILE *out);

#endif
