/* SPDX-License-Identifier: Apache-2.0 */

#include "discover/archive.h"
#include "discover/build.h"
#include "discover/ask.h"
#include "ncclxml/topology_xml.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HWLOC_ANSWER "hwloc.xml"
#define NVML_ANSWER  "nvml.txt"

struct hwloc_question {
	struct discover_root *root;
	const char *folder;
	struct diag *diag;
};

static const char *alias(void *arg, const char *name)
{
	return discover_root_alias(arg, name);
}

/* The filtered text is what both the graph and a capture are made from. */
static int ask_hwloc(void *arg, char **ret, size_t *ret_bytes)
{
	const struct hwloc_question *question = arg;
	char *text;
	size_t bytes;
	int r = discover_hwloc_export(question->folder, &text, &bytes, question->diag);

	if (r < 0)
		return r;
	r = discover_hwloc_filter(text, bytes, alias, question->root, ret, ret_bytes, question->diag);
	free(text);
	return r;
}

/* A folder that lacks hwloc's file is looked at by hwloc, as this machine is. */
static int hwloc_answer(struct discover_root *root, char **ret, size_t *ret_bytes, struct diag *diag)
{
	const char *folder = discover_root_folder(root);
	struct hwloc_question question = { root, folder, diag };
	int r;

	diag_set(diag, 0, 0, "%s", "");
	r = discover_root_answer(root, HWLOC_ANSWER, ask_hwloc, &question, ret, ret_bytes);
	if (r < 0 && folder && *folder) {
		r = ask_hwloc(&question, ret, ret_bytes);
		if (!r)
			discover_root_keep(root, HWLOC_ANSWER, DISCOVER_FILE, *ret, *ret_bytes);
	}
	if (r < 0 && !folder) {
		diag_set(diag, 0, 0, "the capture lacks " HWLOC_ANSWER);
		r = -EINVAL;
	}
	return r;
}

/* No GPU, no driver, no NVML: a machine without GPUs is a machine. *ret_there is false then. */
static int discover_nvml(struct discover_root *root, struct gpu_inventory *ret, bool *ret_there, struct diag *diag)
{
	char *text;
	size_t bytes;
	int r = discover_root_answer(root, NVML_ANSWER, discover_nvml_ask, NULL, &text, &bytes);

	*ret_there = r == 0;
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	r = discover_nvml_read(text, bytes, ret, diag);
	*ret_there = r == 0;
	free(text);
	return r;
}

/* machine: false for a file of hwloc's alone, which has no facts but its own. */
static int graph_and_facts(struct discover_root *root, bool machine, const struct discover_tree *tree,
			   const struct gpu_inventory *gpus, struct topology *ret, struct discover_facts *ret_facts,
			   struct diag *diag)
{
	struct topology topology;
	int r = discover_graph(root, tree, gpus, &topology, diag);

	if (r < 0)
		return r;
	if (ret_facts)
		r = discover_facts_read(machine ? root : NULL, &topology, tree, gpus, ret_facts);
	if (r < 0)
		topology_fini(&topology);
	else
		*ret = topology;
	return r;
}

static int from_hwloc_text(struct discover_root *root, bool machine, const char *text, size_t bytes,
			   const struct gpu_inventory *gpus, struct topology *ret, struct discover_facts *ret_facts,
			   struct diag *diag)
{
	struct discover_tree tree;
	int r = discover_hwloc_read(text, bytes, &tree, diag);

	if (r < 0)
		return r;
	r = graph_and_facts(root, machine, &tree, gpus, ret, ret_facts, diag);
	discover_tree_fini(&tree);
	return r;
}

int discover_machine(struct discover_root *root, struct topology *ret, struct discover_facts *ret_facts,
		     struct diag *diag)
{
	struct gpu_inventory gpus;
	bool has_gpus = false;
	size_t bytes;
	char *text;
	int r = hwloc_answer(root, &text, &bytes, diag);

	if (r < 0)
		return r;
	r = discover_nvml(root, &gpus, &has_gpus, diag);
	if (!r)
		r = from_hwloc_text(root, true, text, bytes, has_gpus ? &gpus : NULL, ret, ret_facts, diag);
	if (has_gpus)
		gpu_inventory_fini(&gpus);
	free(text);
	if (!r)
		diag_set(diag, 0, 0, "%s", ""); /* what was tried first */
	return r;
}

/* ------------------------------------------------------------------------------------------------------- kinds of files */

static int from_capture(const char *data, size_t bytes, struct topology *ret, struct discover_facts *ret_facts,
			struct diag *diag)
{
	struct discover_root *root;
	int r = discover_archive_read(data, bytes, &root, diag);

	if (r < 0)
		return r;
	r = discover_machine(root, ret, ret_facts, diag);
	discover_root_close(root);
	return r;
}

static int from_hwloc(const char *data, size_t bytes, struct topology *ret, struct discover_facts *ret_facts,
		      struct diag *diag)
{
	struct discover_root *root;
	int r = discover_root_empty(&root);

	if (r < 0)
		return r;
	r = from_hwloc_text(root, false, data, bytes, NULL, ret, ret_facts, diag);
	discover_root_close(root);
	return r;
}

/* The name of the first element; "" when this is no XML. */
static void first_element(const char *data, size_t bytes, char *ret, size_t room)
{
	size_t at = 0, used = 0;

	*ret = '\0';
	while (at < bytes && strchr(" \t\r\n", data[at]) && data[at])
		at++;
	/* Declarations and comments first. */
	while (at + 1 < bytes && data[at] == '<' && (data[at + 1] == '?' || data[at + 1] == '!')) {
		bool comment = bytes - at >= 4 && !memcmp(data + at, "<!--", 4);
		const char *end = memmem(data + at, bytes - at, comment ? "-->" : ">", comment ? 3 : 1);

		if (!end)
			return;
		at = (size_t)(end - data) + (comment ? 3 : 1);
		while (at < bytes && strchr(" \t\r\n", data[at]) && data[at])
			at++;
	}
	if (at >= bytes || data[at++] != '<')
		return;
	while (at < bytes && used + 1 < room && data[at] && !strchr(" \t\r\n/>", data[at]))
		ret[used++] = data[at++];
	ret[used] = '\0';
}

static enum discover_source source_of(const char *data, size_t bytes, const char *element)
{
	if (discover_archive_is(data, bytes))
		return DISCOVER_CAPTURE;
	if (!strcmp(element, "topology"))
		return DISCOVER_HWLOC_XML;
	return *element ? DISCOVER_NCCL_XML : DISCOVER_TEXT;
}

int discover_bytes(const char *data, size_t bytes, struct topology *ret, struct discover_facts *ret_facts,
		   enum discover_source *ret_source, struct diag *diag)
{
	static const char profile_begins[] = "tributary-profile ";
	struct discover_facts none = { 0 };
	enum discover_source source;
	char element[64];
	int r;

	first_element(data, bytes, element, sizeof(element));
	source = source_of(data, bytes, element);
	if (!strcmp(element, "graphs")) {
		diag_set(diag, 0, 0, "it is an NCCL graph file (the channels that NCCL chose), not a topology");
		return -EINVAL;
	}
	if (bytes > strlen(profile_begins) && !memcmp(data, profile_begins, strlen(profile_begins))) {
		diag_set(diag, 0, 0, "it is a profile: give it with --profile");
		return -EINVAL;
	}
	if (ret_facts)
		*ret_facts = none;
	switch (source) {
	case DISCOVER_CAPTURE:
		r = from_capture(data, bytes, ret, ret_facts, diag);
		break;
	case DISCOVER_HWLOC_XML:
		r = from_hwloc(data, bytes, ret, ret_facts, diag);
		break;
	case DISCOVER_NCCL_XML:
		r = strcmp(element, "system") ? -EINVAL : topology_xml_read(data, bytes, ret, diag);
		if (strcmp(element, "system") != 0)
			diag_set(diag, 0, 0, "it is XML, but neither hwloc's (<topology>) nor NCCL's (<system>): <%s>",
				 element);
		break;
	default:
		r = topology_read(data, bytes, ret, diag);
		break;
	}
	if (r < 0)
		return r;
	if (source != DISCOVER_NCCL_XML)
		diag_set(diag, 0, 0, "%s", "");
	if (ret_source)
		*ret_source = source;
	return 0;
}
