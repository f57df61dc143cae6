/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hwloc's XML from a stranger. What is read has parents before children and places that exist; its graph can be written
 * and read again; what the filter leaves of it reads as well.
 */
#include "discover/hwloc_xml.h"

#include "discover/build.h"
#include "support/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 17 };

static const char *shown(void *arg, const char *name)
{
	(void)arg;
	return name;
}

static void check_tree(const struct discover_tree *tree)
{
	for (uint32_t i = 0; i < tree->count; i++) {
		const struct discover_object *object = &tree->at[i];

		fuzz_must(object->parent == HWLOC_NONE || object->parent < i);
		fuzz_must(object->type != HWLOC_XML_NODE || object->os_index >= 0);
		fuzz_must(memchr(object->name, '\0', sizeof(object->name)) != NULL);
		fuzz_must(memchr(object->model, '\0', sizeof(object->model)) != NULL);
		fuzz_must(memchr(object->cpus, '\0', sizeof(object->cpus)) != NULL);
	}
	for (size_t i = 0; i < tree->nvlink_count; i++)
		fuzz_must(tree->nvlink_ends[i] == HWLOC_NONE || tree->nvlink_ends[i] < tree->count);
}

static void check_filter(const char *text, size_t bytes)
{
	struct discover_tree tree;
	struct diag diag = { 0 };
	char *filtered;
	size_t filtered_bytes;

	if (discover_hwloc_filter(text, bytes, shown, NULL, &filtered, &filtered_bytes, &diag) < 0)
		return;
	if (discover_hwloc_read(filtered, filtered_bytes, &tree, &diag) == 0)
		discover_tree_fini(&tree);
	else
		fuzz_must(diag.text[0]);
	free(filtered);
}

static void check_graph(const char *data, size_t bytes)
{
	struct topology topology, again;
	enum discover_source source;
	struct diag diag = { 0 };
	size_t text_bytes;
	char *text;

	if (discover_bytes(data, bytes, &topology, NULL, &source, &diag) < 0) {
		fuzz_must(diag.text[0]);
		return;
	}
	fuzz_must(topology_write(&topology, &text, &text_bytes) == 0);
	fuzz_must(topology_read(text, text_bytes, &again, &diag) == 0);
	fuzz_must(again.vertex_count == topology.vertex_count && again.link_count == topology.link_count);
	topology_fini(&again);
	topology_fini(&topology);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct discover_tree tree;
	struct diag diag = { 0 };

	if (bytes > MOST_BYTES)
		return 0;
	if (discover_hwloc_read((const char *)data, bytes, &tree, &diag) < 0) {
		fuzz_must(diag.text[0]);
		return 0;
	}
	check_tree(&tree);
	discover_tree_fini(&tree);
	check_filter((const char *)data, bytes);
	check_graph((const char *)data, bytes);
	return 0;
}
