/* SPDX-License-Identifier: Apache-2.0 */
#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVS_MAX = 32, CHANNELS_MAX = 64 };

struct reader {
	const char *at;
	char *why;
	uint32_t gpus;
};

/* One tag, without its brackets. */
struct tag {
	const char *name, *end; /* behind the last attribute */
	size_t name_bytes;
	bool closes, is_empty;
};

static bool refuse(struct reader *reader, const char *why)
{
	snprintf(reader->why, GRAPH_WHY_BYTES, "%s at \"%.30s\"", why, reader->at);
	return false;
}

static bool tag_next(struct reader *reader, struct tag *ret)
{
	const char *end;

	reader->at += strspn(reader->at, " \n");
	if (*reader->at != '<')
		return refuse(reader, "no tag");
	end = strchr(reader->at, '>');
	if (!end)
		return refuse(reader, "a tag has no end");
	ret->closes = reader->at[1] == '/';
	ret->is_empty = end[-1] == '/';
	ret->name = reader->at + 1 + ret->closes;
	ret->name_bytes = strcspn(ret->name, " />");
	ret->end = end - ret->is_empty;
	reader->at = end + 1;
	return true;
}

static bool is(const struct tag *tag, const char *name)
{
	return strlen(name) == tag->name_bytes && !strncmp(tag->name, name, tag->name_bytes);
}

/* -1: it is not there, or no number. */
static long attribute(const struct tag *tag, const char *name)
{
	size_t bytes = strlen(name);

	for (const char *at = tag->name + tag->name_bytes; at + bytes + 3 < tag->end; at++) {
		char *end;
		long value;

		if (*at != ' ' || strncmp(at + 1, name, bytes) != 0 || strncmp(at + 1 + bytes, "=\"", 2) != 0)
			continue;
		value = strtol(at + bytes + 3, &end, 0);
		return *end == '"' ? value : -1;
	}
	return -1;
}

static bool channel_read(struct reader *reader)
{
	uint32_t seen = 0;
	struct tag tag;

	for (;;) {
		long dev;

		if (!tag_next(reader, &tag))
			return false;
		if (tag.closes)
			break;
		dev = attribute(&tag, "dev");
		if (!tag.is_empty || (!is(&tag, "gpu") && !is(&tag, "net")) || dev < 0 || dev >= DEVS_MAX)
			return refuse(reader, "neither <gpu> nor <net>");
		if (!is(&tag, "gpu"))
			continue;
		if (seen & 1u << dev)
			return refuse(reader, "a GPU is twice in a channel");
		seen |= 1u << dev;
	}
	if (!is(&tag, "channel"))
		return refuse(reader, "a channel ends wrongly");
	return seen == reader->gpus || refuse(reader, "a channel has other GPUs than the communicator");
}

static bool graph_read(struct reader *reader, const struct tag *graph)
{
	const long wanted = attribute(graph, "nchannels");
	struct tag tag;

	if (wanted < 1 || wanted > CHANNELS_MAX)
		return refuse(reader, "no number of channels");
	for (long count = 0;; count++) {
		if (!tag_next(reader, &tag))
			return false;
		if (tag.closes)
			return (is(&tag, "graph") && count == wanted) || refuse(reader, "not as many channels as said");
		if (!is(&tag, "channel") || tag.is_empty || !channel_read(reader))
			return reader->why[0] ? false : refuse(reader, "no channel");
	}
}

bool graph_fits(const char *text, size_t bytes, uint32_t gpus, char why[static GRAPH_WHY_BYTES])
{
	char *copy = strndup(text, bytes);
	struct reader reader = { .at = copy, .why = why, .gpus = gpus };
	bool has[2] = { false, false }; /* rings and trees */
	struct tag tag;

	why[0] = '\0';
	if (!copy || !tag_next(&reader, &tag) || !is(&tag, "graphs") || attribute(&tag, "version") != 1) {
		refuse(&reader, "no <graphs>");
		goto out;
	}
	while (tag_next(&reader, &tag) && !tag.closes) {
		const long id = attribute(&tag, "id");

		if (!is(&tag, "graph") || id < 0 || !graph_read(&reader, &tag)) {
			if (!why[0])
				refuse(&reader, "no graph");
			goto out;
		}
		if (id < 2)
			has[id] = true;
	}
	reader.at += strspn(reader.at, " \n");
	if (!why[0] && (!is(&tag, "graphs") || *reader.at || !has[0] || !has[1]))
		refuse(&reader, "no rings, no trees, or no end");
out:
	free(copy);
	return !why[0];
}

uint64_t graph_hash(const char *text, size_t bytes)
{
	uint64_t hash = 14695981039346656037u;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
	return hash;
}
