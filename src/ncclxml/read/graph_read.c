/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph file as NCCL would read it (graph/search.cc, ncclTopoGetGraphFromXmlSub), with reasons where NCCL has none:
 * what it refuses, and also what it takes for something else without a word: channels that are not there are zeros,
 * classes that it does not know are LOC, a `dev` is hexadecimal whatever it looks like, and what is no number is 0.
 */
#include "ncclxml/graph_xml.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ncclmodel/limits.h"
#include "ncclxml/read/scan.h"
#include "ncclxml/read/xml.h"

struct graph_reader {
	struct graph_xml *graphs;
	struct diag *diag;
};

static int fail(struct graph_reader *reader, const struct ncclxml_element *element, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int fail(struct graph_reader *reader, const struct ncclxml_element *element, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	diag_set_v(reader->diag, element->line, 0, fmt, args);
	va_end(args);
	return -EINVAL;
}

/* ------------------------------------------------------------------------------------------------------- attributes */

static int read_number(struct graph_reader *reader, const struct ncclxml_element *element, const char *name, long least,
		       long most, int *ret)
{
	const char *text = ncclxml_attribute(element, name);
	char *end;
	long value;

	if (!text)
		return fail(reader, element, "<%s> without %s, which NCCL refuses", element->name, name);
	errno = 0;
	value = strtol(text, &end, 0);
	if (end == text || *end || errno || value < least || value > most)
		return fail(reader, element, "%s \"%.40s\" is no number from %ld to %ld", name, text, least, most);
	*ret = (int)value;
	return 0;
}

/* Digits, a point and an exponent: what "%g" writes in any locale with a point; strtod would obey the locale of now. */
static bool read_decimal(const char *text, double *ret)
{
	double value = 0, unit = 1;
	int exponent = 0, sign = 1;
	size_t digits = 0;

	for (; isdigit((unsigned char)*text); text++, digits++)
		value = value * 10 + (*text - '0');
	if (*text == '.')
		for (text++; isdigit((unsigned char)*text); text++, digits++)
			value += (*text - '0') * (unit /= 10);
	if (!digits || digits > 300)
		return false;
	if (*text == 'e' || *text == 'E') {
		text++;
		sign = *text == '-' ? -1 : 1;
		text += *text == '-' || *text == '+';
		if (!isdigit((unsigned char)*text))
			return false;
		for (; isdigit((unsigned char)*text) && exponent < 1000; text++)
			exponent = exponent * 10 + (*text - '0');
	}
	for (; exponent; exponent--)
		value = sign > 0 ? value * 10 : value / 10;
	*ret = value;
	return !*text && isfinite(value);
}

static int read_rate(struct graph_reader *reader, const struct ncclxml_element *element, const char *name, double *ret)
{
	const char *text = ncclxml_attribute(element, name);

	if (!text)
		return fail(reader, element, "<%s> without %s, which NCCL refuses", element->name, name);
	if (!read_decimal(text, ret) || *ret > 1e6)
		return fail(reader, element, "%s \"%.40s\" is no number from 0 to 1e6", name, text);
	return 0;
}

/* Of NCCL's words (graph/search.cc, kvDictLinkType), by their beginnings as NCCL does. */
static int read_class(struct graph_reader *reader, const struct ncclxml_element *element, const char *name,
		      enum topology_class *ret)
{
	static const enum topology_class known[] = {
		TOPOLOGY_CLASS_LOC, TOPOLOGY_CLASS_NVL, TOPOLOGY_CLASS_NVB, TOPOLOGY_CLASS_PIX, TOPOLOGY_CLASS_PXB,
		TOPOLOGY_CLASS_P2C, TOPOLOGY_CLASS_PXN, TOPOLOGY_CLASS_PHB, TOPOLOGY_CLASS_SYS,
	};
	const char *text = ncclxml_attribute(element, name);

	if (!text)
		return fail(reader, element, "<%s> without %s, at which NCCL crashes", element->name, name);
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		const char *word = topology_class_word(known[i]);

		if (strncmp(text, word, strlen(word)) != 0)
			continue;
		*ret = known[i];
		return 0;
	}
	return fail(reader, element, "%s \"%.40s\": NCCL does not know it here and takes it for LOC", name, text);
}

static int read_device(struct graph_reader *reader, const struct ncclxml_element *element, int *ret)
{
	const char *text = ncclxml_attribute(element, "dev"), *digits = text;
	long value;
	char *end;

	if (!text)
		return fail(reader, element, "<%s> without dev, which NCCL refuses", element->name);
	if (digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X'))
		digits += 2;
	value = isxdigit((unsigned char)digits[0]) ? strtol(digits, &end, 16) : -1;
	/* NCCL puts the number of a system above the first 56 bits; files of one host have none. */
	if (value < 0 || *end || value > 0xffff)
		return fail(reader, element, "dev \"%.40s\" is no hexadecimal number of a device", text);
	*ret = (int)value;
	return 0;
}

/* --------------------------------------------------------------------------------------------------------- elements */

static int read_gpu(struct graph_reader *reader, const struct ncclxml_element *element,
		    struct graph_xml_channel *channel)
{
	int dev = 0, r = read_device(reader, element, &dev);

	if (r < 0)
		return r;
	for (size_t i = 0; i < channel->gpu_count; i++)
		if (channel->gpus[i] == dev)
			return fail(reader, element, "GPU %d is twice in its channel", dev);
	if (channel->gpu_count == GRAPH_XML_GPUS_MAX)
		return fail(reader, element, "more than %d GPUs in a channel", GRAPH_XML_GPUS_MAX);
	channel->gpus[channel->gpu_count++] = dev;
	return 0;
}

static int read_net(struct graph_reader *reader, const struct ncclxml_element *element,
		    struct graph_xml_channel *channel)
{
	int dev = 0, r = read_device(reader, element, &dev);

	if (r < 0)
		return r;
	if (channel->net_count == 2)
		return fail(reader, element, "more than two nets in a channel: NCCL takes them for the next one's");
	channel->nets[channel->net_count++] = dev;
	return 0;
}

static int read_channel(struct graph_reader *reader, const struct ncclxml_element *element,
			struct graph_xml_channel *ret)
{
	int r = 0;

	for (const struct ncclxml_element *child = element->first; child && r == 0; child = child->next) {
		if (!strcmp(child->name, "gpu"))
			r = read_gpu(reader, child, ret);
		else if (!strcmp(child->name, "net"))
			r = read_net(reader, child, ret);
	}
	if (r == 0 && !ret->gpu_count)
		return fail(reader, element, "a channel without GPUs: NCCL takes it for rank 0 alone");
	if (r == 0 && ret->net_count == 1)
		return fail(reader, element, "a channel with one net: NCCL takes device 0 for the other");
	return r;
}

static int read_channels(struct graph_reader *reader, const struct ncclxml_element *element,
			 struct graph_xml_graph *graph)
{
	for (const struct ncclxml_element *child = element->first; child; child = child->next) {
		struct graph_xml_channel *channel = &graph->channels[graph->channel_count];
		int r;

		if (strcmp(child->name, "channel") != 0)
			continue;
		if (graph->channel_count == GRAPH_XML_CHANNELS_MAX)
			return fail(reader, child, "more than %d channels", GRAPH_XML_CHANNELS_MAX);
		r = read_channel(reader, child, channel);
		if (r < 0)
			return r;
		graph->channel_count++;
		/* An NVLS channel has its first GPU alone. */
		if (graph->id != GRAPH_XML_NVLS && !graph_xml_same_gpus(channel, &graph->channels[0]))
			return fail(reader, child, "a channel with other GPUs than the first: a rank would be missing");
	}
	return 0;
}

static int read_facts(struct graph_reader *reader, const struct ncclxml_element *element, struct graph_xml_graph *graph,
		      int *ret_channels)
{
	int number = 0, r;

	r = read_number(reader, element, "pattern", GRAPH_XML_PATTERN_BALANCED_TREE, GRAPH_XML_PATTERN_DIRECT, &number);
	graph->pattern = (enum graph_xml_pattern)number;
	if (r == 0)
		r = read_number(reader, element, "crossnic", 0, 2, &graph->crossnic);
	if (r == 0)
		r = read_number(reader, element, "nchannels", 0, GRAPH_XML_CHANNELS_MAX, ret_channels);
	if (r == 0)
		r = read_rate(reader, element, "speedintra", &graph->intra_GBps);
	if (r == 0)
		r = read_rate(reader, element, "speedinter", &graph->inter_GBps);
	if (r == 0 && ncclxml_attribute(element, "latencyinter"))
		r = read_rate(reader, element, "latencyinter", &graph->inter_latency_us);
	if (r == 0)
		r = read_class(reader, element, "typeintra", &graph->intra_class);
	if (r == 0)
		r = read_class(reader, element, "typeinter", &graph->inter_class);
	if (r == 0)
		r = read_number(reader, element, "samechannels", 0, 1, &number);
	graph->same_channels = number != 0;
	return r;
}

static int read_graph(struct graph_reader *reader, const struct ncclxml_element *element)
{
	struct graph_xml_graph *graph = &reader->graphs->graphs[reader->graphs->graph_count];
	int id = 0, channels = 0, r = read_number(reader, element, "id", GRAPH_XML_RING, GRAPH_XML_DIRECT, &id);

	if (r < 0)
		return r;
	for (size_t i = 0; i < reader->graphs->graph_count; i++)
		if ((int)reader->graphs->graphs[i].id == id)
			return fail(reader, element, "graph %d is there twice: NCCL makes one of both", id);
	graph->id = (enum graph_xml_id)id;
	r = read_facts(reader, element, graph, &channels);
	if (r == 0)
		r = read_channels(reader, element, graph);
	if (r < 0)
		return r;
	if (graph->channel_count != (size_t)channels)
		return fail(reader, element,
			    "nchannels is %d and there are %zu: NCCL goes by the number, and takes what "
			    "is missing for rank 0",
			    channels, graph->channel_count);
	if ((graph->pattern == GRAPH_XML_PATTERN_BALANCED_TREE || graph->pattern == GRAPH_XML_PATTERN_SPLIT_TREE) &&
	    graph->channel_count && graph->channels[0].gpu_count == 1)
		return fail(reader, element, "pattern %d with one GPU: NCCL looks for a second one", graph->pattern);
	reader->graphs->graph_count++;
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------ whole */

static int read_graphs(struct graph_reader *reader, const struct ncclxml_document *document)
{
	const struct ncclxml_element *root = document->root;
	int version, r;

	if (!strcmp(root->name, "system"))
		return fail(reader, root, "this is an NCCL topology, not a graph file");
	if (strcmp(root->name, "graphs") != 0)
		return fail(reader, root, "<%.40s> is no NCCL graph file, which begins with <graphs>", root->name);
	r = read_number(reader, root, "version", NCCLMODEL_VERSION, NCCLMODEL_VERSION, &version);
	if (r == 0 && document->element_count > NCCLMODEL_GRAPH_NODE_MAX)
		return fail(reader, root, "%zu elements, NCCL reads %d", document->element_count,
			    NCCLMODEL_GRAPH_NODE_MAX);
	for (const struct ncclxml_element *child = root->first; child && r == 0; child = child->next)
		if (!strcmp(child->name, "graph"))
			r = read_graph(reader, child);
	return r;
}

static void ignore_escape(void *arg, int line)
{
	(void)arg, (void)line;
}

int graph_xml_read(const char *text, size_t bytes, struct graph_xml *ret, struct diag *diag)
{
	struct graph_reader reader = { .graphs = ret, .diag = diag };
	struct ncclxml_document document;
	const char *reason;
	int r, line;

	memset(ret, 0, sizeof(*ret));
	r = ncclxml_document_read(text, bytes, &document, diag);
	if (r < 0)
		return r;
	r = read_graphs(&reader, &document);
	line = r == 0 ? ncclxml_scan(text, bytes, ignore_escape, NULL, &reason) : 0;
	if (line) {
		diag_set(diag, line, 0, "NCCL cannot read it: %s", reason);
		r = -EINVAL;
	}
	ncclxml_document_fini(&document);
	if (r < 0)
		memset(ret, 0, sizeof(*ret));
	return r;
}

/* -------------------------------------------------------------------------------------------------------- to a plan */

struct placer {
	const struct topology *topology;
	const struct plan_request *request;
	const struct graph_xml_numbers *numbers;
	struct diag *diag;
};

static int place_gpu(const struct placer *placer, int dev, uint8_t *ret)
{
	for (size_t i = 0; i < placer->request->gpu_count; i++) {
		if (placer->topology->vertices[placer->request->gpus[i]].gpu.index != dev)
			continue;
		*ret = (uint8_t)i;
		return 0;
	}
	diag_set(placer->diag, 0, 0, "it names GPU %d, which is not one of these", dev);
	return -ENOENT;
}

static int place_net(const struct placer *placer, int dev, uint8_t *ret)
{
	for (size_t i = 0; i < placer->request->nic_count; i++) {
		if (placer->numbers->net_devices[i] != dev)
			continue;
		*ret = (uint8_t)i;
		return 0;
	}
	diag_set(placer->diag, 0, 0, "it names net device %d, which is not one of these", dev);
	return -ENOENT;
}

static int place_channel(const struct placer *placer, const struct graph_xml_channel *from, bool ring,
			 struct plan_channel *ret)
{
	uint32_t seen = 0;
	int r = 0;

	if (from->gpu_count != placer->request->gpu_count) {
		diag_set(placer->diag, 0, 0, "a channel of %zu GPUs, there are %zu", from->gpu_count,
			 placer->request->gpu_count);
		return from->gpu_count > placer->request->gpu_count ? -ENOENT : -EINVAL;
	}
	for (size_t i = 0; r == 0 && i < from->gpu_count; i++) {
		r = place_gpu(placer, from->gpus[i], &ret->order[i]);
		if (r == 0 && (seen & ((uint32_t)1 << ret->order[i]))) {
			diag_set(placer->diag, 0, 0, "GPU %d is twice in a channel", from->gpus[i]);
			return -EINVAL;
		}
		seen |= r == 0 ? (uint32_t)1 << ret->order[i] : 0;
	}
	if (r < 0 || placer->request->hosts <= 1)
		return r;
	/* Where none are listed NCCL has zeros. */
	r = place_net(placer, from->nets[0], &ret->nic_in);
	/* Of a tree or a chain NCCL uses the first GPU's, which is the first. */
	ret->nic_out = ret->nic_in;
	return r == 0 && ring && from->gpu_count > 1 ? place_net(placer, from->nets[1], &ret->nic_out) : r;
}

int graph_xml_to_plan(const struct topology *topology, const struct plan_request *request,
		      const struct graph_xml_numbers *numbers, const struct graph_xml_graph *graph, struct plan *ret,
		      struct diag *diag)
{
	struct placer placer = { topology, request, numbers, diag };
	struct plan plan = { .gpu_count = request->gpu_count };

	static const enum plan_pattern patterns[] = { [GRAPH_XML_RING] = PLAN_RING,
						      [GRAPH_XML_TREE] = PLAN_TREE,
						      [GRAPH_XML_CHAIN] = PLAN_CHAIN,
						      [GRAPH_XML_DIRECT] = PLAN_DIRECT };

	if ((unsigned)graph->id > GRAPH_XML_DIRECT || graph->id == GRAPH_XML_NVLS) {
		diag_set(diag, 0, 0, "graph %d has neither rings nor trees", graph->id);
		return -EINVAL;
	}
	plan.pattern = patterns[graph->id];
	plan.intra_class = graph->intra_class;
	plan.inter_class = graph->inter_class;
	if (!graph->channel_count) {
		diag_set(diag, 0, 0, "graph %d has no channels", graph->id);
		return -EINVAL;
	}
	if (graph->channel_count > PLAN_CHANNELS_MAX) {
		diag_set(diag, 0, 0, "%zu channels, a plan has %d at the most", graph->channel_count,
			 PLAN_CHANNELS_MAX);
		return -E2BIG;
	}
	for (size_t i = 0; i < graph->channel_count; i++) {
		int r = place_channel(&placer, &graph->channels[i], plan.pattern == PLAN_RING, &plan.channels[i]);

		if (r < 0)
			return r;
		plan.crossnic = plan.crossnic || plan.channels[i].nic_in != plan.channels[i].nic_out;
		plan.channel_count++;
	}
	/* Of a tree NCCL takes half for the collective. */
	plan.rate_Bps = (uint64_t)((request->hosts > 1 ? graph->inter_GBps : graph->intra_GBps) * 1e9 /
				   (plan.pattern == PLAN_RING ? 1 : 2));
	*ret = plan;
	return 0;
}
