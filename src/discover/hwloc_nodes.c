/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/hwloc_nodes.h"

#include "base/parse.h"
#include "base/sys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct hwloc_node {
	uint32_t object;
	int os_index;
	uint32_t cpus[HWLOC_CPU_WORDS]; /* least significant word first */
	bool gpu, plain;                /* plain: what an operating system uses first */
	const struct hwloc_node *owner; /* the node that has its cores; NULL: none */
};

/*
 * hwloc's bitmaps: words of 32 bits, most significant first, "0xff,,0x0"; an empty word is 0, "0xf...f" before others
 * means that all higher bits are set. False, and all 0, when it is no such text.
 */
static bool read_words(const char *text, uint32_t *words, size_t room)
{
	size_t count = 0;

	memset(words, 0, room * sizeof(*words));
	while (text && *text) {
		size_t bytes = strcspn(text, ",");
		uint64_t word = 0;
		char item[16];

		snprintf(item, sizeof(item), "%.*s", (int)(bytes < sizeof(item) ? bytes : 0), text);
		if (bytes >= sizeof(item) || count == room ||
		    (bytes && (parse_hex64(item, &word) < 0 || word > UINT32_MAX))) {
			memset(words, 0, room * sizeof(*words));
			return false;
		}
		memmove(words + 1, words, count * sizeof(*words));
		words[0] = (uint32_t)word;
		count++;
		if (!text[bytes])
			break;
		text += bytes + 1;
	}
	return count > 0;
}

static bool is_empty(const uint32_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (words[i])
			return false;
	return true;
}

void hwloc_set_read(const char *text, struct hwloc_set *set)
{
	struct hwloc_set read = { .words = { 0 } };

	if (read_words(text, read.words, HWLOC_NODE_WORDS) && !is_empty(read.words, HWLOC_NODE_WORDS))
		*set = read;
}

/* "ffff0000,0000ffff", from the first word that is not 0; "": none, or too long. */
static void write_mask(const uint32_t *words, char ret[static TOPOLOGY_AFFINITY_BYTES])
{
	size_t count = HWLOC_CPU_WORDS, used = 0;

	while (count && !words[count - 1])
		count--;
	ret[0] = '\0';
	if (count * 9 > TOPOLOGY_AFFINITY_BYTES)
		return;
	while (count--)
		used += (size_t)snprintf(ret + used, TOPOLOGY_AFFINITY_BYTES - used, "%s%08x", used ? "," : "",
					 words[count]);
}

static bool is_there(const struct hwloc_nodes *nodes, int os_index)
{
	for (size_t i = 0; i < nodes->count; i++)
		if (nodes->at[i].os_index == os_index)
			return true;
	return false;
}

int hwloc_nodes_add(struct hwloc_nodes *nodes, uint32_t object, int os_index, const char *cpuset, const char *subtype,
		    char ret_mask[static TOPOLOGY_AFFINITY_BYTES])
{
	struct hwloc_node *node;

	if (is_there(nodes, os_index))
		return -EEXIST;
	if (sys_grow(&nodes->at, nodes->count, 1, sizeof(*nodes->at)) < 0)
		return -ENOMEM;
	node = &nodes->at[nodes->count++];
	*node = (struct hwloc_node){ .object = object, .os_index = os_index };
	node->gpu = subtype && !strcasecmp(subtype, "GPUMemory");
	node->plain = !subtype || !*subtype || !strcasecmp(subtype, "DRAM");
	(void)read_words(cpuset, node->cpus, HWLOC_CPU_WORDS);
	write_mask(node->cpus, ret_mask);
	return 0;
}

int hwloc_nodes_add_near(struct hwloc_nodes *nodes, const struct hwloc_set *set)
{
	if (sys_grow(&nodes->near, nodes->near_count, 1, sizeof(*nodes->near)) < 0)
		return -ENOMEM;
	nodes->near[nodes->near_count++] = *set;
	return 0;
}

/* Kernels give the nodes that have cores the lower numbers. */
static int compare(const void *a, const void *b)
{
	const struct hwloc_node *first = a, *second = b;

	if (first->plain != second->plain)
		return first->plain ? -1 : 1;
	return (first->os_index > second->os_index) - (first->os_index < second->os_index);
}

/* The node that has the first of a node's cores. taken: the cores that have one; owners: of each. */
static const struct hwloc_node *owner_of(const struct hwloc_node *node, const uint32_t *taken,
					 const struct hwloc_node *const *owners)
{
	for (size_t i = 0; i < HWLOC_CPU_WORDS; i++)
		if (node->cpus[i] & taken[i])
			return owners[32 * i + (size_t)__builtin_ctz(node->cpus[i] & taken[i])];
	return NULL;
}

/* A node has cores where it has one that no node before it has. */
static int find_owners(struct hwloc_nodes *nodes)
{
	const struct hwloc_node **owners = sys_zalloc(32 * HWLOC_CPU_WORDS * sizeof(struct hwloc_node *));
	uint32_t taken[HWLOC_CPU_WORDS] = { 0 };

	if (!owners)
		return -ENOMEM;
	for (size_t i = 0; i < nodes->count; i++) {
		struct hwloc_node *node = &nodes->at[i];

		for (size_t j = 0; !node->gpu && j < HWLOC_CPU_WORDS; j++) {
			for (uint32_t more = node->cpus[j] & ~taken[j]; more; more &= more - 1) {
				owners[32 * j + (size_t)__builtin_ctz(more)] = node;
				node->owner = node;
			}
			taken[j] |= node->cpus[j];
		}
	}
	for (size_t i = 0; i < nodes->count; i++)
		if (!nodes->at[i].owner)
			nodes->at[i].owner = owner_of(&nodes->at[i], taken, owners);
	sys_free(owners);
	return 0;
}

/*
 * The lowest node with cores that an object is near to; the owner of memory, if it is near to memory alone. A node that the
 * file does not list (it has no memory) has cores.
 */
static void find_near(const struct hwloc_node *const *numbered, const struct hwloc_set *set,
		      struct discover_object *object)
{
	const struct hwloc_node *memory = NULL;
	int count = 0;

	object->node = -1;
	for (int index = 0; index < 32 * HWLOC_NODE_WORDS; index++) {
		const struct hwloc_node *node;

		if (!(set->words[index / 32] & 1U << index % 32))
			continue;
		node = numbered[index];
		if (node && node->owner != node)
			memory = memory ? memory : node;
		else if (!count++)
			object->node = index;
	}
	if (!count && memory && memory->owner)
		object->node = memory->owner->os_index;
	object->several_nodes = count > 1;
}

int hwloc_nodes_finish(struct hwloc_nodes *nodes, struct discover_tree *tree)
{
	const struct hwloc_node **numbered = sys_zalloc(32 * HWLOC_NODE_WORDS * sizeof(struct hwloc_node *));
	int r = numbered ? 0 : -ENOMEM;

	if (nodes->count)
		qsort(nodes->at, nodes->count, sizeof(*nodes->at), compare);
	if (!r)
		r = find_owners(nodes);
	for (size_t i = 0; !r && i < nodes->count; i++) {
		const struct hwloc_node *node = &nodes->at[i];

		tree->at[node->object].has_cpus = node->owner == node;
		if (node->os_index < 32 * HWLOC_NODE_WORDS)
			numbered[node->os_index] = node;
	}
	for (uint32_t i = 0; !r && i < tree->count && i < nodes->near_count; i++)
		find_near(numbered, &nodes->near[i], &tree->at[i]);
	sys_free(numbered);
	return r;
}

void hwloc_nodes_fini(struct hwloc_nodes *nodes)
{
	sys_free(nodes->at);
	sys_free(nodes->near);
	*nodes = (struct hwloc_nodes){ .at = NULL };
}
