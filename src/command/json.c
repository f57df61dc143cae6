/* SPDX-License-Identifier: Apache-2.0 */
#include "command/json.h"

#include "command/command.h"
#include "command/show/view.h"

#include <string.h>

json_t *json_whole(const char *format, json_t *value)
{
	json_t *whole = json_pack("{ss}", "format", format);

	if (!value || json_object_update(whole, value) < 0) {
		json_decref(whole);
		whole = NULL;
	}
	json_decref(value);
	return whole;
}

int json_print(const char *format, json_t *value, FILE *out)
{
	json_t *whole = json_whole(format, value);
	int r = whole ? json_dumpf(whole, out, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : -1;

	json_decref(whole);
	/* What is wrong with the output is said once, at the end of the program. */
	if (r < 0)
		return ferror(out) ? COMMAND_FAILED : command_failed(NULL, 0, "there is no memory for the JSON");
	fputc('\n', out);
	return COMMAND_OK;
}

json_t *json_text(const char *text)
{
	json_t *value = json_string(text);
	char plain[512];
	size_t bytes = 0;

	if (value)
		return value;
	for (; bytes < sizeof(plain) - 1 && text[bytes]; bytes++)
		plain[bytes] = text[bytes] >= ' ' && text[bytes] <= '~' ? text[bytes] : '?';
	plain[bytes] = '\0';
	return json_string(plain);
}

const char *json_text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

json_t *json_known(uint64_t value)
{
	return value ? json_integer((json_int_t)value) : json_null();
}

static json_t *known_int(int value)
{
	return value >= 0 ? json_integer(value) : json_null();
}

json_t *json_known_text(const char *text)
{
	return *text ? json_text(text) : json_null();
}

static json_t *json_capacity(const struct topology_capacity *capacity)
{
	return json_pack("{so ss so so so}", "rate_Bps", json_known(capacity->rate_Bps), "provenance",
			 topology_provenance_word(capacity->provenance), "latency_ns", json_known(capacity->latency_ns),
			 "spread", capacity->spread > 0 ? json_real(capacity->spread) : json_null(), "date_s",
			 capacity->date_s > 0 ? json_integer((json_int_t)capacity->date_s) : json_null());
}

static const char *name_of(const struct topology *topology, uint32_t vertex)
{
	return topology->vertices[vertex].name;
}

static json_t *pci_of(const struct topology_pci *pci)
{
	return json_pack("{si si si si si}", "class", (int)pci->class_code, "vendor", (int)pci->vendor, "device",
			 (int)pci->device, "subsystem_vendor", (int)pci->subsystem_vendor, "subsystem_device",
			 (int)pci->subsystem_device);
}

static json_t *gpu_of(const struct topology_gpu *gpu)
{
	return json_pack("{so so sb so so}", "index", known_int(gpu->index), "sm", json_known((uint64_t)gpu->sm), "gdr",
			 gpu->gdr, "mig", known_int(gpu->mig), "bar1_bytes", json_known(gpu->bar1_bytes));
}

static json_t *nic_of(const struct topology_nic *nic)
{
	return json_pack("{so si so so sb sb sb}", "interface", json_known_text(nic->interface), "port", nic->port,
			 "speed_Bps", json_known(nic->speed_Bps), "latency_ns", json_known(nic->latency_ns), "gdr",
			 nic->gdr, "rdma", nic->rdma, "collnet", nic->collnet);
}

static json_t *cpu_of(const struct topology_cpu *cpu)
{
	return json_pack("{so so so so so so}", "numa", known_int(cpu->numa), "architecture",
			 json_known_text(cpu->architecture), "vendor", json_known_text(cpu->vendor), "family",
			 known_int(cpu->family), "model", known_int(cpu->model), "affinity",
			 json_known_text(cpu->affinity));
}

static json_t *vertex_of(const struct topology_vertex *vertex)
{
	char words[TOPOLOGY_TEXT_BYTES + 80];
	json_t *value;

	view_vertex_words(vertex, words, sizeof(words));
	value = json_pack("{so ss so so so}", "name", json_text(vertex->name), "kind", topology_kind_word(vertex->kind),
			  "description", json_text(words), "bus_id", json_known_text(vertex->bus_id), "model",
			  json_known_text(vertex->model));
	if (vertex->pci.vendor)
		json_object_set_new(value, "pci", pci_of(&vertex->pci));
	if (vertex->kind == TOPOLOGY_GPU)
		json_object_set_new(value, "gpu", gpu_of(&vertex->gpu));
	if (vertex->kind == TOPOLOGY_NIC)
		json_object_set_new(value, "nic", nic_of(&vertex->nic));
	if (vertex->kind == TOPOLOGY_CPU || vertex->kind == TOPOLOGY_MEMORY)
		json_object_set_new(value, "cpu", cpu_of(&vertex->cpu));
	if (vertex->kind == TOPOLOGY_GPU || vertex->kind == TOPOLOGY_MEMORY)
		json_object_set_new(value, "memory_bytes", json_known(vertex->memory_bytes));
	return value;
}

static json_t *lane_of(const struct topology *topology, uint32_t directed)
{
	json_t *value = json_capacity(&topology->links[directed / 2].capacity[directed % 2]);
	char name[2 * TOPOLOGY_NAME_BYTES + 16];

	if (!topology_directed_name(topology, directed, name, sizeof(name)))
		json_object_set_new(value, "name", json_text(name));
	return value;
}

static json_t *link_of(const struct topology *topology, uint32_t index)
{
	const struct topology_link *link = &topology->links[index];
	char words[32], degraded[80];
	json_t *value;

	view_link_words(topology, link, words, sizeof(words));
	view_degraded(topology, link, degraded, sizeof(degraded));
	value = json_pack("{ss so so ss so si so so so}", "kind", topology_link_kind_word(link->kind), "lower",
			  json_text(name_of(topology, link->lower)), "upper", json_text(name_of(topology, link->upper)),
			  "description", words, "degraded", json_known_text(degraded), "count", (int)link->count,
			  "nominal_Bps", json_known(link->nominal_Bps), "up", lane_of(topology, 2 * index), "down",
			  lane_of(topology, 2 * index + 1));
	if (link->kind == TOPOLOGY_LINK_PCI)
		json_object_set_new(value, "pci",
				    json_pack("{so so so so so}", "generation", json_known(link->pci.generation),
					      "lanes", json_known(link->pci.lanes), "most_generation",
					      json_known(link->pci.most_generation), "most_lanes",
					      json_known(link->pci.most_lanes), "port",
					      json_known_text(link->pci.port)));
	return value;
}

static json_t *limit_of(const struct topology *topology, const struct topology_limit *limit)
{
	char name[2 * TOPOLOGY_NAME_BYTES + 16];
	json_t *members = json_array();

	for (size_t i = 0; i < limit->member_count; i++) {
		if (!topology_directed_name(topology, limit->members[i], name, sizeof(name)))
			json_array_append_new(members, json_text(name));
	}
	return json_pack("{so so so}", "name", json_text(limit->name), "capacity", json_capacity(&limit->capacity),
			 "members", members);
}

static json_t *pair_of(const struct topology *topology, const struct topology_pair *pair)
{
	return json_pack("{so so ss sb so so}", "from", json_text(name_of(topology, pair->from)), "to",
			 json_text(name_of(topology, pair->to)), "class",
			 topology_class_word(topology_class_of(topology, pair->from, pair->to)), "p2p_works",
			 pair->p2p_works, "p2p", json_capacity(&pair->p2p), "host", json_capacity(&pair->host));
}

json_t *json_topology(const struct topology *topology)
{
	json_t *vertices = json_array(), *links = json_array(), *limits = json_array(), *pairs = json_array();

	for (size_t i = 0; i < topology->vertex_count; i++)
		json_array_append_new(vertices, vertex_of(&topology->vertices[i]));
	for (uint32_t i = 0; i < topology->link_count; i++)
		json_array_append_new(links, link_of(topology, i));
	for (size_t i = 0; i < topology->limit_count; i++)
		json_array_append_new(limits, limit_of(topology, &topology->limits[i]));
	for (size_t i = 0; i < topology->pair_count; i++)
		json_array_append_new(pairs, pair_of(topology, &topology->pairs[i]));
	return json_pack("{so so so so so so}", "name", json_known_text(topology->name), "driver",
			 json_known_text(topology->driver), "vertices", vertices, "links", links, "limits", limits,
			 "pairs", pairs);
}
