/*
 * NCCL's files as NCCL reads them, written down from what it accepts and refuses. What it reads looks like XML, but: only
 * blanks and ends of lines may stand between tags (no tabs, no text, no declaration), attributes are separated by single
 * blanks, a name or value has at most 253 characters, attributes above 16 are dropped, entities stay as they are, and
 * elements that are not known where they stand are skipped with all that is in them.
 *
 * It shares no code with src/ncclxml. Pure; any thread.
 */
#ifndef TESTS_STANDIN_NXML_H
#define TESTS_STANDIN_NXML_H

#include <stddef.h>

enum { NXML_NAME_BYTES = 254, NXML_ATTRIBUTES_MAX = 16, NXML_CHILDREN_MAX = 128, NXML_WHY_BYTES = 160 };

struct nxml_attribute {
	char key[NXML_NAME_BYTES], value[NXML_NAME_BYTES];
};

struct nxml_node {
	char name[NXML_NAME_BYTES];
	struct nxml_attribute attributes[NXML_ATTRIBUTES_MAX];
	size_t attribute_count;
	int children[NXML_CHILDREN_MAX]; /* nodes */
	size_t child_count;
};

/* The nodes that NCCL keeps; the first one is the root. */
struct nxml {
	struct nxml_node *nodes;
	size_t node_count, room;
	char why[NXML_WHY_BYTES]; /* of a refusal */
};

enum nxml_kind { NXML_TOPOLOGY, NXML_GRAPH };

/* 0, or -1: NCCL's init would fail, and nxml->why says why. Free it in either case. */
int nxml_read(enum nxml_kind kind, const char *text, size_t bytes, struct nxml *ret);
void nxml_free(struct nxml *nxml);

/* NULL: no such attribute. */
const char *nxml_attribute(const struct nxml_node *node, const char *key);

#endif
