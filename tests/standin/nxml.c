#include "nxml.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which elements count where; NULL: at the top. */
struct place_of {
	const char *parent, *child;
};
static const struct place_of topology_places[] = {
	{ NULL, "system" },  { "system", "cpu" }, { "cpu", "pci" }, { "cpu", "nic" },
	{ "pci", "pci" },    { "pci", "gpu" },    { "pci", "nic" }, { "pci", "pcilink" },
	{ "gpu", "nvlink" }, { "gpu", "c2c" },    { "nic", "net" },
};
static const struct place_of graph_places[] = {
	{ NULL, "graphs" }, { "graphs", "graph" }, { "graph", "channel" }, { "channel", "net" }, { "channel", "gpu" },
};

/* With so many nodes whatever comes next is refused. Graph files: 2.28.9's; 2.30.7 takes more. */
enum { TOPOLOGY_NODES = 256, GRAPH_NODES = 4096 };

struct cursor {
	const char *text;
	size_t at, bytes;
	enum nxml_kind kind;
	struct nxml *out;
};

enum tag { TAG_NONE, TAG_OPEN, TAG_CLOSE, TAG_SINGLE, TAG_REFUSED };

static enum tag refuse(struct cursor *cursor, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static enum tag refuse(struct cursor *cursor, const char *fmt, ...)
{
	va_list args;
	int bytes = snprintf(cursor->out->why, NXML_WHY_BYTES, "byte %zu: ", cursor->at);

	va_start(args, fmt);
	if (bytes > 0 && bytes < NXML_WHY_BYTES)
		vsnprintf(cursor->out->why + bytes, NXML_WHY_BYTES - (size_t)bytes, fmt, args);
	va_end(args);
	return TAG_REFUSED;
}

static int take(struct cursor *cursor)
{
	return cursor->at < cursor->bytes ? (unsigned char)cursor->text[cursor->at++] : -1;
}

/* A name up to its end; returns the character that ended it, or -1. */
static int take_name(struct cursor *cursor, char name[NXML_NAME_BYTES])
{
	size_t length = 0;

	for (;;) {
		int c = take(cursor);

		if (c < 0 || c == '=' || c == ' ' || c == '>' || c == '/' || c == '\n' || c == '\r') {
			name[length] = '\0';
			return c;
		}
		if (length == NXML_NAME_BYTES - 1)
			return -1;
		name[length++] = (char)c;
	}
}

/* A quoted value; returns the character after it, or -1. */
static int take_value(struct cursor *cursor, char value[NXML_NAME_BYTES])
{
	int quote = take(cursor);
	size_t length = 0;

	if (quote != '"' && quote != '\'')
		return -1;
	for (;;) {
		int c = take(cursor);

		if (c < 0)
			return -1;
		if (c == quote) {
			value[length] = '\0';
			return take(cursor);
		}
		if (length == NXML_NAME_BYTES - 1)
			return -1;
		value[length++] = (char)c;
	}
}

static enum tag take_comment(struct cursor *cursor, size_t from)
{
	const char *end;

	cursor->at = from;
	end = memmem(cursor->text + from, cursor->bytes - from, "-->", 3);
	if (!end)
		return refuse(cursor, "a comment without an end");
	cursor->at = (size_t)(end - cursor->text) + 3;
	return TAG_NONE;
}

static enum tag take_attributes(struct cursor *cursor, int c, struct nxml_node *node)
{
	while (c == ' ') {
		struct nxml_attribute attribute = { "", "" };

		c = take_name(cursor, attribute.key);
		if (c == '=')
			c = take_value(cursor, attribute.value);
		if (c < 0)
			return refuse(cursor, "attribute %.40s of <%.40s>", attribute.key, node->name);
		if (node->attribute_count < NXML_ATTRIBUTES_MAX)
			node->attributes[node->attribute_count++] = attribute;
	}
	if (c == '/') {
		char rest[NXML_NAME_BYTES];

		if (take_name(cursor, rest) != '>')
			return refuse(cursor, "<%.40s ... /> without its end", node->name);
		return TAG_SINGLE;
	}
	return c == '>' ? TAG_OPEN : refuse(cursor, "<%.40s> without its end", node->name);
}

static enum tag take_tag(struct cursor *cursor, struct nxml_node *node)
{
	for (;;) {
		size_t from;
		int c = take(cursor);

		while (c == ' ' || c == '\n' || c == '\r')
			c = take(cursor);
		if (c < 0)
			return TAG_NONE;
		if (c != '<')
			return refuse(cursor, "character %#x where a tag must be", c);
		memset(node, 0, sizeof(*node));
		from = cursor->at;
		c = take_name(cursor, node->name);
		if (c < 0 || c == '=')
			return refuse(cursor, "a tag's name");
		if (!strncmp(node->name, "!--", 3)) {
			if (take_comment(cursor, from + 3) == TAG_REFUSED)
				return TAG_REFUSED;
			continue;
		}
		if (!node->name[0] && c == '/') {
			c = take_name(cursor, node->name);
			return c == '>' ? TAG_CLOSE : refuse(cursor, "</%.40s> without its end", node->name);
		}
		return take_attributes(cursor, c, node);
	}
}

static bool belongs(enum nxml_kind kind, const char *parent, const char *child)
{
	const struct place_of *places = kind == NXML_TOPOLOGY ? topology_places : graph_places;
	size_t count = kind == NXML_TOPOLOGY ? sizeof(topology_places) / sizeof(places[0])
					     : sizeof(graph_places) / sizeof(places[0]);

	for (size_t i = 0; i < count; i++)
		if (!strcmp(places[i].child, child) &&
		    (parent ? places[i].parent && !strcmp(places[i].parent, parent) : !places[i].parent))
			return true;
	return false;
}

/* All up to the end of an element that does not count. */
static enum tag skip(struct cursor *cursor, unsigned depth)
{
	struct nxml_node node;

	if (depth > 1000)
		return refuse(cursor, "elements a thousand deep");
	for (;;) {
		enum tag tag = take_tag(cursor, &node);

		if (tag == TAG_NONE)
			return refuse(cursor, "an element without its end");
		if (tag == TAG_OPEN)
			tag = skip(cursor, depth + 1);
		else if (tag == TAG_CLOSE)
			return TAG_CLOSE;
		if (tag == TAG_REFUSED)
			return tag;
	}
}

static int node_add(struct cursor *cursor, const struct nxml_node *node, int parent)
{
	struct nxml *out = cursor->out;
	int index = (int)out->node_count;

	if (parent >= 0) {
		if (out->nodes[parent].child_count == NXML_CHILDREN_MAX) {
			refuse(cursor, "more than %d children", NXML_CHILDREN_MAX);
			return -1;
		}
		out->nodes[parent].children[out->nodes[parent].child_count++] = index;
	}
	if (out->node_count == out->room) {
		size_t room = out->room ? 2 * out->room : 64;
		struct nxml_node *nodes = realloc(out->nodes, room * sizeof(*nodes));

		if (!nodes)
			abort();
		out->nodes = nodes;
		out->room = room;
	}
	out->nodes[out->node_count++] = *node;
	return index;
}

/* The version, which NCCL looks at when it meets the root. */
static bool version_fits(struct cursor *cursor, const struct nxml_node *node)
{
	const char *version = nxml_attribute(node, "version");

	if (version && strtol(version, NULL, 0) == 1)
		return true;
	refuse(cursor, "version %s of <%s>, and 1 is needed", version ? version : "(none)", node->name);
	return false;
}

static int take_children(struct cursor *cursor, int parent)
{
	size_t most = cursor->kind == NXML_TOPOLOGY ? TOPOLOGY_NODES : GRAPH_NODES;
	struct nxml_node node;

	for (;;) {
		const char *parent_name = parent >= 0 ? cursor->out->nodes[parent].name : NULL;
		enum tag tag;
		int index;

		if (cursor->out->node_count == most) {
			refuse(cursor, "%zu elements", most);
			return -1;
		}
		tag = take_tag(cursor, &node);
		if (tag == TAG_REFUSED)
			return -1;
		if (tag == TAG_NONE) {
			if (parent < 0)
				return 0;
			refuse(cursor, "<%s> without its end", parent_name);
			return -1;
		}
		if (tag == TAG_CLOSE) {
			if (parent >= 0 && !strcmp(node.name, parent_name))
				return 0;
			refuse(cursor, "</%s> where <%s> should end", node.name, parent_name ? parent_name : "nothing");
			return -1;
		}
		if (!belongs(cursor->kind, parent_name, node.name)) {
			if (tag == TAG_OPEN && skip(cursor, 0) == TAG_REFUSED)
				return -1;
			continue;
		}
		index = node_add(cursor, &node, parent);
		if (index < 0 || (parent < 0 && !version_fits(cursor, &node)) ||
		    (tag == TAG_OPEN && take_children(cursor, index) < 0))
			return -1;
	}
}

int nxml_read(enum nxml_kind kind, const char *text, size_t bytes, struct nxml *ret)
{
	struct cursor cursor = { .text = text, .bytes = bytes, .kind = kind, .out = ret };

	memset(ret, 0, sizeof(*ret));
	return take_children(&cursor, -1);
}

void nxml_free(struct nxml *nxml)
{
	free(nxml->nodes);
	memset(nxml, 0, sizeof(*nxml));
}

const char *nxml_attribute(const struct nxml_node *node, const char *key)
{
	for (size_t i = 0; i < node->attribute_count; i++)
		if (!strcmp(node->attributes[i].key, key))
			return node->attributes[i].value;
	return NULL;
}
