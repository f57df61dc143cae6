/* Channels for graphviz: the machine's links in grey with what they carry, and the channels over them. */
#include "command/plan/picture.h"

#include "command/show/dot.h"

#include <math.h>

int channels_dot(const struct channels_flows *flows, FILE *out)
{
	const struct topology *topology = flows->channels->topology;

	dot_begin(topology, out);
	for (uint32_t i = 0; i < topology->link_count; i++) {
		const struct topology_link *link = &topology->links[i];

		for (int d = 0; d < 2; d++) {
			uint32_t directed = 2 * i + (uint32_t)d;
			double share = flows->share[directed], GBps = flows->load_Bps[directed] / 1e9;
			char label[64];

			if (GBps <= 0 && d)
				continue; /* one line for what carries nothing */
			if (share >= 0)
				snprintf(label, sizeof(label), "%.1f (%.0f %%)", GBps, floor(share * 100 + 0.01));
			else
				snprintf(label, sizeof(label), "%.1f", GBps);
			fputs("  ", out);
			dot_quoted(topology->vertices[d ? link->upper : link->lower].name, out);
			fputs(" -> ", out);
			dot_quoted(topology->vertices[d ? link->lower : link->upper].name, out);
			fprintf(out, " [dir=%s, color=\"%s\", penwidth=%.1f, label=\"%s\"%s];\n",
				GBps > 0 ? "forward" : "none", flows->full[directed] ? "#c43c00" : "#8592a3",
				1 + sqrt(GBps), GBps > 0 ? label : "",
				flows->full[directed] ? ", fontname=\"Helvetica-Bold\"" : "");
		}
	}
	for (size_t i = 0; i < flows->count; i++) {
		struct channels_hop hops[CHANNELS_HOPS_MAX];
		size_t count = channels_hops(flows->channels, flows->pattern, flows->flows[i].channel, hops);

		for (size_t j = 0; j < count; j++) {
			fputs("  ", out);
			dot_quoted(topology->vertices[hops[j].from].name, out);
			fputs(" -> ", out);
			dot_quoted(topology->vertices[hops[j].to].name, out);
			fprintf(out, " [dir=%s, constraint=false, style=dashed, color=\"%s\", label=\"%s%s\"];\n",
				flows->pattern == PLAN_RING ? "forward" : "both", channels_flow_colour(i),
				topology_class_word(hops[j].path_class), hops[j].host ? "*" : "");
		}
	}
	fputs("}\n", out);
	return 0;
}
