/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/build.h"
#include "discover/config.h"
#include "discover/ask.h"
#include "discover/facts_internal.h"

#include "base/parse.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INTERFACES_MOST = 256, POLICIES_MOST = 4096, GOVERNORS_MOST = 8 };

#define UNKNOWN DISCOVER_UNKNOWN

/* -------------------------------------------------------------------------------------------------------- PCI devices */

static void add_acs(struct discover_collector *to, const char *bus_id, const struct discover_config *config)
{
	char text[DISCOVER_FACT_BYTES] = "";
	size_t used = 0;

	if (config->acs != DISCOVER_CONFIG_PRESENT) {
		discover_facts_add(to, "acs %s state=%s", bus_id,
				   config->acs == DISCOVER_CONFIG_ABSENT ? "none" : UNKNOWN);
		return;
	}
	for (unsigned i = 0; i < DISCOVER_ACS_BITS; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, " %s=%d", discover_acs_names[i],
					 config->acs_control >> i & 1);
	discover_facts_add(to, "acs %s state=known%s", bus_id, text);
}

static void count_group(struct discover_collector *to, const char *type)
{
	if (!strcmp(type, "identity"))
		to->identity++;
	else if (strcmp(type, UNKNOWN) != 0)
		to->translated++;
	else
		to->untyped++;
}

static void add_device(struct discover_collector *to, const char *bus_id, const char *name, bool port)
{
	uint8_t bytes[DISCOVER_CONFIG_BYTES];
	char driver[64], group[64], type[64] = UNKNOWN, express[160] = "";
	struct discover_config config;
	size_t count = 0;
	int64_t numa;

	if (discover_root_config(to->root, bus_id, bytes, &count) < 0)
		count = 0;
	discover_config_read(bytes, count, &config);
	if (discover_root_link(to->root, driver, sizeof(driver), "sys/bus/pci/devices/%s/driver", bus_id) < 0)
		snprintf(driver, sizeof(driver), "none");
	if (discover_root_link(to->root, group, sizeof(group), "sys/bus/pci/devices/%s/iommu_group", bus_id) < 0) {
		snprintf(group, sizeof(group), "none");
		snprintf(type, sizeof(type), "none");
	} else {
		discover_facts_word(to, type, sizeof(type), "sys/kernel/iommu_groups/", group, "/type");
		if (!port)
			count_group(to, type);
	}
	if (discover_root_number(to->root, &numa, "sys/bus/pci/devices/%s/numa_node", bus_id) < 0)
		numa = -1;
	if (config.express)
		snprintf(express, sizeof(express), " relaxed_ordering=%d payload=%u most_payload=%u read_request=%u",
			 config.relaxed_ordering, config.payload_bytes, config.most_payload_bytes,
			 config.read_request_bytes);
	else
		snprintf(express, sizeof(express),
			 " relaxed_ordering=" UNKNOWN " payload=" UNKNOWN " most_payload=" UNKNOWN
			 " read_request=" UNKNOWN);
	discover_facts_add(to, "device %s name=%s driver=%s iommu_group=%s iommu=%s numa=%" PRId64 "%s", bus_id, name,
			   driver, group, type, numa, express);
	if (port)
		add_acs(to, bus_id, &config);
}

static bool seen_before(const struct topology *topology, uint32_t link)
{
	for (uint32_t i = 0; i < link; i++)
		if (!strcmp(topology->links[i].pci.port, topology->links[link].pci.port))
			return true;
	return false;
}

static bool card_before(const struct topology *topology, uint32_t vertex)
{
	for (uint32_t i = 0; i < vertex; i++)
		if (!strcmp(topology->vertices[i].bus_id, topology->vertices[vertex].bus_id))
			return true;
	return false;
}

static void add_devices(struct discover_collector *to)
{
	const struct topology *topology = to->topology;

	for (uint32_t i = 0; i < topology->vertex_count; i++) {
		const struct topology_vertex *vertex = &topology->vertices[i];

		if (!*vertex->bus_id || vertex->kind == TOPOLOGY_BRIDGE || card_before(topology, i))
			continue;
		add_device(to, vertex->bus_id, vertex->name, false);
	}
	for (uint32_t i = 0; i < topology->vertex_count; i++)
		if (topology->vertices[i].kind == TOPOLOGY_GPU && topology->vertices[i].gpu.bar1_bytes)
			discover_facts_add(to, "bar1 %s bytes=%" PRIu64, topology->vertices[i].name,
					   topology->vertices[i].gpu.bar1_bytes);
	for (uint32_t i = 0; i < topology->link_count; i++)
		if (*topology->links[i].pci.port && !seen_before(topology, i))
			add_device(to, topology->links[i].pci.port, "port", true);
}

static void add_iommu(struct discover_collector *to)
{
	const char *state = "off";

	if (to->translated && to->identity)
		state = "mixed";
	else if (to->translated)
		state = "translated";
	else if (to->identity)
		state = "identity";
	else if (to->untyped)
		state = UNKNOWN;
	discover_facts_add(to, "iommu state=%s translated=%u identity=%u unknown=%u", state, to->translated,
			   to->identity, to->untyped);
}

/* ----------------------------------------------------------------------------------------------------------- interfaces */

static const struct topology_vertex *nic_of(const struct topology *topology, const char *interface)
{
	for (uint32_t i = 0; i < topology->vertex_count; i++)
		if (topology->vertices[i].kind == TOPOLOGY_NIC &&
		    !strcmp(topology->vertices[i].nic.interface, interface))
			return &topology->vertices[i];
	return NULL;
}

static void add_interface(struct discover_collector *to, char *name)
{
	char mtu[32], speed[32], state[32], duplex[32], driver[64], answer_name[96], most[32], pause_rx[16];
	char pause_tx[16], folder[] = "sys/class/net/";
	const struct topology_vertex *nic = nic_of(to->topology, name);
	char *answer = NULL;
	size_t bytes;

	discover_facts_word(to, mtu, sizeof(mtu), folder, name, "/mtu");
	discover_facts_word(to, speed, sizeof(speed), folder, name, "/speed");
	discover_facts_word(to, state, sizeof(state), folder, name, "/operstate");
	discover_facts_word(to, duplex, sizeof(duplex), folder, name, "/duplex");
	if (!strcmp(speed, "-1") || !strcmp(speed, "0"))
		snprintf(speed, sizeof(speed), UNKNOWN);
	if (discover_root_link(to->root, driver, sizeof(driver), "%s%s/device/driver", folder, name) < 0)
		snprintf(driver, sizeof(driver), "none");
	snprintf(answer_name, sizeof(answer_name), "ethtool/%.64s", name);
	if (discover_root_answer(to->root, answer_name, discover_ethtool_ask, name, &answer, &bytes) < 0)
		answer = NULL;
	discover_facts_value(answer, "most_Mbps", most, sizeof(most));
	discover_facts_value(answer, "pause_rx", pause_rx, sizeof(pause_rx));
	discover_facts_value(answer, "pause_tx", pause_tx, sizeof(pause_tx));
	discover_facts_add(
		to,
		"interface %s nic=%s mtu=%s speed_Mbps=%s most_Mbps=%s state=%s duplex=%s driver=%s pause_rx=%s "
		"pause_tx=%s",
		name, nic ? nic->name : "none", mtu, speed, most, state, duplex, driver, pause_rx, pause_tx);
	if (nic && nic->nic.rdma)
		discover_facts_roce(to, name, answer);
	free(answer);
}

static void add_interfaces(struct discover_collector *to)
{
	struct discover_names names;

	discover_root_list(to->root, &names, "sys/class/net");
	for (size_t i = 0; i < names.count && i < INTERFACES_MOST; i++)
		if (strcmp(names.at[i], "lo") != 0)
			add_interface(to, names.at[i]);
	discover_names_fini(&names);
}

/* -------------------------------------------------------------------------------------------------------------- system */

static void add_sysctls(struct discover_collector *to)
{
	static const char *const names[] = {
		"kernel/numa_balancing",
		"net/core/netdev_max_backlog",
		"net/core/rmem_max",
		"net/core/wmem_max",
		"net/ipv4/tcp_congestion_control",
		"net/ipv4/tcp_ecn",
		"net/ipv4/tcp_rmem",
		"net/ipv4/tcp_rto_min_us", /* since Linux 6.11 */
		"net/ipv4/tcp_sack",
		"net/ipv4/tcp_slow_start_after_idle",
		"net/ipv4/tcp_timestamps",
		"net/ipv4/tcp_window_scaling",
		"net/ipv4/tcp_wmem",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char name[64], value[256];

		discover_facts_word(to, value, sizeof(value), "proc/sys/", names[i], "");
		snprintf(name, sizeof(name), "%s", names[i]);
		for (char *slash = name; (slash = strchr(slash, '/'));)
			*slash = '.';
		discover_facts_add(to, "sysctl %s value=%s", name, value);
	}
}

/* "Max locked memory         8388608              8388608              bytes", or unlimited. */
static void add_memlock(struct discover_collector *to)
{
	char text[DISCOVER_TEXT_BYTES], soft[32], hard[32];
	const char *line = NULL;

	if (discover_root_read(to->root, text, sizeof(text), "proc/self/limits") == 0)
		line = strstr(text, "Max locked memory");
	if (line && sscanf(line + strlen("Max locked memory"), "%31s %31s", soft, hard) == 2)
		discover_facts_add(to, "memlock soft=%s hard=%s", soft, hard);
	else
		discover_facts_add(to, "memlock soft=" UNKNOWN " hard=" UNKNOWN);
}

static void add_governors(struct discover_collector *to)
{
	struct {
		char name[32];
		unsigned count;
	} governors[GOVERNORS_MOST];
	struct discover_names names;
	size_t count = 0;

	discover_root_list(to->root, &names, "sys/devices/system/cpu/cpufreq");
	for (size_t i = 0; i < names.count && i < POLICIES_MOST; i++) {
		char text[32];
		size_t at;

		if (strncmp(names.at[i], "policy", 6) != 0)
			continue;
		discover_facts_word(to, text, sizeof(text), "sys/devices/system/cpu/cpufreq/", names.at[i],
				    "/scaling_governor");
		for (at = 0; at < count && strcmp(governors[at].name, text) != 0; at++)
			;
		if (at == GOVERNORS_MOST)
			continue;
		if (at == count) {
			memcpy(governors[count].name, text, sizeof(text));
			governors[count++].count = 0;
		}
		governors[at].count++;
	}
	discover_names_fini(&names);
	for (size_t i = 0; i < count; i++)
		discover_facts_add(to, "governor %s policies=%u", governors[i].name, governors[i].count);
}

static void add_gpus(struct discover_collector *to, const struct discover_tree *tree, const struct gpu_inventory *gpus)
{
	if (gpus)
		discover_facts_add(to, "nvml state=works gpus=%zu", gpus->device_count);
	else
		discover_facts_add(to, "nvml state=none");
	for (size_t i = 0; gpus && i < gpus->device_count; i++)
		for (size_t j = 0; j < gpus->device_count; j++)
			if (i != j)
				discover_facts_add(to, "p2p gpu%u gpu%u status=%s", gpus->devices[i].index,
						   gpus->devices[j].index,
						   gpu_inventory_p2p_word(gpu_inventory_p2p(gpus, i, j)));
	for (uint32_t i = 0; i < tree->count; i++) {
		const struct discover_object *object = &tree->at[i];

		/* The driver does not show it to this process, or it has no slice. */
		if (object->type == HWLOC_XML_PCI && object->pci.vendor == 0x10de &&
		    object->pci.class_code >> 16 == 3 &&
		    topology_find_bus_id(to->topology, object->bus_id) == TOPOLOGY_NONE)
			discover_facts_add(to, "hidden-gpu %s reason=%s", object->bus_id,
					   discover_gpu_device(gpus, object->bus_id) ? "no-slices" : "driver");
	}
}

static void add_nodes(struct discover_collector *to, const struct discover_tree *tree)
{
	for (uint32_t i = 0; i < tree->count; i++) {
		const struct discover_object *object = &tree->at[i];

		if (object->type == HWLOC_XML_NODE && !object->has_cpus)
			discover_facts_add(to, "numa %d cpus=none memory_bytes=%" PRIu64, object->os_index,
					   object->memory_bytes);
		if (object->type == HWLOC_XML_BRIDGE && object->host_bridge && object->several_nodes)
			discover_facts_add(to, "locality %04x:%02x numa=" UNKNOWN, object->domain, object->secondary);
	}
}

/* --------------------------------------------------------------------------------------------------------------- whole */

int discover_facts_read(struct discover_root *root, const struct topology *topology, const struct discover_tree *tree,
			const struct gpu_inventory *gpus, struct discover_facts *ret)
{
	struct discover_collector collector = { .root = root, .topology = topology };
	int r;

	add_nodes(&collector, tree);
	if (root) {
		add_devices(&collector);
		add_iommu(&collector);
		add_interfaces(&collector);
		discover_facts_rdma(&collector);
		add_sysctls(&collector);
		add_memlock(&collector);
		add_governors(&collector);
		add_gpus(&collector, tree, gpus);
	}
	r = collector.result;
	if (!r && (root || collector.count))
		r = discover_facts_join(&collector, ret);
	for (size_t i = 0; i < collector.count; i++)
		free(collector.lines[i]);
	free(collector.lines);
	return r;
}
