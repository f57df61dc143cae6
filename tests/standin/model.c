#include "model.h"

#include "nxml.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int complain(char why[MODEL_WHY_BYTES], const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int complain(char why[MODEL_WHY_BYTES], const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, MODEL_WHY_BYTES, fmt, args);
	va_end(args);
	return -1;
}

/* ---- a graph file ---- */

/* By the beginning of the word; what is unknown is "the same device". */
static enum model_class class_of(const char *word)
{
	static const char *const words[] = { "LOC", "NVL", "NVB", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS" };

	for (int i = 0; i < 9; i++)
		if (!strncmp(word, words[i], 3))
			return (enum model_class)i;
	return MODEL_LOC;
}

static int read_channel(const struct nxml *nxml, const struct nxml_node *channel, size_t number,
			const struct model_host *host, struct model_graph *graph, char why[MODEL_WHY_BYTES])
{
	size_t gpus = 0, nets = 0;

	if (number >= MODEL_CHANNELS_MAX)
		return complain(why, "more than %d channels: beyond the array", MODEL_CHANNELS_MAX);
	for (size_t i = 0; i < channel->child_count; i++) {
		const struct nxml_node *child = &nxml->nodes[channel->children[i]];
		const char *text = nxml_attribute(child, "dev");
		int rank = -1;
		long dev;

		if (!text)
			return complain(why, "channel %zu: <%s> without dev", number, child->name);
		dev = strtol(text, NULL, 16);
		if (!strcmp(child->name, "net")) {
			if (nets == 2)
				return complain(why, "channel %zu: three nets: beyond the array", number);
			graph->has_net[number] = true;
			graph->inter[number][nets++] = (int)dev;
			continue;
		}
		/* 2.30 believes a rank that is written there, on every host and in every communicator. */
		if (nxml_attribute(child, "rank"))
			return complain(why, "channel %zu: a rank, which 2.30 believes unchecked", number);
		for (size_t g = 0; g < host->gpu_count; g++)
			if (host->dev_of[g] == dev)
				rank = host->rank_of[g];
		if (rank < 0)
			return complain(why, "dev %ld not found: the communicator has no such GPU here", dev);
		if (gpus == host->gpu_count)
			return complain(why, "channel %zu: more GPUs than there are: beyond the array", number);
		graph->intra[number][gpus++] = rank;
	}
	return 0;
}

static int read_number(const struct nxml_node *node, const char *key, int *ret, char why[MODEL_WHY_BYTES])
{
	const char *text = nxml_attribute(node, key);

	if (!text)
		return complain(why, "a graph without %s", key);
	*ret = (int)strtol(text, NULL, 0);
	return 0;
}

static int read_speed(const struct nxml_node *node, const char *key, float *ret, char why[MODEL_WHY_BYTES])
{
	const char *text = nxml_attribute(node, key);

	if (!text)
		return complain(why, "a graph without %s", key);
	*ret = strtof(text, NULL);
	return *ret > 0 ? 0 : complain(why, "%s is %s: no cost can be computed from it", key, text);
}

static int read_class(const struct nxml_node *node, const char *key, enum model_class *ret, char why[MODEL_WHY_BYTES])
{
	const char *text = nxml_attribute(node, key);

	if (!text)
		return complain(why, "a graph without %s: NCCL would crash", key);
	*ret = class_of(text);
	return 0;
}

static int read_graph(const struct nxml *nxml, const struct nxml_node *node, const struct model_host *host, int id,
		      int cross_nic, struct model_graph *graph, char why[MODEL_WHY_BYTES])
{
	const char *latency = nxml_attribute(node, "latencyinter");
	int number = -1;

	if (read_number(node, "id", &number, why) < 0)
		return -1;
	if (number != id)
		return 0;
	if (read_number(node, "crossnic", &number, why) < 0)
		return -1;
	if (cross_nic == 0 && number == 1)
		return 0;
	graph->crossnic = number;
	if (read_number(node, "pattern", &graph->pattern, why) < 0 ||
	    read_number(node, "nchannels", &graph->channel_count, why) < 0 ||
	    read_speed(node, "speedintra", &graph->intra_GBps, why) < 0 ||
	    read_speed(node, "speedinter", &graph->inter_GBps, why) < 0 ||
	    read_class(node, "typeintra", &graph->intra_class, why) < 0 ||
	    read_class(node, "typeinter", &graph->inter_class, why) < 0 ||
	    read_number(node, "samechannels", &graph->same_channels, why) < 0)
		return -1;
	graph->inter_latency_us = latency ? strtof(latency, NULL) : 0;
	if (graph->channel_count > MODEL_CHANNELS_MAX / 2)
		return complain(why, "%d channels, which NCCL doubles: beyond the array", graph->channel_count);
	for (size_t i = 0; i < node->child_count; i++)
		if (read_channel(nxml, &nxml->nodes[node->children[i]], i, host, graph, why) < 0)
			return -1;
	graph->from_file = graph->channel_count > 0;
	return 0;
}

int model_read(enum model_graph_id id, const char *text, size_t bytes, const struct model_host *host, int cross_nic,
	       struct model_graph *ret, char why[MODEL_WHY_BYTES])
{
	struct nxml nxml;
	int r = nxml_read(NXML_GRAPH, text, bytes, &nxml);

	memset(ret, 0, sizeof(*ret));
	if (r < 0)
		complain(why, "%s", nxml.why);
	else if (!nxml.node_count)
		r = complain(why, "a file without <graphs>"); /* NCCL would look at a node that is not there */
	for (size_t i = 0; r == 0 && i < nxml.nodes[0].child_count; i++)
		r = read_graph(&nxml, &nxml.nodes[nxml.nodes[0].children[i]], host, (int)id, cross_nic, ret, why);
	nxml_free(&nxml);
	if (r == 0 && !ret->from_file)
		model_search(id, host, ret);
	return r;
}

void model_search(enum model_graph_id id, const struct model_host *host, struct model_graph *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->pattern = id == MODEL_RING ? 4 : 1;
	ret->channel_count = 2;
	ret->intra_GBps = ret->inter_GBps = 12;
	ret->intra_class = ret->inter_class = MODEL_PHB;
	ret->inter_latency_us = host->search_latency_us;
	for (int c = 0; c < ret->channel_count; c++) {
		bool taken[MODEL_GPUS_MAX] = { false };

		for (size_t at = 0; at < host->gpu_count; at++) {
			size_t least = host->gpu_count;

			for (size_t g = 0; g < host->gpu_count; g++)
				if (!taken[g] && (least == host->gpu_count || host->dev_of[g] < host->dev_of[least]))
					least = g;
			taken[least] = true;
			ret->intra[c][at] = host->rank_of[least];
		}
	}
}

/* ---- agreement ---- */

/* What each rank tells the others of one channel; the first and last GPU of a host speak for it. */
struct told {
	int first, last, before, after, up, down; /* ranks; -1: none on this host; -2: the rank is not in the channel */
};

static struct told tell(const struct model_rank *rank, int number, int channel)
{
	const int *ring = rank->ring->intra[channel], *tree = rank->tree->intra[channel];
	struct told told = { ring[0], ring[rank->local_count - 1], -2, -2, -2, -2 };

	for (size_t i = 0; i < rank->local_count; i++) {
		bool is_last = i + 1 == rank->local_count;

		if (ring[i] == number) {
			told.before = i ? ring[i - 1] : -1;
			told.after = is_last ? -1 : ring[i + 1];
		}
		if (tree[i] == number) {
			told.up = i ? tree[i - 1] : -1;
			told.down = is_last ? -1 : tree[i + 1];
		}
	}
	return told;
}

/* Nodes as NCCL forms them: the ranks whose first channel begins with the same GPU. */
static int form_nodes(const struct model_rank *ranks, int rank_count, int node_of[], int first_of[])
{
	int nodes = 0;

	for (int r = 0; r < rank_count; r++) {
		int first = ranks[r].ring->intra[0][0], node = 0;

		while (node < nodes && first_of[node] != first)
			node++;
		if (node == nodes)
			first_of[nodes++] = first;
		node_of[r] = node;
	}
	return nodes;
}

static int ring_agrees(const struct told told[], int rank_count, const int first_of[], int nodes, int channel,
		       char why[MODEL_WHY_BYTES])
{
	int next[MODEL_RANKS_MAX], previous[MODEL_RANKS_MAX], at = 0, seen = 0;
	bool has[MODEL_RANKS_MAX] = { false };

	for (int r = 0; r < rank_count; r++) {
		if (told[r].before == -2)
			return complain(why, "ring %d: rank %d is not in its own channel", channel, r);
		next[r] = told[r].after;
		previous[r] = told[r].before;
	}
	for (int n = 0; n < nodes; n++) {
		const struct told *own = &told[first_of[n]], *following = &told[first_of[(n + 1) % nodes]];

		next[own->last] = following->first;
		previous[following->first] = own->last;
	}
	do {
		if (at < 0 || at >= rank_count || has[at])
			return complain(why, "ring %d does not loop back to the start", channel);
		has[at] = true;
		seen++;
		if (next[at] < 0 || next[at] >= rank_count || previous[next[at]] != at)
			return complain(why, "ring %d: rank %d sends to %d, which waits for %d: they hang", channel, at,
					next[at], next[at] < 0 ? -1 : previous[next[at]]);
		at = next[at];
	} while (at != 0);
	return seen == rank_count ? 0 : complain(why, "ring %d holds %d of %d ranks", channel, seen, rank_count);
}

static int tree_agrees(const struct told told[], int rank_count, int channel, char why[MODEL_WHY_BYTES])
{
	for (int r = 0; r < rank_count; r++) {
		if (told[r].up == -2)
			return complain(why, "tree %d: rank %d is not in its own channel", channel, r);
		if ((told[r].up >= 0 && told[told[r].up].down != r) ||
		    (told[r].down >= 0 && told[told[r].down].up != r))
			return complain(why, "tree %d: rank %d and its neighbour do not agree: they hang", channel, r);
	}
	return 0;
}

static bool is_head(const struct model_graph *direct, int rank)
{
	for (int c = 0; c < direct->channel_count; c++)
		if (direct->intra[c][0] == rank)
			return true;
	return false;
}

/*
 * NCCL sets collnet up at the first GPUs of the direct graph's channels, and 2.30 fails where a chain begins elsewhere. A
 * plan that leaves either to NCCL's own search cannot know that the other fits.
 */
static int collnet_agrees(const struct model_rank *rank, int number, char why[MODEL_WHY_BYTES])
{
	const struct model_graph *chain = rank->chain, *direct = rank->direct;

	if (!chain || !direct)
		return 0;
	if (chain->from_file != direct->from_file)
		return complain(why, "rank %d: a plan of collnet's chains or heads without the other", number);
	for (int c = 0; c < chain->channel_count; c++)
		if (!is_head(direct, chain->intra[c][0]))
			return complain(why, "rank %d: chain %d begins at rank %d, which is no head of collnet", number,
					c, chain->intra[c][0]);
	return 0;
}

/* The numbers that NCCL does not gather, and computes the costs of every algorithm from. */
static int costs_agree(const struct model_rank *ranks, int rank_count, int nodes, char why[MODEL_WHY_BYTES])
{
	for (int r = 1; nodes > 1 && r < rank_count; r++) {
		if (ranks[r].ring->inter_latency_us != ranks[0].ring->inter_latency_us ||
		    ranks[r].tree->inter_latency_us != ranks[0].tree->inter_latency_us)
			return complain(
				why, "latencyinter is %g on rank 0 and %g on rank %d: they may choose differently",
				(double)ranks[0].ring->inter_latency_us, (double)ranks[r].ring->inter_latency_us, r);
	}
	return 0;
}

int model_agree(const struct model_rank *ranks, int rank_count, int net_count, char why[MODEL_WHY_BYTES])
{
	int node_of[MODEL_RANKS_MAX], first_of[MODEL_RANKS_MAX], nodes, channels = MODEL_CHANNELS_MAX;
	struct told told[MODEL_RANKS_MAX];

	nodes = form_nodes(ranks, rank_count, node_of, first_of);
	for (int r = 0; r < rank_count; r++) {
		if (ranks[r].ring->channel_count < channels)
			channels = ranks[r].ring->channel_count;
		if (ranks[r].tree->channel_count < channels)
			channels = ranks[r].tree->channel_count;
	}
	for (int c = 0; c < channels; c++) {
		for (int r = 0; r < rank_count; r++) {
			told[r] = tell(&ranks[r], r, c);
			for (int end = 0; nodes > 1 && end < 2; end++)
				if (ranks[r].ring->has_net[c] && ranks[r].ring->inter[c][end] >= net_count)
					return complain(why, "channel %d: there is no net %d", c,
							ranks[r].ring->inter[c][end]);
		}
		if (ring_agrees(told, rank_count, first_of, nodes, c, why) < 0 ||
		    tree_agrees(told, rank_count, c, why) < 0)
			return -1;
	}
	for (int r = 1; r < rank_count; r++)
		if ((ranks[r].host == ranks[0].host) != (node_of[r] == node_of[0]))
			return complain(why, "rank %d and rank 0 are %s host and %s node", r,
					ranks[r].host == ranks[0].host ? "one" : "not one",
					node_of[r] == node_of[0] ? "one" : "not one");
	for (int r = 0; r < rank_count; r++)
		if (collnet_agrees(&ranks[r], r, why) < 0)
			return -1;
	return costs_agree(ranks, rank_count, nodes, why);
}

/* ---- a topology file ---- */

float model_topology_latency(const char *text, size_t bytes, const char *nic, int *ret_result,
			     char why[MODEL_WHY_BYTES])
{
	float latency = -1;
	struct nxml nxml;

	*ret_result = nxml_read(NXML_TOPOLOGY, text, bytes, &nxml);
	if (*ret_result < 0)
		complain(why, "%s", nxml.why);
	for (size_t i = 0; *ret_result == 0 && i < nxml.node_count; i++) {
		const char *name = nxml_attribute(&nxml.nodes[i], "name"), *value;

		value = nxml_attribute(&nxml.nodes[i], "latency");
		if (!strcmp(nxml.nodes[i].name, "net") && name && !strcmp(name, nic) && value)
			latency = strtof(value, NULL);
	}
	nxml_free(&nxml);
	return latency;
}

bool model_topology_has(const char *text, size_t bytes, const char *bus_id, int dev)
{
	bool found = false;
	struct nxml nxml;

	if (nxml_read(NXML_TOPOLOGY, text, bytes, &nxml) == 0)
		for (size_t i = 0; i < nxml.node_count && !found; i++) {
			const char *bus = nxml_attribute(&nxml.nodes[i], "busid"), *text_dev;

			if (!bus || strcasecmp(bus, bus_id))
				continue;
			for (size_t c = 0; c < nxml.nodes[i].child_count; c++) {
				const struct nxml_node *child = &nxml.nodes[nxml.nodes[i].children[c]];

				text_dev = nxml_attribute(child, "dev");
				found |= !strcmp(child->name, "gpu") && text_dev && strtol(text_dev, NULL, 0) == dev;
			}
		}
	nxml_free(&nxml);
	return found;
}
