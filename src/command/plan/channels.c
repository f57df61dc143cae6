/* SPDX-License-Identifier: Apache-2.0 */
/* What channels are worth: sums and shares. */
#include "command/plan/channels.h"

#include <stdlib.h>
#include <string.h>

/* What is this near to full is full: rates are whole bytes/s for each channel. */
static const double FULL = 0.9999;

const char *channels_pattern_word(enum plan_pattern pattern)
{
	static const char *const words[PLAN_PATTERN_COUNT] = {
		[PLAN_RING] = "ring",
		[PLAN_TREE] = "tree",
		[PLAN_CHAIN] = "chain",
		[PLAN_DIRECT] = "direct",
	};

	return words[pattern];
}

void channels_fini(struct channels *channels)
{
	for (int i = 0; i < PLAN_PATTERN_COUNT; i++)
		free(channels->graphs[i].loads);
	memset(channels, 0, sizeof(*channels));
}

uint64_t channels_total_Bps(const struct channels_graph *graph)
{
	return graph->rate_Bps >= PLAN_UNBOUNDED_BPS ? UINT64_MAX : graph->rate_Bps * channels_count(graph);
}

double channels_load_Bps(const struct channels_graph *graph, const struct plan_load *load)
{
	return graph->rate_Bps >= PLAN_UNBOUNDED_BPS ? 0 : (double)graph->rate_Bps * (double)load->crossings;
}

double channels_load_share(const struct channels_graph *graph, const struct plan_load *load)
{
	return load->capacity_Bps ? channels_load_Bps(graph, load) / (double)load->capacity_Bps : -1;
}

bool channels_load_is_full(const struct channels_graph *graph, const struct plan_load *load)
{
	return channels_load_share(graph, load) >= FULL;
}
